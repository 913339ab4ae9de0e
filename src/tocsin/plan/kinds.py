"""Kinds of values: which may meet, and what they become when they do (docs/expressions.md).

A literal with a fraction is held as a DECIMAL constant until its neighbour is known: beside a decimal it stays exact,
elsewhere it becomes a float.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

from tocsin.errors import TocsinError
from tocsin.lang.syntax import COLLECT, UNITS, Duration
from tocsin.plan.expr import Agg, Bound, Lit, Op
from tocsin.plan.fold import INT_HIGH, INT_LOW, NULL, is_null
from tocsin.schema import DECIMAL_DIGITS, Field, Kind, Schema

NUMBERS = frozenset((Kind.INT, Kind.FLOAT, Kind.DECIMAL, Kind.TIME))


class KindError(TocsinError):
    """Two kinds that do not go together; the caller adds the place."""


def article(kind: Kind) -> str:
    return {Kind.INT: "a whole number", Kind.FLOAT: "a float", Kind.DECIMAL: "a decimal", Kind.TEXT: "a text",
            Kind.BOOL: "a truth value", Kind.TIME: "a timestamp", Kind.NULL: "NULL"}[kind]  # fmt: skip


# --- literals ----------------------------------------------------------------------------------------------------


def literal(value: bool | int | Decimal | str | None) -> Lit:
    match value:
        case None:
            return NULL
        case bool():
            return Lit(value, Kind.BOOL)
        case int():
            if not INT_LOW <= value <= INT_HIGH:
                raise KindError(f"{value} does not fit into 64 bits")
            return Lit(value, Kind.INT)
        case str():
            return Lit(value, Kind.TEXT)
    return fraction(value)


def fraction(value: Decimal) -> Lit:
    """A number with a fraction, as a decimal of the smallest scale that holds it."""
    exponent = value.normalize().as_tuple().exponent
    scale = max(0, -exponent) if isinstance(exponent, int) else 0
    return Lit(int(value.scaleb(scale)), Kind.DECIMAL, scale)


def is_fraction(expr: Bound) -> bool:
    """A fractional literal whose neighbour is not known yet."""
    return isinstance(expr, Lit) and expr.kind is Kind.DECIMAL


def settled(expr: Bound) -> Bound:
    """A fractional literal that has no decimal beside it is a float."""
    return to_float(expr) if is_fraction(expr) else expr


def ticks(duration: Duration, schema: Schema) -> int:
    """A length of time in ticks of the stream."""
    amount = Decimal(duration.amount)
    if duration.unit is not None:
        if schema.unit is None:
            raise KindError(
                f"the length of a tick is not known, so {duration.amount} {duration.unit} has no meaning",
                hint='say how long a tick is: time_unit="ms" (--time-unit ms); or give a bare number of ticks',
            )
        amount = amount * UNITS[duration.unit] / UNITS[schema.unit]
    if amount != amount.to_integral_value():
        raise KindError(
            f"{duration.amount} {duration.unit or 'ticks'} is not a whole number of ticks",
            hint=f"a tick is 1 {schema.unit}" if schema.unit else "give a whole number",
        )
    return int(amount)


# --- conversions -------------------------------------------------------------------------------------------------


def to_float(expr: Bound) -> Bound:
    if expr.kind is Kind.FLOAT or is_null(expr):
        return expr
    if isinstance(expr, Lit) and isinstance(expr.value, int):
        return Lit(float(Decimal(expr.value).scaleb(-expr.scale)), Kind.FLOAT)
    return Op("to_float", (expr,), Kind.FLOAT, nullable=expr.nullable)


def rescaled(expr: Bound, scale: int) -> Bound:
    """An int or decimal as a decimal of this scale (never smaller than its own)."""
    if is_null(expr) or (expr.kind is Kind.DECIMAL and expr.scale == scale):
        return expr
    if isinstance(expr, Lit) and isinstance(expr.value, int):
        value = expr.value * 10 ** (scale - expr.scale)
        if abs(value) >= 10**DECIMAL_DIGITS:
            raise KindError(f"{Decimal(expr.value).scaleb(-expr.scale)} needs more than {DECIMAL_DIGITS} digits here")
        return Lit(value, Kind.DECIMAL, scale)
    return Op("rescale", (expr,), Kind.DECIMAL, scale)


def unified(values: Sequence[Bound], what: str) -> tuple[Bound, ...]:
    """The values as one common kind."""
    kinds = {value.kind for value in values if not is_null(value)}
    if kinds <= NUMBERS:
        decimals = any(value.kind is Kind.DECIMAL and not is_fraction(value) for value in values)
        fractions = any(is_fraction(value) for value in values)
        if Kind.FLOAT in kinds or (fractions and not decimals):
            return tuple(to_float(value) for value in values)
        if decimals:
            scale = max(value.scale for value in values)
            return tuple(rescaled(value, scale) for value in values)
        return tuple(values)
    if len(kinds) > 1:
        left, right = sorted(kinds)[:2]
        raise KindError(f"{what} mixes {article(left)} with {article(right)}", hint="use text(x), int(x) or float(x)")
    return tuple(values)


def kind_of(values: Sequence[Bound]) -> tuple[Kind, int]:
    """The kind and scale of values that were unified."""
    kinds = [value for value in values if not is_null(value)]
    if not kinds:
        return Kind.NULL, 0
    if {value.kind for value in kinds} == {Kind.INT, Kind.TIME}:
        return Kind.INT, 0
    return kinds[0].kind, kinds[0].scale


# --- operations --------------------------------------------------------------------------------------------------


def compared(op: str, left: Bound, right: Bound) -> Bound:
    """left op right; int and float stay as they are, the comparison is exact."""
    if is_null(left) or is_null(right):
        return NULL
    if left.kind is Kind.BOOL and right.kind is Kind.BOOL and op not in ("=", "<>"):
        raise KindError(f"truth values have no order: {op} cannot compare them", hint="use = or <>")
    if {left.kind, right.kind} <= {Kind.INT, Kind.FLOAT, Kind.TIME}:
        return _comparison(op, left, right)
    one, two = _comparable(left, right)
    test = _comparison(op, one, two)
    if _scaled_up(one):
        return _beyond(one, two, _comparison(op, left, Lit(0, left.kind, left.scale)), test)
    if _scaled_up(two):
        return _beyond(two, one, _comparison(op, Lit(0, right.kind, right.scale), right), test)
    return test


def _comparison(op: str, left: Bound, right: Bound) -> Op:
    floats = Kind.FLOAT in (left.kind, right.kind)
    return Op(op, (left, right), Kind.BOOL, nullable=floats or left.nullable or right.nullable)


def _scaled_up(expr: Bound) -> bool:
    return isinstance(expr, Op) and expr.op == "rescale"


def _beyond(scaled: Bound, other: Bound, sign: Bound, test: Bound) -> Bound:
    """Compare decimals exactly where one does not fit at the larger scale: its sign alone decides.

    A value beyond 64 bits lies farther from zero than anything beside it, so it compares with that as with zero.
    """
    assert isinstance(scaled, Op)
    known = [_not_null(side) for side in (scaled.args[0], other) if side.nullable]
    lost: Bound = Op("is_null", (scaled,), Kind.BOOL, nullable=False)
    if known:
        lost = Op("and", (lost, *known), Kind.BOOL, nullable=False)
    return Op("case", (lost, sign, test), Kind.BOOL, nullable=scaled.args[0].nullable or other.nullable)


def _not_null(expr: Bound) -> Bound:
    return Op("not", (Op("is_null", (expr,), Kind.BOOL, nullable=False),), Kind.BOOL, nullable=False)


def as_written(expr: Op) -> Op:
    """Return the comparison inside a CASE that was added to keep it exact; any other expression unchanged."""
    match expr:
        case Op("case", (_, Op(sign), Op(op, (left, right)) as test)) if sign == op:
            return test if _scaled_up(left) or _scaled_up(right) else expr
    return expr


def _comparable(left: Bound, right: Bound) -> tuple[Bound, Bound]:
    numbers = left.kind in NUMBERS, right.kind in NUMBERS
    if all(numbers):
        # a fraction beside an int becomes a float, but the int stays: that comparison is exact
        if is_fraction(left) and right.kind is not Kind.DECIMAL:
            return to_float(left), right
        if is_fraction(right) and left.kind is not Kind.DECIMAL:
            return left, to_float(right)
    elif left.kind is not right.kind:
        raise KindError(
            f"{article(left.kind)} cannot be compared with {article(right.kind)}", hint=_cast_hint(left, right)
        )
    first, second = unified((left, right), "a comparison")
    return first, second


def _cast_hint(left: Bound, right: Bound) -> str:
    text = next((side.value for side in (left, right) if isinstance(side, Lit) and side.kind is Kind.TEXT), "")
    if re.match(r"\d{4}-\d\d-\d\d", str(text)):
        return f"write timestamp('{text}')"
    if Kind.TEXT in (left.kind, right.kind):
        return "convert one side: int(x), float(x) or text(x)"
    return "convert one side: int(x)"


def computed(op: str, left: Bound, right: Bound) -> Bound:
    """+ - * / %"""
    for side in (left, right):
        if side.kind not in NUMBERS and not is_null(side):
            hint = "texts are joined with ||" if op == "+" and side.kind is Kind.TEXT else None
            raise KindError(f"{op} needs numbers, not {article(side.kind)}", hint=hint)
    if is_null(left) or is_null(right):
        return NULL
    if op == "/":
        return Op(op, (to_float(left), to_float(right)), Kind.FLOAT)
    if op == "*" and _exact_decimals(left, right):
        return _multiplied(left, right)
    left, right = unified((left, right), op)
    kind, scale = kind_of((left, right))
    kind = Kind.INT if kind is Kind.TIME else kind
    # whole numbers may overflow to null, and so does a modulo by zero
    nullable = kind is not Kind.FLOAT or op == "%" or left.nullable or right.nullable
    return Op(op, (left, right), kind, scale, nullable)


def _exact_decimals(left: Bound, right: Bound) -> bool:
    kinds = {left.kind, right.kind}
    column = any(side.kind is Kind.DECIMAL and not is_fraction(side) for side in (left, right))
    return column and Kind.FLOAT not in kinds


def _multiplied(left: Bound, right: Bound) -> Bound:
    scale = left.scale + right.scale
    if scale > DECIMAL_DIGITS:
        raise KindError(
            f"the product has {scale} digits after the point, at most {DECIMAL_DIGITS} are exact",
            hint="convert one side with float(x)",
        )
    sides = (rescaled(left, left.scale), rescaled(right, right.scale))
    return Op("*", sides, Kind.DECIMAL, scale)


def negated(operand: Bound) -> Bound:
    if is_null(operand):
        return NULL
    if operand.kind not in NUMBERS:
        raise KindError(f"- needs a number, not {article(operand.kind)}")
    if isinstance(operand, Lit) and operand.value is not None and not isinstance(operand.value, str):
        if operand.value == INT_LOW:
            return NULL
        return replace(operand, value=-operand.value)
    kind = Kind.INT if operand.kind is Kind.TIME else operand.kind
    return Op("neg", (operand,), kind, operand.scale, operand.nullable or kind is not Kind.FLOAT)


def is_list(expr: Bound) -> bool:
    """Whether a column of SELECT is a list: its kind is that of the values in it then."""
    return isinstance(expr, Agg) and expr.function == COLLECT


def field_of(name: str, expr: Bound) -> Field:
    """An expression as an attribute of a later event."""
    return Field(name, expr.kind, expr.scale, expr.nullable)
