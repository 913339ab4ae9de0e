"""docs/expressions.md row by row: the oracle, the plain body and the compiled body are asked the same questions.

An example is a condition over two events p and q and what it is: True, False or None (unknown). Each is asked of two
events, where it is tested inside the loops, and of one event that stands for both, where it is computed on arrival.
A condition and its negation are both asked, so that unknown is told from FALSE.
"""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path

import pytest

from tests.effort import some
from tocsin.errors import QueryError
from tocsin.events import Event
from tocsin.lang.parser import parse
from tocsin.lang.syntax import Query
from tocsin.plan.bind import bind
from tocsin.schema import Field, Kind, Schema
from tocsin.testing.modes import Mode, run
from tocsin.testing.notation import events_of, history
from tocsin.testing.oracle import matches

T, F, U = True, False, None

VALUES = {
    "i": 7, "j": -2, "z": 0, "big": 2**53 + 1, "top": 2**63 - 1, "low": -(2**63), "ni": None,
    "f": 1.5, "g": -2.5, "zf": 0.0, "bigf": 9007199254740992.0, "nan": float("nan"), "inf": float("inf"), "nf": None,
    "d": Decimal("1.10"), "e": Decimal("2.25"), "dbig": Decimal("9999999999999999.99"), "nd": None,
    "s": "abc", "t": "ABC", "u": " a b ", "pct": "50%_x", "bl": "", "um": "Ärger", "num": " 42 ", "bad": "4_2", "ns": None,
    "ok": True, "no": False, "nb": None,
}  # fmt: skip
KINDS = {
    **dict.fromkeys(["i", "j", "z", "big", "top", "low", "ni", "n"], Kind.INT),
    **dict.fromkeys(["f", "g", "zf", "bigf", "nan", "inf", "nf"], Kind.FLOAT),
    **dict.fromkeys(["d", "e", "dbig", "nd"], Kind.DECIMAL),
    **dict.fromkeys(["s", "t", "u", "pct", "bl", "um", "num", "bad", "ns"], Kind.TEXT),
    **dict.fromkeys(["ok", "no", "nb"], Kind.BOOL),
}
SCHEMA = Schema(
    types={"A": {}, "B": {}, "C": {"only": Field("only", Kind.INT)}},
    common={name: Field(name, kind, scale=2 if kind is Kind.DECIMAL else 0) for name, kind in KINDS.items()},
    intervals=False,
)

# fmt: off
EXAMPLES: dict[str, list[tuple[str, bool | None]]] = {
    "logic": [
        ("p.ok AND q.ok", T), ("p.ok AND q.no", F), ("p.nb AND q.no", F), ("p.nb AND q.ok", U),
        ("p.nb OR q.ok", T), ("p.nb OR q.no", U), ("NOT p.no", T), ("NOT p.nb", U),
    ],
    "null": [
        ("p.ni + q.i > 0", U), ("p.ni = q.ni", U), ("p.ns LIKE 'a%'", U), ("p.i < q.nf", U), ("length(p.ns) = 0", U),
        ("p.ni IS NULL", T), ("p.i IS NOT NULL", T), ("coalesce(p.ni, q.i) = 7", T),
        ("CASE WHEN p.ni > 0 THEN q.no ELSE q.ok END", T), ("p.only IS NULL", T), ("p.only = q.i", U),
    ],
    "NaN": [
        ("p.nan = q.nan", U), ("p.nan <> q.f", U), ("p.nan > q.f", U), ("p.nan IS NULL", F), ("p.nan + 1 IS NULL", F),
        ("p.i < q.nan", U),
    ],
    "int + - *": [
        ("p.i + q.j = 5", T), ("p.i - q.j = 9", T), ("p.i * q.j = -14", T), ("p.top + q.i > 0", U),
        ("p.low - q.i < 0", U), ("p.top * q.j < 0", U), ("p.top - q.top = 0", T), ("p.low * 1 = q.low", T), ("-1 * p.low > q.z", U),
    ],
    "unary minus, abs": [
        ("-p.j = 2", T), ("-p.low > q.z", U), ("abs(p.j) = 2", T), ("abs(p.low) > q.z", U), ("abs(p.g) = 2.5", T), ("-p.top < q.z", T),
    ],
    "`/`": [
        ("p.i / q.j = -3.5", T), ("p.i / q.z = 1", U), ("p.f / q.zf > 0", U), ("p.inf / q.j < 0", T), ("1 / p.j = -0.5", T),
        ("p.i / 2 = 3", F),
    ],
    "`%`": [
        ("p.i % q.j = 1", T), ("p.j % q.i = -2", T), ("p.i % q.z = 0", U), ("p.g % q.f = -1.0", T), ("p.f % q.zf = 0", U),
        ("p.inf % q.f = 0", U), ("(p.inf % q.f) IS NULL", F), ("p.low % -1 = q.z", T),
    ],
    "float overflow": [("p.inf = q.inf", T), ("p.bigf * 1e290 < q.inf", T), ("p.bigf * 1e300 = q.inf", T)],
    "int with float": [
        ("p.big = q.bigf", F), ("p.big > q.bigf", T), ("p.i + q.f = 8.5", T), ("p.top < q.inf", T), ("p.z = q.zf", T), ("p.i > q.f", T),
    ],
    "decimal + - decimal or int": [
        ("p.d + q.e = 3.35", T), ("p.d - 1 = 0.10", T), ("p.dbig + q.dbig > 0", T), ("p.e - q.d = 1.15", T), ("p.d + q.i = 8.10", T),
        ("p.dbig + q.top > 0", U),
    ],
    "decimal * decimal or int": [("p.d * q.e = 2.475", T), ("p.e * q.j = -4.5", T), ("p.dbig * q.dbig > 0", U)],
    "decimal with float, decimal `/`": [("p.e + q.f = 3.75", T), ("p.e / q.j = -1.125", T), ("p.d / q.z > 0", U), ("p.e > q.f", T)],
    "decimal compared with decimal or int": [
        ("p.d < q.e", T), ("p.e = 2.250", T), ("p.d = 1", F), ("p.d > 1", T), ("p.dbig > q.i", T), ("p.nd < q.e", U),
    ],
    "a fractional literal (0.1)": [("p.d = 1.1", T), ("p.f = 1.5", T), ("p.d + 0.1 = 1.2", T), ("p.f + 0.1 > q.f", T)],
    "text = <> < <= > >=": [
        ("p.s = q.s", T), ("p.s = q.t", F), ("p.t < q.s", T), ("p.s < 'abd'", T), ("p.um > q.s", T), ("p.bl < q.t", T),
        ("p.s >= q.s", T), ("p.s <> q.t", T), ("p.ns <> q.s", U), ("'B' <= p.s", T),
    ],
    "bool": [("p.ok = q.ok", T), ("p.ok <> q.no", T), ("p.ok = false", F), ("p.nb = q.ok", U)],
    "LIKE": [
        ("p.s LIKE 'a%'", T), ("p.s LIKE 'A%'", F), ("p.s LIKE '_b_'", T), ("p.s LIKE 'b'", F), ("p.pct LIKE '50\\%\\__'", T),
        ("p.s LIKE '50\\%%'", F), ("p.bl LIKE '%'", T), ("p.bl LIKE '_'", F), ("p.um NOT LIKE 'Ä_ger'", F), ("p.ns NOT LIKE 'x'", U),
    ],
    "IN": [
        ("p.i IN (1, 7)", T), ("p.i IN (1, q.ni)", U), ("p.i IN (7, q.ni)", T), ("p.i NOT IN (1, 2)", T), ("p.i NOT IN (1, q.ni)", U),
        ("p.s IN (q.t, 'abc')", T), ("p.f IN (1, 1.5)", T),
    ],
    "BETWEEN a AND b": [
        ("p.i BETWEEN 7 AND 7", T), ("p.i BETWEEN 8 AND 1", F), ("p.i BETWEEN q.ni AND 6", F), ("p.i BETWEEN q.ni AND 9", U),
        ("p.f BETWEEN q.j AND q.i", T), ("p.i NOT BETWEEN 1 AND 6", T),
    ],
    "CASE": [
        ("CASE WHEN p.nb THEN 1 WHEN q.ok THEN 2 ELSE 3 END = 2", T), ("CASE WHEN p.no THEN q.i END = 7", U),
        ("CASE WHEN p.ok THEN 1 ELSE q.f END = 1.0", T), ("CASE p.i WHEN 7 THEN 'x' ELSE q.s END = 'x'", T),
        ("CASE WHEN p.i > q.j THEN p.s ELSE q.t END = 'abc'", T),
    ],
    "start(x), end(x)": [("start(p) = end(p)", T), ("end(p) <= start(q)", T), ("start(p) + 100 < end(q)", F)],
    "abs, floor, ceil, round": [
        ("floor(p.g) = -3.0", T), ("ceil(p.g) = -2.0", T), ("round(p.g) = -2.0", T), ("round(p.f) = 2.0", T), ("floor(p.i) = 7", T),
        ("round(p.i) / q.j = -3.5", T), ("floor(p.f) + q.i = 8", T),
    ],
    "sqrt": [("sqrt(p.e) = 1.5", T), ("sqrt(p.j) = 0", U), ("sqrt(p.i + q.j + 4) = 3", T)],
    "least, greatest": [
        ("least(p.i, q.j) = -2", T), ("greatest(p.f, q.i) = 7", T), ("least(p.i, q.ni) = 7", U), ("greatest(p.nan, q.f) > 0", U),
        ("greatest(p.nan, q.f) IS NULL", F), ("least(p.s, q.t) = 'ABC'", T),
    ],
    "coalesce(a, b, ...)": [
        ("coalesce(p.ni, q.ni) = 1", U), ("coalesce(p.ns, q.s) = 'abc'", T), ("nullif(p.i, 7) IS NULL", T), ("nullif(p.i, q.j) = 7", T),
        ("nullif(p.i, q.ni) = 7", T), ("coalesce(p.nf, q.i) = 7", T),
    ],
    "lower, upper, trim, length": [
        ("lower(p.t) = q.s", T), ("upper(p.um) = 'ÄRGER'", T), ("trim(p.u) = 'a b'", T), ("length(p.um) = 5", T), ("length(p.bl) = 0", T),
        ("length(p.s) + q.j = 1", T),
    ],
    "substr(s, from, n)": [
        ("substr(p.s, 2, 1) = 'b'", T), ("substr(p.s, 2) = 'bc'", T), ("substr(p.s, 9, 1) = q.bl", T), ("substr(p.s, 0, 1) = 'a'", U),
        ("substr(p.s, 1, -1) = ''", U), ("substr(p.s, 3, 5) = 'c'", T), ("substr(p.s, 1, length(q.s)) = 'abc'", T),
    ],
    "concat(a, b, ...), `||`": [("p.s || q.t = 'abcABC'", T), ("concat(p.s, '-', q.bl) = 'abc-'", T), ("p.s || q.ns = 'abc'", U)],
    "starts_with(s, t), contains(s, t)": [
        ("starts_with(p.s, 'ab')", T), ("starts_with(p.s, q.t)", F), ("contains(p.s, 'bc')", T), ("contains(p.ns, q.s)", U), ("contains(p.s, q.bl)", T),
    ],
    "int(x)": [
        ("int(p.g) = -2", T), ("int(p.nan) = 0", U), ("int(p.inf) > 0", U), ("int(p.num) = 42", T), ("int(p.bad) = 42", U),
        ("int(p.ok) = 1", T), ("int(q.e) = 2", T), ("int(p.f) + q.i = 8", T),
    ],
    "float(x)": [("float(p.i) / 2 = 3.5", T), ("float(p.num) = 42.0", T), ("float(p.bad) = 42", U), ("float(p.e) = q.e", T), ("float(p.s) > 0", U)],
    "text(x)": [("text(p.i) = '7'", T), ("text(p.ok) = 'true'", T), ("text(p.j) || q.s = '-2abc'", T), ("text(p.ni) = ''", U)],
    "CAST(x AS INT / FLOAT / TEXT)": [
        ("CAST(p.f AS INT) = 1", T), ("CAST(p.num AS FLOAT) = 42", T), ("CAST(p.i AS TEXT) = '7'", T), ("CAST(p.bad AS INT) > q.z", U),
    ],
}
# fmt: on
FLAT = [(row, condition, truth) for row, examples in EXAMPLES.items() for condition, truth in examples]

ERRORS = {
    "text against number or bool, bool against number": ["p.s = p.i", "p.ok = 1", "p.s < p.ok", "p.f > p.s"],
    "bool": ["p.ok < p.no", "p.ok BETWEEN false AND true"],
    "decimal * decimal or int": ["p.d * p.d * p.d * p.d * p.d * p.d * p.d * p.d * p.d * p.d > 0"],
    "CASE": ["CASE WHEN p.ok THEN 1 ELSE 'x' END = 1"],
    "concat(a, b, ...), `||`": ["p.s || p.i = 'x'"],
    "durations in expressions": ["start(p) > 5 min"],
    "lower, upper, trim, length": ["lower(p.i) = 'x'", "length(p.i) = 1"],
    "logic": ["p.i AND p.ok", "NOT p.s"],
}


def asked(condition: str, two: bool) -> str:
    """The condition over a and b, or over a alone."""
    return re.sub(r"\bq\b", "b" if two else "a", re.sub(r"\bp\b", "a", condition))


def questions(conditions: list[str], expected: list[bool | None]) -> str:
    """TRUE for n = 2k if condition k is TRUE, for n = 2k + 1 if it is FALSE. What is expected to be TRUE is asked only whether it
    is, and so for FALSE: half the code to compile."""
    tests = []
    for k, (test, truth) in enumerate(zip(conditions, expected, strict=True)):
        tests += [f"(a.n = {2 * k} AND ({test}))"] if truth is not F else []
        tests += [f"(a.n = {2 * k + 1} AND NOT ({test}))"] if truth is not T else []
    return " OR ".join(tests)


def one_query(conditions: list[str], two: bool, expected: list[bool | None] | None = None) -> Query:
    """Asks conditions of two events, or of one that stands for both."""
    pattern = "SEQ(A a, B b)" if two else "A a"
    where = questions([asked(condition, two) for condition in conditions], expected or [U] * len(conditions))
    return parse(f"EVENT {pattern} WHERE {where}")


def stream(count: int) -> list[Event]:
    events = [Event("A", 1, 1, n, {**VALUES, "n": n}) for n in range(2 * count)]
    return [*events, Event("B", 2, 2, 1000, dict(VALUES))]


def truths(found: set[int], count: int) -> list[bool | None]:
    return [T if 2 * k in found else F if 2 * k + 1 in found else U for k in range(count)]


def by_engine(
    conditions: list[str], two: bool, mode: Mode, expected: list[bool | None] | None = None
) -> list[bool | None]:
    count = len(conditions)
    found = run(one_query(conditions, two, expected), stream(count), mode, schema=SCHEMA)
    return truths({int(binding[0][1][0]) for binding in found}, count)


def by_oracle(conditions: list[str], two: bool) -> list[bool | None]:
    count = len(conditions)
    found = matches(one_query(conditions, two), stream(count))
    return truths({int(match.binding[0][1][0]) for match in found}, count)


def fits(condition: str, two: bool) -> bool:
    """What compares the times of p and q means something else where both are one event."""
    return two or "start(q)" not in condition


@pytest.mark.parametrize("two", [True, False], ids=["two events", "one event"])
@pytest.mark.parametrize(("row", "condition", "truth"), FLAT, ids=[f"{row}: {what}" for row, what, _ in FLAT])
def test_oracle_and_plain_body(row: str, condition: str, truth: bool | None, two: bool) -> None:
    if fits(condition, two):
        assert by_oracle([condition], two) == [truth]
        assert by_engine([condition], two, Mode()) == [truth]


GROUPS = [FLAT[at : at + 14] for at in range(0, len(FLAT), 14)]


@pytest.mark.jit
@pytest.mark.slow
@pytest.mark.parametrize("two", [True, False], ids=["two events", "one event"])
@pytest.mark.parametrize("group", some(GROUPS), ids=lambda group: group[0][0])
def test_compiled_body(group: list[tuple[str, str, bool | None]], two: bool) -> None:
    group = [example for example in group if fits(example[1], two)]
    conditions = [condition for _, condition, _ in group]
    found = by_engine(conditions, two, Mode(jit=True), [truth for _, _, truth in group])
    wrong = [(*example, got) for example, got in zip(group, found, strict=True) if example[2] != got]
    assert not wrong


@pytest.mark.parametrize(("row", "condition"), [(row, each) for row, listed in ERRORS.items() for each in listed])
def test_errors_at_binding(row: str, condition: str) -> None:
    with pytest.raises(QueryError):
        bind(parse(f"EVENT A p WHERE {condition}"), SCHEMA, {})


# --- variables -----------------------------------------------------------------------------------------------------

OF_VARIABLES = [
    ("x = y, x <> y on variables", "EVENT AND(A a, A b) WHERE a <> b", "a1 a2", 2),
    ("x = y, x <> y on variables", "EVENT AND(A a, A b) WHERE a = b", "a1 a2", 0),
    ("x = y, x <> y on variables", "EVENT AND(A a, !(A x : x <> a))", "a1", 1),
    ("x = y, x <> y on variables", "EVENT AND(A a, !(A x : x <> a))", "a1 a2", 1),
    ("x = y, x <> y on variables", "EVENT OR(A a, B b) WHERE a <> b", "a1 b2", 0),
    ("x IS NULL on a variable", "EVENT OR(A a, B b) WHERE a IS NULL", "a1 b2", 1),
    ("x IS NULL on a variable", "EVENT OR(A a, B b) WHERE a IS NOT NULL", "a1 b2 a3", 2),
    ("x IS NULL on a variable", "EVENT A a WHERE a IS NULL", "a1", 0),
    ("start(x), end(x)", "EVENT SEQ(A a, B+ b, C c) WHERE start(b) = 2 AND end(b) = 5", "a1 b2 b5 c6", 1),
    ("start(x), end(x)", "EVENT AND(A a, H h) WHERE start(h) < start(a) AND end(a) < end(h)", "a5 h[3,8] h[5,8]", 1),
    ("float as key", "EVENT SEQ(A a, B b) WHERE [f]", "a1{f=0.0} b2{f=-0.0} b3{f=0.5}", 1),
    ("float as key", "EVENT A a WHERE [f]", "a1{f=nan} a2{f=1.5}", 1),
    ("type(x)", "EVENT OR(A a, B b) WHERE type(a) = 'A'", "a1 b2", 1),
    ("type(x)", "EVENT OR(A a, B b) WHERE type(a) IS NULL AND type(b) || '!' = 'B!'", "a1 b2", 1),
    ("eid(x)", "EVENT SEQ(A a, B b) WHERE eid(a) < eid(b) AND eid(b) NOT IN ('x', 'y')", "a1#m b2#x b3#k b4#p", 1),
    ("eid(x)", "EVENT OR(A a, B b) WHERE eid(a) IS NULL AND eid(b) || '!' = 'x!'", "a1 b2#x", 1),
    (
        "x.time, x.start, x.end, x.type, x.eid",
        "EVENT SEQ(A a, B+ b) WHERE a.eid = 'x' AND b.eid <> 'y'",
        "a1#x b2#y b3",
        1,
    ),
    (
        "x.time, x.start, x.end, x.type, x.eid",
        "EVENT AND(A a, H h) WHERE h.time < a.start AND h.end = 8",
        "a5 h[3,8] h[5,8]",
        1,
    ),
    (
        "x.time, x.start, x.end, x.type, x.eid",
        "EVENT SEQ(A a, B+ b) WHERE b.start = 2 AND a.type < b.type",
        "a1 b2 b5",
        1,
    ),
]


@pytest.mark.parametrize(("row", "text", "events", "count"), OF_VARIABLES)
def test_variables(row: str, text: str, events: str, count: int) -> None:
    listed = events_of(history(events))
    assert len(matches(parse(text), listed)) == count
    assert len(run(parse(text), listed, Mode())) == count


@pytest.mark.jit
@pytest.mark.slow
@pytest.mark.parametrize(("row", "text", "events", "count"), [OF_VARIABLES[at] for at in (0, 3, 5, 8)])
def test_compiled_variables(row: str, text: str, events: str, count: int) -> None:
    assert len(run(parse(text), events_of(history(events)), Mode(jit=True))) == count


def test_durations_in_expressions() -> None:
    schema = Schema(types={"A": {}, "B": {}}, unit="us")
    query = parse("EVENT SEQ(A a, B b) WHERE start(b) - start(a) = 5 min")
    events = [Event("A", 0, 0, 1), Event("B", 300_000_000, 300_000_000, 2), Event("B", 300_000_001, 300_000_001, 3)]
    expected = {(("a", (1,)), ("b", (2,)))}
    assert {match.binding for match in matches(query, events, unit="us")} == expected
    assert set(run(query, events, Mode(), schema=schema)) == expected


# --- aggregates ----------------------------------------------------------------------------------------------------

MEMBERS = [
    {"i": 4, "f": 0.1, "d": Decimal("0.10"), "s": "b", "top": 2**63 - 1, "nan": 1.0},
    {"i": None, "f": 0.2, "d": None, "s": "B", "top": 1, "nan": float("nan")},
    {"i": 1, "f": 0.3, "d": Decimal("2.25"), "s": None, "top": 0, "nan": 0.5},
]

# fmt: off
OF_SETS: list[tuple[str, str, bool | None]] = [
    ("count(b)", "count(b) = 3", T), ("count(b)", "count(b.i) = 2", T), ("count(b)", "count(b.ni) = 0", T), ("count(b)", "count(b.s) > a.i", F),
    ("sum, avg, min, max", "sum(b.i) = 5", T), ("sum, avg, min, max", "avg(b.i) = 2.5", T), ("sum, avg, min, max", "min(b.i) = 1", T),
    ("sum, avg, min, max", "max(b.i) < a.i", T), ("sum, avg, min, max", "sum(b.ni) = 0", U), ("sum, avg, min, max", "max(b.ni) IS NULL", T),
    ("sum, avg, min, max", "max(b.nan) > 0", U), ("sum, avg, min, max", "sum(b.nan) IS NULL", F),
    ("sum of int or decimal", "sum(b.top) > 0", U), ("sum of int or decimal", "sum(b.d) = 2.35", T), ("sum of int or decimal", "sum(b.f) = 0.1 + 0.2 + 0.3", T),
    ("sum of int or decimal", "sum(b.f) = 0.6", F), ("sum of int or decimal", "sum(b.i * 2) = 10", T),
    ("avg", "avg(b.d) = 1.175", T), ("avg", "avg(b.ni) > 0", U), ("avg", "avg(b.top) > 0", U), ("avg", "avg(b.i) + a.i = 9.5", T),
    ("min, max of text", "min(b.s) = 'B'", T), ("min, max of text", "max(b.s) < a.s", F), ("min, max of text", "max(b.s) = 'b'", T),
    ("first, last", "first(b.i) = 4", T), ("first, last", "last(b.s) = 'x'", U), ("first, last", "last(b.i) < first(b.i)", T),
    ("first, last", "first(b.s) > a.s", T), ("first, last", "last(b.d) = 2.25", T),
    ("b[n].v", "b[1].i = first(b.i)", T), ("b[n].v", "b[-1].i < b[1].i", T), ("b[n].v", "b[4].i = 0", U), ("b[n].v", "b[-3].i = 4", T),
    ("b[n].v", "b[-4].i IS NULL", T), ("b[n].v", "b[-1].d = last(b.d)", T), ("count(b)", "count(distinct b.i) = 2", T),
    ("count(b)", "count(distinct b.ni) = 0", T),
]
# fmt: on


def set_query(conditions: list[str], expected: list[bool | None] | None = None) -> Query:
    return parse(f"EVENT SEQ(A a, B+ b, C c) WHERE {questions(conditions, expected or [U] * len(conditions))}")


def set_stream(count: int) -> list[Event]:
    events = [Event("A", 1, 1, n, {**VALUES, "n": n}) for n in range(2 * count)]
    events += [Event("B", 2 + at, 2 + at, 1000 + at, attrs) for at, attrs in enumerate(MEMBERS)]
    return [*events, Event("C", 9, 9, 2000)]


def set_truths(
    conditions: list[str], mode: Mode | None, expected: list[bool | None] | None = None
) -> list[bool | None]:
    query, events, count = set_query(conditions, expected), set_stream(len(conditions)), len(conditions)
    found = (
        [match.binding for match in matches(query, events)] if mode is None else run(query, events, mode, schema=SCHEMA)
    )
    return truths({int(binding[0][1][0]) for binding in found}, count)


@pytest.mark.parametrize(("row", "condition", "truth"), OF_SETS, ids=[what for _, what, _ in OF_SETS])
def test_aggregates(row: str, condition: str, truth: bool | None) -> None:
    assert set_truths([condition], None) == [truth]
    assert set_truths([condition], Mode()) == [truth]


@pytest.mark.jit
@pytest.mark.slow
@pytest.mark.parametrize("at", some([0, 11, 22]))
def test_compiled_aggregates(at: int) -> None:
    group = OF_SETS[at : at + 11]
    expected = [truth for _, _, truth in group]
    assert set_truths([condition for _, condition, _ in group], Mode(jit=True), expected) == expected


# --- the table itself ----------------------------------------------------------------------------------------------


def test_every_row_of_the_table_has_two_examples() -> None:
    text = (Path(__file__).parent.parent / "docs" / "expressions.md").read_text(encoding="utf-8")
    lines = [line.replace("\\|", "¦") for line in text.splitlines() if line.startswith("| ")][1:]
    rows = [line.split("|")[1].strip().replace("¦", "|") for line in lines]
    count = {row: len(examples) for row, examples in EXAMPLES.items()}
    for row, listed in ERRORS.items():
        count[row] = count.get(row, 0) + len(listed)
    for row, *_ in [*OF_VARIABLES, *OF_SETS]:
        count[row] = count.get(row, 0) + 1
    count["durations in expressions"] += 1  # test_durations_in_expressions
    elsewhere = ("timestamp('2026-03-01T09:00'), TIMESTAMP '...'", "hour(t), minute(t), second(t), weekday(t), date(t)")
    elsewhere += (
        "hour(t, 'Europe/Berlin'), ...",
        "timestamp(t, 'Europe/Berlin')",
        "s.* in SELECT",
        "collect(b.v)",
        "start(s), end(s), s.time in SELECT",
        "a OVERLAPS b, ...",
        "relation(a, b)",
    )
    count |= dict.fromkeys(elsewhere, 9)  # tests/test_points_in_time, tests/test_relations, tests/test_select
    assert {row: count.get(row, 0) for row in rows if count.get(row, 0) < 2} == {}
    assert count.keys() <= set(rows)
