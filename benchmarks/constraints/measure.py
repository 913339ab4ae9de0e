"""One arm on one stream: seconds of CPU from encoded events to matches as columns, and what is kept meanwhile.

Key lookups are left out in all arms: the tracker's are timed where they happen, those of compiled kernels, which nobody
can time from outside, are made again on the same rows. So is what comes once: the source of a query's kernel.
"""

from __future__ import annotations

import gc
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.constraints.basic import Basic
from benchmarks.constraints.load import TYPES, Ask, Traces
from tocsin.constraint.checkers import SAT, UNSAT
from tocsin.constraint.monitor import Monitored
from tocsin.encode import Columns, infer_schema
from tocsin.engine.detector import Detector
from tocsin.graph.query_graph import QueryGraph
from tocsin.items import Items, end
from tocsin.lang.parser import parse_file
from tocsin.plan.facts import pattern_types
from tocsin.run.query import plans_of
from tocsin.select.key_codes import KeyCodes

ARMS = ("naive", "basic", "lightweight")
CHUNK = 1 << 17  # rows per push where CPU is measured
SAMPLE = 1 << 12  # where memory is


@dataclass
class Run:
    """A graph that has seen nothing, and its input as items."""

    arm: str
    ask: Ask
    selectivity: int
    made: Traces
    chunk: int = CHUNK
    jit: bool = True
    left_out: float = 0.0
    fed: list[Items] = field(default_factory=list)
    found: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        table, columns = self.made.table(), Columns()
        schema = infer_schema(table.schema, columns, TYPES)
        under = self.arm != "naive"
        self.plans = plans_of(parse_file(self.ask.text(self.selectivity, under=under)), schema)
        self.graph = QueryGraph(self.plans, schema, columns, jit=self.jit)
        self.pushes = [self.graph.encode(batch) for batch in table.to_batches(max_chunksize=self.chunk)]
        self.operator = self.graph.stages[-1].operator
        self.basic: Basic | None = None
        if isinstance(self.operator, Monitored):
            if self.arm == "basic":
                self.basic = Basic(self.operator.tracker)
            self._leave_out(self.operator.tracker.keys, "of")
        for detector in self.operator.detectors:
            self._record(detector)
            for branch in detector.branches:
                self._leave_out(branch, "_generate")

    def _leave_out(self, owner: Any, name: str) -> None:
        """Time the calls of a method, so that they can be left out of the whole."""
        plain = getattr(owner, name)

        def timed(*given: Any, **named: Any) -> Any:
            begin = time.process_time()
            found = plain(*given, **named)
            self.left_out += time.process_time() - begin
            return found

        setattr(owner, name, timed)

    def _record(self, detector: Detector) -> None:
        plain = detector.push

        def push(items: Items) -> Any:
            if items.kinds is None:
                self.fed.append(items)
            return plain(items)

        detector.push = push  # type: ignore[method-assign]

    def go(self) -> float:
        """Seconds of CPU of all pushes, without key lookups and without writing the query's kernel."""
        gc.collect()
        begin = time.process_time()
        for items in [*self.pushes, end()]:
            for batch in self.graph.push(items):
                self.found[batch.kind] = self.found.get(batch.kind, 0) + int(np.sum(batch.op, dtype=np.int64))
        whole = time.process_time() - begin
        return whole - self.left_out - self._kernel_lookups()

    def _kernel_lookups(self) -> float:
        """What the kernel's lookups take: those of the rows that it was given and takes."""
        mine = [TYPES.index(type) for type in pattern_types(self.plans[-1])]
        takes = np.isin(np.arange(len(TYPES)), mine)
        keys, seconds = KeyCodes(("id",), self.graph.strings, jit=self.jit), 0.0
        for items in self.fed:
            rows = np.flatnonzero(takes[items.types])
            begin = time.process_time()
            keys.of(items, rows)
            seconds += time.process_time() - begin
        return seconds

    # --- beside time ---

    def memory(self) -> dict[str, int]:
        """Events in the buffers of the query: at most, and added up over all pushes."""
        peak = total = 0
        for items in self.pushes:
            self.graph.push(items)
            live = sum(branch.live for detector in self.operator.detectors for branch in detector.branches)
            peak, total = max(peak, live), total + live
        return {"peak": peak, "accumulated": total}

    def determination(self) -> float:
        """Ticks from the first event of a trace to its verdict, or to its last event; added up over all traces."""
        order = np.argsort(self.made.ids, kind="stable")
        ids = self.made.ids[order]
        first = np.flatnonzero(np.diff(ids, prepend=-1))
        last = np.append(first[1:], len(ids)) - 1
        lengths = order[last] - order[first]
        if not isinstance(self.operator, Monitored):
            return float(lengths.sum())  # a match comes with the last event of its trace, and so does "no match"
        counts = self.operator.counts
        if counts.decided != len(lengths):
            raise SystemExit(f"{len(lengths) - counts.decided} traces have no verdict")
        return float(counts.latency)

    def counts(self) -> dict[str, int]:
        """What became of traces; the basic checker must have found the same."""
        if not isinstance(self.operator, Monitored):
            return {}
        counts = self.operator.counts
        if self.basic is not None:
            theirs = self.basic.count(SAT), self.basic.count(UNSAT)
            if theirs != (counts.decided - counts.unsat, counts.unsat):
                raise SystemExit(f"basic checking: {theirs}, lightweight: {counts}")
        return {name: getattr(counts, name) for name in counts.__slots__}


def measured(ask: Ask, selectivity: int, made: Traces, repeat: int, *, jit: bool = True) -> list[dict[str, Any]]:
    """All arms: one run of each to warm up, then in turn; the best counts. All must find the same matches."""
    best: dict[str, float] = {}
    found: dict[str, Any] = {}
    for number in range(repeat + 1):
        for arm in ARMS:
            run = Run(arm, ask, selectivity, made, jit=jit)
            seconds = run.go()
            if number or not repeat:
                best[arm] = min(seconds, best.get(arm, seconds))
            found[arm] = {"found": run.found, "ticks": run.determination(), "counts": run.counts()}
    if len({each["found"].get("match", 0) for each in found.values()}) > 1:
        raise SystemExit(f"arms disagree at {selectivity} %: {found}")
    rows = []
    for arm in ARMS:
        memory = Run(arm, ask, selectivity, made, chunk=SAMPLE, jit=jit).memory()
        rows.append({"arm": arm, "ask": ask.name, "selectivity": selectivity, "traces": made.traces,
                     "events": len(made), "seconds": best[arm], **memory, **found[arm]})  # fmt: skip
    return rows
