"""What is known of the events before they come: types, attributes and their kinds, and what time means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from tocsin.events import ANY

RESULT_COLUMNS = ("query", "kind", "match_id", "op", "start", "end", "settled_at")  # of every row of a result
OWN = ("type", "start", "end", "eid")  # what every event has, beside its attributes
EID = "eid"  # the column that kernels read for eid(x), whatever the input calls it
DECIMAL_DIGITS = 18  # up to which decimals are exact: what 64 bits hold
TYPE = "type"  # the same for type(x), where the type of a leaf is not known before


class Kind(StrEnum):
    """The kind of a value. TIME is a timestamp in microseconds and computes like INT; NULL is always null."""

    INT = "int"
    FLOAT = "float"
    DECIMAL = "decimal"
    TEXT = "text"
    BOOL = "bool"
    TIME = "time"
    NULL = "null"


def fits(kind: Kind, value: object) -> bool:
    """Whether a plain value can stand for one of a kind: what was stored may be of a narrower kind than now."""
    match kind:
        case _ if value is None:
            return True
        case Kind.INT | Kind.DECIMAL | Kind.TIME:
            return type(value) is int
        case Kind.FLOAT:
            return type(value) in (int, float)
        case Kind.TEXT:
            return type(value) is str
        case Kind.BOOL:
            return type(value) in (bool, int)
    return False


@dataclass(frozen=True, slots=True)
class Field:
    """An attribute: DECIMAL values are held as whole numbers of 10**-scale, at most 18 digits."""

    name: str
    kind: Kind
    scale: int = 0
    nullable: bool = True
    digits: int = 18


@dataclass(frozen=True, slots=True)
class Schema:
    """Types and their attributes.

    `types` gives each known type its own attributes; `common` are attributes that every type has (a flat table).
    With `open_types` a type that is not listed may still come (a live stream). Any other type never comes, and an
    attribute that nobody has is always null: the binder notes that, unless `open_fields` says that it is meant, and
    refuses it if the schema is `strict`.
    `unit` is the length of a tick ("us" for timestamps), or None if ticks are plain numbers.
    `intervals` is False when every event is known to be a point.
    `eid` is the kind of the input's eid column: None if it has none (eids are computed then), NULL if nobody knows yet.
    `clashes` are input columns that are called like something that every event has of its own, and mean another thing.
    `unreadable` are input columns that no expression can read (lists, structs, bytes), with what they are made of.
    `longest` says of types how many ticks an interval may last: then a begin whose end is not there never ends.
    `matches` are the types that are matches of other queries, which ANY does not take.
    """

    types: Mapping[str, Mapping[str, Field]] = field(default_factory=dict)
    common: Mapping[str, Field] = field(default_factory=dict)
    open_types: bool = False
    open_fields: bool = False
    unit: str | None = None
    intervals: bool = True
    strict: bool = False
    clashes: frozenset[str] = frozenset()
    unreadable: Mapping[str, str] = field(default_factory=dict)
    eid: Kind | None = Kind.NULL
    matches: frozenset[str] = frozenset()
    longest: Mapping[str, int] = field(default_factory=dict)

    def has_type(self, name: str) -> bool:
        return self.open_types or name in self.types or name == ANY

    def takes(self, wanted: str, type: str) -> bool:
        """Whether a leaf of the type `wanted` takes events of a type."""
        return wanted == type or (wanted == ANY and type not in self.matches)

    def field(self, type: str, attr: str) -> Field | None:
        """The attribute of a type; kind NULL if only another type has it; None if none has it or can show it.

        A type that never comes has the attributes of the others, so that what is asked of it keeps its kind.
        """
        own = self._of_any(attr) if type == ANY else self.types.get(type, {}).get(attr)
        if own is None and type in self.matches and attr in self.unreadable:
            return None
        own = own or self.common.get(attr)
        if own is not None:
            return own
        others = {(other.kind, other.scale): other for fields in self.types.values() if (other := fields.get(attr))}
        if len(others) == 1 and not self.has_type(type):
            return next(iter(others.values()))
        may_come = self.open_fields and attr not in self.unreadable
        return Field(attr, Kind.NULL) if others or may_come else None

    def fields_of(self, type: str) -> dict[str, Field]:
        """All attributes of a type, in a stable order: the common ones first; of ANY, those of all input types."""
        if type != ANY:
            return {**self.common, **self.types.get(type, {})}
        each = {name: replace(known, nullable=True) for fields in self._input() for name, known in fields.items()}
        return {**self.common, **each}

    def _of_any(self, attr: str) -> Field | None:
        """The attribute of ANY that some type of the input has of its own, as `fields_of` has it."""
        found = next((fields[attr] for fields in reversed(self._input()) if attr in fields), None)
        return None if found is None else replace(found, nullable=True)

    def _input(self) -> list[Mapping[str, Field]]:
        return [fields for type, fields in self.types.items() if type not in self.matches]

    def attributes(self) -> set[str]:
        """Every attribute name that occurs, for suggestions."""
        return set(self.common).union(*self.types.values())
