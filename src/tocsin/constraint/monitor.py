"""The operator of a query under constraints: it follows the traces beside the query, and stops feeding it those that
are decided.

Events go to the query as before, but for traces that are closed: in every completion their matches are those that they
have. In quiet traces no event comes any more that an answer waits for. What is told of traces is read from settled
events only (`constraint/tracker`), so it is the same in every order of arrival.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from tocsin.codec import Part, nested, within
from tocsin.constraint.endpoints import SettledEndpoints
from tocsin.constraint.reasoning import bounded, reason_about
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

PUSH = "#push"  # of a row that is held: the number of the push that it came with, and its place there
NEVER = -1  # in place of that: the query was not given the row, or it was withdrawn
FEW = 2  # rows that are kept are few if the batch has so many times more
ENOUGH = 1 << 18  # rows that are worth dropping
MOST = 3  # times as many rows may be kept as events are stored


def monitored(inner: Operator, setting: Setting, *, jit: bool) -> Monitored:
    """The operator of a query under constraints, around all that it is made of."""
    return Monitored(inner, setting, jit=jit)


class Monitored(Nesting):
    """Follows traces, and tells what is known of them; `query` is the operator around which it stands.

    It stands behind settled order where traces are divided, because only then the number of a trace is known; where
    answers are never withdrawn but events come in any order, because only then it is known that a match has no event
    behind the closing of its trace; and where starts of events are read, which are settled so late that nothing could
    be withdrawn any more. Otherwise it is given events as they come, and what it should not have seen is withdrawn.
    """

    def __init__(self, query: Operator, setting: Setting, *, jit: bool) -> None:
        plan = setting.plan
        assert plan.under is not None
        self.query, self._plan, self._setting = query, plan, setting
        self.reasoning = reason_about(plan)
        time = self._time(setting.time)
        self._ordered = time.ordered
        trusted = not plan.under.checked and bounded(plan) and self.reasoning.silent is None
        final = not time.ordered and not setting.corrects
        self.waits = plan.under.divides or (trusted and (final or bool(plan.under.starts)))
        self.tracker = Tracker(setting, self.reasoning, jit=jit, forward=query if self.waits else None)
        self.front = self._front(time)
        self.inner: tuple[Operator, ...] = (self.front,) if self.waits else (query, self.front)
        self._released = 0  # events whose rows are still kept
        self._pushes = 0

    def _front(self, time: StreamTime) -> Settled:
        """What puts events into settled order, before the tracker."""
        plan, reader = self._plan, self._setting.reader
        assert plan.under is not None
        if plan.under.starts:
            types, first = reader.types, len(reader.types)
            starts = {types.index(type): first + at for at, type in enumerate(plan.under.starts)}
            return SettledEndpoints(self.tracker, time, reader, plan.under.key, starts, plan.schema.longest)
        behind = SettledByEnd if time.ordered else Settled
        return behind(self.tracker, time, reader, plan.under.key)

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
        if self.waits:
            said = self.front.push(items)
            when, shut = self.tracker.closing_times, self.tracker.settle()
            if not self.divides:
                self._answer(shut, when, said)
            return said
        said, late, at = Changes(), list[int](), 0
        for are_rows, run in runs(items):
            if are_rows:
                late += [at + place for place in self._rows(run, said)]
            else:
                told = self.front.push(run)
                self._pushes += 1  # what came before has been given to the query
                self._rule_out(said)
                closed = self._take_back(said)
                said.add(self.query.push(run))
                self._answer(*closed, said)
                self._say(told, said)
            at += len(run)
        said.late = late
        return said

    @property
    def divides(self) -> bool:
        """Whether the events of a key may be several traces."""
        return self._plan.under is not None and self._plan.under.divides

    def _rows(self, items: Items, said: Changes) -> list[int]:
        """Feed events to the query, without those of closed traces."""
        if self._ordered:
            return self._in_order(items, said)
        items = self.front.names.named(items)  # saved with it: an equal row after a restart is another event
        tracker = self.tracker
        tracker.fresh = tracker.keys.count
        codes = tracker.codes_of(items)
        gone = tracker.is_closed(codes)
        numbered = self._numbered(items)
        ruled_out = tracker.are_ruled_out(items, codes) if tracker.quiets else np.zeros(len(items), np.bool_)
        numbered.columns[PUSH].values[ruled_out] = NEVER
        told = self.front.push(take(numbered, ~gone) if gone.any() else numbered)
        gone |= ruled_out
        gone[self._rule_out(said)] = True
        gone |= tracker.is_behind(codes, items.end) & (True if items.kinds is None else items.kinds == ItemKind.EVENT)
        gone[self._passed_over()] = True
        closed = self._take_back(said)  # before the clock of the query moves on: then it would be too late
        late = self._feed(items, gone, said)
        self._answer(*closed, said)
        self._say(told, said)
        return late

    def _numbered(self, items: Items) -> Items:
        """Rows with the number of this push, and their places in it."""
        self._pushes += 1
        places = (self._pushes << 32) + np.arange(len(items))
        return with_column(items, PUSH, Column(Kind.INT, places))

    def _passed_over(self) -> Ints:
        """The places of rows of this push that the query must not see."""
        places: Ints = np.concatenate([np.zeros(0, np.int64), *map(_pushed, self.tracker.passed_over)])
        found: Ints = places[places >> 32 == self._pushes] & (1 << 32) - 1
        return found

    def _rule_out(self, said: Changes) -> Ints:
        """Of traces that became quiet: withdraw what the query was given and must not see, before it is settled.

        Returns the places of such rows in this push.
        """
        tracker, places = self.tracker, [np.zeros(0, np.int64)]
        if not len(news := tracker.quiet_news):
            return places[0]
        for held in self.front.held:
            codes = tracker.codes_of(held)
            pushed = _pushed(held)
            mine = np.isin(codes, news) & tracker.are_ruled_out(held, codes) & (pushed != NEVER)
            now = pushed >> 32 == self._pushes
            places.append(pushed[mine & now] & (1 << 32) - 1)
            self._withdraw(take(held, mine & ~now), said)
            pushed[mine] = NEVER
        return np.concatenate(places)

    def _withdraw(self, items: Items, said: Changes) -> None:
        items.kinds = np.full(len(items), ItemKind.WITHDRAWAL, np.int8)
        if len(items):
            said.add(self.query.push(items))

    def _in_order(self, items: Items, said: Changes) -> list[int]:
        """Follow the traces before the query is fed, which order allows: nothing is stored that is released at once."""
        tracker = self.tracker
        tracker.fresh = known = tracker.keys.count
        codes = tracker.codes_of(items)
        coded = with_column(items, CODE, Column(Kind.INT, codes))
        told = self.front.push(self._numbered(coded) if tracker.quiets else coded)
        gone = tracker.sift(items, codes)
        if tracker.quiets:
            gone[self._passed_over()] = True
            tracker.passed_over = []
            gone |= (items.end > self.front.passed) & tracker.are_ruled_out(items, codes)
        hopeless, when = tracker.hopeless, tracker.closing_times
        closed, before = tracker.settle(), len(said.batches)
        late = self._feed(items, gone, said)
        self._after(closed, when, said, before)
        self._release(closed[(closed < known) | ~hopeless])
        self._say(told, said)
        return late

    def _after(self, closed: Ints, when: Ints, said: Changes, first: int) -> None:
        """Give the answers that wait in vain. Those whose deadlines came in the same push were certain before."""
        codes, since = self._certain(closed, when)
        if len(said.batches) > first and len(codes) and answering_early(self.query, self._plan) is not None:
            order = np.argsort(codes)
            times = codes[order], since[order]
            reader, codes_of = self._setting.reader, self.tracker.codes_of
            said.batches[first:] = [known_sooner(each, codes_of, reader, times) for each in said.batches[first:]]
        self._give(codes, since, said)

    def _certain(self, closed: Ints, when: Ints) -> tuple[Ints, Ints]:
        """The traces whose answers need not wait any more, closed and quiet ones, and since when."""
        quiet, since = self.tracker.quieted()
        sure = when > BEGINNING
        return np.concatenate([closed[sure], quiet]), np.concatenate([when[sure], since])

    def _answer(self, closed: Ints, when: Ints, said: Changes) -> None:
        """Give the answers that wait in vain."""
        self._give(*self._certain(closed, when), said)

    def _give(self, codes: Ints, since: Ints, said: Changes) -> None:
        found = answer(self.query, self._plan, self.tracker.keys, codes, since, self.front.passed)
        if found is not None:
            said.add(found)

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
        back, tracker.passed_over = tracker.passed_over, []
        if self._ordered:
            self._answer(newly, when, said)
            self._release(newly)
            return newly[:0], when[:0]
        if len(newly):
            left = []
            for held in self.front.held:
                mine = np.isin(tracker.codes_of(held), newly)
                back += [take(held, mine)] if mine.any() else []
                left += [take(held, ~mine)] if not mine.all() else []
            self.front.held = left
        for items in back:
            pushed = _pushed(items)
            self._withdraw(take(items, (pushed >> 32 != self._pushes) & (pushed != NEVER)), said)
        return newly, when

    # --- state ---

    def snapshot(self, since: int = 0) -> list[Part]:
        mine = nested("traces", self.front.snapshot(since))
        return mine if self.waits else [*mine, *nested("query", self.query.snapshot(since))]

    def restore(self, parts: Iterable[Part]) -> None:
        parts = list(parts)
        self.front.restore(within("traces", parts))
        if not self.waits:
            self.query.restore(within("query", parts))


def _pushed(items: Items) -> Ints:
    """With which push each row came, and where it stood in it; nobody remembers those from before a restart."""
    known = items.columns.get(PUSH)
    return np.zeros(len(items), np.int64) if known is None else known.values  # type: ignore[return-value]


def _some(items: Items, kept: Ints) -> Items:
    """Some rows. Few are copied, so that the memory of all can be freed; many stay views of it."""
    return take(items, kept) if FEW * len(kept) < len(items) else Rearranged(items, kept)
