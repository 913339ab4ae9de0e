"""Heartbeats of a stream: what its clock says, as rows that reach every shard beside those of the events.

Time is a source like any other, so Spark writes into the checkpoint what it said before a micro-batch runs: one that is
repeated hears the same, and after a restart time goes on from there, also where no event has come.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from tocsin.errors import InputError
from tocsin.lang.syntax import UNITS
from tocsin.run.clock import Clock
from tocsin.spark.event_frame import INSTANT, WHOLE_TYPES, EventFrame
from tocsin.spark.expressions import columns_of, ticks

BEAT = "beat"


def heartbeats(frame: EventFrame, clock: Clock) -> DataFrame:
    """What a clock says: every event that ends at or before a time, in ticks, has arrived.

    The ticks are texts, since numbers with nulls among them would become floats on their way through pandas.
    """
    now = _wall_clock(frame) if clock.now is None else _checked(clock.now)
    [field], unit = now.schema.fields, frame.schema.unit
    source = columns_of(now.schema)(field.name)
    moment = None if source is None else ticks(source)
    if moment is None or (isinstance(field.dataType, INSTANT) and unit is None):
        raise InputError(
            f"the clock says the time as {field.dataType.simpleString()}, and the events say it in ticks of their own",
            hint="give it a column of such ticks, as whole numbers; or say time_unit=...",
        )
    if isinstance(field.dataType, INSTANT):
        length = sf.lit(UNITS[str(unit)])
        moment = ((moment - sf.pmod(moment, length)) / length).cast("long")
    return now.select((moment - sf.lit(clock.delay_in(frame.schema))).cast("string").alias(BEAT))


def _wall_clock(frame: EventFrame) -> DataFrame:
    """The clock of the driver, once a second."""
    seconds = frame.df.sparkSession.readStream.format("rate").options(rowsPerSecond=1, numPartitions=1)
    return seconds.load().select("timestamp")


def _checked(now: Any) -> DataFrame:
    if not getattr(now, "isStreaming", False) or len(now.columns) != 1:
        raise InputError(
            "the clock of a stream on Spark is a streaming DataFrame with one column, the time",
            detail="what it says must be in the checkpoint, so that a repeated micro-batch hears the same",
            hint='say clock="30 s" for the wall clock, or Clock("30 s", now=frame.select("timestamp"))',
        )
    if not isinstance(now.schema.fields[0].dataType, (*INSTANT, *WHOLE_TYPES)):
        raise InputError(
            f"the clock says the time as {now.schema.fields[0].dataType.simpleString()}, which is no time",
            hint="a time is a timestamp, a date or a whole number of ticks",
        )
    found: DataFrame = now
    return found
