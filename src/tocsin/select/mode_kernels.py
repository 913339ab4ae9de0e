"""The loops of `select/loops`, plain or compiled by Numba; imported when first needed."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from tocsin.select.loops import choosing, chronicle, continuous, cumulative, gathering, keys, slots

PLAIN: dict[str, Callable[..., Any]] = {
    "extend_slots": slots.extend_slots,
    "line_up": chronicle.line_up,
    "combine": continuous.combine,
    "accumulate": cumulative.accumulate,
    "single": gathering.single,
    "gather": gathering.gather,
    "codes_of": keys.codes_of,
    "arrange": keys.arrange,
    "release": keys.release,
    "choose": choosing.choose,
}
# arrays of the state that a mode takes
STATES = {"extend_slots": 3, "line_up": 4, "combine": 5, "accumulate": 5, "single": 3, "gather": 6}


@cache
def loop(name: str, *, jit: bool) -> Callable[..., Any]:
    """One of the loops, for arrays (compiled) or memoryviews (plain)."""
    return _compiled(name) if jit else PLAIN[name]


def _compiled(name: str) -> Callable[..., Any]:
    """Compiled for its one signature; columns may be Arrow's memory, which nobody may write."""
    from numba import extending, njit, types

    extending.register_jitable(choosing.stepped)  # what a loop calls is compiled with it

    build: Any = types
    number, words, table = types.int64, types.int64[::1], types.int64[:, ::1]
    read, given = (build.Array(types.int64, dimensions, "C", readonly=True) for dimensions in (1, 2))
    batch = (number, number, words, words, words, read, read, number)
    arguments = {
        "codes_of": (number, number, words, given, table, words, number, words),
        "release": (number, words, words, words, words, *[number] * 7),
        "choose": (number, number, number, *[words] * 5, words, words, types.boolean[::1], number),
        "arrange": (number, words, words, words, read, read, number, words, words, words, types.boolean[::1]),
    }.get(name, (*batch, *[words] * STATES.get(name, 0)))
    function: Callable[..., Any] = njit(arguments, cache=True, nogil=True, error_model="numpy")(PLAIN[name])
    return function
