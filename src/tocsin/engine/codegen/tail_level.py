"""Which events of a nest have tails (`codegen/tails`): what the plan says of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tocsin.plan.block import Point
from tocsin.plan.expr import leaves

if TYPE_CHECKING:
    from tocsin.engine.codegen.layout import Layout

MOST_LEVELS = 12  # deeper nests are cut into functions (`codegen/depth`)


def level_of_tails(layout: Layout) -> int:
    """The first level whose events have tails that are worth it, or -1.

    Many events outside must meet the same event: nothing but the window says how long before them it may end.
    """
    root, nest = layout.root, layout.nest
    plain = layout.shape.intervals and layout.within is not None and not layout.changeable and not layout.first_only
    if not plain or len(nest) > MOST_LEVELS or (root.predicates and not root.early):
        return -1
    for level in range(1, len(nest) - 1):
        outer, owner, inner = set(nest[:level]), nest[level], set(nest[level + 1 :])
        if (
            _is_met_by_many(layout, owner, outer)
            and _are_apart(layout, inner, outer)
            and _have_one_key(layout, owner, inner)
        ):
            return level
    return -1


def _is_met_by_many(layout: Layout, owner: int, outer: set[int]) -> bool:
    """Whether no comparison says that an event must end after something of the outer leaves."""
    end = Point(owner, "end")
    return not any(
        layout.root_order.implies(Point(each, which), end, strict=False) for each in outer for which in ("start", "end")
    )


def _are_apart(layout: Layout, inner: set[int], outer: set[int]) -> bool:
    """Whether nothing relates inner leaves to outer ones, but what relates both to the leaf between."""
    root = layout.root
    related = [{order.left.leaf, order.right.leaf} for order in root.order]
    related += [set(leaves(predicate)) for predicate in root.predicates]
    if any(each & inner and each & outer for each in related):
        return False
    return not any(layout.overlap(one, other) for one in inner for other in outer)


def _have_one_key(layout: Layout, owner: int, inner: set[int]) -> bool:
    """Whether the key of an event is that of its tail."""
    return owner in layout.keys or not inner & set(layout.keys)
