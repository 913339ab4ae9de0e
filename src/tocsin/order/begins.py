"""Begins: intervals that are announced when they begin, and closed by the interval itself, known by its eid.

A begin never changes a settled match: the whole interval is the truth, and a begin that is lost loses nothing. What
begins are good for is knowledge. A *begin guarantee* of a type says that every interval that starts at or before a time
was announced or delivered; so an interval to come is one of those that are open, or starts later. It ends after the
earlier of these, and that is a guarantee of ends, by which held answers are given sooner and less is kept.

Paper: Li 2010, 5.4, where a begin is an interval begin punctuation (IBP).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any

import numpy as np
import pyarrow as pa

from tocsin.codec import Part, as_number, as_numbers_by_name, as_shape, decode, encode, only_part, reading
from tocsin.encode.merge import runs, take
from tocsin.engine.changes import Changes
from tocsin.engine.operator import Counters, Nesting
from tocsin.engine.texts import of_operators
from tocsin.engine.too_late import earliest
from tocsin.errors import InputError
from tocsin.events import BEGINNING, Eid, eid_number
from tocsin.items import EVERY, NO_SOURCE, Bools, Ints, ItemKind, Items, control
from tocsin.order.guarantees import Guarantees
from tocsin.order.lateness import Lateness

Name = tuple[int, int]  # of an event: its eid as two numbers
ROLES = ("type", "start", "end", "eid", "source", "seq", "arrival")  # columns of a payload that are no attributes


@dataclass(frozen=True, slots=True)
class Unended:
    """An interval that was announced and never ended."""

    eid: Eid
    type: str
    start: int


@dataclass(frozen=True, slots=True)
class Opened:
    """An interval that has begun: what its begin said of it."""

    eid: Eid
    type: str
    start: int
    attrs: Mapping[str, Any]


class Begins(Nesting):
    """Takes begins and their guarantees; all else goes on, but for intervals that come too late by them.

    longest   by type, how long an interval may last
    needed    by type, the attributes that a begin must have, because they are part of a key

    `unended` are the intervals of which the last push has shown that they never end.
    """

    def __init__(
        self, inner: Lateness, types: Iterable[str], longest: Mapping[str, int], needed: Mapping[str, frozenset[str]]
    ) -> None:
        self.inner: tuple[Lateness, ...] = (inner,)
        self._next, self.longest, self.needed = inner, dict(longest), needed
        self.guarantees = Guarantees(tuple(types), set(inner.guarantees.sources))
        self.open: dict[Name, Opened] = {}
        self._begun: dict[str, list[tuple[int, Name]]] = {}  # by type a heap of their starts, with some that have ended
        self.known: dict[Name, tuple[str, int, int]] = {}  # intervals that came, while a begin of theirs may come
        self._came: dict[str, list[tuple[int, Name]]] = {}  # by type a heap of their starts
        self.told: dict[str, int] = {}  # the guarantees of ends that followed
        self.unended: list[Unended] = []
        self.behind = BEGINNING  # where a host judges lateness: no begin that comes starts before this
        self.used = False  # whether there ever was a begin, or a guarantee of them
        self.counts = dict.fromkeys(("begins", "late_begins", "repeated_begins", "differing_begins", "unended"), 0)

    @property
    def counters(self) -> Counters:
        total = self._next.counters
        for name, count in self.counts.items():
            setattr(total, name, getattr(total, name) + count)
        return total

    @property
    def texts_in_use(self) -> Ints:
        return of_operators(self.inner)

    def push(self, items: Items) -> Changes:
        self.unended = []
        if not self.used and not self.longest and (items.single or items.kinds is None):
            return self._next.push(items)
        if items.single:
            items = items.copy()  # type: ignore[attr-defined]  # `single` says that it is a LentRow
        said, at, late = Changes(), 0, list[int]()
        for are_rows, run in runs(items):
            found = self._rows(run) if are_rows else self._others(run)
            said.add(found)
            late += [at + place for place in found.late]
            at += len(run)
        said.late = late
        return said

    # --- intervals -----------------------------------------------------------------------------------------------

    def _rows(self, items: Items) -> Changes:
        """Close what has ended, and set aside what comes too late."""
        late = self._late(items)
        changes = self._next.push(items if late is None else take(items, ~late))
        if late is not None:
            left = np.flatnonzero(~late)
            places = sorted([*np.flatnonzero(late).tolist(), *(int(left[place]) for place in changes.late)])
            self._next.late_count += int(np.count_nonzero(late))
            changes = Changes(changes.batches, changes.frontier, places)
        return self._and_then(changes)

    def _late(self, items: Items) -> Bools | None:
        """Which intervals are longer than theirs may be, or began unannounced when all begins were there."""
        late = np.zeros(len(items), np.bool_)
        names = zip(*(column.tolist() for column in _names(items)), strict=True) if items.eid_high is not None else None
        kinds = None if items.kinds is None else items.kinds.tolist()
        codes, start, end = items.types.tolist(), items.start.tolist(), items.end.tolist()
        sources = None if items.sources is None else items.sources.tolist()
        for at, code in enumerate(codes):
            name = None if names is None else next(names)
            if code < 0 or (kinds is not None and kinds[at] != ItemKind.EVENT):
                continue
            type = self._next.codes[code]
            place = (type, start[at], end[at])
            announced = name is not None and self._is_announced(name, items.payload, at, place)
            source = None if sources is None else self._next.sources.text(sources[at])
            most = self.longest.get(type)
            too_long = most is not None and end[at] - start[at] > most
            late[at] = too_long or (not announced and start[at] <= self.guarantees.of(type, source))
            if name is not None and self.used and not late[at]:
                self._remember(name, place)
        return late if late.any() else None

    def _remember(self, name: Name, place: tuple[str, int, int]) -> None:
        if self.known.get(name, ("", 0))[:2] != place[:2]:
            heappush(self._came.setdefault(place[0], []), (place[1], name))
        self.known[name] = place

    def _is_announced(self, name: Name, payload: pa.RecordBatch, at: int, place: tuple[str, int, int]) -> bool:
        """Whether an interval ends one that has begun, or is a copy of one that came."""
        return self._ends(name, payload, at, place) or self.known.get(name) == place

    def _ends(self, name: Name, payload: pa.RecordBatch, at: int, place: tuple[str, int, int]) -> bool:
        """Whether this interval was announced as it is; if it differs from its begin, there was none."""
        opened = self.open.pop(name, None)
        if opened is None:
            return False
        same = (opened.type, opened.start) == place[:2] and all(
            attr in payload.schema.names and _plain(payload.column(attr)[at].as_py()) == value
            for attr, value in opened.attrs.items()
        )
        self.counts["differing_begins"] += not same
        return same

    # --- begins and guarantees -----------------------------------------------------------------------------------

    def _others(self, items: Items) -> Changes:
        """Begins, and their guarantees, are taken here; the end of the stream ends all hope; all else goes on."""
        assert items.kinds is not None
        said, rest = Changes(), list[int]()
        rows = items.payload.to_pylist()
        for at, kind in enumerate(items.kinds.tolist()):
            if kind == ItemKind.BEGIN and items.eid_high is not None:
                self._begin(items, at, rows[at])
            elif kind == ItemKind.BEGIN_GUARANTEE:
                self._promise(items, at)
            else:
                rest.append(at)
                continue
            said.add(self._and_then(Changes(frontier=said.frontier)))
        if rest:
            said.add(self._next.push(items if len(rest) == len(items) else take(items, np.array(rest))))
            if ItemKind.END in items.kinds:
                self._forget(list(self.open))
            else:
                said = self._and_then(said)
        return said

    def _begin(self, items: Items, at: int, values: dict[str, Any]) -> None:
        self.used = True
        self.counts["begins"] += 1
        name = (int(items.eid_high[at]), int(items.eid_low[at]))  # type: ignore[index]
        type = self._next.codes[code] if (code := int(items.types[at])) >= 0 else None
        if type is None:  # no query reads it
            return
        attrs = {each: _plain(value) for each, value in values.items() if each not in ROLES and value is not None}
        opened = Opened(values["eid"], type, int(items.start[at]), attrs)
        if missing := sorted(self.needed.get(type, frozenset()) - attrs.keys()):
            raise InputError(
                f"the begin of {type} {opened.eid} has no {missing[0]}",
                hint=f"{missing[0]} is part of a key: a begin has all attributes of the key",
            )
        source = None if items.sources is None else self._next.sources.text(int(items.sources[at]))
        if opened.start <= self.guarantees.of(type, source) or opened.start < self._since:
            self.counts["late_begins"] += 1
        elif (known := self._known(name)) is None:
            self.open[name] = opened
            heappush(self._begun.setdefault(type, []), (opened.start, name))
        elif known[:2] == (type, opened.start) and (name in self.known or self.open[name] == opened):
            self.counts["repeated_begins"] += 1
        else:
            raise InputError(
                f"a begin of {type} at {opened.start} has the eid {opened.eid} of another one",
                detail=f"that is {known[0]}, which begins at {known[1]}",
                hint="an eid names one interval; a begin may come again, as it was",
            )

    def _known(self, name: Name) -> tuple[str, int] | None:
        if name in self.known:
            return self.known[name][:2]
        opened = self.open.get(name)
        return None if opened is None else (opened.type, opened.start)

    @property
    def _since(self) -> int:
        """Where it is known how late items come, none that begins before this is in time."""
        slack = self._next.slack
        return self.behind if slack is None else earliest(self._next.clock, slack)

    def _promise(self, items: Items, at: int) -> None:
        self.used = True
        code, source = int(items.types[at]), NO_SOURCE if items.sources is None else int(items.sources[at])
        type = None if code == EVERY else self._next.codes[code] if code >= 0 else ""
        self.guarantees.promise(type, self._next.sources.text(source), int(items.end[at]))

    # --- what follows --------------------------------------------------------------------------------------------

    def _and_then(self, changes: Changes) -> Changes:
        """Go on after items: give up intervals that are too long, forget settled begins, and pass on new guarantees."""
        if self.open:
            for type, most in self.longest.items():
                while (first := self._first(type)) is not None and self.guaranteed(type) >= first[0] + most:
                    self._forget([first[1]])
        for type, came in self._came.items():
            settled = self._settled(type)
            while came and came[0][0] <= settled:  # a begin of theirs would be late
                start, name = heappop(came)
                if name in self.known and self.known[name][:2] == (type, start):
                    del self.known[name]
        if said := list(self._grown()):
            after = self._next.push(control(*said))
            changes = Changes([*changes.batches, *after.batches], after.frontier or changes.frontier, changes.late)
        return changes

    def _settled(self, type: str) -> int:
        """A begin that starts at or before this is late."""
        return max(self.guarantees.settled.get(type, BEGINNING), self._since - 1)

    def _first(self, type: str) -> tuple[int, Name] | None:
        """Of the open intervals of a type the one that began first: its start and name."""
        begun = self._begun.get(type, [])
        while begun:
            opened = self.open.get(begun[0][1])
            if opened is not None and (opened.type, opened.start) == (type, begun[0][0]):
                return begun[0]
            heappop(begun)
        return None

    def guaranteed(self, type: str) -> int:
        """Every interval of a type that is to come ends after this."""
        return max(self._next.guarantees.settled.get(type, BEGINNING), self._since - 1)

    def _forget(self, names: list[Name]) -> None:
        gone = [self.open.pop(name) for name in names]
        self.unended += [Unended(each.eid, each.type, each.start) for each in gone]
        self.counts["unended"] += len(gone)

    def _grown(self) -> Iterator[tuple[ItemKind, int, int, int, int]]:
        """The guarantees of ends that follow from begins: what is to come ends after the first that is open began."""
        for type, begun in self.guarantees.settled.items():
            first = self._first(type)
            until = begun if first is None else min(begun, first[0] - 1)
            if until > max(self.told.get(type, BEGINNING), self._next.guarantees.settled.get(type, BEGINNING)):
                self.told[type] = until
                yield ItemKind.GUARANTEE, self._next.codes.index(type), NO_SOURCE, until, until

    # --- state ---------------------------------------------------------------------------------------------------

    def snapshot(self, since: int = 0) -> list[Part]:
        words = {
            "open": [[each.eid, each.type, each.start, dict(each.attrs)] for each in self.open.values()],
            "known": [type for type, _, _ in self.known.values()],
            "promised": [[*pair, time] for pair, time in self.guarantees.promised.items()],
            "sources": sorted(self.guarantees.sources),
            "settled": self.guarantees.settled,
            "told": self.told,
            "used": self.used,
            "counts": self.counts,
        }
        known = [[*name, start, end] for name, (_, start, end) in self.known.items()]
        arrays = {"known": np.array(known, np.int64).reshape(-1, 4)}
        own = [Part("begins", 0, encode("begins", words, arrays=arrays))] if self.used else []  # before there were none
        return [*own, *self._next.snapshot(since)]

    def restore(self, parts: Iterable[Part]) -> None:
        parts = list(parts)
        stored = [part for part in parts if part.id == "begins"]
        found = decode(only_part("begins", parts).data, "begins") if stored else None
        self._next.restore(part for part in parts if part.id != "begins")
        if found is None:
            return
        with reading():
            words, known = found.words, found.arrays["known"].tolist()
            self.open = {
                eid_number(eid): Opened(eid, str(type), as_number(start), dict(attrs))
                for eid, type, start, attrs in words["open"]
            }
            self._begun = {}
            for name, each in self.open.items():
                heappush(self._begun.setdefault(each.type, []), (each.start, name))
            self.known, self._came = {}, {}
            for (high, low, start, end), type in zip(known, words["known"], strict=True):
                self._remember((high, low), (str(type), as_number(start), as_number(end)))
            self.guarantees.promised = {(type, source): as_number(time) for type, source, time in words["promised"]}
            self.guarantees.sources = set(words["sources"])
            self.guarantees.settled = as_numbers_by_name(words["settled"])
            self.told, self.counts = as_numbers_by_name(words["told"]), as_numbers_by_name(words["counts"])
            self.used = as_shape(bool, words["used"])
            self.guarantees.conclude()


def _names(items: Items) -> tuple[Ints, Ints]:
    assert items.eid_high is not None and items.eid_low is not None
    return items.eid_high, items.eid_low


def _plain(value: Any) -> Any:
    """A value as a saved state can hold it, and as two of them are compared."""
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
