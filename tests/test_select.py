"""Columns of SELECT that are no plain values: s.*, collect(b.v), and points in time, in every way of running."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import tocsin
from tests.effort import examples
from tocsin.errors import QueryError
from tocsin.events import Event
from tocsin.lang.fluent import collect, event, seq
from tocsin.lang.parser import parse, parse_all
from tocsin.schema import RESULT_COLUMNS
from tocsin.testing.oracle import matches, matches_of_all

QUERY = "EVENT SEQ(A a, B+ b, C c) WHERE a.k = b.k WITHIN 6 "
SHOWN = "SELECT a.*, collect(b.v) AS vs, collect(b.name) AS names, collect(b.v * 2) AS sums"


def history(seed: int, count: int = 14) -> list[Event]:
    random, found = Random(seed), []
    for number in range(count):
        attrs = {
            "k": random.randrange(2),
            "v": random.choice((1.5, -2.0, None)),
            "name": random.choice(("x", "y", None)),
        }
        at = random.randrange(12)
        found.append(Event(random.choice("AABBBC"), at, at, number, attrs))
    return sorted(found, key=lambda each: each.end)


def rows(events: list[Event]) -> list[dict[str, Any]]:
    return [{"type": each.type, "time": each.end, "eid": each.eid, **each.attrs} for each in events]


def selected(row: Any) -> str:
    """The columns of a match but the first ones, in any order."""
    return repr(sorted((name, value) for name, value in row.items() if name not in (*RESULT_COLUMNS, "step")))


@pytest.mark.parametrize("seed", range(examples(60, least=4)))
def test_lists_and_all_attributes_are_those_of_the_definition(seed: int) -> None:
    events = history(seed)
    expected = sorted(selected(match.select) for match in matches(parse(QUERY + SHOWN), events) if match.select)
    query = tocsin.query(QUERY + SHOWN)
    assert sorted(map(selected, query.detect(rows(events), jit=False))) == expected
    mixed = rows(events)
    Random(seed).shuffle(mixed)
    assert sorted(map(selected, query.detect(pa.Table.from_pylist(mixed), jit=False, order="any"))) == expected
    session, found = query.stream(jit=False), []
    for row in rows(events):
        found += session.push(row)
    assert sorted(map(selected, [*found, *session.close()])) == expected


@pytest.mark.parametrize("seed", range(examples(40, least=3)))
def test_later_queries_read_all_attributes_but_no_lists(seed: int) -> None:
    text = "QUERY one EVENT SEQ(A a, B+ b) WITHIN 4 SELECT a.*, count(b) AS n, collect(b.v) AS vs; "
    text += "EVENT SEQ(one o, C c) WHERE o.k = c.k AND o.n > 1 SELECT o.*, c.name AS last"
    events = history(seed)
    answers = matches_of_all(parse_all(text.replace(", collect(b.v) AS vs", "")), events)
    found = [match for match in tocsin.query(text).detect(rows(events), jit=False) if match["query"] == "query 2"]
    assert sorted(selected(match) for match in found) == sorted(selected(match.select) for match in answers[1])


TIMES = [datetime(2026, 3, 1, 9, tzinfo=UTC) + timedelta(minutes=minute) for minute in range(4)]
LOGINS = [
    {"type": type, "time": at, "user": 7, "ip": f"10.0.0.{number}"}
    for number, (type, at) in enumerate(zip("ABBC", TIMES, strict=True))
]
MOMENTS = "EVENT SEQ(A a, B+ b, C c) WHERE [user] WITHIN 1 h "
MOMENTS += "SELECT a.time AS at, end(c) AS until, b[-1].time AS last, collect(b.time) AS each"


@pytest.mark.parametrize("zone", [UTC, None])
def test_points_in_time_are_shown_as_start_and_end_are(zone: Any) -> None:
    events = [{**each, "time": each["time"].replace(tzinfo=zone)} for each in LOGINS]
    times = [each["time"] for each in events]
    session = tocsin.query(MOMENTS).stream(jit=False)
    live = [match for each in events for match in session.push(each)]
    for (match,) in (tocsin.query(MOMENTS).detect(events, jit=False), live):
        assert (match["at"], match["until"], match["last"]) == (match["start"], match["end"], times[2])
        assert match["each"] == [time.replace(tzinfo=None) for time in times[1:3]]
    ticks = [{**each, "time": number} for number, each in enumerate(events)]
    (match,) = tocsin.query(MOMENTS.replace("1 h", "9")).detect(ticks, jit=False)
    assert (match["at"], match["until"], match["last"], match["each"]) == (0, 3, 2, [1, 2])
    (match,) = tocsin.query(MOMENTS).detect(ticks, jit=False, time_unit="us")
    assert (match["at"], match["until"], match["last"]) == (match["start"], match["end"], 2)


def test_columns_of_one_name_and_names_that_results_have() -> None:
    row = {"type": "A", "time": 1, "kind": "k", "query": 5, "v": 1}
    events = [row, {**row, "type": "B", "time": 2}]
    (match,) = tocsin.query("EVENT SEQ(A a, B b) SELECT a.*, b.v").detect(events, jit=False)
    assert list(match)[len(RESULT_COLUMNS) :] == ["a_kind", "a_query", "a_v", "b_v"]


def test_lists_of_decimals_truths_and_nan() -> None:
    table = pa.table({"type": ["A", "B", "B"], "time": [1, 2, 3], "ok": [None, True, False], "f": [0.0, math.nan, 1.0],
                      "d": pa.array(["1.10", None, "2.25"]).cast(pa.decimal128(9, 2))})  # fmt: skip
    (match,) = tocsin.query(
        "EVENT SEQ(A a, B+ b) SELECT collect(b.ok) AS o, collect(b.d) AS d, collect(b.f) AS f"
    ).detect(table, jit=False)
    assert (match["o"], [None if each is None else str(each) for each in match["d"]]) == ([True, False], [None, "2.25"])
    assert math.isnan(match["f"][0])


def test_the_text_of_it_is_read_back() -> None:
    text = "EVENT SEQ(A a, B+ b) SELECT a.*, collect(b.v) AS vs"
    assert parse(str(parse(text))) == parse(text)
    fluent = seq(event("A", "a"), event("B", "b").plus()).select("a.*", vs=collect("b.v"))
    assert fluent.query == parse(text)


@pytest.mark.parametrize(
    ("select", "message"),
    [
        ("b.*", "b is repeated"),
        ("a.* AS x", "a.* is several columns"),
        ("n.*", "bound inside a negated part"),
        ("z.*", "unknown variable z"),
        ("length(a.*)", "columns, not a value"),
        ("count(collect(b.v))", "nothing can be asked of lists"),
        ("collect(b.v) = 1", "nothing can be asked of lists"),
        ("collect(a.v)", "collect needs a repeated variable"),
        ("collect(b)", "collect needs an attribute"),
        ("collect(count(b))", "collect cannot run over an aggregate"),
    ],
)
def test_what_cannot_be_selected(select: str, message: str) -> None:
    with pytest.raises(QueryError) as refused:
        tocsin.query(f"EVENT SEQ(A a, B+ b, !N n, C c) WITHIN 9 SELECT {select}").check()
    assert message in str(refused.value)


def test_lists_are_not_read_by_later_queries() -> None:
    text = "QUERY one EVENT SEQ(A a, B+ b) WITHIN 4 SELECT collect(b.v) AS vs; EVENT one o WHERE o.vs = 1"
    with pytest.raises(QueryError, match="no expression can read vs"):
        tocsin.query(text).check()


@pytest.mark.long
def test_on_spark(spark: Any) -> None:
    """A batch of rows with a zone: lists, all attributes and points in time are those of an embedded run."""
    query = tocsin.query(MOMENTS + ", a.*, collect(b.ip) AS ips, hour(c.time) AS hour", zone="Asia/Tokyo")
    (expected,) = query.detect(LOGINS, jit=False)
    frame = spark.createDataFrame([{**each, "time": each["time"]} for each in LOGINS])
    (row,) = tocsin.spark.detect(frame, query, jit=False).collect()
    found = row.asDict(recursive=True)
    assert (found["ips"], found["ip"], found["hour"]) == (["10.0.0.1", "10.0.0.2"], "10.0.0.0", 18) == (
        expected["ips"], expected["ip"], expected["hour"]
    )  # fmt: skip
    assert (found["at"], found["until"]) == (found["start"], found["end"])
