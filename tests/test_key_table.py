"""The key table finds a key in a few steps, whatever regularity the keys have."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tocsin.engine import runtime

COUNT, SIZE = 2000, 4096  # the fullest that the table gets before it grows

KEYS: dict[str, Callable[[int], int]] = {
    "one after the other": lambda i: i,
    "negative": lambda i: -i,
    "from a large number on": lambda i: 10**18 + i,
    **{f"multiples of 2**{bits}": lambda i, bits=bits: (i << bits) - (1 << 62) for bits in (4, 12, 20, 30, 40, 50)},
    "powers of ten apart": lambda i: i * 10**9,
    "both halves alike": lambda i: i << 32 | i,
    "halves that add up": lambda i: (i << 31) + COUNT - i,
    "timestamps by the second": lambda i: 1_700_000_000_000_000 + i * 1_000_000,
    "near both ends": lambda i: (1 << 63) - 1 - i if i % 2 else -(1 << 63) + i,
}


class Counted(list[int]):
    """A table that counts how often it is looked at."""

    looks = 0

    def __getitem__(self, index: int) -> int:  # type: ignore[override]
        self.looks += index % 3 == 2  # the code of a slot is always looked at first
        return super().__getitem__(index)


def steps(keys: list[tuple[int, int]]) -> float:
    """How many slots are looked at on average, to store each key and to find it again."""
    table = Counted([0] * (3 * SIZE))
    for _ in range(2):
        for code, (prefix, value) in enumerate(keys, start=1):
            slot = runtime.key_slot(table, SIZE, prefix, value)
            assert table[3 * slot + 2] in (0, code)
            table[3 * slot : 3 * slot + 3] = [prefix, value, code]
    return table.looks / (2 * len(keys))


@pytest.mark.parametrize("name", KEYS)
def test_keys_with_a_regularity_are_found_in_a_few_steps(name: str) -> None:
    values = list(map(KEYS[name], range(COUNT)))
    assert len(set(values)) == COUNT
    assert steps([(0, value) for value in values]) < 4
    assert steps([(1 + number % 50, value) for number, value in enumerate(values)]) < 4  # keys of two attributes


def test_keys_that_differ_in_their_prefix_only_are_found_in_a_few_steps() -> None:
    assert steps([(prefix, 7) for prefix in range(COUNT)]) < 4
