"""The debt of an answer: which guarantees, by type, are still missing before it is settled.

An answer without debt is never retracted. The debt says enough, not always the least: an answer may be settled sooner,
where a part cannot be violated any more although one of its types is still open.

Paper: Liu et al. 2009, G6: which types still owe a guarantee differs from answer to answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tocsin.events import BEGINNING, END_OF_TIME
from tocsin.items import Bools, Ints
from tocsin.plan.block import After, Before, Block, End, LastEnd, Lasting, Leaf, Scope, Until
from tocsin.plan.facts import overhangs, stretched
from tocsin.plan.rewrite import blocks_below

if TYPE_CHECKING:
    from tocsin.engine.changes import ChangeBatch


@dataclass(frozen=True, slots=True)
class Times:
    """When the fixed events of some answers start and end, by leaf."""

    starts: Mapping[int, Ints]
    ends: Mapping[int, Ints]
    within: int | None

    def last(self, end: End) -> Ints:
        """The last tick of a scope; of one that members of a repetition bound, the last that they leave possible."""
        if isinstance(end, Before) and set(end.leaves) <= set(self.starts):
            return _least([self.starts[leaf] for leaf in end.leaves]) - 1
        if isinstance(end, Until):
            return self.ends[end.leaf]
        if isinstance(end, LastEnd):
            return _most(list(self.ends.values()))
        if isinstance(end, Lasting) and set(end.leaves) <= set(self.ends):
            return _most([self.ends[leaf] for leaf in end.leaves]) + end.by
        first = _least(list(self.starts.values()))
        behind = end.by if isinstance(end, Lasting) else 0  # FOR, counted from where the last member may end
        return np.full_like(first, END_OF_TIME) if self.within is None else first + stretched(self.within, behind)

    def first(self, end: End) -> Ints | int:
        """The first tick of a scope, where fixed events bound it."""
        if isinstance(end, After) and set(end.leaves) <= set(self.starts):
            return _most([self.ends[leaf] for leaf in end.leaves]) + end.by
        return BEGINNING


def _least(times: list[Ints]) -> Ints:
    least: Ints = np.minimum.reduce(times)
    return least


def _most(times: list[Ints]) -> Ints:
    most: Ints = np.maximum.reduce(times)
    return most


def owed(block: Block, times: Times, known: Mapping[str, int]) -> dict[str, Ints]:
    """For each type that can still come into a scope, the last tick of that scope; BEGINNING where nothing is owed."""
    debt: dict[str, Ints] = {}
    for scope, leaves, (before, after) in scopes_of(block):
        low, high = times.first(scope.low) - before, np.minimum(times.last(scope.high), END_OF_TIME - after) + after
        for type in sorted({alt.type for leaf in leaves for alt in leaf.alts}):
            missing = (low <= high) & (known.get(type, BEGINNING) < high)
            if missing.any():
                mine = np.where(missing, high, BEGINNING)
                debt[type] = np.maximum(debt[type], mine) if type in debt else mine
    return debt


def scopes_of(block: Block) -> Iterator[tuple[Scope, list[Leaf], tuple[int, int]]]:
    """The scopes in which events can change an answer, the leaves that these would fill, and how far around, by FOR."""
    for part in block.forbidden:
        yield part.scope, [leaf for each in blocks_below(part.block) for leaf in each.leaves], overhangs(part.block)
    for id, scope in block.scopes:
        yield scope, [block.leaf(id)], (0, 0)


def owed_by(changes: ChangeBatch, known: Mapping[str, int]) -> dict[str, Ints]:
    """The debt of each answer of a batch."""
    if changes.plan.staged is not None:  # all events of its stage, and of those before it, have a say
        ends = changes.span[1]
        return {type: np.where(ends > time, ends, BEGINNING) for type, time in known.items()}
    total: dict[str, Ints] = {}
    for block in changes.plan.alternatives:
        if block.missing != changes.step:
            continue
        times, mine = _bound_times(changes, block)
        if not mine.any():
            continue
        for type, owing in owed(block, times, known).items():
            here = np.where(mine, owing, BEGINNING)
            total[type] = np.maximum(total[type], here) if type in total else here
    return total


def _bound_times(changes: ChangeBatch, block: Block) -> tuple[Times, Bools]:
    """The times of the events at the fixed leaves of an alternative, and which answers are of that alternative."""
    index = {variable.name: number for number, variable in enumerate(changes.plan.variables)}
    rows = changes.rows
    mine: Bools = np.ones(len(changes), np.bool_)
    starts: dict[int, Ints] = {}
    ends: dict[int, Ints] = {}
    seen: set[int] = set()
    for leaf in block.fixed:
        columns = [changes.fixed[index[alt.var]] for alt in leaf.alts]
        seen.update(index[alt.var] for alt in leaf.alts)
        events = _most(columns)  # at most one alternative of a leaf is bound
        mine &= events >= 0
        at = rows.at(events)
        starts[leaf.id], ends[leaf.id] = rows.start[at], rows.end[at]
    for number, column in enumerate(changes.fixed):
        if number not in seen and number not in changes.repeated and len(column):
            mine &= column < 0
    return Times(starts, ends, changes.plan.within), mine
