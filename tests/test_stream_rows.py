"""What a live stream answers does not depend on how its rows are cut into pushes; a row that does not fit is bad."""

from __future__ import annotations

import io
import json
import threading
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import permutations
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tocsin
from tests.effort import examples
from tests.taking import Taking
from tocsin.app.live import follow
from tocsin.errors import InputError, TocsinError
from tocsin.run.bad_rows import BadRows

TEXTS = (
    "EVENT SEQ(A a, B b) WHERE a.v <= b.v WITHIN 100",
    "EVENT SEQ(A a, B b) WHERE [k] WITHIN 100",
    "EVENT SEQ(A a, !C c, B b) WHERE a.k = b.k AND a.v + 1 > 0 WITHIN 50",
)


def outcome(matches: Any) -> list[str]:
    return [json.dumps(match, default=str, sort_keys=True) for match in matches]


def in_lists(text: str, rows: list[dict[str, Any]], cuts: list[int], **options: Any) -> tuple[list[str], set[int], Any]:
    """Matches, bad rows and counters, with the rows cut at these places."""
    session = tocsin.query(text).stream(jit=False, **options)
    found, bad, first = [], set(), 0
    for last in [*sorted(cuts), len(rows)]:
        matches, reasons = session.push_usable(rows[first:last])
        found += outcome(matches)
        bad |= {first + at for at in reasons}
        first = last
    return found + outcome(session.close()), bad, session.counters


def one_by_one(text: str, rows: list[dict[str, Any]], **options: Any) -> tuple[list[str], set[int], Any]:
    """The same by single pushes, which take the short way where they can."""
    session = tocsin.query(text).stream(jit=False, **options)
    found, bad = [], set()
    for at, row in enumerate(rows):
        try:
            found += outcome(session.push(row))
        except InputError:
            bad.add(at)
    return found + outcome(session.close()), bad, session.counters


VALUES = st.one_of(
    st.integers(0, 3),
    st.sampled_from(
        [1.5, 2.0, None, True, "x", "1", 2**53 + 1, 2**63, Decimal("1.25"), Decimal(10**15), [1], {"a": 1}]
    ),
    st.sampled_from([date(2024, 5, 1), datetime(2024, 5, 1, 12), datetime(2024, 5, 1, 12, tzinfo=UTC)]),  # noqa: DTZ001
)
ROWS = st.lists(
    st.fixed_dictionaries(
        {"type": st.sampled_from(["A", "A", "B", "B", "B", "C", "Z", 5, None])},
        optional={
            "v": VALUES,
            "k": VALUES,
            "other": VALUES,
            "eid": st.sampled_from([1, 2, "x", None]),
            "end": st.sampled_from([None, 3, 50]),
            "strange": st.sampled_from(["\ud800", 1]),
            "\ud800": st.just(1),
        },
    ),
    max_size=12,
)
TIMES = st.sampled_from(["", "", "", "", "", "", "text", "2024-05-01", "2024-05-01T00:00:00Z", None, 2.5, 2**61])


def timed(rows: list[dict[str, Any]], odd: list[Any]) -> list[dict[str, Any]]:
    """The rows one after the other, some with a strange time."""
    pairs = zip(rows, [*odd, *([""] * len(rows))], strict=False)
    return [{**row, "time": at if strange == "" else strange} for at, (row, strange) in enumerate(pairs)]


@settings(max_examples=examples(3000, least=120))
@given(
    text=st.sampled_from(TEXTS),
    rows=ROWS,
    odd=st.lists(TIMES, max_size=12),
    cuts=st.lists(st.integers(0, 12), max_size=4),
    order=st.sampled_from(["in-order", "slack(3)", "aggressive(100)"]),
)
def test_cuts_change_nothing(text, rows, odd, cuts, order):
    rows = timed(rows, odd)
    whole = in_lists(text, rows, [], order=order)
    assert in_lists(text, rows, [cut for cut in cuts if cut < len(rows)], order=order) == whole
    assert one_by_one(text, rows, order=order) == whole


@settings(max_examples=examples(1000, least=60))
@given(rows=ROWS, cuts=st.lists(st.integers(0, 12), max_size=4))
def test_cuts_change_nothing_with_a_declared_schema(rows, cuts):
    rows, schema = timed(rows, []), {"*": {"v": "float", "k": "int"}}
    whole = in_lists(TEXTS[0], rows, [], schema=schema)
    assert in_lists(TEXTS[0], rows, [cut for cut in cuts if cut < len(rows)], schema=schema) == whole
    assert one_by_one(TEXTS[0], rows, schema=schema) == whole


@settings(max_examples=examples(600, least=40))
@given(rows=ROWS, odd=st.lists(TIMES, max_size=12), at=st.integers(0, 12))
def test_a_restart_changes_nothing(rows, odd, at):
    rows = timed(rows, odd)
    first = tocsin.query(TEXTS[0]).stream(jit=False)
    matches, bad = first.push_usable(rows[:at])
    second = tocsin.query(TEXTS[0]).stream(jit=False, state=first.save())
    more, worse = second.push_usable(rows[at:])
    found = outcome(matches) + outcome(more) + outcome(second.close())
    assert (found, set(bad) | {at + place for place in worse}) == in_lists(TEXTS[0], rows, [])[:2]


# --- reads of a pipe -----------------------------------------------------------------------------------------------

GOOD = ['{"type":"A","time":1,"k":1,"s":"x"}', '{"type":"B","time":5,"k":1,"s":"x"}']
LINES = {
    "another kind": '{"type":"A","time":2,"k":"1"}',
    "a truth": '{"type":"A","time":2,"k":true}',
    "a list": '{"type":"A","time":2,"k":[1]}',
    "a kind that no query reads": '{"type":"A","time":2,"k":1,"s":5}',
    "a timestamp": '{"type":"A","time":"2020-01-01","k":1}',
    "an eid": '{"type":"A","time":2,"k":1,"eid":5}',
    "an end": '{"type":"A","time":2,"k":1,"end":5}',
    "a name that is no Unicode": '{"type":"A","time":2,"\\ud800":5}',
    "nested too deeply": '{"type":"A","time":2,"k":' + "[" * 20_000 + "]" * 20_000 + "}",
    "bytes that are no text": b'{"type":"A","time":2,"k":"\xff"}',
    "nothing": "{}",
}


class Lines(io.RawIOBase):
    """A pipe that gives one line per read."""

    def __init__(self, lines: list[bytes]) -> None:
        self.lines = list(lines)

    def read1(self, size: int) -> bytes:
        return self.lines.pop(0) if self.lines else b""


def followed(lines: list[bytes], *, slow: bool, policy: str = "skip") -> tuple[list[str], int]:
    found: list[str] = []
    bad = BadRows(policy)
    session = tocsin.query("EVENT SEQ(A a, B b) WHERE a.k = b.k WITHIN 100").stream(jit=False)
    taking = Taking(lambda matches: found.extend(outcome(matches)) or True)
    follow(session, Lines(lines) if slow else io.BytesIO(b"".join(lines)), bad, taking)
    taking.take(session.close())
    return found, bad.count


@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
@pytest.mark.parametrize("slow", [False, True])
def test_a_line_that_does_not_fit_is_one_bad_row(line, slow):
    first, last = (f"{each}\n".encode() for each in GOOD)
    odd = (line if isinstance(line, bytes) else line.encode()) + b"\n"
    clean, _ = followed([first, last], slow=slow)
    assert len(clean) == 1
    assert followed([first, odd, last], slow=slow) == (clean, 1)


@pytest.mark.parametrize("slow", [False, True])
def test_what_came_before_a_bad_line_is_answered_before_the_run_ends(slow):
    lines = [f"{each}\n".encode() for each in [*GOOD, "garbage", *GOOD]]
    found: list[str] = []
    session = tocsin.query("EVENT SEQ(A a, B b) WHERE a.k = b.k WITHIN 100").stream(jit=False)
    stdin = Lines(lines) if slow else io.BytesIO(b"".join(lines))
    with pytest.raises(InputError, match="line 3"):
        follow(session, stdin, BadRows(), Taking(lambda m: found.extend(outcome(m)) or True))
    assert len(found) == 1


# --- kinds ---------------------------------------------------------------------------------------------------------


def test_the_first_value_that_the_query_can_take_gives_the_kind():
    session = tocsin.query("EVENT SEQ(A a, B b) WHERE a.v > 5 AND a.k = b.k").stream(jit=False)
    rows = [
        {"type": "A", "time": 1, "v": "x", "k": 1},  # text is compared with a number
        {"type": "A", "time": 2, "v": 7, "k": "one"},
        {"type": "B", "time": 3, "k": 1},
        {"type": "B", "time": 4, "k": "one"},
    ]
    matches, bad = session.push_usable(rows)
    assert (len(matches), set(bad)) == (1, {0, 2})
    assert "text" in bad[0]


def test_whole_numbers_beyond_floats_do_not_become_floats():
    session = tocsin.query("EVENT SEQ(A a, B b) WHERE a.v < b.v").stream(jit=False)
    session.push({"type": "A", "time": 1, "v": 2**53 + 1})
    with pytest.raises(InputError, match="too large for that before"):
        session.push({"type": "B", "time": 2, "v": 0.5})
    assert len(session.push({"type": "B", "time": 3, "v": 2**53 + 2})) == 1


def test_a_list_with_a_bad_row_is_not_taken_at_all():
    session = tocsin.query("EVENT SEQ(A a, B b)").stream(jit=False)
    with pytest.raises(InputError, match="row 2: the time is null"):
        session.push([{"type": "A", "time": 1, "new": "x"}, {"type": "B", "time": None}])
    session.push({"type": "A", "time": 1, "new": 1})
    assert len(session.push({"type": "B", "time": 2})) == 1


def test_arrow_batches_and_rows_share_one_stream():
    session = tocsin.query("EVENT SEQ(A a, B b) WHERE a.v < b.v").stream(jit=False)
    session.push(pa.table({"type": ["A"], "time": [1], "v": [1]}))
    assert len(session.push({"type": "B", "time": 2, "v": 2})) == 1
    with pytest.raises(InputError, match="text now and was int before"):
        session.push({"type": "B", "time": 3, "v": "x"})
    bad = {0: "'v' is text now and was int before"}
    assert session.push_usable([{"type": "B", "time": 3, "v": "x"}])[1] == bad, "the batch has settled the kind"
    with pytest.raises(InputError, match="a timestamp in some events"):
        session.push(pa.table({"type": ["B"], "time": ["2024-05-01"], "v": [3]}))
    with pytest.raises(InputError, match="other columns for time, end or eid"):
        session.push(pa.table({"type": ["B"], "time": [3], "eid": [3]}))
    assert len(session.push(pa.table({"type": ["B"], "time": [4], "v": [2.5]}))) == 1


def test_times_are_written_like_the_heartbeat_before_them():
    moments = datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 3, 2, tzinfo=UTC)
    for (said, later), (_, other) in permutations([(5, 9), moments]):
        session = tocsin.query("EVENT A a").stream(jit=False, order="slack(3)")
        session.push([{"heartbeat": said}])
        with pytest.raises(InputError, match="and the heartbeat before it was"):
            session.push([{"type": "A", "time": other}])
        assert len([*session.push([{"type": "A", "time": later}]), *session.close()]) == 1


def test_times_written_as_numbers_are_ticks_in_every_push():
    session = tocsin.query("EVENT SEQ(A a, B b) WITHIN 5").stream(jit=False)
    session.push({"type": "A", "time": "1"})
    assert [match["end"] for match in session.push([{"type": "B", "time": "6"}, {"type": "B", "time": 7}])] == [6]


@pytest.mark.parametrize("type", [["A"], 5])
def test_promises_are_about_texts(type):
    session = tocsin.query("EVENT SEQ(A a, B b)").stream(jit=False, order="conservative(5)")
    with pytest.raises(TocsinError, match="is a text"):
        session.promise(type, 5)


# --- threads -------------------------------------------------------------------------------------------------------


def test_a_session_takes_pushes_from_several_threads():
    query = tocsin.query("EVENT SEQ(A a, !C c, B b) WHERE [k] AND a.v < b.v WITHIN 50")
    events = [{"type": "ABC"[t * 7 % 3], "time": t, "k": t % 3, "v": t * 37 % 11, "eid": t} for t in range(300)]
    session = query.stream(jit=False, order="aggressive(10000)")
    rest, taking, signs, errors = iter(events), threading.Lock(), [], []

    def work() -> None:
        try:
            while True:
                with taking:
                    event = next(rest, None)
                if event is None:
                    return
                signs.extend(match["op"] for match in session.push(event))
        except BaseException as error:  # noqa: BLE001 - shown by the test
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    signs.extend(match["op"] for match in session.close())
    assert errors == []
    assert (sum(signs), session.counters["events"]) == (len(query.detect(events, jit=False)), 300)


@pytest.mark.parametrize("order", ["in-order", "slack(3)", "conservative(3)", "aggressive(3)", "auto(3)"])
@pytest.mark.parametrize("wide", [1.5, Decimal("1.5")], ids=["float", "decimal"])
def test_numbers_that_wait_grow_with_their_column_however_rows_are_cut(wide, order):
    """Events are held while whole numbers become floats or decimals: what is shown and computed is the same number."""
    rows = [
        {"type": name, "time": time, "v": value, "eid": time}
        for name, time, value in (("A", 2, 1), ("B", 3, 1), ("B", 4, wide), ("A", 7, 1), ("C", 20, 1))
    ]
    text = "EVENT SEQ(A a, B b, !D d) WHERE a.v = b.v WITHIN 3 SELECT b.v AS v, b.v + 1 AS more, start(a) AS at"
    for step in (1, 2, 3, 5):
        session = tocsin.query(text).stream(order=order, eid="eid", jit=False)
        found = [match for at in range(0, len(rows), step) for match in session.push(rows[at : at + step])]
        found += session.close()
        assert [(match["v"], match["more"], match["at"]) for match in found] == [(1, 2, 2)]
        assert {type(match["v"]) for match in found} == {type(wide)}


def test_what_an_event_has_of_its_own_is_no_attribute_that_may_still_come() -> None:
    query = tocsin.query("EVENT A a WHERE a.type = 'A' AND a.start >= 1")
    assert len(list(query.stream(type="kind", time="at", jit=False).push({"kind": "A", "at": 1}))) == 1


@pytest.mark.parametrize(
    "asked", ["first(b.s) = 'x'", "coalesce(b.s, '') = 'x'", "max(eid(b)) = 'x'", "least(b.eid, 'z') = 'x'"]
)
def test_a_kind_is_told_through_functions_that_keep_it(asked: str) -> None:
    session = tocsin.query(f"EVENT SEQ(A a, B+ b, C c) WHERE {asked} WITHIN 9").stream(jit=False)
    given = [{"type": type, "time": at, "eid": "x" if type == "B" else type, "s": "x"} for at, type in enumerate("ABC")]
    assert sum(len(session.push(row)) for row in given) == 1
