"""Matches of single events as dicts, made without Arrow: a live user holds one some microseconds after its last event.

They are what `tables.with_times` of `ChangeBatch.table` gives row by row, with the same ids. Where that is not certain
(rows that came as Arrow, computed SELECT columns, other zones than UTC) there are none, and the table is made.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pyarrow as pa

from tocsin.encode.content import auto_eid, row_hash, text_word
from tocsin.engine.changes import ChangeBatch, named_by
from tocsin.engine.tables import YEAR_9999
from tocsin.events import MASK64, TIME_LIMIT, eid_number, mix
from tocsin.plan.block import Variable
from tocsin.plan.expr import Col
from tocsin.schema import EID

FEW = 64  # changes for which this is quicker than Arrow
Row = dict[str, Any]
Show = Callable[[int], Any]  # a time as the user sees it


def can_be_dicts(changes: ChangeBatch, time: pa.DataType | None) -> bool:
    """Whether the changes can be shown without Arrow; `time`: how the input had its times."""
    view = changes.payload
    if (
        changes.plan.counts is not None
        or changes.plan.under is not None
        or not view.alone
        or view.source is None
        or len(changes) > FEW
        or not view.source.is_shown_as_read
    ):
        return False
    zone = time.tz if time is not None and pa.types.is_timestamp(time) else None
    return zone in (None, "UTC") and all(_is_plain(changes, output.expr) for output in changes.plan.outputs)


def _is_plain(changes: ChangeBatch, expr: object) -> bool:
    """Whether a SELECT column is the attribute of one event as it is."""
    if not isinstance(expr, Col) or expr.leaf in changes.repeated:
        return False
    return expr.attr == EID or any(field.name == expr.attr for field in changes.plan.variables[expr.leaf].fields)


def as_dicts(changes: ChangeBatch, time: pa.DataType | None) -> list[Row]:
    """The changes as dicts; only for those that can be."""
    shown, show = _Shown(changes, time), _showing(time)
    return [shown.change(at, show) for at in range(len(changes))]


def _showing(time: pa.DataType | None) -> Show:
    if time is None:
        return lambda ticks: ticks if -TIME_LIMIT < ticks < TIME_LIMIT else None
    zone = time.tz if pa.types.is_timestamp(time) else None
    if zone not in _EPOCHS:
        _EPOCHS[zone] = pa.scalar(0, pa.timestamp("us", zone)).as_py()
    epoch = _EPOCHS[zone]
    return lambda ticks: epoch + timedelta(microseconds=ticks) if -TIME_LIMIT < ticks < TIME_LIMIT else None


_EPOCHS: dict[str | None, Any] = {}


class _Event:
    """One event: what it shows, its times, and its eid as people see it and as two numbers."""

    __slots__ = ("content", "eid", "end", "high", "low", "start", "times")

    def __init__(self, content: Row, eid: Any, high: int, low: int) -> None:
        self.content, self.eid, self.high, self.low = content, eid, high, low
        self.start, self.end = content["start"], content["end"]
        self.times = mix((self.start * 31 + self.end) & MASK64)

    def word(self, seed: int, *, timed: bool) -> int:
        """What the event contributes to the id of a match: `ChangeBatch._event_words` of one event."""
        word = mix((mix((self.high + seed) & MASK64) + self.low) & MASK64)
        return mix((word + self.times) & MASK64) if timed else word


class _Shown:
    """The events of some changes, each looked at once."""

    def __init__(self, changes: ChangeBatch, time: pa.DataType | None) -> None:
        source = changes.payload.source
        assert source is not None
        self.changes, self.source, self.plan = changes, source, changes.plan
        self.has_years = time is not None
        self.rows = {number: row for number, _, row in changes.payload.singles}
        self.events: dict[int, _Event] = {}
        self.hashes: dict[int, int] = {}
        self.bound = {index: _lists(changes, index) for index in changes.visible}
        self.named = [text_word(named_by(changes) + chr(lane + 1)) for lane in (0, 1)]  # see `_id`
        self.names = {index: _names(self.plan.variables[index]) for index in self.bound}
        self.seeds = {index: text_word(name) for index, (name, _) in self.names.items()}

    def event(self, number: int) -> _Event:
        found = self.events.get(number)
        if found is None:
            content = self.source.content(self.rows[number])
            if self.source.has_eid:
                eid = self.source.eid(self.rows[number])
                high, low = eid_number(eid)
            else:
                high = self.hashes[number] = row_hash(content)
                low = self._equal_before(number, content)
                eid = auto_eid(high, low)
            found = self.events[number] = _Event(content, eid, high, low)
        return found

    def _equal_before(self, number: int, content: Row) -> int:
        """How many equal events came before; they have the same end and the same type."""
        end, type, count = content["end"], content["type"], 0
        for other, its_end, row in self.changes.payload.singles:
            if its_end == end and other < number:
                its = self.source.content(row)
                if its["type"] == type:
                    count += row_hash(its) == self.hashes[number]
        return count

    def change(self, at: int, show: Show) -> Row:
        """One change as a dict."""
        bound = {index: [self.event(number) for number in each[at]] for index, each in self.bound.items()}
        events = [event for each in bound.values() for event in each]
        start = min([event.start for event in events], default=TIME_LIMIT)
        end = max([event.end for event in events], default=TIME_LIMIT)
        known = int(self.changes.known_at[at])
        found = {
            "query": self.plan.title,
            "kind": self.changes.kind,
            "match_id": self._id(bound),
            "op": int(self.changes.op[at]),
            "start": show(start),
            "end": show(end),
            "settled_at": None if self.has_years and known >= YEAR_9999 else show(known),
        }
        if self.plan.has_timeouts:
            found["step"] = self.changes.step
        if self.plan.outputs:
            return found | {output.name: self._selected(output.expr, at) for output in self.plan.outputs}
        for index, mine in bound.items():
            name, names = self.names[index]
            several = [_struct(event, names, show) for event in mine]
            found[name] = several if index in self.changes.repeated else several[0] if several else None
        return found

    def _selected(self, expr: Any, at: int) -> Any:
        number = int(self.changes.fixed[expr.leaf][at])
        if number < 0:
            return None
        event = self.event(number)
        return event.eid if expr.attr == EID else event.content.get(expr.attr)

    def _id(self, bound: dict[int, list[_Event]]) -> str:
        """`ChangeBatch.identity` of one change."""
        plan, lanes = self.plan, []
        for lane, total in enumerate(self.named):
            for index, events in bound.items():
                seed = self.seeds[index] + lane
                word = len(events) if index in self.changes.repeated else 0
                for event in events:
                    word += event.word(seed, timed=plan.has_timed_ids)
                total = mix((total * 31 + word) & MASK64)
            lanes.append(total.to_bytes(8, "little").hex())
        return "".join(lanes)


def _lists(changes: ChangeBatch, index: int) -> list[list[int]]:
    """The event numbers of a variable in each change."""
    if index not in changes.repeated:
        return [[number] if number >= 0 else [] for number in changes.fixed[index].tolist()]
    members = changes.repeated[index]
    offsets, events = members.offsets.tolist(), members.events.tolist()
    return [events[first:last] for first, last in pairwise(offsets)]


def _names(variable: Variable) -> tuple[str, list[str]]:
    """The name of a variable, and of the attributes that its events show."""
    return variable.name, [field.name for field in variable.fields]


def _struct(event: _Event, names: list[str], show: Show) -> Row:
    """An event as results show it."""
    content, start = event.content, show(event.start)
    end = start if event.end == event.start else show(event.end)
    found = {"eid": event.eid, "type": content["type"], "start": start, "end": end}
    for name in names:
        found[name] = content.get(name)
    return found
