"""Every way to run the engine against the oracle: random queries and histories, and all case files.

`PLAIN` and `COMPILED` of `tocsin.testing.agree` list the ways: each pass off, batches, orders of arrival, restarts at
every prefix, duplicates. Hypothesis draws; a failure is made small by `tocsin.testing.shrink`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.effort import examples, is_quick, some
from tocsin.app.judge import EngineUnderTest, counted, trace_found
from tocsin.constraint.rows import TraceRows
from tocsin.errors import TocsinError
from tocsin.events import Event
from tocsin.lang.parser import parse, parse_all
from tocsin.lang.syntax import Query
from tocsin.plan.bind import bind_all
from tocsin.run.matches import Matches
from tocsin.testing.agree import COMPILED, PLAIN, Bench, Trial
from tocsin.testing.cases import Answer, Case, FoundMatch, read_cases, run_case
from tocsin.testing.corpus import measured
from tocsin.testing.harness import Harness, schema_of
from tocsin.testing.modes import EVERY, Mode, driven
from tocsin.testing.notation import Item, events_of
from tocsin.testing.oracle import composite, matches
from tocsin.testing.oracle_count import counts_matches
from tocsin.testing.shrink import shrunk, simpler_pairs
from tocsin.testing.strategies import POINTS, SCHEMA, Pair, any_query, history, is_valid, pair, pairs, query

CHUNKS, EACH = 40, 52  # 2,080 queries
SHARE = 4  # each is asked in every fourth mode, and each mode gets every fourth query; `make fuzz` asks all in all
COMPILED_CHUNKS, COMPILED_EACH, HISTORIES = 30, 5, 20  # 150 queries with 20 histories each
HELD = 3  # the one of five whose answers are held: their kernels are large


def drawing(count: int) -> settings:
    """Settings of one chunk; we make failures small ourselves."""
    return settings(
        max_examples=count,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )


def small(pair: Pair, trials: Sequence[Trial]) -> str:
    """The failure in its smallest form."""

    def fails(query: Query, events: Sequence[Event]) -> bool:
        return Bench(query, SCHEMA).disagreement(events, trials) is not None

    query, events = shrunk(*pair, fails, most=400)
    return f"{Bench(query, SCHEMA).disagreement(events, trials)}\n{query}\n" + "\n".join(map(str, events))


# --- random queries ------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(examples(CHUNKS)))
def test_every_plain_mode_agrees_with_the_oracle(chunk: int) -> None:
    count = 0

    @seed(chunk)
    @drawing(EACH)
    @given(pairs())
    def agree(drawn: Pair) -> None:
        nonlocal count
        count += 1
        trials = PLAIN[count % SHARE :: SHARE]
        assert Bench(drawn[0], SCHEMA).disagreement(drawn[1], trials) is None, small(drawn, trials)

    agree()
    assert count >= EACH


@pytest.mark.parametrize("number", range(examples(60, least=12)))
def test_some_queries_quickly(number: int) -> None:
    drawn = pair(Random(f"quick {number}"))
    assert Bench(drawn[0], SCHEMA).disagreement(drawn[1]) is None, small(drawn, PLAIN)


@pytest.mark.slow
@pytest.mark.jit
@pytest.mark.parametrize("chunk", range(examples(COMPILED_CHUNKS)))
def test_compiled_modes_agree_with_the_oracle(chunk: int) -> None:
    """Of five queries one promises points and one has histories with nulls (kernels of their own), and one is large."""
    for number in range(COMPILED_EACH):
        random = Random(f"compiled {chunk} {number}")
        facts = {"intervals": number != 0, "nulls": number == 1}
        drawn, first = pair(random, leaves=(2, 2, 4, 2, 3)[number], **facts)
        bench = Bench(drawn, POINTS if number == 0 else SCHEMA)
        for at in range(HISTORIES):
            events = history(random, drawn, **facts) if at else first
            trials = COMPILED[-1:] if number == HELD else COMPILED[:-1]
            trial = trials[at % len(trials)]
            assert bench.disagreement(events, [trial]) is None, f"{drawn}\n{events}"


@pytest.mark.slow
def test_points_only() -> None:
    """A schema that promises points has kernels of its own."""
    for number in range(examples(40)):
        drawn, events = pair(Random(f"points {number}"), intervals=False)
        assert Bench(drawn, POINTS).disagreement(events) is None, f"{drawn}\n{events}"


# --- the corpus ----------------------------------------------------------------------------------------------------

LEAST = {
    "has matches": 0.5,
    "has several matches": 0.3,
    "a negation or a mark rejects": 0.12,
    "has matches beside a negation": 0.25,
    "an event stands at the end of a gap": 0.12,
    "a span equals the window": 0.07,
    "ties": 0.5,
    "SEQ": 0.5, "AND": 0.2, "OR": 0.1, "EXISTS": 0.06, "ISEQ": 0.06, "REL": 0.06, "negation": 0.4, "repetition": 0.15,
    "WITHIN": 0.6, "no WITHIN": 0.15, "PARTITION BY": 0.08, "[attr]": 0.1, "SELECT": 0.15, "unnamed leaf": 0.3,
    "leaf predicate": 0.2, "a correlated predicate in a negated part": 0.08, "identity": 0.03,
    "negation first": 0.1, "negation in the middle": 0.1, "negation last": 0.1, "negation under AND": 0.1,
    "negation over a composite": 0.1, "negation inside a negation": 0.06, "negation three deep": 0.005,
    "repetition first": 0.02, "repetition in the middle": 0.02, "repetition last": 0.015, "repetition under AND": 0.02,
    "repetition inside a negation": 0.03, "depth 3": 0.08,
    "count": 0.01, "sum": 0.008, "avg": 0.005, "min": 0.008, "max": 0.008, "first": 0.008, "last": 0.008,
    "arithmetic": 0.1, "start": 0.03, "end": 0.03,
    "CASE": 0.02, "IN": 0.03, "BETWEEN": 0.03, "LIKE": 0.03, "IS NULL": 0.05,
}  # fmt: skip


@pytest.mark.slow
def test_the_drawn_corpus_asks_enough() -> None:
    corpus = measured(pair(Random(number)) for number in range(800))
    short = {what: corpus.share(what) for what, least in LEAST.items() if corpus.share(what) < least}
    assert not short, f"{short}\n{corpus}"


def test_most_drawn_queries_are_valid() -> None:
    drawn = [any_query(Random(number)) for number in range(examples(400, least=100))]
    assert sum(map(is_valid, drawn)) > 0.7 * len(drawn)


def test_drawn_queries_can_be_printed_and_read_again() -> None:
    for number in range(examples(300)):
        drawn = query(Random(number))
        assert parse(str(drawn)) == drawn


# --- the checks themselves -----------------------------------------------------------------------------------------


def test_a_wrong_answer_is_noticed_and_made_small() -> None:
    """The oracle with another window stands for a broken engine."""

    def fails(query: Query, events: Sequence[Event]) -> bool:
        return matches(query, events) != matches(query, events, window="exclusive")

    drawn = next(pair for number in range(500) if fails(*(pair := _pair(number))))
    small_query, small_events = shrunk(*drawn, fails)
    assert fails(small_query, small_events)
    assert len(small_events) <= 2 or len(str(small_query)) <= len(str(drawn[0]))


def test_what_is_simpler_is_not_the_same_again() -> None:
    """Else nothing would be made small: the first that still fails is taken."""
    for number in range(12):
        query, drawn = _pair(number)
        events = list(drawn)
        assert all((simpler, fewer) != (query, events) for simpler, fewer in simpler_pairs(query, events))


def _pair(number: int) -> Pair:
    return pair(Random(number))


# --- case files ----------------------------------------------------------------------------------------------------

FILES = {path: read_cases(path) for path in sorted((Path(__file__).parent / "cases").rglob("*.case"))}
CASES = [case for cases in FILES.values() for case in cases if "order" not in case.options]
ORDER_CASES = [case for cases in FILES.values() for case in cases if "order" in case.options]
SOME_ORDER_CASES = [each[-1] for cases in FILES.values() if (each := [case for case in cases if case in ORDER_CASES])]
MODES = {
    "plain": Mode(),
    "one by one": Mode(batch=1),
    "any order": Mode("aggressive", batch=2),
    "restarted": Mode(batch=1, restart=EVERY),
}
FIRST = ("plain", "restarted")  # those that a quick run asks


def engine_answer(mode: Mode) -> Answer:
    """Each query of the file over the events and the matches of the queries before it."""

    def answer(queries: Sequence[Query], items: Sequence[Item], options: Mapping[str, str]) -> list[FoundMatch]:
        events = events_of(items)
        bind_all(queries, schema_of(events))
        for each in queries[:-1]:
            events += [composite(str(each.name), match) for match in matches(each, events) if match.step is None]
        by_eid = {event.eid: event for event in reversed(events)}
        said = driven(Harness(queries[-1], schema_of(events)), events, mode)
        if counts_matches(queries[-1]):
            return [
                counted(queries[-1], row)
                for batches in said.answers
                for batch in batches
                for row in Matches([batch.table()])
            ]
        traces = [
            trace_found(row, by_eid)
            for batches in said.answers
            for batch in batches
            if isinstance(batch, TraceRows)
            for row in batch.traces
        ]
        return traces + [
            FoundMatch(tuple((var, tuple(by_eid[eid] for eid in eids)) for var, eids in binding), op, batch.kind)
            for batches in said.answers
            for batch in batches
            if not isinstance(batch, TraceRows)
            for op, binding in batch.bindings()
        ]

    return answer


@pytest.mark.parametrize("mode", [name for name in MODES if name in FIRST or not is_quick()])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_engine_agrees_with_every_case(case: Case, mode: str) -> None:
    verdict = run_case(case, engine_answer(MODES[mode]))
    assert verdict.ok, str(verdict)


@pytest.mark.parametrize("case", ORDER_CASES, ids=str)
def test_every_strategy_gives_the_log_of_its_cases(case: Case) -> None:
    verdict = run_case(case, EngineUnderTest(jit=False), log=True)
    assert verdict.ok, str(verdict)


@pytest.mark.slow
@pytest.mark.jit
@pytest.mark.parametrize("case", some(SOME_ORDER_CASES), ids=str)
def test_compiled_strategies_give_the_log_of_some_cases(case: Case) -> None:
    verdict = run_case(case, EngineUnderTest(), log=True)
    assert verdict.ok, str(verdict)


@pytest.mark.parametrize("case", [case for case in CASES if case.error is not None], ids=str)
def test_what_is_wrong_is_refused_by_the_binder(case: Case) -> None:
    with pytest.raises(TocsinError):
        bind_all(parse_all(case.query), schema_of([]))
