"""Derived intervals in shards: divided by their key, over accidents and late rows, they are those of the definition."""

from __future__ import annotations

from collections import Counter
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")

from tests import shard_support
from tests.effort import examples
from tests.shard_support import ask
from tests.test_derived import SCHEMA, TYPES, drawn_chain, rows_of
from tests.test_shard_staged import streamed
from tocsin.encode.columns import Columns
from tocsin.events import Event
from tocsin.lang.parser import parse_file
from tocsin.order.strategy import Strategy
from tocsin.run.query import Query
from tocsin.spark.event_frame import EventFrame
from tocsin.testing.draw_derived import drawn_intervals, drawn_readings

HIDDEN = ("op", "detected_at", "details", "settled_at", "step")
merged_early = shard_support.merged_early


def frame() -> EventFrame:
    columns = Columns(time="start", end="end", eid="eid").resolve(TYPES.names)
    context = SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=2))
    df: Any = SimpleNamespace(isStreaming=True, sparkSession=context)
    return EventFrame(columns, TYPES, SCHEMA, df)


def row_of(event: Event) -> dict[str, Any]:
    return {"type": event.type, "start": event.start, "end": event.end, "eid": event.eid, **event.attrs}


def rows_told(rows: Any) -> Counter[str]:
    """What stands: rows by all that does not say when they were known; columns that are null need not be there."""
    found: Counter[str] = Counter()
    for row in rows:
        left = {name: value for name, value in row.items() if name not in HIDDEN and value is not None}
        found[repr(sorted(left.items()))] += row["op"]
    return +found


def embedded(queries: tuple[Any, ...], events: list[Event]) -> Counter[Any]:
    found = Query(queries, SCHEMA).detect(rows_of(events), time="start", end="end", eid="eid", jit=False)
    return rows_told(row for table in found.tables() for row in table.to_pylist())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["slack", "conservative"])
def test_shards_give_what_is_found_embedded(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.test_shard_staged.row_of", row_of)
    several = found = 0
    count = examples(300, least=16)
    for seed in range(count):
        random = Random(f"{kind} {seed}")
        queries = drawn_chain(random) if random.random() < 0.5 else (drawn_intervals(random),)
        queries = parse_file(";\n".join(map(str, queries)))
        events = drawn_readings(random, most=30)
        asked = ask(queries, frame(), buckets=3)
        several += asked.job.count > 1
        wanted = embedded(queries, events)
        stream = streamed(asked, events, random.choice((0, 2, 5)), random, Strategy(kind))  # type: ignore[arg-type]
        assert not stream.answers.late
        given = (row for row in stream.answers.matches)
        assert rows_told(given) == wanted, (seed, "; ".join(map(str, queries)), events)
        found += bool(wanted)
    assert found > count / 4
    assert several > count / 4
