"""Random queries with groups, and histories in which several members lie one behind the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random

from tocsin.events import ANY, Event
from tocsin.lang.syntax import (
    Attr,
    Binary,
    Call,
    Duration,
    Expr,
    Grouped,
    Leaf,
    Literal,
    Marked,
    Name,
    Not,
    Pattern,
    Query,
    Repeat,
    Same,
    SelectItem,
    Seq,
    bound_leaves,
)
from tocsin.testing.strategies import Pair, history, is_valid

OFTEN = (Repeat(1, None), Repeat(1, None), Repeat(1, None), Repeat(2, None), Repeat(1, 1), Repeat(2, 2), Repeat(1, 2))


def grouped_pair(random: Random) -> Pair:
    """A valid query with a group, sometimes two, and a history for it."""
    while True:
        query = _query(random)
        if is_valid(query):
            return query, _history(random, query)


def _query(random: Random) -> Query:
    types = random.choice(("AB", "AB", "ABC", "ABC", "ABCD"))
    names = iter(f"x{number}" for number in range(1, 20))
    groups = [_group(random, types, names)]
    items: list[Pattern] = [Leaf(random.choice("CDE" + types), next(names)), groups[0]]
    items.append(Leaf(random.choice("CDE" + types), next(names)))
    if random.random() < 0.2:
        groups.append(_group(random, types, names))
        items += [groups[1], Leaf(random.choice("CDE" + types), next(names))]
    if random.random() < 0.25:
        items.insert(random.choice((0, len(items))), _beside(random, types, next(names)))
    keyed = random.random() < 0.4
    where: list[Expr] = [Same(("id",))] if keyed else []
    for group in groups:
        where += _conditions(random, group)
    if random.random() < 0.2:
        outer = [item.var for item in items if isinstance(item, Leaf) and item.repeat is None and item.var]
        where.append(Binary("<=", Attr(outer[0], "v"), Attr(outer[-1], "v")))
    within = Duration(random.choice((4, 6, 8, 10, 12))) if random.random() < 0.6 else None
    query = Query(Seq(tuple(items)), where=_all(where), within=within)
    if random.random() < 0.2:
        last = _steps(groups[0])[-1]
        query = replace(
            query,
            select=(
                SelectItem(Call("count", (Name(groups[0].var or last),)), "n"),
                SelectItem(Binary("-", Call("end", (Name(groups[0].var or last),)), Literal(1)), "until"),
                SelectItem(Call("sum", (Attr(last, "v"),)), "total"),
                SelectItem(Call("first", (Attr(last, "id"),)), "opening"),
            ),
        )
    return query


def _group(random: Random, types: str, names: Iterator[str]) -> Grouped:
    steps = random.choice((2, 2, 2, 3))
    items: list[Pattern] = []
    for number in range(steps):
        step: Pattern = Leaf(random.choice(types), next(names))
        if number and random.random() < 0.25:
            items.append(Not(Leaf(random.choice(types + "X"), next(names))))
        pick = random.random()
        if number and pick < 0.45:
            step = Marked(random.choice(("FIRST", "FIRST", "NEXT")), step)
        elif number < steps - 1 and pick > 0.8:
            step = Marked("LAST", step)
        items.append(step)
    return Grouped(Seq(tuple(items)), random.choice(OFTEN), random.choice((None, f"g{random.randint(1, 99)}")))


def _beside(random: Random, types: str, name: str) -> Pattern:
    pick = random.random()
    if pick < 0.4:
        return Not(Leaf(random.choice(types), name))
    if pick < 0.7:
        return Leaf(random.choice(types), name, repeat=Repeat(1, None))
    return Leaf(random.choice((*types, ANY)), name)


def _steps(group: Grouped) -> list[str]:
    return [str(leaf.var) for leaf in bound_leaves(group.pattern)]


def _conditions(random: Random, group: Grouped) -> list[Expr]:
    """What must hold inside a group: between its events, or of one of them."""
    found: list[Expr] = []
    steps = _steps(group)
    if random.random() < 0.35:
        found.append(Binary(random.choice(("<=", "=", "<>", ">")), Attr(steps[0], "v"), Attr(steps[-1], "v")))
    if random.random() < 0.2:
        found.append(Binary(random.choice((">", "<")), Attr(random.choice(steps), "v"), Literal(random.choice((0, 1)))))
    return found


def _all(where: list[Expr]) -> Expr | None:
    whole: Expr | None = None
    for expr in where:
        whole = expr if whole is None else Binary("AND", whole, expr)
    return whole


def _history(random: Random, query: Query) -> list[Event]:
    """A history in which some members of a group, or what looks like them, come one behind the other."""
    assert isinstance(query.pattern, Seq)
    items: list[Pattern] = []
    for item in query.pattern.items:
        items += [item.pattern] * random.randint(1, 3) if isinstance(item, Grouped) else [item]
    return history(random, replace(query, pattern=Seq(tuple(items))), most=random.choice((9, 11, 13)))
