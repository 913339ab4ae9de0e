"""CONTINUITY written out as forbidden events.

CONTINUITY forbids events that lie between the first end and the last start of a match. In a SEQ with single events at
both ends that is the gap between these two, whatever stands in it: `SEQ(A a, AND(SEQ(B b), !X x), C c)`. In other
patterns the forbidden event says by itself that it lies behind one end and before one start.

Paper: Gu, Yu and Li 2011, 2.1 (Continuity).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import reduce

from tocsin.events import ANY
from tocsin.lang.syntax import (
    And,
    Binary,
    Call,
    Expr,
    In,
    IsNull,
    Leaf,
    Literal,
    Marked,
    Name,
    Not,
    Or,
    Pattern,
    Query,
    Seq,
    groups_in,
    items_of,
    leaves_of,
    may_be_absent,
    patterns_in,
)
from tocsin.plan.problems import Problems

BETWEEN = "#"  # how the paper calls an event that comes between; no variable can be called so


def with_continuity(query: Query, problems: Problems) -> Query:
    """The query with forbidden events in place of CONTINUITY."""
    if query.continuity is None:
        return query
    plain = replace(query, continuity=None)
    if groups := groups_in(query.pattern):
        hint = "NEXT before the steps of a group, and around it, says what comes between"
        problems.add("CONTINUITY cannot stand with a group", groups[0].span, hint=hint)
        return plain
    bound = list(positive_leaves(query.pattern))
    if not _is_sound(query, bound, problems) or len(bound) < 2:
        return plain
    return replace(plain, pattern=_around(query.pattern, forbidden_leaves(query), bound))


def _is_sound(query: Query, bound: list[Leaf], problems: Problems) -> bool:
    clause = query.continuity
    assert clause is not None
    repeated = [leaf for leaf in bound if leaf.repeat is not None]
    within = _single_ends(query.pattern)
    problem, hint = "", None
    if not clause.types and any(leaf.type == ANY for leaf in leaves_of(query.pattern)):
        problem = "CONTINUITY ALL forbids nothing where the pattern names ANY"
        hint = "say which types: CONTINUITY OF (C)"
    elif any(leaf.type in (ANY, *clause.types) for leaf in repeated):
        problem = "CONTINUITY cannot forbid the type of a repetition"
        hint = "all events that qualify are its members; FIRST, EACH and NEXT say which of them"
    elif repeated and not within:
        problem = "CONTINUITY needs single events at both ends of a pattern with a repetition"
        hint = "write SEQ(A a, B+ b, C c), or name the inner part with QUERY"
    elif any(isinstance(item, Not) and item.lasting is not None for item in patterns_in(query.pattern)):
        problem, hint = "CONTINUITY and FOR do not go together", "leave one of them out"
    elif any(map(may_be_absent, patterns_in(query.pattern))):
        problem, hint = "CONTINUITY and steps that may be absent do not go together", "write an OR of whole SEQs"
    if problem:
        problems.add(problem, clause.span, hint=hint)
    return not problem


def positive_leaves(pattern: Pattern) -> Iterator[Leaf]:
    """The leaves outside of negations, in the order of the text."""
    if isinstance(pattern, Leaf):
        yield pattern
    elif not isinstance(pattern, Not):
        for item in items_of(pattern):
            yield from positive_leaves(item)


def forbidden_leaves(query: Query) -> list[Leaf]:
    """What must not come between: a leaf for each type, or one for all types that the pattern does not name."""
    clause = query.continuity
    assert clause is not None
    if not clause.types:
        named = dict.fromkeys(leaf.type for leaf in leaves_of(query.pattern))
        of = Call("type", (Name(BETWEEN),))
        return [Leaf(ANY, BETWEEN, In(of, tuple(map(Literal, named)), negated=True), span=clause.span)]
    found = []
    optional = any(isinstance(item, Or) for item in patterns_in(query.pattern))
    for number, type in enumerate(clause.types):
        name = BETWEEN * (number + 1)
        others: list[Expr] = []
        for leaf in positive_leaves(query.pattern):
            if leaf.type in (type, ANY):
                held = Name(str(leaf.var))
                other: Expr = Binary("<>", Name(name), held)
                others.append(Binary("OR", other, IsNull(held)) if optional else other)
        found.append(Leaf(type, name, _all("AND", others), span=clause.span))
    return found


def _all(op: str, exprs: list[Expr]) -> Expr | None:
    return reduce(lambda left, right: Binary(op, left, right), exprs) if exprs else None


# --- where they are forbidden ------------------------------------------------------------------------------------


def _single_ends(pattern: Pattern) -> tuple[int, int] | None:
    """Where the first and the last step of a SEQ stand, if each is one event."""
    if not isinstance(pattern, Seq):
        return None
    steps = [at for at, item in enumerate(pattern.items) if not isinstance(item, Not)]
    if len(steps) < 2 or not all(_is_single(pattern.items[at]) for at in (steps[0], steps[-1])):
        return None
    return steps[0], steps[-1]


def _is_single(item: Pattern) -> bool:
    match item:
        case Leaf(repeat=repeat):
            return repeat is None
        case Marked(_, inner):
            return _is_single(inner)
        case Or(items):
            return all(map(_is_single, items))
    return False


def _around(pattern: Pattern, leaves: list[Leaf], bound: list[Leaf]) -> Pattern:
    ends = _single_ends(pattern)
    if ends is None or not isinstance(pattern, Seq):
        forbidden = tuple(Not(_in_between(leaf, bound), span=leaf.span) for leaf in leaves)
        items = pattern.items if isinstance(pattern, And) else (pattern,)
        return And((*items, *forbidden), span=pattern.span)
    forbidden = tuple(Not(leaf, span=leaf.span) for leaf in leaves)
    first, last = ends
    inner = pattern.items[first + 1 : last]
    if any(not isinstance(item, Not) for item in inner):
        inner = (And((Seq(inner, span=pattern.span), *forbidden), span=pattern.span),)
    else:
        inner = (*inner, *forbidden)
    return replace(pattern, items=(*pattern.items[: first + 1], *inner, *pattern.items[last:]))


def _in_between(leaf: Leaf, bound: list[Leaf]) -> Leaf:
    """The leaf with the condition that it starts behind one end and ends before one start."""
    name = Name(str(leaf.var))
    behind: list[Expr] = [Binary(">", Call("start", (name,)), Call("end", (Name(str(each.var)),))) for each in bound]
    before: list[Expr] = [Binary("<", Call("end", (name,)), Call("start", (Name(str(each.var)),))) for each in bound]
    parts = [leaf.where, _all("OR", behind), _all("OR", before)]
    return replace(leaf, where=_all("AND", [part for part in parts if part is not None]))
