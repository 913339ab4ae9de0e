"""Replay: events that are fed again leave the state that they left before; and what is asked of parts of a state."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from tests.effort import examples
from tocsin.engine.changes import Changes
from tocsin.engine.detector import Detector
from tocsin.engine.partial_state import another, bytes_used, forget_before, held_answers, reset, stored_events
from tocsin.engine.replay import replay_events
from tocsin.events import Event
from tocsin.items import Items, end, tick
from tocsin.plan.facts import TimeReach, reach
from tocsin.testing.harness import Harness, Running, net
from tocsin.testing.oracle import Binding
from tocsin.testing.strategies import SCHEMA, pair

ORDERS = {"in order": "in-order", "any order": "aggressive", "held": "conservative"}


def started(harness: Harness, way: str) -> Running:
    """A run whose detector shows every justification by itself: those are counted elsewhere."""
    run = harness.start(ORDERS[way])
    run.detector.ledger = None
    return run


def drawn(seed: int, *, ordered: bool) -> tuple[Harness, list[Event]]:
    random = Random(seed)
    query, events = pair(random, leaves=3)
    events = sorted(events, key=lambda event: event.end)
    if not ordered:
        random.shuffle(events)
    return Harness(query, SCHEMA), events


@pytest.mark.parametrize("way", ORDERS)
def test_the_state_is_that_of_a_push(way: str) -> None:
    compared = 0
    for seed in range(examples(400, least=20)):
        harness, events = drawn(seed, ordered=way == "in order")
        half = len(events) // 2
        if not half:
            continue
        pushed, replayed = started(harness, way), started(harness, way)
        pushed.detector.push(pushed.encoded(events[:half]))
        replay_events(replayed.detector, replayed.encoded(events[:half]))
        assert replayed.detector.time.clock == pushed.detector.time.clock
        found, expected = (answers(each.detector, each.encoded(events[half:])) for each in (replayed, pushed))
        assert found == expected, f"seed {seed}: {harness.query}"
        compared += sum(expected.values())
    assert compared > 20


def answers(each: Detector, items: Items) -> Counter[Binding]:
    return net([each.push(items), each.push(end())])


def test_settled_events_are_not_searched() -> None:
    """An absence at the end waits for time to pass; once that has passed, nothing of it can wait."""
    harness = Harness("SEQ(A a, B b, !C c) WITHIN 4", SCHEMA)
    events = [Event("A", 1, 1, "a1", {}), Event("B", 2, 2, "b2", {})]
    for settled, expected in ((False, 1), (True, 0)):
        run = started(harness, "any order")
        replay_events(run.detector, run.encoded(events), settled=settled)
        assert run.detector.counters.waiting == expected
        assert counted(run.detector.push(tick(100))) == expected


def counted(changes: Changes) -> int:
    return sum(net([changes]).values())


# --- parts of a state ----------------------------------------------------------------------------------------------

EVENTS = [Event(type, time, time, f"{type}{time}", {}) for type, time in (("A", 1), ("A", 5), ("C", 6), ("B", 7))]


def test_what_is_forgotten_takes_part_in_no_answer() -> None:
    run = started(Harness("SEQ(A a, B b) WITHIN 100", SCHEMA), "any order")
    run.push(EVENTS)
    each = run.detector
    used = bytes_used(each)
    assert sorted(stored_events(each)[1].tolist()) == [1, 5, 7]
    forget_before(each, 5, answers_before=5)
    assert sorted(stored_events(each)[1].tolist()) == [5, 7]
    assert 0 < bytes_used(each) < used
    assert counted(run.push([Event("B", 8, 8, "b8", {})])) == 1


def test_held_answers_say_what_they_wait_for() -> None:
    harness = Harness("SEQ(A a, !C c, B b) WITHIN 100", SCHEMA)
    run = started(harness, "held")
    run.push([event for event in EVENTS if event.type != "C"])
    held = held_answers(run.detector)
    assert sorted(held.first_ends.tolist()) == [1, 5]
    assert set(held.types) == {"C"} and all(1 < until <= 7 for until in held.until.tolist())
    forget_before(run.detector, 5, answers_before=5)
    assert held_answers(run.detector).first_ends.tolist() == [5]
    assert not len(held_answers(started(harness, "any order").detector).until)
    either = started(Harness("AND(A a, B b, D d, !C c) WITHIN 100", SCHEMA), "held")
    either.push([Event(type, time, time, f"{type}{time}", {}) for type, time in (("D", 5), ("B", 6), ("A", 7))])
    assert held_answers(either.detector).first_ends.tolist() == [5]


def test_a_detector_that_was_reset_is_like_a_new_one() -> None:
    run = started(Harness("SEQ(A a, !C c, B b) WITHIN 100", SCHEMA), "any order")
    first, items = run.detector, run.encoded(EVENTS)
    expected = answers(first, items)
    assert sum(expected.values()) == 0
    more = run.encoded([event for event in EVENTS if event.type != "C"])
    used = another(first)
    assert not used.next and used.eids == first.eids
    assert sum(answers(used, more).values()) == 2
    reset(used)
    assert not len(stored_events(used)[0]) and not bytes_used(used)
    assert answers(used, items) == expected


# --- how far an event matters --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected", "lasting"),
    [
        ("SEQ(A a, !C c, B b) WITHIN 10", TimeReach(10, back=False, ahead=False), 10),
        ("SEQ(!C c, A a, B b) WITHIN 10", TimeReach(10, back=True, ahead=False), 10),
        ("SEQ(A a, B b, !C c) WITHIN 10", TimeReach(10, back=False, ahead=True), 10),
        ("SEQ(!C c, A a, B b, !D d) WITHIN 10", TimeReach(10, back=True, ahead=True), 20),
        ("A a WITHIN 10", TimeReach(0, back=False, ahead=False), 0),
        ("A a", TimeReach(0, back=False, ahead=False), 0),
        ("SEQ(A a, B b)", None, None),
    ],
)
def test_the_reach_of_a_query(text: str, expected: TimeReach | None, lasting: int | None) -> None:
    found = reach(Harness(text, SCHEMA).plan)
    assert found == expected
    if found is not None:
        assert found.lasting == lasting
        assert found.around_first == (found.extent if found.back else 0, found.extent)
        assert found.around_last == (found.extent, found.extent if found.ahead else 0)
