"""Pass: choose the order of the loops."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TypeAlias

from tocsin.plan.block import Block, Order, Plan, Point
from tocsin.plan.closure import Classes
from tocsin.plan.endpoints import Graph, edges_of, graph_of, spans
from tocsin.plan.expr import Bound, leaves
from tocsin.plan.facts import last_leaves, one_for_first
from tocsin.plan.passes.equality_closure import transitive
from tocsin.plan.rewrite import each_block, equality, leaf_of

# for each leaf the predicates that mention it: all leaves of the predicate, and whether it relates two by equality
Tests: TypeAlias = dict[int, list[tuple[frozenset[int], bool]]]


def leaf_order(plan: Plan) -> Plan:
    """Bind first a leaf that can be last, then always the leaf that the bound ones constrain most.

    Where SKIP keeps one match at most for each first event, that is bound second, and the others in their order.

    Where a loop skips a leaf, the order that follows through it is written down, so that each loop has its bounds;
    equalities that others imply by then are dropped.

    Before: SEQ(A a, B b, C c) with a.id = c.id, nest a b c
    After:  nest c a b, and a before c
    """
    keyed, chain = {leaf for leaf, _ in plan.key}, one_for_first(plan)

    def ordered(block: Block, around: tuple[Block, ...]) -> Block:
        if chain is None or around:
            return _ordered(block, around, keyed)
        return _with_nest(block, [chain[-1], *chain[:-1]])

    return each_block(plan, ordered)


def _ordered(block: Block, around: tuple[Block, ...], keyed: set[int]) -> Block:
    fixed = [leaf.id for leaf in block.fixed]
    bound = {leaf.id for outer in around for leaf in outer.leaves}
    nest: list[int] = []
    tests = _tests(block)
    while len(nest) < len(fixed):
        left = [id for id in fixed if id not in nest]
        if not nest and not around:
            last = last_leaves(block)
            left = [id for id in left if id in last] or left
            nest.append(left[-1])  # the latest in the text
            continue
        known = bound | set(nest)
        pulls = {id: (*_pull(block, tests, id, known, keyed), _nearness(id, nest, fixed)) for id in left}
        nest.append(max(left, key=pulls.__getitem__))
    return _with_nest(block, nest)


def _with_nest(block: Block, nest: list[int]) -> Block:
    return replace(block, nest=tuple(nest), order=_completed(block, nest), predicates=_needed(block, nest))


def _pull(block: Block, tests: Tests, id: int, known: set[int], keyed: set[int]) -> tuple[int, int, int, int]:
    """How much the bound leaves say about a leaf: equalities, both ends of time, one end, other predicates."""
    ready = [equal for mentioned, equal in tests.get(id, ()) if mentioned <= known | {id}]
    below = any(order.right.leaf == id and order.left.leaf in known for order in block.order)
    above = any(order.left.leaf == id and order.right.leaf in known for order in block.order)
    return sum(ready) + (id in keyed), int(below and above), int(below or above), len(ready)


def _tests(block: Block) -> Tests:
    found: Tests = {}
    for predicate in block.predicates:
        mentioned = leaves(predicate)
        pair = equality(predicate)
        for id in mentioned:
            relates = pair is not None and leaf_of(pair[0]) != leaf_of(pair[1])
            found.setdefault(id, []).append((mentioned, relates))
    return found


def _nearness(id: int, nest: list[int], fixed: list[int]) -> int:
    """Text neighbours of the last bound leaf first; without one, the order of the text."""
    at = fixed.index(nest[-1]) if nest else -1
    return -abs(fixed.index(id) - at)


def _completed(block: Block, nest: list[int]) -> tuple[Order, ...]:
    """The order, with what follows from it between leaves that are bound while the leaf between them is not."""
    order = list(block.order)
    full = graph_of(block.order, nest)
    after = {Point(id, which): full.reach(Point(id, which)) for id in nest for which in ("start", "end")}
    here = Graph()
    for depth, id in enumerate(nest):
        others = nest[:depth]
        entries = [o for o in block.order if id in (o.left.leaf, o.right.leaf) and _ends(o) <= {id, *others}]
        for edge in (*spans([id]), *edges_of(entries)):
            here.add(edge)
        # the sharpest first: end before start says all that the other three would say
        for (x, y), left_end, right_end in product(
            [*((other, id) for other in others), *((id, other) for other in others)], ("end", "start"), ("start", "end")
        ):
            left, right = Point(x, left_end), Point(y, right_end)
            if right in after[left] and not here.implies(left, right, after[left][right]):
                order.append(Order(left, right, after[left][right]))
                here.add((left, right, after[left][right]))
    return tuple(order)


def _ends(order: Order) -> set[int]:
    return {order.left.leaf, order.right.leaf}


def _needed(block: Block, nest: list[int]) -> tuple[Bound, ...]:
    """The predicates without equalities that follow from others which are tested no later."""
    depth = {id: number for number, id in enumerate(nest)}
    repeated = {leaf.id for leaf in block.repeated}
    equalities = []
    for predicate in block.predicates:
        pair = transitive(predicate)
        if pair is not None and not {leaf_of(side) for side in pair} & repeated:
            equalities.append((max(depth.get(leaf_of(side), -1) for side in pair), predicate, pair))
    classes, implied_ones = Classes(), set()
    for _, predicate, (left, right) in sorted(equalities, key=lambda entry: entry[0]):
        if classes.find(left) == classes.find(right):
            implied_ones.add(predicate)
        classes.join(left, right)
    return tuple(predicate for predicate in block.predicates if predicate not in implied_ones)
