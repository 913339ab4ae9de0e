"""Metrics of running streams: computed into Spark's progress, read from it, passed to a callback, or told as text."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.listener import StreamingQueryListener

from tocsin.lang.syntax import UNITS
from tocsin.run.metrics import Sample, as_text
from tocsin.shards.job import Job

LOG = logging.getLogger("tocsin")
NAME = "tocsin"  # of the observed metrics in a query's progress
MATCHES_OF = "matches of "
SUMMED = {
    "events": "tocsin_events",
    "keyless": "tocsin_events_keyless",
    "late": "tocsin_events_late",
    "bad": "tocsin_rows_bad",
}
LATEST = {
    "held": "tocsin_answers_waiting",
    "state_bytes": "tocsin_state_bytes",
    "watermark_seconds": "tocsin_watermark_seconds",
}
SUMS = ("events", "keyless", "late", "bad", "held", "matches", "state_bytes")


def measures(job: Job) -> list[Column]:
    """Return the aggregates that Spark observes in every micro-batch, over the metrics rows of its shards."""
    told = sf.when(sf.col("kind") == "metrics", sf.col("details"))

    def number(name: str) -> Column:
        return sf.get_json_object(told, f"$.{name}").cast("long")

    found = [sf.coalesce(sf.sum(number(name)), sf.lit(0)).alias(name) for name in SUMS]
    watermark = sf.min(number("watermark"))
    found.append(watermark.alias("watermark"))
    if job.schema.unit is not None:
        found.append((watermark * (UNITS[job.schema.unit] / 1_000_000)).alias("watermark_seconds"))
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
        found.append(sf.coalesce(sf.sum(mine.cast("long")), sf.lit(0)).alias(f"{MATCHES_OF}{name or 'the query'}"))
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
            LOG.debug("stream %s, micro-batch %d: %s", event.progress.name, event.progress.batchId, found)
            self.callback(event.progress.name, event.progress.batchId, found)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        pass

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        pass


class Totals:
    """What the streams of a session have told since this began, by the name of the stream."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sums: dict[tuple[str, str, str], float] = {}  # metric, stream, rule
        self._last: dict[tuple[str, str], float] = {}

    def add(self, stream: str | None, batch: int, told: Mapping[str, Any]) -> None:
        """Take the metrics of a micro-batch."""
        del batch
        name = stream or ""
        with self._lock:
            for key, value in told.items():
                rule = key.removeprefix(MATCHES_OF)
                metric = "tocsin_matches" if rule != key else SUMMED.get(key)
                if metric is not None:
                    at = (metric, name, rule if rule != key else "")
                    self._sums[at] = self._sums.get(at, 0) + (value or 0)
                elif key in LATEST and value is not None:
                    self._last[LATEST[key], name] = value

    def text(self) -> str:
        """OpenMetrics text, for `tocsin.serve_metrics`."""
        found: dict[str, list[Sample]] = {}
        with self._lock:
            for (metric, stream, rule), value in self._sums.items():
                labels = {"stream": stream} | ({"rule": rule} if metric == "tocsin_matches" else {})
                found.setdefault(metric, []).append(("_total", labels, value))
            for (metric, stream), value in self._last.items():
                found.setdefault(metric, []).append(("", {"stream": stream}, value))
        return as_text(found)


def open_metrics(spark: SparkSession) -> Callable[[], str]:
    """Listen to all Tocsin streams of a session; what is returned gives their metrics as OpenMetrics text.

    tocsin.serve_metrics(tocsin.spark.open_metrics(spark), port=9464)
    """
    totals = Totals()
    watch(spark, totals.add)
    return totals.text


def watch(spark: SparkSession, callback: Callable[[str | None, int, dict[str, Any]], None]) -> Watcher:
    """Call `callback(name of the stream, batch, metrics)` after every micro-batch of every Tocsin stream."""
    watcher = Watcher(callback)
    spark.streams.addListener(watcher)
    return watcher
