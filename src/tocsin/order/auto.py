"""Auto: aggressive while withdrawals are rare, conservative where waiting costs less than they do.

A withdrawal has a price, a delay that one would accept to avoid it: five windows. What the other strategy would cost is
estimated from what can be seen: while answering at once, how long each answer would have been held; while holding, how
many held answers an event has refuted. Until there are answers enough, the share of late events among those that can
refute one stands for the share that is refuted, and the delay that is known for the time to wait.

A change of mind loses and repeats nothing: what was answered and is not yet certain is remembered. After a change to
conservative such an answer is confirmed silently or withdrawn, and new ones are never withdrawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace

import numpy as np

from tocsin.codec import Part, as_numbers, decode, encode, nested, only_part, within
from tocsin.engine.changes import ChangeBatch, Changes
from tocsin.engine.detector import Detector
from tocsin.engine.operator import Counters, Nesting, Operator
from tocsin.engine.snapshot import load
from tocsin.engine.texts import of_operators
from tocsin.events import END_OF_TIME
from tocsin.items import Codes, Ints, Items
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
Standing = dict[Key, tuple[int, ChangeBatch, int]]


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


class Auto(Nesting):
    """An operator that chooses between two detectors. `make` gives a new one that holds its answers, or does not."""

    def __init__(self, plan: Plan, types: tuple[str, ...], make: Callable[[bool], Detector], late: int | None) -> None:
        self._plan, self.make, self.late = plan, make, late
        self.detector = make(False)
        self.price = PRICE * (plan.within or 0)
        refuting = refuting_types(plan)
        self._may_choose = self.can_choose = bool(refuting and self.price) and late is not None
        takes = plan.schema.takes
        mine = [any(takes(wanted, type) for wanted in refuting) for type in types]
        self.codes = np.array([*mine, False, False])  # EVERY, UNREAD
        self.held = False
        self.switches = self.matches = self.retracted = self._pruned = self._late = self._looks = 0
        self.costs, self._asked = Costs(late or 0), 0
        self.ledger: Standing = {}  # given: while held, what is not certain yet; else, what was certain before its time

    @property
    def inner(self) -> tuple[Operator, ...]:
        return (self.detector,)

    def __str__(self) -> str:
        if not self.can_choose:
            return "auto: aggressive, as no event can refute an answer, or no delay or window is known"
        chosen = "conservative" if self.held else "aggressive"
        told = f"{100 * self.costs.share:.0f} of 100 answers are refuted, and waiting for certainty takes"
        return f"auto: {chosen}, as {told} {self.costs.delay:.0f} ticks on average"

    @property
    def counters(self) -> Counters:
        """What was counted: answers as they were given, not as each strategy would have given them."""
        total = self.detector.counters
        total.matches, total.retracted = self.matches, self.retracted
        return total

    @property
    def texts_in_use(self) -> Ints:
        return of_operators(self.inner)

    def push(self, items: Items) -> Changes:
        """Answer as the chosen strategy does; then look whether the other one would cost less."""
        if items.single and self.ledger:  # the short way does not say how far time has passed
            items = items.copy()  # type: ignore[attr-defined]
        found = self.detector.push(items)
        said = self._passed(found)
        if items.kinds is None:
            self._see(items.types)
            said += self._judged()
        return Changes(said, found.frontier, found.late)

    # --- choosing ---

    def _see(self, types: Codes) -> None:
        """Count the events that can refute an answer (of many, by a sample), and those of them that came late."""
        if not self.can_choose:
            return
        step = len(types) // MANY + 1
        events = int(np.count_nonzero(self.codes[types[::step]])) * step
        late, _ = self.detector.refuted
        self.costs.see(events, late - self._late)
        self._late, self._asked = late, self._asked + events

    def _measure(self, changes: ChangeBatch) -> None:
        """What the answers cost, and would have cost."""
        if not self.can_choose or self.detector.time.ended:
            return
        given = np.flatnonzero(changes.op > 0)
        refuted = len(changes) - len(given)
        if self.held:
            _, pruned = self.detector.refuted
            refuted, self._pruned = pruned - self._pruned, pruned
        self.costs.answer(len(given), len(given) * self._wait(changes, given), refuted)

    def _wait(self, changes: ChangeBatch, given: Ints) -> float:
        """How long an answer waits for certainty, or would: by a sample; once that is known, of every eighth batch."""
        assert self.late is not None
        self._looks += 1
        if not len(given) or (self.costs.answers > MEMORY // 4 and self._looks % LOOKS):
            return self.costs.delay
        seen = changes.pick(given[:: len(given) // SAMPLE + 1])
        ends, known = seen.span[1], seen.known_at
        return float(np.maximum(known - ends if self.held else ends + self.late - known, 0).mean())

    def _judged(self) -> list[ChangeBatch]:
        """Change the strategy if the other one is better by now: what that brings."""
        if self._asked < ENOUGH or not self.can_choose:
            return []
        self._asked = 0
        waiting, correcting = self.costs.delay, self.costs.share * self.price
        if self.held and correcting * CLEAR < waiting:
            return self._switch(held=False)
        if not self.held and waiting < correcting:
            return self._switch(held=True)
        return []

    def _switch(self, *, held: bool) -> list[ChangeBatch]:
        """Go on with the other strategy: retract what it does not stand by, give what it adds.

        Both are asked what they answer to the stored events. What was given before is what the ledger has, and what is
        certain or, if answers were given at once, all that stands.
        """
        parts = self.detector.snapshot()
        at_once, certain = (self._anew(self.make(way), parts) for way in (False, True))
        if held:
            given = {**self.ledger, **at_once[1]}
            self.ledger = {key: entry for key, entry in given.items() if key not in certain[1]}
            refuted, fresh = [], [entry for key, entry in certain[1].items() if key not in given]
        else:
            refuted = self._retracted([key for key in self.ledger if key not in at_once[1]])
            known = self.ledger.keys() | certain[1].keys()
            fresh = [entry for key, entry in at_once[1].items() if key not in known]
            # an absence can be certain before its time is over, where the other strategy answers
            self.ledger = {key: entry for key, entry in certain[1].items() if key not in at_once[1]}
        self.detector, self.held, self.switches = (certain if held else at_once)[0], held, self.switches + 1
        self._late, self._pruned = self.detector.refuted
        return self._counted([*refuted, *(batch.pick(np.array([row])) for _, batch, row in fresh)])

    @staticmethod
    def _anew(detector: Detector, parts: list[Part]) -> tuple[Detector, Standing]:
        """A new detector with the stored events, and its answers to them: those that stand."""
        answers: list[ChangeBatch] = []
        load(detector, parts, answers)
        return detector, _standing(answers)

    # --- the ledger ---

    def _passed(self, changes: Changes) -> list[ChangeBatch]:
        """The changes without answers that were given before; and the ones that are certainly wrong, retracted."""
        out: list[ChangeBatch] = []
        for batch in changes:
            self._measure(batch)
            if self.ledger:
                fresh = [
                    row
                    for row, (key, op) in enumerate(zip(_keys(batch), batch.op.tolist(), strict=True))
                    if op < 0 or self.ledger.pop(key, None) is None
                ]
                batch = batch.pick(np.array(fresh, np.int64))
            out.append(batch)
        if self.held and self.ledger:
            out += self._retracted([key for key, entry in self.ledger.items() if entry[0] <= changes.frontier])
        return self._counted(out)

    def _counted(self, batches: list[ChangeBatch]) -> list[ChangeBatch]:
        for batch in batches:
            given = int(np.count_nonzero(batch.op > 0))
            self.matches += given
            self.retracted += len(batch) - given
        return [batch for batch in batches if len(batch)]

    def _retracted(self, keys: list[Key]) -> list[ChangeBatch]:
        """Answers that turned out wrong, as changes."""
        out = []
        for key in keys:
            _, batch, row = self.ledger.pop(key)
            one = batch.pick(np.array([row]))
            out.append(replace(one, op=-one.op))
        return out

    # --- state ---

    def snapshot(self, since: int = 0) -> list[Part]:
        return [Part("auto", 0, self.memory), *nested("inner", self.detector.snapshot(since))]

    def restore(self, parts: Iterable[Part]) -> None:
        parts = list(parts)
        memory = only_part("auto", parts).data
        detector = self.make(decode(memory, "auto").words["held"])
        detector.restore(within("inner", parts))
        self.detector = detector
        self.resume(memory)

    @property
    def memory(self) -> bytes:
        """What was chosen and why, and the answers that were given and are not certain yet: all but the events."""
        words = {
            "held": self.held,
            "counts": [self.switches, self.matches, self.retracted, self._asked],
            "costs": asdict(self.costs),
        }
        ledger = packed([(batch, row) for _, batch, row in self.ledger.values()])
        return encode("auto", words, blobs={"ledger": ledger})

    def follow(self, memory: bytes) -> None:
        """Before events are replayed: take the strategy that was chosen, and choose nothing until `resume`."""
        self.held, self.can_choose = decode(memory, "auto").words["held"], False
        self.detector = self.make(self.held)

    def resume(self, memory: bytes) -> None:
        """After events were replayed: go on from what was chosen."""
        stored = decode(memory, "auto")
        words, given = stored.words, unpacked(stored.blobs["ledger"], self._plan, self.detector.functions)
        self.ledger = {} if given is None else _standing([given])
        self.held, self.can_choose, self.costs = words["held"], self._may_choose, Costs(**words["costs"])
        self.switches, self.matches, self.retracted, self._asked = as_numbers(words["counts"])
        self._late, self._pruned = self.detector.refuted


def _standing(answers: list[ChangeBatch]) -> Standing:
    """The answers that were given and not retracted: when each ends, and where it stands."""
    standing: Standing = {}
    for batch in answers:
        if not len(batch):
            continue
        ends = batch.span[1].tolist() if batch.visible else [END_OF_TIME] * len(batch)
        for row, (key, op) in enumerate(zip(_keys(batch), batch.op.tolist(), strict=True)):
            if op > 0:
                standing[key] = (ends[row], batch, row)
            else:
                standing.pop(key, None)
    return standing


def _keys(changes: ChangeBatch) -> list[Key]:
    if not len(changes):
        return []
    high, low = changes.identity
    return list(zip(high.tolist(), low.tolist(), strict=True))
