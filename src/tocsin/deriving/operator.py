"""The operator of a definition of intervals, in place of a detector: settled readings in, intervals out, as columns.

It reads what is settled, under every strategy: an interval is given once, when nothing can change it any more, and is
never withdrawn (decision 0035).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from tocsin.codec import Part, as_shape, decode, encode, only_part, reading
from tocsin.deriving.folds import FoldWords
from tocsin.deriving.state import KeyedRows, OpenPairs, OpenRuns, open_intervals
from tocsin.deriving.words import (
    ANSWER,
    BEGINS,
    CODE,
    END,
    ENDS,
    ENDS_ALSO,
    KIND,
    KNOWN,
    OCCURRENCE,
    OF,
    START,
    UNENDED,
    UNPAIRED,
    WHOLE,
)
from tocsin.encode.auto_eids import AutoEids
from tocsin.encode.content import Words, hex_texts, mixed
from tocsin.encode.eids import hash_texts
from tocsin.encode.merge import runs, take
from tocsin.engine import kinds
from tocsin.engine.changes import ChangeBatch, Changes, arrow_type
from tocsin.engine.operator import Counters, Nesting, Operator, RemembersAll, Setting
from tocsin.engine.payload import Chunk, View
from tocsin.engine.texts import joined
from tocsin.events import BEGINNING, END_OF_TIME, interval_seed
from tocsin.items import Ints, ItemKind, Items
from tocsin.order.keyed_events import has_key
from tocsin.order.settled import SettledByEnd
from tocsin.plan.derived_form import LABEL
from tocsin.schema import Kind
from tocsin.select.key_codes import KeyCodes
from tocsin.select.standing_columns import StandingColumns
from tocsin.select.tied_rows import in_canonical_order

MANY_KEYS = 1 << 12  # keys that are kept before it is asked under which of them anything is open
ROW_KINDS = {WHOLE: kinds.MATCH, UNPAIRED: kinds.UNPAIRED, UNENDED: kinds.UNENDED}


def deriving(setting: Setting, *, jit: bool) -> SettledByEnd:
    """The operator of a definition, behind one that gives it readings when they are settled."""
    return SettledByEnd(DerivedIntervals(setting, jit=jit), setting.time, setting.reader, setting.plan.needs)


class DerivedIntervals(RemembersAll, Nesting):
    """Takes readings in the order of their ends, all of one end in one push, and guarantees."""

    def __init__(self, setting: Setting, *, jit: bool) -> None:
        plan, reader = setting.plan, setting.reader
        assert plan.derived is not None
        self.inner: tuple[Operator, ...] = ()
        self._setting, self._plan, self._form, self._jit = setting, plan, plan.derived, jit
        self._bits = {role: 1 << at for at, role in enumerate(plan.derived.roles)}
        self._standing = StandingColumns(plan, self._bits, reader.types, reader.strings, setting.functions, jit=jit)
        self._folds = FoldWords(plan.derived.folds, reader.strings)
        labels = [interval_seed(label) for label in (*plan.derived.labels, kinds.UNPAIRED)]
        self._label_seeds: Words = np.array(labels, np.uint64).T
        self._fresh()
        self.settled, self.ended = BEGINNING, False  # every reading that ends at or before this has been taken
        self.seen = self.matches = 0

    def _fresh(self) -> None:
        self.keys = KeyCodes(self._plan.needs, self._setting.reader.strings, jit=self._jit)
        self.open: OpenRuns | OpenPairs = open_intervals(self._form, self._folds, jit=self._jit)
        self.open.room_for(self.keys.count)
        self._enough, self._seeds = MANY_KEYS, np.zeros((2, 0), np.uint64)

    # --- the one verb ---

    def push(self, items: Items) -> Changes:
        """Take settled readings, and how far they are complete; answer with the intervals that are over."""
        found: list[Ints] = []
        for are_rows, run in runs(items.copy() if items.single else items):  # type: ignore[attr-defined]
            found += [*self._take(run), *self._passed(int(run.end.max()))] if are_rows else self._hear(run)
        batches = self._batches(np.concatenate(found)) if found else []
        self._forget_keys()
        return Changes(batches, END_OF_TIME if self.ended else self.open.frontier(self.settled))

    def _hear(self, items: Items) -> list[Ints]:
        """Let time pass as far as readings are complete."""
        assert items.kinds is not None
        found: list[Ints] = []
        for kind, time in zip(items.kinds.tolist(), items.end.tolist(), strict=True):
            if kind == ItemKind.END and not self.ended:
                self.ended = True
                found += self.open.ends()
            elif kind == ItemKind.GUARANTEE:
                found += self._passed(time)
        return found

    def _passed(self, time: int) -> list[Ints]:
        """All readings that end at or before a time were there."""
        if time <= self.settled:
            return []
        self.settled = time
        return self.open.due(time)

    def _take(self, items: Items) -> list[Ints]:
        self.seen += len(items)
        rows, bits = self._standing.of(items)
        if self._plan.needs:
            rows = rows[has_key(items, self._plan.needs)[rows]]
        if not len(rows):
            return []
        codes = self.keys.of(items, rows)
        start, end = np.ascontiguousarray(items.start), np.ascontiguousarray(items.end)
        ranks = bits if self._form.kind == "pairs" else np.zeros_like(bits)
        ties = self.keys.arrange(rows, codes, ranks, start, end, 3)
        if ties is not None:
            rows, codes = in_canonical_order(items, ranks, rows, codes, np.flatnonzero(ties))
        roles = codes[:0]
        if self._form.kind == "pairs":
            rows, codes, roles = self._parts(items, bits, rows, codes)
        self.open.room_for(self.keys.count)
        values, known = self._folds.of(items)
        return self.open.follow(KeyedRows(rows, codes, roles, bits, end, values, known))

    def _parts(self, items: Items, bits: Ints, rows: Ints, codes: Ints) -> tuple[Ints, Ints, Ints]:
        """What each row is for a pair. One that ends and begins stands twice, the second time among the begins."""
        begins, ends = (bits[rows] & self._bits[role] != 0 for role in self._form.roles)
        both = begins & ends
        roles = np.where(both, ENDS_ALSO, np.where(ends, ENDS, BEGINS))
        if not both.any():
            return rows, codes, roles
        rows = np.concatenate((rows, rows[both]))
        codes = np.concatenate((codes, codes[both]))
        roles = np.concatenate((roles, np.full(np.count_nonzero(both), BEGINS)))
        named = AutoEids().named(take(items, rows))
        order = np.lexsort((named.eid_low, named.eid_high, named.start, roles == BEGINS, codes, named.end))  # type: ignore[arg-type]
        return rows[order], codes[order], roles[order]

    # --- answers ---

    def _batches(self, found: Ints) -> list[ChangeBatch]:
        """Answers as columns, in an order that does not depend on batches: one batch for each run of a kind."""
        if not len(found):
            return []
        words = self._eid_words(found)
        order = np.lexsort((words[:, 1], words[:, 0], found[:, START], found[:, END], found[:, KNOWN]))
        found = found[order]
        eids = hex_texts([words[order, lane] for lane in (0, 1)])
        high, low = hash_texts(eids)
        cuts = [0, *(np.flatnonzero(np.diff(found[:, KIND])) + 1).tolist(), len(found)]
        return [
            self._batch(found[one:other], eids.slice(one, other - one), high[one:other], low[one:other])
            for one, other in pairwise(cuts)
        ]

    def _eid_words(self, found: Ints) -> Words:
        """`events.interval_eid` of all answers at once, as numbers."""
        start, occurrence = (found[:, word].view(np.uint64) for word in (START, OCCURRENCE))
        of_label = np.where(found[:, KIND] == UNPAIRED, len(self._form.labels), found[:, OF])
        lanes = []
        for lane in (0, 1):
            seeds = self._key_seeds(found[:, CODE])[lane] ^ self._label_seeds[lane, of_label]
            lanes.append(mixed(mixed(seeds + start) + occurrence))
        words: Words = np.stack(lanes, axis=1)
        return words

    def _key_seeds(self, codes: Ints) -> Words:
        """The seeds of keys, by code; they are made when a key first has an answer."""
        room = self.keys.count - self._seeds.shape[1]
        if room > 0:
            self._seeds = np.concatenate((self._seeds, np.zeros((2, room + self.keys.count), np.uint64)), axis=1)
        unknown = np.unique(codes[self._seeds[0, codes] == 0])
        if len(unknown):
            made = [interval_seed(self._plan.fingerprint, *key) for key in self.keys.some(unknown)]
            self._seeds[:, unknown] = np.array(made, np.uint64).T
        return self._seeds[:, codes]

    def _batch(self, found: Ints, eids: pa.Array, high: Ints, low: Ints) -> ChangeBatch:
        """Intervals as rows of their own, which are what the variable of the plan is bound to."""
        plan, count, kind = self._plan, len(found), ROW_KINDS[int(found[0, KIND])]
        labels = pa.array(self._form.labels).take(pa.array(found[:, OF]))
        start, end = np.ascontiguousarray(found[:, START]), np.ascontiguousarray(found[:, END])
        head = {"type": labels, "start": pa.array(start), "end": pa.array(end), "eid": eids}
        head |= self._columns(found, labels)
        rows = pa.RecordBatch.from_arrays(list(head.values()), list(head))
        numbers = np.arange(count, dtype=np.int64)
        chunk = Chunk(0, rows, np.zeros(count, np.int32), start, end, high, low)
        self.matches += count if kind == kinds.MATCH else 0
        known = np.ascontiguousarray(found[:, KNOWN])
        op = np.ones(count, np.int8)
        return ChangeBatch(plan, op, known, [numbers], {}, View([chunk]), self._setting.functions, kind)

    def _columns(self, found: Ints, labels: pa.Array) -> dict[str, pa.Array]:
        """The label, the key and what SELECT says of each interval."""
        columns: dict[str, pa.Array] = {LABEL: labels} if self._form.definition.states else {}
        outputs = {output.name: output.expr for output in self._plan.outputs}
        codes, inside = np.unique(found[:, CODE], return_inverse=True)
        keys = zip(*self.keys.some(codes), strict=True)  # of each key once
        for attr, values in zip(self._plan.needs, keys, strict=False):
            columns[attr] = _as_column(values, outputs[attr].kind, outputs[attr].scale).take(pa.array(inside))
        for at, fold in enumerate(self._form.folds):
            columns[fold.column] = self._folds.column(at, found[:, ANSWER + 2 * at : ANSWER + 2 * at + 2])
        return columns

    # --- what is kept ---

    def _forget_keys(self) -> None:
        """Drop keys under which nothing is open, when there are twice as many as the last time."""
        if self.keys.count <= self._enough or not self._plan.needs:
            return
        count = self.keys.count
        alive = self.open.open_keys[:count] | (self.keys.seen[:count] > self.settled)
        if not alive.all():
            self.open.keep(count, alive)
            self.keys.keep(alive)
            self._seeds = np.zeros((2, 0), np.uint64)
        self._enough = max(MANY_KEYS, 2 * self.keys.count)

    @property
    def counters(self) -> Counters:
        total = Counters(self.seen, self.seen)
        total.matches, total.look = self.matches, lambda: self.open.count
        return total

    @property
    def texts_in_use(self) -> Ints:
        return joined([self.keys.texts, self.open.texts])

    # --- state ---

    def snapshot(self, since: int = 0) -> list[Part]:
        del since
        saved = [[key, self.open.plain(code)] for code, key in enumerate(self.keys.plain()[: self.keys.count])]
        words = {
            "open": [each for each in saved if each[1]],
            "counts": [self.settled, self.seen, self.matches],
            "ended": self.ended,
        }
        return [Part("intervals", 0, encode("intervals", words))]

    def restore(self, parts: Iterable[Part]) -> None:
        stored = decode(only_part("intervals", parts).data, "intervals")
        with reading():
            saved: list[Any] = stored.words["open"]
            settled, seen, matches = stored.words["counts"]
            keys = KeyCodes(self._plan.needs, self._setting.reader.strings, jit=self._jit)
            keys.load([tuple(key) for key, _ in saved], settled)
            open = open_intervals(self._form, self._folds, jit=self._jit)
            open.room_for(keys.count)
            for code, (_, words) in enumerate(saved):
                open.load(code, words)
            ended = as_shape(bool, stored.words["ended"])
        self._fresh()
        self.keys, self.open = keys, open
        self.settled, self.seen, self.matches, self.ended = settled, seen, matches, ended


def _as_column(values: Sequence[Any], kind: Kind, scale: int) -> pa.Array:
    """The values of an attribute of keys, as results show them."""
    if kind is Kind.DECIMAL:
        values = [Decimal(str(value)) for value in values]
    elif kind is Kind.TIME:
        return pa.array(values, pa.int64()).cast(arrow_type(kind))
    elif kind in (Kind.BOOL, Kind.FLOAT):
        values = [bool(value) if kind is Kind.BOOL else float(value) for value in values]
    return pa.array(values, arrow_type(kind, scale))
