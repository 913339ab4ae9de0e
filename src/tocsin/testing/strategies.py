"""Random queries over every construct of the language, and histories in which they find something to do.

    pair(Random(7))      one query with one history, from any source of randomness
    queries(), pairs()   the same as Hypothesis strategies, to test your own code against your own queries

A query is drawn in two steps: first its pattern, then what its leaves and WHERE say about the variables of the
pattern. So nearly every drawn query is valid, and nothing has to be drawn deep inside Hypothesis, which would be
slow; the strategies draw one number and `shrink.py` makes failures small.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from random import Random
from typing import TYPE_CHECKING, Any, TypeAlias

from tocsin.errors import QueryError
from tocsin.events import Event, Value
from tocsin.lang.syntax import Duration, Exists, Leaf, Not, Pattern, Query, Seq, items_of, leaves_of, rebuilt
from tocsin.plan.bind import bind
from tocsin.schema import Field, Kind, Schema
from tocsin.testing.corpus import without_violations
from tocsin.testing.draw_patterns import DRAWN_LEAVES, Sketcher, dressed
from tocsin.testing.draw_predicates import Speaker
from tocsin.testing.oracle import matches

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

Pair: TypeAlias = tuple[Query, list[Event]]

# `x` is an attribute of two types only, `d` of one: elsewhere they are null
SCHEMA = Schema(
    types={"A": {"x": Field("x", Kind.INT)}, "B": {"x": Field("x", Kind.INT)}, "C": {},
           "D": {"d": Field("d", Kind.DECIMAL, scale=1)}, "E": {}},
    common={
        "id": Field("id", Kind.INT),
        "v": Field("v", Kind.INT),
        "w": Field("w", Kind.FLOAT),
        "s": Field("s", Kind.TEXT),
        "ok": Field("ok", Kind.BOOL),
    },
)  # fmt: skip
POINTS = replace(SCHEMA, intervals=False)


def query(random: Random, *, leaves: int = DRAWN_LEAVES) -> Query:
    """A valid query over SCHEMA; `leaves` is about how many leaves it has at most."""
    while True:
        drawn = any_query(random, leaves=leaves)
        if is_valid(drawn):
            return drawn


def any_query(random: Random, *, leaves: int = DRAWN_LEAVES, loose: bool = False) -> Query:
    """A query, possibly one that the binder refuses.

    With `loose` many are wrong on purpose: repetitions stand anywhere, and predicates mention variables as if all
    could be seen from everywhere, some of them as events and as sets.
    """
    sketcher = Sketcher(random, leaves, loose=loose)
    pattern = sketcher.root()
    seen = sketcher.variables
    if loose:
        seen = [replace(var, region=()) for var in seen]
        seen += [replace(var, repeated=not var.repeated) for var in seen if random.random() < 0.15]
    speaker = Speaker(random, seen)
    wheres = {var.name: speaker.at_leaf(var) for var in sketcher.variables if random.random() < 0.13}
    where = speaker.where()
    partition: tuple[str, ...] = ()
    if random.random() < 0.15:
        partition = random.choice([("id",), ("id",), ("s",), ("id", "ok"), ("w",), ("id", "s")])
    select = speaker.select() if random.random() < 0.25 else ()
    mentioned = speaker.mentioned | set(sketcher.mentioned)
    pattern = dressed(pattern, {name: expr for name, expr in wheres.items() if expr is not None})
    pattern = _without_names(random, pattern, mentioned)
    within = Duration(random.choice((1, 2, 3, 3, 4, 4, 5, 5, 6, 7, 8, 10))) if random.random() < 0.75 else None
    strategy = random.choice(("next", "strict", "any")) if sketcher.marks and random.random() < 0.15 else None
    drawn = Query(pattern, where=where, within=within, partition=partition, select=select, strategy=strategy)  # type: ignore[arg-type]
    waits = isinstance(pattern, Seq | Exists) and within is not None and random.random() < 0.15
    return replace(drawn, timeout=True) if waits and (loose or is_valid(replace(drawn, timeout=True))) else drawn


def is_valid(drawn: Query, schema: Schema = SCHEMA) -> bool:
    """Whether the binder takes the query."""
    try:
        bind(drawn, schema, {})
    except QueryError:
        return False
    return True


def _without_names(random: Random, pattern: Pattern, mentioned: set[str]) -> Pattern:
    """Leaves that nobody mentions may do without a name; one whose type stands alone may even be mentioned by it."""
    match pattern:
        case Leaf(type, var) if var == type or (var not in mentioned and random.random() < 0.4):
            return replace(pattern, var=None)
        case Leaf():
            return pattern
    return rebuilt(pattern, [_without_names(random, item, mentioned) for item in items_of(pattern)])


# --- histories -----------------------------------------------------------------------------------------------------

VALUES: dict[str, tuple[Value, ...]] = {
    "id": (0, 1, 2),
    "v": (0, 1, 2, 3, -1),
    "w": (0.0, 0.5, 1.0, 1.5, -0.5, 2.0),
    "s": ("a", "ab", "b", "B_", ""),
    "ok": (True, False),
    "x": (0, 1, 2),
    "d": (Decimal("0.5"), Decimal("1.0"), Decimal("2.5")),
}
EXTREME = {"v": (2**63 - 1, -(2**63), 2**62), "w": (1e300, float("inf"), -0.0, float("nan")), "x": (2**63 - 1,)}
OWN = {"A": ("x",), "B": ("x",), "D": ("d",)}
COMMON = ("id", "v", "w", "s", "ok")


def history(random: Random, drawn: Query, *, intervals: bool = True, nulls: bool = True, most: int = 14) -> list[Event]:
    """0 to `most` events, mostly of the types of the query, often with a match planted among them."""
    teller = _Teller(random, drawn, intervals=intervals, nulls=nulls)
    events = teller.planted() if random.random() < 0.85 else []
    # brute force over many leaves of one type is slow
    leaves = len(leaves_of(drawn.pattern))
    limit = max(len(events), min(most, random.choice((4, 8, 8, 11, 14)), 24 // max(1, leaves // 2)))
    while len(events) < limit and random.random() < 0.93:
        events.append(teller.noise())
    if events and random.random() < 0.25:
        events += random.choices(events, k=random.randint(1, 2))
    random.shuffle(events)
    return events[:most]


class _Teller:
    """Makes events that are alike enough to meet."""

    def __init__(self, random: Random, drawn: Query, *, intervals: bool, nulls: bool) -> None:
        self.random = random
        self.nulls = nulls
        self.drawn = drawn
        self.intervals = intervals and random.random() < 0.7
        self.types = [leaf.type for leaf in leaves_of(drawn.pattern)] * 3 + ["A", "B", "C", "D", "E"]
        self.most = random.choice((5, 8, 12))
        self.base = {name: random.choice(values[:3]) for name, values in VALUES.items()}
        self.likeness = random.choice((0.95, 0.9, 0.7, 0.4))
        self.eids = self.new_eids()

    def new_eids(self) -> list[int | str]:
        numbers = self.random.sample(range(100), 30)
        style = self.random.random()
        if style < 0.6:
            return list(numbers)
        return [f"{'' if style < 0.85 else 'prefixed-'}e{number}" for number in numbers]

    def planted(self) -> list[Event]:
        """One event for each positive leaf and some for negated ones, in the order of the text."""
        events: list[Event] = []
        random, time = self.random, self.random.randint(0, 3)
        positive = positive_leaves(self.drawn.pattern)
        violators = random.choice((0.0, 0.0, 0.3, 0.9))
        for leaf in leaves_of(self.drawn.pattern):
            if leaf not in positive and random.random() >= violators:
                continue
            count = 1 if leaf.repeat is None else random.randint(1, 3)
            for _ in range(min(count, 12 - len(events))):
                length = random.randint(1, 2) if self.intervals and random.random() < 0.2 else 0
                events.append(self.event(leaf.type, time, time + length))
                time += length + random.choice((0, 1, 1, 1, 2))
        return events

    def noise(self) -> Event:
        start = self.random.randint(0, self.most)
        length = self.random.randint(1, 3) if self.intervals and self.random.random() < 0.35 else 0
        return self.event(self.random.choice(self.types), start, start + length)

    def event(self, type: str, start: int, end: int) -> Event:
        type = type or self.random.choice("ABCDE")  # where ANY stands
        names = (*COMMON, *OWN.get(type, ()))
        attrs = {name: self.value(name) for name in names if not self.nulls or self.random.random() < 0.93}
        return Event(type, start, end, self.eids.pop(), attrs)

    def value(self, name: str) -> Value:
        pick = self.random.random()
        if pick < self.likeness:
            return self.base[name]
        if pick > 0.995 and name in EXTREME:
            return self.random.choice(EXTREME[name])
        return None if pick > 0.98 and self.nulls else self.random.choice(VALUES[name])


def positive_leaves(pattern: Pattern) -> tuple[Leaf, ...]:
    """The leaves that a match binds, in the order of the text (of all branches of OR)."""
    if isinstance(pattern, Leaf):
        return (pattern,)
    return tuple(leaf for item in items_of(pattern) if not isinstance(item, Not) for leaf in positive_leaves(item))


def pair(random: Random, *, intervals: bool = True, nulls: bool = True, leaves: int = DRAWN_LEAVES) -> Pair:
    """A valid query and a history for it; in most of them there is a match, or would be one without the negations."""
    while True:
        drawn = query(random, leaves=leaves)
        for _ in range(3):
            events = history(random, drawn, intervals=intervals, nulls=nulls)
            if random.random() < 0.1 or matches(without_violations(drawn), events):
                return drawn, events


# --- Hypothesis ----------------------------------------------------------------------------------------------------


def queries() -> SearchStrategy[Query]:
    """Valid queries over SCHEMA."""
    return _drawn(query)


def histories(drawn: Query | None = None) -> SearchStrategy[list[Event]]:
    """Histories; with a query, such that it finds something to do."""
    return _drawn(lambda random: history(random, drawn or query(random)))


def pairs() -> SearchStrategy[Pair]:
    """A query with a history for it."""
    return _drawn(pair)


def _drawn(make: Any) -> SearchStrategy[Any]:
    from hypothesis import strategies

    return strategies.integers(0, 2**64 - 1).map(lambda number: make(Random(number)))  # noqa: S311 - not for secrets
