"""Expressions as Spark Columns: TRUE on exactly the rows where ours are, and never an error.

Hundreds of expressions are columns of one select over one small frame of edge values, so that few jobs ask everything.
The frame is read from Parquet in a time zone with missing hours, by a session in ANSI mode.
"""

from __future__ import annotations

import datetime as dt
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
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

from tests.test_expressions import FLAT, SCHEMA, VALUES, asked, fits
from tocsin.encode.columns import Columns, infer_schema
from tocsin.encode.times import ticks as encode_ticks
from tocsin.encode.values import encode_column
from tocsin.engine.evaluate import Row, evaluate
from tocsin.items import Strings
from tocsin.lang.parser import parse
from tocsin.plan.bind import bind
from tocsin.plan.expr import Bound, Col, Op, Time
from tocsin.plan.passes import optimize
from tocsin.plan.problems import Problems
from tocsin.plan.typer import Seen, Typer
from tocsin.schema import Kind, Schema
from tocsin.spark.expressions import Source, Sources, as_column, columns_of, implied, row_filter, ticks

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "2g")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    before = {name: session.conf.get(name) for name in SETTINGS}
    for name, value in SETTINGS.items():
        session.conf.set(name, value)
    yield session
    for name, value in before.items():
        session.conf.set(name, value)


SETTINGS = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "America/New_York",  # 02:30 on 9 March 2025 does not exist there
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
UTC = dt.timezone.utc
TEXTS = [
    "", "a", "abc", "ABC", "x", " a b ", "50%_x", "Ärger", "ÄRGER", "😀", "a😀b", "\uffff", "\U00010000", "a\nb", "\\", "a\\b",
    " 42 ", "-7", "+7", "4_2", "1e3", "1d", "9223372036854775807", "9223372036854775808", "inf", "nan", "İ", "ß", "ΑΣ", "\x00",
    "42\n", "\t42", "٤٢", "ﬀ", "y" * 300,
]  # fmt: skip
EDGES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "i": (pa.int64(), [0, 1, -1, 7, 100, 2**31, 2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63), 2**62]),
    "k": (pa.int32(), [0, 1, -1, 7, 100, 2**31 - 1, -(2**31)]),
    "y": (pa.int8(), [0, 1, -1, 7, 127, -128]),
    "f": (pa.float64(), [0.0, -0.0, float("nan"), float("inf"), -float("inf"), 1.5, -2.5, 0.5, 0.1, 100.0, 7.0, 2.0**53, 2.0**53 + 2,
                         2.0**63, -(2.0**63), 1.7e308, 5e-324, 4503599627370497.5]),
    "g": (pa.float32(), [0.0, -0.0, float("nan"), float("inf"), -float("inf"), 1.5, 0.1, 16777216.0, 3.4e38, 1e-45, 100.0]),
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


def edge_table() -> pa.Table:
    """Every edge value at least twice, beside others at random; and nulls."""
    chance = random.Random(7)
    columns = {}
    for name, (type, values) in EDGES.items():
        pool = [*values, None]
        listed = [*pool, *pool, *(chance.choice(pool) for _ in range(120 - 2 * len(pool)))]
        chance.shuffle(listed)
        columns[name] = pa.array(listed, type)
    times = {
        "time": pa.array([chance.choice([0, 7, 1741487400000000]) for _ in range(120)], pa.timestamp("us", "UTC")),
        "until": pa.array([chance.choice([7, GAP]) for _ in range(120)], pa.timestamp("us")),
    }
    return pa.table({"row": pa.array(range(120), pa.int64()), "type": ["A"] * 120, **times, **columns})


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
    field: Sources
    ends: Sources

    def true(self, expr: Bound) -> set[int]:
        found = set()
        for self.row.at in range(120):
            if evaluate(expr, self.row, {}) is True:
                found.add(self.row.at)
        return found

    def wrong(self, exprs: list[Bound]) -> list[Any]:
        """The expressions of which Spark says something else, with rows that are too many or too few."""
        exact = [as_column(expr, self.field, self.ends) for expr in exprs]
        weak = [
            None if yes is not None and not joined(expr) else implied(expr, self.field, self.ends)
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
        return [row.asDict() for row in self.frame.where(sf.col("row").isin(sorted(rows)[:2])).collect()]


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
    "0", "1", "-1", "7", "100", "2147483648", "9007199254740993", "-9007199254740993", "9223372036854775807", "-9223372036854775807",
    "0.1", "-2.25", "1.5", "7.0", "1e300", "9223372036854775808.0", "-9223372036854775808.0", "16777217.0", "1e400", "0.00001",
]  # fmt: skip
QUOTED = ["''", "'a'", "'abc'", "'ÄRGER'", "'😀'", "'\uffff'", "'b'"]


@pytest.mark.parametrize("op", ["=", "<>", "<", "<=", ">", ">="])
def test_every_type_against_every_constant(edges: Edges, op: str) -> None:
    numbers = ["i", "k", "y", "f", "g", "d", "e", "w", "at", "nt", "da"]
    texts = [f"{left} {op} {right}" for name in numbers for right in NUMBERS for left in [f"a.{name}"]]
    texts += [f"a.s {op} {right}" for right in QUOTED]
    texts += [f"a.{left} {op} a.{right}" for left in numbers for right in numbers if left < right]
    exprs = [expr for text in texts if (expr := bound(text, edges.schema)) is not None]
    assert len(exprs) > 0.9 * len(texts)
    left_out = [str(expr) for expr in exprs if as_column(expr, edges.field, edges.ends) is None]
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
        "({int} + {int})", "({int} - {int})", "({int} * {int})", "({int} % {int})", "(-({int}))", "abs({int})", "int({float})", "int({decimal})",
        "int({text})", "int({bool})", "length({text})", "least({int}, {int})", "greatest({int}, {int}, {int})", "round({int})",
    ],
    "float": [
        "({float} + {float})", "({float} - {int})", "({float} * {float})", "({number} / {number})", "({float} % {float})", "(-({float}))",
        "abs({float})", "floor({float})", "ceil({float})", "round({float})", "sqrt({number})", "float({int})", "float({decimal})",
        "least({float}, {float})", "greatest({float}, {int})", "float({text})", "({decimal} + {float})",
    ],
    "decimal": [
        "({decimal} + {decimal})", "({decimal} - {int})", "({decimal} * {int})", "({decimal} * {decimal})", "({decimal} % {decimal})",
        "(-({decimal}))", "abs({decimal})", "least({decimal}, {int})", "greatest({decimal}, {decimal})",
    ],
    "text": [
        "({text} || {text})", "trim({text})", "substr({text}, {int}, {int})", "substr({text}, 2)", "substr({text}, 1, 2)", "text({int})",
        "text({bool})", "least({text}, {text})", "greatest({text}, {text})", "lower({text})", "upper({text})",
    ],
    "bool": [
        *(f"({{{kind}}} {op} {{{kind}}})" for kind in ("number", "text") for op in ("=", "<>", "<", "<=", ">", ">=")),
        "({number} BETWEEN {number} AND {number})", "({int} IN ({int}, {int}, {int}))", "({text} IN ({text}, {text}))",
        "({number} NOT IN ({number}, {number}))", "({text} LIKE {pattern})", "({text} NOT LIKE {pattern})", "starts_with({text}, {text})",
        "contains({text}, {text})", "({any} IS NULL)", "({any} IS NOT NULL)", "({bool} = {bool})", "({bool} <> {bool})",
        *["({bool} AND {bool})", "({bool} OR {bool})", "(NOT {bool})"] * 4,
    ],
}  # fmt: skip
ANY_KIND = ["coalesce({0}, {0})", "nullif({0}, {0})", "(CASE WHEN {{bool}} THEN {0} WHEN {{bool}} THEN {0} ELSE {0} END)",
            "(CASE WHEN {{bool}} THEN {0} END)"]  # fmt: skip
PATTERNS = ["'a%'", "'%b%'", "'_'", "'__'", "'%\\%%'", "'50\\%\\__'", "'\\a%'", "'a\\'", "'%\\'", "''", "'%'", "'😀'", "'_😀_'",
            "'a_b'", "'%R'", "'Ä_ger'", "'\\\\'", "'%😀'", "'a%c'", "'_%_'"]  # fmt: skip


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
    max_examples=4,
    deadline=None,
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
    assert edges.wrong(exprs) == []
