"""Copies: finds events that come again with other attributes, so that in every order of arrival the same one counts.

It stands in front of all queries. As long as copies of an event may come (in order, in its tick; else until its time is
guaranteed), its rows are remembered. Rows that differ are handed to the queries together, and each takes the one that
counts for it (`graph/same_events`). Copies that do not differ are left to the detectors, which know them by their
place. Input without eids of its own has no such copies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from tocsin.codec import Part, as_number, as_numbers_by_name, decode, encode, only_part
from tocsin.compilers import compiles_first
from tocsin.encode.content import content_hash
from tocsin.encode.merge import as_events, join, runs, sliced, take
from tocsin.encode.stored import RowReader, stored_rows
from tocsin.engine.changes import Changes
from tocsin.engine.operator import Counters, Nesting, Operator
from tocsin.engine.texts import joined, of_operators, of_rows
from tocsin.engine.too_late import passed
from tocsin.events import BEGINNING
from tocsin.functions import Function
from tocsin.graph.remembered import Again, EidTable, Key, Remembered, keys_of, repeated_in_ticks
from tocsin.graph.same_events import CopiesOfOne, SameEvents
from tocsin.graph.stages import Stages
from tocsin.items import EVERY, Bools, Ints, ItemKind, Items

if TYPE_CHECKING:
    from tocsin.encode.row import LentRow, RowEncoder

FEW = 1024  # rows that are not worth a look at which of them can be forgotten


class Copies(Nesting):
    """Remembers the rows of open time and finds those that come again.

    ordered  rows come in order of their ends, so only those of the last tick are open
    late     otherwise, by how many ticks a row may come behind the clock; None: nobody knows
    plain    the codes of types that are no matches: when all of them are guaranteed, time has passed
    most     so many rows are remembered at most; of older ones copies are not found
    """

    def __init__(
        self,
        inner: Stages,
        reader: RowReader,
        functions: Mapping[str, Function],
        *,
        ordered: bool,
        late: int | None,
        plain: Iterable[int],
        jit: bool = True,
        most: int | None = None,
    ) -> None:
        self.inner: tuple[Operator, ...] = (inner,)
        self._next, self._reader, self.ordered, self.late, self.jit, self.most = inner, reader, ordered, late, jit, most
        self._plain = tuple(plain)
        self._queries = [SameEvents(each.plan, reader.types, reader.strings, functions) for each in inner.stages]
        self.clock = BEGINNING  # in order, the tick whose rows are remembered
        self.known: dict[int, int] = {}  # what is guaranteed, by the code of a type
        self.memory = Remembered(jit=jit)
        self._mixed: set[int] = set()  # events whose rows may differ, by the number of the first of them
        self._enough = FEW  # when to look which rows can be forgotten
        # what is remembered, but not in the memory yet, because nobody has asked:
        self._recent: list[Items] = []  # in order, the last rows of the last batch
        self._loose: dict[Any, dict[str, Any]] = {}  # single events by eid; out of order, by time and eid
        self._first_row: dict[str, Any] | None = None  # in order, the first event of the tick, if it came by itself
        self._first: LentRow | None = None  # where it lay
        self._source: RowEncoder | None = None  # who reads single events
        self._open = False  # whether there is anything of an earlier event in the memory, or waits for it
        alone = not inner.chained and len(inner.stages) == 1
        self._pass_one = inner.stages[0].operator.push if alone else inner.push
        self.conflicts = 0
        self._ready = False  # whether the compiled search is there
        self.chose = False  # whether some query was given other rows than came, so that it numbers them otherwise
        self.saved = True  # whether the state to restore has a part of ours: those of earlier versions do not

    @property
    def counters(self) -> Counters:
        total = self._next.counters
        total.duplicates += self.conflicts
        total.conflicting += self.conflicts
        return total

    @property
    def texts_in_use(self) -> Ints:
        return joined([of_operators(self.inner), of_rows([*self.memory.pieces, *self._recent])])

    def push(self, items: Items) -> Changes:
        """Pass everything on; where copies differ, each query gets the rows that count for it."""
        if items.single:
            if items.eid_high is None:
                return self._pass_one(items)
            one: LentRow = items  # type: ignore[assignment]  # `single` says so
            if self.ordered and one.time != self.clock:  # the usual case by itself: it must not take long
                self.clock, self._first, self._first_row = one.time, one, one.row
                if self._open:
                    self._close_tick()
                return self._pass_one(one)
            return self._push_one(one)
        if items.kinds is None:
            return self._push_rows(items)
        said, at, late = Changes(), 0, []
        for are_rows, run in runs(items):
            found = self._push_signed(run) if are_rows else self._hear(run)
            said.add(found)
            late += [at + place for place in found.late]
            at += len(run)
        said.late = late
        return said

    # --- events ---

    def _push_one(self, one: LentRow) -> Changes:
        """Take one event by the short way: it is looked at closer only if its eid has come before."""
        row, source = one.row, one.source
        if source is not self._source or self._recent or self._first_row is not None:
            self._remember_first(source)
        eid = row[source.columns.eid]  # type: ignore[index]  # there are eids
        name = eid if self.ordered else (one.time, eid)
        before = self._loose.get(name)
        if (before is None or before == row) and (one.time > self.memory.last or not self.memory.has(one)):
            self._loose[name] = row
            self._open = True
            if not self.ordered:
                self.clock = max(self.clock, one.time)
                if len(self._loose) > self._enough:
                    self._forget()
            return self._pass_one(one)
        return self._push_rows(one.copy())

    def _push_rows(self, items: Items) -> Changes:
        if items.eid_high is None or not len(items):
            return self._next.push(items)
        if self.jit and not self._ready and compiles_first():  # so that nothing is compiled in mid-stream
            self._ready = True
            EidTable.of([sliced(items, 0, 0)])
        events = self._in_order(items) if self.ordered else self._in_any_order(items)
        if not events:
            return self._next.push(items)
        self.chose = True
        chosen = [query.chosen(items, events) for query in self._queries]
        self.conflicts += len(set().union(*(conflicting for _, _, conflicting in chosen)))
        return self._next.push(items, [(rows, places) for rows, places, _ in chosen])

    def _push_signed(self, items: Items) -> Changes:
        """Events and withdrawals: what is withdrawn is not remembered any more, in any copy."""
        signs = items.signs
        if signs is None or items.eid_high is None:
            return self._push_rows(as_events(items)) if signs is None else self._next.push(items)
        said, late = Changes(), []
        for begin, stop in pairwise([0, *(np.flatnonzero(signs[1:] != signs[:-1]) + 1).tolist(), len(items)]):
            run = sliced(items, begin, stop - begin)
            if signs[begin] > 0:
                found = self._push_rows(as_events(run))
            else:
                self._lose(set(keys_of(run)))
                found = self._next.push(run)
            said.add(found)
            late += [begin + place for place in found.late]
        said.late = late
        return said

    def _in_order(self, items: Items) -> list[CopiesOfOne]:
        """The events with rows that differ, where all rows of an event come in one tick."""
        again: list[CopiesOfOne] = []
        first = 0
        if items.end[0] == self.clock:
            self._remember()
            first = int(np.searchsorted(items.end, self.clock, "right"))
            again += self._found(items, self.memory.add(sliced(items, 0, first)), 0, self.memory)
        if first < len(items):
            rest = items if not first else sliced(items, first, len(items) - first)
            found = repeated_in_ticks(rest, jit=self.jit)
            if found:
                again += self._found(items, found, first, None)
            self._close_tick()
            self._first_row, self.clock, self._open = None, int(items.end[-1]), True
            begin = int(np.searchsorted(items.end, self.clock))
            self._recent = [sliced(items, begin, len(items) - begin)]
        return again

    def _in_any_order(self, items: Items) -> list[CopiesOfOne]:
        """The copies among new rows where some may come until their time is guaranteed."""
        self._remember()
        self.clock = max(self.clock, int(items.end.max()))
        found = self._found(items, self.memory.add(items), 0, self.memory)
        if self.memory.count > self._enough:
            self._forget()
        return found

    def _found(self, items: Items, again: Sequence[Again], offset: int, memory: Remembered | None) -> list[CopiesOfOne]:
        """Those of the events that came again whose rows differ; of all others any row will do.

        Their new rows are places behind `offset`; with a memory these are its last ones.
        """
        if not again:
            return []
        counts = [len(event.places) for event in again]
        places = np.array([place for event in again for place in event.places]) + offset
        firsts = np.repeat(np.array([event.first for event in again]), counts)
        new = content_hash(items.payload.take(pa.array(places)))
        if memory is None:
            old = content_hash(items.payload.take(pa.array(firsts + offset)))
        else:
            old = content_hash(memory.payload(firsts))
        found, at = [], 0
        for event, count in zip(again, counts, strict=True):
            mixed = bool((old[at : at + count] != new[at : at + count]).any())
            at += count
            if memory is not None:
                if mixed:
                    self._mixed.add(event.first)
                mixed = mixed or event.first in self._mixed
            if mixed:
                mine = take(items, np.array(event.places) + offset)
                rows = mine if memory is None else join([*memory.rows(event.earlier), mine])
                found.append(CopiesOfOne(rows, [place + offset for place in event.places]))
        return found

    # --- what is remembered ---

    def _close_tick(self) -> None:
        """In order, nothing of an earlier tick comes any more."""
        self._recent, self._loose, self._open = [], {}, False
        if self.memory.count:
            self.memory, self._mixed = Remembered(jit=self.jit), set()

    def _remember_first(self, source: RowEncoder) -> None:
        """Make ready for another single event of the tick, or for single events that are read in another way."""
        if source is not self._source or self._recent:
            first, self._first_row = self._first_row, None
            self._remember()
            self._first_row, self._source = first, source
        if self._first_row is not None:
            assert self._first is not None
            self._source = self._first.source
            self._loose[self._first_row[self._source.columns.eid]] = self._first_row  # type: ignore[index]
            self._first_row, self._open = None, True

    def _remember(self) -> None:
        """Put the rows that were set aside into the memory, because it is to be searched."""
        if self._first_row is not None:
            assert self._first is not None
            self._remember_first(self._first.source)
        if self._loose:
            assert self._source is not None
            self._recent.append(self._reader.items(self._source.items(list(self._loose.values())).payload))
            self._loose = {}
        for items in self._recent:
            self._mixed.update(event.first for event in self.memory.add(items))
        self._recent = []
        self._open = self._open or bool(self.memory.count)

    def _keep(self, rows: Callable[[Items], Bools]) -> None:
        """Forget all rows of the memory but some."""
        old, self.memory, self._mixed = self.memory, Remembered(jit=self.jit), set()
        for piece in old.pieces:
            keep = rows(piece)
            if keep.any():
                kept = piece if keep.all() else take(piece, keep)
                self._mixed.update(event.first for event in self.memory.add(kept))

    def _lose(self, gone: set[Key]) -> None:
        """Forget the rows of some events."""
        self._remember()
        self._keep(lambda piece: np.array([key not in gone for key in keys_of(piece)], np.bool_))

    def _forget(self) -> None:
        """Out of order: forget rows whose time is guaranteed, so that no copy of them comes."""
        guaranteed = min((self.known.get(code, BEGINNING) for code in self._plain), default=BEGINNING)
        behind = max(guaranteed, passed(self.clock, self.late))
        self._loose = {name: row for name, row in self._loose.items() if name[0] > behind}
        self._keep(lambda piece: piece.end > behind)
        if self.most is not None and self.memory.count + len(self._loose) > self.most:
            self._remember()
            oldest = np.partition(self.memory.ends, -self.most)[-self.most]
            self._keep(lambda piece: piece.end > oldest)
        self._enough = max(FEW, 2 * self.memory.count, 2 * len(self._loose))

    def _hear(self, items: Items) -> Changes:
        """Take note of what is guaranteed."""
        assert items.kinds is not None
        for kind, type, time in zip(items.kinds.tolist(), items.types.tolist(), items.end.tolist(), strict=True):
            if kind == ItemKind.GUARANTEE:
                for code in self._plain if type == EVERY else (type,):
                    self.known[code] = max(time, self.known.get(code, BEGINNING))
            elif kind == ItemKind.END:
                self._first_row = None
                self._close_tick()
        return self._next.push(items)

    # --- state ---

    def snapshot(self, since: int = 0) -> list[Part]:
        if not self.ordered:
            self._forget()
        self._remember()
        names = self._reader.types
        known = {names[code]: time for code, time in self.known.items() if code >= 0}
        words = {"clock": self.clock, "known": known, "conflicts": self.conflicts}
        rows = {str(at): stored_rows(items) for at, items in enumerate(self.memory.pieces)}
        return [Part("copies", 0, encode("copies", words, rows)), *self._next.snapshot(since)]

    def restore(self, parts: Iterable[Part]) -> None:
        parts = list(parts)
        if not self.saved:
            self._next.restore(parts)
            return
        stored = decode(only_part("copies", parts).data, "copies")
        pieces = self._reader.all(stored.tables.values())
        self._next.restore([part for part in parts if part.id != "copies"])
        codes = {name: code for code, name in enumerate(self._reader.types)}
        known = as_numbers_by_name(stored.words["known"])
        self.clock, self.conflicts = as_number(stored.words["clock"]), as_number(stored.words["conflicts"])
        self.known = {codes[name]: time for name, time in known.items() if name in codes}
        self._recent, self._open = pieces, bool(pieces)
