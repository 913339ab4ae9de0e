"""Which input column is what, and what an Arrow schema says about the events."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from tocsin.encode.arrow import is_instant, is_text
from tocsin.encode.late import real_schema
from tocsin.errors import InputError
from tocsin.schema import DECIMAL_DIGITS, OWN, Field, Kind, Schema

OPTIONAL = ("source", "seq", "arrival")


@dataclass(frozen=True, slots=True)
class Columns:
    """Which input column is what. `time` is the start when `end` is given; a column called `eid` is found by itself.

    `unit` is the length of a tick of integer time; `truncate` allows time finer than microseconds to be cut.
    """

    type: str = "type"
    time: str = "time"
    end: str | None = None
    eid: str | None = None
    source: str | None = None
    seq: str | None = None
    arrival: str | None = None
    unit: str | None = None
    truncate: bool = False

    def resolve(self, names: Sequence[str]) -> Columns:
        """Return the roles completed from the column names: `start`/`end` columns and an `eid` column are found.

        >>> Columns().resolve(["type", "start", "end", "eid", "tag"]).time
        'start'
        """
        found = self
        if self.time == "time" and "time" not in names and "start" in names:
            found = replace(found, time="start")
        if self.end is None and "end" in names and "end" not in (self.type, found.time, self.eid):
            found = replace(found, end="end")
        if self.eid is None and "eid" in names and "eid" not in (self.type, found.time, found.end):
            found = replace(found, eid="eid")
        found._demand(names)
        return found

    def taken(self) -> set[str]:
        """Return the columns that have a role and are no attributes; an eid under another name stays one."""
        own = {self.type, self.time, self.end, "eid" if self.eid == "eid" else None}
        return {name for name in own if name is not None}

    def attributes(self, names: Sequence[str]) -> list[str]:
        """The columns that are attributes. One that is called like something of the event's own is none."""
        taken = self.taken().union(OWN)
        return [name for name in names if name not in taken]

    def clashes(self, names: Sequence[str]) -> frozenset[str]:
        """The columns that have no role, and are called like something that every event has of its own."""
        return frozenset(names).intersection(OWN) - self.taken()

    def _demand(self, names: Sequence[str]) -> None:
        doubles = {name for name in names if list(names).count(name) > 1} if len(set(names)) < len(names) else set()
        if doubles:
            raise InputError(f"the input has two columns called {min(doubles)!r}", hint="rename one of them")
        for role in ("type", "time", "end", "eid", *OPTIONAL):
            name = getattr(self, role)
            if name is not None and name not in names:
                raise _missing(role, name, names)
        for name in self.attributes(names):
            if name in OPTIONAL and getattr(self, name) not in (None, name):
                raise InputError(
                    f"the column {name!r} cannot be an attribute",
                    detail=f"every event has its own {name!r} already",
                    hint=f"say which column is what (type=, time=, end=, eid=), or rename the column {name!r}",
                )


def _missing(role: str, name: str, names: Sequence[str]) -> InputError:
    near = difflib.get_close_matches(name, names, 1, 0.6)
    known = ", ".join(map(repr, names)) if names else "none"
    if near:
        hint = f"did you mean {role}={near[0]!r}?"
    else:
        hint = f'name the column that holds the {role}: {role}="..." (on the command line --{role} ...)'
    return InputError(f"the input has no {role} column {name!r}", detail=f"its columns are: {known}", hint=hint)


def infer_schema(schema: pa.Schema, columns: Columns, types: Iterable[str] | None = None) -> Schema:
    """What an Arrow schema says about the events. Without `types`, any type may come.

    Columns that no expression can read (lists, structs, binary) are no attributes; a query that names one is refused.
    """
    schema, columns = real_schema(schema), columns.resolve(schema.names)
    names = columns.attributes(schema.names)
    known = [field_of(schema.field(name)) for name in names]
    return Schema(
        types={name: {} for name in types} if types is not None else {},
        common={field.name: field for field in known if field is not None},
        open_types=types is None,
        unit=time_unit(schema.field(columns.time).type, columns),
        intervals=columns.end is not None,
        clashes=columns.clashes(schema.names),
        unreadable={name: str(schema.field(name).type) for name, field in zip(names, known, strict=True) if not field},
        eid=None if columns.eid is None else eid_kind(schema.field(columns.eid).type),
    )


def eid_kind(type: pa.DataType) -> Kind:
    """The kind of an eid column: eids are whole numbers or texts."""
    return Kind.INT if kind_of(type) is Kind.INT else Kind.TEXT


def time_unit(type: pa.DataType, columns: Columns) -> str | None:
    """The length of a tick: timestamps are microseconds, integers what the caller says."""
    if is_instant(type):
        return "us"
    if is_text(type) and columns.unit is None:
        return "us"  # `times.read_texts` says so once the texts are seen
    return columns.unit


def field_of(field: pa.Field) -> Field | None:
    """The attribute that an Arrow field describes, or None if no expression can read such values."""
    type = field.type
    if pa.types.is_dictionary(type):
        type = type.value_type
    if pa.types.is_decimal(type):
        if not 0 <= type.scale <= DECIMAL_DIGITS:
            raise InputError(
                f"attribute {field.name!r} has {type.scale} decimal places",
                detail=f"decimals are exact up to {DECIMAL_DIGITS} digits",
                hint="round the column to a smaller scale, or make it a float",
            )
        digits = min(type.precision, DECIMAL_DIGITS)
        return Field(field.name, Kind.DECIMAL, type.scale, field.nullable, digits)
    kind = kind_of(type)
    return None if kind is None else Field(field.name, kind, 0, field.nullable)


def kind_of(type: pa.DataType) -> Kind | None:
    """The kind of values of an Arrow type; None if expressions cannot read them."""
    if pa.types.is_dictionary(type):
        type = type.value_type
    tests: tuple[tuple[Callable[[pa.DataType], bool], Kind], ...] = (
        (pa.types.is_integer, Kind.INT),
        (pa.types.is_floating, Kind.FLOAT),
        (pa.types.is_decimal, Kind.DECIMAL),
        (is_text, Kind.TEXT),
        (pa.types.is_boolean, Kind.BOOL),
        (is_instant, Kind.TIME),
        (pa.types.is_null, Kind.NULL),
    )
    return next((kind for test, kind in tests if test(type)), None)


def arrow_type(field: Field) -> pa.DataType:
    """The Arrow type that holds an attribute."""
    match field.kind:
        case Kind.DECIMAL:
            return pa.decimal128(DECIMAL_DIGITS, field.scale)
        case Kind.INT:
            return pa.int64()
        case Kind.FLOAT:
            return pa.float64()
        case Kind.TEXT:
            return pa.string()
        case Kind.BOOL:
            return pa.bool_()
        case Kind.TIME:
            return pa.timestamp("us")
    return pa.null()
