"""Expressions of staged statements as functions of a frame: three-valued, aggregates skip Null.

What a name means depends on where the expression stands, so whoever compiles one says how names are looked up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from operator import add, eq, ge, gt, le, lt, mul, ne, sub
from statistics import median
from typing import Any, TypeAlias

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
from tocsin.staged.event import ABSENT

Asked: TypeAlias = Callable[[Any], Any]  # a frame gives a value; None is Null or unknown, ABSENT is left out
LookUp: TypeAlias = Callable[[Any], Asked]  # what a name, a time or an aggregate of an expression means
COMPARISONS = {"=": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}
ARITHMETIC = {"+": add, "-": sub, "*": mul}


def value_of(node: StagedExpr, look_up: LookUp) -> Asked:
    """The value of an expression."""
    match node:
        case Literal():
            constant = float(node.value) if isinstance(node.value, Decimal) else node.value
            return lambda _: constant
        case Negative():
            return _negative(value_of(node.of, look_up))
        case Arithmetic():
            return _computed(node.op, value_of(node.left, look_up), value_of(node.right, look_up))
        case IfNull():
            return _instead(look_up(node.of), value_of(node.instead, look_up))
    return look_up(node)


def _negative(inner: Asked) -> Asked:
    def negative(frame: Any) -> Any:
        value = inner(frame)
        return value if value is None or value is ABSENT else -value

    return negative


def _instead(inner: Asked, other: Asked) -> Asked:
    def instead(frame: Any) -> Any:
        value = inner(frame)
        return other(frame) if value is None else value

    return instead


def _computed(op: str, left: Asked, right: Asked) -> Asked:
    work = ARITHMETIC.get(op, _divided)

    def computed(frame: Any) -> Any:
        one, other = left(frame), right(frame)
        if one is ABSENT or other is ABSENT:
            return ABSENT
        return None if one is None or other is None else work(one, other)

    return computed


def _divided(one: Any, other: Any) -> Any:
    return None if other == 0 else one / other


def truth_of(node: StagedExpr, look_up: LookUp) -> Asked:
    """True, False, None (unknown), or ABSENT if every comparison in it is left out."""
    match node:
        case Compared():
            return _compared(COMPARISONS[node.op], value_of(node.left, look_up), value_of(node.right, look_up))
        case Denied():
            return _denied(truth_of(node.of, look_up))
        case Logical():
            return _logical(node.op == "OR", truth_of(node.left, look_up), truth_of(node.right, look_up))
    raise TocsinError("this is no condition")


def _compared(compare: Callable[[Any, Any], Any], left: Asked, right: Asked) -> Asked:
    def compared(frame: Any) -> Any:
        one, other = left(frame), right(frame)
        if one is ABSENT or other is ABSENT:
            return ABSENT
        return None if one is None or other is None else bool(compare(one, other))

    return compared


def _denied(inner: Asked) -> Asked:
    def denied(frame: Any) -> Any:
        value = inner(frame)
        return value if value is None or value is ABSENT else not value

    return denied


def _logical(decisive: bool, left: Asked, right: Asked) -> Asked:
    """AND and OR over the sides that are not left out; `decisive` is what settles them: True for OR."""

    def logical(frame: Any) -> Any:
        one = left(frame)
        if one is decisive:
            return decisive
        other = right(frame)
        if one is ABSENT or other is decisive:
            return other
        if other is ABSENT or one is None:
            return one
        return other

    return logical


def threshold_of(conditions: Sequence[StagedExpr]) -> Callable[[Any, int], bool] | None:
    """Whether an event fulfils the conditions of a role, at the time of a stage; None: there are none."""
    asked = [truth_of(each, _of_event) for each in conditions]
    if not asked:
        return None
    return lambda event, now: all(each((event, now)) is True for each in asked)


def _of_event(node: Any) -> Asked:
    match node:
        case AttrOf():
            attr = node.attr
            return lambda frame: frame[0].values.get(attr)
        case TimeOf():
            return (lambda frame: frame[0].start) if node.which == "start-ts" else (lambda frame: frame[0].end)
        case StableTime():
            return lambda frame: frame[1]
    raise TocsinError("a condition of a role is about its own events")


def aggregated(function: str, values: Sequence[Any]) -> Any:
    """An aggregate over values; Nulls are skipped, and nothing gives Null (Count: 0)."""
    known = [each for each in values if each is not None]
    if function == "Count":
        return len(known)
    if not known:
        return None
    match function:
        case "Avg":
            return sum(known) / len(known)
        case "Sum":
            return sum(known)
        case "Median":
            return median(known)
        case "Max":
            return max(known)
    return min(known)
