"""Eids as two numbers: `events.eid_number` for whole columns, in one compiled loop."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.encode.arrow import Problems, integers, is_text, marks, one_array
from tocsin.errors import InputError
from tocsin.items import Ints


def eid_problems(column: pa.ChunkedArray) -> Problems:
    """The rows of a whole column that have no eid, or one that is no eid; nothing else of the eids is read."""
    if pa.types.is_integer(column.type) and column.type != pa.uint64() and not column.null_count:
        return []
    if is_text(column.type):
        return [(marks(pc.is_null(column)), "the eid is null")] if column.null_count else []
    return eids(one_array(column))[2]


def eids(array: pa.Array) -> tuple[Ints, Ints, Problems]:
    """`events.eid_number` of every row, with the rows that have none."""
    problems: Problems = []
    if array.null_count:
        problems.append((marks(pc.is_null(array)), "the eid is null"))
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_integer(array.type):
        values, beyond = integers(array)
        if beyond is not None and beyond.any():
            problems.append((beyond, "the eid does not fit into 64 bits"))
        return values, np.zeros(len(array), np.int64), problems
    if is_text(array.type):
        return *hash_texts(array), problems
    if pa.types.is_null(array.type):
        return np.zeros(len(array), np.int64), np.zeros(len(array), np.int64), problems
    raise InputError(
        f"the eid column is of type {array.type}",
        detail="an eid is a whole number or a text",
        hint="convert the column, or name another one as the eid",
    )


def hash_texts(array: pa.Array) -> tuple[Ints, Ints]:
    """`events.eid_number` of every text of an Arrow column, in one compiled loop. Nulls give (0, 0)."""
    if array.type != pa.large_string():
        array = array.cast(pa.large_string())
    rows = len(array)
    high, low = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
    if rows:
        _, offsets, data = array.buffers()
        raw = np.frombuffer(data if data is not None and data.size else bytes(1), np.uint8)  # read-only, one signature
        _hash_kernel()(np.frombuffer(offsets, np.int64)[array.offset : array.offset + rows + 1], raw, high, low)
        if array.null_count:
            gone = marks(pc.is_null(array))
            high[gone] = low[gone] = 0
    return high, low


def prepare_hashing() -> None:
    """Compile or load the loop of `hash_texts` now."""
    hash_texts(pa.array(["eid"]))


@lru_cache(maxsize=1)
def _hash_kernel() -> Callable[[Ints, Any, Ints, Ints], None]:
    """The loop of `hash_texts`; compiled when first needed, so that importing Tocsin does not load Numba."""
    from numba import njit

    kernel: Callable[[Ints, Any, Ints, Ints], None] = njit(cache=True, nogil=True)(_hash_rows)
    return kernel


def _hash_rows(offsets: Any, data: Any, high: Any, low: Any) -> None:
    for row in range(len(high)):
        first, last = offsets[row], offsets[row + 1]
        prefix = np.uint64(0)
        for place in range(8):
            prefix = prefix << np.uint64(8)
            if first + place < last:
                prefix = prefix | np.uint64(data[first + place])
        value = np.uint64(0xCBF29CE484222325)
        for at in range(first, last):
            value = (value ^ np.uint64(data[at])) * np.uint64(0x100000001B3)
        value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        value = value ^ (value >> np.uint64(31))
        high[row] = np.int64(prefix ^ np.uint64(0x8000000000000000))
        low[row] = np.int64(value) if value != 0 else np.int64(1)
