"""`tocsin_detect` in SQL: detection as a Python table function, on sessions of every kind.

    SELECT * FROM tocsin_detect(TABLE(events), 'EVENT SEQ(...) WHERE [tag] WITHIN 12 h', time => 'at')

Spark asks `analyze` for the columns of the result before anything runs. There the query is bound to the columns of the
table and compiled; job and kernels travel to the workers inside the answer, which also tells Spark how to deal out the
rows: by the key of the query, in order of time. Spark hands a table function its rows one by one, which costs far more
than `detect` (docs/decisions/0021 has the numbers). Streams cannot be sorted, so Spark refuses them before they start.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.accumulators import _accumulatorRegistry
from pyspark.sql import types as st
from pyspark.sql.udtf import AnalyzeArgument, AnalyzeResult, OrderingColumn, PartitioningColumn, SelectedColumn

from tocsin.encode.columns import Columns
from tocsin.errors import InputError, TocsinError
from tocsin.functions import Function, adopt
from tocsin.run.declared import check_unit
from tocsin.run.query import plans_of
from tocsin.run.query import query as as_query
from tocsin.shards.job import Job, Shards
from tocsin.shards.routes import Attrs, Group, Unit
from tocsin.spark.batch import answered, sorted_out
from tocsin.spark.detect import plan_job
from tocsin.spark.event_frame import EventTable, open_table, quoted
from tocsin.spark.register import NAME
from tocsin.spark.setup.versions import spark_schema
from tocsin.spark.shuffle import exact_form, travelling

ROWS = 20_000  # which a detector gets at once
OPTIONS: Mapping[str, type] = {
    "type": str, "time": str, "end": str, "eid": str, "time_unit": str,
    "all": bool, "bad_rows": str, "buckets": int, "jit": bool,
}  # fmt: skip


def table_function(buckets: int, functions: Mapping[str, Function]) -> type:
    """The class that Spark ships; it is small, and loads the rest where it runs."""

    class TocsinDetect:
        def __init__(self, analyzed: Analyzed) -> None:
            self.bucket = Bucket(analyzed)

        @staticmethod
        def analyze(events: AnalyzeArgument, query: AnalyzeArgument, **options: AnalyzeArgument) -> Analyzed:
            report_no_profiles()
            adopt(functions)
            return analyzed(events, query, options, buckets)

        def eval(self, row: Any, *_: Any, **__: Any) -> Any:
            return self.bucket.take(row)

        def terminate(self) -> Any:
            return self.bucket.end()

    return TocsinDetect


# --- before anything runs ------------------------------------------------------------------------------------------


@dataclass
class Analyzed(AnalyzeResult):
    """What Spark asks for, and what the workers need; `rows` are the columns that they get."""

    job: Job | None = None
    rows: pa.Schema | None = None


def report_no_profiles() -> None:
    """Keep the process that runs `analyze` from reporting profiles, which are empty unless somebody profiles Spark.

    `spark-pipelines` of Spark 4.3 takes the report for an unknown response, and fails after a run that went well.
    """
    _accumulatorRegistry.clear()


def analyzed(
    events: AnalyzeArgument, query: AnalyzeArgument, given: Mapping[str, AnalyzeArgument], buckets: int
) -> Analyzed:
    """Check all arguments, bind the query to the table, and compile it."""
    if not events.isTable or not isinstance(events.dataType, st.StructType):
        raise InputError(f"the first argument of {NAME} is a table", hint=f"{NAME}(TABLE(events), 'EVENT ...')")
    values = {name: _constant(name, argument) for name, argument in given.items()}
    options = {name: value for name, value in values.items() if value is not None}
    asked = as_query(_constant("query", query))
    roles = {role: options[role] for role in ("type", "time", "end", "eid") if role in options}
    unit = options.get("time_unit")
    check_unit(unit)
    table = open_table(events.dataType, Columns(**roles, unit=unit))
    plans = plans_of(asked.queries, table.schema)
    if any(plan.has_rows_of_its_own for plan in plans):
        hint = "tocsin.spark.detect runs staged statements and definitions of intervals"
        raise TocsinError(f"{NAME} takes EVENT queries only", hint=hint)
    job, keep = plan_job(
        table,
        plans,
        frozenset(range(len(plans)) if options.get("all") else asked.answers),
        buckets=options.get("buckets", buckets),
        jit=options.get("jit", True),
        keep_bad=_keeps(options.get("bad_rows", "fail")),
    )
    by = _bucket(table, job)
    if by is None:
        job = replace(job, shards=(_undivided(job),))
    names = travelling(table, keep)
    return Analyzed(
        spark_schema(job.result),
        partitionBy=[PartitioningColumn(by or "0")],  # without a key all rows are one part, still in order of time
        orderBy=[OrderingColumn(quoted(table.columns.end or table.columns.time))],
        select=[_selected(table.rows.field(name)) for name in names],
        job=job.compiled(),
        rows=pa.schema([table.rows.field(name) for name in names]),
    )


def _constant(name: str, argument: AnalyzeArgument) -> Any:
    """The value of an argument, which must not depend on rows."""
    kind = str if name == "query" else OPTIONS.get(name)
    if kind is None:
        raise TocsinError(f"{NAME} has no argument {name!r}", hint=f"its arguments are: {', '.join(OPTIONS)}")
    value = argument.value
    if not argument.isConstantExpression or (value is None and name == "query"):
        raise TocsinError(f"the argument {name!r} of {NAME} must be a constant", hint="write it as a literal")
    if value is not None and not isinstance(value, kind):
        raise TocsinError(f"the argument {name!r} of {NAME} is {value!r}, and must be of type {kind.__name__}")
    return value


def _keeps(bad_rows: str) -> bool:
    if bad_rows not in ("fail", "keep"):
        raise TocsinError(f"bad_rows => {bad_rows!r} is not known", hint="use 'fail' or 'keep'")
    return bad_rows == "keep"


def _undivided(job: Job) -> Shards:
    """All queries in one shard, which needs no key: for queries that have none, or whose keys differ."""
    units = [unit for shards in job.shards for unit in shards.group.units]
    return Shards(Group(tuple(Unit(unit.numbers, unit.plans) for unit in units)), 0, 1)


def _bucket(table: EventTable, job: Job) -> str | None:
    """The SQL by which rows are dealt out; None unless every row is needed in one bucket only, found by its key.

    A row that no query reads goes anywhere.
    """
    shards = job.shards[0]
    ways = shards.group.ways
    if len(job.shards) > 1 or not ways or not all(way.is_single for way in ways.values()):
        return None
    cases: dict[str, list[str]] = {}
    for type, way in ways.items():
        hashed = _hash(table, way.keys[0])
        if hashed is None:
            return None
        cases.setdefault(hashed, []).append(_literal(type))
    kind, time = quoted(table.columns.type), quoted(table.columns.time)
    whens = " ".join(f"WHEN {kind} IN ({', '.join(types)}) THEN {hashed}" for hashed, types in cases.items())
    return f"pmod(CASE {whens} ELSE xxhash64({time}) END, {shards.count})"


def _hash(table: EventTable, attrs: Attrs) -> str | None:
    """The hash of a key, in the forms of `shuffle.bucket`; None for points in time, which have several."""
    forms = {attr: exact_form(table, attr) for attr in attrs}
    if None in forms.values():
        return None
    return f"xxhash64({', '.join(f'CAST({quoted(attr)} AS {form})' for attr, form in forms.items())})"


def _literal(text: str) -> str:
    """A text in SQL, whatever characters it has."""
    return f"decode(X'{text.encode().hex()}', 'UTF-8')"


def _selected(field: pa.Field) -> SelectedColumn:
    """A column as workers get it; instants as numbers, because Python's have no place for an hour that comes twice."""
    name = quoted(field.name)
    return SelectedColumn(f"unix_micros({name})", field.name) if _is_instant(field.type) else SelectedColumn(name)


def _is_instant(type: pa.DataType) -> bool:
    return pa.types.is_timestamp(type) and type.tz is not None


# --- in the worker -------------------------------------------------------------------------------------------------


class Bucket:
    """The rows of one bucket, which come in order of time, on their way through a query graph."""

    def __init__(self, analyzed: Analyzed) -> None:
        assert analyzed.job is not None and analyzed.rows is not None
        self.job: Job = analyzed.job
        self.shape: pa.Schema = analyzed.rows
        self.shards = self.job.shards[0]
        self.graph, self.numbers = self.job.graph(self.shards.group, self.shards.group.units)
        self.rows: list[Sequence[Any]] = []

    def take(self, row: Sequence[Any]) -> Iterator[tuple[Any, ...]] | None:
        """Keep a row; when there are many, give the answers that they make certain."""
        self.rows.append(row)
        return None if len(self.rows) < ROWS else self._push()

    def end(self) -> Iterator[tuple[Any, ...]]:
        """Give all other answers."""
        if self.rows:
            yield from self._push()
        yield from _tuples(answered(self.job, self.shards, 0, self.graph, self.numbers, None))

    def _push(self) -> Iterator[tuple[Any, ...]]:
        rows, self.rows = self.rows, []
        arrays = [_array(values, field.type) for values, field in zip(zip(*rows, strict=True), self.shape, strict=True)]
        good, bad = sorted_out(pa.RecordBatch.from_arrays(arrays, schema=self.shape), self.job)
        yield from _tuples(self.job.reports("bad", bad))
        yield from _tuples(answered(self.job, self.shards, 0, self.graph, self.numbers, good))


def _array(values: Sequence[Any], type: pa.DataType) -> pa.Array:
    return pa.array(values, pa.int64()).cast(type) if _is_instant(type) else pa.array(values, type)


def _tuples(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[Any, ...]]:
    for batch in batches:
        for row in batch.to_pylist():
            yield tuple(row.values())
