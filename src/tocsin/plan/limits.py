"""Limits of single events: for each type the bounds between which its numbers must lie, or no leaf takes the event."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf, nextafter
from typing import TypeAlias

from tocsin.events import ANY
from tocsin.plan.block import Plan
from tocsin.plan.expr import Bound, Col, Lit, Op
from tocsin.plan.facts import constrained, types_of
from tocsin.plan.rewrite import all_leaves
from tocsin.schema import Kind

Range: TypeAlias = tuple[float, float]  # both ends belong to it; of an attribute that is whole, whole numbers
Limits: TypeAlias = Mapping[str, Mapping[str, Range]]  # by type and attribute

LEAST, MOST = -(2**63), 2**63 - 1
EXACT = 2**53
MIRRORED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def limits_of(plans: Iterable[Plan]) -> Limits:
    """What the conditions on one event say of its numbers; an event outside is taken by no leaf of any plan.

    Where several leaves take a type, the range covers what each of them takes. Conditions of other forms say nothing.
    """
    plans = list(plans)
    ways: dict[str, list[dict[str, Range]]] = {type: [] for plan in plans for type in types_of(plan)}
    for plan in plans:
        for type in constrained(plan):  # constraints see every event of their types
            for each in ways if type == ANY else (type,):
                ways[each].append({})
        for leaf in all_leaves(plan):
            for alt in leaf.alts:
                mine = _ranges(alt.where)
                for type in ways if alt.type == ANY else (alt.type,):
                    ways[type].append(mine)
    found = {type: _together(mine) for type, mine in ways.items()}
    return {type: ranges for type, ranges in found.items() if ranges}


def _together(ways: list[dict[str, Range]]) -> dict[str, Range]:
    common = set(ways[0]).intersection(*ways[1:]) if ways else set()
    return {attr: (min(way[attr][0] for way in ways), max(way[attr][1] for way in ways)) for attr in sorted(common)}


def _ranges(conditions: Iterable[Bound]) -> dict[str, Range]:
    """The range of each attribute that comparisons with constants bound; all of these must hold."""
    found: dict[str, Range] = {}
    for condition in conditions:
        for attr, low, high in _bounds(condition):
            before = found.get(attr, (low, high))
            found[attr] = max(before[0], low), min(before[1], high)
    return found


def _bounds(condition: Bound) -> Iterable[tuple[str, float, float]]:
    match condition:
        case Op("and", args):
            return [bound for arg in args for bound in _bounds(arg)]
        case Op(op, (Col() as column, Lit() as constant)) if op in MIRRORED:
            return _range(column, op, constant)
        case Op(op, (Lit() as constant, Col() as column)) if op in MIRRORED:
            return _range(column, MIRRORED[op], constant)
    return []


def _range(column: Col, op: str, constant: Lit) -> Iterable[tuple[str, float, float]]:
    value = constant.value
    if isinstance(value, bool) or not isinstance(value, int | float):
        return []
    below: float
    above: float
    least: float
    most: float
    if column.kind is Kind.INT and constant.kind is Kind.INT:
        below, above, least, most = value - 1, value + 1, LEAST, MOST
    elif column.kind is Kind.FLOAT and (constant.kind is Kind.FLOAT or abs(value) <= EXACT):
        value = float(value)
        below, above, least, most = nextafter(value, -inf), nextafter(value, inf), -inf, inf
    else:
        return []
    ranges = {"=": (value, value), "<": (least, below), "<=": (least, value), ">": (above, most), ">=": (value, most)}
    low, high = ranges[op]
    return [(column.attr, min(max(low, least), most), max(min(high, most), least))]
