"""Labels of shards, chosen so that Spark's hash spreads them evenly over any number of partitions.

Spark assigns a label to a partition by the label's hash; the plain labels 0 and 1 would land in the same one of two
partitions. So shard n gets a label whose hash modulo MODULUS is n; MODULUS is divisible by every small number of
partitions. Labels are stored in checkpoints, so they depend on the shard number alone.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

MODULUS = 5040


def labels_of(count: int) -> list[int]:
    """The labels of shards 0, 1, 2, ..."""
    return [_label(number) for number in range(count)]


def partition_labels(count: int) -> list[int]:
    """Labels of which Spark sends the first to partition 0 of `count`, the second to partition 1, ..."""
    hashes = spark_hash(np.arange(64 * count, dtype=np.uint32)).astype(np.int64) % count
    found, first = np.unique(hashes, return_index=True)
    assert len(found) == count, "64 labels for each partition are enough to meet all of them"
    labels: list[int] = first.tolist()
    return labels


@lru_cache(maxsize=1 << 16)
def _label(number: int) -> int:
    """Return the label of a shard: the first with the right remainder that no earlier shard has."""
    known, wanted = _remainders(1 << 18), number // MODULUS
    found = np.flatnonzero(known == number % MODULUS)
    assert wanted < len(found), "more shards than labels"
    return int(found[wanted])


@lru_cache(maxsize=1)
def _remainders(count: int) -> npt.NDArray[np.int64]:
    return spark_hash(np.arange(count, dtype=np.uint32)).astype(np.int64) % MODULUS


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
