"""How far a run is: a bar with events per second and matches, on a terminal and on long input only."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tocsin.run.query import Watcher

LONG = 500_000  # rows; shorter input is done before a bar could be read


@contextmanager
def watching(*, quiet: bool = False) -> Iterator[Watcher | None]:
    """A watcher that draws a bar on stderr; None where nobody would see it."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns: tuple[Any, ...] = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    began = time.perf_counter()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("reading", total=None)

        def watch(done: int, matches: int) -> None:
            speed = done / max(time.perf_counter() - began, 1e-9)
            progress.update(task, description=f"{done:,} events  {speed:,.0f}/s  {matches:,} matches")

        yield watch


def summary(counters: Mapping[str, int], seconds: float) -> str:
    """One line about a run.

    >>> summary({"events": 12, "relevant": 10, "late": 0, "matches": 2}, 0.5)
    '12 events (10 relevant), 2 matches, 0.50 s'
    """
    parts = [f"{counters.get('events', 0):,} events ({counters.get('relevant', 0):,} relevant)"]
    special = ("late", "duplicates", "skipped", "retracted")
    parts += [f"{counters[name]:,} {name}" for name in special if counters.get(name)]
    return ", ".join([*parts, f"{counters.get('matches', 0):,} matches", f"{seconds:.2f} s"])
