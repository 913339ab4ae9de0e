"""Slack: events wait until nothing can come before them any more, and leave in order of time.

The delay is a time, or a number of events, or adapts: it grows to what is observed. An event leaves once it ends more
than the delay before the clock; what comes later than that has missed its turn.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

import numpy as np

from tocsin.encode.merge import join, take
from tocsin.events import BEGINNING, END_OF_TIME
from tocsin.items import Bools, Ints, Items
from tocsin.order.strategy import Strategy

REMEMBERED = 4096  # delays that the adaptive slack looks back at


@dataclass(slots=True)
class Sorter:
    """Holds rows back. `late`: the delay in ticks, as it stands now."""

    strategy: Strategy
    late: int = 0
    clock: int = BEGINNING
    left: int = BEGINNING  # everything that ends before this has left
    held: list[Items] = field(default_factory=list)
    delays: Ints = field(default_factory=lambda: np.zeros(0, np.int64))

    def __post_init__(self) -> None:
        self.late = self.strategy.late or 0

    @property
    def count(self) -> int:
        """How many rows wait."""
        return sum(len(items) for items in self.held)

    def push(self, items: Items) -> tuple[Items | None, Ints]:
        """The rows that leave, in order; and the places of the given rows that have missed their turn."""
        missed = self._missed(items.end)
        if missed.any():
            items = take(items, ~missed)
        if len(items):
            self.held.append(items)
        leaving = self._leave(self._turn())
        return leaving, np.flatnonzero(missed)

    def advance(self, time: int) -> Items | None:
        """Nothing that ends at or before `time` comes any more: that much leaves."""
        self.clock = max(self.clock, min(time, END_OF_TIME))
        self.left = max(self.left, min(time + 1, END_OF_TIME))
        return self._leave(self.left)

    def _missed(self, end: Ints) -> Bools:
        """Which rows come after their turn; one by one, because each of them moves the clock."""
        if not len(end):
            return np.zeros(0, np.bool_)
        before = np.maximum.accumulate(np.concatenate(([self.clock], end[:-1])))
        self.clock = max(int(before[-1]), int(end[-1]))
        if self.strategy.quantile is not None:
            self._adapt(np.maximum(before - end, 0)[before > BEGINNING])
        if self.strategy.events is not None:
            return self._overtaken(end, self.strategy.events)
        if self.strategy.quantile is not None:
            return end < self.left
        return (end < before - self.late) | (end < self.left)

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
            if len(waiting) > most:
                self.left = max(self.left, heappop(waiting))
        return missed

    def _adapt(self, delays: Ints) -> None:
        """The delay grows to what covers the wanted share of the last events; it never shrinks."""
        self.delays = np.concatenate((self.delays, delays))[-REMEMBERED:]
        assert self.strategy.quantile is not None
        if len(self.delays):
            self.late = max(self.late, int(np.quantile(self.delays, self.strategy.quantile, method="higher")))

    def _turn(self) -> int:
        """Rows that end before this leave."""
        return self.left if self.strategy.events is not None else max(self.left, self.clock - self.late)

    def _leave(self, turn: int) -> Items | None:
        self.left = max(self.left, turn)
        if not self.held:
            return None
        whole = join(self.held)
        ripe = whole.end < turn
        self.held = [] if ripe.all() else [whole] if not ripe.any() else [take(whole, ~ripe)]
        if not ripe.any():
            return None
        places = np.flatnonzero(ripe)
        return take(whole, places[np.lexsort((whole.start[places], whole.end[places]))])
