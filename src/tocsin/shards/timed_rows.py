"""Rows with their ends, which are read once on the way of a row through a shard."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tocsin.codec import reading
from tocsin.encode.batch import one_batch
from tocsin.encode.row_bases import stacked
from tocsin.encode.times import ticks
from tocsin.items import Bools, Ints, is_sorted
from tocsin.shards.job import Job


@dataclass(frozen=True, slots=True)
class TimedRows:
    """Rows, and when each of them ends."""

    rows: pa.RecordBatch
    ends: Ints

    @staticmethod
    def of(rows: pa.Table | pa.RecordBatch, job: Job) -> TimedRows:
        """Read the ends of some rows."""
        batch = rows if isinstance(rows, pa.RecordBatch) else one_batch(rows)
        return TimedRows(batch, _ends(batch, job))

    def __len__(self) -> int:
        return len(self.ends)

    def taken(self, at: Ints) -> TimedRows:
        """Return the rows at these places, as a copy."""
        return TimedRows(self.rows.take(pa.array(at)), self.ends[at])

    def only(self, which: Bools) -> TimedRows:
        """Return the rows that are marked; if all are, as they are."""
        return self if which.all() else TimedRows(self.rows.filter(pa.array(which)), self.ends[which])

    @property
    def in_order(self) -> pa.RecordBatch:
        """Return the rows by their ends; rows that end together keep their order."""
        if is_sorted(self.ends):
            return self.rows
        return self.rows.take(pa.array(np.argsort(self.ends, kind="stable")))


def released(held: list[TimedRows], until: int) -> tuple[pa.RecordBatch | None, list[TimedRows]]:
    """Split held rows into those that end before `until`, sorted by time (None: none), and those that stay held."""
    if not held:
        return None, held
    whole = _together(held)
    if is_sorted(whole.ends):  # as files are mostly written
        count = int(np.searchsorted(whole.ends, until))
        rest = [whole.taken(np.arange(count, len(whole)))] if count < len(whole) else []
        return whole.rows.slice(0, count) if count else None, rest
    ripe = whole.ends < until
    if not ripe.any():
        return None, [whole]
    rest = [] if ripe.all() else [whole.only(~ripe)]
    at = np.flatnonzero(ripe)
    return whole.rows.take(pa.array(at[np.argsort(whole.ends[at], kind="stable")])), rest


def whole_ticks(batches: Iterable[pa.RecordBatch], job: Job) -> Iterator[pa.RecordBatch]:
    """Cut batches in order of time anew where a tick lies in two of them, so that all its rows come together.

    Copies of an event are in one tick. Where they come together, the right one is taken at once, and nothing is ever
    withdrawn, which a batch could not say.
    """
    if job.columns.eid is None:
        yield from batches
        return
    held: pa.RecordBatch | None = None
    for batch in batches:
        rest = batch
        if held is not None and batch.num_rows:
            tick = _ends(held.slice(held.num_rows - 1), job)[0]
            if tick == _ends(batch.slice(0, 1), job)[0]:
                before = int(np.searchsorted(_ends(held, job), tick))
                after = int(np.searchsorted(_ends(batch, job), tick, "right"))
                if before:
                    yield held.slice(0, before)
                held, rest = stacked([held.slice(before), batch.slice(0, after)]), batch.slice(after)
            if rest.num_rows:
                yield held
        if rest.num_rows:
            held = rest
    if held is not None:
        yield held


def _ends(rows: pa.RecordBatch, job: Job) -> Ints:
    return ticks(rows.column(job.columns.end or job.columns.time), "end")[0]


def _together(several: list[TimedRows]) -> TimedRows:
    if len(several) == 1:
        return several[0]
    tables = [pa.Table.from_batches([each.rows]) for each in several]
    with reading("the log of a shard"):  # stored rows whose kinds have become others
        rows = one_batch(pa.concat_tables(tables, promote_options="default"))
    return TimedRows(rows, np.concatenate([each.ends for each in several]))
