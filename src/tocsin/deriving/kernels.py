"""The loops of `deriving/loops`, plain or compiled by Numba; imported when first needed."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from tocsin.deriving import loops

PLAIN: dict[str, Callable[..., Any]] = {
    "follow_runs": loops.follow_runs,
    "follow_pairs": loops.follow_pairs,
    "begins_at": loops.begins_at,
}


def run(name: str, jit: bool, *arguments: Any) -> Any:
    """Call a loop with arrays; plain ones take the memory behind them."""
    function = _loop(name, jit=jit)
    return function(*(each.data if isinstance(each, np.ndarray) and not jit else each for each in arguments))


@cache
def _loop(name: str, *, jit: bool) -> Callable[..., Any]:
    if not jit:
        return PLAIN[name]
    from numba import njit, types

    build: Any = types
    number, words, read = types.int64, types.int64[::1], build.Array(types.int64, 1, "C", readonly=True)
    values = types.int64[:, ::1]
    arguments = {
        "follow_runs": (number, number, words, words, words, read, values, values, *[words] * 5),
        "follow_pairs": (number, number, *[words] * 4, read, values, values, *[words] * 5),
        "begins_at": (number, words, words, words, read, words, words),
    }[name]
    function: Callable[..., Any] = njit(arguments, cache=True, nogil=True, error_model="numpy")(PLAIN[name])
    return function
