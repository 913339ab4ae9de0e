"""Counting without enumerating: the queries whose matches can be counted by a recurrence over prefixes.

The recurrence (Gu et al. 2011, Eq. 2, with the strict order that its text means): an event of step m ends as many
prefixes as there are of step m - 1 before it. So a query is carried if its steps are ordered one behind the other, and
whatever else it asks is of one event, or a key that all steps share.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tocsin.plan.block import Block, Leaf, Plan
from tocsin.plan.expr import Bound, Col, leaves
from tocsin.plan.typer import only_leaf
from tocsin.schema import Kind


@dataclass(frozen=True, slots=True)
class PrefixChain:
    """A query that the recurrence carries.

    steps   for each step its event type, its variable and the conditions on its event
    key     the attributes that tell the keys apart, the same for all steps
    groups  for each value of GROUP BY the place of its attribute in the key
    asked   for each aggregate the step whose event it asks; None: the match itself
    """

    steps: tuple[tuple[str, str, tuple[Bound, ...]], ...]
    key: tuple[str, ...]
    within: int | None
    groups: tuple[int, ...]
    asked: tuple[int | None, ...]


def prefix_chain(plan: Plan) -> PrefixChain | str:
    """The chain of a query that counts, or why each of its matches must be found."""
    return next(_obstacles(plan), None) or _chain(plan)


def why_not_counted(plan: Plan) -> str:
    """Why each match of a query must be found to be counted."""
    found = prefix_chain(plan)
    return found if isinstance(found, str) else "the strategy corrects its answers"


def _obstacles(plan: Plan) -> Iterator[str]:
    after, block = plan.after, plan.alternatives[0]
    if after is None or after.count is None:
        yield "the query does not count"
        return
    if plan.consume is not None:
        yield "CONSUME uses events up"
    if after.skip or after.distinct or after.limit:
        yield "a clause chooses among the matches"
    if len(plan.alternatives) > 1 or any(len(leaf.alts) > 1 for leaf in block.leaves):
        yield "it has branches"
    if block.forbidden:
        yield "it has an absence or a mark"
    if block.repeated:
        yield "it has a repetition"
    if any(variable.hidden for variable in plan.variables):
        yield "EXISTS hides events, so that several of them make one match"
    if plan.schema.intervals:
        yield "events may be intervals"
    if in_sequence(block) is None:
        yield "its steps are not ordered one behind the other"
    yield from _key_obstacles(plan, block)
    names = {id: leaf.alts[0].var for id, leaf in ((leaf.id, leaf) for leaf in block.leaves)}
    for predicate in block.predicates:
        if only_leaf(predicate) is None:
            related = " and ".join(names.get(id, "?") for id in sorted(leaves(predicate)))
            yield f"a condition relates {related}" if related else "a condition asks no event"
    yield from _count_obstacles(plan)


def _key_obstacles(plan: Plan, block: Block) -> Iterator[str]:
    attrs = {dict(plan.key).get(leaf.id, ()) for leaf in block.leaves}
    if len(attrs) > 1:
        yield "its steps have keys of different names"
        return
    key = next(iter(attrs))
    if set(plan.needs) - set(key):
        yield "an attribute of [...] keeps no events apart"
    for attr in key:
        kinds = {field.kind for leaf in block.leaves if (field := plan.schema.field(leaf.alts[0].type, attr))}
        if Kind.DECIMAL in kinds:
            yield f"{attr} is a decimal"


def _count_obstacles(plan: Plan) -> Iterator[str]:
    count = plan.counts
    assert count is not None
    key = _key(plan)
    for group in count.by:
        if not all(isinstance(expr, Col) and expr.attr in key for expr in group):
            yield "GROUP BY has a value that is no attribute of the key"
    for total in count.totals:
        if total.arg is not None and len(leaves(total.arg)) != 1:
            yield f"{total.function} asks several events at once, or none"
        elif total.function in ("min", "max") and total.kind not in (Kind.INT, Kind.FLOAT, Kind.TIME, Kind.DECIMAL):
            yield f"{total.function} is over {total.kind}"
        elif total.function in ("min", "max") and plan.within is not None:
            yield f"{total.function} cannot be taken back when the window moves on"


def _key(plan: Plan) -> tuple[str, ...]:
    return dict(plan.key).get(plan.alternatives[0].leaves[0].id, ())


def _chain(plan: Plan) -> PrefixChain:
    block, count, key = plan.alternatives[0], plan.counts, _key(plan)
    ordered = in_sequence(block)
    assert ordered is not None
    assert count is not None
    steps = []
    for leaf in ordered:
        alt = leaf.alts[0]
        shared = tuple(each for each in block.predicates if only_leaf(each) == leaf.id)
        steps.append((alt.type, alt.var, (*alt.where, *shared)))
    places = {var: at for at, (_, var, _) in enumerate(steps)}
    asked = [
        None if total.arg is None else places[plan.variables[min(leaves(total.arg))].name] for total in count.totals
    ]
    groups = [key.index(expr.attr) for group in count.by for expr in group[:1] if isinstance(expr, Col)]
    return PrefixChain(tuple(steps), key, plan.within, tuple(groups), tuple(asked))


def in_sequence(block: Block) -> list[Leaf] | None:
    """The steps of a block one behind the other; None if they are not all ordered."""
    behind: dict[int, set[int]] = {leaf.id: set() for leaf in block.leaves}
    for each in block.order:
        if (each.left.which, each.right.which, each.strict) != ("end", "start", True):
            return None
        behind[each.right.leaf].add(each.left.leaf)
    found: list[Leaf] = []
    while len(found) < len(block.leaves):
        done = {leaf.id for leaf in found}
        ready = [leaf for leaf in block.leaves if leaf.id not in done and behind[leaf.id] <= done]
        if len(ready) != 1 or (found and found[-1].id not in behind[ready[0].id]):
            return None
        found.append(ready[0])
    return found
