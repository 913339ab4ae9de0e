"""The oracle: the readings that only it has, what a match says, composition, and expressions row by row."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest

from tocsin.errors import TocsinError
from tocsin.events import Event
from tocsin.lang.parser import parse, parse_all, parse_expr
from tocsin.lang.syntax import Attr, Binary, Duration, Leaf, Not, Query, Repeat, SelectItem, Seq
from tocsin.testing.notation import events_of, history, write
from tocsin.testing.oracle import Match, composite, matches, matches_of_all
from tocsin.testing.oracle_expr import OracleEvaluator


def answers(query: str | Query, stream: str, **readings: str) -> list[str]:
    """The matches as lines of a case file."""
    events = events_of(history(stream))
    by_eid = {event.eid: event for event in events}
    found = matches(parse(query) if isinstance(query, str) else query, events, **readings)  # type: ignore[arg-type]
    return [" ".join(write(by_eid[eid], events) for _, eids in match.binding for eid in eids) for match in found]


# --- what a match says ---------------------------------------------------------------------------------------------


def test_a_query_built_from_nodes() -> None:
    query = Query(
        Seq((Leaf("A", "a"), Not(Leaf("C", "c")), Leaf("B", "b"))),
        where=Binary("=", Attr("a", "id"), Attr("b", "id")),
        within=Duration(10),
    )
    assert answers(query, "a1{id=1} b2{id=1} b3{id=2} c4 b5{id=1}") == ["a1 b2"]


def test_a_match_tells_binding_span_and_columns() -> None:
    query = parse("EVENT SEQ(A a, B+ b, C c) SELECT a.v, count(b) AS n, c.v, 0.5 AS half")
    found = matches(query, events_of(history("a[1,2]{v=7} b5 b3 c9{v=8}")))
    binding = (("a", ("a[1,2]",)), ("b", ("b3", "b5")), ("c", ("c9",)))
    assert found == [Match(binding, 1, 9, {"a_v": 7, "n": 2, "c_v": 8, "half": 0.5})]


def test_hidden_events_are_not_in_the_span_of_a_match() -> None:
    found = matches(parse("EVENT EXISTS a, c : SEQ(A a, B b, C c)"), events_of(history("a1 b3 c9")))
    assert [(match.binding, match.start, match.end) for match in found] == [((("b", ("b3",)),), 3, 3)]


def test_unbound_variables_of_an_or_are_not_in_the_binding() -> None:
    found = matches(parse("EVENT OR(A a, B b) SELECT a.v AS a, b.v AS b"), events_of(history("a1{v=1} b2{v=2}")))
    assert [(match.binding, match.select) for match in found] == [
        ((("a", ("a1",)),), {"a": 1, "b": None}),
        ((("b", ("b2",)),), {"a": None, "b": 2}),
    ]


def test_the_order_of_events_in_the_list_makes_no_difference() -> None:
    query = parse("EVENT SEQ(A a, B+ b, !C c, D d) WITHIN 10")
    events = events_of(history("a1 b2 b4 c3 d6 a5 b6 d9 c7"))
    assert matches(query, events) == matches(query, events[::-1])
    assert matches(query, events)


def test_user_functions_are_called_by_name_and_never_with_null() -> None:
    def near(x: int, y: int) -> bool:
        return abs(x - y) < 3

    events = events_of(history("a1{v=1} b2{v=2} b3{v=9} b4"))
    found = matches(parse("EVENT SEQ(A a, B b) WHERE near(a.v, b.v)"), events, functions={"near": near})
    assert [match.binding[1] for match in found] == [("b", ("b2",))]


# --- composition ---------------------------------------------------------------------------------------------------


def test_the_name_of_a_query_is_an_event_type() -> None:
    queries = parse_all(
        "QUERY Pair EVENT SEQ(A a, B b) SELECT b.v - a.v AS rise; EVENT SEQ(Pair p, C c) WHERE p.rise > 1"
    )
    answer = matches_of_all(queries, events_of(history("a1{v=1} b2{v=2} b3{v=5} c9")))
    assert list(answer) == ["Pair", 1]
    assert [match.select for match in answer["Pair"]] == [{"rise": 1}, {"rise": 4}]
    assert [match.binding for match in answer[1]] == [(("p", ("Pair:a=a1,b=b3",)), ("c", ("c9",)))]
    assert (answer[1][0].start, answer[1][0].end) == (1, 9)


def test_a_composite_is_an_interval_with_the_columns_as_attributes() -> None:
    event = composite("Pair", Match((("a", (1,)), ("b", (2, 3))), 4, 8, {"n": 2}))
    assert event == Event("Pair", 4, 8, "Pair:a=1,b=2+3", {"n": 2})


# --- other readings that the papers print --------------------------------------------------------------------------

Q2 = "EVENT SEQ(A a, !B b, !SEQ(C c, D d), E e)"


@pytest.mark.parametrize(
    ("stream", "kept"),
    [
        ("a1 e9", True),
        ("a1 b2 e9", True),
        ("a1 c2 d3 e9", True),
        ("a1 b2 c3 d4 e9", False),
        ("a1 c2 d3 b4 e9", True),
        ("a1 c2 b3 d4 e9", True),
        ("a1 d2 c3 e9", True),
    ],
)
def test_negation_all_of_spec_001_e4(stream: str, kept: bool) -> None:
    assert answers(Q2, stream, negation="all") == (["a1 e9"] if kept else [])


FIGURE_3_4 = (
    "EVENT SEQ(DELL d, !SEQ((YHOO y: y.id=d.id), RIMM ii), !AMAT a, MSFT s, "
    "SEQ((IPIX p: p.id=i.id), CSCO c), (INTC i: i.id=d.id))"
)


@pytest.mark.parametrize(
    ("changes", "kept"),
    [
        ({}, True),
        ({"YHOO": (20, 1)}, True),
        ({"AMAT": (35, 0)}, True),
        ({"IPIX": (50, 2)}, False),
        ({"INTC": (70, 2)}, False),
        ({"YHOO": (20, 1), "RIMM": (15, 1)}, True),
        ({"AMAT": (45, 0)}, True),
        ({"YHOO": (20, 1), "AMAT": (35, 0)}, False),
        ({"YHOO": (20, 1), "AMAT": (15, 0)}, True),
        ({"CSCO": (50, 0), "IPIX": (60, 1)}, False),
    ],
)
def test_negation_all_of_spec_001_e9(changes: dict[str, tuple[int, int]], kept: bool) -> None:
    base = {"DELL": (10, 1), "YHOO": (20, 9), "RIMM": (30, 1), "MSFT": (40, 0), "IPIX": (50, 1), "CSCO": (60, 0)}
    stream = " ".join(f"{name}@{at}{{id={id}}}" for name, (at, id) in {**base, "INTC": (70, 1), **changes}.items())
    expected = ["DELL@10 MSFT@40 IPIX@50 CSCO@60 INTC@70"] if kept else []
    assert answers(FIGURE_3_4, stream, negation="all") == expected


def test_negation_all_without_any_negation_rejects_nothing() -> None:
    assert answers("EVENT SEQ(A a, B b)", "a1 b2", negation="all") == ["a1 b2"]


def test_negation_all_asks_for_every_gap() -> None:
    query = "EVENT SEQ(A a, !B b, C c, !D d, E e)"
    assert answers(query, "a1 b2 c3 e5", negation="all") == ["a1 c3 e5"]
    assert answers(query, "a1 b2 c3 d4 e5", negation="all") == []


@pytest.mark.parametrize(
    ("query", "stream", "inclusive", "exclusive"),
    [
        ("EVENT SEQ(A a, B b) WITHIN 10", "a1 b11", ["a1 b11"], []),
        ("EVENT SEQ(A a, B b) WITHIN 10", "a1 b10", ["a1 b10"], ["a1 b10"]),
        ("EVENT ISEQ[A.ts < B.ts](A, B; 10)", "a1 b11", ["a1 b11"], []),
        ("EVENT SEQ(!C c, A a, B b) WITHIN 10", "c2 a5 b12", [], ["a5 b12"]),
        ("EVENT SEQ(!C c, A a, B b) WITHIN 10", "c3 a5 b12", [], []),
        ("EVENT SEQ(A a, B b, !C c) WITHIN 10", "a1 b5 c11", [], ["a1 b5"]),
        ("EVENT SEQ(A a, B b, !C c) WITHIN 10", "a1 b5 c10", [], []),
        ("EVENT AND(A a, !B b) WITHIN 10", "b0 a10", [], ["a10"]),
    ],
)
def test_the_exclusive_window(query: str, stream: str, inclusive: list[str], exclusive: list[str]) -> None:
    """Li 2010 can be read so: span < W, and the scopes at the ends are open."""
    assert answers(query, stream) == inclusive
    assert answers(query, stream, window="exclusive") == exclusive


@pytest.mark.parametrize(
    ("query", "stream", "strict", "weak"),
    [
        ("EVENT SEQ(A a, B b)", "a3 b3", [], ["a3 b3"]),
        ("EVENT SEQ(A x, A y)", "a3", [], []),
        ("EVENT SEQ(A a, !C c, B b)", "a1 c1 b3", ["a1 b3"], []),
        ("EVENT SEQ(A a, !C c, B b)", "a1 b3 c3", ["a1 b3"], []),
        ("EVENT SEQ(A a, !C c, B b)", "a1 b3 c4", ["a1 b3"], ["a1 b3"]),
        ("EVENT SEQ(A a, B b, !C c) WITHIN 5", "a1 b3 c3", ["a1 b3"], []),
        ("EVENT SEQ(A a, !A x, B b)", "a1 b3", ["a1 b3"], ["a1 b3"]),
    ],
)
def test_the_weak_order(query: str, stream: str, strict: list[str], weak: list[str]) -> None:
    """Liu et al. 2009 can be read so: equal times are in order, gaps are closed; no event is compared with itself."""
    assert answers(query, stream) == strict
    assert answers(query, stream, order="<=") == weak


# --- what has no meaning -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("EVENT SEQ(A a, B b) WHERE x.v = 1", "x"),
        ("EVENT SEQ(A a, !B b, C c) SELECT b.v", "b"),
        ("EVENT EXISTS b : SEQ(A a, B b) SELECT b.v", "b"),
        ("EVENT SEQ(A a, AND(B+ x, B+ y), C c)", "separated"),
        ("EVENT SEQ(A a, B+ b, !C c, D d) WHERE c.v = b.v", "repeated"),
        ("EVENT SEQ(A a, B+ b, C c, D+ d, E e) WHERE b.v > avg(d.v)", "repeated"),
        ("EVENT SEQ(A a, B b) WHERE NOT [id]", "attr"),
    ],
)
def test_queries_without_meaning_are_refused(query: str, text: str) -> None:
    with pytest.raises(ValueError, match=text) as caught:
        matches(parse(query), events_of(history("a1 b2 c3 d4 e5")))
    assert isinstance(caught.value, TocsinError)


def test_a_repetition_needs_no_plain_neighbour_inside_a_negation() -> None:
    query = Query(Seq((Leaf("A", "a"), Not(Leaf("B", "b", repeat=Repeat(2, None))))), within=Duration(5))
    assert answers(query, "a1 b2 b7") == ["a1"]
    assert answers(query, "a1 b2 b6") == []


def test_select_of_an_unnamed_expression_is_numbered() -> None:
    query = Query(
        Leaf("A", "a"), select=(SelectItem(Attr("a", "v")), SelectItem(Binary("+", Attr("a", "v"), Attr("a", "v"))))
    )
    assert [match.select for match in matches(query, events_of(history("a1{v=2}")))] == [{"v": 2, "column2": 4}]


# --- expressions: docs/expressions.md ------------------------------------------------------------------------------

BIG = 2**63 - 1
X = Event(
    "X", 3, 8, "x",
    {"i": 7, "f": 2.5, "nan": math.nan, "inf": math.inf, "d": Decimal("0.10"), "t": "Abc", "b": True, "n": None,
     "big": BIG, "small": -(2**63), "odd": 2**53 + 1, "round": 9007199254740992.0},
)  # fmt: skip
MEMBERS = tuple(
    Event("B", time, time, f"b{time}", attrs)
    for time, attrs in enumerate(
        [
            {"i": 1, "f": 0.1, "d": Decimal("0.1"), "t": "b", "big": BIG},
            {"i": None, "f": 0.2, "d": Decimal("0.25"), "t": "a", "big": 1},
            {"i": 4, "f": 0.3, "d": None, "t": None, "big": 0, "nan": math.nan},
        ]
    )
)

ROWS: list[tuple[str, Any]] = [
    # logic and null
    ("x.n = 1 OR TRUE", True), ("x.n = 1 AND FALSE", False), ("x.n = 1 AND TRUE", None), ("NOT x.n = 1", None),
    ("x.n + 1", None), ("x.t LIKE x.n", None), ("x.n IS NULL", True), ("x.i IS NOT NULL", True), ("y.i", None),
    # NaN
    ("x.nan = x.nan", None), ("x.nan <> 1", None), ("NOT x.nan < 1", None), ("x.nan IS NULL", False),
    # int
    ("x.big + 1", None), ("x.big - 1", BIG - 1), ("x.small - 1", None), ("x.big * 2", None), ("-x.small", None),
    ("abs(x.small)", None), ("abs(-7)", 7),
    # division
    ("7 / 2", 3.5), ("x.i / 0", None), ("x.f / 0.0", None), ("x.inf / 2", math.inf),
    ("-7 % 3", -1), ("7 % -3", 1), ("7 % 0", None), ("-7.5 % 2", -1.5), ("x.inf % 2 = 1", None), ("x.f % 0", None),
    # float
    ("x.f * 1e308 * 10.0", math.inf), ("x.odd = x.round", False), ("x.odd > x.round", True), ("x.i + x.f", 9.5),
    ("0.1 + 0.2 = 0.3", False),
    # decimal
    ("x.d + 0.2 = 0.3", True), ("x.d = 0.1", True), ("x.d + 1", Decimal("1.10")), ("x.d * x.d", Decimal("0.0100")),
    ("x.d * 3 = 0.3", True), ("x.d + x.f", 2.6), ("x.d / 2", 0.05), ("x.d < 1", True), ("0.1 = x.d", True),
    ("-x.d", Decimal("-0.10")), ("x.d % 0.03", Decimal("0.01")),
    # text and bool
    ("'Z' < 'a'", True), ("x.t = 'abc'", False), ("x.b = TRUE", True), ("x.b <> TRUE", False),
    ("x.t LIKE 'A%'", True), ("x.t LIKE '_b_'", True), ("x.t LIKE 'a%'", False), ("x.t LIKE '%b'", False),
    ("'50%' LIKE '50\\%'", True), ("'500' LIKE '50\\%'", False), ("x.t NOT LIKE 'A%'", False),
    # IN, BETWEEN, CASE
    ("x.i IN (1, 7)", True), ("x.i IN (1, NULL)", None), ("x.i NOT IN (1, 2)", True), ("x.i NOT IN (7, NULL)", False),
    ("x.i BETWEEN 7 AND 8", True), ("x.i NOT BETWEEN 8 AND 9", True), ("x.i BETWEEN 8 AND NULL", False),
    ("CASE WHEN x.n = 1 THEN 1 WHEN x.i = 7 THEN 2 ELSE 3 END", 2), ("CASE WHEN FALSE THEN 1 END", None),
    ("CASE x.i WHEN 7 THEN 'seven' END", "seven"),
    # variables
    ("x = x", True), ("x <> x", False), ("x = y", None), ("x <> y", None), ("y IS NULL", True), ("x IS NULL", False),
    ("start(x)", 3), ("end(x)", 8), ("start(y)", None), ("start(b)", 0), ("end(b)", 2),
    # aggregates
    ("count(b)", 3), ("count(b.i)", 2), ("count(y.i)", 0), ("sum(b.i)", 5), ("avg(b.i)", 2.5), ("min(b.i)", 1),
    ("max(b.i)", 4), ("sum(b.gone)", None), ("avg(b.gone)", None), ("min(b.gone)", None), ("sum(b.big)", None),
    ("avg(b.big)", None), ("sum(b.f)", 0.1 + 0.2 + 0.3), ("sum(b.d)", Decimal("0.35")), ("avg(b.d)", 0.175),
    ("max(b.nan) = 1", None), ("max(b.nan) IS NULL", False), ("min(b.t)", "a"), ("first(b.i)", 1), ("last(b.t)", None),
    ("last(b.i)", 4), ("sum(b.i * 2)", 10),
    # functions
    ("floor(2.5)", 2.0), ("ceil(2.5)", 3.0), ("round(2.5)", 2.0), ("round(3.5)", 4.0), ("floor(-2.5)", -3.0),
    ("floor(x.i)", 7), ("floor(x.inf)", math.inf), ("sqrt(9)", 3.0), ("sqrt(-1)", None),
    ("least(3, 1, 2)", 1), ("greatest(1, 2.5)", 2.5), ("least(1, NULL)", None), ("greatest(1.0, x.nan) = 1", None),
    ("coalesce(NULL, x.n, 3)", 3), ("nullif(1, 1)", None), ("nullif(1, 2)", 1), ("nullif(1, NULL)", 1),
    ("lower(x.t)", "abc"), ("upper(x.t)", "ABC"), ("trim('  a ')", "a"), ("length('héé')", 3),
    ("substr(x.t, 2)", "bc"), ("substr(x.t, 2, 1)", "b"), ("substr(x.t, 9)", ""), ("substr(x.t, 0)", None),
    ("substr(x.t, 1, -1)", None), ("concat('a', 'b', x.t)", "abAbc"), ("'a' || x.n", None), ("'a' || 'b'", "ab"),
    ("starts_with(x.t, 'Ab')", True), ("contains(x.t, 'd')", False),
    # casts
    ("int(2.9)", 2), ("int(-2.9)", -2), ("int(x.nan)", None), ("int(x.inf)", None), ("int(' +12 ')", 12),
    ("int('1.5')", None), ("int(x.b)", 1), ("int(x.d)", 0), ("int('99999999999999999999')", None), ("int(1e30)", None),
    ("float('1e2')", 100.0), ("float('1_0')", None), ("float('x')", None), ("float(x.i)", 7.0), ("float(x.d)", 0.1),
    ("text(x.i)", "7"), ("text(x.b)", "true"), ("CAST(x.i AS TEXT)", "7"), ("CAST('5' AS INT)", 5),
    ("5 min", 300_000_000),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), ROWS, ids=[text for text, _ in ROWS])
def test_expressions_row_by_row(text: str, expected: Any) -> None:
    value = OracleEvaluator({}, "us").plain(parse_expr(text), {"x": X, "b": MEMBERS})
    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize(
    "text", ["x.t = 1", "x.b = 1", "x.b < TRUE", "x.t + 1", "x.i || 'a'", "nobody(1)", "count(x)", "b.i"]
)
def test_what_the_binder_refuses_has_no_value(text: str) -> None:
    with pytest.raises(TocsinError):
        OracleEvaluator({}, "us").value(parse_expr(text), {"x": X, "b": MEMBERS})
