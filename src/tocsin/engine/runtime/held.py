"""Answers that wait for guarantees of types, not for the clock: what is guaranteed, and who may be settled."""

# mypy: disable-error-code="no-any-return"
# (what is read through a pointer or a memoryview has no type here)

from __future__ import annotations

from typing import Any

from tocsin.engine.runtime.buffers import first_after
from tocsin.engine.runtime.plain import compiled, inlined
from tocsin.engine.runtime.waiting import sink, swap, wait
from tocsin.engine.runtime.words import (
    ASIDE,
    CLOCK,
    FAR,
    FRESH,
    GUARANTEES,
    MOVED,
    PD_SIZE,
    STAMPED,
    STAMPS,
    TYPES,
    WAITING,
)


@inlined
def promised(T: Any, type: int) -> int:
    """Every event of a local type that is still to come ends after this."""
    at = T[GUARANTEES] + 2 * type
    return max(T[at], T[CLOCK] - T[at + 1])


@compiled
def disturb(T: Any, key: int) -> None:
    """An event may refute held answers under a key (-1: any)."""
    if key >= 0:
        T[STAMPS + (key & (STAMPED - 1))] += 1
        return
    for slot in range(STAMPED):
        T[STAMPS + slot] += 1


@inlined
def furthest(T: Any) -> int:
    """The largest guarantee of any type: nothing that waits for a later time can be settled."""
    best = -FAR
    for type in range(T[TYPES]):
        best = max(best, promised(T, type))
    return best


@inlined
def is_due(T: Any, PD: Any) -> bool:
    """Whether a held answer may be settled now that the clock or a guarantee has moved."""
    if T[ASIDE] > 0 or (T[WAITING] > 0 and PD[0] <= furthest(T)):
        return True
    T[MOVED] = 0
    return False


@compiled
def set_aside(T: Any, PD: Any) -> None:
    """Move the first entry of the heap to the side: what it waits for has not come for its own type."""
    last = T[WAITING] - 1
    target = T[PD_SIZE] - 1 - T[ASIDE]
    swap(T, PD, 0, last)
    if target != last:
        swap(T, PD, last, target)
    T[WAITING] = last
    T[ASIDE] += 1
    sink(T, PD)


@compiled
def forget_aside(T: Any, PD: Any, row: int) -> None:
    """Drop an entry on the side: the newest one takes its row."""
    swap(T, PD, row, T[PD_SIZE] - T[ASIDE])
    T[ASIDE] -= 1


@compiled
def rank_again(T: Any, PD: Any) -> None:
    """Make a heap of all entries, whatever their order."""
    entries = T[WAITING]
    T[WAITING] = 0
    T[FRESH] = entries
    wait(T, PD)


@inlined
def next_start(H: Any, R: int, rs: int, a: int, b: int, time: int) -> int:
    """The first start after `time` among the places [a, b), or FAR."""
    a = first_after(H, R, a, b, time)
    if a >= b:
        return FAR
    if rs == 0:
        return H[a * R]
    best = FAR
    while a < b:
        if H[a * R + rs] > time:
            best = min(best, H[a * R + rs])
        a += 1
    return best
