"""Quiet streams: clock time answers absences where no event comes, once and on time, in a session and in a pipe.

What a clock says is recorded as a guarantee: a saved session, a replay of the recorded heartbeats and the oracle on the
events that were not late all agree. No test looks at the real time, except to let one second of it pass.
"""

from __future__ import annotations

import json
import os
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from random import Random
from typing import IO, Any

import pyarrow as pa
import pytest

import tocsin
from tests.effort import examples
from tests.test_cli import PIPES, command
from tests.test_cli import tocsin as tocsin_command  # noqa: F401 - a fixture
from tocsin.app.live import SECONDS_BETWEEN_LOOKS
from tocsin.app.running import RunOptions
from tocsin.encode.columns import Columns
from tocsin.errors import InputError, TocsinError, TocsinWarning
from tocsin.events import Event
from tocsin.lang.syntax import Query
from tocsin.plan.facts import horizon, takes
from tocsin.run.bad_rows import BadRows
from tocsin.run.clock import Clock, in_ticks
from tocsin.run.query import plans_of
from tocsin.run.session import Session
from tocsin.testing.oracle import Binding, matches
from tocsin.testing.strategies import SCHEMA, is_valid, pair

SILENCE = "EVENT SEQ(Login a, !Logout b) WHERE [user] WITHIN 1 h"
NINE = datetime(2026, 3, 1, 9, 0, tzinfo=UTC)
ANN = {"type": "Login", "time": NINE, "user": "ann"}
DUE = NINE + timedelta(hours=1, seconds=30)  # an hour of silence, and half a minute for events on their way


class Hands:
    """A clock that is moved by hand."""

    def __init__(self, now: Any = NINE) -> None:
        self.now = now

    def __call__(self) -> Any:
        return self.now

    def quiet(self, session: Session, until: datetime, step: timedelta = timedelta(seconds=10)) -> Iterator[Any]:
        """Let time pass in steps; what the session says at each, with the time."""
        while self.now < until:
            self.now += step
            for match in session.heartbeat():
                yield self.now, match["a"]["user"]


# --- an hour of silence ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["in-order", "slack(20 s)", "conservative(20 s)", "aggressive(20 s)", "auto(20 s)"])
@pytest.mark.parametrize("schema", [None, {"*": {"user": "text"}}])
def test_an_hour_of_silence_is_an_alarm_once_and_on_time(order: str, schema: Any) -> None:
    hands = Hands()
    asked, known = tocsin.query(SILENCE), None if schema is None else tocsin.schema(schema, unit="us")
    live = asked.stream(clock=Clock("30 s", now=hands), order=order, schema=known, jit=False)
    assert len(live.heartbeat()) == 0
    live.push([ANN, {**ANN, "user": "bob"}])
    hands.now = NINE + timedelta(minutes=20)
    live.push({"type": "Logout", "time": hands.now - timedelta(seconds=25), "user": "bob"})
    assert list(hands.quiet(live, NINE + timedelta(hours=9))) == [(DUE, "ann")]
    assert len(live.close()) == 0
    assert live.counters["late"] == 0


def test_a_saved_session_remembers_what_its_clock_has_said() -> None:
    hands = Hands()
    asked = tocsin.query(SILENCE)
    first = asked.stream(clock=Clock("30 s", now=hands), jit=False)
    first.push(ANN)
    assert not list(hands.quiet(first, DUE - timedelta(seconds=10)))
    second = asked.stream(clock=Clock("30 s", now=hands), jit=False, state=first.save())
    assert list(hands.quiet(second, DUE)) == [(DUE, "ann")]
    third = asked.stream(clock=Clock("30 s", now=lambda: NINE), jit=False, state=second.save())
    assert len(third.heartbeat()) == 0  # a clock that was put back takes nothing back
    third.push({"type": "Logout", "time": DUE - timedelta(seconds=30), "user": "ann"})
    assert third.late == [0]
    third.push({"type": "Logout", "time": DUE, "user": "ann"})
    assert third.late == []
    assert len(third.close()) == 0


@pytest.mark.parametrize("order", ["in-order", "slack(5 s)", "conservative", "aggressive"])
def test_an_event_behind_the_clock_is_late_counted_and_shown(order: str) -> None:
    hands = Hands()
    live = tocsin.query(SILENCE).stream(clock=Clock("30 s", now=hands), order=order, jit=False)
    live.push(ANN)
    hands.now = NINE + timedelta(minutes=10)
    live.heartbeat()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TocsinWarning)
        live.push([{"type": "Logout", "time": hands.now - timedelta(seconds=late), "user": "ann"} for late in (30, 29)])
    assert live.late == [0]
    assert live.counters["late"] == 1
    assert len(live.close()) == 0  # the other one was in time


def test_nothing_is_promised_before_the_first_event() -> None:
    hands = Hands(NINE + timedelta(days=1))
    for schema in (None, tocsin.schema({"*": {"user": "text"}}, unit="us")):
        live = tocsin.query(SILENCE).stream(clock=Clock("30 s", now=hands), schema=schema, jit=False)
        live.heartbeat()
        live.push(ANN)  # a backlog, perhaps
        assert live.counters["late"] == 0
        assert len(live.heartbeat()) == 1


# --- what a clock says in ticks --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("moment", "unit", "ticks"),
    [
        (NINE, "us", int(NINE.timestamp()) * 1_000_000),
        (NINE.astimezone(timezone(timedelta(hours=5))), "s", int(NINE.timestamp())),
        (NINE.replace(tzinfo=None), "s", int(NINE.timestamp())),
        (datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC), "s", -1),
        (datetime(1970, 1, 3, 5, tzinfo=UTC), "d", 2),
        (7, "s", 7),
        (7, None, 7),
    ],
)
def test_a_moment_in_ticks(moment: object, unit: str | None, ticks: int) -> None:
    assert in_ticks(moment, unit) == ticks


@pytest.mark.parametrize(("moment", "unit"), [(1.5, "s"), (True, "s"), (None, "us"), ("9:00", "us"), (NINE, None)])
def test_what_a_clock_cannot_say(moment: object, unit: str | None) -> None:
    with pytest.raises(InputError, match="no time of this stream"):
        in_ticks(moment, unit)


def test_the_wall_clock_is_read_in_the_unit_of_the_ticks() -> None:
    before = int(datetime.now(UTC).timestamp())
    live = tocsin.query("EVENT SEQ(A a, !B b) WITHIN 10 s").stream(clock="5 s", time_unit="s", jit=False)
    live.push({"type": "A", "time": before - 15})
    assert len(live.heartbeat()) == 1  # ten seconds, and five on the way
    live.push({"type": "A", "time": before - 5})
    assert live.late == [0]


def test_ticks_of_ones_own() -> None:
    hands = Hands(0)
    live = tocsin.query("EVENT SEQ(A a, !B b) WITHIN 10").stream(clock=Clock(5, now=hands), jit=False)
    live.push({"type": "A", "time": 1})
    said = []
    for hands.now in range(30):
        said += [hands.now for _ in live.heartbeat()]
    assert said == [16]  # 1 + 10 + 5


# --- refused ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["EVENT SEQ(A a, !B b)", "EVENT SEQ(A a, B b)", "QUERY P EVENT AND(A a, B b)"])
def test_a_clock_needs_a_window(text: str) -> None:
    with pytest.raises(TocsinError, match="has no window") as caught:
        tocsin.query(text).stream(clock="30 s", endless=False)
    assert "WITHIN 1 h" in str(caught.value.hint)
    tocsin.query("EVENT A a").stream(clock="30 s", jit=False)  # each event is judged alone


def test_integer_time_without_a_unit_is_refused_with_a_remedy() -> None:
    live = tocsin.query("EVENT SEQ(A a, !B b) WITHIN 10").stream(clock="30 s", jit=False)
    with pytest.raises(InputError, match="length is not known") as caught:
        live.push({"type": "A", "time": 1})
    assert "time_unit" in str(caught.value.hint)
    assert "Clock(" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("clock", "order", "message"),
    [
        ("soon", "in-order", "length of time"),
        ("5 fortnights", "in-order", "fortnights"),
        (-3, "in-order", "cannot be negative"),
        ("30 s", "slack(10 min)", "less than the delay that the order allows"),
        ("30 s", "conservative(31 s)", "less than the delay that the order allows"),
    ],
)
def test_a_clock_that_cannot_be_is_refused(clock: Any, order: str, message: str) -> None:
    with pytest.raises(TocsinError, match=message):
        tocsin.query(SILENCE).stream(clock=clock, order=order, jit=False).push(ANN)


def test_a_session_without_a_clock_has_no_heart() -> None:
    with pytest.raises(TocsinError, match="has no clock"):
        tocsin.query(SILENCE).stream().heartbeat()


# --- heartbeats in the pipe ------------------------------------------------------------------------------------------


def test_a_heartbeat_row_says_the_time_and_is_no_event() -> None:
    live = tocsin.query(SILENCE).stream(jit=False)
    rows = [{"heartbeat": "2026-03-01T08:00:00Z"}, ANN, {"heartbeat": "2026-03-01T10:00:00+00:00", "host": "x"}]
    assert [match["a"]["user"] for match in live.push(rows)] == ["ann"]
    assert live.counters["events"] == 1
    live.push([{"heartbeat": NINE}, {**ANN, "time": NINE + timedelta(hours=1)}, {**ANN, "time": NINE.replace(hour=11)}])
    assert live.late == [1]
    assert len(live.push({"type": None, "heartbeat": NINE.replace(hour=12, tzinfo=None)})) == 1  # zone or not: UTC


def test_a_heartbeat_of_a_source_counts_for_that_source() -> None:
    text = "EVENT SEQ(Login a, !Logout b) WHERE [user] WITHIN 10"
    live = tocsin.query(text).stream(source="host", sources=["east", "west"], order="conservative", jit=False)
    live.push([{"type": "Login", "time": 1, "user": "ann", "host": "east"}])
    assert len(live.push({"heartbeat": 11, "host": "east"})) == 0
    assert len(live.push({"heartbeat": 11, "host": "west"})) == 1


def test_an_event_may_have_a_heartbeat() -> None:
    live = tocsin.query("EVENT A a WHERE a.heartbeat > 60").stream(jit=False)
    assert len(live.push([{"type": "A", "time": 1, "heartbeat": 70}, {"type": "A", "time": 2, "heartbeat": 50}])) == 1


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"heartbeat": 7}, ANN),
        (ANN, {"heartbeat": 7}),
        ({"heartbeat": NINE}, {"type": "Login", "time": 7, "user": "ann"}),
        ({"heartbeat": NINE}, {"heartbeat": 7}),
        (ANN, {"heartbeat": "soon"}),
        (ANN, {"heartbeat": None}),
        (ANN, {"heartbeat": 2**62}),
    ],
)
def test_a_heartbeat_that_does_not_fit_is_a_bad_row(first: Any, second: Any) -> None:
    text = "EVENT SEQ(Login a, !Logout b) WHERE [user] WITHIN 10"
    for saved in (False, True):
        live = tocsin.query(text).stream(jit=False)
        live.push(first)
        if saved:
            live = tocsin.query(text).stream(jit=False, state=live.save())
        with pytest.raises(InputError, match="row 1"):
            live.push(second)
        if "type" in second:
            with pytest.raises(InputError, match="a number in others"):
                live.push(pa.Table.from_pylist([second]))


# --- tocsin run ------------------------------------------------------------------------------------------------------


class Pipe:
    """A pipe in which nothing happens until a moment of a clock: waiting moves the clock."""

    def __init__(self, hands: Hands, lines: Sequence[tuple[datetime, dict[str, Any]]], end: datetime) -> None:
        self.hands, self.lines, self.end = hands, list(lines), end
        self.waits: list[float] = []

    def wait(self, stdin: IO[bytes], seconds: float) -> bool:
        assert stdin is self  # type: ignore[comparison-overlap]
        self.waits.append(seconds)
        self.hands.now += timedelta(seconds=10 if seconds else 0)
        return self.hands.now >= (self.lines[0][0] if self.lines else self.end)

    def read1(self, size: int) -> bytes:
        assert size
        return (json.dumps(self.lines.pop(0)[1]) + "\n").encode() if self.lines else b""

    read = read1


def options(timers: Any, **given: Any) -> RunOptions:
    known: dict[str, Any] = {
        "columns": Columns(), "order": "in-order", "format": "jsonl", "output": None, "bad": BadRows("fail"),
        "limit": None, "plot": None, "every": False, "jit": False, "quiet": True,
    }  # fmt: skip
    return RunOptions(query=tocsin.query(SILENCE), timers=timers, **{**known, **given})


def written(match: dict[str, Any]) -> dict[str, Any]:
    return {**match, "time": match["time"].isoformat()}


@pytest.mark.parametrize("limit", [None, 5])
def test_a_pipe_that_is_quiet_for_an_hour_raises_its_alarm_once_and_on_time(
    capsys: pytest.CaptureFixture[str], limit: int | None
) -> None:
    hands = Hands()
    said: list[tuple[datetime, str]] = []

    class Watching(Pipe):
        def wait(self, stdin: IO[bytes], seconds: float) -> bool:
            said.extend((self.hands.now, line) for line in capsys.readouterr().out.splitlines())
            return super().wait(stdin, seconds)

    backlog = [(NINE, written({**ANN, "user": f"backlog {number}"})) for number in range(3)]
    late = (DUE + timedelta(minutes=1), written({"type": "Logout", "time": NINE, "user": "ann"}))
    pipe: Any = Watching(hands, [*backlog, (NINE, written(ANN)), late], NINE + timedelta(hours=3))
    options(Clock("30 s", now=hands), limit=limit).live(pipe, pipe.wait)
    users = ["ann", "backlog 0", "backlog 1", "backlog 2"]
    assert sorted((when, json.loads(line)["a"]["user"]) for when, line in said) == [(DUE, user) for user in users]
    assert set(pipe.waits) == {0, SECONDS_BETWEEN_LOOKS}


def test_the_clock_is_not_read_while_lines_are_waiting(capsys: pytest.CaptureFixture[str]) -> None:
    hands = Hands(NINE + timedelta(days=1))  # the pipe was not read for a day
    rows = [{"type": "Login", "time": NINE + timedelta(minutes=minute), "user": "ann"} for minute in range(10)]
    pipe: Any = Pipe(hands, [(NINE, written(row)) for row in rows], hands.now + timedelta(minutes=1))
    options(Clock("30 s", now=hands), quiet=False).live(pipe, pipe.wait)
    told = capsys.readouterr()
    assert len(told.out.splitlines()) == 10
    assert "10 events" in told.err
    assert "late" not in told.err


def test_a_heartbeat_line_does_the_same(tocsin_command: Any) -> None:  # noqa: F811
    lines = [written(ANN), {"heartbeat": "2026-03-01T10:00:00Z"}, written({**ANN, "user": "bob"})]
    data = "".join(json.dumps(line) + "\n" for line in lines)
    code, out, err = tocsin_command("run", SILENCE, "--input", "-", "--no-jit", stdin=data)
    assert code == 0
    assert [json.loads(line)["a"]["user"] for line in out.splitlines()] == ["ann"]
    assert "1 late" in err
    code, _, err = tocsin_command("run", SILENCE, "--input", "-", "--no-jit", stdin=data + '{"heartbeat": 3}\n')
    assert code == 2
    assert "line 4: the heartbeat is a whole number" in err


def test_timers_are_for_live_streams_with_windows(tocsin_command: Any, tmp_path: Path) -> None:  # noqa: F811
    (tmp_path / "events.jsonl").write_text(json.dumps(written(ANN)) + "\n")
    code, _, err = tocsin_command("run", SILENCE, "--input", "events.jsonl", "--timers", "30 s")
    assert code == 2
    assert "--timers is for a live stream" in err
    assert "tail -f" in err
    code, _, err = tocsin_command("run", "EVENT SEQ(A a, B b)", "--input", "-", "--timers", "30 s")
    assert code == 2
    assert "has no window" in err
    code, _, err = tocsin_command("run", SILENCE, "--input", "-", "--timers", "soon")
    assert code == 2


def test_the_real_clock_moves_a_real_pipe() -> None:
    """The window of the event ends a second from now; its alarm comes while the pipe is open, and nothing is in it."""
    text = "EVENT SEQ(Login a, !Logout b) WHERE [user] WITHIN 10 s"
    with command("run", text, "--input", "-", "--timers", "0", "--no-jit", **PIPES) as process:
        row = {"type": "Login", "time": (datetime.now(UTC) - timedelta(seconds=9)).isoformat(), "user": "ann"}
        process.stdin.write(json.dumps(row) + "\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["a"]["user"] == "ann"
        process.stdin.close()
        assert process.wait(30) == 0


def test_waiting_for_a_pipe() -> None:
    from tocsin.app.live import input_comes

    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as stdin:
        assert not input_comes(stdin, 0)
        os.write(writing, b"x")
        assert input_comes(stdin, 60)
        stdin.read1(1)
        assert not input_comes(stdin, 0)
        os.close(writing)
        assert input_comes(stdin, 60)  # its end


# --- random streams against the oracle -------------------------------------------------------------------------------

ORDERS = ("in-order", "conservative", "aggressive", "aggressive(trailing=immediate)", "slack({late})", "auto({late})")


def asked_of_a_clock(random: Random) -> tuple[Query, list[Event]]:
    """A random query that a live stream with a clock takes, without SELECT, and its events."""
    while True:
        asked, events = pair(random)
        asked = replace(asked, select=())
        if events and is_valid(asked) and horizon(plans_of((asked,), SCHEMA)[0]) is not None:
            return asked, events


def row_of(event: Event) -> dict[str, Any]:
    return {"type": event.type, "time": event.start, "end": event.end, "eid": event.eid, **event.attrs}


def bindings(found: Any, names: Sequence[str]) -> Counter[Binding]:
    """Matches as the oracle names them, with their signs added up."""
    total: Counter[Binding] = Counter()
    for match in found:
        shown = [(name, match[name]) for name in names if match.get(name)]
        listed = [(name, value if isinstance(value, list) else [value]) for name, value in shown]
        total[tuple((name, tuple(each["eid"] for each in several)) for name, several in listed)] += match["op"]
    return total


def check_clock(seed: str) -> tuple[int, int]:
    """One random stream with a clock; how many answers came from the clock alone, and how many events were late."""
    random = Random(seed)
    asked, events = asked_of_a_clock(random)
    delay, hands = random.choice((0, 1, 4)), Hands(0)
    order = random.choice(ORDERS).format(late=random.randint(0, delay))
    arrivals = sorted(((event.end + random.choice((0, 0, 1, 2, 6)), event) for event in events), key=lambda a: a[0])
    query, given = tocsin.query(asked), {"order": order, "schema": SCHEMA, "eid": "eid", "end": "end", "jit": False}
    clock = Clock(delay, now=hands)
    live, replayed = query.stream(clock=clock, **given), query.stream(**given)
    [plan] = plans_of(query.queries, SCHEMA)
    names, reads = [var.name for var in plan.variables if not var.hidden], partial(takes, plan)
    told: Counter[Binding] = Counter()
    kept: list[Event] = []
    alone = 0
    recorded = None
    for at, event in arrivals:
        for now in range(hands.now + 1, at + 1):
            hands.now = now
            if random.random() < 0.4:
                found = bindings(live.heartbeat(), names)
                recorded = hands.now - delay if live.counters["events"] else recorded
                again = replayed.push({"heartbeat": hands.now - delay}) if live.counters["events"] else []
                assert bindings(again, names) == found, f"{seed}: a replay differs"
                alone += sum(map(abs, found.values()))
                told.update(found)
        found = bindings(live.push(row_of(event)), names)
        assert bindings(replayed.push(row_of(event)), names) == found, f"{seed}: a replay differs"
        assert replayed.late == live.late
        told.update(found)
        kept += [] if live.late else [event]
        if "slack" not in order and "auto" not in order and order != "in-order" and reads(event.type):
            assert bool(live.late) == (recorded is not None and event.end <= recorded), f"{seed}: {event}"
        if random.random() < 0.2:
            live = query.stream(clock=clock, state=live.save(), **given)
    for _ in range(20):  # silence at the end
        hands.now += 1
        found = bindings(live.heartbeat(), names)
        alone += sum(map(abs, found.values()))
        told.update(found)
    told.update(bindings(live.close(), names))
    expected = Counter({match.binding: 1 for match in matches(asked, kept)})
    assert +told == expected, f"{seed}: {asked}\n{arrivals}\nkept {kept}"
    assert not -told
    return alone, len(events) - len(kept)


@pytest.mark.filterwarnings("ignore::tocsin.errors.TocsinWarning")
@pytest.mark.parametrize("chunk", range(2))
def test_random_streams_with_a_clock_agree_with_the_oracle(chunk: int) -> None:
    results = [check_clock(f"clock {chunk} {number}") for number in range(examples(250, least=20))]
    assert sum(alone for alone, _ in results) > 0
    assert sum(late for _, late in results) > 0
