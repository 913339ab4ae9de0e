"""What is generated: a program, the shape of input it is made for, and where it keeps what it stores."""

from __future__ import annotations

from dataclasses import dataclass, field

from tocsin.engine.derive import Derived
from tocsin.engine.runtime import words
from tocsin.plan.block import Block
from tocsin.plan.expr import Op, User

STATE = ", ".join(words.STATE)  # the arrays of the state
WHOLE = f"{STATE}, nulls"  # what the functions of a kernel pass on as one tuple, S; nulls is 0 if no mask need be read
WITHDRAWN = "$withdrawn"  # the block of `marks` that says which rows are withdrawals
NEW, DELTA = 0, 1  # modes of the nest
FAILS, HOLDS, WAITS = 0, 1, 2  # status of a binding


@dataclass(frozen=True, slots=True)
class Shape:
    """What the kernel may rely on about its input, known at the first push."""

    intervals: bool
    eids: bool  # without eids no event can be withdrawn
    hold: bool = False  # True: answers wait for guarantees, type by type, and not for the clock


@dataclass(slots=True)
class Stored:
    """Where an attribute of a leaf is kept: a word of H or HF, and the bit that says that it is null.

    Bits are counted through the mask words of an event, MASK_BITS in each; None: the attribute is never null.
    """

    array: str
    row: int
    bit: int | None
    is_optional: bool = False  # one of several alternatives: it may be null though no attribute ever was


MOST_COMPILED = 24  # steps; the time to compile grows with their square
MASK_BITS = 62  # of a mask word: more would reach the sign, and a literal that Numba takes for unsigned


@dataclass(slots=True)
class Program:
    """A generated kernel and all the host must know to feed it."""

    source: str
    block: Block
    shape: Shape
    leaf_ids: tuple[int, ...]  # the leaves that keep events, in the order of their buffers
    shared: tuple[tuple[int, int], ...]  # other leaves, each with the one whose events it looks at
    nest: tuple[int, ...]  # fixed root leaves in nest order: the order of OUT columns and pins
    repeated: tuple[int, ...]  # repeated root leaves: pairs of OUT columns
    types: tuple[str, ...]  # local type numbers
    columns: tuple[tuple[str, bool, bool], ...]  # batch columns: attribute, is float, may be null
    marks: tuple[str, ...]  # the blocks of the column `marks` of careful(): WITHDRAWN, and attributes that may be null
    derived: tuple[Derived, ...]
    ints: tuple[int | str, ...]  # the window, then integer literals; texts become codes
    floats: tuple[float, ...]
    keyed: bool
    waits: bool
    holds: bool
    ranks: bool  # texts are compared by order
    words: int  # words of H per stored event
    head: int  # words of PD before the events of a waiting answer
    span: int | None  # how far behind the clock events are needed; None: for ever
    foreign: tuple[Op | User, ...]  # called from the plain body only
    asked: tuple[User, ...]  # calls of user functions that are compiled into the kernel
    asked_with: tuple[tuple[tuple[bool, int], ...], ...]  # where each leaves its arguments: whether among floats, place
    batch_args: str
    functions: tuple[tuple[str, str], ...]  # inner functions in order, with the types of their arguments: i f b S
    tables: dict[str, tuple[int, ...]]
    leaf_lists: tuple[tuple[int, ...], ...]  # leaves that an event of each local type may fill
    has_tails: bool  # MEM is a ring of tails (`codegen/tails`)
    key: str = field(default="")

    @property
    def inlined(self) -> tuple[str, ...]:
        """The names of user functions that are compiled into the kernel."""
        return tuple(dict.fromkeys(call.name for call in self.asked))

    @property
    def plain_only(self) -> bool:
        return bool(self.foreign) or self.is_long

    @property
    def is_long(self) -> bool:
        """Whether the pattern has so many steps that compiling it would take minutes."""
        return len(self.leaf_ids) + len(self.shared) > MOST_COMPILED

    @property
    def width(self) -> int:
        """How many columns OUT has."""
        return 2 + len(self.nest) + 2 * len(self.repeated)
