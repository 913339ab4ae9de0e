"""TIMEOUT as the oracle reads it: the beginnings of a SEQ that a step did not extend, each found by a query of its own.

Such a query has the items before the step as they are written, then the negation of the step (docs/semantics.md, 10).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tocsin.events import ANY
from tocsin.lang.syntax import (
    Binary,
    Exists,
    Expr,
    Leaf,
    Marked,
    Not,
    Pattern,
    Query,
    Same,
    Seq,
    Unary,
    conjuncts,
    items_of,
    leaves_of,
    may_be_absent,
    rebuilt,
)
from tocsin.testing.oracle_expr import UndefinedError, variables
from tocsin.testing.oracle_parts import closed, equality, variables_of, within_block


def must_come(item: Pattern) -> bool:
    """Whether an item of a SEQ is a step that can be missing."""
    return not isinstance(item, Not) and not may_be_absent(item)


def beginnings(query: Query) -> Iterator[tuple[str, Query]]:
    """For each step behind the first: its name, and the query that finds beginnings which it did not extend."""
    hidden: list[str] = []
    pattern = query.pattern
    while isinstance(pattern, Exists):
        hidden += pattern.vars
        pattern = pattern.pattern
    if query.between or query.continuity or query.consume:
        raise UndefinedError("TIMEOUT does not go with another way to say what a match is")
    if not isinstance(pattern, Seq) or query.within is None:
        raise UndefinedError("TIMEOUT stands with a SEQ and a window")
    steps = [at for at, item in enumerate(pattern.items) if must_come(item)]
    if len(steps) < 2:
        raise UndefinedError("TIMEOUT finds no step that could be missing")
    early = [node for item in pattern.items[: steps[-1]] for node in within_block(item)]
    if any(isinstance(node, Leaf) and node.repeat is not None for node in early):
        raise UndefinedError("a repetition before the last step, which TIMEOUT cannot wait for")
    for at in steps[1:]:
        yield beginning(query, pattern.items[:at], pattern.items[at], frozenset(hidden))


def beginning(query: Query, before: Sequence[Pattern], step: Pattern, hidden: frozenset[str]) -> tuple[str, Query]:
    bare = step.pattern if isinstance(step, Marked) else step
    forbidden: list[Pattern] = []
    if isinstance(step, Marked) and step.mark == "NEXT":
        forbidden = [Not(Leaf(type, f"next {number}")) for number, type in enumerate(step.of or (ANY,))]
    whole: Pattern = Seq((*before, *forbidden, Not(bare)))
    known = variables_of(leaves_of(whole))
    late = variables_of(leaves_of(bare))
    where: list[Expr] = [expr for expr in conjuncts(query.where) if isinstance(expr, Same)]
    where += [each.expr for each in closed(query) if not each.soft and each.variables <= known]
    for leaf in (node for item in before for node in within_block(item) if isinstance(node, Leaf)):
        for expr in conjuncts(leaf.where):  # judged when the step would come, so they are conditions on that
            if variables(expr) <= known and variables(expr) & late:
                where.append(Unary("NOT", Unary("NOT", expr)) if equality(expr) else expr)
    whole = without_later(whole, known, late, positive=True)
    shown = hidden & variables_of(node for item in before for node in within_block(item) if isinstance(node, Leaf))
    if shown:
        whole = Exists(tuple(sorted(shown)), whole)
    name = str(bare.var) if isinstance(bare, Leaf) else str(Query(bare)).removeprefix("EVENT ")
    return name, replace(query, pattern=whole, where=joined(where), select=(), timeout=False)


def without_later(pattern: Pattern, known: frozenset[str], late: frozenset[str], *, positive: bool) -> Pattern:
    """The pattern without what its leaves say of later steps, and leaves before the missing step say of that."""
    if isinstance(pattern, Leaf):
        kept = [expr for expr in conjuncts(pattern.where) if variables(expr) <= known]
        if positive:
            kept = [expr for expr in kept if not variables(expr) & late]
        return replace(pattern, where=joined(kept))
    positive = positive and not isinstance(pattern, Not)
    return rebuilt(pattern, [without_later(item, known, late, positive=positive) for item in items_of(pattern)])


def joined(several: Sequence[Expr]) -> Expr | None:
    whole: Expr | None = None
    for expr in several:
        whole = expr if whole is None else Binary("AND", whole, expr)
    return whole
