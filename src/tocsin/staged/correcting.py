"""A statement that answers at once and corrects itself: late events roll their global partition back to their stage.

The entries of a partition are its stages (`order/rollback`): all of its events of one end. A stage that changes is
gone through again from the state before it, those behind it as far as they find another state, and what they find now
is compared with what was given.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from tocsin.codec import Part, Scalar, as_number, as_numbers, as_shape, decode, encode, only_part, reading
from tocsin.encode.auto_eids import AutoEids
from tocsin.encode.merge import runs, take
from tocsin.engine.changes import ChangeBatch, Changes
from tocsin.engine.operator import Counters, Nesting, Operator, RemembersAll, Setting
from tocsin.engine.texts import NONE
from tocsin.events import BEGINNING, END_OF_TIME
from tocsin.items import Ints, ItemKind, Items
from tocsin.order.rollback import Rollback
from tocsin.plan.facts import types_of
from tocsin.plan.staged_places import tells_creation
from tocsin.staged.answers import batch_of
from tocsin.staged.contexts import SavedKey, loaded_key
from tocsin.staged.event import StagedEvent
from tocsin.staged.event_columns import EventColumns
from tocsin.staged.machine import Found, Machine, SavedEvent
from tocsin.staged.partition_keys import Key

Place: TypeAlias = tuple[int, int, int, str]  # of an event among those of its end: start, the eid's numbers, type


COUNTS = ("settled", "seen", "matches", "retracted", "duplicates")
SavedPlace: TypeAlias = tuple[int, Scalar, Scalar, str]  # the numbers of an eid fill 64 bits
SavedTime: TypeAlias = tuple[int, bool, dict[str, int]]


class StageEvents(NamedTuple):
    """The events of one end in one global partition, in canonical order; they get their numbers when it is reached."""

    key: Key
    end: int
    events: tuple[StagedEvent, ...]


class PartitionRule:
    """What happens to the stages of one global partition; the state is what the machine saves of it.

    created  when the statement was created: it may still come earlier than it was thought
    """

    def __init__(self, setting: Setting) -> None:
        assert setting.plan.staged is not None
        form = setting.plan.staged
        self.machine = Machine(form.statement, setting.plan.schema.unit, dict(form.longest))
        self.created: int | None = None

    def begin(self) -> Any:
        """Nothing has happened: the partition is not there."""
        return None

    def step(self, state: Any, stage: StageEvents) -> tuple[Any, list[tuple[int, Found]]]:
        machine = self._at(state)
        events = [StagedEvent(machine.next + at, *event[1:]) for at, event in enumerate(stage.events)]
        machine.next += len(events)
        found = machine.stage_in(stage.key, stage.end, machine.parts_of(events)[stage.key])
        return self._state(stage.end), [(stage.end, each) for each in found]

    def due(self, state: Any) -> int:
        return END_OF_TIME if state is None else int(state["due"])

    def wake(self, state: Any, time: int) -> tuple[Any, list[tuple[int, Found]]]:
        """Timers that are due form stages of their own; at the end of the input nothing fires any more."""
        if time == END_OF_TIME:
            return state, []
        found = self._at(state).advance(time)
        return self._state(time), [(now, each) for now, stage in found for each in stage]

    def forget(self, state: Any, until: int) -> Any:
        """A partition that can be forgotten has no state already."""
        del until
        return state

    def check(self, state: Any) -> Sequence[Mapping[str, Any]]:
        """Refuse what was stored as a state and is none, by any exception; the attributes of its events."""
        if state is None:
            return ()
        as_number(state["due"])
        self.machine.load(state)
        return [values for *_, values in state["events"]]

    def _at(self, state: Any) -> Machine:
        empty = {"clock": BEGINNING, "next": 0, "partitions": [], "events": [], "created": None}
        self.machine.go_on(empty if state is None else state)
        self.machine.created = self.created
        return self.machine

    def _state(self, now: int) -> Any:
        machine = self.machine
        machine.clock = now
        return machine.save() | {"due": machine.due} if machine.partitions else None


class CorrectingProcess(RemembersAll, Nesting):
    """Takes events in any order, and withdrawals, and shows what the rule makes of them as changes."""

    def __init__(self, setting: Setting) -> None:
        self.inner: tuple[Operator, ...] = ()
        self._setting, self.time = setting, setting.time
        self._types = types_of(setting.plan)
        self._columns, self._rule = EventColumns(setting), PartitionRule(setting)
        self.keys = Rollback(self._rule)
        self.names = AutoEids()
        self.open: dict[int, dict[Place, StagedEvent]] = {}  # all events that are not settled, by their ends
        self.settled = BEGINNING
        self.seen = self.matches = self.retracted = self.duplicates = 0
        self._tells_creation = tells_creation(self._rule.machine.statement)

    # --- the one verb ---

    def push(self, items: Items) -> Changes:
        """Take events, and what is said of time; answer with what has become of the stages that they belong to."""
        late: list[int] = []
        at = 0
        for are_rows, run in runs(items.copy() if items.single else items):  # type: ignore[attr-defined]
            if are_rows:
                late += [at + place for place in self._take(run)]
            else:
                self.time.hear(run)
            at += len(run)
        found = list(self._advance())
        return Changes(self._changes(found), END_OF_TIME if self.time.ended else self.settled, late)

    def _take(self, items: Items) -> list[int]:
        """Put events into their stages, take withdrawn ones out; the places of those that come too late."""
        if len(items):
            self.time.clock = max(self.time.clock, int(items.end.max()))
        mine = self._columns.places(items)
        late: list[int] = mine[items.end[mine] <= self.settled].tolist()
        rows = self.names.named(take(items, mine[items.end[mine] > self.settled]))
        if not len(rows):
            return late
        assert rows.eid_high is not None and rows.eid_low is not None
        self.seen += len(rows)
        kinds = [ItemKind.EVENT] * len(rows) if rows.kinds is None else rows.kinds.tolist()
        read = self._columns.rows(rows, np.arange(len(rows)))
        touched: dict[tuple[Key, int], None] = {}
        for row, high, low, kind in zip(read, rows.eid_high.tolist(), rows.eid_low.tolist(), kinds, strict=True):
            event = StagedEvent(0, *row)
            place = event.start, high, low, event.type
            stage = self.open.setdefault(event.end, {})
            if kind == ItemKind.WITHDRAWAL:
                found = stage.pop(place, None)
            else:
                found = None if place in stage else event
                stage.setdefault(place, event)
                self.duplicates += found is None
            for key in self._rule.machine.parts_of([found]) if found is not None else ():
                touched[key, event.end] = None
        for key, end in touched:
            self._put(key, end)
        self._recreate()
        return late

    def _put(self, key: Key, end: int) -> None:
        """The stage of a partition as its events are now."""
        stage = self.open[end]
        events = tuple(stage[place] for place in sorted(stage) if key in self._rule.machine.parts_of([stage[place]]))
        self.keys.remove(key, (end,))
        if events:
            self.keys.insert(key, (end,), StageEvents(key, end, events))

    def _recreate(self) -> None:
        """A statement is created with the first event that it reads: while that can change, so can what was found."""
        before = self._rule.created
        if before is not None and before <= self.settled:
            return
        first = min((end for end, stage in self.open.items() if stage), default=None)
        if first != before:
            self._rule.created = first
            if before is not None and self._tells_creation:
                self.keys.begin_again()

    def _advance(self) -> Iterator[tuple[int, tuple[int, Found]]]:
        """Let time pass: what differs from before. Timers fire when the clock has passed them."""
        time = self.time
        until = END_OF_TIME if time.ended else max(self.settled, time.open_from(self._types, time.clock) - 1)
        now = END_OF_TIME if time.ended else max(until, time.clock - 1)
        yield from self.keys.advance(END_OF_TIME, now, until)
        self.settled = until
        self.names.forget(until)
        for end in [end for end in self.open if end <= until]:
            del self.open[end]

    # --- answers ---

    def _changes(self, found: list[tuple[int, tuple[int, Found]]]) -> list[ChangeBatch]:
        """What was given and withdrawn, in this order: withdrawals free the names of what replaces them."""
        time = self.time
        known = {type: time.guaranteed(type, time.clock) for type in self._types}
        at = max(self.settled, BEGINNING) if time.ended else time.clock
        batches = []
        for op, several in groupby(found, key=lambda each: each[0]):
            batch = batch_of(self._setting, [answer for _, answer in several])
            batch.op[:], batch.known_at, batch.known = op, np.full(len(batch), at), known
            batches.append(batch)
            self.matches += len(batch) if op > 0 else 0
            self.retracted += len(batch) if op < 0 else 0
        return batches

    # --- what hosts ask ---

    @property
    def counters(self) -> Counters:
        total = Counters(self.seen, self.seen, duplicates=self.duplicates)
        total.matches, total.retracted = self.matches, self.retracted
        total.look = lambda: sum(map(len, self.open.values()))
        return total

    @property
    def texts_in_use(self) -> Ints:
        """None: partitions and events have the texts themselves."""
        return NONE

    # --- state ---

    def snapshot(self, since: int = 0) -> list[Part]:
        del since
        words = {
            "time": [self.time.clock, self.time.ended, self.time.guarantees],
            "counts": [getattr(self, name) for name in COUNTS],
            "created": self._rule.created,
            "open": [[place, event] for stage in self.open.values() for place, event in stage.items()],
            "keys": [[key, history.settled] for key, history in self.keys.keys.items()],
        }
        return [Part("correcting", 0, encode("correcting", words, {}, self.names.saved()))]

    def restore(self, parts: Iterable[Part]) -> None:
        stored = decode(only_part("correcting", parts).data, "correcting")
        with reading():
            clock, ended, guarantees = as_shape(SavedTime, stored.words["time"])
            counts, created = as_numbers(stored.words["counts"]), as_shape(int | None, stored.words["created"])
            keys = Rollback(self._rule)
            opened: dict[int, dict[Place, StagedEvent]] = {}
            for key, settled in as_shape(list[tuple[SavedKey, Any]], stored.words["keys"]):
                self._columns.check(self._rule.check(settled))
                keys.resume(loaded_key(key), settled)
            for place, event in as_shape(list[tuple[SavedPlace, SavedEvent]], stored.words["open"]):
                found = StagedEvent(*event)
                opened.setdefault(found.end, {})[place] = found
            self._columns.check(event.values for stage in opened.values() for event in stage.values())
            if len(counts) != len(COUNTS):
                raise ValueError("counts are missing")
        self.keys, self.open, self._rule.created = keys, opened, created
        self.time.clock, self.time.ended, self.time.guarantees = clock, ended, dict(guarantees)
        for name, count in zip(COUNTS, counts, strict=True):
            setattr(self, name, count)
        self.names.restore(stored.arrays)
        for end, stage in self.open.items():
            for key in self._rule.machine.parts_of(stage.values()):
                self._put(key, end)
        for _ in self._advance():  # what is open was answered before
            pass
