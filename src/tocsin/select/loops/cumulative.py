"""cumulative: one run for each key, whose steps are sets. A row of OUT says how many members; these are in MEM."""

from __future__ import annotations

from tocsin.select.loops.words import (
    EXCEEDS,
    FREE,
    MEM_N,
    NEEDS,
    NOBODY,
    OUT_N,
    ROOM_MEMBERS,
    ROOM_NODES,
    ROOM_OUT,
    STEPS,
    TOP,
    WITHIN,
    Array,
)

# of the run of a key: how many steps it has, its first start, the last ends of its last two sets, its first end
RUN, SINCE_RUN, BEFORE, LAST, FIRST_END, SETS = 0, 1, 2, 3, 4, 5
# behind these, for each set: its first and its last member, and how many there are. A member: next, event, start, end
MEMBER = 4


def accumulate(
    i: int, count: int, rows: Array, codes: Array, bits: Array, start: Array, end: Array,
    base: int, P: Array, S: Array, D: Array, OUT: Array, MEM: Array,
) -> int:  # fmt: skip
    """cumulative, without conditions over sets."""
    n, within, exceeds, out, free, top = P[STEPS], P[WITHIN], P[EXCEEDS], P[OUT_N], P[FREE], P[TOP]
    width = SETS + 3 * (n - 1)
    room = len(OUT) // (n + 1)
    nodes = len(D) // MEMBER
    while i < count:
        if out >= room:
            P[NEEDS] = ROOM_OUT
            break
        if free == NOBODY and top >= nodes:
            P[NEEDS] = ROOM_NODES
            break
        r = rows[i]
        b, e, s, number = bits[r], end[r], start[r], base + r
        at = codes[i] * width
        run = S[at + RUN]
        over = run > 0 and e - S[at + SINCE_RUN] > within
        if b >> (2 * n - 1):
            over = over or (run > 0 and S[at + FIRST_END] < s)
        ready = run > 0 and not over and S[at + LAST] < s
        joins = NOBODY  # which set the event is a member of
        done = b >> (2 * n - 1) != 0
        if not done and ready and (b >> run) & 1:
            if run + 1 < n:
                joins, done = run, True
            elif e - min(S[at + SINCE_RUN], s) > exceeds:
                many = 0
                for j in range(n - 1):
                    many += S[at + SETS + 3 * j + 2]
                if P[MEM_N] + many > len(MEM):
                    P[NEEDS] = ROOM_MEMBERS
                    break
                o = out * (n + 1)
                OUT[o] = e
                for j in range(n - 1):
                    OUT[o + 1 + j] = S[at + SETS + 3 * j + 2]
                    x = S[at + SETS + 3 * j]
                    while x != NOBODY:
                        MEM[P[MEM_N]] = D[x * MEMBER + 1]
                        P[MEM_N] += 1
                        x = D[x * MEMBER]
                OUT[o + n] = number
                out += 1
                over, done = True, True
        i += 1
        behind = run < 2 or S[at + BEFORE] < s
        if not done and not over and run > 0 and (b >> (run - 1)) & 1 and behind and e - s <= within:
            joins, done = run - 1, True
        if not done and ready and (b >> (n + run - 1)) & 1:
            over = True
        if over:
            for j in range(n - 1):
                x = S[at + SETS + 3 * j]
                while x != NOBODY:
                    following = D[x * MEMBER]
                    D[x * MEMBER] = free
                    D[x * MEMBER + 1] = NOBODY
                    free = x
                    x = following
                S[at + SETS + 3 * j] = NOBODY
                S[at + SETS + 3 * j + 1] = NOBODY
                S[at + SETS + 3 * j + 2] = 0
            S[at + RUN] = 0
            run = 0
        if not done and run == 0 and b & 1 and e - s <= within:
            joins = 0
            S[at + SINCE_RUN] = s
            S[at + FIRST_END] = e
        if joins >= 0:
            if free != NOBODY:
                x = free
                free = D[x * MEMBER]
            else:
                x = top
                top += 1
            D[x * MEMBER] = NOBODY
            D[x * MEMBER + 1] = number
            D[x * MEMBER + 2] = s
            D[x * MEMBER + 3] = e
            if joins >= run:
                S[at + BEFORE] = S[at + LAST]
                S[at + RUN] = joins + 1
            S[at + LAST] = e
            S[at + SINCE_RUN] = min(S[at + SINCE_RUN], s)
            head = at + SETS + 3 * joins
            if S[head + 1] == NOBODY:
                S[head] = x
            else:
                D[S[head + 1] * MEMBER] = x
            S[head + 1] = x
            S[head + 2] += 1
    P[OUT_N], P[FREE], P[TOP] = out, free, top
    return i
