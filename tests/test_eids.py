"""eid(x): in results and in conditions, in every mode, of whole numbers, texts, computed eids and matches."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest

import tocsin
from tests.drawn import in_chunks, pairs_of
from tocsin.errors import InputError, QueryError, TocsinError
from tocsin.testing.agree import COMPILED, PLAIN, Bench
from tocsin.testing.draw_eids import with_eids
from tocsin.testing.strategies import pair

CHUNKS = 8
QUERIES = 25  # in each chunk


@pytest.mark.slow
@in_chunks(CHUNKS)
def test_every_mode_agrees_about_eids(chunk: int) -> None:
    for drawn in pairs_of(chunk, QUERIES, leaves=4):
        query, schema = with_eids(drawn.random, drawn.query, drawn.events)
        assert Bench(query, schema).disagreement(drawn.events, PLAIN) is None, f"seed {drawn.seed}: {query}"


@pytest.mark.jit
@pytest.mark.parametrize("seed", [pytest.param(3, marks=pytest.mark.long), 21])  # with numbers, with texts
def test_compiled_modes_agree_about_eids(seed: int) -> None:
    random = Random(seed)
    drawn, events = pair(random, leaves=3)
    query, schema = with_eids(random, drawn, events)
    assert Bench(query, schema).disagreement(events, COMPILED) is None


ROWS = [("A", 1, 5), ("A", 1, 2), ("B", 3, 7), ("B", 3, 1), ("A", 4, 9), ("B", 5, 8)]
QUERY = "EVENT SEQ(A a, B b) WHERE eid(a) IN ({}, {}) AND eid(a) < b.eid WITHIN 9 SELECT eid(a) AS one, b.eid AS two"
PAIRS = {(2, 7), (2, 8), (5, 7), (5, 8)}  # by definition: 2 or 5 before a larger one


def rows(column: str, *, text: bool = False) -> list[dict[str, Any]]:
    return [{"type": type, "time": time, column: f"{eid}" if text else eid} for type, time, eid in ROWS]


def pairs(found: Any, *, text: bool = False) -> set[tuple[Any, Any]]:
    assert all(type(match["one"]) is (str if text else int) for match in found)
    return {(int(match["one"]), int(match["two"])) for match in found}


def asked(*, text: bool) -> Any:
    return tocsin.query(QUERY.format(*(("'2'", "'5'") if text else (2, 5))))


@pytest.mark.parametrize("order", ["in-order", "slack(9)", "any"])
@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize("column", ["eid", "row"])
def test_eids_are_numbers_or_texts_under_any_name(column: str, text: bool, order: str) -> None:
    found = asked(text=text).detect(rows(column, text=text), eid=column, jit=False, order=order)
    assert pairs(list(found), text=text) == PAIRS


@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize("column", ["eid", "row"])
def test_single_events_and_a_restart(column: str, text: bool) -> None:
    query, found, state = asked(text=text), [], None
    for row in rows(column, text=text):
        session = query.stream(eid=column, jit=False, state=state)
        found += session.push(row)
        state = session.save()
    assert pairs(found, text=text) == PAIRS
    session, found = query.stream(eid=column, jit=False), []
    for row in rows(column, text=text):
        found += session.push(row)
    assert pairs(found, text=text) == PAIRS


@pytest.mark.parametrize("type", [pa.int32(), pa.uint64(), pa.dictionary(pa.int32(), pa.string()), pa.large_string()])
def test_eids_of_every_arrow_type(type: pa.DataType) -> None:
    text = not pa.types.is_integer(type)
    table = pa.Table.from_pylist(rows("eid", text=text))
    table = table.set_column(2, "eid", table.column("eid").combine_chunks().cast(type))
    assert pairs(list(asked(text=text).detect(table, jit=False)), text=text) == PAIRS
    shown = tocsin.query("EVENT A a SELECT eid(a) AS one").detect(table, jit=False)
    assert [match["one"] for match in shown] == (["5", "2", "9"] if text else [5, 2, 9])


def test_a_column_called_eid_that_is_something_else_is_not_read() -> None:
    given = [{**row, "eid": "x"} for row in rows("row")]
    query = tocsin.query(QUERY.format(2, 5).replace("b.eid", "eid(b)"))
    assert pairs(list(query.detect(given, eid="row", jit=False))) == PAIRS
    with pytest.raises(QueryError, match="could mean the input column eid"):
        asked(text=False).detect(given, eid="row", jit=False)


def test_computed_eids_are_shown_as_events_show_them() -> None:
    given = [{"type": type, "time": time, "v": eid} for type, time, eid in ROWS]
    shown = tocsin.query("EVENT SEQ(A a, B b) WITHIN 9 SELECT eid(a) AS one, upper(b.eid) AS two").detect(
        given, jit=False
    )
    whole = tocsin.query("EVENT SEQ(A a, B b) WITHIN 9").detect(given, jit=False)
    expected = {match["match_id"]: (match["a"]["eid"], match["b"]["eid"].upper()) for match in whole}
    assert {match["match_id"]: (match["one"], match["two"]) for match in shown} == expected
    with pytest.raises(QueryError, match="only where the input has an eid column"):
        tocsin.query("EVENT A a WHERE eid(a) = 'x'").detect(given, jit=False)


@pytest.mark.parametrize("order", ["in-order", "slack(2)", "conservative(2)"])
@pytest.mark.parametrize(
    "text",
    [
        "EVENT A a",
        "EVENT OR(A a, B b)",
        "EVENT SEQ(A a, B b) WITHIN 10",
        "EVENT SEQ(A a, !C c, B b) WHERE [k] WITHIN 10",
        "EVENT SEQ(A a, B+ b, C c) WITHIN 10",
    ],
)
def test_equal_rows_are_told_apart_over_a_restart(text: str, order: str) -> None:
    """The eid of a row without one counts equal rows before it: also those that nothing was stored of."""
    query, times = tocsin.query(text), [("A", 1), ("A", 1), ("B", 3), ("B", 3), ("A", 3), ("C", 4), ("C", 4), ("B", 4)]
    rows = [{"type": type, "time": time, "k": 1} for type, time in times]
    wanted = sorted(match["match_id"] for match in query.detect(rows, jit=False))
    assert len(wanted) > 2
    for cut in (1, 3, 6):  # between rows that are equal
        session = query.stream(order=order, jit=False)
        found = list(session.push(rows[:cut]))
        session = query.stream(order=order, jit=False, state=session.save())
        found += [*session.push(rows[cut:]), *session.close()]
        assert sorted(match["match_id"] for match in found) == wanted


def test_kinds_are_checked() -> None:
    with pytest.raises(QueryError, match="text"):
        asked(text=True).detect(rows("eid"), jit=False)
    with pytest.raises(QueryError, match="one variable"):
        tocsin.query("EVENT A a WHERE eid(a.x) = 1").detect(rows("eid"), jit=False)
    with pytest.raises(QueryError, match="repeated"):
        tocsin.query("EVENT SEQ(A a, B+ b) WITHIN 9 SELECT eid(b) AS x").detect(rows("eid"), jit=False)


def test_a_declared_schema_says_what_eids_are() -> None:
    schema = {"A": {}, "B": {}, "*": {"eid": "int"}}
    session = asked(text=False).stream(schema=schema, jit=False)
    assert pairs([match for row in rows("eid") for match in session.push(row)]) == PAIRS
    assert pairs(list(asked(text=False).detect(rows("eid"), schema={"A": {}, "B": {}}, jit=False))) == PAIRS
    with pytest.raises(QueryError, match="only where the input has an eid column"):
        asked(text=False).stream(schema={"A": {}, "B": {}}, jit=False)
    with pytest.raises(InputError, match="an eid cannot be float"):
        asked(text=False).stream(schema={"*": {"eid": "float"}}, jit=False)
    shows = tocsin.query("EVENT A a SELECT eid(a) AS one, 'x' || eid(a) AS two")
    session = shows.stream(schema={"A": {}}, jit=False)
    assert [(match["one"], match["two"]) for match in session.push(rows("eid")[0])] == [(5, "x5")]


@pytest.mark.parametrize(
    "text", ["EVENT A a WHERE [eid]", "EVENT SEQ(A a, B b) WHERE [eid]", "EVENT A a PARTITION BY eid"]
)
def test_an_eid_is_no_attribute_and_so_no_key(text: str) -> None:
    query = tocsin.query(text)
    assert not list(query.detect(rows("eid"), jit=False))
    session = query.stream(jit=False)
    assert not [match for row in rows("eid") for match in session.push(row)]


CHAIN = """
QUERY P EVENT SEQ(A a, B b) WITHIN 9 SELECT eid(a) AS one;
QUERY Q EVENT SEQ(P p, C c) WHERE eid(c) > '3' AND length(eid(p)) = 32 AND eid(p) <> eid(c) WITHIN 20
SELECT p.one AS one, eid(p) AS match, c.eid AS late
"""


@pytest.mark.parametrize("order", ["in-order", "any"])
@pytest.mark.parametrize("text", [False, True])
def test_beside_matches_every_eid_is_a_text(text: bool, order: str) -> None:
    given = rows("eid", text=text) + [{"type": "C", "time": 7, "eid": f"{at}" if text else at} for at in (30, 4, 50, 2)]
    found = list(tocsin.query(CHAIN).detect(given, jit=False, order=order))
    made = {match["match_id"]: match["one"] for match in found if match["query"] == "P"}
    read = {(match["match"], match["late"]): match["one"] for match in found if match["query"] == "Q"}
    assert read == {(id, eid): one for id, one in made.items() for eid in ("30", "4", "50")}  # texts: '30' > '3'


def test_beside_matches_computed_eids_can_be_asked() -> None:
    given = [{"type": type, "time": time, "v": eid} for type, time, eid in [*ROWS, ("C", 7, 1), ("C", 7, 2)]]
    whole = tocsin.query("EVENT C c").detect(given, jit=False)
    first = min(match["c"]["eid"] for match in whole)
    text = CHAIN.replace("eid(c) > '3'", f"eid(c) = '{first}'")
    query, found, state = tocsin.query(text), [], None
    for row in given:
        session = query.stream(jit=False, state=state)
        found += session.push(row)
        state = session.save()
    found += query.stream(jit=False, state=state).close()
    assert {match["late"] for match in found if match["query"] == "Q"} == {first}


def test_a_query_is_checked_without_events() -> None:
    for text in (QUERY.format(2, 5), QUERY.format("'2'", "'5'"), "EVENT A a WHERE eid(a) LIKE 'x%'"):
        assert tocsin.query(text).plans()
    with pytest.raises(TocsinError, match="every event has already"):
        tocsin.query("QUERY P EVENT A a SELECT a.eid; EVENT P p").detect(rows("eid"), jit=False)
