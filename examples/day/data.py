"""The data of the day: a month of flights, and the log of a loan office. Made up, but shaped like the real ones."""

from __future__ import annotations

import json
import random
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

FOLDER = Path("out/day")
FIRST = datetime(2026, 3, 1, 5)  # noqa: DTZ001 - local times, as airports write them
PORTS = ("JFK", "LGA", "EWR", "BOS", "ORD", "ATL", "MIA")
Row = dict[str, Any]


def flights(count: int = 4000, seed: int = 1) -> list[Row]:
    """Departures and arrivals of 60 planes, each where the one before has ended; some are late, some cancelled."""
    draw = random.Random(seed)
    rows: list[Row] = []
    planes = [(FIRST + timedelta(minutes=draw.randrange(600)), draw.choice(PORTS)) for _ in range(60)]
    while len(rows) < count:
        number = min(range(len(planes)), key=lambda at: planes[at][0])
        due, port = planes[number]
        plane = {"tail": f"N{number:03}", "carrier": draw.choice(("AA", "DL", "UA"))}
        if draw.random() < 0.01:
            rows.append({"type": "Cancelled", "time": due, **plane, "port": port, "delay": None})
            planes[number] = (due + timedelta(hours=draw.randrange(2, 10)), port)
            continue
        to, delay = draw.choice(PORTS), round(draw.expovariate(1 / 35)) - 5
        left = due + timedelta(minutes=delay)
        came = left + timedelta(minutes=draw.randrange(50, 240))
        rows.append({"type": "Departed", "time": left, **plane, "port": port, "delay": delay})
        rows.append({"type": "Arrived", "time": came, **plane, "port": to, "delay": delay + draw.randrange(-20, 20)})
        planes[number] = (came + timedelta(minutes=draw.randrange(30, 120)), to)
    return sorted(rows, key=lambda row: row["time"])


def loans(count: int = 300, seed: int = 2) -> list[Row]:
    """Offers that a bank sends and customers send back, or not; the names are those that process mining has."""
    draw = random.Random(seed)
    rows: list[Row] = []
    for number in range(count):
        at = FIRST + timedelta(hours=draw.randrange(24 * 60))
        case = {"case:concept:name": f"loan-{number}"}
        rows.append({"concept:name": "O_SENT", "time:timestamp": at, **case})
        for _ in range(draw.choice((0, 0, 1, 3, 5))):
            at += timedelta(hours=draw.randrange(1, 60))
            rows.append(
                {"concept:name": "W_Call customer", "time:timestamp": at, "case:concept:name": f"loan-{number}"}
            )
        if draw.random() < 0.7:
            at += timedelta(days=draw.randrange(1, 20))
            rows.append({"concept:name": "O_SENT_BACK", "time:timestamp": at, **case})
    return sorted(rows, key=lambda row: row["time:timestamp"])


def write() -> None:
    """The flights as CSV, Parquet and lines of JSON; the log as Parquet."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    table = pa.Table.from_pylist(flights())
    csv.write_csv(table, FOLDER / "flights.csv")
    pq.write_table(table, FOLDER / "flights.parquet")
    lines = (json.dumps({**row, "time": row["time"].isoformat()}) + "\n" for row in table.to_pylist())
    (FOLDER / "flights.jsonl").write_text("".join(lines))
    pq.write_table(pa.Table.from_pylist(loans()), FOLDER / "loans.parquet")


if __name__ == "__main__":
    write()
    print(f"flights.csv, flights.parquet, flights.jsonl and loans.parquet are in {FOLDER}")
