"""How work is shared by threads: clock and CPU over 1, 2, 4 and 8 of them, and what each thread had to do, counted.

On a machine with fewer cores the clock cannot show how 8 threads would do. So the CPU time of every thread is counted,
for each piece of work that a team of threads does together, and that of the thread that called them. What no team of
threads can do faster is the longest path: what one thread does alone, and of each piece that of the busiest thread.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.disorder.plots import draw
from benchmarks.run import machine
from benchmarks.table.load import ASKS, Ask, Step, table

T = TypeVar("T")
ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "threads.json"
PICTURES = ROOT / "docs" / "experiments"
EVENTS = 10_000_000
THREADS = (1, 2, 4, 8)
HOT = 0.9
RARE = Ask(
    "rare",
    "EVENT SEQ(Login a, Fail b, Transfer c) WHERE [user] AND a.amount > 99 AND b.amount > 99 AND c.amount > 99"
    " WITHIN 2 s",
    (Step("Login", 99), Step("Fail", 99), Step("Transfer", 99)),
    2,
)
RUNS = ((ASKS["three"], 0.0), (ASKS["pairs"], 0.0), (ASKS["no key"], 0.0), (RARE, HOT))


class Counter:
    """The CPU time of threads in each piece of work that they share."""

    def __init__(self) -> None:
        self.pieces: list[dict[int, float]] = []

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count what teams of threads do from now on."""
        from tocsin.encode.thread_team import ThreadTeam

        plain = ThreadTeam.all

        def counted(team: ThreadTeam, work: Iterable[Callable[[], T]]) -> list[T]:
            todo, spent = list(work), dict[int, float]()
            if team.count == 1 or len(todo) < 2:
                return plain(team, todo)
            self.pieces.append(spent)
            return plain(team, [self._timed(each, spent) for each in todo])

        ThreadTeam.all = counted  # type: ignore[method-assign]
        try:
            yield
        finally:
            ThreadTeam.all = plain  # type: ignore[method-assign]

    def _timed(self, work: Callable[[], T], spent: dict[int, float]) -> Callable[[], T]:
        def timed() -> T:
            began, me = time.thread_time(), threading.get_ident()
            try:
                return work()
            finally:
                spent[me] = spent.get(me, 0.0) + time.thread_time() - began

        return timed


def measure(ask: Ask, given: Any, threads: int, repeat: int) -> dict[str, Any]:
    """The best of some runs by CPU, and the best clock."""
    import tocsin

    query, best, clock = tocsin.query(ask.text), None, float("inf")
    query.detect(given, threads=threads).table()
    for _ in range(repeat):
        counter = Counter()
        gc.collect()
        begin, cpu, alone = time.perf_counter(), time.process_time(), time.thread_time()
        with counter.counting():
            found = query.detect(given, threads=threads).table().num_rows
        alone, cpu, clock = (
            time.thread_time() - alone,
            time.process_time() - cpu,
            min(clock, time.perf_counter() - begin),
        )
        longest = alone + sum(max(piece.values()) for piece in counter.pieces)
        each: dict[int, float] = {}
        for piece in counter.pieces:
            for place, spent in enumerate(sorted(piece.values(), reverse=True)):
                each[place] = each.get(place, 0.0) + spent
        if best is None or cpu < best["cpu"]:
            best = {"cpu": cpu, "alone": alone, "longest": longest, "found": found, "each": list(each.values())}
    assert best is not None
    return {**best, "clock": clock, "threads": threads}


def everything(events: int, repeat: int, counts: Iterable[int]) -> list[dict[str, Any]]:
    """All runs, one table in memory at a time."""
    rows = []
    for ask, hot in RUNS:
        given = table(events, hot=hot)
        for threads in counts:
            row = {"query": ask.name, "hot": hot, **measure(ask, given, threads, repeat)}
            print(name_of(row), threads, f"{row['clock']:.3f} s, CPU {row['cpu']:.3f} s", file=sys.stderr)
            rows.append(row)
        del given
    return rows


def name_of(row: dict[str, Any]) -> str:
    return row["query"] + (", nine events in ten of one key" if row["hot"] else "")


def text(results: dict[str, Any]) -> str:
    """A line for each query and number of threads."""
    head = (
        f"Seconds for {results['events']:,} rows of an Arrow table with texts. *Alone*: CPU of the thread that calls"
        " the others, as a share of all CPU; *each*: CPU of the threads, the busiest first; *longest path*: CPU that so"
        " many threads must wait for, however many cores there are."
    )
    lines = [
        head,
        "",
        "| query | threads | matches | clock | CPU | alone | each | longest path | times shorter |",
        "|---|---:|---:|---:|---:|---:|---|---:|---:|",
    ]
    for row in results["rows"]:
        [one] = [each for each in results["rows"] if name_of(each) == name_of(row) and each["threads"] == 1]
        each = " ".join(f"{spent:.2f}" for spent in row["each"])
        alone = f"{row['alone'] / row['cpu']:.1%}" if row["threads"] > 1 else ""
        numbers = f"{row['threads']} | {row['found']:,} | {row['clock']:.3f} | {row['cpu']:.3f} | {alone} | {each}"
        shorter = one["longest"] / row["longest"]
        lines.append(f"| {name_of(row)} | {numbers} | {row['longest']:.3f} | {shorter:.2f} |")
    facts = results["machine"]
    where = (
        f"Best of {results['repeat']} runs; {facts['processor']}, {facts['cores']} cores, Python {facts['python']};"
        f" load {facts['load_before']:.1f} before and {facts['load_after']:.1f} after."
    )
    lines += [
        "",
        where,
        "",
        "![Clock and longest path over threads](experiments/threads.png)",
    ]
    return "\n".join(lines)


def figure(results: dict[str, Any]) -> dict[str, Any]:
    """Clock and longest path over threads, a panel for each query."""
    panels = []
    for name in dict.fromkeys(map(name_of, results["rows"])):
        mine = [row for row in results["rows"] if name_of(row) == name]
        curves = {
            "clock": [row["clock"] for row in mine],
            "longest path (CPU)": [row["longest"] for row in mine],
            "CPU of all threads": [row["cpu"] for row in mine],
        }
        xs = [row["threads"] for row in mine]
        panels.append({"title": name, "x": "threads", "y": "seconds", "xs": xs, "curves": curves, "log": False})
    return {"name": "threads", "panels": panels}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the events, one run")
    parser.add_argument("--events", type=int, default=EVENTS)
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    events, repeat = (options.events // 10, 1) if options.quick else (options.events, options.repeat)
    facts = machine()
    rows = everything(events, repeat, THREADS)
    facts["load_after"] = os.getloadavg()[0]
    results = {"machine": facts, "events": events, "repeat": repeat, "rows": rows}
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    draw(figure(results), PICTURES)
    print(text(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
