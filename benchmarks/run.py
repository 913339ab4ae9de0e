"""One run of all benchmarks: events per CPU-second and peak memory of every arm, as a table and as JSON.

Each arm works in its own process, so that memory and caches are its own; it runs once to warm up and then an equal
number of times for everybody, and the best counts. Times are CPU time of the process, all threads. Arms of one workload
must find equal numbers of matches, or the run fails.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.report import text
from benchmarks.workloads import WORKLOADS, Workload, stream

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "latest.json"
KEYED = ("W1-100", "W1-10k", "W1-10kD")
ARMS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys((*KEYED, "dense"), ("tocsin", "arrow", "plain", "hand", "polars", "duckdb")),
    **dict.fromkeys(("W2", "W3", "W4"), ("tocsin", "arrow", "plain", "polars", "duckdb")),
    **dict.fromkeys(("W6-100", "W6-10kD"), ("tocsin", "polars", "duckdb")),
    **dict.fromkeys(("wide", "never"), ("tocsin",)),
}
PLAIN_SHARE = 25  # the plain body gets this much less, or a run would take an hour
PROBES = ("latency", "compile", "state")


Work = Callable[[], int]  # does the arm's work once and returns the number of matches


def prepared(arm: str, load: Workload, events: int) -> Callable[[], Work]:
    """A maker of work: what is made is timed, the making (a compiled query that has seen nothing yet) is not."""
    made = stream(load, events)
    if arm == "hand":
        from benchmarks import hand

        return lambda: lambda: hand.count(made, load.window, load.keys)
    if arm in ("polars", "duckdb"):
        from benchmarks import rivals

        rival = {"polars": rivals.polars, "duckdb": rivals.duckdb}[arm](load, made)
        return lambda: rival
    from benchmarks import ours

    from_arrow = arm == "arrow"
    make = ours.work_from_arrow if from_arrow else ours.work
    ordered = load.disorder == 0
    ready = ours.prepare(load.query, made.table(), jit=arm != "plain", ordered=ordered, encoded=not from_arrow)
    return lambda: make(ready)


def measure(arm: str, load: Workload, events: int, repeat: int) -> dict[str, Any]:
    """Run inside the child: warm up once, then the best of `repeat`."""
    make = prepared(arm, load, events)
    matches = make()()
    before = peak_memory()
    best = float("inf")
    for _ in range(repeat):
        work = make()
        gc.collect()
        begin = time.process_time()
        again = work()
        best = min(best, time.process_time() - begin)
        if again != matches:
            raise SystemExit(f"{arm} on {load.name}: {matches} matches, then {again}")
    return {
        "arm": arm,
        "workload": load.name,
        "events": events,
        "matches": matches,
        "seconds": best,
        "events_per_second": events / best,
        "memory_first_run": before,
        "memory_peak": peak_memory(),
    }


def peak_memory() -> int:
    """Bytes; Linux counts in KiB, macOS in bytes."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def child(*arguments: str) -> dict[str, Any]:
    """Run this module in a process of its own; a failure becomes a result that says so."""
    environment = {**os.environ, "POLARS_MAX_THREADS": "1"}
    command = [sys.executable, "-m", "benchmarks.run", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=ROOT, check=False)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return {"error": reason}
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def machine() -> dict[str, Any]:
    """What the numbers depend on."""
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": {name: version(name) for name in ("numpy", "numba", "pyarrow", "polars", "duckdb")},
        "load_before": os.getloadavg()[0],
    }


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def everything(*, quick: bool, repeat: int, only: list[str]) -> dict[str, Any]:
    """All arms of all workloads, then the probes of Tocsin alone."""
    facts = machine()
    rows = []
    for name in only or ARMS:
        for arm in ARMS[name]:
            events = WORKLOADS[name].events // (20 if quick else 1) // (PLAIN_SHARE if arm == "plain" else 1)
            row = child("--arm", arm, "--workload", name, "--events", str(events), "--repeat", str(repeat))
            rows.append({"arm": arm, "workload": name, **row})
            print(progress(rows[-1]), file=sys.stderr)
    probes = {} if only else {probe: child("--probe", probe, *(["--quick"] if quick else [])) for probe in PROBES}
    facts["load_after"] = os.getloadavg()[0]
    return {"machine": facts, "quick": quick, "repeat": repeat, "rows": rows, **probes}


def progress(row: dict[str, Any]) -> str:
    outcome = row.get("error") or f"{row['events_per_second'] / 1e6:8.2f} M events/s, {row['matches']} matches"
    return f"{row['workload']:8} {row['arm']:8} {outcome}"


def disagreements(rows: list[dict[str, Any]]) -> list[str]:
    """Workloads whose arms, given the same events, found different numbers of matches."""
    found: dict[tuple[str, int], set[int]] = {}
    for row in rows:
        if "error" not in row:
            found.setdefault((row["workload"], row["events"]), set()).add(row["matches"])
    return [f"{name}: {sorted(counts)}" for (name, _), counts in found.items() if len(counts) > 1]


def probe(name: str, *, quick: bool) -> dict[str, Any]:
    from benchmarks import ours

    probes = {"latency": ours.latency, "compile": ours.compile_times, "state": ours.flat_state}
    return probes[name](quick=quick)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a twentieth of the events")
    parser.add_argument("--repeat", type=int, default=5, help="timed repetitions of every arm; the best counts")
    parser.add_argument("--only", action="append", default=[], choices=ARMS, help="only this workload (repeatable)")
    parser.add_argument("--output", type=Path, default=RESULTS)
    for hidden in ("--arm", "--workload", "--probe"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    parser.add_argument("--events", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.probe:
        print(json.dumps(probe(options.probe, quick=options.quick)))
        return 0
    if options.arm:
        print(json.dumps(measure(options.arm, WORKLOADS[options.workload], options.events, options.repeat)))
        return 0
    results = everything(quick=options.quick, repeat=options.repeat, only=options.only)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(results, indent=1) + "\n")
    print(text(results))
    wrong = [f"arms disagree on the number of matches: {line}" for line in disagreements(results["rows"])]
    wrong += [f"{row['workload']} {row['arm']} failed: {row['error']}" for row in results["rows"] if "error" in row]
    wrong += [f"{name} failed: {results[name]['error']}" for name in PROBES if "error" in results.get(name, {})]
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
