"""Catching up: which frames are brought up to date, and when.

A frame is worth loading when enough events wait for it, or when the oldest of them has waited long enough. Held answers
make it worth too: when a guarantee may settle one, and at the latest when nothing can come any more. Without thresholds
of the user, loading is paid for: four events that come buy the reading of another one, and the frames for which most
waits are bought first.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import takewhile

from tocsin.engine.changes import ChangeBatch
from tocsin.events import BEGINNING, END_OF_TIME
from tocsin.spill import internals as grip
from tocsin.spill.budget import MANY, Keeping
from tocsin.spill.frames import Frame, Knowledge
from tocsin.spill.reload import only

REGION = 0.35  # of the memory limit, for a detector that is filled from disk


class CatchingUp(Keeping):
    """Frames brought up to date."""

    def _catch_up(self, found: list[ChangeBatch], *, idle: bool = False, more: bool = False) -> None:
        """Bring up to date the frames that are worth it, those first that most events wait for, then the youngest.

        `idle`: no event came since time was told before, so there is nothing better to do. `more` of a batch will come.
        """
        if self.cut == BEGINNING:
            return
        now = self._knowledge()
        if now.ended:
            self.measure()  # the live detector has nothing left
        guarantees = self._guarantees(now) if self.live.time.holds else {}
        self._tell_awake(now, guarantees, found)
        due = self._worth(now, guarantees)
        if idle:
            due += [frame for frame in self.frames if frame.detector is None and self._pays(frame, guarantees)]
        if idle or not more or self._live_bytes + self._grown <= self._least_live:  # else there will be more room soon
            due += self._finished(now, at_once=idle)
        for frame in sorted(due, key=_urgency, reverse=True):
            if frame.at is not now:  # not loaded beside another one
                self._load(self._group(frame, guarantees), now, found)
        if self.patience is None:
            self._spend(now, guarantees, found)
        self._drop_finished(now)

    def _worth(self, now: Knowledge, guarantees: Mapping[str, int]) -> list[Frame]:
        """Frames for which enough events wait, or one for long enough; or an answer, if patience is given."""
        since, window = self.live.next - self._patience, self._window_rows
        due = []
        for frame in self.frames if self.patience is not None or not self.live.time.final else ():
            if frame.pending and frame.detector is None:
                many = max(MANY, (frame.rows + window) // 8) if self.many is None else self.many
                if frame.pending >= many or frame.since < since:
                    due.append(frame)
        if self.patience is not None and guarantees:
            asleep = (frame for frame in self.frames if frame.detector is None and frame.at != now)
            due += [frame for frame in asleep if self._is_due(frame, guarantees)]
        return due

    def _is_due(self, frame: Frame, guarantees: Mapping[str, int]) -> bool:
        """Whether an answer that a frame holds may be settled, and not just in vain."""
        rested = frame.slept is None or self.live.next - frame.slept > min(self._patience, frame.rows)
        return rested and bool(guarantees) and frame.is_due(guarantees)

    def _finished(self, now: Knowledge, *, at_once: bool) -> list[Frame]:
        """Frames that are brought up to date for the last time, if they are many enough for their neighbourhood."""
        passed = takewhile(lambda frame: self._is_finished(frame, now), self.frames)
        done = [frame for frame in passed if frame.detector is None]
        rows = sum(frame.rows for frame in done)
        at_once = at_once or now.ended or self.patience is not None
        if at_once or rows >= self._window_rows or self._is_full(done):
            return [frame for frame in done if frame.pending or frame.held]
        return []

    def _is_full(self, group: list[Frame]) -> bool:
        return bool(group) and not self._fits(group, 0.8 * self._room(group))

    def _spend(self, now: Knowledge, guarantees: Mapping[str, int], found: list[ChangeBatch]) -> None:
        """Every event that comes pays for reading others: spend that where most events or answers wait."""
        while self._credit >= self._price:
            asleep = (frame for frame in self.frames if frame.detector is None and frame.at is not now)
            waiting = [frame for frame in asleep if self._pays(frame, guarantees)]
            if not waiting:
                self._price = self._frame_rows + self._window_rows
                return
            group = self._group(max(waiting, key=_urgency), guarantees)
            cost = int(self.shelf.amount(*self.frames.region(group))[1])
            if cost > self._credit:
                self._price = cost
                return
            self._credit -= cost
            self._price = 0
            self._load(group, now, found)

    @property
    def _patience(self) -> int:
        return self.shelf.rows if self.patience is None else self.patience

    def _pays(self, frame: Frame, guarantees: Mapping[str, int]) -> bool:
        """Whether bringing a frame up to date may bring answers; if all are held, only guarantees do."""
        return self._is_due(frame, guarantees) or (frame.pending > 0 and not self.live.time.final)

    def _tell_awake(self, now: Knowledge, guarantees: Mapping[str, int], found: list[ChangeBatch]) -> None:
        """Let frames that are awake know of the time; one that waits for nothing goes to sleep."""
        for frame in self.frames:
            if frame.detector is not None and (now.ended or (guarantees and frame.is_due(guarantees))):
                found += self._kept(only(each, frame.owns) for each in frame.detector.push(now.items(self.live.types)))
                frame.at = now
                frame.hold(grip.held(frame.detector))
            if frame.detector is not None and not frame.held:
                self.recall.release(frame.detector)
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
        room = self.limit * REGION
        if self.recall.is_selective(group):
            return room
        return max(room, 0.9 * self.limit - self._live_bytes - self._grown - self.shelf.tail_bytes)

    def _fits(self, group: list[Frame], room: float) -> bool:
        return self.recall.size(group, self._overlap) <= room

    @property
    def _overlap(self) -> float:
        """How many frames an event concerns, about."""
        return 1 + self._window_rows * len(self.frames) / max(1, self.shelf.rows)

    def _load(self, group: list[Frame], now: Knowledge, found: list[ChangeBatch], *, stay: bool = False) -> None:
        """Bring neighbouring frames up to date; one whose answers wait for guarantees stays awake if there is room."""
        expected = self.recall.size(group, self._overlap)
        self._free(expected)
        self.spill_counts.frames_loaded += self.frames.over(*self.frames.region(group))
        selective = self.recall.is_selective(group)
        changes, side = self.recall.update(group, now, self.live.next)
        found += self._kept(changes)
        self.recall.learn(selective, expected, self.recall.peak)
        self.measure(self.recall.peak)
        frame, fits = group[0], self.spill_counts.memory <= self.limit
        if len(group) == 1 and not now.ended and (stay or (frame.held and fits and not selective)):
            frame.detector = side
            return
        self.recall.release(side)
        for each in group:
            each.slept = self.live.next if each.held else None

    def _guarantees(self, now: Knowledge) -> Mapping[str, int]:
        """What answers may rely on, by type."""
        if now.ended:
            return dict.fromkeys(now.promises, END_OF_TIME)
        free = END_OF_TIME if self.live.time.immediate else now.clock - 1
        return {type: time if type in self.live.time.hold else max(time, free) for type, time in now.promises.items()}


def _urgency(frame: Frame) -> tuple[int, int]:
    return frame.pending + frame.held, frame.low
