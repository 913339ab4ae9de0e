"""Rows on their way: what Catalyst drops, and the shard that each row is sent to."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tocsin.schema import Kind
from tocsin.spark.blocks import COPY, SHARD
from tocsin.spark.expressions import columns_of, row_filter
from tocsin.spark.frames import Frame, column
from tocsin.spark.job import Job, Shards
from tocsin.spark.routes import Attrs, Group, own_columns


@dataclass(frozen=True)
class Sent:
    """Rows with the shard of each (a row may stand there several times), and what was dropped before."""

    df: DataFrame
    dropped: tuple[str, ...]


def ticks(name: str, type: pa.DataType) -> Column:
    """A time column as our ticks: whole numbers as they are, points in time as microseconds, in whatever zone."""
    value = column(name)
    if pa.types.is_date(type):
        return F.unix_date(value).cast("long") * F.lit(86_400_000_000)
    if pa.types.is_timestamp(type) and type.tz is None:
        return F.timestamp_diff("MICROSECOND", F.lit("1970-01-01").cast("timestamp_ntz"), value)
    return F.unix_micros(value) if pa.types.is_timestamp(type) else value.cast("long")


def end_of(frame: Frame) -> Column:
    name = frame.columns.end or frame.columns.time
    return ticks(name, frame.rows.field(name).type)


# --- what is dropped -----------------------------------------------------------------------------------------------


def wanted(frame: Frame, group: Group) -> tuple[Column, list[str]]:
    """The rows that a group may need, and what was pushed down to find them."""
    kinds = column(frame.columns.type)
    free: list[str] = []
    tests: list[Column] = []
    said: list[str] = []
    names = {"start": frame.columns.time, "end": frame.columns.end or frame.columns.time}
    field, ends = columns_of(frame.df.schema), columns_of(frame.df.schema, names)
    plans = [plan for unit in group.units for plan in unit.plans]
    for type in sorted(group.types):
        test = row_filter(type, plans, field, ends)
        if test is None:
            free.append(type)
        else:
            tests.append((kinds == F.lit(type)) & test)
            said.append(type)
    if free:
        tests.insert(0, kinds.isin(free))
    return reduce(lambda a, b: a | b, tests), said


# --- where a row goes ----------------------------------------------------------------------------------------------


def bucket(frame: Frame, attrs: Attrs, count: int) -> Column:
    """The bucket of a row by its key; null where a part of the key is null, since null equals nothing."""
    values = [_exact(frame, attr) for attr in attrs]
    known = reduce(lambda a, b: a & b, [value.isNotNull() for value in values])
    return F.when(known, F.pmod(F.xxhash64(*values), F.lit(count)).cast("int"))


def _exact(frame: Frame, attr: str) -> Column:
    """A key attribute in a form that is equal exactly where the engine finds it equal."""
    field = frame.schema.common.get(attr) or next(own[attr] for own in frame.schema.types.values() if attr in own)
    type = frame.rows.field(attr).type
    match field.kind:
        case Kind.INT:
            return column(attr).cast("long")
        case Kind.TIME:
            return ticks(attr, type)
        case Kind.DECIMAL:
            return column(attr).cast(f"decimal(38,{field.scale})")
        case Kind.TEXT:
            return column(attr).cast("string")
    return column(attr)


def shards_of(frame: Frame, shards: Shards) -> Column:
    """The shards of a row within a group, as one number where that is enough, else as an array."""
    first, count = shards.first, shards.count
    if shards.slices is not None:
        return _slices(frame, shards)
    if not shards.group.keyed:
        return F.lit(first)
    kinds = column(frame.columns.type)
    cases: list[tuple[list[str], Column]] = []
    plain = all(way.is_single for way in shards.group.ways.values())
    for type, way in shards.group.ways.items():
        numbers = [bucket(frame, attrs, count) + F.lit(first) for attrs in way.keys]
        if plain:
            target = numbers[0]
        elif way.everywhere:
            target = F.sequence(F.lit(first), F.lit(first + count - 1))
        else:
            target = F.array_compact(F.array_distinct(F.array(*numbers)))
        same = next((each for each in cases if str(each[1]) == str(target)), None)
        if same is not None:
            same[0].append(type)
        else:
            cases.append(([type], target))
    if len(cases) == 1:
        return cases[0][1]
    return reduce(lambda a, b: a.when(kinds.isin(b[0]), b[1]), cases[1:], F.when(kinds.isin(cases[0][0]), cases[0][1]))


def _slices(frame: Frame, shards: Shards) -> Column:
    """Every slice that must see a row: its own, and those whose margins it lies in."""
    slices = shards.slices
    assert slices is not None
    at = end_of(frame) - F.lit(slices.first)
    lowest = F.greatest(F.floor((at - F.lit(slices.ahead)) / F.lit(slices.length)).cast("int"), F.lit(0))
    highest = F.floor((at + F.lit(slices.back)) / F.lit(slices.length)).cast("int")
    highest = F.greatest(F.least(highest, F.lit(slices.count - 1)), F.lit(0))
    lowest = F.least(lowest, highest)
    return F.sequence(lowest + F.lit(shards.first), highest + F.lit(shards.first))


def unusable(frame: Frame) -> Column:
    """Rows that no detector can take: they are sent along to be reported."""
    columns = frame.columns
    tests = [column(columns.type).isNull(), column(columns.time).isNull()]
    if columns.end is not None:
        tests += [column(columns.end).isNull(), column(columns.end) < column(columns.time)]
    if columns.eid is not None:
        tests.append(column(columns.eid).isNull())
    return F.coalesce(reduce(lambda a, b: a | b, tests), F.lit(True))


def send(frame: Frame, job: Job, keep: list[str] | None, unknown: Column | None = None) -> Sent:
    """Rows with their shards: filtered, pruned, and repeated where several shards need them.

    Rows that must be reported, because they are unusable or (`unknown`) of a type that nobody declared, go to shard 0.
    In a stream, rows that nobody reads go along without a shard: they move the clock.
    """
    columns = frame.columns
    roles = [columns.type, columns.time, columns.end, columns.eid, columns.source]
    names = [name for name in frame.df.columns if keep is None or name in keep or name in roles]
    reported = unusable(frame) if unknown is None else unusable(frame) | unknown
    tests, targets, said = [], [], []
    for shards in job.shards:
        test, pushed = wanted(frame, shards.group)
        tests.append(test)
        targets.append(shards_of(frame, shards))
        said += pushed
    some = reduce(lambda a, b: a | b, tests)
    df = frame.df if frame.streaming else frame.df.where(some | reported)
    needed = [_needed(frame, name, some | reported) for name in names]
    df = _with_shard(df, job, tests, targets, needed, reported, clock=frame.streaming)
    for shards in job.shards:
        for home, name in own_columns(shards.group).items():
            mine = bucket(frame, home, shards.count) + F.lit(shards.first) == column(SHARD)
            df = df.withColumn(name, mine)
    types = sorted(set().union(*(shards.group.types for shards in job.shards)))
    dropped = [f"rows of other types than {', '.join(types)}"]
    dropped += [f"rows of {type} that no leaf takes" for type in sorted(set(said))]
    dropped += [f"column {name}" for name in frame.df.columns if name not in names]
    return Sent(df, tuple(dropped))


def _needed(frame: Frame, name: str, some: Column) -> Column:
    """A column of a row; texts of rows that only move the clock do not travel."""
    light = not frame.streaming or name in (frame.columns.type, frame.columns.source)
    if light or not pa.types.is_string(frame.rows.field(name).type):
        return column(name)
    return F.when(some, column(name)).alias(name)


def _with_shard(
    df: DataFrame,
    job: Job,
    tests: list[Column],
    targets: list[Column],
    names: list[Column],
    reported: Column,
    *,
    clock: bool,
) -> DataFrame:
    if len(job.shards) == 1 and not _is_many(job.shards[0]):
        target = F.when(reported, F.lit(0)).otherwise(F.when(tests[0], targets[0]))
        df = df.select(*names, target.alias(SHARD))
        return df if clock else df.where(column(SHARD).isNotNull())
    nothing = F.array().cast("array<int>")
    parts = []
    for shards, test, target in zip(job.shards, tests, targets, strict=True):
        many = target if _is_many(shards) else F.array_compact(F.array(target))
        parts.append(F.when(test, F.coalesce(many, nothing)).otherwise(nothing))
    whole = parts[0] if len(parts) == 1 else F.concat(*parts)
    whole = F.when(reported, F.array(F.lit(0))).otherwise(whole)
    return df.select(*names, (F.posexplode_outer if clock else F.posexplode)(whole).alias(COPY, SHARD))


def _is_many(shards: Shards) -> bool:
    return shards.slices is not None or any(not way.is_single for way in shards.group.ways.values())
