"""ChangeBatch that are kept for later, as plain values and rows: what waits for its turn, or is not yet certain."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from tocsin.engine.changes import ChangeBatch, Members
from tocsin.engine.payload import Chunk, View
from tocsin.functions import Function
from tocsin.plan.block import Plan

OWN = ("#type", "#start", "#end", "#high", "#low")  # what a row needs beside what results show of it


def packed(kept: Iterable[tuple[Any, ChangeBatch, int]]) -> tuple[list[Any], pa.RecordBatch | None]:
    """ChangeBatch as (label, piece, row) in plain values, and the rows of their events; labels are plain values too."""
    entries, tables, stop = [], [], 0
    for label, piece, row in kept:
        one = piece.pick(np.array([row]))
        places = [_shifted(one.rows.at(column), stop) for column in one.fixed]
        members = [[index, _shifted(one.rows.at(own.events), stop)] for index, own in one.repeated.items()]
        entries.append([label, int(one.op[0]), int(one.known_at[0]), [at for [at] in places], members])
        tables.append(_table(one))
        stop += len(one.rows.numbers)
    if not tables:
        return [], None
    return entries, pa.concat_tables(tables, promote_options="permissive").combine_chunks().to_batches()[0]


def unpacked(
    entries: list[Any], rows: pa.RecordBatch | None, plan: Plan, functions: Mapping[str, Function]
) -> Iterator[tuple[Any, ChangeBatch]]:
    """The same changes again, each by itself, with its label."""
    if rows is None:
        return
    types, start, end, high, low = (rows.column(name).to_numpy(zero_copy_only=False) for name in OWN)
    view = View([Chunk(0, rows.drop_columns(list(OWN)), types, start, end, high, low)])
    for label, op, known, fixed, members in entries:
        repeated = {
            index: Members(np.array([0, len(events)], np.int64), np.array(events, np.int64))
            for index, events in members
        }
        columns = [np.array([at], np.int64) for at in fixed]
        ops, times = np.array([op], np.int8), np.array([known], np.int64)
        yield label, ChangeBatch(plan, ops, times, columns, repeated, view, functions)


def _shifted(places: Any, by: int) -> list[int]:
    return [at + by if at >= 0 else -1 for at in places.tolist()]


def _table(one: ChangeBatch) -> pa.Table:
    """The rows of the events of a change, as results show them, and what identifies them."""
    rows = one.rows
    shown = {
        name: column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        for name, column in rows.shown.items()
    }
    own = (rows.types, rows.start, rows.end, *rows.names)
    return pa.table(shown | {name: pa.array(values) for name, values in zip(OWN, own, strict=True)})
