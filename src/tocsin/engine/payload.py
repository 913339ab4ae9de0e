"""The events behind the numbers: rows as they came, kept while an answer may still show them.

A detector numbers events by arrival. Here a number leads back to its row: attributes for results, and the two numbers
of its eid. Batches stay what they are, Arrow. Single events stay the dicts that they came as, and are forgotten as such
unless an answer shows them. Without an eid column the eid is a hash of the content plus an occurrence number among
equal rows; it is computed only for rows that are asked for, and for those that may be equal to them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.encode.content import (
    Words,
    auto_eids,
    content_hash,
    hex_texts,
    is_plain,
    occurrences,
    sketch,
    text_word,
)
from tocsin.encode.gather import taken, words_at
from tocsin.encode.late import with_values
from tocsin.encode.merge import Rearranged, based_on
from tocsin.encode.rehearsal import answer_loops_are_worth
from tocsin.encode.row_bases import Base, compacted, is_late, rows_at, stacked
from tocsin.encode.text_numbers import frozen
from tocsin.engine.number_set import NumberSet, distinct, listed
from tocsin.items import Codes, Ints, Items, is_sorted

Row: TypeAlias = dict[str, Any]
Single: TypeAlias = tuple[int, int, Row]  # number, end, row

MANY = 16  # so many rows are compared with each row that is named before their sketches are used
MERGED = 256  # so many small chunks in a row become one
SMALL = 4096  # rows of a small chunk
MOST_SINGLE = 1 << 16  # single rows that stay dicts
SINGLE = 400  # bytes of a single row that is a dict, about
AT_ONCE = 1024  # single rows that become a chunk when there are too many
NOBODY: Ints = np.zeros(0, np.int64)
MANY_AT_ONCE = 256  # numbers that are worth a set to look them up in


class Source(Protocol):
    """Whoever reads single rows can also read many of them, and tell what one shows."""

    @property
    def has_eid(self) -> bool: ...

    @property
    def is_shown_as_read(self) -> bool: ...

    def items(self, rows: Sequence[Row]) -> Items: ...

    def content(self, row: Row) -> Row: ...

    def eid(self, row: Row) -> Any: ...

    def code(self, row: Row) -> int: ...


# --- chunks --------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Chunk:
    """A batch: row i is event first + i, or first + kept[i] where only some rows were kept.

    It is shown by rows[i], or by rows[order[i]] where rows are in another order.
    """

    first: int
    rows: Base
    types: Codes
    start: Ints
    end: Ints
    high: Ints | None
    low: Ints | None
    kept: Ints | None = None
    last_end: int = 0
    level: int = 0  # how often it was merged; chunks of one level that stand together are merged
    run: int = 1  # how many of this level stand together, up to this one
    ranked: tuple[Ints, Ints | None] | None = None  # see by_end
    sketched: Words | None = None  # see sketches
    order: Ints | None = None

    def taken(self, at: Ints) -> pa.RecordBatch:
        """What is shown of some rows."""
        return rows_at(self.rows, at if self.order is None else self.order[at])

    @property
    def batch(self) -> pa.RecordBatch:
        """What is shown of all rows."""
        if self.order is not None or is_late(self.rows):
            return rows_at(self.rows, np.arange(self.rows.num_rows) if self.order is None else self.order)
        return with_values(self.rows) if isinstance(self.rows, pa.Table) else self.rows

    def numbers(self, rows: Ints) -> Ints:
        return self.first + (rows if self.kept is None else self.kept[rows])

    def places(self, numbers: Ints) -> Ints:
        """The rows of events that are here."""
        at = numbers - self.first
        return at if self.kept is None else np.searchsorted(self.kept, at)

    def only(self, numbers: Ints) -> Chunk:
        """The rows of some of its events."""
        at = self.places(numbers)
        if len(at) == len(self.types):
            return self
        chunk = self.some(at)
        chunk.level = 0
        return chunk

    def some(self, at: Ints) -> Chunk:
        """Some of its rows, in order, as a chunk."""
        high, low = None if self.high is None else self.high[at], None if self.low is None else self.low[at]
        kept = at if self.kept is None else self.kept[at]
        chunk = Chunk(self.first, self._kept(at), self.types[at], self.start[at], self.end[at], high, low, kept)
        chunk.last_end, chunk.level = self.last_end, self.level
        return chunk

    def _kept(self, at: Ints) -> Base:
        """Some rows, and no others."""
        return (
            compacted([(self.rows, at if self.order is None else self.order[at])])
            if is_late(self.rows)
            else self.taken(at)
        )

    def since(self, time: int) -> Chunk | None:
        """The rows that end at or after a time; None if there are none."""
        stay = self.end >= time
        if stay.all():
            return self
        return self.some(np.flatnonzero(stay)) if stay.any() else None

    @property
    def nbytes(self) -> int:
        """Bytes of its rows, and of what is known of them beside; times are among the rows."""
        own = sum(array.nbytes for array in (self.high, self.low, self.kept) if array is not None)
        return int(self.rows.nbytes) + self.types.nbytes + own

    def by_end(self) -> tuple[Ints, Ints | None]:
        """The ends in order, and the rows in that order (None: as they are)."""
        if self.ranked is None:
            in_order = is_sorted(self.end)
            order = None if in_order else np.argsort(self.end, kind="stable")
            self.ranked = (self.end, None) if order is None else (self.end[order], order)
        return self.ranked

    def ending_count(self, ends: Ints) -> int:
        """How many rows end at one of `ends`."""
        ranked = self.by_end()[0]
        return int((np.searchsorted(ranked, ends, side="right") - np.searchsorted(ranked, ends)).sum())

    def sketches(self) -> Words:
        """The sketches of all rows of a known type, sorted; computed once. Others have no equal among events."""
        if self.sketched is None:
            self.sketched = np.sort(sketch(self.end, self.types, self.batch)[self.types >= 0])
        return self.sketched

    def ending(self, ends: Ints) -> tuple[Ints, Ints]:
        """The rows that end at one of `ends` (ascending), in order of arrival, and at which one each of them ends."""
        ranked, order = self.by_end()
        low, high = np.searchsorted(ranked, ends), np.searchsorted(ranked, ends, side="right")
        counts = high - low
        which = np.repeat(np.arange(len(ends)), counts)
        at = np.arange(len(which)) + np.repeat(low - (np.cumsum(counts) - counts), counts)
        if order is None:
            return at, which
        rows = order[at]
        back = np.argsort(rows)
        return rows[back], which[back]


@dataclass(slots=True)
class LazyCodes:
    """The types of rows as kernels number them, looked up when someone asks: lookup[codes[i]]."""

    codes: Codes
    lookup: Codes

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, at: Any) -> Codes:
        found: Codes = self.lookup[self.codes[at]]
        return found


@dataclass(slots=True)
class WholeTable(Chunk):
    """A whole table in order of time, with rows that nobody reads between the others; `names` are those of types."""

    names: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, rows: pa.Table, codes: Codes, names: tuple[str, ...], lookup: Codes, start: Ints, end: Ints
    ) -> WholeTable:
        """`lookup` has the type of each code as kernels number it; the last one is for the code -1."""
        types: Any = LazyCodes(codes, lookup)
        last = int(end[-1]) if len(end) else 0
        return cls(0, rows, types, start, end, None, None, last_end=last, names=names)

    def type_words(self, at: Ints) -> Words:
        """What the types of some rows say to the hash of their content; their texts are not looked at."""
        codes: Any = self.types
        words: Words = np.array([*map(text_word, self.names), 0], np.uint64)
        found: Words = words[codes.codes[at]]
        return found

    def by_end(self) -> tuple[Ints, Ints | None]:
        return self.end, None

    def sketches(self) -> Words:
        if self.sketched is None:
            at = np.flatnonzero(self.types[:] >= 0)
            plain = with_values(self.rows)
            plain = plain.select([field.name for field in plain.schema if is_plain(field.type)])
            self.sketched = np.sort(sketch(self.end[at], self.types[at], rows_at(plain, at)))
        return self.sketched


def _one(table: pa.Table) -> pa.RecordBatch:
    batches = table.combine_chunks().to_batches()
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _reached(chunks: list[Chunk], ends: Ints) -> list[Chunk]:
    """The chunks between whose first and last end lies one of `ends`."""
    ranked = [chunk.by_end()[0] for chunk in chunks]
    low = np.searchsorted(ends, [each[0] for each in ranked])
    high = np.searchsorted(ends, [each[-1] for each in ranked], side="right")
    return [chunks[at] for at in np.flatnonzero(low < high).tolist()]


def _merged(chunks: list[Chunk]) -> Chunk:
    """Small chunks as one."""
    numbers = np.concatenate([chunk.numbers(np.arange(len(chunk.types))) for chunk in chunks])
    first = int(numbers[0])
    return Chunk(
        first,
        _rows_of(chunks),
        np.concatenate([chunk.types for chunk in chunks]),
        np.concatenate([chunk.start for chunk in chunks]),
        np.concatenate([chunk.end for chunk in chunks]),
        _all_or_none([chunk.high for chunk in chunks]),
        _all_or_none([chunk.low for chunk in chunks]),
        kept=numbers - first,
        last_end=chunks[-1].last_end,
        level=chunks[-1].level + 1,
    )


def _rows_of(chunks: list[Chunk]) -> Base:
    """The rows of several chunks, made if they are made in all of them."""
    if any(is_late(chunk.rows) for chunk in chunks):
        return compacted([(chunk.rows, chunk.order) for chunk in chunks])
    return stacked([chunk.batch for chunk in chunks])


def _all_or_none(arrays: list[Ints | None]) -> Ints | None:
    given = [array for array in arrays if array is not None]
    return np.concatenate(given) if len(given) == len(arrays) else None


# --- rows that an answer shows -------------------------------------------------------------------------------------


def _joined(pieces: list[Ints]) -> Ints:
    return pieces[0] if len(pieces) == 1 else np.concatenate([np.zeros(0, np.int64), *pieces])


class Rows:
    """Some rows of some chunks, each once, in order of arrival."""

    def __init__(self, chunks: list[Chunk], numbers: Ints) -> None:
        self.chunks, self.numbers = chunks, numbers
        self.known_set: NumberSet | None = None  # of the numbers, where somebody has made one
        self._columns: dict[str, pa.Array] = {}
        cuts = [*np.searchsorted(numbers, [chunk.first for chunk in chunks]).tolist(), len(numbers)]
        self.pieces = [
            (chunk, chunk.places(numbers[begin:end]))
            for chunk, begin, end in zip(chunks, cuts, cuts[1:], strict=False)
            if begin < end
        ]

    def at(self, numbers: Ints) -> Ints:
        """Where events stand among these rows; -1 stays -1."""
        if len(numbers) >= MANY_AT_ONCE and self._set is not None:
            return self._set.places(numbers)
        found: Ints = np.where(numbers < 0, -1, np.searchsorted(self.numbers, numbers))
        return found

    @cached_property
    def _set(self) -> NumberSet | None:
        return self.known_set or NumberSet.of([self.numbers])

    @cached_property
    def types(self) -> Codes:
        return np.concatenate([chunk.types[at] for chunk, at in self.pieces] or [np.zeros(0, np.int32)])

    @cached_property
    def start(self) -> Ints:
        return _joined([words_at(chunk.start, at) for chunk, at in self.pieces])

    @cached_property
    def end(self) -> Ints:
        return _joined([words_at(chunk.end, at) for chunk, at in self.pieces])

    @cached_property
    def table(self) -> pa.Table:
        """The rows as results show them; every column in one piece."""
        if not self.pieces:
            return pa.table({})
        if self._typeless is None:
            return pa.Table.from_batches([stacked([chunk.taken(at) for chunk, at in self.pieces])])
        [(chunk, at)] = self.pieces
        rows: Any = chunk.rows
        place = rows.schema.get_field_index("type")
        return self._typeless.add_column(place, rows.schema.field(place), taken(rows.column(place), at))

    @cached_property
    def _typeless(self) -> pa.Table | None:
        """The rows without their type, where that is known beside the table, so that its texts need not be copied."""
        chunk, at = self.pieces[0] if len(self.pieces) == 1 else (None, NOBODY)
        rows: Any = None if chunk is None else chunk.rows
        if not isinstance(chunk, WholeTable) or not pa.types.is_string(rows.schema.field("type").type):
            return None
        return pa.Table.from_batches([rows_at(rows.drop_columns("type"), at)])

    @cached_property
    def without_types(self) -> dict[str, pa.Array]:
        """The columns by name; that of the type may be missing, and that of the eid is."""
        table = self.table if self._typeless is None else self._typeless
        return {name: whole(table.column(name)) for name in table.schema.names}

    def column(self, name: str) -> pa.Array:
        """One column, in one piece; others are not read for it."""
        if self._apart is None:
            return whole(self.table.column(name))
        if name not in self._columns:
            base, at = self._apart
            self._columns[name] = rows_at(base.select([name]), at).column(0)
        return self._columns[name]

    @property
    def names_of_columns(self) -> list[str]:
        """What `table` has."""
        return list(self.table.schema.names if self._apart is None else self._apart[0].schema.names)

    @cached_property
    def _apart(self) -> tuple[pa.RecordBatch | pa.Table, Ints] | None:
        """Where the rows stand, if they are of one batch that is made, so that a column can be taken by itself."""
        if len(self.pieces) != 1:
            return None
        [(chunk, at)] = self.pieces
        return None if is_late(chunk.rows) else (chunk.rows, at if chunk.order is None else chunk.order[at])

    def type_shown(self, place: int) -> pa.Scalar:
        """The type of a row as results show it."""
        if self._typeless is None:
            return self.shown["type"][place]
        [(chunk, at)] = self.pieces
        rows: Any = chunk.rows
        return rows.column("type")[int(at[place])]

    @cached_property
    def shown(self) -> dict[str, pa.Array]:
        """The columns by name, with the eid."""
        table = self.table
        return {name: whole(table.column(name)) for name in table.schema.names} | {"eid": self.eids}

    @cached_property
    def eids(self) -> pa.Array:
        """The eids as people see them."""
        named = [chunk.high is not None for chunk, _ in self.pieces]
        if named and all(named):
            return self.column("eid")
        computed = auto_eids(*self.names)
        if not any(named):
            return computed
        return pc.coalesce(whole(self.table.column("eid")).cast(pa.string()), computed)

    def eids_at(self, places: Ints) -> pa.Array:
        """The eids of some of the rows, as people see them."""
        are_hashes = all(chunk.high is None for chunk, _ in self.pieces) and not self.names[1].any()
        if not are_hashes or not answer_loops_are_worth(len(places)):
            return taken(self.eids, places)
        return hex_texts([words_at(self.names[0], places).view(np.uint64)])

    @cached_property
    def names(self) -> tuple[Ints, Ints]:
        """The eids as two numbers each."""
        high, low = np.empty(len(self.numbers), np.int64), np.empty(len(self.numbers), np.int64)
        nameless = np.zeros(len(self.numbers), np.bool_)
        stop = 0
        for chunk, at in self.pieces:
            mine = slice(stop, stop := stop + len(at))
            if chunk.high is None or chunk.low is None:
                nameless[mine] = True
            else:
                high[mine], low[mine] = words_at(chunk.high, at), words_at(chunk.low, at)
        if nameless.any():
            high[nameless], low[nameless] = self._computed(nameless)
        return high, low

    def _computed(self, nameless: npt.NDArray[np.bool_]) -> tuple[Ints, Ints]:
        """Content hash and occurrence number: equal rows have the same type and end, so only those are compared."""
        chunks = [chunk for chunk in self.chunks if chunk.high is None]
        if len(chunks) == 1 and len(self.pieces) == 1 and chunks[0].by_end()[1] is None:
            return self._told_by_neighbours(chunks)
        return self._told_apart(nameless, chunks)

    def _told_by_neighbours(self, chunks: list[Chunk]) -> tuple[Ints, Ints]:
        """Content hash and occurrence number of one chunk in order: only rows beside one of their end have an equal."""
        tied = _tied(chunks[0].end, self.pieces[0][1])
        high = self._hashes().view(np.int64)
        low = np.zeros(len(high), np.int64)
        if tied.any():
            high[tied], low[tied] = self._told_apart(tied, chunks)
        return high, low

    def _hashes(self) -> Words:
        """The contents of rows that lie in one piece."""
        [(chunk, at)] = self.pieces
        if self._typeless is None or not isinstance(chunk, WholeTable):
            return content_hash(self.table.to_batches()[0])
        return content_hash(self._typeless.to_batches()[0], chunk.type_words(at))

    def _told_apart(self, nameless: npt.NDArray[np.bool_], chunks: list[Chunk]) -> tuple[Ints, Ints]:
        ends = _distinct(self.end[nameless])[0]
        if sum(chunk.ending_count(ends) for chunk in _reached(chunks, ends)) <= MANY * int(nameless.sum()):
            return self._compared(nameless, chunks)
        high: Ints = content_hash(_one(self.table.filter(pa.array(nameless)))).view(np.int64)
        low = np.zeros(len(high), np.int64)
        twins = nameless.copy()
        twins[nameless] = self._has_twin(nameless, _reached(chunks, ends))
        if twins.any():
            low[twins[nameless]] = self._compared(twins, chunks)[1]
        return high, low

    def _has_twin(self, nameless: npt.NDArray[np.bool_], chunks: list[Chunk]) -> npt.NDArray[np.bool_]:
        """Which rows may have an equal row somewhere: those whose sketch occurs more than once."""
        mine = sketch(self.end[nameless], self.types[nameless], _one(self.table.filter(pa.array(nameless))))
        order = np.argsort(mine)
        ranked, counts = mine[order], np.zeros(len(mine), np.int64)
        for chunk in chunks:
            known = np.append(chunk.sketches(), np.full(2, ranked[-1] + np.uint64(1)))  # two more that are nobody's
            at = np.searchsorted(known[:-2], ranked)
            counts += known[at] == ranked
            counts += known[at + 1] == ranked
        found = np.zeros(len(mine), np.bool_)
        found[order] = counts > 1
        return found

    def _compared(self, nameless: npt.NDArray[np.bool_], chunks: list[Chunk]) -> tuple[Ints, Ints]:
        """Number equal rows by comparing each with every row of its type and end."""
        ends, which = _distinct(self.end[nameless])
        types = self.types[nameless]
        wanted = np.zeros((len(ends), int(types.max()) + 1), np.bool_)
        wanted[which, types] = True
        numbers, hashes = [], []
        for chunk in _reached(chunks, ends):
            at = _alike(chunk, ends, wanted)
            numbers.append(chunk.numbers(at))
            hashes.append(content_hash(chunk.taken(at)).view(np.int64))
        known = np.concatenate(hashes)
        mine = np.searchsorted(np.concatenate(numbers), self.numbers[nameless])
        return known[mine], occurrences(known)[mine]


def _tied(end: Ints, at: Ints) -> npt.NDArray[np.bool_]:
    """Which rows end with the one before or behind them, where rows are in order of their ends."""
    if answer_loops_are_worth(len(at)):
        from tocsin.encode import answer_loops as loops

        found = np.empty(len(at), np.bool_)
        loops.tied(frozen(end), frozen(at), found)
        return found
    tied: npt.NDArray[np.bool_] = (end[np.maximum(at - 1, 0)] == end[at]) & (at > 0)
    tied |= (end[np.minimum(at + 1, len(end) - 1)] == end[at]) & (at < len(end) - 1)
    return tied


def _alike(chunk: Chunk, ends: Ints, wanted: npt.NDArray[np.bool_]) -> Ints:
    """The rows of a chunk with a wanted type at one of the ends."""
    at, which = chunk.ending(ends)
    types = chunk.types[at]
    known = (types >= 0) & (types < wanted.shape[1])
    alike: Ints = at[known & wanted[which, np.where(known, types, 0)]]
    return alike


def _distinct(values: Ints) -> tuple[Ints, Ints]:
    """Distinct values in order, and the place of each value among them."""
    if not is_sorted(values):
        found, places = np.unique(values, return_inverse=True)
        return found, places.reshape(-1)
    fresh = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=fresh[1:])
    return values[fresh], np.cumsum(fresh) - 1


def whole(column: pa.ChunkedArray) -> pa.Array:
    """A column in one piece."""
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


# --- the payload of a detector -------------------------------------------------------------------------------------


class View:
    """The rows at one moment; what is forgotten later is still here. Single rows become a chunk when someone looks.

    alone  all that answers show lies among `singles`, and all that may be equal to it: then there are no other chunks
    """

    def __init__(
        self, chunks: list[Chunk], singles: Sequence[Single] = (), source: Source | None = None, *, alone: bool = False
    ) -> None:
        self._before, self.singles, self.source, self.alone = chunks, singles, source, alone

    @cached_property
    def chunks(self) -> list[Chunk]:
        return self._before if self.source is None else [*self._before, _chunk(self.singles, self.source)]

    def rows(self, numbers: Ints) -> Rows:
        """The rows of some events; `numbers` ascend."""
        return Rows(self.chunks, numbers)

    def types(self, numbers: Ints) -> Codes:
        """The type of each event."""
        if self.alone and self.source is not None:
            codes = {number: self.source.code(row) for number, _, row in self.singles}
            return np.array([codes.get(number, -1) for number in numbers.tolist()], np.int32)
        rows = self.rows(distinct([numbers]))
        return rows.types[rows.at(numbers)]


class Payload:
    """Chunks in order of arrival, and behind them the tail: single rows, from `head` on."""

    def __init__(self, *, ordered: bool = True) -> None:
        self.ordered = ordered
        self.chunks: list[Chunk] = []
        self.tail: list[Single] = []
        self.head = 0
        self.source: Source | None = None
        self.has_eid: bool | None = None

    # --- keeping ---

    def add(self, first: int, items: Items, wanted: npt.NDArray[np.bool_] | None, clock: int) -> None:
        """Keep a batch whose events end by `clock`: all of it, or only the wanted rows."""
        if self.tail:
            self._flush()
        self.has_eid = items.eid_high is not None
        high, low = items.eid_high, items.eid_low
        if wanted is None:
            rows, order = based_on(items)
            chunk = Chunk(first, rows, items.types, items.start, items.end, high, low, order=order)
        else:
            at = np.flatnonzero(wanted)
            high, low = None if high is None else high[at], None if low is None else low[at]
            if isinstance(items, Rearranged):
                rows, order = items.base, items.order[at]
                if is_late(rows):
                    rows, order = compacted([(rows, order)]), None
            else:
                rows, order = items.payload.take(pa.array(at)), None
            chunk = Chunk(first, rows, items.types[at], items.start[at], items.end[at], high, low, at, order=order)
        chunk.last_end = clock
        self._append(chunk)

    def add_row(self, number: int, end: int, row: Row, source: Source) -> None:
        """Keep a single event."""
        if source is not self.source:
            self._flush()
            self.source, self.has_eid = source, source.has_eid
        self.tail.append((number, end, row))

    def tidy(self, horizon: int) -> None:
        """Forget what ended before the horizon; too many single rows become chunks."""
        self._drop_before(horizon)
        if len(self.tail) - self.head > SMALL:
            if not self.ordered:
                self._flush()
            elif len(self.tail) - self.head > MOST_SINGLE:
                self._flush(AT_ONCE)

    def _drop_before(self, horizon: int) -> None:
        """Chunks as a whole, single rows one by one."""
        chunks, tail, head = self.chunks, self.tail, self.head
        if chunks and chunks[0].last_end < horizon:
            gone = 1
            while gone < len(chunks) and chunks[gone].last_end < horizon:
                gone += 1
            del chunks[:gone]
        while head < len(tail) and tail[head][1] < horizon:
            head += 1
        if head != self.head:
            if head > AT_ONCE and 2 * head > len(tail):
                del tail[:head]
                head = 0
            self.head = head

    def drop_rows_before(self, time: int) -> None:
        """Forget every row that ends before a time, also in the midst of chunks."""
        self._flush()
        self.chunks = [kept for chunk in self.chunks if (kept := chunk.since(time)) is not None]
        last: Chunk | None = None
        for chunk in self.chunks:
            chunk.run = last.run + 1 if last is not None and last.level == chunk.level else 1
            last = chunk

    @property
    def nbytes(self) -> int:
        """Bytes of the rows that are kept, about."""
        return SINGLE * (len(self.tail) - self.head) + sum(chunk.nbytes for chunk in self.chunks)

    @property
    def count(self) -> int:
        """How many rows are kept."""
        return sum(len(chunk.types) for chunk in self.chunks) + len(self.tail) - self.head

    def keep(self, numbers: Ints) -> None:
        """Forget every row but those of some events; `numbers` ascend, and have rows."""
        behind = self.tail[self.head][0] if self.has_singles else int(numbers.max(initial=-1)) + 1
        cuts = np.searchsorted(numbers, [*(chunk.first for chunk in self.chunks), behind]).tolist()
        singles = set(numbers[cuts[-1] :].tolist())
        self.tail, self.head = [single for single in self.tail[self.head :] if single[0] in singles], 0
        pieces = zip(self.chunks, cuts, cuts[1:], strict=False)
        chunks = [chunk.only(numbers[begin:end]) for chunk, begin, end in pieces if begin < end]
        self.chunks = []
        for _, alike in groupby(chunks, key=lambda chunk: chunk.high is None):
            several = list(alike)
            self._append(_merged(several) if len(several) > 1 else several[0])

    def _append(self, chunk: Chunk) -> None:
        """Small chunks are merged where many stand together, so that there are never many chunks."""
        if self.chunks:
            chunk.last_end = max(chunk.last_end, self.chunks[-1].last_end)  # so that they ascend
        while True:
            chunks = self.chunks
            if len(chunk.types) >= SMALL:
                chunk.level = SMALL
            chunk.run = 1
            if chunks:
                last = chunks[-1]
                if last.level == chunk.level and (last.high is None) == (chunk.high is None):
                    chunk.run = last.run + 1
            chunks.append(chunk)
            if chunk.run < MERGED or chunk.level == SMALL or len(chunks) < MERGED:
                return
            chunk = _merged(self.chunks[-MERGED:])
            del self.chunks[-MERGED:]

    def _flush(self, count: int | None = None) -> None:
        """Turn single rows into a chunk: the first so many, or all."""
        stop = len(self.tail) if count is None else self.head + count
        if self.head < stop:
            assert self.source is not None
            self._append(_chunk(self.tail[self.head : stop], self.source))
        del self.tail[:stop]
        self.head = 0

    # --- showing ---

    @property
    def has_singles(self) -> bool:
        return self.head < len(self.tail)

    def rows(self, numbers: Ints) -> Rows:
        """The rows of some events; `numbers` ascend."""
        self._flush()
        return Rows(self.chunks, numbers)

    def ending_at(self, time: int) -> tuple[Ints, Codes]:
        """Return the numbers and types of the rows that end at a time."""
        self._flush()
        ends, numbers, types = np.array([time]), [np.zeros(0, np.int64)], [np.zeros(0, np.int32)]
        for chunk in _reached(self.chunks, ends):
            at, _ = chunk.ending(ends)
            numbers.append(chunk.numbers(at))
            types.append(chunk.types[at])
        return np.concatenate(numbers), np.concatenate(types)

    def view(self, asked: Sequence[Ints]) -> View:
        """What is needed to show some events, whatever is forgotten later."""
        if not self.has_singles:
            return View(list(self.chunks))
        numbers = listed(asked)
        singles = self._asked(numbers)
        if not singles:
            return View(list(self.chunks))
        alone = self._all_single(numbers)
        return View([] if alone else list(self.chunks), singles, self.source, alone=alone)

    def _all_single(self, numbers: list[int]) -> bool:
        """Whether events are single rows, and all that may be equal to them."""
        tail, head = self.tail, self.head
        if not self.chunks or not numbers:
            return bool(numbers)
        if numbers[0] < tail[head][0]:
            return False
        last = self.chunks[-1].last_end
        return bool(self.has_eid) or all(tail[bisect_left(tail, (n,), head)][1] > last for n in numbers)

    def _asked(self, numbers: list[int]) -> list[Single]:
        """The single rows with these numbers; without eids also those that may be equal to them."""
        tail, head = self.tail, self.head
        mine = numbers[bisect_left(numbers, tail[head][0]) :]
        if 8 * len(mine) > len(tail) - head:
            return tail[head:]
        places = {bisect_left(tail, (number,), head) for number in mine}
        if not self.has_eid:
            if not self.ordered:
                ends = {tail[place][1] for place in places}
                return [single for single in tail[head:] if single[1] in ends]
            for place in list(places):
                end, before, behind = tail[place][1], place - 1, place + 1
                while before >= head and tail[before][1] == end:
                    places.add(before)
                    before -= 1
                while behind < len(tail) and tail[behind][1] == end:
                    places.add(behind)
                    behind += 1
        return [tail[place] for place in sorted(places)]


def _chunk(singles: Sequence[Single], source: Source) -> Chunk:
    """Single rows as a chunk."""
    items = source.items([row for _, _, row in singles])
    numbers = np.array([number for number, _, _ in singles], np.int64)
    first, last_end = int(numbers[0]), max(end for _, end, _ in singles)
    chunk = Chunk(first, items.payload, items.types, items.start, items.end, items.eid_high, items.eid_low)
    chunk.kept, chunk.last_end = numbers - first, last_end
    return chunk
