"""A stream of shards without Spark: rows are routed, packed and stored as Spark would, with its accidents on demand.

`Stream` takes micro-batches of rows. At random moments a worker forgets its detectors, another worker gets the shard,
an attempt is thrown away and done again, or the driver begins anew: none of it may change an answer.
"""

from __future__ import annotations

import json
import warnings
from collections import Counter, OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from tocsin.encode.columns import Columns, infer_schema
from tocsin.encode.content import auto_eid, content_hash, occurrences
from tocsin.events import Eid, Event
from tocsin.graph.query_graph import QueryGraph
from tocsin.items import end
from tocsin.lang.parser import parse
from tocsin.lang.syntax import Query
from tocsin.order.strategy import Strategy
from tocsin.plan.block import Plan
from tocsin.plan.facts import types_of as plan_types
from tocsin.run.query import plans_of
from tocsin.schema import Schema
from tocsin.shards import shard as module
from tocsin.shards.announced import ITEM, RowItem
from tocsin.shards.blocks import COPY, SHARD, Note, Packer, as_table
from tocsin.shards.job import Job
from tocsin.shards.routes import own_columns
from tocsin.shards.shard import Shard
from tocsin.shards.watermark import Slack
from tocsin.spark.detect import plan_job
from tocsin.spark.event_frame import EventFrame
from tocsin.spark.shuffle import is_many as goes_to_many
from tocsin.spark.worker_reads.routing import unfiltered_rules
from tocsin.testing.agree import difference
from tocsin.testing.oracle import Binding, Match, composite, matches_of_all
from tocsin.testing.strategies import history

ATTRIBUTES = {
    "id": pa.int64(), "v": pa.int64(), "w": pa.float64(), "s": pa.string(), "ok": pa.bool_(), "x": pa.int64(),
    "d": pa.decimal128(18, 1),
}  # fmt: skip
Row = dict[str, Any]
PLACE = "place"  # the column in which rows are numbered while they are routed


@pytest.fixture(autouse=True)
def merged_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs are merged and detectors forgotten so early that small histories show it.

    `merged_early = shard_support.merged_early` in a file of tests is for all of its tests.
    """
    monkeypatch.setattr(module, "TAIL", 2)
    monkeypatch.setattr(module, "MERGED", 2)
    monkeypatch.setattr(module, "KEPT_ALIVE", 2)
    monkeypatch.setattr(module, "LOGGED", 3000)
    monkeypatch.setattr(module, "_alive", OrderedDict())


# --- frames and jobs -----------------------------------------------------------------------------------------------


def frame_of(eid: pa.DataType | None = None, *, intervals: bool = True, source: bool = False) -> EventFrame:
    """A frame as a DataFrame with these columns would give it; there is no DataFrame behind it."""
    fields = [("type", pa.string()), ("start", pa.int64())]
    fields += [("end", pa.int64())] if intervals else []
    fields += [("eid", eid)] if eid is not None else []
    fields += [("source", pa.string())] if source else []
    rows = pa.schema([*fields, *ATTRIBUTES.items()])
    columns = Columns(time="start", source="source" if source else None).resolve(rows.names)
    context = SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=2))
    df: Any = SimpleNamespace(isStreaming=True, sparkSession=context)
    return EventFrame(columns, rows, infer_schema(rows, columns), df)


@dataclass
class Asked:
    """Queries made ready for a frame: their plans, their job, and the columns that travel."""

    queries: tuple[Query, ...]
    frame: EventFrame
    plans: tuple[Plan, ...]
    job: Job
    names: list[str]
    buckets: int

    def __post_init__(self) -> None:
        self.rules = unfiltered_rules(self.frame, self.job)

    @property
    def rows(self) -> pa.Schema:
        """What arrives at a packer."""
        many = len(self.job.shards) > 1 or goes_to_many(self.job.shards[0])
        own = sorted({name for each in self.job.shards for name in own_columns(each.group).values()})
        fields = [self.frame.rows.field(name) for name in self.names]
        fields += [pa.field(COPY, pa.int32())] if many else []
        fields += [pa.field(ITEM, pa.int32())] if self.frame.announces else []
        return pa.schema([*fields, (SHARD, pa.int32()), *((name, pa.bool_()) for name in own)])

    def routed(self, rows: Sequence[Row]) -> list[Row]:
        """Each row once for every shard that needs it; once without a shard if none does."""
        schema = self.frame.rows.append(pa.field(PLACE, pa.int64())).append(pa.field(ITEM, pa.int32()))
        placed = [{**row, PLACE: at} for at, row in enumerate(rows) if row.get(ITEM) != RowItem.PROMISE]
        sent = self.rules.routed(pa.RecordBatch.from_pylist(placed, schema=schema), self.job).to_pylist()
        somewhere = {row[PLACE] for row in sent}
        sent += [{**row, SHARD: None, PLACE: at} for at, row in enumerate(rows) if at not in somewhere]
        return sorted(sent, key=lambda row: int(row[PLACE]))

    def restarted(self) -> Asked:
        """The same from a driver that began anew."""
        return ask(self.queries, self.frame, buckets=self.buckets)


def ask(
    queries: Sequence[Query], frame: EventFrame, *, buckets: int = 1, schema: Schema | None = None, jit: bool = False
) -> Asked:
    frame = frame if schema is None else replace(frame, schema=replace(schema, intervals=frame.schema.intervals))
    plans = plans_of(tuple(queries), frame.schema)
    shown = frozenset(at for at, plan in enumerate(plans) if not plan.hidden)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*has no key.*")
        job, keep = plan_job(frame, plans, shown, buckets=buckets, jit=jit, keep_bad=False)
    columns = frame.columns
    roles = (columns.type, columns.time, columns.end, columns.eid, columns.source)
    names = [name for name in frame.rows.names if keep is None or name in keep or name in roles]
    return Asked(tuple(queries), frame, plans, job, names, buckets)


def with_strategy(asked: Asked, strategy: Strategy, limit: int | None = None) -> Asked:
    """The same with a strategy, also when the driver begins anew."""
    again = asked.restarted
    asked.job = replace(asked.job, strategy=strategy, memory_limit=limit)
    asked.restarted = lambda: with_strategy(again(), strategy, limit)  # type: ignore[method-assign]
    return asked


# --- the store and the stream --------------------------------------------------------------------------------------


@dataclass
class Memory:
    """The state of one shard."""

    head: bytes | None = None
    blocks: dict[int, bytes] = field(default_factory=dict)

    def copy(self) -> Memory:
        return Memory(self.head, dict(self.blocks))

    def read_head(self) -> bytes | None:
        return self.head

    def write_head(self, data: bytes) -> None:
        self.head = data

    def read(self, number: int) -> bytes | None:
        return self.blocks.get(number)

    def write(self, number: int, data: bytes) -> None:
        self.blocks[number] = data

    def remove(self, number: int) -> None:
        del self.blocks[number]


@dataclass
class Answers:
    """What a stream has said."""

    matches: list[Row] = field(default_factory=list)
    late: list[Row] = field(default_factory=list)
    bad: list[Row] = field(default_factory=list)
    metrics: list[Row] = field(default_factory=list)
    unended: list[Row] = field(default_factory=list)

    def add(self, batch: pa.RecordBatch) -> None:
        for row in batch.to_pylist():
            if row["details"] is None:  # a row with bindings
                self.matches.append(row)
            else:
                getattr(self, row["kind"]).append(json.loads(row["details"]))


class Stream:
    """All shards of a job, batch by batch. With `calm` nothing goes wrong."""

    def __init__(self, asked: Asked, order: Slack, random: Random, *, calm: bool = False) -> None:
        self.asked, self.order, self.random, self.calm = asked, order, random, calm
        self.stores: dict[int, Memory] = {}
        self.workers: list[OrderedDict[Any, Any]] = [OrderedDict(), OrderedDict()]
        self.answers = Answers()

    def batch(self, rows: Sequence[Row]) -> None:
        """One micro-batch: rows are divided among tasks, packed, and brought to every shard."""
        if not rows:
            return
        random = self.random
        tasks: list[list[Row]] = [[] for _ in range(random.randint(1, 3))]
        for row in rows:
            random.choice(tasks).append(row)
        sent = [packed for task in tasks for packed in self._packed(task)]
        random.shuffle(sent)
        for number in self._shuffled(range(self.asked.job.count)):
            mine = [row for row in sent if row["shard"] == number]
            notes = [Note.read(row["note"]) for row in mine if row["note"] is not None]
            tables = [as_table(row["block"]) for row in mine if row["block"] is not None]
            self._run(number, lambda shard, n=notes, t=tables: shard.batch(n, t))

    def quiet(self, passed: int) -> None:
        """A micro-batch without events, in which a clock says that all events that end before a time have arrived."""
        notes = [Note()] if self.random.random() < 0.5 else []  # of a task that had nothing to read
        for number in self._shuffled(range(self.asked.job.count)):
            self._run(number, lambda shard: shard.batch(notes, [], passed))

    def close(self) -> None:
        for number in self._shuffled(range(self.asked.job.count)):
            self._run(number, lambda shard: shard.close())

    def restart(self) -> None:
        """The driver begins anew: another job with the same queries, and workers without memory."""
        self.asked = self.asked.restarted()
        self.workers = [OrderedDict(), OrderedDict()]

    def _packed(self, rows: list[Row]) -> Iterator[Row]:
        routed = self.asked.routed(rows) if rows else []
        batches = []
        while routed:
            size = self.random.randint(1, len(routed))
            batches.append(pa.RecordBatch.from_pylist(routed[:size], schema=self.asked.rows))
            routed = routed[size:]
        for batch in Packer(self.asked.job).run(batches):
            yield from batch.to_pylist()

    def _shuffled(self, numbers: Sequence[int]) -> list[int]:
        return self.random.sample(list(numbers), len(numbers))

    def _run(self, number: int, work: Any) -> None:
        store = self.stores.setdefault(number, Memory())
        if not self.calm:
            self._accidents()
            if self.random.random() < 0.2:
                self._failed_attempt(number, store.copy(), work)
        for answer in work(self._shard(number, store)):
            self.answers.add(answer)

    def _shard(self, number: int, store: Memory) -> Shard:
        module._alive = self.workers[0 if self.calm else self.random.randrange(2)]
        return Shard(self.asked.job, number, self.order, store)

    def _accidents(self) -> None:
        chance = self.random.random()
        if chance < 0.15:
            self.random.choice(self.workers).clear()
        elif chance < 0.2:
            self.restart()

    def _failed_attempt(self, number: int, store: Memory, work: Any) -> None:
        """An attempt that ends somewhere, or at the very end; its store is thrown away."""
        answers = work(self._shard(number, store))
        for _ in range(self.random.randint(0, 4)):
            next(answers, None)
        answers.close()
        if self.random.random() < 0.5:
            for _ in work(self._shard(number, store.copy() if self.random.random() < 0.5 else store)):
                pass


# --- events ----------------------------------------------------------------------------------------------------------


def row_of(event: Event, frame: EventFrame) -> Row:
    row: Row = {"type": event.type, "start": event.start, "end": event.end, "eid": event.eid, "source": event.source}
    return {name: value for name, value in {**row, **event.attrs}.items() if name in frame.rows.names}


def nameless(events: Sequence[Event], frame: EventFrame) -> list[Event]:
    """The events with numbers for eids that are ordered like the names which rows without eids get."""
    if not events:
        return []
    rows = pa.RecordBatch.from_pylist(
        [{**row_of(event, frame), "end": event.end} for event in events],
        schema=pa.schema([("type", pa.string()), ("start", pa.int64()), ("end", pa.int64()), *ATTRIBUTES.items()]),
    )
    hashes = content_hash(rows).view("int64")
    pairs = zip(hashes.tolist(), occurrences(hashes).tolist(), strict=True)
    return [replace(event, eid=high * 1000 + low) for event, (high, low) in zip(events, pairs, strict=True)]


def name_of(eid: Any) -> str:
    """The text that stands for such a number."""
    return auto_eid(eid // 1000, eid % 1000)


def arranged(events: Sequence[Event], late: int, random: Random) -> list[Event]:
    """An order of arrival in which no event comes more than `late` ticks behind another that ends later."""
    return sorted(events, key=lambda event: event.end + random.randint(0, late))


def cuts(events: Sequence[Any], random: Random) -> list[list[Any]]:
    """Micro-batches."""
    found = []
    rest = list(events)
    most = random.choice((1, 3, 6, len(rest) or 1))
    while rest:
        size = random.randint(1, most)
        found.append(rest[:size])
        rest = rest[size:]
    return found


def stretch(random: Random, asked: Query, pieces: int) -> list[Event]:
    """Several histories after one another, with overlaps and with gaps."""
    events: list[Event] = []
    base = 0
    for _ in range(pieces):
        piece = history(random, asked, most=8)
        events += [replace(event, start=event.start + base, end=event.end + base) for event in piece]
        base = max(0, max((event.end for event in events), default=0) + random.choice((-3, -1, 0, 1, 4)))
    eids = random.sample(range(1000), len(events))
    return [replace(event, eid=eid) for event, eid in zip(events, eids, strict=True)]


def numbered(events: Sequence[Event]) -> list[Event]:
    return [replace(event, eid=f"e{number}") for number, event in enumerate(events)]


def chain_history(queries: Sequence[Query], random: Random) -> list[Event]:
    """Events for queries that feed each other: a stretch for the first, and one for all that may come behind it."""
    drawn_for = [replace(queries[0], name=None), parse("EVENT SEQ(A a, B b, C c, D d)")]
    events = [event for each in drawn_for for event in stretch(random, each, random.choice((2, 3)))]
    random.shuffle(events)
    return numbered(events)


CHAINS = [
    """
    QUERY P EVENT SEQ(A a, B b) WHERE [id] WITHIN 3 SELECT a.id AS id, b.v AS n;
    QUERY R EVENT SEQ(P p, !C c, P q) WHERE [id] WITHIN 6
    """,
    """
    QUERY P EVENT SEQ(A a, B b) WHERE [id] WITHIN 3;
    QUERY R EVENT SEQ(P p, C c) WITHIN 6
    """,
    """
    QUERY P EVENT SEQ(A a, !B b) WHERE [id] WITHIN 2 SELECT a.id AS id;
    QUERY R EVENT SEQ(C c, P p, !D d) WHERE [id] WITHIN 4
    """,
    """
    QUERY P EVENT SEQ(A a, C c) WHERE [id] WITHIN 4 SELECT a.id AS key;
    QUERY Q EVENT SEQ(P p, P q) WHERE p.key = q.key WITHIN 7 SELECT p.key AS key;
    QUERY R EVENT SEQ(!E e, Q q) WHERE e.id = q.key WITHIN 8
    """,
    """
    QUERY P EVENT SEQ(A a, A b) WHERE a.id = b.x WITHIN 3 SELECT a.id AS id;
    QUERY R EVENT AND(P p, C c) WHERE [id] WITHIN 5
    """,
    """
    QUERY P EVENT SEQ(A a, B b) WHERE [id] WITHIN 3 SELECT a.id AS id;
    QUERY R EVENT AND(P p, C c) WHERE [id] WITHIN 5;
    QUERY S EVENT SEQ(D a, !E b) WHERE [s] WITHIN 4
    """,
    """
    QUERY P EVENT SEQ(A a, B b) WHERE [id] WITHIN 3 SELECT a.id AS id;
    QUERY R EVENT AND(P p, C c) WHERE [id] WITHIN 5;
    QUERY S EVENT AND(P p, D d) WHERE [id] WITHIN 4
    """,
    """
    QUERY P EVENT SEQ(A a, B b) WHERE [id] SELECT a.id AS id;
    QUERY R EVENT SEQ(P p, !C c, D d) WHERE [id] WITHIN 5
    """,
]


# --- judging ---------------------------------------------------------------------------------------------------------


def expected(asked: Asked, events: Sequence[Event]) -> dict[str, dict[Binding, Match]]:
    """What the oracle finds for each query that answers, by its name."""
    answers = matches_of_all(asked.queries, events)
    names = {number: query.name if query.name is not None else number for number, query in enumerate(asked.queries)}
    shown = {number: answers[names[number]] for number in asked.job.shown}
    return {asked.plans[at].title: {match.binding: match for match in found} for at, found in shown.items()}


def known_bindings(asked: Asked, events: Sequence[Event]) -> dict[str, tuple[str, Binding]]:
    """The bindings behind match ids: those that the embedded engine finds, with the query of each."""
    frame = asked.frame
    listed = sorted(events, key=lambda event: event.end)
    graph = QueryGraph(asked.plans, frame.schema, frame.columns, jit=False)
    rows = pa.RecordBatch.from_pylist([row_of(event, frame) for event in listed], schema=frame.rows)
    said = [graph.push(graph.encode(rows))] if listed else []
    said.append(graph.push(end()))
    names = eids_of(asked, events)
    found: dict[str, tuple[str, Binding]] = {}
    for stage, plan in enumerate(asked.plans):
        for changes in (batch for step in said for batch in step if batch.stage == stage):
            for key, (_, binding) in zip(changes.match_id.to_pylist(), changes.bindings(), strict=True):
                spelled = tuple((var, tuple(names[str(eid)] for eid in eids)) for var, eids in binding)
                found[key] = plan.title, spelled
                if plan.name is not None:
                    names[key] = composite(plan.name, Match(spelled, 0, 0)).eid
    return found


def eids_of(asked: Asked, events: Sequence[Event]) -> dict[str, Eid]:
    """The eids of events by what is shown of them; beside matches, which are events too, numbers are shown as texts."""
    unnamed = asked.frame.columns.eid is None
    return {name_of(event.eid) if unnamed else str(event.eid): event.eid for event in events}


def disagreement(asked: Asked, events: Sequence[Event], answers: Answers) -> str | None:
    """How the settled matches differ from the oracle's; None if they are the same."""
    wanted = expected(asked, events)
    known = known_bindings(asked, events)
    found: dict[str, Counter[Binding]] = {name: Counter() for name in wanted}
    for row in answers.matches:
        if row["op"] != 1:
            return f"a settled match has op {row['op']}"
        if row["match_id"] not in known:
            return f"{row['match_id']} is no match of the embedded engine: {row}"
        name, binding = known[row["match_id"]]
        if name != row["query"]:
            return f"a match of {name!r} is called one of {row['query']!r}"
        found[name][binding] += 1
        if binding in wanted[name] and (problem := _shown_wrongly(asked, row, wanted[name][binding])):
            return problem
    for name, once in wanted.items():
        if (bindings := Counter(once.keys())) != found[name]:
            return f"{name!r}: missing {bindings - found[name]}, not expected {found[name] - bindings}"
    return None


def _shown_wrongly(asked: Asked, row: Row, match: Match) -> str | None:
    """Whether a row shows another span, other SELECT columns or other events than the match has."""
    plan = next(plan for plan in asked.plans if plan.title == row["query"])
    columns = {output.name: row[output.name] for output in plan.outputs}
    if problem := difference(match, (row["start"], row["end"], columns)):
        return problem
    if plan.outputs or any(name in plan_types(plan) for name in (each.name for each in asked.plans)):
        return None
    shown = [(var.name, row[var.name]) for var in plan.variables if not var.hidden and row[var.name] not in (None, [])]
    eids = [(name, [each["eid"] for each in (value if isinstance(value, list) else [value])]) for name, value in shown]
    unnamed = asked.frame.columns.eid is None
    mine = [(name, [name_of(eid) if unnamed else eid for eid in each]) for name, each in match.binding]
    return None if eids == mine else f"{match.binding} is shown as {eids}"
