"""Pieces: rows of events that left the detector, in order of their ends; on disk, or in memory until they are many.

A file holds several pieces, each a container of its own that says whether it is whole (see `codec`), and appears whole
or not at all. The index is in memory: what is on disk is worth nothing without the process that wrote it. So nothing is
synced, and the folder is removed with the store, or by the next run (`spill.folder`).
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import IO

import numpy as np
import pyarrow as pa

from tocsin.codec import CRC, decode, encode, stamp
from tocsin.encode import Encoder
from tocsin.encode.batch import one_batch
from tocsin.errors import StateError, TocsinError
from tocsin.items import Ints, Items, Strings
from tocsin.plan.block import Plan
from tocsin.spill.folder import make_folder

NUMBER, HIGH, LOW, SIGN = "#number", "#high", "#low", "#sign"  # columns beside those of the payload
EID = "eid"
KIND = "spilled events"


@dataclass(frozen=True, slots=True)
class Piece:
    """Some rows: their first and last end, their smallest and largest number, and where they are.

    In memory (`rows`), or at a place in a file, where `check` is the stamp of its container.
    """

    id: int
    first: int
    last: int
    oldest: int
    newest: int
    count: int
    size: int
    version: int  # for saved states: it is newer than any state that was saved before the piece was made
    rows: pa.RecordBatch | None = None
    file: str = ""
    offset: int = 0
    check: str = ""
    level: int = 0  # how often it was merged; 0: straight from the detector
    run: int = 0  # pieces of one run do not overlap


def record(
    payload: pa.RecordBatch, numbers: Ints, high: Ints | None, low: Ints | None, signs: object = None
) -> pa.Table:
    """Rows of a payload with what a piece needs beside them, in order of (end, number)."""
    names, columns = list(payload.schema.names), list(payload.columns)
    for name, column in ((NUMBER, numbers), (HIGH, high), (LOW, low), (SIGN, signs)):
        if column is not None and not _is_implied(name, payload, high, low):
            names.append(name)
            columns.append(pa.array(column))
    return in_order(pa.Table.from_arrays(columns, names))


def _is_implied(name: str, payload: pa.RecordBatch, high: Ints | None, low: Ints | None) -> bool:
    """Whether the numbers of an eid can be read from the eid itself: it is a whole number."""
    if name not in (HIGH, LOW) or high is None or low is None or EID not in payload.schema.names:
        return False
    eids = payload.column(EID)
    return bool(eids.type == pa.int64() and not low.any() and (ints(payload, EID) == high).all())


def in_order(table: pa.Table) -> pa.Table:
    """Rows in order of (end, number)."""
    ends, numbers = ints(table, "end"), ints(table, NUMBER)
    if bool(((ends[1:] > ends[:-1]) | ((ends[1:] == ends[:-1]) & (numbers[1:] > numbers[:-1]))).all()):
        return table
    arrived = bool((numbers[1:] > numbers[:-1]).all())
    return table.take(pa.array(np.argsort(ends, kind="stable") if arrived else np.lexsort((numbers, ends))))


def joined(batches: list[pa.RecordBatch], *, sort: bool = True) -> list[pa.Table]:
    """Rows with the same columns together, in order unless that does not matter."""
    named = [(tuple(f"{field.name} {field.type}" for field in rows.schema), rows) for rows in batches if len(rows)]
    named.sort(key=lambda each: each[0])
    tables = []
    for _, alike in groupby(named, key=lambda each: each[0]):
        whole = pa.concat_tables([pa.Table.from_batches([rows]) for _, rows in alike])
        tables.append(in_order(whole.combine_chunks()) if sort else whole.combine_chunks())
    return tables


def ints(rows: pa.Table | pa.RecordBatch, name: str) -> Ints:
    column = rows.column(name)
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    values: Ints = whole.to_numpy(zero_copy_only=False)
    return values


def between(rows: pa.RecordBatch, low: int, high: int) -> pa.RecordBatch:
    """The rows that end in [low, high]."""
    ends = ints(rows, "end")
    begin, end = int(np.searchsorted(ends, low)), int(np.searchsorted(ends, high, side="right"))
    return rows.slice(begin, end - begin)


class PieceReader:
    """Pieces as Items again."""

    def __init__(self, plan: Plan, types: tuple[str, ...], reads: tuple[str, ...]) -> None:
        self._plan, self._types, self._reads = plan, types, reads
        self._encoders: dict[tuple[str, ...], Encoder] = {}

    def items(self, rows: pa.RecordBatch, strings: Strings) -> Items:
        inner = [name for name in (NUMBER, HIGH, LOW, SIGN) if name in rows.schema.names]
        payload = rows.select([name for name in rows.schema.names if name not in inner])
        items = self._encoder(payload, strings).encode(payload)
        if HIGH in inner:
            items.eid_high, items.eid_low = ints(rows, HIGH), ints(rows, LOW)
        if SIGN in inner:
            items.kinds = (rows.column(SIGN).to_numpy(zero_copy_only=False) < 0).astype(np.int8)  # WITHDRAWAL is 1
        return items

    def _encoder(self, payload: pa.RecordBatch, strings: Strings) -> Encoder:
        key = tuple(f"{field.name} {field.type}" for field in payload.schema)
        if key not in self._encoders:
            self._encoders[key] = Encoder.of_payload(
                self._plan.schema,
                self._types,
                strings,
                payload.schema,
                self._reads,
            )
        return self._encoders[key]


class Store:
    """Pieces on disk, in a folder of its own inside the given one."""

    def __init__(self, folder: str | os.PathLike[str] | None) -> None:
        self.parent = Path(tempfile.gettempdir() if folder is None else folder)
        self.folder: Path | None = None
        self.size = 0  # bytes on disk
        self.next = 0  # the id of the next piece
        self._files: dict[str, list[int]] = {}  # by name: how many of its pieces are needed, and its size
        self._made = 0

    # --- writing ---

    def write(self, tables: Sequence[pa.Table], version: int, *, level: int = 0, run: int | None = None) -> list[Piece]:
        """Write pieces into one file. If that fails, nothing has changed."""
        tables = [table for table in tables if len(table)]
        if not tables:
            return []
        data = [packed(table) for table in tables]
        name = f"{self._made:08d}.arrows"
        self._put(name, data)
        self._made += 1
        pieces, offset = [], 0
        for table, each in zip(tables, data, strict=True):
            piece = self._piece(table, len(each), version)
            where = replace(piece, file=name, offset=offset, check=stamp(each))
            pieces.append(replace(where, level=level, run=self._made if run is None else run))
            offset += len(each)
        self._files[name] = [len(pieces), offset]
        self.size += offset
        return pieces

    def keep(self, table: pa.Table, version: int) -> Piece:
        """A piece in memory."""
        rows = one_batch(table)
        return replace(self._piece(table, rows.nbytes, version), rows=rows)

    def _piece(self, table: pa.Table, size: int, version: int) -> Piece:
        ends, numbers = ints(table, "end"), ints(table, NUMBER)
        self.next += 1
        oldest, newest = int(numbers.min()), int(numbers.max())
        return Piece(self.next - 1, int(ends[0]), int(ends[-1]), oldest, newest, len(table), size, version)

    def _put(self, name: str, data: list[bytes]) -> None:
        """Write a file beside its place, then rename it."""
        try:
            folder = self._folder()
            part = folder / f".{name}.part"
            try:
                with part.open("wb") as file:
                    for each in data:
                        file.write(each)
                part.replace(folder / name)
            except BaseException:
                with suppress(OSError):
                    part.unlink()
                raise
        except OSError as error:
            raise TocsinError(
                f"the folder {self.folder or self.parent} cannot take what does not fit into memory",
                detail=error.strerror or str(error),
                hint="make room there and push the same events again, or choose another folder or a larger limit",
            ) from error

    def _folder(self) -> Path:
        if self.folder is None:
            self.folder, lock = make_folder(self.parent)
            self._remove = weakref.finalize(self, _remove, self.folder, lock)
        return self.folder

    # --- reading ---

    def read(self, piece: Piece) -> pa.RecordBatch:
        """The rows of a piece."""
        return piece.rows if piece.rows is not None else self._checked(piece)[1]

    def data(self, piece: Piece) -> bytes:
        """The bytes of a piece, checked."""
        if piece.rows is not None:
            return packed(pa.Table.from_batches([piece.rows]))
        data: bytes = self._checked(piece)[0].to_pybytes()
        return data

    def _checked(self, piece: Piece) -> tuple[pa.Buffer, pa.RecordBatch]:
        """What lies on disk of a piece: its bytes, and the rows in them."""
        try:
            raw = pa.allocate_buffer(piece.size)
            with self._place(piece).open("rb", buffering=0) as file:
                file.seek(piece.offset)
                count = file.readinto(memoryview(raw))
        except OSError as error:
            raise _damaged(self._place(piece), error.strerror or str(error)) from error
        if count != piece.size or stamp(raw) != piece.check:
            raise _damaged(self._place(piece), "its length or its checksum differs")
        try:
            return raw, unpacked(raw)
        except StateError as error:
            raise _damaged(self._place(piece), str(error.detail)) from error

    def _place(self, piece: Piece) -> Path:
        return (self.folder or self.parent) / piece.file

    # --- removing ---

    def drop(self, pieces: Sequence[Piece]) -> None:
        """Forget pieces; a file goes with its last piece."""
        for piece in pieces:
            if piece.rows is not None:
                continue
            needed = self._files[piece.file]
            needed[0] -= 1
            if not needed[0]:
                self.size -= needed[1]
                del self._files[piece.file]
                with suppress(OSError):
                    self._place(piece).unlink()

    def close(self) -> None:
        """Remove the folder."""
        if self.folder is not None:
            self._remove()
            self.folder = None


def _remove(folder: Path, lock: IO[bytes]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    lock.close()


def packed(table: pa.Table) -> bytes:
    """Rows as bytes."""
    return encode(KIND, {}, {"rows": one_batch(table)}, check=CRC)


def unpacked(data: pa.Buffer | bytes, place: str = "a piece of spilled events") -> pa.RecordBatch:
    """The rows of a piece; bytes that are not exactly those that were written are refused."""
    return decode(data, KIND, place).batch("rows")


def _damaged(place: object, reason: str) -> StateError:
    return StateError(f"spilled events in {place} cannot be read", detail=reason, hint="restart from the last snapshot")
