"""Sequences that wait for the end of their window, because a negation stands at the end of the pattern."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from benchmarks.disorder.baselines.engine import Counters
from benchmarks.disorder.baselines.pattern import Event, Pattern, Sequence


class Pending:
    """A heap by the end of the window; sequences that a negative event spoiled are dropped when seen."""

    def __init__(self, pattern: Pattern, counters: Counters) -> None:
        self.pattern = pattern
        self.counters = counters
        self.heap: list[tuple[int, int, Sequence]] = []
        self.count = 0

    def __len__(self) -> int:
        return len(self.heap)

    def sieve(self, sequences: Iterable[Sequence], clock: int) -> list[Sequence]:
        """Keep what must wait, give back what need not."""
        if not self.pattern.trailing:
            return list(sequences)
        through = []
        for sequence in sequences:
            end = sequence[0].ts + self.pattern.window
            if end < clock:
                through.append(sequence)
            else:
                self.count += 1
                heapq.heappush(self.heap, (end, self.count, sequence))
                self.counters.held += 1
        return through

    def closed(self, clock: int) -> list[Sequence]:
        """The sequences whose window ended before `clock`."""
        done = []
        while self.heap and self.heap[0][0] < clock:
            done.append(heapq.heappop(self.heap)[2])
        self.counters.released += len(done)
        return done

    def prune(self, event: Event) -> None:
        """Drop what a negative event spoils."""
        kept = [entry for entry in self.heap if not self.pattern.spoils(event, entry[2])]
        if len(kept) < len(self.heap):
            self.counters.held_pruned += len(self.heap) - len(kept)
            self.heap = kept
            heapq.heapify(self.heap)
