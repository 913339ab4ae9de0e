"""An event is known by its eid, type, times and key: copies count once, what differs there is another event."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from operator import itemgetter
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tocsin
from tests.effort import examples
from tests.shard_support import Stream, ask, frame_of, row_of
from tocsin.engine.changes import ChangeBatch
from tocsin.events import Event
from tocsin.lang.parser import parse
from tocsin.shards.timed_rows import whole_ticks
from tocsin.shards.watermark import Slack
from tocsin.testing.agree import COMPILED, PLAIN, Bench, Trial
from tocsin.testing.modes import driven
from tocsin.testing.oracle import Match, matches
from tocsin.testing.strategies import SCHEMA, pair

CHUNKS = 8
QUERIES = 12  # in each chunk


def with_copies(events: Sequence[Event], random: Random, *, keep: Collection[str] = ()) -> list[Event]:
    """The events, some again: the same, at another time, of another type, or with other attributes (but for `keep`)."""
    more = list(events)
    for event in events:
        chance = random.random()
        shift = random.randint(1, 4)
        if chance < 0.2:
            more.append(event)
        elif chance < 0.45:
            more.append(replace(event, start=event.start + shift, end=event.end + shift))
        elif chance < 0.6:
            more.append(replace(event, end=event.end + shift))
        elif chance < 0.7:
            own = {name: value for name, value in event.attrs.items() if name not in ("x", "d")}
            more.append(replace(event, type=random.choice("ABCDE"), attrs=own))
        while random.random() < 0.4:
            more.append(replace(event, attrs=changed(event, random, keep)))
    random.shuffle(more)
    return more


def changed(event: Event, random: Random, keep: Collection[str]) -> dict[str, Any]:
    """Other attributes of an event: some of those that it has, with a value of their kind, or null."""
    attrs = dict(event.attrs)
    for name, value in event.attrs.items():
        if name in keep or random.random() < 0.4:
            continue
        if random.random() < 0.2 or value is None:
            attrs[name] = None
        elif isinstance(value, bool):
            attrs[name] = not value
        elif isinstance(value, str):
            attrs[name] = random.choice(("", "x", value + "y"))
        else:
            attrs[name] = type(value)(random.randint(-2, 3))
    return attrs


def key_of(bench: Bench) -> set[str]:
    """The attributes of the key: copies that differ there are other events, which can make two matches with one id."""
    return {attr for _, attrs in bench.plan.known_by for attr in attrs}


def expected(found: Iterable[Match]) -> Counter[Any]:
    return Counter((match.binding, match.times) for match in found)


def answered(batch: ChangeBatch) -> Iterable[tuple[int, Any, str]]:
    """Each change: its sign, its binding with the times of its events, and its id."""
    for at, (op, binding) in enumerate(batch.bindings()):
        numbers: list[int] = []
        for index in batch.visible:
            members = batch.repeated.get(index)
            mine = [batch.fixed[index][at]] if members is None else members.events[slice(*members.offsets[at : at + 2])]
            numbers += [int(number) for number in mine if number >= 0]
        places = batch.rows.at(np.array(numbers, np.int64))
        times = zip(batch.rows.start[places].tolist(), batch.rows.end[places].tolist(), strict=True)
        yield op, (binding, tuple(times)), batch.match_id[at].as_py()


def check(bench: Bench, events: list[Event], trials: Sequence[Trial]) -> None:
    wanted = expected(bench.oracle(events))
    for trial in trials:
        net: Counter[Any] = Counter()
        ids: dict[str, Any] = {}
        for said in driven(bench, trial.arranged(events), trial.mode).log:
            for op, binding, name in (each for batch in said for each in answered(batch)):
                net[binding] += op
                assert ids.setdefault(name, binding) == binding, f"{trial.name}: two matches have one id"
        assert +net == wanted, f"{trial.name}: {bench.query}\n{events}"


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(examples(CHUNKS)))
def test_every_mode_agrees_about_copies(chunk: int) -> None:
    for seed in range(chunk * QUERIES, (chunk + 1) * QUERIES):
        random = Random(seed)
        query, events = pair(random, leaves=4)
        bench = Bench(query, SCHEMA)
        check(bench, with_copies(events[:9], random, keep=key_of(bench)), PLAIN)


@pytest.mark.jit
def test_compiled_modes_agree_about_copies() -> None:
    query = parse("EVENT AND(OR(A a, B b), C c, !D d) WHERE [id] WITHIN 6")
    random = Random(1)
    types = "ABCD"
    events = [Event(types[at % 4], at // 2, at // 2, at, {"id": at % 2}) for at in range(16)]
    for _ in range(5):
        check(Bench(query, SCHEMA), with_copies(events, random, keep=("id",)), COMPILED)


@pytest.mark.parametrize("order", ["in-order", "slack(9)", "conservative(9)", "aggressive(9)", "any"])
def test_another_time_is_another_event_with_another_match_id(order: str) -> None:
    rows = [{"type": "A", "time": 1, "id": 1}, {"type": "A", "time": 2, "id": 1}, {"type": "B", "time": 5, "id": 9}]
    found = tocsin.query("EVENT SEQ(A a, B b) WITHIN 100").detect(rows, eid="id", jit=False, order=order)
    assert sorted(match["start"] for match in found) == [1, 2]
    assert len({match["match_id"] for match in found}) == 2


@pytest.mark.parametrize("swapped", [False, True])
def test_another_key_is_another_event(swapped: bool) -> None:
    rows = [{"type": "A", "time": 1, "id": 1, "k": k} for k in ((2, 1) if swapped else (1, 2))]
    rows.append({"type": "B", "time": 5, "id": 9, "k": 1})
    query = tocsin.query("EVENT SEQ(A a, B b) WHERE [k] WITHIN 100")
    events = [Event(row["type"], row["time"], row["time"], row["id"], {"k": row["k"]}) for row in rows]
    assert len(query.detect(rows, eid="id", jit=False)) == len(matches(query.queries[0], events)) == 1


def test_two_types_are_two_events_at_one_leaf() -> None:
    rows = [{"type": type, "time": 1, "eid": 1} for type in "ABA"]
    found = tocsin.query("EVENT OR(A a, B b)").detect(rows, jit=False)
    assert (len(found), found.counters["duplicates"]) == (2, 1)


@pytest.mark.parametrize("seed", range(6))
def test_shards_agree_about_copies(seed: int) -> None:
    random, frame = Random(seed), frame_of(pa.int64())
    query = parse("EVENT SEQ(A a, !C c, OR(B b, D d)) WHERE [id] WITHIN 8")
    drawn = [Event(random.choice("ABCD"), at // 2, at // 2, at, {"id": random.randint(0, 2)}) for at in range(24)]
    events = with_copies(drawn, random, keep=("id",))
    events.sort(key=lambda event: event.end + random.uniform(0, 6))
    asked = ask([query], frame, buckets=3)
    stream = Stream(asked, Slack(8), random)
    for first in range(0, len(events), 5):
        stream.batch([row_of(event, frame) for event in events[first : first + 5]])
    stream.close()
    shown = Counter(
        tuple((var, row[var]["eid"], row[var]["start"]) for var in ("a", "b", "d") if row[var] is not None)
        for row in stream.answers.matches
    )
    wanted = Counter(
        tuple((var, *eids, start) for (var, eids), (start, _) in zip(match.binding, match.times, strict=True))
        for match in matches(query, events)
    )
    assert shown == wanted and len({row["match_id"] for row in stream.answers.matches}) == wanted.total() > 0


def differing(random: Random, count: int) -> list[dict[str, Any]]:
    """Rows of few eids in few ticks, in order of time."""
    drawn = [
        (random.randint(0, 8), random.choice("ABC"), random.randint(0, 1), random.randint(0, 3)) for _ in range(count)
    ]
    return [{"eid": eid, "type": type, "time": time, "v": v} for time, type, eid, v in sorted(drawn, key=itemgetter(0))]


@pytest.mark.parametrize("order", ["in-order", "slack(9)", "conservative(9)", "aggressive(9)", "aggressive"])
@pytest.mark.parametrize("seed", range(examples(4)))
def test_single_events_agree_about_copies(order: str, seed: int) -> None:
    random = Random(f"{order} {seed}")
    for text in (
        "EVENT SEQ(A a, !C c, B b) WHERE c.v > a.v AND a.v < b.v WITHIN 6",
        "EVENT AND(A a, B b) WHERE a.v > 0 WITHIN 4",
    ):
        query, wanted = tocsin.query(text), Counter[Any]()
        while not wanted:
            rows = differing(random, 40)
            if order != "in-order":
                random.shuffle(rows)
            events = [Event(row["type"], row["time"], row["time"], row["eid"], {"v": row["v"]}) for row in rows]
            wanted = Counter((match.binding, match.times) for match in matches(query.queries[0], events))
        session, net = query.stream(order=order, jit=False), Counter[Any]()
        at = 0
        while at < len(rows):
            many = random.choice((1, 1, 1, 2, 5))
            found = session.push(rows[at] if many == 1 else rows[at : at + many])
            at += many
            if random.random() < 0.1:
                session = query.stream(order=order, jit=False, state=session.save())
            count(found, net)
        count(session.close(), net)
        assert +net == wanted, (text, rows)
        assert session.counters["conflicting"] > 0


@pytest.mark.parametrize("order", ["conservative(9)", "hybrid(C=conservative, 9)", "aggressive(9)", "slack(9)"])
@pytest.mark.parametrize("size", [1, 2, 4])
def test_an_answer_that_a_copy_had_refuted_is_given_once(order: str, size: int) -> None:
    """The first copy refutes what is held, the lesser one takes its place and refutes nothing."""
    query = tocsin.query("EVENT SEQ(A a, !C c, B b) WHERE c.v > a.v WITHIN 6")
    rows = [
        {"type": type, "time": time, "eid": eid, "v": v}
        for type, time, eid, v in (("A", 5, 0, 0), ("B", 8, 0, 2), ("C", 6, 1, 3), ("C", 6, 1, 0))
    ]
    session, net = query.stream(order=order, jit=False), Counter[Any]()
    for at in range(0, len(rows), size):
        count(session.push(rows[at] if size == 1 else rows[at : at + size]), net)
    count(session.close(), net)
    assert +net == Counter({((("a", (0,)), ("b", (0,))), ((5, 5), (8, 8))): 1})


def count(found: Iterable[dict[str, Any]], net: Counter[Any]) -> None:
    for match in found:
        bound = [(name, match[name]) for name in ("a", "b")]
        binding = tuple((name, (event["eid"],)) for name, event in bound)
        net[binding, tuple((event["start"], event["end"]) for _, event in bound)] += match["op"]


def test_later_queries_read_the_copy_that_counts() -> None:
    text = "QUERY pair EVENT SEQ(A a, B b) WITHIN 9 SELECT a.v AS v; QUERY twice EVENT SEQ(pair p, C c) WHERE p.v = c.v"
    rows = [{"eid": 1, "type": "A", "time": 1, "v": v} for v in (5, 3)]
    rows += [{"eid": 2, "type": "B", "time": 2, "v": 0}, {"eid": 3, "type": "C", "time": 4, "v": 3}]
    for order in ("in-order", "aggressive"):
        for first in (0, 1):
            given = [rows[first], rows[1 - first], *rows[2:]] if order == "in-order" else [*rows[2:], *rows[:2]]
            session = tocsin.query(text).stream(order=order, jit=False)
            found = [match for row in given for match in session.push(row)] + list(session.close())
            assert sum(match["op"] for match in found if match["query"] == "twice") == 1
            assert sum(match["op"] for match in found if match["query"] == "pair") == 1


def test_a_tick_that_lies_in_two_batches_is_put_together() -> None:
    frame = frame_of(pa.int64())
    asked = ask([parse("EVENT SEQ(A a, B b) WITHIN 9")], frame, buckets=1)
    times = [[1, 2, 2], [2], [2, 2, 3], [4], [], [5, 5]]
    names = frame.rows.names
    batches = [pa.RecordBatch.from_pydict({name: pa.array(ends, pa.int64()) for name in names}) for ends in times]
    cut = [batch.column(0).to_pylist() for batch in whole_ticks(batches, asked.job)]
    assert [end for ends in cut for end in ends] == [end for ends in times for end in ends]
    assert all(one[-1] < other[0] for one, other in pairwise(cut))
