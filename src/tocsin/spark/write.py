"""Write the result of a stream to sinks, by kind of row, so that a repeated micro-batch changes nothing.

Spark repeats the last batch after a fault. A sink of files gets one folder a batch, which a repetition replaces. Other
sinks get each batch at least once; a match has the same match_id each time, so its reader can tell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery

from tocsin.errors import TocsinError
from tocsin.spark.checkpoint import claim
from tocsin.spark.setup.errors import server_told
from tocsin.spark.setup.jvm import cores
from tocsin.spark.setup.session import fit_checkpoints

ROW_KINDS = ("match", "late", "bad", "metrics")
FILES = ("parquet", "json", "csv", "orc", "text", "avro")
JOB = "_tocsin_job"  # where a result of `detect` carries its job
PARTITIONS = "spark.sql.shuffle.partitions"


@dataclass(frozen=True)
class Sink:
    """Where rows of some kinds go: a Spark format with options, or a function of (frame, batch number)."""

    format: str | Callable[[DataFrame, int], None] = "parquet"
    path: str | None = None
    kinds: tuple[str, ...] = ("match",)
    options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for kind in self.kinds:
            if kind not in ROW_KINDS:
                raise TocsinError(f"{kind!r} is no kind of row", hint=f"use {', '.join(ROW_KINDS)}")
        if self.format in FILES and self.path is None:
            raise TocsinError(f"a sink of format {self.format} needs a path")

    def put(self, rows: DataFrame, batch: int) -> None:
        """Write one batch; doing it again changes nothing where the format allows that."""
        mine = chosen(rows, self.kinds)
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


def chosen(rows: DataFrame, kinds: Sequence[str]) -> DataFrame:
    """The rows of some kinds; matches alone need no details."""
    mine = rows.where(sf.col("kind").isin(list(kinds)))
    return mine.drop("details") if tuple(kinds) == ("match",) else mine


def matches(result: DataFrame) -> DataFrame:
    """Only the matches of a result, without the column that only other kinds of rows use."""
    return chosen(result, ("match",))


def as_messages(rows: DataFrame) -> DataFrame:
    """Rows as Kafka messages: JSON, under the id of the match."""
    whole = sf.to_json(sf.struct(*(sf.col(f"`{name}`") for name in rows.columns)), {"ignoreNullFields": "false"})
    return rows.select(sf.col("match_id").alias("key"), whole.alias("value"))


def put_all(sinks: Sequence[Sink], rows: DataFrame, batch: int) -> None:
    """Write one batch to every sink, and compute it once."""
    several = len(sinks) > 1
    if several:  # else every sink would have it computed anew
        rows = rows.persist()
    try:
        for sink in sinks:
            sink.put(rows, batch)
    finally:
        if several:
            rows.unpersist()


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

    writer = result.writeStream.foreachBatch(lambda rows, batch: put_all(listed, rows, batch)).option(
        "checkpointLocation", checkpoint
    )
    writer = writer.queryName(name) if name else writer
    writer = writer.trigger(**trigger) if trigger else writer
    job = getattr(result, JOB, None)
    if job is not None:
        claim(result.sparkSession, checkpoint, job)
    fit_checkpoints(result.sparkSession, checkpoint)
    with _partitions(result.sparkSession):
        return writer.start()


@contextmanager
def _partitions(spark: SparkSession) -> Iterator[None]:
    """As many shuffle partitions as cores while the stream takes its settings, unless someone chose a number."""
    before = spark.conf.get(PARTITIONS)
    if before == "200":
        spark.conf.set(PARTITIONS, str(cores(spark)))
    try:
        yield
    finally:
        spark.conf.set(PARTITIONS, str(before))
