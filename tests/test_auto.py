"""Auto changes its mind without losing or repeating a match, and chooses by the disorder that it measures."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

import tocsin
from tests.effort import examples
from tocsin.engine.changes import ChangeBatch, Changes
from tocsin.order.auto import refuting_types
from tocsin.testing.disorder import smallest_sufficient_slack
from tocsin.testing.harness import Harness
from tocsin.testing.oracle import Binding
from tocsin.testing.strategies import SCHEMA, pair


class Watched:
    """Every change of an Auto, judged as it comes."""

    def __init__(self) -> None:
        self.net: Counter[Binding] = Counter()
        self.final: set[Binding] = set()  # answered while answers were held

    def take(self, pieces: Changes | list[ChangeBatch], *, held: bool) -> None:
        for op, binding in (change for piece in pieces for change in piece.bindings()):
            self.net[binding] += op
            assert self.net[binding] in (0, 1), f"{binding} is counted {self.net[binding]} times"
            if op > 0 and held:
                self.final.add(binding)
            assert op > 0 or binding not in self.final, f"{binding} was certain, and is withdrawn"


def run(seed: int) -> int:
    """A drawn query and history in any order, with changes of mind at random moments; how many there were."""
    random = Random(f"auto {seed}")
    query, drawn = pair(random)
    events = list(drawn)
    random.shuffle(events)
    harness, watched = Harness(query, SCHEMA), Watched()
    started = harness.start(f"auto({smallest_sufficient_slack(events)})")
    [auto] = started.graph.autos
    auto.can_choose = False  # it is told
    for event in events:
        watched.take(started.push([event]), held=auto.held)
        if random.random() < 0.25:
            watched.take(auto._switch(held=not auto.held), held=auto.held)
    watched.take(started.end(), held=auto.held)
    assert +watched.net == harness.expected(events), query
    return started.graph.switches


def test_a_change_of_mind_loses_and_repeats_nothing() -> None:
    assert sum(run(seed) for seed in range(25)) > 20


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(examples(4)))
def test_a_change_of_mind_at_length(chunk: int) -> None:
    assert sum(run(1000 + 60 * chunk + seed) for seed in range(60)) > 50


def test_what_counts_are_events_that_can_refute() -> None:
    plan = tocsin.query("EVENT SEQ(A a, !SEQ(B b, !C c), D+ d, E e) WITHIN 9").plans()[0]
    assert refuting_types(plan) == {"B", "C", "D"}


def test_where_nothing_can_be_refuted_there_is_nothing_to_choose() -> None:
    session = tocsin.query("EVENT SEQ(A a, B b) WITHIN 9").stream(order="auto(5)", eid="eid", jit=False)
    session.push([{"type": "A", "time": 1, "eid": 1}, {"type": "B", "time": 2, "eid": 2}])
    assert session.strategy == "auto: aggressive, as no event can refute an answer, or no delay or window is known"


@pytest.mark.slow
def test_many_late_refutations_are_waited_for_and_few_are_not() -> None:
    query = tocsin.query("EVENT SEQ(A a, !C c, B b) WHERE [id] WITHIN 30")
    session = query.stream(order="auto(40)", eid="eid", jit=False)
    random, clock, log = Random(1), 0, []

    def feed(count: int, late: float) -> None:
        nonlocal clock
        for _ in range(count):
            clock += 1
            kind = random.choice("ABCC")
            time = clock - random.randint(1, 30) if kind == "C" and random.random() < late else clock
            log.append({"type": kind, "time": time, "eid": len(log), "id": random.randint(0, 3)})
            session.push(log[-1])

    feed(1500, 0.0)
    assert "aggressive" in session.strategy and "0 of 100" in session.strategy
    feed(3000, 0.9)
    assert "conservative" in session.strategy
    feed(9000, 0.0)
    assert "aggressive" in session.strategy
    session.close()
    told = session.counters
    expected = query.detect(log, eid="eid", jit=False)
    assert told["matches"] - told["retracted"] == len(expected)
    assert told["switches"] == 2
