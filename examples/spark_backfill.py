"""Backfill, then live: one query over history as a batch and over new files as a stream, with the same matches."""

from __future__ import annotations

import tempfile
from pathlib import Path

import tocsin.spark
from tocsin.testing.shop import shop

QUERY = "EVENT SEQ(Shelf s, !Counter c, Exit e) WHERE [tag] WITHIN 12 h SELECT s.tag AS tag"


def main() -> None:
    folder = Path(tempfile.mkdtemp())
    spark = tocsin.spark.session(master="local[2]")
    history = spark.createDataFrame(shop().events)
    history.write.parquet(str(folder / "events"))

    batch = tocsin.spark.detect(spark.read.parquet(str(folder / "events")), QUERY, eid="eid")
    print(f"backfill: {batch.count()} thefts")

    live = spark.readStream.schema(history.schema).option("maxFilesPerTrigger", 1).parquet(str(folder / "events"))
    alarms = tocsin.spark.detect(live, QUERY, eid="eid", order="slack(7 d)", end_of_stream=True)
    sink = tocsin.spark.Sink("parquet", str(folder / "alarms"))
    now = {"availableNow": True}
    tocsin.spark.start(alarms, sink, checkpoint=str(folder / "checkpoint"), trigger=now).awaitTermination()
    stream = spark.read.parquet(str(folder / "alarms"))
    print(f"stream:   {stream.count()} thefts")
    assert {row.match_id for row in batch.collect()} == {row.match_id for row in stream.collect()}


if __name__ == "__main__":
    main()
