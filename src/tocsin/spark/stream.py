"""Streams: rows are packed by shard, and each shard keeps its events in Spark's state and answers from them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from tocsin.errors import StateError
from tocsin.order.slack import Slack
from tocsin.spark.blocks import PACKED, Note, Packer, as_bytes, as_table
from tocsin.spark.job import Job
from tocsin.spark.labels import labels_of
from tocsin.spark.shard import Shard
from tocsin.spark.shuffle import Sent
from tocsin.spark.watch import NAME, measures

AT = "__at"
# Spark's own watermark moves only while a stream is being closed: then a batch without data follows the last one with
# data, and its timer settles everything. It is kept thirty years behind, so that it never drops a row.
BEHIND = "10950 days"
STILL = "2020-01-01"
PROVIDER, ROCKSDB = "spark.sql.streaming.stateStore.providerClass", "RocksDBStateStoreProvider"


def detect_stream(
    sent: Sent,
    job: Job,
    order: Slack,
    *,
    closing: bool,
    initial: DataFrame | None = None,
    shard: type[Any] | None = None,
) -> DataFrame:
    """The matches of a stream, with late rows and metrics as rows of their own kind.

    `initial` is what another checkpoint held (`carry.py`). `shard` is what each shard does with a batch (the benchmark
    puts an idle one there).
    """
    _suited(sent.df.sparkSession, job)
    labels = labels_of(job.count)

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return Packer(job).run(batches)

    packed = sent.df.mapInArrow(pack, from_arrow_schema(PACKED))
    now = sf.current_timestamp() if closing else sf.lit(STILL).cast("timestamp")
    known = sf.create_map(*(each for number, label in enumerate(labels) for each in (sf.lit(number), sf.lit(label))))
    keyed = packed.withColumn("label", known[sf.col("shard")]).withColumn(AT, now).withWatermark(AT, BEHIND)
    answered = keyed.groupBy("label").transformWithStateInPandas(
        Processor(job, order, {label: number for number, label in enumerate(labels)}, shard or Shard, closing=closing),
        outputStructType="block binary",
        outputMode="append",
        timeMode="EventTime",
        initialState=None if initial is None else initial.withColumn("label", known[sf.col("shard")]).groupBy("label"),
    )
    return answered.mapInArrow(_unpack, from_arrow_schema(job.result)).observe(NAME, *measures(job))


def _suited(spark: SparkSession, job: Job) -> None:
    """Spark's Python state needs RocksDB; and a task for every shuffle partition, used or not, is costly."""
    if ROCKSDB not in (spark.conf.get(PROVIDER) or ""):
        spark.conf.set(PROVIDER, f"org.apache.spark.sql.execution.streaming.state.{ROCKSDB}")
    # Above this size PySpark sends functions as broadcasts, which the process that checks a stateful one never gets.
    spark.sparkContext._jsc.sc().conf().set("spark.broadcast.UDFCompressionThreshold", str(1 << 30))
    partitions = int(spark.conf.get("spark.sql.shuffle.partitions") or 200)
    if partitions > 4 * max(job.count, spark.sparkContext.defaultParallelism):
        warnings.warn(
            f"every micro-batch will start {partitions} tasks for {job.count} shards; set spark.sql.shuffle.partitions "
            f"to about {job.count} before the stream is started for the first time",
            stacklevel=5,
        )


def _unpack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for block in batch.column(0):
            yield from as_table(block.as_py()).to_batches()


class Processor(StatefulProcessor):
    """Spark's side of a shard: its state as a store, its timer as the end of the stream."""

    def __init__(self, job: Job, order: Slack, numbers: dict[int, int], shard: type[Any], *, closing: bool) -> None:
        self.job, self.order, self.numbers, self.shard, self.closing = job, order, numbers, shard, closing

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.head = handle.getValueState("head", "data binary")
        self.blocks = handle.getMapState("blocks", "number bigint", "data binary")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        notes, tables = [], []
        for frame in rows:
            notes += [Note.read(note) for note in frame["note"] if note is not None]
            tables += [as_table(block) for block in frame["block"] if block is not None]
        shard = self.shard(self.job, self.numbers[int(key[0])], self.order, self)
        if self.closing:
            for timer in list(self.handle.listTimers()):
                self.handle.deleteTimer(timer)
            self.handle.registerTimer(timerValues.getCurrentWatermarkInMs() + 1)
        yield from _frames(shard.batch(notes, tables))

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:  # noqa: ARG002, N802, N803
        if self.closing:
            yield from _frames(self.shard(self.job, self.numbers[int(key[0])], self.order, self).close())

    def handleInitialState(self, key: Any, initialState: pd.DataFrame, timerValues: Any) -> None:  # noqa: ARG002, N802, N803
        tables = [as_table(block) for block in initialState["block"] if block is not None]
        note, guarantee = Note.read(initialState["note"].iloc[0]), int(initialState["guarantee"].iloc[0])
        self.shard(self.job, self.numbers[int(key[0])], self.order, self).seed(note, guarantee, tables)

    # --- the store of a shard ---

    def read_head(self) -> bytes | None:
        found = self.head.get() if self.head.exists() else None
        return None if found is None else bytes(found[0])

    def write_head(self, data: bytes) -> None:
        self.head.update((data,))

    def read(self, number: int) -> bytes:
        found = self.blocks.getValue((number,))
        if found is None:
            raise StateError("a block of the stored state is missing", hint="go back to an earlier checkpoint")
        return bytes(found[0])

    def write(self, number: int, data: bytes) -> None:
        self.blocks.updateValue((number,), (data,))

    def remove(self, number: int) -> None:
        self.blocks.removeKey((number,))


def _frames(answers: Iterator[pa.RecordBatch]) -> Iterator[pd.DataFrame]:
    """Answers as Arrow bytes inside a frame: pandas would neither keep their types nor be fast."""
    for answer in answers:
        if answer.num_rows:
            yield pd.DataFrame({"block": [as_bytes(answer)]})
