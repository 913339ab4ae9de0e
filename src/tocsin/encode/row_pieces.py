"""Stretches of a table as Items, one after the other: rows that matter to nobody are dropped before encoding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tocsin.encode.arrow import is_text, one_array
from tocsin.encode.batch import Encoder
from tocsin.encode.content import Words
from tocsin.encode.merge import Rearranged
from tocsin.encode.near_rows import Near, NearRows
from tocsin.encode.text_numbers import TextNumbers, frozen, text_buffers
from tocsin.encode.values import dictionary_codes, nothing
from tocsin.encode.whole import UsableRows, source_of
from tocsin.errors import InputError
from tocsin.items import NO_ROWS, NO_TEXT, Bools, Codes, Column, Ints, Items
from tocsin.schema import Field, Kind

FEW = 16  # one row in so many, at most
MOST = 2**63 - 1
Limits = Mapping[str, Mapping[str, tuple[float, float]]]  # see plan/limits.py


class RowPieces:
    """Encodes stretches of rows that are in order of time; a text has the same number in all of them.

    `limits` say, by type and attribute, between which bounds a number must lie for a row to matter, `near` which rows
    can belong together. `counted` are attributes that rows must have, or they are counted: where one is missing, no row
    is dropped. `base` are all rows as results show them.
    """

    def __init__(
        self, encoder: Encoder, rows: UsableRows, base: pa.Table, limits: Limits, counted: frozenset[str],
        near: Near | None,
    ) -> None:  # fmt: skip
        self._rows, self._base = rows, base
        self._lookup: Codes = np.append(encoder.codes_of(rows.types.names), np.int32(-1))
        self._wanted: Bools = self._lookup >= 0
        self._readers = {name: _reader(encoder, rows, field) for name, field in encoder.wanted.items()}
        drops = all(map(self._is_there, counted))
        self._bounds = list(_bounds(encoder, rows, limits)) if drops else []
        self._near: NearRows | None = None
        if near is not None and drops:
            self._keys = [self._readers[name] for name in near.keys]
            self._near = NearRows(
                near, rows.end, rows.types.codes, self._lookup, encoder.types, self._within, self._look, self._hashed
            )  # fmt: skip

    def _is_there(self, name: str) -> bool:
        """Whether every row has an attribute, which must be compared by its bits."""
        reader = self._readers.get(name)
        if isinstance(reader, _Texts):
            return not reader.has_nulls
        return isinstance(reader, _Coded) or (isinstance(reader, _Numbers) and reader.field.kind is not Kind.FLOAT)

    def _within(self, places: Ints) -> Ints:
        """Those of some rows that conditions on one event let through."""
        for bounds in self._bounds:
            places = bounds.kept(places, self._rows.types.codes, self._lookup)
        return places

    def _hashed(self, places: Ints) -> Words:
        """The keys of some rows as hashes."""
        out = np.zeros(len(places), np.uint64)
        for reader in self._keys:
            reader.hash(places, out)
        return out

    def items(self, first: int, last: int) -> tuple[Rearranged, int]:
        """The rows of a stretch that matter, and how many are of a type that somebody reads."""
        from tocsin.encode import loops

        rows = self._rows
        places, read = self._places(first, last)
        types, ends = np.empty(len(places), np.int32), np.empty(len(places), np.int64)
        loops.types_and_ends(rows.types.codes, self._lookup, frozen(rows.end), places, types, ends)
        start = ends if rows.start is rows.end else _gathered(rows.start, places, 0)
        columns = {name: reader.column(places) for name, reader in self._readers.items()}
        items = Items(types, start, ends, None, None, columns, NO_ROWS)
        items.checked = True
        return Rearranged.of(items, self._base, places), read

    def _places(self, first: int, last: int) -> tuple[Ints, int]:
        """The rows of a stretch that matter, and how many are of a type that somebody reads."""
        if first < last and self._near is not None and self._near.is_worth_it:
            found = self._near.rows(first, last)
            if found is not None:
                return found
        return self._look(first, last, self._wanted)

    def _look(self, first: int, last: int, wanted: Bools) -> tuple[Ints, int]:
        """The rows of a stretch that are of wanted types and matter, and how many are of such a type."""
        from tocsin.encode import loops

        codes = self._rows.types.codes
        asking = [bounds for bounds in self._bounds if bounds.concern(wanted, self._lookup)]
        if asking:
            places, read = asking[0].places(first, last, wanted, codes, self._lookup)
        else:
            places = np.empty(last - first, np.int64)
            read = loops.places_of(codes[first:last], wanted, first, places)
            places = places[:read]
        for bounds in asking[1:]:
            places = bounds.kept(places, codes, self._lookup)
        return places, read


# --- columns in pieces ---------------------------------------------------------------------------------------------


class _Pieces:
    """A column that may lie in several pieces."""

    def __init__(self, column: pa.ChunkedArray) -> None:
        self.chunks = [chunk for chunk in column.chunks if len(chunk)]
        self.begins: Ints = np.cumsum([0, *map(len, self.chunks)])

    def spread(self, places: Ints) -> Iterator[tuple[int, int, slice]]:
        """For ascending places: in which piece some of them lie, where it begins, and which ones these are."""
        if not len(places):
            return
        low = int(np.searchsorted(self.begins, places[0], "right")) - 1
        high = int(np.searchsorted(self.begins, places[-1], "right")) - 1
        cuts = [0, *np.searchsorted(places, self.begins[low + 1 : high + 1]).tolist(), len(places)]
        for at in range(low, high + 1):
            if cuts[at - low] < cuts[at - low + 1]:
                yield at, int(self.begins[at]), slice(cuts[at - low], cuts[at - low + 1])


def _gathered(values: npt.NDArray[Any], places: Ints, shift: int) -> npt.NDArray[Any]:
    from tocsin.encode import loops

    out = np.empty(len(places), values.dtype)
    loops.gather(frozen(values), places, shift, out)
    return out


def _words(column: pa.ChunkedArray, kind: Kind) -> list[npt.NDArray[Any]] | None:
    """The pieces of a column that kernels read as it is: int64 or float64 without nulls; else None."""
    wanted = {Kind.INT: pa.int64(), Kind.FLOAT: pa.float64(), Kind.TIME: pa.timestamp("us")}.get(kind)
    same = column.type == wanted or (
        kind is Kind.TIME and pa.types.is_timestamp(column.type) and column.type.unit == "us"
    )
    if not same or column.null_count:
        return None
    chunks = [chunk for chunk in column.chunks if len(chunk)]
    return [(chunk.view(pa.int64()) if kind is Kind.TIME else chunk).to_numpy() for chunk in chunks]


class _Reader(Protocol):
    """Reads an attribute of some rows."""

    def column(self, places: Ints) -> Column: ...

    def hash(self, places: Ints, out: Words) -> None:
        """Take the values of some rows into hashes; there are no nulls."""
        from tocsin.encode import loops

        loops.hash_words(self.column(places).values.view(np.uint64), out)


def _reader(encoder: Encoder, rows: UsableRows, field: Field) -> _Reader:
    source = source_of(rows, field)
    if source is None:
        return _Nothing(field)
    if field.kind is Kind.TEXT and is_text(source.type):
        return _Texts(encoder, source)
    if field.kind is Kind.TEXT and pa.types.is_dictionary(source.type) and not source.null_count:
        return _Coded(encoder, field, source)
    words = _words(source, field.kind)
    return _Any(encoder, field, source) if words is None else _Numbers(field, words, _Pieces(source))


@dataclass(slots=True)
class _Nothing(_Reader):
    """There is no such column: all are null."""

    field: Field

    def column(self, places: Ints) -> Column:
        return nothing(self.field, len(places))


@dataclass(slots=True)
class _Numbers(_Reader):
    """Numbers that lie as kernels read them."""

    field: Field
    words: list[npt.NDArray[Any]]
    pieces: _Pieces

    def column(self, places: Ints) -> Column:
        from tocsin.encode import loops

        out: Any = np.empty(len(places), np.float64 if self.field.kind is Kind.FLOAT else np.int64)
        for at, begin, mine in self.pieces.spread(places):
            loops.gather(frozen(self.words[at]), places[mine], begin, out[mine])
        return Column(self.field.kind, out, None, self.field.scale)


class _Texts(_Reader):
    """Texts, numbered where they lie."""

    def __init__(self, encoder: Encoder, source: pa.ChunkedArray) -> None:
        self._strings, self._pieces, self.has_nulls = encoder.strings, _Pieces(source), bool(source.null_count)
        self._numbers = TextNumbers()
        self._codes: Ints = np.zeros(0, np.int64)  # the code of each number

    def column(self, places: Ints) -> Column:
        from tocsin.encode import loops

        out = np.empty(len(places), np.int64)
        for at, begin, mine in self._pieces.spread(places):
            rows = places[mine] - begin if begin else places[mine]
            numbers = self._numbers.number(self._pieces.chunks[at], rows)
            if len(self._numbers) > len(self._codes):
                more = self._strings.codes(self._numbers.texts(len(self._codes)))
                self._codes = np.concatenate([self._codes, more])
            loops.look_up(self._codes, numbers, out[mine])
        return Column(Kind.TEXT, out, out != NO_TEXT if self.has_nulls else None)

    def hash(self, places: Ints, out: Words) -> None:
        from tocsin.encode import loops

        for at, begin, mine in self._pieces.spread(places):
            chunk = self._pieces.chunks[at]
            chunk = chunk.cast(pa.large_string()) if pa.types.is_string_view(chunk.type) else chunk
            offsets, data, _ = text_buffers(chunk)
            loops.hash_texts(offsets, data, places[mine], begin, out[mine])


class _Coded(_Reader):
    """Texts that are indices of a dictionary; pieces may have one each."""

    def __init__(self, encoder: Encoder, field: Field, source: pa.ChunkedArray) -> None:
        self._strings, self._name, self._pieces = encoder.strings, field.name, _Pieces(source)
        self._known: tuple[pa.Array, Ints] | None = None
        self._at = -1

    def column(self, places: Ints) -> Column:
        from tocsin.encode import loops

        out = np.empty(len(places), np.int64)
        for at, begin, mine in self._pieces.spread(places):
            chunk = self._pieces.chunks[at]
            indices = frozen(chunk.indices.to_numpy(zero_copy_only=False))
            if not loops.look_up_at(self._codes(at, chunk), indices, places[mine], begin, out[mine]):
                raise InputError(
                    f"the column {self._name!r} is broken: its indices point outside of its dictionary",
                    hint="write the table anew; `table.validate(full=True)` of pyarrow says more",
                )
        return Column(Kind.TEXT, out, None)

    def _codes(self, at: int, chunk: pa.DictionaryArray) -> Ints:
        """The codes of the texts of a dictionary; that of the last piece is remembered."""
        if self._known is None or (at != self._at and not chunk.dictionary.equals(self._known[0])):
            self._known = chunk.dictionary, dictionary_codes(chunk.dictionary, self._strings, self._name)
        self._at = at
        return self._known[1]


class _Any(_Reader):
    """Any other column: its rows are taken, then encoded."""

    def __init__(self, encoder: Encoder, field: Field, source: pa.ChunkedArray) -> None:
        self._encoder, self._field = encoder, field
        self._source = source.unify_dictionaries() if pa.types.is_dictionary(source.type) else source

    def column(self, places: Ints) -> Column:
        first, last = (int(places[0]), int(places[-1]) + 1) if len(places) else (0, 0)
        near = self._source.slice(first, last - first)
        return self._encoder.encoded(one_array(near.take(pa.array(places - first))), self._field)


# --- conditions on one event ---------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Bounds:
    """What an attribute must be, by the code of the type of its row."""

    words: list[npt.NDArray[Any]]
    pieces: _Pieces
    low: npt.NDArray[Any]
    high: npt.NDArray[Any]
    asked: Bools
    are_few: bool = False  # whether few rows of the last stretch were kept

    def concern(self, wanted: Bools, lookup: Codes) -> bool:
        """Whether a type is asked for its value that one of the wanted codes says."""
        return bool((wanted & (lookup >= 0) & self.asked[lookup]).any())

    def places(self, first: int, last: int, wanted: Bools, codes: Codes, lookup: Codes) -> tuple[Ints, int]:
        """The rows of a stretch that are of wanted codes and matter, and how many are of these codes."""
        from tocsin.encode import loops

        order = np.append(-1, np.arange(len(lookup) - 1))  # of the tables: by code, from -1 on
        mine, size = wanted[order], last - first
        asked, low, high = (table[lookup[order]] for table in (self.asked, self.low, self.high))
        few = self.are_few and not (mine & ~asked).any()
        if few:  # others lie below their bounds, so that the processor can foretell what becomes of a row
            least, most = (-np.inf, np.inf) if low.dtype == np.float64 else (-MOST - 1, MOST)
            low, high = np.where(mine, low, most), np.where(mine, high, least)
        kept, count, read = np.empty(size, np.int64), 0, 0
        while first < last:
            at = int(np.searchsorted(self.pieces.begins, first, "right")) - 1
            begin, stop = int(self.pieces.begins[at]), min(last, int(self.pieces.begins[at + 1]))
            values = frozen(self.words[at])[first - begin : stop - begin]
            given = low, high, values, first, kept[count:]
            if few:
                more, seen = loops.few_places_within(codes[first:stop], mine, *given)
            else:
                more, seen = loops.places_within(codes[first:stop], mine, asked, *given)
            count, read, first = count + more, read + seen, stop
        self.are_few = FEW * count <= size
        return kept[:count], read

    def kept(self, places: Ints, codes: Codes, lookup: Codes) -> Ints:
        """Those of some rows that matter; lookup[codes] are the types of all rows."""
        from tocsin.encode import loops

        kept, count = np.empty(len(places), np.int64), 0
        for at, begin, mine in self.pieces.spread(places):
            values, left = frozen(self.words[at]), kept[count:]
            count += loops.keep_within(
                values, begin, self.low, self.high, self.asked, codes, lookup, places[mine], left
            )
        return kept[:count]


def _bounds(encoder: Encoder, rows: UsableRows, limits: Limits) -> Iterator[_Bounds]:
    for name in sorted({attr for mine in limits.values() for attr in mine}):
        field = encoder.wanted.get(name)
        source = None if field is None else source_of(rows, field)
        words = None if field is None or source is None else _words(source, field.kind)
        if words is None or field is None or field.kind not in (Kind.INT, Kind.FLOAT):
            continue
        mine = [limits.get(type, {}).get(name) for type in encoder.types]
        asked = np.array([bounds is not None for bounds in mine], np.bool_)
        dtype = np.float64 if field.kind is Kind.FLOAT else np.int64
        low, high = (np.array([(0, 0) if each is None else each for each in mine], dtype)[:, side] for side in (0, 1))
        yield _Bounds(words, _Pieces(source), np.ascontiguousarray(low), np.ascontiguousarray(high), asked)
