"""TIMEOUT: for every step behind the first, the query that finds its beginnings which that step did not extend.

The row of a missing step is a match of the items before it, as they are written, followed by the negation of the step
(docs/semantics.md, 10). So each becomes a pattern of its own, whose blocks are further alternatives of the plan. Of the
conditions it has those that mention nothing behind the missing step; equalities are closed before the others go.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations

from tocsin.events import ANY
from tocsin.lang.printer import print_pattern
from tocsin.lang.syntax import (
    Attr,
    Binary,
    Exists,
    Expr,
    Leaf,
    Marked,
    Not,
    Pattern,
    Query,
    Seq,
    Unary,
    conjoined,
    conjuncts,
    items_of,
    leaves_of,
    may_be_absent,
    rebuilt,
)
from tocsin.plan.closure import Classes, Member, as_equality
from tocsin.plan.problems import Problems
from tocsin.plan.typer import variables


@dataclass(frozen=True, slots=True)
class Beginning:
    """A query that finds the beginnings of matches which `step` did not extend."""

    step: str
    query: Query


def check_clauses(query: Query, problems: Problems) -> None:
    """Report clauses that choose otherwise what a match is, so that TIMEOUT has no meaning beside them."""
    clauses = {"WITHIN (t1, t2)": query.between, "CONTINUITY": query.continuity, "CONSUME": query.consume}
    for word, clause in clauses.items():
        if clause is not None:
            problems.add(f"TIMEOUT does not go with {word}", clause.span, hint="leave one of them out")


def check_timeout(query: Query, problems: Problems) -> bool:
    """Whether TIMEOUT means something; what is wrong with it is reported."""
    known = len(problems.found)
    items = _items(query.pattern)
    if query.within is None:
        problems.add(
            "TIMEOUT without WITHIN", query.span, hint="nothing says when it is too late: WITHIN 5 min TIMEOUT"
        )
    if items is None:
        problems.add(
            "TIMEOUT stands with a SEQ",
            query.pattern.span,
            detail="only the steps of a SEQ come one after the other, so that one of them can be missing",
            hint="write the pattern as SEQ(A a, B b), or leave TIMEOUT out",
        )
        return False
    steps = [at for at, item in enumerate(items) if is_step(item)]
    if len(steps) < 2:
        problems.add("TIMEOUT finds no step that could be missing", query.pattern.span, hint="write SEQ(A a, B b)")
        return False
    for item in items[: steps[-1]]:
        for leaf in _repeated(item):
            problems.add(
                f"{leaf.var} is repeated before the last step, which TIMEOUT cannot wait for",
                leaf.span,
                detail="which events belong to it is settled by the step behind it",
                hint="find the first part with a query of its own (QUERY name ...), and use its name here",
            )
    return len(problems.found) == known


def is_step(item: Pattern) -> bool:
    """Whether an item of a SEQ must come."""
    return not isinstance(item, Not) and not may_be_absent(item)


def _items(pattern: Pattern) -> tuple[Pattern, ...] | None:
    while isinstance(pattern, Exists):
        pattern = pattern.pattern
    return pattern.items if isinstance(pattern, Seq) else None


def _repeated(pattern: Pattern) -> Iterator[Leaf]:
    if isinstance(pattern, Leaf) and pattern.repeat is not None:
        yield pattern
    if not isinstance(pattern, Not):
        for item in items_of(pattern):
            yield from _repeated(item)


# --- the queries -----------------------------------------------------------------------------------------------------


def beginnings(query: Query) -> Iterator[Beginning]:
    """For each step of a named query that can be missing, the query that finds what came before it."""
    items = _items(query.pattern)
    assert items is not None
    steps = [at for at, item in enumerate(items) if is_step(item)]
    for at in steps[1:]:
        step = items[at]
        bare = step.pattern if isinstance(step, Marked) else step
        pattern = _around(query.pattern, Seq((*items[:at], *_between(step), Not(bare, span=step.span))))
        yield Beginning(called(bare), _with_conditions(query, pattern, bare))


def called(step: Pattern) -> str:
    """How the column `step` names a step: by its variable, a composite one by its text."""
    return str(step.var) if isinstance(step, Leaf) else print_pattern(step)


def _between(step: Pattern) -> Iterator[Not]:
    """What a NEXT before the missing step forbids. FIRST and LAST say nothing more than that the step is missing."""
    if isinstance(step, Marked) and step.mark == "NEXT":
        for number, type in enumerate(step.of or (ANY,)):
            yield Not(Leaf(type, f"next'{number}", span=step.span), span=step.span)


def _around(whole: Pattern, inner: Seq) -> Pattern:
    """The beginning, with what the EXISTS around the pattern hides of it."""
    if not isinstance(whole, Exists):
        return replace(inner, span=whole.span)
    shown = {leaf.var for item in inner.items if not isinstance(item, Not) for leaf in leaves_of(item)}
    hidden = tuple(var for var in whole.vars if var in shown)
    within = _around(whole.pattern, inner)
    return replace(whole, vars=hidden, pattern=within) if hidden else within


def _with_conditions(query: Query, pattern: Pattern, step: Pattern) -> Query:
    present = frozenset(str(leaf.var) for leaf in leaves_of(pattern))
    missing = frozenset(str(leaf.var) for leaf in leaves_of(step))
    moved: list[Expr] = []
    pattern = _trimmed(pattern, present, missing, moved, inside=False)
    where = [expr for expr in _closed(query, present) if variables(expr) <= present]
    where += [Unary("NOT", Unary("NOT", expr)) if as_equality(expr) else expr for expr in moved]  # these close nothing
    return replace(query, pattern=pattern, where=conjoined(where), timeout=False, select=())


def _trimmed(
    pattern: Pattern, present: frozenset[str], missing: frozenset[str], moved: list[Expr], *, inside: bool
) -> Pattern:
    """The pattern without conditions on what comes later; those of its leaves on the missing step go to WHERE."""
    if isinstance(pattern, Leaf):
        stay: list[Expr] = []
        for expr in conjuncts(pattern.where):
            mentioned = variables(expr)
            if mentioned <= present:
                (moved if mentioned & missing and pattern.var not in missing and not inside else stay).append(expr)
        return replace(pattern, where=conjoined(stay))
    deeper = inside or isinstance(pattern, Not)
    return rebuilt(pattern, [_trimmed(item, present, missing, moved, inside=deeper) for item in items_of(pattern)])


def _closed(query: Query, present: frozenset[str]) -> Iterator[Expr]:
    """The conjuncts of WHERE, and the equalities that follow from those which mention an absent variable."""
    classes = Classes()
    for expr in conjuncts(query.where):
        yield expr
        if (equality := as_equality(expr)) is not None:
            classes.join(equality.left, equality.right)
    for group in classes.all():
        members = [member for member in group if isinstance(member, Member)]
        if any(member.vars[0] not in present for member in members):
            left = [member for member in members if member.vars[0] in present]
            for one, other in combinations(left, 2):
                yield Binary("=", Attr(one.vars[0], one.attr), Attr(other.vars[0], other.attr), span=query.span)
