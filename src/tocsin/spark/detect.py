"""`tocsin.spark.detect`: events in a DataFrame in, matches in a DataFrame out, batch or streaming."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from tocsin.encode.columns import Columns
from tocsin.errors import InputError, TocsinError, TocsinWarning
from tocsin.events import ANY
from tocsin.functions import Function, registered
from tocsin.order.strategy import check_limit
from tocsin.plan.block import Plan
from tocsin.plan.facts import types_of
from tocsin.run.clock import Clock, as_clock
from tocsin.run.declared import check_unit
from tocsin.run.keywords import names_of, refuse_options
from tocsin.run.query import (
    Query,
    as_bytes,
    check_endless,
    check_windows,
    declared_schema,
    kept_for_ever,
    notes_of,
    plans_of,
)
from tocsin.run.query import query as as_query
from tocsin.schema import Schema
from tocsin.shards.job import Job, Shards, called, carried, reduced
from tocsin.shards.result import DETAILS, result_schema
from tocsin.shards.routes import Group, groups_of, needs_one_shard, units_of
from tocsin.shards.time_slices import Slices, cut, margins
from tocsin.shards.watermark import FORMS, Slack, parse_order
from tocsin.spark.announced import check_order, reports, with_items, with_reports, without_begins
from tocsin.spark.batch import detect_batch
from tocsin.spark.carry_over import carried_over, read_old
from tocsin.spark.event_frame import EventFrame, EventTable, column, open_frame
from tocsin.spark.heartbeats import heartbeats
from tocsin.spark.setup.errors import server_told
from tocsin.spark.setup.jvm import NoJvmError, cores, is_remote, most_cores
from tocsin.spark.setup.session import same_python
from tocsin.spark.setup.versions import check_whole, too_old
from tocsin.spark.setup.workers import check_workers
from tocsin.spark.shuffle import Sent, end_of, send, travelling
from tocsin.spark.signatures import like, like_without_first
from tocsin.spark.stream import detect_stream
from tocsin.spark.worker_reads.batch import Files, Unfit, detect_files, in_time_order, sliced
from tocsin.spark.worker_reads.stream import FileStream, file_stream
from tocsin.spark.write import JOB

SLICES_PER_CORE = 2


@dataclass(frozen=True)
class Prepared:
    """A detection that is ready to run: everything was checked, nothing was read."""

    frame: EventFrame
    plans: tuple[Plan, ...]
    job: Job
    keep: list[str] | None
    order: Slack | None
    closing: bool
    carry_over: str | None = None
    accept_loss: bool = False
    beats: DataFrame | None = None  # what a clock says
    direct: tuple[Files, Job] | None = None  # the files that workers read themselves, and the job cut by time
    file_stream: FileStream | None = None  # where workers read the files of a stream
    detour: str = ""  # why not
    told: tuple[tuple[str, DataFrame], ...] = ()  # what a batch says of begins and of what lasts too long
    warnings: tuple[str, ...] = ()  # beside the notes of the plans

    @cached_property
    def sent(self) -> Sent:
        """Return the rows with their shards, for a frame that Spark itself reads."""
        known = self.job.known
        stray = None if known is None else ~column(self.frame.columns.type).isin(sorted(known))
        return send(self.frame, self.job, self.keep, stray)

    @server_told()
    def run(self) -> DataFrame:
        if self.direct is not None:
            files, cut_in_time = self.direct
            found = detect_files(files, cut_in_time.compiled(), self.frame.df.sparkSession)
            return with_reports(found, list(self.told))
        if self.order is None:
            return with_reports(detect_batch(self.frame, self.sent, self.job.compiled()), list(self.told))
        job, initial = self._begin()
        source, beats = self.file_stream or self.sent, self.beats
        result = detect_stream(source, job, self.order, closing=self.closing, initial=initial, beats=beats)
        setattr(result, JOB, job)  # so that `start` can compare it with a checkpoint
        return result

    def _begin(self) -> tuple[Job, DataFrame | None]:
        """The job of a stream, and the state that it begins with."""
        if self.carry_over is None:
            return self.job.compiled(), None
        job, old, notes = read_old(self.frame, self.job, self.carry_over, accept_loss=self.accept_loss)
        for note in notes:
            warnings.warn(note, TocsinWarning, stacklevel=4)
        job = job.compiled()
        return job, carried_over(self.frame, job, self.keep, self.carry_over, old)


@server_told()
def prepare(
    events: DataFrame | Mapping[str, DataFrame],
    query: Any,
    *,
    type: str = "type",
    time: str = "time",
    end: str | None = None,
    eid: str | None = None,
    source: str | None = None,
    item: str | None = None,
    time_unit: str | None = None,
    order: str | Slack | None = None,
    clock: str | int | Clock | None = None,
    idle: str | int | None = None,
    sources: Sequence[str] = (),
    arrival: str | None = None,
    memory_limit: int | str | None = None,
    buckets: int | None = None,
    schema: Schema | Mapping[str, Any] | None = None,
    strict: bool = False,
    all: bool = False,
    unknown: Literal["ignore", "error"] = "ignore",
    bad_rows: Literal["fail", "keep"] = "fail",
    end_of_stream: bool = False,
    direct: bool = True,
    carry_over: str | None = None,
    accept_loss: bool = False,
    jit: bool = True,
) -> Prepared:
    """Check all arguments of `detect` and plan the work; nothing is read or started."""
    asked = one_query(query)
    check_unit(time_unit)
    _one_of("unknown", unknown, ("ignore", "error"))
    _one_of("bad_rows", bad_rows, ("fail", "keep"))
    columns = Columns(type=type, time=time, end=end, eid=eid, source=source, unit=time_unit)
    frame = open_frame(events, columns, declared_schema(schema, asked.schema, strict=strict))
    frame = frame if item is None else with_items(frame, item)
    _check_session(frame)
    plans = plans_of(asked.queries, frame.schema)
    strategy = _strategy(frame, plans, order, idle, sources, closing=end_of_stream)
    if frame.announces:
        check_order(strategy, arrival=arrival, limited=memory_limit is not None)
    told: list[tuple[str, DataFrame]] = []
    if strategy is None and (frame.announces or frame.schema.longest):
        told = reports(frame, set().union(*map(types_of, plans)), keep_bad=bad_rows == "keep")
        frame = without_begins(frame, keep_bad=bad_rows == "keep") if frame.announces else frame
    beats = _beats(frame, plans, strategy, as_clock(clock))
    shown = frozenset(range(len(plans)) if all else asked.answers)
    known = _known(frame) if unknown == "error" else None
    count = _buckets(frame, buckets)
    details = frame.streaming or bad_rows == "keep" or bool(told)
    job, keep = plan_job(
        frame, plans, shown, buckets=count, jit=jit, keep_bad=bad_rows == "keep", known=known, details=details
    )
    texts = tuple(map(str, asked.queries))
    job = replace(job, around=asked.operators, texts=texts, clock=beats is not None)
    for each in job.shards:  # what does not fit is told here, not by a worker
        job.graph(each.group, each.group.units)
    if strategy is not None:
        job = replace(job, strategy=strategy.strategy, memory_limit=as_bytes(memory_limit))
        check_limit(job.strategy, job.memory_limit)
    if any(plan.staged is not None for plan in plans):
        job, direct = (job, direct) if frame.streaming else (_with_last_end(frame, job), False)
    if arrival is not None:
        job, keep = _as_they_arrive(frame, job, keep, arrival)
    check_functions(frame.df.sparkSession, job.functions)
    direct, why = direct and not frame.announces, "some rows are no events" if frame.announces else "direct=False"
    files, streamed, detour = _read_by_workers(frame, job, keep, buckets) if direct else (None, None, why)
    if files is None:
        job = _divided(frame, job, buckets)
    return Prepared(
        frame, plans, job, keep, strategy, end_of_stream, carry_over, accept_loss, beats, files, streamed, detour,
        tuple(told), kept_for_ever(asked.queries, strategy is not None and not end_of_stream),
    )  # fmt: skip


def _check_session(frame: EventFrame) -> None:
    """Refuse a session that cannot do the work: too old, or with workers that lack what they need."""
    spark = frame.df.sparkSession
    if (problem := too_old("the server's Spark", spark.version)) is not None:
        raise problem
    if frame.streaming or is_remote(spark):
        check_whole(spark, "a stream" if frame.streaming else "Spark Connect")
    same_python(spark)
    check_workers(spark)


@like(prepare)
def detect(*arguments: Any, **options: Any) -> DataFrame:
    """The matches of queries in a DataFrame, batch or streaming alike.

    `events`: a DataFrame, or several by the type of their events: {"Shelf": df1, "Exit": df2}. `query`: text, a Query,
    or a list of them; later ones may use the matches of earlier ones as events.

    type, time, end, eid, source   the columns that say so; `time` is the start where `end` is given
    item         a column that says what a row is: "event" (or null), "begin", which announces an interval, or "begins",
                 which promises that every interval that starts at or before its time was announced or sent
    time_unit    the length of a tick where time is a whole number
    order        for streams, and needed there: "in-order", "slack(10 min)", "conservative(10 min)", ... (docs/order.md)
    arrival      a column that grows as rows arrive (an offset, a time of ingestion); without it a micro-batch has come
                 at once, and orders that do not sort look at its rows in order of time
    memory_limit for each shard of a stream that is looked at as it comes (not sorted): "200 MB"; the rest goes to disk
    clock        for streams: let time pass where no event comes, so that absences are certain; "30 s" says how long an
                 event may take to arrive (docs/order.md)
    idle         after which silence a source is no longer waited for ("5 min"); `sources` names those to wait for
    buckets      into how many parts the events of a key are divided (default: one for each core)
    schema       types and attributes, where the frame does not say enough; what a query mentions and nobody has is
                 empty, with a warning, or with strict=True an error
    all          show the matches of HIDDEN queries too
    unknown      "ignore" or "error": what to do with a type that the schema does not have
    bad_rows     "fail" or "keep": rows without time or type end the job, or become rows of kind "bad"
    end_of_stream  close the stream when an availableNow run has read everything, and settle what waits
    direct       False: Spark reads the files, also where workers could read them themselves
    carry_over   the checkpoint of an earlier stream whose state this one begins with, with other buckets or changed
                 queries perhaps (docs/changing-rules.md); the source must go on where the earlier one stopped
    accept_loss  with `carry_over`, go on where a changed query needs events that were not kept; a warning names them
    jit          False: nothing is compiled; for small inputs, and to look closer at a query
    """
    refuse_options("detect", options, names_of(prepare))
    prepared = prepare(*arguments, **options)
    for note in (*notes_of(prepared.plans), *prepared.warnings):
        warnings.warn(note, TocsinWarning, stacklevel=2)
    return prepared.run()


@like_without_first(prepare)
def detector(*arguments: Any, **options: Any) -> Callable[[DataFrame], DataFrame]:
    """Return `detect` with its arguments filled in, for `df.transform(tocsin.spark.detector(query, ...))`."""
    return lambda events: detect(events, *arguments, **options)


def one_query(query: Any) -> Query:
    """Text, a Query, or several of them, as one Query."""
    if isinstance(query, Query):
        return query
    if isinstance(query, Sequence) and not isinstance(query, str):
        several = [one_query(each) for each in query]
        together = tuple(each for one in several for each in one.operators)
        schema = several[0].schema if several else None
        return Query(tuple(each for one in several for each in one.queries), schema, together)
    return as_query(query)


def _as_they_arrive(frame: EventFrame, job: Job, keep: list[str] | None, arrival: str) -> tuple[Job, list[str] | None]:
    """Add the arrival column to those that travel to the workers."""
    if arrival not in frame.rows.names:
        known = ", ".join(map(repr, frame.rows.names))
        raise InputError(f"the input has no arrival column {arrival!r}", detail=f"its columns are: {known}")
    type = frame.rows.field(arrival).type
    if not (pa.types.is_integer(type) or pa.types.is_timestamp(type)):
        raise InputError(
            f"the arrival column {arrival!r} is of type {type}",
            detail="it must grow as rows arrive",
            hint="name a column of whole numbers or of times, such as an offset",
        )
    return replace(job, arrival=arrival), None if keep is None else sorted({*keep, arrival})


def _one_of(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise TocsinError(f"{name}={value!r} is not known", hint=f"use {' or '.join(map(repr, known))}")


def _strategy(
    frame: EventFrame,
    plans: tuple[Plan, ...],
    order: str | Slack | None,
    idle: str | int | None,
    sources: Sequence[str],
    *,
    closing: bool,
) -> Slack | None:
    """Parse the order of a stream; None for a batch, which is sorted."""
    if not frame.streaming:
        return None
    if order is None:
        raise TocsinError(
            "a stream needs an order: how late may its events come?",
            detail="without that, nobody can know when an absence is certain or what may be forgotten",
            hint=f"say order={FORMS}",
        )
    if not closing:
        check_endless(plans)
    return parse_order(order, frame.schema, idle=idle, sources=sources)


def _beats(frame: EventFrame, plans: tuple[Plan, ...], order: Slack | None, clock: Clock | None) -> DataFrame | None:
    """Open the clock of a stream, if it has one; refuse one that could decide nothing."""
    if clock is None:
        return None
    if order is None:
        raise TocsinError(
            "a batch has no use for a clock: its events have an end, at which everything is answered",
            hint="leave clock out, or read the events as a stream (spark.readStream)",
        )
    check_windows(plans)
    clock.check(frame.schema, order.late)
    return heartbeats(frame, clock)


def _known(frame: EventFrame) -> frozenset[str]:
    """Return the types that may come; refuse a frame that does not know them."""
    if frame.schema.open_types:
        raise TocsinError(
            'unknown="error" needs to know the types',
            hint='give a schema: schema={"Shelf": {"tag": "text"}, ...}, or frames by type',
        )
    return frozenset(frame.schema.types)


def _read_by_workers(
    frame: EventFrame, job: Job, keep: list[str] | None, buckets: int | None
) -> tuple[tuple[Files, Job] | None, FileStream | None, str]:
    """Plan reading by the workers, for a batch or a stream; or return the reason why Spark must read."""
    names = travelling(frame, keep)
    try:
        if frame.streaming:
            return None, file_stream(frame, job, names), ""
        if job.keep_bad or job.known is not None:
            raise Unfit("rows that are reported come from Spark")  # noqa: TRY301
        if job.around or any(unit.chooses for each in job.shards for unit in each.group.units):
            raise Unfit("what chooses among matches must see them in order, so time cannot be cut")  # noqa: TRY301
        files = in_time_order(frame, names)
        return (files, sliced(files, job, buckets or SLICES_PER_CORE * _cores(frame))), None, ""
    except Unfit as reason:
        return None, None, str(reason)
    except NoJvmError as reason:
        return None, None, reason.message


def check_functions(spark: SparkSession, functions: Mapping[str, Function]) -> None:
    """Check, before any data moves, that workers can load the user functions that the queries call."""
    if not functions:
        return

    def load(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        assert functions is not None
        yield from batches

    try:
        spark.range(1, numPartitions=1).mapInArrow(load, "id long").collect()
    except Exception as error:  # noqa: BLE001 - whatever Spark raises, the reason is in its text
        lines = [line.strip() for line in str(error).splitlines() if "Error" in line]
        raise TocsinError(
            f"the workers cannot load the functions of the query: {', '.join(sorted(functions))}",
            detail=next((line for line in reversed(lines) if "Module" in line or "Import" in line), str(error)[:200]),
            hint="send the module that defines them along: spark.addArtifact('module.py', pyfile=True), or --py-files",
        ) from None


# --- shards --------------------------------------------------------------------------------------------------------


def plan_job(
    frame: EventTable,
    plans: tuple[Plan, ...],
    shown: frozenset[int],
    *,
    buckets: int,
    jit: bool,
    keep_bad: bool,
    known: frozenset[str] | None = None,
    details: bool | None = None,
) -> tuple[Job, list[str] | None]:
    """Build the job: groups, shards and the schema of the result; also return the attributes that must travel."""
    if buckets < 1:
        raise TocsinError(f"{buckets} buckets are too few", hint="use at least 1, or leave it out")
    keep = carried(plans, shown, frame.schema, frame.columns)
    groups = groups_of([replace(unit, announced=frame.announces) for unit in units_of(plans)])
    answers = [plan for number, plan in enumerate(plans) if number in shown]
    names = frozenset(type for plan in plans for type in plan.emits)
    result = result_schema(answers, names, frame.rows, frame.columns, frame.time)
    if details or (details is None and (frame.streaming or keep_bad)):
        result = result.append(DETAILS)
    job = Job(
        shards=tuple(_shards(groups, buckets)),
        schema=reduced(frame.schema, keep),
        columns=frame.columns,
        result=result,
        time=frame.time,
        shown=shown,
        jit=jit,
        functions={name: registered()[name] for name in called(plans)},
        keep_bad=keep_bad,
        columns_of={unit.name: _columns_of(frame, unit.plans, unit.numbers, shown) for g in groups for unit in g.units},
        known=known,
    )
    return job, keep


def _columns_of(
    frame: EventTable, plans: tuple[Plan, ...], numbers: tuple[int, ...], shown: frozenset[int]
) -> dict[str, str]:
    """The columns that a unit reads, with their types: what its stored events must have."""
    own = frozenset(at for at, number in enumerate(numbers) if number in shown)
    keep = carried(plans, own, frame.schema, frame.columns)
    roles = [frame.columns.type, frame.columns.time, frame.columns.end, frame.columns.eid]
    names = [name for name in frame.rows.names if keep is None or name in keep or name in roles]
    return {name: str(frame.rows.field(name).type) for name in names}


def _buckets(frame: EventFrame, buckets: int | None) -> int:
    """How many shards a group with a key has: one for each core, unless someone says."""
    if buckets is not None:
        return buckets
    if frame.streaming and most_cores(frame.df.sparkSession) is None:
        warnings.warn(
            f"the cluster grows without a limit, and a stream keeps the {_cores(frame)} buckets that it begins with; "
            "say buckets=, or spark.dynamicAllocation.maxExecutors",
            TocsinWarning,
            stacklevel=5,
        )
    return _cores(frame)


def _shards(groups: Iterable[Group], buckets: int) -> list[Shards]:
    """Each group with its shards: `buckets` of them, or one where there is no key."""
    found: list[Shards] = []
    first = 0
    for group in groups:
        found.append(Shards(group, first, buckets if group.keyed else 1))
        first += found[-1].count
    return found


def _cores(frame: EventFrame) -> int:
    return cores(frame.df.sparkSession)


def _divided(frame: EventFrame, job: Job, buckets: int | None) -> Job:
    """The job for a frame that Spark reads: groups without a key are cut in time, if it is a batch."""
    found: list[Shards] = []
    first = 0
    for each in job.shards:
        if not each.group.keyed:
            most = buckets or SLICES_PER_CORE * _cores(frame)
            cannot = frame.streaming or job.around or any(unit.chooses for unit in each.group.units)
            slices = None if cannot else _slices(frame, each.group, most)
            each = Shards(each.group, first, slices.count if slices else 1, slices)
            _warn_of_one(frame, each)
        found.append(replace(each, first=first))
        first += each.count
    return replace(job, shards=tuple(found))


def _warn_of_one(frame: EventFrame, shards: Shards) -> None:
    """Warn that a query without a key runs in a single task."""
    if shards.slices is None:
        names = ", ".join(unit.name for unit in shards.group.units)
        remedy = "add an equality over all its events, such as WHERE [id]"
        remedy += "" if frame.streaming else ", or a window (WITHIN), so that history can be cut in time"
        reasons = [reason for unit in shards.group.units if (reason := needs_one_shard(unit))]
        if reasons:
            told = f"{names} has no key to divide it by, so all its events go through one task: {'; '.join(reasons)}"
            warnings.warn(told, stacklevel=6)
            return
        warnings.warn(f"{names} has no key: all its events go through one task; {remedy}", stacklevel=6)


def _with_last_end(frame: EventFrame, job: Job) -> Job:
    """The job of statements, which is told where the last event of the batch ends: workers do not see all of them."""
    row = frame.df.agg(sf.max(end_of(frame))).first()
    return job if row is None or row[0] is None else replace(job, last=int(row[0]))


def _slices(frame: EventFrame, group: Group, most: int) -> Slices | None:
    """Cut a batch without a key into slices of time; None unless each query stands alone and has a window."""
    if most < 2 or any(len(unit.plans) > 1 for unit in group.units):
        return None
    around = margins(plan for unit in group.units for plan in unit.plans)
    if around is None:
        return None
    kinds = column(frame.columns.type)
    some = frame.df if ANY in group.types else frame.df.where(kinds.isin(sorted(group.types)))
    row = some.agg(sf.min(end_of(frame)), sf.max(end_of(frame))).first()
    if row is None or row[0] is None:
        return None
    return cut(int(row[0]), int(row[1]), around, most)
