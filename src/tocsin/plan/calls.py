"""The functions of docs/expressions.md: what they take and what they give. Aggregates are in `typer`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from tocsin.plan.expr import Bound, Op
from tocsin.plan.fold import NULL, is_null
from tocsin.plan.kinds import NUMBERS, KindError, article, compared, kind_of, settled, to_float, unified
from tocsin.schema import Kind

Args: TypeAlias = tuple[Bound, ...]
Rule: TypeAlias = Callable[[str, Args], Bound]


def call(name: str, args: Args) -> Bound:
    """A call of a built-in function; the operands are bound already."""
    rule, least, most = BUILT_IN[name]
    if not least <= len(args) <= most:
        raise KindError(f"{name} takes {_count(least, most)}, not {len(args)}")
    return rule(name, args)


def _count(least: int, most: int) -> str:
    if most >= ANY_NUMBER:
        return f"at least {least} arguments"
    if least == most:
        return f"{least} argument" + ("s" if least > 1 else "")
    return f"{least} or {most} arguments"


def _needs(name: str, arg: Bound, kinds: frozenset[Kind], what: str) -> None:
    if arg.kind not in kinds and not is_null(arg):
        raise KindError(f"{name} needs {what}, not {article(arg.kind)}")


_TEXT = frozenset((Kind.TEXT,))
_WHOLE = frozenset((Kind.INT,))


def _strict(op: str, args: Args, kind: Kind, scale: int = 0, nullable: bool = False) -> Bound:
    if any(is_null(arg) for arg in args):
        return NULL
    return Op(op, args, kind, scale, nullable or any(arg.nullable for arg in args))


def _absolute(name: str, args: Args) -> Bound:
    _needs(name, args[0], NUMBERS, "a number")
    arg = settled(args[0])
    kind = Kind.INT if arg.kind is Kind.TIME else arg.kind
    return _strict(name, (arg,), kind, arg.scale, nullable=kind is not Kind.FLOAT)


def _rounded(name: str, args: Args) -> Bound:
    _needs(name, args[0], NUMBERS, "a number")
    if args[0].kind in (Kind.INT, Kind.TIME):
        return args[0]
    return _strict(name, (to_float(args[0]),), Kind.FLOAT)


def _root(name: str, args: Args) -> Bound:
    _needs(name, args[0], NUMBERS, "a number")
    return _strict(name, (to_float(args[0]),), Kind.FLOAT, nullable=True)


def _extreme(name: str, args: Args) -> Bound:
    args = unified(args, name)
    kind, scale = kind_of(args)
    if kind is Kind.BOOL:
        raise KindError(f"{name} needs values that have an order, not {article(kind)}")
    return _strict(name, args, kind, scale)


def _coalesce(name: str, args: Args) -> Bound:
    args = unified(args, name)
    kind, scale = kind_of(args)
    return NULL if kind is Kind.NULL else Op(name, args, kind, scale, all(arg.nullable for arg in args))


def _nullif(_: str, args: Args) -> Bound:
    """A CASE, so that the result keeps the kind of the first operand."""
    left, right = args
    equal = compared("=", left, right)
    left = settled(left)
    return left if is_null(equal) else Op("case", (equal, NULL, left), left.kind, left.scale)


def _text_to(kind: Kind) -> Rule:
    def rule(name: str, args: Args) -> Bound:
        for arg in args:
            _needs(name, arg, _TEXT, "a text")
        return _strict(name, args, kind)

    return rule


def _substr(name: str, args: Args) -> Bound:
    _needs(name, args[0], _TEXT, "a text")
    for arg in args[1:]:
        _needs(name, arg, _WHOLE, "a whole number for a position")
    return _strict(name, args, Kind.TEXT, nullable=True)


def _to_int(_: str, args: Args) -> Bound:
    arg = settled(args[0])
    if arg.kind is Kind.INT:
        return arg
    return _strict("to_int", (arg,), Kind.INT, nullable=True)


def _to_float(_: str, args: Args) -> Bound:
    arg = args[0]
    if arg.kind is Kind.BOOL:
        raise KindError("float needs a number or a text, not a truth value", hint="float(int(x))")
    if arg.kind is Kind.TEXT:
        return _strict("to_float", (arg,), Kind.FLOAT, nullable=True)
    return to_float(arg)


def _to_text(_: str, args: Args) -> Bound:
    arg = args[0]
    if arg.kind is Kind.TEXT:
        return arg
    _needs("text", arg, frozenset((Kind.INT, Kind.TIME, Kind.BOOL)), "a whole number, a truth value or a text")
    return _strict("to_text", (arg,), Kind.TEXT)


ANY_NUMBER = 1_000_000

BUILT_IN: dict[str, tuple[Rule, int, int]] = {
    "abs": (_absolute, 1, 1),
    "floor": (_rounded, 1, 1),
    "ceil": (_rounded, 1, 1),
    "round": (_rounded, 1, 1),
    "sqrt": (_root, 1, 1),
    "least": (_extreme, 1, ANY_NUMBER),
    "greatest": (_extreme, 1, ANY_NUMBER),
    "coalesce": (_coalesce, 1, ANY_NUMBER),
    "nullif": (_nullif, 2, 2),
    "lower": (_text_to(Kind.TEXT), 1, 1),
    "upper": (_text_to(Kind.TEXT), 1, 1),
    "trim": (_text_to(Kind.TEXT), 1, 1),
    "length": (_text_to(Kind.INT), 1, 1),
    "substr": (_substr, 2, 3),
    "concat": (_text_to(Kind.TEXT), 1, ANY_NUMBER),
    "starts_with": (_text_to(Kind.BOOL), 2, 2),
    "contains": (_text_to(Kind.BOOL), 2, 2),
    "int": (_to_int, 1, 1),
    "float": (_to_float, 1, 1),
    "text": (_to_text, 1, 1),
}
