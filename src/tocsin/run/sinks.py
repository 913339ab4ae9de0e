"""Write matches as a table, JSONL, CSV or Parquet, to a stream or atomically to a file."""

from __future__ import annotations

import io
import json
import os
from datetime import date, datetime
from decimal import Decimal
from typing import IO, Any

import pyarrow as pa
import pyarrow.csv as arrow_csv

from tocsin.engine.tables import first_rows, flat, joined
from tocsin.errors import InputError
from tocsin.run.atomic import whole_file
from tocsin.run.matches import Matches
from tocsin.run.show import text_table

FORMATS = ("table", "jsonl", "csv", "parquet")


def json_line(match: dict[str, Any]) -> str:
    """One match as a line of JSON: times as ISO texts, decimals as texts (they are exact), NaN as null."""
    return json.dumps(_plain(match), ensure_ascii=False, allow_nan=False)


def _plain(value: Any) -> Any:
    match value:
        case dict():
            return {name: _plain(each) for name, each in value.items()}
        case list():
            return [_plain(each) for each in value]
        case datetime() | date():
            return value.isoformat()
        case Decimal():
            return str(value)
        case float() if value != value or value in (float("inf"), float("-inf")):
            return None
        case bytes():
            return value.hex()
    return value


def write_matches(matches: Matches, format: str, out: IO[bytes], *, limit: int | None = None) -> None:
    """The matches in one of FORMATS, as bytes."""
    tables = matches.tables() if limit is None else first_rows(matches.tables(), limit)
    match format:
        case "jsonl":
            for match in Matches(tables):
                out.write(json_line(match).encode("utf-8", "replace") + b"\n")
        case "csv":
            arrow_csv.write_csv(_simple(flat(joined(tables))), out)
        case "parquet":
            from pyarrow import parquet

            buffer = io.BytesIO()  # a pipe cannot be asked for its place
            parquet.write_table(joined(tables), buffer)
            out.write(buffer.getvalue())
        case "table":
            texts = [text_table(table, table.num_rows) for table in tables if table.num_rows]
            out.write(("\n\n".join(texts) + "\n" if texts else "").encode("utf-8", "replace"))
        case _:
            raise InputError(f"{format!r} is no format", hint=f"use one of {', '.join(FORMATS)}")


def write_file(matches: Matches, format: str, path: str | os.PathLike[str], *, limit: int | None = None) -> None:
    """Write matches to a file, which appears only when everything went well."""
    with whole_file(path) as part, part.open("wb") as out:
        write_matches(matches, format, out, limit=limit)


def _simple(table: pa.Table) -> pa.Table:
    """Columns that Arrow's CSV writer does not know, as texts."""
    for place, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            table = table.set_column(place, field.name, table.column(place).cast(field.type.value_type))
        elif pa.types.is_binary(field.type) or pa.types.is_null(field.type):
            texts = [None if value is None else value.hex() for value in table.column(place).to_pylist()]
            table = table.set_column(place, field.name, pa.array(texts, pa.string()))
    return table
