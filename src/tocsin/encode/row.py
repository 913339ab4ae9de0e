"""One event from a dict to Items in a few microseconds: plain values only, everything else takes the longer way.

Arrow is left out until a result needs the row: `OneRow` makes its payload when it is asked for it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from tocsin.encode.batch import Encoder
from tocsin.encode.columns import OPTIONAL, Columns
from tocsin.encode.values import EXACT_FLOAT
from tocsin.events import TIME_LIMIT, eid_number
from tocsin.items import NO_TEXT, Column, Ints, Items
from tocsin.schema import Kind

PLAIN: dict[Kind, type] = {Kind.INT: int, Kind.FLOAT: float, Kind.TEXT: str, Kind.BOOL: bool}
LARGEST = 2**63


class OneRow(Items):
    """Items of one row whose payload is made when someone looks."""

    __slots__ = ("_encoder", "_made", "_row")

    def __init__(
        self,
        encoder: RowEncoder,
        row: dict[str, Any],
        types: Any,
        start: Ints,
        end: Ints,
        eids: tuple[Any, Any],
        columns: Any,
    ) -> None:
        self.types, self.start, self.end, self.columns = types, start, end, columns
        self.eid_high, self.eid_low = eids
        self.signs = None
        self._encoder, self._row = encoder, row
        self._made: pa.RecordBatch | None = None

    @property
    def payload(self) -> pa.RecordBatch:
        if self._made is None:
            self._made = self._encoder.payload(self._row, int(self.start[0]), int(self.end[0]))
        return self._made


class RowEncoder:
    """Single dicts for the detectors that an Encoder serves, once it has seen a batch."""

    def __init__(self, encoder: Encoder, columns: Columns) -> None:
        self.encoder = encoder
        self.columns = columns
        self.codes = {name: np.array([code], np.int32) for code, name in enumerate(encoder.types)}
        self.other = np.array([-1], np.int32)
        self.yes, self.no = np.ones(1, np.bool_), np.zeros(1, np.bool_)
        self.kinds: dict[str, type] = {
            name: PLAIN[field.kind] for name, field in encoder.fields.items() if field.kind in PLAIN
        }
        self.kinds |= {columns.type: str, columns.time: int}
        if columns.end is not None:
            self.kinds[columns.end] = int
        self.eid_kind = self.kinds.get(columns.eid) if columns.eid is not None else None
        if columns.eid is not None and self.eid_kind is None:
            self.eid_kind = int if pa.types.is_integer(encoder.shape.get("eid", pa.string())) else str
            self.kinds[columns.eid] = self.eid_kind
        self.wanted = [(name, field) for name, field in encoder.wanted.items() if field.kind in PLAIN]
        self.complete = len(self.wanted) == len(encoder.wanted) and all(
            getattr(columns, role) is None for role in OPTIONAL
        )

    def passing(self, row: dict[str, Any]) -> int | None:
        """When an event ends that nobody asked for; None if somebody did, or its time is not plain."""
        kind, time = row.get(self.columns.type), row.get(self.columns.time)
        if type(kind) is not str or kind in self.codes or type(time) is not int or self.columns.end is not None:
            return None
        return time if -TIME_LIMIT < time < TIME_LIMIT and "end" not in row else None

    def encode(self, row: dict[str, Any]) -> Items | None:
        """The row as Items, or None if it is not as plain as this needs."""
        if not self.complete or not self._is_plain(row):
            return None
        columns = self.columns
        type, time = row.get(columns.type), row.get(columns.time)
        end = time if columns.end is None else row.get(columns.end)
        if type is None or time is None or end is None or not -TIME_LIMIT < time <= end < TIME_LIMIT:
            return None
        eids: tuple[Any, Any] = (None, None)
        if columns.eid is not None:
            eid = row.get(columns.eid)
            if eid is None:
                return None
            high, low = eid_number(eid)
            eids = np.array((high,), np.int64), np.array((low,), np.int64)
        start = np.array((time,), np.int64)
        ends = start if end == time else np.array((end,), np.int64)
        values = {name: self._column(row.get(name), field.kind) for name, field in self.wanted}
        return OneRow(self, row, self.codes.get(type, self.other), start, ends, eids, values)

    def _is_plain(self, row: dict[str, Any]) -> bool:
        """Whether every value is of the plain Python type that its column has."""
        kinds = self.kinds
        for name, value in row.items():
            kind = type(value)
            if kind is not kinds.get(name):
                known = kinds.get(name)
                if known is None or not (
                    value is None or (known is float and kind is int and abs(value) <= EXACT_FLOAT)
                ):
                    return False
            elif (kind is int and not -LARGEST <= value < LARGEST) or (kind is str and not value.isascii()):
                return False
        return True

    def _column(self, value: Any, kind: Kind) -> Column:
        dtype: Any = np.float64 if kind is Kind.FLOAT else np.int64
        if value is None:
            return Column(kind, np.array((NO_TEXT if kind is Kind.TEXT else 0,), dtype), self.no)
        if kind is Kind.TEXT:
            value = self.encoder.strings.code(value)
        return Column(kind, np.array((value,), dtype), None)

    def payload(self, row: dict[str, Any], start: int, end: int) -> pa.RecordBatch:
        """The row as results show it, with the same columns as every batch."""
        shape = self.encoder.shape
        values = {"type": row[self.columns.type], "start": start, "end": end}
        if self.columns.eid is not None:
            values["eid"] = row[self.columns.eid]
        for name in self.encoder.fields:
            values.setdefault(name, row.get(name))
        types = {"start": pa.int64(), "end": pa.int64()}
        arrays = [self._cell(value, types.get(name) or shape[name]) for name, value in values.items()]
        return pa.RecordBatch.from_arrays(arrays, list(values))

    @staticmethod
    def _cell(value: Any, type: pa.DataType) -> pa.Array:
        if pa.types.is_dictionary(type):
            return pa.array((value,), type.value_type).dictionary_encode().cast(type)
        return pa.array((value,), type)
