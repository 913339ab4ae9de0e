"""Long patterns and long CASEs: generated code stays inside the limits of Python, or binding refuses them."""

from __future__ import annotations

import ast
from typing import Any

import pytest

import tocsin
from tocsin.engine.codegen.depth import DEEPEST, shallow
from tocsin.errors import QueryError
from tocsin.events import Event
from tocsin.testing.oracle import matches

BOTH = [False, pytest.param(True, marks=[pytest.mark.jit, pytest.mark.slow])]


def steps(count: int, first: int = 0) -> str:
    return ", ".join(f"T{i} t{i}" for i in range(first, first + count))


def rows(count: int) -> list[dict[str, object]]:
    """One event of each type in order, and a second one of every tenth."""
    events = [{"type": f"T{i}", "time": 2 * i, "id": 1, "v": i} for i in range(count)]
    return sorted(events + [{**events[i], "time": 2 * i + 1} for i in range(0, count, 10)], key=lambda row: row["time"])


@pytest.mark.parametrize("count", [20, 21, 40, 64, 80])
def test_a_sequence_of_many_steps(count: int) -> None:
    query = tocsin.query(f"EVENT SEQ({steps(count)}) WHERE [id] AND t1.v < t{count - 1}.v WITHIN 1000")
    query.check(rows(count))
    found = query.detect(rows(count), jit=False)
    assert len(found) == 2 ** len(range(0, count, 10))  # either event of every tenth type
    backwards = [{**row, "time": 1000 - row["time"]} for row in reversed(rows(count))]  # type: ignore[operator]
    assert len(query.detect(backwards, jit=False)) == 0


def test_more_steps_than_can_run_are_refused() -> None:
    query = tocsin.query(f"EVENT SEQ({steps(81)}) WITHIN 1000")
    for way in (query.check, query.detect):
        with pytest.raises(QueryError, match="81 steps, more than 80"):
            way(rows(81))


@pytest.mark.parametrize(
    "text",
    [
        "EVENT SEQ(T0 t0, !SEQ({inner}), T22 t22) WHERE t0.v < t5.v WITHIN 100",
        "EVENT SEQ(T0 t0, !AND({inner}), T22 t22) WITHIN 100",
        "EVENT AND(T0 t0, {inner}) WHERE t0.v <= t3.v WITHIN 100",
        "EVENT SEQ(T0 t0, {inner}, !T0 x) WITHIN 100",
        "EVENT SEQ(T0 t0, (SEQ({inner}))+ g, T22 t22) WITHIN 100",
        "EVENT SEQ(T0 t0, {inner}, T22 t22) WHERE t0.v < t22.v WITHIN 45",
    ],
)
@pytest.mark.parametrize("order", [None, "conservative(50)", "aggressive(50)"])
def test_deep_nests_of_every_kind(text: str, order: str | None) -> None:
    query = tocsin.query(text.format(inner=steps(21, 1)))
    for far in (None, 7):
        once = [row for row in rows(23) if row["time"] % 2 == 0]  # type: ignore[operator]
        events = [row for row in once if row["v"] != far] + [{**row, "time": 500} for row in once if row["v"] == far]
        given = [Event(str(e["type"]), e["time"], e["time"], n, {"id": 1, "v": e["v"]}) for n, e in enumerate(events)]  # type: ignore[arg-type]
        expected = len(matches(query.queries[0], given))
        options = {} if order is None else {"order": order}
        found = query.detect(events, jit=False, **options)
        assert sum(match.get("op", 1) for match in found) == expected


def test_explain_says_that_a_long_pattern_is_not_compiled() -> None:
    for count, way in ((24, "compiled by Numba"), (25, "plain Python: more than 24 steps")):
        assert way in tocsin.query(f"EVENT SEQ({steps(count)}) WITHIN 1000").explain(rows(count))
    query = tocsin.query(f"EVENT SEQ({steps(64)}) WHERE [id] WITHIN 1000")
    assert len(query.detect(rows(64), jit=True)) == 2**7


@pytest.mark.jit
@pytest.mark.slow
@pytest.mark.long
def test_a_deep_nest_is_compiled() -> None:
    query = tocsin.query(f"EVENT SEQ({steps(21)}) WHERE [id] WITHIN 1000")
    assert len(query.detect(rows(21))) == 8


@pytest.mark.parametrize("count", [100, 1000])
def test_a_case_of_many_branches(count: int) -> None:
    branches = " ".join(f"WHEN a.v + b.v = {i} THEN {i % 7}" for i in range(count))
    query = tocsin.query(f"EVENT SEQ(A a, B b) WHERE CASE {branches} ELSE 9 END = 3")
    events = [{"type": "A", "time": i, "v": i * 30} for i in range(40)] + [{"type": "B", "time": 100, "v": 5}]
    expected = [i for i in range(40) if i * 30 + 5 < count and (i * 30 + 5) % 7 == 3]
    query.check(events)
    assert sorted(match["a"]["start"] for match in query.detect(events, jit=False)) == expected


NESTS = {  # how deep each may be, and its text
    "CASE in THEN": (30, "CASE WHEN a.v = 1 THEN ", "1", " ELSE 2 END", " = 1"),
    "CASE in ELSE": (30, "CASE WHEN a.v = 7 THEN 3 ELSE ", "1", " END", " = 1"),
    "CASE in WHEN": (30, "CASE WHEN ", "a.v = 1", " THEN 1 ELSE 2 END = 1", ""),
    "truth = truth": (55, "(", "a.v = 1", ") = (a.v = 1)", ""),
    "truth IS NULL": (28, "((", "a.v = 1", ") = (a.v = 2)) IS NULL", " OR a.v = 1"),
    "IN": (5, "CASE WHEN ", "a.v", " IN (0, 1, 2) THEN 1 ELSE 2 END", " = 1"),
    "BETWEEN": (5, "CASE WHEN ", "a.v", " BETWEEN 0 AND 5 THEN 1 ELSE 2 END", " = 1"),
    "NOT IN": (5, "(", "a.v = 1", ") NOT IN (a.v = 2, a.v = 3)", ""),
    "nullif": (5, "nullif(", "a.v", ", 5)", " = 1"),
}


@pytest.mark.parametrize("nest", NESTS.values(), ids=NESTS)
@pytest.mark.parametrize("depth", [5, 28, 55])
@pytest.mark.parametrize("pattern", ["A a", "SEQ(A a, B b)"])
def test_nested_expressions_run_or_are_refused_at_binding(nest: tuple[Any, ...], depth: int, pattern: str) -> None:
    most, before, inner, after, last = nest
    text = f"EVENT {pattern} WHERE {before * depth}{inner}{after * depth}{last}"
    text = text if pattern == "A a" else text.replace("a.v", "(a.v + b.v)")
    rows = [{"type": "A", "time": 1, "v": 1}, {"type": "B", "time": 2, "v": 0}]
    if depth > most:
        with pytest.raises(QueryError, match=r"too large|too much|too deeply"):
            tocsin.query(text).check(rows)
        return
    query = tocsin.query(text)
    assert len(query.source(rows)) < 500_000  # a nest that doubles with each level has millions
    events = [Event(type, time, time, time, {"v": v}) for type, time, v in (("A", 1, 1), ("B", 2, 0))]
    assert len(query.detect(rows, jit=False)) == len(matches(query.queries[0], events))


def test_what_is_shallow_stays_as_it_is() -> None:
    assert shallow("x = 1\n") == "x = 1\n"
    deep = "def f(a, S):\n" + "".join("    " * (n + 1) + f"while a > {n}:\n" for n in range(40))
    text = shallow(deep + "    " * 41 + "a -= 1\n    return 0\n")
    assert [node.name for node in ast.parse(text).body] == ["f_inner_inner", "f_inner", "f"]  # type: ignore[attr-defined]
    assert max(line.index("while") // 4 for line in text.splitlines() if "while" in line) <= DEEPEST
