"""One event from a dict to Items in a few microseconds: plain values only, everything else takes the longer way.

The numbers of a row go into the same few arrays each time, `RowEncoder.one`. Arrow is left out until a result needs the
row. Of points in time, as datetimes or as ISO texts, the row keeps the ticks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from tocsin.encode.arrow import is_text as is_text_type
from tocsin.encode.batch import Encoder
from tocsin.encode.columns import OPTIONAL, Columns
from tocsin.encode.forms import DATES, LOCAL, TICKS, ZONED
from tocsin.encode.objects import is_encodable
from tocsin.encode.times import date_ticks, local_ticks, zoned_ticks
from tocsin.encode.values import EXACT_FLOAT
from tocsin.events import TIME_LIMIT, eid_number
from tocsin.items import NO_TEXT, Column, Ints, Items
from tocsin.schema import EID, TYPE, Kind

PLAIN: dict[Kind, type] = {Kind.INT: int, Kind.FLOAT: float, Kind.TEXT: str, Kind.BOOL: bool}
SMALLEST, LARGEST = -(2**63), 2**63
EARLIEST = -TIME_LIMIT
LEAST_EXACT = -EXACT_FLOAT
MANY_TYPES = 1024
READ_TIME: dict[str, Callable[[Any], int | None]] = {LOCAL: local_ticks, ZONED: zoned_ticks, DATES: date_ticks}


def _is_text(type: pa.DataType) -> bool:
    return is_text_type(type.value_type if pa.types.is_dictionary(type) else type)


SHOWN: dict[Kind, Callable[[pa.DataType], bool]] = {
    Kind.INT: pa.types.is_int64,
    Kind.FLOAT: pa.types.is_float64,
    Kind.BOOL: pa.types.is_boolean,
    Kind.TEXT: _is_text,
    **dict.fromkeys((Kind.TIME, Kind.DECIMAL, Kind.NULL), lambda _: True),  # only null in a row that was read here
}


class OneRow(Items):
    """Items of one row, whose payload is made when someone looks."""

    __slots__ = ("_made", "is_known", "nulls", "row", "source", "time")
    is_row: ClassVar[bool] = True

    def __init__(self, source: RowEncoder, has_eid: bool, columns: dict[str, Column]) -> None:
        self.types = np.zeros(1, np.int32)
        self.start, self.end = np.zeros(1, np.int64), np.zeros(1, np.int64)
        self.eid_high: Ints | None = np.zeros(1, np.int64) if has_eid else None
        self.eid_low: Ints | None = np.zeros(1, np.int64) if has_eid else None
        self.columns = columns
        self.kinds = None
        self.sources = None
        self.checked = True
        self.source = source
        self.row: dict[str, Any] = {}
        self.time = 0  # when the event ends
        self.is_known = False  # whether anybody asked for its type
        self.nulls = False  # whether an attribute is null
        self._made: tuple[dict[str, Any], pa.RecordBatch] | None = None

    @property
    def payload(self) -> pa.RecordBatch:
        if self._made is None or self._made[0] is not self.row:
            self._made = self.row, self.source.items((self.row,)).payload
        return self._made[1]

    def copy(self) -> OneRow:
        """Return the row as Items with arrays of their own."""
        columns = {
            name: Column(column.kind, column.values.copy(), None if column.valid is None else column.valid.copy())
            for name, column in self.columns.items()
        }
        made = OneRow(self.source, False, columns)
        made.types, made.start, made.end = self.types.copy(), self.start.copy(), self.end.copy()
        made.eid_high = None if self.eid_high is None else self.eid_high.copy()
        made.eid_low = None if self.eid_low is None else self.eid_low.copy()
        made.row, made.time, made.is_known, made.nulls = self.row, self.time, self.is_known, self.nulls
        return made


class LentRow(OneRow):
    """One row in memory that is written again for the next row: whoever keeps it takes `copy()`, or only `row`."""

    __slots__ = ()
    single: ClassVar[bool] = True

    def twin(self) -> LentRow:
        """The next rows too, in the same memory but with eids of its own."""
        made = LentRow(self.source, True, self.columns)
        made.types, made.start, made.end = self.types, self.start, self.end
        return made


class RowEncoder:
    """Single dicts for the detectors that an Encoder serves, once it saw a batch; `times`: how they are written."""

    def __init__(self, encoder: Encoder, columns: Columns, times: str = TICKS) -> None:
        self.encoder = encoder
        self._ticks = READ_TIME.get(times)
        self.columns = columns
        self._names = columns.type, columns.time, columns.end, columns.eid
        self._type_name, self._time_name, _, self._eid_name = self._names
        self._some_unread = encoder.other < 0 and columns.end is None
        self._unread: set[str] = set()  # types that events had, and nobody asks for
        is_quick = self._ticks is None and columns.eid is None
        self.passing = self._quick_passing() if is_quick else self._passing
        self.codes = {name: code for code, name in enumerate(encoder.types)}
        self.kinds: dict[str, type] = {
            name: PLAIN[field.kind]
            for name, field in encoder.fields.items()
            if field.kind in PLAIN and _is_wide(encoder.shape.get(name))
        }
        self.kinds |= {columns.type: str, columns.time: int}
        if columns.end is not None:
            self.kinds[columns.end] = int
        if columns.eid is not None and columns.eid not in self.kinds:
            self.kinds[columns.eid] = int if pa.types.is_integer(encoder.shape.get("eid", pa.string())) else str
        self.large = {columns.time, columns.end, columns.eid}  # where numbers beyond 2**53 are nothing new
        wanted = {name: field.kind for name, field in encoder.wanted.items() if field.kind in PLAIN}
        self.complete = len(wanted) == len(encoder.wanted) and all(getattr(columns, role) is None for role in OPTIONAL)
        self._lay_out(wanted)

    @property
    def has_eid(self) -> bool:
        return self.columns.eid is not None

    def _lay_out(self, wanted: dict[str, Kind]) -> None:
        """The arrays of one row, and views of them that take Python's numbers."""
        values = {
            name: Column(kind, _cell(np.float64 if kind is Kind.FLOAT else np.int64), np.ones(1, np.bool_))
            for name, kind in wanted.items()
        }
        self.one = LentRow(self, self.has_eid, values)
        arrays = (self.one.types, self.one.start, self.one.end, self.one.eid_high, self.one.eid_low)
        views: list[Any] = [None if array is None else array.data for array in arrays]
        self._types, self._start, self._end, self._high, self._low = views
        found = {EID: self.columns.eid or EID, TYPE: self.columns.type}  # where the row has what is called otherwise
        self._cells: list[tuple[str, bool, Any, Any]] = [
            (found.get(name, name), column.kind is Kind.TEXT, column.values.data, column.valid.data)
            for name, column in values.items()
            if column.valid is not None
        ]

    def _quick_passing(self) -> Callable[[dict[str, Any]], int | None]:
        """A quick form of `_passing` for types that are known to be unread, as most events are."""
        unread, type_name, time_name, slowly = self._unread, self._type_name, self._time_name, self._passing

        def passing(row: dict[str, Any]) -> int | None:
            try:
                if row[type_name] in unread and type(time := row[time_name]) is int and EARLIEST < time < TIME_LIMIT:
                    return time
            except (KeyError, TypeError):
                pass
            return slowly(row)

        return passing

    def _passing(self, row: dict[str, Any]) -> int | None:
        """The end of an event of a type that no query reads; None if one does, or if the time must be parsed first."""
        kind, time = row.get(self._type_name), row.get(self._time_name)
        if type(kind) is not str or (kind not in self._unread and not self._is_unread(kind)):
            return None
        if self._ticks is not None:
            time = self._ticks(time)
        if type(time) is not int or not EARLIEST < time < TIME_LIMIT:
            return None
        eid = self._eid_name
        if eid is not None and (row.get(eid) is None or not self._is_plain({eid: row[eid]})):
            return None
        return time

    def _is_unread(self, kind: str) -> bool:
        """Whether nobody asks for events of a type; remembered, as there are few types."""
        unread = self._some_unread and kind not in self.codes and (kind.isascii() or is_encodable(kind))
        if unread and len(self._unread) < MANY_TYPES:
            self._unread.add(kind)
        return unread

    def encode(self, row: dict[str, Any]) -> OneRow | None:
        """The row as Items of its own, or None if it is not as plain as this needs."""
        return self.one.copy() if self.read(row) else None

    def read(self, row: dict[str, Any]) -> bool:
        """Put a row into `one`. False: it is not as plain as this needs."""
        row = row.copy()
        if self._ticks is not None and not self._read_times(row, self._ticks):
            return False
        return self.complete and self._is_plain(row) and self.take(row)

    def _read_times(self, row: dict[str, Any], ticks: Callable[[Any], int | None]) -> bool:
        """Put ticks in the place of points in time."""
        _, time_name, end_name, _ = self._names
        row[time_name] = time = ticks(row.get(time_name))
        if end_name is None:
            return time is not None
        row[end_name] = end = ticks(row.get(end_name))
        return time is not None and end is not None

    def take(self, row: dict[str, Any]) -> bool:
        """Put a plain row, whose times are ticks, into `one`, which keeps it. False: times or eid are missing."""
        one, (type_name, time_name, end_name, eid_name) = self.one, self._names
        kind, time = row.get(type_name), row.get(time_name)
        end = time if end_name is None else row.get(end_name)
        if kind is None or time is None or end is None or not EARLIEST < time <= end < TIME_LIMIT:
            return False
        if eid_name is not None:
            eid = row.get(eid_name)
            if eid is None:
                return False
            self._high[0], self._low[0] = (eid, 0) if type(eid) is int else eid_number(eid)
        self._types[0] = code = self.codes.get(kind, self.encoder.other)
        one.is_known = code >= 0
        self._start[0] = time
        self._end[0] = one.time = end
        one.row = row
        self._read_cells(row)
        return True

    def _read_cells(self, row: dict[str, Any]) -> None:
        """The attributes that a query reads."""
        nulls = False
        for name, is_text, values, valid in self._cells:
            value = row.get(name)
            if value is None:
                nulls = True
                values[0], valid[0] = NO_TEXT if is_text else 0, False
            else:
                values[0], valid[0] = self.encoder.strings.code(value) if is_text else value, True
        self.one.nulls = nulls

    def _is_plain(self, row: dict[str, Any]) -> bool:
        """Whether every value is of the plain Python type that its column has."""
        kinds = self.kinds
        for name, value in row.items():
            kind, known = type(value), kinds.get(name)
            if kind is not known:
                if known is None or not (
                    value is None or (known is float and kind is int and abs(value) <= EXACT_FLOAT)
                ):
                    return False
            elif kind is int:
                if not LEAST_EXACT <= value <= EXACT_FLOAT and (
                    name not in self.large or not SMALLEST <= value < LARGEST
                ):
                    return False
            elif kind is str and not value.isascii() and not is_encodable(value):
                return False
        return True

    def content(self, row: dict[str, Any]) -> dict[str, Any]:
        """What results show of a row that was read before, without the eid; nulls are left out."""
        columns, fields = self.columns, self.encoder.fields
        time = row[columns.time]
        found = {"type": row[columns.type], "start": time, "end": time if columns.end is None else row[columns.end]}
        for name, value in row.items():
            if value is not None and name in fields and name not in found:
                found[name] = float(value) if fields[name].kind is Kind.FLOAT else value
        return found

    def eid(self, row: dict[str, Any]) -> Any:
        """The eid that a row came with."""
        return None if self.columns.eid is None else row[self.columns.eid]

    def code(self, row: dict[str, Any]) -> int:
        """The code of a row's type."""
        return self.codes.get(row[self.columns.type], self.encoder.other)

    @cached_property
    def is_shown_as_read(self) -> bool:
        """Whether results show every attribute as `content` has it: columns of the kinds that the values have."""
        return all(SHOWN[field.kind](self.encoder.shape[name]) for name, field in self.encoder.fields.items())

    def items(self, rows: Sequence[dict[str, Any]]) -> Items:
        """Rows that were read before, as results show them: with the same columns as every batch, no attributes."""
        columns = self.columns
        start = np.array([row[columns.time] for row in rows], np.int64)
        end = start if columns.end is None else np.array([row[columns.end] for row in rows], np.int64)
        types = np.array([self.codes.get(row[columns.type], self.encoder.other) for row in rows], np.int32)
        high = low = None
        arrays = {"type": self._array("type", columns.type, rows), "start": pa.array(start), "end": pa.array(end)}
        if columns.eid is not None:
            high, low = np.array([eid_number(row[columns.eid]) for row in rows], np.int64).T.copy()
            arrays["eid"] = self._array("eid", columns.eid, rows)
        for name in self.encoder.fields:
            if name not in arrays:
                arrays[name] = self._array(name, name, rows)
        payload = pa.RecordBatch.from_arrays(list(arrays.values()), list(arrays))
        return Items(types, start, end, high, low, {}, payload)

    def batch(self, rows: Sequence[dict[str, Any]]) -> Items:
        """Rows that were read before, as Items with their attributes."""
        items = self.items(rows)
        for (name, column), (found, is_text, _, _) in zip(self.one.columns.items(), self._cells, strict=True):
            values = [row.get(found) for row in rows]
            valid = np.array([value is not None for value in values], np.bool_)
            coded = [self.encoder.strings.code(value) for value in values] if is_text else [v or 0 for v in values]
            made: Any = np.array(coded, column.values.dtype)
            items.columns[name] = Column(column.kind, made, valid)
        items.checked = True
        return items

    def _array(self, role: str, name: str, rows: Sequence[dict[str, Any]]) -> pa.Array:
        type, values = self.encoder.shape[role], [row.get(name) for row in rows]
        if pa.types.is_dictionary(type):
            return pa.array(values, type.value_type).dictionary_encode().cast(type)
        return pa.array(values, type)


def _cell(dtype: Any) -> Any:
    return np.zeros(1, dtype)


def _is_wide(type: pa.DataType | None) -> bool:
    """Whether every plain number fits into the column as results show it."""
    if type is None or not (pa.types.is_integer(type) or pa.types.is_floating(type)):
        return type is None or not pa.types.is_decimal(type)
    return bool(type == pa.int64() or type == pa.float64())
