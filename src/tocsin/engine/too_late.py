"""What is too late, said once: an event that ends more than the slack behind the clock at which it comes.

Whoever judges an event, or says up to when none comes any more, asks here. Kernels judge one event at a time and call
nobody, so the rule stands in their source as text (`EARLIEST`). A shard of a stream on Spark judges by what was
guaranteed before the micro-batch, because within one nobody knows the order of arrival: see `shards/shard`.
"""

from __future__ import annotations

from typing import TypeVar

from tocsin.engine.runtime.words import UNLIMITED
from tocsin.events import BEGINNING
from tocsin.items import Bools, Ints, clock_before

Clock = TypeVar("Clock", int, Ints)

EARLIEST = "clock - slack"  # `earliest` as kernels say it


def earliest(clock: Clock, slack: int) -> Clock:
    """What ends before this is too late."""
    return clock - slack


def too_late(clock: int, slack: int, ends: Ints) -> Bools:
    """Which events of a batch, in order of arrival, end more than `slack` before the clock at which they come."""
    late: Bools = ends < earliest(clock_before(clock, ends), slack)
    return late


def passed(clock: int, slack: int | None) -> int:
    """No event that is in time ends at or before this; BEGINNING where nobody knows how late events come."""
    return BEGINNING if slack is None or slack >= UNLIMITED else max(BEGINNING, earliest(clock, slack) - 1)
