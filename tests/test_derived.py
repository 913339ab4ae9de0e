"""Derived intervals: whole graphs against the definition, in every order, cut, over restarts and on shards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from tests.effort import examples
from tocsin.app.judge import judge_case
from tocsin.codec import pack, unpack
from tocsin.encode.columns import Columns
from tocsin.engine.changes import ChangeBatch
from tocsin.events import Event
from tocsin.graph.query_graph import QueryGraph
from tocsin.items import end
from tocsin.lang.parser import parse_file
from tocsin.order.strategy import parse_strategy
from tocsin.run.query import plans_of
from tocsin.schema import Field, Kind, Schema
from tocsin.testing.cases import Case, read_cases
from tocsin.testing.draw_derived import drawn_intervals, drawn_readings
from tocsin.testing.oracle_derived import DerivedRow, derived_rows

CASES = [case for path in sorted((Path(__file__).parent / "derived_cases").glob("*.case")) for case in read_cases(path)]
COLUMNS = Columns(time="start", end="end", eid="eid")
KINDS = {"k": Kind.INT, "s": Kind.TEXT, "v": Kind.INT, "w": Kind.FLOAT, "b": Kind.BOOL}
TYPES = pa.schema(
    [("type", pa.string()), ("start", pa.int64()), ("end", pa.int64()), ("eid", pa.string()), ("k", pa.int64()),
     ("s", pa.string()), ("v", pa.int64()), ("w", pa.float64()), ("b", pa.bool_())]
)  # fmt: skip
SCHEMA = Schema(
    types={type: {} for type in "ABC"}, common={name: Field(name, kind) for name, kind in KINDS.items()}, eid=Kind.TEXT
)
Row = tuple[Any, ...]


def rows_of(events: Sequence[Event]) -> pa.RecordBatch:
    dicts = [
        {"type": each.type, "start": each.start, "end": each.end, "eid": each.eid, **each.attrs} for each in events
    ]
    return pa.RecordBatch.from_pylist(dicts, schema=TYPES)


def shown(batch: ChangeBatch) -> Iterator[Row]:
    """Kind, op, start, end, eid and columns of each answer."""
    table = batch.table()
    names = [output.name for output in batch.plan.outputs]
    for row, eid in zip(table.to_pylist(), batch.eids(0).to_pylist(), strict=True):
        yield row["kind"], row["op"], row["start"], row["end"], eid, tuple(row[name] for name in names)


def wanted(rows: Sequence[DerivedRow]) -> Counter[Row]:
    return Counter(
        (row.kind, 1, row.event.start, row.event.end, row.event.eid, tuple(row.event.attrs.values())) for row in rows
    )


def answers(
    given: Sequence[Any], events: Sequence[Event], order: str, random: Random, *, restarts: bool = False,
    jit: bool = False, at: int = 0,
) -> list[Row]:  # fmt: skip
    """What the query at a place of a graph answers to events in their order of arrival, cut at random."""
    plans = plans_of(tuple(given), SCHEMA)

    def fresh() -> QueryGraph:
        return QueryGraph(plans, SCHEMA, COLUMNS, jit=jit, order=parse_strategy(order, SCHEMA))

    graph, found, first = fresh(), [], 0
    whole = rows_of(events)
    while first < len(events):
        count = random.choice((1, 1, 2, 5, len(events)))
        said = graph.push(graph.encode(whole.slice(first, count)))
        found += [row for batch in said if batch.stage == at for row in shown(batch)]
        first += count
        if restarts and random.random() < 0.5:
            parts = unpack(pack(graph.snapshot()))
            graph = fresh()
            graph.restore(parts)
    return found + [row for batch in graph.push(end()) if batch.stage == at for row in shown(batch)]


def shuffled(events: Sequence[Event], late: int, random: Random) -> list[Event]:
    """Events in an order of arrival in which none comes more than `late` behind the clock."""
    return sorted(events, key=lambda event: event.end + random.randint(0, late))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_cases(case: Case) -> None:
    for verdict in judge_case(case, jit=False):
        assert verdict.ok, str(verdict)


ORDERS = ("in-order", "slack(4)", "conservative(4)", "aggressive(4)", "aggressive", "hybrid(A=conservative, 4)")


def check(seed: int, *, jit: bool = False) -> bool:
    """Compare a definition with the graph on what a seed draws; whether anything was found."""
    random = Random(seed)
    given, events = drawn_intervals(random), drawn_readings(random)
    expected = wanted(derived_rows(given, events))
    for order in ORDERS if not jit else ORDERS[:1]:
        arrived = events if order == "in-order" else shuffled(events, 4, random)
        found = answers([given], arrived, order, random, restarts=random.random() < 0.5, jit=jit)
        assert Counter(found) == expected, f"seed {seed}, {order}\n{given}\n{events}"
    return bool(expected)


def test_graphs_agree_with_the_definition() -> None:
    count = examples(1500)
    assert sum(check(seed) for seed in range(count)) > count / 2


@pytest.mark.jit
def test_compiled_loops_agree_with_the_definition() -> None:
    count = examples(400)
    assert sum(check(seed, jit=True) for seed in range(count)) > count / 2


def test_the_order_of_answers_does_not_depend_on_batches() -> None:
    for seed in range(examples(1000)):
        random = Random(seed)
        given, events = drawn_intervals(random), drawn_readings(random)
        several = [answers([given], events, "in-order", random, restarts=cut > 0) for cut in range(3)]
        assert several[0] == several[1] == several[2], f"seed {seed}\n{given}\n{events}"


def test_definitions_are_printed_as_they_are_read() -> None:
    for seed in range(examples(3000)):
        given = drawn_intervals(Random(seed))
        assert parse_file(str(given)) == (given,)
