"""Groups, as the oracle reads them: in its gap, a query of its own that skips past its last events.

`(SEQ(A a, B b))+ g` is a named inner query with the key of the query, its window, and the conjuncts over its own
variables, and AFTER MATCH SKIP PAST LAST EVENT. It sees only the events of its gap, which is that of a negation in its
place. With nothing positive to its left it begins at every match of its pattern: `(P){n,m} g` stands there for
`P, (P){n-1,m-1} g`, all members together being g.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from tocsin.events import Event
from tocsin.lang.syntax import (
    And,
    Attr,
    Binary,
    Call,
    Endpoint,
    Exists,
    Expr,
    Grouped,
    Leaf,
    Marked,
    Name,
    Not,
    Or,
    Pattern,
    Query,
    Repeat,
    Same,
    Seq,
    SkipClause,
    bound_leaves,
    conjuncts,
    groups_in,
    items_of,
    leaves_of,
    rebuilt,
)
from tocsin.testing.oracle_expr import UndefinedError, variables

Bound = dict[str, Any]
NOWHERE = "'group"  # a type that no event has


@dataclass(frozen=True, slots=True)
class InnerQuery:
    """A group: its query, how many members it has, and the variables of its first member where it begins anywhere."""

    query: Query
    repeat: Repeat
    first: bool
    heads: dict[str, str]

    @property
    def variables(self) -> tuple[str, ...]:
        return tuple(str(leaf.var) for leaf in bound_leaves(self.query.pattern))


def apart(query: Query) -> tuple[Query, dict[str, InnerQuery]]:
    """A named query with a negation of nothing in the place of each group, and the groups by the name of that place."""
    groups = groups_in(query.pattern)
    if not groups:
        return query, {}
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
        check(group, query)
    places = _Places(query)
    pattern = places.without_groups(query.pattern)
    inside = frozenset(str(leaf.var) for group in groups for leaf in leaves_of(group))
    rest = [expr for expr in conjuncts(query.where) if not variables(expr) & inside]
    select = tuple(item for item in query.select if not variables(item.expr) & inside)
    return replace(query, pattern=pattern, where=joined([*rest, *places.more]), select=select), places.found


class _Places:
    """Takes the groups out of a pattern, and puts in their first members where nothing stands to the left of them."""

    def __init__(self, query: Query) -> None:
        self.query = query
        self.found: dict[str, InnerQuery] = {}
        self.more: list[Expr] = []  # the conjuncts over a group, asked of its first member

    def without_groups(self, pattern: Pattern) -> Pattern:
        match pattern:
            case Grouped():
                return Seq(tuple(self.taken_out(pattern, first=True)))
            case Seq(items) if any(isinstance(item, Grouped) for item in items):
                return Seq(tuple(part for at, item in enumerate(items) for part in self.item(item, items, at)))
            case Seq(items):
                if any(groups_in(item) and not isinstance(item, Not | Marked) for item in items):
                    raise UndefinedError("a group stands in a SEQ that stands in no other")
                return rebuilt(pattern, [self.without_groups(item) for item in items])
            case And() | Or() | Exists() | Not():
                return rebuilt(pattern, [self.without_groups(item) for item in items_of(pattern)])
        if isinstance(pattern, Marked) and isinstance(pattern.pattern, Grouped):
            raise UndefinedError(f"{pattern.mark} cannot stand before a group")
        if groups_in(pattern):
            raise UndefinedError("a group stands in a SEQ that stands in no other")
        return pattern

    def item(self, item: Pattern, items: tuple[Pattern, ...], at: int) -> Iterator[Pattern]:
        if not isinstance(item, Grouped):
            if groups_in(item) and not isinstance(item, Not | Marked):
                raise UndefinedError("a group stands in a SEQ that stands in no other")
            yield self.without_groups(item)
            return
        for beside in (*items[max(0, at - 1) : at], *items[at + 1 : at + 2]):
            if not is_event(beside):
                raise UndefinedError("beside a group stands a single event, or nothing")
        yield from self.taken_out(item, first=at == 0)

    def taken_out(self, group: Grouped, *, first: bool) -> Iterator[Pattern]:
        mine = frozenset(str(leaf.var) for leaf in leaves_of(group))
        own = [expr for expr in conjuncts(self.query.where) if variables(expr) & mine]
        same = [expr for expr in conjuncts(self.query.where) if isinstance(expr, Same)]
        place, heads = f"'group {len(self.found)}", {}
        if first:
            heads = {var: f"{var}'s first" for var in mine}
            yield renamed(group.pattern, heads)
            self.more += [renamed(expr, heads) for expr in own]
        self.found[place] = InnerQuery(
            Query(
                group.pattern,
                where=joined([*same, *own]),
                within=self.query.within,
                partition=self.query.partition,
                skip=SkipClause("past last"),
            ),
            group.repeat,
            group.first,
            heads,
        )
        yield Not(Leaf(NOWHERE, place))


def renamed(node: Any, names: dict[str, str]) -> Any:
    """A pattern or an expression over other variables."""
    match node:
        case tuple():
            return tuple(renamed(each, names) for each in node)
        case Leaf(_, str(var)):
            node = replace(node, var=names.get(var, var))
        case Attr(var) | Endpoint(var):
            node = replace(node, var=names.get(var, var))
        case Name(name):
            return replace(node, name=names.get(name, name))
    if not hasattr(node, "__dataclass_fields__"):
        return node
    return replace(node, **{part.name: renamed(getattr(node, part.name), names) for part in fields(node)})


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


def check(group: Grouped, query: Query) -> None:
    mine = frozenset(str(leaf.var) for leaf in leaves_of(group))
    outside = frozenset(str(leaf.var) for leaf in leaves_of(query.pattern)) - mine
    own = [expr for leaf in leaves_of(group) for expr in conjuncts(leaf.where)]
    for expr in (*conjuncts(query.where), *own):
        if variables(expr) & mine and variables(expr) & outside:
            raise UndefinedError("a condition relates a group to what stands outside it")
    items = group.pattern.items if isinstance(group.pattern, Seq) else ()
    steps = [item.pattern if isinstance(item, Marked) and is_event(item.pattern) else item for item in items]
    known = all(isinstance(item, Not) or is_event(item) or is_set(item) for item in steps)
    if groups_in(group.pattern) or not known or sum(map(is_event, steps)) < 2:
        raise UndefinedError("a group holds a SEQ of two or more events")
    if is_set(steps[0]) or is_set(steps[-1]):
        raise UndefinedError("what stands at an end of a group looks beyond it")


def is_event(item: Pattern) -> bool:
    return isinstance(item, Leaf) and item.repeat is None and not item.optional


def is_set(item: Pattern) -> bool:
    return isinstance(item, Leaf) and item.repeat is not None and item.until is None


def joined(several: Sequence[Expr]) -> Expr | None:
    whole: Expr | None = None
    for expr in several:
        whole = expr if whole is None else Binary("AND", whole, expr)
    return whole


def members_of(group: InnerQuery, own: Bound, gap: Iterable[Event], find: Callable[..., Any]) -> Bound | None:
    """What a group binds beside what is bound, given the events of its gap; None if it comes too rarely or too often.

    `find` gives the matches of a query over some events.
    """
    first = [{var: own[head] for var, head in group.heads.items() if head in own}] if group.heads else []
    found = [*first, *sorted((each.bound for each in find(group.query, gap)), key=begins)]
    if group.first:
        found = found[: group.repeat.most]
    if len(found) < group.repeat.least or (group.repeat.most is not None and len(found) > group.repeat.most):
        return None
    events = {var: tuple(event for each in found for event in events_of(each.get(var))) for var in group.variables}
    return {var: several for var, several in events.items() if several}  # a step that never came is not bound


def events_of(value: Event | tuple[Event, ...] | None) -> tuple[Event, ...]:
    return () if value is None else value if isinstance(value, tuple) else (value,)


def begins(own: Bound) -> int:
    return min(event.start for value in own.values() for event in events_of(value))
