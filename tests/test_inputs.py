"""Inputs of every kind give the same events; bad ones are refused, skipped or kept, with their place."""

from __future__ import annotations

import csv
import gzip
import json
import math
import random
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import tocsin
from tests.effort import examples
from tocsin.encode.columns import Columns
from tocsin.encode.late import LateFile
from tocsin.errors import InputError, QueryError
from tocsin.run import files
from tocsin.run.bad_rows import BadRows
from tocsin.run.csv_kinds import has_leading_zeros
from tocsin.run.files import find, parse_line
from tocsin.run.inputs import in_time_order, open_input, usable

ROWS = [
    {"type": "A", "time": 1, "id": 7, "name": "x", "v": 1.5},
    {"type": "B", "time": 3, "id": 7, "name": "ü", "v": 2.5},
    {"type": "C", "time": 4, "id": 8, "name": "z", "v": None},
]
QUERY = tocsin.query("EVENT SEQ(A a, B b) WHERE [id] WITHIN 10")
TABLE = pa.Table.from_pylist(ROWS)

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")


def spans(events, **options):
    return [(match["start"], match["end"]) for match in QUERY.detect(events, jit=False, **options)]


def csv_file(folder, text, name="events.csv"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def written(folder, kind):
    path = folder / f"events.{kind}"
    match kind:
        case "csv":
            pa.csv.write_csv(TABLE, path)
        case "csv.gz":
            with gzip.open(path, "wb") as out:
                pa.csv.write_csv(TABLE, out)
        case "tsv":
            pa.csv.write_csv(TABLE, path, pa.csv.WriteOptions(delimiter="\t"))
        case "jsonl" | "ndjson":
            path.write_text("\n".join(json.dumps(row) for row in ROWS) + "\n\n")
        case "parquet":
            pa.parquet.write_table(TABLE, path)
        case "arrow" | "feather":
            with pa.ipc.new_file(path, TABLE.schema) as out:
                out.write_table(TABLE)
        case "arrows":
            with pa.ipc.new_stream(path, TABLE.schema) as out:
                out.write_table(TABLE)
    return path


# --- kinds of input ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "tsv", "jsonl", "ndjson", "parquet", "arrow", "feather", "arrows"])
def test_files_of_every_format_are_read(tmp_path, kind):
    path = written(tmp_path, kind)
    assert spans(path) == [(1, 3)]
    assert spans(str(path)) == [(1, 3)]


MEMORY = {
    "dicts": lambda: ROWS,
    "generator": lambda: (row for row in ROWS),
    "events": lambda: [tocsin.Event(r["type"], r["time"], r["time"], n, {"id": r["id"]}) for n, r in enumerate(ROWS)],
    "table": lambda: TABLE,
    "batch": lambda: TABLE.to_batches()[0],
    "reader": TABLE.to_reader,
    "pandas": lambda: pd.DataFrame(ROWS),
    "polars": lambda: pl.DataFrame(ROWS),
    "polars lazy": lambda: pl.DataFrame(ROWS).lazy(),
    "polars categories": lambda: pl.DataFrame(ROWS).cast({"type": pl.Categorical, "name": pl.Categorical}),
    "polars enumeration": lambda: pl.DataFrame(ROWS).cast({"type": pl.Enum(["A", "B", "C"])}),
    "dictionary types": lambda: TABLE.set_column(0, "type", TABLE["type"].dictionary_encode()),
}


@pytest.mark.parametrize("make", MEMORY.values(), ids=MEMORY)
def test_events_in_memory_are_read(make):
    assert spans(make()) == [(1, 3)]


def coded(entries, values):
    return pa.DictionaryArray.from_arrays(pa.array(entries, pa.int8()), pa.array(values))


@pytest.mark.parametrize("jit", [False, pytest.param(True, marks=[pytest.mark.slow, pytest.mark.jit])])
def test_a_null_among_the_values_of_a_dictionary_is_a_null(jit, tmp_path):
    table = pa.table({"type": ["A", "B"], "time": [1, 2], "k": coded([0, 0], [None, "x"])})
    with pa.ipc.new_file(tmp_path / "e.arrow", table.schema) as out:
        out.write_table(table)
    for events in (table, table.to_batches()[0], tmp_path / "e.arrow"):
        assert len(tocsin.query("EVENT SEQ(A a, B b) WHERE a.k = b.k").detect(events, jit=jit)) == 0
        assert len(tocsin.query("EVENT A a WHERE a.k IS NULL").detect(events, jit=jit)) == 1
    session = tocsin.query("EVENT SEQ(A a, B b) WHERE a.k = b.k").stream(jit=jit)
    assert len(session.push(table)) == 0


@pytest.mark.parametrize("column", ["type", "time", "eid"])
def test_a_null_among_the_values_of_a_dictionary_is_a_bad_row_where_one_is_needed(column):
    rows = {"type": ["A", "B", "B"], "time": [1, 2, 3], "eid": ["x", "y", "z"]}
    rows[column] = coded([0, 1, 2], [*rows[column][:2], None])
    with pytest.raises(InputError, match=f"row 3: the {column} is null"):
        tocsin.query("EVENT SEQ(A a, B b)").detect(pa.table(rows), jit=False)


VALUES_OF_DICTIONARIES = (
    pa.timestamp("ms"), pa.decimal128(9, 2), pa.date32(), pa.float16(), pa.bool_(), pa.string_view(),
)  # fmt: skip


@pytest.mark.parametrize("values", VALUES_OF_DICTIONARIES, ids=str)
def test_a_dictionary_of_any_values_may_be_empty(values):
    schema = pa.schema({"type": pa.string(), "time": pa.int64(), "k": pa.dictionary(pa.int32(), values)})
    for events in (schema.empty_table(), pa.RecordBatchReader.from_batches(schema, [])):
        assert len(tocsin.query("EVENT SEQ(A a, B b) WHERE a.k = b.k").detect(events, jit=False)) == 0


@pytest.mark.parametrize("text", ["EVENT A a WHERE a.k IS NULL", "EVENT A a WHERE [k]", "EVENT A a SELECT a.k"])
@pytest.mark.parametrize("value", [{"x": 1}, [1], b"x"], ids=str)
def test_a_column_that_no_expression_can_read_is_refused_where_one_reads_it(text, value, tmp_path):
    """Null would be a wrong answer: there is a value."""
    table = pa.table({"type": ["A"], "time": [1], "id": [7], "k": [value]})
    pa.parquet.write_table(table, tmp_path / "e.parquet")
    query = tocsin.query(text)
    for events in (table, tmp_path / "e.parquet"):
        with pytest.raises(QueryError, match="no expression can read k"):
            query.detect(events, jit=False)
        with pytest.raises(QueryError, match="no expression can read k"):
            query.detect(events, schema={"A": {"id": "int"}}, jit=False)
        assert len(tocsin.query("EVENT A a WHERE [id]").detect(events, jit=False)) == 1
    with pytest.raises(QueryError, match="no expression can read k"):
        query.stream(jit=False).push(table)


def test_a_directory_is_all_its_event_files_in_order_of_name(tmp_path):
    for number, row in enumerate(ROWS):
        (tmp_path / f"{number}.jsonl").write_text(json.dumps(row))
    (tmp_path / "notes.txt").write_text("not events")
    (tmp_path / ".hidden.csv").write_text("not events")
    assert spans(tmp_path) == [(1, 3)]
    assert spans(f"{tmp_path}/[01].jsonl") == [(1, 3)]
    assert [path.name for path in find(tmp_path)] == ["0.jsonl", "1.jsonl", "2.jsonl"]


def test_files_whose_columns_differ_are_joined_by_name(tmp_path):
    csv_file(tmp_path, "type,time,id\nA,1,7\n", "1.csv")
    csv_file(tmp_path, "time,id,type,extra\n3,7,B,x\n", "2.csv")
    assert spans(tmp_path) == [(1, 3)]


def test_files_whose_kinds_differ_are_refused(tmp_path):
    csv_file(tmp_path, "type,time,id\nA,1,7\n", "1.csv")
    csv_file(tmp_path, "type,time,id\nB,3,x7\n", "2.csv")
    with pytest.raises(InputError, match="do not have the same columns"):
        spans(tmp_path)


@pytest.mark.parametrize(
    ("events", "message"),
    [
        (5, "cannot be read from int"),
        (None, "cannot be read from NoneType"),
        ({"type": "A"}, "events is one dict"),
        ([1], "row 1: an event is a dict"),
        ("nowhere.csv", "there is no file"),
        ("nowhere/*.csv", "no file matches"),
        (pd.DataFrame({"type": ["A", 5], "time": [1, 2]}, dtype=object), "pandas DataFrame cannot be read"),
        (pd.DataFrame([["A", 1, 2, 3]], columns=["type", "time", "k", "k"]), "Duplicate column names"),
        (pd.DataFrame({"type": ["A"], "time": [1], "k": pd.arrays.SparseArray([0])}), "must be made dense"),
        (pd.DataFrame({"type": ["A"], "time": [1], "k": ["\ud800"]}), "pandas DataFrame cannot be read"),
        (pd.DataFrame({"type": ["A"], "time": [1], "k": [2**70]}), "pandas DataFrame cannot be read"),
        (pd.Series([1, 2]), "pandas Series cannot be read"),
    ],
)
def test_what_holds_no_events_is_refused(events, message):
    with pytest.raises(InputError) as error:
        spans(events)
    assert message in str(error.value)


def test_a_directory_without_event_files_is_refused(tmp_path):
    with pytest.raises(InputError, match="holds no event files"):
        spans(tmp_path)


def test_an_unknown_ending_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"format of .* is unknown"):
        spans(csv_file(tmp_path, "x", "events.xlsx"))


@pytest.mark.parametrize("name", ["bad.parquet", "bad.arrow", "bad.arrows", "bad.csv.gz", "bad.feather"])
@pytest.mark.parametrize("content", [b"", b"garbage", b"ARROW1\0\0garbage", b"PAR1xxxxPAR1", b"\x1f\x8b\x08rubbish"])
def test_broken_files_are_refused_with_their_name(tmp_path, name, content):
    with pytest.raises(InputError, match=r"bad\."):
        spans(csv_file(tmp_path, content, name))


# --- order ---------------------------------------------------------------------------------------------------------


def test_input_out_of_order_is_sorted_first():
    assert spans(ROWS[::-1]) == [(1, 3)]
    assert spans(ROWS[::-1], order="any") == [(1, 3)]


def test_sorting_keeps_rows_that_end_together_in_place():
    table = pa.table({"type": ["A"] * 4, "time": [2, 1, 2, 1], "n": [0, 1, 2, 3]})
    assert in_time_order(table, Columns())["n"].to_pylist() == [1, 3, 0, 2]
    ordered = table.take([1, 3, 0, 2])
    assert in_time_order(ordered, Columns()) is ordered


def test_intervals_are_sorted_by_their_ends():
    rows = [
        {"type": "A", "start": 5, "end": 9},
        {"type": "B", "start": 6, "end": 7},
        {"type": "A", "start": 1, "end": 2},
    ]
    found = tocsin.query("EVENT SEQ(A a, B b)").detect(rows, jit=False)
    assert [(match["start"], match["end"]) for match in found] == [(1, 7)]


def test_an_unknown_order_is_refused():
    with pytest.raises(tocsin.TocsinError, match="no order of events"):
        QUERY.detect(ROWS, order="sideways")


# --- bad rows ------------------------------------------------------------------------------------------------------

BAD_CSV = {
    "null time": ("type,time,id\nA,1,7\nA,,7\nB,3,7\n", "line 3: the time is null"),
    "null type": ("type,time,id\nA,1,7\n,2,7\nB,3,7\n", "line 3: the type is null"),
    "time is text": ("type,time,id\nA,1,7\nA,soon,7\nB,3,7\n", "line 3: the time is neither a whole number"),
    "too few fields": ("type,time,id\nA,1,7\nA,2\nB,3,7\n", "line 3: has 2 fields instead of 3"),
    "too many fields": ("type,time,id\nA,1,7\nA,2,7,8\nB,3,7\n", "line 3: has 4 fields instead of 3"),
    "end before start": ("type,time,end,id\nA,1,1,7\nA,2,1,7\nB,3,3,7\n", "line 3: the end is before the start"),
    "null eid": ("type,time,eid,id\nA,1,1,7\nA,2,,7\nB,3,3,7\n", "line 3: the eid is null"),
    "time too large": (f"type,time,id\nA,1,7\nA,{2**61},7\nB,3,7\n", "line 3: the time is out of range"),
    "time far too large": (f"type,time,id\nA,1,7\nA,{10**30},7\nB,3,7\n", "line 3: the time"),
    "after a blank line": ("type,time,id\nA,1,7\n\nA,,7\nB,3,7\n", "line 4: the time is null"),
    "after a quoted newline": ('type,time,id,t\nA,1,7,"x\ny"\nA,,7,z\nB,3,7,z\n', "line 4: the time is null"),
    "not UTF-8": (b"type,time,id,t\nA,1,7,x\nA,2,7,\xff\nB,3,7,y\n", "line 3: 't' is not valid UTF-8"),
}


@pytest.mark.parametrize(("text", "message"), BAD_CSV.values(), ids=BAD_CSV)
def test_a_bad_row_of_a_csv_file_fails_with_its_line(tmp_path, text, message):
    with pytest.raises(InputError) as error:
        spans(csv_file(tmp_path, text))
    assert f"events.csv, {message}" in str(error.value)
    assert "--bad-rows skip" in error.value.hint


@pytest.mark.parametrize(("text", "message"), BAD_CSV.values(), ids=BAD_CSV)
def test_a_bad_row_of_a_csv_file_is_skipped_and_counted(tmp_path, text, message):
    found = QUERY.detect(csv_file(tmp_path, text), bad_rows="skip", jit=False)
    assert [(match["start"], match["end"]) for match in found] == [(1, 3)]
    assert found.counters["skipped"] == 1


def test_bad_rows_are_kept_in_a_file(tmp_path):
    kept = tmp_path / "bad.jsonl"
    found = QUERY.detect(csv_file(tmp_path, "type,time,id\nA,1,7\nA,x,7\nA,2\nB,3,7\n"), bad_rows=kept, jit=False)
    rows = [json.loads(line) for line in kept.read_text().splitlines()]
    assert len(found) == 1
    assert found.counters["skipped"] == 2
    assert sorted(row["place"].rpartition(", ")[2] for row in rows) == ["line 3", "line 4"]
    assert [row["row"] for row in rows] == ["A,2", {"type": "A", "time": "x", "id": "7"}]


@pytest.mark.parametrize("name", ["events.jsonl", "list", "iterator"])
def test_kept_rows_are_what_was_given_and_a_bad_first_row_spoils_no_other(tmp_path, name):
    wrong = {"type": "A", "time": "x", "id": 7, **{f"more{n}": n for n in range(20)}}
    rows = [wrong, {"type": "A", "time": 1, "id": 7}, {"type": "B", "time": 3, "id": 7}]
    source = {"list": rows, "iterator": iter(rows)}.get(name)
    if source is None:
        source = csv_file(tmp_path, "".join(json.dumps(row) + "\n" for row in rows), name)
    found = QUERY.detect(source, bad_rows=tmp_path / "bad.jsonl", jit=False)
    assert len(found) == 1
    [kept] = [json.loads(line) for line in (tmp_path / "bad.jsonl").read_text().splitlines()]
    assert kept["row"] == wrong


BAD_JSONL = {
    "not JSON": ('{"type":"A","time":1,"id":7}\n{"type":\n{"type":"B","time":3,"id":7}\n', "line 2: is not JSON"),
    "not an object": (
        '{"type":"A","time":1,"id":7}\n[1]\n{"type":"B","time":3,"id":7}\n',
        "line 2: is JSON but not an object",
    ),
    "a kind changes": (
        '{"type":"A","time":1,"id":7}\n{"type":"A","time":2,"id":"x"}\n{"type":"B","time":3,"id":7}\n',
        "line 2: 'id' is text here and int elsewhere",
    ),
    "no time": (
        '{"type":"A","time":1,"id":7}\n\n{"type":"A","id":7}\n{"type":"B","time":3,"id":7}\n',
        "line 3: the time is null",
    ),
    "twice": (
        '{"type":"A","time":1,"id":7}\n{"id":1,"id":2}\n{"type":"B","time":3,"id":7}\n',
        "line 2: has the name 'id' twice",
    ),
    "huge": (
        f'{{"type":"A","time":1,"id":7}}\n{{"id":{10**25}}}\n{{"type":"B","time":3,"id":7}}\n',
        "line 2: 'id' does not fit",
    ),
}


@pytest.mark.parametrize(("text", "message"), BAD_JSONL.values(), ids=BAD_JSONL)
def test_bad_rows_of_jsonl_files_fail_or_are_skipped(tmp_path, text, message):
    path = csv_file(tmp_path, text, "events.jsonl")
    with pytest.raises(InputError) as error:
        spans(path)
    assert f"events.jsonl, {message}" in str(error.value)
    found = QUERY.detect(path, bad_rows="skip", jit=False)
    assert ([(match["start"], match["end"]) for match in found], found.counters["skipped"]) == ([(1, 3)], 1)


def test_a_bad_row_of_a_table_is_named_by_its_number():
    table = pa.table({"type": ["A", "B"], "time": pa.array([1, None]), "id": [7, 7]})
    with pytest.raises(InputError, match="row 2: the time is null"):
        spans(table)
    assert (
        QUERY.detect(
            table.slice(0, 1).cast(table.schema), schema={"*": {"id": "int"}}, bad_rows="skip", jit=False
        ).counters["skipped"]
        == 0
    )


def test_bad_values_of_attributes_count_only_where_the_query_reads_them():
    table = pa.table({"type": ["A", "A", "B"], "time": [1, 2, 3], "id": pa.array([7, 2**63, 7], pa.uint64())})
    with pytest.raises(InputError, match="row 2: attribute 'id' does not fit into 64 bits"):
        spans(table)
    assert spans(table, bad_rows="skip") == [(1, 3)]
    assert len(tocsin.query("EVENT SEQ(A a, B b)").detect(table, jit=False)) == 2


def test_exact_decimals_or_none():
    rows = pa.table(
        {"type": ["A", "B"], "time": [1, 2], "id": pa.array([Decimal(10) ** 20, Decimal(1)], pa.decimal128(38, 0))}
    )
    with pytest.raises(InputError, match="more than 18 digits"):
        spans(rows)


def test_nothing_is_left_when_a_run_fails(tmp_path):
    kept = tmp_path / "bad.jsonl"
    with pytest.raises(QueryError):
        tocsin.query("EVENT SEQ(A a, B b) WHERE a = 1").detect(ROWS, bad_rows=kept)
    assert list(tmp_path.iterdir()) == []


# --- schemas -------------------------------------------------------------------------------------------------------


def test_a_type_that_occurs_nowhere_is_noted_with_a_suggestion():
    found = tocsin.query("EVENT SEQ(Shelv s)").detect([{"type": "Shelf", "time": 1}], jit=False)
    assert found.notes == ("no event of type Shelv occurs; did you mean Shelf?",)
    assert not len(found)


def test_a_declared_type_may_occur_nowhere():
    schema = tocsin.schema({"A": {"id": "int"}, "Z": {"id": "int"}})
    assert len(tocsin.query("EVENT SEQ(A a, Z z) WHERE [id]").detect(ROWS, schema=schema, jit=False)) == 0


def test_declared_kinds_are_read_from_csv(tmp_path):
    path = csv_file(tmp_path, "type,time,id,price\nA,1,007,1.10\nB,2,7,1.10\nB,3,007,x\n")
    schema = tocsin.schema({"*": {"id": "text", "price": "decimal(2)"}})
    query = tocsin.query("EVENT SEQ(A a, B b) WHERE [id]")
    with pytest.raises(InputError, match="line 4: 'price' is not a decimal"):
        query.detect(path, schema=schema, jit=False)
    assert len(query.detect(path, schema=schema, bad_rows="skip", jit=False)) == 0
    equal = tocsin.query("EVENT SEQ(A a, B b) WHERE [price] AND a.price = 1.1")
    assert len(equal.detect(path, schema=schema, bad_rows="skip", jit=False)) == 1


@pytest.mark.parametrize("schema", [{"A": 1}, {"A": {"id": "number"}}, {"A": {"p": "decimal(30)"}}, []])
def test_wrong_schemas_are_refused(schema):
    with pytest.raises(InputError):
        tocsin.schema(schema)


def test_an_attribute_that_only_other_types_have_is_null():
    rows = [{"type": "A", "time": 1, "x": 1}, {"type": "B", "time": 2, "y": 1}]
    found = list(tocsin.query("EVENT SEQ(A a, B b) WHERE b.x IS NULL").detect(rows, jit=False))
    assert found[0]["b"]["y"] == 1
    assert "x" not in found[0]["b"]


def test_an_empty_input_has_no_matches_and_is_no_error(tmp_path):
    assert spans([]) == []
    assert spans(csv_file(tmp_path, "", "events.jsonl")) == []
    assert spans(csv_file(tmp_path, "type,time,id\n")) == []
    assert spans(TABLE.slice(0, 0)) == []


def test_an_empty_csv_file_is_refused(tmp_path):
    with pytest.raises(InputError, match="is empty"):
        spans(csv_file(tmp_path, " \n"))


def test_columns_can_have_other_names(tmp_path):
    path = csv_file(tmp_path, "kind,at,id\nA,2024-01-01T00:00:01,7\nB,2024-01-01T00:00:03,7\n")
    found = list(tocsin.query("EVENT SEQ(A a, B b) WITHIN 2 s").detect(path, type="kind", time="at", jit=False))
    assert found[0]["start"] == datetime.fromisoformat("2024-01-01T00:00:01")
    assert found[0]["b"]["end"] == datetime.fromisoformat("2024-01-01T00:00:03")


def test_a_window_with_a_unit_needs_a_unit_of_time():
    query = tocsin.query("EVENT SEQ(A a, B b) WITHIN 1 min")
    with pytest.raises(QueryError):
        query.detect(ROWS, jit=False)
    assert len(query.detect(ROWS, time_unit="s", jit=False)) == 1
    assert len(query.detect(ROWS, time_unit="min", jit=False)) == 0
    with pytest.raises(InputError, match="no unit of time"):
        query.detect(ROWS, time_unit="fortnight")


# --- details -------------------------------------------------------------------------------------------------------


def test_texts_of_jsonl_stay_texts_and_large_numbers_stay_exact(tmp_path):
    rows = [{"type": "A", "time": 1, "day": "2024-01-01", "n": 2**60 + 1}, {"type": "A", "time": 2, "day": "x", "n": 1}]
    path = csv_file(tmp_path, "\n".join(map(json.dumps, rows)), "e.jsonl")
    table = open_input(path, Columns()).table()
    assert (table["day"].to_pylist(), table["n"].to_pylist()) == (["2024-01-01", "x"], [2**60 + 1, 1])


def test_floats_and_whole_numbers_of_jsonl_mix_only_if_exact(tmp_path):
    path = csv_file(tmp_path, f'{{"type":"A","time":1,"n":1.5}}\n{{"type":"A","time":2,"n":{2**53 + 1}}}', "e.jsonl")
    with pytest.raises(InputError, match="line 2: 'n' is too large to be a float exactly"):
        usable(open_input(path, Columns()), {})


def test_a_csv_file_whose_column_names_are_no_text_is_refused(tmp_path):
    path = tmp_path / "broken.csv"
    path.write_bytes(b"\x00\xff\x01,time\nA,1\n")
    with pytest.raises(InputError, match=r"broken\.csv cannot be read as csv"):
        tocsin.query("EVENT A a").detect(str(path))


def test_empty_fields_of_csv_are_null_and_quoted_ones_are_texts(tmp_path):
    path = csv_file(tmp_path, '\ufefftype,time,t\nA,1,\nA,2,""\nA,3,NA\n')
    assert open_input(path, Columns()).table()["t"].to_pylist() == [None, "", "NA"]


@pytest.mark.parametrize("line", [b'{"a": 1', b"\xff\xfe", b"[" * 100_000, b"1" * 5000, b"NaN", b"{} {}", b'"x"'])
def test_lines_that_are_no_objects_have_a_reason(line):
    row, reason = parse_line(line)
    assert row is None
    assert reason


def test_nan_and_null_are_different(tmp_path):
    rows = [{"type": "A", "time": 1, "v": math.nan}, {"type": "A", "time": 2, "v": None}]
    found = tocsin.query("EVENT A a WHERE a.v IS NULL").detect(rows, jit=False)
    assert [match["start"] for match in found] == [2]


def test_bad_rows_know_how_many_and_show_a_few():
    bad = BadRows("skip")
    for number in range(9):
        bad.report(f"row {number}", "is bad")
    assert (bad.count, len(bad.examples)) == (9, 3)


# --- numbers in CSV files ------------------------------------------------------------------------------------------

PAIRS = tocsin.query("EVENT SEQ(A a, B b) WHERE a.k = b.k")


@pytest.mark.parametrize(
    ("one", "other"),
    [("007", "7"), ("0x10", "16"), ("-07", "-7"), ("1", "true"), ("007.5", "7.5"), ("00", "0"), (" 07", "7")],
)
def test_what_is_written_differently_is_not_silently_equal(tmp_path, one, other):
    path = csv_file(tmp_path, f"type,time,k\nA,1,{one}\nB,2,{other}\n")
    assert len(PAIRS.detect(path, jit=False)) == 0
    same = csv_file(tmp_path, f"type,time,k\nA,1,{one}\nB,2,{one}\n")
    assert len(PAIRS.detect(same, jit=False)) == 1


@pytest.mark.parametrize(
    ("one", "other"), [("7", " 7"), ("0", "0"), ("0.5", "0.50"), ("true", "True"), ("-1", "-1"), ("+7", "7")]
)
def test_numbers_and_truths_are_equal_however_they_are_spaced(tmp_path, one, other):
    path = csv_file(tmp_path, f"type,time,k\nA,1,{one}\nB,2,{other}\n")
    assert len(PAIRS.detect(path, jit=False)) == 1


def test_whole_numbers_beyond_64_bits_are_bad_rows(tmp_path):
    path = csv_file(tmp_path, f"type,time,k\nA,1,{10**20}\nB,2,{10**20 + 1}\nA,3,5\nB,4,5\n")
    with pytest.raises(InputError, match="line 2: 'k' does not fit into 64 bits"):
        PAIRS.detect(path, jit=False)
    found = PAIRS.detect(path, jit=False, bad_rows="skip")
    assert (len(found), found.counters["skipped"]) == (1, 2)
    assert len(PAIRS.detect(path, jit=False, schema={"*": {"k": "text"}})) == 1


@pytest.mark.parametrize("sign", ["", "+"])
def test_whole_numbers_beyond_floats_are_bad_rows_among_floats(tmp_path, sign):
    path = csv_file(tmp_path, f"type,time,k\nA,1,{sign}{2**53 + 1}\nB,2,{2**53}\nA,3,0.5\nB,4,1e300\n")
    with pytest.raises(InputError, match="line 2: 'k' is too large to be a float exactly"):
        PAIRS.detect(path, jit=False)


@pytest.mark.parametrize("sign", ["", "+"])
def test_the_largest_whole_numbers_stay_exact(tmp_path, sign):
    path = csv_file(tmp_path, f"type,time,k\nA,1,{sign}{2**63 - 1}\nB,2,{2**63 - 2}\nB,3,{2**63 - 1}\nA,4,\n")
    assert [match["end"] for match in PAIRS.detect(path, jit=False)] == [3]


def test_times_with_leading_zeros_are_times(tmp_path):
    path = csv_file(tmp_path, "type,time,k\nA,01,5\nB,02,5\n")
    assert len(PAIRS.detect(path, jit=False)) == 1


def test_times_of_day_are_texts(tmp_path):
    path = csv_file(tmp_path, "type,time,k\nA,1,12:30\nB,2,12:30\nB,3,13:00\n")
    assert [match["end"] for match in PAIRS.detect(path, jit=False)] == [2]


def test_a_note_says_which_kinds_were_inferred(tmp_path):
    path = csv_file(tmp_path, "type,time,k,other\nA,1,007,1\nB,2,7,2\n")
    note = "kinds were inferred from the values of the file: k text; a schema fixes them"
    assert note in PAIRS.detect(path, jit=False).notes
    assert note in PAIRS.check(path)
    assert PAIRS.detect(path, jit=False, schema={"*": {"k": "int"}}).notes == ()


# --- files that would end the process ------------------------------------------------------------------------------


@pytest.mark.parametrize("raw", ["null", "null\n{row}", " null\n{row}\n", "{row}\nnull", "{row} null", "\n\nnull null"])
def test_jsonl_that_begins_with_null_is_a_bad_row(raw, tmp_path):
    """Arrow's own reader crashes at a null in the place of its first object."""
    path = tmp_path / "e.jsonl"
    path.write_text(raw.replace("{row}", '{"type": "A", "time": 1}'))
    with pytest.raises(InputError, match="line"):
        tocsin.query("EVENT A a").detect(path, jit=False)
    found = tocsin.query("EVENT A a").detect(path, jit=False, bad_rows="skip")
    assert len(found) == ("\n{row}" in raw or raw.startswith("{row}\n"))


def test_csv_lines_that_are_no_utf8_are_bad_rows_wherever_the_bytes_stand(tmp_path, capfd):
    """In a type, in a declared attribute, and in a line with too many fields."""
    path = tmp_path / "e.csv"
    path.write_bytes("type,time,kü\nÄ,1,a\nA,2,".encode() + b"\xff,7\nB\xff,3,a\nB,4,\xff\nB,5,a\n")
    query = tocsin.query("EVENT SEQ(Ä a, B b) WHERE a.`kü` = b.`kü`")
    for schema in (None, {"*": {"kü": "text"}}):
        found = query.detect(path, jit=False, bad_rows="skip", schema=schema)
        assert [(row["start"], row["end"]) for row in found] == [(1, 5)]
        with pytest.raises(InputError, match="line 3: has 4 fields instead of 3"):
            query.detect(path, jit=False, schema=schema)
    assert capfd.readouterr().err == ""
    path.write_bytes(b"type,time,k\xff\nA,1,a\n")
    with pytest.raises(InputError, match="cannot be read as csv"):
        query.detect(path, jit=False, bad_rows="skip")


def test_a_csv_field_may_be_long_also_in_a_bad_row(tmp_path):
    path, long = tmp_path / "e.csv", "x" * 200_000
    path.write_text(f"type,time,k\nA,1,{long}\nA,2,{long},3\nA,?,{long}\n")
    before = csv.field_size_limit()
    with pytest.raises(InputError, match="line 3: has 4 fields instead of 3"):
        tocsin.query("EVENT A a").detect(path, jit=False)
    found = tocsin.query("EVENT A a").detect(path, jit=False, bad_rows="skip")
    assert [row["a"]["k"] for row in found] == [long]
    assert csv.field_size_limit() == before


def test_jsonl_nested_deeply_is_a_bad_row(tmp_path):
    lines = [{"type": "A", "time": 1, "k": 1}, {"type": "B", "time": 2, "k": 1}]
    deep = '{"type":"C","time":2,"k":' + "[" * 20_000 + "]" * 20_000 + "}"
    path = tmp_path / "events.jsonl"
    path.write_text("\n".join([json.dumps(lines[0]), deep, json.dumps(lines[1])]))
    with pytest.raises(InputError, match="line 2: is nested too deeply"):
        PAIRS.detect(path, jit=False)
    assert len(PAIRS.detect(path, jit=False, bad_rows="skip")) == 1


@pytest.mark.parametrize("name", [b'"k":"\xff"', b'"\xff":1', b'"\\ud800":1', b'"k":"\\ud800"'])
def test_jsonl_that_is_no_unicode_is_a_bad_row(tmp_path, name):
    path = tmp_path / "events.jsonl"
    path.write_bytes(b'{"type":"A","time":1,"k":"x"}\n{"type":"A","time":1,%b}\n{"type":"B","time":2,"k":"x"}' % name)
    with pytest.raises(InputError, match="line 2"):
        PAIRS.detect(path, jit=False)
    found = PAIRS.detect(path, jit=False, bad_rows="skip")
    assert (len(found), found.counters["skipped"]) == (1, 1)


def test_parquet_texts_that_are_no_unicode_are_refused(tmp_path):
    wrong = pa.array([b"\xff", b"x"]).view(pa.string())
    pa.parquet.write_table(pa.table({"type": ["A", "B"], "time": [1, 2], "k": wrong}), tmp_path / "e.parquet")
    with pytest.raises(InputError, match="cannot be read as parquet"):
        PAIRS.detect(tmp_path / "e.parquet", jit=False)


def test_a_limit_bounds_the_work():
    events = [{"type": "AB"[t % 2], "time": t, "k": 1} for t in range(5000)]
    found = PAIRS.detect(events, jit=False, limit=3)
    assert (len(found), found.counters["events"]) == (3, 16)
    assert list(found) == list(PAIRS.detect(events[:16], jit=False))[:3]
    assert "the search ended with the first 3 matches" in found.notes
    assert len(PAIRS.detect(events[:20], jit=False, limit=10**6)) == 55
    corrected = PAIRS.detect(events[:100], jit=False, limit=3, order="aggressive(10)")
    assert (len(corrected), corrected.counters["events"]) == (3, 100)


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("e.jsonl", '{"type":"A","time":1,"v":1e400}\n{"type":"B","time":2,"v":0.5}\n', 1),
        ("e.csv", "type,time,v\nA,1,0.5\nB,2,-2e400\n", 3),
    ],
)
def test_a_number_that_no_float_holds_is_a_bad_row(tmp_path, name, text, line):
    path = tmp_path / name
    path.write_text(text)
    query = tocsin.query("EVENT OR(A a, B b) WHERE a.v = a.v OR b.v = b.v")
    with pytest.raises(InputError, match=f"line {line}.* larger than any float"):
        query.detect(path, jit=False)
    assert len(query.detect(path, jit=False, bad_rows="skip")) == 1


def test_infinity_that_is_written_as_such_is_read(tmp_path):
    path = tmp_path / "e.jsonl"
    path.write_text('{"type":"A","time":1,"v":Infinity}\n')
    assert len(tocsin.query("EVENT A a WHERE a.v > 1e308").detect(path, jit=False)) == 1


# --- files in blocks -----------------------------------------------------------------------------------------------

FIELDS: dict[str, tuple[str, ...]] = {
    "int": ("1", "-2", "30", ""),
    "late float": ("1", "2", "3", "4", "5", "6", "7", "8", "9", "0.5"),
    "code": ("7", "8", "007", "0x10"),
    "time": ("2026-03-05 09:07:00", "2026-03-05 10:00:00.5", "2026-03-06"),
    "large": ("1", "9007199254740993", "99999999999999999999", "0.5"),
    "truth": ("true", "False", "", "1"),
    "text": ("a", "ü", '"two\nlines"', '"a ""quote"""', " b", "-0", "+ 05", "- 1"),
}


def read_in_blocks(path: Path, block: int, monkeypatch: pytest.MonkeyPatch, **more: Any) -> tuple[Any, ...]:
    """What a file says if it is read in blocks of so many bytes: rows, kinds, and what is wrong with which rows."""
    monkeypatch.setattr(files, "BLOCK", block)
    monkeypatch.setattr(files, "HEAD", block // 2)
    bad = BadRows("kept in memory")
    piece = files.read(path, Columns(**more), {}, bad)
    wrong = [(mask.tolist(), reason) for mask, reason in piece.problems]
    places = [piece.place(row) for row in range(piece.table.num_rows)]
    return piece.table.to_pylist(), piece.table.schema, wrong, places, bad.kept


def test_a_csv_file_means_the_same_in_blocks_of_any_size(tmp_path, monkeypatch):
    for seed in range(examples(150, least=15)):
        draw = random.Random(seed)
        kinds = draw.sample(sorted(FIELDS), 3)
        lines = ["type,time,x,y,z"]
        for at in range(draw.choice((1, 20, 60))):
            pools = [FIELDS[kind][: draw.choice((2, 9))] if at < 20 else FIELDS[kind] for kind in kinds]
            lines.append(",".join(["A", str(at), *(draw.choice(pool) for pool in pools)]))
            if draw.random() < 0.02:
                lines.append("too,short")
        path = tmp_path / f"{seed}.csv"
        path.write_text("\n".join(lines) + draw.choice(("", "\n", "\n\n")), encoding="utf-8")
        whole = read_in_blocks(path, 1 << 26, monkeypatch)
        assert read_in_blocks(path, draw.choice((40, 200, 1000)), monkeypatch) == whole


def test_json_lines_mean_the_same_in_blocks_of_any_size(tmp_path, monkeypatch):
    values = (1, 2.5, None, "x", "2026-03-05T09:07:00", "2026-03-05", True, 2**53 + 1, "ü\n", [1], {"a": None})
    for seed in range(examples(150, least=15)):
        draw = random.Random(seed)
        few, more = draw.sample(values, 2), draw.sample(values, 3)
        lines = []
        for at in range(draw.choice((1, 20, 60))):
            row = {"type": "A", "time": at, "x": draw.choice(few if at < 30 else more)}
            row |= {"late": draw.choice(more)} if at > 10 else {}
            lines.append(draw.choice(("", " ")) * (draw.random() < 0.1) + json.dumps(row))
            if draw.random() < 0.02:
                lines.append(draw.choice(("", "null", "{", " ", "[1]")))
        path = tmp_path / f"{seed}.jsonl"
        path.write_text("\n".join(lines) + draw.choice(("", "\n", "\n\n")), encoding="utf-8")
        whole = read_in_blocks(path, 1 << 26, monkeypatch)
        assert read_in_blocks(path, draw.choice((40, 200, 1000)), monkeypatch) == whole


@pytest.mark.parametrize(
    ("text", "are_there"),
    [
        ("a\n007\n", True),
        ("a\n2026-03-05 09:07:00\n", False),
        ("a,b\n1,-05\n", True),
        ("a\n- 05\n", True),
        ("a\n10.05\n", False),
    ],
)
def test_leading_zeros_are_looked_for_where_fields_begin(text, are_there):
    assert has_leading_zeros(text.encode()) is are_there


# --- columns that are read late ------------------------------------------------------------------------------------

LATE_QUERIES = (
    "EVENT SEQ(A a, B b) WHERE [k] AND b.v > a.v WITHIN 9",
    "EVENT SEQ(A a, B+ b, C c) WHERE [k] WITHIN 9",
    "EVENT SEQ(A a, !B b, C c) WITHIN 3 SELECT a.note AS note, c.extra + 1 AS more",
    "QUERY p EVENT SEQ(A a, B b) WITHIN 3 SELECT b.extra AS extra; EVENT SEQ(p x, C c) WHERE x.extra > 4 WITHIN 9",
    "EVENT SEQ(A a, C c) WHERE [k] WITHIN 9 AFTER MATCH SKIP PAST LAST EVENT",
    "EVENT A a WHERE a.v > 100",
)


def wide_table(draw: random.Random, count: int) -> pa.Table:
    """Events with columns that few queries read, some of them with nulls; some events are equal, some unsorted."""
    times = sorted(draw.randrange(count) for _ in range(count))
    columns = {
        "type": [draw.choice("AABCD") for _ in times],
        "time": times,
        "k": [draw.choice("xyz") for _ in times],
        "v": [draw.randrange(5) for _ in times],
        "note": [draw.choice(("ü", "long " * 9, "")) for _ in times],
        "extra": [draw.randrange(9) for _ in times],
        "real": [draw.choice((0.5, -0.0)) for _ in times],
        "when": pa.array([draw.randrange(9) for _ in times], pa.timestamp("ms")),
        "some": [draw.choice((None, 1)) for _ in times],
        "many": pa.array([[1]] * count),
        "huge": pa.array([2**63 + draw.randrange(3) for _ in times], pa.uint64()),
    }
    if draw.random() < 0.3:
        columns["time"][draw.randrange(count)] = None
    if draw.random() < 0.3:
        columns["eid"] = [f"e{draw.randrange(count)}" for _ in times]
    table = pa.table(columns)
    return table.take(draw.sample(range(count), count)) if draw.random() < 0.3 else table


@pytest.mark.parametrize("text", LATE_QUERIES)
def test_columns_that_are_read_late_change_nothing(text, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "LATE_ROWS", 1)
    for seed in range(examples(60, least=6)):
        draw = random.Random(f"{text}{seed}")
        table = wide_table(draw, 60)
        path = tmp_path / f"{seed}.parquet"
        pyarrow.parquet.write_table(
            table, path, row_group_size=draw.choice((7, 100)), write_statistics=draw.random() < 0.9
        )
        order = "in-order" if draw.random() < 0.8 else "aggressive(60)"
        way: dict[str, Any] = {"order": order, "bad_rows": "skip", "jit": False, "time_unit": "us"}
        query = tocsin.query(text)
        one, late = query.detect(table, **way), query.detect(path, threads=draw.choice((1, 2)), **way)
        assert late.counters == one.counters
        assert late.table().schema == one.table().schema
        assert list(late) == list(one)


def late_file(tmp_path, count=100):
    path = tmp_path / "events.parquet"
    rows = [{"type": "AB"[at % 2], "time": at, "note": f"n{at}"} for at in range(count)]
    pyarrow.parquet.write_table(pa.Table.from_pylist(rows), path, row_group_size=10)
    return path


def test_what_nobody_looks_at_is_never_read(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "LATE_ROWS", 1)
    read: list[int] = []
    group = LateFile._read
    monkeypatch.setattr(LateFile, "_read", lambda self, at: read.append(at) or group(self, at))
    found = tocsin.query("EVENT SEQ(A a, B b) WHERE a.time = 40 WITHIN 1").detect(
        late_file(tmp_path), time_unit="us", jit=False
    )
    assert len(found) == 1 and read == []
    assert [match["b"]["note"] for match in found] == ["n41"]
    assert read == [4]


def test_a_file_that_changes_before_it_was_read_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "LATE_ROWS", 1)
    path = late_file(tmp_path)
    found = tocsin.query("EVENT SEQ(A a, B b) WITHIN 1").detect(path, time_unit="us", jit=False)
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(InputError, match="has changed while it was read"):
        found.table()
    path.unlink()
    with pytest.raises(InputError, match="cannot be read as parquet"):
        found.table()


def test_a_bad_row_is_shown_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "LATE_ROWS", 1)
    path = tmp_path / "events.parquet"
    pyarrow.parquet.write_table(pa.table({"type": ["A", None], "time": [1, 2], "note": ["x", "shown"]}), path)
    kept = tmp_path / "bad.jsonl"
    assert len(tocsin.query("EVENT A a").detect(path, bad_rows=kept, time_unit="us", jit=False)) == 1
    assert "shown" in kept.read_text()


@pytest.mark.parametrize("layout", [pa.string(), pa.large_string()])
def test_parquet_with_few_texts_is_the_table_that_arrow_reads(layout, tmp_path):
    """With texts that are few, or all distinct, nulls, no rows, several row groups."""
    for count in (0, 1, 3000):
        columns = {
            "type": pa.array([("A", "ü", None)[at % 3] for at in range(count)], layout),
            "k": pa.array([f"user {at}" for at in range(count)], layout),
            "few": pa.array(["x" * (at % 4) for at in range(count)], layout),
            "time": pa.array(range(count), pa.int64()),
        }
        pa.parquet.write_table(pa.table(columns), tmp_path / "e.parquet", row_group_size=700)
        read = LateFile(tmp_path / "e.parquet").table(frozenset(columns), "no such column")
        wanted = pa.parquet.ParquetFile(tmp_path / "e.parquet").read()
        assert read.equals(wanted)
        assert read.schema.equals(wanted.schema, check_metadata=True)
        read.validate(full=True)
        types = LateFile(tmp_path / "e.parquet").table(frozenset(columns), "type").column("type")
        assert types.cast(layout).equals(wanted.column("type"))
        assert pa.types.is_dictionary(types.type) == (count == 3000)


def test_parquet_is_read_as_arrow_does_where_few_texts_are_too_long_for_one_piece(tmp_path, monkeypatch):
    table = pa.table({"type": ["A"] * 3000, "time": range(3000)})
    pa.parquet.write_table(table, tmp_path / "e.parquet")

    def refuses(*_: Any, **__: Any) -> None:
        raise pa.ArrowInvalid("offset overflow while concatenating arrays")

    monkeypatch.setattr("tocsin.encode.late.written_out", refuses)
    assert LateFile(tmp_path / "e.parquet").table(frozenset(("type", "time")), "type").equals(table)
