"""Beside Flink CEP: contiguities and skip strategies with equal matches, both from one Parquet file.

No two events share a time, because the library lets events of one time follow each other as they come; the window is
as long as that of W1, in events. Flink's numbers hold its reading and shuffling by key, ours the reading, as a user has
it who names the file. What is left without reading is measured, too: of Flink by a job that only counts the rows that
its pattern would get, of ours by a run over the table.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow.parquet as pq

from benchmarks.selection.load import STEPS
from benchmarks.spark import data, flink
from benchmarks.workloads import WORKLOADS, Workload


@dataclass(frozen=True, slots=True)
class Rival:
    """What Flink calls it, and our query for it."""

    name: str
    pattern: str = STEPS
    clause: str = ""
    contiguity: str = "followedByAny"
    skip: str = "none"

    def text(self, window: int) -> str:
        return f"EVENT {self.pattern} WHERE [key] WITHIN {window} {self.clause}".rstrip()


RIVALS = {
    rival.name: rival
    for rival in (
        Rival("followedByAny"),
        Rival("followedBy", "SEQ(A a, FIRST B b, FIRST C c)", contiguity="followedBy"),
        Rival("next", "SEQ(A a, NEXT B b, NEXT C c)", contiguity="next"),
        Rival("followedByAny, skipPastLastEvent", clause="AFTER MATCH SKIP PAST LAST EVENT", skip="past last"),
        Rival("followedByAny, skipToNext", clause="AFTER MATCH SKIP TO NEXT EVENT", skip="to next"),
    )
}


def workload() -> Workload:
    """W1 with 100 keys, but one event in a tick."""
    load = WORKLOADS["W1-100"]
    return replace(load, per_tick=1, window=load.window * load.per_tick)


def ours(name: str, events: int) -> tuple[Callable[[], tuple[int, float]], Callable[[], tuple[int, float]]]:
    """From the file to matches on one thread, and from its table: matches, and seconds of CPU."""
    import tocsin

    query = tocsin.query(RIVALS[name].text(workload().window))
    path = data.parquet(workload(), events, files=1)
    read = pq.read_table(path, columns=["type", "time", "key"], read_dictionary=["type"])

    def work(given: Any) -> tuple[int, float]:
        begin = time.process_time()
        return len(query.detect(given, threads=1)), time.process_time() - begin

    return partial(work, path), partial(work, read)


def theirs(name: str, events: int, runs: int, *, only: str = "all") -> list[dict[str, Any]]:
    """The same by the library, or only its reading; the first run warms up."""
    load, rival = workload(), RIVALS[name]
    pattern = {"contiguity": rival.contiguity, "skip": rival.skip, "compares": "no"}
    return flink.run(data.parquet(load, events, files=1), load.window, runs=1 + runs, pattern=pattern, only=only)
