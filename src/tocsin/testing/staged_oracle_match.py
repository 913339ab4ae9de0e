"""Matches of a staged pattern over the lists of one context: the definition of operators, quantifiers and conditions.

Patterns are solved from left to right. `solve(spot, binding, rest)` tries every way to bind a part of the pattern and
asks `rest` whether the remaining pattern can be completed: an event is selected only if it is part of a whole match.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from tocsin.events import Event
from tocsin.lang.staged_syntax import (
    AttrOf,
    LeafOperand,
    Logical,
    NestedBlock,
    OperatorCall,
    StableTime,
    StagedExpr,
    StagedPattern,
    TimeOf,
    parts,
)
from tocsin.testing.staged_oracle_values import ABSENT, holds


@dataclass(eq=False)
class PatternNode:
    """A leaf, an operator or a block of the pattern; `spots` below it, and its number: operands before their operator.

    block  the innermost block that it stands in
    """

    node: LeafOperand | OperatorCall | NestedBlock
    spots: list[PatternNode]
    number: int
    block: PatternNode | None = None

    @property
    def name(self) -> str | None:
        if isinstance(self.node, NestedBlock):
            return None
        return self.node.called if isinstance(self.node, LeafOperand) else self.node.label

    @property
    def operator(self) -> str | None:
        if isinstance(self.node, NestedBlock):
            return BLOCK
        return None if isinstance(self.node, LeafOperand) else self.node.operator

    def own(self) -> list[PatternNode]:
        """This spot and those below it that are in no block below it."""
        return [spot for spot in self.all() if spot.block is self.block]

    def all(self) -> Iterator[PatternNode]:
        """This spot and all below it, in order."""
        for spot in self.spots:
            yield from spot.all()
        yield self

    def leaves(self) -> list[PatternNode]:
        return [spot for spot in self.all() if isinstance(spot.node, LeafOperand)]


def spots_of(pattern: StagedPattern, counter: list[int] | None = None) -> PatternNode:
    """The pattern as a tree of numbered spots."""
    counter = [0] if counter is None else counter
    inner: tuple[StagedPattern, ...] = pattern.operands if isinstance(pattern, OperatorCall) else ()
    spots = [spots_of(each, counter) for each in ((pattern.pattern,) if isinstance(pattern, NestedBlock) else inner)]
    counter[0] += 1
    found = PatternNode(pattern, spots, counter[0])
    for spot in spots[0].all() if isinstance(pattern, NestedBlock) else ():
        spot.block = spot.block or found
    return found


def is_deferred(spot: PatternNode) -> bool:
    node = spot.node
    return (
        isinstance(node, OperatorCall) and (node.mode or ("deferred" if node.operator == "Not" else "")) == "deferred"
    )


def is_hidden(root: PatternNode, leaf: PatternNode) -> bool:
    """Whether a leaf stands in a negation or a count."""
    hiding = [spot for spot in root.all() if spot.operator in ("Not", "Nth", "AtLeast", "AtMost")]
    hiding += [spot.spots[1] for spot in root.all() if spot.operator == "Unless"]
    return any(leaf in spot.all() for spot in hiding)


@dataclass(frozen=True)
class All:
    """The whole list of an operand with the quantifier `all`: whatever is asked must hold for each of them."""

    events: tuple[Event, ...]


@dataclass(frozen=True)
class Many:
    """The events of a counted operand, as a set."""

    events: tuple[Event, ...]


@dataclass
class OracleFrame:
    """One context instance of a block in one local partition, as a run sees it."""

    opened: int
    final: bool
    lists: Mapping[int, list[Event]]
    fires: Mapping[int, Any]
    blocks: Mapping[int, list[OracleFrame]]
    kept: dict[int, list[Event]]  # the lists, from which consumed events are taken


BLOCK = "block"
TICK = "tick"  # what At and Every bind in their stage
Binding = Mapping[int, Any]  # by the number of a spot: an Event, All, Many, TICK or ABSENT
Rest = Callable[[Binding], bool]


def conjuncts(condition: StagedExpr | None) -> Iterator[StagedExpr]:
    """The operands of the ANDs at the top, as written."""
    if isinstance(condition, Logical) and condition.op == "AND":
        yield from conjuncts(condition.left)
        yield from conjuncts(condition.right)
    elif condition is not None:
        yield condition


@dataclass
class MatchRun:
    """One detection run over the lists of one context and local partition.

    now     the time of the stage; `opened`: of the context
    final   the context ends now, so deferred operators are asked
    lists   by the number of a leaf, what it has collected, in canonical order
    fires   by the number of a timed operator: TICK, or the sources of After that are due now
    sst     the start stable-time of a type
    blocks  by the number of a block, its context instances in all of its partitions
    options of the pattern
    """

    root: PatternNode
    where: StagedExpr | None
    now: int
    opened: int
    final: bool
    lists: Mapping[int, list[Event]]
    fires: Mapping[int, Any] = field(default_factory=dict)
    sst: Callable[[str], int] = lambda _: 0
    blocks: Mapping[int, list[OracleFrame]] = field(default_factory=dict)
    options: tuple[str, ...] = ()

    def matches(self) -> list[Binding]:
        """All matches, in the order in which they are found."""
        self._homes: dict[int, list[StagedExpr]] = {}
        for conjunct in conjuncts(self.where):
            home = max((spot.number for spot in self._mentioned(conjunct)), default=0)
            self._homes.setdefault(home, []).append(conjunct)
        found: list[Binding] = []
        if self._hold([0], {}):
            self.solve(self.root, {}, lambda one: self._is_new(one) and found.append(one) is None)  # type: ignore[func-returns-value]
        return found

    def _is_new(self, binding: Binding) -> bool:
        """`incremental`: something of the match ends now; of the members of an `all`, with each of them."""
        singles = self._singles(self.root.leaves(), binding)
        return "incremental" not in self.options or all(self.end(self.root, one) == self.now for one in singles)

    def _is_apart(self, leaf: PatternNode, binding: Binding) -> bool:
        """`distinct`: no event of a leaf is bound at another leaf."""
        others = [each.number for each in self.root.leaves() if each is not leaf] if "distinct" in self.options else []
        taken = [event for other in others for event in events_in(binding.get(other))]
        return not any(mine is event for mine in events_in(binding.get(leaf.number)) for event in taken)

    # --- the operators ---

    def solve(self, spot: PatternNode, binding: Binding, rest: Rest) -> bool:
        """Extend a binding in every way by a part of the pattern; whether one of them could be completed."""
        if is_deferred(spot) and not self._around(spot, binding).final:
            return False

        def done(extended: Binding) -> bool:
            return self._hold([spot.number], extended) and rest(extended)

        match spot.operator:
            case None:
                return self._leaf(spot, binding, done)
            case "block":
                frames = self._around(spot, binding).blocks.get(spot.number, [])
                ways = [self.solve(spot.spots[0], {**binding, spot.number: frame}, done) for frame in frames]
                return any(ways)
            case "Or":
                return self._or(spot, binding, done)
            case "Not":
                return not self._exists(spot.spots[0], binding) and done(binding)
            case "Unless":
                first, second = spot.spots
                return self.solve(first, binding, lambda one: not self._exists(second, one) and done(one))
            case "At" | "Every":
                return spot.number in self._around(spot, binding).fires and done({**binding, spot.number: TICK})
            case "After":
                return self._after(spot, binding, done)
            case "Nth" | "AtLeast" | "AtMost":
                return self._counting(spot, binding, done)
        return self._chain(spot, 0, binding, done)

    def _around(self, spot: PatternNode, binding: Binding) -> MatchRun | OracleFrame:
        """The context in which a spot stands: that of the innermost block around it."""
        found = None if spot.block is None else binding.get(spot.block.number)
        return found if isinstance(found, OracleFrame) else self

    def _exists(self, spot: PatternNode, binding: Binding) -> bool:
        return self.solve(spot, binding, lambda _: True)

    def _leaf(self, spot: PatternNode, binding: Binding, done: Rest) -> bool:
        """Select from the list of a leaf what completes a match, as its quantifier says."""
        assert isinstance(spot.node, LeafOperand)
        events, how = self._around(spot, binding).lists.get(spot.number, []), spot.node.quantifier
        if how.every:
            whole = {**binding, spot.number: All(tuple(events))}
            return bool(events) and self._is_apart(spot, whole) and done(whole)
        selected: list[Event] = []
        for event in reversed(events) if how.age == "new" else events:
            ends = {each.end for each in selected}
            if how.most is not None and how.staged and event.end not in ends and len(ends) == how.most:
                break
            with_it = {**binding, spot.number: event}
            if self._is_apart(spot, with_it) and done(with_it):
                selected.append(event)
            elif how.strict:
                break
            if how.most is not None and not how.staged and len(selected) == how.most:
                break
        return bool(selected)

    def _chain(self, spot: PatternNode, at: int, binding: Binding, done: Rest) -> bool:
        """Sequence, And, Concurrent, and a leaf in parentheses: one operand after the other."""
        if at == len(spot.spots):
            return done(binding)

        def then(extended: Binding) -> bool:
            fits = at == 0 or self._in_order(spot, spot.spots[at - 1], spot.spots[at], extended)
            return fits and self._chain(spot, at + 1, extended, done)

        return self.solve(spot.spots[at], binding, then)

    def _in_order(self, spot: PatternNode, one: PatternNode, other: PatternNode, binding: Binding) -> bool:
        """Whether two neighbours of a Sequence or a Concurrent end as they should, for every member of an `all`."""
        if spot.operator not in ("Sequence", "Concurrent"):
            return True
        for each in self._singles([*one.leaves(), *other.leaves()], binding):
            first, second = self.end(one, each), self.end(other, each)
            if not (first < second if spot.operator == "Sequence" else first == second):
                return False
        return True

    def _or(self, spot: PatternNode, binding: Binding, done: Rest) -> bool:
        """Each operand by itself; the others are absent. No operand stops the next one."""
        found = False
        for chosen in spot.spots:
            left_out = [each.number for other in spot.spots if other is not chosen for each in other.all()]
            without = {**binding, **dict.fromkeys(left_out, ABSENT)}
            done_here = lambda one, out=tuple(left_out): self._hold(out, one) and done(one)  # noqa: E731
            found |= self.solve(chosen, without, done_here)
        return found

    def _after(self, spot: PatternNode, binding: Binding, done: Rest) -> bool:
        """After binds its leaf to each source that is due now."""
        (leaf,) = spot.spots
        found = False
        for source in reversed(self._around(spot, binding).fires.get(spot.number, ())):
            extended = {**binding, leaf.number: source, spot.number: TICK}
            found |= self._is_apart(leaf, extended) and self._hold([leaf.number], extended) and done(extended)
        return found

    def _counting(self, spot: PatternNode, binding: Binding, done: Rest) -> bool:
        """Count the matches of each operand by themselves, weighted; then bind all of them, as sets."""
        total: Any = 0
        extended = dict(binding)
        for operand in spot.spots:
            found: list[Binding] = []
            self.solve(operand, binding, lambda one, found=found: found.append(one) is None)  # type: ignore[misc]
            weight = getattr(operand.node, "weight", None)
            total += (1 if weight is None else weight) * sum(
                len(list(self._singles(operand.leaves(), one))) for one in found
            )
            for each in operand.all():
                bound = [one[each.number] for one in found if one.get(each.number, ABSENT) is not ABSENT]
                if each in operand.leaves():
                    extended[each.number] = Many(distinct(event for one in bound for event in events_in(one)))
                elif bound:
                    extended[each.number] = TICK
        assert isinstance(spot.node, OperatorCall) and spot.node.count is not None
        wanted = spot.node.count
        fits = {"Nth": total == wanted, "AtLeast": total >= wanted, "AtMost": total < wanted}[spot.operator or ""]
        return fits and done(extended)

    # --- conditions ---

    def _named(self, name: str) -> PatternNode:
        return next(spot for spot in self.root.all() if spot.name == name)

    def _mentioned(self, node: StagedExpr) -> list[PatternNode]:
        """The spots that a condition mentions; sst(X) does not mention X."""
        found = [part for part in parts(node) if isinstance(part, (AttrOf, TimeOf))]
        return [self._named(str(part.name)) for part in found if getattr(part, "which", "") != "sst"]

    def _hold(self, homes: Iterable[int], binding: Binding) -> bool:
        """Whether the conjuncts that are asked at some spots hold, for every member of an `all`."""
        for conjunct in (each for home in homes for each in self._homes.get(home, ())):
            leaves = [leaf for spot in self._mentioned(conjunct) for leaf in spot.leaves()]
            for single in self._singles(leaves, binding):
                if not holds(conjunct, lambda node, single=single: self._looked_up(node, single)):  # type: ignore[misc]
                    return False
        return True

    def _looked_up(self, node: Any, binding: Binding) -> Any:
        if isinstance(node, StableTime):
            return self.now
        if isinstance(node, TimeOf) and node.which == "sst":
            return self.sst(self._named(node.name).node.type)  # type: ignore[union-attr]
        spot = self._named(node.name)
        if binding.get(spot.number) is ABSENT:
            return ABSENT
        if isinstance(node, AttrOf):
            return binding[spot.number].attrs.get(node.attr)
        return self.start(spot, binding) if node.which == "start-ts" else self.end(spot, binding)

    def _singles(self, leaves: list[PatternNode], binding: Binding) -> Iterator[Binding]:
        """The binding with each choice of one member for every `all` among some leaves."""
        every = {
            leaf.number: binding[leaf.number].events for leaf in leaves if isinstance(binding.get(leaf.number), All)
        }
        for choice in product(*every.values()):
            yield {**binding, **dict(zip(every, choice, strict=True))}

    # --- times ---

    def constituents(self, spot: PatternNode, binding: Binding) -> list[tuple[int, int]]:
        """Start and end of all that a match has at a spot; nothing of what is negated or absent."""
        bound = binding.get(spot.number)
        if spot.operator is None:
            return [(event.start, event.end) for event in events_in(bound)]
        if spot.operator in ("At", "Every"):
            return [(self.now, self.now)] if bound == TICK else []
        if spot.operator == "After":
            return [(start, self.now) for start, _ in self.constituents(spot.spots[0], binding)]
        below = [] if spot.operator == "Not" else spot.spots[:1] if spot.operator == "Unless" else spot.spots
        return [times for each in below for times in self.constituents(each, binding)]

    def start(self, spot: PatternNode, binding: Binding) -> int:
        return min((start for start, _ in self.constituents(spot, binding)), default=self._around(spot, binding).opened)

    def end(self, spot: PatternNode, binding: Binding) -> int:
        return max((end for _, end in self.constituents(spot, binding)), default=self.now)

    def tuples(self, binding: Binding) -> list[Binding]:
        """One binding for each member of what `all` has bound."""
        return list(self._singles(self.root.leaves(), binding))


def events_in(bound: Any) -> tuple[Event, ...]:
    """The events of what a leaf is bound to."""
    if isinstance(bound, Event):
        return (bound,)
    return bound.events if isinstance(bound, (All, Many)) else ()


def distinct(events: Iterable[Event]) -> tuple[Event, ...]:
    """Each event once, in canonical order."""
    return tuple(sorted({id(event): event for event in events}.values(), key=Event.order))
