"""Run a pipeline file: live as a stream, or over history as a batch, with the same matches."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import Observation, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery

from tocsin.engine.kinds import ANSWERS
from tocsin.errors import InputError, QueryError
from tocsin.jobs.config import JobFile, JobSink, placed_query
from tocsin.jobs.lock import Owner, check_owner, check_writable, claimed, local
from tocsin.jobs.sources import Events, open_sources, placed
from tocsin.run.query import check_windows, notes_of
from tocsin.shards.watermark import FORMS
from tocsin.spark.detect import Prepared, prepare
from tocsin.spark.metrics import numbers
from tocsin.spark.setup.errors import noted
from tocsin.spark.setup.lifetime import borrowed_session
from tocsin.spark.write import FILES, Sink, check_folder, put_all, start

HISTORY = -1  # the batch number of a backfill: its files stand beside those of the stream, and are replaced by the next
IN_BATCH = (*ANSWERS, "bad")
STORED = ("parquet", "orc")  # files that know how many rows they have
SECONDS_FOR_NUMBERS = 10.0  # seconds to wait for numbers that Spark has, or will never have
SECONDS_BETWEEN_LOOKS = 0.2  # seconds between two looks at a running stream


@dataclass(slots=True)
class Tally:
    """Totals of a run: batches, events, matches, events without a key, late and bad rows."""

    batches: int = 0
    events: int = 0
    matches: int = 0
    keyless: int = 0
    late: int = 0
    bad: int = 0
    watermark: int | None = None
    seconds: float = 0.0
    latest: Mapping[str, Any] = field(default_factory=dict)

    def add(self, progress: Any) -> None:
        """Add the metrics of one micro-batch."""
        found = numbers(progress)
        self.batches += 1
        self.latest = {**found, "batch": progress.batchId}
        for name in ("events", "matches", "keyless", "late", "bad"):
            setattr(self, name, getattr(self, name) + int(found.get(name) or 0))
        if found.get("watermark") is not None:
            self.watermark = int(found["watermark"])

    @property
    def aside(self) -> list[str]:
        """What was not used, in words."""
        counted = (("without a key", self.keyless), ("late", self.late), ("bad", self.bad))
        return [f"{count:,} {name}" for name, count in counted if count]

    def text(self) -> str:
        """One line about the run.

        >>> Tally(batches=2, events=1200, matches=3, seconds=1.5).text()
        '1,200 events, 3 matches, 2 batches, 1.50 s'
        """
        parts = [_counted(self.events, "event"), _counted(self.matches, "match", "matches")]
        parts += self.aside
        parts += [_counted(self.batches, "batch", "batches")] if self.batches else []
        return ", ".join([*parts, f"{self.seconds:.2f} s"])


def _counted(count: int, one: str, many: str | None = None) -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def session_of(pipeline: JobFile) -> AbstractContextManager[SparkSession]:
    """A session with the settings of the file."""
    # Texts without a zone mean the same moment on every machine, unless the file says otherwise.
    settings = {"spark.sql.session.timeZone": "UTC", **pipeline.spark}
    return borrowed_session(master=settings.pop("spark.master", "local[*]"), app=pipeline.name, config=settings)


@dataclass(frozen=True)
class Ready:
    """A pipeline that was checked as far as can be without reading events."""

    pipeline: JobFile
    live: bool
    events: Events
    prepared: Prepared
    notes: tuple[str, ...]
    counts: Observation | None = None

    def events_read(self) -> int:
        """Return how many events a backfill has read: counted in the files, or observed by Spark."""
        if self.counts is None:
            return int(self.events.df.count())
        return int(_observed(self.counts).get("events") or 0)


# --- before anything moves -----------------------------------------------------------------------------------------


def check_offline(pipeline: JobFile, *, live: bool) -> tuple[str, ...]:
    """All that can be told without Spark: grammar of the queries, order, checkpoint, places. Returns warnings."""
    pipeline = pipeline if live else pipeline.as_history()
    query = pipeline.query()
    with _query_places(pipeline):
        notes = query.check(time_unit=pipeline.run.time_unit)
        if live and pipeline.order.clock is not None:
            check_windows(query.plans())
    if live:
        _check_live(pipeline)
        assert pipeline.run.checkpoint is not None
        check_owner(pipeline.run.checkpoint, owner_of(pipeline))
    for output in pipeline.outputs:
        _check_place(pipeline, output)
    return notes


def owner_of(pipeline: JobFile) -> Owner:
    return Owner(pipeline.name, tuple(each.name for each in pipeline.sources))


def _check_live(pipeline: JobFile) -> None:
    file, run = pipeline.file.name, pipeline.run
    if pipeline.order.strategy is None:
        raise InputError(
            f"{file}: a stream needs an order: how late may its events come?",
            hint=f"add a table [order] with strategy = {FORMS}; a backfill (--batch) needs none",
        )
    if run.checkpoint is None:
        raise InputError(
            f"{file}, [run]: a stream needs a checkpoint, where it remembers how far it came",
            hint='checkpoint = "state/theft"; a backfill (--batch) needs none',
        )
    if run.end_of_stream and not {"availableNow", "once"} & set(run.trigger):
        raise InputError(
            f"{file}, [run], key 'end_of_stream': only a run that ends can close its stream",
            hint='add trigger = "availableNow", or leave end_of_stream out',
        )


def _check_place(pipeline: JobFile, output: JobSink) -> None:
    """Whether a folder can be written, where it is on this machine."""
    folder = local(output.path) if output.format in FILES and output.path is not None else None
    if folder is not None:
        check_writable(folder, f"{pipeline.file.name}, [sink.{output.name}], key 'path':")


@contextmanager
def _query_places(pipeline: JobFile) -> Iterator[None]:
    """A mistake in a query is told with the table or file it stands in."""
    try:
        yield
    except QueryError as error:
        where = next((text.place for text in pipeline.texts if text.text == error.text), None)
        raise error if where is None else placed_query(error, f"{pipeline.file.name}, {where}") from None


def make_ready(pipeline: JobFile, spark: SparkSession, *, live: bool) -> Ready:
    """Open the sources, bind the queries, and check all that can be checked; nothing is started or written."""
    notes = check_offline(pipeline, live=live)
    pipeline = pipeline if live else pipeline.as_history()
    events = open_sources(pipeline, spark, live=live)
    counts = None
    if not live and any(each.format not in STORED for each in pipeline.sources):
        counts = Observation("events")
        events = replace(events, df=events.df.observe(counts, sf.count(sf.lit(1)).alias("events")))
    run, order = pipeline.run, pipeline.order
    options: dict[str, Any] = {**events.columns(), "schema": events.schema}
    if live:
        awaited = order.sources if order.sources is not None else events.sources
        options |= {"order": order.strategy, "idle": order.idle, "sources": awaited, "clock": order.clock}
    with noted() as told, _query_places(pipeline):
        prepared = prepare(
            events.df,
            pipeline.query(),
            time_unit=run.time_unit,
            buckets=run.buckets,
            all=run.all,
            unknown=run.unknown,
            bad_rows=run.bad_rows,
            end_of_stream=live and run.end_of_stream,
            jit=run.jit,
            **options,
        )
    strange = tuple(dict.fromkeys([*notes, *notes_of(prepared.plans), *told]))
    ready = Ready(pipeline, live, events, prepared, strange, counts)
    _check_outputs(ready)
    if live and run.checkpoint is not None:
        check_owner(run.checkpoint, owner_of(pipeline), prepared.job.identity)
    return ready


def _check_outputs(ready: Ready) -> None:
    """Whether each sink can hold what it gets."""
    spark, checkpoint = ready.events.df.sparkSession, ready.pipeline.run.checkpoint if ready.live else None
    nested = [each.name for each in ready.prepared.job.result if pa.types.is_nested(each.type)]
    for output in ready.pipeline.outputs:
        where = f"{ready.pipeline.file.name}, [sink.{output.name}]"
        if output.format == "csv" and nested:
            raise InputError(
                f"{where}: CSV cannot hold the events of {', '.join(nested)}",
                hint=f'let the query say what it shows (SELECT {nested[0]}.tag AS tag, ...), or use format = "jsonl"',
            )
        if "bad" in output.kinds and ready.pipeline.run.bad_rows != "keep":
            raise InputError(
                f"{where}, key 'kinds': there are no bad rows, since the first one ends the run",
                hint='add to [run]: bad_rows = "keep"',
            )
        if ready.live or set(output.kinds) & set(IN_BATCH):
            with placed(where):
                check_folder(spark, _sink(output), checkpoint)


# --- history -------------------------------------------------------------------------------------------------------


def run_batch(ready: Ready) -> Tally:
    """Find every match of the history and write it; a second run replaces what the first has written to files."""
    began = time.perf_counter()
    sinks = [_sink(each) for each in ready.pipeline.outputs if set(each.kinds) & set(IN_BATCH)]
    counts = Observation("result")
    kinds = [sf.sum((sf.col("kind") == kind).cast("long")).alias(kind) for kind in IN_BATCH]
    rows = ready.prepared.run().observe(counts, *kinds)
    put_all(sinks, rows, HISTORY)
    found = _observed(counts) if sinks else {}
    tally = Tally(matches=int(found.get("match") or 0), bad=int(found.get("bad") or 0))
    tally.events = ready.events_read()
    tally.seconds = time.perf_counter() - began
    return tally


def _observed(counts: Observation) -> dict[str, Any]:
    """Return what Spark observed; empty if Spark skipped the observed part of the plan."""
    found: dict[str, Any] = {}
    asking = threading.Thread(target=lambda: found.update(counts.get), daemon=True)
    asking.start()
    asking.join(timeout=SECONDS_FOR_NUMBERS)
    return found


# --- live ----------------------------------------------------------------------------------------------------------


def _sink(output: JobSink) -> Sink:
    options = dict(output.options)
    if output.format == "json":
        options.setdefault("ignoreNullFields", "false")
    return Sink(output.format, output.path, output.kinds, options)


@contextmanager
def started(ready: Ready, warn: Callable[[str], None] = lambda _: None) -> Iterator[StreamingQuery]:
    """The running stream; its checkpoint is held until the end, and the stream stops with the block."""
    run = ready.pipeline.run
    assert run.checkpoint is not None
    with claimed(run.checkpoint, owner_of(ready.pipeline)):
        sinks = [_sink(each) for each in ready.pipeline.outputs]
        with noted() as notes:
            result = ready.prepared.run()
            query = start(result, sinks, checkpoint=run.checkpoint, trigger=run.trigger, name=ready.pipeline.name)
        for note in notes:
            warn(note)
        try:
            yield query
        finally:
            if query.isActive:
                query.stop()


def follow(
    query: StreamingQuery,
    *,
    told: Callable[[Tally], None] = lambda _: None,
    asked_to_stop: Callable[[], int] = lambda: 0,
) -> Tally:
    """Wait for a stream; `told` hears of every micro-batch.

    `asked_to_stop` says how often someone asked: once lets the micro-batch that runs come to its end, twice does not.
    """
    began = time.perf_counter()
    tally = Tally()
    seen = -1
    stopping: int | None = None
    while True:
        ended = bool(query.awaitTermination(SECONDS_BETWEEN_LOOKS))  # type: ignore[arg-type]
        for progress in query.recentProgress:
            if progress.batchId > seen and numbers(progress):
                seen = progress.batchId
                tally.add(progress)
                tally.seconds = time.perf_counter() - began
                told(tally)
        if ended:
            break
        if asked_to_stop():
            stopping = tally.batches if stopping is None else stopping
            if asked_to_stop() > 1 or tally.batches > stopping or not query.status["isTriggerActive"]:
                query.stop()
    tally.seconds = time.perf_counter() - began
    return tally


__all__ = ["Ready", "Tally", "check_offline", "follow", "make_ready", "run_batch", "session_of", "started"]
