"""Aggregates that go on from the last stage: of groups without conditions and windows, from which nothing is taken.

There every event of an operand stands in some match from its first match on (O'Keeffe 2010, 3.3.4), so one more event
changes each aggregate by one value. They stand in the local partition beside its lists, and no match is enumerated.
The newest event of an operand is the last of its list.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tocsin.lang.staged_syntax import (
    ONLY,
    AggregateOf,
    AttrOf,
    Collection,
    EventsOf,
    IfNull,
    LeafOperand,
    StagedExpr,
    TimeOf,
    UnionOf,
    parts,
)
from tocsin.plan.staged_places import StatementPlaces
from tocsin.staged.spots import PatternSpot

LATEST_START = 9223372036854775807


@dataclass(frozen=True, slots=True)
class RunningAggregate:
    """An aggregate over operands: it has two words, how many values there were and what they come to.

    terms  what is asked of which leaf
    once   each value counts once: a third word is where the chain of those begins that were there
    """

    function: str
    terms: tuple[tuple[AttrOf | IfNull, int], ...]
    once: bool
    at: int

    @property
    def size(self) -> int:
        return 2 + self.once


@dataclass(frozen=True, slots=True)
class RunningAggregates:
    """All of a statement. Before them stands a word for each operand: the earliest start of its events.

    any  one of the operands is enough for a match (Or)
    """

    leaves: tuple[int, ...]
    found: dict[AggregateOf, RunningAggregate]
    any: bool

    @property
    def size(self) -> int:
        return len(self.leaves) + sum(each.size for each in self.found.values())

    @property
    def has_sets(self) -> bool:
        return any(each.once for each in self.found.values())

    def of_leaf(self, number: int) -> list[tuple[RunningAggregate, AttrOf | IfNull]]:
        """What an event of a leaf changes."""
        return [(each, of) for each in self.found.values() for of, leaf in each.terms if leaf == number]


def running_aggregates(
    places: StatementPlaces, root: PatternSpot, is_exact: Callable[[str], bool]
) -> RunningAggregates | None:
    """The aggregates of a statement, if they can go on from stage to stage.

    is_exact  whether sums of an attribute are the same in every order
    """
    statement = places.statement
    asks = statement.where is not None or statement.options
    if asks or not places.is_group or places.mode == "delayed":
        return None
    spots = (root,) if root.leaf is not None else root.spots if root.operator in ("And", "Or", ONLY) else ()
    if not spots or not all(spot.leaf is not None and _keeps_all(spot.leaf) for spot in spots):
        return None
    leaves = {spot.leaf.called: spot.number for spot in spots if spot.leaf is not None}
    numbers = tuple(spot.number for spot in spots)
    if len(leaves) < len(spots):
        return None
    taking = _Taking(places, leaves, is_exact, len(numbers), {})
    if not all(taking.column(column.expr) for column in statement.select):
        return None
    return RunningAggregates(numbers, taking.found, root.operator == "Or")


def _keeps_all(leaf: LeafOperand) -> bool:
    """Whether an operand keeps all that it collects, and selects all of it."""
    how = leaf.quantifier
    selects = how.most is None and not how.every and not how.strict
    return selects and not leaf.consume and leaf.rows is None and leaf.stages is None and leaf.range is None


@dataclass
class _Taking:
    """Notes the aggregates of columns; a method says False where something needs more than the words of one."""

    places: StatementPlaces
    leaves: dict[str, int]
    is_exact: Callable[[str], bool]
    next: int
    found: dict[AggregateOf, RunningAggregate]

    def column(self, expr: StagedExpr) -> bool:
        inside: set[int] = set()
        for node in parts(expr):
            if isinstance(node, AggregateOf):
                inside |= {id(part) for part in parts(node)} - {id(node)}
                if id(node) not in inside and not self._aggregate(node):
                    return False
            elif isinstance(node, TimeOf) and id(node) not in inside and node.name not in self.leaves:
                return False  # of an operator
        return True

    def _aggregate(self, node: AggregateOf) -> bool:
        named = {part.name for part in parts(node.of) if isinstance(part, AttrOf | EventsOf)}
        if not named & self.leaves.keys():
            return True  # over what opened or closes the context: it does not grow
        collections = _collections(node.of)
        if isinstance(collections[0].of, EventsOf):
            return len(collections) == 1  # the list knows how many they are
        terms = []
        for each in collections:
            if isinstance(each.of, EventsOf | AggregateOf):
                return False
            name = str(each.of.of.name if isinstance(each.of, IfNull) else each.of.name)
            if name not in self.leaves:
                return False
            terms.append((each.of, self.leaves[name]))
        if node.function == "Median" or (len(terms) > 1 and not self._in_any_order(node)):
            return False
        once = node.function not in ("Max", "Min") and any(each.mark != "Bag" for each in collections)
        if node not in self.found:
            self.found[node] = RunningAggregate(node.function, tuple(terms), once, self.next)
            self.next += self.found[node].size
        return True

    def _in_any_order(self, node: AggregateOf) -> bool:
        """Whether values of several operands may be taken as they come, and not one operand after the other."""
        attrs = [part.attr for part in parts(node) if isinstance(part, AttrOf)]
        return node.function in ("Max", "Min", "Count") or all(map(self.is_exact, attrs))


def _collections(of: Collection | UnionOf) -> list[Collection]:
    return [*_collections(of.left), of.right] if isinstance(of, UnionOf) else [of]


def folded(function: str, count: int, known: Any, value: Any) -> Any:
    """The aggregate with one more value."""
    if function in ("Sum", "Avg"):
        return known + value if count else value + 0  # and not -0.0
    if not count or function == "Count":
        return value
    return max(known, value) if function == "Max" else min(known, value)
