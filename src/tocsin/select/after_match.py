"""After a match: the operators of AFTER MATCH SKIP, DISTINCT BY and LIMIT, one around the other in that order.

Each is a rule for one key (`select/per_key`). What tells matches apart is part of the key, so a state is one number:
the end of what was taken, or a count. It is forgotten once no match can come that would ask for it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tocsin.engine.changes import ChangeBatch
from tocsin.engine.operator import Operator
from tocsin.engine.payload import whole
from tocsin.functions import Function
from tocsin.items import Ints
from tocsin.plan.after_match import AfterMatch, Grouping, Limiting, Skipping
from tocsin.plan.block import Plan
from tocsin.plan.expr import Bound, Col, leaves
from tocsin.schema import EID, TYPE, Kind
from tocsin.select.completion_order import first_events
from tocsin.select.loops.choosing import APART, FOR_EVER, MOST, ONCE, PAST, TO, stepped
from tocsin.select.loops.words import EMPTY
from tocsin.select.per_key import Choice, PerKey
from tocsin.select.rolled_back import Key, RolledBack
from tocsin.select.settled_matches import Aims, KeyPart, KeyParts, SettledMatches

FEW = 64  # matches that are looked at one by one
Chosen: TypeAlias = "tuple[ClauseRule, KeyParts, Aims | None]"
PLAIN = (Kind.INT, Kind.FLOAT, Kind.BOOL, Kind.TEXT)  # kinds of columns whose values are taken as they are


def clause_operators(
    inner: Operator, plan: Plan, functions: Mapping[str, Function], *, corrects: bool, reach: int | None, jit: bool
) -> Iterator[PerKey]:
    """The operators of a query's clauses, from the inside out; the last one answers for all.

    corrects  the strategy answers at once and retracts
    reach     how long others may ask again which matches were kept (see PerKey)
    """
    after = plan.after
    assert after is not None
    rules = list(_rules(after, plan.within))
    for number, (rule, parts, value) in enumerate(rules, 1):
        remembered = reach if number == len(rules) else 0
        keys = _keys(parts)
        choice: Choice = (
            RolledBack(rule, keys, None if value is None else _listed(value), at_once=True)
            if corrects
            else SettledMatches(rule, parts, value, jit=jit)
        )
        made = PerKey(inner, rule, keys, plan, functions, at_once=corrects, reach=remembered, choice=choice)
        yield made
        inner = made


def _rules(after: AfterMatch, within: int | None) -> Iterator[Chosen]:
    """For each clause its rule, what its keys are, and what it looks at beside the span of a match."""
    if after.skip is not None:
        yield _skipping(after.skip, after.key, within)
    if after.distinct is not None:
        every = after.distinct.every
        yield ClauseRule(APART, FOR_EVER if every is None else every), _by((*after.key, *after.distinct.by)), None
    if after.limit is not None:
        yield CountRule(MOST, after.limit.most, every=after.limit.every), _in_spans(after.limit), None


def _skipping(
    skip: Skipping, key: tuple[Grouping, ...], within: int | None
) -> tuple[ClauseRule, KeyParts, Aims | None]:
    match skip.to:
        case "past last":
            return ClauseRule(PAST, within=within), _by(key), None
        case "next":
            return ClauseRule(ONCE, within=within), _with_first_event(key), None
    assert skip.variable is not None
    return ClauseRule(TO, within=within), _by(key), _starts(skip.variable, last=skip.to == "last")


# --- the rules ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ClauseRule:
    """A rule of `select/loops/choosing` for one key, as loops have it and as `select/rolled_back` does.

    A state in plain values is None where no match was taken, else the number that decides.

    within  the window of the query: no match is longer
    every   of LIMIT: the span of time, which is part of the key
    """

    kind: int
    size: int = 0
    within: int | None = None
    every: int | None = None

    def words(self, state: Any) -> tuple[int, int]:
        """The state of a key as the loop has it."""
        return (EMPTY, EMPTY) if state is None else (state, state)

    def plain(self, x: int, y: int) -> Any:
        """The state of a key in plain values, as it is saved."""
        del y
        return None if x == EMPTY else x

    def over(self, x: Any, y: Any, until: int) -> Any:
        """Whether nothing is left of a state once every later match ends after `until`; for numbers or arrays."""
        del y
        if self.kind == APART:
            return False if self.size == FOR_EVER else until + 1 - x >= self.size
        if self.within is None:
            return False
        first = until + 1 - self.within  # where matches can start that end after `until`
        return first >= x if self.kind == TO else first > x

    # --- for one key, in plain values ---

    def begin(self) -> int | None:
        return None

    def step(self, state: Any, start: int, end: int, *value: Any) -> tuple[Any, bool]:
        x, y, kept = stepped(self.kind, self.size, *self.words(state), start, end, value[0] if value else EMPTY)
        return self.plain(x, y), kept

    def forget(self, state: Any, until: int) -> Any:
        return None if state is None or self.over(*self.words(state), until) else state


@dataclass(frozen=True, slots=True)
class CountRule(ClauseRule):
    """LIMIT: a state is the number of matches that were taken, and where the last of them ends."""

    def begin(self) -> tuple[int, int] | None:  # type: ignore[override]
        return None

    def words(self, state: Any) -> tuple[int, int]:
        return (EMPTY, EMPTY) if state is None else (state[0], state[1])

    def plain(self, x: int, y: int) -> Any:
        return None if x == EMPTY else (x, y)

    def over(self, x: Any, y: Any, until: int) -> Any:
        del x
        return False if self.every is None else (until + 1) // self.every > y // self.every


# --- what matches are told apart by -----------------------------------------------------------------------------------


def _keys(parts: KeyParts) -> Callable[[ChangeBatch], Sequence[Key]]:
    """The key of each match: the values of its parts, one behind the other."""

    def keys(batch: ChangeBatch) -> Sequence[Key]:
        columns = [[values[code] for code in codes.tolist()] for codes, values in parts(batch)]
        return [sum(key, ()) for key in zip(*columns, strict=True)] if columns else [()] * len(batch)

    return keys


def _listed(aims: Aims) -> Callable[[ChangeBatch], Sequence[int]]:
    return lambda batch: aims(batch).tolist()


def _by(groups: Sequence[Grouping]) -> KeyParts:
    return lambda batch: [_part(batch, group) for group in groups]


def _in_spans(limit: Limiting) -> KeyParts:
    """The values of PER, and the span of time in which a match ends."""
    every = limit.every

    def parts(batch: ChangeBatch) -> Sequence[KeyPart]:
        spans = np.zeros(len(batch), np.int64) if every is None else batch.span[1] // every
        distinct, codes = np.unique(spans, return_inverse=True)
        return [*_by(limit.per)(batch), (codes.reshape(-1), [(span,) for span in distinct.tolist()])]

    return parts


def _with_first_event(key: Sequence[Grouping]) -> KeyParts:
    """The key, and which event is the first: its times, the two numbers of its eid, its type."""

    def parts(batch: ChangeBatch) -> Sequence[KeyPart]:
        rows, (distinct, codes) = batch.rows, np.unique(first_events(batch), return_inverse=True)
        types = rows.shown["type"].take(pa.array(distinct)).to_pylist()
        columns = (column[distinct].tolist() for column in (rows.start, rows.end, *rows.names))
        return [*_by(key)(batch), (codes.reshape(-1), list(zip(*columns, types, strict=True)))]

    return parts


def _starts(variable: int, *, last: bool) -> Aims:
    """Where the first or last event of a variable starts; EMPTY where the variable is not bound."""

    def starts(batch: ChangeBatch) -> Ints:
        start, numbers = batch.rows.start, batch.fixed[variable]
        if variable in batch.repeated:
            several = batch.events_at(variable)
            return np.array([start[at[-1 if last else 0]] if at else EMPTY for at in several], np.int64)
        return np.where(numbers >= 0, start[batch.rows.at(numbers)], EMPTY)

    return starts


def _part(batch: ChangeBatch, group: Grouping) -> KeyPart:
    """The part of a key that one group makes: for each match a code, and what the codes stand for."""
    column = _plain_column(batch, group[0])
    if column is None:
        index: dict[Hashable, int] = {}
        codes = [index.setdefault(value, len(index)) for value in _column(batch, group)]
        return np.array(codes, np.int64), [(value,) for value in index]
    distinct, places = np.unique(column[0], return_inverse=True)
    values = pa.array(distinct) if column[1] is None else column[1].take(pa.array(distinct))
    return places.reshape(-1), [(normal(value),) for value in values.to_pylist()]


def _plain_column(batch: ChangeBatch, expr: Bound) -> tuple[npt.NDArray[Any], pa.Array | None] | None:
    """An attribute of one event of each match, if it is never null: values, or their places in a dictionary."""
    if not isinstance(expr, Col) or expr.kind not in PLAIN or expr.attr in (EID, TYPE) or expr.leaf in batch.repeated:
        return None
    numbers, known = batch.fixed[expr.leaf], batch.rows.table.schema.names
    fields = {field.name for field in batch.plan.variables[expr.leaf].fields}
    if expr.attr not in known or expr.attr not in fields or (numbers < 0).any():
        return None
    column = whole(batch.rows.table.column(expr.attr))
    if pa.types.is_string(column.type):
        column = column.dictionary_encode()
    is_coded = pa.types.is_dictionary(column.type) and pa.types.is_string(column.type.value_type)
    is_number = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    if column.null_count or not (is_coded or is_number or pa.types.is_boolean(column.type)):
        return None
    at = batch.rows.at(numbers)
    if is_coded:
        return column.indices.to_numpy(zero_copy_only=False)[at], column.dictionary
    return column.to_numpy(zero_copy_only=False)[at], None


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
