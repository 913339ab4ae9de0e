"""Derived intervals: whole graphs against the definition, in every order, cut, over restarts and on shards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
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
from tocsin.run.query import Query, plans_of
from tocsin.schema import Field, Kind, Schema
from tocsin.testing.cases import Case, read_cases
from tocsin.testing.draw_derived import drawn_intervals, drawn_readings
from tocsin.testing.oracle_derived import DerivedRow, derived_rows
from tocsin.testing.staged_cases import defined_rows

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


CHAINS = (
    "{0}; EVENT SEQ({1} x, {1} y) WHERE [k] SELECT x.k AS k",
    "{0}; EVENT SEQ({1} x, !C c, A y) WHERE [k] WITHIN 9 SELECT x.k AS k",
    "{0}; INTERVALS more FROM {1} BY k SESSION GAP 3 SELECT count(*) AS n",
)


def drawn_chain(random: Random) -> tuple[Any, ...]:
    """A definition with a key, and a query that reads its intervals, by its name or a label."""
    while True:
        given = drawn_intervals(random)
        if given.by and "k" in given.by:
            text = random.choice(CHAINS).format(given, random.choice((given.name, *given.labels)))
            return parse_file(text)


def told(rows: Iterator[Row]) -> Counter[Row]:
    """Rows of matches by span and columns: ids of matches over intervals are not those of the definition."""
    return Counter((row[2], row[3], row[5]) for row in rows if row[0] == "match" and row[1] > 0)


def test_queries_read_intervals_by_name_and_by_label() -> None:
    count, found = examples(900), 0
    for seed in range(count):
        random = Random(f"chain {seed}")
        queries, events = drawn_chain(random), drawn_readings(random, most=12)
        wanted = Counter(
            (start, end, values)
            for start, end, values in defined_rows(queries, events, None)
            if values[:1] != ("unended",)
        )
        for order in ("in-order", "slack(4)", "conservative(4)", "aggressive(4)"):
            arrived = events if order == "in-order" else shuffled(events, 4, random)
            rows = answers(queries, arrived, order, random, restarts=random.random() < 0.5, at=1)
            taken = Counter((row[2], row[3], row[5]) for row in rows if row[1] < 0)
            assert told(iter(rows)) - taken == wanted, f"seed {seed}, {order}\n{queries}\n{events}"
        found += bool(wanted)
    assert found > count / 8


def test_explain_says_what_a_definition_does() -> None:
    text = "INTERVALS t FROM A BY k AS High WHEN v > 2 MAX GAP 5 min SELECT max(v)"
    told = Query(parse_file(text), replace(SCHEMA, unit="us")).explain()
    for line in ("key       k", "state     High: v > 2", "more than 5 min later", "column    max_v: max(v)"):
        assert line in told


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_change_nothing(threads: int) -> None:
    given = parse_file("INTERVALS t FROM A BY k AS High WHEN v > 2, Low WHEN v <= 2 SELECT count(*) AS n")
    events = sorted((event for seed in range(9) for event in drawn_readings(Random(seed))), key=Event.order)
    found = Query(given, SCHEMA).detect(
        pa.Table.from_batches([rows_of(events)]), time="start", end="end", eid="eid", threads=threads, jit=False
    )
    wanted = Counter(
        (row.event.start, row.event.end, *row.event.attrs.values()) for row in derived_rows(given[0], events)
    )  # type: ignore[arg-type]
    assert Counter((row["start"], row["end"], row["label"], row["k"], row["n"]) for row in found) == wanted


@pytest.mark.parametrize("text", ["INTERVALS t FROM A SESSION GAP 3", "INTERVALS t FROM A BY k TO B QUEUED"])
def test_state_does_not_grow_with_keys_that_are_gone(text: str) -> None:
    plans = plans_of(parse_file(text.replace("A SESSION", "A BY k SESSION")), SCHEMA)
    graph = QueryGraph(plans, SCHEMA, COLUMNS, jit=False)
    sizes = []
    for step in range(6):
        events = [
            Event(type, time, time, f"{type}{time}", {"k": time // 2})
            for time in range(step * 6000, step * 6000 + 6000, 2)
            for type in "AB"
        ]
        graph.push(graph.encode(rows_of(events)))
        sizes.append(sum(len(part.data) for part in graph.snapshot()))
    assert max(sizes[1:]) < 2 * sizes[0] + 10_000


@pytest.mark.parametrize("tail", [" : i.v > 1", ";", " WITHIN 3", "; EVENT B b"])
def test_a_type_may_be_called_intervals(tail: str) -> None:
    """A definition begins with a name and a word behind it, such as FROM."""
    bare, whole = (parse_file(f"{start}INTERVALS i{tail}") for start in ("", "EVENT "))
    assert [str(each) for each in bare] == [str(each) for each in whole]
