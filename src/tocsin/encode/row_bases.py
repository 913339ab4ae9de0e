"""Where rows stand until somebody shows them: a batch, a table, columns of whoever made them, or pieces of all these.

A result shows few of the rows that a query reads. Matches that other queries read are rows, too: they stay the columns
that they were found as (`UnmadeRows`), and become Arrow batches where a result shows them, or a state is saved.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, TypeAlias, TypeGuard

import numpy as np
import pyarrow as pa

from tocsin.encode.arrow import one_array
from tocsin.encode.gather import all_taken
from tocsin.encode.late import with_values
from tocsin.items import Ints


class UnmadeRows(Protocol):
    """Rows that become a batch where they are asked for."""

    @property
    def num_rows(self) -> int: ...

    @property
    def nbytes(self) -> int: ...

    def at(self, places: Ints) -> pa.RecordBatch:
        """Some rows, in this order."""

    def some(self, places: Ints) -> UnmadeRows:
        """Some rows, in this order, and no others."""

    def with_more(self, others: Sequence[Any]) -> UnmadeRows | None:
        """These rows and those of others behind them; None: they are of different sorts."""


Base: TypeAlias = pa.RecordBatch | pa.Table | UnmadeRows
Chosen: TypeAlias = tuple[Base, Ints | None]  # rows, and the places of those that are meant; None: all, as they stand


def is_late(base: Base) -> TypeGuard[UnmadeRows]:
    """Whether rows are not made yet."""
    return not isinstance(base, pa.RecordBatch | pa.Table)


class JoinedRows:
    """Rows of several sorts: row i is row `order[i]` of all bases, one behind the other."""

    def __init__(self, bases: Sequence[Base], order: Ints) -> None:
        self.bases, self.order = list(bases), order
        self.begins: Ints = np.cumsum([0, *(base.num_rows for base in self.bases)])

    @classmethod
    def of(cls, chosen: Sequence[Chosen]) -> JoinedRows:
        """What was chosen, one after the other. Of rows that are made, no others are kept."""
        bases: list[Base] = []
        orders, total = [], 0
        for base, order in chosen:
            if not is_late(base) and order is not None:
                base, order = rows_at(base, order), None
            bases.append(base)
            orders.append((np.arange(base.num_rows) if order is None else order) + total)
            total += base.num_rows
        return cls(bases, np.concatenate(orders))

    @property
    def num_rows(self) -> int:
        return len(self.order)

    @property
    def nbytes(self) -> int:
        return sum(int(base.nbytes) for base in self.bases) + self.order.nbytes

    def found(self, places: Ints) -> tuple[Ints, Ints]:
        """In which base some rows stand, and where there."""
        wanted = self.order[places]
        owners = np.searchsorted(self.begins, wanted, "right") - 1
        return owners, wanted - self.begins[owners]

    def at(self, places: Ints) -> pa.RecordBatch:
        owners, within = self.found(places)
        parts, back, done = [], np.empty(len(places), np.int64), 0
        for owner in np.unique(owners).tolist():
            mine = np.flatnonzero(owners == owner)
            parts.append(rows_at(self.bases[owner], within[mine]))
            back[mine] = np.arange(done, done := done + len(mine))
        if not parts:
            return rows_at(self.bases[0], places)
        return parts[0] if len(parts) == 1 else stacked(parts).take(pa.array(back))

    def some(self, places: Ints) -> UnmadeRows:
        return compacted([(self, places)])

    def with_more(self, others: Sequence[Any]) -> UnmadeRows | None:
        return compacted([(each, None) for each in (self, *others)])


def compacted(chosen: Sequence[Chosen]) -> JoinedRows:
    """What was chosen and nothing else, one after the other, in as few pieces as there are sorts of rows."""
    made: list[tuple[pa.RecordBatch, Ints]] = []
    late: dict[type, list[tuple[UnmadeRows, Ints, Ints]]] = {}
    total = 0
    for base, order in chosen:
        wanted = np.arange(base.num_rows) if order is None else order
        for leaf, within, mine in _leaves(base, wanted):
            if is_late(leaf):
                if len(within) != leaf.num_rows:  # what nobody wants any more is not kept
                    leaf, within = leaf.some(within), np.arange(len(within))
                late.setdefault(type(leaf), []).append((leaf, within, mine + total))
            else:
                made.append((rows_at(leaf, within), mine + total))
        total += len(wanted)
    found: list[tuple[Base, Ints, Ints]] = []  # rows, their places there, and where these stand in the end
    if made:
        whole = stacked([rows for rows, _ in made])
        found.append((whole, np.arange(whole.num_rows), np.concatenate([mine for _, mine in made])))
    for several in late.values():
        found += _as_one(several)
    order, begin = np.empty(total, np.int64), 0
    for base, within, mine in found:
        order[mine] = within + begin
        begin += base.num_rows
    return JoinedRows([base for base, _, _ in found], order)


def _leaves(base: Base, wanted: Ints) -> Iterator[tuple[Base, Ints, Ints]]:
    """The bases of some rows, each with the places of those that are in it, and where they stand among all."""
    if not isinstance(base, JoinedRows):
        yield base, wanted, np.arange(len(wanted))
        return
    owners, within = base.found(wanted)
    for owner in np.unique(owners).tolist():
        mine = np.flatnonzero(owners == owner)
        for leaf, places, inner in _leaves(base.bases[owner], within[mine]):
            yield leaf, places, mine[inner]


def _as_one(several: list[tuple[UnmadeRows, Ints, Ints]]) -> Sequence[tuple[Base, Ints, Ints]]:
    """Late rows of one class as one base, if they are of one sort."""
    bases = [base for base, _, _ in several]
    whole = bases[0].with_more(bases[1:]) if len(bases) > 1 else bases[0]
    if whole is None:
        return several
    begins = np.cumsum([0, *(base.num_rows for base in bases[:-1])]).tolist()
    places = np.concatenate([within + begin for (_, within, _), begin in zip(several, begins, strict=True)])
    return [(whole, places, np.concatenate([mine for _, _, mine in several]))]


def rows_at(base: Base, places: Ints) -> pa.RecordBatch:
    """Some rows of a batch, of a table in whatever pieces, or of what is not made yet, as one batch."""
    if is_late(base):
        return base.at(places)
    made: Any = base
    if isinstance(made, pa.RecordBatch):
        return pa.RecordBatch.from_arrays(all_taken(made.columns, places), schema=made.schema)
    found = with_values(pa.table(all_taken(made.columns, places), schema=made.schema))
    return pa.RecordBatch.from_arrays([one_array(column) for column in found.columns], schema=found.schema)


def stacked(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """All rows under one schema; where an eid is a number here and a text there, all are shown as texts."""
    if not batches[0].num_columns:
        return batches[0]
    tables = [pa.Table.from_batches([batch]) for batch in batches]
    if any(batch.schema != batches[0].schema for batch in batches):
        tables = [without_dictionaries(table) for table in tables]
    try:
        table = pa.concat_tables(tables, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        tables = [_without_empty(_wide(_text_eids(each))) for each in tables]
        table = pa.concat_tables(tables, promote_options="permissive")
    found = table.unify_dictionaries().combine_chunks().to_batches()
    return found[0] if found else batches[0]


def without_dictionaries(table: pa.Table) -> pa.Table:
    """The table with plain columns: dictionaries that differ cannot be joined, nor one with a plain column."""
    for place, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            table = table.set_column(place, field.name, table.column(place).cast(field.type.value_type))
    return table


def _wide(table: pa.Table) -> pa.Table:
    """With decimals that have room for every whole number: an attribute may be whole here and a decimal there."""
    for place, field in enumerate(table.schema):
        if pa.types.is_decimal(field.type):
            table = table.set_column(place, field.name, table.column(place).cast(pa.decimal128(38, field.type.scale)))
    return table


def _without_empty(table: pa.Table) -> pa.Table:
    """Columns of nulls say nothing of their type: that of a time that has not come may be a date elsewhere."""
    for place, field in enumerate(table.schema):
        if table.column(place).null_count == table.num_rows and table.num_rows:
            table = table.set_column(place, field.name, pa.nulls(table.num_rows))
    return table


def _text_eids(table: pa.Table) -> pa.Table:
    place = table.schema.get_field_index("eid")
    return table if place < 0 else table.set_column(place, "eid", table.column(place).cast(pa.string()))
