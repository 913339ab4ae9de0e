"""Spilling: a detector that stays below a memory limit, because what lies far enough back goes to disk.

The live detector keeps at least a window behind the clock, so events in order never wait for a disk. What ended before
is cut into frames (see `frames`). Late events that concern frames are stored beside them and deferred: a frame is
brought up to date when enough events wait for it, when the oldest of them has waited long enough, when a guarantee lets
go of an answer that is held there, or at the end. Then its events go into a detector of their own: those that it knew
without answering, those that it did not know in order of arrival, and last of all the guarantees. So a deferred event
behaves like one that comes later, and no guarantee reaches an answer before the events that were there first.

Paper: Liu et al. 2009, VI.D; there alpha_p is `many`, alpha_t `patience`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from tocsin.encode.merge import sliced, take
from tocsin.encode.row import OneRow
from tocsin.engine.changes import Changes
from tocsin.engine.detector import Counters
from tocsin.engine.snapshot import Part
from tocsin.errors import TocsinError
from tocsin.items import Bools, Items, clock_before
from tocsin.spill import internals as grip
from tocsin.spill import snapshot as spillstate
from tocsin.spill.budget import MANY, Spilled
from tocsin.spill.files import record
from tocsin.spill.reload import only
from tocsin.spill.schedule import CatchingUp

STEP = 0.15  # of the memory limit: what is taken before room is made again


class Spilling(CatchingUp):
    """A detector for events in any order, within a memory limit in bytes; its verbs give lists of changes.

    The limit is for stored events, waiting answers and rows; tables for keys and output come on top, and so does what a
    window needs beyond it. Without a window nothing can go. A detector that is given away belongs to this one.

    `many` and `patience` say when deferred events are worth loading a frame: so many of them (None: an eighth of
    those that would be loaded), or when the oldest has seen so many others arrive (None: as many as lie on disk; then
    also as early as is possible with reading one event for four that come).
    """

    # --- verbs -------------------------------------------------------------------------------------------------------

    def push(self, items: Items) -> list[Changes]:
        """Take a batch in arrival order. An error of the disk comes before anything of the batch is taken."""
        self._make_room()
        return self._given(lambda found: self._push(items, found))

    def push_one(self, one: OneRow) -> list[Changes]:
        """The same for one event, by a shorter way where it concerns the live detector only."""
        if (
            self._grown + self._live_bytes > self._most_live
            or not self._is_apart(one.time)
            or self._owed
            or (self.frames.all and self._is_busy)
        ):
            return self.push(one.copy())
        self._grown += grip.SINGLE + 8 * sum(branch.program.words for branch in self.live.branches)
        self._see(1)
        changes = self.live.push_one(one)
        return [] if changes is None else self._kept([self._live_owned(changes)])

    @property
    def _is_busy(self) -> bool:
        """Whether frames must be looked after: always if answers are held there, else now and then."""
        return self.live.holds or not self.live.next % MANY

    def promise(self, type: str | None, time: int) -> list[Changes]:
        """Every later event of a type (None: of all) ends after `time`."""
        return self._given(lambda found: self._pass_time(lambda: self.live.promise(type, time), found))

    def tick(self, clock: int) -> list[Changes]:
        """The clock of the stream stands here, though events that end before it may still come."""
        return self._given(lambda found: self._pass_time(lambda: self.live.tick(clock), found))

    def __getattr__(self, name: str) -> Any:
        """What the live detector knows, such as the attributes it reads."""
        if name == "live":  # while it is being made
            raise AttributeError(name)
        return getattr(self.live, name)

    def advance(self, time: int) -> list[Changes]:
        """Let time pass without an event: none will end before it. END_OF_TIME ends the stream."""
        return self._given(lambda found: self._pass_time(lambda: self.live.advance(time), found))

    def _given(self, work: Callable[[list[Changes]], None]) -> list[Changes]:
        """What some work finds; if it fails on the way, that is given the next time."""
        found, self._owed = self._owed, []
        try:
            work(found)
        except BaseException:
            self._owed = found
            raise
        return found

    def _push(self, items: Items, found: list[Changes]) -> None:
        step = self._step(items)
        for begin in range(0, max(1, len(items)), step):
            if begin:
                with suppress(TocsinError):  # it is tried again before the next batch
                    self._make_room()
            part = items if step >= len(items) else sliced(items, begin, min(step, len(items) - begin))
            self._take(part, begin, found)
            self._catch_up(found, more=self.patience is None)

    def _pass_time(self, work: Callable[[], Changes], found: list[Changes]) -> None:
        idle, self._told_at = self._told_at == self.live.next, self.live.next
        found += self._kept([self._live_owned(work())])
        self._catch_up(found, idle=idle)

    def _step(self, items: Items) -> int:
        """How many rows to take at once, so that there is time to make room."""
        if not len(items):
            return 1
        words = sum(branch.program.words for branch in self.live.branches)
        row = int(items.payload.nbytes) // len(items) + 16 * words
        return max(MANY, int(self.limit * STEP) // max(1, row))

    # --- events ------------------------------------------------------------------------------------------------------

    def _is_apart(self, end: int) -> bool:
        """Whether an event concerns the live detector only."""
        return end >= self.edge

    def _take(self, items: Items, offset: int, found: list[Changes]) -> None:
        """The live detector takes everything: what concerns frames only is of no use there, and soon forgotten."""
        base, apart = self.live.next, not len(items) or self._is_apart(int(items.end.min()))
        mine = None if apart else self._mine[items.types] & ~self._too_late(items)
        if mine is not None:
            self._wake_for_withdrawals(items, mine, found)
        self._see(len(items))
        changes = self._to_live(items)
        if mine is not None:
            self._set_aside(items, base, mine & (items.end < self.edge))
            self._defer(items, base, mine, found)
        found += self._kept([self._live_owned(changes)])
        if len(changes.late):
            found.append(replace(self.live._nothing, late=changes.late + offset))

    def _see(self, count: int) -> None:
        seen, matches, retracted = self.counts
        self.counts = (seen + count, matches, retracted)
        self._credit = min(self._credit + count / 4, self.shelf.rows)

    def _to_live(self, items: Items) -> Changes:
        words = sum(branch.program.words for branch in self.live.branches)
        self._grown += items.payload.nbytes + len(items) * (20 + 16 * words)
        return self.live.push(items)

    def _too_late(self, items: Items) -> Bools:
        """Rows that end too far behind the clock of their arrival."""
        late: Bools = items.end < clock_before(self.live.clock, items.end) - self.live.slack
        return late

    @cached_property
    def _mine(self) -> Bools:
        """By the code of a type, whether the query knows it; the last is for no type."""
        mine = self.live._my_types()
        return np.array([type in mine for type in self.live.types] + [False])

    def _set_aside(self, items: Items, base: int, rows: Bools) -> None:
        """Store events where frames will find them."""
        at = np.flatnonzero(rows)
        if len(at):
            at = at[np.argsort(items.end[at], kind="stable")]
            high, low = (None if array is None else array[at] for array in (items.eid_high, items.eid_low))
            signs = None if items.signs is None else items.signs[at]
            table = record(items.payload.take(pa.array(at)), base + at, high, low, signs)
            self.shelf.keep(table, self.live.next + 1)

    def _defer(self, items: Items, base: int, mine: Bools, found: list[Changes]) -> None:
        """Frames that are awake take events at once; for the others they are counted."""
        at = np.flatnonzero(mine)
        if not len(at) or not self.frames.all:
            return
        for frame, count in self.frames.touched(items.end[at]):
            frame.rows += count
            if frame.detector is None:
                frame.since = frame.since if frame.pending else base
                frame.pending += count
                continue
            low, high = self.frames.region([frame])
            rows = mine & (items.end >= low) & (items.end <= high)
            found += self._kept([only(frame.detector.push(take(items, rows)), frame.owns)])
            frame.known = self.live.next
            frame.hold(grip.held(frame.detector))
        self.spill_counts.deferred_most = max(self.spill_counts.deferred_most, self._deferred)

    def _wake_for_withdrawals(self, items: Items, mine: Bools, found: list[Changes]) -> None:
        """An event that is taken back is taken back at once: what it leaves behind is not stored."""
        if items.signs is None:
            return
        at = np.flatnonzero(mine & (items.signs < 0))
        if len(at):
            for frame, _ in self.frames.touched(items.end[at]):
                if frame.detector is None:
                    self._load([frame], self._knowledge(), found, stay=True)

    @property
    def _deferred(self) -> int:
        return sum(frame.pending for frame in self.frames)

    # --- what others ask ---------------------------------------------------------------------------------------------

    @property
    def frontier(self) -> int:
        """No later change is of a match that ends at or before this."""
        waiting = [frame.low for frame in self.frames if frame.pending or frame.held]
        back = self.frames.reach.ahead if any(variable.hidden for variable in self.plan.variables) else 0
        return min([self.live.frontier, *(low - 1 - back for low in waiting)])

    @property
    def counters(self) -> Counters:
        """What was seen and is kept; duplicates of events that were spilled are not counted."""
        live = self.live.counters.live + self.shelf.rows
        return replace(self.count(), live=live)

    def count(self) -> Counters:
        """The same without looking at what is kept."""
        total, (seen, matches, retracted) = self.live.count(), self.counts
        waiting = total.waiting + sum(frame.held for frame in self.frames)
        return replace(total, seen=seen, matches=matches, retracted=retracted, waiting=waiting)

    @property
    def spilled(self) -> Spilled:
        """How much is on disk, what was loaded and what waits."""
        self.measure()
        return replace(
            self.spill_counts,
            frames=len(self.frames),
            rows_loaded=self.recall.rows_read,
            bytes_on_disk=self.shelf.store.size,
            deferred=self._deferred,
        )

    def live_texts(self) -> set[int]:
        """Codes of texts that are still used."""
        awake = [frame.detector for frame in self.frames if frame.detector is not None]
        return {code for detector in (self.live, *awake, *self.recall.spare) for code in detector.live_texts()}

    def close(self) -> None:
        """Remove what is on disk."""
        self.shelf.store.close()

    def parts(self, changed_since: int = 0) -> list[Part]:
        """The state as parts that need no file: those that changed since a version, and the summaries."""
        return spillstate.save(self, changed_since)

    def restore(self, parts: Iterable[Part]) -> None:
        """Take up a saved state, also one that was saved without spilling; this must be new."""
        spillstate.load(self, list(parts))
