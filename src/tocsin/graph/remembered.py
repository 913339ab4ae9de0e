"""Rows that are remembered while copies of them may come, and a table that finds a row again by its eid and times.

In batches the table is an array of places with open addressing, searched by a compiled loop; where little comes at once
(or nothing is compiled) it is a dict.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from tocsin.compilers import Loops
from tocsin.encode.merge import take
from tocsin.encode.row_bases import stacked
from tocsin.events import BEGINNING, MASK64
from tocsin.items import Ints, Items

Key: TypeAlias = tuple[int, int, int, int, int]  # type, start, end, and the two numbers of the eid
MANY = 256  # rows at once that are worth the compiled loop
WORTH = 1 << 12  # rows at once that are worth compiling it
NOBODY = -1
HIGH, END = 0x1B873593CC9E2D51, 0x2545F4914F6CDD1D  # odd factors that spread bits


@dataclass(slots=True)
class Again:
    """An event that has come several times: the numbers of its earlier rows, and the places of its new ones."""

    first: int
    earlier: list[int]
    places: list[int]


def key_columns(items: Items) -> tuple[Any, ...]:
    """What tells events apart in every query: type, start, end, and the two numbers of the eid."""
    assert items.eid_high is not None and items.eid_low is not None
    return items.types, items.start, items.end, items.eid_high, items.eid_low


def keys_of(items: Items) -> Iterator[Key]:
    """Yield for each row what tells its event apart in every query."""
    return zip(*(column.tolist() for column in key_columns(items)), strict=True)


class Remembered:
    """Rows by number, in order of arrival; `add` says which of them have come before."""

    def __init__(self, *, jit: bool) -> None:
        self.jit = jit
        self.pieces: list[Items] = []
        self._begins: list[int] = []  # the number of the first row of each piece
        self.count = 0
        self.last = BEGINNING  # no row ends after this
        self._later: dict[int, list[int]] = {}  # by the number of an event's first row: those that came after it
        self._names: dict[Key, int] | None = {}
        self._table: EidTable | None = None

    def add(self, items: Items) -> list[Again]:
        """Take rows in; return the events among them that have come before, or come more than once."""
        if self._names is not None and self.jit and len(items) >= MANY and SEARCH.are_worth(len(items), WORTH):
            self._table = EidTable.of(self.pieces)
            self._names = None
        begin = self.count
        self.pieces.append(items)
        self._begins.append(begin)
        self.count += len(items)
        self.last = max(self.last, int(items.end.max(initial=BEGINNING)))
        firsts = self._by_name(items, begin) if self._table is None else self._table.add(items)
        return self._again(firsts, begin) if firsts else []

    def _by_name(self, items: Items, begin: int) -> list[tuple[int, int]]:
        assert self._names is not None
        found = []
        for place, key in enumerate(keys_of(items)):
            if key[0] >= 0:
                first = self._names.setdefault(key, begin + place)
                if first != begin + place:
                    found.append((place, first))
        return found

    def _again(self, found: list[tuple[int, int]], begin: int) -> list[Again]:
        events: dict[int, Again] = {}
        for place, first in found:
            event = events.get(first)
            if event is None:
                known = [first, *self._later.get(first, ())]
                earlier = [number for number in known if number < begin]
                event = events[first] = Again(first, earlier, [first - begin] if first >= begin else [])
            event.places.append(place)
            self._later.setdefault(first, []).append(begin + place)
        return list(events.values())

    def rows(self, numbers: list[int]) -> list[Items]:
        """Some remembered rows, each by itself."""
        found = []
        for number in numbers:
            at = bisect_right(self._begins, number) - 1
            found.append(take(self.pieces[at], np.array([number - self._begins[at]])))
        return found

    def payload(self, numbers: Ints) -> pa.RecordBatch:
        """Some remembered rows as results show them."""
        owners = np.searchsorted(self._begins, numbers, "right") - 1
        order = np.argsort(owners, kind="stable")
        batches = []
        for owner in np.unique(owners).tolist():
            mine = numbers[order[owners[order] == owner]]
            batches.append(self.pieces[owner].payload.take(pa.array(mine - self._begins[owner])))
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return stacked(batches).take(pa.array(back))

    @property
    def ends(self) -> Ints:
        """When each row ends."""
        return np.concatenate([piece.end for piece in self.pieces])

    def has(self, one: Items) -> bool:
        """Whether the event of a row has come before."""
        (key,) = keys_of(one)
        return key in self._names if self._names is not None else self._table.has(key)  # type: ignore[union-attr]


@dataclass(slots=True)
class EidTable:
    """Which events have come, for many rows: their columns, and the numbers of rows by a hash of these."""

    columns: list[Any]
    count: int = 0
    slots: Ints = field(default_factory=lambda: np.full(1024, NOBODY, np.int64))

    @classmethod
    def of(cls, pieces: list[Items]) -> EidTable:
        made = cls([np.zeros(1024, dtype) for dtype in (np.int32, *[np.int64] * 4)])
        for piece in pieces:
            made.add(piece)
        return made

    def add(self, items: Items) -> list[tuple[int, int]]:
        """Take rows in; return the places of those that have come before, with the number of the first."""
        begin, self.count = self.count, self.count + len(items)
        if self.count > len(self.columns[0]):
            room = max(self.count, 2 * len(self.columns[0]))
            self.columns = [np.concatenate([old, np.zeros(room - len(old), old.dtype)]) for old in self.columns]
        for mine, given in zip(self.columns, key_columns(items), strict=True):
            mine[begin : self.count] = given
        search = compiled_search()  # tables are made only where it is ready
        if 2 * self.count > len(self.slots):
            self.slots = np.full(1 << (4 * self.count).bit_length(), NOBODY, np.int64)
            search(*self.columns, 0, begin, self.slots, False, np.empty(begin, np.int64))
        firsts = np.empty(len(items), np.int64)
        if not search(*self.columns, begin, self.count, self.slots, False, firsts):
            return []
        places = np.flatnonzero(firsts != NOBODY)
        return list(zip(places.tolist(), firsts[places].tolist(), strict=True))

    def has(self, key: Key) -> bool:
        """Whether a row is there; as `_search` looks for it."""
        _, _, end, high, low = key
        value = ((high ^ (low * 31)) * HIGH + end * END) & MASK64
        value = value - 2**64 if value >= 2**63 else value
        slot = (value ^ (value >> 29)) & (len(self.slots) - 1)
        while (other := int(self.slots[slot])) != NOBODY:
            if tuple(int(column[other]) for column in self.columns) == key:
                return True
            slot = (slot + 1) & (len(self.slots) - 1)
        return False


def repeated_in_ticks(items: Items, *, jit: bool) -> list[Again]:
    """The events that come more than once among rows in order of their ends."""
    end = items.end
    if len(end) < 2:
        return []
    tied = np.flatnonzero(end[1:] == end[:-1])
    if not len(tied):  # no two rows end together
        return []
    if not jit or len(items) < MANY or not SEARCH.are_worth(len(items), WORTH):
        return Remembered(jit=False).add(items)
    columns, rows = key_columns(items), np.arange(len(end))
    if 4 * len(tied) < len(end):  # most rows are alone in their tick, and have no copy
        shared = np.zeros(len(end), np.bool_)
        shared[tied] = shared[tied + 1] = True
        rows = np.flatnonzero(shared)
        columns = tuple(column[rows] for column in columns)
    slots = np.full(1 << (4 * _longest(columns[2])).bit_length(), NOBODY, np.int64)
    firsts = np.empty(len(rows), np.int64)
    if not compiled_search()(*columns, 0, len(rows), slots, True, firsts):
        return []
    return list(_together(firsts, rows))


def _longest(end: Ints) -> int:
    """How many rows end together at most."""
    edges = np.flatnonzero(end[1:] != end[:-1])
    return int(np.diff(np.concatenate(([-1], edges, [len(end) - 1]))).max())


def _together(firsts: Ints, rows: Ints) -> Iterator[Again]:
    """The events that came more than once; `firsts`: for each of the `rows` the place of its first copy, or NOBODY."""
    events: dict[int, Again] = {}
    again = np.flatnonzero(firsts != NOBODY)
    for place, first in zip(rows[again].tolist(), rows[firsts[again]].tolist(), strict=True):
        events.setdefault(first, Again(first, [], [first])).places.append(place)
    yield from events.values()


@lru_cache(maxsize=1)
def compiled_search() -> Callable[..., int]:
    """The loop of the table; compiled when first needed, so that importing Tocsin does not load Numba."""
    from numba import njit

    kernel: Callable[..., int] = njit(cache=True, nogil=True)(_search)
    return kernel


def _search(
    types: Any, start: Any, end: Any, high: Any, low: Any, i: int, stop: int, slots: Any, in_ticks: bool, firsts: Any
) -> int:
    """Enter the rows from i to `stop` into the slots; note for each that is there already the first such row.

    With `in_ticks` rows come in order of their ends, and only those of one tick are compared: a slot that holds a row
    of an earlier tick is free, and a row that is alone in its tick needs none.
    """
    mask = len(slots) - 1
    begin, oldest, found = i, 0, 0
    while i < stop:
        firsts[i - begin] = -1
        if in_ticks and i > begin and end[i] != end[i - 1]:
            oldest = i
        alone = in_ticks and oldest == i and (i + 1 == stop or end[i + 1] != end[i])
        if types[i] >= 0 and not alone:
            value = (high[i] ^ (low[i] * 31)) * HIGH + end[i] * END
            slot = (value ^ (value >> 29)) & mask
            while True:
                other = slots[slot]
                if other < oldest:
                    slots[slot] = i
                    break
                if (
                    high[other] == high[i]
                    and low[other] == low[i]
                    and end[other] == end[i]
                    and start[other] == start[i]
                    and types[other] == types[i]
                ):
                    firsts[i - begin] = other
                    found += 1
                    break
                slot = (slot + 1) & mask
        i += 1
    return found


def prepare_search() -> None:
    """Compile or load the loop of the table now."""
    one = np.zeros(1, np.int64)
    compiled_search()(np.zeros(1, np.int32), one, one, one, one, 0, 0, one, False, one)


SEARCH = Loops(prepare_search, Path(__file__), _search.__name__)
