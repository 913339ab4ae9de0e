"""Rollback: a rule walks along the entries of each key in order, and answers before all of them are there.

An entry that comes late, or goes, rolls its key back to the state before it. The entries behind it are replayed, and
the difference to what was given before is the answer. What is settled is folded into one state for each key, in plain
values: it does not depend on which events or keys a kernel still has, and memory is bounded by what is not settled.

Paper: Jefferson 1985, Virtual Time (Time Warp): stragglers, rollback to a saved state, anti-messages, and fossil
collection once time is known to be complete.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Any, Protocol, TypeAlias

from tocsin.events import END_OF_TIME

FEW = 64  # keys that are not worth a look
STALE = object()  # the state after an entry that was not replayed yet
Place: TypeAlias = tuple[Any, ...]  # of an entry in the order of its key; it begins with the end
Difference: TypeAlias = Iterator[tuple[int, Any]]  # +1 or -1, and an answer


class SequentialRule(Protocol):
    """What happens to the entries of one key, one after the other.

    A state is a plain JSON value of lists, texts and numbers (it is stored as such), and is not changed in place: an
    earlier one may be gone back to. Answers can be hashed.
    """

    def begin(self) -> Any:
        """The state of a key that has had no entry."""

    def step(self, state: Any, entry: Any) -> tuple[Any, Sequence[Any]]:
        """The state after the next entry, and what it brings."""

    def due(self, state: Any) -> int:
        """When the rule wants to be told that time is complete; END_OF_TIME: never."""

    def wake(self, state: Any, time: int) -> tuple[Any, Sequence[Any]]:
        """The state once every entry up to `time` is there, and what that brings; then it is due later than that.

        END_OF_TIME: no entry comes any more. Only keys that are due are told.
        """

    def forget(self, state: Any, until: int) -> Any:
        """The state once every later entry ends after `until`; equal to `begin()` where nothing is left of it."""


@dataclass(slots=True)
class Entry:
    """An entry that is not settled: the state after it, and what was given up to it since the entry before."""

    place: Place
    what: Any
    state: Any = STALE
    given: Sequence[Any] = ()


@dataclass(slots=True)
class History:
    """One key: the state after its settled entries, and the others in order.

    fresh  so many of the open entries have a state that holds
    now    the state as it is now: after the entries that count, and the time that has passed since
    tail   what was given since the last entry, because time has passed
    gone   what was given for entries that are no longer there
    """

    settled: Any
    open: list[Entry] = field(default_factory=list)
    fresh: int = 0
    now: Any = None
    tail: Sequence[Any] = ()
    gone: list[Any] = field(default_factory=list)

    def _at(self, place: Place) -> tuple[int, bool]:
        """Where an entry stands or would stand, and whether it is there."""
        at = bisect_left(self.open, place, key=lambda entry: entry.place)
        return at, at < len(self.open) and self.open[at].place == place

    def insert(self, place: Place, what: Any) -> bool:
        """Put an entry into its place; False if it is there already."""
        at, there = self._at(place)
        if not there:
            self.open.insert(at, Entry(place, what))
            self.fresh = min(self.fresh, at)
        return not there

    def remove(self, place: Place) -> None:
        """Take an entry out again, if it is there."""
        at, there = self._at(place)
        if there:
            self.gone += self.open.pop(at).given
            self.fresh = min(self.fresh, at)
            if at < len(self.open):
                self.open[at].state = STALE

    def replay(self, rule: SequentialRule, upto: int, now: int) -> Difference:
        """Bring the entries that end by `upto` up to date, then let time pass until `now`; what differs from before."""
        state = self.open[self.fresh - 1].state if self.fresh else self.settled
        before, after = Counter(self.gone), Counter[Any]()
        changed = False
        while self.fresh < len(self.open) and self.open[self.fresh].place[0] <= upto:
            entry = self.open[self.fresh]
            if changed or entry.state is STALE:
                before.update(entry.given)
                old, state = entry.state, _stepped(rule, state, entry)
                after.update(entry.given)
                changed = old is STALE or old != state
            state = entry.state
            self.fresh += 1
        before.update(self.tail)
        self.now, self.tail = passed(rule, state, now)
        after.update(self.tail)
        self.gone = []
        yield from ((-1, answer) for answer in (before - after).elements())
        yield from ((1, answer) for answer in (after - before).elements())

    def settle(self, rule: SequentialRule, until: int, now: int) -> None:
        """Fold what ends by `until` into one state; nothing of it can change any more."""
        count = 0
        while count < self.fresh and self.open[count].place[0] <= until:
            count += 1
        if count:
            self.settled = self.open[count - 1].state
            self.fresh -= count
            del self.open[:count]
        if rule.due(self.settled) <= min(until, END_OF_TIME - 1):  # what that brought is settled, too
            self.settled, _ = passed(rule, self.settled, until)
            if self.fresh:
                _stepped(rule, self.settled, self.open[0])
            else:
                self.tail = () if until == END_OF_TIME else passed(rule, self.settled, now)[1]


def passed(rule: SequentialRule, state: Any, until: int) -> tuple[Any, Sequence[Any]]:
    """The state once time is complete up to `until`, and what that brings."""
    answers: list[Any] = []
    while (due := rule.due(state)) < END_OF_TIME and due <= until:
        state, more = rule.wake(state, END_OF_TIME if until == END_OF_TIME else due)
        answers += more
        if until == END_OF_TIME:
            break
    return state, answers


def _stepped(rule: SequentialRule, state: Any, entry: Entry) -> Any:
    """Let time pass up to an entry and step over it; the state after that."""
    state, waiting = passed(rule, state, entry.place[0] - 1)
    entry.state, more = rule.step(state, entry.what)
    entry.given = [*waiting, *more]
    return entry.state


class Alarms:
    """When to look at each key again: one time for each.

    Keys of one time come in an order of their own, so that a restart does not change the order of answers.
    """

    def __init__(self) -> None:
        self.times: dict[Hashable, int] = {}
        self._heap: list[tuple[int, str, Hashable]] = []

    def set(self, key: Hashable, time: int) -> None:
        """Look at a key when time has come to `time`; END_OF_TIME: never."""
        if self.times.get(key, END_OF_TIME) == time:
            return
        if time >= END_OF_TIME:
            self.times.pop(key, None)
            return
        self.times[key] = time
        heappush(self._heap, (time, repr(key), key))
        if len(self._heap) > 2 * len(self.times) + FEW:  # most of them were set to other times since
            self._heap = [alarm for alarm in self._heap if self.times.get(alarm[2]) == alarm[0]]
            heapify(self._heap)

    @property
    def first(self) -> int:
        """The earliest time at which a key wants to be looked at; END_OF_TIME: none does."""
        while self._heap and self.times.get(self._heap[0][2]) != self._heap[0][0]:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else END_OF_TIME

    def past(self, time: int) -> Iterator[tuple[int, Hashable]]:
        """The keys whose time has come, in order of time; their alarms are over."""
        while self._heap and self._heap[0][0] <= time:
            when, _, key = heappop(self._heap)
            if self.times.get(key) == when:
                del self.times[key]
                yield when, key


class Rollback:
    """The histories of all keys under one rule."""

    def __init__(self, rule: SequentialRule) -> None:
        self.rule = rule
        self.keys: dict[Hashable, History] = {}
        self._touched: dict[Hashable, None] = {}
        self._waking, self._settling = Alarms(), Alarms()
        self._enough = FEW

    def history(self, key: Hashable) -> History:
        """The history of a key; it begins when it is asked for."""
        found = self.keys.get(key)
        if found is None:
            found = self.keys[key] = History(self.rule.begin())
        return found

    def resume(self, key: Hashable, settled: Any) -> None:
        """Begin with what was folded before; entries that were open are inserted after that."""
        self.history(key).settled = settled
        self._touched[key] = None
        self._waking.set(key, self.rule.due(settled))

    def settled(self, key: Hashable) -> Any:
        """The state of a key after its settled entries."""
        found = self.keys.get(key)
        return self.rule.begin() if found is None else found.settled

    @property
    def entries(self) -> Iterable[tuple[Hashable, Entry]]:
        """All that is not settled, by key and in order."""
        return ((key, entry) for key, history in self.keys.items() for entry in history.open)

    # --- entries in any order ---

    def insert(self, key: Hashable, place: Place, what: Any) -> bool:
        """Put an entry into its place; False if it is there already."""
        self._touched[key] = None
        return self.history(key).insert(place, what)

    def remove(self, key: Hashable, place: Place) -> None:
        """Take an entry out again, if it is there."""
        self._touched[key] = None
        self.history(key).remove(place)

    def begin_again(self) -> None:
        """The rule has changed, and nothing is settled: all entries are stepped over once more."""
        for key, history in self.keys.items():
            history.settled, history.fresh = self.rule.begin(), 0
            for entry in history.open:
                entry.state = STALE
            self._touched[key] = None

    def advance(self, upto: int, now: int, until: int) -> Difference:
        """What differs, now that entries came or went: those that end by `upto` count, and time has come to `now`.

        What ends by `until` is settled; `until` is not after the other two.
        """
        rule = self.rule
        woken = dict.fromkeys(key for _, key in self._waking.past(now))
        ripe = dict.fromkeys(key for _, key in self._settling.past(until))
        for key in {**self._touched, **woken, **ripe}:
            history = self.keys[key]
            yield from history.replay(rule, upto, now)
            history.settle(rule, until, now)
            self._waking.set(key, END_OF_TIME if now >= END_OF_TIME else rule.due(history.now))
            self._settling.set(key, history.open[0].place[0] if history.open else rule.due(history.settled))
        self._touched = {}
        self._forget(until)

    # --- entries in order, each settled ---

    def step(self, key: Hashable, what: Any) -> Sequence[Any]:
        """Step over the next entry, which is settled; what it brings. `wake` was called with the time before it."""
        history = self.history(key)
        history.settled, answers = self.rule.step(history.settled, what)
        self._waking.set(key, self.rule.due(history.settled))
        return answers

    def wake(self, until: int) -> Iterator[tuple[int, Any]]:
        """Time is complete up to `until`: what that brings, each with its time, in order of time."""
        for when, key in self._waking.past(until):
            history = self.keys[key]
            history.settled, answers = passed(self.rule, history.settled, END_OF_TIME if until == END_OF_TIME else when)
            self._waking.set(key, END_OF_TIME if until == END_OF_TIME else self.rule.due(history.settled))
            yield from ((when, answer) for answer in answers)
        self._forget(until)

    # --- keys ---

    def _forget(self, until: int) -> None:
        """Drop the keys of which nothing is left, whenever there are twice as many as the last time."""
        if len(self.keys) <= self._enough:
            return
        begin = self.rule.begin()
        for key, history in list(self.keys.items()):
            history.settled = self.rule.forget(history.settled, until)
            if not history.open and not history.tail and history.settled == begin:
                del self.keys[key]
                self._waking.set(key, END_OF_TIME)
                self._settling.set(key, END_OF_TIME)
        self._enough = max(FEW, 2 * len(self.keys))
