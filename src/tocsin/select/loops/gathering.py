"""AND in every mode, and single events: OR, or a pattern of one step.

In an AND events wait at their steps, in lists, until every step has one. A row of OUT is the end of a match and the
events of its steps; of cumulative how many members each step has, which are in MEM.
"""

from __future__ import annotations

from tocsin.select.loops.cumulative import MEMBER
from tocsin.select.loops.words import (
    CHRONICLE,
    CONTINUOUS,
    CUMULATIVE,
    EXCEEDS,
    FIRST,
    FREE,
    LATEST,
    MEM_N,
    MODE,
    NEEDS,
    NOBODY,
    OUT_N,
    RECENT,
    ROOM_MEMBERS,
    ROOM_NODES,
    ROOM_OUT,
    SNOOP_RECENT,
    STEPS,
    TOP,
    WITHIN,
    Array,
)

NODE = MEMBER
# of a list of a key: its first and its last node, and how many there are. A node: next, event, start, end
LIST = 3


def single(
    i: int, count: int, rows: Array, codes: Array, bits: Array, start: Array, end: Array,  # noqa: ARG001 - as all loops
    base: int, P: Array, S: Array, OUT: Array,  # noqa: ARG001
) -> int:  # fmt: skip
    """One step, or an OR: each event is a match by itself, at the last step that it can stand for."""
    n, within, exceeds, out = P[STEPS], P[WITHIN], P[EXCEEDS], P[OUT_N]
    room = len(OUT) // (n + 1)
    while i < count:
        if out >= room:
            P[NEEDS] = ROOM_OUT
            break
        r = rows[i]
        b, lasts = bits[r], end[r] - start[r]
        i += 1
        if (b >> (2 * n - 1) != 0 and n > 1) or lasts > within or lasts <= exceeds:
            continue
        o, step = out * (n + 1), n
        while step > 0 and (b >> (step - 1)) & 1 == 0:
            step -= 1
        if step > 0:
            OUT[o] = end[r]
            for m in range(n):
                OUT[o + 1 + m] = NOBODY
            OUT[o + step] = base + r
            out += 1
    P[OUT_N] = out
    return i


def gather(
    i: int, count: int, rows: Array, codes: Array, bits: Array, start: Array, end: Array,
    base: int, P: Array, S: Array, D: Array, W: Array, OUT: Array, MEM: Array,
) -> int:  # fmt: skip
    """AND. In the modes first and cumulative all that waits is one run, and goes as a whole."""
    n, mode, within, out, free, top = P[STEPS], P[MODE], P[WITHIN], P[OUT_N], P[FREE], P[TOP]
    room = len(OUT) // (n + 1)
    nodes = len(D) // NODE
    whole = mode in (FIRST, CUMULATIVE)
    while i < count:
        if free == NOBODY and top >= nodes:
            P[NEEDS] = ROOM_NODES
            break
        r = rows[i]
        b, e, s, number = bits[r], end[r], start[r], base + r
        at = codes[i] * n * LIST
        breaks = b >> (2 * n - 1) != 0
        over = False  # what waits goes as a whole
        for j in range(n):
            a = at + j * LIST
            before = NOBODY
            x = S[a]
            while x != NOBODY:
                following = D[x * NODE]
                if D[x * NODE + 3] < s if breaks else e - D[x * NODE + 2] > within:
                    if whole:
                        over = True
                        break
                    if before == NOBODY:
                        S[a] = following
                    else:
                        D[before * NODE] = following
                    if following == NOBODY:
                        S[a + 1] = before
                    S[a + 2] -= 1
                    D[x * NODE] = free
                    D[x * NODE + 1] = NOBODY
                    free = x
                else:
                    before = x
                x = following
        step, empty = 0, 0  # the last step that the event can take, and the last of these where nothing waits
        for j in range(n):
            if (b >> j) & 1:
                step = j + 1
                if over or S[at + j * LIST + 2] == 0:
                    empty = j + 1
        takes = not breaks and step > 0 and e - s <= within and (mode != FIRST or empty > 0)
        if empty > 0:
            step = empty
        done, product, members = takes and not over, 1, 1
        for j in range(n):
            waiting = S[at + j * LIST + 2]
            if j != step - 1:
                done = done and waiting > 0
                product *= max(waiting, 1)
                members += waiting
        if done:
            if out + (product if mode == CONTINUOUS else 1) > room:
                P[NEEDS] = ROOM_OUT
                break
            if mode == CUMULATIVE and P[MEM_N] + members + S[at + (step - 1) * LIST + 2] > len(MEM):
                P[NEEDS] = ROOM_MEMBERS
                break
        alone = RECENT <= mode <= LATEST
        for j in range(n):  # what goes before the event is taken
            a = at + j * LIST
            if over or (takes and alone and j == step - 1):
                x = S[a]
                while x != NOBODY:
                    following = D[x * NODE]
                    D[x * NODE] = free
                    D[x * NODE + 1] = NOBODY
                    free = x
                    x = following
                S[a], S[a + 1], S[a + 2] = NOBODY, NOBODY, 0
        i += 1
        if not takes:
            continue
        if free != NOBODY:
            x = free
            free = D[x * NODE]
        else:
            x = top
            top += 1
        D[x * NODE] = NOBODY
        D[x * NODE + 1] = number
        D[x * NODE + 2] = s
        D[x * NODE + 3] = e
        a = at + (step - 1) * LIST
        if S[a + 1] == NOBODY:
            S[a] = x
        else:
            D[S[a + 1] * NODE] = x
        S[a + 1] = x
        S[a + 2] += 1
        if not done:
            continue
        o = out * (n + 1)
        OUT[o] = e
        if mode == CUMULATIVE:
            for j in range(n):
                OUT[o + 1 + j] = S[at + j * LIST + 2]
                x = S[at + j * LIST]
                while x != NOBODY:
                    MEM[P[MEM_N]] = D[x * NODE + 1]
                    P[MEM_N] += 1
                    x = D[x * NODE]
            out += 1
        elif mode == CONTINUOUS:  # every choice of one event for each step; of the step at hand only this one
            for j in range(n):
                W[j] = S[at + j * LIST]
            W[step - 1] = S[a + 1]
            for k in range(product):
                o = (out + k) * (n + 1)
                OUT[o] = e
                for j in range(n):
                    OUT[o + 1 + j] = D[W[j] * NODE + 1]
                j = n - 1
                while j >= 0:
                    if j != step - 1:
                        W[j] = D[W[j] * NODE]
                        if W[j] != NOBODY:
                            break
                        W[j] = S[at + j * LIST]
                    j -= 1
            out += product
        else:
            for j in range(n):
                OUT[o + 1 + j] = D[S[at + j * LIST] * NODE + 1]
            out += 1
        if mode == SNOOP_RECENT:
            continue
        for j in range(n):  # a match uses up all that waits; of chronicle the oldest of each step
            a = at + j * LIST
            x = S[a]
            while x != NOBODY:
                following = D[x * NODE]
                D[x * NODE] = free
                D[x * NODE + 1] = NOBODY
                free = x
                x = following
                S[a + 2] -= 1
                if mode == CHRONICLE:
                    break
            S[a] = x
            if x == NOBODY:
                S[a + 1] = NOBODY
    P[OUT_N], P[FREE], P[TOP] = out, free, top
    return i
