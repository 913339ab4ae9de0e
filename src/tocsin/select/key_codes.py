"""Small numbers for keys: the values of a key are words, and a table gives each key a code, in the order of coming."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np

from tocsin.engine.texts import NONE
from tocsin.items import Bools, Column, Ints, Items, Strings
from tocsin.order.keyed_events import Key, plain_value
from tocsin.schema import Kind
from tocsin.select.loops.words import NOBODY
from tocsin.select.mode_kernels import loop

Kinds: TypeAlias = tuple[tuple[Kind, int], ...]


class KeyCodes:
    """The codes of the keys of a query; without attributes all events have one key.

    seen  the last end of an event of each key, by code
    """

    def __init__(self, attrs: tuple[str, ...], strings: Strings, *, jit: bool) -> None:
        self._attrs, self._strings, self._jit = attrs, strings, jit
        self._kinds: Kinds | None = None
        self._saved: list[Key] = []  # keys that were restored, until the kinds of their attributes are known
        self.count = 0 if attrs else 1
        self._allocate(1024 if jit else 8)

    def _allocate(self, room: int) -> None:
        self._known: Ints = np.zeros((room, len(self._attrs)), np.int64)
        self._table: Ints = np.full(4 * room, NOBODY, np.int64)
        self.seen: Ints = np.full(room, -(1 << 62), np.int64)
        self._place: Ints = np.zeros(room, np.int64)

    def of(self, items: Items, rows: Ints) -> Ints:
        """The code of each of some rows."""
        codes: Ints = np.zeros(len(rows), np.int64)
        if not self._attrs:
            return codes
        columns = [items.columns[attr] for attr in self._attrs]
        self._agree(tuple((column.kind, column.scale) for column in columns))
        parts = [np.ascontiguousarray(_words(column)) for column in columns]
        words = parts[0].reshape(1, -1) if len(parts) == 1 else np.stack(parts)
        at = 0
        while True:
            at = self._find(at, rows, words, codes)
            if at == len(rows):
                return codes
            self._grow()

    def _find(self, at: int, rows: Ints, words: Ints, codes: Ints) -> int:
        arrays: tuple[Any, ...] = (rows, words, self._known, self._table)
        views = arrays if self._jit else tuple(array.data for array in arrays)
        last = codes if self._jit else codes.data
        at, self.count = loop("codes_of", jit=self._jit)(at, len(rows), *views, self.count, last)
        return int(at)

    def arrange(self, rows: Ints, codes: Ints, bits: Ints, start: Ints, end: Ints, steps: int) -> Bools | None:
        """Put rows of one key and end into order, as far as steps and starts tell; which are equal. None: none are."""
        ties: Bools = np.zeros(len(rows), np.bool_)
        before: Ints = np.empty(len(rows), np.int64)
        arrays: tuple[Any, ...] = (rows, codes, bits, start, end)
        state: tuple[Any, ...] = (self.seen, self._place, before, ties)
        if not self._jit:
            arrays, state = (tuple(array.data for array in several) for several in (arrays, state))
        return ties if loop("arrange", jit=self._jit)(len(rows), *arrays, steps, *state) else None

    def _grow(self) -> None:
        known, seen, place = self._known[: self.count], self.seen, self._place
        self._allocate(2 * len(self._known))
        self.seen[: len(seen)], self._place[: len(place)] = seen, place
        self._enter(known)

    def _enter(self, known: Ints) -> None:
        """Fill the table with keys, which get the codes 0, 1, 2, ..."""
        self.count = 0
        self._find(0, np.arange(len(known)), np.ascontiguousarray(known.T), np.zeros(len(known), np.int64))

    def keep(self, alive: Bools) -> None:
        """Keep some of the keys; they get new codes, in the same order."""
        known, seen = self._known[: self.count][alive], self.seen[: self.count][alive]
        room = len(self._known)
        while room > 1024 and room > 4 * len(known):
            room //= 2
        self._allocate(room)
        self.seen[: len(seen)] = seen
        if self._saved:
            self._saved = [key for key, stays in zip(self._saved, alive.tolist(), strict=True) if stays]
            self.count = len(self._saved)
        else:
            self._enter(known)

    # --- values ---

    def plain(self) -> list[Key]:
        """Every key as values, by code."""
        if not self._attrs:
            return [()]
        kinds = self._kinds or ()
        known = [
            tuple(_value(word, kind, scale, self._strings) for word, (kind, scale) in zip(words, kinds, strict=True))
            for words in self._known[: self.count].tolist()
        ] if kinds else []  # fmt: skip
        return [*self._saved, *known]

    def words_of(self, codes: Ints) -> Ints:
        """The words of some keys, in the order of their attributes."""
        return self._known[codes]

    def some(self, codes: Ints) -> list[Key]:
        """The values of some keys."""
        if not self._attrs or self._saved:
            known = self.plain()
            return [known[code] for code in codes.tolist()]
        kinds = self._kinds or ()
        return [
            tuple(_value(word, kind, scale, self._strings) for word, (kind, scale) in zip(words, kinds, strict=True))
            for words in self._known[codes].tolist()
        ]

    def load(self, keys: list[Key], last: int) -> None:
        """Take up keys, which get the codes 0, 1, 2, ...; their events ended at `last`, or before."""
        if self._attrs:
            self._saved, self._kinds, self.count = list(keys), None, 0
            self._allocate(max(len(self._known), 2 * len(keys)))
            self.count = len(keys)
            self.seen[: len(keys)] = last

    def _agree(self, kinds: Kinds) -> None:
        """The words of a key depend on the kinds of its attributes, which may change as more is seen of them."""
        if kinds == self._kinds:
            return
        keys = self.plain()
        seen = self.seen[: len(keys)].copy()
        self._saved, self._kinds = [], kinds
        self._allocate(max(len(self._known), 2 * len(keys)))
        self.seen[: len(keys)] = seen
        words = [[_word(value, kind, scale, self._strings) for value, (kind, scale) in zip(key, kinds, strict=True)]
                 for key in keys]  # fmt: skip
        self._enter(np.array(words, np.int64).reshape(len(keys), len(kinds)))

    @property
    def texts(self) -> Ints:
        """Codes of texts that keys are known by."""
        kinds = self._kinds or ()
        found = [self._known[: self.count, at] for at, (kind, _) in enumerate(kinds) if kind is Kind.TEXT]
        return np.concatenate(found) if found else NONE


def _words(column: Column) -> Ints:
    """Words that are equal where values are."""
    if column.kind is Kind.FLOAT:
        words: Ints = (column.values + 0.0).view(np.int64)  # -0.0 is 0.0
        return words
    return column.values.astype(np.int64, copy=False)


def _word(value: Any, kind: Kind, scale: int, strings: Strings) -> int:
    if kind is Kind.TEXT:
        return strings.code(value)
    if kind is Kind.FLOAT:
        return int(np.float64(float(value) + 0.0).view(np.int64))
    if kind is Kind.DECIMAL:
        return int(Decimal(str(value)).scaleb(scale))
    return int(value)


def _value(word: int, kind: Kind, scale: int, strings: Strings) -> Any:
    value: Any = float(np.int64(word).view(np.float64)) if kind is Kind.FLOAT else word
    return plain_value(value, kind, scale, strings)
