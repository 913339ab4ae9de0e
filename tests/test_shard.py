"""Shards of a stream against the oracle, without Spark: any cut, any accident, any number of shards, the same matches.

`tests/shard_support.py` routes, packs and stores as Spark would. Random queries and histories come from
`tocsin.testing.strategies`; a failure is made small.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from tests import shard_support
from tests.effort import examples, some
from tests.shard_support import (
    CHAINS,
    Answers,
    Asked,
    Memory,
    Stream,
    arranged,
    ask,
    chain_history,
    cuts,
    disagreement,
    expected,
    frame_of,
    nameless,
    numbered,
    row_of,
    stretch,
)
from tocsin.codec import VERSION, encode
from tocsin.errors import InputError, StateError, TocsinError
from tocsin.events import ANY, Event
from tocsin.items import end
from tocsin.lang.parser import parse, parse_all
from tocsin.lang.syntax import Duration, Query, leaves_of
from tocsin.shards import blocks
from tocsin.shards import shard as module
from tocsin.shards.blocks import SHARD, Note, Packer, larger
from tocsin.shards.identity import Identity
from tocsin.shards.job import Shards
from tocsin.shards.routes import reach_of
from tocsin.shards.shard import Head, Shard
from tocsin.shards.time_slices import Slices, cut, margins
from tocsin.shards.watermark import Slack
from tocsin.spark.event_frame import EventFrame
from tocsin.testing import harness
from tocsin.testing.draw_consumption import consuming_query
from tocsin.testing.draw_eids import with_eids
from tocsin.testing.oracle import Match, matches, matches_of_all
from tocsin.testing.shrink import shrunk
from tocsin.testing.strategies import SCHEMA, Pair, history, is_valid, pair, query

CHUNKS, EACH = 24, 75  # 1,800 queries with one history each


merged_early = shard_support.merged_early


# --- random queries and histories ----------------------------------------------------------------------------------


def drawn(random: Random) -> Pair:
    """A pair as everywhere, but most of them with a key."""
    asked, events = pair(random)
    if random.random() < 0.6:
        keyed = replace(asked, partition=random.choice([("id",), ("id", "s"), ("x",)]))
        if is_valid(keyed):
            return keyed, history(random, keyed)
    return asked, events


def frame_for(events: Sequence[Event], random: Random, *, eids: bool) -> EventFrame:
    """A frame that holds the events: with or without eids, and points without an end where that is enough."""
    texts = any(isinstance(event.eid, str) for event in events)
    intervals = any(event.start != event.end for event in events) or random.random() < 0.5
    return frame_of((pa.string() if texts else pa.int64()) if eids else None, intervals=intervals)


def told(asked: Asked, events: Sequence[Event], late: int, random: Random, *, calm: bool = False) -> Answers:
    """What a stream says that gets the events in some order and in some micro-batches, and is closed."""
    stream = Stream(asked, Slack(late), random, calm=calm)
    for batch in cuts(arranged(events, late, random), random):
        stream.batch([row_of(event, asked.frame) for event in batch])
    stream.close()
    return stream.answers


def problem(queries: Sequence[Query], events: Sequence[Event], seed: object) -> str | None:
    """How a stream of these events differs from the oracle; everything else is drawn from the seed."""
    random = Random(f"{seed}")
    named, late = random.random() < 0.7, random.choice((0, 1, 3, 10))
    frame = frame_for(events, random, eids=named)
    schema = SCHEMA if random.random() < 0.5 and all(each.name is None for each in queries) else None
    asked = ask(queries, frame, buckets=random.choice((1, 3)), schema=schema)
    events = events if named else nameless(events, frame)
    answers = told(asked, events, late, random, calm=random.random() < 0.2)
    if answers.late:
        return f"called late: {answers.late}"
    return disagreement(asked, events, answers)


def in_small(asked: Query, events: Sequence[Event], seed: object) -> str:
    """The failure in its smallest form."""

    def fails(query: Query, events: Sequence[Event]) -> bool:
        return problem([query], events, seed) is not None

    query, events = shrunk(asked, events, fails, most=200)
    return f"{problem([query], events, seed)}\nseed {seed}\n{query}\n" + "\n".join(map(str, events))


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(examples(CHUNKS)))
def test_streams_agree_with_the_oracle(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "LARGE", 1 << 26 if chunk % 2 else 200)  # packers that send in several pieces
    assert check_chunk(chunk, EACH) > EACH // 4


def check_chunk(chunk: int, count: int) -> int:
    """Every stream of a chunk agrees with the oracle; how many of them have a match."""
    matched = 0
    for number in range(count):
        asked, events = drawn(Random(f"stream {chunk} {number}"))
        assert problem([asked], events, number) is None, in_small(asked, events, number)
        matched += bool(matches(asked, events))
    return matched


def test_one_wrong_answer_in_a_chunk_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """Oracles that miss a match of one history stand for an engine that is wrong about it, on shards and off."""
    at = next(n for n in range(EACH) if wrongly_judged(n) is not None)
    wrong = wrongly_judged(at)

    def less(found: list[Match], events: Sequence[Event]) -> list[Match]:
        return found[:-1] if list(events) == wrong else found

    def of_all(queries: Sequence[Query], events: Sequence[Event]) -> dict[Any, list[Match]]:
        return {name: less(found, events) for name, found in matches_of_all(queries, events).items()}

    monkeypatch.setattr(shard_support, "matches_of_all", of_all)
    monkeypatch.setattr(harness, "matches", lambda query, events, **options: less(matches(query, events), events))
    with pytest.raises(AssertionError, match="not expected"):
        check_chunk(0, at + 1)


def wrongly_judged(number: int) -> list[Event] | None:
    """The events of a drawn stream that are judged under their own names and have a match."""
    asked, events = drawn(Random(f"stream 0 {number}"))
    return events if Random(f"{number}").random() < 0.7 and matches(asked, events) else None


@pytest.mark.parametrize("number", range(examples(30, least=10)))
def test_some_streams_quickly(number: int) -> None:
    asked, events = drawn(Random(f"quick {number}"))
    assert problem([asked], events, number) is None, in_small(asked, events, number)


# --- long streams: what is forgotten must not be missed --------------------------------------------------------------


def short_query(random: Random) -> Query:
    """A query whose window is much shorter than a stretch."""
    while True:
        asked = replace(query(random, leaves=3), within=Duration(random.choice((1, 1, 2, 2, 3, 4))))
        if random.random() < 0.4:
            asked = replace(asked, partition=("id",))
        if is_valid(asked) and len(leaves_of(asked.pattern)) <= 5:
            return asked


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(examples(8)))
def test_long_streams_agree_with_the_oracle(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TAIL", 1)
    for number in range(25):
        random = Random(f"long {chunk} {number}")
        asked = short_query(random)
        events = stretch(random, asked, 4)
        assert problem([asked], events, number) is None, in_small(asked, events, number)


@pytest.mark.slow
@pytest.mark.parametrize("text", some([
    "EVENT SEQ(A a, !B b, C c) WHERE [id] WITHIN 5",
    "EVENT SEQ(!B b, A a, C c, !D d) WHERE [id] WITHIN 5",
    "EVENT EXISTS b : SEQ(A a, B b, !C c) WHERE [id] WITHIN 5",
    "EVENT SEQ(A a, B+ b) WITHIN 5",
], least=2))  # fmt: skip
def test_state_is_bounded(text: str) -> None:
    """However long a stream is, a shard keeps the blocks that its queries can still need, and few of them."""
    frame = frame_of(pa.int64())
    asked = ask([parse(text)], frame, buckets=2)
    reach = reach_of(asked.job.shards[0].group.units)
    assert reach is not None
    stream = Stream(asked, Slack(2), Random(3))
    random = Random(5)
    for time in range(0, 600, 2):
        events = [Event(random.choice("ABCD"), time, time, time * 10 + n, {"id": n % 3}) for n in range(4)]
        stream.batch([row_of(event, frame) for event in events])
        for store in stream.stores.values():
            kept = [row for data in store.blocks.values() for row in blocks.as_table(data).to_pylist()]
            # a merged block may be as long again as what is needed
            assert all(row["end"] >= time - 2 - 3 * (reach + 6) for row in kept)
            listed = Head.read(store.head or b"").blocks
            assert len(listed) <= reach + 6
            assert set(store.blocks) == {block.number for block in listed if block.size}


def test_a_long_batch_leaves_only_its_end() -> None:
    """What is behind every query's reach when a batch is over is never stored; answers are those of short batches."""
    frame = frame_of(pa.int64())
    asked = ask([parse("EVENT SEQ(A a, !B b, C c) WHERE [id] WITHIN 5")], frame, buckets=2)
    reach = reach_of(asked.job.shards[0].group.units)
    assert reach is not None
    random = Random(7)
    events = [Event(random.choice("ABCD"), time, time, time, {"id": time % 3}) for time in range(400)]
    said = []
    for size in (400, 100, 7):
        stream = Stream(asked, Slack(2), Random(size))
        for first in range(0, len(events), size):
            batch = events[first : first + size]
            stream.batch([row_of(event, frame) for event in batch])
            for store in stream.stores.values() if size > 50 else ():
                last = Head.read(store.head or b"").blocks[-1]
                kept = blocks.as_table(store.blocks[last.number]).to_pylist()
                assert last.cut
                assert all(row["end"] >= batch[-1].end - 2 - reach - 1 for row in kept)
        stream.close()
        said.append(sorted(row["match_id"] for row in stream.answers.matches))
    assert said[0] == said[1] == said[2] != []


def test_a_closed_shard_keeps_nothing_and_takes_nothing() -> None:
    frame = frame_of(pa.int64())
    asked = ask([parse("EVENT SEQ(A a, B b)")], frame)
    stream = Stream(asked, Slack(0), Random(1), calm=True)
    stream.batch([row_of(Event("A", 1, 1, 1), frame)])
    assert stream.stores[0].blocks
    stream.close()
    assert not stream.stores[0].blocks
    with pytest.raises(StateError, match="was closed"):
        stream.batch([row_of(Event("A", 2, 2, 2), frame)])


# --- routes that random queries rarely take --------------------------------------------------------------------------

ROUTES = """
EVENT SEQ(A a, A b) WHERE a.id = b.x
EVENT SEQ(A a, A b) WHERE a.id = b.x WITHIN 5
EVENT SEQ(A a, !A n, B b) WHERE a.id = b.x AND n.x = a.id WITHIN 6
EVENT SEQ(A a, !A n, B b) WHERE a.id = b.id WITHIN 6
EVENT SEQ(A a, !A n, B b) WHERE a.id = b.id
EVENT SEQ(A a, B+ b, C c) WHERE a.id = c.id WITHIN 8
EVENT SEQ(A a, B+ b, B c) WHERE a.id = c.id AND b.x = a.id WITHIN 8
EVENT SEQ(!B n, A a, B b) WHERE a.id = b.x WITHIN 4
EVENT SEQ(A a, B b, !A n) WHERE a.id = b.x AND n.v = a.v WITHIN 4
EVENT EXISTS b : SEQ(A a, B b) WHERE a.id = b.x WITHIN 5
EVENT EXISTS b : SEQ(A a, B b) WHERE a.id = b.x
EVENT EXISTS b : SEQ(A a, A b, C c) WHERE a.id = b.x AND b.x = c.id WITHIN 5
EVENT EXISTS a : SEQ(A a, A b, !A c) WHERE a.id = b.x AND c.id = a.id WITHIN 5
EVENT EXISTS b, c, d : SEQ(A a, OR(SEQ((B b : b.id = a.id), (C c : c.id = a.id)), (D d : d.v = a.x))) WITHIN 6
EVENT SEQ(A a, OR(SEQ((B b : b.id = a.id), (C c : c.id = a.id)), SEQ((D d : d.v = a.x), (E e : e.v = a.x)))) WITHIN 6
EVENT SEQ(A a, OR(B b, C c), A d) WHERE [id] WITHIN 6
EVENT EXISTS a, b : SEQ(A a, B b) WHERE [id] WITHIN 5
EVENT EXISTS a, b : SEQ(A a, B b) WHERE [id]
EVENT OR(A a, EXISTS b, c : SEQ(B b, C c)) WITHIN 3
EVENT SEQ(A a, !SEQ(A n, B m), B b) WHERE a.id = b.id AND n.x = a.id AND m.v = n.v WITHIN 7
EVENT SEQ(A a, !SEQ(A n, !B m, C o), B b) WHERE a.id = b.id AND n.id = a.id AND m.x = n.id WITHIN 7
EVENT AND(A a, B b, !A c) WHERE a.id = b.x AND c.x = b.x WITHIN 5
EVENT SEQ(A a, A b, A c) WHERE a.id = b.x AND b.x = c.v WITHIN 8
EVENT SEQ(A a, A{2,} b) WHERE b.id = a.x WITHIN 8
EVENT SEQ(A a, !B b) WHERE a.id = b.id WITHIN 4
EVENT OR(SEQ(A a, B b), SEQ(C c, A d)) WHERE [id] WITHIN 5
EVENT OR(SEQ(A a, (B b : b.id = a.id)), SEQ((C c : c.v = 1), (A d : d.x = c.v))) WITHIN 5
""".strip().splitlines()


def alike(random: Random, events: Sequence[Event]) -> list[Event]:
    """The events with few different values; an eid that comes twice is still one event."""
    once: dict[object, Event] = {}
    for event in events:
        attrs = {name: random.choice((0, 1)) if name in ("id", "x", "v") else v for name, v in event.attrs.items()}
        once.setdefault(event.eid, replace(event, attrs=attrs))
    return [once[event.eid] for event in events]


@pytest.mark.slow
@pytest.mark.parametrize("text", ROUTES)
def test_every_kind_of_route(text: str) -> None:
    asked = parse(text)
    matched = 0
    for number in range(10):
        random = Random(f"{text} {number}")
        events = history(random, asked)
        events = alike(random, events) if number % 3 else events
        assert problem([asked], events, number) is None, in_small(asked, events, number)
        matched += bool(matches(asked, events))
    assert matched


def test_a_match_with_reasons_in_two_shards_is_said_once() -> None:
    """Each alternative hides the events that justify it, and would look for them under another key."""
    text = (
        "EVENT EXISTS b, c, d, e : SEQ(A a, OR(SEQ((B b : b.id = a.id), (C c : c.id = a.id)), "
        "SEQ((D d : d.v = a.x), (E e : e.v = a.x)))) WITHIN 6"
    )
    asked = ask([parse(text)], frame_of(pa.int64()), buckets=3)
    for number in range(9):
        first, second = {"id": number % 3}, {"v": number // 3}
        attrs = {"id": number % 3, "x": number // 3}
        kinds = [("A", 1, attrs), ("B", 2, first), ("C", 3, first), ("D", 2, second), ("E", 3, second)]
        events = [Event(type, time, time, eid, each) for eid, (type, time, each) in enumerate(kinds)]
        answers = told(asked, events, 3, Random(number))
        assert len(answers.matches) == 1
        assert disagreement(asked, events, answers) is None


@pytest.mark.parametrize("number", range(examples(150, least=8)))
def test_shards_agree_about_modes(number: int) -> None:
    """Events are used up key by key, wherever a key is; without one, all in one place."""
    random = Random(f"modes {number}")
    asked = consuming_query(random)
    events = history(random, asked)
    assert problem([asked], events, number) is None, in_small(asked, events, number)


@pytest.mark.parametrize("number", range(examples(150, least=12)))
def test_shards_agree_about_eids(number: int) -> None:
    random = Random(f"eids {number}")
    plain, events = drawn(random)
    query, schema = with_eids(random, plain, events)
    frame = frame_for(events, random, eids=True)
    asked = ask([query], frame, buckets=random.choice((1, 3)), schema=schema if events else None)
    answers = told(asked, events, random.choice((0, 3)), random)
    assert disagreement(asked, events, answers) is None, f"{query}"


# --- several queries -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(examples(25, least=6)))
def test_several_queries_share_a_stream(number: int) -> None:
    """Random queries over the events of all of them, with different keys."""
    random = Random(f"several {number}")
    while True:
        some = [replace(query(random, leaves=3), name=f"q{n}", select=()) for n in range(random.choice((2, 3)))]
        keys = [each for each in some if random.random() < 0.7]
        some = [
            replace(each, partition=random.choice((("id",), ("s",), ("v",)))) if each in keys else each for each in some
        ]
        # one variable cannot be a struct for one query and an array for another
        if all(map(is_valid, some)) and not any(leaf.repeat for each in some for leaf in leaves_of(each.pattern)):
            break
    events = [event for each in some for event in history(random, each, most=8)]
    assert problem(some, numbered(events), number) is None


@pytest.mark.slow
def test_groups_that_tell_home_by_keys_of_their_own() -> None:
    """Two groups of shards, each with events that go to several: what is at home for one says nothing of the other."""
    some = parse_all("""
        QUERY p EVENT SEQ(A a, A b) WHERE a.id = b.x WITHIN 9;
        QUERY q EVENT SEQ(A a, A b) WHERE a.x = b.id AND a.v = b.v WITHIN 9;
        QUERY r EVENT SEQ(B a, B b) WHERE a.x = b.id WITHIN 9
    """)
    asked = ask(some, frame_of(pa.string()), buckets=3)
    assert [len(each.group.units) for each in asked.job.shards] == [2, 1]
    matched = 0
    for number in range(12):
        random = Random(f"homes {number}")
        events = alike(random, numbered([e for each in some for e in history(random, each, most=7)]))
        answers = told(asked, events, 3, random)
        assert disagreement(asked, events, answers) is None
        matched += all(expected(asked, events).values())
    assert matched


@pytest.mark.slow
@pytest.mark.parametrize("text", CHAINS, ids=range(len(CHAINS)))
def test_queries_that_feed_each_other(text: str) -> None:
    whole = parse_all(text)
    matched = 0
    for number in range(8):
        random = Random(f"{text} {number}")
        some = (*(replace(each, hidden=random.random() < 0.6) for each in whole[:-1]), whole[-1])
        events = chain_history(some, random)
        assert problem(some, events, number) is None
        matched += any(expected(ask(some, frame_of(pa.string())), events).values())
    assert matched


# --- late events -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(examples(20, least=5)))
def test_late_is_what_ends_before_the_guarantee_of_the_batch_before(number: int) -> None:
    """Far more disorder than promised: the late ones are known beforehand, and the others are judged by the oracle."""
    random = Random(f"late {number}")
    asked, _ = drawn(random)
    events = stretch(random, asked, 2)
    frame = frame_of(pa.int64())
    batches = cuts(arranged(events, 12, random), random)
    late: list[Event] = []
    guarantee = None
    for batch in batches:
        late += [event for event in batch if guarantee is not None and event.end < guarantee]
        clock = max(event.end for event in batch) - 2
        guarantee = clock if guarantee is None else max(guarantee, clock)
    for buckets in (1, 3):
        ready = ask([asked], frame, buckets=buckets)
        stream = Stream(ready, Slack(2), Random(number))
        for batch in batches:
            stream.batch([row_of(event, frame) for event in batch])
        stream.close()
        wanted = [event for event in late if ready.routed([row_of(event, frame)])[0][SHARD] is not None]
        assert sorted(row["eid"] for row in stream.answers.late) == sorted(event.eid for event in wanted)
        accepted = [event for event in events if event not in late]
        assert disagreement(ready, accepted, stream.answers) is None
        assert sum(row["late"] for row in stream.answers.metrics) == len(wanted)


@pytest.mark.parametrize("number", range(examples(40, least=8)))
def test_a_clock_is_heard_where_no_event_comes(number: int) -> None:
    """Silence at random, in which a clock says the time: what comes behind it is late, the rest is the oracle's."""
    random = Random(f"clock {number}")
    asked, _ = drawn(random)
    events = stretch(random, asked, 2)
    frame = frame_of(pa.int64())
    slack, delay, now, guarantee = random.choice((0, 2)), random.choice((2, 4)), 0, -1000
    late: list[Event] = []
    steps: list[list[Event] | int] = []
    for batch in cuts(arranged(events, 9, random), random):
        now = max(now, *(event.end for event in batch)) + random.choice((0, 0, 1, 5))
        late += [event for event in batch if event.end < guarantee]
        guarantee = max(guarantee, max(event.end for event in batch) - slack)
        steps.append(batch)
        if random.random() < 0.5:
            now += random.choice((1, 3, 8))
            guarantee = max(guarantee, now - delay + 1)
            steps.append(now - delay + 1)
    for buckets in (1, 3):
        ready = ask([asked], frame, buckets=buckets)
        stream = Stream(ready, Slack(slack), Random(number))
        stream.quiet(1000)  # before the first event nothing is promised
        for step in steps:
            if isinstance(step, int):
                stream.quiet(step)
            else:
                stream.batch([row_of(event, frame) for event in step])
        assert stream.answers.metrics[-1]["watermark"] == guarantee
        stream.close()
        wanted = [event for event in late if ready.routed([row_of(event, frame)])[0][SHARD] is not None]
        assert sorted(row["eid"] for row in stream.answers.late) == sorted(event.eid for event in wanted)
        assert disagreement(ready, [event for event in events if event not in late], stream.answers) is None


def test_silence_is_an_alarm_once_and_on_time_and_a_backlog_is_not_late() -> None:
    frame = frame_of(pa.int64(), intervals=False)
    asked = ask([parse("EVENT SEQ(A a, !B b) WHERE [id] WITHIN 60")], frame, buckets=2)
    stream = Stream(asked, Slack(5), Random(1), calm=True)

    def rows(*times: int, type: str = "A") -> list[dict[str, Any]]:
        return [{"type": type, "start": time, "eid": 10 * time + (type == "B"), "id": time} for time in times]

    stream.batch(rows(1000))
    told = []
    for now in range(1000, 1200):  # minutes, with ten of them for events on their way
        stream.quiet(now - 10 + 1)
        told += [now] * len(stream.answers.matches)
        stream.answers.matches.clear()
    assert told == [1070]
    for time in (1195, 1250, 1195, 1300):  # a backlog in several batches, the clock far ahead of it
        for number in range(asked.job.count):
            events = [Note({"": time}, 1)]
            stream._run(number, lambda shard, notes=events: shard.batch(notes, [], 5000))
    assert stream.answers.metrics[-1]["watermark"] == 1295
    stream.batch(rows(1294, type="B"))
    assert [row["eid"] for row in stream.answers.late] == [12941]


def test_an_absence_at_the_end_has_its_key_and_rows_without_it_are_counted() -> None:
    frame = frame_of(pa.int64())
    text = "QUERY Open EVENT SEQ(A a, !B b) WHERE [id] WITHIN 9; QUERY Alone EVENT C c WHERE [s]"
    asked = ask(parse_all(text), frame, buckets=3)
    assert [(each.count, each.group.keyed) for each in asked.job.shards] == [(3, True)]
    events = [Event(type, at, at, at, {"id": at % 3 or None}) for at, type in enumerate("AABBCABA" * 4)]
    stream = Stream(asked, Slack(2), Random(0))
    for first in range(0, len(events), 5):
        stream.batch([row_of(event, frame) for event in events[first : first + 5]])
    stream.close()
    assert disagreement(asked, events, stream.answers) is None
    lacking = sum(event.type == "C" or event.attrs["id"] is None for event in events)
    assert sum(row["keyless"] for row in stream.answers.metrics) == lacking


def test_the_key_travels_even_where_a_type_lacks_it() -> None:
    """The query can never match; the events without its key are counted all the same."""
    asked = ask([parse("EVENT SEQ(A a, C c) WHERE [x] WITHIN 5 SELECT a.v AS v")], frame_of(pa.int64()), schema=SCHEMA)
    answers = told(asked, [Event("A", 1, 1, 1, {"x": 1, "v": 2}), Event("C", 2, 2, 2, {})], 0, Random(1), calm=True)
    assert not answers.matches
    assert sum(row["keyless"] for row in answers.metrics) == 1


def test_the_late_events_of_the_test_above_exist() -> None:
    frame = frame_of(pa.int64())
    asked = ask([parse("EVENT SEQ(A a, B b) WHERE [id] WITHIN 9")], frame, buckets=3)
    stream = Stream(asked, Slack(2), Random(0))
    stream.batch([row_of(Event("A", 10, 10, 1, {"id": 1}), frame), row_of(Event("A", 1, 1, 2, {"id": 2}), frame)])
    stream.batch([row_of(Event("B", 8, 8, 3, {"id": 3}), frame), row_of(Event("B", 7, 7, 4, {"id": 4}), frame)])
    assert [row["eid"] for row in stream.answers.late] == [4]
    assert stream.answers.late[0]["type"] == "B"


# --- sources ---------------------------------------------------------------------------------------------------------


def sourced(events: Sequence[tuple[str, str, int]]) -> list[Event]:
    return [Event(type, time, time, n, {"id": 1}, source=source) for n, (source, type, time) in enumerate(events)]


PAIR = "EVENT SEQ(A a, B b) WHERE [id] WITHIN 100"


def said_of(order: Slack, batches: Sequence[Sequence[Event]]) -> tuple[Stream, list[tuple[int, int]]]:
    """After each batch the number of matches so far and of late events so far."""
    frame = frame_of(pa.int64(), source=True)
    stream = Stream(ask([parse(PAIR)], frame, buckets=3), order, Random(7))
    said = []
    for batch in batches:
        stream.batch([row_of(event, frame) for event in batch])
        said.append((len(stream.answers.matches), len(stream.answers.late)))
    return stream, said


def test_the_slowest_source_holds_the_others() -> None:
    events = sourced([("x", "A", 1), ("y", "A", 2), ("x", "B", 50), ("x", "B", 60), ("y", "C", 55), ("y", "B", 54)])
    stream, said = said_of(Slack(0), [events[:2], events[2:4], events[4:5], events[5:]])
    # B50 is certain once y has passed it; B54 comes behind y's own clock
    assert said == [(0, 0), (0, 0), (2, 0), (2, 1)]
    stream.close()
    assert len(stream.answers.matches) == 4


def test_batches_are_joined_until_they_are_large_enough() -> None:
    batches = [pa.RecordBatch.from_pylist([{"v": at}] * count) for at, count in enumerate((2, 1, 1, 3, 1))]
    assert [batch.column("v").to_pylist() for batch in larger(batches, rows=2)] == [[0, 0], [1, 2], [3, 3, 3], [4]]
    assert list(larger([], rows=2)) == []


def test_a_source_is_idle_when_it_lags_by_more_than_the_bound() -> None:
    order = Slack(3, idle=20)
    assert order.silent({"x": 30, "y": 10}) == [] and order.guarantee({"x": 30, "y": 10}) == 7
    assert order.silent({"x": 31, "y": 10}) == ["y"] and order.guarantee({"x": 31, "y": 10}) == 28
    assert order.silent({}) == [] and Slack(3).silent({"x": 99, "y": 0}) == []


def test_an_idle_source_is_no_longer_waited_for_and_said_to_be_idle() -> None:
    events = sourced([("x", "A", 1), ("y", "A", 2), ("x", "B", 10), ("x", "B", 40), ("y", "B", 3), ("y", "B", 41)])
    stream, said = said_of(Slack(0, idle=20), [events[:2], events[2:3], events[3:4], events[4:5], events[5:]])
    assert said == [(0, 0), (0, 0), (2, 0), (2, 1), (2, 1)]
    idle = [row["idle"] for row in stream.answers.metrics if row["shard"] == 0]
    assert idle == [[], [], ["y"], ["y"], []]
    stream.close()
    assert len(stream.answers.matches) == 6


def test_nothing_is_certain_before_every_named_source_has_spoken() -> None:
    events = sourced([("x", "A", 1), ("x", "B", 10), ("x", "B", 20), ("y", "C", 30)])
    _, said = said_of(Slack(0, sources=("x", "y")), [events[:2], events[2:3], events[3:]])
    assert said == [(0, 0), (0, 0), (1, 0)]
    _, unnamed = said_of(Slack(0), [events[:2], events[2:3], events[3:]])
    assert unnamed == [(0, 0), (1, 0), (1, 0)]


def test_rows_without_a_source_are_a_source() -> None:
    frame = frame_of(pa.int64(), source=True)
    stream = Stream(ask([parse(PAIR)], frame, buckets=2), Slack(0), Random(7))
    none = Event("A", 5, 5, 1, {"id": 1})
    stream.batch([row_of(none, frame), row_of(replace(none, type="B", start=30, end=30, eid=2, source="x"), frame)])
    head = Head.read(stream.stores[0].head or b"")
    assert head.clocks == {"": 5, "x": 30}
    assert head.guarantee == 5


# --- queries come and change -----------------------------------------------------------------------------------------

FIRST = "QUERY p EVENT SEQ(A a, B b) WHERE [id] WITHIN 9"
FRAME = frame_of(pa.string())


def continued(before: str, after: str, *, buckets: int = 2, frame: EventFrame = FRAME) -> Stream:
    """A stream that has had events with one text and goes on with another."""
    stream = Stream(ask(parse_all(before), FRAME, buckets=buckets), Slack(0), Random(1))
    stream.batch([row_of(Event("A", 1, 1, "a1", {"id": 1, "x": 1}), FRAME)])
    stream.asked = ask(parse_all(after), frame, buckets=buckets)
    return stream


@pytest.mark.slow
@pytest.mark.parametrize("added", [
    "QUERY q EVENT SEQ(A a, !C c, B b) WHERE [id] WITHIN 9",   # shares the shards
    "QUERY q EVENT SEQ(A a, C c, B b) WHERE [s] WITHIN 9",     # has its own
    "QUERY q EVENT SEQ(A a, B b) WITHIN 9",                    # has no key
    "QUERY q EVENT SEQ(A a, A b) WHERE a.id = b.x WITHIN 9",   # must be told what is at home
])  # fmt: skip
def test_an_added_query_starts_from_its_first_batch(added: str) -> None:
    both = f"{FIRST}; {added}"
    matched = 0
    for number in range(8):
        random = Random(f"{added} {number}")
        old = stretch(random, parse(FIRST), 1)
        new = [replace(e, start=e.start + 4, end=e.end + 4) for e in stretch(random, parse(added), 2)]
        events = sorted(numbered(alike(random, numbered([*old, *new]))), key=lambda event: event.end)
        place = random.randint(1, len(events) - 1)
        stream = Stream(ask(parse_all(FIRST), FRAME, buckets=3), Slack(0), random)
        for batch in cuts(events[:place], random):
            stream.batch([row_of(event, FRAME) for event in batch])
        stream.asked = ask(parse_all(both), FRAME, buckets=3)
        for batch in cuts(events[place:], random):
            stream.batch([row_of(event, FRAME) for event in batch])
        stream.close()
        for name, text, seen in (("p", FIRST, events), ("q", added, events[place:])):
            mine = Answers([row for row in stream.answers.matches if row["query"] == name])
            assert disagreement(ask([parse(text)], FRAME, buckets=3), seen, mine) is None
            matched += name == "q" and bool(mine.matches)
    assert matched


def test_home_is_still_known_when_a_query_is_added() -> None:
    """The stored events say where they are at home; a query that joins their shards must not change what that means."""
    first = "QUERY p EVENT SEQ(A a, A b) WHERE a.x = b.id WITHIN 50"
    both = f"{first}; QUERY q EVENT SEQ(B a, B b) WHERE a.id = b.x WITHIN 50"
    matched = 0
    for number in range(12):
        random = Random(f"home {number}")
        events = numbered(alike(random, numbered(stretch(random, parse(first), 3))))
        events.sort(key=lambda event: event.end)
        stream = Stream(ask(parse_all(first), FRAME, buckets=3), Slack(0), random)
        stream.batch([row_of(event, FRAME) for event in events[: len(events) // 2]])
        stream.asked = ask(parse_all(both), FRAME, buckets=3)
        stream.batch([row_of(event, FRAME) for event in events[len(events) // 2 :]])
        stream.close()
        mine = Answers([row for row in stream.answers.matches if row["query"] == "p"])
        assert disagreement(ask([parse(first)], FRAME, buckets=3), events, mine) is None
        matched += bool(mine.matches)
    assert matched


@pytest.mark.parametrize("after", [
    FIRST.replace("WITHIN 9", "WITHIN 10"),
    FIRST.replace("SEQ", "AND"),
    FIRST.replace("QUERY p", "QUERY other"),
    f"QUERY new EVENT SEQ(A a, C c) WITHIN 3; {FIRST}",
])  # fmt: skip
def test_a_changed_query_is_refused(after: str) -> None:
    stream = continued(FIRST, after)
    with pytest.raises(StateError, match="belongs to another query") as caught:
        stream.batch([row_of(Event("B", 2, 2, "b2", {"id": 1}), FRAME)])
    assert "carry_over" in str(caught.value)


def test_select_may_change_if_it_reads_what_was_stored() -> None:
    selecting = f"{FIRST} SELECT a.id AS key, a.x AS x"
    for before, after, column in ((FIRST, selecting, "key"), (selecting, selecting.replace("a.id", "b.id"), "key")):
        stream = continued(before, after)
        stream.batch([row_of(Event("B", 2, 2, "b2", {"id": 1, "x": 5}), FRAME)])
        stream.close()
        assert [row[column] for row in stream.answers.matches] == [1]
        assert [row["x"] for row in stream.answers.matches] == [1]


def test_select_may_not_read_what_was_not_stored() -> None:
    stream = continued(f"{FIRST} SELECT a.id AS key", f"{FIRST} SELECT a.v AS v")
    with pytest.raises(StateError, match="'v', which the stored events do not have"):
        stream.batch([row_of(Event("B", 2, 2, "b2", {"id": 1}), FRAME)])


def test_a_column_may_not_change_its_type() -> None:
    rows = FRAME.rows.set(FRAME.rows.get_field_index("x"), pa.field("x", pa.float64()))
    stream = continued(FIRST, FIRST, frame=replace(FRAME, rows=rows))
    with pytest.raises(StateError, match="'x' is double now and was int64"):
        stream.batch([row_of(Event("B", 2, 2, "b2", {"id": 1}), FRAME)])


# --- damage ----------------------------------------------------------------------------------------------------------


def stored() -> tuple[Asked, Memory]:
    asked = ask([parse(FIRST)], FRAME)
    stream = Stream(asked, Slack(0), Random(1), calm=True)
    for time in (1, 2, 3):
        stream.batch([row_of(Event("A", time, time, f"a{time}", {"id": 1, "s": "text"}), FRAME)])
    return asked, stream.stores[0]


def opened(asked: Asked, store: Memory) -> list[pa.RecordBatch]:
    module._alive.clear()
    return list(Shard(asked.job, 0, Slack(0), store).close())


def test_what_was_stored_can_be_opened() -> None:
    asked, store = stored()
    assert len(store.blocks) == 3
    assert opened(asked, store)


@pytest.mark.parametrize("head", [
    b"", b"{}", b"null", b"7", b'"text"', b"[]", b"\xff\xfe", encode("shard", {}),
    encode("shard", {"stream": "x", "more": 1}),
    encode("shard", {"stream": "x", "blocks": [{"number": 1}], "units": {}, "memories": []}),
])  # fmt: skip
def test_a_damaged_head_is_refused(head: bytes) -> None:
    asked, store = stored()
    store.head = head
    with pytest.raises(StateError, match="damaged"):
        opened(asked, store)


def test_a_head_of_another_format_is_refused() -> None:
    asked, store = stored()
    whole = store.head or b""
    store.head = whole[:6] + bytes([99, 0]) + whole[8:]
    with pytest.raises(StateError, match="format 99"):
        opened(asked, store)
    store.head = b'{"format": 1, "stream": "x", "blocks": [], "units": {}}'
    with pytest.raises(StateError, match=r"written by Tocsin 0\.1(.|\n)*upgrading"):
        opened(asked, store)


def test_every_cut_and_every_flipped_bit_of_a_head_is_refused() -> None:
    asked, store = stored()
    whole, kept = store.head or b"", dict(store.blocks)
    for place in range(len(whole)):
        flipped = bytes([*whole[:place], whole[place] ^ 1 << place % 8, *whole[place + 1 :]])
        for data in (whole[:place], flipped):
            store.head = data
            with pytest.raises(StateError):
                opened(asked, store)
            assert (store.head, store.blocks) == (data, kept)  # nothing was written
    store.head = whole
    assert opened(asked, store)


def test_a_checkpoint_of_another_format_is_refused() -> None:
    identity = stored()[0].job.identity
    assert Identity.read(identity.data()) == identity
    for version, said in ((1, r"Tocsin 0\.1(.|\n)*upgrading"), (99, "format 99"), (None, "format None")):
        data = json.dumps({**json.loads(identity.data()), "format": version}).encode()
        with pytest.raises(StateError, match=said):
            Identity.read(data)
    for damaged in (b"", b"{}", b"[]", b"null", json.dumps({"format": VERSION}).encode()):
        with pytest.raises(StateError, match="damaged"):
            Identity.read(damaged)


def test_a_damaged_block_is_refused() -> None:
    """Cut short anywhere, or any byte changed: never an answer from wrong events."""
    asked, store = stored()
    number = min(store.blocks)
    whole = store.blocks[number]
    for place in Random(1).sample(range(len(whole)), 60):
        flipped = bytes([*whole[:place], whole[place] ^ 0x55, *whole[place + 1 :]])
        for damaged in (whole[:place], flipped, whole[place:]):
            if damaged != whole:
                mine = store.copy()
                mine.blocks[number] = damaged
                with pytest.raises(StateError, match="damaged"):
                    opened(asked, mine)


@pytest.mark.parametrize("name", ["end", "type", "eid"])
def test_a_block_without_a_column_is_refused_even_where_the_head_vouches_for_it(name: str) -> None:
    asked, store = stored()
    number = min(store.blocks)
    data = blocks.as_bytes(blocks.as_table(store.blocks[number]).drop_columns([name]), stored=True)
    assert store.head is not None
    head = module.Head.read(store.head)
    block = next(each for each in head.blocks if each.number == number)
    block.size, block.check = len(data), module.stamp(data)
    store.blocks[number], store.head = data, head.data()
    with pytest.raises(TocsinError, match=f"damaged|{name}"):
        opened(asked, store)


def test_a_missing_block_is_refused() -> None:
    asked, store = stored()
    del store.blocks[min(store.blocks)]
    with pytest.raises(StateError, match="damaged"):
        opened(asked, store)


# --- rows that cannot be used ----------------------------------------------------------------------------------------


def packed(asked: Asked, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    batch = pa.RecordBatch.from_pylist([{**row, SHARD: 0} for row in rows], schema=asked.rows)
    return [row for sent in Packer(asked.job).run([batch]) for row in sent.to_pylist()]


def test_an_unusable_row_ends_the_job_or_is_told_once() -> None:
    asked = ask([parse(FIRST)], FRAME, buckets=2)
    good = row_of(Event("A", 4, 4, "a4", {"id": 1}), FRAME)
    for bad, reason in (
        ({"end": 3}, "end is before the start"),
        ({"eid": None}, "eid is null"),
        ({"start": None}, "null"),
    ):
        with pytest.raises(InputError, match=reason):
            packed(asked, [good, {**good, **bad}])
        keeping = replace(asked, job=replace(asked.job, keep_bad=True))
        notes = [json.loads(row["note"]) for row in packed(keeping, [good, {**good, **bad}])]
        assert [len(note[2]) for note in notes] == [1, 0]
        assert [note[0] for note in notes] == [{"": 4}] * 2


def test_rows_that_only_move_the_clock_need_no_eid() -> None:
    """Spark sends them without their texts."""
    asked = ask([parse(FIRST)], FRAME)
    good = row_of(Event("A", 4, 4, "a4", {"id": 1}), FRAME)
    rows = [{**good, SHARD: 0}, {**good, "type": "Other", "eid": None, "start": 9, "end": 9, SHARD: None}]
    (sent,) = Packer(asked.job).run([pa.RecordBatch.from_pylist(rows, schema=asked.rows)])
    note, block = json.loads(sent.to_pylist()[0]["note"]), blocks.as_table(sent.to_pylist()[0]["block"])
    assert note == [{"": 9}, 2, [], 0]
    assert block.column("eid").to_pylist() == ["a4"]


# --- slices of a history ---------------------------------------------------------------------------------------------


def sliced(asked: Asked, slices: Slices, events: Sequence[Event]) -> Answers:
    """What a batch says whose one group is cut in time."""
    shards = Shards(asked.job.shards[0].group, 0, slices.count, slices)
    answers = Answers()
    for number in range(slices.count):
        low, high = slices.span(number)
        read = {event.type for event in events} if ANY in shards.group.types else shards.group.types
        mine = [event for event in events if event.type in read and low <= event.end < high]
        mine.sort(key=lambda event: event.end)
        graph, numbers = asked.job.graph(shards.group, shards.group.units)
        rows = pa.RecordBatch.from_pylist([row_of(event, asked.frame) for event in mine], schema=asked.frame.rows)
        said = [graph.push(graph.encode(rows))] if mine else []
        for changes in (*said, graph.push(end())):
            owned = [slices.owned(batch, number) for batch in changes]
            for answer in asked.job.answers(numbers, owned):
                answers.add(answer)
    return answers


def slice_problem(asked: Query, events: Sequence[Event], seed: object) -> str | None:
    random = Random(f"{seed}")
    named = random.random() < 0.7
    frame = frame_for(events, random, eids=named)
    ready = ask([asked], frame)
    around = margins(ready.plans)
    if around is None or ready.job.shards[0].group.keyed or not events:
        return None
    events = events if named else nameless(events, frame)
    first, last = min(event.end for event in events), max(event.end for event in events)
    length = random.choice((1, 2, 3, 5))
    slices = Slices(first, length, (last - first) // length + 1, *around)
    return disagreement(ready, events, sliced(ready, slices, events))


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(examples(6)))
def test_slices_agree_with_the_oracle(chunk: int) -> None:
    for number in range(100):
        random = Random(f"slices {chunk} {number}")
        asked = short_query(random) if number % 2 else pair(random)[0]
        events = stretch(random, asked, 2) if number % 2 else history(random, asked)
        asked = replace(asked, partition=())
        if is_valid(asked):
            found = slice_problem(asked, events, number)
            assert found is None, f"{found}\n{asked}\n" + "\n".join(map(str, events))


@pytest.mark.slow
@pytest.mark.parametrize("text", [
    "EVENT SEQ(A a, B b) WITHIN 2",
    "EVENT SEQ(!C c, A a, B b, !D d) WITHIN 2",
    "EVENT EXISTS b : SEQ(A a, B b) WITHIN 2",
    "EVENT EXISTS a : SEQ(A a, B b, !C c) WITHIN 2",
    "EVENT AND(A a, B+ b, !C c) WITHIN 2",
    "EVENT OR(SEQ(A a, B b), SEQ(A a2, C c)) WITHIN 3",
])  # fmt: skip
def test_slices_of_every_kind(text: str) -> None:
    asked = parse(text)
    matched = 0
    for number in range(12):
        random = Random(f"{text} {number}")
        events = stretch(random, asked, 3)
        found = slice_problem(asked, events, number)
        assert found is None, f"{found}\n{asked}\n" + "\n".join(map(str, events))
        matched += bool(matches(asked, events))
    assert matched


def test_cuts_are_worth_their_margins() -> None:
    assert cut(0, 99, (10, 0), 4) == Slices(0, 40, 3, 10, 0)
    assert cut(0, 99, (10, 10), 4) == Slices(0, 80, 2, 10, 10)
    assert cut(0, 99, (1, 0), 4) == Slices(0, 25, 4, 1, 0)
    assert cut(0, 30, (10, 0), 4) is None
    assert margins(ask([parse("EVENT SEQ(A a, B b)")], FRAME).plans) is None
    assert margins(ask([parse("EVENT EXISTS a, b : SEQ(A a, B b) WITHIN 3")], FRAME).plans) is None
