"""One hot key: nine events in ten have the same key, beside the same stream with ten thousand equal keys."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROWS, KEYS, HOT, REPEAT = 3_000_000, 10_000, 0.9, 3
QUERY = "EVENT SEQ(A a, B b, C c) WHERE [key] AND b.v > a.v + 0.98 WITHIN 10 SELECT a.v AS a_v"


def write(path: Path, *, hot: bool) -> None:
    rng = np.random.default_rng(2)
    keys = rng.integers(1, KEYS, ROWS)
    if hot:
        keys[rng.random(ROWS) < HOT] = 0
    kinds = np.array(["A", "B", "C"])[rng.integers(0, 3, ROWS)]
    table = pa.table(
        {"type": kinds, "time": np.arange(ROWS), "key": keys, "v": rng.random(ROWS), "id": np.arange(ROWS)}
    )
    path.mkdir()
    for number in range(8):
        size = ROWS // 8
        pq.write_table(table.slice(number * size, size), path / f"{number}.parquet")


def seconds(spark: Any, path: Path) -> tuple[float, int]:
    from tocsin.spark import detect

    best, found = float("inf"), 0
    for _ in range(REPEAT):
        began = time.perf_counter()
        found = detect(spark.read.parquet(str(path)), QUERY, eid="id", buckets=2).count()
        best = min(best, time.perf_counter() - began)
    return best, found


def main() -> int:
    from tocsin.spark import session

    folder = Path(tempfile.mkdtemp())
    spark = session(master="local[2]", config={"spark.driver.memory": "2g", "spark.sql.shuffle.partitions": "2"})
    try:
        for name, hot in (("uniform", False), ("hot", True)):
            write(folder / name, hot=hot)
        seconds(spark, folder / "uniform")
        uniform, hot_key = seconds(spark, folder / "uniform"), seconds(spark, folder / "hot")
    finally:
        spark.stop()
        shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps({"rows": ROWS, "uniform_s": uniform, "hot_s": hot_key, "share": uniform[0] / hot_key[0]}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
