"""Read a pipeline file (sources, queries, order, sinks) and check it before Spark is started."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from tocsin.engine.kinds import ANSWERS
from tocsin.errors import InputError, Problem, QueryError, TocsinError
from tocsin.jobs.toml import File, Table, meant
from tocsin.lang.parser import parse_duration
from tocsin.lang.syntax import UNITS, Duration
from tocsin.run.clock import as_clock
from tocsin.run.declared import length_of
from tocsin.run.query import Query, query
from tocsin.schema import Schema
from tocsin.shards.watermark import FORMS, parse_order
from tocsin.spark.write import FILES, ROW_KINDS
from tocsin.zones import ZoneError, zone_named

WRITTEN = ("csv", "json")  # texts whose columns have no types of their own
SUBSCRIPTIONS = ("subscribe", "subscribePattern", "assign")
SERVERS = "kafka.bootstrap.servers"
BEGINNING_OF_A_QUERY = re.compile(
    r"(\s|--[^\n]*\n)*(CONSTRAINT|QUERY|EVENT|SEQ|AND|OR|ISEQ|REL|EXISTS)\b", re.IGNORECASE
)
URL = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]+:")
DURING_BATCH = ("format", "path", "options", "schema", "value_format")


@dataclass(frozen=True, slots=True)
class JobSource:
    """One `[source.NAME]`: where events come from, and the roles of their columns."""

    name: str
    format: str = "parquet"
    path: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    schema: str | None = None
    value_format: str | None = None
    event: str | None = None
    types: tuple[str, ...] | None = None
    type: str = "type"
    time: str = "time"
    end: str | None = None
    eid: str | None = None
    source: str | None = None
    rename: Mapping[str, str] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)
    where: str | None = None
    drop: tuple[str, ...] = ()
    history: JobSource | None = None  # the source that a backfill reads instead

    @property
    def closed(self) -> tuple[str, ...] | None:
        """The types that this source can give, if that is known."""
        return (self.event,) if self.event is not None else self.types


@dataclass(frozen=True, slots=True)
class JobSink:
    """One `[sink.NAME]`: where rows of some kinds go."""

    name: str
    format: str = "parquet"
    path: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    kinds: tuple[str, ...] = ANSWERS
    history: JobSink | None = None


@dataclass(frozen=True, slots=True)
class Text:
    """One `[[query]]`: its text, the name that errors use for its place, and the constraints that it is under."""

    place: str
    text: str
    is_file: bool = False
    constraint: str = ""
    checked: bool = False


@dataclass(frozen=True, slots=True)
class Run:
    """`[run]`: how a pipeline runs; `trigger` has the form that Spark takes."""

    checkpoint: str | None = None
    trigger: Mapping[str, str | bool] = field(default_factory=dict)
    buckets: int | None = None
    time_unit: str | None = None
    zone: str | None = None
    end_of_stream: bool = False
    unknown: Literal["ignore", "error"] = "ignore"
    bad_rows: Literal["fail", "keep"] = "fail"
    all: bool = False
    jit: bool = True


@dataclass(frozen=True, slots=True)
class JobOrder:
    """`[order]`: how late events may come, which sources to wait for, and whether time passes without events.

    longest  by type, how long an interval that was announced may last
    """

    strategy: str | None = None
    idle: str | None = None
    sources: tuple[str, ...] | None = None
    clock: str | None = None
    longest: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JobFile:
    """A pipeline file that was read: everything that its tables say."""

    file: Path
    name: str
    sources: tuple[JobSource, ...]
    texts: tuple[Text, ...]
    order: JobOrder
    outputs: tuple[JobSink, ...]
    run: Run
    spark: Mapping[str, str] = field(default_factory=dict)

    def as_history(self) -> JobFile:
        """Return the pipeline of a backfill: what the file says under `batch` replaces sources and sinks."""
        sources = tuple(each.history or each for each in self.sources)
        outputs = tuple(each.history or each for each in self.outputs)
        return replace(self, sources=sources, outputs=outputs)

    def query(self) -> Query:
        """Parse all queries into one Query; an error names the query it is in."""
        found = [parsed(each, self.file) for each in self.texts]
        made = Query(tuple(one for each in found for one in each.queries))
        return made if self.run.zone is None else query(made.queries, zone=self.run.zone)

    def triggered(self, text: str) -> JobFile:
        """Return the pipeline with the trigger that the command line gives."""
        try:
            trigger = trigger_of(text)
        except TocsinError as problem:
            raise TocsinError(f"--trigger {text!r}: {problem.message}", hint=problem.hint) from None
        return replace(self, run=replace(self.run, trigger=trigger))


def parsed(text: Text, file: Path) -> Query:
    if text.is_file and not BEGINNING_OF_A_QUERY.match(text.text):  # such a file may be anything: it is not shown
        raise InputError(
            f"{file.name}: the file {text.place!r} holds no query", hint="a query begins with EVENT or QUERY"
        )
    try:
        return query(text.text, constraint=text.constraint, checked=text.checked)
    except QueryError as error:
        raise placed_query(error, f"{file.name}, {text.place}") from None
    except TocsinError as error:
        raise TocsinError(f"{file.name}, {text.place}: {error.message}", hint=error.hint) from None


def placed_query(error: QueryError, place: str) -> QueryError:
    problems = [Problem(f"{place}: {p.message}", p.span, p.detail, p.hint) for p in error.problems]
    return QueryError(problems, error.text)


# --- reading -------------------------------------------------------------------------------------------------------


def read_pipeline(path: str | Path) -> JobFile:
    """A pipeline from its file. Everything that is wrong with it is told at once."""
    file = File(Path(path))
    whole = file.read()
    pipeline = JobFile(
        file=file.path,
        name=whole.text("name") or file.path.stem,
        sources=tuple(_source(name, table) for name, table in whole.tables("source", "events").items()),
        texts=tuple(text for table in whole.listed("query") if (text := _text(table)) is not None),
        order=_order(whole.table("order")),
        outputs=tuple(_output(name, table) for name, table in whole.tables("sink", "matches").items()),
        run=_run(whole.table("run")),
        spark=_spark(whole.table("spark")),
    )
    whole.done()
    _complete(whole, pipeline)
    file.raise_any()
    return pipeline


def _complete(whole: Table, pipeline: JobFile) -> None:
    """Report what is missing, and keys that do not go together."""
    for key, found, example in (
        ("[source.NAME]", pipeline.sources, "[source.events]"),
        ("[[query]]", whole.values.get("query"), "[[query]] with text = ... or file = ..."),
        ("[sink.NAME]", pipeline.outputs, "[sink.matches]"),
    ):
        if not found:
            whole.file.wrong("", f"there is no {key}", hint=f"add a table {example}")
    places = [(each.name, each.path) for each in pipeline.outputs if each.format in FILES and each.path]
    for at, (name, path) in enumerate(places):
        for other, taken in places[:at]:
            if path == taken:
                whole.file.wrong(f"[sink.{name}], key 'path'", f"[sink.{other}] writes there already")
    names = [each.name for each in pipeline.sources]
    if pipeline.order.sources and len(names) > 1 and all(each.source is None for each in pipeline.sources):
        for name in pipeline.order.sources:
            if name not in names:
                hint = meant(name, names) or f"known: {', '.join(names)}"
                whole.file.wrong("[order], key 'sources'", f"there is no source {name!r}", hint=hint)


def _place_of(table: Table, key: str, text: str | None) -> str | None:
    """Return a path as Spark takes it: addresses as they are, others relative to the pipeline file."""
    if text is None:
        return None
    text = table.filled(key, text)
    return text if URL.match(text) else str((table.file.path.parent / text).absolute())


def _source(name: str, table: Table) -> JobSource:
    found = _input(name, table)
    found = replace(
        found,
        event=table.text("event", '"Shelf"'),
        types=table.texts("types"),
        type=table.text("type") or "type",
        time=table.text("time") or "time",
        end=table.text("end"),
        eid=table.text("eid"),
        source=table.text("source"),
        rename=table.mapping("rename", '{ tag = "id" }'),
        columns=table.mapping("columns", '{ price = "cents / 100" }'),
        where=table.text("where", '"tag IS NOT NULL"'),
        drop=table.texts("drop") or (),
    )
    if found.event is not None and (table.values.get("type") or found.types):
        other = "type" if table.values.get("type") else "types"
        table.wrong("event", f"says the type of all events, and so does {other!r}", hint="keep one of them")
    history = table.table("batch")
    table.done()
    _check_input(found, table)
    if history is None:
        return found
    return replace(found, history=_history(found, history))


def _input(name: str, table: Table) -> JobSource:
    """Read the keys that say where data is."""
    format = table.text("format", '"parquet"') or "parquet"
    return JobSource(
        name,
        format="json" if format.lower() in ("jsonl", "ndjson") else format,
        path=_place_of(table, "path", table.text("path")),
        options=table.options("options"),
        schema=table.text("schema", '"type STRING, time TIMESTAMP, tag STRING"'),
        value_format=table.choice("value_format", ("json", "raw"), "json") if "value_format" in table.values else None,
    )


def _history(live: JobSource, table: Table) -> JobSource:
    """Return the source that a backfill reads: the live one with the keys under `batch` changed."""
    own = _input(live.name, table)
    table.asked[:] = DURING_BATCH
    table.done()
    other = own.format != live.format and "format" in table.values
    found = replace(
        live,
        format=own.format if "format" in table.values else live.format,
        path=own.path or (None if other else live.path),
        options={**({} if other else live.options), **own.options},
        schema=own.schema or live.schema,
        value_format=own.value_format or (None if other else live.value_format),
    )
    _check_input(found, table)
    return found


def _check_input(source: JobSource, table: Table) -> None:
    if source.format in FILES and source.path is None:
        table.wrong("path", "is missing", detail=f"{source.format} is read from files", hint='path = "events/"')
    if source.format in WRITTEN and source.schema is None:
        table.wrong(
            "schema",
            "is missing",
            detail=f"{source.format} does not say of what type its columns are, and a guess could change with the data",
            hint='schema = "type STRING, time TIMESTAMP, tag STRING"',
        )
    if source.format == "kafka":
        _check_kafka(source.options, SUBSCRIPTIONS, table)
        if source.schema is None and source.value_format != "raw":
            hint = 'schema = "type STRING, time TIMESTAMP, tag STRING", or value_format = "raw"'
            table.wrong("schema", "is missing", detail="it says what the JSON of a message holds", hint=hint)
    elif source.value_format is not None:
        table.wrong("value_format", f"is for Kafka, and this source is {source.format}")


def _check_kafka(options: Mapping[str, str], one_of: tuple[str, ...], table: Table) -> None:
    if SERVERS not in options:
        table.wrong("options", f"{SERVERS!r} is missing", hint=f'options = {{ "{SERVERS}" = "localhost:9092", ... }}')
    if not any(each in options for each in one_of):
        wanted = " or ".join(map(repr, one_of))
        table.wrong("options", f"{wanted} is missing", hint=f'options = {{ {one_of[0]} = "a-topic", ... }}')


def _text(table: Table) -> Text | None:
    inline, name = table.text("text", '"EVENT SEQ(A a, B b) WITHIN 1 h"'), table.text("file", '"theft.tocsin"')
    constraint = table.text("constraint", '"CONSTRAINT order PARTITION BY id AS Ordered Shipped"') or ""
    checked = table.flag("checked", default=False)
    table.done()
    if checked and not constraint:
        table.wrong("checked", "there is no constraint", hint='constraint = "CONSTRAINT ...", or UNDER name CHECKED')
        return None
    if inline is not None and name is not None:
        table.wrong("file", "there is a text too", hint="give the query once, in one of the two")
        return None
    if inline is not None:
        return Text(table.title, inline, constraint=constraint, checked=checked)
    if name is None:
        if not {"text", "file"} & set(table.values):
            table.wrong("text", "is missing", hint='text = "EVENT ...", or file = "theft.tocsin"')
        return None
    path = table.file.path.parent / name
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        reason = "there is no such file" if isinstance(error, FileNotFoundError) else (error.strerror or str(error))
        table.wrong("file", f"{name!r}: {reason}", detail=f"looked for {path}")
        return None
    except UnicodeDecodeError:
        table.wrong("file", f"{name!r} is not valid UTF-8")
        return None
    if not text.strip():
        table.wrong("file", f"{name!r} is empty")
        return None
    return Text(name, text, is_file=True, constraint=constraint, checked=checked)


def _order(table: Table | None) -> JobOrder:
    if table is None:
        return JobOrder()
    idle = table.values.get("idle")
    if isinstance(idle, int) and not isinstance(idle, bool):
        table.asked.append("idle")
        given: str | None = str(idle)
    else:
        given = table.text("idle", '"5 min"')
    clock = table.text("clock", '"30 s"')
    longest = table.mapping("longest", '{ Outage = "1 h" }')
    found = JobOrder(table.text("strategy", '"slack(10 min)"'), given, table.texts("sources"), clock, longest)
    table.done()
    for type, length in longest.items():
        try:
            length_of(type, length, None)
        except TocsinError as problem:
            table.wrong("longest", problem.message, hint='longest = { Outage = "1 h" }')
    if found.strategy is None and not table.file.problems:
        table.wrong("strategy", "is missing", hint=f"strategy = {FORMS}")
    for key, parse in (
        ("strategy", lambda: parse_order(found.strategy or "in-order", Schema(unit="us"))),
        ("idle", lambda: parse_order("in-order", Schema(unit="us"), idle=found.idle)),
        ("clock", lambda: as_clock(found.clock)),
    ):
        try:
            parse()
        except TocsinError as problem:
            table.wrong(key, problem.message, detail=problem.detail, hint=problem.hint)
    return found


def _output(name: str, table: Table) -> JobSink:
    found = _target(name, table)
    kinds = table.texts("kinds")
    found = replace(found, kinds=ANSWERS if kinds is None else kinds)
    for kind in found.kinds:
        if kind not in ROW_KINDS:
            table.wrong(
                "kinds", f"{kind!r} is no kind of row", hint=meant(kind, ROW_KINDS) or f"use {', '.join(ROW_KINDS)}"
            )
    if not found.kinds:
        table.wrong("kinds", "is empty, so nothing would be written", hint='kinds = ["match", "late"]')
    history = table.table("batch")
    table.done()
    _check_output(found, table)
    if history is None:
        return found
    own = _target(name, history)
    history.done()
    other = own.format != found.format and "format" in history.values
    changed = replace(
        found,
        format=own.format if "format" in history.values else found.format,
        path=own.path or (None if other else found.path),
        options={**({} if other else found.options), **own.options},
    )
    _check_output(changed, history)
    return replace(found, history=changed)


def _target(name: str, table: Table) -> JobSink:
    format = table.text("format", '"parquet"') or "parquet"
    return JobSink(
        name,
        format="json" if format.lower() in ("jsonl", "ndjson") else format,
        path=_place_of(table, "path", table.text("path")),
        options=table.options("options"),
    )


def _check_output(output: JobSink, table: Table) -> None:
    if output.format in FILES and output.path is None:
        table.wrong("path", "is missing", detail=f"{output.format} is written to files", hint='path = "matches/"')
    if output.format == "kafka":
        _check_kafka(output.options, ("topic",), table)


def _run(table: Table | None) -> Run:
    if table is None:
        return Run()
    trigger = table.text("trigger", '"availableNow"')
    found = Run(
        checkpoint=_place_of(table, "checkpoint", table.text("checkpoint")),
        buckets=table.whole("buckets", least=1, example="4"),
        time_unit=table.choice("time_unit", UNITS, "us") if "time_unit" in table.values else None,
        zone=_zone(table),
        end_of_stream=table.flag("end_of_stream", False),
        unknown="error" if table.choice("unknown", ("ignore", "error"), "ignore") == "error" else "ignore",
        bad_rows="keep" if table.choice("bad_rows", ("fail", "keep"), "fail") == "keep" else "fail",
        all=table.flag("all", False),
        jit=table.flag("jit", True),
    )
    table.asked.append("time_unit")
    table.done()
    if trigger is None:
        return found
    try:
        return replace(found, trigger=trigger_of(trigger))
    except TocsinError as problem:
        table.wrong("trigger", problem.message, hint=problem.hint)
        return found


def _zone(table: Table) -> str | None:
    """The time zone of hour(t), date(t) and the like."""
    name = table.text("zone")
    try:
        return name and zone_named(name).key
    except ZoneError as problem:
        table.wrong("zone", problem.message, hint=problem.hint)
        return None


def trigger_of(text: str) -> dict[str, str | bool]:
    """A trigger as Spark takes it.

    >>> trigger_of("10 seconds"), trigger_of("availableNow")
    ({'processingTime': '10000 milliseconds'}, {'availableNow': True})
    """
    word = re.sub(r"[\s_-]", "", text).lower()
    if word == "availablenow":
        return {"availableNow": True}
    if word == "once":
        return {"once": True}
    hint = 'use "availableNow", "once", or a length of time such as "10 seconds"'
    try:
        length: Duration = parse_duration(text)
    except TocsinError:
        raise TocsinError(f"{text!r} is no trigger", hint=hint) from None
    if length.unit is None:
        raise TocsinError(f"{text!r} has no unit", hint=hint)
    return {"processingTime": f"{max(1, round(length.amount * UNITS[length.unit] / 1000))} milliseconds"}


def _spark(table: Table | None) -> dict[str, str]:
    """Settings of the session; `master` is short for spark.master."""
    if table is None:
        return {}
    found = table.flat("", table.values)
    if "master" in found:
        found["spark.master"] = found.pop("master")
    for name in found:
        if not name.startswith("spark."):
            hint = f'"spark.{name}" = ... is perhaps meant' if "." in name else 'for example: master = "local[4]"'
            table.wrong(name, "is no setting of Spark: those begin with spark.", hint=hint)
    return found
