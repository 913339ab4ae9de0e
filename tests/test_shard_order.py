"""Strategies on streams: whatever the cuts, accidents and disorder, what is given and not withdrawn is right."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from tests import shard_support
from tests.effort import examples
from tests.pairing import PAIRS, Pairing, pairs
from tests.shard_support import (
    Answers,
    Asked,
    Stream,
    arranged,
    ask,
    cuts,
    disagreement,
    frame_of,
    nameless,
    row_of,
    with_strategy,
)
from tests.test_shard import drawn, frame_for
from tocsin.engine.changes import ChangeBatch
from tocsin.engine.operator import Around
from tocsin.errors import StateError, TocsinError
from tocsin.events import Event
from tocsin.graph.query_graph import QueryGraph
from tocsin.items import end
from tocsin.lang.parser import parse
from tocsin.lang.syntax import Query
from tocsin.order.auto import Auto
from tocsin.order.strategy import Strategy
from tocsin.schema import Schema
from tocsin.select.rate_limit import RateLimit
from tocsin.shards.watermark import Slack, parse_order

STRATEGIES = {
    "conservative": Strategy("conservative"),
    "aggressive": Strategy("aggressive"),
    "immediate": Strategy("aggressive", immediate=True),
    "hybrid": Strategy("hybrid", held=frozenset("BD")),
    "auto": Strategy("auto", known=5),
}


merged_early = shard_support.merged_early


@pytest.fixture(autouse=True)
def of_changing_mind(monkeypatch: pytest.MonkeyPatch) -> None:
    """`auto` holds and corrects by turns."""
    coin = Random("a change of mind")
    monkeypatch.setattr(Auto, "_judged", lambda auto: turned(auto, coin))


def turned(auto: Auto, coin: Random) -> list[ChangeBatch]:
    """Change its mind now and then, whatever it has measured; another attempt may choose otherwise."""
    if not auto.can_choose or coin.random() > 0.2:
        return []
    return auto._switch(held=not auto.held)


def net(answers: Answers) -> tuple[Answers, int, str | None]:
    """What stands, how much was withdrawn, and what is wrong with the way to it."""
    counts: Counter[str] = Counter()
    last = {}
    for row in answers.matches:
        counts[row["match_id"]] += row["op"]
        last[row["match_id"]] = {**row, "op": 1}
        if counts[row["match_id"]] not in (0, 1):
            return answers, 0, f"{row} is counted {counts[row['match_id']]} times"
    withdrawn = sum(row["op"] < 0 for row in answers.matches)
    return replace(answers, matches=[last[each] for each, count in counts.items() if count]), withdrawn, None


def problem(
    queries: Sequence[Query], events: Sequence[Event], name: str, seed: object, limit: int | None = None
) -> tuple[str | None, int]:
    random = Random(f"{name} {seed}")
    named, late = random.random() < 0.7, random.choice((0, 1, 3, 10))
    frame = frame_for(events, random, eids=named)
    asked = with_strategy(ask(queries, frame, buckets=random.choice((1, 3))), STRATEGIES[name], limit)
    asked.job = replace(asked.job, arrival=random.choice((None, "v")))  # which is in no order at all
    events = events if named else nameless(events, frame)
    stream = Stream(asked, Slack(late, strategy=STRATEGIES[name]), random, calm=random.random() < 0.2)
    for batch in cuts(arranged(events, late, random), random):
        stream.batch([row_of(event, asked.frame) for event in batch])
    stream.close()
    standing, withdrawn, wrong = net(stream.answers)
    if stream.answers.late:
        return f"called late: {stream.answers.late}", 0
    if name == "conservative" and withdrawn:
        return "a held answer was withdrawn", withdrawn
    return wrong or disagreement(asked, events, standing), withdrawn


@pytest.mark.parametrize("name", STRATEGIES)
def test_some_streams_quickly(name: str) -> None:
    for number in range(16):
        asked, events = drawn(Random(f"ordered {number}"))
        found, _ = problem([asked], events, name, number)
        assert found is None, (number, str(asked), found)


@pytest.mark.parametrize(("name", "given"), [("aggressive", [[1], [-1], []]), ("conservative", [[], [], []])])
def test_a_late_event_takes_back_what_was_given_or_comes_in_time(name: str, given: list[list[int]]) -> None:
    asked = with_strategy(ask([parse("EVENT SEQ(A a, !C c, B b) WITHIN 9")], frame_of()), STRATEGIES[name])
    stream = Stream(asked, Slack(10, strategy=STRATEGIES[name]), Random(1), calm=True)
    ops = []
    for batch in ("A1 B5", "C3", "A30"):
        before = len(stream.answers.matches)
        rows = [{"type": word[0], "start": int(word[1:]), "end": int(word[1:])} for word in batch.split()]
        stream.batch(rows)
        ops.append([row["op"] for row in stream.answers.matches[before:]])
    assert ops == given


@pytest.mark.parametrize(("arrival", "given"), [("v", [1, -1, 1]), (None, [1])])
def test_rows_of_a_batch_come_as_they_arrived_or_at_once(arrival: str | None, given: list[int]) -> None:
    asked = with_strategy(ask([parse("EVENT SEQ(A a, !C c, B b) WITHIN 9")], frame_of()), STRATEGIES["aggressive"])
    asked.job = replace(asked.job, arrival=arrival)
    stream = Stream(asked, Slack(10, strategy=STRATEGIES["aggressive"]), Random(1), calm=True)
    words = ["B5", "A4", "C3", "A1"]  # as they lie in the file; they arrived as v says
    arrived = {"A1": 1, "B5": 2, "C3": 3, "A4": 4}
    stream.batch([{"type": w[0], "start": int(w[1:]), "end": int(w[1:]), "v": arrived[w]} for w in words])
    assert [row["op"] for row in stream.answers.matches] == given


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(examples(3)))
@pytest.mark.parametrize("name", STRATEGIES)
def test_streams_agree_with_the_oracle(name: str, chunk: int) -> None:
    for number in range(60):
        asked, events = drawn(Random(f"ordered {chunk} {number}"))
        found, _ = problem([asked], events, name, f"{chunk} {number}")
        assert found is None, (chunk, number, str(asked), found)


@pytest.mark.parametrize("name", ["conservative", "aggressive"])
def test_with_little_memory(name: str) -> None:
    for number in range(6):
        asked, events = drawn(Random(f"little {number}"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a window may need more than that
            found, _ = problem([asked], events, name, number, limit=2000)
        assert found is None, (number, str(asked), found)


CHAIN = """QUERY Pair EVENT SEQ(A a, !C c, B b) WHERE [id] WITHIN 6 SELECT a.id AS id;
EVENT SEQ(Pair p, !D d, A x) WHERE [id] WITHIN 12"""


@pytest.mark.slow
@pytest.mark.parametrize("name", STRATEGIES)
def test_queries_that_feed_each_other(name: str) -> None:
    queries = [parse(text) for text in CHAIN.split(";")]
    for number in range(8):
        random = Random(f"chain {name} {number}")
        events = [
            Event(random.choice("ABCD"), time, time, f"e{place}", {"id": random.randint(0, 1)})
            for place, time in enumerate(random.choices(range(20), k=14))
        ]
        found, _ = problem(queries, events, name, number)
        assert found is None, (number, found)


LIMIT = RateLimit(1, 4, key=("id",))


def limited(asked: Asked, events: Sequence[Event]) -> list[str]:
    """What a rate limit leaves, in a graph that sees all events at once and in order."""
    frame = asked.frame
    graph = QueryGraph(asked.plans, frame.schema, frame.columns, jit=False, around=[LIMIT])
    rows = [row_of(event, frame) for event in sorted(events, key=lambda event: event.end)]
    said = [graph.push(graph.encode(pa.RecordBatch.from_pylist(rows, schema=frame.rows))), graph.push(end())]
    return sorted(name for changes in said for batch in changes for name in batch.match_id.to_pylist())


@pytest.mark.parametrize("name", ["slack", "conservative", "aggressive"])
def test_an_operator_around_a_query_survives_every_accident(name: str) -> None:
    """Lost workers and attempts, replayed logs: a rate limit keeps the matches that it keeps in one go."""
    strategy, kept = STRATEGIES.get(name, Strategy()), 0
    for number in range(examples(40, least=6)):
        random = Random(f"limit {name} {number}")
        events = [
            Event(random.choice("ABC"), time, time, f"e{place}", {"id": random.randint(0, 2)})
            for place, time in enumerate(sorted(random.choices(range(30), k=30)))
        ]
        frame = frame_for(events, random, eids=True)
        asked = with_strategy(ask([parse("EVENT SEQ(A a, !C c, B b) WHERE [id] WITHIN 6")], frame), strategy)
        asked = with_around(asked, (LIMIT,))
        stream = Stream(asked, Slack(3, strategy=strategy), random)
        for batch in cuts(arranged(events, 3, random), random):
            stream.batch([row_of(event, asked.frame) for event in batch])
        stream.close()
        standing, _, wrong = net(stream.answers)
        found = sorted(row["match_id"] for row in standing.matches)
        assert wrong is None and found == limited(asked, events), number
        kept += len(found)
    assert kept > 5


@pytest.mark.parametrize("name", ["slack", "conservative", "aggressive"])
def test_a_process_over_events_survives_every_accident(name: str) -> None:
    """Lost workers and attempts, replayed logs: what is paired is what the definition pairs, and is told of once."""
    strategy, kept = STRATEGIES.get(name, Strategy()), Counter[str]()
    for number in range(examples(40, least=6)):
        random = Random(f"pairs {name} {number}")
        events = [
            Event(random.choice("ABC"), time, time, f"e{place}", {"id": random.randint(0, 2)})
            for place, time in enumerate(sorted(random.choices(range(30), k=30)))
        ]
        frame = frame_for(events, random, eids=True)
        asked = with_strategy(ask([parse(PAIRS)], frame), strategy)
        asked = with_around(asked, (Pairing(),))
        stream = Stream(asked, Slack(3, strategy=strategy), random)
        for batch in cuts(arranged(events, 3, random), random):
            stream.batch([row_of(event, asked.frame) for event in batch])
        stream.close()
        standing: Counter[tuple[Any, ...]] = Counter()
        for row in stream.answers.matches:
            bound = (row[variable]["eid"] for variable in "ab" if row[variable] is not None)
            standing[row["kind"], *bound] += row["op"]
        assert +standing == Counter(pairs(events)), number
        kept.update(row[0] for row in standing)
    assert kept["match"] > 5 and kept["timeout"] > 5


def with_around(asked: Asked, operators: tuple[Around, ...]) -> Asked:
    """The same with operators around its queries, also when the driver begins anew."""
    again = asked.restarted
    asked.job = replace(asked.job, around=operators)
    asked.restarted = lambda: with_around(again(), operators)  # type: ignore[method-assign]
    return asked


def test_another_order_on_an_old_checkpoint_is_refused() -> None:
    asked = with_strategy(ask([parse("EVENT SEQ(A a, B b) WITHIN 5")], frame_of()), STRATEGIES["aggressive"])
    stream = Stream(asked, Slack(2, strategy=STRATEGIES["aggressive"]), Random(1), calm=True)
    stream.batch([{"type": "A", "start": 1, "end": 1}])
    stream.asked = ask([parse("EVENT SEQ(A a, B b) WITHIN 5")], frame_of())
    with pytest.raises(StateError, match=r"written with order 'aggressive', not with 'slack'"):
        stream.batch([{"type": "B", "start": 2, "end": 2}])


@pytest.mark.parametrize(
    "text", ["auto", "slack(5 events)", "slack(adaptive)", "conservative", "aggressive(5, broken=accept)"]
)
def test_what_a_stream_cannot_be_is_told(text: str) -> None:
    with pytest.raises(TocsinError, match="a stream on Spark cannot be") as told:
        parse_order(text, Schema())
    assert told.value.hint


def test_the_delay_belongs_to_the_guarantee() -> None:
    order = parse_order("conservative(7)", Schema())
    assert (order.late, order.strategy) == (7, Strategy("conservative", known=7))
