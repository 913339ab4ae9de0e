"""Counting: one by one and by the recurrence, in every way of running, rows are those of the definition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from random import Random

import pyarrow as pa
import pytest

import tocsin
from tests.effort import examples
from tests.test_after_match import numbered, ways
from tocsin.events import Event
from tocsin.graph import query_graph
from tocsin.lang.parser import parse, parse_all
from tocsin.lang.printer import print_query
from tocsin.lang.syntax import Query
from tocsin.order.strategy import Strategy
from tocsin.plan.prefix_chain import prefix_chain
from tocsin.schema import Schema
from tocsin.select import counting, pieces, prefix_counting
from tocsin.shards.watermark import Slack
from tocsin.testing.agree import PLAIN, Bench, Trial
from tocsin.testing.draw_counts import chain, points, with_counts
from tocsin.testing.oracle import matches
from tocsin.testing.strategies import SCHEMA, pair


def judge(query: Query, schema: Schema, events: Sequence[Event], trials: Sequence[Trial]) -> int:
    """Run a query in several ways; how many rows there are."""
    bench = Bench(query, schema)
    found = bench.disagreement(events, trials)
    assert found is None, (str(query), events, found)
    return len(bench.oracle(events))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"FIRST_PIECE": 3, "LEAST_PIECE": 1, "MANY": 5}.items():
        monkeypatch.setattr(counting, name, value)
    monkeypatch.setattr(pieces, "LEAST_PIECE", 1)
    monkeypatch.setattr(prefix_counting, "MANY", 2)


@pytest.mark.usefixtures("small")
def test_drawn_queries_count_what_the_oracle_counts() -> None:
    """Any construct, any aggregate: in order, late, held, corrected, cut and restarted."""
    rows = 0
    for number in range(examples(200, least=25)):
        random = Random(f"count {number}")
        drawn, events = pair(random, leaves=3)
        if (query := with_counts(random, drawn)) is not None:
            rows += judge(query, SCHEMA, events, random.sample(PLAIN, 3))
    assert rows > 20


@pytest.mark.usefixtures("small")
def test_the_recurrence_counts_what_the_oracle_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chains with keys, windows, ties, nulls, NaN and large numbers; and the same without the recurrence."""
    schema, rows, carried = replace(SCHEMA, intervals=False), 0, 0
    for number in range(examples(600, least=60)):
        random = Random(f"chain {number}")
        query, events = with_counts(random, chain(random), schema), points(random, 14)
        if query is None:
            continue
        by_chain = not isinstance(prefix_chain(Bench(query, schema).plan), str)
        carried += by_chain
        trials = random.sample(PLAIN, 3)
        rows += judge(query, schema, events, trials)
        if by_chain and number % 4 == 0:
            with monkeypatch.context() as one_by_one:
                one_by_one.setattr(query_graph, "counted_by", lambda plan, order: None)
                judge(query, schema, events, trials[:1])
    assert rows > 30
    assert carried > 15


def test_a_stream_with_a_million_million_matches_answers() -> None:
    """4 steps of 2,000 events each: nobody could find these matches one by one."""
    events = [{"type": "ABCD"[at % 4], "time": at, "v": 1} for at in range(8000)]
    found = list(tocsin.query("EVENT SEQ(A a, B b, C c, D d) SELECT count(*) AS n, sum(b.v)").detect(events, jit=False))
    whole = 2003 * 2002 * 2001 * 2000 // 24
    assert [(row["n"], row["sum(b.v)"]) for row in found] == [(whole, whole)]
    assert "recurrence" in str(tocsin.query("EVENT SEQ(A a, B b) SELECT count(*)").explain(events[:9]))


@pytest.mark.parametrize("type", [pa.date32(), pa.date64(), pa.timestamp("s"), pa.timestamp("ns", "UTC")])
def test_dates_and_times_are_points_in_time(type: pa.DataType) -> None:
    days = pa.array([datetime(2024, 1, day, tzinfo=UTC) for day in (1, 2, 3)], pa.timestamp("us", "UTC")).cast(type)
    events = pa.table({"type": ["A"] * 3, "time": [1, 2, 3], "k": days})
    one, two, three = (datetime(2024, 1, day) for day in (1, 2, 3))  # noqa: DTZ001 - as columns of results have them
    for text, rows in {
        "EVENT A a WITHIN 4 SELECT max(a.k) AS m, min(a.k) AS n": [(three, one)],
        "EVENT SEQ(A a, A b) WHERE a.k < b.k SELECT max(b.k) AS m, min(a.k) AS n": [(three, one)],
        "EVENT A m SELECT m.k AS m, count(*) AS n GROUP BY m.k": [(one, 1), (two, 1), (three, 1)],
        "EVENT SEQ(A a, A+ b) WITHIN 1 SELECT max(b.k) AS m, count(b) AS n": [(two, 1), (three, 1)],
    }.items():
        found = tocsin.query(text).detect(events, jit=False)
        assert [(row["m"], row["n"]) for row in found] == rows, text


def test_whole_numbers_are_exact_beyond_64_bits() -> None:
    events = [{"type": "ABCDEFGH"[at % 8], "time": at} for at in range(8000)]
    steps = ", ".join(f"{type} {type.lower()}" for type in "ABCDEFGH")
    query = tocsin.query(f"EVENT SEQ({steps}) SELECT count(*) AS n")
    found = query.detect(events, jit=False)
    whole = 1
    for at in range(8):
        whole = whole * (1007 - at) // (at + 1)
    assert [row["n"] for row in found] == [whole]
    assert found.table().column("n").type.precision == 38


def test_a_live_stream_says_the_count_so_far() -> None:
    with tocsin.query("EVENT SEQ(A a, B b) SELECT count(*) AS n").stream(jit=False) as session:
        said = [
            [(row["op"], row["n"]) for row in session.push({"type": kind, "time": at})]
            for at, kind in enumerate("ABBAB")
        ]
        last = [(row["op"], row["n"]) for row in session.close()]
    assert said == [[], [], [(1, 1)], [(-1, 1), (1, 2)], []]
    assert last == [(-1, 2), (1, 4)]


def test_a_session_goes_on_where_it_was_saved() -> None:
    events = [{"type": "ABC"[at % 3], "time": at, "user": at % 2} for at in range(30)]
    for within in ("", "WITHIN 9 "):
        query = tocsin.query(f"EVENT SEQ(A a, B b, C c) WHERE [user] {within}SELECT user, count(*) AS n GROUP BY user")
        session = query.stream(order="slack(1)", jit=False)
        for event in events:
            session.push(event)
            saved = session.save()
            session = query.stream(order="slack(1)", jit=False)
            session.restore(saved)
        last = [(row["user"], row["n"]) for row in session.close() if row["op"] > 0]
        whole = {row["user"]: row["n"] for row in query.detect(events, jit=False)}
        assert {**whole, **dict(last)} == whole


@pytest.mark.usefixtures("small")
def test_too_many_matches_for_one_event_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "MOST", 10)
    events = [{"type": "AB"[at > 20], "time": at, "v": at} for at in range(40)]
    with pytest.raises(tocsin.TocsinError, match="too many to count them one by one") as refused:
        tocsin.query("EVENT SEQ(A a, B b) WHERE a.v < b.v SELECT count(*)").detect(events, jit=False)
    assert "a condition relates a and b" in str(refused.value)
    assert tocsin.query("EVENT SEQ(A a, B b) SELECT count(*)").detect(events, jit=False).table().num_rows == 1


@pytest.mark.parametrize(
    "text",
    [
        "EVENT SEQ(A a, B b)\nSELECT count(*)",
        "EVENT SEQ(A a, B b)\nWHERE [id]\nSELECT id, count(*) AS n, sum(b.v * 2)\nGROUP BY id, a.v\nEVERY 1 h",
        "EVENT SEQ(A a, B b)\nWHERE [id]\nSELECT [id], count(*)",
        "EVENT SEQ(A a, B b)\nWHERE [id, v]\nSELECT [id] AS x, v, count(*)\nGROUP BY v",
        "EVENT A every\nWITHIN 5\nLIMIT 3 EVERY 5\nSELECT count(every) AS group\nEVERY 5",
    ],
)
def test_text_comes_back(text: str) -> None:
    assert print_query(parse(text)) == text
    assert parse(print_query(parse(text))) == parse(text)


def test_python_says_the_same() -> None:
    from tocsin.lang.fluent import count, event, seq, sum_

    built = seq(event("A", "a"), event("B", "b")).where("[id]").select("id", n=count(), v=sum_("b.v"))
    text = "EVENT SEQ(A a, B b) WHERE [id] SELECT id, count(*) AS n, sum(b.v) AS v GROUP BY id EVERY 1 h"
    assert str(built.group_by("id", every="1 h")) == str(parse(text))


# --- shards -----------------------------------------------------------------------------------------------------------

SHARDED = [
    "EVENT SEQ(A a, B b, C c) WHERE [id] WITHIN 30 SELECT id, count(*) AS n, sum(b.v) AS s GROUP BY id",
    "EVENT SEQ(A a, B b) WHERE [id] SELECT id, count(*) AS n, max(a.v) AS m GROUP BY id EVERY 20",
    "EVENT SEQ(A a, !C c, B b) WHERE [id] WITHIN 9 SELECT id, b.v AS v, count(*) AS n GROUP BY id, b.v",
    "EVENT SEQ(A a, B b) WHERE [id] WITHIN 9 SELECT count(*) AS n, avg(b.v) AS m",
    "EVENT SEQ(A a, B b) WHERE a.v < b.v WITHIN 9 SELECT count(*) AS n, min(b.v) AS m EVERY 10",
]


@pytest.mark.parametrize("name", ["slack", "conservative", "aggressive"])
def test_counts_survive_every_accident_on_shards(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lost workers and attempts, replayed logs, several shards: what stands is what the oracle counts."""
    pytest.importorskip("pyspark")
    from tests import shard_support, test_shard_order

    for constant in ("TAIL", "MERGED", "KEPT_ALIVE"):
        monkeypatch.setattr(shard_support.module, constant, 2)
    strategy = test_shard_order.STRATEGIES.get(name, Strategy())
    chains = 0
    for number in range(examples(40, least=5)):
        random = Random(f"counts {name} {number}")
        text = SHARDED[number % len(SHARDED)]
        events = [replace(event, start=event.end) for event in numbered(random)]
        frame = shard_support.frame_of(pa.string(), intervals=False)
        asked = shard_support.ask(parse_all(text), frame, buckets=random.choice((1, 3)))
        asked = test_shard_order.with_strategy(asked, strategy)
        chains += not isinstance(prefix_chain(asked.plans[0]), str)
        stream = shard_support.Stream(asked, Slack(4, strategy=strategy), random)
        for batch in shard_support.cuts(shard_support.arranged(events, 4, random), random):
            stream.batch([shard_support.row_of(event, frame) for event in batch])
        stream.close()
        standing, _, wrong = test_shard_order.net(stream.answers)
        assert wrong is None
        names = [output.name for output in asked.plans[0].outputs]
        found = Counter(tuple(row[name] for name in names) for row in standing.matches)
        rows = matches(parse(text), events)
        assert found == Counter(tuple((row.select or {}).values()) for row in rows), (number, text)
    assert chains


@pytest.mark.parametrize(
    ("clauses", "shards"), [("GROUP BY id", {"id"}), ("GROUP BY id, b.w", {"id"}), ("GROUP BY b.w", set()), ("", set())]
)
def test_what_is_counted_together_goes_to_one_shard(clauses: str, shards: set[str]) -> None:
    assert ways(f"EVENT SEQ(A a, B b) WHERE [id] AND a.v = b.v WITHIN 5 SELECT count(*) {clauses}") == [shards]


def test_only_numbers_are_added() -> None:
    with pytest.raises(tocsin.TocsinError, match="sum needs numbers, not text"):
        tocsin.query("EVENT SEQ(A a, B b) SELECT sum(a.s)").detect([{"type": "A", "time": 1, "s": "x"}], jit=False)
