"""Give eids to rows that came without: a hash of the content, and a number among equal rows.

A detector gives the same eids to its own rows. They are made here where matches, which have eids, stand beside rows
that have none.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tocsin.encode.content import auto_eids, content_hash, occurrences
from tocsin.items import Ints, Items

FEW = 1024  # remembered rows that are not worth a look


class AutoEids:
    """Gives eids, and remembers the rows that an equal row may still follow.

    Equal rows end at the same time, so a row is forgotten once it is guaranteed that no more end then. What is
    remembered lies in sorted runs; a new run is merged with older ones that are not larger, so there are never many.
    """

    def __init__(self) -> None:
        self._runs: list[tuple[Ints, Ints]] = []  # (hashes in order, ends)
        self._enough = FEW  # so many are worth forgetting

    def __len__(self) -> int:
        return sum(len(hashes) for hashes, _ in self._runs)

    def named(self, items: Items) -> Items:
        """Return the items with computed eids; items that have eids already are returned as they are."""
        if items.eid_high is not None or not len(items):
            return items
        hashes: Ints = content_hash(items.payload).view(np.int64).copy()
        numbers = occurrences(hashes)
        for known, _ in self._runs:
            numbers += np.searchsorted(known, hashes, side="right") - np.searchsorted(known, hashes)
        self._remember(hashes, items.end)
        rows = items.payload.append_column("eid", auto_eids(hashes, numbers))
        return Items(
            items.types, items.start, items.end, hashes, numbers, items.columns, rows, items.kinds, items.sources
        )

    def forget(self, until: int) -> None:
        """No row that ends at or before `until` comes any more."""
        if len(self) < self._enough:
            return
        left = [(hashes[ends > until], ends[ends > until]) for hashes, ends in self._runs]
        self._runs = [run for run in left if len(run[0])]
        self._enough = max(FEW, 2 * len(self))

    def _remember(self, hashes: Ints, ends: Ints) -> None:
        run = _sorted(hashes, ends)
        while self._runs and len(self._runs[-1][0]) <= 2 * len(run[0]):
            older = self._runs.pop()
            run = _sorted(np.concatenate((older[0], run[0])), np.concatenate((older[1], run[1])))
        self._runs.append(run)

    def saved(self) -> dict[str, Ints]:
        """What is remembered, as arrays."""
        none = [np.zeros(0, np.int64)]
        hashes, ends = (np.concatenate([run[at] for run in self._runs] or none) for at in (0, 1))
        return {"hashes": hashes, "ends": ends}

    def restore(self, arrays: Mapping[str, Ints]) -> None:
        """Remember what another one did."""
        self._runs = [_sorted(arrays["hashes"], arrays["ends"])] if len(arrays["hashes"]) else []


def _sorted(hashes: Ints, ends: Ints) -> tuple[Ints, Ints]:
    order = np.argsort(hashes)
    return hashes[order], ends[order]
