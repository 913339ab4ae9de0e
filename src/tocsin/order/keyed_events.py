"""A batch of events with their keys: columns while it travels, plain values where a rule looks at one event."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from tocsin.items import Bools, Column, Ints, Items, Strings
from tocsin.schema import Kind

Key: TypeAlias = tuple[Any, ...]
Canonical: TypeAlias = tuple[int, int, int, int]  # of an event: end, start, eid


class NumberedEvent(NamedTuple):
    """An event as a rule sees it; its number stands for it in states and answers.

    values  of the attributes that the query reads, as items have them (times as ticks, decimals as whole numbers), but
            with texts; None: null
    """

    number: int
    type: str
    start: int
    end: int
    values: Mapping[str, Any]


class KeyedEvents:
    """Events and withdrawals of one batch, numbered from `first` on.

    codes  the key of each, as its place among the `keys` of the batch
    """

    def __init__(self, items: Items, first: int, key: tuple[str, ...], strings: Strings) -> None:
        self.items, self.first, self._strings = items, first, strings
        codes: Ints = np.zeros(len(items), np.int64)
        rows: Ints = np.zeros(min(1, len(items)), np.int64)
        for attr in key:
            _, inside = np.unique(items.columns[attr].values, return_inverse=True)
            _, rows, codes = np.unique(codes * len(items) + inside, return_index=True, return_inverse=True)
        self.codes = codes
        self.keys: list[Key] = [tuple(self._key(items.columns[attr], row) for attr in key) for row in rows.tolist()]

    def _key(self, column: Column, row: int) -> Any:
        """A value that tells keys apart: the same for equal values, whatever kind their attribute has by then."""
        return plain_value(column.values[row].item(), column.kind, column.scale, self._strings)

    def _values(self, column: Column) -> list[Any]:
        values: list[Any] = column.values.tolist()
        if column.kind is Kind.TEXT:
            return [self._strings.text(code) for code in values]
        if column.valid is None:
            return values
        return [value if valid else None for value, valid in zip(values, column.valid.tolist(), strict=True)]

    def events(self, types: tuple[str, ...]) -> Iterator[tuple[Key, NumberedEvent]]:
        """The events one by one, each with its key."""
        items = self.items
        names = list(items.columns)
        rows = zip(*(self._values(column) for column in items.columns.values()), strict=True)
        values = ({},) * len(items) if not names else (dict(zip(names, row, strict=True)) for row in rows)
        columns = (self.codes, items.types, items.start, items.end)
        plain = zip(*(column.tolist() for column in columns), values, strict=True)
        for number, (code, type, start, end, own) in enumerate(plain, self.first):
            yield self.keys[code], NumberedEvent(number, types[type], start, end, own)

    @property
    def places(self) -> list[Canonical]:
        """Where each event stands in canonical order."""
        items = self.items
        assert items.eid_high is not None and items.eid_low is not None
        columns = (items.end, items.start, items.eid_high, items.eid_low)
        return list(zip(*(column.tolist() for column in columns), strict=True))


def plain_value(value: Any, kind: Kind, scale: int, strings: Strings) -> Any:
    """A value of a column as keys have it."""
    if kind is Kind.TEXT:
        return strings.text(value)
    if kind is Kind.DECIMAL:
        exact = Decimal(value).scaleb(-scale)
        return int(exact) if exact == int(exact) else str(exact.normalize())
    return value


def has_key(items: Items, key: tuple[str, ...]) -> Bools:
    """Which events have all attributes of a key: others are not seen, and NaN is equal to nothing."""
    found = np.ones(len(items), np.bool_)
    for attr in key:
        column = items.columns.get(attr)
        if column is None:
            return np.zeros(len(items), np.bool_)
        if column.kind is Kind.TEXT:
            found &= column.values >= 0
        elif column.kind is Kind.FLOAT:
            found &= ~np.isnan(column.values)
        if column.valid is not None:
            found &= column.valid
    return found
