"""Replay: events that came before are fed again, to rebuild a state; their answers were given when they first came."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from tocsin.engine.branch import reads_eids

if TYPE_CHECKING:
    from tocsin.engine.detector import Detector
    from tocsin.engine.operator import Operator
    from tocsin.items import Items


def replay(operator: Operator, items: Items) -> None:
    """Push items and drop the changes that they bring."""
    operator.push(items)


def replay_events(detector: Detector, items: Items, *, settled: bool = False) -> None:
    """Push events without looking for their answers, wherever none of these can still wait.

    An answer that waits for time to pass, or for guarantees, has not been given yet, so it must be found again.
    `settled`: the clock has passed the windows of all these events, so answers can only wait for guarantees.
    """
    may_wait = detector.time.holds or (not settled and any(branch.program.waits for branch in detector.branches))
    with ExitStack() as stack:
        if not may_wait:
            if detector.eids is None:
                detector.eids = reads_eids(detector.branches, items)
            for branch in detector.branches:
                stack.enter_context(branch.silenced())
        replay(detector, items)
