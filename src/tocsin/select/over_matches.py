"""What operators over the matches of a query have in common: pushes in pieces, what they count, and their state."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import ClassVar

from tocsin.codec import Part, decode, nested, only_part, within
from tocsin.engine.changes import Changes
from tocsin.engine.operator import Counters, Nesting, Operator
from tocsin.engine.texts import of_operators
from tocsin.events import BEGINNING
from tocsin.items import Ints, Items
from tocsin.select.pieces import Pieces


class OverMatches(Nesting):
    """Stands around `inner`. All that a replay of stored events would not bring back is its `memory`.

    kind       what its part of a snapshot is called
    given      how many rows it has given, and `retracted`
    following  events are being replayed, whose matches it has seen before
    """

    kind: ClassVar[str]

    def __init__(self, inner: Operator, pieces: Pieces) -> None:
        self.inner: tuple[Operator, ...] = (inner,)
        self._next, self._pieces = inner, pieces
        self._following = False
        self.frontier = BEGINNING
        self.given = self.retracted = 0

    @property
    def counters(self) -> Counters:
        total = self._next.counters
        waiting = total.waiting + self._waiting
        return replace(total, matches=self.given, retracted=self.retracted, waiting=waiting)

    @property
    def _waiting(self) -> int:
        """How many matches wait here."""
        raise NotImplementedError

    @property
    def texts_in_use(self) -> Ints:
        return of_operators(self.inner)

    def push(self, items: Items) -> Changes:
        """Take in the matches that some items bring, a piece at a time; what follows from them."""
        return self._pieces.push(items, self._push)

    def _push(self, items: Items) -> Changes:
        raise NotImplementedError

    # --- state ---

    @property
    def memory(self) -> bytes:
        raise NotImplementedError

    def resume(self, memory: bytes) -> None:
        """After events were replayed: go on from what was remembered."""
        raise NotImplementedError

    def snapshot(self, since: int = 0) -> list[Part]:
        return [Part(self.kind, 0, self.memory), *nested("inner", self._next.snapshot(since))]

    def restore(self, parts: Iterable[Part]) -> None:
        parts = list(parts)
        memory = only_part(self.kind, parts).data
        decode(memory, self.kind)
        self._next.restore(within("inner", parts))
        self.resume(memory)
