"""Staged statements on Spark: a batch in one task gives what the embedded engine gives; a stream is refused."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

import tocsin
from tests.test_staged import row_of
from tocsin.errors import TocsinError
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
    schema = "type STRING, start LONG, `end` LONG, id LONG, k LONG, x LONG, y LONG"
    frame = spark.createDataFrame([{"k": None, "x": None, "y": None, **event} for event in events], schema)
    how = {"time": "start", "end": "end", "eid": "id"}
    query = tocsin.query(FILE)
    found = rows_of(row.asDict() for row in detect_on_spark(frame.repartition(3), query, **how).collect())
    wanted = rows_of(row for table in query.detect(events, **how).tables() for row in table.to_pylist())
    assert found == wanted
    assert {row[0] for row in wanted} == {"Pair", "Tick", "Q", "Quiet"}


def test_a_stream_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.readStream.schema("type STRING, time LONG, k LONG, x LONG").json(str(tmp_path))
    with pytest.raises(TocsinError, match="do not run in a Spark stream yet"):
        detect_on_spark(frame, tocsin.query(FILE), order="in-order")
