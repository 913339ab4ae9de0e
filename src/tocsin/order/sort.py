"""Sorting (slack, K-slack): events wait until nothing can come before them any more, and leave in order of time.

The delay is a time, or a number of events, or adapts: it grows to what is observed. An event leaves once it ends more
than the delay before the clock; what comes later than that has missed its turn.

Paper: Li et al. 2010, 4.3, and Liu et al. 2009, V: the K-slack buffer in front of an in-order engine.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from math import ceil
from operator import itemgetter
from typing import Any

import numpy as np

from tocsin.codec import Part, as_number, as_numbers, decode, encode, nested, only_part, within
from tocsin.encode.merge import cut, in_time, interleaved, join, parted, runs, sliced, some_in_time
from tocsin.encode.row import LentRow, RowEncoder
from tocsin.encode.stored import RowReader, stored_rows
from tocsin.engine.changes import QUIET, Changes
from tocsin.engine.operator import Counters, Nesting, Operator
from tocsin.engine.texts import joined, of_operators, of_rows
from tocsin.engine.too_late import earliest
from tocsin.events import BEGINNING, END_OF_TIME
from tocsin.items import EVERY, Bools, Ints, ItemKind, Items, clock_before, guarantee, is_sorted
from tocsin.order.strategy import Strategy

REMEMBERED = 4096  # delays that the adaptive slack looks back at
SMALL = 8192  # rows that are joined with those before them
MANY = 64  # rows that are worth a look as a whole
MOST_SINGLE = 1 << 16  # single rows that stay dicts
Single = tuple[int, int, int, dict[str, Any]]  # end, start, when it came among these, row


class Sort(Nesting):
    """Holds rows back until it is their turn, then passes them on to `inner` in order of time.

    late   the delay in ticks, as it stands now
    tells  whether the inner operator is told how far time has passed, beyond the events that it sees
    """

    def __init__(self, inner: Operator, strategy: Strategy, reader: RowReader, *, tells: bool) -> None:
        self.inner: tuple[Operator, ...] = (inner,)
        self._next, self.strategy, self.tells, self._reader = inner, strategy, tells, reader
        self.late = strategy.late or 0
        self.clock = BEGINNING
        self.left = BEGINNING  # everything that ends before this has left
        self.held: list[Items] = []
        self.singles: list[Single] = []  # a heap: rows that came one by one, as the dicts that they came as
        self._source: RowEncoder | None = None  # who has read them
        self._came = 0
        self._by_delay = strategy.events is None and strategy.quantile is None
        self.delays: deque[int] = deque(maxlen=REMEMBERED)
        self.ranked: list[int] = []  # the same delays in order of size

    @property
    def counters(self) -> Counters:
        total = self._next.counters
        total.waiting += sum(int(np.count_nonzero(self._wanted(items))) for items in self.held) + len(self.singles)
        return total

    @property
    def texts_in_use(self) -> Ints:
        return joined([of_operators(self.inner), of_rows(self.held)])

    def push(self, items: Items) -> Changes:
        """Take rows in; pass on those whose turn has come. `late` of the changes are places of rows that missed it."""
        if items.single:
            if self._by_delay:
                return self._push_one(items)  # type: ignore[arg-type]  # `single` says that it is a LentRow
            items = items.copy()  # type: ignore[attr-defined]
        self._fold()
        said, at = Changes(late=[]), 0
        for are_rows, run in runs(items):
            found = self._push_rows(run) if are_rows else self._hear(run)
            said.add(found)
            said.late = [*said.late, *(at + place for place in found.late)]
            at += len(run)
        return said

    def _push_one(self, one: LentRow) -> Changes:
        """Take one row in by the shortest way: those whose turn has come are read again and passed on one by one."""
        source, end = one.source, one.time
        if source is not self._source or len(self.singles) > MOST_SINGLE:
            self._fold()
            self._source = source
        missed = end < self._turn()
        self.clock = max(self.clock, end)
        if one.is_known and not missed:
            self._came += 1
            heappush(self.singles, (end, int(one.start[0]), self._came, one.row))
        said = Changes(late=(0,)) if missed else QUIET
        turn, singles = self._turn(), self.singles
        if turn == self.left:
            return said
        for piece in self._leave_together(turn) if self.held else ():
            said = _and(said, self._next.push(piece))
        self.left = turn
        while singles and singles[0][0] < turn:
            source.take(heappop(singles)[3])
            said = _and(said, self._next.push(source.one))
        return _and(said, self._next.push(guarantee(turn - 1))) if self.tells else said

    def _leave_together(self, turn: int) -> list[Items]:
        """The rows that leave where some came in batches: single ones leave with those."""
        pieces, singles = self._leave(turn), self.singles
        if pieces and singles and singles[0][0] < turn:
            assert self._source is not None
            rows = []
            while singles and singles[0][0] < turn:
                rows.append(heappop(singles)[3])
            pieces = interleaved([*pieces, self._source.batch(rows)])
        return pieces

    def _fold(self) -> None:
        """Hold the single rows as all others are held."""
        if self.singles:
            assert self._source is not None
            rows = [row for _, _, _, row in sorted(self.singles, key=itemgetter(0, 1, 2))]
            self.singles = []
            self._hold(self._source.batch(rows))

    def _push_rows(self, items: Items) -> Changes:
        leaving, missed = self._sorted(items)
        said = Changes(late=missed.tolist())
        for piece in leaving:
            said.add(self._next.push(piece))
        if self.tells and self.left > BEGINNING:
            said.add(self._next.push(guarantee(self.left - 1)))
        return said

    def _hear(self, items: Items) -> Changes:
        """Let rows leave that a guarantee about all types covers; the clock of arrival is of no use further on."""
        assert items.kinds is not None
        said = Changes()
        for at, (kind, type) in enumerate(zip(items.kinds.tolist(), items.types.tolist(), strict=True)):
            if kind == ItemKind.TICK:
                continue
            covers = kind == ItemKind.END or (kind == ItemKind.GUARANTEE and type == EVERY)
            for piece in self._advance(int(items.end[at])) if covers else ():
                said.add(self._next.push(piece))
            said.add(self._next.push(sliced(items, at, 1)))
        return said

    def _sorted(self, items: Items) -> tuple[list[Items], Ints]:
        """The rows that leave, in order; and the places of the given rows that have missed their turn."""
        end = items.end
        in_order = len(end) > 0 and bool(end[0] >= self.clock) and is_sorted(end)
        missed = self._missed(end, in_order=in_order)
        if not in_order or missed.any():
            items = some_in_time(items, self._wanted(items) & ~missed)
        leaving, staying = cut(items, self._turn())
        before = self._leave(self._turn())
        self._hold(staying)
        return interleaved([*before, leaving]), np.flatnonzero(missed)

    def _wanted(self, items: Items) -> Bools:
        """The rows that must be sorted: those that a query reads, or all where the slack is counted in events."""
        return (items.types >= 0) | (self.strategy.events is not None)

    def _hold(self, items: Items) -> None:
        """Pieces in order of time; small ones are joined, so that there are never many."""
        if not len(items):
            return
        while self.held and len(self.held[-1]) <= 2 * len(items) <= SMALL:
            items = in_time(join([self.held.pop(), items]))
        self.held.append(items)

    def _advance(self, time: int) -> list[Items]:
        """Advance the watermark to `time` and release the held rows that end at or before it."""
        self.clock = max(self.clock, min(time, END_OF_TIME))
        self.left = max(self.left, min(time + 1, END_OF_TIME))
        return self._leave(self.left)

    def _missed(self, end: Ints, *, in_order: bool) -> Bools:
        """Which rows come after their turn; one by one, because each of them moves the clock."""
        if not len(end):
            return np.zeros(0, np.bool_)
        if in_order and self.strategy.events is None and self.strategy.quantile is None:
            self.clock = int(end[-1])
            return end < self.left if end[0] < self.left else np.zeros(len(end), np.bool_)
        before, began = clock_before(self.clock, end), self.clock
        self.clock = max(int(before[-1]), int(end[-1]))
        if self.strategy.events is not None:
            return self._overtaken(end, self.strategy.events)
        if self.strategy.quantile is not None:
            return self._adapting(end, before, self.strategy.quantile)
        missed: Bools = end < earliest(before, self.late)
        if self.left > earliest(began, self.late):  # time has passed without events
            missed |= end < self.left
        return missed

    def _overtaken(self, end: Ints, most: int) -> Bools:
        """With a slack in events: whenever there are more, the first one leaves, and what ends before it is late."""
        waiting = [int(each) for items in self.held for each in items.end.tolist()]
        heapify(waiting)
        missed = np.zeros(len(end), np.bool_)
        for place, each in enumerate(end.tolist()):
            if each < self.left:
                missed[place] = True
                continue
            heappush(waiting, each)
            while len(waiting) > most:  # those that leave with the next one are among them, again
                self.left = max(self.left, heappop(waiting))
        return missed

    def _adapting(self, end: Ints, before: Ints, share: float) -> Bools:
        """With a slack that adapts: each row may make it longer, for itself it is too late then."""
        missed = np.zeros(len(end), np.bool_)
        if len(end) > MANY and bool((end >= before).all()):  # nothing is late, so the delay stays
            self.delays.extend([0] * int(np.count_nonzero(before > BEGINNING)))
            self.ranked = sorted(self.delays)
            return missed
        for place, (each, clock) in enumerate(zip(end.tolist(), before.tolist(), strict=True)):
            if clock > BEGINNING:
                self._adapt(max(clock - each, 0), share)
            missed[place] = each < self.left
            self.left = max(self.left, earliest(max(clock, each), self.late))
        return missed

    def _adapt(self, delay: int, share: float) -> None:
        """The delay grows to what covers the wanted share of the last events; it never shrinks."""
        if len(self.delays) == REMEMBERED:
            del self.ranked[bisect_left(self.ranked, self.delays[0])]
        self.delays.append(delay)
        insort(self.ranked, delay)
        self.late = max(self.late, self.ranked[ceil(share * (len(self.ranked) - 1))])

    def _turn(self) -> int:
        """Rows that end before this leave."""
        return self.left if self.strategy.events is not None else max(self.left, earliest(self.clock, self.late))

    def _leave(self, turn: int) -> list[Items]:
        self.left = max(self.left, turn)
        leaving, self.held = parted(self.held, turn)
        return leaving

    # --- state ---

    def snapshot(self, since: int = 0) -> list[Part]:
        self._fold()
        words = {"late": self.late, "clock": self.clock, "left": self.left, "delays": list(self.delays)}
        rows = {str(at): stored_rows(items) for at, items in enumerate(self.held)}
        own = Part("sort", 0, encode("sort", words, rows))
        return [own, *nested("inner", self._next.snapshot(since))]

    def restore(self, parts: Iterable[Part]) -> None:
        parts = list(parts)
        stored = decode(only_part("sort", parts).data, "sort")
        words = stored.words
        held = self._reader.all(stored.tables.values())
        self._next.restore(within("inner", parts))
        self.late, self.clock, self.left = as_number(words["late"]), as_number(words["clock"]), as_number(words["left"])
        self.delays.extend(as_numbers(words["delays"]))
        self.ranked = sorted(self.delays)
        self.held = held


def _and(said: Changes, more: Changes) -> Changes:
    """What was answered, and what was answered after it."""
    if not more.batches:
        return said
    if said is QUIET:
        return more
    return Changes([*said.batches, *more.batches], more.frontier, said.late)
