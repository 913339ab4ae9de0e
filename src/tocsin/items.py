"""Items: a columnar batch in order of arrival, the only thing that an operator takes; and the dictionary of its texts.

Every attribute is an int64 or a float64: texts are dictionary codes, booleans 0/1, decimals whole numbers of
10**-scale, timestamps microseconds. The package `encode` makes Items from Arrow and from Python objects.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tocsin.errors import InputError
from tocsin.events import END_OF_TIME
from tocsin.schema import Kind

Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
Bools: TypeAlias = npt.NDArray[np.bool_]
Codes: TypeAlias = npt.NDArray[np.int32]

NO_TEXT = -1  # the code of a null text


@dataclass(slots=True)
class Column:
    """One attribute of every row: int64 or float64 values, and where they are not null (None: nowhere null)."""

    kind: Kind
    values: Ints | Floats
    valid: Bools | None = None
    scale: int = 0


class ItemKind(IntEnum):
    """What an item is. Which fields of a row mean something depends on it (`-`: nothing).

    ================  =======  ======  =========  =================  ===================================================
    kind              type     source  start      end                says
    ================  =======  ======  =========  =================  ===================================================
    EVENT             one      one     its start  its end            this happened
    WITHDRAWAL        one      one     its start  its end            this event, which came before, did not happen
    BEGIN             one      one     its start  END_OF_TIME        this interval has begun; its end is not known yet
    GUARANTEE         one/all  one/-   -          a time             every later event ends after this time
    BEGIN_GUARANTEE   one/all  one/-   -          a time             every later event begins after this time
    GAP               one/all  one/-   from       to                 events between these times were lost
    TICK              all      -       -          a time             the clock of the stream stands here
    END               all      -       -          -                  nothing comes any more
    ================  =======  ======  =========  =================  ===================================================

    "One/all": the code of a type, or EVERY. "One/-": the code of a source, or NO_SOURCE for any of them. A guarantee is
    what papers call a punctuation and stream engines a watermark (of one type, from one source).
    """

    EVENT = 0
    WITHDRAWAL = 1
    BEGIN = 2
    GUARANTEE = 3
    BEGIN_GUARANTEE = 4
    GAP = 5
    TICK = 6
    END = 7


ROWS = ItemKind.WITHDRAWAL  # kinds up to this one are rows that a kernel reads
UNREAD = -1  # the type of an event that no query reads
EVERY = -2  # the type of a guarantee, a gap, a tick or the end that concerns all types
NO_SOURCE = -1
Kinds: TypeAlias = npt.NDArray[np.int8]
NO_ROWS = pa.RecordBatch.from_arrays([], [])


@dataclass(slots=True)
class Items:
    """A batch of items in order of arrival: all that an operator is ever told.

    types    code of each item's type in the encoder's list of types; UNREAD or EVERY where it is none of them
    eid_high, eid_low  see `events.eid_number`; None if the input has no eid
    columns  attributes by name, only those that were asked for
    payload  the rows as they came, columns `type start end [eid] [source seq arrival]` and then all attributes,
             from which results are built; one row for each item, or NO_ROWS if no item is an event
    kinds    the ItemKind of each item; None: all are events
    sources  code of each item's source in the encoder's dictionary of sources; None: nobody says
    """

    types: Codes
    start: Ints
    end: Ints
    eid_high: Ints | None
    eid_low: Ints | None
    columns: dict[str, Column]
    payload: pa.RecordBatch
    kinds: Kinds | None = None
    sources: Codes | None = None
    checked: bool = field(default=False, init=False, compare=False)  # made by an encoder: `check` would find nothing

    # see encode/row.py
    is_row: ClassVar[bool] = False  # True: one event, with the dict that it came from
    single: ClassVar[bool] = False  # True: the same in memory that is written again for the next event

    def __len__(self) -> int:
        return len(self.types)

    @property
    def has_rows(self) -> bool:
        """Whether there are events among the items."""
        return bool(self.payload.num_rows)

    @property
    def signs(self) -> Kinds | None:
        """+1 for an event and -1 for the withdrawal of one; None: there are no withdrawals."""
        if self.kinds is None or not (self.kinds == ItemKind.WITHDRAWAL).any():
            return None
        return np.where(self.kinds == ItemKind.WITHDRAWAL, np.int8(-1), np.int8(1))

    def check(self) -> None:
        """Raise an InputError if the columns do not fit together or a kind is unknown."""
        if self.checked:
            return
        count, kinds = len(self.types), self.kinds
        if kinds is None and len(self.end) == len(self.start) == count:  # the usual case, looked at quickly
            high, low = self.eid_high, self.eid_low
            odd = self.sources is not None or (
                high is not None and not (low is not None and len(high) == len(low) == count)
            )
            for column in self.columns.values():
                odd = odd or len(column.values) != count or (column.valid is not None and len(column.valid) != count)
            if not odd:
                return
        self._check_all(count)

    def _check_all(self, count: int) -> None:
        """Say which column is of another length, or which kind is unknown."""
        lengths: dict[str, int] = {}
        for name in ("start", "end", "eid_high", "eid_low", "kinds", "sources"):
            if (array := getattr(self, name)) is not None:
                lengths[name] = len(array)
        for name, column in self.columns.items():
            lengths[name] = len(column.values)
            if column.valid is not None and len(column.valid) != count:
                lengths[name] = len(column.valid)
        if wrong := {name: length for name, length in lengths.items() if length != count}:
            raise InputError(
                f"items whose columns disagree: {count} types, but {', '.join(f'{n} {k}' for k, n in wrong.items())}",
                hint="every column has one entry for each item",
            )
        if self.kinds is not None and count and not (self.kinds.min() >= 0 and self.kinds.max() <= max(ItemKind)):
            strange = sorted({*self.kinds.tolist()} - {*ItemKind})
            raise InputError(f"unknown kinds of items: {strange}", hint=f"there are {', '.join(ItemKind.__members__)}")


def control(*said: tuple[ItemKind, int, int, int, int]) -> Items:
    """Items without events, from rows of (kind, type, source, start, end)."""
    kinds, types, sources, start, end = zip(*said, strict=True)
    return Items(
        np.array(types, np.int32), np.array(start, np.int64), np.array(end, np.int64), None, None, {}, NO_ROWS,
        np.array(kinds, np.int8), np.array(sources, np.int32),
    )  # fmt: skip


def guarantee(time: int, type: int = EVERY, source: int = NO_SOURCE) -> Items:
    """Every later event (of a type, from a source) ends after `time`."""
    return control((ItemKind.GUARANTEE, type, source, time, time))


def tick(clock: int) -> Items:
    """The clock of the stream stands here, though events that end before it may still come."""
    return control((ItemKind.TICK, EVERY, NO_SOURCE, clock, clock))


def advanced(time: int) -> Items:
    """The clock has passed `time`, and every later event ends after it."""
    after = time + 1
    return control((ItemKind.TICK, EVERY, NO_SOURCE, after, after), (ItemKind.GUARANTEE, EVERY, NO_SOURCE, time, time))


def end() -> Items:
    """Nothing comes any more."""
    return control((ItemKind.END, EVERY, NO_SOURCE, END_OF_TIME, END_OF_TIME))


def is_sorted(values: Ints) -> bool:
    """Whether no value is smaller than the one before it."""
    return bool((values[1:] >= values[:-1]).all())


def clock_before(clock: int, end: Ints) -> Ints:
    """For each row of a batch where the clock stands when it comes: at the largest end before it."""
    before: Ints = np.maximum.accumulate(np.concatenate(([clock], end)))[:-1]
    return before


class Strings:
    """Texts as codes 0, 1, 2, ...; a code stays the same while anyone uses it, then may be given to another text."""

    __slots__ = ("_codes", "_free", "added", "texts", "version")

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}
        self._free: list[int] = []  # codes to be given away, the smallest last
        self.texts: list[str | None] = []
        self.added = 0  # grows with every new text
        self.version = 0  # changes when codes may have been given away

    def __len__(self) -> int:
        return len(self._codes)

    def code(self, text: str | None) -> int:
        """The code of a text, a new one if needed."""
        if text is None:
            return NO_TEXT
        code = self._codes.get(text)
        if code is None:
            if self._free:
                code = self._free.pop()
                self.texts[code] = text
            else:
                code = len(self.texts)
                self.texts.append(text)
            self._codes[text] = code
            self.added += 1
        return code

    def codes(self, texts: list[str]) -> Ints:
        """The codes of many texts."""
        if not self._free and None not in texts and self._codes.keys().isdisjoint(texts):
            new = dict(zip(texts, range(len(self.texts), len(self.texts) + len(texts)), strict=True))
            if len(new) == len(texts):  # all are new, and each is there once
                first = len(self.texts)
                self._codes |= new
                self.texts += texts
                self.added += len(texts)
                return np.arange(first, first + len(texts))
        return np.fromiter(map(self.code, texts), np.int64, len(texts))

    def text(self, code: int) -> str | None:
        return None if code < 0 else self.texts[code]

    def keep_only(self, live: npt.ArrayLike) -> None:
        """Forget every text whose code is not in `live`, which may have other numbers in it; its code is used again.

        Small codes are given away first, so that those in use stay small: key tables are quickest with these.
        """
        texts, gone = self.texts, np.ones(len(self.texts), np.bool_)
        kept = np.asarray(live, np.int64)
        gone[kept[(kept >= 0) & (kept < len(gone))]] = False
        for code in np.flatnonzero(gone).tolist():
            text = texts[code]
            if text is not None:
                del self._codes[text]
                texts[code] = None
        while texts and texts[-1] is None:
            texts.pop()
        self._free = np.flatnonzero(gone[: len(texts)])[::-1].tolist()
        self.version += 1
