"""The three arms of Li 2010 (5.5) in plain Python: naive ISEQ, indexed along ends, and with begins.

They are Algorithms 11 and 13 with the corrections of the specification: triggers, drops and purges only for strict
comparisons, which chains are. State is what the stacks hold, begins included, averaged over the items; joins are the
candidates that were looked at.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from dataclasses import dataclass, field

from benchmarks.interval.load import Chain

Event = tuple[int, int, int, int]  # end, start, number, type
ARMS = ("naive", "indexed", "begins")


@dataclass
class Counted:
    """What an arm says of a run."""

    results: int = 0
    joins: int = 0
    dropped: int = 0
    purged: int = 0
    cascaded: int = 0
    items: int = 0
    held: int = 0  # summed over the items
    peak: int = 0

    @property
    def average(self) -> float:
        return self.held / max(1, self.items)


@dataclass
class Stack:
    """The instances of one leaf by their ends; with begins also the begins by their starts."""

    events: list[Event] = field(default_factory=list)
    begun: list[tuple[int, int]] = field(default_factory=list)  # (start, number)
    whole: dict[int, Event] = field(default_factory=dict)  # by number, where begins are kept


class Arm:
    """One engine for one chain."""

    def __init__(self, kind: str, chain: Chain, window: int) -> None:
        self.kind, self.chain, self.window = kind, chain, window
        self.leaves = [type for type, _ in chain]
        self.place = {type: at for at, (type, _) in enumerate(chain)}
        self.which = dict(chain)
        self.stacks = {type: Stack() for type in self.leaves}
        self.counted = Counted()
        self.ends = [type for type, which in chain if which == "end"]
        # x ends after y: the end of x stands in the chain behind any endpoint of y that is its end
        self.before = {type: self._ending_before(type) for type in self.leaves}
        last = chain[-1][0] if chain[-1][1] == "end" else None
        self.triggers = {type for type in self.leaves if self.which[type] == "start" or type == last}

    def _ending_before(self, type: int) -> list[int]:
        """The leaves whose ends, or whose begins, must stand before the end of this one."""
        if self.which[type] == "start":
            return []
        return [other for other, which in self.chain[: self.place[type]] if which == "end"]

    # --- items -------------------------------------------------------------------------------------------------------

    def begin(self, type: int, start: int, number: int) -> None:
        if self.kind != "begins" or type not in self.stacks:
            return
        self._clock(start)
        stack, at = self.stacks[type], self.place[type]
        if self.which[type] == "start":
            if at and not self._reached(at - 1, start):
                self.counted.dropped += 1
            else:
                insort(stack.begun, (start, number))
        self._count()

    def event(self, type: int, start: int, end: int, number: int) -> None:
        if type not in self.stacks:
            return
        self._clock(end)
        event, stack = (end, start, number, type), self.stacks[type]
        if end - start > self.window or self._is_hopeless(event):
            self.counted.dropped += 1
        else:
            stack.events.append(event)
            if self.kind == "begins":
                stack.whole[number] = event
            if type in self.triggers:
                self.counted.results += sum(1 for _ in self._found(event))
            if type == self.chain[-1][0] and self.which[type] == "end" and len(self.ends) == len(self.leaves):
                self._remove(stack, event)  # purge after use: it must end last
        self._count()

    def _is_hopeless(self, event: Event) -> bool:
        """Whether something that must have ended, or begun, before this one has not."""
        end, start, number, type = event
        if any(not self.stacks[other].events for other in self.before[type]):
            return True
        if self.kind != "begins":
            return False
        if self.which[type] == "start":
            at = bisect_left(self.stacks[type].begun, (start, number))
            return at == len(self.stacks[type].begun) or self.stacks[type].begun[at] != (start, number)
        at = self.place[type]
        return at > 0 and not self._reached(at - 1, end)

    def _reached(self, at: int, time: int) -> bool:
        """Whether there is something at a node of the chain before a time."""
        type, which = self.chain[at]
        stack = self.stacks[type]
        first = (stack.begun[0][0] if stack.begun else None) if which == "start" else (
            stack.events[0][0] if stack.events else None
        )  # fmt: skip
        return first is not None and first < time

    # --- results -----------------------------------------------------------------------------------------------------

    def _found(self, event: Event) -> Iterator[dict[int, Event]]:
        order = self._order(event[3])
        yield from self._joined({event[3]: event}, order, 0)

    def _order(self, type: int) -> list[int]:
        """In which order the other leaves are bound: along the index, then the rest."""
        others = [each for each in self.leaves if each != type]
        if self.kind == "naive":
            return others
        indexed = others if self.kind == "begins" else [each for each in others if self.which[each] == "end"]
        rest = [each for each in others if each not in indexed]
        return [*reversed(indexed), *rest]

    def _joined(self, bound: dict[int, Event], order: list[int], at: int) -> Iterator[dict[int, Event]]:
        if at == len(order):
            yield bound
            return
        leaf = order[at]
        for event in self._candidates(leaf, bound):
            self.counted.joins += 1
            if self._fits(leaf, event, bound):
                yield from self._joined({**bound, leaf: event}, order, at + 1)

    def _candidates(self, leaf: int, bound: dict[int, Event]) -> list[Event]:
        """All of a stack; of an indexed one those between its neighbours in the chain that are bound."""
        stack, which = self.stacks[leaf], self.which[leaf]
        if self.kind == "naive" or (self.kind == "indexed" and which == "start"):
            return stack.events
        low, high = -1, 1 << 62
        mine = self.place[leaf]
        for other, event in bound.items():
            if self.kind == "indexed" and self.which[other] != "end":
                continue
            time = event[1] if self.which[other] == "start" else event[0]
            if self.place[other] < mine:
                low = max(low, time)
            else:
                high = min(high, time)
        if which == "end":
            events = stack.events
            return events[bisect_right(events, (low, 1 << 62, 0, 0)) : bisect_left(events, (high, -1, 0, 0))]
        begun = stack.begun[bisect_right(stack.begun, (low, 1 << 62)) : bisect_left(stack.begun, (high, -1))]
        return [stack.whole[number] for _, number in begun if number in stack.whole]

    def _fits(self, leaf: int, event: Event, bound: dict[int, Event]) -> bool:
        time = event[1] if self.which[leaf] == "start" else event[0]
        for other, held in bound.items():
            theirs = held[1] if self.which[other] == "start" else held[0]
            if (time >= theirs) if self.place[leaf] < self.place[other] else (theirs >= time):
                return False
            if max(event[0], held[0]) - min(event[1], held[1]) > self.window:
                return False
        return True

    # --- what is kept ------------------------------------------------------------------------------------------------

    def _clock(self, clock: int) -> None:
        """Drop what the window has passed, and what can be in no result because something it needs is not there."""
        least, gone = clock - self.window, 0
        for stack in self.stacks.values():
            if any(event[1] < least for event in stack.events):
                kept = [event for event in stack.events if event[1] >= least]
                gone += len(stack.events) - len(kept)
                stack.events = kept
                if self.kind == "begins":
                    stack.whole = {event[2]: event for event in kept}
            if stack.begun and stack.begun[0][0] < least:
                at = bisect_left(stack.begun, (least, -1))
                gone += at
                del stack.begun[:at]
        if gone:
            self.counted.purged += gone
            self._cascade()

    def _cascade(self) -> None:
        changed = True
        while changed:
            changed = False
            for type in self.leaves:
                stack = self.stacks[type]
                if stack.events and any(not self.stacks[other].events for other in self.before[type]):
                    self.counted.cascaded += len(stack.events)
                    stack.events, stack.whole, changed = [], {}, True
                at = self.place[type]
                follows = self.kind == "begins" and at > 0 and self.which[type] == "start"
                if follows and stack.begun and not self.stacks[self.chain[at - 1][0]].begun:
                    self.counted.cascaded += len(stack.begun) + len(stack.events)
                    stack.begun, stack.events, stack.whole, changed = [], [], {}, True

    def _remove(self, stack: Stack, event: Event) -> None:
        stack.events.remove(event)
        stack.whole.pop(event[2], None)

    def _count(self) -> None:
        """An instance that has a begin is one entry: the begin has become the instance."""
        counted = self.counted
        held = 0
        for stack in self.stacks.values():
            held += len(stack.events) if not stack.begun else len(stack.begun)
        counted.items += 1
        counted.held += held
        counted.peak = max(counted.peak, held)
