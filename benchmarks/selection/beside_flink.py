"""Beside Flink CEP: contiguities and skip strategies with equal matches, both from one Parquet file.

No two events share a time, because the library lets events of one time follow each other as they come; the window is
as long as that of W1, in events. Flink's numbers hold its reading and shuffling by key, ours the reading. What reading
takes is measured by itself, too: of Flink by a job that counts the rows that its pattern would get.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
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


def table(events: int) -> pa.Table:
    """The file as a user would read it who knows that there are few types."""
    path = data.parquet(workload(), events, files=1)
    return pq.read_table(path, columns=["type", "time", "key"], read_dictionary=["type"], use_threads=False)


def ours(name: str, events: int) -> Callable[[], tuple[int, list[float]]]:
    """Read the file and detect, on one thread: matches, and seconds of CPU of both."""
    import tocsin

    query = tocsin.query(RIVALS[name].text(workload().window))

    def work() -> tuple[int, list[float]]:
        begin = time.process_time()
        events_read = table(events)
        between = time.process_time()
        found = query.detect(events_read, threads=1)
        return len(found), [between - begin, time.process_time() - between]

    return work


def theirs(name: str, events: int, runs: int, *, only: str = "all") -> list[dict[str, Any]]:
    """The same by the library, or only its reading; the first run warms up."""
    load, rival = workload(), RIVALS[name]
    pattern = {"contiguity": rival.contiguity, "skip": rival.skip, "compares": "no"}
    return flink.run(data.parquet(load, events, files=1), load.window, runs=1 + runs, pattern=pattern, only=only)
