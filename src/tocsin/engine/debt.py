"""The debt of an answer that waits: which promises, by type, are still missing before it is settled.

It says enough, not always the least: an answer may be settled sooner, where a part cannot be violated any more although
one of its types is still open.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tocsin.events import END_OF_TIME
from tocsin.items import Ints
from tocsin.plan.block import After, Before, End, LastEnd
from tocsin.plan.rewrite import blocks_below

if TYPE_CHECKING:
    from tocsin.engine.branch import Branch
    from tocsin.engine.detector import Detector
    from tocsin.engine.payload import Rows


@dataclass(frozen=True, slots=True)
class Debt:
    """The eids of the answer's events in the order of the text, and for each type what must be promised of it."""

    events: tuple[str, ...]
    missing: dict[str, int]


def debts(detector: Detector) -> list[Debt]:
    """All answers that wait, in the order of their events."""
    found = [pair for branch in detector.branches for pair in _debts(detector, branch)]
    return [debt for _, debt in sorted(found, key=lambda pair: pair[0])]


def _debts(detector: Detector, branch: Branch) -> Iterator[tuple[tuple[int, ...], Debt]]:
    pairs = branch.waiting_rows()
    if not len(pairs):
        return
    text = [leaf.id for leaf in branch.block.fixed]
    columns = [2 * branch.program.nest.index(id) for id in text]
    rows = detector.payload.rows(np.unique(pairs[:, columns]))
    eids = [str(eid) for eid in rows.eids.to_pylist()]
    for row in pairs:
        at = rows.at(row[columns])
        times = _Times(detector, text, at, rows)
        ends = tuple(int(rows.end[place]) for place in at)
        yield ends, Debt(tuple(eids[place] for place in at), dict(_missing(detector, branch, times)))


@dataclass(slots=True)
class _Times:
    """When the fixed events of an answer start and end."""

    detector: Detector
    leaves: list[int]
    at: Ints
    rows: Rows

    def of(self, leaf: int, which: str) -> int:
        return int(getattr(self.rows, which)[self.at[self.leaves.index(leaf)]])

    def last(self, end: End) -> int:
        """The last tick of a scope; of one that members of a repetition bound, the last that they leave possible."""
        if isinstance(end, Before) and set(end.leaves) <= set(self.leaves):
            return min(self.of(leaf, "start") for leaf in end.leaves) - 1
        if isinstance(end, LastEnd):
            return max(self.of(leaf, "end") for leaf in self.leaves)
        within = self.detector.plan.within
        if within is None:
            return END_OF_TIME
        return min(self.of(leaf, "start") for leaf in self.leaves) + within

    def first(self, end: End) -> int | None:
        """The first tick of a scope, where fixed events bound it."""
        if isinstance(end, After) and set(end.leaves) <= set(self.leaves):
            return max(self.of(leaf, "end") for leaf in end.leaves) + 1
        return None


def _missing(detector: Detector, branch: Branch, times: _Times) -> Iterator[tuple[str, int]]:
    """The types that can still come into a scope, each with the last tick that they can change."""
    block = branch.block
    scopes = [
        (part.scope, [leaf for each in blocks_below(part.block) for leaf in each.leaves]) for part in block.forbidden
    ]
    scopes += [(scope, [block.leaf(id)]) for id, scope in block.scopes]
    owed: dict[str, int] = {}
    for scope, leaves in scopes:
        low, high = times.first(scope.low), times.last(scope.high)
        if low is not None and low > high:
            continue
        for type in {alt.type for leaf in leaves for alt in leaf.alts}:
            promised, lag = detector.released(type)
            if max(promised, detector.clock - lag) < high:
                owed[type] = max(high, owed.get(type, high))
    yield from sorted(owed.items())
