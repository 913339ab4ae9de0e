"""Groups, `(SEQ(A a, B b))+ g`: where they may stand, and what may stand in them (docs/semantics.md, 6).

A group is a block of its own, like a negated part, whose matches are members one behind the other. It is bounded by an
event on both sides, or reaches to the end of the window, or of the negated part in which it stands; its first and its
last step bound all that stands in it: so nothing in it looks further than from its first to its last event, and only
its gap says where the members begin.

With nothing to its left it begins at every match of its pattern: that one is written out before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from itertools import pairwise
from typing import Any

from tocsin.lang.syntax import (
    AGGREGATES,
    PREV,
    And,
    Attr,
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
    Same,
    Seq,
    Span,
    conjoined,
    conjuncts,
    groups_in,
    items_of,
    leaves_of,
    rebuilt,
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
    _check_places(query.pattern, False, problems)
    for group in found:
        _check_inside(group, problems)
        _check_conditions(group, query, problems)
        _check_name(group, query, problems)
    _check_clauses(query, found[0], problems)


def _check_places(pattern: Pattern, in_seq: bool, problems: Problems) -> None:
    """`in_seq`: the pattern is a part of a SEQ of the same block, which would bound the group, too."""
    match pattern:
        case Grouped() | Marked(_, Grouped()):  # of the mark, `check_marks` says that it is wrong
            return
        case Seq(items):
            for at, item in enumerate(items):
                if isinstance(item, Grouped):
                    _check_neighbours(item, (*items[max(0, at - 1) : at], *items[at + 1 : at + 2]), problems)
                    if in_seq:
                        _misplaced(item, problems)
                else:
                    _check_places(item, not isinstance(item, Not), problems)
        case Not(inner):
            _check_places(inner, False, problems)
        case And() | Or() | Exists():
            for item in items_of(pattern):
                if in_seq and isinstance(item, Grouped):
                    _misplaced(item, problems)
                _check_places(item, in_seq, problems)
        case _:
            for group in groups_in(pattern):
                _misplaced(group, problems)


def _misplaced(group: Grouped, problems: Problems) -> None:
    problems.add(
        "a group stands in a SEQ that stands in no other",
        group.span,
        detail="in the SEQ of the whole query, of a part of AND or OR, or of a negated part, without a mark before it",
        hint=AS_QUERY,
    )


def _check_neighbours(group: Grouped, beside: tuple[Pattern, ...], problems: Problems) -> None:
    if not all(map(_is_event, beside)):
        problems.add(
            "beside a group stands a single event, or nothing",
            group.span,
            detail="an event without a mark, which must come: it says where the members lie",
            hint=f"write SEQ(C c, (SEQ(A a, B b))+ g, D d), or {AS_QUERY}",
        )


def _is_event(item: Pattern | None) -> bool:
    return isinstance(item, Leaf) and item.repeat is None and not item.optional


def _is_set(item: Pattern) -> bool:
    return isinstance(item, Leaf) and item.repeat is not None and item.until is None


def _check_inside(group: Grouped, problems: Problems) -> None:
    inner = group.pattern
    items = inner.items if isinstance(inner, Seq) else ()
    steps = [item.pattern if isinstance(item, Marked) and _is_event(item.pattern) else item for item in items]
    known = all(isinstance(step, Not) or _is_event(step) or _is_set(step) for step in steps)
    if sum(map(_is_event, steps)) < 2 or not known:
        problems.add(
            "a group holds a SEQ of two or more events",
            group.span,
            detail="between them negations, and repetitions without a mark (B+, B*, B{n,m})",
            hint=AS_QUERY,
        )
        return
    first, last = items[0], items[-1]
    looks_out = isinstance(first, Not) or isinstance(last, Not) or _is_set(first) or _is_set(last)
    looks_out = looks_out or (isinstance(first, Marked) and first.mark != "LAST")
    if looks_out or (isinstance(last, Marked) and last.mark == "LAST"):
        problems.add(
            "what stands at an end of a group looks beyond it",
            group.span,
            detail="a negation, a repetition, FIRST or NEXT before its first step, LAST before its last one",
            hint="put it between two steps of the group, or beside the group",
        )
    for left, right in pairwise(items):
        if any(map(_is_set, (left, right))) and not all(map(_is_event, (left, right))) and not _one_of(left, right):
            problems.add(
                "beside a repetition in a group stands a single event",
                group.span,
                detail="an event without a mark, and no negation: the repetition lies between two steps of the group",
                hint=AS_QUERY,
            )
            break
    if any(isinstance(node, Not) and node.lasting is not None for node in walk(inner)):
        problems.add("FOR cannot stand in a group", group.span, hint=AS_QUERY)


def _one_of(left: Pattern, right: Pattern) -> bool:
    """Whether a single event stands beside a repetition."""
    return (_is_set(left) and _is_event(right)) or (_is_event(left) and _is_set(right))


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


# --- first members ----------------------------------------------------------------------------------------------------


def with_first_members(query: Query) -> Query:
    """The query with the first member of each group written out that has nothing to its left.

    `(P){n,m} g` stands there for `P, (P){n-1,m-1} g`, all members together being g.
    """
    if not groups_in(query.pattern):
        return query
    more: list[Expr] = []
    pattern = _with_heads(query.pattern, query, more)
    return replace(query, pattern=pattern, where=conjoined((*conjuncts(query.where), *more)))


def _with_heads(pattern: Pattern, query: Query, more: list[Expr]) -> Pattern:
    match pattern:
        case Grouped():
            return Seq(_headed(pattern, query, more), span=pattern.span)
        case Seq((first, *rest)):
            head = _headed(first, query, more) if isinstance(first, Grouped) else (_with_heads(first, query, more),)
            kept = [item if isinstance(item, Grouped) else _with_heads(item, query, more) for item in rest]
            return rebuilt(pattern, [*head, *kept])
        case And() | Or() | Exists() | Not():
            return rebuilt(pattern, [_with_heads(item, query, more) for item in items_of(pattern)])
    return pattern


def _headed(group: Grouped, query: Query, more: list[Expr]) -> tuple[Pattern, Pattern]:
    mine = [str(leaf.var) for leaf in leaves_of(group.pattern)]
    names = {var: f"{var}'first" for var in mine}
    own = [expr for expr in conjuncts(query.where) if not isinstance(expr, Same) and variables(expr) & names.keys()]
    more += [_renamed(expr, names) for expr in own]
    items = group.pattern.items if isinstance(group.pattern, Seq) else ()
    steps = tuple(names[str(leaf.var)] for item in items if not isinstance(item, Not) for leaf in leaves_of(item))
    return _renamed(group.pattern, names), replace(group, heads=steps)


def _renamed(node: Any, names: Mapping[str, str]) -> Any:
    match node:
        case tuple():
            return tuple(_renamed(each, names) for each in node)
        case Leaf(_, str(var)):
            node = replace(node, var=names.get(var, var))
        case Attr(var) | Endpoint(var):
            node = replace(node, var=names.get(var, var))
        case Name(name):
            return replace(node, name=names.get(name, name))
    if isinstance(node, Span) or not hasattr(node, "__dataclass_fields__"):
        return node
    return replace(node, **{part.name: _renamed(getattr(node, part.name), names) for part in fields(node)})
