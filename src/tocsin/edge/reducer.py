"""A definition of intervals as a program of its own for a device: `edge/device` with the definition in it."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

from tocsin.edge import device
from tocsin.errors import Problem, QueryError
from tocsin.lang.derived_syntax import Intervals, Reading, column_name
from tocsin.lang.syntax import Between, Binary, Call, Expr, In, IsNull, Literal, Name, Unary
from tocsin.plan.bind_derived import bind_intervals
from tocsin.schema import Schema

FIRST, LAST = "# --- the definition ---\n", "# --- end of the definition ---\n"
COMPARED = {"=": "==", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


def reducer_source(given: Intervals, schema: Schema) -> str:
    """The text of the program; a QueryError if a condition is more than comparisons."""
    plan = bind_intervals(given, schema)
    form = plan.derived
    assert form is not None
    told = {
        "name": given.name, "identity": given.identity, "kind": form.kind, "labels": list(form.labels),
        "types": [given.name, *given.labels], "by": list(given.by), "gap": form.gap,
        "until_next": bool(given.states) and not given.end_last, "policy": given.policy,
        "folds": [[column_name(item), *_fold(item.expr)] for item in given.select], "shows_label": bool(given.states),
    }  # fmt: skip
    whole = Path(device.__file__).read_text(encoding="utf-8")
    head, rest = whole.split(FIRST)
    _, tail = rest.split(LAST)
    body = [f"    {line}" for line in _Writer(given).lines()]
    written = [
        f"DEFINITION: Item = json.loads({json.dumps(json.dumps(told))})", "", "", "def roles_of(reading: Item) -> int:",
        '    """What a reading is: the number of its state or -1, 1 begins + 2 ends, -2 nothing."""', *body, "", "", "",
    ]  # fmt: skip
    definition = "\n".join(written)
    return head + FIRST + definition + LAST + tail


def _fold(expr: Expr) -> tuple[str, str | None]:
    assert isinstance(expr, Call)
    names = [arg.name for arg in expr.args if isinstance(arg, Name)]
    return expr.function, names[0] if names else None


class _Writer:
    """Writes the conditions as Python: a test is TRUE or FALSE, and neither where it is null."""

    def __init__(self, given: Intervals) -> None:
        self.given = given

    def lines(self) -> list[str]:
        given = self.given
        if given.ends:
            begins, ends = (self._any(readings) for readings in (given.readings, given.ends))
            return [f"return (1 if {begins} else 0) + (2 if {ends} else 0) or -2"]
        found = [f"if not {self._any(given.readings)}:", "    return -2"]
        for number, state in enumerate(given.states):
            found += [f"if {self.true(state.when)}:", f"    return {number}"]
        return [*found, "return -1" if given.states else "return 0"]

    def _any(self, readings: tuple[Reading, ...]) -> str:
        tests = [f"reading.get('type') == {each.type!r}" for each in readings]
        whole = [
            test if each.where is None else f"({test} and {self.true(each.where)})"
            for test, each in zip(tests, readings, strict=True)
        ]
        return f"({' or '.join(whole)})"

    def true(self, expr: Expr) -> str:
        """The test that an expression is TRUE."""
        return self._told(expr, wanted=True)

    def _told(self, expr: Expr, *, wanted: bool) -> str:
        match expr:
            case Literal(bool() as value):
                return str(value is wanted)
            case Literal(None):
                return "False"
            case Name():
                return f"({self._value(expr)} is {wanted})"
            case Unary("NOT", operand):
                return self._told(operand, wanted=not wanted)
            case Binary("AND" | "OR" as op, left, right):
                both = (op == "AND") is wanted
                sides = (self._told(side, wanted=wanted) for side in (left, right))
                return f"({(' and ' if both else ' or ').join(sides)})"
            case Binary(op, left, right) if op in COMPARED:
                return self._compared(op, left, right, wanted=wanted)
            case Between(operand, low, high, negated):
                inside = Binary("AND", Binary(">=", operand, low), Binary("<=", operand, high))
                return self._told(inside, wanted=wanted is not negated)
            case In(operand, options, negated):
                tests: Expr = Binary("=", operand, options[0])
                for option in options[1:]:
                    tests = Binary("OR", tests, Binary("=", operand, option))
                return self._told(tests, wanted=wanted is not negated)
            case IsNull(operand, negated):
                null = wanted is not negated
                return f"({self._value(operand)} is {'' if null else 'not '}None)"
        raise self._refused(expr)

    def _compared(self, op: str, left: Expr, right: Expr, *, wanted: bool) -> str:
        sides = [self._value(side) for side in (left, right)]
        known = [
            f"{text} is not None" for side, text in zip((left, right), sides, strict=True) if isinstance(side, Name)
        ]
        test = f"{sides[0]} {COMPARED[op]} {sides[1]}"
        return f"({' and '.join([*known, test if wanted else f'not {test}'])})"

    def _value(self, expr: Expr) -> str:
        match expr:
            case Name(name):
                return f"reading.get({name!r})"
            case Literal(Decimal() as value):
                return repr(float(value))
            case Literal(value) if value is not None:
                return repr(value)
            case Unary("-", Literal(int() | Decimal() as value)) if not isinstance(value, bool):
                return f"-{float(value) if isinstance(value, Decimal) else value!r}"
        raise self._refused(expr)

    def _refused(self, expr: Expr) -> QueryError:
        problem = Problem(
            "a reducer asks comparisons of attributes with constants or each other, and nothing else",
            expr.span,
            hint="joined by AND, OR, NOT, IN, BETWEEN, IS NULL; or derive these intervals where the readings arrive",
        )
        return QueryError([problem], replace(self.given).text)
