"""Replay: events that came before are fed again, to rebuild a state; their answers were given when they first came."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Protocol

from tocsin.engine.branch import reads_eids

if TYPE_CHECKING:
    from tocsin.engine.changes import Changes
    from tocsin.engine.detector import Detector
    from tocsin.items import Items


class TakesItems(Protocol):
    """An operator, or the stage of a graph that has one."""

    def push(self, items: Items) -> Changes: ...


def replay(operator: TakesItems, items: Items) -> None:
    """Push items and drop the changes that they bring: nobody else does."""
    operator.push(items)


def replay_events(detector: Detector, items: Items, *, settled: bool = False) -> None:
    """Push events and drop their answers; where that leaves the same state, the kernels do not even look for them.

    `settled`: the clock has passed the windows of all these events, so answers can only wait for guarantees. The ledger
    of hidden justifications must be had from elsewhere: it is not told of answers that nobody looks for.
    """
    with ExitStack() as stack:
        if _can_be_silent(detector, settled=settled):
            if detector.eids is None:
                detector.eids = reads_eids(detector.branches, items)
            for branch in detector.branches:
                stack.enter_context(branch.silenced())
        replay(detector, items)


def _can_be_silent(detector: Detector, *, settled: bool) -> bool:
    """Whether the state does not depend on the search for answers.

    An answer that waits for time to pass, or for guarantees, was not given yet, so it must be found again. In order,
    kernels store an event only if earlier ones fit into its window.
    """
    waits = detector.time.holds or (not settled and any(branch.program.waits for branch in detector.branches))
    return not (detector.ordered or waits)
