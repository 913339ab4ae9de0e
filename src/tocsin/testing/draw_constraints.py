"""Random constraints of Gu 2011: a query gets a window with two strict ends, or CONTINUITY, or both."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from tocsin.lang.syntax import ContinuityClause, Duration, OpenWindow, Query, leaves_of, named
from tocsin.schema import Schema
from tocsin.testing.strategies import SCHEMA, is_valid

TRIES = 8
TYPES = "ABCD"


def with_constraints(random: Random, drawn: Query, schema: Schema = SCHEMA) -> Query:
    """The query with constraints; as it was, if none fits."""
    full = named(replace(drawn, text=""))
    for _ in range(TRIES):
        which, asked = random.choice(("between", "continuity", "continuity", "both")), full
        if which != "continuity":
            more = random.choice((0, 0, 1, 2))
            window = OpenWindow(Duration(more), Duration(more + random.choice((2, 3, 4, 6, 9))))
            asked = replace(asked, within=None, between=window)
        if which != "between":
            asked = replace(asked, continuity=_continuity(random, full))
        if is_valid(asked, schema):
            return asked
    return drawn


def _continuity(random: Random, query: Query) -> ContinuityClause:
    """All that the pattern does not name, or one or two types; rather some that it does not name."""
    others = [type for type in TYPES if type not in {leaf.type for leaf in leaves_of(query.pattern)}]
    if random.random() < 0.4:
        return ContinuityClause()
    if others and random.random() < 0.5:
        return ContinuityClause((random.choice(others),))
    return ContinuityClause(tuple(random.sample(TYPES, random.choice((1, 1, 2)))))
