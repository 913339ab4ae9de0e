"""After a match, by definition: which of the matches of a query are taken (docs/semantics.md, "After a match").

Every match is compared with every one that was taken before it. Nothing here is shared with the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from tocsin.events import Event, Value
from tocsin.lang.syntax import DistinctClause, Expr, LimitClause, Query, Same, SkipClause
from tocsin.testing.oracle_expr import OracleEvaluator, ticks

Place: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class CompletedMatch:
    """A match: the events of its visible variables in the order of the text, () where one is not bound."""

    shown: dict[str, tuple[Event, ...]]
    bound: dict[str, Event | tuple[Event, ...]]
    match: Any

    @property
    def events(self) -> list[Event]:
        return [event for several in self.shown.values() for event in several]

    @property
    def first(self) -> Event:
        return min(self.events, key=lambda event: (event.start, event.end, *place_of(event)[2:]))

    @property
    def start(self) -> int:
        return self.first.start

    @property
    def end(self) -> int:
        return max(event.end for event in self.events)

    @property
    def completed(self) -> Place:
        """Its place in order of completion: the last event, the first one, then all by variable."""
        last = max(map(place_of, self.events))
        return last, place_of(self.first), [[place_of(event) for event in several] for several in self.shown.values()]


def place_of(event: Event) -> Place:
    """The canonical place of an event; of one eid and one time, types tell events apart."""
    return (*event.order(), event.type)


def chosen(
    query: Query, key: Sequence[str], found: Sequence[CompletedMatch], reader: OracleEvaluator
) -> list[CompletedMatch]:
    """What the clauses of a query leave of its matches."""
    left = sorted(found, key=lambda each: each.completed)

    def value(expr: Expr, match: CompletedMatch) -> Value | tuple[Value, ...]:
        if isinstance(expr, Same):
            return tuple(of_key(attr, match) for attr in expr.attrs)
        return reader.plain(expr, match.bound)

    def alike(expr: Expr, one: CompletedMatch, other: CompletedMatch) -> bool:
        return equal(value(expr, one), value(expr, other))

    def same_key(one: CompletedMatch, other: CompletedMatch) -> bool:
        return all(equal(of_key(attr, one), of_key(attr, other)) for attr in key)

    if query.skip is not None:
        skip = query.skip
        left = taken(left, lambda match, before: any(same_key(t, match) and skipped(skip, t, match) for t in before))
    if query.distinct is not None:
        distinct = query.distinct
        left = taken(
            left,
            lambda match, before: any(
                same_key(t, match) and alike(distinct.by, t, match) and too_soon(distinct, t, match, reader.unit)
                for t in before
            ),
        )
    if query.limit is not None:
        limit = query.limit
        left = taken(
            left,
            lambda match, before: (
                sum(
                    all(alike(expr, t, match) for expr in limit.per)
                    and span_of(limit, t, reader.unit) == span_of(limit, match, reader.unit)
                    for t in before
                )
                >= limit.most
            ),
        )
    return left


def taken(
    matches: Sequence[CompletedMatch], drops: Callable[[CompletedMatch, list[CompletedMatch]], bool]
) -> list[CompletedMatch]:
    """Take matches one after the other, unless those that were taken before drop them."""
    found: list[CompletedMatch] = []
    for match in matches:
        if not drops(match, found):
            found.append(match)
    return found


def skipped(skip: SkipClause, before: CompletedMatch, match: CompletedMatch) -> bool:
    """Whether a match that was taken drops another one."""
    if skip.to == "past last":
        return match.start <= before.end
    if skip.to == "next":
        return match.first is before.first
    assert skip.var is not None
    aims = before.shown.get(skip.var.name, ())
    if not aims:
        return False
    return match.start < sorted(aims, key=place_of)[0 if skip.to == "first" else -1].start


def too_soon(distinct: DistinctClause, before: CompletedMatch, match: CompletedMatch, unit: str | None) -> bool:
    return distinct.every is None or match.end - before.end < ticks(distinct.every, unit)


def span_of(limit: LimitClause, match: CompletedMatch, unit: str | None) -> int:
    return 0 if limit.every is None else match.end // ticks(limit.every, unit)


def of_key(attr: str, match: CompletedMatch) -> Value:
    """What all events of a match have for an attribute of the key."""
    return match.events[0].attrs.get(attr)


def equal(one: Any, other: Any) -> bool:
    """Null equals null, and NaN equals NaN."""
    if isinstance(one, tuple) and isinstance(other, tuple):
        return all(map(equal, one, other))
    return bool(one == other) or (one != one and other != other)
