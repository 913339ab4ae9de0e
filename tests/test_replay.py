"""Replay: events that are fed again leave the state that they left before; and what is asked of parts of a state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random

import pytest

from tests.effort import examples
from tocsin.encode import Encoder, from_dicts
from tocsin.engine.changes import Changes
from tocsin.engine.detector import Detector
from tocsin.engine.partial_state import another, bytes_used, forget_before, held_answers, reset, stored_events
from tocsin.engine.replay import replay_events
from tocsin.events import Event
from tocsin.items import Items, Strings, end, tick
from tocsin.lang.parser import parse
from tocsin.plan.bind import bind
from tocsin.plan.block import Plan
from tocsin.plan.facts import TimeReach, reach, types_of
from tocsin.plan.passes import optimize
from tocsin.testing.agree import Bench
from tocsin.testing.modes import net
from tocsin.testing.oracle import Binding
from tocsin.testing.strategies import SCHEMA, pair

WAYS = {"in order": True, "any order": False, "held": False}


def detector(plan: Plan, strings: Strings, way: str) -> Detector:
    """A detector that shows every justification by itself: those are counted elsewhere."""
    types = types_of(plan)
    hold = types if way == "held" else ()
    made = Detector(plan, types, strings, jit=False, ordered=WAYS[way], hold=hold)
    made.ledger = None
    return made


def encoded(plan: Plan, strings: Strings, events: Sequence[Event], reads: tuple[str, ...]) -> Items:
    return Encoder(SCHEMA, types_of(plan), strings, wanted=reads).encode(from_dicts(events))


def drawn(seed: int, *, ordered: bool) -> tuple[Plan, list[Event]]:
    random = Random(seed)
    query, events = pair(random, leaves=3)
    events = sorted(events, key=lambda event: event.end)
    if not ordered:
        random.shuffle(events)
    return Bench(query, SCHEMA).plan(frozenset()), events


@pytest.mark.parametrize("way", WAYS)
def test_the_state_is_that_of_a_push(way: str) -> None:
    compared = 0
    for seed in range(examples(400, least=20)):
        plan, events = drawn(seed, ordered=WAYS[way])
        half = len(events) // 2
        if not half:
            continue
        strings = Strings()
        pushed, replayed = detector(plan, strings, way), detector(plan, strings, way)
        before, after = (encoded(plan, strings, some, pushed.reads) for some in (events[:half], events[half:]))
        pushed.push(before)
        replay_events(replayed, before)
        assert replayed.time.clock == pushed.time.clock
        found, expected = (answers(each, after) for each in (replayed, pushed))
        assert found == expected, f"seed {seed}: {plan}"
        compared += sum(expected.values())
    assert compared > 20


def answers(each: Detector, items: Items) -> Counter[Binding]:
    return net([each.push(items), each.push(end())])


def test_settled_events_are_not_searched() -> None:
    """An absence at the end waits for time to pass; once that has passed, nothing of it can wait."""
    plan, strings = planned("SEQ(A a, B b, !C c) WITHIN 4"), Strings()
    events = [Event("A", 1, 1, "a1", {}), Event("B", 2, 2, "b2", {})]
    for settled, expected in ((False, 1), (True, 0)):
        each = detector(plan, strings, "any order")
        replay_events(each, encoded(plan, strings, events, each.reads), settled=settled)
        assert each.counters.waiting == expected
        assert counted(each.push(tick(100))) == expected


def planned(text: str) -> Plan:
    return optimize(bind(parse(text), SCHEMA, {}), frozenset())


def counted(changes: Changes) -> int:
    return sum(net([changes]).values())


# --- parts of a state ----------------------------------------------------------------------------------------------

EVENTS = [Event(type, time, time, f"{type}{time}", {}) for type, time in (("A", 1), ("A", 5), ("C", 6), ("B", 7))]


def test_what_is_forgotten_takes_part_in_no_answer() -> None:
    plan, strings = planned("SEQ(A a, B b) WITHIN 100"), Strings()
    each = detector(plan, strings, "any order")
    each.push(encoded(plan, strings, EVENTS, each.reads))
    used = bytes_used(each)
    assert sorted(stored_events(each)[1].tolist()) == [1, 5, 7]
    forget_before(each, 5, answers_before=5)
    assert sorted(stored_events(each)[1].tolist()) == [5, 7]
    assert 0 < bytes_used(each) < used
    again = encoded(plan, strings, [Event("B", 8, 8, "b8", {})], each.reads)
    assert counted(each.push(again)) == 1


def test_held_answers_say_what_they_wait_for() -> None:
    plan, strings = planned("SEQ(A a, !C c, B b) WITHIN 100"), Strings()
    each = detector(plan, strings, "held")
    each.push(encoded(plan, strings, [event for event in EVENTS if event.type != "C"], each.reads))
    held = held_answers(each)
    assert sorted(held.first_ends.tolist()) == [1, 5]
    assert set(held.types) == {"C"} and all(1 < until <= 7 for until in held.until.tolist())
    forget_before(each, 5, answers_before=5)
    assert held_answers(each).first_ends.tolist() == [5]
    assert not len(held_answers(detector(plan, strings, "any order")).until)


def test_a_detector_that_was_reset_is_like_a_new_one() -> None:
    plan, strings = planned("SEQ(A a, !C c, B b) WITHIN 100"), Strings()
    first = detector(plan, strings, "any order")
    items = encoded(plan, strings, EVENTS, first.reads)
    expected = answers(first, items)
    assert sum(expected.values()) == 0
    more = encoded(plan, strings, [event for event in EVENTS if event.type != "C"], first.reads)
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
    found = reach(planned(text))
    assert found == expected
    if found is not None:
        assert found.lasting == lasting
        assert found.around_first == (found.extent if found.back else 0, found.extent)
        assert found.around_last == (found.extent, found.extent if found.ahead else 0)
