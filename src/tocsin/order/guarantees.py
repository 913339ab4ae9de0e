"""Guarantees: what sources have promised about events to come, and what follows for each event type.

A promise names a type or all, a source or all, and a time: every later event of that type from that source ends after
it. For a type as a whole the slowest source counts. Promises may come late, twice or out of order: a lower one says
nothing new. What follows for a type is known as soon as all its sources are: those that were named in advance, or
those that have shown themselves by an event or a promise. A source that shows itself only later is bound by what was
concluded without it.

Paper: Liu et al. 2009, VI.A, where a promise is a partial order guarantee (POG); elsewhere it is a punctuation.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tocsin.events import BEGINNING


@dataclass(slots=True)
class Guarantees:
    """Promises by source and type ("*": all), and what each type was last said to be guaranteed."""

    types: tuple[str, ...]
    sources: set[str] = field(default_factory=set)
    promised: dict[tuple[str | None, str | None], int] = field(default_factory=dict)  # (type, source) -> time
    settled: dict[str, int] = field(default_factory=dict)
    backwards: int = 0  # promises that say less than an earlier one
    unknown: int = 0  # promises about types that no query reads

    def promise(self, type: str | None, source: str | None, time: int) -> list[tuple[str, int]]:
        """Take a promise; the types whose guarantee grows, with the new one."""
        if type is not None and type not in self.types:
            self.unknown += 1
            return []
        if source is not None:
            self.sources.add(source)
        before = self.promised.get((type, source), BEGINNING)
        if time <= before:
            self.backwards += time < before
            return []
        self.promised[type, source] = time
        return self._grown(self.types if type is None else (type,))

    def continue_from(self, old: Guarantees) -> None:
        """Know what another one knows about the same types."""
        self.sources, self.promised, self.settled = set(old.sources), dict(old.promised), dict(old.settled)
        self.backwards, self.unknown = old.backwards, old.unknown

    def conclude(self) -> list[tuple[str, int]]:
        """What follows for each type by now, also for those that were not read when it was promised."""
        self._grown(self.types)
        return [(type, self.settled[type]) for type in self.types if type in self.settled]

    def meet(self, sources: Iterable[str]) -> None:
        """Events of these sources have come: from now on their promises count."""
        self.sources.update(sources)

    def of(self, type: str, source: str | None = None) -> int:
        """The guarantee of a type and source: no later event ends at or before it; promised, or concluded for all."""
        return max(self._said(type, source), self.settled.get(type, BEGINNING))

    def _said(self, type: str, source: str | None) -> int:
        """What was promised of a type, or of its events from one source."""
        sources = (None,) if source is None else (None, source)
        return max(self.promised.get((each, whose), BEGINNING) for each in (type, None) for whose in sources)

    def _grown(self, types: Iterable[str]) -> list[tuple[str, int]]:
        grown = []
        for type in types:
            time = min((self._said(type, source) for source in self.sources), default=BEGINNING)
            time = max(time, self._said(type, None))
            if time > self.settled.get(type, BEGINNING):
                self.settled[type] = time
                grown.append((type, time))
        return grown
