"""Open DataFrames of events: join them to one frame, check its columns, and derive the schema of the events."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from tocsin.encode.columns import Columns, arrow_type, field_of, infer_schema
from tocsin.errors import InputError, TocsinWarning
from tocsin.schema import Field, Schema
from tocsin.spark.setup.versions import arrow_schema, spark_type

WHOLE_TYPES = (st.ByteType, st.ShortType, st.IntegerType, st.LongType)
INSTANT = (st.TimestampType, st.TimestampNTZType, st.DateType)
TEXT = (st.StringType, st.VarcharType, st.CharType)


@dataclass(frozen=True)
class EventTable:
    """The columns of a table of events that queries can read, with their roles and the schema of the events."""

    columns: Columns
    rows: pa.Schema  # the columns as Arrow
    schema: Schema
    announces: bool = dataclasses.field(
        default=False, kw_only=True
    )  # whether rows say what they are (`shards/announced`)

    @property
    def streaming(self) -> bool:
        return False

    @property
    def time(self) -> pa.DataType | None:
        """The type of points in time, or None for ticks; results show times alike."""
        type = self.rows.field(self.columns.time).type
        return type if pa.types.is_timestamp(type) or pa.types.is_date(type) else None


@dataclass(frozen=True)
class EventFrame(EventTable):
    """A DataFrame of events, without the columns that no query can read."""

    df: DataFrame

    @property
    def streaming(self) -> bool:
        return bool(self.df.isStreaming)


def open_table(shape: st.StructType, columns: Columns) -> EventTable:
    """What a table of this shape says about its events; every column is checked here."""
    columns = columns.resolve(shape.names)
    _check(shape, columns)
    kept = _readable(shape, columns)
    return _described(st.StructType([shape[name] for name in kept]), columns, _unreadable(shape, kept))


def open_frame(frames: Any, columns: Columns, declared: Schema | None = None) -> EventFrame:
    """A DataFrame, or several by the type of their events, ready to be read. Every column is checked here."""
    if isinstance(frames, Mapping):
        df, types = _union(frames, columns)
    elif isinstance(frames, DataFrame) or hasattr(frames, "isStreaming"):
        df, types = frames, None
    else:
        raise InputError(
            f"events must be a DataFrame or a dict of them, not {type(frames).__name__}",
            hint="tocsin.query(...).detect(...) takes files, tables and iterables without Spark",
        )
    columns = columns.resolve(df.columns)
    whole = df.schema
    _check(whole, columns)
    kept = _readable(whole, columns)
    unreadable = _unreadable(whole, kept)
    df = df if len(kept) == len(whole) else df.select(*map(column, kept))
    if declared is not None and not declared.strict:
        df = _with_absent(df, declared, unreadable)
    table = _described(df.schema, columns, unreadable)
    rows, schema = table.rows, table.schema
    if types is not None:
        schema = replace(schema, types=types, common={}, open_types=False)
    if declared is not None:
        unit = declared.unit or schema.unit
        schema = replace(
            declared, unit=unit, intervals=schema.intervals, clashes=schema.clashes, unreadable=schema.unreadable,
            eid=schema.eid,
        )  # fmt: skip
        _fitting(declared, rows, unreadable)
    return EventFrame(columns, rows, schema, df)


def _described(shape: st.StructType, columns: Columns, unreadable: Mapping[str, str]) -> EventTable:
    rows = arrow_schema(shape)
    return EventTable(columns, rows, replace(infer_schema(rows, columns), unreadable=unreadable))


def _union(frames: Mapping[str, DataFrame], columns: Columns) -> tuple[DataFrame, dict[str, dict[str, Field]]]:
    """Frames of one type each as one frame; each type has the attributes of its own frame."""
    if not frames:
        raise InputError("there are no frames", hint='give at least one: {"Shelf": df}')
    whole: DataFrame | None = None
    types: dict[str, dict[str, Field]] = {}
    for name, df in frames.items():
        own = columns.type if columns.type not in df.columns else None
        df = df if own is None else df.withColumn(own, sf.lit(name))
        resolved = columns.resolve(df.columns)
        table = open_table(df.schema, resolved)
        known = [field_of(field) for field in table.rows]
        attributes = resolved.attributes(df.columns)
        types[name] = {field.name: field for field in known if field is not None and field.name in attributes}
        whole = df if whole is None else _joined(whole, df, name)
    assert whole is not None
    return whole, types


def _joined(whole: DataFrame, df: DataFrame, name: str) -> DataFrame:
    for field in df.schema.fields:
        known = next((other.dataType for other in whole.schema.fields if other.name == field.name), field.dataType)
        if known != field.dataType and not (isinstance(known, WHOLE_TYPES) and isinstance(field.dataType, WHOLE_TYPES)):
            raise InputError(
                f"column {field.name!r} is {field.dataType.simpleString()} in the frame of {name!r} "
                f"and {known.simpleString()} in one before it",
                hint="cast one of them, or give it another name",
            )
    return whole.unionByName(df, allowMissingColumns=True)


def _check(shape: st.StructType, columns: Columns) -> None:
    """Refuse columns of time, type and eid that are not usable as such."""
    types = {field.name: field.dataType for field in shape.fields}
    for role in ("time", "end"):
        name = getattr(columns, role)
        if name is not None and not isinstance(types[name], WHOLE_TYPES + INSTANT):
            remedy = (
                f'df.withColumn("{name}", F.to_timestamp("{name}"))'
                if isinstance(types[name], TEXT)
                else f'df.withColumn("{name}", F.col("{name}").cast("timestamp"))'
            )
            raise InputError(
                f"the {role} column {name!r} is {types[name].simpleString()}, which is no time",
                detail="time is a timestamp, a date or a whole number of ticks",
                hint=f"cast it: {remedy}",
            )
    if columns.end is not None and isinstance(types[columns.time], WHOLE_TYPES) != isinstance(
        types[columns.end], WHOLE_TYPES
    ):
        raise InputError(
            f"{columns.time!r} is {types[columns.time].simpleString()} and {columns.end!r} is "
            f"{types[columns.end].simpleString()}",
            hint="start and end must be of one kind",
        )
    if not isinstance(types[columns.type], TEXT):
        raise InputError(
            f"the type column {columns.type!r} is {types[columns.type].simpleString()}, not a text",
            hint=f'cast it: df.withColumn("{columns.type}", F.col("{columns.type}").cast("string"))',
        )
    if columns.eid is not None and not isinstance(types[columns.eid], WHOLE_TYPES + TEXT):
        raise InputError(
            f"the eid column {columns.eid!r} is {types[columns.eid].simpleString()}",
            hint="an eid is a text or a whole number",
        )


def _readable(shape: st.StructType, columns: Columns) -> list[str]:
    """The columns that queries can read or results show: all but arrays, maps, structs, binary and intervals."""
    plain = (*WHOLE_TYPES, *INSTANT, *TEXT, st.FloatType, st.DoubleType, st.DecimalType, st.BooleanType, st.NullType)
    roles = {columns.type, columns.time, columns.end, columns.eid, columns.source}
    return [field.name for field in shape.fields if isinstance(field.dataType, plain) or field.name in roles]


def _unreadable(shape: st.StructType, kept: list[str]) -> dict[str, str]:
    return {field.name: field.dataType.simpleString() for field in shape.fields if field.name not in kept}


def _with_absent(df: DataFrame, declared: Schema, unreadable: Mapping[str, str]) -> DataFrame:
    """The frame with a column of nulls for each attribute that the schema declares and that this frame lacks."""
    known = {field.name: field for each in (declared.common, *declared.types.values()) for field in each.values()}
    absent = {name: field for name, field in known.items() if name not in df.columns and name not in unreadable}
    if not absent:
        return df
    names = ", ".join(map(repr, absent))
    warnings.warn(f"the schema declares {names}, which the frame does not have: null", TocsinWarning, stacklevel=6)
    return df.withColumns({name: sf.lit(None).cast(spark_type(arrow_type(each))) for name, each in absent.items()})


def _fitting(declared: Schema, rows: pa.Schema, unreadable: Mapping[str, str]) -> None:
    """Refuse a frame whose columns do not have the kinds that a declared schema says."""
    known = {field.name: field for each in (declared.common, *declared.types.values()) for field in each.values()}
    for name, field in known.items():
        if name not in rows.names and name not in unreadable:
            raise InputError(
                f"the schema declares {name!r}, but the frame has no such column",
                detail=f"its columns are: {', '.join(map(repr, rows.names))}",
            )
        seen = None if name in unreadable else field_of(rows.field(name))
        if seen is None or (seen.kind, seen.scale) != (field.kind, field.scale):
            made = unreadable.get(name) or rows.field(name).type
            raise InputError(
                f"the schema declares {name!r} as {field.kind}, but the column is {made}",
                hint="cast the column, or change the schema",
            )


def check_names(df: DataFrame) -> None:
    """Refuse columns that PySpark cannot hand to Python workers: it reads a dot or a back-quote as part of a path."""
    odd = [name for name in df.columns if "." in name or "`" in name]
    if odd:
        raise InputError(
            f"Spark cannot send the column {odd[0]!r} to Python workers",
            detail="its name holds a dot or a back-quote",
            hint=f'rename it: df.withColumnRenamed({odd[0]!r}, "{odd[0].replace(".", "_").replace("`", "_")}")',
        )


def column(name: str) -> Column:
    """The column of this name, whatever characters it has."""
    return sf.col(quoted(name))


def quoted(name: str) -> str:
    """The name of a column in SQL, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"
