"""Sets of event numbers: a bit for each number from the smallest to the largest, and how many are set before it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from tocsin.encode.content import Words
from tocsin.encode.rehearsal import answer_loops_are_worth
from tocsin.encode.text_numbers import frozen
from tocsin.items import Ints

FEW = 16  # numbers that Python sorts sooner than NumPy
LONGEST = 256  # bits for each number


def distinct(several: Sequence[Ints]) -> Ints:
    """The event numbers in some columns, ascending, each once, without -1."""
    count = sum(map(len, several))
    if count <= FEW:
        return np.array(_few(several), np.int64)
    found = NumberSet.of(several)
    if found is not None:
        return found.numbers
    whole = np.concatenate(several)
    return np.unique(whole[whole >= 0])


def listed(several: Sequence[Ints]) -> list[int]:
    """`distinct` as a list: quicker for the few numbers in the answers of one event."""
    return _few(several) if sum(map(len, several)) <= FEW else distinct(several).tolist()


def _few(several: Sequence[Ints]) -> list[int]:
    return sorted({number for each in several for number in each.tolist() if number >= 0})


class NumberSet:
    """Some numbers, none of which is negative, far from each other on average by no more than `LONGEST`."""

    def __init__(self, low: int, bits: Words) -> None:
        from tocsin.encode import answer_loops as loops

        self._low, self._bits, self._below = low, frozen(bits), np.empty(len(bits) + 1, np.int64)
        loops.count_below(self._bits, self._below)
        self._below = frozen(self._below)

    @classmethod
    def of(cls, several: Sequence[Ints]) -> NumberSet | None:
        """The numbers of some columns, without -1; None if they are few, or too far apart."""
        count = sum(map(len, several))
        if not answer_loops_are_worth(count):
            return None
        from tocsin.encode import answer_loops as loops

        low, high = np.iinfo(np.int64).max, -1
        for each in several:
            low, high = loops.extent(frozen(each), low, high)
        if high < low or high - low > LONGEST * count:
            return None
        bits = np.zeros((high - low) // 64 + 1, np.uint64)
        for each in several:
            loops.mark(frozen(each), low, bits)
        return cls(low, bits)

    @cached_property
    def numbers(self) -> Ints:
        """All of them, in order."""
        from tocsin.encode import answer_loops as loops

        out = np.empty(int(self._below[-1]), np.int64)
        loops.numbers_of(self._bits, self._low, out)
        return out

    def places(self, numbers: Ints) -> Ints:
        """Where each of some numbers stands among all of them, in order; -1 for -1. Others must be among them."""
        from tocsin.encode import answer_loops as loops

        out = np.empty(len(numbers), np.int64)
        loops.ranks(frozen(numbers), self._low, self._bits, self._below, out)
        return out
