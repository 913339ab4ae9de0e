"""The network of endpoint comparisons as text: its chains, and bars that show one arrangement which it allows.

Paper: Li 2010, 5.3.1, whose graph of restrictions has an edge for each comparison that no others imply.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tocsin.plan.block import Order, Point
from tocsin.plan.endpoints import graph_of, reduced

STEP = 4  # columns from one moment of the picture to the next


def network(order: Sequence[Order], leaves: Sequence[int], name: Callable[[int], str]) -> Iterator[str]:
    """The least comparisons that say the same, as chains, and a bar for each event; nothing for a plain sequence."""
    least = reduced(order, leaves)
    if all((entry.left.which, entry.right.which) == ("end", "start") and entry.strict for entry in least):
        return
    yield from chains(least, name)
    yield from bars(least, leaves, name)


def chains(order: Sequence[Order], name: Callable[[int], str]) -> Iterator[str]:
    """start(a) < start(b) < end(a): comparisons that follow on each other are written as one."""
    left = [entry for entry in order if not _equal(entry, order) or entry == _first(entry, order)]
    while left:
        entry = next((one for one in left if not any(_joins(other, one) for other in left)), left[0])
        text = f"{entry.left.which}({name(entry.left.leaf)})"
        following: Order | None = entry
        while following is not None:
            left.remove(following)
            sign = "=" if _equal(following, order) else "<" if following.strict else "<="
            text += f" {sign} {following.right.which}({name(following.right.leaf)})"
            last = following
            following = next((one for one in left if _joins(last, one)), None)
        yield text


def _joins(one: Order, other: Order) -> bool:
    return one.right == other.left


def _equal(entry: Order, order: Sequence[Order]) -> bool:
    """Whether the comparison in the other direction stands there, too: the two ends are equal."""
    return any((other.left, other.right) == (entry.right, entry.left) for other in order)


def _first(entry: Order, order: Sequence[Order]) -> Order:
    return next(other for other in order if {other.left, other.right} == {entry.left, entry.right})


def bars(order: Sequence[Order], leaves: Sequence[int], name: Callable[[int], str]) -> Iterator[str]:
    """One line for each event, from its start to its end: an arrangement that the comparisons allow."""
    at = _moments(order, leaves)
    width = max(len(name(leaf)) for leaf in leaves)
    for leaf in leaves:
        begin, end = (STEP * at[Point(leaf, which)] for which in ("start", "end"))
        bar = "|" if begin == end else f"|{'-' * (end - begin - 1)}|"
        yield f"{name(leaf):<{width}}  {' ' * begin}{bar}"


def _moments(order: Sequence[Order], leaves: Sequence[int]) -> dict[Point, int]:
    """For each end the least moment that leaves every strict comparison room; an event is as long as it may be."""
    graph = graph_of(order, leaves)
    points = [Point(leaf, which) for leaf in leaves for which in ("start", "end")]
    at = dict.fromkeys(points, 0)
    for _ in points:  # longest paths: no more rounds than there are points
        for left in points:
            for right, strict in graph.reach(left).items():
                assert isinstance(right, Point)
                wide = strict or (left.leaf == right.leaf and left != right and not graph.implies(right, left, False))
                at[right] = max(at[right], at[left] + wide)
    return at
