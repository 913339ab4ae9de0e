"""Rewrites of plans: plain functions in one list, each can be switched off by its name."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeAlias

from tocsin.errors import TocsinError
from tocsin.plan.block import Plan
from tocsin.plan.passes.equality_closure import equality_closure
from tocsin.plan.passes.leaf_order import leaf_order
from tocsin.plan.passes.normalise import normalise
from tocsin.plan.passes.partition_keys import partition_keys
from tocsin.plan.passes.predicate_placement import predicate_placement
from tocsin.plan.problems import suggestion

Pass: TypeAlias = Callable[[Plan], Plan]

# constants and duplicates first; equalities before the key that is made of them; the loops when all else is settled
PASSES: tuple[Pass, ...] = (normalise, equality_closure, predicate_placement, partition_keys, leaf_order)


def optimize(plan: Plan, off: Collection[str] = frozenset()) -> Plan:
    """The plan after every pass whose name is not in `off`; the answers stay the same."""
    names = [step.__name__ for step in PASSES]
    for name in off:
        if name not in names:
            raise TocsinError(f"there is no pass {name}", hint=suggestion(name, names) or ", ".join(names))
    for step in PASSES:
        if step.__name__ not in off:
            plan = step(plan)
    return plan
