"""Ordered release: held answers leave in order of time, each when nothing earlier can come any more.

Paper: Li 2010, 4.4: results in order of their last event, then of the one before it, and so on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from heapq import heapify, heappop, heappush
from itertools import count

import numpy as np

from tocsin.codec import Part, nested, only_part, within
from tocsin.encode.content import Words
from tocsin.engine.changes import ChangeBatch, Changes
from tocsin.engine.operator import Counters, Nesting, Operator
from tocsin.engine.snapshot import answer_names
from tocsin.engine.texts import of_operators
from tocsin.functions import Function
from tocsin.items import Bools, Ints, Items
from tocsin.order.kept import packed, unpacked_by_step
from tocsin.plan.block import Plan


class Release(Nesting):
    """Answers of `inner` that wait for those before them."""

    def __init__(self, inner: Operator, plan: Plan, functions: Mapping[str, Function]) -> None:
        self.inner: tuple[Operator, ...] = (inner,)
        self._next, self._plan, self._functions = inner, plan, functions
        self.waiting: list[tuple[tuple[int, ...], int, ChangeBatch, int]] = []
        self._numbers = count()

    @property
    def counters(self) -> Counters:
        return self._next.counters

    @property
    def texts_in_use(self) -> Ints:
        return of_operators(self.inner)

    def push(self, items: Items) -> Changes:
        """Take in what the inner operator answers; give the answers that end at or before its frontier."""
        if items.single:  # the short way does not say how far time has passed
            items = items.copy()  # type: ignore[attr-defined]
        found = self._next.push(items)
        self.wait(found)
        out: list[ChangeBatch] = []
        while self.waiting and self.waiting[0][0][0] <= found.frontier:
            _, _, batch, row = heappop(self.waiting)
            out.append(batch.pick(np.array([row])))
        return Changes(out, found.frontier, found.late)

    def wait(self, changes: Iterable[ChangeBatch]) -> None:
        """Let answers wait for their turn."""
        for batch in changes:
            for row, key in enumerate(_keys(batch)):
                heappush(self.waiting, (key, next(self._numbers), batch, row))

    @property
    def names(self) -> Words:
        """The names of the answers that wait (`engine/snapshot`)."""
        called = {id(batch): answer_names(batch) for _, _, batch, _ in self.waiting}
        return np.array([called[id(batch)][row] for _, _, batch, row in self.waiting], np.uint64)

    def hold_only(self, wanted: Callable[[Words], Bools]) -> None:
        """Let go of the answers that wait, but for those that are wanted by their names."""
        self.waiting = [each for each, stays in zip(self.waiting, wanted(self.names).tolist(), strict=True) if stays]
        heapify(self.waiting)

    def snapshot(self, since: int = 0) -> list[Part]:
        waiting = [(batch, row) for _, _, batch, row in sorted(self.waiting, key=lambda each: each[:2])]
        return [Part("release", 0, packed(waiting)), *nested("inner", self._next.snapshot(since))]

    def restore(self, parts: Iterable[Part]) -> None:
        parts = list(parts)
        waiting = unpacked_by_step(only_part("release", parts).data, self._plan, self._functions)
        self._next.restore(within("inner", parts))
        self.waiting = []
        self.wait(waiting)


def _keys(batch: ChangeBatch) -> list[tuple[int, ...]]:
    """For each change its last end, and then the ends of its events from the last variable to the first."""
    if not len(batch):
        return []
    columns = [batch.span[1]]
    for index in reversed(batch.visible):
        if index in batch.repeated:
            members = batch.repeated[index]
            ends = batch.rows.end[batch.rows.at(members.events)]
            columns.append(np.maximum.reduceat(np.append(ends, 0), members.offsets[:-1]) if len(ends) else columns[0])
        else:
            at = batch.rows.at(batch.fixed[index])
            columns.append(np.where(batch.fixed[index] >= 0, batch.rows.end[at], 0))
    return list(zip(*(column.tolist() for column in columns), strict=True))
