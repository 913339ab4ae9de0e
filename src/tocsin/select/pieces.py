"""Pushes in pieces: where events bring very many matches, few rows are pushed at once, so few matches are in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tocsin.encode.merge import sliced
from tocsin.engine.changes import Changes
from tocsin.items import Items

LEAST_PIECE = 8  # rows


@dataclass(slots=True)
class Pieces:
    """How many rows are pushed at once.

    many   matches that one piece should bring at most
    rows   of the next piece
    whole  push everything at once
    """

    many: int
    rows: int
    whole: bool = False

    def push(self, items: Items, push: Callable[[Items], Changes]) -> Changes:
        """Push some items, a piece at a time; what is said of them together."""
        if items.single:  # the short way does not say how far time has passed
            items = items.copy()  # type: ignore[attr-defined]
        if self.whole or items.kinds is not None or len(items) <= self.rows:
            return push(items)
        said, late, at = Changes(), [], 0
        while at < len(items):
            piece = sliced(items, at, min(self.rows, len(items) - at))
            some = push(piece)
            late += [at + place for place in some.late]
            at += len(piece)
            said.add(some)
        said.late = late
        return said

    def resize(self, rows: int, matches: int) -> None:
        """After a piece of so many rows that brought so many matches: smaller or larger ones."""
        if matches > self.many:
            self.rows = max(LEAST_PIECE, min(self.rows, rows) // 4)
        elif matches < self.many // 16 and rows >= self.rows:
            self.rows *= 2
