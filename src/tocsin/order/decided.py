"""Decided: whether a binding is a match whatever the ends of its open intervals are, as far as they are known.

An open interval has begun and not ended: its end lies between two ticks, which guarantees and the window give. All that
a block asks of it compares points in time, so what is asked changes at few ends only: those at which a comparison
turns. To be TRUE for every end is to be TRUE at these, at the ticks beside them, and at the first and the last one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import Any, TypeAlias

from tocsin.engine.debt import scopes_of
from tocsin.engine.evaluate import Row, evaluate
from tocsin.events import BEGINNING, END_OF_TIME
from tocsin.functions import Function
from tocsin.plan.block import (
    After,
    Before,
    Block,
    Enclosing,
    End,
    Forbidden,
    LastEnd,
    Lasting,
    Leading,
    Plan,
    Point,
    Scope,
    WindowHigh,
    WindowLow,
)
from tocsin.plan.expr import Bound, Col, Lit, Op, Reach, Ref, Time, below, leaves, walk
from tocsin.plan.rewrite import blocks_below
from tocsin.schema import TYPE, Kind

MOST_OPEN = 3  # open intervals of one binding; with more of them nothing is decided
MOST_POINTS = 20_000  # ends that are tried for one binding
CONNECTIVES = ("and", "or", "not")
COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")


@dataclass(slots=True, eq=False)
class EventSoFar:
    """An event, or an interval that has begun (`end` is None), with what is known of its attributes."""

    number: int
    name: tuple[int, int]
    type: str
    start: int
    end: int | None
    values: Mapping[str, Any]


Held: TypeAlias = dict[int, tuple[str, EventSoFar]]  # by leaf the variable and its event
Ends: TypeAlias = dict[int, int]  # by leaf the end of its open interval
Span: TypeAlias = tuple[int, int]
Candidates: TypeAlias = Callable[[int, tuple[Any, ...]], Iterable[tuple[str, EventSoFar]]]  # of a leaf, with a key


@dataclass(frozen=True, slots=True)
class Outlook:
    """What trying the ends of a binding has shown.

    decided   it is a match, wherever its open intervals end
    fails_at  otherwise: the last end that was tried and is no match; None: nothing is known of single ends
    never     it is no match for the last possible end, which stays possible: it is not decided before its match
    """

    decided: bool
    fails_at: int | None = None
    never: bool = False


class EndsToTry:
    """Judges the bindings of one block, by trying the ends that their open intervals can have."""

    def __init__(self, block: Block, plan: Plan, functions: Mapping[str, Function], candidates: Candidates) -> None:
        self.block, self._plan, self._functions, self._candidates = block, plan, functions, candidates
        self._keys = dict(plan.key)
        self.timed = tuple(each for each in block.predicates if _asks_ends(each))
        self.plain = tuple((each, leaves(each)) for each in block.predicates if not _asks_ends(each))
        self.ending = {
            (leaf.id, alt.var): tuple(test for test in alt.where if _asks_ends(test))
            for leaf in block.fixed
            for alt in leaf.alts
        }
        self.mentioned = {leaf.id: frozenset(_mentioned(block, leaf.id)) for leaf in block.fixed}
        self._inside = [each for part in block.forbidden for one in blocks_below(part.block) for each in _asked(one)]

    # --- one binding ---------------------------------------------------------------------------------------------

    def outlook(self, held: Held, ranges: Mapping[int, Span]) -> Outlook:
        """Whether a binding is a match for all ends in the ranges of its open leaves."""
        if any(low > high for low, high in ranges.values()):
            return Outlook(False, never=True)
        asked = (*self.timed, *(test for leaf in ranges for test in self.ending[leaf, held[leaf][0]]))
        if len(ranges) > MOST_OPEN or self._is_opaque(asked, ranges):
            return Outlook(False)
        points = self._points(asked, held, ranges)
        total = 1
        for several in points.values():
            total *= len(several)
        if total > MOST_POINTS:
            return Outlook(False)
        alone = next(iter(ranges)) if len(ranges) == 1 else None
        for chosen in product(*(sorted(several, reverse=True) for several in points.values())):
            ends = dict(zip(points, chosen, strict=True))
            if not self.holds(held, ends):
                if alone is None:
                    return Outlook(False)
                return Outlook(False, ends[alone], never=ends[alone] == ranges[alone][1])
        return Outlook(True)

    def holds(self, held: Held, ends: Ends) -> bool:
        """Whether a binding is a match, if its open intervals end so."""
        for entry in self.block.order:
            left, right = (_time(held, ends, each.leaf, each.which) for each in (entry.left, entry.right))
            if left > right or (entry.strict and left == right):
                return False
        row = _Row(held, ends)
        own = (test for leaf in ends for test in self.ending[leaf, held[leaf][0]])
        if not all(self._true(each, row) for each in (*self.timed, *own)):
            return False
        spans = _spans(held, ends)
        return not any(self._violated(part, held, ends, spans, None) for part in self.block.negations)

    def _true(self, expr: Bound, row: _Row) -> bool:
        return evaluate(_grounded(expr, row), row, self._functions) is True

    def fits(self, held: Held) -> bool:
        """Test a partial binding: the order of starts, and the conditions on bound leaves that ask for no ends."""
        row = _Row(held, {})
        bound = held.keys()
        for entry in self.block.order:
            if entry.left.leaf in bound and entry.right.leaf in bound:
                left, right = (_earliest(held, each.leaf, each.which) for each in (entry.left, entry.right))
                if held[entry.right.leaf][1].end is None and entry.right.which == "end":
                    continue
                if left > right or (entry.strict and left == right):
                    return False
        return all(self._true(each, row) for each, mine in self.plain if mine <= bound)

    # --- the ends at which something may turn --------------------------------------------------------------------

    def _is_opaque(self, asked: Iterable[Bound], ranges: Mapping[int, Span]) -> bool:
        """Whether a condition uses an open end otherwise than in comparisons of sums and differences."""
        inside = any(_ends_in(each) & ranges.keys() for each in self._inside)
        return inside or any(_ends_in(each) & ranges.keys() and not _is_linear(each) for each in asked)

    def _points(self, asked: Iterable[Bound], held: Held, ranges: Mapping[int, Span]) -> dict[int, set[int]]:
        points = {leaf: {low, high} for leaf, (low, high) in ranges.items()}
        knots = {time for span in _spans(held, {leaf: low for leaf, (low, _) in ranges.items()}) for time in span}
        for part in self.block.negations:
            knots |= self._knots(part, held)
        turning = [
            node
            for each in asked
            for node in walk(each)
            if isinstance(node, Op) and node.op in COMPARISONS and _ends_in(node) & ranges.keys()
        ]
        for _ in ranges:
            before = {leaf: sorted(several) for leaf, several in points.items()}
            for leaf, (low, high) in ranges.items():
                others = [each for each in ranges if each != leaf]
                for chosen in product(*(before[each] for each in others)):
                    fixed = dict(zip(others, chosen, strict=True))
                    turns = {*knots, *chosen, *self._turns(turning, held, fixed, leaf, (low, high), knots)}
                    points[leaf] |= {
                        time for turn in turns for time in (turn - 1, turn, turn + 1) if low <= time <= high
                    }
                    if len(points[leaf]) > MOST_POINTS:
                        return points
        return points

    def _turns(
        self, comparisons: list[Op], held: Held, fixed: Ends, leaf: int, span: Span, knots: set[int]
    ) -> Iterator[int]:
        """The ends at which a comparison may change its truth. Between two knots, terms are linear in the end."""
        places = sorted({*span, *(knot for knot in knots if span[0] < knot < span[1]), *fixed.values()})
        for node in comparisons:
            values = []
            for place in places:
                row = _Row(held, {**fixed, leaf: place})
                left, right = (evaluate(_grounded(each, row), row, self._functions) for each in node.args)
                values.append(None if left is None or right is None else left - right)
            for (x, a), (y, b) in pairwise(zip(places, values, strict=True)):
                if a is not None and b is not None and a != b:
                    yield x + int(-a * (y - x) // (b - a))
        for entry in self.block.order:
            for here, there in ((entry.left, entry.right), (entry.right, entry.left)):
                if here == Point(leaf, "end") != there:
                    yield _time(held, fixed, there.leaf, there.which)

    def _knots(self, part: Forbidden, held: Held) -> set[int]:
        """Ends at which the scope of a negated part takes in another event, or loses one."""
        width = self._plan.within or 0
        shifts = {0, width, -width}
        for each in (part, *(inner for block in blocks_below(part.block) for inner in block.forbidden)):
            for end in (each.scope.low, each.scope.high):
                if isinstance(end, After | Lasting | Leading):
                    shifts |= {end.by, -end.by}
        times = {
            time
            for block in blocks_below(part.block)
            for leaf in block.leaves
            for _, event in self._candidates(leaf.id, self.key_of(leaf.id, held))
            for time in (event.start, event.end or event.start)
        }
        times |= {time for _, event in held.values() for time in (event.start, event.end or event.start)}
        return {time + shift for time in times for shift in shifts}

    # --- negated parts -------------------------------------------------------------------------------------------

    def _violated(self, part: Forbidden, held: Held, ends: Ends, spans: list[Span], around: Span | None) -> bool:
        low, high = self._scope(part.scope, held, ends, spans, around)
        return next(self._lying(part.block, held, ends, (low, high)), None) is not None

    def _lying(self, block: Block, outer: Held, ends: Ends, scope: Span) -> Iterator[Held]:
        """The matches of a forbidden block in a scope. No open interval stands in one, unless the binding holds it."""
        whole = {held[1].number: replace(held[1], end=ends[leaf]) for leaf, held in outer.items() if leaf in ends}

        def fill(place: int, own: Held) -> Iterator[Held]:
            if place == len(block.leaves):
                yield own
                return
            id = block.leaves[place].id
            for var, known in self._candidates(id, self.key_of(id, outer)):
                event = whole.get(known.number, known)
                free = not any(event is other for _, other in own.values())
                if free and event.end is not None and scope[0] <= event.start and event.end <= scope[1]:
                    yield from fill(place + 1, {**own, id: (var, event)})

        for own in fill(0, {}):
            held = {**outer, **own}
            orders = (
                (_time(held, ends, entry.left.leaf, entry.left.which),
                 _time(held, ends, entry.right.leaf, entry.right.which), entry.strict) for entry in block.order
            )  # fmt: skip
            if any(left > right or (strict and left == right) for left, right, strict in orders):
                continue
            row = _Row(held, ends)
            if not all(self._true(each, row) for each in block.predicates):
                continue
            spans = _spans(own, ends)
            if not any(self._violated(part, held, ends, spans, scope) for part in block.negations):
                yield own

    def key_of(self, leaf: int, held: Held) -> tuple[Any, ...]:
        """The key that an event at a leaf must have, beside those that are bound."""
        mine = self._keys.get(leaf)
        if mine is None:
            return ()
        other = next((each for each in held if each in self._keys), None)
        if other is None:
            return ()
        return tuple(held[other][1].values.get(attr) for attr in self._keys[other])

    def _scope(self, scope: Scope, held: Held, ends: Ends, spans: list[Span], around: Span | None) -> Span:
        return self._end(scope.low, held, ends, spans, around, 0), self._end(scope.high, held, ends, spans, around, 1)

    def _end(self, end: End, held: Held, ends: Ends, spans: list[Span], around: Span | None, side: int) -> int:
        window = self._plan.within
        match end:
            case After(ids, by) | Lasting(ids, by):
                return max(_time(held, ends, leaf, "end") for leaf in ids) + by
            case Leading(ids, by):
                return min(_time(held, ends, leaf, "start") for leaf in ids) - by
            case Before(ids):
                return min(_time(held, ends, leaf, "start") for leaf in ids) - 1
            case Enclosing():
                assert around is not None
                return around[side]
            case WindowLow():
                return BEGINNING if window is None else max(last for _, last in spans) - window
            case WindowHigh():
                return END_OF_TIME if window is None else min(first for first, _ in spans) + window
            case LastEnd():
                return max(last for _, last in spans)
        raise AssertionError(end)

    def owed(self, held: Held, ranges: Mapping[int, Span]) -> dict[str, int]:
        """For each type of a negated part the last tick at which an event of it could still refute a binding."""
        found: dict[str, int] = {}
        lows, highs = ({leaf: span[side] for leaf, span in ranges.items()} for side in (0, 1))
        for scope, several, (before, after) in scopes_of(self.block):
            low = self._end(scope.low, held, lows, _spans(held, lows), None, 0) - before
            high = self._end(scope.high, held, highs, _spans(held, highs), None, 1) + after
            if low <= high:
                for type in {alt.type for leaf in several for alt in leaf.alts}:
                    found[type] = max(high, found.get(type, BEGINNING))
        return found


class _Row(Row):
    """A binding as the evaluator asks it, with ends for its open intervals."""

    def __init__(self, held: Held, ends: Ends) -> None:
        self.held, self.ends = held, ends

    def column(self, col: Col) -> Any:
        var, event = self.held[col.leaf]
        if var != col.var:
            return None
        value = event.values.get(col.attr)
        if value is None and col.attr == TYPE:
            return event.type
        return bool(value) if value is not None and col.kind is Kind.BOOL else value

    def time(self, time: Time) -> int | None:
        var, _ = self.held[time.leaf]
        return _time(self.held, self.ends, time.leaf, time.which) if time.var in (None, var) else None

    def event(self, ref: Ref) -> int | None:
        var, event = self.held[ref.leaf]
        return event.number if var == ref.var else None


def accepts(event: EventSoFar, var: str, leaf: int, tests: Iterable[Bound], functions: Mapping[str, Function]) -> bool:
    """Whether an event may stand at a leaf: all conditions on it alone are TRUE, as far as they can be asked."""
    row = _Row({leaf: (var, event)}, {})
    known = (test for test in tests if event.end is not None or not _asks_ends(test))
    return all(evaluate(_grounded(test, row), row, functions) is True for test in known)


def _time(held: Held, ends: Ends, leaf: int, which: str) -> int:
    event = held[leaf][1]
    if which == "start":
        return event.start
    return ends[leaf] if event.end is None else event.end


def _earliest(held: Held, leaf: int, which: str) -> int:
    """A point in time of an event; of an open interval at least its start."""
    event = held[leaf][1]
    return event.start if which == "start" or event.end is None else event.end


def _spans(held: Held, ends: Ends) -> list[Span]:
    return [(event.start, _time(held, ends, leaf, "end")) for leaf, (_, event) in held.items()]


def _grounded(expr: Bound, row: _Row) -> Bound:
    """The expression, with the first start or last end of several leaves as a number."""
    if not any(isinstance(node, Reach) for node in walk(expr)):
        return expr
    if isinstance(expr, Reach):
        times = [_time(row.held, row.ends, leaf, expr.which) for leaf in expr.leaves]
        return Lit(min(times) if expr.which == "start" else max(times), Kind.INT)
    return replace(expr, args=tuple(_grounded(arg, row) for arg in below(expr)))  # type: ignore[arg-type]


def _ends_in(expr: Bound) -> frozenset[int]:
    """The leaves whose ends an expression asks."""
    found: set[int] = set()
    for node in walk(expr):
        if isinstance(node, Time) and node.which == "end":
            found.add(node.leaf)
        elif isinstance(node, Reach) and node.which == "end":
            found.update(node.leaves)
    return frozenset(found)


def _asks_ends(expr: Bound) -> bool:
    return bool(_ends_in(expr))


def _is_linear(expr: Bound) -> bool:
    """Whether ends occur only in comparisons of sums and differences."""
    if not _asks_ends(expr):
        return True
    if isinstance(expr, Op) and expr.op in CONNECTIVES:
        return all(map(_is_linear, expr.args))
    return isinstance(expr, Op) and expr.op in COMPARISONS and all(map(_is_sum, expr.args))


def _is_sum(expr: Bound) -> bool:
    if not _asks_ends(expr) or isinstance(expr, Time | Reach):
        return True
    return isinstance(expr, Op) and expr.op in ("+", "-", "neg") and all(map(_is_sum, expr.args))


def _asked(block: Block) -> tuple[Bound, ...]:
    return (*block.predicates, *(test for leaf in block.leaves for alt in leaf.alts for test in alt.where))


def _mentioned(block: Block, leaf: int) -> Iterator[str]:
    """The attributes of the event at a leaf that any condition asks."""
    for each in blocks_below(block):
        for expr in _asked(each):
            for node in walk(expr):
                if isinstance(node, Col) and node.leaf == leaf and node.attr != TYPE:
                    yield node.attr
