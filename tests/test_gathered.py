"""Repetitions with marks beside their meaning, which case files ask: when they answer, what they show and keep."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

import tocsin
from tests.effort import examples
from tocsin.errors import QueryError, TocsinError
from tocsin.events import Event
from tocsin.lang.fluent import col
from tocsin.lang.parser import parse
from tocsin.plan.bind import bind
from tocsin.plan.explain import explain
from tocsin.plan.passes import optimize
from tocsin.testing.agree import PLAIN, Bench, Trial
from tocsin.testing.harness import Limit
from tocsin.testing.modes import Mode
from tocsin.testing.strategies import SCHEMA

LOGINS = [{"type": "Failed", "time": at, "user": user} for at, user in enumerate([1, 2, 1, 1, 2, 1])]


def starts(matches: Any) -> list[list[int]]:
    return [[event["start"] for event in match["f"]] for match in matches]


def test_three_of_a_kind_are_known_when_the_tick_of_the_third_has_passed():
    query = tocsin.query("EVENT FIRST Failed{3} f WHERE [user] WITHIN 100")
    live = query.stream(jit=False)
    said = [starts(live.push(row)) for row in LOGINS]
    assert said == [[], [], [], [], [[0, 2, 3]], []]
    assert starts(live.close()) == [[2, 3, 5]]
    assert starts(query.detect(LOGINS, jit=False)) == [[0, 2, 3], [2, 3, 5]]


def test_a_run_that_may_go_on_waits_for_its_window():
    query = tocsin.query("EVENT SEQ(Up u, NEXT Failed+ f) WITHIN 2")
    live = query.stream(jit=False)
    rows = [{"type": "Up", "time": 0}, *({"type": "Failed", "time": at} for at in (1, 2, 3))]
    assert [starts(live.push(row)) for row in rows] == [[], [], [], [[1, 2]]]


def test_without_a_window_a_prefix_answers_and_a_run_does_not():
    tocsin.query("EVENT SEQ(A a, EACH B+ b)").stream(jit=False)
    with pytest.raises(TocsinError, match="only at the end of the stream"):
        tocsin.query("EVENT SEQ(A a, NEXT B+ b)").stream(jit=False)


def test_first_and_last_members_are_not_shown():
    (match,) = tocsin.query("EVENT SEQ(FIRST A+ a, EACH B{2} b)").detect(
        [{"type": kind, "time": at} for at, kind in enumerate("ABB")], jit=False
    )
    assert {"a", "b"} <= match.keys() and not any("'" in name for name in match)


def test_explain_shows_what_ends_a_run_and_which_members_are_taken():
    text = explain(optimize(bind(parse("SEQ(A a, NEXT B{1,3} b, C c) WHERE [id]"), SCHEMA)))
    assert "leaf      B{1,3} b, the first 3 in (end(a), start(c))" in text
    assert "ends the run b in (end(a), start(c))\n    leaf      ANY next'" in text
    text = explain(optimize(bind(parse("EACH B{2,3} b WHERE b.v > prev(b.v) AND b[2].v = 1"), SCHEMA)))
    assert "leaf      B{2,3} b, a prefix in [start(b'first), end(b'last)]" in text
    assert "b.v > prev(b.v)" in text and "b[2].v = 1" in text


@pytest.mark.parametrize(
    ("where", "message", "hint"),
    [
        ("a.v > prev(a.v)", "prev needs a repeated variable, a is one event", "A+ a"),
        ("prev(b.v + 1) > 0", "prev takes an attribute", "prev(b.v)"),
        ("a[2].v > 0", "a number of a member needs a repeated variable", "A+ a"),
        ("b.v > prev(b.v) + count(b)", "b is compared with its own aggregate", "aggregates on both sides"),
        ("count(distinct b) > 1", "count distinct needs an attribute", "count(distinct b.x)"),
    ],
)
def test_what_members_cannot_be_asked_is_refused_with_a_hint(where, message, hint):
    with pytest.raises(QueryError) as caught:
        bind(parse(f"EVENT SEQ(A a, B+ b) WHERE {where}"), SCHEMA)
    assert message in caught.value.problems[0].message and hint in str(caught.value.problems[0].hint)


def test_there_is_no_member_0():
    with pytest.raises(QueryError, match="there is no member 0"):
        parse("EVENT SEQ(A a, B+ b) WHERE b[0].v = 1")
    with pytest.raises(TocsinError, match="there is no member 0"):
        col.b[0]


# --- random histories ----------------------------------------------------------------------------------------------

QUERIES = (
    "EVENT SEQ(A a, FIRST B{1,2} b, C c) WHERE [id]",
    "EVENT SEQ(A a, LAST B{2} b, C c) WHERE b.v > 1",
    "EVENT SEQ(A a, EACH B+ b) WHERE [id] AND b.v >= prev(b.v) WITHIN 6",
    "EVENT SEQ(A a, NEXT B+ b, NEXT C+ c) WHERE [id] WITHIN 8",
    "EVENT NEXT B{2} b WHERE [id]",
    "EVENT EACH B{1,3} b WHERE [id] AND count(distinct b.v) = count(b) WITHIN 5",
    "EVENT SEQ(FIRST B+ b, !E x, EACH NEXT C{1,2} c) WITHIN 7",
    "EVENT SEQ(A a, !SEQ(NEXT B{2} b, C c), D d) WHERE b[1].v < b[-1].v",
    "EVENT SEQ(A a, B{1,2} b, C+ c) WHERE [id] WITHIN 8 STRATEGY strict",
    "EVENT SEQ(A a, FIRST B{2} b, FIRST B{1,2} c, D d) WITHIN 9",
)


def story(random: Random, *, intervals: bool) -> list[Event]:
    """Events that are often what the queries look for, with ties."""
    found, now = [], 0
    for eid in range(random.randint(4, 12)):
        now += random.choice((0, 1, 1, 1))
        kind = random.choice("ABBBBCCDE") if eid else "A"
        attrs = {"id": random.choice((1, 1, 1, 2)), "v": random.randint(1, 4)}
        found.append(Event(kind, now, now + (random.choice((0, 0, 1, 3)) if intervals else 0), eid, attrs))
    return sorted(found, key=Event.order)


@pytest.mark.parametrize("number", range(examples(400)))
def test_every_mode_agrees_with_the_oracle(number: int) -> None:
    random = Random(f"gathered {number}")
    events = story(random, intervals=number % 2 == 1)
    bench = Bench(parse(QUERIES[number % len(QUERIES)]), SCHEMA)
    assert bench.disagreement(events, random.sample(PLAIN, 8)) is None, events


SPILLED = (
    Trial("every event at once", Mode("aggressive", batch=1, limit=Limit(1, 1, 0)), 1),
    Trial("in order, larger frames", Mode(batch=2, limit=Limit(2000, 2, 5))),
)


@pytest.mark.filterwarnings("ignore:the memory limit")
@pytest.mark.parametrize("number", range(examples(60, least=len(QUERIES))))
def test_spilling_agrees_with_the_oracle(number: int) -> None:
    random = Random(f"spilled {number}")
    text = QUERIES[number % len(QUERIES)]
    bench = Bench(parse(text if "WITHIN" in text else f"{text} WITHIN 9"), SCHEMA)
    for _ in range(3):
        events = story(random, intervals=False)
        assert bench.disagreement(events, SPILLED) is None, events
