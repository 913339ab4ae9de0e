"""Equal texts get equal numbers, straight from Arrow's buffers: no dictionary of the column is made."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tocsin.encode.thread_team import ALONE, ThreadTeam
from tocsin.errors import InputError
from tocsin.items import Codes, Ints

MANY = 1 << 31  # more names than there can be
NO_BITS: npt.NDArray[np.uint8] = np.zeros(0, np.uint8)
NO_ROWS: Ints = np.zeros(0, np.int64)
AT_ONCE = 1 << 18  # texts that are numbered in one go
SEED = 1 << 12  # texts that tell the order of most names
FEW = 126  # names whose numbers fit into a byte, also with one more
MOST_NEW = 64  # so often a text may be missing in the small table of names
MASKS: npt.NDArray[np.uint64] = np.array(  # for each length up to 16 the bits of two words that belong to a text
    [(1 << (8 * min(8, max(0, length - 8 * word)))) - 1 for length in range(17) for word in (0, 1)], np.uint64
)

SHORT_MASKS: npt.NDArray[np.uint64] = MASKS[:18:2].copy()  # for each length up to 8, of one word


class TextNumbers:
    """Numbers texts 0, 1, 2, ... as they are first seen, over any number of columns; nulls are -1."""

    def __init__(self) -> None:
        self._slots: npt.NDArray[np.uint64] = np.zeros(1024, np.uint64)
        self._heads: npt.NDArray[np.uint64] = np.zeros(1024, np.uint64)
        self._begins: Ints = np.zeros(513, np.int64)
        self._texts: npt.NDArray[np.uint8] = np.zeros(1 << 13, np.uint8)
        self._state: Ints = np.zeros(3, np.int64)

    def __len__(self) -> int:
        return int(self._state[1])

    def number(self, array: pa.Array, rows: Ints | None = None) -> Codes:
        """The number of each text, or of those in some rows.

        >>> TextNumbers().number(pa.array(["b", "a", None, "b"])).tolist()
        [0, 1, -1, 0]
        """
        from tocsin.encode import loops

        if pa.types.is_string_view(array.type):
            array = array.cast(pa.large_string())
        offsets, data, bits = text_buffers(array)
        out = np.empty(len(array) if rows is None else len(rows), np.int32)
        self._state[0] = 0
        while True:
            status = loops.number_texts(
                offsets, data, bits, array.offset, NO_ROWS if rows is None else rows, rows is not None, out,
                self._slots, self._heads, self._begins, self._texts, self._state,
            )  # fmt: skip
            if status == loops.DONE:
                return out
            if status == loops.LIES:
                raise _broken()
            row = int(self._state[0]) if rows is None else int(rows[self._state[0]])
            self._grow(int(offsets[row + 1] - offsets[row]))

    def _grow(self, length: int) -> None:
        """Make room for more texts, one of which is so long."""
        from tocsin.encode import loops

        count, size = int(self._state[1]), int(self._state[2])
        if 2 * (count + 1) > len(self._slots):
            more = len(self._slots)
            self._slots = np.zeros(2 * more, np.uint64)
            self._heads = np.concatenate([self._heads, np.zeros(more, np.uint64)])
            self._begins = np.concatenate([self._begins, np.zeros(more // 2, np.int64)])
            loops.fill_slots(self._slots, self._heads, self._begins, self._texts, count)
        if size + length > len(self._texts):
            more = max(len(self._texts), length)
            self._texts = np.concatenate([self._texts, np.zeros(more, np.uint8)])

    def array(self, first: int = 0) -> pa.Array:
        """The texts from a number on, as a column."""
        count = len(self) - first
        begins = np.ascontiguousarray(self._begins[first : first + count + 1])
        size = int(self._state[2])
        return pa.LargeStringArray.from_buffers(count, pa.py_buffer(begins), pa.py_buffer(self._texts[:size]))

    def texts(self, first: int = 0) -> list[str]:
        """The texts from a number on."""
        array = self.array(first)
        try:
            found: list[str] = array.to_numpy(zero_copy_only=False).tolist()
        except (UnicodeDecodeError, pa.ArrowException):
            raise InputError("a text is not valid UTF-8", hint="decode the column before it is given here") from None
        return found


def _broken() -> InputError:
    return InputError(
        "a column of texts is broken: its offsets point outside of its bytes",
        hint="write the table anew; `table.validate(full=True)` of pyarrow says more",
    )


class FewNames:
    """Numbers texts as `TextNumbers` does, quicker where few of them occur, and these are short: names of types."""

    def __init__(self, most: int = FEW) -> None:
        """`most`: of more texts no numbers are written."""
        from tocsin.encode import loops

        self.all, self._most = TextNumbers(), most
        self._new = 0  # how often a text was not in the small table
        self._heads: npt.NDArray[np.uint64] = np.zeros(2 * loops.FEW_SLOTS, np.uint64)
        self._lengths: Ints = np.full(loops.FEW_SLOTS, -1, np.int64)
        self._numbers: Codes = np.zeros(loops.FEW_SLOTS, np.int32)
        self._are_short = True  # whether each has at most eight bytes: then these tables are enough
        self._short_heads: npt.NDArray[np.uint64] = np.zeros(loops.FEW_SLOTS, np.uint64)
        self._tags: npt.NDArray[np.uint64] = np.full(loops.FEW_SLOTS, 2**64 - 1, np.uint64)

    def number(self, array: pa.Array, out: npt.NDArray[Any]) -> None:
        """Write the number of each text, as long as there are not too many."""
        from tocsin.encode import loops

        if len(self.all) > self._most:
            return
        row = 0
        if array.null_count == 0 and not pa.types.is_string_view(array.type):
            offsets, data, _ = text_buffers(array)
            while self._new < MOST_NEW:
                if self._are_short:
                    row, status = loops.number_short(
                        offsets, data, out, self._short_heads, self._tags, SHORT_MASKS, row
                    )
                else:
                    row, status = loops.number_few(
                        offsets, data, out, self._heads, self._lengths, self._numbers, MASKS, row
                    )
                if status == loops.DONE:
                    return
                if status == loops.LIES:
                    raise _broken()
                number = int(self.all.number(array.slice(row, 1))[0])
                if number >= self._most:
                    return
                out[row] = number
                self._learn(int(offsets[row]), int(offsets[row + 1]), data, number)
                row += 1
        found = self.all.number(array.slice(row))
        if len(self.all) <= self._most:
            out[row:] = found

    def _learn(self, first: int, last: int, data: Any, number: int) -> None:
        """Put a text into the small table, if it is short and its place is free."""
        from tocsin.encode import loops

        if last - first > 16:
            self._new += 1
            return
        text = bytes(data[first:last]).ljust(16, b"\0")
        head, rest = np.frombuffer(text, np.uint64)
        slot = loops.few_slot_of(head, rest, last - first)
        if self._lengths[slot] < 0:
            self._heads[2 * slot], self._heads[2 * slot + 1] = head, rest
            self._lengths[slot], self._numbers[slot] = last - first, number
            self._short_heads[slot], self._tags[slot] = head, ((last - first) << 32) | number
            self._are_short = self._are_short and last - first <= 8
        elif self._numbers[slot] != number:
            self._new += 1


def text_buffers(array: pa.Array) -> tuple[Any, Any, Any]:
    """The offsets, the bytes and the bits of validity of a column of texts, viewed where they are."""
    valid, offsets, data = array.buffers()
    width = np.int64 if pa.types.is_large_string(array.type) else np.int32
    if offsets is None or not offsets.size:
        places = np.zeros(1, width)
    else:
        places = np.frombuffer(offsets, width)[array.offset : array.offset + len(array) + 1]
    raw = np.frombuffer(data, np.uint8) if data is not None and data.size else NO_BITS
    bits = np.frombuffer(valid, np.uint8) if valid is not None and array.null_count else NO_BITS
    return frozen(places), frozen(raw), frozen(bits)


def frozen(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Values read-only, as Arrow gives them, so that a loop is compiled once."""
    if values.flags.writeable:
        values = values.view()
        values.flags.writeable = False
    return values


def numbered_column(
    column: pa.ChunkedArray, places: Ints | None = None, workers: ThreadTeam = ALONE
) -> tuple[list[str], Codes]:
    """The distinct texts of a column (or of some rows of it, in order), and for each row which one it is; null: -1."""
    out = np.empty(len(column) if places is None else len(places), np.int32)
    return _numbered(column, places, workers, out).texts(), out


def numbered_names(column: pa.ChunkedArray, workers: ThreadTeam = ALONE) -> tuple[list[str], Codes]:
    """The texts and numbers of a whole column in which few are expected: then the numbers take a byte each."""
    for most, kind in ((FEW, np.int8), (MANY, np.int32)):
        out: Any = np.empty(len(column), kind)
        found = _numbered(column, None, workers, out, most)
        if len(found) <= most:
            break
    return found.texts(), out


def _numbered(
    column: pa.ChunkedArray, places: Ints | None, workers: ThreadTeam, out: Codes, few: int | None = None
) -> TextNumbers:
    """Write the number of each text, or of those at some places; `few`: so many names are expected at most."""
    pieces = _pieces(column, places, out)

    def number(mine: list[tuple[pa.Array, Ints | None, Codes]]) -> TextNumbers:
        names = FewNames(few or FEW)
        if few and mine is not shares[0]:  # most names are met at once: then all threads give them the same numbers
            names.all.number(seed.array())
        for array, rows, target in mine:
            workers.check()
            if few:
                names.number(array, target)
            else:
                target[:] = names.all.number(array, rows)
        return names.all

    shares = [pieces[at :: workers.count] for at in range(min(workers.count, max(1, len(pieces))))]
    seed = TextNumbers()
    if few and len(shares) > 1:
        seed.number(pieces[0][0].slice(0, SEED))
    found = workers.all([lambda mine=mine: number(mine) for mine in shares])  # type: ignore[misc]
    if len(found) == 1:
        return found[0]
    lookups = [np.append(found[0].number(each.array()), np.int32(-1)) for each in found]

    def renumber(mine: list[tuple[pa.Array, Ints | None, Codes]], lookup: Codes) -> None:
        from tocsin.encode import loops

        for _, _, target in mine:
            loops.look_up(lookup, target, target)

    same = [bool((lookup[:-1] == np.arange(len(lookup) - 1)).all()) for lookup in lookups]
    todo = [(mine, lookup) for mine, lookup, is_same in zip(shares, lookups, same, strict=True) if not is_same]
    if few is None or max(map(len, found)) <= few:
        workers.all([lambda m=mine, t=lookup: renumber(m, t) for mine, lookup in todo])  # type: ignore[misc]
    return found[0]


def _pieces(column: pa.ChunkedArray, places: Ints | None, out: Codes) -> list[tuple[pa.Array, Ints | None, Codes]]:
    """Work of a bounded size each: an array, rows of it (None: all), and where their numbers go."""
    found: list[tuple[pa.Array, Ints | None, Codes]] = []
    first = done = 0
    for chunk in column.chunks:
        if places is None:
            found += [
                (chunk.slice(at, AT_ONCE), None, out[first + at : first + min(at + AT_ONCE, len(chunk))])
                for at in range(0, len(chunk), AT_ONCE)
            ]
        else:
            end = int(np.searchsorted(places, first + len(chunk)))
            for begin in range(done, end, AT_ONCE):
                stop = min(begin + AT_ONCE, end)
                found.append((chunk, places[begin:stop] - first, out[begin:stop]))
            done = end
        first += len(chunk)
    return found
