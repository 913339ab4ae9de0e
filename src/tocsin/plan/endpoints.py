"""Endpoint comparisons: what the order of a block implies about the starts and ends of its events.

Nodes are ends of leaves (`Point`), edges are `<` and `<=`; start <= end of every leaf is implied. This is the one
closure: the checks of the binder, the passes, the code generator and the purge rules all ask it.

Paper: Li 2010, 5.3.1, where a list of comparisons is a TList.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TypeAlias

from tocsin.plan.block import Block, Order, Point

Edge: TypeAlias = tuple[object, object, bool]  # left, right, strict


class Graph:
    """Ends of events and the comparisons between them."""

    def __init__(self, edges: Iterable[Edge] = ()) -> None:
        self._follows: dict[object, list[tuple[object, bool]]] = {}
        self._reached: dict[object, dict[object, bool]] = {}  # what was asked since the last change
        for edge in edges:
            self.add(edge)

    def add(self, edge: Edge) -> None:
        left, right, strict = edge
        self._follows.setdefault(left, []).append((right, strict))
        self._reached.clear()

    def drop(self, edge: Edge) -> None:
        left, right, strict = edge
        self._follows[left].remove((right, strict))
        self._reached.clear()

    def reach(self, start: object) -> dict[object, bool]:
        """Everything at or after `start`; True where it is strictly after."""
        if start in self._reached:
            return self._reached[start]
        found = self._reached[start] = {start: False}
        queue = deque([(start, False)])
        while queue:
            node, sharp = queue.popleft()
            for target, edge_sharp in self._follows.get(node, ()):
                strict = sharp or edge_sharp
                if target not in found or (strict and not found[target]):
                    found[target] = strict
                    queue.append((target, strict))
        return found

    def path(self, start: object, goal: object, *, strict: bool) -> list[tuple[object, bool]]:
        """A shortest way from start to goal that says left < right (strict), or at least left <= right.

        Each node comes with whether the step to it is strict. There must be such a way.
        """
        queue: deque[tuple[object, bool, list[tuple[object, bool]]]] = deque([(start, False, [(start, False)])])
        seen = set[tuple[object, bool]]()
        while True:
            node, sharp, way = queue.popleft()
            if node == goal and len(way) > 1 and (sharp or not strict):
                return way
            for target, edge_sharp in self._follows.get(node, ()):
                if (target, sharp or edge_sharp) not in seen:
                    seen.add((target, sharp or edge_sharp))
                    queue.append((target, sharp or edge_sharp, [*way, (target, edge_sharp)]))

    def closure(self) -> dict[tuple[object, object], bool]:
        """Every two different nodes of which one is at or after the other; True where it is strictly after."""
        return {
            (left, right): strict
            for left in self._follows
            for right, strict in self.reach(left).items()
            if right != left
        }

    def implies(self, left: object, right: object, strict: bool) -> bool:
        """Do the comparisons imply left < right (strict) or left <= right?"""
        found = self.reach(left)
        return right in found and (found[right] or not strict)


def graph_of(order: Iterable[Order], leaves: Iterable[int]) -> Graph:
    """The order of a block, with start <= end of every leaf."""
    return Graph(edges_of(order) + spans(leaves))


def spans(leaves: Iterable[int]) -> list[Edge]:
    """start <= end of every leaf."""
    return [(Point(leaf, "start"), Point(leaf, "end"), False) for leaf in leaves]


def edges_of(order: Iterable[Order]) -> list[Edge]:
    return [(entry.left, entry.right, entry.strict) for entry in order]


def reduced(order: Sequence[Order], leaves: Sequence[int]) -> tuple[Order, ...]:
    """The order without entries that the others imply, later ones dropped first."""
    kept = dict.fromkeys(order)
    graph = graph_of(kept, leaves)
    for entry in reversed(tuple(kept)):
        (edge,) = edges_of([entry])
        graph.drop(edge)
        if graph.implies(*edge):
            del kept[entry]
        else:
            graph.add(edge)
    return tuple(kept)


def comparison_edges(left: object, op: str, right: object) -> list[Edge]:
    """One comparison as edges; `=` is two of them."""
    match op:
        case "<" | "<=":
            return [(left, right, op == "<")]
        case ">" | ">=":
            return [(right, left, op == ">")]
    return [(left, right, False), (right, left, False)]


def strictly_ordered(block: Block, *, before: bool = False) -> frozenset[tuple[int, int]]:
    """Pairs of leaves that a strict order keeps apart; with `before`, pairs where one ends before the other starts."""
    return _strictly_ordered(block.order, tuple(leaf.id for leaf in block.fixed), before)


@lru_cache(maxsize=64)  # the code generator asks for every leaf of a block
def _strictly_ordered(order: tuple[Order, ...], fixed: tuple[int, ...], before: bool) -> frozenset[tuple[int, int]]:
    kinds = {("end", "start")} if before else {("end", "start"), ("start", "start"), ("end", "end")}
    return frozenset(
        (left.leaf, right.leaf)
        for (left, right), strict in graph_of(order, fixed).closure().items()
        if isinstance(left, Point) and isinstance(right, Point)
        if strict and left.leaf != right.leaf and (left.which, right.which) in kinds
    )
