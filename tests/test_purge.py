"""What guarantees allow to forget is forgotten, and nothing else: the rules of the papers, and small state."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest

from tests.effort import examples
from tocsin.engine.changes import QUIET, Changes
from tocsin.engine.detector import Detector
from tocsin.events import Event
from tocsin.lang.parser import parse
from tocsin.schema import Field, Kind, Schema
from tocsin.testing.agree import PLAIN, Bench, Trial
from tocsin.testing.harness import Harness
from tocsin.testing.modes import EVERY, Mode, driven
from tocsin.testing.notation import Promise, history
from tocsin.testing.oracle import Binding
from tocsin.testing.strategies import POINTS, SCHEMA, pair
from tocsin.testing.strategies import history as drawn_history

IDS = Schema(common={"id": Field("id", Kind.INT, nullable=False)}, open_types=True, intervals=False)
INTERVALS = Schema(common={"id": Field("id", Kind.INT, nullable=False)}, open_types=True, intervals=True)
Q = "EVENT SEQ(A a, B b, !C c, D d) WITHIN {}"


class Works:
    """A run, event by event; by default it holds its answers, and in any case it withdraws none."""

    def __init__(
        self, text: str, *, schema: Schema = IDS, jit: bool = False, held: bool = True, late: int | None = None
    ) -> None:
        order = "conservative" if held else "aggressive"
        self.harness = Harness(text, schema)
        self.driven = self.harness.start(order if late is None else f"{order}({late})", jit=jit)
        self.found: list[Binding] = []

    def push(self, event: Event) -> None:
        self._take(self.driven.push([event]))

    def promise(self, type: str | None, time: int) -> None:
        self._take(self.driven.promise(type, time))

    def end(self) -> None:
        self._take(self.driven.end())

    def _take(self, changes: Changes) -> None:
        for op, binding in changes.bindings():
            assert op > 0
            self.found.append(binding)

    def run(self, text: str) -> Works:
        for item in history(text):
            if isinstance(item, Promise):
                self.promise(item.type, item.time)
            elif isinstance(item, Event):
                self.push(with_id(item))
        return self

    @property
    def detector(self) -> Detector:
        return self.driven.detector

    @property
    def state(self) -> dict[str, str]:
        return self.driven.state

    def matches(self) -> list[str]:
        return [" ".join(eid for _, eids in binding for eid in eids) for binding in self.found]


def with_id(event: Event) -> Event:
    return replace(event, attrs={"id": 0, **event.attrs})


# --- the examples of the papers -------------------------------------------------------------------------------------


def test_g4_an_event_without_a_partner_goes_and_one_with_a_partner_stays() -> None:
    alone = Works(Q.format(7)).run("b1")
    assert alone.state["b"] == "b1"
    assert alone.run("@A>1").state["b"] == ""
    assert alone.driven.counters.purged_a1 == 1
    paired = Works(Q.format(7)).run("b1 a0 @A>1")
    assert (paired.state["a"], paired.state["b"]) == ("a0", "b1")
    assert paired.run("d4").state["held"] == "(a0 b1 d4)"
    assert paired.run("@C>3").matches() == ["a0 b1 d4"]


def test_g5_partners_must_stand_in_the_order_of_the_query() -> None:
    works = Works("EVENT SEQ(B b1, A a, B b2, D d, F f) WITHIN 10").run("a3 b6 a7 d10 b11 f17 b4")
    works.run("@B>17")
    assert (works.state["a"], works.state["b2"]) == ("a7", "b6 b11")
    works.run("@D>17")
    expected = {"b1": "b4 b11", "a": "", "b2": "b6 b11", "d": "d10", "f": ""}
    assert {name: works.state[name] for name in expected} == expected
    assert works.driven.counters.purged_a2 > 0
    with_d15 = Works("EVENT SEQ(B b1, A a, B b2, D d, F f) WITHIN 10").run("a3 b6 a7 d10 b11 d15 f17 b4 @B>17 @D>17")
    assert with_d15.state["a"] == "a7"


def test_g6_held_answers_and_what_each_guarantee_lets_go() -> None:
    works = Works(Q.format(10)).run("a3 c5 b6 a7 d10")
    assert works.state["held"] == "(a3 b6 d10)"
    works.run("b11 c13 d15 d17 @C>8")
    assert (works.state["held"], works.state["C >"], works.matches()) == ("(a3 b6 d10)", "8", [])
    assert works.run("@C>10").matches() == ["a3 b6 d10"]
    assert works.run("d8").matches() == ["a3 b6 d10", "a3 b6 d8"]
    works.run("@C>17 @A>17")
    stored = {"a": "a3 a7", "b": "b6 b11", "c": "c5 c13", "d": "d8 d10 d15 d17", "held": ""}
    assert {name: works.state[name] for name in stored} == stored
    works.run("@B>17")
    stored = {"a": "a3 a7", "b": "b6 b11", "c": "c13", "d": ""}
    assert {name: works.state[name] for name in stored} == stored
    assert works.driven.counters.purged_neg == 1
    works.run("@D>17")
    assert not any(works.state[name] for name in "abcd")
    assert works.driven.counters.live == works.detector.payload.count == 0


def test_g14_a_match_that_is_complete_goes_too() -> None:
    works = Works("EVENT SEQ(A a, B b) WITHIN 5").run("a1 b2 @A>100")
    assert (works.state["a"], works.state["b"]) == ("a1", "")
    works.run("b2")  # delivered twice: it is still known
    assert works.matches() == ["a1 b2"] and works.driven.counters.duplicates == 1
    works.run("@B>100")
    assert (works.state["a"], works.state["b"]) == ("", "")
    assert works.driven.counters.live == 0


def test_g4_9_with_a_known_delay_state_is_never_larger_than_what_the_window_needs() -> None:
    """Li 2010, Algorithm 9 drops x when x + W + K < clock; ours drops as much, and what has no partner besides."""
    works, seen = Works("EVENT SEQ(A a, B b, D d) WITHIN 7", late=2), []
    for event in history("b1 a3 c5 b6 a7 d10 b11 c13 d15 f16 f21"):
        assert isinstance(event, Event)
        works.push(with_id(event))
        seen.append(event)
        kept = {eid for name in "abd" for eid in works.state[name].split()}
        assert kept <= {each.eid for each in seen if each.type in "ABD" and each.end + 7 + 2 >= event.end}
        if event.eid == "b11":
            assert kept >= {"a3", "b6", "a7", "b11"}
    assert works.matches() == ["a3 b6 d10"]
    assert works.state["a"] == works.state["b"] == ""


def test_doomed_candidates_are_not_shown() -> None:
    """c9 rejects what is held; nobody need notice before its time comes, but people look."""
    works = Works(Q.format(10)).run("a3 b6 d10")
    assert works.state["held"] == "(a3 b6 d10)"
    assert works.run("c9").state["held"] == ""
    assert works.driven.counters.held_pruned == 1
    assert works.run("@C>40").matches() == []


# --- what each rule must not do -------------------------------------------------------------------------------------


def test_what_a_held_answer_contains_or_is_judged_by_stays() -> None:
    works = Works("EVENT SEQ(A a, !SEQ(C c, D d), B b) WITHIN 10").run("a1 c2 b5 @A>50 @B>50")
    assert works.state == {"a": "a1", "b": "b5", "c": "c2", "d": "", "held": "(a1 b5)", "A >": "50", "B >": "50"}
    works.run("d3 @*>50")
    assert works.matches() == [] and works.driven.counters.live == 0


def test_members_of_a_set_stay_while_it_may_grow() -> None:
    works = Works("EVENT SEQ(A a, B+ b, D d) WITHIN 10").run("a1 b2 d5 @A>50 @D>50")
    assert (works.state["b"], works.state["held"]) == ("b2", "(a1 d5)")
    assert works.run("b3 @B>4").matches() == ["a1 b2 b3 d5"]


def test_aggressive_answers_keep_what_may_correct_them() -> None:
    """c5 has rejected the match; if it were forgotten, the late c4 would withdraw what was never said."""
    works = Works("EVENT SEQ(!C c, A a, B b) WITHIN 10", held=False).run("c5 a6 b7 @A>60 @B>60")
    assert works.state["c"] == "c5"
    works.run("c4")
    assert works.matches() == []


def test_without_negation_it_does_not_matter_whether_answers_are_held() -> None:
    works = Works("EVENT SEQ(A a, B b) WITHIN 5", held=False).run("b1 b9 a8 @A>3")
    assert (works.state["a"], works.state["b"]) == ("a8", "b9")


def test_after_a_withdrawal_only_the_common_horizon_counts() -> None:
    works = Works("EVENT SEQ(A a, B b) WITHIN 5").run("a1 a2 b3")
    gone = works.driven.withdraw([Event("A", 1, 1, "a1", {"id": 0})]).bindings()
    assert [(op, *(eids for _, eids in binding)) for op, binding in gone] == [(-1, ("a1",), ("b3",))]
    assert works.run("@A>100").state["b"] == "b3"
    works.run("@B>100")
    assert works.driven.counters.live == 0


def test_intervals_are_bounded_by_both_ends() -> None:
    works = Works("EVENT SEQ(A a, B b) WITHIN 10", schema=INTERVALS).run("a[1,4] a[2,20] b[6,8]")
    assert works.run("@B>10").state["a"] == "a[1,4]"  # [2,20] is longer than the window: nothing fits behind it
    assert works.run("@A>4").state["b"] == "b[6,8]"
    assert works.run("@A>5").state["b"] == ""  # nothing that ends before 6 can come
    assert works.run("@B>11").state["a"] == ""


def test_keys_are_looked_at_one_by_one() -> None:
    works = Works("EVENT SEQ(A a, B b) WHERE [id] WITHIN 10").run("a1{id=1} b3{id=1} b4{id=2} @A>5")
    assert (works.state["a"], works.state["b"]) == ("a1", "")  # b3 is spent, b4 has no partner
    assert works.driven.counters.live == 2
    far = Works("EVENT SEQ(A a, B b, C c) WHERE a.id = b.id WITHIN 10").run("a1{id=1} b3{id=1} c4 @A>9 @B>9")
    assert far.state["c"] == ""  # all its partners are known; which key they have does not matter
    assert far.matches() == ["a1 b3 c4"]


# --- state stays small ----------------------------------------------------------------------------------------------


def ticking(types: str, count: int, rare: str = "") -> Iterator[Event]:
    random = Random(types)
    for time in range(count):
        type = rare if rare and time % 500 == 499 else random.choice(types)
        yield Event(type, time, time, f"{type}{time}", {"id": 0})


@pytest.mark.parametrize(("types", "rare"), [("AB", "D"), ("BD", "A"), ("ABD", "")])
def test_state_is_bounded_when_a_type_is_rare_but_promised(types: str, rare: str) -> None:
    """The lazy purge of the dissertation waits for the last type, and leaks without it (A31)."""
    works = Works("EVENT SEQ(A a, B b, D d) WITHIN 10")
    for event in ticking(types, 1500, rare):
        works.push(event)
        if event.end % 10 == 0:
            works.promise(None, event.end - 5)
    counters = works.driven.counters
    assert counters.most_live < 200 and works.detector.payload.count < 400
    times = {type: [event.end for event in ticking(types, 1500, rare) if event.type == type] for type in "ABD"}
    expected = sum(a < b < d for a in times["A"] for d in times["D"] if 0 < d - a <= 10 for b in times["B"])
    assert len(works.found) == expected


def test_state_is_bounded_when_a_silent_type_never_promises() -> None:
    """No A comes and none is promised: the others find no partner, but one might come. B and C go by each other."""
    works = Works("EVENT SEQ(A a, B b, C c) WITHIN 10")
    for event in ticking("B", 1500):
        works.push(event)
        works.promise("B", event.end - 1)
        works.promise("C", event.end - 1)
    assert works.driven.counters.most_live < 200  # no C follows any of them
    assert works.driven.counters.purged_a1 > 1200
    assert works.detector.payload.count < 400, "rows are kept although the horizon stands still"


def test_single_events_are_forgotten_in_the_same_way() -> None:
    """Where something is guaranteed no single event goes the short way through the graph: the detector is asked."""
    works = Works("EVENT SEQ(A a, B b, C c) WITHIN 10")
    works.push(Event("B", 0, 0, "b0", {"id": 0}))
    graph = works.driven.graph
    for event in list(ticking("B", 1500))[1:]:
        one = works.driven.encoded_one({"type": event.type, "start": event.end, "end": event.end, "eid": event.eid})
        assert works.detector.push(one) is QUIET
        works.detector.push(graph.guarantee("C", event.end - 1))
    assert works.driven.counters.live < 200 and works.detector.payload.count < 500


# --- nothing is lost ------------------------------------------------------------------------------------------------

TIDY = [trial for trial in PLAIN if trial.mode.tidy]
ROUNDS = (
    Trial("one by one", Mode("conservative", batch=1, promises=21, tidy=True), shuffle=21, twice=True),
    Trial("in pairs, restarted", Mode("conservative", batch=2, promises=22, tidy=True, restart=EVERY), 22),
    Trial("aggressive", Mode("aggressive", batch=1, promises=23, tidy=True), shuffle=23, twice=True),
)


@pytest.mark.parametrize("number", range(examples(25, least=6)))
def test_random_queries_answer_as_if_nothing_were_forgotten(number: int) -> None:
    """Every trial ends with empty buffers and no rows: `testing.modes` looks."""
    query, events = pair(Random(f"purge {number}"))
    assert Bench(query, SCHEMA).disagreement(events, [*TIDY, *ROUNDS]) is None


def test_branches_that_hold_and_branches_that_do_not_restart_together() -> None:
    events = [event for event in history("a1 c2 b3 a5 c4 a9 b7") if isinstance(event, Event)]
    trial = next(each for each in PLAIN if each.name == "some held, restart")
    for seed in range(6):
        random = Trial(trial.name, replace(trial.mode, held=seed, promises=seed), shuffle=seed)
        assert Bench(parse("EVENT OR(B b, SEQ(!C c, A a)) WITHIN 4"), IDS).disagreement(events, [random]) is None


LONG = [
    "EVENT SEQ(A a, !C c, B b) WITHIN 4",
    "EVENT SEQ(!C c, A a, B b) WITHIN 4",
    "EVENT SEQ(A a, B b, !C c) WITHIN 4",
    "EVENT SEQ(!C c, A a, !D d) WITHIN 3",
    "EVENT AND(A a, B b, !C c) WITHIN 3",
    "EVENT SEQ(A a, B+ b, D d) WITHIN 4",
    "EVENT SEQ(A a, !SEQ(C c, !D d), B b) WITHIN 5",
    "EVENT SEQ(A a, !SEQ(C c, D d), B b, !A x) WHERE [id] WITHIN 5",
    "EVENT EXISTS b : SEQ(A a, AND(B b, C c)) WITHIN 5",
]


def arrivals(random: Random, count: int, delay: int) -> list[Event]:
    late = [(time + random.randint(0, delay), time, random.choice("ABCD")) for time in range(count)]
    return [Event(type, time, time, f"{type}{time}", {"id": random.randint(0, 1)}) for _, time, type in sorted(late)]


def long_run(text: str, seed: int, *, jit: bool) -> tuple[list[Binding], Detector]:
    """Some hundred events with guarantees type by type, swept whenever it is worth it."""
    random, works = Random(f"{text} {seed}"), Works(text, jit=jit)
    events = arrivals(random, 200, 6)
    for place, event in enumerate(events):
        works.push(event)
        if random.random() < 0.4:
            type = random.choice("ABCD")
            works.promise(
                type, min((later.end for later in events[place + 1 :] if later.type == type), default=999) - 1
            )
        if random.random() < 0.02:
            works.push(events[random.randint(max(0, place - 3), place)])
    works.end()
    expected = works.harness.expected(events).keys()
    assert set(works.found) == expected and len(works.found) == len(expected)
    return works.found, works.detector


@pytest.mark.filterwarnings("ignore:somebody sends events")  # a copy may come behind a guarantee
@pytest.mark.parametrize("text", LONG)
def test_long_runs_give_every_match_once_and_stay_small(text: str) -> None:
    _, detector = long_run(text, 0, jit=False)
    counters = detector.counters
    assert counters.most_live < 150
    assert counters.live == counters.waiting == detector.payload.count == 0
    assert counters.purged_a1 + counters.purged_a2 + counters.purged_p3 + counters.purged_neg > 0
    assert counters.held == counters.released + counters.held_pruned


@pytest.mark.slow
@pytest.mark.jit
@pytest.mark.filterwarnings("ignore:somebody sends events")
@pytest.mark.parametrize("text", [LONG[0], LONG[7]])
def test_compiled_and_plain_purge_alike(text: str) -> None:
    (found, compiled), (again, plain) = long_run(text, 1, jit=True), long_run(text, 1, jit=False)
    assert found == again and compiled.compiled
    assert compiled.counters.live == plain.counters.live == 0


@pytest.mark.jit
def test_compiled_and_plain_show_the_same_state_after_every_step() -> None:
    text = "EVENT SEQ(A a, B b, !C c, D d) WITHIN 10"
    compiled, plain = Works(text, jit=True), Works(text)
    for item in history("a3 c5 b6 a7 d10 b11 c13 d15 d17 @C>9 d8 @C>17 @A>17 @B>17 @D>17"):
        for works in (compiled, plain):
            if isinstance(item, Promise):
                works.promise(item.type, item.time)
            elif isinstance(item, Event):
                works.push(with_id(item))
        assert compiled.state == plain.state
    assert compiled.detector.counters == plain.detector.counters


# --- counters, and the ledger ---------------------------------------------------------------------------------------


def test_counters_tell_what_happened() -> None:
    works = Works(Q.format(10)).run("a3 b6 d10 a7 b8 c9 d20 @*>15")
    counters = works.driven.counters
    assert (counters.late_positive, counters.late_negative) == (2, 1)  # a7 and b8; c9
    assert (counters.held, counters.released, counters.held_pruned) == (3, 0, 3)
    assert (counters.matches, counters.retracted) == (0, 0)
    corrected = Works("EVENT SEQ(A a, !C c, B b) WITHIN 10", held=False)
    corrected.driven.feed(with_id(event) for event in history("a1 b5 c3") if isinstance(event, Event))
    counters = corrected.driven.counters
    assert (counters.matches, counters.retracted, counters.late_negative) == (1, 1, 1)


def test_one_push_says_at_most_one_thing_about_a_binding() -> None:
    """A hidden repetition grows: the same visible match has another justification, and that is no news."""
    query, events = pair(Random(389))
    shuffled = Trial("shuffled", Mode("aggressive", batch=1), shuffle=1).arranged(events)
    bench = Bench(query, SCHEMA)
    log = driven(bench, shuffled, Mode("aggressive", batch=1)).changes
    for (op, binding), (next_op, next_binding) in pairwise(log):
        assert binding != next_binding or (op, next_op) != (-1, 1)
    assert bench.disagreement(events) is None


# --- absences that share their events ---------------------------------------------------------------------------------

SHARING = [
    "SEQ(A a, NEXT B b, NEXT C c) WITHIN 6",
    "SEQ(A a, NEXT B b, NEXT C c) WHERE [id]",
    "SEQ(A a, !C x, B b, !C y, D d)",
    "SEQ(A a, !C x, B b, !C y) WITHIN 5",
    "SEQ(!C x, A a, B b, !C y) WITHIN 5",
    "AND(SEQ(A a, !C x, B b), SEQ(D d, !C y, E e)) WITHIN 8",
    "SEQ(A a, !E x FOR 2, B b, !E y) WITHIN 6",
]
SWEPT = [
    Trial(f"{order}, {seed}", Mode(order, batch=1, promises=seed, tidy=True, held=seed), shuffle=seed)
    for seed in range(100, 106)
    for order in ("conservative", "aggressive", "hybrid")
]


def test_an_event_that_several_absences_look_at_stays_as_long_as_any_of_them_needs_it() -> None:
    for number in range(examples(350, least=28)):
        random = Random(f"shared {number}")
        query = parse(f"EVENT {SHARING[number % len(SHARING)]}")
        events = drawn_history(random, query, intervals=number % 2 == 0)
        bench = Bench(query, SCHEMA if number % 2 == 0 else POINTS)
        found = bench.disagreement(events, random.sample(SWEPT, 4))
        assert found is None, (number, str(query), events, found)
