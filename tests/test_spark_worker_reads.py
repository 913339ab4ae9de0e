"""Streams of files that workers read themselves: shards, rows and answers are those of the way through Spark."""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema

import tocsin
from tocsin.encode.columns import Columns
from tocsin.errors import TocsinError
from tocsin.lang.parser import parse
from tocsin.run.query import plans_of
from tocsin.shards.blocks import COPY, SHARD
from tocsin.shards.routes import own_columns
from tocsin.spark import Sink, detect, explain, start
from tocsin.spark.answer_columns import BLOCK, received, sent_frames, sent_schema
from tocsin.spark.detect import plan_job, prepare
from tocsin.spark.event_frame import open_frame
from tocsin.spark.shuffle import is_many, send
from tocsin.spark.worker_reads import stream as module
from tocsin.spark.worker_reads.coercions import FileColumns
from tocsin.spark.worker_reads.filters import Unsayable
from tocsin.spark.worker_reads.routing import routing_rules
from tocsin.spark.worker_reads.stream import local
from tocsin.spark.worker_reads.xxhash64 import hashable, row_hashes

pytestmark = pytest.mark.slow

EDGES = (0, 1, -1, 2, 255, 2**31 - 1, -(2**31), 2**53 + 1, 2**63 - 1, -(2**63))
LENGTHS = (0, 1, 3, 4, 5, 7, 8, 9, 12, 15, 16, 31, 32, 33, 40, 63, 64, 65, 100)


def some(random: Random, draw: Callable[[], Any], count: int, nulls: float = 0.1) -> list[Any]:
    return [None if random.random() < nulls else draw() for _ in range(count)]


def text(random: Random) -> str:
    return "".join(random.choice("abcé😀ü \0") for _ in range(random.choice(LENGTHS)))


def unscaled(random: Random, digits: int) -> int:
    bits = random.randrange(1, 130)
    number = random.choice((2**bits, 2**bits - 1, random.getrandbits(bits), 0)) * random.choice((1, -1))
    return max(min(number, 10**digits - 1), 1 - 10**digits)


def whole(random: Random, bits: int) -> int:
    half = 1 << (bits - 1)
    return random.choice([each for each in EDGES if -half <= each < half] + [random.randrange(-half, half)])


# --- the hash ------------------------------------------------------------------------------------------------------


def hashed_columns(random: Random, count: int) -> dict[str, pa.Array]:
    floats = (0.0, -0.0, math.nan, math.inf, -math.inf, 5e-324)
    return {
        "i": pa.array(some(random, lambda: whole(random, 64), count), pa.int64()),
        "t": pa.array(some(random, lambda: text(random), count), pa.string()),
        "d": pa.array(some(random, lambda: Decimal(f"{unscaled(random, 38)}e-3"), count), pa.decimal128(38, 3)),
        "b": pa.array(some(random, lambda: random.random() < 0.5, count), pa.bool_()),
        "f": pa.array(some(random, lambda: random.choice((*floats, random.random())), count), pa.float64()),
        "g": pa.array(some(random, lambda: random.choice((*floats, random.random())), count), pa.float32()),
    }


def test_hashes_are_those_of_spark(spark: SparkSession) -> None:
    rows = pa.table(hashed_columns(Random(1), 2000))
    keys = [[name] for name in rows.schema.names] + [["i", "t"], ["t", "d", "b", "f", "g", "i"]]
    found = spark.createDataFrame(rows).select(*(sf.xxhash64(*key).alias(str(at)) for at, key in enumerate(keys)))
    wanted = found.toArrow()
    for at, key in enumerate(keys):
        arrays = [rows[name].chunk(0) for name in key]
        assert all(hashable(array.type) for array in arrays)
        theirs = wanted[str(at)].to_numpy()
        np.testing.assert_array_equal(row_hashes(arrays).view(np.int64), theirs, str(key))
        parts = [array.slice(700, 90) for array in arrays]  # arrays that begin somewhere
        np.testing.assert_array_equal(row_hashes(parts).view(np.int64), theirs[700:790], str(key))


# --- where a row goes ----------------------------------------------------------------------------------------------

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


def every_kind(random: Random, count: int) -> pa.Table:
    """Rows with an attribute of every kind, and many nulls."""

    def attribute(draw: Callable[[], Any], type: pa.DataType) -> pa.Array:
        return pa.array(some(random, draw, count), type)

    def instant() -> datetime:
        return EPOCH + timedelta(microseconds=random.randrange(5_000_000))

    return pa.table({
        "type": pa.array(random.choices("ABCDX", k=count)),
        "time": pa.array(range(count), pa.int64()),
        "eid": pa.array(range(count), pa.int64()),
        "i": attribute(lambda: random.randrange(9), pa.int32()),
        "l": attribute(lambda: whole(random, 64), pa.int64()),
        "s": attribute(lambda: random.choice(("x", "y", "", "é", "a longer text of more than 32 bytes")), pa.string()),
        "f": attribute(lambda: random.choice((0.0, -0.0, math.nan, 1.5, -2.0)), pa.float64()),
        "g": attribute(lambda: random.choice((0.0, -0.0, math.nan, 1.5)), pa.float32()),
        "ok": attribute(lambda: random.random() < 0.5, pa.bool_()),
        "d": attribute(lambda: Decimal(random.randrange(-999, 999)).scaleb(-2), pa.decimal128(9, 2)),
        "at": attribute(instant, pa.timestamp("us", "UTC")),
        "wall": attribute(lambda: instant().replace(tzinfo=None), pa.timestamp("us")),
        "day": attribute(lambda: date(2026, 1, 1 + random.randrange(9)), pa.date32()),
    })  # fmt: skip


def routed_both(spark: SparkSession, rows: pa.Table, queries: Sequence[str], buckets: int) -> tuple[Any, Any]:
    """Where Catalyst sends each row, and where we do: with the copy and whose own it is."""
    df = spark.createDataFrame(rows)
    frame = open_frame(df, Columns())
    plans = plans_of(tuple(parse(query) for query in queries), frame.schema)
    job, _ = plan_job(frame, plans, frozenset(range(len(plans))), buckets=buckets, jit=False, keep_bad=False)
    ours = routing_rules(frame, job).routed(rows.combine_chunks().to_batches()[0], job)
    many = len(job.shards) > 1 or is_many(job.shards[0])
    own = [name for shards in job.shards for name in own_columns(shards.group).values()]
    names = ["eid", SHARD, *([COPY] if many else []), *own]
    theirs = send(frame, job, None).df.select(*(sf.col(f"`{name}`") for name in names)).toArrow()
    assert theirs.num_rows > 20
    return Counter(map(_row, theirs.to_pylist())), Counter(map(_row, ours.select(names).to_pylist()))


def _row(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row.items())


KEYS = ["i", "l", "s", "f", "g", "ok", "d", "at", "wall", "day", "i, s", "l, d, at"]


@pytest.mark.parametrize("buckets", [2, 7])
def test_every_kind_of_key(spark: SparkSession, buckets: int) -> None:
    rows = every_kind(Random(2), 400)
    for key in KEYS:
        theirs, ours = routed_both(spark, rows, [f"EVENT SEQ(A a, B b) WHERE [{key}] WITHIN 50"], buckets)
        assert ours == theirs, key


ROUTED = [
    ["EVENT SEQ(A a, !B b, C c) WHERE a.i = c.i WITHIN 50"],  # B goes everywhere
    ["EVENT SEQ(A a, !A b, A c) WHERE a.i = c.i AND b.s = 'x' WITHIN 50"],  # so do some of type A
    ["EVENT SEQ(A a, A b) WHERE a.i = b.l WITHIN 50"],  # two keys for one type
    ["EVENT SEQ(A a, B b) WHERE a.ok WITHIN 50"],  # no key
    ["EVENT SEQ(A a, B b) WHERE [i] WITHIN 50", "EVENT SEQ(B a, D b) WHERE [s] WITHIN 50"],  # two groups
    ["EVENT SEQ(A a, B b) WHERE [i] WITHIN 50", "EVENT SEQ(A a, A b) WHERE a.i = b.l WITHIN 5", "EVENT SEQ(C a, D b)"],
]


@pytest.mark.parametrize("number", range(len(ROUTED)))
def test_rows_that_go_to_several_shards(spark: SparkSession, number: int) -> None:
    theirs, ours = routed_both(spark, every_kind(Random(3), 400), ROUTED[number], 3)
    assert ours == theirs


TESTS = [
    "a.i > 3", "a.i <> 3", "NOT a.i >= 3", "a.i IN (1, 2, 5)", "a.i = 2.0", "a.l < 0", "a.f > 0", "a.f = 0",
    "a.f <> 1.5", "NOT a.f > 0", "a.f <= 1.5", "3 < a.i", "a.s = 'x'", "a.s <> 'x'", "NOT a.s = 'é'", "a.ok",
    "NOT a.ok", "a.ok = TRUE", "a.s IS NULL", "a.f IS NOT NULL", "a.i > 3 AND a.s = 'x' OR a.ok",
    "NOT (a.i > 3 AND a.ok)", "a.g >= 1.5", "start(a) >= 100", "end(a) < 250", "a.i BETWEEN 2 AND 4",
]  # fmt: skip


def test_rows_that_no_leaf_takes(spark: SparkSession) -> None:
    """Every test that we make ourselves lets the rows through that Catalyst lets through."""
    rows, made = every_kind(Random(4), 300), 0
    for test in TESTS:
        try:
            theirs, ours = routed_both(spark, rows, [f"EVENT SEQ(A a, B b) WHERE [i] AND ({test}) WITHIN 50"], 2)
        except Unsayable:
            continue
        made += 1
        assert ours == theirs, test
    assert made >= len(TESTS) - 3


@pytest.mark.parametrize("test", ["a.d > 1", "a.s < 'x'", "lower(a.s) = 'x'", "a.i + 1 > 3", "a.f > a.g"])
def test_tests_that_only_catalyst_makes(spark: SparkSession, test: str) -> None:
    with pytest.raises(Unsayable):
        routed_both(spark, every_kind(Random(4), 50), [f"EVENT SEQ(A a, B b) WHERE [i] AND ({test}) WITHIN 50"], 2)


# --- both ways, end to end -----------------------------------------------------------------------------------------

COUNT, PER_FILE = 1200, 200
SCHEMA = "type STRING, time BIGINT, eid BIGINT, tag INT, name STRING, v DOUBLE"
THEFT = "EVENT SEQ(Shelf s, !Counter c, Exit e) WHERE [tag] WITHIN 90 SELECT s.tag AS tag, e.name AS name, e.v AS v"
WHOLE = "EVENT SEQ(Shelf s, !Counter c, Exit e) WHERE [tag] AND s.v > 0.2 WITHIN 60"
SETS = "EVENT SEQ(Shelf s, Counter+ c, Exit e) WHERE [tag] WITHIN 12"


def made(random: Random) -> pa.Table:
    kinds = random.choices(["Shelf", "Counter", "Exit", "Lamp"], k=COUNT)
    times = [at // 3 for at in range(COUNT)]
    for at in random.sample(range(PER_FILE, COUNT), 12):
        times[at] -= 80  # late
    return pa.table({
        "type": kinds, "time": times, "eid": range(COUNT),
        "tag": pa.array(some(random, lambda: random.randrange(30), COUNT, 0.02), pa.int32()),
        "name": pa.array(some(random, lambda: random.choice("xyz"), COUNT, 0.2), pa.string()),
        "v": pa.array(some(random, lambda: random.choice((math.nan, random.random())), COUNT, 0.05), pa.float64()),
    })  # fmt: skip


EVENTS = made(Random(7))


def put(folder: Path, numbers: Sequence[int], rows: pa.Table = EVENTS) -> None:
    """Some files of the stream, each as old as its number says."""
    folder.mkdir(exist_ok=True)
    for number in numbers:
        path = folder / f"{number}.parquet"
        pq.write_table(rows.slice(number * PER_FILE, PER_FILE), path, row_group_size=70)
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))


def frame_of(spark: SparkSession, folder: Path, schema: str = SCHEMA) -> DataFrame:
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 2).parquet(str(folder))


class Told:
    """All rows that a stream has said, by kind."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def __call__(self, rows: DataFrame, _: int) -> None:
        self.rows += rows.toArrow().to_pylist()

    def of(self, kind: str) -> Counter[str]:
        """In texts, since NaN is like nothing; without what says how much room a thing took."""
        found = [row for row in self.rows if row["kind"] == kind]
        if kind == "metrics":
            found = [{**json.loads(row["details"]), "state_bytes": 0, "blocks": 0} for row in found]
        return Counter(json.dumps(row, default=str, sort_keys=True) for row in found)

    @property
    def all(self) -> dict[str, Counter[str]]:
        return {kind: self.of(kind) for kind in ("match", "late", "bad", "metrics")}


def ran(spark: SparkSession, folder: Path, checkpoint: Path, queries: Any, told: Told, **options: Any) -> None:
    given: dict[str, Any] = {"order": "slack(5)", "end_of_stream": True, "buckets": 2, **options}
    frame = given.pop("frame", None) or frame_of(spark, folder)
    sink = Sink(told, kinds=("match", "late", "bad", "metrics"))
    stream = start(detect(frame, queries, **given), sink, checkpoint=str(checkpoint), trigger={"availableNow": True})
    stream.awaitTermination()


@pytest.mark.parametrize(
    "queries",
    [
        pytest.param(THEFT, marks=pytest.mark.long),
        pytest.param(WHOLE, marks=pytest.mark.long),
        [THEFT, SETS, "EVENT SEQ(Lamp a, Lamp b) WHERE a.tag = 3 WITHIN 9"],
    ],
)
@pytest.mark.filterwarnings("ignore:.*has no key")
@pytest.mark.filterwarnings("ignore::tocsin.errors.TocsinWarning")
def test_both_ways_say_the_same(spark: SparkSession, tmp_path: Path, queries: Any) -> None:
    put(tmp_path / "in", range(COUNT // PER_FILE))
    said = []
    for number, direct in enumerate((True, False)):
        prepared = prepare(frame_of(spark, tmp_path / "in"), queries, order="in-order", direct=direct)
        assert (prepared.file_stream is not None) is direct, prepared.detour
        told = Told()
        ran(spark, tmp_path / "in", tmp_path / f"check{number}", queries, told, direct=direct)
        said.append(told.all)
    assert said[0] == said[1]
    assert all(said[0][kind] for kind in ("match", "late", "metrics"))


@pytest.mark.parametrize(
    ("order", "options"),
    [
        pytest.param("auto(100)", {}, marks=pytest.mark.long),
        ("aggressive(100)", {"arrival": "eid"}),
        pytest.param("hybrid(Counter=conservative, 100)", {"direct": False}, marks=pytest.mark.long),
    ],
)
def test_whatever_the_order_the_same_stands_in_the_end(
    spark: SparkSession, tmp_path: Path, order: str, options: dict[str, Any]
) -> None:
    put(tmp_path / "in", range(COUNT // PER_FILE))
    told = Told()
    ran(spark, tmp_path / "in", tmp_path / "check", THEFT, told, order=order, **options)
    standing: Counter[str] = Counter()
    for row in told.rows:
        if row["kind"] == "match":
            standing[row["match_id"]] += row["op"]
    assert set(standing.values()) <= {0, 1}
    expected = tocsin.query(THEFT).detect(EVENTS, eid="eid", order="slack(100)", jit=False).table()["match_id"]
    assert set(+standing) == set(expected.to_pylist())
    assert len(expected) > 20


def test_the_column_of_arrival_is_checked(spark: SparkSession, tmp_path: Path) -> None:
    put(tmp_path / "in", [0])
    frame = frame_of(spark, tmp_path / "in")
    for column, problem in (("offset", "no arrival column 'offset'"), ("name", "'name' is of type string")):
        with pytest.raises(TocsinError, match=problem):
            prepare(frame, THEFT, order="aggressive(5)", arrival=column)


def test_rows_are_dealt_out_to_many_shards(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "in", range(COUNT // PER_FILE))
    said = []
    for alike in (8, 1):
        monkeypatch.setattr(module, "SHARDS_THAT_READ_ALL", alike)
        told = Told()
        ran(spark, tmp_path / "in", tmp_path / f"check{alike}", [THEFT, SETS], told, bad_rows="keep")
        said.append(told.all)
    assert said[0] == said[1]


@pytest.mark.parametrize("first", [True, pytest.param(False, marks=pytest.mark.long)])
def test_a_checkpoint_goes_on_either_way(spark: SparkSession, tmp_path: Path, first: bool) -> None:
    """What one way has stored, the other continues: the same shards, the same files, the same matches."""
    told, whole = Told(), Told()
    put(tmp_path / "in", [0, 1])
    ran(spark, tmp_path / "in", tmp_path / "check", [THEFT, SETS], told, direct=first, end_of_stream=False)
    put(tmp_path / "in", [2, 3, 4, 5])
    ran(spark, tmp_path / "in", tmp_path / "check", [THEFT, SETS], told, direct=not first)
    ran(spark, tmp_path / "in", tmp_path / "other", [THEFT, SETS], whole, direct=first)
    assert told.of("match") == whole.of("match")
    assert whole.of("match")


def test_columns_under_other_names(spark: SparkSession, tmp_path: Path) -> None:
    """Renamed, reordered, doubled and dropped columns are no work for Spark."""
    put(tmp_path / "in", range(COUNT // PER_FILE))
    said = []
    for direct in (True, False):
        frame = frame_of(spark, tmp_path / "in").withColumnRenamed("tag", "name2").withColumnRenamed("name", "tag")
        frame = frame.select("v", sf.col("name2").alias("name"), "tag", "time", "eid", "type").withColumn(
            "w", sf.col("v")
        )
        query = "EVENT SEQ(Shelf s, !Counter c, Exit e) WHERE [name] WITHIN 90 SELECT e.tag AS tag, s.w AS w, e.v AS v"
        assert (prepare(frame, query, order="in-order", direct=direct).file_stream is not None) is direct
        told = Told()
        ran(spark, tmp_path, tmp_path / f"check{direct}", query, told, direct=direct, frame=frame)
        said.append(told.all)
    assert said[0] == said[1]
    assert said[0]["match"]


def test_rows_that_cannot_be_used(spark: SparkSession, tmp_path: Path) -> None:
    """A row without a time, one without an eid, and one that ends before it begins, of a type that nobody reads."""
    kinds, times, eids = ["Shelf", "Lamp", "Exit", "Lamp"], [1, None, 5, 9], [1, 2, None, 4]
    rows = pa.table({"type": kinds, "start": times, "end": [2, 4, 6, 8], "eid": eids, "tag": [1, 1, 1, 1]})
    rows = rows.append_column("name", pa.array(["a", "b", "c", "d"]))
    put(tmp_path / "in", [0], rows)
    schema = "type STRING, start BIGINT, end BIGINT, eid BIGINT, tag BIGINT, name STRING"
    query = "EVENT SEQ(Shelf s, Exit e) WHERE [tag] AND e.name = 'c' WITHIN 90"
    said = []
    for direct in (True, False):
        told = Told()
        frame = frame_of(spark, tmp_path / "in", schema)
        ran(spark, tmp_path, tmp_path / f"check{direct}", query, told, direct=direct, frame=frame, bad_rows="keep")
        said.append(told.all)
    assert said[0] == said[1]
    assert sum(said[0]["bad"].values()) == 3


@pytest.mark.long
def test_times_as_points(spark: SparkSession, tmp_path: Path) -> None:
    """Timestamps with and without a zone, dates and decimals come out as they went in."""
    count = 60
    start_at = datetime(2026, 3, 29, 0, 30)  # noqa: DTZ001 - lacks an hour in some zones
    times = [start_at + timedelta(minutes=7 * at, microseconds=at) for at in range(count)]
    rows = pa.table({
        "type": ["A", "B", "C"] * 20, "at": pa.array(times, pa.timestamp("us", "UTC")),
        "wall": pa.array(times, pa.timestamp("us")), "day": pa.array([each.date() for each in times]),
        "d": pa.array([Decimal(f"{at}.25") for at in range(count)], pa.decimal128(9, 2)), "k": [1] * count,
        "eid": range(count),
    })  # fmt: skip
    put(tmp_path / "in", [0], rows)
    schema = "type STRING, at TIMESTAMP, wall TIMESTAMP_NTZ, day DATE, d DECIMAL(9,2), k BIGINT, eid BIGINT"
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        for time in ("at", "wall"):
            said = []
            for direct in (True, False):
                told, frame = Told(), frame_of(spark, tmp_path / "in", schema)
                options = {"time": time, "order": "slack(1 min)", "direct": direct, "frame": frame}
                ran(
                    spark,
                    tmp_path,
                    tmp_path / f"{time}{direct}",
                    "EVENT SEQ(A a, !C c, B b) WHERE [k]",
                    told,
                    **options,
                )
                said.append(told.all)
            assert said[0] == said[1]
            assert sum(said[0]["match"].values()) == 20
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(before))


# --- files and schemas ---------------------------------------------------------------------------------------------


def small(**columns: pa.Array) -> pa.Table:
    plain = {
        "type": pa.array(["A", "B"]), "time": pa.array([1, 2], pa.int64()), "k": pa.array([5, 5], pa.int64()),
        "f": pa.array([1.5, 2.5], pa.float64()), "at": pa.array([EPOCH, EPOCH], pa.timestamp("us", "UTC")),
        "d": pa.array([Decimal("1.50"), Decimal("2.50")], pa.decimal128(12, 2)), "s": pa.array(["x", None]),
    }  # fmt: skip
    return pa.table({**plain, **columns})


SMALL = "type STRING, time BIGINT, k BIGINT, f DOUBLE, at TIMESTAMP, d DECIMAL(12,2), s STRING"
FITTING: dict[str, Callable[[Path], None]] = {
    "as it is": lambda path: pq.write_table(small(), path),
    "narrow": lambda path: pq.write_table(
        small(k=pa.array([5, 5], pa.int16()), f=pa.array([1.5, 2.5], pa.float32())), path
    ),
    "short times": lambda path: pq.write_table(small(time=pa.array([1, 2], pa.int32())), path),
    "texts": lambda path: pq.write_table(
        small(type=pa.array(["A", "B"]).dictionary_encode(), s=pa.array(["x", None], pa.large_string())), path
    ),
    "milliseconds": lambda path: pq.write_table(small(), path, coerce_timestamps="ms"),
    "int96": lambda path: pq.write_table(small(), path, use_deprecated_int96_timestamps=True),
    "no zone": lambda path: pq.write_table(small(at=pa.array([1, 2**50], pa.timestamp("us"))), path),
    "few digits": lambda path: pq.write_table(small(d=pa.array([Decimal("1.50")] * 2, pa.decimal128(5, 2))), path),
    "lacking": lambda path: pq.write_table(small().drop_columns(["s", "d"]), path),
    "more": lambda path: pq.write_table(small().append_column("z", pa.array([[1], [2]])), path),
    "case": lambda path: pq.write_table(small().rename_columns(["TYPE", "Time", "K", "f", "at", "d", "s"]), path),
    "empty": lambda path: pq.write_table(small().slice(0, 0), path),
}  # fmt: skip


def test_files_of_other_shapes(spark: SparkSession, tmp_path: Path) -> None:
    """What Spark's reader makes of a file, ours makes of it."""
    for number, (name, write) in enumerate(FITTING.items()):
        folder = tmp_path / f"in{number}"
        folder.mkdir()
        write(folder / "0.parquet")
        query = "EVENT SEQ(A a, B b) WHERE [k]"
        prepared = prepare(frame_of(spark, folder, SMALL), query, order="in-order", end_of_stream=True)
        assert prepared.file_stream is not None, f"{name}: {prepared.detour}"
        ours = list(prepared.file_stream.reading.shape.read(str(folder / "0.parquet")))
        theirs = spark.read.schema(SMALL).parquet(str(folder)).toArrow()
        assert _plain(ours, theirs.schema).to_pylist() == theirs.to_pylist(), name


def _plain(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    arrays = [pa.chunked_array([batch.column(f.name).cast(f.type) for batch in batches], f.type) for f in schema]
    return pa.table(arrays, schema=schema)


UNFIT: dict[str, tuple[Callable[[SparkSession, Path], DataFrame], str]] = {
    "filter": (lambda s, f: frame_of(s, f).where("tag > 1"), "more than files"),
    "column": (lambda s, f: frame_of(s, f).withColumn("w", sf.col("v") + 1), "more than files"),
    "about the file": (lambda s, f: frame_of(s, f).select("*", "_metadata.file_name"), "more than files"),
    "option": (lambda s, f: s.readStream.schema(SCHEMA).option("mergeSchema", "true").parquet(str(f)), "mergeSchema"),
    "format": (lambda s, f: s.readStream.schema(SCHEMA).json(str(f)), "not Parquet"),
    "pattern": (lambda s, f: s.readStream.schema(SCHEMA).parquet(f"{f}/*.parquet"), "a pattern"),
    "type": (lambda s, f: frame_of(s, f, SCHEMA.replace("tag INT", "tag STRING")), "is int32, not string"),
    "nothing": (lambda s, f: frame_of(s, _folder(f, "nothing")), "no file yet"),
    "folders": (lambda s, f: frame_of(s, _folder(f, "folders", "k=1")), "folders among the files"),
    "rate": (
        lambda s, f: s.readStream.format("rate").load().selectExpr("'A' AS type", "timestamp AS time", "value AS tag"),
        "more than files",
    ),
}  # fmt: skip


def _folder(folder: Path, name: str, inside: str | None = None) -> Path:
    found = folder.parent / name
    (found / (inside or "")).mkdir(parents=True)
    return found


@pytest.mark.parametrize("name", UNFIT)
def test_frames_that_spark_must_read(spark: SparkSession, tmp_path: Path, name: str) -> None:
    put(tmp_path / "in", [0])
    make, reason = UNFIT[name]
    query = "EVENT SEQ(Shelf s, Exit e) WHERE [tag] WITHIN 90"
    prepared = prepare(make(spark, tmp_path / "in"), query, order="in-order")
    assert prepared.file_stream is None
    assert reason in prepared.detour


def test_explain_says_who_reads(spark: SparkSession, tmp_path: Path) -> None:
    put(tmp_path / "in", [0])
    frame = frame_of(spark, tmp_path / "in")
    assert "the workers read them; every shard reads all" in explain(frame, THEFT, order="in-order")
    assert "dealt out" in explain(frame, THEFT, order="in-order", buckets=20)
    assert "direct=False" in explain(frame, THEFT, order="in-order", direct=False)
    selected = frame.select("tag", "type", "time", "eid", "name", "v")  # only columns: nothing that Spark must do
    assert "the workers read them" in explain(selected, THEFT, order="in-order")


def test_a_file_that_cannot_be_read(spark: SparkSession, tmp_path: Path) -> None:
    """A file of another kind that comes later ends the stream, with its name and what to do."""
    put(tmp_path / "in", [0])
    told = Told()
    ran(spark, tmp_path / "in", tmp_path / "check", THEFT, told, end_of_stream=False)
    frame = frame_of(spark, tmp_path / "in")
    result = detect(frame, THEFT, order="slack(5)", buckets=2)
    strange = EVENTS.slice(PER_FILE, PER_FILE).set_column(3, "tag", pa.array(["one"] * PER_FILE))
    pq.write_table(strange, tmp_path / "in" / "strange.parquet")
    stream = start(result, Sink(told), checkpoint=str(tmp_path / "check"), trigger={"availableNow": True})
    with pytest.raises(Exception, match=r"strange\.parquet cannot be read by the workers.*tag.*string, not int32"):
        stream.awaitTermination()


def test_names_of_files() -> None:
    assert local("file:///data/part 1.parquet") == "/data/part 1.parquet"
    assert local("file:/data/100%25.parquet") == "/data/100%25.parquet"


def test_names_with_strange_letters(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "a b%20ü"
    folder.mkdir()
    pq.write_table(EVENTS, folder / "100% #1 é.parquet")
    told = Told()
    ran(spark, folder, tmp_path / "check", THEFT, told, order="slack(100)")
    expected = tocsin.query(THEFT).detect(EVENTS.sort_by("time")).table()["match_id"].to_pylist()
    assert Counter(row["match_id"] for row in told.rows if row["kind"] == "match") == Counter(expected)


# --- answers -------------------------------------------------------------------------------------------------------


WALL = datetime(2026, 3, 29, 2, 30, tzinfo=UTC).replace(tzinfo=None)


def test_answers_lose_nothing_on_their_way(spark: SparkSession) -> None:
    event = pa.struct([("eid", pa.int64()), ("at", pa.timestamp("us")), ("name", pa.string())])
    values: dict[str, tuple[pa.DataType, list[Any]]] = {
        "op": (pa.int8(), [1, None, -1]),
        "v": (pa.float64(), [math.nan, None, 0.5]),
        "ok": (pa.bool_(), [True, None, False]),
        "text": (pa.string(), ["é", None, ""]),
        "d": (pa.decimal128(9, 2), [Decimal("1.25"), None, Decimal("-0.01")]),
        "day": (pa.date32(), [date(1960, 2, 29), None, date(2026, 1, 1)]),
        "at": (pa.timestamp("us", "UTC"), [EPOCH, None, datetime(1900, 1, 1, 0, 0, 0, 1, tzinfo=UTC)]),
        "wall": (pa.timestamp("us"), [WALL, None, datetime(1, 1, 1, tzinfo=UTC).replace(tzinfo=None)]),
        "e": (event, [{"eid": 1, "at": WALL, "name": None}, None, {"eid": None}]),
    }
    result = pa.schema([(name, type) for name, (type, _) in values.items()])
    answer = pa.RecordBatch.from_arrays([pa.array(rows, type) for type, rows in values.values()], schema=result)
    schema = sent_schema(result)
    assert schema is not BLOCK
    (frame,) = sent_frames(iter([answer]), result)
    df = spark.createDataFrame(pa.Table.from_pandas(frame, schema=schema, preserve_index=False))
    found = received(df, result)
    assert found.schema == from_arrow_schema(result)
    rows = found.toArrow().to_pylist()
    assert str(rows) == str([{**row, "at": row["at"]} for row in answer.to_pylist()])


def test_answers_with_lists_travel_whole() -> None:
    result = pa.schema([("e", pa.list_(pa.struct([("eid", pa.int64())])))])
    assert sent_schema(result) is BLOCK
    answer = pa.RecordBatch.from_arrays([pa.array([[{"eid": 1}]], result.field(0).type)], schema=result)
    (frame,) = sent_frames(iter([answer]), result)
    assert list(frame) == ["block"]


def test_errors_have_a_place_and_a_remedy(spark: SparkSession, tmp_path: Path) -> None:
    put(tmp_path / "in", [0])
    prepared = prepare(frame_of(spark, tmp_path / "in"), THEFT, order="in-order")
    assert prepared.file_stream is not None
    shape = replace(prepared.file_stream.reading.shape, case_sensitive=True)
    (tmp_path / "no.parquet").write_bytes(b"nothing")
    with pytest.raises(TocsinError, match=r"no\.parquet cannot be read") as caught:
        shape.check(str(tmp_path / "no.parquet"))
    assert "direct=False" in str(caught.value)


DECIMAL = pa.decimal128(10, 2)


@pytest.mark.parametrize(
    ("found", "wanted", "readable"),
    [
        (DECIMAL, DECIMAL, True),
        (pa.decimal128(9, 2), DECIMAL, True),
        (pa.decimal128(11, 2), DECIMAL, False),
        (pa.decimal128(10, 3), DECIMAL, False),
        (pa.decimal128(9, 1), DECIMAL, False),
        (pa.int32(), pa.int64(), True),
        (pa.int64(), pa.int32(), False),
        (pa.uint32(), pa.int64(), False),
        (pa.float32(), pa.float64(), True),
        (pa.int32(), pa.float64(), False),
        (pa.int64(), pa.string(), False),
        (pa.string(), pa.int64(), False),
    ],
)
def test_workers_read_only_what_cannot_change_a_value(
    tmp_path: Path, found: pa.DataType, wanted: pa.DataType, readable: bool
) -> None:
    """A column that Spark's reader widens is read; one that it refuses or rounds is refused, with both types named."""
    path = str(tmp_path / "events.parquet")
    pq.write_table(pa.table({"type": ["A"], "v": pa.array([None], found)}), path)
    columns = FileColumns(pa.schema([("type", pa.string()), ("v", wanted)]), "type", {"type": "type", "v": "v"})
    if readable:
        columns.check(path)
        assert [batch.schema.field("v").type for batch in columns.read(path)] == [wanted]
        return
    with pytest.raises(TocsinError) as refused:
        columns.check(path)
    assert (
        refused.value.message
        == f"events.parquet cannot be read by the workers: its column 'v' is {found}, not {wanted}"
    )
    assert "direct=False" in str(refused.value)
