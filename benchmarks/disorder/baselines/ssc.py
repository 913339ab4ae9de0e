"""Sequence scan and construction for any order of arrival: Algorithms 6 to 9 of the dissertation, each with a switch.

Li 2010, chapter 4. The scan knows nothing of negations; see `ng`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from benchmarks.disorder.baselines.engine import Counters
from benchmarks.disorder.baselines.pattern import FOREVER, NEVER, Event, Pattern, Sequence
from benchmarks.disorder.baselines.stack import Instance, Stack, live


@dataclass(frozen=True, slots=True)
class ScanSwitches:
    """One switch for each optimisation (Appendix U).

    ais_clock    Algorithm 7: an event at or after all stored ones is appended, and builds only at the last position
    rin          Algorithm 8: pointers to the next stack, so that a late event needs no search there
    partition    Optimisation 4.3: what an appended event cannot reach is skipped; "clock" is the divider as printed,
                 which loses matches (example X8), and is here to show that
    purge        Algorithm 9 is "eager"; Optimisation 4.4 is "lazy", driven by the last stack
    sweep        a lazy purge also looks at every stack each time the clock has moved by so much; without it state
                 leaks while the last type is rare
    window_first cut the sequences around a late event at the window while they are built, not after
    last_early   an instance of the last stack goes as soon as nothing older can come
    """

    ais_clock: bool = True
    rin: bool = False
    partition: Literal["off", "event", "clock"] = "event"
    window_first: bool = True
    purge: Literal["none", "eager", "lazy"] = "eager"
    sweep: int | None = None
    last_early: bool = False


class Scan:
    """Stacks sorted by time; every state of the automaton is active from the start."""

    def __init__(self, pattern: Pattern, counters: Counters, k: int | None, switches: ScanSwitches) -> None:
        self.pattern = pattern
        self.counters = counters
        self.k = k  # None: nothing is known, so nothing is purged (Theorem 4.2)
        self.switches = switches
        self.stacks = [Stack() for _ in pattern.positives]
        self.clock = NEVER
        self.ais_clock = NEVER
        self.swept = NEVER
        self.built: list[Sequence] = []  # before the window filter

    def size(self) -> int:
        return sum(stack.size for stack in self.stacks)

    # --- insertion -------------------------------------------------------------------------------------------------

    def take(self, event: Event) -> list[Sequence]:
        """Store an event; the sequences that it completes, inside the window."""
        self.built = []
        late = not self.switches.ais_clock or event.ts < self.ais_clock
        if event.ts < self.ais_clock:
            self.counters.late_positive += 1
        self.ais_clock = max(self.ais_clock, event.ts)
        for position, new in self.store(event, late):
            if late:
                self._around(new, position)
            elif position == len(self.stacks) - 1:
                self._left(new, position, (), self._divider(event), self.built)
        self.counters.sequences_built += len(self.built)
        return [s for s in self.built if s[-1].ts - s[0].ts <= self.pattern.window]

    def store(self, event: Event, late: bool) -> list[tuple[int, Instance]]:
        """Insertion and pointers only: the construction of the AIS that Figure 4.8 measures."""
        made = []
        for position in self.pattern.positions[event.type]:
            new = Instance(event)
            (self.stacks[position].insert if late else self.stacks[position].append)(new)
            self.counters.inserts += 1
            if position:
                new.rip = self.stacks[position - 1].last_before(event.ts)
            if self.switches.rin:
                self._set_rin(new, position, late)
            if late and position + 1 < len(self.stacks):
                self._reset_rips(new, position)
            made.append((position, new))
        return made

    def _reset_rips(self, new: Instance, position: int) -> None:
        """Later instances of the next stack that pointed below the new one now point to it."""
        for after in self._after(new, position):
            old = live(after.rip)
            if old is not None and (old.ts, old.event.number) > (new.ts, new.event.number):
                if self.switches.rin:
                    return  # upwards from the first, all others point at or above it
                continue  # downwards from the top, the others come next
            after.rip = new

    def _set_rin(self, new: Instance, position: int, late: bool) -> None:
        if late and position + 1 < len(self.stacks):
            new.rin = self._first_after(new, position)
        before = live(new.rip)
        while before is not None:
            old = before.rin
            if old is not None and (old.ts, old.event.number) < (new.ts, new.event.number):
                return
            before.rin = new
            before = before.older

    def _first_after(self, new: Instance, position: int) -> Instance | None:
        """Search down from where the newer neighbour points, which for late events is close."""
        here = self.stacks[position + 1].top
        if new.newer is not None and new.newer.rin is not None:
            here = new.newer.rin
        first = None
        while here is not None and here.ts > new.ts:
            first, here = here, here.older
        return first

    def _after(self, new: Instance, position: int) -> Iterator[Instance]:
        """The instances of the next stack after `new`: up from RIN, or down from the top."""
        if self.switches.rin:
            here = new.rin
            while here is not None:
                yield here
                here = here.newer
            return
        here = self.stacks[position + 1].top
        while here is not None and here.ts > new.ts:
            yield here
            here = here.older

    # --- construction ----------------------------------------------------------------------------------------------

    def _divider(self, event: Event) -> int:
        """Instances before this are outdated for an appended event."""
        match self.switches.partition:
            case "event":
                return event.ts - self.pattern.window
            case "clock":
                return self.clock - self.pattern.window
        return NEVER

    def _around(self, new: Instance, position: int) -> None:
        """Every sequence with a late event at this position: each way to its left with each to its right."""
        window = self.pattern.window if self.switches.window_first else FOREVER
        prefixes: list[Sequence] = []
        self._left(new, position, (), new.ts - window, prefixes)
        if position == len(self.stacks) - 1 or not prefixes:
            self.built += prefixes
            return
        suffixes: list[Sequence] = []
        self._right(new, position, (), max(prefix[0].ts for prefix in prefixes) + window, suffixes)
        self.built += [a + b for a in prefixes for b in suffixes if b[-1].ts - a[0].ts <= window]

    def _left(self, here: Instance, position: int, tail: Sequence, floor: int, out: list[Sequence]) -> None:
        self.counters.partials += 1
        sequence = (here.event, *tail)
        if position == 0:
            out.append(sequence)
            return
        keyed = self.pattern.keyed
        before = live(here.rip)
        while before is not None and before.ts >= floor:
            if not keyed or before.event.key == here.event.key:
                self._left(before, position - 1, sequence, floor, out)
            before = before.older

    def _right(self, here: Instance, position: int, head: Sequence, reach: int, out: list[Sequence]) -> None:
        """The same to the right, without the event itself."""
        if position == len(self.stacks) - 1:
            out.append(head)
            return
        keyed = self.pattern.keyed
        for after in self._after(here, position):
            self.counters.partials += 1
            if after.ts > reach:
                if self.switches.rin:
                    return
                continue
            if not keyed or after.event.key == here.event.key:
                self._right(after, position + 1, (*head, after.event), reach, out)

    # --- purge -----------------------------------------------------------------------------------------------------

    def tick(self, clock: int) -> None:
        """The clock has moved."""
        self.clock = clock
        if self.k is None:
            return
        horizon = clock - self.k - self.pattern.window
        match self.switches.purge:
            case "eager":
                self._sweep(horizon)
            case "lazy":
                self._lazy(horizon)
                if self.switches.sweep is not None and clock - self.swept >= self.switches.sweep:
                    self.swept = clock
                    self._sweep(horizon)
        if self.switches.last_early:
            self.counters.purged += self.stacks[-1].drop_before(clock - self.k + 1)

    def _sweep(self, horizon: int) -> None:
        """Algorithm 9 on every stack. Pointers to what is purged see that it is gone."""
        for stack in self.stacks:
            self.counters.purged += stack.drop_before(horizon)

    def _lazy(self, horizon: int) -> None:
        """When the last stack loses instances, the stacks before it lose what those point to, and all that is older."""
        last = None
        for instance in self.stacks[-1]:
            if instance.ts >= horizon:
                break
            last = instance
        for stack in reversed(self.stacks):
            if last is None:
                return
            before = live(last.rip)
            self.counters.purged += stack.drop_through(last)
            last = before
