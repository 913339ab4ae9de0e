"""Which stored events no future result can contain, given guarantees: Algorithm 1, Algorithm 2 and rule P3.

Liu 2009, VI; P3 is ours. Each rule is one function over the stacks, an event at a position, and what is guaranteed.
"""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.disorder.baselines.negatives import Negatives
from benchmarks.disorder.baselines.pattern import Event, Pog
from benchmarks.disorder.baselines.sorted_stacks import SortedStacks


def singleton(stacks: SortedStacks, event: Event, position: int, pog: Pog) -> bool:
    """Algorithm 1: one guarantee says that a partner which is not there will not come."""
    if pog.ts < event.ts or pog.type == event.type:
        return False
    window = stacks.pattern.window
    for other in stacks.pattern.positions.get(pog.type, ()):
        if other > position:
            ends = event.ts < pog.ts - window
            if ends and not stacks.any_in(other, event.ts, event.ts + window):
                return True
        elif not stacks.any_in(other, event.ts - window, event.ts):
            return True
    return False


def pog_set(stacks: SortedStacks, event: Event, position: int, wm: Mapping[str, int], *, printed: bool = False) -> bool:
    """Algorithm 2: all guarantees together, and partners must stand in the order of the query.

    The earliest partner is enough at each position, because it leaves most room for the next one. `printed` compares
    the guarantees of the types before with > as the paper prints it; >= is as safe and purges more.
    """
    window, types = stacks.pattern.window, stacks.pattern.positives
    check = event.ts - window
    for other in range(position):
        if wm[types[other]] < event.ts + (1 if printed else 0):
            continue
        found = stacks.first_in(other, check, event.ts - 1)
        if found is None:
            return True
        check = found
    check = event.ts + 1
    for other in range(position + 1, len(types)):
        if wm[types[other]] < event.ts + window:
            continue
        found = stacks.first_in(other, check, event.ts + window)
        if found is None:
            return True
        check = found
    return False


def completed(stacks: SortedStacks, event: Event, position: int, wm: Mapping[str, int]) -> bool:
    """P3: nothing new can join, so all results with this event have been built. Without it state leaks (G14)."""
    window = stacks.pattern.window
    return all(
        wm[type] >= (event.ts if other < position else event.ts + window)
        for other, type in enumerate(stacks.pattern.positives)
        if other != position
    )


def negative(stacks: SortedStacks, event: Event, gap: int, wm: Mapping[str, int]) -> bool:
    """NegState: no new sequence can have this negative event in its gap. Held sequences were checked when it came."""
    window = stacks.pattern.window
    surely = True
    for position, type in enumerate(stacks.pattern.positives):
        if position < gap:
            low, high, closed = event.ts - window, event.ts, wm[type] >= event.ts
        else:
            low, high, closed = event.ts, event.ts + window, wm[type] >= event.ts + window
        if closed and not stacks.any_in(position, low, high):
            return True
        surely = surely and closed
    return surely


def sweep(stacks: SortedStacks, rules: frozenset[str], wm: Mapping[str, int], pog: Pog, *, printed: bool) -> None:
    """Apply the rules until nothing more goes: an event that is dropped can make others droppable."""
    counters, again = stacks.counters, True
    while again:
        again = False
        for position in range(len(stacks.times)):
            for event in tuple(stacks.events[position]):
                if "A1" in rules and singleton(stacks, event, position, pog):
                    counters.purged_a1 += 1
                elif "A2" in rules and pog_set(stacks, event, position, wm, printed=printed):
                    counters.purged_a2 += 1
                elif "P3" in rules and completed(stacks, event, position, wm):
                    counters.purged_p3 += 1
                else:
                    continue
                stacks.drop(position, event)
                again = True


def sweep_negatives(stacks: SortedStacks, negatives: Negatives, wm: Mapping[str, int]) -> None:
    for index, negation in enumerate(stacks.pattern.negations):
        for event in tuple(negatives.events[index]):
            if negative(stacks, event, negation.gap, wm):
                negatives.drop(index, event)
