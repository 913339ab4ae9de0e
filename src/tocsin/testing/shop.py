"""The shoplifting data set: things taken from shelves, most of them paid, a few carried out; made anew from a seed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

QUERY = "EVENT SEQ(Shelf s, !Counter c, Exit e) WHERE [tag] WITHIN 12 h"

SECOND = 1_000_000  # microseconds
DAY = 24 * 60 * 60 * SECOND
OPENING = datetime(2024, 5, 4, 8, tzinfo=UTC)
GOODS = ("razor", "perfume", "whisky", "headphones", "coffee", "cheese", "vitamins", "battery")
PRICES = ("24.90", "79.00", "38.50", "129.99", "8.49", "6.20", "15.75", "9.99")
SCHEMA = pa.schema(
    [
        ("type", pa.dictionary(pa.int8(), pa.string())),
        ("time", pa.timestamp("us", "UTC")),
        ("eid", pa.int64()),
        ("tag", pa.string()),
        ("place", pa.string()),
        ("price", pa.decimal128(9, 2)),
    ]
)


@dataclass(frozen=True, slots=True)
class Shop:
    """The events in order of time, and the tags that were stolen."""

    events: pa.Table
    stolen: tuple[str, ...]


def shop(*, things: int = 2_000, thefts: int = 7, noise: int = 3_000, days: int = 3, seed: int = 7) -> Shop:
    """Shelf, Counter and Exit events of tagged things, among door and lamp events that mean nothing.

    A paid thing goes shelf, counter, exit; a stolen one never sees the counter; some are put back, and a few wait
    more than twelve hours at the desk before they leave.

    >>> shop(things=50, thefts=2).events.num_rows > 100
    True
    """
    random = np.random.default_rng(seed)
    rows: list[dict[str, Any]] = []
    stolen = []
    thieves = set(random.choice(things, size=min(thefts, things), replace=False).tolist())
    for number in range(things):
        tag = f"tag-{number:05d}"
        if number in thieves:
            stolen.append(tag)
        rows += _thing(random, tag, days, stolen=number in thieves)
    rows += [_noise(random, days) for _ in range(noise)]
    rows.sort(key=lambda row: int(row["time"]))
    return Shop(_table(rows), tuple(stolen))


def _thing(random: np.random.Generator, tag: str, days: int, *, stolen: bool) -> list[dict[str, Any]]:
    """The life of one tagged thing in the shop."""
    good = int(random.integers(len(GOODS)))
    taken = _opening_time(random, days)
    paid = taken + int(random.integers(3 * 60, 45 * 60)) * SECOND
    left = paid + int(random.integers(60, 12 * 60)) * SECOND
    row = {"tag": tag, "price": Decimal(PRICES[good])}
    shelf = {"type": "Shelf", "time": taken, "place": f"{GOODS[good]} shelf", **row}
    counter = {"type": "Counter", "time": paid, "place": f"till {random.integers(1, 7)}", **row}
    gate = {"type": "Exit", "time": left, "place": f"gate {'AB'[random.integers(2)]}", **row}
    if stolen:
        return [shelf, gate]
    fate = random.random()
    if fate < 0.15:
        return [shelf]  # put back
    if fate < 0.18:
        return [shelf, {**gate, "time": left + DAY}]  # kept at the desk over night: too late for WITHIN 12 h
    return [shelf, counter, gate]


def _noise(random: np.random.Generator, days: int) -> dict[str, Any]:
    kind = ("Door", "Lamp")[random.integers(2)]
    return {"type": kind, "time": _opening_time(random, days), "place": f"{kind.lower()} {random.integers(1, 20)}"}


def _opening_time(random: np.random.Generator, days: int) -> int:
    """A moment in microseconds while the shop is open, eight in the morning to six in the evening."""
    opening = int(OPENING.timestamp()) * 1_000_000
    return opening + int(random.integers(days)) * DAY + int(random.integers(10 * 60 * 60)) * SECOND


def _table(rows: list[dict[str, Any]]) -> pa.Table:
    columns = {
        "type": pa.array([row["type"] for row in rows]).dictionary_encode().cast(SCHEMA.field("type").type),
        "time": pa.array([row["time"] for row in rows], pa.int64()).cast(SCHEMA.field("time").type),
        "eid": pa.array(range(1, len(rows) + 1), pa.int64()),
        **{
            name: pa.array([row.get(name) for row in rows], SCHEMA.field(name).type)
            for name in ("tag", "place", "price")
        },
    }
    return pa.table(columns, schema=SCHEMA)
