"""A consumption mode over columns: settled events in, matches out, and no object for any of them.

Its snapshot is that of a `KeyedProcess` with the rule of the mode: the same words for the same state.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tocsin.codec import Part, as_shape, decode, encode, only_part, reading
from tocsin.encode.auto_eids import AutoEids
from tocsin.encode.batch import one_batch
from tocsin.encode.merge import runs, take
from tocsin.engine.changes import ChangeBatch, Changes, Members
from tocsin.engine.operator import Counters, Nesting, Operator, RemembersAll, Setting
from tocsin.engine.payload import Chunk, Payload
from tocsin.events import BEGINNING, END_OF_TIME
from tocsin.items import Ints, Items
from tocsin.order.keyed_events import has_key
from tocsin.order.keyed_process import OWN, SavedCounts, SavedKeys, SavedTime, check_state, kept_rows, kinds_of
from tocsin.plan.facts import types_of
from tocsin.schema import Kind, fits
from tocsin.select.consumption import rule_of
from tocsin.select.key_codes import KeyCodes
from tocsin.select.mode_state import ModeState
from tocsin.select.standing_columns import StandingColumns, bits_of
from tocsin.select.tied_rows import in_canonical_order

MANY = 1 << 18  # rows that are kept before it is asked which of them are needed
MANY_KEYS = 1 << 12


class ConsumedColumns(RemembersAll, Nesting):
    """Takes events in the order of their ends, all of one end in one push, and guarantees."""

    def __init__(self, setting: Setting, *, jit: bool) -> None:
        plan, reader = setting.plan, setting.reader
        assert plan.consume is not None
        self.inner: tuple[Operator, ...] = ()
        self._plan, self._setting, self._consume, self._jit = plan, setting, plan.consume, jit
        self.time = replace(setting.time, ordered=True, slack=0, guarantees={})
        self._mine = types_of(plan)
        self.keys = KeyCodes(plan.needs, reader.strings, jit=jit)
        self.state = self._fresh()
        self._standing = StandingColumns(
            plan, bits_of(plan.consume), reader.types, reader.strings, setting.functions, jit=jit
        )
        self.payload = Payload(ordered=False)
        self.next = 0  # the number of the next event
        self.settled = BEGINNING  # every event that ends at or before this has been taken
        self.matches = 0
        self._steps = (1 << len(plan.consume.steps)) - 1
        self._rule = rule_of(plan, setting.functions)
        self._enough, self._enough_keys = MANY, MANY_KEYS

    def _fresh(self) -> ModeState:
        return ModeState(self._consume, self._plan.within, jit=self._jit)

    # --- the one verb ---

    def push(self, items: Items) -> Changes:
        """Take events, and what is said of time; answer with their matches."""
        found: list[tuple[Ints, Ints]] = []
        late: list[int] = []
        at = 0
        for are_rows, run in runs(items):
            if are_rows:
                behind = run.end <= self.settled
                late += (at + np.flatnonzero(behind)).tolist()
                found += self._take(take(run, ~behind) if behind.any() else run)
            else:
                self.time.hear(run)
            at += len(run)
        changes = Changes([self._batch(*each) for each in found], late=late)
        time = self.time
        until = END_OF_TIME if time.ended else max(self.settled, time.open_from(self._mine, time.clock) - 1)
        self.settled = until
        changes.frontier = until
        self._forget()
        return changes

    def _take(self, items: Items) -> list[tuple[Ints, Ints]]:
        first, self.next = self.next, self.next + len(items)
        rows, bits = self._standing.of(items)
        if self._plan.needs and not (seen := has_key(items, self._plan.needs)).all():
            bits[~seen] = 0
            rows = rows[seen[rows]]
        if not len(rows):
            return []
        codes, start, end = (
            self.keys.of(items, rows),
            np.ascontiguousarray(items.start),
            np.ascontiguousarray(items.end),
        )
        ties = self.keys.arrange(rows, codes, bits, start, end, self._steps)
        if ties is not None:
            rows, codes = in_canonical_order(items, bits & self._steps, rows, codes, np.flatnonzero(ties))
        self.payload.add(first, items, None if 4 * len(rows) > len(items) else bits != 0, int(end[-1]))
        self.state.room_for(self.keys.count)
        return self.state.run(rows, codes, bits, start, end, first)

    # --- answers ---

    def _batch(self, answers: Ints, members: Ints) -> ChangeBatch:
        """Rows of the loops as columns of event numbers."""
        consume, count = self._consume, len(answers)
        nobody = np.full(count, -1, np.int64)
        fixed, repeated = [nobody] * len(self._plan.variables), {}
        if consume.sets:
            sizes = answers[:, 1 : 1 + len(consume.sets)]
            begins = (np.cumsum(sizes.ravel()) - sizes.ravel()).reshape(sizes.shape)
        for step, place in enumerate(consume.places):
            if step not in consume.sets:
                fixed[place] = answers[:, step + 1]
                continue
            counts, offsets = sizes[:, step], np.zeros(count + 1, np.int64)
            np.cumsum(counts, out=offsets[1:])
            inside = np.arange(offsets[-1]) + np.repeat(begins[:, step] - offsets[:-1], counts)
            repeated[place] = Members(offsets, members[inside])
        self.matches += count
        return ChangeBatch(
            self._plan, np.ones(count, np.int8), answers[:, 0].copy(), fixed, repeated, self.payload.view([]),
            self._setting.functions,
        )  # fmt: skip

    # --- what is kept ---

    def _forget(self) -> None:
        """Drop keys under which nothing waits, and rows of which nothing does, when there are twice as many."""
        if self.keys.count > self._enough_keys:
            self._forget_keys()
        if self.time.ended:
            self.payload.chunks = []
        elif self._plan.within is not None:  # what waits began within a window, and shows nothing older
            self.payload.tidy(self.settled - self._plan.within)
        elif self.payload.count > self._enough:
            self._keep(self.state.used)
            self._enough = max(MANY, 2 * self.payload.count)

    def _forget_keys(self) -> None:
        count, within = self.keys.count, self._plan.within
        if not self._plan.needs:
            return
        alive = self.state.waiting(count)
        if within is not None:
            alive &= self.keys.seen[:count] + within > self.settled
        if not alive.all():
            self.state.keep(count, alive)
            self.keys.keep(alive)
        self._enough_keys = max(MANY_KEYS, 2 * self.keys.count)

    def _keep(self, used: Ints) -> None:
        """Keep the rows of some events, with their eids: rows that are equal to them may go."""
        if not len(used):
            self.payload.chunks = []
            return
        rows = self.payload.rows(used)
        high, low = rows.names
        table = rows.table
        names = [name for name in table.schema.names if name != "eid"]
        table = table.select(names).append_column("eid", rows.eids)
        own = (rows.types, rows.start, rows.end, high, low, used)
        self.payload.chunks = [Chunk(0, one_batch(table), *own, last_end=int(rows.end.max()))]
        self.payload.has_eid = True

    @property
    def counters(self) -> Counters:
        total = Counters(self.next, self.next)
        total.matches, total.look = self.matches, lambda: self.payload.count
        return total

    @property
    def texts_in_use(self) -> Ints:
        return self.keys.texts

    # --- state ---

    def snapshot(self, since: int = 0) -> list[Part]:
        del since
        self._forget_keys()
        rule, begin = self._rule, self._rule.begin()
        waiting: Any = (rule.forget(self.state.plain(code), self.settled) for code in range(self.keys.count))
        saved = [[key, state] for key, state in zip(self.keys.plain(), waiting, strict=True) if state != begin]
        used = np.array(sorted({number for _, state in saved for number in rule.uses(state)}), np.int64)
        words = {
            "time": [self.time.clock, self.time.ended, self.time.guarantees],
            "counts": [self.next, self.settled, self.matches, 0, 0],
            "keys": saved,
            "open": [],
        }
        self._keep(used)
        rows = self.payload.rows(used)
        own = (used, rows.types, rows.start, rows.end, *rows.names) if len(used) else (*[np.zeros(0, np.int64)] * 6,)
        arrays: dict[str, Any] = dict(zip(OWN, own, strict=True)) | AutoEids().saved()
        return [Part("process", 0, encode("process", words, {"rows": rows.table} if len(used) else {}, arrays))]

    def restore(self, parts: Iterable[Part]) -> None:
        stored = decode(only_part("process", parts).data, "process")
        with reading():
            time, counts = as_shape(SavedTime, stored.words["time"]), as_shape(SavedCounts, stored.words["counts"])
            saved, state = as_shape(SavedKeys, stored.words["keys"]), self._fresh()
            chunk = kept_rows(stored, self._setting.reader.types)
            known = frozenset(() if chunk is None else stored.arrays["numbers"].tolist())
            for code, (_, waiting) in enumerate(saved):
                check_state(self._rule, waiting, known)
                state.load(code, waiting)
            keys = [tuple(key) for key, _ in saved]
            kinds = [kinds_of(self._plan, attr) for attr in self._plan.needs]
            if not all(_is_key(key, kinds) for key in keys):
                raise ValueError("a key has values of another kind")
        self.state, self.payload = state, Payload(ordered=False)
        self.keys = KeyCodes(self._plan.needs, self._setting.reader.strings, jit=self._jit)
        self.keys.load(keys, counts[1])
        if chunk is not None:
            self.payload.chunks, self.payload.has_eid = [chunk], True
        self.time.clock, self.time.ended, self.time.guarantees = time
        self.next, self.settled, self.matches = counts[:3]


def _is_key(key: Sequence[Any], kinds: Sequence[Collection[Kind]]) -> bool:
    pairs = zip(key, kinds, strict=True)
    return all(value is not None and any(fits(kind, value) for kind in mine) for value, mine in pairs)
