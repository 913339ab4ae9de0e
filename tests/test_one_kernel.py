"""One kernel serves a query: nulls of any number of attributes, and withdrawals, whenever they first come."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tocsin.engine import kernels, runtime
from tocsin.engine.runtime.library import PARTS
from tocsin.events import Event
from tocsin.schema import Field, Kind, Schema
from tocsin.testing.harness import Harness

LATE = "EVENT SEQ(A a, !C c, B b) WHERE [id] AND b.v > a.v AND a.w IS NOT NULL WITHIN 50"
NULLABLE = Schema(common={name: Field(name, Kind.INT) for name in ("id", "v", "w")}, open_types=True, intervals=False)


def wide(count: int) -> tuple[str, Schema]:
    """A query that keeps `count` nullable attributes of A until B comes, and asks about the null-ness of each."""
    names = [f"x{number}" for number in range(count)]
    asked = " AND ".join(f"(a.{name} IS NULL OR a.{name} < b.least)" for name in names)
    fields = {name: Field(name, Kind.INT) for name in (*names, "least")}
    return f"EVENT SEQ(A a, B b) WHERE {asked}", Schema(common=fields, open_types=True, intervals=False)


def history(random: Random, count: int) -> list[Event]:
    """Events of A with a value that is too large hidden in one place, or null there; and of B."""
    events = []
    for time in range(24):
        if time % 3 == 2:
            events.append(Event("B", time, time, f"b{time}", {"least": 5}))
            continue
        values: dict[str, Any] = {f"x{number}": 1 for number in range(count) if random.random() < 0.5}
        place = random.choice([0, 31, 61, 62, 63, 64, count - 1]) % count
        if time % 3 == 0:
            values[f"x{place}"] = 9  # known and too large: no match
        else:
            values.pop(f"x{place}", None)
        events.append(Event("A", time, time, f"a{time}", values))
    return events


@pytest.mark.parametrize(
    ("count", "jit"),
    [
        *((count, False) for count in (3, 62, 63, 64, 65, 130)),
        pytest.param(65, True, marks=[pytest.mark.jit, pytest.mark.long]),
        pytest.param(130, True, marks=[pytest.mark.jit, pytest.mark.slow, pytest.mark.long]),
    ],
)
def test_nulls_are_exact_for_any_number_of_attributes(count: int, jit: bool) -> None:
    text, schema = wide(count)
    events = history(Random(count), count)
    harness = Harness(text, schema)
    run, expected = harness.start(jit=jit).feed(events, batch=7), harness.expected(events)
    assert 0 < sum(expected.values()) < sum(a.type == "A" for a in events) * sum(b.type == "B" for b in events)
    assert run.net == expected


def test_alternatives_with_many_attributes_are_exact() -> None:
    text, schema = wide(70)
    text = text.replace("SEQ(A a, B b)", "SEQ(OR(A a, C c), B b)") + " AND (c.x3 IS NULL OR c.x3 < b.least)"
    events = [
        replace(event, type="C") if number % 5 == 0 and event.type == "A" else event
        for number, event in enumerate(history(Random(7), 70))
    ]
    harness = Harness(text, schema)
    run = harness.start()
    run.push(events)
    assert run.net == harness.expected(events) and run.net


# --- nothing is compiled after the first push ------------------------------------------------------------------------


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every generated source that became a kernel, in order."""
    made: list[str] = []
    for name in ("plain", "compiled"):
        original = getattr(kernels, name)

        def counted(program: Any, *rest: Any, original: Any = original) -> Any:
            made.append(program.source)
            return original(program, *rest)

        monkeypatch.setattr(kernels, name, counted)
    return made


def event(number: int, random: Random, *, null: bool = False) -> Event:
    values: dict[str, Any] = {"id": random.randrange(3), "v": random.randrange(9), "w": 1}
    if null:
        del values[random.choice(["id", "v", "w"])]
    type = random.choice("AABBC")
    return Event(type, number, number, f"e{number}", values)


@pytest.mark.parametrize("jit", [False, pytest.param(True, marks=pytest.mark.jit)])
@pytest.mark.parametrize("hold", [False, True])
def test_the_first_null_and_the_first_withdrawal_compile_nothing(compiled: list[str], jit: bool, hold: bool) -> None:
    random = Random(3)
    events = [event(number, random, null=number > 120 and random.random() < 0.3) for number in range(200)]
    harness = Harness(LATE, NULLABLE)
    run = harness.start("conservative" if hold else "aggressive", jit=jit)
    run.push(events[:5])
    after_first = list(compiled)
    for first in range(5, 200, 5):
        run.push(events[first : first + 5])
    gone = [events[number] for number in range(150, 200, 4)]
    run.withdraw(gone)
    run.end()
    expected = harness.expected([each for each in events if each not in gone])
    assert run.net == expected and expected
    assert len(after_first) == 1 and compiled == after_first


@pytest.mark.parametrize("jit", [False, pytest.param(True, marks=pytest.mark.jit)])
def test_single_events_with_and_without_nulls(compiled: list[str], jit: bool) -> None:
    random = Random(5)
    events = [event(number, random, null=number > 60 and random.random() < 0.4) for number in range(160)]
    harness = Harness(LATE, NULLABLE)
    run = harness.start(jit=jit)
    for number, each in enumerate(events):
        if number % 10 == 0:  # a batch between them
            run.push([each])
        else:
            run.push_one({"eid": each.eid, "type": each.type, "start": each.end, "end": each.end, **each.attrs})
    run.end()
    expected = harness.expected(events)
    assert run.net == expected and expected
    assert len(compiled) == 1


# --- the library that kernels call ------------------------------------------------------------------------------------


def test_a_change_in_any_module_of_the_library_makes_other_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels and the compiled library are kept under a hash of all sources."""
    for part in PARTS:
        text = Path(str(part.__file__)).read_text(encoding="utf-8")
        last = text.rstrip().splitlines()[-1]
        assert last in runtime.source(), part.__name__
    names = []
    monkeypatch.setattr(kernels, "from_disk", lambda _, name, text: names.append(name) or 1 / 0)
    program = Harness(LATE, NULLABLE).start().detector.branches[0].program
    for text in ("one", "other"):
        monkeypatch.setattr(runtime, "source", lambda text=text: text)
        with pytest.raises(ZeroDivisionError):
            kernels.compiled(program, {})
    assert len(set(names)) == 2


@pytest.mark.jit
def test_tables_that_grow_compile_nothing() -> None:
    """What the host calls to make room, to recycle keys and to purge was compiled with the first kernel."""
    from numba.core import event as numba_events

    run = Harness("EVENT SEQ(A a, B b) WHERE [id] WITHIN 50", NULLABLE).start("aggressive", jit=True)
    run.push([event(0, Random(1))])
    with numba_events.install_recorder("numba:compile") as recorder:
        for first in range(1, 60_001, 20_000):
            rows = {
                "eid": np.arange(first, first + 20_000),
                "type": np.where(np.arange(20_000) % 2, "A", "B"),
                "time": np.arange(first, first + 20_000) // 4,
                "id": np.arange(first, first + 20_000) * 20_011,
            }
            run.push(pa.table(rows))
            run.promise(None, int(rows["time"][-1]) - 10)
        run.detector.branches[0].purger.sweep()
    assert run.counters.purged_old > 0
    assert recorder.buffer == []
