"""After a match: the operators of AFTER MATCH SKIP, DISTINCT BY and LIMIT, one around the other in that order.

Each is a rule for one key (`select/per_key`). What tells matches apart is part of the key, so a state is one number:
the end of what was taken, or a count. It is forgotten once no match can come that would ask for it. Where answers are
final, a match that the state of its key drops already is not even kept until its turn comes (`hopeless`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np

from tocsin.engine.changes import ChangeBatch
from tocsin.engine.operator import Operator
from tocsin.functions import Function
from tocsin.plan.after_match import AfterMatch, Grouping, Limiting, Skipping
from tocsin.plan.block import Plan
from tocsin.plan.expr import Bound, leaves
from tocsin.select.per_key import PerKey, Rule

FEW = 64  # matches that are looked at one by one
Keys: TypeAlias = Callable[[ChangeBatch], Sequence[tuple[Any, ...]]]
Values: TypeAlias = Callable[[ChangeBatch], Sequence[int | None]]


def clause_operators(
    inner: Operator, plan: Plan, functions: Mapping[str, Function], *, corrects: bool, reach: int | None
) -> Iterator[PerKey]:
    """The operators of a query's clauses, from the inside out; the last one answers for all.

    corrects  the strategy answers at once and retracts
    reach     how long others may ask again which matches were kept (see PerKey)
    """
    after = plan.after
    assert after is not None
    rules = list(_rules(after, plan.within))
    for number, (rule, key, value) in enumerate(rules, 1):
        remembered = reach if number == len(rules) else 0
        made = PerKey(inner, rule, key, plan, functions, at_once=corrects, value=value, reach=remembered)
        yield made
        inner = made


def _rules(after: AfterMatch, within: int | None) -> Iterator[tuple[Rule, Keys, Values | None]]:
    """For each clause its rule, what its keys are, and what it looks at beside the span of a match."""
    if after.skip is not None:
        yield _skipping(after.skip, after.key, within)
    if after.distinct is not None:
        yield Separated(after.distinct.every), _grouped((*after.key, *after.distinct.by)), None
    if after.limit is not None:
        yield AtMost(after.limit.most, after.limit.every), _in_spans(after.limit), None


def _skipping(skip: Skipping, key: tuple[Grouping, ...], within: int | None) -> tuple[Rule, Keys, Values | None]:
    match skip.to:
        case "past last":
            return SkipPast(within), _grouped(key), None
        case "next":
            return OncePerStart(within), _with_first_event(key), None
    assert skip.variable is not None
    return SkipTo(within), _grouped(key), _starts(skip.variable, last=skip.to == "last")


# --- the rules ------------------------------------------------------------------------------------------------------


def _starts_from(until: int, within: int | None) -> int | None:
    """Where matches can start that end after `until`; None: anywhere."""
    return None if within is None else until + 1 - within


@dataclass(frozen=True, slots=True)
class SkipPast:
    """Keep a match that starts after the end of the last one that was taken; the state is that end."""

    within: int | None

    def begin(self) -> int | None:
        return None

    def step(self, state: int | None, start: int, end: int, *value: Any) -> tuple[int | None, bool]:
        del value
        return (state, False) if self.hopeless(state, start, end) else (end, True)

    def hopeless(self, state: int | None, start: int, end: int) -> bool:
        del end
        return state is not None and start <= state

    def forget(self, state: int | None, until: int) -> int | None:
        first = _starts_from(until, self.within)
        return None if state is None or (first is not None and first > state) else state


@dataclass(frozen=True, slots=True)
class SkipTo:
    """Keep a match that starts at or after the events that taken ones skip to; the state is the last such start."""

    within: int | None

    def begin(self) -> int | None:
        return None

    def step(self, state: int | None, start: int, end: int, *value: Any) -> tuple[int | None, bool]:
        if self.hopeless(state, start, end):
            return state, False
        aim = value[0]
        return (state if aim is None else aim if state is None else max(state, aim)), True

    def hopeless(self, state: int | None, start: int, end: int) -> bool:
        del end
        return state is not None and start < state

    def forget(self, state: int | None, until: int) -> int | None:
        first = _starts_from(until, self.within)
        return None if state is None or (first is not None and first >= state) else state


@dataclass(frozen=True, slots=True)
class OncePerStart:
    """Keep one match; its first event is part of the key, and the state is the start of that event."""

    within: int | None

    def begin(self) -> int | None:
        return None

    def step(self, state: int | None, start: int, end: int, *value: Any) -> tuple[int | None, bool]:
        del value
        return start, not self.hopeless(state, start, end)

    def hopeless(self, state: int | None, start: int, end: int) -> bool:
        del start, end
        return state is not None

    def forget(self, state: int | None, until: int) -> int | None:
        first = _starts_from(until, self.within)
        return None if state is None or (first is not None and first > state) else state


@dataclass(frozen=True, slots=True)
class Separated:
    """Keep a match that ends `every` ticks or more after the last one that was taken; the state is that one's end."""

    every: int | None

    def begin(self) -> int | None:
        return None

    def step(self, state: int | None, start: int, end: int, *value: Any) -> tuple[int | None, bool]:
        del value
        return (state, False) if self.hopeless(state, start, end) else (end, True)

    def hopeless(self, state: int | None, start: int, end: int) -> bool:
        del start
        return state is not None and (self.every is None or end - state < self.every)

    def forget(self, state: int | None, until: int) -> int | None:
        over = state is None or (self.every is not None and until + 1 - state >= self.every)
        return None if over else state


@dataclass(frozen=True, slots=True)
class AtMost:
    """Keep so many matches; the span of time is part of the key. The state is their number, and an end among them."""

    most: int
    every: int | None

    def begin(self) -> tuple[int, int] | None:
        return None

    def step(
        self, state: tuple[int, int] | None, start: int, end: int, *value: Any
    ) -> tuple[tuple[int, int] | None, bool]:
        del value
        if self.hopeless(state, start, end):
            return state, False
        return (1 if state is None else state[0] + 1, end), True

    def hopeless(self, state: tuple[int, int] | None, start: int, end: int) -> bool:
        del start, end
        return state is not None and state[0] >= self.most

    def forget(self, state: tuple[int, int] | None, until: int) -> tuple[int, int] | None:
        if state is None or self.every is None:
            return state
        return None if (until + 1) // self.every > state[1] // self.every else state


# --- what matches are told apart by -----------------------------------------------------------------------------------


def _grouped(groups: Sequence[Grouping]) -> Keys:
    def keys(batch: ChangeBatch) -> Sequence[tuple[Any, ...]]:
        columns = [_column(batch, group) for group in groups]
        return list(zip(*columns, strict=True)) if columns else [()] * len(batch)

    return keys


def _in_spans(limit: Limiting) -> Keys:
    """The values of PER, and the span of time in which a match ends."""
    plain, every = _grouped(limit.per), limit.every

    def keys(batch: ChangeBatch) -> Sequence[tuple[Any, ...]]:
        spans = [0] * len(batch) if every is None else (batch.span[1] // every).tolist()
        return [(*key, span) for key, span in zip(plain(batch), spans, strict=True)]

    return keys


def _with_first_event(key: Sequence[Grouping]) -> Keys:
    """The key, and which event is the first: its times, the two numbers of its eid, its type."""
    plain = _grouped(key)

    def keys(batch: ChangeBatch) -> Sequence[tuple[Any, ...]]:
        rows = batch.rows
        types = rows.shown["type"].to_pylist()
        columns = (rows.start, rows.end, *rows.names)
        events = list(zip(*(column.tolist() for column in columns), types, strict=True))
        bound = [batch.events_at(index) for index in batch.visible]
        firsts = [min(events[at] for each in bound for at in each[row]) for row in range(len(batch))]
        return [(*own, *first) for own, first in zip(plain(batch), firsts, strict=True)]

    return keys


def _starts(variable: int, *, last: bool) -> Values:
    """Where the first or last event of a variable starts; None where the variable is not bound."""

    def starts(batch: ChangeBatch) -> Sequence[int | None]:
        start = batch.rows.start
        return [int(start[at[-1 if last else 0]]) if at else None for at in batch.events_at(variable)]

    return starts


def _column(batch: ChangeBatch, group: Grouping) -> list[Hashable]:
    """The value of each match: the first that is not null, in a form that does not depend on how it is stored."""
    found: list[Hashable] = [None] * len(batch)
    for expr in group:
        if all(value is not None for value in found):
            break
        more = _values(batch, expr)
        found = [value if old is None else old for old, value in zip(found, more, strict=True)]
    return found


def _values(batch: ChangeBatch, expr: Bound) -> list[Hashable]:
    """The value of an expression for each match; one that asks one event is computed once for each event."""
    asked = leaves(expr)
    if len(batch) < FEW or len(asked) != 1 or min(asked) in batch.repeated:
        return [normal(value) for value in batch.values(expr)]
    _, first, inverse = np.unique(batch.fixed[min(asked)], return_index=True, return_inverse=True)
    values = [normal(value) for value in batch.pick(first).values(expr)]
    return [values[at] for at in inverse.tolist()]


def normal(value: Any) -> str | bool | None:
    """A value as a text: equal numbers have equal texts, whether they are whole numbers, floats or decimals.

    >>> normal(2), normal(2.0), normal(Decimal("2.50")), normal(2.5), normal(float("nan")), normal(-0.0)
    ('2', '2', '2.5', '2.5', 'nan', '0')
    """
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    if isinstance(value, Decimal):
        return str(int(value)) if value == value.to_integral_value() else format(value.normalize(), "f")
    return str(value)
