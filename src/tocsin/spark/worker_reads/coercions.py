"""Columns of a Parquet file as the stream's schema has them: only conversions that Spark's own reader makes too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tocsin.encode.arrow import is_text
from tocsin.errors import InputError

LEGACY = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
CODED = pa.dictionary(pa.int32(), pa.string())


@dataclass(frozen=True)
class FileColumns:
    """The columns that rows must have, and the name of each in the files.

    `type` is the column of types, which is read as a dictionary.
    """

    rows: pa.Schema
    type: str
    stored: Mapping[str, str]
    case_sensitive: bool = False

    def read(self, path: str) -> Iterator[pa.RecordBatch]:
        """The rows of a file, a row group at a time."""
        with _opened(path) as plain:
            named = {name: source for name, source in self.places(plain, path).items() if source is not None}
            kinds = [named[self.type]] if self.type in named else []
            with _opened(path, kinds, plain.metadata) as file:
                for number in range(file.num_row_groups):
                    table = file.read_row_group(number, columns=sorted(set(named.values())), use_threads=False)
                    for batch in table.combine_chunks().to_batches():
                        yield self._fitted(batch, named, path)

    def check(self, path: str) -> None:
        """Raise InputError if the file has columns that this cannot read as Spark would."""
        with _opened(path) as file:
            self.places(file, path)

    def places(self, file: pq.ParquetFile, path: str) -> dict[str, str | None]:
        """For each column its name in the file, None where the file lacks it."""
        if any(mark in (file.metadata.metadata or {}) for mark in LEGACY):
            raise unreadable(path, "it has dates of an old calendar")
        schema = file.schema_arrow
        physical = {column.path: column.physical_type for column in map(file.schema.column, range(len(file.schema)))}
        found: dict[str, str | None] = {}
        for field in self.rows:
            name = self._found(self.stored[field.name], schema.names, path)
            found[field.name] = name
            if name is not None and not _readable(schema.field(name).type, field.type, physical.get(name, "")):
                raise unreadable(path, f"its column {name!r} is {schema.field(name).type}, not {field.type}")
        return found

    def _found(self, name: str, names: list[str], path: str) -> str | None:
        """Spark looks for columns without regard to case, unless it is told otherwise."""
        if self.case_sensitive:
            return name if name in names else None
        alike = [each for each in names if each.lower() == name.lower()]
        if len(alike) > 1:
            raise unreadable(path, f"its columns {' and '.join(map(repr, alike))} differ only in case")
        return alike[0] if alike else None

    def _fitted(self, batch: pa.RecordBatch, named: dict[str, str], path: str) -> pa.RecordBatch:
        arrays = []
        for field in self.rows:
            wanted = CODED if field.name == self.type else field.type
            source = named.get(field.name)
            if source is None:
                arrays.append(pa.nulls(batch.num_rows, wanted))
                continue
            array = batch.column(source)
            try:
                arrays.append(array if array.type == wanted else array.cast(wanted))
            except pa.ArrowInvalid:
                raise unreadable(path, f"its column {source!r} has values that are no {wanted}") from None
        return pa.RecordBatch.from_arrays(arrays, names=self.rows.names)


def unreadable(path: str, reason: str) -> InputError:
    return InputError(
        f"{Path(path).name} cannot be read by the workers: {reason}",
        detail=f"the file is {path}",
        hint="say direct=False, and Spark reads the files; the checkpoint can be continued so",
    )


def _opened(path: str, coded: Sequence[str] = (), footer: pq.FileMetaData | None = None) -> pq.ParquetFile:
    options = {"read_dictionary": list(coded), "coerce_int96_timestamp_unit": "us"}
    try:
        return pq.ParquetFile(path, metadata=footer, memory_map=True, **options)
    except (pa.ArrowException, OSError) as error:
        raise unreadable(path, str(error).splitlines()[0]) from None


def _readable(found: pa.DataType, wanted: pa.DataType, physical: str) -> bool:
    """Whether Spark's reader makes the same of it as a cast."""
    if pa.types.is_dictionary(found):
        found = found.value_type
    if found == wanted:
        return True
    if is_text(wanted):
        return is_text(found)
    if pa.types.is_timestamp(wanted):
        instant = pa.types.is_timestamp(found) and (found.tz is None or wanted.tz is not None)
        return bool(instant and (found.unit in ("ms", "us") if physical == "INT64" else wanted.tz is not None))
    if pa.types.is_signed_integer(wanted):
        return bool(pa.types.is_signed_integer(found) and found.bit_width <= wanted.bit_width)
    if pa.types.is_float64(wanted):
        return bool(pa.types.is_float32(found))
    if pa.types.is_decimal128(wanted):
        exact = pa.types.is_decimal128(found) and found.scale == wanted.scale
        return bool(exact and found.precision <= wanted.precision)
    return False
