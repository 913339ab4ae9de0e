"""EARLY: which queries can tell a match before its intervals have ended."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tocsin.errors import Problem, QueryError
from tocsin.lang.syntax import Marked, Query, patterns_in
from tocsin.plan.block import Block
from tocsin.plan.problems import Problems
from tocsin.plan.rewrite import blocks_below

SETS = "EARLY does not go with repetitions, groups and marks"
WHY = "which events belong to a set, or come next, is known only when they have ended"
INSTEAD = "find the set with a query of its own, without EARLY"
WITHOUT = "leave one of them out; a query beside this one may have the other"


def check_early(query: Query, problems: Problems) -> None:
    """Report a missing window, and clauses that choose among matches: those need the matches themselves."""
    if query.within is None:
        problems.add(
            "EARLY without WITHIN",
            query.span,
            hint="an interval that never ended would stay open for good: WITHIN 5 min EARLY",
        )
    if query.timeout:
        problems.add("EARLY does not go with TIMEOUT", query.span, hint=WITHOUT)
    clauses = {
        "CONTINUITY": query.continuity, "CONSUME": query.consume, "AFTER MATCH SKIP": query.skip,
        "DISTINCT": query.distinct, "LIMIT": query.limit, "UNDER": query.under,
    }  # fmt: skip
    for word, clause in clauses.items():
        if clause is not None:
            problems.add(f"EARLY does not go with {word}", clause.span, hint=WITHOUT)
    if query.group or query.every is not None:
        problems.add(
            "EARLY does not go with GROUP BY and EVERY", query.span, hint="they count matches, not early answers"
        )
    if any(isinstance(part, Marked) for part in patterns_in(query.pattern)):
        problems.add(SETS, query.pattern.span, detail=WHY, hint=INSTEAD)
    if query.strategy in ("next", "strict"):
        problems.add(f"EARLY does not go with STRATEGY {query.strategy}", query.span, hint=WITHOUT)


def check_blocks(query: Query, blocks: Sequence[Block], problems: Problems, *, counts: bool) -> None:
    """Report repetitions and marks: who belongs to a set, or comes next, is known when everything has ended."""
    if counts:
        problems.add("EARLY does not go with SELECT that counts", query.span, hint=WITHOUT)
    for block in blocks:
        for each in blocks_below(block):
            if each.repeated or not all(part.forbids for part in each.forbidden):
                problems.add(SETS, query.pattern.span, detail=WHY, hint=INSTEAD)
                return


def check_sources(query: Query, names: Collection[str]) -> None:
    """Refuse to read matches of other queries: these are never open."""
    if names:
        raise QueryError(
            [
                Problem(
                    f"EARLY reads events, and {min(names)} is a query",
                    query.pattern.span,
                    hint="leave EARLY out here, or write the pattern of that query into this one",
                )
            ],
            query.text,
        )
