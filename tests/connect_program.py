"""What a program does with a session of Spark Connect, all of it: run against a server by `test_connect.py`.

`python -m tests.connect_program ADDRESS FOLDER PID` prints its findings as JSON, and at the end kills the server, whose
process id it is given. Each finding is a line, so that a failure shows how far it came.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import tocsin
import tocsin.spark
from tests.servers.connect import python_with_another_tocsin, python_without_tocsin
from tests.spark_suite import collected, listed, shop

THEFT = "QUERY theft EVENT SEQ(Shelf s, !Counter c, Exit e) WHERE [tag] WITHIN 50"
PYTHON = "spark.sql.execution.pyspark.python"
PIPELINE = """
[source.shop]
format = "parquet"
path = "{folder}/in"
eid = "eid"
[source.shop.options]
maxFilesPerTrigger = 1
[[query]]
text = "{query}"
[order]
strategy = "slack(5)"
[run]
checkpoint = "{folder}/pipeline/state"
trigger = "availableNow"
jit = false
[sink.thefts]
format = "parquet"
path = "{folder}/pipeline/{kind}"
[spark]
master = "{address}"
"""


def error_of(act: Callable[[], object]) -> list[str | None]:
    """The kind, text and hint of the error that must come."""
    try:
        act()
    except Exception as error:  # noqa: BLE001 - the test judges it
        return [type(error).__name__, str(error), getattr(error, "hint", None)]
    return []


def compiled_files(folder: Path) -> dict[str, bytes]:
    """What Numba keeps on disk, by name."""
    return {path.name: path.read_bytes() for path in folder.rglob("*.nb?")}


class Program:
    """One client with its folder; each method is one finding."""

    def __init__(self, address: str, folder: Path) -> None:
        self.address, self.folder = address, folder
        self.spark = tocsin.spark.session(master=address)
        self.events = self.spark.createDataFrame(shop().to_pandas())
        (folder / "in").mkdir()
        for number, rows in enumerate((shop().slice(0, 200), shop().slice(200))):
            path = folder / "in" / f"{number}.parquet"
            pq.write_table(rows, path)
            os.utime(path, (1_700_000_000 + number,) * 2)  # Spark takes files by their age

    def batch(self) -> Any:
        return collected(tocsin.spark.detect(self.events, THEFT, eid="eid"))

    def kernels(self) -> Any:
        """The kernels that workers have used for that, and those among them that nobody shipped."""
        folders = (os.environ["TOCSIN_CACHE"], f"{self.folder}/server")
        shipped, used = (compiled_files(Path(folder)) for folder in folders)
        return {"used": len(used), "compiled": sorted(name for name in used if used[name] != shipped.get(name))}

    def stream(self, **options: Any) -> Any:
        source = self.spark.readStream.schema(self.events.schema).option("maxFilesPerTrigger", 1)
        files = source.parquet(str(self.folder / "in"))
        return tocsin.spark.detect(files, THEFT, eid="eid", order="slack(5)", jit=False, **options)

    def run(self, found: Any, name: str) -> Any:
        sink = tocsin.spark.Sink("parquet", str(self.folder / name))
        checkpoint, trigger = str(self.folder / f"{name}.state"), {"availableNow": True}
        query = tocsin.spark.start(found, sink, checkpoint=checkpoint, trigger=trigger)
        query.awaitTermination()
        return query

    def metrics(self) -> Any:
        """A stream that stays open, its numbers, and what a listener heard."""
        heard: list[tuple[int, int]] = []
        watcher = tocsin.spark.watch(self.spark, lambda _, batch, told: heard.append((batch, told["events"])))
        query = self.run(self.stream(buckets=2), "open")
        read = sum(tocsin.spark.numbers(progress).get("events", 0) for progress in query.recentProgress)
        for _ in range(100):
            if len(heard) >= 2:
                break
            time.sleep(0.1)
        self.spark.streams.removeListener(watcher)
        return {"read": read, "heard": sorted(pair for pair in heard if pair[1])}

    def carried_over(self) -> Any:
        """The rest of that stream, dealt out anew, from a folder with no more files of interest."""
        (self.folder / "rest").mkdir()
        pq.write_table(shop().slice(299), self.folder / "rest" / "0.parquet")
        source = self.spark.readStream.schema(self.events.schema).parquet(str(self.folder / "rest"))
        options = {"order": "slack(5)", "carry_over": str(self.folder / "open.state"), "end_of_stream": True}
        self.run(tocsin.spark.detect(source, THEFT, eid="eid", buckets=3, jit=False, **options), "rest.out")
        logs = [self.spark.read.parquet(str(self.folder / name)) for name in ("open", "rest.out")]
        return collected(tocsin.spark.settled(logs[0].unionByName(logs[1])))

    def sql(self) -> Any:
        tocsin.spark.register(self.spark)
        self.events.createOrReplaceTempView("events")
        return collected(self.spark.sql(f"SELECT * FROM tocsin_detect(TABLE(events), '{THEFT}', jit => false)"))

    def explained(self) -> Any:
        stored = self.spark.read.parquet(str(self.folder / "in"))
        return [line for line in tocsin.spark.explain(stored, THEFT, eid="eid").splitlines() if "detour" in line]

    def pipelines(self) -> Any:
        """A pipeline file: the history, the stream, and the stream again, which finds nothing new."""
        from tocsin.jobs.config import read_pipeline
        from tocsin.jobs.run import follow, make_ready, run_batch, session_of, started

        file = self.folder / "shop.toml"
        found: dict[str, Any] = {}
        for kind in ("history", "live", "again"):
            place = "live" if kind == "again" else kind
            file.write_text(PIPELINE.format(query=THEFT, folder=self.folder, kind=place, address=self.address))
            pipeline = read_pipeline(file)
            with session_of(pipeline) as spark:
                ready = make_ready(pipeline, spark, live=kind != "history")
                if kind == "history":
                    found[kind] = run_batch(ready).events
                    continue
                with started(ready) as query:
                    found[kind] = follow(query).events
        read = self.spark.read.parquet
        found["matches"] = collected(read(str(self.folder / "pipeline" / "history")))
        found["settled"] = read(str(self.folder / "pipeline" / "live")).count()
        return found

    def with_python(self, python: Path) -> list[str | None]:
        """The error of a session whose workers run another Python."""
        from pyspark.sql import SparkSession

        other = SparkSession.builder.remote(self.address).create()
        other.conf.set(PYTHON, str(python))
        events = other.createDataFrame(shop().to_pandas())
        return error_of(lambda: tocsin.spark.detect(events, THEFT, eid="eid"))

    def gone(self, pid: int) -> Any:
        """What is told when the server goes away: by `detect`, by `start`, and while a pipeline is followed."""
        from pyspark.sql.connect.client.retries import DefaultPolicy

        from tocsin.jobs.run import follow
        from tocsin.spark.setup.errors import explained

        session: Any = self.spark
        session.client.set_retry_policies([DefaultPolicy(max_retries=2)])  # the usual ones take ten minutes
        waiting = self.stream(buckets=2)
        sink = tocsin.spark.Sink("parquet", str(self.folder / "endless"))
        query = tocsin.spark.start(waiting, sink, checkpoint=str(self.folder / "endless.state"))
        os.kill(pid, signal.SIGKILL)

        def followed() -> None:
            try:
                follow(query)
            except Exception as error:  # noqa: BLE001 - as the command line does
                raise explained(error) or error from None

        return {
            "follow": error_of(followed),
            "detect": error_of(lambda: tocsin.spark.detect(self.events.where("price > 1"), THEFT, eid="eid")),
            "start": error_of(lambda: tocsin.spark.start(waiting, sink, checkpoint=str(self.folder / "other.state"))),
        }


def main(address: str, folder: str, pid: str) -> None:
    warnings.simplefilter("ignore")
    program = Program(address, Path(folder))
    findings: dict[str, Callable[[], Any]] = {
        "wanted": lambda: listed(tocsin.query(THEFT).detect(shop(), eid="eid", jit=False).table().to_pylist()),
        "batch": program.batch,
        "kernels": program.kernels,
        "metrics": program.metrics,
        "carried over": program.carried_over,
        "sql": program.sql,
        "explained": program.explained,
        "pipelines": program.pipelines,
        "without": lambda: program.with_python(python_without_tocsin(Path(folder))),
        "other": lambda: program.with_python(python_with_another_tocsin(Path(folder))),
        "gone": lambda: program.gone(int(pid)),
    }
    for name, find in findings.items():
        sys.stdout.write(f"\n{json.dumps({name: find()})}\n")
        sys.stdout.flush()
    os._exit(0)  # a session whose server is gone would wait for it


if __name__ == "__main__":
    main(*sys.argv[1:4])
