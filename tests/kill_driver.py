"""The victim of tests/test_kill.py: a stream over files that is killed and started again until it reaches its end."""

from __future__ import annotations

import argparse
import sys

from tocsin.spark import Sink, detect, session, start

QUERY = """
EVENT SEQ(Shelf s, !Counter c, Exit e) WHERE [tag] WITHIN 400
SELECT s.tag AS tag, s.id AS taken, e.id AS left, e.price - s.price AS gain
"""
SCHEMA = "type STRING, time BIGINT, tag BIGINT, price DOUBLE, id BIGINT"
SLACK = "slack(3000)"  # rows are shuffled within a file, and a file covers less than that


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("events", "out", "checkpoint"):
        parser.add_argument(name)
    parser.add_argument("--sink", choices=("parquet", "foreach"), required=True)
    options = parser.parse_args()
    spark = session(master="local[2]", config={"spark.driver.memory": "2g", "spark.sql.shuffle.partitions": "2"})
    files = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(options.events)
    found = detect(files, QUERY, eid="id", order=SLACK, buckets=3, end_of_stream=True)
    if options.sink == "parquet":
        writer = found.writeStream.format("parquet").option("path", options.out)
        stream = writer.option("checkpointLocation", options.checkpoint).trigger(availableNow=True).start()
    else:
        kinds = ("match", "late", "metrics")
        sink = Sink("parquet", options.out, kinds=kinds)
        stream = start(found, sink, checkpoint=options.checkpoint, trigger={"availableNow": True})
    print("started", flush=True)
    stream.awaitTermination()
    return 0


if __name__ == "__main__":
    sys.exit(main())
