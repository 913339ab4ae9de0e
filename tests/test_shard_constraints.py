"""Queries under constraints in shards: divided by the key of traces, over accidents and late rows, as embedded."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from tests import shard_support
from tests.shard_support import ask
from tests.test_constraint_traces import SCHEMA, definition, drawn, drawn_to_wait, histories
from tests.test_shard_staged import streamed
from tocsin.encode.columns import Columns
from tocsin.events import Event
from tocsin.lang.parser import parse_file
from tocsin.order.strategy import Strategy
from tocsin.run.query import Query
from tocsin.shards.routes import needs_one_shard, units_of
from tocsin.spark.event_frame import EventFrame

SHOWN = ("query", "kind", "match_id", "start", "end", "constraint", "key", "reason", "event", "events", "a", "b")
ROWS = pa.schema([("type", pa.string()), ("time", pa.int64()), ("eid", pa.string()), ("id", pa.string()),
                  ("v", pa.int64())])  # fmt: skip
merged_early = shard_support.merged_early


def frame() -> EventFrame:
    columns = Columns(eid="eid").resolve(ROWS.names)
    context = SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=2))
    df: Any = SimpleNamespace(isStreaming=True, sparkSession=context)
    return EventFrame(columns, ROWS, SCHEMA, df)


def row_of(event: Event) -> dict[str, Any]:
    return {"type": event.type, "time": event.end, "eid": event.eid, "id": event.attrs["id"], "v": event.attrs.get("v")}


def told(rows: Any) -> Counter[str]:
    """What stands, by all that does not say when it was known."""
    found: Counter[str] = Counter()
    for row in rows:
        shown = [(name, repr(row[name])) for name in SHOWN if row.get(name) is not None]
        found[repr(shown)] += row["op"]
    return +found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["slack", "conservative", "aggressive"])
def test_shards_give_what_is_found_embedded(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.test_shard_staged.row_of", row_of)
    kinds: Counter[str] = Counter()
    several = count = 0
    for random, text, events in histories(f"shards {kind}", drawn, 300, lengths=(3, 20), least=12):
        queries = parse_file(text)
        rows = [row_of(event) for event in events]
        found = Query(queries, SCHEMA).detect(rows, eid="eid", jit=False)
        wanted = told(row for table in found.tables() for row in table.to_pylist())
        asked = ask(queries, frame(), buckets=3)
        several, count = several + (asked.job.count > 1), count + 1
        stream = streamed(asked, events, random.choice((0, 2, 5)), random, Strategy(kind))  # type: ignore[arg-type]
        assert not stream.answers.late
        assert told(stream.answers.matches) == wanted, (text, rows)
        kinds.update(table.column("kind")[at].as_py() for table in found.tables() for at in range(table.num_rows))
    assert several > count / 2
    assert {"match", "expected", "violated"} <= set(kinds), kinds


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["conservative", "hybrid"])
def test_answers_that_wait_in_closed_traces_outlast_accidents(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shard keeps the state of such queries, waiting answers included: nothing has to be found again in its log."""
    monkeypatch.setattr("tests.test_shard_staged.row_of", row_of)
    given = 0
    for random, text, events in histories(f"waiting {kind}", drawn_to_wait, 200, lengths=(3, 20), least=8):
        strategy = Strategy(kind, held=frozenset(random.choice(("A", "N")) if kind == "hybrid" else ""))  # type: ignore[arg-type]
        asked = ask(parse_file(text), frame(), buckets=3)
        assert all(each.group.keeps_state for each in asked.job.shards)
        stream = streamed(asked, events, random.choice((0, 2, 5)), random, strategy)
        found: Counter[Any] = Counter()
        for row in stream.answers.matches:
            if row["kind"] == "match":
                bound = [(name, row[name]) for name in ("a", "b") if row[name] is not None]
                found[tuple((name, eids_of(value)) for name, value in bound)] += row["op"]
        assert +found == definition(text, events)[1], (text, [row_of(event) for event in events])
        given += found.total()
    assert given


def eids_of(shown: Any) -> tuple[str, ...]:
    return tuple(each["eid"] for each in (shown if isinstance(shown, list) else [shown]))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("CONSTRAINT c AS A B; EVENT SEQ(A a, B b) WHERE [id] UNDER c", "without PARTITION BY all events are"),
        ("CONSTRAINT c PARTITION BY v AS A B; EVENT SEQ(A a, B b) WHERE [id] UNDER c", "its key does not have v"),
        ("CONSTRAINT c PARTITION BY id AS A B; EVENT SEQ(A a, B b) WHERE [id, v] UNDER c", None),
    ],
)
def test_why_one_shard_must_see_all(text: str, why: str | None) -> None:
    (unit,) = units_of(Query(parse_file(text), SCHEMA).plans())
    said = needs_one_shard(unit)
    assert (said is None) == bool(unit.ways) == (why is None)
    assert why is None or (said is not None and why in said)
    if why is None:
        assert dict(unit.ways)["A"].keys == (("id",),)


@pytest.mark.filterwarnings("ignore")
def test_shards_follow_the_starts_of_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """Starts lag behind, in a shard over accidents as embedded."""
    schema = replace(SCHEMA, intervals=True, longest={"A": 6, "B": 6})
    rows_are = pa.schema([("type", pa.string()), ("time", pa.int64()), ("end", pa.int64()), ("eid", pa.string()),
                          ("id", pa.string())])  # fmt: skip
    columns = Columns(end="end", eid="eid").resolve(rows_are.names)
    context = SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=2))
    df: Any = SimpleNamespace(isStreaming=True, sparkSession=context)
    monkeypatch.setattr("tests.test_shard_staged.row_of", interval_row)
    text = (
        "CONSTRAINT c PARTITION BY id AS A^- (B^- A^+ B^+ | A^+ B^- B^+)+; "
        "EVENT REL[overlap](A a, B b) WHERE [id] UNDER c"
    )
    for seed in range(4):
        random = Random(f"starts {seed}")
        events = []
        for at in range(12):
            begin = 9 * at + random.randint(0, 2)
            end, id = begin + random.randint(1, 5), random.choice("xyz")
            events.append(Event("A", begin, end, f"A{at}", {"id": id}))
            start = begin + random.randint(1, 6)
            events.append(Event("B", start, start + random.randint(1, 6), f"B{at}", {"id": id}))
        events.sort(key=lambda event: event.end)
        queries, rows = parse_file(text), [interval_row(event) for event in events]
        found = Query(queries, schema).detect(rows, eid="eid", end="end", jit=False)
        wanted = told(row for table in found.tables() for row in table.to_pylist())
        asked = ask(queries, EventFrame(columns, rows_are, schema, df), buckets=3)
        stream = streamed(asked, events, random.choice((0, 2)), random, Strategy("conservative"))
        assert told(stream.answers.matches) == wanted, rows
        assert wanted


def interval_row(event: Event) -> dict[str, Any]:
    return {"type": event.type, "time": event.start, "end": event.end, "eid": event.eid, "id": event.attrs["id"]}
