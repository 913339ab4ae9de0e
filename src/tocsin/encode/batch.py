"""Encode whole Arrow batches as Items; a row that cannot be used is named in the error."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.encode.arrow import BadRowError, Problems, is_text, marks, without_null_entries
from tocsin.encode.columns import OPTIONAL, Columns, arrow_type, field_of
from tocsin.encode.eids import eids
from tocsin.encode.late import CodedType, LateType, shown_later
from tocsin.encode.survey import Survey
from tocsin.encode.times import read_texts, ticks
from tocsin.encode.values import as_dictionary, dictionary_codes, encode_column, looked_up, nothing, same_memory
from tocsin.errors import InputError
from tocsin.events import ANY
from tocsin.items import EVERY, NO_SOURCE, NO_TEXT, UNREAD, Bools, Codes, Column, Ints, Items, Strings
from tocsin.schema import EID, TYPE, Field, Kind, Schema


@dataclass(slots=True)
class TimesAndEids:
    """Start, end and eid of each row of a batch as numbers, and the rows for which they are missing or wrong."""

    start: Ints
    end: Ints
    eid_high: Ints | None
    eid_low: Ints | None
    problems: Problems

    def bad(self) -> Bools | None:
        """The rows that cannot be used."""
        if not self.problems:
            return None
        masks: Bools = np.logical_or.reduce([mask for mask, _ in self.problems])
        return masks

    def reason(self, row: int) -> str:
        return next(reason for mask, reason in self.problems if mask[row])


def spans(
    time: pa.Array, end: pa.Array | None, columns: Columns, survey: Survey | None = None
) -> tuple[Ints, Ints, Problems]:
    """Start and end of each row (of points the same array), and the rows for which they are missing or wrong."""
    starts, problems = _times(time, "time", columns, survey)
    if end is None:
        return starts, starts, problems
    ends, more = _times(end, "end", columns, survey)
    problems += more
    if (backwards := ends < starts).any():
        good = ~np.logical_or.reduce([mask for mask, _ in problems]) if problems else True
        problems.append((backwards & good, "the end is before the start"))
    return starts, ends, problems


def typeless(types: pa.Array | pa.ChunkedArray) -> Problems:
    """The rows without a type."""
    return [(marks(pc.is_null(types)), "the type is null")] if types.null_count else []


def frame(batch: pa.RecordBatch, columns: Columns) -> TimesAndEids:
    """Read times and eids of a batch; `columns` must be resolved against its names."""
    until = None if columns.end is None else batch.column(columns.end)
    start, end, problems = spans(batch.column(columns.time), until, columns)
    problems += typeless(batch.column(columns.type))
    high = low = None
    if columns.eid is not None:
        high, low, more = eids(batch.column(columns.eid))
        problems += more
    return TimesAndEids(start, end, high, low, [problem for problem in problems if problem[0].any()])


def _times(array: pa.Array, what: str, columns: Columns, survey: Survey | None) -> tuple[Ints, Problems]:
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    unreadable: Bools | None = None
    if is_text(array.type):
        array, unreadable = read_texts(array)
    values, problems = ticks(array, what, truncate=columns.truncate, survey=survey)
    if unreadable is not None and unreadable.any():
        problems = [(mask & ~unreadable, reason) for mask, reason in problems]
        problems.insert(0, (unreadable, f"the {what} is neither a whole number nor an ISO timestamp"))
    return values, problems


PAYLOAD = Columns(type="type", time="start", end="end")
INNER = "__own"  # columns that begin so tell a detector what is its own business; they are no part of the event


class Encoder:
    """Arrow batches to Items, for detectors that know these `types` and want these attributes (None: all)."""

    def __init__(
        self,
        schema: Schema,
        types: tuple[str, ...],
        strings: Strings,
        columns: Columns | None = None,
        wanted: Iterable[str] | None = None,
    ) -> None:
        self.schema = schema
        self.types = types
        self.strings = strings
        self.columns = columns or Columns()
        known = dict(schema.common)
        for fields in schema.types.values():
            known.update(fields)
        self.fields = known
        names = list(known) if wanted is None else list(wanted)
        own = {  # no attributes: only eid(x) and type(x) read them
            EID: Field(EID, schema.eid or Kind.NULL, nullable=False),
            TYPE: Field(TYPE, Kind.TEXT, nullable=False),
        }
        self.wanted = {name: known.get(name) or own.get(name) or Field(name, Kind.NULL) for name in names}
        self._codes = {name: code for code, name in enumerate(types)}
        self.other = self._codes.get(ANY, UNREAD)  # the code of all types that are not listed
        self.now = self.columns
        self.last_names: tuple[str, ...] = ()  # the columns of the last batch
        self.shape: dict[str, pa.DataType] = {}  # the columns of every payload
        self._seen: tuple[pa.Array, Codes] | None = None  # the last dictionary of types and its codes
        self._known: dict[str, tuple[int, pa.Array, Ints]] = {}  # the last dictionary of each text column
        self.sources = Strings()  # who events come from; a guarantee names its source by the same codes

    @classmethod
    def of_payload(
        cls,
        schema: Schema,
        types: tuple[str, ...],
        strings: Strings,
        rows: pa.Schema,
        wanted: Iterable[str] | None = None,
    ) -> Encoder:
        """An encoder for rows in the form of a payload, as saved states hold them.

        Numbers whose kind has grown since (whole numbers that are floats or decimals by now) are shown as such.
        """
        optional = {name: name for name in ("eid", *OPTIONAL) if name in rows.names}
        columns = replace(PAYLOAD, **optional)  # type: ignore[arg-type]
        encoder = cls(schema, types, strings, columns, wanted)
        encoder.shape = {name: arrow_type(field) for name, field in encoder.fields.items() if _has_grown(field, rows)}
        return encoder

    def encode(self, batch: pa.RecordBatch | pa.Table) -> Items:
        """The rows as Items. Raises InputError that names the first row that cannot be used."""
        if isinstance(batch, pa.Table):
            batch = one_batch(batch)
        batch = without_null_entries(batch)
        columns = self._resolved(batch.schema.names)
        rows = frame(batch, columns)
        bad = rows.bad()
        if bad is not None:
            row = int(bad.argmax())
            raise BadRowError(row, rows.reason(row), hint=HINTS.get(rows.reason(row)))
        items = Items(
            types=self.type_codes(batch.column(columns.type)),
            start=rows.start,
            end=rows.end,
            eid_high=rows.eid_high,
            eid_low=rows.eid_low,
            columns=self.attributes(batch, len(rows.end)),
            payload=self.payload(batch, columns, rows),
            sources=None if columns.source is None else self.source_codes(batch.column(columns.source)),
        )
        items.checked = True
        return items

    def payload(self, batch: pa.RecordBatch, columns: Columns, rows: TimesAndEids) -> pa.RecordBatch:
        """Return the rows in the form that results show: type, start, end, eid, ..., then the attributes of the schema.

        All batches get the same columns of the same types (those of the first batch), whatever each of them has.
        """
        start = pa.array(rows.start)
        arrays = {
            "type": self._shaped("type", batch, columns.type),
            "start": start,
            "end": start if rows.end is rows.start else pa.array(rows.end),
        }
        for role in ("eid", *OPTIONAL):
            name = getattr(columns, role)
            if name is not None:
                arrays[role] = self._shaped(role, batch, name)
        return self.shown(arrays, batch, batch.num_rows)

    def payload_table(self, table: pa.Table, start: Ints, end: Ints) -> pa.Table:
        """A whole table in the form of a payload; its columns stay where they are, in as many pieces."""
        columns = self._resolved(table.schema.names)
        first = pa.array(start)
        place = table.schema.get_field_index(columns.type)
        if place >= 0:
            shown = shown_later(table.column(place), table.schema.field(place))
            table = table.set_column(place, columns.type, shown)
        head = {
            "type": self._shaped("type", table, columns.type),
            "start": first,
            "end": first if end is start else pa.array(end),
        }
        roles = [(role, getattr(columns, role)) for role in ("eid", *OPTIONAL)]
        head |= {role: self._shaped(role, table, name) for role, name in roles if name is not None}
        return pa.table(self._with_attributes(head, table, table.num_rows))

    def shown(self, head: dict[str, pa.Array], batch: pa.RecordBatch | None, count: int) -> pa.RecordBatch:
        """A payload: the columns that every event has, then the attributes of the schema as a batch has them."""
        arrays = self._with_attributes(head, batch, count)
        return pa.RecordBatch.from_arrays(list(arrays.values()), list(arrays))

    def _with_attributes(
        self, head: dict[str, pa.Array], batch: pa.RecordBatch | pa.Table | None, count: int
    ) -> dict[str, pa.Array]:
        arrays = dict(head)
        for name in self.fields:
            if name not in arrays and not name.startswith(INNER):
                arrays[name] = self._shaped(name, batch, name, count)
        return arrays

    def attributes(self, batch: pa.RecordBatch | None, count: int) -> dict[str, Column]:
        """The attributes that were asked for, as kernels read them."""
        if batch is None:
            return {name: nothing(field, count) for name, field in self.wanted.items()}
        return {name: self.column(batch, self.now, field) for name, field in self.wanted.items()}

    def _shaped(
        self, role: str, batch: pa.RecordBatch | pa.Table | None, name: str, count: int | None = None
    ) -> pa.Array:
        """A column as every payload has it; nulls where the batch lacks it."""
        place = -1 if batch is None else batch.schema.get_field_index(name)
        array = None if batch is None or place < 0 else batch.column(place)
        if array is not None and isinstance(array.type, LateType | CodedType):
            self.shape.setdefault(role, array.type.real)
            return array
        type = self.shape.get(role)
        if type is None:
            known = self.fields.get(role, Field(role, Kind.TEXT))
            type = arrow_type(known) if array is None or pa.types.is_null(array.type) else array.type
            if type == pa.uint64():  # exact in 64 signed bits where it is read, and in a decimal where it is only shown
                type = pa.int64() if role == EID or role in self.wanted else pa.decimal128(20, 0)
            self.shape[role] = type
        if array is None:
            return pa.nulls(count if batch is None else batch.num_rows, type)
        if array.type == type:
            return array
        try:
            if pa.types.is_decimal(type) and pa.types.is_integer(array.type):
                array = array.cast(pa.decimal128(38, type.scale))  # wide enough for every whole number
            return array.cast(type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            kind = f"{array.type} now and {type} before"
            raise InputError(f"{name!r} is {kind}", hint="an attribute has one kind in all events") from None

    def _resolved(self, names: list[str]) -> Columns:
        """Resolve the roles of the columns of this batch; kept, so that batches with the same names resolve once."""
        if tuple(names) != self.last_names:
            self.now, self.last_names = self.columns.resolve(names), tuple(names)
        return self.now

    def column(self, batch: pa.RecordBatch, columns: Columns, field: Field) -> Column:
        """The attribute of a batch; nulls where the batch has no such column."""
        name = {EID: columns.eid, TYPE: columns.type}.get(field.name, field.name)
        place = -1 if name is None else batch.schema.get_field_index(name)
        if place < 0 or field.kind is Kind.NULL:
            return nothing(field, batch.num_rows)
        array = batch.column(place)
        return self.encoded(array, field)

    def encoded(self, array: pa.Array, field: Field) -> Column:
        """An attribute as kernels read it."""
        if field.kind is Kind.TEXT and pa.types.is_dictionary(array.type) and not array.dictionary.null_count:
            return self.coded_column(array, field)
        return encode_column(array, field, self.strings, truncate=self.columns.truncate)

    def coded_column(self, array: pa.DictionaryArray, field: Field) -> Column:
        """A dictionary column of texts; batches of one table share their dictionary, which is then read once."""
        dictionary, version = array.dictionary, self.strings.version
        known = self._known.get(field.name)
        if known is None or known[0] != version or not same_memory(known[1], dictionary):
            known = version, dictionary, dictionary_codes(dictionary, self.strings, field.name)
            self._known[field.name] = known
        valid = marks(pc.is_valid(array)) if array.null_count else None
        return Column(Kind.TEXT, looked_up(known[2], array, NO_TEXT), valid)

    @property
    def remembered(self) -> int:
        """How many texts stand in remembered dictionaries: after forgetting texts, these are read anew."""
        version = self.strings.version
        return sum(len(codes) for known, _, codes in self._known.values() if known == version)

    def source_codes(self, array: pa.Array) -> Codes:
        """The code of each row's source, NO_SOURCE where it is null."""
        coded = as_dictionary(array if is_text(array.type) else array.cast(pa.string()))
        lookup = np.array([self.sources.code(name) for name in coded.dictionary.to_pylist()], np.int32)
        codes: Codes = looked_up(lookup, coded, NO_SOURCE)
        return codes

    def type_code(self, type: str | None) -> int:
        """The code of a type (None: of all types)."""
        return EVERY if type is None else self._codes.get(type, UNREAD)

    def type_codes(self, array: pa.Array) -> Codes:
        """Return the code of each row's type; that of ANY for types that only ANY reads, -1 if no query does."""
        if not is_text(array.type) and not pa.types.is_dictionary(array.type):
            array = array.cast(pa.string())
        coded = as_dictionary(array)
        dictionary = coded.dictionary
        if self._seen is None or not self._seen[0].equals(dictionary):
            self._seen = dictionary, self.codes_of(dictionary.to_pylist())
        codes: Codes = looked_up(self._seen[1], coded, -1)
        return codes

    def codes_of(self, names: Iterable[str]) -> Codes:
        """The code of each type of some names: that of ANY for types that only ANY reads, -1 if no query does."""
        return np.array([self._codes.get(str(name), self.other) for name in names], np.int32)


def _has_grown(field: Field, rows: pa.Schema) -> bool:
    """Tell whether stored numbers are of another kind, or of fewer decimal places, than the schema says by now."""
    if field.kind not in (Kind.FLOAT, Kind.DECIMAL) or field.name not in rows.names:
        return False
    was = field_of(rows.field(field.name))
    return was is not None and was.kind in NUMBERS and (was.kind, was.scale) != (field.kind, field.scale)


NUMBERS = (Kind.INT, Kind.FLOAT, Kind.DECIMAL)
HINTS = {
    "the time is finer than a microsecond": "allow it to be cut with truncate=True (--truncate)",
    "the end is finer than a microsecond": "allow it to be cut with truncate=True (--truncate)",
    "the eid is null": "fill in the missing eids, or leave the eid column out",
    "the end is before the start": "exchange the two columns, or correct the row",
}


def one_batch(table: pa.Table) -> pa.RecordBatch:
    """A table as one batch; a null inside a dictionary is a null of its row."""
    batches = table.combine_chunks().to_batches()
    if len(batches) == 1:
        return without_null_entries(batches[0])
    if not batches:
        return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in table.schema], schema=table.schema)
    return without_null_entries(pa.concat_batches(batches))
