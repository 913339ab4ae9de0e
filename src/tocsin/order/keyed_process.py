"""A process for each key: a rule reads the events of one key in canonical order and gives answers.

Two ways, one rule. Where answers are never retracted, the rule sees an event when it is settled, so it walks on and
never back: one step an event. Where answers are given at once and corrected, it sees every event that is there, and an
event that comes late rolls its key back (`order/rollback`). Consumption, constraint monitors and staged statements are
such rules; a stream engine calls it a keyed process function, with timers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from tocsin.codec import Decoded, Part, Scalar, as_shape, decode, encode, only_part, reading
from tocsin.encode.auto_eids import AutoEids
from tocsin.encode.batch import one_batch
from tocsin.encode.merge import runs, take
from tocsin.engine.changes import ChangeBatch, Changes, Members
from tocsin.engine.kinds import MATCH
from tocsin.engine.operator import Counters, Nesting, Operator, RemembersAll, Setting
from tocsin.engine.payload import Chunk, Payload
from tocsin.engine.texts import NONE
from tocsin.errors import TocsinError
from tocsin.events import BEGINNING, END_OF_TIME
from tocsin.items import Ints, ItemKind, Items
from tocsin.order.keyed_events import Key, KeyedEvents, NumberedEvent, has_key
from tocsin.order.rollback import Rollback
from tocsin.order.settled import Settled
from tocsin.plan.block import Plan
from tocsin.plan.facts import takes, types_of
from tocsin.plan.rewrite import all_leaves
from tocsin.schema import Kind, fits

MANY = 4096  # rows that are kept before it is asked which of them are needed
Found: TypeAlias = tuple[int, int, "Answer"]  # op, when, what
OWN = ("numbers", "types", "start", "end", "high", "low")  # what a kept row needs beside what results show of it


class Answer(NamedTuple):
    """What a rule has found: for each variable of the query the number of its event, of its events if it is repeated.

    None where a variable is unbound. The kind of row is one of `engine/kinds`.
    """

    events: tuple[int | tuple[int, ...] | None, ...]
    kind: str = MATCH


class EventRule(Protocol):
    """What the events of one key are subject to; see `SequentialRule`, which this is with events as entries.

    A class may inherit from this one, and then writes `begin`, `step` and what else it needs.
    """

    # An answer ends at most so long before the event, or the time, that brings it; None: nobody knows.
    delay: int | None = 0
    # Whether events of one end come in the order of `rank`, and only then in canonical order.
    ranked: bool = False

    def rank(self, event: NumberedEvent) -> int:
        """Where an event stands among those of its end: lower ones come first."""
        del event
        return 0

    def begin(self) -> Any:
        """The state of a key that has had no event."""

    def step(self, state: Any, event: NumberedEvent) -> tuple[Any, Sequence[Answer]]:
        """The state after the next event in canonical order, and what it brings."""

    def uses(self, state: Any) -> Iterable[int]:
        """The numbers of the events that a state may still show in an answer."""
        del state
        return ()

    def due(self, state: Any) -> int:
        """When the rule wants to be told that time is complete; END_OF_TIME: never."""
        del state
        return END_OF_TIME

    def wake(self, state: Any, time: int) -> tuple[Any, Sequence[Answer]]:
        """The state once every event up to `time` was seen, and what that brings; END_OF_TIME: there are no more."""
        del time
        return state, ()

    def check(self, state: Any) -> None:
        """Refuse what was stored as a state and is none, by any exception."""

    def forget(self, state: Any, until: int) -> Any:
        """The state once every later event ends after `until`; equal to `begin()` where nothing is left of it."""
        del until
        return state


def keyed_process(rule: EventRule, key: tuple[str, ...], setting: Setting) -> Operator:
    """The operator of a rule, in place of the detector of a query; for `Query.around`.

    key  the attributes that tell the keys apart: those of the query
    """
    check_key(setting.plan, key)
    process = KeyedProcess(rule, key, setting)
    return process if setting.corrects else Settled(process, setting.time, setting.reader, key)


def check_key(plan: Plan, key: Iterable[str]) -> None:
    """Refuse a key that is not the one by which all events of a query are kept apart: shards divide them by that."""
    keys = dict(plan.key)
    known = {frozenset(keys.get(leaf.id, ())) for leaf in all_leaves(plan)}
    if known != {frozenset(key)}:
        shown = ", ".join(sorted(set().union(*known))) or "none"
        raise TocsinError(
            f"a process by ({', '.join(key)}) does not fit the query",
            detail=f"its key is that of the query, which every variable has: {shown}",
            hint="give the query that key: WHERE [attr], or PARTITION BY attr",
        )


class KeyedProcess(RemembersAll, Nesting):
    """Lets a rule read the events of each key in canonical order, and shows its answers as changes of a query.

    Where the strategy corrects answers, events come in any order. Otherwise they come settled, from `Settled`.
    """

    def __init__(self, rule: EventRule, key: tuple[str, ...], setting: Setting) -> None:
        self.inner: tuple[Operator, ...] = ()
        self._rule, self._key, self._setting, self.at_once = rule, key, setting, setting.corrects
        self._nobody = [variable.repeated for variable in setting.plan.variables]
        self.time = setting.time if self.at_once else replace(setting.time, ordered=True, slack=0, guarantees={})
        self.mine = np.array([takes(setting.plan, type) for type in setting.reader.types] + [False, False])
        self.names = AutoEids()
        self.payload = Payload(ordered=False)
        self.keys = Rollback(rule)
        self.next = 0  # the number of the next event
        self.settled = BEGINNING  # every event that ends at or before this is folded into the states
        self.matches = self.retracted = self.duplicates = 0
        self._enough = MANY

    # --- the one verb ---

    def push(self, items: Items) -> Changes:
        """Take events (settled ones: in order), and what is said of time; answer with what the rule makes of them."""
        found: list[Found] = []
        late: list[int] = []
        at = 0
        for are_rows, run in runs(items.copy() if items.single else items):  # type: ignore[attr-defined]
            if are_rows:
                late += [at + place for place in self._take(run, found)]
            else:
                self.time.hear(run)
            at += len(run)
        found += self._advance()
        changes = Changes(self._changes(found), self._frontier, late)
        self._forget()
        return changes

    def _take(self, items: Items, found: list[Found]) -> list[int]:
        """Number the events and hand them to the rule, or put them into their places; the places of late ones."""
        if len(items):
            self.time.clock = max(self.time.clock, int(items.end.max()) if self.at_once else BEGINNING)
        wanted = self.mine[items.types] & has_key(items, self._key)
        late = wanted & (items.end <= self.settled)
        rows = items if wanted.all() and not late.any() else take(items, wanted & ~late)
        if len(rows):
            batch = KeyedEvents(self.names.named(rows), self.next, self._key, self._setting.reader.strings)
            self.next += len(rows)
            self.payload.add(batch.first, batch.items, None, 0)
            if self.at_once:
                self._place(batch)
            else:
                found += self._walk(batch)
        return np.flatnonzero(late).tolist()

    def _walk(self, batch: KeyedEvents) -> Iterator[Found]:
        """Step over settled events in order; before each, whatever is due."""
        events: Iterable[tuple[Key, NumberedEvent]] = batch.events(self._setting.reader.types)
        if self._rule.ranked:  # a batch has all events of each end
            events = sorted(events, key=lambda each: (each[1].end, self._rule.rank(each[1])))
        for key, event in events:
            yield from ((1, when, answer) for when, answer in self.keys.wake(event.end - 1))
            yield from ((1, event.end, answer) for answer in self.keys.step(key, event))

    def _place(self, batch: KeyedEvents) -> None:
        """Put events into their places, and take withdrawn ones out."""
        items = batch.items
        kinds = [ItemKind.EVENT] * len(items) if items.kinds is None else items.kinds.tolist()
        numbered = zip(batch.events(self._setting.reader.types), batch.places, kinds, strict=True)
        for (key, event), (last, *rest), kind in numbered:
            place = (last, self._rule.rank(event), *rest) if self._rule.ranked else (last, *rest)
            if kind == ItemKind.WITHDRAWAL:
                self.keys.remove(key, place)
            elif not self.keys.insert(key, place, event):
                self.duplicates += 1

    def _advance(self) -> Iterator[Found]:
        """Let time pass: what is due now, or differs from before."""
        time, mine = self.time, types_of(self._setting.plan)
        until = END_OF_TIME if time.ended else max(self.settled, time.open_from(mine, time.clock) - 1)
        if self.at_once:
            relied = time.relied_upon()
            now = END_OF_TIME if time.ended else max(until, min(relied[type] for type in mine))
            clock = max(self.settled, now) if time.ended else time.clock
            yield from ((op, clock, answer) for op, answer in self.keys.advance(END_OF_TIME, now, until))
        elif until > self.settled:
            yield from ((1, when, answer) for when, answer in self.keys.wake(until))
        self.settled = until
        self.names.forget(until)

    @property
    def _frontier(self) -> int:
        if self.time.ended:
            return END_OF_TIME
        return BEGINNING if self._rule.delay is None else max(BEGINNING, self.settled - self._rule.delay)

    # --- answers ---

    def _changes(self, found: list[Found]) -> list[ChangeBatch]:
        """Answers as columns: a batch for each run of one kind."""
        given = sum(op > 0 for op, _, _ in found)
        self.matches, self.retracted = self.matches + given, self.retracted + len(found) - given
        runs_of_kind = groupby(found, key=lambda each: each[2].kind)
        return [self._batch(kind, list(several)) for kind, several in runs_of_kind]

    def _batch(self, kind: str, found: list[Found]) -> ChangeBatch:
        ops, times, answers = zip(*found, strict=True)
        columns = zip(*(answer.events for answer in answers), strict=True)
        fixed, repeated = [], {}
        for index, (column, is_set) in enumerate(zip(columns, self._nobody, strict=True)):
            if is_set:
                counts = [0, *(len(events or ()) for events in column)]
                members = [number for events in column for number in events or ()]
                repeated[index] = Members(np.cumsum(counts), np.array(members, np.int64))
            fixed.append(np.array([-1 if is_set or number is None else number for number in column], np.int64))
        time, setting = self.time, self._setting
        known = {type: time.guaranteed(type, time.clock) for type in types_of(setting.plan)} if self.at_once else None
        return ChangeBatch(
            setting.plan, np.array(ops, np.int8), np.array(times, np.int64), fixed, repeated, self.payload.view([]),
            setting.functions, kind, known,
        )  # fmt: skip

    # --- what is kept ---

    @property
    def _used(self) -> Ints:
        """The numbers of the events that are open, or that a settled state may still show."""
        if self.time.ended:
            return NONE
        used = {entry.what.number for _, entry in self.keys.entries}
        used.update(number for history in self.keys.keys.values() for number in self._rule.uses(history.settled))
        return np.array(sorted(used), np.int64)

    def _forget(self) -> None:
        """Drop the rows of events that no answer can show, whenever there are twice as many as the last time."""
        if self.time.ended or self.payload.count > self._enough:
            self.payload.keep(self._used)
            self._enough = max(MANY, 2 * self.payload.count)

    @property
    def counters(self) -> Counters:
        total = Counters(self.next, self.next, duplicates=self.duplicates)
        total.matches, total.retracted, total.look = self.matches, self.retracted, lambda: self.payload.count
        return total

    @property
    def texts_in_use(self) -> Ints:
        """None: keys, states and open events have the texts themselves."""
        return NONE

    # --- state ---

    def snapshot(self, since: int = 0) -> list[Part]:
        del since
        self.payload.keep(used := self._used)
        rows = self.payload.rows(used)
        words = {
            "time": [self.time.clock, self.time.ended, self.time.guarantees],
            "counts": [self.next, self.settled, self.matches, self.retracted, self.duplicates],
            "keys": [[key, history.settled] for key, history in self.keys.keys.items()],
            "open": [[key, entry.place, entry.what] for key, entry in self.keys.entries],
        }
        own = (rows.numbers, rows.types, rows.start, rows.end, *rows.names)
        arrays: dict[str, Any] = dict(zip(OWN, own, strict=True)) | self.names.saved()
        return [Part("process", 0, encode("process", words, {"rows": rows.table} if len(used) else {}, arrays))]

    def restore(self, parts: Iterable[Part]) -> None:
        stored = decode(only_part("process", parts).data, "process")
        with reading():
            time, counts = as_shape(SavedTime, stored.words["time"]), as_shape(SavedCounts, stored.words["counts"])
            arrays, keys, payload = stored.arrays, Rollback(self._rule), Payload(ordered=False)
            chunk = kept_rows(stored, self._setting.reader.types)
            known = frozenset(() if chunk is None else arrays["numbers"].tolist())
            for key, settled in as_shape(SavedKeys, stored.words["keys"]):
                check_state(self._rule, settled, known)
                keys.resume(tuple(key), settled)
            for key, place, what in as_shape(SavedOpen, stored.words["open"]):
                keys.insert(tuple(key), tuple(place), self._known(NumberedEvent(*what), known))
            if chunk is not None:
                payload.chunks.append(chunk)
                payload.has_eid = True
        self.keys, self.payload = keys, payload
        self.time.clock, self.time.ended, self.time.guarantees = time
        self.next, self.settled, self.matches, self.retracted, self.duplicates = counts
        self.names.restore(arrays)
        for _ in self._advance():  # what is open was answered before
            pass

    def _known(self, event: NumberedEvent, numbers: Collection[int]) -> NumberedEvent:
        """A stored event, if it is one of the rows and has values of the kinds that the query knows."""
        fields = {attr: self._setting.plan.schema.field(event.type, attr) for attr in event.values}
        kinds = {attr: field.kind for attr, field in fields.items() if field is not None}
        if event.number not in numbers or not all(fits(kinds[attr], event.values[attr]) for attr in kinds):
            raise ValueError(f"event {event.number} is not what the query reads")
        return event


# --- what was stored --------------------------------------------------------------------------------------------------

SavedTime: TypeAlias = tuple[int, bool, dict[str, int]]
SavedCounts: TypeAlias = tuple[int, int, int, int, int]
SavedKeys: TypeAlias = list[tuple[list[Scalar], Any]]
SavedOpen: TypeAlias = list[tuple[list[Scalar], list[Any], tuple[int, str, int, int, dict[str, Scalar]]]]


def check_state(rule: EventRule, state: Any, known: Collection[int]) -> None:
    """Refuse a stored state that is none of a rule, or that needs events which were not stored with it."""
    rule.check(state)
    if not all(number in known for number in rule.uses(state)):
        raise ValueError("a state needs an event that is not there")


def kept_rows(stored: Decoded, codes: Sequence[str]) -> Chunk | None:
    """The rows that were stored beside states, by the numbers of their events; None if there are none."""
    columns = [stored.arrays[name] for name in OWN]
    numbers, types, start, end, high, low = columns
    if not len(numbers):
        return None
    rows = one_batch(stored.tables["rows"])
    whole = {each.shape for each in columns} == {(rows.num_rows,)} and all(each.dtype.kind in "iu" for each in columns)
    if not whole or not (np.diff(numbers) > 0).all() or numbers[0] < 0 or (start > end).any():
        raise ValueError("the rows of events do not fit together")
    if types.min() < 0 or types.max() >= len(codes):
        raise ValueError("an event has a type that is none")
    return Chunk(0, rows, types, start, end, high, low, numbers, last_end=int(end.max()))


def kinds_of(plan: Plan, attr: str) -> frozenset[Kind]:
    """The kinds that an attribute has in the types which a query reads."""
    fields = (plan.schema.field(type, attr) for type in types_of(plan))
    return frozenset(field.kind for field in fields if field is not None)
