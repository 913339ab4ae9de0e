"""UNTIL: what ends a repetition; which variables its condition may mention (docs/semantics.md, 6).

It becomes a block of one leaf that forbids nothing: the gap of the repetition ends where its first match starts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tocsin.lang.syntax import AGGREGATES, Call, Expr, Leaf, conjuncts, walk
from tocsin.plan.pattern_tree import Site, chained
from tocsin.plan.problems import Problems
from tocsin.plan.typer import variables


def check_until(sites: Mapping[str, Sequence[Site]], problems: Problems) -> None:
    """Report conditions that cannot be asked of the event that ends a repetition."""
    for several in sites.values():
        for site in several:
            if site.leaf.until is not None:
                _check(site, site.leaf.until, sites, problems)


def _check(site: Site, until: Leaf, sites: Mapping[str, Sequence[Site]], problems: Problems) -> None:
    if until.var != site.var and until.var in sites:
        problems.add(f"{until.var} is declared twice", until.span, hint="UNTIL A a: give a a name of its own")
    for expr in conjuncts(until.where):
        place = expr.span or until.span
        if _aggregates(expr):
            problems.add(
                "UNTIL cannot use an aggregate",
                place,
                detail="the repetition is not known before it has ended",
                hint="compare attributes of single events, or ask the aggregate in WHERE",
            )
        for var in sorted(variables(expr) - {str(until.var)}):
            if var == site.var:
                problems.add(f"UNTIL {until.type or 'ANY'} cannot mention {var}, which it ends", place,
                             hint=f"write UNTIL with a condition on {var}, or in WHERE")  # fmt: skip
            elif sites.get(var) and not any(_visible(other, site) for other in sites[var]):
                problems.add(f"UNTIL cannot see {var}, which is inside a negated part", place,
                             hint="mention variables that the match binds")  # fmt: skip


def _aggregates(expr: Expr) -> bool:
    return any(isinstance(node, Call) and node.function in AGGREGATES for node in walk(expr))


def _visible(other: Site, site: Site) -> bool:
    return len(other.regions) <= len(site.regions) and chained(other.regions, site.regions)
