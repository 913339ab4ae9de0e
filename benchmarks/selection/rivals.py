"""The same in Polars, on one thread, where it can be said: all combinations by joins, FIRST by the next time."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from benchmarks.workloads import Stream


def polars(shape: str, window: int, stream: Stream) -> Callable[[], int]:
    """A function that runs the query and returns the number of matches."""
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    import polars as pl

    frame = pl.DataFrame({"type": stream.types, "time": stream.time, "key": stream.key}).with_row_index("id")
    plan = SHAPES[shape](pl, frame.lazy(), window)
    return lambda: int(plan.collect().height)


def _side(pl: Any, frame: Any, code: int, name: str) -> Any:
    """One type's events, with columns named after the variable."""
    return frame.filter(pl.col("type") == code).select(
        "key", pl.col("id").alias(name), pl.col("time").alias(f"{name}_time")
    )


def combinations(pl: Any, frame: Any, window: int) -> Any:
    """Joins over buckets as long as the window: an event meets those of its bucket and of the next."""
    a, b, c = (_side(pl, frame, code, name) for code, name in enumerate("abc"))
    both = _pairs(pl, a, b, "a", "b", window)
    found = _pairs(pl, both, c, "b", "c", window)
    return found.filter(pl.col("c_time") - pl.col("a_time") <= window).select("a", "b", "c")


def _pairs(pl: Any, left: Any, right: Any, first: str, second: str, window: int) -> Any:
    left = left.with_columns(bucket=pl.col(f"{first}_time") // window)
    left = pl.concat([left, left.with_columns(pl.col("bucket") + 1)])
    right = right.with_columns(bucket=pl.col(f"{second}_time") // window)
    gap = pl.col(f"{second}_time") - pl.col(f"{first}_time")
    return left.join(right, on=["key", "bucket"]).filter((gap > 0) & (gap <= window)).drop("bucket")


def first(pl: Any, frame: Any, window: int) -> Any:
    """The time of the next B is found, then all B of that time (several can be first); the same for C."""
    found, b, c = (_side(pl, frame, code, name) for code, name in enumerate("abc"))
    for before, side, name in (("a", b, "b"), ("b", c, "c")):
        times = side.select("key", f"{name}_time").unique().sort(f"{name}_time")
        found = (
            found.sort(f"{before}_time")
            .join_asof(
                times.with_columns(next=pl.col(f"{name}_time")),
                left_on=f"{before}_time", right_on=f"{name}_time", by="key", strategy="forward",
                allow_exact_matches=False,
            )
            .filter(pl.col("next").is_not_null())
            .join(side, left_on=["key", "next"], right_on=["key", f"{name}_time"])
            .with_columns(pl.col("next").alias(f"{name}_time"))
            .drop("next")
        )  # fmt: skip
    return found.filter(pl.col("c_time") - pl.col("a_time") <= window).select("a", "b", "c")


SHAPES = {"combinations": combinations, "first": first}
