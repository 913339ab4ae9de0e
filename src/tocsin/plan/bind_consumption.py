"""Bind CONSUME: which patterns and conditions a mode can work on, and what else is asked of whole sets.

A mode decides about each event when it comes, from what it has kept. So a step is one leaf, a condition is about one
event, and only `cumulative`, which keeps sets, may ask for aggregates of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tocsin.events import ANY
from tocsin.functions import Function
from tocsin.lang.syntax import (
    And,
    Expr,
    Leaf,
    Not,
    Or,
    Pattern,
    Query,
    Repeat,
    Same,
    Seq,
    conjoined,
    conjuncts,
    leaves_of,
)
from tocsin.plan.bind_continuity import forbidden_leaves
from tocsin.plan.block import Variable
from tocsin.plan.consumption import Consumption, Shape
from tocsin.plan.problems import Problems
from tocsin.plan.typer import Seen, Typer, member_variables, set_variables, variables
from tocsin.schema import Schema

ONCE_OR_MORE = Repeat(1, None)
PATTERNS = "a mode works on SEQ of events with negated events between them, on AND or OR of events"


@dataclass(frozen=True, slots=True)
class Consuming:
    """A query with a mode, taken apart.

    written  the query as it was written
    plain    the same with one event at each step and without conditions over sets: what its blocks are made of
    between  what CONTINUITY lets not come between; the plain query has them as negated leaves
    """

    written: Query
    plain: Query
    mode: str
    shape: Shape
    steps: tuple[Leaf, ...]
    absent: tuple[tuple[Leaf, int], ...]
    having: tuple[Expr, ...]
    between: tuple[Leaf, ...] = ()

    @property
    def sets(self) -> tuple[int, ...]:
        """The steps whose variables are sets: in a SEQ all but the last."""
        if self.mode != "cumulative" or self.shape == "or":
            return ()
        return tuple(range(len(self.steps) - (self.shape == "seq")))

    def with_sets(
        self, found: tuple[Variable, ...], seen: Mapping[str, Seen | None]
    ) -> tuple[tuple[Variable, ...], dict[str, Seen | None]]:
        """The variables of the result, where those of sets are repeated."""
        sets = {self.steps[at].var for at in self.sets}
        found = tuple(replace(each, repeated=True) if each.name in sets else each for each in found)
        known = {name: replace(each, repeated=True) if each and name in sets else each for name, each in seen.items()}
        return found, known

    def bound(
        self,
        seen: Mapping[str, Seen | None],
        schema: Schema,
        functions: Mapping[str, Function],
        problems: Problems,
        exceeds: int | None,
    ) -> Consumption:
        """The mode with what it asks of sets."""
        typer = Typer(schema, functions, seen, problems)
        places = [each.leaf for leaf in self.steps if (each := seen[str(leaf.var)]) is not None]
        return Consumption(
            self.mode,
            self.shape,
            tuple(str(leaf.var) for leaf in self.steps),
            tuple(places),
            tuple((str(leaf.var), gap) for leaf, gap in self.absent),
            self.sets,
            tuple(typer.condition(expr) for expr in self.having),
            tuple(str(leaf.var) for leaf in self.between),
            exceeds,
        )


def consuming(query: Query, problems: Problems) -> Consuming | None:
    """The parts of a query with a mode; None without one, or if it cannot work (then problems say why)."""
    clause = query.consume
    if clause is not None and query.strategy is not None:
        _with_strategy(query, problems)
        return None
    if clause is None or clause.mode == "unrestricted":
        return None
    before = len(problems.found)
    shape, steps, absent = _shape(query.pattern, problems)
    for leaf in steps:
        _check_repeat(leaf, clause.mode, problems)
    if len({leaf.var for leaf in steps}) < len(steps):
        problems.add(
            "a variable stands for two steps", query.pattern.span, hint="give each branch a variable of its own"
        )
    if len(problems.found) > before:
        return None
    found = Consuming(query, query, clause.mode, shape, steps, absent, ())
    sets = frozenset(str(steps[at].var) for at in found.sets)
    having = tuple(expr for expr in conjuncts(query.where) if set_variables(expr) & sets)
    for leaf in leaves_of(query.pattern):
        for expr in conjuncts(leaf.where):
            _check_single(expr, frozenset((str(leaf.var),)), clause.mode, problems)
    for expr in conjuncts(query.where):
        if expr in having:
            _check_whole(expr, sets, frozenset(str(leaf.var) for leaf, _ in absent), problems)
        else:
            _check_single(expr, None, clause.mode, problems)
    left = [expr for expr in conjuncts(query.where) if expr not in having]
    between = _between(query, shape, len(steps), problems)
    pattern = _with_negated(_single(query.pattern), between)
    plain = replace(query, pattern=pattern, where=conjoined(left), continuity=None)
    return replace(found, plain=plain, having=having, between=between)


def _between(query: Query, shape: Shape, steps: int, problems: Problems) -> tuple[Leaf, ...]:
    """What must not come between; between one event and itself there is nothing."""
    clause = query.continuity
    if query.between is not None and shape == "and":
        problems.add(
            "a mode of AND takes no window with a lower end",
            query.between.span,
            hint="write WITHIN 10, or SEQ: the longer of two lengths would have to be waited for",
        )
    if clause is None or shape == "or" or steps < 2:
        return ()
    named = {leaf.type for leaf in leaves_of(query.pattern)}
    if ANY in named:
        problems.add("CONTINUITY beside ANY does not go together with a mode", clause.span, hint="name the types")
        return ()
    if ours := sorted(set(clause.types) & named):
        problems.add(
            f"with a mode CONTINUITY cannot forbid {ours[0]}, which the pattern names",
            clause.span,
            detail="a mode uses such events up or passes them over; it is said by its name what becomes of them",
            hint="leave CONSUME out to forbid events of that type that the match does not hold",
        )
        return ()
    return tuple(forbidden_leaves(query))


def _with_negated(pattern: Pattern, leaves: tuple[Leaf, ...]) -> Pattern:
    """The pattern with negated leaves somewhere between its first and its last step."""
    negated = tuple(Not(leaf, span=leaf.span) for leaf in leaves)
    if isinstance(pattern, Seq | And):
        return replace(pattern, items=(pattern.items[0], *negated, *pattern.items[1:]))
    return pattern


def _with_strategy(query: Query, problems: Problems) -> None:
    assert query.consume is not None
    problems.add(
        "CONSUME and STRATEGY do not go together",
        query.consume.span,
        detail="a strategy chooses among all combinations, a mode uses events up as they come",
        hint="leave one of them out: CONSUME first is the nearest to STRATEGY next",
    )


# --- patterns --------------------------------------------------------------------------------------------------------


def _shape(pattern: Pattern, problems: Problems) -> tuple[Shape, tuple[Leaf, ...], tuple[tuple[Leaf, int], ...]]:
    """What the steps are and in which gaps negated leaves stand."""
    match pattern:
        case Leaf():
            return "seq", (pattern,), ()
        case Seq(items):
            return _sequence(items, problems)
        case And(items) | Or(items):
            word = "AND" if isinstance(pattern, And) else "OR"
            for item in items:
                if not isinstance(item, Leaf):
                    _no_leaf(item, f"an item of {word}", problems)
            leaves = tuple(item for item in items if isinstance(item, Leaf))
            return ("and" if isinstance(pattern, And) else "or"), leaves, ()
    _no_leaf(pattern, "the whole pattern", problems)
    return "seq", (), ()


def _sequence(
    items: tuple[Pattern, ...], problems: Problems
) -> tuple[Shape, tuple[Leaf, ...], tuple[tuple[Leaf, int], ...]]:
    steps: list[Leaf] = []
    absent: list[tuple[Leaf, int]] = []
    for item in items:
        if isinstance(item, Not) and isinstance(item.pattern, Leaf):
            absent.append((item.pattern, len(steps)))
            if item.pattern.repeat is not None:
                problems.add("a negated step of a mode is one event", item.span, hint="leave the repetition out")
        elif isinstance(item, Leaf):
            steps.append(item)
        else:
            _no_leaf(item, "a step", problems)
    for leaf, gap in absent:
        if gap in (0, len(steps)):
            problems.add(
                "a mode takes a negation only between two steps",
                leaf.span,
                detail="it decides when an event comes, and waits for no other",
                hint="put it between two steps, or leave CONSUME out",
            )
    return "seq", tuple(steps), tuple(absent)


def _no_leaf(item: Pattern, what: str, problems: Problems) -> None:
    problems.add(
        f"CONSUME needs one event as {what}",
        item.span,
        detail=PATTERNS,
        hint="name the inner part with QUERY, and use that name as an event type",
    )


def _check_repeat(leaf: Leaf, mode: str, problems: Problems) -> None:
    if leaf.optional or leaf.until is not None:
        what = "may be absent" if leaf.optional else "ends with UNTIL"
        hint = "leave it out of the pattern, or leave CONSUME out"
        problems.add(f"a step of a mode is one event, and none that {what}", leaf.span, hint=hint)
        return
    if leaf.repeat is None or (mode == "cumulative" and leaf.repeat == ONCE_OR_MORE):
        return
    name = leaf.type or "ANY"
    hint = f"CONSUME cumulative gathers all events of a step: {name} {leaf.var}"
    if mode == "cumulative":
        hint = (
            f"a step gathers all its events; ask for a number of them: WHERE count({leaf.var}) >= {leaf.repeat.least}"
        )
    problems.add("a step of a mode is one event, not a repetition", leaf.span, hint=hint)


def _single(pattern: Pattern) -> Pattern:
    match pattern:
        case Leaf():
            return replace(pattern, repeat=None)
        case Seq(items) | And(items) | Or(items):
            return replace(pattern, items=tuple(map(_single, items)))
    return pattern


# --- conditions ------------------------------------------------------------------------------------------------------


def _check_single(expr: Expr, own: frozenset[str] | None, mode: str, problems: Problems) -> None:
    """A condition about one event; `own`: at a leaf, only about that one."""
    if isinstance(expr, Same):
        return
    mentioned = variables(expr)
    others = len(mentioned) > 1 if own is None else bool(mentioned - own)
    if not others:
        return
    hint = "compare attributes of the key with WHERE [attr], or leave CONSUME out"
    if mode == "cumulative":
        hint = "ask aggregates of the sets, in WHERE: sum(a.v) > b.v"
    problems.add(
        "a condition of a mode is about one event",
        expr.span,
        detail="a mode takes an event without looking for another one that would fit better",
        hint=hint,
    )


def _check_whole(expr: Expr, sets: frozenset[str], absent: frozenset[str], problems: Problems) -> None:
    """A condition over sets, asked when a match is complete."""
    bare = member_variables(expr)
    if single := next(iter(sorted(bare & sets)), None):
        problems.add(
            f"{single} is a set here, so a condition over sets needs an aggregate of it",
            expr.span,
            hint=f"count({single}), sum({single}.x), first({single}.x), last({single}.x), ...",
        )
    if gone := next(iter(sorted(variables(expr) & absent)), None):
        problems.add(
            f"{gone} is negated, so it is not there when the sets are complete",
            expr.span,
            hint="a condition on a negated event mentions that event alone",
        )
