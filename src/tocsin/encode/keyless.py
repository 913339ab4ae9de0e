"""Events without a key: count those that a query does not see, because an attribute of its key is missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.encode.arrow import marks
from tocsin.events import ANY
from tocsin.items import Bools, Items

Needs = Mapping[str, frozenset[str]]  # attributes, each with the types of events that must have it


class KeyCheck:
    """Counts the items that lack an attribute that they need; for `types` as the items number them."""

    def __init__(self, needs: Needs, types: Sequence[str]) -> None:
        known = {attr: [type in mine or ANY in mine for type in types] for attr, mine in needs.items()}
        self._asked = {attr: np.array([*mine, False, False]) for attr, mine in known.items()}  # behind: EVERY, UNREAD

    def count(self, items: Items) -> int:
        """How many events a query does not see."""
        lacking: Bools | None = None
        for attr, types in self._asked.items():
            column = items.columns.get(attr)
            nowhere = None if column is None else column.valid
            if column is not None and column.values.dtype.kind == "f":
                real = column.values == column.values  # NaN equals nothing
                nowhere = real if nowhere is None else nowhere & real
            if column is None or (nowhere is not None and not nowhere.all()):
                mine = types[items.types] if nowhere is None else types[items.types] & ~nowhere
                lacking = mine if lacking is None else lacking | mine
        return 0 if lacking is None else int(np.count_nonzero(lacking))


def keyless_rows(rows: pa.RecordBatch, type_column: str, needs: Needs) -> Bools:
    """Which rows of a batch lack an attribute that events of their type need; a column that is not there is missing."""
    found: Bools = np.zeros(rows.num_rows, np.bool_)
    for attr, types in needs.items():
        place = rows.schema.get_field_index(attr)
        values = rows.column(place) if place >= 0 else pa.nulls(rows.num_rows)
        missing = pc.is_null(values, nan_is_null=True)
        if missing.true_count:
            if ANY in types:
                found |= marks(missing)
                continue
            asked = pc.is_in(rows.column(type_column), pa.array(sorted(types), pa.string()))
            found |= marks(missing) & marks(asked)
    return found
