"""Fraud on a streaming DataFrame: a small payment, then a large one far away, with no confirmation between them."""

from __future__ import annotations

import random
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import tocsin.spark

QUERY = """
QUERY Fraud
EVENT SEQ(Small a, !Confirm c, Large b)
WHERE [card] AND a.country <> b.country
WITHIN 30 min
SELECT a.card AS card, a.country AS first, b.country AS second, b.amount AS amount
"""
SCHEMA = "type STRING, at TIMESTAMP, card BIGINT, country STRING, amount DOUBLE, id BIGINT"


def payments(count: int = 3000) -> list[tuple[object, ...]]:
    rng, start = random.Random(4), datetime(2026, 3, 1, 8, tzinfo=UTC)
    rows = []
    for number in range(count):
        kind = rng.choices(["Small", "Confirm", "Large"], [6, 3, 1])[0]
        amount = rng.uniform(500, 900) if kind == "Large" else rng.uniform(1, 9)
        at = start + timedelta(seconds=10 * number)
        rows.append((kind, at, rng.randrange(200), rng.choice(["AT", "BE", "CH"]), round(amount, 2), number))
    return rows


def main() -> None:
    folder = Path(tempfile.mkdtemp())
    spark = tocsin.spark.session(master="local[2]")
    rows = payments()
    for part in range(3):  # three files that arrive one after the other, each in any order
        mine = rows[part * 1000 : (part + 1) * 1000]
        random.Random(part).shuffle(mine)
        spark.createDataFrame(mine, SCHEMA).coalesce(1).write.mode("append").parquet(str(folder / "payments"))
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder / "payments"))
    alarms = tocsin.spark.detect(stream, QUERY, time="at", eid="id", order="slack(4 h)", end_of_stream=True)
    running = tocsin.spark.start(
        alarms,
        tocsin.spark.Sink("parquet", str(folder / "alarms")),
        checkpoint=str(folder / "checkpoint"),
        trigger={"availableNow": True},
    )
    running.awaitTermination()
    found = spark.read.parquet(str(folder / "alarms"))
    found.select("start", "end", "card", "first", "second", "amount").orderBy("end").show(5, truncate=False)
    print(f"{found.count()} suspicions in {len(rows)} payments")


if __name__ == "__main__":
    main()
