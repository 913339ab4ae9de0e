"""A whole table as Items: rows that no query reads are dropped first, and only the others are encoded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from tocsin.encode.arrow import is_text, one_array
from tocsin.encode.batch import Encoder
from tocsin.encode.columns import Columns
from tocsin.encode.eids import eids
from tocsin.encode.merge import Rearranged
from tocsin.encode.rehearsal import loops_are_worth
from tocsin.encode.row_types import RowTypes
from tocsin.encode.text_numbers import numbered_column
from tocsin.encode.thread_team import ALONE, ThreadTeam
from tocsin.encode.values import nothing
from tocsin.items import NO_ROWS, NO_TEXT, Codes, Column, Ints, Items
from tocsin.schema import EID, TYPE, Field, Kind

MANY_TEXTS = 1 << 16  # texts that are worth a compiled loop, which may have to be compiled first


@dataclass(slots=True)
class UsableRows:
    """A finite input whose rows can all be used: the table, and what was read of every row."""

    table: pa.Table
    start: Ints
    end: Ints
    types: RowTypes
    columns: Columns
    in_order: bool  # whether no row ends before the one before it

    def __len__(self) -> int:
        return len(self.end)

    @property
    def last_end(self) -> int:
        """When the last row ends; there must be one."""
        return int(self.end.max())


def source_of(rows: UsableRows, field: Field) -> pa.ChunkedArray | None:
    """The column that an attribute comes from; None if the table has no such column."""
    name = {EID: rows.columns.eid, TYPE: rows.columns.type}.get(field.name, field.name)
    if name is None or name not in rows.table.schema.names or field.kind is Kind.NULL:
        return None
    return rows.table.column(name)


def encode_whole(encoder: Encoder, rows: UsableRows, *, drop: bool, workers: ThreadTeam = ALONE) -> Rearranged:
    """The rows that queries read (without `drop`: all) by their ends; rows that end together keep their order.

    Their payload stays in the table until someone asks for it.
    """
    codes = encoder.codes_of(rows.types.names)
    places = rows.types.read(codes, workers) if drop else np.arange(len(rows))
    taken = _Taken(encoder, rows, places, workers)
    points, picked = rows.start is rows.end, slice(None) if len(places) == len(rows) else places
    work: list[Callable[[], Any]] = [lambda: rows.end[picked], lambda: codes[rows.types.codes[picked]]]
    end, types, *rest = workers.all(work if points else [*work, lambda: rows.start[picked]])
    high, low = taken.eids()
    items = Items(
        types=types,
        start=end if points else rest[0],
        end=end,
        eid_high=high,
        eid_low=low,
        columns=taken.columns(),
        payload=NO_ROWS,
        sources=taken.sources(),
    )
    items.checked = True
    base = encoder.payload_table(rows.table, rows.start, rows.end)
    found = Rearranged.of(items, base, places)
    return found if rows.in_order else Rearranged(found, np.argsort(end, kind="stable"))


@dataclass(slots=True)
class _Taken:
    """The columns of some rows of a table; `places` ascend."""

    encoder: Encoder
    rows: UsableRows
    places: Ints
    workers: ThreadTeam

    def columns(self) -> dict[str, Column]:
        """The attributes that were asked for, as kernels read them."""
        fields = self.encoder.wanted
        numbers = [name for name, field in fields.items() if field.kind is not Kind.TEXT]
        found = self.workers.all([partial(self.column, fields[name]) for name in numbers])
        known = dict(zip(numbers, found, strict=True))
        return {name: known[name] if name in known else self.texts(field) for name, field in fields.items()}

    def column(self, field: Field) -> Column:
        """An attribute as kernels read it; nulls where the table has no such column."""
        source = source_of(self.rows, field)
        if source is None:
            return nothing(field, len(self.places))
        return self.encoder.encoded(self._array(source), field)

    def texts(self, field: Field) -> Column:
        """An attribute that is text; many are read piece by piece, where they are, without a dictionary of all."""
        source = source_of(self.rows, field)
        if source is None or not is_text(source.type) or not loops_are_worth(len(self.places), MANY_TEXTS):
            return self.column(field)
        texts, numbers = numbered_column(source, self.places, self.workers)
        codes = np.append(self.encoder.strings.codes(texts), NO_TEXT)[numbers]
        return Column(Kind.TEXT, codes, numbers >= 0 if source.null_count else None)

    def _array(self, column: pa.ChunkedArray) -> pa.Array:
        """Some rows of a column as one array."""
        if pa.types.is_dictionary(column.type):
            column = column.unify_dictionaries()
        return one_array(column if len(self.places) == len(column) else column.take(pa.array(self.places)))

    def eids(self) -> tuple[Ints | None, Ints | None]:
        """The eids as numbers, if rows have eids."""
        if self.rows.columns.eid is None:
            return None, None
        if not len(self.rows):  # an empty input may lack the column
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        high, low, _ = eids(self._array(self.rows.table.column(self.rows.columns.eid)))
        return high, low

    def sources(self) -> Codes | None:
        """Who each row comes from, if rows say so."""
        name = self.rows.columns.source
        return (
            None
            if name is None or not len(self.rows)
            else self.encoder.source_codes(self._array(self.rows.table.column(name)))
        )
