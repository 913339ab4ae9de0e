"""Derived columns: what a kernel cannot compute about one event is computed when the event arrives.

Kernels know int64 and float64. A part of a predicate that concerns a single event and needs text (LIKE, lower, order
against a literal), a time zone or a user function becomes a column of its own, named `$0`, `$1`, ...; the kernel reads
the column.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tocsin.engine.evaluate import Row, evaluate
from tocsin.functions import Function
from tocsin.items import Column, Items, Strings
from tocsin.plan.block import Block
from tocsin.plan.expr import Agg, Bound, Col, Lit, Op, Ref, Time, User, leaves, walk
from tocsin.plan.points_in_time import ON_THE_WALL
from tocsin.schema import Kind
from tocsin.zones import all_on_the_wall

TEXT_ONLY = {"like", "lower", "upper", "trim", "length", "substr", "concat", "starts_with", "contains", "to_text"}
ON_HOST = {*TEXT_ONLY, ON_THE_WALL}
FEW = 64  # rows for which a look at all of them at once does not pay
ORDERED = {"<", "<=", ">", ">=", "least", "greatest"}


@dataclass(frozen=True, slots=True)
class Derived:
    """Column `name`: the value of `expr` for an event; its Col nodes name the event's own attributes."""

    name: str
    expr: Bound

    @property
    def attrs(self) -> frozenset[str]:
        return frozenset(node.attr for node in walk(self.expr) if isinstance(node, Col))


def derive(block: Block, inline: Callable[[User], bool]) -> tuple[Block, tuple[Derived, ...]]:
    """Replace the parts of predicates that must be derived. `inline` says which user functions a kernel can call."""
    found: dict[Bound, Derived] = {}
    repeated = {leaf.id for each in _blocks(block) for leaf in each.repeated}
    unions = {leaf.id for each in _blocks(block) for leaf in each.leaves if len(leaf.alts) > 1}

    def rewritten(expr: Bound) -> Bound:
        if _must(expr, inline) and _can(expr, repeated):
            key = _anonymous(expr)
            name = found.setdefault(key, Derived(f"${len(found)}", key)).name
            (leaf,) = leaves(expr)
            var = next(node.var for node in walk(expr) if isinstance(node, Col | Time) and node.var is not None)
            before = any(isinstance(node, Col) and node.previous for node in walk(expr))
            column = Col(leaf, var, name, expr.kind, expr.scale, nullable=True, previous=before)
            return _or_else(column, expr) if leaf in unions else column
        return _map(expr, rewritten)

    return _rewrite(block, rewritten), tuple(found.values())


def _or_else(column: Col, expr: Bound) -> Bound:
    """A column of a variable that may be unbound, where nulls need not give null: then the value is a constant."""
    if any(isinstance(node, User) for node in walk(expr)):
        return column
    value = evaluate(expr, _Unbound(), {})
    if value is None:
        return column
    unbound = Op("is_null", (Ref(column.leaf, column.var, nullable=True),), Kind.BOOL, nullable=False)
    return Op("case", (unbound, Lit(value, expr.kind, expr.scale), column), expr.kind, expr.scale)


def native(expr: Bound, inline: Callable[[User], bool]) -> bool:
    """Whether a kernel can compute this node itself (its operands apart)."""
    match expr:
        case User():
            return inline(expr)
        case Op(op, args):
            from_text = bool(args) and args[0].kind is Kind.TEXT
            return op not in ON_HOST and not (op in ("to_int", "to_float") and from_text)
    return True


def _must(expr: Bound, inline: Callable[[User], bool]) -> bool:
    """The kernel cannot do this node itself, or it orders texts (which a kernel can, but at a price)."""
    orders_text = isinstance(expr, Op) and expr.op in ORDERED and expr.args[0].kind is Kind.TEXT
    return orders_text or not native(expr, inline)


def _can(expr: Bound, repeated: set[int]) -> bool:
    """It concerns one event only, and nothing that is known later than the event."""
    nodes = list(walk(expr))
    if any(isinstance(node, Agg | Ref) for node in nodes) or len(leaves(expr)) != 1:
        return False
    if any(isinstance(node, Time) and node.leaf in repeated for node in nodes):
        return False
    if len({node.previous for node in nodes if isinstance(node, Col)}) > 1:  # it concerns two members
        return False
    # two variables of one leaf are alternatives: a row fills only one of them
    return len({node.var for node in nodes if isinstance(node, Col | Time)} - {None}) == 1


def _anonymous(expr: Bound) -> Bound:
    """The expression with its leaf and variable left out, so that equal parts share a column."""
    match expr:
        case Col():
            return replace(expr, leaf=0, var="", previous=False)
        case Time():
            return replace(expr, leaf=0, var=None)
    return _map(expr, _anonymous)


def _map(expr: Bound, function: Callable[[Bound], Bound]) -> Bound:
    match expr:
        case Op(_, args) | User(_, args):
            return replace(expr, args=tuple(function(arg) for arg in args))
        case Agg(_, _, arg) if arg is not None:
            return replace(expr, arg=function(arg))
    return expr


def _blocks(block: Block) -> list[Block]:
    return [block, *(inner for part in block.forbidden for inner in _blocks(part.block))]


def _rewrite(block: Block, rewritten: Callable[[Bound], Bound]) -> Block:
    leaves = tuple(
        replace(leaf, alts=tuple(replace(alt, where=tuple(map(rewritten, alt.where))) for alt in leaf.alts))
        for leaf in block.leaves
    )
    forbidden = tuple(replace(part, block=_rewrite(part.block, rewritten)) for part in block.forbidden)
    return replace(block, leaves=leaves, predicates=tuple(map(rewritten, block.predicates)), forbidden=forbidden)


# --- at run time -------------------------------------------------------------------------------------------------


class _Unbound(Row):
    """A variable that is not bound: all of it is null."""

    def column(self, col: Col) -> Any:  # noqa: ARG002
        return None

    def time(self, time: Time) -> Any:  # noqa: ARG002
        return None


class ItemRow(Row):
    """One row of Items, seen by the evaluator."""

    __slots__ = ("at", "columns", "items", "strings")

    def __init__(self, items: Items, strings: Strings) -> None:
        self.items, self.strings, self.at = items, strings, 0
        self.columns: dict[str, Column] = items.columns

    def column(self, col: Col) -> Any:
        column = self.columns.get(col.attr)
        if column is None or (column.valid is not None and not column.valid[self.at]):
            return None
        value = column.values[self.at]
        if column.kind is Kind.TEXT:
            return self.strings.text(int(value))
        return bool(value) if column.kind is Kind.BOOL else value.item()

    def time(self, time: Time) -> int:
        return int((self.items.start if time.which == "start" else self.items.end)[self.at])


def derived_column(derived: Derived, items: Items, strings: Strings, functions: Mapping[str, Function]) -> Column:
    """The derived column of a batch; a vectorised function of plain columns is called once for all rows."""
    quick = _vectorised(derived, items, strings, functions) or _in_zone(derived, items, strings, functions)
    if quick is not None:
        return quick
    row, seen = ItemRow(items, strings), _cache_key(derived, items)
    known: dict[Any, Any] = {}
    results = []
    for at in range(len(items)):
        row.at = at
        if seen is None:
            results.append(evaluate(derived.expr, row, functions))
            continue
        key = int(seen[at])
        if key not in known:
            known[key] = evaluate(derived.expr, row, functions)
        results.append(known[key])
    return _column(results, derived.expr.kind, derived.expr.scale, strings)


def _cache_key(derived: Derived, items: Items) -> Any:
    """With a single text attribute, equal codes give equal results: evaluate each text once."""
    if any(isinstance(node, Time) for node in walk(derived.expr)) or len(derived.attrs) != 1:
        return None
    column = items.columns.get(next(iter(derived.attrs)))
    return column.values if column is not None and column.kind is Kind.TEXT else None


def _vectorised(derived: Derived, items: Items, strings: Strings, functions: Mapping[str, Function]) -> Column | None:
    """A vectorised function is called once, with the rows that have all its arguments."""
    expr, count = derived.expr, len(items)
    if not isinstance(expr, User) or not functions[expr.name].vectorised:
        return None
    columns = [_argument(arg, items, strings, functions) for arg in expr.args]
    valid = np.ones(count, np.bool_)
    for _, known in columns:
        valid &= True if known is None else known
    if not valid.any():
        return _column([None] * count, expr.kind, expr.scale, strings)
    arrays = [values.view() if valid.all() else np.array(values[valid].tolist()) for values, _ in columns]
    given = functions[expr.name].ask_all(arrays, int(valid.sum()))
    if isinstance(given, np.ndarray):
        whole = np.zeros(count, given.dtype)
        whole[valid] = given
        return Column(expr.kind, whole, valid)
    results: list[Any] = [None] * count
    for at, value in zip(np.flatnonzero(valid).tolist(), given, strict=True):
        results[at] = value
    return _column(results, expr.kind, expr.scale, strings)


def _in_zone(derived: Derived, items: Items, strings: Strings, functions: Mapping[str, Function]) -> Column | None:
    """Times in a zone are found hour by hour, not row by row."""
    match derived.expr:
        case Op(op, (of, Lit(str(zone)))) if op == ON_THE_WALL and len(items) > FEW:
            values, known = _argument(of, items, strings, functions)
            rows = np.ones(len(items), np.bool_) if known is None else known
            shown, valid = np.zeros(len(items), np.int64), np.zeros(len(items), np.bool_)
            shown[rows], valid[rows] = all_on_the_wall(values[rows].astype(np.int64), zone)
            return Column(Kind.TIME, shown, valid)
    return None


def _argument(arg: Bound, items: Items, strings: Strings, functions: Mapping[str, Function]) -> tuple[Any, Any]:
    """The values of an argument for all rows, and which are not null (None: all)."""
    if isinstance(arg, Time):
        return items.start if arg.which == "start" else items.end, None
    plain = items.columns.get(arg.attr) if isinstance(arg, Col) else None
    if plain is not None and plain.kind in (Kind.INT, Kind.FLOAT, Kind.TIME, Kind.BOOL):
        return plain.values.astype(np.bool_) if plain.kind is Kind.BOOL else plain.values, plain.valid
    row, values = ItemRow(items, strings), []
    for at in range(len(items)):
        row.at = at
        values.append(evaluate(arg, row, functions))
    return np.array(values), np.array([value is not None for value in values], np.bool_)


def _column(results: list[Any], kind: Kind, scale: int, strings: Strings) -> Column:
    valid = np.array([value is not None for value in results], np.bool_)
    if kind is Kind.TEXT:
        codes = np.array([strings.code(value) for value in results], np.int64)
        return Column(kind, codes, valid)
    values = [0 if value is None else value for value in results]
    dtype: Any = np.float64 if kind is Kind.FLOAT else np.int64
    return Column(kind, np.array(values, dtype), valid, scale)
