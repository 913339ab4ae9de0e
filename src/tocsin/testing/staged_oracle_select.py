"""Select of a staged statement, as the definition maps matches to complex events: one for each, or one for a group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tocsin.events import Event
from tocsin.lang.staged_syntax import (
    AggregateOf,
    AttrOf,
    Collection,
    EventsOf,
    IfNull,
    LeafOperand,
    OutputColumn,
    StableTime,
    Statement,
    TimeOf,
    UnionOf,
    parts,
)
from tocsin.testing.staged_oracle_match import Binding, MatchRun, PatternNode, distinct, events_in
from tocsin.testing.staged_oracle_values import ABSENT, aggregated, value


def counted(root: PatternNode) -> set[int]:
    """The numbers of the leaves below counting operators."""
    inside = [spot for spot in root.all() if spot.operator in ("Nth", "AtLeast", "AtMost")]
    return {leaf.number for spot in inside for leaf in spot.leaves()}


def is_group(statement: Statement, root: PatternNode) -> bool:
    """Group mapping: if Select says so, has Set or Bag, or aggregates an operand that has one event in a match."""
    if statement.mapping is not None:
        return statement.mapping == "group"
    sets = counted(root)
    ordinary = {leaf.name for leaf in root.leaves() if leaf.number not in sets}
    for part in (part for column in statement.select for part in parts(column)):
        if isinstance(part, Collection):
            of = part.of.of if isinstance(part.of, IfNull) else part.of
            if part.mark is not None or (isinstance(of, (AttrOf, EventsOf)) and of.name in ordinary):
                return True
    return False


@dataclass
class Selection:
    """All that Select can speak of: the matches of a run, who opened and closed the context, and the partition.

    outside   events of initiators and terminators by name
    labels    of the partition, by the name of the key
    keys      values of the partition by the names of role and attribute, for keys without ranges
    """

    statement: Statement
    run: MatchRun
    matches: Sequence[Binding]
    outside: Mapping[str, Sequence[Event]]
    labels: Mapping[str, Any]
    keys: Mapping[tuple[str, str], Any]

    def rows(self) -> list[tuple[int, dict[str, Any]]]:
        """Start and attributes of the complex events of the run."""
        if not self.matches:
            return []
        root = self.run.root
        if is_group(self.statement, root):
            start = min(self.run.start(root, match) for match in self.matches)
            return [(start, self._row(self._of_group))]
        singles = [single for match in self.matches for single in self.run.tuples(match)]
        return [
            (self.run.start(root, one), self._row(lambda node, one=one: self._of_tuple(node, one))) for one in singles
        ]

    def _row(self, lookup: Any) -> dict[str, Any]:
        return {self.column(each): value(each.expr, lookup) for each in self.statement.select}

    def column(self, column: OutputColumn) -> str:
        if column.name is not None:
            return column.name
        assert isinstance(column.expr, AttrOf)
        return str(column.expr.name) if self._is_label(column.expr) else column.expr.attr

    def _is_label(self, node: Any) -> bool:
        if not isinstance(node, AttrOf) or node.attr not in ("label", "labels") or self._spots(str(node.name)):
            return False
        return any(key.name == node.name for key in (*self.statement.gkeys, *self.statement.lkeys))

    def _spots(self, name: str) -> list[PatternNode]:
        return [spot for spot in self.run.root.all() if spot.name == name]

    def _leaves(self, name: str) -> list[PatternNode]:
        return [spot for spot in self._spots(name) if isinstance(spot.node, LeafOperand)]

    # --- one match ---

    def _of_tuple(self, node: Any, match: Binding) -> Any:
        if isinstance(node, AggregateOf):
            return aggregated(node.function, self._tuple_values(node.of, match))
        return self._shared(node, [match])

    def _tuple_values(self, of: Collection | UnionOf, match: Binding) -> list[Any]:
        if isinstance(of, UnionOf):
            return self._tuple_values(of.left, match) + self._tuple_values(of.right, match)
        return self._values(of.of, self._events(of.of, [match]))

    # --- a group ---

    def _of_group(self, node: Any) -> Any:
        if isinstance(node, AggregateOf):
            return aggregated(node.function, self._group_values(node.of)[1])
        if isinstance(node, AttrOf) and (str(node.name), node.attr) in self.keys:
            return self.keys[str(node.name), node.attr]
        return self._shared(node, self.matches)

    def _group_values(self, of: Collection | UnionOf) -> tuple[bool, list[Any]]:
        """Whether a collection is a set, and its values."""
        if isinstance(of, UnionOf):
            left, right = self._group_values(of.left), self._group_values(of.right)
            whole = left[1] + right[1]
            return (True, once(whole)) if left[0] or right[0] else (False, whole)
        if isinstance(of.of, AggregateOf):
            inner = of.of
            values = [aggregated(inner.function, self._tuple_values(inner.of, match)) for match in self.matches]
        else:
            values = self._values(of.of, self._events(of.of, self.matches))
        is_set = of.mark != "Bag"
        if isinstance(of.of, EventsOf):
            return is_set, values  # different events are different
        return is_set, once(values) if is_set else values

    # --- both ---

    def _shared(self, node: Any, matches: Sequence[Binding]) -> Any:
        """What is no aggregate: of one match, or the newest of a group."""
        if isinstance(node, StableTime):
            return self.run.now
        if self._is_label(node):
            return self.labels[str(node.name)]
        if isinstance(node, TimeOf) and not self._leaves(node.name):
            (spot,) = self._spots(node.name)
            if all(match.get(spot.number) is ABSENT for match in matches):
                return None
            ask = min if node.which == "start-ts" else max
            return ask((self.run.start if node.which == "start-ts" else self.run.end)(spot, match) for match in matches)
        bound = [match.get(leaf.number) for match in matches for leaf in self._leaves(str(node.name))]
        events = distinct(event for each in bound for event in events_in(each))
        if not events:
            return None
        if isinstance(node, TimeOf):
            return events[-1].start if node.which == "start-ts" else events[-1].end
        return events[-1].attrs.get(node.attr)

    def _events(self, of: Any, matches: Sequence[Binding]) -> Sequence[Event]:
        """The distinct events of a role over some matches; of an initiator or terminator those that acted."""
        name = str(of.of.name if isinstance(of, IfNull) else of.name)
        if leaves := self._leaves(name):
            bound = [match.get(leaf.number) for match in matches for leaf in leaves]
            return distinct(event for each in bound for event in events_in(each))
        return self.outside.get(name, ())

    def _values(self, of: Any, events: Sequence[Event]) -> list[Any]:
        if isinstance(of, EventsOf):
            return [True] * len(events)
        return [value(of, lambda node, event=event: event.attrs.get(node.attr)) for event in events]  # type: ignore[misc]


def once(values: Sequence[Any]) -> list[Any]:
    """The different values, in order."""
    return list(dict.fromkeys(values))
