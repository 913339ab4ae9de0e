"""The fluent API builds exactly the nodes that the same text gives."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

import tocsin
from tocsin.constraint.graphs import from_graph
from tocsin.errors import QueryError, TocsinError
from tocsin.lang.fluent import (
    all_of,
    any_event,
    any_of,
    avg,
    call,
    col,
    count,
    count_distinct,
    duration,
    end,
    event,
    exists,
    first,
    iseq,
    last,
    lit,
    max_,
    min_,
    prev,
    query,
    rel,
    same,
    seq,
    start,
    sum_,
    when,
)
from tocsin.lang.parser import parse, parse_expr
from tocsin.lang.syntax import Attr, Binary, Literal, Query, walk

S, C, E = event("Shelf", "s"), event("Counter", "c"), event("Exit", "e")


def test_clauses_that_choose_among_matches():
    theft = seq(S, ~C, E).where(same("tag")).within(hours=12)
    text = "SEQ(Shelf s, !Counter c, Exit e) WHERE [tag] WITHIN 12 h"
    pairs = [
        (theft.skip_past_last_event(), "AFTER MATCH SKIP PAST LAST EVENT"),
        (theft.skip_to_next_event(), "AFTER MATCH SKIP TO NEXT EVENT"),
        (theft.skip_to_first("e"), "AFTER MATCH SKIP TO FIRST e"),
        (theft.skip_to_last("e"), "AFTER MATCH SKIP TO LAST e"),
        (theft.distinct_by(col.e.door), "DISTINCT BY e.door"),
        (theft.distinct_by("tag", every="10 min"), "DISTINCT BY tag EVERY 10 min"),
        (theft.limit(3), "LIMIT 3"),
        (theft.limit(3, per="tag", every=timedelta(hours=1)), "LIMIT 3 PER tag EVERY 1 h"),
        (theft.limit(3, per=["tag", col.e.door % 2], every=10), "LIMIT 3 PER tag, e.door % 2 EVERY 10"),
    ]
    for built, clause in pairs:
        assert built.query == parse(f"{text} {clause}")
    for wrong in (0, -1, True, 1.5):
        with pytest.raises(TocsinError, match="no number of matches"):
            theft.limit(wrong)


def test_constraints_of_a_query():
    constraint = "CONSTRAINT path PARTITION BY tag AS Shelf Counter? Exit"
    theft = seq(S, ~C, E).where(same("tag"))
    text = f"{constraint}; SEQ(Shelf s, !Counter c, Exit e) WHERE [tag] UNDER path"
    assert theft.under(constraint).query == tocsin.query(text).queries[0]
    assert theft.under(constraint, checked=True).query == tocsin.query(f"{text} CHECKED").queries[0]
    both = theft.under(constraint).under(from_graph("g", [(0, "Exit", 1)], start=0, ends=[1], key=["tag"]))
    assert [each.name for each in both.query.under.constraints] == ["path", "g"]


def test_a_whole_query():
    theft = (
        seq(S, ~C, E)
        .where(same("tag"), col("s.price") > 10)
        .within(hours=12)
        .partition_by("store")
        .select("s.tag", shelf="s.place", price=col.s.price * 2)
        .named("theft")
    )
    text = (
        "QUERY theft EVENT SEQ(Shelf s, !Counter c, Exit e) WHERE [tag] AND s.price > 10 WITHIN 12 h"
        " PARTITION BY store SELECT s.tag, s.place AS shelf, s.price * 2 AS price"
    )
    assert theft.query == parse(text)
    assert theft == parse(text)
    assert theft.named("theft", hidden=True) == parse(text.replace("theft", "theft HIDDEN"))
    assert theft == parse(str(theft))
    assert parse(str(theft)) == theft
    assert hash(theft) == hash(parse(text))
    assert "QUERY theft" in repr(theft)


def test_the_finished_query_knows_its_places():
    built = seq(S, E).where("s.x = e.x").query
    assert isinstance(built, Query)
    assert {built.text[node.span.start : node.span.end] for node in walk(built)} >= {"Shelf s", "s.x = e.x", "e.x"}


@pytest.mark.parametrize(
    ("built", "text"),
    [
        (S, "Shelf s"),
        (event("Shelf"), "Shelf"),
        (event("A.B", "where"), "`A.B` `where`"),
        (S.plus(), "Shelf+ s"),
        (S.times(3), "Shelf{3} s"),
        (S.times(2, 4), "Shelf{2,4} s"),
        (S.times(2, or_more=True), "Shelf{2,} s"),
        (S.where(col.s.x > 1, col.s.y == 2), "(Shelf s : s.x > 1 AND s.y = 2)"),
        (S.where("s.x > 1").where("s.y = 2"), "(Shelf s : s.x > 1, s.y = 2)"),
        (query(S).where("s.x > 1"), "Shelf s WHERE s.x > 1"),
        (seq(S, ~C, E), "SEQ(Shelf s, !Counter c, Exit e)"),
        (seq(S, ~seq(C, ~E)), "SEQ(Shelf s, !SEQ(Counter c, !Exit e))"),
        (seq(S, C.next(), E.next(of=["A", "B"])), "SEQ(Shelf s, NEXT Counter c, NEXT OF (A, B) Exit e)"),
        (seq(S, C.first(), E.last()), "SEQ(Shelf s, FIRST Counter c, LAST Exit e)"),
        (seq(S, any_of(C, E).first()), "SEQ(Shelf s, FIRST OR(Counter c, Exit e))"),
        (seq(any_event("x"), any_event()).strategy("strict"), "SEQ(ANY x, ANY) STRATEGY strict"),
        (query(S.times(3).first()), "FIRST Shelf{3} s"),
        (seq(S, C.plus().each(), E), "SEQ(Shelf s, EACH Counter+ c, Exit e)"),
        (
            seq(S, C.plus().next(of="A"), E.times(1, 2).each(next=True)),
            "SEQ(Shelf s, NEXT OF (A) Counter+ c, EACH NEXT Exit{1,2} e)",
        ),
        (seq(S, C.times(2).each(of=["A"])), "SEQ(Shelf s, EACH NEXT OF (A) Counter{2} c)"),
        (all_of(S, ~C), "AND(Shelf s, !Counter c)"),
        (any_of(S, C), "OR(Shelf s, Counter c)"),
        (exists("c", seq(S, C)), "∃c: SEQ(Shelf s, Counter c)"),
        (exists(["s", "c"], seq(S, C, E)), "EXISTS s, c : SEQ(Shelf s, Counter c, Exit e)"),
        (rel("Before", S, C), "REL[before](Shelf s, Counter c)"),
        (rel(["met_by", "contains"], seq(S, C), E), "REL[met by, contain](SEQ(Shelf s, Counter c), Exit e)"),
        (iseq("s.ts < c.te < e.te", S, C, E), "ISEQ[start(s) < end(c) < end(e)](Shelf s, Counter c, Exit e)"),
        (iseq(start("s") < end("c"), S, C, within="5 min"), "ISEQ[s^- < c^+](Shelf s, Counter c; 5 min)"),
        (
            iseq([start("s") < end("c"), end("c") == end("s")], S, C, within=7),
            "ISEQ[s^- < c^+ ∧ c.te = s.te](Shelf s, Counter c; 7)",
        ),
        (seq(S, E).within(10), "SEQ(Shelf s, Exit e) WITHIN 10"),
        (seq(S, E).within("1.5 h"), "SEQ(Shelf s, Exit e) WITHIN 1.5 h"),
        (seq(S, E).within(hours=1, minutes=30), "SEQ(Shelf s, Exit e) WITHIN 90 min"),
        (seq(S, E).within(hours=0.5), "SEQ(Shelf s, Exit e) WITHIN 0.5 h"),
        (seq(S, E).within(timedelta(minutes=90)), "SEQ(Shelf s, Exit e) WITHIN 90 min"),
        (seq(S, E).within(timedelta(days=2)), "SEQ(Shelf s, Exit e) WITHIN 2 d"),
        (seq(S, E).within(timedelta(milliseconds=5)), "SEQ(Shelf s, Exit e) WITHIN 5 ms"),
        (seq(S, E).where("[tag]").where("s.x = 1"), "SEQ(Shelf s, Exit e) WHERE [tag] AND s.x = 1"),
        (
            seq(S, E.plus()).select(n=count("e"), t=end("e"), x="s.x + 1"),
            "SEQ(Shelf s, Exit+ e) SELECT count(e) AS n, end(e) AS t, s.x + 1 AS x",
        ),
    ],
)
def test_patterns_and_queries(built, text):
    assert built.query == parse(text)
    assert built._query() == parse(text)


x, y = col("a.x"), col.a.y


@pytest.mark.parametrize(
    ("built", "text"),
    [
        (x == y, "a.x = a.y"),
        (x != 1, "a.x <> 1"),
        (x < 1, "a.x < 1"),
        (x <= 1, "a.x <= 1"),
        (x > 1, "a.x > 1"),
        (x >= -1, "a.x >= -1"),
        (x + 1, "a.x + 1"),
        (1 + x, "1 + a.x"),
        (x - y, "a.x - a.y"),
        (1 - x, "1 - a.x"),
        (x * 2 + y, "a.x * 2 + a.y"),
        (2 * (x + y), "2 * (a.x + a.y)"),
        (x / 2, "a.x / 2"),
        (2 / x, "2 / a.x"),
        (x % 2, "a.x % 2"),
        (2 % x, "2 % a.x"),
        (-x, "-a.x"),
        (-lit(5), "-(5)"),
        ((x == 1) & (y == 2) | ~(x == y), "a.x = 1 AND a.y = 2 OR NOT a.x = a.y"),
        (x.concat("z"), "a.x || 'z'"),
        (x.is_null(), "a.x IS NULL"),
        (x.is_not_null(), "a.x IS NOT NULL"),
        (x.is_in([1, 2]), "a.x IN (1, 2)"),
        (x.not_in(["a"]), "a.x NOT IN ('a')"),
        (x.between(1, y), "a.x BETWEEN 1 AND a.y"),
        (x.not_between(1, 2), "a.x NOT BETWEEN 1 AND 2"),
        (x.like("a%"), "a.x LIKE 'a%'"),
        (x.not_like("a%"), "a.x NOT LIKE 'a%'"),
        (x == 0.1, "a.x = 0.1"),
        (x == 1.0, "a.x = 1.0"),
        (x == 1e300, "a.x = 1E+300"),
        (x == Decimal("1.50"), "a.x = 1.50"),
        (x == True, "a.x = TRUE"),  # noqa: E712
        (x == None, "a.x = NULL"),  # noqa: E711
        (x == "it's", "a.x = 'it''s'"),
        (x == -(2**63), "a.x = -9223372036854775808"),
        (col("a") != col.b, "a <> b"),
        (col("b").is_null(), "b IS NULL"),
        (col.a["like"], "a.like"),
        (col("a.b.c"), "a.b.c"),
        (col("a", "b.c"), "a.`b.c`"),
        (col("o.ins-type") == "surgery", "o.`ins-type` = 'surgery'"),
        (end("b") - start("a") <= duration(minutes=5), "end(b) - start(a) <= 5 min"),
        (end("b") - start("a") <= timedelta(seconds=90), "end(b) - start(a) <= 90 s"),
        (count("b") > 2, "count(b) > 2"),
        (sum_("b.v"), "sum(b.v)"),
        (avg("b.v"), "avg(b.v)"),
        (min_("b.v"), "min(b.v)"),
        (max_(col.b.v + 1), "max(b.v + 1)"),
        (first("b.v"), "first(b.v)"),
        (last("b.v"), "last(b.v)"),
        (col.b[1].v < col("b")[-2]["v"], "b[1].v < b[-2].v"),
        (count_distinct("b.v"), "count(distinct b.v)"),
        (col.b.v > prev("b.v"), "b.v > prev(b.v)"),
        (same("tag", "x"), "[tag, x]"),
        (call("Near", x, 5), "near(a.x, 5)"),
        (when(x == 1).then("a").otherwise(y), "CASE WHEN a.x = 1 THEN 'a' ELSE a.y END"),
        (when(x == 1).then("a").when(x == 2).then("b"), "CASE WHEN a.x = 1 THEN 'a' WHEN a.x = 2 THEN 'b' END"),
    ],
)
def test_expressions(built, text):
    assert repr(built.node) == repr(parse_expr(text))
    assert parse_expr(str(built)) == built.node


def test_a_pattern_is_not_changed_by_its_methods():
    base = seq(S, E)
    base.within(10).where("s.x = 1")
    assert base == parse("SEQ(Shelf s, Exit e)")
    assert S.plus() != S
    assert (S == 1) is False


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: bool(x == y), "no truth value"),
        (lambda: 1 < x < 2, "no truth value"),
        (lambda: lit(float("nan")), "cannot be a constant"),
        (lambda: x == Decimal("Infinity"), "cannot be a constant"),
        (lambda: x == 2**63, "does not fit into 64 bits"),
        (lambda: x == [1], "cannot be a constant"),
        (lambda: event(""), "cannot be a name"),
        (lambda: seq("A"), "is not a pattern"),
        (lambda: seq(S).within(), "missing or zero"),
        (lambda: seq(S).within(hours=-1), "greater than 0"),
        (lambda: seq(S).within(timedelta(0)), "missing or zero"),
        (lambda: seq(S).within(1.5), "not a length of time"),
        (lambda: rel("sometimes", S, C), "not an interval relation"),
        (lambda: iseq(col.a.x < 1, S), "not an endpoint"),
        (lambda: iseq(start("a") + 1, S), "does not compare endpoints"),
    ],
)
def test_mistakes_are_told_at_once(build, message):
    with pytest.raises(TocsinError, match=message):
        build()


@pytest.mark.parametrize(
    ("built", "message"),
    [
        (any_of(S, ~C), "a negation cannot stand directly under OR"),
        (all_of(S, C.first()), "FIRST cannot stand directly under AND"),
        (~S, "a negation cannot stand by itself"),
        (seq(S, ~~C), "a negation of a negation"),
        (seq(), "SEQ needs at least one item"),
        (S.times(0), "this repetition is impossible"),
        (seq(S).within(0), "the window must be greater than 0"),
    ],
)
def test_the_finished_query_obeys_the_grammar(built, message):
    with pytest.raises(QueryError, match=message):
        _ = built.query


def test_expressions_show_themselves():
    assert repr(x == 1) == "<a.x = 1>"
    assert repr(seq(S, ~C)) == "<SEQ(Shelf s, !Counter c)>"
    assert (x == 1).node == Binary("=", Attr("a", "x"), Literal(1))
