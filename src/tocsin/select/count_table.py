"""The rows of a query that counts: what was counted of each group and span, and which row says it.

Where answers are never retracted a row leaves when its span is complete, at the end, or (live, without EVERY) after
each push as a correction of the one before. Where answers are given at once, each push corrects the rows it changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import starmap
from typing import Any, TypeAlias

from tocsin.codec import Scalar, as_number, as_shape
from tocsin.engine.counts import CountRow
from tocsin.events import END_OF_TIME
from tocsin.plan.after_match import CountClauses, Total
from tocsin.schema import fits
from tocsin.select.totals import State, begin, merged, narrowed, restored, result, saved

SavedGroups: TypeAlias = list[  # the key and what is shown of it, how many matches, aggregates, the row that stands
    tuple[list[Scalar], int | None, list[Scalar], int, list[Any], list[Scalar] | None]
]
Key: TypeAlias = tuple[tuple[Any, ...], int | None]  # the group as texts, and the number of the span


@dataclass(slots=True)
class GroupCount:
    """What was counted of one group in one span.

    shown   the values of GROUP BY
    number  how many matches
    given   the values of the row that stands; None if none was given
    """

    shown: Sequence[Any]
    number: int
    totals: list[State]
    given: list[Any] | None = None


class CountTable:
    """Groups and spans with what was counted of them.

    at_once  rows are given before they are settled, and corrected
    live     without EVERY, rows are given after each push, and corrected
    """

    def __init__(self, counting: CountClauses, *, at_once: bool, live: bool) -> None:
        self.counting, self.at_once, self.live = counting, at_once, live
        self.groups: dict[Key, GroupCount] = {}
        self._spans: dict[int, dict[Key, None]] = {}  # the groups of each span that is not complete

    def group(self, key: Key, shown: Sequence[Any]) -> GroupCount:
        """What was counted of a group; nothing, if it is new."""
        found = self.groups.get(key)
        if found is None:
            found = self._begun(key, GroupCount(shown, 0, [begin(total) for total in self.counting.totals]))
        return found

    def _begun(self, key: Key, group: GroupCount) -> GroupCount:
        self.groups[key] = group
        if key[1] is not None:
            self._spans.setdefault(key[1], {})[key] = None
        return group

    def add(self, key: Key, shown: Sequence[Any], number: int, states: Sequence[State]) -> None:
        """Count more matches of a group, of which the aggregates are known."""
        group = self.group(key, shown)
        group.number += number
        for at, (total, more) in enumerate(zip(self.counting.totals, states, strict=True)):
            state = merged(total, group.totals[at], more)
            group.totals[at] = state if self.at_once else narrowed(total, state)

    # --- rows -------------------------------------------------------------------------------------------------------

    def rows(self, touched: Iterable[Key], frontier: int) -> list[CountRow]:
        """The rows that are known once some groups were counted anew, and no match comes that ends by `frontier`."""
        return list(self._rows(touched, frontier))

    def _rows(self, touched: Iterable[Key], frontier: int) -> Iterator[CountRow]:
        every = self.counting.every
        if self.at_once or (every is None and self.live):
            for key in sorted(touched, key=_place):
                yield from self._corrected(key)
        elif every is None and frontier >= END_OF_TIME:
            for key in sorted(self.groups, key=_place):
                yield from self._corrected(key)
        if every is not None:
            for span in sorted(span for span in self._spans if (span + 1) * every - 1 <= frontier):
                for key in sorted(self._spans.pop(span), key=_place):
                    if not self.at_once:
                        yield from self._corrected(key)
                    self.groups.pop(key, None)

    def _corrected(self, key: Key) -> Iterator[CountRow]:
        """The row of a group, where it differs from the one that stands."""
        group = self.groups.get(key)
        if group is None:
            return
        values = self._values(group) if group.number else None
        if group.given is not None and _same(values, group.given):
            return
        if group.given is not None:
            yield CountRow(-1, *key, group.given)
        if values is not None:
            yield CountRow(1, *key, values)
        group.given = values
        if values is None:
            del self.groups[key]

    def _values(self, group: GroupCount) -> list[Any]:
        """What the columns of the result show."""
        totals = iter(zip(self.counting.totals, group.totals, strict=True))
        return [
            result(*next(totals)) if isinstance(column, Total) else group.shown[column]
            for column in self.counting.columns
        ]

    # --- state ------------------------------------------------------------------------------------------------------

    def saved(self) -> list[Any]:
        """The groups as JSON."""
        return [
            [*key, each.shown, each.number, list(map(saved, each.totals)), each.given]
            for key, each in self.groups.items()
        ]

    def restore(self, groups: object) -> None:
        """Go on with what was saved."""
        self.groups, self._spans = {}, {}
        for group, span, shown, number, totals, given in as_shape(SavedGroups, groups):
            states = [restored(*each) for each in zip(self.counting.totals, totals, strict=True)]
            if given is not None and not all(starmap(self._can_show, zip(self.counting.columns, given, strict=True))):
                raise ValueError("a row shows values of another kind")
            self._begun(self.key(group, span, shown), GroupCount(tuple(shown), number, states, given))

    def _can_show(self, column: Total | int, value: object) -> bool:
        kinds = [column.kind] if isinstance(column, Total) else [each.kind for each in self.counting.by[column]]
        return any(fits(kind, value) for kind in kinds)

    def key(self, group: Sequence[Any], span: int | None, shown: Sequence[Any]) -> Key:
        """The key of a stored group, if it is one of this query, and the values that are shown of it are."""
        groups, every = self.counting.by, self.counting.every
        if (span is None) != (every is None) or {len(group), len(shown)} != {len(groups)}:
            raise ValueError("a group is not one of this query")
        if span is not None and every is not None:
            as_number(span * every)
        if not all(any(fits(each.kind, value) for each in exprs) for value, exprs in zip(shown, groups, strict=True)):
            raise ValueError("a group shows values of another kind")
        return tuple(group), span


def _place(key: Key) -> tuple[Any, ...]:
    """Rows stand by span, then by group; null before values."""
    group, span = key
    return (span or 0, [(value is not None, str(value)) for value in group])


def _same(one: Sequence[Any] | None, other: Sequence[Any]) -> bool:
    """Whether two rows show the same; NaN is equal to itself."""
    if one is None:
        return False
    return all(x == y or (x != x and y != y) for x, y in zip(one, other, strict=True))
