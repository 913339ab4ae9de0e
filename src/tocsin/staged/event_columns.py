"""Events as statements read them: from the columns of a batch, only the attributes that the statement asks for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tocsin.engine.operator import Setting
from tocsin.items import Column, Ints, Items, Strings
from tocsin.lang.staged_syntax import PartitionKey
from tocsin.plan.staged_form import StagedForm
from tocsin.schema import Field, Kind, Schema, fits
from tocsin.staged.partition_keys import Key


class EventColumns:
    """Reads the events of a statement out of batches."""

    def __init__(self, setting: Setting) -> None:
        form = setting.plan.staged
        assert form is not None
        self.fields = fields_read(form, setting.plan.schema)
        self._types, self._strings = setting.reader.types, setting.reader.strings
        self._mine = np.array([type in dict(form.reads) for type in self._types] + [False, False])

    def places(self, items: Items) -> Ints:
        """Where the events stand that the statement reads."""
        return np.flatnonzero(self._mine[items.types])

    def check(self, events: Iterable[Mapping[str, Any]]) -> None:
        """Refuse the attributes of stored events that are of another kind than those that come."""
        for values in events:
            for attr, value in values.items():
                kind = self.fields[attr].kind if attr in self.fields else Kind.NULL
                if not fits(Kind.FLOAT if kind is Kind.DECIMAL else kind, value):
                    raise ValueError(f"{attr} is {str(value)[:60]!r}, and no {kind}")

    def check_keys(self, keys: Iterable[tuple[Sequence[PartitionKey], Key]]) -> None:
        """Refuse the keys of stored partitions that no event could have."""
        for clauses, key in keys:
            if len(clauses) != len(key):
                raise ValueError("a partition has another number of keys than the statement")
            for clause, (value, _) in zip(clauses, key, strict=True):
                kinds = {self.fields[each.attr].kind for each in clause.entries if each.attr in self.fields}
                kinds = {Kind.FLOAT if kind is Kind.DECIMAL else kind for kind in kinds}
                if clause.ranges:
                    known = isinstance(value, int) and 0 <= value < len(clause.ranges)
                else:
                    known = value is not None and (not kinds or any(fits(kind, value) for kind in kinds))
                if not known:
                    raise ValueError(f"{str(value)[:60]!r} is no key of a partition")

    def rows(self, items: Items, at: Ints) -> Iterator[tuple[str, int, int, dict[str, Any]]]:
        """Type, start, end and attributes of some events; a missing attribute is None."""
        names = [name for name in items.columns if name in self.fields]
        columns = (_plain_values(items.columns[name], self.fields[name], at, self._strings) for name in names)
        values: Iterable[tuple[Any, ...]] = zip(*columns, strict=True) if names else ((),) * len(at)
        each = (items.types[at].tolist(), items.start[at].tolist(), items.end[at].tolist(), values)
        for code, start, end, row in zip(*each, strict=True):
            yield self._types[code], start, end, dict(zip(names, row, strict=True))


def fields_read(form: StagedForm, schema: Schema) -> dict[str, Field]:
    """The attributes that a statement reads: a column beside events that lack it may not say its kind."""
    found: dict[str, Field] = {}
    for type, attrs in form.reads:
        for attr in attrs:
            field = schema.field(type, attr)
            if field is not None and found.get(attr, field).kind in (Kind.NULL, field.kind):
                found[attr] = field
    return found


def _plain_values(column: Column, field: Field, at: Ints, strings: Strings) -> list[Any]:
    """The values of some rows of a column; None is Null."""
    values: list[Any] = column.values[at].tolist()
    match field.kind:
        case Kind.TEXT:
            values = [strings.text(int(code)) for code in values]
        case Kind.BOOL:
            values = [bool(value) for value in values]
        case Kind.DECIMAL:
            values = [value / 10**field.scale for value in values]
        case Kind.NULL:
            return [None] * len(values)
    if column.valid is None:
        return values
    return [value if valid else None for value, valid in zip(values, column.valid[at].tolist(), strict=True)]
