"""Standing, for columns: a generated kernel asks the conditions on one event and gives the bits of every row.

Each variable of a plan has a bit. Those of a mode are what its loops read (`bits_of`); those of a definition of
intervals are its roles. What a kernel cannot ask (texts, user functions) is a column of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from tocsin.engine import runtime
from tocsin.engine.derive import Derived, derived_column, native
from tocsin.engine.expressions import Literals, Names, Scribe, Valued, Writer
from tocsin.engine.kernels import exports
from tocsin.engine.module_cache import COMPILING
from tocsin.events import ANY
from tocsin.functions import Function
from tocsin.items import Column, Ints, Items, Strings
from tocsin.plan.block import Plan
from tocsin.plan.consumption import Consumption
from tocsin.plan.expr import Agg, Bound, Col, Op, Ref, Time, User, walk
from tocsin.plan.same_event import takers
from tocsin.schema import TYPE, Kind

NO_FLAGS = np.zeros(1, np.bool_)
TEXT_ORDER = ("<", "<=", ">", ">=", "least", "greatest")
_compiled: dict[str, Callable[..., Any]] = {}


def bits_of(consume: Consumption) -> dict[str, int]:
    """A bit for each of the n steps, then one for each gap that the event forbids, then one: that it interrupts."""
    steps = len(consume.steps)
    bits = {name: 1 << at for at, name in enumerate(consume.steps)}
    bits |= {name: 1 << (steps + gap - 1) for name, gap in consume.absent}
    return bits | dict.fromkeys(consume.between, 1 << (2 * steps - 1))


class Standings:
    """Gives the bits of the rows of Items; `by_code`: for the code of each type the bits, and the tests of each."""

    def __init__(
        self,
        by_code: list[list[tuple[int, tuple[Bound, ...]]]],
        strings: Strings,
        functions: Mapping[str, Function],
        *,
        jit: bool,
    ) -> None:
        self._strings, self._functions, self._jit = strings, functions, jit
        self._text = _Source(by_code)
        self._kernel = self._made()

    def _made(self) -> Callable[..., Any]:
        library = runtime.library(self._jit)
        source = self._text.source
        space: dict[str, Any] = {name: getattr(library, name) for name in exports(source) if name != "PARAMS"}
        space["PARAMS"] = 0
        if not self._jit:
            exec(source, space)  # noqa: S102 - source without user text
            plain: Callable[..., Any] = space["stand"]
            return plain
        with COMPILING:
            if source not in _compiled:
                _compiled[source] = self._compiled(source, space)
            return _compiled[source]

    def _compiled(self, source: str, space: dict[str, Any]) -> Callable[..., Any]:
        from numba import njit, types

        for name in exports(source):
            if name in runtime.FUNCTIONS:
                runtime.declare(name)
        exec(source, space)  # noqa: S102 - source without user text
        scalars = [types.int32, types.int64, types.int64]
        for _, is_float in self._text.columns.values():
            scalars += [types.float64 if is_float else types.int64, types.boolean]
        build: Any = types
        columns = [build.Array(scalar, 1, "C", readonly=True) for scalar in scalars]
        words = types.int64[::1]
        arguments = (types.int64, *columns, words, types.float64[::1], words, words)
        function: Callable[..., Any] = njit(arguments, nogil=True, error_model="numpy")(space["stand"])
        return function

    def of(self, items: Items) -> tuple[Ints, Ints]:
        """The rows that stand for anything, and the bits of every row; 0 for all others."""
        text, count = self._text, len(items)
        found, rows = np.empty(count, np.int64), np.empty(count, np.int64)
        columns: list[Any] = [items.types, items.start, items.end]
        made = {each.name: each for each in text.derived}
        for name in text.columns:
            given = made.get(name)
            column = items.columns.get(name) if given is None else self._derived(given, items)
            columns += self._halves(column, len(items), is_float=text.columns[name][1])
        ints = [self._strings.code(value) if isinstance(value, str) else value for value in text.literals.ints]
        state = [np.array(ints, np.int64), np.array(text.literals.floats or [0.0], np.float64), found, rows]
        arrays = [np.ascontiguousarray(column) for column in columns] + state
        stand = self._kernel(count, *(arrays if self._jit else (array.data for array in arrays)))
        return rows[:stand], found

    def _halves(self, column: Column | None, count: int, *, is_float: bool) -> tuple[Any, Any]:
        """The values of a column, and which are null; a single flag stands for a column without nulls."""
        if column is None:
            return np.zeros(count, np.float64 if is_float else np.int64), np.ones(count, np.bool_)
        null = None if column.valid is None else ~column.valid
        if column.kind is Kind.TEXT and (column.values < 0).any():
            null = column.values < 0 if null is None else null | (column.values < 0)
        values = column.values.astype(np.float64 if is_float else np.int64, copy=False)
        return values, NO_FLAGS if null is None else null

    def _derived(self, derived: Derived, items: Items) -> Column:
        return derived_column(derived, items, self._strings, self._functions)


class StandingColumns(Standings):
    """The bits that the variables of a plan have; `bits` has those of each."""

    def __init__(
        self, plan: Plan, bits: Mapping[str, int], types: tuple[str, ...], strings: Strings,
        functions: Mapping[str, Function], *, jit: bool,
    ) -> None:  # fmt: skip
        known = takers(plan)
        by_code = []
        for type in types:
            mine = known.get(type)
            if mine is None:
                mine = [] if type in plan.schema.matches else known.get(ANY, [])
            by_code.append([(bits[var], tests) for var, tests in mine if var in bits])
        super().__init__(by_code, strings, functions, jit=jit)


class _Source(Names):
    """Writes the kernel; `columns` are those that it reads, by number and whether they are floats."""

    def __init__(self, by_code: list[list[tuple[int, tuple[Bound, ...]]]]) -> None:
        self.writer, self.literals = Writer(), Literals()
        self.scribe = Scribe(self, self.writer, self.literals)
        self.columns: dict[str, tuple[int, bool]] = {}
        self.derived: list[Derived] = []
        self.kinds: dict[str, tuple[Kind, int]] = {}
        emit = self.writer.emit
        with self.writer.indented():
            emit("m = 0")
            emit("for i in range(n):")
            with self.writer.indented():
                emit("ty = types[i]")
                emit("b = 0")
                for code, mine in enumerate(by_code):
                    if mine:
                        emit(f"if ty == {code}:")
                        with self.writer.indented():
                            self._type(mine)
                emit("bits[i] = b")
                emit("if b != 0:")
                emit("    rows[m] = i")
                emit("    m += 1")
            emit("return m")
        names = [f"c{at}, v{at}" for at, _ in self.columns.values()]
        head = f"def stand({', '.join(['n, types, start, end', *names, 'T, LF, bits, rows'])}):"
        flags = [f"    m{at} = len(v{at}) == n" for at, _ in self.columns.values()]
        self.source = "\n".join([head, *flags, *self.writer.lines]) + "\n"

    def _type(self, mine: Iterable[tuple[int, tuple[Bound, ...]]]) -> None:
        for bit, tests in mine:
            self.writer.emit("good = True")
            for test in tests:
                self.writer.emit("if good:")
                with self.writer.indented():
                    asked = test if _is_plain(test) else self._column_for(test)
                    self.writer.emit(f"good = {self.scribe.true(asked)}")
            self.writer.emit("if good:")
            self.writer.emit(f"    b |= {bit}")

    def _column_for(self, test: Bound) -> Bound:
        """The truth of a test as a column that is computed before."""
        known = next((each for each in self.derived if each.expr == test), None)
        if known is None:
            known = Derived(f"${len(self.derived)}", test)
            self.derived.append(known)
        return Col(0, "", known.name, Kind.BOOL, nullable=True)

    def column(self, col: Col) -> Valued:
        if col.kind is Kind.NULL:
            return "0", "False"
        at, _ = self.columns.setdefault(col.attr, (len(self.columns), col.kind is Kind.FLOAT))
        return f"c{at}[i]", f"(not m{at} or not v{at}[i])"

    def time(self, time: Time) -> Valued:
        return f"{time.which}[i]", ""


def _is_plain(test: Bound) -> bool:
    """Whether a kernel can ask it: numbers, and texts only for equality."""
    for node in walk(test):
        if isinstance(node, Agg | Ref | User) or not native(node, lambda _: False):
            return False
        if isinstance(node, Op) and node.op in TEXT_ORDER and node.args[0].kind is Kind.TEXT:
            return False
        if isinstance(node, Col) and node.attr == TYPE:
            return False
    return True
