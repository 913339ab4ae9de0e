"""Items that may be absent: `B?`, `B*`, `B{0,m}` and MAYBE; where they may stand, and what becomes of conditions.

Each is a choice (docs/semantics.md, 6): the alternatives with it, and those without it. Where `B? b` or `B* b` is
absent, no event qualifies for it, which is a forbidden block (`plan/sought`); conditions over b are asked there and
nowhere else. Where a MAYBE item is absent, conjuncts of WHERE over its variables are dropped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tocsin.lang.syntax import Expr, Leaf, Marked, Maybe, Not, Pattern, Seq, items_of, leaves_of, may_be_absent
from tocsin.plan.closure import Conditions, as_equality, written_classes
from tocsin.plan.pattern_tree import Site, chained
from tocsin.plan.problems import Problems
from tocsin.plan.typer import member_variables, variables


def ways_of_absence(pattern: Pattern) -> dict[str, str]:
    """The variables of items that may be absent: "maybe", "optional" or "repeated"."""
    found: dict[str, str] = {}
    for item in items_of(pattern):
        found |= ways_of_absence(item)
    if isinstance(pattern, Maybe):  # an optional step inside may be absent where the item is there
        found = {str(leaf.var): "maybe" for leaf in leaves_of(pattern)} | found
    elif isinstance(pattern, Leaf) and pattern.may_be_absent:
        found[str(pattern.var)] = "optional" if pattern.optional else "repeated"
    return found


# --- where they may stand --------------------------------------------------------------------------------------------


def check_optional(pattern: Pattern, problems: Problems, host: Pattern | None = None) -> None:
    """Report items that may be absent where they mean nothing."""
    if isinstance(pattern, Seq):
        positive = [item for item in pattern.items if not isinstance(item, Not)]
        if positive and all(may_be_absent(item) for item in positive):
            problems.add(
                "SEQ needs an item that must come",
                pattern.span,
                detail="all its items may be absent, and then nothing would be left",
                hint="write one of them without ?, * or MAYBE",
            )
    elif not isinstance(host, Seq) and (isinstance(pattern, Maybe) or _written(pattern)):
        word = "MAYBE" if isinstance(pattern, Maybe) else _written(pattern)
        problems.add(
            f"{word} stands directly in SEQ only",
            pattern.span,
            hint="put the item into a SEQ with one that must come: SEQ(A a, B? b)",
        )
    for item in items_of(pattern):
        check_optional(item, problems, host if isinstance(pattern, Marked) else pattern)


def _written(leaf: Pattern) -> str:
    """How a leaf says that it may be absent; empty if it must come, or is no leaf."""
    if not isinstance(leaf, Leaf) or not leaf.may_be_absent:
        return ""
    return "?" if leaf.optional else "*" if leaf.repeat and leaf.repeat.most is None else "{0,m}"


# --- conditions ------------------------------------------------------------------------------------------------------


def asked_elsewhere(expr: Expr, gone: Mapping[str, str]) -> bool:
    """Whether a condition is over an absent `B?` or `B*`: it is asked of the events that could have stood for it."""
    return any(
        (gone.get(var) == "optional" and var in variables(expr))
        or (gone.get(var) == "repeated" and var in member_variables(expr))
        for var in variables(expr)
    )


def is_dropped(expr: Expr, gone: Mapping[str, str]) -> bool:
    """Whether a conjunct of WHERE is not asked where these variables are absent."""
    return asked_elsewhere(expr, gone) or any(gone.get(var) == "maybe" for var in variables(expr))


def check_beside_negated(
    conjunct: Expr,
    optional: Mapping[str, str],
    sites: Mapping[str, Sequence[Site]],
    conditions: Conditions,
    problems: Problems,
) -> None:
    """An optional step that is absent is a negated part beside the others: nothing can relate it to one of these."""
    for var in sorted(variables(conjunct)):
        if optional.get(var) == "maybe" or not asked_elsewhere(conjunct, {var: optional.get(var, "")}):
            continue
        for mine in sites.get(var, ()):
            for other in sorted(variables(conjunct)):
                deeper = [site for site in sites.get(other, ()) if len(site.regions) > len(mine.regions)]
                if any(chained(mine.regions, site.regions) for site in deeper) and not _related(
                    conjunct, mine, optional, sites, conditions
                ):
                    problems.add(
                        f"{var} may be absent, and {other} is in a negated part",
                        conjunct.span,
                        detail=f"where {var} is absent it is a negated part of its own, and each is judged by itself",
                        hint="relate both to a variable that is always bound, or write MAYBE",
                    )
                    return


def _related(
    conjunct: Expr,
    mine: Site,
    optional: Mapping[str, str],
    sites: Mapping[str, Sequence[Site]],
    conditions: Conditions,
) -> bool:
    """Whether an equality follows from others with a variable that is always bound where the optional one stands."""
    equality = as_equality(conjunct)
    if equality is None:
        return False
    keys = {attr for attr, _ in conditions.same}
    if equality.left.attr in keys or equality.right.attr in keys:
        return True
    for group in written_classes(conditions):
        if equality.left in group:
            fixed = [member.vars[0] for member in group if member.vars[0] not in optional]
            others = [site for var in fixed for site in sites.get(var, ()) if site.spot.repeat is None]
            return any(
                len(site.regions) <= len(mine.regions) and chained(site.regions, mine.regions) for site in others
            )
    return False
