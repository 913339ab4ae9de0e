"""Conservative: candidates are held until guarantees say that nothing can spoil them (Liu 2009)."""

from __future__ import annotations

from benchmarks.disorder.baselines.engine import Engine
from benchmarks.disorder.baselines.negatives import Negatives
from benchmarks.disorder.baselines.pattern import FOREVER, NEVER, Change, Event, Pattern, Pog, Sequence
from benchmarks.disorder.baselines.purge import sweep, sweep_negatives
from benchmarks.disorder.baselines.sorted_stacks import SortedStacks

ALL = frozenset({"A1", "A2", "P3"})


class Conservative(Engine):
    """WinSeq and WinNeg. `rules` are the purge rules in use; `punctuate` makes guarantees from a known largest delay.

    `printed_release` and `printed_purge` are the strict comparisons of the paper, to show what they miss.
    """

    def __init__(
        self,
        pattern: Pattern,
        rules: frozenset[str] = ALL,
        *,
        punctuate: int | None = None,
        printed_release: bool = False,
        printed_purge: bool = False,
    ) -> None:
        super().__init__(pattern)
        self.rules = rules
        self.punctuate = punctuate
        self.printed_release = printed_release
        self.printed_purge = printed_purge
        self.stacks = SortedStacks(pattern, self.counters)
        self.negatives = Negatives(pattern, self.counters)
        self.wm = dict.fromkeys(pattern.types, NEVER)
        self.holding: dict[Sequence, tuple[int, ...]] = {}  # with the guarantee that each negation must reach

    def on_event(self, event: Event) -> list[Change]:
        if event.ts <= self.wm.get(event.type, NEVER):
            self.counters.pog_violations += 1
            self.late.append(event)
            return []
        late = event.ts < self.clock
        self.clock = max(self.clock, event.ts)
        if event.type in self.pattern.forbidden:
            self.counters.late_negative += late
            self._prune(event)
            self.negatives.insert(event)
        ready: list[Sequence] = []
        if event.type in self.pattern.positions:
            self.counters.late_positive += late
            self.stacks.insert(event)
            ready = self._sieve(self.stacks.completed(event, late))
        changes = self.plus(ready)
        if self.punctuate is not None and not late:
            for type in self.pattern.types:
                changes += self.on_pog(Pog(type, self.clock - self.punctuate - 1))
        return changes

    def on_pog(self, pog: Pog) -> list[Change]:
        if pog.ts <= self.wm.get(pog.type, FOREVER):
            return []  # older than what is known, or of no interest
        self.wm[pog.type] = pog.ts
        sweep(self.stacks, self.rules, self.wm, pog, printed=self.printed_purge)
        ready = [sequence for sequence, bounds in self.holding.items() if self._releasable(bounds)]
        for sequence in ready:
            del self.holding[sequence]
        self.counters.released += len(ready)
        sweep_negatives(self.stacks, self.negatives, self.wm)
        return self.plus(ready)

    def flush(self) -> list[Change]:
        return [change for type in self.pattern.types for change in self.on_pog(Pog(type, FOREVER))]

    def size(self) -> int:
        return self.stacks.size() + self.negatives.size() + len(self.holding)

    def _sieve(self, found: list[Sequence]) -> list[Sequence]:
        """Spoiled candidates go, safe ones pass at once, the others are held."""
        passed = []
        for sequence in found:
            if self.negatives.violate(sequence):
                continue
            bounds = self._bounds(sequence)
            if self._releasable(bounds):
                passed.append(sequence)
            else:
                self.holding[sequence] = bounds
                self.counters.held += 1
        return passed

    def _bounds(self, sequence: Sequence) -> tuple[int, ...]:
        """The guarantee that each negation needs: the end of its gap."""
        ends = []
        for negation in self.pattern.negations:
            after = negation.gap < len(sequence)
            ends.append(sequence[negation.gap].ts if after else sequence[0].ts + self.pattern.window)
        return tuple(ends)

    def _releasable(self, bounds: tuple[int, ...]) -> bool:
        extra = 1 if self.printed_release else 0
        return all(
            self.wm[negation.type] >= bound + extra
            for negation, bound in zip(self.pattern.negations, bounds, strict=True)
        )

    def _prune(self, event: Event) -> None:
        spoiled = [sequence for sequence in self.holding if self.pattern.spoils(event, sequence)]
        for sequence in spoiled:
            del self.holding[sequence]
        self.counters.held_pruned += len(spoiled)
