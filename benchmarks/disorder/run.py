"""One run of the disorder benchmark: every experiment, the results as JSON, and the page with its pictures.

    python -m benchmarks.disorder.run            all of it
    python -m benchmarks.disorder.run --quick    a tenth of the events and fewer places on the axes; no page
    python -m benchmarks.disorder.run --only product    one part again, in its place among the last results
    python -m benchmarks.disorder.run --page     the page and the pictures again, from the results of the last run

Each module of experiments runs in a process of its own; a failure there becomes a result that says so.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.disorder.figure import Scale
from benchmarks.disorder.plots import draw
from benchmarks.disorder.report import page
from benchmarks.run import machine

ROOT = Path(__file__).parent.parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "disorder.json"
PAGES = ROOT / "docs" / "experiments"
PARTS = ("compensation", "guarantees", "crossover", "stacks", "slack", "disk", "product")


def part(name: str, *, quick: bool) -> dict[str, Any]:
    """Run inside the child: the figures of one module."""
    module = import_module(f"benchmarks.disorder.experiments.{name}")
    begin = time.process_time()
    figures = [figure.as_json() for figure in module.figures(Scale(quick=quick))]
    return {"name": name, "cpu_seconds": round(time.process_time() - begin, 1), "figures": figures}


def child(name: str, *, quick: bool) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.disorder.run", "--part", name, *(["--quick"] if quick else [])]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    if done.returncode:
        return {"name": name, "error": (done.stderr.strip().splitlines() or ["no message"])[-1]}
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def everything(*, quick: bool, only: list[str]) -> dict[str, Any]:
    facts = machine()
    parts = []
    for name in only or PARTS:
        parts.append(child(name, quick=quick))
        took = parts[-1].get("error") or f"{parts[-1]['cpu_seconds']:.0f} s, {len(parts[-1]['figures'])} figures"
        print(f"{name:14} {took}", file=sys.stderr)
    facts["load_after"] = os.getloadavg()[0]
    return {"machine": facts, "quick": quick, "repeat": Scale(quick=quick).repeat, "parts": parts}


def renewed(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """The old results with those parts that were measured again."""
    parts = {each["name"]: each for each in (*old["parts"], *new["parts"])}
    busy = {name: max(old["machine"][name], new["machine"][name]) for name in ("load_before", "load_after")}
    return {**new, "machine": {**new["machine"], **busy}, "parts": [parts[name] for name in PARTS if name in parts]}


def plain(value: Any) -> Any:
    """As JSON can say it: no NaN, and no more digits than were measured."""
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [plain(each) for each in value]
    if isinstance(value, float):
        return float(f"{value:.5g}") if math.isfinite(value) else None
    return value


def write_page(results: dict[str, Any], folder: Path = PAGES) -> None:
    """The page and one picture for each figure; pictures of figures that are gone go too."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn = {draw(figure, folder) for each in results["parts"] for figure in each.get("figures", ())}
    for old in {each for each in folder.glob("*.png") if not each.name.startswith("intervals-")} - drawn:
        old.unlink()
    (folder / "disorder.md").write_text(page(results))


def lines(results: dict[str, Any]) -> list[str]:
    """What a run says on the terminal: one line for each figure."""
    words = {True: "yes", False: "NO", None: "-"}
    figures = [figure for each in results["parts"] for figure in each.get("figures", ())]
    return [f"{figure['name']:20} {words[figure['agrees']]:4} {figure['finding']}" for figure in figures]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the events; the page is not written")
    parser.add_argument(
        "--only", action="append", default=[], choices=PARTS, help="only this part (repeatable), renewed in the results"
    )
    parser.add_argument("--page", action="store_true", help="write the page again from the last results")
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--part", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part:
        print(json.dumps(plain(part(options.part, quick=options.quick)), allow_nan=False))
        return 0
    if options.page:
        write_page(json.loads(options.output.read_text()))
        return 0
    results = everything(quick=options.quick, only=options.only)
    print("\n".join(lines(results)))
    if options.only and not options.quick and options.output.exists():
        results = renewed(json.loads(options.output.read_text()), results)
    if not options.quick or options.output != RESULTS:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(json.dumps(results, indent=1) + "\n")
    if not options.quick and options.output == RESULTS:
        write_page(results)
    failed = [f"{each['name']} failed: {each['error']}" for each in results["parts"] if "error" in each]
    for line in failed:
        print(line, file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
