"""How an arm is measured: CPU time of every call, state after every call, and the latency of a queue in front of it.

An arm does the same in every run, so the time of a call is the smallest of several runs. All runs of a figure take
turns, so that a moment in which the machine is slow does not hit one of them alone. The latency is simulated: one
server, events arriving one by one at a fixed distance, each call taking the time that was measured.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from benchmarks.disorder.baselines.engine import Counters, Engine
from benchmarks.disorder.baselines.pattern import NEVER, Change, Event, Given

Make = Callable[[], Engine]


@dataclass
class Run:
    """What one arm did with one stream. `service` has the nanoseconds of each call, `changes` what each call said."""

    make: Make
    stream: list[Given]
    changes: list[list[Change]]
    last: list[Change]  # said at the end of the stream
    counters: Counters
    service: list[int] = field(default_factory=list)

    def time(self) -> None:
        """Once more; the shorter time of each call is kept."""
        took = timed(self.make().work, self.stream)
        self.service = [*map(min, self.service, took)] if self.service else took
        self.counters.exec_time_ns = sum(self.service)

    @cached_property
    def events(self) -> int:
        return sum(isinstance(given, Event) for given in self.stream)

    @property
    def cpu_us(self) -> float:
        """Microseconds of CPU for each event, guarantees included."""
        return sum(self.service) / 1e3 / max(1, self.events)

    @property
    def state(self) -> float:
        return self.counters.state_average

    @property
    def answers(self) -> int:
        return sum(change.op for said in (*self.changes, self.last) for change in said)

    def latency_us(self, gap_us: float) -> float:
        """Average microseconds from the arrival of the last event of an answer to the answer, with a queue."""
        free, number, waits = 0.0, -1, []
        arrived: dict[Event, float] = {}
        for given, service, said in zip(self.stream, self.service, self.changes, strict=True):
            number += isinstance(given, Event)
            now = number * gap_us
            if isinstance(given, Event):
                arrived[given] = now
            free = max(free, now) + service / 1e3
            waits += [free - max(map(arrived.__getitem__, c.sequence)) for c in said if c.op > 0]
        return sum(waits) / len(waits) if waits else 0.0

    @cached_property
    def delay(self) -> float:
        """The same in ticks of the stream's own time, with a server that takes no time at all."""
        clock, waits = NEVER, []
        seen: dict[Event, int] = {}
        for given, said in zip(self.stream, self.changes, strict=True):
            if isinstance(given, Event):
                clock = max(clock, given.ts)
                seen[given] = clock
            waits += [clock - max(map(seen.__getitem__, c.sequence)) for c in said if c.op > 0]
        return sum(waits) / len(waits) if waits else 0.0


def watched(make: Make, stream: list[Given]) -> Run:
    """One run to see what the arm does and keeps; `take_turns` sees how long that takes."""
    engine = make()
    changes = []
    for given in stream:
        changes.append(engine.push(given))
        engine.counters.sample(engine.size())
    return Run(make, stream, changes, engine.flush(), engine.counters)


def take_turns(runs: Iterable[Run], repeat: int) -> None:
    """Time all runs, one after the other, several times over."""
    several = list(runs)
    for _ in range(repeat):
        for run in several:
            run.time()


def timed(call: Callable[[Given], object], stream: list[Given]) -> list[int]:
    """Nanoseconds of CPU of each call, without the price of asking for the time."""
    clock, price = time.process_time_ns, clock_price()
    gc.disable()
    try:
        times = []
        for given in stream:
            begin = clock()
            call(given)
            times.append(clock() - begin)
    finally:
        gc.enable()
    return [max(0, each - price) for each in times]


@lru_cache(maxsize=1)
def clock_price() -> int:
    clock, least = time.process_time_ns, 1 << 62
    for _ in range(2000):
        begin = clock()
        least = min(least, clock() - begin)
    return least


def best_seconds(works: Sequence[Callable[[], object]], repeat: int) -> list[float]:
    """CPU seconds of the best run of each piece of work; they take turns, too."""
    best = [float("inf")] * len(works)
    for _ in range(repeat):
        for at, work in enumerate(works):
            best[at] = min(best[at], cpu_seconds(work))
    return best


def cpu_seconds(work: Callable[[], object]) -> float:
    gc.disable()
    try:
        begin = time.process_time()
        work()
        return time.process_time() - begin
    finally:
        gc.enable()
