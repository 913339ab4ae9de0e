"""Blocks: the rows of one shard as bytes, with a note beside them; sent to a shard, and stored by it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.codec import CRC, UNCHECKED, decode, encode
from tocsin.encode.arrow import marks
from tocsin.encode.batch import HINTS, TimesAndEids, frame
from tocsin.encode.keyless import keyless_rows
from tocsin.errors import InputError
from tocsin.items import Bools, Ints
from tocsin.shards.announced import ITEM, Begun, RowItem, are, learn, problems_of, promised
from tocsin.shards.job import Job

SHARD, COPY = "__shard", "__copy"
KEYLESS = "__keyless"  # whether a query does not see the row, because it lacks an attribute of the key
LARGE = 1 << 26  # so many bytes of rows are sent on at once
KIND = "block"
PACKED = pa.schema([("shard", pa.int32()), ("note", pa.string()), ("block", pa.binary())])


def as_bytes(rows: pa.Table | pa.RecordBatch, *, stored: bool = False) -> bytes:
    """Rows as bytes, compressed; what is stored has the quicker digest, since there is a block for every batch."""
    return encode(KIND, {}, {"rows": rows}, compress=True, check=CRC if stored else UNCHECKED)


def coded(rows: pa.Table, name: str) -> pa.Table:
    """Return the table with its types dictionary-coded, as detectors read them."""
    place = rows.schema.get_field_index(name)
    if pa.types.is_dictionary(rows.schema.field(place).type):
        return rows
    return rows.set_column(place, name, rows.column(place).dictionary_encode())


def uncoded(rows: pa.Table, name: str) -> pa.Table:
    """Return the table with its types as texts, as it is stored."""
    place = rows.schema.get_field_index(name)
    if not pa.types.is_dictionary(rows.schema.field(place).type):
        return rows
    return rows.set_column(place, name, rows.column(place).cast(pa.string()))


def as_table(data: bytes) -> pa.Table:
    """The rows of a block; bytes that are not exactly those that were written are refused."""
    return decode(data, KIND, "a block of the stored state").tables["rows"]


def larger(batches: Iterable[pa.RecordBatch], rows: int = 1 << 16) -> Iterator[pa.RecordBatch]:
    """Join batches until each has at least `rows` rows, so that the cost of a batch is paid less often."""
    held: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        held.append(batch)
        count += batch.num_rows
        if count >= rows:
            yield pa.concat_batches(held) if len(held) > 1 else batch
            held, count = [], 0
    if held:
        yield pa.concat_batches(held)


@dataclass(slots=True)
class Note:
    """What a task tells every shard: the clock of each source, numbers of events, and unusable rows.

    `keyless` counts the events that a query does not see, because they lack an attribute of its key. `begun` says until
    when all begins are there.
    """

    clocks: dict[str, int] = field(default_factory=dict)
    events: int = 0
    bad: list[str] = field(default_factory=list)
    keyless: int = 0
    begun: Begun = field(default_factory=dict)

    def text(self) -> str:
        return json.dumps([self.clocks, self.events, self.bad, self.keyless, *([self.begun] if self.begun else [])])

    @staticmethod
    def read(text: str) -> Note:
        return Note(*json.loads(text))


class Packer:
    """Packs rows by shard: one packed row per shard, with a note that tells every shard every clock."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.note = Note()
        self.rows: dict[int, list[pa.RecordBatch]] = {}
        self.size = 0

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            self.take(batch)
            if self.size > LARGE:
                yield self._flush(last=False)
        yield self._flush(last=True)

    def take(self, batch: pa.RecordBatch) -> None:
        if ITEM in batch.schema.names:
            columns = self.job.columns
            batch, begun = promised(batch, columns.time, columns.type, columns.source)
            learn(self.note.begun, begun)
        rows = judged(batch, self.job)
        good = batch
        ends = rows.end
        if (bad := rows.bad()) is not None:
            first = int(bad.argmax())
            if not self.job.keep_bad:
                raise unusable_row(self.shown(batch, first), 0, rows.reason(first))
            again = _copies(batch)
            told = bad if again is None else bad & ~(again > 0)
            for at in np.flatnonzero(told).tolist():
                self.note.bad.append(described(self.shown(batch, at), 0, rows.reason(at)))
            keep = ~bad
            good, ends = batch.filter(pa.array(keep)), ends[keep]
        if not good.num_rows:
            return
        self._clocks(good, ends)
        good = self.routed(good)
        shards = good.column(SHARD).to_numpy(zero_copy_only=False)
        shards = np.where(np.isnan(shards), -1, shards).astype(np.int64) if shards.dtype.kind == "f" else shards
        own = [name for name in (SHARD, KEYLESS) if name in good.schema.names]
        self._split(good.drop_columns(own), shards)

    def routed(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows with their shard in a column; rows that Spark sends have it already."""
        return rows

    def shown(self, batch: pa.RecordBatch, at: int) -> pa.RecordBatch:
        """Return an unusable row in the form in which it is reported."""
        return batch.slice(at, 1)

    def _clocks(self, rows: pa.RecordBatch, ends: Ints) -> None:
        """Update the clock of each source, the largest end it has sent; rows that no query reads count too."""
        columns = self.job.columns
        if ITEM in rows.schema.names and not (happened := are(rows, RowItem.EVENT)).all():  # begins move no clock
            rows, ends = rows.filter(pa.array(happened)), ends[happened]
            if not rows.num_rows:
                return
        copies = _copies(rows)
        first = np.ones(rows.num_rows, np.bool_) if copies is None else ~(copies > 0)
        self.note.events += int(np.count_nonzero(first))
        if self.job.needs:
            self.note.keyless += int(np.count_nonzero(first & self._keyless(rows)))
        clocks = self.note.clocks
        if columns.source is None:
            clocks[""] = max(clocks.get("", int(ends[0])), int(ends.max()))
            return
        sources = rows.column(columns.source).cast(pa.string()).dictionary_encode()
        codes = sources.indices.fill_null(len(sources.dictionary)).to_numpy()
        for code in np.unique(codes).tolist():
            name = sources.dictionary[code].as_py() if code < len(sources.dictionary) else ""
            last = int(ends[codes == code].max())
            clocks[name] = max(clocks.get(name, last), last)

    def _keyless(self, rows: pa.RecordBatch) -> Bools:
        """Which rows lack a key; rows that Spark sends say so themselves, since not all of their values travel."""
        if KEYLESS in rows.schema.names:
            return marks(rows.column(KEYLESS))
        return keyless_rows(rows, self.job.columns.type, self.job.needs)

    def _split(self, rows: pa.RecordBatch, shards: Ints) -> None:
        if not rows.num_rows:
            return
        if (shards == shards[0]).all():
            self._keep(int(shards[0]), rows)
            return
        order = np.argsort(shards, kind="stable")
        ranked = shards[order]
        starts = np.flatnonzero(np.append(True, ranked[1:] != ranked[:-1]))
        rows = rows.take(pa.array(order))
        for first, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(ranked)], strict=True):
            self._keep(int(ranked[first]), rows.slice(first, stop - first))

    def _keep(self, shard: int, rows: pa.RecordBatch) -> None:
        if shard >= 0:
            self.rows.setdefault(shard, []).append(rows)
            self.size += rows.nbytes

    def _flush(self, *, last: bool) -> pa.RecordBatch:
        """Give a packed row for each shard that has rows; at the end one for every shard, with the note."""
        numbers = range(self.job.count) if last else sorted(self.rows)
        notes: list[str | None] = []
        blocks: list[bytes | None] = []
        told = Note(self.note.clocks, self.note.events, keyless=self.note.keyless, begun=self.note.begun).text()
        for number in numbers:
            pieces = self.rows.get(number)
            blocks.append(as_bytes(pa.Table.from_batches(pieces)) if pieces else None)
            notes.append(None if not last else self.note.text() if number == 0 else told)
        self.rows, self.size = {}, 0
        arrays = [pa.array(numbers, pa.int32()), pa.array(notes, pa.string()), pa.array(blocks, pa.binary())]
        return pa.RecordBatch.from_arrays(arrays, schema=PACKED)


def _copies(rows: pa.RecordBatch) -> Any:
    """Return the number of the copy that each row is (NaN: it has no shard); None if no row is copied."""
    return rows.column(COPY).to_numpy(zero_copy_only=False) if COPY in rows.schema.names else None


def judged(batch: pa.RecordBatch, job: Job) -> TimesAndEids:
    """Read the times of a batch and find its unusable rows; of eids only their presence is checked.

    Rows without a shard only move the clock, and come without texts.
    """
    columns = job.columns
    rows = frame(batch, replace(columns, eid=None))
    if columns.eid is not None and batch.column(columns.eid).null_count:
        lacking = marks(pc.is_null(batch.column(columns.eid)))
        if SHARD in batch.schema.names:
            lacking = lacking & marks(pc.is_valid(batch.column(SHARD)))
        if lacking.any():
            rows.problems.append((lacking, "the eid is null"))
    if ITEM in batch.schema.names:
        rows.problems += problems_of(batch, KEYLESS)
    if job.known is not None:
        strange = pc.invert(pc.is_in(batch.column(columns.type), pa.array(sorted(job.known), pa.string())))
        if (marks(strange)).any():
            rows.problems.append((marks(strange), f"its type is none of {', '.join(sorted(job.known))}"))
    return rows


def described(batch: pa.RecordBatch, at: int, reason: str | None = None) -> str:
    """Describe a row as JSON, with the reason why it is reported."""
    row: dict[str, Any] = {k: v for k, v in batch.slice(at, 1).to_pylist()[0].items() if not k.startswith("__")}
    return json.dumps({"reason": reason, **row} if reason else row, default=str, ensure_ascii=False)


def unusable_row(batch: pa.RecordBatch, at: int, reason: str) -> InputError:
    return InputError(
        f"an event cannot be used: {reason}",
        detail=f"the row is {described(batch, at)}",
        hint=HINTS.get(reason) or 'filter such rows out, or say bad_rows="keep" to have them in the result',
    )
