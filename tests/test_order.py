"""Strategies around detectors: how they are written, what they let in, when they answer, and what level that makes.

The settled answer of every strategy is that of the oracle, for random queries and arrivals, with duplicates, promises
and restarts; and every cell of the table in docs/order.md is proved, or refuted by a run.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

import tocsin
from tests.effort import examples, some
from tocsin.app.judge import EngineUnderTest, settled
from tocsin.codec import pack, unpack
from tocsin.encode import from_dicts
from tocsin.engine.inspect import debts
from tocsin.errors import InputError, StateError, TocsinError, TocsinWarning
from tocsin.events import Event
from tocsin.graph.query_graph import QueryGraph
from tocsin.lang.parser import parse, parse_all
from tocsin.lang.syntax import Query
from tocsin.order.auto import Auto
from tocsin.order.guarantees import Guarantees
from tocsin.order.sort import Sort
from tocsin.order.strategy import KINDS, Strategy, parse_strategy
from tocsin.plan.facts import takes
from tocsin.run.session import Session
from tocsin.schema import Schema
from tocsin.testing.cases import Case, admitted, oracle_answer, read_cases
from tocsin.testing.disorder import disordered, smallest_sufficient_slack
from tocsin.testing.harness import Harness, Running, schema_of
from tocsin.testing.levels import Change, Level, classify
from tocsin.testing.notation import Item, Promise, events_of, history, spell
from tocsin.testing.oracle import Binding
from tocsin.testing.strategies import SCHEMA, pair

MINUTES = Schema(unit="s")

# --- how a strategy is written -------------------------------------------------------------------------------------

GOOD = {
    "in-order": Strategy(),
    " In-Order ": Strategy(),
    "in-order(broken=raise)": Strategy(broken="raise"),
    "slack(10 min)": Strategy("slack", late=600),
    "slack(0)": Strategy("slack", late=0),
    "slack(100 events)": Strategy("slack", events=100),
    "slack(1 event)": Strategy("slack", events=1),
    "slack(adaptive)": Strategy("slack", late=0, quantile=1.0),
    "slack(adaptive 0.99)": Strategy("slack", late=0, quantile=0.99),
    "slack(adaptive 0.9, 5 s)": Strategy("slack", late=5, quantile=0.9),
    "slack(5 s, adaptive .9)": Strategy("slack", late=5, quantile=0.9),
    "slack(K=5 s)": Strategy("slack", late=5),
    "conservative": Strategy("conservative"),
    "conservative()": Strategy("conservative"),
    "conservative(10 s)": Strategy("conservative", late=10),
    "conservative(10 s, ordered)": Strategy("conservative", late=10, ordered=True),
    "conservative(broken=raise)": Strategy("conservative", broken="raise"),
    "aggressive": Strategy("aggressive"),
    "any": Strategy("aggressive"),
    "any(2 h)": Strategy("aggressive", late=7200),
    "aggressive(10 s, trailing=immediate)": Strategy("aggressive", late=10, immediate=True),
    "aggressive(trailing=wait)": Strategy("aggressive"),
    "aggressive(broken=accept)": Strategy("aggressive", broken="accept"),
    "hybrid(C=conservative, 10 s)": Strategy("hybrid", late=10, held=frozenset("C")),
    "hybrid(C=conservative, D=conservative, E=aggressive)": Strategy("hybrid", held=frozenset("CD")),
    "auto(10 s)": Strategy("auto", late=10),
}
BAD = {
    "": "no order of events",
    "slak(5 s)": "no order of events",
    "slack(5 s": "no order of events",
    "slack 5 s": "no order of events",
    "slack": "slack needs a delay",
    "slack()": "slack needs a delay",
    "slack(-5 s)": "cannot be negative",
    "slack(K=-5)": "cannot be negative",
    "slack(-3 events)": "cannot be negative",
    "conservative(-1)": "cannot be negative",
    "aggressive(-1 min)": "cannot be negative",
    "slack(soon)": "length of time",
    "slack(5 fortnights)": "fortnights",
    "conservative(100 events)": "only slack",
    "aggressive(adaptive)": "only slack",
    "hybrid(5 s)": "hybrid needs a type",
    "hybrid(C=aggressive)": "hybrid needs a type",
    "hybrid(C=maybe)": "no option of hybrid",
    "slack(5 s, C=conservative)": "no option of slack",
    "in-order(5 s)": "in-order has no delay",
    "in-order(trailing=immediate)": "in-order has no delay",
    "slack(5 s, ordered)": "only conservative",
    "aggressive(ordered)": "only conservative",
    "conservative(trailing=immediate)": "never answers before its time",
    "slack(5 s, trailing=immediate)": "never answers before its time",
    "conservative(broken=maybe)": "no option of conservative",
    "conservative(speed=high)": "no option of conservative",
}  # fmt: skip


@pytest.mark.parametrize("text", GOOD)
def test_a_strategy_is_read_and_written(text: str) -> None:
    found = parse_strategy(text, MINUTES)
    assert found == GOOD[text]
    assert parse_strategy(str(found), Schema()) == found  # delays are written in ticks
    assert parse_strategy(found, Schema()) is found


@pytest.mark.parametrize("text", BAD)
def test_a_bad_strategy_says_what_to_write_instead(text: str) -> None:
    with pytest.raises(TocsinError) as caught:
        parse_strategy(text, MINUTES)
    assert BAD[text] in str(caught.value)
    assert caught.value.hint


def test_a_strategy_is_refused_before_any_event_is_looked_at() -> None:
    query = tocsin.query("EVENT SEQ(A a, B b) WITHIN 5")
    for call in (query.stream, lambda **given: query.detect("no such file", **given)):
        with pytest.raises(TocsinError, match="cannot be negative"):
            call(order="slack(-1 s)")


def test_a_delay_needs_the_unit_of_the_ticks() -> None:
    with pytest.raises(TocsinError, match="unit"):
        tocsin.query("EVENT SEQ(A a, B b) WITHIN 5").stream(order="slack(10 min)", schema={"A": {}, "B": {}})
    assert parse_strategy("slack(7)", Schema()).late == 7


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_a_level(kind: str) -> None:
    order = {"slack": "slack(5)", "hybrid": "hybrid(C=conservative)"}.get(kind, kind)
    assert parse_strategy(order, Schema()).level in (
        "full", "delayed", "delayed unsorted", "convergent unsorted", "eventually valid and complete",
    )  # fmt: skip


# --- guarantees ----------------------------------------------------------------------------------------------------


def test_guarantees_of_a_type_are_those_of_its_slowest_source() -> None:
    known = Guarantees(("A", "B"), {"s1", "s2"})
    assert known.promise("A", "s1", 9) == []
    assert known.promise("A", "s2", 4) == [("A", 4)]
    assert known.promise("A", "s2", 7) == [("A", 7)]
    assert known.promise(None, "s1", 20) == []
    assert known.promise(None, "s2", 12) == [("A", 12), ("B", 12)]
    assert known.promise("B", None, 30) == [("B", 30)]
    assert (known.of("A"), known.of("A", "s1"), known.of("A", "s2"), known.of("B", "s9")) == (12, 20, 12, 30)


def test_promises_that_go_backwards_or_name_nobody_are_counted() -> None:
    known = Guarantees(("A",))
    assert known.promise("A", None, 9) == [("A", 9)]
    assert known.promise("A", None, 9) == [] and known.backwards == 0
    assert known.promise("A", None, 3) == [] and known.backwards == 1
    assert known.promise("Z", None, 9) == [] and known.unknown == 1
    assert known.of("A") == 9
    # another source says less: it is not the same promise, and changes nothing either
    assert known.promise("A", "s1", 5) == [] and known.backwards == 1


def test_without_sources_nothing_follows_from_one_of_them() -> None:
    known = Guarantees(("A",))
    known.meet(["s1", "s2"])
    assert known.promise("A", "s1", 9) == []
    assert known.promise("A", "s2", 9) == [("A", 9)]
    known.meet(["s3"])  # too late to object
    assert known.promise("A", "s1", 30) == []
    assert known.of("A", "s3") == 9


# --- the graph, driven item by item --------------------------------------------------------------------------------

SOURCES = ("s1", "s2")


@dataclass
class Said:
    """What a strategy says to a stream: a list of changes for each item and one for the end."""

    log: list[list[Change]]
    set_aside: list[int]
    state: dict[str, str]  # before the end
    strategy: str = ""  # in words, with what auto has measured

    @property
    def settled(self) -> Counter[Binding]:
        net: Counter[Binding] = Counter()
        for op, binding in self.changes:
            net[binding] += op
            assert net[binding] in (0, 1), f"{binding} is counted {net[binding]} times on the way"
        return +net

    @property
    def changes(self) -> list[Change]:
        return [change for changes in self.log for change in changes]


@dataclass
class Asked:
    """A query and a stream for it."""

    query: Query
    items: Sequence[Item]
    schema: Schema

    def __post_init__(self) -> None:
        self.harness = Harness(self.query, self.schema)
        self.events = events_of(self.items)
        self.named = any(event.source for event in self.events)

    def start(self, order: str | Strategy) -> Running:
        return self.harness.start(order, source="source", sources=SOURCES) if self.named else self.harness.start(order)

    def run(self, order: str | Strategy, *, restarts: float = 0.0) -> Said:
        """Item by item; with `restarts` the graph is saved and taken up again before such a share of them."""
        random = Random(7)  # the same moments each time
        run, aside, at = self.start(order), [], 0
        rows = from_dicts(self.events)
        for place, item in enumerate(self.items):
            if random.random() < restarts:
                run.restart()
            if isinstance(item, Promise):
                run.promise(item.type, item.time, item.source)
            else:
                late = run.push(rows.slice(at, 1)).late
                aside += [place] if late and takes(self.harness.plan, item.type) else []  # else nobody cares
                at += 1
        if restarts:
            run.restart()
        state, strategy = run.state, run.graph.strategy
        run.end()
        return Said(run.steps, aside, state, strategy)

    def taken(self, said: Said) -> list[Event]:
        """The events that were not set aside."""
        return self.read([item for place, item in enumerate(self.items) if place not in set(said.set_aside)])

    def read(self, items: Sequence[Item]) -> list[Event]:
        """The events of types that the query reads."""
        return [event for event in events_of(items) if takes(self.harness.plan, event.type)]

    def oracle(self, events: Sequence[Event]) -> Counter[Binding]:
        return self.harness.expected(events)

    def __str__(self) -> str:
        return f"{self.query}\n" + "\n".join(map(str, self.items))


def drawn(seed: str, *, most: int | None = None) -> Asked:
    """A random query of any construct, and a history that comes in disorder, in part twice, with true promises."""
    random = Random(seed)
    query, events = pair(random, leaves=random.choice((3, 4, 5)))
    if random.random() < 0.5:
        source = {event.eid: random.choice(SOURCES) for event in events}
        events = [replace(event, source=source[event.eid]) for event in events]
    items = disordered(distinct(events)[:most], random, most=random.choice((None, 2, 5)), promises=0.4)
    return Asked(query, items, SCHEMA)


def distinct(events: Sequence[Event]) -> list[Event]:
    return list({event.eid: event for event in events}.values())


def strategies(asked: Asked) -> list[str]:
    """Every strategy with a delay that no event of the stream exceeds."""
    late = smallest_sufficient_slack(asked.items)
    some = min({event.type for event in asked.events} | {"A"})
    return [
        f"slack({late})",
        f"slack({len(asked.items)} events)",
        f"slack(adaptive 0.5, {late})",
        "conservative",
        f"conservative({late})",
        "aggressive",
        f"aggressive({late})",
        f"aggressive({late}, trailing=immediate)",
        f"hybrid({some}=conservative)",
        f"hybrid({some}=conservative, {late})",
        f"hybrid({some}=conservative, {late}, trailing=immediate)",
        f"auto({late})",
    ]


# --- the answer in the end -----------------------------------------------------------------------------------------

QUICK, MORE = 12, 150


def check_all_strategies(seed: str) -> None:
    asked = drawn(seed)
    expected = asked.oracle(asked.events)
    for order in strategies(asked):
        done = asked.run(order)
        assert done.set_aside == [], f"{order}\n{asked}"
        assert done.settled == expected, f"{order}\n{asked}"
        if not parse_strategy(order, SCHEMA).corrects:
            assert all(op > 0 for op, _ in done.changes), f"{order} withdraws\n{asked}"


@pytest.mark.parametrize("number", range(QUICK))
def test_every_strategy_settles_to_the_oracle(number: int) -> None:
    check_all_strategies(f"settle {number}")


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(examples(10)))
def test_every_strategy_settles_to_the_oracle_at_length(chunk: int) -> None:
    for number in range(MORE // 10):
        check_all_strategies(f"settle {chunk} {number}")


def check_short_delays(seed: str) -> None:
    """What comes later than was said is set aside, the same events by every account; the rest has its answer."""
    asked, random = drawn(seed), Random(f"{seed} late")
    late = random.randint(0, smallest_sufficient_slack(asked.items))
    share = random.choice((0.5, 0.8, 1.0))
    orders = (
        "in-order", f"slack({late})", f"slack({random.randint(0, 5)} events)", f"slack(adaptive {share})",
        f"conservative({late})", f"aggressive({late})", f"hybrid(C=conservative, {late})",
    )  # fmt: skip
    for order in orders:
        done = asked.run(order)
        assert done.settled == asked.oracle(asked.taken(done)), f"{order}\n{asked}"
        told = any(isinstance(item, Promise) for item in asked.items) and "adaptive" in order
        if not asked.named and not told:  # a case cannot name sources in advance, nor say how promises move a delay
            assert asked.taken(done) == asked.read(admitted(asked.items, {"order": order})), f"{order}\n{asked}"


@pytest.mark.parametrize("number", range(QUICK))
def test_what_comes_too_late_is_set_aside_and_nothing_else(number: int) -> None:
    check_short_delays(f"short {number}")


@pytest.mark.slow
def test_what_comes_too_late_is_set_aside_and_nothing_else_at_length() -> None:
    for number in range(examples(MORE)):
        check_short_delays(f"short at length {number}")


def check_restarts(seed: str) -> None:
    asked, random = drawn(seed), Random(f"{seed} restarts")
    for order in [*random.sample(strategies(asked), 4), "slack(2 events)", "slack(adaptive 0.8)", "slack(1)"]:
        plain, again = asked.run(order), asked.run(order, restarts=random.choice((0.3, 1.0)))
        assert [Counter(step) for step in again.log] == [Counter(step) for step in plain.log], f"{order}\n{asked}"
        assert (again.set_aside, again.strategy) == (plain.set_aside, plain.strategy), f"{order}\n{asked}"


@pytest.mark.parametrize("number", range(QUICK // 2))
def test_saving_and_restoring_at_any_step_changes_nothing(number: int) -> None:
    check_restarts(f"restart {number}")


@pytest.mark.slow
def test_saving_and_restoring_at_any_step_changes_nothing_at_length() -> None:
    for number in range(examples(MORE // 4)):
        check_restarts(f"restart at length {number}")


def check_nothing_is_left(seed: str) -> int:
    """After a final promise about everything no event is kept, where a window says how long it could matter."""
    asked = drawn(seed)
    if asked.query.within is None:
        return 0
    items = [*asked.items, Promise(None, 1_000)]
    ended = Asked(asked.query, items, asked.schema)
    for order in strategies(asked):
        if not order.startswith("slack"):
            done = ended.run(order)
            left = {name: stored for name, stored in done.state.items() if stored and not name.endswith(">")}
            assert left == {}, f"{order}\n{ended}"
            assert done.log[-1] == [], f"{order}\n{ended}"
    return 1


def test_nothing_is_kept_after_a_promise_about_everything() -> None:
    assert sum(check_nothing_is_left(f"left {number}") for number in range(QUICK)) > QUICK // 2


# --- queries that feed each other ----------------------------------------------------------------------------------

CHAINS = (
    "QUERY P EVENT SEQ(A a, !C c, B b) WITHIN 4; EVENT SEQ(P p, D d) WITHIN 8",
    "QUERY P EVENT SEQ(A a, B b) WITHIN 4; EVENT SEQ(D d, !P p, E e) WITHIN 8",
    "QUERY P EVENT SEQ(A a, !C c) WITHIN 3; EVENT SEQ(P p, !B b, D d) WITHIN 9",
    "QUERY P EVENT SEQ(A a, B+ b) WITHIN 3; EVENT AND(P p, D d) WITHIN 7",
    "QUERY P EVENT AND(A a, !C c) WITHIN 2; QUERY R EVENT SEQ(P p, B b) WITHIN 6; EVENT SEQ(R r, !P p, D d) WITHIN 9",
)


def spelled(found: Sequence[Any]) -> Counter[str]:
    return Counter(" ".join(spell(event.type, event.start, event.end) for event in each.events) for each in found)


def check_chain(text: str, number: int) -> int:
    """Matches of the first query are events for the second, and as late as they like; how many there are in the end."""
    random = Random(f"{text} {number}")
    times = sorted(random.choices(range(12), k=10))
    events = [Event(random.choice("AABBCDDE"), time, time, f"e{at}") for at, time in enumerate(times)]
    items, queries = disordered(events, random, most=random.choice((2, 6))), parse_all(text)
    expected = spelled(oracle_answer(queries, items, {}))
    late = smallest_sufficient_slack(items)
    for order in (
        f"slack({late})", "slack(30 events)", "conservative", f"conservative({late})", "aggressive",
        f"aggressive({late})", f"hybrid(C=conservative, {late})",
    ):  # fmt: skip
        log = EngineUnderTest(jit=False)(queries, items, {"order": order})
        assert spelled(settled(log)) == expected, f"{order}\n{text}\n{items}"
    return expected.total()


@pytest.mark.parametrize("text", some(CHAINS, least=2))
def test_queries_that_feed_each_other_settle_too(text: str) -> None:
    assert sum(check_chain(text, number) for number in range(5)) > 0


@pytest.mark.slow
@pytest.mark.parametrize("text", CHAINS)
def test_queries_that_feed_each_other_settle_too_at_length(text: str) -> None:
    assert sum(check_chain(text, number) for number in range(5, 5 + examples(25, least=10))) > 0


# --- levels --------------------------------------------------------------------------------------------------------

RELEASE = "ordered_by_release"


def level(asked: Asked, order: str, *, reading: str = RELEASE) -> Level:
    done = asked.run(order)
    trailing = "immediate" if "immediate" in order else "wait"
    return classify(asked.query, asked.items, done.log, set_aside=done.set_aside, order=reading, trailing=trailing)


def in_order(asked: Asked) -> Asked:
    return Asked(asked.query, sorted(asked.events, key=lambda event: event.end), asked.schema)


def has(found: Level, name: str) -> bool:
    """Whether a run has a level. Ordered is: by release, or by the last end where an absence cannot fail at all."""
    return found.satisfies(name) or replace(found, order="ordered_by_end").satisfies(name)


def check_levels(seed: str) -> None:
    asked = drawn(seed, most=8)
    asked = Asked(replace(asked.query, timeout=False), asked.items, SCHEMA)  # levels are about matches
    late = smallest_sufficient_slack(asked.items)
    for order in (
        f"slack({late})", "conservative", f"conservative({late})", "aggressive", f"aggressive({late})",
        f"aggressive({late}, trailing=immediate)",
    ):  # fmt: skip
        found, said = level(asked, order), parse_strategy(order, SCHEMA).level
        assert has(found, said), f"{order}: {found}\n{found.why}\n{asked}"
        if order.startswith("aggressive"):
            assert found.current, f"{order}: {found.why['current']}\n{asked}"
    found = level(asked, f"conservative({late}, ordered)", reading="ordered_by_end")
    assert found.satisfies("delayed"), f"{found}\n{found.why}\n{asked}"
    mixed = level(asked, f"hybrid(A=conservative, C=conservative, {late})")
    assert mixed.complete, f"{mixed.why}\n{asked}"
    # what becomes uncertain again is withdrawn until it is certain
    assert mixed.eventually_valid or "still a match" in mixed.why["eventually_valid"], f"{mixed.why}\n{asked}"
    full = level(in_order(asked), "in-order")
    assert has(full, "full"), f"{full.why}\n{in_order(asked)}"


@pytest.mark.parametrize("number", range(QUICK))
def test_every_strategy_has_its_level(number: int) -> None:
    check_levels(f"level {number}")


@pytest.mark.slow
def test_every_strategy_has_its_level_at_length() -> None:
    for number in range(examples(MORE // 2)):
        check_levels(f"level at length {number}")


NEGATED = "EVENT SEQ(A a, !C c, B b) WITHIN 10"
LATE = "a1 b5 b7 c3 b4"  # c3 refutes two answers, b4 comes behind them
WITNESSES = [
    # strategy, stream, a property that it lacks
    ("slack(4)", LATE, "immediate"),
    ("slack(4)", "a1 b5 f20", "in_time"),
    ("conservative", "a1 b8 @C>9 b4", "ordered"),
    ("conservative", "a1 b8 @C>9 b4", "ordered_by_end"),
    ("conservative", LATE, "immediate"),
    ("conservative(4)", "a1 b5 f9", "in_time"),
    ("aggressive", LATE, "permanently_valid"),
    ("aggressive", "a1 b8 b4", "ordered"),
    ("hybrid(A=conservative)", LATE, "permanently_valid"),
    ("hybrid(C=conservative)", LATE, "immediate"),
    ("in-order", LATE, "complete"),  # of all events; of those that it accepted it is
    ("in-order", "b5 a1", "complete"),
]


def asked_of(text: str, stream: str) -> Asked:
    items = history(stream)
    return Asked(parse(text), items, schema_of(events_of(items)))


@pytest.mark.parametrize(("order", "stream", "lacking"), WITNESSES)
def test_what_the_table_denies_has_a_witness(order: str, stream: str, lacking: str) -> None:
    asked = asked_of(NEGATED if order != "in-order" or stream == LATE else "EVENT SEQ(A a, B b)", stream)
    done = asked.run(order)
    found = classify(asked.query, asked.items, done.log)  # nothing is excused
    assert not getattr(found, lacking), found


def test_each_witness_is_no_more_than_that() -> None:
    """The same stream, the events that were set aside excused: the level is the one that was promised."""
    for order, stream, _ in WITNESSES:
        asked = asked_of(NEGATED, stream)
        name = parse_strategy(order, asked.schema).level
        found = level(asked, order)
        if order == "in-order":
            assert found.complete and found.ordered_by_release
        elif name == "eventually valid and complete":
            assert found.eventually_valid and found.complete
        else:
            assert found.satisfies(name), f"{order} {stream}: {found}"


def test_held_answers_can_leave_in_order() -> None:
    asked = asked_of(NEGATED, "a1 b8 b4 @C>3 b3 @C>9 a9 b14 @*>30")
    assert not level(asked, "conservative", reading="ordered").ordered
    found = level(asked, "conservative(ordered)", reading="ordered")
    assert found.satisfies("delayed"), found.why


# --- broken promises -----------------------------------------------------------------------------------------------


def theft(order: str, **given: Any) -> Session:
    return tocsin.query(NEGATED).stream(order=order, jit=False, **given)


def event(type: str, time: int, source: str | None = None, **attrs: Any) -> dict[str, Any]:
    return {"type": type, "time": time, **({} if source is None else {"source": source}), **attrs}


@pytest.mark.parametrize("order", ["conservative", "aggressive", "slack(5)", "hybrid(C=conservative)", "in-order"])
def test_a_broken_promise_is_counted_set_aside_and_told_once(order: str) -> None:
    session = theft(order, source="source")
    session.push([event("A", 1, "till"), event("B", 8, "door")])
    session.promise("C", 7, source="till")
    with pytest.warns(TocsinWarning, match=r"source 'till' sends events of type C.*set aside") as caught:
        session.push([event("A", 8, "door"), event("C", 3, "till"), event("C", 9, "till")])
    assert len(caught) == 1
    assert session.late == [1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        session.push([event("C", 4, "till")])  # said already
    assert session.late == [0]
    assert session.counters["broken"] == 2
    assert session.counters["late"] == 2


def test_each_source_and_type_is_told_of() -> None:
    session = theft("conservative", source="source")
    session.push([event("A", 1, "s1"), event("B", 8, "s2")])
    session.promise(None, 7)
    with pytest.warns(TocsinWarning) as caught:
        session.push([event("C", 3, "s1"), event("C", 4, "s2"), event("A", 2, "s1"), event("C", 5, "s1")])
    texts = sorted(str(each.message) for each in caught)
    assert [("s1" in text, "type A" in text) for text in texts] == [(True, True), (True, False), (False, False)]
    assert session.counters["broken"] == 4


def test_a_broken_promise_of_nobody_in_particular() -> None:
    session = theft("conservative")
    session.push([event("A", 1), event("B", 8)])
    assert len(session.promise("C", 7)) == 1
    with pytest.warns(TocsinWarning, match="somebody sends events of type C"):
        assert len(session.push(event("C", 3))) == 0
    assert session.late == [0]


def test_a_broken_promise_can_end_the_run() -> None:
    session = theft("conservative(broken=raise)", source="source")
    session.push([event("A", 1, "s1"), event("B", 8, "s1")])
    session.promise("C", 7, source="s1")
    with pytest.raises(InputError, match="source 's1' broke a promise: an event C ends at 3") as caught:
        session.push([event("C", 3, "s1")])
    assert caught.value.hint and "after 7" in str(caught.value)


def test_a_broken_promise_can_be_accepted_and_corrected() -> None:
    session = theft("aggressive(broken=accept)")
    session.push([event("A", 1), event("B", 8)])
    session.promise("C", 5)
    with pytest.warns(TocsinWarning, match="taken in"):
        found = list(session.push(event("C", 3)))
    assert [match["op"] for match in found] == [-1]
    assert session.late == [] and session.counters["late"] == 0
    assert parse_strategy("conservative(broken=accept)", Schema()).corrects


def test_promises_that_say_nothing_new_are_counted() -> None:
    session = theft("conservative")
    session.push([event("A", 1), event("B", 8)])
    assert len(session.promise("C", 4)) == 0
    assert len(session.promise("C", 2)) == 0
    assert len(session.promise("Unknown", 50)) == 0
    assert len(session.promise("C", 7)) == 1
    known = session._graph.intake.guarantees  # type: ignore[union-attr]
    assert (known.backwards, known.unknown) == (1, 1)


def test_promises_before_the_first_event() -> None:
    for declared in ({"A": {}, "B": {}, "C": {}}, None):
        session = theft("conservative", schema=declared)
        assert len(session.promise("C", 20)) == 0
        with pytest.warns(TocsinWarning, match="type C"):
            session.push(event("C", 5))
        assert session.late == [0]
        assert len(session.push([event("A", 1), event("B", 8)])) == 1


def test_sources_that_are_named_in_advance_are_waited_for() -> None:
    rows = [event("A", 1, "s1"), event("B", 8, "s1")]
    alone, named = theft("conservative", source="source"), theft("conservative", source="source", sources=["s1", "s2"])
    for session in (alone, named):
        session.push(rows)
    assert len(alone.promise("C", 7, source="s1")) == 1
    assert len(named.promise("C", 7, source="s1")) == 0
    assert len(named.promise("C", 7, source="s2")) == 1
    # without that, one that shows itself too late is bound by what was concluded
    with pytest.warns(TocsinWarning, match="source 's2'"):
        alone.push([event("C", 3, "s2")])
    assert alone.late == [0]


def test_sources_that_were_seen_before_the_first_promise_are_waited_for() -> None:
    session = theft("conservative", source="device")
    session.push([{"type": "A", "time": 1, "device": 1}, {"type": "B", "time": 8, "device": 2}])
    assert len(session.promise("C", 7, source="1")) == 0
    assert len(session.promise("C", 7, source="2")) == 1


def test_a_column_called_source_is_an_attribute_until_it_is_declared() -> None:
    session = theft("conservative")
    session.push([event("A", 1, "s1"), event("B", 8, "s2")])
    assert len(session.promise("C", 7)) == 1


# --- sessions ------------------------------------------------------------------------------------------------------

ORDERS = (
    "in-order", "slack(6)", "slack(3 events)", "slack(adaptive 0.8)", "conservative", "conservative(6)", "aggressive",
    "aggressive(6)", "aggressive(6, trailing=immediate)", "hybrid(C=conservative, 6)", "hybrid(B=conservative)",
)  # fmt: skip
TEXTS = (
    "EVENT SEQ(A a, !C c, B b) WHERE [id] WITHIN 8",
    "EVENT SEQ(A a, B b, !(C c : c.v > 1)) WHERE [id] WITHIN 6",
    "EVENT SEQ(A a, B+ b) WHERE sum(b.v) > 2 WITHIN 9",
    "QUERY P EVENT SEQ(A a, !C c, B b) WITHIN 5 SELECT b.v AS v; EVENT SEQ(P p, D d) WHERE p.v > 0 WITHIN 12",
)


def stream_of(seed: str) -> list[Item]:
    """Rows that learn: `id` is there from the beginning, `v` comes later, `w` later still, and nobody asks for it."""
    random = Random(seed)
    events = []
    for number, time in enumerate(sorted(random.choices(range(16), k=14))):
        attrs: dict[str, Any] = {"id": random.choice((1, 1, 2))}
        attrs |= {"v": random.choice((0, 1, 2, 3))} if number > 3 else {}
        attrs |= {"w": 0.5} if number > 8 else {}
        events.append(Event(random.choice("AAABBBCD"), time, time, f"e{number}", attrs))
    return disordered(events, random, most=6, promises=0.2)


def row(item: Event) -> dict[str, Any]:
    return {"type": item.type, "time": item.end, "eid": item.eid, **item.attrs}


def opened(text: str, order: str, **given: Any) -> Session:
    return tocsin.query(text).stream(order=order, jit=False, eid="eid", **given)


def told(found: Any) -> Counter[tuple[int, str]]:
    return Counter((match["op"], match["match_id"]) for match in found)


def heard(session: Session, item: Item) -> Counter[tuple[int, str]]:
    if isinstance(item, Promise):
        return told(session.promise(item.type, item.time, source=item.source))
    assert isinstance(item, Event)
    return told(session.push(row(item)))


def declared() -> dict[str, dict[str, str]]:
    return {type: {"id": "int", "v": "int", "w": "float"} for type in "ABCD"}


def check_sessions(text: str, order: str, seed: str, *, swings: bool = False) -> int:
    """A session that knows the schema, one that learns it, one that is also saved at every step; how much they say."""
    items = stream_of(seed)
    known, learning, saved = opened(text, order, schema=declared()), opened(text, order), opened(text, order)
    total: Counter[tuple[int, str]] = Counter()
    for place, item in enumerate(items):
        expected = heard(known, item) + (swung(known, place) if swings else Counter())
        total += expected
        saved = opened(text, order, state=saved.save())
        for other in (learning, saved):
            found = heard(other, item) + (swung(other, place) if swings else Counter())
            assert found == expected, f"{item}\n{items}"
            assert other.late == known.late or isinstance(item, Promise)
    expected = told(known.close())
    assert [told(other.close()) for other in (learning, saved)] == [expected] * 2
    assert [counted(other) for other in (learning, saved)] == [counted(known)] * 2
    total += expected
    assert swings or batched(text, order, items, 4) == total
    return sum(total.values())


@pytest.mark.parametrize("order", some(ORDERS, least=5))
def test_a_session_learns_restarts_and_batches_without_a_trace(order: str) -> None:
    assert sum(check_sessions(text, order, "session") for text in (TEXTS[0], TEXTS[3])) > 0


def swung(session: Session, place: int) -> Counter[tuple[int, str]]:
    """Have a session that chooses its strategy change its mind at every third item."""
    auto = None if session._graph is None else session._graph.stages[0].operator
    if not isinstance(auto, Auto) or auto.held == (place // 3 % 2 == 1):
        return Counter()
    changes = auto._switch(held=not auto.held)
    return Counter(
        pair for piece in changes for pair in zip(piece.op.tolist(), piece.match_id.to_pylist(), strict=True)
    )


@pytest.mark.slow
@pytest.mark.parametrize("text", TEXTS[:3])
def test_a_session_that_changes_its_mind_can_be_saved(text: str) -> None:
    assert sum(check_sessions(text, "auto(6)", f"auto {number}", swings=True) for number in range(2)) > 0


@pytest.mark.slow
@pytest.mark.parametrize("order", some(ORDERS, least=5))
@pytest.mark.parametrize("text", some(TEXTS))
def test_a_session_learns_restarts_and_batches_without_a_trace_at_length(text: str, order: str) -> None:
    assert sum(check_sessions(text, order, f"session {number}") for number in range(6)) > 0


def counted(session: Session) -> dict[str, int]:
    """What was seen; what a restart has forgotten is nobody's duplicate, and what is not yet known not relevant."""
    return {name: count for name, count in session.counters.items() if name not in ("duplicates", "relevant")}


def batched(text: str, order: str, items: Sequence[Item], most: int) -> Counter[tuple[int, str]]:
    """All that is told if events come several at a time, between the promises."""
    session, waiting, total = opened(text, order), [], Counter[tuple[int, str]]()
    for item in items:
        if isinstance(item, Event):
            waiting.append(row(item))
        if waiting and (len(waiting) == most or isinstance(item, Promise)):
            total += told(session.push(waiting))
            waiting = []
        if isinstance(item, Promise):
            total += heard(session, item)
    if waiting:
        total += told(session.push(waiting))
    return total + told(session.close())


@pytest.mark.parametrize("order", ["in-order", "slack(0)", "conservative(0)", "aggressive"])
@pytest.mark.parametrize(("value", "expected"), [(2, [20]), (0, [1, 20])])
def test_an_attribute_that_nobody_has_shown_yet_may_still_come(order: str, value: int, expected: list[int]) -> None:
    """An absence with a condition on it is not answered at once, as if the condition could never hold."""
    session = tocsin.query("EVENT SEQ(A a, !(C c : c.v > 1)) WITHIN 5").stream(order=order, jit=False)
    rows = [event("A", 1), event("C", 2, v=value), event("A", 20)]
    found = [match for each in rows for match in session.push(each)] + list(session.close())
    assert [(match["op"], match["a"]["start"]) for match in found] == [(1, time) for time in expected]


def test_a_state_is_taken_up_only_by_the_order_that_saved_it() -> None:
    session = opened(NEGATED, "slack(5)")
    session.push(row(Event("A", 1, 1, "x")))
    with pytest.raises(StateError, match="saved under order='slack") as caught:
        opened(NEGATED, "aggressive(5)", state=session.save())
    assert caught.value.hint
    assert len(opened(NEGATED, "slack(5)", state=session.save()).push([row(Event("B", 9, 9, "y"))])) == 0


def test_an_adaptive_slack_reports_how_long_it_is() -> None:
    session = opened("EVENT SEQ(A a, B b) WITHIN 50", "slack(adaptive)")
    for time in (10, 20, 15, 30, 22):
        session.push(row(Event("A", time, time, f"e{time}")))
    [sort] = session._graph.intake.inner  # type: ignore[union-attr]
    assert isinstance(sort, Sort) and sort.late == 8


def test_single_events_find_their_way_when_time_was_promised() -> None:
    """The short way for one event gives way to the long one, and back."""
    session = opened("EVENT SEQ(A a, !C c, B b) WITHIN 10", "conservative")
    for item in history("a1 b4 a5 b9"):
        assert len(session.push(row(item))) == 0  # type: ignore[arg-type]
    assert len(session.promise("C", 3)) == 1
    assert len(session.push(row(Event("B", 6, 6, "late")))) == 1  # a5 b6 has no gap
    assert len(session.promise("C", 20)) == 3
    assert len(session.push(row(Event("B", 3, 3, "later")))) == 1


# --- case files ----------------------------------------------------------------------------------------------------

FILES = sorted((Path(__file__).parent / "cases").rglob("*.case"))
ORDER_CASES = [case for path in FILES for case in read_cases(path) if "order" in case.options]


class Recording(EngineUnderTest):
    """The engine, and what it says at every step."""

    def __init__(self) -> None:
        super().__init__(jit=False)
        self.steps: list[Counter[Change]] = []

    def _steps(self, graph: QueryGraph, items: Sequence[Item], options: Any) -> Any:
        for changes in super()._steps(graph, items, options):
            last = [batch for batch in changes if batch.stage == len(graph.plans) - 1]
            self.steps.append(Counter(change for batch in last for change in batch.bindings()))
            yield changes


class Restarting(Recording):
    """The same, saved and taken up again after every step."""

    def _steps(self, graph: QueryGraph, items: Sequence[Item], options: Any) -> Any:
        for changes in super()._steps(graph, items, options):
            yield changes
            new = QueryGraph(graph.plans, graph.schema, graph.encoder.columns, jit=False, order=graph.order)
            new.restore(unpack(pack(graph.snapshot())))
            vars(graph).update(vars(new))


@pytest.mark.slow
@pytest.mark.parametrize("case", [case for case in ORDER_CASES if "end" not in case.options], ids=str)
def test_the_cases_hold_with_a_restart_at_every_step(case: Case) -> None:
    one, other = Recording(), Restarting()
    for engine in (one, other):
        engine(parse_all(case.query), history(case.stream), case.options)
    assert other.steps == one.steps


# --- what is owed --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "events", "missing"),
    [
        ("EVENT SEQ(A a, !C c, B b) WITHIN 10", "a1 b5", [{"C": 4}]),
        ("EVENT SEQ(A a, !C c, B b, !D d) WITHIN 10", "a1 b5", [{"C": 4, "D": 11}]),
        ("EVENT SEQ(!C c, A a, B b) WITHIN 10", "a3 b5", [{"C": 2}]),
        ("EVENT SEQ(A a, !SEQ(C c, !D d, E e), B b) WITHIN 10", "a1 b5", [{"C": 4, "D": 4, "E": 4}]),
        ("EVENT SEQ(A a, C+ c, B b) WITHIN 10", "a1 c2 b5", [{"C": 4}]),
        ("EVENT SEQ(A a, !C c, B b) WITHIN 10", "a1 b5 a6 b9", [{"C": 4}, {"C": 8}, {"C": 8}]),
        ("EVENT SEQ(A a, B b) WITHIN 10", "a1 b5", []),
        ("EVENT SEQ(A a, !C c, B b)", "a1 b2", []),
    ],
)
def test_what_an_answer_owes_settles_it(query: str, events: str, missing: list[dict[str, int]]) -> None:
    session = tocsin.query(query).stream(order="conservative", jit=False, eid="eid")
    session.push(events_of(history(events)))
    owed = session.debts()
    assert [debt["missing"] for debt in owed] == missing
    for type, time in sorted({(type, time) for debt in owed for type, time in debt["missing"].items()}):
        session.promise(type, time)
    assert session.debts() == []


def test_what_is_owed_is_enough() -> None:
    """After the promises that an answer needs, it is answered or has failed, whatever the query is like."""
    settled = 0
    for number in range(4 * QUICK):
        asked = drawn(f"debts {number}")
        run = asked.start("conservative")
        if asked.events:
            run.push(asked.events)
        while owed := debts(run.detector):
            settled += 1
            for type, time in owed[0].missing.items():
                run.promise(type, time)
            assert owed[0].missing, asked
            assert owed[0] not in debts(run.detector), asked
    assert settled > QUICK
