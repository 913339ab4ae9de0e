"""Endpoints in settled order: of events whose starts a constraint names, the start is passed on as a row of its own.

A start is known when its event has come, so it is settled where no longer event can come any more: when the ends of the
type are complete by the longest that one of them may last (`longest=` in the schema). Begins that are announced are not
read: the whole interval is the truth.

Paper: Li 2010, 6.3; the order of starts and ends is that of the endpoint letters of spec 000, 7.4.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tocsin.encode.merge import join, replaced, take
from tocsin.encode.stored import RowReader
from tocsin.engine.changes import Changes
from tocsin.engine.operator import Operator
from tocsin.engine.stream_time import StreamTime
from tocsin.events import BEGINNING, END_OF_TIME
from tocsin.items import Bools, Items, end, guarantee
from tocsin.order.settled import Settled, canonical


class SettledEndpoints(Settled):
    """Holds events until their ends are settled, and passes their starts on before, when these are.

    starts   for the code of each type whose starts are asked for the code of these
    longest  by type, how long its events may last
    """

    def __init__(
        self, inner: Operator, time: StreamTime, reader: RowReader, key: tuple[str, ...],
        starts: Mapping[int, int], longest: Mapping[str, int],
    ) -> None:  # fmt: skip
        super().__init__(inner, time, reader, key)
        self._starts, self._longest = dict(starts), longest

    def _until(self) -> int:
        time = self.time
        if time.ended:
            return END_OF_TIME
        found = time.open_from(time.mine, time.clock) - 1
        for code in self._starts:
            longest = self._longest.get(type := time.types[code])
            if longest is None:  # nobody knows what is still open
                return BEGINNING
            found = min(found, time.open_from((type,), time.clock) - 1 - longest)
        return max(found, BEGINNING)

    def _release(self) -> Changes:
        until, said = self._until(), Changes(frontier=self.frontier)
        if until <= self.passed:
            return said
        ripe = [piece for items in self.held for piece in self._endpoints(items, until) if len(piece)]
        self.held = [rest for rest in (take(items, items.end > until) for items in self.held) if len(rest)]
        if ripe:
            said.add(self._next.push(canonical(join(ripe), self._key)))
        said.add(self._next.push(end() if self.time.ended else guarantee(until)))
        self.passed, self.frontier = until, said.frontier
        self.names.forget(until)
        return said

    def _endpoints(self, items: Items, until: int) -> list[Items]:
        """The ends of some events, and their starts, as far as they are settled now and were not before."""
        found = [take(items, items.end <= until)]
        new: Bools = (items.start > self.passed) & (items.start <= until)
        for code, start in self._starts.items():
            mine = take(items, new & (items.types == code))
            found.append(replaced(mine, types=np.full(len(mine), start, np.int32), end=mine.start))
        return found
