"""Negation with slack: candidates are held until no admissible event can spoil them (Algorithm 10, Optimisation 4.5).

Li 2010, 4.6. LW = clock - K is the smallest time that can still come.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from benchmarks.disorder.baselines.engine import Counters
from benchmarks.disorder.baselines.negatives import Negatives
from benchmarks.disorder.baselines.pattern import Event, Pattern, Sequence


@dataclass(frozen=True, slots=True)
class NgSwitches:
    """`early_release` waits for the last negated gap only (4.5); off, for the last event to be more than K old.

    `printed_range` tests the whole span of a sequence instead of the gap (line 19 as printed; example X5).
    `printed_strict` releases one tick later, as line 14 is printed.
    """

    early_release: bool = True
    printed_range: bool = False
    printed_strict: bool = False


class HeldNegation:
    """The negation buffers and the holding set, a heap by the LW at which a candidate is safe."""

    def __init__(self, pattern: Pattern, counters: Counters, switches: NgSwitches) -> None:
        self.pattern = pattern
        self.counters = counters
        self.switches = switches
        self.negatives = Negatives(pattern, counters)
        self.holding: list[tuple[int, int, Sequence]] = []
        self.count = 0

    def size(self) -> int:
        return self.negatives.size() + len(self.holding)

    def held(self) -> list[Sequence]:
        return [sequence for _, _, sequence in sorted(self.holding)]

    def negative(self, event: Event) -> None:
        """Prune what it spoils, and keep it for sequences to come."""
        self.negatives.insert(event)
        kept = [entry for entry in self.holding if not self._spoils(event, entry[2])]
        if len(kept) < len(self.holding):
            self.counters.held_pruned += len(self.holding) - len(kept)
            self.holding = kept
            heapq.heapify(kept)

    def tick(self, low: int) -> list[Sequence]:
        """What is safe now that nothing before `low` can come."""
        done = []
        while self.holding and self.holding[0][0] <= low:
            done.append(heapq.heappop(self.holding)[2])
        self.counters.released += len(done)
        for index in range(len(self.pattern.negations)):
            self.negatives.drop_before(index, self._useless_before(index, low))
        return done

    def sequences(self, found: list[Sequence], low: int) -> list[Sequence]:
        """Candidates from the scan: spoiled ones go, safe ones pass, the others are held."""
        if not self.pattern.negations:
            return found
        passed = []
        for sequence in found:
            if self._violated(sequence):
                continue
            safe = self.safe_at(sequence)
            if safe <= low:
                passed.append(sequence)
            else:
                self.count += 1
                self.counters.held += 1
                heapq.heappush(self.holding, (safe, self.count, sequence))
        return passed

    def safe_at(self, sequence: Sequence) -> int:
        """The smallest LW at which nothing can spoil the sequence."""
        ends = [self._closes(index, sequence) for index in range(len(self.pattern.negations))]
        if not self.switches.early_release:
            ends.append(sequence[-1].ts + 1)
        return max(ends) + (1 if self.switches.printed_strict else 0)

    def _closes(self, index: int, sequence: Sequence) -> int:
        return self.pattern.gap(index, sequence)[1] + 1

    def _useless_before(self, index: int, low: int) -> int:
        """The exact bounds for each place of a negation."""
        gap, window = self.pattern.negations[index].gap, self.pattern.window
        if gap == len(self.pattern.positives):
            return low + 1
        return low - window if gap == 0 else low - window + 1

    def _spoils(self, event: Event, sequence: Sequence) -> bool:
        if self.switches.printed_range:
            return sequence[0].ts <= event.ts <= sequence[-1].ts
        return self.pattern.spoils(event, sequence)

    def _violated(self, sequence: Sequence) -> bool:
        if self.switches.printed_range:
            return any(self._spoils(event, sequence) for events in self.negatives.events for event in events)
        return self.negatives.violate(sequence)
