"""Random queries whose steps, optional, negated, marked and repeated ones, are related by equalities through another.

Drawn by chance, an optional and a negated step are hardly ever compared, and never through a third: here most
variables are members of one class of equalities, written down as a tree of conjuncts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random

from tocsin.lang.syntax import (
    And,
    Attr,
    Binary,
    Duration,
    Expr,
    Leaf,
    Literal,
    Marked,
    Maybe,
    Not,
    Or,
    Pattern,
    Query,
    Repeat,
    Same,
    Seq,
    conjoined,
    leaves_of,
)
from tocsin.testing.draw_clauses import with_clauses
from tocsin.testing.strategies import Pair, history, is_valid

MAY_BE_ABSENT = ("?", "?", "?", "*", "*", "maybe", "maybe seq")
OTHERS = (
    "plain",
    "plain",
    "not",
    "not",
    "not",
    "not seq",
    "not and",
    "or",
    "+",
    "first",
    "last",
    "next",
    "each",
    "run",
)


def related_pair(random: Random) -> Pair:
    """A valid query with a step that may be absent or is marked, and a history."""
    while not is_valid(query := _query(random)):
        pass
    return query, history(random, query)


def _query(random: Random) -> Query:
    names = iter(f"x{number}" for number in range(1, 20))
    kinds = [random.choice(MAY_BE_ABSENT if random.random() < 0.5 else OTHERS) for _ in range(random.choice((2, 3, 3)))]
    items = [_item(random, kind, names) for kind in ("plain", *kinds)]
    if random.random() < 0.75:
        items.append(_item(random, "plain", names))
    if random.random() < 0.3:
        items.insert(0, items.pop(random.randrange(len(items))))
    pattern: Pattern = Seq(tuple(items))
    if random.random() < 0.1:
        pattern = Seq((Leaf(random.choice("ABC"), next(names)), Not(pattern), Leaf(random.choice("ABC"), next(names))))
    where: list[Expr] = [Same(("id",))] if random.random() < 0.15 else []
    where += _class(random, [str(leaf.var) for leaf in leaves_of(pattern)])
    if random.random() < 0.3:
        where.append(_compared(random, random.choice(leaves_of(pattern)), random.choice(leaves_of(pattern))))
    within = Duration(random.choice((3, 4, 5, 6, 8, 10))) if random.random() < 0.7 else None
    partition = ("id",) if random.random() < 0.1 else ()
    query = Query(pattern, where=conjoined(where), within=within, partition=partition)
    return with_clauses(random, query) if random.random() < 0.1 and is_valid(query) else query


def _item(random: Random, kind: str, names: Iterator[str]) -> Pattern:
    def leaf(repeat: Repeat | None = None) -> Leaf:
        return Leaf(random.choice("AABBCD"), next(names), repeat=repeat)

    if kind in ("+", "run"):
        repeated = leaf(random.choice((Repeat(1, None), Repeat(1, 2), Repeat(2, 2), Repeat(2, None))))
        return repeated if kind == "+" else Marked(random.choice(("FIRST", "EACH", "NEXT", "EACH NEXT")), repeated)
    if kind in ("?", "marked"):
        step = replace(leaf(), optional=kind == "?")
        is_marked = kind == "marked" or random.random() < 0.2
        return Marked(random.choice(("FIRST", "LAST", "NEXT")), step) if is_marked else step
    match kind:
        case "*":
            return leaf(Repeat(0, random.choice((None, None, 2))))
        case "maybe":
            return Maybe(leaf())
        case "maybe seq":
            return Maybe(Seq((leaf(), leaf())))
        case "not":
            return Not(leaf())
        case "not seq":
            return Not(Seq((leaf(), leaf())))
        case "not and":
            return Not(And((leaf(), leaf())))
        case "or":
            return Or((leaf(), leaf()))
    return leaf()


def _class(random: Random, variables: list[str]) -> list[Expr]:
    """Equalities that make most of the variables one class, each stated by way of another member of it."""
    members = random.sample(variables, min(len(variables), random.choice((2, 3, 3, 4, 4, 5))))
    attrs = {var: random.choice(("id", "id", "id", "id", "v")) for var in members}
    pairs = [(var, random.choice(members[:at])) for at, var in enumerate(members) if at]
    random.shuffle(pairs)
    return [
        Binary("=", Attr(one, attrs[one]), Attr(other, attrs[other]))
        for one, other in (random.sample(pair, 2) for pair in pairs)
    ]


def _compared(random: Random, one: Leaf, other: Leaf) -> Expr:
    """A condition that closes no class."""
    left = Attr(str(one.var), random.choice(("v", "id")))
    op = random.choice(("<=", ">=", "<>", "="))
    return Binary(op, left, Literal(random.choice((0, 1, 2))) if one is other else Attr(str(other.var), "v"))
