"""Walking and rebuilding plans: the few verbs that all passes share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from tocsin.plan.block import Block, Leaf, Plan
from tocsin.plan.expr import Bound, Col, Op
from tocsin.schema import Kind


def each_block(plan: Plan, change: Callable[[Block, tuple[Block, ...]], Block]) -> Plan:
    """Rebuild a plan with `change` applied to every block; it also gets the changed blocks around, outermost first."""
    return replace(plan, alternatives=tuple(_changed(block, (), change) for block in plan.alternatives))


def _changed(block: Block, around: tuple[Block, ...], change: Callable[[Block, tuple[Block, ...]], Block]) -> Block:
    block = change(block, around)
    inner = tuple(replace(f, block=_changed(f.block, (*around, block), change)) for f in block.forbidden)
    return replace(block, forbidden=inner)


def blocks_below(block: Block) -> Iterator[Block]:
    """The block and every forbidden block below it."""
    yield block
    for forbidden in block.forbidden:
        yield from blocks_below(forbidden.block)


def all_blocks(plan: Plan) -> Iterator[Block]:
    for block in plan.alternatives:
        yield from blocks_below(block)


def all_leaves(plan: Plan) -> Iterator[Leaf]:
    for block in all_blocks(plan):
        yield from block.leaves


def with_groups_in_order(root: Block) -> Block:
    """The loops of groups in order of completion: the last leaf, the first one, the others as in the text."""
    parts = []
    for part in root.forbidden:
        block = with_groups_in_order(part.block)
        if part.gathers is not None:
            first, *middle, last = (leaf.id for leaf in block.fixed)
            block = replace(block, nest=(last, first, *middle))
        parts.append(replace(part, block=block))
    return replace(root, forbidden=tuple(parts))


# --- equalities ---------------------------------------------------------------------------------------------------


def attribute(expr: Bound) -> tuple[int, str] | None:
    """(leaf, attribute) if the expression is one attribute of one leaf, over all alternatives of that leaf."""
    match expr:
        case Col(leaf, _, attr):
            return leaf, attr
        case Op("coalesce", args):
            found = {attribute(arg) if isinstance(arg, Col) else None for arg in args}
            return found.pop() if len(found) == 1 else None
    return None


def equality(predicate: Bound) -> tuple[Bound, Bound] | None:
    """The two sides, if the predicate says that attributes of leaves are equal (x.a = x.a says only: not null)."""
    match predicate:
        case Op("=", (left, right)) if left != right and None not in (attribute(left), attribute(right)):
            return left, right
    return None


def leaf_of(side: Bound) -> int:
    """The leaf of one side of an equality."""
    found = attribute(side)
    assert found is not None
    return found[0]


def equal(left: Bound, right: Bound) -> Bound:
    floats = Kind.FLOAT in (left.kind, right.kind)
    return Op("=", (left, right), Kind.BOOL, nullable=floats or left.nullable or right.nullable)
