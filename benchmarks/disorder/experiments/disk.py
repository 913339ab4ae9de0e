"""Tocsin with a memory limit: when what was spilled to disk should be loaded again (Liu 2009, Fig 15)."""

from __future__ import annotations

from functools import partial

from benchmarks.disorder.baselines.pattern import Event
from benchmarks.disorder.figure import Figure, Panel, Scale
from benchmarks.disorder.measure import Run, take_turns, watched
from benchmarks.disorder.product import Disk, Strategy, ready
from benchmarks.disorder.workload import Load
from tocsin.testing.streams import Arrivals, table

LIMIT = 32_000  # bytes; without a limit the state is some ten times that
UNIT = 1
DELAY = 1000  # time units, fifty windows
PATIENCE = 1500  # events


def figures(scale: Scale) -> list[Figure]:
    return [thresholds(scale)]


def thresholds(scale: Scale) -> Figure:
    counts = scale.places([2, 5, 9, 20, 50, 100, 200, 400])
    events = scale.events(3000)
    load = Load(5, delay=DELAY, given=Arrivals(events=events, unit=UNIT, disorder=0.8))
    stream = [given for given in load.stream if isinstance(given, Event)]
    prepared = ready(load.pattern.query(), table(load.arrivals))
    order = f"aggressive({load.k})"

    def run_of(disk: Disk | None) -> Run:
        return watched(partial(Strategy, load.pattern, prepared, stream, order, disk), load.stream)

    whole = run_of(None)
    runs = {count: run_of(Disk(LIMIT, many=count, patience=PATIENCE)) for count in counts}
    wrong = [count for count, run in runs.items() if run.answers != whole.answers]
    if wrong:
        raise SystemExit(f"with a memory limit the answers differ at thresholds of {wrong}")
    take_turns([whole, *runs.values()], 1)
    gap = min(run.cpu_us for run in runs.values()) / 0.5
    latency = [run.latency_us(gap) for run in runs.values()]
    delay = [run.delay / UNIT for run in runs.values()]
    cpu = [run.cpu_us for run in runs.values()]
    best = counts[latency.index(min(latency))]
    between = best not in (counts[0], counts[-1])
    x = "events that wait for a frame before it is loaded"
    return Figure(
        "fig-15",
        "Liu 2009, Fig 15",
        "A memory limit: latency against the threshold for loading frames",
        f"Tocsin, aggressive; L = 5, W = 20, MD = {DELAY} units of a tick, 80 % late, {events:,} events one by one, a "
        f"limit of {LIMIT:,} bytes; at most {PATIENCE} events of waiting; one event every {gap:.0f} us",
        "falls steeply up to 5 waiting events, and rises again from 9 on",
        f"loading at once costs {cpu[0]:.0f} us an event and loading late {cpu[-1]:.0f}, against {whole.cpu_us:.0f} "
        f"without a limit; answers wait {delay[0]:.1f} time units for their frame at one end and "
        f"{delay[-1]:.1f} at the other. "
        f"The latency is lowest at {best} waiting events: "
        + (
            "first the server is freed of loading, then answers wait for their frame, as in the paper. "
            if between
            else "over this range only one of the two effects shows, loading or waiting. "
        )
        + "Where the lowest point lies depends on the rate of events and on the speed of the disk, and moves between "
        "runs. The setting was chosen after a first one (MD = 2000, 400 events of waiting, thresholds up to 80, a "
        "tenth of the events) had shown the fall alone: what is reproduced is that a rise exists, not where it begins.",
        between,
        [
            Panel("average latency", x, "microseconds", counts, {"aggressive": latency}, log=True),
            Panel("CPU time per event", x, "microseconds", counts,
                  {"with the limit": cpu, "without": [whole.cpu_us] * len(counts)}),
            Panel("delay without any computing", x, "time units", counts, {"aggressive": delay}),
        ],
    )  # fmt: skip
