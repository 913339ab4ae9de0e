"""Spark's classes made ready once: an archive that the JVM maps into memory instead of loading 15,000 classes anew.

Most of the time until Spark's first answer is spent loading and verifying classes. `prepare()` runs the kinds of job
that detection needs, notes which classes were loaded, and lets Java write them to an archive in the cache directory
(about 200 MB, a minute of work). Every later session on the same Java and Spark uses it. It is optional: an archive
that is missing, damaged or made for another class path is passed over by Java; only the start is slower then.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tocsin.engine.private_folder import private_folder
from tocsin.errors import TocsinError
from tocsin.spark.setup.java import Java, find_java
from tocsin.spark.setup.jvm import class_path

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import SparkSession

RECORD = "-XX:DumpLoadedClassList="


def options(java: Java) -> list[str]:
    """Return the JVM options that use the archive, if there is one for this Java."""
    try:
        path = archive_path(java)
    except OSError:  # no folder that can be trusted
        return []
    if not path.is_file():
        return []
    quiet = (
        "-Xlog:cds*=off" if java.major < 25 else "-Xlog:cds*=off,aot*=off"
    )  # an archive that does not fit is no news
    return [f"-XX:SharedArchiveFile={path}", quiet]


def is_about(given: str) -> bool:
    """Whether options of a JVM already say something about archives."""
    return "-XX:SharedArchiveFile" in given or "-Xshare" in given or RECORD in given


def archive_path(java: Java) -> Path:
    """Named after where Java and Spark are, and after what they are: an archive of other versions is not taken."""
    try:
        spark = version("pyspark")
    except PackageNotFoundError:  # unpacked somewhere; its home tells it apart
        spark = "unknown"
    places = _digest(str(java.home), sys.prefix, os.environ.get("SPARK_HOME", ""))
    return private_folder() / "java" / f"spark-{places}-{_digest(spark, java.version, Path(__file__).read_text())}.jsa"


def _digest(*parts: str) -> str:
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=6).hexdigest()


def prepare() -> Path:
    """Make the archive for the Java that sessions will use, unless it exists."""
    java = find_java()
    path = archive_path(java)
    if path.is_file():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix="making-") as folder:
        classes, made = Path(folder, "classes"), Path(folder, "archive")
        call = "import sys; from tocsin.spark.setup.class_archive import record; record(*sys.argv[1:])"
        classpath = _run([sys.executable, "-c", call, str(classes), folder]).splitlines()[-1]
        dump = ["-Xshare:dump", f"-XX:SharedClassListFile={classes}", f"-XX:SharedArchiveFile={made}", "-cp", classpath]
        _run([str(java.executable), *dump])
        made.replace(path)
    for old in path.parent.glob(path.name.rpartition("-")[0] + "-*.jsa"):  # of another version in the same place
        if old != path:
            old.unlink(missing_ok=True)
    return path


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)  # noqa: S603
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise TocsinError(
            "the archive of Spark's classes could not be made",
            detail=said[-1] if said else f"{command[0]} ended with {done.returncode}",
            hint="Spark works without it; sessions start more slowly",
        )
    return done.stdout


def record(classes: str, folder: str) -> None:
    """Run what detection runs, with a JVM that notes its classes; the last line printed is its class path."""
    from tocsin.spark.setup.session import QUICK, session

    options = " ".join([*QUICK.values(), RECORD + classes])
    spark = session(master="local[2]", config={"spark.driver.extraJavaOptions": options, "spark.driver.memory": "1g"})
    events = f"{folder}/events"
    _batch(spark, events)
    _stream(spark, events, folder)
    sys.stdout.write(class_path(spark) + "\n")
    spark.stop()


def _batch(spark: SparkSession, events: str) -> None:
    columns = ["id AS k", "CAST(id AS STRING) AS type", "timestamp_micros(id * 1000000) AS time", "id * 0.5 AS v"]
    spark.range(1000).selectExpr(*columns).write.parquet(events)
    frame = spark.read.parquet(events).where("v > 1 AND type IN ('5', '7')").repartition(2, "k")
    sorted_rows = frame.sortWithinPartitions("time")
    sorted_rows.mapInArrow(_same, sorted_rows.schema).toArrow()
    frame.groupBy("k").count().collect()


def _same(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    yield from batches


def _stream(spark: SparkSession, events: str, folder: str) -> None:
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class Counts(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.state = handle.getValueState("n", "n long")
            self.log = handle.getListState("log", "b binary")

        def handleInputRows(self, key: Any, rows: Iterable[Any], timerValues: Any) -> Iterator[Any]:  # noqa: ARG002, N802, N803
            seen = list(rows)
            known = self.state.get()
            self.state.update(((known[0] if known else 0) + sum(map(len, seen)),))
            self.log.appendValue((b"x",))
            yield seen[0][["k"]]

        def close(self) -> None:
            pass

    schema = spark.read.parquet(events).schema
    frame = spark.readStream.schema(schema).parquet(events).withWatermark("time", "1 second").where("k < 8")
    counts = frame.groupBy("k").transformWithStateInPandas(Counts(), "k long", "append", "none")
    writer = counts.writeStream.format("parquet").option("checkpointLocation", f"{folder}/checkpoint")
    query = writer.trigger(availableNow=True).start(f"{folder}/out")
    query.awaitTermination()
    shutil.rmtree(f"{folder}/out")
