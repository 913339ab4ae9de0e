"""Random queries with a consumption mode: SEQ with negated leaves, AND and OR of leaves, conditions on one event."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from tocsin.lang.syntax import (
    MODES,
    And,
    Attr,
    Binary,
    Call,
    ConsumeClause,
    Duration,
    Expr,
    Leaf,
    LimitClause,
    Literal,
    Name,
    Not,
    Or,
    Pattern,
    Query,
    Repeat,
    Same,
    SelectItem,
    Seq,
    SkipClause,
)
from tocsin.testing.draw_constraints import with_constraints
from tocsin.testing.strategies import is_valid

TYPES = "AABBCD"


def consuming_query(random: Random, mode: str | None = None) -> Query:
    """A valid query over the schema of `strategies`, with a mode."""
    while True:
        drawn = _drawn(random, mode or random.choice(MODES[1:]))
        if is_valid(drawn):
            return with_constraints(random, drawn) if random.random() < 0.25 else drawn


def _drawn(random: Random, mode: str) -> Query:
    shape = random.choice(("seq", "seq", "seq", "seq", "and", "and", "or"))
    leaves = [_leaf(random, f"x{at}") for at in range(random.choice((1, 2, 2, 3, 3, 4)))]
    pattern = _pattern(random, shape, leaves)
    sets = leaves[:-1] if shape == "seq" else leaves if shape == "and" else []
    where = _where(random, leaves, sets if mode == "cumulative" else [])
    if mode == "cumulative" and random.random() < 0.2 and isinstance(pattern, Seq) and len(leaves) > 1:
        pattern = replace(pattern, items=(replace(leaves[0], repeat=Repeat(1, None)), *pattern.items[1:]))
    return Query(
        pattern,
        where=where,
        within=Duration(random.choice((1, 2, 3, 4, 5, 6, 8))) if random.random() < 0.6 else None,
        partition=random.choice(((), (), ("id",), ("s",), ("w",), ("id", "ok"))),
        select=_select(random, leaves, mode, sets) if random.random() < 0.25 else (),
        consume=ConsumeClause(mode),
        skip=SkipClause(random.choice(("past last", "next"))) if random.random() < 0.08 else None,
        limit=LimitClause(random.choice((1, 2, 3))) if random.random() < 0.08 else None,
    )


def _leaf(random: Random, var: str) -> Leaf:
    type = random.choice(TYPES) if random.random() < 0.95 else ""
    return Leaf(type, var, _test(random, var) if random.random() < 0.2 else None)


def _pattern(random: Random, shape: str, leaves: list[Leaf]) -> Pattern:
    if len(leaves) == 1:
        return leaves[0] if random.random() < 0.5 else Seq(tuple(leaves))
    if shape == "and":
        return And(tuple(leaves))
    if shape == "or":
        return Or(tuple(leaves))
    items: list[Pattern] = [leaves[0]]
    for number, leaf in enumerate(leaves[1:]):
        if random.random() < 0.3:
            items.append(Not(_leaf(random, f"n{number}")))
        items.append(leaf)
    return Seq(tuple(items))


def _test(random: Random, var: str) -> Expr:
    """A condition on one event."""
    kind = random.random()
    if kind < 0.5:
        return Binary(random.choice((">", ">=", "<=", "<>", "=")), Attr(var, "v"), Literal(random.choice((0, 1, 2))))
    if kind < 0.65:
        return Binary("<", Attr(var, "v"), Attr(var, "w"))
    if kind < 0.8:
        return Binary("=", Attr(var, "s"), Literal(random.choice(("a", "ab", "b"))))
    if kind < 0.9:
        return Attr(var, "ok")
    return Binary(random.choice(("<", ">")), Call("end", (Name(var),)), Literal(random.randint(2, 8)))


def _where(random: Random, leaves: list[Leaf], sets: list[Leaf]) -> Expr | None:
    found: list[Expr] = []
    if random.random() < 0.35:
        found.append(Same(("id",)))
    if random.random() < 0.25:
        found.append(_test(random, str(random.choice(leaves).var)))
    if sets and random.random() < 0.5:
        found.append(_of_a_set(random, str(random.choice(sets).var)))
    whole: Expr | None = None
    for expr in found:
        whole = expr if whole is None else Binary("AND", whole, expr)
    return whole


def _of_a_set(random: Random, var: str) -> Expr:
    asked = random.choice((
        Call("count", (Name(var),)),
        Call("sum", (Attr(var, "v"),)),
        Call("first", (Attr(var, "v"),)),
        Call("max", (Attr(var, "w"),)),
        Binary("-", Call("end", (Name(var),)), Call("start", (Name(var),))),
    ))  # fmt: skip
    return Binary(random.choice((">=", ">=", "<")), asked, Literal(random.choice((1, 2, 2, 3))))


def _select(random: Random, leaves: list[Leaf], mode: str, sets: list[Leaf]) -> tuple[SelectItem, ...]:
    leaf = random.choice(leaves)
    value: Expr = Attr(str(leaf.var), random.choice(("id", "v", "s")))
    if mode == "cumulative" and leaf in sets:
        value = Call(random.choice(("count", "first", "last")), (value,))
    return (SelectItem(value, "shown"),)
