"""What slack costs and gives: buffer or native, hold or withdraw, early release, and a K that is too small."""

from __future__ import annotations

from benchmarks.disorder.baselines.engine import log
from benchmarks.disorder.experiments.compensation import time_all
from benchmarks.disorder.figure import Curves, Figure, Panel, Scale, mean
from benchmarks.disorder.measure import Run
from benchmarks.disorder.workload import Load
from tocsin.testing.delays import Delay, Pareto, Uniform
from tocsin.testing.streams import Arrivals

WAYS = {"reorder buffer": "k-slack", "native slack": "algorithm 7, partition", "aggressive": "aggressive"}


def figures(scale: Scale) -> list[Figure]:
    return [ways(scale), early_release(scale), recall(scale)]


def ways(scale: Scale) -> Figure:
    slacks = scale.places([5, 10, 20, 40])
    events = scale.events(6000)
    runs: dict[str, list[Run]] = {name: [] for name in WAYS}
    for slack in slacks:
        load = Load(4, delay=slack, given=Arrivals(events=events, unit=3, disorder=0.3))
        for name, arm in WAYS.items():
            runs[name].append(load.run(arm))
    time_all(runs, scale)
    delay = {name: [run.delay / 3 for run in curve] for name, curve in runs.items()}
    state = {name: [run.state for run in curve] for name, curve in runs.items()}
    cpu = {name: [run.cpu_us for run in curve] for name, curve in runs.items()}
    withdrawn = {"aggressive": [float(run.counters.deletions) for run in runs["aggressive"]]}
    x = "K, time units"
    return Figure(
        "slack-ways",
        "added (Li 2010)",
        "Reorder buffer, native slack and aggressive answers",
        f"SEQ(A,B,!C,D,E), W = 20 units of 3 ticks, 30 % late by up to K, {events:,} events",
        "native slack holds only what a negation makes uncertain; aggressive holds nothing and corrects",
        f"at K = {slacks[-1]} an answer waits {delay['reorder buffer'][-1]:.1f} time units behind the buffer, "
        f"{delay['native slack'][-1]:.1f} with native slack and {delay['aggressive'][-1]:.1f} with withdrawals, of "
        f"which there are {withdrawn['aggressive'][-1]:,.0f} for {runs['aggressive'][-1].answers:,} answers; state "
        f"{state['reorder buffer'][-1]:.0f}, {state['native slack'][-1]:.0f} and {state['aggressive'][-1]:.0f}.",
        None,
        [
            Panel("delay without any computing", x, "time units", slacks, delay),
            Panel("state", x, "events and sequences, average", slacks, state),
            Panel("CPU time per event", x, "microseconds", slacks, cpu),
            Panel("answers taken back", x, "answers", slacks, withdrawn),
        ],
    )


def early_release(scale: Scale) -> Figure:
    lengths = scale.places([3, 4, 5, 6, 7])
    events = scale.events(6000)
    curves: Curves = {"last event K old": [], "gap closed": []}
    for length in lengths:
        load = Load(length, given=Arrivals(events=events, unit=3, disorder=0.3))
        curves["last event K old"].append(load.run("late release").delay / 3)
        curves["gap closed"].append(load.run("algorithm 7, partition").delay / 3)
    saved = 1 - mean(curves["gap closed"][1:]) / mean(curves["last event K old"][1:])
    return Figure(
        "early-release",
        "added (Li 2010, Optimisation 4.5)",
        "How long candidates are held: until the last event is K old, or until the negated gap is closed",
        f"SEQ(A,B,!C,D,...), W = 20, K = 10 units of 3 ticks, 30 % late, {events:,} events",
        "the same for a negation before the last event, earlier for one further inside",
        f"longer than 3 types, {100 * saved:.0f} % of the waiting is saved; with 3 both wait for the same moment, "
        "but for one tick.",
        None,
        [Panel("average time held", "positive types", "time units", lengths, curves)],
    )


def recall(scale: Scale) -> Figure:
    slacks = scale.places([1, 2, 5, 10, 20, 40, 80])
    events = scale.events(8000)
    laws: dict[str, Delay] = {"uniform up to 10": Uniform(10), "heavy tail up to 100": Pareto(100)}
    late: Curves = {name: [] for name in laws}
    found: Curves = {name: [] for name in laws}
    for slack in slacks:
        for name, law in laws.items():
            load = Load(3, given=Arrivals(events=events, unit=3, disorder=0.3), slack=slack, law=law)
            engine, truth = load.make("algorithm 7, partition"), load.truth
            said = {change.sequence for change in log(engine, load.stream)}
            late[name].append(100 * engine.counters.k_violations / events)
            found[name].append(100 * len(said & truth) / max(1, len(truth)))
    tail, at_ten = found["heavy tail up to 100"], slacks.index(10)
    return Figure(
        "recall",
        "added (Li 2010)",
        "A K that is too small: events that come too late, and answers that are found",
        f"SEQ(A,B,!C,D), W = 20 units of 3 ticks, 30 % late, {events:,} events",
        "all answers are found from the largest delay on",
        f"with delays up to 10 all are found from K = 10 on; with a heavy tail K = 10 finds {tail[at_ten]:.1f} %, "
        "since few events are that late.",
        None,
        [
            Panel("events set aside", "K, time units", "% of all events", slacks, late),
            Panel("answers found", "K, time units", "% of all answers", slacks, found),
        ],
    )
