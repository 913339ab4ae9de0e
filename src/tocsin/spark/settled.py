"""Fold a log of answers and retractions into the matches that stand."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from tocsin.engine.kinds import COUNT, MATCH, TIMEOUT
from tocsin.errors import InputError
from tocsin.spark.event_frame import quoted


def settled(log: DataFrame) -> DataFrame:
    """The matches that were given and not withdrawn, each once, as rows like those of the log.

    `log` is what `detect` gave and a sink stored: rows with `op` 1 and -1. Timeouts are folded in the same way. Rows of
    other kinds (late, metrics) are left out. On a streaming frame the result is an aggregate, to be written with
    outputMode "update" or "complete".
    """
    missing = [name for name in ("match_id", "op") if name not in log.columns]
    if missing:
        raise InputError(
            f"there is no column {missing[0]!r}", detail=f"the columns are: {', '.join(log.columns)}",
            hint="give the rows that tocsin.spark.detect made, as a sink has stored them",
        )  # fmt: skip
    rows = log.where(sf.col("kind").isin(MATCH, TIMEOUT, COUNT)) if "kind" in log.columns else log
    key = [name for name in ("query", "match_id") if name in log.columns]
    kept = [name for name in log.columns if name not in (*key, "op")]
    latest = [sf.last(sf.col(quoted(name))).alias(name) for name in kept]
    folded = rows.groupBy(*key).agg(sf.sum("op").alias("op"), *latest).where(sf.col("op") > 0)
    columns = [sf.lit(1).cast(log.schema[name].dataType).alias(name) if name == "op" else sf.col(quoted(name))
               for name in log.columns]  # fmt: skip
    return folded.select(*columns)
