"""Derived intervals on Spark: a batch, and a stream that is stopped, give what the embedded engine gives."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import tocsin
from tocsin.spark import Sink, start
from tocsin.spark import detect as detect_on_spark

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("interpreted"), pytest.mark.filterwarnings("ignore")]

FILE = """
INTERVALS level FROM Reading BY sensor AS HIGH WHEN value > 6, LOW WHEN value <= 6 MAX GAP 40
SELECT count(*) AS n, max(value) AS top;
INTERVALS held FROM Reading : value > 7 TO Reading : value < 2 BY sensor QUEUED;
EVENT SEQ(HIGH a, HIGH b) WHERE [sensor] WITHIN 60 SELECT a.sensor AS sensor, a.n AS few, b.n AS more
"""
READINGS = [
    {"type": "Reading", "time": time, "sensor": time % 3, "value": (time * 7 + time // 5 * 3) % 10}
    for time in range(150)
]
SHAPE = "type STRING, time LONG, sensor LONG, value LONG"
NAMES = ("query", "kind", "start", "end", "label", "sensor", "n", "top", "few", "more")


def rows_of(rows: Any) -> Counter[Any]:
    return Counter(tuple(row.get(name) for name in NAMES) for row in rows)


def expected() -> Counter[Any]:
    tables = tocsin.query(FILE).detect(READINGS, jit=False).tables()
    found = rows_of(row for table in tables for row in table.to_pylist())
    assert {row[:2] for row in found} >= {
        ("level", "match"),
        ("held", "match"),
        ("held", "unended"),
        ("query 3", "match"),
    }
    return found


def test_a_batch_gives_what_is_found_embedded(spark: SparkSession) -> None:
    frame = spark.createDataFrame(READINGS, SHAPE).repartition(3)
    found = detect_on_spark(frame, FILE, jit=False).collect()
    assert rows_of(row.asDict() for row in found) == expected()


def test_a_stream_that_is_stopped_gives_the_same(spark: SparkSession, tmp_path: Path) -> None:
    (source := tmp_path / "in").mkdir()
    shape = pa.schema([("type", pa.string()), ("time", pa.int64()), ("sensor", pa.int64()), ("value", pa.int64())])
    arriving = sorted(READINGS, key=lambda row: int(row["time"]) + int(row["value"]) % 4)
    for rows, closing in ((arriving[:75], False), (arriving[75:], True)):
        pq.write_table(pa.Table.from_pylist(rows, shape), source / f"{closing}.parquet")
        frame = spark.readStream.schema(SHAPE).parquet(str(source))
        found = detect_on_spark(frame, FILE, order="slack(4)", buckets=2, end_of_stream=closing, jit=False)
        stream = start(found, Sink("parquet", str(tmp_path / "out")), checkpoint=str(tmp_path / "checkpoint"),
                       trigger={"availableNow": True})  # fmt: skip
        stream.awaitTermination()
    given = [row.asDict() for row in spark.read.parquet(str(tmp_path / "out")).collect()]
    assert rows_of(given) == expected()
