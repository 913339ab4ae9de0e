"""Large state: a million live keys, and micro-batches that touch one in a hundred, beside the same with tiny state."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

KEYS, TOUCHED, BATCHES, SKIPPED = 1_000_000, 10_000, 10, 3
QUERY = "EVENT SEQ(A a, B b, C c) WHERE [key] AND b.v > a.v WITHIN 1000000 SELECT a.v AS a_v, b.v AS b_v, c.v AS c_v"
SCHEMA = "type STRING, time BIGINT, key BIGINT, v DOUBLE, id BIGINT"


def write(folder: Path, keys: int) -> None:
    """First an event of each of so many keys, then small files that touch some of a million."""
    rng = np.random.default_rng(3)
    folder.mkdir()
    parts = [np.arange(keys), *(rng.integers(0, KEYS, TOUCHED) for _ in range(BATCHES))]
    first = 0
    for number, key in enumerate(parts):
        kinds = np.full(len(key), "A") if number == 0 else np.array(["A", "B", "C"])[rng.integers(0, 3, len(key))]
        ids = np.arange(first, first + len(key))
        table = {"type": kinds, "time": ids // 100, "key": key, "v": rng.random(len(key)), "id": ids}
        pq.write_table(pa.table(table), folder / f"{number:03d}.parquet")
        os.utime(folder / f"{number:03d}.parquet", (1_700_000_000 + number, 1_700_000_000 + number))
        first += len(key)


def run(spark: Any, keys: int) -> dict[str, Any]:
    """The time of a small micro-batch behind so many keys, and what the state takes."""
    from tocsin.spark import Sink, detect, numbers, start

    folder = Path(tempfile.mkdtemp())
    try:
        write(folder / "in", keys)
        files = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
        result = detect(files, QUERY, eid="id", order="in-order", buckets=2)
        found: list[int] = []
        sink = Sink(lambda rows, _: found.append(rows.count()))
        stream = start(result, sink, checkpoint=str(folder / "ck"), trigger={"availableNow": True})
        stream.awaitTermination()
        progress = stream.recentProgress
        small = [each["durationMs"]["triggerExecution"] for each in progress[1 + SKIPPED :]]
        told = [numbers(each) for each in progress]
        return {
            "keys": keys,
            "first_ms": progress[0]["durationMs"]["triggerExecution"],
            "batch_ms": statistics.median(small),
            "batches_ms": small,
            "state_bytes": told[-1]["state_bytes"],
            "matches": sum(found),
            "workers_mb": workers_memory() / 1e6,
        }
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def workers_memory() -> int:
    """Memory of all Python workers below this process; pages that they share are divided among them."""
    total = 0
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if b"pyspark.daemon" in (place / "cmdline").read_bytes() and _below(place, os.getpid()):
                lines = (place / "smaps_rollup").read_text().splitlines()
                total += next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) * 1024
        except OSError:
            continue
    return total


def _below(place: Path, ancestor: int) -> bool:
    pid = int(place.name)
    while pid > 1:
        if pid == ancestor:
            return True
        pid = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    return False


def main() -> int:
    from tocsin.spark import session

    spark = session(master="local[2]", config={"spark.driver.memory": "2g", "spark.sql.shuffle.partitions": "2"})
    run(spark, 1000)  # to warm up
    tiny, large = run(spark, 1000), run(spark, KEYS)
    spark.stop()
    print(json.dumps({"tiny": tiny, "large": large, "ratio": large["batch_ms"] / tiny["batch_ms"]}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
