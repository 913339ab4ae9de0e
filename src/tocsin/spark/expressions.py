"""Bound expressions as Spark Columns: what can be said in Catalyst exactly as docs/expressions.md means it.

Two translations, as in the kernels. A *value* is a Column with the same value on every row, null included: int, time
and decimal are bigint (decimals unscaled), float is double. A *condition* is a Column that is TRUE on exactly the rows
where the expression is TRUE (or is FALSE, if that is asked); elsewhere it may be FALSE or NULL. So a condition is never
negated: NOT asks for FALSE instead, which is how NaN stays out (to Spark, NaN equals itself and exceeds everything).

Nothing here can raise in ANSI mode, and nothing depends on the session's time zone, collation or locale. What Spark
cannot say, or would say otherwise, raises `_Unsure` inside and is not pushed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeAlias

from pyspark.sql import Column
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from tocsin.events import ANY
from tocsin.plan.block import Alt, Block, Leaf, Plan
from tocsin.plan.expr import Bound, Col, Lit, Op, Ref, Time
from tocsin.plan.facts import constrained
from tocsin.plan.kinds import as_written
from tocsin.plan.rewrite import all_blocks
from tocsin.plan.typer import only_leaf, whole_set
from tocsin.schema import EID, TYPE, Kind


@dataclass(frozen=True, slots=True)
class FrameColumn:
    """An attribute, or a time of the row, as the frame has it: the column and its Spark type."""

    column: Column
    type: st.DataType


Sources: TypeAlias = Callable[[str], "FrameColumn | None"]  # None: nothing is known about it, so it is not pushed


def columns_of(schema: st.StructType, names: dict[str, str] | None = None) -> Sources:
    """The columns of a frame by name; `names` gives attributes (or "start", "end") that are called otherwise there.

    Eids and types are not among them: a frame may have columns of these names that are something else.
    """
    fields = {field.name: field for field in schema.fields}

    def source(name: str) -> FrameColumn | None:
        field = fields.get((names or {}).get(name, name))
        if field is None or name in (EID, TYPE) or _padded(field):
            return None
        return FrameColumn(sf.col(quoted(field.name)), field.dataType)

    return source


def quoted(name: str) -> str:
    """A column name for `col`, whatever dots and back-quotes it holds."""
    return "`" + name.replace("`", "``") + "`"


def _padded(field: st.StructField) -> bool:
    """CHAR(n) of a table: Spark pads the constants that it is compared with, we do not."""
    return str(field.metadata.get("__CHAR_VARCHAR_TYPE_STRING", "")).lower().startswith("char")


def as_column(expr: Bound, field: Sources, ends: Sources | None = None, var: str | None = None) -> Column | None:
    """A Column that is TRUE on exactly the rows where `expr` is TRUE; None if Spark has no such Column.

    Only truth is kept: where `expr` is FALSE or null the Column may be either, so it may be joined with AND and OR but
    never negated. `field` finds attributes, `ends` the row's "start" and "end". `var` is the variable that the row
    stands for; other variables of its leaf are null then. Without it, every variable is the row.
    """
    try:
        return _Exact(field, ends, var).condition(expr, True)
    except _Unsure:
        return None


def implied(expr: Bound, field: Sources, ends: Sources | None = None, var: str | None = None) -> Column | None:
    """A Column that is TRUE wherever `expr` is, and perhaps elsewhere: enough for a filter before the real test."""
    try:
        return _needed(expr, True, lambda doubts: _Exact(field, ends, var, doubts))
    except _Unsure:
        return None


def row_filter(type: str, plans: Iterable[Plan], field: Sources, ends: Sources | None = None) -> Column | None:
    """The rows of a type that some leaf of some plan may take, forbidden blocks included; None if that is every row.

    It lets through every row that matters, and perhaps others: a part that Spark cannot say is left out, where that
    only weakens the test.
    """
    plans, taken = list(plans), list[Column]()
    if any(sees_all(plan, type) for plan in plans):
        return None
    for plan, block in ((each, block) for each in plans for block in all_blocks(each)):
        for leaf in block.leaves:
            for alt in leaf.alts:
                if plan.schema.takes(alt.type, type):
                    test = alt_filter(alt, unary(block, leaf), field, ends)
                    if test is None:
                        return None
                    taken.append(test)
    return _joined("or", taken) if taken else sf.lit(False)


def sees_all(plan: Plan, type: str) -> bool:
    """Whether a plan must see every event of a type, whatever its leaves ask: constraints do."""
    seen = constrained(plan)
    return type in seen or ANY in seen


def alt_filter(alt: Alt, also: Sequence[Bound], field: Sources, ends: Sources | None = None) -> Column | None:
    """The rows that may be `alt` and make every predicate of `also` TRUE; None if nothing of it can be pushed."""
    tests = [implied(predicate, field, ends, alt.var) for predicate in (*alt.where, *also)]
    pushed = [test for test in tests if test is not None]
    return _joined("and", pushed) if pushed else None


def unary(block: Block, leaf: Leaf) -> list[Bound]:
    """Predicates of a block that a row at this leaf decides alone."""
    repeated = frozenset(each.id for each in block.repeated)
    return [test for test in block.predicates if only_leaf(test) == leaf.id and not whole_set(test, repeated)]


# --- conditions that may be weaker ---------------------------------------------------------------------------------


class _Unsure(Exception):  # noqa: N818  not an error: this part is simply not pushed
    """Spark cannot say this, or would say something else."""


def _needed(expr: Bound, truth: bool, exact: Callable[[list[Column]], _Exact]) -> Column:
    """A Column that is TRUE wherever `expr` is `truth`: in a conjunction, parts that Spark cannot say are left out.

    A part whose value is in doubt on some rows (lower of text that is not ASCII) lets those rows through.
    """
    match expr:
        case Op("not", (arg,)):
            return _needed(arg, not truth, exact)
        case Op("and" | "or" as op, args) if _options(expr) is None and (op == "and") == truth:
            kept: list[Column] = []
            for arg in args:
                try:
                    kept.append(_needed(arg, truth, exact))
                except _Unsure:
                    continue
            if not kept:
                raise _Unsure
            return _joined("and", kept)
        case Op("or" | "and", args) if _options(expr) is None:
            return _joined("or", [_needed(arg, truth, exact) for arg in args])
    doubts: list[Column] = []
    test = exact(doubts).condition(expr, truth)
    return _joined("or", [test, *doubts])


def _joined(op: str, tests: Sequence[Column]) -> Column:
    """Tests joined as a balanced tree: Catalyst recurses, and a list of thousands would be too deep."""
    if len(tests) == 1:
        return tests[0]
    half = len(tests) // 2
    left, right = _joined(op, tests[:half]), _joined(op, tests[half:])
    return left & right if op == "and" else left | right


# --- the exact translation -----------------------------------------------------------------------------------------

COMPARED: dict[str, Callable[[Column, Column], Column]] = {
    "=": lambda x, y: x == y,
    "<>": lambda x, y: x != y,
    "<": lambda x, y: x < y,
    "<=": lambda x, y: x <= y,
    ">": lambda x, y: x > y,
    ">=": lambda x, y: x >= y,
}
OPPOSITE = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
MIRRORED = {"=": "=", "<>": "<>", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
SPARK_TYPE = {Kind.FLOAT: "double", Kind.TEXT: "string", Kind.BOOL: "boolean"}  # all others: bigint
WHOLE_TYPES = (st.ByteType, st.ShortType, st.IntegerType, st.LongType)
CHECKED = {"+": sf.try_add, "-": sf.try_subtract, "*": sf.try_multiply}  # null where 64 bits do not suffice
LOGIC = {"and", "or", "not", "is_null", *COMPARED}
INT64_LIMIT = 2.0**63
INT_LOW, INT_HIGH = -(2**63), 2**63 - 1
INT32_HIGH = 2**31 - 1
MICROS_PER_DAY = 86_400_000_000
SPARK_DECIMAL_DIGITS = 38  # of a Spark decimal
MOST_NODES = 2_000  # a larger expression costs more in the planner than it saves
WHOLE_TEXT = r"^[+-]?[0-9]{1,30}\z"
FLOAT_TEXT = r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?\z"  # Python and Java read these alike


class _Exact:
    """Translates one expression. With `doubts`, a value may be wrong on rows for which a test is noted there."""

    def __init__(
        self, field: Sources, ends: Sources | None, var: str | None = None, doubts: list[Column] | None = None
    ) -> None:
        self.field, self.ends, self.var, self.doubts = field, ends, var, doubts
        self.nodes = 0

    def counted(self, nodes: int = 1) -> None:
        self.nodes += nodes
        if self.nodes > MOST_NODES:
            raise _Unsure

    # --- conditions ---------------------------------------------------------------------------------------------

    def condition(self, expr: Bound, truth: bool) -> Column:
        """TRUE on exactly the rows where `expr` is `truth`."""
        self.counted()
        match expr:
            case Lit(value):
                return sf.lit(value is truth)
            case Op("and" | "or" as op, args):
                chosen = _options(expr)
                if chosen is not None:
                    return self.one_of(*chosen, truth)
                return _joined("and" if (op == "and") == truth else "or", [self.condition(arg, truth) for arg in args])
            case Op("not", (arg,)):
                return self.condition(arg, not truth)
            case Op("is_null", (arg,)):
                return self.is_null(arg, truth)
            case Op("case") if (plain := as_written(expr)) is not expr:
                test = self.decimals(plain if truth else _opposite(plain))
                return self.truth_value(expr, truth) if test is None else test
            case Op(op, (left, right)) if op in COMPARED:
                return self.compared(op if truth else OPPOSITE[op], left, right)
        return self.truth_value(expr, truth)

    def truth_value(self, expr: Bound, truth: bool) -> Column:
        value = self.value(expr)
        return value if truth else ~value

    def is_null(self, arg: Bound, truth: bool) -> Column:
        if isinstance(arg, Ref):
            return sf.lit((not self.own(arg.var)) is truth)
        value = self.value(arg)
        return value.isNull() if truth else value.isNotNull()

    def one_of(self, col: Col, options: list[Lit], truth: bool) -> Column:
        """A chain of `=` with constants. NOT IN is null for a null operand alone, since no option is null."""
        self.counted(len(options) // 10)  # a constant is cheap
        if any(_halved(option.value) for option in options):
            raise _Unsure
        found = self.value(col).isin([option.value for option in options])
        return found if truth else ~found

    def compared(self, op: str, left: Bound, right: Bound) -> Column:
        """left op right is TRUE."""
        kinds = {left.kind, right.kind}
        if Kind.NULL in kinds:
            return sf.lit(False)
        if isinstance(left, Lit) and not isinstance(right, Lit):
            op, left, right = MIRRORED[op], right, left
        if kinds == {Kind.FLOAT}:
            return self.floats(op, left, right)
        if Kind.FLOAT in kinds:
            return self.mixed(op, left, right)
        if Kind.DECIMAL in kinds and (test := self.decimals(Op(op, (left, right), Kind.BOOL))) is not None:
            return test
        if (instant := self.instant(left)) is not None and isinstance(right, Lit):
            return COMPARED[op](instant, sf.timestamp_micros(self.value(right)))
        return COMPARED[op](self.value(left), self.value(right))

    def instant(self, expr: Bound) -> Column | None:
        """A timestamp column as it is: compared with a constant instant, it can be skipped by statistics of files."""
        source = self.source(expr) if isinstance(expr, Time) or expr.kind is Kind.TIME else None
        return source.column if source is not None and isinstance(source.type, st.TimestampType) else None

    # --- comparisons with floats ----------------------------------------------------------------------------------

    def floats(self, op: str, left: Bound, right: Bound) -> Column:
        x = self.value(left)
        if isinstance(right, Lit):
            assert isinstance(right.value, float | int)
            return _against(op, x, float(right.value))
        y = self.value(right)
        test = COMPARED[op](x, y)
        if op in (">", ">=", "=", "<>"):  # NaN on the other side alone makes these FALSE in Spark too, except <>
            test &= ~sf.isnan(x)
        if op in ("<", "<=", "<>"):
            test &= ~sf.isnan(y)
        return test

    def mixed(self, op: str, left: Bound, right: Bound) -> Column:
        """A whole number against a float, exactly."""
        match left, right:
            case _, Lit(float(value)):
                return self.whole_against(op, self.value(left), value)
            case _, Lit(int(value)):
                return _float_against(op, self.value(left), value)
        if left.kind is Kind.FLOAT:
            op, left, right = MIRRORED[op], right, left
        return _exactly(op, self.value(left), self.value(right))

    def whole_against(self, op: str, x: Column, value: float) -> Column:
        if value != value:
            return sf.lit(False)
        if abs(value) >= INT64_LIMIT and value != -INT64_LIMIT:  # beyond every whole number
            return x.isNotNull() if op in (("<", "<=", "<>") if value > 0 else (">", ">=", "<>")) else sf.lit(False)
        low = math.floor(value)
        if low == value:
            return COMPARED[op](x, _bigint(low))
        if op in ("=", "<>"):
            return x.isNotNull() if op == "<>" else sf.lit(False)
        return x <= _bigint(low) if op in ("<", "<=") else x > _bigint(low)

    # --- comparisons of decimals ----------------------------------------------------------------------------------

    def decimals(self, expr: Op) -> Column | None:
        """A comparison of plain decimals and whole numbers, where Spark has digits enough to be exact."""
        left, right = (_unscaled_up(side) for side in expr.args)
        shape_x, shape_y = self.shape(left), self.shape(right)
        if shape_x is None or shape_y is None:
            return None
        if max(shape_x[0], shape_y[0]) + max(shape_x[1], shape_y[1]) > SPARK_DECIMAL_DIGITS:
            return None
        return COMPARED[expr.op](self.number(left, shape_y), self.number(right, shape_x))

    def shape(self, expr: Bound) -> tuple[int, int] | None:
        """Digits before and after the point that a plain number may have; None if it is not plain."""
        match expr:
            case Lit(int(value), Kind.INT | Kind.TIME | Kind.DECIMAL, scale):
                return max(len(str(abs(value))) - scale, 1), scale
            case Col() if self.own(expr.var) and (source := self.field(expr.attr)) is not None:
                if isinstance(source.type, st.DecimalType):
                    return source.type.precision - source.type.scale, source.type.scale
                return (20, 0) if isinstance(source.type, WHOLE_TYPES) else None
        return None

    def number(self, expr: Bound, other: tuple[int, int]) -> Column:
        """A plain number as a Spark decimal or bigint; a constant in the type of the other side if that holds it."""
        match expr:
            case Lit(int(value), _, scale):
                whole, places = self.shape(expr) or (0, 0)
                whole, places = max(whole, other[0]), max(places, other[1])
                exact = Decimal(value).scaleb(-scale)
                return sf.lit(exact).cast(st.DecimalType(whole + places, places))
            case Col():
                source = self.field(expr.attr)
                assert source is not None
                return source.column if isinstance(source.type, st.DecimalType) else source.column.cast("bigint")
        raise AssertionError(expr)

    # --- values -------------------------------------------------------------------------------------------------

    def value(self, expr: Bound) -> Column:
        """Translate to a Column that has the value of `expr` on every row, null included."""
        self.counted()
        match expr:
            case Lit():
                return _constant(expr)
            case Col(_, var) if not self.own(var):
                return sf.lit(None).cast(SPARK_TYPE.get(expr.kind, "bigint"))
            case Time(_, _, var) if not self.own(var):
                return sf.lit(None).cast("bigint")
            case Col() | Time():
                return self.read(expr)
            case Op(op) if op in LOGIC:
                yes, no = self.condition(expr, True), self.condition(expr, False)
                return sf.when(yes, sf.lit(True)).when(no, sf.lit(False))
            case Op("case", args):
                return self.case(args)
            case Op(op, args) if op in OPERATIONS:
                return OPERATIONS[op](self, expr, *(self.value(arg) for arg in args))
        raise _Unsure

    def own(self, var: str | None) -> bool:
        return self.var is None or var is None or var == self.var

    def source(self, expr: Bound) -> FrameColumn | None:
        match expr:
            case Col(_, var, attr) if self.own(var):
                return self.field(attr)
            case Time(_, which, var) if self.own(var):
                return self.ends(which) if self.ends is not None else None
        return None

    def read(self, expr: Col | Time) -> Column:
        source = self.source(expr)
        if source is None:
            raise _Unsure
        if isinstance(expr, Time) or expr.kind is Kind.TIME:
            return _sure(ticks(source))
        match expr.kind, source.type:
            case Kind.INT, st.ByteType() | st.ShortType() | st.IntegerType() | st.LongType():
                return source.column.cast("bigint")
            case Kind.FLOAT, st.FloatType() | st.DoubleType():
                return source.column.cast("double")
            case Kind.DECIMAL, st.DecimalType():
                return _unscaled(source.column, source.type, expr.scale)
            case Kind.TEXT, st.StringType() if source.type.isUTF8BinaryCollation():
                return source.column
            case Kind.BOOL, st.BooleanType():
                return source.column
        raise _Unsure

    def case(self, args: tuple[Bound, ...]) -> Column:
        chosen: Column | None = None
        for condition, result in zip(args[0::2], args[1::2], strict=False):
            test, value = self.condition(condition, True), self.value(result)
            chosen = sf.when(test, value) if chosen is None else chosen.when(test, value)
        assert chosen is not None
        return chosen.otherwise(self.value(args[-1])) if len(args) % 2 else chosen

    def doubtful(self, value: Column, doubt: Column) -> Column:
        """A value that may be wrong where `doubt` is TRUE: of use only to a test that may let rows through."""
        if self.doubts is None:
            raise _Unsure
        self.doubts.append(doubt)
        return value


def _options(expr: Bound) -> tuple[Col, list[Lit]] | None:
    """The column and the constants of `x IN (...)`, of whole numbers or texts (floats: see `_against`)."""
    match expr:
        case Op("or", (Op("=", (Col() as col, Lit())), *_) as tests) if col.kind in (Kind.INT, Kind.TEXT):
            options: list[Lit] = []
            for test in tests:
                match test:
                    case Op("=", (left, Lit() as option)) if left == col and option.kind is col.kind:
                        options.append(option)
                    case _:
                        return None
            return col, options
    return None


def _opposite(expr: Op) -> Op:
    return Op(OPPOSITE[expr.op], expr.args, expr.kind)


def _unscaled_up(expr: Bound) -> Bound:
    """What is brought to a larger scale only for comparison, as the number it is."""
    match expr:
        case Op("rescale", (arg,)):
            return arg
    return expr


# --- reading columns ---------------------------------------------------------------------------------------------


def _bigint(value: int) -> Column:
    return sf.lit(value).cast("bigint")


def _halved(value: object) -> bool:
    """A text with half a character (a lone surrogate), which no Spark text can hold."""
    return isinstance(value, str) and any("\ud800" <= letter <= "\udfff" for letter in value)


def _constant(lit: Lit) -> Column:
    match lit.value:
        case None:
            return sf.lit(None)
        case bool() as value:
            return sf.lit(value)
        case int() as value if lit.kind is not Kind.FLOAT:
            return _bigint(value)
        case str() as value if _halved(value):
            raise _Unsure
        case str() as value:
            return sf.lit(value)
    return sf.lit(float(lit.value))


def ticks(source: FrameColumn) -> Column | None:
    """A time as whole ticks, microseconds of instants; None for texts, whose meaning a whole column decides."""
    column = source.column
    match source.type:
        case st.TimestampType():
            return sf.unix_micros(column)
        case st.TimestampNTZType():
            # field by field: functions of instants read it in the session's time zone, where hours may be missing
            day = sf.unix_date(column.cast("date")).cast("bigint")
            minutes = (sf.hour(column) * 60 + sf.minute(column)).cast("bigint")
            seconds = (sf.extract(sf.lit("SECOND"), column) * 1_000_000).cast("bigint")
            return sf.try_add(sf.try_multiply(day, _bigint(MICROS_PER_DAY)), minutes * _bigint(60_000_000) + seconds)
        case st.DateType():
            return sf.try_multiply(sf.unix_date(column).cast("bigint"), _bigint(MICROS_PER_DAY))
        case st.ByteType() | st.ShortType() | st.IntegerType() | st.LongType():
            return column.cast("bigint")
    return None


def _sure(column: Column | None) -> Column:
    if column is None:
        raise _Unsure
    return column


def _unscaled(column: Column, type: st.DecimalType, scale: int) -> Column:
    """The whole number behind a decimal at our scale; only where each value that may come has one of 18 digits."""
    if type.scale > scale or type.precision - type.scale + scale > 18:
        raise _Unsure
    factor = sf.lit(Decimal(10**scale)).cast(st.DecimalType(scale + 1, 0))
    return (column * factor).try_cast("bigint")


# --- comparisons -------------------------------------------------------------------------------------------------


def _against(op: str, x: Column, value: float) -> Column:
    """A float against a constant.

    Zero has two signs, which Spark takes for equal but dictionaries and filters of files may not: ranges are drawn so
    that both are inside.
    """
    if value != value:
        return sf.lit(False)
    if value == 0.0:
        if op == "=":
            return (x >= sf.lit(-0.0)) & (x <= sf.lit(0.0))
        value = -0.0 if op in (">=", "<") else 0.0
    test = COMPARED[op](x, sf.lit(value))
    return test & _is_number(x) if op in (">", ">=", "<>") else test


def _is_number(x: Column) -> Column:
    """Not NaN, which to Spark exceeds infinity; said so that a source of files understands it, even below an OR."""
    return x <= sf.lit(math.inf)


def _float_against(op: str, x: Column, value: int) -> Column:
    """A float against a constant whole number, which may lie between two floats."""
    near = float(value)
    if int(near) == value:
        return _against(op, x, near)
    if op in ("=", "<>"):
        return _is_number(x) if op == "<>" else sf.lit(False)
    if op in ("<", "<="):
        return _against("<=", x, near if near < value else math.nextafter(near, -math.inf))
    return _against(">=", x, near if near > value else math.nextafter(near, math.inf))


def _exactly(op: str, i: Column, f: Column) -> Column:
    """Whole number op float. The nearest float decides, since rounding keeps order; where it is equal, f is whole."""
    near, whole, inside = i.cast("double"), f.try_cast("bigint"), f < sf.lit(INT64_LIMIT)
    less = (near < f) | ~inside | ((near == f) & (i < whole))
    equal = inside & (near == f) & (i == whole)
    more = (near > f) | (inside & (near == f) & (i > whole))
    test = {"=": equal, "<>": less | more, "<": less, "<=": less | equal, ">": more, ">=": more | equal}[op]
    return test & i.isNotNull() & ~sf.isnan(f)


# --- operations: the translator, the node, and the values of its operands -------------------------------------------


def _computed(_: _Exact, expr: Op, x: Column, y: Column) -> Column:
    if expr.kind is not Kind.FLOAT:
        return CHECKED[expr.op](x, y)
    return x + y if expr.op == "+" else x - y if expr.op == "-" else x * y


def _negated(_: _Exact, expr: Op, x: Column) -> Column:
    return -x if expr.kind is Kind.FLOAT else sf.try_subtract(_bigint(0), x)


def _absolute(_: _Exact, expr: Op, x: Column) -> Column:
    return sf.abs(x) if expr.kind is Kind.FLOAT else sf.when(x >= 0, x).otherwise(sf.try_subtract(_bigint(0), x))


def _rounded(_: _Exact, expr: Op, x: Column) -> Column:
    """Spark's own floor and ceil give bigint, which has no NaN and no infinity."""
    near = sf.rint(x)
    if expr.op == "floor":
        return sf.when(near > x, near - 1.0).otherwise(near)
    return sf.when(near < x, near + 1.0).otherwise(near) if expr.op == "ceil" else near


def _extreme(_: _Exact, expr: Op, *values: Column) -> Column:
    if len(values) == 1:
        return values[0]
    chosen = sf.least(*values) if expr.op == "least" else sf.greatest(*values)
    if expr.kind is Kind.FLOAT and expr.op == "least":
        chosen = sf.when(_joined("or", [sf.isnan(value) for value in values]), sf.lit(math.nan)).otherwise(chosen)
    return sf.when(_joined("and", [value.isNotNull() for value in values]), chosen)


def _like(_: _Exact, expr: Op, text: Column, __: Column) -> Column:
    """Spark refuses a backslash before an ordinary character: the pattern is written anew.

    It goes back over the text for every `%`, so only patterns with few of them are left to it.
    """
    match expr.args[1]:
        case Lit(str() as written) if written.count("%") <= 2:
            return text.like(_spark_pattern(written))
    raise _Unsure


def _spark_pattern(pattern: str) -> str:
    parts, letters = [], iter(pattern)
    for letter in letters:
        plain = next(letters, "\\") if letter == "\\" else None
        parts.append(letter if plain is None else "\\" + plain if plain in "%_\\" else plain)
    return "".join(parts)


def _substr(_: _Exact, __: Op, text: Column, first: Column, count: Column | None = None) -> Column:
    """Positions are cut to 32 bits, beyond which no text has characters."""
    fits = first >= 1 if count is None else (first >= 1) & (count >= 0)
    length = sf.lit(INT32_HIGH) if count is None else _int32(count)
    return sf.when(fits, sf.substring(text, _int32(first), length))


def _int32(value: Column) -> Column:
    return sf.greatest(sf.least(value, _bigint(INT32_HIGH)), _bigint(0)).cast("int")


def _cased(exact: _Exact, expr: Op, text: Column) -> Column:
    """Python and Java agree on the case of ASCII; beyond it each follows its own version of Unicode."""
    value = sf.lower(text) if expr.op == "lower" else sf.upper(text)
    return exact.doubtful(value, sf.octet_length(text) != sf.char_length(text))


def _to_float(exact: _Exact, expr: Op, x: Column) -> Column:
    (arg,) = expr.args
    if arg.kind is Kind.TEXT:
        return exact.doubtful(x.try_cast("double"), ~x.rlike(FLOAT_TEXT))
    return x.cast("double") / sf.lit(10.0**arg.scale) if arg.scale else x.cast("double")


def _to_int(_: _Exact, expr: Op, x: Column) -> Column:
    (arg,) = expr.args
    if arg.kind is Kind.TEXT:
        digits = sf.trim(x)
        return sf.when(digits.rlike(WHOLE_TEXT), digits.try_cast("bigint"))
    if arg.kind is Kind.FLOAT:
        return sf.when((x >= sf.lit(-INT64_LIMIT)) & (x < sf.lit(INT64_LIMIT)), x.try_cast("bigint"))
    if not arg.scale:
        return x.cast("bigint")
    unit = sf.lit(Decimal(1).scaleb(-arg.scale)).cast(st.DecimalType(arg.scale, arg.scale))
    return (x.try_cast(st.DecimalType(19, 0)) * unit).try_cast("bigint")


def _rescaled(_: _Exact, expr: Op, x: Column) -> Column:
    return sf.try_multiply(x, _bigint(10 ** (expr.scale - expr.args[0].scale)))


OPERATIONS: dict[str, Callable[..., Column]] = {
    **dict.fromkeys(CHECKED, _computed),
    "/": lambda _, __, x, y: sf.try_divide(x, y),
    "%": lambda _, __, x, y: sf.try_mod(x, y),
    "neg": _negated,
    "abs": _absolute,
    **dict.fromkeys(("floor", "ceil", "round"), _rounded),
    "sqrt": lambda _, __, x: sf.when(x >= sf.lit(0.0), sf.sqrt(x)),
    **dict.fromkeys(("least", "greatest"), _extreme),
    "coalesce": lambda _, __, *values: sf.coalesce(*values),
    "like": _like,
    **dict.fromkeys(("lower", "upper"), _cased),
    "trim": lambda _, __, text: sf.trim(text),
    "length": lambda _, __, text: sf.char_length(text).cast("bigint"),
    "substr": _substr,
    "concat": lambda _, __, *texts: sf.concat(*texts),
    "starts_with": lambda _, __, text, part: sf.startswith(text, part),
    "contains": lambda _, __, text, part: sf.contains(text, part),
    "to_float": _to_float,
    "to_int": _to_int,
    "to_text": lambda _, __, x: x.cast("string"),
    "rescale": _rescaled,
}
