"""Pass: say everything once, in one way."""

from __future__ import annotations

from dataclasses import replace

from tocsin.plan.block import After, Before, Block, Plan, Point, Scope
from tocsin.plan.endpoints import Graph, graph_of, reduced
from tocsin.plan.expr import Bound, Op
from tocsin.plan.fold import FALSE, TRUE, fold, never_true, opened, tested
from tocsin.plan.rewrite import each_block


def normalise(plan: Plan) -> Plan:
    """Open nested ANDs, compute constants, drop duplicates and what is implied.

    Before: a.v > 1 + 1, a.v > 2 and a.v < 9; a before b, b before c, a before c
    After:  a.v > 2, a.v < 9; a before b, b before c
    """
    return each_block(plan, lambda block, _: _normal(block))


def _normal(block: Block) -> Block:
    fixed = [leaf.id for leaf in block.fixed]
    order = reduced(block.order, fixed)
    graph = graph_of(order, fixed)
    return replace(
        block,
        leaves=tuple(
            replace(leaf, alts=tuple(replace(alt, where=_distinct(alt.where)) for alt in leaf.alts))
            for leaf in block.leaves
        ),
        order=order,
        predicates=_distinct(block.predicates),
        scopes=tuple((leaf, _shortened(scope, graph, fixed)) for leaf, scope in block.scopes),
        forbidden=tuple(replace(f, scope=_shortened(f.scope, graph, fixed)) for f in block.forbidden),
    )


def _distinct(predicates: tuple[Bound, ...]) -> tuple[Bound, ...]:
    """Folded conjuncts, each once; x = y and y = x are the same."""
    kept: dict[object, Bound] = {}
    for predicate in predicates:
        for conjunct in opened(tested(fold(predicate))):
            if never_true(conjunct):
                return (FALSE,)
            if conjunct != TRUE:
                kept.setdefault(_turned(conjunct), conjunct)
    return tuple(kept.values())


def _turned(conjunct: Bound) -> object:
    """What two ways to write the same comparison have in common."""
    mirror = {"<": ">", "<=": ">="}
    match conjunct:
        case Op("=" | "<>" | "same" as op, args):
            return op, frozenset(args)
        case Op("<" | "<=" as op, (left, right)):
            return mirror[op], right, left
        case Op(">" | ">=" as op, (left, right)):
            return op, left, right
    return conjunct


def _shortened(scope: Scope, graph: Graph, fixed: list[int]) -> Scope:
    """Only the leaves that can be the last, or the first, of an end of a scope."""
    low, high = scope.low, scope.high
    if isinstance(low, After) and len(low.leaves) > 1:
        low = replace(low, leaves=_undominated(low.leaves, graph, fixed, last=True))
    if isinstance(high, Before) and len(high.leaves) > 1:
        high = Before(_undominated(high.leaves, graph, fixed, last=False))
    return Scope(low, high)


def _undominated(leaves: tuple[int, ...], graph: Graph, fixed: list[int], *, last: bool) -> tuple[int, ...]:
    """Drop a fixed leaf where another one certainly ends later (last) or starts earlier (first)."""

    def dominated(leaf: int) -> bool:
        others = [other for other in leaves if other != leaf and other in fixed]
        if last:
            return any(graph.implies(Point(leaf, "end"), Point(other, "end"), strict=True) for other in others)
        return any(graph.implies(Point(other, "start"), Point(leaf, "start"), strict=True) for other in others)

    return tuple(leaf for leaf in leaves if leaf not in fixed or not dominated(leaf))
