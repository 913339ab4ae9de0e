"""Carry answers out of Spark's stateful operator, which gives pandas frames, as flat columns without loss.

Texts and numbers pass as Arrow inside a pandas frame. Points in time pass as numbers, and events (structs) as their
fields and whether they are there; Catalyst puts both together again. A list of events has no flat form: such a result
travels as Arrow bytes, which one more Python step unpacks.
"""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from tocsin.shards.blocks import as_bytes, as_table, larger
from tocsin.spark.setup.versions import spark_schema

BLOCK = pa.schema([("block", pa.binary())])
FLAT_TYPES = (
    pa.types.is_string, pa.types.is_boolean, pa.types.is_signed_integer, pa.types.is_float32, pa.types.is_float64,
    pa.types.is_decimal128,
)  # fmt: skip
ROWS_PER_FRAME = 1 << 15  # rows
EPOCH = "TIMESTAMP_NTZ'1970-01-01 00:00:00'"


def sent_schema(result: pa.Schema) -> pa.Schema:
    """Return the flat columns in which answers with the schema `result` leave the operator."""
    types = [type for field in result for type in _flat_types(field.type)]
    if None in types:
        return BLOCK
    return pa.schema([(f"c{number}", type) for number, type in enumerate(types)])


def sent_frames(answers: Iterator[pa.RecordBatch], result: pa.Schema) -> Iterator[pd.DataFrame]:
    """Convert answers to flat pandas frames; few and large ones, since each costs some milliseconds on both sides."""
    schema = sent_schema(result)
    for answer in larger((each for each in answers if each.num_rows), ROWS_PER_FRAME):
        if schema is BLOCK:
            yield pd.DataFrame({"block": [as_bytes(answer)]})
            continue
        arrays = [flat for column in answer.columns for flat in _flat(column)]
        yield pa.Table.from_arrays(arrays, schema=schema).to_pandas(types_mapper=pd.ArrowDtype)


def received(df: DataFrame, result: pa.Schema) -> DataFrame:
    """Put the flat columns together again as a DataFrame with the schema `result`."""
    if sent_schema(result) is BLOCK:
        return df.mapInArrow(_unpack, spark_schema(result))
    columns = iter(df.columns)
    return df.select(*(_whole(field.type, columns).alias(field.name) for field in result))


def _unpack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for block in batch.column(0):
            yield from as_table(block.as_py()).to_batches()


# --- one column ----------------------------------------------------------------------------------------------------


def _flat_types(type: pa.DataType) -> list[pa.DataType | None]:
    """Return the types of the flat columns that a column becomes; None stands for a type without a flat form."""
    if pa.types.is_struct(type):
        return [pa.bool_(), *(flat for field in type for flat in _flat_types(field.type))]
    if pa.types.is_timestamp(type):
        return [pa.int64() if type.unit == "us" else None]
    if pa.types.is_date32(type):
        return [pa.int32()]
    return [type if any(test(type) for test in FLAT_TYPES) else None]


def _flat(array: pa.Array) -> list[pa.Array]:
    type = array.type
    if pa.types.is_struct(type):
        return [pc.is_valid(array), *(flat for child in array.flatten() for flat in _flat(child))]
    if pa.types.is_timestamp(type):
        return [array.view(pa.int64())]
    return [array.view(pa.int32()) if pa.types.is_date32(type) else array]


def _whole(type: pa.DataType, columns: Iterator[str]) -> Column:
    """Build a column again from the flat columns that carried it."""
    name = next(columns)
    if pa.types.is_struct(type):
        fields = [_whole(field.type, columns).alias(field.name) for field in type]
        return sf.when(sf.col(name), sf.struct(*fields))
    if pa.types.is_timestamp(type):
        if type.tz is not None:
            return sf.timestamp_micros(sf.col(name))
        return sf.expr(f"timestampadd(MICROSECOND, {name}, {EPOCH})")
    return sf.date_from_unix_date(sf.col(name)) if pa.types.is_date32(type) else sf.col(name)
