"""The interface of every arm, and what it counts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from benchmarks.disorder.baselines.pattern import NEVER, Change, Event, Given, Pattern, Pog, Sequence


@dataclass(slots=True)
class Counters:
    """What an arm did. State sizes are sampled and times are taken by whoever drives the arm."""

    inserts: int = 0
    late_positive: int = 0
    late_negative: int = 0
    partials: int = 0  # events visited while sequences are put together: the intermediate results of a scan
    sequences_built: int = 0
    spurious_built: int = 0
    neg_checks: int = 0
    insertions: int = 0
    deletions: int = 0
    held: int = 0
    released: int = 0
    held_pruned: int = 0
    purged: int = 0
    purged_a1: int = 0
    purged_a2: int = 0
    purged_p3: int = 0
    purged_neg: int = 0
    k_violations: int = 0
    pog_violations: int = 0
    exec_time_ns: int = 0
    state_sum: int = 0
    state_max: int = 0
    samples: int = 0

    @property
    def state_average(self) -> float:
        return self.state_sum / max(1, self.samples)

    def sample(self, size: int) -> None:
        self.state_sum += size
        self.state_max = max(self.state_max, size)
        self.samples += 1


class Engine:
    """An arm: events and guarantees in, changes out. `clock` is the largest time seen."""

    def __init__(self, pattern: Pattern) -> None:
        self.pattern = pattern
        self.clock = NEVER
        self.counters = Counters()
        self.late: list[Event] = []  # side output: events that came later than was agreed

    def on_event(self, event: Event) -> list[Change]:
        raise NotImplementedError

    def on_pog(self, pog: Pog) -> list[Change]:  # noqa: ARG002 - arms without guarantees do not listen
        return []

    def flush(self) -> list[Change]:
        """The end of the stream: everything that waits is settled."""
        return []

    def size(self) -> int:
        """Stored events; a stored sequence counts as one."""
        raise NotImplementedError

    def push(self, given: Given) -> list[Change]:
        return self.on_event(given) if isinstance(given, Event) else self.on_pog(given)

    def work(self, given: Given) -> object:
        """What is timed; an arm whose answers need translation leaves that out."""
        return self.push(given)

    def plus(self, sequences: Iterable[Sequence]) -> list[Change]:
        changes = [Change(1, sequence, self.clock) for sequence in sequences]
        self.counters.insertions += len(changes)
        return changes

    def minus(self, sequences: Iterable[Sequence]) -> list[Change]:
        changes = [Change(-1, sequence, self.clock) for sequence in sequences]
        self.counters.deletions += len(changes)
        return changes


def log(engine: Engine, stream: Iterable[Given]) -> list[Change]:
    """Everything an arm says about a stream, its end included."""
    changes: list[Change] = []
    for given in stream:
        changes += engine.push(given)
    return changes + engine.flush()


def net(changes: Iterable[Change]) -> set[Sequence]:
    """What remains; a signed count outside {0, 1} is a fault of the arm."""
    standing: set[Sequence] = set()
    for change in changes:
        if change.op > 0:
            assert change.sequence not in standing, f"{change.sequence} twice"
            standing.add(change.sequence)
        else:
            assert change.sequence in standing, f"{change.sequence} taken back before it was given"
            standing.remove(change.sequence)
    return standing
