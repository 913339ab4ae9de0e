"""Begins on shards: rows that announce an interval, and rows that promise that all begins were there.

A column of the frame says what each row is. A begin goes where its interval will go, since it has the attributes of the
key, and is put among the events by its start. A promise goes to every shard in the note of its task, as clocks do; it
counts when the micro-batch is over, so nothing that came with it is behind it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.encode.arrow import Problems
from tocsin.encode.merge import replaced
from tocsin.encode.times import ticks
from tocsin.events import BEGINNING, END_OF_TIME
from tocsin.graph.query_graph import QueryGraph
from tocsin.items import Bools, ItemKind, Items

ITEM = "__item"  # the column that says what a row is, by number
Begun = dict[str, int]  # how far begins were promised, by type and source (as JSON)
EVERYBODY = None  # the source of a promise that speaks for all


class RowItem(IntEnum):
    """What a row is. The last two are bad rows."""

    EVENT = 0
    BEGIN = 1
    PROMISE = 2
    STRANGE = 3
    ENDED = 4


WORDS = {"event": RowItem.EVENT, "begin": RowItem.BEGIN, "begins": RowItem.PROMISE}
REASONS = {
    RowItem.STRANGE: f"what the row is, is none of {', '.join(WORDS)}",
    RowItem.ENDED: "a begin has no end: the whole interval comes when it has ended",
}


def are(rows: pa.RecordBatch | pa.Table, *kinds: RowItem) -> Bools:
    """Which rows are of these kinds."""
    found: Bools = np.isin(rows.column(ITEM).to_numpy(zero_copy_only=False), kinds)
    return found


def problems_of(rows: pa.RecordBatch, keyless: str) -> Problems:
    """The rows that say something that cannot be; `keyless` is the column that marks those without a key."""
    found: Problems = [(are(rows, kind), reason) for kind, reason in REASONS.items()]
    if keyless in rows.schema.names:
        lacking = pc.fill_null(rows.column(keyless), False).to_numpy(zero_copy_only=False)
        found.append((are(rows, RowItem.BEGIN) & lacking, "a begin has all attributes of the key"))
    return [problem for problem in found if problem[0].any()]


# --- promises ------------------------------------------------------------------------------------------------------


def promised(rows: pa.RecordBatch, time: str, type: str, source: str | None) -> tuple[pa.RecordBatch, Begun]:
    """Take the promises out of some rows; those that name no time stay, and are found to be bad."""
    mine = are(rows, RowItem.PROMISE) & pc.is_valid(rows.column(time)).to_numpy(zero_copy_only=False)
    if not mine.any():
        return rows, {}
    told = rows.filter(pa.array(mine))
    times = ticks(told.column(time), "time")[0].tolist()
    sources = [EVERYBODY] * len(times) if source is None else told.column(source).cast(pa.string()).to_pylist()
    found: Begun = {}
    for name, who, until in zip(told.column(type).cast(pa.string()).to_pylist(), sources, times, strict=True):
        learn(found, {json.dumps([name, who]): until})
    return rows.filter(pa.array(~mine)), found


def learn(known: Begun, told: Mapping[str, int]) -> None:
    """Add what was promised; a promise that says less than an earlier one changes nothing."""
    for name, until in told.items():
        known[name] = max(until, known.get(name, until))


def until_when(begun: Begun, sources: Iterable[str]) -> dict[str | None, int]:
    """Until when all begins of a type (None: of all types) are there, once every source has promised it."""
    by: dict[tuple[str | None, str | None], int] = {}
    for name, until in begun.items():
        type, source = json.loads(name)
        by[type, source] = until
    sources = list(sources)

    def said(type: str | None, source: str | None) -> int:
        return max(by.get((type, source), BEGINNING), by.get((None, source), BEGINNING))

    found = {}
    for type in dict.fromkeys(type for type, _ in by):
        together = min((said(type, source) for source in sources), default=BEGINNING)
        found[type] = max(together, said(type, EVERYBODY))
    return {type: until for type, until in found.items() if until > BEGINNING}


def apart(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The rows in pieces in which each begin is alone, so that a bad one can be reported."""
    begins = np.flatnonzero(are(rows, RowItem.BEGIN)).tolist()
    at = 0
    for place in [*begins, rows.num_rows]:
        if place > at:
            yield rows.slice(at, place - at)
        if place < rows.num_rows:
            yield rows.slice(place, 1)
        at = place + 1


# --- in a graph ----------------------------------------------------------------------------------------------------


def encoded(graph: QueryGraph, rows: pa.RecordBatch) -> Items:
    """Rows as items, in their order; begins among them have no end."""
    if ITEM not in rows.schema.names:
        return graph.encode(rows)
    begins = are(rows, RowItem.BEGIN)
    items = graph.encode(rows.drop_columns([ITEM]))
    if not begins.any():
        return items
    kinds = np.where(begins, np.int8(ItemKind.BEGIN), np.int8(ItemKind.EVENT)).astype(np.int8)
    return replaced(items, kinds=kinds, end=np.where(begins, END_OF_TIME, items.end))
