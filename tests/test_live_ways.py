"""The quick ways of live events: single dicts with points in time, matches without Arrow, rows that wait, whole lines.

Each gives what the longer way gives, which other tests compare with the definition.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta, timezone
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

import tocsin
from tests.effort import examples
from tests.taking import Taking
from tests.test_latency import as_dict, plain
from tocsin.app import live
from tocsin.encode.row import RowEncoder
from tocsin.encode.times import date_ticks, local_ticks, ticks, zoned_ticks
from tocsin.engine.changes import ChangeBatch
from tocsin.run import json_columns, session
from tocsin.run.bad_rows import BadRows
from tocsin.run.live_matches import LiveMatches
from tocsin.run.matches import Matches
from tocsin.run.session import Session
from tocsin.run.stream_rows import StreamRows
from tocsin.testing.strategies import SCHEMA, pair

pytestmark = pytest.mark.filterwarnings("ignore::tocsin.errors.TocsinWarning")  # drawn queries say strange things

Row = dict[str, Any]
ZONE = timezone(timedelta(hours=2))
FIRST = datetime(2024, 3, 1)  # noqa: DTZ001 - no zone is meant
TIMES: dict[str, Callable[[int], Any]] = {
    "local": lambda tick: FIRST + timedelta(seconds=tick),
    "local text": lambda tick: str(FIRST + timedelta(seconds=tick)),
    "zoned": lambda tick: FIRST.replace(tzinfo=ZONE) + timedelta(seconds=tick),
    "zoned text": lambda tick: (FIRST.replace(tzinfo=UTC) + timedelta(seconds=tick)).isoformat().replace("+00:00", "Z"),
    "dates": lambda tick: date(2024, 3, 1) + timedelta(days=tick),
    "ticks": lambda tick: tick,
}
UNIT = {"dates": "days", "ticks": ""}
QUERIES = (
    "EVENT SEQ(A a, B b, C c) WHERE [k] AND b.v >= a.v WITHIN 6 {unit}",
    "EVENT SEQ(A a, OR(B b, C c), A d) WHERE a.k = d.k WITHIN 5 {unit}",
    "EVENT SEQ(A a, B+ b, C c) WHERE [k] WITHIN 4 {unit}",
    "EVENT SEQ(A a, !B b, C c) WHERE [k] WITHIN 6 {unit}",
    "EVENT SEQ(A a, C c, !B b) WHERE [k] WITHIN 3 {unit}",
    "EVENT EXISTS b : SEQ(A a, B b, C c) WHERE [k] WITHIN 5 {unit}",
    "EVENT SEQ(A a, B b) WHERE [k] WITHIN 4 {unit} SELECT a.s AS s, b.v AS v, a.k AS k",
    "EVENT SEQ(A a, B b) WHERE [k] WITHIN 4 {unit} SELECT a.v + b.v AS sum",
    "EVENT SEQ(A a, NEXT ANY x, C c) WHERE [k] WITHIN 6 {unit}",
)


def rows_of(random: Random, count: int, time: Callable[[int], Any], *, late: int = 0) -> list[Row]:
    """Events with equal rows among them, with nulls, and with rows that lack an attribute."""
    made = [
        {
            "type": random.choice("ABCD"),
            "time": time(at // 2),
            "k": random.choice("xy"),
            "v": random.choice((0.5, 1, 2.0)),
            **({"s": random.choice(("p", "ö", None))} if random.random() < 0.7 else {}),
        }
        for at in range(count)
    ]
    made[0] = {"type": "A", "time": time(0), "k": "x", "v": 0.5, "s": "p"}
    order = sorted(range(count), key=lambda at: at + (random.randrange(2 * late) if late else 0))
    return [made[at] for at in order]


def as_shown(matches: Matches) -> list[Row]:
    """The matches by way of their tables."""
    return [match for table in matches.tables() for match in Matches([table])]


# --- points in time ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", TIMES)
@pytest.mark.parametrize("text", QUERIES)
def test_single_events_with_any_times_give_what_a_list_gives(text: str, form: str) -> None:
    query = tocsin.query(text.format(unit=UNIT.get(form, "s")))
    rows = rows_of(Random(text), 60, TIMES[form])
    alone, together = query.stream(jit=False), query.stream(jit=False)
    found = [match for row in rows for match in alone.push(row)] + list(alone.close())
    expected = [*together.push(rows), *together.close()]
    assert sorted(map(repr, map(plain, found))) == sorted(map(repr, map(plain, expected)))
    assert alone.counters == together.counters and found


@pytest.mark.parametrize("form", ["local", "local text", "zoned", "zoned text", "dates"])
def test_points_in_time_take_the_short_way(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = tocsin.query("EVENT SEQ(A a, B b) WITHIN 4 days").stream(jit=False)
    rows = [{"type": "AB"[at % 2], "time": TIMES[form](at), "v": at} for at in range(20)]
    stream.push(rows[0])
    monkeypatch.setattr(Session, "_push_rows", lambda self, rows: pytest.fail(f"the long way: {rows}"))
    assert sum(len(stream.push(row)) for row in rows[1:]) > 0


def test_ticks_of_single_times_are_those_of_columns() -> None:
    zones = [UTC, ZONE, ZoneInfo("Europe/Paris"), ZoneInfo("America/St_Johns"), timezone(timedelta(seconds=-3721))]
    random = Random(5)
    for _ in range(300):
        moment = datetime(random.choice((1, 1890, 1969, 1970, 2024, 9999)), 12, 29) + timedelta(  # noqa: DTZ001
            microseconds=random.randrange(86_400_000_000)
        )
        assert local_ticks(moment) == ticks(pa.array([moment], pa.timestamp("us")), "time")[0][0]
        assert local_ticks(moment.isoformat()) == local_ticks(moment)
        assert date_ticks(moment.date()) == ticks(pa.array([moment.date()]), "time")[0][0]
        zoned = moment.replace(tzinfo=random.choice(zones), fold=random.randrange(2))
        if 1 < moment.year < 9999:
            assert zoned_ticks(zoned) == ticks(pa.array([zoned], pa.timestamp("us", "UTC")), "time")[0][0]
            assert zoned_ticks(zoned.isoformat()) == zoned_ticks(zoned)
        assert local_ticks(zoned) is None and zoned_ticks(moment) is None and date_ticks(moment) is None


@pytest.mark.parametrize(
    "value", ["20240301", " 2024-03-01", "2024-13-01", "", "now", None, 5, 5.0, True, date(2024, 3, 1), b"2024-03-01"]
)
def test_what_is_no_plain_point_in_time_takes_the_long_way(value: Any) -> None:
    assert local_ticks(value) is None and zoned_ticks(value) is None


@pytest.mark.parametrize("form", ["local", "local text", "zoned", "dates", "ticks"])
@pytest.mark.parametrize("other", ["local text", "zoned text", "dates", "ticks"])
def test_a_time_that_is_written_in_another_way_is_refused_as_in_a_list(form: str, other: str) -> None:
    rows = [{"type": "A", "time": TIMES[form](0)}, {"type": "A", "time": TIMES[form](1)}]
    rows += [{"type": "B", "time": TIMES[other](2)}]
    said = []
    for pushes in (rows, [rows]):
        unit = {"time_unit": "s"} if form == "ticks" else {}
        stream = tocsin.query("EVENT SEQ(A a, B b) WITHIN 4 days").stream(jit=False, **unit)
        try:
            said.append(sum(len(stream.push(each)) for each in pushes))
        except tocsin.TocsinError as problem:
            said.append(problem.message.partition(": ")[2] or problem.message)
    assert said[0] == said[1]


# --- matches -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["in-order", "any", "slack(2 {unit})"])
@pytest.mark.parametrize("form", ["local text", "zoned", "dates", "ticks"])
@pytest.mark.parametrize("text", QUERIES)
def test_a_match_is_the_same_with_and_without_a_table(text: str, form: str, order: str) -> None:
    unit = UNIT.get(form, "s")
    stream = tocsin.query(text.format(unit=unit)).stream(jit=False, order=order.format(unit=unit))
    quick = 0
    for row in rows_of(Random(f"{text} {form}"), 60, TIMES[form], late=0 if order == "in-order" else 2):
        matches = stream.push(row)
        shown = list(matches)
        quick += isinstance(matches, LiveMatches) and not any(isinstance(part, pa.Table) for part in matches._parts)
        assert len(matches) == len(shown)
        assert repr(shown) == repr(as_shown(matches))
        assert repr(shown) == repr(list(matches))  # by the table now
    assert quick > 0 or "a.v + b.v" in text


@pytest.mark.parametrize("eid", [True, False], ids=["eid", "no eid"])
@pytest.mark.parametrize("intervals", [True, False], ids=["intervals", "points"])
@pytest.mark.parametrize("order", ["in-order", "any"])
def test_drawn_matches_are_the_same_with_and_without_a_table(order: Any, intervals: bool, eid: bool) -> None:
    for number in range(examples(40, least=10)):
        query, events = pair(Random(f"live {number}"), intervals=intervals)
        rows = [as_dict(event, eid=eid) for event in sorted(events, key=lambda event: event.end)]
        rows = [{**row, "end": row.get("end", row["time"])} for row in rows] if intervals else rows
        stream = tocsin.query(query).stream(schema=SCHEMA, jit=False, endless=False, order=order)
        for row in rows:
            matches = stream.push(row)
            shown = list(matches)
            assert repr(shown) == repr(as_shown(matches)), f"{query}\n{rows}"


def test_matches_that_are_kept_keep_nothing_but_their_events() -> None:
    stream = tocsin.query("EVENT SEQ(A a, B b) WITHIN 5").stream(jit=False)
    kept = [stream.push({"type": "AB"[at % 2], "time": at}) for at in range(200)]
    parts = [part for matches in kept if isinstance(matches, LiveMatches) for part in matches._parts]
    views = [part.payload for part in parts if isinstance(part, ChangeBatch)]
    assert len(views) > 90 and all(not view._before and len(view.singles) < 60 for view in views)


# --- slack ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", QUERIES)
@pytest.mark.parametrize("number", range(examples(6, least=2)))
def test_slack_gives_the_same_however_events_come(text: str, number: int) -> None:
    random = Random(f"{text} {number}")
    query = tocsin.query(text.format(unit=""))
    rows = rows_of(random, 200, TIMES["ticks"], late=6)
    expected: list[Any] | None = None
    for most in (1, 1, 4, 200):
        stream, found, at, late = query.stream(jit=False, order="slack(3)"), [], 0, 0
        while at < len(rows):
            size = random.randint(1, most)
            found += list(stream.push(rows[at] if size == 1 else rows[at : at + size]))
            late += len(stream.late)
            at += size
            if expected is not None and random.random() < 0.1:
                saved, stream = stream.save(), query.stream(jit=False, order="slack(3)")
                stream.restore(saved)
        counters = stream.counters
        found += list(stream.close())
        got = [late, counters, sorted(map(repr, map(plain, found)))]
        expected = got if expected is None else expected
        assert got == expected
    assert expected is not None and expected[0] > 0 and expected[2]


def test_rows_that_wait_alone_are_read_twice_and_copied_never(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = tocsin.query("EVENT SEQ(A a, B b) WHERE [k] WITHIN 9").stream(jit=False, order="slack(5)")
    rows = [{"type": "AB"[at % 2], "time": at, "k": f"k{at % 3}"} for at in range(300)]
    found = [match for row in rows[:20] for match in stream.push(row)]
    monkeypatch.setattr(RowEncoder, "batch", lambda self, rows: pytest.fail("a batch"))
    found += [match for row in rows[20:] for match in stream.push(row)]
    assert len(found) > 100


# --- lines ---------------------------------------------------------------------------------------------------------

ODD_LINES = [
    "", "   ", "{", "5", "[]", '{"type": "A"}', '{"type": "A", "time": 1}{"type": "B", "time": 1}', '{"heartbeat": 3}',
    '{"type": "A", "time": 2, "time": 3}', '{"type": "A", "time": "x"}', '{"type": 5, "time": 7}', "\ufeff{}",
    '{"type": "A", "time": 2, "v": 1e400}', '{"type": "A", "time": 2, "v": -0}', '{"type": "A", "time": 2, "v": Inf}',
    '{"type": "A", "time": 2, "v": 9007199254740993}', '{"type": "A", "time": 2, "n": 9007199254740993}',
    '{"type": "A", "time": 2, "n": 1.0}', '{"type": "A", "time": 2, "n": 99999999999999999999}', '{"a": {"b": [1]}}',
    '{"type": "A", "time": 2, "s": "\\ud800"}', '{"type": "A", "time": 2, "s": "\\u00f6"}',
    '{"type": "A", "time": 2} x',
    '{"type": "A", "time": 2, "new": 1}', '{"type": "D", "time": 2, "new": {"deep": [1]}}',
    '{"type": "A", "time": 2.0}',
    '{"type": "D", "time": 2, "other": 7}', '{"type": "A", "time": 2, "eid": 7}', '{"type": "A", "time": 2, "end": 7}',
    '{"type": "A", "time": 2, "s": 5}', '{"type": "A", "time": 2, "v": NaN}', ' {"type": "A", "time": 2, "k": "x"}',
    '{"type": "A", "time": 2, "k": "{"}', '{"type": "A", "time": 2, "k": "a\tb"}', '{"type": null, "time": 2}',
]  # fmt: skip
ODD_BYTES = [b'{"type": "A", "time": 2, "k": "\xff"}', b'{"type": "A", "time": 2, "k": "\xed\xa0\x80"}', b"\0"]
ODD_TIMES = [
    "2024-03-01", "2024-03-01 00:00", "2024-03-01T00:00:09.1234567", "20240301", "2024-03-01T00:00:61", "now",
    "2024-03-01T00:00:09Z", "2024-03-01t00:00:09", "2024-03-01T00:00:09+25:00", "0000-01-01T00:00:00", "5",
    "2024-03-01T24:00:00", "2024-02-30T00:00:00", "2024-03-01T00:00:09,5", " 2024-03-01T00:00:09 ",
    "0001-01-01T00:00:00",
]  # fmt: skip


def said(value: Any) -> Any:
    """Without nulls: an attribute that nobody has shown yet may be missing or null, as lines are cut."""
    if isinstance(value, list):
        return [said(each) for each in value]
    return {name: each for name, each in value.items() if each is not None} if isinstance(value, dict) else value


class Torn(io.BytesIO):
    """A pipe whose reads give a random number of bytes."""

    def __init__(self, data: bytes, random: Random, most: int) -> None:
        super().__init__(data)
        self.random, self.most = random, most

    def read1(self, size: int | None = -1) -> bytes:
        del size
        return super().read1(self.random.randint(1, self.most))


class Noting(BadRows):
    """Every complaint."""

    def __init__(self, policy: str) -> None:
        super().__init__(policy)
        self.told: list[str] = []

    def report(self, place: str, reason: str, row: Any = None, *, hint: str | None = None) -> None:
        self.told.append(f"{place}: {reason}")
        super().report(place, reason, row, hint=hint)


def followed(query: tocsin.Query, data: Torn, **options: Any) -> tuple[list[Row], list[str], dict[str, int]]:
    """What comes out of a pipe: matches in order of their ends, complaints, counters.

    Matches that end with one event have no order: a state that is taken up when a new attribute is learnt (and where
    that happens depends on the cuts) keeps events of one time in the order of their eids.
    """
    bad = Noting("skip")
    stream, found = query.stream(jit=False, **options), []

    def emit(matches: Matches) -> bool:
        found.extend(matches)
        return True

    live.follow(stream, data, bad, Taking(emit))
    emit(stream.close())
    shown = [plain({name: said(value) for name, value in match.items()}) for match in found]
    assert [match["end"] for match in found] == sorted(match["end"] for match in found)
    return (
        sorted(shown, key=lambda match: (match["end"], repr(match))),
        sorted(bad.told),
        stream.counters,
    )


def lines_of(random: Random, form: str, odd: int) -> Iterator[bytes]:
    rows = rows_of(random, 300, TIMES[form])
    for at, row in enumerate(rows):
        row["n"] = at
        if row["type"] == "D":
            row["mine"] = random.choice((1, 2))
        yield json.dumps(row, ensure_ascii=False).encode()
        if at > 40 and random.randrange(100) < odd:
            if form != "ticks" and random.random() < 0.7:
                yield json.dumps({"type": random.choice("AD"), "time": random.choice(ODD_TIMES), "k": "x"}).encode()
            else:
                yield random.choice([*(line.encode() for line in ODD_LINES), *ODD_BYTES])


@pytest.mark.parametrize("form", ["ticks", "local text", "zoned text"])
@pytest.mark.parametrize("number", range(examples(20, least=5)))
def test_lines_as_columns_are_lines_one_by_one(number: int, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(f"{form} {number}")
    data = b"\n".join(lines_of(random, form, random.choice((0, 2, 15))))
    query = tocsin.query((*QUERIES[:4], QUERIES[-1])[number % 5].format(unit=UNIT.get(form, "s")))
    options: dict[str, Any] = (
        {"schema": {"*": {"k": "text", "v": "float", "n": "int"}}} if number % 3 == 0 and form == "ticks" else {}
    )
    with monkeypatch.context() as patched:
        patched.setattr(session, "columns_of", lambda lines, reading: None)
        expected = followed(query, Torn(data, random, 5000), **options)
    taken = {True: 0, False: 0}

    def counted(lines: Sequence[bytes], reading: StreamRows) -> pa.RecordBatch | None:
        batch = json_columns.columns_of(lines, reading)
        taken[batch is not None] += 1
        return batch

    monkeypatch.setattr(session, "columns_of", counted)
    most = random.choice((200, 1000, 9000))
    monkeypatch.setattr(live, "FEW", 0 if most == 200 else 3)
    monkeypatch.setattr(live, "SOME", random.choice((1, 8)))
    assert followed(query, Torn(data, random, most), **options) == expected
    assert taken[True] > 0


def test_odd_lines_alone_are_judged_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each odd line among good ones, so that none hides behind another."""
    query = tocsin.query("EVENT SEQ(A a, B b) WHERE [k] WITHIN 9")
    first = b'{"type": "A", "time": 1, "k": "x", "v": 0.5, "n": 1, "s": "t"}'
    good = [b'{"type": "AB", "time": 2}'.replace(b"AB", b"AB"[at % 2 :][:1]) for at in range(6)]
    monkeypatch.setattr(live, "FEW", 0)
    monkeypatch.setattr(live, "SOME", 1)
    for odd in [*(line.encode() for line in ODD_LINES), *ODD_BYTES]:
        data = b"\n".join([first, *good, odd, *good, b'{"type": "B", "time": 3, "k": "x"}'])
        with monkeypatch.context() as patched:
            patched.setattr(session, "columns_of", lambda lines, reading: None)
            expected = followed(query, Torn(data, Random(1), 1))
        for most in (1, 70, 9999):
            assert followed(query, Torn(data, Random(1), most)) == expected, odd


@pytest.mark.parametrize("written", ODD_TIMES)
def test_odd_times_are_judged_alike(written: str, monkeypatch: pytest.MonkeyPatch) -> None:
    query = tocsin.query("EVENT SEQ(A a, B b) WITHIN 9 days")
    monkeypatch.setattr(live, "FEW", 0)
    for zone in ("", "Z"):
        good = json.dumps({"type": "A", "time": f"2024-03-01T00:00:00{zone}"}).encode()
        data = b"\n".join([good, good, json.dumps({"type": "B", "time": written}).encode(), good])
        with monkeypatch.context() as patched:
            patched.setattr(session, "columns_of", lambda lines, reading: None)
            expected = followed(query, Torn(data, Random(1), 1))
        assert followed(query, Torn(data, Random(1), 9999)) == expected
