"""The reducer of a device gives what a central run gives: items, eids and order, over lost and saved states."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.effort import examples
from tests.test_derived import SCHEMA, answers
from tocsin import intervals
from tocsin.app.cli import app
from tocsin.edge.reducer import reducer_source
from tocsin.errors import QueryError
from tocsin.events import Event
from tocsin.lang.derived_syntax import Intervals
from tocsin.lang.parser import parse_file
from tocsin.run.query import query
from tocsin.testing.draw_derived import drawn_intervals, drawn_readings

TEMPERATURE = """
INTERVALS temperature FROM Reading BY sensor
AS HIGH WHEN value > 100, MEDIUM WHEN value > 50, LOW WHEN value <= 50
SELECT count(*) AS n, max(value) AS top
"""


def device(given: Intervals) -> ModuleType:
    """The program of a definition, as a module."""
    found = ModuleType("reducer")
    exec(compile(reducer_source(given, SCHEMA), "reducer.py", "exec"), found.__dict__)
    return found


def in_order(events: Sequence[Event]) -> list[Event]:
    """Points in canonical order, each once."""
    points = {(event.end, event.eid, event.type): replace(event, start=event.end) for event in events}
    return sorted(points.values(), key=Event.order)


def line_of(event: Event) -> dict[str, Any]:
    return {"type": event.type, "time": event.end, **event.attrs}


def test_a_device_gives_what_a_central_run_gives() -> None:
    compared = 0
    for seed in range(examples(3000)):
        random = Random(seed)
        given, events = drawn_intervals(random), in_order(drawn_readings(random))
        if "v + w" in str(given):
            continue
        module = device(given)
        reducer, items = module.Reducer(), []
        for event in events:
            items += reducer.push(line_of(event))
            if random.random() < 0.3:  # it is switched off and on again
                saved = json.loads(json.dumps(reducer.saved()))
                reducer = module.Reducer()
                reducer.restore(saved)
        items += reducer.end()
        kinds = {"event": "match"}
        own = ("kind", "type", "start", "end", "eid")
        found = [
            (kinds.get(item["kind"], item["kind"]), 1, item["start"], item["end"], item["eid"],
             tuple(value for name, value in item.items() if name not in own))
            for item in items
        ]  # fmt: skip
        assert found == answers([given], events, "in-order", random), f"seed {seed}\n{given}\n{events}"
        compared += bool(found)
    assert compared > examples(3000) / 3


def test_guarantees_of_a_device_are_kept() -> None:
    for seed in range(examples(1000)):
        random = Random(seed)
        given, events = drawn_intervals(random), in_order(drawn_readings(random))
        if "v + w" in str(given):
            continue
        reducer, promised = device(given).Reducer(), None
        items = [item for event in events for item in (*reducer.push(line_of(event)), *reducer.guarantee(2))]
        for item in [*items, *reducer.end()]:
            if item["kind"] == "guarantee":
                assert promised is None or item["time"] >= promised + 2
                promised = item["time"]
            elif item["kind"] == "event" and promised is not None:
                assert item["end"] > promised, f"seed {seed}\n{given}\n{events}"


def ran(program: Path, readings: Sequence[dict[str, Any]], *options: str) -> list[dict[str, Any]]:
    text = "".join(json.dumps(each) + "\n" for each in readings)
    done = subprocess.run(
        [sys.executable, "-I", str(program), "--every", "10", *options],
        input=text,
        capture_output=True,
        text=True,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_the_program_keeps_its_state_and_says_what_it_lost(tmp_path: Path) -> None:
    (tmp_path / "temperature.tocsin").write_text(TEMPERATURE)
    program, state = tmp_path / "reducer.py", tmp_path / "state.json"
    done = CliRunner().invoke(app, ["intervals", "reduce", str(tmp_path / "temperature.tocsin"), "-o", str(program)])
    assert done.exit_code == 0, done.output
    assert "import numpy" not in program.read_text() and "import tocsin" not in program.read_text()
    readings = [{"type": "Reading", "time": time, "sensor": 1, "value": value}
                for time, value in enumerate([120, 110, 60, 55, 10, 130])]  # fmt: skip
    whole = ran(program, readings, "--first")
    spans = [(item["type"], item["start"], item["end"]) for item in whole if item["kind"] == "event"]
    assert spans == [("HIGH", 0, 2), ("MEDIUM", 2, 4), ("LOW", 4, 5), ("HIGH", 5, 5)]
    kept = ("--state", str(state), "--more")
    first = ran(program, readings[:3], *kept, "--first")
    rest = ran(program, readings[3:], "--state", str(state))
    events = [item for item in first + rest if item["kind"] == "event"]
    assert events == [item for item in whole if item["kind"] == "event"]
    assert not any(item["kind"] == "gap" for item in first + rest)
    state.write_text("{")  # its memory is damaged
    (gap,) = (item for item in ran(program, readings[3:], *kept) if item["kind"] == "gap")
    assert gap == {"kind": "gap", "types": ["temperature", "HIGH", "MEDIUM", "LOW"], "from": None, "to": 3}


def test_a_device_saves_bytes() -> None:
    """Readings every second, a state for minutes: JSON lines on both sides, guarantees every minute."""
    (given,) = parse_file(TEMPERATURE)
    assert isinstance(given, Intervals)
    reducer = device(given).Reducer()
    random, value, before, after = Random(1), 75.0, 0, 0
    for time in range(20_000):
        value += random.gauss(0, 1) - (value - 75) / 500
        reading = {"type": "Reading", "time": time, "sensor": 1, "value": round(value, 1)}
        before += len(json.dumps(reading, separators=(",", ":"))) + 1
        after += sum(
            len(json.dumps(item, separators=(",", ":"))) + 1
            for item in (*reducer.push(reading), *reducer.guarantee(60))
        )
    assert after < before / 15


@pytest.mark.parametrize("condition", ["abs(value) > 3", "value + 1 > 3", "name LIKE 'x%'"])
def test_what_a_device_does_not_compute_is_told(condition: str) -> None:
    with pytest.raises(QueryError, match="a reducer asks comparisons"):
        intervals.reducer(f"INTERVALS t FROM A AS Up WHEN {condition}")


def test_python_builds_what_the_text_says() -> None:
    built = intervals.runs(
        "temperature", "Reading", {"HIGH": "value > 100", "MEDIUM": "value > 50", "LOW": "value <= 50"}, by="sensor",
        select=["count(*) AS n", "max(value) AS top"],
    )  # fmt: skip
    assert built == query(TEMPERATURE)
    assert intervals.sessions("v", ["A", "B"], "5 min", by=["k", "s"]) == query(
        "INTERVALS v FROM A, B BY k, s SESSION GAP 5 min"
    )
    assert intervals.pairs("p", {"A": "x > 1"}, "B", policy="queued") == query("INTERVALS p FROM A : x > 1 TO B QUEUED")
