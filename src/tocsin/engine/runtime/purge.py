"""Purging: drop what no answer can need any more, as far as is guaranteed type by type."""

# mypy: disable-error-code="no-any-return"
# (what is read through a pointer or a memoryview has no type here)

from __future__ import annotations

from typing import Any

from tocsin.engine.runtime.buffers import between, first_at, move
from tocsin.engine.runtime.plain import compiled, inlined
from tocsin.engine.runtime.purge_table import (
    A1,
    A2,
    BY_KEY,
    GUARANTEED,
    JUDGED,
    NEG,
    OLD,
    P3,
    P_CHAIN,
    P_HELD,
    P_LEAVES,
    P_OWN,
    P_PATIENCE,
    P_ROOTS,
    P_RULES,
    P_SINCE,
    P_START,
    P_TABLE,
    P_WINDOW,
    POSITION,
    PURGED,
)
from tocsin.engine.runtime.words import FAR, HORIZON


@inlined
def partners(P: Any, leaf: int, position: int, start: int, end: int) -> tuple[int, int]:
    """Between which ends an event at a position can stand together with an event at a leaf."""
    at = P_TABLE + 4 * P[P_LEAVES] + P[P_ROOTS] + 4 * (leaf * P[P_ROOTS] + position)
    low = max(start + P[at], end + P[at + 1])
    high = min(start + P[at + 2], end + P[at + 3])
    if P[P_WINDOW] >= 0:
        return max(low, end - P[P_WINDOW]), min(high, start + P[P_WINDOW])
    return low, high


@inlined
def partner_buffer(P: Any, leaf: int, key: int, position: int) -> int:
    """The buffer where the partners of an event stand, or -1 if they may stand in many."""
    other = P[P_TABLE + 4 * P[P_LEAVES] + position]
    if P[P_TABLE + 4 * other + BY_KEY] == 0:
        return other
    return key * P[P_LEAVES] + other if P[P_TABLE + 4 * leaf + BY_KEY] != 0 else -1


@inlined
def known_until(P: Any, position: int) -> int:
    """Every event that may still come to a position ends after this."""
    return P[P_TABLE + 4 * P[P_TABLE + 4 * P[P_LEAVES] + position] + GUARANTEED]


@compiled
def first_within(H: Any, R: int, D: Any, d: int, rs: int, low: int, high: int) -> int:
    """The first end in buffer d of an event that starts and ends in [low, high], or FAR."""
    stop = D[4 * d + 2]
    place = first_at(H, R, D[4 * d + 1], stop, low)
    while place < stop and H[place * R] <= high:
        if H[place * R + rs] >= low:
            return H[place * R]
        place += 1
    return FAR


@compiled
def breaks_chain(H: Any, R: int, D: Any, P: Any, leaf: int, key: int, start: int, end: int) -> bool:
    """Algorithm 2: positions of which all is known must be filled one after the other, each as early as can be."""
    mine = P[P_TABLE + 4 * leaf + POSITION]
    check = -FAR - FAR
    if P[P_WINDOW] >= 0:
        check = end - P[P_WINDOW]
    for position in range(P[P_ROOTS]):
        if position == mine:
            check = end + 1
            continue
        low, high = partners(P, leaf, position, start, end)
        d = partner_buffer(P, leaf, key, position)
        if d < 0 or known_until(P, position) < high:
            continue
        found = first_within(H, R, D, d, P[P_START], max(low, check), high)
        if found == FAR:
            return True
        check = found + 1
    return False


@compiled
def reason(H: Any, R: int, D: Any, P: Any, HA: Any, leaf: int, key: int, place: int) -> int:
    """Why an event is of no use at a leaf any more, or 0.

    A1: a position of which all is known has no partner for it. A2: nor have all of them together, in their order.
    P3: nobody new can join it, so all it can be in has been found. NEG: one of these for an event that is only looked
    at. What a held answer contains or is judged by stays.
    """
    start = H[place * R + P[P_START]]
    end = H[place * R]
    mine = P[P_TABLE + 4 * leaf + POSITION]
    why = P3
    for position in range(P[P_ROOTS]):
        if position == mine or why == A1:
            continue
        low, high = partners(P, leaf, position, start, end)
        if low <= high and known_until(P, position) < high:
            why = 0
            continue
        d = partner_buffer(P, leaf, key, position)
        if low <= high and d >= 0:
            a, b = between(H, R, D[4 * d + 1], D[4 * d + 2], low, high)
            low, high = (low, high) if a < b else (1, 0)
        if low > high:
            why = A1
    if mine < 0:
        looked_at = P[P_TABLE + 4 * leaf + JUDGED] != 0 and start >= P[P_SINCE]
        return NEG if why != 0 and not looked_at else 0
    if why != A1 and P[P_CHAIN] != 0 and breaks_chain(H, R, D, P, leaf, key, start, end):
        why = A2
    if why == P3 and P[P_OWN] != 0 and P[P_TABLE + 4 * leaf + GUARANTEED] < end:
        return 0
    if why != 0 and P[P_HELD] > 0:
        entry = H[place * R + 1] * P[P_ROOTS] + mine
        at = first_at(HA, 1, 0, P[P_HELD], entry)
        if at < P[P_HELD] and HA[at] == entry:
            return 0
    return why


@compiled
def sweep(T: Any, H: Any, R: int, D: Any, N: Any, buffers: int, P: Any, HA: Any) -> int:
    """Drop every event that is of no use, again and again: one that goes can take others with it.

    HA has the events of held answers, each as number * positions + position, in order. Returns how many events stay.
    """
    dropped = 1
    live = 0
    while dropped * P[P_PATIENCE] > live:
        dropped = 0
        live = 0
        for d in range(buffers):
            begin = D[4 * d + 1]
            end = D[4 * d + 2]
            target = begin
            for place in range(begin, end):
                why = OLD if H[place * R] < T[HORIZON] else 0
                if why == 0 and P[P_RULES] != 0:
                    why = reason(H, R, D, P, HA, d % P[P_LEAVES], d // P[P_LEAVES], place)
                if why != 0:
                    P[PURGED + why] += 1
                    continue
                if target < place:
                    move(H, R, place, target, 1)
                target += 1
            live += target - begin
            dropped += end - target
            if target < end:
                D[4 * d + 2] = target
                N[d] = H[(target - 1) * R] if target > begin else -FAR
    return live
