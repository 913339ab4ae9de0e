"""Consumption as a rule over the events of a key: what waits, and what an event makes of it, for every mode.

A state has a list for each step that can wait. In a SEQ it has the prefixes that end there, in an AND the events that
stand there. A prefix is [first start, last end, its event numbers, first end]; what continuous keeps, and the members
of a set, is said where they are made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, TypeAlias

from tocsin.codec import Scalar, as_shape
from tocsin.engine.evaluate import Row, evaluate
from tocsin.events import BEGINNING
from tocsin.functions import Function
from tocsin.order.keyed_events import NumberedEvent
from tocsin.order.keyed_process import Answer, EventRule, kinds_of
from tocsin.plan.block import Plan
from tocsin.plan.expr import Agg, Col, Time
from tocsin.schema import Kind, fits
from tocsin.select.standing import Standing

State: TypeAlias = list[list[list[Any]]]
# What stands in a list of a state: start, end, numbers of events, and what the rule needs beside them.
Prefix: TypeAlias = tuple[int, int, list[int], int]
Reaching: TypeAlias = tuple[int, int, list[int], int, int, int]
Member: TypeAlias = tuple[int, int, list[int], list[Scalar]]
Match: TypeAlias = Sequence[int | tuple[int, ...]]  # for each step its event, or the events of its set


def rule_of(plan: Plan, functions: Mapping[str, Function]) -> ConsumptionRule:
    """The rule of a query with a mode."""
    assert plan.consume is not None
    shape, mode = plan.consume.shape, plan.consume.mode
    if shape == "or" or (shape == "seq" and len(plan.consume.steps) == 1):
        return EachEvent(plan, functions)
    if shape == "and":
        return GatheringRule(plan, functions)
    kinds = {"cumulative": Accumulating, "continuous": Combining}
    return kinds.get(mode, Extending)(plan, functions)


class ConsumptionRule(EventRule):
    """What all modes share: who stands for what, the window, and how a match becomes an answer."""

    ranked = True

    def __init__(self, plan: Plan, functions: Mapping[str, Function]) -> None:
        consume = plan.consume
        assert consume is not None
        self.plan, self.consume, self.mode = plan, consume, consume.mode
        self.last = len(consume.steps)
        self.standing = Standing(plan, functions)
        self._functions = functions

    def begin(self) -> State:
        return [[] for _ in range(self.last - (self.consume.shape == "seq"))]

    def rank(self, event: NumberedEvent) -> int:
        """Of events of one end, later steps come first, and those that only forbid last."""
        return -(self.standing.bits(event) & self.standing.steps).bit_length()

    def can(self, bits: int) -> list[int]:
        """The steps among some bits, counted from 1, the last one first."""
        return [step for step in range(self.last, 0, -1) if bits >> (step - 1) & 1]

    def gaps(self, bits: int) -> set[int]:
        """How many steps stand before the negated leaves among some bits."""
        absent = self.consume.absent
        return {gap for at, (_, gap) in enumerate(absent) if bits >> (self.last + at) & 1}

    def step(self, state: State, event: NumberedEvent) -> tuple[State, Sequence[Answer]]:
        bits = self.standing.bits(event)
        if not bits:
            return state, ()
        if bits >> (self.last + len(self.consume.absent)):
            return self.interrupted(state, event.start), ()
        state, matches = self.taken([list(waiting) for waiting in self.forget(state, event.end - 1)], event, bits)
        return state, [self.answer(match) for match in matches]

    def taken(self, state: State, event: NumberedEvent, bits: int) -> tuple[State, list[Match]]:
        """The state after an event, and the matches that it completes; the lists of `state` may be changed."""
        raise NotImplementedError

    def answer(self, match: Match) -> Answer:
        events: list[int | tuple[int, ...] | None] = [None] * len(self.plan.variables)
        for place, part in zip(self.consume.places, match, strict=True):
            events[place] = part if part != () else None
        return Answer(tuple(events))

    def interrupted(self, state: State, start: int) -> State:
        """The state without what began before an event that must not come between (CONTINUITY)."""
        return [[each for each in waiting if each[3] >= start] for waiting in state]

    # --- the window ---

    def fits_alone(self, event: NumberedEvent) -> bool:
        return self.plan.within is None or event.end - event.start <= self.plan.within

    def exceeds(self, start: int, event: NumberedEvent) -> bool:
        """Whether a match from `start` to an event is longer than the lower end of its window."""
        return self.consume.exceeds is None or event.end - start > self.consume.exceeds

    def forget(self, state: State, until: int) -> State:
        """Prefixes whose window no later event can be in are dropped."""
        width = self.plan.within
        if width is None:
            return state
        return [[each for each in waiting if each[0] + width > until] for waiting in state]

    def uses(self, state: State) -> Iterable[int]:
        return (number for waiting in state for each in waiting for number in each[2])

    def check(self, state: Any) -> None:
        self._check(state, self.begin(), Prefix)
        for at, waiting in enumerate(state, 1):
            for _, _, numbers, _ in waiting:
                expect(len(numbers) == at)

    def _check(self, state: Any, begin: State, entry: Any) -> None:
        """Refuse what does not have as many lists as the state of the beginning, of such entries."""
        expect(len(as_shape(list[list[entry]], state)) == len(begin))


class EachEvent(ConsumptionRule):
    """One step, or an OR: each event is a match by itself, and nothing waits."""

    def begin(self) -> State:
        return []

    def taken(self, state: State, event: NumberedEvent, bits: int) -> tuple[State, list[Match]]:
        can = self.can(bits)
        if not can or not self.fits_alone(event) or not self.exceeds(event.start, event):
            return state, []
        match: Match = [event.number if step == can[0] else () for step in range(1, self.last + 1)]
        return state, [match]


class Extending(ConsumptionRule):
    """SEQ in the modes first, recent, latest and chronicle: an event takes one prefix of each length, at most."""

    def taken(self, state: State, event: NumberedEvent, bits: int) -> tuple[State, list[Match]]:
        can = self.can(bits)
        taken, matches = self._extend(state, event, can)
        for gap in self.gaps(bits):
            state[gap - 1] = [each for each in state[gap - 1] if each[1] >= event.start]
        begins = self.mode != "first" or not any(state)
        if (not taken or self.mode == "latest") and begins and 1 in can and self.fits_alone(event):
            prefix = [event.start, event.end, [event.number], event.end]
            state[0] = [*state[0], prefix] if self.mode == "chronicle" else [prefix]
        return state, matches

    def _extend(self, state: State, event: NumberedEvent, can: list[int]) -> tuple[bool, list[Match]]:
        """Let an event take the last step that it can, or all of them (latest)."""
        matches: list[Match] = []
        taken = False
        for step in can:
            if step == 1 or (taken and self.mode != "latest"):
                break
            waiting = state[step - 2]
            at = self._oldest(waiting, step, event)
            if at is None:
                continue
            taken = True
            start, _, numbers, first_end = waiting[at]
            if self.mode in ("first", "chronicle", "latest"):
                state[step - 2] = [*waiting[:at], *waiting[at + 1 :]]
            if step == self.last:
                matches.append([*numbers, event.number])
                self._use_up(state, numbers)
                continue
            prefix = [start, event.end, [*numbers, event.number], first_end]
            state[step - 1] = [*state[step - 1], prefix] if self.mode == "chronicle" else [prefix]
        return taken, matches

    def _oldest(self, waiting: list[list[Any]], step: int, event: NumberedEvent) -> int | None:
        """Where the oldest prefix stands that an event extends by a step."""
        for at, (start, end, *_) in enumerate(waiting):
            if end >= event.start:
                return None  # they stand in the order of their ends
            if step < self.last or self.exceeds(start, event):
                return at
        return None

    def _use_up(self, state: State, numbers: list[int]) -> None:
        """The recent modes: what shares an event with a match goes; Snoop keeps the event that began it."""
        if self.mode not in ("recent", "snoop_recent"):
            return
        for at in range(1 if self.mode == "snoop_recent" else 0, len(state)):
            state[at] = [each for each in state[at] if not set(each[2]) & set(numbers)]


class Combining(ConsumptionRule):
    """SEQ, continuous: an event stands behind a range of those of the step before, and combinations are made late.

    An entry is [latest first start, end, [number], start, low, high]: the entries from low to high of the step before
    it are those that it extends. Numbers of entries count on when old ones are dropped: the last list of the state
    holds, for each step, how many were dropped and from which entry on they can be extended.
    """

    def begin(self) -> State:
        return [*([] for _ in range(self.last - 1)), [[0, 0] for _ in range(self.last - 1)]]

    def check(self, state: Any) -> None:
        *levels, marks = state
        self._check(levels, self.begin()[:-1], Reaching)
        before = (0, 0)  # from which entry on, and up to which, those of the step before are there
        for waiting, (dropped, alive) in zip(levels, as_shape(list[tuple[int, int]], marks), strict=True):
            expect(0 <= dropped <= alive <= dropped + len(waiting))
            for _, _, numbers, _, low, high in waiting:
                expect(len(numbers) == 1 and 0 <= low <= high <= before[1])
            before = (dropped, dropped + len(waiting))

    def forget(self, state: State, until: int) -> State:
        width = self.plan.within
        if width is None:
            return state
        *levels, marks = state
        kept, moved = [], []
        for waiting, (dropped, alive) in zip(levels, marks, strict=True):
            gone = 0
            while gone < len(waiting) and waiting[gone][0] + width <= until:
                gone += 1
            kept.append(waiting[gone:])
            moved.append([dropped + gone, max(alive, dropped + gone)])
        return self.begin() if not any(kept) else [*kept, moved]

    def uses(self, state: State) -> Iterable[int]:
        return (number for waiting in state[:-1] for each in waiting for number in each[2])

    def taken(self, state: State, event: NumberedEvent, bits: int) -> tuple[State, list[Match]]:
        can = self.can(bits)
        for step in can:
            if step == 1:
                break
            found = self._behind(state, step, event)
            if found is None:
                continue
            if step == self.last:
                chains = list(self._chains(state, step - 1, found[1], found[2], event))
                if not chains:
                    continue
                return self.begin(), [[*numbers, event.number] for numbers in chains]
            state[step - 1].append([found[0], event.end, [event.number], event.start, *found[1:]])
            self._forbid(state, bits, event)
            return state, []
        self._forbid(state, bits, event)
        if 1 in can and self.fits_alone(event):
            state[0].append([event.start, event.end, [event.number], event.start, 0, 0])
        elif self.last in can:
            return self.begin(), []
        return state, []

    def _behind(self, state: State, step: int, event: NumberedEvent) -> tuple[int, int, int] | None:
        """The entries of the step before that an event extends: their latest first start, and from where to where."""
        waiting, (dropped, alive) = state[step - 2], state[-1][step - 2]
        high = dropped + len(waiting)
        while high > alive and waiting[high - 1 - dropped][1] >= event.start:
            high -= 1
        starts = [each[0] for each in waiting[alive - dropped : high - dropped] if each[0] > BEGINNING]
        if not starts or not self._in_window(max(starts), event):
            return None
        return max(starts), alive, high

    def _in_window(self, start: int, event: NumberedEvent) -> bool:
        return self.plan.within is None or event.end - start <= self.plan.within

    def _forbid(self, state: State, bits: int, event: NumberedEvent) -> None:
        """Entries of the step before a gap that end before the event starts are not extended any more."""
        marks = [list(each) for each in state[-1]]
        for gap in self.gaps(bits):
            dropped, alive = marks[gap - 1]
            waiting = state[gap - 1]
            while alive < dropped + len(waiting) and waiting[alive - dropped][1] < event.start:
                alive += 1
            marks[gap - 1][1] = alive
        state[-1] = marks

    def interrupted(self, state: State, start: int) -> State:
        """An entry that no combination leads to any more has no first start."""
        *levels, marks = state
        kept: State = []
        for level, waiting in enumerate(levels):
            ours = []
            for each in waiting:
                if level == 0:
                    left = each[0] if each[1] >= start else BEGINNING
                else:
                    dropped = marks[level - 1][0]
                    before = kept[level - 1][max(0, each[4] - dropped) : max(0, each[5] - dropped)]
                    left = max((other[0] for other in before), default=BEGINNING)
                ours.append([left, *each[1:]])
            kept.append(ours)
        return [*kept, marks] if any(each[0] > BEGINNING for ours in kept for each in ours) else self.begin()

    def _chains(self, state: State, step: int, low: int, high: int, event: NumberedEvent) -> Iterator[list[int]]:
        """The events of every combination that ends with one of some entries, and is in the window of an event."""
        waiting, (dropped, _) = state[step - 1], state[-1][step - 1]
        for at in range(max(low, dropped), high):
            start, _, (number,), _, before, behind = waiting[at - dropped]
            if start == BEGINNING or not self._in_window(start, event):
                continue
            if step == 1:
                if self.exceeds(start, event):
                    yield [number]
                continue
            for numbers in self._chains(state, step - 1, before, behind, event):
                yield [*numbers, number]


class SetRule(ConsumptionRule):
    """The mode cumulative: a member of a set is [start, end, [number], values of the attributes that are asked for]."""

    def member(self, event: NumberedEvent) -> list[Any]:
        values = [event.values.get(attr) for attr in self.consume.attrs]
        return [event.start, event.end, [event.number], values]

    def check(self, state: Any) -> None:
        self._check(state, self.begin(), Member)
        kinds = [kinds_of(self.plan, attr) for attr in self.consume.attrs]
        for waiting in state:
            for _, _, numbers, values in waiting:
                expect(len(numbers) == 1)
                pairs = zip(values, kinds, strict=True)
                expect(all(any(fits(kind, value) for kind in mine) or value is None for value, mine in pairs))

    def forget(self, state: State, until: int) -> State:
        """All sets go together."""
        width = self.plan.within
        starts = [each[0] for waiting in state for each in waiting]
        return self.begin() if width is not None and starts and min(starts) + width <= until else state

    def interrupted(self, state: State, start: int) -> State:
        """All sets go together."""
        ends = [each[1] for waiting in state for each in waiting]
        return self.begin() if ends and min(ends) < start else state

    def holds(self, sets: State) -> bool:
        """Whether the conditions over sets are TRUE of what would be a match."""
        if self.consume.exceeds is not None:
            times = [(each[0], each[1]) for members in sets for each in members]
            if max(end for _, end in times) - min(start for start, _ in times) <= self.consume.exceeds:
                return False
        row = _SetsRow(self, sets)
        return all(evaluate(expr, row, self._functions) is True for expr in self.consume.having)

    def match_of(self, sets: State) -> Match:
        numbers = [tuple(each[2][0] for each in members) for members in sets]
        return [several if step in self.consume.sets else several[0] for step, several in enumerate(numbers)]


class Accumulating(SetRule):
    """SEQ, cumulative: one run, whose steps so far are sets."""

    def taken(self, state: State, event: NumberedEvent, bits: int) -> tuple[State, list[Match]]:
        can = self.can(bits)
        run = sum(map(bool, state))
        ready = run > 0 and max(each[1] for each in state[run - 1]) < event.start
        if ready and run + 1 in can:
            if run + 1 < self.last:
                state[run] = [self.member(event)]
                return state, []
            whole = [*state, [self.member(event)]]
            if self.holds(whole):
                return self.begin(), [self.match_of(whole)]
        behind = run < 2 or max(each[1] for each in state[run - 2]) < event.start
        if run and run in can and behind and self.fits_alone(event):
            state[run - 1] = [*state[run - 1], self.member(event)]
            return state, []
        if ready and run in self.gaps(bits):
            state, run = self.begin(), 0
        if not run and 1 in can and self.fits_alone(event):
            state[0] = [self.member(event)]
        return state, []


class GatheringRule(SetRule):
    """AND: events wait at their steps until every step has one."""

    def forget(self, state: State, until: int) -> State:
        """In the modes first and cumulative all that waits is one run; else each event waits by itself."""
        if self.mode in ("first", "cumulative"):
            return SetRule.forget(self, state, until)
        return ConsumptionRule.forget(self, state, until)

    def interrupted(self, state: State, start: int) -> State:
        if self.mode in ("first", "cumulative"):
            return SetRule.interrupted(self, state, start)
        return [[each for each in waiting if each[1] >= start] for waiting in state]

    def taken(self, state: State, event: NumberedEvent, bits: int) -> tuple[State, list[Match]]:
        can = self.can(bits)
        empty = [step for step in can if not state[step - 1]]
        if not can or not self.fits_alone(event) or (self.mode == "first" and not empty):
            return state, []
        step = empty[0] if empty else can[0]
        alone = self.mode in ("recent", "snoop_recent", "latest")
        state[step - 1] = [self.member(event)] if alone else [*state[step - 1], self.member(event)]
        return self._complete(state, event, step) if all(state) else (state, [])

    def _complete(self, state: State, event: NumberedEvent, step: int) -> tuple[State, list[Match]]:
        match self.mode:
            case "chronicle":
                return [waiting[1:] for waiting in state], [[waiting[0][2][0] for waiting in state]]
            case "cumulative":
                return (self.begin(), [self.match_of(state)]) if self.holds(state) else (state, [])
            case "continuous":
                numbers = [[each[2][0] for each in waiting] for waiting in state]
                numbers[step - 1] = [event.number]
                return self.begin(), [list(several) for several in product(*numbers)]
        found: Match = [waiting[0][2][0] for waiting in state]
        return state if self.mode == "snoop_recent" else self.begin(), [found]


class _SetsRow(Row):
    """The sets of a match, seen by the evaluator: leaf numbers are indexes of variables."""

    def __init__(self, rule: SetRule, sets: State) -> None:
        self._rule = rule
        self._sets = dict(zip(rule.consume.places, sets, strict=True))

    def column(self, col: Col) -> Any:
        return _MemberRow(self._rule, self._sets[col.leaf][0]).column(col)

    def time(self, time: Time) -> int:
        members = self._sets[time.leaf]
        ends: list[int] = [each[0 if time.which == "start" else 1] for each in members]
        return min(ends) if time.which == "start" else max(ends)

    def members(self, agg: Agg) -> list[Any]:
        members = self._sets[agg.leaf]
        if agg.arg is None:
            return [True] * len(members)
        return [evaluate(agg.arg, _MemberRow(self._rule, each), self._rule._functions) for each in members]


class _MemberRow(Row):
    """One member of a set."""

    def __init__(self, rule: SetRule, member: list[Any]) -> None:
        self._rule, self._member = rule, member

    def column(self, col: Col) -> Any:
        value = self._member[3][self._rule.consume.attrs.index(col.attr)]
        return bool(value) if value is not None and col.kind is Kind.BOOL else value

    def time(self, time: Time) -> int:
        return int(self._member[0] if time.which == "start" else self._member[1])


def expect(holds: bool) -> None:
    """Refuse a stored state in which something does not hold."""
    if not holds:
        raise ValueError("what waits does not fit together")
