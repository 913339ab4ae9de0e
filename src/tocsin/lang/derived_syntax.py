"""The syntax nodes of a definition of intervals (`INTERVALS`): frozen, hashable, compared without their place."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, is_dataclass, replace
from hashlib import blake2b
from typing import Any, Literal, TypeVar

from tocsin.lang.syntax import Attr, Call, Duration, Expr, Name, SelectItem, Span

POLICIES = ("nested", "queued", "outermost", "restart")
FOLDS = ("count", "min", "max", "first", "last")  # what SELECT may ask of the readings of an interval
READING = "reading"  # the variable under which conditions speak of a reading, once names are attributes
Policy = Literal["nested", "queued", "outermost", "restart"]
T = TypeVar("T")


def _place() -> Any:
    return field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Reading:
    """`Type : condition` behind FROM or TO. Of other events of the type the definition sees nothing."""

    type: str
    where: Expr | None = None
    span: Span | None = _place()


@dataclass(frozen=True, slots=True)
class State:
    """`HIGH WHEN temperature > 100`: a state that a reading may show, and what its intervals are called."""

    label: str
    when: Expr
    span: Span | None = _place()


@dataclass(frozen=True, slots=True)
class Intervals:
    """`INTERVALS name FROM ...`: runs of a state, sessions, or pairs of a begin and an end.

    A run has `states`, a session a `gap`, a pair has `ends`. Names in conditions and in SELECT are attributes of the
    readings.

    end_last  a run ends at its own last reading, not at the first of what follows it
    max_gap   and it ends there in any case if the next reading comes later than so
    """

    name: str
    readings: tuple[Reading, ...]
    ends: tuple[Reading, ...] = ()
    by: tuple[str, ...] = ()
    states: tuple[State, ...] = ()
    gap: Duration | None = None
    end_last: bool = False
    max_gap: Duration | None = None
    policy: Policy = "nested"
    select: tuple[SelectItem, ...] = ()
    hidden: bool = False
    span: Span | None = _place()
    text: str = field(default="", compare=False, repr=False, kw_only=True)

    @property
    def labels(self) -> tuple[str, ...]:
        """What its intervals are called beside its own name, each once."""
        return tuple(dict.fromkeys(state.label for state in self.states))

    @property
    def identity(self) -> str:
        """32 hex digits that tell which intervals are derived: the canonical text without what SELECT shows of them."""
        text = str(replace(self, select=(), hidden=False))
        return blake2b(text.encode(), digest_size=16).hexdigest()

    def __str__(self) -> str:
        from tocsin.lang.derived_printer import print_intervals

        return print_intervals(self)


def column_name(item: SelectItem) -> str:
    """What a column of SELECT is called: as given, else by its fold and attribute, `max_value`."""
    if item.name is not None or not isinstance(item.expr, Call):
        return item.name or ""
    return "_".join([item.expr.function, *(arg.name for arg in item.expr.args if isinstance(arg, Name))])


def of_reading(expr: T, var: str = READING) -> T:
    """An expression in which every name is an attribute of the reading: `value > 5` is `reading.value > 5`.

    >>> of_reading(Name("value"))
    Attr(var='reading', name='value')
    """
    if isinstance(expr, Name):
        return Attr(var, expr.name, span=expr.span)  # type: ignore[return-value]
    if isinstance(expr, tuple):
        return tuple(of_reading(each, var) for each in expr)  # type: ignore[return-value]
    if not is_dataclass(expr) or isinstance(expr, type):
        return expr
    below = {each.name: getattr(expr, each.name) for each in fields(expr) if each.name not in ("span", "text")}
    return replace(expr, **{name: of_reading(value, var) for name, value in below.items()})
