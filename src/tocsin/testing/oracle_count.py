"""Counting by definition: what SELECT over matches says of the matches of the oracle (docs/semantics.md, 15).

Every match is looked at, one after the other. Nothing here is shared with the engine.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction as Rational
from typing import Any

from tocsin.events import BEGINNING, END_OF_TIME, Value
from tocsin.lang.syntax import AGGREGATES, Call, Expr, Name, Query, Same, SelectItem, groups_in, leaves_of, walk
from tocsin.testing.oracle_after import CompletedMatch, equal, of_key
from tocsin.testing.oracle_consume import sets_of
from tocsin.testing.oracle_expr import EXACT, Fraction, OracleEvaluator, UndefinedError, ticks, to_float, variables

OVER_MATCHES = ("count", "sum", "avg", "min", "max")


@dataclass(frozen=True, slots=True)
class CountedRow:
    """One row: the values of its group, the number of its span (None without EVERY), and the values of SELECT."""

    group: tuple[Value, ...]
    span: int | None
    start: int
    end: int
    select: list[Value]


def counts_matches(query: Query) -> bool:
    """Whether SELECT is over matches: GROUP BY or EVERY says so, or no variable inside its aggregates is repeated."""
    if query.group or query.every is not None:
        return True
    calls = [node for item in query.select for node in walk(item.expr) if isinstance(node, Call) and is_aggregate(node)]
    repeated = {leaf.var for leaf in leaves_of(query.pattern) if leaf.repeat is not None}
    for group in groups_in(query.pattern):
        repeated |= {group.var, *(leaf.var for leaf in leaves_of(group))}
    repeated |= sets_of(query)
    asked = {var for call in calls for var in variables(call)}
    return bool(calls) and not asked & repeated and all(call.function in OVER_MATCHES for call in calls)


def is_aggregate(node: object) -> bool:
    return isinstance(node, Call) and node.function in AGGREGATES


def counted_rows(query: Query, found: Sequence[CompletedMatch], reader: OracleEvaluator) -> list[CountedRow]:
    """One row for each group, and for each span of EVERY, in which there is a match."""
    length = None if query.every is None else ticks(query.every, reader.unit)

    def asked(expr: Expr, match: CompletedMatch) -> Any:
        return of_key(expr.attrs[0], match) if isinstance(expr, Same) else reader.plain(expr, match.bound)

    if any(not match.events for match in found):
        raise UndefinedError("a match of this query may show no event at all")
    heaps: list[tuple[tuple[Value, ...], int | None, list[CompletedMatch]]] = []
    for match in sorted(found, key=lambda each: each.completed):
        group = tuple(asked(expr, match) for expr in query.group)
        span = None if length is None else match.end // length
        same = next((heap for known, at, heap in heaps if at == span and equal(known, group)), None)
        if same is None:
            heaps.append((group, span, [match]))
        else:
            same.append(match)
    rows = []
    for group, span, heap in heaps:
        start, end = (
            (BEGINNING, END_OF_TIME) if span is None or length is None else (span * length, (span + 1) * length - 1)
        )
        values = [shown(item, query, group, heap, reader) for item in query.select]
        rows.append(CountedRow(group, span, start, end, values))
    return rows


def shown(
    item: SelectItem, query: Query, group: tuple[Value, ...], heap: list[CompletedMatch], reader: OracleEvaluator
) -> Value:
    expr = item.expr
    if expr in query.group:
        return group[query.group.index(expr)]
    if not isinstance(expr, Call) or not is_aggregate(expr):
        inside = any(map(is_aggregate, walk(expr)))
        raise UndefinedError("computed from aggregates" if inside else "neither counted nor a group")
    if expr.function not in OVER_MATCHES or len(expr.args) > 1:
        raise UndefinedError(f"SELECT has {expr.function}, which is not for matches")
    if not expr.args:
        return len(heap)
    arg = expr.args[0]
    for leaf in leaves_of(query.pattern):
        if leaf.repeat is not None and leaf.var in variables(arg):
            raise UndefinedError(f"{leaf.var} is repeated, and aggregates over matches ask single events")
    if isinstance(arg, Name):
        if expr.function != "count":
            raise UndefinedError(f"{expr.function} needs an attribute")
        return sum(match.bound.get(arg.name) is not None for match in heap)
    values: list[Any] = [reader.value(arg, match.bound) for match in heap]
    known = [to_float(value) if isinstance(value, Fraction) else value for value in values if value is not None]
    return total(expr.function, known)


def total(function: str, known: list[Any]) -> Value:
    """Whole numbers and decimals are exact; floats are added exactly, and the sum is rounded once."""
    if function == "count":
        return len(known)
    if not known:
        return None
    odd = [value for value in known if isinstance(value, float) and not math.isfinite(value)]
    if any(value != value for value in odd) or (function in ("sum", "avg") and {math.inf, -math.inf} <= set(odd)):
        return math.nan
    if function in ("min", "max"):
        best: Value = min(known) if function == "min" else max(known)
        return best
    if odd:
        return float(odd[0])
    if any(isinstance(value, (str, bool)) for value in known):
        raise UndefinedError(f"{function} needs numbers")
    exact = sum((Rational(value) for value in known), Rational(0))
    if function == "avg":
        return rounded(exact / len(known))
    if any(isinstance(value, float) for value in known):
        return rounded(exact)
    if any(isinstance(value, Decimal) for value in known):
        return EXACT.divide(Decimal(exact.numerator), Decimal(exact.denominator))
    return int(exact)


def rounded(exact: Rational) -> float:
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf
