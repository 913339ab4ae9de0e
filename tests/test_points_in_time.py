"""Timestamps in queries, and the hour, day and the like of points in time: oracle, plain and compiled body, Python."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise, product
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

import tocsin
from tests.effort import examples
from tocsin.errors import QueryError, TocsinError
from tocsin.events import Event
from tocsin.lang.parser import parse
from tocsin.schema import Field, Kind, Schema
from tocsin.testing.modes import Mode, run
from tocsin.testing.oracle import matches

EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - times without a zone are taken as they are written
SCHEMA = Schema(types={"A": {}}, common={"at": Field("at", Kind.TIME, nullable=True)}, unit="us")
PARTS = {
    "hour": lambda moment: moment.hour,
    "minute": lambda moment: moment.minute,
    "second": lambda moment: moment.second,
    "weekday": datetime.isoweekday,
}


def micros(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1)


def moments(count: int) -> list[datetime]:
    random, edges = Random(7), [EPOCH, datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999_999)]  # noqa: DTZ001
    edges += [EPOCH - timedelta(microseconds=1), datetime(2024, 2, 29, 23, 59, 59, 999_999)]  # noqa: DTZ001
    return edges + [EPOCH + timedelta(microseconds=random.randrange(-(10**16), 10**17)) for _ in range(count)]


def holds(condition: str, events: list[Event], mode: Mode | None) -> set[Any]:
    query = parse(f"EVENT A a WHERE {condition}")
    if mode is None:
        return {match.binding[0][1][0] for match in matches(query, events, unit="us")}
    return {binding[0][1][0] for binding in run(query, events, mode, schema=SCHEMA)}


@pytest.mark.parametrize("mode", [None, Mode(), pytest.param(Mode(jit=True), marks=pytest.mark.jit)], ids=str)
@pytest.mark.parametrize("of", ["a.at", "start(a)", "a.time"])
def test_parts_are_those_of_python(of: str, mode: Mode | None) -> None:
    times = moments(examples(400, least=20))
    events = [Event("A", at, at, number, {"at": at}) for number, at in enumerate(map(micros, times))]
    for name, value in {"hour": 23, "minute": 59, "second": 59, "weekday": 4}.items():
        expected = {number for number, moment in enumerate(times) if PARTS[name](moment) == value}
        assert holds(f"{name}({of}) = {value}", events, mode) == expected
    day = datetime(2024, 2, 29)  # noqa: DTZ001
    expected = {number for number, moment in enumerate(times) if moment.date() == day.date()}
    assert holds(f"date({of}) = timestamp('2024-02-29')", events, mode) == expected
    expected = {number for number, moment in enumerate(times) if moment <= EPOCH}
    assert holds(f"{of} <= TIMESTAMP '1970-01-01T00:00:00'", events, mode) == expected


ZONES = ("Europe/Berlin", "America/St_Johns", "Africa/Monrovia", "Pacific/Apia", "Asia/Kathmandu", "UTC")


def clock(moment: datetime, zone: str) -> datetime | None:
    """What a clock on the wall shows, as Python says it."""
    try:
        return moment.replace(tzinfo=UTC).astimezone(ZoneInfo(zone)).replace(tzinfo=None)
    except OverflowError:
        return None


def zoned_moments(count: int, zone: str) -> list[datetime]:
    """Moments of any time, and those around the hours at which clocks are set."""
    days = [datetime(year, 1, 1) + timedelta(days=day) for year in (1972, 2011, 2026) for day in range(365)]  # noqa: DTZ001
    ahead = [(clock(day, zone) or day) - day for day in days]
    set_on = [day for day, (one, two) in zip(days, pairwise(ahead), strict=False) if one != two]
    halves = [timedelta(minutes=30 * step, microseconds=-(step % 2)) for step in range(48)]
    return moments(count) + [day + later for day in set_on for later in halves]


COMPILED = pytest.param(ZONES[0], Mode(jit=True), marks=pytest.mark.jit)  # one: zones differ before the kernel


@pytest.mark.parametrize(("zone", "mode"), [*product(ZONES, (None, Mode())), COMPILED], ids=str)
def test_parts_in_a_zone_are_those_of_python(zone: str, mode: Mode | None) -> None:
    times = zoned_moments(examples(200, least=20), zone)
    events = [Event("A", at, at, number, {"at": at}) for number, at in enumerate(map(micros, times))]
    walls = [clock(moment, zone) for moment in times]
    for of in ("a.at", "a.time"):
        tests = " AND ".join(
            f"{name}({of}, '{zone}') <> {at}" for name, at in (("hour", 2), ("minute", 30), ("weekday", 7))
        )
        expected = {
            number
            for number, wall in enumerate(walls)
            if wall is not None and wall.hour != 2 and wall.minute != 30 and wall.isoweekday() != 7
        }
        assert holds(tests, events, mode) == expected
    day = datetime(2026, 3, 29)  # noqa: DTZ001
    expected = {number for number, wall in enumerate(walls) if wall is not None and wall.date() == day.date()}
    assert holds(f"date(a.time, '{zone}') = timestamp('2026-03-29')", events, mode) == expected
    unknown = {number for number, wall in enumerate(walls) if wall is None}
    assert holds(f"hour(a.time, '{zone}') IS NULL", events, mode) == unknown


@pytest.mark.parametrize("jit", [False, pytest.param(True, marks=pytest.mark.jit)])
def test_zones_of_several_events(jit: bool) -> None:
    """Of each event it is a column; of an aggregate only plain Python can ask it."""
    asked = "SEQ(A a, B+ b, C c) WHERE date(a.time, 'Asia/Tokyo') = date(c.time, 'Asia/Tokyo')"
    asked += " AND hour(first(b.at), 'Asia/Tokyo') = 23"
    query = parse(f"EVENT {asked} WITHIN 2 d")
    starts = [datetime(2026, 1, 1, 13), datetime(2026, 1, 2, 13, 30), datetime(2026, 1, 3, 14, 1)]  # noqa: DTZ001
    events = []
    for first in map(micros, starts):
        hour = 3_600_000_000
        for type, later in (("A", 0), ("B", hour), ("C", hour + hour // 2)):
            events.append(Event(type, first + later, first + later, len(events), {"at": first + later}))
    expected = {match.binding for match in matches(query, events, unit="us")}
    schema = replace(SCHEMA, types={"A": {}, "B": {}, "C": {}})
    assert run(query, events, Mode(jit=jit), schema=schema) == Counter(expected)
    assert expected


def test_a_zone_is_said_once() -> None:
    where = "hour(a.at) < 6 AND date(b.at, 'UTC') = date(c.at)"
    text = f"EVENT SEQ(A a, !B b, C c) WHERE {where} WITHIN 5 SELECT weekday(a.at)"
    asked = tocsin.query(text, zone="Europe/Berlin")
    assert str(asked).count("'Europe/Berlin'") == 3
    assert tocsin.query(str(asked)) == asked
    with pytest.raises(TocsinError, match="did you mean Europe/Berlin"):
        tocsin.query(text, zone="Europe/Berlinn")


@pytest.mark.parametrize("mode", [None, Mode()], ids=str)
def test_of_null_is_null(mode: Mode | None) -> None:
    events = [Event("A", 1, 1, 1, {"at": None})]
    assert holds("hour(a.at) IS NULL AND date(a.at) IS NULL AND timestamp(a.at) IS NULL", events, mode) == {1}


def test_select_shows_timestamps() -> None:
    nine = datetime(2026, 3, 1, 9, 0, 5)  # noqa: DTZ001
    table = pa.table({"type": ["A"], "time": [nine], "at": [datetime(1969, 12, 31, 23, 59, 58)]})  # noqa: DTZ001
    shown = "timestamp(a.time) AS at, date(a.time) AS day, weekday(a.time) AS weekday, hour(a.at) AS hour"
    [match] = tocsin.query(f"EVENT A a SELECT {shown}").detect(table, jit=False)
    assert (match["at"], match["day"]) == (nine, nine.replace(hour=0, second=0))
    assert (match["weekday"], match["hour"]) == (7, 23)


def test_timestamps_with_a_zone_are_one_moment() -> None:
    table = pa.table({"type": ["A"], "time": [datetime(2026, 3, 1, 9, tzinfo=UTC)]})
    for text in ("2026-03-01T10:00:00+01:00", "2026-03-01T09:00:00Z", "2026-03-01 09:00:00"):
        assert len(tocsin.query(f"EVENT A a WHERE a.time = TIMESTAMP '{text}'").detect(table, jit=False)) == 1


def test_both_spellings_are_one_syntax() -> None:
    one = parse("EVENT A a WHERE a.time > TIMESTAMP '2026-03-01' AND hour(a.time) = 9")
    assert one == parse("EVENT A a WHERE a.time > timestamp('2026-03-01') AND hour(a.time) = 9") == parse(str(one))
    assert parse("EVENT A a WHERE a.timestamp > 1")  # an attribute may be called so


@pytest.mark.parametrize(
    ("condition", "unit", "message"),
    [
        ("a.time > TIMESTAMP 'yesterday'", "us", "'yesterday' is not a timestamp"),
        ("a.time > TIMESTAMP '2026-02-30'", "us", "is not a timestamp"),
        ("a.time > timestamp(5)", "us", "takes one text in quotes"),
        ("a.time > timestamp('2026-03-01')", "s", "ticks of its own"),
        ("hour(a.time) = 9", "s", "hour needs a point in time"),
        ("hour(a.v) = 9", "us", "hour needs a point in time, not a whole number"),
        ("hour() = 9", "us", "hour takes a point in time, and perhaps a zone: not 0 arguments"),
        ("hour(a.time, 'Europe/Berlinn') = 9", "us", "did you mean Europe/Berlin?"),
        ("hour(a.time, 'berlin') = 9", "us", "did you mean Europe/Berlin?"),
        ("hour(a.time, '../../etc/passwd') = 9", "us", "there is no time zone"),
        ("hour(a.time, a.v) = 9", "us", "the name of a time zone in quotes"),
        ("hour(a.time, 'UTC') = 9", "s", "hour needs a point in time"),
        ("a.time > '2026-03-01'", "us", "write timestamp('2026-03-01')"),
    ],
)
def test_what_is_no_point_in_time(condition: str, unit: str, message: str) -> None:
    schema = Schema(types={"A": {}}, common={"v": Field("v", Kind.INT)}, unit=unit)
    with pytest.raises(QueryError) as refused:
        tocsin.query(f"EVENT A a WHERE {condition}").plans(schema)
    assert message in str(refused.value)


def test_check_needs_no_events_for_timestamps() -> None:
    asked = "EVENT SEQ(A a, B b) WHERE hour(a.time) = 9 AND b.time > TIMESTAMP '2026-03-01' WITHIN 5"
    assert tocsin.query(asked).check() == ()


# --- names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("EVENT SEQ(A a, B b) WHERE [case:concept:name]", "`case:concept:name`"),
        ("EVENT SEQ(A a, B b) WHERE a.org:resource = 'x'", "`org:resource`"),
        ("EVENT SEQ(W_Nabellen offertes{3,} w, C c)", "`W_Nabellen offertes`"),
        ("EVENT SEQ(A a, W_Nabellen offertes w, C c)", "`W_Nabellen offertes`"),
        ("EVENT SEQ(A a, Call the client w)", "`Call the`"),
    ],
)
def test_names_with_colons_and_blanks_get_the_hint(text: str, hint: str) -> None:
    with pytest.raises(QueryError) as refused:
        tocsin.query(text)
    assert hint in str(refused.value)


def test_a_key_may_be_called_case() -> None:
    one, other = (parse(f"EVENT SEQ(A a, B b) {key} WITHIN 5") for key in ("PARTITION BY case", "PARTITION BY `case`"))
    assert one == other == parse(str(one))
