"""The operator of a query under constraints: it follows the traces beside the query, and stops feeding it those that
are decided.

Events go to the query as before, but for traces that are closed: in every completion their matches are those that they
have. What is told of traces is read from settled events only (`constraint/tracker`), so it is the same in every order
of arrival. Where traces are divided, the number of a trace is known only then, and the query stands behind settled
order itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from tocsin.codec import Part, decode, nested, only_part, pack, unpack, within
from tocsin.constraint.reasoning import reason_about
from tocsin.constraint.release import answer, answering_early, drop_rows, events_kept, known_sooner, release, rows_kept
from tocsin.constraint.telling import TraceCounts
from tocsin.constraint.tracker import CODE, Tracker
from tocsin.encode.merge import Rearranged, runs, take, with_column
from tocsin.engine.changes import Changes
from tocsin.engine.operator import Counters, Nesting, Operator, Setting
from tocsin.engine.stream_time import StreamTime
from tocsin.engine.texts import joined, of_operators, of_rows
from tocsin.events import ANY, BEGINNING
from tocsin.items import Bools, Column, Ints, ItemKind, Items, tick
from tocsin.order.settled import Settled, SettledByEnd
from tocsin.plan.facts import types_of
from tocsin.schema import Kind

PUSH = "#push"  # of a row that is held: the number of the push that it came with
FEW = 2  # rows that are kept are few if the batch has so many times more
ENOUGH = 1 << 18  # rows that are worth dropping
MOST = 3  # times as many rows may be kept as events are stored


def monitored(inner: Operator, setting: Setting, *, jit: bool) -> Monitored:
    """The operator of a query under constraints, around all that it is made of."""
    return Monitored(inner, setting, jit=jit)


class Monitored(Nesting):
    """Follows traces, and tells what is known of them; `query` is the operator around which it stands."""

    def __init__(self, query: Operator, setting: Setting, *, jit: bool) -> None:
        plan = setting.plan
        assert plan.under is not None
        self.query, self._plan, self._setting = query, plan, setting
        self.reasoning = reason_about(plan)
        self.divides = plan.under.divides
        self.tracker = Tracker(setting, self.reasoning, jit=jit, forward=query if self.divides else None)
        time = self._time(setting.time)
        behind = SettledByEnd if time.ordered else Settled
        self.front = behind(self.tracker, time, setting.reader, plan.under.key)
        self.inner: tuple[Operator, ...] = (self.front,) if self.divides else (query, self.front)
        self._ordered = time.ordered
        self._following = False  # events are replayed: traces were followed before
        self._released = 0  # events whose rows are still kept
        self._pushes = 0

    def _time(self, time: StreamTime) -> StreamTime:
        mine = types_of(self._plan)
        if ANY in mine:
            mine = tuple(type for type in time.types if type not in self._plan.schema.matches)
        return replace(time, mine=mine, guarantees={})

    @property
    def counters(self) -> Counters:
        return self.query.counters

    @property
    def counts(self) -> TraceCounts:
        """What was counted of traces."""
        return self.tracker.counts

    @property
    def texts_in_use(self) -> Ints:
        return joined([of_operators(self.inner), of_rows(self.front.held)])

    # --- the one verb ---

    def push(self, items: Items) -> Changes:
        if items.single:
            items = items.copy()  # type: ignore[attr-defined]
        if self.divides:
            found = self.front.push(items)
            self.tracker.settle()
            return found
        said, late, at = Changes(), list[int](), 0
        for are_rows, run in runs(items):
            if are_rows:
                late += [at + place for place in self._rows(run, said)]
            else:
                told = Changes() if self._following else self.front.push(run)
                self._pushes += 1  # what came before has been given to the query
                closed = self._take_back(said)
                said.add(self.query.push(run))
                self._answer(*closed, said)
                self._say(told, said)
            at += len(run)
        said.late = late
        return said

    def _rows(self, items: Items, said: Changes) -> list[int]:
        """Feed events to the query, without those of closed traces."""
        if self._ordered:
            return self._in_order(items, said)
        items = self.front.names.named(items)  # saved with it: an equal row after a restart is another event
        tracker = self.tracker
        tracker.fresh = tracker.keys.count
        codes = tracker.codes_of(items)
        gone = tracker.is_closed(codes)
        if self._following:
            return self._feed(items, gone, said)
        self._pushes += 1
        numbered = with_column(items, PUSH, Column(Kind.INT, np.full(len(items), self._pushes)))
        told = self.front.push(take(numbered, ~gone) if gone.any() else numbered)
        gone |= tracker.is_behind(codes, items.end) & (True if items.kinds is None else items.kinds == ItemKind.EVENT)
        closed = self._take_back(said)  # before the clock of the query moves on: then it would be too late
        late = self._feed(items, gone, said)
        self._answer(*closed, said)
        self._say(told, said)
        return late

    def _in_order(self, items: Items, said: Changes) -> list[int]:
        """Follow the traces before the query is fed, which order allows: nothing is stored that is released at once."""
        tracker = self.tracker
        tracker.fresh = known = tracker.keys.count
        codes = tracker.codes_of(items)
        if self._following:
            return self._feed(items, tracker.is_closed(codes), said)
        told = self.front.push(with_column(items, CODE, Column(Kind.INT, codes)))
        gone = tracker.sift(items, codes)
        hopeless, when = tracker.hopeless, tracker.closing_times
        closed, before = tracker.settle(), len(said.batches)
        late = self._feed(items, gone, said)
        self._known_sooner(closed, when, said, before)
        self._answer(closed, when, said)
        self._release(closed[(closed < known) | ~hopeless])
        self._say(told, said)
        return late

    def _answer(self, closed: Ints, when: Ints, said: Changes) -> None:
        """Give the answers of closed traces that wait to be refuted."""
        sure = when > BEGINNING
        found = answer(self.query, self._plan, self.tracker.keys, closed[sure], when[sure])
        if found is not None:
            said.add(found)

    def _known_sooner(self, closed: Ints, when: Ints, said: Changes, first: int) -> None:
        """In a push that reaches far the deadlines of answers may have come after their traces were closed."""
        if len(said.batches) == first or not len(closed) or answering_early(self.query, self._plan) is None:
            return
        order = np.argsort(closed)
        order = order[when[order] > BEGINNING]
        times = closed[order], when[order]
        reader, codes_of = self._setting.reader, self.tracker.codes_of
        said.batches[first:] = [known_sooner(each, codes_of, reader, times) for each in said.batches[first:]]

    def _release(self, closed: Ints) -> None:
        """Forget what is stored of closed traces; the rows, too, once there are as many as others."""
        if not len(closed):
            return
        released = release(self.query, self._plan, self.tracker.keys, closed)
        self.tracker.counts.released += released
        self._released += released
        if self._released > ENOUGH and rows_kept(self.query) > ENOUGH + MOST * events_kept(self.query):
            drop_rows(self.query)
            self._released = 0

    def _feed(self, items: Items, gone: Bools, said: Changes) -> list[int]:
        """Give the query what it has to see; of the others it learns that time goes on."""
        kept = np.flatnonzero(~gone)
        self.tracker.counts.skipped += len(items) - len(kept)
        late: list[int] = []
        if len(kept):
            found = self.query.push(items if len(kept) == len(items) else _some(items, kept))
            late = kept[np.array(found.late, np.int64)].tolist() if len(found.late) else []
            said.add(found)
        if len(kept) < len(items):
            clock = int(items.end.max())
            if not len(kept) or int(items.end[kept].max()) < clock:
                said.add(self.query.push(tick(clock)))
        return late

    def _say(self, told: Changes, said: Changes) -> None:
        said.batches += told.batches

    def _take_back(self, said: Changes) -> tuple[Ints, Ints]:
        """Where events come in any order the query was given them before they were settled: those of traces that are
        closed by now are withdrawn. Returns the traces whose answers may be given, and when they were closed."""
        tracker = self.tracker
        when, newly = tracker.closing_times, tracker.settle()
        if self._ordered:
            self._answer(newly, when, said)
            self._release(newly)
            return newly[:0], when[:0]
        back, tracker.passed_over = tracker.passed_over, []
        if len(newly):
            left = []
            for held in self.front.held:
                mine = np.isin(tracker.codes_of(held), newly)
                back += [take(held, mine)] if mine.any() else []
                left += [take(held, ~mine)] if not mine.all() else []
            self.front.held = left
        for items in back:
            items = take(items, items.columns[PUSH].values != self._pushes) if PUSH in items.columns else items
            items.kinds = np.full(len(items), ItemKind.WITHDRAWAL, np.int8)
            if len(items):
                said.add(self.query.push(items))
        return newly, when

    # --- state ---

    def snapshot(self, since: int = 0) -> list[Part]:
        mine = nested("traces", self.front.snapshot(since))
        return mine if self.divides else [*mine, *nested("query", self.query.snapshot(since))]

    def restore(self, parts: Iterable[Part]) -> None:
        parts = list(parts)
        self.front.restore(within("traces", parts))
        if not self.divides:
            self.query.restore(within("query", parts))

    # --- beside a log of events ---

    @property
    def memory(self) -> bytes:
        return pack(self.front.snapshot())

    def follow(self, memory: bytes) -> None:
        """Before events are replayed: which traces are closed must be known."""
        if self.divides:
            return
        stored = decode(only_part("tracker", within("inner", unpack(memory))).data, "tracker")
        self.tracker.take_up(stored)
        self._following = True

    def resume(self, memory: bytes) -> None:
        """After events were replayed: go on from what was remembered."""
        self._following = False
        self.front.restore(unpack(memory))


def _some(items: Items, kept: Ints) -> Items:
    """Some rows. Few are copied, so that the memory of all can be freed; many stay views of it."""
    return take(items, kept) if FEW * len(kept) < len(items) else Rearranged(items, kept)
