"""Groups beside their meaning, which case files ask: drawn in every mode, spilled, compiled, shown and explained."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

import tocsin
from tests.drawn import in_chunks
from tests.effort import examples
from tocsin.events import Event
from tocsin.lang.fluent import event, seq
from tocsin.lang.parser import parse
from tocsin.lang.printer import print_query
from tocsin.testing.agree import COMPILED, PLAIN, Bench, Trial
from tocsin.testing.draw_groups import grouped_pair
from tocsin.testing.harness import Limit
from tocsin.testing.modes import EVERY, Mode
from tocsin.testing.oracle import matches
from tocsin.testing.strategies import SCHEMA

TEXT = "EVENT SEQ(Open o, (SEQ(Enter a, FIRST Leave b)){2,} visits, Close c) WHERE [room] WITHIN 50"
ROWS: list[dict[str, Any]] = [
    {"type": type, "time": time, "room": room, "n": time}
    for time, (type, room) in enumerate(
        [("Enter", 1), ("Open", 1), ("Enter", 1), ("Enter", 2), ("Leave", 1), ("Leave", 2), ("Enter", 1), ("Enter", 1),
         ("Leave", 1), ("Close", 2), ("Close", 1)]
    )
]  # fmt: skip
SPILLED = (
    Trial("spilled", Mode("aggressive", batch=1, limit=Limit(300), late=True), shuffle=20),
    Trial("spilled, held", Mode("conservative", batch=2, limit=Limit(300), promises=21), shuffle=21),
    Trial("spilled, restart", Mode("aggressive", batch=2, limit=Limit(300), late=True, restart=EVERY), shuffle=22),
)


@pytest.mark.filterwarnings("ignore:the memory limit")
@in_chunks(4)
def test_drawn_groups_mean_the_same_in_every_mode(chunk: int) -> None:
    members = 0
    for seed in range(chunk * 20, chunk * 20 + 20):
        random = Random(f"a group {seed}")
        query, events = grouped_pair(random)
        assert parse(print_query(query)) == query
        found = Bench(query, SCHEMA).disagreement(events, [*random.sample(PLAIN, 2), random.choice(SPILLED)])
        assert found is None, f"seed {seed}: {query}\n{events}\n{found}"
        members += sum(len(eids) > 1 for match in matches(query, events) for _, eids in match.binding)
    assert members


@pytest.mark.jit
def test_compiled_groups_mean_the_same() -> None:
    for seed in range(examples(2)):
        query, events = grouped_pair(Random(f"compiled {seed}"))
        assert Bench(query, SCHEMA).disagreement(events, COMPILED) is None, seed


def spans(found: Any) -> list[list[int]]:
    return [[each["start"] for name in ("a", "b") for each in match[name]] for match in found]


def test_the_events_of_all_members_stand_side_by_side() -> None:
    found = list(tocsin.query(TEXT).detect(ROWS, jit=False))
    assert spans(found) == [[2, 6, 4, 8]]
    assert (found[0]["start"], found[0]["end"]) == (1, 10)


def test_a_live_match_comes_with_the_event_behind_the_group() -> None:
    live = tocsin.query(TEXT).stream(jit=False)
    said = [spans(live.push(row)) for row in ROWS]
    assert [len(each) for each in said] == [0] * 10 + [1]


def test_a_late_event_changes_the_members() -> None:
    live = tocsin.query(TEXT).stream(jit=False, order="aggressive")
    said = [match for row in (*ROWS[:4], *ROWS[5:], ROWS[4]) for match in live.push(row)]
    assert [(match["op"], spans([match])[0]) for match in said] == [(1, [2, 6, 4, 8])]  # one visit was not enough
    late = live.push({"type": "Leave", "time": 3, "room": 1, "n": 3})
    assert [(match["op"], spans([match])[0]) for match in late] == [(-1, [2, 6, 4, 8]), (1, [2, 6, 3, 8])]


def test_select_shows_how_often_it_came_and_what_its_events_say() -> None:
    shown = tocsin.query(f"{TEXT} SELECT count(visits) AS n, end(visits) - start(visits) AS took, sum(a.n), last(b.n)")
    (match,) = shown.detect(ROWS, jit=False)
    assert [match[name] for name in ("n", "took", "sum(a.n)", "last(b.n)")] == [2, 6, 8, 8]


def test_in_python() -> None:
    visit = seq(event("Enter", "a"), event("Leave", "b").first())
    built = seq(event("Open", "o"), visit.repeated(2, or_more=True, name="visits"), event("Close", "c"))
    assert tocsin.query(built.partition_by("room").within(50)) != tocsin.query(TEXT)
    assert "(SEQ(Enter a, FIRST Leave b)){2,} visits" in str(built)
    assert [str(visit.repeated(*given)) for given in ((), (3,), (2, 4))] == [
        f"EVENT (SEQ(Enter a, FIRST Leave b)){often}" for often in ("+", "{3}", "{2,4}")
    ]


def test_first_of_a_group_in_python() -> None:
    visit = seq(event("Enter", "a"), event("Leave", "b").first())
    built = visit.repeated(2, name="visits").first()
    assert str(built) == "EVENT FIRST (SEQ(Enter a, FIRST Leave b)){2} visits"
    found = tocsin.query(built.partition_by("room").within(50)).detect(ROWS, jit=False)
    assert spans(found) == [[0, 6, 4, 8], [2, 6, 4, 8]]  # it begins at every match of its pattern


def test_a_group_at_the_end_of_an_endless_stream_needs_a_window() -> None:
    with pytest.raises(tocsin.TocsinError, match="could answer only at the end of the stream"):
        tocsin.query("EVENT SEQ(Open o, (SEQ(Enter a, Leave b))+ g)").stream(endless=True)


def test_explain_says_what_is_looked_for_and_in_which_order() -> None:
    text = tocsin.query(TEXT).explain()
    assert "{2,} one behind the other in (end(o), start(c))" in text
    assert "loops     b > a" in text


def test_overlapping_members_do_not_cost_all_combinations() -> None:
    """The next member is looked for, and not all matches of the inner pattern."""
    events = [Event("C", 0, 0, "c"), *(Event("AB"[n % 2], n + 1, n + 1, f"e{n}") for n in range(400))]
    events.append(Event("D", 500, 500, "d"))
    rows = [{"type": each.type, "time": each.start} for each in events]
    (match,) = tocsin.query("EVENT SEQ(C c, (SEQ(A a, B b))+ g, D d)").detect(rows, jit=False)
    assert len(match["a"]) == len(match["b"]) == 200
