"""The three ways beside each other, where one overtakes another, and what no care at all costs (Liu 2009, Fig 16)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from benchmarks.disorder.baselines.engine import log
from benchmarks.disorder.experiments.compensation import BUSY, cpus, time_all
from benchmarks.disorder.figure import Curves, Figure, Panel, Scale, change, mean, times
from benchmarks.disorder.measure import Run, take_turns
from benchmarks.disorder.workload import Load, late_negatives
from tocsin.testing.streams import Arrivals

TYPES = ("A", "B", "C", "D", "E", "F")  # guarantees are spread over the types of the query
UNIT = 4
MOST_LOAD = 3.0  # no server is asked for more than three times what it can do
WAYS = ("k-slack", "conservative", "conservative, tight", "aggressive")


def figures(scale: Scale) -> list[Figure]:
    return [
        three_ways(scale, "fig-16", "late events, %", 5, all_late),
        three_ways(scale, "fig-16-negatives", "late negative events, % of the negated type", 3, negatives_late),
        careless_figure(scale),
        victims_figure(scale),
        recompute_figure(scale),
    ]


def all_late(share: float, events: int) -> Arrivals:
    return Arrivals(events=events, unit=UNIT, disorder=share, promises=0.2, promise_types=TYPES)


def negatives_late(share: float, events: int) -> Arrivals:
    return late_negatives(share, events=events, unit=UNIT, promises=0.2, promise_types=TYPES)


def runs_of(length: int, given: Arrivals) -> dict[str, Run]:
    load = Load(length, given=given)
    made = {way: load.run(way) for way in ("k-slack", "conservative", "aggressive")}
    return {**made, "conservative, tight": replace(load, tight=True).run("conservative")}


def three_ways(scale: Scale, name: str, x: str, length: int, given: Callable[[float, int], Arrivals]) -> Figure:
    shares = scale.places([10, 20, 30, 40, 50])
    events = scale.events(5000)
    runs = [runs_of(length, given(share / 100, events)) for share in shares]
    take_turns((run for each in runs for run in each.values()), scale.repeat)
    relaxed = max(run.cpu_us for each in runs for run in each.values()) / BUSY
    at_forty = runs[min(range(len(shares)), key=lambda i: abs(shares[i] - 40))]
    hard = at_forty["aggressive"].cpu_us
    latency = {way: [each[way].latency_us(relaxed) for each in runs] for way in WAYS}
    loaded = {way: [each[way].latency_us(hard) for each in runs] for way in WAYS}
    cpu = {way: [each[way].cpu_us for each in runs] for way in WAYS}
    delay = {way: [each[way].delay / UNIT for each in runs] for way in WAYS}
    state = {way: [each[way].state for each in runs] for way in WAYS}
    turning = [crossing_load(each["aggressive"], each["conservative, tight"]) for each in runs]
    sent = {way: [messages(each[way]) for each in runs] for way in WAYS}
    price = {"break-even": [break_even(each["aggressive"], each["conservative, tight"]) for each in runs]}
    finding, agrees = verdict(latency, turning, cpu, price["break-even"])
    return Figure(
        name,
        "Liu 2009, Fig 16",
        f"K-slack, conservative and aggressive against {x.partition(',')[0]}",
        f"L = {length}, W = 20, MD = 10 units of {UNIT} ticks, 20 % guarantees on the types of the query, "
        f"{events:,} events. 'Conservative' gets guarantees of the clock minus MD; 'tight' ones say all that is true "
        f"at their moment, as a source that delivers in order can. Relaxed: one event every {relaxed:.0f} us; "
        f"hard: every {hard:.0f} us, the time that the aggressive arm needs at 40 %",
        "K-slack highest; aggressive below conservative until about 40 %, then above",
        finding + ("" if length == 5 else f" The paper has 5 positive types; {length} were taken here because there "
                   "are more withdrawals."),
        agrees,
        [
            Panel("latency, relaxed", x, "microseconds", shares, latency, log=True),
            Panel("latency, hard", x, "microseconds", shares, loaded, log=True),
            Panel("delay without any computing", x, "time units", shares, delay),
            Panel("CPU time per event", x, "microseconds", shares, cpu),
            Panel("state", x, "events and held sequences, average", shares, state, log=True),
            Panel("messages for each answer that stands", x, "messages", shares, sent),
            Panel("delay that one withdrawal may cost before tight conservative answers are the better choice", x,
                  "time units", shares, price, log=True),
        ],
    )  # fmt: skip


def verdict(latency: Curves, turning: list[float], cpu: Curves, price: list[float]) -> tuple[str, bool]:
    highest = max(latency, key=lambda way: mean(latency[way]))
    crossed = any(a > c for a, c in zip(latency["aggressive"], latency["conservative, tight"], strict=True))
    if min(turning) < MOST_LOAD:
        where = (
            "The crossing of the paper needs a server that the aggressive arm overloads: it comes when events arrive "
            f"{min(turning):.2f} times as fast as the aggressive arm can work."
        )
    else:
        where = (
            "There is no crossing, not even on an overloaded server, because here the conservative arm needs more CPU "
            f"time ({mean(cpu['conservative, tight']):.0f} us an event against {mean(cpu['aggressive']):.0f}): its "
            "purge rules look at all state after each guarantee, and the paper's crossing needs compensations that "
            "cost more than that."
        )
    text = (
        f"While the server keeps up, the aggressive arm is the fastest and '{highest}' the slowest: an answer that "
        "waits for nothing but the queue cannot be overtaken by one that waits for a guarantee. "
        f"{where} Aggressive CPU time changes by {times(change(cpu['aggressive']))} over the range, so at a fixed rate "
        "there is one share of late events where it saturates; a crossing at 40 % belongs to one machine and one rate, "
        "not to the strategies. What does turn with the share of late events is the price of corrections: conservative "
        f"is the better choice as soon as one withdrawal costs its reader more than {price[0]:.0f} time units of delay "
        f"at the left end, and {price[-1]:.0f} at the right one. Whether K-slack or conservative waits longer depends "
        "on what guarantees say: those that lag by MD come no earlier than K-slack has sorted, tight ones do."
    )
    return text, crossed and highest == "k-slack"


def messages(run: Run) -> float:
    """Changes sent for each answer that stands at the end."""
    return (run.counters.insertions + run.counters.deletions) / max(1, run.answers)


def break_even(aggressive: Run, conservative: Run) -> float:
    """The delay that holding costs all answers together, shared out among the withdrawals that it saves."""
    saved = (conservative.delay - aggressive.delay) * aggressive.answers / UNIT
    return saved / max(1, aggressive.counters.deletions)


def crossing_load(aggressive: Run, conservative: Run) -> float:
    """The smallest load (share of the aggressive arm's capacity) at which its latency is the larger one."""
    low, high = 0.1, MOST_LOAD
    if aggressive.latency_us(aggressive.cpu_us / high) < conservative.latency_us(aggressive.cpu_us / high):
        return high
    for _ in range(9):
        middle = (low + high) / 2
        gap = aggressive.cpu_us / middle
        if aggressive.latency_us(gap) > conservative.latency_us(gap):
            high = middle
        else:
            low = middle
    return high


def careless_figure(scale: Scale) -> Figure:
    shares = scale.places([0, 5, 10, 20, 30, 40, 50])
    events = scale.events(8000)
    lost: Curves = {"as printed": [], "with time tests": []}
    wrong: Curves = {"as printed": [], "with time tests": []}
    arms = {"as printed": "in-order, as printed", "with time tests": "in-order"}
    for share in shares:
        load = Load(3, given=Arrivals(events=events, unit=3, disorder=share / 100))
        truth = load.truth
        for name, arm in arms.items():
            said = {change.sequence for change in log(load.make(arm), load.stream)}
            lost[name].append(100 * len(truth - said) / max(1, len(truth)))
            wrong[name].append(100 * len(said - truth) / max(1, len(said)))
    x = "late events, %"
    return Figure(
        "careless",
        "added",
        "The in-order engine on a stream out of order: answers lost, and wrong ones given",
        f"L = 3, W = 20, MD = 10 units of 3 ticks, {events:,} events",
        "both grow with the share of late events",
        f"at {shares[-1]} % late it loses {lost['as printed'][-1]:.0f} % of the answers, and "
        f"{wrong['as printed'][-1]:.0f} % of what it says is wrong. Trusting the order of arrival (the pointer to the "
        "newest event of the stack before) is what invents sequences; testing times instead leaves only those that a "
        "late negative event would have spoiled.",
        None,
        [
            Panel("answers lost", x, "% of all answers", shares, lost),
            Panel("wrong answers", x, "% of what was said", shares, wrong),
        ],
    )


def victims_figure(scale: Scale) -> Figure:
    shares = scale.places([0, 10, 20, 30, 40, 50])
    events = scale.events(6000)
    ways = {"built again": "aggressive", "looked up": "aggressive, index"}
    runs: dict[str, list[Run]] = {name: [] for name in ways}
    for share in shares:
        load = Load(5, given=late_negatives(share / 100, events=events, unit=3))
        for name, arm in ways.items():
            runs[name].append(load.run(arm))
    time_all(runs, scale)
    cpu = {name: [run.cpu_us for run in curve] for name, curve in runs.items()}
    state = {name: [run.state for run in curve] for name, curve in runs.items()}
    x = "late negative events, % of the negated type"
    last = cpu["looked up"][-1] / cpu["built again"][-1]
    more = mean(state["looked up"]) / mean(state["built again"])
    return Figure(
        "victims",
        "added",
        "Finding the answers that a late negative event spoils: built again, or looked up",
        f"L = 5, W = 20, MD = 10 units of 3 ticks, {events:,} events",
        "the same output, more memory",
        f"looking them up takes {times(last)} the CPU time at {shares[-1]} % and {times(more)} the state.",
        None,
        [
            Panel("CPU time per event", x, "microseconds", shares, cpu),
            Panel("state", x, "events and answers, average", shares, state),
        ],
    )


def recompute_figure(scale: Scale) -> Figure:
    shares = scale.places([0, 10, 20, 30, 40, 50])
    events = scale.events(1500)
    ways = ("recompute", "aggressive", "k-slack")
    runs: dict[str, list[Run]] = {way: [] for way in ways}
    for share in shares:
        load = Load(3, given=Arrivals(events=events, unit=3, disorder=share / 100))
        for way in ways:
            runs[way].append(load.run(way))
    time_all(runs, scale)
    cpu = cpus(runs)
    return Figure(
        "recompute",
        "added",
        "Detecting everything anew after each event",
        f"L = 3, W = 20, MD = 10 units of 3 ticks, {events:,} events",
        "the price of having no algorithm at all",
        f"{times(mean(cpu['recompute']) / mean(cpu['aggressive']))} the CPU time of the aggressive arm, with the same "
        "answers at the same moments.",
        None,
        [Panel("CPU time per event", "late events, %", "microseconds", shares, cpu, log=True)],
    )
