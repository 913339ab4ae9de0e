"""A soak of names that never come again: chained queries without eids, out of order, nulls that first come late.

    python -m benchmarks.soak_names --minutes 10

Every order has a name of its own, and its events come late by up to a known delay; nulls come after a third of the
time. What each order must give is known from how it was made. Memory is flat after the first tenth, no kernel is made
after the first push, and all counters are shown.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

import tocsin
from tocsin.engine import kernels

TEXT = """
QUERY Paid HIDDEN EVENT SEQ(Order o, !Cancel c, Payment p) WHERE [name] AND p.sum >= o.sum WITHIN 300 SELECT o.name AS name, o.sum AS sum;
EVENT SEQ(Paid x, Shipping s) WHERE x.name = s.name AND (s.sum IS NULL OR s.sum >= x.sum) WITHIN 600
"""  # noqa: E501
SCHEMA = {"*": {"name": "text", "sum": "int", "note": "text"}}
ORDERS = ("slack({late})", "conservative({late})", "aggressive({late})", "auto({late})")
LATE = 200  # ticks
STEP, SINGLE = 499, 16  # rows of a push, an odd number; every so many pushes are one by one
SLACK = 1.1  # memory at the end, against that after a tenth


def rows(number: int, *, nulls: bool, random: Random) -> Iterator[tuple[int, dict[str, Any]]]:
    """The events of one order with the times of their arrival; of four orders the first and the last are shipped."""
    name, begin, least = f"order {number:,} of a customer", 10 * number, random.randint(1, 1000)
    kind = number % 4
    steps = [("Order", 0, least)]
    steps += [("Cancel", 40, least)] if kind == 1 else []
    steps += [("Payment", 80, least + 1)]
    steps += [("Shipping", 160, None if kind == 3 and nulls else least + 2)] if kind != 2 else []
    for type, after, amount in steps:
        end = begin + after + random.randint(0, 30)
        note = None if nulls and random.random() < 0.1 else f"{type} {number}"
        yield end + random.randint(0, LATE - 1), {"type": type, "time": end, "name": name, "sum": amount, "note": note}


@dataclass
class Stream:
    """Ever new orders; their events in order of arrival, a piece at a time."""

    random: Random
    next: int = 0
    waiting: list[tuple[int, int, dict[str, Any]]] = field(default_factory=list)
    shipped: int = 0  # orders that must be found

    def piece(self, orders: int, *, nulls: bool) -> list[dict[str, Any]]:
        """The events that arrive before anything of a later order can."""
        for number in range(self.next, self.next + orders):
            for place, (arrival, row) in enumerate(rows(number, nulls=nulls, random=self.random)):
                self.waiting.append((arrival, 4 * number + place, row))
            self.shipped += number % 4 in (0, 3)
        self.next += orders
        self.waiting.sort(key=lambda each: each[:2])
        stop = next((at for at, each in enumerate(self.waiting) if each[0] >= 10 * self.next), len(self.waiting))
        ripe, self.waiting = self.waiting[:stop], self.waiting[stop:]
        return [row for _, _, row in ripe]

    def rest(self) -> list[dict[str, Any]]:
        """What is still on its way."""
        ripe, self.waiting = self.waiting, []
        return [row for _, _, row in ripe]


@dataclass
class Arm:
    """A session under one strategy, and what it has shown."""

    order: str
    session: tocsin.Session
    net: int = 0
    pushes: int = 0
    slowest: float = 0.0  # seconds, of all pushes but the first
    busiest: float = 0.0  # seconds of CPU, of the same
    first: float = 0.0
    made: int = 0  # kernels that were made after the first push

    def push(self, events: Any) -> None:
        before, began, worked = kernels_made(), time.perf_counter(), time.thread_time()
        self._count(self.session.push(events))
        took = time.perf_counter() - began
        if self.pushes:
            self.busiest = max(self.busiest, time.thread_time() - worked)
            self.slowest, self.made = max(self.slowest, took), self.made + kernels_made() - before
        else:
            self.first = took
        self.pushes += 1

    def close(self) -> None:
        self._count(self.session.close())

    def _count(self, answers: tocsin.Matches) -> None:
        self.net += sum(row["op"] for row in answers)

    @property
    def texts(self) -> int:
        graph = self.session._graph
        return 0 if graph is None else len(graph.strings)

    @property
    def kept(self) -> int:
        """Texts, and rows wherever they are kept: for answers, for their order, or to tell equal ones apart."""
        graph = self.session._graph
        if graph is None:
            return 0
        rows = len(graph.queries.names) + sum(len(items) for stage in graph.stages for items in stage.held)
        rows += sum(detector.payload.count for detector in graph.detectors)
        return rows + len(graph.strings) + graph.counters.live + graph.counters.waiting

    def __str__(self) -> str:
        counted = " ".join(f"{name} {count:,}" for name, count in self.session.counters.items() if count)
        pushes = f"first push {1000 * self.first:.0f} ms, slowest after it {1000 * self.slowest:.0f} ms"
        pushes += f" ({1000 * self.busiest:.0f} ms of CPU)"
        kept = f"rows and texts kept {self.kept:,}, of them texts {self.texts:,}"
        return f"{self.order}: {counted}; {kept}; {pushes}; kernels made after it {self.made}"


@dataclass
class Outcome:
    """What a soak has shown: the arms, and after each piece memory in bytes, and how many rows and texts are kept."""

    arms: list[Arm]
    memory: list[int]
    kept: list[int]
    shipped: int

    @property
    def tenth(self) -> int:
        return self.memory[len(self.memory) // 10]

    @property
    def problems(self) -> list[str]:
        """What is wrong, in words."""
        found = []
        if self.memory[-1] > SLACK * self.tenth:
            found.append(f"memory grows: {mib(self.tenth)} after a tenth, {mib(self.memory[-1])} at the end")
        half = len(self.kept) // 2
        if max(self.kept[half:]) > 1.5 * max(self.kept[:half]):
            found.append(
                f"state grows: at most {max(self.kept[:half]):,} rows and texts first, {max(self.kept):,} later"
            )
        for arm in self.arms:
            if arm.net != self.shipped:
                found.append(f"{arm.order} has {arm.net:,} answers in the end, not {self.shipped:,}")
            if arm.made:
                found.append(f"{arm.order} made {arm.made} kernels after its first push")
        return found


def soak(seconds: float, *, jit: bool = True, piece: int = 2_000, pieces: int = 20, orders: Any = ORDERS) -> Outcome:
    """Run for some time, and at least so many pieces; nulls come after a third of either."""
    query = tocsin.query(TEXT, schema=SCHEMA)
    arms = [Arm(text, query.stream(order=text.format(late=LATE), jit=jit)) for text in orders]
    stream, began = Stream(Random(7)), time.monotonic()
    memory: list[int] = []
    kept: list[int] = []
    while (passed := time.monotonic() - began) < seconds or len(memory) < pieces:
        nulls = passed > seconds / 3 and len(memory) > pieces / 3
        found = stream.piece(piece, nulls=nulls)
        for arm in arms:
            give(arm, found)
        memory.append(resident())
        kept.append(sum(arm.kept for arm in arms))
        sys.stderr.write(f"\rpiece {len(memory)}: {stream.next:,} orders, {mib(memory[-1])}, kept {kept[-1]:,}   ")
    found = stream.rest()
    for arm in arms:
        give(arm, found)
        arm.close()
    return Outcome(arms, memory, kept, stream.shipped)


def give(arm: Arm, found: list[dict[str, Any]]) -> None:
    """Push rows batch by batch, some one by one."""
    for first in range(0, len(found), STEP):
        some = found[first : first + STEP]
        if arm.pushes % SINGLE == SINGLE - 1:
            for row in some:
                arm.push(row)
        else:
            arm.push(table(some))


def table(some: list[dict[str, Any]]) -> pa.Table:
    kinds = {name: pa.int64() if name in ("time", "sum") else pa.string() for name in some[0]}
    return pa.Table.from_pylist(some, pa.schema(list(kinds.items())))


def kernels_made() -> int:
    """How many kernels this process has compiled or loaded so far."""
    loaded = sum(name.startswith(kernels.PREFIX) for name in tuple(sys.modules))
    return loaded + len(kernels._kernels) + kernels._code.cache_info().misses


def resident() -> int:
    """Bytes of memory in use."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def mib(size: int) -> str:
    return f"{size / 2**20:.0f} MiB"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--minutes", type=float, default=10)
    outcome = soak(60 * parser.parse_args().minutes)
    print("\n" + "\n".join(map(str, outcome.arms)))
    print(f"{outcome.shipped:,} orders shipped; memory after a tenth {mib(outcome.tenth)}, "
          f"at the end {mib(outcome.memory[-1])} ({outcome.memory[-1] / outcome.tenth:.2f})")  # fmt: skip
    for problem in outcome.problems:
        print(f"PROBLEM: {problem}")
    return 1 if outcome.problems else 0


if __name__ == "__main__":
    sys.exit(main())
