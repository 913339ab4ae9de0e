"""NegState: the negative events, a sorted list for each negated item."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from benchmarks.disorder.baselines.engine import Counters
from benchmarks.disorder.baselines.pattern import Event, Pattern, Sequence


class Negatives:
    """Sorted by time; equal times in order of arrival."""

    def __init__(self, pattern: Pattern, counters: Counters) -> None:
        self.pattern = pattern
        self.counters = counters
        self.times: list[list[int]] = [[] for _ in pattern.negations]
        self.events: list[list[Event]] = [[] for _ in pattern.negations]

    def insert(self, event: Event) -> None:
        for index in self.pattern.forbidden[event.type]:
            at = bisect_right(self.times[index], event.ts)
            self.times[index].insert(at, event.ts)
            self.events[index].insert(at, event)
            self.counters.inserts += 1

    def violate(self, sequence: Sequence) -> bool:
        """Whether some stored event, of any negated item, spoils the sequence."""
        return any(self._hit(index, sequence) for index in range(len(self.times)))

    def _hit(self, index: int, sequence: Sequence) -> bool:
        self.counters.neg_checks += 1
        low, high = self.pattern.gap(index, sequence)
        times = self.times[index]
        first = bisect_left(times, low)
        if not self.pattern.keyed:
            return first < len(times) and times[first] <= high
        last = bisect_right(times, high, first)
        return any(event.key == sequence[0].key for event in self.events[index][first:last])

    def drop_before(self, index: int, time: int) -> None:
        """Forget what is older than `time`."""
        count = bisect_left(self.times[index], time)
        if count:
            del self.times[index][:count]
            del self.events[index][:count]
            self.counters.purged_neg += count

    def drop(self, index: int, event: Event) -> None:
        at = self.events[index].index(event)
        del self.times[index][at]
        del self.events[index][at]
        self.counters.purged_neg += 1

    def size(self) -> int:
        return sum(map(len, self.times))
