"""What is known of the events before they come: types, attributes and their kinds, and what time means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Kind(StrEnum):
    """The kind of a value. TIME is a timestamp in microseconds and computes like INT; NULL is always null."""

    INT = "int"
    FLOAT = "float"
    DECIMAL = "decimal"
    TEXT = "text"
    BOOL = "bool"
    TIME = "time"
    NULL = "null"


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
    With `open_types` a type that is not listed may still come (a live stream); with `open_fields` an attribute that
    nobody has is allowed and always null (case files); otherwise both are errors.
    `unit` is the length of a tick ("us" for timestamps), or None if ticks are plain numbers.
    `intervals` is False when every event is known to be a point.
    """

    types: Mapping[str, Mapping[str, Field]] = field(default_factory=dict)
    common: Mapping[str, Field] = field(default_factory=dict)
    open_types: bool = False
    open_fields: bool = False
    unit: str | None = None
    intervals: bool = True

    def has_type(self, name: str) -> bool:
        return self.open_types or name in self.types

    def field(self, type: str, attr: str) -> Field | None:
        """The attribute of a type; kind NULL if only another type has it; None if no type has it."""
        own = self.types.get(type, {}).get(attr) or self.common.get(attr)
        if own is not None:
            return own
        if self.open_fields or any(attr in fields for fields in self.types.values()):
            return Field(attr, Kind.NULL)
        return None

    def fields_of(self, type: str) -> dict[str, Field]:
        """All attributes of a type, in a stable order: the common ones first."""
        return {**self.common, **self.types.get(type, {})}

    def attributes(self) -> set[str]:
        """Every attribute name that occurs, for suggestions."""
        return set(self.common).union(*self.types.values())
