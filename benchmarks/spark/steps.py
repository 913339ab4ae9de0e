"""What a batch costs before its first row: each step of a warm detection over few rows, as one line of JSON.

Run it by itself: python -m benchmarks.spark.steps. The rows are so few that detecting them costs nothing; `a job of
Spark` is the same tasks with a function that does nothing: starting tasks and Python workers, and bringing an answer.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from benchmarks.spark import ours, selfjoin
from benchmarks.spark.arms import Job, session
from benchmarks.spark.meter import Meter
from benchmarks.workloads import WORKLOADS

ROWS = 100_000
WARM_UP, RUNS = 3, 7
STEPS = {
    "open": "Spark opens the files (schema, listing)",
    "plan": "query, session, footers, slices",
    "ship": "kernels compiled or found, packed",
    "frame": "the frame of the result",
    "run": "the job itself",
    "idle": "... of that a job of Spark that does nothing",
}


def nothing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Take all rows and answer nothing."""
    for _ in batches:
        pass
    return
    yield


def once(spark: Any, job: Job, step: Callable[..., Any]) -> None:
    """One detection over the files, step by step."""
    from tocsin.spark.detect import prepare
    from tocsin.spark.setup.versions import spark_schema
    from tocsin.spark.worker_reads.batch import detect_files

    df = step("open", lambda: spark.read.parquet(str(job.path)))
    ready = step("plan", lambda: prepare(df, job.load.query + ours.SELECT))
    assert ready.direct is not None, ready.detour
    files, cut = ready.direct
    shipped = step("ship", cut.compiled)
    result = step("frame", lambda: detect_files(files, shipped, spark))
    step("run", lambda: selfjoin.summed(result))
    tasks, shape = shipped.count, spark_schema(shipped.result)
    step("idle", lambda: selfjoin.summed(spark.range(0, tasks, 1, tasks).mapInArrow(nothing, shape)))


def measured() -> list[dict[str, Any]]:
    """The steps with the medians of their times, by the clock and by CPU of all processes."""
    job = Job(WORKLOADS["W1-100"], ROWS)
    _ = job.path
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in STEPS}
    with Meter() as meter, session() as spark:

        def step(name: str, work: Callable[[], Any]) -> Any:
            before, begin = meter.cpu() or 0.0, time.perf_counter()
            found = work()
            times[name].append((time.perf_counter() - begin, (meter.cpu() or 0.0) - before))
            return found

        for _ in range(WARM_UP + RUNS):
            once(spark, job, step)
    found = []
    for name, says in STEPS.items():
        wall, cpu = (statistics.median(each) for each in zip(*times[name][WARM_UP:], strict=True))
        found.append({"name": name, "says": says, "wall_s": wall, "cpu_s": cpu})
    return found


if __name__ == "__main__":
    print(json.dumps({"rows": ROWS, "runs": RUNS, "steps": measured()}))
    sys.exit(0)
