"""Ordered release: held answers leave in order of time, each when nothing earlier can come any more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa

from tocsin.engine.changes import Changes, Members
from tocsin.engine.payload import Chunk, View
from tocsin.functions import Function
from tocsin.plan.block import Plan

OWN = ("#type", "#start", "#end", "#high", "#low")  # what a row needs beside what results show of it


@dataclass(slots=True)
class InOrder:
    """Answers that wait for those before them. The order is that of the last event, then of the one before it, ..."""

    waiting: list[tuple[tuple[int, ...], int, Changes, int]] = field(default_factory=list)
    numbers: count[int] = field(default_factory=count)

    def take(self, changes: list[Changes], frontier: int) -> list[Changes]:
        """Take in answers; give those that end at or before the frontier."""
        for piece in changes:
            for row, key in enumerate(_keys(piece)):
                heappush(self.waiting, (key, next(self.numbers), piece, row))
        out: list[Changes] = []
        while self.waiting and self.waiting[0][0][0] <= frontier:
            _, _, piece, row = heappop(self.waiting)
            out.append(piece.pick(np.array([row])))
        return out

    def saved(self) -> tuple[list[Any], pa.RecordBatch | None]:
        """What waits, in plain values, and the rows of its events."""
        entries, tables, stop = [], [], 0
        for key, _, piece, row in sorted(self.waiting, key=lambda each: each[:2]):
            one = piece.pick(np.array([row]))
            places = [_shifted(one.rows.at(column), stop) for column in one.fixed]
            members = [[index, _shifted(one.rows.at(own.events), stop)] for index, own in one.repeated.items()]
            entries.append([list(key), int(one.op[0]), int(one.known_at[0]), [at for [at] in places], members])
            tables.append(_table(one))
            stop += len(one.rows.numbers)
        if not tables:
            return [], None
        return entries, pa.concat_tables(tables, promote_options="permissive").combine_chunks().to_batches()[0]

    def restore(
        self, entries: list[Any], rows: pa.RecordBatch | None, plan: Plan, functions: Mapping[str, Function]
    ) -> None:
        """Wait for the same again."""
        if rows is None:
            return
        types, start, end, high, low = (rows.column(name).to_numpy(zero_copy_only=False) for name in OWN)
        view = View([Chunk(0, rows.drop_columns(list(OWN)), types, start, end, high, low)])
        for key, op, known, fixed, members in entries:
            repeated = {
                index: Members(np.array([0, len(events)], np.int64), np.array(events, np.int64))
                for index, events in members
            }
            columns = [np.array([at], np.int64) for at in fixed]
            piece = Changes(
                plan, np.array([op], np.int8), np.array([known], np.int64), columns, repeated, view, functions
            )
            heappush(self.waiting, (tuple(key), next(self.numbers), piece, 0))


def _shifted(places: Any, by: int) -> list[int]:
    return [at + by if at >= 0 else -1 for at in places.tolist()]


def _table(one: Changes) -> pa.Table:
    """The rows of the events of a change, as results show them, and what identifies them."""
    rows = one.rows
    shown = {
        name: column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        for name, column in rows.shown.items()
    }
    own = (rows.types, rows.start, rows.end, *rows.names)
    return pa.table(shown | {name: pa.array(values) for name, values in zip(OWN, own, strict=True)})


def _keys(piece: Changes) -> list[tuple[int, ...]]:
    """For each change its last end, and then the ends of its events from the last variable to the first."""
    if not len(piece):
        return []
    columns = [piece.span[1]]
    for index in reversed(piece.visible):
        if index in piece.repeated:
            members = piece.repeated[index]
            ends = piece.rows.end[piece.rows.at(members.events)]
            columns.append(np.maximum.reduceat(np.append(ends, 0), members.offsets[:-1]) if len(ends) else columns[0])
        else:
            at = piece.rows.at(piece.fixed[index])
            columns.append(np.where(piece.fixed[index] >= 0, piece.rows.end[at], 0))
    return list(zip(*(column.tolist() for column in columns), strict=True))
