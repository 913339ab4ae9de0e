"""Staged statements in shards: divided by global keys, over accidents and late rows, they give what is found embedded.

This is the independence of partitions (P26), and that distribution changes nothing (P117), as O'Keeffe 2010 promises.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from tests import shard_support
from tests.effort import examples
from tests.shard_support import Asked, Stream, arranged, ask, cuts
from tests.test_staged import LASTING, SCHEMA, agrees, drawn_asking
from tests.test_staged import row_of as embedded_row
from tocsin.encode.columns import Columns, infer_schema
from tocsin.errors import StateError, TocsinError
from tocsin.events import Event
from tocsin.lang.parser import parse_file
from tocsin.lang.staged_syntax import Statement
from tocsin.order.strategy import Strategy
from tocsin.run.declared import declare
from tocsin.run.query import Query
from tocsin.shards.carried import going_on, old_state
from tocsin.shards.routes import groups_of, needs_one_shard, units_of
from tocsin.shards.shard import Head, Shard
from tocsin.shards.watermark import Slack
from tocsin.spark.event_frame import EventFrame
from tocsin.testing.draw_staged import drawn_history, drawn_statements

merged_early = shard_support.merged_early
ROWS = pa.schema(
    [("type", pa.string()), ("start", pa.int64()), ("end", pa.int64()), ("eid", pa.int64())]
    + [(name, pa.int64()) for name in "kxy"]
)
BESIDE = "QUERY Q EVENT SEQ(Pair p, C c) WHERE p.k = c.k WITHIN 9 SELECT p.k AS k"
CHAIN = f"""
CreateCE Pair Select A.k as k, B.x as x Event And(A<consume>, B<consume>) GKey *.k;
{BESIDE};
CreateCE Many Select Count(Q) as x Init I Event AtLeast(2, Q) Term T GKey *.k
"""


def frame() -> EventFrame:
    columns = Columns(time="start").resolve(ROWS.names)
    context = SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=2))
    df: Any = SimpleNamespace(isStreaming=True, sparkSession=context)
    return EventFrame(columns, ROWS, replace(infer_schema(ROWS, columns), longest=LASTING), df)


def row_of(event: Event) -> dict[str, Any]:
    row = {"type": event.type, "start": event.start, "end": event.end, "eid": event.eid, **event.attrs}
    return {name: row.get(name) for name in ROWS.names}


def told(rows: Any) -> Counter[Any]:
    """What stands, by query, match id and span, with the columns of Select that are not null."""
    hidden = ("op", "kind", "detected_at", "details", "query", "match_id", "start", "end", "step", "settled_at")
    found: Counter[Any] = Counter()
    for row in rows:
        shown = sorted((name, value) for name, value in row.items() if name not in hidden and value is not None)
        found[row["query"], row["match_id"], row["start"], row["end"], tuple(shown)] += row["op"]
    return Counter({row: count for row, count in found.items() if count})


def embedded(queries: Sequence[Any], events: Sequence[Event]) -> Counter[Any]:
    rows = [embedded_row(event) for event in events]
    query = Query(tuple(queries), declare(SCHEMA, longest=LASTING))
    found = query.detect(rows, time="start", end="end", eid="id", jit=False)
    return told(row for table in found.tables() for row in table.to_pylist())


def streamed(asked: Asked, events: Sequence[Event], late: int, random: Random, strategy: Strategy) -> Stream:
    """Events through shards, with accidents."""
    again = asked.restarted

    def restarted() -> Asked:
        fresh = again()
        fresh.job = replace(fresh.job, strategy=strategy)
        fresh.restarted = restarted  # type: ignore[method-assign]
        return fresh

    asked.job, asked.restarted = replace(asked.job, strategy=strategy), restarted  # type: ignore[method-assign]
    stream = Stream(asked, Slack(late, strategy=strategy), random, calm=random.random() < 0.2)
    for batch in cuts(arranged(events, late, random), random):
        stream.batch([row_of(event) for event in batch])
    stream.close()
    return stream


def divided(statements: Sequence[Statement], random: Random) -> list[Statement]:
    """Statements that are mostly kept apart by a global key."""
    (key,) = (each.gkeys for each in parse_file("CreateCE X Event And(A, B) GKey *.k"))
    with_key = [replace(each, gkeys=key) if random.random() < 0.8 else each for each in statements]
    try:
        Query(tuple(with_key), declare(SCHEMA, longest=LASTING)).plans()
    except Exception:  # noqa: BLE001 - a statement that reads others lacks the key
        return list(statements)
    return with_key


def asked_together(queries: tuple[Any, ...]) -> Asked | None:
    """None where a column has one kind here and another there: Spark's result has one of each name."""
    if not agrees(Query(queries, declare(SCHEMA, longest=LASTING))):
        return None
    try:
        asked = ask(queries, frame(), buckets=3)
        for each in asked.job.shards:
            asked.job.graph(each.group, each.group.units)
        return asked
    except TocsinError as error:
        if "of the result is" in str(error) or "in the events" in str(error):
            return None
        raise


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["slack", "conservative", "aggressive"])
def test_shards_give_what_is_found_embedded(kind: str) -> None:
    several = found = 0
    count = examples(300, least=16)
    for seed in range(count):
        random = Random(f"{kind} {seed}")
        statements, events = divided(drawn_statements(random), random), drawn_history(random)
        queries: tuple[Any, ...] = tuple(statements)
        if random.random() < 0.3:
            queries = parse_file(CHAIN)
        elif random.random() < 0.25:
            queries = tuple(divided(drawn_asking(random), random))
        asked = asked_together(queries)
        if asked is None:
            continue
        several += asked.job.count > 1
        wanted = embedded(queries, events)
        stream = streamed(asked, events, random.choice((0, 2, 5)), random, Strategy(kind))  # type: ignore[arg-type]
        assert not stream.answers.late
        assert told(stream.answers.matches) == wanted, (seed, str(queries[0]))
        found += bool(wanted)
    assert found > count / 5
    assert several > count / 5


def units(text: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return units_of(Query(parse_file(text), declare(SCHEMA)).plans())


def test_a_chain_is_divided_where_the_key_is_passed_on() -> None:
    (unit,) = units(CHAIN)
    assert {type: way.keys for type, way in unit.ways} == dict.fromkeys("ABCIT", (("k",),))
    (lost,) = units(CHAIN.replace("Select A.k as k", "Select A.k + 1 as k"))
    assert not lost.ways
    assert "not divided by its key" in needs_one_shard(lost)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("CreateCE X Event And(A, B)", "no global key"),
        ("CreateCE X Event And(A, B) LKey *.k", "no global key"),
        ("CreateCE X Event And(A, B) GKey *.k (In 1..5, Rest)", "has ranges"),
        ("CreateCE X Event And(A, Every(5)) GKey *.k", "first event"),
        ("CreateCE X Event And(A, B) Term 5 GKey *.k", "first event"),
        ("CreateCE X Init Start, I<add> Event Not(A) Term T GKey *.k", "first event"),
        ("CreateCE X Event Sequence(A as a, A as b) GKey a.k, b.x", "by different attributes"),
    ],
)
def test_what_keeps_a_statement_in_one_shard_is_said(text: str, reason: str) -> None:
    (unit,) = units(text)
    assert not unit.ways
    assert reason in needs_one_shard(unit)


def test_keys_with_ranges_stand_beside_those_that_divide() -> None:
    (unit,) = units("CreateCE X Event And(A, B) GKey A.k, B.x GKey *.x as K (In 0, Rest)")
    assert {type: way.keys for type, way in unit.ways} == {"A": (("k",),), "B": (("x",),)}


def test_statements_share_no_shards_with_queries_whose_events_are_stored() -> None:
    several = units(f"{CHAIN}; EVENT SEQ(A a, B b) WHERE [k] WITHIN 5; CreateCE Y Event And(A, C) GKey *.k")
    assert [[unit.name for unit in group.units] for group in groups_of(several)] == [["Many", "Y"], ["query 4"]]


def test_a_log_is_as_long_as_what_waits() -> None:
    asked = ask(parse_file("CreateCE P Event And(A<rows 3>, B) GKey *.k"), frame(), buckets=2)
    stream = Stream(asked, Slack(3), Random(1), calm=True)
    for time in range(60):
        stream.batch([row_of(Event("A", time, time, time, {"k": time % 2}))])
    sizes = [len(store.blocks) for store in stream.stores.values()]
    assert max(sizes) <= 8


@pytest.mark.parametrize("late", [0, 3])
def test_what_is_written_grows_with_the_events(late: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of partitions are alive; each batch brings an event, and workers begin anew."""
    text = "CreateCE P Select A.k as k Event And(A<rows 3, consume>, B<consume>) GKey *.k"
    asked = ask(parse_file(text), frame(), buckets=1)
    stream = Stream(asked, Slack(late), Random(1), calm=True)
    many = [Event("A", time, time, time, {"k": time}) for time in range(3000)]
    stream.batch([row_of(event) for event in many])
    (store,) = stream.stores.values()
    written = 0

    def write(number: int, data: bytes, write: Any = store.write) -> None:
        nonlocal written
        written += len(data)
        write(number, data)

    monkeypatch.setattr(store, "write", write)
    events = [Event("B", 3000 + at, 3000 + at, 3000 + at, {"k": 7 * at}) for at in range(60)]
    for at, event in enumerate(events):
        if at % 9 == 0:
            stream.restart()
        stream.batch([row_of(event)])
        written += len(store.head or b"")
    whole = sum(each.size for each in Head.read(store.head or b"").state)
    stream.close()
    assert written / len(events) < whole / 10
    assert told(stream.answers.matches) == embedded(parse_file(text), [*many, *events])
    assert len(stream.answers.matches) == len(events)


@pytest.mark.filterwarnings("ignore")
def test_a_checkpoint_that_stored_its_state_with_each_batch_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """As those that were written before this was a log; late rows wait across the change."""
    logs = Shard._logs
    for seed in range(examples(100, least=6)):
        random = Random(f"before {seed}")
        events = drawn_history(random, length=40, last=40)
        asked = ask(parse_file(CHAIN), frame(), buckets=3)
        stream = Stream(asked, Slack(4), random)
        batches = cuts(arranged(events, 4, random), random)
        half = random.randint(0, len(batches))
        for at, batch in enumerate(batches):
            monkeypatch.setattr(Shard, "_logs", at >= half)
            stream.batch([row_of(event) for event in batch])
        monkeypatch.setattr(Shard, "_logs", logs)
        stream.close()
        assert told(stream.answers.matches) == embedded(parse_file(CHAIN), events), seed


def test_another_checkpoint_is_no_beginning_for_a_statement() -> None:
    asked = ask(parse_file("CreateCE P Event And(A, B) GKey *.k"), frame(), buckets=2)
    stream = Stream(asked, Slack(3), Random(1), calm=True)
    stream.batch([row_of(Event("A", 1, 1, 1, {"k": 1}))])
    heads = {number: Head.read(store.head or b"") for number, store in stream.stores.items()}
    old = old_state(heads, asked.job, lambda _: asked.plans)
    with pytest.raises(StateError, match="cannot go on with another checkpoint"):
        going_on(asked.job, old, asked.frame.schema, accept_loss=True)
