"""A rule about one event keeps no state: an event matters until its own time is guaranteed, and no longer."""

from __future__ import annotations

import pytest

from tocsin.encode import Encoder, from_dicts
from tocsin.encode.columns import Columns
from tocsin.encode.row import RowEncoder
from tocsin.engine.detector import Detector
from tocsin.events import Event
from tocsin.items import Strings, guarantee
from tocsin.lang.parser import parse
from tocsin.plan.bind import bind
from tocsin.plan.facts import horizon, types_of
from tocsin.plan.passes import optimize
from tocsin.schema import Field, Kind, Schema
from tocsin.shards.routes import Unit, reach_of

SCHEMA = Schema(common={name: Field(name, Kind.INT) for name in ("id", "v")}, open_types=True, intervals=False)
FILTERS = (
    "EVENT A a",
    "EVENT A a WHERE a.v > 3",
    "EVENT OR(A a, B b)",
    "EVENT OR(A a : a.v > 2, B b) WITHIN 1000",
    "EVENT A a WHERE [id]",
)
JIT = [False, pytest.param(True, marks=pytest.mark.jit)]
SIZE, BATCHES = 20, 300  # two events of each type in a tick


def event(number: int) -> Event:
    time = number // 4
    return Event("AB"[number % 2], time, time, f"e{number}", {"id": number % 7, "v": number % 5})


def made(text: str, *, jit: bool, ordered: bool, late: int | None = None) -> tuple[Detector, Encoder]:
    plan, strings = optimize(bind(parse(text), SCHEMA)), Strings()
    types = types_of(plan)
    detector = Detector(plan, types, strings, jit=jit, ordered=ordered, late=late)
    return detector, Encoder(SCHEMA, types, strings, wanted=detector.reads)


def expected(text: str, events: list[Event]) -> int:
    def passes(each: Event) -> bool:
        least = 3 if "a.v > 3" in text else 2 if "a.v > 2" in text else -1
        return int(each.attrs["v"]) > least if each.type == "A" else "B b" in text  # type: ignore[call-overload]

    return sum(map(passes, events))


@pytest.mark.slow
@pytest.mark.parametrize("way", ["ordered", "late", "promised", "single"])
@pytest.mark.parametrize("eids", [True, False])
@pytest.mark.parametrize(
    ("text", "jit"),
    [*((text, False) for text in FILTERS), pytest.param(FILTERS[3], True, marks=pytest.mark.jit)],
)
def test_state_stays_flat(text: str, eids: bool, way: str, jit: bool) -> None:
    detector, encoder = made(text, jit=jit, ordered=way in ("ordered", "single"), late=5 if way == "late" else None)
    singles, found, live, rows = None, 0, [], []
    for number in range(BATCHES):
        events = [event(number * SIZE + at) for at in range(SIZE)]
        table = from_dicts(events) if eids else from_dicts(events).drop_columns(["eid"])
        if way == "single" and number:
            singles = singles or RowEncoder(encoder, Columns(eid="eid" if eids else None))
            for each in events:
                row = {"type": each.type, "time": each.end, **each.attrs} | ({"eid": each.eid} if eids else {})
                assert singles.read(row)
                found += len(detector.push(singles.one))
        else:
            found += len(detector.push(encoder.encode(table)))
        if way == "promised":
            detector.push(guarantee(events[-1].end - 1))
        live.append(detector.counters.live)
        rows.append(detector.payload.count)
    assert found == expected(text, [event(number) for number in range(SIZE * BATCHES)]) > 0
    assert max(live) <= 200 and max(rows) <= 200


@pytest.mark.parametrize("jit", JIT)
@pytest.mark.parametrize("ordered", [True, False])
def test_a_copy_counts_once_while_its_time_is_open(ordered: bool, jit: bool) -> None:
    """In order that is the last tick; with events up to five ticks late, as long."""
    detector, encoder = made("EVENT A a", jit=jit, ordered=ordered, late=None if ordered else 5)
    again = [0] if ordered else [0, 3, 5]
    for time in range(0, 200, 10):
        first = Event("A", time, time, f"e{time}", {})
        assert len(detector.push(encoder.encode(from_dicts([first])))) == 1
        for delay in again:
            other = Event("A", time + delay, time + delay, f"o{time}-{delay}", {})
            copies = [first, other] if not ordered else [first]
            assert len(detector.push(encoder.encode(from_dicts(copies)))) == len(copies) - 1
    assert detector.counters.duplicates == 20 * len(again)


@pytest.mark.parametrize("text", FILTERS)
def test_nobody_keeps_an_event_of_a_filter_on_spark(text: str) -> None:
    plan = optimize(bind(parse(text), SCHEMA))
    assert horizon(plan) == 0
    assert reach_of([Unit((0,), (plan,))]) == 0


def test_other_rules_keep_their_reach() -> None:
    for text, reach in (
        ("EVENT SEQ(A a, B b)", None),
        ("EVENT SEQ(A a, !B b) WITHIN 9", 9),
        ("EVENT SEQ(A a, B+ b) WITHIN 9", 9),
    ):
        plan = optimize(bind(parse(text), SCHEMA))
        assert horizon(plan) == reach, text
