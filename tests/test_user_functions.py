"""Functions that users register: of one event or several, vectorised, compiled in or not, anywhere in a query."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tocsin
from tests.effort import some
from tocsin.engine.detector import Detector
from tocsin.errors import QueryError, TocsinError
from tocsin.events import Event
from tocsin.functions import Function, function, registered
from tocsin.items import Strings
from tocsin.lang.parser import parse
from tocsin.plan.bind import bind
from tocsin.plan.explain import explain
from tocsin.plan.facts import types_of
from tocsin.plan.passes import optimize
from tocsin.schema import Field, Kind, Schema
from tocsin.testing.agree import PLAIN, Bench, Trial
from tocsin.testing.modes import EVERY, Mode

SCHEMA = Schema(
    types={"A": {}, "B": {}, "C": {}},
    common={
        "x": Field("x", Kind.FLOAT),
        "y": Field("y", Kind.FLOAT),
        "n": Field("n", Kind.INT),
        "s": Field("s", Kind.TEXT),
    },
)

GROUPS = {"x": 1, "y": 1, "z": 2}


def hot(x: Any) -> Any:
    return x > 0.5


def long_name(s: str) -> bool:
    return len(s) > 1


def near(x1: float, y1: float, x2: float, y2: float) -> bool:
    return (x1 - x2) ** 2 + (y1 - y2) ** 2 <= 1.0


def apart(m: int, n: int) -> float:
    return abs(m - n) / 2


def same_group(s: str, t: str) -> bool:
    return GROUPS.get(s, 0) == GROUPS.get(t, 0)


def shout(s: str) -> str:
    return s.upper()


def both_known(x: float | None, y: float | None) -> bool:
    return x is not None and y is not None


def picky(n: float) -> bool:
    return GROUPS["z"] > int(n) % 3


def picky_pair(m: float, n: float) -> bool:
    """Numba knows no dict of the module."""
    return m + n > 2 * GROUPS["x"]


FUNCTIONS = {
    each.name: each
    for each in (
        Function("hot", hot, Kind.BOOL, 1, vectorised=True),
        Function("long_name", long_name, Kind.BOOL, 1),
        Function("near", near, Kind.BOOL, 4),
        Function("apart", apart, Kind.FLOAT, 2),
        Function("same_group", same_group, Kind.BOOL, 2),
        Function("shout", shout, Kind.TEXT, 1),
        Function("both_known", both_known, Kind.BOOL, 2, nulls=True),
        Function("picky", picky, Kind.BOOL, 1),
        Function("picky_pair", picky_pair, Kind.BOOL, 2),
    )
}


def events() -> list[Event]:
    rows: list[tuple[str, int, float | None, float | None, int | None, str | None]] = [
        ("A", 1, 0.0, 0.0, 1, "x"),
        ("A", 2, 0.9, None, 2, "yy"),
        ("B", 2, 0.2, 0.5, 3, "y"),
        ("C", 3, 0.7, 0.1, None, "z"),
        ("B", 3, None, 0.0, 4, None),
        ("C", 4, 0.4, 0.4, 2, "x"),
        ("B", 5, 0.6, 0.9, 0, "zz"),
        ("A", 5, 0.1, 0.8, 5, "z"),
        ("B", 6, 5.0, 5.0, 1, "x"),
        ("C", 7, 0.9, 0.9, 9, "y"),
        ("B", 8, 0.8, 0.0, 7, "z"),
    ]
    return [Event(t, at, at, eid, {"x": x, "y": y, "n": n, "s": s}) for eid, (t, at, x, y, n, s) in enumerate(rows)]


# fmt: off
QUERIES = {
    "vectorised, one event": "EVENT SEQ(A a, B b) WHERE hot(b.x)",
    "vectorised, at a leaf": "EVENT SEQ(A a, (B b : hot(b.y)))",
    "scalar, one event": "EVENT SEQ(A a, B b) WHERE long_name(a.s)",
    "a text as result": "EVENT SEQ(A a, B b) WHERE shout(a.s) = 'X' OR shout(b.s) = shout(a.s)",
    "several events, compilable": "EVENT SEQ(A a, B b) WHERE near(a.x, a.y, b.x, b.y)",
    "a number as result": "EVENT SEQ(A a, B b) WHERE apart(a.n, b.n) > 0.5 AND apart(b.n, a.n) + 1 < 4",
    "several events, not compilable": "EVENT SEQ(A a, B b) WHERE same_group(a.s, b.s)",
    "not compilable, of numbers": "EVENT SEQ(A a, B b) WHERE picky_pair(a.n, b.n)",
    "not compilable, one event": "EVENT SEQ(A a, B b) WHERE picky(b.n)",
    "nulls": "EVENT SEQ(A a, B b) WHERE NOT both_known(a.y, b.x)",
    "under negation, compilable": "EVENT SEQ(A a, !C c, B b) WHERE near(a.x, a.y, c.x, c.y)",
    "under negation, not compilable": "EVENT SEQ(A a, !(C c : same_group(c.s, a.s)), B b) WITHIN 5",
    "under negation, one event": "EVENT SEQ(A a, !C c, B b) WHERE hot(c.x)",
    "under a trailing negation": "EVENT SEQ(A a, !B b) WHERE near(a.x, a.y, b.x, b.y) WITHIN 4",
    "under a nested negation": "EVENT SEQ(A a, !SEQ(B b, !(C c : same_group(a.s, c.s)), B d), B e) WITHIN 6",
    "repetition, compilable": "EVENT SEQ(A a, B+ b, C c) WHERE near(a.x, a.y, b.x, b.y)",
    "repetition, not compilable": "EVENT SEQ(A a, B+ b, C c) WHERE same_group(a.s, b.s)",
    "repetition, one event": "EVENT SEQ(A a, B+ b, C c) WHERE hot(b.y)",
    "of an aggregate": "EVENT SEQ(A a, B+ b, C c) WHERE apart(sum(b.n), c.n) >= 0.5 AND picky_pair(count(b), a.n)",
    "in an OR": "EVENT OR(SEQ(A a, B b), SEQ(A a, C c)) WHERE near(a.x, a.y, b.x, b.y) OR same_group(a.s, c.s)",
    "in SELECT": "EVENT SEQ(A a, B b) SELECT near(a.x, a.y, b.x, b.y) AS c, shout(a.s) AS s, apart(a.n, b.n) AS far",
}
# fmt: on


# those whose functions meet the compiler, in each place once
WITH_COMPILER = [
    "vectorised, one event", "a text as result", "several events, compilable", "a number as result", "nulls",
    "several events, not compilable", "under negation, compilable", "under a nested negation", "repetition, compilable",
    "of an aggregate",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("text", QUERIES.values(), ids=QUERIES)
def test_every_plain_mode(text: str) -> None:
    bench = Bench(parse(text), SCHEMA, FUNCTIONS)
    assert bench.oracle(events())
    assert bench.disagreement(events(), PLAIN) is None


@pytest.mark.jit
@pytest.mark.slow
@pytest.mark.parametrize("name", some(WITH_COMPILER, least=3))
def test_with_the_compiler_on(name: str) -> None:
    trials = [Trial("ordered", Mode(jit=True)), Trial("any order", Mode(jit=True, ordered=False, batch=2), shuffle=1)]
    assert Bench(parse(QUERIES[name]), SCHEMA, FUNCTIONS).disagreement(events(), trials) is None


@pytest.mark.jit
@pytest.mark.slow
def test_a_restart_with_a_function_compiled_in() -> None:
    bench = Bench(parse(QUERIES["several events, compilable"]), SCHEMA, FUNCTIONS)
    assert bench.disagreement(events(), [Trial("restarted", Mode(jit=True, batch=6, restart=EVERY))]) is None


# --- which body runs -----------------------------------------------------------------------------------------------

COMPILED = ["vectorised, one event", "scalar, one event", "several events, compilable", "under negation, compilable",
            "repetition, compilable", "repetition, one event", "not compilable, one event"]  # fmt: skip
NOT_COMPILED = ["several events, not compilable", "not compilable, of numbers", "under negation, not compilable",
                "repetition, not compilable"]  # fmt: skip


@pytest.mark.parametrize(("name", "compiled"), [*((n, True) for n in COMPILED), *((n, False) for n in NOT_COMPILED)])
def test_only_what_cannot_be_compiled_runs_the_plain_body(name: str, compiled: bool) -> None:
    plan = optimize(bind(parse(QUERIES[name]), SCHEMA, FUNCTIONS))
    detector = Detector(plan, types_of(plan), Strings(), jit=True, functions=FUNCTIONS)
    assert detector.compiled is compiled


# --- registering ---------------------------------------------------------------------------------------------------


@pytest.fixture
def scratch() -> Iterator[Callable[[], None]]:
    """Whatever a test registers is forgotten afterwards."""
    from tocsin import functions

    before = dict(functions._registered)
    yield lambda: None
    functions._registered.clear()
    functions._registered.update(before)


def test_registered_functions_are_found_by_name(scratch: object) -> None:
    @function(returns="bool")
    def Close_To(x: float, y: float) -> bool:
        return math.isclose(x, y, abs_tol=0.2)

    assert registered()["close_to"].arity == 2
    query = parse("EVENT SEQ(A a, B b) WHERE close_to(a.x, b.x)")
    bench = Bench(query, SCHEMA, registered())
    assert bench.disagreement(events()) is None
    assert len(bench.oracle(events())) == 2


def test_a_wrong_name_number_or_kind_is_an_error(scratch: object) -> None:
    with pytest.raises(QueryError, match="unknown function naer"):
        bind(parse("EVENT A a WHERE naer(a.x)"), SCHEMA, FUNCTIONS)
    with pytest.raises(QueryError, match="takes 4 arguments"):
        bind(parse("EVENT A a WHERE near(a.x)"), SCHEMA, FUNCTIONS)
    with pytest.raises(QueryError, match="true or false"):
        bind(parse("EVENT A a WHERE apart(a.n, a.n)"), SCHEMA, FUNCTIONS)
    with pytest.raises(TocsinError, match="cannot be the name"):
        function(returns="int", name="not a name")(lambda: 1)


def test_a_null_argument_gives_null_without_a_call() -> None:
    calls = []

    def noted(x: float, y: float) -> bool:
        calls.append((x, y))
        return True

    functions = {"noted": Function("noted", noted, Kind.BOOL, 2)}
    query = parse("EVENT SEQ(A a, B b) WHERE noted(a.x, b.x) IS NULL")
    bench = Bench(query, SCHEMA, functions)
    assert bench.disagreement(events(), [Trial("plain", Mode())]) is None
    assert calls and not any(x is None or y is None for x, y in calls)


def test_a_vectorised_function_gets_whole_columns() -> None:
    shapes = []

    def wide(x: Any) -> Any:
        shapes.append(np.shape(x))
        return x > 0

    functions = {"wide": Function("wide", wide, Kind.BOOL, 1, vectorised=True)}
    plan = optimize(bind(parse("EVENT SEQ(A a, B b) WHERE wide(b.x)"), SCHEMA, functions))
    from tocsin.testing.modes import changes, net

    assert net(changes(plan, events(), Mode(), functions=functions))
    assert any(len(shape) == 1 and shape[0] > 1 for shape in shapes)


def test_explain_says_which_body_runs() -> None:
    plan = optimize(bind(parse(QUERIES["several events, not compilable"]), SCHEMA, FUNCTIONS))
    assert "same_group" in explain(plan)


def test_explain_says_how_a_query_runs() -> None:
    @function(returns="bool", name="looked_up")
    def looked_up(x: float, y: float) -> bool:
        return len(f"{abs(x - y):.3f}") < 9

    @function(returns="bool", name="computed")
    def computed(x: float, y: float) -> bool:
        return abs(x - y) < 2

    def explained(name: str) -> str:
        return tocsin.query(f"EVENT SEQ(A a, B b) WHERE {name}(a.v, b.v)").explain({"*": {"v": "float"}})

    assert "plain Python: looked_up() of several events cannot be compiled" in explained("looked_up")
    assert "compiled by Numba, with computed inside" in explained("computed")
