"""Plans by brute force: the meaning of blocks, written down as directly as possible, to judge binder and passes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import pairwise, product
from typing import Any

from tocsin.engine.evaluate import evaluate
from tocsin.events import BEGINNING, END_OF_TIME, Event
from tocsin.plan.block import (
    After,
    Before,
    Block,
    Enclosing,
    End,
    Forbidden,
    From,
    LastEnd,
    Lasting,
    Leading,
    Leaf,
    Plan,
    Scope,
    Taking,
    Until,
    WindowHigh,
    WindowLow,
)
from tocsin.plan.expr import Agg, Bound, Col, Lit, Op, Reach, Ref, Time, User, bare_leaves, walk
from tocsin.schema import TYPE, Kind

Held = dict[int, Any]  # leaf -> (var, event), or a list of events for a repetition


@dataclass
class _Row:
    held: Held
    before: Event | None = None  # the member before the one that is asked

    def column(self, col: Col) -> Any:
        var, event = (col.var, self.before) if col.previous else self.held[col.leaf]
        known = event.type if col.attr == TYPE else event.attrs.get(col.attr)
        value = known if var == col.var else None
        return int(value.scaleb(col.scale)) if isinstance(value, Decimal) else value

    def time(self, time: Time) -> int | None:
        held = self.held[time.leaf]
        if isinstance(held, list):
            return min(e.start for e in held) if time.which == "start" else max(e.end for e in held)
        return getattr(held[1], time.which) if time.var in (None, held[0]) else None

    def event(self, ref: Ref) -> Any:
        var, event = self.held[ref.leaf]
        return id(event) if var == ref.var else None

    def members(self, agg: Agg) -> list[Any]:
        found = []
        for event in self.held[agg.leaf]:
            var = next((n.var for n in walk(agg.arg) if isinstance(n, Col | Ref)), "") if agg.arg else ""
            row = _Row({**self.held, agg.leaf: (var, event)})
            found.append(event if agg.arg is None else evaluate(agg.arg, row, {}))
        return found


def _true(expr: Bound, held: Held) -> bool:
    return _value(expr, held) is True


def _value(expr: Bound, held: Held) -> Any:
    if any(isinstance(node, Reach) for node in walk(expr)):
        return _spans(expr, held)
    return evaluate(_with_steps(expr, held), _Row(held), {})


def _with_steps(expr: Bound, held: Held) -> Bound:
    """The expression, in which every condition on a member and the one before it is decided."""
    match expr:
        case Agg("steps", leaf, arg):
            assert arg is not None
            of_members = (node.var for node in walk(arg) if isinstance(node, Col | Ref) and node.leaf == leaf)
            var = next(of_members, "")  # none: the condition is known without looking at members
            pairs = pairwise(held[leaf])
            rows = (_Row({**held, leaf: (var, event)}, before) for before, event in pairs)
            return Lit(all(evaluate(arg, row, {}) is True for row in rows), Kind.BOOL)
        case Op(_, args) | User(_, args):
            return replace(expr, args=tuple(_with_steps(arg, held) for arg in args))
    return expr


def _spans(expr: Any, held: Held) -> Any:
    """Comparisons of spans: never null."""
    match expr:
        case Reach(ids, which):
            ends = [getattr(event, which) for event in _events({leaf: held[leaf] for leaf in ids})]
            return min(ends) if which == "start" else max(ends)
        case Time(leaf, which):
            return getattr(held[leaf][1], which)
    if not hasattr(expr, "op"):
        return expr.value
    args = [_spans(arg, held) for arg in expr.args]
    if expr.op in ("and", "or"):
        return all(args) if expr.op == "and" else any(args)
    x, y = args
    return {"+": x + y, "-": x - y, "<=": x <= y, "<": x < y, ">": x > y, ">=": x >= y, "=": x == y}[expr.op]


class Naive:
    def __init__(self, plan: Plan, events: list[Event]) -> None:
        self.plan, self.events = plan, events
        self.key = dict(plan.key)

    def matches(self) -> set[tuple[str | None, tuple[tuple[str, tuple[Any, ...]], ...]]]:
        """The step that did not come (None for a match), and what is bound."""
        found = set()
        order = {variable.name: n for n, variable in enumerate(self.plan.variables)}
        hidden = {variable.name for variable in self.plan.variables if variable.hidden}
        for block in self.plan.alternatives:
            for held in self.block(block, {}, None):
                named = {}
                for leaf in block.leaves:
                    value = held[leaf.id]
                    if isinstance(value, list):
                        named[leaf.alts[0].var] = tuple(event.eid for event in value)
                    else:
                        named[value[0]] = (value[1].eid,)
                shown = [(var, eids) for var, eids in named.items() if var in order and var not in hidden]
                found.add((block.missing, tuple(sorted(shown, key=lambda pair: order[pair[0]]))))
        return found

    def candidates(self, leaf: Leaf) -> list[tuple[str, Event]]:
        return [
            (alt.var, event)
            for alt in leaf.alts
            for event in self.events
            if self.plan.schema.takes(alt.type, event.type)
            and all(_true(test, {leaf.id: (alt.var, event)}) for test in alt.where)
        ]

    def block(self, block: Block, outer: Held, scope: tuple[int, int] | None) -> Iterator[Held]:
        fixed = [leaf.id for leaf in block.fixed]
        assert sorted(block.nest) == sorted(fixed)
        for chosen in product(*(self.candidates(leaf) for leaf in block.fixed)):
            own: Held = dict(zip(fixed, chosen, strict=True))
            events = [event for _, event in chosen]
            if len({id(event) for event in events}) < len(events) or not self.in_order(block, own):
                continue
            if scope and not all(scope[0] <= e.start and e.end <= scope[1] for e in events):
                continue
            held = {**outer, **own}
            if not self.same_key(held, fixed, outer) or not self.repetitions(block, held, own, scope):
                continue
            everything = _events(own)
            if scope is None and self.plan.within is not None and _span(everything) > self.plan.within:
                continue
            once = [p for p in block.predicates if not bare_leaves(p) & {leaf.id for leaf in block.repeated}]
            if not all(_true(p, held) for p in once):
                continue
            if not any(self.violated(f.block, f.scope, held, everything, scope) for f in block.negations):
                yield held

    def in_order(self, block: Block, own: Held) -> bool:
        for entry in block.order:
            left = getattr(own[entry.left.leaf][1], entry.left.which)
            right = getattr(own[entry.right.leaf][1], entry.right.which)
            if left > right or (entry.strict and left == right):
                return False
        return True

    def same_key(self, held: Held, new: list[int], outer: Held) -> bool:
        """Every covered leaf has the same key, and none of it is null."""
        keys = {self.key_of(leaf, held[leaf]) for leaf in (*new, *outer) if leaf in self.key and leaf in held}
        return not keys or (len(keys) == 1 and None not in next(iter(keys)))

    def key_of(self, leaf: int, value: Any) -> tuple[Any, ...]:
        event = value[0] if isinstance(value, list) else value[1]
        return tuple(event.attrs.get(attr) for attr in self.key[leaf])

    def repetitions(self, block: Block, held: Held, own: Held, scope: tuple[int, int] | None) -> bool:
        for id, where in block.scopes:  # each after those it needs
            leaf = block.leaf(id)
            assert leaf.repeat is not None
            assert not any(
                other not in held for end in (where.low, where.high) if isinstance(end, After | Before)
                for other in end.leaves
            )  # fmt: skip
            low, high = self.range(where, held, _events(own), scope)
            taking = leaf.taking or Taking()
            head, last = (own[at][1] if at is not None else None for at in (taking.head, taking.last))
            for part in block.forbidden:
                if part.ends == id:
                    gap = self.range(part.scope, held, _events(own), scope)
                    ending = list(self.single(part, held, gap))
                    ends_itself = self.single(part, held, (head.start, head.end)) if head is not None else ()
                    if any(event is head for event in ends_itself):
                        return False
                    high = min([high, *(event.start - 1 for event in ending)])
            takings = [each.taking for each in block.repeated if each.taking is not None]
            sought = {taking.head, *(each.last for each in takings if each.last != each.head)}
            taken = [own[fixed.id][1] for fixed in block.fixed if fixed.id not in sought]  # by other variables
            tests = [p for p in block.predicates if id in bare_leaves(p)]
            members = []
            for var, event in self.candidates(leaf):
                mine = {**held, id: (var, event)}
                inside = event is head or (low <= event.start and event.end <= high)
                free = not any(event is e for e in taken)
                if inside and free and all(_true(p, mine) for p in tests) and self.same_key(mine, [id], held):
                    members.append(event)
            members.sort(key=Event.order)
            if leaf.taking is not None:
                breaks = [part for part in block.forbidden if part.breaks == id]
                members = self.cut(leaf, members, head, last, low, breaks, held)
            if len(members) < leaf.repeat.least or (leaf.repeat.most is not None and len(members) > leaf.repeat.most):
                return False
            held[id] = own[id] = members
        return True

    def cut(
        self, leaf: Leaf, qualifying: list[Event], head: Event | None, last: Event | None, low: int,
        breaks: list[Forbidden], held: Held,
    ) -> list[Event]:  # fmt: skip
        """The members that a mark makes of the qualifying events; none if the first or the last is another."""
        assert leaf.taking is not None and leaf.repeat is not None
        if head is not None and qualifying[:1] != [head]:
            return []
        if leaf.taking.cut == "last" and leaf.repeat.most is not None:
            qualifying = qualifying[-leaf.repeat.most :]
        members: list[Event] = []
        for event in qualifying:
            gap = max([e.end for e in members] or [low - 1]) + 1, event.start - 1
            mine = {**held, leaf.id: (leaf.alts[0].var, event)}
            if (members or head is None) and any(self.lies_in(part, mine, gap) for part in breaks):
                break
            members.append(event)
            if event is last or (leaf.taking.cut == "first" and len(members) == leaf.repeat.most):
                break
        return members if last is None or last in members else []

    def lies_in(self, part: Forbidden, held: Held, gap: tuple[int, int]) -> bool:
        return next(self.block(part.block, held, gap), None) is not None

    def single(self, part: Forbidden, held: Held, gap: tuple[int, int]) -> Iterator[Event]:
        """The events of a block of one leaf in a gap."""
        (leaf,) = part.block.leaves
        return (found[leaf.id][1] for found in self.block(part.block, held, gap))

    def range(self, scope: Scope, held: Held, events: list[Event], around: tuple[int, int] | None) -> tuple[int, int]:
        return self.end(scope.low, held, events, around, 0), self.end(scope.high, held, events, around, 1)

    def end(self, end: End, held: Held, events: list[Event], around: tuple[int, int] | None, side: int) -> int:
        window = self.plan.within
        match end:
            case After(ids, by) | Lasting(ids, by):
                return max(e.end for e in _events({leaf: held[leaf] for leaf in ids})) + by
            case Leading(ids, by):
                return min(e.start for e in _events({leaf: held[leaf] for leaf in ids})) - by
            case Before(ids):
                return min(e.start for e in _events({leaf: held[leaf] for leaf in ids})) - 1
            case Enclosing():
                assert around is not None
                return around[side]
            case WindowLow():
                return BEGINNING if window is None else max(e.end for e in events) - window
            case WindowHigh():
                return END_OF_TIME if window is None else min(e.start for e in events) + window
            case LastEnd():
                return max(e.end for e in events)
            case From(leaf):
                return held[leaf][1].end + 1
            case Until(leaf):
                return held[leaf][1].end
        raise AssertionError(end)

    def violated(
        self, block: Block, scope: Scope, held: Held, events: list[Event], around: tuple[int, int] | None
    ) -> bool:
        return next(self.block(block, held, self.range(scope, held, events, around)), None) is not None


def _events(held: Held) -> list[Event]:
    return [e for value in held.values() for e in (value if isinstance(value, list) else [value[1]])]


def _span(events: list[Event]) -> int:
    return max(e.end for e in events) - min(e.start for e in events)


def naive_matches(plan: Plan, events: list[Event]) -> set[Any]:
    return Naive(plan, events).matches()
