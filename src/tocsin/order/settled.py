"""Settled order: events leave in canonical order, each once, when it is guaranteed that none will come before them.

The same under every strategy: in order an event is settled when the clock has passed its end, otherwise when what is
guaranteed of all types, or the known delay, has. Consumption, constraint monitors and staged statements, whose answers
depend on the order of events, stand behind this operator (`order/keyed_process`).
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import numpy as np

from tocsin.codec import (
    Part,
    as_number,
    as_numbers_by_name,
    as_shape,
    damaged,
    decode,
    encode,
    nested,
    only_part,
    within,
)
from tocsin.encode.auto_eids import AutoEids
from tocsin.encode.merge import join, runs, sliced, take
from tocsin.encode.stored import RowReader, stored_rows
from tocsin.engine.changes import Changes
from tocsin.engine.operator import Counters, Nesting, Operator, RemembersAll
from tocsin.engine.stream_time import StreamTime
from tocsin.engine.texts import joined, of_operators, of_rows
from tocsin.events import BEGINNING, END_OF_TIME
from tocsin.items import Ints, ItemKind, Items, end, guarantee, is_sorted


class Settled(RemembersAll, Nesting):
    """Holds events back until they are settled, then passes them on to `inner` in canonical order: (end, start, eid).

    Events without eids get computed ones. An event that comes twice counts once, and one that is withdrawn before it is
    settled never was. `inner` is also told how far events are complete, and of the end.

    key  attributes of the query's key: events of different keys are different events, whatever their eids
    """

    def __init__(self, inner: Operator, time: StreamTime, reader: RowReader, key: tuple[str, ...] = ()) -> None:
        self.inner: tuple[Operator, ...] = (inner,)
        self._next, self.time, self._reader, self._key = inner, time, reader, key
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
        late: list[int] = []
        at = 0
        for are_rows, run in runs(items.copy() if items.single else items):  # type: ignore[attr-defined]
            if are_rows:
                late += [at + place for place in self._hold(run)]
            else:
                self.time.hear(run)
            at += len(run)
        said = self._release()
        said.late = late
        return said

    def _hold(self, items: Items) -> list[int]:
        """Keep the events that a query reads; return the places of those that come too late to be in order."""
        if len(items):
            self.time.clock = max(self.time.clock, int(items.end.max()))
        late = items.end <= self.passed
        wanted = take(items, (items.types >= 0) & ~late)
        if len(wanted):
            wanted = self.names.named(wanted)
            while self.held and len(self.held[-1]) <= 2 * len(wanted):  # so that there are never many pieces
                wanted = join([self.held.pop(), wanted])
            self.held.append(wanted)
        return np.flatnonzero(late).tolist()

    def _release(self) -> Changes:
        time = self.time
        until = END_OF_TIME if time.ended else time.open_from(time.mine, time.clock) - 1
        said = Changes(frontier=self.frontier)
        if until <= self.passed:
            return said
        ripe = [take(items, items.end <= until) for items in self.held]
        self.held = [rest for rest in (take(items, items.end > until) for items in self.held) if len(rest)]
        if whole := [items for items in ripe if len(items)]:
            said.add(self._next.push(canonical(join(whole), self._key)))
        said.add(self._next.push(end() if time.ended else guarantee(until)))
        self.passed, self.frontier = until, said.frontier
        self.names.forget(until)
        return said

    frontier = BEGINNING  # what `inner` said last

    def snapshot(self, since: int = 0) -> list[Part]:
        words = {"passed": self.passed, "frontier": self.frontier, "clock": self.time.clock, "ended": self.time.ended}
        rows = {str(at): stored_rows(items) for at, items in enumerate(self.held)}
        own = encode("settled", words | {"guarantees": self.time.guarantees}, rows, self.names.saved())
        return [Part("settled", 0, own), *nested("inner", self._next.snapshot(since))]

    def restore(self, parts: Iterable[Part]) -> None:
        parts = list(parts)
        stored = decode(only_part("settled", parts).data, "settled")
        words, held = stored.words, self._reader.all(stored.tables.values())
        ended, clock = as_shape(bool, words["ended"]), as_number(words["clock"])
        if ended and clock < END_OF_TIME:
            raise damaged("the saved state", "a stream has ended before the end of time")
        self.time.clock, self.time.ended = clock, ended
        self._next.restore(within("inner", parts))
        self.held, self.passed, self.frontier = held, as_number(words["passed"]), as_number(words["frontier"])
        self.time.guarantees = as_numbers_by_name(words["guarantees"])
        self.names.restore(stored.arrays)


class SettledByEnd(Settled):
    """Settled events; those of one end leave as they came: together, for an operator that puts them into order itself.

    Where events come in order, and none is withdrawn, nothing is copied but what one batch has in common with the next.
    """

    def _hold(self, items: Items) -> list[int]:
        if len(items):
            self.time.clock = max(self.time.clock, int(items.end.max()))
        late = items.end <= self.passed
        self.held.append(take(items, ~late) if late.any() else items)
        return np.flatnonzero(late).tolist()

    def _release(self) -> Changes:
        time = self.time
        until = END_OF_TIME if time.ended else time.open_from(time.mine, time.clock) - 1
        said = Changes(frontier=self.frontier)
        if until <= self.passed:
            self._few()
            return said
        ripe, self.held = self._ripe(until)
        for items in ripe:
            said.add(self._next.push(items))
        said.add(self._next.push(end() if time.ended else guarantee(until)))
        self.passed, self.frontier = until, said.frontier
        return said

    def _few(self) -> None:
        """Join what is held where it is many small pieces."""
        if len(self.held) > FEW_PIECES:
            self.held = [join(self.held)]

    def _ripe(self, until: int) -> tuple[list[Items], list[Items]]:
        """What is settled, piece by piece in order, and the rest; all events of one end are in one piece."""
        held = [items for items in self.held if len(items)]
        if not all(items.kinds is None and is_sorted(items.end) for items in held) or not all(
            one.end[-1] <= other.end[0] for one, other in pairwise(held)
        ):
            return self._sorted(join(held), until)
        pieces: list[Items] = []
        for items in held:
            if pieces and pieces[-1].end[-1] == items.end[0]:
                shared = int(np.searchsorted(items.end, items.end[0], side="right"))
                pieces[-1] = join([pieces[-1], sliced(items, 0, shared)])
                items = sliced(items, shared, len(items) - shared)
            if len(items):
                pieces.append(items)
        ripe, rest = [], []
        for items in pieces:
            cut = int(np.searchsorted(items.end, until, side="right"))
            ripe += [sliced(items, 0, cut)] if cut else []
            rest += [sliced(items, cut, len(items) - cut)] if cut < len(items) else []
        return ripe, rest

    def _sorted(self, items: Items, until: int) -> tuple[list[Items], list[Items]]:
        settled = items.end <= until
        rest = [take(items, ~settled)] if not settled.all() else []
        items = take(items, settled)
        if not len(items):
            return [], rest
        return [self._in_order(items)], rest

    def _in_order(self, items: Items) -> Items:
        if items.kinds is not None:
            return canonical(self.names.named(items), self._key)
        return take(items, np.argsort(items.end, kind="stable"))


class SettledOnce(SettledByEnd):
    """Settled events, each once: only those with eids can come twice, and these leave in canonical order."""

    def _ripe(self, until: int) -> tuple[list[Items], list[Items]]:
        held = [items for items in self.held if len(items)]
        if any(items.eid_high is not None for items in held):
            return self._sorted(join(held), until)
        return super()._ripe(until)

    def _in_order(self, items: Items) -> Items:
        return super()._in_order(items) if items.eid_high is None else canonical(items, self._key)


FEW_PIECES = 64  # so many small pieces are held as they came


def canonical(items: Items, key: tuple[str, ...]) -> Items:
    """Events in canonical order, each once, without those that were withdrawn; `items` are in order of arrival."""
    assert items.eid_high is not None and items.eid_low is not None
    same = [items.columns[attr].values for attr in key if attr in items.columns]
    columns = [items.types, *same, items.eid_low, items.eid_high, items.start, items.end]
    order = np.lexsort(columns)  # equal ones stay in order of arrival
    begins = np.ones(len(order), np.bool_)
    begins[1:] = np.logical_or.reduce([np.diff(column[order]) != 0 for column in columns])
    if items.kinds is not None:  # what came after the last withdrawal of an event counts
        event = np.cumsum(begins) - 1
        withdrawn = np.flatnonzero(items.kinds[order] == ItemKind.WITHDRAWAL)
        last = np.full(event[-1] + 1, -1)
        last[event[withdrawn]] = withdrawn  # ascending, so the last one stays
        left = np.flatnonzero(np.arange(len(order)) > last[event])
        order, begins = order[left], np.ones(len(left), np.bool_)
        begins[1:] = np.diff(event[left]) != 0
    found = take(items, order[begins])
    found.kinds = None
    return found
