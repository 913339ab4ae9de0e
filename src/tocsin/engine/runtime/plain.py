"""The marks of functions where the runtime is ordinary Python: none of them does anything; see `library.MARKS`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

Code = TypeVar("Code", bound=Callable[..., Any])


class Decorator(Protocol):
    def __call__(self, function: Code, /) -> Code: ...


def _identity(value: Code) -> Code:
    return value


compiled: Decorator = _identity  # called from compiled code only, with pointers
inlined: Decorator = _identity  # the same, and merged into its callers
entry: Decorator = _identity  # called from Python, with arrays
pointer: Any = _identity  # the address of an array
opened: Any = _identity  # the addresses of all arrays of the state
