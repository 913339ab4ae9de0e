"""Result tables of Arrow: times shown as times, tables of several queries joined, structs flattened."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.events import TIME_LIMIT
from tocsin.schema import RESULT_COLUMNS

HEAD = RESULT_COLUMNS
TIMES = ("start", "end", "settled_at")
YEAR_9999 = 253_402_214_400_000_000  # microseconds until its last day, which is over earlier in some zones
EVENT = ("eid", "type", "start", "end")  # the fields that the struct of a variable begins with


def is_event(type: pa.DataType) -> bool:
    """Whether a column holds the event of a variable."""
    return pa.types.is_struct(type) and tuple(field.name for field in type)[:4] == EVENT


def is_events(type: pa.DataType) -> bool:
    """Whether a column holds the events of a repeated variable."""
    return bool((pa.types.is_list(type) or pa.types.is_large_list(type)) and is_event(type.value_type))


def variables(table: pa.Table) -> list[str]:
    """The columns that are variables."""
    return [field.name for field in table.schema if is_event(field.type) or is_events(field.type)]


MOMENT = {b"tocsin": b"moment"}  # marks a column of SELECT that is shown as start and end are


def moments_marked(table: pa.Table, names: Container[str]) -> pa.Table:
    """The table with marks at columns that are where an event starts or ends."""
    fields = [field.with_metadata(MOMENT) if field.name in names else field for field in table.schema]
    return table.cast(pa.schema(fields))


def with_times(table: pa.Table, time: pa.DataType | None) -> pa.Table:
    """The table with its times as the input had them: timestamps of its zone, or ticks (None)."""
    for place, field in enumerate(table.schema):
        column = table.column(place)
        if place < len(HEAD) and field.name in TIMES:
            shown = _instants(column, time)
            table = table.set_column(place, field.name, _sayable(shown) if field.name == "settled_at" else shown)
        elif field.metadata == MOMENT:
            table = table.set_column(place, field.name, _instants(column, time))
        elif is_event(field.type) or is_events(field.type):
            chunks = [_events(chunk, time) for chunk in column.chunks] or [_events(pa.nulls(0, field.type), time)]
            table = table.set_column(place, field.name, pa.chunked_array(chunks))
    return table


def instants(ticks: list[int], time: pa.DataType | None) -> list[Any]:
    """Times as the input had them; None at the ends of the world."""
    shown: list[Any] = _sayable(_instants(pa.array(ticks, pa.int64()), time)).to_pylist()
    return shown


def _sayable(column: Any) -> Any:
    """Deadlines behind the year 9999 are null: a window may reach there, and Python and Spark have no such dates."""
    if not pa.types.is_timestamp(column.type):
        return column
    ticks = column.cast(pa.int64())
    latest = pc.max(ticks).as_py()
    if latest is None or latest < YEAR_9999:
        return column
    return pc.if_else(pc.less(ticks, YEAR_9999), column, pa.scalar(None, column.type))


def _instants(column: Any, time: pa.DataType | None) -> Any:
    """Ticks as they are, microseconds as timestamps; times at the ends of the world are null."""
    column = column.cast(pa.int64())
    low, high = pc.min_max(column).as_py().values()
    ends = low is not None and not (low > -TIME_LIMIT and high < TIME_LIMIT)
    shown = pc.if_else(_within(column), column, pa.scalar(None, pa.int64())) if ends else column
    return shown if time is None else shown.cast(pa.timestamp("us", time.tz if pa.types.is_timestamp(time) else None))


def _within(column: Any) -> Any:
    return pc.and_(pc.less(column, TIME_LIMIT), pc.greater(column, -TIME_LIMIT))


def _events(array: pa.Array, time: pa.DataType | None) -> pa.Array:
    if is_events(array.type):
        inner = _events(array.values, time)
        make = pa.LargeListArray if pa.types.is_large_list(array.type) else pa.ListArray
        return make.from_arrays(array.offsets, inner, mask=pc.is_null(array) if array.null_count else None)
    names = [field.name for field in array.type]
    fields = [array.field(place) for place in range(len(names))]
    fields = [
        _instants(each, time) if name in ("start", "end") else each for name, each in zip(names, fields, strict=True)
    ]
    if array.offset or len(array) != len(fields[0]):
        fields = [each.slice(array.offset, len(array)) for each in fields]
    return pa.StructArray.from_arrays(fields, names, mask=pc.is_null(array) if array.null_count else None)


def net(table: pa.Table) -> pa.Table:
    """What is left when every withdrawal has taken its match away: each match once, with op +1."""
    ops = table.column("op").to_numpy()
    if (ops > 0).all():
        return table
    ids = table.column("match_id").combine_chunks().dictionary_encode()
    codes = ids.indices.to_numpy() if isinstance(ids, pa.DictionaryArray) else np.zeros(0, np.int64)
    sums = np.bincount(codes, weights=ops).astype(np.int64)
    keep = np.zeros(len(ops), np.bool_)
    last = {int(code): row for row, code in enumerate(codes) if ops[row] > 0}
    keep[[row for code, row in last.items() if sums[code] > 0]] = True
    return table.filter(pa.array(keep))


def joined(tables: list[pa.Table]) -> pa.Table:
    """Tables of several queries as one; a column that only one of them has is null elsewhere."""
    if len(tables) == 1:
        return tables[0]
    if not tables:
        return pa.table({})
    names = list(dict.fromkeys(name for table in tables for name in table.schema.names))
    types = {name: _common(_types(tables, name)) for name in names}
    marked = {field.name for table in tables for field in table.schema if field.metadata == MOMENT}
    return moments_marked(pa.concat_tables([_conform(table, types) for table in tables]), marked)


def _types(tables: list[pa.Table], name: str) -> list[pa.DataType]:
    """The types of a column; where it shows nothing its type means nothing, if another table knows better."""
    having = [table.column(name) for table in tables if name in table.schema.names]
    telling = [column.type for column in having if _shows(column)]
    return telling or [column.type for column in having]


def _shows(column: pa.ChunkedArray) -> bool:
    """Whether there is any value, or any member of a repetition."""
    return column.null_count < len(column) and not (
        is_events(column.type) and not pc.sum(pc.list_value_length(column)).as_py()
    )


def _common(types: list[pa.DataType]) -> pa.DataType:
    """A type that can hold values of all: structs field by field, what does not fit as text."""
    if all(type == types[0] for type in types):
        return types[0]
    if all(pa.types.is_struct(type) for type in types):
        names = list(dict.fromkeys(field.name for type in types for field in type))
        return pa.struct(
            [(name, _common([t.field(name).type for t in types if t.get_field_index(name) >= 0])) for name in names]
        )
    if all(is_events(type) for type in types):
        return pa.list_(_common([type.value_type for type in types]))
    rest = [type for type in types if not pa.types.is_null(type)]
    if len(rest) < len(types):
        return _common(rest)
    if all(pa.types.is_integer(type) or pa.types.is_floating(type) for type in types):
        return pa.float64()
    return pa.string()


def _conform(table: pa.Table, types: dict[str, pa.DataType]) -> pa.Table:
    rows = table.num_rows
    arrays = []
    for name, type in types.items():
        if name not in table.schema.names or table.column(name).null_count == rows:
            arrays.append(pa.nulls(rows, type))
        elif table.schema.field(name).type == type:
            arrays.append(table.column(name))
        else:
            values = table.column(name).to_pylist()
            arrays.append(pa.array([_as_text(v) for v in values] if pa.types.is_string(type) else values, type))
    return pa.table(arrays, names=list(types))


def _as_text(value: Any) -> str | None:
    return None if value is None else str(value)


def flat(table: pa.Table) -> pa.Table:
    """Structs as columns `var.attr`; lists as JSON text. What CSV can hold."""
    import json

    names: list[str] = []
    arrays: list[Any] = []
    for name in table.schema.names:
        column = table.column(name)
        if pa.types.is_struct(column.type):
            for part in column.type:
                names.append(f"{name}.{part.name}")
                arrays.append(pc.struct_field(column, part.name))
        elif pa.types.is_nested(column.type):
            names.append(name)
            texts = [None if v is None else json.dumps(v, default=str, ensure_ascii=False) for v in column.to_pylist()]
            arrays.append(pa.array(texts, pa.string()))
        else:
            names.append(name)
            arrays.append(column)
    return pa.table(arrays, names=names)


def first_rows(tables: list[pa.Table], limit: int) -> list[pa.Table]:
    """The first rows of several tables, so many in all."""
    kept = []
    for table in tables:
        kept.append(table.slice(0, limit))
        limit -= kept[-1].num_rows
    return kept
