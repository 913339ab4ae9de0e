"""Bind AFTER MATCH SKIP, DISTINCT BY and LIMIT: which variables and values they may ask for, and what `check` says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from tocsin.events import TIME_LIMIT
from tocsin.functions import Function
from tocsin.lang.printer import print_selection
from tocsin.lang.syntax import (
    Attr,
    Call,
    Duration,
    Exists,
    Expr,
    Leaf,
    Maybe,
    Not,
    Or,
    Pattern,
    Query,
    Same,
    Seq,
    items_of,
    leaves_of,
)
from tocsin.plan.after_match import AfterMatch, Grouping, Limiting, Skipping, Suppressing
from tocsin.plan.block import Variable
from tocsin.plan.kinds import KindError, ticks
from tocsin.plan.pattern_tree import Site
from tocsin.plan.problems import Problems, listed, suggestion
from tocsin.plan.typer import Seen, Typer, member_variables, variables
from tocsin.schema import Schema


@dataclass(frozen=True, slots=True)
class ClauseBinder:
    """Binds the clauses of one query.

    key    the attributes of its key
    found  the variables of its result, and `seen` how expressions see them
    sites  every declaration of every variable, negated ones included
    """

    query: Query
    key: tuple[str, ...]
    found: tuple[Variable, ...]
    seen: Mapping[str, Seen | None]
    sites: Mapping[str, list[Site]]
    functions: Mapping[str, Function]
    schema: Schema
    problems: Problems
    count: bool = False  # whether SELECT is over matches

    def bound(self) -> AfterMatch | None:
        """The clauses; None if there are none."""
        query = self.query
        written = [clause for clause in (query.skip, query.distinct, query.limit) if clause is not None]
        if not written and not self.count:
            return None
        if shows_nothing(query.pattern, self._hidden):
            self.problems.add(
                "a match of this query may show no event at all, so there is nothing to choose by",
                written[0].span if written else query.span,
                hint="show one event of each match: leave a variable out of EXISTS",
            )
            return None
        return AfterMatch(
            tuple(self._of_key(attr) for attr in self.key),
            self.key,
            self._skip(),
            self._distinct(),
            self._limit(),
            lines=tuple(print_selection(query)),
        )

    @property
    def _hidden(self) -> set[str]:
        return {variable.name for variable in self.found if variable.hidden}

    # --- SKIP -----------------------------------------------------------------------------------------------------

    def _skip(self) -> Skipping | None:
        skip = self.query.skip
        if skip is None:
            return None
        if skip.var is None:
            return Skipping(skip.to)
        name, seen = skip.var.name, self.seen.get(skip.var.name)
        if name not in self.sites:
            return None  # an unknown variable: said already
        why = "hidden by EXISTS" if name in self._hidden else "bound inside a negated part" if seen is None else None
        if why is not None:
            self.problems.add(
                f"SKIP cannot go to {name}, which is {why}",
                skip.var.span,
                hint=f"go to a variable that the match shows: {self._shown()}",
            )
            return None
        assert seen is not None
        leading = set(map(id, leading_leaves(self.query.pattern, self._hidden)))
        declared = [leaf for leaf in leaves_of(self.query.pattern) if leaf.var == name]
        first = all(id(leaf) in leading for leaf in declared if not self._negated(leaf))
        if first and not (seen.repeated and skip.to == "last"):
            self.problems.add(
                f"SKIP TO {skip.to.upper()} {name} stays where the match begins: {name} is its first step",
                skip.var.span,
                hint="go to a later step, or SKIP TO NEXT EVENT keeps one match for each first event",
            )
        return Skipping(skip.to, seen.leaf)

    def _negated(self, leaf: Leaf) -> bool:
        mine = (site for site in self.sites[str(leaf.var)] if site.leaf is leaf)
        return any(region.gathers is None for site in mine for region in site.regions)

    def _shown(self) -> str:
        return listed(variable.name for variable in self.found if not variable.hidden)

    # --- DISTINCT and LIMIT -----------------------------------------------------------------------------------------

    def _distinct(self) -> Suppressing | None:
        distinct = self.query.distinct
        if distinct is None:
            return None
        every = self.every(distinct.every)
        if distinct.every is None:
            self.problems.note("DISTINCT without EVERY remembers every value for ever", "add EVERY 1 d, for example")
        return Suppressing(tuple(self.groupings(distinct.by, "DISTINCT BY")), every)

    def _limit(self) -> Limiting | None:
        limit = self.query.limit
        if limit is None:
            return None
        every = self.every(limit.every)
        if limit.every is None and limit.per:
            self.problems.note(
                "LIMIT without EVERY counts for ever, for each value of PER", "add EVERY 1 d, for example"
            )
        elif limit.every is None:
            self.problems.note(
                f"LIMIT without EVERY counts for ever: after {limit.most:,} matches no other comes",
                "add EVERY 1 d, for example",
            )
        per = tuple(group for expr in limit.per for group in self.groupings(expr, "LIMIT PER"))
        return Limiting(limit.most, per, every, self.key_attributes(limit.per))

    def key_attributes(self, exprs: Iterable[Expr]) -> tuple[str, ...]:
        """The attributes of the key that are among some expressions."""
        found = {attr for expr in exprs for attr in self._attributes(expr)}
        return tuple(attr for attr in self.key if attr in found)

    def _attributes(self, expr: Expr) -> Iterable[str]:
        """The attributes of the key whose value an expression is."""
        match expr:
            case Same(attrs):
                return attrs
            case Attr(_, name) if name in self.key:
                return (name,)
        return ()

    def every(self, length: Duration | None) -> int | None:
        if length is None:
            return None
        try:
            found = ticks(length, self.schema)
        except KindError as error:
            self.problems.add(error.message, length.span, detail=error.detail, hint=error.hint)
            return None
        if not 0 < found < TIME_LIMIT:
            what = "longer than nothing" if found <= 0 else f"below {TIME_LIMIT} ticks"
            self.problems.add(f"the length of EVERY must be {what}", length.span, hint="EVERY 10, EVERY 12 h")
            return None
        return found

    def groupings(self, expr: Expr, clause: str) -> Iterator[Grouping]:
        if not isinstance(expr, Same):
            yield self._value(expr, clause)
            return
        for attr in expr.attrs:
            if attr in self.key:
                yield self._of_key(attr)
                continue
            hint = suggestion(attr, self.key) or f"write it with its variable: {self.found[0].name}.{attr}"
            known = f"the key is {listed(self.key)}" if self.key else "this query has no key"
            if attr in self.seen:
                hint = f"{attr} is an event; name an attribute of it: {attr}.x"
            self.problems.add(
                f"{clause} {attr}: {attr} is no attribute of the key",
                expr.span,
                detail=f"a name by itself is an attribute of WHERE [...] or PARTITION BY, and {known}",
                hint=hint,
            )

    def _of_key(self, attr: str) -> Grouping:
        """An attribute of the key, asked of the variables that the match shows, until one of them is bound."""
        typer, found = self._typer, []
        for variable in self.found:
            seen = self.seen[variable.name]
            if variable.hidden or seen is None:
                continue
            asked: Expr = Attr(variable.name, attr)
            found.append(typer.value(Call("first", (asked,)) if variable.repeated else asked))
            if not seen.optional:
                break
        return tuple(found)

    def _value(self, expr: Expr, clause: str) -> Grouping:
        span = expr.span
        hidden = self._hidden
        invisible = [v for v in sorted(variables(expr)) if v in hidden or (v in self.sites and v not in self.seen)]
        if invisible:
            why = "hidden by EXISTS" if invisible[0] in hidden else "bound inside a negated part"
            self.problems.add(
                f"{clause} cannot ask {invisible[0]}, which is {why}",
                span,
                hint=f"ask the variables that the match shows: {self._shown()}",
            )
            return ()
        bare = member_variables(expr)
        if var := next((each.name for each in self.found if each.repeated and each.name in bare), None):
            self.problems.add(
                f"{var} is repeated, so {clause} needs an aggregate of it",
                span,
                hint=f"count({var}), first({var}.x), last({var}.x), sum({var}.x), ...",
            )
            return ()
        return (self._typer.value(expr),)

    @property
    def _typer(self) -> Typer:
        return Typer(self.schema, self.functions, self.seen, self.problems, shows=True)

    def value(self, expr: Expr, clause: str) -> Grouping:
        """A value of the events that a match shows; () if there is something wrong with it."""
        return self._value(expr, clause)


# --- which step is the first ----------------------------------------------------------------------------------------


def leading_leaves(pattern: Pattern, hidden: set[str]) -> Iterator[Leaf]:
    """The leaves that are the first step that is shown, in the branches of OR that bind them."""
    match pattern:
        case Leaf():
            yield pattern
        case Not():
            return
        case Exists(_, inner):
            yield from leading_leaves(inner, hidden)
        case Or(items):
            for item in items:
                yield from leading_leaves(item, hidden)
        case _:
            shown = [
                item for item in items_of(pattern) if not isinstance(item, Not) and not shows_nothing(item, hidden, all)
            ]
            if shown and (isinstance(pattern, Seq) or len(shown) == 1):
                yield from leading_leaves(shown[0], hidden)


def shows_nothing(pattern: Pattern, hidden: set[str], every: Callable[[Iterable[bool]], bool] = any) -> bool:
    """Whether a match of a pattern may have no event that is shown; with `every=all`: whether none ever has one."""
    match pattern:
        case Leaf():
            return pattern.var in hidden or (pattern.may_be_absent and every is any)
        case Maybe(inner):
            return every is any or shows_nothing(inner, hidden, every)
        case Not():
            return True
        case Or(items):
            return every(shows_nothing(item, hidden, every) for item in items)
    return all(shows_nothing(item, hidden, every) for item in items_of(pattern))
