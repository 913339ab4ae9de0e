"""What a live session saves beside the state of its graph: the schema that it has learnt."""

from __future__ import annotations

from typing import Any

from tocsin.codec import reading
from tocsin.schema import Field, Kind, Schema


def schema_words(schema: Schema) -> dict[str, Any]:
    """A schema as plain values."""
    return {
        "types": {name: [_field(each) for each in fields.values()] for name, fields in schema.types.items()},
        "common": [_field(each) for each in schema.common.values()],
        "open": [schema.open_types, schema.open_fields],
        "unit": schema.unit,
        "intervals": schema.intervals,
        "eid": None if schema.eid is None else str(schema.eid),
    }


def schema_from(words: dict[str, Any]) -> Schema:
    """The schema that `schema_words` described."""
    with reading("the schema of the saved state"):
        types = {name: _fields(each) for name, each in words["types"].items()}
        open_types, open_fields = words["open"]
        eid = words.get("eid", Kind.NULL)  # states of 0.2 do not say
        return Schema(
            types, _fields(words["common"]), open_types, open_fields, words["unit"], words["intervals"],
            eid=None if eid is None else Kind(eid),
        )  # fmt: skip


def _field(field: Field) -> list[Any]:
    return [field.name, str(field.kind), field.scale, field.nullable, field.digits]


def _fields(rows: list[list[Any]]) -> dict[str, Field]:
    return {name: Field(name, Kind(kind), *rest) for name, kind, *rest in rows}
