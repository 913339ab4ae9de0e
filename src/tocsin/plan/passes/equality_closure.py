"""Pass: write down equalities that follow from others."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

from tocsin.plan.block import Block, Plan
from tocsin.plan.closure import Classes
from tocsin.plan.expr import Bound
from tocsin.plan.rewrite import each_block, equal, equality, leaf_of
from tocsin.schema import Kind


def equality_closure(plan: Plan) -> Plan:
    """Add the equalities that a block and the blocks around it imply, so that a loop can test each leaf at once.

    Never outward: what a negated part demands says nothing about the match.

    Before: a.id = b.id, b.id = c.id
    After:  a.id = b.id, b.id = c.id, a.id = c.id
    """
    return each_block(plan, _closed)


def _closed(block: Block, around: tuple[Block, ...]) -> Block:
    own = {leaf.id for leaf in block.leaves}
    repeated = {leaf.id for leaf in block.repeated}
    mine = [pair for predicate in block.predicates if (pair := transitive(predicate)) is not None]
    classes = Classes()
    for outer in around:
        for predicate in outer.predicates:
            if (pair := transitive(predicate)) is not None:
                classes.join(*pair)
    for pair in mine:
        classes.join(*pair)
    # only sides that this block mentions already: a new outer leaf would make its test wait for that leaf
    sides = list(dict.fromkeys(side for pair in mine for side in pair))
    known = {frozenset(pair) for pair in mine}
    added = [
        equal(x, y)
        for x, y in combinations(sides, 2)
        if classes.find(x) == classes.find(y)
        and frozenset((x, y)) not in known
        and leaf_of(x) != leaf_of(y)
        and (leaf_of(x) in own or leaf_of(y) in own)
        and not {leaf_of(x), leaf_of(y)} & repeated
    ]
    return replace(block, predicates=(*block.predicates, *added))


def transitive(predicate: Bound) -> tuple[Bound, Bound] | None:
    """An equality that is transitive with others of its kind: not one between a decimal and a float."""
    pair = equality(predicate)
    if pair is None:
        return None
    kinds = {pair[0].kind, pair[1].kind}
    return None if Kind.DECIMAL in kinds and len(kinds) > 1 else pair
