"""Small failures: take events away, then parts of the query, as long as it still fails.

shrunk(query, events, fails)     the smallest query and history found for which `fails` is true
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from typing import Any, TypeAlias

from tocsin.errors import TocsinError
from tocsin.events import Event
from tocsin.lang.syntax import (
    And,
    Binary,
    Expr,
    Iseq,
    Leaf,
    Marked,
    Maybe,
    Not,
    Or,
    Pattern,
    Query,
    Seq,
    children,
    conjuncts,
    items_of,
    rebuilt,
)
from tocsin.testing.draw_predicates import all_of

Fails: TypeAlias = Callable[[Query, Sequence[Event]], bool]


def shrunk(query: Query, events: Sequence[Event], fails: Fails, *, most: int = 4000) -> tuple[Query, list[Event]]:
    """Greedy: take the first simpler query or history that still fails, and begin again."""
    listed, tries = list(events), 0
    while True:
        for simpler, fewer in simpler_pairs(query, listed):
            tries += 1
            if tries > most:
                return query, listed
            if _still(fails, simpler, fewer):
                query, listed = simpler, fewer
                break
        else:
            return query, listed


def _still(fails: Fails, query: Query, events: list[Event]) -> bool:
    try:
        return fails(query, events)
    except TocsinError:
        return False


def simpler_pairs(query: Query, events: list[Event]) -> Iterator[tuple[Query, list[Event]]]:
    """Everything that is one step simpler, the biggest steps first."""
    half = len(events) // 2
    if half > 1:
        yield query, events[:half]
        yield query, events[half:]
    for at in range(len(events)):
        yield query, events[:at] + events[at + 1 :]
    for simpler in simpler_queries(query):
        yield simpler, events
    for at, event in enumerate(events):
        for plainer in simpler_events(event):
            yield query, [*events[:at], plainer, *events[at + 1 :]]


def simpler_events(event: Event) -> Iterator[Event]:
    if event.end > event.start:
        yield replace(event, end=event.start)
    for name in event.attrs:
        yield replace(event, attrs={other: value for other, value in event.attrs.items() if other != name})


def _fewer_clauses(query: Query) -> Iterator[Query]:
    if query.select:
        yield replace(query, select=())
        for at in range(len(query.select)):
            yield replace(query, select=query.select[:at] + query.select[at + 1 :])
    if query.partition:
        yield replace(query, partition=query.partition[1:])
    if query.within is not None:
        yield replace(query, within=None)
    if query.timeout:
        yield replace(query, timeout=False)
    if query.strategy is not None:
        yield replace(query, strategy=None)
    if query.between is not None:
        yield replace(query, between=None)
    if query.continuity is not None:
        yield replace(query, continuity=None)


def simpler_queries(query: Query) -> Iterator[Query]:
    yield from _fewer_clauses(query)
    for where in _fewer(query.where):
        yield replace(query, where=where)
    for pattern in simpler_patterns(query.pattern):
        if not isinstance(pattern, Not | Marked | Maybe):
            yield replace(query, pattern=pattern)
    if query.select:
        for at, item in enumerate(query.select):
            for expr in simpler_exprs(item.expr):
                yield replace(query, select=(*query.select[:at], replace(item, expr=expr), *query.select[at + 1 :]))


def _fewer(where: Expr | None) -> Iterator[Expr | None]:
    """Fewer conjuncts, then simpler ones."""
    listed = conjuncts(where)
    for at in range(len(listed)):
        yield all_of(listed[:at] + listed[at + 1 :])
    for at, conjunct in enumerate(listed):
        for simpler in simpler_exprs(conjunct):
            yield all_of([*listed[:at], simpler, *listed[at + 1 :]])


def simpler_patterns(pattern: Pattern) -> Iterator[Pattern]:
    """A part instead of the whole, a part less, a simpler part."""
    if isinstance(pattern, Leaf):
        yield from _simpler_leaves(pattern)
        return
    if isinstance(pattern, Not) and pattern.lasting is not None:
        yield replace(pattern, lasting=None)
    items = items_of(pattern)
    yield from items
    if isinstance(pattern, Seq | And | Or | Iseq) and len(items) > 1:
        for at in range(len(items)):
            yield rebuilt(pattern, items[:at] + items[at + 1 :])
    if isinstance(pattern, Iseq):
        for at in range(len(pattern.order) if len(pattern.order) > 1 else 0):
            yield replace(pattern, order=pattern.order[:at] + pattern.order[at + 1 :])
    for at, item in enumerate(items):
        for simpler in simpler_patterns(item):
            if not (isinstance(simpler, Not | Marked | Maybe) and not isinstance(pattern, Seq | And)):
                yield rebuilt(pattern, [*items[:at], simpler, *items[at + 1 :]])


def _simpler_leaves(pattern: Leaf) -> Iterator[Pattern]:
    if pattern.repeat is not None:
        yield replace(pattern, repeat=None)
    if pattern.until is not None:
        yield replace(pattern, until=None)
        for where in _fewer(pattern.until.where) if pattern.until.var != pattern.var else ():
            yield replace(pattern, until=replace(pattern.until, where=where))
    if pattern.optional:
        yield replace(pattern, optional=False)
    for where in _fewer(pattern.where):
        yield replace(pattern, where=where)


def simpler_exprs(expr: Any) -> Iterator[Any]:
    """A part instead of the whole, or the whole with a simpler part."""
    if isinstance(expr, Binary) and expr.op == "AND":
        yield from (expr.left, expr.right)
    yield from children(expr)
    for field in fields(expr):
        value = getattr(expr, field.name)
        if hasattr(value, "__dataclass_fields__") and field.name != "span":
            for simpler in simpler_exprs(value):
                yield replace(expr, **{field.name: simpler})
