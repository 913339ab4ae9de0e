"""Bound expressions: every name is resolved to a leaf, every node knows its kind.

These are what predicates in blocks are made of; the code generator, the evaluator for SELECT and derived columns, and
`explain` read them. Nodes are frozen; `kind`, `scale` and `nullable` are settled by the binder.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from tocsin.schema import Kind


@dataclass(frozen=True, slots=True)
class Lit:
    """A constant, already in kernel form: decimals as scaled int, NULL as value None and kind NULL."""

    value: bool | int | float | str | None
    kind: Kind
    scale: int = 0

    @property
    def nullable(self) -> bool:
        return self.value is None


@dataclass(frozen=True, slots=True)
class Col:
    """`var.attr`. In a leaf with several alternatives it is null when another alternative is bound.

    `previous`: of the member before, in a condition that is asked of each step between two members.
    """

    leaf: int
    var: str
    attr: str
    kind: Kind
    scale: int = 0
    nullable: bool = True
    previous: bool = False


@dataclass(frozen=True, slots=True)
class Time:
    """start(var) or end(var) of one leaf; `var` matters only in a leaf with several alternatives (then nullable).

    `var` is None where the time is meant whatever alternative is bound (order constraints written as predicates).
    Of a repeated leaf: min start or max end of its members.
    """

    leaf: int
    which: str  # "start" | "end"
    var: str | None = None
    nullable: bool = False
    kind: Kind = Kind.INT
    scale: int = 0


@dataclass(frozen=True, slots=True)
class Reach:
    """min start ("start") or max end ("end") over several leaves: an end of the span of a composite part."""

    leaves: tuple[int, ...]
    which: str
    kind: Kind = Kind.INT
    scale: int = 0
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class Ref:
    """A variable as an event; only below `same` and `bound` operations. Null when another alternative is bound."""

    leaf: int
    var: str
    nullable: bool = False
    kind: Kind = Kind.INT
    scale: int = 0


@dataclass(frozen=True, slots=True)
class Agg:
    """An aggregate over the members of a repeated leaf. `arg` uses that leaf only; None for count(b).

    `[]` is the value of one member, whose `place` is counted from 1, or from the end by -1. `steps` is TRUE if `arg` is
    TRUE for every member but the first; there it may use fixed leaves, too, and `previous` columns.
    """

    function: str
    leaf: int
    arg: Bound | None
    kind: Kind
    scale: int = 0
    nullable: bool = True
    place: int = 0


@dataclass(frozen=True, slots=True)
class Op:
    """An operation or function.

    op: and or not; = <> < <= > >= (operands of comparable kinds, decimals brought to one scale);
    + - * / % neg; same (identity of two Ref); is_null (one operand, may be a Ref); like; case (c1 v1 c2 v2 ... [else]);
    to_float, to_int, to_text, rescale (decimal to `scale` of this node); and the functions of docs/expressions.md:
    abs floor ceil round sqrt least greatest coalesce nullif lower upper trim length substr concat starts_with contains;
    on_the_wall (a point in time in a named zone).
    IN and BETWEEN are already opened into or / and. Operands of arithmetic and comparison have one common kind, except
    that a comparison may mix int and float (exact).
    """

    op: str
    args: tuple[Bound, ...]
    kind: Kind
    scale: int = 0
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class User:
    """A call of a registered Python function."""

    name: str
    args: tuple[Bound, ...]
    kind: Kind
    scale: int = 0
    nullable: bool = True


Bound: TypeAlias = "Lit | Col | Time | Reach | Ref | Agg | Op | User"


def below(expr: Bound) -> tuple[Bound, ...]:
    """The operands directly below an expression."""
    match expr:
        case Op(_, args) | User(_, args):
            return args
        case Agg(_, _, arg):
            return () if arg is None else (arg,)
    return ()


def walk(expr: Bound) -> Iterator[Bound]:
    yield expr
    for operand in below(expr):
        yield from walk(operand)


def leaves(expr: Bound) -> frozenset[int]:
    """The leaves an expression mentions, inside aggregates too."""
    found: set[int] = set()
    for node in walk(expr):
        match node:
            case Col(leaf) | Time(leaf) | Ref(leaf) | Agg(_, leaf):
                found.add(leaf)
            case Reach(several):
                found.update(several)
    return frozenset(found)


def given(value: Bound) -> Bound:
    """TRUE where a value is neither null nor NaN: where it can be equal to anything at all."""
    if value.kind is Kind.NULL:
        return Lit(False, Kind.BOOL)
    if value.kind is Kind.FLOAT:
        return Op("=", (value, value), Kind.BOOL)
    if not value.nullable:
        return Lit(True, Kind.BOOL)
    return Op("not", (Op("is_null", (value,), Kind.BOOL, nullable=False),), Kind.BOOL, nullable=False)


def bare_leaves(expr: Bound) -> frozenset[int]:
    """The leaves an expression mentions outside aggregates and outside start()/end(), where a member is meant."""
    match expr:
        case Agg() | Time() | Reach():
            return frozenset()
        case Col(leaf) | Ref(leaf):
            return frozenset((leaf,))
    return frozenset().union(*(bare_leaves(operand) for operand in below(expr)))
