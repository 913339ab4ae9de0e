"""Repetitions with a mark: what is asked of their members holds for the first and the last one, too.

`EACH B+ b` and its like have fixed leaves for their first or last member (`Taking`). That these are members is judged
with the whole set. What is known of every member is written down for them as well: then the loops bind few others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tocsin.plan.block import Leaf
from tocsin.plan.expr import Agg, Bound, Col, Op, Ref, User, bare_leaves, walk


def of_outer_members(leaves: tuple[Leaf, ...], predicates: tuple[Bound, ...]) -> Iterator[Bound]:
    """The conditions of membership, asked of the leaves that hold a first or a last member."""
    var = {leaf.id: leaf.alts[0].var for leaf in leaves}
    for leaf in leaves:
        if leaf.taking is None:
            continue
        own = [each for each in predicates if bare_leaves(each) >= {leaf.id} and not _asks_sets(each)]
        for member in dict.fromkeys((leaf.taking.head, leaf.taking.last)):
            if member is not None:
                yield from (_moved(each, leaf.id, member, var[member]) for each in own)


def _asks_sets(predicate: Bound) -> bool:
    return any(isinstance(node, Agg) for node in walk(predicate))


def _moved(expr: Bound, leaf: int, to: int, var: str) -> Bound:
    match expr:
        case Col() | Ref() if expr.leaf == leaf:
            return replace(expr, leaf=to, var=var)
        case Op(_, args) | User(_, args):
            return replace(expr, args=tuple(_moved(arg, leaf, to, var) for arg in args))
    return expr
