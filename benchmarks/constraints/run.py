"""One run of the constraint benchmark: memory, CPU and determination time against selectivity.

    python -m benchmarks.constraints.run            all of it, and the page with its pictures
    python -m benchmarks.constraints.run --quick    a tenth of the traces; no page
    python -m benchmarks.constraints.run --page     the page and the pictures again, from the last results

Each selectivity of each group of queries is measured in a process of its own, all arms in turn.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.constraints.load import ASKS, SELECTIVITIES, TRACES, traces
from benchmarks.constraints.report import lines, write_page
from benchmarks.run import machine

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "constraints.json"


def measure(name: str, selectivity: int, count: int, repeat: int) -> list[dict[str, Any]]:
    """Run inside the child."""
    from benchmarks.constraints.measure import measured

    ask = ASKS[name]
    return measured(ask, selectivity, traces(count, ask.branch(selectivity)), repeat)


def child(*arguments: str) -> list[dict[str, Any]]:
    """Run this module in a process of its own; a failure becomes a result that says so."""
    environment = {**os.environ, "TOCSIN_COMPILE_FIRST": "1"}
    command = [sys.executable, "-m", "benchmarks.constraints.run", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, check=False)
    if done.returncode:
        return [{"error": (done.stderr.strip().splitlines() or ["no message"])[-1]}]
    answer: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return answer


def everything(count: int, repeat: int) -> dict[str, Any]:
    facts, rows = machine(), []
    for name in ASKS:
        for selectivity in SELECTIVITIES:
            found = child("--ask", name, "--selectivity", str(selectivity), "--traces", str(count),
                          "--repeat", str(repeat))  # fmt: skip
            rows += [{"ask": name, "selectivity": selectivity, **row} for row in found]
            said = ", ".join(f"{row['arm']} {row['seconds']:.3f} s" if "arm" in row else row["error"] for row in found)
            print(f"{name:11} {selectivity:3} %  {said}", file=sys.stderr)
    facts["load_after"] = os.getloadavg()[0]
    return {"machine": facts, "quick": count < TRACES, "repeat": repeat, "traces": count, "rows": rows}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the traces; the page is not written")
    parser.add_argument("--page", action="store_true", help="write the page again from the last results")
    parser.add_argument("--repeat", type=int, default=5, help="timed runs of every arm; the best counts")
    parser.add_argument("--traces", type=int, default=TRACES)
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--ask", choices=ASKS, help=argparse.SUPPRESS)
    parser.add_argument("--selectivity", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.ask:
        print(json.dumps(measure(options.ask, options.selectivity, options.traces, options.repeat)))
        return 0
    if options.page:
        write_page(json.loads(options.output.read_text()))
        return 0
    results = everything(options.traces // (10 if options.quick else 1), options.repeat)
    print("\n".join(lines(results)))
    if not options.quick or options.output != RESULTS:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(json.dumps(results, indent=1) + "\n")
    if not options.quick and options.output == RESULTS:
        write_page(results)
    failed = [row["error"] for row in results["rows"] if "error" in row]
    for line in failed:
        print(line, file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
