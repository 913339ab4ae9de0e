"""Columns of a file that are read late: of the rows that matches show, and of no others.

In a table such a column holds the numbers of its rows, all of them the same array, under a type that says what is
meant. So it can be cut, sorted and joined as any other; `with_values` puts its values in their place. Types refer to a
file by number, because Arrow makes them anew now and then: whoever needs the values keeps the `LateFile`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import count
from pathlib import Path
from threading import Lock
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from tocsin.codec.arrow_stream import validated
from tocsin.errors import InputError
from tocsin.items import Ints

FEW = 4  # row groups that are kept after they were read
WRITTEN = b"tocsin.written"  # of a field: what the texts of a dictionary are where they are shown
FEW_BYTES = 3  # a row: a text that is written out takes four to say how long it is


class LateFile:
    """A Parquet file of which some columns are read late."""

    def __init__(self, path: Path) -> None:
        self.path, self._seen, self.number = path, _state(path), next(_numbers)
        _files[self.number] = self
        self.file = parquet.ParquetFile(path, pre_buffer=False)  # of a file that is here that only copies bytes
        meta = self.file.metadata
        self._places = {meta.schema.column(at).path: at for at in range(meta.num_columns)}  # which is slow to ask
        groups = [meta.row_group(at).num_rows for at in range(self.file.num_row_groups)]
        self._begins: Ints = np.cumsum([0, *groups])
        self._late: tuple[str, ...] = ()
        self._group, self._lock = lru_cache(FEW)(self._read), Lock()

    @property
    def rows(self) -> int:
        return int(self._begins[-1])

    @property
    def names(self) -> list[str]:
        """All columns."""
        names: list[str] = self.file.schema_arrow.names
        return names

    def table(self, names: frozenset[str], types: str) -> pa.Table:
        """The file, with the columns of these names, and others that may have nulls; the rest is read late.

        `types`: a column of which only numbers for its texts are asked; it may be a dictionary.
        """
        schema = self.file.schema_arrow
        self._late = tuple(name for name in schema.names if name not in names and self._can_wait(schema, name))
        read = self._columns([name for name in schema.names if name not in self._late], types)
        return self._with_late(read, 0)

    def _columns(self, names: list[str], types: str) -> pa.Table:
        """Some columns of all rows. Where a file keeps few texts by number they are read so, and then written out.

        That takes a third of the time in which Arrow reads each text for itself.
        """
        coded = [name for name in names if self._has_few_texts(name)]
        if coded:
            file = parquet.ParquetFile(self.path, read_dictionary=coded, pre_buffer=False)
            read = validated(file.read(columns=names))
            try:
                return written_out(read, self.file.schema_arrow, but=types if types in coded else None)
            except pa.ArrowException:  # too many bytes for one piece
                pass
        return validated(self.file.read(columns=names))

    def _has_few_texts(self, name: str) -> bool:
        """Whether a column of texts takes so few bytes a row that the file must keep their numbers."""
        type = self.file.schema_arrow.field(name).type
        if not (pa.types.is_string(type) or pa.types.is_large_string(type)):
            return False
        meta, place = self.file.metadata, self._places.get(name)
        if place is None:
            return False
        found = [meta.row_group(at).column(place) for at in range(meta.num_row_groups)]
        return all(each.total_uncompressed_size <= FEW_BYTES * each.num_values for each in found)

    def pieces(
        self, names: frozenset[str], groups: Sequence[int], rows: int, *, late: bool = True
    ) -> Iterator[pa.Table]:
        """Some row groups in pieces of at most so many rows: the columns of these names, and the rest read late.

        Without `late` the rest is left out.
        """
        file = parquet.ParquetFile(self.path, pre_buffer=False)  # other threads read late columns meanwhile
        schema = file.schema_arrow
        self._late = tuple(name for name in schema.names if late and name not in names and self._can_wait(schema, name))
        now = [name for name in schema.names if name in names or (late and name not in self._late)]
        for group in groups:
            begin = int(self._begins[group])
            for batch in file.iter_batches(rows, row_groups=[group], columns=now):
                read = validated(pa.Table.from_batches([batch]))
                yield self._with_late(read, begin) if late else read
                begin += batch.num_rows

    def may_have_nulls(self, name: str) -> bool:
        """Whether statistics do not show that a column which expressions can read has no nulls."""
        schema = self.file.schema_arrow
        return not pa.types.is_nested(schema.field(name).type) and not self._can_wait(schema, name)

    def largest_group(self, names: frozenset[str]) -> int:
        """How many bytes the columns beside these take in the largest row group."""
        meta = self.file.metadata
        groups = [meta.row_group(at) for at in range(meta.num_row_groups)]
        each = [[group.column(at) for at in range(group.num_columns)] for group in groups]
        sizes = [
            sum(one.total_uncompressed_size for one in columns if one.path_in_schema not in names) for columns in each
        ]
        return max(sizes, default=0)

    def _with_late(self, read: pa.Table, begin: int) -> pa.Table:
        """What was read of some rows, and other columns as numbers of rows, of which `begin` is the first."""
        numbers = pa.array(np.arange(begin, begin + read.num_rows if self._late else begin))
        late = {name: LateType(self, name) for name in self._late}
        fields = [pa.field(name, late[name]) if name in late else read.schema.field(name) for name in self.names]
        columns = [
            pa.ExtensionArray.from_storage(late[name], numbers) if name in late else read.column(name)
            for name in self.names
        ]
        return pa.Table.from_arrays(columns, schema=pa.schema(fields))

    def _can_wait(self, schema: pa.Schema, name: str) -> bool:
        """Whether statistics show that a column has no nulls: which types have a value there need not be asked then."""
        if pa.types.is_nested(schema.field(name).type):
            return False
        if schema.field(name).type == pa.uint64() or pa.types.is_dictionary(schema.field(name).type):
            return False
        meta, place = self.file.metadata, self._places.get(name)
        if place is None:
            return False
        found = [meta.row_group(at).column(place).statistics for at in range(meta.num_row_groups)]
        return all(each is not None and each.has_null_count and not each.null_count for each in found)

    def _read(self, group: int) -> pa.Table:
        try:
            with self._lock:  # readers of Arrow are for one thread at a time
                if _state(self.path) == self._seen:
                    return validated(self.file.read_row_group(group, columns=list(self._late)))
        except (pa.ArrowException, OSError) as problem:
            reason = " ".join(str(problem).split())[:300]
            raise InputError(f"{self.path} cannot be read as parquet", detail=reason) from problem
        raise InputError(f"{self.path} has changed while it was read", hint="run again when it is complete")

    def values(self, rows: Ints) -> pa.Table:
        """The late columns of some rows, in any order."""
        if not len(rows):
            return self.file.schema_arrow.empty_table().select(list(self._late))
        owners = np.searchsorted(self._begins, rows, "right") - 1
        order = np.argsort(owners, kind="stable")
        groups, firsts = np.unique(owners[order], return_index=True)
        parts = []
        for group, mine in zip(groups.tolist(), np.split(order, firsts[1:]), strict=True):
            parts.append(self._group(group).take(pa.array(rows[mine] - self._begins[group])))
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return pa.concat_tables(parts).take(pa.array(back))


def written_out(table: pa.Table, schema: pa.Schema, *, but: str | None = None) -> pa.Table:
    """The table, whose texts may be read as dictionaries, with columns as a schema says.

    One stays a dictionary, if it is named, and its field says what it would be.
    """
    for place, name in enumerate(table.schema.names):
        wanted = schema.field(name)
        if name == but:
            coded = table.schema.field(place).with_metadata({WRITTEN: str(wanted.type)})
            table = table.set_column(place, coded, table.column(place))
        elif table.schema.types[place] != wanted.type:
            table = table.set_column(place, wanted, table.column(place).cast(wanted.type))
    return table


class CodedType(pa.ExtensionType):  # type: ignore[misc]  # pyarrow has no types
    """The type of a column of texts that are kept by number until somebody is shown them: then they are `real`."""

    def __init__(self, coded: pa.DataType, real: str) -> None:
        self.real = pa.large_string() if real == "large_string" else pa.string()
        super().__init__(coded, "tocsin.coded")

    def __arrow_ext_serialize__(self) -> bytes:
        return str(self.real).encode()

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, serialized: bytes) -> CodedType:
        return cls(storage, serialized.decode())


def shown_later(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    """A column as results show it: one that stayed a dictionary while it was read is written out then."""
    real = (field.metadata or {}).get(WRITTEN)
    if real is None:
        return column
    type = CodedType(column.type, real.decode())
    return pa.chunked_array([pa.ExtensionArray.from_storage(type, chunk) for chunk in column.chunks], type)


_files: WeakValueDictionary[int, LateFile] = WeakValueDictionary()
_numbers = count()


def _state(path: Path) -> tuple[int, int]:
    info = path.stat()
    return info.st_size, info.st_mtime_ns


class LateType(pa.ExtensionType):  # type: ignore[misc]  # pyarrow has no types
    """The type of a column that is read late: what it will be, and where it is."""

    def __init__(self, source: LateFile, name: str) -> None:
        self.source, self.name, self.real = source, name, source.file.schema_arrow.field(name).type
        super().__init__(pa.int64(), "tocsin.late")

    def __arrow_ext_serialize__(self) -> bytes:
        return f"{self.source.number} {self.name}".encode()

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, serialized: bytes) -> LateType:
        number, _, name = serialized.decode().partition(" ")
        return cls(_files[int(number)], name)


def real_schema(schema: pa.Schema) -> pa.Schema:
    """The schema with the types that columns will have."""
    if not any(isinstance(type, LateType | CodedType) for type in schema.types):
        return schema
    return pa.schema([field.with_type(real_type(field.type)) for field in schema])


def real_type(type: pa.DataType) -> pa.DataType:
    """The type that a column will have."""
    return type.real if isinstance(type, LateType | CodedType) else type


def with_values(table: pa.Table) -> pa.Table:
    """The table with the values of all its columns."""
    read: dict[int, pa.Table] = {}
    for place, field in enumerate(table.schema):
        column = shown_later(table.column(place), field)
        if isinstance(column.type, CodedType):
            texts = [chunk.storage.cast(column.type.real) for chunk in column.chunks]
            table = table.set_column(place, field.name, pa.chunked_array(texts, column.type.real))
        elif isinstance(field.type, LateType):
            source: Any = field.type.source
            if source.number not in read:
                read[source.number] = source.values(_rows_of(table.column(place)))
            table = table.set_column(place, field.name, read[source.number].column(field.type.name))
    return table


def _rows_of(column: pa.ChunkedArray) -> Ints:
    pieces = [chunk.storage.to_numpy() for chunk in column.chunks]
    return np.concatenate(pieces) if pieces else np.zeros(0, np.int64)
