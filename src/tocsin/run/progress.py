"""Show the progress of a long run on a terminal: events per second and matches so far."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Lock, Timer
from typing import Any

from tocsin.compilers import compilers
from tocsin.run.pace import Watcher

SECONDS_BEFORE_LINE = 2.0  # where lines stay
SECONDS_BEFORE_BAR = 0.5  # seconds; a shorter run is done before a bar could be read


@contextmanager
def watching(*, quiet: bool = False) -> Iterator[Watcher | None]:
    """A watcher that draws a line on stderr while a run is long: how far it came, and what is being compiled.

    Where stderr is no terminal, a plain line says once that rules are being compiled; None where nobody would see it.
    """
    if quiet:
        yield None
    elif sys.stderr.isatty():
        with _drawn() as watch:
            yield watch
    else:
        timer = Timer(SECONDS_BEFORE_LINE, _say_once)
        timer.daemon = True
        timer.start()
        try:
            yield None
        finally:
            timer.cancel()


def _say_once() -> None:
    if (at := compilers().at) is not None:
        rules = "a rule" if at.rules == 1 else f"{at.rules} rules"
        sys.stderr.write(f"compiling {rules}; until they are compiled, plain Python answers\n")


@contextmanager
def _drawn() -> Iterator[Watcher]:
    from rich.console import Console
    from rich.progress import Progress, ProgressColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.text import Text

    class Compiled(ProgressColumn):
        """What is being compiled, asked whenever the line is drawn."""

        def render(self, task: Any) -> Text:  # noqa: ARG002
            return Text(str(compilers().at or ""))

    columns: tuple[Any, ...] = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), Compiled())
    progress = Progress(*columns, console=Console(stderr=True), transient=True)
    task = progress.add_task("reading", total=None)
    began, lock, is_over = time.perf_counter(), Lock(), False

    def start() -> None:
        with lock:
            if not is_over:
                progress.start()

    timer = Timer(SECONDS_BEFORE_BAR, start)  # also while nothing was answered yet
    timer.daemon = True
    timer.start()

    def watch(done: int, matches: int) -> None:
        seconds = time.perf_counter() - began
        if seconds > SECONDS_BEFORE_BAR:
            progress.update(task, description=f"{done:,} events  {done / seconds:,.0f}/s  {matches:,} matches")

    try:
        yield watch
    finally:
        timer.cancel()
        with lock:
            is_over = True
            progress.stop()


def summary(counters: Mapping[str, int], seconds: float) -> str:
    """One line about a run.

    >>> summary({"events": 12, "relevant": 10, "late": 0, "matches": 2}, 0.5)
    '12 events (10 relevant), 2 matches, 0.50 s'
    """
    events = counters.get("events", 0)
    parts = [f"{events:,} event{'' if events == 1 else 's'} ({counters.get('relevant', 0):,} relevant)"]
    special = {"keyless": "without a key", "conflicting": "copies that differ from the one that counts"}
    special |= {name: name for name in ("late", "duplicates", "skipped", "retracted", "waiting")}
    parts += [f"{counters[name]:,} {said}" for name, said in special.items() if counters.get(name)]
    matches = counters.get("matches", 0)
    said = ", ".join([*parts, f"{matches:,} match{'' if matches == 1 else 'es'}", f"{seconds:.2f} s"])
    return said if "traces" not in counters else f"{said}\n{of_traces(counters)}"


def of_traces(counters: Mapping[str, int]) -> str:
    """One line about traces under constraints; the time to a verdict is in ticks of the stream.

    >>> of_traces({"traces": 9, "decided": 8, "expected": 3, "unsat": 5, "determination": 40, "spared": 20})
    '9 traces: 8 decided early (3 expected, 5 hopeless), after 5 ticks on average, 20 events spared, 0 released'
    """
    traces, decided = counters.get("traces", 0), counters.get("decided", 0)
    early = f"{counters.get('expected', 0):,} expected, {counters.get('unsat', 0):,} hopeless"
    parts = [f"{traces:,} trace{'' if traces == 1 else 's'}: {decided:,} decided early ({early})"]
    if counters.get("determination"):
        parts.append(f"after {counters['determination'] / decided:,.3g} ticks on average")
    parts += [f"{counters[name]:,} {name}" for name in ("violated", "unconfirmed") if counters.get(name)]
    spared = counters.get("spared", 0)
    return ", ".join([*parts, f"{spared:,} event{'' if spared == 1 else 's'} spared",
                      f"{counters.get('released', 0):,} released"])  # fmt: skip
