"""Random lists of endpoint comparisons over two to six leaves, and histories in which such a list often holds.

The events have many ties and lengths of nothing; beside the list there may be negations, repetitions and conditions.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from tocsin.events import Event
from tocsin.lang.syntax import (
    ALLEN,
    And,
    Attr,
    Binary,
    Comparison,
    Duration,
    Endpoint,
    Expr,
    Iseq,
    Leaf,
    Name,
    Not,
    Pattern,
    Query,
    Relates,
    Repeat,
    Seq,
    Unary,
)

TYPES = "ABCDEF"
Spans = dict[str, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Drawn:
    """A query over intervals, and events in any order; `spans` is an arrangement that the list allows."""

    query: Query
    events: list[Event]
    spans: Spans


def drawn_intervals(random: Random, *, most: int = 6, beside: bool = True) -> Drawn:
    """A query and its history. `beside`: the list may stand beside negations and repetitions."""
    count = random.choice([number for number in (2, 2, 3, 3, 4, 5, 6) if number <= most])
    types = [random.choice(TYPES[: max(2, count)]) for _ in range(count)]
    names = [f"x{number}" for number in range(count)]
    spans = {name: (start := random.randint(0, 6), start + random.choice((0, 0, 1, 2, 3, 5))) for name in names}
    order = tuple(_comparison(random, spans) for _ in range(random.randint(1, 2 * count)))
    whole: Pattern = Iseq(order, tuple(Leaf(type, name) for type, name in zip(types, names, strict=True)))
    if beside and random.random() < 0.5:
        whole = _beside(random, whole)
    length = max(end for _, end in spans.values()) - min(start for start, _ in spans.values())
    within = Duration(max(1, length + random.randint(-1, 4))) if random.random() < 0.85 else None
    query = Query(whole, where=_where(random, names), within=within)
    return Drawn(query, _history(random, types, spans, count), spans)


def _comparison(random: Random, spans: Spans) -> Comparison:
    """A comparison of two ends that is true of the arrangement, so that the list never contradicts itself."""
    one, other = random.sample(sorted(spans), 2)
    left, right = (Endpoint(var, random.choice(("start", "end"))) for var in (one, other))
    x, y = (spans[end.var][end.which == "end"] for end in (left, right))
    options = ("<", "<", "<=") if x < y else ("=", "<=", ">=") if x == y else (">", ">", ">=")
    return Comparison(left, random.choice(options), right)


def _beside(random: Random, whole: Pattern) -> Pattern:
    """The list in a SEQ or AND with a point, a negation or a repetition."""
    other = Leaf("G", "g", repeat=Repeat(1, None) if random.random() < 0.3 else None)
    absent = Not(Leaf("H", "h"))
    options: list[Pattern] = [
        Seq((whole, absent, other)), Seq((other, absent, whole)), Seq((whole, other)),
        Seq((absent, whole)), Seq((whole, absent)),
        And((whole, absent)), And((whole, Leaf("G", "g"))),
    ]  # fmt: skip
    return random.choice(options)


def _where(random: Random, names: list[str]) -> Expr | None:
    """Sometimes a key, sometimes a relation as a condition."""
    found: Expr | None = None
    for _ in range(random.choice((0, 0, 1, 2))):
        one, other = random.sample(names, 2)
        pick = random.random()
        if pick < 0.4:
            more: Expr = Binary("=", Attr(one, "id"), Attr(other, "id"))
        else:
            more = Relates(Name(one), random.choice(ALLEN), Name(other))
            more = Unary("NOT", more) if pick < 0.8 else more
        found = more if found is None else Binary("AND", found, more)
    return found


def _history(random: Random, types: list[str], spans: Spans, count: int) -> list[Event]:
    """The arrangement with small changes, some times over, and noise."""
    events: list[Event] = []

    def add(type: str, start: int, length: int) -> None:
        attrs = {"id": random.choice((0, 0, 1)), "v": 0}
        events.append(Event(type, start, start + length, len(events) + 1, attrs))

    for _ in range(2 if count < 5 else 1):
        shift = random.randint(0, 6)
        for type, (start, end) in zip(types, spans.values(), strict=True):
            length = end - start + random.choice((0, 0, 0, 1, -1))
            add(type, shift + start + random.choice((0, 0, 0, 1)), max(0, length))
    for _ in range(random.randint(0, 8)):
        add(random.choice([*types, "G", "H"]), random.randint(0, 14), random.choice((0, 0, 0, 1, 2, 4)))
    random.shuffle(events)
    return events
