"""Random clauses after a match: a query gets AFTER MATCH SKIP, DISTINCT BY and LIMIT, one of them or several."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from tocsin.lang.syntax import (
    Attr,
    Binary,
    Call,
    DistinctClause,
    Duration,
    Expr,
    Leaf,
    LimitClause,
    Literal,
    Name,
    Query,
    Same,
    SkipClause,
    conjuncts,
    leaves_of,
    named,
)
from tocsin.schema import Schema
from tocsin.testing.strategies import SCHEMA, is_valid

TRIES = 12
ATTRIBUTES = ("id", "v", "w", "s", "ok")


def with_clauses(random: Random, drawn: Query, schema: Schema = SCHEMA) -> Query:
    """The query with a key, often, and with clauses; as it was, if none fits (all that it binds is hidden)."""
    full = named(replace(drawn, text=""))
    if random.random() < 0.5 and is_valid(
        keyed := replace(full, partition=random.choice((("id",), ("id", "ok")))), schema
    ):
        full = keyed
    for _ in range(TRIES):
        asked = _Chooser(random, full).asked()
        if asked != full and is_valid(asked, schema):
            return asked
    return drawn


class _Chooser:
    def __init__(self, random: Random, query: Query) -> None:
        self.random, self.query = random, query
        self.leaves = leaves_of(query.pattern)
        same = (attr for expr in conjuncts(query.where) if isinstance(expr, Same) for attr in expr.attrs)
        self.key = tuple(dict.fromkeys((*same, *query.partition)))

    def asked(self) -> Query:
        which = self.random.choice(("skip", "skip", "skip", "distinct", "limit", "skip distinct", "skip limit", "all"))
        query = self.query
        if "skip" in which or which == "all":
            query = replace(query, skip=self.skip())
        if "distinct" in which or which == "all":
            query = replace(query, distinct=DistinctClause(self.grouping(), self.every()))
        if "limit" in which or which == "all":
            per = tuple(self.grouping() for _ in range(self.random.choice((0, 1, 1, 2))))
            query = replace(query, limit=LimitClause(self.random.choice((1, 1, 2, 3)), per, self.every()))
        return query

    def skip(self) -> SkipClause:
        if self.random.random() < 0.5:
            return SkipClause("past last") if self.random.random() < 0.6 else SkipClause("next")
        leaf = self.random.choice(self.leaves)
        return SkipClause("first" if self.random.random() < 0.5 else "last", Name(str(leaf.var)))

    def every(self) -> Duration | None:
        return None if self.random.random() < 0.3 else Duration(self.random.choice((1, 2, 3, 5, 8)))

    def grouping(self) -> Expr:
        if self.key and self.random.random() < 0.4:
            return Same((self.random.choice(self.key),))
        leaf, kind = self.random.choice(self.leaves), self.random.random()
        if kind < 0.15:
            return Call(self.random.choice(("start", "end")), (Name(str(leaf.var)),))
        attr = self._of(leaf, self.random.choice(ATTRIBUTES))
        return Binary("%", self._of(leaf, "v"), Literal(2)) if kind < 0.3 else attr

    def _of(self, leaf: Leaf, attr: str) -> Expr:
        asked = Attr(str(leaf.var), attr)
        if leaf.repeat is None:
            return asked
        return Call(self.random.choice(("first", "last", "max")), (asked,)) if attr != "ok" else Call("count", (asked,))
