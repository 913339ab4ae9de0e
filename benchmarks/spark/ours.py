"""Our arms: the query in a batch and in a stream, and beside each its floor, the same plan with a kernel that is idle.

The floor is what Spark itself costs: reading, the shuffle, the sort, the way of every row into Python and no further.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.spark.selfjoin import summed
from benchmarks.workloads import Workload

SELECT = " SELECT a.v AS a_v, b.v AS b_v, c.v AS c_v"
SLACK = "slack(1)"  # the files are in order
FILES_AT_ONCE = 4  # of eight: two micro-batches, and one to close
Work = Callable[[], tuple[int, int]]


def batch(spark: Any, path: str, load: Workload, _: int, *, idle: bool = False) -> Work:
    """What `detect` does with these files by itself: the workers read them."""
    from tocsin.spark import detect

    assert not idle, "its floor would be reading the files, not Spark"
    return lambda: summed(detect(spark.read.parquet(path), load.query + SELECT))


def shuffled(spark: Any, path: str, load: Workload, buckets: int, *, idle: bool = False) -> Work:
    """The plan that serves every frame: Spark reads, shuffles by key and sorts."""
    from tocsin.spark.batch import detect_batch
    from tocsin.spark.detect import prepare

    def work() -> tuple[int, int]:
        ready = prepare(spark.read.parquet(path), load.query + SELECT, buckets=buckets)
        job = ready.job.compiled()
        return summed(detect_batch(ready.frame, ready.sent, job, **({"work": nothing} if idle else {})))

    return work


def nothing(_: Any) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Take every row and answer nothing."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            pass
        return
        yield

    return run


def stream(spark: Any, path: str, load: Workload, buckets: int, *, idle: bool = False, direct: bool = True) -> Work:
    """A stream of files, as `detect` runs it by itself: the workers read them. Not `direct`: Spark does."""
    from tocsin.spark.detect import prepare
    from tocsin.spark.stream import detect_stream
    from tocsin.spark.write import Sink, start

    def work() -> tuple[int, int]:
        files = spark.readStream.schema(spark.read.parquet(path).schema).option("maxFilesPerTrigger", FILES_AT_ONCE)
        options = {"order": SLACK, "buckets": buckets, "end_of_stream": True, "direct": direct}
        ready = prepare(files.parquet(path), load.query + SELECT, **options)
        assert (ready.file_stream is not None) == direct, ready.detour
        job = ready.job.compiled()
        other = {"shard": Idle} if idle else {}
        result = detect_stream(ready.file_stream or ready.sent, job, ready.order, closing=True, **other)
        folder = Path(tempfile.mkdtemp())
        try:
            sink = Sink(partial(note, str(folder / "sums")))
            start(result, sink, checkpoint=str(folder / "state"), trigger={"availableNow": True}).awaitTermination()
            found = [json.loads(line) for line in (folder / "sums").read_text().splitlines()]
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return sum(count for count, _ in found), sum(check for _, check in found)

    return work


def note(path: str, rows: Any, _: int) -> None:
    """Append count and checksum of a micro-batch to a file: over Spark Connect this runs in another process."""
    with Path(path).open("a") as sums:
        sums.write(json.dumps(summed(rows.where("kind = 'match'"))) + "\n")


class Idle:
    """A shard that takes its rows and keeps nothing."""

    def __init__(self, *_: Any) -> None:
        pass

    def batch(self, *_: Any) -> Iterator[pa.RecordBatch]:
        return iter(())

    def close(self) -> Iterator[pa.RecordBatch]:
        return iter(())
