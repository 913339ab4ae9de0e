"""Groups, `(SEQ(A a, B b))+ g`: where they may stand, and what may stand in them (docs/semantics.md, 6).

A group is a block of its own, like a negated part, whose matches are members one behind the other. It is bounded by an
event on both sides, and its first and its last step bound all that stands in it: so nothing in it looks further than
from its first to its last event, and only its gap says where the members begin.
"""

from __future__ import annotations

from collections.abc import Iterator

from tocsin.lang.syntax import (
    AGGREGATES,
    PREV,
    Call,
    Expr,
    Grouped,
    Leaf,
    Marked,
    Name,
    Not,
    Pattern,
    Query,
    Seq,
    conjuncts,
    groups_in,
    leaves_of,
    walk,
)
from tocsin.plan.problems import Problems
from tocsin.plan.typer import variables

AS_QUERY = "name the inner pattern: QUERY g EVENT SEQ(A a, B b) ...; and repeat its name: SEQ(C c, g+ g, D d)"


def check_groups(query: Query, problems: Problems) -> None:
    """Report groups that stand where they mean nothing, or hold what they cannot."""
    found = groups_in(query.pattern)
    if not found:
        return
    items = query.pattern.items if isinstance(query.pattern, Seq) else ()
    for group in found:
        if not any(group is item for item in items):
            problems.add(
                "a group stands in the SEQ of the whole query",
                group.span,
                detail="between two of its events, which say where the members lie",
                hint=AS_QUERY,
            )
            continue
        at = next(number for number, item in enumerate(items) if item is group)
        _check_neighbours(group, items[at - 1] if at else None, items[at + 1 :][:1], problems)
        _check_inside(group, problems)
        _check_conditions(group, query, problems)
        _check_name(group, query, problems)
    _check_clauses(query, found[0], problems)


def _check_neighbours(group: Grouped, before: Pattern | None, after: tuple[Pattern, ...], problems: Problems) -> None:
    if not (_is_event(before) and after and _is_event(after[0])):
        problems.add(
            "a group stands between two events",
            group.span,
            detail="the item before it and the one behind it must be single events without a mark, which must come",
            hint=f"write SEQ(C c, (SEQ(A a, B b))+ g, D d), or {AS_QUERY}",
        )


def _is_event(item: Pattern | None) -> bool:
    return isinstance(item, Leaf) and item.repeat is None and not item.optional


def _check_inside(group: Grouped, problems: Problems) -> None:
    inner = group.pattern
    items = inner.items if isinstance(inner, Seq) else ()
    steps = [item for item in items if not isinstance(item, Not)]
    plain = all(_is_event(step.pattern if isinstance(step, Marked) else step) for step in steps)
    if len(steps) < 2 or not plain:
        problems.add("a group holds a SEQ of two or more events", group.span, hint=AS_QUERY)
        return
    first, last = items[0], items[-1]
    looks_out = isinstance(first, Not) or isinstance(last, Not)
    looks_out = looks_out or (isinstance(first, Marked) and first.mark != "LAST")
    if looks_out or (isinstance(last, Marked) and last.mark == "LAST"):
        problems.add(
            "what stands at an end of a group looks beyond it",
            group.span,
            detail="a negation, FIRST or NEXT before its first step, LAST before its last one",
            hint="put it between two steps of the group, or beside the group",
        )
    if any(isinstance(node, Not) and node.lasting is not None for node in walk(inner)):
        problems.add("FOR cannot stand in a group", group.span, hint=AS_QUERY)


def _check_conditions(group: Grouped, query: Query, problems: Problems) -> None:
    mine = {str(leaf.var) for leaf in leaves_of(group.pattern)}
    outside = {str(leaf.var) for leaf in leaves_of(query.pattern)} - mine
    for expr in _conditions(group, query):
        mentioned = variables(expr)
        calls = [node for node in walk(expr) if isinstance(node, Call) and node.function in (*AGGREGATES, PREV)]
        if any(variables(call) & mine for call in calls):
            problems.add(
                "a condition cannot use an aggregate over the members of a group",
                expr.span or group.span,
                detail="it would be asked of each member by itself, of which it is one event",
                hint="say how many members there are behind the group, as in {3,}; SELECT shows aggregates",
            )
            continue
        if mentioned & mine and mentioned & outside:
            problems.add(
                "a condition relates a group to what stands outside it",
                expr.span or group.span,
                detail="members are found by the events of the group alone",
                hint="use [attr] for what is equal over all of them",
            )


def _check_name(group: Grouped, query: Query, problems: Problems) -> None:
    """The name of a group stands for its members where SELECT counts them, or asks from when to when they go."""
    if group.var is None:
        return
    named = [leaf for leaf in leaves_of(query.pattern) if leaf.var == group.var]
    named += [other for other in groups_in(query.pattern) if other is not group and other.var == group.var]  # type: ignore[misc]
    if named:
        problems.add(f"{group.var} is declared twice", group.span, hint="give the group a name of its own")
        return
    clauses = (
        query.where,
        query.select,
        query.skip,
        query.distinct,
        query.limit,
        *map(_of_leaf, leaves_of(query.pattern)),
    )
    for clause in clauses:
        for node in walk_all(clause):
            if getattr(node, "name" if isinstance(node, Name) else "var", None) == group.var:
                problems.add(
                    f"{group.var} is a group",
                    getattr(node, "span", None) or group.span,
                    detail="it has a count, a start and an end, which SELECT shows: count(g), start(g), end(g)",
                    hint="say how often it comes behind it, as in (SEQ(A a, B b)){3,} g, or name an event of it",
                )
                return


def _of_leaf(leaf: Leaf) -> Expr | None:
    return leaf.where


def walk_all(clause: object) -> Iterator[object]:
    """What stands in a clause, in several, or in none."""
    for node in clause if isinstance(clause, tuple) else (clause,):
        if node is not None:
            yield from walk(node)


def _conditions(group: Grouped, query: Query) -> Iterator[Expr]:
    yield from conjuncts(query.where)
    for leaf in leaves_of(group.pattern):
        yield from conjuncts(leaf.where)


def _check_clauses(query: Query, group: Grouped, problems: Problems) -> None:
    for clause, there in (
        ("CONSUME", query.consume is not None),
        ("TIMEOUT", query.timeout),
    ):
        if there:
            problems.add(f"{clause} cannot stand with a group", group.span, hint=AS_QUERY)
