"""Open anything that holds events as Arrow tables: iterables, tables, readers, data frames, files, directories."""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from tocsin.encode.arrow import Problems, is_text, one_array
from tocsin.encode.batch import HINTS, frame, spans, typeless
from tocsin.encode.checked import checked, refuse_unreadable
from tocsin.encode.columns import Columns, kind_of
from tocsin.encode.eids import eid_problems
from tocsin.encode.late import LateType, with_values
from tocsin.encode.objects import from_dicts
from tocsin.encode.row_types import RowTypes
from tocsin.encode.survey import Survey
from tocsin.encode.thread_team import ALONE, ThreadTeam
from tocsin.encode.times import read_texts, zone_differs
from tocsin.encode.values import encode_column, is_exact
from tocsin.encode.whole import UsableRows
from tocsin.errors import InputError, printable
from tocsin.items import Bools, Ints, Strings, is_sorted
from tocsin.run.bad_rows import BadRows
from tocsin.run.files import FilePiece, find, read
from tocsin.schema import Field, Kind


@dataclass(slots=True)
class Input:
    """A finite input: its parts, the one Arrow schema they have in common, and which column is what."""

    parts: list[FilePiece]
    columns: Columns
    bad: BadRows
    known_types: RowTypes | None = None

    def table(self) -> pa.Table:
        """All rows in the order they were read."""
        return together([part.table for part in self.parts])

    def __len__(self) -> int:
        """How many rows there are, usable or not."""
        return sum(part.table.num_rows for part in self.parts)

    def fill(self, wanted: Container[str], *, whole: bool) -> None:
        """Read what was to be read late: if some of it is wanted after all, or everything is."""
        for at, part in enumerate(self.parts):
            late = [field.name for field in part.table.schema if isinstance(field.type, LateType)]
            if whole or any(name in wanted for name in late):
                self.parts[at] = replace(part, table=with_values(part.table))

    def types(self, workers: ThreadTeam = ALONE) -> RowTypes:
        """The type of each row; looked up once."""
        if self.known_types is None:
            self.known_types = RowTypes.of(self.table().column(self.columns.type), workers)
        return self.known_types

    def notes(self, wanted: Container[str]) -> tuple[str, ...]:
        """What the user should know of how attributes that queries read were read."""
        found = [
            part.table.schema.field(name) for part in self.parts for name in sorted(part.guessed) if name in wanted
        ]
        return kinds_inferred(found)

    @property
    def time(self) -> pa.DataType | None:
        """The type of the time column if it holds points in time; None if it holds ticks."""
        for part in self.parts:
            place = part.table.schema.get_field_index(self.columns.time)
            if place >= 0:
                return time_type(part.table.schema.types[place])
        return None


def kinds_inferred(fields: Iterable[pa.Field]) -> tuple[str, ...]:
    """What the user should know of kinds that were inferred from values."""
    found = {each.name: kind_of(each.type) for each in fields if not pa.types.is_null(each.type)}
    if not found:
        return ()
    kinds = ", ".join(f"{name} {kind or 'of no kind'}" for name, kind in found.items())
    return (printable(f"kinds were inferred from the values of the file: {kinds}; a schema fixes them"),)


def time_type(type: pa.DataType) -> pa.DataType | None:
    """The type of a time column if it holds points in time; None if it holds ticks."""
    return type if pa.types.is_timestamp(type) or pa.types.is_date(type) else None


def _one(_: int) -> int:
    return 1


def open_input(
    events: Any,
    columns: Columns,
    *,
    declared: Mapping[str, Field] | None = None,
    bad: BadRows | None = None,
    early: frozenset[str] | None = None,
    threads: Callable[[int], int] = _one,
) -> Input:
    """Read a finite input. Rows are judged later, except those that cannot be parsed.

    `early`: the columns that must be read whole; others of a Parquet file are read when a match shows them.
    `threads`: how many threads may look at so many rows.
    """
    bad = bad or BadRows()
    if isinstance(events, (str, os.PathLike)):
        paths = find(events)
        parts = [read(path, columns, declared or {}, bad, early if len(paths) == 1 else None) for path in paths]
    else:
        problems: Problems = []
        if isinstance(events, Iterator) and not isinstance(events, pa.RecordBatchReader):
            events = list(events)
        table = as_table(events, None if bad.failing else problems, threads)
        original = events.__getitem__ if isinstance(events, (list, tuple)) else None
        parts = [FilePiece(table, lambda row: f"row {row + 1}", problems, original)]
    parts = [replace(part, table=plain_columns(part.table)) for part in parts if part.table.num_columns]
    if parts:
        columns = columns.resolve(together([part.table.slice(0, 0) for part in parts]).schema.names)
    parts = [with_times_read(part, columns) for part in parts]
    return Input(parts, columns, bad)


def as_table(events: Any, problems: Problems | None = None, threads: Callable[[int], int] = _one) -> pa.Table:
    """Events that are in memory, as a table. Data-frame libraries are recognised, never imported."""
    match events:
        case pa.Table():
            with ThreadTeam(threads(events.num_rows)) as workers:
                return plain_columns(checked(events, workers))
        case pa.RecordBatch():
            return plain_columns(checked(pa.Table.from_batches([events])))
        case pa.RecordBatchReader():
            return plain_columns(checked(events.read_all()))
        case Mapping():
            raise InputError("events is one dict", hint="give a list of events, or use stream().push(...)")
    library = type(events).__module__.partition(".")[0]
    if library == "polars" and hasattr(events, "collect"):
        events = events.collect()
    try:
        if library == "pandas":
            return plain_columns(pa.Table.from_pandas(events, preserve_index=False))
        if hasattr(events, "__arrow_c_stream__") or hasattr(events, "__arrow_c_array__"):
            return plain_columns(pa.table(events))
    except (pa.ArrowException, ValueError, TypeError, OverflowError, AttributeError) as problem:
        raise InputError(
            f"the {library} {type(events).__name__} cannot be read",
            detail=" ".join(ascii(str(problem))[1:-1].split())[:300],
            hint="give each column a name of its own and one kind of values; a sparse column must be made dense",
        ) from problem
    if not isinstance(events, Iterable):
        raise InputError(
            f"events cannot be read from {type(events).__name__}",
            hint="give a list of dicts, an Arrow table, a pandas or polars frame, or a path",
        )
    batch = from_dicts(list(events), problems)
    return pa.Table.from_batches([batch]) if batch.num_columns else pa.table({})


def plain_columns(table: pa.Table) -> pa.Table:
    """Columns as the rest reads them: views of texts are texts, and no dictionary holds a null or a view."""
    for place, field in enumerate(table.schema):
        column = table.column(place)
        if pa.types.is_string_view(field.type):
            table = table.set_column(place, field.name, column.cast(pa.large_string()))
        elif pa.types.is_dictionary(field.type):
            texts = pa.large_string() if pa.types.is_string_view(field.type.value_type) else field.type.value_type
            if texts != field.type.value_type or any(chunk.dictionary.null_count for chunk in column.chunks):
                decoded = [chunk.dictionary.cast(texts).take(chunk.indices) for chunk in column.chunks]
                table = table.set_column(place, field.name, pa.chunked_array(decoded, texts))
    return table


def together(tables: list[pa.Table]) -> pa.Table:
    """Several tables as one: columns by name, missing ones null."""
    if not tables:
        return pa.table({})
    if len(tables) == 1:
        return tables[0]
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as problem:
        raise InputError(
            "the files do not have the same columns",
            detail=" ".join(str(problem).split())[:300],
            hint="an attribute has one kind in all files: declare it with a schema",
        ) from problem


def with_times_read(part: FilePiece, columns: Columns) -> FilePiece:
    """Read times that are written as texts, for the whole column at once, so that all batches agree on them."""
    table, problems = part.table, list(part.problems)
    for name in (columns.time, columns.end):
        place = table.schema.get_field_index(name) if name is not None else -1
        if place >= 0 and is_text(table.schema.types[place]):
            texts = one_array(table.column(place))
            times, unreadable = read_texts(texts)
            if unreadable.any():
                role, odd = _role(name, columns), unreadable & False
                if pa.types.is_timestamp(times.type):
                    odd = zone_differs(texts, unreadable)
                    have, others = ("no zone", "one") if times.type.tz is not None else ("a zone", "none")
                    problems.append(
                        (odd, f"the {role} has {have}, and those before have {others}: say it for all or none")
                    )
                problems.append((unreadable & ~odd, f"the {role} is neither a whole number nor a timestamp"))
            table = table.set_column(place, name, times)
    if columns.eid is not None and columns.eid in table.schema.names:  # shown in results, and read nowhere before
        refuse_unreadable(table.column(columns.eid), columns.eid)
    original = part.original or (lambda row: _values(part.table, row))
    return replace(part, table=table, problems=problems, original=original)


def _values(table: pa.Table, row: int) -> dict[str, Any]:
    row_alone = with_values(table.slice(row, 1))
    return {name: row_alone.column(name)[0].as_py() for name in table.schema.names}


def _role(name: str | None, columns: Columns) -> str:
    return "time" if name == columns.time else "end"


def usable(given: Input, wanted: Mapping[str, Field]) -> pa.Table:
    """The rows of an input that can be used; the others go to its bad rows, each with its place and reason."""
    return together([_with_missing(part.table, given.columns) for part, _, _, _ in _judged(given, wanted)])


def unusable(given: Input, wanted: Mapping[str, Field]) -> tuple[str, ...]:
    """What is to be said before a run of rows that cannot be used; nothing if there are none."""
    if not len(given):
        return ()
    usable(given, wanted)
    if not given.bad.count:
        return ()
    rows, them = ("1 row", "it") if given.bad.count == 1 else (f"{given.bad.count:,} rows", "them")
    said = f"{rows} cannot be used: a run ends at {them}, or leaves {them} out (--bad-rows skip)"
    return (f"{said}; the first is {given.bad.examples[0]}",)


def usable_rows(given: Input, wanted: Mapping[str, Field], workers: ThreadTeam = ALONE) -> UsableRows:
    """The rows that can be used, with what had to be read of every row to know that."""
    survey = Survey(workers)
    parts = list(_judged(given, wanted, survey))
    table = together([_with_missing(part.table, given.columns) for part, _, _, _ in parts])
    columns = given.columns
    start = _joined([start for _, start, _, _ in parts])
    end = start if columns.end is None else _joined([end for _, _, end, _ in parts])
    types = given.types() if table.num_columns else RowTypes((), np.zeros(0, np.int32))
    if len(types.codes) != len(end):
        used = [np.ones(len(first), np.bool_) if good is None else good for _, first, _, good in parts]
        types = types.only(_joined(used))
    return UsableRows(table, start, end, types, columns, survey.in_order(end))


def _joined(arrays: list[Any]) -> Any:
    if len(arrays) == 1:
        return arrays[0]
    return np.concatenate(arrays) if arrays else np.zeros(0, np.int64)


def _judged(
    given: Input, wanted: Mapping[str, Field], survey: Survey | None = None
) -> Iterator[tuple[FilePiece, Ints, Ints, Bools | None]]:
    """Each part with its usable rows alone, their starts and ends, and which rows of the part they are; None: all."""
    for part in given.parts:
        for role in ("type", "time"):
            if getattr(given.columns, role) not in part.table.schema.names:
                name = getattr(given.columns, role)
                raise InputError(f"{part.place(0).rpartition(',')[0]} has no {role} column {name!r}")
        start, end, problems = _problems(part, given.columns, wanted, survey)
        good: Bools | None = None
        if problems:
            bad: Bools = np.logical_or.reduce([mask for mask, _ in problems])
            _report(part, given, problems, bad)
            good = ~bad
            points, part = end is start, replace(part, table=part.table.filter(pa.array(good)))
            start = start[good]
            end = start if points else end[good]
        yield part, start, end, good


def _problems(
    part: FilePiece, columns: Columns, wanted: Mapping[str, Field], survey: Survey | None
) -> tuple[Ints, Ints, Problems]:
    """Start and end of each row of a part, and for each reason the rows that cannot be used."""
    table = _with_missing(part.table, columns)
    until = None if columns.end is None else one_array(table.column(columns.end))
    start, end, times = spans(one_array(table.column(columns.time)), until, columns, survey)
    problems = part.problems + times + typeless(table.column(columns.type))
    if columns.eid is not None:
        problems += eid_problems(table.column(columns.eid))
    for name, field in wanted.items():
        place = table.schema.get_field_index(name)
        if place >= 0 and field.kind not in (Kind.TEXT, Kind.NULL) and not is_exact(table.schema.types[place], field):
            array = one_array(table.column(place))
            encode_column(array, field, Strings(), truncate=columns.truncate, problems=problems)
    return start, end, [problem for problem in problems if problem[0].any()]


def _report(part: FilePiece, given: Input, problems: Problems, bad: Bools) -> None:
    for row in map(int, np.flatnonzero(bad)):
        reason = next(why for mask, why in problems if mask[row])
        original = part.original(row) if part.original is not None and given.bad.shows_rows else None
        given.bad.report(part.place(row), reason, original, hint=HINTS.get(reason))


def _with_missing(table: pa.Table, columns: Columns) -> pa.Table:
    """Add the end or eid column that other files have: the rows are points, and have no eids (which is reported)."""
    if columns.end is not None and columns.end not in table.schema.names:
        table = table.append_column(columns.end, table.column(columns.time))
    if columns.eid is not None and columns.eid not in table.schema.names:
        table = table.append_column(columns.eid, pa.nulls(table.num_rows))
    return table


def in_time_order(table: pa.Table, columns: Columns) -> pa.Table:
    """The rows by their ends; rows that end together keep their order. Sorted input is left as it is."""
    ends = ends_of(table, columns)
    if is_sorted(ends):
        return table
    return table.take(pa.array(np.argsort(ends, kind="stable")))


def ends_of(table: pa.Table, columns: Columns) -> Ints:
    """When each row ends."""
    only = replace(columns, eid=None)
    names = list(dict.fromkeys(name for name in (columns.type, columns.time, columns.end) if name is not None))
    ends: list[Ints] = [frame(batch, only).end for batch in table.select(names).to_batches()]
    return np.concatenate(ends) if ends else np.zeros(0, np.int64)


def with_dictionaries(table: pa.Table, wanted: Mapping[str, Field], columns: Columns) -> pa.Table:
    """Give each text column that queries read one dictionary for all batches, so that a text is encoded once."""
    for place, field in enumerate(table.schema):
        asked = field.name == columns.type or (field.name in wanted and wanted[field.name].kind is Kind.TEXT)
        if asked and is_text(field.type):
            table = table.set_column(place, field.name, table.column(place).dictionary_encode())
    return table
