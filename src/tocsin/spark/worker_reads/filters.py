"""Filter rows in Arrow exactly as Catalyst would, for workers that read files themselves.

Only tests that both say exactly are here: an attribute or a time compared with a constant, joined by AND, OR and NOT.
Which rows reach a shard decides which late rows are reported, so a worker must not be stricter or laxer than Catalyst.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.encode.arrow import is_instant, marks
from tocsin.encode.times import micros
from tocsin.items import Bools
from tocsin.plan.block import Plan
from tocsin.plan.expr import Bound, Col, Lit, Op, Time
from tocsin.plan.rewrite import all_blocks
from tocsin.schema import Kind
from tocsin.spark.expressions import Sources, as_column, implied, sees_all, unary

COMPARED: dict[str, Any] = {
    "=": pc.equal, "<>": pc.not_equal, "<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal,
}  # fmt: skip
MIRRORED = {"=": "=", "<>": "<>", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
WHOLE_KINDS = (Kind.INT, Kind.TIME)
EXACT_FLOAT = 2**53  # whole numbers up to here are floats

Test: TypeAlias = tuple[Bound, ...]  # all of them must be true


class Unsayable(Exception):  # noqa: N818 - no error: Spark reads the files then
    """A test that workers cannot make exactly as Catalyst does."""


def row_tests(type: str, plans: Iterable[Plan], field: Sources, ends: Sources) -> tuple[Test, ...] | None:
    """The tests of which a row of this type must pass one; None if every row may be needed.

    Equal to the filter that `expressions.row_filter` builds for Catalyst; raises Unsayable where that is not sure.
    """
    plans, found = list(plans), list[Test]()
    if any(sees_all(plan, type) for plan in plans):
        return None
    for plan, block in ((each, block) for each in plans for block in all_blocks(each)):
        for leaf in block.leaves:
            for alt in leaf.alts:
                if not plan.schema.takes(alt.type, type):
                    continue
                asked = (*alt.where, *unary(block, leaf))
                pushed = tuple(test for test in asked if implied(test, field, ends, alt.var) is not None)
                if not pushed:
                    return None
                for test in pushed:
                    if as_column(test, field, ends, alt.var) is None or not _sayable(test, alt.var):
                        raise Unsayable
                found.append(pushed)
    return tuple(found)


def _sayable(expr: Bound, var: str) -> bool:
    match expr:
        case Lit(value, Kind.BOOL):
            return value is not None
        case Op("and" | "or" | "not", args):
            return all(_sayable(arg, var) for arg in args)
        case Op("is_null", (Col() | Time() as arg,)):
            return _readable(arg, var)
        case Op(op, (left, right)) if op in COMPARED:
            column, constant = (left, right) if isinstance(right, Lit) else (right, left)
            return isinstance(constant, Lit) and _readable(column, var) and _comparable(op, column, constant)
        case Col():
            return expr.kind is Kind.BOOL and _readable(expr, var)
    return False


def _readable(expr: Bound, var: str) -> bool:
    kinds = (Kind.INT, Kind.FLOAT, Kind.TEXT, Kind.BOOL, Kind.TIME)
    return isinstance(expr, Col | Time) and expr.kind in kinds and expr.var in (None, var)


def _comparable(op: str, column: Bound, constant: Lit) -> bool:
    value = constant.value
    if isinstance(value, float) and not math.isfinite(value):
        return False
    match column.kind, constant.kind:
        case (Kind.TEXT, Kind.TEXT):
            return op in ("=", "<>")  # the order of texts is another matter
        case (Kind.BOOL, Kind.BOOL):
            return op in ("=", "<>")
        case (Kind.FLOAT, Kind.FLOAT):
            return True
        case (Kind.FLOAT, Kind.INT):
            return isinstance(value, int) and abs(value) <= EXACT_FLOAT
        case (Kind.INT, Kind.FLOAT):
            return isinstance(value, float) and value.is_integer() and abs(value) <= EXACT_FLOAT
    return column.kind in WHOLE_KINDS and constant.kind in WHOLE_KINDS


# --- in the worker -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TimedBatch:
    """A batch of rows, and the columns that hold start and end."""

    batch: pa.RecordBatch
    times: Mapping[str, str]  # the columns of "start" and "end"

    def passing(self, tests: Iterable[Test]) -> Bools:
        """The rows that pass one of the tests."""
        found = np.zeros(self.batch.num_rows, np.bool_)
        for test in tests:
            passed = np.ones(self.batch.num_rows, np.bool_)
            for part in test:
                passed &= marks(pc.fill_null(self._truth(part), False))
            found |= passed
        return found

    def _truth(self, expr: Bound) -> pa.Array:
        """TRUE, FALSE or null for each row."""
        match expr:
            case Lit(value):
                return pa.repeat(pa.scalar(value, pa.bool_()), self.batch.num_rows)
            case Op("and", args):
                return self._joined(pc.and_kleene, args)
            case Op("or", args):
                return self._joined(pc.or_kleene, args)
            case Op("not", (arg,)):
                return pc.invert(self._truth(arg))
            case Op("is_null", (Col() | Time() as arg,)):
                return pc.is_null(self._values(arg))
            case Op(op, (left, right)):
                return self._compared(op, left, right)
            case Col():
                return self._values(expr)
        raise AssertionError(expr)

    def _joined(self, how: Any, args: tuple[Bound, ...]) -> pa.Array:
        found = self._truth(args[0])
        for arg in args[1:]:
            found = how(found, self._truth(arg))
        return found

    def _compared(self, op: str, left: Bound, right: Bound) -> pa.Array:
        if isinstance(left, Lit):
            op, left, right = MIRRORED[op], right, left
        assert isinstance(right, Lit)
        values, constant = self._values(left), right.value
        if pa.types.is_floating(values.type):  # NaN is unlike everything: neither TRUE nor FALSE
            values = pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)
            constant = float(constant)  # type: ignore[arg-type]
        elif isinstance(constant, float):
            constant = int(constant)
        return COMPARED[op](values, pa.scalar(constant, values.type))

    def _values(self, expr: Bound) -> pa.Array:
        name = self.times[expr.which] if isinstance(expr, Time) else expr.attr  # type: ignore[union-attr]
        array = self.batch.column(name)
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        if is_instant(array.type):
            return pa.array(micros(array)[0], pa.int64(), mask=marks(pc.is_null(array)))
        if pa.types.is_integer(array.type):
            return array.cast(pa.int64())
        return array.cast(pa.float64()) if pa.types.is_floating(array.type) else array
