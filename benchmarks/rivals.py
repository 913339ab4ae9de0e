"""What a user would do instead: joins in Polars and in DuckDB, on one thread.

A plain range join would compare every pair, so both cut time into buckets as long as the window: each event of the left
side looks into its own bucket and the next one with an equality join, then the exact times are compared. Implied
conditions are written out by hand where they help. Results are row numbers of the events, fully built.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from benchmarks.workloads import Stream, Workload

Prepared = Callable[[], int]

# --- Polars ------------------------------------------------------------------------------------------------------


def polars(load: Workload, stream: Stream) -> Prepared:
    """A function that runs the query of the workload and returns the number of matches."""
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    import polars as pl

    frame = pl.DataFrame({"type": stream.types, "time": stream.time, "key": stream.key, "v": stream.v})
    frame = frame.with_row_index("id")
    plan = _PL_SHAPES[load.shape](pl, frame.lazy(), load.window)
    return lambda: plan.collect().height


def _pl_side(pl: Any, frame: Any, code: int, name: str, window: int, *, key: bool = True, ahead: bool = False) -> Any:
    """One type's events with columns named after the variable; `ahead` puts them into their bucket and the next."""
    side = frame.filter(pl.col("type") == code).select(
        *([pl.col("key")] if key else []),
        pl.col("id").alias(name),
        pl.col("time").alias(f"{name}_time"),
        pl.col("v").alias(f"{name}_v"),
        (pl.col("time") // window).alias("bucket"),
    )
    return _pl_ahead(pl, side) if ahead else side


def _pl_ahead(pl: Any, side: Any) -> Any:
    return pl.concat([side, side.with_columns(pl.col("bucket") + 1)])


def _pl_pairs(pl: Any, left: Any, right: Any, first: str, second: str, window: int, on: list[str]) -> Any:
    """Pairs with time(first) < time(second) <= time(first) + window, from buckets."""
    gap = pl.col(f"{second}_time") - pl.col(f"{first}_time")
    return left.join(right, on=on).filter((gap > 0) & (gap <= window))


def _pl_sequence(pl: Any, frame: Any, window: int) -> Any:
    a = _pl_side(pl, frame, 0, "a", window, ahead=True)
    b = _pl_side(pl, frame, 1, "b", window)
    c = _pl_side(pl, frame, 2, "c", window)
    both = _pl_pairs(pl, a, b, "a", "b", window, ["key", "bucket"]).filter(pl.col("b_v") > pl.col("a_v"))
    found = _pl_pairs(pl, _pl_ahead(pl, both), c, "b", "c", window, ["key", "bucket"])
    return found.filter(pl.col("c_time") - pl.col("a_time") <= window).select("a", "b", "c")


def _pl_negation(pl: Any, frame: Any, window: int) -> Any:
    a = _pl_side(pl, frame, 0, "a", window, ahead=True)
    b = _pl_side(pl, frame, 1, "b", window)
    c = _pl_side(pl, frame, 2, "c", window)
    broken = _pl_pairs(pl, a, b, "a", "b", window, ["key", "bucket"]).filter(pl.col("b_v") > pl.col("a_v"))
    first = broken.group_by("a").agg(pl.col("b_time").min())
    found = _pl_pairs(pl, a, c, "a", "c", window, ["key", "bucket"]).join(first, on="a", how="left")
    return found.filter(pl.col("b_time").is_null() | (pl.col("b_time") >= pl.col("c_time"))).select("a", "c")


def _pl_repetition(pl: Any, frame: Any, window: int) -> Any:
    a = _pl_side(pl, frame, 0, "a", window, ahead=True)
    b = _pl_side(pl, frame, 1, "b", window)
    c = _pl_side(pl, frame, 2, "c", window)
    members = _pl_pairs(pl, a, b, "a", "b", window, ["key", "bucket"]).select("a", "b", "b_time", "b_v")
    found = _pl_pairs(pl, a, c, "a", "c", window, ["key", "bucket"]).select("a", "a_v", "c", "c_time")
    sets = found.join(members, on="a").filter(pl.col("b_time") < pl.col("c_time"))
    grouped = sets.group_by("a", "c").agg(pl.col("b_v").mean(), pl.col("a_v").first(), pl.col("b"))
    return grouped.filter(pl.col("b_v") > pl.col("a_v")).select("a", "b", "c")


def _pl_selective(pl: Any, frame: Any, window: int) -> Any:
    a = _pl_side(pl, frame, 0, "a", window, key=False, ahead=True)
    b = _pl_side(pl, frame, 1, "b", window, key=False)
    c = _pl_side(pl, frame, 2, "c", window, key=False)
    both = _pl_pairs(pl, a, b, "a", "b", window, ["bucket"]).filter(pl.col("b_v") > pl.col("a_v") + 0.95)
    found = _pl_pairs(pl, _pl_ahead(pl, both), c, "b", "c", window, ["bucket"])
    return found.filter(pl.col("c_time") - pl.col("a_time") <= window).select("a", "b", "c")


_PL_SHAPES = {
    "sequence": _pl_sequence,
    "negation": _pl_negation,
    "repetition": _pl_repetition,
    "selective": _pl_selective,
}

# --- DuckDB ------------------------------------------------------------------------------------------------------

_SIDES = """
WITH events AS (SELECT *, time // {w} AS bucket FROM stream),
a0 AS (SELECT id AS a, time AS ta, v AS va, key, bucket FROM events WHERE type = 0),
a AS (SELECT * FROM a0 UNION ALL SELECT a, ta, va, key, bucket + 1 FROM a0),
b AS (SELECT id AS b, time AS tb, v AS vb, key, bucket FROM events WHERE type = 1),
c AS (SELECT id AS c, time AS tc, key, bucket FROM events WHERE type = 2),
ab AS (SELECT a, ta, va, b, tb, vb, {key} b.bucket FROM a JOIN b USING ({on})
       WHERE tb > ta AND tb <= ta + {w} {pair})
"""

_TRIPLES = """, ab2 AS (SELECT * FROM ab UNION ALL SELECT * REPLACE (bucket + 1 AS bucket) FROM ab)
SELECT a, b, c FROM ab2 JOIN c USING ({on}) WHERE tc > tb AND tc <= ta + {w}
"""

_QUERIES = {
    "sequence": _SIDES + _TRIPLES,
    "selective": _SIDES + _TRIPLES,
    "negation": _SIDES
    + """, broken AS (SELECT a, min(tb) AS tb FROM ab WHERE vb > va GROUP BY a),
ac AS (SELECT a, c, tc FROM a JOIN c USING ({on}) WHERE tc > ta AND tc <= ta + {w})
SELECT ac.a, c FROM ac LEFT JOIN broken USING (a) WHERE tb IS NULL OR tb >= tc
""",
    "repetition": _SIDES
    + """, ac AS (SELECT a, va, c, tc FROM a JOIN c USING ({on}) WHERE tc > ta AND tc <= ta + {w})
SELECT ac.a, list(b), c FROM ac JOIN ab USING (a) WHERE tb < tc
GROUP BY ac.a, c HAVING avg(vb) > any_value(ac.va)
""",
}


def sql(load: Workload) -> str:
    """The query of a workload as SQL over `stream(id, type, time, key, v)`."""
    keyed = load.shape != "selective"
    pair = {"sequence": "AND vb > va", "selective": "AND vb > va + 0.95"}.get(load.shape, "")
    return _QUERIES[load.shape].format(
        w=load.window,
        on="key, bucket" if keyed else "bucket",
        key="b.key," if keyed else "",
        pair=pair,
    )


def duckdb(load: Workload, stream: Stream) -> Prepared:
    """A function that runs the query of the workload and returns the number of matches."""
    import duckdb as db
    import numpy as np
    import pyarrow as pa

    connection = db.connect(config={"threads": 1})
    rows = pa.table(
        {
            "id": np.arange(len(stream), dtype=np.int32),
            "type": stream.types,
            "time": stream.time,
            "key": stream.key,
            "v": stream.v,
        }
    )
    connection.register("rows", rows)
    connection.execute("CREATE TABLE stream AS SELECT * FROM rows")
    connection.unregister("rows")
    text = sql(load)
    return lambda: int(connection.sql(text).to_arrow_table().num_rows)
