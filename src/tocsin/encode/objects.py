"""Python objects as Arrow: one kind per attribute, found from the values and never guessed across kinds."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from itertools import chain
from operator import itemgetter
from typing import Any, TypeAlias, cast

import numpy as np
import pyarrow as pa

from tocsin.encode.arrow import BadRowError, Problems
from tocsin.encode.columns import OPTIONAL
from tocsin.encode.values import EXACT_FLOAT
from tocsin.errors import InputError
from tocsin.events import Event
from tocsin.schema import DECIMAL_DIGITS, Kind

KIND_OF_TYPE: dict[type, Kind] = {
    bool: Kind.BOOL,
    int: Kind.INT,
    float: Kind.FLOAT,
    str: Kind.TEXT,
    Decimal: Kind.DECIMAL,
    datetime: Kind.TIME,
    date: Kind.TIME,
    type(None): Kind.NULL,
}

# what two kinds in one attribute become together
TOGETHER = {
    frozenset((Kind.INT, Kind.FLOAT)): Kind.FLOAT,
    frozenset((Kind.INT, Kind.DECIMAL)): Kind.DECIMAL,
}

_SIMPLE = {
    Kind.INT: pa.int64(),
    Kind.FLOAT: pa.float64(),
    Kind.TEXT: pa.string(),
    Kind.BOOL: pa.bool_(),
    Kind.NULL: pa.null(),
}

Row: TypeAlias = Mapping[str, Any]


def from_dicts(rows: Sequence[Row | Event], problems: Problems | None = None) -> pa.RecordBatch:
    """Dicts or Events as a batch: one kind per attribute, whole numbers and floats together become floats.

    A row that does not fit is an InputError; if `problems` is given, it is noted there and its value left null.

    >>> from_dicts([{"type": "A", "time": 1, "v": 2}, {"type": "B", "time": 2, "v": 2.5}]).column("v").to_pylist()
    [2.0, 2.5]
    """
    plain = plain_rows(rows)
    names = names_in(plain)
    whole = set(map(len, plain)) == {len(names)}  # no row lacks any of them
    if not all(isinstance(name, str) for name in names):
        raise InputError("the names of attributes must be texts", detail=f"found {shortened(names)}")
    if odd := {name for name in names if not is_encodable(name)}:
        _note_odd_names(plain, odd, problems)
        names = [name for name in names if name not in odd]
    arrays = [from_values(_values(plain, name, whole), name, problems) for name in names]
    if not names:
        return pa.RecordBatch.from_arrays([], [])
    return pa.RecordBatch.from_arrays(arrays, names)


ODD_NAME = "has an attribute whose name is not valid Unicode"


def _note_odd_names(rows: Sequence[Row], odd: set[str], problems: Problems | None) -> None:
    """Rows with a name that cannot be written are bad rows."""
    mask = np.array([not odd.isdisjoint(row) for row in rows], np.bool_)
    if problems is None:
        raise BadRowError(int(mask.argmax()), ODD_NAME, detail=f"the name is {shortened(min(odd))}")
    problems.append((mask, ODD_NAME))


def plain_rows(rows: Sequence[Row | Event]) -> Sequence[Row]:
    """Dicts and Events as mappings of names to values."""
    if set(map(type, rows)) == {dict}:
        return cast("Sequence[Row]", rows)
    return [plain_row(row, at) for at, row in enumerate(rows)]


def names_in(rows: Sequence[Row]) -> list[Any]:
    """All names that any row has, in the order in which they come; no text, if rows are strange."""
    return list(dict.fromkeys(chain.from_iterable(rows)))


def _values(rows: Sequence[Row], name: str, whole: bool) -> list[Any]:
    """The value of a name in every row; None where a row lacks it, which none does in a whole."""
    return list(map(itemgetter(name), rows)) if whole else [row.get(name) for row in rows]


def plain_row(row: Row | Event, at: int) -> Row:
    """A dict or an Event as a mapping of names to values."""
    if isinstance(row, Event):
        return event_row(row)
    if isinstance(row, Mapping):
        return row
    raise InputError(
        f"row {at + 1}: an event is a dict or a tocsin.Event, not {type(row).__name__}",
        hint='for example {"type": "Shelf", "time": 12, "tag": "x"}',
    )


def event_row(event: Event) -> dict[str, Any]:
    """An Event as the dict that stands for it."""
    row: dict[str, Any] = {"type": event.type, "start": event.start, "end": event.end, "eid": event.eid}
    for name in OPTIONAL:
        if (value := getattr(event, name)) is not None:
            row[name] = value
    clash = row.keys() & event.attrs.keys()
    if clash:
        raise InputError(f"an attribute cannot be called {min(clash)!r}", detail="every event has its own already")
    row.update(event.attrs)
    return row


def from_values(values: list[Any], name: str, problems: Problems | None = None) -> pa.Array:
    """The values of one attribute as an Arrow array of the one kind they have in common."""
    type = _type_of_all(values)
    if type is not None:
        try:
            return pa.array(values, type)
        except (OverflowError, UnicodeEncodeError, pa.ArrowInvalid):
            pass  # the slow way says which row it is
    return _row_by_row(values, name, problems)


def _type_of_all(values: list[Any]) -> pa.DataType | None:
    """The Arrow type of values that are of one kind without a doubt; None if they must be looked at one by one."""
    found = set(map(type, values)) - {type(None)}
    if found == {int, float}:
        whole = [value for value in values if type(value) is int]
        return pa.float64() if -EXACT_FLOAT <= min(whole) <= max(whole) <= EXACT_FLOAT else None
    if found == {datetime}:
        zoned = {value.tzinfo is not None for value in values if value is not None}
        return None if len(zoned) > 1 else pa.timestamp("us", "UTC") if zoned == {True} else pa.timestamp("us")
    if found == {date}:
        return pa.date32()
    if len(found) > 1 or not found <= KIND_OF_TYPE.keys():
        return None
    return _SIMPLE.get(KIND_OF_TYPE[found.pop()] if found else Kind.NULL)


def _row_by_row(values: list[Any], name: str, problems: Problems | None) -> pa.Array:
    sieve = _Sieve(name, _most_common(values))
    for row, value in enumerate(values):
        sieve.take(row, value)
    array = sieve.array()
    if sieve.bad:
        if problems is None:
            row = min(sieve.bad)
            raise BadRowError(row, sieve.bad[row], detail=f"the value is {shortened(values[row])}", hint=_HINT)
        for reason in dict.fromkeys(sieve.bad.values()):
            mask = np.zeros(len(values), np.bool_)
            mask[[row for row, why in sieve.bad.items() if why == reason]] = True
            problems.append((mask, reason))
    return array


_HINT = "an attribute has one kind in all events: convert the value, or use another attribute"


def _most_common(values: list[Any]) -> Kind:
    """The kind that most values have, so that a few wrong ones are wrong wherever they stand."""
    kinds = Counter(KIND_OF_TYPE[type(plain)] for plain, _ in map(plain_value, values) if plain is not None)
    return kinds.most_common(1)[0][0] if kinds else Kind.NULL


class _Sieve:
    """Takes values one by one; a value that does not fit the kind that most have is left out, with the reason."""

    def __init__(self, name: str, kind: Kind) -> None:
        self.name = name
        self.kind = kind
        self.values: list[Any] = []
        self.bad: dict[int, str] = {}
        self.zoned: bool | None = None

    def take(self, row: int, value: Any) -> None:
        value, reason = plain_value(value)
        kind = KIND_OF_TYPE[type(value)]
        if reason is None and kind is not Kind.NULL:
            reason = self._misfit(value, kind)
        if reason is None:
            self.kind = self._with(kind)
            self.values.append(value)
        else:
            self.bad[row] = f"{self.name!r} {reason}"
            self.values.append(None)

    def _with(self, kind: Kind) -> Kind:
        if kind in (Kind.NULL, self.kind):
            return self.kind
        return kind if self.kind is Kind.NULL else TOGETHER[frozenset((self.kind, kind))]

    def _misfit(self, value: Any, kind: Kind) -> str | None:
        """Why a value cannot stand in this attribute, or None if it can."""
        if self.kind not in (Kind.NULL, kind) and frozenset((self.kind, kind)) not in TOGETHER:
            return f"is {kind} here and {self.kind} elsewhere"
        if isinstance(value, datetime):
            zoned = value.tzinfo is not None
            if self.zoned is None:
                self.zoned = zoned
            elif self.zoned != zoned:
                return "has a time zone here and none before" if zoned else "has no time zone here and one before"
        return impossible(value)

    def array(self) -> pa.Array:
        match self.kind:
            case Kind.FLOAT:
                self._drop(lambda value: type(value) is int and abs(value) > EXACT_FLOAT, TOO_LARGE)
            case Kind.DECIMAL:
                return self._decimals()
            case Kind.TIME:
                return self._times()
        return pa.array(self.values, _SIMPLE[self.kind])

    def _drop(self, wrong: Any, reason: str) -> None:
        for row, value in enumerate(self.values):
            if value is not None and wrong(value):
                self.values[row] = None
                self.bad[row] = f"{self.name!r} {reason}"

    def _decimals(self) -> pa.Array:
        places = max((decimal_places(value) for value in self.values if value is not None), default=0)
        limit = Decimal(10) ** (DECIMAL_DIGITS - places)
        self._drop(
            lambda value: abs(value) >= limit, f"has more than {DECIMAL_DIGITS} digits at the scale of its column"
        )
        whole = [None if value is None else Decimal(value) for value in self.values]
        return pa.array(whole, pa.decimal128(DECIMAL_DIGITS, places))

    def _times(self) -> pa.Array:
        if all(type(value) is date for value in self.values if value is not None):
            return pa.array(self.values, pa.date32())
        if self.zoned:
            self._drop(lambda value: type(value) is date, "has no time zone and others have one")
            return pa.array(self.values, pa.timestamp("us", "UTC"))
        whole = [datetime(v.year, v.month, v.day) if type(v) is date else v for v in self.values]  # noqa: DTZ001 - no zone is meant
        return pa.array(whole, pa.timestamp("us"))


TOO_LARGE = "is too large to be a float exactly, and other values are floats"


def impossible(value: Any) -> str | None:
    """Why a plain value has no exact place in any column, or None if it has one."""
    match value:
        case bool():
            return None
        case int() if not -(2**63) <= value < 2**63:
            return "does not fit into 64 bits"
        case str() if not is_encodable(value):
            return "is not valid Unicode"
        case Decimal() if not value.is_finite():
            return "is no finite decimal number"
        case Decimal() if decimal_digits(value) > DECIMAL_DIGITS:
            return f"has more than {DECIMAL_DIGITS} digits"
    return None


def decimal_places(value: int | Decimal) -> int:
    return max(0, -int(value.as_tuple().exponent)) if isinstance(value, Decimal) else 0


def decimal_digits(value: Decimal) -> int:
    """The digits that a decimal needs, before and after its point."""
    _, digits, exponent = value.as_tuple()
    exponent = int(exponent)
    return max(len(digits) + max(exponent, 0), -exponent)


def is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def shortened(value: object) -> str:
    try:
        text = ascii(value)
    except ValueError:  # integers of many thousand digits refuse to become text
        return "a number of thousands of digits"
    return text if len(text) <= 60 else text[:57] + "..."


def plain_value(value: Any) -> tuple[Any, str | None]:
    """A value in its plain Python form, or None and why it has none. Containers become JSON text."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or type(value) in KIND_OF_TYPE:
        return value, None
    for plain in (bool, int, float, str, Decimal):
        if isinstance(value, plain):
            return plain(value), None
    if isinstance(value, date):
        return _to_datetime(value)
    if isinstance(value, (dict, list, tuple)):
        try:
            return json.dumps(value, ensure_ascii=False, default=str), None
        except (ValueError, RecursionError, TypeError):
            return None, "is nested and cannot be written as JSON"
    return None, f"is of type {type(value).__name__}; use int, float, str, bool, Decimal, datetime or None"


def _to_datetime(value: Any) -> tuple[datetime | None, str | None]:
    """Timestamps of pandas and other subclasses of datetime."""
    if str(value) == "NaT":
        return None, None
    if getattr(value, "nanosecond", 0):
        return None, "is finer than a microsecond"
    plain = getattr(value, "to_pydatetime", None)
    return (plain() if plain is not None else datetime.fromisoformat(value.isoformat())), None
