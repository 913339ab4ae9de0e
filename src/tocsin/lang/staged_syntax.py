"""The syntax nodes of a staged statement (`CreateCE`): frozen, hashable, compared without their place in the text.

Nodes say what was written and nothing more. The parser, the printer, the static checks, the executable definition and
the operator all speak in these nodes. Words are those of O'Keeffe 2010 (UCAM-CL-TR-783).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from decimal import Decimal
from typing import Literal as Choice
from typing import TypeAlias

from tocsin.lang.syntax import Duration, Literal, Span


def _place() -> Span | None:
    return field(default=None, compare=False, repr=False, kw_only=True)


# --- expressions -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AttrOf:
    """`A.x`: an attribute of a role; in the condition of a role itself also `x`, without a name."""

    name: str | None
    attr: str
    span: Span | None = _place()


@dataclass(frozen=True, slots=True)
class TimeOf:
    """`start-ts(A)`, `end-ts(A)`, `sst(A)`."""

    which: Choice["start-ts", "end-ts", "sst"]
    name: str
    span: Span | None = _place()


@dataclass(frozen=True, slots=True)
class StableTime:
    """`stable-time`: the time of the current stage."""

    span: Span | None = _place()


@dataclass(frozen=True, slots=True)
class IfNull:
    """`Is-Null(A.x, 0)`: the attribute, or the literal where it is Null."""

    of: AttrOf
    instead: Literal
    span: Span | None = _place()


@dataclass(frozen=True, slots=True)
class Arithmetic:
    op: Choice["+", "-", "*", "/"]
    left: StagedExpr
    right: StagedExpr
    span: Span | None = _place()


@dataclass(frozen=True, slots=True)
class Negative:
    of: StagedExpr
    span: Span | None = _place()


@dataclass(frozen=True, slots=True)
class Compared:
    op: Choice["=", "!=", "<", ">", "<=", ">="]
    left: StagedExpr
    right: StagedExpr
    span: Span | None = _place()


@dataclass(frozen=True, slots=True)
class Logical:
    op: Choice["AND", "OR"]
    left: StagedExpr
    right: StagedExpr
    span: Span | None = _place()


@dataclass(frozen=True, slots=True)
class Denied:
    """`NOT condition`"""

    of: StagedExpr
    span: Span | None = _place()


@dataclass(frozen=True, slots=True)
class EventsOf:
    """The events of a role by themselves, inside `Count`."""

    name: str
    span: Span | None = _place()


@dataclass(frozen=True, slots=True)
class Collection:
    """What an aggregate runs over: `A.x`, `Set(A.x)`, `Bag(Max(A.x))`, `Set A`."""

    of: AttrOf | IfNull | EventsOf | AggregateOf
    mark: Choice["Set", "Bag"] | None = None
    span: Span | None = _place()


@dataclass(frozen=True, slots=True)
class UnionOf:
    left: Collection | UnionOf
    right: Collection
    span: Span | None = _place()


@dataclass(frozen=True, slots=True)
class AggregateOf:
    """`Max(collection)`; the functions are those in AGGREGATE_FUNCTIONS."""

    function: str
    of: Collection | UnionOf
    span: Span | None = _place()


AGGREGATE_FUNCTIONS = ("Max", "Min", "Sum", "Avg", "Median", "Count")

StagedExpr: TypeAlias = "Literal | AttrOf | TimeOf | StableTime | IfNull | Arithmetic | Negative | Compared | Logical | Denied | AggregateOf"  # noqa: E501 - one union

# --- patterns ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Quantifier:
    """Which events of an operand's list are selected: `all`, or `[strict] new|old (max n | +) [staged]`."""

    every: bool = False  # `all`
    age: Choice["new", "old"] = "new"
    most: int | None = None
    strict: bool = False
    staged: bool = False


@dataclass(frozen=True, slots=True)
class LeafOperand:
    """An event type as an operand, with what it collects (rows, stages, range), selects and consumes."""

    type: str
    label: str | None = None
    conditions: tuple[StagedExpr, ...] = ()
    rows: int | None = None
    stages: int | None = None
    range: Duration | None = None
    quantifier: Quantifier = Quantifier()
    consume: bool = False
    weight: int | Decimal | None = None
    span: Span | None = _place()

    @property
    def called(self) -> str:
        return self.label or self.type


Mode: TypeAlias = Choice["immediate", "deferred", "delayed"]
OPTIONS = ("active", "distinct", "incremental", "repeat")  # of the whole pattern: how it is looked for at a stage

LISTS = ("Sequence", "And", "Or", "Concurrent", "Not", "Unless")
COUNTING = ("Nth", "AtLeast", "AtMost")
TIMED = ("At", "Every", "After")
ONLY = ""  # the operator of a leaf in parentheses: `(A)<deferred>`


@dataclass(frozen=True, slots=True)
class AfterSize:
    """`[rows 2, add]`: how many sources of After may be pending, and what a newcomer does when they are."""

    unit: Choice["rows", "stages"]
    most: int
    add: bool


@dataclass(frozen=True, slots=True)
class OperatorCall:
    """One of the twelve operators. `count` is for counting ones, `interval` for Every and After, `pattern` for At.

    options  of the whole pattern, those of OPTIONS that are wanted, in that order
    """

    operator: str
    operands: tuple[StagedPattern, ...] = ()
    mode: Mode | None = None
    label: str | None = None
    count: int | None = None
    interval: Duration | None = None
    pattern: str | None = None
    size: AfterSize | None = None
    options: tuple[str, ...] = ()
    span: Span | None = _place()


@dataclass(frozen=True, slots=True)
class NestedBlock:
    """`{ Init ... Event ... Term ... }`: an operand with contexts and keys of its own."""

    pattern: StagedPattern
    inits: tuple[Initiator, ...] = ()
    terms: tuple[Terminator, ...] = ()
    gkeys: tuple[PartitionKey, ...] = ()
    lkeys: tuple[PartitionKey, ...] = ()
    span: Span | None = _place()


StagedPattern: TypeAlias = "LeafOperand | OperatorCall | NestedBlock"

# --- clauses -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Initiator:
    """`Start` (without a type), or an event type that opens contexts; with `add` also beside open ones."""

    type: str | None = None
    label: str | None = None
    conditions: tuple[StagedExpr, ...] = ()
    add: bool = False
    span: Span | None = _place()

    @property
    def called(self) -> str:
        return self.label or self.type or "Start"


@dataclass(frozen=True, slots=True)
class Terminator:
    """A duration or an event type that closes contexts.

    which    which of the open ones an event closes; `each` closes all as soon as one matches
    number   the number in `24 hrs <old 1>`, which means nothing
    discard  nothing is detected when it closes
    """

    type: str | None = None
    after: Duration | None = None
    label: str | None = None
    conditions: tuple[StagedExpr, ...] = ()
    which: Choice["each", "new", "old", "each-matching"] = "each"
    number: int | None = None
    discard: bool = False
    span: Span | None = _place()

    @property
    def called(self) -> str:
        return self.label or self.type or "a duration"


@dataclass(frozen=True, slots=True)
class KeyEntry:
    """`A.k`, or `*.k` (without a name): the attribute that is the key of a role."""

    name: str | None
    attr: str
    span: Span | None = _place()


@dataclass(frozen=True, slots=True)
class KeyRange:
    """`7`, `{1, 2}`, `1..5` (inclusive) or `Rest`: some values of a key that are one partition together."""

    values: tuple[Literal, ...] = ()
    between: tuple[Literal, Literal] | None = None
    label: str | None = None
    span: Span | None = _place()

    @property
    def is_rest(self) -> bool:
        return not self.values and self.between is None


@dataclass(frozen=True, slots=True)
class PartitionKey:
    """One GKey or LKey clause."""

    entries: tuple[KeyEntry, ...]
    name: str | None = None
    ranges: tuple[KeyRange, ...] = ()
    span: Span | None = _place()


@dataclass(frozen=True, slots=True)
class DetectPolicy:
    """`DETECT GUARANTEED TIMEOUT 5 s`"""

    kind: str
    timeout: Duration | None = None
    level: Decimal | int | None = None
    span: Span | None = _place()


@dataclass(frozen=True, slots=True)
class OutputColumn:
    expr: StagedExpr
    name: str | None = None
    span: Span | None = _place()


@dataclass(frozen=True, slots=True)
class Statement:
    """`CreateCE name` with its clauses; `mapping` is the word after Select, if there is one."""

    name: str
    pattern: StagedPattern
    select: tuple[OutputColumn, ...] = ()
    mapping: Choice["tuple", "group"] | None = None
    inits: tuple[Initiator, ...] = ()
    where: StagedExpr | None = None
    terms: tuple[Terminator, ...] = ()
    gkeys: tuple[PartitionKey, ...] = ()
    lkeys: tuple[PartitionKey, ...] = ()
    policy: DetectPolicy | None = None
    span: Span | None = _place()
    text: str = field(default="", compare=False, repr=False, kw_only=True)

    @property
    def options(self) -> tuple[str, ...]:
        """How the pattern is looked for at a stage: `And(A, B)<incremental, distinct>`."""
        return self.pattern.options if isinstance(self.pattern, OperatorCall) else ()

    @property
    def hidden(self) -> bool:
        """Whether its events are for later queries only: never, as there is no word for it."""
        return False

    def __str__(self) -> str:
        from tocsin.lang.staged_printer import to_text

        return to_text(self)


def parts(node: object) -> Iterator[object]:
    """A node and all nodes below it, in the order of the text."""
    yield node
    for each in fields(node) if hasattr(node, "__dataclass_fields__") else ():  # type: ignore[arg-type]
        value = getattr(node, each.name)
        for child in value if isinstance(value, tuple) else (value,):
            if hasattr(child, "__dataclass_fields__"):
                yield from parts(child)
