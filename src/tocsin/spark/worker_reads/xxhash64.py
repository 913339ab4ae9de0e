"""Compute Spark's `xxhash64` of rows from Arrow columns, bit by bit as Spark does.

A row's shard is part of the checkpoint and must not depend on whether Catalyst or a worker computes it. So this follows
Spark's own forms: whole numbers as 8 bytes, booleans as 4, texts as UTF-8, wide decimals as the shortest big-endian
number. The hash of one column is the seed of the next, and a null leaves it as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tocsin.encode.arrow import marks
from tocsin.items import Bools, Ints

SEED = 42  # of Spark's xxhash64
Hashes: TypeAlias = npt.NDArray[np.uint64]
Bytes: TypeAlias = npt.NDArray[np.uint8]

P1, P2, P3, P4, P5 = (
    np.uint64(prime)
    for prime in (
        0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5,
    )
)  # fmt: skip
STRIPE, WORD, HALF = 32, 8, 4


def buckets(columns: Sequence[pa.Array], count: int) -> Ints:
    """`pmod(xxhash64(...), count)` of each row."""
    hashes = row_hashes(columns).view(np.int64)
    if count & (count - 1) == 0:
        return hashes & np.int64(count - 1)
    return np.mod(hashes, np.int64(count))


def row_hashes(columns: Sequence[pa.Array]) -> Hashes:
    """`xxhash64` of each row. Columns are of the types that `hashable` takes."""
    total = np.full(len(columns[0]), SEED, np.uint64)
    for column in columns:
        mixed = _hashed(column, total)
        total = np.where(marks(column.is_valid()), mixed, total) if column.null_count else mixed
    return total


def hashable(type: pa.DataType) -> bool:
    """Whether values of this type can be hashed here."""
    tests = (pa.types.is_int64, pa.types.is_boolean, pa.types.is_string, pa.types.is_float32, pa.types.is_float64)
    return any(test(type) for test in tests) or (pa.types.is_decimal128(type) and type.precision > 18)


def _hashed(array: pa.Array, seed: Hashes) -> Hashes:
    type = array.type
    if pa.types.is_string(type):
        return _of_texts(array, seed)
    if pa.types.is_decimal128(type):
        return _of_decimals(array, seed)
    if pa.types.is_boolean(type):
        return _of_halves(marks(array.fill_null(False)).astype(np.uint64), seed)
    values = array.fill_null(0) if array.null_count else array
    numbers = values.to_numpy(zero_copy_only=False)
    if pa.types.is_int64(type):
        return _of_words(numbers.view(np.uint64), seed)
    assert pa.types.is_floating(type), f"{type} was found to be hashable"
    # one zero and one NaN, as Java has them
    numbers = np.where(np.isnan(numbers), numbers.dtype.type(np.nan), numbers + numbers.dtype.type(0))
    if pa.types.is_float32(type):
        return _of_halves(numbers.view(np.uint32).astype(np.uint64), seed)
    return _of_words(numbers.view(np.uint64), seed)


def _rotated(values: Hashes, by: int) -> Hashes:
    return (values << np.uint64(by)) | (values >> np.uint64(64 - by))


def _finished(total: Hashes) -> Hashes:
    total = (total ^ (total >> np.uint64(33))) * P2
    total = (total ^ (total >> np.uint64(29))) * P3
    return total ^ (total >> np.uint64(32))


def _with_word(total: Hashes, words: Hashes) -> Hashes:
    return _rotated(total ^ (_rotated(words * P2, 31) * P1), 27) * P1 + P4


def _of_words(words: Hashes, seed: Hashes) -> Hashes:
    return _finished(_with_word(seed + (P5 + np.uint64(WORD)), words))


def _of_halves(halves: Hashes, seed: Hashes) -> Hashes:
    total = (seed + (P5 + np.uint64(HALF))) ^ (halves * P1)
    return _finished(_rotated(total, 23) * P2 + P3)


# --- bytes ---------------------------------------------------------------------------------------------------------


def _of_texts(array: pa.StringArray, seed: Hashes) -> Hashes:
    _, offsets, content = array.buffers()
    if not len(array):
        return seed.copy()
    places = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1].astype(np.int64)
    raw = np.zeros(0, np.uint8) if content is None else np.frombuffer(content, np.uint8)
    low, high = int(places[0]), int(places[-1])
    return _of_bytes(raw[low:high], places[:-1] - low, np.diff(places), seed)


def _of_decimals(array: pa.Array, seed: Hashes) -> Hashes:
    """The unscaled number in as few bytes as it needs, the highest first, as Java's BigInteger writes it."""
    content = array.buffers()[1]
    little = np.frombuffer(content, np.uint8)[16 * array.offset : 16 * (array.offset + len(array))].reshape(-1, 16)
    big = np.ascontiguousarray(little[:, ::-1])
    sign = np.where(big[:, :1] & 0x80, np.uint8(0xFF), np.uint8(0))
    leading = np.argmax(np.concatenate([big != sign, np.ones((len(big), 1), np.bool_)], axis=1), axis=1)
    first = np.take_along_axis(big, np.minimum(leading, 15)[:, None], axis=1)
    fits = (leading < 16) & (((first ^ sign) & 0x80) == 0)[:, 0]  # its highest bit tells the sign
    lengths = np.maximum(16 - leading + ~fits, 1)
    starts = 16 * np.arange(1, len(big) + 1) - lengths
    return _of_bytes(big.reshape(-1), starts, lengths, seed)


def _of_bytes(raw: Bytes, starts: Ints, lengths: Ints, seed: Hashes) -> Hashes:
    """Each row's bytes: stripes of 32, then words of 8, then one of 4, then the rest byte by byte."""
    padded = np.concatenate([raw, np.zeros(WORD, np.uint8)])
    words: Hashes = np.ndarray(len(padded) - WORD + 1, "<u8", padded, strides=(1,))
    total = seed + P5
    at = starts.copy()
    long = np.flatnonzero(lengths >= STRIPE)
    if len(long):
        total[long] = _striped(words, starts[long], lengths[long], seed[long])
        at[long] += lengths[long] // STRIPE * STRIPE
    total += lengths.astype(np.uint64)
    stop = starts + lengths
    while len(rows := np.flatnonzero(at + WORD <= stop)):
        total[rows] = _with_word(total[rows], words[at[rows]])
        at[rows] += WORD
    rows = np.flatnonzero(at + HALF <= stop)
    halves = words[at[rows]] & np.uint64(0xFFFFFFFF)
    total[rows] = _rotated(total[rows] ^ (halves * P1), 23) * P2 + P3
    at[rows] += HALF
    while len(rows := np.flatnonzero(at < stop)):
        total[rows] = _rotated(total[rows] ^ (padded[at[rows]].astype(np.uint64) * P5), 11) * P1
        at[rows] += 1
    return _finished(total)


def _striped(words: Hashes, starts: Ints, lengths: Ints, seed: Hashes) -> Hashes:
    """Texts of 32 bytes and more: four lanes over all whole stripes, then joined."""
    lanes = [seed + P1 + P2, seed + P2, seed.copy(), seed - P1]
    stripes = lengths // STRIPE
    for number in range(int(stripes.max())):
        rows: Bools | slice = stripes > number
        at = starts[rows] + number * STRIPE
        for place, lane in enumerate(lanes):
            lane[rows] = _rotated(lane[rows] + words[at + place * WORD] * P2, 31) * P1
    total = sum((_rotated(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True)), np.uint64(0))
    for lane in lanes:
        total = (total ^ (_rotated(lane * P2, 31) * P1)) * P1 + P4
    return np.asarray(total, np.uint64)
