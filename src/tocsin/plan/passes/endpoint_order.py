"""Pass: comparisons of ends in WHERE become the order of the block, as those of ISEQ and REL are."""

from __future__ import annotations

from dataclasses import replace

from tocsin.plan.block import Block, Order, Plan, Point
from tocsin.plan.endpoints import comparison_edges, graph_of
from tocsin.plan.expr import Bound, Op, Time
from tocsin.plan.fold import FALSE, fold, opened, tested
from tocsin.plan.rewrite import each_block


def endpoint_order(plan: Plan) -> Plan:
    """Write every conjunct that compares ends of two events of one block as order, which gives loops their ranges.

    Before: AND(A a, B b) WHERE a OVERLAPS b, tested: start(a) < start(b), end(a) > start(b), end(a) < end(b)
    After:  the same three as order

    In a negated part they stay conditions: of events that have not come conditions count as satisfiable, and nothing
    more is known of an order than that it is open as long as its types are.
    """
    return each_block(plan, lambda block, around: block if around else _ordered(block))


def _ordered(block: Block) -> Block:
    fixed = [leaf.id for leaf in block.fixed]
    order, kept = list(block.order), list[Bound]()
    for predicate in block.predicates:
        conjuncts = opened(tested(fold(predicate)))
        found = [_compared(conjunct, fixed) for conjunct in conjuncts]
        if not any(found):
            kept.append(predicate)
            continue
        order += [entry for entries in found for entry in entries]
        kept += [conjunct for conjunct, entries in zip(conjuncts, found, strict=True) if not entries]
    if len(order) == len(block.order):
        return block
    graph = graph_of(order, fixed)
    if any(entry.strict and graph.implies(entry.right, entry.left, strict=False) for entry in order):
        return replace(block, predicates=(FALSE,))  # they go in a circle
    return replace(block, order=tuple(order), predicates=tuple(kept))


def _compared(conjunct: Bound, fixed: list[int]) -> list[Order]:
    """A comparison of the ends of two events as order; nothing where it is none, or where an event may be absent."""
    match conjunct:
        case Op("<" | "<=" | "=" | ">" | ">=" as op, (Time(x, mine, None), Time(y, other, None))):
            if x != y and x in fixed and y in fixed:
                edges = comparison_edges(Point(x, mine), op, Point(y, other))
                return [Order(left, right, strict) for left, right, strict in edges]  # type: ignore[arg-type]
    return []
