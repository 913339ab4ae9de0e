"""The stream of a workload as parquet: a few files in time order, written once and found again by its parameters.

Time is a whole number of ticks, which every arm reads without a time zone. Every `v` is a multiple of 2**-53, so that
matches can be summed up exactly, in any order and in any language: see `checksum`.
"""

from __future__ import annotations

import os
import shutil
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.workloads import WORKLOADS, Stream, Workload, stream

ROOT = Path(__file__).parent.parent.parent
OUT = ROOT / "out" / "bench-spark"
FILES = 8
ROWS_IN_GROUP = 131_072
FORMAT = 1  # a new number makes files of an older layout unwelcome
FIRST_WRITTEN = 1_700_000_000  # seconds; file sources of streams read files by age

# Ten thousand keys, and enough events per tick that there are matches to compare: 122,159 in five million rows.
LOAD = WORKLOADS["W1-10kD"]

WEIGHTS = (3, 5, 7)
MODULUS = 1_000_003


def parquet(
    load: Workload = LOAD, rows: int = 5_000_000, *, seed: int = 1, files: int = FILES, out: Path = OUT
) -> Path:
    """The directory that holds the stream; made when it is not there yet, and complete whenever it is there."""
    shape = f"k{load.keys}-p{load.per_tick}-d{load.disorder}"
    place = out / "data" / f"{load.name}-{shape}-n{rows}-s{seed}-f{files}-v{FORMAT}"
    if not place.exists():
        write(stream(load, rows, seed=seed), place, files=files)
    return place


def write(events: Stream, place: Path, *, files: int = FILES) -> None:
    """Write into a neighbour and rename, so that a run that was stopped leaves nothing that looks finished."""
    unfinished = place.with_name(f"{place.name}.{os.getpid()}")
    unfinished.mkdir(parents=True)
    table = as_rows(events)
    cuts = np.linspace(0, len(table), files + 1).astype(np.int64)
    for number, (begin, end) in enumerate(pairwise(cuts)):
        path = unfinished / f"part-{number:03d}.parquet"
        pq.write_table(table.slice(begin, end - begin), path, row_group_size=ROWS_IN_GROUP)
        os.utime(path, (FIRST_WRITTEN + number, FIRST_WRITTEN + number))
    finish(unfinished, place)


def finish(unfinished: Path, place: Path) -> None:
    """Give a directory its name; if somebody else was quicker, theirs is as good."""
    try:
        unfinished.rename(place)
    except OSError:
        if not place.exists():
            raise
        shutil.rmtree(unfinished)


def as_rows(events: Stream) -> pa.Table:
    """The columns as any writer would store them: the type is plain text."""
    table = events.table()
    return table.set_column(0, "type", table["type"].cast(pa.string()))


def checksum(triples: np.ndarray) -> int:
    """The sum over all matches of a weighted sum of their values modulo a prime: equal for equal sets, in any order.

    `triples` has one row (a.v, b.v, c.v) for each match. SQL and Java compute the same with 64-bit integers.

    >>> checksum(np.array([[0.5, 0.25, 0.0]]))
    366805
    """
    units = np.asarray(triples, dtype=np.float64).reshape(-1, 3) * 2.0**53
    return int(((units.astype(np.int64) @ np.array(WEIGHTS, dtype=np.int64)) % MODULUS).sum())
