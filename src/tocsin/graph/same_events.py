"""Of copies of an event that differ, the least counts: what that means for the rows that one query is given.

The rows of events that came several times are looked at together. Of those that the query sees, the least stays; where
it replaces one that the query was given before, that one is withdrawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from tocsin.encode.content import NOT_CONTENT
from tocsin.encode.merge import join, replaced, take
from tocsin.engine.derive import ItemRow
from tocsin.engine.evaluate import evaluate
from tocsin.functions import Function
from tocsin.items import Ints, ItemKind, Items, Strings
from tocsin.plan.block import Plan
from tocsin.plan.expr import Col, Ref, Time
from tocsin.plan.same_event import content, takers

OWN = NOT_CONTENT | {"type", "start", "end"}
Rank: TypeAlias = list[tuple[int, Any]]
WITHDRAWN = -1  # where a row stood that did not come with these items


@dataclass(slots=True)
class CopiesOfOne:
    """The rows of one event: first the earlier ones, then those at some places of the items at hand."""

    rows: Items
    places: list[int]
    values: list[dict[str, Any]] = field(init=False)  # each row as results show it

    def __post_init__(self) -> None:
        self.values = self.rows.payload.to_pylist()

    @property
    def earlier(self) -> int:
        return len(self.rows) - len(self.places)


class SameEvents:
    """Chooses among copies for one query."""

    def __init__(self, plan: Plan, names: Sequence[str], strings: Strings, functions: Mapping[str, Function]) -> None:
        self._names, self._strings, self._functions = names, strings, functions
        self._known_by, self._takers, self._content = dict(plan.known_by), takers(plan), content(plan)

    def chosen(self, items: Items, events: Sequence[CopiesOfOne]) -> tuple[Items, Ints, set[int]]:
        """The rows for this query, the place where each came from, and the places of copies that do not count."""
        withdrawn: list[Items] = []
        dropped: set[int] = set()
        conflicting: set[int] = set()
        for event in events:
            for rows in self._by_key(event):
                ranks = self._seen(event, rows)
                gone, left = _choice(rows, ranks, event.earlier)
                withdrawn += [take(event.rows, np.array([at])) for at in gone]
                dropped.update(event.places[at - event.earlier] for at in left)
                conflicting.update(event.places[at - event.earlier] for at in left if at in ranks)
        places = np.delete(np.arange(len(items)), sorted(dropped))
        kept = items if not dropped else take(items, places)
        if withdrawn:
            gone_rows = join(withdrawn)
            gone_rows = replaced(gone_rows, kinds=np.full(len(withdrawn), ItemKind.WITHDRAWAL, np.int8))
            kept, places = join([gone_rows, kept]), np.concatenate([np.full(len(withdrawn), WITHDRAWN), places])
        return kept, places, conflicting

    def _by_key(self, event: CopiesOfOne) -> list[list[int]]:
        """The rows of an eid that are one event for this query: those with one type and key."""
        type = self._names[int(event.rows.types[0])]
        if type not in self._known_by:
            return []
        groups: dict[Any, list[int]] = {}
        for at, row in enumerate(event.values):
            key = [rank(row.get(attr)) for attr in self._known_by[type]]
            groups.setdefault((row["type"], *key), []).append(at)
        return [rows for rows in groups.values() if len(rows) > 1]

    def _seen(self, event: CopiesOfOne, rows: list[int]) -> dict[int, Rank]:
        """The rows that the query sees, with what orders them: their attributes in the order of the names."""
        names = sorted(name for name in event.values[0] if name not in OWN)
        if self._content is not None:
            names = [name for name in names if name in self._content]
        return {at: [rank(event.values[at].get(name)) for name in names] for at in rows if self._sees(event.rows, at)}

    def _sees(self, rows: Items, at: int) -> bool:
        """Whether a leaf takes a row: every condition on this event alone is TRUE."""
        row = _RowAtLeaf(rows, self._strings)
        row.at = at
        for row.var, tests in self._takers.get(self._names[int(rows.types[at])], ()):
            if all(evaluate(test, row, self._functions) is True for test in tests):
                return True
        return False


def _choice(rows: list[int], ranks: Mapping[int, Rank], earlier: int) -> tuple[list[int], list[int]]:
    """Of the rows of one event: the earlier one that is withdrawn, if any, and the new ones that are left out.

    The query holds the least of those that it saw, else the first of all, which takes part in nothing.
    """
    before = [at for at in rows if at < earlier]
    held = min((at for at in before if at in ranks), key=ranks.__getitem__, default=before[0] if before else None)
    best = min(ranks, key=ranks.__getitem__, default=rows[0])
    if held is not None and (held == best or ranks.get(held) == ranks.get(best)):
        return [], [at for at in rows if at >= earlier and (at not in ranks or ranks[at] != ranks[best])]
    left = [at for at in rows if at >= earlier and at != best and (at not in ranks or ranks[at] != ranks[best])]
    return ([] if held is None else [held]), left


class _RowAtLeaf(ItemRow):
    """A row as the event of one variable; other variables of the leaf are not bound."""

    __slots__ = ("var",)
    var: str

    def column(self, col: Col) -> Any:
        return super().column(col) if col.var == self.var else None

    def time(self, time: Time) -> Any:
        return super().time(time) if time.var in (None, self.var) else None

    def event(self, ref: Ref) -> int | None:
        return self.at if ref.var == self.var else None


def rank(value: Any) -> tuple[int, Any]:
    """The order of values of one attribute: null first, NaN last."""
    if value is None:
        return (0, 0)
    return (2, 0) if value != value else (1, value)
