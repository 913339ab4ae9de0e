"""A rule about one event keeps no state: an event matters until its own time is guaranteed, and no longer."""

from __future__ import annotations

import pytest

from tests.effort import examples
from tocsin.encode import from_dicts
from tocsin.events import Event
from tocsin.plan.facts import horizon
from tocsin.schema import Field, Kind, Schema
from tocsin.shards.routes import Unit, reach_of
from tocsin.testing.harness import Harness

SCHEMA = Schema(common={name: Field(name, Kind.INT) for name in ("id", "v")}, open_types=True, intervals=False)
FILTERS = (
    "EVENT A a",
    "EVENT A a WHERE a.v > 3",
    "EVENT OR(A a, B b)",
    "EVENT OR(A a : a.v > 2, B b) WITHIN 1000",
    "EVENT A a WHERE [id]",
)
JIT = [False, pytest.param(True, marks=pytest.mark.jit)]
ORDERS = {"ordered": "in-order", "late": "aggressive(5)", "promised": "aggressive", "single": "in-order"}
SIZE, BATCHES = 20, examples(300, least=100)  # two events of each type in a tick


def event(number: int) -> Event:
    time = number // 4
    return Event("AB"[number % 2], time, time, f"e{number}", {"id": number % 7, "v": number % 5})


def expected(text: str, events: list[Event]) -> int:
    def passes(each: Event) -> bool:
        least = 3 if "a.v > 3" in text else 2 if "a.v > 2" in text else -1
        return int(each.attrs["v"]) > least if each.type == "A" else "B b" in text  # type: ignore[call-overload]

    return sum(map(passes, events))


@pytest.mark.slow
@pytest.mark.parametrize("way", ORDERS)
@pytest.mark.parametrize("eids", [True, False])
@pytest.mark.parametrize(
    ("text", "jit"),
    [*((text, False) for text in FILTERS), pytest.param(FILTERS[3], True, marks=pytest.mark.jit)],
)
def test_state_stays_flat(text: str, eids: bool, way: str, jit: bool) -> None:
    run = Harness(text, SCHEMA).start(ORDERS[way], jit=jit)
    found, live, rows = 0, [], []
    for number in range(BATCHES):
        events = [event(number * SIZE + at) for at in range(SIZE)]
        table = from_dicts(events) if eids else from_dicts(events).drop_columns(["eid"])
        if way == "single" and number:
            found += sum(len(run.push_one(row)) for row in table.to_pylist())
        else:
            found += len(run.push(table))
        if way == "promised":
            run.promise(None, events[-1].end - 1)
        live.append(run.counters.live)
        rows.append(run.detector.payload.count)
    assert found == expected(text, [event(number) for number in range(SIZE * BATCHES)]) > 0
    assert max(live) <= 200 and max(rows) <= 200


@pytest.mark.parametrize("jit", JIT)
@pytest.mark.parametrize("ordered", [True, False])
def test_a_copy_counts_once_while_its_time_is_open(ordered: bool, jit: bool) -> None:
    """In order that is the last tick; with events up to five ticks late, as long."""
    run = Harness("EVENT A a", SCHEMA).start("in-order" if ordered else "aggressive(5)", jit=jit)
    again = [0] if ordered else [0, 3, 5]
    for time in range(0, 200, 10):
        first = Event("A", time, time, f"e{time}", {})
        assert len(run.push([first])) == 1
        for delay in again:
            other = Event("A", time + delay, time + delay, f"o{time}-{delay}", {})
            copies = [first, other] if not ordered else [first]
            assert len(run.push(copies)) == len(copies) - 1
    assert run.counters.duplicates == 20 * len(again)


@pytest.mark.parametrize("text", FILTERS)
def test_nobody_keeps_an_event_of_a_filter_on_spark(text: str) -> None:
    plan = Harness(text, SCHEMA).plan
    assert horizon(plan) == 0
    assert reach_of([Unit((0,), (plan,))]) == 0


def test_other_rules_keep_their_reach() -> None:
    for text, reach in (
        ("EVENT SEQ(A a, B b)", None),
        ("EVENT SEQ(A a, !B b) WITHIN 9", 9),
        ("EVENT SEQ(A a, B+ b) WITHIN 9", 9),
    ):
        assert horizon(Harness(text, SCHEMA).plan) == reach, text
