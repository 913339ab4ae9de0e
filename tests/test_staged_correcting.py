"""Statements that answer at once: after every push, what stands is what the definition finds in the events so far."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

import tocsin
from tests.effort import examples
from tests.test_staged import PAIR, SCHEMA, agrees, row_of, rows_of
from tocsin.errors import TocsinError, TocsinWarning
from tocsin.events import Event
from tocsin.lang.parser import parse_file
from tocsin.plan.staged_places import StatementPlaces
from tocsin.run.declared import declare
from tocsin.run.query import Query
from tocsin.schema import RESULT_COLUMNS
from tocsin.testing.draw_staged import drawn_history, drawn_statements
from tocsin.testing.staged_oracle import Advance, staged_events

HOW: dict[str, Any] = {"time": "start", "end": "end", "eid": "id", "order": "aggressive(4)"}


class Standing:
    """What was given and not withdrawn, by match id."""

    def __init__(self) -> None:
        self.rows: dict[str, tuple[Any, ...]] = {}
        self.withdrawn = 0

    def add(self, matches: Any) -> None:
        for row in (row for table in matches.tables() for row in table.to_pylist()):
            shown = (row["query"], row["start"], row["end"], *(row[name] for name in row if name not in RESULT_COLUMNS))
            if row["op"] > 0:
                assert row["match_id"] not in self.rows, "given twice"
                self.rows[row["match_id"]] = shown
            else:
                assert self.rows.pop(row["match_id"]) == shown, "another row was withdrawn than was given"
                self.withdrawn += 1


def defined(statements: Sequence[Any], events: Sequence[Event], clock: int) -> Counter[Any]:
    """What the definition finds in stages before the clock; timers of its own stage may still wait for events."""
    items: list[Any] = sorted((each for each in events if each.end < clock), key=Event.order)
    found = staged_events(statements, [*items, Advance(clock - 1)])
    return Counter((each.type, each.start, each.end, *each.attrs.values()) for each in found)


@pytest.mark.filterwarnings("ignore")
def test_what_stands_is_what_the_definition_finds_so_far() -> None:
    found = withdrawn = 0
    count = examples(600, least=60)
    for seed in range(count):
        random = Random(f"correcting {seed}")
        statements, events = drawn_statements(random), drawn_history(random, length=40, last=16)
        query = Query(tuple(statements), declare(SCHEMA))
        if not agrees(query):
            continue
        arriving = sorted(events, key=lambda event: event.end + random.randint(0, 4))
        read = {type for each in statements for type in StatementPlaces(each).types}
        session, standing, at = query.stream(**HOW), Standing(), 0
        while at < len(arriving):
            size = random.randint(1, 5)
            standing.add(session.push([row_of(event) for event in arriving[at : at + size]]))
            at += size
            so_far = arriving[:at]
            clock = max((event.end for event in so_far if event.type in read), default=-9)
            there = Counter(row for row in standing.rows.values() if row[2] < clock)
            assert there == defined(statements, so_far, clock), (seed, at, *map(str, statements))
            if random.random() < 0.2:
                session = query.stream(**HOW, state=session.save())
        standing.add(session.close())
        assert Counter(standing.rows.values()) == defined(statements, events, max(event.end for event in events) + 1)
        found += len(standing.rows)
        withdrawn += standing.withdrawn
    assert found > count / 3
    assert withdrawn > count / 30


def test_names_are_those_of_settled_answers() -> None:
    events = [row_of(event) for event in drawn_history(Random(3), length=60)]
    query = tocsin.query(PAIR)
    settled = {row["match_id"] for table in query.detect(events, **{**HOW, "order": "in-order"}).tables()
               for row in table.to_pylist()}  # fmt: skip
    session, standing = query.stream(**HOW), Standing()
    for row in sorted(events, key=lambda row: row["end"] + row["id"] % 4):
        standing.add(session.push(row))
    standing.add(session.close())
    assert set(standing.rows) == settled


def test_a_late_event_takes_back_what_it_changes_and_nothing_else() -> None:
    session = tocsin.query(PAIR).stream(order="aggressive(9)")
    told = []
    for type, time, k, x in (("A", 1, 1, 0), ("B", 5, 1, 5), ("A", 6, 2, 0), ("B", 7, 2, 7), ("B", 3, 1, 3)):
        told.append(
            [(row["op"], row["end"], row["k"], row["x"])
             for table in session.push({"type": type, "time": time, "k": k, "x": x}).tables()
             for row in table.to_pylist()]
        )  # fmt: skip
    assert told == [[], [(1, 5, 1, 5)], [], [(1, 7, 2, 7)], [(-1, 5, 1, 5), (1, 3, 1, 3)]]


def test_both_kinds_of_query_are_corrected_together() -> None:
    query = "QUERY Q EVENT SEQ(Pair p, C c) WHERE p.k = c.k SELECT p.x AS x"
    text = f"{PAIR}; {query}; CreateCE N Select Count(Q) as n Event AtLeast(1, Q)"
    kinds = [("A", 0, 1), ("B", 5, 5), ("C", 6, 0), ("B", 3, 3), ("A", 2, 2)]
    rows = [{"type": type, "time": time, "k": 1, "x": x} for type, time, x in kinds]
    session, standing = tocsin.query(text).stream(order="aggressive(9)"), Standing()
    for row in rows:
        standing.add(session.push(row))
    standing.add(session.close())
    wanted = rows_of(tocsin.query(text).detect(sorted(rows, key=lambda row: row["time"])))
    assert Counter(standing.rows.values()) == Counter(wanted)
    assert standing.withdrawn >= 2


def test_a_statement_may_wait_for_all_its_types_or_for_none() -> None:
    rows = [{"type": type, "time": time, "k": 1, "x": 0} for time, type in enumerate("AB")]
    for order in ("hybrid(C=conservative, 3)", "hybrid(A=conservative, B=conservative, 3)"):
        assert rows_of(tocsin.query(PAIR).detect(rows, order=order)) == [("Pair", 0, 1, 1, 0)]


@pytest.mark.parametrize(
    ("order", "reason"),
    [
        ("hybrid(A=conservative, 3)", "cannot wait for A and answer at once about B"),
        ("auto(3)", "auto chooses by what is withdrawn"),
        ("aggressive(3, trailing=immediate)", "its timers fire when their time has come"),
        ("conservative(3, broken=accept)", "cannot be settled and open at once"),
    ],
)
def test_orders_that_make_no_sense_are_refused(order: str, reason: str) -> None:
    with pytest.raises(TocsinError, match=reason):
        tocsin.query(PAIR).detect([{"type": "A", "time": 1, "k": 1, "x": 1}], order=order)


def test_time_that_passes_fires_timers_at_once() -> None:
    (statement,) = parse_file("CreateCE Late Select A.k as k Event After(A, 10) GKey *.k")
    with pytest.warns(TocsinWarning):
        session = Query((statement,), declare(SCHEMA)).stream(order="aggressive(20)", endless=False)
    assert rows_of(session.push({"type": "A", "time": 1, "k": 7})) == []
    assert rows_of(session.push({"type": "C", "time": 11, "k": 7})) == []
    assert rows_of(session.push({"type": "C", "time": 12, "k": 7})) == [("Late", 1, 11, 7)]
    assert rows_of(session.push({"type": "A", "time": 2, "k": 7})) == []
    assert rows_of(session.push({"type": "C", "time": 13, "k": 7})) == [("Late", 2, 12, 7)]
