"""Consumption modes: what their definition says, in every way of running, by hand and compiled."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tocsin
from tests.effort import examples, is_long
from tocsin.events import Event
from tocsin.lang.parser import parse
from tocsin.lang.printer import print_query
from tocsin.lang.syntax import MODES, Query
from tocsin.select import consumed_columns, consuming
from tocsin.select.consuming import is_columnar
from tocsin.testing.agree import PLAIN, Bench, Trial
from tocsin.testing.draw_consumption import consuming_query
from tocsin.testing.modes import EVERY, Mode
from tocsin.testing.oracle import matches
from tocsin.testing.strategies import SCHEMA, history

POINTS = replace(SCHEMA, intervals=False)
MORE = (
    Trial("chosen by itself", Mode("auto", batch=1), shuffle=23),
    Trial("chosen by itself, restart", Mode("auto", batch=2, restart=EVERY, promises=24), shuffle=24),
)


def drawn(seed: str, mode: str | None = None, *, intervals: bool = True) -> tuple[Query, list[Event]]:
    """A query with a mode, and a history in which several events stand for each step."""
    random = Random(seed)
    query = consuming_query(random, mode)
    events: list[Event] = []
    for round_ in range(3):
        more = history(random, query, most=8, intervals=intervals)
        events += [
            Event(each.type, each.start + 3 * round_, each.end + 3 * round_, f"{round_}{each.eid}", each.attrs)
            for each in more
        ]
    return query, events[:20]


@pytest.mark.parametrize("mode", MODES[1:])
def test_drawn_modes_agree_with_the_oracle_in_every_way_of_running(mode: str) -> None:
    """In order, sorted first, held, corrected, chosen; cut anywhere, restarted, twice, without single passes."""
    seen: Counter[str] = Counter()
    for number in range(examples(120, least=8)):
        query, events = drawn(f"consume {mode} {number}", mode)
        assert parse(print_query(query)) == query
        trials = (*PLAIN, *MORE) if is_long() else Random(number).sample((*PLAIN, *MORE), 6)
        found = Bench(query, SCHEMA).disagreement(events, trials)
        assert found is None, (number, str(query), events, found)
        seen["matches"] += len(matches(query, events))
    assert seen["matches"] > 5, seen


@pytest.mark.parametrize("mode", MODES[1:])
def test_loops_over_events_without_length_forget_what_no_match_can_hold(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With keys and rows dropped after every push, in order and settled; `continuous` has a loop here."""
    monkeypatch.setattr(consumed_columns, "MANY", 0)
    monkeypatch.setattr(consumed_columns, "MANY_KEYS", 0)
    seen: Counter[str] = Counter()
    for number in range(examples(120, least=8)):
        query, events = drawn(f"points {mode} {number}", mode, intervals=False)
        bench = Bench(query, POINTS)
        trials = PLAIN if is_long() else Random(number).sample(PLAIN, 4)
        found = bench.disagreement(events, trials)
        assert found is None, (number, str(query), events, found)
        seen["loops"] += is_columnar(bench.plan)
        seen["matches"] += len(matches(query, events))

    assert seen["matches"], seen


@pytest.mark.parametrize(
    "pattern", ["SEQ(A a, !(X x : x.v > 0.8), B b : b.v > 0.1, C c)", "AND(A a, B b, A c)", "OR(A a, B b)"]
)
@pytest.mark.parametrize("mode", MODES[1:])
def test_compiled_loops_answer_as_rules_do(mode: str, pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many keys, ties within them, several pushes: once in compiled loops, once event by event."""
    random = np.random.default_rng(5)
    count = 2000
    table = pa.table({
        "type": np.array(list("ABCX"))[random.integers(0, 4, count)],
        "time": np.sort(random.integers(0, 300, count)),
        "key": random.integers(0, 40, count),
        "v": random.random(count),
    })  # fmt: skip
    query = tocsin.query(f"{pattern} WHERE [key] WITHIN 60 CONSUME {mode}")
    compiled = query.detect(table).table().column("match_id").to_pylist()
    monkeypatch.setattr(consuming, "is_columnar", lambda _: False)
    ruled = query.detect(table, jit=False).table().column("match_id").to_pylist()
    assert sorted(compiled) == sorted(ruled)
    assert len(ruled) > 50


def test_keys_that_never_come_again_take_no_room() -> None:
    """A session over two thousand keys: what waits is as much as the window holds."""
    session = tocsin.query("SEQ(A a, B b, C c) WHERE [key] WITHIN 10 CONSUME chronicle").stream(order="in-order")
    state = 0
    for time in range(0, 8000, 4):
        session.push({"type": "A", "time": time, "key": f"k{time}"})
        session.push({"type": "B", "time": time + 1, "key": f"k{time}"})
        if time == 4000:
            state = len(session.save())
    assert len(session.save()) < 1.2 * state + 4096


@pytest.mark.parametrize("pattern", ["SEQ(A a, !X x, B b, C c)", "AND(A a, B b, C c)"])
@pytest.mark.parametrize("mode", MODES[1:])
def test_a_saved_mode_goes_on_compiled_or_plain(mode: str, pattern: str) -> None:
    """Saved in the middle, taken up by a session that runs otherwise, and the answers are those of one run."""
    random = Random(mode)
    events = [
        {"type": random.choice("ABCX"), "time": time // 2, "key": random.choice(("p", "q")), "v": random.random()}
        for time in range(160)
    ]
    query = tocsin.query(f"{pattern} WHERE [key] CONSUME {mode}")
    whole = [match["match_id"] for match in query.detect(events, jit=False)]
    session = query.stream(order="in-order", jit=False)
    found = [match["match_id"] for event in events[:75] for match in session.push(event)]
    session = query.stream(order="in-order", jit=True, state=session.save())
    found += [match["match_id"] for event in events[75:] for match in session.push(event)]
    found += [match["match_id"] for match in session.close()]
    assert sorted(found) == sorted(whole)
    assert whole


@pytest.mark.parametrize("key", ["WHERE [key]", ""])
def test_any_number_of_threads_and_a_limit_of_memory_change_nothing(key: str) -> None:
    random = np.random.default_rng(7)
    count = 6000
    table = pa.table({
        "type": np.array(list("ABC"))[random.integers(0, 3, count)],
        "time": np.sort(random.integers(0, 900, count)),
        "key": random.integers(0, 30, count),
    })  # fmt: skip
    for mode in ("first", "chronicle"):
        query = tocsin.query(f"SEQ(A a, B b, C c) {key} WITHIN 60 CONSUME {mode}")
        ways: list[dict[str, Any]] = [{"threads": 1}, {"threads": 3}, {"order": "slack(5)", "memory_limit": "64 MB"}]
        found = [sorted(query.detect(table, jit=False, **way).table().column("match_id").to_pylist()) for way in ways]
        assert found[0] == found[1] == found[2]
        assert len(found[0]) > 20
