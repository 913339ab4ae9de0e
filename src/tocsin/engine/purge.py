"""The table of purge rules: how the ends of the root's events are bounded by an event at any leaf of a block.

An event can be forgotten when no answer that may still be given can need it. Every rule asks which ends the events at
the root's other leaves can have; `runtime/purge.py` applies the rules:

    A1   one type whose guarantee is far enough has no partner for the event (Liu et al. 2009, VI.B, Algorithm 1)
    A2   all types that are guaranteed so far together, in query order, have none (Liu et al. 2009, VI.B, Algorithm 2)
    P3   the event has partners, and no new one can come; our addition, the papers keep such events for ever

Events of forbidden parts and repetitions go when no binding that is still to be judged can have them in a scope (Liu et
al. 2009, VI.C; Li 2010, 4.5.4). Where guarantees do not differ by type, window and delay decide (Li 2010, 4.5.3).

A dropped event may be delivered a second time. That does no harm: an event dropped by A1 or A2 completes no binding,
and neither does its copy. The first event of a complete binding to be dropped goes by P3, when the times of all others
are guaranteed; it is kept until its own time is guaranteed too, so no copy of any of them is accepted later.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from tocsin.engine import runtime as rt
from tocsin.events import BEGINNING
from tocsin.items import Ints
from tocsin.plan.block import After, Before, Block, From, Point, Scope, Until, WindowLow
from tocsin.plan.endpoints import Edge, Graph, edges_of, spans, strictly_ordered
from tocsin.plan.facts import overhangs, stretched
from tocsin.plan.rewrite import blocks_below

if TYPE_CHECKING:
    from tocsin.engine.branch import Branch

Closure = dict[tuple[object, object], bool]  # see `Graph.closure`
Bounds: TypeAlias = tuple[int, int, int, int]
NONE: Bounds = (-rt.FAR, -rt.FAR, rt.FAR, rt.FAR)


@dataclass(frozen=True, slots=True)
class Rules:
    """What the purge knows of a block: its fixed leaves as positions, and how every leaf stands to each of them."""

    positions: tuple[int, ...]
    chain: bool
    bounds: dict[tuple[int, int], Bounds]  # (leaf, position): see `runtime`, P
    judged: frozenset[int]  # leaves whose events decide about held answers
    back: bool  # held answers look back by a window
    before: int  # by FOR, how far before its events a held answer looks
    after: int  # and after them

    @staticmethod
    def of(root: Block, shared: Iterable[tuple[int, int]] = (), *, intervals: bool) -> Rules:
        """The rules of a block. `shared`: leaves, each with the one that keeps its events, which serves both."""
        before = strictly_ordered(root, before=intervals)
        fixed = [leaf.id for leaf in root.fixed]
        positions = sorted(fixed, key=lambda mine: sum((other, mine) in before for other in fixed))
        chain = all((x, y) in before for at, x in enumerate(positions) for y in positions[at + 1 :])
        bounds: dict[tuple[int, int], Bounds] = {}
        known = _root_edges(root, intervals=intervals)
        closure = Graph(known).closure()
        for leaf in root.leaves:
            bounds |= _bounds(closure, leaf.id, positions)
        for part in root.forbidden:
            inside = [leaf.id for each in blocks_below(part.block) for leaf in each.leaves]
            edges = _inside(inside[0], part.scope) if overhangs(part.block) == (0, 0) else spans([inside[0]])
            around = Graph([*known, *edges]).closure()
            there = _bounds(around, inside[0], positions)
            bounds |= {(id, at): there[inside[0], at] for id in inside for at in positions}
        judged = _judged(root)
        for sharer, owner in shared:
            bounds |= {(owner, at): _weaker(bounds[owner, at], bounds[sharer, at]) for at in positions}
            judged |= {owner} if sharer in judged else set()
        scopes = [part.scope for part in root.forbidden] + [scope for _, scope in root.scopes]
        back = any(isinstance(scope.low, WindowLow) for scope in scopes)
        back = back or (intervals and any(isinstance(scope.low, From) for scope in scopes))  # it starts before its end
        return Rules(tuple(positions), chain, bounds, judged, back, *overhangs(root))

    def table(
        self, leaf_ids: tuple[int, ...], covered: tuple[int, ...], guaranteed: list[int], within: int | None, start: int
    ) -> Ints:
        """The rules as `runtime/purge.py` reads them; leaves in the order of their buffers."""
        place = {id: number for number, id in enumerate(self.positions)}
        words = [0] * rt.P_TABLE
        words[rt.P_LEAVES], words[rt.P_ROOTS], words[rt.P_START] = len(leaf_ids), len(place), start
        words[rt.P_WINDOW] = -1 if within is None else stretched(within, self.before, self.after)
        words[rt.P_CHAIN], words[rt.P_OWN], words[rt.P_SINCE] = int(self.chain), 1, rt.FAR
        for id, by_key, known in zip(leaf_ids, covered, guaranteed, strict=True):
            words += [known, place.get(id, -1), by_key, int(id in self.judged)]
        words += [leaf_ids.index(id) for id in self.positions]
        for id in leaf_ids:
            for other in self.positions:
                words += self.bounds.get((id, other), NONE)
        return np.array(words, np.int64)


def _weaker(one: Bounds, other: Bounds) -> Bounds:
    """What holds of an event under both bounds on the ends of others: two from below, two from above."""
    return (min(one[0], other[0]), min(one[1], other[1]), max(one[2], other[2]), max(one[3], other[3]))


def _judged(root: Block) -> frozenset[int]:
    """A stored event of a part with one leaf decides at once; all others may decide together with events to come."""
    found = {leaf.id for leaf in root.repeated}
    for part in root.forbidden:
        leaves = [leaf for each in blocks_below(part.block) for leaf in each.leaves]
        if root.repeated or root.groups or len(leaves) > 1 or leaves[0].repeat is not None:
            found |= {leaf.id for leaf in leaves}
    return frozenset(found)


# --- how ends of events are ordered ----------------------------------------------------------------------------------


def _root_edges(root: Block, *, intervals: bool) -> list[Edge]:
    """What is known of the root's leaves; a repetition is as long as all its members together."""
    edges = spans(leaf.id for leaf in root.leaves) + edges_of(root.order)
    if not intervals:
        edges += [(Point(leaf.id, "end"), Point(leaf.id, "start"), False) for leaf in root.fixed]
    return edges + [edge for id, scope in root.scopes for edge in _inside(id, scope)]


def _inside(id: int, scope: Scope) -> list[Edge]:
    """What a scope says about an event in it."""
    edges = spans([id])
    if isinstance(scope.low, After):
        edges += [(Point(leaf, "end"), Point(id, "start"), True) for leaf in scope.low.leaves]
    if isinstance(scope.low, From):  # the event there is a member, too
        edges += [(Point(scope.low.leaf, which), Point(id, which), False) for which in ("start", "end")]
    if isinstance(scope.high, Until):
        edges.append((Point(id, "end"), Point(scope.high.leaf, "end"), False))
    if isinstance(scope.high, Before):
        edges += [(Point(id, "end"), Point(leaf, "start"), True) for leaf in scope.high.leaves]
    return edges


def _bounds(closure: Closure, id: int, positions: list[int]) -> dict[tuple[int, int], Bounds]:
    """The end of each position against an event at a leaf: see `runtime/purge_table.py`."""

    def after(node: Point, end: Point) -> int:
        return int(closure[node, end]) if (node, end) in closure else -rt.FAR

    def before(end: Point, node: Point) -> int:
        return -int(closure[end, node]) if (end, node) in closure else rt.FAR

    start, end = Point(id, "start"), Point(id, "end")
    ends = {other: Point(other, "end") for other in positions}
    return {
        (id, other): (after(start, node), after(end, node), before(node, start), before(node, end))
        for other, node in ends.items()
    }


# --- when, and by which of the rules ---------------------------------------------------------------------------------

FEW = 64  # so many new events are worth a look at all of them
PATIENCE = 16  # a sweep goes around again if it dropped one in so many
WHOLE = 1 << 31
HEADERS = 32  # looking at one event costs as much as looking at so many empty buffers


class Purger:
    """Sweeps the buffers of a branch: often enough that they never hold much more than what is needed."""

    def __init__(self, branch: Branch) -> None:
        self.branch = branch
        self.left = 0  # events after the last sweep
        self.peak = 0  # the most that any sweep found
        self.dropped = np.zeros(rt.OLD, np.int64)  # by reason
        self._stored = 0  # how many had been stored then
        self._known: list[int] = []  # what was guaranteed then
        self._newest = BEGINNING

    @cached_property
    def rules(self) -> Rules:
        branch = self.branch
        return Rules.of(branch.block, branch.program.shared, intervals=branch.program.shape.intervals)

    @property
    def by_type(self) -> bool:
        """Whether guarantees count type by type. What may be corrected needs its events until all have passed them."""
        detector, block = self.branch.detector, self.branch.block
        changeable = bool(block.forbidden or block.repeated)
        may = detector.by_type and not detector.ordered and not detector.withdrawn
        return may and (detector.time.final or not changeable)

    def is_due(self, *, pushed: bool) -> bool:
        """Whether a sweep is worth its time: enough came and guarantees have moved, or all can go.

        The first is asked after events only: promises of several types that belong together come one by one.
        """
        branch = self.branch
        stored = branch.words[rt.RELEVANT] - self._stored
        if stored + self.left == 0:
            return False
        if pushed and stored >= max(FEW, self.left, branch.buffers // HEADERS) and self.by_type and self._is_ahead:
            return True
        if branch.horizon > self._newest:
            self._newest = int(branch.N.max())
        return branch.horizon > self._newest

    @property
    def _is_ahead(self) -> bool:
        """Whether guarantees have moved, and some so far before others that the common horizon keeps too much."""
        known, span = self.guaranteed(), self.branch.program.span
        return known != self._known and (span is None or max(known) - min(known) > span)

    def guaranteed(self) -> list[int]:
        """For each buffer what is promised of all types that can stand there."""
        branch = self.branch
        known = {type: branch.detector.time.guaranteed(type, branch.clock) for type in branch.program.types}
        return [min(known[alt.type] for alt in branch.leaf(id).alts) for id in branch.program.leaf_ids]

    def sweep(self, *, whole: bool = True) -> None:
        """Drop what no answer can need; not `whole`: most of it."""
        branch = self.branch
        branch.prune()
        self._known, self._stored = self.guaranteed(), branch.words[rt.RELEVANT]
        self.left, dropped = self.apply(branch.H, branch.D, branch.N, patience=WHOLE if whole else PATIENCE)
        self.dropped += dropped
        self.peak = max(self.peak, self.left + int(dropped.sum()))

    def apply(
        self, H: Ints, D: npt.NDArray[np.int32], N: Ints, *, remember: bool = True, patience: int = WHOLE
    ) -> tuple[int, Ints]:
        """Sweep these buffers; how many events stay in them, and how many each reason dropped.

        Without `remember` events go that are kept only so that they are known if they come again.
        """
        branch, program = self.branch, self.branch.program
        start = 2 if program.shape.intervals else 0
        within = branch.detector.plan.within
        table = self.rules.table(program.leaf_ids, program.tables["covered"], self.guaranteed(), within, start)
        table[rt.P_RULES], table[rt.P_OWN], table[rt.P_PATIENCE] = int(self.by_type), int(remember), patience
        held = self._held(table, within)
        views = branch.views(branch.T, H, D, N, table, held)
        T, H, D, N, P, HA = views
        live = int(branch.library.purge_entry(T, H, program.words, D, N, branch.buffers, P, HA))
        return live, table[rt.PURGED + 1 : rt.PURGED + 1 + rt.OLD]

    def _held(self, table: Ints, within: int | None) -> Ints:
        """The events of held answers, as `runtime/purge.py` looks for them; and since when these look at others."""
        pairs = self.branch.waiting_rows()
        if not len(pairs):
            return np.zeros(1, np.int64)
        events, ends = pairs[:, 0::2], pairs[:, 1::2]
        place = [self.rules.positions.index(id) for id in self.branch.program.nest]
        held = np.unique(events * len(place) + np.array(place, np.int64))
        if not self.rules.back and not self.rules.before:
            table[rt.P_SINCE] = ends.min()
        else:
            last = ends.max(axis=1).min()
            table[rt.P_SINCE] = -rt.FAR if within is None else last - stretched(within, self.rules.before)
        table[rt.P_HELD] = len(held)
        return held
