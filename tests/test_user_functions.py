"""Functions that users register: of one event or several, vectorised, compiled in or not, anywhere in a query."""

from __future__ import annotations

import functools
import math
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tocsin
from tests.effort import some
from tocsin.errors import FunctionError, QueryError, TocsinError
from tocsin.events import Event
from tocsin.functions import OURS, Function, function, machine_code, registered
from tocsin.lang.parser import parse
from tocsin.plan.bind import bind
from tocsin.plan.explain import explain
from tocsin.schema import Field, Kind, Schema
from tocsin.testing.agree import PLAIN, Bench, Trial
from tocsin.testing.harness import Harness
from tocsin.testing.modes import EVERY, Mode, run

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
        Function("near", machine_code(near), Kind.BOOL, 4, compiled=True),
        Function("apart", machine_code(apart), Kind.FLOAT, 2, compiled=True),
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
    trials = [Trial("ordered", Mode(jit=True)), Trial("any order", Mode("aggressive", jit=True, batch=2), shuffle=1)]
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
    assert Harness(QUERIES[name], SCHEMA, FUNCTIONS).start(jit=True).detector.compiled is compiled


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


# --- what a function gives, and what it may not ----------------------------------------------------------------------

PAIR = [
    *({"type": "A", "time": t, "v": t, "x": t / 2} for t in range(1, 5)),
    {"type": "B", "time": 9, "v": 3, "x": 0.0},
    {"type": "A", "time": 10, "v": None, "x": None},
]
BOTH = [False, pytest.param(True, marks=pytest.mark.jit)]


def answers(text: str, *, jit: bool) -> list[int]:
    return sorted(match["a"]["start"] for match in tocsin.query(text).detect(PAIR, jit=jit))


def refused(text: str, *, jit: bool) -> str:
    with pytest.raises(FunctionError) as caught:
        tocsin.query(text).detect(PAIR, jit=jit)
    return str(caught.value)


@pytest.mark.parametrize("jit", BOTH)
def test_python_means_python_whether_kernels_are_compiled_or_not(jit: bool, scratch: object) -> None:
    """Whole numbers have no end inside a function; a result that does not fit is null."""
    function(returns="bool", name="larger")(lambda x, y: x * 2**62 * y > 2**63)
    function(returns="int", name="huge")(lambda x: x << 61)
    function(returns="int", name="huge_pair")(lambda x, y: (x + 0 * y) << 61)
    assert answers("EVENT SEQ(A a, B b) WHERE larger(a.v, b.v)", jit=jit) == [1, 2, 3, 4]
    assert answers("EVENT SEQ(A a, B b) WHERE huge(a.v) > 0", jit=jit) == [1, 2, 3]
    assert answers("EVENT SEQ(A a, B b) WHERE huge_pair(a.v, b.v) IS NULL", jit=jit) == [4]


@pytest.mark.parametrize("jit", BOTH)
@pytest.mark.parametrize("compiled", [False, True])
def test_none_is_null_and_an_exception_is_one_error(jit: bool, compiled: bool, scratch: object) -> None:
    @function(returns="bool", compiled=compiled)
    def maybe(x: float, y: float) -> bool | None:
        if x > 2:
            return None
        return x < y

    @function(returns="float", compiled=compiled)
    def ratio(x: float, y: float) -> float:
        return x / y

    assert answers("EVENT SEQ(A a, B b) WHERE maybe(a.v, b.v)", jit=jit) == [1, 2]
    assert answers("EVENT SEQ(A a, B b) WHERE maybe(a.v, b.v) IS NULL", jit=jit) == [3, 4]
    said = refused("EVENT SEQ(A a, B b) WHERE ratio(a.v, b.x) > 0 AND a.v = 1", jit=jit)
    assert "ratio(1, 0.0) raised ZeroDivisionError" in said


@pytest.mark.parametrize("jit", BOTH)
@pytest.mark.parametrize(
    ("returns", "value"),
    [("bool", "yes"), ("bool", 2), ("int", 1.7), ("int", math.nan), ("int", True), ("float", "1"), ("text", 5),
     ("text", "\ud800")],
)  # fmt: skip
def test_a_result_of_another_kind_is_an_error(returns: str, value: object, jit: bool, scratch: object) -> None:
    function(returns=returns, name="one")(lambda x: value)
    function(returns=returns, name="two")(lambda x, y: value)
    for call in ("one(a.v)", "two(a.v, b.v)"):
        said = refused(f"EVENT SEQ(A a, B b) WHERE {call} IS NULL", jit=jit)
        assert f"gave {value!r}, but was registered for {returns}" in said
    assert f"gave {value!r}" in refused_in_select("one(a.v)")


def refused_in_select(call: str) -> str:
    with pytest.raises(FunctionError) as caught:
        tocsin.query(f"EVENT SEQ(A a, B b) SELECT {call} AS x").detect(PAIR, jit=False).to_pandas()
    return str(caught.value)


@pytest.mark.parametrize("jit", BOTH)
@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda x: [True], "shape (1,) for arrays of 5"),
        (lambda x: True, "shape () for arrays of 5"),
        (lambda x: [True] * (len(x) + 5), "shape (10,) for arrays of 5"),
        (lambda x: np.ones((len(x), 2)), "shape (5, 2)"),
        (lambda x: x * 1.5, "gave 1.5, but was registered for bool"),
        (lambda x: 1 // 0, "ZeroDivisionError"),
        (lambda x: x.__setitem__(0, 9), "read-only"),
    ],
)
def test_a_vectorised_function_gives_one_value_for_each(
    call: Callable[[Any], Any], said: str, jit: bool, scratch: object
) -> None:
    function(returns="bool", name="vector", vectorised=True)(call)
    assert said in refused("EVENT SEQ(A a, B b) WHERE vector(a.v)", jit=jit)


@pytest.mark.parametrize("jit", BOTH)
def test_a_vectorised_function_sees_arrays_without_nulls_everywhere(jit: bool, scratch: object) -> None:
    seen = []

    @function(returns="int", vectorised=True)
    def doubled(x: Any) -> Any:
        seen.append(x)
        return [None if each == 2 else 2 * each for each in x.tolist()]

    assert answers("EVENT SEQ(A a, B b) WHERE doubled(a.v) > 2", jit=jit) == [3, 4]
    assert answers("EVENT SEQ(A a, B b) WHERE doubled(a.v + 1) > 4", jit=jit) == [2, 3, 4]
    assert answers("EVENT SEQ(A a, B b) WHERE doubled(a.v + b.v) = 8", jit=jit) == [1]
    assert all(isinstance(each, np.ndarray) and each.dtype == np.int64 for each in seen)


def test_after_an_exception_a_session_answers_no_more(scratch: object) -> None:
    function(returns="bool", name="fails")(lambda x, y: 1 // (x - 2) + y > 0)
    session = tocsin.query("EVENT SEQ(A a, B b) WHERE fails(a.v, b.v) WITHIN 100").stream(jit=False)
    for event in PAIR[:4]:
        session.push(event)
    for _ in range(2):
        with pytest.raises(FunctionError, match=r"fails\(2, 3\) raised ZeroDivisionError"):
            session.push(PAIR[4])


@pytest.mark.jit
def test_what_numba_cannot_compile_is_an_error_that_says_so(scratch: object) -> None:
    function(returns="bool", name="looked", compiled=True)(lambda x, y: GROUPS[str(x)] > y)
    function(returns="bool", name="wrong", compiled=True)(lambda x, y: x + y)
    assert "looked() cannot be compiled" in refused("EVENT SEQ(A a, B b) WHERE looked(a.v, b.v)", jit=True)
    assert "gives int64 when compiled" in refused("EVENT SEQ(A a, B b) WHERE wrong(a.v, b.v)", jit=True)


def test_what_can_be_registered(scratch: object) -> None:
    for call in (len, functools.partial(pow, 2)):
        function(returns="int", name="fine")(call)
        assert registered()["fine"].arity == 1
    for call in (int, max):
        with pytest.raises(TocsinError):
            function(returns="int")(call)
    with pytest.raises(TocsinError, match="cannot be the name"):
        function(returns="int")(functools.partial(pow, 2))
    with pytest.raises(TocsinError, match="function of the language"):
        function(returns="float")(math.sqrt)
    with pytest.raises(TocsinError, match="cannot return"):
        function(returns="decimal", name="fine")(len)


def test_the_names_of_the_language_are_not_for_users() -> None:
    from tocsin.lang.syntax import AGGREGATES
    from tocsin.plan.calls import BUILT_IN
    from tocsin.plan.points_in_time import PARTS, TIMESTAMP

    names = (*BUILT_IN, *AGGREGATES, *PARTS, TIMESTAMP)
    called = {name for name in names if name.isidentifier()}  # the others are no names
    assert {*called, "start", "end", "type", "eid"} == OURS


@pytest.mark.parametrize("jit", BOTH)
def test_names_are_taken_as_they_are_written(jit: bool, scratch: object) -> None:
    """Python would take the ligature for the two letters."""
    function(returns="bool", name="\ufb01", compiled=True)(lambda x, y: x < y)
    function(returns="bool", name="fi", compiled=True)(lambda x, y: x > y)
    assert answers("EVENT SEQ(A a, B b) WHERE \ufb01(a.v, b.v)", jit=jit) == [1, 2]
    assert answers("EVENT SEQ(A a, B b) WHERE fi(a.v, b.v)", jit=jit) == [4]


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
    assert run(parse("EVENT SEQ(A a, B b) WHERE wide(b.x)"), events(), Mode(), schema=SCHEMA, functions=functions)
    assert any(len(shape) == 1 and shape[0] > 1 for shape in shapes)


def test_explain_says_which_body_runs() -> None:
    plan = Harness(QUERIES["several events, not compilable"], SCHEMA, FUNCTIONS).plan
    assert "same_group" in explain(plan)


def test_explain_says_how_a_query_runs() -> None:
    @function(returns="bool", name="looked_up")
    def looked_up(x: float, y: float) -> bool:
        return len(f"{abs(x - y):.3f}") < 9

    @function(returns="bool", name="computed", compiled=True)
    def computed(x: float, y: float) -> bool:
        return abs(x - y) < 2

    def explained(name: str) -> str:
        return tocsin.query(f"EVENT SEQ(A a, B b) WHERE {name}(a.v, b.v)").explain({"*": {"v": "float"}})

    assert "plain Python: looked_up() of several events is not compiled" in explained("looked_up")
    assert "compiled by Numba, with computed inside" in explained("computed")


def test_a_query_that_runs_again_is_bound_to_what_there_is_then():
    """The same text over other kinds of columns, and with a function that was registered anew."""
    rows = [{"type": "A", "time": 1, "v": 5}, {"type": "B", "time": 2, "v": 3}]
    texts = [{**row, "v": str(row["v"])} for row in rows]
    query = tocsin.query("EVENT SEQ(A a, B b) WHERE again(a.v, b.v) WITHIN 9")
    for answer in (True, False, True):
        function(name="again", returns="bool")(lambda a, b, answer=answer: answer and type(a) is type(b))
        for given in (rows, texts, rows[:1], rows):
            wanted = int(answer and len(given) == 2)
            assert len(query.detect(given, jit=False)) == wanted
            assert len(pickle.loads(pickle.dumps(query)).detect(given, jit=False)) == wanted
