"""A whole table through `detect`: any number of threads, any pieces and any layout of texts give the same matches."""

from __future__ import annotations

import itertools
import os
import pickle
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import tocsin
from tests.effort import examples
from tests.test_staged import SCHEMA as STAGED_SCHEMA
from tests.test_staged import agrees, row_of, rows_of
from tocsin.encode import rehearsal, row_types, survey, text_numbers, whole
from tocsin.encode.row_types import RowTypes
from tocsin.encode.text_numbers import TextNumbers, numbered_column, numbered_names
from tocsin.encode.thread_team import ThreadTeam
from tocsin.errors import InputError, TocsinError
from tocsin.events import Event
from tocsin.lang import syntax
from tocsin.run import answers, feeds, finite, pace, slices
from tocsin.run.declared import declare
from tocsin.run.query import Query
from tocsin.run.split import why_not
from tocsin.testing import strategies
from tocsin.testing.draw_clauses import with_clauses
from tocsin.testing.draw_staged import drawn_history, drawn_statements
from tocsin.testing.harness import Harness
from tocsin.testing.staged_oracle import staged_events

QUERIES = (
    "EVENT SEQ(A a, B b, C c) WHERE [k] AND c.v > 2 WITHIN 9",
    "EVENT SEQ(A a, !B b, C c) WHERE [k] WITHIN 9",
    "EVENT SEQ(A a, B+ b, C c) WHERE [k] WITHIN 9",
    "EVENT SEQ(A a, B b, !C c) WHERE [k] WITHIN 5",
    "EVENT OR(SEQ(A a, B b), AND(A a, C c)) WHERE [k] WITHIN 5",
    "EVENT EXISTS b : SEQ(A a, B b, C c) WHERE [k] WITHIN 9",
    "EVENT SEQ(A a, C c) WHERE a.k = c.m WITHIN 6",
    "EVENT SEQ(A a, B b) WHERE a.v < b.v WITHIN 3",
    "EVENT SEQ(A a, B b) WHERE [k, m] WITHIN 20",
    "EVENT SEQ(A a, B b, C c) WHERE [k] WITHIN 5 TIMEOUT",  # rows of three kinds
    "EVENT SEQ(A a, B b) WHERE a.v < b.v WITHIN 3 TIMEOUT",
    "EVENT SEQ(A a, FIRST B b, C? c) WHERE [k] WITHIN 9",
    "EVENT SEQ(A a, NEXT B* b, !C c FOR 2) WHERE [k] WITHIN 9",
    "EVENT SEQ(A a, B+ b, !C c FOR 4) WHERE [k] WITHIN 5",  # until when it waits is known once the set is
)
NAMES = (
    "u",
    "ü",
    "user-0001",
    "user-0001\0",
    "",
    "日本語テキスト",
    "longer than sixteen bytes",
    "x" * 300,
)
LAYOUTS = (pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string()))


@pytest.fixture(autouse=True)
def tiny_pieces(monkeypatch):
    """Everything that is done only with much input is done with little."""
    monkeypatch.setattr(whole, "MANY_TEXTS", 1)
    monkeypatch.setattr(row_types, "MANY", 1)
    monkeypatch.setattr(row_types, "AT_ONCE", 7)
    monkeypatch.setattr(text_numbers, "AT_ONCE", 5)
    monkeypatch.setattr(pace, "ROWS_PER_CHUNK", 11)
    monkeypatch.setattr(feeds, "MANY", 1)
    monkeypatch.setattr(survey, "MANY", 1)
    monkeypatch.setattr(survey, "AT_ONCE", 9)
    monkeypatch.setattr(answers, "WORTH_A_THREAD", 3)


def drawn(draw: random.Random, count: int) -> list[Event]:
    """Events of four types and a few keys in order of time, some at one time, some without a key."""
    times = sorted(draw.randrange(count) for _ in range(count))
    keys = draw.sample(NAMES, 3)
    return [
        Event(draw.choice("AABBCCD"), at, at, eid, {
            "k": draw.choice([*keys, *keys, None]), "m": draw.choice(keys), "v": draw.randrange(5),
        })
        for eid, at in enumerate(times)
    ]  # fmt: skip


def in_layout(events: list[Event], layout: pa.DataType, draw: random.Random, *, eids: bool) -> pa.Table:
    """The events as a table: texts of one layout, in pieces that begin somewhere in a buffer, sorted or not."""
    columns = {
        "type": pa.array([event.type for event in events], pa.string()).cast(layout),
        "time": pa.array([event.end for event in events], pa.int64()),
        "k": pa.array([event.attrs["k"] for event in events], pa.string()).cast(layout),
        "m": pa.array([event.attrs["m"] for event in events], pa.string()).cast(layout),
        "v": pa.array([event.attrs["v"] for event in events], pa.int64()),
    }
    if eids:
        columns["eid"] = pa.array([event.eid for event in events], pa.int64())
    every = pa.table(columns)
    cuts = sorted({0, len(events), *(draw.randrange(len(events) + 1) for _ in range(draw.randrange(4)))})
    return pa.concat_tables([every.slice(a, b - a) for a, b in itertools.pairwise(cuts)]) if len(events) else every


def bindings(found: tocsin.Matches) -> Counter[tuple[tuple[str, frozenset[int]], ...]]:
    """For each match its variables and the eids of their events."""
    counted: Counter[tuple[tuple[str, frozenset[int]], ...]] = Counter()
    for match in found:
        bound = []
        for name in (name for name in found.columns() if name != "step"):
            events = match[name] if isinstance(match[name], list) else [match[name]]
            if eids := frozenset(event["eid"] for event in events if event is not None):
                bound.append((name, eids))
        counted[tuple(sorted(bound, key=str))] += 1
    return counted


def wanted(text: str, events: list[Event]) -> Counter[tuple[tuple[str, frozenset[int]], ...]]:
    """The same by the definition."""
    counted: Counter[tuple[tuple[str, frozenset[int]], ...]] = Counter()
    for binding in Harness(text).expected(events):
        counted[tuple(sorted(((name, frozenset(eids)) for name, eids in binding), key=str))] += 1
    return counted


@pytest.mark.parametrize("text", QUERIES)
def test_any_threads_and_layouts_give_the_oracles_answers(text):
    for number in range(examples(60, least=2)):
        draw = random.Random(f"{text}{number}")
        events = drawn(draw, draw.choice((0, 1, 30, 60)))
        table = in_layout(events, draw.choice(LAYOUTS), draw, eids=True)
        found = tocsin.query(text).detect(table, threads=draw.choice((1, 2, 3, 5)), jit=False)
        assert bindings(found) == wanted(text, events)


@pytest.mark.parametrize("text", QUERIES)
def test_order_ids_and_counters_do_not_depend_on_threads_and_layouts(text, monkeypatch):
    ways = ways_taken(monkeypatch)
    for number in range(examples(60, least=3)):
        draw = random.Random(f"ids {text}{number}")
        events = drawn(draw, 60)
        eids = draw.random() < 0.3
        plain = in_layout(events, pa.string(), draw, eids=eids)
        if draw.random() < 0.3:  # not in order of time
            plain = plain.take(draw.sample(range(len(events)), len(events)))
        monkeypatch.setattr(slices, "MOST_AROUND", 1 if number % 2 else 10**9)
        one = tocsin.query(text).detect(plain, threads=1, jit=False)
        for layout, threads in ((draw.choice(LAYOUTS), 2), (draw.choice(LAYOUTS), 4)):
            fields = [field.with_type(layout) if field.type == pa.string() else field for field in plain.schema]
            other = tocsin.query(text).detect(plain.cast(pa.schema(fields)), threads=threads, jit=False)
            assert list(map(dict, other)) == list(map(dict, one))
            assert other.counters == one.counters
    assert ways == ({"slices"} if "a.v < b.v" in text else {"slices", "keys"})


@pytest.mark.filterwarnings("ignore")
def test_statements_give_the_same_answers_with_any_number_of_threads():
    """And those of their definition, whether they are divided by keys or run as they come, and queries beside them."""
    found = 0
    count = examples(200, least=12)
    for seed in range(count):
        draw = random.Random(f"statements {seed}")
        statements, events = drawn_statements(draw), drawn_history(draw, length=60, last=draw.choice((20, 60)))
        beside = tocsin.query("QUERY Beside EVENT SEQ(A a, B b) WHERE a.k = b.k WITHIN 4").queries
        several = (*statements, *(beside if draw.random() < 0.4 else ()))
        query = Query(several, declare(STAGED_SCHEMA))
        if not agrees(query):
            continue
        given = [{**dict.fromkeys("kxy"), **row_of(event)} for event in events]
        rows = pa.Table.from_pylist(given)
        how = {"time": "start", "end": "end", "eid": "id", "jit": False}
        one = query.detect(rows, threads=1, **how)
        for threads in (draw.choice((2, 3)), None):
            other = query.detect(rows, threads=threads, **how)
            assert [each.to_pylist() for each in other.tables()] == [each.to_pylist() for each in one.tables()], seed
            assert other.counters == one.counters, seed
        defined = Counter((e.type, e.start, e.end, *e.attrs.values()) for e in staged_events(statements, events))
        assert Counter(row for row in rows_of(one) if row[0] != "Beside") == defined, seed
        found += bool(defined)
    assert found > count / 4


def ways_taken(monkeypatch) -> set[str]:
    """How work is shared from now on: by slices of time, by keys."""
    ways: set[str] = set()
    for way, name in (("slices", "run_in_slices"), ("keys", "run_by_key")):
        run = getattr(finite, name)
        monkeypatch.setattr(finite, name, lambda *given, way=way, run=run: ways.add(way) or run(*given))
    return ways


def test_rows_one_by_one_give_the_same_ids_as_a_table():
    for number, text in enumerate(QUERIES):
        draw = random.Random(number)
        table = in_layout(drawn(draw, 40), pa.string(), draw, eids=False)
        live = tocsin.query(text).stream(jit=False, endless=False)
        found = [match for row in table.to_pylist() for match in live.push(row)]
        ids = [match["match_id"] for match in (*found, *live.close())]
        assert sorted(ids) == sorted(match["match_id"] for match in tocsin.query(text).detect(table, jit=False))


def test_rows_that_nobody_reads_pass_time_and_are_counted():
    rows = [("A", 1), ("B", 2), ("D", 3), ("D", 30)]
    table = pa.table({"type": [type for type, _ in rows], "time": [time for _, time in rows], "k": ["x"] * 4})
    query = tocsin.query("EVENT SEQ(A a, B b, !C c) WHERE [k] WITHIN 5")
    for threads in (1, 2):
        found = query.detect(table, threads=threads, jit=False)
        assert [match["settled_at"] for match in found] == [6]
        assert (found.counters["events"], found.counters["relevant"]) == (4, 2)
        found = query.detect(table.slice(0, 3), threads=threads, jit=False)  # the events end before the window does
        assert [match["settled_at"] for match in found] == [6]


def test_duplicates_are_counted_once_however_they_are_split():
    rows = [("A", 1, key, eid) for eid, key in enumerate("abcdefgh") for _ in range(3)]
    rows += [("B", 2, key, 100 + eid) for eid, key in enumerate("abcdefgh")]
    table = pa.table({name: [row[at] for row in rows] for at, name in enumerate(("type", "time", "k", "eid"))})
    query = tocsin.query("EVENT OR(SEQ(A a, B b), SEQ(A a, C c)) WHERE [k] WITHIN 9")
    counted = [query.detect(table, threads=threads, jit=False).counters for threads in (1, 2, 3, 8)]
    assert counted[0]["duplicates"] == 16
    assert all(each == counted[0] for each in counted)


def test_what_cannot_be_split_says_why():
    schema = declare({"*": {"k": "text", "m": "text"}})

    def reason(text: str) -> str | None:
        return why_not(Harness(text, schema).start().graph)

    assert reason("EVENT SEQ(A a, B b) WHERE [k] WITHIN 9") is None
    assert "no key" in str(reason("EVENT SEQ(A a, B b) WITHIN 9"))
    assert "matches" in str(reason("QUERY p EVENT SEQ(A a, B b) WHERE [k] WITHIN 9; EVENT SEQ(p x, C c) WITHIN 9"))
    assert "different keys" in str(reason("EVENT SEQ(A a, A b, C c) WHERE a.k = b.m AND b.m = c.k WITHIN 9"))


@pytest.mark.parametrize("threads", [0, -1, 1.5, True, "2", 10**9])
def test_no_number_of_threads_is_refused(threads):
    with pytest.raises(TocsinError, match="is no number of threads"):
        tocsin.query("EVENT A a").detect([], threads=threads)


# --- the pieces ----------------------------------------------------------------------------------------------------


def test_equal_texts_have_equal_numbers_whatever_their_length():
    draw = random.Random(3)
    for _ in range(examples(300, least=20)):
        lengths = (0, 1, 7, 8, 9, 15, 16, 17, 24, 25, 254, 255, 256, 300)
        count = draw.choice((1, 900))
        pool = ["".join(draw.choice("ab\0é") for _ in range(draw.choice(lengths))) for _ in range(count)]
        texts = [draw.choice([*pool, None]) for _ in range(draw.choice((0, 1, 1500)))]
        array = pa.array(texts, draw.choice(LAYOUTS[:3])).slice(draw.randrange(len(texts) + 1))
        rows = np.flatnonzero([draw.random() < 0.5 for _ in range(len(array))]) if draw.random() < 0.5 else None
        numbers = TextNumbers()
        numbers.number(pa.array(["seen before"]))
        found = numbers.number(array, rows)
        known = numbers.texts()
        assert len(set(known)) == len(known)
        given = array.to_pylist() if rows is None else [array[int(row)].as_py() for row in rows]
        assert [None if number < 0 else known[number] for number in found] == given


def test_a_column_is_numbered_by_many_threads_as_by_one():
    column = pa.chunked_array([pa.array([str(at % 7) for at in range(40)]), pa.array([None, "x", "3"])])
    with ThreadTeam(3) as workers:
        names, codes = numbered_column(column, workers=workers)
    assert [None if code < 0 else names[code] for code in codes] == column.to_pylist()
    assert RowTypes.of(column).occurring() == ["0", "1", "2", "3", "4", "5", "6", "x"]


@pytest.mark.parametrize("count", [1, 125, 126, 127, 128, 300])
@pytest.mark.parametrize("threads", [1, 3])
def test_few_names_have_numbers_of_a_byte_and_many_have_larger_ones(count, threads):
    draw = random.Random(count)
    texts = [f"type {draw.randrange(count)}" for _ in range(60)] + [f"type {at}" for at in range(count)]
    column = pa.chunked_array([pa.array(texts[:50]), pa.array(texts[50:], pa.string())])
    with ThreadTeam(threads) as workers:
        names, codes = numbered_names(column, workers)
        types = RowTypes.of(column, workers)
    assert [names[code] for code in codes] == texts
    assert codes.dtype == (np.int8 if count <= 126 else np.int32)
    assert types.occurring() == types.occurring(np.ones(len(texts), np.bool_)) == sorted(set(texts))


@pytest.mark.jit
def test_all_loops_are_rehearsed():
    """What a run over tables of many kinds calls was compiled by the rehearsal before."""
    from tocsin.encode import loops

    rehearsal.rehearse()
    before = {name: list(value.signatures) for name, value in vars(loops).items() if hasattr(value, "signatures")}
    draw = random.Random(1)
    for layout in (pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())):
        for eids_too in (False, True):
            table = in_layout(drawn(draw, 60), layout, draw, eids=eids_too)
            for threads in (1, 3):
                tocsin.query("EVENT SEQ(A a, C c) WHERE c.v > 2 WITHIN 3").detect(table, threads=threads, jit=False)
                tocsin.query(QUERIES[0]).detect(table, threads=threads, jit=False)
    after = {name: list(value.signatures) for name, value in vars(loops).items() if hasattr(value, "signatures")}
    assert after == before


def test_offsets_that_lie_and_texts_that_are_none_are_refused():
    offsets = np.array([0, 2, 4], np.int32)
    broken = pa.StringArray.from_buffers(2, pa.py_buffer(offsets), pa.py_buffer(b"abcd"))
    offsets[2] = 9  # the buffer is the same memory
    with pytest.raises(InputError, match="offsets point outside"):
        TextNumbers().number(broken)
    odd = pa.StringArray.from_buffers(1, pa.py_buffer(np.array([0, 2], np.int32)), pa.py_buffer(b"\xff\xfe"))
    numbers = TextNumbers()
    numbers.number(odd)
    with pytest.raises(InputError, match="not valid UTF-8"):
        numbers.texts()


def test_an_error_of_one_thread_is_the_error_of_all():
    def fails(at: int) -> int:
        if at % 2:
            raise ValueError(f"piece {at}")
        return at

    with ThreadTeam(2) as workers, pytest.raises(ValueError, match="piece 1"):
        workers.all([lambda at=at: fails(at) for at in range(6)])


def test_matches_are_counted_before_a_table_is_made():
    made = []
    found = tocsin.Matches(lambda: made.append(1) or [pa.table({"query": ["q"] * 3})], count=3)
    assert len(found) == 3
    assert not made
    assert found.table().num_rows == 3
    assert len(pickle.loads(pickle.dumps(found))) == 3
    assert made == [1]


INTERRUPTED = """
import sys, threading
import numpy as np, pyarrow as pa, tocsin
count = 3_000_000
draw = np.random.default_rng(1)
table = pa.table({
    "type": pa.DictionaryArray.from_arrays(draw.integers(0, 2, count), ["A", "B"]),
    "time": np.arange(count), "k": draw.integers(0, 50, count),
})
query = tocsin.query("EVENT SEQ(A a, B b, A c, B d) WHERE a.k + b.k + c.k + d.k < 0 WITHIN 400")
begun = []
def watch(rows, matches):
    if not begun and rows:
        begun.append(print("begun", flush=True))
try:
    query.detect(table, threads=THREADS, watch=watch)
except KeyboardInterrupt as stop:
    left = [thread.name for thread in threading.enumerate() if thread.name.startswith("tocsin_")]
    print(*stop.__notes__, left, flush=True)
"""


@pytest.mark.jit
@pytest.mark.slow
@pytest.mark.parametrize(
    ("threads", "compile_first"),
    [(2, "1"), pytest.param(1, "1", marks=pytest.mark.long), pytest.param(2, "0", marks=pytest.mark.long)],
)
def test_an_interrupt_stops_all_threads_and_says_how_far_they_came(threads, compile_first):
    """A row takes about a millisecond, so the whole table would take an hour."""
    child = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED.replace("THREADS", str(threads))],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TOCSIN_COMPILE_FIRST": compile_first},
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "begun\n"
    time.sleep(0.3)
    child.send_signal(signal.SIGINT)
    out, _ = child.communicate(timeout=60)
    assert child.returncode == 0
    said = re.fullmatch(r"stopped after ([0-9,]+) of 3,000,000 rows, with 0 matches \[\]\n", out)
    assert said is not None
    assert int(said[1].replace(",", "")) < 60_000  # a few hundred, on a machine that does nothing else


def test_chunks_grow_while_they_are_quick_and_shrink_at_once(monkeypatch):
    monkeypatch.setattr(pace, "ROWS_PER_CHUNK", 512)
    clock = [0.0]
    monkeypatch.setattr(pace, "perf_counter", lambda: clock[0])
    sizes, seconds_per_row = [], 1e-9
    for first, last in pace.Pace().chunks(0, 2_000_000):
        sizes.append(last - first)
        clock[0] += (last - first) * (seconds_per_row if first < 1_000_000 else 1e-4)
    assert sizes[:3] == [512, 1024, 2048]
    assert max(sizes) == pace.MOST_ROWS
    slow = [size for size, begin in zip(sizes, itertools.accumulate([0, *sizes]), strict=False) if begin > 1_000_000]
    assert all(size * 1e-4 <= pace.LONG for size in slow[1:])
    assert sum(sizes) == 2_000_000


# --- columns that somebody made by hand ----------------------------------------------------------------------------


def made(count: int, offsets: np.ndarray, data: bytes, layout: pa.DataType) -> pa.Array:
    """A column over these very offsets: they can be changed behind Arrow's back, which looks at their ends only."""
    return pa.Array.from_buffers(layout, count, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


@pytest.mark.parametrize("role", ["type", "k", "nobody reads it"])
@pytest.mark.parametrize(("layout", "width"), [(pa.string(), np.int32), (pa.large_string(), np.int64)])
@pytest.mark.parametrize("lie", [-5, 10**9])
def test_offsets_that_lie_are_refused_wherever_they_stand(role, layout, width, lie):
    count = 40
    for place in (1, 20, 39, 40):
        offsets = np.arange(0, 2 * count + 1, 2).astype(width)
        odd = made(count, offsets, b"ab" * count, layout)
        table = pa.table({"type": ["A", "B"] * 20, "time": list(range(count)), "k": ["x"] * count} | {role: odd})
        offsets[place] = lie
        with pytest.raises(InputError, match=f"the column '{role}' is broken"):
            tocsin.query("EVENT SEQ(A a, B b) WHERE [k] WITHIN 9").detect(table, jit=False)


@pytest.mark.parametrize("layout", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
@pytest.mark.parametrize("role", ["type", "k", "nobody reads it"])
def test_texts_that_are_no_utf_8_are_refused_when_they_are_read(role, layout):
    odd = made(2, np.array([0, 2, 4], np.int32), b"\xff\xfeab", pa.string())
    odd = odd.cast(layout) if not pa.types.is_dictionary(layout) else pa.DictionaryArray.from_arrays([0, 0], odd)
    columns = {"type": ["A", "B"], "time": [1, 2], "k": ["x", "x"]}
    with pytest.raises(InputError, match="not valid UTF-8"):
        list(tocsin.query("EVENT SEQ(A a, B b) WHERE [k] WITHIN 9").detect(pa.table(columns | {role: odd}), jit=False))


def test_a_live_stream_refuses_columns_that_lie_and_goes_on():
    session = tocsin.query("EVENT SEQ(A a, B b) WHERE [k] WITHIN 9").stream(jit=False, time_unit="us")
    offsets = np.array([0, 1, 2, 3], np.int32)
    batch = pa.record_batch({"type": ["A", "B", "A"], "time": [1, 2, 3], "k": made(3, offsets, b"xxx", pa.string())})
    offsets[1] = 10**9
    with pytest.raises(InputError, match="the column 'k' is broken"):
        session.push(batch)
    offsets[1] = 1
    assert len(session.push(batch)) == 1


def test_indices_that_lie_are_refused():
    outside = pa.DictionaryArray.from_arrays(pa.array([0, 5], pa.int32()), pa.array(["x"]), safe=False)
    table = pa.table({"type": ["A", "B"], "time": [1, 2], "k": outside})
    with pytest.raises(InputError, match="the column 'k' is broken"):
        tocsin.query("EVENT SEQ(A a, B b) WHERE [k] WITHIN 9").detect(table, jit=False)


def test_a_slice_of_a_column_with_a_lie_elsewhere_is_fine():
    offsets = np.array([0, 10**9, 1, 2], np.int32)
    table = pa.table(
        {"type": ["A", "B"], "time": [1, 2], "k": made(3, offsets, b"xx", pa.string()).slice(2, 1).take([0, 0])}
    )
    assert len(tocsin.query("EVENT SEQ(A a, B b) WHERE [k] WITHIN 9").detect(table, jit=False)) == 1


def test_a_parquet_file_that_was_cut_or_holed_is_refused(tmp_path):
    whole = tmp_path / "whole.parquet"
    parquet.write_table(
        pa.table({"type": ["A", "B"] * 5000, "time": range(10_000), "k": map(str, range(10_000))}), whole
    )
    raw = whole.read_bytes()
    for content in (b"", raw[:3], raw[: len(raw) // 2], raw[:-4], raw[:200] + bytes(4000) + raw[4200:]):
        path = tmp_path / "broken.parquet"
        path.write_bytes(content)
        with pytest.raises(InputError, match="cannot be read as parquet"):
            tocsin.query("EVENT SEQ(A a, B b) WHERE [k] WITHIN 9").detect(path, jit=False)


def test_a_key_of_several_kinds_is_refused_with_its_name(tmp_path):
    query = tocsin.query("EVENT SEQ(A a, B b) WHERE [k] WITHIN 9")
    parquet.write_table(pa.table({"type": ["A"], "time": [1], "k": ["x"]}), tmp_path / "1.parquet")
    parquet.write_table(pa.table({"type": ["B"], "time": [2], "k": [7]}), tmp_path / "2.parquet")
    with pytest.raises(InputError, match="do not have the same columns") as told:
        query.detect(tmp_path, jit=False)
    assert "k" in str(told.value)
    with pytest.raises(TocsinError, match="'k' is int here and text elsewhere"):
        query.detect([{"type": "A", "time": 1, "k": "x"}, {"type": "B", "time": 2, "k": 7}], jit=False)


# --- drawn queries ---------------------------------------------------------------------------------------------------

DRAWN = pa.schema(
    [("type", pa.string()), ("time", pa.int64()), ("eid", pa.int64()), ("id", pa.int64()), ("v", pa.int64()),
     ("w", pa.float64()), ("s", pa.string()), ("ok", pa.bool_()), ("x", pa.int64())]
)  # fmt: skip


def drawn_query(draw: random.Random) -> syntax.Query:
    """Any query, often with clauses after a match, a key and a short window."""
    found = strategies.query(draw, leaves=4)
    if draw.random() < 0.4:
        found = with_clauses(draw, found)
    for more in (
        {"partition": draw.choice((("id",), ("id", "s")))},
        {"within": syntax.Duration(draw.choice((1, 2, 3, 5)))},
    ):
        if draw.random() < 0.7 and strategies.is_valid(replace(found, **more), strategies.POINTS):
            found = replace(found, **more)
    return found if strategies.is_valid(found, strategies.POINTS) else drawn_query(draw)


@pytest.mark.filterwarnings("ignore::tocsin.errors.TocsinWarning")
def test_drawn_queries_tell_the_same_rows_in_the_same_order_however_work_is_cut(monkeypatch):
    """All columns: ids, `settled_at`, the step that did not come."""
    matched = 0
    for number in range(examples(2000, least=20)):
        draw = random.Random(f"drawn {number}")
        query = drawn_query(draw)
        rows = [
            {"type": event.type, "time": event.end, "eid": event.eid, **event.attrs}
            for event in sorted(strategies.history(draw, query, most=40), key=lambda event: event.end)
            if isinstance(event.eid, int)
        ]
        table = pa.Table.from_pylist(rows, schema=DRAWN)
        asked, told = tocsin.query(query), list[list[str]]()
        for threads, pieces in (
            (1, 10**6),
            (1, draw.choice((1, 3, 7))),
            (draw.choice((2, 3, 5)), draw.choice((1, 11))),
        ):
            monkeypatch.setattr(slices, "MOST_AROUND", draw.choice((0.2, 1, 10**9)))
            monkeypatch.setattr(pace, "ROWS_PER_CHUNK", pieces)
            told.append(list(map(str, map(dict, asked.detect(table, eid="eid", threads=threads, jit=False)))))
        assert told[1] == told[0] and told[2] == told[0], (number, str(query))
        matched += bool(told[0])
    assert matched
