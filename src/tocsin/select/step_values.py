"""What the steps of a chain ask of events, for whole batches: which steps an event can take, and values of it.

Comparisons of a number with a constant are asked of a column at once, everything else of one event after the other.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tocsin.engine.evaluate import Row, evaluate
from tocsin.engine.operator import Setting
from tocsin.items import Bools, Ints, Items
from tocsin.plan.expr import Bound, Col, Lit, Op, Ref, Time
from tocsin.plan.prefix_chain import PrefixChain
from tocsin.schema import EID, TYPE, Kind
from tocsin.select.keyed_batch import Asked, as_objects
from tocsin.select.totals import one_nan

COMPARED = {
    "=": np.equal,
    "<>": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}


class StepValues:
    """Asks events of one query."""

    def __init__(self, chain: PrefixChain, setting: Setting) -> None:
        assert setting.plan.counts is not None
        self._chain, self._setting = chain, setting
        self._args = [total.arg for total in setting.plan.counts.totals]

    def bits(self, items: Items) -> Ints:
        """The steps that each event can take: bit m for step m."""
        found = np.zeros(len(items), np.int64)
        schema, types = self._setting.plan.schema, self._setting.reader.types
        for step, (type, _, tests) in enumerate(self._chain.steps):
            taken = np.array([*(schema.takes(type, name) for name in types), False, False])  # EVERY and UNREAD
            fits = taken[items.types]
            for test in tests:
                fits &= self._holds(items, test, fits)
            found |= fits.astype(np.int64) << step
        return found

    def _holds(self, items: Items, test: Bound, wanted: Bools) -> Bools:
        """For which events a condition is TRUE; asked of the wanted ones only."""
        match test:
            case Op(op, (Col(_, _, attr, kind) as col, Lit(value, other) as constant)) if (
                isinstance(value, int | float)
                and op in COMPARED
                and attr in items.columns
                and kind in (Kind.INT, Kind.FLOAT)
                and kind is other
            ):
                column = items.columns[attr]
                if column.kind is kind and (col.scale, constant.scale) == (0, 0) and not col.previous:
                    holds: Bools = COMPARED[op](column.values, value)
                    if column.kind is Kind.FLOAT:
                        holds = holds & ~np.isnan(column.values)
                    return holds if column.valid is None else holds & column.valid
        rows = np.flatnonzero(wanted)
        event, found = _EventOfRow(items, self._setting), np.zeros(len(items), np.bool_)
        for event.at in rows.tolist():
            found[event.at] = evaluate(test, event, self._setting.functions) is True
        return found

    def values(self, items: Items, rows: Ints) -> list[Asked]:
        """For each aggregate what it asks of some events, in kernel form; an empty column where it asks none."""
        found: list[Asked] = []
        event = _EventOfRow(items, self._setting)
        takes = self._setting.plan.schema.takes
        for arg, step in zip(self._args, self._chain.asked, strict=True):
            if arg is None or step is None:
                found.append(as_objects([]))
            elif isinstance(arg, Col) and arg.attr not in (TYPE, EID):
                column = event.column_values(arg.attr)
                found.append(as_objects([one_nan(column[row]) for row in rows.tolist()]))
            else:
                type, values = self._chain.steps[step][0], []
                for event.at in rows.tolist():
                    mine = takes(type, event.type)
                    values.append(one_nan(evaluate(arg, event, self._setting.functions)) if mine else None)
                found.append(as_objects(values))
        return found


class _EventOfRow(Row):
    """One row of a batch as the event of the only variable that is asked."""

    def __init__(self, items: Items, setting: Setting) -> None:
        self._items, self._setting, self.at = items, setting, 0
        self._columns: dict[str, list[Any]] = {}

    @property
    def type(self) -> str:
        return self._setting.reader.types[int(self._items.types[self.at])]

    def column_values(self, attr: str) -> list[Any]:
        """An attribute of all rows: texts as texts, None for null."""
        known = self._columns.get(attr)
        if known is None:
            column = self._items.columns.get(attr)
            if column is None:
                known = [None] * len(self._items)
            elif column.kind is Kind.TEXT:
                known = [self._setting.reader.strings.text(code) for code in column.values.tolist()]
            else:
                known = column.values.tolist()
                if column.kind is Kind.BOOL:
                    known = list(map(bool, known))
                if column.valid is not None:
                    known = [
                        value if there else None for value, there in zip(known, column.valid.tolist(), strict=True)
                    ]
            self._columns[attr] = known
        return known

    def column(self, col: Col) -> Any:
        if col.attr == TYPE and TYPE not in self._items.columns:
            return self.type
        return self.column_values(col.attr)[self.at]

    def time(self, time: Time) -> int:
        return int((self._items.start if time.which == "start" else self._items.end)[self.at])

    def event(self, ref: Ref) -> int:
        del ref
        return self.at
