"""A rule over the events of each key: what its definition says, in any order, over restarts, in bounded state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from random import Random
from typing import Any

import numpy as np
import pytest

import tocsin
from tests.effort import examples
from tests.pairing import PAIRS, Pairing, pairs
from tocsin.codec import pack, unpack
from tocsin.encode import Columns, from_dicts
from tocsin.engine.changes import Changes
from tocsin.errors import StateError, TocsinError, TocsinWarning
from tocsin.events import BEGINNING, Event
from tocsin.graph.query_graph import QueryGraph
from tocsin.items import ItemKind, Items, end, tick
from tocsin.order.keyed_process import KeyedProcess
from tocsin.order.settled import Settled
from tocsin.order.strategy import parse_strategy
from tocsin.plan.block import Plan
from tocsin.run.query import plans_of
from tocsin.schema import Field, Kind, Schema

LATE = 5
FINAL = ["in-order", "slack(5)", "conservative(5)", "conservative"]
CORRECTED = ["aggressive(5)", "aggressive", "hybrid(A=conservative, 5)", "auto(5)", "conservative(5, broken=accept)"]
SCHEMA = {
    kind: Schema(common={"id": Field("id", kind), "v": Field("v", kind)}, open_types=True, open_fields=True)
    for kind in (Kind.INT, Kind.TEXT)
}


@dataclass(frozen=True)
class Delivery:
    """An event, or its withdrawal, as it comes."""

    event: Event
    sign: int = 1


Piece = list[Delivery] | tuple[str | None, int]  # a batch, or a word about time


@cache
def planned(text: str, kind: Kind) -> tuple[Plan, ...]:
    """Plans and their kernels are made once, and used by every graph."""
    return plans_of(tocsin.query(text).queries, SCHEMA[kind])


def graph(order: str, kind: Kind = Kind.INT, rule: Pairing | None = None, text: str = PAIRS) -> QueryGraph:
    schema = SCHEMA[kind]
    return QueryGraph(
        planned(text, kind), schema, Columns(eid="eid"), jit=False, order=parse_strategy(order, schema),
        around=[rule or Pairing()],
    )  # fmt: skip


def history(random: Random, count: int = 30, kind: Kind = Kind.INT) -> list[Event]:
    """Points and intervals of two keys, some without a key, some of a type that nobody reads."""
    keys: list[Any] = [1, 2, 2, None] if kind is Kind.INT else ["x", "y", "y", None]
    made = []
    for number in range(count):
        last = random.randint(0, count)
        first = last - random.choice((0, 0, 0, 1, 3))
        made.append(Event(random.choice("AABBX"), first, last, f"e{number}", {"id": random.choice(keys)}))
    return made


def deliveries(events: Sequence[Event], random: Random, late: int | None) -> tuple[list[Delivery], list[Event]]:
    """The events in order of arrival, some twice, some withdrawn, some given again; and those that count in the end."""
    arrived: list[tuple[float, Delivery]] = []
    standing = []
    for event in events:
        signs = random.choice(([1], [1], [1], [1, 1], [1, -1], [1, -1, 1], [1, 1, -1]))
        times = sorted(event.end + random.uniform(0, 40 if late is None else late) for _ in signs)
        arrived += zip(times, (Delivery(event, sign) for sign in signs), strict=True)
        standing += [event] if signs[-1] > 0 else []
    return [each for _, each in sorted(arrived, key=lambda pair: pair[0])], standing


def encoded(operator: QueryGraph, some: Sequence[Delivery]) -> Items:
    rows = [{"type": e.type, "start": e.start, "end": e.end, "eid": e.eid, **e.attrs} for e in (d.event for d in some)]
    items = operator.encode(from_dicts(rows))
    if any(each.sign < 0 for each in some):
        signs = [ItemKind.EVENT if each.sign > 0 else ItemKind.WITHDRAWAL for each in some]
        items.kinds = np.array(signs, np.int8)
    return items


def pieces(order: str, arrived: Sequence[Delivery], random: Random) -> Iterator[Piece]:
    """What is pushed: batches, ticks (type "tick"), and guarantees of all types or of one that later ones keep."""
    guaranteed = "5" not in order and order != "in-order"
    at = 0
    while at < len(arrived):
        count = random.choice((1, 1, 2, 5, 9))
        yield list(arrived[at : at + count])
        at += count
        about = random.choice((None, "A", "B"))
        later = [each.event.end for each in arrived[at:] if about in (None, each.event.type)]
        if guaranteed and random.random() < 0.6:
            yield about, min(later, default=60) - 1 - random.choice((0, 0, 2))
        elif random.random() < 0.2:
            yield "tick", max(each.event.end for each in arrived[:at])


def cut_again(pushed: Sequence[Piece], random: Random) -> Iterator[Piece]:
    """The same events and the same words about time, in other batches."""
    for are_events, several in groupby(pushed, key=lambda piece: isinstance(piece, list)):
        if not are_events:
            yield from several
            continue
        some = [each for piece in several for each in piece]
        while some:
            count = random.choice((1, 1, 2, 5, 9))
            yield some[:count]
            del some[:count]


def net(said: Iterable[Changes], *, final: bool) -> set[tuple[Any, ...]]:
    """What stands in the end; nothing is given twice, and nothing changes at or before the frontier."""
    total: Counter[tuple[Any, ...]] = Counter()
    frontier = BEGINNING
    for changes in said:
        for batch in changes:
            ends = batch.span[1].tolist()
            for (op, binding), last in zip(batch.bindings(), ends, strict=True):
                row = (batch.kind, *(eid for _, eids in binding for eid in eids))
                assert last > frontier, (row, last, frontier)
                assert op > 0 or not final, "a settled answer is never retracted"
                total[row] += op
                assert total[row] in (0, 1), row
        frontier = max(frontier, changes.frontier)
    return {row for row, count in total.items() if count}


def run(
    order: str, pushed: Iterable[Piece], *, kind: Kind = Kind.INT, restarts: bool = False
) -> tuple[QueryGraph, list[Changes]]:
    operator, said = graph(order, kind), []
    for piece in pushed:
        if restarts:
            again = graph(order, kind)
            again.restore(unpack(pack(operator.snapshot())))
            operator = again
        if isinstance(piece, list):
            said.append(operator.push(encoded(operator, piece)))
        else:
            told, time = piece
            said.append(operator.push(tick(time) if told == "tick" else operator.guarantee(told, time)))
    said.append(operator.push(end()))
    return operator, said


# --- meaning -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("order", FINAL + CORRECTED)
def test_every_way_gives_what_the_definition_says(order: str, restarts: bool) -> None:
    """Any order of arrival, doubles, withdrawals, guarantees by type, ticks, cuts; restored before every push."""
    given: Counter[str] = Counter()
    late = 0 if order == "in-order" else LATE if "5" in order else None
    for seed in range(examples(600, least=10)):
        random = Random(f"pairs {order} {seed}")
        kind = random.choice((Kind.INT, Kind.TEXT))
        arrived, standing = deliveries(history(random, kind=kind), random, late)
        operator, said = run(order, pieces(order, arrived, random), kind=kind, restarts=restarts)
        expected = pairs(standing)
        assert net(said, final=order in FINAL) == expected, seed
        given.update(row[0] for row in expected)
        assert operator.counters.matches - operator.counters.retracted == len(expected)
    assert given["match"] > 10 and given["timeout"] > 10


@pytest.mark.parametrize("order", FINAL)
def test_settled_answers_come_in_one_order_whatever_the_batches(order: str) -> None:
    late = 0 if order == "in-order" else LATE
    for seed in range(examples(200, least=5)):
        arrived, _ = deliveries(history(Random(f"cuts {seed}")), Random(seed), late)
        pushed = list(pieces(order, arrived, Random(f"pieces {seed}")))
        logs = []
        for way in range(3):
            _, said = run(order, cut_again(pushed, Random(f"{seed} {way}")))
            logs.append(
                [(batch.kind, binding) for changes in said for batch in changes for binding in batch.bindings()]
            )
        assert logs[0] == logs[1] == logs[2]


def test_time_that_passes_at_once_is_corrected() -> None:
    """A deadline passes by the clock, and is answered; a B that comes late takes the A after all."""
    operator = graph("aggressive")
    a, b = Event("A", 1, 1, "a", {"id": 1}), Event("B", 4, 4, "b", {"id": 1})
    other = Event("A", 20, 20, "z", {"id": 2})
    log = []
    for event in (a, other, b):
        for batch in operator.push(encoded(operator, [Delivery(event)])):
            log += [(batch.kind, op, [eid for _, eids in binding for eid in eids]) for op, binding in batch.bindings()]
    assert log == [("timeout", 1, ["a"]), ("timeout", -1, ["a"]), ("match", 1, ["a", "b"])]


def test_events_without_eids_are_told_apart_by_content() -> None:
    rows = [{"type": kind, "time": time, "id": 1} for time, kind in enumerate("AABB")]
    query = tocsin.query(PAIRS).around(Pairing(tells=False))
    plain = tocsin.query(PAIRS).detect(rows, jit=False)
    for order in ("in-order", "slack(5)", "conservative(5)", "aggressive(5)", "aggressive"):
        found = query.detect(rows, jit=False, order=order)
        assert sorted((m["a"]["time"] if "time" in m["a"] else m["a"]["start"], m["end"]) for m in found) == [
            (0, 2),
            (1, 3),
        ]
        assert {m["match_id"] for m in found} <= {m["match_id"] for m in plain}, "the ids that a detector gives"


@pytest.mark.parametrize("order", FINAL + CORRECTED)
def test_one_eid_in_two_keys_is_two_events(order: str) -> None:
    """Keys are apart, on shards in different processes: what is the same is judged within one."""
    operator, late = graph(order), []
    said = []
    for type, time in (("A", 1), ("B", 3)):
        same = [Delivery(Event(type, time, time, f"{type} of both", {"id": id})) for id in (1, 2, 1)]
        said.append(operator.push(encoded(operator, same)))
        late += said[-1].late
    said.append(operator.push(end()))
    found = [row for changes in said for row in changes.bindings()]
    assert found == [(1, (("a", ("A of both",)), ("b", ("B of both",))))] * 2 and not late


@pytest.mark.parametrize("order", ["conservative(5, broken=accept)", "aggressive(broken=accept)"])
def test_an_event_behind_what_is_settled_is_told_as_late(order: str) -> None:
    operator = graph(order)
    operator.push(encoded(operator, [at("A", 1, 1)]))
    operator.push(operator.guarantee(None, 20))
    with pytest.warns(TocsinWarning, match="behind what was promised"):
        said = operator.push(encoded(operator, [at("A", 30, 1), at("B", 3, 1)]))
    assert list(said.late) == [1] and operator.counters.late == 1
    assert [binding for _, binding in operator.push(end()).bindings()] == [(("a", ("A30",)),)]


def at(type: str, time: int, id: Any) -> Delivery:
    return Delivery(Event(type, time, time, f"{type}{time}", {"id": id}))


# --- state ---------------------------------------------------------------------------------------------------------


def process_of(operator: QueryGraph) -> KeyedProcess:
    [found] = operator.remembering
    inside = found.inner[0] if isinstance(found, Settled) else found
    assert isinstance(inside, KeyedProcess)
    return inside


@pytest.mark.parametrize("order", ["in-order", "conservative", "aggressive", "aggressive(5)"])
def test_only_the_states_are_left_of_what_is_settled(order: str) -> None:
    """Keys that never come again, and one A that still waits: of all that came, its state and its row are left."""
    operator = graph(order)
    for first in range(0, 30_000, 600):
        some = [at(type, time + step, time) for time in range(first, first + 600, 2) for step, type in enumerate("AB")]
        operator.push(encoded(operator, some))
        operator.push(operator.guarantee(None, first + 599))
    process = process_of(operator)
    assert len(process.keys.keys) < 700 and process.payload.count < 5000, "twice what one look left, at most"
    operator.push(encoded(operator, [at("A", 30_000, 1)]))
    operator.push(operator.guarantee(None, 30_004))
    assert list(process.keys.entries) == []
    assert len(pack(operator.snapshot())) < 40_000 and process.payload.count == 1
    said = [operator.push(encoded(operator, [at("B", 30_005, 1)])), operator.push(end())]
    assert [row for changes in said for row in changes.bindings()] == [(1, (("a", ("A30000",)), ("b", ("B30005",))))]


@pytest.mark.parametrize("order", ["in-order", "aggressive"])
def test_texts_in_the_state_of_a_rule_outlive_those_that_are_forgotten(order: str) -> None:
    """Keys are texts; thousands of others come and go, and their codes are given away."""
    operator = graph(order, Kind.TEXT, Pairing(within=10**9))
    operator.push(encoded(operator, [at("A", 0, "kept")]))
    for first in range(500, 20_000, 500):
        operator.push(encoded(operator, [at("B", time, f"key {time}") for time in range(first, first + 400)]))
        operator.push(operator.guarantee(None, first + 400))
    assert len(operator.strings) < 3000
    said = [operator.push(encoded(operator, [at("B", 10**6, "kept")])), operator.push(end())]
    assert [row for changes in said for row in changes.bindings()] == [(1, (("a", ("A0",)), ("b", ("B1000000",))))]


@pytest.mark.parametrize("order", ["in-order", "aggressive"])
def test_a_damaged_state_is_refused_and_changes_nothing(order: str) -> None:
    made, fresh = graph(order), graph(order)
    made.push(encoded(made, [Delivery(Event("A", 1, 1, "a", {"id": 1}))]))
    data = bytearray(pack(made.snapshot()))
    data[len(data) // 2] ^= 1
    with pytest.raises(StateError):
        fresh.restore(unpack(bytes(data)))
    fresh.push(encoded(fresh, [Delivery(Event("B", 2, 2, "b", {"id": 1}))]))
    assert len(fresh.push(end())) == 0


# --- bad use -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (PAIRS, ("v",)),
        (PAIRS, ()),
        ("EVENT SEQ(A a, B b) WITHIN 8", ("id",)),
        ("EVENT SEQ(A a, B b) WHERE [id, v] WITHIN 8", ("id",)),
        ("EVENT SEQ(A a, B b, C c) WHERE a.id = b.id WITHIN 8", ("id",)),
    ],
)
def test_a_key_by_which_shards_do_not_divide_is_refused(text: str, key: tuple[str, ...]) -> None:
    with pytest.raises(TocsinError, match="does not fit the query") as caught:
        graph("in-order", rule=Pairing(key=key), text=text)
    assert caught.value.hint
