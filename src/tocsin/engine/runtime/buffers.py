"""Sorted buffers of stored events, one for each leaf and key: ranges of time, insertion, removal, room."""

# mypy: disable-error-code="no-any-return"
# (what is read through a pointer or a memoryview has no type here)

from __future__ import annotations

from typing import Any

from tocsin.engine.runtime.plain import compiled, inlined
from tocsin.engine.runtime.words import FAR, H_SIZE, HORIZON, PINS, SPAN, START, TOP


@inlined
def first_at(H: Any, R: int, a: int, b: int, time: int) -> int:
    """The first place in [a, b) whose end is at or after `time`, or b."""
    while b - a > 8:
        middle = (a + b) >> 1
        if H[middle * R] < time:
            a = middle + 1
        else:
            b = middle
    while a < b and H[a * R] < time:
        a += 1
    return a


@inlined
def first_after(H: Any, R: int, a: int, b: int, time: int) -> int:
    """The first place in [a, b) whose end is after `time`, or b."""
    while b - a > 8:
        middle = (a + b) >> 1
        if H[middle * R] <= time:
            a = middle + 1
        else:
            b = middle
    while a < b and H[(b - 1) * R] > time:
        b -= 1
    return b


@inlined
def between(H: Any, R: int, a: int, b: int, low: int, high: int) -> tuple[int, int]:
    """The part of [a, b) whose ends lie in [low, high]."""
    b = first_after(H, R, a, b, high)
    return first_at(H, R, a, b, low), b


@inlined
def near(H: Any, R: int, a: int, b: int, low: int, high: int) -> tuple[int, int]:
    """`between`, where [low, high] is most often near the end of [a, b), as that of intervals that share time."""
    if b > a and H[(b - 1) * R] > high:
        b = first_after(H, R, a, b, high)
    recent = max(a, b - 8)
    if recent > a and H[recent * R] >= low:
        return first_at(H, R, a, recent, low), b
    a = b
    while a > recent and H[(a - 1) * R] >= low:
        a -= 1
    return a, b


@inlined
def slide(H: Any, R: int, a: int, b: int, stop: int, low: int, high: int) -> tuple[int, int]:
    """The part of places up to `stop` whose ends lie in [low, high], if both grew since [a, b) was that part."""
    far = b + 8
    while b < stop and b < far and H[b * R] <= high:
        b += 1
    if b == far and b < stop:
        b = first_after(H, R, b, stop, high)
    far = a + 8
    while a < b and a < far and H[a * R] < low:
        a += 1
    if a == far and a < b:
        a = first_at(H, R, a, b, low)
    return a, b


@inlined
def pinned(T: Any, H: Any, R: int, level: int) -> tuple[int, int, int]:
    """Where the leaf of a level is pinned (-1: nowhere), and bounds on its end: exact if it is pinned, else none."""
    place = T[PINS + level]
    if place < 0:
        return place, -FAR, FAR
    return place, H[place * R], H[place * R]


@inlined
def narrow(
    H: Any, R: int, D: Any, N: Any, d: int, place: int, low: int, high: int, mn: int, mx: int
) -> tuple[int, int, int, int, int, int]:
    """The range of a leaf, and bounds on its ends; a pinned leaf is a range of one, an empty range has a == b.

    `mn` and `mx` bound the first start and the last end of a match; they come back with this leaf taken in.
    """
    if place >= 0:
        return place, place + 1, H[place * R], H[place * R], mn, mx
    if N[d] < low:
        return 0, 0, 0, 0, mn, mx
    a, b = between(H, R, D[4 * d + 1], D[4 * d + 2], low, high)
    if a >= b:
        return b, b, 0, 0, mn, mx
    return a, b, H[a * R], H[(b - 1) * R], min(mn, H[(b - 1) * R]), max(mx, H[a * R])


@inlined
def narrow_near(
    H: Any, R: int, D: Any, N: Any, d: int, place: int, low: int, high: int, mn: int, mx: int
) -> tuple[int, int, int, int, int, int]:
    """`narrow` by `near`."""
    if place >= 0:
        return place, place + 1, H[place * R], H[place * R], mn, mx
    if N[d] < low:
        return 0, 0, 0, 0, mn, mx
    a, b = near(H, R, D[4 * d + 1], D[4 * d + 2], low, high)
    if a >= b:
        return b, b, 0, 0, mn, mx
    return a, b, H[a * R], H[(b - 1) * R], min(mn, H[(b - 1) * R]), max(mx, H[a * R])


@inlined
def reserve(T: Any, H: Any, R: int, D: Any, d: int) -> bool:
    """Make room for one more event in buffer d. False: H is full."""
    if D[4 * d + 2] < D[4 * d] + D[4 * d + 3]:
        return True
    return make_room(T, H, R, D, d)


@compiled
def make_room(T: Any, H: Any, R: int, D: Any, d: int) -> bool:
    """Drop what lies behind the horizon; if that is not enough, move the buffer to twice its size.

    An event that begins behind the horizon is needed by nobody, too: all of a match lies within the window. It stays
    while a copy of it may come, that is as long as one that ends with it.
    """
    origin = D[4 * d]
    begin = D[4 * d + 1]
    end = D[4 * d + 2]
    capacity = D[4 * d + 3]
    while begin < end and H[begin * R] < T[HORIZON]:
        begin += 1
    if begin == end:
        begin = origin
        end = origin
    D[4 * d + 1] = begin
    D[4 * d + 2] = end
    if end < origin + capacity:
        return True
    count = end - begin
    if T[START] > 0:
        count = needed(H, R, begin, end, T[START], T[HORIZON], T[HORIZON] + T[SPAN]) - begin
        D[4 * d + 2] = begin + count
        if begin + count < origin + capacity - (capacity >> 2):
            return True
    if begin - origin >= (capacity >> 1) and begin > origin:
        move(H, R, begin, origin, count)
        D[4 * d + 1] = origin
        D[4 * d + 2] = origin + count
        return True
    bigger = max(2, 2 * capacity)
    top = T[TOP]
    if top + bigger > T[H_SIZE]:
        return False
    move(H, R, begin, top, count)
    T[TOP] = top + bigger
    D[4 * d] = top
    D[4 * d + 1] = top
    D[4 * d + 2] = top + count
    D[4 * d + 3] = bigger
    return True


@compiled
def needed(H: Any, R: int, a: int, b: int, rs: int, begun: int, ended: int) -> int:
    """Move those of the places [a, b) together that start at or after `begun`, or end at or after `ended`.

    Returns where they end.
    """
    kept = a
    for place in range(a, b):
        if H[place * R + rs] >= begun or H[place * R] >= ended:
            if kept < place:
                move(H, R, place, kept, 1)
            kept += 1
    return kept


@compiled
def move(H: Any, R: int, source: int, target: int, count: int) -> None:
    """Copy `count` places to the left or into free space."""
    for k in range(count * R):
        H[target * R + k] = H[source * R + k]


@inlined
def insert(H: Any, R: int, D: Any, N: Any, d: int, end: int, start: int, high: int, low: int, rs: int, rh: int) -> int:
    """Open the place of an event in buffer d, in canonical order; the caller fills it.

    `rs` is the word of a place that holds the start (0 if all events are points), `rh` that of the eid (-1: none).
    Returns the place, or -1 - place if the event is there already.
    """
    stop = D[4 * d + 2]
    ties = 1 if rh < 0 and rs == 0 else 0  # points without eids may be appended after their like
    if stop == D[4 * d + 1] or H[(stop - 1) * R] < end + ties:
        D[4 * d + 2] = stop + 1
        N[d] = end
        return stop
    return insert_within(H, R, D, d, end, start, high, low, rs, rh)


@compiled
def insert_within(H: Any, R: int, D: Any, d: int, end: int, start: int, high: int, low: int, rs: int, rh: int) -> int:
    begin = D[4 * d + 1]
    stop = D[4 * d + 2]
    place = first_after(H, R, begin, stop, end)
    while place > begin and H[(place - 1) * R] == end:
        before = (place - 1) * R
        if H[before + rs] < start:
            break
        if H[before + rs] == start:
            if rh < 0 or H[before + rh] < high:
                break
            if H[before + rh] == high:
                if H[before + rh + 1] < low:
                    break
                if H[before + rh + 1] == low:
                    return -place
        place -= 1
    for k in range(stop * R - 1, place * R - 1, -1):
        H[k + R] = H[k]
    D[4 * d + 2] = stop + 1
    return place


@compiled
def find(H: Any, R: int, D: Any, d: int, end: int, number: int) -> int:
    """The place of event `number` (which ends at `end`) in buffer d, or -1."""
    stop = D[4 * d + 2]
    place = first_at(H, R, D[4 * d + 1], stop, end)
    while place < stop and H[place * R] == end:
        if H[place * R + 1] == number:
            return place
        place += 1
    return -1


@compiled
def remove(H: Any, R: int, D: Any, N: Any, d: int, place: int) -> None:
    """Close the place of an event."""
    stop = D[4 * d + 2] - 1
    move(H, R, place + 1, place, stop - place)
    D[4 * d + 2] = stop
    N[d] = H[(stop - 1) * R] if stop > D[4 * d + 1] else -FAR


@compiled
def compact(T: Any, H: Any, R: int, D: Any, buffers: int, first: int, newH: Any, copy: bool) -> int:
    """Copy every live event into newH, tightly; what lies behind the horizon stays behind.

    Returns how many places that takes; with copy=False nothing else happens.
    """
    top = first
    for d in range(buffers):
        begin = D[4 * d + 1]
        end = D[4 * d + 2]
        while begin < end and H[begin * R] < T[HORIZON]:
            begin += 1
        count = end - begin
        capacity = 0
        if count > 0:
            capacity = 2
            while capacity < count:
                capacity *= 2
        if copy and D[4 * d + 3] > 0:
            for k in range(count * R):
                newH[top * R + k] = H[begin * R + k]
            D[4 * d] = top
            D[4 * d + 1] = top
            D[4 * d + 2] = top + count
            D[4 * d + 3] = capacity
        top += capacity
    if copy:
        T[TOP] = top
    return top
