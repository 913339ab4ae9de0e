"""Begins on shards: what is announced changes no match there, and is told as the definition says; early answers too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from tests import shard_support
from tests.effort import examples
from tests.shard_support import Answers, Asked, Stream, arranged, ask, cuts, disagreement, frame_of
from tests.test_early import drawn_query
from tocsin.errors import InputError, TocsinError
from tocsin.events import BEGINNING, Event
from tocsin.graph.query_graph import QueryGraph
from tocsin.items import advanced, end, tick
from tocsin.lang.parser import parse
from tocsin.order.strategy import Strategy
from tocsin.plan.facts import types_of
from tocsin.shards.announced import ITEM, RowItem, encoded
from tocsin.shards.blocks import SHARD
from tocsin.shards.watermark import Slack
from tocsin.spark.event_frame import EventFrame
from tocsin.testing.begins import heard
from tocsin.testing.draw_intervals import drawn_intervals
from tocsin.testing.notation import Begin, Item, Promise, events_of
from tocsin.testing.strategies import is_valid

LONGEST = {"A": 4, "H": 3}
merged_early = shard_support.merged_early


def frame() -> EventFrame:
    return replace(frame_of(pa.string()), announces=True)


def row_of(item: Item) -> dict[str, Any]:
    """As Spark sends it: what has no end has its time for it."""
    match item:
        case Begin(type, start):
            return {ITEM: RowItem.BEGIN, "type": type, "start": start, "end": start, "eid": item.name, **item.attrs}
        case Promise(type, time):
            return {ITEM: RowItem.PROMISE, "type": type, "start": time, "end": time}
        case Event(type, start, ended):
            return {ITEM: RowItem.EVENT, "type": type, "start": start, "end": ended, "eid": item.eid, **item.attrs}
    raise AssertionError(item)


def drawn_batches(random: Random, events: Sequence[Event], late: int, key: str = "id") -> list[list[Item]]:
    """Micro-batches: events at most `late` behind others, begins before most of them, and promises that most keep."""
    batches: list[list[Item]] = [list(batch) for batch in cuts(arranged(events, late, random), random)]
    for at, batch in enumerate(list(batches)):
        for event in [item for item in batch if isinstance(item, Event)]:
            if random.random() < 0.7:
                attrs = {key: event.attrs[key]}
                begin = Begin(event.type, event.start, str(event.eid), attrs)
                before = random.randint(0, at)
                if before < at and random.random() < 0.1:  # it is not what will come
                    begin = replace(begin, start=event.start + random.choice((-1, 1)))
                batches[before] += [begin] * random.choice((1, 1, 1, 2))
    for number in range(random.randint(0, 2)):  # of an interval that never comes
        never = Begin(random.choice("AH"), random.randint(0, 9), f"n{number}", {key: random.choice((0, 1))})
        random.choice(batches or [[]]).append(never)
    for _ in range(random.randint(0, 4)):
        at = random.randrange(len(batches) or 1)
        later = [item for batch in batches[at + 1 :] for item in batch]
        type = random.choice([None, "A", "B", "H"])
        starts = [item.start for item in later if not isinstance(item, Promise) and type in (None, item.type)]
        until = min(starts, default=20) - 1 + random.choice((0, 0, 0, 2, 4))
        if batches:
            batches[at].append(Promise(type, until, None, of_begins=True))
    return batches


@dataclass
class Model:
    """What the definition makes of micro-batches: late by the watermark before, and then item by item."""

    late_by: int
    items: list[Item] = field(default_factory=list)
    late: list[str] = field(default_factory=list)
    guarantee: int = BEGINNING
    clock: int = BEGINNING

    def take(self, batch: Sequence[Item]) -> list[Item]:
        """The items of a micro-batch that come in time, in the order in which they count."""
        mine: list[Item] = []
        for item in batch:
            moment = item.end if isinstance(item, Event) else item.start if isinstance(item, Begin) else self.guarantee
            if moment < self.guarantee:
                self.late.append(str(item.eid) if isinstance(item, Event) else item.name)  # type: ignore[union-attr]
            else:
                mine.append(item)
        rows = [item for item in mine if not isinstance(item, Promise)]
        rows.sort(key=lambda item: (item.end, 1) if isinstance(item, Event) else (item.start, 0))
        self.clock = max([self.clock, *(item.end for item in batch if isinstance(item, Event))])
        if self.clock > BEGINNING:
            self.guarantee = max(self.guarantee, self.clock - self.late_by)
        told = [*rows, Promise(None, self.guarantee - 1, None)] if self.guarantee > BEGINNING else [*rows]
        told += [item for item in mine if isinstance(item, Promise)]
        self.items += told
        return told


def run(asked: Asked, batches: list[list[Item]], late: int, random: Random) -> Answers:
    stream = Stream(asked, Slack(late, strategy=asked.job.strategy), random)
    for batch in batches:
        stream.batch([row_of(item) for item in batch])
        if random.random() < 0.2:
            stream.restart()
    stream.close()
    return stream.answers


def with_order(asked: Asked, kind: str) -> Asked:
    return replace(asked, job=replace(asked.job, strategy=Strategy(kind)))


@pytest.fixture(autouse=True)
def same_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver that begins anew has the same order and the same schema."""

    def restarted(self: Asked) -> Asked:
        again = ask(self.queries, self.frame, buckets=self.buckets, schema=self.job.schema)
        return with_order(again, self.job.strategy.kind)

    monkeypatch.setattr(Asked, "restarted", restarted)


@pytest.mark.parametrize("chunk", range(examples(60)))
def test_matches_and_reports_are_those_of_the_definition(chunk: int) -> None:
    for number in range(5):
        random = Random(f"begins on shards {chunk} {number}")
        drawn = drawn_intervals(random, most=3)
        query = replace(drawn.query, partition=("id",)) if random.random() < 0.5 else drawn.query
        if not is_valid(query):
            continue
        late = random.choice((0, 2, 30))
        events = [replace(event, eid=str(event.eid)) for event in drawn.events]
        events = list({event.eid: event for event in events}.values())
        longest = LONGEST if random.random() < 0.4 else {}
        batches, model = drawn_batches(random, events, late), Model(late)
        for batch in batches:
            model.take(batch)
        try:
            told = heard(model.items, longest=longest)
        except InputError:
            continue
        schema = replace(frame().schema, longest=longest)
        asked = with_order(ask([query], frame(), buckets=random.choice((1, 2, 3)), schema=schema), "conservative")
        answers = run(asked, batches, late, random)
        story = f"{query} late={late} longest={longest}\n{batches}"
        assert disagreement(asked, events_of(told.kept), answers) is None, story
        read = set().union(*map(types_of, asked.plans))
        assert Counter(row["eid"] for row in answers.unended) == Counter(
            one.name for one in told.unended if one.type in read
        ), story
        by_promise = [str(event.eid) for event in told.late if event.type in read]
        kept = Counter(row["eid"] for row in answers.late)
        mine = {row["eid"] for row in answers.late} - set(model.late)
        assert mine == set(by_promise) - set(model.late), story
        assert max(kept.values(), default=0) <= 3, story


def embedded_early(asked: Asked, model: Model, batches: list[list[Item]]) -> set[str]:
    """The ids of answers that one graph tells early, micro-batch by micro-batch."""
    job = asked.job
    graph = QueryGraph(asked.plans, job.schema, job.columns, jit=False, order=job.strategy)
    found: set[str] = set()

    def push(items: Any) -> None:
        for changes in graph.push(items):
            if changes.kind == "early":
                found.update(changes.match_id.to_pylist())

    schema = pa.schema([field for field in asked.rows if field.name not in (SHARD, shard_support.COPY)])
    for batch in batches:
        told = model.take(batch)
        rows = [row_of(item) for item in told if not isinstance(item, Promise)]
        if rows:
            push(encoded(graph, pa.RecordBatch.from_pylist(rows, schema=schema)))
        push(tick(model.clock))
        if model.guarantee > BEGINNING:
            push(advanced(model.guarantee - 1))
        for item in told:
            if isinstance(item, Promise) and item.of_begins:
                push(graph.begin_guarantee(item.type, item.time))
    push(end())
    return found


@pytest.mark.parametrize("chunk", range(examples(60)))
def test_early_answers_are_told_on_shards(chunk: int) -> None:
    for number in range(6):
        random = Random(f"early on shards {chunk} {number}")
        query = parse(drawn_query(random))
        events = []
        for at in range(random.randint(2, 4)):
            start = random.randint(0, 5)
            attrs = {"id": random.choice((0, 0, 0, 1)), "v": 0}
            events.append(
                Event(random.choice("AAHHHB"), start, start + random.choice((0, 1, 2, 3, 5)), f"e{at}", attrs)
            )
        late = random.choice((0, 1, 30))
        batches, buckets = drawn_batches(random, events, late), random.choice((1, 1, 2))
        longest = LONGEST if random.random() < 0.3 else {}
        try:
            schema = replace(frame().schema, longest=longest)
            asked = with_order(ask([query], frame(), buckets=buckets, schema=schema), "conservative")
            heard([item for batch in batches for item in batch])
            wanted = embedded_early(asked, Model(late), batches)
        except TocsinError:
            continue
        answers = run(asked, batches, late, random)
        told: Counter[tuple[str, str]] = Counter()
        early = set()
        for row in answers.matches:
            told[row["kind"], row["match_id"]] += row["op"]
            if row["kind"] == "early" and row["op"] > 0:
                early.add(row["match_id"])
        story = f"{query} late={late} longest={longest} buckets={buckets}\n{batches}"
        assert (early == wanted) if buckets == 1 else (early >= wanted), story
        matched = {name for (kind, name), count in told.items() if kind == "match" and count}
        for name in early:  # what was told comes true, or is taken back
            assert 0 <= told["early", name] <= (name in matched), story
