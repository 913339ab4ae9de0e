"""What is generated: a program, the shape of input it is made for, and where it keeps what it stores."""

from __future__ import annotations

from dataclasses import dataclass, field

from tocsin.engine.derive import Derived
from tocsin.plan.block import Block
from tocsin.plan.expr import Op, User

STATE = "T, H, HF, D, N, KM, PD, OUT, MEM, LF, RK"  # passed between the functions of a kernel as one tuple, S
NEW, DELTA = 0, 1  # modes of the nest
FAILS, HOLDS, WAITS = 0, 1, 2  # status of a binding


@dataclass(frozen=True, slots=True)
class Shape:
    """What the kernel may rely on about its input."""

    intervals: bool
    eids: bool
    signs: bool = False
    nulls: bool = True  # False: no attribute was ever null
    hold: bool = False  # True: answers wait for guarantees, type by type, and not for the clock


@dataclass(slots=True)
class Stored:
    """Where an attribute of a leaf is kept: a row of H ("i") or HF ("f"), and its bit in the row of nulls."""

    array: str
    row: int
    bit: int | None
    tested: bool = True  # False: never null as far as this kernel goes


@dataclass(slots=True)
class Program:
    """A generated kernel and all the host must know to feed it."""

    source: str
    block: Block
    shape: Shape
    leaf_ids: tuple[int, ...]  # buffer number of each leaf
    nest: tuple[int, ...]  # fixed root leaves in nest order: the order of OUT columns and pins
    repeated: tuple[int, ...]  # repeated root leaves: pairs of OUT columns
    types: tuple[str, ...]  # local type numbers
    columns: tuple[tuple[str, bool, bool], ...]  # batch columns: attribute, is float, may be null
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
    inlined: tuple[str, ...]  # user functions compiled into the kernel
    batch_args: str
    functions: tuple[tuple[str, str], ...]  # inner functions in order, with the types of their arguments: i f b S
    tables: dict[str, tuple[int, ...]]
    leaf_lists: tuple[tuple[int, ...], ...]  # leaves that an event of each local type may fill
    key: str = field(default="")

    @property
    def plain_only(self) -> bool:
        return bool(self.foreign)

    @property
    def width(self) -> int:
        return 2 + len(self.nest) + 2 * len(self.repeated)
