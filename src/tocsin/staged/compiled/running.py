"""Aggregates that go on from the last stage: of groups without conditions and windows, from which nothing is taken.

There every event of an operand stands in some match from its first match on (O'Keeffe 2010, 3.3.4), so one more event
changes each aggregate by one value. They stand in the local partition beside its lists, and no match is enumerated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tocsin.lang.staged_syntax import (
    AggregateOf,
    AttrOf,
    Collection,
    EventsOf,
    IfNull,
    LeafOperand,
    StagedExpr,
    TimeOf,
    parts,
)
from tocsin.plan.staged_places import StatementPlaces, key_attribute, mode_of
from tocsin.staged.spots import PatternSpot

LATEST_START = 9223372036854775807


@dataclass(frozen=True, slots=True)
class RunningAggregate:
    """An aggregate over an operand: it has two words, how many values there were and what they come to."""

    function: str
    of: AttrOf | IfNull
    leaf: int
    at: int


@dataclass(frozen=True, slots=True)
class RunningAggregates:
    """All of a statement. Before them stands a word for each operand: the earliest start of its events."""

    leaves: tuple[int, ...]
    found: dict[AggregateOf, RunningAggregate]

    @property
    def size(self) -> int:
        return len(self.leaves) + 2 * len(self.found)

    def of_leaf(self, number: int) -> list[RunningAggregate]:
        return [each for each in self.found.values() if each.leaf == number]


def running_aggregates(places: StatementPlaces, root: PatternSpot) -> RunningAggregates | None:
    """The aggregates of a statement, if they can go on from stage to stage."""
    statement = places.statement
    asks = statement.where is not None or statement.options
    if asks or not places.is_group or mode_of(statement.pattern) != "immediate":
        return None
    spots = (root,) if root.leaf is not None else root.spots if root.operator == "And" else ()
    if not spots or not all(spot.leaf is not None and _keeps_all(spot.leaf) for spot in spots):
        return None
    leaves = {spot.leaf.called: spot.number for spot in spots if spot.leaf is not None}
    numbers = tuple(spot.number for spot in spots)
    if len(leaves) < len(spots):
        return None
    found: dict[AggregateOf, RunningAggregate] = {}
    for column in statement.select:
        if not _take(column.expr, places, leaves, found, len(numbers)):
            return None
    return RunningAggregates(numbers, found)


def _keeps_all(leaf: LeafOperand) -> bool:
    """Whether an operand keeps all that it collects, and selects all of it."""
    how = leaf.quantifier
    selects = how.most is None and not how.every and not how.strict
    return selects and not leaf.consume and leaf.rows is None and leaf.stages is None and leaf.range is None


def _take(
    expr: StagedExpr, places: StatementPlaces, leaves: dict[str, int], found: dict[AggregateOf, RunningAggregate],
    first: int,
) -> bool:  # fmt: skip
    """Note the aggregates of a column; False: something in it needs more than the words of one."""
    inside: set[int] = set()
    for node in parts(expr):
        if isinstance(node, AggregateOf):
            inside |= {id(part) for part in parts(node)}
            named = {part.name for part in parts(node.of) if isinstance(part, AttrOf | EventsOf)} & leaves.keys()
            if not named:
                continue  # over what opened the context: it does not grow
            of = node.of
            if not isinstance(of, Collection) or isinstance(of.of, AggregateOf) or node.function == "Median":
                return False
            if isinstance(of.of, EventsOf):
                continue  # the list knows how many they are
            if of.mark != "Bag" and node.function not in ("Max", "Min"):
                return False  # each value once
            name = of.of.of.name if isinstance(of.of, IfNull) else of.of.name
            if node not in found:
                at = first + 2 * len(found)
                found[node] = RunningAggregate(node.function, of.of, leaves[str(name)], at)
        elif (isinstance(node, TimeOf) and id(node) not in inside) or (
            isinstance(node, AttrOf) and id(node) not in inside and not _is_of_partition(node, places)
        ):
            return False
    return True


def _is_of_partition(node: AttrOf, places: StatementPlaces) -> bool:
    """Whether an attribute belongs to the partition (a label or a value of its key), and not to an event."""
    keys = [key for key in (*places.statement.gkeys, *places.statement.lkeys) if not key.ranges]
    named = [place.node for place in places.leaves if isinstance(place.node, LeafOperand)]
    return places.is_label(node) or any(
        leaf.called == node.name and key_attribute(key, leaf) == node.attr for key in keys for leaf in named
    )


def folded(function: str, count: int, known: Any, value: Any) -> Any:
    """The aggregate with one more value."""
    if function in ("Sum", "Avg"):
        return known + value if count else value + 0  # and not -0.0
    if not count or function == "Count":
        return value
    return max(known, value) if function == "Max" else min(known, value)
