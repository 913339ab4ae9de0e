"""The matches of one push: as dicts at once, as a table if somebody asks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from tocsin.engine.changes import ChangeBatch
from tocsin.engine.match_dicts import as_dicts
from tocsin.engine.tables import with_times
from tocsin.run.matches import Matches


class LiveMatches(Matches):
    """Parts are tables, and changes that can be shown as dicts without one; `time` is how the input has its times."""

    def __init__(
        self, parts: Sequence[pa.Table | ChangeBatch], time: pa.DataType | None, counters: Mapping[str, int]
    ) -> None:
        super().__init__([], counters)
        self._parts, self._time = list(parts), time

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
