"""Frames: stretches of past time, each of which owns the answers whose first event ends in it.

Which events an answer depends on is known from that end alone: none ends more than a window after it, and none before
it, or, where the query looks back from its first event, none more than a window before it. So frames can be brought up
to date one by one, each when it is worth it, and no answer is given twice or lost in between.

Paper: Liu et al. 2009, VIII, has frames of state by time; that they own answers is ours (decision 0013).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from tocsin.engine.changes import ChangeBatch
from tocsin.engine.detector import Detector
from tocsin.engine.partial_state import HeldAnswers
from tocsin.events import BEGINNING, END_OF_TIME
from tocsin.items import EVERY, NO_SOURCE, Bools, Ints, ItemKind, Items, control

Owns = Callable[[Ints], Bools]


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What is known of time: the clock, and for each type what is guaranteed."""

    clock: int = BEGINNING
    guarantees: Mapping[str, int] = field(default_factory=dict)
    ended: bool = False

    @property
    def order(self) -> tuple[int, int]:
        """What was known later is not smaller."""
        return self.clock, sum(self.guarantees.values())

    def behind(self) -> int:
        """No event will end at or before this."""
        return END_OF_TIME if self.ended else min(self.guarantees.values(), default=BEGINNING)

    def items(self, types: tuple[str, ...]) -> Items:
        """Say what is known of time as items, for a detector."""
        said = [(ItemKind.TICK, EVERY, NO_SOURCE, self.clock, self.clock)]
        for type, time in self.guarantees.items():
            said.append((ItemKind.GUARANTEE, types.index(type), NO_SOURCE, time, time))
        if self.ended:
            said.append((ItemKind.END, EVERY, NO_SOURCE, END_OF_TIME, END_OF_TIME))
        return control(*said)


@dataclass(slots=True)
class Frame:
    """The answers whose first event ends in [low, high), and how far they are up to date.

    `known` is the number of the first event that they do not know yet, `at` what was known of time. Of the events since
    then `pending` concern this frame, the first of them numbered `since`. `held` answers wait for guarantees, none can
    be settled before one of the times in `waits_for` is guaranteed. A frame that is loaded has a detector and is always
    up to date.
    """

    low: int
    high: int
    known: int
    at: Knowledge
    rows: int = 0
    pending: int = 0
    since: int = 0
    held: int = 0
    waits_for: tuple[tuple[str | None, int], ...] = ()
    unloaded_at: int | None = None  # the number of the next event when it was unloaded with answers held
    detector: Detector | None = None

    def owns(self, first: Ints) -> Bools:
        owned: Bools = (first >= self.low) & (first < self.high)
        return owned

    def hold(self, held: HeldAnswers) -> None:
        """Take note of the answers among these that are its own."""
        mine = np.flatnonzero(self.owns(held.first_ends)).tolist()
        self.held = len(mine)
        first: dict[str | None, int] = {}
        for at in mine:
            type, until = held.types[at], int(held.until[at])
            first[type] = min(until, first.get(type, until))
        self.waits_for = tuple(first.items())

    def is_due(self, guarantees: Mapping[str, int]) -> bool:
        """Whether guarantees may settle an answer that is held."""
        if not self.held:
            return False
        furthest = max(guarantees.values())
        return any((furthest if type is None else guarantees[type]) >= until for type, until in self.waits_for)

    def saved(self) -> dict[str, Any]:
        plain = {name: getattr(self, name) for name in SAVED}
        return plain | {"waits_for": [list(wait) for wait in self.waits_for], "at": asdict(self.at)}

    @staticmethod
    def restored(state: Mapping[str, Any]) -> Frame:
        frame = Frame(at=Knowledge(**state["at"]), **{name: state[name] for name in SAVED})
        frame.waits_for = tuple((type, until) for type, until in state["waits_for"])
        return frame


NEVER = 2**62
SAVED = ("low", "high", "known", "rows", "pending", "since", "held", "unloaded_at")


class Frames:
    """All frames, one behind the other; the last one ends where the live detector begins.

    The events of an answer end at most `behind` before and `ahead` after the end of its first event.
    """

    def __init__(self, behind: int, ahead: int) -> None:
        self.behind, self.ahead = behind, ahead
        self.all: list[Frame] = []

    def __len__(self) -> int:
        return len(self.all)

    def __iter__(self) -> Iterator[Frame]:
        return iter(self.all)

    def touched(self, ends: Ints) -> list[tuple[Frame, int]]:
        """The frames with answers that events may change, each with the number of these events."""
        lows = np.array([frame.low for frame in self.all], np.int64)
        highs = np.array([frame.high for frame in self.all], np.int64)
        begin = np.searchsorted(highs, ends - self.ahead, side="right")
        stop = np.searchsorted(lows, ends + self.behind, side="right")
        there = begin < stop
        steps = np.zeros(len(lows) + 1, np.int64)
        np.add.at(steps, begin[there], 1)
        np.add.at(steps, stop[there], -1)
        counts = np.cumsum(steps)[:-1]
        return [(self.all[at], int(counts[at])) for at in np.flatnonzero(counts).tolist()]

    def region(self, group: list[Frame]) -> tuple[int, int]:
        """The ends of the events that neighbouring frames depend on: from, to."""
        return group[0].low - self.behind, group[-1].high - 1 + self.ahead

    def known(self, group: list[Frame], ends: Ints) -> Ints:
        """For ends in order: the number up to which every frame that depends on such an event knows it."""
        known = np.full(len(ends), NEVER)
        for frame in group:
            low, high = self.region([frame])
            there = slice(*np.searchsorted(ends, [low, high + 1]).tolist())
            np.minimum(known[there], frame.known, out=known[there])
        return known

    def around(self, frame: Frame) -> Iterator[tuple[Frame, bool]]:
        """The neighbours of a frame, from near to far, alternating; each with whether it comes after the frame."""
        at = bisect_left(self.all, frame.low, key=_low)
        for step in range(1, len(self.all)):
            if at + step < len(self.all):
                yield self.all[at + step], True
            if at - step >= 0:
                yield self.all[at - step], False

    def over(self, low: int, high: int) -> int:
        """How many frames hold ends in [low, high]."""
        return bisect_right(self.all, high, key=_low) - bisect_right(self.all, low, key=_high)

    def split(self, frame: Frame, at: int) -> None:
        """One frame becomes two; both may have all that the one had pending or held."""
        where = self.all.index(frame)
        later = Frame(
            at, frame.high, frame.known, frame.at, frame.rows // 2, frame.pending, frame.since, frame.held,
            frame.waits_for, frame.unloaded_at,
        )  # fmt: skip
        frame.high, frame.rows = at, frame.rows - later.rows
        self.all.insert(where + 1, later)


def _low(frame: Frame) -> int:
    return frame.low


def _high(frame: Frame) -> int:
    return frame.high


def first_ends(changes: ChangeBatch) -> Ints:
    """The end of the first event of each answer, of those at leaves that are not repeated."""
    first = np.full(len(changes), END_OF_TIME)
    rows = changes.rows
    for column in changes.fixed:
        there = column >= 0
        if there.any():
            np.minimum(first, rows.end[rows.at(column)], out=first, where=there)
    return first


def only(changes: ChangeBatch, owns: Owns) -> ChangeBatch:
    """The answers whose first event ends where the owner says."""
    if not len(changes):
        return changes
    mine = owns(first_ends(changes))
    return changes if mine.all() else changes.pick(np.flatnonzero(mine))


def owned_by(frames: list[Frame]) -> Owns:
    """Tell the answers that one of some frames owns."""
    frames = list(frames)

    def owns(first: Ints) -> Bools:
        mine: Bools = np.zeros(len(first), np.bool_)
        for frame in frames:
            mine |= frame.owns(first)
        return mine

    return owns
