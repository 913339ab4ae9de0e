"""Random queries with groups, and histories in which several members lie one behind the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random

from tocsin.events import ANY, Event
from tocsin.lang.syntax import (
    And,
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
    Or,
    Pattern,
    Query,
    Repeat,
    Same,
    SelectItem,
    Seq,
    bound_leaves,
    conjoined,
    items_of,
    rebuilt,
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
    place = random.choice(("between", "between", "between", "first", "last", "alone"))
    items: list[Pattern] = [groups[0]]
    if place in ("between", "last"):
        items.insert(0, Leaf(random.choice("CDE" + types), next(names)))
    if place in ("between", "first"):
        items.append(Leaf(random.choice("CDE" + types), next(names)))
    if place != "alone" and random.random() < 0.2:
        groups.append(_group(random, types, names))
        more: list[Pattern] = [groups[1], Leaf(random.choice("CDE" + types), next(names))]
        items = [*more[::-1], *items] if place == "last" else items + more[: random.choice((1, 2, 2))]
    free = [at for at in (0, len(items)) if not isinstance(items[max(0, at - 1)], Grouped)]
    if free and random.random() < 0.25:
        items.insert(random.choice(free), _beside(random, types, next(names)))
    pattern: Pattern = _inside(random, Seq(tuple(items)) if len(items) > 1 else items[0], types, names)
    keyed = random.random() < 0.4
    where: list[Expr] = [Same(("id",))] if keyed else []
    for group in groups:
        where += _conditions(random, group)
    if pattern == Seq(tuple(items)) and random.random() < 0.2:
        outer = [item.var for item in items if isinstance(item, Leaf) and item.repeat is None and item.var]
        where += [Binary("<=", Attr(outer[0], "v"), Attr(outer[-1], "v"))] if outer else []
    within = Duration(random.choice((4, 6, 8, 10, 12))) if random.random() < 0.6 else None
    query = Query(pattern, where=conjoined(where), within=within)
    if not isinstance(pattern, Or) and groups[0] in _shown(pattern) and random.random() < 0.2:
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


def _inside(random: Random, pattern: Pattern, types: str, names: Iterator[str]) -> Pattern:
    """The pattern itself, or as a part of AND or OR, or negated."""
    pick = random.random()
    if pick < 0.7:
        return pattern
    beside = Leaf(random.choice("CDE" + types), next(names))
    if pick < 0.78:
        return And(random.choice(((pattern, beside), (beside, pattern))))
    if pick < 0.84:
        return Or((pattern, beside))
    around: tuple[Pattern, ...] = (beside, Leaf(random.choice("CDE" + types), next(names)))
    if pick < 0.95:
        absent = Not(pattern)
        return Seq(random.choice(((around[0], absent, around[1]), (absent, beside), (beside, absent))))
    return And((beside, Not(pattern)))


def _shown(pattern: Pattern) -> tuple[Pattern, ...]:
    """What a match binds of a pattern and its items."""
    items = () if isinstance(pattern, Not | Grouped) else items_of(pattern)
    return (pattern, *(each for item in items if not isinstance(item, Not) for each in _shown(item)))


def _group(random: Random, types: str, names: Iterator[str]) -> Grouped:
    steps = random.choice((2, 2, 2, 3))
    items: list[Pattern] = []
    for number in range(steps):
        step: Pattern = Leaf(random.choice(types), next(names))
        pick = random.random()
        if number and random.random() < 0.25:
            items.append(Not(Leaf(random.choice(types + "X"), next(names))))
        elif number and random.random() < 0.2 and not isinstance(items[-1], Marked):
            least, most = random.choice(((1, None), (1, None), (0, None), (0, 2), (2, 2)))
            items.append(Leaf(random.choice(types + "E"), next(names), repeat=Repeat(least, most)))
            pick = 0.6
        if number and pick < 0.45:
            step = Marked(random.choice(("FIRST", "FIRST", "NEXT")), step)
        elif number < steps - 1 and pick > 0.8:
            step = Marked("LAST", step)
        items.append(step)
    return Grouped(
        Seq(tuple(items)),
        random.choice(OFTEN),
        random.choice((None, f"g{random.randint(1, 99)}")),
        random.random() < 0.2,
    )


def _beside(random: Random, types: str, name: str) -> Pattern:
    pick = random.random()
    if pick < 0.4:
        return Not(Leaf(random.choice(types), name))
    if pick < 0.7:
        return Leaf(random.choice(types), name, repeat=Repeat(1, None))
    return Leaf(random.choice((*types, ANY)), name)


def _steps(group: Grouped) -> list[str]:
    return [str(leaf.var) for leaf in bound_leaves(group.pattern) if leaf.repeat is None]


def _conditions(random: Random, group: Grouped) -> list[Expr]:
    """What must hold inside a group: between its events, or of one of them."""
    found: list[Expr] = []
    steps = _steps(group)
    if random.random() < 0.35:
        found.append(Binary(random.choice(("<=", "=", "<>", ">")), Attr(steps[0], "v"), Attr(steps[-1], "v")))
    if random.random() < 0.2:
        found.append(Binary(random.choice((">", "<")), Attr(random.choice(steps), "v"), Literal(random.choice((0, 1)))))
    sets = [str(leaf.var) for leaf in bound_leaves(group.pattern) if leaf.repeat is not None and random.random() < 0.4]
    return found + [Binary(random.choice((">=", "<=")), Attr(var, "v"), Attr(steps[0], "v")) for var in sets]


def _history(random: Random, query: Query) -> list[Event]:
    """A history in which some members of a group, or what looks like them, come one behind the other."""
    pattern = _repeated(random, query.pattern)
    return history(random, replace(query, pattern=pattern), most=random.choice((9, 11, 13)))


def _repeated(random: Random, pattern: Pattern) -> Pattern:
    """The pattern with its groups as often as they might come."""
    items: list[Pattern] = []
    for item in items_of(pattern):
        items += [item.pattern] * random.randint(1, 3) if isinstance(item, Grouped) else [_repeated(random, item)]
    if isinstance(pattern, Grouped):
        return Seq((pattern.pattern,) * random.randint(1, 3))
    match pattern:
        case Seq() | And() | Or():
            return replace(pattern, items=tuple(items))
        case Not() if isinstance(pattern.pattern, Grouped):
            return Not(Seq(tuple(items)))
    return rebuilt(pattern, items) if items else pattern
