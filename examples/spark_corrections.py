"""Alarms at once, withdrawn when a late event refutes them: kept by upsert, and the log folded into what stands."""

from __future__ import annotations

import sqlite3
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pyspark.sql import DataFrame

import tocsin.spark

QUERY = """
QUERY Theft
EVENT SEQ(Shelf s, !Counter c, Exit e) WHERE [tag] WITHIN 1 h
SELECT s.tag AS tag, end(e) AS left_at
"""
SCHEMA = "type STRING, time TIMESTAMP, tag STRING, id BIGINT"
START = datetime(2026, 3, 1, 8, tzinfo=UTC)


def at(minute: int) -> datetime:
    return START + timedelta(minutes=minute)


# The till was offline: what it saw at minute 12 comes with the second file.
FILES = [
    [("Shelf", at(0), "red", 1), ("Shelf", at(5), "blue", 2), ("Exit", at(20), "red", 3), ("Exit", at(25), "blue", 4)],
    [("Counter", at(12), "red", 5), ("Shelf", at(40), "green", 6)],
]


def main() -> None:
    folder = Path(tempfile.mkdtemp())
    spark = tocsin.spark.session(master="local[2]")
    events, alarms, database = folder / "events", folder / "alarms", folder / "alarms.db"
    for rows in FILES:
        spark.createDataFrame(rows, SCHEMA).coalesce(1).write.mode("append").parquet(str(events))
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(events))
    found = tocsin.spark.detect(stream, QUERY, eid="id", order="aggressive(30 min)", end_of_stream=True)

    def upsert(batch: DataFrame, number: int) -> None:
        """An answer is a row by its match_id; a withdrawal removes it. Doing a batch twice changes nothing."""
        with sqlite3.connect(database) as db:
            db.execute("CREATE TABLE IF NOT EXISTS alarm (id TEXT PRIMARY KEY, tag TEXT)")
            for row in batch.where("kind = 'match'").collect():
                print(f"batch {number}: {'+' if row.op > 0 else '-'} {row.tag}")
                if row.op > 0:
                    db.execute("INSERT OR REPLACE INTO alarm VALUES (?, ?)", (row.match_id, row.tag))
                else:
                    db.execute("DELETE FROM alarm WHERE id = ?", (row.match_id,))
        batch.write.mode("append").parquet(str(alarms))

    query = found.writeStream.foreachBatch(upsert).option("checkpointLocation", str(folder / "checkpoint"))
    query.trigger(availableNow=True).start().awaitTermination()

    with sqlite3.connect(database) as db:
        print("in the database:", [tag for (tag,) in db.execute("SELECT tag FROM alarm ORDER BY tag")])
    standing = tocsin.spark.settled(spark.read.parquet(str(alarms)))
    print("in the folded log:", sorted(row.tag for row in standing.collect()))


if __name__ == "__main__":
    main()
