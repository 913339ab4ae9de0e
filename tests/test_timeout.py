"""TIMEOUT beside its meaning, which case files ask: the rows, their column `step`, and how they come."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import tocsin
from tocsin.errors import QueryError
from tocsin.lang.fluent import event, seq
from tocsin.lang.parser import parse
from tocsin.plan.bind import bind
from tocsin.plan.explain import explain
from tocsin.testing.strategies import SCHEMA

TEXT = "EVENT SEQ(Order o, Pay p, Ship s) WHERE [id] WITHIN 10 TIMEOUT"
ROWS: list[dict[str, Any]] = [
    {"type": "Order", "time": 1, "id": 1},
    {"type": "Order", "time": 2, "id": 2},
    {"type": "Pay", "time": 3, "id": 1},
    {"type": "Pay", "time": 4, "id": 3},
    {"type": "Order", "time": 5, "id": 4},
    {"type": "Pay", "time": 6, "id": 4},
    {"type": "Ship", "time": 8, "id": 4},
    {"type": "Ship", "time": 30, "id": 9},
]
EXPECTED = {("match", None, 5), ("timeout", "p", 2), ("timeout", "s", 1)}


def told(matches: Any) -> list[tuple[str, str | None, int]]:
    return [(match["kind"], match["step"], match["o"]["start"]) for match in matches]


def test_a_row_names_the_step_that_did_not_come():
    found = list(tocsin.query(TEXT).detect(ROWS, jit=False))
    assert set(told(found)) == EXPECTED and len(found) == len(EXPECTED)
    (late,) = (match for match in found if match["step"] == "s")
    assert late["p"]["start"] == 3 and late["s"] is None and late["settled_at"] == 11
    assert len({match["match_id"] for match in found}) == 3


def test_each_comes_once_when_its_window_has_passed():
    live = tocsin.query(TEXT).stream(jit=False)
    said = [told(live.push(row)) for row in ROWS]
    assert set(said[-1]) == EXPECTED - {("match", None, 5)} and said[6] == [("match", None, 5)]
    assert list(live.close()) == []


@pytest.mark.parametrize("order", ["slack(40)", "conservative(40)", "aggressive", "aggressive(trailing=immediate)"])
def test_in_any_order_they_stand_once(order):
    live = tocsin.query(TEXT).stream(jit=False, order=order)
    said = [match for row in (*ROWS[4:], *ROWS[:4]) for match in live.push(row)] + list(live.close())
    net = Counter[Any]()
    for match in said:
        net[told([match])[0]] += match["op"]
    assert +net == Counter(EXPECTED)


def test_a_session_is_restored_with_what_it_waits_for():
    query = tocsin.query(TEXT)
    for cut in range(1, len(ROWS)):
        live = query.stream(jit=False, eid=None)
        found = [match for row in ROWS[:cut] for match in live.push(row)]
        live = query.stream(jit=False, state=live.save())
        found += [match for row in ROWS[cut:] for match in live.push(row)]
        assert set(told(found)) == EXPECTED and len(found) == 3, cut


def test_select_shows_what_is_bound():
    found = tocsin.query("EVENT SEQ(Order o, Pay p) WHERE [id] WITHIN 5 TIMEOUT SELECT o.id, start(p) AS paid").detect(
        ROWS[:3], jit=False
    )
    shown = {(match["kind"], match["step"], match["id"], match["paid"]) for match in found}
    assert shown == {("match", None, 1, 3), ("timeout", "p", 2, None)}


def test_text_and_fluent_agree_and_are_printed():
    query = seq(event("A", "a"), event("B", "b")).within(10, timeout=True)
    assert query.query == parse("EVENT SEQ(A a, B b) WITHIN 10 TIMEOUT") == parse(str(query))
    assert parse("EVENT SEQ(A timeout, B b) WITHIN 10").timeout is False


def test_explain_says_which_alternative_is_a_timeout():
    text = explain(bind(parse("EVENT SEQ(A a, B b) WITHIN 10 TIMEOUT"), SCHEMA))
    assert "alternative 2 of 2: rows of kind timeout, when b does not come" in text


@pytest.mark.parametrize(
    ("text", "message", "place", "hint"),
    [
        ("AND(A a, B b) WITHIN 5 TIMEOUT", "TIMEOUT stands with a SEQ", "AND(A a, B b)", "as SEQ"),
        ("SEQ(A a, !B b) WITHIN 5 TIMEOUT", "no step that could be missing", "SEQ(A a, !B b)", "SEQ(A a, B b)"),
        ("SEQ(A a, B+ b, C c) WITHIN 5 TIMEOUT", "b is repeated before the last step", "B+ b", "a query of its own"),
        ("SEQ(A a, B step) WITHIN 5 TIMEOUT", "a column step already", "B step", "another name"),
    ],
)  # fmt: skip
def test_a_timeout_that_means_nothing_is_refused_with_place_reason_and_hint(text, message, place, hint):
    with pytest.raises(QueryError) as caught:
        bind(parse(f"EVENT {text}"), SCHEMA)
    (problem,) = caught.value.problems
    assert message in problem.message and hint in str(problem.hint)
    assert f"EVENT {text}"[problem.span.start : problem.span.end] == place
