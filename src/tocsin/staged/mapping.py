"""Select: the matches of a run as complex events, one for each match or one for all of them together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeAlias

from tocsin.errors import TocsinError
from tocsin.lang.staged_syntax import (
    AggregateOf,
    AttrOf,
    Collection,
    EventsOf,
    IfNull,
    OutputColumn,
    StableTime,
    Statement,
    TimeOf,
    UnionOf,
)
from tocsin.plan.staged_places import StatementPlaces
from tocsin.staged.bindings import DetectionRun, end_of, start_of
from tocsin.staged.event import ABSENT, Binding, EveryOne, StagedEvent, distinct, events_in
from tocsin.staged.spots import PatternSpot
from tocsin.staged.values import Asked, aggregated, value_of

Row: TypeAlias = "tuple[int, tuple[Any, ...]]"  # start, and the values of the columns
NOTHING: Mapping[str, Sequence[StagedEvent]] = {}


@dataclass(slots=True)
class Chosen:
    """What a column of Select is asked of: some matches of a run, and what stands around them.

    outside  events of initiators and terminators by name
    labels   of the partition, by the name of the key
    keys     values of the partition by the names of role and attribute, for keys without ranges
    """

    run: DetectionRun
    matches: Sequence[Binding]
    outside: Mapping[str, Sequence[StagedEvent]]
    labels: Mapping[str, Any]
    keys: Mapping[tuple[str, str], Any]


class Mapper:
    """Select of a statement, as functions."""

    def __init__(self, statement: Statement, root: PatternSpot) -> None:
        self._places, self._root = StatementPlaces(statement), root
        self.is_group = self._places.is_group
        self._spots: dict[str, list[PatternSpot]] = {}
        for spot in root.all():
            if spot.name is not None:
                self._spots.setdefault(spot.name, []).append(spot)
        self._start = start_of(root)
        self._every = [leaf.number for leaf in root.leaves() if leaf.leaf and leaf.leaf.quantifier.every]
        self.names = tuple(column_name(each, self._places) for each in statement.select)
        look_up = self._of_group if self.is_group else self._of_tuple
        self._columns = [value_of(each.expr, look_up) for each in statement.select]

    def rows(self, chosen: Chosen) -> list[Row]:
        """Start and columns of the complex events that some matches give."""
        if not chosen.matches:
            return []
        if self.is_group:
            start = min(self._begin(chosen.run, match) for match in chosen.matches)
            return [(start, tuple(column(chosen) for column in self._columns))]
        rows, matches = [], chosen.matches
        for match in matches:
            for single in self._singles(match):
                chosen.matches = (single,)
                rows.append((self._begin(chosen.run, single), tuple(column(chosen) for column in self._columns)))
        chosen.matches = matches
        return rows

    def _begin(self, run: DetectionRun, match: Binding) -> int:
        run.bound = list(match)
        return self._start(run)

    def _singles(self, match: Binding) -> Sequence[Binding]:
        """A match for each member of what `all` has bound."""
        sets = [(number, one.events) for number in self._every if isinstance(one := match[number], EveryOne)]
        if not sets:
            return (match,)
        found = []
        for choice in product(*(events for _, events in sets)):
            single = list(match)
            for (number, _), event in zip(sets, choice, strict=True):
                single[number] = event
            found.append(tuple(single))
        return found

    # --- aggregates ---

    def _of_tuple(self, node: Any) -> Asked:
        """What a part of a column means for one match."""
        if isinstance(node, AggregateOf):
            function, values = node.function, self._tuple_values(node.of)
            return lambda chosen: aggregated(function, values(chosen))
        return self._shared(node)

    def _tuple_values(self, of: Collection | UnionOf) -> Callable[[Chosen], list[Any]]:
        if isinstance(of, UnionOf):
            left, right = self._tuple_values(of.left), self._tuple_values(of.right)
            return lambda chosen: left(chosen) + right(chosen)
        if isinstance(of.of, AggregateOf):
            raise TocsinError("an aggregate of aggregates needs Select group")
        return self._values(of.of)

    def _of_group(self, node: Any) -> Asked:
        """What a part of a column means for all matches of a run."""
        if isinstance(node, AggregateOf):
            function, (_, values) = node.function, self._group_values(node.of)
            return lambda chosen: aggregated(function, values(chosen))
        shared = self._shared(node)
        if isinstance(node, AttrOf):
            place = (str(node.name), node.attr)
            return lambda chosen: chosen.keys[place] if place in chosen.keys else shared(chosen)
        return shared

    def _group_values(self, of: Collection | UnionOf) -> tuple[bool, Callable[[Chosen], list[Any]]]:
        """Whether a collection is a set, and its values."""
        if isinstance(of, UnionOf):
            (one, left), (other, right) = self._group_values(of.left), self._group_values(of.right)
            if one or other:
                return True, lambda chosen: _once(left(chosen) + right(chosen))
            return False, lambda chosen: left(chosen) + right(chosen)
        is_set = of.mark != "Bag"
        if isinstance(of.of, EventsOf):
            return is_set, self._values(of.of)  # different events are different
        values = self._nested(of.of) if isinstance(of.of, AggregateOf) else self._values(of.of)
        return is_set, (lambda chosen: _once(values(chosen))) if is_set else values

    def _nested(self, inner: AggregateOf) -> Callable[[Chosen], list[Any]]:
        """The inner aggregate of each match."""
        function, values = inner.function, self._tuple_values(inner.of)

        def nested(chosen: Chosen) -> list[Any]:
            matches, found = chosen.matches, []
            for match in matches:
                chosen.matches = (match,)
                found.append(aggregated(function, values(chosen)))
            chosen.matches = matches
            return found

        return nested

    def _values(self, of: AttrOf | IfNull | EventsOf) -> Callable[[Chosen], list[Any]]:
        """The values of the distinct events of a role."""
        name = str(of.of.name if isinstance(of, IfNull) else of.name)
        numbers = [spot.number for spot in self._spots.get(name, ()) if spot.leaf is not None]

        def events(chosen: Chosen) -> Sequence[StagedEvent]:
            if not numbers:
                return chosen.outside.get(name, ())
            return distinct(event for match in chosen.matches for at in numbers for event in events_in(match[at]))

        if isinstance(of, EventsOf):
            return lambda chosen: [True] * len(events(chosen))
        asked = value_of(of, lambda node: lambda event: event.values.get(node.attr))
        return lambda chosen: [asked(event) for event in events(chosen)]

    # --- what is no aggregate ---

    def _shared(self, node: Any) -> Asked:
        """A time, a label, or an attribute of one match or of the newest event of a group."""
        if isinstance(node, StableTime):
            return lambda chosen: chosen.run.now
        if self._places.is_label(node):
            label = str(node.name)
            return lambda chosen: chosen.labels[label]
        if isinstance(node, TimeOf) and node.which == "sst":
            raise TocsinError("sst stands in Where only")
        numbers = [spot.number for spot in self._spots.get(str(node.name), ()) if spot.leaf is not None]
        if isinstance(node, TimeOf) and not numbers:
            return self._operator_time(node)
        newest = _newest(numbers)
        if isinstance(node, TimeOf):
            which = node.which == "start-ts"
            return lambda chosen: None if (e := newest(chosen)) is None else e.start if which else e.end
        attr = node.attr
        return lambda chosen: None if (event := newest(chosen)) is None else event.values.get(attr)

    def _operator_time(self, node: TimeOf) -> Asked:
        """The start or end of a labelled operator."""
        (spot,) = self._spots[node.name]
        early = node.which == "start-ts"
        asked, pick, number = (start_of if early else end_of)(spot), min if early else max, spot.number

        def time(chosen: Chosen) -> int | None:
            if all(match[number] is ABSENT for match in chosen.matches):
                return None
            found = []
            for match in chosen.matches:
                chosen.run.bound = list(match)
                found.append(asked(chosen.run))
            return pick(found)

        return time


def _newest(numbers: Sequence[int]) -> Callable[[Chosen], StagedEvent | None]:
    """The last event of a role in canonical order."""

    def newest(chosen: Chosen) -> StagedEvent | None:
        events = [event for match in chosen.matches for at in numbers for event in events_in(match[at])]
        return max(events, default=None)  # numbers come first, and ascend

    return newest


def column_name(column: OutputColumn, places: StatementPlaces) -> str:
    """What a column of Select is called: its `as`, else the attribute, or the name of the key whose label it is."""
    if column.name is not None:
        return column.name
    assert isinstance(column.expr, AttrOf)
    return str(column.expr.name) if places.is_label(column.expr) else column.expr.attr


def _once(values: Sequence[Any]) -> list[Any]:
    """The different values, in order."""
    return list(dict.fromkeys(values))
