"""Constraints over starts and ends of events (R127): verdicts by enumeration of histories, and queries as they run."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache
from random import Random

import pytest

import tocsin
from tests.effort import examples
from tests.test_constraint_reasoning import FAR, S, letter_of, shortest
from tests.test_constraint_reasoning import SCHEMA as POINTS
from tests.test_constraint_traces import feed_in_pieces, found, shuffled
from tocsin.constraint.reasoning import Flag, Reasoning, reason_about, verdict_of
from tocsin.errors import QueryError
from tocsin.events import Event
from tocsin.lang.constraint_syntax import is_start, start_of, whole_of
from tocsin.lang.parser import parse, parse_constraints
from tocsin.lang.syntax import Query
from tocsin.order.strategy import Strategy
from tocsin.plan.bind import bind
from tocsin.plan.passes import optimize
from tocsin.testing.harness import Harness
from tocsin.testing.oracle_endpoints import unended
from tocsin.testing.oracle_traces import TraceVerdict, kinds_of, matches_by_traces, told_of, verdict

SCHEMA = replace(POINTS, intervals=True)
LENGTH = 4  # letters of a completion
U, N, V = "undetermined", "UNSAT", "violated"
OVERLAP = "CONSTRAINT c AS A^- (B^- A^+ B^+ | A^+ B^- B^+); "


@cache
def reasoning(text: str) -> Reasoning:
    return reason_about(optimize(bind(parse(text), SCHEMA)))


def walked(text: str, word: str) -> list[str]:
    known, state = reasoning(text), 0
    said = [known.static]
    names = {letter.shown: at for at, letter in enumerate(known.letters.all)}
    for each in word.split():
        state = int(known.moves[state, names[each.removesuffix("^+")]])
        said.append(verdict_of(int(known.flags[state])))
    return said


@pytest.mark.parametrize(
    ("text", "word", "said"),
    [
        (OVERLAP + "EVENT REL[overlap](A a, B b) UNDER c", "A^- B^- A^+ B^+", [U, U, S, S, S]),
        (OVERLAP + "EVENT REL[overlap](A a, B b) UNDER c", "A^- A^+ B^-", [U, U, N, N]),
        (OVERLAP + "EVENT SEQ(A a, B b) UNDER c", "A^- B^-", [U, U, N]),
        (OVERLAP + "EVENT SEQ(A a, B b) UNDER c", "A^- A^+", [U, U, S]),
        (OVERLAP + "EVENT ISEQ[start(a) < start(b)](A a, B b) UNDER c", "", [S]),
        (OVERLAP + "EVENT REL[contain](A a, B b) UNDER c", "", [N]),
        # two A may be open at once: which of them ends nobody knows, so there is no SAT, and UNSAT stays true
        ("CONSTRAINT c AS A^- A^- A^+ B^- A^+ B^+; EVENT SEQ(A a, B b) UNDER c", "A^- A^- A^+ B^-", [U] * 5),
        ("CONSTRAINT c AS A^- A^- B^- A^+ A^+ B^+; EVENT SEQ(A a, B b) UNDER c", "", [N]),
        # whole events that do not overlap: letters stand where events end
        ("CONSTRAINT c AS A+ B; EVENT AND(A a, B b) UNDER c", "A", [S, S]),
        ("CONSTRAINT c AS A+ B; EVENT SEQ(A a, B b) UNDER c", "A B", [U, U, U]),
    ],
)
def test_verdicts_over_endpoints(text: str, word: str, said: list[str]) -> None:
    assert walked(text, word) == said


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("constraint c as A^-B^- (A^+|B^+)*", "CONSTRAINT c AS A^- B^- (A^+ | B^+)*"),
        ("constraint c as A^-+ A^+[x=1]{2}", "CONSTRAINT c AS A^-+ A^+[x = 1]{2}"),
    ],
)
def test_endpoints_are_read_and_printed(text: str, printed: str) -> None:
    [made] = parse_constraints(text)
    assert str(made) == printed
    assert parse_constraints(printed) == (made,)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("CONSTRAINT c AS A^- A^+ ENDS A; EVENT A a UNDER c", "ENDS does not go with A^-"),
        ("CONSTRAINT c AS A^- A^+ TIMEOUT 5; EVENT A a UNDER c", "TIMEOUT does not go with A^-"),
        ("CONSTRAINT c AS A^- A^+ TIES ANY; EVENT A a UNDER c", "TIES ANY does not go with A^-"),
        ("CONSTRAINT c AS A^ B; EVENT A a UNDER c", "A^- is the start of an A"),
        ("CONSTRAINT c AS A^+ A^-; EVENT A a UNDER c", "no trace can fulfil c together"),
    ],
)
def test_what_is_wrong_is_said(text: str, said: str) -> None:
    with pytest.raises(QueryError) as caught:
        tocsin.query(text).check(SCHEMA)
    assert said in str(caught.value)


# --- random ones, by enumeration -------------------------------------------------------------------------------------

SYMBOLS = ("A^-", "A^+", "B^-", "B^+", "A^- A^+", "B^- B^+", "A^- B^- A^+ B^+", "N", "A^-[v = 1] A^+")
PATTERNS = (
    "A a", "SEQ(A a, B b)", "REL[overlap](A a, B b)", "REL[during, start](A a, B b)", "AND(A a, B b)",
    "ISEQ[start(a) < start(b)](A a, B b)", "ISEQ[end(a) <= end(b), start(b) < end(a)](A a, B b)", "SEQ(A a, N n)",
    "SEQ(A a, A b)", "SEQ(A a, OR(B b, N c))", "SEQ(A a, !N n, B b)", "REL[contain](B b, A a)", "AND(A a, N n)",
    "OR(SEQ(A a, B b), SEQ(B c, A d))", "SEQ(A a, B+ b)",
)  # fmt: skip
WHERE = ("", "", "", " WHERE a.v = 1", " WHERE a.v <> 1")


def drawn_regex(random: Random, depth: int = 3) -> str:
    kind = random.choice(("symbol", "symbol", "chain", "choice", "repeat")) if depth else "symbol"
    if kind == "symbol":
        return random.choice(SYMBOLS)
    if kind == "repeat":
        return f"({drawn_regex(random, depth - 1)}){random.choice(['*', '+', '?', '{2}'])}"
    parts = [drawn_regex(random, depth - 1) for _ in range(random.randint(2, 3))]
    return "(" + (" " if kind == "chain" else " | ").join(parts) + ")"


def drawn(random: Random, clauses: str = "") -> str:
    pattern = random.choice(PATTERNS)
    where = random.choice(WHERE) if "A a" in pattern and "OR(SEQ" not in pattern else ""
    if "PARTITION" in clauses:
        where = " WHERE [id]" + where.replace("WHERE", "AND")
    regex = random.choice((drawn_regex(random), f"A^- {drawn_regex(random)} A^+ {drawn_regex(random)}"))
    mode = " CHECKED" if clauses and random.random() < 0.25 else ""
    return f"CONSTRAINT c ON A, B, N{clauses} AS {regex}; EVENT {pattern}{where} UNDER c{mode}"


def drawn_word(random: Random, query: Query, known: Reasoning, most: int, id: str = "x") -> list[Event]:
    """Endpoints in order of time that mostly keep to the constraint."""
    kinds, state, word = kinds_of(query), 0, list[Event]()
    starts = set(known.under.starts)
    for at in range(1, most + 1):
        more = [replace(each, type=whole_of(each.type), end=at) for each in unended(word)]
        for type, attrs in kinds:
            event = Event(type, at, at, f"{type}{id}{at}", {"id": id, **attrs})
            more.append(replace(event, type=start_of(type)) if type in starts else event)
        random.shuffle(more)
        for letter in more:
            there = int(known.moves[state, letter_of(known, letter)])
            if not known.flags[there] & Flag.VIOLATED or random.random() < 0.05:
                word.append(letter)
                state = there
                break
    return word


def test_random_verdicts_are_those_of_the_definition() -> None:
    said: Counter[str] = Counter()
    for seed in range(examples(1500, least=40)):
        random = Random(f"endpoints {seed}")
        text = drawn(random)
        try:
            known = reasoning(text)
        except QueryError:  # no trace can fulfil it
            continue
        query = parse(text)
        kinds, word = kinds_of(query), drawn_word(random, query, known, random.randint(1, 4))
        state, last = 0, U
        for at in range(len(word) + 1):
            if at:
                state = int(known.moves[state, letter_of(known, word[at - 1])])
            flags = Flag(int(known.flags[state]))
            mine, by_definition = verdict_of(int(flags)), verdict(query, word[:at], kinds, LENGTH)
            context = f"{query}\n{' '.join(map(str, word[:at]))}: {mine} {flags!r}, by definition {by_definition}"
            if by_definition.says == "violated" and mine != V:
                continue  # its completions are longer
            if mine in (S, N):
                assert by_definition.says == mine, context
            elif mine == U and known.exact and known.serial.issuperset(known.under.starts):
                both = Flag.COMPLETE | Flag.MATCHED
                far = max(shortest(known, both, want)[state] for want in (both, Flag.COMPLETE))
                assert far < FAR, context
                assert by_definition.says == U or far > LENGTH, context
            else:
                assert mine != V or by_definition.says == V, context
            assert not flags & Flag.CLOSABLE or by_definition.closed, context
            assert not (flags & Flag.HELD) or by_definition.held, context
            if last in (S, N) and mine != V:
                assert mine == last, context  # stable
            last = mine
            said[mine] += 1
    assert min(said[S], said[N], said[U]) > 3, said


# --- as they run -----------------------------------------------------------------------------------------------------

ORDERS = ("in-order", "slack(3)", "conservative", "conservative(3)", "aggressive", "aggressive(3)", "hybrid")
LONGEST = 8


def drawn_history(random: Random, query: Query, known: Reasoning) -> list[Event]:
    """Traces of three keys, one behind the other, with overlaps; what is open at the end of a word ends behind it."""
    events: list[Event] = []
    for number, id in enumerate("xyz"):
        word = drawn_word(random, query, known, random.randint(1, 6), id)
        for letter in unended(word):
            word.append(replace(letter, type=whole_of(letter.type), end=word[-1].end + 1))
        gaps = [random.choice((1, 1, 1, 2)) for _ in word]
        times = {letter.end: 12 * number + sum(gaps[:at]) for at, letter in enumerate(word)}
        starts = {letter.eid: letter.start for letter in word if is_start(letter.type)}
        for event in word:
            if not is_start(event.type):
                start, end = times[starts.get(event.eid, event.start)], times[event.end]
                events.append(replace(event, start=end if random.random() < 0.03 else start, end=end))
    return sorted(events, key=lambda event: event.end)


def definition(text: str, events: list[Event], *, closes: bool) -> tuple[Counter, Counter]:
    """The rows and the matches; verdicts are those of the automaton, which are tested above."""
    query, known = parse(text), reasoning(text)

    def judge(word) -> TraceVerdict:
        state = 0
        for letter in word:
            state = int(known.moves[state, letter_of(known, letter)])
        flags = int(known.flags[state])
        return TraceVerdict(verdict_of(flags), closes and bool(flags & Flag.CLOSABLE), bool(flags & Flag.HELD))

    told = told_of(query, events, judge)
    rows = Counter(
        (row.kind, row.key, row.trace, row.constraint, row.reason, tuple(event.eid for event in row.events))
        for row in told.rows
    )
    return rows, Counter(match.binding for match in matches_by_traces(query, told.seen))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("longest", [True, False])
def test_rows_and_matches_are_those_of_the_definition(order: str, longest: bool) -> None:
    """R129: over endpoints, out of order, in every strategy, over restarts; `longest` says when starts are settled."""
    schema = replace(SCHEMA, longest=dict.fromkeys("ABN", LONGEST) if longest else {})
    told: Counter = Counter()
    for seed in range(examples(400, least=24)):
        random = Random(f"{order} {longest} {seed}")
        text = drawn(random, " PARTITION BY id")
        try:
            known = reasoning(text)
        except QueryError:  # no trace can fulfil it
            continue
        query = parse(text)
        events = drawn_history(random, query, known)
        if any(event.end - event.start > LONGEST for event in events):
            continue
        expected = definition(text, events, closes=longest or not known.under.starts)
        strategy = Strategy("hybrid", 3, held=frozenset("A")) if order == "hybrid" else order
        run = Harness(query, schema).start(strategy)
        listed = events if order == "in-order" else shuffled(random, events, 2.5)
        list(feed_in_pieces(run, listed, random.choice((1, 2, 5, 100)), restarts=random.random() < 0.3))
        run.end()
        context = f"{text}\n{' '.join(f'{e.eid}@{e.start}-{e.end}{dict(e.attrs)}' for e in listed)}"
        assert found(run) == expected, context
        told.update(kind for kind, *_ in expected[0])
        told["match"] += expected[1].total()
    assert told["violated"]
    assert told["match"]


@pytest.mark.parametrize("jit", [False, True])
def test_a_verdict_comes_while_the_interval_is_open_once_its_start_is_settled(jit: bool) -> None:
    """X4 over endpoints: b begins behind the end of a, so they cannot overlap; told once no longer A can come."""
    order = "CONSTRAINT c PARTITION BY id AS A^- (B^- A^+ B^+ | A^+ B^- B^+) C*; "
    text = order + "EVENT REL[overlap](A a, B b) WHERE [id] UNDER c"
    run = Harness(text, replace(SCHEMA, longest={"A": 5, "B": 5})).start("aggressive(2)", jit=jit)
    operator = run.graph.stages[-1].operator
    for type, start, end in (("A", 1, 3), ("B", 4, 9), ("C", 10, 10)):
        run.push([Event(type, start, end, f"{type}{end}", {"id": "x"})])
        assert operator.counts.closed == 0
    run.push([Event("C", 11, 11, "C11", {"id": "y"})])  # starts are settled up to 11 - 2 - 1 - 5
    assert operator.counts.unsat == operator.counts.closed == 1


@pytest.mark.filterwarnings("ignore")
def test_threads_and_a_memory_limit_change_nothing() -> None:
    order = "CONSTRAINT c PARTITION BY id AS A^- (B^- A^+ B^+ | A^+ B^- B^+)*; "
    text = order + "EVENT REL[overlap](A a, B b) WHERE [id] UNDER c"
    schema = replace(SCHEMA, longest={"A": 5, "B": 5})
    events = [
        {"type": type, "time": 3 * at + start, "end": 3 * at + end, "id": f"{at}"}
        for at in range(60)
        for type, start, end in (("A", 0, 3 + at % 2), ("B", 2 + 3 * (at % 3 == 0), 7 - 2 * (at % 5 == 0)))
    ]
    ways: list[dict] = [{}, {"threads": 3}, {"order": "aggressive(9)", "memory_limit": 1}, {"order": "conservative(9)"}]
    told = []
    for how in ways:
        rows = tocsin.query(text).detect(events, schema=schema, end="end", jit=False, **how)
        told.append(Counter((row["kind"], row["match_id"], row["start"], row["end"], row["reason"]) for row in rows))
    assert told[0] == told[1] == told[2] == told[3]
    assert {"match", "expected"} <= {kind for kind, *_ in told[0]}


def test_explain_says_when_verdicts_come() -> None:
    text = OVERLAP + "EVENT REL[overlap](A a, B b) UNDER c"
    assert "say in the schema how long one lasts at most" in tocsin.query(text).explain(SCHEMA)
    bounded = tocsin.query(text).explain(replace(SCHEMA, longest={"A": 5, "B": 5}))
    assert "trusted: closed traces are released" in bounded
    assert "(0) -A^--> 1" in bounded
