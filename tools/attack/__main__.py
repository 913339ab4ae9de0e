"""The command: draw inputs for all surfaces in turn, show progress, make findings small, print what was found."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tools.attack.core import DIED, HUNG, Input, Outcome, drawn, from_text
from tools.attack.parent import ROOT, Child
from tools.attack.report import Report, keep
from tools.attack.shrink import shrunk
from tools.attack.surfaces import NAMES, surface

MOMENT = 30  # seconds that are spent to make one finding small
FOUND = ROOT / "out" / "attack"


def plan(names: Sequence[str], inputs: int) -> Iterator[tuple[str, int]]:
    """Yield surface and number of so many inputs, the surfaces mixed by their shares from beginning to end."""
    shares = {name: surface(name).share for name in names}
    whole = sum(shares.values())
    done = dict.fromkeys(names, 0)
    for at in range(inputs):
        name = max(names, key=lambda each: (at + 1) * shares[each] / whole - done[each])
        yield name, done[name]
        done[name] += 1


def attack(
    names: Sequence[str], inputs: int, *, seed: int = 1, seconds: float | None = None, only: int | None = None,
    into: Path | None = None, console: Console | None = None, child: Child | None = None,
) -> Report:  # fmt: skip
    """Try the inputs, until the time is over; findings are made small and written to the folder `into`.

    `child` is a process that runs already; without it one is started, and ended.
    """
    report, began = Report(seed), time.monotonic()
    chosen = list(plan(names, inputs)) if only is None else [(name, only) for name in names]
    columns = (TextColumn("{task.description:12}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with (
        Child() if child is None else nullcontext(child) as running,
        Progress(*columns, console=console, disable=console is None) as bar,
    ):
        task = bar.add_task("", total=len(chosen))
        for name, number in chosen:
            if seconds is not None and time.monotonic() - began > seconds:
                break
            finding = report.add(name, number, running.drawn(name, seed, number))
            if finding is not None and into is not None:
                given = drawn(surface(name), seed, number)
                finding.file = keep(finding, seed, smaller(running, name, given, finding.outcome), into)
            bar.update(task, advance=1, description=f"{name}, {len(report.findings)} found")
    return report


def smaller(child: Child, name: str, given: Input, outcome: Outcome) -> Input:
    """Make the input of a finding small, as far as that goes in a moment; what takes long is tried less often."""
    most, until = {HUNG: 2, DIED: 25}.get(outcome.word, 150), time.monotonic() + MOMENT

    def fails(less: Input) -> bool:
        return time.monotonic() < until and child.given(name, less).kind == outcome.kind

    return shrunk(given, fails, most=most)


def replay(path: Path, console: Console) -> int:
    """Try the input of a kept finding again."""
    told = from_text(path.read_text(encoding="utf-8"))
    with Child() as child:
        outcome = child.given(told["surface"], told["input"])
    console.print(f"{outcome.word} {outcome.place}\n{outcome.problem}", markup=False)
    return 0 if outcome.fine else 1


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.attack", description=__doc__)
    parser.add_argument("--inputs", type=int, default=4000, help="how many inputs to draw, over all surfaces")
    parser.add_argument("--seconds", type=float, default=None, help="stop after this time")
    parser.add_argument("--seed", type=int, default=1, help="another seed draws other inputs")
    parser.add_argument("--surface", choices=NAMES, action="append", help="only this one; may be given several times")
    parser.add_argument("--only", type=int, default=None, help="only the input with this number")
    parser.add_argument("--into", type=Path, default=FOUND, help="where findings are written")
    parser.add_argument("--replay", type=Path, default=None, help="try the input of a kept finding again")
    given = parser.parse_args(arguments)
    console = Console() if sys.stdout.isatty() else Console(width=180)
    if given.replay is not None:
        return replay(given.replay, console)
    report = attack(
        given.surface or NAMES, given.inputs, seed=given.seed, seconds=given.seconds, only=given.only, into=given.into,
        console=console,
    )  # fmt: skip
    report.show(console)
    return 1 if report.findings else 0


if __name__ == "__main__":
    sys.exit(main())
