"""The schema of the result, fixed before any event is read, and the conversion of changes to it."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from tocsin.constraint.rows import OWN
from tocsin.encode.columns import Columns, eid_kind
from tocsin.engine.changes import ChangeBatch, arrow_type, column_type
from tocsin.engine.tables import with_times
from tocsin.errors import TocsinError
from tocsin.plan.block import Plan, Variable
from tocsin.plan.expr import Col
from tocsin.schema import EID, RESULT_COLUMNS, TYPE, Field

DETAILS = pa.field("details", pa.string())


def result_schema(
    plans: Sequence[Plan], names: frozenset[str], rows: pa.Schema, columns: Columns, time: pa.DataType | None
) -> pa.Schema:
    """Return the columns of the result of all plans; a column that only one plan has is null for the others.

    `names` are the names of all queries: their matches have a text for an eid.
    """
    instant = pa.int64() if time is None else pa.timestamp("us", time.tz if pa.types.is_timestamp(time) else None)
    known = (pa.string(), pa.string(), pa.string(), pa.int8(), instant, instant, instant)
    fields: dict[str, pa.DataType] = dict(zip(RESULT_COLUMNS, known, strict=True))
    for plan in plans:
        for name, type in _own(plan, names, rows, columns, instant).items():
            fields[name] = type if name not in fields else _common(name, fields[name], type)
    return pa.schema(list(fields.items()))


def _own(
    plan: Plan, names: frozenset[str], rows: pa.Schema, columns: Columns, instant: pa.DataType
) -> dict[str, pa.DataType]:
    """The variables or SELECT columns of one plan."""
    eid = pa.string() if columns.eid is None else rows.field(columns.eid).type
    step = {"step": pa.string()} if plan.has_timeouts else {}
    if plan.under is not None:
        step |= {name: pa.list_(pa.string()) if name == "events" else pa.string() for name in OWN}
    if not plan.outputs:
        return step | {
            each.name: _variable(each, rows, pa.string() if names & set(each.types) else eid, instant)
            for each in plan.variables
            if not each.hidden
        }
    found = step
    for output in plan.outputs:
        expr = output.expr
        if output.moment:
            shown = instant
        elif isinstance(expr, Col) and expr.attr == EID:
            shown = eid if eid_kind(eid) is expr.kind else pa.string()  # beside matches every eid is a text
        elif isinstance(expr, Col) and expr.attr == TYPE:
            shown = pa.string()
        elif isinstance(expr, Col) and plan.staged is None and not plan.variables[expr.leaf].repeated:
            shown = _attribute(Field(expr.attr, expr.kind, expr.scale), rows)
        else:
            shown = column_type(expr)
        found[output.name] = pa.string() if pa.types.is_null(shown) else shown
    return found


def _variable(variable: Variable, rows: pa.Schema, eid: pa.DataType, instant: pa.DataType) -> pa.DataType:
    own = [(field.name, _attribute(field, rows)) for field in variable.fields]
    event = pa.struct([("eid", eid), ("type", pa.string()), ("start", instant), ("end", instant), *own])
    return pa.list_(event) if variable.repeated else event


def _attribute(field: Field, rows: pa.Schema) -> pa.DataType:
    """Return the Arrow type of an attribute: that of the input column, or of the SELECT that computed it."""
    type = rows.field(field.name).type if field.name in rows.names else arrow_type(field.kind, field.scale)
    return pa.string() if pa.types.is_null(type) else type


def _common(name: str, left: pa.DataType, right: pa.DataType) -> pa.DataType:
    if left == right:
        return left
    if pa.types.is_struct(left) and pa.types.is_struct(right):
        names = list(dict.fromkeys(field.name for type in (left, right) for field in type))
        both = {n: [t.field(n).type for t in (left, right) if t.get_field_index(n) >= 0] for n in names}
        return pa.struct([(n, _common(name, each[0], each[-1])) for n, each in both.items()])
    if pa.types.is_list(left) and pa.types.is_list(right):
        return pa.list_(_common(name, left.value_type, right.value_type))
    numbers = [pa.types.is_integer(type) or pa.types.is_floating(type) for type in (left, right)]
    if all(numbers):
        return pa.float64()
    raise TocsinError(
        f"column {name!r} of the result is {left} in one query and {right} in another",
        hint=f"give it another name in one of them (SELECT ... AS other_{name}), or say HIDDEN behind the name of a "
        "query that only others read",
    )


def shaped(changes: ChangeBatch, schema: pa.Schema, time: pa.DataType | None) -> pa.RecordBatch:
    """ChangeBatch as a batch of the result."""
    return conformed(with_times(changes.table(), time), schema)


def conformed(table: pa.Table, schema: pa.Schema) -> pa.RecordBatch:
    """A table with exactly these columns; what it lacks is null."""
    arrays = []
    for field in schema:
        place = table.schema.get_field_index(field.name)
        if place < 0:
            arrays.append(pa.nulls(table.num_rows, field.type))
            continue
        whole = table.column(place).combine_chunks()
        if isinstance(whole, pa.ChunkedArray):
            whole = whole.chunk(0) if whole.num_chunks == 1 else pa.concat_arrays(whole.chunks)
        if pa.types.is_decimal(whole.type) and pa.types.is_integer(field.type):
            raise TocsinError(
                f"{field.name} is a whole number beyond 64 bits, and its column on Spark has 64",
                hint="count less: GROUP BY, EVERY or a shorter WITHIN; embedded, whole numbers have no limit",
            )
        arrays.append(as_type(whole, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def as_type(array: pa.Array, type: pa.DataType) -> pa.Array:
    """The array as another type; structs field by field, since a field may be missing."""
    if array.type == type:
        return array
    if pa.types.is_dictionary(array.type):
        return as_type(array.dictionary_decode(), type)
    if pa.types.is_struct(type) and pa.types.is_struct(array.type):
        inner = {field.name: array.field(at) for at, field in enumerate(array.type)}
        fields = [as_type(inner[f.name], f.type) if f.name in inner else pa.nulls(len(array), f.type) for f in type]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(fields, fields=list(type), mask=mask)
    if pa.types.is_list(type) and pa.types.is_list(array.type):
        mask = array.is_null() if array.null_count else None
        return pa.ListArray.from_arrays(array.offsets, as_type(array.values, type.value_type), type=type, mask=mask)
    return array.cast(type)
