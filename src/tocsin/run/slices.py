"""Slices of time over threads: which rows each must read, and which of the matches that it finds it owns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tocsin.engine.changes import Changes
from tocsin.graph.query_graph import QueryGraph
from tocsin.items import Ints
from tocsin.run.split import why_one_graph
from tocsin.shards.time_slices import margins, owned, owns_what_it_sees

MOST_AROUND = 4  # what lies around slices, and is read twice, is at most one part in so many of all rows
OWN = 1  # which of its stretches a slice owns


@dataclass(frozen=True, slots=True)
class Slice:
    """A slice owns the matches whose last event ends from `low` up to `high` (None: there is no such end).

    stretches  the rows before that it must read, its own, and those behind; each from a place up to another
    prompt     each match is given with its last event
    """

    stretches: tuple[tuple[int, int], tuple[int, int], tuple[int, int]]
    low: int | None
    high: int | None
    prompt: bool

    def owned(self, changes: Changes, stretch: int) -> Changes:
        """Of what was said while a stretch was read, or behind the last one, what belongs to this slice."""
        if self.prompt:
            return changes if stretch == OWN else Changes()
        return Changes([owned(batch, self.low, self.high) for batch in changes], changes.frontier)


def slices_of(graph: QueryGraph, end: Ints, count: int) -> list[Slice] | None:
    """Cut rows that end in this order into slices of about as many rows; None if a graph must see all of them."""
    around = None if why_one_graph(graph) else margins(graph.plans)
    if around is None or not len(end):
        return None
    firsts = np.searchsorted(end, end[[len(end) * at // count for at in range(count)]])
    cuts = [*dict.fromkeys(firsts.tolist()), len(end)]
    prompt = all(owns_what_it_sees(plan) for plan in graph.plans)
    found = [_slice(end, cuts[at], cuts[at + 1], around, prompt=prompt) for at in range(len(cuts) - 1)]
    twice = sum(last - first for each in found for first, last in (each.stretches[0], each.stretches[2]))
    return found if len(found) > 1 and MOST_AROUND * twice <= len(end) else None


def _slice(end: Ints, first: int, last: int, around: tuple[int, int], *, prompt: bool) -> Slice:
    low = None if first == 0 else int(end[first])
    high = None if last == len(end) else int(end[last])
    begin = 0 if low is None else int(np.searchsorted(end, low - around[0]))
    stop = last if high is None else int(np.searchsorted(end, high + around[1]))
    return Slice(((begin, first), (first, last), (last, stop)), low, high, prompt)
