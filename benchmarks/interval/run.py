"""One run of the interval benchmark: the experiments, then ten million intervals beside DuckDB and Polars.

    python -m benchmarks.interval.run            all of it, with docs/experiments/intervals.md and its pictures
    python -m benchmarks.interval.run --quick    small streams and fewer places on the axes; no page
    python -m benchmarks.interval.run --page     the page and the pictures again, from the results of the last run

Each part runs in a process of its own; a failure there becomes a result that says so.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.disorder.figure import Scale
from benchmarks.disorder.plots import draw
from benchmarks.disorder.run import plain
from benchmarks.interval import experiments, rivals
from benchmarks.interval.report import page
from benchmarks.run import machine

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "interval.json"
PAGES = ROOT / "docs" / "experiments"
EVENTS, MOST_COMPARED = 10_000_000, 500_000  # join_where compares too much to be asked for all
MOST = {"four leaves, mixed": 4_000_000}  # the joins of the rivals need more memory than there may be
PARTS = ("profiles", "lengths_of_queries", "lengths_of_intervals", "densities", "product_memory")


def measure(who: str, name: str, events: int, repeat: int) -> dict[str, Any]:
    """Run inside the child: once to warm up, then the best of several runs."""
    work = rivals.prepared(who, name, rivals.load(name, events))
    matches, best = work(), float("inf")
    for _ in range(repeat):
        before = time.process_time()
        again = work()
        best = min(best, time.process_time() - before)
        if again != matches:
            raise SystemExit(f"{who} on {name}: {matches} matches, then {again}")
    return {"matches": matches, "seconds": best}


def child(*arguments: str) -> dict[str, Any]:
    """Run this module in a process of its own; a failure becomes a result that says so."""
    environment = {**os.environ, "POLARS_MAX_THREADS": "1", "TOCSIN_COMPILE_FIRST": "1"}
    command = [sys.executable, "-m", "benchmarks.interval.run", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=ROOT, check=False)
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or ["no message"])[-1]}
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def everything(*, quick: bool, only: list[str], events: int) -> dict[str, Any]:
    facts = machine()
    parts = []
    for name in [part for part in PARTS if not only or part in only]:
        parts.append({"name": name, **child("--part", name, *(["--quick"] if quick else []))})
        print(f"{name:22} {parts[-1].get('error', 'done')}", file=sys.stderr)
    rows = []
    for name in rivals.PATTERNS if not only or "rivals" in only else ():
        for who in rivals.ARMS:
            most = MOST_COMPARED if who.endswith("join_where") else MOST.get(name, events)
            asked = min(events, most)
            answer = child("--who", who, "--name", name, "--events", str(asked), "--repeat", "1" if quick else "3")
            rows.append({"who": who, "name": name, "events": asked, **answer})
            print(f"{name:22} {who:20} {rows[-1]}", file=sys.stderr)
    facts["load_after"] = os.getloadavg()[0]
    return {"machine": facts, "quick": quick, "repeat": Scale(quick=quick).repeat, "parts": parts, "rows": rows}


def renewed(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """The old results with what was measured again."""
    parts = {each["name"]: each for each in (*old["parts"], *new["parts"])}
    return {**new, "parts": [parts[name] for name in PARTS if name in parts], "rows": new["rows"] or old["rows"]}


def write_page(results: dict[str, Any], folder: Path = PAGES) -> None:
    for part in results["parts"]:
        if "figure" in part:
            draw(part["figure"], folder)
    (folder / "intervals.md").write_text(page(results))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small streams; the page is not written")
    parser.add_argument("--only", action="append", default=[], choices=(*PARTS, "rivals"))
    parser.add_argument("--page", action="store_true", help="write the page again from the last results")
    parser.add_argument("--events", type=int, default=EVENTS)
    parser.add_argument("--output", type=Path, default=RESULTS)
    for hidden in ("part", "who", "name"):
        parser.add_argument(f"--{hidden}", help=argparse.SUPPRESS)
    parser.add_argument("--repeat", type=int, default=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part:
        figure = getattr(experiments, options.part)(Scale(quick=options.quick))
        print(json.dumps({"figure": plain(figure.as_json())}, allow_nan=False))
        return 0
    if options.who:
        print(json.dumps(measure(options.who, options.name, options.events, options.repeat)))
        return 0
    if options.page:
        write_page(json.loads(options.output.read_text()))
        return 0
    results = everything(quick=options.quick, only=options.only, events=options.events // (100 if options.quick else 1))
    if options.only and options.output.exists():
        results = renewed(json.loads(options.output.read_text()), results)
    if not options.quick:
        options.output.write_text(json.dumps(results, indent=1) + "\n")
        write_page(results)
    counts: dict[tuple[str, int], set[int]] = {}
    for row in results["rows"]:
        counts.setdefault((row["name"], row["events"]), set()).add(row.get("matches", -1))
    failed = [f"{each['name']}: {each['error']}" for each in (*results["parts"], *results["rows"]) if "error" in each]
    failed += [
        f"{name}, {events:,}: {sorted(found)} matches" for (name, events), found in counts.items() if len(found) > 1
    ]
    print("\n".join(failed), file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
