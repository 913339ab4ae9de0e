"""The recurrence over prefixes, in columns: how many chains end at each event, or the sum of a value over them.

A chain takes one event of each step, each strictly later than the one before. Events stand by key and then by time;
`weights` has for each step what an event counts there: 0 where it cannot stand, else 1, or a value that is added up.
The sum over all chains behind each other is one running sum for each step (Gu et al. 2011, Eq. 2).

With a window, chains from a time on are what is left of all chains when those that begin before it are taken away: a
chain of steps j..m between two times is one of all chains up to the later time, less those that have their steps j..k
before the earlier time and k+1..m behind it, for each k (Chen's identity for iterated sums).

Whole numbers are exact: where a bound on them exceeds 63 bits, columns hold Python's integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tocsin.items import Ints

Numbers: TypeAlias = npt.NDArray[Any]  # int64, or Python's integers
LARGEST = 1 << 62


@dataclass(frozen=True, slots=True)
class KeyedTimes:
    """Events sorted by key and time: the number of each one's key, and its time."""

    keys: Ints
    times: Ints

    def __len__(self) -> int:
        return len(self.keys)

    def __post_init__(self) -> None:
        assert len(self.keys) == len(self.times)

    @property
    def begins(self) -> Ints:
        """For each event the place of the first one of its key."""
        return _first_places(self.keys[1:] != self.keys[:-1], len(self))

    @property
    def ticks(self) -> Ints:
        """For each event the place of the first one of its key and time: those before it come earlier."""
        new = (self.keys[1:] != self.keys[:-1]) | (self.times[1:] != self.times[:-1])
        return _first_places(new, len(self))

    def lie_within(self, width: int) -> bool:
        """Whether a window of this width holds all events of a key."""
        return bool((self.times - self.times[self.begins] <= width).all())

    def since(self, width: int) -> Ints:
        """For each event the place of the first one of its key that is at most `width` earlier."""
        begins, low = self.begins, self.times - width
        found = np.empty(len(self), np.int64)
        edges = [*np.unique(begins).tolist(), len(self)]
        for first, last in pairwise(edges):
            found[first:last] = first + np.searchsorted(self.times[first:last], low[first:last])
        return found


def _first_places(new: npt.NDArray[np.bool_], count: int) -> Ints:
    places = np.zeros(count, np.int64)
    places[1:] = np.where(new, np.arange(1, count), 0)
    return np.maximum.accumulate(places) if count else places


def bounded(weights: Sequence[Numbers], before: Sequence[Numbers] = ()) -> bool:
    """Whether every sum stays within 63 bits; `before`: what was summed up for each step in earlier batches."""
    bound = 1
    for step, weight in enumerate(weights):
        known = sum(map(abs, before[step].tolist())) if step < len(before) - 1 else 0
        bound = known + bound * max(1, _absolute(weight))
        if bound * (len(weights) + 1) >= LARGEST:
            return False
    return True


def _absolute(weight: Numbers) -> int:
    if weight.dtype == object:
        return int(sum(map(abs, weight.tolist())))
    if len(weight) and max(abs(int(weight.max())), abs(int(weight.min()))) >= LARGEST // len(weight):
        return LARGEST
    return int(np.abs(weight).sum())


def wide(weights: Sequence[Numbers]) -> list[Numbers]:
    """Numbers as Python's integers, which never overflow."""
    return [weight if weight.dtype == object else weight.astype(object) for weight in weights]


def running(weight: Numbers) -> Numbers:
    """Sums of what stands before each place, and of everything."""
    found = np.zeros(len(weight) + 1, weight.dtype)
    np.cumsum(weight, out=found[1:])
    return found


def chains(events: KeyedTimes, weights: Sequence[Numbers], before: Sequence[Numbers]) -> list[Numbers]:
    """For each step what the chains that end at each event add up to.

    before  for each step the sum over earlier batches, for each event that of its key
    """
    begins, ticks = events.begins, events.ticks
    found: list[Numbers] = []
    for step, weight in enumerate(weights):
        if not step:
            found.append(weight)
            continue
        total = running(found[-1])
        found.append(weight * (total[ticks] - total[begins] + before[step - 1]))
    return found


def chains_within(events: KeyedTimes, weights: Sequence[Numbers], width: int) -> Numbers:
    """What the whole chains that end at each event, and begin at most `width` earlier, add up to."""
    last = len(weights) - 1
    if not last:
        return weights[0]
    if events.lie_within(width):  # then there is nothing to take away
        return chains(events, weights, [np.zeros(len(events), np.int64)] * last)[-1]
    low, high, begins = events.since(width), events.ticks, events.begins
    sums: dict[tuple[int, int], tuple[Numbers, Numbers]] = {}  # of steps j..m: up to low, and up to high
    for first in range(last):
        total = running(weights[first])
        for step in range(first, last):
            if step > first:
                total = running(weights[step] * (total[high] - total[begins]))
            base = total[begins]
            sums[first, step] = (total[low] - base, total[high] - base)
    behind: dict[int, Numbers] = {}  # chains of the steps first..last - 1 that lie in the window
    for first in range(last - 1, -1, -1):
        whole = sums[first, last - 1][1] - sums[first, last - 1][0]
        for step in range(first, last - 1):
            whole = whole - sums[first, step][0] * behind[step + 1]
        behind[first] = whole
    return weights[last] * behind[0]
