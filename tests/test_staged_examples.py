"""The examples of staged statements run as they stand, and find what was traced by hand (G1, G8, G15, G17, G20)."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tocsin.app.cli import app

FOLDER = Path(__file__).parent.parent / "examples" / "staged"
WANTED: dict[str, dict[str, list[tuple[Any, ...]]]] = {
    "warehouse": {
        "PackageContainer": [
            (1, 3, 1, 1), (2, 3, 2, 1), (4, 8, 3, 2), (5, 8, 4, 2), (6, 8, 5, 2), (7, 12, 6, 3), (9, 12, 7, 3),
            (10, 12, 8, 3),
        ]
    },
    "baggage": {
        "BagContainerID": [
            *((number, 7, number, 1) for number in (1, 2, 3, 4)),
            (6, 8, 100, 9), (5, 9, 5, 2), (7, 9, 6, 2), (10, 11, 7, 3),
        ]
    },
    "hospital": {"PatientBleeding": [(10, 50, 7)], "BloodPressureProblem": [(90, 90, 8, "high")]},
    "road_traffic": {
        "SpeedViolations": [(60, 60, 80, 1), (61, 61, 95, 1), (62, 62, 85, 1)],
        "LinkSpeed": [
            (1, 1, 1, 90), (1, 60, 1, 85), (1, 61, 1, 265 / 3), (1, 62, 1, 87.5), (1, 63, 1, 84), (64, 64, 2, 99),
            (1, 120, 1, 86.5), (500, 500, 1, 35), (500, 510, 1, 20), (520, 520, 2, 8),
        ],
        "Congestion": [(500, 500, 1, 35), (500, 510, 1, 20), (520, 520, 2, 8)],
        "SlowingVehicle": [(63, 510, "High Street", "Other"), (120, 520, "Bridge Street", "Bridge")],
    },
}  # fmt: skip
COLUMNS: dict[str, tuple[str, ...]] = {
    "PackageContainer": ("package", "container"),
    "BagContainerID": ("bag", "container"),
    "PatientBleeding": ("patient",),
    "BloodPressureProblem": ("patient", "level"),
    "SpeedViolations": ("speed", "link"),
    "LinkSpeed": ("link", "average"),
    "Congestion": ("link", "average"),
    "SlowingVehicle": ("street", "region"),
}


def test_every_example_is_here() -> None:
    assert (
        {path.stem for path in FOLDER.glob("*.tocsin")} == set(WANTED) == {path.stem for path in FOLDER.glob("*.csv")}
    )


@pytest.mark.parametrize("order", ["in-order", "aggressive(10)"])
@pytest.mark.parametrize("name", WANTED)
def test_an_example_finds_what_was_traced_by_hand(name: str, order: str) -> None:
    rules, data = FOLDER / f"{name}.tocsin", FOLDER / f"{name}.csv"
    told = CliRunner().invoke(
        app, ["run", str(rules), "--input", str(data), "--time-unit", "s", "--format", "jsonl", "--order", order]
    )
    assert told.exit_code == 0, told.output
    rows = [json.loads(line) for line in told.output.splitlines() if line.startswith("{")]
    found: dict[str, Counter[Any]] = {}
    for row in rows:
        shown = (row["start"], row["end"], *(row[column] for column in COLUMNS[row["query"]]))
        found.setdefault(row["query"], Counter())[shown] += row["op"]
    assert {name: +each for name, each in found.items()} == {name: Counter(each) for name, each in WANTED[name].items()}
