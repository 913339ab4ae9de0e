"""Is a plan well formed? What every pass must leave true; tests ask after each of them (`passes.checks`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tocsin.plan.block import (
    After,
    Before,
    Block,
    Enclosing,
    From,
    Lasting,
    Leading,
    Leaf,
    Plan,
    Scope,
    Until,
    WindowHigh,
    WindowLow,
)
from tocsin.plan.endpoints import graph_of
from tocsin.plan.expr import Agg, Bound, Col, leaves, walk
from tocsin.plan.rewrite import all_leaves


class BrokenPlanError(AssertionError):
    """A pass has made a plan that means nothing."""


def verify(plan: Plan, made_by: str) -> None:
    """Raise a BrokenPlanError that says what is wrong with a plan, and who made it."""
    wrong = list(faults(plan))
    if wrong:
        raise BrokenPlanError(f"after {made_by}: " + "; ".join(wrong))


def faults(plan: Plan) -> Iterator[str]:
    """Everything that is wrong with a plan."""
    for id, count in Counter(leaf.id for leaf in all_leaves(plan)).items():
        if count > 1:
            yield f"{count} leaves have the id {id}"
    names = {variable.name for variable in plan.variables}
    for block in plan.alternatives:
        for leaf in block.leaves:
            yield from (f"leaf {leaf.id} binds no variable {a.var}" for a in leaf.alts if a.var not in names)
        yield from _block_faults(block, {})
    yield from _key_faults(plan)
    for output in plan.outputs:
        if any(not 0 <= index < len(plan.variables) for index in leaves(output.expr)):
            yield f"{output.name} selects from an unknown variable"
    for expr in () if plan.after is None else plan.after.expressions:
        if any(not 0 <= index < len(plan.variables) for index in leaves(expr)):
            yield "a clause after a match asks an unknown variable"


def _block_faults(block: Block, around: dict[int, Leaf]) -> Iterator[str]:
    """`around`: the leaves of the blocks around it, which it may mention."""
    own = {leaf.id: leaf for leaf in block.leaves}
    visible = around | own
    for leaf in block.leaves:
        yield from _leaf_faults(leaf)
    for predicate in block.predicates:
        yield from _predicate_faults(predicate, visible)
    yield from _order_faults(block)
    if block.nest and sorted(block.nest) != sorted(leaf.id for leaf in block.fixed):
        yield f"the nest {block.nest} is not made of the fixed leaves"
    if sorted(id for id, _ in block.scopes) != sorted(leaf.id for leaf in block.repeated):
        yield "not every repetition has one scope"
    for id, scope in block.scopes:
        yield from _scope_faults(scope, set(own) - {id}, is_root=not around)
    for part in block.forbidden:
        yield from _scope_faults(part.scope, set(own), is_root=not around)
        yield from _block_faults(part.block, visible)


def _leaf_faults(leaf: Leaf) -> Iterator[str]:
    if not leaf.alts:
        yield f"leaf {leaf.id} can hold nothing"
    if len({alt.type for alt in leaf.alts}) < len(leaf.alts):
        yield f"leaf {leaf.id} has one type twice"
    for alt in leaf.alts:
        for where in alt.where:
            strangers = leaves(where) - {leaf.id}
            if strangers:
                yield f"a condition of leaf {leaf.id} mentions {sorted(strangers)}"
            if any(isinstance(node, Col) and node.var != alt.var for node in walk(where)):
                yield f"a condition of {alt.var} mentions another variable"


def _predicate_faults(predicate: Bound, visible: dict[int, Leaf]) -> Iterator[str]:
    strangers = leaves(predicate) - set(visible)
    if strangers:
        yield f"a predicate mentions leaves {sorted(strangers)}, which it cannot see"
    for node in walk(predicate):
        if isinstance(node, Col) and node.leaf in visible:
            if node.var not in {alt.var for alt in visible[node.leaf].alts}:
                yield f"leaf {node.leaf} is never called {node.var}"
        elif isinstance(node, Agg) and node.leaf in visible and visible[node.leaf].repeat is None:
            yield f"an aggregate over leaf {node.leaf}, which is no repetition"


def _order_faults(block: Block) -> Iterator[str]:
    fixed = [leaf.id for leaf in block.fixed]
    for order in block.order:
        if not {order.left.leaf, order.right.leaf} <= set(fixed):
            yield f"the order {order} is not between fixed leaves of its block"
    graph = graph_of(block.order, fixed)
    for order in block.order:
        if order.strict and graph.implies(order.right, order.left, strict=False):
            yield f"the order of leaves {order.left.leaf} and {order.right.leaf} goes in a circle"


def _scope_faults(scope: Scope, parent: set[int], *, is_root: bool) -> Iterator[str]:
    """`parent`: the leaves that the ends of a scope may refer to."""
    for end in (scope.low, scope.high):
        if isinstance(end, After | Before | Lasting | Leading) and not set(end.leaves) <= parent:
            yield f"a scope ends at leaves {sorted(set(end.leaves) - parent)}, which are not in its block"
        if isinstance(end, From | Until) and end.leaf not in parent:
            yield f"a scope ends at leaf {end.leaf}, which is not in its block"
        if isinstance(end, Enclosing) and is_root:
            yield "a scope of the root refers to one around it"
    if isinstance(scope.low, Before | Lasting | WindowHigh) or isinstance(scope.high, After | Leading | WindowLow):
        yield "a scope begins where it should end"


def _key_faults(plan: Plan) -> Iterator[str]:
    known = {leaf.id: leaf for leaf in all_leaves(plan)}
    if len({len(attrs) for _, attrs in plan.key}) > 1:
        yield "the key has not as many attributes at every leaf"
    for id, attrs in plan.key:
        if id not in known:
            yield f"the key mentions leaf {id}, which is not there"
            continue
        for alt in known[id].alts:
            yield from (f"{alt.type} has no {a} for the key" for a in attrs if plan.schema.field(alt.type, a) is None)
