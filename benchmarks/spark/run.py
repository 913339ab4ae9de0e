"""One run of the Spark benchmark: every arm on the same files, as a table and as JSON."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.run import processor
from benchmarks.spark import flink, report
from benchmarks.spark.arms import ARMS, Job, measured
from benchmarks.spark.data import LOAD, ROOT
from benchmarks.workloads import WORKLOADS

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


def everything(job: Job, arms: list[str]) -> dict[str, Any]:
    facts, rows = machine(), []
    for arm in arms:
        rows.append(measured(arm, job))
        print(progress(rows[-1]), file=sys.stderr)
    facts["load_after"] = os.getloadavg()[0]
    return {"machine": facts, "workload": job.load.name, "size": job.rows, "repeat": job.repeat, "rows": rows}


def progress(row: dict[str, Any]) -> str:
    if "skipped" in row or "error" in row:
        return f"{row['name']:20} {row.get('skipped') or row['error']}"
    cpu = "" if row["cpu_s"] is None else f", {row['cpu_s']:.2f} s CPU"
    return f"{row['name']:20} {row['wall_s']:8.2f} s{cpu}, {row['matches']} matches"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=Job.rows)
    parser.add_argument("--load", default=LOAD.name, choices=WORKLOADS)
    parser.add_argument(
        "--repeat", type=int, default=Job.repeat, help="timed repetitions of every arm; the best counts"
    )
    parser.add_argument("--only", action="append", default=[], choices=ARMS, help="only this arm (repeatable)")
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    results = everything(Job(WORKLOADS[options.load], options.rows, options.repeat), options.only or list(ARMS))
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(results, indent=1) + "\n")
    print(report.text(results))
    wrong = [f"arms disagree: {line}" for line in report.disagreements(results["rows"])]
    wrong += [f"{row['name']} failed: {row['error']}" for row in results["rows"] if "error" in row]
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
