"""Queries under constraints on Spark: a batch, and a stream that is stopped, give what the embedded engine gives."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import tocsin
from tocsin.constraint.mining import learn, traces_of
from tocsin.errors import InputError
from tocsin.spark import Sink, learn_constraint, start
from tocsin.spark import detect as detect_on_spark

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("interpreted"), pytest.mark.filterwarnings("ignore")]

QUERY = """
CONSTRAINT parcel ON Order, Pack, Ship, Cancel PARTITION BY id AS Order (Pack[size < 5]+ Ship | Cancel);
EVENT SEQ(Order o, Ship s) WHERE [id] UNDER parcel
"""
WORDS = ("Order Pack Ship", "Order Cancel", "Order Pack Pack Ship", "Order Pack Cancel", "Order Pack", "Ship Order")
EVENTS = sorted(
    (
        {
            "type": type,
            "time": 7 * trace % 40 + 3 * at + trace % 3,
            "id": trace,
            "eid": f"{type}{trace}.{at}",
            "size": trace % 7,
        }
        for trace in range(24)
        for at, type in enumerate(WORDS[trace % len(WORDS)].split())
    ),
    key=lambda row: (row["time"], row["eid"]),
)
SHAPE = "type STRING, time LONG, id LONG, eid STRING, size LONG"
NAMES = ("kind", "match_id", "start", "end", "constraint", "key", "reason", "event")


def rows_of(rows: Any) -> Counter[Any]:
    return Counter((*(row.get(name) for name in NAMES), tuple(row.get("events") or ())) for row in rows)


def expected() -> Counter[Any]:
    found = rows_of(tocsin.query(QUERY).detect(EVENTS, eid="eid", jit=False))
    assert Counter(row[0] for row in found) == {"match": 8, "expected": 13, "violated": 15, "unconfirmed": 8}
    return found


def test_a_batch_gives_what_is_found_embedded(spark: SparkSession) -> None:
    frame = spark.createDataFrame(EVENTS, SHAPE).repartition(3)
    found = detect_on_spark(frame, QUERY, eid="eid", jit=False).collect()
    assert rows_of(row.asDict() for row in found) == expected()


def test_a_stream_that_is_stopped_gives_the_same(spark: SparkSession, tmp_path: Path) -> None:
    (source := tmp_path / "in").mkdir()
    shape = pa.schema([("type", pa.string()), ("time", pa.int64()), ("id", pa.int64()), ("eid", pa.string()),
                       ("size", pa.int64())])  # fmt: skip
    arriving = sorted(EVENTS, key=lambda row: int(row["time"]) + int(row["id"]) % 4)
    half = len(arriving) // 2
    for rows, closing in ((arriving[:half], False), (arriving[half:], True)):
        pq.write_table(pa.Table.from_pylist(rows, shape), source / f"{closing}.parquet")
        frame = spark.readStream.schema(SHAPE).parquet(str(source))
        found = detect_on_spark(frame, QUERY, eid="eid", order="slack(4)", buckets=2, end_of_stream=closing, jit=False)
        stream = start(found, Sink("parquet", str(tmp_path / "out")), checkpoint=str(tmp_path / "checkpoint"),
                       trigger={"availableNow": True})  # fmt: skip
        stream.awaitTermination()
    given = [row.asDict() for row in spark.read.parquet(str(tmp_path / "out")).collect()]
    assert rows_of(given) == expected()


def test_a_constraint_is_learned_from_a_table(spark: SparkSession) -> None:
    frame = spark.createDataFrame([*EVENTS, {"type": "Order", "time": 5}, {"time": 6, "id": 1}], SHAPE).repartition(3)
    found = learn_constraint(frame, key=["id"], name="parcel", least=0.0)
    ordered = sorted(EVENTS, key=lambda row: (row["time"], row["type"]))
    assert found == learn(traces_of(ordered, ["id"]), key=("id",), name="parcel", least=0.0)
    assert str(found.constraint).startswith("CONSTRAINT parcel PARTITION BY id AS ")
    with pytest.raises(InputError, match="no column case"):
        learn_constraint(frame, key=["case"])
