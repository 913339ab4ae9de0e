"""This tree beside an older one on Spark, and Spark Connect beside both: python -m benchmarks.spark.beside REVISION.

For each arm of ours every side has a process with its session, which stays; they work in turn, round after round, and
the best of all counts for each: what else the machine does meets all alike. Times are CPU time of a process and all
below it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.beside import checkout, environment
from benchmarks.spark.arms import CONNECT_ARMS, OURS, Job
from benchmarks.spark.data import ROOT
from benchmarks.workloads import WORKLOADS

# What a side runs, in its tree: one run for each line that it is given. Workers write to its output, too.
ANSWER = """
import json, os, sys
from pathlib import Path
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
from benchmarks.spark.arms import SPARK_ARMS, Job, session, timed
from benchmarks.spark.meter import Meter
from benchmarks.workloads import WORKLOADS
arm, load, rows = json.loads(sys.argv[1])
job = Job(WORKLOADS[load], rows)
with Meter() as meter, session(**({"connect": True} if arm.startswith("connect-") else {})) as spark:
    work = SPARK_ARMS[arm](spark, job)
    for line in sys.stdin:
        print(json.dumps(timed(work, meter)), file=answers, flush=True)
"""
WARM_UP = 2  # runs that do not count


@dataclass
class Side:
    """A process that runs one arm whenever it is asked, in the tree of its revision."""

    name: str
    child: subprocess.Popen[str]

    def ask(self) -> None:
        assert self.child.stdin is not None
        self.child.stdin.write("\n")
        self.child.stdin.flush()

    def answer(self) -> dict[str, Any]:
        assert self.child.stdout is not None
        line = self.child.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name}: the process ended; --loud shows what it said")
        told: dict[str, Any] = json.loads(line)
        return told


def started(stack: ExitStack, name: str, tree: Path, arm: str, job: Job, *, loud: bool) -> Side:
    _ = job.path  # written here, once; the older tree finds it by a link
    command = [sys.executable, "-c", ANSWER, json.dumps([arm, job.load.name, job.rows])]
    own = environment(tree)
    own["PYTHONPATH"] = os.pathsep.join([own["PYTHONPATH"], str(tree)])  # workers import the arms
    child = subprocess.Popen(
        command, cwd=tree, env=own, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=None if loud else subprocess.DEVNULL,
    )  # fmt: skip
    return Side(name, stack.enter_context(child))


def rounds(sides: list[Side], number: int) -> dict[str, list[dict[str, Any]]]:
    """The runs of every side after those that warm up, which they do at the same time."""
    for _ in range(WARM_UP):
        for side in sides:
            side.ask()
        found = {(told["matches"], told["checksum"]) for told in [side.answer() for side in sides]}
    runs: dict[str, list[dict[str, Any]]] = {side.name: [] for side in sides}
    for turn in range(number):
        for side in sides if turn % 2 == 0 else reversed(sides):
            side.ask()
            runs[side.name].append(side.answer())
        told = ", ".join(f"{name} {each[-1]['cpu_s']:.2f} s" for name, each in runs.items())
        print(f"  round {turn + 1}: {told}", file=sys.stderr, flush=True)
    found |= {(run["matches"], run["checksum"]) for told in runs.values() for run in told}
    if len(found) > 1:
        raise SystemExit(f"the sides found different things: {sorted(found)}")
    return runs


def line(arm: str, runs: dict[str, list[dict[str, Any]]]) -> str:
    """Best CPU seconds of each side, and what each is to the first."""
    best = {name: min(run["cpu_s"] for run in told) for name, told in runs.items()}
    middle = {name: statistics.median(run["cpu_s"] for run in told) for name, told in runs.items()}
    first = next(iter(runs))
    words = [f"{arm:18}"]
    for name in runs:
        words.append(f"{name} {best[name]:6.2f} s (median {middle[name]:.2f})")
        if name != first:
            words.append(f"= {best[name] / best[first]:.2f} ({middle[name] / middle[first]:.2f})")
    return "  ".join(words)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("revision", help="the older tree, as git names it")
    parser.add_argument("--rounds", type=int, default=7, help="runs of each side that count")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--load", default=Job().load.name, choices=WORKLOADS)
    parser.add_argument("--only", action="append", default=[], choices=OURS, help="only this arm (repeatable)")
    parser.add_argument("--no-connect", action="store_true", help="leave Spark Connect out")
    parser.add_argument("--loud", action="store_true", help="show what the processes say")
    options = parser.parse_args()
    job = Job(WORKLOADS[options.load], options.rows)
    with checkout(options.revision) as old:
        job.path.parent.mkdir(parents=True, exist_ok=True)
        (old / "out").symlink_to(ROOT / "out")
        for arm in options.only or OURS:
            with ExitStack() as stack:
                asked = {"before": (old, arm), "now": (ROOT, arm)}
                connect = f"connect-{arm.removeprefix('tocsin-')}"
                if connect in CONNECT_ARMS and not options.no_connect:
                    asked["connect"] = (ROOT, connect)
                sides = [started(stack, name, tree, its, job, loud=options.loud) for name, (tree, its) in asked.items()]
                print(line(arm, rounds(sides, options.rounds)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
