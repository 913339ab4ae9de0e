"""Files that need not fit into memory: read piece by piece, once to learn what is in them, and once more to detect.

In the second reading the columns of each piece have the kinds that they have in all pieces together.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tocsin.encode.arrow import Problems, is_instant, is_text, marks, one_array
from tocsin.encode.columns import Columns, kind_of
from tocsin.encode.late import real_type
from tocsin.encode.objects import TOO_LARGE
from tocsin.encode.values import EXACT_FLOAT
from tocsin.errors import InputError
from tocsin.run.bad_rows import BadRows
from tocsin.run.files import FilePiece, find
from tocsin.run.first_reading import FirstReading
from tocsin.run.inputs import Input, kinds_inferred, plain_columns, time_type, with_times_read
from tocsin.run.large_files import HowToRead, large_file, size_in_memory
from tocsin.run.row_groups import GroupFacts, Skip
from tocsin.run.schemas import schema_of
from tocsin.schema import Field, Schema

PIECES = 24  # of an input are as large as what it may take in all: what is made of one stands beside it
LEAST, MOST = 1 << 12, 1 << 26  # bytes of a piece


def is_large(events: Any, early: frozenset[str], room: int) -> bool:
    """Whether an input is files whose rows may take more than so many bytes."""
    if not isinstance(events, (str, os.PathLike)):
        return False
    paths = find(events)
    return sum(size_in_memory(path, early if len(paths) == 1 else None) for path in paths) > room


class LargeInput:
    """Files that are read piece by piece, after a first reading."""

    def __init__(
        self, events: Any, columns: Columns, declared: Mapping[str, Field], bad: BadRows, early: frozenset[str],
        room: int,
    ) -> None:  # fmt: skip
        """`early`: columns that are read with the others; `room`: how many bytes the input may take at a time."""
        paths = find(events)
        self.bad, self._files = bad, [large_file(path) for path in paths]
        size = max(LEAST, min(room // PIECES, MOST))
        self._how = HowToRead(columns, BadRows("skip"), declared, early if len(paths) == 1 else None, size)
        self._first = FirstReading(columns)
        self._resolved = False
        while not self._survey():
            pass
        self.schema = self._first.table_schema()
        texts = frozenset(each.name for each in self.schema if is_text(each.type))
        self._how = replace(self._how, bad=bad, texts=texts)

    @property
    def columns(self) -> Columns:
        """Which column is what."""
        return self._how.columns

    def _survey(self) -> bool:
        """Read all files; False: they have columns with a role that the first piece did not have."""
        self._first = FirstReading(self.columns)
        try:
            for file in self._files:
                file.survey(self._how, self._note)
        except KeyboardInterrupt as stop:
            stop.add_note(f"stopped in the first reading, after {self._first.rows:,} rows")
            raise
        if not self._first.kinds:  # there are no rows
            return True
        resolved = self.columns.resolve(list(self._first.kinds))
        found, self._resolved = resolved == self.columns, True
        self._how = replace(self._how, columns=resolved)
        return found

    def _note(self, piece: FilePiece, others: tuple[pa.Field, ...]) -> GroupFacts:
        if not piece.table.num_columns:
            return GroupFacts(self._first.types, usable=True)
        if not self._resolved:
            names = [*piece.table.schema.names, *(each.name for each in others)]
            self._how, self._resolved = replace(self._how, columns=self.columns.resolve(names)), True
            self._first.columns = self.columns
        piece = self._opened(piece)
        self._first.guessed |= piece.guessed
        table = piece.table
        for role in ("type", "time"):
            if (name := getattr(self.columns, role)) not in table.schema.names:
                table = table.append_column(name, pa.nulls(table.num_rows, pa.string() if role == "type" else None))
        return self._first.note(table, others)

    def _opened(self, piece: FilePiece) -> FilePiece:
        """A piece with plain columns, and its times as times."""
        return with_times_read(replace(piece, table=plain_columns(piece.table)), self.columns)

    @property
    def size(self) -> int:
        """How many bytes a piece takes, about."""
        return self._how.size

    def __len__(self) -> int:
        """How many rows there are, usable or not."""
        return self._first.rows

    @property
    def in_order(self) -> bool:
        """Whether the rows are in order of time."""
        return self._first.in_order

    @property
    def time(self) -> pa.DataType | None:
        """The type of the time column if it holds points in time; None if it holds ticks."""
        place = self.schema.get_field_index(self.columns.time)
        return time_type(self.schema.types[place]) if place >= 0 else None

    def table(self) -> pa.Table:
        """No rows, for their columns."""
        return self.schema.empty_table()

    def known(self) -> Schema:
        """What the rows say of themselves."""
        return self._first.schema() if len(self) else schema_of(self.table(), self.columns)

    def notes(self, wanted: Container[str]) -> tuple[str, ...]:
        """What the user should know of how attributes that queries read were read."""
        return kinds_inferred(self.schema.field(name) for name in sorted(self._first.guessed) if name in wanted)

    def pieces(self, skip: Skip | None, *, whole: bool = False) -> Iterator[Input]:
        """All rows in the order of the files, but for those that `skip` knows to concern no query.

        `whole`: no column is read late.
        """
        how = replace(self._how, skip=skip, early=None if whole else self._how.early)
        for file in self._files:
            for piece in file.pieces(how):
                if piece.table.num_columns:
                    yield self.piece(self._conforming(self._opened(piece)))

    def piece(self, piece: FilePiece) -> Input:
        """Some rows as an input of their own."""
        return Input([piece], self.columns, self.bad)

    # --- the kinds that columns have in all pieces together ---

    def _conforming(self, piece: FilePiece) -> FilePiece:
        """A piece with all columns; values that have no place there make their rows bad."""
        problems, columns = list(piece.problems), {}
        for each in self.schema:
            if each.name in piece.table.schema.names:
                column = piece.table.column(each.name)
                columns[each.name] = (
                    column if real_type(column.type) == each.type else self._cast(column, each, problems)
                )
            elif each.name not in (
                self.columns.end,
                self.columns.eid,
            ):  # what that means is known where rows are judged
                columns[each.name] = pa.chunked_array([pa.nulls(piece.table.num_rows, each.type)])
        return replace(piece, table=pa.table(columns), problems=problems)

    def _cast(self, column: pa.ChunkedArray, wanted: pa.Field, problems: Problems) -> pa.ChunkedArray:
        name, kind = wanted.name, wanted.type
        if pa.types.is_null(column.type):
            return pa.chunked_array([pa.nulls(len(column), kind)])
        if pa.types.is_integer(column.type) and pa.types.is_floating(kind):
            large = marks(pc.fill_null(pc.greater(pc.abs(one_array(column)), EXACT_FLOAT), False))
            if large.any():
                problems.append((large, f"{name!r} {TOO_LARGE}"))
                column = pc.if_else(pa.array(~large), column, pa.scalar(None, column.type))
            return column.cast(kind)
        if (is_instant(column.type) and is_instant(kind)) or (is_text(column.type) and is_text(kind)):
            return column.cast(kind)
        if len(self._files) > 1:
            raise InputError(
                "the files do not have the same columns",
                detail=f"{name!r} is {kind_of(column.type)} in one and {kind_of(kind)} in another",
                hint="an attribute has one kind in all files: declare it with a schema",
            )
        reason = f"{name!r} is {kind_of(column.type)} here and {kind_of(kind)} elsewhere"
        if name in (self.columns.time, self.columns.end):
            role = "time" if name == self.columns.time else "end"
            reason = f"the {role} is neither a whole number nor a timestamp"
        problems.append((marks(pc.is_valid(one_array(column))), reason))
        return pa.chunked_array([pa.nulls(len(column), kind)])
