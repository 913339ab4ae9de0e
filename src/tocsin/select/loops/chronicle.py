"""chronicle: prefixes stand in a queue for each length.

Paper: Gu, Yu and Li 2011, l. 174: the two-dimensional list, in which a prefix moves on without being copied.
"""

from __future__ import annotations

from tocsin.select.loops.words import (
    EXCEEDS,
    FREE,
    NEEDS,
    NOBODY,
    OUT_N,
    ROOM_NODES,
    ROOM_OUT,
    STEPS,
    TOP,
    WITHIN,
    Array,
)


def line_up(
    i: int, count: int, rows: Array, codes: Array, bits: Array, start: Array, end: Array,
    base: int, P: Array, S: Array, D: Array, OUT: Array,
) -> int:  # fmt: skip
    """S has the head and the tail of each queue; a node in D: next, first start, last end, first end, events."""
    n, within, exceeds, out, free, top = P[STEPS], P[WITHIN], P[EXCEEDS], P[OUT_N], P[FREE], P[TOP]
    width = n + 3
    room = len(OUT) // (n + 1)
    nodes = len(D) // width
    while i < count:
        if out >= room:
            P[NEEDS] = ROOM_OUT
            break
        if free == NOBODY and top >= nodes:
            P[NEEDS] = ROOM_NODES
            break
        r = rows[i]
        b, e, s, number = bits[r], end[r], start[r], base + r
        at = codes[i] * (n - 1) * 2
        i += 1
        if b >> (2 * n - 1):
            for j in range(n - 1):
                before = NOBODY
                x = S[at + 2 * j]
                while x != NOBODY:
                    following = D[x * width]
                    if D[x * width + 3] < s:
                        if before == NOBODY:
                            S[at + 2 * j] = following
                        else:
                            D[before * width] = following
                        if following == NOBODY:
                            S[at + 2 * j + 1] = before
                        D[x * width] = free
                        D[x * width + 4] = NOBODY
                        free = x
                    else:
                        before = x
                    x = following
            continue
        taken = False
        step = n
        while step > 1 and not taken:
            if (b >> (step - 1)) & 1:
                level = at + 2 * (step - 2)
                before = NOBODY
                x = S[level]
                while x != NOBODY and not taken:
                    w = x * width
                    following = D[w]
                    lasts = e - D[w + 1]
                    old = lasts > within
                    if not old and D[w + 2] >= s:
                        break
                    if not old and step == n and lasts <= exceeds:
                        before = x
                        x = following
                        continue
                    if before == NOBODY:  # it leaves its queue
                        S[level] = following
                    else:
                        D[before * width] = following
                    if following == NOBODY:
                        S[level + 1] = before
                    if not old:
                        taken = True
                        if step < n:
                            D[w] = NOBODY
                            D[w + 2] = e
                            D[w + 3 + step] = number
                            last = S[level + 3]
                            if last == NOBODY:
                                S[level + 2] = x
                            else:
                                D[last * width] = x
                            S[level + 3] = x
                        else:
                            o = out * (n + 1)
                            OUT[o] = e
                            for m in range(n - 1):
                                OUT[o + 1 + m] = D[w + 4 + m]
                            OUT[o + n] = number
                            out += 1
                    if old or step == n:
                        D[w] = free
                        D[w + 4] = NOBODY
                        free = x
                    x = following
            step -= 1
        if b >> n:
            for j in range(n - 1):
                if (b >> (n + j)) & 1:
                    x = S[at + 2 * j]
                    while x != NOBODY and D[x * width + 2] < s:
                        following = D[x * width]
                        D[x * width] = free
                        D[x * width + 4] = NOBODY
                        free = x
                        x = following
                    S[at + 2 * j] = x
                    if x == NOBODY:
                        S[at + 2 * j + 1] = NOBODY
        if b & 1 and not taken and e - s <= within:
            if free != NOBODY:
                x = free
                free = D[x * width]
            else:
                x = top
                top += 1
            w = x * width
            D[w] = NOBODY
            D[w + 1] = s
            D[w + 2] = e
            D[w + 3] = e
            D[w + 4] = number
            for m in range(1, n - 1):
                D[w + 4 + m] = NOBODY
            last = S[at + 1]
            if last == NOBODY:
                S[at] = x
            else:
                D[last * width] = x
            S[at + 1] = x
    P[OUT_N], P[FREE], P[TOP] = out, free, top
    return i
