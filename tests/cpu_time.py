"""How much CPU time a run of tests takes with all that it starts, shown at its end.

`make test` must stay under ten minutes by the clock on two idle cores. A busy machine takes longer by the clock, but
hardly more CPU time: so this number tells whether there is still room for what is added.
"""

from __future__ import annotations

from typing import Any

from benchmarks.spark.meter import Meter

ENOUGH_S = 19 * 60  # of two cores in ten minutes, which are never busy all the time


def begin() -> Meter:
    """Watch this process and all below it, without adopting anybody: tests look at whose child a process is."""
    meter = Meter(interval_s=1.0, adopts=False)
    meter.__enter__()
    return meter


def tell(meter: Meter, reporter: Any, *, limited: bool) -> None:
    """Write the sum; if the run is `limited`, also that it is too much."""
    spent = meter.cpu()
    meter.__exit__(None, None, None)
    if spent is None:
        return
    reporter.write_line(f"{spent:.0f} s of CPU time in all processes")
    if limited and spent > ENOUGH_S:
        reporter.write_line(f"make test may take {ENOUGH_S} s: which of the slowest tests is worth it?", red=True)
