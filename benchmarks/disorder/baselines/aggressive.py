"""Aggressive: answers at once, and takes them back when a late negative event proves them wrong (Liu 2009)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from typing import Literal

from benchmarks.disorder.baselines.engine import Engine
from benchmarks.disorder.baselines.negatives import Negatives
from benchmarks.disorder.baselines.pattern import FOREVER, NEVER, Change, Event, Pattern, Pog, Sequence
from benchmarks.disorder.baselines.pending import Pending
from benchmarks.disorder.baselines.sorted_stacks import SortedStacks


class Aggressive(Engine):
    """Purges after W + K, or by guarantees if K is None.

    victims    how a late negative event finds the answers it spoils: "regenerate" builds them anew from the stacks
               (Algorithms 3 and 4), "index" looks them up among the answers that were given
    trailing   a negation at the end waits for the end of the window, or is answered "immediate" and corrected
    printed_purge   W + K also where 2 W + K is needed (example G17)
    """

    def __init__(
        self,
        pattern: Pattern,
        k: int | None,
        *,
        victims: Literal["regenerate", "index"] = "regenerate",
        trailing: Literal["window", "immediate"] = "window",
        printed_purge: bool = False,
    ) -> None:
        super().__init__(pattern)
        self.k = k
        self.printed_purge = printed_purge
        self.immediate = trailing == "immediate"
        self.stacks = SortedStacks(pattern, self.counters)
        self.negatives = Negatives(pattern, self.counters)
        self.pending = Pending(pattern, self.counters)
        self.index = AnswerIndex(pattern) if victims == "index" else None
        self.wm = dict.fromkeys(pattern.types, NEVER)

    def on_event(self, event: Event) -> list[Change]:
        late = event.ts < self.clock
        if self._too_late(event):
            return []
        self.clock = max(self.clock, event.ts)
        changes = self._given(self.pending.closed(self.clock))
        if event.type in self.pattern.forbidden:
            changes += self._negative(event, late)
        if event.type in self.pattern.positions:
            changes += self._positive(event, late)
        self._purge()
        return changes

    def on_pog(self, pog: Pog) -> list[Change]:
        if self.k is None and pog.ts > self.wm.get(pog.type, FOREVER):
            self.wm[pog.type] = pog.ts
            self._purge_by_guarantees()
        return []

    def flush(self) -> list[Change]:
        return self._given(self.pending.closed(FOREVER))

    def size(self) -> int:
        answers = 0 if self.index is None else len(self.index)
        return self.stacks.size() + self.negatives.size() + len(self.pending) + answers

    def _too_late(self, event: Event) -> bool:
        if self.k is not None and self.clock - event.ts > self.k:
            self.counters.k_violations += 1
        elif self.k is None and event.ts <= self.wm.get(event.type, NEVER):
            self.counters.pog_violations += 1
        else:
            return False
        self.late.append(event)
        return True

    def _positive(self, event: Event, late: bool) -> list[Change]:
        self.counters.late_positive += late
        self.stacks.insert(event)
        found = [s for s in self.stacks.completed(event, late) if not self.negatives.violate(s)]
        return self._given(found if self.immediate else self.pending.sieve(found, self.clock))

    def _negative(self, event: Event, late: bool) -> list[Change]:
        """First what it spoils, then it is stored: an answer that another spoiled before was never given."""
        self.counters.late_negative += late
        spoiled: list[Sequence] = []
        if late or self.immediate:
            spoiled = self._regenerated(event) if self.index is None else self.index.taken(event)
        if not self.immediate:
            self.pending.prune(event)
        self.negatives.insert(event)
        return self.minus(spoiled)

    def _given(self, sequences: list[Sequence]) -> list[Change]:
        if self.index is not None:
            for sequence in sequences:
                self.index.add(sequence)
        return self.plus(sequences)

    # --- what a late negative event spoils -------------------------------------------------------------------------

    def _regenerated(self, event: Event) -> list[Sequence]:
        """Algorithm 3 builds the sequences around the event; Algorithm 4 drops those that were spoiled already."""
        spurious: dict[Sequence, None] = {}
        for index in self.pattern.forbidden[event.type]:
            for sequence in self._surrounding(event, self.pattern.negations[index].gap):
                if self.pattern.spoils(event, sequence):
                    spurious[sequence] = None
        self.counters.spurious_built += len(spurious)
        window = self.pattern.window
        open_ended = self.pattern.trailing and not self.immediate
        return [
            sequence
            for sequence in spurious
            if not (open_ended and sequence[0].ts + window >= self.clock) and not self.negatives.violate(sequence)
        ]

    def _surrounding(self, event: Event, gap: int) -> list[Sequence]:
        """Sequences inside the window whose gap the event may lie in."""
        window, last = self.pattern.window, len(self.pattern.positives)
        heads: list[Sequence] = [()]
        if gap:
            heads = []
            for start in self._between(gap - 1, event.ts - window, event.ts - 1):
                self.stacks.left(gap - 1, (start,), event.ts - window, heads)
        if gap == last or not heads:
            return heads
        tails: list[Sequence] = []
        reach = event.ts + window if gap == 0 else max(head[0].ts for head in heads) + window
        for start in self._between(gap, event.ts + 1, reach):
            self.stacks.right(gap, (start,), reach, tails)
        keyed = self.pattern.keyed
        return [
            a + b
            for a in heads
            for b in tails
            if b[-1].ts - (a or b)[0].ts <= window and (not keyed or not a or a[0].key == b[0].key)
        ]

    def _between(self, position: int, low: int, high: int) -> list[Event]:
        times = self.stacks.times[position]
        return self.stacks.events[position][bisect_left(times, low) : bisect_right(times, high)]

    # --- purge -----------------------------------------------------------------------------------------------------

    def _purge(self) -> None:
        if self.k is None:
            return
        horizon = self.clock - self.pattern.window - self.k
        self.stacks.drop_before(horizon)
        further = self.pattern.window if self.pattern.both_ends and not self.printed_purge else 0
        for index in range(len(self.pattern.negations)):
            self.negatives.drop_before(index, horizon - further)
        if self.index is not None:
            self.index.drop_before(self.clock - self.k)

    def _purge_by_guarantees(self) -> None:
        """Without K: nothing that a future event, positive or negative, could still touch may go."""
        window, low = self.pattern.window, min(self.wm.values())
        self.stacks.drop_before(low - window + 1)
        further = window if self.pattern.both_ends else 0
        for index in range(len(self.pattern.negations)):
            self.negatives.drop_before(index, low - window - further + 1)
        if self.index is not None:
            self.index.drop_before(low + 1)


class AnswerIndex:
    """The answers that were given, by the begin of each of their gaps; no gap is longer than the window."""

    def __init__(self, pattern: Pattern) -> None:
        self.pattern = pattern
        self.gaps: list[list[tuple[int, int, int]]] = [[] for _ in pattern.negations]  # begin, end, number
        self.answers: dict[int, Sequence] = {}
        self.count = 0

    def __len__(self) -> int:
        return len(self.answers)

    def add(self, sequence: Sequence) -> None:
        if not self.pattern.negations:
            return
        self.count += 1
        self.answers[self.count] = sequence
        for index, gaps in enumerate(self.gaps):
            low, high = self.pattern.gap(index, sequence)
            insort(gaps, (low, high, self.count))

    def taken(self, event: Event) -> list[Sequence]:
        """The answers that a negative event spoils; they are taken out."""
        hits: dict[int, None] = {}
        for index in self.pattern.forbidden[event.type]:
            gaps = self.gaps[index]
            first = bisect_left(gaps, (event.ts - self.pattern.window, NEVER, 0))
            for low, high, number in gaps[first:]:
                if low > event.ts:
                    break
                answer = self.answers.get(number)
                if high >= event.ts and answer is not None and self.pattern.spoils(event, answer):
                    hits[number] = None
        return [self.answers.pop(number) for number in hits]

    def drop_before(self, low: int) -> None:
        """Forget answers whose gaps have all ended before anything that can still come."""
        if not self.gaps:
            return
        window = self.pattern.window
        for gaps in self.gaps:
            count = bisect_left(gaps, (low - window, NEVER, 0))
            del gaps[:count]
        settled = []
        for number, answer in self.answers.items():  # in the order in which they were given, so mostly of time
            if answer[0].ts + window >= low:
                break
            settled.append(number)
        for number in settled:
            del self.answers[number]
