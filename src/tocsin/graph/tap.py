"""A tap between a query and the operators around it: later queries read all its matches, whatever those report."""

from __future__ import annotations

from collections.abc import Iterable

from tocsin.codec import Part
from tocsin.engine.changes import Changes
from tocsin.engine.operator import Counters, Nesting, Operator
from tocsin.events import BEGINNING
from tocsin.items import Ints, Items


class Tap(Nesting):
    """Hands everything on unchanged, and keeps the changes until the readers of the query take them."""

    def __init__(self, inner: Operator) -> None:
        self.inner: tuple[Operator, ...] = (inner,)
        self._next = inner
        self._said = Changes()
        self.frontier = BEGINNING

    def push(self, items: Items) -> Changes:
        found = self._next.push(items)
        self._said.add(found)
        self.frontier = max(self.frontier, found.frontier)
        return found

    def taken(self) -> Changes:
        """The changes since the last time."""
        said, self._said = self._said, Changes()
        return said

    @property
    def counters(self) -> Counters:
        return self._next.counters

    @property
    def texts_in_use(self) -> Ints:
        return self._next.texts_in_use

    def snapshot(self, since: int = 0) -> list[Part]:
        return self._next.snapshot(since)

    def restore(self, parts: Iterable[Part]) -> None:
        self._next.restore(parts)
