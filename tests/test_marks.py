"""Marks, ANY and STRATEGY beside their meaning, which case files ask: what is refused, what is read, how they run."""

from __future__ import annotations

from typing import Any

import pytest

import tocsin
from tocsin.errors import QueryError
from tocsin.events import ANY
from tocsin.lang.parser import parse
from tocsin.plan.bind import bind
from tocsin.plan.explain import explain
from tocsin.plan.facts import reads
from tocsin.plan.passes import optimize
from tocsin.testing.harness import Harness
from tocsin.testing.strategies import SCHEMA

Row = dict[str, Any]


@pytest.mark.parametrize(
    ("text", "message", "place", "hint"),
    [
        ("SEQ(NEXT A a, B b)", "NEXT has nothing before it", "NEXT A a", "FIRST says"),
        ("SEQ(!C c, NEXT A a)", "NEXT has nothing before it", "NEXT A a", "leave it out here"),
        ("SEQ(A a, FIRST AND(B b, C c))", "FIRST stands before an event", "FIRST AND(B b, C c)", "use NEXT"),
        ("SEQ(A a, FIRST OR(B+ b, C c))", "FIRST cannot stand before an OR with", "FIRST OR(B+ b, C c)", "whole SEQs"),
        ("SEQ(A a, EACH B b)", "EACH stands before a repetition", "EACH B b", "all combinations"),
        ("LAST B+ b", "LAST needs something beside it", "LAST B+ b", "begin at every event"),
        ("SEQ(A a, FIRST B+ b, C+ c)", "the repetitions b and c bound each other", "C+ c", "between them"),
        ("SEQ(A a, B+ b, FIRST C c) WHERE b.v < c.v", "FIRST cannot use a conjunct", "b.v < c.v", "an aggregate of b"),
        ("AND(A a, B b) STRATEGY next", "STRATEGY next finds no step to mark", "AND(A a, B b)", "leave it out"),
        ("SEQ(A a, AND(B b, C c)) STRATEGY next", "FIRST stands before an event", "AND(B b, C c)", "the items inside"),
    ],
)  # fmt: skip
def test_a_mark_that_means_nothing_is_refused_with_place_reason_and_hint(text, message, place, hint):
    with pytest.raises(QueryError) as caught:
        bind(parse(f"EVENT {text}"), SCHEMA)
    (problem,) = caught.value.problems
    assert message in problem.message and hint in str(problem.hint)
    assert f"EVENT {text}"[problem.span.start : problem.span.end] == place


def test_next_reads_every_type_and_first_only_its_own():
    assert ANY in reads(bind(parse("SEQ(A a, NEXT B b)"), SCHEMA))
    assert reads(bind(parse("SEQ(A a, NEXT OF (C) B b)"), SCHEMA)).keys() == {"A", "B", "C"}
    assert reads(bind(parse("SEQ(A a, FIRST B b)"), SCHEMA)).keys() == {"A", "B"}
    assert tocsin.query("SEQ(A a, B b) STRATEGY strict").types() == {"A", "B", ANY}


def test_strategy_is_the_same_query_as_the_marks_it_stands_for():
    plans = [bind(parse(f"EVENT {text}"), SCHEMA) for text in ("SEQ(A a, B b) STRATEGY next", "SEQ(A a, FIRST B b)")]
    assert plans[0].fingerprint == plans[1].fingerprint and plans[0].alternatives == plans[1].alternatives


def test_explain_shows_what_a_mark_looks_for():
    text = explain(optimize(bind(parse("SEQ(A a, NEXT B b, FIRST C c) WHERE [id] AND c.v > a.v"), SCHEMA)))
    assert "forbidden in (end(a), start(b))\n    leaf      ANY next'" in text
    assert "leaf      C c'\n    test      c'.v > a.v" in text
    assert "reads     A(id, v); B(id); C(id, v); ANY(id)" in text


ROWS: list[Row] = [
    {"type": kind, "time": at, "host": host}
    for at, (kind, host) in enumerate(
        [("Up", 1), ("Odd", 2), ("Down", 1), ("Up", 2), ("Odd", 2), ("Down", 2), ("Up", 1)]
    )
]


def test_events_of_types_that_nobody_names_count_in_a_batch_and_one_by_one():
    query = tocsin.query("EVENT SEQ(Up u, NEXT Down d) WHERE [host]")
    found = [(match["u"]["start"], match["d"]["start"]) for match in query.detect(ROWS, jit=False)]
    live = query.stream(jit=False, endless=False)
    one_by_one = [match for row in ROWS for match in live.push(row)] + list(live.close())
    assert found == [(0, 2)] == [(match["u"]["start"], match["d"]["start"]) for match in one_by_one]


def test_any_shows_the_type_and_all_attributes_of_its_event():
    query = tocsin.query("EVENT SEQ(Up u, ANY x) WHERE [host] AND type(x) <> 'Down' SELECT type(x) AS what, x.load")
    rows = [{**row, **({"load": 7} if row["type"] == "Odd" else {})} for row in ROWS]
    assert [(match["what"], match["load"]) for match in query.detect(rows, jit=False)] == [("Odd", 7), ("Up", None)]
    live = query.stream(jit=False, endless=False)
    found = [match for row in rows for match in live.push(row)]
    assert [(match["what"], match["load"]) for match in found] == [("Odd", 7), ("Up", None)]


def test_an_event_without_the_key_is_counted_where_any_could_have_taken_it():
    rows = [*ROWS, {"type": "Odd", "time": 9}]
    assert tocsin.query("EVENT SEQ(Up u, ANY x) WHERE [host]").detect(rows, jit=False).counters["keyless"] == 1


def test_a_session_is_restored_with_what_marks_must_know():
    query = tocsin.query("EVENT SEQ(Up u, NEXT Down d) WHERE [host] WITHIN 100")
    for cut in range(1, len(ROWS)):
        live = query.stream(jit=False, eid=None)
        found = [match for row in ROWS[:cut] for match in live.push(row)]
        live = query.stream(jit=False, state=live.save())
        found += [match for row in ROWS[cut:] for match in live.push(row)]
        assert [match["u"]["start"] for match in found] == [0], cut


def test_equal_types_make_no_key():
    rows = [{"type": kind, "time": at} for at, kind in enumerate("ABAC")]
    found = tocsin.query("EVENT SEQ(ANY x, ANY y) WHERE type(x) = type(y)").detect(rows, jit=False)
    assert [(match["x"]["start"], match["y"]["start"]) for match in found] == [(0, 2)]


def test_several_next_look_at_one_copy_of_the_events_between():
    """An event that stands nowhere in the pattern is kept once, and as long as the last of the marks may ask for it."""
    between = " ".join(f"e{time}{{id=1}}" for time in range(10))
    kept = []
    for pattern in ("SEQ(A a, NEXT B b)", "SEQ(A a, NEXT B b, NEXT C c)", "SEQ(A a, NEXT B b, NEXT OF (E) C c)"):
        run = Harness(f"EVENT {pattern} WHERE [id] WITHIN 50", SCHEMA).start("aggressive(20)").feed(between)
        kept.append(sum(branch.live for branch in run.detector.branches))
    assert kept == [10, 10, 20]  # that of ANY, and that of E
