"""A shard of a stream: a log of the events that still matter, and detectors that can be rebuilt from it at any time.

A shard stores events, not the inside of a detector. Each micro-batch appends the rows that it accepted as one block;
blocks that no query can need any more are removed. A worker keeps the detectors of a shard in memory between batches.
If another worker had the shard in the meantime, it replays the blocks that it has not seen, or all of them.

Statements may need any event again, so blocks of theirs would stay for ever: from time to time their state is stored,
and only the blocks behind it are replayed. That happens when these blocks have become as large as the state, so what is
written grows with the events that came, however much is remembered.
"""

from __future__ import annotations

import json
import uuid
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from itertools import chain
from typing import Protocol

import numpy as np
import pyarrow as pa

from tocsin.codec import as_record, damaged, decode, encode, reading, stamp
from tocsin.encode.batch import one_batch
from tocsin.engine.tables import instants
from tocsin.errors import StateError
from tocsin.events import BEGINNING, END_OF_TIME
from tocsin.shards.announced import ITEM, RowItem, are, learn, until_when
from tocsin.shards.blocks import COPY, Note, as_bytes, as_table, coded, described, uncoded
from tocsin.shards.identity import Known, admit, check_layout
from tocsin.shards.job import Job
from tocsin.shards.live import Live
from tocsin.shards.memories import memories, remembered
from tocsin.shards.timed_rows import TimedRows
from tocsin.shards.watermark import Slack

TAIL = 8  # the newest blocks stay as they are, so that a worker that missed a few batches can catch up
MERGED = 16  # so many older blocks of one size become one
LOGGED = 1 << 16  # bytes of blocks behind a stored state that are fewer than are worth storing another one
KIND, BLOCK = "shard", "a block of the stored state"
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
    memories: list[bytes] = field(default_factory=list)  # what operators know beyond the events, or their whole state
    changed: bool = False  # the stored events were kept for queries that have been changed since, and not yet looked at
    decided: list[str] = field(default_factory=list)  # answers that were decided before queries changed, by name
    decided_until: int = BEGINNING  # ... and when nobody asks about them any more
    begun: dict[str, int] = field(default_factory=dict)  # until when all begins are there, by type and source
    copies: list[str] = field(default_factory=list)  # of open begins those that another shard reports
    timed_ids: bool = False  # match ids cover the times of events; a checkpoint of 0.2 keeps those that do not
    state: list[StoredBlock] = field(default_factory=list)  # the state of each graph, under numbers below zero
    state_next: int = 0  # the first block that this state has not seen
    state_guarantee: int = BEGINNING  # ... and how far it had seen the others

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
            remembered = [stored.blobs[str(at)] for at in range(stored.words["memories"])]
            return as_record(Head, {**stored.words, "memories": remembered})


_alive: OrderedDict[tuple[str, str, int], Live] = OrderedDict()


# --- one micro-batch -----------------------------------------------------------------------------------------------


class Shard:
    """A shard during one micro-batch: reads its state, takes rows, answers, and writes its state."""

    def __init__(self, job: Job, number: int, order: Slack, store: ShardStore) -> None:
        self.job, self.number, self.order, self.store = job, number, order, store
        self.shards = job.of_shard(number)
        data = store.read_head()
        self.head = Head(uuid.uuid4().hex, timed_ids=True) if data is None else Head.read(data)
        self._copied = set(self.head.copies)  # eids of events that another shard reports
        self._owed: list[pa.RecordBatch] = []  # answers of the time before queries were changed
        self._admit()

    def batch(
        self, notes: Iterable[Note], tables: Iterable[pa.Table], passed: int = BEGINNING
    ) -> Iterator[pa.RecordBatch]:
        """Take the rows of a micro-batch and give its answers; late rows and metrics are rows of their own kind.

        `passed` is what a clock says: every event that ends before it has arrived. It counts only in a batch in which
        nothing came: what is behind the clock in a backlog is not late. Before the first event nothing can wait.
        """
        head = self.head
        if head.closed:
            raise StateError("the stream was closed and now goes on", hint="start with a new checkpoint")
        live = self._revived()
        owed = self._owed
        before, events, keyless, bad = head.guarantee, 0, 0, []
        for note in notes:
            events += note.events
            keyless += note.keyless
            bad += note.bad
            for source, clock in note.clocks.items():
                head.clocks[source] = max(head.clocks.get(source, clock), clock)
            learn(head.begun, note.begun)
        quiet = not events and not bad and bool(head.clocks)
        head.guarantee = max(before, self.order.guarantee(head.clocks), passed if quiet else BEGINNING)
        rows, late = self._accepted(list(tables), before)
        answers = live.take(self._append(rows), head.guarantee, head.clock, self._begun())
        found = 0
        for answer in chain(owed, answers):
            found += answer.num_rows
            yield answer
        late += self._set_aside(live)
        bad += self._bad_begins(live)
        unended = self._unended(live)
        self._commit(live)
        yield from self.job.reports("late", late)
        yield from self.job.reports("unended", unended)
        yield from self.job.reports("bad", bad)
        yield from self._metrics(live, events, keyless, len(late), len(bad), found)

    def close(self) -> Iterator[pa.RecordBatch]:
        """End the stream: settle every answer and remove the log."""
        live = self._revived()
        self.head.guarantee, self.head.closed = END_OF_TIME, True
        found = 0
        for answer in chain(self._owed, live.take([], END_OF_TIME, self.head.clock)):
            found += answer.num_rows
            yield answer
        self._remove([*self.head.blocks, *self.head.state])
        self.head.blocks, self.head.state = [], []
        unended = self._unended(live)
        # These detectors have seen the end, and their version would not tell: should this attempt be lost, the next one
        # must not find them.
        self.store.write_head(self.head.data())
        yield from self.job.reports("unended", unended)
        yield from self._metrics(live, 0, 0, 0, 0, found)

    def seed(self, note: Note, guarantee: int, tables: list[pa.Table]) -> None:
        """Start with the events and clocks of another checkpoint, whose answers were given there."""
        head = self.head
        head.clocks, head.guarantee = dict(note.clocks), guarantee
        rows, _ = self._accepted(tables, BEGINNING)
        self._append(rows, whole=True)  # also what only the queries before could still need
        for name, known in head.units.items():
            known.since = 0 if name in self.job.before else head.next
        changed = [unit for unit in self.shards.group.units if unit.name in self.job.before]
        old = {print for unit in self.job.units_before(changed) for print in unit.fingerprints}
        head.changed = any(not old.issuperset(unit.fingerprints) for unit in changed)
        self.store.write_head(head.data())

    # --- queries and their state ---

    def _admit(self) -> None:
        """Refuse a state of other queries, order or layout; queries that were added begin with the next block."""
        head, units = self.head, self.shards.group.units
        strategy = self.job.strategy
        words = ["" if strategy.sorts else str(strategy), *map(repr, self.job.around)]
        order = " around ".join(words) + (" with begins" if any(unit.announced for unit in units) else "")
        if head.next and head.order != order:
            raise StateError(
                f"the checkpoint was written with order {head.order or 'slack'!r}, not with {order or 'slack'!r}",
                detail="what was answered already would be repeated or lost",
                hint="keep the order, or start with a new checkpoint",
            )
        head.order = order
        here = {unit.name: self.job.known_unit(unit, head.next) for unit in units}
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
        goes_on = live is not None and missed is not None
        if live is None or missed is None:
            since = {name: known.since for name, known in head.units.items()}
            live, missed = Live(self.job, self.shards, since, timed_ids=head.timed_ids), head.blocks
        blocks = [(block.number, self._rows(block)) for block in missed if block.size]
        if head.changed:
            self._take_over(live, blocks)
            return live
        if self.shards.group.keeps_state:
            self._resume(live, blocks, goes_on=goes_on)
            return live
        with remembered(live.graphs, head.memories):
            live.replay(blocks, head.guarantee, head.clock)
        live.forget(head.decided)
        return live

    def _resume(self, live: Live, blocks: list[tuple[int, TimedRows]], *, goes_on: bool) -> None:
        """Go on from a stored state; `goes_on`: these detectors have seen it, and only the blocks are new."""
        head = self.head
        if head.memories:  # stored whole, with each batch
            live.resume(head.memories, blocks, head.guarantee)
            return
        if head.state and not goes_on:
            before = [(number, rows) for number, rows in blocks if number < head.state_next]
            live.resume([self._bytes(each) for each in head.state], before, head.state_guarantee)
            blocks = [(number, rows) for number, rows in blocks if number >= head.state_next]
        live.replay(blocks, head.guarantee, head.clock)

    @property
    def _logs(self) -> bool:
        """Whether the state of the queries is that of an older batch and of the blocks behind it."""
        return self.shards.group.keeps_state and not any(unit.announced for unit in self.shards.group.units)

    def _store_state(self, live: Live) -> None:
        """Store the state of the queries, if the blocks behind that which is stored have become as large as it."""
        head = self.head
        behind = sum(block.size for block in head.blocks if block.number >= head.state_next)
        if not head.memories and behind <= max(LOGGED, sum(each.size for each in head.state)):
            return
        self._remove(head.state)
        head.state, head.memories = [], []
        for at, data in enumerate(live.states):
            head.state.append(StoredBlock(-1 - at, BEGINNING, head.token, 0, len(data), stamp(data)))
            self.store.write(-1 - at, data)
        head.state_next, head.state_guarantee = head.next, head.guarantee

    def _take_over(self, live: Live, blocks: list[tuple[int, TimedRows]]) -> None:
        """Let changed queries go on with what was stored for those before them."""
        head, reach = self.head, self.shards.group.reach
        self._owed, head.decided = live.take_over(blocks, head.guarantee, head.clock)
        newest = max(head.guarantee, head.clock)  # answers may wait whose events are newer than what is guaranteed
        head.changed, head.decided_until = False, END_OF_TIME if reach is None else newest + reach

    def _missed(self, live: Live) -> list[StoredBlock] | None:
        """Return the blocks that these detectors have not seen; None if they must replay the whole log instead."""
        blocks = self.head.blocks
        last = (live.next - 1, live.token)
        seen = next((at for at, block in enumerate(blocks) if (block.number, block.token) == last), None)
        missed = None if seen is None else blocks[seen + 1 :]
        return None if missed is None or self.head.memories or any(block.cut for block in missed) else missed

    def _commit(self, live: Live) -> None:
        if self._logs:
            self._store_state(live)
        else:
            self.head.memories = live.states if self.shards.group.keeps_state else memories(live.graphs)
        self._forget()
        if self.head.guarantee > self.head.decided_until:
            self.head.decided = []
        self.store.write_head(self.head.data())
        live.next, live.token = self.head.next, self.head.token
        shard = (self.head.stream, self.number)
        for key in [key for key in _alive if key[1:] == shard]:  # of a job before this one
            del _alive[key]
        _alive[self.job.token, *shard] = live
        while len(_alive) > KEPT_ALIVE:
            _alive.popitem(last=False)

    # --- rows ---

    def _accepted(self, tables: list[pa.Table], guarantee: int) -> tuple[TimedRows | None, list[str]]:
        """Split rows into accepted and late ones, judged by the guarantee before this batch.

        Within a micro-batch nobody knows which row came first, so rows cannot be judged by the clock at their arrival.
        """
        if not tables:
            return None, []
        known = [self._coded(table) for table in tables]
        rows = one_batch(pa.concat_tables(known, promote_options="default"))
        copies = rows.column(COPY) if COPY in rows.schema.names else None
        plain = TimedRows.of(rows if copies is None else rows.drop_columns([COPY]), self.job)
        first = None if copies is None else copies.to_numpy(zero_copy_only=False) == 0
        if first is not None and ITEM in rows.schema.names and self.job.columns.eid is not None:
            self._copied |= set(map(str, plain.rows.column(self.job.columns.eid).filter(pa.array(~first)).to_pylist()))
        late = plain.ends < guarantee
        if not late.any():
            return plain, []
        begins = are(plain.rows, RowItem.BEGIN) if ITEM in rows.schema.names else np.zeros(len(late), np.bool_)
        places = np.flatnonzero(late if first is None else late & first).tolist()
        told = [described(plain.rows, at, "the begin came too late" if begins[at] else None) for at in places]
        return plain.only(~late), told

    def _append(self, rows: TimedRows | None, *, whole: bool = False) -> list[tuple[int, TimedRows]]:
        """Append the rows to the log as a new block; a batch without rows is a block too, since guarantees moved."""
        head = self.head
        head.token = uuid.uuid4().hex[:16]
        number, head.next = head.next, head.next + 1
        if rows is None or not len(rows):
            head.blocks.append(StoredBlock(number, BEGINNING, head.token))
            return []
        lasting = rows if whole else self._lasting(rows)
        data, last = b"", BEGINNING
        if len(lasting):
            data = as_bytes(uncoded(pa.Table.from_batches([lasting.rows]), self.job.columns.type), stored=True)
            last = int(lasting.ends.max())
            self.store.write(number, data)
        cut = len(lasting) < len(rows)
        head.blocks.append(StoredBlock(number, last, head.token, 0, len(data), stamp(data), cut))
        return [(number, rows)]

    def _lasting(self, rows: TimedRows) -> TimedRows:
        """Return the rows that a query can still need after this batch; only those are stored."""
        reach = None if self._logs else self.shards.group.reach
        return rows if reach is None else rows.only(rows.ends >= self.head.guarantee - reach - 1)

    def _rows(self, block: StoredBlock) -> TimedRows:
        with reading(BLOCK):
            return TimedRows.of(self._coded(self._stored(block)), self.job)

    def _coded(self, rows: pa.Table) -> pa.Table:
        """Return rows with dictionary-coded types; with texts, where matches of other queries are read beside them."""
        chained = any(len(unit.plans) > 1 for unit in self.shards.group.units)
        return (uncoded if chained else coded)(rows, self.job.columns.type)

    def _stored(self, block: StoredBlock) -> pa.Table:
        """Read the stored rows of a block."""
        return as_table(self._bytes(block))

    def _bytes(self, block: StoredBlock) -> bytes:
        """Read what was stored as a block; refuse bytes that are not exactly those that were written."""
        data = self.store.read(block.number)
        if data is None or (len(data), stamp(data)) != (block.size, block.check):
            raise damaged(BLOCK, "it is missing, or not the one that was written last")
        return data

    def _forget(self) -> None:
        """Remove blocks that no query can need, and merge small old ones."""
        head = self.head
        reach = self.shards.group.reach
        if reach is not None:
            seen, limit = head.next, head.guarantee - reach - 1
            if self._logs:
                seen, limit = head.state_next, head.state_guarantee - 1
            old = [b for b in head.blocks[:-TAIL] if b.number < seen and b.last < limit]
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
        with reading(BLOCK):
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

    # --- begins ---

    def _begun(self) -> dict[str | None, int]:
        """Until when all begins of a type are there, by what all sources that count have promised."""
        head = self.head
        silent = self.order.silent(head.clocks)
        return until_when(head.begun, [each for each in {*head.clocks, *self.order.sources} if each not in silent])

    def _set_aside(self, live: Live) -> list[str]:
        """Describe the events that came too late by what was promised of begins, or that lasted too long."""
        eid = self.job.columns.eid
        told: dict[str, None] = {}
        for rows, at in live.late:
            if eid is None or str(rows.column(eid)[at].as_py()) not in self._copied:
                told[described(rows, at)] = None
        return list(told)

    def _bad_begins(self, live: Live) -> list[str]:
        """Describe the begins that cannot be, since their eids are those of other intervals."""
        eid, told = str(self.job.columns.eid), dict[str, None]()
        for rows, why in live.bad:
            if str(rows.column(eid)[0].as_py()) not in self._copied:
                told[described(rows, 0, why)] = None
        return list(told)

    def _unended(self, live: Live) -> list[str]:
        """Describe the intervals that were announced and never end; remember which of the others are copies."""
        time, told = self.job.time, dict[str, None]()
        for each in live.unended:
            if str(each.eid) not in self._copied:
                [start] = instants([each.start], time)
                row = {"eid": each.eid, "type": each.type, "start": start}
                told[json.dumps(row, default=str, ensure_ascii=False)] = None
        self.head.copies = sorted(self._copied.intersection(live.open_begins())) if self._copied else []
        return list(told)

    # --- what is said besides matches ---

    def _metrics(
        self, live: Live, events: int, keyless: int, late: int, bad: int, found: int
    ) -> Iterator[pa.RecordBatch]:
        head = self.head
        state = sum(block.size for block in (*head.blocks, *head.state))
        told = {
            "shard": self.number, "queries": [unit.name for unit in self.shards.group.units],
            "events": events if self.number == 0 else 0, "keyless": keyless if self.number == 0 else 0,
            "late": late, "bad": bad, "held": live.waiting,
            "matches": found, "state_bytes": state, "blocks": len(head.blocks),
            "watermark": head.guarantee if BEGINNING < head.guarantee < END_OF_TIME else None,
            "idle": self.order.silent(head.clocks),
        }  # fmt: skip
        return self.job.reports("metrics", [json.dumps(told)])


def _mergeable(head: Head) -> tuple[int, int] | None:
    """Find a run of old blocks of one level that is long enough to merge; no unit and no state begins within it."""
    blocks = head.blocks[:-TAIL]
    starts = {head.state_next, *(known.since for known in head.units.values())}
    first = 0
    for at in range(1, len(blocks) + 1):
        ends = at == len(blocks) or blocks[at].level != blocks[first].level
        ends = ends or any(blocks[at - 1].number < s <= blocks[at].number for s in starts)
        if at - first >= MERGED:
            return first, at
        if ends:
            first = at
    return None
