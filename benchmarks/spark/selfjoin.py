"""What a Spark user writes today: the sequence as two joins of the stream with itself.

`plain` says what is meant and leaves the rest to Spark, which joins on the key and compares times row by row. `binned`
is what experts write for range joins: time is cut into bins as long as the window, an event of the left side looks into
its own bin and the next, and the bin joins together with the key. `hashed` is `plain` with a hint that saves sorting.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.spark.data import MODULUS, WEIGHTS

SELECTED = "a.v AS a_v, b.v AS b_v, c.v AS c_v"

PLAIN = """
SELECT {hint} {selected}
FROM events a
JOIN events b ON b.key = a.key AND b.time > a.time AND b.time <= a.time + {window} AND b.v > a.v
JOIN events c ON c.key = a.key AND c.time > b.time AND c.time <= a.time + {window}
WHERE a.type = 'A' AND b.type = 'B' AND c.type = 'C'
"""

BINNED = """
WITH binned AS (SELECT type, time, key, v, time DIV {window} AS bin FROM events),
ahead AS (SELECT time, key, v, explode(array(bin, bin + 1)) AS bin FROM binned WHERE type = 'A'),
pairs AS (
  SELECT a.time AS a_time, a.v AS a_v, b.time AS b_time, b.v AS b_v, a.key, explode(array(b.bin, b.bin + 1)) AS bin
  FROM ahead a JOIN binned b ON b.key = a.key AND b.bin = a.bin
  WHERE b.type = 'B' AND b.time > a.time AND b.time <= a.time + {window} AND b.v > a.v
)
SELECT a_v, b_v, c.v AS c_v
FROM pairs JOIN binned c ON c.key = pairs.key AND c.bin = pairs.bin
WHERE c.type = 'C' AND c.time > b_time AND c.time <= a_time + {window}
"""

VARIANTS = {
    "plain": PLAIN.format(hint="", selected=SELECTED, window="{window}"),
    "hashed": PLAIN.format(hint="/*+ SHUFFLE_HASH(a, b, c) */", selected=SELECTED, window="{window}"),
    "binned": BINNED,
}


def matches(spark: Any, events: Any, window: int, variant: str) -> Any:
    """A DataFrame with one row (a_v, b_v, c_v) for each match in `events`."""
    events.createOrReplaceTempView("events")
    return spark.sql(VARIANTS[variant].format(window=window))


def summed(found: Any) -> tuple[int, int]:
    """The number of matches and their checksum (`data.checksum`), which needs every match to be built."""
    units = " + ".join(
        f"{weight} * CAST({name} * {2**53}D AS BIGINT)"
        for weight, name in zip(WEIGHTS, ("a_v", "b_v", "c_v"), strict=True)
    )
    row = found.selectExpr(f"({units}) % {MODULUS} AS part").selectExpr("count(*)", "coalesce(sum(part), 0)").first()
    return int(row[0]), int(row[1])


def work(spark: Any, path: str, window: int, variant: str) -> Callable[[], tuple[int, int]]:
    """The whole job, from files to the sum; every call plans and reads again."""
    return lambda: summed(matches(spark, spark.read.parquet(path), window, variant))
