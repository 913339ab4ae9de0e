"""The runner: queries as users hold them, matches as they see them, live sessions that can be saved."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from random import Random

import pyarrow as pa
import pyarrow.parquet
import pytest

import tocsin
from tests.effort import examples
from tocsin.app.judge import binding_rows
from tocsin.engine.tables import HEAD, flat, joined, net
from tocsin.errors import InputError, QueryError, StateError, TocsinError, TocsinWarning
from tocsin.events import Event
from tocsin.lang.parser import parse
from tocsin.run.atomic import whole_file
from tocsin.run.matches import Matches
from tocsin.run.progress import summary, watching
from tocsin.run.schema_from_query import guessed_schema
from tocsin.run.show import text_table
from tocsin.run.sinks import json_line, write_file
from tocsin.schema import Kind
from tocsin.testing.oracle import matches
from tocsin.testing.shop import QUERY as THEFT
from tocsin.testing.shop import shop
from tocsin.testing.strategies import SCHEMA, VALUES, pair

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")

EVENTS = [
    {"type": "A", "time": 1, "id": 1, "v": 1.0},
    {"type": "B", "time": 3, "id": 1, "v": 2.0},
    {"type": "A", "time": 4, "id": 1, "v": 3.0},
    {"type": "C", "time": 5, "id": 2, "v": 4.0},
    {"type": "B", "time": 6, "id": 1, "v": 5.0},
    {"type": "A", "time": 7, "id": 2, "v": 6.0},
    {"type": "C", "time": 8, "id": 2, "v": 7.0},
    {"type": "B", "time": 9, "id": 2, "v": 8.0},
]
PLAIN = "EVENT SEQ(A a, !C c, B b) WHERE [id] WITHIN 10"
TRAILING = "EVENT SEQ(A a, B b, !C c) WITHIN 6"
REPEATED = "EVENT SEQ(A a, B+ b, C c) WITHIN 6 SELECT a.id AS who, count(b) AS n, sum(b.v) AS total"
COMPOSED = (
    "QUERY pair HIDDEN EVENT SEQ(A a, !C c, B b) WHERE [id] WITHIN 10 SELECT a.id AS who;"
    "EVENT SEQ(pair x, pair y) WITHIN 9"
)
THREE = f"{COMPOSED.replace('EVENT SEQ(pair', 'QUERY two EVENT SEQ(pair')}; EVENT SEQ(two t, C c)"


def ids(matches) -> list[str]:
    return sorted(match["match_id"] for match in matches)


def detect(text, events=EVENTS, **options):
    return tocsin.query(text).detect(events, jit=False, **options)


def settled(changes) -> list[str]:
    """The ids that are left after all withdrawals; every withdrawal follows its match."""
    count: dict[str, int] = {}
    for change in changes:
        count[change["match_id"]] = count.get(change["match_id"], 0) + change["op"]
        assert count[change["match_id"]] in (0, 1)
    return sorted(match for match, left in count.items() if left)


# --- queries -------------------------------------------------------------------------------------------------------


def test_a_query_is_its_text():
    query = tocsin.query("event seq(A a, B b) within 10")
    assert str(query).split() == "EVENT SEQ(A a, B b) WITHIN 10".split()
    assert eval(repr(query), {"tocsin": tocsin}) == query


def test_text_and_fluent_give_the_same_query():
    fluent = tocsin.seq(tocsin.event("A", "a"), ~tocsin.event("C", "c"), tocsin.event("B", "b"))
    fluent = fluent.where(tocsin.same("id")).within(10)
    assert tocsin.query(fluent) == tocsin.query(PLAIN) == tocsin.query(parse(PLAIN))
    assert hash(tocsin.query(fluent)) == hash(tocsin.query(PLAIN))


def test_several_queries_can_be_given_as_a_list():
    assert len(tocsin.query([PLAIN, TRAILING]).queries) == 2


@pytest.mark.parametrize("text", ["", "   ", "-- nothing", "EVENT", "EVENT SEQ(A a", "SELECT 1"])
def test_wrong_texts_are_query_errors(text):
    with pytest.raises(TocsinError):
        tocsin.query(text)


def test_check_gives_warnings_and_errors():
    assert tocsin.query(PLAIN).check() == ()
    assert tocsin.query(PLAIN).check(EVENTS) == ()
    assert any("never match" in note for note in tocsin.query("EVENT AND(A a, !A x)").check())
    with pytest.raises(QueryError):
        tocsin.query("EVENT SEQ(A a, B b) WHERE a.v = 'x'").check(EVENTS)
    with pytest.raises(QueryError):
        tocsin.query("EVENT SEQ(A a, B b) WHERE a.v = 'x' AND a.v > 5").check()


def test_explain_and_source_show_the_plan_and_the_kernel():
    query = tocsin.query(PLAIN)
    assert "forbidden" in query.explain(EVENTS)
    compile(query.source(EVENTS), "kernel", "exec")


def test_kinds_are_guessed_from_the_query_alone():
    text = "EVENT SEQ(A a : a.s LIKE 'x%', B b) WHERE a.s = b.t AND b.u > 1.5 AND a.on = TRUE AND b.n + 1 = 2"
    kinds = {name: field.kind for name, field in guessed_schema([parse(text)]).common.items()}
    assert kinds == {"s": Kind.TEXT, "t": Kind.TEXT, "u": Kind.FLOAT, "on": Kind.BOOL, "n": Kind.INT}


def test_without_data_no_query_is_said_to_be_hopeless(tmp_path):
    text = "EVENT SEQ(A a, !C c, B b) WHERE a.id = b.id AND c.kind = 'x' AND b.price > 1.5 WITHIN 10"
    empty = tmp_path / "empty.csv"
    empty.write_text("type,time,id\n")
    for source in (None, [], str(empty)):
        assert "never" not in tocsin.query(text).explain(source)
        assert tocsin.query(text).check(source) == ()


@pytest.mark.parametrize(
    "text",
    [
        "EVENT SEQ(A a, !Gone c, B b) WHERE [id] AND c.till = 3",
        "EVENT SEQ(A a, !Gone, B b) WHERE Gone.till LIKE 'x%' AND Gone.id = a.id",
        "EVENT SEQ(A a, !SEQ(C c, !Gone g, Gone h : h.v > c.v), B b)",
    ],
)
def test_a_forbidden_type_that_never_occurs_is_a_note(text):
    events = [{"type": type, "time": at, "id": 1, "v": None if type == "A" else 2} for at, type in enumerate("AAB")]
    found = tocsin.query(text).detect([*events, {"type": "C", "time": 9, "id": 1, "v": 1}], jit=False)
    assert len(found) == 2
    assert found.notes == ("no event of type Gone occurs",)
    assert tocsin.query(text).check([*events, {"type": "C", "time": 9, "id": 1, "v": 1}]) == found.notes


def test_a_misspelt_forbidden_type_gets_a_suggestion():
    events = [{"type": "Shelf", "time": 1}, {"type": "Counter", "time": 2}, {"type": "Exit", "time": 3}]
    found = tocsin.query("EVENT SEQ(Shelf s, !Conter c, Exit e)").detect(events, jit=False)
    assert found.notes == ("no event of type Conter occurs; did you mean Counter?",)


QUIET = [
    ("EVENT SEQ(A a, Gone g)", 0),
    ("EVENT SEQ(A a, !Gone g, Gone h)", 0),
    ("EVENT OR(A a, Gone g)", 1),
    ("EVENT SEQ(A a, !Gone g) WHERE [id] AND g.size > 3", 1),
    ("EVENT SEQ(A a, Gone+ g) WHERE [id] SELECT a.id, count(g) AS n, last(g.size)", 0),
    ("EVENT SEQ(Gone g, B b) WHERE g.name LIKE 'x%' AND g.id = b.id SELECT g.name, g.id", 0),
]


@pytest.mark.parametrize(("text", "count"), QUIET)
def test_a_type_that_does_not_occur_is_empty(text, count):
    events = [{"type": "A", "time": 1, "id": 1}]
    found = tocsin.query(text).detect(events, jit=False)
    assert len(found) == count
    assert "no event of type Gone occurs" in found.notes
    declared = {"A": {"id": "int"}, "B": {"id": "int"}}
    assert len(tocsin.query(text).detect(events, jit=False, schema=declared)) == count
    with pytest.raises(QueryError, match="unknown event type Gone"):
        tocsin.query(text).detect(events, jit=False, schema=declared, strict=True)
    with pytest.raises(QueryError, match="unknown event type Gone"):
        tocsin.query(text, schema=declared, strict=True).check()


@pytest.mark.parametrize(
    ("text", "count"),
    [("EVENT A a WHERE a.nam = 1", 0), ("EVENT A a WHERE a.nam IS NULL", 1),
     ("EVENT A a WHERE coalesce(a.nam, 7) = 7", 1), ("EVENT A a WHERE a.nam LIKE 'x%' OR a.id = 1", 1),
     ("EVENT A a SELECT a.nam", 1), ("EVENT A a WHERE [nam]", 0)],
)  # fmt: skip
def test_an_attribute_that_does_not_occur_is_null(text, count):
    events = [{"type": "A", "time": 1, "id": 1, "name": "x"}]
    found = tocsin.query(text).detect(events, jit=False)
    assert "no event has an attribute nam, so it is null; did you mean name?" in found.notes
    with pytest.raises(QueryError, match="unknown attribute nam"):
        tocsin.query(text).detect(events, schema={"A": {"id": "int", "name": "text"}}, strict=True)
    if "[" not in text:
        assert len(found) == count


def test_a_quiet_input_of_every_sort(tmp_path):
    """A file, a table and a frame without the type and without the attribute: no match, and the note says so."""
    text = "EVENT SEQ(Shelf s, Exti e) WHERE s.tga = e.tga"
    table = pa.table({"type": ["Shelf", "Exit"], "time": [1, 2], "tag": ["x", "x"]})
    pa.parquet.write_table(table, tmp_path / "e.parquet")
    (tmp_path / "e.csv").write_text("type,time,tag\nShelf,1,x\nExit,2,x\n")
    for events in (table, table.to_pandas(), table.to_pylist(), tmp_path / "e.parquet", tmp_path / "e.csv"):
        found = tocsin.query(text).detect(events, jit=False)
        assert not len(found)
        assert found.notes[0] == "no event of type Exti occurs; did you mean Exit?"
        assert "no event has an attribute tga, so it is null; did you mean tag?" in found.notes
        assert tocsin.query(text).check(events) == found.notes


def test_strict_needs_a_schema_and_a_session_warns():
    with pytest.raises(tocsin.TocsinError, match="strict"):
        tocsin.query(PLAIN, strict=True)
    with pytest.raises(tocsin.TocsinError, match="strict"):
        tocsin.query(PLAIN).detect(EVENTS, strict=True)
    with pytest.warns(TocsinWarning, match="no event of type Gone occurs"):
        tocsin.query("EVENT SEQ(A a, Gone g) WITHIN 5").stream(schema={"A": {}}, jit=False)
    with pytest.raises(QueryError, match="unknown event type Gone"):
        tocsin.query("EVENT SEQ(A a, Gone g) WITHIN 5").stream(schema={"A": {}}, strict=True, jit=False)


# --- detection -----------------------------------------------------------------------------------------------------


def test_a_stream_is_checked_against_the_schema_that_it_is_given():
    text = "EVENT SEQ(A a, B b) WHERE type(a) < a.name WITHIN 9"  # from its use alone, name would be a number
    tocsin.query(text).stream(schema={"*": {"name": "text"}}, jit=False)
    with pytest.raises(tocsin.QueryError):
        tocsin.query(text).stream(schema={"*": {"name": "int"}}, jit=False)


def test_matches_are_rows_with_a_struct_per_variable():
    found = list(detect(PLAIN))
    assert [(match["start"], match["end"]) for match in found] == [(1, 3), (1, 6), (4, 6)]
    first = found[0]
    assert list(first) == [*HEAD, "a", "b"]
    assert (first["kind"], first["op"], first["a"]["type"], first["a"]["id"], first["b"]["v"]) == (
        "match",
        1,
        "A",
        1,
        2.0,
    )


def test_select_gives_columns():
    found = list(detect(REPEATED))
    assert [(match["who"], match["n"], match["total"]) for match in found] == [(1, 1, 2.0), (1, 1, 5.0)]


def test_the_same_matches_in_any_order_of_arrival():
    for text in (PLAIN, TRAILING, REPEATED, COMPOSED):
        assert ids(detect(text)) == ids(detect(text, EVENTS[::-1])) == ids(detect(text, EVENTS[::-1], order="any"))


@pytest.mark.jit
def test_the_same_matches_compiled():
    assert ids(tocsin.query(PLAIN).detect(EVENTS)) == ids(detect(PLAIN))


def test_a_query_that_others_use_still_reports():
    reporting = COMPOSED.replace(" HIDDEN", "")
    assert sorted(match["query"] for match in detect(reporting)) == ["pair", "pair", "pair", "query 2"]
    alone, _ = reporting.split(";")
    pairs = [match for match in detect(reporting) if match["query"] == "pair"]
    assert ids(pairs) == ids(detect(alone))
    with tocsin.query(reporting).stream(jit=False) as session:
        live = [match["query"] for event in EVENTS for match in session.push(event)]
        live += [match["query"] for match in session.close()]
    assert sorted(live) == ["pair", "pair", "pair", "query 2"]
    assert {match["query"] for match in detect(f"QUERY p {PLAIN}; QUERY t {TRAILING}")} == {"p", "t"}


def test_a_hidden_query_reports_only_if_all_are_asked_for():
    assert [match["query"] for match in detect(COMPOSED)] == ["query 2"]
    assert sorted(match["query"] for match in detect(COMPOSED, all=True)) == ["pair", "pair", "pair", "query 2"]
    assert ids(detect(COMPOSED, all=True)) == ids(detect(COMPOSED.replace(" HIDDEN", "")))
    (note,) = tocsin.query("QUERY p HIDDEN EVENT A a; EVENT B b").check()
    assert "no later query reads it" in note


def test_queries_without_a_name_are_told_apart():
    assert {match["query"] for match in detect(f"{PLAIN}; {TRAILING}")} == {"query 1", "query 2"}
    assert {match["query"] for match in detect(PLAIN)} == {""}
    for text in ("QUERY `query 2` EVENT A a; EVENT B b", "EVENT A a; QUERY `query 1` EVENT B b"):
        with pytest.raises(QueryError, match=r"query \d is already what a query without a name is called"):
            tocsin.query(text).check()
    assert {match["query"] for match in detect("QUERY `query 2` EVENT A a; QUERY x EVENT B b")} == {"query 2", "x"}


def test_composites_are_intervals_with_the_selected_columns():
    found = list(detect(COMPOSED))
    assert [(match["x"]["start"], match["x"]["end"], match["x"]["who"]) for match in found] == [(1, 3, 1)]
    assert found[0]["x"]["type"] == "pair"
    assert found[0]["x"]["eid"] in ids(detect(COMPOSED, all=True))


def test_a_column_that_does_not_fit_beside_the_events_is_an_error():
    text = (
        "QUERY p EVENT SEQ(A a, B b) SELECT 'x' || text(a.id) AS id; EVENT SEQ(p x, C c) WHERE x.id = 'x1' AND c.id = 2"
    )
    with pytest.raises(TocsinError, match="'id' is text in query 'p' and int in the events"):
        detect(text)


def test_counters_say_what_was_seen():
    counters = detect(PLAIN, [*EVENTS, {"type": "Z", "time": 9, "id": 0, "v": 0.0}]).counters
    assert (counters["events"], counters["relevant"], counters["matches"], counters["late"]) == (9, 8, 3, 0)
    assert counters["skipped"] == 0


def test_events_without_a_key_are_counted_once():
    rows = [*({"type": "A", "time": at, "id": at % 2 or None, "w": float("nan")} for at in range(6)), EVENTS[0]]
    text = "EVENT A a WHERE [id]; EVENT SEQ(A a, !B b) WHERE [id] WITHIN 2"
    found = detect(text, rows)
    assert found.counters["keyless"] == 3
    assert "3 without a key" in summary(found.counters, 1.0)
    session = tocsin.query(text).stream(jit=False)
    for row in rows:
        session.push(row)
    again = tocsin.query(text).stream(jit=False, state=session.save())
    assert session.counters["keyless"] == again.counters["keyless"] == 3


@pytest.mark.parametrize("more", [[], [{"type": "Back", "time": 100, "case": 7}]])
def test_events_of_a_type_that_never_has_the_key_are_counted_too(more):
    """The count of one event does not depend on whether others have the attribute."""
    rows = [{"type": "Sent", "time": 1, "case": 1}, {"type": "Sent", "time": 2}, {"type": "Back", "time": 3}, *more]
    query = tocsin.query("EVENT SEQ(Sent s, !Back b) WHERE [case] WITHIN 14")
    found = query.detect(rows, jit=False)
    assert (len(found), found.counters["keyless"]) == (1, 2)
    one, whole = query.stream(jit=False), query.stream(jit=False)
    for row in rows:
        one.push(row)
    whole.push(rows)
    assert one.counters["keyless"] == whole.counters["keyless"] == 2
    assert query.detect(rows, jit=False, schema={"*": {"case": "int"}}).counters["keyless"] == 2


@pytest.mark.parametrize("order", ["in-order", "any"])
def test_duplicated_eids_count_once(order):
    named = [{**event, "eid": number} for number, event in enumerate(EVENTS)]
    found = detect(PLAIN, named + named, order=order)
    assert (len(found), found.counters["duplicates"]) == (3, len(EVENTS))


def test_timestamps_come_back_with_their_zone():
    rows = [{"type": kind, "time": datetime(2024, 5, 1, hour, tzinfo=UTC)} for kind, hour in (("A", 1), ("B", 2))]
    match = next(iter(detect("EVENT SEQ(A a, B b) WITHIN 1 h", rows)))
    assert match["start"] == match["a"]["start"] == datetime(2024, 5, 1, 1, tzinfo=UTC)
    assert match["end"] == datetime(2024, 5, 1, 2, tzinfo=UTC)


@pytest.mark.parametrize("zone", [None, UTC])
def test_a_window_may_reach_behind_the_last_year(zone):
    rows = [{"type": kind, "time": datetime(9999, 12, 30, hour, tzinfo=zone)} for kind, hour in (("A", 1), ("B", 2))]
    query = tocsin.query("EVENT SEQ(A a, B b, !C c) WITHIN 100000 d")
    (match,) = query.detect(rows, jit=False)
    assert (match["end"], match["settled_at"]) == (rows[1]["time"], None)
    session = query.stream(jit=False, order="conservative(1 h)")
    session.push(rows)
    assert [set(debt["missing"].values()) for debt in session.debts()] == [{None}]
    (match,) = session.close()
    assert match["end"] == rows[1]["time"]


def test_integer_time_stays_integer_even_in_microseconds():
    match = next(iter(detect("EVENT SEQ(A a, B b) WITHIN 1 s", EVENTS, time_unit="us")))
    assert match["start"] == match["a"]["start"] == 1


def test_the_shop_gives_its_thefts():
    made = shop(things=300, thefts=9, noise=200, seed=4)
    found = tocsin.query(THEFT).detect(made.events, jit=False)
    assert sorted(match["s"]["tag"] for match in found) == sorted(made.stolen)
    assert made.events.equals(shop(things=300, thefts=9, noise=200, seed=4).events)
    assert isinstance(next(iter(found))["s"]["price"], Decimal)


# --- matches -------------------------------------------------------------------------------------------------------


def test_matches_are_a_table_a_frame_and_a_text():
    found = detect(PLAIN)
    assert len(found) == found.table().num_rows == len(found.to_pandas()) == len(found.to_polars()) == 3
    assert "3 matches" in repr(found)
    assert repr(detect("EVENT SEQ(C c, A a, A b)")) == "0 matches"
    assert found.columns() == ["a", "b"]


def test_html_is_escaped():
    rows = [{"type": "A", "time": 1, "t": "<script>"}]
    html = detect("EVENT A a", rows)._repr_html_()
    assert "&lt;script&gt;" in html
    assert "<script>" not in html
    assert Matches([])._repr_html_() == "<p>no matches</p>"


def test_long_results_are_cut_in_notebooks():
    rows = [{"type": "A", "time": number} for number in range(30)]
    found = detect("EVENT A a", rows)
    assert found._repr_html_().count("<tr>") == 21
    assert "10 more" in repr(found)


def test_control_characters_are_not_sent_to_the_terminal():
    text = repr(detect("EVENT A a", [{"type": "A", "time": 1, "t": "\x1b[31mred", "\x1b[0m": 1}]))
    assert "\x1b" not in text
    assert "\x1b" not in repr(detect("EVENT A a SELECT a.t AS `\x1b[0m`", [{"type": "A", "time": 1, "t": 1}]))
    (note, *_) = detect("EVENT Shelf a", [{"type": "Shelff\x1b", "time": 1}]).notes
    assert "did you mean Shelff\\x1b" in note


@pytest.mark.parametrize("odd", ["\x1b[31m", "\ud800", "\x9b31m", "\u202e"])
def test_errors_can_be_written_and_obeyed_by_no_terminal(odd, tmp_path):
    path = tmp_path / "events.jsonl"
    path.write_bytes(f'{{"type":"A","time":null,"k":"{odd}"}}\n'.encode("utf-8", "surrogatepass"))
    rows = [{"type": "A", "time": None, "k": odd}]
    for ask in (
        lambda: detect("EVENT A a", path),
        lambda: detect("EVENT A a", rows),
        lambda: tocsin.query(f"EVENT A a WHERE a.v = 1 AND `{odd}` ="),
    ):
        with pytest.raises(TocsinError) as error:
            ask()
        assert all(line.isprintable() for line in str(error.value).splitlines())


def test_errors_underline_what_they_mean_beside_odd_characters():
    with pytest.raises(QueryError) as error:
        tocsin.query("EVENT A a WHERE a.`\x1b` = 1 AND a.v ? 1")
    line, carets, *_ = [line for line in str(error.value).splitlines() if line.startswith("  |")]
    assert line[carets.index("^") - 4 :].startswith("a.v ? 1")


@pytest.mark.parametrize("given", [b"EVENT A a", 5, None])
def test_what_is_no_query_is_refused(given):
    with pytest.raises(TocsinError, match="a query cannot be made from"):
        tocsin.query(given)


def test_repeated_variables_are_shown_with_their_number():
    rows = [{"type": kind, "time": time} for kind, time in (("A", 1), ("B", 2), ("B", 3), ("B", 4), ("B", 5), ("C", 6))]
    assert "4: 2, 3, 4, ..." in repr(detect("EVENT SEQ(A a, B+ b, C c)", rows))


def test_tables_of_several_queries_join():
    found = detect(f"QUERY p {PLAIN}; QUERY r {REPEATED}; QUERY o EVENT SEQ(A a, C c)")
    whole = found.table()
    assert whole.num_rows == len(found)
    assert {"a", "b", "c", "who", "n"} <= set(whole.schema.names)
    assert len(found.to_pandas()) == len(found)


def test_joined_tables_keep_what_each_has():
    one = pa.table({"x": pa.array([{"a": 1}]), "y": [1]})
    other = pa.table({"x": pa.array([{"b": "t"}]), "y": ["z"]})
    assert joined([one, other]).to_pylist() == [
        {"x": {"a": 1, "b": None}, "y": "1"},
        {"x": {"a": None, "b": "t"}, "y": "z"},
    ]


def test_net_keeps_what_was_not_withdrawn():
    table = pa.table({"match_id": ["p", "q", "p", "p", "q"], "op": [1, 1, -1, 1, -1]})
    assert net(table).to_pylist() == [{"match_id": "p", "op": 1}]


def test_flat_tables_have_a_column_per_attribute():
    table = flat(detect("EVENT SEQ(A a, B+ b, C c) WITHIN 6").table())
    assert {"a.eid", "a.type", "a.id", "b", "c.v"} <= set(table.schema.names)
    assert json.loads(table["b"][0].as_py())[0]["type"] == "B"


def test_the_picture_is_written(tmp_path):
    pytest.importorskip("matplotlib")
    path = tmp_path / "timeline.png"
    detect("EVENT SEQ(A a, B+ b, C c) WITHIN 6").plot(path)
    assert path.read_bytes().startswith(b"\x89PNG")
    detect("EVENT SEQ(C c, A a, A b)").plot(tmp_path / "empty.svg")
    assert "<svg" in (tmp_path / "empty.svg").read_text()
    with pytest.raises(InputError, match="cannot be drawn"):
        detect(PLAIN).plot(tmp_path / "timeline.docx")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["empty.svg", "timeline.png"]


def test_short_matches_in_a_long_time_get_a_second_panel_of_the_picture():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    events = [
        {"type": type, "time": at * 1000 + place, "tag": f"t{at}"} for at in range(9) for place, type in enumerate("AB")
    ]
    for within, panels in ((1, 2), (9000, 1)):
        figure = tocsin.query(f"EVENT SEQ(A a, B b) WITHIN {within}").detect(events, jit=False).plot(title="Pairs")
        assert len(figure.axes) == panels
        assert figure.axes[0].get_title("left").startswith("Pairs: ")
        assert figure.axes[0].get_yticklabels()[0].get_text() == "t0"
        pyplot.close(figure)


def test_the_picture_of_intervals_has_a_lane_for_each_and_says_how_they_stand():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    events = [
        {"type": type, "start": start, "end": end} for type, start, end in (("A", 1, 5), ("B", 3, 9), ("C", 10, 12))
    ]
    found = tocsin.query("EVENT SEQ(REL[overlap](A a, B b), C c) WITHIN 20").detect(events, jit=False)
    figure = found.plot()
    [axes] = figure.axes
    assert [text.get_text() for text in axes.texts] == ["a overlaps b, b before c"]
    bars = [line for line in axes.lines if line.get_linewidth() == 7]
    assert [list(line.get_xdata()) for line in bars] == [[1, 5], [3, 9], [10, 12]]
    assert len({line.get_ydata()[0] for line in bars}) == 3
    pyplot.close(figure)


def test_without_matplotlib_drawing_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(TocsinError, match="matplotlib") as error:
        detect(PLAIN).plot("x.png")
    assert "tocsin[plot]" in error.value.hint


# --- sinks ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", ["jsonl", "csv", "parquet", "table"])
def test_every_format_holds_every_match(tmp_path, format):
    path = tmp_path / "out"
    write_file(detect(PLAIN), format, path)
    match format:
        case "jsonl":
            rows = [json.loads(line) for line in path.read_text().splitlines()]
            assert [row["a"]["start"] for row in rows] == [1, 1, 4]
        case "csv":
            assert pa.csv.read_csv(path)["a.start"].to_pylist() == [1, 1, 4]
        case "parquet":
            assert pa.parquet.read_table(path)["a"].to_pylist()[2]["start"] == 4
        case "table":
            assert len(path.read_text().splitlines()) == 5


def test_a_limit_is_kept(tmp_path):
    write_file(detect(PLAIN), "jsonl", tmp_path / "out", limit=2)
    assert len((tmp_path / "out").read_text().splitlines()) == 2


def test_an_empty_result_is_written_too(tmp_path):
    for format in ("jsonl", "csv", "parquet", "table"):
        write_file(detect("EVENT SEQ(C c, A a, A b)"), format, tmp_path / format)
        assert (tmp_path / format).exists()


def test_json_lines_hold_only_json():
    line = json_line({"t": datetime(2024, 5, 1, tzinfo=UTC), "d": Decimal("1.10"), "n": float("nan"), "l": [{"x": 1}]})
    assert json.loads(line) == {"t": "2024-05-01T00:00:00+00:00", "d": "1.10", "n": None, "l": [{"x": 1}]}


def test_a_file_appears_whole_or_not_at_all(tmp_path):
    path = tmp_path / "out"
    path.write_text("old")
    with suppress(ZeroDivisionError), whole_file(path) as part:
        part.write_text("half")
        raise ZeroDivisionError
    assert (path.read_text(), len(list(tmp_path.iterdir()))) == ("old", 1)
    with whole_file(path) as part:
        part.write_text("new")
    assert (path.read_text(), len(list(tmp_path.iterdir()))) == ("new", 1)


@pytest.mark.parametrize("place", [".", "missing/out"])
def test_places_that_cannot_be_written_are_refused(tmp_path, place):
    with pytest.raises(InputError), whole_file(tmp_path / place):
        pass


# --- live ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [PLAIN, TRAILING, REPEATED, COMPOSED, THREE])
@pytest.mark.parametrize("order", ["in-order", "any"])
def test_a_live_session_finds_what_history_shows(text, order):
    query = tocsin.query(text)
    session = query.stream(jit=False, order=order, all=True, endless=False)
    found = [match for event in EVENTS for match in session.push(event)] + list(session.close())
    assert settled(found) == ids(detect(text, all=True))


def test_matches_come_with_the_event_that_completes_them():
    session = tocsin.query(PLAIN).stream(jit=False)
    assert [len(session.push(event)) for event in EVENTS] == [0, 1, 0, 0, 2, 0, 0, 0]


def test_a_trailing_negation_waits_for_its_window():
    session = tocsin.query(TRAILING).stream(jit=False)
    assert [len(session.push(event)) for event in EVENTS[:2]] == [0, 0]
    assert len(session.advance(6)) == 0
    assert len(session.advance(7)) == 1


def test_late_events_are_counted_and_left_out():
    session = tocsin.query("EVENT SEQ(A a, B b)").stream(jit=False)
    session.push([{"type": "A", "time": 5}, {"type": "A", "time": 3}, {"type": "B", "time": 5}])
    assert (session.late, session.counters["late"]) == ([1], 1)
    assert len(session.push({"type": "B", "time": 6})) == 1
    session.advance(8)
    session.push({"type": "B", "time": 8})
    assert (session.late, session.counters["late"]) == ([0], 2)


def test_answers_are_corrected_in_any_order():
    session = tocsin.query("EVENT SEQ(A a, !C c, B b)").stream(jit=False, order="any")
    session.push({"type": "A", "time": 1})
    assert [match["op"] for match in session.push({"type": "B", "time": 5})] == [1]
    assert [match["op"] for match in session.push({"type": "C", "time": 3})] == [-1]


def test_callbacks_iterators_and_blocks():
    heard: list = []
    with tocsin.query(TRAILING).stream(jit=False, on_match=heard.append, endless=False) as session:
        session.push(EVENTS[:2])
    assert len(heard) == 1
    followed = tocsin.query(PLAIN).stream(jit=False).follow(iter(EVENTS))
    assert ids(followed) == ids(detect(PLAIN))
    with pytest.raises(TocsinError, match="closed"):
        session.push(EVENTS[0])


def test_a_session_takes_tables_batches_and_events():
    session = tocsin.query("EVENT SEQ(A a, B b)").stream(jit=False)
    session.push(pa.table({"type": ["A"], "start": [1], "end": [1], "eid": [1]}))
    session.push(pa.RecordBatch.from_pydict({"type": ["A"], "start": [2], "end": [2], "eid": [2]}))
    assert len(session.push(tocsin.Event("B", 3, 3, 3))) == 2
    assert len(session.push([])) == 0


def test_attributes_are_learnt_as_they_come():
    session = tocsin.query("EVENT SEQ(A a, B b) WHERE b.price > 1 AND a.n < b.n WITHIN 50").stream(jit=False)
    rows = [
        {"type": "A", "time": 1},
        {"type": "A", "time": 2, "n": 1},
        {"type": "Z", "time": 3, "z": "t"},
        {"type": "B", "time": 4, "n": 1.5, "price": Decimal("1.50")},
        {"type": "B", "time": 5, "n": 2, "price": 2},
    ]
    found = [match for row in rows for match in session.push(row)]
    assert [(match["start"], match["end"]) for match in found] == [(2, 4), (2, 5)]
    assert session.counters["events"] == 5


def test_a_learnt_attribute_cannot_change_its_kind():
    session = tocsin.query("EVENT SEQ(A a, B b) WHERE a.n = b.n").stream(jit=False)
    session.push({"type": "A", "time": 1, "n": 1})
    with pytest.raises(InputError, match="'n' is text now and was int before"):
        session.push({"type": "B", "time": 2, "n": "x"})


def test_a_declared_schema_holds_for_a_session():
    session = tocsin.query("EVENT SEQ(A a, B b) WHERE a.n = b.n").stream(jit=False, schema={"*": {"n": "int"}})
    session.push({"type": "A", "time": 1, "n": 1})
    assert len(session.push({"type": "B", "time": 2, "n": 1, "other": "ignored"})) == 1
    with pytest.raises(InputError, match="'n' is int"):
        session.push({"type": "B", "time": 2, "n": "x"})


@pytest.mark.parametrize("text", ["EVENT SEQ(A a, !B b)", "EVENT SEQ(A a, B+ b)"])
def test_what_only_the_end_of_the_stream_could_answer_is_refused(text):
    with pytest.raises(TocsinError, match="end of the stream"):
        tocsin.query(text).stream()
    assert tocsin.query(text).stream(endless=False, jit=False) is not None


def test_time_can_be_given_as_a_timestamp():
    query = tocsin.query("EVENT SEQ(A a, !B b) WITHIN 1 h")
    session = query.stream(jit=False)
    session.push({"type": "A", "time": datetime.fromisoformat("2024-05-01T01:00:00")})
    found = list(session.advance(datetime.fromisoformat("2024-05-01T03:00:00")))
    assert [match["start"] for match in found] == [datetime.fromisoformat("2024-05-01T01:00:00")]
    with pytest.raises(InputError, match="out of range"):
        session.advance(-(2**62))


# --- saved sessions ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [PLAIN, TRAILING, REPEATED, COMPOSED, THREE])
@pytest.mark.parametrize("order", ["in-order", "any"])
def test_a_session_continues_from_every_prefix(text, order):
    query = tocsin.query(text)
    expected = ids(detect(text, all=True))
    for cut in range(len(EVENTS) + 1):
        session = query.stream(jit=False, order=order, all=True, endless=False)
        found = [match for event in EVENTS[:cut] for match in session.push(event)]
        session = query.stream(jit=False, order=order, all=True, endless=False, state=session.save())
        found += [match for event in EVENTS[cut:] for match in session.push(event)] + list(session.close())
        assert settled(found) == expected, cut


def test_a_saved_session_keeps_its_clock_and_counts():
    query = tocsin.query(PLAIN)
    session = query.stream(jit=False)
    session.push(EVENTS)
    again = query.stream(jit=False, state=session.save())
    again.push({"type": "A", "time": 2, "id": 1, "v": 0.0})
    assert (again.counters["events"], again.counters["late"]) == (9, 1)


@pytest.mark.parametrize("state", [b"", b"garbage", b"PK\x03\x04broken"])
def test_a_damaged_state_is_refused(state):
    with pytest.raises(StateError):
        tocsin.query(PLAIN).stream(state=state)


def test_a_state_of_another_query_is_refused():
    session = tocsin.query(PLAIN).stream(jit=False)
    session.push(EVENTS)
    with pytest.raises(StateError, match="other quer"):
        tocsin.query(TRAILING).stream(jit=False, state=session.save())
    other = tocsin.query(PLAIN).stream(jit=False)
    other.push(EVENTS)
    with pytest.raises(StateError, match="seen events already"):
        other.restore(session.save())


# --- the face ------------------------------------------------------------------------------------------------------


def test_importing_tocsin_needs_no_heavy_or_optional_library():
    heavy = ("pyspark", "pandas", "polars", "matplotlib", "numba")
    code = f"import sys, tocsin; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_everything_public_exists():
    assert all(hasattr(tocsin, name) for name in tocsin.__all__)


def test_the_summary_names_what_is_unusual():
    assert summary({"events": 5, "relevant": 4, "late": 1, "skipped": 2, "matches": 0}, 1.0) == (
        "5 events (4 relevant), 1 late, 2 skipped, 0 matches, 1.00 s"
    )


def test_a_table_of_text_shows_selected_columns():
    assert text_table(detect(REPEATED).table()).splitlines()[0].split() == ["start", "end", "who", "n", "total"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_shown_on_terminals_and_long_runs_only(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with watching() as watch:
        assert watch is None
    monkeypatch.setattr(sys, "stderr", Terminal())
    with watching(quiet=True) as watch:
        assert watch is None
    with watching() as watch:
        watch(10, 1)
    assert sys.stderr.getvalue() == ""
    monkeypatch.setattr("tocsin.run.progress.SECONDS_BEFORE_BAR", -1)
    with watching() as watch:
        watch(12_345, 6)
    assert "12,345 events" in sys.stderr.getvalue()
    assert "6 matches" in sys.stderr.getvalue()


@pytest.mark.slow
@pytest.mark.jit
def test_a_query_with_hidden_events_feeds_another():
    """A hidden event comes after the visible end of its match, which must still find its place."""
    hiding = "QUERY Q HIDDEN EVENT EXISTS h : AND(A a, H h) WITHIN 10 SELECT a.k AS k"
    text = f"{hiding}; EVENT SEQ(Q q, B b) WHERE [k] WITHIN 50"
    events = [
        {"type": "A", "time": 1, "k": 1, "eid": 1},
        {"type": "B", "time": 5, "k": 1, "eid": 2},
        {"type": "H", "time": 9, "k": 7, "eid": 3},
        {"type": "B", "time": 30, "k": 1, "eid": 4},
    ]
    whole = {match["match_id"] for match in tocsin.query(text).detect(events, eid="eid")}
    assert len(whole) == 2
    session = tocsin.query(text).stream(eid="eid", endless=False)
    found = [match for event in events for match in session.push(event)] + list(session.close())
    assert {match["match_id"] for match in found} == whole


@pytest.mark.slow
@pytest.mark.jit
def test_numbered_events_beside_matches_in_many_pushes():
    first = "QUERY Q HIDDEN EVENT SEQ(A a, B b) WHERE [k] WITHIN 10 SELECT a.k AS k"
    text = f"{first}; EVENT AND(Q q, C c) WHERE [k] WITHIN 50"
    events = [{"type": "C" if i < 6 else "ABC"[i % 3], "time": i, "k": 1, "eid": i} for i in range(14)]
    table, session = pa.Table.from_pylist(events), tocsin.query(text).stream(eid="eid")
    found = [match for first in range(0, 14, 2) for match in session.push(table.slice(first, 2))] + list(
        session.close()
    )
    whole = {match["match_id"] for match in tocsin.query(text).detect(events, eid="eid")}
    assert {match["match_id"] for match in found} == whole and len(whole) == 48


# --- columns called like what every event has ------------------------------------------------------------------------

ROLES = {"type": "kind", "time": "at", "end": "till", "eid": "nr"}


def misleading(event: Event, **columns) -> dict[str, object]:
    row = {"kind": event.type, "at": event.start, "till": event.end, "nr": str(event.eid), **event.attrs}
    return {**row, "type": "A", "start": 3, "end": 4, "eid": "same", **columns}


@pytest.mark.parametrize("number", range(examples(60, least=8)))
def test_input_columns_do_not_replace_what_every_event_has(number):
    """Random queries over rows whose columns type, start, end and eid say other things: the oracle's answer."""
    drawn, events = pair(Random(f"own {number}"))
    drawn = replace(drawn, select=())
    text = str(drawn)
    rows = [misleading(event) for event in events]
    if any(f".{name}" in text for name in ("start", "end", "type", "eid")):
        with pytest.raises(QueryError, match="could mean the input column"):
            tocsin.query(drawn).detect(rows, **ROLES, schema=SCHEMA, jit=False)
        return
    found = tocsin.query(drawn).detect(rows, **ROLES, schema=SCHEMA, jit=False)
    spelled = [replace(event, eid=str(event.eid)) for event in events]
    expected = sorted(sorted(match.binding) for match in matches(drawn, spelled, attributes=frozenset(VALUES)))
    shown = [row["eids"] for row in binding_rows(found.table())] if len(found) else []
    assert sorted(sorted((name, tuple(eids)) for name, eids in each.items()) for each in shown) == expected


@pytest.mark.parametrize("name", ["start", "end"])
def test_a_live_stream_refuses_a_column_called_like_what_every_event_has(name):
    row = {"kind": "A", "at": 1, "till": 2, "nr": "x", name: 7}
    query = tocsin.query(f"EVENT A a WHERE a.{name} = 7")
    for events in (row, [row], pa.table({key: [value] for key, value in row.items()})):
        with pytest.raises(QueryError, match="could mean the input column"):
            query.stream(**ROLES, jit=False).push(events)
        assert len(tocsin.query("EVENT A a").stream(**ROLES, jit=False).push(events)) == 1


def test_own_columns_in_every_way_of_running():
    events = [{"type": "A", "start": 1, "end": 2, "v": 1}, {"type": "B", "start": 4, "end": 9, "v": 2}]
    text = "EVENT SEQ(A a, B b) WHERE b.start - a.end = 2 AND b.type = 'B'"
    text += " SELECT a.time, b.time AS other, type(a) AS t, b.type"
    for jit in (False, True):
        (found,) = tocsin.query(text).detect(events, jit=jit)
        assert {name: found[name] for name in ("a_time", "time", "other", "t", "type") if name in found} == {
            "time": 1, "other": 4, "t": "A", "type": "B",
        }  # fmt: skip
    (found,) = tocsin.query("EVENT SEQ(A a, B b) SELECT a.time, b.time").detect(events, jit=False)
    assert (found["a_time"], found["b_time"]) == (1, 4)
    with tocsin.query(text + " WITHIN 9").stream(jit=False) as session:
        live = [match for event in events for match in session.push(event)]
    assert [(match["time"], match["other"]) for match in live] == [(1, 4)]
    both = [{"kind": "A", "at": 1, "time": 7, "v": 1}, {"kind": "A", "at": 2, "time": 5, "v": 1}]
    assert [
        m["a"]["time"] for m in tocsin.query("EVENT A a WHERE a.time > 6").detect(both, type="kind", time="at")
    ] == [7]


@pytest.mark.parametrize("name", ["op", "kind", "match_id", "start", "`end`", "settled_at", "`query`"])
def test_columns_of_the_result_are_not_given_twice(name):
    plain = name.strip("`")
    for text in (f"EVENT SEQ(A a, B b) SELECT a.v AS {name}", f"EVENT SEQ(A {name}, B b)"):
        with pytest.raises(QueryError, match=f"a result has a column {plain} already"):
            tocsin.query(text).check()
    assert len(tocsin.query(f"EVENT SEQ(A {name}, B b) SELECT {name}.v").check()) == 0


# --- queries in files ------------------------------------------------------------------------------------------------


def test_a_path_is_read(tmp_path):
    file = tmp_path / "rules.tocsin"
    file.write_text(f"-- a comment\nQUERY p {PLAIN};\n{TRAILING}\n", encoding="utf-8")
    assert tocsin.query(file) == tocsin.query(file.read_text())
    assert len(tocsin.query(file).queries) == 2
    with pytest.raises(tocsin.TocsinError, match="there is no query file"):
        tocsin.query(tmp_path / "missing.tocsin")
    file.write_bytes(b"\xff\xfe EVENT")
    with pytest.raises(tocsin.TocsinError, match="not valid UTF-8"):
        tocsin.query(file)


@pytest.mark.parametrize("text", ["rules.tocsin", "./theft.query", "queries/theft", "C:\\rules.txt"])
def test_a_text_that_looks_like_a_file_name_is_refused(text):
    with pytest.raises(tocsin.TocsinError, match="looks like a file name") as caught:
        tocsin.query(text)
    assert "Path(" in caught.value.hint


def test_a_text_that_names_a_file_here_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert str(tocsin.query("Part.Type")) == "EVENT Part.Type"
    (tmp_path / "Part.Type").write_text("EVENT A")
    with pytest.raises(tocsin.TocsinError, match="looks like a file name"):
        tocsin.query("Part.Type")


# --- texts that are none -------------------------------------------------------------------------------------------

NO_TEXT = pa.Array.from_buffers(pa.string(), 3, pa.array([b"A", b"B", b"\xff\xfe"], pa.binary()).buffers())
FINE = {"type": pa.array(["A", "B", "B"]), "time": pa.array([1, 2, 3]), "eid": pa.array(["x", "y", "z"])}


@pytest.mark.parametrize("column", ["type", "eid", "s", "unread", "time"])
@pytest.mark.parametrize("coded", [False, True])
def test_a_text_that_is_no_utf8_is_one_error_and_changes_nothing(column, coded):
    query = tocsin.query("EVENT SEQ(A a, B b) WHERE a.s IS NULL")
    whole = pa.table(FINE | {"s": pa.nulls(3, pa.string()), "unread": pa.nulls(3, pa.string())})
    texts = NO_TEXT.dictionary_encode() if coded else NO_TEXT
    bad = whole.set_column(whole.schema.get_field_index(column), column, texts)
    if column != "unread":
        with pytest.raises(tocsin.TocsinError, match="not valid UTF-8"):
            query.detect(bad, eid="eid").table()
    session = query.stream(eid="eid")
    for events in (bad, bad.to_batches()[0]):
        with pytest.raises(tocsin.TocsinError, match=f"the column '{column}' has a text that is not valid UTF-8"):
            session.push(events)
    assert [match["b"]["eid"] for match in session.push(whole)] == ["y", "z"]


# --- files that are written ----------------------------------------------------------------------------------------


def test_a_new_file_has_the_mode_that_the_umask_leaves(tmp_path, monkeypatch):
    before = os.umask(0o027)
    try:
        with monkeypatch.context() as patched:
            patched.delattr(os, "umask")  # it belongs to the whole process, other threads too
            with whole_file(tmp_path / "out.csv") as part:
                part.write_text("new")
    finally:
        os.umask(before)
    assert (tmp_path / "out.csv").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666])
def test_a_file_that_is_written_again_keeps_its_mode(tmp_path, mode):
    path = tmp_path / "out.csv"
    path.write_text("old")
    path.chmod(mode)
    with whole_file(path) as part:
        assert part.stat().st_mode & 0o777 & ~mode == 0  # nobody reads more on the way, either
        part.write_text("new")
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("new", mode)


def test_links_in_a_circle_are_refused_and_stay(tmp_path):
    path = tmp_path / "loop.csv"
    path.symlink_to(path)
    with pytest.raises(InputError, match="leads to itself"), whole_file(path) as part:
        part.write_text("new")
    assert path.is_symlink()


@pytest.mark.parametrize("dangling", [False, True])
def test_a_link_is_followed_and_stays(tmp_path, dangling):
    (tmp_path / "there").mkdir()
    target, link = tmp_path / "there" / "real.csv", tmp_path / "out.csv"
    if not dangling:
        target.write_text("old")
    link.symlink_to(target)
    with whole_file(link) as part:
        part.write_text("new")
    assert (link.is_symlink(), target.read_text(), len(list(tmp_path.iterdir()))) == (True, "new", 2)


def test_matches_have_places():
    found = detect("EVENT A a; QUERY b EVENT B b", [{"type": kind, "time": at} for at, kind in enumerate("ABA")])
    assert [found[place] for place in range(len(found))] == list(found)
    assert found[-1] == list(found)[-1]
    for place in (3, -4):
        with pytest.raises(IndexError, match="there are 3"):
            found[place]
    with pytest.raises(TypeError, match="numbered"):
        found["a"]
