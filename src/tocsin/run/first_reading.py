"""A first reading of a large input, piece by piece: what a whole table would show of itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from tocsin.encode.arrow import is_instant, one_array
from tocsin.encode.batch import spans
from tocsin.encode.columns import Columns
from tocsin.encode.row_types import RowTypes
from tocsin.items import is_sorted
from tocsin.run.row_groups import GroupFacts
from tocsin.run.schemas import schema_from
from tocsin.schema import Schema

UNITS = ("s", "ms", "us", "ns")


@dataclass(slots=True)
class FirstReading:
    """Types, kinds of columns, and whether rows are in order of time.

    kinds    of each column how many values there are of each kind
    showing  of each column the types that have a value there
    guessed  columns whose kinds were inferred from their values
    """

    columns: Columns
    rows: int = 0
    types: Counter[str] = field(default_factory=Counter)
    kinds: dict[str, Counter[pa.DataType]] = field(default_factory=dict)
    nulls: Counter[str] = field(default_factory=Counter)
    showing: dict[str, set[str]] = field(default_factory=dict)
    guessed: set[str] = field(default_factory=set)
    in_order: bool = True
    _last: int | None = None

    def note(self, table: pa.Table, others: Iterable[pa.Field] = ()) -> GroupFacts:
        """Look at some more rows; `others`: columns that were not read, because they have no nulls."""
        if not table.num_rows:
            for each in (*table.schema, *others):
                self.kinds.setdefault(each.name, Counter())[each.type] += 0
            return GroupFacts(Counter(), usable=True)
        types = RowTypes.of(table.column(self.columns.type))
        numbers = np.bincount(types.codes + 1, minlength=len(types.names) + 1)[1:].tolist()
        counts = Counter({name: count for name, count in zip(types.names, numbers, strict=True) if count})
        for each, column in zip(table.schema, table.columns, strict=True):
            shown = types.showing(column) if column.null_count else counts
            self._note_column(each, table.num_rows, column.null_count, shown)
        for each in others:
            self._note_column(each, table.num_rows, 0, counts)
        for name in self.kinds.keys() - {each.name for each in (*table.schema, *others)}:
            self.nulls[name] += table.num_rows
        self.types += counts
        self.rows += table.num_rows
        return GroupFacts(counts, self._note_times(table) and sum(counts.values()) == table.num_rows)

    def _note_column(self, column: pa.Field, rows: int, nulls: int, types: Iterable[str]) -> None:
        if column.name not in self.kinds:
            self.nulls[column.name] = self.rows  # the rows before had no such column
        self.kinds.setdefault(column.name, Counter())[column.type] += rows - nulls
        self.nulls[column.name] += nulls
        if nulls < rows:
            self.showing.setdefault(column.name, set()).update(types)

    def _note_times(self, table: pa.Table) -> bool:
        """Whether all rows have times; those that have none are in no order."""
        columns = self.columns
        if columns.end not in table.schema.names:
            columns = replace(columns, end=None)
        until = None if columns.end is None else one_array(table.column(columns.end))
        _, end, problems = spans(one_array(table.column(columns.time)), until, columns)
        bad = [mask for mask, _ in problems if mask.any()]
        if bad:
            end = end[~np.logical_or.reduce(bad)]
        if len(end):
            self.in_order &= is_sorted(end) and (self._last is None or self._last <= int(end[0]))
            self._last = int(end.max())
        return not bad

    def table_schema(self) -> pa.Schema:
        """The columns of all pieces together."""
        as_written = self.guessed - {self.columns.time, self.columns.end}
        general = {name: pa.string() if name in as_written else None for name in self.kinds}
        return pa.schema([(name, _in_common(kinds, general[name])) for name, kinds in self.kinds.items()])

    def schema(self) -> Schema:
        """What the rows say of themselves."""
        return schema_from(
            self.table_schema(), self.columns, sorted(self.types), rows=self.rows, nulls=self.nulls,
            showing=lambda name: sorted(self.showing.get(name, ())),
        )  # fmt: skip


def _in_common(kinds: Counter[pa.DataType], general: pa.DataType | None) -> pa.DataType:
    """The kind that fits the values of all pieces; where none does, the `general` one, or else the kind of most."""
    telling = [kind for kind, count in kinds.items() if count and not pa.types.is_null(kind)]
    telling = telling or [kind for kind in kinds if not pa.types.is_null(kind)] or list(kinds)
    if len(telling) > 1 and set(telling) == {pa.int64(), pa.float64()}:
        return pa.float64()
    if all(map(is_instant, telling)) and len({getattr(kind, "tz", None) for kind in telling}) == 1:
        finest = max((getattr(kind, "unit", "s") for kind in telling), key=UNITS.index)
        return telling[0] if len(telling) == 1 else pa.timestamp(finest, getattr(telling[0], "tz", None))
    if len(telling) > 1 and general is not None:
        return general
    return max(telling, key=lambda kind: kinds[kind])
