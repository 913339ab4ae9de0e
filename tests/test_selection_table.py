"""Every construct that chooses among matches, in every way to run: each cell of the table is what the oracle says.

The rows are in `tests/selection_table.py`; Spark's columns in `tests/test_spark_selection.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import cycle, pairwise
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import tocsin
from tests.effort import is_long, some
from tests.selection_table import CONSTRUCTS, CORRECTING, EVENTS, LATE, Row, defined, rows_of, text_of, told
from tests.shard_support import arranged
from tocsin.app.judge import judge
from tocsin.lang.parser import parse
from tocsin.lang.printer import print_query
from tocsin.run import answers, feeds, pace
from tocsin.run.session import Session
from tocsin.testing.cases import flat, oracle_answer, written
from tocsin.testing.notation import events_of, history

pytestmark = [
    pytest.mark.filterwarnings(
        "ignore::tocsin.errors.TocsinWarning"
    ),  # what is kept for ever, what a limit cannot hold
]
SCHEMA = {"*": {"id": "int", "v": "int", "eid": "int"}}
ROWS = rows_of(EVENTS)


@cache
def expected(name: str) -> Counter[Row]:
    return defined(name, EVENTS)


# --- ways: each takes a query and a source of chance, and gives its answers one after the other ----------------------


def finite(**options: Any) -> Callable[[tocsin.Query, Random], Iterator[dict[str, Any]]]:
    def run(query: tocsin.Query, random: Random) -> Iterator[dict[str, Any]]:
        rows = list(ROWS) if "order" not in options else delivered(random)
        yield from query.detect(pa.Table.from_pylist(rows), eid="eid", **{"jit": False, **options})

    return run


def live(
    order: str, *, most: int = 1, restarts: bool = False, **options: Any
) -> Callable[[tocsin.Query, Random], Iterator[dict[str, Any]]]:
    """Pushed in pieces of up to `most` events; saved and taken up again in a new session before each of them."""

    def run(query: tocsin.Query, random: Random) -> Iterator[dict[str, Any]]:
        rows = list(ROWS) if order == "in-order" else delivered(random)

        def session(state: bytes | None = None) -> Session:
            return query.stream(
                eid="eid", order=order, endless=False, jit=False, schema=SCHEMA, state=state, **options
            )  # fmt: skip

        running = session()
        for piece in cut(rows, most, random):
            if restarts:
                running = session(running.save())
            yield from running.push(piece[0] if len(piece) == 1 else piece)
            assert not running.late
        yield from session(running.save()).close() if restarts else running.close()

    return run


def delivered(random: Random) -> list[dict[str, Any]]:
    """The rows as they arrive where none is later than `LATE`."""
    return rows_of(arranged(EVENTS, LATE, random))


def cut(rows: Sequence[Any], most: int, random: Random) -> list[Sequence[Any]]:
    places = [0]
    while places[-1] < len(rows):
        places.append(min(len(rows), places[-1] + random.randint(1, most)))
    return [rows[first:stop] for first, stop in pairwise(places)]


WAYS = {
    "one thread": finite(threads=1),
    "three threads": finite(threads=3),
    "as it comes": finite(order=f"aggressive({LATE})"),
    "live": live("in-order"),
    "live, in pieces": live("in-order", most=9),
    "live, restored": live("in-order", most=9, restarts=True),
    **{
        f"{order.partition('(')[0]}{', restored' if restarts else ''}": live(
            order, most=9 if restarts else 3, restarts=restarts
        )
        for order in (f"slack({LATE})", *CORRECTING)
        for restarts in (False, True)
    },
    "immediate": live(f"aggressive({LATE}, trailing=immediate)"),
    "spilled": live(f"aggressive({LATE})", memory_limit=300),
    "spilled, held, restored": live(f"conservative({LATE})", most=7, restarts=True, memory_limit=300),
}
COMPILED = {
    "compiled": finite(jit=True, threads=3),
    "compiled, live": live("in-order", most=9),
    "compiled, corrected": live(f"aggressive({LATE})", most=5),
}


@pytest.fixture(autouse=True)
def several_threads_share_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "ROWS_PER_CHUNK", 11)
    monkeypatch.setattr(feeds, "MANY", 1)
    monkeypatch.setattr(answers, "WORTH_A_THREAD", 3)


def ways_of(name: str) -> list[str]:
    """All ways at length; else one, so that each construct and each way has its turn."""
    ways, number = list(WAYS), list(CONSTRUCTS).index(name)
    return ways if is_long() else [ways[number * 5 % len(ways)]]


CELLS = [(name, way) for name in CONSTRUCTS for way in ways_of(name)]


def test_the_stream_has_something_for_each_construct() -> None:
    assert [name for name in CONSTRUCTS if not expected(name)] == []


@pytest.mark.parametrize(("name", "way"), CELLS)
def test_each_construct_means_the_same_in_each_way(name: str, way: str) -> None:
    found = told(name, WAYS[way](tocsin.query(text_of(name)), Random(f"{name} {way}")))
    assert found == expected(name)


def test_repetitions_without_members_in_one_piece_and_with_some_in_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """A piece of the result in which nobody shows an eid knows nothing of its kind."""
    monkeypatch.setattr(pace, "ROWS_PER_CHUNK", 2)
    rows = [{"type": type, "time": time, "eid": time} for time, type in enumerate("ACABC")]
    found = tocsin.query("SEQ(A a, B* b, C c) WITHIN 2").detect(rows, eid="eid", order="aggressive", jit=False)
    assert [[event["eid"] for event in match["b"]] for match in found] == [[], [3]]


@pytest.mark.long
@pytest.mark.jit
@pytest.mark.parametrize(("name", "way"), list(zip(CONSTRUCTS, cycle(COMPILED), strict=False)))
def test_each_construct_means_the_same_compiled(name: str, way: str) -> None:
    found = told(name, COMPILED[way](tocsin.query(text_of(name)), Random(f"{name} {way}")))
    assert found == expected(name)


@pytest.mark.parametrize("name", CONSTRUCTS)
def test_each_construct_is_printed_said_in_python_and_explained(name: str) -> None:
    query, construct = parse(text_of(name)), CONSTRUCTS[name]
    assert parse(print_query(query)) == query
    assert construct.python == query
    assert parse(str(construct.python)) == query
    assert construct.says in tocsin.query(query).explain({"*": {"id": "int", "v": "int"}})


def test_each_construct_is_judged_in_case_files(tmp_path: Path) -> None:
    """What the oracle finds is written as a case, and both the definition and the engine are put to it."""
    text = " ".join(f"{e.type}@{e.end}#{e.eid}{{id={e.attrs['id']},v={e.attrs['v']}}}" for e in EVENTS)
    events, lines = events_of(history(text)), list[str]()
    names = some(list(CONSTRUCTS), least=12)
    for name in names:
        query = parse(text_of(name))
        found = flat([query], oracle_answer([query], events, {}))
        assert len(found) == expected(name).total()
        lines += ["query", text_of(name), "stream", text, "----", *(written(match, events) for match in found)]
    (tmp_path / "all.case").write_text("\n".join(lines))
    verdicts = [verdict for _, some in judge(tmp_path / "all.case", jit=False) for verdict in some]
    assert len(verdicts) == 2 * len(names)
    assert [str(verdict) for verdict in verdicts if not verdict.ok] == []


@pytest.mark.parametrize(
    ("text", "message", "place", "hint"),
    [
        ("SEQ(NEXT A a, B b)", "NEXT has nothing before it", "NEXT A a", "leave it out here"),
        ("AND(A a, FIRST B b)", "FIRST cannot stand directly under AND", "FIRST B b", "before an item of SEQ"),
        (
            "SEQ(A a, B b) STRATEGY next CONSUME first",
            "CONSUME and STRATEGY do not go",
            "CONSUME",
            "leave one of them out",
        ),
        ("SEQ(A a, B b) AFTER MATCH SKIP TO LAST z", "unknown variable z", "z", "variables of this query are a, b"),
        ("SEQ(A a, B b) TIMEOUT", "TIMEOUT without WITHIN", "TIMEOUT", "WITHIN 5 min TIMEOUT"),
        ("AND(A a, B b) WITHIN 5 TIMEOUT", "TIMEOUT stands with a SEQ", "AND", "SEQ(A a, B b)"),
        ("SEQ(A a, B b UNTIL b.v > 1)", "UNTIL stands behind a repetition only", "UNTIL", "B+ b UNTIL"),
    ],
)
def test_what_means_nothing_is_refused_with_its_place_and_what_to_do(
    text: str, message: str, place: str, hint: str
) -> None:
    """The wrong uses that come to mind first; many counted matches are refused in tests/test_counting.py."""
    with pytest.raises(tocsin.QueryError) as caught:
        tocsin.query(f"EVENT {text}").check()
    (problem,) = caught.value.problems
    assert message in problem.message
    assert problem.hint is not None and hint in problem.hint
    assert problem.span is not None and f"EVENT {text}"[problem.span.start :].startswith(place)
