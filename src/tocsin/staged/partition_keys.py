"""Keys of staged statements: to which partition an event belongs in a role, and what a partition is called."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from tocsin.lang.staged_printer import key_range
from tocsin.lang.staged_syntax import KeyRange, PartitionKey
from tocsin.plan.staged_places import Role, key_attribute

Key: TypeAlias = "tuple[tuple[Any, Any], ...]"  # for each clause the value and its label
KeyOf: TypeAlias = (
    "Callable[[Mapping[str, Any]], Key | None]"  # of the attributes of an event; None: it has no such role
)


def key_text(key: Key) -> str:
    """A global partition as part of a name; nothing for the universal one. Equal numbers have one text."""
    values = [int(value) if isinstance(value, float) and value.is_integer() else value for value, _ in key]
    return f":{json.dumps(values)}" if values else ""


def key_of(keys: Sequence[PartitionKey], role: Role) -> KeyOf:
    """The key of an event in a role, over several clauses."""
    parts = [_part(key, key_attribute(key, role)) for key in keys]
    if not parts:
        return lambda _: ()

    def found(values: Mapping[str, Any]) -> Key | None:
        key = tuple(part(values) for part in parts)
        return None if None in key else key  # type: ignore[return-value]

    return found


def _part(key: PartitionKey, attr: str | None) -> Callable[[Mapping[str, Any]], tuple[Any, Any] | None]:
    if attr is None:
        return lambda _: None
    ranges = key.ranges
    if not ranges:
        return lambda values: None if (value := values.get(attr)) is None or value != value else (value, value)
    listed = [each for each in ranges if not each.is_rest]

    def ranged(values: Mapping[str, Any]) -> tuple[Any, Any] | None:
        value = values.get(attr)
        if value is None:
            return None
        for at, each in enumerate(ranges):
            fits = not any(_in(one, value) for one in listed) if each.is_rest else _in(each, value)
            if fits:
                return at, each.label or key_range(each, labelled=False)
        return None

    return ranged


def _in(each: KeyRange, value: Any) -> bool:
    if each.between is not None:
        low, high = (literal.value for literal in each.between)
        return bool(low <= value <= high)
    return value in [literal.value for literal in each.values]
