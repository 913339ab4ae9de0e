"""Split events over threads by their key, so that each thread sees everything that a match needs."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np

from tocsin.encode.content import Words
from tocsin.encode.merge import Rearranged, sliced
from tocsin.encode.thread_team import ThreadTeam
from tocsin.engine.runtime import DUPLICATES
from tocsin.errors import TocsinError
from tocsin.graph.query_graph import QueryGraph
from tocsin.items import Codes, Ints, Items, Strings
from tocsin.run.session import shown_counters
from tocsin.shards.routes import groups_of, units_of, way_of

WORTH_A_THREAD = 1 << 17  # rows, unless somebody says how many threads there shall be
MOST_THREADS = 1024
Make = Callable[[Strings | None], QueryGraph]  # one more graph of the same queries, whose texts have the same codes


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def thread_count(threads: int | None, rows: int, *, jit: bool) -> int:
    """How many threads a run may use: what was asked for, or as many as there are cores and enough rows."""
    if threads is None:
        return max(1, min(cores(), rows // WORTH_A_THREAD)) if jit else 1
    return threads


def check_threads(threads: int | None) -> None:
    """Refuse a number of threads that makes no sense, before any event is read."""
    if threads is None:
        return
    if isinstance(threads, bool) or not isinstance(threads, int) or not 1 <= threads <= MOST_THREADS:
        raise TocsinError(
            f"threads={threads!r} is no number of threads",
            hint=f"give a whole number from 1 to {MOST_THREADS}; without it, as many as this process has cores",
        )


@dataclass(frozen=True, slots=True)
class Counted:
    """What a graph has counted; duplicates also by the branches of its first query, of which the largest is shown."""

    shown: dict[str, int]
    duplicates: list[int]

    def since(self, before: Counted) -> Counted:
        """What was counted since an earlier moment; when the stream has ended, no answer waits."""
        shown = {name: count - before.shown.get(name, 0) for name, count in self.shown.items()} | {"waiting": 0}
        each = [now - then for now, then in zip(self.duplicates, before.duplicates, strict=True)]
        return Counted(shown, each)


class Split:
    """How the events of some queries are split: by the values of these attributes, for each type."""

    def __init__(self, first: QueryGraph, make: Make) -> None:
        self.first, self._make = first, make

    def graphs(self, count: int, *, shares_texts: bool) -> list[QueryGraph]:
        """So many graphs; `shares_texts`: all of them number texts alike."""
        strings = self.first.strings if shares_texts else None
        return [self.first, *(self._make(strings) for _ in range(count - 1))]

    def fresh(self) -> QueryGraph:
        """A graph that has seen nothing."""
        return self._make(None)

    def counted(self, graph: QueryGraph) -> Counted:
        """What a graph has counted so far."""
        branches = graph.stages[0].operator.detectors[0].branches
        return Counted(shown_counters(graph), [branch.count(DUPLICATES) for branch in branches])

    def together(self, several: list[Counted]) -> dict[str, int]:
        """What several graphs have counted, as one would have."""
        total = {name: sum(one.shown[name] for one in several) for name in several[0].shown}
        total["duplicates"] = max(map(sum, zip(*(one.duplicates for one in several), strict=True)), default=0)
        return total

    def shares(self, items: Rearranged, workers: ThreadTeam) -> list[Ints]:
        """For each thread the places of its events."""
        cuts = [len(items) * at // workers.count for at in range(workers.count + 1)]
        pieces = [sliced(items, begin, end - begin) for begin, end in pairwise(cuts)]
        found = workers.all([partial(self._owner, piece, workers.count) for piece in pieces])
        owner = np.concatenate(found)
        return workers.all([lambda at=at: np.flatnonzero(owner == np.uint64(at)) for at in range(workers.count)])  # type: ignore[misc]

    def _owner(self, items: Items, count: int) -> Words:
        """Which of so many threads each event belongs to."""
        return self._keys(items) % np.uint64(count)

    def _keys(self, items: Items) -> Words:
        """A number for each event, equal where the keys are."""
        ways = groups_of(units_of(self.first.plans))[0].ways
        by_key: dict[tuple[str, ...], list[int]] = {}
        for code, type in enumerate(self.first.types):
            way = way_of(ways, type)
            if way is not None:
                by_key.setdefault(way.keys[0], []).append(code)
        found = np.zeros(len(items), np.uint64)
        for attrs, codes in by_key.items():
            mine = _hashed(items, attrs)
            if len(by_key) == 1:
                return mine
            rows = _among(items.types, codes, len(self.first.types))
            found[rows] = mine[rows]
        return found


def _hashed(items: Items, attrs: tuple[str, ...]) -> Words:
    found = np.zeros(len(items), np.uint64)
    for attr in attrs:
        values = items.columns[attr].values
        words = (values + 0.0).view(np.uint64) if values.dtype.kind == "f" else values.view(np.uint64)
        found = (found ^ words) * np.uint64(0x9E3779B97F4A7C15)
        found ^= found >> np.uint64(32)
    return found


def _among(types: Codes, codes: list[int], count: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    wanted = np.zeros(count + 2, np.bool_)
    wanted[codes] = True
    return wanted[types]


def why_one_graph(graph: QueryGraph, *, by_key: bool = False) -> str | None:
    """Why one graph must see all events, however they are divided (`by_key`: by their keys only); None: several can."""
    if not (graph.is_plain or (by_key and graph.only_follows_traces)):
        return "queries read each other's matches, operators stand around them, or events do not come in order"
    branches = [branch for detector in graph.detectors for branch in detector.branches]
    if any(branch.program.derived or branch.program.asked or branch.program.foreign for branch in branches):
        return "a condition asks a function that runs in Python"
    return None


def why_not(graph: QueryGraph) -> str | None:
    """Why the events of a graph cannot be split over threads by their key; None: they can."""
    if (reason := why_one_graph(graph, by_key=True)) is not None:
        return reason
    groups = groups_of(units_of(graph.plans))
    if len(groups) != 1 or not groups[0].keyed:
        return "the queries have no key in common, such as WHERE [user]"
    group = groups[0]
    if group.homes or not all(way.is_single for way in group.ways.values()):
        return "a type stands at leaves with different keys"
    return None
