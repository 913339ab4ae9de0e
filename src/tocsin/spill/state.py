"""The state of one query in two places: the newest events in a live detector, what lies before in frames on disk.

The live detector owns the answers whose first event ends at or after the cut, frames own those before it. Events that
end before the edge, a window after the cut, concern frames: they are stored in sorted runs beside the live detector.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from tocsin.engine.changes import ChangeBatch, Changes
from tocsin.engine.detector import Detector
from tocsin.engine.ledger import Ledger
from tocsin.engine.too_late import passed
from tocsin.events import BEGINNING, END_OF_TIME
from tocsin.plan.facts import reach
from tocsin.spill.frames import Frame, Frames, Knowledge, only
from tocsin.spill.runs import SortedRuns


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


class SplitState:
    """The live detector, the frames before it and the stored events of frames; and what they have answered together.

    `reach` is None without a window: then every event may meet every other, and nothing can leave the live detector.
    """

    def __init__(self, detector: Detector, limit: int, folder: str | os.PathLike[str] | None) -> None:
        self.live, self.plan, self.limit = detector, detector.plan, limit
        self.ledger, detector.ledger = Ledger.of(detector.plan), None
        self.reach = reach(detector.plan)
        self.frames = Frames(*(self.reach.around_first if self.reach is not None else (0, 0)))
        self.runs = SortedRuns(folder, limit)
        self.cut = BEGINNING  # answers whose first event ends before this are owned by frames
        self.edge = BEGINNING  # events that end before this are stored in runs
        self.counts = (0, 0, 0)  # events seen, matches given, matches withdrawn
        self.spill_counts = Spilled()

    # --- time ---

    def knowledge(self) -> Knowledge:
        """What the live detector knows of time; a delay that is known is a guarantee about every type."""
        time = self.live.time
        delay = passed(time.clock, time.slack)
        guarantees = {type: max(delay, time.guarantees.get(type, BEGINNING)) for type in self.live.all_types}
        return Knowledge(time.clock, guarantees, time.ended)

    def is_finished(self, frame: Frame, now: Knowledge) -> bool:
        """Whether no event that may still come concerns the frame."""
        return now.behind() >= frame.high + self.frames.ahead

    def drop_finished(self, now: Knowledge) -> None:
        """Forget frames that no event can concern any more, and then what is stored for them."""
        frames = self.frames.all
        while frames and self.is_finished(frames[0], now) and not (frames[0].pending or frames[0].held):
            del frames[0]
        needed = (frames[0].low if frames else self.cut) - self.frames.behind
        self.runs.drop_before(END_OF_TIME if now.ended else needed)
        if self.ledger is not None:
            self._forget_counts(self.ledger, now)

    def _forget_counts(self, ledger: Ledger, now: Knowledge) -> None:
        first = min((frame.low for frame in self.frames), default=END_OF_TIME)
        if now.behind() > BEGINNING and not now.ended:
            ledger.forget(min(now.behind() + 1, first))

    @property
    def frontier(self) -> int:
        """No later change is of a match that ends at or before this."""
        waiting = [frame.low for frame in self.frames if frame.pending or frame.held]
        back = self.frames.ahead if any(variable.hidden for variable in self.plan.variables) else 0
        return min([self.live.frontier, *(low - 1 - back for low in waiting)])

    # --- answers ---

    def answers_of_live(self, changes: Changes) -> list[ChangeBatch]:
        """Count and give what the live detector answered, without answers that frames own."""
        if self.cut == BEGINNING:
            return self.answers(changes)
        return self.answers(only(each, lambda first: first >= self.cut) for each in changes)

    def answers(self, several: Iterable[ChangeBatch]) -> list[ChangeBatch]:
        """Count and give answers, each to its owner; hidden justifications of one match are summed up."""
        given = []
        for changes in several:
            if not len(changes):
                continue
            settled = changes if self.ledger is None else self.ledger.settle(changes)
            gained = int(np.count_nonzero(settled.op > 0))
            seen, matches, retracted = self.counts
            self.counts = (seen, matches + gained, retracted + len(settled) - gained)
            if len(settled):
                given.append(settled)
        return given
