"""Histories in the notation of the papers: reading, writing, and errors that show the place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.errors import InputError, TocsinError
from tocsin.events import Event
from tocsin.testing.notation import Begin, Promise, events_of, find, history, times_in, write
from tocsin.testing.written_times import ANY_UNIT, WrittenTimes


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a1", Event("A", 1, 1, "a1")),
        ("a-3", Event("A", -3, -3, "a-3")),
        ("Shelf@9", Event("Shelf", 9, 9, "Shelf@9")),
        ("Shelf@-9", Event("Shelf", -9, -9, "Shelf@-9")),
        ("h[3,8]", Event("H", 3, 8, "h[3,8]")),
        ("h3|8", Event("H", 3, 8, "h[3,8]")),
        ("h[-3,-1]", Event("H", -3, -1, "h[-3,-1]")),
        ("Name@[3,8]", Event("Name", 3, 8, "Name@[3,8]")),
        ("stay3|7", Event("Stay", 3, 7, "Stay@[3,7]")),
        ("SUPPLIER.WAREHOUSE@4", Event("SUPPLIER.WAREHOUSE", 4, 4, "SUPPLIER.WAREHOUSE@4")),
        ("Type2@4", Event("Type2", 4, 4, "Type2@4")),
        ("a1#x", Event("A", 1, 1, "x")),
        ("a1#x{}", Event("A", 1, 1, "x")),
        (
            'a1{i=7, f=1.5, e=1e3, t="a b}\\"", yes=true, no=false, gone=null, ins-type="x"}',
            Event("A", 1, 1, "a1", {"i": 7, "f": 1.5, "e": 1000.0, "t": 'a b}"', "yes": True, "no": False,
                                    "gone": None, "ins-type": "x"}),
        ),
        ("h[3,", Begin("H", 3)),
        ("h[3,#x", Begin("H", 3, "x")),
        ("@A>5", Promise("A", 5)),
        ("@*>5", Promise(None, 5)),
        ("@src:A>-5", Promise("A", -5, "src")),
    ],
)  # fmt: skip
def test_one_item(text: str, expected: object) -> None:
    assert history(text) == [expected]


def test_a_list_in_order_of_arrival_with_any_separators() -> None:
    items = history("a1, b2\n  c2 @A>5 h[3, h[3,8]")
    assert [getattr(item, "eid", None) for item in items] == ["a1", "b2", "c2", None, "h[3,8]", "h[3,8]"]
    assert history("  \n") == []


def test_a_spelling_that_comes_again_is_another_event() -> None:
    assert [event.eid for event in events_of(history("a1 a1 a1 h3|8 h[3,8]"))] == [
        "a1", "a1'2", "a1'3", "h[3,8]", "h[3,8]'2",
    ]  # fmt: skip


def test_a_given_eid_twice_is_one_event_delivered_twice() -> None:
    one, two = events_of(history("a1#x a1#x"))
    assert one == two


def test_eids_given_by_hand_are_not_given_out() -> None:
    assert [event.eid for event in events_of(history("a1 b2#a1"))] == ["a1'2", "a1"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a1 ?", "line 1, column 4"),
        ("a1\nb2 a1{", "line 2, column 7"),
        ("a1{x=foo}", "quotes"),
        ("a1{x=1 y=2}", "not closed"),
        ('a1{x="abc', "not an attribute"),
        ("h[8,3]", "before it starts"),
        ("h[3, 8]", "near '8]'"),
        ("a1b2", "left over"),
        ("a1#x b2#x", "already"),
        ("a99999999999999999999", "too far"),
        ("@A", "not an event"),
        ("17", "not an event"),
    ],
)
def test_errors_show_the_place_and_a_hint(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        history(text)
    assert message in str(caught.value)
    assert caught.value.hint


@given(st.text(alphabet="ab1#@[]{},|=>\"*\\ -._'", max_size=30))
def test_garbage_is_read_or_refused(text: str) -> None:
    try:
        read = len(history(text))
    except TocsinError:
        read = 0
    assert read <= len(text)


def test_writing_is_as_short_as_it_is_unique() -> None:
    events = events_of(history("a1 a1 b2#x b2#y Shelf@9#z h[3,8]{v=1}"))
    assert [write(event, events) for event in events] == ["a1", "a1'2", "b2#x", "b2#y", "Shelf@9", "h[3,8]"]
    assert write(events[2]) == "b2"


def test_finding_reads_what_writing_wrote() -> None:
    events = events_of(history("a1 a1 b2#x b2#y Shelf@9#z h[3,8] c3#q"))
    assert [find(write(event, events), events) for event in events] == events
    assert find("h3|8", events) == events[5]
    assert find("c3#q", events) == find("c3", events)
    assert find("c4", events) is None
    assert find("c3#other", events) is None
    with pytest.raises(InputError, match="several"):
        find("b2", events)
    with pytest.raises(InputError, match="not an event"):
        find("?", events)


# --- times ---------------------------------------------------------------------------------------------------------

MINUTE = 60_000_000


@pytest.mark.parametrize(
    ("text", "minutes", "spelled"),
    [
        ("Shelf@09:00", 540, "Shelf@09:00"),
        ("Shelf@9:00", 540, "Shelf@09:00"),
        ("Shelf@09:00:30", 540.5, "Shelf@09:00:30"),
        ("Shelf@00:00:00.5", 1 / 120, "Shelf@00:00:00.5"),
        ("Shelf@1970-01-02T00:01", 1441, "Shelf@1970-01-02T00:01"),
        ("Shelf@1970-01-02", 1440, "Shelf@1970-01-02T00:00"),
        ("Shelf@1970-01-01T09:00Z", 540, "Shelf@09:00"),
        ("Shelf@1970-01-01T09:00+01:00", 480, "Shelf@08:00"),
        ("Shelf@90s", 1.5, "Shelf@00:01:30"),
        ("Shelf@1h30min", 90, "Shelf@01:30"),
        ("a-5min", -5, "a1969-12-31T23:55"),
        ("h[09:00,09:30]", 540, "h[09:00,09:30]"),
    ],
)
def test_times_are_microseconds_and_are_spelled_shortly(text: str, minutes: float, spelled: str) -> None:
    (event,) = events_of(history(text))
    assert event.start == minutes * MINUTE
    assert event.eid == spelled == write(event, (), times_in(text))
    assert find(text, [event], times_in(text)) == event


def test_a_time_unit_gives_plain_numbers_a_length() -> None:
    times = times_in("a1 b90s", "min")
    first, second = events_of(history("a1 b90s", times))
    assert (first.start, second.start) == (MINUTE, 1.5 * MINUTE)
    assert (first.eid, second.eid) == ("a1", "b00:01:30")
    assert history("@A>5", times) == [Promise("A", 5 * MINUTE)]


@pytest.mark.parametrize(
    ("text", "unit", "message"),
    [
        ("a1 b09:00", None, "plain number among times"),
        ("a25:00", None, "25:00 is no time"),
        ("a2026-02-30", None, "2026-02-30 is no time"),
        ("a0.5us", None, "finer than a microsecond"),
        ("@A>7 b09:00", None, "plain number among times"),
        ("a1", "weeks", "no unit of time"),
    ],
)
def test_times_that_say_nothing(text: str, unit: str | None, message: str) -> None:
    with pytest.raises(InputError, match=message):
        history(text, times_in(text, unit))


@given(st.integers(-(10**15), 10**15))
def test_times_are_read_as_they_are_written(micros: int) -> None:
    times = WrittenTimes(ANY_UNIT)
    assert times.read(times.write(micros)) == micros
