"""The key table: from the values of a key to a small code, which numbers the buffers of that key."""

# mypy: disable-error-code="no-any-return"
# (what is read through a pointer or a memoryview has no type here)

from __future__ import annotations

from typing import Any

from tocsin.engine.runtime.plain import compiled, inlined
from tocsin.engine.runtime.words import D_SIZE, DENSE, FAR, FREE_KEY, KEYS, KEYS_USED, KM_SIZE

HALF = (1 << 31) - 1  # a product of two such numbers stays inside 64 bits: Python and machine agree


@inlined
def key_hash(prefix: int, value: int) -> int:
    """A number in which every bit of a key counts: keys often share low zero bits, or high ones."""
    mixed = (value & HALF) * 1640531527 + prefix
    mixed = ((mixed ^ (mixed >> 29)) & HALF) * 2135587861 + ((value >> 31) & HALF)
    mixed = ((mixed ^ (mixed >> 29)) & HALF) * 1540483477 + (value >> 62)
    return mixed ^ (mixed >> 31)


@inlined
def key_slot(KM: Any, size: int, prefix: int, value: int) -> int:
    """The slot of a key in KM: where it is, or where it would go. `size` is a power of two."""
    slot = key_hash(prefix, value) & (size - 1)
    while KM[3 * slot + 2] != 0 and (KM[3 * slot + 1] != value or KM[3 * slot] != prefix):
        slot = (slot + 1) & (size - 1)
    return slot


@inlined
def key_of(T: Any, KM: Any, prefix: int, value: int) -> int:
    """The code of a key, or 0 if it was never seen. Small numbers are their own codes (plus one) and need no table."""
    if prefix == 0 and value >= 0 and value < T[DENSE]:
        return value + 1
    return KM[3 * key_slot(KM, T[KM_SIZE], prefix, value) + 2]


@inlined
def new_key(T: Any, KM: Any, D: Any, leaves: int, prefix: int, value: int) -> int:
    """The code of a key, a new one if needed; -1 if the tables are full."""
    if prefix == 0 and value >= 0 and value < T[DENSE]:
        return value + 1
    slot = key_slot(KM, T[KM_SIZE], prefix, value)
    code = KM[3 * slot + 2]
    if code != 0:
        return code
    return add_key(T, KM, D, leaves, prefix, value, slot)


@compiled
def add_key(T: Any, KM: Any, D: Any, leaves: int, prefix: int, value: int, slot: int) -> int:
    if 2 * T[KEYS_USED] >= T[KM_SIZE]:
        return -1
    code = T[FREE_KEY]
    if code != 0:
        T[FREE_KEY] = D[4 * code * leaves]
        D[4 * code * leaves] = 0
    else:
        code = T[KEYS]
        if (code + 1) * leaves > T[D_SIZE]:
            return -1
        T[KEYS] = code + 1
    KM[3 * slot] = prefix
    KM[3 * slot + 1] = value
    KM[3 * slot + 2] = code
    T[KEYS_USED] += 1
    return code


@compiled
def sweep_keys(T: Any, KM: Any, newKM: Any, size: int, D: Any, N: Any, leaves: int, alive: Any) -> None:
    """Move the keys that still have events into newKM (of `size` slots), after `compact`; recycle the other codes."""
    for code in range(T[KEYS]):
        alive[code] = 0
        for d in range(code * leaves, (code + 1) * leaves):
            if D[4 * d + 2] > D[4 * d + 1]:
                alive[code] = 1
    slots = T[KM_SIZE]
    found = True
    while found:  # a prefix lives while a longer key uses it
        found = False
        for slot in range(slots):
            code, prefix = KM[3 * slot + 2], KM[3 * slot]
            if code != 0 and alive[code] != 0 and prefix != 0 and alive[prefix] == 0:
                alive[prefix] = 1
                found = True
    used = 0
    for slot in range(slots):
        code = KM[3 * slot + 2]
        if code == 0:
            continue
        if alive[code] != 0:
            target = key_slot(newKM, size, KM[3 * slot], KM[3 * slot + 1])
            for k in range(3):
                newKM[3 * target + k] = KM[3 * slot + k]
            used += 1
        else:
            for d in range(code * leaves, (code + 1) * leaves):
                N[d] = -FAR
                for k in range(4):
                    D[4 * d + k] = 0
            D[4 * code * leaves] = T[FREE_KEY]
            T[FREE_KEY] = code
    T[KEYS_USED] = used
