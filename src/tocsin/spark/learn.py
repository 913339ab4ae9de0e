"""Learn a constraint from the traces of a table: Spark puts the traces together, and only kinds of traces travel."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from tocsin.constraint.mining import Mined, learn
from tocsin.errors import InputError
from tocsin.spark.event_frame import quoted

MOST_KINDS = 1_000_000  # of traces, in the memory of the driver


def learn_constraint(
    frame: DataFrame, *, key: Sequence[str], type: str = "type", time: str = "time", name: str = "learned", k: int = 2,
    least: float = 0.001,
) -> Mined:  # fmt: skip
    """The constraint that most traces of a table obey, with the share of traces that do, and those that do not.

    As `tocsin constraints learn`: `constraint` prints as text to be edited. A trace is the events with one value of
    `key`, in order of `time` (where an event lasts: its end), those of one time in order of their types. Rows that
    lack one of the three are left out.

    k      how far states are told apart by what can follow; 0: directly follows
    least  of all traces, the share that a step must have to be kept
    """
    missing = [column for column in (type, time, *key) if column not in frame.columns]
    if missing:
        raise InputError(
            f"the table has no column {missing[0]}", detail=f"it has {', '.join(frame.columns)}",
            hint="name the columns: type=, time=, key=[...]",
        )  # fmt: skip
    if frame.isStreaming:
        raise InputError("a constraint is learned from a table", hint="read what the stream has stored as a batch")
    named = [sf.col(quoted(column)).alias(f"k{at}") for at, column in enumerate(key)]
    events = frame.select(sf.col(quoted(time)).alias("t"), sf.col(quoted(type)).cast("string").alias("y"), *named)
    traces = events.dropna().groupBy(*(f"k{at}" for at in range(len(key))))
    words = traces.agg(sf.sort_array(sf.collect_list(sf.struct("t", "y"))).getField("y").alias("word"))
    kinds = words.groupBy("word").count().limit(MOST_KINDS + 1).collect()
    if len(kinds) > MOST_KINDS:
        hint = "is the key right? Or learn from a part of the traces: df.where(...)"
        raise InputError(f"there are more than {MOST_KINDS:,} kinds of traces", hint=hint)
    return learn({tuple(row["word"]): row["count"] for row in kinds}, name=name, key=tuple(key), k=k, least=least)
