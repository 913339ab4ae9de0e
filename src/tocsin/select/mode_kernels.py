"""The loops of `mode_loops`, plain or compiled by Numba; imported when first needed."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from tocsin.select import mode_loops

LOOPS = ("extend_slots", "line_up", "combine", "accumulate")


@cache
def loop(name: str, *, jit: bool) -> Callable[..., Any]:
    """One of the loops, for arrays (compiled) or memoryviews (plain)."""
    plain: Callable[..., Any] = getattr(mode_loops, name)
    return _compiled(plain, name) if jit else plain


def _compiled(plain: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Compiled for its one signature; columns may be Arrow's memory, which nobody may write."""
    from numba import njit, types

    number, words = types.int64, types.int64[::1]
    read, table = types.Array(types.int64, 1, "C", readonly=True), types.int64[:, ::1]  # type: ignore[no-untyped-call]
    batch = (number, number, words, words, words, read, read, number)
    state = {"extend_slots": 3, "line_up": 4, "combine": 5, "accumulate": 5}
    flags = types.boolean[::1]
    arguments = {
        "codes_of": (number, number, words, table, table, words, number, words),
        "release": (number, words, words, words, words, *[number] * 7),
        "tied": (number, words, words, read, words, words, flags),
    }.get(name, (*batch, *[words] * state.get(name, 0)))
    function: Callable[..., Any] = njit(arguments, cache=True, nogil=True, error_model="numpy")(plain)
    return function
