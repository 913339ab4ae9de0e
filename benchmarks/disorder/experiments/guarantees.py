"""Conservative answers and the reorder buffer: state, CPU time and latency (Liu 2009, Figs 10 to 14)."""

from __future__ import annotations

from benchmarks.disorder.experiments.compensation import LENGTHS, SETTINGS, cpus, latencies, time_all
from benchmarks.disorder.figure import Curves, Figure, Panel, Scale, change, falling, mean, ordered, rising, times
from benchmarks.disorder.measure import Run
from benchmarks.disorder.workload import Load
from tocsin.testing.streams import Arrivals


def figures(scale: Scale) -> list[Figure]:
    return [
        state_figure(scale),
        overhead_figure(scale),
        latency_figure(scale),
        *buffer_figures(scale),
        purge_figure(scale),
    ]


def state_figure(scale: Scale) -> Figure:
    shares = scale.places([10, 20, 30, 40])
    events = scale.events(6000)
    sizes: Curves = {"conservative": [], "aggressive (needs none)": []}
    for share in shares:
        load = Load(7, given=Arrivals(events=events, unit=3, disorder=0.3, promises=share / 100))
        sizes["conservative"].append(load.run("conservative").state)
        sizes["aggressive (needs none)"].append(load.run("aggressive").state)
    found = sizes["conservative"]
    return Figure(
        "fig-10",
        "Liu 2009, Fig 10",
        "Conservative: state against the number of guarantees",
        SETTINGS.format(events=events).replace("L positive", "7 positive") + ", 30 % late",
        "falls with more guarantees",
        f"from {found[0]:.0f} stored events and held sequences at 10 % to {found[-1]:.0f} at 40 %.",
        falling(found),
        [Panel("state", "guarantees, % of events", "events and held sequences, average", shares, sizes)],
    )


def overhead_figure(scale: Scale) -> Figure:
    shares = scale.places([10, 20, 30, 40])
    events = scale.events(4000)
    runs: dict[str, list[Run]] = {"conservative": [], "in-order engine": []}
    for share in shares:
        load = Load(7, given=Arrivals(events=events, unit=3, promises=share / 100))
        runs["conservative"].append(load.run("conservative"))
        runs["in-order engine"].append(load.run("in-order"))
    time_all(runs, scale)
    curves = cpus(runs)
    ratio = curves["conservative"][-1] / curves["in-order engine"][-1]
    return Figure(
        "fig-11",
        "Liu 2009, Fig 11",
        "Conservative: CPU time on ordered input",
        SETTINGS.format(events=events).replace("L positive", "7 positive") + ", nothing late",
        "the difference is the overhead of guarantees",
        f"at {shares[-1]} % guarantees the conservative arm needs {times(ratio)} the time of the in-order engine. Each "
        "guarantee tries the purge rules on all stored events until nothing more goes; few guarantees let state grow, "
        "many make the rules run often.",
        ratio > 1,
        [Panel("CPU time per event", "guarantees, % of events", "microseconds", shares, curves)],
    )


def latency_figure(scale: Scale) -> Figure:
    shares = scale.places([10, 20, 30, 40, 50])
    events = scale.events(6000)
    runs = {
        f"{pog} % guarantees": [
            Load(3, given=Arrivals(events=events, unit=3, disorder=share / 100, promises=pog / 100)).run("conservative")
            for share in shares
        ]
        for pog in (10, 20, 40)
    }
    time_all(runs, scale)
    latency, gap = latencies(runs)
    delays = {name: [run.delay / 3 for run in curve] for name, curve in runs.items()}
    fewer = mean(latency["10 % guarantees"]) > mean(latency["40 % guarantees"])
    grows = mean([change(curve) for curve in latency.values()])
    return Figure(
        "fig-12",
        "Liu 2009, Fig 12",
        "Conservative: latency against late events",
        SETTINGS.format(events=events).replace("L positive", "3 positive") + f"; one event every {gap:.0f} us",
        "grows with the share of late events; fewer guarantees make it higher",
        f"{'Fewer guarantees make it higher' if fewer else 'Fewer guarantees do not make it higher'}; from 10 to 50 % "
        f"late it changes by {times(grows)}. An answer waits for the next guarantee about C, and that moment does not "
        "depend on how many events are late; a sequence that a late event completes waits less, because part of the "
        "waiting is over when it comes. The paper's growth must come from guarantees that get weaker as more is late; "
        "ours always promise the clock minus MD.",
        fewer and grows > 1.1,
        [
            Panel("average latency", "late events, %", "microseconds", shares, latency),
            Panel("delay without any computing", "late events, %", "time units", shares, delays),
        ],
    )


def buffer_figures(scale: Scale) -> list[Figure]:
    shares, lengths = scale.places([10, 20, 30, 40, 50]), scale.places(LENGTHS)
    events = scale.events(6000)
    runs = {
        f"L = {length}": [
            Load(length, given=Arrivals(events=events, unit=3, disorder=share / 100)).run("k-slack") for share in shares
        ]
        for length in lengths
    }
    time_all(runs, scale)
    latency, gap = latencies(runs)
    cpu = cpus(runs)
    state = {name: [run.state for run in curve] for name, curve in runs.items()}
    settings = SETTINGS.format(events=events)
    x = "late events, %"
    grown, dearer = (mean([change(curve) for curve in curves.values()]) for curves in (latency, cpu))
    return [
        Figure(
            "fig-13",
            "Liu 2009, Fig 13",
            "K-slack: latency",
            f"{settings}; one event every {gap:.0f} us",
            "grows with the share of late events; memory close to aggressive",
            f"from 10 to 50 % it changes by {times(grown)} on average. Every event waits for K, late or not: a late "
            "event has waited for part of it on its way, so the buffer adds less to it. Nothing here can grow with "
            "the share of late events but the cost of the heap.",
            grown > 1.1,
            [
                Panel("average latency", x, "microseconds", shares, latency),
                Panel("state", x, "events, average", shares, state),
            ],
        ),
        Figure(
            "fig-14",
            "Liu 2009, Fig 14",
            "K-slack: CPU time",
            settings,
            "grows with the share of late events",
            f"from 10 to 50 % it changes by {times(dearer)}; longer queries "
            f"{'cost more' if ordered(cpu) else 'do not always cost more'}. The engine behind the buffer sees the same "
            "ordered stream whatever the disorder; only the heap has more to sort.",
            all(rising(curve, 0.05) for curve in cpu.values()),
            [Panel("CPU time per event", x, "microseconds", shares, cpu)],
        ),
    ]


def purge_figure(scale: Scale) -> Figure:
    shares = scale.places([10, 20, 30, 40])
    events = scale.events(3000)
    arms = {"A1": "conservative A1", "A2": "conservative A2", "A1+A2": "conservative A1+A2", "A1+A2+P3": "conservative"}
    average: Curves = {name: [] for name in arms}
    left: Curves = {name: [] for name in arms}
    for share in shares:
        load = Load(3, given=Arrivals(events=events, unit=3, disorder=0.3, promises=share / 100))
        for name, arm in arms.items():
            engine, total = load.make(arm), 0
            for given in load.stream:
                engine.push(given)
                total += engine.size()
            average[name].append(total / len(load.stream))
            left[name].append(float(engine.size()))
    return Figure(
        "purge-rules",
        "added",
        "Conservative: purge rules and state",
        SETTINGS.format(events=events).replace("L positive", "3 positive") + ", 30 % late",
        "without P3 completed matches stay for ever",
        f"at {shares[-1]} % guarantees {', '.join(f'{curve[-1]:,.0f} ({name})' for name, curve in left.items())} are "
        "stored at the end. The rules of the paper drop what can never be completed; P3 drops what can never be "
        "completed again.",
        None,
        [
            Panel("state, average", "guarantees, % of events", "events and held sequences", shares, average, log=True),
            Panel("state at the end", "guarantees, % of events", "events and held sequences", shares, left, log=True),
        ],
    )
