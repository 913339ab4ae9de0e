"""Times as int64 ticks: whole numbers as they are, timestamps and dates as microseconds, texts read as either."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.encode.arrow import Problems, integers, is_instant, marks, plain
from tocsin.encode.checked import refuse_unreadable
from tocsin.encode.survey import Survey
from tocsin.errors import InputError
from tocsin.events import TIME_LIMIT
from tocsin.items import Bools, Ints

_PER_MICRO = {"s": 1_000_000, "ms": 1_000, "us": 1}
_MICROS_PER_DAY = 86_400_000_000


def ticks(array: pa.Array, what: str, *, truncate: bool = False, survey: Survey | None = None) -> tuple[Ints, Problems]:
    """Convert a column of times to int64 ticks; also return masks of the unusable rows, each with a reason."""
    type = array.type
    problems: Problems = []
    if array.null_count:
        problems.append((marks(pc.is_null(array)), f"the {what} is null"))
    if is_instant(type):
        values, finer = micros(array)
        if finer is not None and not truncate and finer.any():
            problems.append((finer, f"the {what} is finer than a microsecond"))
    elif pa.types.is_integer(type):
        values, beyond = integers(array)
        if beyond is not None and beyond.any():
            problems.append((beyond, f"the {what} does not fit into 64 bits"))
    elif pa.types.is_null(type):
        values = np.zeros(len(array), np.int64)
    else:
        raise InputError(
            f"the {what} column is of type {type}",
            detail="time is whole numbers (ticks), timestamps or dates",
            hint=f"convert the column, for example to timestamps; or name another one as the {what}",
        )
    if len(values):
        low, high = (values.min(), values.max()) if survey is None else survey.ends(values)
        if low <= -TIME_LIMIT or high >= TIME_LIMIT:
            beyond = (values <= -TIME_LIMIT) | (values >= TIME_LIMIT)
            problems.append((beyond, f"the {what} is out of range (its size must be below 2**61)"))
    return values, problems


# --- single values ------------------------------------------------------------------------------------------------

EPOCH, EPOCH_UTC = datetime(1970, 1, 1), datetime(1970, 1, 1, tzinfo=UTC)  # noqa: DTZ001 - no zone is meant
_FIRST_DAY = EPOCH.toordinal()


def local_ticks(value: Any) -> int | None:
    """A datetime without zone, or its ISO text, in microseconds; None if it is not as plain as that.

    >>> local_ticks("1970-01-01T00:00:01.5")
    1500000
    """
    instant = _plain_instant(value)
    return None if instant is None or instant.tzinfo is not None else _micros_of(instant - EPOCH)


def zoned_ticks(value: Any) -> int | None:
    """A datetime with a zone, or its ISO text, in microseconds; None if it is not as plain as that.

    >>> zoned_ticks("1970-01-01T01:00:01+01:00")
    1000000
    """
    instant = _plain_instant(value)
    return None if instant is None or instant.tzinfo is None else _micros_of(instant - EPOCH_UTC)


def date_ticks(value: Any) -> int | None:
    """A date in microseconds; None for anything else."""
    return (value.toordinal() - _FIRST_DAY) * _MICROS_PER_DAY if type(value) is date else None


def _plain_instant(value: Any) -> datetime | None:
    if type(value) is str and value[4:5] == "-":  # digits alone may be a whole number
        try:
            return datetime.fromisoformat(value)
        except ValueError:
            return None
    return value if type(value) is datetime else None


def _micros_of(passed: timedelta) -> int:
    return (passed.days * 86400 + passed.seconds) * 1_000_000 + passed.microseconds


# --- columns -------------------------------------------------------------------------------------------------------


def micros(array: pa.Array) -> tuple[Ints, Bools | None]:
    """Convert timestamps and dates to microseconds; also return where nanoseconds were cut (None: nowhere)."""
    type = array.type
    if pa.types.is_date32(type):
        return plain(pc.cast(array, pa.int32())).astype(np.int64) * _MICROS_PER_DAY, None
    values = plain(array.cast(pa.int64()) if pa.types.is_date64(type) else array.view(pa.int64()))
    unit = "ms" if pa.types.is_date64(type) else type.unit
    if unit == "ns":
        return np.floor_divide(values, 1000), np.mod(values, 1000) != 0
    factor = _PER_MICRO[unit]
    if factor == 1:
        return values, None
    limit = TIME_LIMIT // factor
    return np.where(np.abs(values) < limit, values * factor, TIME_LIMIT), None


def read_texts(array: pa.Array) -> tuple[pa.Array, Bools]:
    """A column of texts as times: all whole numbers, or all ISO timestamps; and the rows that are neither.

    Whole numbers win if the first readable text is one, so the meaning of a column never depends on one bad row.
    """
    refuse_unreadable(array, "time")
    array = array.cast(pa.string()) if array.type != pa.string() else array
    trimmed = pc.utf8_trim_whitespace(array)
    whole = pc.fill_null(pc.match_substring_regex(trimmed, r"^[+-]?[0-9]{1,19}$"), False)
    numbers = marks(whole)
    if numbers.any() and not _an_instant(trimmed[: int(numbers.argmax())]):
        kept = pc.if_else(whole, trimmed, pa.scalar(None, pa.string()))
        values, unreadable = _whole_numbers(kept)
        return values, (~numbers & marks(pc.is_valid(array))) | unreadable
    try:
        return pc.cast(trimmed, pa.timestamp("us")), np.zeros(len(array), np.bool_)
    except pa.ArrowInvalid:
        return _each(trimmed, _instant, pa.timestamp("us", "UTC") if _zoned(trimmed) else pa.timestamp("us"))


def zone_differs(texts: pa.Array, unreadable: Bools) -> Bools:
    """Of the rows that are no times of their column: those that would be, if all times had a zone, or none had one."""
    found = np.zeros(len(texts), np.bool_)
    for row in np.flatnonzero(unreadable).tolist():
        found[row] = _readable(_instant, str(texts[row].as_py()).strip())
    return found


def _whole_numbers(texts: pa.Array) -> tuple[pa.Array, Bools]:
    try:
        return pc.cast(texts, pa.int64()), np.zeros(len(texts), np.bool_)
    except pa.ArrowInvalid:  # a sign, or a number beyond 64 bits
        return _each(texts, int, pa.int64())


def _an_instant(texts: pa.Array) -> bool:
    return any(_readable(_instant, text) for text in texts.to_pylist() if text is not None)


def _zoned(texts: pa.Array) -> bool:
    first = next((t for t in texts.to_pylist() if t is not None and _readable(_instant, t)), None)
    return first is not None and _instant(first).tzinfo is not None


def _readable(read: Callable[[str], object], text: str) -> bool:
    try:
        read(text)
    except ValueError:
        return False
    return True


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _each(texts: pa.Array, read: Callable[[str], Any], type: pa.DataType) -> tuple[pa.Array, Bools]:
    """Read the texts one by one with `read`; a text that it cannot read becomes null and is marked."""
    bad = np.zeros(len(texts), np.bool_)
    values: list[Any] = []
    zoned = pa.types.is_timestamp(type) and type.tz is not None
    for row, text in enumerate(texts.to_pylist()):
        value = None
        if text is not None:
            value = read(text) if _readable(read, text) else None
            if isinstance(value, datetime) and (value.tzinfo is not None) != zoned:
                value = None
            if isinstance(value, int) and not -(2**63) <= value < 2**63:
                value = None
            bad[row] = value is None
        values.append(value)
    return pa.array(values, type), bad
