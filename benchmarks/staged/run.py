"""One run of the benchmark of staged statements: events per CPU-second, beside Esper and the body in plain Python.

From an Arrow table to tables of answers; Esper from objects in memory to listeners. Each arm works in its own process:
it runs once to warm up, then the best of several runs counts. All must find the same rows: numbers and checksums are
compared.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.run import machine
from benchmarks.staged import windows
from benchmarks.staged.load import LOADS
from benchmarks.staged.report import text

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "staged.json"
EVENTS = 1_000_000
PLAIN_SHARE = 25  # the plain body gets this much less
ARMS = ("tocsin", "plain", "esper")
SHOWN = {  # the columns of a row that are compared; None: nothing
    "PackageContainer": ("contId", "pkgId"),
    "BagContainerID": ("containerId", "bagId"),
    "Top10SpeedLimitViolations": ("speed", None),
    "CarAvgSpeedPerLink": ("regNumber", "avgSpeed"),
    "PatientBleeding": ("patientId", None),
}


def checksum(name: str, answers: Any) -> int:
    """As the program for Esper adds it: tenths of the first column 31 times, and of the second."""
    total = 0
    for column, times in zip(SHOWN[name], (31, 1), strict=True):
        if column is not None:
            values = answers.column(column).to_numpy()
            total += times * int(np.floor(values.astype(np.float64) * 10 + 0.5).astype(np.int64).sum())
    return total


def ours(name: str, events: int, repeat: int, *, jit: bool) -> dict[str, Any]:
    import tocsin

    load = LOADS[name]
    table = load.events(events, 1)
    query = tocsin.query(load.text)
    how = {"time": "start", "end": "end"} if "end" in table.column_names else {}
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    best, found = 0.0, dict[str, int]()
    for number in range(repeat + 1):
        gc.collect()
        begin = time.process_time()
        tables = query.detect(table, time_unit="s", jit=jit, **how).tables()  # type: ignore[arg-type]
        seconds = time.process_time() - begin
        answers = tables[-1]
        now = {"rows": answers.num_rows, "checksum": checksum(name, answers)}
        if found and now != found:
            raise SystemExit(f"{name}: {found}, then {now}")
        found = now
        if number and (not best or seconds < best):
            best = seconds
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return {**found, "seconds": best, "bytes": grown * 1024}


def rival(name: str, events: int, repeat: int) -> dict[str, Any]:
    from benchmarks.staged import esper

    runs = esper.run(name, LOADS[name].events(events, 1), repeat + 1)
    best: dict[str, Any] = min(runs[1:], key=lambda run: run["seconds"])
    return best


def measure(who: str, name: str, events: int, repeat: int) -> dict[str, Any]:
    """Run inside the child."""
    if who == "esper":
        return rival(name, events, repeat)
    return ours(name, events, repeat, jit=who == "tocsin")


def child(*arguments: str) -> dict[str, Any]:
    """Run this module in a process of its own; a failure becomes a result that says so."""
    environment = {**os.environ, "TOCSIN_COMPILE_FIRST": "1"}
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.staged.run", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, check=False)
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or ["no message"])[-1]}
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def everything(events: int, repeat: int, only: list[str]) -> dict[str, Any]:
    facts, rows = machine(), []
    for name in only or LOADS:
        for who in ARMS:
            count = events // PLAIN_SHARE if who == "plain" else events
            measured = child("--who", who, "--ask", name, "--events", str(count), "--repeat", str(repeat))
            rows.append({"who": who, "ask": name, "events": count, **measured})
            print(progress(rows[-1]), file=sys.stderr)
    facts["load_after"] = os.getloadavg()[0]
    return {
        "machine": facts,
        "events": events,
        "repeat": repeat,
        "rows": rows,
        "work": windows.work(),
        "times": windows.timed(),
    }


def progress(row: dict[str, Any]) -> str:
    outcome = row.get("error") or f"{row['events'] / row['seconds'] / 1e3:8.0f} k events/s, {row['rows']} rows"
    return f"{row['ask']:26} {row['who']:7} {outcome}"


def problems(rows: list[dict[str, Any]]) -> list[str]:
    """Arms that failed, and statements whose arms found different rows of as many events."""
    wrong = [f"{row['ask']}, {row['who']}: {row['error']}" for row in rows if "error" in row]
    found: dict[tuple[str, int], set[tuple[int, int]]] = {}
    for row in rows:
        if "error" not in row:
            found.setdefault((row["ask"], row["events"]), set()).add((row["rows"], row["checksum"]))
    return wrong + [f"arms disagree: {ask}: {sorted(each)}" for (ask, _), each in found.items() if len(each) > 1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a twentieth of the events")
    parser.add_argument("--repeat", type=int, default=5, help="timed runs of every arm; the best counts")
    parser.add_argument("--only", action="append", default=[], choices=LOADS, help="only this statement (repeatable)")
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--events", type=int, default=EVENTS)
    for hidden in ("--who", "--ask"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.who:
        print(json.dumps(measure(options.who, options.ask, options.events, options.repeat)))
        return 0
    results = everything(options.events // (20 if options.quick else 1), options.repeat, options.only)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(results, indent=1) + "\n")
    print(text(results))
    wrong = problems(results["rows"]) + windows.problems(results["work"])
    wrong += windows.problems_of_times(results["times"])
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
