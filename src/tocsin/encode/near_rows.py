"""Rows near a rare step: where one step of a query is rare, most rows of the others have none of its events near them.

All events that belong to a match, or decide it, have one key and end within some ticks of each other. So rows are
dropped before they are encoded unless a row of the rarest step with their key is near. Which keys have one in which
stretch of time is a bit in a small table by hash (a Bloom filter): more rows may stay than must, and never fewer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from tocsin.encode.content import Words
from tocsin.encode.text_numbers import frozen
from tocsin.items import Bools, Codes, Ints

SAMPLE = 1 << 14  # rows that tell which step is the rarest
RARE = 4  # one row in so many, at most, is of the rarest step
MOST_KEPT = 0.5  # where more rows than this share stay, rows are not looked at any more
BITS = 16  # of the table for each mark
Keep: TypeAlias = Callable[[Ints], Ints]  # those of some rows that conditions on one event let through
Hash: TypeAlias = Callable[[Ints], Words]  # the keys of some rows as hashes


@dataclass(frozen=True, slots=True)
class Near:
    """What a query says of events that can matter to one match.

    reach  they end within so many ticks of each other
    keys   they have equal values in these attributes
    steps  for each step that every match has, the types that it takes
    """

    reach: int
    keys: tuple[str, ...]
    steps: tuple[frozenset[str], ...]


class NearRows:
    """Keeps the rows of stretches that are near a row of the rarest step."""

    def __init__(
        self, near: Near, end: Ints, codes: Codes, lookup: Codes, types: Sequence[str], keep: Keep, hash: Hash
    ) -> None:
        """`lookup` has for each of the `codes` of rows the type as kernels number it, negative if nobody reads it."""
        self._end, self._codes, self._keep, self._hash = frozen(end), codes, keep, hash
        self._width = max(1, near.reach)
        self._rare = self._rarest(near, lookup, types)
        self._seen = self._kept = 0

    def _rarest(self, near: Near, lookup: Codes, types: Sequence[str]) -> Bools | None:
        """Which codes are of the rarest step, as far as a sample shows; None: it is not rare enough."""
        every = np.arange(0, len(self._codes), max(1, len(self._codes) // SAMPLE))
        sample = self._keep(every[lookup[self._codes[every]] >= 0])
        counts = np.bincount(lookup[self._codes[sample]], minlength=len(types))
        steps = [[at for at, type in enumerate(types) if type in step] for step in near.steps]
        found = min(steps, key=lambda step: int(counts[step].sum()))
        if RARE * int(counts[found].sum()) > len(sample):
            return None
        rare: Bools = np.isin(lookup, found)
        return rare

    @property
    def is_worth_it(self) -> bool:
        """Whether rows are looked at: a step is rare, and not too many rows were kept so far."""
        return self._rare is not None and self._kept <= MOST_KEPT * self._seen

    def near(self, places: Ints, first: int, last: int) -> Ints:
        """Those of some rows of a stretch, which begins and ends there, that are near a row of the rarest step."""
        from tocsin.encode import loops

        assert self._rare is not None
        begin = int(np.searchsorted(self._end, self._end[first] - self._width))
        stop = int(np.searchsorted(self._end, self._end[last - 1] + self._width, "right"))
        if stop - begin > 2 * (last - first) or not len(places):  # more to look at than there is to drop
            return places
        rare = np.empty(stop - begin, np.int64)
        rare = self._keep(rare[: loops.places_of(self._codes[begin:stop], self._rare, begin, rare)])
        bits = np.zeros(max(64, 1 << (3 * BITS * len(rare)).bit_length()) // 64, np.uint64)
        origin = int(self._end[begin]) - self._width
        loops.mark_near(self._hash(rare), rare, self._end, origin, self._width, bits)
        found = np.empty(len(places), np.int64)
        found = found[: loops.keep_near(self._hash(places), places, self._end, origin, self._width, bits, found)]
        self._seen += len(places)
        self._kept += len(found)
        return found
