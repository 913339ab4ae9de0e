"""The matches of one push: as dicts at once, as a table if somebody asks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa

from tocsin.engine.changes import ChangeBatch
from tocsin.engine.match_dicts import as_dicts
from tocsin.engine.tables import with_times
from tocsin.run.matches import Matches


class LiveMatches(Matches):
    """Parts are tables, and changes that can be shown as dicts without one; `time` is how the input has its times.

    `counters` says what the session has seen; it is asked when somebody looks, which few do after each event.
    """

    def __init__(
        self, parts: Sequence[pa.Table | ChangeBatch], time: pa.DataType | None, counters: Callable[[], dict[str, int]]
    ) -> None:
        self._parts, self._time, self._count_now = list(parts), time, counters
        self.notes = ()

    @cached_property
    def counters(self) -> dict[str, int]:  # type: ignore[override]  # of other matches it is there from the start
        """What the session had seen when this was first looked at."""
        return self._count_now()

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for part in self._parts:
            if isinstance(part, ChangeBatch):
                yield from as_dicts(part, self._time)
            else:
                yield from Matches([part])

    @property
    def _tables(self) -> list[pa.Table]:
        self._parts = [
            with_times(part.table(), self._time) if isinstance(part, ChangeBatch) else part for part in self._parts
        ]
        return self._parts

    @_tables.setter
    def _tables(self, tables: list[pa.Table]) -> None:
        self._parts = tables
