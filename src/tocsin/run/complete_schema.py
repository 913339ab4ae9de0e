"""Complete the schema that the events show with what the queries mention, and note what looks strange."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from tocsin.encode.columns import Columns
from tocsin.lang.syntax import Attr, Not, Pattern, Query, items_of, leaves_of, named, walk
from tocsin.lang.syntax import Leaf as LeafNode
from tocsin.plan.problems import suggestion
from tocsin.run.schema_from_query import guessed_schema
from tocsin.run.schemas import schema_of
from tocsin.schema import Field, Schema


def known_of(table: pa.Table, columns: Columns, queries: Sequence[Query]) -> tuple[Schema, tuple[str, ...]]:
    """Return the schema of a finite input and notes about it; without events, the schema that the queries suggest."""
    if not table.num_rows:
        return guessed_schema(queries, columns.unit or "us"), ()
    return with_absent(schema_of(table, columns), queries)


def with_absent(schema: Schema, queries: Sequence[Query]) -> tuple[Schema, tuple[str, ...]]:
    """Add the types that queries only negate and that never occur: nothing violates those negations.

    A type that must occur and never does is left out, so that binding reports it.
    """
    names = {query.name for query in queries}
    wanted = {leaf.type for query in queries for leaf in positive(query.pattern)}
    reads = dict.fromkeys(leaf.type for query in queries for leaf in leaves_of(query.pattern))
    absent = [type for type in reads if not schema.has_type(type) and type not in wanted | names]
    if not absent:
        return schema, ()
    fields = {name: field for own in schema.types.values() for name, field in own.items()}
    new = {type: {**mentioned(type, queries, schema), **fields} for type in absent}
    notes = tuple(f"no event of type {type} occurs{remark(type, schema)}" for type in absent)
    return replace(schema, types={**schema.types, **new}), notes


def remark(type: str, schema: Schema) -> str:
    meant = suggestion(type, schema.types)
    return f"; {meant}" if meant else ", so nothing that forbids it can fail"


def positive(pattern: Pattern) -> Iterator[LeafNode]:
    """The leaves that are under no negation."""
    if isinstance(pattern, LeafNode):
        yield pattern
    elif not isinstance(pattern, Not):
        for item in items_of(pattern):
            yield from positive(item)


def mentioned(type: str, queries: Sequence[Query], schema: Schema) -> dict[str, Field]:
    """The attributes that queries mention of a type and no other type has, of the kinds that their use suggests."""
    found: dict[str, Field] = {}
    guessed = guessed_schema(queries).common
    for query in queries:
        vars = {leaf.var for leaf in leaves_of(named(query).pattern) if leaf.type == type}
        for node in walk(query):
            if not isinstance(node, Attr) or schema.field(type, node.name) is not None:
                continue
            if node.var in vars or node.var.rstrip("0123456789") == type:
                found[node.name] = guessed[node.name]
    return found


__all__ = ["known_of", "with_absent"]
