"""`tocsin_detect` in SQL gives the rows of `detect`, whatever the table and the query, and says what is wrong."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import functions as sf

import tocsin
import tocsin.spark
from tests.spark_suite import RULES, shop

long = pytest.mark.long
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:.*has no key.*")]

START = datetime(2026, 10, 25, tzinfo=UTC)  # in Europe an hour comes twice on this day
KEYS = ("id", "price", "f", "ok", "day", "wall", "seen")
THEFT = "EVENT SEQ(Shelf s, !Counter c, Exit e) WHERE [tag] WITHIN 50"
LARGER = "EVENT SEQ(Shelf s, Exit e) WHERE s.tag = e.tag AND s.price < e.price WITHIN 9"
EVERYWHERE = "EVENT SEQ(Shelf s, !Counter c, Exit e) WHERE s.tag = e.tag WITHIN 20"


def sql(spark: Any, table: Any, query: str, **options: object) -> list[str]:
    """The rows of the table function, as sorted texts."""
    table.createOrReplaceTempView("events")
    given = "".join(f", {name} => {_literal(value)}" for name, value in {"jit": False, **options}.items())
    return listed(spark.sql(f"SELECT * FROM tocsin_detect(TABLE(events), :query{given})", {"query": query}))


def _literal(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value)


def listed(frame: Any) -> list[str]:
    """Rows as texts; when an answer was certain is not compared."""
    return sorted(str(row) for row in frame.drop("settled_at").collect())


@pytest.fixture(scope="module")
def registered(spark: Any) -> Any:
    tocsin.spark.register(spark)
    return spark


@pytest.mark.parametrize(
    "query",
    [THEFT, RULES, *(pytest.param(query, marks=long) for query in (LARGER, EVERYWHERE))],
    ids=["key", "rules", "pair", "everywhere"],
)
def test_the_rows_of_detect(registered: Any, query: str) -> None:
    events = registered.createDataFrame(shop().to_pandas())
    wanted = listed(tocsin.spark.detect(events, query, jit=False))
    assert len(wanted) >= 10
    assert sql(registered, events, query) == wanted


def stored(spark: Any, table: pa.Table, folder: Path) -> Any:
    """A frame with the types of the table: a time without a zone stays one."""
    pq.write_table(table, folder / "events.parquet")
    return spark.read.parquet(str(folder / "events.parquet"))


def odd_events() -> pa.Table:
    """Events with times, and attributes of every kind; in no order, and without an eid."""
    random = Random(5)
    times = [START + timedelta(minutes=random.randrange(600), microseconds=random.randrange(9)) for _ in range(300)]

    def column(make: Any, type: pa.DataType) -> pa.Array:
        return pa.array([None if random.random() < 0.05 else make() for _ in times], type)

    return pa.table({
        "kind of event": pa.array([random.choice(("A", "B", "it's \\ C")) for _ in times]),
        "at": pa.array(times, pa.timestamp("us", "UTC")),
        "id": column(lambda: random.randrange(20), pa.int32()),
        "wall": column(lambda: random.choice(times).replace(tzinfo=None), pa.timestamp("us")),
        "seen": column(lambda: random.choice(times), pa.timestamp("us", "UTC")),
        "day": column(lambda: date(2026, 1, random.randrange(1, 4)), pa.date32()),
        "price": column(lambda: Decimal(random.randrange(999)).scaleb(-2), pa.decimal128(9, 2)),
        "f": column(lambda: random.choice((0.1, -0.0, 0.0, 2.5)), pa.float32()),
        "ok": column(lambda: random.random() < 0.5, pa.bool_()),
        "more": pa.array([[1, 2]] * len(times), pa.list_(pa.int64())),
    })  # fmt: skip


@pytest.mark.parametrize("key", ["id, ok", *(pytest.param(k, marks=long) for k in KEYS)])
def test_keys_of_every_kind(registered: Any, tmp_path: Path, key: str) -> None:
    zone = registered.conf.get("spark.sql.session.timeZone")
    registered.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        events = stored(registered, odd_events(), tmp_path)
        query = f"EVENT SEQ(A a, B b) WHERE [{key}] WITHIN 1 h"
        roles = {"type": "kind of event", "time": "at"}
        wanted = listed(tocsin.spark.detect(events, query, jit=False, **roles))
        assert wanted
        assert sql(registered, events, query, **roles) == wanted
    finally:
        registered.conf.set("spark.sql.session.timeZone", zone)


@long
def test_odd_names_of_types(registered: Any, tmp_path: Path) -> None:
    events = stored(registered, odd_events(), tmp_path)
    query = "EVENT SEQ(A a, `it's \\ C` c) WHERE [id] WITHIN 1 h SELECT a.id AS id, c.seen AS seen"
    roles = {"type": "kind of event", "time": "at"}
    wanted = listed(tocsin.spark.detect(events, query, jit=False, **roles))
    assert wanted
    assert sql(registered, events, query, buckets=3, **roles) == wanted


@long
def test_bad_rows_are_kept_if_asked(registered: Any) -> None:
    events = registered.createDataFrame([("A", 1), ("B", None), ("B", 2)], "type string, time long")
    query = "EVENT SEQ(A a, B b) WITHIN 5"
    wanted = listed(tocsin.spark.detect(events, query, jit=False, bad_rows="keep"))
    assert len(wanted) == 2
    assert sql(registered, events, query, bad_rows="keep") == wanted
    with pytest.raises(PySparkException, match="the time is null"):
        sql(registered, events, query)


@long
def test_user_functions(registered: Any) -> None:
    @tocsin.function(returns="bool", name="table_function_near")
    def near(x: float, y: float) -> bool:
        return abs(x - y) < 0.5

    tocsin.spark.register(registered, "tocsin_with_functions")
    events = registered.createDataFrame(shop().to_pandas())
    query = "EVENT SEQ(Shelf s, Exit e) WHERE [tag] AND table_function_near(s.price, e.price) WITHIN 50"
    wanted = listed(tocsin.spark.detect(events, query, jit=False))
    assert wanted
    events.createOrReplaceTempView("events")
    text = f"SELECT * FROM tocsin_with_functions(TABLE(events), '{query}', jit => false)"
    assert listed(registered.sql(text)) == wanted


MISTAKES = [
    ("TABLE(events), 'EVENT SEQ(A a, B b'", "')'"),
    ("TABLE(events), 'EVENT A a', nonsense => 1", "has no argument 'nonsense'"),
    ("TABLE(events), 'EVENT A a', time => 'when'", "the input has no time column 'when'"),
    ("TABLE(events), 'EVENT A a', buckets => 'many'", "must be of type int"),
    ("TABLE(events), 'EVENT A a', bad_rows => 'burn'", "bad_rows => 'burn' is not known"),
    ("TABLE(events), 'EVENT A a', buckets => 0", "0 buckets are too few"),
    ("TABLE(events), concat('EVENT A', rand())", "must be a constant"),
    ("1, 'EVENT A a'", "the first argument of tocsin_detect is a table"),
]


@pytest.mark.parametrize(("call", "told"), [*MISTAKES[:2], *(pytest.param(*each, marks=long) for each in MISTAKES[2:])])
def test_mistakes_are_told_before_anything_runs(registered: Any, call: str, told: str) -> None:
    registered.createDataFrame([("A", 1)], "type string, time long").createOrReplaceTempView("events")
    with pytest.raises(AnalysisException) as raised:
        registered.sql(f"SELECT * FROM tocsin_detect({call})")
    assert told in str(raised.value)


def test_a_stream_is_refused(registered: Any, tmp_path: Path) -> None:
    registered.createDataFrame([("A", 1)], "type string, time long").write.parquet(str(tmp_path / "in"))
    stream = registered.readStream.schema("type string, time long").parquet(str(tmp_path / "in"))
    stream.createOrReplaceTempView("stream_of_events")
    found = registered.sql("SELECT * FROM tocsin_detect(TABLE(stream_of_events), 'EVENT A a', jit => false)")
    writer = found.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    with pytest.raises(PySparkException, match="Sorting is not supported on streaming"):
        writer.trigger(availableNow=True).start().awaitTermination()


def test_a_table_without_events(registered: Any) -> None:
    events = registered.createDataFrame(shop().to_pandas()).where(sf.lit(False))
    assert sql(registered, events, THEFT) == []
