"""Rows of kind `early`: bindings that are certain to match before their intervals have ended, as changes of a query."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.engine.changes import ChangeBatch
from tocsin.engine.payload import Rows
from tocsin.events import END_OF_TIME
from tocsin.items import Ints


@dataclass
class EarlyRows(ChangeBatch):
    """Early answers. The end of an open interval, and that of the row, is null.

    owing  for each answer what is missing until its match is certain: by type the last tick up to which events, and
           ends of open intervals, are still to be known
    """

    owing: list[Mapping[str, int]] = field(default_factory=list)

    def pick(self, keep: Ints) -> EarlyRows:
        found = super().pick(keep)
        assert isinstance(found, EarlyRows)
        return replace(found, owing=[self.owing[at] for at in keep.tolist()])

    def between(self, begin: int, end: int) -> EarlyRows:
        return self.pick(np.arange(begin, end))

    @cached_property
    def rows(self) -> Rows:
        """The rows of all events that the answers mention; those of open intervals have no end."""
        rows = ChangeBatch.rows.func(self)  # type: ignore[attr-defined]
        for known in (rows.shown, rows.without_types):
            if (ends := known.get("end")) is not None:
                known["end"] = pc.if_else(pa.array(rows.end >= END_OF_TIME), pa.scalar(None, ends.type), ends)
        return rows  # type: ignore[no-any-return]

    @cached_property
    def debt(self) -> dict[str, Ints]:
        """What each answer owes, by type: see `owing`."""
        types = sorted({type for each in self.owing for type in each})
        return {type: np.array([each.get(type, -END_OF_TIME) for each in self.owing], np.int64) for type in types}

    def table(self, names: Collection[str] | None = None) -> pa.Table:  # noqa: ARG002 - all are made
        """The rows; the end is null, because nobody knows it."""
        table = super().table()
        at = table.schema.names.index("end")
        return table.set_column(at, "end", pa.nulls(len(self), table.schema.field("end").type))
