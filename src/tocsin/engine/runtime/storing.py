"""Storing the event of a row at a leaf: find its buffer, insert it, or find it again to withdraw it."""

# mypy: disable-error-code="no-any-return"
# (what is read through a pointer or a memoryview has no type here)

from __future__ import annotations

from typing import Any

from tocsin.engine.runtime.buffers import first_at, insert, reserve
from tocsin.engine.runtime.keys import key_of, new_key
from tocsin.engine.runtime.plain import compiled, inlined
from tocsin.engine.runtime.words import (
    DUPLICATES,
    EAGER,
    HEAP_FULL,
    HITS,
    HORIZON,
    KEYS_FULL,
    LONGEST,
    ORDERED,
    PLACES,
    ROW_KEYS,
    TRIES,
)


@inlined
def ready(
    T: Any, H: Any, R: int, D: Any, N: Any, KM: Any, leaves: int, leaf: int, before: int,
    keyed: bool, prefix: int, value: int,
) -> int:  # fmt: skip
    """Find the buffer of an event and make room in it: its key code, -1 if the event is of no use, or a status.

    `before` is a leaf that must hold an earlier event under the same key, or -1; ordered input may rely on that.
    Nothing changes if it is asked again.
    """
    key = 0
    if before >= 0 and T[ORDERED] != 0:
        if keyed:
            key = key_of(T, KM, prefix, value)
            if key == 0:
                return -1
        if N[key * leaves + before] < T[HORIZON]:
            return -1
    elif keyed:
        key = new_key(T, KM, D, leaves, prefix, value)
        if key < 0:
            return -KEYS_FULL
    if not reserve(T, H, R, D, key * leaves + leaf):
        return -HEAP_FULL
    return key


@inlined
def stand_at(T: Any, leaf: int, place: int, key: int) -> None:
    """Note where the event of the row stands: its place at a leaf, and the code of its key there."""
    T[PLACES + leaf] = place
    T[ROW_KEYS + leaf] = key


@inlined
def enter(
    T: Any, H: Any, R: int, D: Any, N: Any, KM: Any, leaves: int, leaf: int, before: int,
    keyed: bool, prefix: int, value: int,
    number: int, end: int, start: int, high: int, low: int, rs: int, rh: int, keep: bool,
) -> int:  # fmt: skip
    """Store an event at a leaf, or on the leaf's scratch place if it need not be kept; its place or what `ready` says.

    An event that is there already is counted and has no place (-1).
    """
    key = ready(T, H, R, D, N, KM, leaves, leaf, before, keyed, prefix, value)
    if key < 0:
        return key
    place = leaf
    if keep:
        place = insert(H, R, D, N, key * leaves + leaf, end, start, high, low, rs, rh)
        if place < 0:
            T[DUPLICATES] += 1
            return -1
    H[place * R] = end
    H[place * R + 1] = number
    if rs > 0:
        H[place * R + rs] = start
        T[LONGEST + leaf] = max(T[LONGEST + leaf], end - start)
    if rh > 0:
        H[place * R + rh] = high
        H[place * R + rh + 1] = low
    stand_at(T, leaf, place, key)
    return place


@inlined
def weigh(T: Any, leaf: int, hit: bool) -> None:
    """Count what a look at arrival was good for; give it up for a leaf where three of four events pass it."""
    T[TRIES + leaf] += 1
    if hit:
        T[HITS + leaf] += 1
    if T[TRIES + leaf] >= 4096:
        if 4 * T[HITS + leaf] > 3 * T[TRIES + leaf]:
            T[EAGER + leaf] = 0
        T[TRIES + leaf] = 0
        T[HITS + leaf] = 0


@compiled
def withdraw(
    T: Any, H: Any, R: int, D: Any, KM: Any, leaves: int, leaf: int, keyed: bool, prefix: int, value: int,
    end: int, start: int, high: int, low: int, rs: int, rh: int,
) -> None:  # fmt: skip
    """Find the event that is being withdrawn; its place is -1 if it never came."""
    key = 0
    if keyed:
        key = key_of(T, KM, prefix, value)
        if key == 0:
            return
    d = key * leaves + leaf
    stop = D[4 * d + 2]
    place = first_at(H, R, D[4 * d + 1], stop, end)
    while place < stop and H[place * R] == end:
        at = place * R
        if H[at + rs] == start and H[at + rh] == high and H[at + rh + 1] == low:
            stand_at(T, leaf, place, key)
            return
        place += 1
