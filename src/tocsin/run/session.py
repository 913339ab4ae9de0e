"""A live session: events in as they come, their matches out at once; it can be saved and continued elsewhere.

Without a declared schema the session learns the attributes from the events. When an event brings something new, a new
graph is built for the larger schema and takes up the state of the old one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Self

import pyarrow as pa

from tocsin.codec import Part, decode, encode, nested, only_part, pack, reading, unpack, within
from tocsin.encode.batch import one_batch
from tocsin.encode.columns import Columns, infer_schema
from tocsin.encode.objects import from_dicts, from_values
from tocsin.encode.row import LentRow, RowEncoder
from tocsin.encode.times import ticks
from tocsin.engine.changes import QUIET, Changes
from tocsin.engine.inspect import debts
from tocsin.engine.tables import instants, with_times
from tocsin.errors import InputError, StateError, TocsinError
from tocsin.events import BEGINNING, END_OF_TIME, TIME_LIMIT, Event
from tocsin.graph.query_graph import QueryGraph, detectors_in
from tocsin.items import Items, advanced, end
from tocsin.run.inputs import as_table
from tocsin.run.matches import Matches
from tocsin.run.schemas import merged
from tocsin.run.state import schema_from, schema_words
from tocsin.schema import Schema

NOTHING = Matches([])
Build = Callable[[Schema], QueryGraph]


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
        self._graph = build(schema) if schema is not None else None
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
        return {} if self._graph is None else shown_counters(self._graph)

    @property
    def strategy(self) -> str:
        """How late events are dealt with, in words; for `auto` what it has chosen, and why."""
        return "" if self._graph is None else self._graph.strategy

    def debts(self) -> list[dict[str, Any]]:
        """The answers that wait: their events (by eid), and for each type up to when it must be promised.

        An answer may come sooner than its debt says, and fail on the way. What lies on disk is not listed.
        """
        if self._graph is None:
            return []
        owed = [
            (stage.plan.name, debt)
            for stage in self._graph.stages
            for detector in detectors_in(stage.operator)
            for debt in debts(detector)
        ]
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
        graph = self._ready(batch)
        changes = graph.push(graph.encode(batch))
        self.late = list(changes.late)
        if type(events) is dict and (self._rows is None or self._rows.encoder is not graph.encoder):
            self._rows = RowEncoder(graph.encoder, graph.encoder.now)
            self._at_once = graph.at_once
        return self._matches(changes)

    def _pass(self, end: int) -> Matches:
        """Take note of an event that no query reads, where no answer waits: time passes, nothing else."""
        assert self._graph is not None
        self.late = [] if self._graph.passes(end) else [0]
        return NOTHING

    def _push_one(self, one: LentRow) -> Matches:
        """Push one plain event by the short way."""
        assert self._graph is not None
        changes = self._graph.push(one)
        if changes is QUIET:
            if self.late:
                self.late = []
            return NOTHING
        self.late = list(changes.late)
        return self._matches(changes) if changes.batches else NOTHING

    def advance(self, time: int | datetime) -> Matches:
        """Promise that no event that ends at or before `time` will come; what waited for that is answered."""
        self._open()
        ticks = self._ticks(time)
        self._advanced = max(self._advanced, ticks)
        return self._told(advanced(ticks) if ticks < END_OF_TIME else end())

    def promise(self, type: str | None, time: int | datetime, *, source: str | None = None) -> Matches:
        """Promise that every later event of a type (None: of all) from a source (None: from any) ends after `time`.

        Answers that waited for that are given. A promise that says less than an earlier one changes nothing.
        """
        self._open()
        ticks, source = self._ticks(time), None if source is None else str(source)
        self._promised[type, source] = max(ticks, self._promised.get((type, source), BEGINNING))
        return NOTHING if self._graph is None else self._told(self._graph.guarantee(type, ticks, source))

    def close(self) -> Matches:
        """End the stream; the last matches."""
        self._open()
        self._closed = True
        return self._told(end())

    def _told(self, items: Items) -> Matches:
        return Matches([]) if self._graph is None else self._matches(self._graph.push(items))

    def follow(self, events: Iterable[Any]) -> Iterator[dict[str, Any]]:
        """Matches as they are found in an iterable of events (or of lists or batches), then those of its end."""
        for each in events:
            yield from self.push(each)
        yield from self.close()

    # --- saving and restoring ---

    def save(self) -> bytes:
        """Everything that the session knows, to be continued elsewhere by `query.stream(state=...)`."""
        self._open()
        graph = self._graph
        words = {
            "advanced": self._advanced,
            "promised": [[*pair, time] for pair, time in self._promised.items()],
            "schema": None if graph is None or self._schema is None else schema_words(self._schema),
        }
        shown = {} if self._time is None else {"time": pa.table({"time": pa.array([], self._time)})}
        own = Part("session", 0, encode("session", words, shown))
        return pack([own, *([] if graph is None else nested("graph", graph.snapshot()))])

    def restore(self, state: bytes) -> None:
        """Take up a saved state; the session must be new and of the same queries.

        The graph is made anew with the saved state, so a state that is refused leaves the session as it was.
        """
        if self._graph is not None and self._graph.seen:
            raise StateError("this session has seen events already", hint="restore into a new session")
        parts = unpack(state)
        stored = decode(only_part("session", parts).data, "session")
        words = stored.words
        schema = None if words["schema"] is None else schema_from(words["schema"])
        with reading():
            promised = {(type, source): time for type, source, time in words["promised"]}
            time = stored.tables["time"].schema.field("time").type if "time" in stored.tables else None
        graph = self._graph
        if schema is not None:
            declared = self._schema if self._declared else None
            graph = self._build(_open_schema(schema) if declared is None else declared)
            graph.restore(within("graph", parts))
        self._graph, self._advanced, self._promised, self._time = graph, words["advanced"], promised, time
        self._schema = self._schema if self._declared else schema

    def _open(self) -> None:
        if self._closed:
            raise TocsinError("the session is closed", hint="open a new one with query.stream()")

    # --- learning the schema ---

    def _ready(self, batch: pa.RecordBatch) -> QueryGraph:
        """The graph for a batch, built or built again if the batch shows something new."""
        if self._time is None and (self._graph is None or self._graph.seen == 0):
            self._time = _instant(batch, self._columns)
        if self._declared and self._graph is not None:
            return self._graph
        news = infer_schema(batch.schema, self._columns)
        known = news if self._schema is None else merged(self._schema, news)
        if self._graph is not None and known == self._schema:
            return self._graph
        if self._schema is not None and news.unit != self._schema.unit:
            raise InputError("the time is a timestamp in some events and a number in others")
        self._graph = self._rebuilt(known)
        self._schema = known
        return self._graph

    def _rebuilt(self, schema: Schema) -> QueryGraph:
        """Build a graph for a larger schema; it takes up the state of the old one, and what was promised before."""
        graph = self._build(_open_schema(schema))
        if self._graph is not None:
            graph.restore(self._graph.snapshot())
        for (type, source), time in self._promised.items():  # also those about types that nobody read before
            graph.push(graph.guarantee(type, time, source))
        if self._advanced > BEGINNING:
            graph.push(advanced(self._advanced))
        return graph

    # --- results ---

    def _matches(self, changes: Changes) -> Matches:
        tables = [batch.table() for stage in self._shown for batch in changes if batch.stage == stage]
        if not tables:
            return NOTHING
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


def shown_counters(graph: QueryGraph) -> dict[str, int]:
    """What was counted, as people read it."""
    counted = graph.counters
    total = {"events": counted.seen, "relevant": counted.relevant, "late": counted.late}
    total |= {"duplicates": counted.duplicates, "matches": counted.matches, "retracted": counted.retracted}
    total["waiting"] = counted.waiting
    if graph.order.kind == "auto":
        total["switches"] = graph.switches
    if broken := graph.intake.broken.total():
        total["broken"] = broken
    return total
