"""Joins that look only for what is new: patterns over plain operands whose condition asks for an event of the stage.

`end-ts(A) = stable-time OR end-ts(B) = stable-time` asks that one of some operands ends now. Then a search may begin
with the events of the stage at each of these operands in turn, and find the others by value and by end, instead of
walking over all that was collected. Earlier operands of the turn leave out the events of the stage, so that each match
is found once. The order of matches is another one, which nobody can see: what a stage gives is sorted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from tocsin.lang.staged_syntax import AttrOf, Compared, Logical, StableTime, StagedExpr, TimeOf, parts
from tocsin.plan.staged_places import mode_of
from tocsin.staged.bindings import DetectionRun, PatternNames
from tocsin.staged.event import ABSENT, Binding, StagedEvent
from tocsin.staged.operand_list import EventRun
from tocsin.staged.spots import PatternSpot
from tocsin.staged.values import truth_of

Test: TypeAlias = Callable[[DetectionRun], bool]
NOBODY = EventRun()


@dataclass(frozen=True, slots=True)
class Step:
    """One operand of a search: how its events are found, and what must hold once it is bound.

    age    "new" where it ends now, "old" where it ended before; None: either
    equal  by which attribute it is found, and the number and attribute of a bound operand that it is equal to
    low, high  numbers of bound operands that it ends after, or before
    same   whether it ends with those, as in Concurrent
    apart  numbers of bound operands that must have other events
    asked  the conditions of which `tests` says whether they hold
    """

    number: int
    age: str | None
    equal: tuple[str, int, str] | None
    low: int | None
    high: int | None
    same: bool
    apart: tuple[int, ...]
    asked: tuple[StagedExpr, ...]
    tests: tuple[Callable[[DetectionRun], Any], ...]

    def candidates(self, run: DetectionRun) -> Iterator[StagedEvent]:
        """The events that may stand here, given what is bound."""
        events = run.lists[self.number].all
        if self.equal is not None:
            attr, other, theirs = self.equal
            value = run.bound[other].values.get(theirs)  # type: ignore[union-attr]
            events = (None if value is None else run.lists[self.number].with_value(attr, value)) or NOBODY
        low = run.now if self.age == "new" else None
        high = run.now - 1 if self.age == "old" else None
        if self.low is not None:
            end = run.bound[self.low].end  # type: ignore[union-attr]
            low = max(end if self.same else end + 1, end if low is None else low)
            high = end if self.same and (high is None or high > end) else high
        if self.high is not None:
            end = run.bound[self.high].end  # type: ignore[union-attr]
            most = end if self.same else end - 1
            high = most if high is None else min(high, most)
            low = end if self.same and (low is None or low < end) else low
        return events.between(low, high, newest=True)


class NewJoin:
    """The searches of a pattern, one for each operand that may be the new one."""

    def __init__(
        self, root: PatternSpot, conjuncts: Sequence[StagedExpr], names: PatternNames, news: Sequence[int],
        apart: Mapping[int, Sequence[int]],
    ) -> None:  # fmt: skip
        self._names, self._root, self._apart = names, root, apart
        self._conjuncts = [
            (frozenset(names.spots[str(part.name)].number for part in _mentions(each)), each) for each in conjuncts
        ]
        self.looked_up: list[tuple[int, str]] = []
        self.searches = [self._search(at, news) for at in range(len(news))]

    def matches(self, run: DetectionRun) -> list[Binding]:
        """All matches with an event of the stage."""
        for steps in self.searches:
            self._walk(run, steps, 0)
        return run.found

    def _walk(self, run: DetectionRun, steps: Sequence[Step], at: int) -> None:
        if at == len(steps):
            run.found.append(tuple(run.bound))
            return
        step = steps[at]
        for event in step.candidates(run):
            run.bound[step.number] = event
            is_other = all(event is not run.bound[other] for other in step.apart)
            if is_other and all(test(run) in (True, ABSENT) for test in step.tests):
                self._walk(run, steps, at + 1)
        run.bound[step.number] = None

    # --- made once ---

    def _search(self, at: int, news: Sequence[int]) -> tuple[Step, ...]:
        """The search that begins with one of the new operands: next comes whatever an equality finds."""
        left = [leaf.number for leaf in self._root.spots]
        order: list[Step] = []
        bound: set[int] = set()
        while left:
            chosen = news[at] if not order else next((one for one in left if self._equality(one, bound)), left[0])
            left.remove(chosen)
            order.append(self._step(chosen, bound, at, news))
            bound.add(chosen)
        return tuple(order)

    def _step(self, number: int, bound: set[int], at: int, news: Sequence[int]) -> Step:
        age = "new" if number == news[at] else "old" if number in news[:at] else None
        equal = self._equality(number, bound)
        if equal is not None:
            self.looked_up.append((number, equal[0]))
        there = bound | {number}
        asked = [
            each for mentioned, each in self._conjuncts if mentioned <= there and (number in mentioned or not bound)
        ]
        tests = tuple(truth_of(each, self._names.look_up) for each in asked)
        low = high = None
        if self._root.operator in ("Sequence", "Concurrent"):
            low = max((one for one in bound if one < number), default=None)
            high = min((one for one in bound if one > number), default=None)
        apart = tuple(other for other in self._apart.get(number, ()) if other in bound)
        return Step(number, age, equal, low, high, self._root.operator == "Concurrent", apart, tuple(asked), tests)

    def _equality(self, number: int, bound: set[int]) -> tuple[str, int, str] | None:
        """An equality of an attribute with that of an operand that is bound."""
        for _, each in self._conjuncts:
            if not isinstance(each, Compared) or each.op != "=":
                continue
            for mine, other in ((each.left, each.right), (each.right, each.left)):
                if isinstance(mine, AttrOf) and isinstance(other, AttrOf):
                    before = self._names.spots[str(other.name)].number
                    if self._names.spots[str(mine.name)].number == number and before in bound:
                        return mine.attr, before, other.attr
        return None


def new_join(
    root: PatternSpot, conjuncts: Sequence[StagedExpr], names: PatternNames, apart: Mapping[int, Sequence[int]]
) -> NewJoin | None:
    """The join of a pattern, if it is of the kind that can begin with what is new; `apart`: which are distinct."""
    leaves = [spot.leaf for spot in root.spots]
    if root.operator not in ("And", "Sequence", "Concurrent") or mode_of(root.call) == "deferred":
        return None
    for leaf in leaves:
        if leaf is None or leaf.quantifier.every or leaf.quantifier.strict or leaf.quantifier.most is not None:
            return None
    if any(_is_sst(part) for each in conjuncts for part in parts(each)):
        return None
    inside = {spot.number for spot in root.spots}
    if any(names.spots[str(part.name)].number not in inside for each in conjuncts for part in _mentions(each)):
        return None
    for each in conjuncts:
        news = _asked_to_be_new(each, names)
        if news:
            return NewJoin(root, conjuncts, names, news, apart)
    return None


def _mentions(node: StagedExpr) -> list[AttrOf | TimeOf]:
    return [part for part in parts(node) if isinstance(part, AttrOf | TimeOf)]


def _is_sst(part: object) -> bool:
    return isinstance(part, TimeOf) and part.which == "sst"


def _asked_to_be_new(node: StagedExpr, names: PatternNames) -> list[int]:
    """The operands of which a condition asks that one ends now; none if it says anything else."""
    match node:
        case Logical() if node.op == "OR":
            left, right = _asked_to_be_new(node.left, names), _asked_to_be_new(node.right, names)
            return list(dict.fromkeys(left + right)) if left and right else []
        case Compared() if node.op == "=":
            for mine, other in ((node.left, node.right), (node.right, node.left)):
                if isinstance(mine, TimeOf) and mine.which == "end-ts" and isinstance(other, StableTime):
                    return [names.spots[mine.name].number]
    return []
