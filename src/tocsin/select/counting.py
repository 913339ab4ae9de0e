"""Counting matches one by one: the operator of a SELECT over matches, right for every query and in every order.

Where answers are never retracted a match is counted when it is settled; where they are given at once, it counts at
once, and no more when it is taken back. `select/prefix_counting` counts the matches of some queries without finding
them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import Any, TypeAlias

from tocsin.codec import (
    Scalar,
    as_number,
    as_numbers,
    as_shape,
    decode,
    encode,
    reading,
)
from tocsin.engine.changes import ChangeBatch, Changes
from tocsin.engine.counts import CountRows
from tocsin.engine.kinds import MATCH
from tocsin.engine.operator import Operator
from tocsin.errors import TocsinError
from tocsin.events import BEGINNING
from tocsin.functions import Function
from tocsin.items import Items
from tocsin.plan.after_match import Grouping, Total
from tocsin.plan.block import Plan
from tocsin.plan.expr import Bound
from tocsin.plan.prefix_chain import why_not_counted
from tocsin.schema import Kind, fits
from tocsin.select.after_match import normal
from tocsin.select.count_table import CountTable, Key
from tocsin.select.over_matches import OverMatches
from tocsin.select.pieces import LEAST_PIECE, Pieces
from tocsin.select.totals import counted, narrowed, one_nan

Asked: TypeAlias = tuple[Any, ...]  # what the aggregates ask of one match


MANY = 1 << 16  # matches of one push
# Matches that are not settled: their end, the key of their group and what is shown of it, what is asked, how often.
SavedOpen: TypeAlias = list[tuple[int, list[Scalar], int | None, list[Scalar], list[Scalar], int]]
MOST = 1 << 26  # of the smallest one
FIRST_PIECE = 1024  # rows of the first one


class MatchCounting(OverMatches):
    """Counts the matches of `inner`.

    at_once  count before matches are settled, and correct that
    live     without EVERY, say after each push what is counted so far
    """

    kind = "counting"

    def __init__(
        self, inner: Operator, plan: Plan, functions: Mapping[str, Function], *, at_once: bool, live: bool
    ) -> None:
        assert plan.counts is not None
        super().__init__(inner, Pieces(MANY, FIRST_PIECE))
        self._plan, self._functions = plan, functions
        self._counting, self.at_once = plan.counts, at_once
        self.table = CountTable(plan.counts, at_once=at_once, live=live)
        self._forget()

    def _forget(self) -> None:
        self._open: dict[int, Counter[tuple[Key, Asked]]] = {}  # by end: matches that are not settled
        self._shown: dict[Key, Sequence[Any]] = {}  # of groups that have such matches only
        self._ends: list[int] = []
        self.frontier = BEGINNING

    @property
    def _waiting(self) -> int:
        return sum(sum(each.values()) for each in self._open.values())

    def _push(self, items: Items) -> Changes:
        found = self._next.push(items)
        self._count_in(len(items), sum(map(len, found)))
        self.frontier = max(self.frontier, found.frontier)
        if self._following:  # these were counted before
            return Changes([], found.frontier, found.late)
        touched: dict[Key, None] = {}
        for batch in found:
            if batch.kind == MATCH and len(batch):
                touched |= dict.fromkeys(self._take(batch))
        touched |= dict.fromkeys(self._settle())
        rows = self.table.rows(touched, self.frontier)
        for row in rows:
            self.given += row.op > 0
            self.retracted += row.op < 0
        said = [batch for batch in found if batch.kind != MATCH]
        if rows:
            said.append(CountRows.of(self._plan, rows, self._functions))
        return Changes(said, self.frontier, found.late)

    def _count_in(self, rows: int, matches: int) -> None:
        """Choose the next piece; refuse where the smallest one brings too many matches."""
        if matches > MOST and rows <= LEAST_PIECE:
            raise TocsinError(
                f"{matches:,} matches end at {rows} event{'s' * (rows > 1)}: too many to count them one by one",
                detail=f"{why_not_counted(self._plan)}, so each match must be found",
                hint="a shorter WITHIN; or ask single events and the key only, then nothing is enumerated",
            )
        self._pieces.resize(rows, matches)

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
            group = self.table.group(key, self._shown.pop(key, ()))
            group.number += times
            for at, (total, value) in enumerate(zip(self._counting.totals, values, strict=True)):
                state = counted(total, group.totals[at], value, times)
                group.totals[at] = state if self.at_once else narrowed(total, state)

    def _keys(self, batch: ChangeBatch) -> list[Key]:
        """The group and the span of each match."""
        every = self._counting.every
        spans = [None] * len(batch) if every is None else (batch.span[1] // every).tolist()
        columns = [_group_column(batch, group) for group in self._counting.by]
        shown = list(zip(*columns, strict=True)) if columns else [()] * len(batch)
        keys = [(tuple(map(normal, values)), span) for values, span in zip(shown, spans, strict=True)]
        for key, values in zip(keys, shown, strict=True):
            if key not in self.table.groups:
                self._shown.setdefault(key, values)
        return keys

    # --- state ------------------------------------------------------------------------------------------------------

    @property
    def memory(self) -> bytes:
        """What was counted, and the matches that are not settled."""
        words = {
            "frontier": self.frontier,
            "counts": [self.given, self.retracted],
            "groups": self.table.saved(),
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
            self.table.restore(stored["groups"])
            totals = self._counting.totals
            for end, group, span, shown, values, times in as_shape(SavedOpen, stored["open"]):
                key: Key = (tuple(group), span)
                if key not in self.table.groups:
                    self._shown.setdefault(self.table.key(group, span, shown), tuple(shown))
                if not all(_may_ask(total, value) for total, value in zip(totals, values, strict=True)):
                    raise ValueError("a match has values of another kind")
                self._open.setdefault(end, Counter())[key, tuple(map(one_nan, values))] += times
            self._ends = list(self._open)
            heapify(self._ends)


def _may_ask(total: Total, value: object) -> bool:
    """Whether a stored value can be what an aggregate asks of a match: of `count` only whether something is there."""
    if total.arg is None or total.function == "count":
        return value is None or value is True
    return fits(total.arg.kind, value)


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
