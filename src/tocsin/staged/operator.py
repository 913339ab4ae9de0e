"""The operator of a staged statement, in place of a detector: settled events in, complex events out, as columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa

from tocsin.codec import Part, as_numbers, decode, encode, only_part, reading
from tocsin.encode.eids import hash_texts
from tocsin.encode.merge import runs
from tocsin.engine.changes import ChangeBatch, Changes, arrow_type
from tocsin.engine.operator import Counters, Operator, RemembersAll, Setting
from tocsin.engine.payload import Chunk, View
from tocsin.engine.texts import NONE
from tocsin.errors import TocsinError
from tocsin.events import END_OF_TIME
from tocsin.items import Column, Ints, ItemKind, Items, Strings
from tocsin.order.settled import Settled
from tocsin.plan.block import Plan
from tocsin.plan.staged_form import StagedForm
from tocsin.schema import Field, Kind, Schema, fits
from tocsin.staged.event import StagedEvent
from tocsin.staged.machine import Found, Machine
from tocsin.staged.partition_keys import key_text


def staged_operator(setting: Setting) -> Settled:
    """The operator of a staged statement, behind one that gives it events in canonical order."""
    return Settled(StagedProcess(setting), setting.time, setting.reader)


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
    """Feeds settled events to the machine of a statement, stage by stage, and makes columns of what it finds."""

    def __init__(self, setting: Setting) -> None:
        form = setting.plan.staged
        assert form is not None
        self.inner: tuple[Operator, ...] = ()
        self._setting, self._form = setting, form
        self._fields = _fields(form, setting.plan.schema)
        self.machine = Machine(form.statement, setting.plan.schema.unit)
        self._mine = np.array([type in dict(form.reads) for type in setting.reader.types])
        self.ended = False
        self.seen = self.matches = 0

    # --- the one verb ---

    def push(self, items: Items) -> Changes:
        """Take settled events, and how far they are complete; answer with the complex events of their stages."""
        found: list[tuple[int, Found]] = []  # with the time of the stage
        for are_rows, run in runs(items.copy() if items.single else items):  # type: ignore[attr-defined]
            several = self._stages(run) if are_rows else self._hear(run)
            found += [(now, each) for now, stage in several for each in stage]
        self.matches += len(found)
        frontier = END_OF_TIME if self.ended else self.machine.clock
        return Changes([self._batch(found)] if found else [], frontier)

    def _hear(self, items: Items) -> Iterator[tuple[int, list[Found]]]:
        """Let time pass as far as events are complete. At the end nothing fires any more."""
        assert items.kinds is not None
        for kind, time in zip(items.kinds.tolist(), items.end.tolist(), strict=True):
            if kind == ItemKind.END:
                self.ended = True
            elif kind == ItemKind.GUARANTEE and self.machine.created is not None and time > self.machine.clock:
                yield from self.machine.advance(time)

    def _stages(self, items: Items) -> Iterator[tuple[int, list[Found]]]:
        machine = self.machine
        for end, several in groupby(self._events(items), key=lambda event: event.end):
            yield from machine.advance(end - 1)
            yield end, machine.stage(end, list(several))

    def _events(self, items: Items) -> Iterator[StagedEvent]:
        """The events of a batch that the statement reads, numbered in their order."""
        at = np.flatnonzero(self._mine[items.types])
        self.seen += len(at)
        types, strings = self._setting.reader.types, self._setting.reader.strings
        names = [name for name in items.columns if name in self._fields]
        rows = zip(
            *(_plain_values(items.columns[name], self._fields[name], at, strings) for name in names), strict=True
        )
        values: Iterable[tuple[Any, ...]] = rows if names else ((),) * len(at)
        columns = (items.types[at].tolist(), items.start[at].tolist(), items.end[at].tolist(), values)
        for code, start, end, row in zip(*columns, strict=True):
            number, self.machine.next = self.machine.next, self.machine.next + 1
            yield StagedEvent(number, types[code], start, end, dict(zip(names, row, strict=True)))

    # --- answers ---

    def _batch(self, found: list[tuple[int, Found]]) -> ChangeBatch:
        """Complex events as columns: rows of their own, which are what the variable of the plan is bound to."""
        plan = self._setting.plan
        name, count = str(plan.name), len(found)
        start = np.array([each.start for _, each in found], np.int64)
        end = np.array([now for now, _ in found], np.int64)
        eids = pa.array([eid_of(name, now, each) for now, each in found], pa.string())
        head = {"type": pa.array([name] * count), "start": pa.array(start), "end": pa.array(end), "eid": eids}
        for at, output in enumerate(plan.outputs):
            head[output.name] = _column([each.values[at] for _, each in found], output.expr.kind)
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
        """None: partitions and events have the texts themselves."""
        return NONE

    # --- state ---

    def snapshot(self, since: int = 0) -> list[Part]:
        del since
        words = {"machine": self.machine.save(), "counts": [self.seen, self.matches], "ended": self.ended}
        return [Part("staged", 0, encode("staged", words))]

    def restore(self, parts: Iterable[Part]) -> None:
        stored = decode(only_part("staged", parts).data, "staged")
        with reading():
            machine = Machine(self._form.statement, self._setting.plan.schema.unit)
            machine.load(stored.words["machine"])
            self._check(stored.words["machine"]["events"])
            seen, matches = as_numbers(stored.words["counts"])
        self.machine, self.seen, self.matches, self.ended = machine, seen, matches, bool(stored.words["ended"])

    def _check(self, events: Iterable[Any]) -> None:
        """Refuse stored events whose values are of another kind than those that come."""
        for *_, values in events:
            for attr, value in values.items():
                kind = self._fields[attr].kind if attr in self._fields else Kind.NULL
                if not fits(Kind.FLOAT if kind is Kind.DECIMAL else kind, value):
                    raise ValueError(f"{attr} is {str(value)[:60]!r}, and no {kind}")


def eid_of(name: str, now: int, found: Found) -> str:
    """What names a complex event: its place, stage, statement and global partition. No other partition has a say."""
    return f"{found.place:08d}@{now}:{name}{key_text(found.key)}"


def _fields(form: StagedForm, schema: Schema) -> dict[str, Field]:
    """The attributes that a statement reads: a column beside events that lack it may not say its kind."""
    found: dict[str, Field] = {}
    for type, attrs in form.reads:
        for attr in attrs:
            field = schema.field(type, attr)
            if field is not None and found.get(attr, field).kind in (Kind.NULL, field.kind):
                found[attr] = field
    return found


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
            found: list[Any] = [
                None if value is None or not -(2**63) <= value < 2**63 else int(value) for value in values
            ]
            return pa.array(found, pa.int64()).cast(arrow_type(kind))
        case Kind.FLOAT:
            return pa.array([None if value is None else float(value) for value in values], pa.float64())
        case Kind.TEXT:
            return pa.array([None if value is None else str(value) for value in values], pa.string())
    return pa.array(values, arrow_type(kind))
