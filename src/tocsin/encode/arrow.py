"""Read values out of Arrow arrays: the helpers that the encoders share, and the error that names a bad row."""

from __future__ import annotations

import signal
import threading
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.errors import InputError
from tocsin.items import Bools, Ints

Problems: TypeAlias = list[tuple[Bools, str]]  # for each reason the rows it concerns


class BadRowError(InputError):
    """One row is wrong; `row` counts from 0 in the batch, the message from 1."""

    def __init__(self, row: int, reason: str, *, detail: str | None = None, hint: str | None = None) -> None:
        super().__init__(f"row {row + 1}: {reason}", detail=detail, hint=hint)
        self.row = row
        self.reason = reason


def is_text(type: pa.DataType) -> bool:
    return bool(pa.types.is_string(type) or pa.types.is_large_string(type) or pa.types.is_string_view(type))


def is_instant(type: pa.DataType) -> bool:
    """Whether values of the type are points in time."""
    return bool(pa.types.is_timestamp(type) or pa.types.is_date(type))


def without_null_entries(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with nulls where a row points to a null in the dictionary of its column.

    Arrow allows nulls among the values of a dictionary, and does not count them as nulls of the column.
    """
    for place, field in enumerate(batch.schema):
        if pa.types.is_dictionary(field.type) and batch.column(place).dictionary.null_count:
            coded = batch.column(place).dictionary_decode().dictionary_encode()
            indices = coded.indices.cast(field.type.index_type)
            array = pa.DictionaryArray.from_arrays(indices, coded.dictionary)
            batch = batch.set_column(place, field.name, array)
    return batch


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """A column in one piece; it is copied only if it has several."""
    if not column.num_chunks:
        return pa.nulls(0, column.type)
    if column.num_chunks == 1:
        return column.chunk(0)
    whole = column.combine_chunks()
    return whole if isinstance(whole, pa.Array) else pa.concat_arrays(whole.chunks)


def plain(array: pa.Array) -> Any:
    """The values of a fixed-width array: without a copy where there are no nulls, 0 in place of nulls."""
    if array.null_count:
        array = pc.fill_null(array, False if pa.types.is_boolean(array.type) else 0)
    return array.to_numpy(zero_copy_only=False)


def masked(values: Any, array: pa.Array) -> Any:
    """The values with 0 where the array is null."""
    return np.where(marks(pc.is_valid(array)), values, 0) if array.null_count else values


def marks(array: pa.Array) -> Bools:
    """A boolean Arrow array as NumPy."""
    found: Bools = array.to_numpy(zero_copy_only=False)
    return found


def integers(array: pa.Array) -> tuple[Ints, Bools | None]:
    """Return integers as int64, and a mask of those that do not fit (None: the type cannot hold such)."""
    raw = plain(array)
    if array.type == pa.uint64():
        return raw.astype(np.int64), raw > np.uint64(2**63 - 1)
    return raw if raw.dtype == np.int64 else raw.astype(np.int64), None


@lru_cache(maxsize=1)
def look_for_pandas() -> None:
    """Have Arrow look for pandas now, and let no interrupt be lost meanwhile.

    Arrow does so with the first array of NumPy: an interrupt that comes while pandas is imported is swallowed, and what
    is half imported then breaks later imports.
    """
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        pa.array(np.zeros(0))
        return
    came: list[Any] = []
    signal.signal(signal.SIGINT, lambda *said: came.append(said))
    try:
        pa.array(np.zeros(0))
    finally:
        signal.signal(signal.SIGINT, handler)
    if came:
        handler(*came[0])
