"""Aggressive answers against late events: latency, CPU time, compensations and state (Liu 2009, Figs 4 to 9)."""

from __future__ import annotations

from benchmarks.disorder.figure import Curves, Figure, Panel, Scale, change, mean, ordered, rising, spread, times
from benchmarks.disorder.measure import Run, take_turns
from benchmarks.disorder.workload import Load, late_negatives, late_positives
from tocsin.testing.streams import Arrivals

LENGTHS = [3, 4, 5, 6, 7]
BUSY = 0.8  # the slowest arm of a figure is busy for this share of the time
SETTINGS = "SEQ(A,B,!C,D,...) with L positive types, W = 20, MD = 10 units of 3 ticks, {events:,} events"


def figures(scale: Scale) -> list[Figure]:
    return [*late_positive_figures(scale), *late_negative_figures(scale), state_figure(scale)]


def late_positive_figures(scale: Scale) -> list[Figure]:
    shares, lengths = scale.places([10, 20, 30, 40, 50]), scale.places(LENGTHS)
    events = scale.events(6000)
    runs = {
        f"L = {length}": [
            Load(length, given=late_positives(share / 100, events=events, unit=3)).run("aggressive") for share in shares
        ]
        for length in lengths
    }
    time_all(runs, scale)
    settings = SETTINGS.format(events=events) + "; every type but C is late with this share"
    latency, gap = latencies(runs)
    cpu = cpus(runs)
    x = "late positive events, %"
    grown = mean([change(curve) for curve in cpu.values()])
    return [
        Figure(
            "fig-04",
            "Liu 2009, Fig 4",
            "Aggressive: latency against late positive events",
            f"{settings}; one event every {gap:.0f} us",
            "flat; higher for longer queries",
            f"from 10 to 50 % the latency changes by {times(mean([change(c) for c in latency.values()]))} on average. "
            f"{'Longer queries are slower.' if ordered(latency) else 'Longer queries are not always slower.'} A late "
            "positive event looks for sequences on both sides of it, where one in order looks back only, so each costs "
            "more; near saturation a queue turns that into latency.",
            ordered(latency) and all(spread(curve) < 1.5 for curve in latency.values()),
            [Panel("average latency", x, "microseconds", shares, latency)],
        ),
        Figure(
            "fig-07",
            "Liu 2009, Fig 7",
            "Aggressive: CPU time against late positive events",
            settings,
            "nearly constant; higher for longer queries",
            f"from 10 to 50 % the time per event changes by {times(grown)} on average. The number of answers stays the "
            "same; what grows is the search of late events for partners that are not there.",
            ordered(cpu) and all(spread(curve) < 1.5 for curve in cpu.values()),
            [Panel("CPU time per event", x, "microseconds", shares, cpu)],
        ),
    ]


def late_negative_figures(scale: Scale) -> list[Figure]:
    shares, lengths = scale.places([0, 10, 20, 30, 40, 50]), scale.places(LENGTHS)
    events = scale.events(6000)
    runs = {
        f"L = {length}": [
            Load(length, given=late_negatives(share / 100, events=events, unit=3)).run("aggressive") for share in shares
        ]
        for length in lengths
    }
    time_all(runs, scale)
    latency, gap = latencies(runs)
    cpu = cpus(runs)
    taken = {name: [float(run.counters.deletions) for run in curve] for name, curve in runs.items()}
    ends = [curve[-1] for curve in taken.values()]
    more = ends[-1] > ends[0]
    shortest, *_, longest = (change(curve) for curve in latency.values())
    settings = SETTINGS.format(events=events) + "; only C is late: a share of all C, a tenth of that of all events"
    x = "late negative events, % of the negated type"
    return [
        Figure(
            "fig-05",
            "Liu 2009, Fig 5",
            "Aggressive: latency against late negative events",
            f"{settings}; one event every {gap:.0f} us",
            "grows, steeper for longer queries",
            f"from 0 to 50 % it changes by {times(shortest)} with the shortest query and by {times(longest)} with the "
            "longest: a late negative event builds the sequences around it again, and what arrives meanwhile waits.",
            longest > shortest and all(change(curve) > 1.05 for curve in latency.values()),
            [Panel("average latency", x, "microseconds", shares, latency)],
        ),
        Figure(
            "fig-06",
            "Liu 2009, Fig 6",
            "Aggressive: compensations",
            settings,
            "grows with late negatives and with the length of the query",
            f"at 50 % there are {', '.join(f'{curve[-1]:,.0f} ({name})' for name, curve in taken.items())}. They grow "
            f"with late negatives and {'also' if more else 'fall'} with the length. A late C takes back only what was "
            "answered before it came; the more types follow D, the later the answer, and the fewer C come after it. "
            "The paper's growth with the length needs a density at which long queries have so many more answers that "
            "this does not show.",
            all(rising(curve) for curve in taken.values()) and more,
            [Panel("answers taken back", x, "answers", shares, taken)],
        ),
        Figure(
            "fig-08",
            "Liu 2009, Fig 8",
            "Aggressive: CPU time against late negative events",
            settings,
            "increases",
            f"from 0 to 50 % by {times(mean([change(c) for c in cpu.values()]))} on average.",
            mean([change(curve) for curve in cpu.values()]) > 1.05,
            [Panel("CPU time per event", x, "microseconds", shares, cpu)],
        ),
    ]


def state_figure(scale: Scale) -> Figure:
    windows, lengths = scale.places([20, 30, 40, 50, 60]), scale.places(LENGTHS)
    events = scale.events(4000)
    sizes: Curves = {
        f"L = {length}": [
            Load(length, window=window, given=Arrivals(events=events, unit=1, disorder=0.3)).run("aggressive").state
            for window in windows
        ]
        for length in lengths
    }
    slopes = [(curve[-1] - curve[0]) / (windows[-1] - windows[0]) for curve in sizes.values()]
    straight = all(
        abs(curve[len(curve) // 2] - (curve[0] + slope * (windows[len(windows) // 2] - windows[0]))) < 0.1 * curve[-1]
        for curve, slope in zip(sizes.values(), slopes, strict=True)
    )
    return Figure(
        "fig-09",
        "Liu 2009, Fig 9",
        "Aggressive: state against the window",
        f"purge after W + MD, 30 % late, units of one tick, {events:,} events",
        "linear in the window",
        f"{'linear' if straight else 'not linear'}: each unit of the window costs "
        f"{', '.join(f'{slope:.2f}' for slope in slopes)} events ({', '.join(sizes)}), which is the rate of the "
        "types of the query; the window adds to the same constant, the part that MD keeps.",
        straight,
        [Panel("stored events", "window, time units", "events, average", windows, sizes)],
    )


def time_all(runs: dict[str, list[Run]], scale: Scale) -> None:
    take_turns((run for curve in runs.values() for run in curve), scale.repeat)


def latencies(runs: dict[str, list[Run]]) -> tuple[Curves, float]:
    """Latencies with one distance between events for the whole figure, and that distance."""
    gap = max(run.cpu_us for curve in runs.values() for run in curve) / BUSY
    return {name: [run.latency_us(gap) for run in curve] for name, curve in runs.items()}, gap


def cpus(runs: dict[str, list[Run]]) -> Curves:
    return {name: [run.cpu_us for run in curve] for name, curve in runs.items()}
