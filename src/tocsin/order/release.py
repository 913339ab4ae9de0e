"""Ordered release: held answers leave in order of time, each when nothing earlier can come any more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count

import numpy as np

from tocsin.engine.changes import Changes
from tocsin.events import BEGINNING
from tocsin.functions import Function
from tocsin.order.kept import packed, unpacked
from tocsin.plan.block import Plan


@dataclass(slots=True)
class InOrder:
    """Answers that wait for those before them. The order is that of the last event, then of the one before it, ..."""

    waiting: list[tuple[tuple[int, ...], int, Changes, int]] = field(default_factory=list)
    numbers: count[int] = field(default_factory=count)

    def take(self, changes: list[Changes], frontier: int) -> list[Changes]:
        """Take in answers; give those that end at or before the frontier."""
        for piece in changes:
            for row, key in enumerate(_keys(piece)):
                heappush(self.waiting, (key, next(self.numbers), piece, row))
        out: list[Changes] = []
        while self.waiting and self.waiting[0][0][0] <= frontier:
            _, _, piece, row = heappop(self.waiting)
            out.append(piece.pick(np.array([row])))
        return out

    def saved(self) -> bytes:
        """What waits, as bytes."""
        return packed([(piece, row) for _, _, piece, row in sorted(self.waiting, key=lambda each: each[:2])])

    def restore(self, data: bytes, plan: Plan, functions: Mapping[str, Function]) -> None:
        """Wait for the same again."""
        changes = unpacked(data, plan, functions)
        if changes is not None:
            self.take([changes], BEGINNING)


def _keys(piece: Changes) -> list[tuple[int, ...]]:
    """For each change its last end, and then the ends of its events from the last variable to the first."""
    if not len(piece):
        return []
    columns = [piece.span[1]]
    for index in reversed(piece.visible):
        if index in piece.repeated:
            members = piece.repeated[index]
            ends = piece.rows.end[piece.rows.at(members.events)]
            columns.append(np.maximum.reduceat(np.append(ends, 0), members.offsets[:-1]) if len(ends) else columns[0])
        else:
            at = piece.rows.at(piece.fixed[index])
            columns.append(np.where(piece.fixed[index] >= 0, piece.rows.end[at], 0))
    return list(zip(*(column.tolist() for column in columns), strict=True))
