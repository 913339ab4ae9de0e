"""Staged statements on Spark: batch and stream, divided by global keys, give what the embedded engine gives."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields, is_dataclass
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import tocsin
from tests.test_staged import LASTING, SCHEMA, row_of
from tocsin.encode.columns import Columns, infer_schema
from tocsin.events import Event
from tocsin.lang.parser import parse_file
from tocsin.lang.staged_syntax import (
    AttrOf,
    EventsOf,
    Initiator,
    KeyEntry,
    LeafOperand,
    OperatorCall,
    OutputColumn,
    PartitionKey,
    Statement,
    Terminator,
    TimeOf,
    parts,
)
from tocsin.run.declared import declare
from tocsin.run.query import Query
from tocsin.spark import Sink, explain, start
from tocsin.spark import detect as detect_on_spark
from tocsin.testing.cases import Case, read_cases
from tocsin.testing.draw_staged import drawn_history
from tocsin.testing.notation import history
from tocsin.testing.staged_cases import row_differences

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("interpreted"), pytest.mark.filterwarnings("ignore")]

FILE = """
CreateCE Pair Select A.k as k, B.x as b Event And(A<consume>, B<consume>) Where A.k = B.k GKey *.k;
CreateCE Tick Select Pair.k as pair, stable-time as at Event And(Pair, Every(4));
QUERY Q EVENT SEQ(Pair p, C c) WHERE p.k = c.k SELECT p.k AS pair;
CreateCE Quiet Select Count(i) as n Init I as i<add> Event Not(A) Term 6
"""

FOLDER = Path(__file__).parent / "staged_cases"
TYPES = {LeafOperand: ("type", "label"), Initiator: ("type", "label"), Terminator: ("type", "label"),
         OperatorCall: ("label",), PartitionKey: ("name",), Statement: ("name",), OutputColumn: ("name",),
         AttrOf: ("name", "attr"), KeyEntry: ("name", "attr"), TimeOf: ("name",), EventsOf: ("name",)}  # fmt: skip


def rows_of(rows: Any) -> Counter[Any]:
    names = ("query", "match_id", "start", "end", "k", "b", "pair", "at", "n")
    return Counter(tuple(row.get(name) for name in names) for row in rows)


@pytest.mark.parametrize("seed", range(2))
def test_a_batch_gives_what_is_found_embedded(spark: SparkSession, seed: int) -> None:
    events = [row_of(event) for event in drawn_history(Random(seed), length=60, last=60)]
    events += [{"type": "Unread", "start": 75, "end": 75, "id": 1000}]
    frame = spark.createDataFrame([{"k": None, "x": None, "y": None, **event} for event in events], SHAPE)
    how = {"time": "start", "end": "end", "eid": "id"}
    query = tocsin.query(FILE)
    found = rows_of(row.asDict() for row in detect_on_spark(frame.repartition(3), query, **how).collect())
    wanted = rows_of(row for table in query.detect(events, **how).tables() for row in table.to_pylist())
    assert found == wanted
    assert {row[0] for row in wanted} == {"Pair", "Tick", "Q", "Quiet"}


KEYED = """
CreateCE Pair Select A.k as k, B.x as b Event And(A<consume>, B<consume>) GKey *.k;
QUERY Q EVENT SEQ(Pair p, C c) WHERE p.k = c.k WITHIN 20 SELECT p.k AS pair;
CreateCE Late Select Max(i.k) as k Init I as i Event After(Q, 4) Term T GKey i.k, T.k, Q.pair
"""
SHAPE = "type STRING, start LONG, `end` LONG, id LONG, k LONG, x LONG, y LONG"
HOW = {"time": "start", "end": "end", "eid": "id", "jit": False}


def test_a_stream_that_is_stopped_gives_the_same_in_shards(spark: SparkSession, tmp_path: Path) -> None:
    """Late rows within the delay, a restart between two runs, and one row that comes too late."""
    random = Random(4)
    events = [row_of(event) for event in drawn_history(random, length=200, last=60)]
    arriving = sorted(events, key=lambda row: (row["end"] + random.randint(0, 5), row["id"]))
    half = len(events) // 2
    arriving.insert(half, {"type": "A", "start": 0, "end": 0, "id": 1000, "k": 1})
    (source := tmp_path / "in").mkdir()
    fields = [pa.field("type", pa.string())] + [pa.field(name, pa.int64()) for name in ("start", "end", "id", *"kxy")]
    for rows, closing in ((arriving[:half], False), (arriving[half:], True)):
        pq.write_table(pa.Table.from_pylist(rows, pa.schema(fields)), source / f"{closing}.parquet")
        frame = spark.readStream.schema(SHAPE).parquet(str(source))
        found = detect_on_spark(frame, KEYED, order="slack(6)", buckets=2, end_of_stream=closing, **HOW)
        stream = start(found, Sink("parquet", str(tmp_path / "out"), kinds=("match", "late")),
                       checkpoint=str(tmp_path / "checkpoint"), trigger={"availableNow": True})  # fmt: skip
        stream.awaitTermination()
    given = [row.asDict() for row in spark.read.parquet(str(tmp_path / "out")).collect()]
    wanted = tocsin.query(KEYED).detect(events, **HOW).tables()
    expected = rows_of(row for table in wanted for row in table.to_pylist())
    assert rows_of(row for row in given if row["kind"] == "match") == expected
    assert {row[0] for row in expected} == {"Pair", "Q", "Late"}
    assert sum(row["kind"] == "late" for row in given) == 1


def test_what_may_still_come_is_known_by_how_long_events_last(spark: SparkSession) -> None:
    text = """CreateCE Alone Select A.k as k, A.x as b Event Unless(A<consume>, B)<active>
    Where start-ts(B) <= end-ts(A) AND end-ts(B) >= start-ts(A) AND sst(B) > end-ts(A) GKey *.k"""
    query = Query(parse_file(text), declare(SCHEMA, longest=LASTING))
    events = [row_of(event) for event in drawn_history(Random(3), length=60, last=60)]
    frame = spark.createDataFrame([{"k": None, "x": None, "y": None, **event} for event in events], SHAPE)
    how = {"time": "start", "end": "end", "eid": "id"}
    found = rows_of(row.asDict() for row in detect_on_spark(frame, query, **how).collect() if row["kind"] == "match")
    wanted = rows_of(row for table in query.detect(events, **how).tables() for row in table.to_pylist())
    assert found == wanted
    assert wanted


def test_explain_says_how_statements_are_divided(spark: SparkSession) -> None:
    frame = spark.createDataFrame([], SHAPE)
    told = explain(frame, KEYED, buckets=2, **HOW)
    assert "by hash of" in told
    assert "Q" in told
    with pytest.warns(UserWarning, match="runs in one shard: it has no global key"):
        detect_on_spark(frame, KEYED.replace("GKey *.k;", ";"), buckets=2, **HOW)


# --- the cases of the paper ----------------------------------------------------------------------------------------


def apart(node: Any, prefix: str) -> Any:
    """A statement with a prefix before each of its names, so that many stand in one text and share nothing."""
    if isinstance(node, tuple):
        return tuple(apart(each, prefix) for each in node)
    if not is_dataclass(node) or isinstance(node, type):
        return node
    mine = next((names for kind, names in TYPES.items() if isinstance(node, kind)), ())
    label = isinstance(node, AttrOf) and node.attr in ("label", "labels")
    found = {each.name: apart(getattr(node, each.name), prefix) for each in fields(node) if each.init}
    for name in mine:
        if found[name] is not None and not (label and name == "attr"):
            found[name] = f"{prefix}{found[name]}"
    return type(node)(**found)


def plain_cases(*, ticks: bool) -> list[tuple[Case, tuple[Statement, ...], list[Any]]]:
    """The cases that a batch can answer: of statements alone, without an order of their own."""
    found = []
    for case in (case for path in sorted(FOLDER.glob("o*.case")) for case in read_cases(path)):  # okeeffe*, options
        queries = case.queries() if case.error is None else ()
        asks_sst = any(isinstance(part, TimeOf) and part.which == "sst" for each in queries for part in parts(each))
        fits = all(isinstance(each, Statement) for each in queries) and case.options.get("order", "slack") != "none"
        if queries and fits and not asks_sst and case.times.are_ticks == ticks and "order" not in case.options:
            found.append((case, queries, list(history(case.stream, case.times))))
    return found


@pytest.mark.parametrize("ticks", [True, pytest.param(False, marks=pytest.mark.long)])
def test_the_cases_of_the_paper_in_one_job(spark: SparkSession, ticks: bool) -> None:
    """All of them at once; of each what ends by its own end, as timers go on to the end of the whole."""
    events: list[dict[str, Any]] = []
    statements: list[Statement] = []
    asked = []
    for number, (case, queries, items) in enumerate(plain_cases(ticks=ticks)):
        prefix = f"q{number}_"
        mine = [item for item in items if isinstance(item, Event)]
        last = max(item.end if isinstance(item, Event) else item.time for item in items)
        for event in mine:
            values = {f"{prefix}{name}": value for name, value in event.attrs.items()}
            eid = f"{len(events):06}"
            events.append({"type": prefix + event.type, "start": event.start, "end": event.end, "eid": eid, **values})
        statements += [apart(each, prefix) for each in queries]
        asked.append((case, f"{prefix}{queries[-1].name}", last))
    end = max(last for _, _, last in asked)
    events.append({"type": "Unread", "start": end, "end": end, "eid": "z"})
    columns = {name: None for event in events for name in event}
    table = pa.Table.from_pylist([{**columns, **event} for event in events])
    query = Query(tuple(statements))
    unit = None if ticks else "us"
    found = detect_on_spark(spark.createDataFrame(table), query, time="start", end="end", eid="eid", time_unit=unit,
                            jit=False).toArrow()  # fmt: skip
    outputs = {plan.name: [output.name for output in plan.outputs] for plan in query.plans(schema_of(table, unit))}
    rows: dict[str, list[Any]] = {}
    for row in whole_numbers(found).to_pylist():
        rows.setdefault(row["query"], []).append(row)
    wrong = []
    for case, name, last in asked:
        mine = [(row["start"], row["end"], tuple(row[each] for each in outputs[name])) for row in rows.get(name, ())]
        wrong += [
            f"{case}: {line}" for line in row_differences(case.expected, (r for r in mine if r[1] <= last), case.times)
        ]
    assert not wrong
    assert len(asked) >= (60 if ticks else 3)


def whole_numbers(table: pa.Table) -> pa.Table:
    for at, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            table = table.set_column(at, field.name, table.column(at).cast(pa.int64()))
    return table


def schema_of(table: pa.Table, unit: str | None) -> Any:
    return infer_schema(table.schema, Columns(time="start", end="end", eid="eid", unit=unit))
