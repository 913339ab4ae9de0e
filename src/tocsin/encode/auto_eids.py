"""Eids for rows that came without: a hash of the content, and a number among equal rows.

The same names that a detector gives to its own rows, made here when matches of a query, which have eids, are fed to
another query beside such rows.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from tocsin.encode.content import auto_eid, content_hash, occurrences
from tocsin.items import Ints, Items


class Names:
    """Remembers the rows that an equal row may still follow: all of them, or those of the last tick if ordered."""

    def __init__(self, *, ordered: bool) -> None:
        self.ordered = ordered
        self.hashes: Ints = np.zeros(0, np.int64)
        self.ends: Ints = np.zeros(0, np.int64)

    def named(self, items: Items) -> Items:
        """The items with eids, if they have none."""
        if items.eid_high is not None or not len(items):
            return items
        hashes: Ints = content_hash(items.payload).view(np.int64).copy()
        numbers = occurrences(np.concatenate((self.hashes, hashes)))[len(self.hashes) :]
        self._remember(hashes, items.end)
        texts = [auto_eid(high, low) for high, low in zip(hashes.tolist(), numbers.tolist(), strict=True)]
        rows = items.payload.append_column("eid", pa.array(texts, pa.string()))
        return replace(items, eid_high=hashes, eid_low=numbers, payload=rows)

    def _remember(self, hashes: Ints, ends: Ints) -> None:
        self.hashes, self.ends = np.concatenate((self.hashes, hashes)), np.concatenate((self.ends, ends))
        if self.ordered:
            last = self.ends >= self.ends.max()
            self.hashes, self.ends = self.hashes[last], self.ends[last]
