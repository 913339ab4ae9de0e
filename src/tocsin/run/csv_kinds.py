"""Kinds of CSV columns, exactly: what only looks like a number stays text, and what would lose digits is refused.

Arrow guesses the kinds. Where a guess may have changed a value (`007` or `0x10` as a number, a whole number beyond 64
bits as a float) the texts of the column are looked at again.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.encode.arrow import Problems, marks
from tocsin.encode.columns import kind_of
from tocsin.encode.values import EXACT_FLOAT
from tocsin.items import Bools

NOT_A_NUMBER = r"^[+-]?0[0-9xX]"  # a code with leading zeros, or a number in another base
WHOLE = r"^-?[0-9]+$"
DIGITS_OF_64_BITS = 18  # whole numbers with so many digits always fit
BEGINS, MAYBE = np.zeros(256, np.bool_), np.zeros(256, np.bool_)  # bytes behind which a field begins, or may
BEGINS[list(b',;\t\n\r"')] = MAYBE[list(b"+- ")] = True
AT_ONCE = 1 << 18  # bytes that are looked at in one go, so that what is found out of them stays in a cache
FOLLOWS = np.zeros(256, np.bool_)
FOLLOWS[list(b"0123456789xX")] = True


def doubtful(raw: bytes, table: pa.Table) -> set[str]:
    """The columns whose guessed kind may have changed a value."""
    zeros = has_leading_zeros(raw)
    return {field.name for field, column in zip(table.schema, table.columns, strict=True) if _doubtful(column, zeros)}


def has_leading_zeros(raw: bytes) -> bool:
    """Whether a field anywhere seems to begin with a 0 that a digit or an x follows; one sign or space may be before.

    The zeros of `2026-03-05 09:07` are no such: before their sign or space stands a digit.
    """
    data = np.frombuffer(raw, np.uint8)
    last = len(data) - 1
    return any(_are_leading(data, first, min(first + AT_ONCE, last)) for first in range(1, last, AT_ONCE))


def _are_leading(data: npt.NDArray[np.uint8], first: int, last: int) -> bool:
    """Whether one of the bytes from one place to another is such a zero; there are others on both sides."""
    after_a_digit = data[first - 1 : last - 1] - np.uint8(ord("0")) <= 9  # less would be above 9: bytes go around
    at = np.flatnonzero((data[first:last] == ord("0")) & ~after_a_digit) + first
    at = at[FOLLOWS[data[at + 1]]]
    before, earlier = data[at - 1], data[np.maximum(at - 2, 0)]
    return bool((BEGINS[before] | (MAYBE[before] & (BEGINS | MAYBE)[earlier])).any())


def _doubtful(column: pa.ChunkedArray, zeros: bool) -> bool:
    if pa.types.is_integer(column.type):
        return zeros
    if pa.types.is_floating(column.type):
        return zeros or bool(pc.any(pc.greater_equal(pc.abs(column), float(EXACT_FLOAT))).as_py())
    return kind_of(column.type) is None and not pa.types.is_binary(column.type)  # times of day


def with_exact_numbers(table: pa.Table, names: Iterable[str], problems: Problems) -> pa.Table:
    """The table with these columns of texts as numbers where every value is written as one."""
    for name in names:
        place = table.schema.get_field_index(name)
        texts = table.column(place).combine_chunks()
        if pa.types.is_string(texts.type):
            table = table.set_column(place, name, _numbers(texts, name, problems))
    return table


def _numbers(texts: pa.Array, name: str, problems: Problems) -> pa.Array:
    trimmed = pc.replace_substring_regex(pc.utf8_trim_whitespace(texts), r"^\+([0-9])", r"\1")  # Arrow reads no +7
    if pc.any(pc.match_substring_regex(trimmed, NOT_A_NUMBER)).as_py():
        return texts
    whole = pc.fill_null(pc.match_substring_regex(trimmed, WHOLE), False)
    if pc.all(pc.or_(whole, pc.is_null(trimmed))).as_py():
        return _refused(trimmed, ~_fits(trimmed), f"{name!r} does not fit into 64 bits", problems).cast(pa.int64())
    try:
        floats = pc.cast(trimmed, pa.float64())
    except pa.ArrowInvalid:
        return texts
    large = marks(pc.fill_null(pc.and_(whole, pc.greater_equal(pc.abs(floats), float(EXACT_FLOAT))), False)).copy()
    for row in np.flatnonzero(large).tolist():  # the float itself may have been rounded
        large[row] = abs(int(trimmed[row].as_py())) > EXACT_FLOAT
    reason = f"{name!r} is too large to be a float exactly, and other values are floats"
    written = pc.match_substring_regex(trimmed, "[0-9]")  # not as inf
    beyond = marks(pc.fill_null(pc.and_(pc.is_inf(floats), written), False))
    floats = _refused(floats, beyond & ~large, f"{name!r} is larger than any float", problems)
    return _refused(floats, large, reason, problems)


def _fits(texts: pa.Array) -> Bools:
    """Which whole numbers fit into 64 bits; nulls do."""
    short = marks(pc.fill_null(pc.less_equal(pc.utf8_length(texts), DIGITS_OF_64_BITS), True)).copy()
    for row in np.flatnonzero(~short).tolist():
        short[row] = -(2**63) <= int(texts[row].as_py()) < 2**63
    return short


def _refused(array: pa.Array, rows: Bools, reason: str, problems: Problems) -> pa.Array:
    """The array with nulls in these rows, which are noted as bad."""
    if not rows.any():
        return array
    problems.append((rows, reason))
    return pc.if_else(pa.array(rows), pa.scalar(None, array.type), array)
