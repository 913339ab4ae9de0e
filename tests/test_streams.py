"""Streams in disorder: the same from a seed, as late as they say and not later, with promises that hold."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import examples
from tests.steps import steps
from tocsin.encode import from_dicts
from tocsin.errors import InputError
from tocsin.events import Event
from tocsin.testing import disorder, streams
from tocsin.testing.delays import Burst, Exponential, Fixed, Pareto, Uniform
from tocsin.testing.disorder import (
    broken_promises,
    disordered,
    lateness,
    share_late,
    shuffle_within,
    smallest_sufficient_slack,
)
from tocsin.testing.notation import Promise, events_of
from tocsin.testing.notation import history as read
from tocsin.testing.streams import Arrivals

EVERY_PROMISE = {"promises": 0.3, "source_promises": 0.3, "heartbeats": 0.1}
KINDS = {
    "in order": Arrivals(events=400),
    "paper": Arrivals(events=400, disorder=0.3),
    "ties": Arrivals(events=400, disorder=0.4, rate=3),
    "fixed": Arrivals(events=400, disorder=0.2, delay=Fixed(4)),
    "pareto": Arrivals(events=400, disorder=0.5, delay=Pareto(60)),
    "exponential": Arrivals(events=400, disorder=0.5, delay=Exponential(20, mean=4.0)),
    "burst": Arrivals(events=400, delay=Burst(8, every=20), sources=3),
    "burst of a type": Arrivals(events=400, delay=Burst(8, every=20), sources=10, sources_by_type=True),
    "burst and late types": Arrivals(events=400, delay=Burst(4, every=20), sources=3, disorder_of={"C": 0.5},
                                     delay_of={"C": Fixed(12)}),
    "negatives": Arrivals(events=400, disorder_of={"C": 0.5}),
    "laws by type": Arrivals(events=400, disorder=0.3, delay=Uniform(3), delay_of={"C": Pareto(40)}),
    "sources": Arrivals(events=400, disorder=0.3, sources=4, skew=6),
    "in-order sources": Arrivals(events=400, disorder=0.1, sources=4, skew=6, in_order_sources=True),
    "sources by type": Arrivals(events=400, disorder_of={"A": 0.3}, sources=4, sources_by_type=True,
                                in_order_sources=True),
    "duplicates": Arrivals(events=400, disorder=0.2, duplicates=0.2),
    "duplicates, in order": Arrivals(events=400, duplicates=0.2),
    "duplicates, skewed": Arrivals(events=400, disorder=0.2, delay=Uniform(2), duplicates=0.2, sources=3, skew=9,
                                   in_order_sources=True),
}  # fmt: skip
every_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


# --- one definition, two forms -------------------------------------------------------------------------------------


@every_kind
def test_objects_and_columns_describe_the_same_stream(kind: Arrivals) -> None:
    kind = replace(kind, **EVERY_PROMISE)
    items, table, promises = streams.history(kind), streams.table(kind), streams.promises(kind)
    events = events_of(items)
    assert table.column_names == ["type", "time", "eid", "source", "seq", "arrival", "id", "v"]
    shown = [(e.type, e.end, e.eid, e.source, e.seq, e.arrival, e.attrs["id"], e.attrs["v"]) for e in events]
    assert shown == list(zip(*(column.to_pylist() for column in table.columns), strict=True))
    told, row = [], -1
    for item in items:
        row += isinstance(item, Event)
        if isinstance(item, Promise):
            told.append((row, item.type, item.source, item.time))
    assert told == list(zip(*(column.to_pylist() for column in promises.columns), strict=True))
    assert len(told) > 100
    assert streams.tables(kind) == (table, promises)


def test_a_seed_gives_one_stream_and_another_seed_another() -> None:
    kind = Arrivals(events=300, disorder=0.3, duplicates=0.1, **EVERY_PROMISE)
    assert streams.history(kind) == streams.history(replace(kind))
    assert streams.history(kind) != streams.history(replace(kind, seed=8))


def test_a_sweep_changes_one_thing_only() -> None:
    base = Arrivals(events=500, disorder=0.1)
    for other in (replace(base, disorder=0.5), replace(base, delay=Fixed(3)), replace(base, sources=3, skew=4)):
        made = [sorted((e.eid, e.type, e.end, e.attrs["id"]) for e in events_of(streams.history(kind)))
                for kind in (base, other)]  # fmt: skip
        assert made[0] == made[1]
        assert streams.history(base) != streams.history(other)


def test_the_table_is_what_a_query_reads() -> None:
    """The columns are found by their names, and the objects make the same table."""
    kind = Arrivals(events=50, disorder=0.3)
    rows = from_dicts(events_of(streams.history(kind)))
    assert rows.column("type").to_pylist() == streams.table(kind).column("type").to_pylist()
    assert rows.column("id").to_pylist() == streams.table(kind).column("id").to_pylist()


def test_a_million_rows_take_no_more_steps_than_a_thousand() -> None:
    """All work is done on whole columns."""
    few, many = (
        Arrivals(events=count, disorder=0.3, duplicates=0.05, sources=8, skew=5, **EVERY_PROMISE)
        for count in (1000, 1_000_000)
    )
    streams.tables(few)  # what is imported and compiled on the way is no work of theirs
    assert steps(lambda: streams.tables(many)) <= 1.2 * steps(lambda: streams.tables(few))
    assert streams.tables(many)[0].num_rows > 1_000_000


def test_no_events_no_stream() -> None:
    kind = Arrivals(events=0, delay=Burst(), duplicates=0.5, **EVERY_PROMISE)
    assert streams.history(kind) == []
    assert streams.table(kind).num_rows == streams.promises(kind).num_rows == 0
    assert smallest_sufficient_slack([]) == 0
    assert share_late([]) == 0.0


# --- types, keys, values -------------------------------------------------------------------------------------------


def test_types_come_as_often_as_their_weights_say() -> None:
    table = streams.table(Arrivals(events=30_000, types={"A": 3, "B": 1, "C": 0}))
    counts = Counter(table.column("type").to_pylist())
    assert counts.keys() == {"A", "B"}
    assert counts["A"] / 30_000 == pytest.approx(0.75, abs=0.02)


def test_keys_and_values_fill_their_range() -> None:
    table = streams.table(Arrivals(events=5_000, keys=7, values=3))
    assert set(table.column("id").to_pylist()) == set(range(7))
    assert set(table.column("v").to_pylist()) == set(range(3))


def test_the_rate_makes_ties() -> None:
    times = streams.table(Arrivals(events=90, rate=3)).column("time").to_pylist()
    assert times == [tick for tick in range(30) for _ in range(3)]


# --- disorder ------------------------------------------------------------------------------------------------------


@every_kind
def test_nothing_is_later_than_the_stream_says(kind: Arrivals) -> None:
    items = streams.history(kind)
    worst: Counter[tuple[str, str | None]] = Counter()
    for event, late in zip(events_of(items), lateness(items).tolist(), strict=True):
        worst[event.type, event.source] = max(worst[event.type, event.source], late)
    for (type, source), late in worst.items():
        assert late <= kind.most_late(type, source) <= kind.most_late(type) <= kind.most_late()
    assert smallest_sufficient_slack(items) == max(worst.values())


def test_the_disorder_is_about_what_was_asked_for() -> None:
    """A delay of one or two ticks may change nothing, so the share that is late stays a little below."""
    table = streams.table(Arrivals(events=50_000, disorder=0.3))
    assert share_late(table) == pytest.approx(0.3, abs=0.03)
    assert smallest_sufficient_slack(table) == pytest.approx(50, abs=1)  # 10 time units of 5 ticks


def test_in_order_means_in_order() -> None:
    table = streams.table(Arrivals(events=1_000))
    assert share_late(table) == 0
    assert table.column("eid").to_pylist() == list(range(1_000))


def test_negatives_alone_can_be_late() -> None:
    """The two forms of the papers: late C among C, and late C among all."""
    items = streams.history(Arrivals(events=10_000, disorder_of={"C": 0.4}))
    assert share_late(items, "ABDEFGHIJ") == 0
    assert share_late(items, ["C"]) == pytest.approx(0.4, abs=0.05)
    assert share_late(items, "C", of_all=True) == pytest.approx(0.04, abs=0.01)
    table = streams.table(Arrivals(events=10_000, disorder_of={"C": 0.4}))
    assert share_late(table, "C") == share_late(items, "C")


@pytest.mark.parametrize(
    ("law", "low", "median", "high"),
    [
        (Uniform(20), 1, (45, 55), 100),
        (Fixed(20), 100, (100, 100), 100),
        (Pareto(20, alpha=1.0), 1, (1, 3), 100),
        (Exponential(20, mean=4.0), 1, (12, 17), 100),
    ],
)
def test_laws_of_delay(
    law: Uniform | Fixed | Pareto | Exponential, low: int, median: tuple[int, int], high: int
) -> None:
    delays = law.delays(np.random.default_rng(1).random(20_000), 100)
    assert delays.min() == low and 0.9 * high <= delays.max() <= high
    assert median[0] <= np.median(delays) <= median[1]


def test_a_heavy_tail_is_heavier() -> None:
    u = np.random.default_rng(1).random(20_000)
    heavy, light = (np.quantile(Pareto(alpha=alpha).delays(u, 10_000), 0.99) for alpha in (0.8, 2.0))
    assert heavy > 10 * light


def test_a_silent_source_catches_up() -> None:
    kind = Arrivals(events=1_000, sources=2, delay=Burst(10, every=40))
    items = events_of(streams.history(kind))
    late = lateness(items)
    longest = 0
    for event, behind in zip(items, late.tolist(), strict=True):
        longest = max(longest, behind)
        if behind > 45:  # the first event after 50 ticks of silence
            same = [other for other in items if other.source == event.source and event.end < other.end < event.end + 40]
            assert all(0 < other.arrival - event.arrival < 60 for other in same)
    assert 45 <= longest <= 50
    for source in kind.source_names:
        ends = [event.end for event in items if event.source == source]
        assert ends == sorted(ends)


# --- sources and duplicates ----------------------------------------------------------------------------------------


def test_sources_in_order_and_skewed() -> None:
    kind = KINDS["in-order sources"]
    events = events_of(streams.history(kind))
    for source in kind.source_names:
        sent = [event for event in events if event.source == source]
        assert [event.seq for event in sent] == list(range(len(sent)))
        assert all(one.end <= other.end for one, other in pairwise(sent))
    assert share_late(events) > 0.2
    first = {source: next(e.arrival for e in events if e.source == source) for source in kind.source_names}
    assert list(first) == sorted(first, key=lambda source: first[source])  # the last source is the furthest behind


def test_without_that_a_source_is_out_of_order_too() -> None:
    events = [event for event in events_of(streams.history(KINDS["sources"])) if event.source == "s1"]
    assert [event.seq for event in events] != list(range(len(events)))
    assert sorted(event.seq for event in events) == list(range(len(events)))


def test_types_are_dealt_to_sources() -> None:
    events = events_of(streams.history(KINDS["sources by type"]))
    homes = {event.type: event.source for event in events}
    assert len({(event.type, event.source) for event in events}) == len(homes) == 10
    assert homes["A"] == homes["E"] == homes["I"] == "s1"
    assert share_late(events, "BCD") == 0  # only what stands behind a late A is held up
    assert share_late(events, "E") > 0


def test_duplicates_are_the_same_event_later() -> None:
    events = events_of(streams.history(KINDS["duplicates"]))
    seen: dict[object, Event] = {}
    doubles = 0
    for row, event in enumerate(events):
        assert event.arrival == row
        if event.eid in seen:
            doubles += 1
            assert replace(event, arrival=0) == replace(seen[event.eid], arrival=0)
        seen.setdefault(event.eid, event)
    assert len(seen) == 400
    assert doubles == pytest.approx(80, abs=25)


# --- promises ------------------------------------------------------------------------------------------------------


@every_kind
def test_promises_hold(kind: Arrivals) -> None:
    items = streams.history(replace(kind, **EVERY_PROMISE))
    told = [item for item in items if isinstance(item, Promise)]
    assert {promise.source is None for promise in told} == {promise.type is None for promise in told} == {True, False}
    assert broken_promises(items) == []


@every_kind
def test_promises_say_something(kind: Arrivals) -> None:
    """The time of the last one is near the clock: within the longest delay."""
    items = streams.history(replace(kind, **EVERY_PROMISE))
    last = next(item for item in reversed(items) if isinstance(item, Promise) and item.source is None)
    clock = max(event.end for event in events_of(items))
    assert last.time >= clock - kind.most_late() - 20


def test_a_promise_about_a_type_is_as_the_paper_says() -> None:
    kind = Arrivals(events=500, disorder=0.3, promises=0.5, promise_types=("C", "D"))
    clock, found = -1, 0
    for item in streams.history(kind):
        if isinstance(item, Event):
            clock = max(clock, item.end)
        elif isinstance(item, Promise):
            found += 1
            assert item == Promise(item.type, clock - 50 - 1)
            assert item.type in ("C", "D")
    assert found == pytest.approx(250, abs=50)


def test_a_source_in_order_knows_better() -> None:
    loose = Arrivals(events=500, disorder=0.1, sources=3, skew=30, source_promises=0.3)
    tight = replace(loose, in_order_sources=True)
    means = [np.mean([item.time for item in streams.history(kind) if isinstance(item, Promise)])
             for kind in (loose, tight)]  # fmt: skip
    assert means[1] > means[0]


def test_broken_promises_are_as_many_as_asked_for() -> None:
    kind = Arrivals(events=600, disorder=0.3, duplicates=0.1, sources=2, **EVERY_PROMISE)
    told = sum(isinstance(item, Promise) for item in streams.history(kind))
    some = len(broken_promises(streams.history(replace(kind, broken=0.1))))
    assert some == pytest.approx(told / 10, rel=0.4)
    every = streams.history(replace(kind, broken=1.0))
    assert len(broken_promises(every)) > 0.9 * told  # but for those after which nothing comes
    assert broken_promises(streams.history(kind)) == []


# --- wrong definitions ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"disorder": 30}, "disorder is a share between 0 and 1"),
        ({"disorder_of": {"C": -0.1}}, "disorder_of['C'] is a share"),
        ({"disorder_of": {"Z": 0.1}}, "disorder_of names a type that the stream does not have"),
        ({"promise_types": ("Z",)}, "promise_types names a type"),
        ({"types": {}}, "types need weights"),
        ({"types": {"A": -1, "B": 2}}, "types need weights"),
        ({"events": -1}, "events cannot be negative"),
        ({"unit": 0}, "unit must be at least 1"),
        ({"sources": 0}, "sources must be at least 1"),
        ({"delay": Uniform(-1)}, "most of Uniform must be positive"),
        ({"delay": Pareto(alpha=0.0)}, "alpha of Pareto must be positive"),
        ({"delay": Burst(50, every=20)}, "a burst cannot be longer"),
        ({"delay_of": {"C": Burst()}}, "a burst concerns a source"),
    ],
)
def test_wrong_definitions_say_what_is_wrong(wrong: dict[str, object], text: str) -> None:
    with pytest.raises(InputError) as caught:
        Arrivals(**wrong)  # type: ignore[arg-type]
    assert text in str(caught.value)


# --- measures and given events -------------------------------------------------------------------------------------


def test_lateness_by_hand() -> None:
    items = read("a1 b5 a3 @A>3 h[1,7] b6 a7 c2")
    assert lateness(items).tolist() == [0, 0, 2, 0, 1, 0, 5]
    assert smallest_sufficient_slack(items) == 5
    assert share_late(items) == pytest.approx(3 / 7)


@pytest.mark.parametrize("most", [0, 1, 7, 1_000])
def test_shuffle_within_a_bound(most: int) -> None:
    events = [Event("A", at // 2, at // 2, at) for at in range(400)]
    moved = shuffle_within(events, most, seed=3)
    assert sorted(event.eid for event in moved) == list(range(400))
    assert smallest_sufficient_slack(moved) <= most
    assert moved == shuffle_within(events, most, seed=3) != shuffle_within(events, most, seed=4)
    assert (share_late(moved) > 0) == (most > 0)


def test_a_negative_bound_is_refused() -> None:
    with pytest.raises(InputError, match="less than nothing"):
        shuffle_within([], -1, seed=3)


def test_disordered_events_keep_their_promises() -> None:
    """Over many draws: every event comes, duplicates come, promises of every form come, and none is broken."""
    base = events_of(read("a1 b2 a3 c3 h[2,6] b7 a9 c9"))
    events = [replace(event, source="xy"[at % 2]) for at, event in enumerate(base)]
    forms: Counter[tuple[bool, bool]] = Counter()
    orders, doubled, tight = set(), 0, 0
    for seed in range(300):
        items = disordered(events, Random(seed))
        assert broken_promises(items) == []
        arrived = events_of(items)
        assert {event.eid for event in arrived} == {event.eid for event in events}
        orders.add(tuple(event.eid for event in arrived))
        doubled += len(arrived) > len(events)
        for place, item in enumerate(items):
            if isinstance(item, Promise):
                forms[item.type is None, item.source is None] += 1
                more = [*items[:place], replace(item, time=item.time + 1), *items[place + 1 :]]
                tight += bool(broken_promises(more))
    assert len(orders) > 290 and doubled > 150 and tight > 100
    assert all(forms[one, other] > 20 for one in (True, False) for other in (True, False))


def test_disordered_within_a_bound() -> None:
    events = [Event("AB"[at % 2], at, at, at) for at in range(30)]
    for seed in range(50):
        items = disordered(events, Random(seed), most=4, duplicates=0.5, promises=1.0)
        assert smallest_sufficient_slack(items) <= 4
        assert broken_promises(items) == []
    plain = disordered(events, Random(1), duplicates=0.0, promises=0.0)
    assert sorted(event.eid for event in events_of(plain)) == list(range(30)) == list(range(len(plain)))


EVENTS = [Event("ABC"[at % 3], at, at + at % 2, at, source=(None, "x")[at % 2]) for at in range(6)]


@settings(max_examples=examples(150, least=20))
@given(disorder.arrivals(EVENTS))
def test_hypothesis_draws_valid_arrivals(items: list[object]) -> None:
    assert broken_promises(items) == []  # type: ignore[arg-type]
    assert {event.eid for event in events_of(items)} == set(range(6))  # type: ignore[arg-type]


@settings(max_examples=examples(30, least=20))
@given(disorder.arrivals([], duplicates=True), disorder.arrivals(EVENTS, duplicates=False, promises=False))
def test_hypothesis_draws_nothing_from_nothing(nothing: list[object], plain: list[object]) -> None:
    assert all(isinstance(item, Promise) for item in nothing)
    assert sorted(plain, key=lambda event: event.eid) == EVENTS  # type: ignore[attr-defined]


def test_hypothesis_shrinks_to_the_order_of_the_list() -> None:
    from hypothesis import find

    found = find(disorder.arrivals(EVENTS), lambda items: any(isinstance(item, Promise) for item in items))
    assert [event.eid for event in events_of(found)] == list(range(6))
    late = find(disorder.arrivals(EVENTS), lambda items: smallest_sufficient_slack(items) >= 2)
    assert len(late) == 6


@given(st.integers(0, 2**32))
@settings(max_examples=examples(25, least=20))
def test_any_seed_will_do(seed: int) -> None:
    kind = Arrivals(events=60, disorder=0.4, duplicates=0.2, sources=3, skew=2, seed=seed, **EVERY_PROMISE)
    items = streams.history(kind)
    assert broken_promises(items) == []
    assert smallest_sufficient_slack(items) <= kind.most_late()
