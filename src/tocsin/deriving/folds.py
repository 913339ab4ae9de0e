"""What SELECT folds, as words: values become whole numbers that are in the same order, and become values again."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from tocsin.deriving.words import COUNT, FIRST, LAST, MAX, MIN
from tocsin.engine.changes import arrow_type
from tocsin.items import Column, Ints, Items, Strings
from tocsin.plan.derived_form import Fold
from tocsin.schema import Kind

NUMBERS = {"count": COUNT, "min": MIN, "max": MAX, "first": FIRST, "last": LAST}
HIGHEST, LOWEST = np.int64(2**63 - 1), -(2**63)
Words: TypeAlias = list[int]  # for each fold whether there is a value, and the value


class FoldWords:
    """The folds of a definition; two words for each."""

    def __init__(self, folds: Sequence[Fold], strings: Strings) -> None:
        self.folds, self._strings = tuple(folds), strings
        self.functions: Ints = np.array([NUMBERS[fold.function] for fold in folds], np.int64)
        self.kinds: tuple[tuple[Kind, int], ...] = tuple(
            (Kind.INT, 0) if fold.function == "count" or fold.field is None else (fold.field.kind, fold.field.scale)
            for fold in folds
        )

    def __len__(self) -> int:
        return len(self.folds)

    # --- in ---

    def of(self, items: Items) -> tuple[Ints, Ints]:
        """What each fold asks of each row: values, and whether there is one."""
        shape = (len(self.folds), len(items))
        values, known = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        for at, fold in enumerate(self.folds):
            column = None if fold.field is None else items.columns.get(fold.field.name)
            if fold.field is None:
                values[at] = 1
            elif column is not None:
                known[at] = _known(column)
                values[at] = known[at] if fold.function == "count" else self._words(column, at)
        return values, known

    def _words(self, column: Column, at: int) -> Ints:
        """The values of a column in the kind of the fold: a column that has no value yet may not know it."""
        kind, scale = self.kinds[at]
        values = column.values
        if kind is Kind.FLOAT:
            return in_order(values.astype(np.float64, copy=False), self.folds[at].function)
        if kind is Kind.DECIMAL and column.scale != scale:
            values = values.astype(np.int64) * 10 ** (scale - column.scale)
        words: Ints = values.astype(np.int64, copy=False)
        return words

    # --- out ---

    def column(self, at: int, words: Ints) -> pa.Array:
        """The values of a fold, from its words in some rows (two columns)."""
        kind, scale = self.kinds[at]
        if self.folds[at].function == "count":
            return pa.array(words[:, 1], pa.int64(), mask=words[:, 0] < 0)
        if kind is Kind.FLOAT:
            return pa.array(as_floats(words[:, 1]), pa.float64(), mask=words[:, 0] <= 0)
        if kind in (Kind.INT, Kind.TIME):
            return pa.array(words[:, 1], pa.int64(), mask=words[:, 0] <= 0).cast(arrow_type(kind))
        values = [self._value(at, known, word) for known, word in words.tolist()]
        return pa.array(
            [Decimal(each).scaleb(-scale) if kind is Kind.DECIMAL and each is not None else each for each in values],
            arrow_type(kind, scale),
        )

    def _value(self, at: int, known: int, word: int) -> Any:
        """A value as state is saved: texts as texts, floats as floats, decimals as whole numbers."""
        match self.kinds[at][0]:
            case _ if self.folds[at].function == "count":
                return word
            case _ if known <= 0:
                return None
            case Kind.TEXT:
                return self._strings.text(word)
            case Kind.FLOAT:
                return float(as_floats(np.array([word]))[0])
            case Kind.BOOL:
                return bool(word)
        return word

    def plain(self, words: Words) -> list[Any]:
        """The folds of one interval as plain values."""
        return [self._value(at, words[2 * at], words[2 * at + 1]) for at in range(len(self.folds))]

    def words(self, plain: Sequence[Any]) -> Words:
        """... and back."""
        return [word for at, value in enumerate(plain) for word in self._pair(at, value)]

    def _pair(self, at: int, value: Any) -> Words:
        if self.folds[at].function == "count" or value is None:
            return [0, value or 0]
        match self.kinds[at][0]:
            case Kind.TEXT:
                return [1, self._strings.code(value)]
            case Kind.FLOAT:
                return [1, int(in_order(np.array([value], np.float64), self.folds[at].function)[0])]
        return [1, int(value)]

    def texts(self, words: Ints) -> Ints:
        """Codes of texts among the words of many intervals."""
        mine = [words[:, 2 * at + 1] for at, (kind, _) in enumerate(self.kinds) if kind is Kind.TEXT]
        return np.concatenate(mine) if mine else np.zeros(0, np.int64)


def _known(column: Column) -> Ints:
    known: Ints = np.ones(len(column.values), np.int64) if column.valid is None else column.valid.astype(np.int64)
    if column.kind is Kind.TEXT:
        known[column.values < 0] = 0
    return known


def in_order(values: Any, function: str) -> Ints:
    """Floats as whole numbers in the same order; NaN is less than all for a min and more for a max, so that it wins."""
    nan = np.isnan(values)
    words = np.where(nan, np.nan, values).view(np.int64) if nan.any() else values.view(np.int64)
    ordered: Ints = words ^ ((words >> 63) & HIGHEST)
    if function == "min":
        ordered[nan] = LOWEST
    return ordered


def as_floats(words: Ints) -> Any:
    """... and back."""
    return (words ^ ((words >> 63) & HIGHEST)).view(np.float64)
