"""The arms: each does the whole job, from parquet to a count and a checksum, in a process of its own.

`measured(name, job)` starts that process and returns one row: name, rows, matches, checksum, wall_s, cpu_s (best of the
repetitions, after one run to warm up), every single run, and what the process cost in all, start of the JVM included.
An arm that cannot run here has `skipped` with the reason instead; one that failed has `error`.

An arm on Spark is a function of a session and a job; it returns the work, which is called once for every run and
returns matches and checksum. To add one, write it into SPARK_ARMS.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.spark import data, flink, ours, selfjoin
from benchmarks.spark.data import ROOT
from benchmarks.spark.meter import Meter
from benchmarks.workloads import WORKLOADS, Workload

CORES = 2
# for local disks; the default one renames files through a slower interface
FILES = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
LIMIT_S = 3600


@dataclass(frozen=True)
class Job:
    """What is asked of every arm."""

    load: Workload = data.LOAD
    rows: int = 5_000_000
    repeat: int = 3

    @property
    def path(self) -> Path:
        return data.parquet(self.load, self.rows)


Found = tuple[int, int]  # matches and checksum
Work = Callable[[], Found]
SparkArm = Callable[[Any, Job], Work]


def joined(variant: str, spark: Any, job: Job) -> Work:
    return selfjoin.work(spark, str(job.path), job.load.window, variant)


def found(make: Callable[..., Work], idle: bool, spark: Any, job: Job) -> Work:
    return make(spark, str(job.path), job.load, CORES, idle=idle)


OURS: dict[str, SparkArm] = {
    "tocsin-batch": partial(found, ours.batch, False),
    "tocsin-shuffled": partial(found, ours.shuffled, False),
    "identity-shuffled": partial(found, ours.shuffled, True),
    "tocsin-stream": partial(found, ours.stream, False),
    "identity-stream": partial(found, ours.stream, True),
    "tocsin-packed": partial(found, partial(ours.stream, direct=False), False),
    "identity-packed": partial(found, partial(ours.stream, direct=False), True),
}
# The same work, over a server of Spark Connect on this machine. Such a session does not show how a frame was made, so
# workers cannot read its files themselves: `detect` shuffles a batch and packs a stream there.
CONNECT_ARMS = {f"connect-{kind}": OURS[f"tocsin-{kind}"] for kind in ("batch", "shuffled", "packed")}
SPARK_ARMS: dict[str, SparkArm] = {
    **OURS,
    **CONNECT_ARMS,
    **{f"selfjoin-{variant}": partial(joined, variant) for variant in selfjoin.VARIANTS},
}

FLINK_ARMS: dict[str, dict[str, Any]] = {
    "flink-streaming": {"mode": "streaming"},
    "flink-streaming-1": {"mode": "streaming", "readers": 1},
    "flink-batch": {"mode": "batch"},
    "flink-read": {"mode": "streaming", "only": "read"},
}

ARMS = (*SPARK_ARMS, *FLINK_ARMS)

# --- inside the process of an arm --------------------------------------------------------------------------------


@contextlib.contextmanager
def session(*, connect: bool = False) -> Iterator[Any]:
    """A local Spark session as all arms on Spark get it; or a client of a local server with the same settings."""
    from pyspark.sql import SparkSession

    settings: dict[str, bool | float | int | str | None] = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "2g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": str(CORES),
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
        "spark.sql.streaming.checkpointFileManagerClass": FILES,
    }
    local = f"local[{CORES}]"
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # a server does not know which Python its client has
    builder = SparkSession.builder.config(map=settings)
    spark = (builder.remote(local) if connect else builder.master(local)).getOrCreate()
    if not connect:
        spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()


def spark_runs(name: str, job: Job, meter: Meter) -> list[dict[str, Any]]:
    """One run to warm up and `job.repeat` more."""
    with session(connect=name in CONNECT_ARMS) as spark:
        work = SPARK_ARMS[name](spark, job)
        return [timed(work, meter) for _ in range(1 + job.repeat)]


def timed(work: Work, meter: Meter) -> dict[str, Any]:
    before, begin = meter.cpu(), time.perf_counter()
    matches, checksum = work()
    wall, after = time.perf_counter() - begin, meter.cpu()
    cpu = None if before is None or after is None else after - before
    return {"matches": matches, "checksum": checksum, "wall_s": wall, "cpu_s": cpu}


def arm_row(name: str, job: Job) -> dict[str, Any]:
    """The row of an arm, measured in this process."""
    if name in FLINK_ARMS:
        flink.classpath()  # fetching and compiling belong to nobody's time
    begin, loads = time.perf_counter(), [os.getloadavg()[0]]
    with Meter() as meter:
        if name in SPARK_ARMS:
            runs = spark_runs(name, job, meter)
        else:
            runs = flink.run(job.path, job.load.window, runs=1 + job.repeat, **FLINK_ARMS[name])
        whole = {"wall_s": time.perf_counter() - begin, "cpu_s": meter.cpu()}
    loads.append(os.getloadavg()[0])
    return {"name": name, "workload": job.load.name, "rows": job.rows, **best(runs), "whole": whole, "load": loads}


def best(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The fastest of the runs after the first; all of them must have found the same."""
    found = {(run["matches"], run["checksum"]) for run in runs}
    if len(found) > 1:
        raise RuntimeError(f"runs of one arm found different things: {sorted(found)}")
    matches, checksum = found.pop()
    warm = runs[1:] or runs
    cpu = [run["cpu_s"] for run in warm if run["cpu_s"] is not None]
    return {
        "matches": matches,
        "checksum": checksum,
        "wall_s": min(run["wall_s"] for run in warm),
        "cpu_s": min(cpu, default=None),
        "runs": [{"wall_s": run["wall_s"], "cpu_s": run["cpu_s"]} for run in runs],
    }


# --- outside -----------------------------------------------------------------------------------------------------


def measured(name: str, job: Job) -> dict[str, Any]:
    """The row of an arm from a fresh process; the data are written before it starts."""
    _ = job.path
    words = ["--arm", name, "--load", job.load.name, "--rows", str(job.rows), "--repeat", str(job.repeat)]
    command = [sys.executable, "-m", "benchmarks.spark.arms", *words]
    about = {"name": name, "workload": job.load.name, "rows": job.rows}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=ROOT, start_new_session=True, **pipes) as child:  # type: ignore[call-overload]
        try:
            out, complaints = child.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            return {**about, "error": f"took longer than {LIMIT_S} s"}
    if child.returncode:
        return {**about, "error": (complaints.strip().splitlines() or ["no message"])[-1]}
    answer: dict[str, Any] = json.loads(out.splitlines()[-1])
    return answer


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure one arm in this process and print its row as JSON.")
    parser.add_argument("--arm", required=True, choices=ARMS)
    parser.add_argument("--load", default=data.LOAD.name, choices=WORKLOADS)
    parser.add_argument("--rows", type=int, default=Job.rows)
    parser.add_argument("--repeat", type=int, default=Job.repeat)
    options = parser.parse_args()
    job = Job(WORKLOADS[options.load], options.rows, options.repeat)
    try:
        row = arm_row(options.arm, job)
    except flink.UnavailableError as reason:
        row = {"name": options.arm, "workload": job.load.name, "rows": job.rows, "skipped": str(reason)}
    print(json.dumps(row))
    return 0


if __name__ == "__main__":
    sys.exit(main())
