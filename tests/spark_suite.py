"""One suite of Spark cases for every kind of session: classic, Spark Connect, someone's own, other versions of Spark.

`answers(spark, folder)` runs all of it: a batch, several rules that build on each other, a stream that is stopped and
goes on, late rows, an hour in which nothing happens. `expected()` is what an embedded run gives. As a program it makes
the session that it is told to and prints its answers as JSON: `python -m tests.spark_suite connect FOLDER`; with
`batches` behind, without the streams.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import tocsin
from tests.quiet_shop import NINE, Shop

RULES = """
QUERY theft EVENT SEQ(Shelf s, !Counter c, Exit e) WHERE [tag] WITHIN 50;
QUERY gang EVENT SEQ(theft a, theft b) WITHIN 60;
QUERY unpaid EVENT SEQ(Shelf s, !Counter c) WHERE [tag] AND s.price > 3 WITHIN 20
"""
SLACK = 5
COLUMNS = ["query", "match_id", "start", "end"]


def shop(seed: int = 7) -> pa.Table:
    """A shop of 300 events, whole and in order of time."""
    random = Random(seed)
    rows: list[dict[str, Any]] = []
    for number in range(300):
        kind = random.choice(("Shelf", "Shelf", "Counter", "Exit", "Door"))
        rows.append({"type": kind, "time": number // 2, "eid": number, "tag": f"tag {random.randrange(12)}",
                     "price": random.random() * 5})  # fmt: skip
    return pa.Table.from_pylist(rows)


def disordered(table: pa.Table) -> pa.Table:
    """The same events, each at most `SLACK` late, and one that comes too late behind all of them."""
    random = Random(3)
    moved = sorted(range(table.num_rows), key=lambda row: (row // 2 + random.randrange(SLACK), row))
    late = pa.Table.from_pylist([{"type": "Exit", "time": 1, "eid": 999, "tag": "tag 1", "price": 1.0}], table.schema)
    return pa.concat_tables([table.take(moved), late])


def expected() -> dict[str, Any]:
    """The answers of embedded runs, without the event that comes too late; on two cores a stream has two partitions."""
    whole = tocsin.query(RULES).detect(shop(), eid="eid", jit=False).table()
    rows = listed(whole.select(COLUMNS).to_pylist())
    told = {"late": [999], "partitions": [2], "refused": "belongs to another query", "quiet": [[3, "ann"]]}
    return {"batch": rows, "files": rows, "stream": rows, **told}


def listed(rows: Iterable[dict[str, Any]]) -> list[list[Any]]:
    return sorted([row[name] for name in COLUMNS] for row in rows)


def batches(spark: Any, folder: Path) -> dict[str, Any]:
    """The answers of Spark to batches: of a frame, and of files."""
    import tocsin.spark

    frame = spark.createDataFrame(shop().to_pandas())
    pq.write_table(shop(), folder / "shop.parquet")
    stored = spark.read.parquet(str(folder / "shop.parquet"))
    return {
        name: collected(tocsin.spark.detect(rows, RULES, eid="eid", jit=False))
        for name, rows in (("batch", frame), ("files", stored))
    }


def answers(spark: Any, folder: Path) -> dict[str, Any]:
    """The answers of Spark to everything."""
    found = batches(spark, folder)
    run = Stream(spark, folder)
    run.go(disordered(shop()).slice(0, 120), closing=False)
    run.go(disordered(shop()).slice(120), closing=True)
    found["stream"], found["late"], found["partitions"] = run.matches(), run.late(), sorted(run.partitions)
    try:
        run.go(shop(), closing=True, rules=RULES.replace("WITHIN 50", "WITHIN 51"))
    except tocsin.StateError as error:
        found["refused"] = "belongs to another query" if "belongs to another query" in str(error) else str(error)
    found["quiet"] = quiet(spark, folder / "quiet")
    return found


def quiet(spark: Any, folder: Path) -> list[list[Any]]:
    """Who is missing after an hour without events, and in which micro-batch that is told: each is half an hour."""
    folder.mkdir()
    shop = Shop(spark, folder)
    shop.add(("Login", NINE, "ann"))
    shop.run_until(4)
    return [[batch, alarm["user"]] for batch, alarms in shop.told("match").items() for alarm in alarms]


def collected(result: Any) -> list[list[Any]]:
    return listed(row.asDict() for row in result.select(*COLUMNS).collect())


class Stream:
    """A stream over a folder of files, from its checkpoint on."""

    def __init__(self, spark: Any, folder: Path) -> None:
        self.spark, self.folder, self.files = spark, folder, 0
        self.partitions: set[int] = set()  # shuffle partitions of the micro-batches
        (folder / "events").mkdir()

    def go(self, more: pa.Table, *, closing: bool, rules: str = RULES) -> None:
        """Add rows as two files, and read what is new; nothing of the run before is left in memory."""
        import tocsin.spark

        half = more.num_rows // 2
        for piece in (more.slice(0, half), more.slice(half)):
            self.files += 1
            path = self.folder / "events" / f"{self.files:03}.parquet"
            pq.write_table(piece, path)
            os.utime(path, (1_700_000_000 + self.files,) * 2)
        events = str(self.folder / "events")
        source = self.spark.readStream.schema(self.spark.read.parquet(events).schema)
        rows = source.option("maxFilesPerTrigger", 1).parquet(events)
        options = {"eid": "eid", "order": f"slack({SLACK})", "buckets": 2, "jit": False}
        result = tocsin.spark.detect(rows, rules, end_of_stream=closing, **options)
        sinks = [tocsin.spark.Sink("parquet", str(self.folder / kind), kinds=(kind,)) for kind in ("match", "late")]
        checkpoint, trigger = str(self.folder / "checkpoint"), {"availableNow": True}
        query = tocsin.spark.start(result, sinks, checkpoint=checkpoint, trigger=trigger)
        query.awaitTermination()
        self.partitions |= {each.stateOperators[0].numShufflePartitions for each in query.recentProgress}

    def matches(self) -> list[list[Any]]:
        return collected(self.spark.read.parquet(str(self.folder / "match")))

    def late(self) -> list[int]:
        rows = self.spark.read.parquet(str(self.folder / "late")).select("details").collect()
        return sorted(json.loads(row[0])["eid"] for row in rows)


def connect() -> Any:
    """A session of Spark Connect, with a server on this machine."""
    from pyspark.sql import SparkSession

    return SparkSession.builder.remote("local[2]").getOrCreate()


def classic() -> Any:
    import tocsin.spark

    return tocsin.spark.session(master="local[2]")


def own() -> Any:
    """A session as people have it: made without us, with settings that suit other work."""
    from pyspark.sql import SparkSession

    settings = {
        "spark.sql.shuffle.partitions": "200",
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.kryo.unsafe": "true",
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.shuffleTracking.enabled": "true",
        "spark.sql.session.timeZone": "Asia/Kolkata",
        "spark.sql.ansi.enabled": "false",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "7",
        "spark.ui.enabled": "false",
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def main(kind: str, folder: str, part: str = "all") -> None:
    spark = {"connect": connect, "classic": classic, "own": own}[kind]()
    found = {"all": answers, "batches": batches}[part](spark, Path(folder))
    spark.stop()
    sys.stdout.write(f"\n{json.dumps(found)}\n")


if __name__ == "__main__":
    main(*sys.argv[1:4])
