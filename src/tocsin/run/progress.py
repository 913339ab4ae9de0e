"""Show the progress of a long run on a terminal: events per second and matches so far."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tocsin.run.pace import Watcher

SECONDS_BEFORE_BAR = 0.5  # seconds; a shorter run is done before a bar could be read


@contextmanager
def watching(*, quiet: bool = False) -> Iterator[Watcher | None]:
    """A watcher that draws a line on stderr while a run is long; None where nobody would see it."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns: tuple[Any, ...] = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    progress = Progress(*columns, console=Console(stderr=True), transient=True)
    task = progress.add_task("reading", total=None)
    began = time.perf_counter()

    def watch(done: int, matches: int) -> None:
        seconds = time.perf_counter() - began
        if seconds > SECONDS_BEFORE_BAR:
            progress.start()
            progress.update(task, description=f"{done:,} events  {done / seconds:,.0f}/s  {matches:,} matches")

    try:
        yield watch
    finally:
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
    return ", ".join([*parts, f"{matches:,} match{'' if matches == 1 else 'es'}", f"{seconds:.2f} s"])
