"""Streaming detection: rows reach their shard, which keeps its events in Spark's state store and answers from them.

A task before packs rows per shard; or the shard reads new files itself and keeps its rows (`worker_reads.stream`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.cloudpickle import dumps, loads
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from tocsin.errors import StateError
from tocsin.events import BEGINNING
from tocsin.shards.blocks import PACKED, Note, Packer, as_table
from tocsin.shards.job import Job
from tocsin.shards.shard import Shard
from tocsin.shards.shard_labels import labels_of
from tocsin.shards.watermark import Slack
from tocsin.spark.answer_columns import received, sent_frames, sent_schema
from tocsin.spark.event_frame import check_names
from tocsin.spark.heartbeats import BEAT
from tocsin.spark.metrics import NAME, measures
from tocsin.spark.processor import processor
from tocsin.spark.setup.jvm import send_large_functions_whole
from tocsin.spark.setup.session import STREAMING, try_to_set
from tocsin.spark.setup.versions import spark_schema
from tocsin.spark.shuffle import Sent
from tocsin.spark.worker_reads.stream import FileReading, FileStream

AT = "__at"
# Spark's own watermark moves only while a stream is being closed: then a batch without data follows the last one with
# data, and its timer settles everything. It is kept thirty years behind, so that it never drops a row.
BEHIND = "10950 days"
STILL = "2020-01-01"
PROVIDER, ROCKSDB = "spark.sql.streaming.stateStore.providerClass", "RocksDBStateStoreProvider"
CHANGES = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"


def detect_stream(
    source: Sent | FileStream,
    job: Job,
    order: Slack,
    *,
    closing: bool,
    initial: DataFrame | None = None,
    beats: DataFrame | None = None,
    shard: type[Any] = Shard,
) -> DataFrame:
    """The matches of a stream, with late rows and metrics as rows of their own kind.

    `source` is rows with their shards, or the files behind the stream where workers read them. `initial` is what
    another checkpoint held (`carry_over`), `beats` what a clock says (`heartbeats`). `shard` is what each shard does
    with a batch (the benchmark puts an idle one there).
    """
    _suited(source.df.sparkSession)
    labels = labels_of(job.count)
    label = _label(labels)
    now = sf.current_timestamp() if closing else sf.lit(STILL).cast("timestamp")
    keyed = _arriving(source, job, labels, beats).withColumn(AT, now).withWatermark(AT, BEHIND)
    reading = source.reading if isinstance(source, FileStream) else None
    numbers = {label: number for number, label in enumerate(labels)}
    answered = keyed.groupBy("label").transformWithStateInPandas(
        processor(_pickled(Work(job, order, numbers, shard, closing, reading))),
        outputStructType=spark_schema(sent_schema(job.result)),
        outputMode="append",
        timeMode="EventTime",
        initialState=None if initial is None else initial.withColumn("label", label).groupBy("label"),
    )
    return received(answered, job.result).observe(NAME, *measures(job))


def _pickled(work: Work) -> bytes:
    """Pickle with cloudpickle, as Spark does: the work may contain functions of the user."""
    data: bytes = dumps(work)  # type: ignore[no-untyped-call]
    return data


def _label(labels: list[int]) -> Column:
    known = sf.create_map(*(each for number, label in enumerate(labels) for each in (sf.lit(number), sf.lit(label))))
    return known[sf.col("shard")]


def _arriving(source: Sent | FileStream, job: Job, labels: list[int], beats: DataFrame | None) -> DataFrame:
    """Return the input of the shards, each row with a label: names of files or packed rows; heartbeats for all."""
    everyone = sf.explode(sf.array(*map(sf.lit, labels))).alias("label")
    if beats is not None:
        events = _arriving(source, job, labels, None)
        return events.unionByName(beats.select("*", everyone), allowMissingColumns=True)
    if isinstance(source, FileStream) and source.shared:
        return source.df.coalesce(1).select("path", everyone)
    pack = _reading(job, source.reading) if isinstance(source, FileStream) else _packing(job)
    check_names(source.df)
    return source.df.mapInArrow(pack, spark_schema(PACKED)).withColumn("label", _label(labels))


def _packing(job: Job) -> Any:
    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return Packer(job).run(batches)

    return pack


def _reading(job: Job, reading: FileReading) -> Any:
    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return reading.packed(job, (path for batch in batches for path in batch.column(0).to_pylist()))

    return read


def _suited(spark: SparkSession) -> None:
    """Set the state store that Python state needs: RocksDB, with changelogs."""
    if ROCKSDB not in (spark.conf.get(PROVIDER) or ""):
        spark.conf.set(PROVIDER, STREAMING[PROVIDER])
    if CHANGES not in _chosen(spark):
        try_to_set(spark, CHANGES, STREAMING[CHANGES])
    send_large_functions_whole(spark)


def _chosen(spark: SparkSession) -> dict[str, Any]:
    """Return the settings of a session that were set explicitly."""
    found: dict[str, Any] = spark.conf.getAll
    return found


# --- in the worker -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Work:
    """All that a worker must know of a stream; `numbers` maps labels to shards."""

    job: Job
    order: Slack
    numbers: dict[int, int]
    shard: type[Any]
    closing: bool
    reading: FileReading | None


@lru_cache(maxsize=8)
def work_of(data: bytes) -> Work:
    """Unpickle the work of a stream; kept, so that each worker does it once."""
    work: Work = loads(data)
    return work


@dataclass(frozen=True)
class Stateful:
    """Adapts Spark's state variables to the store of a shard, and its timer to the end of the stream."""

    work: Work
    handle: Any
    head: Any
    blocks: Any

    def rows(self, key: Any, frames: Iterator[pd.DataFrame], timers: Any) -> Iterator[pd.DataFrame]:
        """Process one micro-batch of a shard."""
        work, number = self.work, self.work.numbers[int(key[0])]
        notes: list[Note] = []
        tables: list[pa.Table] = []
        paths: list[str] = []
        passed = BEGINNING
        for frame in frames:
            if BEAT in frame:
                passed = max([passed, *(int(beat) + 1 for beat in frame[BEAT] if beat is not None)])
            if "path" in frame:
                paths += [path for path in frame["path"] if path is not None]
                continue
            notes += [Note.read(note) for note in frame["note"] if note is not None]
            tables += [as_table(block) for block in frame["block"] if block is not None]
        if paths:
            assert work.reading is not None
            note, table = work.reading.read(work.job, number, paths)
            notes, tables = [note], [] if table is None else [table]
        shard = work.shard(work.job, number, work.order, self)
        if work.closing:
            for timer in list(self.handle.listTimers()):
                self.handle.deleteTimer(timer)
            self.handle.registerTimer(timers.getCurrentWatermarkInMs() + 1)
        yield from sent_frames(shard.batch(notes, tables, passed), work.job.result)

    def expired(self, key: Any) -> Iterator[pd.DataFrame]:
        """Close the shard: the timer says that the stream is over."""
        work = self.work
        if work.closing:
            shard = work.shard(work.job, work.numbers[int(key[0])], work.order, self)
            yield from sent_frames(shard.close(), work.job.result)

    def initial(self, key: Any, state: pd.DataFrame) -> None:
        """Start the shard with events of another checkpoint."""
        work = self.work
        tables = [as_table(block) for block in state["block"] if block is not None]
        note, guarantee = Note.read(state["note"].iloc[0]), int(state["guarantee"].iloc[0])
        work.shard(work.job, work.numbers[int(key[0])], work.order, self).seed(note, guarantee, tables)

    # --- the store of a shard ---

    def read_head(self) -> bytes | None:
        found = self.head.get()
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
