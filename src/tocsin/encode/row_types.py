"""The types of the rows of a table: the few names that occur, and for each row the number of its name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.encode.arrow import is_text, marks, plain
from tocsin.encode.rehearsal import loops_are_worth
from tocsin.encode.text_numbers import AT_ONCE, FEW, frozen, numbered_names
from tocsin.encode.thread_team import ALONE, ThreadTeam
from tocsin.errors import InputError
from tocsin.items import Bools, Codes, Ints

MANY = 1 << 16  # rows that are worth a compiled loop, which may have to be compiled first


@dataclass(frozen=True, slots=True)
class RowTypes:
    """The type of row i is names[codes[i]], and null where that is -1; a name may occur in no row."""

    names: tuple[str, ...]
    codes: Codes
    all_occur: bool = False  # whether each name is known to occur

    @classmethod
    def of(cls, column: pa.ChunkedArray, workers: ThreadTeam = ALONE) -> RowTypes:
        """What a column says; types that are no texts are read as such."""
        if pa.types.is_dictionary(column.type) and is_text(column.type.value_type):
            whole = not column.null_count and not any(chunk.dictionary.null_count for chunk in column.chunks)
            if whole and loops_are_worth(len(column), MANY):
                return _from_indices(column, workers)
            return _from_dictionaries(column)
        if not is_text(column.type):
            column = column.cast(pa.string())
        if not loops_are_worth(len(column), MANY):
            return _from_dictionaries(column.dictionary_encode())
        names, codes = numbered_names(column, workers)
        return cls(tuple(names), codes, all_occur=True)

    def occurring(self, rows: Bools | None = None) -> list[str]:
        """The names that occur, in all rows or in some of them, in order."""
        if rows is None and self.all_occur:
            return sorted(self.names)
        codes = self.codes if rows is None else self.codes[rows]
        counts = np.bincount(codes + 1, minlength=len(self.names) + 1)[1:]
        return sorted({name for name, count in zip(self.names, counts.tolist(), strict=True) if count})

    def showing(self, column: pa.ChunkedArray) -> list[str]:
        """The types of the rows in which a column has a value."""
        return self.occurring(marks(pc.is_valid(column)))

    def only(self, rows: Bools) -> RowTypes:
        """The types of some rows."""
        return RowTypes(self.names, self.codes[rows])

    def read(self, codes: Codes, workers: ThreadTeam = ALONE) -> Ints:
        """The rows whose type is read: the code of its name is not negative; `codes` has one for each name."""
        wanted = np.append(codes >= 0, False)
        if not loops_are_worth(len(self.codes), MANY):
            return np.flatnonzero(wanted[self.codes])
        from tocsin.encode import loops

        def look(first: int) -> Ints:
            mine = self.codes[first : first + AT_ONCE]
            places = np.empty(len(mine), np.int64)
            return places[: loops.places_of(mine, wanted, first, places)]

        found = workers.all([partial(look, first) for first in range(0, len(self.codes), AT_ONCE)])
        return np.concatenate(found)


def _from_indices(column: pa.ChunkedArray, workers: ThreadTeam) -> RowTypes:
    """What pieces without nulls say, in a compiled loop: few names have numbers of a byte."""
    from tocsin.encode import loops

    known: dict[str, int] = {}
    tables = [[known.setdefault(name, len(known)) for name in chunk.dictionary.to_pylist()] for chunk in column.chunks]
    codes: Codes = np.empty(len(column), np.int8 if len(known) <= FEW else np.int32)

    def number(chunk: pa.DictionaryArray, numbers: list[int], first: int) -> set[int]:
        table, met = np.array(numbers, np.int32), np.zeros(len(numbers), np.bool_)
        indices = frozen(plain(chunk.indices).astype(np.int32, copy=False))
        if not loops.name_rows(indices, table, met, codes[first : first + len(chunk)]):
            raise InputError(
                "the column of types is broken: its indices point outside of its dictionary",
                hint="write the table anew; `table.validate(full=True)` of pyarrow says more",
            )
        return set(table[met].tolist())

    work, first = list[Callable[[], set[int]]](), 0
    for chunk, numbers in zip(column.chunks, tables, strict=True):
        firsts = range(0, len(chunk), AT_ONCE)
        work += [partial(number, chunk.slice(at, AT_ONCE), numbers, first + at) for at in firsts]
        first += len(chunk)
    met: set[int] = set().union(*workers.all(work))
    return RowTypes(tuple(known), codes, all_occur=len(met) == len(known))


def _from_dictionaries(column: pa.ChunkedArray) -> RowTypes:
    """Pieces may have dictionaries of their own."""
    known: dict[str, int] = {}
    codes = [np.zeros(0, np.int32), *_numbered(column, known)]
    return RowTypes(tuple(known), codes[1] if len(codes) == 2 else np.concatenate(codes))


def _numbered(column: pa.ChunkedArray, known: dict[str, int]) -> Iterator[Codes]:
    for chunk in column.chunks:
        names = chunk.dictionary.to_pylist()
        numbers = [-1 if name is None else known.setdefault(name, len(known)) for name in names]
        lookup = np.array([*numbers, -1], np.int32)
        indices = chunk.indices
        if indices.null_count:
            indices = pc.fill_null(indices.cast(pa.int64()), len(names))
        yield lookup[plain(indices)]
