"""A live session: events in as they come, their matches out at once; it can be saved and continued elsewhere.

Without a declared schema the session learns the attributes from the events. When an event brings something new, the
detectors are built again and shown the events that still matter, so the answers are those of the full schema.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Self

import pyarrow as pa

from tocsin.codec import nested, pack, unpack, within
from tocsin.encode.batch import frame, one_batch
from tocsin.encode.columns import Columns, infer_schema
from tocsin.encode.objects import from_dicts, from_values
from tocsin.encode.row import OneRow, RowEncoder
from tocsin.encode.times import ticks
from tocsin.engine.tables import instants, with_times
from tocsin.errors import InputError, StateError, TocsinError
from tocsin.events import BEGINNING, END_OF_TIME, TIME_LIMIT, Event
from tocsin.graph.query_graph import QUIET, Pipeline
from tocsin.run.inputs import as_table
from tocsin.run.matches import Matches
from tocsin.run.schemas import merged
from tocsin.run.state import Known, pipeline_parts, restore_pipeline
from tocsin.schema import Schema

NOTHING = Matches([])
Build = Callable[[Schema], Pipeline]


class Session:
    """Push events, advance time, close; each gives the matches that are known by then."""

    def __init__(
        self,
        build: Build,
        columns: Columns,
        *,
        schema: Schema | None = None,
        shown: tuple[int, ...] = (0,),
        on_match: Callable[[dict[str, Any]], None] | None = None,
    ) -> None:
        self._build = build
        self._columns = columns
        self._declared = schema is not None
        self._schema = schema
        self._shown = shown
        self._on_match = on_match
        self._pipeline = build(schema) if schema is not None else None
        self._log: deque[tuple[int, Any]] = deque()  # (last end, events) that may still matter to a new schema
        self._rows: RowEncoder | None = None
        self._at_once = False
        self._time: pa.DataType | None = None
        self._closed = False
        self._advanced = BEGINNING
        self._promised: dict[tuple[str | None, str | None], int] = {}  # (type, source) -> time
        self.late: list[int] = []  # the places of rows that came too late, in the last push

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        if not self._closed and exc[0] is None:
            self.close()

    @property
    def counters(self) -> dict[str, int]:
        """What was seen so far."""
        return {} if self._pipeline is None else self._pipeline.counters()

    @property
    def strategy(self) -> str:
        """How late events are dealt with, in words; for `auto` what it has chosen, and why."""
        return "" if self._pipeline is None else self._pipeline.strategy

    def debts(self) -> list[dict[str, Any]]:
        """The answers that wait: their events (by eid), and for each type up to when it must be promised.

        An answer may come sooner than its debt says, and fail on the way. What lies on disk is not listed.
        """
        if self._pipeline is None:
            return []
        owed = [(stage.plan.name, debt) for stage in self._pipeline.stages for debt in stage.detector.debts()]
        times = [instants(list(debt.missing.values()), self._time) for _, debt in owed]
        return [
            {"query": name, "events": list(debt.events), "missing": dict(zip(debt.missing, shown, strict=True))}
            for (name, debt), shown in zip(owed, times, strict=True)
        ]

    def push(self, events: Any) -> Matches:
        """One event (a dict or an Event), a list of them, or an Arrow table or batch."""
        if self._closed:
            self._open()
        if type(events) is dict and self._rows is not None:
            if self._at_once and (end := self._rows.passing(events)) is not None:
                return self._pass(end)
            if self._rows.read(events):
                return self._push_one(self._rows.one)
        batch = as_batch(events)
        if not batch.num_rows:
            return NOTHING
        pipeline = self._ready(batch)
        changes = pipeline.push(batch)
        self.late = list(pipeline.late)
        if not self._declared:
            self._remember(batch, pipeline)
        if type(events) is dict and (self._rows is None or self._rows.encoder is not pipeline.encoder):
            self._rows = RowEncoder(pipeline.encoder, pipeline.encoder.now)
            self._at_once = pipeline.at_once and pipeline.order.kind == "in-order"
        return self._matches(changes)

    def _pass(self, end: int) -> Matches:
        """An event that no query reads, where no answer waits: time passes, nothing else."""
        assert self._pipeline is not None
        self.late = [] if self._pipeline.passes(end) else [0]
        return NOTHING

    def _push_one(self, one: OneRow) -> Matches:
        """The short way for one plain event."""
        pipeline = self._pipeline
        assert pipeline is not None
        changes = pipeline.push_one(one)
        if changes is None:
            self.late = [0]
            return NOTHING
        if self.late:
            self.late = []
        if not self._declared:
            self._keep(one.time, one.row, pipeline)
        if changes is QUIET:
            return NOTHING
        for stage in changes:
            for each in stage:
                if len(each):
                    return self._matches(changes)
        return NOTHING

    def advance(self, time: int | datetime) -> Matches:
        """Promise that no event that ends at or before `time` will come; what waited for that is answered."""
        self._open()
        ticks = self._ticks(time)
        self._advanced = max(self._advanced, ticks)
        return Matches([]) if self._pipeline is None else self._matches(self._pipeline.advance(ticks))

    def promise(self, type: str | None, time: int | datetime, *, source: str | None = None) -> Matches:
        """Promise that every later event of a type (None: of all) from a source (None: from any) ends after `time`.

        Answers that waited for that are given. A promise that says less than an earlier one changes nothing.
        """
        self._open()
        ticks = self._ticks(time)
        self._promised[type, source] = max(ticks, self._promised.get((type, source), BEGINNING))
        return Matches([]) if self._pipeline is None else self._matches(self._pipeline.promise(type, ticks, source))

    def close(self) -> Matches:
        """End the stream; the last matches."""
        self._open()
        self._closed = True
        return Matches([]) if self._pipeline is None else self._matches(self._pipeline.advance(END_OF_TIME))

    def follow(self, events: Iterable[Any]) -> Iterator[dict[str, Any]]:
        """Matches as they are found in an iterable of events (or of lists or batches), then those of its end."""
        for each in events:
            yield from self.push(each)
        yield from self.close()

    # --- saving and restoring ---

    def save(self) -> bytes:
        """Everything that the session knows, to be continued elsewhere by `query.stream(state=...)`."""
        self._open()
        log = [as_batch(events) for _, events in self._log]
        schema = self._schema if self._pipeline is not None else None
        parts = [Known(self._advanced, self._promised, schema, self._time, log).part()]
        if self._pipeline is not None:
            parts += nested("graph", pipeline_parts(self._pipeline))
        return pack(parts)

    def restore(self, state: bytes) -> None:
        """Take up a saved state; the session must be new and of the same queries.

        The queries are made anew with the saved state, so a state that is refused leaves the session as it was.
        """
        if self._pipeline is not None and self._pipeline.seen:
            raise StateError("this session has seen events already", hint="restore into a new session")
        parts = unpack(state)
        known = Known.read(parts)
        log = deque((_last_end(batch, self._columns), batch) for batch in known.log)
        pipeline, schema = self._pipeline, self._schema
        if known.schema is not None:
            schema = schema if self._declared else known.schema
            assert schema is not None
            pipeline = self._build(schema if self._declared else _open_schema(schema))
            restore_pipeline(pipeline, within("graph", parts))
        self._pipeline, self._schema = pipeline, schema
        self._advanced, self._promised, self._time = known.advanced, dict(known.promised), known.time
        self._log = log

    def _open(self) -> None:
        if self._closed:
            raise TocsinError("the session is closed", hint="open a new one with query.stream()")

    # --- learning the schema ---

    def _ready(self, batch: pa.RecordBatch) -> Pipeline:
        """The pipeline for a batch, built or built again if the batch shows something new."""
        if self._time is None and self._pipeline_fresh():
            self._time = _instant(batch, self._columns)
        if self._declared and self._pipeline is not None:
            return self._pipeline
        news = infer_schema(batch.schema, self._columns)
        known = news if self._schema is None else merged(self._schema, news)
        if self._pipeline is not None and known == self._schema:
            return self._pipeline
        if self._schema is not None and news.unit != self._schema.unit:
            raise InputError("the time is a timestamp in some events and a number in others")
        self._schema = known
        self._pipeline = self._rebuilt(known)
        return self._pipeline

    def _pipeline_fresh(self) -> bool:
        return self._pipeline is None or self._pipeline.seen == 0

    def _rebuilt(self, schema: Schema) -> Pipeline:
        """A new pipeline that has seen what the old one remembers; its answers to that were given before."""
        pipeline = self._build(_open_schema(schema))
        if self._pipeline is not None:
            pipeline.continue_from(self._pipeline, (as_batch(events) for _, events in self._log))
        for (type, source), time in self._promised.items():  # also those that nobody cared for before
            pipeline.promise(type, time, source)
        if self._advanced > BEGINNING:
            pipeline.advance(self._advanced)
        return pipeline

    def _remember(self, batch: pa.RecordBatch, pipeline: Pipeline) -> None:
        """Keep what a new pipeline would need: two windows back from the clock, or everything without a window."""
        if self.late:
            keep = pa.array([row for row in range(batch.num_rows) if row not in set(self.late)], pa.int64())
            batch = batch.take(keep)
        if batch.num_rows:
            self._keep(_last_end(batch, self._columns), batch, pipeline)

    def _keep(self, end: int, events: Any, pipeline: Pipeline) -> None:
        self._log.append((end, events))
        horizon = pipeline.forgotten
        while horizon is not None and self._log and self._log[0][0] < horizon:
            self._log.popleft()

    # --- results ---

    def _matches(self, changes: list[list[Any]]) -> Matches:
        tables = [each.table() for stage in self._shown for each in changes[stage] if len(each)]
        found = Matches([with_times(table, self._time) for table in tables], self.counters)
        if self._on_match is not None:
            for match in found:
                self._on_match(match)
        return found

    def _ticks(self, time: int | datetime) -> int:
        if isinstance(time, int) and not isinstance(time, bool):
            if not -TIME_LIMIT < time <= END_OF_TIME:
                raise InputError(f"the time {time} is out of range")
            return time
        values, problems = ticks(from_values([time], "time"), "time")
        if problems:
            raise InputError(problems[0][1])
        return int(values[0])


def _open_schema(schema: Schema) -> Schema:
    """A live stream may still bring any type and any attribute."""
    return Schema(schema.types, schema.common, True, True, schema.unit, schema.intervals)


def as_batch(events: Any) -> pa.RecordBatch:
    """What was pushed, as one batch."""
    if isinstance(events, pa.RecordBatch):
        return events
    if isinstance(events, (Mapping, Event)):
        return from_dicts([events])
    if isinstance(events, list):
        return from_dicts(events)
    return one_batch(as_table(events))


def _instant(batch: pa.RecordBatch, columns: Columns) -> pa.DataType | None:
    """The type of the time column if results should show points in time."""
    type = batch.schema.field(columns.resolve(batch.schema.names).time).type
    if pa.types.is_timestamp(type) or pa.types.is_date(type):
        return type
    return pa.timestamp("us") if pa.types.is_string(type) else None


def _last_end(batch: pa.RecordBatch, columns: Columns) -> int:
    return int(frame(batch, columns.resolve(batch.schema.names)).end.max())
