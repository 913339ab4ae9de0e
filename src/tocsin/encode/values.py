"""Attributes as the kernels read them: int64 or float64, exact or refused with the row named."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.encode.arrow import BadRowError, Problems, integers, is_instant, is_text, marks, masked, plain
from tocsin.encode.times import micros, read_texts
from tocsin.errors import InputError
from tocsin.items import NO_TEXT, Bools, Column, Ints, Strings
from tocsin.schema import DECIMAL_DIGITS, Field, Kind

EXACT_FLOAT = 2**53


def encode_column(
    array: pa.Array, field: Field, strings: Strings, *, truncate: bool = False, problems: Problems | None = None
) -> Column:
    """One attribute as the kernels read it.

    A value that has no exact place is an InputError; if `problems` is given, its row is noted there instead.
    """
    if pa.types.is_null(array.type):
        return nothing(field, len(array))
    valid = marks(pc.is_valid(array)) if array.null_count else None
    if pa.types.is_dictionary(array.type) and field.kind is not Kind.TEXT:
        array = array.dictionary_decode()
    if field.kind is Kind.TEXT:
        return Column(Kind.TEXT, text_codes(array, strings, field.name), valid)
    return Column(field.kind, _ColumnReader(array, field, truncate, problems).values(), valid, field.scale)


def is_exact(type: pa.DataType, field: Field) -> bool:
    """Whether every value of an Arrow type has its exact place in a field, so that none need be looked at."""
    match field.kind:
        case Kind.INT:
            return bool(pa.types.is_integer(type) and type != pa.uint64())
        case Kind.FLOAT:
            return bool(pa.types.is_floating(type))
        case Kind.BOOL:
            return bool(pa.types.is_boolean(type))
        case Kind.TIME:
            return bool(pa.types.is_timestamp(type) and type.unit == "us")
    return False


def nothing(field: Field, rows: int) -> Column:
    """Return a column of nulls."""
    fill: Any = NO_TEXT if field.kind is Kind.TEXT else 0
    values: Any = np.full(rows, fill, np.float64 if field.kind is Kind.FLOAT else np.int64)
    return Column(field.kind, values, np.zeros(rows, np.bool_), field.scale)


@dataclass(slots=True)
class _ColumnReader:
    """Converts one column to numbers of the kind that its field asks for."""

    array: pa.Array
    field: Field
    truncate: bool
    problems: Problems | None

    def values(self) -> Any:
        type = self.array.type
        match self.field.kind:
            case Kind.INT if pa.types.is_integer(type):
                return self.whole()
            case Kind.FLOAT if pa.types.is_floating(type):
                return plain(self.array if type == pa.float64() else pc.cast(self.array, pa.float64()))
            case Kind.FLOAT if pa.types.is_integer(type):
                return self.whole_as_float()
            case Kind.BOOL if pa.types.is_boolean(type):
                return plain(pc.cast(self.array, pa.int8())).astype(np.int64)
            case Kind.DECIMAL if pa.types.is_decimal(type):
                return self.rescaled(self.unscaled(), type.scale)
            case Kind.DECIMAL if pa.types.is_integer(type):
                return self.rescaled(self.whole(), 0)
            case Kind.TIME if is_instant(type) or is_text(type):
                return self.instants()
            case Kind.TIME if pa.types.is_integer(type):
                return self.whole()
        raise not_a(self.field, self.array)

    def whole(self) -> Ints:
        values, beyond = integers(self.array)
        self.refuse(beyond, "does not fit into 64 bits", "make it text, or a smaller number")
        return values

    def whole_as_float(self) -> Any:
        values = self.whole().astype(np.float64)
        self.refuse(np.abs(values) > EXACT_FLOAT, "is too large to be a float exactly", "use integers only, or floats")
        return values

    def rescaled(self, values: Ints, scale: int) -> Ints:
        """Decimals of another scale brought to the scale of the field, if that is exact."""
        if scale > self.field.scale:
            divisor = 10 ** (scale - self.field.scale)
            lost = values % divisor != 0
            self.refuse(lost, f"has more than {self.field.scale} decimal places", "declare a larger scale")
            whole: Ints = np.floor_divide(values, divisor)
            return whole
        factor = 10 ** (self.field.scale - scale)
        self.too_long(np.abs(values) >= 10**DECIMAL_DIGITS // factor)
        scaled: Ints = np.multiply(values, factor)
        return scaled

    def unscaled(self) -> Ints:
        """The whole numbers behind decimals, read from the buffer: 4, 8, 16 or 32 bytes each, little-endian."""
        array = self.array
        width = array.type.bit_width // 8
        rows = slice(array.offset, array.offset + len(array))
        if array.buffers()[1] is None:
            return np.zeros(len(array), np.int64)
        if width < 8:
            small: Ints = masked(np.frombuffer(array.buffers()[1], np.int32)[rows].astype(np.int64), array)
            return small
        words = np.frombuffer(array.buffers()[1], np.int64).reshape(-1, width // 8)[rows]
        low: Ints = masked(words[:, 0], array)
        beyond = (low >= 10**DECIMAL_DIGITS) | (low <= -(10**DECIMAL_DIGITS))
        for word in range(1, width // 8):
            beyond |= masked(words[:, word], array) != (low >> 63)
        self.too_long(beyond)
        return low

    def too_long(self, rows: Bools) -> None:
        self.refuse(rows, f"has more than {DECIMAL_DIGITS} digits", "round it, or make the column a float")

    def instants(self) -> Ints:
        array = self.array
        if is_text(array.type):
            array, unreadable = read_texts(array)
            self.refuse(unreadable, "is not an ISO timestamp", "write it like 2024-05-01T12:00:00")
            if pa.types.is_integer(array.type):
                return integers(array)[0]
        values, finer = micros(array)
        if not self.truncate:
            self.refuse(finer, "is finer than a microsecond", "allow it to be cut with truncate=True (--truncate)")
        return values

    def refuse(self, rows: Bools | None, reason: str, hint: str) -> None:
        if rows is None or not rows.any():
            return
        message = f"attribute {self.field.name!r} {reason}"
        if self.problems is not None:
            self.problems.append((rows, message))
            return
        row = int(rows.argmax())
        raise BadRowError(row, message, detail=f"the value is {self.array[row]}", hint=hint)


def not_a(field: Field, array: pa.Array) -> InputError:
    return InputError(
        f"attribute {field.name!r} is {field.kind} but its values are of type {array.type}",
        hint="declare the attribute as what it is, or convert the column",
    )


def text_codes(array: pa.Array, strings: Strings, name: str = "text") -> Ints:
    """The codes of texts; only the distinct ones are looked at one by one."""
    coded = as_dictionary(array)
    codes: Ints = looked_up(dictionary_codes(coded.dictionary, strings, name), coded, NO_TEXT)
    return codes


def dictionary_codes(dictionary: pa.Array, strings: Strings, name: str) -> Ints:
    """The code of each text of a dictionary."""
    if not is_text(dictionary.type):
        raise not_a(Field(name, Kind.TEXT), dictionary)
    return np.fromiter(map(strings.code, dictionary.to_pylist()), np.int64, len(dictionary))


def same_memory(one: pa.Array, other: pa.Array) -> bool:
    """Whether two arrays are the same bytes in the same place (both are alive, so nobody reused it)."""
    return len(one) == len(other) and one.offset == other.offset and _addresses(one) == _addresses(other)


def _addresses(array: pa.Array) -> list[int]:
    return [0 if buffer is None else buffer.address for buffer in array.buffers()]


def as_dictionary(array: pa.Array) -> pa.DictionaryArray:
    """The array as a dictionary array whose dictionary holds no null."""
    if pa.types.is_dictionary(array.type):
        if not array.dictionary.null_count:
            return array
        array = array.dictionary_decode()
    if pa.types.is_string_view(array.type):
        array = array.cast(pa.large_string())
    return array.dictionary_encode()


def looked_up(lookup: Any, coded: pa.DictionaryArray, missing: int) -> Any:
    """Map each row through `lookup`, indexed by dictionary entry; nulls become `missing`."""
    indices = coded.indices
    if not indices.null_count and len(lookup):
        return lookup[plain(indices)]
    with_missing = np.append(lookup, lookup.dtype.type(missing))
    return with_missing[plain(pc.fill_null(pc.cast(indices, pa.int64()), len(lookup)))]
