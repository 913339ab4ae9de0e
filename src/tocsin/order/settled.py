"""Settled order: events leave in canonical order, each once, when it is guaranteed that none will come before them.

The same under every strategy: in order an event is settled when the clock has passed its end, otherwise when what is
guaranteed of all types, or the known delay, has. Consumption, constraint monitors and staged statements, whose answers
depend on the order of events, stand behind this operator.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tocsin.codec import Part, decode, encode, nested, only_part, within
from tocsin.encode.auto_eids import AutoEids
from tocsin.encode.merge import join, runs, take
from tocsin.encode.stored import RowReader, stored_rows
from tocsin.engine.changes import Changes
from tocsin.engine.operator import Counters, Operator
from tocsin.engine.stream_time import StreamTime
from tocsin.engine.texts import joined, of_operators, of_rows
from tocsin.events import BEGINNING, END_OF_TIME
from tocsin.items import Ints, ItemKind, Items, end, guarantee


class Settled:
    """Holds events back until they are settled, then passes them on to `inner` in canonical order: (end, start, eid).

    Events without eids get computed ones. Of events with one eid the first in canonical order counts; an event that is
    withdrawn before it is settled never was. `inner` is also told how far events are complete, and of the end.
    """

    def __init__(self, inner: Operator, time: StreamTime, reader: RowReader) -> None:
        self.inner: tuple[Operator, ...] = (inner,)
        self._next, self.time, self._reader = inner, time, reader
        self.held: list[Items] = []
        self.names = AutoEids()
        self.passed = BEGINNING  # every event that ends at or before this has been passed on

    @property
    def counters(self) -> Counters:
        total = self._next.counters
        total.waiting += sum(map(len, self.held))
        return total

    @property
    def texts_in_use(self) -> Ints:
        return joined([of_operators(self.inner), of_rows(self.held)])

    def push(self, items: Items) -> Changes:
        """Take events in any order; pass on those that are settled now."""
        for are_rows, run in runs(items.copy() if items.single else items):  # type: ignore[attr-defined]
            if are_rows:
                self._hold(run)
            else:
                self.time.hear(run)
        return self._release()

    def _hold(self, items: Items) -> None:
        wanted = take(items, items.types >= 0)
        if len(items):
            self.time.clock = max(self.time.clock, int(items.end.max()))
        if len(wanted):
            self.held.append(self.names.named(wanted))

    def _release(self) -> Changes:
        time = self.time
        until = END_OF_TIME if time.ended else time.open_from(time.types, time.clock) - 1
        said = Changes(frontier=self.passed)
        if until <= self.passed:
            return said
        ripe = [take(items, items.end <= until) for items in self.held]
        self.held = [rest for rest in (take(items, items.end > until) for items in self.held) if len(rest)]
        if whole := [items for items in ripe if len(items)]:
            said.add(self._next.push(_canonical(join(whole))))
        said.add(self._next.push(end() if time.ended else guarantee(until)))
        self.passed = until
        self.names.forget(until)
        return said

    def snapshot(self, since: int = 0) -> list[Part]:
        words = {"passed": self.passed, "clock": self.time.clock, "ended": self.time.ended}
        rows = {str(at): stored_rows(items) for at, items in enumerate(self.held)}
        own = encode("settled", words | {"guarantees": self.time.guarantees}, rows, self.names.saved())
        return [Part("settled", 0, own), *nested("inner", self._next.snapshot(since))]

    def restore(self, parts: Iterable[Part]) -> None:
        parts = list(parts)
        stored = decode(only_part("settled", parts).data, "settled")
        words, held = stored.words, self._reader.all(stored.tables.values())
        self._next.restore(within("inner", parts))
        self.held, self.passed = held, words["passed"]
        self.time.clock, self.time.ended, self.time.guarantees = words["clock"], words["ended"], words["guarantees"]
        self.names.restore(stored.arrays)


def _canonical(items: Items) -> Items:
    """Events in canonical order, each once, without those that were withdrawn."""
    assert items.eid_high is not None and items.eid_low is not None
    high, low = items.eid_high, items.eid_low
    by_eid = np.lexsort((items.start, items.end, low, high))
    same: Ints = np.zeros(len(items), np.int64)  # numbers the eids
    same[by_eid[1:]] = np.cumsum((np.diff(high[by_eid]) != 0) | (np.diff(low[by_eid]) != 0))
    gone = np.zeros(int(same.max()) + 1, np.bool_)
    if items.kinds is not None:
        gone[same[items.kinds == ItemKind.WITHDRAWAL]] = True
    _, first = np.unique(same[by_eid], return_index=True)
    kept = by_eid[first]
    kept = kept[~gone[same[kept]]]
    order = np.lexsort((low[kept], high[kept], items.start[kept], items.end[kept]))
    found = take(items, kept[order])
    found.kinds = None
    return found
