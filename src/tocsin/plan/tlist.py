"""Endpoint comparisons: their closure, their contradictions, and the Allen relations as comparisons.

In the graph of comparisons nodes are ends of leaves and edges are `<` and `<=`; start <= end of every leaf is implied.

Paper: Li 2010, 5.3.1, where a list of comparisons is a TList.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import product
from typing import TypeAlias

from tocsin.plan.block import Order, Point

Edge: TypeAlias = tuple[object, object, bool]  # left, right, strict

# --- closure -----------------------------------------------------------------------------------------------------


class Graph:
    """Ends of events and the comparisons between them."""

    def __init__(self, edges: Iterable[Edge] = ()) -> None:
        self._follows: dict[object, list[tuple[object, bool]]] = {}
        for edge in edges:
            self.add(edge)

    def add(self, edge: Edge) -> None:
        left, right, strict = edge
        self._follows.setdefault(left, []).append((right, strict))

    def drop(self, edge: Edge) -> None:
        left, right, strict = edge
        self._follows[left].remove((right, strict))

    def reach(self, start: object) -> dict[object, bool]:
        """Everything at or after `start`; True where it is strictly after."""
        found = {start: False}
        queue = deque([(start, False)])
        while queue:
            node, sharp = queue.popleft()
            for target, edge_sharp in self._follows.get(node, ()):
                strict = sharp or edge_sharp
                if target not in found or (strict and not found[target]):
                    found[target] = strict
                    queue.append((target, strict))
        return found

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


# --- Allen relations ---------------------------------------------------------------------------------------------
# (end of e, comparison, end of f); the table of Li 2010 with `before` and `after` corrected (docs/semantics.md, 7).

Condition: TypeAlias = tuple[str, str, str]

RELATIONS: dict[str, tuple[Condition, ...]] = {
    "before": (("end", "<", "start"),),
    "after": (("start", ">", "end"),),
    "during": (("start", ">", "start"), ("end", "<", "end")),
    "contain": (("start", "<", "start"), ("end", ">", "end")),
    "meet": (("end", "=", "start"),),
    "met by": (("start", "=", "end"),),
    "overlap": (("start", "<", "start"), ("end", ">", "start"), ("end", "<", "end")),
    "overlapped by": (("start", ">", "start"), ("start", "<", "end"), ("end", ">", "end")),
    "start": (("start", "=", "start"), ("end", "<", "end")),
    "started by": (("start", "=", "start"), ("end", ">", "end")),
    "finish": (("start", ">", "start"), ("end", "=", "end")),
    "finished by": (("start", "<", "start"), ("end", "=", "end")),
    "equal": (("start", "=", "start"), ("end", "=", "end")),
}

_TESTS = {
    "<": lambda x, y: x < y,
    "<=": lambda x, y: x <= y,
    "=": lambda x, y: x == y,
    ">": lambda x, y: x > y,
    ">=": lambda x, y: x >= y,
}
# every arrangement of two intervals, zero lengths included: four ends need no more than four different values
_ARRANGEMENTS = [
    ({"start": es, "end": ee}, {"start": fs, "end": fe})
    for es, ee, fs, fe in product(range(4), repeat=4)
    if es <= ee and fs <= fe
]


def _holds(conditions: Iterable[Condition], pair: tuple[dict[str, int], dict[str, int]]) -> bool:
    return all(_TESTS[op](pair[0][left], pair[1][right]) for left, op, right in conditions)


def conjunction(relations: Sequence[str]) -> tuple[Condition, ...] | None:
    """The comparisons that say the same as the disjunction of the relations; None if no conjunction does.

    Zero-length intervals count too: a point that meets an interval does not start before it.

    >>> conjunction(["before", "meet"])
    (('end', '<=', 'start'),)
    >>> conjunction(["before", "after"]) is None
    True
    """
    if len(relations) == 1:
        return RELATIONS[relations[0]]
    wanted = [any(_holds(RELATIONS[name], pair) for name in relations) for pair in _ARRANGEMENTS]
    inside = [pair for pair, inside in zip(_ARRANGEMENTS, wanted, strict=True) if inside]
    ends = ("start", "end")
    # the sharpest comparison of each two ends that every wanted arrangement keeps
    kept = []
    for left, right in product(ends, ends):
        sharpest = next(
            (op for op in "= < > <= >=".split() if all(_holds([(left, op, right)], p) for p in inside)), None
        )
        if sharpest:
            kept.append((left, sharpest, right))
    if [_holds(kept, pair) for pair in _ARRANGEMENTS] != wanted:
        return None
    for condition in reversed(tuple(kept)):
        fewer = [other for other in kept if other != condition]
        if [_holds(fewer, pair) for pair in _ARRANGEMENTS] == wanted:
            kept = fewer
    return tuple(kept)
