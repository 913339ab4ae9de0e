"""One run of the Spark benchmark: every arm on the same files, as a table and as JSON."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.run import processor
from benchmarks.spark import flink, report
from benchmarks.spark.arms import ARMS, CONNECT_ARMS, OURS, Job, measured
from benchmarks.spark.data import ROOT
from benchmarks.workloads import WORKLOADS

LOADS = ("W1-10kD", "W1-100")
# the forms of each rival that were ever the fastest one; --only names any other
USUAL = (*OURS, *CONNECT_ARMS, "selfjoin-plain", "selfjoin-binned", "flink-batch", "flink-streaming-1")
RESULTS = ROOT / "benchmarks" / "results" / "spark.json"


def machine() -> dict[str, Any]:
    """What the numbers depend on."""
    versions = {name: version(name) for name in ("pyspark", "pyarrow", "numba")}
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": {**versions, "flink": flink.VERSION},
        "load_before": os.getloadavg()[0],
    }


def everything(jobs: list[Job], arms: list[str], *, extras: bool) -> dict[str, Any]:
    facts, loads = machine(), []
    for job in jobs:
        print(f"{job.load.name}, {job.rows:,} rows", file=sys.stderr)
        rows = []
        for arm in arms:
            rows.append(measured(arm, job))
            print(progress(rows[-1]), file=sys.stderr)
        loads.append({"workload": job.load.name, "size": job.rows, "repeat": job.repeat, "rows": rows})
    more = {name: alone(name) for name in ("steps", "state", "hot")} if extras else {}
    facts["load_after"] = os.getloadavg()[0]
    return {"machine": facts, "loads": loads, **more}


def alone(name: str) -> dict[str, Any]:
    """A measurement that is a script of its own."""
    print(name, file=sys.stderr)
    command = [sys.executable, "-m", f"benchmarks.spark.{name}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=1800)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def progress(row: dict[str, Any]) -> str:
    if "skipped" in row or "error" in row:
        return f"{row['name']:20} {row.get('skipped') or row['error']}"
    cpu = "" if row["cpu_s"] is None else f", {row['cpu_s']:.2f} s CPU"
    return f"{row['name']:20} {row['wall_s']:8.2f} s{cpu}, {row['matches']} matches"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=Job.rows)
    parser.add_argument("--load", action="append", default=[], choices=WORKLOADS, help="only this one (repeatable)")
    parser.add_argument("--quick", action="store_true", help="a million rows and one repetition")
    parser.add_argument(
        "--repeat", type=int, default=Job.repeat, help="timed repetitions of every arm; the best counts"
    )
    parser.add_argument("--only", action="append", default=[], choices=ARMS, help="only this arm (repeatable)")
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    size, repeat = (1_000_000, 1) if options.quick else (options.rows, options.repeat)
    jobs = [Job(WORKLOADS[name], size, repeat) for name in options.load or LOADS]
    results = everything(jobs, options.only or list(USUAL), extras=not options.quick and not options.only)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(results, indent=1) + "\n")
    print(report.text(results))
    rows = [row for load in results["loads"] for row in load["rows"]]
    wrong = [f"arms disagree: {line}" for line in report.disagreements(rows)]
    wrong += [f"{row['name']} failed: {row['error']}" for row in rows if "error" in row]
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
