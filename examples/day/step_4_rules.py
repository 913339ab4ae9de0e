"""A file of rules: checked, tested on small histories, run together; what each finds is what SQL finds."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import data
import duckdb

import tocsin

data.write()
rules = tocsin.query(Path(__file__).with_name("flights.tocsin"))
print(rules.overview(data.FOLDER / "flights.parquet"))
found = rules.detect(data.FOLDER / "flights.parquet")
counts = Counter(match["query"] for match in found)

duckdb.sql(f"CREATE OR REPLACE TEMP TABLE f AS FROM '{data.FOLDER}/flights.parquet'")
SQL = {
    "late_again": """
        SELECT count(*) FROM f a JOIN f b ON b.tail = a.tail AND b.type = 'Departed' AND b.time > a.time
            AND b.time <= a.time + INTERVAL 12 HOUR AND b.delay >= 60
        WHERE a.type = 'Departed' AND a.delay >= 60 AND NOT EXISTS (
            SELECT 1 FROM f m WHERE m.tail = a.tail AND m.type = 'Departed' AND m.delay >= 60
                AND m.time > a.time AND m.time < b.time)""",
    "grounded": """
        SELECT count(*) FROM f c WHERE c.type = 'Cancelled' AND NOT EXISTS (
            SELECT 1 FROM f d WHERE d.tail = c.tail AND d.type = 'Departed' AND d.time > c.time
                AND d.time <= c.time + INTERVAL 6 HOUR)""",
    "quick_turn": """
        SELECT count(*) FROM f a JOIN f d ON d.tail = a.tail AND d.port = a.port AND d.type = 'Departed'
            AND d.time > a.time AND d.time <= a.time + INTERVAL 45 MINUTE
        WHERE a.type = 'Arrived' AND a.delay > 30 AND NOT EXISTS (
            SELECT 1 FROM f m WHERE m.tail = a.tail AND m.port = a.port AND m.type IN ('Arrived', 'Departed')
                AND m.time > a.time AND m.time < d.time)""",
}
for name, text in SQL.items():
    expected = duckdb.sql(text).fetchall()[0][0]
    print(f"{name}: {counts[name]} matches, DuckDB {expected}")
    assert counts[name] == expected > 0
print(f"bad_hours: {counts['bad_hours']} matches")
assert counts["bad_hours"] > 0
