"""Naive recomputation: after each event everything is sorted and detected anew, and the difference is the answer."""

from __future__ import annotations

from bisect import insort

from benchmarks.disorder.baselines.engine import Engine
from benchmarks.disorder.baselines.in_order import InOrder
from benchmarks.disorder.baselines.pattern import FOREVER, NEVER, Change, Event, Pattern, Sequence


class Recompute(Engine):
    """Keeps the events of 2 W + K, and the answers that an admissible event can still change."""

    def __init__(self, pattern: Pattern, k: int) -> None:
        super().__init__(pattern)
        self.k = k
        self.events: list[Event] = []
        self.open_from = NEVER
        self.standing: dict[Sequence, None] = {}

    def on_event(self, event: Event) -> list[Change]:
        if self.clock - event.ts > self.k:
            self.counters.k_violations += 1
            self.late.append(event)
            return []
        self.clock = max(self.clock, event.ts)
        if event.type in self.pattern.types:
            insort(self.events, event, key=lambda stored: (stored.ts, stored.number))
            self.counters.inserts += 1
        return self._revised(self.clock)

    def flush(self) -> list[Change]:
        return self._revised(FOREVER)

    def size(self) -> int:
        return len(self.events) + len(self.standing)

    def _revised(self, clock: int) -> list[Change]:
        """What is true now against what was said, for answers that are still open."""
        now = {sequence: None for sequence in self._detected(clock) if sequence[0].ts >= self.open_from}
        changes = self.minus(sequence for sequence in self.standing if sequence not in now)
        changes += self.plus(sequence for sequence in now if sequence not in self.standing)
        self._purge(now)
        return changes

    def _purge(self, now: dict[Sequence, None]) -> None:
        """No admissible event can touch an answer that begins before W + K, and none needs events before 2 W + K."""
        window = self.pattern.window
        self.open_from = self.clock - self.k - window
        self.events = [event for event in self.events if event.ts >= self.open_from - window]
        self.standing = {sequence: None for sequence in now if sequence[0].ts >= self.open_from}

    def _detected(self, clock: int) -> list[Sequence]:
        engine = InOrder(self.pattern)
        found = [change.sequence for event in self.events for change in engine.on_event(event)]
        self.counters.sequences_built += engine.counters.sequences_built
        return found + engine.pending.closed(clock)
