"""Put case files to Spark: the rows of a history as a batch, or as a stream of small files that ends."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession

from tocsin.encode.columns import Columns
from tocsin.lang.syntax import Query as Syntax
from tocsin.run.query import Query
from tocsin.schema import Schema
from tocsin.spark.detect import detect
from tocsin.spark.setup.session import QUICK, session
from tocsin.spark.setup.versions import check_whole
from tocsin.spark.write import Sink, start

HOURS_APART = 3600  # seconds between the times of files, which are read in their order


def answers(
    queries: Sequence[Syntax],
    events: pa.RecordBatch,
    columns: Columns,
    schema: Schema,
    *,
    order: str | None,
    size: int,
    jit: bool,
) -> pa.Table:
    """The rows that Spark answers; with an order as a stream, of which each micro-batch has `size` events."""
    spark = SparkSession.getActiveSession() or session(master="local[2]", config=QUICK)
    check_whole(spark, "testing on Spark")
    asked = Query(tuple(queries), schema)
    roles: dict[str, Any] = {"time": columns.time, "end": columns.end, "eid": columns.eid, "all": True, "jit": jit}
    if order is None:
        return detect(spark.createDataFrame(pa.Table.from_batches([events])), asked, **roles).toArrow()
    with TemporaryDirectory() as folder:
        return _streamed(spark, asked, events, Path(folder), {**roles, "order": order}, size)


def _streamed(
    spark: SparkSession, asked: Query, events: pa.RecordBatch, folder: Path, roles: dict[str, Any], size: int
) -> pa.Table:
    inbox = folder / "events"
    inbox.mkdir()
    for number, rows in enumerate(_cut(events, size)):
        path = inbox / f"{number:06}.parquet"
        parquet.write_table(rows, path)
        os.utime(path, (number * HOURS_APART,) * 2)
    shape = spark.read.parquet(str(inbox)).schema
    source = spark.readStream.schema(shape).option("maxFilesPerTrigger", 1).parquet(str(inbox))
    found: list[pa.Table] = []

    def take(rows: DataFrame, number: int) -> None:
        del number
        found.append(rows.toArrow())

    result = detect(source, asked, end_of_stream=True, **roles)
    sink = Sink(take)
    start(result, sink, checkpoint=str(folder / "checkpoint"), trigger={"availableNow": True}).awaitTermination()
    return pa.concat_tables(found)


def _cut(events: pa.RecordBatch, size: int) -> Iterator[pa.Table]:
    whole = pa.Table.from_batches([events])
    for first in range(0, max(1, whole.num_rows), size):
        yield whole.slice(first, size)
