"""A rule over a file: what it says before it runs, what it finds, and what DuckDB finds with a join."""

from __future__ import annotations

import data
import duckdb

import tocsin

data.write()
delayed = tocsin.query(
    """
    EVENT SEQ(Departed d, NEXT OF (Departed, Arrived) Arrived a)
    WHERE [tail] AND d.delay > 60 AND a.delay < d.delay - 10
    WITHIN 6 h
    SELECT eid(d) AS left, eid(a) AS came, d.tail AS tail, hour(d.time) AS hour
    """
)
print(delayed.overview(data.FOLDER / "flights.csv"))
print(delayed.explain(data.FOLDER / "flights.csv").splitlines()[-1])

found = delayed.detect(data.FOLDER / "flights.csv")
joined = duckdb.sql(f"""
    SELECT count(*) FROM (
        SELECT *, lead(type) OVER w AS next_type, lead(delay) OVER w AS next_delay, lead(time) OVER w AS next_time
        FROM '{data.FOLDER}/flights.parquet' WHERE type IN ('Departed', 'Arrived')
        WINDOW w AS (PARTITION BY tail ORDER BY time)
    ) WHERE type = 'Departed' AND next_type = 'Arrived' AND delay > 60 AND next_delay < delay - 10
        AND next_time <= time + INTERVAL 6 HOUR
""").fetchall()
print(f"{len(found)} planes made up for lost time; DuckDB finds {joined[0][0]}")
assert len(found) == joined[0][0] > 0
