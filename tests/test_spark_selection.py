"""Every construct that chooses among matches, on Spark: one job over one stream answers all rows of the table.

As a batch, and as a stream that is stopped, goes on from its checkpoint and is closed, in several orders.
"""

from __future__ import annotations

import os
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

from pyspark.sql import DataFrame, SparkSession

from tests.selection_table import CORRECTING, EVENTS, LATE, differences, rows_of, together
from tests.shard_support import arranged
from tocsin.engine.kinds import ANSWERS
from tocsin.spark import Sink, detect, start

pytestmark = [
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.usefixtures("interpreted"),
    pytest.mark.filterwarnings("ignore:.*has no key.*"),
    pytest.mark.filterwarnings("ignore::tocsin.errors.TocsinWarning"),
]
ALL = together()
ORDERS = (f"slack({LATE})", *CORRECTING)


def test_batch(spark: SparkSession, tmp_path: Path) -> None:
    rows = rows_of(EVENTS)
    Random(1).shuffle(rows)
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "events.parquet")
    events = spark.read.parquet(str(tmp_path / "events.parquet"))
    result = detect(events, ALL, eid="eid", buckets=3, jit=False)
    assert differences(result.toArrow().to_pylist()) == []


@pytest.mark.parametrize("order", ORDERS)
def test_stream_that_is_stopped_and_goes_on(spark: SparkSession, order: str, tmp_path: Path) -> None:
    said: list[dict[str, Any]] = []
    rows = rows_of(arranged(EVENTS, LATE, Random(order)))
    (tmp_path / "events").mkdir()

    def take(result: DataFrame, batch: int) -> None:
        del batch
        said.extend(result.toArrow().to_pylist())

    def run(piece: list[dict[str, Any]], number: int, *, closing: bool) -> None:
        path = tmp_path / "events" / f"{number}.parquet"
        pq.write_table(pa.Table.from_pylist(piece), path)
        os.utime(path, (1_700_000_000 + number,) * 2)
        folder = str(tmp_path / "events")
        source = spark.readStream.schema(spark.read.parquet(folder).schema).option("maxFilesPerTrigger", 1)
        result = detect(
            source.parquet(folder), ALL, eid="eid", order=order, buckets=2, end_of_stream=closing, jit=False
        )
        sink = Sink(take, kinds=(*ANSWERS, "late", "bad"))
        start(result, sink, checkpoint=str(tmp_path / "state"), trigger={"availableNow": True}).awaitTermination()

    half = len(rows) // 2
    run(rows[:half], 1, closing=False)
    early = len(said)
    run(rows[half:], 2, closing=True)
    assert 0 < early < len(said)
    assert {row["kind"] for row in said} <= set(ANSWERS)
    assert differences(said) == []
