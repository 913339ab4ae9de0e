"""Explain: a plan as text, before and after the passes."""

from __future__ import annotations

from tocsin.lang.parser import parse
from tocsin.plan.bind import bind
from tocsin.plan.explain import explain
from tocsin.plan.passes import optimize
from tocsin.schema import Field, Kind, Schema

SCHEMA = Schema(
    types={"Shelf": {}, "Counter": {}, "Exit": {}, "Guard": {}},
    common={"tag": Field("tag", Kind.TEXT), "weight": Field("weight", Kind.DECIMAL, scale=1)},
)
THEFT = """QUERY Theft
EVENT SEQ(Shelf s, !SEQ(Counter c, !Guard g, Counter d), Exit e)
WHERE [tag] AND s.weight > 1.25 AND e.weight <> s.weight AND d.weight > c.weight
WITHIN 12
SELECT s.tag, end(e) - start(s) AS took"""


def test_explain_shows_the_whole_plan() -> None:
    plan = optimize(bind(parse(THEFT), SCHEMA))
    assert (
        explain(plan)
        == """query Theft
  leaf      Shelf s where s.weight > 1.25
  leaf      Exit e
  order     end(s) < start(e)
  test      e.weight <> s.weight  -- when s is bound
  loops     e > s
  forbidden in (end(s), start(e))
    leaf      Counter c
    leaf      Counter d
    order     end(c) < start(d)
    test      d.weight > c.weight  -- when d is bound
    loops     c > d
    forbidden in (end(c), start(d))
      leaf      Guard g
key
  s.tag
  e.tag
  c.tag
  d.tag
  g.tag
window    12 ticks
memory    bounded by the window (an event matters for 12 ticks)
ends with Exit
reads     Shelf(tag, weight); Exit(tag, weight); Counter(tag, weight); Guard(tag)
select    s.tag AS tag
select    end(e) - start(s) AS took"""
    )


def test_explain_can_show_the_plan_as_it_was_bound_first() -> None:
    bound = bind(parse(THEFT), SCHEMA)
    text = explain(optimize(bound), before=bound)
    first, second = text.split("\n\n")
    assert first.startswith("as bound\n  query Theft")
    assert "test      s.tag = e.tag  -- at the end" in first
    assert second.startswith("after the passes\n  query Theft")
    assert "s.tag = e.tag" not in second


def test_explain_shows_alternatives_repetitions_hidden_variables_and_notes() -> None:
    query = "EVENT EXISTS s : OR(SEQ(Shelf s, Counter{2,5} c), AND(Shelf s, !Shelf x))"
    text = explain(bind(parse(query), SCHEMA))
    assert "alternative 1 of 2" in text
    assert "  leaf      Counter{2,5} c in (end(s), end of the stream]" in text
    assert "forbidden in [beginning of the stream, last end]" in text
    assert "hidden    s" in text
    assert "memory    grows with the stream" in text
    assert "answers wait for their window to pass" in text
    assert "note      AND with !Shelf x can never match" in text
