"""After a match: the bound form of AFTER MATCH SKIP, DISTINCT BY, LIMIT and counting (docs/semantics.md, 13 and 15).

They choose among the matches of a query and know nothing of how these are found, so they stand beside the blocks of a
plan. Their expressions use the index of a variable as the number of a leaf, as SELECT does.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import TypeAlias

from tocsin.plan.expr import Bound
from tocsin.schema import Kind

# What matches are told apart by: the first of these values that is not null. An attribute of the key is asked of each
# variable in turn, because a match need not bind all of them; any other value is asked once.
Grouping: TypeAlias = tuple[Bound, ...]


@dataclass(frozen=True, slots=True)
class Skipping:
    """AFTER MATCH SKIP: `to` is "past last", "next", or "first" or "last" with the index of a variable."""

    to: str
    variable: int | None = None


@dataclass(frozen=True, slots=True)
class Suppressing:
    """DISTINCT BY: of matches with equal values one; `every`: one until so many ticks have passed, else for ever."""

    by: tuple[Grouping, ...]
    every: int | None = None


@dataclass(frozen=True, slots=True)
class Limiting:
    """LIMIT: the first matches for each value of `per`, and in each span of `every` ticks.

    attrs  the attributes of the key that are among `per`
    """

    most: int
    per: tuple[Grouping, ...] = ()
    every: int | None = None
    attrs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Total:
    """An aggregate over matches: its function, and what it is asked of in each match (None: the match itself)."""

    function: str  # "count" | "sum" | "avg" | "min" | "max"
    arg: Bound | None
    kind: Kind
    scale: int = 0


@dataclass(frozen=True, slots=True)
class CountClauses:
    """SELECT over matches: one row for each group, and for each span of `every` ticks.

    columns  for each column of the result an aggregate, or the number of a group
    attrs    the attributes of the key that are among the groups
    """

    columns: tuple[Total | int, ...]
    by: tuple[Grouping, ...] = ()
    every: int | None = None
    attrs: tuple[str, ...] = ()

    @property
    def totals(self) -> tuple[Total, ...]:
        return tuple(column for column in self.columns if isinstance(column, Total))

    @property
    def asked(self) -> list[Bound]:
        """All values that are asked of a match."""
        args = [total.arg for total in self.totals if total.arg is not None]
        return [expr for group in self.by for expr in group] + args


@dataclass(frozen=True, slots=True)
class AfterMatch:
    """The clauses of one query, in the order in which they apply; at least one of them is there.

    key    the values of the query's key, which skipping and suppressing are kept apart by
    attrs  the attributes of that key
    lines  the clauses as text
    """

    key: tuple[Grouping, ...] = ()
    attrs: tuple[str, ...] = ()
    skip: Skipping | None = None
    distinct: Suppressing | None = None
    limit: Limiting | None = None
    count: CountClauses | None = None
    lines: tuple[str, ...] = ()

    @property
    def expressions(self) -> list[Bound]:
        """All values that are asked of a match."""
        groups = [*self.key]
        groups += () if self.distinct is None else self.distinct.by
        groups += () if self.limit is None else self.limit.per
        return [expr for group in groups for expr in group] + ([] if self.count is None else self.count.asked)

    @property
    def divides_by(self) -> tuple[str, ...]:
        """The attributes by which the matches can be kept apart: what one clause asks lies in one of the parts."""
        attrs = list(self.attrs)
        if self.limit is not None:
            attrs = [attr for attr in attrs if attr in self.limit.attrs]
        if self.count is not None:
            attrs = [attr for attr in attrs if attr in self.count.attrs]
        return tuple(attrs)

    def identity(self, fingerprint: str) -> str:
        """32 hex digits that identify a query with these clauses; its matches are named by the query without them."""
        return blake2b("\n".join((fingerprint, *self.lines)).encode(), digest_size=16).hexdigest()
