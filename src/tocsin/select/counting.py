"""Counting matches one by one: the operator of a SELECT over matches, right for every query and in every order.

Where answers are never retracted a match is counted when it is settled, and a row leaves when its span is complete, at
the end, or (live, without EVERY) after each push as a correction of the one before. Where answers are given at once,
rows are too, and each push corrects those that it changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush
from typing import Any, TypeAlias

from tocsin.codec import Part, as_number, as_numbers, decode, encode, nested, only_part, reading, within
from tocsin.engine.changes import ChangeBatch, Changes
from tocsin.engine.counts import CountRow, CountRows
from tocsin.engine.kinds import MATCH
from tocsin.engine.operator import Counters, Operator
from tocsin.engine.texts import of_operators
from tocsin.events import BEGINNING, END_OF_TIME
from tocsin.functions import Function
from tocsin.items import Ints, Items
from tocsin.plan.after_match import Grouping, Total
from tocsin.plan.block import Plan
from tocsin.plan.expr import Bound
from tocsin.schema import Kind
from tocsin.select.after_match import normal
from tocsin.select.totals import State, begin, counted, narrowed, one_nan, restored, result, saved

Key: TypeAlias = tuple[tuple[Any, ...], int | None]  # the group as texts, and the number of the span
Asked: TypeAlias = tuple[Any, ...]  # what the aggregates ask of one match


@dataclass(slots=True)
class Counted:
    """What was counted of one group in one span.

    shown   the values of GROUP BY
    number  how many matches
    given   the values of the row that stands; None if none was given
    """

    shown: Sequence[Any]
    number: int
    totals: list[State]
    given: list[Any] | None = None


class Counting:
    """Counts the matches of `inner`.

    at_once  count before matches are settled, and correct that
    live     without EVERY, say after each push what is counted so far
    """

    def __init__(
        self, inner: Operator, plan: Plan, functions: Mapping[str, Function], *, at_once: bool, live: bool
    ) -> None:
        assert plan.counts is not None
        self.inner: tuple[Operator, ...] = (inner,)
        self._next, self._plan, self._functions = inner, plan, functions
        self._counting, self.at_once, self._live = plan.counts, at_once, live
        self._following = False
        self._forget()
        self.given = self.retracted = 0

    def _forget(self) -> None:
        self.groups: dict[Key, Counted] = {}
        self._spans: dict[int, dict[Key, None]] = {}  # the groups of each span that is not complete
        self._open: dict[int, Counter[tuple[Key, Asked]]] = {}  # by end: matches that are not settled
        self._shown: dict[Key, Sequence[Any]] = {}  # of groups that have such matches only
        self._ends: list[int] = []
        self.frontier = BEGINNING

    @property
    def counters(self) -> Counters:
        total = self._next.counters
        waiting = sum(sum(each.values()) for each in self._open.values())
        return replace(total, matches=self.given, retracted=self.retracted, waiting=total.waiting + waiting)

    @property
    def texts_in_use(self) -> Ints:
        return of_operators(self.inner)

    def push(self, items: Items) -> Changes:
        """Count the matches that some items bring; answer with the rows that are known by then."""
        if items.single:  # the short way does not say how far time has passed
            items = items.copy()  # type: ignore[attr-defined]
        found = self._next.push(items)
        self.frontier = max(self.frontier, found.frontier)
        if self._following:  # these were counted before
            return Changes([], found.frontier, found.late)
        touched: dict[Key, None] = {}
        for batch in found:
            if batch.kind == MATCH and len(batch):
                touched |= dict.fromkeys(self._take(batch))
        touched |= dict.fromkeys(self._settle())
        rows = list(self._rows(touched))
        for row in rows:
            self.given += row.op > 0
            self.retracted += row.op < 0
        said = [batch for batch in found if batch.kind != MATCH]
        if rows:
            said.append(CountRows.of(self._plan, rows, self._functions))
        return Changes(said, self.frontier, found.late)

    # --- counting ---------------------------------------------------------------------------------------------------

    def _take(self, batch: ChangeBatch) -> Iterable[Key]:
        """Count matches that are given or taken back; return their groups if they count already."""
        keys = self._keys(batch)
        columns = [_asked(batch, total) for total in self._counting.totals]
        asked = list(zip(*columns, strict=True)) if columns else [()] * len(batch)
        ops, ends = batch.op.tolist(), batch.span[1].tolist()
        if self.at_once:
            net: Counter[tuple[Key, Asked]] = Counter()
            for key, values, op in zip(keys, asked, ops, strict=True):
                net[key, values] += op
            self._count(net)
            return keys
        for key, values, op, end in zip(keys, asked, ops, ends, strict=True):
            if end not in self._open:
                self._open[end] = Counter()
                heappush(self._ends, end)
            self._open[end][key, values] += op
        return ()

    def _settle(self) -> Iterator[Key]:
        """Count matches for good that nothing changes any more."""
        while self._ends and self._ends[0] <= self.frontier:
            matches = self._open.pop(heappop(self._ends))
            self._count(matches)
            yield from (key for key, _ in matches)

    def _count(self, matches: Mapping[tuple[Key, Asked], int]) -> None:
        for (key, values), times in matches.items():
            if not times:
                continue
            group = self.groups.get(key)
            if group is None:
                totals = [begin(total) for total in self._counting.totals]
                group = self._begun(key, Counted(self._shown.pop(key), 0, totals))
            group.number += times
            for at, (total, value) in enumerate(zip(self._counting.totals, values, strict=True)):
                state = counted(total, group.totals[at], value, times)
                group.totals[at] = state if self.at_once else narrowed(total, state)

    def _begun(self, key: Key, group: Counted) -> Counted:
        self.groups[key] = group
        if key[1] is not None:
            self._spans.setdefault(key[1], {})[key] = None
        return group

    def _keys(self, batch: ChangeBatch) -> list[Key]:
        """The group and the span of each match."""
        every = self._counting.every
        spans = [None] * len(batch) if every is None else (batch.span[1] // every).tolist()
        columns = [_group_column(batch, group) for group in self._counting.by]
        shown = list(zip(*columns, strict=True)) if columns else [()] * len(batch)
        keys = [(tuple(map(_told, values)), span) for values, span in zip(shown, spans, strict=True)]
        for key, values in zip(keys, shown, strict=True):
            if key not in self.groups:
                self._shown.setdefault(key, values)
        return keys

    # --- rows -------------------------------------------------------------------------------------------------------

    def _rows(self, touched: Iterable[Key]) -> Iterator[CountRow]:
        every, over = self._counting.every, self.frontier >= END_OF_TIME
        if self.at_once or (every is None and self._live):
            for key in sorted(touched, key=_place):
                yield from self._corrected(key)
        elif every is None and over:
            for key in sorted(self.groups, key=_place):
                yield from self._corrected(key)
        if every is not None:
            for span in sorted(span for span in self._spans if (span + 1) * every - 1 <= self.frontier):
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

    def _values(self, group: Counted) -> list[Any]:
        """What the columns of the result show."""
        totals = iter(zip(self._counting.totals, group.totals, strict=True))
        return [
            result(*next(totals)) if isinstance(column, Total) else group.shown[column]
            for column in self._counting.columns
        ]

    # --- state ------------------------------------------------------------------------------------------------------

    def snapshot(self, since: int = 0) -> list[Part]:
        return [Part("counting", 0, self.memory), *nested("inner", self._next.snapshot(since))]

    def restore(self, parts: Iterable[Part]) -> None:
        parts = list(parts)
        memory = only_part("counting", parts).data
        decode(memory, "counting")
        self._next.restore(within("inner", parts))
        self.resume(memory)

    @property
    def memory(self) -> bytes:
        """What was counted, and the matches that are not settled."""
        words = {
            "frontier": self.frontier,
            "counts": [self.given, self.retracted],
            "groups": [
                [*key, each.shown, each.number, list(map(saved, each.totals)), each.given]
                for key, each in self.groups.items()
            ],
            "open": [
                [end, *key, self._shown.get(key, ()), values, times]
                for end, matches in self._open.items()
                for (key, values), times in matches.items()
            ],
        }
        return encode("counting", words)

    def follow(self, memory: bytes) -> None:  # noqa: ARG002
        """Before events are replayed: their matches were counted."""
        self._following = True

    def resume(self, memory: bytes) -> None:
        """After events were replayed: go on from what was counted."""
        stored = decode(memory, "counting").words
        self._following = False
        self._forget()
        with reading("the saved counts"):
            self.frontier = as_number(stored["frontier"])
            self.given, self.retracted = as_numbers(stored["counts"])
            for group, span, shown, number, totals, given in stored["groups"]:
                states = [restored(*each) for each in zip(self._counting.totals, totals, strict=True)]
                self._begun((tuple(group), span), Counted(tuple(shown), number, states, given))
            for end, group, span, shown, values, times in stored["open"]:
                key = (tuple(group), span)
                if key not in self.groups:
                    self._shown.setdefault(key, tuple(shown))
                self._open.setdefault(end, Counter())[key, tuple(map(one_nan, values))] += times
            self._ends = list(self._open)
            heapify(self._ends)


def _asked(batch: ChangeBatch, total: Total) -> list[Any]:
    """What an aggregate asks of each match, in kernel form; None for null."""
    if total.arg is None:
        return [True] * len(batch)
    if total.function == "count":
        return [None if value is None else True for value in _kernel_values(batch, total.arg)]
    return [one_nan(value) for value in _kernel_values(batch, total.arg)]


def _kernel_values(batch: ChangeBatch, expr: Bound) -> list[Any]:
    """The values of an expression; decimals as scaled whole numbers."""
    values = batch.values(expr)
    if expr.kind is not Kind.DECIMAL:
        return values
    return [None if value is None else int(value.scaleb(expr.scale)) for value in values]


def _group_column(batch: ChangeBatch, group: Grouping) -> list[Any]:
    """The value of each match: the first that is not null."""
    scale = max((expr.scale for expr in group), default=0)
    found: list[Any] = [None] * len(batch)
    for expr in group:
        more = _kernel_values(batch, expr)
        if scale > expr.scale:
            more = [None if value is None else value * 10 ** (scale - expr.scale) for value in more]
        found = [value if old is None else old for old, value in zip(found, more, strict=True)]
    return [one_nan(value) for value in found]


def _told(value: Any) -> str | bool | None:
    return normal(value)


def _place(key: Key) -> tuple[Any, ...]:
    """Rows stand by span, then by group; null before values."""
    group, span = key
    return (span or 0, [(value is not None, str(value)) for value in group])


def _same(one: Sequence[Any] | None, other: Sequence[Any]) -> bool:
    """Whether two rows show the same; NaN is equal to itself."""
    if one is None:
        return False
    return all(x == y or (x != x and y != y) for x, y in zip(one, other, strict=True))
