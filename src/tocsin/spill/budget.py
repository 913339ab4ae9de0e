"""Keeping: what a spilling detector consists of, and how it stays below its memory limit.

The live detector keeps the end of time, frames own what lies before, and the shelf has the events of both frames and
the stretch of time that they share with the live detector. When memory is short the oldest events of the live detector
become frames; if the disk cannot take them, nothing has changed.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from tocsin.engine import runtime as rt
from tocsin.engine.changes import ChangeBatch
from tocsin.engine.detector import Detector
from tocsin.engine.ledger import Ledger
from tocsin.errors import TocsinError, TocsinWarning
from tocsin.events import BEGINNING, END_OF_TIME
from tocsin.items import Ints
from tocsin.spill import internals as grip
from tocsin.spill.frames import Frame, FrameReach, Frames, Knowledge
from tocsin.spill.reload import Recall, only
from tocsin.spill.runs import Shelf

MOST_LIVE = 0.6  # of the memory limit, where a window needs so much
LIVE, ROOM, TAIL, FRAME = 0.4, 0.2, 0.08, 0.08  # shares of the memory limit
MANY = 64  # events that wait for a frame before it is worth the effort, at least


@dataclass(slots=True)
class Spilled:
    """What is counted beside the counters of every detector; `deferred` are pairs of an event and a frame."""

    frames: int = 0
    frames_spilled: int = 0
    frames_loaded: int = 0
    rows_loaded: int = 0
    bytes_on_disk: int = 0
    deferred: int = 0
    deferred_most: int = 0
    memory: int = 0
    memory_most: int = 0


class Keeping:
    """The parts of a spilling detector."""

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
        self.live, self.limit, self.many, self.patience = detector, memory_limit, many, patience
        self.plan = detector.plan
        self.ledger, detector.ledger = Ledger.of(detector.plan), None
        self.reach = FrameReach.of(detector.plan)
        self.frames = Frames(self.reach or FrameReach(0, 0))
        self.shelf = Shelf(folder, memory_limit)
        self.recall = Recall(detector, self.shelf, self.frames)
        self.cut = BEGINNING  # answers whose first event ends before this are owned by frames
        self.edge = BEGINNING  # events that end before this are stored in pieces
        self._owed: list[ChangeBatch] = []  # answers that an error kept from being given
        self.counts = (0, 0, 0)  # events seen, matches given, matches withdrawn
        self._grown = 0  # bytes that came to the live detector since it was measured, about
        self._live_bytes = 0
        self._credit = 0.0  # rows that may be read because more came
        self._price = 0  # rows that must be read before anything else is
        self._most_live = LIVE * memory_limit  # bytes of the live detector before it gives events away
        self._least_live = self._most_live  # below this there is as much room for frames as there ever is
        self._frame_rows = self._window_rows = MANY  # events of a frame, and of a window
        self._told_at = -1  # the number of the next event when time was last told
        self._warned = False
        self.spill_counts = Spilled()

    # --- room --------------------------------------------------------------------------------------------------------

    def _make_room(self) -> None:
        """Keep below the limit: frames that are awake go to sleep, the live detector gives its oldest events away."""
        if self.shelf.tail_bytes > TAIL * self.limit:
            self.shelf.flush(self.live.next + 1)
            self._split()
        if self._live_bytes + self._grown > self._most_live:
            self.measure()
            if self.reach is not None and self._live_bytes > self._most_live:
                self._spill(self.reach)
            if self._live_bytes > self.limit:
                self._warn()
        self._free(0)

    def _warn(self) -> None:
        """Tell once that the limit is too small for what must stay in memory."""
        if not self._warned:
            self._warned = True
            why = "without WITHIN all events" if self.reach is None else "the events of one window"
            warnings.warn(
                f"the memory limit of {self.limit} bytes is too small: {why} must stay in memory and need "
                f"{self._live_bytes}; nothing is lost",
                TocsinWarning,
                stacklevel=4,
            )

    def measure(self, beside: int = 0) -> None:
        """How much is used now, and how much at most."""
        self._live_bytes, self._grown = grip.used(self.live), 0
        self.spill_counts.memory = self._live_bytes + self.shelf.tail_bytes + self._awake_bytes() + beside
        self.spill_counts.memory_most = max(self.spill_counts.memory_most, self.spill_counts.memory)

    def _awake_bytes(self) -> int:
        return sum(grip.used(frame.detector) for frame in self.frames if frame.detector is not None)

    def _free(self, wanted: int) -> None:
        """Put frames to sleep until there is room, the oldest first: their state can be found again."""
        awake = [frame for frame in self.frames if frame.detector is not None]
        fixed = self._live_bytes + self._grown + self.shelf.tail_bytes + wanted
        while awake and fixed + self._awake_bytes() > self.limit:
            frame = awake.pop(0)
            frame.detector, frame.slept = None, self.live.next if frame.held else None

    def _spill(self, reach: FrameReach) -> None:
        """Give the oldest events of the live detector away, as frames; if that fails, nothing has changed."""
        numbers, ends = grip.events(self.live)
        if 4 * int(np.count_nonzero(ends < self.cut - reach.behind)) > len(ends):  # late ones that concern frames only
            grip.forget(self.live, self.cut - reach.behind, self.cut)
            self.measure()
            numbers, ends = grip.events(self.live)
        newest = self.live.time.clock - reach.ahead
        leaving = len(ends) - int(len(ends) * min(1.0, ROOM * self.limit / max(1, self._live_bytes)))
        if not leaving or self._live_bytes <= self._most_live:
            return
        cut = min(newest, int(np.partition(ends, leaving)[leaving]) if leaving < len(ends) else newest)
        owned = np.sort(ends[(ends >= self.cut) & (ends < cut)])
        if cut <= self.cut or len(owned) <= len(ends) // 16:
            return
        self._window_rows = int(np.count_nonzero(ends >= newest))
        window = self._window_rows * self._live_bytes / len(ends)
        more = ROOM * self.limit / (2 if self.live.time.holds else 1)  # frames with held answers need room as well
        self._most_live = min(MOST_LIVE * self.limit, max(LIVE * self.limit, window + more))
        edge = cut + reach.ahead
        frames = self._new_frames(owned, cut)
        leaves = (ends >= self.edge) & (ends < edge)
        if leaves.any():
            self.shelf.put(grip.rows(self.live, numbers[leaves]), self.live.next + 1, FRAME * self.limit)
        held = grip.held(self.live)
        for frame in frames:
            frame.hold(held)
        self.frames.all += frames
        self.cut, self.edge = cut, edge
        grip.forget(self.live, cut - reach.behind, cut)
        self.spill_counts.frames_spilled += len(frames)
        self.measure()
        self._least_live = 0.75 * self._live_bytes + 0.25 * self._most_live

    def _new_frames(self, ends: Ints, cut: int) -> list[Frame]:
        """The time up to the cut as frames of about equal size."""
        size = self._live_bytes / len(ends)
        wide = self._window_rows if self.live.time.holds else 0
        rows = max(1, int(self.limit * FRAME / size), min(wide, int(self.limit / 5 / size)), self._window_rows // 8)
        self._frame_rows = rows
        lows = [self.cut, *(low for low in np.unique(ends[rows::rows]).tolist() if self.cut < low < cut)]
        known, at = self.live.next, self._knowledge()
        counts = np.diff(np.searchsorted(ends, [*lows, cut])).tolist()
        return [
            Frame(low, high, known, at, rows=count)
            for low, high, count in zip(lows, [*lows[1:], cut], counts, strict=True)
        ]

    def _split(self) -> None:
        """A frame that has grown too large becomes two."""
        for frame in [frame for frame in self.frames if frame.detector is None]:
            inside = sorted(piece.first for piece in self.shelf.pieces if frame.low < piece.first < frame.high)
            if frame.rows > 8 * self._frame_rows and len(inside) > 1:
                self.frames.split(frame, inside[len(inside) // 2])

    def _drop_finished(self, now: Knowledge) -> None:
        """Frames that no event can concern any more go, and then what is stored for them."""
        frames = self.frames.all
        while frames and self._is_finished(frames[0], now) and not (frames[0].pending or frames[0].held):
            del frames[0]
        needed = (frames[0].low if frames else self.cut) - self.frames.reach.behind
        self.shelf.drop_before(END_OF_TIME if now.ended else needed)
        if self.ledger is not None:
            self._forget_counts(now)

    def _forget_counts(self, now: Knowledge) -> None:
        assert self.ledger is not None
        first = min((frame.low for frame in self.frames), default=END_OF_TIME)
        if now.behind() > BEGINNING and not now.ended:
            self.ledger.forget(min(now.behind() + 1, first))

    # --- answers -----------------------------------------------------------------------------------------------------

    def _live_owned(self, changes: ChangeBatch) -> ChangeBatch:
        """The answers of the live detector without those that frames own."""
        return changes if self.cut == BEGINNING else only(changes, lambda first: first >= self.cut)

    def _kept(self, several: Iterable[ChangeBatch]) -> list[ChangeBatch]:
        """Answers as they are given: counted, and hidden justifications summed up."""
        kept = []
        for changes in several:
            if not len(changes):
                continue
            settled = changes if self.ledger is None else self.ledger.settle(changes)
            gained = int(np.count_nonzero(settled.op > 0))
            seen, matches, retracted = self.counts
            self.counts = (seen, matches + gained, retracted + len(settled) - gained)
            if len(settled):
                kept.append(settled)
        return kept

    # --- what is known of time ---------------------------------------------------------------------------------------

    def _knowledge(self) -> Knowledge:
        """What the live detector knows; a delay that is known is a promise about every type."""
        live = self.live
        delay = BEGINNING if live.time.slack >= rt.UNLIMITED else max(BEGINNING, live.time.clock - live.time.slack - 1)
        promises = {type: max(delay, live.time.guarantees.get(type, BEGINNING)) for type in live.all_types}
        return Knowledge(live.time.clock, promises, live.time.ended)

    def _is_finished(self, frame: Frame, now: Knowledge) -> bool:
        """Whether no event that may still come concerns the frame."""
        return now.behind() >= frame.high + self.frames.reach.ahead
