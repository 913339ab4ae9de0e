"""The ledger: how many hidden justifications each visible binding has.

Matches form a set over their visible events. Where EXISTS hides a variable, or two branches of an OR give the same
binding, a change is announced only when the number of justifications leaves zero or returns to it.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from tocsin.engine.changes import ChangeBatch
from tocsin.plan.block import Plan
from tocsin.plan.facts import justified

FEW = 64


class Ledger:
    """Counts by identity; forgotten once no further justification can come."""

    def __init__(self, lasting: int | None) -> None:
        self.lasting = lasting  # see `facts.justified`
        self.counts: dict[tuple[int, int], int] = {}
        self.starts: dict[tuple[int, int], int] = {}
        self._enough = FEW  # so many entries are worth a look at all of them

    @staticmethod
    def of(plan: Plan) -> Ledger | None:
        """A ledger where it is needed: hidden variables, or alternatives that can bind the same variables."""
        shown = [
            frozenset(alt.var for leaf in block.leaves for alt in leaf.alts)
            & {v.name for v in plan.variables if not v.hidden}
            for block in plan.alternatives
        ]
        shared = any(a == b for a, b in combinations(shown, 2))
        unions = len(shown) > 1 and any(len(leaf.alts) > 1 for block in plan.alternatives for leaf in block.leaves)
        hidden = any(variable.hidden and not variable.implied for variable in plan.variables)
        if not (hidden or shared or unions):
            return None
        return Ledger(None if hidden and plan.within is None else justified(plan))

    def settle(self, changes: ChangeBatch) -> ChangeBatch:
        """Only those changes that make a binding appear or disappear, of each binding at most one.

        Where nothing is withdrawn, the justification that was known first makes it appear.
        """
        if len(changes) > 1 and (changes.op > 0).all():
            changes = changes.pick(np.argsort(changes.known_at, kind="stable"))
        high, low = changes.identity
        starts, _ = changes.span
        turns: dict[tuple[int, int], list[int]] = {}  # where a binding appeared or disappeared, in turn
        for index, key in enumerate(zip(high.tolist(), low.tolist(), strict=True)):
            before = self.counts.get(key, 0)
            after = before + int(changes.op[index])
            if after:
                self.counts[key] = after
                self.starts[key] = int(starts[index])
            else:
                self.counts.pop(key, None)
                self.starts.pop(key, None)
            if (before > 0) != (after > 0):
                turns.setdefault(key, []).append(index)
        keep = sorted(indexes[-1] for indexes in turns.values() if len(indexes) % 2)
        return changes.pick(np.array(keep, np.int64))

    def forget(self, clock: int) -> None:
        """Drop what no justification comes or goes of, whenever there is twice as much as was left the last time."""
        if self.lasting is None or len(self.starts) < self._enough:
            return
        old = [key for key, start in self.starts.items() if start + self.lasting < clock]
        for key in old:
            del self.counts[key], self.starts[key]
        self._enough = max(FEW, 2 * len(self.starts))
