"""Begins on Spark: a stream that is stopped hears them as the embedded engine does; a batch says what never ended."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import tocsin
from tocsin.errors import InputError, TocsinError
from tocsin.spark import Sink, start
from tocsin.spark import detect as detect_on_spark

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("interpreted"), pytest.mark.filterwarnings("ignore")]

FILE = """
QUERY Free EVENT SEQ(Door a, !Call c, Door b) WHERE [room] WITHIN 60;
QUERY Sure EVENT REL[before, meet, overlap, finished by, contain](Call c, Alarm h) WHERE [room] WITHIN 60 EARLY
"""
SHAPE = "item STRING, type STRING, start LONG, `end` LONG, eid STRING, room LONG"
NAMES = ("item", "type", "start", "end", "eid", "room")
ROWS = [  # two micro-batches, and a third after the stream was stopped
    [
        (None, "Door", 1, 1, "d1", 1), ("event", "Door", 5, 5, "d2", 1), ("begin", "Call", 3, None, "c1", 2),
        ("begins", "Call", 6, None, None, None),
    ],
    [("begin", "Alarm", 8, None, "h1", 2), ("begin", "Call", 9, None, "c9", 3), (None, "Call", 3, 12, "c1", 2)],
    [
        ("begins", None, 30, None, None, None), (None, "Alarm", 8, 20, "h1", 2), ("begin", "Call", 1, None, "c7", 1),
        ("", "Door", 40, 40, "d3", 1),
    ],
]  # fmt: skip
LAST = [(None, "Call", 25, 50, "c8", 1)]  # nobody announced it


def frame_of(spark: SparkSession, *batches: list[tuple[Any, ...]]) -> Any:
    rows = [(row[0] or None, *row[1:]) for batch in batches for row in batch]
    return spark.createDataFrame(rows, SHAPE).repartition(2)


def told_by(rows: list[Any]) -> list[tuple[Any, ...]]:
    found = []
    for row in rows:
        details = None if row["details"] is None else json.loads(row["details"])
        name = row["match_id"] if details is None else details["eid"]
        found.append((row["query"], row["kind"], row["op"], row["start"], row["end"], name))
    return sorted(found, key=repr)


def embedded() -> dict[str, set[str]]:
    """The same items, pushed one by one."""
    session, told = tocsin.query(FILE).stream(order="conservative(100)", jit=False), {}
    for batch in [*ROWS[:2], [row for row in ROWS[2] if row[4] != "c7"], LAST]:
        steps: list[Any] = []
        for item, type, at, ended, eid, room in sorted(batch, key=lambda row: (row[0] == "begins", row[3] or row[2])):
            row = {"type": type, "start": at, "end": ended, "eid": eid, "room": room}
            if item == "begin":
                del row["end"]
                steps.append(session.announce(row))
            elif item == "begins":
                steps.append(session.promise_begins(type, at))
            else:
                steps.append(session.push([row]))
            for match in steps[-1]:
                told.setdefault(match["kind"], set()).add(match["match_id"])
            for late in session.late:
                assert late == 0
    told.setdefault("match", set()).update(match["match_id"] for match in session.close())
    told["unended"] = {row["eid"] for row in session.unended}
    return told


def test_a_stream_that_is_stopped_hears_of_begins(spark: SparkSession, tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    shape = pa.schema([(name, pa.string() if name in ("item", "type", "eid") else pa.int64()) for name in NAMES])
    batches = [*ROWS, LAST]
    for number, runs in enumerate(([0, 1], [2, 3])):
        for at in runs:
            rows = [dict(zip(NAMES, (row[0] or None, *row[1:]), strict=True)) for row in batches[at]]
            pq.write_table(pa.Table.from_pylist(rows, shape), source / f"{at}.parquet")
            os.utime(source / f"{at}.parquet", (at, at))  # Spark takes files by their age
        events = spark.readStream.schema(SHAPE).option("maxFilesPerTrigger", 1).parquet(str(source))
        found = detect_on_spark(
            events, FILE, item="item", order="conservative(10)", buckets=2, end_of_stream=number == 1, jit=False
        )
        sinks = [Sink("parquet", str(tmp_path / "out")), Sink("parquet", str(tmp_path / "late"), kinds=("late",))]
        query = start(found, sinks, checkpoint=str(tmp_path / "checkpoint"), trigger={"availableNow": True})
        query.awaitTermination()
        if number == 0:  # the first answer did not wait for the delay: that all begins were there was enough
            given = spark.read.parquet(str(tmp_path / "out")).collect()
            assert [row["kind"] for row in given if row["query"] == "Free"] == ["match"]
    rows = spark.read.parquet(str(tmp_path / "out")).collect()
    wanted = embedded()
    by_kind: dict[str, set[str]] = {}
    for _, kind, op, _, end, name in told_by(rows):
        assert op in (1, None)
        assert (end is None) == (kind in ("early", "unended"))
        by_kind.setdefault(kind, set()).add(name)
    assert by_kind == wanted
    assert wanted["unended"] == {"c9"}
    assert len(wanted["early"]) == 1
    late = [json.loads(row["details"]) for row in spark.read.parquet(str(tmp_path / "late")).collect()]
    assert sorted(row["eid"] for row in late) == ["c7", "c8"]
    assert next(row["reason"] for row in late if row["eid"] == "c7") == "the begin came too late"


def test_a_batch_says_what_never_ended_and_what_lasts_too_long(spark: SparkSession) -> None:
    schema = {"Door": {"room": "int"}, "Call": {"room": "int"}, "Alarm": {"room": "int"}}
    asked = tocsin.query(FILE, schema=tocsin.schema(schema, longest={"Alarm": 5}))
    strange = [("start", "Door", 7, 7, "d9", 1), ("begin", "Call", 8, 9, "c5", 1)]
    events = frame_of(spark, *ROWS, LAST, strange)
    rows = detect_on_spark(events, asked, item="item", bad_rows="keep", buckets=2, jit=False).collect()
    told = {(kind, name) for _, kind, _, _, _, name in told_by(rows) if kind != "match"}
    assert told == {("unended", "c7"), ("unended", "c9"), ("late", "h1"), ("bad", "d9"), ("bad", "c5")}
    plain = [
        {"type": type, "start": at, "end": ended, "eid": eid, "room": room}
        for batch in [*ROWS, LAST]
        for item, type, at, ended, eid, room in batch
        if item in (None, "", "event") and eid != "h1"
    ]
    wanted = {row["match_id"] for row in tocsin.query(FILE).detect(plain, jit=False)}
    assert {row["match_id"] for row in rows if row["kind"] == "match"} == wanted
    with pytest.raises(Exception, match="what the row is, is none of event, begin, begins"):
        detect_on_spark(events, asked, item="item", jit=False).collect()


def test_what_begins_cannot_do_is_told_before_data_moves(spark: SparkSession, tmp_path: Path) -> None:
    events = frame_of(spark, *ROWS)
    with pytest.raises(InputError, match="no column 'what' that says what a row is"):
        detect_on_spark(events, FILE, item="what")
    with pytest.raises(InputError, match="'room' cannot say what a row is"):
        detect_on_spark(events, FILE, item="room")
    with pytest.raises(InputError, match="no column for the eid of one"):
        detect_on_spark(events.drop("eid"), FILE, item="item")
    (tmp_path / "in").mkdir()
    stream = spark.readStream.schema(SHAPE).parquet(str(tmp_path / "in"))
    with pytest.raises(TocsinError, match="looks at events as they come"):
        detect_on_spark(stream, FILE, item="item", order="slack(10)")
    with pytest.raises(TocsinError, match="does not take memory_limit="):
        detect_on_spark(stream, FILE, item="item", order="conservative(10)", memory_limit="100 MB")
