"""The printer: canonical text, as few parentheses as possible, and parse(print(q)) == q for every query."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import examples
from tocsin.lang.parser import parse, parse_all, parse_expr
from tocsin.lang.printer import print_expr, print_pattern, print_query
from tocsin.lang.syntax import (
    ALLEN,
    UNITS,
    And,
    Attr,
    Between,
    Binary,
    Call,
    CaseWhen,
    Comparison,
    DistinctClause,
    Duration,
    Endpoint,
    Exists,
    In,
    Iseq,
    IsNull,
    Leaf,
    Like,
    LimitClause,
    Literal,
    Name,
    Not,
    Or,
    Query,
    Rel,
    Repeat,
    Same,
    SelectItem,
    Seq,
    SkipClause,
    Unary,
)

# --- canonical text ----------------------------------------------------------------------------------------------


def test_a_whole_query():
    text = (
        "query theft event seq(Shelf s, not(Counter c: c.tag=s.tag, c.open), Exit+ e) select s.tag as tag,count(e)"
        " partition by store within 12 hours where [tag] and s.price>=10.50"
    )
    assert str(parse(text)) == (
        "QUERY theft\n"
        "EVENT SEQ(Shelf s, !(Counter c : c.tag = s.tag AND c.open), Exit+ e)\n"
        "WHERE [tag] AND s.price >= 10.50\n"
        "WITHIN 12 h\n"
        "PARTITION BY store\n"
        "SELECT s.tag AS tag, count(e)"
    )


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        ("∃c.SEQ((A a); ¬(B b); C c)", "EXISTS c : SEQ(A a, !B b, C c)"),
        ("OR(P|Q)", "OR(P, Q)"),
        ("BEFORE(A a, B b)", "REL[before](A a, B b)"),
        ("rel[met_by, contains](AND(A, B), C)", "REL[met by, contain](AND(A, B), C)"),
        (
            "ISEQ[A^- < B^+ < C^+, C- = A-](A, B, C; 5 mins)",
            "ISEQ[start(A) < end(B) < end(C) AND start(C) = start(A)](A, B, C; 5 min)",
        ),
        ("B{1,} b", "B+ b"),
        ("B{2,2} b", "B{2} b"),
        ("B{2,} b", "B{2,} b"),
        ("B{2,4}", "B{2,4}"),
        ("SUPPLIER.WAREHOUSE s", "SUPPLIER.WAREHOUSE s"),
        ("`a b` `where`", "`a b` `where`"),
        ("`odd.``type`", "`odd.``type`"),
        ("`SEQ.a` `init`", "`SEQ.a` `init`"),
        ("`any` `x`", "`any` x"),
    ],
)
def test_patterns(written, printed):
    assert print_pattern(parse(written).pattern) == printed
    assert print_pattern(parse(printed).pattern) == printed


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        ("((a.x) + (1 * 2))", "a.x + 1 * 2"),
        ("(a.x + 1) * 2", "(a.x + 1) * 2"),
        ("a.x - (1 - 2)", "a.x - (1 - 2)"),
        ("(a.x - 1) - 2", "a.x - 1 - 2"),
        ("a.x = 1 and (a.y = 2 and a.z = 3)", "a.x = 1 AND (a.y = 2 AND a.z = 3)"),
        ("(a.x or a.y) and not (a.x and a.y)", "(a.x OR a.y) AND NOT (a.x AND a.y)"),
        ("not (a.x = 1)", "NOT a.x = 1"),
        ("(not a.x) = a.y", "(NOT a.x) = a.y"),
        ("(a.x < 1) = (a.y < 2)", "(a.x < 1) = (a.y < 2)"),
        ("(a.x is null) is not null", "(a.x IS NULL) IS NOT NULL"),
        ("a.x NOT in (1, a.y = 2)", "a.x NOT IN (1, a.y = 2)"),
        ("a.x between 1 and (2 + 3)", "a.x BETWEEN 1 AND 2 + 3"),
        ("a.x not between (a.y is null) and 3", "a.x NOT BETWEEN (a.y IS NULL) AND 3"),
        ('a.x not like "it\'s"', "a.x NOT LIKE 'it''s'"),
        ("-(-(a.x))", "-(-a.x)"),
        ("-(5)", "-(5)"),
        ("- 5", "-5"),
        ("-(-5)", "-(-5)"),
        ("a.x - -5", "a.x - -5"),
        ("-(5 min)", "-5 min"),
        ("cast(a.x as int) + END(a)", "int(a.x) + end(a)"),
        ("case a.x when 1 then 2 else 3 end", "CASE WHEN a.x = 1 THEN 2 ELSE 3 END"),
        ("1e3", "1E+3"),
        ("1.0", "1.0"),
        ("x <> y", "x <> y"),
        ("a.end", "a.end"),
        ("a.`x.y`", "a.`x.y`"),
        ("A.B.c", "A.B.c"),
        ("`a b`.c", "`a b`.c"),
        ("`in`(a.x)", "`in`(a.x)"),
        ("[id, `select`]", "[id, `select`]"),
        ("1.5 hours", "1.5 h"),
    ],
)
def test_expressions(written, printed):
    assert print_expr(parse_expr(written)) == printed
    assert print_expr(parse_expr(printed)) == printed


def test_a_whole_decimal_stays_a_decimal():
    assert print_expr(Literal(Decimal(7))) == "7.0"
    assert print_expr(Literal(Decimal(-7))) == "-7.0"


@pytest.mark.parametrize("printer", [print_pattern, print_expr])
def test_what_is_no_node_is_refused(printer):
    with pytest.raises(TypeError):
        printer(object())


# --- the law -----------------------------------------------------------------------------------------------------

plain = st.sampled_from(["a", "b", "x_1", "Shelf", "s", "min", "h", "start", "count", "before", "Rel_1", "ä"])
clause_words = st.sampled_from(["LIMIT", "limit", "AFTER", "match", "Distinct", "skip", "per", "EVERY", "past", "to"])
odd = st.sampled_from(
    ["where", "END", "any", "Init", "ins-type", "a b", "x.y", "`", "a``b", "1a", ".", "A.B", "seq.x", "\n", "∃"]
)
names = st.one_of(plain, plain, clause_words, odd)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
decimals = st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**9), max_value=10**9).map(
    lambda value: Decimal(f"{value}.0") if value.as_tuple().exponent == 0 else value
)
amounts = st.one_of(st.integers(1, 10**6), decimals.filter(lambda value: value > 0).map(abs))
literals = st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), decimals, texts).map(Literal)
timed = st.builds(Duration, amounts, st.sampled_from(list(UNITS)))
windows = st.one_of(timed, st.builds(Duration, st.integers(1, 2**63 - 1)))
leaves_of_expr = st.one_of(
    literals,
    timed,
    st.builds(Name, names),
    st.builds(Attr, names, names),
    st.builds(Same, st.lists(names, min_size=1, max_size=2).map(tuple)),
)
OPS = ["AND", "OR", "=", "<>", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "||"]


def larger(exprs):
    return st.one_of(
        st.builds(Unary, st.sampled_from(["NOT", "-"]), exprs),
        st.builds(Binary, st.sampled_from(OPS), exprs, exprs),
        st.builds(Binary, st.sampled_from(OPS), exprs, exprs),
        st.builds(In, exprs, st.lists(exprs, min_size=1, max_size=2).map(tuple), st.booleans()),
        st.builds(Between, exprs, exprs, exprs, st.booleans()),
        st.builds(Like, exprs, exprs, st.booleans()),
        st.builds(IsNull, exprs, st.booleans()),
        st.builds(
            CaseWhen,
            st.lists(st.tuples(exprs, exprs), min_size=1, max_size=2).map(tuple),
            st.one_of(st.none(), exprs),
        ),
        st.builds(Call, names.map(str.lower), st.lists(exprs, max_size=2).map(tuple)),
    )


exprs = st.recursive(leaves_of_expr, larger, max_leaves=8)
repeats = st.one_of(
    st.none(),
    st.builds(Repeat, st.integers(1, 3), st.one_of(st.none(), st.integers(3, 5))),
)
leaves = st.builds(Leaf, names, st.one_of(st.none(), names), st.one_of(st.none(), exprs), repeats)
endpoints = st.builds(Endpoint, names, st.sampled_from(["start", "end"]))
comparisons = st.builds(Comparison, endpoints, st.sampled_from(["<", "<=", "=", ">", ">="]), endpoints)
some_names = st.lists(names, min_size=1, max_size=2).map(tuple)


def composite(patterns):
    items = st.lists(st.one_of(patterns, st.builds(Not, patterns)), min_size=1, max_size=3).map(tuple)
    return st.one_of(
        st.builds(Seq, items),
        st.builds(And, items),
        st.builds(Or, st.lists(patterns, min_size=1, max_size=3).map(tuple)),
        st.builds(Exists, some_names, patterns),
        st.builds(Rel, st.lists(st.sampled_from(ALLEN), min_size=1, max_size=3).map(tuple), patterns, leaves),
    )


iseqs = st.builds(
    Iseq,
    st.lists(comparisons, min_size=1, max_size=4).map(tuple),
    st.lists(leaves, min_size=1, max_size=3).map(tuple),
    st.one_of(st.none(), windows),
)
patterns = st.recursive(st.one_of(leaves, leaves, iseqs), composite, max_leaves=5)
groupings = exprs.filter(lambda expr: not isinstance(expr, Name))  # a name by itself is an attribute of the key
lengths = st.one_of(st.none(), windows)
skips = st.one_of(
    st.builds(SkipClause, st.sampled_from(["past last", "next"])),
    st.builds(SkipClause, st.sampled_from(["first", "last"]), st.builds(Name, names)),
)
limits = st.builds(LimitClause, st.integers(1, 2**63 - 1), st.lists(groupings, max_size=2).map(tuple), lengths)
clauses = st.tuples(
    st.one_of(st.none(), skips),
    st.one_of(st.none(), st.builds(DistinctClause, groupings, lengths)),
    st.one_of(st.none(), limits),
)
queries = st.builds(
    lambda hidden, strategy, chosen, *parts: Query(*parts, hidden and parts[1] is not None, strategy, *chosen),
    st.booleans(),
    st.sampled_from([None, "any", "next", "strict"]),
    clauses,
    patterns,
    st.one_of(st.none(), names),
    st.one_of(st.none(), exprs),
    st.one_of(st.none(), windows),
    st.lists(names, max_size=2).map(tuple),
    st.lists(st.builds(SelectItem, exprs, st.one_of(st.none(), names)), max_size=2).map(tuple),
)


@pytest.mark.slow
@given(queries)
@settings(max_examples=examples(400, least=20))
def test_reading_what_was_printed_gives_the_same_query(query):
    text = print_query(query)
    read = parse(text)
    assert read == query
    assert repr(read) == repr(query)  # Python says 1 == 1.0 == True; the kinds must agree too
    assert print_query(read) == text


@pytest.mark.slow
@given(exprs)
@settings(max_examples=examples(400, least=20))
def test_reading_what_was_printed_gives_the_same_expression(expr):
    assert repr(parse_expr(print_expr(expr))) == repr(expr)


@pytest.mark.slow
@given(st.lists(queries, min_size=1, max_size=3))
@settings(max_examples=examples(50, least=20))
def test_a_file_of_printed_queries(several):
    assert parse_all(";\n".join(map(str, several))) == tuple(several)
