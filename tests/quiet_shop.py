"""A stream on Spark in which nothing happens while its clock moves on: for the tests of quiet streams, on every Spark.

The clock is a source that moves by half an hour with every micro-batch, so an hour takes a few seconds.
"""

from __future__ import annotations

import json
import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import tocsin.spark
from tocsin.run.clock import Clock

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
