"""Rows that an operator holds back, as a table and back again.

Only what results show is stored, and the eids. Attributes are encoded anew when the rows are read, so a state can be
taken up under a schema that has grown since.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tocsin.encode.batch import Encoder
from tocsin.items import Items, Strings
from tocsin.schema import Schema

OWN = ("#high", "#low", "#kind")


@dataclass(frozen=True, slots=True)
class RowReader:
    """Reads stored rows with the codes of types, texts and sources that an operator's items have."""

    schema: Schema
    types: tuple[str, ...]
    strings: Strings
    sources: Strings
    wanted: tuple[str, ...]

    def items(self, rows: pa.RecordBatch) -> Items:
        """The items that `stored_rows` stored."""
        own = {name: rows.column(name).to_numpy().copy() for name in OWN if name in rows.schema.names}
        rows = without_nulls(rows.drop_columns(list(own)) if own else rows)
        encoder = Encoder.of_payload(self.schema, self.types, self.strings, rows.schema, self.wanted)
        encoder.sources = self.sources
        items = encoder.encode(rows)
        if "#high" in own:
            items.eid_high, items.eid_low = own["#high"], own["#low"]
        items.kinds = own["#kind"].astype(np.int8) if "#kind" in own else None
        return items

    def all(self, tables: Iterable[pa.Table]) -> list[Items]:
        """Several pieces, in their order."""
        return [self.items(batch) for table in tables for batch in table.combine_chunks().to_batches()]


def without_nulls(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Rows without the attributes that are null in all of them: those have whatever kind the schema has by now."""
    empty = [
        field.name for field, column in zip(rows.schema, rows.columns, strict=True) if column.null_count == len(rows)
    ]
    return rows.drop_columns([name for name in empty if name not in ("type", "start", "end", "eid")])


def stored_rows(items: Items) -> pa.RecordBatch:
    """Events and withdrawals as a table."""
    rows = items.payload
    for name, values in zip(OWN, (items.eid_high, items.eid_low, items.kinds), strict=True):
        if values is not None:
            rows = rows.append_column(name, pa.array(values))
    return rows
