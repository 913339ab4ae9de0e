"""The scan for any order: its fast path, its pointers, its partition and its purge (Li 2010, Figs 4.8 to 4.11)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from benchmarks.disorder.baselines.arms import ARMS, Switches
from benchmarks.disorder.baselines.engine import Counters
from benchmarks.disorder.baselines.pattern import Event, Given
from benchmarks.disorder.baselines.ssc import Scan, ScanSwitches
from benchmarks.disorder.experiments.compensation import cpus, time_all
from benchmarks.disorder.figure import Curves, Figure, Panel, Scale, mean, rising, times
from benchmarks.disorder.measure import Run, best_seconds, take_turns
from benchmarks.disorder.workload import Load
from tocsin.testing.streams import Arrivals

LOAD = Load(6, negated=False, given=Arrivals(unit=1))
WHOLE = ScanSwitches(window_first=False)  # as in the paper, late events build beyond the window and WD filters


def figures(scale: Scale) -> list[Figure]:
    return [fast_path(scale), overhead(scale), *partition(scale), forward_pointers(scale), purge(scale)]


def loaded(events: int, share: float, *, delay: int = 10, unit: int = 1, window: int = 20) -> Load:
    return replace(LOAD, delay=delay, window=window, given=Arrivals(events=events, unit=unit, disorder=share))


def building(load: Load, switches: ScanSwitches) -> Callable[[], None]:
    """Insertion and pointers of all events, without sequences: what the paper calls the construction of the stacks."""
    pattern, k = load.pattern, load.k
    stream = [given for given in load.stream if isinstance(given, Event)]

    def work() -> None:
        scan = Scan(pattern, Counters(), k, switches)
        for event in stream:
            if event.ts > scan.clock:
                scan.tick(event.ts)
            if event.type in pattern.positions:
                late = not switches.ais_clock or event.ts < scan.ais_clock
                scan.ais_clock = max(scan.ais_clock, event.ts)
                scan.store(event, late)

    return work


def build_seconds(load: Load, arms: dict[str, ScanSwitches], scale: Scale) -> list[float]:
    return best_seconds([building(load, switches) for switches in arms.values()], 3 * scale.repeat)


def pushing(load: Load, arm: str | Switches) -> Callable[[], None]:
    stream: list[Given] = load.stream

    def work() -> None:
        push = load.make(arm).push
        for given in stream:
            push(given)

    return work


def fast_path(scale: Scale) -> Figure:
    sizes = [scale.events(size) for size in scale.places([20_000, 40_000, 60_000, 80_000, 100_000])]
    shares = scale.places([90, 70, 50, 30, 10])
    arms = {"algorithm 6": ScanSwitches(ais_clock=False), "algorithm 7": ScanSwitches()}
    seconds: Curves = {name: [] for name in arms}
    for events in sizes:
        load = loaded(events, 0.9, unit=5)
        for name, took in zip(arms, build_seconds(load, arms, scale), strict=True):
            seconds[name].append(took * 1e3)
    gains: Curves = {"fast path": []}
    for share in shares:
        plain, fast = build_seconds(loaded(scale.events(40_000), share / 100, unit=5), arms, scale)
        gains["fast path"].append(100 * (1 - fast / plain))
    thirty = shares.index(30) if 30 in shares else -1
    first, last = gains["fast path"][0], gains["fast path"][thirty]
    always = all(b <= a * 1.05 for a, b in zip(*seconds.values(), strict=True))
    return Figure(
        "fig-4-08",
        "Li 2010, Fig 4.8",
        "The fast path for events in order: building the stacks",
        "SEQ of 6 types, W = 20, K = 10 units of 5 ticks; left 90 % late, right 40,000 events",
        "AIS-CLOCK never slower; at 80,000 events the gain is 8 % at 90 % late and 43 % at 30 %",
        f"{'never slower' if always else 'sometimes slower'}; the gain is {first:.0f} % at 90 % late and {last:.0f} % "
        f"at {shares[thirty]} %. Late events lie near the top of linked stacks, so that the search which the fast path "
        "saves is short; the paper's stacks are arrays of a time when calls were cheap and searches were not.",
        always and last > first,
        [
            Panel("time to build", "events", "CPU milliseconds", [float(size) for size in sizes], seconds),
            Panel("gain of the fast path", "late events, %", "% of the time", shares, gains),
        ],
    )


def overhead(scale: Scale) -> Figure:
    sizes = [scale.events(size) for size in scale.places([20_000, 40_000, 60_000, 80_000, 100_000])]
    arms = {"in-order engine": "in-order", "any order (fast path, partition)": "algorithm 7, partition"}
    seconds: Curves = {name: [] for name in arms}
    for events in sizes:
        load = loaded(events, 0.0)
        works = [pushing(load, arm) for arm in arms.values()]
        for name, took in zip(arms, best_seconds(works, 2 * scale.repeat), strict=True):
            seconds[name].append(took * 1e3)
    ratios = [100 * (b / a - 1) for a, b in zip(*seconds.values(), strict=True)]
    return Figure(
        "fig-4-09",
        "Li 2010, Fig 4.9",
        "The price of being ready for disorder that does not come",
        "SEQ of 6 types, W = 20, K = 10 units of one tick, nothing late",
        "5.1 % to 24.6 % more time than the in-order engine, growing with the size of the data",
        f"{min(ratios):+.0f} % to {max(ratios):+.0f} %; the share does not depend on the size, because both purge and "
        "neither keeps more than W + K of events. What is added is one comparison with the clock of the stacks.",
        max(ratios) <= 40,
        [Panel("time for the whole stream", "events", "CPU milliseconds", [float(size) for size in sizes], seconds)],
    )


def partition(scale: Scale) -> list[Figure]:
    slacks, shares = scale.places([0, 5, 10, 20, 40]), scale.places([0, 10, 30, 50])
    events = scale.events(2000)
    arms = {
        "without partition": Switches("slack", scan=replace(WHOLE, partition="off")),
        "with partition": Switches("slack", scan=WHOLE),
    }
    runs: dict[str, dict[str, list[Run]]] = {name: {f"{share} % late": [] for share in shares} for name in arms}
    for share in shares:
        for slack in slacks:
            delayed = loaded(events, share / 100 if slack else 0.0, delay=max(1, slack), unit=2)
            for name, arm in arms.items():
                runs[name][f"{share} % late"].append(replace(delayed, slack=slack).run(arm))
    take_turns((run for curves in runs.values() for curve in curves.values() for run in curve), scale.repeat)
    built = {
        name: {late: [float(run.counters.partials) for run in curve] for late, curve in curves.items()}
        for name, curves in runs.items()
    }
    cpu = {name: cpus(curves) for name, curves in runs.items()}
    ratio = ratios(built)
    gain = ratios(cpu)
    predicted = [((slack + 20) / 20) ** 6 for slack in slacks]
    settings = f"SEQ of 6 types, W = 20 units of 2 ticks, {events:,} events"
    in_order = ratio["0 % late"]
    grows = all(rising(curve, 0.02) for curve in ratio.values())
    earlier = in_order[-1] > ratio[f"{shares[-1]} % late"][-1]
    text = (
        f"at K = {slacks[-1]} and nothing late the partition saves a factor of {in_order[-1]:.0f}, where "
        f"((K + W) / W)^6 predicts {predicted[-1]:.0f}; with {shares[-1]} % late "
        f"{ratio[f'{shares[-1]} % late'][-1]:.1f}, because late events need what is outdated for others. The gain "
        f"{'grows' if grows else 'does not always grow'} with K. The prediction takes all six stacks as free and "
        "counts whole sequences; the event that triggers is one of the six, and ours counts partial sequences too."
    )
    return [
        Figure(
            "fig-4-10",
            "Li 2010, Fig 4.10",
            "Partitioned stacks: intermediate results",
            settings,
            "the gain grows with K and with the share of events in order, like ((K + W) / W)^S",
            text,
            grows and earlier,
            [
                Panel("intermediate results, without / with partition", "K, time units", "ratio", slacks,
                      {**ratio, "predicted": predicted}, log=True),
            ],
        ),
        Figure(
            "fig-4-11",
            "Li 2010, Fig 4.11",
            "Partitioned stacks: CPU time",
            settings,
            "the same trend as for intermediate results",
            f"at K = {slacks[-1]} and nothing late {times(gain['0 % late'][-1])}, with {shares[-1]} % late "
            f"{times(gain[f'{shares[-1]} % late'][-1])}.",
            all(rising(curve, 0.05) for curve in gain.values()),
            [Panel("CPU time, without / with partition", "K, time units", "ratio", slacks, gain, log=True)],
        ),
    ]  # fmt: skip


def ratios(values: dict[str, Curves]) -> Curves:
    without, having = values["without partition"], values["with partition"]
    return {name: [a / b for a, b in zip(without[name], having[name], strict=True)] for name in without}


def forward_pointers(scale: Scale) -> Figure:
    slacks = scale.places([5, 10, 20, 40, 80])
    events = scale.events(8000)
    runs: dict[str, list[Run]] = {"without RIN": [], "with RIN": []}
    for slack in slacks:
        load = loaded(events, 0.5, delay=slack, unit=2)
        for name, arm in (("without RIN", "algorithm 7, partition"), ("with RIN", "algorithm 8, partition")):
            runs[name].append(load.run(arm))
    time_all(runs, scale)
    curves = cpus(runs)
    shares = [b / a for a, b in zip(*curves.values(), strict=True)]
    return Figure(
        "rin",
        "added (Li 2010, Optimisation 4.2)",
        "Pointers to the next stack",
        f"SEQ of 6 types, W = 20 units of 2 ticks, 50 % late by up to K, {events:,} events",
        "a late event needs no search in the next stack",
        f"{times(shares[0])} the time at K = {slacks[0]}, {times(shares[-1])} at K = {slacks[-1]}: keeping the "
        "pointers costs on every event, and what they save is the walk from the top of the next stack, which is long "
        "only when events are very late.",
        None,
        [Panel("CPU time per event", "K, time units", "microseconds", slacks, curves)],
    )


def purge(scale: Scale) -> Figure:
    shares = scale.places([1, 10, 50, 100])  # how often the last type of the query occurs, % of the others
    events = scale.events(8000)
    arms = {
        "eager": ARMS["algorithm 7, partition"],
        "lazy": ARMS["lazy purge"],
        "lazy with sweep": ARMS["lazy purge, sweep"],
    }
    runs: dict[str, list[Run]] = {name: [] for name in arms}
    for share in shares:
        types = dict.fromkeys("ABCDEFGHIJ", 1.0) | {"F": share / 100}
        load = replace(LOAD, given=Arrivals(events=events, unit=1, disorder=0.3, types=types))
        for name, arm in arms.items():
            runs[name].append(load.run(arm))
    time_all(runs, scale)
    state = {name: [run.state for run in curve] for name, curve in runs.items()}
    cpu = cpus(runs)
    return Figure(
        "purge-lazy",
        "added (Li 2010, Optimisation 4.4)",
        "Eager and lazy purge when the last type of the query is rare",
        f"SEQ of 6 types, W = 20, K = 10, 30 % late, {events:,} events",
        "a lazy purge, driven by the last stack, leaks while its type does not come",
        f"with the last type at 1 % of the others the lazy purge keeps {times(state['lazy'][0] / state['eager'][0])} "
        f"the events of the eager one, with a sweep {times(state['lazy with sweep'][0] / state['eager'][0])}; its CPU "
        f"time is {times(mean(cpu['lazy']) / mean(cpu['eager']))} (with sweep "
        f"{times(mean(cpu['lazy with sweep']) / mean(cpu['eager']))}).",
        None,
        [
            Panel("state", "rate of the last type, % of the others", "events, average", shares, state, log=True),
            Panel("CPU time per event", "rate of the last type, % of the others", "microseconds", shares, cpu),
        ],
    )
