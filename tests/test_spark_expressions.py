"""Expressions as Spark Columns: TRUE on exactly the rows where ours are, and never an error.

Hundreds of expressions are columns of one select over one small frame of edge values, so that few jobs ask everything.
The frame is read from Parquet in a time zone with missing hours, by a session in ANSI mode.
"""

from __future__ import annotations

import datetime as dt
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

pytest.importorskip("pyspark")

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql import types as spark_types

from tests.effort import examples, some
from tests.test_expressions import FLAT, SCHEMA, VALUES, asked, fits
from tocsin.encode.columns import Columns, infer_schema
from tocsin.encode.times import ticks as encode_ticks
from tocsin.encode.values import encode_column
from tocsin.engine.evaluate import Row, evaluate
from tocsin.functions import Function
from tocsin.items import Strings
from tocsin.lang.parser import parse
from tocsin.plan.bind import bind
from tocsin.plan.expr import Bound, Col, Lit, Op, Time
from tocsin.plan.passes import optimize
from tocsin.plan.problems import Problems
from tocsin.plan.typer import Seen, Typer
from tocsin.schema import Field, Kind, Schema
from tocsin.spark.expressions import FrameColumn, Sources, as_column, columns_of, implied, row_filter, ticks

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def spark(spark: SparkSession) -> Iterator[SparkSession]:
    """The session that all tests share, in a harder world for a while."""
    before = {name: spark.conf.get(name) for name in SETTINGS}
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    yield spark
    for name, value in before.items():
        spark.conf.set(name, value)


SETTINGS = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "America/New_York",  # 02:30 on 9 March 2025 does not exist there
    "spark.sql.maxMetadataStringLength": "1000",  # plans show all that is pushed
    "spark.sql.files.openCostInBytes": "1024",  # many small files in few tasks
}


def bound(text: str, schema: Schema) -> Bound | None:
    """The condition over an event `a` as the engine gets it; None if it means nothing."""
    where = parse(f"EVENT A a WHERE {text}").where
    assert where is not None
    problems = Problems()
    found = Typer(schema, {}, {"a": Seen(0, "A")}, problems).condition(where)
    return None if problems.found else found


def passing(frame: DataFrame, tests: list[Column | None], at: str = "row") -> list[set[int] | None]:
    """For each test the rows that pass it, all in one job."""
    asked = [(number, test) for number, test in enumerate(tests) if test is not None]
    rows = frame.select(at, *(sf.when(test, True).otherwise(False).alias(f"c{number}") for number, test in asked))
    found = rows.collect()
    passed: list[set[int] | None] = [None] * len(tests)
    for number, _ in asked:
        passed[number] = {row[at] for row in found if row[f"c{number}"]}
    return passed


# --- the table of docs/expressions.md -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def one_row(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    types = {Kind.INT: pa.int64(), Kind.FLOAT: pa.float64(), Kind.TEXT: pa.string(), Kind.BOOL: pa.bool_()}
    columns = {
        name: pa.array([VALUES[name]], types.get(field.kind, pa.decimal128(18, 2)))
        for name, field in SCHEMA.common.items()
        if name in VALUES
    }
    path = tmp_path_factory.mktemp("table") / "one.parquet"
    pq.write_table(pa.table({"row": [0], "time": [1], **columns}), path)
    return spark.read.parquet(str(path))


def table_tests(frame: DataFrame) -> list[tuple[str, bool | None, Column | None, Column | None, Column | None]]:
    """For each condition of the table: it, its negation, and what may be asked of rows at least."""
    field, ends = columns_of(frame.schema), columns_of(frame.schema, {"start": "time", "end": "time"})
    listed = []
    for _, condition, truth in FLAT:
        if fits(condition, two=False):
            text = asked(condition, two=False)
            yes, no = bound(text, SCHEMA), bound(f"NOT ({text})", SCHEMA)
            assert yes is not None
            assert no is not None
            listed.append(
                (condition, truth, as_column(yes, field, ends), as_column(no, field, ends), implied(yes, field, ends))
            )
    return listed


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_every_row_of_the_table(spark: SparkSession, one_row: DataFrame, ansi: str) -> None:
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    listed = table_tests(one_row)
    flat = passing(one_row, [test for _, _, *tests in listed for test in tests])
    wrong = []
    for at, (condition, truth, *_) in enumerate(listed):
        yes, no, at_least = flat[3 * at : 3 * at + 3]
        right = (truth is True, truth is False)
        if (yes is not None and bool(yes) != right[0]) or (no is not None and bool(no) != right[1]):
            wrong.append((condition, truth, yes, no))
        if truth is True and at_least is not None and not at_least:
            wrong.append((condition, truth, "dropped by the filter", at_least))
    spark.conf.set("spark.sql.ansi.enabled", "true")
    assert not wrong


NOT_PUSHED = ("lower(", "upper(", "float(p.num)", "float(p.bad)", "float(p.s)", "CAST(p.num AS FLOAT)")


def test_how_much_of_the_table_is_pushed(one_row: DataFrame) -> None:
    """All of it, except what depends on Unicode tables or on how Python reads floats; and that as a weaker filter."""
    listed = table_tests(one_row)
    left_out = [condition for condition, _, yes, no, _ in listed if yes is None or no is None]
    assert all(condition.startswith(NOT_PUSHED) for condition in left_out)
    assert len(left_out) < 0.05 * len(listed)
    assert [condition for condition, *_, at_least in listed if at_least is None] == []


# --- edge values of every type ---------------------------------------------------------------------------------------

GAP = dt.datetime(2025, 3, 9, 2, 30)  # an hour that the session's time zone skips  # noqa: DTZ001
TEXTS = [
    "", "a", "abc", "ABC", "x", " a b ", "50%_x", "Ärger", "ÄRGER", "😀", "a😀b", "\uffff", "\U00010000", "a\nb",
    "\\", "a\\b", " 42 ", "-7", "+7", "4_2", "1e3", "1d", "9223372036854775807", "9223372036854775808", "inf",
    "nan", "İ", "ß", "ΑΣ", "\x00", "42\n", "\t42", "٤٢", "ﬀ", "y" * 300,
]  # fmt: skip
EDGES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "i": (pa.int64(), [0, 1, -1, 7, 100, 2**31, 2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63), 2**62]),
    "k": (pa.int32(), [0, 1, -1, 7, 100, 2**31 - 1, -(2**31)]),
    "y": (pa.int8(), [0, 1, -1, 7, 127, -128]),
    "f": (pa.float64(), [0.0, -0.0, float("nan"), float("inf"), -float("inf"), 1.5, -2.5, 0.5, 0.1, 100.0, 7.0,
                         2.0**53, 2.0**53 + 2, 2.0**63, -(2.0**63), 1.7e308, 5e-324, 4503599627370497.5]),
    "g": (pa.float32(), [0.0, -0.0, float("nan"), float("inf"), -float("inf"), 1.5, 0.1, 16777216.0, 3.4e38,
                         1e-45, 100.0]),
    "d": (pa.decimal128(10, 2), [Decimal(v) for v in ("0.00", "1.10", "-2.25", "99999999.99", "100.00", "7.00")]),
    "e": (pa.decimal128(18, 4), [Decimal(v) for v in ("0", "1.1", "-2.25", "99999999999999.9999", "0.0001")]),
    "w": (pa.decimal128(24, 6), [Decimal(v) for v in ("0", "1.1", "-2.25", "999999999999.999999")]),
    "s": (pa.string(), TEXTS),
    "t": (pa.string(), TEXTS),
    "b": (pa.bool_(), [True, False]),
    "at": (pa.timestamp("us", "UTC"), [0, 1, -1, 100, 7, 1741487400000000, 253402300799999999, -62135596800000000]),
    "nt": (pa.timestamp("us"), [0, 1, -1, 100, 7, GAP, 253402300799999999, -62135596800000000]),
    "da": (pa.date32(), [0, 1, -1, 20156, 2932896, -719162]),
}  # fmt: skip


NEIGHBOURS = [
    (2**63 - 1, 2.0**63),
    (2**53 + 1, 2.0**53),
    (2**53, 2.0**53),
    (-(2**63), -(2.0**63)),
    (-(2**53) - 1, -(2.0**53)),
]
ROWS = 125


def edge_table() -> pa.Table:
    """Every edge value at least twice, beside others at random; nulls; and whole numbers beside the nearest float."""
    chance = random.Random(7)
    columns = {}
    for name, (type, values) in EDGES.items():
        pool = [*values, None]
        listed = [*pool, *pool, *(chance.choice(pool) for _ in range(ROWS - 2 * len(pool)))]
        chance.shuffle(listed)
        if name in ("i", "f"):
            listed[: len(NEIGHBOURS)] = [pair[name == "f"] for pair in NEIGHBOURS]
        columns[name] = pa.array(listed, type)
    times = {
        "time": pa.array([chance.choice([0, 7, 1741487400000000]) for _ in range(ROWS)], pa.timestamp("us", "UTC")),
        "until": pa.array([chance.choice([7, GAP]) for _ in range(ROWS)], pa.timestamp("us")),
    }
    return pa.table({"row": pa.array(range(ROWS), pa.int64()), "type": ["A"] * ROWS, **times, **columns})


class TableRow(Row):
    """A row of an Arrow table, read as the engine reads it."""

    def __init__(self, table: pa.Table, schema: Schema) -> None:
        self.strings, self.at = Strings(), 0
        self.columns = {
            name: encode_column(table[name].combine_chunks(), field, self.strings)
            for name, field in schema.common.items()
        }
        self.times = {"start": ticks_of(table["time"]), "end": ticks_of(table["until"])}

    def column(self, col: Col) -> Any:
        column = self.columns[col.attr]
        if column.valid is not None and not column.valid[self.at]:
            return None
        value = column.values[self.at].item()
        if column.kind is Kind.TEXT:
            return self.strings.text(value)
        return bool(value) if column.kind is Kind.BOOL else value

    def time(self, time: Time) -> int:
        return int(self.times[time.which][self.at])


def ticks_of(times: pa.ChunkedArray) -> Any:
    values, problems = encode_ticks(times.combine_chunks(), "time")
    assert not problems
    return values


def joined(expr: Bound) -> bool:
    """Whether a filter may differ from the exact test."""
    return isinstance(expr, Op) and expr.op in ("and", "or", "not")


@dataclass
class Edges:
    """The frame of edge values, and what the engine says of its rows."""

    frame: DataFrame
    schema: Schema
    row: TableRow
    attrs: Sources
    ends: Sources
    known: dict[Bound, Column | None] = field(default_factory=dict)

    def column(self, expr: Bound) -> Column | None:
        """The exact Column, made once: each of its nodes is a call into the JVM."""
        if expr not in self.known:
            self.known[expr] = as_column(expr, self.attrs, self.ends)
        return self.known[expr]

    def true(self, expr: Bound) -> set[int]:
        found = set()
        for self.row.at in range(ROWS):
            if evaluate(expr, self.row, {}) is True:
                found.add(self.row.at)
        return found

    def wrong(self, exprs: list[Bound]) -> list[Any]:
        """The expressions of which Spark says something else, with rows that are too many or too few."""
        exact = [self.column(expr) for expr in exprs]
        weak = [
            None if yes is not None and not joined(expr) else implied(expr, self.attrs, self.ends)
            for expr, yes in zip(exprs, exact, strict=True)
        ]
        answers = passing(self.frame, [*exact, *weak])
        wrong: list[Any] = []
        for expr, found, let_through in zip(exprs, answers[: len(exprs)], answers[len(exprs) :], strict=True):
            right = self.true(expr)
            if found is not None and found != right:
                wrong.append((expr, "too many", self.shown(found - right), "too few", self.shown(right - found)))
            if let_through is not None and not right <= let_through:
                wrong.append((expr, "dropped by the filter", self.shown(right - let_through)))
        return wrong

    def shown(self, rows: set[int]) -> list[Any]:
        shown = self.frame.select(*(sf.col(name).cast("string") for name in self.frame.columns))
        return [row.asDict() for row in shown.where(sf.col("row").isin(list(map(str, sorted(rows)[:2])))).collect()]


@pytest.fixture(scope="module")
def edges(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Edges:
    table = edge_table()
    path = tmp_path_factory.mktemp("edges") / "edges.parquet"
    pq.write_table(table, path)
    frame = spark.read.parquet(str(path))
    schema = infer_schema(table.schema, Columns(time="time", end="until"), ["A"])
    ends = columns_of(frame.schema, {"start": "time", "end": "until"})
    return Edges(frame, schema, TableRow(table, schema), columns_of(frame.schema), ends)


NUMBERS = [
    "0", "1", "-1", "7", "100", "2147483648", "9007199254740993", "-9007199254740993", "9223372036854775807",
    "-9223372036854775807", "0.1", "-2.25", "1.5", "7.0", "1e300", "9223372036854775808.0",
    "-9223372036854775808.0", "16777217.0", "1.7e308", "0.00001",
]  # fmt: skip
QUOTED = ["''", "'a'", "'abc'", "'ÄRGER'", "'😀'", "'\uffff'", "'b'"]


@pytest.mark.parametrize("op", some(["=", "<>", "<", "<=", ">", ">="], least=2))
def test_every_type_against_every_constant(edges: Edges, op: str) -> None:
    numbers = ["i", "k", "y", "f", "g", "d", "e", "w", "at", "nt", "da"]
    texts = [f"a.{name} {op} {right}" for name in numbers for right in (NUMBERS if len(name) == 1 else NUMBERS[:6])]
    texts += [f"a.s {op} {right}" for right in QUOTED]
    texts += [f"a.{left} {op} a.{right}" for left in numbers for right in numbers if left < right]
    exprs = [expr for text in texts if (expr := bound(text, edges.schema)) is not None]
    assert len(exprs) > 0.9 * len(texts)
    left_out = [str(expr) for expr in exprs if edges.column(expr) is None]
    assert all("attr='w'" in expr for expr in left_out)  # 24 digits: some are no value of ours
    assert edges.wrong(exprs) == []


# --- random expressions --------------------------------------------------------------------------------------------

COLUMNS = {
    "int": ["a.i", "a.k", "a.y", "a.at", "a.nt", "a.da", "start(a)", "end(a)"],
    "float": ["a.f", "a.g"],
    "decimal": ["a.d", "a.e", "a.w"],
    "text": ["a.s", "a.t"],
    "bool": ["a.b"],
}
CONSTANTS = {
    "int": [number for number in NUMBERS if "." not in number and "e" not in number],
    "float": [number for number in NUMBERS if "." in number or "e" in number],
    "decimal": ["a.d", "a.e"],  # a constant alone is a float
    "text": [*QUOTED, "' 42 '", "'a%'"],
    "bool": ["TRUE", "FALSE"],
}
SHAPES = {
    "int": [
        "({int} + {int})", "({int} - {int})", "({int} * {int})", "({int} % {int})", "(-({int}))", "abs({int})",
        "int({float})", "int({decimal})", "int({text})", "int({bool})", "length({text})", "least({int}, {int})",
        "greatest({int}, {int}, {int})", "round({int})",
    ],
    "float": [
        "({float} + {float})", "({float} - {int})", "({float} * {float})", "({number} / {number})",
        "({float} % {float})", "(-({float}))", "abs({float})", "floor({float})", "ceil({float})", "round({float})",
        "sqrt({number})", "float({int})", "float({decimal})", "least({float}, {float})",
        "greatest({float}, {int})", "float({text})", "({decimal} + {float})",
    ],
    "decimal": [
        "({decimal} + {decimal})", "({decimal} - {int})", "({decimal} * {int})", "({decimal} * {decimal})",
        "({decimal} % {decimal})", "(-({decimal}))", "abs({decimal})", "least({decimal}, {int})",
        "greatest({decimal}, {decimal})",
    ],
    "text": [
        "({text} || {text})", "trim({text})", "substr({text}, {int}, {int})", "substr({text}, 2)",
        "substr({text}, 1, 2)", "text({int})", "text({bool})", "least({text}, {text})", "greatest({text}, {text})",
        "lower({text})", "upper({text})",
    ],
    "bool": [
        *(f"({{{kind}}} {op} {{{kind}}})" for kind in ("number", "text") for op in ("=", "<>", "<", "<=", ">", ">=")),
        "({number} BETWEEN {number} AND {number})", "({int} IN ({int}, {int}, {int}))",
        "({text} IN ({text}, {text}))", "({number} NOT IN ({number}, {number}))", "({text} LIKE {pattern})",
        "({text} NOT LIKE {pattern})", "starts_with({text}, {text})", "contains({text}, {text})",
        "({any} IS NULL)", "({any} IS NOT NULL)", "({bool} = {bool})", "({bool} <> {bool})",
        *["({bool} AND {bool})", "({bool} OR {bool})", "(NOT {bool})"] * 4,
    ],
}  # fmt: skip
ANY_KIND = [
    "coalesce({0}, {0})",
    "nullif({0}, {0})",
    "(CASE WHEN {{bool}} THEN {0} WHEN {{bool}} THEN {0} ELSE {0} END)",
    "(CASE WHEN {{bool}} THEN {0} END)",
]
PATTERNS = [
    "'a%'", "'%b%'", "'_'", "'__'", "'%\\%%'", "'50\\%\\__'", "'\\a%'", "'a\\'", "'%\\'", "''", "'%'", "'😀'",
    "'_😀_'", "'a_b'", "'%R'", "'Ä_ger'", "'\\\\'", "'%😀'", "'a%c'", "'_%_'",
]  # fmt: skip


@st.composite
def texts(draw: st.DrawFn, kind: str = "bool", depth: int = 3) -> str:
    """The text of an expression of a kind, at most so deep."""
    if kind == "pattern":
        return draw(st.sampled_from(PATTERNS))
    if kind == "number":
        kind = draw(st.sampled_from(["int", "float", "decimal"]))
    if kind == "any":
        kind = draw(st.sampled_from(list(COLUMNS)))
    if depth == 0 or draw(st.integers(0, 5)) == 0:
        return draw(st.sampled_from([*COLUMNS[kind], *COLUMNS[kind], *CONSTANTS[kind]]))
    general = [shape.format("{" + kind + "}") for shape in ANY_KIND]
    shape = draw(st.sampled_from([*SHAPES[kind], *general]))
    return re.sub(r"\{(\w+)\}", lambda part: draw(texts(part[1], depth - 1)), shape)


@settings(
    max_examples=examples(3),
    database=None,
    phases=(Phase.generate,),
    suppress_health_check=list(HealthCheck),
)
@given(data=st.data())
def test_random_expressions(edges: Edges, data: st.DataObject) -> None:
    drawn = [data.draw(texts()) for _ in range(60)]
    exprs = [
        expr for text in drawn for each in (text, f"NOT {text}") if (expr := bound(each, edges.schema)) is not None
    ]
    assert len(exprs) > len(drawn)
    assert sum(edges.column(expr) is not None for expr in exprs) > 0.5 * len(exprs)
    assert edges.wrong(exprs) == []


# --- filters ---------------------------------------------------------------------------------------------------------

SHOP = Schema(
    types={"A": {}, "B": {}, "C": {}},
    common={
        "price": Field("price", Kind.FLOAT),
        "tag": Field("tag", Kind.TEXT),
        "n": Field("n", Kind.INT),
        "odd.na`me": Field("odd.na`me", Kind.INT),
    },
    unit="us",
)


@pytest.fixture(scope="module")
def shop(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    prices = [50.0, 100.0, 150.0, 1000.0, None, float("nan"), 150.0, 150.0]
    columns = {
        "row": pa.array(range(8), pa.int64()),
        "time": pa.array(range(8), pa.timestamp("us", "UTC")),
        "price": pa.array(prices),
        "tag": ["x", "x", "x", "y", None, "x", "X", "ÄX"],
        "n": pa.array([1, 2, 3, 4, 5, 6, None, 8], pa.int32()),
        "odd.na`me": [0, 1, 0, 1, 0, 1, 0, 1],
    }
    path = tmp_path_factory.mktemp("shop") / "shop.parquet"
    pq.write_table(pa.table(columns), path)
    return spark.read.parquet(str(path))


def shop_filter(frame: DataFrame, type: str, *queries: str) -> Column | None:
    plans = [optimize(bind(parse(query), SHOP, {"odd": ODD})) for query in queries]
    return row_filter(type, plans, columns_of(frame.schema), columns_of(frame.schema, {"start": "time", "end": "time"}))


ODD = Function("odd", lambda number: number % 2 == 1, Kind.BOOL, 1)

FILTERS: list[tuple[str, list[str], set[int] | None]] = [
    ("no predicate takes every row", ["EVENT SEQ(A a, B b)"], None),
    ("a comparison", ["EVENT SEQ(A a, B b) WHERE a.price > 100"], {2, 3, 6, 7}),
    ("a conjunction", ["EVENT A a WHERE a.price > 100 AND a.tag = 'x'"], {2}),
    ("what relates two events is left out", ["EVENT SEQ(A a, B b) WHERE a.n > 3 AND a.n < b.n"], {3, 4, 5, 7}),
    ("another type", ["EVENT SEQ(A a, B b) WHERE b.price > 100"], None),
    ("either of two leaves", ["EVENT SEQ(A a, A b) WHERE a.n < 2 AND b.n > 6"], {0, 7}),
    ("a leaf without predicate takes every row", ["EVENT SEQ(A a, A b) WHERE a.n < 2"], None),
    ("a negated part counts", ["EVENT SEQ(A a, !(A x : x.n = 4), B b) WHERE a.n = 1"], {0, 3}),
    ("several queries", ["EVENT A a WHERE a.n = 1", "EVENT SEQ(B b, A a) WHERE a.n = 2"], {0, 1}),
    ("a repetition", ["EVENT SEQ(B b, A+ a, C c) WHERE a.n > 5 AND count(a) > 1"], {5, 7}),
    ("its times are of the set", ["EVENT SEQ(B b, A+ a, C c) WHERE a.n > 5 AND start(a) > 99"], {5, 7}),
    ("an alternative", ["EVENT OR(A a, B b) WHERE a.n > 5 OR b.n > 2"], {5, 7}),
    ("an alternative that is not bound is null", ["EVENT OR(A a, B b) WHERE b IS NULL AND a.n < 3"], {0, 1}),
    ("times of the row", ["EVENT A a WHERE start(a) >= 6"], {6, 7}),
    (
        "parts that Spark cannot say",
        ["EVENT A a WHERE (odd(a.n) AND a.n > 5) OR (a.n < 2 AND NOT odd(a.n))"],
        {0, 5, 7},
    ),
    ("nothing that Spark can say", ["EVENT A a WHERE odd(a.n) OR a.n > 5"], None),
    ("Unicode is let through", ["EVENT A a WHERE lower(a.tag) = 'x'"], {0, 1, 2, 5, 6, 7}),
    ("and negated", ["EVENT A a WHERE NOT (lower(a.tag) = 'x' OR a.n = 4)"], {7}),
    ("never", ["EVENT SEQ(A a : a.n = 1 AND FALSE, B b)"], None),
    ("IN", ["EVENT A a WHERE a.n IN (1, 3, 9) OR a.tag IN ('y', 'z')"], {0, 2, 3}),
    ("NOT IN", ["EVENT A a WHERE a.n NOT IN (1, 3, 9)"], {1, 3, 4, 5, 7}),
    ("a strange name", ["EVENT A a WHERE a.`odd.na``me` = 1"], {1, 3, 5, 7}),
]


def test_filters(shop: DataFrame) -> None:
    tests = [shop_filter(shop, "A", *queries) for _, queries, _ in FILTERS]
    assert {
        name for (name, _, rows), test in zip(FILTERS, tests, strict=True) if (rows is None) != (test is None)
    } == set()
    found = passing(shop, tests)
    assert {name: rows for (name, *_), rows in zip(FILTERS, found, strict=True)} == {
        name: rows for name, _, rows in FILTERS
    }


def test_a_type_that_no_leaf_takes(shop: DataFrame) -> None:
    assert passing(shop, [shop_filter(shop, "C", "EVENT SEQ(A a, B b)")]) == [set()]


def pushed(frame: DataFrame, test: Column | None) -> str:
    assert test is not None
    plan = str(frame.where(test)._jdf.queryExecution().executedPlan().toString())
    return re.search(r"PushedFilters: \[(.*?)\], ReadSchema", plan)[1]  # type: ignore[index]


def test_filters_reach_the_files(shop: DataFrame) -> None:
    assert "GreaterThan(price,100.0)" in pushed(shop, shop_filter(shop, "A", "EVENT A a WHERE a.price > 100"))
    assert "EqualTo(tag,x)" in pushed(shop, shop_filter(shop, "A", "EVENT A a WHERE a.tag = 'x'"))
    assert "GreaterThan(n,3)" in pushed(shop, shop_filter(shop, "A", "EVENT A a WHERE a.n > 3"))
    assert "In(n, [1,3])" in pushed(shop, shop_filter(shop, "A", "EVENT A a WHERE a.n IN (1, 3)"))
    assert "StringStartsWith(tag,ab)" in pushed(shop, shop_filter(shop, "A", "EVENT A a WHERE a.tag LIKE 'ab%'"))
    either = pushed(
        shop, shop_filter(shop, "A", "EVENT SEQ(A a, A b) WHERE a.price > 100 AND b.tag = 'x' AND b.n <> 3")
    )
    assert (
        "Or(And(GreaterThan(price,100.0),LessThanOrEqual(price,Infinity)),And(EqualTo(tag,x),Not(EqualTo(n,3))))"
        in either
    )
    assert "GreaterThanOrEqual(time,1970-01-01" in pushed(shop, shop_filter(shop, "A", "EVENT A a WHERE start(a) >= 6"))


def test_files_do_not_tell_the_two_zeros_apart(spark: SparkSession, tmp_path: Path) -> None:
    """A file that holds one zero only is skipped by its dictionary when the other one is asked for with `=`."""
    values = [0.0, -0.0, float("nan"), 1.0, -1.0]
    for number, value in enumerate(values):
        rows = {"row": [number] * 9, "f": pa.array([value] * 9), "g": pa.array([value] * 9, pa.float32())}
        pq.write_table(pa.table(rows), tmp_path / f"{number}.parquet")
    frame = spark.read.parquet(str(tmp_path))
    schema = infer_schema(
        pa.schema({"type": pa.string(), "time": pa.int64(), "f": pa.float64(), "g": pa.float32()}), Columns()
    )
    right = {"=": {0, 1}, "<>": {3, 4}, "<": {4}, "<=": {0, 1, 4}, ">": {3}, ">=": {0, 1, 3}}
    found: DataFrame | None = None
    for name in ("f", "g"):
        for op in right:
            expr = bound(f"a.{name} {op} 0", schema)
            assert expr is not None
            test = as_column(expr, columns_of(frame.schema))
            assert test is not None
            part = frame.where(test).select(sf.lit(f"{name} {op} 0").alias("test"), "row")
            found = part if found is None else found.union(part)
    assert found is not None
    rows: dict[str, set[int]] = {}
    for test, row in found.distinct().collect():
        rows.setdefault(test, set()).add(row)
    assert rows == {f"{name} {op} 0": right[op] for name in "fg" for op in right}


# --- what is not pushed ---------------------------------------------------------------------------------------------


def test_texts_that_spark_compares_otherwise(spark: SparkSession) -> None:
    equal = bound("a.tag = 'x'", SHOP)
    assert equal is not None
    types = spark_types
    kinds = {"plain": types.StringType(), "folded": types.StringType("UTF8_LCASE"), "german": types.StringType("de_CI")}
    fields = [types.StructField(name, type) for name, type in kinds.items()]
    padded = types.StructField("padded", types.StringType(), metadata={"__CHAR_VARCHAR_TYPE_STRING": "char(5)"})
    sources = columns_of(types.StructType([*fields, padded]))
    assert [
        name for name in (*kinds, "padded") if as_column(equal, lambda _, name=name: sources(name)) is not None
    ] == ["plain"]


@pytest.mark.parametrize(
    ("condition", "type"),
    [
        ("a.n > 3", spark_types.StringType()),
        ("a.n > 3", spark_types.DoubleType()),
        ("a.price > 3", spark_types.LongType()),
        ("a.price > 3", spark_types.DecimalType(10, 2)),
        ("a.tag = 'x'", spark_types.BinaryType()),
        ("start(a) > 3", spark_types.StringType()),
    ],
)
def test_columns_that_are_not_what_the_schema_says(spark: SparkSession, condition: str, type: Any) -> None:
    expr = bound(condition, SHOP)
    assert expr is not None
    assert as_column(expr, lambda _: FrameColumn(sf.col("c"), type), lambda _: FrameColumn(sf.col("c"), type)) is None
    assert as_column(expr, lambda _: None) is None


def test_half_a_character_is_not_pushed(shop: DataFrame) -> None:
    field = columns_of(shop.schema)
    tag = Col(0, "a", "tag", Kind.TEXT)
    half = Lit("\ud83d", Kind.TEXT)
    for op in ("=", "<>", "like", "contains"):
        assert as_column(Op(op, (tag, half), Kind.BOOL), field) is None
    equal = tuple(Op("=", (tag, option), Kind.BOOL) for option in (Lit("x", Kind.TEXT), half))
    assert as_column(Op("or", equal, Kind.BOOL), field) is None


def test_long_lists_and_deep_nests(shop: DataFrame) -> None:
    """Thousands of options are one IN; a nest that would grow beyond measure is not pushed."""
    field, n = columns_of(shop.schema), Col(0, "a", "n", Kind.INT)
    many = bound(f"a.n IN ({', '.join(map(str, range(3, 2003)))})", SHOP)
    several = bound(" OR ".join(f"(a.n > {k} AND a.n < {k + 2})" for k in range(4, 140)), SHOP)
    assert many is not None
    assert several is not None
    assert passing(shop, [as_column(many, field), as_column(several, field)]) == [{2, 3, 4, 5, 7}, {4, 5, 7}]
    nest: Bound = Op(">", (n, Lit(3, Kind.INT)), Kind.BOOL)
    for _ in range(30):
        nest = Op("=", (nest, nest), Kind.BOOL)
    assert as_column(nest, field) is None


def test_times_do_not_depend_on_the_zone(spark: SparkSession, edges: Edges) -> None:
    """Also in the hour that the zone skips, and for times long before it was agreed on."""
    wanted = {name: edges.row.columns[name] for name in ("at", "nt", "da")}
    sources = {name: edges.attrs(name) for name in wanted}
    columns = [ticks(source).alias(name) for name, source in sources.items() if source is not None]  # type: ignore[union-attr]
    for zone in ("America/New_York", "Asia/Kolkata", "UTC"):
        spark.conf.set("spark.sql.session.timeZone", zone)
        rows = edges.frame.select("row", *columns).collect()
        spark.conf.set("spark.sql.session.timeZone", SETTINGS["spark.sql.session.timeZone"])
        for name, column in wanted.items():
            known = [True] * ROWS if column.valid is None else column.valid
            right = {row: int(column.values[row]) if known[row] else None for row in range(ROWS)}
            assert {row["row"]: row[name] for row in rows} == right
