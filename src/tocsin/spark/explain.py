"""Explain in text how a query will run on Spark: what Catalyst drops, which shard gets what, how late rows are met."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tocsin.engine.inspect import describe
from tocsin.plan.durations import as_duration
from tocsin.plan.explain import explain as explain_plan
from tocsin.run.keywords import names_of, refuse_options
from tocsin.shards.job import Shards
from tocsin.shards.routes import Way, needs_one_shard
from tocsin.shards.watermark import Slack
from tocsin.spark.detect import Prepared, prepare
from tocsin.spark.signatures import like


@like(prepare)
def explain(*arguments: Any, **options: Any) -> str:
    """The plans of the queries, and what Spark will do with the events. Takes the arguments of `detect`."""
    refuse_options("explain", options, names_of(prepare))
    prepared = prepare(*arguments, **options)
    parts = [f"{explain_plan(plan)}\n{describe(plan)}" for plan in prepared.plans]
    return "\n\n".join([*parts, "\n".join(_lines(prepared))])


def _lines(prepared: Prepared) -> Iterator[str]:
    frame, job = prepared.frame, prepared.job
    if prepared.direct is not None:
        files, job = prepared.direct
        yield f"spark     a batch over {len(files.pieces)} row groups of Parquet in order of time, read by the workers"
        yield f"read      columns {', '.join(files.rows.names)}"
        yield from _group(job.shards[0], job.schema.unit)
        yield f"result    {', '.join(f'{field.name} {field.type}' for field in job.result)}"
        return
    if prepared.file_stream is not None:
        how = (
            "every shard reads all of them and picks its rows"
            if prepared.file_stream.shared
            else "dealt out to the shards"
        )
        yield f"files     Spark hands over the names of new files, the workers read them; {how}"
    if prepared.detour:
        yield f"detour    workers cannot read the input themselves: {prepared.detour}"
    yield f"spark     {'a stream' if frame.streaming else 'a batch'} in {job.count} shard{'s' if job.count > 1 else ''}"
    for text in prepared.sent.dropped:
        yield f"dropped   {text}" if not frame.streaming or text.startswith("column") else f"set aside {text}"
    if job.columns.eid is None:
        yield "carried   every column, since an event without an eid is named by its content (give eid= to carry less)"
    for shards in job.shards:
        yield from _group(shards, job.schema.unit)
    if prepared.order is not None:
        yield from _order(prepared.order, job.shards, job.schema.unit)
        partitions = frame.df.sparkSession.conf.get("spark.sql.shuffle.partitions")
        yield f"tasks     tocsin.spark.start takes at most {job.count} shuffle partitions, writeStream the session's"
        yield f"          number ({partitions}), and every micro-batch starts a task for each"
    if job.clock:
        yield "clock     in a micro-batch without events, time passes up to what the clock says, less its delay"
    names = ", ".join(f"{field.name} {field.type}" for field in job.result)
    yield f"result    {names}"


def _group(shards: Shards, unit: str | None) -> Iterator[str]:
    names = ", ".join(unit.name for unit in shards.group.units)
    last = shards.first + shards.count - 1
    where = f"shard {shards.first}" if shards.count == 1 else f"shards {shards.first} to {last}"
    if shards.slices is not None:
        s = shards.slices
        length, back, ahead = (as_duration(each, unit) for each in (s.length, s.back, s.ahead))
        yield f"{where}: {names}; no key, so time is cut into {s.count} slices of {length},"
        yield f"          each with {back} before and {ahead} behind"
        return
    reasons = [reason for unit in shards.group.units if (reason := needs_one_shard(unit))]
    if not shards.group.keyed and reasons:
        yield f"{where}: {names}; everything goes through one task"
        yield from (f"          {reason}" for reason in reasons)
        return
    if not shards.group.keyed:
        yield f"{where}: {names}; no key and no window to cut by, so everything goes through one task"
        return
    yield f"{where}: {names}; by hash of"
    for type, way in sorted(shards.group.ways.items()):
        yield f"          {type}: {_way(way)}"
    if shards.group.homes:
        yield "          an event that goes to several shards counts as a first event only where it is at home"


def _way(way: Way) -> str:
    keys = " and by ".join(f"({', '.join(key)})" for key in way.keys)
    if way.everywhere:
        return f"everywhere, since it stands at a leaf without the key{f'; also by {keys}' if keys else ''}"
    return keys


def _order(order: Slack, shards: tuple[Shards, ...], unit: str | None) -> Iterator[str]:
    late = as_duration(order.late, unit)
    yield f"order     events may come {late} late; later ones are reported as rows of kind 'late'"
    kind = order.strategy.kind
    if not order.strategy.sorts:
        yield f"          {kind}: {order.strategy.level}" + ("; op -1 withdraws" if order.strategy.corrects else "")
    if order.idle is not None:
        yield f"          a source that lags by more than {as_duration(order.idle, unit)} is not waited for"
    if order.sources:
        yield f"          nothing is settled before {', '.join(order.sources)} have shown themselves"
    reaches = [each.group.reach for each in shards if not each.group.keeps_state]
    known = [reach for reach in reaches if reach is not None]
    if reaches:
        until = f"until {as_duration(max(known, default=0), unit)} behind the guarantee"
        yield f"state     events are kept {'for ever' if len(known) < len(reaches) else until}"
    if len(reaches) < len(shards):
        yield "state     of statements and begins: what they know, stored whole with each micro-batch"
