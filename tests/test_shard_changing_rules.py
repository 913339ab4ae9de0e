"""Rules that change on a stream of shards, without Spark: other queries, other shards, any accident; by the oracle.

What is expected is said in `tests/test_changing_rules.py`. A query of a stream that sorts has seen what the guarantee
has passed.
"""

from __future__ import annotations

import random
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

import tocsin
from tests import shard_support
from tests.effort import examples
from tests.shard_support import Asked, Memory, Stream, ask, cuts, frame_of, row_of
from tests.test_changing_rules import RULES, Net, net, rows, truth, waiting_in, was_waiting
from tocsin.errors import StateError
from tocsin.events import Event
from tocsin.lang.parser import parse_all
from tocsin.order.strategy import Strategy
from tocsin.run.query import plans_of
from tocsin.shards.blocks import SHARD, Note, as_table
from tocsin.shards.carried import going_on, old_state, sources_of
from tocsin.shards.result import conformed
from tocsin.shards.shard import Head, Shard
from tocsin.shards.watermark import Slack

LATE = 3
NEWER = 102  # here an answer was refuted before the change by an event that is newer than what was guaranteed then
ORDERS = {"slack": Strategy("in-order"), "conservative": Strategy("conservative"), "aggressive": Strategy("aggressive")}


merged_early = shard_support.merged_early


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
    job, _ = going_on(asked.job, old, asked.frame.schema, accept_loss=accept_loss)
    after = Stream(replace(asked, job=job), stream.order, stream.random)
    tables: dict[int, list[pa.Table]] = {}
    for mine, olds in sources_of(job, old):
        for each in olds:
            for number in range(each.first, each.first + each.count):
                stored = unique_rows(stream, heads[number], number)
                names = [name for name in asked.frame.rows.names if name in {*asked.names, *stream.asked.names}]
                only = replace(asked, job=replace(job, shards=(mine,)), names=names)
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
    return net(found), waiting_in(session)


@pytest.mark.parametrize("order", ORDERS)
def test_changed_rules_on_shards(order: str) -> None:
    given = 0
    for seed in (NEWER, *range(examples(120))):
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


def streamed(text: str, events: Sequence[Event], *, buckets: int = 2, eid: bool = True) -> Stream:
    """A stream of these events, one micro-batch each, in which nothing goes wrong."""
    stream = Stream(chosen(text, ORDERS["slack"], buckets=buckets, eid=eid), Slack(0), random.Random(1), calm=True)
    for event in events:
        stream.batch([row_of(event, stream.asked.frame)])
    return stream


def at(type: str, time: int, **attrs: Any) -> Event:
    return Event(type, time, time, f"{type}{time}", attrs)


ABSENT = "QUERY r EVENT SEQ(A a, B b, !C c) WHERE [id] {} WITHIN 9 SELECT a.id AS id"


def test_columns_that_only_the_old_rule_read_tell_what_it_waited_with() -> None:
    """It waited with the second A, and had decided against the first: so only the second is given."""
    events = [at("A", 1, id=1, v=9), at("A", 2, id=1, v=1), at("B", 4, id=1, v=5), at("B", 5, id=7, v=5)]
    before = streamed(ABSENT.format("AND a.v <= b.v"), events)
    after = carried_over(before, chosen(ABSENT.format(""), ORDERS["slack"], buckets=3, eid=True))
    after.calm = True
    after.batch([row_of(at("B", 30, id=7, v=1), after.asked.frame)])
    assert [(row["id"], row["start"]) for row in after.answers.matches] == [(1, 2)]


DOUBLED = "QUERY r EVENT SEQ(A a, A b) WHERE a.id = b.x AND a.v >= {} WITHIN 9"


def test_an_event_in_several_shards_goes_over_once_without_eids() -> None:
    events = [at("A", 1, id=1, x=2, v=5), at("A", 3, id=2, x=1, v=5)]
    before = streamed(DOUBLED.format(1), events, buckets=5, eid=False)
    after = carried_over(before, chosen(DOUBLED.format(3), ORDERS["slack"], buckets=3, eid=False))
    after.calm = True
    for event in (at("A", 5, id=9, x=2, v=5), at("A", 30, id=7, x=7, v=1)):
        after.batch([row_of(event, after.asked.frame)])
    assert [(row["start"], row["end"]) for row in before.answers.matches + after.answers.matches] == [(1, 3), (3, 5)]


def test_what_a_stream_does_not_carry_over() -> None:
    events = [at("A", time, id=1, v=5) for time in range(3)]
    before = streamed(ABSENT.format("AND a.v > 3"), events)
    for new, told in (
        (ABSENT.format("AND a.v > 2"), r"events A a from before.*a\.v > 3"),
        (ABSENT.format("").replace("WITHIN 9", "WITHIN 10"), "more than 9 ticks back"),
        (ABSENT.format("AND a.v > 3") + ", a.s AS s", "s of the events so far"),
        (ABSENT.format("AND a.v > 3").replace("[id]", "[x]"), "another key"),
        (ABSENT.format("AND a.v > 3").replace("[id]", "[x]").replace("QUERY r", "QUERY q"), "none of them is here"),
    ):
        with pytest.raises(StateError, match=f"(?s){told}"):
            carried_over(before, chosen(new, ORDERS["slack"], buckets=2, eid=True))
    wider = chosen(ABSENT.format("AND a.v > 2"), ORDERS["slack"], buckets=2, eid=True)
    assert carried_over(before, wider, accept_loss=True).stores


def test_a_log_goes_on_under_another_pattern() -> None:
    """A shard stores rows, whatever the pattern makes of them; but a rule about single events stores none."""
    before = streamed("QUERY r EVENT SEQ(A a, B b) WHERE [id] WITHIN 9", [at("B", 1, id=1), at("B", 3, id=2)])
    other = "QUERY r EVENT AND(A a, B b) WHERE [id] WITHIN 9"
    after = carried_over(before, chosen(other, ORDERS["slack"], buckets=2, eid=True))
    after.calm = True
    for event in (at("A", 5, id=1), at("A", 30, id=7)):
        after.batch([row_of(event, after.asked.frame)])
    assert [(row["start"], row["end"]) for row in after.answers.matches] == [(1, 5)]
    alone = streamed("QUERY r EVENT A a WHERE a.v > 3", [at("A", 1, id=1, v=5)])
    pairs = "QUERY r EVENT SEQ(A a, A b) WHERE a.v > 3 AND b.v > 3 WITHIN 9"
    with pytest.raises(StateError, match="more than 0 ticks back"):
        carried_over(alone, chosen(pairs, ORDERS["slack"], buckets=1, eid=True))
