"""Evaluate a bound expression in plain Python, one row at a time.

Used where a kernel does not reach: SELECT columns, functions of text and other derived columns, user functions of one
event. Values are as in docs/expressions.md; decimals are whole numbers of 10**-scale; None is null.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from tocsin.engine import runtime
from tocsin.engine.like import like
from tocsin.functions import Function
from tocsin.lang.syntax import COLLECT, DISTINCT, MEMBER
from tocsin.plan.expr import Agg, Bound, Col, Lit, Op, Reach, Ref, Time, User
from tocsin.plan.points_in_time import ON_THE_WALL
from tocsin.schema import Kind
from tocsin.zones import on_the_wall


class Row:
    """Where the values of names come from; each kind of row knows those that can be asked of it."""

    def column(self, col: Col) -> Any:
        raise NotImplementedError

    def time(self, time: Time) -> int | None:
        raise NotImplementedError

    def event(self, ref: Ref) -> int | None:
        raise NotImplementedError

    def members(self, agg: Agg) -> list[Any]:
        raise NotImplementedError


def evaluate(expr: Bound, row: Row, functions: Mapping[str, Function]) -> Any:
    """The value of an expression, None for null."""
    match expr:
        case Lit(value):
            return value
        case Col():
            return row.column(expr)
        case Time():
            return row.time(expr)
        case Ref():
            return row.event(expr)
        case Agg():
            return aggregate(expr, row.members(expr))
        case Reach():
            raise AssertionError("a span is never derived")
        case User(name, args):
            given = [evaluate(arg, row, functions) for arg in args]
            return functions[name].ask(given)
        case Op(op, args) if op in LAZY:
            return LAZY[op](expr, lambda arg: evaluate(arg, row, functions))
        case Op(op, args):
            given = [evaluate(arg, row, functions) for arg in args]
            return None if any(value is None for value in given) else STRICT[op](expr, *given)
    raise AssertionError(expr)


# --- operations that look at nulls themselves --------------------------------------------------------------------

Get = Callable[[Bound], Any]


def _and(expr: Op, get: Get) -> bool | None:
    values = [get(arg) for arg in expr.args]
    if any(value is False for value in values):
        return False
    return None if any(value is None for value in values) else True


def _or(expr: Op, get: Get) -> bool | None:
    values = [get(arg) for arg in expr.args]
    if any(value is True for value in values):
        return True
    return None if any(value is None for value in values) else False


def _case(expr: Op, get: Get) -> Any:
    pairs, rest = expr.args[: len(expr.args) // 2 * 2], expr.args[len(expr.args) // 2 * 2 :]
    for condition, value in zip(pairs[::2], pairs[1::2], strict=True):
        if get(condition) is True:
            return get(value)
    return get(rest[0]) if rest else None


def _coalesce(expr: Op, get: Get) -> Any:
    return next((value for value in map(get, expr.args) if value is not None), None)


def _nullif(expr: Op, get: Get) -> Any:
    left, right = map(get, expr.args)
    return None if left is not None and right is not None and left == right else left


LAZY: dict[str, Callable[[Op, Get], Any]] = {
    "and": _and,
    "or": _or,
    "case": _case,
    "coalesce": _coalesce,
    "nullif": _nullif,
    "is_null": lambda expr, get: get(expr.args[0]) is None,
}

# --- operations on values that are not null ----------------------------------------------------------------------


def _compared(test: Callable[[Any, Any], bool]) -> Callable[..., bool | None]:
    def compare(_: Op, x: Any, y: Any) -> bool | None:
        return None if x != x or y != y else test(x, y)

    return compare


def _exact(whole: Callable[[int, int], tuple[int, bool]], real: Callable[[float, float], float]) -> Callable[..., Any]:
    def compute(expr: Op, x: Any, y: Any) -> Any:
        if expr.kind is Kind.FLOAT:
            return real(float(x), float(y))
        value, known = whole(x, y)
        return value if known else None

    return compute


def _known(pair: tuple[Any, bool]) -> Any:
    return pair[0] if pair[1] else None


def _modulo(expr: Op, x: Any, y: Any) -> Any:
    return _known(runtime.modulo_float(float(x), float(y)) if expr.kind is Kind.FLOAT else runtime.modulo(x, y))


def _to_float(expr: Op, x: Any) -> float | None:
    if isinstance(x, str):
        return parse_float(x)
    scale = expr.args[0].scale
    return float(x) / 10.0**scale if scale else float(x)


def _to_int(expr: Op, x: Any) -> int | None:
    if isinstance(x, str):
        return parse_int(x)
    if isinstance(x, float):
        return _known(runtime.whole_of(x))  # type: ignore[no-any-return]
    scale = expr.args[0].scale
    return int(abs(x) // 10**scale * (1 if x >= 0 else -1)) if scale else int(x)


def _to_text(_: Op, x: Any) -> str:
    return ("true" if x else "false") if isinstance(x, bool) else str(x)


def parse_int(text: str) -> int | None:
    text = text.strip(" ")
    if not re.fullmatch(r"[+-]?[0-9]{1,30}", text):
        return None
    value = int(text)
    return value if runtime.SMALLEST <= value <= runtime.BIGGEST else None


def parse_float(text: str) -> float | None:
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None


def _substr(_: Op, text: str, start: int, count: int | None = None) -> str | None:
    if start < 1 or (count is not None and count < 0):
        return None
    return text[start - 1 :] if count is None else text[start - 1 : start - 1 + count]


def _least(pick: Callable[..., Any]) -> Callable[..., Any]:
    def choose(_: Op, *values: Any) -> Any:
        return math.nan if any(value != value for value in values) else pick(values)

    return choose


STRICT: dict[str, Callable[..., Any]] = {
    "not": lambda _, x: not x,
    "=": _compared(lambda x, y: x == y),
    "<>": _compared(lambda x, y: x != y),
    "<": _compared(lambda x, y: x < y),
    "<=": _compared(lambda x, y: x <= y),
    ">": _compared(lambda x, y: x > y),
    ">=": _compared(lambda x, y: x >= y),
    "same": lambda _, x, y: x == y,
    "+": _exact(runtime.add, lambda x, y: x + y),
    "-": _exact(runtime.subtract, lambda x, y: x - y),
    "*": _exact(runtime.multiply, lambda x, y: x * y),
    "/": lambda _, x, y: _known(runtime.divide(float(x), float(y))),
    "%": _modulo,
    "neg": lambda expr, x: -x if expr.kind is Kind.FLOAT else _known(runtime.negate(x)),
    "like": lambda _, x, y: like(x, y),
    "to_float": _to_float,
    "to_int": _to_int,
    "to_text": _to_text,
    "rescale": lambda expr, x: _known(runtime.multiply(x, 10 ** (expr.scale - expr.args[0].scale))),
    "abs": lambda expr, x: abs(x) if expr.kind is Kind.FLOAT else _known(runtime.absolute(x)),
    "floor": lambda expr, x: runtime.floor_of(x) if expr.kind is Kind.FLOAT else x,
    "ceil": lambda expr, x: runtime.ceil_of(x) if expr.kind is Kind.FLOAT else x,
    "round": lambda expr, x: runtime.round_of(x) if expr.kind is Kind.FLOAT else x,
    "sqrt": lambda _, x: _known(runtime.root_of(float(x))),
    "least": _least(min),
    "greatest": _least(max),
    "lower": lambda _, x: x.lower(),
    "upper": lambda _, x: x.upper(),
    "trim": lambda _, x: x.strip(" "),
    "length": lambda _, x: len(x),
    "substr": _substr,
    "concat": lambda _, *texts: "".join(texts),
    "starts_with": lambda _, x, y: x.startswith(y),
    "contains": lambda _, x, y: y in x,
    ON_THE_WALL: lambda _, time, zone: on_the_wall(time, zone),
}

# --- aggregates --------------------------------------------------------------------------------------------------


def aggregate(agg: Agg, values: list[Any]) -> Any:
    """An aggregate over the members' values in canonical order (for count(b): one entry per member)."""
    if agg.function == "first":
        return values[0] if values else None
    if agg.function == "last":
        return values[-1] if values else None
    if agg.function == MEMBER:
        at = agg.place - 1 if agg.place > 0 else len(values) + agg.place
        return values[at] if 0 <= at < len(values) else None
    if agg.function == COLLECT:
        return values
    known = [value for value in values if value is not None]
    if agg.function == "count":
        return len(known)
    if agg.function == DISTINCT:
        return len({value for value in known if value == value}) + any(value != value for value in known)
    if not known:
        return None
    if agg.function in ("min", "max"):
        pick = min if agg.function == "min" else max
        return math.nan if any(value != value for value in known) else pick(known)
    assert agg.arg is not None
    total = total_of(known, agg.arg.kind)
    if agg.function == "sum" or total is None:
        return total
    return float(total) / 10.0**agg.arg.scale / len(known) if agg.arg.scale else float(total) / len(known)


def total_of(values: list[Any], kind: Kind) -> Any:
    if kind is Kind.FLOAT:
        total = 0.0
        for value in values:
            total += value
        return total
    exact = sum(values)
    return exact if runtime.SMALLEST <= exact <= runtime.BIGGEST else None
