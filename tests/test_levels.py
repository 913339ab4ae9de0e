"""Levels of correctness: hand-made logs of the papers, and what spoiling a log does to the verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random

import pytest

from tocsin.errors import InputError
from tocsin.events import BEGINNING
from tocsin.lang.parser import parse
from tocsin.testing import strategies
from tocsin.testing.disorder import disordered, smallest_sufficient_slack
from tocsin.testing.harness import Harness
from tocsin.testing.levels import LEVELS, Change, Level, classify, in_words, pushes, spelled_item
from tocsin.testing.modes import Mode, driven
from tocsin.testing.notation import Item, Promise, events_of, find, history
from tocsin.testing.oracle import Binding, matches
from tocsin.testing.oracle_parts import with_names

Q4 = "EVENT SEQ(A a, B b, !C c, D d) WITHIN 10"
POSITIVE = "EVENT SEQ(A a, B b, D d) WITHIN 10"
S0 = "b1 a3 c5 b6 a7 d10 b11 c13 d15 f16 f17"
END = "end"


def binding_of(query: str, items: Sequence[Item], words: str) -> Binding:
    """The binding that the events of a line make, in the order of the positive leaves."""
    leaves = strategies.positive_leaves(with_names(parse(query)).pattern)
    found = [find(word, events_of(items)) for word in words.split()]
    return tuple((str(leaf.var), (event.eid,)) for leaf, event in zip(leaves, found, strict=True) if event is not None)


def logged(query: str, items: Sequence[Item], told: Mapping[str, str]) -> list[list[Change]]:
    """A log from lines: at the item so spelled (or at the end) these changes, several separated by commas."""
    log: list[list[Change]] = [[] for _ in range(len(items) + 1)]
    places = {spelled_item(item): at for at, item in enumerate(items)} | {END: len(items)}
    for place, lines in told.items():
        for line in lines.split(","):
            sign, words = line.split(maxsplit=1)
            log[places[place]].append(({"+": 1, "-": -1}[sign], binding_of(query, items, words)))
    return log


def level(query: str, stream: str, told: Mapping[str, str], **options: str) -> Level:
    items = history(stream)
    return classify(query, items, logged(query, items, told), **options)  # type: ignore[arg-type]


def holding(found: Level) -> set[str]:
    """The names of the properties that hold, of the five of the papers and `current`."""
    names = ("ordered", "in_time", "immediate", "permanently_valid", "eventually_valid", "complete", "current")
    return {name for name in names if getattr(found, name)}


EVERYTHING = {"ordered", "in_time", "immediate", "permanently_valid", "eventually_valid", "complete", "current"}


# --- goldens of the papers -----------------------------------------------------------------------------------------


def test_g4_1_ordered_input_is_fully_correct() -> None:
    found = level(Q4, S0, {"d10": "+ a3 b6 d10"})
    assert holding(found) == EVERYTHING
    assert found.name == "full"
    assert found.names == tuple(LEVELS)
    assert found.reason is None and found.why == {}


def test_g4_4_without_slack_the_answer_is_wrong_for_ever() -> None:
    found = level(Q4, S0 + " c9", {"d10": "+ a3 b6 d10"})
    assert holding(found) == {"ordered", "in_time", "immediate"}
    assert found.name == "none" and found.names == ()
    assert found.why["permanently_valid"] == "step 12 (c9): a3 b6 d10, answered at step 6 (d10), is no match any more"
    assert found.why["eventually_valid"] == "a3 b6 d10 is no match at the end, but was never withdrawn"
    assert found.why["complete"] == "a3 b6 d10 stands at the end and is no match"
    assert found.why["current"] == "step 12 (c9): a3 b6 d10 stands and is no match"


def test_g4_4_aggressive_converges() -> None:
    found = level(Q4, S0 + " c9", {"d10": "+ a3 b6 d10", "c9": "- a3 b6 d10"})
    assert holding(found) == EVERYTHING - {"permanently_valid"}
    assert found.names == ("convergent", "convergent unsorted")  # a single answer is always in order
    assert found.why["permanently_valid"] == "step 12 (c9): a3 b6 d10 is withdrawn"


def test_g4_4_whoever_waits_says_nothing() -> None:
    found = level(Q4, S0 + " c9", {})
    assert holding(found) == {"ordered", "in_time", "permanently_valid", "eventually_valid", "complete"}
    assert found.name == "delayed"
    assert found.why["immediate"] == "step 6 (d10): a3 b6 d10 is known by now but not answered"


def test_g4_10_slack_releases_when_the_gap_is_closed() -> None:
    """K = 6: the candidate of d10 leaves at f16."""
    found = level(Q4, S0, {"f16": "+ a3 b6 d10"})
    assert found.name == "delayed"
    assert not found.in_time and not found.immediate and not found.current
    assert found.why["in_time"] == "the last event of a3 b6 d10 came at step 6 (d10), the answer at step 10 (f16)"


@pytest.mark.parametrize(("told", "ordered"), [("+ a3 b8 d10, + a7 b8 d10", True), ("+ a7 b8 d10, + a3 b8 d10", False)])
def test_g4_16_ordered_by_all_ends_last_event_first(told: str, ordered: bool) -> None:
    """(10, 8, 3) before (10, 8, 7); for the ends alone both are in order."""
    found = level(Q4, S0 + " b8", {"d10": "+ a3 b6 d10", "b8": told})
    assert found.ordered is ordered
    assert found.ordered_by_end
    assert found.current and found.permanently_valid  # nothing was withdrawn, so nothing was wrong
    assert found.name == ("full" if ordered else "delayed unsorted")
    if not ordered:
        words = "a3 b8 d10 (ends [10, 8, 3]) comes after a7 b8 d10 (ends [10, 8, 7])"
        assert found.why["ordered"] == f"step 12 (b8): {words}"


def test_g4_16_equal_keys_are_in_order() -> None:
    items = history("a1#x a1#y b2")
    one, two = (((("a", (eid,)), ("b", ("b2",)))) for eid in "xy")
    for pair in ((one, two), (two, one)):
        assert classify("EVENT SEQ(A a, B b)", items, [[], [], [(1, binding) for binding in pair], []]).name == "full"


def test_the_order_that_names_a_level_can_be_chosen() -> None:
    told = {"d10": "+ a3 b6 d10", "b8": "+ a7 b8 d10, + a3 b8 d10"}
    assert level(Q4, S0 + " b8", told).name == "delayed unsorted"
    assert level(Q4, S0 + " b8", told, order="ordered_by_end").name == "full"


@pytest.mark.parametrize(("place", "in_time"), [("b8", True), ("d2", False), (END, False)])
def test_g4_17_in_time_is_with_the_last_event_to_arrive(place: str, in_time: bool) -> None:
    told = {"d10": "+ a3 b6 d10", "d15": "+ a7 b11 d15", place: "+ a3 b8 d10, + a7 b8 d10, + a7 b8 d15"}
    found = level(POSITIVE, S0 + " b8 d2", told)
    assert found.in_time is found.immediate is found.current is in_time
    assert found.complete and found.permanently_valid and not found.ordered
    assert found.name == "delayed unsorted"
    assert found.satisfies("convergent unsorted") is in_time


def test_g6_conservative_answers_when_promises_allow() -> None:
    stream = "a3 c5 b6 a7 d10 b11 c13 d15 d17 @C>9 @C>10 d8"
    found = level(Q4, stream, {"@C>10": "+ a3 b6 d10", "d8": "+ a3 b6 d8"})
    assert holding(found) == {"permanently_valid", "eventually_valid", "complete"}
    assert found.names == ("delayed unsorted",)
    assert found.why["ordered"].startswith("step 12 (d8): a3 b6 d8")


def test_g7_aggressive() -> None:
    query, stream = "EVENT SEQ(A a, !C c, B b) WITHIN 10", "a3 c5 b6 a7 d10 b11 c13 d15 d17 c9"
    found = level(query, stream, {"b11": "+ a7 b11", "c9": "- a7 b11"})
    assert found.current and found.satisfies("convergent unsorted") and not found.permanently_valid
    assert level(query, stream, {"b11": "+ a7 b11"}).name == "none"


def test_g9_k_slack() -> None:
    """Q, K = 8: f20 lets c9 d10 b11 go, in order, and c9 rejects; without c9 the answer comes there."""
    rest = "a3 c5 b6 a7 d10 b11 c13 d15 d17 {} f20 f26 f40"
    assert level(Q4, rest.format("c9"), {}).name == "delayed"
    found = level(Q4, rest.format(""), {"f20": "+ a3 b6 d10"})
    assert found.name == "delayed" and not found.immediate
    assert level(Q4, rest.format(""), {}).name == "none"


def test_g10_theft() -> None:
    query = "EVENT SEQ(S s, !C c, E e) WHERE s.id = c.id AND c.id = e.id WITHIN 300"
    stream = "s1{id=1} s2{id=2} c5{id=2} e9{id=1} e10{id=2} c7{id=1}"
    assert level(query, stream, {"e9": "+ s1 e9", "c7": "- s1 e9"}).current
    wrong = level(query, stream, {"e9": "+ s1 e9", "e10": "+ s1 e10", "c7": "- s1 e9"})
    assert wrong.why["eventually_valid"] == "step 5 (e10): s1 e10 is answered, but no match of what was received"


TRAILING = "EVENT SEQ(A a, B b, !C c) WITHIN 5"


@pytest.mark.parametrize(
    ("stream", "told"),
    [
        ("a1 b3 z7", {"z7": "+ a1 b3"}),
        ("a1 b3 z6", {END: "+ a1 b3"}),
        ("a1 b3 z6 c6 z7", {}),
        ("a1 b3 c5 z8", {}),
        ("a1 b3 b8 c5", {"b8": "+ a1 b3", "c5": "- a1 b3"}),
        ("a1 z9 b3", {"b3": "+ a1 b3"}),
    ],
)
def test_g11_an_absence_at_the_end_waits_for_its_window(stream: str, told: Mapping[str, str]) -> None:
    found = level(TRAILING, stream, told)
    assert found.current and found.satisfies("convergent unsorted")


def test_g11_too_soon_is_seen_when_an_event_refutes_it() -> None:
    found = level(TRAILING, "a1 b3 z4 c5 z8", {"b3": "+ a1 b3", "c5": "- a1 b3"})
    assert found.why["current"] == "step 2 (b3): a1 b3 stands too soon, step 4 (c5) refutes it"
    assert found.satisfies("convergent unsorted")
    assert level(TRAILING, "a1 b3 z4 c5 z8", {"b3": "+ a1 b3", "c5": "- a1 b3"}, trailing="immediate").current


def test_g11_promises_close_the_window_too() -> None:
    stream = "a1 b3 @C>5 @C>6 c7"
    assert level(TRAILING, stream, {"@C>6": "+ a1 b3"}).current
    assert level(TRAILING, stream, {"c7": "+ a1 b3"}).current  # it may wait for the clock
    late = level(TRAILING, stream, {END: "+ a1 b3"})
    assert late.why["immediate"] == "step 5 (c7): a1 b3 is known by now but not answered"


def test_g11_immediate_reading() -> None:
    soon, waited = {"b3": "+ a1 b3"}, {"z7": "+ a1 b3"}
    assert level(TRAILING, "a1 b3 z7", soon, trailing="immediate").name == "full"
    found = level(TRAILING, "a1 b3 z7", waited, trailing="immediate")
    assert found.name == "delayed"
    assert found.why["immediate"] == "step 2 (b3): a1 b3 is known by now but not answered"


def test_oa29_release_and_end_differ_for_an_absence_at_the_end() -> None:
    """a1 b5 is known at 7, a2 b4 at 8: in order of release, not of the ends."""
    told = {"z7": "+ a1 b5, + a1 b4", "z8": "+ a2 b5, + a2 b4"}
    found = level(TRAILING, "a1 a2 b4 b5 z7 z8", told)
    assert not found.ordered and not found.ordered_by_end and found.ordered_by_release
    swapped = level(TRAILING, "a1 a2 b4 b5 z7 z8", {END: "+ a2 b5, + a2 b4, + a1 b5, + a1 b4"})
    assert not swapped.ordered_by_release


def test_g12_an_absence_at_the_beginning() -> None:
    query, stream = "EVENT SEQ(!C c, A a, B b) WITHIN 5", "c1 a4 b6 a8 b9 c7"
    assert level(query, stream, {"b9": "+ a4 b9, + a8 b9", "c7": "- a8 b9"}).current
    assert not level(query, stream, {"b6": "+ a4 b6", "b9": "+ a4 b9, + a8 b9", "c7": "- a8 b9"}).eventually_valid


def test_g13_several_absences_withdraw_once() -> None:
    query, stream = "EVENT SEQ(A a, !B b, C c, !D d, E e) WITHIN 20", "a1 c3 e6 b2 d5"
    assert level(query, stream, {"e6": "+ a1 c3 e6", "b2": "- a1 c3 e6"}).current
    twice = level(query, stream, {"e6": "+ a1 c3 e6", "b2": "- a1 c3 e6", "d5": "- a1 c3 e6"})
    assert twice.why["eventually_valid"] == "step 5 (d5): a1 c3 e6 is withdrawn, but was never answered"


def test_g17_a_withdrawal_out_of_nothing() -> None:
    query, stream = "EVENT SEQ(!C c, A a, !D d) WITHIN 10", "c91 a100 z113 d109"
    assert level(query, stream, {}).name == "full"
    assert level(query, stream, {"d109": "- a100"}).name == "none"


def test_a_nested_absence_can_revive_a_match() -> None:
    """In time in the sense of Li is impossible here; immediate in the sense of Liu is not."""
    query = "EVENT SEQ(A a, !SEQ(B b, !C c, D d), E e) WITHIN 20"
    found = level(query, "a1 b2 d4 e9 c3", {"c3": "+ a1 e9"})
    assert holding(found) == EVERYTHING - {"in_time"}
    again = level(query, "a1 e9 b2 d4 c3", {"e9": "+ a1 e9", "d4": "- a1 e9", "c3": "+ a1 e9"})
    assert again.current and again.eventually_valid and not again.permanently_valid


def test_an_event_invalid_for_a_while_is_not_permanently_valid() -> None:
    """Never withdrawn and true at the end, but false in between."""
    query = "EVENT SEQ(A a, !SEQ(B b, !C c, D d), E e) WITHIN 20"
    found = level(query, "a1 e9 b2 d4 c3", {"e9": "+ a1 e9"})
    assert not found.permanently_valid and found.eventually_valid and found.complete and not found.current


def test_a_hidden_event_counts_as_arrival() -> None:
    query = "EVENT EXISTS b : SEQ(A a, B b) WITHIN 5"
    items = history("a1 b2 b3")
    log: list[list[Change]] = [[], [(1, (("a", ("a1",)),))], [], []]
    assert holding(classify(query, items, log)) == EVERYTHING
    late: list[list[Change]] = [[], [], [(1, (("a", ("a1",)),))], []]
    assert not classify(query, items, late).in_time


def test_a_repetition_that_grows_is_withdrawn_and_said_anew() -> None:
    query = "EVENT SEQ(A a, B+ b, D d) WITHIN 10"
    items = history("a1 b2 d5 b3")
    small, large = ((("a", ("a1",)), ("b", members), ("d", ("d5",))) for members in (("b2",), ("b2", "b3")))
    log: list[list[Change]] = [[], [], [(1, small)], [(-1, small), (1, large)], []]
    found = classify(query, items, log)
    assert found.current and found.satisfies("convergent unsorted") and not found.permanently_valid
    assert not classify(query, items, [[], [], [(1, small)], [(1, large)], []]).complete


def test_duplicates_change_nothing() -> None:
    items = history("a1#x b2#y a1#x b2#y")
    binding: Binding = (("a", ("x",)), ("b", ("y",)))
    assert classify("EVENT SEQ(A a, B b)", items, [[], [(1, binding)], [], [], []]).name == "full"
    twice = classify("EVENT SEQ(A a, B b)", items, [[], [(1, binding)], [], [(1, binding)], []])
    assert twice.why["permanently_valid"] == "step 4 (b2): a1 b2 is answered a second time"
    assert twice.why["complete"] == "a1 b2 is counted 2 times at the end"


def test_events_that_were_set_aside_do_not_count() -> None:
    """c9 is later than the run allows: it was reported, and the answer stays."""
    items = history(S0 + " c9")
    log = logged(Q4, items, {"f16": "+ a3 b6 d10"})
    assert classify(Q4, items, log).name == "none"
    assert classify(Q4, items, log, set_aside=[len(items) - 1]).name == "delayed"


def test_an_answer_with_an_event_that_never_came() -> None:
    items = history("a1 b2")
    found = classify("EVENT SEQ(A a, B b)", items, [[], [(1, (("a", ("a1",)), ("b", ("b9",))))], []])
    assert found.why["eventually_valid"] == "step 2 (b2): a1 b9? is answered, but no match of what was received"


# --- one line for users --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("told", "line"),
    [
        ({"d10": "+ a3 b6 d10"}, "full: ordered, immediate, permanently valid, complete"),
        ({"f16": "+ a3 b6 d10"}, "delayed: ordered, permanently valid, complete; not immediate"),
        ({}, "none of the named levels: not complete: a3 b6 d10 is missing at the end"),
    ],
)
def test_a_level_as_one_line(told: Mapping[str, str], line: str) -> None:
    found = level(Q4, S0, told)
    assert in_words(found) == str(found) == line


def test_a_level_that_converges_as_one_line() -> None:
    found = level(Q4, S0 + " b8 c9", {"d10": "+ a3 b6 d10", "b8": "+ a7 b8 d10, + a3 b8 d10",
                                      "c9": "- a3 b6 d10, - a7 b8 d10, - a3 b8 d10"})  # fmt: skip
    assert in_words(found) == (
        "convergent unsorted: immediate, eventually valid, complete; not ordered, not permanently valid"
    )


def test_neither_permanent_nor_immediate_has_no_name() -> None:
    """What a mixture of strategies may do: it waited, and yet had to withdraw."""
    found = level(Q4, S0 + " c9", {"f16": "+ a3 b6 d10", "c9": "- a3 b6 d10"})
    assert found.eventually_valid and found.complete and found.name == "none"
    assert found.reason == "not permanently valid: step 12 (c9): a3 b6 d10 is withdrawn"


# --- runs of small engines: what each strategy guarantees ----------------------------------------------------------


def by_key(found: Binding, ends: Mapping[object, int]) -> list[int]:
    return sorted((ends[eid] for _, eids in found for eid in eids), reverse=True)


def k_slack(query: str, items: Sequence[Item], k: int) -> list[list[Change]]:
    """Sort, then detect: an event leaves the buffer when it is older than clock - K."""
    log: list[list[Change]] = []
    said: set[Binding] = set()
    for at in range(1, len(items) + 2):
        events = events_of(items[:at])
        clock = max((event.end for event in events), default=BEGINNING)
        released = [event for event in events if event.end < clock - k or at > len(items)]
        fresh = {match.binding for match in matches(parse(query), released)} - said
        ends = {event.eid: event.end for event in events}
        log.append([(1, binding) for binding in sorted(fresh, key=lambda found: by_key(found, ends))])
        said |= fresh
    return log


def conservative(query: str, items: Sequence[Item], negative: str, last: str) -> list[list[Change]]:
    """Hold every match until the promises for the negative type have reached its last event."""
    log: list[list[Change]] = []
    said: set[Binding] = set()
    for at in range(1, len(items) + 2):
        events = events_of(items[:at])
        ends = {event.eid: event.end for event in events}
        promised = [item.time for item in items[:at]
                    if isinstance(item, Promise) and item.source is None and item.type in (None, negative)]  # fmt: skip
        known = max(promised, default=BEGINNING)
        fresh = [match.binding for match in matches(parse(query), events) if match.binding not in said]
        fresh = [binding for binding in fresh if at > len(items) or ends[dict(binding)[last][0]] <= known]
        log.append([(1, binding) for binding in fresh])
        said.update(fresh)
    return log


def arrivals_for(seed: int) -> list[Item]:
    """A history in which Q4 finds something, in a random order."""
    random = Random(seed)
    words = ["a1", "b2", "b4", "d6", "a3", "d8", "b9", "d12", *random.sample(["c3", "c5", "c7", "c10", "f20", "a7"], 3)]
    return disordered(events_of(history(" ".join(words))), random, promises=0.8)


def test_g16_slack_delays_and_conservative_delays_unsorted() -> None:
    verdicts = []
    for seed in range(25):
        items = arrivals_for(seed)
        found = classify(Q4, items, k_slack(Q4, items, smallest_sufficient_slack(items)))
        assert found.satisfies("delayed"), found
        found = classify(Q4, items, conservative(Q4, items, "C", "d"))
        assert found.satisfies("delayed unsorted"), found
        verdicts.append(found.name)
    assert "delayed unsorted" in verdicts


def test_g16_too_little_slack_loses_or_invents() -> None:
    names = []
    for seed in range(25):
        items = arrivals_for(seed)
        names.append(classify(Q4, items, k_slack(Q4, items, 0)).name)
    assert "none" in names


def engine_log(seed: int, *, ordered: bool, batch: int = 1) -> tuple[strategies.Query, list[Item], list[list[Change]]]:
    random = Random(seed)
    query, events = strategies.pair(random)
    query = replace(query, timeout=False)  # levels are about matches
    events = sorted(events, key=lambda event: event.end) if ordered else random.sample(events, len(events))
    mode = Mode("in-order" if ordered else "aggressive", batch=batch)
    return query, list(events), driven(Harness(query, strategies.SCHEMA), events, mode).steps


@pytest.mark.parametrize("seed", range(40))
def test_the_detector_itself_is_aggressive_and_current(seed: int) -> None:
    """Random queries of all constructs: this checks the checker as much as the detector."""
    query, items, log = engine_log(seed, ordered=False)
    found = classify(query, items, log)
    assert found.current, found.why
    assert found.satisfies("convergent unsorted"), found.why


@pytest.mark.parametrize("seed", range(40))
def test_ordered_input_is_fully_correct(seed: int) -> None:
    query, items, log = engine_log(seed, ordered=True)
    found = classify(query, items, log, order="ordered_by_release")
    assert found.current and found.name == "full", found.why


@pytest.mark.parametrize("seed", range(15))
def test_batches_are_judged_by_what_stands_after_them(seed: int) -> None:
    query, items, log = engine_log(seed, ordered=False, batch=3)
    found = classify(query, items, log, pushed=pushes(len(items), 3))
    assert found.current and found.satisfies("convergent unsorted"), found.why


# --- spoiled logs --------------------------------------------------------------------------------------------------


def an_aggressive_run() -> tuple[list[Item], list[list[Change]]]:
    """Several answers at different steps, one of them withdrawn."""
    items = history(S0 + " b8 c9 d2 a0")
    told = {"d10": "+ a3 b6 d10", "b8": "+ a3 b8 d10, + a7 b8 d10",
            "c9": "- a3 b6 d10, - a3 b8 d10, - a7 b8 d10", "a0": "+ a0 b1 d2"}  # fmt: skip
    return items, logged(Q4, items, told)


def test_the_run_to_spoil_is_good() -> None:
    items, log = an_aggressive_run()
    found = classify(Q4, items, log)
    assert found.names == ("convergent unsorted",) and found.current


def places(log: Sequence[Sequence[Change]], op: int) -> list[tuple[int, int]]:
    return [(at, number) for at, step in enumerate(log) for number, change in enumerate(step) if change[0] == op]


def test_a_dropped_answer_is_missed() -> None:
    items, log = an_aggressive_run()
    del log[places(log, 1)[-1][0]][-1]
    found = classify(Q4, items, log)
    assert not found.complete and not found.immediate and not found.current and found.eventually_valid
    assert found.reason is not None and "a0 b1 d2 is missing at the end" in found.reason


@pytest.mark.parametrize("which", range(4))
def test_an_answer_dropped_before_it_is_withdrawn_is_missed_too(which: int) -> None:
    items, log = an_aggressive_run()
    at, number = places(log, 1)[which]
    del log[at][number]
    found = classify(Q4, items, log)
    assert not found.immediate
    assert found.complete is False


@pytest.mark.parametrize("which", range(4))
def test_an_answer_one_step_later_is_not_immediate(which: int) -> None:
    items, log = an_aggressive_run()
    at, number = places(log, 1)[which]
    log[at + 1].insert(0, log[at].pop(number))
    found = classify(Q4, items, log)
    assert not found.in_time and not found.immediate and not found.current
    assert found.complete


@pytest.mark.parametrize("which", range(3))
def test_a_withdrawal_one_step_later_is_not_current(which: int) -> None:
    items, log = an_aggressive_run()
    at, number = places(log, -1)[which]
    log[at + 1].insert(0, log[at].pop(number))
    found = classify(Q4, items, log)
    assert not found.current
    assert found.eventually_valid and found.complete and found.immediate


@pytest.mark.parametrize("which", range(3))
def test_a_withdrawal_left_out_stays_wrong(which: int) -> None:
    items, log = an_aggressive_run()
    at, number = places(log, -1)[which]
    del log[at][number]
    found = classify(Q4, items, log)
    assert not found.eventually_valid and not found.complete and found.name == "none"


def test_a_late_withdrawal_of_what_is_true() -> None:
    items, log = an_aggressive_run()
    log[-1].append((-1, binding_of(Q4, items, "a0 b1 d2")))
    found = classify(Q4, items, log)
    assert not found.eventually_valid and not found.complete
    assert found.why["eventually_valid"] == "the end of the stream: a0 b1 d2 is withdrawn, but still a match"


@pytest.mark.parametrize("which", range(4))
def test_an_answer_given_twice(which: int) -> None:
    items, log = an_aggressive_run()
    at, number = places(log, 1)[which]
    log[at].insert(number, log[at][number])
    found = classify(Q4, items, log)
    assert not found.eventually_valid and not found.permanently_valid and not found.complete


def test_swapped_answers_are_unordered() -> None:
    items = history("a1 b2 d3 d5 d8")
    log = logged(POSITIVE, items, {"d3": "+ a1 b2 d3", "d5": "+ a1 b2 d5", "d8": "+ a1 b2 d8"})
    assert classify(POSITIVE, items, log).name == "full"
    log[2], log[3] = log[3], log[2]
    found = classify(POSITIVE, items, log)
    assert not found.ordered and not found.ordered_by_end and not found.in_time
    assert not found.eventually_valid  # one of them came before its last event
    held: list[list[Change]] = [[], [], [], [], [], [change for step in log for change in step]]
    assert classify(POSITIVE, items, held).names == ("delayed unsorted",)
    held[-1].sort(key=lambda change: repr(change[1]))
    assert classify(POSITIVE, items, held).names == ("delayed", "delayed unsorted")


def test_an_invented_answer() -> None:
    items, log = an_aggressive_run()
    log[9].append((1, binding_of(Q4, items, "a7 b11 d15")))  # rejected by c13
    found = classify(Q4, items, log)
    assert not found.eventually_valid and not found.complete and not found.current


@pytest.mark.parametrize("seed", range(12))
def test_spoiled_logs_of_random_runs(seed: int) -> None:
    """Whatever answer is dropped or doubled, the verdict never gets better and the loss is seen."""
    random = Random(seed)
    query, items, log = engine_log(seed, ordered=False)
    while not places(log[:-1], 1):
        query, items, log = engine_log(random.randrange(10**6), ordered=False)
    good = classify(query, items, log)
    at, number = random.choice(places(log[:-1], 1))
    dropped, doubled = ([list(step) for step in log] for _ in range(2))
    del dropped[at][number]
    doubled[at].append(doubled[at][number])
    for spoiled in (classify(query, items, dropped), classify(query, items, doubled)):
        assert len(spoiled.names) <= len(good.names)
        assert not spoiled.complete and not spoiled.current


# --- wrong calls ---------------------------------------------------------------------------------------------------


def test_a_log_that_does_not_fit_is_refused() -> None:
    items = history("a1 b2")
    with pytest.raises(InputError, match="does not fit"):
        classify(Q4, items, [[], []])
    with pytest.raises(InputError, match="does not fit"):
        classify(Q4, items, [[], []], pushed=[1, 1])
    with pytest.raises(InputError, match="not a reading of ordered"):
        classify(Q4, items, [[], [], []], order="sorted")
    with pytest.raises(InputError, match="wait or immediate"):
        classify(Q4, items, [[], [], []], trailing="later")
    with pytest.raises(InputError, match="not a level"):
        classify(Q4, items, [[], [], []]).satisfies("perfect")


def test_nothing_at_all_is_fully_correct() -> None:
    assert classify(Q4, [], [[]]).name == "full"


def test_items_are_spelled_as_in_histories() -> None:
    text = "a1 Shelf@9 h[3,8] @A>5 @*>5 @src:A>5 h[3,"
    assert " ".join(spelled_item(item) for item in history(text)) == text
