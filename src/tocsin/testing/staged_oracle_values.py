"""Values and conditions of staged statements, as the definition computes them: three-valued, aggregates skip Null."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from statistics import median
from typing import Any

from tocsin.errors import TocsinError
from tocsin.lang.staged_syntax import (
    Arithmetic,
    AttrOf,
    Compared,
    Denied,
    IfNull,
    Logical,
    Negative,
    StableTime,
    StagedExpr,
    TimeOf,
)
from tocsin.lang.syntax import Literal


class AbsentValue:
    """What an operand is that another branch of an Or has left out; comparisons with it are left out, too."""


ABSENT = AbsentValue()
# Looks up what an expression mentions: an attribute, a time, an aggregate. Gives a value, None for Null, or ABSENT.
Lookup = Callable[[Any], Any]


def value(node: StagedExpr, lookup: Lookup) -> Any:
    """The value of an expression."""
    match node:
        case Literal():
            return float(node.value) if isinstance(node.value, Decimal) else node.value
        case Negative():
            inner = value(node.of, lookup)
            return inner if inner is None or inner is ABSENT else -inner
        case Arithmetic():
            return _computed(node.op, value(node.left, lookup), value(node.right, lookup))
        case IfNull():
            found = lookup(node.of)
            return value(node.instead, lookup) if found is None else found
    return lookup(node)


def _computed(op: str, left: Any, right: Any) -> Any:
    if ABSENT in (left, right):
        return ABSENT
    if left is None or right is None:
        return None
    if op == "/":
        return None if right == 0 else left / right
    return left + right if op == "+" else left - right if op == "-" else left * right


def truth(node: StagedExpr, lookup: Lookup) -> Any:
    """True, False, None (unknown), or ABSENT if every comparison in it is left out."""
    match node:
        case Compared():
            return _compared(node.op, value(node.left, lookup), value(node.right, lookup))
        case Denied():
            inner = truth(node.of, lookup)
            return inner if inner is None or inner is ABSENT else not inner
        case Logical():
            sides = [truth(side, lookup) for side in (node.left, node.right)]
            left = [side for side in sides if side is not ABSENT]
            if not left:
                return ABSENT
            decisive = node.op == "OR"
            return decisive if decisive in left else None if None in left else not decisive
    raise TocsinError("this is no condition")


def holds(node: StagedExpr, lookup: Lookup) -> bool:
    """Whether a condition is TRUE, or says nothing because all of it is about absent operands."""
    return truth(node, lookup) in (True, ABSENT)


def _compared(op: str, left: Any, right: Any) -> Any:
    if ABSENT in (left, right):
        return ABSENT
    if left is None or right is None:
        return None
    if op in ("=", "!="):
        return (left == right) == (op == "=")
    if op in ("<", "<="):
        return bool(left < right or (op == "<=" and left == right))
    return bool(left > right or (op == ">=" and left == right))


def threshold(node: StagedExpr, event: Any, now: int) -> bool:
    """Whether the condition of a role holds for an event."""

    def lookup(part: Any) -> Any:
        match part:
            case AttrOf():
                return event.attrs.get(part.attr)
            case TimeOf():
                return event.start if part.which == "start-ts" else event.end
            case StableTime():
                return now
        raise TocsinError("a condition of a role is about its own events")

    return truth(node, lookup) is True


def aggregated(function: str, values: Sequence[Any]) -> Any:
    """An aggregate over values; Nulls are skipped, and nothing gives Null (Count: 0)."""
    known = [each for each in values if each is not None]
    if function == "Count":
        return len(known)
    if not known:
        return None
    if function == "Avg":
        return sum(known) / len(known)
    if function == "Sum":
        return sum(known)
    if function == "Median":
        return median(known)
    return max(known) if function == "Max" else min(known)
