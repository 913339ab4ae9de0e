"""Lateness: events that come too late are set aside and counted; those behind a guarantee are treated as was agreed.

An event is too late if it ends more than the known delay before the clock, the largest end seen. It breaks a guarantee
if its source, or everybody, has said that no such event comes any more. This is the only place where that is judged:
operators behind it are told, type by type, what is guaranteed by all sources together.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np

from tocsin.codec import Part, as_number, as_numbers, as_numbers_by_name, encode, nested, only_part, within
from tocsin.codec import decode as decoded
from tocsin.encode.merge import runs, take
from tocsin.engine.changes import QUIET, Changes
from tocsin.engine.operator import Counters, Nesting, Operator
from tocsin.engine.texts import of_operators
from tocsin.engine.too_late import earliest, too_late
from tocsin.errors import InputError, TocsinWarning
from tocsin.events import BEGINNING
from tocsin.items import (
    EVERY,
    NO_SOURCE,
    Bools,
    Ints,
    ItemKind,
    Items,
    Strings,
    control,
    is_sorted,
)
from tocsin.order.guarantees import Guarantees
from tocsin.order.strategy import Broken

UNKNOWN = "?"
Said = tuple[ItemKind, int, int, int, int]


class Lateness(Nesting):
    """Lets events pass that come in time.

    inner     gets the others, and what is guaranteed of each type (in order: of all types together)
    slack     by how many ticks an event may end before the clock; None: no event comes too late
    codes     the types by their codes in items
    sources   the names of sources by their codes in items
    in_order  the inner operator sees events in order of time, so only what all types have in common lets time pass

    `broken` counts, by source and type, the events behind a guarantee.
    """

    def __init__(
        self,
        inner: Operator,
        guarantees: Guarantees,
        slack: int | None,
        policy: Broken = "count",
        *,
        codes: tuple[str, ...] = (),
        sources: Strings | None = None,
        in_order: bool = False,
    ) -> None:
        self.inner: tuple[Operator, ...] = (inner,)
        self._next, self.guarantees, self.slack, self.policy, self.in_order = inner, guarantees, slack, policy, in_order
        self.codes = codes
        self.sources = Strings() if sources is None else sources
        self.clock = BEGINNING
        self.late_count = 0
        self.broken: Counter[tuple[str, str]] = Counter()

    @property
    def counters(self) -> Counters:
        total = self._next.counters
        total.late += self.late_count
        return total

    @property
    def texts_in_use(self) -> Ints:
        return of_operators(self.inner)

    def push(self, items: Items) -> Changes:
        """Pass on what is in time; `late` of the changes are the places of the items that are not."""
        if items.single:
            if not self.guarantees.promised:
                return self._push_one(items, items.time)  # type: ignore[attr-defined]  # `single`: it is a LentRow
            items = items.copy()  # type: ignore[attr-defined]
        if items.kinds is None:
            return self._push_rows(items)
        said, at, late = Changes(), 0, []
        for are_rows, run in runs(items):
            found = self._push_rows(run) if are_rows else self._hear(run)
            said.add(found)
            late += [at + place for place in found.late]
            at += len(run)
        said.late = late
        return said

    def _push_one(self, one: Items, end: int) -> Changes:
        """Judge one event by the shortest way, where nothing was guaranteed."""
        if end < self.clock:
            if self.slack is not None and end < earliest(self.clock, self.slack):
                self.late_count += 1
                return LATE
        else:
            self.clock = end
        changes = self._next.push(one)
        if changes.late:  # it may miss its turn further on
            self.late_count += 1
        return changes

    def admits(self, end: int) -> bool:
        """Whether one event is in time, where nothing was guaranteed; it moves the clock, or is counted."""
        if end >= self.clock:
            self.clock = end
        elif self.slack is not None and end < earliest(self.clock, self.slack):
            self.late_count += 1
            return False
        return True

    def _push_rows(self, items: Items) -> Changes:
        late = self._late(items) if len(items) else None
        through = items if late is None else take(items, ~late)
        changes = self._next.push(through)
        if late is not None or changes.late:
            places = [] if late is None else np.flatnonzero(late).tolist()
            if changes.late:  # what missed its turn further on
                left = np.arange(len(items)) if late is None else np.flatnonzero(~late)
                places = sorted([*places, *left[np.array(changes.late)].tolist()])
            self.late_count += len(places)
            changes = Changes(changes.batches, changes.frontier, places)
        return changes

    # --- events ---

    def _late(self, items: Items) -> Bools | None:
        """Which events are set aside; None: none of them."""
        late = self._too_late(items.end)
        if self.guarantees.promised:
            behind = self._behind(items)
            if behind is not None and self.policy != "accept":
                late = behind if late is None else late | behind
        if items.sources is not None:
            self.guarantees.meet(
                str(self.sources.text(code)) for code in np.unique(items.sources).tolist() if code >= 0
            )
        return late

    def _too_late(self, end: Ints) -> Bools | None:
        """Which rows end too far behind the clock of their arrival; None if the whole batch is in order."""
        in_order = bool(end[0] >= self.clock) and is_sorted(end)
        if in_order or self.slack is None:
            self.clock = max(self.clock, int(end[-1] if in_order else end.max()))
            return None
        late = too_late(self.clock, self.slack, end)
        self.clock = max(self.clock, int(end.max()))
        return late if late.any() else None

    def _behind(self, items: Items) -> Bools | None:
        """Which rows break a guarantee; counted and told by source and type."""
        behind = np.zeros(len(items), np.bool_)
        sources = [NO_SOURCE] if items.sources is None else np.unique(items.sources).tolist()
        for code, type in enumerate(self.codes):
            mine = items.types == code
            if not mine.any():
                continue
            for source in sources:
                rows = mine & (items.end <= self._promised(type, source))
                if items.sources is not None:
                    rows &= items.sources == source
                if rows.any():
                    behind |= rows
                    self._tell(type, source, items, rows)
        return behind if behind.any() else None

    def _promised(self, type: str, source: int) -> int:
        return self.guarantees.of(type, self.sources.text(source))

    def _tell(self, type: str, source: int, items: Items, rows: Bools) -> None:
        """Count broken guarantees; the first of each source and type is worth a warning."""
        first = int(items.end[np.flatnonzero(rows)[0]])
        promised, name = self._promised(type, source), self.sources.text(source)
        who = "somebody" if name is None else f"source {name!r}"
        if self.policy == "raise":
            raise InputError(
                f"{who} broke a promise: an event {type} ends at {first}",
                detail=f"it was promised that every later one ends after {promised}",
                hint="promise less, or choose broken=count or broken=accept",
            )
        key = (UNKNOWN if name is None else name, type)
        if key not in self.broken:
            what = "taken in and corrected where possible" if self.policy == "accept" else "set aside and counted"
            warnings.warn(
                f"{who} sends events of type {type} behind what was promised ({first}, not after {promised}): {what}",
                TocsinWarning,
                stacklevel=2,
            )
        self.broken[key] += int(np.count_nonzero(rows))

    # --- guarantees and time ---

    def _hear(self, items: Items) -> Changes:
        told = list(self._told(items))
        return self._next.push(control(*told)) if told else QUIET

    def _told(self, items: Items) -> Iterator[Said]:
        """What the inner operator is told: guarantees of all sources together, everything else as it is."""
        ticked = BEGINNING
        for said in _rows(items):
            kind, type, source, _, time = said
            if kind == ItemKind.TICK:
                ticked = time
                self.clock = max(self.clock, time)
                yield said
            elif kind != ItemKind.GUARANTEE:
                yield said
            elif self.in_order and (type, source) == (EVERY, NO_SOURCE) and time < ticked:
                yield said  # the clock alone says as much: no source has promised anything
            else:
                yield from self._grown(type, source, time)

    def _grown(self, type: int, source: int, time: int) -> Iterator[Said]:
        name = None if type == EVERY else self.codes[type] if type >= 0 else ""
        grown = self.guarantees.promise(name, self.sources.text(source), time)
        if not self.in_order:
            for each, until in grown:
                yield (ItemKind.GUARANTEE, self.codes.index(each), NO_SOURCE, until, until)
        elif grown:
            until = min(self.guarantees.settled.get(each, BEGINNING) for each in self.guarantees.types)
            if until > BEGINNING:
                self.clock = max(self.clock, until + 1)
                yield (ItemKind.GUARANTEE, EVERY, NO_SOURCE, until, until)

    # --- state ---

    def snapshot(self, since: int = 0) -> list[Part]:
        known = self.guarantees
        words = {
            "clock": self.clock,
            "late": self.late_count,
            "broken": [[*pair, count] for pair, count in self.broken.items()],
            "promised": [[*pair, time] for pair, time in known.promised.items()],
            "sources": sorted(known.sources),
            "settled": known.settled,
            "strange": [known.backwards, known.unknown],
        }
        return [Part("lateness", 0, encode("lateness", words)), *nested("inner", self._next.snapshot(since))]

    def restore(self, parts: Iterable[Part]) -> None:
        parts = list(parts)
        words = decoded(only_part("lateness", parts).data, "lateness").words
        self._next.restore(within("inner", parts))
        self.clock, self.late_count = as_number(words["clock"]), as_number(words["late"])
        self.broken = Counter({(source, type): as_number(count) for source, type, count in words["broken"]})
        known = self.guarantees
        known.promised = {(type, source): as_number(time) for type, source, time in words["promised"]}
        known.sources, known.settled = set(words["sources"]), as_numbers_by_name(words["settled"])
        known.backwards, known.unknown = as_numbers(words["strange"])


LATE = Changes(late=(0,))  # a single event came too late; shared, so nobody may write to it


def _rows(items: Items) -> Iterator[Said]:
    """Items that are no events, one by one."""
    assert items.kinds is not None
    sources = np.full(len(items), NO_SOURCE) if items.sources is None else items.sources
    columns = (items.kinds, items.types, sources, items.start, items.end)
    for kind, type, source, start, end in zip(*(column.tolist() for column in columns), strict=True):
        yield ItemKind(kind), type, source, start, end
