"""Write the result of a stream to sinks, by kind of row, so that a repeated micro-batch changes nothing.

Spark repeats the last batch after a fault. A sink of files gets one folder a batch, which a repetition replaces. Other
sinks get each batch at least once; a match has the same match_id each time, so its reader can tell.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery

from tocsin.engine.kinds import ANSWERS, MATCH
from tocsin.errors import StateError, TocsinError
from tocsin.shards.job import Job
from tocsin.spark.checkpoint import claim
from tocsin.spark.setup.errors import server_told
from tocsin.spark.setup.jvm import cores, exists, holds
from tocsin.spark.setup.session import fit_checkpoints, try_to_set

LOG = logging.getLogger("tocsin")
ROW_KINDS = (*ANSWERS, "late", "bad", "metrics")
FILES = ("parquet", "json", "csv", "orc", "text", "avro")
JOB = "_tocsin_job"  # where a result of `detect` carries its job
PARTITIONS = "spark.sql.shuffle.partitions"
BATCHES, BATCHES_OF_STREAMS = "batch=*", "batch=[0-9]*"  # folders in that of a file sink


@dataclass(frozen=True)
class Sink:
    """Where rows of some kinds go: a Spark format with options, or a function of (frame, batch number)."""

    format: str | Callable[[DataFrame, int], None] = "parquet"
    path: str | None = None
    kinds: tuple[str, ...] = ANSWERS
    options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for kind in self.kinds:
            if kind not in ROW_KINDS:
                raise TocsinError(f"{kind!r} is no kind of row", hint=f"use {', '.join(ROW_KINDS)}")
        if self.format in FILES and self.path is None:
            raise TocsinError(f"a sink of format {self.format} needs a path")

    def put(self, rows: DataFrame, batch: int, *, details: bool = False) -> None:
        """Write one batch; doing it again changes nothing where the format allows that. `details` are always kept."""
        mine = chosen(rows, self.kinds, details=details)
        if callable(self.format):
            self.format(mine, batch)
        elif self.format in FILES:
            mine.write.format(self.format).options(**self.options).mode("overwrite").save(f"{self.path}/batch={batch}")
        elif self.format == "kafka":
            as_messages(mine).write.format("kafka").options(**self.options).save()
        elif self.format == "console":
            mine.show(n=int(self.options.get("numRows", 20)), truncate=self.options.get("truncate", "true") == "true")
        else:
            writer = mine.write.format(self.format).options(**self.options).mode("append")
            writer.save(self.path) if self.path else writer.save()


def chosen(rows: DataFrame, kinds: Sequence[str], *, details: bool = False) -> DataFrame:
    """The rows of some kinds; answers alone need no details, but for announced intervals that never ended."""
    mine = rows.where(sf.col("kind").isin(list(kinds)))
    return mine.drop("details") if set(kinds) <= set(ANSWERS) and not details else mine


def matches(result: DataFrame) -> DataFrame:
    """Only the matches of a result, without the column that only other kinds of rows use."""
    return chosen(result, (MATCH,))


def as_messages(rows: DataFrame) -> DataFrame:
    """Rows as Kafka messages: JSON, under the id of the match."""
    whole = sf.to_json(sf.struct(*(sf.col(f"`{name}`") for name in rows.columns)), {"ignoreNullFields": "false"})
    return rows.select(sf.col("match_id").alias("key"), whole.alias("value"))


def put_all(sinks: Sequence[Sink], rows: DataFrame, batch: int, *, details: bool = False) -> None:
    """Write one batch to every sink, and compute it once."""
    several = len(sinks) > 1
    if several:  # else every sink would have it computed anew
        rows = rows.persist()
    try:
        for sink in sinks:
            sink.put(rows, batch, details=details)
    finally:
        if several:
            rows.unpersist()


def check_folder(spark: SparkSession, sink: Sink, checkpoint: str | None) -> None:
    """Refuse a folder that holds what this run would write a second time.

    A stream goes on in the folders that it has written; one that begins needs folders that nobody has written. A
    backfill (`checkpoint` is None) replaces an earlier backfill, and never stands beside a stream.
    """
    if sink.format not in FILES or (checkpoint is not None and exists(spark, f"{checkpoint.rstrip('/')}/offsets")):
        return
    path = str(sink.path).rstrip("/")
    if checkpoint is None and holds(spark, path, BATCHES_OF_STREAMS):
        raise StateError(
            f"{path} holds the answers of a stream",
            detail="a backfill finds the same matches, and each would be there twice",
            hint="give the backfill a folder of its own, and read both through dropDuplicates(['match_id'])",
        )
    if checkpoint is not None and holds(spark, path, BATCHES):
        raise StateError(
            f"{path} holds the answers of an earlier run",
            detail="a stream that begins with a new checkpoint would write over some of them and beside others",
            hint="give the stream a folder of its own, or go on with the checkpoint that has written there",
        )


def job_of(result: DataFrame) -> Job | None:
    """The job that `detect` noted at its result; None for any other frame.

    `getattr` would not do: to a frame of Spark Connect every name is a column.
    """
    found: Job | None = vars(result).get(JOB)
    return found


@server_told()
def start(
    result: DataFrame,
    sinks: Sink | Sequence[Sink],
    *,
    checkpoint: str,
    trigger: Mapping[str, Any] | None = None,
    name: str | None = None,
) -> StreamingQuery:
    """Start a stream that `detect` made, into one sink or several; `trigger` as in Spark: {"availableNow": True}."""
    listed = [sinks] if isinstance(sinks, Sink) else list(sinks)
    if not listed:
        raise TocsinError("a stream needs a sink", hint='for example Sink("parquet", "matches")')

    job = job_of(result)
    details = job is not None and job.announces
    writer = result.writeStream.foreachBatch(lambda rows, batch: put_all(listed, rows, batch, details=details)).option(
        "checkpointLocation", checkpoint
    )
    writer = writer.queryName(name) if name else writer
    writer = writer.trigger(**trigger) if trigger else writer
    for sink in listed:
        check_folder(result.sparkSession, sink, checkpoint)
    if job is not None:
        claim(result.sparkSession, checkpoint, job)
    fit_checkpoints(result.sparkSession, checkpoint)
    with few_partitions(result.sparkSession, cores(result.sparkSession) if job is None else job.count):
        LOG.info("starting the stream %s, checkpoint %s", name or "without a name", checkpoint)
        return writer.start()


@contextmanager
def few_partitions(spark: SparkSession, shards: int) -> Iterator[None]:
    """Set few shuffle partitions while a stream takes its settings: every one costs a task and a store a micro-batch.

    A stream keeps the number that it starts with; one that has started before takes it from its checkpoint. More
    partitions than shards are never of use, fewer may be someone's choice.
    """
    before = str(spark.conf.get(PARTITIONS))
    if not before.isdigit() or int(before) > shards:  # some platforms say "auto"
        try_to_set(spark, PARTITIONS, str(min(shards, cores(spark))))
    try:
        yield
    finally:
        try_to_set(spark, PARTITIONS, before)
