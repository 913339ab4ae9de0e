"""A shard of a stream: a log of the events that still matter, and detectors that can be rebuilt from it at any time.

A shard stores events, never the inside of a detector. Each micro-batch appends the rows that it accepted as one block;
blocks that no query can need any more are removed. A worker keeps the detectors of a shard in memory between batches.
If another worker had the shard in the meantime, it replays the blocks that it has not seen, or all of them.
"""

from __future__ import annotations

import json
import uuid
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.codec import damaged, decode, encode, reading, stamp
from tocsin.encode.batch import one_batch
from tocsin.encode.times import ticks
from tocsin.errors import StateError
from tocsin.events import BEGINNING, END_OF_TIME
from tocsin.graph.query_graph import QueryGraph
from tocsin.items import Ints, Items, advanced, end, is_sorted, tick
from tocsin.shards.blocks import COPY, Note, as_bytes, as_table, coded, described, uncoded
from tocsin.shards.identity import Known, admit, check_layout
from tocsin.shards.job import Job, Shards
from tocsin.shards.memories import follow, memories, resume
from tocsin.shards.routes import Unit, reach_of
from tocsin.shards.watermark import Slack

TAIL = 8  # the newest blocks stay as they are, so that a worker that missed a few batches can catch up
MERGED = 16  # so many older blocks of one size become one
KIND = "shard"
KEPT_ALIVE = 64  # shards whose detectors a worker keeps in memory


class ShardStore(Protocol):
    """Where a shard stores its state: one head, and blocks by number."""

    def read_head(self) -> bytes | None: ...
    def write_head(self, data: bytes) -> None: ...
    def read(self, number: int) -> bytes | None: ...
    def write(self, number: int, data: bytes) -> None: ...
    def remove(self, number: int) -> None: ...


@dataclass(slots=True)
class StoredBlock:
    """A block of stored events: its number, its last end, the attempt that wrote it, and how often it was merged.

    `size` is that of its bytes and `check` their stamp; a block without bytes has no rows. A block that is `cut` lacks
    rows that no query could need any more as soon as their batch was over.
    """

    number: int
    last: int
    token: str
    level: int = 0
    size: int = 0
    check: str = ""
    cut: bool = False


@dataclass(slots=True)
class Head:
    """The state of a shard without its events: clocks, guarantee, queries, and the list of blocks."""

    stream: str
    next: int = 0
    token: str = ""
    guarantee: int = BEGINNING
    clocks: dict[str, int] = field(default_factory=dict)
    closed: bool = False
    units: dict[str, Known] = field(default_factory=dict)
    layout: list[int] = field(default_factory=list)
    blocks: list[StoredBlock] = field(default_factory=list)
    order: str = ""  # the strategy, where it is not to sort
    memories: list[bytes] = field(default_factory=list)  # what operators know beyond the events

    @property
    def clock(self) -> int:
        """Return the largest end that any source has sent."""
        return max(self.clocks.values(), default=BEGINNING)

    def data(self) -> bytes:
        words = asdict(self)
        words["memories"] = len(self.memories)
        return encode(KIND, words, blobs={str(at): memory for at, memory in enumerate(self.memories)})

    @staticmethod
    def read(data: bytes) -> Head:
        stored = decode(data, KIND, "the state of a shard")
        with reading("the state of a shard"):
            words = dict(stored.words)
            blocks = [StoredBlock(**each) for each in words.pop("blocks")]
            units = {name: Known(**each) for name, each in words.pop("units").items()}
            remembered = [stored.blobs[str(at)] for at in range(words.pop("memories"))]
            return Head(**words, blocks=blocks, units=units, memories=remembered)


# --- detectors in memory -------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Cohort:
    """The units that began with the same block, as one query graph; `held` rows wait for the guarantee."""

    since: int
    graph: QueryGraph
    numbers: list[int]
    held: list[pa.RecordBatch] = field(default_factory=list)

    def answers(self, job: Job, items: Items) -> Iterator[pa.RecordBatch]:
        """Push items and give the answers with the columns of the result."""
        yield from job.answers(self.numbers, self.graph.push(items))


def _passed(guarantee: int) -> Items:
    """Return the items that tell a graph of the guarantee, or of the end of the stream."""
    return end() if guarantee >= END_OF_TIME else advanced(guarantee - 1)


class Live:
    """The detectors of a shard in memory, up to date with all blocks before `next`."""

    def __init__(self, job: Job, shards: Shards, head: Head) -> None:
        self.job, self.next, self.token = job, 0, ""
        by_since: dict[int, list[Unit]] = {}
        for unit in shards.group.units:
            by_since.setdefault(head.units[unit.name].since, []).append(unit)
        self.cohorts = [Cohort(since, *job.graph(shards.group, units)) for since, units in sorted(by_since.items())]

    @property
    def graphs(self) -> list[QueryGraph]:
        return [cohort.graph for cohort in self.cohorts]

    def take(self, rows: Sequence[tuple[int, pa.Table]], guarantee: int, clock: int) -> Iterator[pa.RecordBatch]:
        """Push numbered blocks of rows. A strategy that sorts sees only rows before the guarantee, others see all."""
        if not self.job.strategy.sorts:
            yield from self._as_they_come(rows, guarantee, clock)
            return
        for cohort in self.cohorts:
            cohort.held += [one_batch(table) for number, table in rows if number >= cohort.since and table.num_rows]
            ripe, cohort.held = released(cohort.held, guarantee, self.job)
            if ripe is not None:
                yield from cohort.answers(self.job, cohort.graph.encode(ripe))
            if guarantee > BEGINNING:
                yield from cohort.answers(self.job, _passed(guarantee))

    def _as_they_come(
        self, rows: Sequence[tuple[int, pa.Table]], guarantee: int, clock: int
    ) -> Iterator[pa.RecordBatch]:
        """Push rows in order of arrival; without an arrival column, the rows of a batch are taken in order of time."""
        for cohort in self.cohorts:
            for number, table in rows:
                if number >= cohort.since and table.num_rows:
                    yield from cohort.answers(self.job, cohort.graph.encode(self._arranged(table)))
            yield from cohort.answers(self.job, tick(clock))
            if guarantee > BEGINNING:
                yield from cohort.answers(self.job, _passed(guarantee))

    def _arranged(self, table: pa.Table) -> pa.RecordBatch:
        """Return the rows of a block by arrival, or by time where no column tells the arrival."""
        rows, arrival = one_batch(table), self.job.arrival
        if arrival is not None and arrival in rows.schema.names:  # a block may be older than the wish
            return rows.take(pc.sort_indices(rows, sort_keys=[(arrival, "ascending")]))
        ends = ends_of(rows, self.job)
        return rows if is_sorted(ends) else rows.take(pa.array(np.argsort(ends, kind="stable")))

    @property
    def waiting(self) -> int:
        """Count the rows that wait for the guarantee, or the answers that are held."""
        if not self.job.strategy.sorts:
            return sum(cohort.graph.counters.waiting for cohort in self.cohorts)
        return max((sum(rows.num_rows for rows in cohort.held) for cohort in self.cohorts), default=0)


_alive: OrderedDict[tuple[str, str, int], Live] = OrderedDict()


def ends_of(rows: pa.RecordBatch, job: Job) -> Ints:
    return ticks(rows.column(job.columns.end or job.columns.time), "end")[0]


def released(held: list[pa.RecordBatch], until: int, job: Job) -> tuple[pa.RecordBatch | None, list[pa.RecordBatch]]:
    """Split held rows into those that end before `until`, sorted by time (None: none), and those that stay held."""
    if not held:
        return None, held
    rows = _together(held)
    ends = ends_of(rows, job)
    if is_sorted(ends):  # as files are mostly written
        count = int(np.searchsorted(ends, until))
        rest = [rows.take(pa.array(np.arange(count, rows.num_rows)))] if count < rows.num_rows else []  # a copy
        return rows.slice(0, count) if count else None, rest
    ripe = ends < until
    if not ripe.any():
        return None, [rows]
    rest = [] if ripe.all() else [rows.filter(pa.array(~ripe))]
    at = np.flatnonzero(ripe)
    return rows.take(pa.array(at[np.argsort(ends[at], kind="stable")])), rest


def _together(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    return one_batch(pa.concat_tables([pa.Table.from_batches([b]) for b in batches], promote_options="default"))


# --- one micro-batch -----------------------------------------------------------------------------------------------


class Shard:
    """A shard during one micro-batch: reads its state, takes rows, answers, and writes its state."""

    def __init__(self, job: Job, number: int, order: Slack, store: ShardStore) -> None:
        self.job, self.number, self.order, self.store = job, number, order, store
        self.shards = job.of_shard(number)
        data = store.read_head()
        self.head = Head(uuid.uuid4().hex) if data is None else Head.read(data)
        self._admit()

    def batch(self, notes: Iterable[Note], tables: Iterable[pa.Table]) -> Iterator[pa.RecordBatch]:
        """Take the rows of a micro-batch and give its answers; late rows and metrics are rows of their own kind."""
        head = self.head
        if head.closed:
            raise StateError("the stream was closed and now goes on", hint="start with a new checkpoint")
        live = self._revived()
        before, events, bad = head.guarantee, 0, []
        for note in notes:
            events += note.events
            bad += note.bad
            for source, clock in note.clocks.items():
                head.clocks[source] = max(head.clocks.get(source, clock), clock)
        head.guarantee = max(before, self.order.guarantee(head.clocks))
        rows, late = self._accepted(list(tables), before)
        answers = live.take(self._append(rows), head.guarantee, head.clock)
        found = 0
        for answer in answers:
            found += answer.num_rows
            yield answer
        self._commit(live)
        yield from self.job.reports("late", late)
        yield from self.job.reports("bad", bad)
        yield from self._metrics(live, events, len(late), len(bad), found)

    def close(self) -> Iterator[pa.RecordBatch]:
        """End the stream: settle every answer and remove the log."""
        live = self._revived()
        self.head.guarantee, self.head.closed = END_OF_TIME, True
        found = 0
        for answer in live.take([], END_OF_TIME, self.head.clock):
            found += answer.num_rows
            yield answer
        self._remove(self.head.blocks)
        self.head.blocks = []
        # These detectors have seen the end, and their version would not tell: should this attempt be lost, the next one
        # must not find them.
        self.store.write_head(self.head.data())
        yield from self._metrics(live, 0, 0, 0, found)

    def seed(self, note: Note, guarantee: int, tables: list[pa.Table]) -> None:
        """Start with the events and clocks of another checkpoint, whose answers were given there."""
        head = self.head
        head.clocks, head.guarantee = dict(note.clocks), guarantee
        rows, _ = self._accepted(tables, BEGINNING)
        self._append(rows)
        for known in head.units.values():
            known.since = 0
        self.store.write_head(head.data())

    # --- queries and their state ---

    def _admit(self) -> None:
        """Refuse a state of other queries, order or layout; queries that were added begin with the next block."""
        head, units = self.head, self.shards.group.units
        strategy = self.job.strategy
        order = " around ".join(["" if strategy.sorts else str(strategy), *map(repr, self.job.around)])
        if head.next and head.order != order:
            raise StateError(
                f"the checkpoint was written with order {head.order or 'slack'!r}, not with {order or 'slack'!r}",
                detail="what was answered already would be repeated or lost",
                hint="keep the order, or start with a new checkpoint",
            )
        head.order = order
        here = {unit.name: Known(unit.fingerprints, head.next, dict(self.job.columns_of[unit.name])) for unit in units}
        head.units = admit(head.units, here)
        if head.layout:
            check_layout(head.layout, self.job.layout, sources=self.job.columns.source is not None)
        head.layout = self.job.layout

    def _revived(self) -> Live:
        """Return detectors that have seen the whole log: those in memory if they can catch up, else new ones."""
        head = self.head
        key = (self.job.token, head.stream, self.number)
        live = _alive.pop(key, None)
        if live is not None and (live.next, live.token) == (head.next, head.token):
            return live
        missed = None if live is None else self._missed(live)
        if live is None or missed is None:
            live, missed = Live(self.job, self.shards, head), head.blocks
        follow(live.graphs, head.memories)
        rows = [(block.number, self._rows(block)) for block in missed if block.size]
        for _ in live.take(rows, head.guarantee, head.clock):
            pass  # these answers were given when the rows came
        resume(live.graphs, head.memories)
        return live

    def _missed(self, live: Live) -> list[StoredBlock] | None:
        """Return the blocks that these detectors have not seen; None if they must replay the whole log instead."""
        blocks = self.head.blocks
        last = (live.next - 1, live.token)
        seen = next((at for at, block in enumerate(blocks) if (block.number, block.token) == last), None)
        missed = None if seen is None else blocks[seen + 1 :]
        return None if missed is None or self.head.memories or any(block.cut for block in missed) else missed

    def _commit(self, live: Live) -> None:
        self._forget()
        self.head.memories = memories(live.graphs)
        self.store.write_head(self.head.data())
        live.next, live.token = self.head.next, self.head.token
        shard = (self.head.stream, self.number)
        for key in [key for key in _alive if key[1:] == shard]:  # of a job before this one
            del _alive[key]
        _alive[self.job.token, *shard] = live
        while len(_alive) > KEPT_ALIVE:
            _alive.popitem(last=False)

    # --- rows ---

    def _accepted(self, tables: list[pa.Table], guarantee: int) -> tuple[pa.Table | None, list[str]]:
        """Split rows into accepted and late ones, judged by the guarantee before this batch.

        Within a micro-batch nobody knows which row came first, so rows cannot be judged by the clock at their arrival.
        """
        if not tables:
            return None, []
        known = [self._coded(table) for table in tables]
        rows = one_batch(pa.concat_tables(known, promote_options="default"))
        late = ends_of(rows, self.job) < guarantee
        copies = rows.column(COPY) if COPY in rows.schema.names else None
        plain = rows if copies is None else rows.drop_columns([COPY])
        if not late.any():
            return pa.Table.from_batches([plain]), []
        first = late if copies is None else late & (copies.to_numpy(zero_copy_only=False) == 0)
        told = [described(plain, at) for at in np.flatnonzero(first).tolist()]
        return pa.Table.from_batches([plain.filter(pa.array(~late))]), told

    def _append(self, rows: pa.Table | None) -> list[tuple[int, pa.Table]]:
        """Append the rows to the log as a new block; a batch without rows is a block too, since guarantees moved."""
        head = self.head
        head.token = uuid.uuid4().hex[:16]
        number, head.next = head.next, head.next + 1
        if rows is None or not rows.num_rows:
            head.blocks.append(StoredBlock(number, BEGINNING, head.token))
            return []
        lasting = self._lasting(rows)
        data, last = b"", BEGINNING
        if lasting.num_rows:
            data = as_bytes(uncoded(lasting, self.job.columns.type), stored=True)
            last = int(ends_of(one_batch(lasting), self.job).max())
            self.store.write(number, data)
        cut = lasting.num_rows < rows.num_rows
        head.blocks.append(StoredBlock(number, last, head.token, 0, len(data), stamp(data), cut))
        return [(number, rows)]

    def _lasting(self, rows: pa.Table) -> pa.Table:
        """Return the rows that a query can still need after this batch; only those are stored."""
        reach = reach_of(self.shards.group.units)
        if reach is None:
            return rows
        needed = ends_of(one_batch(rows), self.job) >= self.head.guarantee - reach - 1
        return rows if needed.all() else rows.filter(pa.array(needed))

    def _rows(self, block: StoredBlock) -> pa.Table:
        return self._coded(self._stored(block))

    def _coded(self, rows: pa.Table) -> pa.Table:
        """Return rows with dictionary-coded types; with texts, where matches of other queries are read beside them."""
        chained = any(len(unit.plans) > 1 for unit in self.shards.group.units)
        return (uncoded if chained else coded)(rows, self.job.columns.type)

    def _stored(self, block: StoredBlock) -> pa.Table:
        """Read the stored rows of a block; refuse bytes that are not exactly those that were written."""
        data = self.store.read(block.number)
        if data is None or (len(data), stamp(data)) != (block.size, block.check):
            raise damaged("a block of the stored state", "it is missing, or not the one that was written last")
        return as_table(data)

    def _forget(self) -> None:
        """Remove blocks that no query can need, and merge small old ones."""
        head = self.head
        reach = reach_of(self.shards.group.units)
        if reach is not None:
            old = [b for b in head.blocks[:-TAIL] if b.last < head.guarantee - reach - 1]
            self._remove(old)
            gone = {block.number for block in old}
            head.blocks = [block for block in head.blocks if block.number not in gone]
        while (run := _mergeable(head)) is not None:
            self._merge(*run)

    def _merge(self, first: int, stop: int) -> None:
        head = self.head
        several = head.blocks[first:stop]
        tables = [self._stored(block) for block in several if block.size]
        last = several[-1]
        self._remove(several)
        rows = pa.concat_tables(tables, promote_options="default").combine_chunks() if tables else None
        data = b"" if rows is None else as_bytes(rows, stored=True)
        if data:
            self.store.write(last.number, data)
        end = max(block.last for block in several)
        level = several[0].level + 1
        cut = any(block.cut for block in several)
        head.blocks[first:stop] = [StoredBlock(last.number, end, last.token, level, len(data), stamp(data), cut)]

    def _remove(self, blocks: list[StoredBlock]) -> None:
        for block in blocks:
            if block.size:
                self.store.remove(block.number)

    # --- what is said besides matches ---

    def _metrics(self, live: Live, events: int, late: int, bad: int, found: int) -> Iterator[pa.RecordBatch]:
        head = self.head
        state = sum(block.size for block in head.blocks)
        told = {
            "shard": self.number, "queries": [unit.name for unit in self.shards.group.units],
            "events": events if self.number == 0 else 0, "late": late, "bad": bad, "held": live.waiting,
            "matches": found, "state_bytes": state, "blocks": len(head.blocks),
            "watermark": head.guarantee if BEGINNING < head.guarantee < END_OF_TIME else None,
            "idle": self.order.silent(head.clocks),
        }  # fmt: skip
        return self.job.reports("metrics", [json.dumps(told)])


def _mergeable(head: Head) -> tuple[int, int] | None:
    """Find a run of old blocks of one level that is long enough to merge and in which no unit begins."""
    blocks = head.blocks[:-TAIL]
    starts = {known.since for known in head.units.values()}
    first = 0
    for at in range(1, len(blocks) + 1):
        ends = at == len(blocks) or blocks[at].level != blocks[first].level
        ends = ends or any(blocks[at - 1].number < s <= blocks[at].number for s in starts)
        if at - first >= MERGED:
            return first, at
        if ends:
            first = at
    return None
