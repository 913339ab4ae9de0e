"""Give functions that pass their arguments on the signature of the one that takes them: for editors, mypy and `help`.

The keyword arguments of `detect`, `detector` and `explain` are those of `prepare`, with their types and defaults, and
are written down only there.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

P = ParamSpec("P")
R = TypeVar("R")


def like(taker: Callable[P, Any]) -> Callable[[Callable[..., R]], Callable[P, R]]:
    """Decorate a function that takes what `taker` takes."""

    def decorated(function: Callable[..., R]) -> Callable[P, R]:
        return cast("Callable[P, R]", _shown(function, taker, skipped=0))

    return decorated


def like_without_first(taker: Callable[Concatenate[Any, P], Any]) -> Callable[[Callable[..., R]], Callable[P, R]]:
    """Decorate a function that takes what `taker` takes, except its first argument."""

    def decorated(function: Callable[..., R]) -> Callable[P, R]:
        return cast("Callable[P, R]", _shown(function, taker, skipped=1))

    return decorated


def _shown(function: Callable[..., R], taker: Callable[..., Any], *, skipped: int) -> Callable[..., R]:
    own = inspect.signature(function).return_annotation
    parameters = list(inspect.signature(taker).parameters.values())[skipped:]
    function.__signature__ = inspect.Signature(parameters, return_annotation=own)  # type: ignore[attr-defined]
    return function
