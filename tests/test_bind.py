"""The binder: every static rule with its place, scopes of every kind, placement, closure, kinds, composition."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tocsin.errors import QueryError
from tocsin.functions import Function
from tocsin.lang.parser import parse, parse_all
from tocsin.lang.syntax import Duration, Query
from tocsin.lang.syntax import Leaf as SyntaxLeaf
from tocsin.plan.bind import bind, bind_all, schema_of
from tocsin.plan.block import Block, Plan
from tocsin.plan.explain import _Text, explain
from tocsin.plan.expr import Col, Lit, Op
from tocsin.plan.kinds import as_written
from tocsin.schema import Field, Kind, Schema

COMMON = {
    "id": Field("id", Kind.INT),
    "v": Field("v", Kind.FLOAT),
    "n": Field("n", Kind.INT, nullable=False),
    "tag": Field("tag", Kind.TEXT),
    "ok": Field("ok", Kind.BOOL),
    "p": Field("p", Kind.DECIMAL, scale=2),
    "q": Field("q", Kind.DECIMAL, scale=12),
    "at": Field("at", Kind.TIME),
}
SCHEMA = Schema(
    types={**{name: {} for name in "ABCDEX"}, "Shelf": {"bay": Field("bay", Kind.INT)}}, common=COMMON, strict=True
)
CLOCKED = replace(SCHEMA, unit="s")


def plan_of(query: str, schema: Schema = SCHEMA) -> Plan:
    return bind(parse(query), schema)


def problems(query: str, schema: Schema = SCHEMA) -> list[tuple[str, str]]:
    """(message, underlined text) of every problem."""
    with pytest.raises(QueryError) as caught:
        bind(parse(query), schema)
    error = caught.value
    assert all(problem.message in str(error) for problem in error.problems)
    return [(p.message, query[p.span.start : p.span.end] if p.span else "") for p in error.problems]


def block_lines(block: Block, plan: Plan) -> list[str]:
    return [line.strip() for line in _Text(plan)._block(block, "")]


def lines(query: str, word: str, schema: Schema = SCHEMA) -> list[str]:
    """The lines of the plan that begin with a word, without where they are tested."""
    text = explain(plan_of(query, schema)).split("\n")
    found = [line.strip() for line in text if line.strip().startswith(word)]
    return [line[len(word) :].split("  -- ")[0].strip() for line in found]


# --- static rules ------------------------------------------------------------------------------------------------

RULES = [
    # names
    ("EVENT SEQ(A a, Shlef s)", "unknown event type Shlef", "Shlef s"),
    ("EVENT SEQ(A a, B b) WHERE a.idd = 3", "unknown attribute idd", "a.idd"),
    ("EVENT SEQ(A a, B b) WHERE c.id = 3", "unknown variable c", "c.id"),
    ("EVENT SEQ(A a, B b) WHERE id = 3", "unknown variable id", "id"),
    ("EVENT SEQ(A a, B b) WHERE lowr(a.tag) = 'x'", "unknown function lowr", "lowr(a.tag)"),
    ("EVENT SEQ(A a, B b) WHERE [idx]", "unknown attribute idx", "[idx]"),
    ("EVENT SEQ(A, !A, B) WHERE A.id = 3", "A could mean 2 different leaves", "A.id"),
    # a variable is declared once
    ("EVENT SEQ(A x, B x)", "x is declared twice", "B x"),
    ("EVENT OR(SEQ(A x, B b), SEQ(C x, D d))", "x is A in one branch of OR and C in another", "C x"),
    ("EVENT OR(SEQ(A a, B x), SEQ(A a, B+ x, C c))", "x is repeated in one branch", "B+ x"),
    ("EVENT OR(EXISTS a : SEQ(A a, B b), SEQ(A a, C c))", "a is hidden by EXISTS in one branch", None),
    # what a predicate sees
    ("EVENT SEQ(A a, !B b, (C c : c.id = b.id))", "c cannot see b, which is inside a negated part", "c.id = b.id"),
    ("EVENT SEQ(A a, !(B b : b.id = x.id), !X x, C c)", "b cannot see x", "b.id = x.id"),
    ("EVENT SEQ(A a, !SEQ(B b, !X x, (C c : c.id = x.id)), D d)", "c cannot see x", "c.id = x.id"),
    ("EVENT SEQ(A a, !B b, !X x, C c) WHERE b.v < x.v", "b and x are in two different negated parts", "b.v < x.v"),
    ("EVENT SEQ(A a, !B b, !X x, C c) WHERE b.id = x.id", "b and x are in two different", "b.id = x.id"),
    # at least one positive item
    ("EVENT SEQ(!A a, !B b)", "SEQ needs at least one item that is not negated", "SEQ(!A a, !B b)"),
    ("EVENT AND(!A a)", "AND needs at least one item that is not negated", "AND(!A a)"),
    # EXISTS hides what is there
    ("EVENT EXISTS x : SEQ(A a, !X x)", "EXISTS hides x, which its pattern does not bind", None),
    # repetition
    ("EVENT B+ b", "nothing bounds the repetition b on either side", "B+ b"),
    ("EVENT AND(B+ b, C+ c)", "nothing bounds the repetition b on either side", "B+ b"),
    ("EVENT SEQ(A a, B+ b, C+ c, D d)", "the repetitions b and c bound each other", "C+ c"),
    ("EVENT SEQ(A a, B+ b, AND(C c, D+ d), E e)", "the repetitions b and d bound each other", "D+ d"),
    ("EVENT SEQ(B+ b, A a, C+ c) WITHIN 5", "b and c both reach to the end of the window", "C+ c"),
    ("EVENT AND(A a, B+ b, C+ c) WITHIN 5", "b and c both reach to the end of the window", "C+ c"),
    ("EVENT AND(A a, B+ b, B+ c)", "b and c repeat the same type in the same place", "B+ c"),
    ("EVENT SEQ(A a, B+ b, C c, D+ d, E e) WHERE b.v = d.v", "b and d are both repeated", "b.v = d.v"),
    ("EVENT SEQ(A a, B+ b, C c, D+ d, E e) WHERE b.v > sum(d.v)", "b and d are both repeated", "b.v > sum(d.v)"),
    ("EVENT SEQ(A a, B+ b, C c) WHERE b.v > avg(b.v)", "b is compared with its own aggregate", "b.v > avg(b.v)"),
    ("EVENT SEQ(A a, B+ b, C c) WHERE b.n > start(b)", "b is compared with its own aggregate", "b.n > start(b)"),
    ("EVENT SEQ(A a, B+ b, !X x, C c) WHERE x.v = b.v", "in a negated part b can only be mentioned", "x.v = b.v"),
    ("EVENT SEQ(A a, B+ b, !(X x : x.v > b.v), C c)", "in a negated part b can only be mentioned", "x.v > b.v"),
    ("EVENT ISEQ[start(a) < start(b)](A a, B+ b)", "a repetition cannot stand inside ISEQ", "B+ b"),
    ("EVENT REL[before](SEQ(A a, B+ b), C c)", "a repetition cannot stand inside REL", "B+ b"),
    ("EVENT SEQ(A a, B b) WHERE count(a) > 1", "count needs a repeated variable, a is one event", "count(a)"),
    ("EVENT SEQ(A a, B+ b) WHERE sum(b) > 1", "sum needs an attribute", "sum(b)"),
    ("EVENT SEQ(A a, B+ b) WHERE sum(b.v * a.v) > 1", "sum runs over one repeated variable", "sum(b.v * a.v)"),
    ("EVENT SEQ(A a, B+ b) WHERE sum(end(b)) > 1", "sum cannot run over an aggregate", "sum(end(b))"),
    # TList
    ("EVENT ISEQ[end(a) < start(b) AND end(b) < start(a)](A a, B b)", "contradict each other", "end(b) < start(a)"),
    ("EVENT ISEQ[end(a) < start(a)](A a, B b)", "contradict each other", "end(a) < start(a)"),
    ("EVENT ISEQ[start(a) = end(b) AND end(a) < start(b)](A a, B b)", "contradict each other", "end(a) < start(b)"),
    ("EVENT SEQ(C c, ISEQ[end(a) < start(c)](A a, B b))", "c is not in the list of this ISEQ", "start(c)"),
    # windows and durations
    ("EVENT SEQ(A a, B b) WITHIN 5 min", "the length of a tick is not known", "5 min"),
    ("EVENT SEQ(A a, B b) WITHIN 4611686018427387904", "the window is too long", "4611686018427387904"),
    ("EVENT SEQ(A a, B b) WHERE end(b) - end(a) > 5 s", "the length of a tick is not known", "5 s"),
    # kinds
    ("EVENT A a WHERE a.tag > 3", "a text cannot be compared with a whole number", "a.tag > 3"),
    ("EVENT A a WHERE a.ok = 1", "a truth value cannot be compared with a whole number", "a.ok = 1"),
    ("EVENT A a WHERE a.ok < a.ok", "truth values have no order", "a.ok < a.ok"),
    ("EVENT A a WHERE a.tag + 1 = 2", "+ needs numbers, not a text", "a.tag + 1"),
    ("EVENT A a WHERE a.n", "a condition must be true or false, not a whole number", "a.n"),
    ("EVENT A a WHERE a.n OR a.ok", "OR must be true or false, not a whole number", "a.n"),
    ("EVENT A a WHERE a = 3", "a is an event and cannot be compared with a value", "a = 3"),
    ("EVENT A a WHERE a + 1 = 3", "a is an event, not a value", "a"),
    ("EVENT A a WHERE a.n IN (1, 'x')", "a whole number cannot be compared with a text", "'x'"),
    ("EVENT A a WHERE a.n LIKE 'x'", "LIKE needs texts, not a whole number", "a.n LIKE 'x'"),
    ("EVENT A a WHERE lower(a.n) = 'x'", "lower needs a text, not a whole number", "lower(a.n)"),
    ("EVENT A a WHERE abs(a.n, 2) = 1", "abs takes 1 argument, not 2", "abs(a.n, 2)"),
    ("EVENT A a WHERE CASE WHEN a.ok THEN 1 ELSE 'x' END = 1", "CASE mixes", None),
    ("EVENT A a WHERE a.q * a.q > 1", "the product has 24 digits after the point", "a.q * a.q"),
    ("EVENT A a WHERE a.q > 12345678.5", "needs more than 18 digits", None),
    (
        "EVENT SEQ(A a, B? b, C? e, !D c, A d) WHERE b.id = c.id AND e.id = b.id WITHIN 9",
        "b may be absent, and c is in a negated part",
        None,
    ),
    ("EVENT A a WHERE a.n = 99999999999999999999", "does not fit into 64 bits", "99999999999999999999"),
    ("EVENT A a WHERE NOT [id]", "[attr] can only stand by itself in WHERE", "[id]"),
    ("EVENT (A a : [id])", "[attr] can only stand by itself in WHERE", "[id]"),
    # SELECT
    ("EVENT SEQ(A a, B+ b) SELECT b.v", "b is repeated, so SELECT needs an aggregate of it", "b.v"),
    ("EVENT SEQ(A a, B+ b) SELECT b.v + NULL", "b is repeated, so SELECT needs an aggregate of it", "b.v + NULL"),
    ("EVENT SEQ(A a, !B b, C c) SELECT b.v", "SELECT cannot show b, which is bound inside a negated part", "b.v"),
    ("EVENT EXISTS a : SEQ(A a, B b) SELECT a.v", "SELECT cannot show a, which is hidden by EXISTS", "a.v"),
    ("EVENT SEQ(A a, B b) SELECT a", "a is an event, not a value", "a"),
    ("EVENT SEQ(A a, B b) SELECT a.v AS x, b.v AS x", "two columns are called x", None),
]


@pytest.mark.parametrize(("query", "message", "place"), RULES)
def test_static_rules(query: str, message: str, place: str | None) -> None:
    found = problems(query)
    assert any(message in text for text, _ in found), found
    if place is not None:
        assert place in [where for text, where in found if message in text], found


def test_several_problems_are_reported_at_once_in_text_order() -> None:
    found = problems("EVENT SEQ(A a, Bx b) WHERE a.idd = 1 AND z.v = 2 AND a.tag = 3")
    assert [message for message, _ in found] == [
        "unknown event type Bx",
        "unknown attribute idd",
        "unknown variable z",
        "a text cannot be compared with a whole number",
    ]


@pytest.mark.parametrize(
    ("query", "hint"),
    [
        ("EVENT Shlef s", "did you mean Shelf?"),
        ("EVENT Shelf s WHERE s.bya = 1", "did you mean bay?"),
        ("EVENT Shelf shelf WHERE shelv.bay = 1", "did you mean shelf?"),
        ("EVENT A a WHERE lowr(a.tag) = 'x'", "did you mean lower?"),
        ("EVENT A a WHERE tag = 'x'", "a.tag"),
    ],
)
def test_misspelt_names_get_a_suggestion(query: str, hint: str) -> None:
    with pytest.raises(QueryError) as caught:
        plan_of(query)
    assert hint in (caught.value.problems[0].hint or "")


def test_a_double_negation_and_other_shapes_that_only_the_fluent_api_can_write() -> None:
    from tocsin.lang.syntax import And, Exists, Not, Or, Rel, Repeat, Seq

    a, b, c = SyntaxLeaf("A", "a"), SyntaxLeaf("B", "b"), SyntaxLeaf("C", "c")
    wrong = {
        "a branch of OR cannot be negated": Or((a, Not(b))),
        "a double negation": Seq((a, Not(Not(b)))),
        "a query cannot be only a negation": Not(b),
        "the pattern of EXISTS cannot be negated": And((a, Exists(("b",), Not(b)))),
        "a side of REL cannot be negated": Rel(("before",), Not(a), b),
        "unknown relation befor": Rel(("befor",), a, b),
        "REL needs at least one relation": Rel((), a, b),
        "this repetition allows no event": Seq((a, SyntaxLeaf("B", "b", repeat=Repeat(0, 0)), c)),
        "no number is at least 3 and at most 2": Seq((a, SyntaxLeaf("B", "b", repeat=Repeat(3, 2)), c)),
    }
    for message, pattern in wrong.items():
        with pytest.raises(QueryError) as caught:
            bind(Query(pattern), SCHEMA)
        assert message in [problem.message for problem in caught.value.problems]


def test_too_many_alternatives_and_leaves_are_refused() -> None:
    forks = ", ".join(f"OR(SEQ(A a{i}, B b{i}), C c{i})" for i in range(7))
    assert "make 128 alternatives" in problems(f"EVENT SEQ({forks})")[0][0]
    leaves = ", ".join(f"A a{i}" for i in range(101))
    assert "101 leaves" in problems(f"EVENT SEQ({leaves})")[0][0]


# --- names -------------------------------------------------------------------------------------------------------


def test_occurrence_numbers_name_unnamed_leaves() -> None:
    assert lines("EVENT SEQ(A, B, A) WHERE A1.id = A2.id", "test") == ["A.id = A_2.id"]
    assert lines("EVENT ISEQ[A1.te < A2.ts](A, A)", "order") == ["end(A) < start(A_2)"]


def test_branches_of_or_share_the_name_of_an_unnamed_leaf() -> None:
    plan = plan_of("EVENT OR(SEQ(A, B), SEQ(A, C)) WHERE A.id = 1")
    assert [variable.name for variable in plan.variables] == ["A", "B", "C"]
    assert len(plan.alternatives) == 2
    assert lines("EVENT OR(SEQ(A, B), SEQ(A, C)) WHERE A.id = 1", "test") == ["A.id = 1", "A.id = 1"]


# --- shape: leaves, order, variables -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "order"),
    [
        ("SEQ(A a, B b, C c)", ["end(a) < start(b)", "end(b) < start(c)"]),
        ("SEQ(A a, B+ b, C c)", ["end(a) < start(c)"]),
        ("SEQ(A a, !B b, C c)", ["end(a) < start(c)"]),
        ("SEQ(AND(A a, B b), C c)", ["end(a) < start(c)", "end(b) < start(c)"]),
        ("AND(A a, B b)", []),
        ("ISEQ[start(a) = start(b) AND end(a) > end(b)](A a, B b)",
         ["start(a) <= start(b)", "start(b) <= start(a)", "end(b) < end(a)"]),
        ("REL[overlap](A a, B b)", ["start(a) < start(b)", "start(b) < end(a)", "end(a) < end(b)"]),
        ("REL[before, meet](A a, B b)", ["end(a) <= start(b)"]),
        ("REL[before](SEQ(A a, B b), C c)", ["end(a) < start(b)", "end(a) < start(c)", "end(b) < start(c)"]),
        ("REL[equal](A a, B b)",
         ["start(a) <= start(b)", "start(b) <= start(a)", "end(a) <= end(b)", "end(b) <= end(a)"]),
    ],
)  # fmt: skip
def test_order(pattern: str, order: list[str]) -> None:
    assert lines(f"EVENT {pattern}", "order") == order


def test_relations_that_are_no_conjunction_become_one_predicate() -> None:
    assert lines("EVENT REL[before, after](A a, B b)", "test") == ["end(a) < start(b) or start(a) > end(b)"]
    (test,) = lines("EVENT REL[contain](SEQ(A a, B b), C c)", "test")
    assert test == "first start(a, b) < start(c) and last end(a, b) > end(c)"


def test_the_window_of_an_iseq() -> None:
    iseq = "ISEQ[start(a) < start(b)](A a, B b; 10)"
    assert plan_of(f"EVENT {iseq}").within == 10
    assert plan_of(f"EVENT {iseq} WITHIN 4").within == 4
    assert plan_of(f"EVENT {iseq} WITHIN 40").within == 10
    nested = plan_of(f"EVENT OR({iseq}, C c)")
    assert nested.within is None
    assert lines(f"EVENT SEQ({iseq}, C c) WITHIN 40", "test") == ["last end(a, b) - first start(a, b) <= 10"]


def test_leaf_ids_are_unique_in_the_plan_and_loops_follow_the_text() -> None:
    plan = plan_of("EVENT OR(SEQ(A a, !SEQ(B b, !X x, C c), D d), SEQ(A a, E e))")
    from tocsin.plan.rewrite import all_blocks, all_leaves

    ids = [leaf.id for leaf in all_leaves(plan)]
    assert len(ids) == len(set(ids)) == 7
    for block in all_blocks(plan):
        assert block.nest == tuple(leaf.id for leaf in block.fixed)
        assert not block.early


def test_variables_in_text_order_with_hidden_and_repeated() -> None:
    plan = plan_of("EVENT EXISTS a : SEQ(A a, !X x, Shelf+ s, OR(B b, C c))")
    shown = [(v.name, v.types, v.repeated, v.hidden) for v in plan.variables]
    assert shown == [
        ("a", ("A",), False, True),
        ("s", ("Shelf",), True, False),
        ("b", ("B",), False, False),
        ("c", ("C",), False, False),
    ]
    assert [field.name for field in plan.variables[1].fields] == [*COMMON, "bay"]


def test_windows_in_ticks() -> None:
    nothing = Query(parse("EVENT A a").pattern, within=Duration(0))
    with pytest.raises(QueryError, match="the window must be longer than nothing"):
        bind(nothing, SCHEMA)
    assert plan_of("EVENT SEQ(A a, B b) WITHIN 2 min", CLOCKED).within == 120
    assert lines("EVENT SEQ(A a, B b) WHERE end(b) - end(a) > 1 h", "test", CLOCKED) == ["end(b) - end(a) > 3600"]
    assert "is not a whole number of ticks" in problems("EVENT SEQ(A a, B b) WITHIN 5 ms", CLOCKED)[0][0]


# --- scopes --------------------------------------------------------------------------------------------------------

SCOPES = [
    ("SEQ(A a, !B b, C c)", "(end(a), start(c))"),
    ("SEQ(!B b, A a, C c) WITHIN 9", "[last end - 9, start(a))"),
    ("SEQ(A a, C c, !B b) WITHIN 9", "(end(c), first start + 9]"),
    ("AND(A a, !B b, C c) WITHIN 9", "[last end - 9, last end]"),
    ("SEQ(!B b, A a)", "[beginning of the stream, start(a))"),
    ("SEQ(A a, !B b)", "(end(a), end of the stream]"),
    ("AND(A a, !B b)", "[beginning of the stream, last end]"),
    # a composite neighbour: only the leaves that can be its end
    ("SEQ(SEQ(A a, C c), !B b, AND(D d, E e))", "(end(c), first start(d, e))"),
    ("SEQ(AND(A a, C c), !B b, SEQ(D d, E e))", "(last end(a, c), start(d))"),
    # at an end of a composite: the gap in which the composite stands
    ("SEQ(A a, SEQ(!B b, C c), D d) WITHIN 10", "(end(a), start(c))"),
    ("SEQ(A a, SEQ(C c, !B b), D d)", "(end(c), start(d))"),
    ("SEQ(A a, AND(C c, !B b), D d)", "(end(a), start(d))"),
    ("SEQ(A a, AND(C c, !B b)) WITHIN 9", "(end(a), last end]"),
    ("SEQ(AND(C c, !B b), D d) WITHIN 9", "[last end - 9, start(d))"),
    ("AND(SEQ(A a, !B b), C c) WITHIN 9", "(end(a), first start + 9]"),
    ("SEQ(A a, OR(SEQ(!B b, C c, E e), SEQ(C c, E e)), D d)", "(end(a), start(c))"),
    ("SEQ(A a, REL[before](SEQ(!B b, C c), E e), D d)", "(end(a), start(c))"),
    ("SEQ(A a, EXISTS c : AND(!B b, C c), D d)", "(end(a), start(d))"),
    # two negations share a gap, and a repetition is a neighbour
    ("SEQ(A a, !B b, C+ c, D d)", "(end(a), start(c))"),
    ("SEQ(A a, C+ c, !B b, D d)", "(end(c), start(d))"),
]


@pytest.mark.parametrize(("pattern", "scope"), SCOPES)
def test_scopes_of_negations(pattern: str, scope: str) -> None:
    assert lines(f"EVENT {pattern}", "forbidden in") == [scope]


REPETITIONS = [
    ("SEQ(A a, B+ b, C c)", "(end(a), start(c))"),
    ("SEQ(A a, !X x, B+ b, !X y, C c)", "(end(a), start(c))"),
    ("SEQ(B+ b, A a) WITHIN 9", "[last end - 9, start(a))"),
    ("SEQ(A a, B+ b) WITHIN 9", "(end(a), first start + 9]"),
    ("AND(A a, B+ b) WITHIN 9", "[last end - 9, last end]"),
    ("AND(A a, B+ b)", "[beginning of the stream, last end]"),
    ("SEQ(A a, SEQ(B+ b, C c), D d)", "(end(a), start(c))"),
    ("SEQ(AND(A a, B+ b), C c) WITHIN 9", "[last end - 9, start(c))"),
    ("SEQ(A a, !B{2,} b, C c)", "[low end of the part, high end of the part]"),
    ("SEQ(A a, !SEQ(B{2,} b, X x), C c)", "[low end of the part, start(x))"),
    ("SEQ(A a, !AND(X x, B+ b), C c)", "[low end of the part, high end of the part]"),
]


@pytest.mark.parametrize(("pattern", "scope"), REPETITIONS)
def test_scopes_of_repetitions(pattern: str, scope: str) -> None:
    (leaf,) = [line for line in lines(f"EVENT {pattern}", "leaf") if " in " in line]
    assert leaf.split(" in ")[1] == scope


def test_repetitions_stand_in_the_order_of_evaluation() -> None:
    plan = plan_of("EVENT AND(D+ d, SEQ(A a, B+ b, C c)) WITHIN 9")
    block = plan.alternatives[0]
    names = {leaf.id: leaf.alts[0].var for leaf in block.leaves}
    # d is counted from the other events of the match, so b must be known first
    assert [names[leaf] for leaf, _ in block.scopes] == ["b", "d"]


def test_negated_parts_inside_negated_parts_inherit_their_scope() -> None:
    text = explain(plan_of("EVENT SEQ(A a, !SEQ(!B b, C c, !X x), D d)"))
    assert "forbidden in [low end of the part, start(c))" in text
    assert "forbidden in (end(c), high end of the part]" in text


# --- OR --------------------------------------------------------------------------------------------------------------


def test_or_over_plain_leaves_is_one_leaf() -> None:
    (block,) = plan_of("EVENT SEQ(OR((A a : a.n > 1), OR(B b, C c)), D d)").alternatives
    assert [(alt.type, alt.var, len(alt.where)) for alt in block.leaves[0].alts] == [
        ("A", "a", 1), ("B", "b", 0), ("C", "c", 0),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "branches",
    ["A a, A b", "A+ a, B b", "SEQ(A a, C c), B b", "(A a : a.n = d.n), B b"],
)
def test_other_ors_are_alternatives(branches: str) -> None:
    assert len(plan_of(f"EVENT SEQ(OR({branches}), D d, E e)").alternatives) == 2


def test_variables_of_other_branches_are_null() -> None:
    query = "EVENT SEQ(OR(SEQ(A a, B b), C c), D d) WHERE {}"
    assert len(plan_of(query.format("a.n = 1")).alternatives) == 1
    assert lines(query.format("a.n = 1 OR c.n = 2"), "test") == ["a.n = 1", "c.n = 2"]
    assert lines(query.format("a IS NULL"), "leaf") == ["C c", "D d"]
    assert lines(query.format("coalesce(a.n, c.n) = d.n"), "test") == ["a.n = d.n", "c.n = d.n"]
    assert lines(query.format("a.id = d.id"), "leaf") == ["A a", "B b", "D d"]


def test_a_query_that_can_never_match_says_so() -> None:
    plan = plan_of("EVENT SEQ(OR(SEQ(A a, B b), C c), D d) WHERE a.n = c.n")
    assert plan.alternatives[0].predicates == (Lit(False, Kind.BOOL),)
    assert "this query can never match" in plan.notes


def test_same_ranges_over_the_variables_that_are_bound() -> None:
    query = "EVENT SEQ(OR(SEQ(A a, B b), C c), D d) WHERE [id]"
    assert lines(query, "test") == ["a.id = b.id", "b.id = d.id", "c.id = d.id"]
    assert lines("EVENT SEQ(OR(A a, B b), D d) WHERE [id]", "test") == ["coalesce(a.id, b.id) = d.id"]


def test_a_negated_or_forbids_each_branch() -> None:
    query = "EVENT SEQ(A a, !OR(B b, SEQ(C c, X x)), D d)"
    assert lines(query, "forbidden in") == ["(end(a), start(d))"] * 2
    assert lines(query + " WHERE [id]", "test") == ["a.id = d.id", "b.id = a.id", "c.id = x.id", "c.id = a.id"]


def test_a_conjunct_of_a_negated_part_leaves_other_branches_alone() -> None:
    query = "EVENT OR(SEQ(A a, !X x, B b), SEQ(C c, D d)) WHERE x.n = a.n"
    assert lines(query, "leaf") == ["A a", "B b", "X x", "C c", "D d"]
    assert lines(query, "test") == ["x.n = a.n"]


# --- predicates ------------------------------------------------------------------------------------------------------


def test_leaf_predicates_stay_at_their_leaf_or_block() -> None:
    plan = plan_of("EVENT SEQ((A a : a.n > 1 AND a.id = c.id), (B+ b : b.v > 2 AND count(b) > 3), C c)")
    (block,) = plan.alternatives
    assert [len(leaf.alts[0].where) for leaf in block.leaves] == [1, 1, 0]
    assert block_lines(block, plan)[0] == "leaf      A a where a.n > 1"
    assert [str(line.split("  -- ")[0]) for line in block_lines(block, plan) if line.startswith("test")] == [
        "test      a.id = c.id",
        "test      count(b) > 3",
    ]


def test_where_moves_into_the_innermost_negated_part() -> None:
    query = "EVENT SEQ(A a, !SEQ(B b, !X x, C c), D d) WHERE x.n > a.n AND b.n > a.n AND d.n > a.n"
    plan = plan_of(query)
    root = plan.alternatives[0]
    inner = root.forbidden[0].block
    deepest = inner.forbidden[0].block
    for block, test in ((root, "d.n > a.n"), (inner, "b.n > a.n"), (deepest, "x.n > a.n")):
        own = block_lines(block, plan)
        assert next(line for line in own if line.startswith("test")).split("  -- ")[0] == f"test      {test}"


@pytest.mark.parametrize(
    ("query", "tests"),
    [
        # the closure relates s to e even though c is negated
        ("SEQ(A s, !B c, C e) WHERE s.id = c.id AND c.id = e.id", ["s.id = e.id", "c.id = s.id"]),
        # attributes differ
        ("SEQ(A s, !B c, C e) WHERE s.id = c.n AND c.n = e.id", ["s.id = e.id", "c.n = s.id"]),
        # [attr] and PARTITION BY are the same
        ("SEQ(A a, !B b, C c) WHERE [id]", ["a.id = c.id", "b.id = a.id"]),
        ("SEQ(A a, !B b, C c) PARTITION BY id", ["a.id = c.id", "b.id = a.id"]),
        # siblings: dropped, because both are related to a variable outside
        ("SEQ(A a, !B b, !X x, C c) WHERE b.id = x.id AND x.id = a.id", ["b.id = a.id", "x.id = a.id"]),
        # a repetition is tied to one fixed variable
        ("SEQ(A a, B+ b, C c, D+ d, E e) WHERE [id]",
         ["a.id = c.id", "c.id = e.id", "b.id = a.id", "d.id = a.id"]),
        # nested negations are tied to the nearest block
        ("SEQ(A a, !SEQ(B b, !X x, C c), D d) WHERE [id]",
         ["a.id = d.id", "b.id = c.id", "b.id = a.id", "x.id = b.id"]),
        # leaf predicates take no part
        ("SEQ(A a, !(B b : b.id = a.id AND b.id = e.id), E e)", ["b.id = a.id", "b.id = e.id"]),
        # of constants there is no closure, and x.a = x.a is a test of its own
        ("SEQ(A a, B b) WHERE a.id = 1 AND a.id = b.id AND b.n = b.n", ["a.id = b.id", "a.id = 1", "b.n = b.n"]),
        # decimals through a float are not transitive: every pair is asked
        ("AND(A a, B b, C c) WHERE a.p = b.v AND b.v = c.p",
         ["to_float(a.p) = b.v", "a.p = c.p", "b.v = to_float(c.p)"]),
    ],
)  # fmt: skip
def test_closure(query: str, tests: list[str]) -> None:
    assert lines(f"EVENT {query}", "test") == tests


def test_a_type_without_the_attribute_is_null() -> None:
    plan = plan_of("EVENT SEQ(Shelf s, A a) WHERE [bay]")
    assert "A has no attribute bay, so [bay] lets no A be a" in plan.notes
    assert plan.alternatives[0].predicates == (Lit(False, Kind.BOOL),)
    assert lines("EVENT A a WHERE a.bay IS NULL", "test") == []


# --- kinds -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("where", "shown"),
    [
        ("a.n + a.v > 1", "to_float(a.n) + a.v > 1"),
        ("a.n / 2 > 1", "to_float(a.n) / 2.0 > 1"),
        ("a.n > 0.5", "a.n > 0.5"),
        ("a.p > 0.5", "a.p > 0.50"),
        ("a.p > 0.125", "a.p > 0.125"),
        ("a.p = a.n + 1", "a.p = a.n + 1"),
        ("a.p * 2 > 1", "a.p * 2 > 1.00"),
        ("a.p + a.v > 1", "to_float(a.p) + a.v > 1"),
        ("a.n IN (1, 2)", "a.n = 1 or a.n = 2"),
        ("a.n NOT IN (1, 2)", "not (a.n = 1 or a.n = 2)"),
        ("a.n BETWEEN 1 AND 2", "a.n >= 1 and a.n <= 2"),
        ("a.tag || 'x' = 'yx'", "concat(a.tag, 'x') = 'yx'"),
        ("a.tag LIKE 'x%'", "like(a.tag, 'x%')"),
        ("-a.n < -3", "-a.n < -3"),
        ("nullif(a.n, 2) = 1", "case(a.n = 2, null, a.n) = 1"),
        ("CASE WHEN a.ok THEN 1 ELSE 0.5 END > a.v", "case(a.ok, 1.0, 0.5) > a.v"),
        ("int(a.tag) = 3", "to_int(a.tag) = 3"),
        ("CAST(a.n AS TEXT) = '3'", "to_text(a.n) = '3'"),
        ("1 + 2 * 3 = a.n", "7 = a.n"),
        ("a.ok", "a.ok"),
        ("a.at > 5 AND a.ok", "a.at > 5"),
    ],
)
def test_conversions(where: str, shown: str) -> None:
    tests = lines(f"EVENT A a WHERE {where}", "test")
    assert tests[0].replace("a.tag like 'x%'", "like(a.tag, 'x%')") == shown


def test_operands_of_a_comparison_have_one_kind_and_scale() -> None:
    (predicate,) = plan_of("EVENT A a WHERE a.p > 0.125").alternatives[0].predicates
    assert isinstance(predicate, Op)
    predicate = as_written(predicate)
    assert [(side.kind, side.scale) for side in predicate.args] == [(Kind.DECIMAL, 3)] * 2
    (mixed,) = plan_of("EVENT A a WHERE a.n > 0.5").alternatives[0].predicates
    assert isinstance(mixed, Op)
    assert [side.kind for side in mixed.args] == [Kind.INT, Kind.FLOAT]


def test_user_functions() -> None:
    near = Function("near", lambda x, y: abs(x - y) < 2, Kind.BOOL, 2)
    plan = bind(parse("EVENT SEQ(A a, B b) WHERE near(a.v, b.v)"), SCHEMA, {"near": near})
    assert "near(a.v, b.v)" in explain(plan)
    with pytest.raises(QueryError, match="near takes 2 arguments, not 1"):
        bind(parse("EVENT A a WHERE near(a.v)"), SCHEMA, {"near": near})
    # null in, null out, without a call
    never = bind(parse("EVENT A a WHERE near(a.v, NULL)"), SCHEMA, {"near": near})
    assert "this query can never match" in never.notes


# --- SELECT and composition ------------------------------------------------------------------------------------------


def test_select_names_and_indexes() -> None:
    plan = plan_of("EVENT SEQ(A a, !X x, B b) SELECT a.tag, b.n, a.n, b.v * 2 AS twice, end(b) - start(a)")
    assert [output.name for output in plan.outputs] == ["tag", "b_n", "a_n", "twice", "end(b) - start(a)"]
    assert plan.outputs[1].expr == Col(1, "b", "n", Kind.INT, 0, nullable=False)


def test_select_of_aggregates_and_optional_variables() -> None:
    plan = plan_of("EVENT SEQ(A a, B+ b, OR(C c, D d)) SELECT count(b) AS n, c.n AS m, start(d) AS t")
    assert [(o.name, o.expr.kind, o.expr.nullable) for o in plan.outputs] == [
        ("n", Kind.INT, False), ("m", Kind.INT, True), ("t", Kind.INT, True),
    ]  # fmt: skip


def test_the_matches_of_a_query_are_events_for_later_ones() -> None:
    points = Schema(types=SCHEMA.types, common={}, intervals=False)
    first, second, third = bind_all(
        parse_all("QUERY Pair EVENT SEQ(Shelf s, A a) SELECT s.bay; EVENT SEQ(Pair p, B b) WHERE p.bay = 1; EVENT A a"),
        points,
    )
    assert schema_of(first) == {"bay": Field("bay", Kind.INT)}
    assert (second.schema.intervals, third.schema.intervals) == (True, False)
    assert [variable.types for variable in second.variables] == [("Pair",), ("B",)]
    assert schema_of(second) == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("QUERY Pair EVENT SEQ(A a, Pair p)", "the query reads its own matches"),
        ("EVENT SEQ(A a, Pair p); QUERY Pair EVENT A a", "the query reads the query Pair, which comes later"),
        ("QUERY A EVENT B b", "A is already an event type"),
        ("QUERY P EVENT B b; QUERY P EVENT A a", "P is already a query above"),
        ("QUERY P EVENT B b SELECT b.id; EVENT P p WHERE p.v = 1 AND p.zz = 1", "unknown attribute zz"),
    ],
)
def test_wrong_composition(text: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        bind_all(parse_all(text), SCHEMA)


def test_problems_of_several_queries_are_reported_together() -> None:
    with pytest.raises(QueryError) as caught:
        bind_all(parse_all("QUERY P EVENT Zz z; EVENT SEQ(P p, A a); EVENT B b WHERE b.zz = 1"), SCHEMA)
    assert [p.message for p in caught.value.problems] == ["unknown event type Zz", "unknown attribute zz"]


# --- fingerprint and notes -------------------------------------------------------------------------------------------


def test_the_fingerprint_knows_what_is_detected_and_nothing_else() -> None:
    base = plan_of("EVENT SEQ(A, B b) WHERE [id] WITHIN 5").fingerprint
    assert len(base) == 32
    assert plan_of("QUERY q event seq(A A, B b) where [id] within 5 SELECT b.n").fingerprint == base
    assert plan_of("EVENT SEQ(A, B b) WHERE [id] WITHIN 6").fingerprint != base


@pytest.mark.parametrize(
    ("query", "note"),
    [
        ("AND(A a, !A x) WITHIN 5", "can never match"),
        ("SEQ(B b, AND(A a, !A x), C c)", "can never match"),
        ("SEQ(A a, !B b)", "only at the end of the stream"),
        ("SEQ(A a, !OR(B b, C c), D d) WHERE b.n = 1", "never rejects anything"),
    ],
)
def test_notes(query: str, note: str) -> None:
    assert any(note in text for text in plan_of(f"EVENT {query}").notes)


@pytest.mark.parametrize("query", ["AND(A a, !(A x : x <> a)) WITHIN 5", "SEQ(A a, !A x, B b)", "SEQ(A a, B b)"])
def test_no_notes_where_all_is_well(query: str) -> None:
    assert plan_of(f"EVENT {query}").notes == ()


def test_open_schemas_take_what_comes() -> None:
    plan = bind(parse("EVENT SEQ(Foo f, Bar b) WHERE f.anything IS NULL"), Schema(open_types=True, open_fields=True))
    assert [variable.types for variable in plan.variables] == [("Foo",), ("Bar",)]
