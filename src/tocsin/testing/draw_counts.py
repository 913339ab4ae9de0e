"""Random queries that count: a query gets aggregates over its matches, GROUP BY and EVERY."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from tocsin.events import Event
from tocsin.lang.syntax import (
    Attr,
    Binary,
    Call,
    Duration,
    Expr,
    Leaf,
    Literal,
    Name,
    Query,
    Same,
    SelectItem,
    Seq,
    conjuncts,
    leaves_of,
    named,
)
from tocsin.schema import Schema
from tocsin.testing.strategies import SCHEMA, is_valid

TRIES = 20
NUMBERS, ORDERED = ("id", "v", "w"), ("id", "v", "w", "s")


def with_counts(random: Random, drawn: Query, schema: Schema = SCHEMA) -> Query | None:
    """The query with aggregates over its matches; None if nothing fits."""
    full = named(replace(drawn, text="", timeout=False, name=None, hidden=False, select=()))
    if random.random() < 0.4 and is_valid(keyed := replace(full, partition=("id",)), schema):
        full = keyed
    for _ in range(TRIES):
        asked = _counted(random, full)
        if is_valid(asked, schema):
            return asked
    return None


def _counted(random: Random, query: Query) -> Query:
    key = [attr for expr in conjuncts(query.where) if isinstance(expr, Same) for attr in expr.attrs]
    key = list(dict.fromkeys((*key, *query.partition)))
    variables = [str(leaf.var) for leaf in leaves_of(query.pattern) if leaf.repeat is None]
    groups: tuple[Expr, ...] = ()
    if random.random() < 0.5:
        if key and random.random() < 0.7:
            groups = (Same((random.choice(key),)),)
        elif variables:
            groups = (Attr(random.choice(variables), random.choice(("v", "s", "ok"))),)
    items = [SelectItem(expr) for expr in groups if random.random() < 0.8]
    items += [SelectItem(_aggregate(random, variables)) for _ in range(random.randint(1, 3))]
    random.shuffle(items)
    items = [replace(item, name=f"c{at}") for at, item in enumerate(items)]
    every = Duration(random.choice((2, 5, 9))) if random.random() < 0.5 else None
    return replace(query, select=tuple(items), group=groups, every=every)


def _aggregate(random: Random, variables: Sequence[str]) -> Expr:
    function = random.choice(("count", "count", "sum", "sum", "avg", "min", "max"))
    if not variables or (function == "count" and random.random() < 0.6):
        return Call("count", ())
    var = random.choice(variables)
    if function == "count" and random.random() < 0.3:
        return Call("count", (Name(var),))
    value: Expr = Attr(var, random.choice(ORDERED if function in ("count", "min", "max") else NUMBERS))
    if function in ("sum", "avg") and random.random() < 0.3:
        other: Expr = Attr(random.choice(variables), "v") if random.random() < 0.5 else Literal(2)
        value = Binary(random.choice(("+", "*")), value, other)
    return Call(function, (value,))


def chain(random: Random) -> Query:
    """A SEQ whose matches a recurrence counts, or nearly: sometimes with a condition between two events."""
    steps = random.randint(1, 4)
    leaves = tuple(Leaf(random.choice("ABC"), f"x{at}", _condition(random, f"x{at}")) for at in range(steps))
    within = Duration(random.randint(2, 20)) if random.random() < 0.5 else None
    where: Expr | None = None
    if random.random() < 0.15 and steps > 1:
        where = Binary("<=", Attr("x0", "v"), Attr("x1", "v"))
    pattern = Seq(leaves) if steps > 1 else leaves[0]
    return Query(pattern, where=where, within=within, partition=("id",) if random.random() < 0.5 else ())


def _condition(random: Random, var: str) -> Expr | None:
    if random.random() < 0.6:
        return None
    return Binary(
        random.choice((">", "<=", "=", "<>")), Attr(var, random.choice(("v", "w"))), Literal(random.randint(0, 3))
    )


def points(random: Random, most: int) -> list[Event]:
    """A dense history without intervals, with ties, nulls and NaN."""
    found = []
    for number in range(random.choice((0, 2, most // 2, most, most, most))):
        time = random.randint(0, 20)
        whole = random.choice((None, 0, 1, 2, 3, -1, 2**62))
        real = random.choice((None, 0.0, 0.5, 1.0, 3.0, -0.25, 1e300, float("nan"), float("inf"), 0.1))
        attrs = {"id": random.choice((0, 1, 1, None)), "v": whole, "w": real, "s": random.choice((None, "p", "q"))}
        found.append(Event(random.choice("ABC"), time, time, f"e{number}", attrs))
    return found
