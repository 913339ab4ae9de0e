"""No answer waits for a compiler: plain bodies answer until machine code is there, and the change shows in nothing."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tocsin
from tests.effort import examples
from tests.test_threads import drawn, in_layout
from tocsin import compilers
from tocsin.compilers import NEEDED, RARER, Compilers, Loops, compiled_by, started
from tocsin.encode import eids
from tocsin.engine import branch, kernels, tiers
from tocsin.engine.tiers import Tiers
from tocsin.events import Event, eid_number
from tocsin.items import Strings

WAYS = (
    ("EVENT SEQ(A a, B b, C c) WHERE [k] AND c.v > a.v WITHIN 9", "in-order"),
    ("EVENT SEQ(A a, B+ b, !C c) WHERE [k] AND sum(b.v) > 1 WITHIN 9", "in-order"),
    ("EVENT OR(SEQ(A a, !B b, C c), AND(A a, B b)) WHERE [k] WITHIN 5", "conservative(6)"),
    ("EVENT SEQ(A a, !B b, C c) WHERE a.m < c.m WITHIN 5", "aggressive(6)"),
)


@pytest.fixture
def soon(monkeypatch):
    """As users run it: what is not compiled is compiled elsewhere."""
    monkeypatch.setenv("TOCSIN_COMPILE_FIRST", "0")


def changing(draw: random.Random) -> Any:
    """A choice of bodies that changes its mind at any time."""
    ready: dict[str, kernels.Kernel] = {}

    def best(self: Tiers, rows: int, *, careful: bool) -> kernels.Kernel:
        del rows, careful
        fast = ready.get(self._program.source)
        if fast is None:
            fast = ready[self._program.source] = kernels.compiled(self._program, {})
        return draw.choice((self.plain, fast))

    return best


def rows_of(events: list[Event], draw: random.Random, late: int) -> list[dict[str, Any]]:
    """The events as they arrive: up to so much late, some without a value."""
    arrivals = sorted(events, key=lambda event: event.end + draw.randrange(late + 1)) if late else events
    return [
        {"type": event.type, "time": event.end, **event.attrs, "v": None if draw.random() < 0.1 else event.attrs["v"]}
        for event in arrivals
    ]


def streamed(text: str, order: str, pushes: list[Any], *, jit: bool) -> list[list[dict[str, Any]]]:
    """What each push says."""
    schema = {"*": {"k": "text", "m": "text", "v": "int"}}
    session = tocsin.query(text).stream(order=order, schema=schema, time_unit="us", jit=jit, endless=False)
    return [*(list(session.push(each)) for each in pushes), list(session.close())]


@pytest.mark.jit
@pytest.mark.parametrize(("text", "order"), WAYS)
def test_bodies_take_turns_and_nobody_sees_it(text, order, soon, monkeypatch):
    monkeypatch.setattr(branch, "FEW_ROWS", 3)
    for number in range(examples(40, least=6)):
        draw = random.Random(f"{text}{number}")
        monkeypatch.setattr(Tiers, "best", changing(draw))
        rows = rows_of(drawn(draw, 60), draw, 0 if order == "in-order" else 5)
        pushes: list[Any] = []
        while rows:
            size = draw.choice((1, 1, 2, 20))
            pushes.append(rows[0] if size == 1 else rows[:size])
            rows = rows[size:]
        assert streamed(text, order, pushes, jit=True) == streamed(text, order, pushes, jit=False)


@pytest.mark.jit
def test_a_table_that_many_threads_read_while_bodies_change(soon, monkeypatch):
    monkeypatch.setattr(branch, "FEW_ROWS", 5)
    text = WAYS[0][0]
    for number in range(examples(30, least=5)):
        draw = random.Random(number)
        monkeypatch.setattr(Tiers, "best", changing(draw))
        table = in_layout(drawn(draw, 80), pa.string(), draw, eids=False)
        one = tocsin.query(text).detect(table, jit=False)
        found = tocsin.query(text).detect(table, threads=draw.choice((1, 3)))
        assert list(found) == list(one)
        assert found.counters == one.counters


def test_what_is_not_worth_it_is_never_compiled(soon, monkeypatch):
    asked: list[Any] = []
    monkeypatch.setattr(Compilers, "ask", lambda self, key, *_: asked.append(key))
    rows = [{"type": "AB"[at % 2], "time": at} for at in range(tiers.WORTH_ROWS // 2)]
    assert len(tocsin.query("EVENT SEQ(A unworthy, B b) WITHIN 1").detect(rows)) == len(rows) // 2
    assert not asked


class Recorded:
    """A program whose compilation is only written down."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, careful: bool = True) -> None:
        monkeypatch.setattr(tiers, "_shapes", {})
        self.asked: list[tuple[bool, int]] = []
        self.jobs: dict[bool, compilers.Compilation[Any]] = {}
        program: Any = type("Program", (), {"source": "a source"})()
        first = kernels.Kernel(len, len, None, jit=True, whole=not careful)
        loaded = {False: first, True: kernels.Kernel(len, len, None, jit=True)}
        monkeypatch.setattr(kernels, "plain", lambda *_: kernels.Kernel(len, len, None, jit=False))
        monkeypatch.setattr(kernels, "is_on_disk", lambda _: False)

        def ask(_: Any, key: tuple[str, bool], work: Any, load: Any, *how: Any) -> compilers.Compilation[Any]:
            rank, rule = how
            assert rule == "the query"
            self.asked.append((key[1], rank))
            return self.jobs.setdefault(key[1], compilers.Compilation(None, lambda: loaded[key[1]]))

        monkeypatch.setattr(Compilers, "ask", ask)
        self.tiers = Tiers(program, {}, Strings())


def test_what_rows_with_nulls_need_is_compiled_later_unless_they_come(monkeypatch):
    program = Recorded(monkeypatch)
    best = program.tiers.best
    assert not best(1, careful=False).jit
    assert program.asked == []
    program.tiers.worked(tiers.WORTH_ROWS, 0.0)
    assert not best(1, careful=False).jit
    assert program.asked == [(False, NEEDED)]
    program.jobs[False].finish()
    assert best(1, careful=False).jit
    assert not best(1, careful=True).jit  # the plain body takes these
    assert program.asked == [(False, NEEDED), (True, RARER), (True, NEEDED)]
    program.jobs[True].finish()
    assert best(1, careful=True).jit
    assert program.tiers.is_final


def test_a_body_that_works_long_over_few_rows_is_compiled(monkeypatch):
    program = Recorded(monkeypatch)
    program.tiers.worked(10, tiers.WORTH_SECONDS)
    program.tiers.best(1, careful=False)
    assert program.asked == [(False, NEEDED)]


def test_what_fails_to_compile_is_told(monkeypatch):
    program = Recorded(monkeypatch)
    program.tiers.worked(tiers.WORTH_ROWS, 0.0)
    program.tiers.best(1, careful=False)
    program.jobs[False].load = lambda: 1 // 0
    program.jobs[False].finish()
    with pytest.raises(ZeroDivisionError):
        program.tiers.best(1, careful=False)


# --- the compilers -------------------------------------------------------------------------------------------------


def test_what_is_needed_first_is_compiled_first_and_once(monkeypatch):
    done: list[str] = []
    one = Compilers(most=1)
    begun = one.ask("begun", None, lambda: time.sleep(0.2))
    while not begun.is_taken:
        time.sleep(0.001)
    jobs = [one.ask(name, None, lambda name=name: done.append(name) or name, rank) for name, rank in (
        ("rare", RARER), ("first", NEEDED), ("second", NEEDED), ("rare and needed", RARER),
    )]  # fmt: skip
    assert one.ask("rare and needed", None, str, NEEDED) is jobs[-1]
    assert one.ask("first", None, str) is jobs[1]
    for job in jobs:
        job.wait(10)
    assert done == ["first", "second", "rare and needed", "rare"]
    assert [job.found for job in jobs] == ["rare", "first", "second", "rare and needed"]


def test_who_watches_is_told_which_rule_is_compiled(monkeypatch, caplog):
    monkeypatch.setattr(compilers, "compiled_by", lambda process, work: process)
    going = threading.Event()
    some = Compilers(most=1)
    assert some.at is None
    jobs = [some.ask(name, (print, ()), lambda: going.wait(5), rule=name) for name in ("theft", "gang")]
    shared = some.ask("loops", (print, ()), bool)  # nobody's rule
    assert str(some.at) == "compiling theft (1 of 2)"
    with caplog.at_level("INFO", "tocsin"):
        going.set()
        for job in (*jobs, shared):
            job.wait(5)
    assert some.at is None
    assert [record.name for record in caplog.records] == ["tocsin"] * len(caplog.records)
    assert "compiled theft in" in caplog.text
    later = threading.Event()
    one = some.ask("third", (print, ()), lambda: later.wait(5), rule="third")
    assert (some.at.number, some.at.rules) == (1, 1)  # the count begins anew
    later.set()
    one.wait(5)


def test_compilers_end_when_they_are_idle(monkeypatch):
    monkeypatch.setattr(compilers, "IDLE", 0.05)
    several = Compilers(most=2)
    jobs = [several.ask(number, None, lambda: True) for number in range(5)]
    deadline = time.monotonic() + 10
    while several._threads and time.monotonic() < deadline:
        time.sleep(0.01)
    assert several._threads == several._free == 0
    assert all(job.found for job in jobs)
    again = several.ask("again", None, lambda: True)
    again.wait(10)
    assert again.found


def test_a_process_that_fails_or_dies_costs_only_time():
    process = compiled_by(None, (os.getpid, ()))
    assert process is not None
    assert compiled_by(process, (os.getcwd, ())) is process
    assert compiled_by(process, (int, ("no number",))) is None  # it has said so, and another one is started
    assert process.poll() is not None
    assert compiled_by(None, (os._exit, (3,))) is None
    assert compiled_by(None, (lambda: None, ())) is None  # cannot be sent


def test_a_compiler_ends_with_its_parent():
    process = started()
    assert process is not None
    process.communicate()  # closes its input
    assert process.returncode == 0


def test_nothing_is_started_where_python_is_not_there(monkeypatch):
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert started() is None


FIRST_ANSWER = """
import sys, time, tocsin
query = tocsin.query("EVENT SEQ(A soonest, B b) WHERE [user] AND b.v > soonest.v WITHIN 50")
session = query.stream(time_unit="us")
row = lambda at: {"type": "AB"[at * at % 7 % 2], "time": at, "user": "u%d" % (at % 3), "v": at % 11}
session.push(row(0))
branch = session._graph.detectors[0].branches[0]
found, at = [], 1
while not branch._jit:
    found += [match["match_id"] for match in session.push(row(at))]
    at += 1
    if at == 2000:
        assert found and "numba" not in sys.modules
    if at > 5000:
        time.sleep(0.001)
swapped = at
while at < swapped + 100:
    found += [match["match_id"] for match in session.push(row(at))]
    at += 1
whole = query.detect([row(at) for at in range(at)], time_unit="us", jit=False)
assert found == [match["match_id"] for match in whole]
print("fine", swapped > 2000)
"""


@pytest.mark.jit
@pytest.mark.long
def test_the_first_answers_come_without_numba_and_the_later_ones_compiled():
    environment = {**os.environ, "TOCSIN_COMPILE_FIRST": "0"}
    done = subprocess.run(
        [sys.executable, "-c", FIRST_ANSWER], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.stdout, done.stderr) == ("fine True\n", "")


# --- loops that are the same for all queries -----------------------------------------------------------------------


def test_texts_are_hashed_alike_with_and_without_the_loop():
    draw = random.Random(5)
    for count in (0, 1, 3, eids.FEW + 1, 200):
        texts = [
            "".join(draw.choice("aß\0日") for _ in range(draw.choice((0, 1, 7, 8, 9, 40, 100)))) for _ in range(count)
        ]
        array = pa.array(texts, pa.large_string())
        _, offsets, data = array.buffers()
        raw = np.frombuffer(data if data is not None and data.size else bytes(1), np.uint8)
        high, low = np.zeros(count, np.int64), np.zeros(count, np.int64)
        places = np.frombuffer(offsets, np.int64)[: count + 1] if count else np.zeros(1, np.int64)
        eids.hash_rows_plainly(places, raw, high, low)
        assert list(zip(high.tolist(), low.tolist(), strict=True)) == [eid_number(text) for text in texts]


def test_copies_are_found_alike_with_and_without_the_loop(monkeypatch):
    draw = random.Random(2)
    rows = [
        {
            "type": draw.choice("AB"),
            "time": at // 4,
            "id": f"e{draw.randrange(at // 4, at // 4 + 3)}",
            "v": draw.randrange(2),
        }
        for at in range(800)
    ]
    query = tocsin.query("EVENT SEQ(A a, B b) WITHIN 3")
    table = pa.Table.from_pylist(rows)
    for order in ("in-order", "aggressive(5)"):
        one = query.detect(table, eid="id", order=order, jit=False)
        with monkeypatch.context() as patch:
            patch.setattr(Loops, "are_worth", lambda *_: False)
            other = query.detect(table, eid="id", order=order, jit=False)
        assert list(other) == list(one)
        assert other.counters == one.counters
        assert one.counters["duplicates"] and one.counters["conflicting"]
