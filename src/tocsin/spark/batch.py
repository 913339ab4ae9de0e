"""Batch detection: shuffle rows to their shard, sort them there by time, and push them through one query graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from tocsin.encode.arrow import BadRowError
from tocsin.engine.changes import ChangeBatch, Changes
from tocsin.graph.query_graph import QueryGraph
from tocsin.items import end
from tocsin.shards.blocks import COPY, SHARD, described, judged, larger, unusable_row
from tocsin.shards.job import Job, Shards
from tocsin.shards.shard_labels import partition_labels
from tocsin.shards.timed_rows import whole_ticks
from tocsin.spark.event_frame import EventFrame, check_names, column
from tocsin.spark.setup.versions import spark_schema
from tocsin.spark.shuffle import Sent

Batches = Iterator[pa.RecordBatch]
Work = Callable[[Batches], Batches]


def detect_batch(events: EventFrame, sent: Sent, job: Job, *, work: Callable[[Job], Work] | None = None) -> DataFrame:
    """Detect the matches of a batch; `work` makes the function of a shard (benchmarks pass an idle one)."""
    ends = events.columns.end or events.columns.time
    rows = _by_shard(sent.df, job.count).drop(SHARD, COPY).sortWithinPartitions(column(ends))
    check_names(rows)
    schema = spark_schema(job.result)
    return rows.mapInArrow((work or worker)(job), schema)


def _by_shard(df: DataFrame, count: int) -> DataFrame:
    """Send the rows of shard n to partition n, in as many partitions as shards, whatever the session is set to.

    Spark sends a row by a hash, so each shard goes under a label whose hash is right. (`repartitionById` says the same
    in one word, from Spark 4.1 on.)
    """
    if count == 1:
        return df.repartition(1)
    labels = sf.array(*map(sf.lit, partition_labels(count)))
    return df.repartition(count, labels[column(SHARD)])


def worker(job: Job) -> Work:
    """Return the function that detects the matches of one shard."""

    def run(batches: Batches) -> Batches:
        shards = job.of_shard(_shard())
        number = _shard() - shards.first
        graph, numbers = job.graph(shards.group, shards.group.units)
        told: list[pa.RecordBatch] = []

        def usable() -> Batches:
            for batch in larger(batches):
                good, bad = sorted_out(batch, job)
                told.extend(job.reports("bad", bad))
                yield good

        for rows in chain(whole_ticks(usable(), job), [None]):
            yield from told
            told.clear()
            yield from answered(job, shards, number, graph, numbers, rows)

    return run


def answered(
    job: Job, shards: Shards, number: int, graph: QueryGraph, numbers: list[int], rows: pa.RecordBatch | None
) -> Batches:
    """Push rows (None: the end of the history) into the graph of a shard and give the answers."""
    try:
        found = graph.push(end() if rows is None else graph.encode(rows))
    except BadRowError as error:
        assert rows is not None
        raise unusable_row(rows, error.row, error.reason) from None
    yield from job.answers(numbers, _owned(shards, number, found))


def _shard() -> int:
    context = TaskContext.get()
    assert context is not None
    return context.partitionId()


def _owned(shards: Shards, number: int, changes: Changes) -> Iterator[ChangeBatch]:
    """Drop the changes that belong to other slices of time."""
    for batch in changes:
        yield batch if shards.slices is None else shards.slices.owned(batch, number)


def sorted_out(batch: pa.RecordBatch, job: Job) -> tuple[pa.RecordBatch, list[str]]:
    """Split a batch into its usable rows and, if they are to be kept, descriptions of the bad ones."""
    if not job.keep_bad and job.known is None:
        return batch, []  # the encoder will find them
    rows = judged(batch, job)
    bad = rows.bad()
    if bad is None:
        return batch, []
    if not job.keep_bad:
        raise unusable_row(batch, int(bad.argmax()), rows.reason(int(bad.argmax())))
    told = [described(batch, at, rows.reason(at)) for at in np.flatnonzero(bad).tolist()]
    return batch.filter(pa.array(~bad)), told
