"""Begins of intervals: lost, late, twice or different, they change no match; and what they say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from tests.effort import examples
from tocsin.app.judge import judge_case
from tocsin.codec import pack, unpack
from tocsin.errors import InputError
from tocsin.events import Event
from tocsin.run.declared import declare
from tocsin.run.query import query
from tocsin.testing.begins import heard
from tocsin.testing.cases import Case, read_cases
from tocsin.testing.draw_intervals import drawn_intervals
from tocsin.testing.harness import Harness, Running
from tocsin.testing.notation import Begin, Item, Promise, events_of, history
from tocsin.testing.strategies import SCHEMA, is_valid

ORDERS: dict[str, int | None] = {  # and how late items may come, where that is known
    "aggressive": None, "conservative": None, "hybrid(H=conservative)": None, "conservative(20)": 20, "auto(20)": 20,
    "slack(20)": 20,
}  # fmt: skip
LONGEST = {"A": 4, "H": 3}


def announced(random: Random, events: list[Event]) -> list[Item]:
    """The events, with begins before most of them, and guarantees of ends and begins that most of them keep."""
    items: list[Item] = []
    for event in events:
        if random.random() < 0.7:
            begin = Begin(event.type, event.start, str(event.eid), {"id": event.attrs["id"]})
            if random.random() < 0.1:  # it is not what will come
                begin = replace(begin, start=event.start + random.choice((-1, 1)))
            at = random.randint(0, len(items))
            items.insert(at, begin)
            if random.random() < 0.15:
                items.insert(random.randint(0, len(items)), begin)
        items.append(replace(event, eid=str(event.eid)))
    for _ in range(random.randint(0, 2)):  # of an interval that never comes
        items.insert(random.randint(0, len(items)), Begin(random.choice("AH"), random.randint(0, 9), f"n{len(items)}"))
    for _ in range(random.randint(0, 4)):
        at = random.randint(0, len(items))
        later = [item for item in items[at:] if not isinstance(item, Promise)]
        type = random.choice([None, "A", "B", "H"])
        mine = [item for item in later if type in (None, item.type)]
        of_begins = random.random() < 0.6
        if of_begins:  # some of them are not kept
            until = min((item.start for item in mine), default=20) - 1 + random.choice((0, 0, 0, 2, 4))
        else:
            until = min((item.end for item in mine if isinstance(item, Event)), default=20) - 1
        items.insert(at, Promise(type, until, None, of_begins))
    return items


def without_bad(items: Iterable[Item], longest: dict[str, int]) -> list[Item]:
    """The items without begins that are bad rows: they would be refused."""
    kept: list[Item] = []
    for item in items:
        try:
            heard([*kept, item], longest=longest)
        except InputError:
            continue
        kept.append(item)
    return kept


def pushed(run: Running, items: list[Item], random: Random, *, restarts: bool) -> Running:
    """All items in pieces of any size; between them the run may go on from its saved state."""
    at = 0
    while at < len(items):
        size = random.randint(1, 4)
        run.feed(items[at : at + size], batch=random.choice((1, 3)))
        at += size
        if restarts:
            run.restart()
    run.end()
    return run


CASES = [
    case for file in ("begins", "early") for case in read_cases(Path(__file__).parent / "begin_cases" / f"{file}.case")
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_definition_and_the_engine_agree_with_every_case(case: Case) -> None:
    for verdict in judge_case(case, jit=False):
        assert verdict.ok, str(verdict)


@pytest.mark.parametrize("chunk", range(examples(40)))
def test_matches_and_reports_are_those_of_the_definition(chunk: int) -> None:
    for number in range(12):
        random = Random(f"begins {chunk} {number}")
        drawn = drawn_intervals(random, most=4)
        if not is_valid(drawn.query):
            continue
        longest = LONGEST if random.random() < 0.4 else {}
        items = without_bad(announced(random, drawn.events), longest)
        order, delay = list(ORDERS.items())[(number + chunk) % len(ORDERS)]
        told = heard(items, longest=longest, delay=delay)
        harness = Harness(drawn.query, replace(SCHEMA, longest=longest))
        run = harness.start(order)
        pushed(run, items, random, restarts=number % 2 == 0)
        story = f"{drawn.query}\n{items}"
        assert run.net == harness.expected(events_of(told.kept)), story
        assert Counter((one.type, one.start) for one in run.unended) == Counter(
            (one.type, one.start) for one in told.unended if one.type in run.graph.types
        ), story


def test_begins_change_no_match() -> None:
    """All of them, or none: the same matches, where no guarantee of begins is given."""
    for number in range(examples(200, least=20)):
        random = Random(f"same {number}")
        drawn = drawn_intervals(random, most=4)
        if not is_valid(drawn.query):
            continue
        events = [replace(event, eid=str(event.eid)) for event in drawn.events]
        begins: list[Item] = [Begin(event.type, event.start, str(event.eid)) for event in events]
        harness = Harness(drawn.query, SCHEMA)
        found = [
            harness.start("aggressive").feed(items).net
            for items in (events, [*begins, *events], [*begins[::2], *events])
        ]
        assert found[0] == found[1] == found[2]


def test_counts_of_begins() -> None:
    run = Harness("EVENT SEQ(A a, H h)").start("conservative")
    run.feed("a1 h[3,#x h[3,#x h[3,6]#x h[3,#x h[5,#y h[6,9]#y @H[>7 h[7,#z h[7,8]#z h[12,#w").end()
    counted = run.counters
    told = (counted.begins, counted.late_begins, counted.repeated_begins, counted.differing_begins, counted.unended)
    assert told == (6, 1, 2, 1, 1)
    assert counted.late == 1  # z, which was announced too late; of y the begin was another, but it came before @H[>7
    assert [(one.eid, one.type, one.start) for one in run.unended] == [("w", "H", 12)]


def test_a_guarantee_of_begins_releases_what_waits_and_forgets() -> None:
    run = Harness("EVENT SEQ(A a, !H h, B b) WITHIN 10").start("conservative", eager=True)
    run.feed("a1 b5 @A>90 @B>90")
    assert (len(run.changes), run.counters.waiting) == (0, 1)
    run.feed("h[20, @H[>40")
    assert len(run.changes) == 1  # every H to come ends after 19
    assert run.left == 0


def test_what_never_ends_is_said_when_it_is_certain() -> None:
    schema = replace(SCHEMA, longest={"H": 5})
    for order, told in (("conservative", "@H>8"), ("conservative(2)", "b11"), ("in-order", "b9")):
        run = Harness("EVENT SEQ(H h, B b)", schema).start(order).feed("h[3,#x b7 b8")
        assert run.unended == []
        run.feed(told)
        assert [one.eid for one in run.unended] == ["x"], order


def test_a_session_announces_and_goes_on_after_a_restart() -> None:
    rules = query("EVENT SEQ(A a, !H h, B b) WHERE [id] WITHIN 10")
    session = rules.stream(order="conservative", jit=False)
    session.push({"type": "A", "start": 1, "end": 1, "eid": "a", "id": 1})
    session.announce({"type": "H", "start": 0, "eid": "h", "id": 1})
    session.push({"type": "B", "start": 5, "end": 5, "eid": "b", "id": 1})
    assert session.counters["begins"] == 1
    session = rules.stream(order="conservative", jit=False, state=session.save())
    assert len(session.promise("A", 9)) == len(session.promise("B", 9)) == len(session.promise_begins("H", 8)) == 0
    assert len(session.push({"type": "H", "start": 0, "end": 9, "eid": "h", "id": 1})) == 1
    session.push({"type": "H", "start": 4, "end": 12, "eid": "k", "id": 1})
    assert session.late == [0]
    session.announce({"type": "H", "start": 20, "eid": "z", "id": 1})
    session.close()
    assert session.unended == [{"eid": "z", "type": "H", "start": 20}]


@pytest.mark.parametrize(
    ("begin", "message"),
    [
        ({"type": "H", "start": 2, "eid": "h"}, "has no id"),
        ({"type": "H", "start": 2, "id": 1}, "eid"),
        ({"type": "H", "start": 2, "end": 3, "eid": "k", "id": 1}, "a begin has no end"),
        ({"start": 2, "eid": "k"}, "type"),
        ({"type": "H", "eid": "k"}, "the time is null"),
        ({"type": "H", "start": 9, "eid": "x", "id": 1}, "of another one"),
    ],
)
def test_a_begin_that_cannot_be_used_changes_nothing(begin: dict[str, object], message: str) -> None:
    session = query("EVENT SEQ(A a, !H h) WHERE [id] WITHIN 10").stream(order="conservative", jit=False)
    session.push({"type": "A", "start": 1, "end": 1, "eid": "a", "id": 1})
    session.announce({"type": "H", "start": 7, "eid": "x", "id": 1})
    with pytest.raises(InputError, match=message):
        session.announce(begin)
    assert session.unended == []
    session.close()
    assert [one["eid"] for one in session.unended] == ["x"]


def test_the_longest_an_interval_may_last_is_declared_in_any_unit() -> None:
    assert declare({"H": {}}, longest={"H": "1 min"}).longest == {"H": 60_000_000}
    assert declare({"H": {}}, longest={"H": "1 min"}, unit="s").longest == {"H": 60}
    assert declare({"H": {}}, longest={"H": 7}).longest == {"H": 7}
    for wrong in ("soon", -1, 1.5):
        with pytest.raises(InputError, match="is no length of time"):
            declare({"H": {}}, longest={"H": wrong})  # type: ignore[dict-item]


def test_a_saved_state_without_begins_is_as_before() -> None:
    run = Harness("EVENT SEQ(A a, B b)").start("conservative").feed("a1 b2")
    assert not [part for part in unpack(pack(run.graph.snapshot())) if part.id.endswith("begins")]


def test_a_begin_in_a_history_is_that_of_its_interval() -> None:
    begins = [item for item in history("h[3, h[3, h[3,8] h[3,9] @H[>5") if isinstance(item, Begin)]
    assert [begin.eid for begin in begins] == ["h[3,8]", "h[3,9]"]
