"""Check what Arrow does not: a column that somebody made by hand may point outside of its own bytes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tocsin.encode.rehearsal import loops_are_worth
from tocsin.encode.text_numbers import frozen
from tocsin.encode.thread_team import ALONE, ThreadTeam
from tocsin.errors import InputError, printable

DECODE = "decode the column before it is given here"
MANY = 1 << 16  # texts that are worth a compiled loop
AT_ONCE = 1 << 20
OFFSETS = {"string": np.int32, "binary": np.int32, "large_string": np.int64, "large_binary": np.int64}


def checked(table: pa.Table, workers: ThreadTeam = ALONE) -> pa.Table:
    """The table, if each text and each index lies inside of its column; no text itself is looked at.

    Other code reads such columns as they are, and a wrong offset would end the process.
    """
    for field, column in zip(table.schema, table.columns, strict=True):
        for chunk in column.chunks:
            if not _is_sound(chunk, workers):
                raise InputError(
                    printable(f"the column {field.name!r} is broken: its offsets point outside of its bytes"),
                    hint="write the table anew; `table.validate(full=True)` of pyarrow says more",
                )
    return table


@contextmanager
def readable_texts() -> Iterator[None]:
    """Have a text that is no UTF-8 be an error with advice, wherever it is first read."""
    try:
        yield
    except UnicodeDecodeError as problem:
        raise InputError("a text is not valid UTF-8", detail=str(problem), hint=DECODE) from None


def refuse_unreadable(column: pa.Array | pa.ChunkedArray, name: str) -> None:
    """Refuse a column with a text that is no UTF-8: before anything has changed, or where nothing else reads it."""
    try:
        column.validate(full=True)
    except pa.ArrowInvalid as problem:
        if "UTF8" in str(problem):
            raise InputError(
                printable(f"the column {name!r} has a text that is not valid UTF-8"),
                detail=printable(str(problem)),
                hint=DECODE,
            ) from None


def _is_sound(array: pa.Array, workers: ThreadTeam = ALONE) -> bool:
    try:
        array.validate()
    except pa.ArrowInvalid:
        return False
    width = OFFSETS.get(str(array.type))
    if width is None:
        return pa.types.is_primitive(array.type) or _is_valid(array)
    _, offsets, data = array.buffers()
    if offsets is None or not len(array):
        return True
    if offsets.size < (array.offset + len(array) + 1) * np.dtype(width).itemsize:
        return False
    places = np.frombuffer(offsets, width)[array.offset : array.offset + len(array) + 1]
    inside = places[0] >= 0 and places[-1] <= (0 if data is None else data.size)
    return bool(inside and _ascend(places, workers))


def _ascend(places: npt.NDArray[Any], workers: ThreadTeam) -> bool:
    """Whether no number is smaller than the one before it."""
    if not loops_are_worth(len(places), MANY):
        return bool((places[1:] >= places[:-1]).all())
    from tocsin.encode import loops

    flat = frozen(places)
    firsts = range(0, len(flat) - 1, AT_ONCE)
    return all(workers.all([partial(loops.ascend, flat[at : at + AT_ONCE + 1]) for at in firsts]))


def _is_valid(array: pa.Array) -> bool:
    """What Arrow finds in a column of another layout; texts that are no UTF-8 are met when they are read."""
    if pa.types.is_dictionary(array.type):
        return _is_sound(array.dictionary) and _are_indices(array)
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as problem:
        return "UTF8" in str(problem)
    return True


def _are_indices(array: pa.DictionaryArray) -> bool:
    try:
        pa.DictionaryArray.from_arrays(array.indices, pa.nulls(len(array.dictionary)), safe=True)
    except (pa.ArrowInvalid, IndexError):
        return False
    return True
