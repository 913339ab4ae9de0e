"""Slack: events wait until nothing can come before them any more, and leave in order of time.

The delay is a time, or a number of events, or adapts: it grows to what is observed. An event leaves once it ends more
than the delay before the clock; what comes later than that has missed its turn.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from math import ceil

import numpy as np

from tocsin.encode.merge import cut, in_time, interleaved, join, parted, some_in_time
from tocsin.events import BEGINNING, END_OF_TIME
from tocsin.items import Bools, Ints, Items, clock_before, is_sorted
from tocsin.order.strategy import Strategy

REMEMBERED = 4096  # delays that the adaptive slack looks back at
SMALL = 8192  # rows that are joined with those before them
MANY = 64  # rows that are worth a look as a whole


@dataclass(slots=True)
class Sorter:
    """Holds rows back. `late`: the delay in ticks, as it stands now."""

    strategy: Strategy
    late: int = 0
    clock: int = BEGINNING
    left: int = BEGINNING  # everything that ends before this has left
    held: list[Items] = field(default_factory=list)
    delays: deque[int] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    ranked: list[int] = field(default_factory=list)  # the same delays in order of size

    def __post_init__(self) -> None:
        self.late = self.strategy.late or 0
        self.ranked = sorted(self.delays)

    @property
    def count(self) -> int:
        """How many rows wait."""
        return sum(int(np.count_nonzero(self._wanted(items))) for items in self.held)

    def push(self, items: Items) -> tuple[list[Items], Ints]:
        """The rows that leave, in order; and the places of the given rows that have missed their turn."""
        end = items.end
        in_order = len(end) > 0 and bool(end[0] >= self.clock) and is_sorted(end)
        missed = self._missed(end, in_order=in_order)
        if not in_order or missed.any():
            items = some_in_time(items, self._wanted(items) & ~missed)
        leaving, staying = cut(items, self._turn())
        before = self._leave(self._turn())
        self._hold(staying)
        return interleaved([*before, leaving]), np.flatnonzero(missed)

    def _wanted(self, items: Items) -> Bools:
        """The rows that are worth holding: those that somebody reads; all of them where events are counted."""
        return (items.types >= 0) | (self.strategy.events is not None)

    def hold(self, items: Items) -> None:
        """Hold rows back, whatever their order."""
        self._hold(in_time(items))

    def _hold(self, items: Items) -> None:
        """Pieces in order of time; small ones are joined, so that there are never many."""
        if not len(items):
            return
        while self.held and len(self.held[-1]) <= 2 * len(items) <= SMALL:
            items = in_time(join([self.held.pop(), items]))
        self.held.append(items)

    def advance(self, time: int) -> list[Items]:
        """Nothing that ends at or before `time` comes any more: that much leaves."""
        self.clock = max(self.clock, min(time, END_OF_TIME))
        self.left = max(self.left, min(time + 1, END_OF_TIME))
        return self._leave(self.left)

    def continue_from(self, old: Sorter) -> list[Items]:
        """Be where another one is, given all its rows and more; those that it let go leave."""
        self.late, self.clock, self.left = old.late, old.clock, old.left
        self.delays, self.ranked = old.delays.copy(), old.ranked.copy()
        return self._leave(self.left)

    def _missed(self, end: Ints, *, in_order: bool) -> Bools:
        """Which rows come after their turn; one by one, because each of them moves the clock."""
        if not len(end):
            return np.zeros(0, np.bool_)
        if in_order and self.strategy.events is None and self.strategy.quantile is None:
            self.clock = int(end[-1])
            return end < self.left if end[0] < self.left else np.zeros(len(end), np.bool_)
        before, began = clock_before(self.clock, end), self.clock
        self.clock = max(int(before[-1]), int(end[-1]))
        if self.strategy.events is not None:
            return self._overtaken(end, self.strategy.events)
        if self.strategy.quantile is not None:
            return self._adapting(end, before, self.strategy.quantile)
        before -= self.late
        missed: Bools = end < before
        if self.left > began - self.late:  # time has passed without events
            missed |= end < self.left
        return missed

    def _overtaken(self, end: Ints, most: int) -> Bools:
        """With a slack in events: whenever there are more, the first one leaves, and what ends before it is late."""
        waiting = [int(each) for items in self.held for each in items.end.tolist()]
        heapify(waiting)
        missed = np.zeros(len(end), np.bool_)
        for place, each in enumerate(end.tolist()):
            if each < self.left:
                missed[place] = True
                continue
            heappush(waiting, each)
            while len(waiting) > most:  # those that leave with the next one are among them, again
                self.left = max(self.left, heappop(waiting))
        return missed

    def _adapting(self, end: Ints, before: Ints, share: float) -> Bools:
        """With a slack that adapts: each row may make it longer, for itself it is too late then."""
        missed = np.zeros(len(end), np.bool_)
        if len(end) > MANY and bool((end >= before).all()):  # nothing is late, so the delay stays
            self.delays.extend([0] * int(np.count_nonzero(before > BEGINNING)))
            self.ranked = sorted(self.delays)
            return missed
        for place, (each, clock) in enumerate(zip(end.tolist(), before.tolist(), strict=True)):
            if clock > BEGINNING:
                self._adapt(max(clock - each, 0), share)
            missed[place] = each < self.left
            self.left = max(self.left, max(clock, each) - self.late)
        return missed

    def _adapt(self, delay: int, share: float) -> None:
        """The delay grows to what covers the wanted share of the last events; it never shrinks."""
        if len(self.delays) == REMEMBERED:
            del self.ranked[bisect_left(self.ranked, self.delays[0])]
        self.delays.append(delay)
        insort(self.ranked, delay)
        self.late = max(self.late, self.ranked[ceil(share * (len(self.ranked) - 1))])

    def _turn(self) -> int:
        """Rows that end before this leave."""
        return self.left if self.strategy.events is not None else max(self.left, self.clock - self.late)

    def _leave(self, turn: int) -> list[Items]:
        self.left = max(self.left, turn)
        leaving, self.held = parted(self.held, turn)
        return leaving
