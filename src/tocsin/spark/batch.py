"""Batch: rows go to their shard, are sorted there by time, and stream through one detector a shard."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from tocsin.encode.batch import HINTS, frame
from tocsin.engine.changes import Changes
from tocsin.errors import InputError
from tocsin.events import END_OF_TIME
from tocsin.spark.frames import Frame, column
from tocsin.spark.job import Job, Shards
from tocsin.spark.shuffle import SHARD, Sent

Batches = Iterator[pa.RecordBatch]
Work = Callable[[Batches], Batches]


def detect_batch(events: Frame, sent: Sent, job: Job, *, work: Callable[[Job], Work] | None = None) -> DataFrame:
    """The matches of a history; `work` is what each shard does (the benchmark puts an idle one there)."""
    ends = events.columns.end or events.columns.time
    rows = sent.df
    if job.count > 1:
        rows = rows.repartitionById(job.count, column(SHARD))
    else:
        rows = rows.repartition(1)
    rows = rows.drop(SHARD).sortWithinPartitions(column(ends))
    schema = from_arrow_schema(job.result)
    return rows.mapInArrow((work or worker)(job), schema)


def worker(job: Job) -> Work:
    """The function that finds the matches of one shard."""

    def run(batches: Batches) -> Batches:
        shards = job.of_shard(_shard())
        number = _shard() - shards.first
        pipeline, numbers = job.pipeline(shards.group, shards.group.units)
        for batch in batches:
            yield from job.answers(numbers, _owned(shards, number, pipeline.push(usable(batch, job))))
        yield from job.answers(numbers, _owned(shards, number, pipeline.advance(END_OF_TIME)))

    return run


def _shard() -> int:
    context = TaskContext.get()
    assert context is not None
    return context.partitionId()


def _owned(shards: Shards, number: int, changes: list[list[Changes]]) -> list[list[Changes]]:
    """Without what other slices will say."""
    if shards.slices is None:
        return changes
    return [[shards.slices.owned(each, number) for each in several if len(each)] for several in changes]


def usable(batch: pa.RecordBatch, job: Job) -> pa.RecordBatch:
    """The rows; raises an error that shows the first one that cannot be used."""
    rows = frame(batch, job.columns)
    bad = rows.bad()
    if bad is not None:
        at = int(bad.argmax())
        raise InputError(
            f"an event cannot be used: {rows.reason(at)}",
            detail=f"the row is {batch.slice(at, 1).to_pylist()[0]}",
            hint=HINTS.get(rows.reason(at)) or 'filter such rows out, or say bad_rows="keep" to have them in the result',
        )
    return batch
