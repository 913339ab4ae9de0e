"""One run of the selection benchmark: events per CPU-second of every query, for few keys and for many.

Each arm works in its own process: it runs once to warm up, then the best of several runs counts. Arms of one query must
find equal numbers of matches, or the run fails.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.run import machine
from benchmarks.selection import beside_flink, rivals
from benchmarks.selection.load import ASKS, COUNTS, KEYS, Ask, workload
from benchmarks.selection.report import text
from benchmarks.spark.flink import UnavailableError
from benchmarks.workloads import TYPES, Stream, stream

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "selection.json"
EVENTS = 5_000_000
MOST_OF_FLINK = 1_000_000
OURS = 9  # runs of ours beside Flink, at least: they are short
CHUNK = 1 << 17  # rows per push
Timed = tuple[int, list[float]]  # matches, seconds of CPU of each push


def tocsin(text: str, made: Stream) -> Callable[[], Timed]:
    """A graph that has seen nothing, and its input as items; then the pushes, each timed."""
    from tocsin.encode import Columns, infer_schema
    from tocsin.graph.query_graph import QueryGraph
    from tocsin.items import end
    from tocsin.lang.parser import parse
    from tocsin.plan.bind import bind
    from tocsin.plan.passes import optimize

    table, columns = made.table(), Columns()
    schema = infer_schema(table.schema, columns, TYPES)
    plan = optimize(bind(parse(text), schema))

    def work() -> Timed:
        graph = QueryGraph([plan], schema, columns)
        pushes = [graph.encode(batch) for batch in table.to_batches(max_chunksize=CHUNK)]
        gc.collect()
        found, seconds = 0, []
        for items in [*pushes, end()]:
            begin = time.process_time()
            found += sum(int(np.sum(batch.op, dtype=np.int64)) for batch in graph.push(items))
            seconds.append(time.process_time() - begin)
        return found, seconds

    return work


def polars(ask: Ask, window: int, made: Stream) -> Callable[[], Timed]:
    plan = rivals.polars(str(ask.polars), window, made)

    def work() -> Timed:
        gc.collect()
        begin = time.process_time()
        found = plan()
        return found, [time.process_time() - begin]

    return work


def measure(who: str, name: str, keys: int, events: int, repeat: int) -> dict[str, Any]:
    """Run inside the child: warm up once, then the best of `repeat`."""
    load = workload(keys)
    made = stream(load, events)
    ask = ASKS[name]
    work = tocsin(ask.text(load.window), made) if who == "tocsin" else polars(ask, load.window, made)
    matches, _ = work()
    best: list[float] = []
    for _ in range(repeat):
        again, seconds = work()
        if again != matches:
            raise SystemExit(f"{who} on {name}: {matches} matches, then {again}")
        best = seconds if not best or sum(seconds) < sum(best) else best
    each = np.array(best[:-2]) / CHUNK * 1e9  # whole pushes
    shown = {"mean_ns": float(each.mean()), "spread": float(each.std() / each.mean())} if len(each) > 1 else {}
    return {"matches": matches, "seconds": sum(best), **shown}


def measure_count(name: str, events: int, repeat: int) -> dict[str, Any]:
    """Run inside the child: seconds of CPU to count all matches of three steps."""
    made = stream(workload(100), events)
    work = tocsin(COUNTS[name].format(all=int(made.time[-1] - made.time[0]) + 1), made)
    work()
    return {"ask": name, "events": events, "seconds": min(sum(work()[1]) for _ in range(max(repeat, OURS)))}


def measure_rival(name: str, events: int, repeat: int) -> dict[str, Any]:
    """Run inside the child: one row of the table beside Flink."""
    from_file, from_table = beside_flink.ours(name, events)
    runs = [(from_file(), from_table()) for _ in range(1 + max(repeat, OURS))][1:]
    found = runs[0][0][0]
    if any(count != found for run in runs for count, _ in run):
        raise SystemExit(f"Tocsin finds other matches in the table than in the file: {runs}")
    row: dict[str, Any] = {"ask": name, "events": events, "matches": found}
    row |= {"tocsin": min(run[0][1] for run in runs), "tocsin_alone": min(run[1][1] for run in runs)}
    try:
        theirs = beside_flink.theirs(name, events, repeat)
        reading = beside_flink.theirs(name, events, repeat, only="read")
    except UnavailableError as why:
        return {**row, "missing": str(why)}
    counts = {run["matches"] for run in theirs}
    if counts != {found}:
        raise SystemExit(f"Flink's {name}: {sorted(counts)} matches, Tocsin {found}")
    whole, read = (min(run["cpu_s"] for run in some[1:]) for some in (theirs, reading))
    return {**row, "flink": whole, "flink_alone": whole - read}


def child(*arguments: str) -> dict[str, Any]:
    """Run this module in a process of its own; a failure becomes a result that says so."""
    environment = {**os.environ, "POLARS_MAX_THREADS": "1"}
    command = [sys.executable, "-m", "benchmarks.selection.run", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=ROOT, check=False)
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or ["no message"])[-1]}
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def everything(events: int, repeat: int, only: list[str]) -> dict[str, Any]:
    """All queries, for each number of keys, with Polars where it can say them."""
    facts = machine()
    rows = []
    for name in only or ASKS:
        for keys in KEYS:
            for who in ("tocsin", "polars") if ASKS[name].polars else ("tocsin",):
                asked = {"who": who, "ask": name, "keys": keys, "events": events}
                measured = child("--who", who, "--ask", name, "--keys", str(keys),
                                 "--events", str(events), "--repeat", str(repeat))  # fmt: skip
                rows.append({**asked, **measured})
                print(progress(rows[-1]), file=sys.stderr)
    beside = []
    for name in () if only else beside_flink.RIVALS:
        few = min(events, MOST_OF_FLINK)
        row = child("--who", "flink", "--ask", name, "--events", str(few), "--repeat", str(min(repeat, 2)))
        beside.append({"ask": name, **row})
        print(beside[-1], file=sys.stderr)
    counts = []
    for name in () if only else COUNTS:
        few = str(min(events, MOST_OF_FLINK))
        counts.append(child("--who", "count", "--ask", name, "--events", few, "--repeat", str(repeat)))
        print(counts[-1], file=sys.stderr)
    facts["load_after"] = os.getloadavg()[0]
    return {"machine": facts, "events": events, "repeat": repeat, "rows": rows, "flink": beside, "counts": counts}


def progress(row: dict[str, Any]) -> str:
    outcome = row.get("error") or f"{row['events'] / row['seconds'] / 1e6:8.2f} M events/s, {row['matches']} matches"
    return f"{row['ask']:22} {row['keys']:6} {row['who']:7} {outcome}"


def problems(rows: list[dict[str, Any]]) -> list[str]:
    """Arms that failed, and queries whose arms found different numbers of matches."""
    wrong = [f"{row['ask']}, {row['keys']} keys, {row['who']}: {row['error']}" for row in rows if "error" in row]
    found: dict[tuple[str, int], set[int]] = {}
    for row in rows:
        if "error" not in row:
            found.setdefault((row["ask"], row["keys"]), set()).add(row["matches"])
    return wrong + [f"arms disagree: {name}: {sorted(counts)}" for name, counts in found.items() if len(counts) > 1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a twentieth of the events")
    parser.add_argument("--repeat", type=int, default=3, help="timed runs of every arm; the best counts")
    parser.add_argument("--only", action="append", default=[], choices=ASKS, help="only this query (repeatable)")
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--events", type=int, default=EVENTS)
    for hidden in ("--who", "--ask", "--keys"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.who == "count":
        print(json.dumps(measure_count(options.ask, options.events, options.repeat)))
        return 0
    if options.who == "flink":
        print(json.dumps(measure_rival(options.ask, options.events, options.repeat)))
        return 0
    if options.who:
        keys, events = int(options.keys), options.events
        print(json.dumps(measure(options.who, options.ask, keys, events, options.repeat)))
        return 0
    results = everything(options.events // (20 if options.quick else 1), options.repeat, options.only)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(results, indent=1) + "\n")
    print(text(results))
    wrong = problems(results["rows"])
    wrong += [f"{row['ask']} beside Flink: {row['error']}" for row in results["flink"] if "error" in row]
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
