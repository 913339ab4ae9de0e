"""The passes: before and after of each, and equal answers on random histories with any of them off."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from tests.effort import examples
from tests.naive_plan import naive_matches
from tocsin.errors import QueryError, TocsinError
from tocsin.lang.parser import parse
from tocsin.plan.bind import bind
from tocsin.plan.block import After, Order, Plan, Point
from tocsin.plan.explain import explain
from tocsin.plan.expr import Op
from tocsin.plan.expr import leaves as leaves_in
from tocsin.plan.facts import horizon, memory, reads, terminal_types, waits
from tocsin.plan.fold import TRUE
from tocsin.plan.passes import PASSES, Pass, Timing, checked, checks, optimize
from tocsin.plan.passes.equality_closure import equality_closure
from tocsin.plan.passes.leaf_order import leaf_order
from tocsin.plan.passes.normalise import normalise
from tocsin.plan.passes.partition_keys import partition_keys
from tocsin.plan.passes.predicate_placement import predicate_placement
from tocsin.plan.rewrite import all_blocks
from tocsin.plan.verify import BrokenPlanError
from tocsin.schema import Field, Kind, Schema
from tocsin.testing import strategies
from tocsin.testing.oracle import matches

SCHEMA = Schema(
    types={name: {} for name in "ABCDEX"},
    common={
        "id": Field("id", Kind.INT),
        "n": Field("n", Kind.INT, nullable=False),
        "tag": Field("tag", Kind.TEXT),
        "v": Field("v", Kind.FLOAT),
        "p": Field("p", Kind.DECIMAL, scale=2),
    },
)


def plan_of(query: str) -> Plan:
    return bind(parse(f"EVENT {query}"), SCHEMA)


def lines(plan: Plan, *words: str) -> list[str]:
    text = [line.strip() for line in explain(plan).split("\n")]
    return [" ".join(line.split()) for line in text if line.startswith(words)]


def key_of(query: str) -> list[str]:
    """The key as variable.attribute texts, after all passes."""
    text = explain(optimize(plan_of(query))).split("\n")
    if "key" not in text:
        return []
    return [line.strip() for line in text[text.index("key") + 1 :] if line.startswith("  ")]


# --- normalise -------------------------------------------------------------------------------------------------------


def test_normalise_opens_ands_and_drops_what_is_said_twice() -> None:
    before = plan_of("SEQ(A a, B b) WHERE a.n BETWEEN 1 AND 5 AND a.n >= 1 AND a.n < b.n AND b.n > a.n AND 5 >= a.n")
    assert lines(before, "test") == [
        "test a.n >= 1 and a.n <= 5 -- at the end",
        "test a.n >= 1 -- at the end",
        "test a.n < b.n -- at the end",
        "test b.n > a.n -- at the end",
        "test 5 >= a.n -- at the end",
    ]
    assert lines(normalise(before), "test") == [
        "test a.n >= 1 -- at the end",
        "test a.n <= 5 -- at the end",
        "test a.n < b.n -- at the end",
    ]


def test_normalise_opens_a_negated_or() -> None:
    after = normalise(plan_of("A a WHERE a.n NOT IN (1, 2)"))
    assert lines(after, "test") == ["test not a.n = 1 -- at the end", "test not a.n = 2 -- at the end"]


def test_normalise_drops_order_that_follows() -> None:
    before = plan_of("SEQ(SEQ(A a, B b), C c)")
    assert len(before.alternatives[0].order) == 3
    assert lines(normalise(before), "order") == ["order end(a) < start(b)", "order end(b) < start(c)"]


def test_normalise_keeps_equal_ends() -> None:
    before = plan_of("REL[equal](A a, B b)")
    assert normalise(before).alternatives[0].order == before.alternatives[0].order


def test_normalise_computes_constants() -> None:
    block = plan_of("A a").alternatives[0]
    redundant = replace(plan_of("A a"), alternatives=(replace(block, predicates=(Op("or", (TRUE, TRUE), Kind.BOOL),)),))
    assert normalise(redundant).alternatives[0].predicates == ()


def test_normalise_shortens_scopes_by_the_order() -> None:
    before = plan_of("SEQ(A a, ISEQ[end(b) < start(c)](B b, C c), !X x, D d)")
    assert lines(before, "forbidden") == ["forbidden in (last end(b, c), start(d))"]
    assert lines(normalise(before), "forbidden") == ["forbidden in (end(c), start(d))"]


# --- equality closure ------------------------------------------------------------------------------------------------


def test_equality_closure_adds_pairs_inside_a_block() -> None:
    before = plan_of("AND(A a, B b, C c) WHERE [id]")
    assert lines(before, "test") == ["test a.id = b.id -- at the end", "test b.id = c.id -- at the end"]
    assert lines(equality_closure(before), "test")[2:] == ["test a.id = c.id -- at the end"]


def test_equality_closure_uses_the_blocks_around_and_never_goes_outward() -> None:
    before = plan_of("SEQ(A a, !SEQ((B b : b.id = a.id), (C c : c.id = d.id)), D d) WHERE a.id = d.id")
    after = equality_closure(before)
    added = set(lines(after, "test")) - set(lines(before, "test"))
    assert "test b.id = c.id -- at the end" in added
    root = after.alternatives[0]
    assert root.predicates == before.alternatives[0].predicates
    outward = plan_of("SEQ(A a, !(B b : b.id = a.id AND b.id = d.id), D d)")
    assert equality_closure(outward).alternatives[0].predicates == ()


# --- predicate placement ---------------------------------------------------------------------------------------------


def test_predicate_placement_moves_unary_predicates_to_their_leaf() -> None:
    before = plan_of("SEQ(A a, B+ b, !X x, C c) WHERE a.n > 1 AND b.n > 2 AND count(b) > 3 AND x.n > 4 AND x.n > a.n")
    after = predicate_placement(before)
    assert lines(after, "leaf") == [
        "leaf A a where a.n > 1",
        "leaf B{1,} b where b.n > 2 in (end(a), start(c))",
        "leaf C c",
        "leaf X x where x.n > 4",
    ]
    assert lines(after, "test") == ["test count(b) > 3 -- with the members of b", "test x.n > a.n -- when x is bound"]
    assert all(block.early for block in all_blocks(after))
    assert not any(block.early for block in all_blocks(before))


def test_predicate_placement_leaves_unions_and_whole_sets_alone() -> None:
    after = predicate_placement(plan_of("SEQ(OR(A a, B b), C+ c, D d) WHERE a.n > 1 AND end(c) > 3"))
    assert lines(after, "leaf")[0] == "leaf A a | B b"
    assert [line.split(" -- ")[0] for line in lines(after, "test")] == ["test a.n > 1", "test end(c) > 3"]


# --- partition keys --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "key"),
    [
        ("SEQ(A a, B b) WHERE [id]", ["a.id", "b.id"]),
        ("SEQ(A a, B b) WHERE a.id = b.n", ["a.id", "b.n"]),
        ("SEQ(A a, !X x, B b) WHERE [tag]", ["a.tag", "b.tag", "x.tag"]),
        ("SEQ(A a, B+ b, C c) WHERE [id]", ["a.id", "b.id", "c.id"]),
        ("SEQ(A a, B+ b) WHERE [id]", ["a.id", "b.id"]),
        ("SEQ(A a, B b, C c) WHERE a.id = b.id", []),  # c is not covered
        ("SEQ(A a, B b) WHERE a.v = b.v", ["a.v", "b.v"]),  # floats, by their bits
        ("SEQ(A a, B b) WHERE a.v = b.n", []),  # an int and a float: equal, but stored in two ways
        ("SEQ(A a, B b) WHERE a.p = b.p", ["a.p", "b.p"]),
        ("SEQ(A a, B b) WHERE a.p = b.n", []),  # not of one scale
        ("A a WHERE [id]", ["a.id"]),
        # negated parts are covered only by equalities of their own block
        ("SEQ(A a, !X x, B b) WHERE a.id = b.id", ["a.id", "b.id"]),
        ("SEQ(A a, !SEQ(X x, !C c, D d), B b) WHERE [id]", ["a.id", "b.id", "x.id", "d.id", "c.id"]),
        # composite keys: a leaf joins only if all of them cover it
        ("SEQ(A a, !X x, B b) WHERE [id, tag]", ["a.id, a.tag", "b.id, b.tag", "x.id, x.tag"]),
        ("SEQ(A a, !X x, B b) WHERE [id] AND a.tag = b.tag", ["a.id, a.tag", "b.id, b.tag"]),
        # every alternative needs the key
        ("OR(SEQ(A a, B b), SEQ(C c, D d)) WHERE [id]", ["a.id", "b.id", "c.id", "d.id"]),
        ("OR(SEQ((A a : a.id = b.id), B b), SEQ(C c, D d))", []),
        # a union leaf has the attribute whichever alternative is bound
        ("SEQ(OR(A a, C c), B b) WHERE [id]", ["a|c.id", "b.id"]),
        ("SEQ(OR(A a, C c), B b) WHERE a.id = b.id", []),
        # one leaf, tied to a negated part: only if its attribute is never null, or the match would be lost
        ("SEQ(A a, !X x) WHERE [n] WITHIN 5", ["a.n", "x.n"]),
        ("SEQ(A a, !X x) WHERE a.id = x.id WITHIN 5", []),
        # of what [attr] names it never is: events without it are not seen
        ("SEQ(A a, !X x) WHERE [id] WITHIN 5", ["a.id", "x.id"]),
        ("SEQ(!X x, A a) WHERE [id] WITHIN 5", ["a.id", "x.id"]),
        ("AND(A a, !SEQ(B b, !X x)) WHERE [id, tag] WITHIN 5", ["a.id, a.tag", "b.id, b.tag", "x.id, x.tag"]),
        ("OR(A a, SEQ(B b, C c)) WHERE [id]", ["a.id", "b.id", "c.id"]),
        ("OR(A a, SEQ(B b, !C c)) PARTITION BY id WITHIN 5", ["a.id", "b.id", "c.id"]),
    ],
)
def test_partition_keys(query: str, key: list[str]) -> None:
    assert key_of(query) == key


def test_partition_keys_drops_the_equalities_that_the_key_guarantees() -> None:
    before = equality_closure(plan_of("SEQ(A a, !X x, B b) WHERE [id] AND x.n = a.n AND a.tag = 'q'"))
    after = partition_keys(before)
    assert [line.split(" -- ")[0] for line in lines(after, "test")] == ["test a.tag = 'q'", "test x.n = a.n"]
    assert [leaf for leaf, _ in after.key] == [0, 1, 2]


# --- leaf order ------------------------------------------------------------------------------------------------------


def test_leaf_order_starts_with_a_leaf_that_can_be_last() -> None:
    assert lines(leaf_order(plan_of("SEQ(A a, B b, C c)")), "loops") == ["loops c > b > a"]


def test_leaf_order_follows_equalities_and_writes_down_the_order_between() -> None:
    after = leaf_order(plan_of("SEQ(A a, B b, C c) WHERE a.id = c.id"))
    assert lines(after, "loops") == ["loops c > a > b"]
    assert Order(Point(0, "end"), Point(2, "start")) in after.alternatives[0].order


def test_leaf_order_drops_equalities_that_others_imply_by_then() -> None:
    before = equality_closure(plan_of("AND(A a, B b, C c) WHERE [v]"))
    assert len(before.alternatives[0].predicates) == 3
    assert len(leaf_order(before).alternatives[0].predicates) == 2
    # x.a = x.a is no such equality: it says that x.a is not null
    assert len(leaf_order(plan_of("A a WHERE a.id = a.id")).alternatives[0].predicates) == 1


def test_leaf_order_of_a_negated_part_starts_where_the_outside_ties_it() -> None:
    after = leaf_order(plan_of("SEQ(A a, !SEQ(B b, C c), D d) WHERE c.id = a.id"))
    assert after.alternatives[0].forbidden[0].block.nest == (3, 2)


# --- one door --------------------------------------------------------------------------------------------------------


def test_passes_can_be_switched_off_by_name() -> None:
    plan = plan_of("SEQ(A a, !X x, B b) WHERE [id] AND a.n > 1")
    bare = optimize(plan, frozenset(step.__name__ for step in PASSES))
    assert replace(bare, known_by=()) == plan
    assert bare.known_by == optimize(plan).known_by  # what one event is does not depend on the passes
    assert optimize(plan, {"partition_keys"}).key == ()
    assert not optimize(plan, {"predicate_placement"}).alternatives[0].early
    assert optimize(plan, {"leaf_order"}).alternatives[0].nest == (0, 1)
    with pytest.raises(TocsinError, match="there is no pass partition_key"):
        optimize(plan, {"partition_key"})


@pytest.mark.parametrize("step", PASSES, ids=lambda step: step.__name__)
def test_a_pass_has_an_example_and_does_nothing_twice(step: Pass) -> None:
    assert "Before:" in (step.__doc__ or "")
    plan = step(optimize(plan_of("SEQ(A a, B+ b, !SEQ(X x, C c), OR(D d, E e)) WHERE [id] AND a.n > 1")))
    assert step(plan) == plan


# --- what a plan publishes -------------------------------------------------------------------------------------------


def test_reads_is_what_detection_needs() -> None:
    plan = plan_of("SEQ(A a, !(X x : x.n > 1), B b) WHERE [id] AND a.v > 1 SELECT b.tag")
    assert reads(plan) == reads(optimize(plan)) == {"A": {"id", "v"}, "B": {"id"}, "X": {"id", "n"}}


@pytest.mark.parametrize(
    ("query", "types", "ticks", "ahead"),
    [
        ("SEQ(A a, B b) WITHIN 5", ("B",), 5, False),
        ("AND(A a, B b) WITHIN 5", ("A", "B"), 5, False),
        ("SEQ(A a, B b)", ("B",), None, False),
        ("SEQ(A a, B b, !X x) WITHIN 5", ("B",), 5, True),
        ("SEQ(!X x, A a, B b, !X y) WITHIN 5", ("B",), 10, True),
        ("SEQ(A a, B+ b) WITHIN 5", ("A", "B"), 5, True),
        ("ISEQ[start(a) < start(b)](A a, B b; 5)", ("A", "B"), 5, False),
    ],
)
def test_ends_and_horizon(query: str, types: tuple[str, ...], ticks: int | None, ahead: bool) -> None:
    plan = plan_of(query)
    assert (terminal_types(plan), horizon(plan), waits(plan)) == (types, ticks, ahead)
    assert memory(plan) == ("grows with the stream" if ticks is None else "bounded by the window")


# --- equal answers ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, examples(2000, least=200), 200))
def test_plans_mean_what_the_oracle_says_whatever_passes_are_off(start: int) -> None:
    judged = 0
    for seed in range(start, start + 200):
        random = Random(seed)
        query = strategies.any_query(random, leaves=5, loose=random.random() < 0.5)
        try:
            plan = bind(query, strategies.SCHEMA)
        except QueryError:
            continue  # wrong on purpose
        if len(list(all_blocks(plan))) > 8:
            continue
        some = frozenset(step.__name__ for step in PASSES if random.random() < 0.4)
        history = list({event.eid: event for event in strategies.history(random, query, most=9)}.values())
        wanted = {(match.step, match.binding) for match in matches(query, history)}
        for each in (plan, optimize(plan), optimize(plan, some)):
            assert naive_matches(each, history) == wanted, (seed, str(query), some)
        judged += 1
    assert judged > 80


# --- the door --------------------------------------------------------------------------------------------------------


def test_every_pass_is_timed_under_its_name_unless_it_is_off() -> None:
    timings: list[Timing] = []
    plan = optimize(plan_of("SEQ(A a, B b) WHERE [id]"), {"normalise"}, timings=timings)
    assert [step.name for step in timings] == [step.__name__ for step in PASSES if step is not normalise]
    assert all(step.seconds > 0 for step in timings)
    assert {step.name: step.changed for step in timings}["partition_keys"]
    last = explain(plan, timings=timings).split("\n")[-len(timings) :]
    assert [line.split()[1] for line in last] == [step.name for step in timings]


def first_block(plan: Plan, **changes: Any) -> Plan:
    block, *rest = plan.alternatives
    return replace(plan, alternatives=(replace(block, **changes), *rest))


def unseen_leaf(plan: Plan) -> Plan:
    inner = plan.alternatives[0].forbidden[0].block
    return first_block(plan, predicates=(*plan.alternatives[0].predicates, *inner.predicates))


def circle(plan: Plan) -> Plan:
    order = plan.alternatives[0].order
    return first_block(plan, order=(*order, *(Order(each.right, each.left) for each in order)))


def lost_scope(plan: Plan) -> Plan:
    return first_block(plan, scopes=())


def scope_elsewhere(plan: Plan) -> Plan:
    (part,) = plan.alternatives[0].forbidden
    inside = part.block.leaves[0].id
    return first_block(plan, forbidden=(replace(part, scope=replace(part.scope, low=After((inside,)))),))


def same_leaf_twice(plan: Plan) -> Plan:
    return first_block(plan, leaves=(*plan.alternatives[0].leaves, plan.alternatives[0].leaves[0]))


def short_nest(plan: Plan) -> Plan:
    return first_block(plan, nest=(0,))


def misplaced(plan: Plan) -> Plan:
    first, *rest = plan.alternatives[0].leaves
    (alt,) = first.alts
    relates = next(p for p in plan.alternatives[0].predicates if len(leaves_in(p)) > 1)
    return first_block(plan, leaves=(replace(first, alts=(replace(alt, where=(relates,)),)), *rest))


def strange_key(plan: Plan) -> Plan:
    return replace(plan, key=((0, ("id",)), (1, ("nowhere",)), (99, ("id",))))


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        (unseen_leaf, "which it cannot see"),
        (circle, "goes in a circle"),
        (lost_scope, "not every repetition has one scope"),
        (scope_elsewhere, "which are not in its block"),
        (same_leaf_twice, "leaves have the id 0"),
        (short_nest, "is not made of the fixed leaves"),
        (misplaced, "a condition of leaf 0 mentions"),
        (strange_key, "has no nowhere for the key; the key mentions leaf 99"),
    ],
)
def test_a_broken_pass_is_caught_and_named(broken: Pass, says: str) -> None:
    plan = plan_of("SEQ(A a, B+ b, !(X x : x.n > a.n), C c) WHERE a.n < c.n WITHIN 9")
    with checked(), pytest.raises(BrokenPlanError, match=f"after {broken.__name__}: .*{says}"):
        optimize(plan, passes=(normalise, broken, leaf_order))


def test_nobody_pays_for_the_check_outside_tests() -> None:
    token = checks.set(False)
    try:
        assert optimize(plan_of("SEQ(A a, B b)"), passes=(circle,)).alternatives[0].order
    finally:
        checks.reset(token)
