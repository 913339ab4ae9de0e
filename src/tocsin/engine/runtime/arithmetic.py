"""Arithmetic that never lies: every result is (value, is not null), and what does not fit is null."""

from __future__ import annotations

import math

import numpy as np

from tocsin.engine.runtime.plain import compiled, inlined
from tocsin.engine.runtime.words import BIGGEST, SMALLEST


@inlined
def add(x: int, y: int) -> tuple[int, bool]:
    if (y > 0 and x > BIGGEST - y) or (y < 0 and x < SMALLEST - y):
        return 0, False
    return x + y, True


@inlined
def subtract(x: int, y: int) -> tuple[int, bool]:
    if (y < 0 and x > BIGGEST + y) or (y > 0 and x < SMALLEST + y):
        return 0, False
    return x - y, True


@compiled
def multiply(x: int, y: int) -> tuple[int, bool]:
    if x == 0 or y == 0:
        return 0, True
    if x == SMALLEST or y == SMALLEST:
        if x == 1 or y == 1:
            return SMALLEST, True
        return 0, False
    if abs(x) <= BIGGEST // abs(y):
        return x * y, True
    if (x < 0) != (y < 0) and SMALLEST % y == 0 and SMALLEST // y == x:
        return SMALLEST, True
    return 0, False


@inlined
def divide(x: float, y: float) -> tuple[float, bool]:
    if y == 0.0:
        return 0.0, False
    return x / y, True


@compiled
def modulo(x: int, y: int) -> tuple[int, bool]:
    """The remainder with the sign of the dividend."""
    if y == 0:
        return 0, False
    if y == SMALLEST:
        return (0, True) if x == SMALLEST else (x, True)
    rest = x % abs(y)
    return (rest - abs(y), True) if x < 0 and rest > 0 else (rest, True)


@compiled
def modulo_float(x: float, y: float) -> tuple[float, bool]:
    if y == 0.0:
        return 0.0, False
    if x != x or y != y or x - x != 0.0:
        return math.nan, True
    return float(np.fmod(x, y)), True


@compiled
def negate(x: int) -> tuple[int, bool]:
    if x == SMALLEST:
        return 0, False
    return -x, True


@compiled
def absolute(x: int) -> tuple[int, bool]:
    if x == SMALLEST:
        return 0, False
    return abs(x), True


@inlined
def compare(i: int, f: float) -> int:
    """An integer against a float, exactly: -1, 0, 1; 2 if f is NaN."""
    if f != f:
        return 2
    if f >= 9223372036854775808.0:
        return -1
    if f < -9223372036854775808.0:
        return 1
    whole = int(f)
    if i < whole:
        return -1
    if i > whole:
        return 1
    rest = f - whole
    if rest > 0.0:
        return -1
    if rest < 0.0:
        return 1
    return 0


@compiled
def floor_of(x: float) -> float:
    if x != x or abs(x) >= 4503599627370496.0:
        return x
    whole = float(int(x))
    return whole - 1.0 if whole > x else whole


@compiled
def ceil_of(x: float) -> float:
    return -floor_of(-x)


@compiled
def round_of(x: float) -> float:
    """Halves go to the even neighbour."""
    low = floor_of(x)
    rest = x - low
    if rest != rest or rest < 0.5:
        return low
    if rest > 0.5 or floor_of(low * 0.5) * 2.0 != low:
        return low + 1.0
    return low


@compiled
def root_of(x: float) -> tuple[float, bool]:
    if x < 0.0:
        return 0.0, False
    return math.sqrt(x), True


@compiled
def whole_of(x: float) -> tuple[int, bool]:
    """int(x): towards zero, null outside 64 bits."""
    if x != x or x >= 9223372036854775808.0 or x < -9223372036854775808.0:
        return 0, False
    return int(x), True


@compiled
def carry_add(low: int, carry: int, x: int) -> tuple[int, int]:
    """One step of an exact sum: `low` stays inside 64 bits, `carry` counts how often it went around."""
    if x > 0 and low > BIGGEST - x:
        return (low - BIGGEST - 1) + (x - BIGGEST - 1), carry + 1
    if x < 0 and low < SMALLEST - x:
        return (low + BIGGEST + 1) + (x + BIGGEST + 1), carry - 1
    return low + x, carry
