"""The memory budget of a spilling detector: how it is measured, and how the detector stays below it.

When memory is short, frames that are loaded are unloaded, and the oldest events of the live detector become frames. If
the disk cannot take them, nothing has changed.
"""

from __future__ import annotations

import warnings

import numpy as np

from tocsin.engine.partial_state import bytes_used, forget_before, held_answers, stored_events, stored_rows
from tocsin.errors import TocsinWarning
from tocsin.items import Ints
from tocsin.plan.facts import TimeReach
from tocsin.spill.files import record
from tocsin.spill.frames import Frame
from tocsin.spill.state import SplitState

MOST_LIVE = 0.6  # of the memory limit, where a window needs so much
LIVE, ROOM, TAIL, FRAME = 0.4, 0.2, 0.08, 0.08  # shares of the memory limit
MANY = 64  # events of a frame, before that is known


class MemoryBudget:
    """What a state uses of its limit. The sizes that it finds on the way guide the loading of frames."""

    def __init__(self, state: SplitState) -> None:
        self.state, self.limit = state, state.limit
        self.frame_rows = self.window_rows = MANY  # events of a frame, and of a window
        self._live_bytes = 0  # of the live detector when it was measured
        self._grown = 0  # bytes that came to it since, about
        self._most_live = LIVE * self.limit  # bytes of the live detector before it gives events away
        self._least_live = self._most_live  # below this there is as much room for frames as there ever is
        self._warned = False

    # --- measuring ---

    def grow(self, size: int) -> None:
        """Take note of bytes that come to the live detector."""
        self._grown += size

    def measure(self, beside: int = 0) -> None:
        """How much is used now, and how much at most."""
        state = self.state
        self._live_bytes, self._grown = bytes_used(state.live), 0
        counts = state.spill_counts
        counts.memory = self._live_bytes + state.runs.tail_bytes + self._loaded_bytes() + beside
        counts.memory_most = max(counts.memory_most, counts.memory)

    @property
    def live_bytes(self) -> int:
        """What the live detector uses now, about."""
        return self._live_bytes + self._grown

    @property
    def is_short(self) -> bool:
        """Whether the live detector has grown so far that it should give events away."""
        return self.live_bytes > self._most_live

    @property
    def has_most_room(self) -> bool:
        """Whether the live detector leaves as much room for frames as it ever does."""
        return self.live_bytes <= self._least_live

    @property
    def room(self) -> float:
        """Bytes that are free beside the live detector and the stored events in memory, with a margin."""
        return 0.9 * self.limit - self.live_bytes - self.state.runs.tail_bytes

    def _loaded_bytes(self) -> int:
        return sum(bytes_used(frame.detector) for frame in self.state.frames if frame.detector is not None)

    # --- making room ---

    def make_room(self) -> None:
        """Come below the limit: frames are unloaded, the live detector gives its oldest events away."""
        state = self.state
        if state.runs.tail_bytes > TAIL * self.limit:
            state.runs.flush(state.live.next + 1)
            self._split()
        if self.is_short:
            self.measure()
            if state.reach is not None and self._live_bytes > self._most_live:
                self._spill(state.reach)
            if self._live_bytes > self.limit:
                self._warn()
        self.free(0)

    def _warn(self) -> None:
        """Tell once that the limit is too small for what must stay in memory."""
        if not self._warned:
            self._warned = True
            why = "without WITHIN all events" if self.state.reach is None else "the events of one window"
            warnings.warn(
                f"the memory limit of {self.limit} bytes is too small: {why} must stay in memory and need "
                f"{self._live_bytes}; nothing is lost",
                TocsinWarning,
                stacklevel=4,
            )

    def free(self, wanted: int) -> None:
        """Unload frames until there is room, the oldest first: their state can be found again."""
        state = self.state
        loaded = [frame for frame in state.frames if frame.detector is not None]
        fixed = self.live_bytes + state.runs.tail_bytes + wanted
        while loaded and fixed + self._loaded_bytes() > self.limit:
            frame = loaded.pop(0)
            frame.detector, frame.unloaded_at = None, state.live.next if frame.held else None

    # --- spilling ---

    def _spill(self, reach: TimeReach) -> None:
        """Give the oldest events of the live detector away, as frames; if that fails, nothing has changed."""
        state = self.state
        behind, ahead = reach.around_first
        numbers, ends = stored_events(state.live)
        if 4 * int(np.count_nonzero(ends < state.cut - behind)) > len(ends):  # late ones that concern frames only
            forget_before(state.live, state.cut - behind, answers_before=state.cut)
            self.measure()
            numbers, ends = stored_events(state.live)
        newest = state.live.time.clock - ahead
        cut = self._next_cut(ends, newest)
        if cut is None:
            return
        self._window_found(ends, newest)
        edge = cut + ahead
        frames = self._new_frames(np.sort(ends[(ends >= state.cut) & (ends < cut)]), cut)
        leaves = (ends >= state.edge) & (ends < edge)
        if leaves.any():
            kept = stored_rows(state.live, numbers[leaves])
            table = record(kept.rows, kept.numbers, kept.eid_high, kept.eid_low)
            state.runs.write(table, state.live.next + 1, FRAME * self.limit)
        held = held_answers(state.live)
        for frame in frames:
            frame.hold(held)
        state.frames.all += frames
        state.cut, state.edge = cut, edge
        forget_before(state.live, cut - behind, answers_before=cut)
        state.spill_counts.frames_spilled += len(frames)
        self.measure()
        self._least_live = 0.75 * self._live_bytes + 0.25 * self._most_live

    def _next_cut(self, ends: Ints, newest: int) -> int | None:
        """The time before which events leave, given what is stored; None if not enough of them could."""
        leaving = len(ends) - int(len(ends) * min(1.0, ROOM * self.limit / max(1, self._live_bytes)))
        if not leaving or self._live_bytes <= self._most_live:
            return None
        cut = min(newest, int(np.partition(ends, leaving)[leaving]) if leaving < len(ends) else newest)
        owned = int(np.count_nonzero((ends >= self.state.cut) & (ends < cut)))
        return None if cut <= self.state.cut or owned <= len(ends) // 16 else cut

    def _window_found(self, ends: Ints, newest: int) -> None:
        """Learn how large a window is, and let the live detector have room for it."""
        self.window_rows = int(np.count_nonzero(ends >= newest))
        window = self.window_rows * self._live_bytes / len(ends)
        more = ROOM * self.limit / (2 if self.state.live.time.holds else 1)  # frames with held answers need room too
        self._most_live = min(MOST_LIVE * self.limit, max(LIVE * self.limit, window + more))

    def _new_frames(self, ends: Ints, cut: int) -> list[Frame]:
        """The time up to the cut as frames of about equal size."""
        state = self.state
        size = self._live_bytes / len(ends)
        wide = self.window_rows if state.live.time.holds else 0
        rows = max(1, int(self.limit * FRAME / size), min(wide, int(self.limit / 5 / size)), self.window_rows // 8)
        self.frame_rows = rows
        lows = [state.cut, *(low for low in np.unique(ends[rows::rows]).tolist() if state.cut < low < cut)]
        known, at = state.live.next, state.knowledge()
        counts = np.diff(np.searchsorted(ends, [*lows, cut])).tolist()
        return [
            Frame(low, high, known, at, rows=count)
            for low, high, count in zip(lows, [*lows[1:], cut], counts, strict=True)
        ]

    def _split(self) -> None:
        """Make two of each frame that has grown too large."""
        state = self.state
        for frame in [frame for frame in state.frames if frame.detector is None]:
            inside = sorted(piece.first for piece in state.runs.pieces if frame.low < piece.first < frame.high)
            if frame.rows > 8 * self.frame_rows and len(inside) > 1:
                state.frames.split(frame, inside[len(inside) // 2])
