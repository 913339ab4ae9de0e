"""Rewrites of plans: plain functions in one list, which all go through one door, `optimize`.

There each pass has its name, can be switched off, is timed, and (where `checks` is on, as in tests) its plan is
verified before the next one sees it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TypeAlias

from tocsin.errors import TocsinError
from tocsin.plan.block import Plan
from tocsin.plan.passes.endpoint_order import endpoint_order
from tocsin.plan.passes.equality_closure import equality_closure
from tocsin.plan.passes.leaf_order import leaf_order
from tocsin.plan.passes.normalise import normalise
from tocsin.plan.passes.partition_keys import partition_keys
from tocsin.plan.passes.predicate_placement import predicate_placement
from tocsin.plan.problems import suggestion
from tocsin.plan.same_event import known_by
from tocsin.plan.verify import verify

Pass: TypeAlias = Callable[[Plan], Plan]

# order first, so that what it implies is dropped; constants and duplicates; equalities before the key that is made of
# them; the loops when all else is settled
PASSES: tuple[Pass, ...] = (
    endpoint_order, normalise, equality_closure, predicate_placement, partition_keys, leaf_order,
)  # fmt: skip

checks = ContextVar("checks", default=False)  # whether the plan is verified before the first and after each pass


@dataclass(frozen=True, slots=True)
class Timing:
    """How long a pass took, and whether it changed the plan."""

    name: str
    seconds: float
    changed: bool


def optimize(
    plan: Plan,
    off: Collection[str] = frozenset(),
    *,
    passes: tuple[Pass, ...] = PASSES,
    timings: list[Timing] | None = None,
) -> Plan:
    """The plan after every pass whose name is not in `off`; the answers stay the same.

    What each pass took is added to `timings`; `explain` shows it.
    """
    names = [step.__name__ for step in passes]
    for name in off:
        if name not in names:
            raise TocsinError(f"there is no pass {name}", hint=suggestion(name, names) or ", ".join(names))
    if checks.get():
        verify(plan, "binding")
    bound = plan
    for step in passes:
        if step.__name__ in off:
            continue
        begin = perf_counter()
        after = step(plan)
        took = perf_counter() - begin
        if timings is not None:
            timings.append(Timing(step.__name__, took, after != plan))
        if checks.get():
            verify(after, step.__name__)
        plan = after
    # what one event is may not depend on the passes that are on: the key that all of them together find tells it
    return replace(plan, known_by=known_by(plan) if not off else optimize(bound).known_by)


@contextmanager
def checked() -> Iterator[None]:
    """Verify every plan that is optimised inside."""
    token = checks.set(True)
    try:
        yield
    finally:
        checks.reset(token)
