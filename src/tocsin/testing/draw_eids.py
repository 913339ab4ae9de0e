"""Random questions about eids: a query and a history get conditions and SELECT columns that read eid(x)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from tocsin.events import Eid, Event
from tocsin.lang.syntax import (
    Attr,
    Binary,
    Call,
    CaseWhen,
    Expr,
    In,
    Leaf,
    Like,
    Literal,
    Name,
    Query,
    SelectItem,
    leaves_of,
    named,
)
from tocsin.schema import Kind, Schema
from tocsin.testing.draw_predicates import all_of
from tocsin.testing.strategies import SCHEMA, is_valid

COMPARE = ("<>", "<>", "=", "<", "<=", ">", ">=")
AGGREGATES = ("first", "last", "min", "max")


def with_eids(random: Random, drawn: Query, events: Sequence[Event]) -> tuple[Query, Schema]:
    """The query with conditions on the eids of the events, and the schema that knows the kind of those eids.

    Where no condition fits (all that can be seen is negated, for instance), the query is as it was.
    """
    eids = [event.eid for event in events] or [1]
    schema = replace(SCHEMA, eid=Kind.INT if isinstance(eids[0], int) else Kind.TEXT)
    full = named(drawn)
    for _ in range(8):
        asker = _Asker(random, list(leaves_of(full.pattern)), eids)
        conjuncts = [] if full.where is None else [full.where]
        conjuncts += [asker.condition() for _ in range(random.choice((0, 1, 1, 2)))]
        select = (*full.select, *(SelectItem(asker.shown(), f"e{at}") for at in range(random.randint(0, 2))))
        asked = replace(full, where=all_of(conjuncts), select=select, text="")
        if asked != full and is_valid(asked, schema):
            return asked, schema
    return full, schema


class _Asker:
    def __init__(self, random: Random, leaves: list[Leaf], eids: Sequence[Eid]) -> None:
        self.random, self.leaves, self.eids = random, leaves, eids

    def literal(self) -> Literal:
        return Literal(self.random.choice(self.eids))

    def eid(self) -> Expr:
        """eid(x) in one of its spellings; of a repetition, now and then an aggregate."""
        leaf = self.random.choice(self.leaves)
        var = str(leaf.var)
        plain: Expr = Call("eid", (Name(var),)) if self.random.random() < 0.7 else Attr(var, "eid")
        if leaf.repeat is not None and self.random.random() < 0.5:
            return Call(self.random.choice(AGGREGATES), (plain,))
        return plain

    def condition(self) -> Expr:
        pick = self.random.random()
        if pick < 0.35:
            return Binary(self.random.choice(COMPARE), self.eid(), self.literal())
        if pick < 0.65:
            return Binary(self.random.choice(COMPARE), self.eid(), self.eid())
        if pick < 0.8:
            count = self.random.randint(1, 6)
            return In(self.eid(), tuple(self.literal() for _ in range(count)), self.random.random() < 0.6)
        if pick < 0.9:
            return Binary("OR", self.condition(), self.condition())
        return self.computed()

    def computed(self) -> Expr:
        """What only numbers, or only texts, have."""
        if isinstance(self.eids[0], int):
            return Binary(">=", Binary("%", self.eid(), Literal(3)), Literal(1))
        return Like(self.eid(), Literal(self.random.choice(("%e%", "%1%", "e_"))), self.random.random() < 0.3)

    def shown(self) -> Expr:
        if self.random.random() < 0.7:
            return self.eid()
        return CaseWhen(((self.condition(), self.eid()),), self.literal())
