"""Groups, as the oracle reads them: in its gap, a query of its own that skips past its last events.

`(SEQ(A a, B b))+ g` is a named inner query with the key of the query, its window, and the conjuncts over its own
variables, and AFTER MATCH SKIP PAST LAST EVENT. It sees only the events of its gap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from tocsin.events import Event
from tocsin.lang.syntax import (
    Binary,
    Call,
    Expr,
    Grouped,
    Leaf,
    Name,
    Not,
    Pattern,
    Query,
    Repeat,
    Same,
    Seq,
    SkipClause,
    conjuncts,
    groups_in,
    leaves_of,
)
from tocsin.testing.oracle_expr import UndefinedError, variables

Bound = dict[str, Any]


@dataclass(frozen=True, slots=True)
class InnerQuery:
    """A group: its query, how many members it has, and the variables of the events around it."""

    query: Query
    repeat: Repeat
    before: str
    after: str

    @property
    def variables(self) -> tuple[str, ...]:
        items = self.query.pattern.items  # type: ignore[union-attr]
        return tuple(str(leaf.var) for item in items if not isinstance(item, Not) for leaf in leaves_of(item))


def apart(query: Query) -> tuple[Query, tuple[InnerQuery, ...]]:
    """A named query without its groups, and the groups."""
    groups = groups_in(query.pattern)
    if not groups:
        return query, ()
    for clause, there in (
        ("CONSUME", query.consume is not None),
        ("TIMEOUT", query.timeout),
        ("CONTINUITY", query.continuity is not None),
    ):
        if there:
            raise UndefinedError(f"{clause} cannot stand with a group")
    for group in groups:
        if any(group.var in variables(expr) for expr in conjuncts(query.where)):
            raise UndefinedError(f"{group.var} is a group")
    if not isinstance(query.pattern, Seq) or any(group not in query.pattern.items for group in groups):
        raise UndefinedError("a group stands in the SEQ of the whole query")
    items = query.pattern.items
    mine = {group: frozenset(str(leaf.var) for leaf in leaves_of(group)) for group in groups}
    inner = []
    for group in groups:
        at = items.index(group)
        around = [item for item in (*items[max(0, at - 1) : at], *items[at + 1 : at + 2]) if is_event(item)]
        if len(around) < 2:
            raise UndefinedError("a group stands between two events")
        check(group, mine[group], frozenset(str(leaf.var) for leaf in leaves_of(query.pattern)), query)
        own = [expr for expr in conjuncts(query.where) if isinstance(expr, Same) or variables(expr) & mine[group]]
        inner.append(
            InnerQuery(
                Query(
                    group.pattern,
                    where=joined(own),
                    within=query.within,
                    partition=query.partition,
                    skip=SkipClause("past last"),
                ),
                group.repeat,
                *(str(item.var) for item in around),  # type: ignore[union-attr]
            )
        )
    inside = frozenset[str]().union(*mine.values())
    rest = [expr for expr in conjuncts(query.where) if not variables(expr) & inside]
    kept = tuple(item for item in items if not isinstance(item, Grouped))
    select = tuple(item for item in query.select if not variables(item.expr) & inside)
    bare = replace(query, pattern=replace(query.pattern, items=kept), where=joined(rest), select=select)
    return bare, tuple(inner)


def with_counts(query: Query) -> Query:
    """A query whose SELECT speaks of the events of its groups: count(g), start(g) and end(g) are theirs."""
    select = query.select
    for group in groups_in(query.pattern):
        if group.var is not None and isinstance(group.pattern, Seq):
            steps = [leaf.var for item in group.pattern.items if not isinstance(item, Not) for leaf in leaves_of(item)]
            for function, var in (("count", steps[0]), ("start", steps[0]), ("end", steps[-1])):
                asked, meant = Call(function, (Name(group.var),)), Call(function, (Name(str(var)),))
                select = tuple(replaced(item, asked, meant) for item in select)
    return replace(query, select=select)


def replaced(node: Any, asked: Expr, meant: Expr) -> Any:
    """The syntax tree with one expression in place of another."""
    if node == asked:
        return meant
    if isinstance(node, tuple):
        return tuple(replaced(each, asked, meant) for each in node)
    if not hasattr(node, "__dataclass_fields__"):
        return node
    return replace(node, **{part.name: replaced(getattr(node, part.name), asked, meant) for part in fields(node)})


def check(group: Grouped, mine: frozenset[str], all_variables: frozenset[str], query: Query) -> None:
    outside = all_variables - mine
    own = [expr for leaf in leaves_of(group) for expr in conjuncts(leaf.where)]
    for expr in (*conjuncts(query.where), *own):
        if variables(expr) & mine and variables(expr) & outside:
            raise UndefinedError("a condition relates a group to what stands outside it")
    if not isinstance(group.pattern, Seq) or groups_in(group.pattern):
        raise UndefinedError("a group holds a SEQ of events")


def is_event(item: Pattern) -> bool:
    return isinstance(item, Leaf) and item.repeat is None and not item.optional


def joined(several: Sequence[Expr]) -> Expr | None:
    whole: Expr | None = None
    for expr in several:
        whole = expr if whole is None else Binary("AND", whole, expr)
    return whole


def with_members(
    bound: Bound,
    groups: Sequence[InnerQuery],
    gap: Callable[[InnerQuery, Bound], list[Event]],
    find: Callable[..., Any],
) -> Iterator[Bound]:
    """A match with the members of its groups; nothing if one has too few or too many.

    `gap` gives the events between those around a group, `find` the matches of a query over some events.
    """
    full = dict(bound)
    for group in groups:
        members = sorted(
            (each.bound for each in find(group.query, gap(group, bound))), key=lambda own: first(own).start
        )
        if len(members) < group.repeat.least or (group.repeat.most is not None and len(members) > group.repeat.most):
            return
        full |= {var: tuple(own[var] for own in members) for var in group.variables}
    yield full


def first(own: Bound) -> Event:
    events: list[Event] = list(own.values())
    return min(events, key=lambda event: event.start)
