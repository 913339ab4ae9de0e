"""`settled_at` in order: the moment of the stream's time at which an answer was certain, a function of the events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest

from tests.effort import examples
from tocsin.encode import from_dicts
from tocsin.events import END_OF_TIME, Event
from tocsin.items import advanced
from tocsin.lang.parser import parse
from tocsin.lang.syntax import Query
from tocsin.schema import Schema
from tocsin.testing.harness import Harness, Running, schema_of
from tocsin.testing.notation import events_of, history
from tocsin.testing.oracle import Binding
from tocsin.testing.strategies import POINTS, SCHEMA, is_valid, pair

CHUNKS, QUERIES = 6, 40
Known = dict[Binding, int]


def settled(
    harness: Harness, events: Sequence[Event], cuts: Sequence[int] = (), *, restart: bool = False, ticks: bool = False
) -> Known:
    """When each answer was settled: pushed in pieces that end at `cuts`, with restarts, and time told in between.

    Where time is told, all answers must be there that it settles, and no other.
    """
    listed = sorted(events, key=lambda event: event.end)
    run, rows = harness.start(), from_dicts(listed)
    told: list[tuple[int, set[Binding]]] = []
    for low, high in zip([0, *cuts], [*cuts, len(listed)], strict=True):
        if restart:
            run.restart()
        run.push(rows.slice(low, high - low))
        if ticks and high < len(listed):
            time = listed[high].end - 1
            run.tell(advanced(time))
            if time >= listed[high - 1].end:  # else events of one time lie on both sides of the cut
                told.append((time, set(known(run))))
    run.end()
    found = known(run)
    for time, given in told:
        assert given == {binding for binding, at in found.items() if at <= time}, f"{harness.query} at {time}: {found}"
    return found


def known(run: Running) -> Known:
    found: Known = {}
    for piece in (batch for step in run.answers for batch in step):
        for (op, binding), time in zip(piece.bindings(), piece.known_at.tolist(), strict=True):
            assert op == 1 and binding not in found, binding
            found[binding] = time
    return found


def ways(count: int, random: Random) -> list[tuple[list[int], bool, bool]]:
    """All at once; one by one; with time told after each; some cuts; all of these with restarts."""
    single = list(range(1, count))
    some = sorted(random.sample(single, k=min(3, len(single))))
    cuts = [([], False), (single, False), (single, True), (some, False), (some, True)]
    return [(each, restart, ticks) for each, ticks in cuts for restart in (False, True)]


def disagreement(query: Query, events: Sequence[Event], schema: Schema, random: Random) -> str | None:
    harness = Harness(query, schema)
    first: Known | None = None
    for cuts, restart, ticks in ways(len(events), random):
        found = settled(harness, events, cuts, restart=restart, ticks=ticks)
        if first is None:
            first = found
        if found != first:
            return f"{query}\n{cuts} {restart=} {ticks=}\n{first}\n{found}\n" + "\n".join(map(str, events))
    return None


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(examples(CHUNKS, least=2)))
def test_cuts_and_restarts_do_not_change_it(chunk: int) -> None:
    for seed in range(chunk * QUERIES, (chunk + 1) * QUERIES):
        random = Random(seed)
        query, drawn = pair(random)
        events = list({event.eid: event for event in drawn}.values())
        if events:
            assert disagreement(query, events, SCHEMA, random) is None, seed


# What is behind the first step, and what an answer waits for behind that.
GROWING = (
    "B+ b", "B* b", "B? b", "FIRST B{1,2} b", "LAST B{1,2} b", "EACH B{1,2} b", "NEXT B+ b", "NEXT B* b",
    "B+ b UNTIL b.v > 1", "(SEQ(B b, FIRST C c))+ g", "MAYBE B b", "EXISTS b : B b", "OR(B b, SEQ(C c, B b2))",
)  # fmt: skip
BEHIND = ("", ", !D d FOR 2", ", !D d FOR 5", ", !D d", ", !(D d : d.v > 0) FOR 4", ", !SEQ(D d, A a2) FOR 5", ", D* d")


@pytest.mark.parametrize("number", range(examples(600, least=26)))
def test_what_ends_with_a_set_and_waits_behind_it(number: int) -> None:
    """Until when it waits is known only when the set is: drawn patterns have this at their end too seldom."""
    random = Random(f"growing {number}")
    pattern = f"SEQ(A a, {GROWING[number % len(GROWING)]}{random.choice(BEHIND)})"
    clauses = f"{random.choice(('', 'WHERE [id]'))} WITHIN {random.choice((3, 5, 8))}"
    query = parse(f"EVENT {pattern} {clauses}")
    query = replace(query, timeout=random.random() < 0.3 and is_valid(replace(query, timeout=True), POINTS))
    if is_valid(query, POINTS):
        events = [
            Event(random.choice("AABBBCDE"), at, at, eid, {"id": random.randint(1, 2), "v": random.randint(0, 2)})
            for eid, at in enumerate(sorted(random.randrange(16) for _ in range(12)))
        ]
        assert disagreement(query, events, POINTS, random) is None


@pytest.mark.parametrize(
    ("text", "stream", "expected"),
    [
        ("EVENT SEQ(A a, B b) WITHIN 10", "a1 b4 c20", [4]),
        ("EVENT SEQ(A a, !C c, B b) WITHIN 10", "a1 b4 b20", [4]),  # the gap has closed when b comes
        ("EVENT SEQ(A a, B b, !C c) WITHIN 10", "a1 b4 d30", [11]),  # until no C can follow any more
        ("EVENT SEQ(!C c, A a, B b) WITHIN 10", "a1 b4 d30", [4]),  # looks back only
        ("EVENT SEQ(A a, B+ b) WITHIN 10", "a1 b4 b6 d30", [11]),  # the set may grow until then
        ("EVENT SEQ(B+ b, A a) WITHIN 10", "b1 b2 a4 d30", [4]),
        ("EVENT SEQ(A a, B+ b, C c) WITHIN 10", "a1 b2 b3 c4 d30", [4]),
        ("EVENT AND(A a, B b, !C c) WITHIN 10", "b3 a5 d30", [5]),  # only an event of the same tick may refute it
        ("EVENT AND(A a, B+ b) WITHIN 10", "b3 a5 b9 d30", None),
        ("EVENT SEQ(A a, !C c)", "a1 b4", [END_OF_TIME]),  # without a window the deadline is the end
        ("EVENT SEQ(A a, !C c) WITHIN 5", "a1", [6]),  # also if the stream ends before it
        ("EVENT SEQ(A a, !C c FOR 3)", "a1 b4", [3]),
        ("EVENT SEQ(A a, B+ b, !C c FOR 4) WITHIN 5", "a1 b6 d7 d8 d30", [9]),  # of the last member, once it is known
        ("EVENT SEQ(A a, B+ b, !C c FOR 4) WITHIN 5", "a1 b2 d7 d8 d30", [6]),  # the set may grow for longer
    ],
)
def test_what_an_answer_waited_for(text: str, stream: str, expected: list[int] | None) -> None:
    query, events = parse(text), events_of(history(stream))
    schema = schema_of(events)
    assert disagreement(query, events, schema, Random(1)) is None
    found = settled(Harness(query, schema), events)
    assert found
    if expected is not None:
        assert sorted(found.values()) == expected


def test_the_first_reason_counts_where_a_hidden_event_has_several() -> None:
    query = parse("EVENT EXISTS b : SEQ(A a, B b, !C c) WITHIN 10")
    events = events_of(history("a1 b2 b3 d30"))
    assert disagreement(query, events, schema_of(events), Random(2)) is None


def test_alternatives_that_bind_the_same_are_known_by_the_earlier_one() -> None:
    query = parse("EVENT OR(SEQ(A a, B b, !C c), SEQ(A a, B b)) WITHIN 10")
    events = events_of(history("a1 b2 d30"))
    assert disagreement(query, events, schema_of(events), Random(2)) is None
    found = settled(Harness(query, schema_of(events)), events)
    assert list(found.values()) == [2]
