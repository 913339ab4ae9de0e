"""Many lines of JSON at once, as columns: only lines that say the same kinds of things as those before them.

Arrow's reader is as strict as Python's and refuses what that refuses; where the two differ, or where a line shows
anything new, there is no batch, and the lines are read one by one, which also says what is wrong with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.encode.columns import Columns
from tocsin.encode.forms import LOCAL, TICKS, TIME_TYPES, ZONED, Form
from tocsin.encode.times import EPOCH, ticks
from tocsin.encode.values import EXACT_FLOAT
from tocsin.events import ANY
from tocsin.run.stream_rows import QUICK, StreamRows
from tocsin.schema import Kind

CONTROL = bytes(each for each in range(32) if each != ord("\n"))
ODD = (b"[", b"\\u", b"Inf", b"NaN", b"\xef\xbb\xbf")  # nested, or read in another way by Arrow
SHORTEST = 19  # letters of a time that has seconds: shorter ones are looked at one by one
EARLIEST = -(EPOCH.toordinal() - 1) * 86_400_000_000  # the first year that Python knows, in microseconds


def columns_of(lines: Sequence[bytes], reading: StreamRows) -> pa.RecordBatch | None:
    """The lines as one batch, if `reading` would read each of them as those before; else None."""
    columns, block = reading.columns, b"\n".join(lines)
    if columns is None or reading.times not in (TICKS, LOCAL, ZONED) or not _is_plain(block, len(lines)):
        return None
    try:
        table = _parsed(block, _schema(reading, columns))
        return None if table.num_rows != len(lines) else _fitting(table, reading, columns)
    except (pa.ArrowException, UnicodeDecodeError):
        return None


def _is_plain(block: bytes, count: int) -> bool:
    """Whether every line is one object without anything inside it, of valid text."""
    if not (block.startswith(b"{") and block.endswith(b"}") and block.count(b"}\n{") == count - 1):
        return False
    if block.count(b"{") != count or block.count(b"}") != count or any(odd in block for odd in ODD):
        return False
    if not block.isascii():
        try:
            block.decode()
        except UnicodeDecodeError:
            return False
    return len(block.translate(None, CONTROL)) == len(block)


def _schema(reading: StreamRows, columns: Columns) -> pa.Schema:
    """The columns that are known; what else there is, Arrow finds out."""
    time = pa.int64() if reading.times == TICKS else pa.string()
    types = {name: form.type for name, form in reading.forms.items() if form.kind in QUICK}
    types |= {columns.type: pa.string(), columns.time: time}
    if columns.end is not None:
        types[columns.end] = time
    if columns.eid is not None:
        types[columns.eid] = pa.int64() if reading.eids is int else pa.string()
    return pa.schema(list(types.items()))


def _parsed(block: bytes, schema: pa.Schema) -> pa.Table:
    json, options = _reader()
    return json.read_json(
        pa.BufferReader(block),
        read_options=json.ReadOptions(use_threads=False, block_size=len(block) + 1),
        parse_options=options(explicit_schema=schema, newlines_in_values=False, unexpected_field_behavior="infer"),
    )


@lru_cache(maxsize=1)
def _reader() -> tuple[Any, Any]:
    from pyarrow import json

    return json, json.ParseOptions


def _fitting(table: pa.Table, reading: StreamRows, columns: Columns) -> pa.RecordBatch | None:
    """The columns as a batch, if all values fit; else None."""
    arrays = {name: column.combine_chunks() for name, column in zip(table.column_names, table.columns, strict=True)}
    own = [name for name in (columns.type, columns.time, columns.end, columns.eid) if name is not None]
    if any(arrays[name].null_count for name in own):
        return None
    names = arrays[columns.type]
    read = pc.is_valid(names) if ANY in reading.reads else pc.is_in(names, pa.array(reading.reads, pa.string()))
    kept: dict[str, pa.Array] = {columns.type: arrays[columns.type]}
    for name in own[1:]:
        made = _times(arrays[name], reading.times) if name in (columns.time, columns.end) else arrays[name]
        if made is None:
            return None
        kept[name] = made
    if columns.end is not None and pc.any(pc.less(kept[columns.end], kept[columns.time])).as_py():
        return None
    for name, array in arrays.items():
        form = reading.forms.get(name)
        if name in own and form is None:
            continue
        if form is None or form.kind not in QUICK:
            ignored = reading.declared and form is None and name not in ("end", "eid")
            if not ignored and array.null_count < len(array) and pc.any(pc.and_(read, pc.is_valid(array))).as_py():
                return None
        elif not _fits(array, form):
            return None
        elif name not in own:
            kept[name] = array
    return pa.RecordBatch.from_arrays(list(kept.values()), list(kept))


def _times(array: pa.Array, times: str) -> pa.Array | None:
    """A column of times as `StreamRows` has it; None if it must be looked at one by one."""
    if times != TICKS:
        lengths = pc.min_max(pc.binary_length(array)).as_py()
        if lengths["min"] < SHORTEST:
            return None
        array = pc.cast(array, TIME_TYPES[times])
        if pc.min(array.view(pa.int64())).as_py() < EARLIEST:
            return None
    return None if ticks(array, "time")[1] else array


def _fits(array: pa.Array, form: Form) -> bool:
    """Whether the numbers of a column are such that Arrow and Python read them alike, and change nothing."""
    if form.kind is Kind.FLOAT:
        values = array.drop_null().to_numpy(zero_copy_only=False)
        exact = np.abs(values) < EXACT_FLOAT  # beyond, a whole number may have been rounded; NaN is none of these
        return bool(exact.all()) and not bool(np.signbit(values[values == 0]).any())
    if form.kind is Kind.INT and not form.is_large and not form.fixed and array.null_count < len(array):
        most = pc.min_max(array).as_py()
        return bool(most["min"] >= -EXACT_FLOAT and most["max"] <= EXACT_FLOAT)
    return True
