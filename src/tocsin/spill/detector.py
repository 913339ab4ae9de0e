"""Spilling: a detector that stays below a memory limit, because what lies far enough back goes to disk.

The live detector keeps at least a window behind the clock, so events in order never wait for a disk. What ended before
is cut into frames (see `frames`). Late events that concern frames are stored beside them and deferred: a frame is
brought up to date when enough events wait for it, when the oldest of them has waited long enough, when a guarantee lets
go of an answer that is held there, or at the end. Then its events go into a detector of their own: those that it knew
without answering, those that it did not know in order of arrival, and last of all the guarantees. So a deferred event
behaves like one that comes later, and no guarantee reaches an answer before the events that were there first.

Paper: Liu et al. 2009, VIII; there alpha_p is `many`, alpha_t `patience`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pyarrow as pa

from tocsin.codec import Part
from tocsin.encode.merge import runs, sliced, take
from tocsin.engine.changes import QUIET, ChangeBatch, Changes
from tocsin.engine.detector import Detector
from tocsin.engine.operator import Counters, Nesting, Operator
from tocsin.engine.partial_state import bytes_of_a_row, held_answers, words_of_an_event
from tocsin.engine.texts import of_operators
from tocsin.errors import TocsinError
from tocsin.items import Bools, Ints, ItemKind, Items
from tocsin.spill import snapshot as saved
from tocsin.spill.budget import MANY, MemoryBudget
from tocsin.spill.files import record
from tocsin.spill.frames import only
from tocsin.spill.schedule import Schedule
from tocsin.spill.state import Spilled, SplitState

STEP = 0.15  # of the memory limit: what is taken before room is made again


class Spilling(Nesting):
    """A detector for events in any order, within a memory limit in bytes.

    The limit is for stored events, waiting answers and rows; tables for keys and output come on top, and so does what a
    window needs beyond it. Without a window nothing can go. A detector that is given away belongs to this one.

    `many` and `patience` say when deferred events are worth loading a frame: so many of them (None: an eighth of
    those that would be loaded), or when the oldest has seen so many others arrive (None: as many as lie on disk; then
    also as early as is possible with reading one event for four that come).
    """

    def __init__(
        self,
        detector: Detector,
        memory_limit: int,
        folder: str | os.PathLike[str] | None = None,
        *,
        many: int | None = None,
        patience: int | None = None,
    ) -> None:
        if detector.ordered:
            raise TocsinError("events in order need no disk", hint="use a detector that takes events in any order")
        if memory_limit < 1:
            raise TocsinError(f"a memory limit of {memory_limit} bytes leaves no room", hint="give a positive number")
        self.live = detector
        self.state = SplitState(detector, memory_limit, folder)
        self.budget = MemoryBudget(self.state)
        self.schedule = Schedule(self.state, self.budget, many=many, patience=patience)
        self._owed: list[ChangeBatch] = []  # answers that an error kept from being given
        self._told_at = -1  # the number of the next event when time was last told

    # --- the one verb ------------------------------------------------------------------------------------------------

    def push(self, items: Items) -> Changes:
        """Take items in order of arrival. An error of the disk comes before anything of the batch is taken."""
        if items.single:
            if self._can_take_one(items.time):  # type: ignore[attr-defined]  # `single` says that it is a LentRow
                return self._push_one(items)
            items = items.copy()  # type: ignore[attr-defined]
        self.budget.make_room()
        return Changes(self._given(lambda found: self._push_all(items, found)), self.state.frontier)

    def _can_take_one(self, time: int) -> bool:
        """Whether an event concerns the live detector only, and nothing else is to be done."""
        return not (
            self.budget.is_short or not self._is_apart(time) or self._owed or (self.state.frames.all and self._is_busy)
        )

    def _push_one(self, one: Items) -> Changes:
        self.budget.grow(bytes_of_a_row(self.live))
        self._see(1)
        found = self.live.push(one)
        return found if found is QUIET else Changes(self.state.answers_of_live(found), self.state.frontier)

    @property
    def _is_busy(self) -> bool:
        """Whether frames must be looked after: always if answers are held there, else now and then."""
        return self.live.time.holds or not self.live.next % MANY

    @property
    def inner(self) -> tuple[Operator, ...]:
        """The detector for what lies in memory; frames on disk get one of their own for as long as it takes."""
        return (self.live,)

    def _given(self, work: Callable[[list[ChangeBatch]], None]) -> list[ChangeBatch]:
        """What some work finds; if it fails on the way, that is given the next time."""
        found, self._owed = self._owed, []
        try:
            work(found)
        except BaseException:
            self._owed = found
            raise
        return found

    def _push_all(self, items: Items, found: list[ChangeBatch]) -> None:
        for are_rows, run in runs(items):
            if are_rows:
                self._push_rows(run, found)
            else:
                self._hear(run, found)

    def _push_rows(self, items: Items, found: list[ChangeBatch]) -> None:
        step = self._step(items)
        for begin in range(0, max(1, len(items)), step):
            if begin:
                with suppress(TocsinError):  # it is tried again before the next batch
                    self.budget.make_room()
            part = items if step >= len(items) else sliced(items, begin, min(step, len(items) - begin))
            self._take(part, found)
            self.schedule.catch_up(found, more=self.schedule.patience is None)

    def _hear(self, items: Items, found: list[ChangeBatch]) -> None:
        """Tell the live detector, then the frames, how far time has passed."""
        idle, self._told_at = self._told_at == self.live.next, self.live.next
        found += self.state.answers_of_live(self.live.push(items))
        self.schedule.catch_up(found, idle=idle)

    def _step(self, items: Items) -> int:
        """How many rows to take at once, so that there is time to make room."""
        if not len(items):
            return 1
        words = words_of_an_event(self.live)
        row = int(items.payload.nbytes) // len(items) + 16 * words
        return max(MANY, int(self.state.limit * STEP) // max(1, row))

    # --- events ------------------------------------------------------------------------------------------------------

    def _is_apart(self, end: int) -> bool:
        """Whether an event concerns the live detector only."""
        return end >= self.state.edge

    def _take(self, items: Items, found: list[ChangeBatch]) -> None:
        """The live detector takes everything: what concerns frames only is of no use there, and soon forgotten."""
        base, apart = self.live.next, not len(items) or self._is_apart(int(items.end.min()))
        mine = None if apart else self.live.known_types[items.types] & ~self.live.time.too_late(items.end)
        if mine is not None:
            self._load_for_withdrawals(items, mine, found)
        self._see(len(items))
        changes = self._to_live(items)
        if mine is not None:
            self._set_aside(items, base, mine & (items.end < self.state.edge))
            self._defer(items, base, mine, found)
        found += self.state.answers_of_live(changes)

    def _see(self, count: int) -> None:
        seen, matches, retracted = self.state.counts
        self.state.counts = (seen + count, matches, retracted)
        self.schedule.see(count)

    def _to_live(self, items: Items) -> Changes:
        words = words_of_an_event(self.live)
        self.budget.grow(items.payload.nbytes + len(items) * (20 + 16 * words))
        return self.live.push(items)

    def _set_aside(self, items: Items, base: int, rows: Bools) -> None:
        """Store events where frames will find them."""
        at = np.flatnonzero(rows)
        if len(at):
            at = at[np.argsort(items.end[at], kind="stable")]
            high, low = (None if array is None else array[at] for array in (items.eid_high, items.eid_low))
            signs = items.signs
            table = record(items.payload.take(pa.array(at)), base + at, high, low, None if signs is None else signs[at])
            self.state.runs.keep(table, self.live.next + 1)

    def _defer(self, items: Items, base: int, mine: Bools, found: list[ChangeBatch]) -> None:
        """Frames that are loaded take events at once; for the others they are counted."""
        at = np.flatnonzero(mine)
        if not len(at) or not self.state.frames.all:
            return
        for frame, count in self.state.frames.touched(items.end[at]):
            frame.rows += count
            if frame.detector is None:
                frame.since = frame.since if frame.pending else base
                frame.pending += count
                continue
            low, high = self.state.frames.region([frame])
            rows = mine & (items.end >= low) & (items.end <= high)
            found += self.state.answers(only(each, frame.owns) for each in frame.detector.push(take(items, rows)))
            frame.known = self.live.next
            frame.hold(held_answers(frame.detector))
        self.state.spill_counts.deferred_most = max(self.state.spill_counts.deferred_most, self._deferred)

    def _load_for_withdrawals(self, items: Items, mine: Bools, found: list[ChangeBatch]) -> None:
        """An event that is taken back is taken back at once: what it leaves behind is not stored."""
        if items.kinds is None:
            return
        at = np.flatnonzero(mine & (items.kinds == ItemKind.WITHDRAWAL))
        if len(at):
            for frame, _ in self.state.frames.touched(items.end[at]):
                if frame.detector is None:
                    self.schedule.load([frame], self.state.knowledge(), found, stay=True)

    @property
    def _deferred(self) -> int:
        return sum(frame.pending for frame in self.state.frames)

    # --- what others ask ---------------------------------------------------------------------------------------------

    @property
    def counters(self) -> Counters:
        """What was seen and is kept; duplicates of events that were spilled are not counted."""
        total, (seen, matches, retracted) = self.live.counters, self.state.counts
        waiting = total.waiting + sum(frame.held for frame in self.state.frames)
        look = lambda: total.live + self.state.runs.rows  # noqa: E731
        return replace(total, seen=seen, matches=matches, retracted=retracted, waiting=waiting, look=look)

    @property
    def spilled(self) -> Spilled:
        """How much is on disk, what was loaded and what waits."""
        self.budget.measure()
        return replace(
            self.state.spill_counts,
            frames=len(self.state.frames),
            rows_loaded=self.schedule.loader.rows_read,
            bytes_on_disk=self.state.runs.store.size,
            deferred=self._deferred,
        )

    @property
    def texts_in_use(self) -> Ints:
        """Codes of texts that are still used; what lies on disk has its texts there."""
        loaded = [frame.detector for frame in self.state.frames if frame.detector is not None]
        return of_operators([self.live, *loaded, *self.schedule.loader.spare])

    def close(self) -> None:
        """Remove what is on disk."""
        self.state.runs.store.close()

    def snapshot(self, since: int = 0) -> list[Part]:
        """The state as parts that need no file: those that changed since a version, and the summaries."""
        return saved.save(self.state, since)

    def restore(self, parts: Iterable[Part]) -> None:
        """Take up a saved state, also one that was saved without spilling; this must be new."""
        saved.load(self.state, list(parts))
        self.budget.measure()
