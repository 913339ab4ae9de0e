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
Look: TypeAlias = Callable[[int, int, Bools], tuple[Ints, int]]  # the same of a stretch, of wanted codes; and how many
Hash: TypeAlias = Callable[[Ints], Words]  # the keys of some rows as hashes


@dataclass(frozen=True, slots=True)
class NeededStep:
    """A step of which every match has an event: its types, and how far before and behind it all others may end."""

    types: frozenset[str]
    before: int
    behind: int


@dataclass(frozen=True, slots=True)
class Near:
    """What a query says of events that can matter to one match: they have equal values in these attributes."""

    keys: tuple[str, ...]
    steps: tuple[NeededStep, ...]


class NearRows:
    """The rows of stretches that are of the rarest step, or near one that is."""

    def __init__(
        self, near: Near, end: Ints, codes: Codes, lookup: Codes, types: Sequence[str], keep: Keep, look: Look,
        hash: Hash,
    ) -> None:  # fmt: skip
        """`lookup` has for each of the `codes` of rows the type as kernels number it, negative if nobody reads it."""
        self._end, self._codes, self._keep, self._look, self._hash = frozen(end), codes, keep, look, hash
        self._step: NeededStep | None = self._rarest(near, lookup, types)
        mine = () if self._step is None else self._step.types
        self._rare: Bools = np.isin(lookup, [at for at, type in enumerate(types) if type in mine])
        self._others: Bools = (lookup >= 0) & ~self._rare
        self._seen = self._kept = 0

    def _rarest(self, near: Near, lookup: Codes, types: Sequence[str]) -> NeededStep | None:
        """The step with the fewest rows, as far as a sample shows; None: it is not rare enough."""
        every = np.arange(0, len(self._codes), max(1, len(self._codes) // SAMPLE))
        sample = self._keep(every[lookup[self._codes[every]] >= 0])
        counts = dict(zip(types, np.bincount(lookup[self._codes[sample]], minlength=len(types)).tolist(), strict=True))
        found = min(near.steps, key=lambda step: sum(counts.get(type, 0) for type in step.types))
        is_rare = RARE * sum(counts.get(type, 0) for type in found.types) <= len(sample)
        return found if is_rare else None

    @property
    def is_worth_it(self) -> bool:
        """Whether to ask: a step is rare, and not too many rows were kept so far."""
        return self._step is not None and self._kept <= MOST_KEPT * self._seen

    def rows(self, first: int, last: int) -> tuple[Ints, int] | None:
        """Rows of a stretch that may matter, and how many are read; None: more would be looked at than dropped."""
        from tocsin.encode import loops

        assert self._step is not None
        step, end = self._step, self._end
        begin = int(np.searchsorted(end, end[first] - step.behind))
        stop = int(np.searchsorted(end, end[last - 1] + step.before, "right"))
        if stop - begin > 2 * (last - first):
            return None
        around = ((begin, first), (first, last), (last, stop))
        (before, _), (mine, read), (behind, _) = (self._look(*each, self._rare) for each in around)
        others, more = self._look(first, last, self._others)
        rare = np.concatenate([before, mine, behind])
        bits = np.zeros(max(64, 1 << (3 * BITS * len(rare)).bit_length()) // 64, np.uint64)
        width = max(1, (step.before + step.behind + 1) // 2)
        time = int(end[begin]) - step.before, width
        ends = np.empty(len(rare), np.int64)
        loops.gather(end, rare, 0, ends)
        loops.mark_near(self._hash(rare), ends, *time, step.before, step.behind, bits)
        found = np.empty(len(others), np.int64)
        found = found[: loops.keep_near(self._hash(others), others, end, *time, bits, found)]
        self._seen += len(others)
        self._kept += len(found)
        near = np.empty(len(mine) + len(found), np.int64)
        loops.merged(mine, found, near)
        return near, read + more
