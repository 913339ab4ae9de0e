"""The slack engine of the dissertation: the scan for any order, negation with slack, and release in order if wanted.

Li 2010, chapter 4. Its answers are never taken back; without negations they come at once.
"""

from __future__ import annotations

import heapq

from benchmarks.disorder.baselines.engine import Engine
from benchmarks.disorder.baselines.ng import HeldNegation, NgSwitches
from benchmarks.disorder.baselines.pattern import FOREVER, NEVER, Change, Event, Pattern, Sequence
from benchmarks.disorder.baselines.ssc import Scan, ScanSwitches


class Native(Engine):
    """SSC, WD and NG with slack K; None is an unknown slack, with which nothing is released or purged."""

    def __init__(
        self,
        pattern: Pattern,
        k: int | None,
        scan: ScanSwitches | None = None,
        ng: NgSwitches | None = None,
        *,
        ordered: bool = False,
    ) -> None:
        super().__init__(pattern)
        self.k = k
        self.scan = Scan(pattern, self.counters, k, scan or ScanSwitches())
        self.ng = HeldNegation(pattern, self.counters, ng or NgSwitches())
        self.release = OrderedRelease() if ordered else None

    @property
    def low(self) -> int:
        """LW: nothing older can still come."""
        return NEVER if self.k is None else self.clock - self.k

    def on_event(self, event: Event) -> list[Change]:
        if event.ts < self.low:
            self.counters.k_violations += 1
            self.late.append(event)
            return []
        ready: list[Sequence] = []
        if event.ts > self.clock:
            self.clock = event.ts
            self.scan.tick(self.clock)
            ready = self.ng.tick(self.low)
        if event.type in self.pattern.forbidden:
            self.counters.late_negative += event.ts < self.clock
            self.ng.negative(event)
        if event.type in self.pattern.positions:
            ready += self.ng.sequences(self.scan.take(event), self.low)
        return self._out(ready)

    def flush(self) -> list[Change]:
        self.k, self.clock = 0, FOREVER
        return self._out(self.ng.tick(FOREVER))

    def size(self) -> int:
        waiting = 0 if self.release is None else len(self.release.heap)
        return self.scan.size() + self.ng.size() + waiting

    def _out(self, ready: list[Sequence]) -> list[Change]:
        if self.release is not None:
            ready = self.release.through(ready, self.low, self.ng.held())
        return self.plus(ready)


def order_key(sequence: Sequence) -> tuple[int, ...]:
    """Results are ordered by their last event, then the one before it, and so on (G4.16)."""
    return tuple(event.ts for event in reversed(sequence))


class OrderedRelease:
    """Holds results until no earlier one can come: the level `delayed` (s3.2.11)."""

    def __init__(self) -> None:
        self.heap: list[tuple[tuple[int, ...], int, Sequence]] = []
        self.count = 0

    def through(self, ready: list[Sequence], low: int, undecided: list[Sequence]) -> list[Sequence]:
        for sequence in ready:
            self.count += 1
            heapq.heappush(self.heap, (order_key(sequence), self.count, sequence))
        first = min(map(order_key, undecided), default=None)
        done = []
        while self.heap and self.heap[0][2][-1].ts < low and (first is None or self.heap[0][0] <= first):
            done.append(heapq.heappop(self.heap)[2])
        return done
