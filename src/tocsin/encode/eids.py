"""Eids as two numbers: `events.eid_number` for whole columns, in one compiled loop."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.compilers import Loops
from tocsin.encode.arrow import Problems, integers, is_text, marks, one_array
from tocsin.errors import InputError
from tocsin.events import text_hash
from tocsin.items import Ints

MANY = 1 << 12  # texts that are worth the compiled loop
FEW, LONG = 16, 64  # so many texts, or texts of more bytes, are hashed one by one without it
FNV_BASIS, FNV_PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)


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
        places = np.frombuffer(offsets, np.int64)[array.offset : array.offset + rows + 1]
        (_hash_kernel() if HASHING.are_worth(rows, MANY) else hash_rows_plainly)(places, raw, high, low)
        if array.null_count:
            gone = marks(pc.is_null(array))
            high[gone] = low[gone] = 0
    return high, low


def prepare_hashing() -> None:
    """Compile or load the loop of `hash_texts` now."""
    number = np.zeros(1, np.int64)
    _hash_kernel()(_read_only(np.zeros(2, np.int64)), _read_only(np.zeros(1, np.uint8)), number, number.copy())


def _read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    array.flags.writeable = False
    return array


def hash_rows_plainly(offsets: Ints, data: npt.NDArray[np.uint8], high: Ints, low: Ints) -> None:
    """What the compiled loop does, for as long as it is not there: long texts by themselves, others byte by byte."""
    lengths = np.diff(offsets)
    rows = np.flatnonzero(lengths <= (LONG if len(lengths) > FEW else -1))
    for row in np.flatnonzero(lengths > LONG).tolist() if len(lengths) > FEW else range(len(lengths)):
        text = data[offsets[row] : offsets[row + 1]].tobytes()
        high[row] = int.from_bytes(text[:8].ljust(8, b"\0"), "big") - 2**63
        low[row] = text_hash(text)
    if not len(rows):
        return
    first, left = offsets[rows], lengths[rows]
    value, prefix = np.full(len(rows), FNV_BASIS, np.uint64), np.zeros(len(rows), np.uint64)
    for at in range(max(8, int(left.max(initial=0)))):
        more = np.flatnonzero(left > at)
        byte = data[first[more] + at].astype(np.uint64)
        value[more] = (value[more] ^ byte) * FNV_PRIME
        if at < 8:
            prefix[more] |= byte << np.uint64(8 * (7 - at))
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    value ^= value >> np.uint64(31)
    value[value == 0] = 1
    high[rows] = (prefix ^ np.uint64(0x8000000000000000)).view(np.int64)
    low[rows] = value.view(np.int64)


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


HASHING = Loops(prepare_hashing, Path(__file__), _hash_rows.__name__)
