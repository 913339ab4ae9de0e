"""This tree beside an older one: python -m benchmarks.beside REVISION, for "not slower than before".

Both trees answer the same workloads in turn, each in a process of its own that stays, repetition after repetition, and
the best of all counts for each: what else the machine does meets both alike. Times are CPU time.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.run import ARMS, ROOT
from benchmarks.workloads import WORKLOADS

# What the process of a tree runs, in that tree: one repetition for each line that it is given.
ANSWER = """
import gc, json, sys, time
from benchmarks.run import prepared
from benchmarks.workloads import WORKLOADS
arm, name, events = json.loads(sys.argv[1])
make = prepared(arm, WORKLOADS[name], events)
make()()
for line in sys.stdin:
    work = make()
    gc.collect()
    begin = time.process_time()
    matches = work()
    print(json.dumps([time.process_time() - begin, matches]), flush=True)
"""


@contextmanager
def checkout(revision: str) -> Iterator[Path]:
    """The tree of a revision in a folder of its own, which is removed afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "old"
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", tree, revision], cwd=ROOT, check=True)
        try:
            yield tree
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", tree], cwd=ROOT, check=True)


def environment(tree: Path) -> dict[str, str]:
    """With a tree's own sources; kernels are compiled before they are asked for anything."""
    own = {"PYTHONPATH": str(tree / "src"), "POLARS_MAX_THREADS": "1", "TOCSIN_COMPILE_FIRST": "1"}
    return {**os.environ, **own}


def ask(tree: Path, *arguments: str) -> dict[str, Any]:
    """One measurement by a tree's own benchmarks."""
    command = [sys.executable, "-m", "benchmarks.run", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(tree), cwd=tree, check=False)
    if done.returncode:
        raise SystemExit(f"{tree}: {' '.join(arguments)} failed:\n{done.stderr[-2000:]}")
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def workload(name: str, arm: str, trees: list[Path], rounds: int, share: int) -> list[float]:
    """The best CPU seconds of each tree; both must find the same number of matches."""
    given = json.dumps([arm, name, WORKLOADS[name].events // share])
    best, matches = [float("inf")] * len(trees), set()
    with ExitStack() as stack:
        children = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", ANSWER, given],
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment(tree), cwd=tree,
                )
            )
            for tree in trees
        ]  # fmt: skip
        for turn in range(rounds):
            for at in range(len(trees)) if turn % 2 == 0 else reversed(range(len(trees))):
                seconds, found = _repetition(children[at])
                best[at] = min(best[at], seconds)
                matches.add(found)
    if len(matches) > 1:
        raise SystemExit(f"{name} {arm}: the trees disagree on the number of matches: {sorted(matches)}")
    return best


def _repetition(child: subprocess.Popen[str]) -> tuple[float, int]:
    assert child.stdin is not None and child.stdout is not None
    child.stdin.write("\n")
    child.stdin.flush()
    seconds, matches = json.loads(child.stdout.readline())
    return seconds, matches


def latency(trees: list[Path], rounds: int) -> list[dict[str, float]]:
    """The best of every figure of the latency probe, in microseconds."""
    best: list[dict[str, float]] = [{} for _ in trees]
    for _ in range(rounds):
        for mine, tree in zip(best, trees, strict=True):
            for figure, value in ask(tree, "--probe", "latency", "--quick").items():
                if isinstance(value, int | float):
                    mine[figure] = min(mine.get(figure, float("inf")), value)
    return best


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("revision", help="the older tree, as git names it")
    parser.add_argument("--rounds", type=int, default=15, help="repetitions of each workload in each tree")
    parser.add_argument("--share", type=int, default=2, help="of the events, one in so many")
    parser.add_argument("--arm", action="append", default=[], choices=("tocsin", "arrow"), help="only this arm")
    parser.add_argument("--only", action="append", default=[], choices=ARMS, help="only this workload (repeatable)")
    options = parser.parse_args()
    with checkout(options.revision) as old:
        trees = [old, ROOT]
        print(f"{'':22} {'before':>10} {'now':>10} {'now/before':>11}   (CPU ms)")
        for name in options.only or ARMS:
            for arm in options.arm or ("tocsin", "arrow"):
                if arm in ARMS[name]:
                    was, now = workload(name, arm, trees, options.rounds, options.share)
                    print(f"{name:13} {arm:8} {was * 1e3:10.2f} {now * 1e3:10.2f} {now / was:11.3f}", flush=True)
        if not options.only:
            before, after = latency(trees, options.rounds)
            for figure in before:
                was, now = before[figure], after[figure]
                print(f"{figure:22} {was:10.3f} {now:10.3f} {now / was:11.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
