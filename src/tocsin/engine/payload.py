"""The events behind the numbers: rows as they came, kept while an answer may still show them.

A detector numbers events by arrival. Here a number leads back to its row: attributes for results, and the two numbers
of its eid. Without an eid column the eid is a hash of the content plus an occurrence number among equal rows; it is
computed only for the batches in which an answer lies.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.events import text_hash
from tocsin.items import Codes, Ints, Items

Words = npt.NDArray[np.uint64]

NOT_CONTENT = frozenset(("eid", "source", "seq", "arrival"))


@dataclass(slots=True)
class Chunk:
    """A batch: its rows are events first .. first + len; `kept` are the rows still there (None: all)."""

    first: int
    rows: pa.RecordBatch
    types: Codes
    start: Ints
    end: Ints
    high: Ints | None
    low: Ints | None
    kept: Ints | None = None
    last_end: int = 0

    @property
    def stop(self) -> int:
        return self.first + (len(self.types) if self.kept is None else int(self.kept[-1]) + 1 if len(self.kept) else 0)


class Payload:
    """Chunks in order of arrival."""

    def __init__(self, *, has_eid: bool | None = None) -> None:
        self.chunks: list[Chunk] = []
        self.has_eid = has_eid
        self._table: tuple[int, pa.Table] | None = None

    def add(self, first: int, items: Items, wanted: npt.NDArray[np.bool_] | None, clock: int) -> None:
        """Keep a batch whose events end by `clock`: all of it, or only the wanted rows."""
        self.has_eid = items.eid_high is not None
        self._table = None
        if wanted is None:
            chunk = Chunk(first, items.payload, items.types, items.start, items.end, items.eid_high, items.eid_low)
        else:
            at = np.flatnonzero(wanted)
            high, low = (None if column is None else column[at] for column in (items.eid_high, items.eid_low))
            rows = items.payload.take(pa.array(at))
            chunk = Chunk(first, rows, items.types[at], items.start[at], items.end[at], high, low, kept=at)
        chunk.last_end = clock
        self.chunks.append(chunk)

    def drop_before(self, horizon: int) -> None:
        """Forget the batches of which every wanted event ended before the horizon."""
        if any(chunk.last_end < horizon for chunk in self.chunks):
            self.chunks = [chunk for chunk in self.chunks if chunk.last_end >= horizon]
            self._table = None

    def locate(self, numbers: Ints) -> Ints:
        """Event numbers as row numbers of `table()`; -1 stays -1."""
        firsts = np.array([chunk.first for chunk in self.chunks], np.int64)
        offsets = np.cumsum([0] + [chunk.rows.num_rows for chunk in self.chunks])
        found = np.full(len(numbers), -1, np.int64)
        which = np.searchsorted(firsts, numbers, side="right") - 1
        for index in np.unique(which[numbers >= 0]):
            chunk, mine = self.chunks[index], (which == index) & (numbers >= 0)
            at = numbers[mine] - chunk.first
            if chunk.kept is not None:
                at = np.searchsorted(chunk.kept, at)
            found[mine] = at + offsets[index]
        return found

    def table(self) -> pa.Table:
        """All kept rows."""
        if self._table is None:
            tables = [pa.Table.from_batches([chunk.rows]) for chunk in self.chunks]
            whole = pa.concat_tables(tables, promote_options="permissive") if tables else pa.table({})
            self._table = (len(self.chunks), whole)
        return self._table[1]

    def times(self, at: Ints) -> tuple[Ints, Ints]:
        starts = np.concatenate([chunk.start for chunk in self.chunks]) if self.chunks else np.zeros(0, np.int64)
        ends = np.concatenate([chunk.end for chunk in self.chunks]) if self.chunks else np.zeros(0, np.int64)
        return starts[at], ends[at]

    def types(self, at: Ints) -> Codes:
        return np.concatenate([chunk.types for chunk in self.chunks])[at]

    def eid_numbers(self, at: Ints) -> tuple[Ints, Ints]:
        """The eids of rows of `table()` as two numbers each."""
        self._name_all()
        high = np.concatenate([chunk.high for chunk in self.chunks if chunk.high is not None])
        low = np.concatenate([chunk.low for chunk in self.chunks if chunk.low is not None])
        return high[at], low[at]

    def eids(self, at: Ints) -> pa.Array:
        """The eids of rows of `table()` as people see them."""
        if self.has_eid:
            return self.table().column("eid").combine_chunks().take(pa.array(at))
        high, low = self.eid_numbers(at)
        return pa.array([auto_eid(h, n) for h, n in zip(high.tolist(), low.tolist(), strict=True)], pa.string())

    def _name_all(self) -> None:
        """Give every row without an eid its content hash and occurrence number."""
        if all(chunk.high is not None for chunk in self.chunks):
            return
        for index, chunk in enumerate(self.chunks):
            if chunk.high is None:
                chunk.high, chunk.low = self.names_for(chunk.rows, self.chunks[:index])

    def names_for(self, rows: pa.RecordBatch, earlier: list[Chunk]) -> tuple[Ints, Ints]:
        hashes = content_hash(rows).view(np.int64)
        known = [chunk.high for chunk in earlier if chunk.high is not None]
        before = np.concatenate(known) if known else np.zeros(0, np.int64)
        order = np.argsort(hashes, kind="stable")
        ranked = hashes[order]
        starts = np.flatnonzero(np.r_[True, ranked[1:] != ranked[:-1]]) if len(ranked) else np.zeros(0, np.int64)
        counts = np.diff(np.r_[starts, len(ranked)])
        occurrence = np.empty(len(hashes), np.int64)
        occurrence[order] = np.arange(len(ranked)) - np.repeat(starts, counts)
        repeated = np.isin(hashes, before)
        if repeated.any():
            values, seen = np.unique(before, return_counts=True)
            occurrence[repeated] += seen[np.searchsorted(values, hashes[repeated])]
        return hashes.copy(), occurrence


def auto_eid(high: int, low: int) -> str:
    """The text of a computed eid."""
    return f"{high & (2**64 - 1):016x}" + (f"-{low}" if low else "")


def content_hash(rows: pa.RecordBatch) -> Words:
    """A hash of each row that does not depend on the order of columns; nulls and missing columns count as nothing."""
    total = np.zeros(rows.num_rows, np.uint64)
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        if name not in NOT_CONTENT:
            seed = np.uint64(text_hash(name.encode()) & (2**64 - 1))
            words = mixed(words_of(column) ^ seed)
            total += np.where(np.asarray(column.is_valid()), words, np.uint64(0))
    return mixed(total)


def mixed(words: Words) -> Words:
    """The splitmix64 finaliser on whole arrays; the same as `events.mix`."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def words_of(column: pa.Array) -> Words:
    """Each value as 64 bits; equal values of a column have equal bits."""
    kind = column.type
    if pa.types.is_floating(kind):
        filled = pc.fill_null(column.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False)
        return np.ascontiguousarray(filled + 0.0).view(np.uint64)
    if pa.types.is_integer(kind):
        return _bits(column.cast(pa.int64()))
    if pa.types.is_boolean(kind):
        return _bits(column.cast(pa.int64()))
    if pa.types.is_temporal(kind):
        return _bits(column.view(pa.int64()) if kind.bit_width == 64 else column.cast(pa.int64()))
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
    encoded = pc.dictionary_encode(column.cast(pa.string()) if not pa.types.is_string(column.type) else column)
    texts = [text_hash((text or "").encode()) & (2**64 - 1) for text in encoded.dictionary.to_pylist()] or [0]
    words: Words = np.array(texts, np.uint64)[pc.fill_null(encoded.indices, 0).to_numpy(zero_copy_only=False)]
    return words


def _bits(column: pa.Array) -> Words:
    return np.ascontiguousarray(pc.fill_null(column, 0).to_numpy(zero_copy_only=False)).view(np.uint64)
