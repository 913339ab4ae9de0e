"""An external sort: tables are sorted one by one, written to disk, and read back together in order of time.

Rows that end together keep their order, as if all of them had been sorted in memory.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tocsin.encode.late import LateType
from tocsin.encode.whole import UsableRows
from tocsin.errors import InputError
from tocsin.items import Ints
from tocsin.spill.folder import make_folder

BATCHES = 512  # of a run; so many runs are read back within the memory that one of them took
ENDS = "\0end"  # a column that no input has


def in_time_order(tables: Iterable[UsableRows], size: int) -> Iterator[pa.Table]:
    """All rows by their ends, in tables of about so many bytes; what is on disk meanwhile is removed at the end."""
    folder, lock = make_folder(Path(tempfile.gettempdir()))
    try:
        try:
            runs = [_SortedFile(folder / f"{at}.arrow", rows) for at, rows in enumerate(tables) if len(rows)]
        except OSError as problem:
            raise InputError(
                "the input is not in order of time, and cannot be sorted on disk",
                detail=str(problem),
                hint="sort it before, or let TMPDIR name a directory with as much room as the input takes",
            ) from problem
        yield from _gathered(_merged(runs), size)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        lock.close()


class _SortedFile:
    """A sorted table on disk, of which some rows are in memory: those that come next."""

    def __init__(self, path: Path, rows: UsableRows) -> None:
        order = np.argsort(rows.end, kind="stable")
        table = rows.table.append_column(ENDS, pa.array(rows.end)).take(pa.array(order)).unify_dictionaries()
        self._path, self._schema, self._batches, self._read = path, rows.table.schema, 0, 0
        with pa.OSFile(str(path), "wb") as out, pa.ipc.new_file(out, table.schema) as file:
            for batch in table.combine_chunks().to_batches(max_chunksize=max(1, -(-len(rows) // BATCHES))):
                file.write_batch(batch)
                self._batches += 1
        self.head, self.ends = rows.table.slice(0, 0), np.zeros(0, np.int64)

    @property
    def has_more(self) -> bool:
        """Whether rows are left on disk."""
        return self._read < self._batches

    def load(self, count: int) -> None:
        """Read so many batches more, behind those that are in memory."""
        stop = min(self._read + count, self._batches)
        with pa.OSFile(str(self._path)) as source:
            file = pa.ipc.open_file(source)
            table = pa.Table.from_batches([file.get_batch(at) for at in range(self._read, stop)])
        self._read = stop
        self.ends = np.concatenate([self.ends, table.column(ENDS).to_numpy()])
        self.head = pa.concat_tables([self.head, _as_before(table.drop_columns([ENDS]), self._schema)])

    def before(self, time: int | None) -> tuple[pa.Table, Ints]:
        """Take the rows that end before a time (None: all) out of those in memory, with their ends."""
        count = len(self.ends) if time is None else int(np.searchsorted(self.ends, time))
        taken = self.head.slice(0, count), self.ends[:count]
        self.head, self.ends = self.head.slice(count), self.ends[count:]
        return taken


def _as_before(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """A table as it was written: Arrow does not know columns that are read late."""
    for place, each in enumerate(schema):
        if isinstance(each.type, LateType):
            chunks: list[Any] = [
                chunk if isinstance(chunk, pa.ExtensionArray) else pa.ExtensionArray.from_storage(each.type, chunk)
                for chunk in table.column(place).chunks
            ]
            table = table.set_column(place, each, pa.chunked_array(chunks, each.type))
    return table


def _merged(runs: list[_SortedFile]) -> Iterator[pa.Table]:
    """The rows of all runs in order; of those that end together the ones of earlier runs first."""
    at_once = max(1, BATCHES // max(1, len(runs)))
    for run in runs:
        run.load(at_once)
    while any(len(run.ends) for run in runs):
        waiting = [run for run in runs if run.has_more]
        bound = min((int(run.ends[-1]) for run in waiting), default=None)  # from here on rows may be missing
        taken = [each for each in (run.before(bound) for run in runs) if len(each[1])]
        if taken:
            order = np.argsort(np.concatenate([ends for _, ends in taken]), kind="stable")
            yield pa.concat_tables([table for table, _ in taken]).take(pa.array(order))
        for run in waiting:
            if int(run.ends[-1]) == bound:
                run.load(at_once)


def _gathered(tables: Iterator[pa.Table], size: int) -> Iterator[pa.Table]:
    """Yield rows in tables of about so many bytes."""
    waiting: list[pa.Table] = []
    for table in tables:
        waiting.append(table)
        if sum(each.nbytes for each in waiting) >= size:
            yield pa.concat_tables(waiting)
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting)
