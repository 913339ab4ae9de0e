"""Auto: aggressive while withdrawals are rare, conservative where waiting costs less than they do.

A withdrawal has a price, a delay that one would accept to avoid it: five windows. What the other strategy would cost is
estimated from what can be seen: while answering at once, how long each answer would have been held; while holding, how
many held answers an event has refuted. Until there are answers enough, the share of late events among those that can
refute one stands for the share that is refuted, and the delay that is known for the time to wait.

A change of mind loses and repeats nothing: what was answered and is not yet certain is remembered. After a change to
conservative such an answer is confirmed silently or withdrawn, and new ones are never withdrawn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from tocsin.encode.row import OneRow
from tocsin.engine import snapshot as saved
from tocsin.engine.changes import Changes
from tocsin.engine.detector import Counters, Detector
from tocsin.events import BEGINNING, END_OF_TIME
from tocsin.items import Ints, Items
from tocsin.order.kept import packed, unpacked
from tocsin.plan.block import Plan
from tocsin.plan.rewrite import all_blocks

PRICE = 5  # windows of delay that a withdrawal is worth
FIRST = 16  # answers that weigh as much as what events alone suggest
ENOUGH = 64  # events that are worth a judgement
MANY = 4096  # events of a batch that are looked at for their type
SAMPLE, LOOKS = 64, 8  # answers of a batch whose delay is looked at, in every so many batches
MEMORY = 1024  # so many answers, and sixteen times as many events, weigh half as much as new ones
CLEAR = 1.5  # to stop holding answers must be better by this factor, so that the choice does not swing

Key = tuple[int, int]


def refuting_types(plan: Plan) -> set[str]:
    """The types whose events can change an answer that does not contain them: negated and repeated ones."""
    judged_by = [block.repeated if block in plan.alternatives else block.leaves for block in all_blocks(plan)]
    return {alt.type for leaves in judged_by for leaf in leaves for alt in leaf.alts}


@dataclass(slots=True)
class Costs:
    """What answers cost of late, in ticks: by waiting, and by being withdrawn."""

    late: int  # the delay that is known
    answers: float = 0.0
    waited: float = 0.0
    refuted: float = 0.0
    events: float = 0.0  # that can refute an answer, and how many of them come late
    behind: float = 0.0

    def answer(self, answers: int, waited: float, refuted: int) -> None:
        self.answers, self.waited, self.refuted = self.answers + answers, self.waited + waited, self.refuted + refuted
        if self.answers > MEMORY:
            self.answers, self.waited, self.refuted = self.answers / 2, self.waited / 2, self.refuted / 2

    def see(self, events: int, behind: int) -> None:
        self.events, self.behind = self.events + events, self.behind + behind
        if self.events > 16 * MEMORY:
            self.events, self.behind = self.events / 2, self.behind / 2

    @property
    def delay(self) -> float:
        """How long an answer waits to be certain."""
        return (self.waited + FIRST * self.late) / (self.answers + FIRST)

    @property
    def share(self) -> float:
        """How many answers are refuted for each that is given."""
        suggested = self.behind / max(self.events, 1.0)
        return (self.refuted + FIRST * suggested) / (self.answers + FIRST)


class Auto:
    """A detector that chooses its strategy; used like one. `make` gives a new one that holds answers, or not."""

    def __init__(self, plan: Plan, types: tuple[str, ...], make: Callable[[bool], Detector], late: int | None) -> None:
        def whole(held: bool) -> Detector:
            """Without forgetting by type: what one strategy no longer needs, the other may."""
            detector = make(held)
            detector.by_type = False
            return detector

        self.make, self.inner, self.late = whole, whole(False), late
        self.price = PRICE * (plan.within or 0)
        refuting = refuting_types(plan)
        self.can_choose = bool(refuting and self.price) and late is not None
        self.chooses = self.can_choose  # not while it is brought to where another one was
        self.codes = np.array([*(type in refuting for type in types), False])
        self.held = False
        self.switches = self.matches = self.retracted = self._pruned = self._late = self._looks = 0
        self.costs, self._asked = Costs(late or 0), 0
        self.ledger: dict[Key, tuple[int, Changes, int]] = {}  # answered, not yet certain: end, and where it stands

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def __str__(self) -> str:
        if not self.can_choose:
            return "auto: aggressive, as no event can refute an answer, or no delay or window is known"
        chosen = "conservative" if self.held else "aggressive"
        told = f"{100 * self.costs.share:.0f} of 100 answers are refuted, and waiting for certainty takes"
        return f"auto: {chosen}, as {told} {self.costs.delay:.0f} ticks on average"

    # --- the verbs of a detector; each gives all its changes ---

    def push(self, items: Items) -> list[Changes]:
        changes = self.inner.push(items)
        self._see(items.types)
        return self._judged(self._passed(changes))

    def push_one(self, one: OneRow) -> list[Changes]:
        changes = self.inner.push_one(one)
        self._see(one.types)
        return self._judged([] if changes is None and not self.ledger else self._passed(changes))

    def promise(self, type: str | None, time: int) -> list[Changes]:
        return self._passed(self.inner.promise(type, time))

    def tick(self, clock: int) -> list[Changes]:
        return self._passed(self.inner.tick(clock))

    def advance(self, time: int) -> list[Changes]:
        return self._passed(self.inner.advance(time))

    def count(self) -> Counters:
        """What was counted: answers as they were given, not as each strategy would have given them."""
        total = self.inner.count()
        total.matches, total.retracted = self.matches, self.retracted
        return total

    # --- choosing ---

    def _see(self, types: Any) -> None:
        """Count the events that can refute an answer (of many, by a sample), and those of them that came late."""
        if not self.chooses:
            return
        step = len(types) // MANY + 1
        events = int(np.count_nonzero(self.codes[types[::step]])) * step
        late = self.inner.late_refuting
        self.costs.see(events, late - self._late)
        self._late, self._asked = late, self._asked + events

    def _measure(self, changes: Changes) -> None:
        """What the answers cost, and would have cost."""
        if not self.chooses or not len(changes) or self.inner.ended:
            return
        given = np.flatnonzero(changes.op > 0)
        refuted = len(changes) - len(given)
        if self.held:
            pruned = self.inner.count().held_pruned
            refuted, self._pruned = pruned - self._pruned, pruned
        self.costs.answer(len(given), len(given) * self._wait(changes, given), refuted)

    def _wait(self, changes: Changes, given: Ints) -> float:
        """How long an answer waits for certainty, or would: by a sample; once that is known, of every eighth batch."""
        assert self.late is not None
        self._looks += 1
        if not len(given) or (self.costs.answers > MEMORY // 4 and self._looks % LOOKS):
            return self.costs.delay
        seen = changes.pick(given[:: len(given) // SAMPLE + 1])
        ends, known = seen.span[1], seen.known_at
        return float(np.maximum(known - ends if self.held else ends + self.late - known, 0).mean())

    def _judged(self, changes: list[Changes]) -> list[Changes]:
        if self._asked < ENOUGH or not self.chooses:
            return changes
        self._asked = 0
        waiting, correcting = self.costs.delay, self.costs.share * self.price
        if self.held and correcting * CLEAR < waiting:
            return changes + self.correct()
        if not self.held and waiting < correcting:
            return changes + self.hold()
        return changes

    def hold(self) -> list[Changes]:
        """From now on answers wait. What was given, and is not certain by the new rules, goes to the ledger.

        What is certain may not have been given yet: the clock had not passed, but nothing could come any more.
        """
        parts = self.inner.parts()
        given, new = self._anew(self.make(False), parts), self.make(True)
        certain = self._anew(new, parts)
        self.ledger = {key: entry for key, entry in given.items() if key not in certain}
        self.inner, self.held, self.switches, self._pruned = new, True, self.switches + 1, 0
        self._late = new.late_refuting
        due = [(piece, row) for key, (_, piece, row) in certain.items() if key not in given]
        return self._counted([piece.pick(np.array([row])) for piece, row in due])

    @staticmethod
    def _anew(detector: Detector, parts: list[saved.Part]) -> dict[Key, tuple[int, Changes, int]]:
        """The answers of a new detector to what is stored: those that stand."""
        answers: list[Changes] = []
        saved.load(detector, parts, answers)
        return _standing(answers)

    def correct(self) -> list[Changes]:
        """From now on answers are given at once: also those that waited; what was given and does not hold goes."""
        self.held, self.switches = False, self.switches + 1
        self.inner.rehold(frozenset())
        given = self.inner.promise(None, BEGINNING)
        keys = _keys(given)
        again = {key for key in keys if key in self.ledger}
        refuted = self._withdrawn([key for key in self.ledger if key not in again])
        fresh = [row for row, key in enumerate(keys) if key not in again]
        self.ledger = {}
        return self._counted([*refuted, given.pick(np.array(fresh, np.int64))])

    # --- the ledger ---

    def _passed(self, changes: Changes | None) -> list[Changes]:
        """The changes without answers that were given before; and the ones that are certainly wrong, withdrawn."""
        out = [] if changes is None else [changes]
        if changes is not None:
            self._measure(changes)
        if self.held and self.ledger:
            if changes is not None and len(changes):
                fresh = [row for row, key in enumerate(_keys(changes)) if self.ledger.pop(key, None) is None]
                out = [changes.pick(np.array(fresh, np.int64))]
            frontier = self.inner.frontier
            out += self._withdrawn([key for key, entry in self.ledger.items() if entry[0] <= frontier])
        return self._counted(out)

    def _counted(self, changes: list[Changes]) -> list[Changes]:
        for piece in changes:
            given = int(np.count_nonzero(piece.op > 0))
            self.matches += given
            self.retracted += len(piece) - given
        return changes

    # --- continued elsewhere; the detector within is saved and restored as any other ---

    def saved(self) -> tuple[list[Any], bytes]:
        """What was chosen and why, and the ledger."""
        chosen = [self.held, self.switches, self.matches, self.retracted, self._asked, asdict(self.costs)]
        return chosen, packed([(piece, row) for _, piece, row in self.ledger.values()])

    def choose(self, chosen: list[Any]) -> None:
        """Choose as another one did, and nothing else until `resume`; then its detector or its events are restored."""
        self.held, self.switches, *_ = chosen
        self.chooses, self.inner = False, self.make(self.held or self.switches > 0)
        if self.switches and not self.held:  # one that has held its answers before
            self.inner.rehold(frozenset())

    def resume(self, chosen: list[Any], ledger: bytes, plan: Plan) -> None:
        """Be as another one was when it was saved."""
        self.held, self.switches, self.matches, self.retracted, self._asked, costs = chosen
        self.costs, self._pruned, self.chooses = Costs(**costs), self.inner.count().held_pruned, self.can_choose
        self._late = self.inner.late_refuting
        given = unpacked(ledger, plan, self.inner.functions)
        self.ledger = {} if given is None else _standing([given])

    def _withdrawn(self, keys: list[Key]) -> list[Changes]:
        """Answers that turned out wrong, as changes."""
        out = []
        for key in keys:
            _, changes, row = self.ledger.pop(key)
            piece = changes.pick(np.array([row]))
            out.append(replace(piece, op=-piece.op))
        return out


def _standing(answers: list[Changes]) -> dict[Key, tuple[int, Changes, int]]:
    """The answers that were given and not withdrawn: when each ends, and where it stands."""
    standing: dict[Key, tuple[int, Changes, int]] = {}
    for piece in answers:
        if not len(piece):
            continue
        ends = piece.span[1].tolist() if piece.visible else [END_OF_TIME] * len(piece)
        for row, (key, op) in enumerate(zip(_keys(piece), piece.op.tolist(), strict=True)):
            if op > 0:
                standing[key] = (ends[row], piece, row)
            else:
                standing.pop(key, None)
    return standing


def _keys(changes: Changes) -> list[Key]:
    if not len(changes):
        return []
    high, low = changes.identity
    return list(zip(high.tolist(), low.tolist(), strict=True))
