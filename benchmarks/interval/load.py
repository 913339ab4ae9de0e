"""What is asked and of which events: chains of endpoints over uniform types, as Li 2010 (5.5) describes them.

A profile `60t-40s` says how many of the endpoints of a chain are terminations and starts; starts stand first. Lengths
are normal, density counts the centres in a window. Times are whole, so that ties are rare.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

TYPES = 20
WINDOW = 30_000  # 30 s in milliseconds
NAMES = [f"T{number}" for number in range(TYPES)]
Chain = tuple[tuple[int, str], ...]  # the endpoints in order: (type, "start" | "end"), each type once


def chain(length: int, terminations: float) -> Chain:
    """The first starts of so many types, then ends of the others."""
    starts = length - round(length * terminations)
    return tuple((type, "start" if type < starts else "end") for type in range(length))


def query(asked: Chain, window: int = WINDOW) -> str:
    """The chain as an ISEQ."""
    points = " < ".join(f"{which}(x{type})" for type, which in asked)
    return f"EVENT ISEQ[{points}]({', '.join(f'{NAMES[type]} x{type}' for type, _ in asked)}) WITHIN {window}"


@dataclass(frozen=True)
class Intervals:
    """A seeded stream of intervals in order of their ends."""

    events: int
    length: float  # the mean length, in windows
    density: int  # centres in a window
    seed: int = 1
    window: int = WINDOW
    kinds: int = TYPES

    @cached_property
    def columns(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Types, starts and ends."""
        random = np.random.default_rng(self.seed)
        apart = self.window / self.density
        centres = np.cumsum(random.normal(apart, apart / 4, self.events).clip(0))
        lengths = random.normal(self.length * self.window, self.length * self.window / 4, self.events).clip(0)
        start = (centres - lengths / 2).astype(np.int64) + self.window
        end = (centres + lengths / 2).astype(np.int64) + self.window
        types = random.integers(0, self.kinds, self.events)
        order = np.argsort(end, kind="stable")
        return types[order], start[order], end[order]

    @property
    def longest(self) -> int:
        """More than any interval lasts: how far behind a start another one inside can lie."""
        _, start, end = self.columns
        return int((end - start).max()) + 1

    def table(self) -> Any:
        """The events as Arrow."""
        import pyarrow as pa

        types, start, end = self.columns
        names = pa.DictionaryArray.from_arrays(pa.array(types, pa.int32()), NAMES[: self.kinds])
        return pa.table({"type": names, "start": start, "end": end, "eid": np.arange(self.events)})
