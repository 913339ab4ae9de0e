"""Labels: names of shards that Spark's hash spreads evenly, whatever the number of partitions.

Spark sends shard labels to partitions by hash, and 0 and 1 of two partitions would meet in one. A label is chosen so
that its hash leaves the shard's own number when divided by ROUND, which has every small number of partitions as a
divisor. Labels are part of a checkpoint, so they depend on nothing else.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

ROUND = 5040


def labels_of(count: int) -> list[int]:
    """The labels of shards 0, 1, 2, ..."""
    return [_label(number) for number in range(count)]


@lru_cache(maxsize=1 << 16)
def _label(number: int) -> int:
    """The label of a shard: of all with the right remainder, the next that no earlier shard has."""
    known, wanted = _remainders(1 << 18), number // ROUND
    found = np.flatnonzero(known == number % ROUND)
    assert wanted < len(found), "more shards than labels"
    return int(found[wanted])


@lru_cache(maxsize=1)
def _remainders(count: int) -> npt.NDArray[np.int64]:
    return spark_hash(np.arange(count, dtype=np.uint32)).astype(np.int64) % ROUND


def spark_hash(values: npt.NDArray[np.uint32]) -> npt.NDArray[np.int32]:
    """Spark's hash of ints: Murmur3 with seed 42."""
    mixed = _rotated(values * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    total = _rotated(np.uint32(42) ^ mixed, 13) * np.uint32(5) + np.uint32(0xE6546B64)
    total = total ^ np.uint32(4)
    total = (total ^ (total >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    total = (total ^ (total >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return (total ^ (total >> np.uint32(16))).view(np.int32)


def _rotated(values: npt.NDArray[np.uint32], by: int) -> npt.NDArray[np.uint32]:
    return (values << np.uint32(by)) | (values >> np.uint32(32 - by))
