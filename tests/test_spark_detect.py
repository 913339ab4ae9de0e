"""Detection on DataFrames as users call it: batch and stream, frames by type, several queries, and every bad input."""

from __future__ import annotations

import os
import random
import warnings
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import tocsin
from tests.effort import is_long, some
from tests.pairing import Pairing
from tocsin.errors import InputError, QueryError, StateError, TocsinError, TocsinWarning
from tocsin.select.rate_limit import RateLimit
from tocsin.shards.shard_labels import labels_of, spark_hash
from tocsin.spark import Sink, detector, explain, matches, numbers, settled, start, watch
from tocsin.spark import detect as detect_on_spark
from tocsin.spark.event_frame import check_names

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("interpreted")]

THEFT = "EVENT SEQ(Shelf s, !Counter c, Exit e) WHERE [tag] WITHIN 300"
CHOSEN = "EVENT SEQ(Shelf s, !Counter c, Exit e) WHERE [tag] WITHIN 300 SELECT s.tag AS tag, e.name AS name"
ROWS = """
EVENT SEQ(Shelf s, !Counter c, Exit e) WHERE [tag] AND s.eid > 90 AND eid(c) % 2 = 0 AND eid(e) <> 400 WITHIN 40
SELECT eid(s) AS shelf_row, eid(e) AS exit_row
"""
UNPAID = "EVENT SEQ(Shelf s, Exit e, !Counter c) WHERE [tag] WITHIN 300"
SCHEMA = "type STRING, time BIGINT, tag BIGINT, name STRING, eid BIGINT"
COUNT, PER_FILE = 4000, 1000


def made() -> pa.Table:
    rng = random.Random(1)
    types = rng.choices(["Shelf", "Counter", "Exit", "Lamp"], k=COUNT)
    names = rng.choices(["x", "y", None], k=COUNT)
    tags = [rng.randrange(40) for _ in range(COUNT)]
    return pa.table(
        {"type": types, "time": [i // 3 for i in range(COUNT)], "tag": tags, "name": names, "eid": range(COUNT)}
    )


EVENTS = made()


@pytest.fixture(scope="module")
def events(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    path = tmp_path_factory.mktemp("events") / "events.parquet"
    pq.write_table(EVENTS, path)
    return spark.read.schema(SCHEMA).parquet(str(path))


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """The same events as four files, each in any order."""
    folder = tmp_path / "in"
    folder.mkdir()
    order = list(range(PER_FILE))
    for number in range(COUNT // PER_FILE):
        random.Random(number).shuffle(order)
        pq.write_table(EVENTS.slice(number * PER_FILE, PER_FILE).take(order), folder / f"{number}.parquet")
        aged(folder / f"{number}.parquet", number)
    return folder


def aged(path: Path, number: int) -> None:
    """Streams read files by age, and files of one millisecond in any order."""
    os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))


def streamed(spark: SparkSession, folder: Path, *, at_once: int = 1) -> DataFrame:
    """A stream of files, so many in a micro-batch; each micro-batch costs a second, however small it is."""
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", at_once).parquet(str(folder))


def detect(rows: Any, query: Any, **options: Any) -> DataFrame:
    """As users call it; but to compile takes longer than to detect so little, so short runs do it where they must."""
    return detect_on_spark(rows, query, **{"jit": is_long(), **options})


def expected(query: str, rows: pa.Table = EVENTS, **options: Any) -> Counter[str]:
    """The matches of an embedded run, by their ids."""
    return Counter(embedded(query, rows, **options)["match_id"].to_pylist())


def embedded(query: str, rows: pa.Table = EVENTS, **options: Any) -> pa.Table:
    """The result of an embedded run, of which each is done once."""
    key = (query, id(rows), *sorted(options.items()))
    if key not in _embedded or rows is not EVENTS:
        _embedded[key] = tocsin.query(query).detect(rows, jit=False, **options).table()
    return _embedded[key]


_embedded: dict[tuple[Any, ...], pa.Table] = {}


def ids(result: DataFrame) -> Counter[str]:
    return Counter(row.match_id for row in result.select("match_id").collect())


def finished(result: DataFrame, sinks: Any, checkpoint: Path) -> Any:
    stream = start(result, sinks, checkpoint=str(checkpoint), trigger={"availableNow": True})
    stream.awaitTermination()
    return stream


# --- operators around a query ------------------------------------------------------------------------------------


PAIRED = "EVENT SEQ(Shelf s, Exit e) WHERE [tag] WITHIN 300"
AROUND = [(THEFT, RateLimit(2, 100, key=("tag",))), (PAIRED, Pairing(300, tells=False, key=("tag",), first="Shelf"))]


@pytest.mark.parametrize(("text", "operator"), AROUND, ids=["over matches", "over events"])
def test_operators_around_a_query_give_the_same_on_spark(
    spark: SparkSession, events: DataFrame, files: Path, tmp_path: Path, text: str, operator: Any
) -> None:
    """Batch and stream, sorted and corrected, in several micro-batches: the matches that one process gives."""
    query = tocsin.query(text).around(operator)
    kept = Counter(query.detect(EVENTS, jit=False).table()["match_id"].to_pylist())
    assert 0 < len(kept) < len(expected(text))
    assert ids(detect(events, query, buckets=3)) == kept
    for order in ("slack(300)", "aggressive(300)"):
        found = detect(streamed(spark, files, at_once=2), query, order=order, end_of_stream=True, buckets=2)
        folder = tmp_path / order[:5]
        finished(found, Sink("parquet", str(folder / "out")), folder / "checkpoint")
        rows = spark.read.parquet(str(folder / "out")).where("kind = 'match'").collect()
        standing: Counter[str] = Counter()
        for row in rows:
            standing[row.match_id] += row.op
        assert +standing == kept, order


@pytest.mark.parametrize("operator", [RateLimit(2, 100, key=("name",)), Pairing(300, key=("name",))])
def test_an_operator_with_another_key_is_refused_on_spark(events: DataFrame, operator: Any) -> None:
    with pytest.raises(TocsinError, match="does not fit"):
        detect(events, tocsin.query(THEFT).around(operator))


# --- batch -----------------------------------------------------------------------------------------------------------


KINDS = [
    THEFT,
    CHOSEN,
    ROWS,
    "EVENT SEQ(Shelf s, Exit+ e, Counter c) WHERE [tag] WITHIN 40",
    "EVENT SEQ(Shelf s, !Counter c, Exit e) WHERE s.tag = e.tag WITHIN 12",  # Counter goes everywhere
    "EVENT SEQ(Shelf s, !Shelf c, Shelf e) WHERE s.tag = e.tag AND c.name = 'x' WITHIN 20",  # so do some shelves
    "EVENT SEQ(Shelf s, Exit e, !Counter c) WHERE s.tag = 3 AND e.tag = 5 WITHIN 60",  # cut in time, looks ahead
    "EVENT EXISTS c : SEQ(Shelf s, Counter c, Exit e) WHERE s.tag = 3 AND e.tag = 5 WITHIN 60",
    "EVENT SEQ(Shelf s, !Counter c, Exit e) WHERE s.tag = 3 AND e.tag = 5 WITHIN 60",
]


@pytest.mark.parametrize("query", some(KINDS, least=4))
def test_batch_is_embedded(events: DataFrame, query: str) -> None:
    assert "read by the workers" in explain(events, query)
    assert ids(detect(events, query, buckets=3, jit=True)) == expected(query)
    shuffled = events.where("time >= 0")  # no longer plain files
    assert "more than files" in explain(shuffled, query)
    found = detect(shuffled, query, buckets=3, jit=True)
    assert ids(found) == expected(query)
    assert found.columns == embedded(query).schema.names


def test_files_that_overlap_in_time(spark: SparkSession, tmp_path: Path) -> None:
    """Row groups of several files, rows in any order within a file: workers sort what overlaps."""
    order = list(range(1000))
    for number, first in enumerate(range(0, COUNT, 1000)):
        random.Random(number).shuffle(order)
        rows = EVENTS.slice(max(0, first - 150), 1000).take(order) if number else EVENTS.slice(0, 850)
        pq.write_table(rows, tmp_path / f"{number}.parquet", row_group_size=97)
    pq.write_table(EVENTS.slice(COUNT - 150), tmp_path / "last.parquet")
    frame = spark.read.parquet(str(tmp_path))
    for query in (THEFT, "EVENT SEQ(Shelf s, Exit+ e, Counter c) WHERE [tag] WITHIN 40"):
        assert "read by the workers" in explain(frame, query, eid="eid")
        assert ids(detect(frame, query, eid="eid", buckets=4)) == expected(query, eid="eid")


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda t: t.set_column(1, "time", t["time"].cast(pa.int32())), "whole numbers of 64 bits"),
        (lambda t: t.filter(pa.compute.greater(t["time"], 10**9)), "no rows"),
    ],
)
def test_files_that_workers_cannot_read(spark: SparkSession, tmp_path: Path, spoil: Any, reason: str) -> None:
    pq.write_table(spoil(EVENTS), tmp_path / "x.parquet")
    frame = spark.read.parquet(str(tmp_path / "x.parquet"))
    assert reason in explain(frame, THEFT)
    assert ids(detect(frame, THEFT)) == (expected(THEFT) if reason != "no rows" else Counter())


def test_rows_are_those_of_the_embedded_run(events: DataFrame) -> None:
    """To the last column: `settled_at` is a function of the events too, also where answers wait for a deadline."""
    for query in (CHOSEN, THEFT, UNPAID, ROWS):
        found = detect(events, query).toArrow().sort_by("match_id").to_pylist()
        assert found == embedded(query).sort_by("match_id").to_pylist()
        assert found


def test_events_without_eid_are_named_alike(events: DataFrame) -> None:
    doubled = pa.concat_tables([EVENTS, EVENTS.slice(0, 500)]).drop_columns("eid")
    frame = events.sparkSession.createDataFrame(doubled)
    assert ids(detect(frame, THEFT, buckets=3)) == expected(THEFT, doubled)
    shown = THEFT + " SELECT eid(s) AS shelf_row, 'x' || e.eid AS exit_row"
    found = detect(frame, shown, buckets=3).toArrow().select(["shelf_row", "exit_row"]).to_pylist()
    whole = tocsin.query(THEFT).detect(doubled, jit=False)
    assert Counter(str(row) for row in found) == Counter(
        str({"shelf_row": match["s"]["eid"], "exit_row": "x" + match["e"]["eid"]}) for match in whole
    )


def test_eids_under_another_name(events: DataFrame) -> None:
    """Also beside a column called `eid` that is something else, and beside matches, where every eid is a text."""
    renamed = events.withColumnRenamed("eid", "row")
    query = ROWS.replace("s.eid", "eid(s)")
    chain = f"QUERY T {query}, s.tag AS tag; QUERY Lit EVENT SEQ(T t, Lamp l) WHERE [tag] AND eid(l) > '3' WITHIN 300"
    chain += " SELECT eid(t) AS theft, eid(l) AS lamp_row"
    plain = EVENTS.rename_columns(["type", "time", "tag", "name", "row"])
    for frame in (renamed, renamed.selectExpr("*", "'x' AS eid")):
        found = detect(frame, query, eid="row", buckets=3).toArrow().sort_by("match_id").to_pylist()
        assert found == embedded(query, plain, eid="row").sort_by("match_id").to_pylist()
        assert ids(detect(frame, chain, eid="row")) == expected(chain, plain, eid="row")


def columns_of(table: pa.Table) -> list[tuple[str, pa.ChunkedArray]]:
    return list(zip(table.schema.names, table.columns, strict=True))


def test_timestamps_and_intervals(spark: SparkSession, tmp_path: Path) -> None:
    first = datetime(2026, 3, 29, 0, 30, tzinfo=UTC)
    rows = [
        {
            "kind": "A" if i % 2 else "B",
            "at": first + timedelta(minutes=i),
            "until": first + timedelta(minutes=i + i % 3),
            "k": i % 5,
        }
        for i in range(200)
    ]
    table = pa.Table.from_pylist(rows)
    query = "EVENT SEQ(A a, B b) WHERE [k] WITHIN 90 min"
    columns = {"type": "kind", "time": "at", "end": "until"}
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")  # whose clocks change that night
    try:
        found = detect(spark.createDataFrame(table), query, **columns)
        assert ids(found) == expected(query, table, **columns)
        shown = found.orderBy("start").first()
        assert shown is not None and shown.start.astimezone(UTC) >= first
        naive = pa.table({n: c.cast(pa.timestamp("us")) if n in ("at", "until") else c for n, c in columns_of(table)})
        pq.write_table(naive, tmp_path / "naive.parquet")
        plain = spark.read.parquet(str(tmp_path / "naive.parquet"))
        assert plain.schema["at"].dataType.typeName() == "timestamp_ntz"
        assert ids(detect(plain, query, **columns)) == expected(query, naive, **columns)
    finally:
        spark.conf.unset("spark.sql.session.timeZone")


def test_frames_by_type(events: DataFrame) -> None:
    frames = {
        "Shelf": events.where("type = 'Shelf'").drop("type", "name"),
        "Counter": events.where("type = 'Counter'").drop("type", "name"),
        "Exit": events.where("type = 'Exit'").drop("type"),
    }
    query = "EVENT SEQ(Shelf s, !Counter c, Exit e) WHERE [tag] AND e.name = 'x' WITHIN 300"
    assert ids(detect(frames, query)) == expected(query)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", TocsinWarning)
        detect(frames, "EVENT SEQ(Shelf s, Exit e) WHERE s.nmae = 'x' WITHIN 3")
    note = "no event has an attribute nmae, so it is null; did you mean name?"
    assert note in [str(each.message) for each in told]
    known = {"Shelf": {"tag": "int"}, "Counter": {"tag": "int"}, "Exit": {"tag": "int"}}
    with pytest.raises(QueryError, match="nmae"):
        detect(frames, "EVENT SEQ(Shelf s, Exit e) WHERE s.nmae = 'x' WITHIN 3", schema=known, strict=True)


def test_a_column_that_no_expression_can_read_is_refused_where_one_reads_it(events: DataFrame) -> None:
    """As without Spark: null would be a wrong answer, for there is a value."""
    nested = events.withColumn("nested", sf.struct("tag"))
    for frames in (nested, {"Shelf": nested.where("type = 'Shelf'").drop("type")}):
        with pytest.raises(QueryError, match="no expression can read nested"):
            detect(frames, "EVENT Shelf s WHERE s.nested IS NULL")
        with pytest.raises(InputError, match="declares 'nested' as int, but the column is struct<tag:bigint>"):
            detect(frames, "EVENT Shelf s", schema={"*": {"nested": "int"}})
    assert ids(detect(nested, THEFT)) == expected(THEFT)


def test_several_queries_in_one_pass(events: DataFrame) -> None:
    other = "QUERY Again EVENT SEQ(Shelf a, Shelf b) WHERE [tag, name] WITHIN 30 SELECT a.tag AS twice"
    chain = "QUERY T HIDDEN EVENT SEQ(Shelf s, !Counter c, Exit e) WHERE [tag] WITHIN 60 SELECT s.tag AS tag"
    chain += "; QUERY Lit EVENT SEQ(T t, Lamp l) WHERE [tag] WITHIN 40 SELECT l.tag AS lamp"
    found = detect(events, [CHOSEN, other, chain], buckets=2)
    rows = found.select("query", "match_id").collect()
    for name, query in (("query 1", CHOSEN), ("Again", other), ("Lit", chain)):
        assert Counter(row.match_id for row in rows if row.query == name) == expected(query)
    assert {row.query for row in rows} == {"query 1", "Again", "Lit"}
    plan = found._jdf.queryExecution().executedPlan().toString()
    assert plan.count("FileScan") == 1 and plan.count("Exchange") == 1


def test_transform(events: DataFrame) -> None:
    assert ids(events.transform(detector(THEFT))) == expected(THEFT)


def test_functions_travel(events: DataFrame) -> None:
    @tocsin.function(returns="bool", name="is_even")
    def is_even(n: int) -> bool:
        return n % 2 == 0

    query = THEFT.replace("[tag]", "[tag] AND is_even(s.tag)")
    assert ids(detect(events, query)) == expected(query) != expected(THEFT)


def test_no_key_and_no_window_warns(events: DataFrame) -> None:
    with pytest.warns(UserWarning, match="one task"):
        detect(events, "EVENT SEQ(Shelf s, Exit e)")


def test_catalyst_drops_what_nobody_reads(events: DataFrame, tmp_path: Path) -> None:
    query = THEFT.replace("[tag]", "[tag] AND s.tag > 30") + " SELECT s.tag AS tag"
    shuffled = events.where("time >= 0")
    plan = detect(shuffled, query, eid="eid")._jdf.queryExecution().executedPlan().toString()
    assert "PushedFilters" in plan and "ReadSchema: struct<type:string,time:bigint,tag:bigint,eid:bigint>" in plan
    text = explain(shuffled, query, eid="eid")
    assert "column name" in text and "rows of Shelf that no leaf takes" in text and "by hash of" in text
    assert "slices" in explain(events, "EVENT SEQ(Shelf s, Exit e) WITHIN 10")
    assert "everywhere" in explain(shuffled, "EVENT SEQ(Shelf s, !Counter c, Exit e) WHERE s.tag = e.tag WITHIN 12")


# --- streams ---------------------------------------------------------------------------------------------------------


def test_stream_is_embedded_and_tells_its_numbers(spark: SparkSession, files: Path, tmp_path: Path) -> None:
    heard: list[tuple[Any, ...]] = []
    watcher = watch(spark, lambda *told: heard.append(told))
    try:
        options = {"order": "slack(400)", "buckets": 3, "end_of_stream": True, "jit": True}
        result = detect(streamed(spark, files), THEFT, **options)
        sinks = [Sink("parquet", str(tmp_path / "matches")), Sink("json", str(tmp_path / "rest"), ("late", "metrics"))]
        stream = finished(result, sinks, tmp_path / "checkpoint")
    finally:
        spark.streams.removeListener(watcher)
    assert ids(spark.read.parquet(str(tmp_path / "matches"))) == expected(THEFT)
    told = [numbers(progress) for progress in stream.recentProgress]
    assert sum(each["events"] for each in told) == COUNT
    assert sum(each["matches"] for each in told) == expected(THEFT).total()
    assert told[-1]["held"] == 0 and all(each["late"] == 0 for each in told)
    assert max(each["state_bytes"] for each in told) > 0
    assert spark.read.json(str(tmp_path / "rest")).select("kind").distinct().collect() == [("metrics",)]


@pytest.mark.parametrize("direct", [True, False])
def test_floats_are_keys(spark: SparkSession, tmp_path: Path, direct: bool) -> None:
    """Equal floats meet in one shard: those with fractions, both zeros, and never NaN."""
    tags = [[None, float("nan"), -0.0][tag % 3] if tag > 35 else tag / 4 for tag in EVENTS["tag"].to_pylist()]
    rows = EVENTS.set_column(2, "tag", pa.array(tags, pa.float64()))
    pq.write_table(rows, tmp_path / "rows.parquet")
    result = detect(spark.read.parquet(str(tmp_path / "rows.parquet")), THEFT, buckets=3, direct=direct)
    assert ids(result) == expected(THEFT, rows)


NAMELESS = "EVENT SEQ(Shelf s, !Counter c) WHERE [name] AND s.tag > 5 WITHIN 20"


def test_events_without_a_key_are_not_seen_and_counted(
    spark: SparkSession, events: DataFrame, files: Path, tmp_path: Path
) -> None:
    """An absence at the end has its key, so it runs in several shards; rows without the key are counted on the way."""
    counted = tocsin.query(NAMELESS).detect(EVENTS, jit=False)
    kinds, names = EVENTS["type"].to_pylist(), EVENTS["name"].to_pylist()
    lacking = sum(kind in ("Shelf", "Counter") and name is None for kind, name in zip(kinds, names, strict=True))
    assert counted.counters["keyless"] == lacking > 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # no task has to take all
        result = detect(events, NAMELESS, buckets=3, direct=False)
    assert ids(result) == expected(NAMELESS)
    assert "without name" in explain(events, NAMELESS, direct=False)
    for direct in (True, False):
        place = tmp_path / str(direct)
        rows = streamed(spark, files, at_once=2)
        result = detect(rows, NAMELESS, order="slack(400)", buckets=3, end_of_stream=True, direct=direct)
        stream = finished(result, Sink("parquet", str(place / "out")), place / "checkpoint")
        assert ids(spark.read.parquet(str(place / "out"))) == expected(NAMELESS)
        assert sum(numbers(progress)["keyless"] for progress in stream.recentProgress) == lacking


def test_a_key_that_no_event_has_is_no_error(spark: SparkSession, files: Path, tmp_path: Path) -> None:
    nobody = NAMELESS.replace("[name]", "[nowhere]")
    counted = tocsin.query(nobody).detect(EVENTS, jit=False)
    lacking = sum(kind in ("Shelf", "Counter") for kind in EVENTS["type"].to_pylist())
    assert (len(counted), counted.counters["keyless"]) == (0, lacking)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the attribute
        rows = streamed(spark, files, at_once=2)
        result = detect(rows, nobody, order="slack(400)", buckets=3, end_of_stream=True)
    stream = finished(result, Sink("parquet", str(tmp_path / "out")), tmp_path / "checkpoint")
    assert sum(numbers(progress)["keyless"] for progress in stream.recentProgress) == lacking


def test_a_plain_run_leaves_the_stream_open(spark: SparkSession, files: Path, tmp_path: Path) -> None:
    """Scheduled runs go on from each other; only the last one settles what waits."""
    moved = [path.rename(tmp_path / path.name) for path in sorted(files.iterdir())[3:]]
    sink = Sink("parquet", str(tmp_path / "out"))
    finished(detect(streamed(spark, files), THEFT, order="slack(400)"), sink, tmp_path / "ck")
    before = ids(spark.read.parquet(str(tmp_path / "out")))
    assert 0 < len(before) < len(expected(THEFT))
    for path in moved:
        path.rename(files / path.name)
    result = detect(streamed(spark, files), THEFT, order="slack(400)", end_of_stream=True)
    finished(result, sink, tmp_path / "ck")
    assert ids(spark.read.parquet(str(tmp_path / "out"))) == expected(THEFT)
    with pytest.raises(StateError, match="another query"):
        start(
            detect(streamed(spark, files), THEFT.replace("300", "301"), order="in-order"),
            sink,
            checkpoint=str(tmp_path / "ck"),
        )


def test_late_rows_are_reported(spark: SparkSession, files: Path, tmp_path: Path) -> None:
    """Each that comes too late, once; and the matches are those of the others."""
    result = detect(_again(spark, files, tmp_path), THEFT, order="slack(10)", buckets=3, end_of_stream=True)
    sinks = [Sink("parquet", str(tmp_path / "m")), Sink("json", str(tmp_path / "l"), ("late",))]
    finished(result, sinks, tmp_path / "ck")
    rows = EVENTS.slice(0, PER_FILE)
    late = spark.read.json(str(tmp_path / "l")).select(sf.get_json_object("details", "$.eid").cast("long")).collect()
    wanted = {row["eid"] for row in rows.to_pylist() if row["type"] != "Lamp"}
    assert {row[0] for row in late} == wanted and len(late) == len(wanted)
    assert ids(spark.read.parquet(str(tmp_path / "m"))) == expected(THEFT)


def _again(spark: SparkSession, files: Path, tmp_path: Path) -> DataFrame:
    """The files, and then the first one once more: all of it comes too late."""
    folder = tmp_path / "again"
    folder.mkdir()
    listed = sorted(files.iterdir())
    for number, path in enumerate([*listed, listed[0]]):
        pq.write_table(pq.read_table(path), folder / f"{number}.parquet")
        aged(folder / f"{number}.parquet", number)
    return streamed(spark, folder)


def test_a_query_is_added(spark: SparkSession, files: Path, tmp_path: Path) -> None:
    moved = [path.rename(tmp_path / path.name) for path in sorted(files.iterdir())[2:]]
    sink = Sink("parquet", str(tmp_path / "out"))
    first = f"QUERY Theft {CHOSEN}"
    finished(detect(streamed(spark, files), first, order="slack(400)", eid="eid"), sink, tmp_path / "ck")
    for path in moved:
        path.rename(files / path.name)
    second = "QUERY Bare EVENT SEQ(Shelf s, Exit e) WHERE [tag] WITHIN 30 SELECT s.tag AS tag"
    both = detect(streamed(spark, files), [first, second], order="slack(400)", eid="eid", end_of_stream=True)
    finished(both, sink, tmp_path / "ck")
    rows = spark.read.parquet(str(tmp_path / "out")).select("query", "match_id").collect()
    later = EVENTS.slice(2 * PER_FILE)
    assert Counter(row.match_id for row in rows if row.query == "Theft") == expected(first, eid="eid")
    assert Counter(row.match_id for row in rows if row.query == "Bare") == expected(second, later, eid="eid")


def test_only_select_may_change(spark: SparkSession, files: Path, tmp_path: Path) -> None:
    moved = [path.rename(tmp_path / path.name) for path in sorted(files.iterdir())[3:]]
    options = {"order": "slack(400)", "eid": "eid", "buckets": 2}
    finished(detect(streamed(spark, files), CHOSEN, **options), Sink("parquet", str(tmp_path / "o1")), tmp_path / "ck")
    other = CHOSEN.replace("e.name AS name", "e.name AS who, s.tag + 1 AS next")
    wider = CHOSEN.replace("SELECT s.tag AS tag, e.name AS name", "")
    narrow = detect(streamed(spark, files).drop("name"), THEFT + " SELECT s.tag AS tag", **options)
    with pytest.raises(StateError, match=r"\[2\] shards"):
        start(
            detect(streamed(spark, files), CHOSEN, **{**options, "buckets": 3}),
            Sink("noop"),
            checkpoint=str(tmp_path / "ck"),
        )
    for path in moved:
        path.rename(files / path.name)
    finished(
        detect(streamed(spark, files), other, end_of_stream=True, **options),
        Sink("parquet", str(tmp_path / "o2")),
        tmp_path / "ck",
    )
    found = ids(spark.read.parquet(str(tmp_path / "o1"))) + ids(spark.read.parquet(str(tmp_path / "o2")))
    assert found == expected(CHOSEN, eid="eid")
    assert "next" in spark.read.parquet(str(tmp_path / "o2")).columns
    finished(narrow, Sink("noop"), tmp_path / "ck3")
    with pytest.raises(StateError, match="'name'"):
        start(detect(streamed(spark, files), wider, **options), Sink("noop"), checkpoint=str(tmp_path / "ck3"))


def test_a_checkpoint_of_the_first_release_is_refused_before_data_moves(
    spark: SparkSession, files: Path, tmp_path: Path
) -> None:
    """Nothing is started and nothing is written; the hint says where to read on."""
    checkpoint, stored = tmp_path / "ck", Path(__file__).parent / "states" / "0.1" / "tocsin.json"
    checkpoint.mkdir()
    (checkpoint / "tocsin.json").write_bytes(stored.read_bytes())
    result = detect(streamed(spark, files), THEFT, order="slack(400)")
    with pytest.raises(StateError, match=r"checkpoint was written by Tocsin 0\.1(.|\n)*docs/upgrading\.md"):
        start(result, Sink("parquet", str(tmp_path / "out")), checkpoint=str(checkpoint))
    assert [path.name for path in checkpoint.iterdir()] == ["tocsin.json"]
    assert (checkpoint / "tocsin.json").read_bytes() == stored.read_bytes()
    assert not (tmp_path / "out").exists()


def test_other_buckets_through_initial_state(spark: SparkSession, files: Path, tmp_path: Path) -> None:
    later = tmp_path / "later"
    later.mkdir()
    for path in sorted(files.iterdir())[3:]:
        path.rename(later / path.name)
    finished(
        detect(streamed(spark, files), THEFT, order="slack(400)", buckets=2),
        Sink("parquet", str(tmp_path / "o")),
        tmp_path / "a",
    )
    result = detect(
        streamed(spark, later), THEFT, order="slack(400)", buckets=5, carry_over=str(tmp_path / "a"), end_of_stream=True
    )
    finished(result, Sink("parquet", str(tmp_path / "o2")), tmp_path / "b")
    found = ids(spark.read.parquet(str(tmp_path / "o"))) + ids(spark.read.parquet(str(tmp_path / "o2")))
    assert found == expected(THEFT)


# --- bad input -------------------------------------------------------------------------------------------------------


def test_bad_calls_are_refused_before_data_moves(spark: SparkSession, events: DataFrame, files: Path) -> None:
    stream = streamed(spark, files)
    for call, error, text in (
        (lambda: detect(stream, THEFT), TocsinError, "needs an order"),
        (lambda: detect(stream, THEFT, order="whenever"), TocsinError, "no order"),
        (lambda: detect(stream, THEFT, order="slack(-1)"), TocsinError, "negative"),
        (lambda: detect(stream, THEFT, order="slack(5 min)"), TocsinError, "tick"),
        (
            lambda: detect(stream, "EVENT SEQ(Shelf s, Exit e, !Counter c)", order="in-order"),
            TocsinError,
            "end of the stream",
        ),
        (lambda: detect(events, THEFT, time="tmie"), InputError, "time"),
        (lambda: detect(events, THEFT, time="name"), InputError, "no time"),
        (lambda: detect(events.drop("type"), THEFT, type="tag"), InputError, "not a text"),
        (lambda: detect(events.withColumn("eid", sf.lit(1.5)), THEFT), InputError, "eid"),
        (lambda: detect(events, THEFT.replace("[tag]", "s.tag = 'x'")), QueryError, "text"),
        (lambda: detect(events, "EVENT SEQ(Shelf s"), QueryError, "expected"),
        (lambda: detect(events, THEFT, buckets=0), TocsinError, "buckets"),
        (lambda: detect(events, THEFT, unknown="maybe"), TocsinError, "unknown"),
        (lambda: detect(events, THEFT, unknown="error"), TocsinError, "schema"),
        (lambda: detect([1, 2], THEFT), InputError, "DataFrame"),
        (lambda: detect(events, THEFT, schema={"*": {"tag": "text"}}), InputError, "'tag'"),
        (lambda: detect(events, [THEFT, "EVENT SEQ(Shelf s, Exit+ e, Lamp l) WITHIN 3"]), TocsinError, "another name"),
        (lambda: Sink("parquet"), TocsinError, "path"),
        (lambda: Sink("noop", kinds=("matches",)), TocsinError, "kind"),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            with pytest.raises(error, match=text):
                call()


def test_unusable_rows(spark: SparkSession) -> None:
    rows = [("Shelf", 1, 7), ("Exit", None, 7), (None, 3, 7), ("Exit", 4, 7)]
    frame = spark.createDataFrame(rows, "type string, time long, tag long")
    with pytest.raises(Exception, match=r"an event cannot be used: the (time|type) is null"):
        detect(frame, THEFT).collect()
    kept = detect(frame, THEFT, bad_rows="keep").collect()
    assert Counter(row.kind for row in kept) == {"match": 1, "bad": 2}
    assert sorted(row.details.split('"')[3] for row in kept if row.kind == "bad") == [
        "the time is null",
        "the type is null",
    ]
    assert matches(detect(frame, THEFT, bad_rows="keep")).columns[-1] == "e"


def test_unknown_types(spark: SparkSession) -> None:
    frame = spark.createDataFrame(
        [("Shelf", 1, 7), ("Shlef", 2, 7), ("Exit", 4, 7)], "type string, time long, tag long"
    )
    schema = {"Shelf": {"tag": "int"}, "Exit": {"tag": "int"}, "Counter": {"tag": "int"}}
    assert detect(frame, THEFT, schema=schema).count() == 1
    with pytest.raises(Exception, match="none of Counter, Exit, Shelf"):
        detect(frame, THEFT, schema=schema, unknown="error").collect()


def test_labels_spread() -> None:
    import numpy as np

    assert spark_hash(np.arange(2, dtype=np.uint32)).tolist() == [933211791, -559580957]  # as Spark's hash() says
    labels = labels_of(48)
    assert len(set(labels)) == 48
    for partitions in (1, 2, 3, 4, 8, 12, 16):
        places = Counter(int(h) % partitions for h in spark_hash(np.array(labels, np.uint32)).astype(np.int64))
        assert max(places.values()) == min(places.values())


@pytest.mark.filterwarnings("ignore:.*has no key.*")
@pytest.mark.parametrize("name", ["c.d", "c`d"])
def test_names_that_spark_cannot_send_are_refused(spark: SparkSession, name: str) -> None:
    df = spark.createDataFrame([("A", 1, 1), ("B", 2, 1)], ["type", "time", name])
    with pytest.raises(InputError, match="Spark cannot send the column"):
        detect(df, tocsin.query("EVENT SEQ(A a, B b) WITHIN 5"), jit=False)


@pytest.mark.parametrize(("name", "other"), [("shop.tag", "shop_tag"), ("a`b", "a_b")])
def test_a_column_name_that_is_read_as_a_path_is_refused_with_a_remedy(name: str, other: str) -> None:
    class Frame:
        columns = ("type", "time", name)

    frame: Any = Frame()
    with pytest.raises(InputError, match="cannot send the column") as raised:
        check_names(frame)
    assert repr(name) in str(raised.value) and f'"{other}"' in str(raised.value.hint)


def test_a_parquet_file_that_is_cut_short_is_named(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.table({"type": ["A"], "time": [1]}), tmp_path / "a.parquet")
    (tmp_path / "b.parquet").write_bytes((tmp_path / "a.parquet").read_bytes()[:-30])
    df = spark.read.schema("type STRING, time LONG").parquet(str(tmp_path))
    with pytest.raises(InputError, match=r"b\.parquet cannot be read as parquet"):
        detect(df, tocsin.query("EVENT A a"), jit=False)


def test_settled_keeps_every_column_of_the_matches_that_stand(spark: SparkSession) -> None:
    """Columns, their order and their types are those of the log; late rows and what was withdrawn are gone."""
    schema = "query string, kind string, match_id string, op int, `a.b` string, n bigint"
    rows = [
        ("q", "match", "m1", 1, "x", 1), ("q", "match", "m2", 1, "y", 2), ("q", "match", "m2", -1, "y", 2),
        ("r", "match", "m2", 1, "z", 3), ("q", "late", "m9", 1, "late", 9), ("q", "match", "m3", 1, None, None),
    ]  # fmt: skip
    log = spark.createDataFrame(rows, schema)
    found = settled(log)
    assert found.columns == log.columns and found.dtypes == log.dtypes
    assert sorted(map(tuple, found.collect()), key=str) == sorted([rows[0], rows[3], rows[5]], key=str)
    bare = settled(log.where("kind = 'match'").select("match_id", "op"))
    assert sorted(map(tuple, bare.collect())) == [("m1", 1), ("m2", 1), ("m3", 1)]
    with pytest.raises(InputError, match="there is no column 'op'"):
        settled(log.drop("op"))


# --- rules that change -----------------------------------------------------------------------------------------------

BEFORE = """
QUERY theft EVENT SEQ(Shelf s, !Counter c, Exit e) WHERE [tag] AND s.tag > 3 WITHIN 300 SELECT s.tag AS tag;
QUERY unpaid EVENT SEQ(Shelf s, Exit e, !Counter c) WHERE [tag] WITHIN 300;
QUERY gone EVENT SEQ(Counter c, Exit e) WHERE [tag] WITHIN 50
"""
AFTER = """
QUERY lamps EVENT SEQ(Lamp a, Lamp b) WHERE [tag] WITHIN 20;
QUERY unpaid EVENT SEQ(Shelf s, Exit e, !Counter c) WHERE [tag] WITHIN 120;
QUERY theft EVENT SEQ(Shelf s, !Counter c, Exit e) WHERE [tag] AND s.tag > 5 WITHIN 200
"""
SEEN = 599  # after three files the clock is 999, and rows may come 400 late: queries have seen what ends before this


def after_the_change() -> Counter[str]:
    """Matches with an event that came after the change, and those that the old rule still waited with."""
    events = EVENTS.to_pylist()
    tills: dict[int, list[int]] = {}
    for row in events:
        if row["type"] == "Counter":
            tills.setdefault(row["tag"], []).append(row["time"])
    found: Counter[str] = Counter()
    for match in tocsin.query(AFTER).detect(EVENTS, jit=False):
        if match["query"] == "lamps":
            continue
        start, end, tag = match["s"]["start"], match["e"]["end"], match["s"]["tag"]
        paid = any(end < time <= min(start + 300, SEEN - 1) for time in tills[tag])
        waited = match["query"] == "unpaid" and start + 300 >= SEEN and not paid
        found[match["match_id"]] += end >= SEEN or waited
    return +found


@pytest.mark.long
def test_changed_rules_go_on_with_what_was_kept(spark: SparkSession, files: Path, tmp_path: Path) -> None:
    """A threshold, a window and a SELECT changed, a query gone and one added, on other buckets; without an eid column.

    The changed ones go on; an answer that waited for its old window is given though the new one has passed.
    """
    later = tmp_path / "later"
    later.mkdir()
    for path in sorted(files.iterdir())[3:]:
        path.rename(later / path.name)
    options = {"order": "slack(400)", "direct": False}
    nameless = [frame.drop("eid") for frame in (streamed(spark, files), streamed(spark, later))]
    rows = EVENTS.drop_columns(["eid"])
    finished(detect(nameless[0], BEFORE, buckets=2, **options), Sink("noop"), tmp_path / "a")
    with pytest.warns(TocsinWarning, match="'gone' is gone"):
        result = detect(nameless[1], AFTER, buckets=3, carry_over=str(tmp_path / "a"), end_of_stream=True, **options)
    finished(result, Sink("parquet", str(tmp_path / "o")), tmp_path / "b")
    found = spark.read.parquet(str(tmp_path / "o")).where("kind = 'match'")
    lamps = ids(found.where("query = 'lamps'"))
    assert lamps == Counter(
        match["match_id"] for match in tocsin.query(AFTER).detect(rows.slice(3 * PER_FILE)) if match["query"] == "lamps"
    )
    assert rows_of(found.where("query <> 'lamps'")) == rows_of_expected()
    with pytest.raises(StateError, match="kept apart by tag"):
        detect(nameless[1], BEFORE.replace("[tag]", "[name]"), carry_over=str(tmp_path / "a"), **options)
    wider = BEFORE.replace("WITHIN 50", "WITHIN 80").replace("> 3", "> 2")
    with pytest.raises(StateError, match=r"(?s)theft was changed.*s\.tag > 3.*accept_loss=True"):
        detect(nameless[1], wider, carry_over=str(tmp_path / "a"), **options)
    with pytest.warns(TocsinWarning) as caught:
        detect(nameless[1], wider, carry_over=str(tmp_path / "a"), accept_loss=True, **options)
    assert any("gone goes on without events that lie more than 50 ticks back" in str(each.message) for each in caught)


def rows_of(result: DataFrame) -> Counter[tuple[str, int, int, int]]:
    return Counter((row["query"], row.s.tag, row.start, row.end) for row in result.collect())


def rows_of_expected() -> Counter[tuple[str, int, int, int]]:
    wanted = after_the_change()
    matches = [match for match in tocsin.query(AFTER).detect(EVENTS) if match["match_id"] in wanted]
    return Counter((match["query"], match["s"]["tag"], match["start"], match["end"]) for match in matches)
