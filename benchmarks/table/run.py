"""From a table to matches: rows per second by the clock and by CPU, with one thread and with all, beside the rivals.

Every arm works in its own process. Rounds go over all arms in turn, so that what else the machine does meets all alike;
an arm warms up once in each round, then the best of its runs counts. An arm that takes seconds is timed once in each
round, one that takes longer still has one run in all: what a first run costs more is little then. A run begins with
the table (frame, file) in its hands and ends with a table of matches. Arms of one query must find equal matches, or
the run fails.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.run import machine, peak_memory
from benchmarks.table import rivals
from benchmarks.table.load import ASKS, SOURCES, Ask, source
from benchmarks.table.report import SAME, text

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "table.json"
EVENTS = 10_000_000
LONG, VERY_LONG = 2.0, 15.0  # seconds of a run that is timed once a round, and of one that is timed once
RIVALS = {"duckdb": rivals.duckdb, "polars": rivals.polars}
Arm = tuple[str, str, str, int]  # who, query, source, threads


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def tocsin(ask: Ask, name: str, events: int, threads: int, folder: Path, *, jit: bool = True) -> rivals.Work:
    """`detect` from a source to the table of matches."""
    import tocsin

    query, given = tocsin.query(ask.text), source(name, events, folder)

    def work() -> rivals.Found:
        found = query.detect(given, threads=threads, jit=jit).table()
        return found.num_rows, _ticks(found.column("start")), _ticks(found.column("end"))

    return work


def same_columns(ask: Ask, name: str, events: int, threads: int, folder: Path) -> rivals.Work:
    """`detect` to a table with the columns that the rivals' tables have, and no others."""
    import tocsin

    columns = {"user": f"{ask.variables[0]}.user"} if ask.keyed else {}
    for at, variable in enumerate(ask.variables):
        columns |= {f"t{at}": f"start({variable})", f"v{at}": f"{variable}.amount"}
    selected = ", ".join(f"{expression} AS {each}" for each, expression in columns.items())
    query, given = tocsin.query(f"{ask.text} SELECT {selected}"), source(name, events, folder)
    last = f"t{len(ask.variables) - 1}"

    def work() -> rivals.Found:
        found = query.detect(given, threads=threads).table(list(columns))
        return found.num_rows, _ticks(found.column("t0")), _ticks(found.column(last))

    return work


def _ticks(column: Any) -> int:
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.sum(column.cast(pa.timestamp("us")).cast(pa.int64())).as_py() or 0


def arms(everybody: list[int], asks: list[str], names: list[str]) -> list[Arm]:
    """All queries from a table of texts, and the first of them from all sources."""
    found: list[Arm] = []
    for ask in asks:
        for name in names if ask == asks[0] else names[:1]:
            for threads in everybody:
                found.append(("tocsin", ask, name, threads))
                if name == "text" and not ASKS[ask].repeated:  # theirs are lists there
                    found.append((SAME, ask, name, threads))
                if name in ("text", "parquet", "csv"):
                    found += [(rival, ask, name, threads) for rival in RIVALS]
    return found


def measure(arm: Arm, events: int, repeat: int, folder: Path) -> dict[str, Any]:
    """Run inside the child: warm up once, then the best of `repeat` (fewer if it takes long), by clock and by CPU."""
    who, ask, name, threads = arm
    work = {"tocsin": tocsin, SAME: same_columns, **RIVALS}[who](ASKS[ask], name, events, threads, folder)
    found, clock, cpu = _timed(work)
    runs = 1 if clock > VERY_LONG else 0
    if not runs:
        runs, clock, cpu = 1 if clock > LONG else repeat, float("inf"), float("inf")
        for _ in range(runs):
            again, *took = _timed(work)
            clock, cpu = min(clock, took[0]), min(cpu, took[1])
            if again != found:
                raise SystemExit(f"{arm}: {found}, then {again}")
    return {"found": found, "clock": clock, "cpu": cpu, "memory": peak_memory(), "repeat": runs}


def _timed(work: rivals.Work) -> tuple[rivals.Found, float, float]:
    """What a run finds, and how long it takes by the clock and by CPU."""
    gc.collect()
    begin, began = time.perf_counter(), time.process_time()
    found = work()
    return found, time.perf_counter() - begin, time.process_time() - began


def child(arm: Arm, events: int, repeat: int, folder: Path) -> dict[str, Any]:
    """Measure in a process of its own."""
    environment = {**os.environ, "POLARS_MAX_THREADS": str(arm[3])}
    command = [sys.executable, "-m", "benchmarks.table.run", "--arm", json.dumps(arm), "--folder", str(folder)]
    command += ["--events", str(events), "--repeat", str(repeat)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=ROOT, check=False)
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or ["no message"])[-1]}
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def everything(todo: list[Arm], events: int, rounds: int, repeat: int, folder: Path) -> list[dict[str, Any]]:
    """All arms in turn, round after round; the best of each."""
    best: dict[Arm, dict[str, Any]] = {}
    for each in {"text", *(arm[2] for arm in todo)} & {"text", "parquet", "csv"}:  # made once: it takes seconds
        source(each, events, folder)
    for turn in range(rounds):
        for arm in todo if turn % 2 == 0 else todo[::-1]:
            old = best.get(arm)
            if old is not None and old.get("clock", 0.0) > VERY_LONG:
                continue
            row = child(arm, events, repeat, folder)
            print(
                " ".join(map(str, arm)),
                row.get("error") or f"{row['clock']:.3f} s, CPU {row['cpu']:.3f} s",
                file=sys.stderr,
            )
            if old is None or "error" in row or "error" in old:
                best.setdefault(arm, row)
                continue
            least = {name: min(old[name], row[name]) for name in ("clock", "cpu")}
            best[arm] = {**row, **least, "repeat": old["repeat"] + row["repeat"]}
    return [{"who": a[0], "query": a[1], "source": a[2], "threads": a[3], **row} for a, row in best.items()]


def others(rows: list[dict[str, Any]], path: Path, events: int) -> list[dict[str, Any]]:
    """What results on disk have of as many events beside these rows."""
    if not path.exists():
        return []
    known = json.loads(path.read_text())
    mine = {(row["query"], row["source"]) for row in rows}
    return [row for row in known["rows"] if known["events"] == events and (row["query"], row["source"]) not in mine]


def wrong(rows: list[dict[str, Any]]) -> list[str]:
    """Arms that failed, and queries whose arms found different matches."""
    lines = [f"{row['who']} {row['query']} {row['source']}: {row['error']}" for row in rows if "error" in row]
    for query in dict.fromkeys(row["query"] for row in rows):
        found = {tuple(row["found"]) for row in rows if row["query"] == query and "error" not in row}
        if len(found) > 1:
            lines.append(f"{query}: arms found different matches: {sorted(found)}")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a fiftieth of the events, one round")
    parser.add_argument("--events", type=int, default=EVENTS)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=3, help="timed runs of an arm in each round; the best counts")
    parser.add_argument("--threads", type=int, action="append", default=[], help="default: one, and all cores")
    parser.add_argument("--query", action="append", default=[], choices=ASKS)
    parser.add_argument("--source", action="append", default=[], choices=SOURCES)
    parser.add_argument("--without", action="append", default=[], choices=RIVALS, help="leave a rival out")
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--add", action="store_true", help="keep what the results have of other queries and sources")
    parser.add_argument("--arm", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.arm:
        who, ask, name, threads = json.loads(options.arm)
        answer = measure((who, ask, name, threads), options.events, options.repeat, options.folder)
        print(json.dumps(answer))
        return 0
    events = options.events // 50 if options.quick else options.events
    facts = machine()
    todo = arms(options.threads or sorted({1, cores()}), options.query or list(ASKS), options.source or list(SOURCES))
    todo = [arm for arm in todo if arm[0] not in options.without]
    with tempfile.TemporaryDirectory() as folder:
        rows = everything(todo, events, 1 if options.quick else options.rounds, options.repeat, Path(folder))
    facts["load_after"] = os.getloadavg()[0]
    if options.add:
        rows = [*others(rows, options.output, events), *rows]
    results = {"machine": facts, "events": events, "rounds": options.rounds, "repeat": options.repeat, "rows": rows}
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(results, indent=1) + "\n")
    print(text(results))
    problems = wrong(rows)
    for line in problems:
        print(line, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
