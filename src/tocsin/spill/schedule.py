"""The schedule: which frames are brought up to date, and when.

A frame is worth loading when enough events wait for it, or when the oldest of them has waited long enough. Held answers
make it worth too: when a guarantee may settle one, and at the latest when nothing can come any more. Without thresholds
of the user, loading is paid for: four events that come buy the reading of another one, and the frames for which most
waits are bought first.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import takewhile

from tocsin.engine.changes import ChangeBatch
from tocsin.engine.partial_state import held_answers
from tocsin.events import BEGINNING, END_OF_TIME
from tocsin.spill.budget import MANY, MemoryBudget
from tocsin.spill.frames import Frame, Knowledge, only
from tocsin.spill.reload import FrameLoader
from tocsin.spill.state import SplitState

REGION = 0.35  # of the memory limit, for a detector that is filled from disk


class Schedule:
    """Brings frames up to date when that is worth it; see `Spilling` for `many` and `patience`."""

    def __init__(
        self, state: SplitState, budget: MemoryBudget, *, many: int | None = None, patience: int | None = None
    ) -> None:
        self.state, self.budget, self.many, self.patience = state, budget, many, patience
        self.live, self.frames, self.runs = state.live, state.frames, state.runs
        self.loader = FrameLoader(self.live, self.runs, self.frames)
        self._credit = 0.0  # rows that may be read because more came
        self._price = 0  # rows that must be read before anything else is

    def see(self, count: int) -> None:
        """Take note of events that come: they pay for reading others."""
        self._credit = min(self._credit + count / 4, self.runs.rows)

    def catch_up(self, found: list[ChangeBatch], *, idle: bool = False, more: bool = False) -> None:
        """Bring up to date the frames that are worth it, those first that most events wait for, then the youngest.

        `idle`: no event came since time was told before, so there is nothing better to do. `more` of a batch will come.
        """
        if self.state.cut == BEGINNING:
            return
        now = self.state.knowledge()
        if now.ended:
            self.budget.measure()  # the live detector has nothing left
        guarantees = self._guarantees(now) if self.live.time.holds else {}
        self._tell_loaded(now, guarantees, found)
        due = self._worth(now, guarantees)
        if idle:
            due += [frame for frame in self.frames if frame.detector is None and self._pays(frame, guarantees)]
        if idle or not more or self.budget.has_most_room:  # else there will be more room soon
            due += self._finished(now, at_once=idle)
        for frame in sorted(due, key=_urgency, reverse=True):
            if frame.at is not now:  # not loaded beside another one
                self.load(self._group(frame, guarantees), now, found)
        if self.patience is None:
            self._spend(now, guarantees, found)
        self.state.drop_finished(now)

    def _worth(self, now: Knowledge, guarantees: Mapping[str, int]) -> list[Frame]:
        """Frames for which enough events wait, or one for long enough; or an answer, if patience is given."""
        since, window = self.live.next - self._patience, self.budget.window_rows
        due = []
        for frame in self.frames if self.patience is not None or not self.live.time.final else ():
            if frame.pending and frame.detector is None:
                many = max(MANY, (frame.rows + window) // 8) if self.many is None else self.many
                if frame.pending >= many or frame.since < since:
                    due.append(frame)
        if self.patience is not None and guarantees:
            unloaded = (frame for frame in self.frames if frame.detector is None and frame.at != now)
            due += [frame for frame in unloaded if self._is_due(frame, guarantees)]
        return due

    def _is_due(self, frame: Frame, guarantees: Mapping[str, int]) -> bool:
        """Whether an answer that a frame holds may be settled, and not just in vain."""
        rested = frame.unloaded_at is None or self.live.next - frame.unloaded_at > min(self._patience, frame.rows)
        return rested and bool(guarantees) and frame.is_due(guarantees)

    def _finished(self, now: Knowledge, *, at_once: bool) -> list[Frame]:
        """Frames that are brought up to date for the last time, if they are many enough for their neighbourhood."""
        passed = takewhile(lambda frame: self.state.is_finished(frame, now), self.frames)
        done = [frame for frame in passed if frame.detector is None]
        rows = sum(frame.rows for frame in done)
        at_once = at_once or now.ended or self.patience is not None
        if at_once or rows >= self.budget.window_rows or self._is_full(done):
            return [frame for frame in done if frame.pending or frame.held]
        return []

    def _is_full(self, group: list[Frame]) -> bool:
        return bool(group) and not self._fits(group, 0.8 * self._room(group))

    def _spend(self, now: Knowledge, guarantees: Mapping[str, int], found: list[ChangeBatch]) -> None:
        """Every event that comes pays for reading others: spend that where most events or answers wait."""
        while self._credit >= self._price:
            unloaded = (frame for frame in self.frames if frame.detector is None and frame.at is not now)
            waiting = [frame for frame in unloaded if self._pays(frame, guarantees)]
            if not waiting:
                self._price = self.budget.frame_rows + self.budget.window_rows
                return
            group = self._group(max(waiting, key=_urgency), guarantees)
            cost = int(self.runs.amount(*self.frames.region(group))[1])
            if cost > self._credit:
                self._price = cost
                return
            self._credit -= cost
            self._price = 0
            self.load(group, now, found)

    @property
    def _patience(self) -> int:
        return self.runs.rows if self.patience is None else self.patience

    def _pays(self, frame: Frame, guarantees: Mapping[str, int]) -> bool:
        """Whether bringing a frame up to date may bring answers; if all are held, only guarantees do."""
        return self._is_due(frame, guarantees) or (frame.pending > 0 and not self.live.time.final)

    def _tell_loaded(self, now: Knowledge, guarantees: Mapping[str, int], found: list[ChangeBatch]) -> None:
        """Let frames that are loaded know of the time; one that waits for nothing is unloaded."""
        for frame in self.frames:
            if frame.detector is not None and (now.ended or (guarantees and frame.is_due(guarantees))):
                found += self.state.answers(
                    only(each, frame.owns) for each in frame.detector.push(now.items(self.live.types))
                )
                frame.at = now
                frame.hold(held_answers(frame.detector))
            if frame.detector is not None and not frame.held:
                self.loader.release(frame.detector)
                frame.detector = None

    def _group(self, first: Frame, guarantees: Mapping[str, int]) -> list[Frame]:
        """Neighbours for which something waits as well, as many as fit: most of what they need is the same."""
        group, room = [first], self._room([first])
        open_ends = {True: True, False: True}
        for frame, after in self.frames.around(first):
            if open_ends[after]:
                wider = [*group, frame] if after else [frame, *group]
                waits = frame.pending or (guarantees and frame.is_due(guarantees))
                open_ends[after] = bool(waits and frame.detector is None and self._fits(wider, room))
                group = wider if open_ends[after] else group
            elif not any(open_ends.values()):
                break
        return group

    def _room(self, group: list[Frame]) -> float:
        """Bytes for a detector of some frames; where a small group needs a smaller part of its events, not too many."""
        room = self.state.limit * REGION
        if self.loader.is_selective(group):
            return room
        return max(room, self.budget.room)

    def _fits(self, group: list[Frame], room: float) -> bool:
        return self.loader.size(group, self._overlap) <= room

    @property
    def _overlap(self) -> float:
        """How many frames an event concerns, about."""
        return 1 + self.budget.window_rows * len(self.frames) / max(1, self.runs.rows)

    def load(self, group: list[Frame], now: Knowledge, found: list[ChangeBatch], *, stay: bool = False) -> None:
        """Bring neighbouring frames up to date; one whose answers wait for guarantees stays loaded if there is room."""
        expected = self.loader.size(group, self._overlap)
        self.budget.free(expected)
        self.state.spill_counts.frames_loaded += self.frames.over(*self.frames.region(group))
        selective = self.loader.is_selective(group)
        changes, side = self.loader.update(group, now, self.live.next)
        found += self.state.answers(changes)
        self.loader.learn(selective, expected, self.loader.peak)
        self.budget.measure(self.loader.peak)
        frame, fits = group[0], self.state.spill_counts.memory <= self.state.limit
        if len(group) == 1 and not now.ended and (stay or (frame.held and fits and not selective)):
            frame.detector = side
            return
        self.loader.release(side)
        for each in group:
            each.unloaded_at = self.live.next if each.held else None

    def _guarantees(self, now: Knowledge) -> Mapping[str, int]:
        """What answers may rely on, by type."""
        if now.ended:
            return dict.fromkeys(now.guarantees, END_OF_TIME)
        free = END_OF_TIME if self.live.time.immediate else now.clock - 1
        return {type: time if type in self.live.time.hold else max(time, free) for type, time in now.guarantees.items()}


def _urgency(frame: Frame) -> tuple[int, int]:
    return frame.pending + frame.held, frame.low
