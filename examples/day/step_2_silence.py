"""What did not happen: offers that were sent and not sent back within two weeks, in a log with names of its own."""

from __future__ import annotations

import data
import duckdb

import tocsin

data.write()
names = {"type": "concept:name", "time": "time:timestamp"}
unanswered = tocsin.query("EVENT SEQ(O_SENT s, !O_SENT_BACK b) WHERE [`case:concept:name`] WITHIN 14 d")
both = tocsin.query("EVENT SEQ(O_SENT s, O_SENT_BACK b) WHERE [`case:concept:name`] WITHIN 14 d TIMEOUT")
called = "EVENT SEQ(O_SENT s, `W_Call customer`{3,} w, O_SENT_BACK b) WHERE [`case:concept:name`] WITHIN 30 d"

silent = unanswered.detect(data.FOLDER / "loans.parquet", **names)
told = both.detect(data.FOLDER / "loans.parquet", **names, threads=2)
hunted = tocsin.query(called).detect(data.FOLDER / "loans.parquet", **names)

duckdb.sql(f"""
    CREATE OR REPLACE TEMP TABLE log AS
    SELECT "concept:name" AS type, "time:timestamp" AS at, "case:concept:name" AS id
    FROM '{data.FOLDER}/loans.parquet'
""")
expected_silent = duckdb.sql("""
    SELECT count(*) FROM log s WHERE type = 'O_SENT' AND NOT EXISTS (
        SELECT 1 FROM log b WHERE b.type = 'O_SENT_BACK' AND b.id = s.id
            AND b.at > s.at AND b.at <= s.at + INTERVAL 14 DAY)
""").fetchall()
expected_hunted = duckdb.sql("""
    SELECT count(*) FROM (
        SELECT s.id FROM log s
        JOIN log b ON b.id = s.id AND b.type = 'O_SENT_BACK' AND b.at > s.at AND b.at <= s.at + INTERVAL 30 DAY
        JOIN log w ON w.id = s.id AND w.type = 'W_Call customer' AND w.at > s.at AND w.at < b.at
        WHERE s.type = 'O_SENT' GROUP BY s.id, s.at, b.at HAVING count(*) >= 3)
""").fetchall()
print(f"{len(silent)} offers without an answer, {len(hunted)} customers called three times; DuckDB: ", end="")
print(expected_silent[0][0], expected_hunted[0][0])
without = sorted(match["s"]["case:concept:name"] for match in told if match["kind"] == "timeout")
assert without == sorted(match["s"]["case:concept:name"] for match in silent)
assert len(silent) == expected_silent[0][0] > 0 and len(hunted) == expected_hunted[0][0] > 0
