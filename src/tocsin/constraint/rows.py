"""Rows of kinds `expected`, `unconfirmed` and `violated`: what is told of traces, as changes without events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa

from tocsin.encode.content import Words
from tocsin.engine.changes import ChangeBatch, Members, arrow_type
from tocsin.engine.payload import View
from tocsin.functions import Function
from tocsin.items import Ints
from tocsin.plan.block import Plan

OWN = ("constraint", "key", "reason", "event", "events")  # columns of their own, null in other rows


@dataclass(frozen=True, slots=True)
class TraceRow:
    """One row. `constraint` is what the row is about, `key` the values that all events of the trace share.

    event   the eid of the event that decided; None: the trace has ended
    events  of an expected match: the eids of the events so far that may stand in it
    """

    kind: str
    constraint: str
    key: tuple[Any, ...]
    number: int
    start: int
    end: int
    known_at: int
    event: Any = None
    events: tuple[Any, ...] | None = None
    reason: str | None = None


@dataclass
class TraceRows(ChangeBatch):
    """Changes that are about traces, all of one kind."""

    traces: list[TraceRow] = field(default_factory=list)

    @staticmethod
    def of(plan: Plan, rows: list[TraceRow], functions: Mapping[str, Function]) -> TraceRows:
        """The rows as changes of a query."""
        nothing: Ints = np.full(len(rows), -1, np.int64)
        members = Members(np.zeros(len(rows) + 1, np.int64), np.zeros(0, np.int64))
        repeated = {at: members for at, variable in enumerate(plan.variables) if variable.repeated}
        known = np.array([row.known_at for row in rows], np.int64)
        fixed = [nothing for _ in plan.variables]
        ops = np.ones(len(rows), np.int8)
        return TraceRows(plan, ops, known, fixed, repeated, View([]), functions, rows[0].kind, traces=rows)

    def pick(self, keep: Ints) -> TraceRows:
        found = TraceRows.of(self.plan, [self.traces[at] for at in keep], self.functions) if len(keep) else None
        return replace(self if found is None else found, stage=self.stage, traces=[] if found is None else found.traces)

    def between(self, begin: int, end: int) -> TraceRows:
        return self.pick(np.arange(begin, end))

    def renumbered(self, numbers: Ints) -> TraceRows:  # noqa: ARG002 - there are no events
        return self

    @cached_property
    def span(self) -> tuple[Ints, Ints]:
        return np.array([row.start for row in self.traces], np.int64), np.array([r.end for r in self.traces], np.int64)

    @cached_property
    def identity(self) -> tuple[Words, Words]:
        """128 bits per row: what it is about, the key and the trace; an expected match and its end share them."""
        names = b"".join(
            blake2b(
                repr((self.plan.fingerprint, row.kind == "violated", row.constraint, row.key, row.number)).encode(),
                digest_size=16,
            ).digest()
            for row in self.traces
        )
        words = np.frombuffer(names, ">u8").astype(np.uint64).reshape(len(self.traces), 2)
        return words[:, 0], words[:, 1]

    def table(self) -> pa.Table:
        """The rows, with the columns of their own; those of variables are null."""
        table = super().table()
        for name in OWN:
            if name in table.schema.names:
                continue
            if name == "events":
                lists = [None if row.events is None else [str(eid) for eid in row.events] for row in self.traces]
                table = table.append_column(name, pa.array(lists, pa.list_(pa.string())))
            else:
                texts = [_text(getattr(row, name)) for row in self.traces]
                table = table.append_column(name, pa.array(texts, pa.string()))
        return table

    def selected(self, output: Any) -> pa.Array:
        return pa.nulls(len(self), arrow_type(output.expr.kind, output.expr.scale))


def _text(value: Any) -> str | None:
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return None if value is None else str(value)
