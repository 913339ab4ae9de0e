"""Matches of single events as dicts, made without Arrow: a live user holds one some microseconds after its last event.

They are what `tables.with_times` of `ChangeBatch.table` gives row by row, with the same ids. Where that is not certain
(rows that came as Arrow, computed SELECT columns, other zones than UTC) there are none, and the table is made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pyarrow as pa

from tocsin.encode.content import auto_eid, row_hash, text_word
from tocsin.engine.changes import ChangeBatch, named_by
from tocsin.engine.tables import YEAR_9999
from tocsin.events import MASK64, TIME_LIMIT, eid_number, mix
from tocsin.plan.block import Output, Plan
from tocsin.plan.expr import Col
from tocsin.schema import EID

NEVER = (1 << 63) - 1  # the start of what shows no event
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
    shown = _Shown(changes, time)
    return [shown.change(at) for at in range(len(changes))]


def as_values(
    changes: ChangeBatch, outputs: Sequence[Output]
) -> tuple[list[str], list[tuple[int, int]], list[list[Any]]]:
    """Of changes that can be dicts: their ids, their spans in ticks, and the values of some columns of SELECT."""
    shown = _Shown(changes, None)
    names, times = [], []
    for at in range(len(changes)):
        bound = shown.events_of(at)
        first, last = _ends(bound)
        names.append(shown.id_of(bound))
        times.append((NEVER if first is None else first.start, -NEVER - 1 if last is None else last.end))
    return names, times, [[shown.selected(output.expr, at) for at in range(len(changes))] for output in outputs]


def _showing(time: pa.DataType | None) -> Show:
    if time is None:
        return _ticks
    zone = time.tz if pa.types.is_timestamp(time) else None
    if zone not in _SHOWING:
        epoch = pa.scalar(0, pa.timestamp("us", zone)).as_py()
        _SHOWING[zone] = lambda ticks: (
            epoch + timedelta(microseconds=ticks) if -TIME_LIMIT < ticks < TIME_LIMIT else None
        )
    return _SHOWING[zone]


def _ticks(ticks: int) -> int | None:
    return ticks if -TIME_LIMIT < ticks < TIME_LIMIT else None


_SHOWING: dict[str | None, Show] = {}


class _Event:
    """One event: what it shows, its times, and its eid as people see it and as two numbers."""

    __slots__ = ("content", "eid", "end", "high", "low", "shown_end", "shown_start", "start", "times", "words")

    def __init__(self, content: Row, eid: Any, high: int, low: int, show: Show) -> None:
        self.content, self.eid, self.high, self.low = content, eid, high, low
        self.start = start = content["start"]
        self.end = end = content["end"]
        self.shown_start = show(start)
        self.shown_end = self.shown_start if end == start else show(end)
        self.times = mix((start * 31 + end) & MASK64)
        self.words: dict[int, tuple[int, int]] = {}  # what the event contributes to ids, by variable

    def contributes(self, seed: int, *, timed: bool) -> tuple[int, int]:
        """What the event contributes to the halves of the id of a match: `ChangeBatch._event_words` of one event."""
        high, low = self.high + seed, self.low
        one, other = mix((mix(high & MASK64) + low) & MASK64), mix((mix((high + 1) & MASK64) + low) & MASK64)
        if timed:
            return mix((one + self.times) & MASK64), mix((other + self.times) & MASK64)
        return one, other


class _Shown:
    """The events of some changes, each looked at once."""

    def __init__(self, changes: ChangeBatch, time: pa.DataType | None) -> None:
        source = changes.payload.source
        assert source is not None
        self.changes, self.source, self.plan = changes, source, changes.plan
        self.has_years, self.show = time is not None, _showing(time)
        self.rows = {number: row for number, _, row in changes.payload.singles}
        self.events: dict[int, _Event] = {}
        self.hashes: dict[int, int] = {}
        named = named_by(changes)
        self.named = text_word(named + chr(1)), text_word(named + chr(2))  # see `id_of`
        self.timed, self.has_step = self.plan.has_timed_ids, self.plan.has_timeouts
        self.bound = [(*words, _lists(changes, words[0])) for words in _described(self.plan)]

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
            found = self.events[number] = _Event(content, eid, high, low, self.show)
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

    def events_of(self, at: int) -> list[tuple[int, list[_Event]]]:
        """The events of each visible variable in one change."""
        return [(index, [self.event(number) for number in lists[at]]) for index, *_, lists in self.bound]

    def change(self, at: int) -> Row:
        """One change as a dict."""
        bound = self.events_of(at)
        first, last = _ends(bound)
        found = {
            "query": self.plan.title,
            "kind": self.changes.kind,
            "match_id": self.id_of(bound),
            "op": int(self.changes.op[at]),
            "start": None if first is None else first.shown_start,
            "end": None if last is None else last.shown_end,
            "settled_at": self._settled_at(int(self.changes.known_at[at]), last),
        }
        if self.has_step:
            found["step"] = self.changes.step
        if self.plan.outputs:
            return found | {output.name: self.selected(output.expr, at) for output in self.plan.outputs}
        for (index, events), (_, name, _, names, _) in zip(bound, self.bound, strict=True):
            several = [_struct(event, names) for event in events]
            found[name] = several if index in self.changes.repeated else several[0] if several else None
        return found

    def _settled_at(self, known: int, last: _Event | None) -> Any:
        if last is not None and known == last.end:
            return last.shown_end
        return None if self.has_years and known >= YEAR_9999 else self.show(known)

    def selected(self, expr: Any, at: int) -> Any:
        number = int(self.changes.fixed[expr.leaf][at])
        if number < 0:
            return None
        event = self.event(number)
        return event.eid if expr.attr == EID else event.content.get(expr.attr)

    def id_of(self, bound: list[tuple[int, list[_Event]]]) -> str:
        """`ChangeBatch.identity` of one change."""
        one, other = self.named
        for (index, events), (_, _, seed, _, _) in zip(bound, self.bound, strict=True):
            word = word_too = len(events) if index in self.changes.repeated else 0
            for event in events:
                words = event.words.get(index)
                if words is None:
                    words = event.words[index] = event.contributes(seed, timed=self.timed)
                word += words[0]
                word_too += words[1]
            one, other = mix((one * 31 + word) & MASK64), mix((other * 31 + word_too) & MASK64)
        return one.to_bytes(8, "little").hex() + other.to_bytes(8, "little").hex()


def _ends(bound: list[tuple[int, list[_Event]]]) -> tuple[_Event | None, _Event | None]:
    """The event that starts first, and the one that ends last."""
    first = last = None
    for _, events in bound:
        for event in events:
            if first is None or event.start < first.start:
                first = event
            if last is None or event.end > last.end:
                last = event
    return first, last


def _lists(changes: ChangeBatch, index: int) -> list[list[int]]:
    """The event numbers of a variable in each change."""
    if index not in changes.repeated:
        return [[number] if number >= 0 else [] for number in changes.fixed[index].tolist()]
    members = changes.repeated[index]
    offsets, events = members.offsets.tolist(), members.events.tolist()
    return [events[first:last] for first, last in pairwise(offsets)]


def _described(plan: Plan) -> list[tuple[int, str, int, list[str]]]:
    """For each visible variable its index, its name, also as a word, and the attributes that its events show."""
    known = _plans.get(id(plan))
    if known is None:
        if len(_plans) >= MANY_PLANS:
            _plans.clear()
        found = [
            (index, variable.name, text_word(variable.name), [field.name for field in variable.fields])
            for index, variable in enumerate(plan.variables)
            if not variable.hidden
        ]
        known = _plans[id(plan)] = (plan, found)
    return known[1]


MANY_PLANS = 256
_plans: dict[int, tuple[Plan, list[tuple[int, str, int, list[str]]]]] = {}  # with the plans, so that ids stay theirs


def _struct(event: _Event, names: list[str]) -> Row:
    """An event as results show it."""
    content = event.content
    found = {"eid": event.eid, "type": content["type"], "start": event.shown_start, "end": event.shown_end}
    for name in names:
        found[name] = content.get(name)
    return found
