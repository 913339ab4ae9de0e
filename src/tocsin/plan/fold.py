"""Constant folding in three-valued logic: what is known before any event comes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from operator import add, eq, ge, gt, le, lt, mul, ne, sub
from typing import Any

from tocsin.plan.expr import Agg, Bound, Lit, Op, User
from tocsin.schema import Kind

NULL = Lit(None, Kind.NULL)
TRUE = Lit(True, Kind.BOOL)
FALSE = Lit(False, Kind.BOOL)

COMPARE: dict[str, Callable[[Any, Any], bool]] = {"=": eq, "<>": ne, "<": lt, "<=": le, ">": gt, ">=": ge}
WHOLE: dict[str, Callable[[int, int], int]] = {"+": add, "-": sub, "*": mul}
LOOKS_AT_NULLS = {"and", "or", "is_null", "coalesce", "case", "nullif"}
INT_LOW, INT_HIGH = -(2**63), 2**63 - 1


def fold(expr: Bound) -> Bound:
    """Compute the constant parts of an expression.

    >>> fold(Op("or", (Op("=", (NULL, Lit(1, Kind.INT)), Kind.BOOL), TRUE), Kind.BOOL))
    Lit(value=True, kind=<Kind.BOOL: 'bool'>, scale=0)
    """
    match expr:
        case Op(op, args):
            args = tuple(fold(arg) for arg in args)
            expr = replace(expr, args=args)
            if op not in LOOKS_AT_NULLS and any(is_null(arg) for arg in args):
                return NULL
            return _RULES.get(op, _strict)(expr)
        case User(_, args):
            return replace(expr, args=tuple(fold(arg) for arg in args))
        case Agg(_, _, arg) if arg is not None:
            return replace(expr, arg=fold(arg))
    return expr


def is_null(expr: Bound) -> bool:
    return isinstance(expr, Lit) and expr.value is None


def never_true(expr: Bound) -> bool:
    """Tell whether a folded predicate can be TRUE for no event at all."""
    match expr:
        case Lit(value):
            return value is not True
        case Op("and", args):
            return any(never_true(arg) for arg in args)
        case Op("or", args):
            return all(never_true(arg) for arg in args)
    return False


def tested(predicate: Bound) -> Bound:
    """Simplify a folded predicate of which only TRUE matters: drop branches of an OR that can never be TRUE."""
    match predicate:
        case Op("and", args):
            return _joined(replace(predicate, args=tuple(tested(arg) for arg in args)), stops=FALSE, skips=TRUE)
        case Op("or", args):
            kept = tuple(FALSE if never_true(arg) else tested(arg) for arg in args)
            return _joined(replace(predicate, args=kept), stops=TRUE, skips=FALSE)
    return FALSE if never_true(predicate) else predicate


def opened(predicate: Bound) -> tuple[Bound, ...]:
    """The conjuncts of a predicate; only their being TRUE matters."""
    match predicate:
        case Op("and", args):
            return tuple(conjunct for arg in args for conjunct in opened(arg))
        case Op("not", (Op("or", args),)):
            return tuple(conjunct for arg in args for conjunct in opened(fold(Op("not", (arg,), Kind.BOOL))))
        case Op("not", (Op("not", (arg,)),)):
            return opened(arg)
    return (predicate,)


# --- rules, one per operation; operands are folded already --------------------------------------------------------


def _and(expr: Op) -> Bound:
    return _joined(expr, stops=FALSE, skips=TRUE)


def _or(expr: Op) -> Bound:
    return _joined(expr, stops=TRUE, skips=FALSE)


def _joined(expr: Op, stops: Lit, skips: Lit) -> Bound:
    if stops in expr.args:
        return stops
    kept = tuple(dict.fromkeys(arg for arg in expr.args if arg != skips))
    if len(kept) < 2:
        return kept[0] if kept else skips
    return replace(expr, args=kept)


def _not(expr: Op) -> Bound:
    (arg,) = expr.args
    return Lit(not arg.value, Kind.BOOL) if isinstance(arg, Lit) else expr


def _is_null(expr: Op) -> Bound:
    (arg,) = expr.args
    if isinstance(arg, Lit):
        return Lit(arg.value is None, Kind.BOOL)
    return expr if arg.nullable else FALSE


def _coalesce(expr: Op) -> Bound:
    kept: list[Bound] = []
    for arg in expr.args:
        if not is_null(arg):
            kept.append(arg)
        if not arg.nullable:
            break
    if len(kept) < 2:
        return kept[0] if kept else NULL
    return replace(expr, args=tuple(kept), nullable=all(arg.nullable for arg in kept))


def _case(expr: Op) -> Bound:
    pairs, rest = expr.args[: len(expr.args) // 2 * 2], expr.args[len(expr.args) // 2 * 2 :]
    kept: list[Bound] = []
    for condition, value in zip(pairs[::2], pairs[1::2], strict=True):
        if condition == TRUE:
            rest = (value,)
            break
        if not isinstance(condition, Lit):
            kept += [condition, value]
    if not kept:
        return rest[0] if rest else NULL
    return replace(expr, args=(*kept, *rest))


def _compare(expr: Op) -> Bound:
    left, right = expr.args
    if isinstance(left, Lit) and isinstance(right, Lit):
        return Lit(COMPARE[expr.op](left.value, right.value), Kind.BOOL)
    return expr


def _strict(expr: Op) -> Bound:
    """Compute whole-number arithmetic on constants; leave everything else to the engine."""
    whole = [arg.value for arg in expr.args if isinstance(arg, Lit) and isinstance(arg.value, int)]
    if expr.kind is not Kind.INT or len(whole) != len(expr.args):
        return expr
    if expr.op in WHOLE:
        result = WHOLE[expr.op](*whole)
    elif expr.op == "neg":
        result = -whole[0]
    else:
        return expr
    return Lit(result, Kind.INT) if INT_LOW <= result <= INT_HIGH else NULL


_RULES: dict[str, Callable[[Op], Bound]] = {
    "and": _and,
    "or": _or,
    "not": _not,
    "is_null": _is_null,
    "coalesce": _coalesce,
    "case": _case,
    **dict.fromkeys(COMPARE, _compare),
}
