"""Pass: test every predicate as early as possible (predicate push-in: Zhang 2012, 4.1)."""

from __future__ import annotations

from dataclasses import replace

from tocsin.plan.block import Block, Leaf, Plan
from tocsin.plan.expr import Bound
from tocsin.plan.rewrite import each_block
from tocsin.plan.typer import only_leaf, whole_set


def predicate_placement(plan: Plan) -> Plan:
    """Predicates of one leaf go to that leaf; all others are tested as soon as their leaves are bound.

    Before: leaf a: A; predicates a.v > 3, a.id = b.id, tested at the end
    After:  leaf a: A where a.v > 3; predicates a.id = b.id, tested early
    """
    return each_block(plan, lambda block, _: _placed(block))


def _placed(block: Block) -> Block:
    single = {leaf.id for leaf in block.leaves if len(leaf.alts) == 1}
    repeated = frozenset(leaf.id for leaf in block.repeated)
    at: dict[int, list[Bound]] = {}
    rest: list[Bound] = []
    for predicate in block.predicates:
        leaf = only_leaf(predicate)
        if leaf is not None and leaf in single and not whole_set(predicate, repeated):
            at.setdefault(leaf, []).append(predicate)
        else:
            rest.append(predicate)
    leaves = tuple(_with(leaf, tuple(at.get(leaf.id, ()))) for leaf in block.leaves)
    return replace(block, leaves=leaves, predicates=tuple(rest), early=True)


def _with(leaf: Leaf, predicates: tuple[Bound, ...]) -> Leaf:
    if not predicates:
        return leaf
    (alt,) = leaf.alts
    return replace(leaf, alts=(replace(alt, where=(*alt.where, *predicates)),))
