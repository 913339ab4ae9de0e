"""Detect matches in files with Spark, with the result that the embedded runner gives (`tocsin run --engine spark`).

Parquet is read by Spark, in parallel. CSV, JSON lines and Arrow files are read by the embedded readers in the driver:
what their columns hold is known only when all rows were seen, and another parser would read some of them otherwise.
Attributes of types that Spark does not have (unsigned numbers, nanoseconds, ...) are converted on the way.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from tocsin.encode.arrow import is_text
from tocsin.encode.columns import Columns, arrow_type
from tocsin.engine.kinds import ANSWERS
from tocsin.graph.query_graph import QueryGraph
from tocsin.plan.block import Plan
from tocsin.run.bad_rows import BadRows
from tocsin.run.files import find
from tocsin.run.inputs import open_input, usable
from tocsin.run.matches import Matches
from tocsin.run.query import Query, declared_fields, known_of, notes_of, plans_of, with_unit
from tocsin.run.schemas import schema_of, type_texts
from tocsin.schema import Kind, Schema
from tocsin.shards.result import conformed, result_schema
from tocsin.spark.detect import Prepared, prepare
from tocsin.spark.event_frame import column
from tocsin.spark.setup.errors import noted
from tocsin.spark.shuffle import without_key

SHARED_TYPES = (
    pa.types.is_string, pa.types.is_boolean, pa.types.is_signed_integer, pa.types.is_float32, pa.types.is_float64,
    pa.types.is_date32, pa.types.is_decimal128,
)  # fmt: skip


@dataclass(frozen=True)
class FileEvents:
    """The events of the files as a DataFrame, with the schema and counts that the embedded runner would have."""

    df: DataFrame
    columns: Columns
    rows: pa.Schema  # as the files have them
    time: pa.DataType | None
    schema: Schema
    counts: dict[str, int]  # of each type
    notes: tuple[str, ...] = ()  # of how they were read


def detect_files(
    spark: SparkSession,
    query: Query,
    input: str,
    columns: Columns,
    *,
    bad: BadRows,
    all: bool = False,
    jit: bool = True,
) -> Matches:
    """Every match in the files, found by Spark."""
    found = _stored(spark, query, input, columns) or _read(spark, query, input, columns, bad)
    if found is None:  # no events: there is nothing to be done in parallel
        bad.count = 0
        bad.examples.clear()
        bad.kept.clear()
        options: dict[str, Any] = {role: getattr(columns, role) for role in ("type", "time", "end", "eid", "truncate")}
        return query.detect(input, time_unit=columns.unit, bad_rows=bad, all=all, jit=jit, **options)
    own = found.columns
    with noted() as notes:
        prepared = prepare(
            found.df,
            query,
            type=own.type,
            time=own.time,
            end=own.end,
            eid=own.eid,
            time_unit=own.unit,
            schema=found.schema,
            all=all,
            bad_rows="fail" if bad.failing else "keep",
            jit=jit,
        )
        table = prepared.run().toArrow()
        keyless = _keyless(prepared)
    _report(table, input, bad)
    shown = range(len(prepared.plans)) if all else query.answers
    tables = [_table_of(table, prepared.plans[number], prepared.plans, found) for number in shown]
    bad.write()
    counters = {
        "events": sum(found.counts.values()),
        "relevant": sum(count for type, count in found.counts.items() if query.reads(type)),
        "keyless": keyless,
        "skipped": bad.count,
        "matches": sum(each.num_rows for each in tables),
    }
    return Matches(tables, counters, (*notes_of(prepared.plans), *found.notes, *notes))


# --- events --------------------------------------------------------------------------------------------------------


def _stored(spark: SparkSession, query: Query, input: str, columns: Columns) -> FileEvents | None:
    """Parquet files as Spark reads them; None if there are others, or types that Spark would read otherwise."""
    paths = find(input)
    if query.schema is not None or any(path.suffix.lower() not in (".parquet", ".pq") for path in paths):
        return None
    try:
        schemas = [parquet.ParquetFile(path).schema_arrow.remove_metadata() for path in paths]
    except (pa.ArrowException, OSError):
        return None  # the embedded reader says what is wrong
    rows = schemas[0]
    if any(each != rows for each in schemas) or not all(_plain(field.type) for field in rows):
        return None
    own = columns.resolve(rows.names)
    if not is_text(rows.field(own.type).type) or any(
        is_text(rows.field(name).type) for name in (own.time, own.end) if name
    ):
        return None
    df = spark.read.parquet(*(str(path.absolute()) for path in paths))
    sample, counts = _survey(df, rows, own)
    if not sample.num_rows:
        return None
    schema = schema_of(sample, own)
    time = rows.field(own.time).type
    instant = time if pa.types.is_timestamp(time) or pa.types.is_date(time) else None
    return FileEvents(_without_nulls(df, schema), own, rows, instant, schema, counts)


def _plain(type: pa.DataType) -> bool:
    """Whether Spark has this type, with the same values."""
    return any(test(type) for test in SHARED_TYPES) or (pa.types.is_timestamp(type) and type.unit == "us")


def _survey(df: DataFrame, rows: pa.Schema, columns: Columns) -> tuple[pa.Table, dict[str, int]]:
    """Return few rows that show the schema of all: per type a value of each attribute, and a null if there is one."""
    names = [name for name in rows.names if name != columns.type]
    kind = column(columns.type)
    values = [sf.any_value(column(name), sf.lit(True)).alias(f"v{at}") for at, name in enumerate(names)]
    gaps = [sf.count_if(column(name).isNull()).alias(f"n{at}") for at, name in enumerate(names)]
    found = df.groupBy(kind.alias("t")).agg(sf.count(sf.lit(1)).alias("rows"), *values, *gaps).toArrow()
    counts = {
        str(type): count for type, count in zip(*(found.column(n).to_pylist() for n in ("t", "rows")), strict=True)
    }
    arrays = []
    for field in rows:
        if field.name == columns.type:
            kinds = found.column("t").cast(field.type)
            arrays.append(pa.chunked_array([*kinds.chunks, *kinds.chunks], field.type))
            continue
        at = names.index(field.name)
        shown = found.column(f"v{at}").cast(field.type)
        gap = pc.greater(found.column(f"n{at}"), 0)
        holes = pc.if_else(gap, pa.scalar(None, field.type), shown)
        arrays.append(pa.chunked_array([*shown.chunks, *holes.chunks], field.type))
    return pa.table(arrays, schema=rows), counts


def _read(spark: SparkSession, query: Query, input: str, columns: Columns, bad: BadRows) -> FileEvents | None:
    """Other files as the embedded runner reads them, judged row by row, then handed to Spark."""
    given = open_input(input, columns, declared=declared_fields(query.schema), bad=bad)
    own, whole = given.columns, given.table()
    if not whole.num_rows:
        return None
    known = known_of(given, query.queries) if query.schema is None else with_unit(query.schema, given)
    plans = plans_of(query.queries, known)
    wanted = QueryGraph(plans, known, own, jit=False).wanted
    table = usable(given, wanted)
    if not table.num_rows:
        return None
    texts = type_texts(table, own).value_counts()
    counts = {str(each["values"]): each["counts"] for each in texts.to_pylist()}
    df = spark.createDataFrame(_for_spark(table, known))
    time, notes = given.time, given.notes(wanted)
    return FileEvents(_without_nulls(df, known), own, table.schema, time, known, counts, notes)


def _for_spark(table: pa.Table, schema: Schema) -> pa.Table:
    """The table in types that Spark has, with a column for every declared attribute."""
    for place, field in enumerate(table.schema):
        array = table.column(place)
        if pa.types.is_dictionary(field.type):
            array = array.cast(field.type.value_type)
        if pa.types.is_timestamp(array.type) and array.type.unit != "us":
            array = array.cast(pa.timestamp("us", array.type.tz), safe=False)  # rows where this matters were judged
        elif pa.types.is_unsigned_integer(array.type):
            array = array.cast(pa.int64() if array.type != pa.uint64() else pa.decimal128(20))
        elif pa.types.is_large_string(array.type):
            array = array.cast(pa.string())
        elif pa.types.is_float16(array.type):
            array = array.cast(pa.float32())
        table = table.set_column(place, field.name, array)
    readable = [field.name for field in table.schema if _plain(field.type) or pa.types.is_null(field.type)]
    table = table.select(readable)
    for name, field in declared_fields(schema).items():
        if name not in table.schema.names:
            table = table.append_column(name, pa.nulls(table.num_rows, arrow_type(field)))
    return table


def _without_nulls(df: DataFrame, schema: Schema) -> DataFrame:
    """Make columns without any value untyped nulls, as the embedded runner sees them."""
    empty = [name for name, field in declared_fields(schema).items() if field.kind is Kind.NULL and name in df.columns]
    return df.withColumns({name: sf.lit(None) for name in empty}) if empty else df


# --- answers -------------------------------------------------------------------------------------------------------


def _table_of(whole: pa.Table, plan: Plan, plans: Sequence[Plan], found: FileEvents) -> pa.Table:
    """The matches of one query, in the types of the files, in the order in which they became certain."""
    answers = pc.is_in(whole.column("kind"), pa.array(ANSWERS))
    mine = whole.filter(pc.and_(answers, pc.equal(whole.column("query"), plan.title)))
    names = frozenset(type for each in plans for type in each.emits)
    shape = result_schema([plan], names, found.rows, found.columns, found.time)
    table = pa.Table.from_batches([conformed(mine, shape)])
    keys = [(key, "ascending") for key in ("settled_at", "end", "start", "match_id")]
    return table.take(pc.sort_indices(table.select([key for key, _ in keys]), keys))


def _keyless(prepared: Prepared) -> int:
    """Count the events that a query does not see, because they lack an attribute of its key."""
    needs = prepared.job.needs
    if not needs:
        return 0
    found = prepared.frame.df.agg(sf.count_if(without_key(prepared.frame, needs))).first()
    return int(found[0]) if found else 0


def _report(table: pa.Table, input: str, bad: BadRows) -> None:
    """Report the rows that could not be used."""
    for text in (
        table.filter(pc.equal(table.column("kind"), "bad")).column("details").to_pylist() if not bad.failing else ()
    ):
        row = json.loads(text)
        bad.report(str(Path(input)), row.pop("reason"), row)


__all__ = ["detect_files"]
