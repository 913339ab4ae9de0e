"""The operator of a staged statement, in place of a detector: settled events in, complex events out, as columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa

from tocsin.codec import Part, decode, encode, only_part, reading
from tocsin.encode.auto_eids import AutoEids
from tocsin.encode.eids import hash_texts
from tocsin.encode.merge import runs, sliced, take
from tocsin.engine.changes import ChangeBatch, Changes, arrow_type
from tocsin.engine.operator import Counters, Operator, RemembersAll, Setting
from tocsin.engine.payload import Chunk, View
from tocsin.engine.texts import NONE
from tocsin.errors import TocsinError
from tocsin.events import END_OF_TIME
from tocsin.items import Column, Ints, ItemKind, Items, Strings
from tocsin.order.settled import Settled, SettledByEnd
from tocsin.plan.block import Plan
from tocsin.schema import Field, Kind
from tocsin.staged.compiled.bodies import Body
from tocsin.staged.compiled.choice import AT_ONCE, Choice, fields_of
from tocsin.staged.compiled.machine import CompiledMachine
from tocsin.staged.event import StagedEvent
from tocsin.staged.machine import Found, Machine
from tocsin.staged.partition_keys import key_text


def staged_operator(setting: Setting, *, jit: bool) -> Settled:
    """The operator of a staged statement, behind one that gives it settled events, those of one end together."""
    return SettledByEnd(StagedProcess(setting, jit=jit), setting.time, setting.reader)


def refuse_corrections(plan: Plan, corrects: bool) -> None:
    """Refuse a strategy that answers before events are settled."""
    if corrects:
        raise TocsinError(
            f"the statement {plan.title} reads events in order, and cannot correct what it has answered",
            hint='use order="slack(...)" or "conservative(...)": they wait for late events',
        )


def refuse_limit(plan: Plan, limit: int | None) -> None:
    """Refuse a limit of memory, which nothing would keep: what operands collect does not go to disk."""
    if limit is not None:
        raise TocsinError(
            f"the statement {plan.title} keeps in memory what its operands collect",
            hint="leave memory_limit out; windows (rows, range), consume and Term bound what is kept",
        )


class StagedProcess(RemembersAll):
    """Feeds settled events to the machine of a statement, stage by stage, and makes columns of what it finds.

    The machine is plain Python until the compiled one is there, which goes on from its state.
    """

    def __init__(self, setting: Setting, *, jit: bool) -> None:
        form = setting.plan.staged
        assert form is not None
        self.inner: tuple[Operator, ...] = ()
        self._setting, self._form = setting, form
        self._fields = fields_of(form, setting.plan.schema)
        kinds = [output.expr.kind for output in setting.plan.outputs]
        self._choice = Choice(form.statement, self._fields, setting.plan.schema.unit, kinds, jit=jit)
        self.machine: Machine | CompiledMachine = self._plain()
        self._mine = np.array([type in dict(form.reads) for type in setting.reader.types])
        self.ended = False
        self.seen = self.matches = 0

    def _plain(self) -> Machine:
        return Machine(self._form.statement, self._setting.plan.schema.unit)

    # --- the one verb ---

    def push(self, items: Items) -> Changes:
        """Take settled events, and how far they are complete; answer with the complex events of their stages."""
        batches: list[ChangeBatch] = []
        for are_rows, run in runs(items.copy() if items.single else items):  # type: ignore[attr-defined]
            batches += self._take(run) if are_rows else self._hear(run)
        frontier = END_OF_TIME if self.ended else self.machine.clock
        return Changes([batch for batch in batches if len(batch)], frontier)

    def _hear(self, items: Items) -> Iterator[ChangeBatch]:
        """Let time pass as far as events are complete. At the end nothing fires any more."""
        assert items.kinds is not None
        for kind, time in zip(items.kinds.tolist(), items.end.tolist(), strict=True):
            if kind == ItemKind.END:
                self.ended = True
            elif kind == ItemKind.GUARANTEE and self.machine.created is not None and time > self.machine.clock:
                if isinstance(self.machine, CompiledMachine):
                    yield self._shown(*self.machine.advance(time))
                else:
                    yield self._batch([(now, each) for now, stage in self.machine.advance(time) for each in stage])

    def _take(self, items: Items) -> Iterator[ChangeBatch]:
        """Take events whose stages are complete."""
        mine = (items.types >= 0) & self._mine[items.types]
        items = in_canonical_order(items if mine.all() else take(items, mine))
        self.seen += len(items)
        while len(items):
            machine = self._best(len(items))
            if isinstance(machine, CompiledMachine):
                found = machine.take(items)
                if found is not None:
                    yield self._shown(*found)
                    return
                self._leave()
                continue
            cut = int(np.searchsorted(items.end, items.end[min(AT_ONCE, len(items)) - 1], side="right"))
            piece, items = sliced(items, 0, cut), sliced(items, cut, len(items) - cut)
            yield self._batch([(now, each) for now, stage in self._stages(machine, piece) for each in stage])

    # --- which body ---

    def _best(self, events: int) -> Machine | CompiledMachine:
        """The machine for so many events: the compiled one from when it is there."""
        if isinstance(self.machine, Machine) and (body := self._choice.body(events)) is not None:
            compiled = self._compiled(body)
            compiled.load(self.machine.save())
            self.machine = compiled
        return self.machine

    def _compiled(self, body: Body) -> CompiledMachine:
        assert self._choice.program is not None
        reader = self._setting.reader
        return CompiledMachine(self._choice.program, body, self._setting.plan, tuple(reader.types), reader.strings)

    def _leave(self) -> None:
        """Go on in plain Python, where numbers have no end."""
        words = self.machine.save()
        self._choice.program = None
        self.machine = self._plain()
        self.machine.load(words)

    # --- plain Python ---

    def _stages(self, machine: Machine, items: Items) -> Iterator[tuple[int, list[Found]]]:
        for end, several in groupby(self._events(machine, items), key=lambda event: event.end):
            yield from machine.advance(end - 1)
            yield end, machine.stage(end, list(several))

    def _events(self, machine: Machine, items: Items) -> Iterator[StagedEvent]:
        """The events of a batch, numbered in their order."""
        types, strings, at = self._setting.reader.types, self._setting.reader.strings, np.arange(len(items))
        names = [name for name in items.columns if name in self._fields]
        rows = zip(
            *(_plain_values(items.columns[name], self._fields[name], at, strings) for name in names), strict=True
        )
        values: Iterable[tuple[Any, ...]] = rows if names else ((),) * len(at)
        columns = (items.types.tolist(), items.start.tolist(), items.end.tolist(), values)
        for code, start, end, row in zip(*columns, strict=True):
            number, machine.next = machine.next, machine.next + 1
            yield StagedEvent(number, types[code], start, end, dict(zip(names, row, strict=True)))

    # --- answers ---

    def _batch(self, found: list[tuple[int, Found]]) -> ChangeBatch:
        """Complex events of the plain machine as columns."""
        start = np.array([each.start for _, each in found], np.int64)
        end = np.array([now for now, _ in found], np.int64)
        eids = pa.array([eid_of(str(self._setting.plan.name), now, each) for now, each in found], pa.string())
        outputs = enumerate(self._setting.plan.outputs)
        columns = [_column([each.values[at] for _, each in found], output.expr.kind) for at, output in outputs]
        return self._shown(start, end, eids, columns)

    def _shown(self, start: Ints, end: Ints, eids: pa.Array, columns: list[pa.Array]) -> ChangeBatch:
        """Complex events as rows of their own, which are what the variable of the plan is bound to."""
        plan, count = self._setting.plan, len(start)
        self.matches += count
        head = {"type": pa.repeat(str(plan.name), count), "start": pa.array(start), "end": pa.array(end), "eid": eids}
        head |= {output.name: column for output, column in zip(plan.outputs, columns, strict=True)}
        rows = pa.RecordBatch.from_arrays(list(head.values()), list(head))
        high, low = hash_texts(eids)
        numbers = np.arange(count, dtype=np.int64)
        chunk = Chunk(0, rows, np.zeros(count, np.int32), start, end, high, low)
        op = np.ones(count, np.int8)
        return ChangeBatch(plan, op, end, [numbers], {}, View([chunk]), self._setting.functions)

    # --- what hosts ask ---

    @property
    def counters(self) -> Counters:
        total = Counters(self.seen, self.seen)
        total.matches, total.look = self.matches, self.machine.kept
        return total

    @property
    def texts_in_use(self) -> Ints:
        """None in plain Python: partitions and events have the texts themselves."""
        return self.machine.texts_in_use if isinstance(self.machine, CompiledMachine) else NONE

    # --- state ---

    def snapshot(self, since: int = 0) -> list[Part]:
        del since
        words = {"machine": self.machine.save(), "counts": [self.seen, self.matches], "ended": self.ended}
        return [Part("staged", 0, encode("staged", words))]

    def restore(self, parts: Iterable[Part]) -> None:
        stored = decode(only_part("staged", parts).data, "staged")
        with reading():
            machine = self._plain()
            machine.load(stored.words["machine"])
            seen, matches = stored.words["counts"]
        self.machine, self.seen, self.matches, self.ended = machine, seen, matches, bool(stored.words["ended"])


def eid_of(name: str, now: int, found: Found) -> str:
    """What names a complex event: its place, stage, statement and global partition. No other partition has a say."""
    return f"{found.place:08d}@{now}:{name}{key_text(found.key)}"


def in_canonical_order(items: Items) -> Items:
    """Events in order of their ends: those of one end by start and eid, each once."""
    tied = np.zeros(len(items), np.bool_)
    tied[1:] = items.end[1:] == items.end[:-1]
    if not tied.any():
        return items
    tied[:-1] |= tied[1:]
    places = np.flatnonzero(tied)
    named = AutoEids().named(take(items, places))  # all that can be equal to them are among them
    assert named.eid_high is not None and named.eid_low is not None
    columns = (named.types, named.eid_low, named.eid_high, named.start, named.end)
    order = np.lexsort(columns)
    again = np.zeros(len(order), np.bool_)
    again[1:] = np.logical_and.reduce([column[order][1:] == column[order][:-1] for column in columns])
    rows = np.arange(len(items))
    rows[places] = places[order]
    once = np.ones(len(items), np.bool_)
    once[places[again]] = False
    return take(items, rows[once])


def _plain_values(column: Column, field: Field, at: Ints, strings: Strings) -> list[Any]:
    """The values of some rows of a column; None is Null."""
    values: list[Any] = column.values[at].tolist()
    match field.kind:
        case Kind.TEXT:
            values = [strings.text(int(code)) for code in values]
        case Kind.BOOL:
            values = [bool(value) for value in values]
        case Kind.DECIMAL:
            values = [value / 10**field.scale for value in values]
        case Kind.NULL:
            return [None] * len(values)
    if column.valid is None:
        return values
    return [value if valid else None for value, valid in zip(values, column.valid[at].tolist(), strict=True)]


def _column(values: list[Any], kind: Kind) -> pa.Array:
    """The values of a column of Select; what lies beyond 64 bits is Null."""
    match kind:
        case Kind.INT | Kind.TIME:
            found: list[Any] = [None if value is None or abs(value) >= 2**63 else int(value) for value in values]
            return pa.array(found, pa.int64()).cast(arrow_type(kind))
        case Kind.FLOAT:
            return pa.array([None if value is None else float(value) for value in values], pa.float64())
        case Kind.TEXT:
            return pa.array([None if value is None else str(value) for value in values], pa.string())
    return pa.array(values, arrow_type(kind))
