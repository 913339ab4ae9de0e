"""How much the tests try: the one knob `EXAMPLES`, which every drawing loop and Hypothesis test asks.

    for number in range(examples(2000)): ...     all 2,000 when long, 90 when normal, 40 when quick

`EXAMPLES` is `quick` (`make test-fast`), `normal` (`make test`), `long` (`make test-long`), or a share such as `0.5`.
Tests say the long number. What is left out of the shorter runs is always the end of the same deterministic list, so a
longer run repeats the shorter one and goes on.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import TypeVar

Thing = TypeVar("Thing")

SHARES = {"quick": 0.02, "normal": 0.045, "long": 1.0}


def share(told: str | None = None) -> float:
    """Which part of all examples is tried."""
    told = told or os.environ.get("EXAMPLES") or "normal"
    try:
        found = SHARES[told] if told in SHARES else float(told)
    except ValueError:
        found = 0.0
    if not 0 < found <= 1:
        raise ValueError(f"EXAMPLES={told}: say {', '.join(SHARES)}, or a share above 0 and up to 1")
    return found


def examples(most: int, *, least: int = 1) -> int:
    """How many of `most` examples to try; never fewer than `least`, nor than all if there are fewer."""
    return min(most, max(least, math.ceil(round(most * share(), 6))))


def is_long() -> bool:
    """Whether everything is tried: then kernels are also compiled as users get them."""
    return share() == 1


def some(things: Sequence[Thing], *, least: int = 1) -> list[Thing]:
    """The share of a list that is tried, spread over all of it."""
    count = examples(len(things), least=least)
    return [things[at * len(things) // count] for at in range(count)]


def is_quick() -> bool:
    """Whether less than usual is tried."""
    return share() < SHARES["normal"]
