"""The list of an operand: what it has collected, in canonical order, within its windows, found by value and by end."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import Any

from tocsin.staged.event import StagedEvent

WORTH_IT = 32  # places of events that are gone, before a list is made short again


class EventRun:
    """Events in canonical order; new ones come at the end, any may go. All in a time that does not grow with it."""

    __slots__ = ("_ends", "_events", "_head", "_numbers", "count")

    def __init__(self) -> None:
        self._events: list[StagedEvent | None] = []  # None: gone
        self._numbers: list[int] = []
        self._ends: list[int] = []
        self._head = 0  # nothing is left before this place
        self.count = 0

    def __iter__(self) -> Iterator[StagedEvent]:
        return self.between(None, None, newest=False)

    def add(self, event: StagedEvent) -> None:
        self._events.append(event)
        self._numbers.append(event.number)
        self._ends.append(event.end)
        self.count += 1

    def remove(self, event: StagedEvent) -> bool:
        """Take an event out; False if it is not there."""
        at = bisect_left(self._numbers, event.number)
        if at == len(self._numbers) or self._numbers[at] != event.number or self._events[at] is None:
            return False
        self._events[at] = None
        self.count -= 1
        self._tidy()
        return True

    def _tidy(self) -> None:
        """Skip what is gone at the beginning; make the list short where most of it is gone."""
        head, size = self._head, len(self._events)
        while head < size and self._events[head] is None:
            head += 1
        self._head = head
        if size - self.count > WORTH_IT + self.count:
            left = [event for event in self._events if event is not None]
            self._events, self._head = list(left), 0
            self._numbers, self._ends = [event.number for event in left], [event.end for event in left]

    @property
    def oldest(self) -> StagedEvent | None:
        return self._events[self._head] if self.count else None

    def between(self, low: int | None, high: int | None, *, newest: bool) -> Iterator[StagedEvent]:
        """The events that end in a closed range, from the newest or from the oldest on."""
        first = self._head if low is None else max(self._head, bisect_left(self._ends, low))
        last = len(self._events) if high is None else bisect_right(self._ends, high)
        events = self._events
        for at in range(last - 1, first - 1, -1) if newest else range(first, last):
            event = events[at]
            if event is not None:
                yield event


class OperandList:
    """What one operand of one context and local partition has collected.

    attrs   attributes by whose values events are looked up
    rows, stages, range  the windows of the operand, in ticks where it is time
    """

    __slots__ = ("_by_value", "_ends", "_range", "_rows", "_stages", "all")

    def __init__(self, attrs: Iterable[str], rows: int | None, stages: int | None, range: int | None) -> None:
        self.all = EventRun()
        self._by_value: dict[str, dict[Any, EventRun]] = {attr: {} for attr in attrs}
        self._rows, self._stages, self._range = rows, stages, range
        self._ends: dict[int, int] = {}  # how many events have each end, where stages are counted

    def collect(self, events: Iterable[StagedEvent], now: int) -> None:
        """Take the events of a stage, in order; what no longer fits into the windows goes."""
        self.expire(now)
        for event in events:
            self._add(event)
        while self._rows is not None and self.all.count > self._rows:
            self._drop_oldest()
        while self._stages is not None and len(self._ends) > self._stages:
            self._drop_oldest()
        self.expire(now)

    def expire(self, now: int) -> None:
        """Drop what is older than the range."""
        if self._range is None:
            return
        while (oldest := self.all.oldest) is not None and now >= oldest.end + self._range:
            self.remove(oldest)

    def _add(self, event: StagedEvent) -> None:
        self.all.add(event)
        if self._stages is not None:
            self._ends[event.end] = self._ends.get(event.end, 0) + 1
        for attr, runs in self._by_value.items():
            value = event.values.get(attr)
            if value is not None and value == value:  # NaN is found by nobody
                run = runs.get(value)
                if run is None:
                    run = runs[value] = EventRun()
                run.add(event)

    def _drop_oldest(self) -> None:
        oldest = self.all.oldest
        assert oldest is not None
        self.remove(oldest)

    def remove(self, event: StagedEvent) -> bool:
        """Take an event out; False if it is not there."""
        if not self.all.remove(event):
            return False
        if self._stages is not None:
            self._ends[event.end] -= 1
            if not self._ends[event.end]:
                del self._ends[event.end]
        for attr, runs in self._by_value.items():
            value = event.values.get(attr)
            if value is not None and value == value:
                run = runs[value]
                run.remove(event)
                if not run.count:
                    del runs[value]
        return True

    def with_value(self, attr: str, value: Any) -> EventRun | None:
        """The events with a value of an attribute that is looked up."""
        return self._by_value[attr].get(value)
