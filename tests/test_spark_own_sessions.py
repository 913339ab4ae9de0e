"""Sessions as people have them: 200 shuffle partitions, clusters that grow, other workers, old versions."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

from pyspark.sql import SparkSession

import tocsin
from tocsin.errors import StateError, TocsinError, TocsinWarning
from tocsin.shards.shard_labels import partition_labels, spark_hash
from tocsin.spark import Sink, detect, explain, start, write
from tocsin.spark.setup import jvm, versions
from tocsin.spark.setup.session import try_to_set

PAIR = "EVENT SEQ(A a, B b) WHERE [k] WITHIN 50"
PARTITIONS = "spark.sql.shuffle.partitions"
PER_FILE = 10


def events(files: int) -> pa.Table:
    count = files * PER_FILE
    kinds = ["A", "B"] * (count // 2)
    return pa.table({"type": kinds, "time": range(count), "k": [n // 2 % 3 for n in range(count)], "eid": range(count)})


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    return folder


def fill(inbox: Path, files: int) -> pa.Table:
    whole = events(files)
    for number in range(files):
        path = inbox / f"{number:03}.parquet"
        pq.write_table(whole.slice(number * PER_FILE, PER_FILE), path)
        os.utime(path, (1_700_000_000 + number,) * 2)
    return whole


def streamed(spark: SparkSession, inbox: Path) -> Any:
    source = spark.readStream.schema("type string, time long, k long, eid long").option("maxFilesPerTrigger", 1)
    return source.parquet(str(inbox))


def run(spark: SparkSession, inbox: Path, checkpoint: Path, sink: Path, **options: Any) -> Any:
    """A stream over the files, one in each micro-batch."""
    asked = {"eid": "eid", "order": "in-order", "buckets": 2, "jit": False, **options}
    result = detect(streamed(spark, inbox), PAIR, end_of_stream=True, **asked)
    query = start(result, Sink("parquet", str(sink)), checkpoint=str(checkpoint), trigger={"availableNow": True})
    query.awaitTermination()
    return query


@pytest.fixture
def many_partitions(spark: SparkSession) -> Iterator[SparkSession]:
    """The session with the number of partitions that Spark has if nobody says another."""
    before = str(spark.conf.get(PARTITIONS))
    spark.conf.set(PARTITIONS, "200")
    yield spark
    assert spark.conf.get(PARTITIONS) == "200", "someone's session was changed for good"
    spark.conf.set(PARTITIONS, before)


def tasks(spark: SparkSession, query: Any) -> list[int]:
    """How many tasks each stage of a stream had."""
    tracker = spark.sparkContext.statusTracker()
    jobs = [tracker.getJobInfo(number) for number in tracker.getJobIdsForGroup(query.runId)]
    stages = {number for job in jobs if job is not None for number in job.stageIds}
    found = [tracker.getStageInfo(number) for number in stages]
    return [stage.numTasks for stage in found if stage is not None]


# --- how many tasks ------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("files", [2, pytest.param(20, marks=pytest.mark.long)])
def test_a_micro_batch_has_a_task_for_each_shard_and_not_two_hundred(
    many_partitions: SparkSession, inbox: Path, tmp_path: Path, files: int
) -> None:
    rows = fill(inbox, files)
    query = run(many_partitions, inbox, tmp_path / "state", tmp_path / "out")
    shown = [each.stateOperators[0].numShufflePartitions for each in query.recentProgress]
    assert len(shown) >= files and set(shown) == {2}
    started = tasks(many_partitions, query)
    assert len(started) >= files and max(started) <= 2
    found = many_partitions.read.parquet(str(tmp_path / "out")).toArrow()
    assert sorted(found["match_id"].to_pylist()) == sorted(
        tocsin.query(PAIR).detect(rows, eid="eid", jit=False).table()["match_id"].to_pylist()
    )


@pytest.mark.slow
def test_a_batch_has_a_partition_for_each_shard(many_partitions: SparkSession) -> None:
    frame = many_partitions.createDataFrame(events(3).to_pandas())
    for buckets in (1, 7):
        found = detect(frame, PAIR, eid="eid", buckets=buckets, jit=False)
        assert found.rdd.getNumPartitions() == buckets
        assert found.count() == tocsin.query(PAIR).detect(events(3), eid="eid", jit=False).table().num_rows


@pytest.mark.slow
def test_fewer_partitions_than_shards_are_someones_choice(spark: SparkSession, inbox: Path, tmp_path: Path) -> None:
    fill(inbox, 1)
    before = str(spark.conf.get(PARTITIONS))
    spark.conf.set(PARTITIONS, "1")
    try:
        query = run(spark, inbox, tmp_path / "state", tmp_path / "out", buckets=3)
        assert query.recentProgress[0].stateOperators[0].numShufflePartitions == 1
        told = explain(streamed(spark, inbox), PAIR, eid="eid", order="in-order", buckets=3)
        assert "tocsin.spark.start takes at most 3 shuffle partitions" in told and "number (1)" in told
    finally:
        spark.conf.set(PARTITIONS, before)


@pytest.mark.parametrize("count", [1, 2, 3, 7, 16, 100, 5041])
def test_spark_sends_each_shard_to_its_own_partition(count: int) -> None:
    labels = np.array(partition_labels(count), np.uint32)
    assert (spark_hash(labels).astype(np.int64) % count).tolist() == list(range(count))


class Conf:
    """A session as far as its settings go."""

    def __init__(self, **settings: str) -> None:
        self.settings = {f"spark.{name.replace('_', '.')}": value for name, value in settings.items()}
        self.conf = self

    def get(self, name: str, default: str | None = None) -> str | None:
        return self.settings.get(name, default)

    def set(self, name: str, value: str) -> None:
        self.settings[name] = value


@pytest.mark.parametrize(("before", "during"), [("200", "4"), ("auto", "4"), ("8", "8"), ("3", "3")])
def test_partitions_are_few_while_a_stream_starts(monkeypatch: pytest.MonkeyPatch, before: str, during: str) -> None:
    """Eight shards on four cores; what the session said is there again afterwards, also if the start fails."""
    session: Any = Conf(sql_shuffle_partitions=before)
    monkeypatch.setattr(write, "cores", lambda spark: 4)
    with suppress(ZeroDivisionError), write.few_partitions(session, shards=8):
        assert session.get(PARTITIONS) == during
        raise ZeroDivisionError
    assert session.get(PARTITIONS) == before


@pytest.mark.parametrize(
    ("settings", "most"),
    [
        ({}, 0),
        ({"dynamicAllocation_enabled": "true", "master": "local[4]"}, 0),
        ({"dynamicAllocation_enabled": "true", "master": "yarn"}, None),
        ({"dynamicAllocation_enabled": "true", "dynamicAllocation_maxExecutors": "2147483647"}, None),
        ({"dynamicAllocation_enabled": "true", "dynamicAllocation_maxExecutors": "6"}, 6),
        ({"dynamicAllocation_enabled": "true", "dynamicAllocation_maxExecutors": "6", "executor_cores": "4"}, 24),
        (
            {"dynamicAllocation_enabled": "true", "dynamicAllocation_maxExecutors": "6", "executor_cores": "4",
             "task_cpus": "2"}, 12,
        ),
    ],
)  # fmt: skip
def test_a_cluster_that_grows_is_taken_at_its_limit(settings: dict[str, str], most: int | None) -> None:
    session: Any = Conf(**settings)
    assert jvm.most_cores(session) == most


@pytest.mark.slow
def test_a_stream_on_a_cluster_without_a_limit_asks_for_buckets(
    spark: SparkSession, inbox: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(inbox, 1)
    monkeypatch.setattr(importlib.import_module("tocsin.spark.detect"), "most_cores", lambda spark: None)
    with pytest.warns(TocsinWarning, match="grows without a limit, and a stream keeps the 2 buckets"):
        explain(streamed(spark, inbox), PAIR, eid="eid", order="in-order")
    explain(streamed(spark, inbox), PAIR, eid="eid", order="in-order", buckets=3)


@pytest.mark.slow
def test_a_setting_that_may_not_be_changed_stays(spark: SparkSession) -> None:
    before = spark.conf.get("spark.sql.warehouse.dir")
    try_to_set(spark, "spark.sql.warehouse.dir", "elsewhere")
    assert spark.conf.get("spark.sql.warehouse.dir") == before


# --- folders -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_stream_that_begins_anew_does_not_write_into_a_full_folder(
    spark: SparkSession, inbox: Path, tmp_path: Path
) -> None:
    """It would replace the batches that have the same numbers, and leave the others beside its own."""
    rows = fill(inbox, 1)
    wanted = tocsin.query(PAIR).detect(rows, eid="eid", jit=False).table().num_rows
    run(spark, inbox, tmp_path / "state", tmp_path / "out")
    with pytest.raises(StateError, match="holds the answers of an earlier run"):
        run(spark, inbox, tmp_path / "state-2", tmp_path / "out")
    assert not (tmp_path / "state-2").exists()
    assert spark.read.parquet(str(tmp_path / "out")).count() == wanted


# --- workers and versions ------------------------------------------------------------------------------------------

WORKER = """\
#!/bin/sh
exec {python} -c '
import runpy, sys
import pyspark.worker
{change}
sys.argv = ["daemon", *sys.argv[3:]]
runpy.run_module("pyspark.daemon", run_name="__main__", alter_sys=True)
' "$@"
"""
UNFIT = {
    "another Python": ("sys.version_info = (3, 9, 0, 'final', 0)", "the workers run Python 3.9, and this program"),
    "no Tocsin": ("sys.modules['tocsin'] = None", "have no Tocsin"),
    "another Tocsin": ("import tocsin; tocsin.__version__ = '9.9'", "have Tocsin 9.9, and this program has"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", UNFIT)
def test_workers_that_cannot_do_the_work_are_refused_before_data_moves(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    change, reason = UNFIT[name]
    script = tmp_path / "python"
    script.write_text(WORKER.format(python=sys.executable, change=change.replace("'", '"')))
    script.chmod(0o755)
    monkeypatch.setenv("PYSPARK_PYTHON", str(script))
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(script))
    frame = spark.createDataFrame([("A", 1, 1)], "type string, time long, k long")
    with pytest.raises(TocsinError, match=reason) as caught:
        detect(frame, PAIR, jit=False)
    assert caught.value.hint


def test_an_old_spark_is_refused_with_the_reason(tmp_path: Path) -> None:
    assert versions.too_old("PySpark", "4.0.0") is None
    assert "the server's Spark 3.4.2 is too old" in str(versions.too_old("the server's Spark", "3.4.2"))
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "__init__.py").write_text("__version__ = '3.4.2'\n")
    path = os.pathsep.join([str(tmp_path), str(Path(tocsin.__file__).parent.parent)])
    done = subprocess.run(
        [sys.executable, "-c", "import tocsin.spark"],
        env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "PySpark 3.4.2 is too old" in done.stderr and "3.5 or newer for batches" in done.stderr


@pytest.mark.parametrize("what", ["a stream", "Spark Connect", "the command line"])
def test_what_spark_3_5_lacks_is_refused(what: str) -> None:
    older, newer = (cast("SparkSession", SimpleNamespace(version=version)) for version in ("3.5.9", "4.0.0"))
    versions.check_whole(newer, what)
    with pytest.raises(TocsinError, match=f"{what} needs Spark 4.0 or newer, and this is Spark 3.5.9"):
        versions.check_whole(older, what)


def test_the_import_needs_nothing_that_spark_3_5_lacks() -> None:
    """Its table functions cannot say their columns, and it has no state in Python."""
    lacks = """
import sys
import pyspark.sql.udtf as udtf
for name in ("AnalyzeArgument", "AnalyzeResult", "OrderingColumn", "PartitioningColumn", "SelectedColumn"):
    delattr(udtf, name)
sys.modules["pyspark.sql.streaming.stateful_processor"] = None
import tocsin.spark
from types import SimpleNamespace
try:
    tocsin.spark.register(SimpleNamespace(version="3.5.9"))
except tocsin.TocsinError as refused:
    print(refused)
"""
    done = subprocess.run([sys.executable, "-c", lacks], capture_output=True, text=True, check=False)
    assert "tocsin.spark.register needs Spark 4.0 or newer, and this is Spark 3.5.9" in done.stdout, done.stderr


@pytest.mark.slow
def test_classes_have_the_names_that_this_spark_knows(spark: SparkSession) -> None:
    loader = spark._jvm.java.lang.Thread.currentThread().getContextClassLoader()
    for name in (versions.checkpoint_manager(spark), versions.micro_batches(spark)):
        assert loader.loadClass(name).getName() == name
