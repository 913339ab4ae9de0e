"""Metrics of a running stream: computed into Spark's progress, read from it, or passed to a callback."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.listener import StreamingQueryListener

from tocsin.shards.job import Job

NAME = "tocsin"  # of the observed metrics in a query's progress
SUMS = ("events", "keyless", "late", "bad", "held", "matches", "state_bytes")


def measures(job: Job) -> list[Column]:
    """Return the aggregates that Spark observes in every micro-batch, over the metrics rows of its shards."""
    told = sf.when(sf.col("kind") == "metrics", sf.col("details"))

    def number(name: str) -> Column:
        return sf.get_json_object(told, f"$.{name}").cast("long")

    found = [sf.coalesce(sf.sum(number(name)), sf.lit(0)).alias(name) for name in SUMS]
    found.append(sf.min(number("watermark")).alias("watermark"))
    idle = sf.get_json_object(told, "$.idle")
    found.append(sf.max(sf.when(idle != "[]", idle)).alias("idle"))
    plans = {
        n: p
        for shards in job.shards
        for unit in shards.group.units
        for n, p in zip(unit.numbers, unit.plans, strict=True)
    }
    for name in dict.fromkeys(plans[number].title for number in sorted(job.shown)):
        mine = (sf.col("kind") == "match") & (sf.col("query") == name)
        found.append(sf.coalesce(sf.sum(mine.cast("long")), sf.lit(0)).alias(f"matches of {name or 'the query'}"))
    return found


def numbers(progress: Any) -> dict[str, Any]:
    """Return the metrics of a progress: an element of `StreamingQuery.recentProgress`, or what a listener gets."""
    observed = progress["observedMetrics"] if isinstance(progress, Mapping) else progress.observedMetrics
    found = observed.get(NAME)
    if found is None:
        return {}
    told = dict(found) if isinstance(found, Mapping) else found.asDict()
    if set(told) == {"values", "schema"}:  # as Spark Connect tells a row
        names = [field["name"] for field in told["schema"]["fields"]]
        return dict(zip(names, told["values"], strict=True))
    return told


class Watcher(StreamingQueryListener):
    """A listener that calls back with the metrics of every micro-batch."""

    def __init__(self, callback: Callable[[str | None, int, dict[str, Any]], None]) -> None:
        self.callback = callback

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        pass

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        found = numbers(event.progress)
        if found:
            self.callback(event.progress.name, event.progress.batchId, found)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        pass

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        pass


def watch(spark: SparkSession, callback: Callable[[str | None, int, dict[str, Any]], None]) -> Watcher:
    """Call `callback(name of the stream, batch, metrics)` after every micro-batch of every Tocsin stream."""
    watcher = Watcher(callback)
    spark.streams.addListener(watcher)
    return watcher
