"""Marks of a pattern: STRATEGY written out as marks, where they may stand, and which variables stand around a leaf.

NEXT, FIRST and LAST are forbidden blocks (docs/semantics.md, 12): the pattern tree puts a `Sought` where a negation
would stand, the draft gives it a block of one leaf, and `plan/sought` fills in what that leaf must satisfy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from tocsin.events import ANY
from tocsin.lang.syntax import (
    And,
    Exists,
    Grouped,
    Leaf,
    Marked,
    Maybe,
    Not,
    Or,
    Pattern,
    Query,
    Rel,
    Seq,
    groups_in,
    items_of,
    leaves_of,
    walk,
)
from tocsin.plan.problems import Problems


def with_strategy(query: Query, problems: Problems) -> Query:
    """The query with the marks that STRATEGY stands for, at every step behind the first that has none."""
    if query.strategy in (None, "any"):
        return replace(query, strategy=None)
    if groups := groups_in(query.pattern):
        problems.add(
            f"STRATEGY {query.strategy} cannot stand with a group",
            groups[0].span,
            detail="the step behind a group would look at the gap in which its members lie",
            hint="write the marks before the steps that need them: (SEQ(A a, FIRST B b))+ g",
        )
        return replace(query, strategy=None)
    mark: Literal["NEXT", "FIRST"] = "FIRST" if query.strategy == "next" else "NEXT"
    pattern = _step(query.pattern, mark, _begins(query.pattern, mark))
    if pattern == query.pattern:
        problems.add(
            f"STRATEGY {query.strategy} finds no step to mark",
            query.pattern.span,
            detail="it marks the items of every SEQ behind the first, outside negated parts",
            hint="leave it out, or write the pattern as SEQ(A a, B b)",
        )
    return replace(query, pattern=pattern, strategy=None)


def _marked(pattern: Pattern, mark: Literal["NEXT", "FIRST"]) -> Pattern:
    match pattern:
        case Seq(items):
            first = next((number for number, item in enumerate(items) if not isinstance(item, Not)), 0)
            return replace(
                pattern,
                items=tuple(_step(item, mark, n > first or _begins(item, mark)) for n, item in enumerate(items)),
            )
        case And(items) | Or(items):
            return replace(pattern, items=tuple(_marked(item, mark) for item in items))
        case Exists(_, inner) | Marked(_, inner) | Maybe(inner):
            return replace(pattern, pattern=_marked(inner, mark))
        case Rel(_, left):
            return replace(pattern, left=_marked(left, mark))
    return pattern


def _begins(item: Pattern, mark: str) -> bool:
    """Whether a mark stands before a first step, too: the members of a repetition are consecutive there."""
    return mark == "NEXT" and isinstance(item, Leaf) and item.repeat is not None


def _step(item: Pattern, mark: Literal["NEXT", "FIRST"], later: bool) -> Pattern:
    if isinstance(item, Maybe):
        return replace(item, pattern=_step(item.pattern, mark, later))
    inner = _marked(item, mark)
    return inner if isinstance(item, Not | Marked | Grouped) or not later else Marked(mark, inner, span=item.span)


def reads_every_type(query: Query) -> bool:
    """Whether a query must see events of all types: it has a leaf ANY, or a NEXT that does not say of what."""
    strict = query.strategy == "strict" or (query.continuity is not None and not query.continuity.types)
    marks = (node for node in walk(query.pattern) if isinstance(node, Marked))
    nexts = (node for node in marks if node.is_strict and not node.of)
    return strict or any(leaf.type == ANY for leaf in leaves_of(query.pattern)) or any(True for _ in nexts)


# --- rules ---------------------------------------------------------------------------------------------------------


def check_marks(pattern: Pattern, problems: Problems, host: Pattern | None = None) -> None:
    """Report marks that stand where they mean nothing; that a NEXT has nothing before it, the draft finds."""
    if isinstance(pattern, Marked):
        _check_mark(pattern, host, problems)
    for item in items_of(pattern):
        check_marks(item, problems, host if isinstance(pattern, Maybe) else pattern)


def _check_mark(marked: Marked, host: Pattern | None, problems: Problems) -> None:
    mark, inner = marked.mark, marked.pattern
    repeated = isinstance(inner, Leaf) and inner.repeat is not None
    if isinstance(inner, Grouped):
        problems.add(
            f"{mark} cannot stand before a group",
            marked.span,
            detail="its members are the next ones to be completed, one behind the other; FIRST takes the first of them",
            hint="write FIRST (SEQ(A a, B b)){3} g, or marks before the steps inside it",
        )
        return
    if repeated and (isinstance(host, Seq) or (host is None and mark != "LAST")):
        return
    if marked.is_each:
        hint = "B+, B{2,} and B{2,4} are repetitions; without EACH all combinations of single events match"
        problems.add(f"{mark} stands before a repetition in a SEQ", marked.span, hint=hint)
    elif repeated and host is None:
        hint = "FIRST, EACH and NEXT let it begin at every event that qualifies"
        problems.add("LAST needs something beside it that says where it looks", marked.span, hint=hint)
    elif not isinstance(host, Seq):
        hint = "its neighbours say where it looks: SEQ(A a, FIRST B b)"
        problems.add(f"{mark} stands before an item of SEQ only", marked.span, hint=hint)
    elif isinstance(inner, Not | Marked | Maybe):
        problems.add("one mark stands before a positive item", marked.span, hint="leave out what is too much")
    elif mark != "NEXT" and None in (found := list(_choices(inner))):
        problems.add(
            f"{mark} stands before an event or an OR of events",
            marked.span,
            detail="of a larger part it is not said which events would have to be looked for" if found else None,
            hint="mark the items inside it, or use NEXT",
        )
    elif mark != "NEXT" and any(leaf.repeat is not None for leaf in leaves_of(inner)):
        problems.add(
            f"{mark} cannot stand before an OR with a repetition",
            marked.span,
            detail="of single events it says which one stands there, of a repetition which are members",
            hint="write an OR of whole SEQs, and mark the steps inside them",
        )


def _choices(pattern: Pattern) -> Iterator[Leaf | None]:
    """The leaves of a leaf or of an OR of leaves; None where something else stands."""
    match pattern:
        case Leaf():
            yield pattern
        case Or(items):
            for item in items:
                yield from _choices(item)
        case _:
            yield None


def looked_for(marked: Marked) -> tuple[Leaf, ...]:
    """The leaves that a FIRST or LAST asks about."""
    return tuple(leaf for leaf in _choices(marked.pattern) if leaf is not None)


# --- what stands around a leaf --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Variables of earlier items of the SEQs around a leaf, and those that are never bound beside it."""

    left: frozenset[str] = frozenset()
    apart: frozenset[str] = frozenset()


NOBODY = Neighbours()


def around_leaves(pattern: Pattern, around: Neighbours = NOBODY) -> Iterator[tuple[str, Neighbours]]:
    """Every variable of a named pattern with what stands around it."""
    match pattern:
        case Leaf():
            yield str(pattern.var), around
        case Seq(items):
            for item in items:
                yield from around_leaves(item, around)
                around = replace(around, left=around.left | _names(item))
        case Or(items):
            everyone = _names(pattern)
            for item in items:
                yield from around_leaves(item, replace(around, apart=around.apart | (everyone - _names(item))))
        case _:
            for item in items_of(pattern):
                yield from around_leaves(item, around)


def _names(pattern: Pattern) -> frozenset[str]:
    return frozenset(str(leaf.var) for leaf in leaves_of(pattern))
