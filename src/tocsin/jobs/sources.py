"""Open the sources of a pipeline with Spark, bring their columns to common names, and join them to one frame."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql import types as T  # noqa: N812 - as everybody calls them

from tocsin.encode.columns import field_of
from tocsin.errors import InputError
from tocsin.jobs.config import WRITTEN, JobFile, JobSource
from tocsin.jobs.toml import meant
from tocsin.run.declared import length_of
from tocsin.schema import Field, Schema
from tocsin.spark.event_frame import INSTANT, TEXT, WHOLE_TYPES, column
from tocsin.spark.setup.errors import explained
from tocsin.spark.setup.versions import arrow_schema

ROLES = ("type", "time", "end", "eid", "source")
KAFKA = ("key", "topic", "partition", "offset", "timestamp")  # of a message, beside its value
CORRUPT = "__corrupt"
LIVE_ONLY = ("rate", "rate-micro-batch", "socket")
DEFAULTS = {
    # Columns are found by their names in the first line, and a file whose names differ is refused.
    "csv": {"header": "true", "enforceSchema": "false"},
}


@dataclass(frozen=True)
class Events:
    """All sources as one frame, which roles its columns have, and its schema if all types are known."""

    df: DataFrame
    roles: frozenset[str]
    schema: Schema | None
    sources: tuple[str, ...]

    def columns(self) -> dict[str, str]:
        return {role: role for role in ROLES if role in self.roles}


def open_sources(pipeline: JobFile, spark: SparkSession, *, live: bool) -> Events:
    """The events of a pipeline. Nothing is read but the schemas of files that have them."""
    by_table = len(pipeline.sources) > 1 and all(each.source is None for each in pipeline.sources)
    frames = {each.name: _opened(pipeline, each, spark, live=live, by_table=by_table) for each in pipeline.sources}
    roles = frozenset(role for df in frames.values() for role in ROLES if role in df.columns)
    for role in ("eid", "source"):
        without = [name for name, df in frames.items() if role in roles and role not in df.columns]
        if without:
            raise InputError(
                f"{place(pipeline, without[0])}: has no {role}, and another source has",
                hint=f'name the column that holds it ({role} = "..."), or give it to none of the sources',
            )
    if "end" in roles:
        frames = {n: df if "end" in df.columns else df.withColumn("end", sf.col("time")) for n, df in frames.items()}
    awaited = tuple(frames) if by_table else ()
    return Events(_union(pipeline, frames), roles, _schema(pipeline, frames), awaited)


def place(pipeline: JobFile, name: str, key: str = "") -> str:
    return f"{pipeline.file.name}, [source.{name}]" + (f", key {key!r}" if key else "")


@contextmanager
def placed(where: str) -> Iterator[None]:
    """Add the place in the pipeline file to errors raised inside the block."""
    try:
        yield
    except Exception as error:
        told = explained(error)
        if told is None:
            raise
        if told.message.startswith(where.partition(",")[0]):
            raise
        raise InputError(f"{where}: {told.message}", detail=told.detail, hint=told.hint) from error


# --- one source ----------------------------------------------------------------------------------------------------


def _opened(pipeline: JobFile, source: JobSource, spark: SparkSession, *, live: bool, by_table: bool) -> DataFrame:
    keep_bad = pipeline.run.bad_rows == "keep"
    with placed(place(pipeline, source.name)):
        df = _read(spark, source, live=live, keep_bad=keep_bad)
        if source.format == "kafka":
            df = _messages(df, source, keep_bad=keep_bad)
    df = _mapped(df, pipeline, source)
    df = _roles(df, pipeline, source)
    if by_table:
        df = _named(df, "source", sf.lit(source.name), place(pipeline, source.name))
    return df


def _read(spark: SparkSession, source: JobSource, *, live: bool, keep_bad: bool) -> DataFrame:
    if not live and source.format in LIVE_ONLY:
        raise InputError(
            f"{source.format} has no history", hint=f'name one for backfills: [source.{source.name}.batch] path = "..."'
        )
    options = {**DEFAULTS.get(source.format, {}), **source.options}
    if source.format in WRITTEN and "mode" not in options:
        options["mode"] = "PERMISSIVE" if keep_bad else "FAILFAST"
        options["columnNameOfCorruptRecord"] = CORRUPT
    reader = (spark.readStream if live else spark.read).format(source.format).options(**options)
    schema = _declared(source, keep_bad=keep_bad) if source.format != "kafka" else None
    if schema is None and live and source.path is not None and source.format in ("parquet", "orc"):
        schema = spark.read.format(source.format).options(**source.options).load(source.path).schema
    reader = reader if schema is None else reader.schema(schema)
    return reader.load(source.path) if source.path is not None else reader.load()


def _declared(source: JobSource, *, keep_bad: bool) -> T.StructType | None:
    """The schema that the file declares; of texts that may be unreadable, with a column that says so."""
    if source.schema is None:
        return None
    schema = parse_schema(source.schema)
    if keep_bad and source.format in (*WRITTEN, "kafka"):
        schema = schema.add(CORRUPT, T.StringType())
    return schema


def parse_schema(text: str) -> T.StructType:
    """Columns and types as SQL writes them: "tag STRING, price DECIMAL(9, 2)"."""
    try:
        found = T.StructType.fromDDL(text)
    except PySparkException as error:
        detail = next((line.strip() for line in str(error).splitlines() if line.strip()), None)
        hint = 'write columns and types as in SQL: schema = "type STRING, time TIMESTAMP, price DOUBLE"'
        raise InputError(f"the schema {text!r} cannot be read", detail=detail, hint=hint) from None
    assert isinstance(found, T.StructType)
    return found


def _messages(df: DataFrame, source: JobSource, *, keep_bad: bool) -> DataFrame:
    """Kafka's messages: the JSON of their values as columns, everything else under names that begin with kafka_."""
    beside = [sf.col(name).alias(f"kafka_{name}") for name in KAFKA]
    value = sf.col("value").cast("string")
    schema = _declared(source, keep_bad=keep_bad)
    if source.value_format == "raw" or schema is None:
        return df.select(value.alias("value"), *beside)
    options = {"mode": "PERMISSIVE" if keep_bad else "FAILFAST", "columnNameOfCorruptRecord": CORRUPT}
    parsed = sf.from_json(value, schema, options).alias("__value")
    return df.select(parsed, *beside).select("__value.*", *(f"kafka_{name}" for name in KAFKA))


def _mapped(df: DataFrame, pipeline: JobFile, source: JobSource) -> DataFrame:
    """Renamed, computed, filtered and dropped columns, in this order."""
    for new, old in source.rename.items():
        where = place(pipeline, source.name, f"rename.{new}")
        _demand(df, old, where)
        if new in df.columns:
            raise InputError(f"{where}: there is a column {new!r} already", hint="drop it, or choose another name")
        df = df.withColumnRenamed(old, new)
    for name, text in source.columns.items():  # each alone first, so that the wrong one can be named
        with placed(place(pipeline, source.name, f"columns.{name}")):
            df.select(sf.expr(text))
    if source.columns:
        df = df.withColumns({name: sf.expr(text) for name, text in source.columns.items()})
    if source.where is not None:
        with placed(place(pipeline, source.name, "where")):
            df = df.where(source.where)
    for name in source.drop:
        _demand(df, name, place(pipeline, source.name, "drop"))
    return df.drop(*source.drop)


def _demand(df: DataFrame, name: str, where: str) -> None:
    if name not in df.columns:
        detail = f"the columns are: {', '.join(df.columns)}"
        raise InputError(f"{where}: there is no column {name!r}", detail=detail, hint=meant(name, df.columns))


def _roles(df: DataFrame, pipeline: JobFile, source: JobSource) -> DataFrame:
    """The columns that have roles, under the names of these roles. An id or a source stays an attribute too."""
    where: Callable[[str], str] = lambda key: place(pipeline, source.name, key)  # noqa: E731
    names = set(df.columns)
    time, end = source.time, source.end
    if time == "time" and "time" not in names and "start" in names:
        time = "start"
    if end is None and "end" in names:
        end = "end"
    for key, name in (("type", None if source.event else source.type), ("time", time), ("end", end)):
        if name is not None:
            _demand(df, name, where(key))
            _fit(df, name, key, where(key))
    if source.event is not None:
        df = df.drop("type") if source.columns.get("type") is None else df
        df = _named(df, "type", sf.lit(source.event), where("event"))
    for role, name in (("type", None if source.event else source.type), ("time", time), ("end", end)):
        if name is not None and name != role:
            df = _named(df, role, column(name), where(role)).drop(name)
    if source.eid not in (None, "eid"):
        _demand(df, str(source.eid), where("eid"))
        df = _named(df, "eid", column(str(source.eid)), where("eid"))
    if source.source is not None:
        df = _with_source(df, source, source.source, where("source"))
    if CORRUPT in df.columns:  # a row that cannot be read has no time, and is reported as such
        df = df.withColumn("time", sf.when(sf.col(CORRUPT).isNull(), sf.col("time"))).drop(CORRUPT)
    return df.drop(*(f"kafka_{name}" for name in KAFKA))


def _with_source(df: DataFrame, source: JobSource, name: str, where: str) -> DataFrame:
    """The column that names the source of an event; where a backfill reads no messages, their partition is unknown."""
    if name.startswith("kafka_") and source.format != "kafka":
        return _named(df, "source", sf.lit(None).cast("string"), where)
    _demand(df, name, where)
    return df if name == "source" else _named(df, "source", column(name).cast("string"), where)


def _named(df: DataFrame, role: str, value: Column, where: str) -> DataFrame:
    if role in df.columns:
        raise InputError(
            f"{where}: there is a column {role!r} already, and every event has its own {role!r}",
            hint=f'drop that column or rename it: rename = {{ my_{role} = "{role}" }}',
        )
    return df.withColumn(role, value)


def _fit(df: DataFrame, name: str, role: str, where: str) -> None:
    """Check the column types of the roles: a time must be a time, a type a text."""
    type = df.schema[name].dataType
    if isinstance(type, TEXT if role == "type" else WHOLE_TYPES + INSTANT):
        return
    remedy = f"to_timestamp({name})" if isinstance(type, TEXT) else f"CAST({name} AS timestamp)"
    remedy = f"CAST({name} AS string)" if role == "type" else remedy
    wanted = "a text" if role == "type" else "a timestamp, a date or a whole number"
    raise InputError(
        f"{where}: column {name!r} is {type.simpleString()}, and must be {wanted}",
        hint=f'convert it: columns = {{ {name} = "{remedy}" }}',
    )


# --- all together --------------------------------------------------------------------------------------------------


def _union(pipeline: JobFile, frames: dict[str, DataFrame]) -> DataFrame:
    names = list(frames)
    whole = frames[names[0]]
    seen = {field.name: (field.dataType, names[0]) for field in whole.schema.fields}
    for name in names[1:]:
        df = frames[name]
        for field in df.schema.fields:
            type, first = seen.setdefault(field.name, (field.dataType, name))
            if type != field.dataType and not (
                isinstance(type, WHOLE_TYPES) and isinstance(field.dataType, WHOLE_TYPES)
            ):
                raise InputError(
                    f"{place(pipeline, name)}: column {field.name!r} is {field.dataType.simpleString()}, "
                    f"and {type.simpleString()} in [source.{first}]",
                    hint=f'convert one of them: columns = {{ {field.name} = "CAST({field.name} AS ...)" }}',
                )
        whole = whole.unionByName(df, allowMissingColumns=True)
    return whole


def _schema(pipeline: JobFile, frames: dict[str, DataFrame]) -> Schema | None:
    """The types with the attributes of their sources; None where any type may come."""
    types: dict[str, dict[str, Field]] = {}
    for source in pipeline.sources:
        if source.closed is None:
            if pipeline.order.longest:
                raise InputError(
                    f"[order] says how long intervals may last, and [source.{source.name}] not which types it has",
                    hint='say event = "..." or types = ["..."] at each source',
                )
            return None
        fields = [field_of(each) for each in arrow_schema(frames[source.name].schema)]
        own = {
            each.name: each for each in fields if each is not None and each.name not in ("type", "time", "end", "eid")
        }
        for name in source.closed:
            types.setdefault(name, {}).update(own)
    unit = pipeline.run.time_unit
    longest = {type: length_of(type, length, unit) for type, length in pipeline.order.longest.items()}
    return Schema(types=types, open_types=False, unit=unit, longest=longest)
