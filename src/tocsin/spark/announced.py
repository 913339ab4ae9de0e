"""Rows that announce intervals (`item=`), as Spark reads them: what each row is, and what a batch says of begins.

A batch has its whole history, so begins tell nothing there but which intervals never ended.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from tocsin.errors import InputError, TocsinError
from tocsin.events import ANY
from tocsin.schema import Field
from tocsin.shards.announced import ITEM, REASONS, WORDS, RowItem
from tocsin.shards.watermark import Slack
from tocsin.spark.event_frame import TEXT, EventFrame, column
from tocsin.spark.expressions import columns_of, ticks


def with_items(frame: EventFrame, item: str) -> EventFrame:
    """The frame with a column that says by number what each row is; `item` names the one that says it in words.

    Begins and promises have no end; they get their time for it, since that is where they stand among the events.
    """
    _check(frame, item)
    ends = str(frame.columns.end)
    word, end, time = sf.lower(sf.trim(column(item))), column(ends), column(frame.columns.time)
    code = sf.when(word.isNull() | (word == "event"), sf.lit(int(RowItem.EVENT)))
    code = code.when((word == "begin") & end.isNotNull(), sf.lit(int(RowItem.ENDED)))
    for text, kind in WORDS.items():
        code = code.when(word == text, sf.lit(int(kind)))
    df = frame.df.withColumn(ITEM, code.otherwise(sf.lit(int(RowItem.STRANGE))).cast("int"))
    moment = time.cast(frame.df.schema[ends].dataType)
    df = df.withColumn(ends, sf.when(are(RowItem.BEGIN, RowItem.PROMISE), moment).otherwise(end)).drop(item)

    def others(fields: Iterable[tuple[str, Field]]) -> dict[str, Field]:
        return {name: field for name, field in fields if name != item}

    schema = frame.schema
    types = {name: others(own.items()) for name, own in schema.types.items()}
    schema = replace(schema, common=others(schema.common.items()), types=types)
    return replace(
        frame, df=df, rows=frame.rows.remove(frame.rows.get_field_index(item)), schema=schema, announces=True
    )


def _check(frame: EventFrame, item: str) -> None:
    columns = frame.columns
    if item not in frame.rows.names:
        known = ", ".join(map(repr, frame.rows.names))
        raise InputError(
            f"the input has no column {item!r} that says what a row is", detail=f"its columns are: {known}"
        )
    if not isinstance(frame.df.schema[item].dataType, TEXT) or item in (columns.type, columns.eid, columns.source):
        raise InputError(
            f"the column {item!r} cannot say what a row is",
            hint=f"name a column of texts: {', '.join(map(repr, WORDS))}, or null for an event",
        )
    if columns.end is None or columns.eid is None:
        lacking = "end" if columns.end is None else "eid"
        raise InputError(
            f"begins announce intervals, and the frame has no column for the {lacking} of one",
            hint=f"say which column it is ({lacking}=...), or leave item= out",
        )


def check_order(order: Slack | None, *, arrival: str | None, limited: bool) -> None:
    """Refuse what does not go with begins on a stream."""
    if order is None:
        return
    if order.strategy.sorts:
        raise TocsinError(
            "a stream with begins looks at events as they come",
            detail="where events are held back and sorted, nobody can tell which intervals were delivered already",
            hint='say order="conservative(10 min)": its answers are final too, and come no later',
        )
    if arrival is not None or limited:
        name = "memory_limit" if limited else "arrival"
        raise TocsinError(f"a stream with begins does not take {name}=", hint="leave it, or item=, out")


def are(*kinds: RowItem) -> Column:
    """Rows of these kinds."""
    return column(ITEM).isin([int(kind) for kind in kinds])


# --- a batch -------------------------------------------------------------------------------------------------------


def without_begins(frame: EventFrame, *, keep_bad: bool) -> EventFrame:
    """The events of a batch; rows that say what cannot be end the job, unless they are reported."""
    odd = are(*REASONS)
    df = frame.df
    if not keep_bad:
        texts = [f"an event cannot be used: {reason}" for reason in REASONS.values()]
        code = sf.when(are(RowItem.STRANGE), sf.raise_error(sf.lit(texts[0])).cast("int"))
        code = code.when(are(RowItem.ENDED), sf.raise_error(sf.lit(texts[1])).cast("int")).otherwise(column(ITEM))
        df = df.withColumn(ITEM, code)
    kept = df.where(are(RowItem.EVENT)) if keep_bad else df.where(are(RowItem.EVENT) | odd)
    return replace(frame, df=kept.drop(ITEM), announces=False)


def reports(frame: EventFrame, types: Iterable[str], *, keep_bad: bool) -> list[tuple[str, DataFrame]]:
    """What a batch tells besides answers, as kinds of rows and frames of one text: bad, unended and late rows."""
    found: list[tuple[str, DataFrame]] = []
    columns, df = frame.columns, frame.df
    whole = [column(name) for name in frame.rows.names]
    if frame.announces:
        if keep_bad:
            why = sf.when(are(RowItem.STRANGE), sf.lit(REASONS[RowItem.STRANGE])).otherwise(
                sf.lit(REASONS[RowItem.ENDED])
            )
            found.append(("bad", df.where(are(*REASONS)).select(_json([why.alias("reason"), *whole]))))
        own = [
            column(str(columns.eid)).alias("eid"),
            column(columns.type).alias("type"),
            column(columns.time).alias("start"),
        ]
        read = sf.lit(True) if ANY in types else column(columns.type).isin(sorted(types))
        begun = df.where(are(RowItem.BEGIN) & read).select(*own).distinct()
        ended = df.where(are(RowItem.EVENT)).select(*own)
        found.append(("unended", begun.join(ended, ["eid", "type", "start"], "left_anti").select(_json(begun.columns))))
    if frame.schema.longest:
        field = columns_of(df.schema)
        start, end = (ticks(field(name)) for name in (columns.time, columns.end or columns.time))  # type: ignore[arg-type]
        assert start is not None and end is not None
        tests = [(column(columns.type) == type) & (end - start > most) for type, most in frame.schema.longest.items()]
        late = reduce(Column.__or__, tests)
        late = late & are(RowItem.EVENT) if frame.announces else late
        found.append(("late", df.where(late).select(_json(whole))))
    return found


def _json(columns: list[Column] | list[str]) -> Column:
    return sf.to_json(sf.struct(*columns)).alias("details")


def with_reports(result: DataFrame, told: list[tuple[str, DataFrame]]) -> DataFrame:
    """The result of a batch with rows of these kinds."""
    for kind, rows in told:
        known = {"kind": sf.lit(kind), "details": column("details")}
        shown = [
            known.get(field.name, sf.lit(None)).cast(field.dataType).alias(field.name) for field in result.schema.fields
        ]
        result = result.unionByName(rows.select(*shown))
    return result
