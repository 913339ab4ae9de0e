"""Cut a history without a key into slices of time, each with margins wide enough to judge its own matches."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from tocsin.engine.changes import ChangeBatch
from tocsin.engine.ledger import Ledger
from tocsin.items import Ints
from tocsin.plan.block import Plan
from tocsin.plan.facts import around_visible, can_wait, reach
from tocsin.shards.routes import shows_nothing

SLICE_TO_OVERLAP = 4  # a slice is at least so many times longer than what lies around it


@dataclass(frozen=True, slots=True)
class Slices:
    """Slice k owns the matches whose last end lies in [first + k * length, first + (k + 1) * length)."""

    first: int
    length: int
    count: int
    back: int  # how far before its beginning a slice must look
    ahead: int  # and how far behind its end

    def span(self, number: int) -> tuple[int, int]:
        """Return the ends of events that a slice must see: from the first of them up to the second."""
        low = self.first + number * self.length
        return low - self.back, low + self.length + self.ahead

    def owned(self, changes: ChangeBatch, number: int) -> ChangeBatch:
        """Return the changes that belong to this slice."""
        low = self.first + number * self.length
        return owned(changes, low if number else None, low + self.length if number < self.count - 1 else None)


def owned(changes: ChangeBatch, low: int | None, high: int | None) -> ChangeBatch:
    """Return the changes that a slice from `low` up to `high` owns; None: it has no such end."""
    at = _decisive(changes)
    mine = np.ones(len(at), np.bool_) if low is None else at >= low
    if high is not None:
        mine &= at < high
    return changes if mine.all() else changes.pick(np.flatnonzero(mine))


def owns_what_it_sees(plan: Plan) -> bool:
    """Whether each match is given with its last event: then the slice of that event gives it, and no other."""
    return not can_wait(plan) and Ledger.of(plan) is None


def margins(plans: Iterable[Plan]) -> tuple[int, int] | None:
    """Return how far a slice must look back and ahead for these plans; None if a plan has no window.

    The last end of a match selects its slice. Where a match has hidden events, its visible end does, and the hidden
    events lie up to a window around that: their own windows come on top on both sides.
    """
    back = ahead = 0
    for plan in plans:
        found = reach(plan)
        if found is None or plan.within is None or shows_nothing(plan):
            return None
        hidden = Ledger.of(plan) is not None
        mine = around_visible(plan) if hidden else found.around_last
        assert mine is not None
        back, ahead = max(back, mine[0]), max(ahead, mine[1])
    return back, ahead


def cut(first: int, last: int, margins: tuple[int, int], most: int) -> Slices | None:
    """Divide [first, last] into at most `most` slices; None if the margins would outweigh them."""
    back, ahead = margins
    length = max((last - first) // max(1, most) + 1, SLICE_TO_OVERLAP * (back + ahead), 1)
    count = (last - first) // length + 1
    return Slices(first, length, count, back, ahead) if count > 1 else None


def _decisive(changes: ChangeBatch) -> Ints:
    """Return the end that selects the slice of each change: the last of all its events, or of the visible ones."""
    if Ledger.of(changes.plan) is not None:
        return changes.span[1]
    end = np.full(len(changes), np.iinfo(np.int64).min)
    for index, numbers in enumerate(changes.fixed):
        if index in changes.repeated:
            members = changes.repeated[index]
            owner, at = np.repeat(np.arange(len(changes)), np.diff(members.offsets)), changes.rows.at(members.events)
            np.maximum.at(end, owner, changes.rows.end[at])
        else:
            np.maximum(end, changes.rows.end[changes.rows.at(numbers)], out=end, where=numbers >= 0)
    return end
