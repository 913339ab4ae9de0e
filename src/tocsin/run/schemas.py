"""Schemas of inputs: what a finite input says about its own types and attributes, and what a live one adds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import pyarrow as pa

from tocsin.encode.columns import Columns, infer_schema
from tocsin.encode.row_types import RowTypes
from tocsin.errors import InputError
from tocsin.schema import Field, Kind, Schema


def schema_of(table: pa.Table, columns: Columns, row_types: RowTypes | None = None) -> Schema:
    """What a finite input says of itself: exactly these types, each with the attributes it ever has.

    An attribute that has no null belongs to all types; the others to the types that show a value.
    """
    if not table.num_rows or not table.num_columns:  # a slice of a table without columns claims to have rows
        return Schema(open_types=True, open_fields=True, unit=columns.unit or "us")
    found = RowTypes.of(table.column(columns.type)) if row_types is None else row_types
    return schema_from(
        table.schema, columns, found.occurring(), rows=table.num_rows,
        nulls={name: table.column(name).null_count for name in table.schema.names},
        showing=lambda name: found.showing(table.column(name)),
    )  # fmt: skip


def schema_from(
    table: pa.Schema,
    columns: Columns,
    occurring: Iterable[str],
    *,
    rows: int,
    nulls: Mapping[str, int],
    showing: Callable[[str], Iterable[str]],
) -> Schema:
    """A schema from what is known of rows: the types that occur, how many there are, and of each column the nulls.

    `showing` says for a column with nulls which types have a value there.
    """
    whole = infer_schema(table, columns, occurring)
    partial = [name for name in whole.common if nulls[name]]
    if not partial:
        return whole
    common = {name: field for name, field in whole.common.items() if name not in partial}
    types: dict[str, dict[str, Field]] = {name: {} for name in whole.types}
    for name in partial:
        for type in showing(name):
            types[type][name] = whole.common[name]
        if nulls[name] == rows:
            common[name] = Field(name, Kind.NULL)
    return replace(whole, types=types, common=common)


def type_texts(table: pa.Table, columns: Columns) -> pa.ChunkedArray:
    column = table.column(columns.type)
    if pa.types.is_dictionary(column.type) or column.type != pa.string():
        column = column.cast(pa.string())
    return column


def merged(known: Schema, news: Schema) -> Schema:
    """What is known of a live stream after a new batch: attributes are added, whole numbers may become floats."""
    common = dict(known.common)
    for name, field in news.common.items():
        common[name] = _together(common.get(name), field)
    return replace(
        known, common=common, intervals=known.intervals or news.intervals, clashes=known.clashes | news.clashes,
        unreadable={**known.unreadable, **news.unreadable}, eid=news.eid if known.eid is Kind.NULL else known.eid,
    )  # fmt: skip


def _together(old: Field | None, new: Field) -> Field:
    if old is None or old.kind is Kind.NULL:
        return new
    if new.kind is Kind.NULL or (old.kind, old.scale) == (new.kind, new.scale):
        return old
    kinds = {old.kind, new.kind}
    if kinds == {Kind.INT, Kind.FLOAT}:
        return Field(old.name, Kind.FLOAT)
    if kinds <= {Kind.INT, Kind.DECIMAL}:
        return Field(old.name, Kind.DECIMAL, max(old.scale, new.scale))
    raise InputError(
        f"attribute {old.name!r} is {new.kind} now and was {old.kind} before",
        hint="an attribute has one kind in all events: convert it, or use two attributes",
    )
