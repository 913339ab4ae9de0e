"""Relations between intervals: their compositions, one class for each pair, and what a condition means."""

from __future__ import annotations

import warnings
from itertools import product

import pytest

from tocsin.errors import QueryError
from tocsin.lang.fluent import all_of, event, related, relation
from tocsin.lang.fluent import query as fluent
from tocsin.lang.parser import parse
from tocsin.lang.printer import print_query
from tocsin.lang.syntax import ALLEN
from tocsin.lang.tokens import VERBS
from tocsin.plan.allen import CLASSES, MEANS, RELATIONS
from tocsin.plan.endpoints import Graph, comparison_edges
from tocsin.run.query import query
from tocsin.testing.oracle_expr import related as holds
from tocsin.testing.oracle_expr import relation_of

TIMES = range(6)  # three intervals have six ends, so six moments show every arrangement
SPANS = [(start, end) for start in TIMES for end in TIMES if start <= end]


@pytest.fixture(scope="module")
def composed() -> dict[bool, dict[tuple[str, str], set[str]]]:
    """For each two relations those that can hold between the first and the last of three intervals.

    Under True all three have a length; that is the table of Allen 1983.
    """
    between = {(x, y): [name for name in ALLEN if holds(name, x, y)] for x in SPANS for y in SPANS}
    found: dict[bool, dict[tuple[str, str], set[str]]] = {
        long: {pair: set() for pair in product(ALLEN, ALLEN)} for long in (True, False)
    }
    for x, y, z in product(SPANS, SPANS, SPANS):
        long = all(start < end for start, end in (x, y, z))
        for first, second in product(between[x, y], between[y, z]):
            found[False][first, second].update(between[x, z])
            if long:
                found[True][first, second].update(between[x, z])
    return found


def implied(first: str, second: str, third: str, *, long: bool) -> bool:
    """Whether x first y, y second z and x third z go together, as the closure of endpoint comparisons sees it."""
    graph = Graph([((name, "start"), (name, "end"), long) for name in "xyz"])
    every = []
    for (one, other), name in ((("x", "y"), first), (("y", "z"), second), (("x", "z"), third)):
        for mine, op, its in RELATIONS[name]:
            every += comparison_edges((one, mine), op, (other, its))
    for edge in every:
        graph.add(edge)
    every += [((name, "start"), (name, "end"), long) for name in "xyz"]
    return not any(graph.implies(right, left, strict=not strict) for left, right, strict in every)


@pytest.mark.parametrize("first", ALLEN)
@pytest.mark.parametrize("long", [True, False])
def test_the_closure_composes_relations_as_small_integers_do(
    first: str, composed: dict[bool, dict[tuple[str, str], set[str]]], *, long: bool
) -> None:
    for second, third in product(ALLEN, ALLEN):
        assert implied(first, second, third, long=long) == (third in composed[long][first, second]), (second, third)


def test_well_known_compositions(composed: dict[bool, dict[tuple[str, str], set[str]]]) -> None:
    """Some entries of Allen's printed table; a point in the middle lets more follow."""
    table = composed[True]
    assert table["before", "before"] == {"before"}
    assert table["meet", "meet"] == {"before"}
    assert table["during", "before"] == {"before"}
    assert table["overlap", "overlap"] == {"before", "meet", "overlap"}
    assert table["overlap", "during"] == {"overlap", "start", "during"}
    assert table["before", "after"] == set(ALLEN)
    assert table["start", "finish"] == {"during"}
    assert sum(len(found) for found in table.values()) == 409  # of the 13 x 13 entries together
    assert composed[False]["meet", "meet"] > table["meet", "meet"]  # through a point, x meets z


def test_intervals_with_a_length_stand_in_one_relation() -> None:
    for x, y in product(SPANS, SPANS):
        found = [name for name in ALLEN if holds(name, x, y)]
        assert found
        if x[0] < x[1] and y[0] < y[1]:
            assert len(found) == 1
        assert relation_of(x, y) in found
        assert relation_of(x, y) == next(name for name in CLASSES if holds(name, x, y))
        assert holds("intersect", x, y) == (not holds("before", x, y) and not holds("after", x, y))


@pytest.mark.parametrize("name", MEANS)
def test_conditions_and_patterns_say_the_same(name: str) -> None:
    """REL, the same relation in WHERE, the comparisons that it means, and the class that relation(a, b) names."""
    spans = [(start, end) for start in range(4) for end in range(start, 4)]
    rows = [{"type": kind, "start": s, "end": e, "eid": f"{kind}{s}{e}"} for kind in "AB" for s, e in spans]
    verb = {meant: spelt for spelt, meant in VERBS.items()}[name].upper()
    wanted = {(f"A{x[0]}{x[1]}", f"B{y[0]}{y[1]}") for x in spans for y in spans if holds(name, x, y)}

    def found(text: str) -> set[tuple[str, str]]:
        matches = query(text).detect(rows, jit=False, eid="eid")
        return {(match["a"]["eid"], match["b"]["eid"]) for match in matches}

    assert found(f"EVENT AND(A a, B b) WHERE a {verb} b") == wanted
    spelt = " AND ".join(f"{mine}(a) {op} {its}(b)" for mine, op, its in MEANS[name])
    assert found(f"EVENT AND(A a, B b) WHERE {spelt}") == wanted
    everything = {(f"A{x[0]}{x[1]}", f"B{y[0]}{y[1]}") for x in spans for y in spans}
    assert found(f"EVENT AND(A a, B b) WHERE NOT a {verb} b") == everything - wanted
    if name in ALLEN:
        assert found(f"EVENT REL[{name}](A a, B b)") == wanted
        classed = {(f"A{x[0]}{x[1]}", f"B{y[0]}{y[1]}") for x in spans for y in spans if relation_of(x, y) == name}
        assert found(f"EVENT AND(A a, B b) WHERE relation(a, b) = '{name}'") == classed


SPELT = [
    ("a OVERLAPS b", "a OVERLAPS b"), ("a overlap b", "a OVERLAPS b"), ("a met_by b", "a MET BY b"),
    ("a OVERLAPPED BY b AND b AFTER a", "a OVERLAPPED BY b AND b AFTER a"),
    ("NOT a intersects b", "NOT a INTERSECTS b"),
    ("a.v > 1 OR a STARTS b", "a.v > 1 OR a STARTS b"), ("relation(a, b) = 'meet'", "relation(a, b) = 'meet'"),
]  # fmt: skip


@pytest.mark.parametrize(("written", "printed"), SPELT)
def test_every_spelling_is_read_and_printed(written: str, printed: str) -> None:
    read = parse(f"EVENT AND(A a, B b) WHERE {written}")
    assert print_query(read) == f"EVENT AND(A a, B b)\nWHERE {printed}"
    assert parse(print_query(read)) == read


def test_a_relation_can_stand_at_a_leaf_between_commas() -> None:
    read = parse("EVENT SEQ(A a, B b : b.v > 1, a DURING b, C c)")
    assert print_query(read) == "EVENT SEQ(A a, (B b : b.v > 1 AND a DURING b), C c)"


@pytest.mark.parametrize("condition", ["= 'overlaping'", "<> 'Overlap'", "IN ('meet', 'overlaps')"])
def test_a_relation_that_is_none_is_refused_with_what_was_meant(condition: str) -> None:
    with pytest.raises(QueryError, match=r"is not an interval relation(.|\n)*did you mean overlap"):
        query(f"EVENT SEQ(A a, B b) WHERE relation(a, b) {condition}").check()


def test_relations_in_python() -> None:
    pattern = all_of(event("A", "a"), event("B", "b"))
    built = fluent(pattern).where(related("a", "overlaps", "b"), relation("b", "a") != "meet")
    assert built.query == parse("EVENT AND(A a, B b) WHERE a OVERLAPS b AND relation(b, a) <> 'meet'")
    with pytest.raises(Exception, match="did you mean overlap"):
        related("a", "overlapz", "b")


def test_comparisons_in_where_become_the_order_of_the_block() -> None:
    text = query("EVENT AND(A a, B b) WHERE a OVERLAPS b WITHIN 9").explain()
    drawn = [line for line in text.split("\n") if line.startswith(("  network", "            "))]
    assert drawn == [
        "  network   start(a) < start(b) < end(a) < end(b)",
        "            a  |-------|",
        "            b      |-------|",
    ]
    assert "test" not in text
    assert query("EVENT AND(A a, B b) WHERE a OVERLAPS b").explain() == query("EVENT REL[overlap](A a, B b)").explain()


def test_the_network_is_the_least_that_says_the_same() -> None:
    given = query("EVENT ISEQ[a.ts < b.ts, a.ts <= b.te, b.ts = c.ts, a.ts < c.ts, b.te <= c.te](A a, B b, C c; 9)")
    lines = [line.strip() for line in given.explain().split("\n")]
    assert [line for line in lines if line.startswith("order")] == [
        "order     start(a) < start(b)",
        "order     start(b) <= start(c)",
        "order     start(c) <= start(b)",
        "order     end(b) <= end(c)",
    ]


def test_a_circle_in_where_never_matches() -> None:
    rows = [{"type": kind, "time": time} for kind in "AB" for time in range(3)]
    assert len(query("EVENT AND(A a, B b) WHERE a BEFORE b AND b BEFORE a").detect(rows, jit=False)) == 0


@pytest.mark.parametrize(
    ("text", "warned"),
    [
        ("EVENT REL[overlap](A a, B b)", True),
        ("EVENT SEQ(C c, ISEQ[start(a) < start(b)](A a, B b; 5))", True),
        ("EVENT ISEQ[start(a) < start(b)](A a, B b; 5)", False),
        ("EVENT REL[overlap](A a, B b) WITHIN 5", False),
        ("EVENT SEQ(A a, B b)", False),
    ],
)
def test_an_endless_stream_of_intervals_wants_a_window(text: str, *, warned: bool) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        query(text).stream(jit=False)
        query(text).stream(jit=False, endless=False)
    assert len(caught) == int(warned)
    assert all("without a window every interval" in str(one.message) for one in caught)
