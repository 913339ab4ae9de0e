"""Prepare rows for the shuffle as Catalyst expressions: drop what no query reads, compute the shard of each row."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from tocsin.encode.keyless import Needs
from tocsin.events import ANY
from tocsin.schema import Kind
from tocsin.shards.announced import ITEM, RowItem
from tocsin.shards.blocks import COPY, KEYLESS, SHARD
from tocsin.shards.job import Job, Shards
from tocsin.shards.routes import Attrs, Group, own_columns
from tocsin.spark.event_frame import EventFrame, EventTable, column
from tocsin.spark.expressions import columns_of, row_filter, ticks
from tocsin.spark.setup.versions import is_whole


@dataclass(frozen=True)
class Sent:
    """Rows with the shard of each (a row may stand there several times), and what was dropped before."""

    df: DataFrame
    dropped: tuple[str, ...]


def either(tests: list[Column]) -> Column:
    return reduce(Column.__or__, tests)


def instant(frame: EventFrame, name: str) -> Column:
    """A time column as our ticks: whole numbers as they are, points in time as microseconds, in whatever zone."""
    source = columns_of(frame.df.schema)(name)
    found = None if source is None else ticks(source)
    assert found is not None, f"{name} was checked to be a time"
    return found


def end_of(frame: EventFrame) -> Column:
    return instant(frame, frame.columns.end or frame.columns.time)


# --- what is dropped -----------------------------------------------------------------------------------------------


def wanted(frame: EventFrame, group: Group) -> tuple[Column, list[str]]:
    """The rows that a group may need, and what was pushed down to find them.

    Where intervals are announced each of them is needed, since its begin waits for it.
    """
    kinds = column(frame.columns.type)
    free: list[str] = []
    tests: list[Column] = []
    said: list[str] = []
    names = {"start": frame.columns.time, "end": frame.columns.end or frame.columns.time}
    field, ends = columns_of(frame.df.schema), columns_of(frame.df.schema, names)
    plans = [plan for unit in group.units for plan in unit.plans]
    for type in sorted(group.types):
        pushes = is_whole(frame.df.sparkSession) and not frame.announces
        test = row_filter(type, plans, field, ends) if pushes else None
        if type == ANY:
            rest = others(kinds, group)
            tests.append(rest if test is None else rest & test)
        elif test is None:
            free.append(type)
        else:
            tests.append((kinds == sf.lit(type)) & test)
            said.append(type)
    if free:
        tests.insert(0, kinds.isin(free))
    test = either(tests)
    return (column(ITEM).isin(int(RowItem.EVENT), int(RowItem.BEGIN)) & test if frame.announces else test), said


def others(kinds: Column, group: Group) -> Column:
    """The rows of types that only ANY takes."""
    named = sorted((group.types | {type for unit in group.units for plan in unit.plans for type in plan.emits}) - {ANY})
    return ~kinds.isin(named) if named else kinds.isNotNull()


# --- where a row goes ----------------------------------------------------------------------------------------------


def bucket(frame: EventFrame, attrs: Attrs, count: int) -> Column:
    """The bucket of a row by its key; null where a part of the key is null, since null equals nothing."""
    values = [_exact(frame, attr) for attr in attrs]
    known = ~either([value.isNull() for value in values])
    return sf.when(known, sf.pmod(sf.xxhash64(*values), sf.lit(count)).cast("int"))


def _exact(frame: EventFrame, attr: str) -> Column:
    """A key attribute in a form that is equal exactly where the engine finds it equal (`worker_reads.routing` too)."""
    form = exact_form(frame, attr)
    return instant(frame, attr) if form is None else column(attr).cast(form)


def exact_form(frame: EventTable, attr: str) -> str | None:
    """The type of Spark that holds the values of a key attribute exactly; None for points in time."""
    kind, scale = exact_kind(frame, attr)
    match kind:
        case Kind.TIME:
            return None
        case Kind.INT:
            return "bigint"
        case Kind.DECIMAL:
            return f"decimal(38,{scale})"
        case Kind.FLOAT:
            return "double"  # xxhash64 knows one zero; what is NaN, no detector takes
        case Kind.BOOL:
            return "boolean"
    return "string"


def exact_kind(frame: EventTable, attr: str) -> tuple[Kind, int]:
    """The kind of an attribute, and its decimal places."""
    field = frame.schema.common.get(attr) or next(own[attr] for own in frame.schema.types.values() if attr in own)
    return field.kind, field.scale


def shards_of(frame: EventFrame, shards: Shards) -> Column:
    """The shards of a row within a group, as one number where that is enough, else as an array."""
    first, count = shards.first, shards.count
    if shards.slices is not None:
        return _slices(frame, shards)
    if not shards.group.keyed:
        return sf.lit(first)
    kinds = column(frame.columns.type)
    cases: list[tuple[list[str], Column]] = []
    plain = all(way.is_single for way in shards.group.ways.values())
    for type, way in sorted(shards.group.ways.items(), key=lambda each: each[0] == ANY):  # the rest comes last
        numbers = [bucket(frame, attrs, count) + sf.lit(first) for attrs in way.keys]
        if plain:
            target = numbers[0]
        elif way.everywhere:
            target = sf.sequence(sf.lit(first), sf.lit(first + count - 1))
        else:
            target = sf.array_compact(sf.array_distinct(sf.array(*numbers)))
        same = next((each for each in cases if str(each[1]) == str(target)), None)
        if same is not None:
            same[0].append(type)
        else:
            cases.append(([type], target))
    if len(cases) == 1:
        return cases[0][1]
    found = sf.when(kinds.isin(cases[0][0]), cases[0][1])
    for types, target in cases[1:]:
        found = found.otherwise(target) if ANY in types else found.when(kinds.isin(types), target)
    return found


def _slices(frame: EventFrame, shards: Shards) -> Column:
    """Every slice that must see a row: its own, and those whose margins it lies in."""
    slices = shards.slices
    assert slices is not None
    at = end_of(frame) - sf.lit(slices.first)
    lowest = sf.greatest(sf.floor((at - sf.lit(slices.ahead)) / sf.lit(slices.length)).cast("int"), sf.lit(0))
    highest = sf.floor((at + sf.lit(slices.back)) / sf.lit(slices.length)).cast("int")
    highest = sf.greatest(sf.least(highest, sf.lit(slices.count - 1)), sf.lit(0))
    lowest = sf.least(lowest, highest)
    return sf.sequence(lowest + sf.lit(shards.first), highest + sf.lit(shards.first))


def unusable(frame: EventFrame, needs: Needs) -> Column:
    """Rows that no detector can take: they are sent along to be reported."""
    columns = frame.columns
    roles = (columns.type, columns.time, columns.end, columns.eid)
    lacking = either([column(name).isNull() for name in roles if name is not None])
    if not frame.announces:
        return lacking
    item = column(ITEM)
    tests = [lacking & (item != int(RowItem.PROMISE)), item.isin(int(RowItem.STRANGE), int(RowItem.ENDED))]
    return either([*tests, (item == int(RowItem.BEGIN)) & without_key(frame, needs)] if needs else tests)


def without_key(frame: EventFrame, needs: Needs) -> Column:
    """Rows that a query does not see, because an attribute of its key is null or NaN."""
    tests = []
    for attr, types in needs.items():
        missing = column(attr).isNull() if attr in frame.df.columns else sf.lit(True)
        if attr in frame.df.columns and exact_kind(frame, attr)[0] is Kind.FLOAT:
            missing = missing | sf.isnan(column(attr))
        tests.append(missing if ANY in types else column(frame.columns.type).isin(sorted(types)) & missing)
    return sf.coalesce(either(tests), sf.lit(False))


def travelling(frame: EventTable, keep: list[str] | None) -> list[str]:
    """The columns that go to the workers."""
    columns = frame.columns
    roles = (columns.type, columns.time, columns.end, columns.eid, columns.source)
    return [name for name in frame.rows.names if keep is None or name in keep or name in roles]


def send(frame: EventFrame, job: Job, keep: list[str] | None, unknown: Column | None = None) -> Sent:
    """Rows with their shards: filtered, pruned, and repeated where several shards need them.

    Rows that must be reported, because they are unusable or (`unknown`) of a type that nobody declared, go to shard 0.
    In a stream, rows that nobody reads go along without a shard: they move the clock.
    """
    names = travelling(frame, keep)
    odd = unusable(frame, job.needs)
    reported = odd if unknown is None else odd | unknown
    tests, targets, said = [], [], []
    for shards in job.shards:
        test, pushed = wanted(frame, shards.group)
        tests.append(test)
        targets.append(shards_of(frame, shards))
        said += pushed
    some = either(tests)
    df = frame.df if frame.streaming else frame.df.where(some | reported)
    needed = [_needed(frame, name, some | reported) for name in names]
    if frame.streaming and job.needs:
        needed.append(without_key(frame, job.needs).alias(KEYLESS))
    if frame.announces:
        needed.append(column(ITEM))
    df = _with_shard(df, job, tests, targets, needed, reported, clock=frame.streaming)
    for shards in job.shards:
        for home, name in own_columns(shards.group).items():
            mine = bucket(frame, home, shards.count) + sf.lit(shards.first) == column(SHARD)
            df = df.withColumn(name, mine)
    types = sorted(set().union(*(shards.group.types for shards in job.shards)))
    dropped = [] if ANY in types else [f"rows of other types than {', '.join(types)}"]
    dropped += [f"rows of {type} that no leaf takes" for type in sorted(set(said))]
    for attr, lacking in job.needs.items():
        dropped.append(f"rows of {'every type' if ANY in lacking else ', '.join(sorted(lacking))} without {attr}")
    dropped += [f"column {name}" for name in frame.df.columns if name not in names]
    return Sent(df, tuple(dropped))


def _needed(frame: EventFrame, name: str, some: Column) -> Column:
    """A column of a row; texts of rows that only move the clock do not travel."""
    light = not frame.streaming or name in (frame.columns.type, frame.columns.source)
    if light or not pa.types.is_string(frame.rows.field(name).type):
        return column(name)
    return sf.when(some, column(name)).alias(name)


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
    if len(job.shards) == 1 and not is_many(job.shards[0]):
        target = sf.when(reported, sf.lit(0)).otherwise(sf.when(tests[0], targets[0]))
        df = df.select(*names, target.alias(SHARD))
        return df if clock else df.where(column(SHARD).isNotNull())
    nothing = sf.array().cast("array<int>")
    parts = []
    for shards, test, target in zip(job.shards, tests, targets, strict=True):
        many = target if is_many(shards) else sf.array_compact(sf.array(target))
        parts.append(sf.when(test, sf.coalesce(many, nothing)).otherwise(nothing))
    whole = parts[0] if len(parts) == 1 else sf.concat(*parts)
    whole = sf.when(reported, sf.array(sf.lit(0))).otherwise(whole)
    return df.select(*names, (sf.posexplode_outer if clock else sf.posexplode)(whole).alias(COPY, SHARD))


def is_many(shards: Shards) -> bool:
    return shards.slices is not None or any(not way.is_single for way in shards.group.ways.values())
