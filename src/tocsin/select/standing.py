"""Standing: which steps of a query an event can stand for, and which gaps it forbids.

In a consumption mode every condition is about one event. So what an event can be is known before anything else is, as
bits of one number: bit k for step k, and behind those a bit for each negated leaf and each that must not come between.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tocsin.engine.evaluate import Row, evaluate
from tocsin.events import ANY
from tocsin.functions import Function
from tocsin.order.keyed_events import NumberedEvent
from tocsin.plan.block import Plan
from tocsin.plan.expr import Col, Ref, Time
from tocsin.plan.same_event import takers
from tocsin.schema import TYPE, Kind


class Standing:
    """Judges the events of one query."""

    def __init__(self, plan: Plan, functions: Mapping[str, Function]) -> None:
        assert plan.consume is not None
        self._functions, self._takers = functions, takers(plan)
        names = [*plan.consume.steps, *(var for var, _ in plan.consume.absent), *plan.consume.between]
        self._bits = {name: 1 << at for at, name in enumerate(names)}
        self._matches = plan.schema.matches
        self.steps = (1 << len(plan.consume.steps)) - 1

    def bits(self, event: NumberedEvent) -> int:
        """What an event can be."""
        known = self._takers.get(event.type)
        if known is None:
            known = [] if event.type in self._matches else self._takers.get(ANY, [])
        row, found = _EventAtLeaf(event), 0
        for row.var, tests in known:
            if all(evaluate(test, row, self._functions) is True for test in tests):
                found |= self._bits.get(row.var, 0)
        return found


class _EventAtLeaf(Row):
    """An event as that of one variable; the others are not bound."""

    def __init__(self, event: NumberedEvent) -> None:
        self._event, self.var = event, ""

    def column(self, col: Col) -> Any:
        if col.var != self.var:
            return None
        value = self._event.values.get(col.attr)
        if value is None and col.attr == TYPE:
            return self._event.type
        return bool(value) if value is not None and col.kind is Kind.BOOL else value

    def time(self, time: Time) -> int | None:
        if time.var not in (None, self.var):
            return None
        return self._event.start if time.which == "start" else self._event.end

    def event(self, ref: Ref) -> int | None:
        return self._event.number if ref.var == self.var else None
