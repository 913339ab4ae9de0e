"""Staged statements on Spark: batch and stream, divided by global keys, give what the embedded engine gives."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import tocsin
from tests.test_staged import row_of
from tocsin.spark import Sink, explain, start
from tocsin.spark import detect as detect_on_spark
from tocsin.testing.draw_staged import drawn_history

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("interpreted"), pytest.mark.filterwarnings("ignore")]

FILE = """
CreateCE Pair Select A.k as k, B.x as b Event And(A<consume>, B<consume>) Where A.k = B.k GKey *.k;
CreateCE Tick Select Pair.k as pair, stable-time as at Event And(Pair, Every(4));
QUERY Q EVENT SEQ(Pair p, C c) WHERE p.k = c.k SELECT p.k AS pair;
CreateCE Quiet Select Count(i) as n Init I as i<add> Event Not(A) Term 6
"""


def rows_of(rows: Any) -> Counter[Any]:
    names = ("query", "match_id", "start", "end", "k", "b", "pair", "at", "n")
    return Counter(tuple(row.get(name) for name in names) for row in rows)


@pytest.mark.parametrize("seed", range(2))
def test_a_batch_gives_what_is_found_embedded(spark: SparkSession, seed: int) -> None:
    events = [row_of(event) for event in drawn_history(Random(seed), length=60, last=60)]
    events += [{"type": "Unread", "start": 75, "end": 75, "id": 1000}]
    frame = spark.createDataFrame([{"k": None, "x": None, "y": None, **event} for event in events], SHAPE)
    how = {"time": "start", "end": "end", "eid": "id"}
    query = tocsin.query(FILE)
    found = rows_of(row.asDict() for row in detect_on_spark(frame.repartition(3), query, **how).collect())
    wanted = rows_of(row for table in query.detect(events, **how).tables() for row in table.to_pylist())
    assert found == wanted
    assert {row[0] for row in wanted} == {"Pair", "Tick", "Q", "Quiet"}


KEYED = """
CreateCE Pair Select A.k as k, B.x as b Event And(A<consume>, B<consume>) GKey *.k;
QUERY Q EVENT SEQ(Pair p, C c) WHERE p.k = c.k WITHIN 20 SELECT p.k AS pair;
CreateCE Late Select Max(i.k) as k Init I as i Event After(Q, 4) Term T GKey i.k, T.k, Q.pair
"""
SHAPE = "type STRING, start LONG, `end` LONG, id LONG, k LONG, x LONG, y LONG"
HOW = {"time": "start", "end": "end", "eid": "id", "jit": False}


def test_a_stream_that_is_stopped_gives_the_same_in_shards(spark: SparkSession, tmp_path: Path) -> None:
    """Late rows within the delay, a restart between two runs, and one row that comes too late."""
    random = Random(4)
    events = [row_of(event) for event in drawn_history(random, length=200, last=60)]
    arriving = sorted(events, key=lambda row: (row["end"] + random.randint(0, 5), row["id"]))
    half = len(events) // 2
    arriving.insert(half, {"type": "A", "start": 0, "end": 0, "id": 1000, "k": 1})
    (source := tmp_path / "in").mkdir()
    fields = [pa.field("type", pa.string())] + [pa.field(name, pa.int64()) for name in ("start", "end", "id", *"kxy")]
    for rows, closing in ((arriving[:half], False), (arriving[half:], True)):
        pq.write_table(pa.Table.from_pylist(rows, pa.schema(fields)), source / f"{closing}.parquet")
        frame = spark.readStream.schema(SHAPE).parquet(str(source))
        found = detect_on_spark(frame, KEYED, order="slack(6)", buckets=2, end_of_stream=closing, **HOW)
        stream = start(found, Sink("parquet", str(tmp_path / "out"), kinds=("match", "late")),
                       checkpoint=str(tmp_path / "checkpoint"), trigger={"availableNow": True})  # fmt: skip
        stream.awaitTermination()
    given = [row.asDict() for row in spark.read.parquet(str(tmp_path / "out")).collect()]
    wanted = tocsin.query(KEYED).detect(events, **HOW).tables()
    expected = rows_of(row for table in wanted for row in table.to_pylist())
    assert rows_of(row for row in given if row["kind"] == "match") == expected
    assert {row[0] for row in expected} == {"Pair", "Q", "Late"}
    assert sum(row["kind"] == "late" for row in given) == 1


def test_explain_says_how_statements_are_divided(spark: SparkSession) -> None:
    frame = spark.createDataFrame([], SHAPE)
    told = explain(frame, KEYED, buckets=2, **HOW)
    assert "by hash of" in told
    assert "Q" in told
    with pytest.warns(UserWarning, match="runs in one shard: it has no global key"):
        detect_on_spark(frame, KEYED.replace("GKey *.k;", ";"), buckets=2, **HOW)
