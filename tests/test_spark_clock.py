"""Quiet streams on Spark: time passes in micro-batches without events, is recorded, and survives restarts and repeats.

The clock of the tests is a source that moves by half an hour with every micro-batch, so an hour takes a few seconds.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

from pyspark.sql import functions as sf

import tocsin.spark
from tocsin.errors import InputError, StateError, TocsinError
from tocsin.run.clock import Clock
from tocsin.spark.detect import prepare

SILENCE = "EVENT SEQ(Login a, !Logout b) WHERE [user] WITHIN 1 h SELECT a.user AS user"
NINE = datetime(2026, 3, 1, 9, 0, tzinfo=UTC)
STEP = timedelta(minutes=30)
EVENTS = "type string, time timestamp, user string"
SECONDS_AT_MOST = 120


def simulated(spark: Any) -> Any:
    """A clock that begins at nine and moves with every micro-batch."""
    options = {"startTimestamp": int(NINE.timestamp() * 1000), "advanceMillisPerBatch": 1_800_000, "rowsPerBatch": 1}
    return spark.readStream.format("rate-micro-batch").options(**options).load().select("timestamp")


class Shop:
    """A stream over a folder; `clock` says its time."""

    def __init__(self, spark: Any, folder: Path, *, direct: bool = True) -> None:
        self.spark, self.folder, self.direct, self.files = spark, folder, direct, 0
        self.checkpoint = folder / "checkpoint"
        (folder / "events").mkdir()

    def add(self, *events: tuple[str, datetime, str]) -> None:
        """A file of events; its time of change says the order."""
        self.files += 1
        path = self.folder / "events" / f"{self.files:03}.parquet"
        kinds = pa.schema([("type", pa.string()), ("time", pa.timestamp("us", "UTC")), ("user", pa.string())])
        rows = [dict(zip(kinds.names, each, strict=True)) for each in events]
        pq.write_table(pa.Table.from_pylist(rows, kinds), path)
        os.utime(path, (1_700_000_000 + self.files,) * 2)

    def start(self, trigger: dict[str, Any], **given: Any) -> Any:
        source = self.spark.readStream.schema(EVENTS).option("maxFilesPerTrigger", 1)
        options = {"order": "slack(1 min)", "clock": Clock("2 min", now=simulated(self.spark)), "buckets": 2}
        frame = source.parquet(str(self.folder / "events"))
        result = tocsin.spark.detect(frame, SILENCE, **{**options, **given}, direct=self.direct, jit=False)
        sink = tocsin.spark.Sink("json", str(self.folder / "told"), kinds=("match", "late", "metrics"))
        return tocsin.spark.start(result, sink, checkpoint=str(self.checkpoint), trigger=trigger)

    def run_until(self, batch: int, **given: Any) -> None:
        """Let micro-batches follow each other until one of this number is done."""
        query = self.start({"processingTime": "0 seconds"}, **given)
        deadline = time.monotonic() + SECONDS_AT_MOST
        while self.done() < batch and query.isActive and time.monotonic() < deadline:
            query.awaitTermination(0.1)
        query.stop()
        assert query.exception() is None
        assert self.done() >= batch

    def done(self) -> int:
        """The last micro-batch that was committed."""
        commits = self.checkpoint / "commits"
        return max((int(each.name) for each in commits.glob("[0-9]*")), default=-1) if commits.exists() else -1

    def forget_from(self, batch: int) -> None:
        """Go back to where a micro-batch had been planned and not yet committed."""
        for folder, first in (("commits", batch), ("offsets", batch + 1)):
            for file in (self.checkpoint / folder).iterdir():
                if int(file.name.strip(".").split(".")[0]) >= first:
                    file.unlink()

    def told(self, kind: str) -> dict[int, list[dict[str, Any]]]:
        """What each micro-batch wrote of a kind."""
        found: dict[int, list[dict[str, Any]]] = {}
        for file in sorted((self.folder / "told").rglob("*.json")):
            rows = [row for line in file.read_text().splitlines() if (row := json.loads(line))["kind"] == kind]
            found.setdefault(int(file.parent.name.removeprefix("batch=")), []).extend(rows)
        return {batch: rows for batch, rows in found.items() if rows and batch <= self.done()}

    def watermarks(self) -> dict[int, set[Any]]:
        told = self.told("metrics")
        return {batch: {json.loads(row["details"]).get("watermark") for row in rows} for batch, rows in told.items()}


def micros(moment: datetime) -> int:
    return int(moment.timestamp()) * 1_000_000


@pytest.mark.parametrize("direct", [True, pytest.param(False, marks=pytest.mark.long)])
def test_an_hour_of_silence_on_spark_is_an_alarm_once_and_on_time(spark: Any, tmp_path: Path, direct: bool) -> None:
    shop = Shop(spark, tmp_path, direct=direct)
    shop.add(("Login", NINE, "ann"), ("Login", NINE, "bob"))
    shop.add(("Logout", NINE + timedelta(minutes=5), "bob"))
    shop.run_until(1)  # these have events
    shop.run_until(3)  # after a restart time goes on, though nothing has come
    found = shop.told("match")
    [(batch, alarms)] = found.items()
    assert [alarm["user"] for alarm in alarms] == ["ann"]
    # the clock says 9:00 in batch 0; the window ends at ten, and events may take two minutes: not at ten, but at 10:30
    assert batch * STEP == timedelta(hours=1, minutes=30)
    watermarks = shop.watermarks()
    assert all(len(each) == 1 for each in watermarks.values())  # all shards agree
    assert watermarks[1] == {micros(NINE + timedelta(minutes=4))}  # where events come, the clock (9:30) is not heard
    assert watermarks[batch] == {micros(NINE + batch * STEP - timedelta(minutes=2)) + 1}

    shop.forget_from(batch)  # as if the driver had died before it was written down that the batch is done
    passed = NINE + batch * STEP - timedelta(minutes=2)
    shop.add(("Logout", passed, "ann"), ("Login", passed + timedelta(seconds=1), "eve"))
    shop.run_until(batch + 1)
    assert shop.told("match") == found
    assert shop.watermarks()[batch] == watermarks[batch]
    late = [json.loads(row["details"])["user"] for rows in shop.told("late").values() for row in rows]
    assert late == ["ann"]


@pytest.mark.long
def test_a_clock_is_part_of_a_checkpoint_and_can_join_with_the_state(spark: Any, tmp_path: Path) -> None:
    shop = Shop(spark, tmp_path)
    shop.add(("Login", NINE, "ann"))
    shop.start({"availableNow": True}, clock=None).awaitTermination()
    with pytest.raises(StateError, match="written without a clock") as caught:
        shop.start({"availableNow": True})
    assert "carry_over" in str(caught.value.hint)
    shutil.rmtree(tmp_path / "told")
    old, shop.checkpoint = shop.checkpoint, tmp_path / "new"
    for file in (tmp_path / "events").iterdir():  # the source goes on behind what was read
        file.unlink()
    shop.run_until(3, carry_over=str(old))
    [(batch, alarms)] = shop.told("match").items()
    assert [alarm["user"] for alarm in alarms] == ["ann"]
    assert batch * STEP == timedelta(hours=1, minutes=30)
    with pytest.raises(StateError, match="written with a clock"):
        shop.start({"availableNow": True}, clock=None)


# --- refused ---------------------------------------------------------------------------------------------------------


def test_what_a_clock_on_spark_cannot_do_is_told_before_data_moves(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "events").mkdir()
    frame = spark.readStream.schema(EVENTS).parquet(str(tmp_path / "events"))
    ticks = frame.withColumn("time", sf.col("time").cast("long"))
    batch = spark.createDataFrame([], EVENTS)
    bare = "EVENT SEQ(Login a, !Logout b) WHERE [user] WITHIN 60"
    now = simulated(spark)

    def ask(frame: Any, text: str = SILENCE, **given: Any) -> Any:
        return prepare(frame, text, **{"order": "slack(1 min)", "clock": "10 min", **given}, jit=False)

    with pytest.raises(TocsinError, match="a batch has no use for a clock"):
        ask(batch)
    with pytest.raises(TocsinError, match="has no window"):
        ask(frame, "EVENT SEQ(Login a, Logout b) WHERE [user]")
    with pytest.raises(TocsinError, match="less than the delay that the order allows"):
        ask(frame, clock="30 s")
    with pytest.raises(TocsinError, match="length of time"):
        ask(frame, clock="soon")
    with pytest.raises(InputError, match="length is not known"):
        ask(ticks, bare, order="slack(1)", clock=10)
    with pytest.raises(InputError, match="ticks of their own"):
        ask(ticks, bare, order="slack(1)", clock=Clock(10, now=now))
    with pytest.raises(InputError, match="streaming DataFrame with one column"):
        ask(frame, clock=Clock("10 min", now=lambda: NINE))
    with pytest.raises(InputError, match="streaming DataFrame with one column"):
        ask(frame, clock=Clock("10 min", now=now.withColumn("more", sf.lit(1))))
    with pytest.raises(InputError, match="which is no time"):
        ask(frame, clock=Clock("10 min", now=now.select(sf.lit("soon").alias("now"))))
    assert ask(ticks, SILENCE, time_unit="s").beats is not None
    own = now.select(sf.unix_timestamp("timestamp").alias("now"))
    assert ask(ticks, bare, order="slack(1)", clock=Clock(10, now=own)).beats is not None
    text = tocsin.spark.explain(frame, SILENCE, order="slack(1 min)", clock="10 min")
    assert "clock     in a micro-batch without events" in text
