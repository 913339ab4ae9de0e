"""Rules that change on a stream of shards, without Spark: other queries, other shards, any accident; by the oracle.

What is expected is said in `tests/test_changing_rules.py`. A query of a stream that sorts has seen what the guarantee
has passed.
"""

from __future__ import annotations

import random
import uuid
from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

import tocsin
from tests.effort import examples
from tests.shard_support import Asked, Memory, Stream, ask, cuts, frame_of, row_of
from tests.test_changing_rules import RULES, Net, net, rows, truth, was_waiting
from tocsin.events import Event
from tocsin.lang.parser import parse_all
from tocsin.order.strategy import Strategy
from tocsin.run.query import plans_of
from tocsin.shards import shard as module
from tocsin.shards.blocks import SHARD, Note, as_table
from tocsin.shards.carried import going_on, old_state, sources_of
from tocsin.shards.result import conformed
from tocsin.shards.shard import Head, Shard
from tocsin.shards.watermark import Slack

LATE = 3
ORDERS = {"slack": Strategy("in-order"), "conservative": Strategy("conservative"), "aggressive": Strategy("aggressive")}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs are merged and detectors forgotten so early that small histories show it."""
    monkeypatch.setattr(module, "TAIL", 2)
    monkeypatch.setattr(module, "MERGED", 2)
    monkeypatch.setattr(module, "KEPT_ALIVE", 2)
    monkeypatch.setattr(module, "_alive", OrderedDict())


@dataclass
class Chosen(Asked):
    """Queries with a strategy; a driver that begins anew knows nothing of the checkpoint before."""

    def restarted(self) -> Asked:
        return replace(self, job=replace(self.job, token=uuid.uuid4().hex, before={}))


def chosen(text: str, strategy: Strategy, *, buckets: int, eid: bool) -> Chosen:
    asked = ask(parse_all(text), frame_of(pa.string() if eid else None, intervals=False), buckets=buckets)
    texts = tuple(str(each) for each in asked.queries)
    job = replace(asked.job, strategy=strategy, texts=texts)
    return Chosen(asked.queries, asked.frame, asked.plans, job, asked.names, buckets)


def heads_of(stream: Stream) -> dict[int, Head]:
    return {number: Head.read(store.head) for number, store in sorted(stream.stores.items()) if store.head}


def carried_over(stream: Stream, asked: Chosen, *, accept_loss: bool = False) -> Stream:
    """A stream of changed queries that begins with the state of another one: rows are dealt out as Spark would."""
    heads = heads_of(stream)
    old = old_state(
        heads, asked.job, lambda texts: plans_of(tuple(q for t in texts for q in parse_all(t)), asked.frame.schema)
    )
    job, _ = going_on(asked.job, old, accept_loss=accept_loss)
    after = Stream(replace(asked, job=job), stream.order, stream.random)
    tables: dict[int, list[pa.Table]] = {}
    for mine, olds in sources_of(job, old):
        for each in olds:
            for number in range(each.first, each.first + each.count):
                stored = unique_rows(stream, heads[number], number)
                only = replace(asked, job=replace(job, shards=(mine,)))
                for row in only.routed(stored) if stored else ():
                    if row[SHARD] is not None:
                        tables.setdefault(row[SHARD], []).append(pa.Table.from_pylist([row], schema=only.rows))
    for number in range(job.count):
        parts = [table.drop_columns([SHARD]) for table in tables.get(number, ())]
        store = after.stores.setdefault(number, Memory())
        Shard(job, number, stream.order, store).seed(Note(old.clocks), old.guarantee, parts)
    return after


def unique_rows(stream: Stream, head: Head, number: int) -> list[dict[str, Any]]:
    """The stored rows of a shard of which it has the first copy."""
    asked, store = stream.asked, stream.stores[number]
    found = [conformed(as_table(store.blocks[block.number]), asked.frame.rows) for block in head.blocks if block.size]
    stored = [row for batch in found for row in batch.to_pylist()]
    first: dict[int, int] = {}
    mine = asked.job.of_shard(number)
    for row in asked.routed(stored) if stored else ():
        if row[SHARD] is not None and mine.first <= row[SHARD] < mine.first + mine.count:
            first.setdefault(row["place"], row[SHARD])
    return [row for at, row in enumerate(stored) if first.get(at) == number]


def drawn(draw: random.Random, length: int = 45) -> list[Event]:
    time, events = 0, []
    for number in range(length):
        time += draw.choice((0, 1, 1, 2))
        attrs = {"id": draw.randrange(3), "v": draw.randrange(8)}
        events.append(Event(draw.choice("ABC"), time, time, f"e{number}", attrs))
    return sorted(events, key=lambda event: event.end + draw.randint(0, LATE) * 0.99)


def alone(text: str, order: str, events: Sequence[Event], guarantee: int) -> tuple[Net, set[frozenset[str]]]:
    """What a session of these queries has given by a guarantee, and what it waits with."""
    known = order if order == "slack" else f"{order}({LATE})"
    session = tocsin.query(text).stream(order="in-order" if order == "slack" else known, eid="eid", jit=False)
    listed = [event for event in events if event.end < guarantee] if order == "slack" else list(events)
    found = [*session.push(rows(sorted(listed, key=lambda event: event.end))), *session.advance(guarantee - 1)]
    return net(found), {frozenset(debt["events"]) for debt in session.debts()}


@pytest.mark.parametrize("order", ORDERS)
def test_changed_rules_on_shards(order: str) -> None:
    given = 0
    for seed in range(examples(120)):
        draw = random.Random(f"{order} {seed}")
        rule = RULES[seed % len(RULES)]
        low, high = draw.randint(0, 4), draw.randint(6, 14)
        old = rule.format(t=low, w=high, s="")
        new = rule.format(t=low + draw.choice((0, 0, 1, 2)), w=high - draw.choice((0, 0, 1, 4)), s="")
        events = drawn(draw)
        cut = draw.randint(1, len(events) - 1)
        strategy = ORDERS[order]
        before = Stream(chosen(old, strategy, buckets=draw.choice((1, 3)), eid=True), Slack(LATE), draw)
        for batch in cuts(events[:cut], draw):
            before.batch([row_of(event, before.asked.frame) for event in batch])
        guarantee = heads_of(before)[0].guarantee
        after = carried_over(before, chosen(new, strategy, buckets=draw.choice((1, 2)), eid=True))
        rest = cuts(events[cut:], draw)
        after.calm = True  # a driver is not exchanged before the first batch is stored
        after.batch([row_of(event, before.asked.frame) for event in rest[0]])
        after.calm = False
        for batch in rest[1:]:
            after.batch([row_of(event, before.asked.frame) for event in batch])
        after.close()
        found = net(after.answers.matches)
        wanted = truth(new, events)
        past, _ = alone(new, order, events[:cut], guarantee)
        _, waiting = alone(old, order, events[:cut], guarantee)
        wanted.subtract(past)
        there = {event.eid for event in events[:cut] if order != "slack" or event.end < guarantee}
        for match in wanted:
            if {eid for _, eids in match[1] for eid in eids} <= there and "EXISTS" not in rule:
                decided = wanted[match] == 1 and not was_waiting(match, waiting)
                owed = past[match] > 0 and wanted[match] == 0 and was_waiting(match, waiting)
                wanted[match] += owed - decided
        wanted, found = (Counter({m: n for m, n in each.items() if n}) for each in (wanted, found))
        assert found == wanted, (seed, old, new, cut, guarantee, after.answers.late)
        given += found.total()
    assert given
