"""Derived intervals by definition: the runs, sessions and pairs of a whole history (docs/semantics.md, 18).

Written to be read: the readings of a key stand in a list, in canonical order, and everything is said of that list.
Nothing here is shared with the engine but the hash that makes an eid.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tocsin.events import Event, Value, interval_eid
from tocsin.lang.derived_syntax import READING, Intervals, Reading, column_name, of_reading
from tocsin.lang.syntax import Call, Expr, Name
from tocsin.testing.oracle_expr import OracleEvaluator, ticks

Key: TypeAlias = tuple[Value, ...]
MATCH, UNENDED, UNPAIRED = "match", "unended", "unpaired"


@dataclass(frozen=True, slots=True)
class DefinedSpan:
    """What was derived from some readings of a key. Of an interval that is not whole, only its start is known."""

    kind: str
    label: str
    start: int
    end: int
    readings: tuple[Event, ...]
    occurrence: int = 0  # how many began before it at this time


@dataclass(frozen=True, slots=True)
class DerivedRow:
    """A row of the answer. `event` is what later queries see of it, as an event of the type `label`."""

    kind: str
    label: str
    event: Event


def derived_rows(given: Intervals, history: Iterable[Event], unit: str | None = None) -> list[DerivedRow]:
    """All rows that a definition gives for a history."""
    rows: list[DerivedRow] = []
    for key, events in by_key(given, history).items():
        for found in _intervals(given, sorted(events, key=Event.order), unit):
            called = UNPAIRED if found.kind == UNPAIRED else found.label
            eid = interval_eid(given.identity, key, called, found.start, found.occurrence)
            attrs: dict[str, Value] = {"label": found.label} if given.states else {}
            attrs |= dict(zip(given.by, key, strict=True)) | _columns(given, found)
            event = Event(found.label, found.start, found.end, eid, attrs)
            rows.append(DerivedRow(found.kind, found.label, event))
    return rows


def by_key(given: Intervals, history: Iterable[Event]) -> dict[Key, list[Event]]:
    """The events of the types that a definition names, by key; one that lacks an attribute of the key is not seen."""
    types = {each.type for each in (*given.readings, *given.ends)}
    found: dict[Key, list[Event]] = {}
    seen = set()
    for event in history:
        key = tuple(event.attrs.get(attr) for attr in given.by)
        place = (key, event.type, event.order())
        if event.type in types and None not in key and place not in seen:  # one that comes twice is one
            seen.add(place)
            found.setdefault(key, []).append(event)
    return found


def _intervals(given: Intervals, events: Sequence[Event], unit: str | None) -> Iterator[DefinedSpan]:
    """What the events of one key give."""
    reader = OracleEvaluator({}, unit)
    if given.ends:
        return _pairs(given, events, reader)
    longest = given.gap or given.max_gap
    gap = None if longest is None else ticks(longest, unit)
    return _runs(given, [event for event in events if _takes(given.readings, event, reader)], gap, reader)


# --- runs and sessions ---------------------------------------------------------------------------------------------


def _runs(
    given: Intervals, readings: Sequence[Event], gap: int | None, reader: OracleEvaluator
) -> Iterator[DefinedSpan]:
    """Longest stretches of readings in one state; a session is a stretch in the only state there is."""
    states = [_state(given, each, reader) for each in readings]
    begun: list[int] = []  # where runs began
    first = 0
    while first < len(readings):
        last = first
        while (
            last + 1 < len(readings)
            and states[last + 1] == states[first]
            and not _is_apart(readings[last], readings[last + 1], gap)
        ):
            last += 1
        if states[first] is not None:
            ending = last
            if last + 1 < len(readings) and not (
                given.end_last or given.gap is not None or _is_apart(readings[last], readings[last + 1], gap)
            ):
                ending = last + 1  # UNTIL NEXT
            end = readings[ending].end
            start = readings[first].end
            mine = tuple(readings[first : last + 1])
            yield DefinedSpan(MATCH, str(states[first]), start, end, mine, begun.count(start))
            begun.append(start)
        first = last + 1


def _is_apart(one: Event, other: Event, gap: int | None) -> bool:
    return gap is not None and other.end - one.end > gap


def _state(given: Intervals, reading: Event, reader: OracleEvaluator) -> str | None:
    """The label of the first state whose condition is TRUE."""
    if not given.states:
        return given.name
    return next((each.label for each in given.states if _true(each.when, reading, reader)), None)


# --- pairs ---------------------------------------------------------------------------------------------------------


def _pairs(given: Intervals, events: Sequence[Event], reader: OracleEvaluator) -> Iterator[DefinedSpan]:
    """Begins and ends, time by time: first the ends of a time, then its begins.

    An event that is both ends what began before; if nothing did, it only begins.
    """
    open: list[tuple[Event, int]] = []  # each with its place among the begins of its time
    depth = 0  # OUTERMOST: how many begins inside the open one wait for their ends
    for time in sorted({event.end for event in events}):
        mine = [event for event in events if event.end == time]
        begins = [event for event in mine if _takes(given.readings, event, reader)]
        ends = [event for event in mine if _takes(given.ends, event, reader)]
        alone = []
        for end in ends:
            if depth:
                depth -= 1
            elif open:
                begin, place = open.pop(0 if given.policy == "queued" else -1)
                yield DefinedSpan(MATCH, given.name, begin.end, time, (begin, end), place)
            elif end not in begins:
                alone.append(end)
        for place, begin in enumerate(begins):
            if alone:
                yield DefinedSpan(MATCH, given.name, time, time, (begin, alone.pop(0)), place)
            elif given.policy == "outermost" and open:
                depth += 1
            elif given.policy == "restart":
                open = [(begin, place)]
            else:
                open.append((begin, place))
        yield from (DefinedSpan(UNPAIRED, given.name, time, time, (end,), place) for place, end in enumerate(alone))
    yield from (DefinedSpan(UNENDED, given.name, begin.end, begin.end, (begin,), place) for begin, place in open)


# --- readings ------------------------------------------------------------------------------------------------------


def _takes(readings: Sequence[Reading], event: Event, reader: OracleEvaluator) -> bool:
    return any(
        each.type == event.type and (each.where is None or _true(each.where, event, reader)) for each in readings
    )


def _true(condition: Expr, event: Event, reader: OracleEvaluator) -> bool:
    return reader.true(of_reading(condition), {READING: event})


def _columns(given: Intervals, found: DefinedSpan) -> dict[str, Value]:
    """The columns of SELECT; null where the interval is not whole."""
    values = {}
    for item in given.select:
        assert isinstance(item.expr, Call)
        arg = item.expr.args[0] if item.expr.args else None
        assert arg is None or isinstance(arg, Name)
        name = None if arg is None else arg.name
        values[column_name(item)] = _folded(item.expr.function, name, found) if found.kind == MATCH else None
    return values


def _folded(function: str, attr: str | None, found: DefinedSpan) -> Value:
    if attr is None:
        return len(found.readings)
    values = [each.attrs.get(attr) for each in found.readings]
    known = [value for value in values if value is not None]
    match function:
        case "count":
            return len(known)
        case "first":
            return values[0]
        case "last":
            return values[-1]
    chosen = min if function == "min" else max
    return chosen(known, default=None)
