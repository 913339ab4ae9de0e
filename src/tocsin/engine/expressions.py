"""Bound expressions as source text of a kernel.

A predicate passes only if it is TRUE, so logic is written twice: `true(e)` is the condition "e is TRUE" and `false(e)`
the condition "e is FALSE"; neither holds when e is null. Values come as (code, condition that it is not null), where an
empty condition means never null. What needs statements (checked arithmetic, CASE) is emitted before the condition.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeAlias

from tocsin.plan.expr import Agg, Bound, Col, Lit, Op, Reach, Ref, Time, User
from tocsin.schema import Kind

Valued: TypeAlias = tuple[str, str]

COMPARED = {"=": "==", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
OPPOSITE = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
MIRRORED = {"=": "=", "<>": "<>", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
# an integer compared exactly with a float: `way` is what `compare` returned (2 for NaN)
EXACT = {
    "=": "{way} == 0",
    "<>": "({way} == -1 or {way} == 1)",
    "<": "{way} == -1",
    "<=": "({way} == -1 or {way} == 0)",
    ">": "{way} == 1",
    ">=": "({way} == 0 or {way} == 1)",
}
CHECKED = {"+": "add", "-": "subtract", "*": "multiply"}


class Writer:
    """Lines of source text with their indentation, and names that were not used before."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.depth = 0
        self.names = 0

    def emit(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    def fresh(self) -> str:
        self.names += 1
        return f"t{self.names}"

    @contextmanager
    def indented(self) -> Iterator[None]:
        self.depth += 1
        yield
        self.depth -= 1


def both(*conditions: str) -> str:
    """The conjunction of conditions; the empty condition is always true."""
    kept = list(dict.fromkeys(condition for condition in conditions if condition))
    return " and ".join(kept)


class Scribe:
    """Writes expressions. How a name is read in the present place is asked of `names`."""

    def __init__(self, names: Names, writer: Writer, literals: Literals) -> None:
        self.names, self.writer, self.literals = names, writer, literals
        self.emit, self.fresh = writer.emit, writer.fresh

    # --- conditions ---------------------------------------------------------------------------------------------

    def true(self, expr: Bound) -> str:
        """The condition that expr is TRUE, as one Python expression in parentheses where needed."""
        match expr:
            case Lit(value):
                return "True" if value is True else "False"
            case Op("and", args):
                return "(" + " and ".join(self.true(arg) for arg in args) + ")"
            case Op("or", args):
                return "(" + " or ".join(self.true(arg) for arg in args) + ")"
            case Op("not", (arg,)):
                return self.false(arg)
            case Op("is_null", (arg,)):
                return self.is_null(arg)
            case Op(op, (left, right)) if op in COMPARED:
                return self.compared(op, left, right)
            case Op("same", (left, right)):
                return self.same("==", left, right)
        return self.bool_value(expr, "== 1")

    def false(self, expr: Bound) -> str:
        """The condition that expr is FALSE."""
        match expr:
            case Lit(value):
                return "True" if value is False else "False"
            case Op("and", args):
                return "(" + " or ".join(self.false(arg) for arg in args) + ")"
            case Op("or", args):
                return "(" + " and ".join(self.false(arg) for arg in args) + ")"
            case Op("not", (arg,)):
                return self.true(arg)
            case Op("is_null", (arg,)):
                return f"(not {self.is_null(arg)})"
            case Op(op, (left, right)) if op in COMPARED:
                return self.compared(OPPOSITE[op], left, right)
            case Op("same", (left, right)):
                return self.same("!=", left, right)
        return self.bool_value(expr, "== 0")

    def truth(self, expr: Bound) -> tuple[str, str]:
        """The conditions that expr is TRUE and that it is FALSE; what they have in common is computed once.

        Asked one after the other, a nest of comparisons between truths would double with each level.
        """
        match expr:
            case Op("and" | "or" as op, args):
                pairs, other = [self.truth(arg) for arg in args], "or" if op == "and" else "and"
                return f"({f' {op} '.join(yes for yes, _ in pairs)})", f"({f' {other} '.join(no for _, no in pairs)})"
            case Op("not", (arg,)):
                yes, no = self.truth(arg)
                return no, yes
            case Op("is_null", (arg,)):
                null = self.temporary(self.is_null(arg))
                return null, f"(not {null})"
            case Op(op, (left, right)) if op in COMPARED:
                yes, no = self.comparisons((op, OPPOSITE[op]), left, right)
                return yes, no
            case Lit() | Op("same"):
                return self.true(expr), self.false(expr)
        value, known = self.value(expr)
        return f"({both(known, f'{value} == 1')})", f"({both(known, f'{value} == 0')})"

    def bool_value(self, expr: Bound, test: str) -> str:
        value, known = self.value(expr)
        return f"({both(known, f'{value} {test}')})"

    def is_null(self, expr: Bound) -> str:
        if isinstance(expr, Ref):
            known = self.names.bound(expr)
        elif expr.kind is Kind.BOOL and _is_logic(expr):
            yes, no = self.truth(expr)
            return f"(not ({yes} or {no}))"
        else:
            _, known = self.value(expr)
        return f"(not ({known}))" if known else "False"

    def same(self, test: str, left: Bound, right: Bound) -> str:
        assert isinstance(left, Ref) and isinstance(right, Ref)
        x, y = self.names.event(left), self.names.event(right)
        return f"({both(self.names.bound(left), self.names.bound(right), f'{x} {test} {y}')})"

    def compared(self, op: str, left: Bound, right: Bound) -> str:
        """left op right is TRUE."""
        return self.comparisons((op,), left, right)[0]

    def comparisons(self, ops: tuple[str, ...], left: Bound, right: Bound) -> list[str]:
        """left op right is TRUE, for each op. With NaN every comparison is false here, which is what null needs."""
        if Kind.NULL in (left.kind, right.kind):
            return ["False"] * len(ops)
        if left.kind is Kind.FLOAT and right.kind is not Kind.FLOAT:
            left, right, ops = right, left, tuple(MIRRORED[op] for op in ops)
        (x, known_x), (y, known_y) = self.value(left), self.value(right)
        if right.kind is Kind.FLOAT and left.kind is not Kind.FLOAT:
            way = self.temporary(f"compare({x}, {y})")
            tests = [EXACT[op].format(way=way) for op in ops]
        elif left.kind is Kind.TEXT and ops[0] not in (
            "=",
            "<>",
        ):  # an op and its opposite are both of rank, or neither
            tests = [f"RK[{x}] {COMPARED[op]} RK[{y}]" for op in ops]
        else:
            apart = f"({x} < {y} or {x} > {y})"  # of floats: NaN differs from nothing
            floats = left.kind is Kind.FLOAT
            tests = [apart if floats and op == "<>" else f"{x} {COMPARED[op]} {y}" for op in ops]
        return [f"({both(known_x, known_y, test)})" for test in tests]

    # --- values -------------------------------------------------------------------------------------------------

    def value(self, expr: Bound) -> Valued:
        match expr:
            case Lit(None):
                return ("0.0" if expr.kind is Kind.FLOAT else "0"), "False"
            case Lit():
                return self.literals.read(expr), ""
            case Col():
                return self.names.column(expr)
            case Time():
                return self.names.time(expr)
            case Reach():
                return self.names.reach(expr), ""
            case Agg():
                return self.names.aggregate(expr)
            case User():
                return self.user(expr)
            case Op() if expr.kind is Kind.BOOL and _is_logic(expr):
                return self.logic_value(expr)
            case Op():
                return self.operation(expr)
        raise AssertionError(expr)

    def logic_value(self, expr: Op) -> Valued:
        yes, no = (self.temporary(condition) for condition in self.truth(expr))
        return f"(1 if {yes} else 0)", f"({yes} or {no})"

    def operation(self, expr: Op) -> Valued:
        op, real = expr.op, expr.kind is Kind.FLOAT
        if op == "case":
            return self.case(expr)
        if op in ("coalesce", "nullif", "least", "greatest"):
            return self.choice(expr)
        values = [self.value(arg) for arg in expr.args]
        codes, known = [code for code, _ in values], both(*(cond for _, cond in values))
        if op in CHECKED and not real:
            return self.checked(f"{CHECKED[op]}({codes[0]}, {codes[1]})", known)
        if op in CHECKED:
            return self.temporary(f"{codes[0]} {op} {codes[1]}"), known
        if op == "/":
            return self.checked(f"divide({codes[0]}, {codes[1]})", known)
        if op == "%":
            return self.checked(f"modulo{'_float' if real else ''}({codes[0]}, {codes[1]})", known)
        of_text = expr.args[0].kind is Kind.TEXT or op in ("to_text", "concat")
        if len(values) > 1 or of_text:
            return self.names.foreign(expr, values)
        return self.single(expr, codes[0], known)

    def single(self, expr: Op, x: str, known: str) -> Valued:
        op, real, arg = expr.op, expr.kind is Kind.FLOAT, expr.args[0]
        if op in ("neg", "abs"):
            if real:
                return (f"(-{x})" if op == "neg" else f"abs({x})"), known
            return self.checked(f"{'negate' if op == 'neg' else 'absolute'}({x})", known)
        if op in ("floor", "ceil", "round"):
            return (f"{op}_of({x})" if real else x), known
        if op == "sqrt":
            return self.checked(f"root_of({x})", known)
        if op == "to_float":
            scaled = f" / {10.0**arg.scale!r}" if arg.scale else ""
            return f"(float({x}){scaled})", known
        if op == "rescale":
            return self.checked(f"multiply({x}, {10 ** (expr.scale - arg.scale)})", known)
        if op == "to_int" and arg.kind is Kind.FLOAT:
            return self.checked(f"whole_of({x})", known)
        if op == "to_int":
            unit = 10**arg.scale
            return (f"(abs({x}) // {unit} * (1 if {x} >= 0 else -1))" if unit > 1 else x), known
        return self.names.foreign(expr, [(x, known)])

    def case(self, expr: Op) -> Valued:
        """One branch after the other, each only while none has held: an `else` for each would nest too deep."""
        value, known, looking = self.fresh(), self.fresh(), self.fresh()
        zero = "0.0" if expr.kind is Kind.FLOAT else "0"
        self.emit(f"{value} = {zero}")
        self.emit(f"{known} = False")
        self.emit(f"{looking} = True")
        for condition, result in zip(expr.args[0::2], expr.args[1::2], strict=False):
            self.emit(f"if {looking}:")
            with self.writer.indented():
                self.emit(f"if {self.true(condition)}:")
                with self.writer.indented():
                    self.emit(f"{looking} = False")
                    self.assign(value, known, result)
        if len(expr.args) % 2:
            self.emit(f"if {looking}:")
            with self.writer.indented():
                self.assign(value, known, expr.args[-1])
        return value, known

    def assign(self, value: str, known: str, expr: Bound) -> None:
        code, condition = self.value(expr)
        self.emit(f"{value} = {code}")
        self.emit(f"{known} = {condition or 'True'}")

    def choice(self, expr: Op) -> Valued:
        """coalesce, nullif, least, greatest: all operands are computed, then one is chosen."""
        values = [self.value(arg) for arg in expr.args]
        value, known = self.fresh(), self.fresh()
        if expr.op == "coalesce":
            self.emit(f"{value} = {values[-1][0]}")
            self.emit(f"{known} = {values[-1][1] or 'True'}")
            for code, condition in reversed(values[:-1]):
                self.emit(f"if {condition or 'True'}:")
                self.emit(f"    {value} = {code}")
                self.emit(f"    {known} = True")
            return value, known
        (x, known_x) = values[0]
        self.emit(f"{value} = {x}")
        if expr.op == "nullif":
            equal = self.compared("=", *expr.args)
            self.emit(f"{known} = ({known_x or 'True'}) and not {equal}")
            return value, known
        self.emit(f"{known} = {both(*(condition for _, condition in values)) or 'True'}")
        sign = "<" if expr.op == "least" else ">"
        for code, _ in values[1:]:
            nan = f" or {code} != {code}" if expr.kind is Kind.FLOAT else ""
            better = f"RK[{code}] {sign} RK[{value}]" if expr.kind is Kind.TEXT else f"{code} {sign} {value}"
            self.emit(f"if {known} and ({better}{nan}):")
            self.emit(f"    {value} = {code}")
        return value, known

    def user(self, expr: User) -> Valued:
        return self.names.foreign(expr, [self.value(arg) for arg in expr.args])

    def temporary(self, code: str) -> str:
        name = self.fresh()
        self.emit(f"{name} = {code}")
        return name

    def checked(self, call: str, known: str) -> Valued:
        value, fine = self.fresh(), self.fresh()
        self.emit(f"{value}, {fine} = {call}")
        return value, both(known, fine)


def _is_logic(expr: Bound) -> bool:
    return isinstance(expr, Op) and (expr.op in ("and", "or", "not", "is_null", "same") or expr.op in COMPARED)


class Literals:
    """Constants become parameters, so that queries of one shape share one kernel."""

    def __init__(self) -> None:
        self.ints: list[int | str] = [0]  # the window comes first; a text stands for its code
        self.floats: list[float] = []

    def room(self, *, is_float: bool) -> str:
        """Room for a value that is noted while the kernel runs."""
        return self.read(Lit(0.0, Kind.FLOAT) if is_float else Lit(0, Kind.INT))

    def read(self, lit: Lit) -> str:
        if lit.kind is Kind.FLOAT:
            assert isinstance(lit.value, (int, float))
            self.floats.append(float(lit.value))
            return f"LF[{len(self.floats) - 1}]"
        self.ints.append(lit.value if isinstance(lit.value, str) else int(lit.value or 0))
        return f"T[PARAMS + {len(self.ints) - 1}]"


class Names:
    """How names are read in generated code; the code generator implements it."""

    def column(self, col: Col) -> Valued:
        raise NotImplementedError

    def time(self, time: Time) -> Valued:
        raise NotImplementedError

    def reach(self, reach: Reach) -> str:
        raise NotImplementedError

    def aggregate(self, agg: Agg) -> Valued:
        raise NotImplementedError

    def event(self, ref: Ref) -> str:
        raise NotImplementedError

    def bound(self, ref: Ref) -> str:
        raise NotImplementedError

    def foreign(self, expr: Op | User, args: list[Valued]) -> Valued:
        raise NotImplementedError
