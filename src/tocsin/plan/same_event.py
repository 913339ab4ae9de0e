"""What one event is for a query: which rows are copies of it, what copies may differ in, and which rows it sees at all.

A row is *seen* by a query if at least one of its leaves takes it: the conditions that concern this one event alone are
TRUE. What else a row must be to take part in a match is asked of the copy that counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from tocsin.events import ANY
from tocsin.plan.block import Block, Plan
from tocsin.plan.expr import Bound, Col, leaves, walk
from tocsin.plan.facts import reads
from tocsin.plan.fold import fold, never_true, opened, tested
from tocsin.plan.rewrite import all_leaves
from tocsin.plan.typer import only_leaf, whole_set

Taker: TypeAlias = tuple[str, tuple[Bound, ...]]  # the variable of a leaf, and its conditions on one event


def known_by(plan: Plan) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """For each type the attributes that tell its events apart: those of `[attr]`, and those that make the key."""
    key = dict(plan.key)
    found: dict[str, dict[str, None]] = {}
    for leaf in all_leaves(plan):
        for alt in leaf.alts:
            found.setdefault(alt.type, dict.fromkeys(plan.needs)).update(dict.fromkeys(key.get(leaf.id, ())))
    for attrs in found.values():
        attrs.update(found.get(ANY, {}))
    return tuple((type, tuple(sorted(attrs))) for type, attrs in found.items())


def content(plan: Plan) -> frozenset[str] | None:
    """The attributes in which copies can differ: those that the query reads or selects; None: all, it shows them."""
    if not plan.outputs and not plan.hidden:
        return None
    asked = [output.expr for output in plan.outputs]
    if plan.counts is not None:
        asked += plan.counts.asked
    selected = {node.attr for expr in asked for node in walk(expr) if isinstance(node, Col)}
    return frozenset(selected.union(plan.needs, *reads(plan).values()))


def takers(plan: Plan) -> dict[str, list[Taker]]:
    """For each type the leaves that may take its events, those of negated parts included.

    Conditions are opened as the passes do it (AND, and NOT of OR), so it does not matter which of them were on.
    """
    found: dict[str, list[Taker]] = {}
    for block in _possible(plan.alternatives):
        repeated = frozenset(leaf.id for leaf in block.repeated)
        shared = _opened(block.predicates)
        for leaf in block.leaves:
            for alt in leaf.alts:
                own = _opened(alt.where)
                mine = found.setdefault(alt.type, [])
                if any(map(never_true, own)):  # of an attribute that this input lacks, for one
                    continue
                tests = [each for each in own if not leaves(each)]
                tests += [each for each in (*own, *shared) if only_leaf(each) == leaf.id]
                asked = tuple(each for each in tests if not whole_set(each, repeated))
                mine.append((alt.var, asked))
    every = found.pop(ANY, None)
    return found if every is None else {ANY: every, **{type: [*own, *every] for type, own in found.items()}}


def _possible(blocks: Iterable[Block]) -> Iterator[Block]:
    """The blocks that can have a match, outer ones first; a condition on one branch of an OR rules out the others."""
    for block in blocks:
        if not any(map(never_true, _opened(block.predicates))):
            yield block
            yield from _possible(part.block for part in block.forbidden)


def _opened(predicates: Iterable[Bound]) -> list[Bound]:
    return [each for predicate in predicates for each in opened(tested(fold(predicate)))]
