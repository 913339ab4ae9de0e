"""Lists of endpoint comparisons in every way of running, against the definition; and how little of them is kept."""

from __future__ import annotations

from random import Random

import pytest

from tests.effort import examples
from tocsin.engine.detector import Detector
from tocsin.events import Event
from tocsin.run.query import query
from tocsin.testing.agree import COMPILED, PLAIN, Bench
from tocsin.testing.draw_intervals import drawn_intervals
from tocsin.testing.harness import Harness, Limit
from tocsin.testing.modes import Mode, driven
from tocsin.testing.strategies import SCHEMA, is_valid

SHARE = 4  # of the ways to run, each history is asked in one of so many


@pytest.mark.parametrize("chunk", range(examples(40)))
def test_random_lists_agree_with_the_oracle(chunk: int) -> None:
    asked = 0
    for number in range(25):
        random = Random(f"intervals {chunk} {number}")
        drawn = drawn_intervals(random)
        if not is_valid(drawn.query):
            continue
        asked += 1
        trials = PLAIN[number % SHARE :: SHARE]
        found = Bench(drawn.query, SCHEMA).disagreement(drawn.events, trials)
        assert found is None, f"{found}\n{drawn.query}\n" + "\n".join(map(str, drawn.events))
    assert asked > 15


@pytest.mark.slow
@pytest.mark.jit
@pytest.mark.parametrize("number", range(examples(40)))
def test_random_lists_agree_when_compiled(number: int) -> None:
    drawn = drawn_intervals(Random(f"compiled intervals {number}"), most=4)
    if is_valid(drawn.query):
        assert Bench(drawn.query, SCHEMA).disagreement(drawn.events, COMPILED) is None, drawn


@pytest.mark.filterwarnings("ignore:the memory limit")
@pytest.mark.parametrize("number", range(examples(300, least=12)))
def test_random_lists_agree_with_little_memory(number: int) -> None:
    """What does not fit goes to disk, and comes back."""
    drawn = drawn_intervals(Random(f"spilled intervals {number}"), most=4)
    if is_valid(drawn.query):
        harness = Harness(drawn.query, SCHEMA)
        for order, restart in (("conservative", None), ("aggressive", 2)):
            mode = Mode(order, batch=3, late=True, restart=restart, limit=Limit(600, many=4))  # type: ignore[arg-type]
            assert driven(harness, drawn.events, mode).net == harness.expected(drawn.events), drawn


@pytest.mark.slow
@pytest.mark.jit
@pytest.mark.parametrize("threads", [2, 3])
def test_threads_change_nothing(threads: int) -> None:
    random = Random(5)
    rows = [
        {"type": random.choice("ABCD"), "start": at - random.randint(0, 9), "end": at, "id": random.randint(0, 3)}
        for at in sorted(random.randint(0, 8000) for _ in range(4000))
    ]
    text = (
        "EVENT ISEQ[a.ts < b.ts < a.te <= c.te, d.ts < c.ts](A a, B b, C c, D d) WHERE [id] AND NOT c MEETS d "
        "WITHIN 30 SELECT start(a) AS a, start(b) AS b, start(c) AS c, start(d) AS d"
    )
    alone, several = (
        sorted((m["start"], m["end"], m["a"], m["b"], m["c"], m["d"]) for m in query(text).detect(rows, threads=count))
        for count in (1, threads)
    )
    assert len(alone) > 50
    assert alone == several


def test_the_lists_are_worth_asking() -> None:
    """Most histories have matches, all sizes occur, and so do ties and events without length."""
    sizes, matching, points = set(), 0, 0
    for number in range(60):
        drawn = drawn_intervals(Random(f"worth {number}"), most=5)
        sizes.add(len(drawn.spans))
        points += any(event.start == event.end for event in drawn.events)
        if is_valid(drawn.query):
            matching += bool(Bench(drawn.query, SCHEMA).oracle(drawn.events))
    assert sizes == {2, 3, 4, 5}
    assert matching > 20
    assert points > 50


def stored(session_query: str, rows: list[Event]) -> tuple[int, int]:
    """The most events that were kept at any time by a run in order, and how many matches there were."""
    most = found = 0
    with query(session_query).stream(jit=False, order="in-order") as session:
        for row in rows:
            found += len(session.push(row))
            most = max(most, kept(session))
    return most, found


def kept(session: object) -> int:
    graph = session._graph  # type: ignore[attr-defined]
    detectors = [each for stage in graph.stages for each in stage.operator.detectors]
    return sum(branch.live for each in detectors if isinstance(each, Detector) for branch in each.branches)


def test_what_is_longer_than_the_window_is_not_stored() -> None:
    rows = [Event("A", at - 20, at, at, {}) for at in range(100, 400)]
    assert stored("EVENT ISEQ[a.ts < b.ts](A a, B b) WITHIN 10", rows) == (0, 0)


def test_an_event_that_nothing_can_precede_is_dropped_on_the_fly() -> None:
    """Li 2010, 5.4: without a C that ended before, no D is of use, though a may still come."""
    rows = [Event("D", at - 2, at, at, {}) for at in range(100, 400)]
    assert stored("EVENT ISEQ[A.ts < B.te < C.te < D.te](A, B, C, D) WITHIN 30", rows)[0] == 0


def test_an_event_that_must_end_last_is_purged_after_use() -> None:
    rows = [Event("AB"[at % 2], at - 4, at, None, {}) for at in range(100, 160)]
    text = "EVENT ISEQ[a.ts < b.ts < a.te < b.te](A a, B b) WITHIN 1000"
    most, found = stored(text, rows)
    assert found == 59  # every a with the b that ends one tick later, and all but the last with the next one
    assert most <= 30


def test_an_interval_lives_a_window_less_its_length() -> None:
    """What begins before the window is forgotten, though it ended within it."""
    rows = [Event("AB"[at % 2], at - 80, at, at, {}) for at in range(1000, 4000)]
    most, _ = stored("EVENT ISEQ[a.ts < b.ts](A a, B b) WITHIN 100", rows)
    assert most <= 2 * 20 + 16  # of the 100 that ended within the window
