"""Marks as the oracle reads them: STRATEGY written out, and what each mark looks for (docs/semantics.md, 12).

A mark is judged when a match is complete: it looks at every event that lies wholly in the gap before (NEXT, FIRST) or
behind (LAST) its item, and the match falls if one of them is what the mark forbids.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from tocsin.lang.syntax import (
    And,
    Exists,
    Expr,
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
)
from tocsin.testing.oracle_expr import UndefinedError


@dataclass(frozen=True, slots=True)
class Sides:
    """What stands around a leaf: variables of earlier items of the SEQs around it, and of other branches of its ORs."""

    left: frozenset[str] = frozenset()
    apart: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Decided(Marked):
    """A marked item in one alternative; `whole` is what the mark stands before, with all branches of its OR."""

    whole: Pattern | None = None


@dataclass(frozen=True, slots=True)
class Look:
    """What a FIRST or LAST looks for: an event that could stand at `leaf`, of which every condition is TRUE."""

    leaf: Leaf
    conditions: tuple[Expr, ...]


def with_strategy(query: Query) -> Query:
    """The query with STRATEGY written out as marks."""
    if query.strategy in (None, "any"):
        return query
    if groups_in(query.pattern):
        raise UndefinedError(f"STRATEGY {query.strategy} cannot stand with a group")
    mark = "FIRST" if query.strategy == "next" else "NEXT"
    pattern = _with_marks(query.pattern, mark)
    if mark == "NEXT" and is_repetition(pattern):
        pattern = Marked("NEXT", pattern)
    if pattern == query.pattern:
        raise UndefinedError("STRATEGY finds no step to mark", hint="it marks the items of SEQ behind the first")
    return replace(query, pattern=pattern, strategy=None)


def _with_marks(pattern: Pattern, mark: str) -> Pattern:
    match pattern:
        case Seq(items):
            made: list[Pattern] = []
            is_first = True
            for item in items:
                inner = _with_marks(item, mark)
                if not isinstance(item, Not):
                    may = not is_first or (mark == "NEXT" and is_repetition(item))
                    if may and isinstance(inner, Maybe) and not isinstance(inner.pattern, Marked):
                        inner = replace(inner, pattern=Marked(mark, inner.pattern))  # type: ignore[arg-type]
                    elif may and not isinstance(item, Marked | Maybe):
                        inner = Marked(mark, inner)  # type: ignore[arg-type]
                    is_first = False
                made.append(inner)
            return replace(pattern, items=tuple(made))
        case And(items) | Or(items):
            return replace(pattern, items=tuple(_with_marks(item, mark) for item in items))
        case Exists(_, inner) | Marked(_, inner) | Maybe(inner):
            return replace(pattern, pattern=_with_marks(inner, mark))
        case Rel(_, left):
            return replace(pattern, left=_with_marks(left, mark))
    return pattern


def check_marks(pattern: Pattern, host: Pattern | None = None) -> None:
    """Where marks may stand."""
    if isinstance(pattern, Marked):
        if isinstance(pattern.pattern, Grouped):
            raise UndefinedError(f"{pattern.mark} cannot stand before a group")
        if is_repetition(pattern.pattern) and (isinstance(host, Seq) or (host is None and pattern.mark != "LAST")):
            return
        if pattern.is_each:
            raise UndefinedError(f"{pattern.mark} stands before a repetition in a SEQ")
        if not isinstance(host, Seq):
            raise UndefinedError(f"{pattern.mark} stands before an item of SEQ only")
        if isinstance(pattern.pattern, (Not, Marked, Maybe)):
            raise UndefinedError("one mark stands before a positive item")
        looked = tuple(_choices(pattern.pattern)) if pattern.mark != "NEXT" else ()
        if any(leaf is None for leaf in looked):
            raise UndefinedError(f"{pattern.mark} stands before an event or an OR of events")
        if looked and any(leaf.repeat for leaf in leaves_of(pattern)):
            raise UndefinedError(f"{pattern.mark} cannot stand before an OR with a repetition")
    for item in items_of(pattern):
        check_marks(item, host if isinstance(pattern, Maybe) else pattern)


def is_repetition(pattern: Pattern | None) -> bool:
    return isinstance(pattern, Leaf) and pattern.repeat is not None


def _choices(pattern: Pattern) -> Iterator[Leaf | None]:
    """The leaves of a leaf, or of an OR of leaves; None for anything else."""
    match pattern:
        case Leaf():
            yield pattern
        case Or(items):
            for item in items:
                yield from _choices(item)
        case _:
            yield None


def looked_for(marked: Decided) -> tuple[Leaf, ...]:
    """The leaves whose events a mark looks for; NEXT looks for everything."""
    if marked.mark == "NEXT" or marked.whole is None:
        return ()
    return tuple(leaf for leaf in _choices(marked.whole) if leaf is not None)


NOBODY = Sides()


def sides_of(pattern: Pattern, sides: Sides = NOBODY) -> Iterator[tuple[str, Sides]]:
    """Every variable with what stands around it."""
    match pattern:
        case Leaf():
            yield str(pattern.var), sides
        case Seq(items):
            for index, item in enumerate(items):
                yield from sides_of(item, replace(sides, left=sides.left | _variables(items[:index])))
        case Or(items):
            for index, item in enumerate(items):
                others = _variables(items[:index] + items[index + 1 :])
                yield from sides_of(item, replace(sides, apart=sides.apart | others))
        case _:
            for item in items_of(pattern):
                yield from sides_of(item, sides)


def _variables(patterns: Iterable[Pattern]) -> frozenset[str]:
    return frozenset(str(leaf.var) for pattern in patterns for leaf in leaves_of(pattern))


def counts_for(marked: Marked, leaf: Leaf, mentioned: frozenset[str], sides: Sides) -> bool:
    """Whether a mark asks a conjunct of the events that it looks for.

    LAST asks all that mention its variable, FIRST those that mention nothing to the right of it. A variable of another
    branch is null beside it, so it does not matter where that stands.
    """
    if leaf.var not in mentioned:
        return False
    return marked.mark == "LAST" or mentioned <= {str(leaf.var)} | sides.left | sides.apart
