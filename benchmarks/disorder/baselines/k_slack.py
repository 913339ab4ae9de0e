"""K-slack: a buffer of K time units sorts the events in front of the in-order engine (Liu 2009, V)."""

from __future__ import annotations

import heapq

from benchmarks.disorder.baselines.engine import Engine
from benchmarks.disorder.baselines.in_order import InOrder
from benchmarks.disorder.baselines.pattern import NEVER, Change, Event, Pattern


class KSlack(Engine):
    """Releases `ts < clock - K`; what comes behind the last release is set aside and counted."""

    def __init__(self, pattern: Pattern, k: int) -> None:
        super().__init__(pattern)
        self.k = k
        self.inner = InOrder(pattern)
        self.counters = self.inner.counters
        self.buffer: list[tuple[int, int, Event]] = []
        self.last = NEVER

    def on_event(self, event: Event) -> list[Change]:
        if event.ts < self.last:
            self.counters.k_violations += 1
            self.late.append(event)
            return []
        self.clock = max(self.clock, event.ts)
        heapq.heappush(self.buffer, (event.ts, event.number, event))
        return self._released(self.clock - self.k)

    def flush(self) -> list[Change]:
        return self._released(None) + self.inner.flush()

    def size(self) -> int:
        return len(self.buffer) + self.inner.size()

    def _released(self, before: int | None) -> list[Change]:
        changes: list[Change] = []
        while self.buffer and (before is None or self.buffer[0][0] < before):
            event = heapq.heappop(self.buffer)[2]
            self.last = event.ts
            changes += self.inner.on_event(event)
        return changes
