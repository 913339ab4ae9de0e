"""The parser: every form the papers print, every clause, and errors that show place, reason and next step."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import examples
from tests.steps import steps
from tocsin.errors import QueryError
from tocsin.events import ANY
from tocsin.lang.parser import parse, parse_all, parse_duration, parse_expr, parse_order
from tocsin.lang.printer import print_query
from tocsin.lang.syntax import (
    ALLEN,
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
    Marked,
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
    Span,
    Unary,
    walk,
)


def pattern(text, **options):
    return parse(text, **options).pattern


def problems(text, **options):
    with pytest.raises(QueryError) as caught:
        parse_all(text, **options)
    assert str(caught.value)
    return caught.value.problems


def problem(text, **options):
    found = problems(text, **options)
    assert len(found) == 1, [one.message for one in found]
    return found[0]


def underlined(text, one):
    return text[one.span.start : one.span.end]


A, B, C, D, E = (Leaf(letter, letter.lower()) for letter in "ABCDE")
SAME_ID = Binary("=", Attr("b", "id"), Attr("a", "id"))

# --- forms printed in the papers ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SEQ(A, B)", Seq((Leaf("A"), Leaf("B")))),
        ("EVENT SEQ(A a, B b)", Seq((A, B))),
        ("seq ( A a , B b )", Seq((A, B))),
        ("SEQ(A a; B b)", Seq((A, B))),
        ("SEQ((A a, B b))", Seq((A, B))),
        ("SEQ(((A a, B b)))", Seq((A, B))),
        ("SEQ(A a, B b,)", Seq((A, B))),
        ("AND(A a, B b)", And((A, B))),
        ("OR(A a, B b)", Or((A, B))),
        ("SEQ(OR(P|Q), A, B)", Seq((Or((Leaf("P"), Leaf("Q"))), Leaf("A"), Leaf("B")))),
        ("A a", A),
        ("(A a)", A),
        ("EVENT A", Leaf("A")),
        ("SEQ(A a, !B b, C c)", Seq((A, Not(B), C))),
        ("SEQ(A a, ¬B b, C c)", Seq((A, Not(B), C))),
        ("SEQ(A a, NOT B b, C c)", Seq((A, Not(B), C))),
        ("SEQ(A a, !(B b), C c)", Seq((A, Not(B), C))),
        ("SEQ(A a, (!B b), C c)", Seq((A, Not(B), C))),
        ("SEQ((A a, !B b, !SEQ(C c, D d), E e))", Seq((A, Not(B), Not(Seq((C, D))), E))),
        ("SEQ(A a, !SEQ(B b, !C c, D d), E e)", Seq((A, Not(Seq((B, Not(C), D))), E))),
        ("SEQ(SUPPLIER.WAREHOUSE s, SHELTER)", Seq((Leaf("SUPPLIER.WAREHOUSE", "s"), Leaf("SHELTER")))),
        ("(A a : a.id = b.id)", Leaf("A", "a", Binary("=", Attr("a", "id"), Attr("b", "id")))),
        ("(A a) : a.id = b.id", Leaf("A", "a", Binary("=", Attr("a", "id"), Attr("b", "id")))),
        ("A a : a.id = b.id", Leaf("A", "a", Binary("=", Attr("a", "id"), Attr("b", "id")))),
        ("SEQ(A a, !((B b) : b.id = a.id))", Seq((A, Not(Leaf("B", "b", SAME_ID))))),
        ("SEQ(A a, (B b: b.id = a.id,))", Seq((A, Leaf("B", "b", SAME_ID)))),
        ("∃c: SEQ(A a, C c)", Exists(("c",), Seq((A, C)))),
        ("∃c.SEQ(A a, C c)", Exists(("c",), Seq((A, C)))),
        ("(∃c.SEQ(A a, C c))", Exists(("c",), Seq((A, C)))),
        ("EXISTS a, c : SEQ(A a, C c)", Exists(("a", "c"), Seq((A, C)))),
        ("SEQ(A a, EXISTS b, c : AND(B b, C c), D d)", Seq((A, Exists(("b", "c"), And((B, C))), D))),
    ],
)
def test_patterns(text, expected):
    assert pattern(text) == expected


PRINTED = [
    "∃c: SEQ((A a), !(B b: b.id=a.id), (C c))",
    "SEQ((A a); !((B b) : b.id = a.id); (C c))",
    "SEQ((A a: a.id=b.id), !SEQ(B b, C c), D d)",
    """SEQ((Recycle r:r.id = w.id), (Washing w:w.id = o.id), !SEQ((Sharpening s:s.id = d.id),
           (Disinfection d:d.id = c.id), (Checking c:c.id = o.id)), Operating o)""",
    """SEQ(Recycle r, (Washing w: w.id = r.id),
           ! SEQ((Sharpening s: s.id =o.id), (Disinfection d : d.id = s.id), (Checking c: c.id = s.id)),
           (Operating o: o.id = w.id, o.`ins-type` = "surgery"))""",
    """SEQ (DELL d, !SEQ((YHOO y: y.id = d.id), RIMM ii), !AMAT a, MSFT s, SEQ((IPIX p: p.id = i.id), CSCO c),
           (INTC i: i.id = d.id))""",
    "SEQ(Recycle r, Washing w,(Operating o: o.id = w.id,))",
    "SEQ(Recycle r, Washing w, SEQ(Sharpening s, Disinfection d), (Operating o: o.id = d.id))",
    "SEQ(DELL d, MSFT s, (IPIX p: p.amount > i.amount), (INTC i: i.amount > 100))",
    "SEQ(DELL d, !SEQ((YHOO y: y.amount > d.amount + 100), RIMM ii), MSFT s, INTC i)",
    "EVENT SEQ(SHELF s, !(CHECKOUT c), EXIT e)\nWHERE s.id = c.id AND c.id = e.id\nWITHIN 5 hs",
    "EVENT SEQ(SHELF s, !(CHECKOUT c), EXIT e) WHERE s.id = c.id ∧ c.id = e.id WITHIN 10 mins",
    "EVENT SEQ(A, B) WHERE A.id = B.id",
    'EVENT SEQ(A, B) WHERE A.temperature = "37C"',
    'EVENT SEQ(A, B, C) WHERE A.id="3"',
    "SEQ(SUPPLIER.WAREHOUSE, LABEL.CENTER, SHELTER)",
    "EVENT SEQ(A, B, !C, D) WITHIN 10",
    "SEQ(!C, A, !D) WITHIN 10",
    "SEQ(TAKE_FROM_SHELF, !CHECKOUT, EXIT)",
    "EVENT ISEQ [A.ts < B.ts](A, B; 30)",
    "ISEQ[HIGH.ts < STAY.ts ∧ STAY.te < HIGH.te](HIGH, STAY)",
    "ISEQ[(A.ts < B.ts) ∧ (B.ts < A.te) ∧ (A.te < B.te) ∧ (B.ts < C.ts) ∧ (C.ts < B.te) ∧ (B.te < C.te)](A, B, C)",
    "ISEQ[A^- < B^+ < C^+ < D^+](A, B, C, D)",
    "ISEQ[A^- < B^- < C^- < D^+ < E^+ < F^+](A, B, C, D, E, F)",
    "Rel[overlap](A, B)",
    "Rel[before, meet, overlap, finished by, contain](A, B)",
    "Rel_2[overlaps](Rel_1[contains](A, B), C)",
    "BEFORE(NETWORK_ATTACK, FAN_FAILURE)",
    "SEQ(A, B) WHERE [ID]",
    "SEQ(A a, NOT B b, C c) WHERE [id, tag] AND a.x ≠ 3 ∨ ¬(a.x ≤ 5) AND a.x ≥ 1",
]


@pytest.mark.parametrize("text", PRINTED)
def test_everything_that_the_papers_print_is_read(text):
    query = parse(text)
    assert query.text == text
    assert query.span == Span(0, len(text))


def test_a_comma_list_of_predicates_is_a_conjunction():
    text = 'SEQ(Washing w, (Operating o: o.id=w.id, o.ins-type="surgery"))'
    leaf = pattern(text, names=frozenset({"ins-type"})).items[1]
    assert leaf.where == Binary(
        "AND",
        Binary("=", Attr("o", "id"), Attr("w", "id")),
        Binary("=", Attr("o", "ins-type"), Literal("surgery")),
    )


X1, Y2 = Binary("=", Attr("a", "x"), Literal(1)), Binary("=", Attr("a", "y"), Literal(2))
BOTH = Leaf("A", "a", Binary("AND", X1, Y2))


@pytest.mark.parametrize(
    ("rest", "item"),
    [
        ("B b", B),
        ("B", Leaf("B")),
        ("B.C", Leaf("B.C")),
        ("B.C b", Leaf("B.C", "b")),
        ("B+ b", Leaf("B", "b", None, Repeat(1, None))),
        ("B+", Leaf("B", None, None, Repeat(1, None))),
        ("B{2} b", Leaf("B", "b", None, Repeat(2, 2))),
        ("`B` b", B),
        ("!B b", Not(B)),
        ("NOT (B b)", Not(B)),
        ("((B b))", B),
        ("SEQ(B b)", Seq((B,))),
        ("∃b: SEQ(B b)", Exists(("b",), Seq((B,)))),
        ("BEFORE(B b, C c)", Rel(("before",), B, C)),
        ("Start(B b, C c)", Rel(("start",), B, C)),
        ("B b : b.id = a.id", Leaf("B", "b", SAME_ID)),
        ("B : B.id = a.id", Leaf("B", None, Binary("=", Attr("B", "id"), Attr("a", "id")))),
    ],
)
def test_after_a_predicate_a_comma_may_start_the_next_item(rest, item):
    assert pattern(f"SEQ((A a) : a.x = 1, a.y = 2, {rest})") == Seq((BOTH, item))
    assert pattern(f"SEQ(A a : a.x = 1, a.y = 2, {rest},)") == Seq((BOTH, item))


@pytest.mark.parametrize(
    "predicate",
    ["a.flag", "(a.flag)", "NOT a.flag", "! (a.x = 3)", "start(a) > 5", "f(a.x)", "a + 1 > 3", "[id]", "-a.x < 1",
     "TRUE", "CASE WHEN a.x = 1 THEN TRUE END", "a IS NULL", "a.x IN (1, 2)", "'x' = a.t", "end(a) = 3"],
)  # fmt: skip
def test_after_a_predicate_a_comma_may_start_another_predicate(predicate):
    read = pattern(f"SEQ((A a) : a.x = 1, {predicate}, B b)")
    assert read == Seq((Leaf("A", "a", Binary("AND", X1, parse_expr(predicate))), B))


# --- leaves, names -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "repeat"),
    [("B+ b", Repeat(1, None)), ("B{3} b", Repeat(3, 3)), ("B{2,} b", Repeat(2, None)), ("B{2,4} b", Repeat(2, 4))],
)
def test_repetition(text, repeat):
    assert pattern(text) == Leaf("B", "b", None, repeat)


def test_declared_names_with_hyphens():
    names = {"ins-type", "ins", "ins-type-x"}
    assert parse_expr("o.ins-type", names=names) == Attr("o", "ins-type")
    assert parse_expr("o.ins-type-x", names=names) == Attr("o", "ins-type-x")
    assert parse_expr("o.ins-type-y", names=names) == Binary("-", Attr("o", "ins-type"), Name("y"))
    assert parse_expr("o.ins-type") == Binary("-", Attr("o", "ins"), Name("type"))
    assert parse_expr("o.`ins-type`") == Attr("o", "ins-type")
    assert pattern("Tool-Box t", names={"Tool-Box"}) == Leaf("Tool-Box", "t")


def test_back_quoted_names_are_never_keywords():
    assert pattern("SEQ(`SEQ` `where`, `ANY` `a``b`)") == Seq((Leaf("SEQ", "where"), Leaf("ANY", "a`b")))
    assert parse("QUERY `my query` EVENT A").name == "my query"


def test_a_named_query_can_be_hidden():
    assert parse("QUERY p HIDDEN EVENT A a") == Query(Leaf("A", "a"), "p", hidden=True)
    assert parse("query p hidden SEQ(A, B)").hidden
    assert not parse("QUERY p EVENT A").hidden
    assert parse("QUERY hidden EVENT Hidden h") == Query(Leaf("Hidden", "h"), "hidden")
    assert str(parse("query p hidden event A a")) == "QUERY p HIDDEN\nEVENT A a"


def test_keywords_are_attributes_after_a_dot_and_in_brackets():
    assert parse_expr("a.end + a.where") == Binary("+", Attr("a", "end"), Attr("a", "where"))
    assert parse_expr("[end, select]") == Same(("end", "select"))
    assert parse_expr("Part.Type.id") == Attr("Part.Type", "id")


def test_comments_and_unicode():
    text = "-- theft\nSEQ(Ö ö, -- first\n B b) -- end"
    assert pattern(text) == Seq((Leaf("Ö", "ö"), B))


# --- intervals ---------------------------------------------------------------------------------------------------

AS, AE, BS, BE = (Endpoint(v, w) for v in "ab" for w in ("start", "end"))


@pytest.mark.parametrize(
    "text",
    ["start(a) < end(b)", "a.ts < b.te", "a^- < b^+", "a- < b+", "a-<b+", "START(a) < END(b)", "a.start < b.end",
     "(a.ts < b.te)", "((a.TS < b.TE))"],
)  # fmt: skip
def test_endpoints(text):
    assert parse_order(text) == (Comparison(AS, "<", BE),)


@pytest.mark.parametrize("joint", ["AND", "∧", ","])
def test_chains_of_endpoints(joint):
    expected = (Comparison(AS, "<", BE), Comparison(BE, "<=", AE), Comparison(BS, "=", AE))
    assert parse_order(f"a.ts < b.te ≤ a.te {joint} b.ts = a.te") == expected
    read = pattern(f"ISEQ[a.ts < b.te ≤ a.te {joint} b.ts = a.te]((A a), (B b : b.x = 1); 5 min)")
    assert read == Iseq(expected, (A, Leaf("B", "b", Binary("=", Attr("b", "x"), Literal(1)))), Duration(5, "min"))


def test_endpoints_of_dotted_types():
    assert parse_order("A.B.ts < A.B^+") == (Comparison(Endpoint("A.B", "start"), "<", Endpoint("A.B", "end")),)


ALIASES = {"contains": "contain", "meets": "meet", "overlaps": "overlap", "starts": "start", "finishes": "finish"}


@pytest.mark.parametrize(("written", "relation"), [*((name, name) for name in ALLEN), *ALIASES.items()])
def test_interval_relations(written, relation):
    expected = Rel((relation,), A, B)
    assert pattern(f"REL[{written}](A a, B b)") == expected
    assert pattern(f"rel[{written.upper().replace(' ', '_')}](A a, B b)") == expected
    assert pattern(f"rel[{written.replace(' ', '-')}](A a, B b)") == expected
    assert pattern(f"{written.replace(' ', '_')}(A a, B b)") == expected


def test_several_relations_and_a_composite_left_part():
    assert pattern("REL[met by, equals](SEQ(A a, B b), C c)") == Rel(("met by", "equal"), Seq((A, B)), C)


# --- clauses -----------------------------------------------------------------------------------------------------


def test_a_whole_query():
    query = parse(
        "QUERY theft EVENT SEQ(Shelf s, !Counter c, Exit e) WHERE [tag] AND s.price > 10 WITHIN 12 hours"
        " PARTITION BY store, day SELECT s.tag AS tag, end(e)"
    )
    assert query == Query(
        Seq((Leaf("Shelf", "s"), Not(Leaf("Counter", "c")), Leaf("Exit", "e"))),
        "theft",
        Binary("AND", Same(("tag",)), Binary(">", Attr("s", "price"), Literal(10))),
        Duration(12, "h"),
        ("store", "day"),
        (SelectItem(Attr("s", "tag"), "tag"), SelectItem(Call("end", (Name("e"),)))),
    )


def test_clauses_come_in_any_order():
    first = parse("A a WHERE a.x = 1 WITHIN 5 PARTITION BY k SELECT a.x")
    assert parse("A a SELECT a.x PARTITION BY k WITHIN 5 WHERE a.x = 1") == first


def test_commas_in_where_are_and():
    assert parse("A a WHERE a.x = 1, a.y = 2").where == Binary("AND", X1, Y2)


@pytest.mark.parametrize(
    ("text", "amount", "unit"),
    [("10", 10, None), ("12h", 12, "h"), ("5 hs", 5, "h"), ("1.5 hours", Decimal("1.5"), "h"), ("7 MINUTES", 7, "min"),
     ("3 secs", 3, "s"), ("20 ms", 20, "ms"), ("9 µs", 9, "us"), ("1 microsecond", 1, "us"), ("2 days", 2, "d")],
)  # fmt: skip
def test_durations(text, amount, unit):
    assert parse(f"A WITHIN {text}").within == Duration(amount, unit)
    assert parse_duration(text) == Duration(amount, unit)


def test_a_file_of_queries():
    text = "QUERY a EVENT SEQ(A; B) WITHIN 5;\n-- next\nQUERY b EVENT a x;;\n"
    queries = parse_all(text)
    assert [query.name for query in queries] == ["a", "b"]
    assert [query.text for query in queries] == [text, text]
    assert [text[query.span.start : query.span.end] for query in queries] == [
        "QUERY a EVENT SEQ(A; B) WITHIN 5",
        "QUERY b EVENT a x",
    ]
    with pytest.raises(QueryError, match="one query was expected"):
        parse(text)


def test_every_node_knows_its_place():
    text = "EVENT SEQ(A a, !(B b : b.x + 1 < 5 min)) WHERE CASE a.x WHEN 1 THEN f(a.y) END IN (1, 2)"
    shown = {text[node.span.start : node.span.end] for node in walk(parse(text))}
    assert {"A a", "!(B b : b.x + 1 < 5 min)", "b.x + 1", "5 min", "f(a.y)", "2"} <= shown


# --- expressions -------------------------------------------------------------------------------------------------

AX, AY, ONE, TWO = Attr("a", "x"), Attr("a", "y"), Literal(1), Literal(2)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a.x + 1 * 2", Binary("+", AX, Binary("*", ONE, TWO))),
        ("(a.x + 1) * 2", Binary("*", Binary("+", AX, ONE), TWO)),
        ("a.x - 1 - 2", Binary("-", Binary("-", AX, ONE), TWO)),
        ("a.x || a.y || 'z'", Binary("||", Binary("||", AX, AY), Literal("z"))),
        ("a.x = 1 OR a.y = 2 AND a.x = 1", Binary("OR", X1, Binary("AND", Y2, X1))),
        ("NOT a.x = 1 AND a.y = 2", Binary("AND", Unary("NOT", X1), Y2)),
        ("NOT NOT a.x", Unary("NOT", Unary("NOT", AX))),
        ("!(a.x = 1)", Unary("NOT", X1)),
        ("a.x != 1", Binary("<>", AX, ONE)),
        ("x <> y", Binary("<>", Name("x"), Name("y"))),
        ("-a.x * 2", Binary("*", Unary("-", AX), TWO)),
        ("a.x -1", Binary("-", AX, ONE)),
        ("a.x - -1", Binary("-", AX, Literal(-1))),
        ("-9223372036854775808", Literal(-(2**63))),
        ("-(1)", Unary("-", ONE)),
        ("1.50", Literal(Decimal("1.50"))),
        (".5e-3", Literal(Decimal("0.0005"))),
        ("1e3", Literal(Decimal(1000))),
        ("'it''s' ", Literal("it's")),
        ('"say ""x"""', Literal('say "x"')),
        ("NULL", Literal(None)),
        ("true", Literal(True)),
        ("a.x IS NULL", IsNull(AX)),
        ("x IS NOT NULL", IsNull(Name("x"), True)),
        ("a.x IN (1, 2)", In(AX, (ONE, TWO))),
        ("a.x NOT IN (1)", In(AX, (ONE,), True)),
        ("a.x BETWEEN 1 AND 2 AND a.x = 1", Binary("AND", Between(AX, ONE, TWO), X1)),
        ("a.x NOT BETWEEN 1 AND 2", Between(AX, ONE, TWO, True)),
        ("a.x LIKE 'a%'", Like(AX, Literal("a%"))),
        ("a.x NOT LIKE 'a%'", Like(AX, Literal("a%"), True)),
        ("CASE WHEN a.x = 1 THEN 1 ELSE 2 END", CaseWhen(((X1, ONE),), TWO)),
        ("CASE a.x WHEN 1 THEN 2 END", CaseWhen(((X1, TWO),))),
        ("CASE a.x WHEN 1 THEN 2 WHEN 2 THEN end(a) END",
         CaseWhen(((X1, TWO), (Binary("=", AX, TWO), Call("end", (Name("a"),)))))),
        ("CAST(a.x AS INT)", Call("int", (AX,))),
        ("cast(a.x as float)", Call("float", (AX,))),
        ("CAST(a.x AS TEXT)", Call("text", (AX,))),
        ("COUNT(b)", Call("count", (Name("b"),))),
        ("coalesce(a.x, 1, 2)", Call("coalesce", (AX, ONE, TWO))),
        ("now()", Call("now", ())),
        ("end(b) - start(a) <= 5 min",
         Binary("<=", Binary("-", Call("end", (Name("b"),)), Call("start", (Name("a"),))), Duration(5, "min"))),
        ("-5 min", Unary("-", Duration(5, "min"))),
        ("[a, b]", Same(("a", "b"))),
    ],
)  # fmt: skip
def test_expressions(text, expected):
    read = parse_expr(text)
    assert read == expected
    assert repr(read) == repr(expected) or "1e3" in text  # equal, and of equal kinds: 1 == 1.0 == True in Python


# --- errors ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message", "place", "hint"),
    [
        ("EVENT SEQ(A, B) WIHTIN 10", "unexpected 'WIHTIN'", "WIHTIN", "did you mean WITHIN?"),
        ("EVENT SEQ(A, B) WITHIN 10 WHER A.x = 1", "unexpected 'WHER'", "WHER", "did you mean WHERE?"),
        ("EVENT A a WHERE a.x = 5 SELCT a.x", "unexpected 'SELCT'", "SELCT", "did you mean SELECT?"),
        ("EVENT A a WHERE a.x BETWEN 1 AND 2", "unexpected 'BETWEN'", "BETWEN", "did you mean BETWEEN?"),
        ("EVENT A a WHERE a.x > 5 ADN a.y > 3", "unexpected 'ADN'", "ADN", "did you mean AND?"),
        ("EVENT Shelf WHER s.x = 1", "unexpected 's'", "s", "'WHER' was read as a variable; did you mean WHERE?"),
        ("EVNET A a", "unexpected 'a'", "a", "'EVNET' was read as a type; did you mean EVENT?"),
        ("SQE(A, B)", "'SQE' is not an operator", "SQE", "did you mean SEQ?"),
        ("SEQUENCE(A, B)", "'SEQUENCE' is not an operator", "SEQUENCE", "did you mean SEQ?"),
        ("REL[bfore](A, B)", "'bfore' is not an interval relation", "bfore", "did you mean before?"),
        ("A WITHIN 5 minuts", "'minuts' is not a unit of time", "minuts", "did you mean minute"),
        ("A WITHIN 5 m", "the unit m is ambiguous", "m", "min for minutes"),
        ("A WITHIN 5 fortnights", "'fortnights' is not a unit", "fortnights", "the units are us, ms, s, min, h and d"),
        ("A WITHIN 0", "must be greater than 0", "0", None),
        ("A WITHIN -5 min", "must be greater than 0", "-5 min", None),
        ("A WITHIN 1.5", "ticks must be whole", "1.5", "add a unit"),
        ("A WITHIN WHERE A.x = 1", "expected the window, found WHERE", "WHERE", None),
        ("SEQ(A, B", "expected ',' or ')', found the end of the text", "", None),
        ("SEQ(A, B))", "unexpected ')'", ")", "no bracket is open here"),
        ("SEQ()", "SEQ needs at least one item", "SEQ()", None),
        ("SEQ(A, AND())", "AND needs at least one item", "AND()", None),
        ("SEQ(A, !!B)", "a negation of a negation", "!", "!SEQ(A a, !B b)"),
        ("SEQ(A, !(!B))", "a negation of a negation", "!", None),
        ("OR(A, !B)", "a negation cannot stand directly under OR", "!", "SEQ(A a, !B b)"),
        ("EVENT !A", "a negation cannot stand by itself", "!", None),
        ("EXISTS a : !A a", "a negation cannot stand directly under EXISTS", "!", None),
        ("REL[before](!A, B)", "a negation cannot stand directly under REL", "!", None),
        ("ISEQ[a.ts < b.ts](A a, SEQ(B b))", "ISEQ takes leaves only", "SEQ(B b)", None),
        ("ISEQ[](A, B)", "ISEQ needs at least one comparison", "]", "AND"),
        ("ISEQ[A.ts <> B.ts](A, B)", "expected a comparison", "<>", "< <= = > >="),
        ("ISEQ[A < B](A, B)", "expected an endpoint", "A", "start(a)"),
        ("REL[before](A, SEQ(B, C))", "second part of a relation must be a leaf", "SEQ(B, C)", "inverse"),
        ("REL[overlap](A, B, C)", "a relation needs two parts", "REL[overlap](A, B, C)", "nest it"),
        ("REL[](A, B)", "REL needs at least one relation", "REL[]", None),
        ("SEQ((A, B), C)", "a list of patterns needs an operator", "(A, B)", "SEQ(...)"),
        ("SEQ(A, !(B, C))", "a list of patterns needs an operator", "(B, C)", None),
        ("SEQ(SEQ(A, B) : A.x = 1)", "only a leaf takes a predicate", ":", "WHERE"),
        ("B{0} b", "this repetition is impossible", "{0}", None),
        ("B{4,2} b", "this repetition is impossible", "{4,2}", None),
        ("B{x} b", "expected a whole number", "x", "B{2,4}"),
        ("SEQ(A a, B b+)", "a repetition is written after the type", "+", "write B+ b"),
        ("A WITHIN 5 WITHIN 6", "a second WITHIN clause", "WITHIN", None),
        ("AND(A a, FIRST B b)", "FIRST cannot stand directly under AND", "FIRST", "SEQ(A a, FIRST B b)"),
        ("NEXT B b", "NEXT cannot stand by itself", "NEXT", "SEQ(A a, FIRST B b)"),
        ("SEQ(A a, !LAST B b)", "LAST cannot stand directly under !", "LAST", "an item of SEQ"),
        ("SEQ(A a, FIRST !B b)", "FIRST cannot stand before a negation", "FIRST", "mark the item behind it"),
        ("SEQ(A a, FIRST NEXT B b)", "a second mark, NEXT", "NEXT", "choose one of them"),
        ("SEQ(A a, NEXT OF () B b)", "NEXT OF needs at least one type", "OF ()", "NEXT OF (C, D) B b"),
        ("SEQ(A a, NEXT OF (ANY) B b)", "NEXT OF (ANY) is NEXT", "OF (ANY)", "leave OF (ANY) out"),
        ("A a STRATEGY nxt", "expected any, next or strict", "nxt", "did you mean next?"),
        ("A a STRATEGY 7", "expected any, next or strict", "7", "all combinations"),
        ("A a CONSUME a", "expected a mode after CONSUME, found 'a'", "CONSUME", "the modes are unrestricted, recent"),
        ("A a CONSUME", "expected a mode after CONSUME", "CONSUME", "the modes are unrestricted, recent"),
        ("A a WITHIN 10 SKIP TO NEXT EVENT", "SKIP stands behind AFTER MATCH", "SKIP", "write AFTER MATCH SKIP"),
        ("A a AFTER MATCH SKIP TO NEXT", "expected NEXT EVENT, FIRST or LAST", "NEXT", "the forms are"),
        ("A a AFTER MATCH SKP TO b", "expected SKIP after AFTER MATCH", "SKP", "did you mean SKIP?"),
        ("A a AFTER SKIP TO LAST a", "this clause begins with AFTER MATCH SKIP", "AFTER", "the forms are"),
        ("A a LIMIT 0 EVERY 1 h", "LIMIT takes a whole number of at least 1", "LIMIT 0", "LIMIT 1"),
        ("A a LIMIT PER x", "LIMIT needs a number behind it", "LIMIT", "LIMIT 5"),
        ("A a LIMIT 5 EVERY 0 min", "the length of EVERY must be greater than 0", "0 min", "EVERY 10"),
        ("A a DISTINCT BY a.x EVERY", "expected the length of EVERY", "", "EVERY 10"),
        ("A a DISTINCT BY a.x, a.y", "DISTINCT BY takes one value", ",", "join several"),
        ("A a LIMIT 1 WITHIN 5 LIMIT 2", "a second LIMIT clause", "LIMIT", "one of each clause"),
        ("SEQ(A init, B b)", "INIT is reserved for later", "init", "`init`"),
        ("A a WHERE policy.x = 1", "POLICY is reserved for later", "policy", "`policy`"),
        ("A a WHERE a.x = = 1", "expected a value, found '='", "=", None),
        ("A a WHERE a.x = 1 s.y = 2", "unexpected 's'", "s", "join conditions with AND"),
        ("EXISTS (A a)", "expected a variable after EXISTS", "(", "EXISTS c : SEQ(A a, C c)"),
        ("A a WHERE a.x < 1 < 2", "comparisons cannot be chained", "<", "a < b AND b < c"),
        ("A a WHERE (a.x = 1", "expected ')'", "", None),
        ("A a WHERE a.x IN ()", "IN needs at least one value", "(", None),
        ("A a WHERE a.x = 'oops", "this text has no closing '", "'", "double the quote"),
        ("A a WHERE a.x == 1", "== is not an operator here", "==", "write ="),
        ("A a WHERE a.x = 1 && a.y = 2", "&& is not an operator here", "&&", "write AND"),
        ("A a WHERE a.x = “x”", "has no meaning in a query", "“", "straight quotes"),
        ("A a WHERE a.x = 9223372036854775808", "does not fit into 64 bits", "9223372036854775808", None),
        ("A a WHERE a.x = 99999999999999999999999", "does not fit into 64 bits", "99999999999999999999999", None),
        ("A a WHERE a.x < 1e309", "larger than any float", "1e309", None),
        ("A a WHERE a.x = 1e99999", "too large an exponent", "1e99999", None),
        ("A a WHERE s.id =0.id", "0.id is not an attribute", "0", "letter o"),
        ("A a WHERE CASE a.x WHEN 1 TEHN 2 END = 1", "expected THEN", "TEHN", "did you mean THEN?"),
        ("A a WHERE CAST(a.x AS DATE) = 1", "expected a kind after AS", "DATE", "INT, FLOAT and TEXT"),
        ("A a SELECT *", "* cannot be selected", "*", "leave SELECT out"),
        ("A a SELECT a.x b", "expected AS", "b", "write AS b"),
        ("A a PARTITION k", "expected BY after PARTITION", "k", None),
        ("A a SELECT sum(*)", "sum of * means nothing", "*", "count(*)"),
        ("SEQ(A, WHERE)", "found the keyword WHERE", "WHERE", "`WHERE`"),
        ("SEQ(A a WHERE a.x = 1)", "expected ',' or ')', found WHERE", "WHERE", "(A a : a.x = 1)"),
        ("EVENT A EVENT B", "EVENT inside a query", "EVENT", "separate queries with ;"),
        ("EVENT", "expected a pattern, found the end of the text", "", None),
    ],
)  # fmt: skip
def test_errors_show_the_place_and_the_next_step(text, message, place, hint):
    first = problems(text)[0]
    assert message in first.message
    if place.startswith("“"):
        assert underlined(text, first).startswith(place)
    else:
        assert underlined(text, first) == place
    if hint is not None:
        assert hint in first.hint


@pytest.mark.parametrize("text", ["", "  ", "-- only a comment", ";;"])
def test_no_query(text):
    assert problem(text).message == "there is no query here"


def test_several_errors_are_reported_at_once():
    text = "EVENT SEQ(A a, !!B b, SEQ(), C c c) WIHTIN 0 WHERE a.x = = 1 SELECT a.x y"
    found = [(underlined(text, one), one.message) for one in problems(text)]
    assert found == [
        ("!", "a negation of a negation"),
        ("SEQ()", "SEQ needs at least one item"),
        ("c", "expected ',' or ')', found 'c'"),
        ("WIHTIN", "unexpected 'WIHTIN'"),
        ("0", "the window must be greater than 0"),
        ("=", "expected a value, found '='"),
        ("y", "expected AS before the name of a column"),
    ]


def test_errors_in_several_queries_of_a_file():
    text = "QUERY a EVENT SEQ(A, B;\nQUERY b EVENT SQE(A) WITHIN 5 m;\nEVENT A"
    assert [one.message for one in problems(text)] == [
        "expected ',' or ')', found ';'",
        "'SQE' is not an operator",
        "the unit m is ambiguous",
    ]


def test_an_error_is_shown_under_its_line():
    with pytest.raises(QueryError) as caught:
        parse("EVENT SEQ(A a,\n  SQE(B b))")
    assert str(caught.value) == (
        "error: 'SQE' is not an operator\n  line 2, column 3\n  |   SQE(B b))\n  |   ^^^\n  hint: did you mean SEQ?"
    )


# --- clauses that choose among matches ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "SEQ(A limit, LIMIT after, AFTER match) WHERE limit.per = after.every AND match.skip > 5",
        "SEQ(DISTINCT distinct, B past) WHERE distinct.limit - 5 > 1 WITHIN 5",
        "SEQ(AFTER MATCH, SKIP LIMIT) WHERE [limit, distinct]",
        "A limit WITHIN 5",
        "AFTER",
        "LIMIT LIMIT",
        "QUERY limit EVENT A after PARTITION BY distinct, limit SELECT after.x AS limit",
    ],
)
def test_words_of_these_clauses_are_names_where_no_clause_can_stand(text):
    query = parse(text)
    assert (query.skip, query.distinct, query.limit) == (None, None, None)
    assert parse(print_query(query)) == query


def test_they_are_clauses_in_any_order_and_case_also_behind_a_leaf_without_a_variable():
    clauses = ["WHERE [id]", "AFTER MATCH SKIP TO NEXT EVENT", "DISTINCT BY A.x + 5 EVERY 5"]
    clauses.append("LIMIT 2 PER id, A.x EVERY 1 h")
    first = parse(" ".join(["A", *clauses]))
    assert first == parse(" ".join(["A", *reversed(clauses)]).replace("AFTER MATCH SKIP", "after match Skip"))
    assert first.limit == LimitClause(2, (Same(("id",)), Attr("A", "x")), Duration(1, "h"))
    assert first.distinct == DistinctClause(Binary("+", Attr("A", "x"), Literal(5)), Duration(5))
    assert first.skip == SkipClause("next")
    assert parse("SEQ(A a, B) AFTER MATCH SKIP TO FIRST B LIMIT 1").skip == SkipClause("first", Name("B"))


# --- untrusted text ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "SEQ(" * 1000 + "A" + ")" * 1000,
        "(" * 50_000,
        "SEQ(" + "!SEQ(" * 19_000,
        "A WHERE " + "(" * 5000 + "1" + ")" * 5000,
        "A WHERE " + "NOT " * 5000 + "TRUE",
        "A WHERE " + "- " * 5000 + "A.x",
        "A WHERE " + "f(" * 5000,
        "A WHERE " + "CASE WHEN " * 5000,
        "ISEQ[" + "(" * 5000 + "](A)",
        "EXISTS a : " * 5000 + "A a",
    ],
)
def test_deep_nesting_is_one_clear_error(text):
    assert "nested too deeply" in problem(text).message
    assert steps(lambda: problem(text)) < 20 * len(text)


def test_sixty_levels_are_read():
    assert pattern("SEQ(" * 30 + "A" + ")" * 30)
    assert parse("A WHERE " + "(" * 50 + "TRUE" + ")" * 50).where == Literal(True)


def test_long_chains_and_long_texts():
    assert parse("A WHERE " + " AND ".join(["A.x = 1"] * 140))
    assert "too long" in problem("A WHERE " + " AND ".join(["A.x = 1"] * 5000)).message
    assert "too long" in problem("A" + " " * 100_000).message
    assert parse("A WHERE A.x IN (" + ", ".join(["1"] * 20_000) + ")")


def test_case_cannot_grow_without_bound():
    text = "CASE " * 40 + "A.x" + " WHEN 1 THEN 2 WHEN 2 THEN 3 END" * 40
    assert "grows too large" in problem(f"A WHERE {text} = 1").message


def test_half_a_surrogate_is_refused():
    assert "not valid Unicode" in problem("A WHERE A.x = '\ud800'").message


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece",
    ["(", ")", "[", "]", ",", ";", "'", '"', "`", "'\n\"", "a.", "A a : 1, (", "SEQ(", "))", "§", "a-", "5 ", "!",
     "LIMIT 1 ", "AFTER MATCH ", "DISTINCT BY a.x EVERY ",
     "WHERE ", "EVENT A;", "QUERY ", "CASE x WHEN 1 THEN 2 ", "A a : start(a), ", "'''\n", "--", "{", "a.b.", "1e"],
)  # fmt: skip
def test_garbage_is_refused_quickly(piece):
    """Work grows with the length of a text and no faster."""

    def work(size):
        return steps(lambda: only_query_errors((piece * size)[:size]))

    size = examples(20_000, least=5000)
    assert work(size) < min(5.5 * work(size // 5), 50 * size)
    only_query_errors((piece * size * 5)[: size * 5])


def only_query_errors(text):
    """Either it is read, or it is refused with problems that can be shown."""
    failure = None
    queries = ()
    try:
        queries = parse_all(text, names={"ins-type", "a-a-b"})
    except QueryError as error:
        failure = error
    assert queries or (failure is not None and failure.problems and str(failure))
    assert all(query.text == text for query in queries)


@given(st.text(max_size=200))
@settings(max_examples=examples(200, least=20))
def test_random_text(text):
    only_query_errors(text)


WORDS = (
    "SEQ AND OR NOT ISEQ REL EXISTS QUERY EVENT WHERE WITHIN PARTITION BY SELECT AS IN BETWEEN LIKE IS NULL TRUE CASE"
    " WHEN THEN ELSE END CAST ANY AFTER MATCH SKIP PAST LAST TO NEXT FIRST DISTINCT LIMIT PER EVERY"
    " before met start end A B a b c ins-type 5 1.5 1e3 min h m 'x' \"y\" `z` ( ) [ ]"
    " { } , ; : . + - * / % = <> != < <= > >= || | ! ¬ ∃ ∧ ∨ ≤ ^ ^- -- \n"
).split(" ")


@given(st.lists(st.sampled_from(WORDS), max_size=40))
@settings(max_examples=examples(300, least=20))
def test_token_soup(words):
    only_query_errors(" ".join(words))
    only_query_errors("SEQ(A a, " + " ".join(words))


@given(st.sampled_from(PRINTED), st.data())
@settings(max_examples=examples(300, least=20))
def test_mutated_queries(text, data):
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text)))
        width = data.draw(st.integers(0, 5))
        text = text[:at] + data.draw(st.sampled_from(["", *WORDS, "(", ")"])) + text[at + width :]
    only_query_errors(text)


# --- marks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("SEQ(A a, NEXT B b)", (Leaf("A", "a"), Marked("NEXT", Leaf("B", "b")))),
        ("SEQ(A a, NEXT OF (C, D.X) B b)", (Leaf("A", "a"), Marked("NEXT", Leaf("B", "b"), ("C", "D.X")))),
        ("SEQ(A, FIRST B)", (Leaf("A"), Marked("FIRST", Leaf("B")))),
        ("SEQ(A, LAST OR(C, D))", (Leaf("A"), Marked("LAST", Or((Leaf("C"), Leaf("D")))))),
        ("SEQ(A a, (FIRST (B b)))", (Leaf("A", "a"), Marked("FIRST", Leaf("B", "b")))),
        ("SEQ(A a, NEXT SEQ(B b, C c))", (Leaf("A", "a"), Marked("NEXT", Seq((Leaf("B", "b"), Leaf("C", "c")))))),
        ("SEQ(ANY x, NEXT ANY)", (Leaf(ANY, "x"), Marked("NEXT", Leaf(ANY)))),
        # words only in upper case, and only where an item begins behind them: else they are names, as they always were
        ("SEQ(A first, B next)", (Leaf("A", "first"), Leaf("B", "next"))),
        ("SEQ(A FIRST, B NEXT, C ANY)", (Leaf("A", "FIRST"), Leaf("B", "NEXT"), Leaf("C", "ANY"))),
        ("SEQ(first b, next c, any d)", (Leaf("first", "b"), Leaf("next", "c"), Leaf("any", "d"))),
        ("SEQ(FIRST, LAST)", (Leaf("FIRST"), Leaf("LAST"))),
        ("SEQ(FIRST+, NEXT{2})", (Leaf("FIRST", None, None, Repeat(1, None)), Leaf("NEXT", None, None, Repeat(2, 2)))),
        ("SEQ(FIRST.X a, `FIRST` b, `ANY` c)", (Leaf("FIRST.X", "a"), Leaf("FIRST", "b"), Leaf("ANY", "c"))),
        ("SEQ(A a, NEXT OF b)", (Leaf("A", "a"), Marked("NEXT", Leaf("OF", "b")))),
    ],
)  # fmt: skip
def test_marks_stand_before_items_of_seq(text, items):
    assert parse(text).pattern == Seq(items)
    assert parse(str(parse(text))) == parse(text)


def test_a_mark_ends_the_predicates_of_the_leaf_before_it():
    (one, other) = parse("SEQ(A a : a.x > 1, FIRST B b : b.x > 2)").pattern.items
    assert one.where is not None and isinstance(other, Marked) and other.pattern.where is not None
    (one, other) = parse("SEQ(A a : a.x > 1, LAST (B b))").pattern.items
    assert other == Marked("LAST", Leaf("B", "b"))
    (_, only) = parse("SEQ(A+ a, B b : b.x > 1, FIRST(a.flag))").pattern.items  # an aggregate, as before
    assert only.where == parse_expr("b.x > 1 AND first(a.flag)")


def test_a_strategy_is_one_of_three_words():
    assert [parse(f"SEQ(A a, B b) STRATEGY {word}").strategy for word in ("any", "NEXT", "strict")] == [
        "any", "next", "strict",
    ]  # fmt: skip
    assert parse("SEQ(A a, B b)").strategy is None
    assert parse("A a WHERE a.strategy = 1").where == parse_expr("a.strategy = 1")
