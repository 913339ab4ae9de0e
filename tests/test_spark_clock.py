"""Quiet streams on Spark: time passes in micro-batches without events, is recorded, survives restarts and repeats."""

from __future__ import annotations

import json
import shutil
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import functions as sf

import tocsin.spark
from tests.quiet_shop import EVENTS, NINE, SILENCE, STEP, Shop, simulated
from tocsin.errors import InputError, StateError, TocsinError
from tocsin.run.clock import Clock
from tocsin.spark.detect import prepare


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
