"""User functions: registered by name, called from queries by that name.

    @tocsin.function(returns="bool")
    def near(x, y): ...

A function is Python: it gets Python's own values, gives one of the kind it was registered for or None for null, and an
exception in it ends the run. A function of one event is asked when the event arrives (with `vectorised=True` it gets
whole NumPy arrays). One of several events makes its query run the plain body, unless it says `compiled=True`: then
Numba compiles it, and that machine code is the function wherever it is asked. docs/expressions.md has the rules.
"""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from tocsin.errors import FunctionError, TocsinError
from tocsin.schema import Kind

_ARRAYS = {Kind.BOOL: "b", Kind.INT: "i", Kind.TIME: "i", Kind.FLOAT: "fiu"}  # NumPy's kinds of arrays for results
RESULTS = (Kind.BOOL, Kind.INT, Kind.FLOAT, Kind.TEXT, Kind.TIME)
# what the language itself calls by name
OURS = frozenset(
    "abs floor ceil round sqrt least greatest coalesce nullif lower upper trim length substr concat starts_with"
    " contains int float text count sum avg min max first last start end type eid"
    " timestamp hour minute second weekday date collect".split()
)


@dataclass(frozen=True, slots=True)
class Function:
    """A registered function; `returns` is the kind of its result, `arity` the number of its arguments."""

    name: str
    call: Callable[..., Any]
    returns: Kind
    arity: int
    vectorised: bool = False
    nulls: bool = False
    compiled: bool = False

    def ask(self, args: Sequence[Any]) -> Any:
        """The value for some arguments, None for null; whatever goes wrong is one error."""
        if not self.nulls and any(arg is None for arg in args):
            return None
        if self.vectorised:
            (value,) = self.ask_all([np.array([arg]) for arg in args], 1)
            return bool(value) if self.returns is Kind.BOOL and value is not None else value
        try:
            value = self.call(*args)
        except Exception as problem:
            raise self.failed(args, problem) from problem
        return self._kinded(value, args)

    def ask_all(self, arrays: Sequence[Any], count: int) -> Any:
        """The values for arrays of `count` arguments: an array if all are numbers of the right kind, else a list."""
        for array in arrays:
            array.flags.writeable = False  # they may be the events themselves
        try:
            values = np.asarray(self.call(*arrays))
        except Exception as problem:
            raise self.failed([array[:3] for array in arrays], problem) from problem
        if values.shape != (count,):
            raise FunctionError(
                f"{self.name}() gave values of shape {values.shape} for arrays of {count}",
                hint="a vectorised function gives one value for each",
            )
        wanted: Any = np.float64 if self.returns is Kind.FLOAT else np.int64
        if values.dtype.kind in _ARRAYS.get(self.returns, ""):
            return values.astype(wanted)
        known = values.tolist()  # Python's own values
        return [self._kinded(value, [array[at] for array in arrays]) for at, value in enumerate(known)]

    def failed(self, args: Sequence[Any], problem: Exception) -> FunctionError:
        """The error that says with which values an exception came."""
        return FunctionError(
            f"{self.name}({_shown(args)}) raised {type(problem).__name__}: {problem}",
            hint="return None where it has no value",
        )

    def _kinded(self, value: Any, args: Sequence[Any]) -> Any:
        """A result as the kind that was declared for it; a whole number outside 64 bits is null, as everywhere."""
        if value is None:
            return None
        is_bool, is_whole = isinstance(value, bool | np.bool_), isinstance(value, int | np.integer)
        match self.returns:
            case Kind.BOOL if is_bool:
                return bool(value)
            case Kind.INT | Kind.TIME if is_whole and not is_bool:
                return int(value) if -(1 << 63) <= value < 1 << 63 else None
            case Kind.FLOAT if isinstance(value, float | np.floating) or (is_whole and not is_bool):
                huge = is_whole and abs(value) > sys.float_info.max
                return math.copysign(math.inf, 1 if value > 0 else -1) if huge else float(value)
            case Kind.TEXT if _is_text(value):
                return str(value)
        raise FunctionError(
            f"{self.name}({_shown(args)}) gave {value!r}, but was registered for {self.returns.value}",
            hint="return a value of that kind, or None for null",
        )


def _is_text(value: Any) -> bool:
    """Whether a value is a text that can be written: one half of a surrogate pair cannot."""
    try:
        return isinstance(value, str) and bool(value.encode("utf-8") or True)
    except UnicodeEncodeError:
        return False


def _shown(args: Sequence[Any]) -> str:
    return ", ".join(repr(arg.item() if isinstance(arg, np.generic) else arg) for arg in args)


_registered: dict[str, Function] = {}
_view: Mapping[str, Function] = MappingProxyType(_registered)


def function(
    *,
    returns: Kind | str,
    name: str | None = None,
    vectorised: bool = False,
    nulls: bool = False,
    compiled: bool = False,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a Python function for use in queries. Returns the function unchanged."""

    def register(call: Callable[..., Any]) -> Callable[..., Any]:
        known = str(name or getattr(call, "__name__", "")).lower()
        if not known.isidentifier():
            raise TocsinError(f"{known!r} cannot be the name of a function", hint="name= of letters, digits and _")
        if known in OURS:
            raise TocsinError(f"{known} is a function of the language", hint="register yours under another name=")
        if returns not in RESULTS:
            raise TocsinError(f"a function cannot return {returns!r}", hint=f"one of {', '.join(RESULTS)}")
        if (vectorised and (nulls or compiled)) or (compiled and (nulls or returns == Kind.TEXT)):
            raise TocsinError(
                f"{known}: a {'vectorised' if vectorised else 'compiled'} function cannot be that, too",
                detail="vectorised ones see no nulls and are not compiled; compiled ones see no nulls and give numbers",
            )
        _registered[known] = Function(
            known,
            machine_code(call) if compiled else call,
            Kind(returns),
            _arity(known, call),
            vectorised,
            nulls,
            compiled,
        )
        return call

    return register


def machine_code(call: Callable[..., Any]) -> Callable[..., Any]:
    """A function that Numba compiles when it is first asked; division by zero is an exception, as in Python."""
    import numba

    compiled: Callable[..., Any] = numba.njit(call, error_model="python")
    return compiled


def _arity(name: str, call: Callable[..., Any]) -> int:
    """How many arguments a query must give: those without a default."""
    try:
        parameters = inspect.signature(call).parameters.values()
    except (TypeError, ValueError):
        raise TocsinError(
            f"Python does not say how many arguments {name} takes", hint="register a lambda that calls it"
        ) from None
    needed = [each for each in parameters if each.default is each.empty]
    if any(each.kind is each.KEYWORD_ONLY for each in needed):
        raise TocsinError(f"{name} needs arguments by keyword", hint="a query gives them by position")
    return sum(each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD) for each in needed)


def registered() -> Mapping[str, Function]:
    """All functions registered so far, by lower-case name (a view that grows with them)."""
    return _view


def adopt(functions: Mapping[str, Function]) -> None:
    """Register functions that another process has registered; one that is known here by its name is replaced."""
    _registered.update(functions)
