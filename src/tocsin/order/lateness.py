"""The gate: what comes too late is counted and set aside, what breaks a promise is treated as was agreed.

An event is too late if it ends more than the known delay before the clock, the largest end seen. It breaks a promise if
its source, or everybody, has promised that no such event comes any more.
"""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tocsin.encode.merge import take
from tocsin.errors import InputError, TocsinWarning
from tocsin.events import BEGINNING
from tocsin.items import Bools, Ints, Items, clock_before, is_sorted
from tocsin.order.guarantees import Guarantees
from tocsin.order.strategy import Broken

UNKNOWN = "?"


@dataclass(slots=True)
class Gate:
    """Lets events pass, one batch after the other.

    `late` are the places of the rows of the last batch that were set aside; `broken` counts, by source and type, the
    events behind a promise.
    """

    guarantees: Guarantees
    slack: int | None  # None: no event comes too late
    policy: Broken = "count"
    by_source: bool = False  # whether events say where they come from
    codes: tuple[str, ...] = ()  # the types by their codes in items
    clock: int = BEGINNING
    late_count: int = 0
    late: list[int] = field(default_factory=list)
    broken: Counter[tuple[str, str]] = field(default_factory=Counter)

    def admit(self, items: Items) -> Items:
        """The items without those that come too late."""
        self.late = []
        if not len(items):
            return items
        sources = _sources(items) if self.by_source else None
        late = self._too_late(items.end)
        if self.guarantees.promised:
            behind = self._behind(items, sources)
            if behind is not None and self.policy != "accept":
                late = behind if late is None else late | behind
        if sources is not None:
            self.guarantees.meet(set(sources.names) - {UNKNOWN})
        if late is None:
            return items
        self.late = np.flatnonzero(late).tolist()
        self.late_count += len(self.late)
        return take(items, ~late) if self.late else items

    def continue_from(self, old: Gate) -> None:
        """Be where another one is."""
        self.clock, self.late_count, self.broken = old.clock, old.late_count, Counter(old.broken)

    def missed(self, places: Ints, count: int) -> None:
        """Rows of a batch of so many that came through the gate and then missed their turn in the sorter."""
        if len(places):
            through = np.setdiff1d(np.arange(count), self.late)
            self.late = sorted([*self.late, *through[places].tolist()])
            self.late_count += len(places)

    def admits(self, end: int) -> bool:
        """The same for one event, where nothing was promised."""
        if self.slack is not None and end < self.clock - self.slack:
            self.late_count += 1
            return False
        self.clock = max(self.clock, end)
        return True

    def _too_late(self, end: Ints) -> Bools | None:
        """Which rows end too far behind the clock of their arrival; None if the whole batch is in order."""
        in_order = bool(end[0] >= self.clock) and is_sorted(end)
        if in_order or self.slack is None:
            self.clock = max(self.clock, int(end[-1] if in_order else end.max()))
            return None
        before = clock_before(self.clock, end)
        self.clock = max(int(before[-1]), int(end[-1]))
        late: Bools = end < before - self.slack
        return late if late.any() else None

    def _behind(self, items: Items, sources: Sources | None) -> Bools | None:
        """Which rows break a promise; counted and told by source and type."""
        behind = np.zeros(len(items), np.bool_)
        for code, type in enumerate(self.codes):
            mine = items.types == code
            if not mine.any():
                continue
            for number, source in enumerate((UNKNOWN,) if sources is None else sources.names):
                rows = mine & (items.end <= self._promised(type, source))
                if sources is not None:
                    rows &= sources.numbers == number
                if rows.any():
                    behind |= rows
                    self._tell(type, source, items, rows)
        return behind if behind.any() else None

    def _promised(self, type: str, source: str) -> int:
        return self.guarantees.of(type, None if source == UNKNOWN else source)

    def _tell(self, type: str, source: str, items: Items, rows: Bools) -> None:
        """Count broken promises; the first of each source and type is worth a warning."""
        first = int(items.end[np.flatnonzero(rows)[0]])
        promised = self._promised(type, source)
        who = "somebody" if source == UNKNOWN else f"source {source!r}"
        if self.policy == "raise":
            raise InputError(
                f"{who} broke a promise: an event {type} ends at {first}",
                detail=f"it was promised that every later one ends after {promised}",
                hint="promise less, or choose broken=count or broken=accept",
            )
        if (source, type) not in self.broken:
            what = "taken in and corrected where possible" if self.policy == "accept" else "set aside and counted"
            warnings.warn(
                f"{who} sends events of type {type} behind what was promised ({first}, not after {promised}): {what}",
                TocsinWarning,
                stacklevel=2,
            )
        self.broken[source, type] += int(np.count_nonzero(rows))


@dataclass(frozen=True, slots=True)
class Sources:
    """Where the rows of a batch come from: the names, and for each row the number of its name."""

    names: list[str]
    numbers: npt.NDArray[np.int32]


def _sources(items: Items) -> Sources | None:
    """The sources of a batch; None if its rows do not say."""
    place = items.payload.schema.get_field_index("source")
    if place < 0:
        return None
    column = items.payload.column(place).cast("string").fill_null(UNKNOWN).dictionary_encode()
    return Sources(column.dictionary.to_pylist(), column.indices.to_numpy())
