"""User functions: registered by name, called from queries by that name.

    @tocsin.function(returns="bool")
    def near(x, y): ...

A function of one event is evaluated as a column when the event arrives (with `vectorised=True` it gets whole NumPy
arrays). A function of several events is compiled into the kernel if Numba can compile it; otherwise its query runs the
plain body, and `explain` says so. Null in any argument gives null without a call, unless `nulls=True`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from tocsin.errors import TocsinError
from tocsin.schema import Kind


@dataclass(frozen=True, slots=True)
class Function:
    """A registered function; `returns` is the kind of its result, `arity` the number of its arguments."""

    name: str
    call: Callable[..., Any]
    returns: Kind
    arity: int
    vectorised: bool = False
    nulls: bool = False


_registered: dict[str, Function] = {}
_view: Mapping[str, Function] = MappingProxyType(_registered)


def function(
    *, returns: Kind | str, name: str | None = None, vectorised: bool = False, nulls: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a Python function for use in queries. Returns the function unchanged."""

    def register(call: Callable[..., Any]) -> Callable[..., Any]:
        known = (name or call.__name__).lower()
        if not known.isidentifier():
            raise TocsinError(f"{known!r} cannot be the name of a function", hint="use letters, digits and _")
        arity = call.__code__.co_argcount
        _registered[known] = Function(known, call, Kind(returns), arity, vectorised, nulls)
        return call

    return register


def registered() -> Mapping[str, Function]:
    """All functions registered so far, by lower-case name (a view that grows with them)."""
    return _view
