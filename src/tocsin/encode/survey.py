"""A look at many numbers in one go, by several threads: the smallest, the largest, and whether they are in order."""

from __future__ import annotations

from functools import partial

import numpy as np

from tocsin.encode.rehearsal import loops_are_worth
from tocsin.encode.thread_team import ALONE, ThreadTeam
from tocsin.items import Ints, is_sorted

MANY = 1 << 16  # numbers that are worth a compiled loop, which may have to be compiled first
AT_ONCE = 1 << 18


class Survey:
    """Looks at arrays, and remembers of the last one whether it is in order."""

    def __init__(self, workers: ThreadTeam = ALONE) -> None:
        self._workers = workers
        self._last: Ints | None = None
        self._ordered = False

    def ends(self, values: Ints) -> tuple[int, int]:
        """The smallest and the largest number; there must be one."""
        if not loops_are_worth(len(values), MANY):
            return int(values.min()), int(values.max())
        from tocsin.encode import loops

        flat = np.ascontiguousarray(values).view()
        flat.flags.writeable = False
        firsts = range(0, len(values), AT_ONCE)
        found = self._workers.all([partial(loops.surveyed, flat[at : at + AT_ONCE]) for at in firsts])
        joints = all(values[at - 1] <= values[at] for at in firsts[1:])
        self._last, self._ordered = values, joints and all(ordered for _, _, ordered in found)
        return int(min(low for low, _, _ in found)), int(max(high for _, high, _ in found))

    def in_order(self, values: Ints) -> bool:
        """Whether no number is smaller than the one before it."""
        return self._ordered if values is self._last else is_sorted(values)
