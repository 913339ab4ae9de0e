"""Ten million intervals, two patterns: Tocsin, DuckDB's range join, and two forms in Polars; one thread each.

All start from one Arrow table in memory, and end with a table of the numbers of the matched events.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from benchmarks.interval.load import Intervals

OVERLAP = "REL[overlap](T0 a, T1 b)"
MIXED = (
    "ISEQ[start(a) < start(b) < end(a) < end(b), start(b) < start(c) < end(b), end(c) < start(d)]"
    "(T0 a, T1 b, T2 c, T3 d)"
)
PATTERNS = {"two leaves, overlap": OVERLAP, "four leaves, mixed": MIXED}
SAME = "tocsin, same columns"  # as the rivals: the table has no more than the numbers of the matched events
ARMS = ("tocsin", SAME, "duckdb", "polars, buckets", "polars, join_where")
Work = Callable[[], int]


def load(name: str, events: int) -> Intervals:
    """Events of the types that a pattern reads, ten of each in a window, a tenth of it long."""
    kinds = len(variables(name))
    return Intervals(events, 0.1, 10 * kinds, kinds=kinds)


def variables(name: str) -> str:
    return "ab" if name.startswith("two") else "abcd"


def prepared(who: str, name: str, made: Intervals) -> Work:
    return {"tocsin": tocsin, SAME: tocsin, "duckdb": duckdb}.get(who, polars)(who, name, made)


def tocsin(who: str, name: str, made: Intervals) -> Work:
    import tocsin

    table = made.table()
    asked = ", ".join(f"eid({each}) AS {each}" for each in variables(name))
    rules = tocsin.query(f"EVENT {PATTERNS[name]} WITHIN {made.window} SELECT {asked}")
    columns = list(variables(name)) if who == SAME else None
    return lambda: rules.detect(table, eid="eid", threads=1).table(columns).num_rows


def duckdb(_: str, name: str, made: Intervals) -> Work:
    """Equality joins over buckets, as for Polars: a plain range join over these tables compares nearly all pairs."""
    import duckdb as db

    connection = db.connect(config={"threads": 1, "temp_directory": ""})
    connection.register("events", made.table())
    width, reach = made.window, made.longest

    def side(type: int) -> str:
        return f"SELECT start AS s, \"end\" AS e, eid AS id FROM events WHERE type = 'T{type}'"

    def joined(left: str, first: str, type: int, far: int, where: str, shown: str) -> str:
        return f"""SELECT {shown} FROM (SELECT *, unnest([{first} // {far}, {first} // {far} + 1]) AS k FROM ({left})) x
            JOIN (SELECT *, s // {far} AS k FROM ({side(type)})) y ON x.k = y.k AND {where}"""

    query = joined(
        side(0), "s", 1, reach, f"x.s < y.s AND y.s < x.e AND x.e < y.e AND y.e - x.s <= {width}",
        "x.s AS s, y.s AS bs, y.e AS be, x.id AS a, y.id AS b",
    )  # fmt: skip
    if not name.startswith("two"):
        query = joined(
            query, "bs", 2, reach, f"x.bs < y.s AND y.s < x.be AND y.e - x.s <= {width}",
            "x.s AS s, y.e AS ce, x.a, x.b, y.id AS c",
        )  # fmt: skip
        query = joined(query, "ce", 3, width, f"x.ce < y.s AND y.e - x.s <= {width}", "x.a, x.b, x.c, y.id AS d")
    return lambda: int(connection.sql(query).to_arrow_table().num_rows)


def polars(who: str, name: str, made: Intervals) -> Work:
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    import polars as pl

    frame = pl.from_arrow(made.table()).rename({"start": "s", "end": "e", "eid": "id"})
    join = _bucketed if who.endswith("buckets") else _where
    width = made.window
    longest = made.longest

    def side(type: int, var: str) -> Any:
        mine = frame.lazy().filter(pl.col("type") == f"T{type}")
        return mine.select(pl.col("s", "e", "id").name.prefix(var))

    def work() -> int:
        a, b, c, d = (side(type, var) for type, var in enumerate("abcd"))
        found = join(
            pl, a, b, "as", "bs", longest,
            [pl.col("as") < pl.col("bs"), pl.col("bs") < pl.col("ae"), pl.col("ae") < pl.col("be")],
        ).filter(pl.col("be") - pl.col("as") <= width)  # fmt: skip
        if not name.startswith("two"):
            found = join(
                pl, found, c, "bs", "cs", longest, [pl.col("bs") < pl.col("cs"), pl.col("cs") < pl.col("be")]
            ).filter(pl.col("ce") - pl.col("as") <= width)
            found = join(
                pl, found, d, "ce", "ds", width, [pl.col("ce") < pl.col("ds"), pl.col("ds") < pl.col("as") + width]
            ).filter(pl.col("de") - pl.col("as") <= width)
            return int(found.select("aid", "bid", "cid", "did").collect().height)
        return int(found.select("aid", "bid").collect().height)

    return work


def _bucketed(pl: Any, left: Any, right: Any, first: str, second: str, reach: int, conditions: list[Any]) -> Any:
    """The right side begins less than `reach` behind the left: an equality join over buckets of that length."""
    mine = left.with_columns((pl.col(first) // reach).alias("bucket"))
    ahead = pl.concat([mine, mine.with_columns(pl.col("bucket") + 1)])
    theirs = right.with_columns((pl.col(second) // reach).alias("bucket"))
    found = ahead.join(theirs, on="bucket")
    for condition in conditions:
        found = found.filter(condition)
    return found.drop("bucket")


def _where(pl: Any, left: Any, right: Any, _: str, __: str, ___: int, conditions: list[Any]) -> Any:
    del pl
    return left.join_where(right, *conditions)
