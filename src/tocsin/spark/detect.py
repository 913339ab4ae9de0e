"""The one call: events in a DataFrame, matches in a DataFrame, in a batch or in a stream."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tocsin.encode.columns import Columns
from tocsin.errors import TocsinError
from tocsin.functions import registered
from tocsin.plan.block import Plan
from tocsin.run.query import Query, as_schema, plans_of
from tocsin.run.query import query as as_query
from tocsin.run.schemas import check_unit
from tocsin.schema import Schema
from tocsin.spark.batch import detect_batch
from tocsin.spark.frames import Frame, column, open_frame
from tocsin.spark.job import Job, Shards, called, carried, reduced
from tocsin.spark.result import result_schema
from tocsin.spark.routes import Group, groups_of, units_of
from tocsin.spark.shuffle import end_of, send
from tocsin.spark.slices import Slices, cut, margins

SLICES_PER_CORE = 2


def detect(
    events: DataFrame | Mapping[str, DataFrame],
    query: Any,
    *,
    type: str = "type",
    time: str = "time",
    end: str | None = None,
    eid: str | None = None,
    source: str | None = None,
    time_unit: str | None = None,
    schema: Schema | Mapping[str, Any] | None = None,
    buckets: int | None = None,
    all: bool = False,
    jit: bool = True,
) -> DataFrame:
    asked = one_query(query)
    check_unit(time_unit)
    columns = Columns(type=type, time=time, end=end, eid=eid, source=source, unit=time_unit)
    frame = open_frame(events, columns, as_schema(schema) or asked.schema)
    plans = plans_of(asked.queries, frame.schema)
    shown = frozenset(range(len(plans)) if all else asked.answers)
    job, keep = plan_job(frame, plans, shown, buckets=buckets, jit=jit)
    return detect_batch(frame, send(frame, job, keep), job.compiled())


def one_query(query: Any) -> Query:
    """Text, a Query, or several of them, as one Query."""
    if isinstance(query, Query):
        return query
    if isinstance(query, Sequence) and not isinstance(query, str):
        several = [one_query(each) for each in query]
        return Query(tuple(each for one in several for each in one.queries), several[0].schema if several else None)
    return as_query(query)


def plan_job(
    frame: Frame, plans: tuple[Plan, ...], shown: frozenset[int], *, buckets: int | None, jit: bool
) -> tuple[Job, list[str] | None]:
    """Groups, shards and the shape of the result; and the attributes that must travel."""
    if buckets is not None and buckets < 1:
        raise TocsinError(f"{buckets} buckets are too few", hint="use at least 1, or leave it out")
    keep = carried(plans, shown, frame.schema, frame.columns)
    shards = _shards(frame, groups_of(units_of(plans)), buckets)
    answers = [plan for number, plan in enumerate(plans) if number in shown]
    names = frozenset(plan.name for plan in plans if plan.name)
    result = result_schema(answers, names, frame.rows, frame.columns, frame.time)
    functions = {name: registered()[name] for name in called(plans)}
    job = Job(
        tuple(shards), reduced(frame.schema, keep), frame.columns, result, frame.time, shown, jit, functions
    )
    return job, keep


def _shards(frame: Frame, groups: Iterable[Group], buckets: int | None) -> list[Shards]:
    cores = frame.df.sparkSession.sparkContext.defaultParallelism
    found: list[Shards] = []
    first = 0
    for group in groups:
        if group.keyed:
            each = Shards(group, first, buckets or cores)
        else:
            slices = None if frame.streaming else _slices(frame, group, buckets or SLICES_PER_CORE * cores)
            each = Shards(group, first, slices.count if slices else 1, slices)
        found.append(each)
        first += each.count
    return found


def _slices(frame: Frame, group: Group, most: int) -> Slices | None:
    """Slices in time for a batch without a key, if every query has a window of its own."""
    if most < 2 or any(len(unit.plans) > 1 for unit in group.units):
        return None
    around = margins(plan for unit in group.units for plan in unit.plans)
    if around is None:
        return None
    kinds = column(frame.columns.type)
    row = frame.df.where(kinds.isin(sorted(group.types))).agg(F.min(end_of(frame)), F.max(end_of(frame))).first()
    if row is None or row[0] is None:
        return None
    return cut(int(row[0]), int(row[1]), around, most)
