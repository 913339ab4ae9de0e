"""Rows of kind `count`: what a query counts of its matches, as changes without events."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa

from tocsin.encode.content import Words
from tocsin.engine.changes import ChangeBatch, Members, arrow_type
from tocsin.engine.kinds import COUNT
from tocsin.engine.payload import View
from tocsin.errors import TocsinError
from tocsin.events import BEGINNING, END_OF_TIME
from tocsin.functions import Function
from tocsin.items import Ints
from tocsin.plan.block import Output, Plan
from tocsin.schema import Kind

EXACT = {b"tocsin": b"whole number"}  # of a column of decimals that are whole numbers beyond 64 bits
WIDEST = 76  # digits of a whole number in a column
Group = tuple[Any, ...]  # the values of GROUP BY as texts, see `select.after_match.normal`


@dataclass(frozen=True, slots=True)
class CountRow:
    """One row or its retraction. `values` has one value for each column of the result, in kernel form."""

    op: int
    group: Group
    span: int | None  # the number of the span of EVERY
    values: Sequence[Any]


@dataclass
class CountRows(ChangeBatch):
    """Changes that are counts. They have no events: their times are those of the span of EVERY, or none."""

    counted: list[CountRow] = field(default_factory=list)

    @staticmethod
    def of(plan: Plan, rows: list[CountRow], functions: Mapping[str, Function]) -> CountRows:
        """The rows as changes of a query."""
        nothing: Ints = np.full(len(rows), -1, np.int64)
        members = Members(np.zeros(len(rows) + 1, np.int64), np.zeros(0, np.int64))
        repeated = {at: members for at, variable in enumerate(plan.variables) if variable.repeated}
        op = np.array([row.op for row in rows], np.int8)
        fixed = [nothing for _ in plan.variables]
        ends = np.array([_span(plan, row)[1] for row in rows], np.int64)
        return CountRows(plan, op, ends, fixed, repeated, View([]), functions, COUNT, counted=rows)

    def pick(self, keep: Ints) -> CountRows:
        return replace(CountRows.of(self.plan, [self.counted[at] for at in keep], self.functions), stage=self.stage)

    def between(self, begin: int, end: int) -> CountRows:
        return self.pick(np.arange(begin, end))

    def renumbered(self, numbers: Ints) -> CountRows:  # noqa: ARG002 - there are no events
        return self

    @cached_property
    def span(self) -> tuple[Ints, Ints]:
        """The first and the last tick of the span of EVERY; without it, a row is about the whole stream."""
        spans = [_span(self.plan, row) for row in self.counted]
        return np.array([low for low, _ in spans], np.int64), np.array([high for _, high in spans], np.int64)

    @cached_property
    def identity(self) -> tuple[Words, Words]:
        """128 bits per row: the query, the group and the span."""
        names = [blake2b(repr((self.plan.fingerprint, row.group, row.span)).encode(), digest_size=16).digest()
                 for row in self.counted]  # fmt: skip
        words = np.frombuffer(b"".join(names), ">u8").astype(np.uint64).reshape(len(names), 2)
        return words[:, 0], words[:, 1]

    def selected(self, output: Output) -> pa.Array:
        at = self.plan.outputs.index(output)
        return column([row.values[at] for row in self.counted], output)

    def table(self, names: Collection[str] | None = None) -> pa.Table:  # noqa: ARG002 - all are made
        """The rows; columns of whole numbers beyond 64 bits say that they are no decimals."""
        table = super().table()
        for at, item in enumerate(table.schema):
            exact = pa.types.is_decimal(item.type) and any(
                output.name == item.name and output.expr.kind is Kind.INT for output in self.plan.outputs
            )
            if exact:
                table = table.set_column(at, item.with_metadata(EXACT), table.column(at))
        return table


def _span(plan: Plan, row: CountRow) -> tuple[int, int]:
    every = None if plan.counts is None else plan.counts.every
    if every is None or row.span is None:
        return BEGINNING, END_OF_TIME
    return row.span * every, row.span * every + every - 1


def column(values: list[Any], output: Output) -> pa.Array:
    """A column of counts: whole numbers beyond 64 bits become decimals of 38 digits, or more."""
    kind, scale = output.expr.kind, output.expr.scale
    if kind is Kind.DECIMAL:
        decimals = [None if value is None else Decimal(value).scaleb(-scale) for value in values]
        digits = max((len(str(abs(value))) for value in values if value is not None), default=0)
        return pa.array(decimals, arrow_type(kind, scale) if digits <= 18 else _decimal(digits, output.name, scale))
    if kind is not Kind.INT:
        return pa.array(values, arrow_type(kind, scale))
    known = [value for value in values if value is not None]
    if all(-(1 << 63) <= value < 1 << 63 for value in known):
        return pa.array(values, pa.int64())
    digits = max(len(str(abs(value))) for value in known)
    exact = [None if value is None else Decimal(value) for value in values]
    return pa.array(exact, _decimal(digits, output.name))


def _decimal(digits: int, name: str, scale: int = 0) -> pa.DataType:
    if digits > WIDEST:
        raise TocsinError(
            f"{name} has {digits} digits, and a column holds {WIDEST}",
            hint="count less: a shorter WITHIN, GROUP BY, or EVERY",
        )
    return pa.decimal128(38, scale) if digits <= 38 else pa.decimal256(WIDEST, scale)


def with_whole_numbers(rows: list[dict[str, Any]], schema: pa.Schema) -> list[dict[str, Any]]:
    """Rows of a table as dicts, where whole numbers are ints however large they are."""
    exact = [item.name for item in schema if item.metadata is not None and EXACT.items() <= item.metadata.items()]
    for name in exact:
        for row in rows:
            row[name] = None if row[name] is None else int(row[name])
    return rows
