"""The content of rows as 64-bit hashes: what computed eids, key ranges and match ids are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from struct import Struct
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.encode.eids import hash_texts
from tocsin.encode.rehearsal import answer_loops_are_worth
from tocsin.encode.text_numbers import frozen, text_buffers
from tocsin.events import MASK64, mix, text_hash
from tocsin.items import Codes, Ints

Words = npt.NDArray[np.uint64]

WHOLE, REAL = pa.int64(), pa.float64()
NOT_CONTENT = frozenset(("eid", "source", "seq", "arrival"))
TEXTS_WITHOUT_DICTIONARY = 64  # texts that are not worth a dictionary
TEXTS_FOR_A_LOOP = 1024  # texts that are worth a compiled loop
FEWEST_SHARED, SHARED = 1 << 12, 1 << 16  # rows of a column of which a part is the same in all tables, and made once


def occurrences(values: Ints) -> Ints:
    """Count for each value how many equal ones stand before it.

    >>> occurrences(np.array([7, 8, 7, 7])).tolist()
    [0, 0, 1, 2]
    """
    order = np.argsort(values, kind="stable")
    ranked = values[order]
    fresh = np.ones(len(values), np.bool_)
    np.not_equal(ranked[1:], ranked[:-1], out=fresh[1:])
    found = np.zeros(len(values), np.int64)
    if not fresh.all():
        starts = np.flatnonzero(fresh)
        found[order] = np.arange(len(values)) - np.repeat(starts, np.diff(np.append(starts, len(values))))
    return found


def auto_eid(high: int, low: int) -> str:
    """The text of a computed eid."""
    return f"{high & (2**64 - 1):016x}" + (f"-{low}" if low else "")


def auto_eids(high: Ints, low: Ints) -> pa.Array:
    """The texts of computed eids.

    >>> auto_eids(np.array([255, -1]), np.array([0, 2])).to_pylist()
    ['00000000000000ff', 'ffffffffffffffff-2']
    """
    texts = hex_texts([high.view(np.uint64)])
    again = np.flatnonzero(low)
    if not len(again):
        return texts
    numbered = [auto_eid(*pair) for pair in zip(high[again].tolist(), low[again].tolist(), strict=True)]
    return pc.replace_with_mask(texts, pa.array(low != 0), pa.array(numbered, pa.string()))


def hex_texts(lanes: Sequence[Words]) -> pa.Array:
    """The words of each row as hexadecimal digits, one behind the other.

    >>> hex_texts([np.array([1, 2], np.uint64)]).to_pylist()
    ['0000000000000001', '0000000000000002']
    """
    rows, width = len(lanes[0]), 16 * len(lanes)
    text = _digits(lanes)
    if width * rows >= 2**31:
        long = np.arange(0, width * rows + 1, width, dtype=np.int64)
        return pa.LargeStringArray.from_buffers(rows, pa.py_buffer(long), pa.py_buffer(text))
    return pa.StringArray.from_buffers(rows, _offsets(width, rows), pa.py_buffer(text))


def _offsets(width: int, rows: int) -> pa.Buffer:
    """Where texts of one width begin; pieces of tables share what is the same in all of them."""
    if not FEWEST_SHARED <= rows <= SHARED:
        return pa.py_buffer(np.arange(0, width * rows + 1, width, dtype=np.int32))
    return _shared_offsets(width).slice(0, 4 * (rows + 1))


@lru_cache(maxsize=4)
def _shared_offsets(width: int) -> pa.Buffer:
    return pa.py_buffer(np.arange(0, width * SHARED + 1, width, dtype=np.int32))


def _digits(lanes: Sequence[Words]) -> npt.NDArray[np.uint8]:
    rows, width = len(lanes[0]), 16 * len(lanes)
    text = np.empty((rows, width), np.uint8)
    if answer_loops_are_worth(rows):
        from tocsin.encode import answer_loops as loops

        for place, lane in enumerate(lanes):
            loops.write_hex(frozen(np.ascontiguousarray(lane)), 16 * place, width, text.reshape(-1))
        return text
    words = np.empty((rows, len(lanes)), ">u8")
    for place, lane in enumerate(lanes):
        words[:, place] = lane
    raw = words.view(np.uint8)
    text[:, 0::2], text[:, 1::2] = DIGITS[raw >> 4], DIGITS[raw & 15]
    return text


DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)


def content_hash(rows: pa.RecordBatch, types: Words | None = None) -> Words:
    """Hash each row, independent of the order of columns; a null and a missing column hash alike.

    `types`: what the types of the rows say (`text_word`), where they have no such column.
    """
    named = zip(rows.schema.names, rows.columns, strict=True)
    content = [(name, column) for name, column in named if name not in NOT_CONTENT]
    if answer_loops_are_worth(rows.num_rows):
        return _content_hash(content, rows.num_rows, types)
    words = np.empty((len(content) + (types is not None), rows.num_rows), np.uint64)
    for mine, (name, column) in zip(words, content, strict=False):
        np.bitwise_xor(words_of(column), np.uint64(text_word(name)), out=mine)
    if types is not None:
        np.bitwise_xor(types, np.uint64(text_word("type")), out=words[-1])
    _mix(words)
    for mine, (_, column) in zip(words, content, strict=False):
        if column.null_count:
            mine[np.asarray(column.is_null())] = 0
    total: Words = words.sum(axis=0, dtype=np.uint64)
    _mix(total)
    return total


def _content_hash(content: list[tuple[str, pa.Array]], count: int, types: Words | None) -> Words:
    """Hash each row by compiled loops, column by column; texts are read where they lie."""
    from tocsin.encode import answer_loops as loops

    total = np.zeros(count, np.uint64)
    if types is not None:
        loops.add_words(frozen(types), np.uint64(text_word("type")), total)
    for name, column in content:
        word = np.uint64(text_word(name))
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            offsets, data, bits = text_buffers(column)
            loops.add_texts(offsets, data, bits, column.offset, word, total)
        elif not column.null_count and column.type == REAL:
            loops.add_floats(frozen(column.to_numpy()), word, total)
        elif not column.null_count:
            loops.add_words(frozen(words_of(column)), word, total)
        else:
            mine = mixed(words_of(column) ^ word)
            mine[np.asarray(column.is_null())] = 0
            total += mine
    loops.mix_all(total)
    return total


def row_hash(content: Mapping[str, Any]) -> int:
    """Hash one row without nulls; equal to `content_hash` of a batch with that row."""
    total = 0
    for name, value in content.items():
        if name in NOT_CONTENT:
            continue
        if type(value) is str:
            total += _text_hash(name, value)
        elif type(value) is float:
            total += mix(BITS.unpack(NUMBER.pack(value + 0.0))[0] ^ text_word(name))
        else:
            total += mix(_value_word(value) ^ text_word(name))
    total = mix(total & MASK64)
    return total - 2**64 if total >= 2**63 else total


@lru_cache(maxsize=4096)
def _text_hash(name: str, text: str) -> int:
    """What a text attribute contributes to the hash of its row: the same few texts come again and again."""
    return mix(text_word(text) ^ text_word(name))


def _value_word(value: Any) -> int:
    """Return one value as 64 bits, as `words_of` does for a column."""
    if isinstance(value, str):
        return text_word(value)
    if isinstance(value, float):
        bits: int = BITS.unpack(NUMBER.pack(value + 0.0))[0]
        return bits
    return int(value) & MASK64


NUMBER, BITS = Struct("<d"), Struct("<Q")


def mixed(words: Words) -> Words:
    """Apply the splitmix64 finaliser (`events.mix`) to a whole array."""
    words = words.copy()
    _mix(words)
    return words


def _mix(words: Words) -> None:
    """`mixed` in place."""
    rest = words >> THIRTY
    words ^= rest
    words *= FIRST_FACTOR
    np.right_shift(words, TWENTY_SEVEN, out=rest)
    words ^= rest
    words *= SECOND_FACTOR
    np.right_shift(words, THIRTY_ONE, out=rest)
    words ^= rest


THIRTY, TWENTY_SEVEN, THIRTY_ONE = np.uint64(30), np.uint64(27), np.uint64(31)
FIRST_FACTOR, SECOND_FACTOR = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def words_of(column: pa.Array) -> Words:
    """Each value as 64 bits; equal values of a column have equal bits."""
    kind = column.type
    if pa.types.is_floating(kind):
        filled = _filled(column if kind == REAL else column.cast(REAL), 0.0)
        return np.ascontiguousarray(filled + 0.0).view(np.uint64)
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return _bits(column if kind == WHOLE else column.cast(WHOLE))
    if pa.types.is_temporal(kind):
        return _bits(column.view(WHOLE) if kind.bit_width == 64 else column.view(pa.int32()).cast(WHOLE))
    if pa.types.is_dictionary(kind) and len(column.dictionary) > len(column):
        column = column.cast(kind.value_type)
    if not pa.types.is_dictionary(column.type):
        column = column.cast(pa.string()) if not pa.types.is_string(column.type) else column
        if len(column) < TEXTS_WITHOUT_DICTIONARY:
            return _text_words(column)
        column = pc.dictionary_encode(column)
    if not len(column.dictionary):  # nothing but nulls
        return np.zeros(len(column), np.uint64)
    words: Words = _text_words(column.dictionary.cast(pa.string()))[_filled(column.indices, 0)]
    return words


def _text_words(texts: pa.Array) -> Words:
    """`text_hash` of each text; of few texts without compiled code."""
    if len(texts) > TEXTS_FOR_A_LOOP:
        return hash_texts(texts)[1].view(np.uint64)
    return np.array([text_word(text or "") for text in texts.to_pylist()], np.uint64)


@lru_cache(maxsize=4 * TEXTS_FOR_A_LOOP)
def text_word(text: str) -> int:
    """Return `text_hash` as an unsigned number."""
    return text_hash(text.encode()) & (2**64 - 1)


def _filled(column: pa.Array, value: float) -> npt.NDArray[Any]:
    """The values with something in place of null."""
    column = pc.fill_null(column, value) if column.null_count else column
    filled: npt.NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return filled


def _bits(column: pa.Array) -> Words:
    return np.ascontiguousarray(_filled(column, 0)).view(np.uint64)


def sketch(end: Ints, types: Codes, rows: pa.RecordBatch) -> Words:
    """Hash each row cheaply, without its texts and decimals: equal rows are equal, others may be."""
    total: Words = end.view(np.uint64) * FIRST_FACTOR + types.astype(np.uint64)
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        if name not in NOT_CONTENT and name not in ("type", "end") and is_plain(column.type):
            total = total * SECOND_FACTOR + (words_of(column) ^ np.uint64(text_word(name)))
    return total


def is_plain(type: pa.DataType) -> bool:
    """Whether `sketch` reads a column of the type."""
    kinds = (pa.types.is_integer, pa.types.is_floating, pa.types.is_temporal, pa.types.is_boolean)
    return any(is_kind(type) for is_kind in kinds)
