"""Schemas as people declare them, and what a finite input says about its own types and attributes."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from tocsin.encode.columns import DECIMAL_DIGITS, Columns, infer_schema
from tocsin.encode.row_types import RowTypes
from tocsin.errors import InputError
from tocsin.lang.syntax import UNITS
from tocsin.schema import EID, Field, Kind, Schema

EVERY = "*"  # the name under which attributes of all types are declared


def declare(types: Mapping[str, Any], *, unit: str | None = None, intervals: bool = True) -> Schema:
    """A schema from names of types and their attributes; "*" stands for attributes that every type has.

    An `eid` among those is the kind of the eids, which conditions read as eid(x).

    >>> declare({"Shelf": {"tag": "text"}, "*": {"price": "decimal(2)"}}).field("Shelf", "price").scale
    2
    """
    check_unit(unit)
    if not isinstance(types, Mapping):
        raise InputError("a schema is an object of types", hint='for example {"Shelf": {"tag": "text"}}')
    fields: dict[str, dict[str, Field]] = {}
    for name, attrs in types.items():
        if not isinstance(attrs, Mapping):
            raise InputError(f"the attributes of {name!r} must be an object", hint='for example {"tag": "text"}')
        fields[name] = {attr: declared_field(attr, kind) for attr, kind in attrs.items()}
    common = fields.pop(EVERY, {})
    eid = common.pop(EID, None)
    if eid is not None and eid.kind not in (Kind.INT, Kind.TEXT):
        raise InputError(f"an eid cannot be {eid.kind}", hint="an eid is a whole number or a text: int or text")
    return Schema(
        types=fields, common=common, open_types=not fields, unit=unit, intervals=intervals,
        eid=None if eid is None else eid.kind,
    )  # fmt: skip


def declared_field(name: str, kind: Any) -> Field:
    """An attribute from its kind as text: int float text bool time decimal(SCALE)."""
    text = str(kind).strip().lower()
    decimal = re.fullmatch(r"decimal\s*\(\s*(\d{1,2})\s*\)", text)
    if decimal and int(decimal[1]) <= DECIMAL_DIGITS:
        return Field(name, Kind.DECIMAL, int(decimal[1]))
    if text in ("int", "float", "text", "bool", "time"):
        return Field(name, Kind(text))
    raise InputError(
        f"{kind!r} is no kind of attribute (of {name!r})",
        hint=f"use int, float, text, bool, time or decimal(PLACES) with at most {DECIMAL_DIGITS} places",
    )


def read_schema(path: Path, *, unit: str | None = None) -> Schema:
    """A schema from a JSON file: {"Shelf": {"tag": "text"}, "*": {...}}."""
    try:
        types = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as problem:
        raise InputError(f"{path} is not a schema", detail=f"it is not JSON: {problem}") from None
    return declare(types, unit=unit)


def check_unit(unit: str | None) -> None:
    if unit is not None and unit not in UNITS:
        raise InputError(f"{unit!r} is no unit of time", hint=f"use one of {', '.join(UNITS)}")


def schema_of(table: pa.Table, columns: Columns, row_types: RowTypes | None = None) -> Schema:
    """What a finite input says of itself: exactly these types, each with the attributes it ever has.

    An attribute that has no null belongs to all types; the others to the types that show a value.
    """
    if not table.num_rows or not table.num_columns:  # a slice of a table without columns claims to have rows
        return Schema(open_types=True, open_fields=True, unit=columns.unit or "us")
    found = RowTypes.of(table.column(columns.type)) if row_types is None else row_types
    whole = infer_schema(table.schema, columns, found.occurring())
    partial = [name for name in whole.common if table.column(name).null_count]
    if not partial:
        return whole
    common = {name: field for name, field in whole.common.items() if name not in partial}
    types: dict[str, dict[str, Field]] = {name: {} for name in whole.types}
    for name in partial:
        for type in found.showing(table.column(name)):
            types[type][name] = whole.common[name]
        if table.column(name).null_count == table.num_rows:
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
