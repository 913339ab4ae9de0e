"""SeqState as sorted arrays: binary search takes the place of pointers (Liu 2009)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from benchmarks.disorder.baselines.engine import Counters
from benchmarks.disorder.baselines.pattern import Event, Pattern, Sequence


class SortedStacks:
    """One array for each positive position, sorted by time, equal times in order of arrival."""

    def __init__(self, pattern: Pattern, counters: Counters) -> None:
        self.pattern = pattern
        self.counters = counters
        self.times: list[list[int]] = [[] for _ in pattern.positives]
        self.events: list[list[Event]] = [[] for _ in pattern.positives]

    def size(self) -> int:
        return sum(map(len, self.times))

    def insert(self, event: Event) -> None:
        """At its place in time, at every position of its type."""
        for position in self.pattern.positions[event.type]:
            times, events = self.times[position], self.events[position]
            if not times or times[-1] <= event.ts:
                times.append(event.ts)
                events.append(event)
            else:
                at = bisect_right(times, event.ts)
                times.insert(at, event.ts)
                events.insert(at, event)
            self.counters.inserts += 1

    def pre_eve(self, event: Event, position: int) -> Event | None:
        """The latest event of the previous stack before this one; None if there is none."""
        if position == 0:
            return None
        at = bisect_left(self.times[position - 1], event.ts)
        return self.events[position - 1][at - 1] if at else None

    def any_in(self, position: int, low: int, high: int) -> bool:
        """Whether the stack holds an event with low <= ts <= high."""
        return self.first_in(position, low, high) is not None

    def first_in(self, position: int, low: int, high: int) -> int | None:
        """The smallest time in [low, high]."""
        times = self.times[position]
        at = bisect_left(times, low)
        return times[at] if at < len(times) and times[at] <= high else None

    def drop_before(self, time: int) -> None:
        for times, events in zip(self.times, self.events, strict=True):
            count = bisect_left(times, time)
            if count:
                del times[:count]
                del events[:count]
                self.counters.purged += count

    def drop(self, position: int, event: Event) -> None:
        at = self.events[position].index(event)
        del self.times[position][at]
        del self.events[position][at]

    # --- sequences -------------------------------------------------------------------------------------------------

    def completed(self, event: Event, late: bool) -> list[Sequence]:
        """The sequences that contain a new event: in order it can only be the last, late it can stand anywhere."""
        found: list[Sequence] = []
        last = len(self.times) - 1
        for position in self.pattern.positions[event.type]:
            if late or position == last:
                found += self.around(event, position)
        self.counters.sequences_built += len(found)
        return found

    def around(self, event: Event, position: int) -> list[Sequence]:
        """Every sequence with the event at this position: each way to its left with each to its right."""
        window = self.pattern.window
        prefixes: list[Sequence] = []
        self.left(position, (event,), event.ts - window, prefixes)
        if position == len(self.times) - 1 or not prefixes:
            return prefixes
        suffixes: list[Sequence] = []
        reach = max(prefix[0].ts for prefix in prefixes) + window
        self.right(position, (event,), reach, suffixes)
        return [a + b[1:] for a in prefixes for b in suffixes if b[-1].ts - a[0].ts <= window]

    def left(self, position: int, tail: Sequence, floor: int, out: list[Sequence]) -> None:
        """Ways from `tail` back to the first position, not before `floor`."""
        self.counters.partials += 1
        if position == 0:
            out.append(tail)
            return
        times, events = self.times[position - 1], self.events[position - 1]
        first = bisect_left(times, floor)
        for at in range(bisect_left(times, tail[0].ts, first) - 1, first - 1, -1):
            if not self.pattern.keyed or events[at].key == tail[0].key:
                self.left(position - 1, (events[at], *tail), floor, out)

    def right(self, position: int, head: Sequence, reach: int, out: list[Sequence]) -> None:
        """Ways from `head` on to the last position, not after `reach`."""
        self.counters.partials += 1
        if position == len(self.times) - 1:
            out.append(head)
            return
        times, events = self.times[position + 1], self.events[position + 1]
        first = bisect_right(times, head[-1].ts)
        for at in range(first, bisect_right(times, reach, first)):
            if not self.pattern.keyed or events[at].key == head[-1].key:
                self.right(position + 1, (*head, events[at]), reach, out)
