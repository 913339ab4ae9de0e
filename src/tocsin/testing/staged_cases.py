"""Cases of staged statements and of derived intervals, which expect rows: `end: values` or `[start,end]: values`.

    query
    CreateCE Pair Select A.x, B.x as y Event And(A, B)
    stream
    a1{x=1} b2{x=2} @*>9
    ----
    2: 1 2

The values stand as Select orders them; a row of another kind has its kind before them. A promise about every type lets
time pass without events. Files may mix all kinds of query; what is asked is the last.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, TypeAlias

from tocsin.errors import InputError
from tocsin.events import Event
from tocsin.lang.derived_syntax import Intervals
from tocsin.lang.staged_syntax import Statement
from tocsin.lang.syntax import Query
from tocsin.testing.notation import Item, Promise, events_of, value_of_word
from tocsin.testing.oracle import Match, composite, matches_of_all
from tocsin.testing.oracle_derived import derived_rows
from tocsin.testing.staged_oracle import Advance, lasting, staged_events
from tocsin.testing.written_times import WrittenTimes

NO_LENGTHS: Mapping[str, int] = {}
FoundRow: TypeAlias = "tuple[int, int, tuple[Any, ...]]"  # start, end, values
LINE = re.compile(r"(\[[^\]]*\]|\S+):(?=\s|$)\s*(.*)")
WORD = re.compile(r'"(?:\\.|[^"\\])*"|\S+')


def is_staged(queries: Iterable[Query | Statement | Intervals]) -> bool:
    """Whether a case is answered by rows: not all of it are EVENT queries."""
    return not all(isinstance(each, Query) for each in queries)


# --- the definition ------------------------------------------------------------------------------------------------


def defined_rows(
    queries: Sequence[Query | Statement | Intervals], items: Sequence[Item], unit: str | None,
    longest: Mapping[str, int] = NO_LENGTHS,
) -> list[FoundRow]:  # fmt: skip
    """What the definitions of both kinds say of the last query; each reads the events of those above it.

    `longest` says of types how long their events may last.
    """
    known = sorted(events_of(items), key=Event.order)
    advances = [Advance(item.time) for item in items if isinstance(item, Promise) and item.type is None]
    found: list[Event] = []
    for number, each in enumerate(queries):
        rows: list[FoundRow] | None = None
        if isinstance(each, Intervals):
            derived = derived_rows(each, known, unit)
            rows = [as_row(row.kind, row.event.start, row.event.end, row.event.attrs.values()) for row in derived]
            whole = [row for row in derived if row.kind == "match"]
            found = [replace(row.event, type=type) for row in whole for type in dict.fromkeys((row.label, each.name))]
        elif isinstance(each, Statement):
            found = staged_events([each], in_time([*known, *advances]), unit=unit, longest=longest)
            longest = {**longest, **lasting([each], longest, unit)}
        else:
            (matches,) = matches_of_all((each,), known, unit=unit).values()
            made = [(match, composite(each.name or f"query {number + 1}", match)) for match in matches]
            rows = [_row_of(match, event) for match, event in made]
            found = [event for match, event in made if match.step is None and match.group is None]
        known = sorted([*known, *found], key=Event.order)
    if rows is None:
        rows = [as_row("match", event.start, event.end, event.attrs.values()) for event in found]
    return rows


def _row_of(match: Match, event: Event) -> FoundRow:
    """The row of what an EVENT query answers; a timeout shows the step that did not come first."""
    kind = "count" if match.group is not None else "match" if match.step is None else "timeout"
    values = [*([] if match.step is None else [match.step]), *event.attrs.values()]
    return as_row(kind, event.start, event.end, values)


def as_row(kind: str, start: int, end: int, values: Iterable[Any]) -> FoundRow:
    """A row as a case has it."""
    return start, end, tuple(values) if kind == "match" else (kind, *values)


def in_time(items: Iterable[Event | Advance]) -> list[Event | Advance]:
    return sorted(items, key=lambda item: item.end if isinstance(item, Event) else item.time)


# --- what differs --------------------------------------------------------------------------------------------------


def row_differences(expected: Sequence[str], found: Iterable[FoundRow], times: WrittenTimes) -> list[str]:
    """Lines that are missing, and rows that were not expected; a line without a start fits any."""
    rows = Counter((start, end, _shown(values)) for start, end, values in found)
    missing = []
    lines = [_read(line, times) for line in expected]
    for start, end, values in sorted(lines, key=lambda line: line[0] is None):  # the exact ones take theirs first
        fits = [row for row in rows if row[1:] == (end, values) and start in (None, row[0]) and rows[row]]
        if fits:
            rows[fits[0]] -= 1
        else:
            missing.append(f"missing: {_written(start, end, values, times)}")
    left = chain.from_iterable([row] * count for row, count in rows.items())
    return missing + [f"not expected: {_written(*row, times)}" for row in left]


def _read(line: str, times: WrittenTimes) -> tuple[int | None, int, str]:
    found = LINE.fullmatch(line)
    if found is None:
        raise InputError(f"{line!r} is no row", hint="write the end, a colon and the values: 3: 1 2")
    words = found[1].strip("[]").split(",")
    start, end = (times.read(words[0]), times.read(words[-1])) if len(words) == 2 else (None, times.read(words[0]))
    return start, end, _shown([value_of_word(word) for word in WORD.findall(found[2])])


def _shown(values: Iterable[Any]) -> str:
    return " ".join(map(_one, values))


def _one(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case str():
            return f'"{value}"'
    return f"{value:.9g}" if isinstance(value, float) else str(value)


def _written(start: int | None, end: int, values: str, times: WrittenTimes) -> str:
    time = times.write(end) if start is None else f"[{times.write(start)},{times.write(end)}]"
    return f"{time}: {values}".rstrip()
