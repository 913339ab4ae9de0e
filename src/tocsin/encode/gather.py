"""Some rows of columns, as Arrow's `take` gives them: texts and numbers without nulls are copied by compiled loops."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from tocsin.encode.arrow import one_array
from tocsin.encode.rehearsal import answer_loops_are_worth
from tocsin.encode.text_numbers import frozen, text_buffers
from tocsin.items import Ints, is_sorted

MOST_BYTES = 2**31 - 1  # of the texts of a column whose offsets are short
ROOMY = 2  # so many times the bytes that as many texts have on average


def taken(column: pa.Array | pa.ChunkedArray, places: Ints) -> pa.Array:
    """The values at some places, in one piece.

    >>> taken(pa.array(["a", "b", "c"]), np.array([2, 0])).to_pylist()
    ['c', 'a']
    """
    if isinstance(column, pa.ChunkedArray):
        if column.num_chunks != 1:
            return _of_pieces(column, places)
        column = column.chunk(0)
    found = None
    if answer_loops_are_worth(len(places)) and not column.null_count:
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            found = _texts(column, places)
        elif pa.types.is_primitive(column.type) and column.type.bit_width == 64:
            found = _words(column, places)
    return column.take(pa.array(places)) if found is None else found


def all_taken(columns: Sequence[pa.Array | pa.ChunkedArray], places: Ints) -> list[pa.Array]:
    """The values of several columns at some places; numbers that are a column under two names are copied once."""
    known: dict[tuple[Any, ...], pa.Array] = {}
    found = []
    for column in columns:
        where = _where(column) if pa.types.is_primitive(column.type) else (id(column),)
        if where not in known:
            known[where] = taken(column, places)
        found.append(known[where])
    return found


def words_at(values: Ints, places: Ints) -> Ints:
    """The words at some places."""
    if not answer_loops_are_worth(len(places)) or values.dtype != np.int64 or not values.flags.c_contiguous:
        found: Ints = values[places]
        return found
    from tocsin.encode import answer_loops as loops

    out = np.empty(len(places), np.int64)
    loops.pick(frozen(values), frozen(places), out)
    return out


def _where(column: pa.Array | pa.ChunkedArray) -> tuple[Any, ...]:
    """Where the numbers of a column lie."""
    if isinstance(column, pa.ChunkedArray):
        return (column.type, *map(_where, column.chunks))
    buffers = (None if each is None else each.address for each in column.buffers())
    return (column.type, column.offset, len(column), *buffers)


def _of_pieces(column: pa.ChunkedArray, places: Ints) -> pa.Array:
    """The values of a column in pieces: each for itself, if places ascend, so that pieces follow each other."""
    if not answer_loops_are_worth(len(places)) or not is_sorted(places) or not column.num_chunks:
        return one_array(column.take(pa.array(places)))
    begins = np.cumsum([0, *map(len, column.chunks)])
    cuts = pairwise(np.searchsorted(places, begins).tolist())
    found = [
        taken(chunk, places[first:last] - begin)
        for chunk, begin, (first, last) in zip(column.chunks, begins.tolist(), cuts, strict=False)
        if first < last
    ]
    return one_array(pa.chunked_array(found, column.type))


def _words(column: pa.Array, places: Ints) -> pa.Array:
    """Values of eight bytes."""
    from tocsin.encode import answer_loops as loops

    values = np.frombuffer(column.buffers()[1], np.int64)[column.offset : column.offset + len(column)]
    out = np.empty(len(places), np.int64)
    loops.pick(frozen(values), frozen(places), out)
    return pa.Array.from_buffers(column.type, len(out), [None, pa.py_buffer(out)])


def _texts(column: pa.Array, places: Ints) -> pa.Array | None:
    """Texts; None if they are too many for the offsets that their column has."""
    from tocsin.encode import answer_loops as loops

    offsets, data, _ = text_buffers(column)
    begins: Any = np.empty(len(places) + 1, offsets.dtype)
    room = ROOMY * len(places) * (1 + (int(offsets[-1]) - int(offsets[0])) // max(1, len(column))) + 16
    size = -1
    if room <= MOST_BYTES:  # what is not written to takes no memory
        out = np.empty(room, np.uint8)
        size = loops.take_texts(offsets, data, frozen(places), begins, out)
    if size < 0:
        size = loops.place_texts(offsets, frozen(places), begins)
        if offsets.dtype == np.int32 and size > MOST_BYTES:
            return None
        out = np.empty(size + 8, np.uint8)
        loops.copy_texts(offsets, data, frozen(places), frozen(begins), out)
    return pa.Array.from_buffers(column.type, len(places), [None, pa.py_buffer(begins), pa.py_buffer(out[:size])])
