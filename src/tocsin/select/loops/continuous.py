"""continuous: an event is kept once, with the range of events of the step before that it extends.

Combinations are made when they are complete. Only for events without length: then what stands further back in a level
began no later.
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

# of a level of continuous: its first and last node, the index of its first, that of the next to come, and from which on
HEAD, TAIL, DROPPED, COMING, ALIVE, LEVEL = 0, 1, 2, 3, 4, 5
# of a node: the one before, the one behind, its index, latest first start, end, event, and those of the level before
PREV, NEXT, INDEX, SINCE, ENDS, EVENT, PARENT, OF_PARENT, LOW, NODE = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9


def combine(
    i: int, count: int, rows: Array, codes: Array, bits: Array, start: Array, end: Array,  # noqa: ARG001 - as all loops
    base: int, P: Array, S: Array, D: Array, W: Array, OUT: Array,
) -> int:  # fmt: skip
    """continuous, over events without length. W has a node and its index for each level of the combination at hand."""
    n, within, exceeds, out, free, top = P[STEPS], P[WITHIN], P[EXCEEDS], P[OUT_N], P[FREE], P[TOP]
    room = len(OUT) // (n + 1)
    nodes = len(D) // NODE
    while i < count:
        if free == NOBODY and top >= nodes:
            P[NEEDS] = ROOM_NODES
            break
        r = rows[i]
        b, e, number = bits[r], end[r], base + r
        at = codes[i] * (n - 1) * LEVEL
        for j in range(n - 1):  # what no window reaches any more
            a = at + j * LEVEL
            x = S[a + HEAD]
            while x != NOBODY and e - D[x * NODE + SINCE] > within:
                following = D[x * NODE + NEXT]
                D[x * NODE + NEXT] = free
                D[x * NODE + EVENT] = NOBODY
                free = x
                x = following
                S[a + DROPPED] += 1
            S[a + HEAD] = x
            if x == NOBODY:
                S[a + TAIL] = NOBODY
            S[a + ALIVE] = max(S[a + ALIVE], S[a + DROPPED])
        flushed, taken, full = n, False, False  # from which level on all nodes go
        place, parent, step = NOBODY, NOBODY, n
        if b >> (2 * n - 1):
            step, flushed, taken = 0, 1, True
        while step > 1 and not taken:
            if (b >> (step - 1)) & 1:
                a = at + (step - 2) * LEVEL
                x = S[a + TAIL]
                index = S[a + COMING] - 1
                while index >= S[a + ALIVE] and D[x * NODE + ENDS] >= e:
                    x = D[x * NODE + PREV]
                    index -= 1
                if index >= S[a + ALIVE]:
                    if step < n:
                        taken, place, parent = True, step - 1, x
                    else:
                        mark = out
                        level = n - 2
                        W[2 * level] = x
                        W[2 * level + 1] = index
                        low = S[a + ALIVE]
                        W[2 * n + level] = low
                        while level <= n - 2:
                            x = W[2 * level]
                            index = W[2 * level + 1]
                            if index < max(W[2 * n + level], S[at + level * LEVEL + DROPPED]):
                                level += 1  # all of this level; on with the one before on the level above
                                if level <= n - 2:
                                    W[2 * level] = D[W[2 * level] * NODE + PREV]
                                    W[2 * level + 1] -= 1
                                continue
                            if level > 0:
                                level -= 1
                                W[2 * level] = D[x * NODE + PARENT]
                                W[2 * level + 1] = D[x * NODE + OF_PARENT]
                                W[2 * n + level] = D[x * NODE + LOW]
                                continue
                            if e - D[x * NODE + SINCE] > exceeds:
                                if out >= room:
                                    full = True
                                    break
                                o = out * (n + 1)
                                OUT[o] = e
                                for m in range(n - 1):
                                    OUT[o + 1 + m] = D[W[2 * m] * NODE + EVENT]
                                OUT[o + n] = number
                                out += 1
                            W[0] = D[x * NODE + PREV]
                            W[1] -= 1
                        if full:
                            out = mark
                            break
                        if out > mark:
                            taken, flushed = True, 0
            step -= 1
        if full:
            P[NEEDS] = ROOM_OUT
            break
        i += 1
        if not taken:
            if b & 1:
                place = 0
            elif (b >> (n - 1)) & 1:
                flushed = 0
        if place >= 0:
            if free != NOBODY:
                x = free
                free = D[x * NODE + NEXT]
            else:
                x = top
                top += 1
            a = at + place * LEVEL
            D[x * NODE + PREV] = S[a + TAIL]
            D[x * NODE + NEXT] = NOBODY
            D[x * NODE + INDEX] = S[a + COMING]
            D[x * NODE + SINCE] = e if place == 0 else D[parent * NODE + SINCE]
            D[x * NODE + ENDS] = e
            D[x * NODE + EVENT] = number
            D[x * NODE + PARENT] = parent
            D[x * NODE + OF_PARENT] = NOBODY if place == 0 else D[parent * NODE + INDEX]
            D[x * NODE + LOW] = 0 if place == 0 else S[a - LEVEL + ALIVE]
            if S[a + TAIL] == NOBODY:
                S[a + HEAD] = x
            else:
                D[S[a + TAIL] * NODE + NEXT] = x
            S[a + TAIL] = x
            S[a + COMING] += 1
        for j in range(n - 1):
            a = at + j * LEVEL
            ends = flushed == 1 and j == 0  # what began before an event that interrupts is not extended any more
            if (flushed >= n and (b >> (n + j)) & 1) or ends:
                x = S[a + TAIL]
                index = S[a + COMING]
                while index > S[a + DROPPED] and D[x * NODE + ENDS] >= e:
                    x = D[x * NODE + PREV]
                    index -= 1
                S[a + ALIVE] = max(S[a + ALIVE], index)
            if j >= flushed:
                x = S[a + HEAD]
                while x != NOBODY:
                    following = D[x * NODE + NEXT]
                    D[x * NODE + NEXT] = free
                    D[x * NODE + EVENT] = NOBODY
                    free = x
                    x = following
                S[a + HEAD] = NOBODY
                S[a + TAIL] = NOBODY
                S[a + DROPPED] = S[a + COMING]
                S[a + ALIVE] = S[a + COMING]
    P[OUT_N], P[FREE], P[TOP] = out, free, top
    return i
