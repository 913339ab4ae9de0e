"""The in-order engine (SASE): stacks that are only appended to, pointers to the previous stack, purge by the window.

Li 2010, 4.1, and Liu 2009, II. It is right on ordered input only; what it does to other input is an experiment.
"""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.disorder.baselines.engine import Engine
from benchmarks.disorder.baselines.negatives import Negatives
from benchmarks.disorder.baselines.pattern import FOREVER, Change, Event, Pattern, Sequence
from benchmarks.disorder.baselines.pending import Pending
from benchmarks.disorder.baselines.stack import Instance, Stack, live


@dataclass(frozen=True, slots=True)
class InOrderSwitches:
    """`activation` ignores an event whose previous stack has always been empty (the NFA of the papers).

    `trusting` takes the top of the previous stack as RIP, as the papers do, which is right only without ties.
    `window_first` cuts sequences at the window while they are built; off, the WD operator above filters them.
    """

    activation: bool = False
    trusting: bool = False
    window_first: bool = True
    purge_sequences: bool = True
    purge_negatives: bool = True


class InOrder(Engine):
    """SSC, WD and NG in one."""

    def __init__(self, pattern: Pattern, switches: InOrderSwitches | None = None) -> None:
        super().__init__(pattern)
        self.switches = switches or InOrderSwitches()
        self.stacks = [Stack() for _ in pattern.positives]
        self.active = [False] * len(pattern.positives)
        self.negatives = Negatives(pattern, self.counters)
        self.pending = Pending(pattern, self.counters)
        self.built: list[Sequence] = []  # what the scan built in the last step, before window and negation

    def on_event(self, event: Event) -> list[Change]:
        self.clock = max(self.clock, event.ts)
        self.built = []
        changes = self.plus(self.pending.closed(self.clock))
        self._purge(event.ts)
        if event.type in self.pattern.forbidden:
            self.pending.prune(event)
            self.negatives.insert(event)
        for position in self.pattern.positions.get(event.type, ()):
            self._store(event, position)
        return changes + self.plus(self._standing())

    def flush(self) -> list[Change]:
        return self.plus(self.pending.closed(FOREVER))

    def size(self) -> int:
        return sum(stack.size for stack in self.stacks) + self.negatives.size() + len(self.pending)

    def _purge(self, now: int) -> None:
        horizon = now - self.pattern.window
        if self.switches.purge_sequences:
            for stack in self.stacks:
                self.counters.purged += stack.drop_before(horizon)
        if self.switches.purge_negatives:
            for index in range(len(self.pattern.negations)):
                self.negatives.drop_before(index, horizon)

    def _store(self, event: Event, position: int) -> None:
        if self.switches.activation and position and not self.active[position - 1]:
            return
        self.active[position] = True
        new = Instance(event)
        if position:
            before = self.stacks[position - 1]
            new.rip = before.top if self.switches.trusting else before.last_before(event.ts)
        self.stacks[position].append(new)
        self.counters.inserts += 1
        if position == len(self.stacks) - 1:
            self._construct(new, position, (), event.ts - self.pattern.window)

    def _construct(self, here: Instance, position: int, tail: Sequence, floor: int) -> None:
        """Depth first along the pointers: each instance below a pointer extends the sequence too."""
        self.counters.partials += 1
        sequence = (here.event, *tail)
        if position == 0:
            self.built.append(sequence)
            return
        cut, keyed = self.switches.window_first, self.pattern.keyed
        before = live(here.rip)
        while before is not None and not (cut and before.ts < floor):
            if not keyed or before.event.key == here.event.key:
                self._construct(before, position - 1, sequence, floor)
            before = before.older

    def _standing(self) -> list[Sequence]:
        """WD, then NG; what a negation at the end may still spoil waits."""
        if not self.built:
            return []
        self.counters.sequences_built += len(self.built)
        within = [s for s in self.built if s[-1].ts - s[0].ts <= self.pattern.window]
        standing = [sequence for sequence in within if not self.negatives.violate(sequence)]
        return self.pending.sieve(standing, self.clock)
