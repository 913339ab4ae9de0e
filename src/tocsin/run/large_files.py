"""Files that are read piece by piece, as often as asked, in every format that is read whole (`run/files`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import pyarrow as pa
from pyarrow import parquet

from tocsin.codec.arrow_stream import validated
from tocsin.encode.columns import Columns
from tocsin.encode.late import LateFile
from tocsin.run.bad_rows import BadRows
from tocsin.run.files import (
    BROKEN,
    COMPRESSED,
    HEADER_BYTES,
    FilePiece,
    csv_piece,
    delimiter_of,
    empty_csv,
    format_of,
    jsonl_piece,
    unknown_format,
    unreadable,
)
from tocsin.run.row_groups import GroupFacts, Skip
from tocsin.run.text_blocks import csv_blocks, line_blocks
from tocsin.schema import Field

SAMPLE = 1 << 12  # rows of a Parquet file that show how large a row is
TEXT, UNPACKED = 3, 30  # how many times larger than its file a text is while it is read whole, and a compressed one
LATE_PIECES = 4  # of a row group may be as large as what is read late of it

Note = Callable[[FilePiece, tuple[pa.Field, ...]], GroupFacts]  # a piece, and columns that were not read with it


@dataclass(frozen=True, slots=True)
class HowToRead:
    """How files are read.

    columns   which column is what
    bad       where rows go that cannot be parsed
    declared  attributes whose kinds are declared
    early     the columns of a Parquet file that are read at once; None: all
    size      how many bytes a piece takes, about
    texts     columns of CSV files that are texts wherever they stand
    skip      which row groups need not be read
    """

    columns: Columns
    bad: BadRows
    declared: Mapping[str, Field]
    early: frozenset[str] | None
    size: int
    texts: frozenset[str] = frozenset()
    skip: Skip | None = None


class LargeFile(Protocol):
    """A file of events."""

    def survey(self, how: HowToRead, note: Note) -> None:
        """Let the rows be noted, with at least the columns that may have nulls."""

    def pieces(self, how: HowToRead) -> Iterator[FilePiece]:
        """The rows in their order, but for row groups that may be skipped."""


def large_file(path: Path) -> LargeFile:
    """A file by the format that its name says."""
    kind = format_of(path)
    match kind:
        case "csv" | "tsv":
            return _TextFile(path, kind)
        case "jsonl":
            return _TextFile(path, kind)
        case "parquet":
            return _ParquetFile(path)
        case "arrow":
            return _ArrowFile(path)
    raise unknown_format(path)


def size_in_memory(path: Path, early: frozenset[str] | None) -> int:
    """How much memory the rows of a file may take; 0 if nobody knows."""
    if not path.is_file():  # a pipe
        return 0
    try:
        match format_of(path):
            case "parquet":
                return _ParquetFile(path).size_in_memory(early)
            case "arrow":
                return 0 if _is_mapped(path) else path.stat().st_size
    except BROKEN:
        return 0  # reading it says why
    return path.stat().st_size * (UNPACKED if path.name.lower().endswith(COMPRESSED) else TEXT)


def _is_mapped(path: Path) -> bool:
    """Whether an Arrow file is not read, but mapped into memory."""
    with path.open("rb") as file:
        return file.read(6) == b"ARROW1"


@dataclass(frozen=True, slots=True)
class _TextFile:
    path: Path
    kind: str

    def survey(self, how: HowToRead, note: Note) -> None:
        for piece in self.pieces(how):
            note(piece, ())

    def pieces(self, how: HowToRead) -> Iterator[FilePiece]:
        try:
            yield from self._lines(how) if self.kind == "jsonl" else self._csv(how)
        except BROKEN as problem:
            unreadable(self.path, self.kind, problem)

    def _csv(self, how: HowToRead) -> Iterator[FilePiece]:
        with pa.input_stream(str(self.path), compression="detect") as file:
            delimiter, is_empty = delimiter_of(self.kind, file.read(HEADER_BYTES)), True
        for raw, before in csv_blocks(self.path, delimiter, how.size):
            is_empty = False
            yield csv_piece(
                raw, self.path, how.columns, how.declared, how.bad,
                delimiter=delimiter, before=before, as_texts=how.texts,
            )  # fmt: skip
        if is_empty:
            raise empty_csv(self.path)

    def _lines(self, how: HowToRead) -> Iterator[FilePiece]:
        for raw, before in line_blocks(self.path, how.size):
            yield jsonl_piece(raw, self.path, how.bad, before)


@dataclass(frozen=True, slots=True)
class _ArrowFile:
    path: Path

    def survey(self, how: HowToRead, note: Note) -> None:
        for piece in self.pieces(how):
            note(piece, ())

    def pieces(self, how: HowToRead) -> Iterator[FilePiece]:
        place = Places(self.path)
        try:
            for batch in self._batches():
                table = validated(pa.Table.from_batches([batch]))
                rows = max(1, how.size * table.num_rows // max(1, table.nbytes))
                for first in range(0, max(1, table.num_rows), rows):
                    yield place.piece(table.slice(first, rows))
        except BROKEN as problem:
            unreadable(self.path, "arrow", problem)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        if _is_mapped(self.path):
            file = pa.ipc.open_file(pa.memory_map(str(self.path)))
            for at in range(file.num_record_batches):
                yield file.get_batch(at)
        else:
            yield from pa.ipc.open_stream(pa.OSFile(str(self.path)))


@dataclass(slots=True)
class _ParquetFile:
    path: Path
    facts: list[GroupFacts] = field(default_factory=list)  # of row groups, once they were looked at
    _late: LateFile | None = None

    @property
    def late(self) -> LateFile:
        """The file, of which columns may be read late."""
        if self._late is None:
            self._late = LateFile(self.path)
        return self._late

    def size_in_memory(self, early: frozenset[str] | None) -> int:
        """How many bytes the columns take that are read at once; of values of any length the first rows are asked."""
        fields = [each for each in self.late.file.schema_arrow if early is None or each.name in early]
        bits = [1 + width for each in fields if (width := _width(each.type)) is not None]  # and one that says if null
        others, size = [each.name for each in fields if _width(each.type) is None], sum(bits) * self.late.rows // 8
        if not others:
            return size
        with parquet.ParquetFile(self.path, pre_buffer=False) as file:
            batch = next(file.iter_batches(SAMPLE, columns=others), None)
        return size if batch is None or not batch.num_rows else size + batch.nbytes * self.late.rows // batch.num_rows

    def survey(self, how: HowToRead, note: Note) -> None:
        self.facts = []
        try:
            how.columns.resolve(self.late.names)
            asked = {how.columns.type, how.columns.time, how.columns.end, how.columns.eid}
            now = frozenset(name for name in self.late.names if name in asked or self.late.may_have_nulls(name))
            others = tuple(each for each in self.late.file.schema_arrow if each.name not in now)
            place = Places(self.path)
            note(place.piece(self.late.file.schema_arrow.empty_table()), ())  # columns in the order of the file
            for group in range(self.late.file.num_row_groups):
                found = GroupFacts(Counter(), usable=True)
                for table in self.late.pieces(now, [group], self._rows(how.size), late=False):
                    mine = note(place.piece(table), others)
                    found = GroupFacts(found.types + mine.types, found.usable and mine.usable)
                self.facts.append(found)
        except BROKEN as problem:
            unreadable(self.path, "parquet", problem)

    def pieces(self, how: HowToRead) -> Iterator[FilePiece]:
        late, place = self.late, Places(self.path)
        early = how.early
        if early is None or late.largest_group(early) > LATE_PIECES * how.size:
            early = frozenset(late.names)
        try:
            for group in range(late.file.num_row_groups):
                if how.skip is not None and how.skip.skips(self.facts[group], late.file, group):
                    place.before += late.file.metadata.row_group(group).num_rows
                    continue
                for table in late.pieces(early, [group], self._rows(how.size)):
                    yield place.piece(table, late)
        except BROKEN as problem:
            unreadable(self.path, "parquet", problem)

    def _rows(self, size: int) -> int:
        """How many rows a piece has."""
        return max(1, size * max(1, self.late.rows) // max(1, self.size_in_memory(None)))


def _width(type: pa.DataType) -> int | None:
    """How many bits each value takes; None: one more than another."""
    try:
        return int(type.bit_width)
    except ValueError:
        return None


@dataclass(slots=True)
class Places:
    """Names the places of rows that are read one after the other."""

    path: Path
    before: int = 0

    def piece(self, table: pa.Table, late: LateFile | None = None) -> FilePiece:
        """The next rows of a file."""
        before = self.before
        self.before += table.num_rows
        return FilePiece(table, lambda row: f"{self.path}, row {before + row + 1}", [], late=late)
