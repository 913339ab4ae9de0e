"""first, recent, snoop_recent and latest: one prefix of each length waits, at most.

It takes events i to count and stops early where there is no room. A row of OUT is the end of a match and the events of
its steps.
"""

from __future__ import annotations

from tocsin.select.loops.words import (
    EMPTY,
    EXCEEDS,
    FIRST,
    LATEST,
    MODE,
    NEEDS,
    OUT_N,
    RECENT,
    ROOM_OUT,
    SNOOP_RECENT,
    STEPS,
    WITHIN,
    Array,
)


def extend_slots(
    i: int, count: int, rows: Array, codes: Array, bits: Array, start: Array, end: Array,
    base: int, P: Array, S: Array, OUT: Array,
) -> int:  # fmt: skip
    """first, recent, snoop_recent, latest. A prefix in S: first start, last end, first end, its events."""
    n, mode, within, exceeds, out = P[STEPS], P[MODE], P[WITHIN], P[EXCEEDS], P[OUT_N]
    width = n + 2
    room = len(OUT) // (n + 1)
    while i < count:
        if out >= room:
            P[NEEDS] = ROOM_OUT
            break
        r = rows[i]
        b, e, s, number = bits[r], end[r], start[r], base + r
        at = codes[i] * (n - 1) * width
        i += 1
        if b >> (2 * n - 1):
            for j in range(n - 1):
                if S[at + j * width + 2] < s:
                    S[at + j * width] = EMPTY
            continue
        taken = False
        step = n
        while step > 1:
            p = at + (step - 2) * width
            lasts = e - S[p]
            fits = S[p] != EMPTY and lasts <= within and S[p + 1] < s and (step < n or lasts > exceeds)
            if (b >> (step - 1)) & 1 and fits:
                taken = True
                if step == n:
                    o = out * (n + 1)
                    OUT[o] = e
                    for m in range(n - 1):
                        OUT[o + 1 + m] = S[p + 3 + m]
                    OUT[o + n] = number
                    out += 1
                    if RECENT <= mode <= SNOOP_RECENT:
                        for j in range(n - 1):
                            q = at + j * width
                            shared = False
                            for m in range(j + 1):
                                shared = shared or S[q + 3 + m] == OUT[o + 1 + m]
                            if shared and (j > 0 or mode == RECENT):
                                S[q] = EMPTY
                else:
                    q = p + width
                    S[q] = S[p]
                    S[q + 1] = e
                    S[q + 2] = S[p + 2]
                    for m in range(step - 1):
                        S[q + 3 + m] = S[p + 3 + m]
                    S[q + 2 + step] = number
                if mode != RECENT and mode != SNOOP_RECENT:
                    S[p] = EMPTY
                if mode != LATEST:
                    break
            step -= 1
        if b >> n:
            for j in range(n - 1):
                if (b >> (n + j)) & 1 and S[at + j * width + 1] < s:
                    S[at + j * width] = EMPTY
        if b & 1 and (mode == LATEST or not taken) and e - s <= within:
            begins = True
            if mode == FIRST:
                for j in range(n - 1):
                    p = at + j * width
                    if S[p] != EMPTY and e - S[p] <= within:
                        begins = False
            if begins:
                S[at] = s
                S[at + 1] = e
                S[at + 2] = e
                S[at + 3] = number
    P[OUT_N] = out
    return i
