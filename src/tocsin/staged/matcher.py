"""Finds the matches of a pattern: a tree of functions, made once for a statement.

Spots are solved from left to right. A solver tries every way to bind its spot and asks `rest` whether the remaining
pattern can be completed, because an event is selected only if it is part of a whole match. Candidates of a leaf come
from its list by value, where an equality relates it to an operand before it, and by end, where the order does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

from tocsin.lang.staged_syntax import (
    ONLY,
    TIMED,
    AttrOf,
    Compared,
    LeafOperand,
    StableTime,
    StagedExpr,
    Statement,
    TimeOf,
    parts,
)
from tocsin.plan.staged_places import conjuncts_of
from tocsin.staged.bindings import DetectionRun, PatternNames, context_of, end_of, for_every
from tocsin.staged.event import ABSENT, TICK, Binding, CountedEvents, EveryOne, StagedEvent, distinct, events_in
from tocsin.staged.join import new_join
from tocsin.staged.operand_list import EventRun
from tocsin.staged.options import kept_apart
from tocsin.staged.spots import PatternSpot
from tocsin.staged.values import truth_of

Rest: TypeAlias = Callable[[], bool]
Solver: TypeAlias = Callable[[DetectionRun, Rest, bool], bool]  # True: once is enough, stop at the first way
Test: TypeAlias = Callable[[DetectionRun], bool]
Ends: TypeAlias = Callable[[DetectionRun], "tuple[int | None, int | None]"]  # the closed range in which candidates end
Value: TypeAlias = Callable[[DetectionRun], Any]


def always(_: DetectionRun) -> bool:
    return True


def completed() -> bool:
    return True


def keeping(run: DetectionRun, found: list[Binding]) -> Rest:
    """Keep each complete binding."""

    def keep() -> bool:
        found.append(tuple(run.bound))
        return True

    return keep


def apart_from(number: int, others: Sequence[int]) -> Test:
    """Whether no event of an operand stands at others that are bound."""

    def test(run: DetectionRun) -> bool:
        mine = {event.number for event in events_in(run.bound[number])}
        return not any(event.number in mine for other in others for event in events_in(run.bound[other]))

    return test


def asking(asked: Value) -> Test:
    """Whether a condition is TRUE, or says nothing because all of it is about absent operands."""
    return lambda run: asked(run) in (True, ABSENT)


class Matcher:
    """The matches of a statement over the lists of a context.

    looked_up  by the number of a leaf, the attributes by whose values its events are looked up
    """

    def __init__(self, statement: Statement, root: PatternSpot) -> None:
        self.root, self.names = root, PatternNames(root)
        self.size = root.number + 1
        self.looked_up: dict[int, set[str]] = {leaf.number: set() for leaf in root.leaves()}
        self._every = {leaf.number for leaf in root.leaves() if leaf.leaf is not None and leaf.leaf.quantifier.every}
        self._counted = root.counted()
        self._apart = kept_apart(root) if "distinct" in statement.options else {}
        self._homes: dict[int, list[StagedExpr]] = {}
        for conjunct in conjuncts_of(statement.where):
            home = max((spot.number for spot in self._mentioned(conjunct)), default=0)
            self._homes.setdefault(home, []).append(conjunct)
        self._run_holds = self._holds([0])
        self._possible = self._can_match(root)
        self._solve = self._solver(root, None)
        self._join = new_join(root, list(conjuncts_of(statement.where)), self.names, self._apart)
        for number, attr in () if self._join is None else self._join.looked_up:
            self.looked_up[number].add(attr)

    def matches(self, run: DetectionRun) -> list[Binding]:
        """All matches."""
        if self._possible(run) and self._run_holds(run):
            if self._join is not None:
                return self._join.matches(run)
            self._solve(run, keeping(run, run.found), False)
        return run.found

    # --- conditions ---

    def _mentioned(self, node: StagedExpr) -> list[PatternSpot]:
        """The spots that a condition mentions; sst(X) does not mention X."""
        found = [part for part in parts(node) if isinstance(part, AttrOf | TimeOf)]
        return [self.names.spots[str(part.name)] for part in found if getattr(part, "which", "") != "sst"]

    def _holds(self, homes: Iterable[int]) -> Test:
        """Whether the conjuncts that are asked at some spots hold, for every member of an `all`."""
        homes = list(homes)
        tests = [apart_from(home, self._apart[home]) for home in homes if home in self._apart]
        for conjunct in (each for home in homes for each in self._homes.get(home, ())):
            test = asking(truth_of(conjunct, self.names.look_up))
            tests.append(self._of_every(test, self._mentioned(conjunct)))
        return _all_of(tests)

    def _of_every(self, test: Test, spots: Iterable[PatternSpot]) -> Test:
        numbers = sorted({leaf.number for spot in spots for leaf in spot.leaves()} & self._every)
        return test if not numbers else lambda run: for_every(run, numbers, test)

    # --- what can be told without a search ---

    def _can_match(self, spot: PatternSpot) -> Test:
        """Whether lists and timers allow a match at all; where not, nothing is searched."""
        number, inner = spot.number, [self._can_match(each) for each in spot.spots]
        match spot.operator:
            case None:
                found: Test = lambda run: run.lists[number].all.count > 0  # noqa: E731
            case "{}":
                found = lambda run: bool(run.frames.get(number))  # noqa: E731
            case "Or":
                found = lambda run: any(each(run) for each in inner)  # noqa: E731
            case "Not":
                found = always
            case "Unless":
                found = inner[0]
            case "At" | "Every" | "After":
                found = lambda run: number in run.fires  # noqa: E731
            case "Nth" | "AtLeast" if spot.call.count:
                found = lambda run: any(each(run) for each in inner)  # noqa: E731
            case "Nth" | "AtLeast" | "AtMost":
                found = always
            case _:
                found = lambda run: all(each(run) for each in inner)  # noqa: E731
        return (lambda run: run.final and found(run)) if spot.deferred else found

    # --- operators ---

    def _solver(self, spot: PatternSpot, ends: Ends | None) -> Solver:
        """The solver of a spot; `ends` is where the order wants a leaf to end."""
        match spot.operator:
            case None:
                inner = self._leaf(spot, ends)
            case "Or":
                inner = self._or(spot)
            case "Not":
                inner = self._not(spot)
            case "Unless":
                inner = self._unless(spot)
            case "{}":
                inner = self._block(spot)
            case "At" | "Every":
                inner = _tick(spot.number)
            case "After":
                inner = self._after(spot)
            case "Nth" | "AtLeast" | "AtMost":
                inner = self._counting(spot)
            case _:
                inner = self._chain(spot)
        if spot.operator is not None and spot.number in self._homes:
            inner = _then(inner, self._holds([spot.number]))
        return _finally(spot, inner) if spot.deferred else inner

    def _leaf(self, spot: PatternSpot, ends: Ends | None) -> Solver:
        leaf, number, holds = spot.leaf, spot.number, self._holds([spot.number])
        assert leaf is not None
        how = leaf.quantifier
        if how.every:
            return _whole_list(number, holds)
        candidates = self._candidates(spot, None if how.strict else ends, scan=how.strict)
        if how.most is None and not how.strict:
            return _each(number, candidates, holds)
        return _selected(leaf, number, candidates, holds)

    def _candidates(
        self, spot: PatternSpot, ends: Ends | None, *, scan: bool
    ) -> Callable[[DetectionRun], Iterator[StagedEvent]]:
        """Walk the events of a leaf that may qualify, from the newest or the oldest on."""
        leaf, number = spot.leaf, spot.number
        assert leaf is not None
        newest = leaf.quantifier.age == "new"
        equal = None if scan else self._equality(spot)
        ends = ends or (None if scan else self._end_equality(spot))
        least = [] if scan else self._least_ends(spot)
        nobody = EventRun()

        def candidates(run: DetectionRun) -> Iterator[StagedEvent]:
            events = run.lists[number].all
            if equal is not None:
                attr, value, there = equal
                if there(run):
                    wanted = value(run)
                    events = (None if wanted is None else run.lists[number].with_value(attr, wanted)) or nobody
            low, high = (None, None) if ends is None else ends(run)
            for each in least:
                bound = each(run)
                if bound is not None and (low is None or bound > low):
                    low = bound
            return events.between(low, high, newest=newest)

        return candidates

    def _equality(self, spot: PatternSpot) -> tuple[str, Value, Test] | None:
        """An equality with an operand before: the attribute, the value that it must have, and when that is known."""
        for conjunct in self._homes.get(spot.number, ()):
            if not isinstance(conjunct, Compared) or conjunct.op != "=":
                continue
            for mine, other in ((conjunct.left, conjunct.right), (conjunct.right, conjunct.left)):
                if not isinstance(mine, AttrOf) or not isinstance(other, AttrOf) or mine.name != spot.name:
                    continue
                before = self.names.spots[str(other.name)]
                if before.leaf is None or before.number == spot.number or before.number in self._every | self._counted:
                    continue
                self.looked_up[spot.number].add(mine.attr)
                at = before.number
                is_event: Test = lambda run, at=at: isinstance(run.bound[at], StagedEvent)  # type: ignore[misc]  # noqa: E731
                return mine.attr, self.names.look_up(other), is_event
        return None

    def _end_equality(self, spot: PatternSpot) -> Ends | None:
        """`end-ts(X) = stable-time`: only events of the stage itself."""
        for conjunct in self._homes.get(spot.number, ()):
            if isinstance(conjunct, Compared) and conjunct.op == "=":
                for mine, other in ((conjunct.left, conjunct.right), (conjunct.right, conjunct.left)):
                    own = isinstance(mine, TimeOf) and mine.which == "end-ts" and mine.name == spot.name
                    if own and isinstance(other, StableTime):
                        return lambda run: (run.now, run.now)
        return None

    def _least_ends(self, spot: PatternSpot) -> list[Value]:
        """Where the events of a leaf end at the earliest, as far as what is bound before it tells.

        Of conditions such as `start-ts(Both) > end-ts(A)`: what starts later also ends later, and so do its parts.
        """
        found: list[Value] = []
        for conjunct in (each for several in self._homes.values() for each in several):
            if not isinstance(conjunct, Compared) or conjunct.op not in (">", ">=", "<", "<="):
                continue
            later, earlier = (conjunct.left, conjunct.right)
            if conjunct.op in ("<", "<="):
                later, earlier = earlier, later
            if not isinstance(later, TimeOf) or not isinstance(earlier, TimeOf) or earlier.which == "sst":
                continue
            if later.name in self._around(spot, later.which) and self._is_bound_before(spot, earlier.name):
                found.append(_one_more(self.names.look_up(earlier), strictly=conjunct.op in (">", "<")))
        return found

    def _around(self, spot: PatternSpot, which: str) -> set[str]:
        """The names whose time is not after that of a leaf: its own, and of their start those that it is a part of."""
        names = {spot.name} if self.names.spots[str(spot.name)] is spot else set()
        for other in self.names.spots.values() if which == "start-ts" else ():
            if other.operator in ("And", "Sequence", "Concurrent") and spot in self._parts(other):
                names.add(other.name)
        return {str(name) for name in names}

    def _parts(self, spot: PatternSpot) -> list[PatternSpot]:
        """The leaves that every match of a spot binds."""
        if spot.leaf is not None:
            return [spot]
        below = spot.spots if spot.operator in ("And", "Sequence", "Concurrent", ONLY) else ()
        return [leaf for each in below for leaf in self._parts(each)]

    def _is_bound_before(self, spot: PatternSpot, name: str) -> bool:
        """Whether a name stands for single events that are bound when a leaf is."""
        before = self.names.spots[name]
        leaves = {leaf.number for leaf in before.leaves()}
        plain = before.leaf is not None or leaves == {leaf.number for leaf in self._parts(before)}
        return plain and before.number < spot.number and not leaves & (self._every | self._counted)

    def _chain(self, spot: PatternSpot) -> Solver:
        """Sequence, And, Concurrent, and a leaf in parentheses: one operand after the other."""
        after: Solver = lambda run, rest, once: rest()  # noqa: ARG005, E731
        for at in range(len(spot.spots) - 1, -1, -1):
            ends = self._ends_behind(spot, at)
            solver, fits = self._solver(spot.spots[at], ends), self._in_order(spot, at)
            after = _link(solver, fits, after)
        return after

    def _is_plain_pair(self, one: PatternSpot, other: PatternSpot) -> bool:
        return other.leaf is not None and not {leaf.number for leaf in (*one.leaves(), other)} & self._every

    def _ends_behind(self, spot: PatternSpot, at: int) -> Ends | None:
        """Where the events of a leaf must end, given the operand before it."""
        if spot.operator not in ("Sequence", "Concurrent") or at == 0:
            return None
        before, here = spot.spots[at - 1], spot.spots[at]
        if not self._is_plain_pair(before, here):
            return None
        end = end_of(before)
        if spot.operator == "Sequence":
            return lambda run: (end(run) + 1, None)
        return lambda run: (time := end(run), time)

    def _in_order(self, spot: PatternSpot, at: int) -> Test:
        """Whether an operand of a Sequence or a Concurrent ends as it should, for every member of an `all`."""
        if spot.operator not in ("Sequence", "Concurrent") or at == 0:
            return always
        one, other = spot.spots[at - 1], spot.spots[at]
        first, second = end_of(one), end_of(other)
        ascend = spot.operator == "Sequence"
        test: Test = lambda run: first(run) < second(run) if ascend else first(run) == second(run)  # noqa: E731
        return self._of_every(test, (one, other))

    def _or(self, spot: PatternSpot) -> Solver:
        """Each operand by itself; the others are absent."""
        ways = []
        for chosen in spot.spots:
            out = [each.number for other in spot.spots if other is not chosen for each in other.all()]
            ways.append((_then(self._solver(chosen, None), self._holds(out)), out))

        def solve(run: DetectionRun, rest: Rest, once: bool) -> bool:
            found = False
            for solver, out in ways:
                for number in out:
                    run.bound[number] = ABSENT
                found = solver(run, rest, once) or found
                for number in out:
                    run.bound[number] = None
                if found and once:
                    break
            return found

        return solve

    def _block(self, spot: PatternSpot) -> Solver:
        """The pattern of a block, in each of its context instances and partitions."""
        inner, number = self._solver(spot.spots[0], None), spot.number
        timed = [each.number for each in spot.spots[0].own() if each.operator in TIMED]

        def solve(run: DetectionRun, rest: Rest, once: bool) -> bool:
            found = False
            for frame in run.frames.get(number, ()):
                run.bound[number] = frame
                run.lists.update(frame.lists)
                run.frames.update(frame.frames)
                for each in timed:
                    run.fires.pop(each, None)
                run.fires.update(frame.fires)
                found = inner(run, rest, once) or found
                if found and once:
                    break
            run.bound[number] = None
            return found

        return solve

    def _not(self, spot: PatternSpot) -> Solver:
        inner = self._solver(spot.spots[0], None)
        return lambda run, rest, once: not inner(run, completed, True) and rest()  # noqa: ARG005

    def _unless(self, spot: PatternSpot) -> Solver:
        first, second = (self._solver(each, None) for each in spot.spots)

        def solve(run: DetectionRun, rest: Rest, once: bool) -> bool:
            return first(run, lambda: not second(run, completed, True) and rest(), once)

        return solve

    def _after(self, spot: PatternSpot) -> Solver:
        """After binds its leaf to each source that is due now."""
        (leaf,) = spot.spots
        number, holds = spot.number, self._holds([leaf.number])

        def solve(run: DetectionRun, rest: Rest, once: bool) -> bool:
            found = False
            run.bound[number] = TICK
            for source in reversed(run.fires.get(number, ())):
                run.bound[leaf.number] = source
                found = (holds(run) and rest()) or found
                if found and once:
                    break
            run.bound[number] = run.bound[leaf.number] = None
            return found

        return solve

    # --- counting ---

    def _counting(self, spot: PatternSpot) -> Solver:
        """Count the matches of each operand by themselves, weighted; then bind all of them, as sets."""
        counters = [self._counter(each) for each in spot.spots]
        wanted, operator, numbers = spot.call.count or 0, spot.operator, [each.number for each in spot.all()][:-1]

        def solve(run: DetectionRun, rest: Rest, once: bool) -> bool:  # noqa: ARG001
            counted = [count(run) for count in counters]
            total = sum(weighted for weighted, _ in counted)
            fits = (
                total == wanted if operator == "Nth" else total >= wanted if operator == "AtLeast" else total < wanted
            )
            if not fits:
                return False
            for _, bind in counted:
                bind(run)
            done = rest()
            for number in numbers:
                run.bound[number] = None
            return done

        return solve

    def _counter(self, operand: PatternSpot) -> Callable[[DetectionRun], tuple[Any, Callable[[DetectionRun], None]]]:
        """The weighted number of matches of a counted operand, and how to bind their events."""
        leaf, number = operand.leaf, operand.number
        weight = 1 if leaf is None or leaf.weight is None else leaf.weight
        if (
            leaf is not None
            and number not in self._homes
            and number not in self._apart
            and not leaf.quantifier.strict
            and leaf.quantifier.most is None
        ):

            def whole(run: DetectionRun) -> None:
                run.bound[number] = CountedEvents(tuple(run.lists[number].all))

            return lambda run: (weight * run.lists[number].all.count, whole)
        solver, leaves = self._solver(operand, None), [each.number for each in operand.leaves()]
        every = [each for each in leaves if each in self._every]
        others = [each.number for each in operand.all() if each.leaf is None]

        def counter(run: DetectionRun) -> tuple[Any, Callable[[DetectionRun], None]]:
            found: list[Binding] = []
            solver(run, keeping(run, found), False)
            count = sum(
                _product(len(all_.events) for each in every if isinstance(all_ := one[each], EveryOne)) for one in found
            )

            def bind(run: DetectionRun) -> None:
                for each in leaves:
                    run.bound[each] = CountedEvents(distinct(event for one in found for event in events_in(one[each])))
                for each in others:
                    run.bound[each] = TICK if any(one[each] not in (None, ABSENT) for one in found) else None

            return weight * count, bind

        return counter


# --- solvers of leaves ---------------------------------------------------------------------------------------------


def _each(number: int, candidates: Callable[[DetectionRun], Iterator[StagedEvent]], holds: Test) -> Solver:
    """Every event that qualifies."""

    def solve(run: DetectionRun, rest: Rest, once: bool) -> bool:
        bound, found = run.bound, False
        for event in candidates(run):
            bound[number] = event
            if holds(run) and rest():
                found = True
                if once:
                    break
        bound[number] = None
        return found

    return solve


def _selected(
    leaf: LeafOperand, number: int, candidates: Callable[[DetectionRun], Iterator[StagedEvent]], holds: Test
) -> Solver:
    """So many of the events that qualify as the quantifier says."""
    how = leaf.quantifier

    def solve(run: DetectionRun, rest: Rest, once: bool) -> bool:
        bound, found = run.bound, 0
        ends: set[int] = set()
        for event in candidates(run):
            if how.most is not None and how.staged and event.end not in ends and len(ends) == how.most:
                break
            bound[number] = event
            if holds(run) and rest():
                found += 1
                ends.add(event.end)
                if once:
                    break
            elif how.strict:
                break
            if how.most is not None and not how.staged and found == how.most:
                break
        bound[number] = None
        return found > 0

    return solve


def _whole_list(number: int, holds: Test) -> Solver:
    """The quantifier `all`."""

    def solve(run: DetectionRun, rest: Rest, once: bool) -> bool:  # noqa: ARG001
        events = tuple(run.lists[number].all)
        if not events:
            return False
        run.bound[number] = EveryOne(events)
        done = holds(run) and rest()
        run.bound[number] = None
        return done

    return solve


def _one_more(time: Value, *, strictly: bool) -> Value:
    """The earliest end that a bound allows; None: it says nothing."""

    def least(run: DetectionRun) -> int | None:
        found = time(run)
        return None if found is None or found is ABSENT else int(found) + strictly

    return least


# --- small solvers -------------------------------------------------------------------------------------------------


def _tick(number: int) -> Solver:
    def solve(run: DetectionRun, rest: Rest, once: bool) -> bool:  # noqa: ARG001
        if number not in run.fires:
            return False
        run.bound[number] = TICK
        done = rest()
        run.bound[number] = None
        return done

    return solve


def _link(solver: Solver, fits: Test, after: Solver) -> Solver:
    return lambda run, rest, once: solver(run, lambda: fits(run) and after(run, rest, once), once)


def _then(solver: Solver, holds: Test) -> Solver:
    return lambda run, rest, once: solver(run, lambda: holds(run) and rest(), once)


def _finally(spot: PatternSpot, solver: Solver) -> Solver:
    """Only when the context ends in which the spot stands."""
    context = context_of(spot)
    return lambda run, rest, once: context(run).final and solver(run, rest, once)


def _all_of(tests: list[Test]) -> Test:
    if not tests:
        return always
    if len(tests) == 1:
        return tests[0]
    return lambda run: all(test(run) for test in tests)


def _product(numbers: Iterable[int]) -> int:
    total = 1
    for number in numbers:
        total *= number
    return total
