"""A live session: events in as they come, their matches out at once; it can be saved and continued elsewhere.

Without a declared schema the session learns the attributes from the events. When an event brings something new, a new
graph is built for the larger schema and takes up the state of the old one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from threading import RLock
from typing import Any, Self

import pyarrow as pa

from tocsin.codec import Part, as_number, decode, encode, nested, only_part, pack, reading, unpack, within
from tocsin.encode.arrow import is_text
from tocsin.encode.batch import one_batch
from tocsin.encode.checked import checked, refuse_unreadable
from tocsin.encode.columns import Columns, infer_schema
from tocsin.encode.objects import from_values
from tocsin.encode.row import LentRow, RowEncoder
from tocsin.encode.times import read_texts, ticks
from tocsin.engine.changes import QUIET, ChangeBatch, Changes
from tocsin.engine.inspect import debts
from tocsin.engine.match_dicts import can_be_dicts
from tocsin.engine.replay import replay
from tocsin.engine.tables import instants, with_times
from tocsin.errors import InputError, StateError, TocsinError
from tocsin.events import BEGINNING, END_OF_TIME, TIME_LIMIT, Event
from tocsin.graph.carry_over import bound_again
from tocsin.graph.query_graph import QueryGraph
from tocsin.items import Items, advanced, end
from tocsin.order.early import EarlyAnswers
from tocsin.plan.block import Plan
from tocsin.run.clock import Clock
from tocsin.run.inputs import as_table
from tocsin.run.json_columns import columns_of
from tocsin.run.live_matches import LiveMatches
from tocsin.run.matches import Matches
from tocsin.run.metrics import PushTimes, open_metrics
from tocsin.run.schemas import merged
from tocsin.run.state import schema_from, schema_words
from tocsin.run.stream_rows import Heartbeat, StreamRows
from tocsin.schema import Schema

NOTHING = Matches([])
Build = Callable[[Schema, bool], QueryGraph]  # for a schema; whether match ids cover times
Bind = Callable[[list[str], Schema], tuple[Plan, ...]]  # the queries of texts, for a schema


class Session:
    """Push events, advance time, close; each gives the matches that are known by then."""

    def __init__(
        self,
        build: Build,
        columns: Columns,
        *,
        reading: StreamRows,
        schema: Schema | None = None,
        shown: tuple[int, ...] = (0,),
        on_match: Callable[[dict[str, Any]], None] | None = None,
        clock: Clock | None = None,
        texts: Iterable[str] = (),
    ) -> None:
        self._lock = RLock()  # one push at a time, whichever thread it comes from
        self._build = build
        self._columns = columns
        self._reading = reading
        self._declared = schema is not None
        self._schema = schema
        self._shown = shown
        self._on_match = on_match
        self._clock = clock
        self._texts = list(texts)  # the queries, saved with the state so that changed ones can be compared with them
        self._owed: list[pa.Table] = []  # answers of the time before queries were changed, to be given with the next
        self._timed_ids = True
        self._graph = build(schema, True) if schema is not None else None
        self._rows: RowEncoder | None = None
        self._at_once = False
        self._time: pa.DataType | None = None
        self._closed = False
        self._pushes: PushTimes | None = None
        self._advanced = BEGINNING
        self._promised: dict[tuple[str | None, str | None], int] = {}  # (type, source) -> time
        self._begun: dict[tuple[str | None, str | None], int] = {}  # the same, of begins
        self.late: list[int] = []  # the places of rows that came too late, in the last push
        self.unended: list[dict[str, Any]] = []  # intervals that were announced and never end, as the last push showed

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

    def metrics(self, *, bad: int = 0) -> str:
        """What monitoring wants to know, as OpenMetrics text (docs/howto/monitor.md); `bad`: rows that were refused.

        How long pushes take is measured from the first call on.
        """
        with self._lock:
            if self._pushes is None:
                self._pushes = PushTimes()
                for name in ("push", "push_usable", "push_lines"):  # shadowed here, so that others pay nothing
                    setattr(self, name, self._pushes.timed(getattr(self, name)))
            return open_metrics(self._graph, self._pushes, bad=bad)

    def debts(self) -> list[dict[str, Any]]:
        """The answers that wait: their events (by eid), and for each type up to when it must be promised.

        An answer may come sooner than its debt says, and fail on the way. What lies on disk is not listed. Early
        answers are listed, too, until their match comes: `open` has the eids of the intervals that have not ended.
        """
        if self._graph is None:
            return []
        owed = [
            (stage.plan.title or None, debt)
            for stage in self._graph.stages
            for detector in stage.operator.detectors
            for debt in debts(detector)
        ]
        times = [instants(list(debt.missing.values()), self._time) for _, debt in owed]
        waiting = [
            {"query": name, "events": list(debt.events), "missing": dict(zip(debt.missing, shown, strict=True))}
            for (name, debt), shown in zip(owed, times, strict=True)
        ]
        return waiting + ([] if self._graph.early is None else self._early_debts(self._graph.early))

    def _early_debts(self, early: EarlyAnswers) -> list[dict[str, Any]]:
        return [
            {
                "query": plan.title or None,
                "events": early.eids(events),
                "missing": dict(zip(missing, instants(list(missing.values()), self._time), strict=True)),
                "open": early.eids([event for event in events if event.end is None]),
            }
            for plan, events, missing in early.debts()
        ]

    def push(self, events: Any) -> Matches:
        """Push one event (a dict or an Event), a list of them, or an Arrow table or batch.

        A dict without a type and with `heartbeat` is no event: it promises what `advance` does, up to that time.
        A list gives what its events one by one would give; if one of them cannot be used, none of them is taken.
        """
        with self._lock:
            if self.unended:
                self.unended = []
            if type(events) is dict and self._rows is not None:
                if self._at_once and (end := self._rows.passing(events)) is not None:
                    if not self._graph.passes(end):  # type: ignore[union-attr]  # whoever has rows has a graph
                        self.late = [0]
                    elif self.late:
                        self.late = []
                    return NOTHING
                if self._rows.read(events):
                    return self._push_one(self._rows.one)
            self._open()
            if isinstance(events, (Mapping, Event)):
                return self._push_rows([events])
            if isinstance(events, list):
                return self._push_rows(events)
            return self._push_table(events)

    def push_usable(self, rows: list[Any], *, until_bad: bool = False) -> tuple[Matches, dict[int, str]]:
        """Push the rows of a list that can be used; also return why others cannot, by their place in the list.

        With `until_bad` no row behind the first bad one is pushed.
        """
        with self._lock:
            self._open()
            mark = self._reading.mark()
            try:
                usable = self._reading.read(rows, until_bad=until_bad)
                return self._push_batches(usable.batches), usable.bad
            except BaseException:
                self._reading.reset(mark)
                raise

    def push_lines(self, lines: Sequence[bytes]) -> Matches | None:
        """Push lines of JSON as columns, if they are like those before them; None: they must be read one by one."""
        with self._lock:
            self._open()
            batch = columns_of(lines, self._reading)
            return None if batch is None else self._push_batches([batch])

    def _push_rows(self, rows: list[Any]) -> Matches:
        mark = self._reading.mark()
        try:
            usable = self._reading.read(rows, until_bad=True)
            usable.refuse_bad()
            found = self._push_batches(usable.batches)
        except BaseException:
            self._reading.reset(mark)
            raise
        self._prepare_short_way()
        return found

    def _push_batches(self, batches: Sequence[pa.RecordBatch | Heartbeat]) -> Matches:
        """Push batches whose columns have the kinds that are known by then, and heartbeats between them."""
        found: list[Matches] = []
        late: list[int] = []
        before = 0
        for batch in batches:
            if isinstance(batch, Heartbeat):
                found.append(self._beat(batch))
                before += 1
                continue
            graph = self._ready(batch)
            changes = self._fed(graph, graph.encode(batch))
            late += [before + place for place in changes.late]
            before += batch.num_rows
            found.append(self._matches(changes))
        self.late = late
        if len(found) <= 1:
            return found[0] if found else NOTHING
        return Matches([table for matches in found for table in matches.tables()], self.counters)

    def _push_table(self, events: Any) -> Matches:
        batch = as_batch(events, self._columns)
        if not batch.num_rows:
            return NOTHING
        mark = self._reading.mark()
        try:
            self._reading.observe(batch)
            return self._push_batches([batch])
        except BaseException:
            self._reading.reset(mark)
            raise

    def _prepare_short_way(self) -> None:
        """Make ready for single events: plain ones need no Arrow."""
        graph = self._graph
        if graph is None or not self._reading.times:
            return
        if self._rows is None or self._rows.encoder is not graph.encoder:
            self._rows = RowEncoder(graph.encoder, graph.encoder.now, self._reading.times)
            self._at_once = graph.at_once
        self._rows.large |= self._reading.large

    def _push_one(self, one: LentRow) -> Matches:
        """Push one plain event by the short way."""
        assert self._graph is not None
        changes = self._graph.push(one)
        self._note_unended(self._graph)
        if changes is QUIET:
            if self.late:
                self.late = []
            return NOTHING
        self.late = list(changes.late)
        return self._matches(changes) if changes.batches else NOTHING

    def advance(self, time: int | datetime) -> Matches:
        """Promise that no event that ends at or before `time` will come; what waited for that is answered."""
        with self._lock:
            self._open()
            ticks = self._ticks(time)
            self._advanced = max(self._advanced, ticks)
            return self._told(advanced(ticks) if ticks < END_OF_TIME else end())

    def promise(self, type: str | None, time: int | datetime, *, source: str | None = None) -> Matches:
        """Promise that every later event of a type (None: of all) from a source (None: from any) ends after `time`.

        Answers that waited for that are given. A promise that says less than an earlier one changes nothing.
        """
        if type is not None and not isinstance(type, str):
            raise InputError("the type of a promise is a text", hint="None stands for all types")
        with self._lock:
            self._open()
            ticks, source = self._ticks(time), None if source is None else str(source)
            self._promised[type, source] = max(ticks, self._promised.get((type, source), BEGINNING))
            return NOTHING if self._graph is None else self._told(self._graph.guarantee(type, ticks, source))

    def announce(self, begin: Mapping[str, Any] | Event) -> Matches:
        """Say that an interval has begun: its type, start and eid, the attributes of the key, and others as known.

        The whole interval is pushed when it has ended, with the same eid. A begin changes no match; with
        `promise_begins` answers that wait for an absence are given sooner, and `unended` says what never ended.
        """
        with self._lock:
            self._open()
            row = {"type": begin.type, "start": begin.start, "eid": begin.eid, **begin.attrs} if isinstance(
                begin, Event
            ) else dict(begin)  # fmt: skip
            end = self._columns.end or "end"
            if row.get(end) is not None and not isinstance(begin, Event):
                raise InputError("a begin has no end", hint="push the interval itself when it has ended")
            row[end] = row.get(self._columns.time if self._columns.time in row else "start")
            self.unended, mark = [], self._reading.mark()
            try:
                usable = self._reading.read([row], until_bad=True)
                usable.refuse_bad()
                graph = self._ready(batch := _only_rows(usable.batches))
                return self._matches(self._fed(graph, graph.announced(batch)))
            except BaseException:
                self._reading.reset(mark)
                raise

    def promise_begins(self, type: str | None, time: int | datetime, *, source: str | None = None) -> Matches:
        """Promise that every event of a type (None: of all) that starts at or before `time` was announced or pushed.

        One that was not is late: it is set aside (`late`) and never matched.
        """
        if type is not None and not isinstance(type, str):
            raise InputError("the type of a promise is a text", hint="None stands for all types")
        with self._lock:
            self._open()
            ticks, source = self._ticks(time), None if source is None else str(source)
            self._begun[type, source] = max(ticks, self._begun.get((type, source), BEGINNING))
            return NOTHING if self._graph is None else self._told(self._graph.begin_guarantee(type, ticks, source))

    def heartbeat(self) -> Matches:
        """Read the clock and let time pass up to there, less the delay; call it while there is nothing to push.

        What the clock says is a promise like that of `advance`, and is saved with the session. Before the first event
        nothing can wait, and nothing is promised.
        """
        with self._lock:
            self._open()
            if self._clock is None:
                raise TocsinError(
                    "the session has no clock",
                    hint='open it with query.stream(clock="30 s"), or say the time yourself: advance(time)',
                )
            if self._graph is None or not self._graph.seen:
                return NOTHING
            time = self._clock.expected_from(self._graph.schema)
            return self.advance(time) if time > self._advanced else NOTHING

    def _beat(self, beat: Heartbeat) -> Matches:
        """Take a heartbeat row: the promise of everybody, or of its source."""
        return self.advance(beat.time) if beat.source is None else self.promise(None, beat.time, source=beat.source)

    def close(self) -> Matches:
        """End the stream; the last matches."""
        with self._lock:
            self._open()
            self._closed, self._rows = True, None
            return self._told(end())

    def _told(self, items: Items) -> Matches:
        self.unended = []
        return Matches([]) if self._graph is None else self._matches(self._fed(self._graph, items))

    def _fed(self, graph: QueryGraph, items: Items) -> Changes:
        changes = graph.push(items)
        self._note_unended(graph)
        return changes

    def _note_unended(self, graph: QueryGraph) -> None:
        if found := graph.begins.unended:
            shown = instants([each.start for each in found], self._time)
            self.unended += [
                {"eid": each.eid, "type": each.type, "start": start} for each, start in zip(found, shown, strict=True)
            ]

    def follow(self, events: Iterable[Any]) -> Iterator[dict[str, Any]]:
        """Matches as they are found in an iterable of events (or of lists or batches), then those of its end."""
        for each in events:
            yield from self.push(each)
        yield from self.close()

    # --- saving and restoring ---

    def save(self) -> bytes:
        """Everything that the session knows, to be continued elsewhere by `query.stream(state=...)`."""
        with self._lock:
            self._open()
            graph = self._graph
            words = {
                "advanced": self._advanced,
                "promised": [[*pair, time] for pair, time in self._promised.items()],
                "begun": [[*pair, time] for pair, time in self._begun.items()],
                "schema": None if graph is None or self._schema is None else schema_words(self._schema),
                "timed_ids": self._timed_ids,
                "rows": self._reading.words(),
                "queries": self._texts,
            }
            shown = {} if self._time is None else {"time": pa.table({"time": pa.array([], self._time)})}
            shown |= {f"owed/{at}": table for at, table in enumerate(self._owed)}
            own = Part("session", 0, encode("session", words, shown))
            return pack([own, *([] if graph is None else nested("graph", graph.snapshot()))])

    def restore(self, state: bytes, before: Bind | None = None, *, accept_loss: bool = False) -> tuple[str, ...]:
        """Take up a saved state; the session must be new and of the same queries.

        With `before`, which binds the queries that saved it, they may have been changed since (`graph/carry_over`);
        what is to be said about that is returned. The graph is made anew with the saved state, so a state that is
        refused leaves the session as it was.
        """
        if self._graph is not None and self._graph.seen:
            raise StateError("this session has seen events already", hint="restore into a new session")
        with self._lock, reading():
            mark = self._reading.mark()
            try:
                return self._take_up(unpack(state), before, accept_loss=accept_loss)
            except BaseException:
                self._reading.reset(mark)
                raise

    def _take_up(self, parts: list[Part], before: Bind | None, *, accept_loss: bool) -> tuple[str, ...]:
        stored = decode(only_part("session", parts).data, "session")
        words = stored.words
        schema = None if words["schema"] is None else schema_from(words["schema"])
        passed = as_number(words["advanced"])
        promised = {(type, source): as_number(time) for type, source, time in words["promised"]}
        time = stored.tables["time"].schema.field("time").type if "time" in stored.tables else None
        if "rows" in words:
            self._reading.restore(words["rows"])
        elif schema is not None:  # saved before sessions kept this
            self._reading.assume(schema.common.values())
        graph, timed = self._graph, words.get("timed_ids", False)  # a state of 0.2 keeps its ids
        owed = [table for name, table in stored.tables.items() if name.startswith("owed/")]
        notes: tuple[str, ...] = ()
        if schema is not None:
            known = self._schema if self._declared and self._schema is not None else _open_schema(schema)
            graph = self._build(known, timed)
            if before is None:
                graph.restore(within("graph", parts))
            else:
                old = bound_again(lambda: before(queries_of(words), known))
                found = graph.carry_over(within("graph", parts), old, accept_loss=accept_loss)
                owed += self._tables(found.owed, time)
                for (type, source), until in promised.items():  # also those about types that nobody read before
                    owed += self._tables(graph.push(graph.guarantee(type, until, source)), time)
                notes = tuple(found.notes)
        self._begun = {(type, source): as_number(until) for type, source, until in words.get("begun", ())}
        self._graph, self._advanced, self._promised, self._time = graph, passed, promised, time
        self._schema = self._schema if self._declared else schema
        self._timed_ids, self._owed = timed, owed
        return notes

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
        graph = self._build(_open_schema(schema), self._timed_ids)
        if self._graph is not None:
            graph.restore(self._graph.snapshot())
        for (type, source), time in self._promised.items():  # also those about types that nobody read before
            replay(graph, graph.guarantee(type, time, source))
        for (type, source), time in self._begun.items():
            replay(graph, graph.begin_guarantee(type, time, source))
        if self._advanced > BEGINNING:
            replay(graph, advanced(self._advanced))
        return graph

    # --- results ---

    def _matches(self, changes: Changes) -> Matches:
        shown = self._shown_of(changes)
        parts: list[pa.Table | ChangeBatch] = [
            batch if can_be_dicts(batch, self._time) else with_times(batch.table(), self._time) for batch in shown
        ]
        if self._owed:
            parts, self._owed = [*self._owed, *parts], []
        if not parts:
            return NOTHING
        found = LiveMatches(parts, self._time, lambda: self.counters)
        if self._on_match is not None:
            for match in found:
                self._on_match(match)
        return found

    def _tables(self, changes: Iterable[ChangeBatch], time: pa.DataType | None) -> list[pa.Table]:
        return [with_times(batch.table(), time) for batch in self._shown_of(changes)]

    def _shown_of(self, changes: Iterable[ChangeBatch]) -> list[ChangeBatch]:
        """The changes of the queries that report, query by query."""
        batches = list(changes)
        return [batch for stage in self._shown for batch in batches if batch.stage == stage]

    def _ticks(self, time: int | datetime) -> int:
        if isinstance(time, int) and not isinstance(time, bool):
            if not -TIME_LIMIT < time <= END_OF_TIME:
                raise InputError(f"the time {time} is out of range")
            return time
        values, problems = ticks(from_values([time], "time"), "time")
        if problems:
            raise InputError(problems[0][1])
        return int(values[0])


def queries_of(words: Mapping[str, Any]) -> list[str]:
    """The texts of the queries that saved a state."""
    if "queries" not in words:
        raise StateError(
            "the state does not say which queries saved it, so no others can carry it over",
            detail="it was saved before changed queries could go on",
            hint="restore it with its own queries and save it again; then change them",
        )
    return list(words["queries"])


def _only_rows(batches: Sequence[pa.RecordBatch | Heartbeat]) -> pa.RecordBatch:
    """The row of a begin."""
    if len(batches) != 1 or isinstance(batches[0], Heartbeat):
        raise InputError("a begin needs a type", hint='announce({"type": "H", "start": 3, "eid": "h7"})')
    return batches[0]


def _open_schema(schema: Schema) -> Schema:
    """A live stream may still bring any type and any attribute."""
    return replace(schema, open_types=True, open_fields=True)


def as_batch(events: Any, columns: Columns) -> pa.RecordBatch:
    """Arrow data and frames as one batch, with times read that are written as texts."""
    batch = events if isinstance(events, pa.RecordBatch) else one_batch(as_table(events))
    if batch is events:
        checked(pa.Table.from_batches([batch]))
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        refuse_unreadable(column, name)
    names = columns.resolve(batch.schema.names) if batch.num_rows else columns
    for name in (names.time, names.end):
        place = batch.schema.get_field_index(name) if name is not None else -1
        if place >= 0 and is_text(batch.schema.types[place]):
            times, unreadable = read_texts(batch.column(place))
            if not unreadable.any():  # else the encoder names the row
                batch = batch.set_column(place, name, times)
    return batch


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
    total |= {"waiting": counted.waiting, "keyless": counted.keyless}
    if counted.conflicting:
        total["conflicting"] = counted.conflicting
    if graph.order.kind == "auto":
        total["switches"] = graph.switches
    if graph.begins.used:
        total |= {name: getattr(counted, name) for name in graph.begins.counts}
    if broken := graph.intake.broken.total():
        total["broken"] = broken
    if (traces := graph.trace_counts) is not None:
        total |= {"traces": traces.traces, "decided": traces.decided, "determination": traces.latency}
        total |= {"unsat": traces.unsat, "expected": traces.expected, "violated": traces.violated}
        total |= {"unconfirmed": traces.unconfirmed, "spared": traces.skipped, "released": traces.released}
    return total
