"""A time zone that is said once: functions of points in time that name no zone get it (hour, date, weekday, ...)."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from tocsin.lang.syntax import Call, Literal

PARTS = ("hour", "minute", "second", "weekday", "date")
Node = TypeVar("Node")


def in_zone(node: Node, zone: str) -> Node:
    """A syntax tree with a zone in every hour(t), date(t), ... that has none.

    >>> from tocsin.lang.parser import parse
    >>> print(in_zone(parse("EVENT A a WHERE hour(a.time) < 6"), "Europe/Berlin"))
    EVENT A a
    WHERE hour(a.time, 'Europe/Berlin') < 6
    """
    if not is_dataclass(node) or isinstance(node, type):
        return node
    changed: dict[str, Any] = {}
    for field in fields(node):
        before = getattr(node, field.name)
        after = tuple(in_zone(each, zone) for each in before) if isinstance(before, tuple) else in_zone(before, zone)
        if after != before:
            changed[field.name] = after
    found = replace(node, **changed) if changed else node
    if isinstance(found, Call) and found.function in PARTS and len(found.args) == 1:
        return replace(found, args=(*found.args, Literal(zone, span=found.span)))
    return found
