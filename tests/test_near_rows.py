"""Rows that are far from the rarest step of a query are dropped before they are encoded, and nothing else changes."""

from __future__ import annotations

import random
from itertools import pairwise

import pyarrow as pa
import pytest

import tocsin
from tests.effort import examples
from tocsin.encode import near_rows
from tocsin.events import Event
from tocsin.run import feeds, pace, slices
from tocsin.testing.harness import Harness

DROPS = (
    "EVENT SEQ(A a, B b, C c) WHERE [k] AND c.v > 2 WITHIN 40",
    "EVENT SEQ(C c, A a, B b) WHERE [k] WITHIN 25",
    "EVENT SEQ(A a, !B b, C c) WHERE [k] WITHIN 40",
    "EVENT SEQ(A a, B+ b, C c) WHERE [k] AND a.v = 1 WITHIN 40",
    "EVENT AND(A a, C c) WHERE [k, m] WITHIN 40",
    "EVENT SEQ(OR(B b, D d), C c) WHERE [n] WITHIN 30",
    "EVENT SEQ(A a, FIRST B b, C c) WHERE [k] WITHIN 40",
    "EVENT SEQ(A a, NEXT B b) WHERE [k] AND b.v = 0 WITHIN 40",
    "EVENT SEQ(!D d, C c, A a) WHERE [k] WITHIN 30",
)
KEEPS = (  # answers that wait, steps that may be absent, hidden events, no key, one with nulls, one of floats, two keys
    "EVENT SEQ(A a, B b, !C c) WHERE [k] WITHIN 40",
    "EVENT SEQ(A a, B? b, C c) WHERE [k] WITHIN 40",
    "EVENT OR(SEQ(A a, B b), SEQ(A a, C c)) WHERE [k] WITHIN 40",
    "EVENT EXISTS b : SEQ(A a, B b) WHERE [k] AND a.v = 1 WITHIN 20",
    "EVENT SEQ(A a, C c) WITHIN 9",
    "EVENT SEQ(A a, C c) WHERE [o] WITHIN 40",
    "EVENT SEQ(A a, C c) WHERE [f] WITHIN 40",
    "EVENT SEQ(A a, C c) WHERE a.k = c.m WITHIN 40",
)
LAYOUTS = (pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int16(), pa.string()))
NAMES = ("u", "ü", "", "user-0001", "user-0001\0", "longer than sixteen bytes", "longer than sixteen bytes!", "日本語")


@pytest.fixture(autouse=True)
def little_is_much(monkeypatch):
    monkeypatch.setattr(feeds, "MANY", 1)
    monkeypatch.setattr(pace, "ROWS_PER_CHUNK", 13)
    monkeypatch.setattr(slices, "MOST_AROUND", 1)


@pytest.fixture
def looked_at(monkeypatch) -> list[int]:
    """How many rows were looked at, and how many of them were kept."""
    counted = [0, 0]
    rows = near_rows.NearRows.rows

    def counting(self, first, last):
        before = self._seen, self._kept
        found = rows(self, first, last)
        counted[0] += self._seen - before[0]
        counted[1] += self._kept - before[1]
        return found

    monkeypatch.setattr(near_rows.NearRows, "rows", counting)
    return counted


def drawn(draw: random.Random, count: int, *, intervals: bool) -> list[Event]:
    """Events in order of their ends, of which those of the type C are rare; times repeat, and have gaps."""
    ends = sorted(draw.randrange(6 * count) for _ in range(count))
    events = []
    for at, end in enumerate(ends):
        name = draw.choice(NAMES[:4] if draw.random() < 0.5 else NAMES)
        attrs = {
            "k": name, "m": draw.choice(NAMES[:3]), "n": len(name), "o": draw.choice((name, None)) if at else None,
            "f": draw.choice((0.0, -0.0, 1.0)), "v": draw.randrange(5),
        }  # fmt: skip
        start = end - (draw.choice((0, 0, 3, 30)) if intervals else 0)
        events.append(Event(draw.choice("AAAAABBBBBDDC"), start, end, None, attrs))
    return events


def in_layout(events: list[Event], draw: random.Random, *, intervals: bool) -> pa.Table:
    """The events as a table in some pieces, with texts in one layout."""
    layout = draw.choice(LAYOUTS)
    texts = {name: pa.array([each.attrs[name] for each in events], pa.string()).cast(layout) for name in "kmo"}
    numbers = {name: pa.array([each.attrs[name] for each in events]) for name in "nfv"}
    times = {"time": pa.array([each.start for each in events], pa.int64())}
    if intervals:
        times["end"] = pa.array([each.end for each in events], pa.int64())
    every = pa.table({"type": [each.type for each in events], **times, **texts, **numbers})
    cuts = sorted({0, len(events), *(draw.randrange(len(events) + 1) for _ in range(draw.randrange(4)))})
    return pa.concat_tables([every.slice(a, b - a) for a, b in pairwise(cuts)])


@pytest.mark.parametrize("text", [*DROPS, *KEEPS])
def test_answers_are_those_of_all_rows(text, monkeypatch, looked_at):
    for number in range(examples(200, least=6)):
        draw = random.Random(f"{text}{number}")
        monkeypatch.setattr(near_rows, "RARE", draw.choice((1, 4)))
        monkeypatch.setattr(near_rows, "MOST_KEPT", draw.choice((0.5, 1)))
        monkeypatch.setattr(near_rows, "BITS", draw.choice((1, 16)))
        monkeypatch.setattr(near_rows, "SAMPLE", draw.choice((5, 1000)))
        intervals = draw.random() < 0.3
        events = drawn(draw, draw.choice((1, 50, 150)), intervals=intervals)
        table = in_layout(events, draw, intervals=intervals)
        columns = {"end": "end"} if intervals else {}
        found = tocsin.query(text).detect(table, jit=False, threads=draw.choice((1, 3)), **columns)
        with monkeypatch.context() as without:
            without.setattr(feeds, "near_of", lambda graph: None)
            every = tocsin.query(text).detect(table, jit=False, threads=1, **columns)
        assert list(found) == list(every)
        assert found.counters == every.counters
        if number < examples(20, least=1):
            named = [Event(each.type, each.start, each.end, at, each.attrs) for at, each in enumerate(events)]
            assert len(found) == len(list(Harness(text).expected(named)))
    assert (looked_at[1] < looked_at[0]) == (text in DROPS), looked_at


@pytest.mark.parametrize("form", ["plain", "coded", "null among the values"])
def test_a_key_with_a_null_keeps_all_rows_and_is_counted(form, looked_at):
    rows = [("A", 1, "x"), ("C", 2, "x"), ("A", 50, None), ("A", 51, "x"), *(("B", 60 + at, "x") for at in range(40))]
    keys = pa.array([row[2] for row in rows])
    if form == "coded":
        keys = keys.dictionary_encode()
    if form == "null among the values":
        keys = keys.dictionary_encode(null_encoding="encode")
    table = pa.table({"type": [row[0] for row in rows], "time": [row[1] for row in rows], "k": keys})
    table = table.append_column("v", pa.array([1.0] * len(rows)))
    query = tocsin.query("EVENT SEQ(A a, C c) WHERE [k] AND a.v > 0 AND c.v > 0 WITHIN 9")
    found = query.detect(table, jit=False, threads=1)
    assert (len(found), found.counters["keyless"], looked_at) == (1, 1, [0, 0])
