"""Aggregates over matches, exactly: whole numbers of any size, and sums of floats that are rounded once.

So a total does not depend on the order in which matches are found, on how they are divided, or on whether they are
found at all: the recurrence over prefixes (`select/prefix_counts`) gives the same values as counting one by one.
A state can be changed by so many matches more or less.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

from tocsin.plan.after_match import Total
from tocsin.schema import Kind, fits

SCALE = 1074  # every finite float is a whole number of 2**-1074
State = Any


def exact(value: float) -> int:
    """A finite float as a whole number of 2**-1074.

    >>> exact(0.5) == 1 << 1073
    True
    """
    over, under = value.as_integer_ratio()
    return over << (SCALE + 1 - under.bit_length())


def begin(total: Total) -> State:
    """Nothing counted: a number, [sum, number, NaNs, +inf, -inf], or how often min and max have seen each value."""
    if total.function == "count":
        return 0
    return [0, 0, 0, 0, 0] if total.function in ("sum", "avg") else {}


def counted(total: Total, state: State, value: Any, times: int) -> State:
    """The state with a value `times` more (or less, below 0); it may be changed in place."""
    if total.arg is not None and value is None:
        return state
    if total.function == "count":
        return state + times
    if total.function in ("min", "max"):
        state[value] = state.get(value, 0) + times
        if not state[value]:
            del state[value]
        return state
    added = [0, times, 0, 0, 0]
    if not isinstance(value, float):
        added[0] = value * times
    elif math.isfinite(value):
        added[0] = exact(value) * times
    else:
        added[2 if value != value else 3 if value > 0 else 4] = times
    return [one + other for one, other in zip(state, added, strict=True)]


def merged(total: Total, one: State, other: State) -> State:
    """What two states say together; the first may be changed in place."""
    if total.function == "count":
        return one + other
    if total.function in ("min", "max"):
        for value, times in other.items():
            one[value] = one.get(value, 0) + times
        return one
    return [left + right for left, right in zip(one, other, strict=True)]


def narrowed(total: Total, state: State) -> State:
    """The state once nothing of it is taken back: of the values of min and max, one."""
    if total.function not in ("min", "max") or len(state) < 2:
        return state
    return {result(total, state): 1}


def saved(state: State) -> Any:
    """The state as JSON."""
    return [list(state), list(state.values())] if isinstance(state, dict) else state


def restored(total: Total, state: Any) -> State:
    """The state again; a ValueError if it is none."""
    values: list[Any] = []
    numbers = [state] if total.function == "count" else state
    if total.function in ("min", "max"):
        values, numbers = state
    sums = len(numbers) == 5 or total.function not in ("sum", "avg")
    kind = total.kind if total.arg is None else total.arg.kind
    if not sums or any(type(number) is not int for number in numbers) or not all(fits(kind, each) for each in values):
        raise ValueError(f"{str(state)[:60]} is no state of {total.function}")
    return dict(zip(map(one_nan, values), numbers, strict=True)) if total.function in ("min", "max") else state


def one_nan(value: Any) -> Any:
    """There is one NaN here, so that it can be looked up, and one zero."""
    if isinstance(value, float):
        return math.nan if value != value else value + 0.0
    return value


def result(total: Total, state: State) -> Any:
    """The value that a row shows, in kernel form; None for null."""
    if total.function == "count":
        return state
    if total.function in ("min", "max"):
        return _extreme(total, state)
    whole, number, nans, up, down = state
    if not number:
        return None
    assert total.arg is not None
    real = total.arg.kind is Kind.FLOAT
    if real and (nans or up or down):
        return math.nan if nans or (up and down) else math.inf if up else -math.inf
    if total.function == "sum":
        return divided(whole, 1 << SCALE) if real else whole
    return divided(whole, number << SCALE if real else number * 10**total.arg.scale)


def _extreme(total: Total, values: Collection[Any]) -> Any:
    if not values:
        return None
    if any(value != value for value in values):
        return math.nan
    return min(values) if total.function == "min" else max(values)


def divided(over: int, under: int) -> float:
    """The float next to a quotient of whole numbers."""
    try:
        return over / under
    except OverflowError:
        return math.inf if over > 0 else -math.inf
