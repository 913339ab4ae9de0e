"""The limit: a loop written by hand for one query, SEQ(A a, B b, C c) with one key and b.v > a.v, compiled by Numba.

A and B events are kept in rings. Each entry knows the entry before it of the same key, and a B entry also the last A
of its key when it came, so that a C walks back through exactly the candidates it may have. Positions count up for ever;
one is alive while it is not below the tail. A full ring or output leaves the row undone and returns; the host grows the
ring or drains the output and calls again.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numba import njit

from benchmarks.workloads import Stream

Rings: TypeAlias = tuple[tuple[Any, ...], tuple[Any, ...]]  # whole numbers; values

A, B, C = 0, 1, 2
DONE, OUTPUT_FULL, RING_FULL = 0, 1, 2


@njit(cache=True, nogil=True, error_model="numpy")
def scan(types, time, key, value, window, row, rings, head_a, head_b, ends, out):  # type: ignore[no-untyped-def]
    """Go on from `row`; returns (status, next row, matches written)."""
    (time_a, id_a, prev_a, time_b, id_b, prev_b, seen_a), (value_a, value_b) = rings
    mask = len(time_a) - 1
    tail_a, next_a, tail_b, next_b = ends
    written = 0
    status = DONE
    while row < len(types):
        kind = types[row]
        if kind == A:
            oldest = time[row] - window
            while tail_a < next_a and time_a[tail_a & mask] < oldest:
                tail_a += 1
            if next_a - tail_a > mask:
                status = RING_FULL
                break
            place = next_a & mask
            time_a[place] = time[row]
            value_a[place] = value[row]
            id_a[place] = row
            prev_a[place] = head_a[key[row]]
            head_a[key[row]] = next_a
            next_a += 1
        elif kind == B:
            oldest = time[row] - window
            while tail_b < next_b and time_b[tail_b & mask] < oldest:
                tail_b += 1
            if next_b - tail_b > mask:
                status = RING_FULL
                break
            first = head_a[key[row]]
            if first >= tail_a:
                place = next_b & mask
                time_b[place] = time[row]
                value_b[place] = value[row]
                id_b[place] = row
                prev_b[place] = head_b[key[row]]
                seen_a[place] = first
                head_b[key[row]] = next_b
                next_b += 1
        elif kind == C:
            oldest = time[row] - window
            before = written
            at_b = head_b[key[row]]
            while at_b >= tail_b and time_b[at_b & mask] >= oldest:
                place_b = at_b & mask
                at_b = prev_b[place_b]
                if time_b[place_b] >= time[row]:
                    continue
                at_a = seen_a[place_b]
                while at_a >= tail_a and time_a[at_a & mask] >= oldest:
                    place_a = at_a & mask
                    at_a = prev_a[place_a]
                    if value_a[place_a] < value_b[place_b] and time_a[place_a] < time_b[place_b]:
                        if written < len(out):
                            out[written, 0] = id_a[place_a]
                            out[written, 1] = id_b[place_b]
                            out[written, 2] = row
                        written += 1
            if written > len(out):
                written = before
                status = OUTPUT_FULL
                break
        row += 1
    ends[0], ends[1], ends[2], ends[3] = tail_a, next_a, tail_b, next_b
    return status, row, written


def count(stream: Stream, window: int, keys: int, *, output: int = 1 << 16, ring: int = 1 << 12) -> int:
    """The number of matches of a stream in order; every match is written once and then drained."""
    rings = empty_rings(ring)
    head_a, head_b = np.full(keys, -1, np.int64), np.full(keys, -1, np.int64)
    ends = np.zeros(4, np.int64)
    out = np.empty((output, 3), np.int64)
    row = total = 0
    while True:
        status, row, written = scan(
            stream.types, stream.time, stream.key, stream.v, window, row, rings, head_a, head_b, ends, out
        )
        total += written
        if status == DONE:
            return total
        if status == RING_FULL:
            rings = grown(rings, ends)
        elif written == 0:
            out = np.empty((2 * len(out), 3), np.int64)


def empty_rings(size: int) -> Rings:
    return tuple(np.zeros(size, np.int64) for _ in range(7)), tuple(np.zeros(size, np.float64) for _ in range(2))


def grown(rings: Rings, ends: Any) -> Rings:
    """Rings of twice the size; live entries move to their new places."""
    old = len(rings[0][0])
    new = empty_rings(2 * old)
    live_a, live_b = np.arange(ends[0], ends[1]), np.arange(ends[2], ends[3])
    for live, ints, floats in ((live_a, range(3), 0), (live_b, range(3, 7), 1)):
        for column in ints:
            new[0][column][live & (2 * old - 1)] = rings[0][column][live & (old - 1)]
        new[1][floats][live & (2 * old - 1)] = rings[1][floats][live & (old - 1)]
    return new
