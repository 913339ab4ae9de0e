"""Queries under constraints as they run: in every order, over restarts, trace by trace, beside the definition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from random import Random

import numpy as np
import pyarrow as pa
import pytest

import tocsin
from tests.effort import examples
from tests.test_constraint_reasoning import drawn_regex, letter_of, reasoning
from tocsin.constraint.loops import BEGUN
from tocsin.constraint.monitor import Monitored
from tocsin.constraint.reasoning import Flag, verdict_of
from tocsin.constraint.rows import TraceRows
from tocsin.constraint.tracker import Tracker
from tocsin.errors import QueryError
from tocsin.events import Event
from tocsin.items import Column, Items
from tocsin.lang.parser import parse
from tocsin.order.strategy import Strategy
from tocsin.run import finite
from tocsin.schema import Field, Kind, Schema
from tocsin.testing.harness import Harness, Running
from tocsin.testing.oracle_traces import TraceVerdict, matches_by_traces, told_of

SCHEMA = Schema(
    open_types=True, open_fields=True, intervals=False,
    common={"id": Field("id", Kind.TEXT), "v": Field("v", Kind.INT)},
)  # fmt: skip
PATTERNS = (
    "SEQ(A a, B b)", "SEQ(A a, !N n, B b)", "SEQ(A a, B b, !N n)", "SEQ(!N n, A a, B b)", "AND(A a, B b)",
    "SEQ(A a, B+ b, C c)", "SEQ(A a, !SEQ(B x, N n), C c)", "SEQ(A a, OR(B b, C c))", "SEQ(A a, X x)",
)  # fmt: skip
SIMPLE = ("A B C?", "A (N B | B) C", "(A | N)+ B+ C", "A (B | C)* N?")
WAITING = (
    "SEQ(A a, B b, !N n)", "SEQ(A a, B b, !N n)", "AND(A a, B b, !N n)", "SEQ(A a, !N n, B b)", "SEQ(A a, B+ b, !N n)",
    "SEQ(A a, B b, !SEQ(N x, C c))", "SEQ(A a, B b, !OR(N n, C c))", "SEQ(A a, B b, !X x)",
)  # fmt: skip
CLOSING = ("A B (C | N) (A | B)*", "A+ B+ C? A*", "(A | B)+ C (A | B)*", "(A | B)+ N? C (A | B | C)*", "A B C?")
ORDERS = ("in-order", "slack(3)", "conservative", "conservative(3)", "aggressive", "aggressive(3)", "hybrid")


def drawn(random: Random) -> str:
    tail = random.choice(("", "", "", " ENDS C", " TIMEOUT 3", " ENDS N TIMEOUT 4", " TIES ANY"))
    mode = " CHECKED" if "TIES" in tail else random.choice(("", "", " CHECKED"))
    regex = random.choice((drawn_regex(random), *SIMPLE))
    within = random.choice(("", "", "", " WITHIN 4"))
    return (
        f"CONSTRAINT c ON A, B, C, N PARTITION BY id AS {regex}{tail}; "
        f"EVENT {random.choice(PATTERNS)} WHERE [id]{within} UNDER c{mode}"
    )


def drawn_to_wait(random: Random) -> str:
    """A query whose answers wait for a negated part, which mostly cannot come any more before the window is over."""
    tail = random.choice(("", "", "", "", " ENDS C", " TIMEOUT 4"))
    regex = random.choice((drawn_regex(random), *CLOSING, *CLOSING))
    pattern = random.choice(WAITING)
    types = "A, B, C" if " N " in pattern and "N" not in regex and random.random() < 0.3 else "A, B, C, N"
    key = random.choice((" PARTITION BY id",) * 5 + ("",))
    within = random.choice(("", " WITHIN 4", " WITHIN 8", " WITHIN 15"))
    return f"CONSTRAINT c ON {types}{key} AS {regex}{tail}; EVENT {pattern} WHERE [id]{within} UNDER c"


def drawn_history(random: Random, query: str, most: int) -> list[Event]:
    """Traces of three keys that mostly keep to the constraint, some with two events of one time."""
    known, events = reasoning(query), list[Event]()
    states, time = {"x": 0, "y": 0, "z": 0}, 0
    for number in range(most):
        time += random.choice((0, 1, 1, 1, 2, 5))
        key = random.choice(list(states))
        kinds = [("A", {"v": 1}), ("A", {}), ("B", {}), ("C", {}), ("N", {}), ("X", {})]
        random.shuffle(kinds)
        for type, attrs in kinds:
            event = Event(type, time, time, f"{type}{number}", {"id": key, **attrs})
            if type == "X" and not known.letters.of_type.get("X"):
                continue
            there = int(known.moves[states[key], letter_of(known, event)])
            if not known.flags[there] & Flag.VIOLATED or random.random() < 0.1:
                states[key] = 0 if type in known.under.ends else there
                events.append(event)
                break
    return events


def histories(
    name: str, draw: Callable[[Random], str], most: int, *, lengths: tuple[int, int] = (3, 14), least: int = 1
) -> Iterator[tuple[Random, str, list[Event]]]:
    """Drawn queries, each with a history; without those whose constraint no trace can fulfil."""
    for seed in range(examples(most, least=least)):
        random = Random(f"{name} {seed}")
        text = draw(random)
        try:
            events = drawn_history(random, text, random.randint(*lengths))
        except QueryError:
            continue
        yield random, text, events


def feed_in_pieces(run: Running, events: list[Event], size: int, *, restarts: bool = False) -> Iterator[list[Event]]:
    """Push events, so many at once, and go on from the saved state after each push; yields what is still to come."""
    for at in range(0, len(events), size):
        run.push(events[at : at + size])
        yield events[at + size :]
        if restarts:
            run.restart()


def shown(text: str, events: list[Event]) -> str:
    return f"{text}\n{' '.join(f'{e.eid}@{e.end}{dict(e.attrs)}' for e in events)}"


def definition(text: str, events: list[Event]) -> tuple[Counter, Counter]:
    """The rows and the matches; verdicts are those of the automaton, which has tests of its own."""
    query, known = parse(text), reasoning(text)

    def judge(word) -> TraceVerdict:
        state = 0
        for event in word:
            state = int(known.moves[state, letter_of(known, event)])
        flags = int(known.flags[state])
        return TraceVerdict(
            verdict_of(flags), bool(flags & Flag.CLOSABLE), bool(flags & Flag.HELD), bool(flags & Flag.QUIET)
        )

    told = told_of(query, events, judge, awaits=lambda _, event: letter_of(known, event) in known.awaited)
    rows = Counter(
        (row.kind, row.key, row.trace, row.constraint, row.reason, tuple(event.eid for event in row.events))
        for row in told.rows
    )
    return rows, Counter(match.binding for match in matches_by_traces(query, told.seen))


def found(run: Running) -> tuple[Counter, Counter]:
    rows: Counter = Counter()
    matches: Counter = Counter()
    for batch in (batch for step in run.answers for batch in step):
        if isinstance(batch, TraceRows):
            for row in batch.traces:
                named = row.kind == "violated"
                events = row.events if row.kind == "expected" else () if row.event is None else (row.event,)
                rows[row.kind, row.key, row.number, row.constraint if named else "",
                     row.reason if named else "", tuple(events)] += 1  # fmt: skip
        else:
            for op, binding in batch.bindings():
                matches[binding] += op
    return rows, Counter({binding: count for binding, count in matches.items() if count})


def shuffled(random: Random, events: list[Event], most: int) -> list[Event]:
    """Events up to so many ticks late."""
    return sorted(events, key=lambda event: event.end + random.uniform(0, most))


@pytest.mark.parametrize("order", ORDERS)
def test_rows_and_matches_are_those_of_the_definition(order: str) -> None:
    told: Counter = Counter()
    for random, text, events in histories(order, drawn, 700):
        if " TIES ANY" in text and any(event.type == "X" for event in events):
            continue
        expected = definition(text, events)
        strategy = Strategy("hybrid", 3, held=frozenset("A")) if order == "hybrid" else order
        run = Harness(parse(text), SCHEMA).start(strategy)
        listed = events if order == "in-order" else shuffled(random, events, 2.5)
        list(feed_in_pieces(run, listed, random.choice((1, 2, 5, 100)), restarts=random.random() < 0.3))
        run.end()
        assert found(run) == expected, shown(text, listed)
        told.update(kind for kind, *_ in expected[0])
    assert told["violated"] > 1
    assert told["expected"] > 1


@pytest.mark.parametrize("order", ["conservative", "conservative(3)", "hybrid", "slack(3)"])
def test_answers_that_wait_outlast_restarts(order: str) -> None:
    """After every push the run goes on from its saved state: no answer is lost, and none is given twice."""
    early = 0
    for random, text, events in histories(f"restarts {order}", drawn_to_wait, 700, least=16):
        held = Strategy("hybrid", 3, held=frozenset(random.choice(("A", "N", "AB"))))
        run = Harness(parse(text), SCHEMA).start(held if order == "hybrid" else order)
        listed = shuffled(random, events, 2.5)
        for rest in feed_in_pieces(run, listed, random.choice((1, 1, 2, 5)), restarts=True):
            if order == "conservative" and rest:
                type = random.choice((None, "A", "B", "C", "N"))
                mine = [event.end for event in rest if type in (None, event.type)]
                run.promise(type, min(mine, default=rest[-1].end) - 1)
        early += found(run)[1].total()
        run.end()
        assert found(run) == definition(text, events), shown(text, listed)
    assert early


@pytest.mark.parametrize("order", ["in-order", "conservative(3)", "aggressive(3)"])
def test_equal_events_without_eids_stay_two_over_a_restart(order: str) -> None:
    text = "CONSTRAINT c PARTITION BY id AS A+ B+; EVENT SEQ(A a, B b) WHERE [id] UNDER c"
    rows = [{"type": type, "time": at, "id": "x", "v": 1} for type, at in (("A", 1), ("B", 2), ("B", 2), ("A", 9))]
    run = Harness(text, SCHEMA).start(order)
    for row in rows:
        run.push(pa.RecordBatch.from_pylist([row]))
        run.restart()
    run.end()
    rows_told, matches = found(run)
    assert matches.total() == 2
    assert {(kind, reason) for kind, _, _, _, reason, _ in rows_told} >= {("violated", "tie")}


@pytest.mark.parametrize("order", ["in-order", "conservative(3)"])
@pytest.mark.parametrize("types", ["ANC", "ACN"])
def test_what_ends_a_trace_is_its_last_letter_though_an_unseen_event_has_its_time(order: str, types: str) -> None:
    """No constraint sees N, so at one time nobody can say that it comes behind the C that ends the trace."""
    text = "CONSTRAINT c ON A, C PARTITION BY id AS A C ENDS C; EVENT SEQ(A a, C c, !N n) WHERE [id] WITHIN 8 UNDER c"
    events = [Event(type, 1 if type == "A" else 3, 1 if type == "A" else 3, type, {"id": "x"}) for type in types]
    run = Harness(parse(text), SCHEMA).start(order)
    run.push(events)
    run.end()
    assert found(run) == definition(text, events)
    assert not found(run)[0]


@pytest.mark.parametrize("order", ["conservative(3)", "aggressive(3)"])
def test_events_of_closed_traces_are_not_seen_however_far_one_push_reaches(order: str) -> None:
    """The first B closes the trace; the later one comes with it, and when it could be withdrawn that is too late."""
    text = "CONSTRAINT c PARTITION BY id AS A B C?; EVENT SEQ(A a, B b) WHERE [id] UNDER c"
    events = [Event(t, at, at, f"{t}{at}", {"id": "x"}) for t, at in (("A", 1), ("B", 2), ("B", 50), ("C", 60))]
    events.append(Event("A", 90, 90, "A90", {"id": "y"}))
    for size in (1, 2, 3, 5):
        run = Harness(parse(text), SCHEMA).start(order)
        list(feed_in_pieces(run, events, size))
        run.end()
        assert found(run)[1] == {(("a", ("A1",)), ("b", ("B2",))): 1}, size


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("order", ["conservative(3)", "aggressive(3)"])
def test_a_memory_limit_changes_nothing(order: str) -> None:
    """What lies far back goes to disk, in one push of all events, as they may come."""
    seen = 0
    for random, text, events in histories("spill", drawn, 120, lengths=(40, 40)):
        answers = []
        for rows, how in ((events, {}), (shuffled(random, events, 2.5), {"order": order, "memory_limit": 1})):
            given = [{"type": e.type, "time": e.end, "eid": e.eid, "id": None, "v": None, **e.attrs} for e in rows]
            found = tocsin.query(text).detect(given, eid="eid", schema=SCHEMA, jit=False, **how)
            told: Counter = Counter()
            for row in found:
                told[row["kind"], row["match_id"], row["start"], row["end"], row.get("reason")] += row["op"]
            answers.append(+told)
        assert answers[0] == answers[1], shown(text, events)
        seen += answers[0].total()
    assert seen


def test_rows_come_once_and_are_never_retracted() -> None:
    text = "CONSTRAINT c PARTITION BY id AS A B+; EVENT SEQ(A a, B b) WHERE [id] UNDER c"
    events = [Event(t, at, at, f"{t}{at}", {"id": "x"}) for at, t in enumerate("ABBBB", 1)]
    run = Harness(parse(text), SCHEMA).start("aggressive(10)")
    for event in [events[at] for at in (3, 0, 2, 1, 4)]:
        run.push([event])
    run.end()
    rows = [batch for step in run.answers for batch in step if isinstance(batch, TraceRows)]
    assert [(batch.kind, batch.op.tolist()) for batch in rows] == [("expected", [1])]


# --- release ---------------------------------------------------------------------------------------------------------


def feed(text: str, count: int, word: str, *, jit: bool = False) -> tuple[Running, Monitored]:
    """Traces one after the other, all of one word; the operator of the query."""
    schema = Schema(open_types=True, intervals=False, common={"id": Field("id", Kind.INT)})
    run = Harness(parse(text), schema).start("in-order", jit=jit)
    at = 0
    events = []
    for trace in range(count):
        for type in word:
            at += 1
            events.append(Event(type, at, at, f"{type}{at}", {"id": trace}))
    for begin in range(0, len(events), 50):
        run.push(events[begin : begin + 50])
    operator = run.graph.stages[-1].operator
    assert isinstance(operator, Monitored)
    return run, operator


QUERY = "CONSTRAINT c PARTITION BY id AS A (N B+ | B+); EVENT SEQ(A a, !N n, B b, B c) WHERE [id] UNDER c"


@pytest.mark.parametrize("order", ["in-order", "slack(3)"])
def test_an_event_that_comes_twice_is_one_event(order: str) -> None:
    """Also where it decides that a match must come: two events of one time would be a tie."""
    text = "CONSTRAINT c PARTITION BY id AS A (B | C)* D; EVENT SEQ(A a, D d) WHERE [id] UNDER c"
    rows = [{"type": type, "time": at, "id": "x", "eid": f"{type}{at}"} for at, type in enumerate("ABD")]
    told = []
    for copies in (1, 2, 3):
        session = tocsin.query(text).stream(jit=False, order=order, eid="eid")
        found = [match for row in rows for match in session.push([row] * copies)]
        told.append([(match["kind"], match["start"], match["end"]) for match in [*found, *session.close()]])
    assert sorted(kind for kind, *_ in told[0]) == ["expected", "match"]
    assert told[1] == told[2] == told[0]


def test_closed_traces_are_released_and_skipped() -> None:
    run, operator = feed(QUERY, 200, "ANBBBB")
    kept = sum(branch.live for branch in run.detector.branches)
    assert kept <= 3  # the last trace
    assert operator.counts.closed == 200
    assert operator.counts.released > 0
    assert operator.counts.skipped >= 199 * 3
    plain = Harness(parse(QUERY.partition(";")[2].replace("UNDER c", "")), run.graph.schema).start("in-order")
    assert plain.graph.plans[0].under is None


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("order", ["in-order", "conservative", "conservative(2)"])
@pytest.mark.parametrize("within", ["", " WITHIN 100"])
def test_answers_that_wait_are_given_when_their_trace_is_closed(order: str, within: str, jit: bool) -> None:
    """No N can follow on C, so the answer needs not wait for the end or for its window (spec 000, 7.2, rule 2)."""
    text = f"CONSTRAINT c PARTITION BY id AS A B (C | N) D*; EVENT SEQ(A a, B b, !N n) WHERE [id]{within} UNDER c"
    schema = Schema(open_types=True, intervals=False, common={"id": Field("id", Kind.INT)})
    run = Harness(parse(text), schema).start(order, jit=jit)
    for at, (type, key) in enumerate(("A1", "A2", "B1", "B2", "C1", "D1", "D1", "A3", "A3", "A3"), 1):
        run.push([Event(type, at, at, f"{type}{at}", {"id": int(key)})])
    if order == "conservative":  # nothing is guaranteed yet
        run.promise(None, 10)
    matches = {binding for step in run.answers for batch in step for _, binding in batch.bindings()
               if not isinstance(batch, TraceRows)}  # fmt: skip
    assert matches == {(("a", ("A1",)), ("b", ("B3",)))}
    run.end()
    given = found(run)[1]
    assert given == {(("a", ("A1",)), ("b", ("B3",))): 1, (("a", ("A2",)), ("b", ("B4",))): 1}


QUIET = "CONSTRAINT c PARTITION BY id AS A (N B | C B+) D*; EVENT SEQ(A a, B b, !N n) WHERE [id]{} UNDER c"


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("order", ["in-order", "slack(2)", "conservative", "conservative(2)", "hybrid"])
@pytest.mark.parametrize("within", ["", " WITHIN 100"])
def test_answers_are_given_once_no_event_can_come_that_they_wait_for(order: str, within: str, jit: bool) -> None:
    """Spec 000, 7.2, rule 2: behind C no N can come, but more B can, so the trace is quiet and not closed."""
    schema = Schema(open_types=True, intervals=False, common={"id": Field("id", Kind.INT)})
    strategy = Strategy("hybrid", 2, held=frozenset("N")) if order == "hybrid" else order
    run = Harness(parse(QUIET.format(within)), schema).start(strategy, jit=jit)
    operator, before = run.graph.stages[-1].operator, Counter[int]()
    for at, (type, key) in enumerate(("A1", "C1", "A2", "B1", "N2", "B1", "A3", "A3", "A3"), 1):
        run.push([Event(type, at, at, f"{type}{at}", {"id": int(key)})])
        if order == "conservative":
            run.promise(None, at - 1)
        before[at] = found(run)[1].total()
    assert isinstance(operator, Monitored)
    assert operator.counts.closed == 0
    assert (before[4], before[9]) == (0, 2)  # the fourth is not settled when it comes
    run.end()
    assert found(run)[1] == {(("a", ("A1",)), ("b", ("B4",))): 1, (("a", ("A1",)), ("b", ("B6",))): 1}


@pytest.mark.parametrize("order", ORDERS)
def test_what_a_quiet_trace_has_ruled_out_refutes_nothing(order: str) -> None:
    """It is a violation, and nothing else: the answer may have been given before it came."""
    strategy = Strategy("hybrid", 3, held=frozenset("N")) if order == "hybrid" else order
    for size in (1, 2, 3, 9):
        run = Harness(parse(QUIET.format(" WITHIN 100")), SCHEMA).start(strategy)
        events = [Event(type, at, at, f"{type}{at}", {"id": "x"}) for at, type in enumerate("ACBNBNB", 1)]
        list(feed_in_pieces(run, events, size, restarts=size == 2))
        run.end()
        rows, matches = found(run)
        assert matches == {(("a", ("A1",)), ("b", (f"B{at}",))): 1 for at in (3, 5, 7)}, size
        assert [row[4:] for row in rows] == [("unexpected", ("N4",))]


@pytest.mark.parametrize("order", ["conservative", "conservative(3)"])
def test_conservative_withdraws_nothing_where_a_closed_trace_goes_on_all_the_same(order: str) -> None:
    """The late B closes the trace before the one that came first, which so stands in no match of it."""
    given: Counter = Counter()
    for random, text, events in histories(f"never withdrawn {order}", drawn, 700, least=40):
        run = Harness(parse(text), SCHEMA).start(order)
        list(feed_in_pieces(run, shuffled(random, events, 2.5), random.choice((1, 2, 5))))
        run.end()
        given.update(int(op) for step in run.answers for batch in step for op in batch.op)
    assert given[1]
    assert not given[-1]
    text = "CONSTRAINT c PARTITION BY id AS A B C?; EVENT SEQ(A a, B b) WHERE [id] UNDER c"
    run = Harness(parse(text), SCHEMA).start(order)
    list(feed_in_pieces(run, [Event(*each, {"id": "x"}) for each in (
        ("A", 1, 1, "a1"), ("B", 4, 4, "b4"), ("B", 3, 3, "b3"))], 1))  # fmt: skip
    run.end()
    told = [(batch.kind, op) for step in run.answers for batch in step for op in batch.op]
    assert told == [("expected", 1), ("match", 1)]
    assert found(run)[1] == {(("a", ("a1",)), ("b", ("b3",))): 1}


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_an_answer_is_certain_with_what_closed_its_trace_though_the_push_reaches_behind_its_window(size: int) -> None:
    text = "CONSTRAINT c PARTITION BY id AS A B (C | N); EVENT SEQ(A a, B b, !N n) WHERE [id] WITHIN 20 UNDER c"
    steps = (("A", 1, "x"), ("B", 2, "x"), ("C", 5, "x"), ("A", 6, "y"), ("A", 100, "z"))
    events = [Event(type, at, at, f"{type}{at}", {"id": key}) for type, at, key in steps]
    run = Harness(parse(text), SCHEMA).start("in-order")
    list(feed_in_pieces(run, events, size))
    batches = [batch for step in run.answers for batch in step if not isinstance(batch, TraceRows)]
    assert [(batch.bindings(), batch.known_at.tolist()) for batch in batches] == [
        ([(1, (("a", ("A1",)), ("b", ("B2",))))], [5])
    ]


@pytest.mark.parametrize("draw", [drawn, drawn_to_wait])
def test_answers_are_certain_at_one_time_however_events_are_cut(draw: Callable[[Random], str]) -> None:
    """In order `settled_at` is a function of the events: the deadline, or the event that closed the trace."""
    times = 0
    for _, text, events in histories("certain", draw, 300, least=20):
        said = []
        for size in (1, 3, 100):
            run = Harness(parse(text), SCHEMA).start("in-order")
            list(feed_in_pieces(run, events, size))
            run.end()
            batches = [batch for step in run.answers for batch in step if not isinstance(batch, TraceRows)]
            certain = [each for batch in batches for each in zip(batch.bindings(), batch.known_at, strict=True)]
            said.append(sorted((repr(binding), int(when)) for (_, binding), when in certain))
        assert said[0] == said[1] == said[2], shown(text, events)
        times += len(said[0])
    assert times


def test_checked_traces_are_not_released() -> None:
    run, operator = feed(QUERY + " CHECKED", 50, "ANBB")
    assert operator.counts.closed == operator.counts.skipped == operator.counts.released == 0
    assert sum(branch.live for branch in run.detector.branches) > 50


@pytest.mark.parametrize(
    ("text", "most"),
    [
        (QUERY.replace("WHERE [id]", "WHERE [id] WITHIN 50"), 8),
        ("CONSTRAINT c PARTITION BY id AS A B; EVENT SEQ(A a, B b) WHERE [id] UNDER c", 16),
        ("CONSTRAINT c PARTITION BY id AS A B TIMEOUT 5000000; EVENT SEQ(A a, B b) WHERE [id] WITHIN 9 UNDER c", 16),
        ("CONSTRAINT c PARTITION BY id AS A B TIMEOUT 5000000; EVENT SEQ(A a, B b) WHERE [id] UNDER c", 24),
    ],
)
def test_a_million_traces_alive_take_eight_bytes_or_twenty_four_each(text: str, most: int) -> None:
    """Without `expected` and TIMEOUT a trace is one word; its key is kept beside it, as for every query."""
    count = 1 << 20
    _, operator = feed(text, 3, "A")
    tracker = operator.tracker
    types = list(operator.tracker._setting.reader.types)
    every = np.arange(count)
    rows = Items(
        types=np.full(count, types.index("A"), np.int32), start=every + 10, end=every + 10, eid_high=None,
        eid_low=None, columns={"id": Column(Kind.INT, every)}, payload=pa.record_batch({"id": every}),
    )  # fmt: skip
    big = Tracker(operator._setting, operator.reasoning, jit=True)
    assert big.time.ended is False
    big.push(rows)
    assert big.keys.count == count == len(big.table.words)
    assert (big.table.words & BEGUN != 0).all()
    assert big.table.nbytes == most * count == tracker.table.bytes_of_a_trace * count


def test_static_unsat_stores_nothing() -> None:
    run, operator = feed("CONSTRAINT c PARTITION BY id AS B A; EVENT SEQ(A a, B b) WHERE [id] UNDER c", 50, "BA")
    assert sum(branch.live for branch in run.detector.branches) == 0
    assert operator.counts.skipped == 100


# --- bad input, and what is said ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("CONSTRAINT c AS A[v = 1 AND v = 2] B; EVENT A a UNDER c", "a condition on A can never hold"),
        ("CONSTRAINT c AS A B ENDS A; EVENT A a UNDER c", "no trace can fulfil the constraint c"),
        ("CONSTRAINT c AS A B; CONSTRAINT d AS B A; EVENT A a UNDER c, d", "no trace can fulfil c and d together"),
        ("CONSTRAINT c AS A; CONSTRAINT d PARTITION BY v AS A; EVENT A a UNDER c, d", "are about different traces"),
        ("CONSTRAINT c AS A; EVENT SEQ(A a, B b) CONSUME chronicle UNDER c", "UNDER and CONSUME do not go together"),
        ("CONSTRAINT c AS A[1 = 2]; EVENT A a UNDER c", "this condition can never hold"),
        ("CONSTRAINT c AS A[v = 'x']; EVENT A a UNDER c", "v"),
        ("CONSTRAINT c AS " + " ".join(f"T{n}" for n in range(800)) + "; EVENT T1 t UNDER c", "more than 625 states"),
        (
            "CONSTRAINT c AS (A|B)* A (A|B){6}; CONSTRAINT d AS (C|D)* C (C|D){6}; EVENT SEQ(A a, C x) UNDER c, d",
            "c and d together have more than 10,000 states",
        ),
        ("CONSTRAINT c AS (A|B)* A" + " (A|B)" * 14 + "; EVENT A a UNDER c", "more than 10,000 states"),
    ],
)
def test_what_is_wrong_is_said(text: str, said: str) -> None:
    with pytest.raises(QueryError) as caught:
        tocsin.query(text).check(SCHEMA)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("CONSTRAINT c AS A (B | ; EVENT A a UNDER c", "expected an event type"),
        ("CONSTRAINT c AS A B}; EVENT A a UNDER c", "unexpected"),
        ("CONSTRAINT c AS A B ENDS; EVENT A a UNDER c", "expected"),
        ("CONSTRAINT c AS A^ B; EVENT A a UNDER c", "A^- is the start of an A"),
        ("CONSTRAINT c AS A{3,1}; EVENT A a UNDER c", "3"),
        ("CONSTRAINT c AS A[x >]; EVENT A a UNDER c", "expected"),
        ("CONSTRAINT c AS A B; EVENT A a UNDER d", "there is no constraint d above"),
        ("CONSTRAINT c AS A; CONSTRAINT c AS B; EVENT A a UNDER c", "a second constraint c"),
    ],
)
def test_syntax_errors_are_underlined(text: str, said: str) -> None:
    with pytest.raises(QueryError) as caught:
        tocsin.query(text)
    told = str(caught.value)
    assert said in told
    assert "^" in told.partition("| CONSTRAINT")[2]


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("CONSTRAINT c AS B A; EVENT SEQ(A a, B b) UNDER c", "no trace reaches its step b"),
        ("CONSTRAINT c AS A B; EVENT SEQ(A a, B b) UNDER c", "every trace holds a match"),
        ("CONSTRAINT c PARTITION BY v AS A B; EVENT SEQ(A a, B b) UNDER c", "its key does not have v"),
        ("CONSTRAINT c PARTITION BY v AS A B; EVENT SEQ(A a, B b) WHERE [v] UNDER c", "kept until the end"),
        (
            "CONSTRAINT c AS A* B* C* D* E*; EVENT AND("
            + ", ".join(f"{each} v{each}" for each in "ABCDEFGHIJKLMN")
            + ") UNDER c",
            "more than 10,000 states",
        ),
    ],
)
def test_notes(text: str, note: str) -> None:
    assert any(note in each for each in tocsin.query(text).check(SCHEMA))


def test_types_that_occur_nowhere_are_noted() -> None:
    schema = Schema(types={"Shelf": {}, "Exit": {}}, intervals=False)
    notes = tocsin.query("CONSTRAINT c AS Shlef Exit; EVENT SEQ(Shelf s, Exit e) UNDER c").check(schema)
    assert any("Shlef" in note and "did you mean Shelf?" in note for note in notes)


def test_explain_draws_the_automaton_and_says_why_nothing_is_expected() -> None:
    text = tocsin.query("CONSTRAINT c AS A B+ C?; EVENT SEQ(A a, B b) WITHIN 5 UNDER c").explain(SCHEMA)
    assert "(0) -A-> 1" in text
    assert "((2)) -B-> 2, -C-> 3" in text
    assert "no `expected` rows: WITHIN" in text


def test_threads_share_the_traces_and_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each thread follows the traces of some keys: the same rows in the same order, the same ids and counters."""
    split: list[int] = []
    by_key = finite.run_by_key
    monkeypatch.setattr(finite, "run_by_key", lambda *given: split.append(given[-1].count) or by_key(*given))
    kinds: Counter = Counter()
    drawing = (drawn, drawn_to_wait)
    for number, draw in enumerate(drawing):
        for _, text, events in histories(f"threads {number}", draw, 300, lengths=(20, 40), least=6):
            given = [{"type": e.type, "time": e.end, "eid": e.eid, "id": None, "v": None, **e.attrs} for e in events]
            runs = [tocsin.query(text).detect(given, eid="eid", schema=SCHEMA, jit=False, threads=n) for n in (1, 3)]
            tables = [[table.to_pylist() for table in run.tables()] for run in runs]
            assert tables[0] == tables[1], shown(text, events)
            counted = [{name: n for name, n in run.counters.items() if name not in PIECEWISE} for run in runs]
            assert counted[0] == counted[1], shown(text, events)
            kinds.update(row["kind"] for table in tables[0] for row in table)
    assert {"match", "violated"} <= set(kinds)
    assert split.count(3) > 3


PIECEWISE = ("spared", "released")  # depend on what comes in one piece, with one thread, too


def test_threads_lose_no_types_that_only_a_constraint_reads() -> None:
    query = tocsin.query("CONSTRAINT c PARTITION BY id AS A X B; EVENT SEQ(A a, B b) WHERE [id] UNDER c CHECKED")
    events = [
        {"type": type, "time": 3 * trace + at, "id": trace, "v": at}
        for trace in range(40)
        for at, type in enumerate("AXB")
    ]
    events[4]["type"] = "B"
    answers = [
        sorted((row["kind"], row["start"], row["key"]) for row in query.detect(events, jit=False, threads=threads))
        for threads in (1, 3)
    ]
    assert answers[0] == answers[1]
    assert Counter(kind for kind, *_ in answers[0]) == {"match": 41, "expected": 40, "violated": 1, "unconfirmed": 1}


@pytest.mark.parametrize(
    ("constraint", "types"),
    [("A (B | C)* N?", "ABN"), ("A B N", "ABN")],  # decided by the N, or before anything happens
)
def test_what_refutes_an_answer_is_seen_though_it_closes_the_trace(constraint: str, types: str) -> None:
    """The answer waits in the query, which was given its events before: it must not stay because nobody refutes it."""
    text = f"CONSTRAINT c PARTITION BY id AS {constraint}; EVENT SEQ(A a, B b, !N n) WHERE [id] UNDER c"
    events = [Event(type, at, at, f"{type}{at}", {"id": "x"}) for at, type in enumerate(types)]
    for size in (1, 2, 3):
        run = Harness(parse(text), SCHEMA).start("in-order")
        list(feed_in_pieces(run, events, size))
        run.end()
        assert found(run)[1] == Counter()
