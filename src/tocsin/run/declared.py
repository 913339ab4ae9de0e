"""Schemas as people declare them: names of types, and their attributes with kinds."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tocsin.errors import InputError, QueryError
from tocsin.lang.parser import parse_duration
from tocsin.lang.syntax import UNITS
from tocsin.plan.kinds import KindError, ticks
from tocsin.schema import DECIMAL_DIGITS, EID, Field, Kind, Schema

EVERY = "*"  # the name under which attributes of all types are declared


def declare(
    types: Mapping[str, Any],
    *,
    unit: str | None = None,
    intervals: bool = True,
    longest: Mapping[str, int | str] | None = None,
) -> Schema:
    """A schema from names of types and their attributes; "*" stands for attributes that every type has.

    An `eid` among those is the kind of the eids, which conditions read as eid(x). `longest` says of types how long
    their intervals may last, as `"1 h"` or in ticks; a begin whose interval does not come by then never ends.

    >>> declare({"Shelf": {"tag": "text"}, "*": {"price": "decimal(2)"}}).field("Shelf", "price").scale
    2
    """
    check_unit(unit)
    if not isinstance(types, Mapping):
        raise InputError("a schema is an object of types", hint='for example {"Shelf": {"tag": "text"}}')
    fields: dict[str, dict[str, Field]] = {}
    for name, attrs in types.items():
        if not isinstance(attrs, Mapping):
            raise InputError(f"the attributes of {name!r} must be an object", hint='for example {"tag": "text"}')
        fields[name] = {attr: declared_field(attr, kind) for attr, kind in attrs.items()}
    common = fields.pop(EVERY, {})
    eid = common.pop(EID, None)
    if eid is not None and eid.kind not in (Kind.INT, Kind.TEXT):
        raise InputError(f"an eid cannot be {eid.kind}", hint="an eid is a whole number or a text: int or text")
    return Schema(
        types=fields, common=common, open_types=not fields, unit=unit, intervals=intervals,
        eid=None if eid is None else eid.kind,
        longest={type: length_of(type, length, unit) for type, length in (longest or {}).items()},
    )  # fmt: skip


def length_of(type: str, length: int | str, unit: str | None) -> int:
    """How long an interval of a type may last, in ticks."""
    try:
        found = ticks(parse_duration(length), Schema(unit=unit or "us")) if isinstance(length, str) else length
    except (KindError, QueryError) as problem:
        raise InputError(f"{length!r} is no length of time (of {type!r})", hint='write "1 h", or ticks') from problem
    if isinstance(found, bool) or not isinstance(found, int) or found < 0:
        raise InputError(f"{length!r} is no length of time (of {type!r})", hint='write "1 h", or ticks')
    return found


def declared_field(name: str, kind: Any) -> Field:
    """An attribute from its kind as text: int float text bool time decimal(SCALE)."""
    text = str(kind).strip().lower()
    decimal = re.fullmatch(r"decimal\s*\(\s*(\d{1,2})\s*\)", text)
    if decimal and int(decimal[1]) <= DECIMAL_DIGITS:
        return Field(name, Kind.DECIMAL, int(decimal[1]))
    if text in ("int", "float", "text", "bool", "time"):
        return Field(name, Kind(text))
    raise InputError(
        f"{kind!r} is no kind of attribute (of {name!r})",
        hint=f"use int, float, text, bool, time or decimal(PLACES) with at most {DECIMAL_DIGITS} places",
    )


def read_schema(path: Path, *, unit: str | None = None) -> Schema:
    """A schema from a JSON file: {"Shelf": {"tag": "text"}, "*": {...}}."""
    try:
        types = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as problem:
        raise InputError(f"{path} is not a schema", detail=f"it is not JSON: {problem}") from None
    return declare(types, unit=unit)


def check_unit(unit: str | None) -> None:
    if unit is not None and unit not in UNITS:
        raise InputError(f"{unit!r} is no unit of time", hint=f"use one of {', '.join(UNITS)}")
