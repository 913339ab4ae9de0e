"""Which matches were given lately: what readers of a query must see again when a host replays its stored events."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from tocsin.engine.changes import ChangeBatch

Names = npt.NDArray[np.uint64]
FEW = 64  # matches that are not worth a look


class Given:
    """The names of matches that were given and stand, for some ticks behind the frontier.

    reach  for how many ticks; None: for ever; 0: none is remembered
    """

    def __init__(self, reach: int | None) -> None:
        self.reach = reach
        self._ends: dict[tuple[int, int], int] = {}
        self._enough = FEW

    def note(self, changes: Iterable[ChangeBatch], frontier: int) -> None:
        """Remember what was given, and forget what was retracted, or lies too far back."""
        if self.reach == 0:
            return
        for batch in changes:
            for name, op, end in zip(_names(batch), batch.op.tolist(), batch.span[1].tolist(), strict=True):
                if op > 0:
                    self._ends[name] = end
                else:
                    self._ends.pop(name, None)
        if self.reach is not None and len(self._ends) > self._enough:
            self._ends = {name: end for name, end in self._ends.items() if end >= frontier - self.reach}
            self._enough = max(FEW, 2 * len(self._ends))

    def among(self, batch: ChangeBatch) -> ChangeBatch:
        """The changes that concern matches which were given; all changes, if given matches are not remembered."""
        if self.reach == 0:
            return batch
        return batch.pick(np.array([at for at, name in enumerate(_names(batch)) if name in self._ends], np.int64))

    def saved(self) -> Names:
        """All of it as an array: for each match its name, in two words, and its end."""
        rows = [(*name, end & (2**64 - 1)) for name, end in self._ends.items()]
        return np.array(rows, np.uint64).reshape(len(rows), 3)

    def restore(self, saved: Names | None) -> None:
        """Go on with what was saved."""
        rows = [] if saved is None else saved.tolist()
        self._ends = {(high, low): end - 2**64 if end >= 2**63 else end for high, low, end in rows}


def _names(batch: ChangeBatch) -> list[tuple[int, int]]:
    return list(zip(*(lane.tolist() for lane in batch.identity), strict=True))
