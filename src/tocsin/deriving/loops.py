"""The loops over readings, plain or compiled: they follow the open interval of each key and write down what has ended.

Every loop takes up at row `i` and stops before a row for which there is no room. `V` and `K` have what each fold asks
of each row: the value (of a count: 1 or 0), and whether there is one. `P`, `S`, `D` and answers are laid out in
`deriving/words`.
"""

from __future__ import annotations

from tocsin.deriving.words import (
    ALONE,
    ANSWER,
    BEGAN,
    BEGIN,
    BEGINS,
    BEGUN,
    BEHIND,
    CAME,
    CODE,
    COME,
    COUNT,
    DEPTH,
    END,
    ENDS_ALSO,
    FIRST,
    FOLDS,
    FREE,
    GAP,
    HEAD,
    KIND,
    KNOWN,
    LABEL,
    LAST,
    LAST_ALONE,
    MAX,
    MIN,
    MISSED,
    MISSED_AT,
    NEEDS,
    NOBODY,
    NODE,
    NONE,
    NUMBER,
    OCCURRENCE,
    OF,
    OUT_N,
    OUTERMOST,
    PAIRS,
    PLACE,
    POLICY,
    QUEUED,
    RESTART,
    ROOM_NODES,
    ROOM_OUT,
    RUN,
    START,
    STATES,
    TAIL,
    TIME,
    TOP,
    UNPAIRED,
    UNTIL_NEXT,
    WAITING,
    WHOLE,
    Array,
)


def follow_runs(
    i: int, count: int, rows: Array, codes: Array, bits: Array, time: Array, V: Array, K: Array, F: Array,
    S: Array, L: Array, OUT: Array, P: Array,
) -> int:  # fmt: skip
    """Runs of a state, and sessions, which are runs of the only state. L has the last reading of each key's run."""
    folds, gap, states = P[FOLDS], P[GAP], P[STATES]
    until_next = P[UNTIL_NEXT] != 0
    stride = RUN + 2 * folds
    width = ANSWER + 2 * folds
    out, room = P[OUT_N], len(OUT) // width
    while i < count:
        if out >= room:
            P[NEEDS] = ROOM_OUT
            break
        r = rows[i]
        c = codes[i]
        t = time[r]
        s = c * stride
        label = 0
        if states > 0:
            b = bits[r] >> 1
            if b == 0:
                label = NOBODY
            else:
                while b & 1 == 0:
                    b >>= 1
                    label += 1
        last = L[c]
        if last != NONE:
            apart = t - last > gap
            if apart or S[s + LABEL] != label:
                o = out * width
                OUT[o + KNOWN] = last + gap if apart else t
                OUT[o + CODE] = c
                OUT[o + KIND] = WHOLE
                OUT[o + OF] = S[s + LABEL]
                OUT[o + START] = S[s + BEGIN]
                OUT[o + END] = t if until_next and not apart else last
                OUT[o + OCCURRENCE] = S[s + NUMBER]
                for k in range(2 * folds):
                    OUT[o + ANSWER + k] = S[s + RUN + k]
                out += 1
                last = NONE
        if label == NOBODY:
            L[c] = NONE
        else:
            if last == NONE:
                S[s + LABEL] = label
                S[s + BEGIN] = t
                if S[s + BEGAN] == t:
                    S[s + BEGUN] += 1
                else:
                    S[s + BEGAN] = t
                    S[s + BEGUN] = 0
                S[s + NUMBER] = S[s + BEGUN]
                for k in range(2 * folds):
                    S[s + RUN + k] = 0
            for k in range(folds):
                f = F[k]
                h = s + RUN + 2 * k
                v = V[k, r]
                if f == COUNT:
                    S[h + 1] += v
                elif f == LAST or (f == FIRST and last == NONE):
                    S[h] = K[k, r]
                    S[h + 1] = v
                elif (
                    f != FIRST
                    and K[k, r] != 0
                    and (S[h] == 0 or (f == MIN and v < S[h + 1]) or (f == MAX and v > S[h + 1]))
                ):
                    S[h] = 1
                    S[h + 1] = v
            L[c] = t
        i += 1
    P[OUT_N] = out
    return i


def begins_at(count: int, rows: Array, codes: Array, roles: Array, time: Array, seen: Array, rest: Array) -> None:
    """For each end, how many begins of its key and time follow it. `seen` has two words for each key, at first NONE."""
    for j in range(count):
        i = count - 1 - j
        s = codes[i] * 2
        t = time[rows[i]]
        if seen[s] != t:
            seen[s] = t
            seen[s + 1] = 0
        if roles[i] == BEGINS:
            seen[s + 1] += 1
        rest[i] = seen[s + 1]


def follow_pairs(
    i: int, count: int, rows: Array, codes: Array, roles: Array, rest: Array, time: Array, V: Array, K: Array, F: Array,
    S: Array, D: Array, OUT: Array, P: Array,
) -> int:  # fmt: skip
    """Pairs of a begin and an end; of one key and time the ends come first. D has nodes, in lists for each key."""
    folds, policy = P[FOLDS], P[POLICY]
    width, node = ANSWER + 2 * folds, NODE + 2 * folds
    out, room, nodes = P[OUT_N], len(OUT) // width, len(D) // node
    while i < count:
        if out >= room:
            P[NEEDS] = ROOM_OUT
            break
        if P[FREE] == NOBODY and P[TOP] >= nodes:
            P[NEEDS] = ROOM_NODES
            break
        r = rows[i]
        t = time[r]
        s = codes[i] * PAIRS
        begins = roles[i] == BEGINS
        x = NOBODY  # the node that this event pairs with
        waits = False  # it becomes a node itself
        place = 0
        if begins:
            if S[s + CAME] == t:
                S[s + COME] += 1
            else:
                S[s + CAME] = t
                S[s + COME] = 0
            place = S[s + COME]
            if S[s + WAITING] > 0:
                S[s + WAITING] -= 1
                x = S[s + ALONE]
                S[s + ALONE] = D[x * node + BEHIND]
            elif policy == OUTERMOST and S[s + HEAD] != NOBODY:
                S[s + DEPTH] += 1
            else:
                waits = True
        elif S[s + DEPTH] > 0:
            S[s + DEPTH] -= 1
        elif S[s + HEAD] != NOBODY:
            x = S[s + HEAD]
            S[s + HEAD] = D[x * node + BEHIND]
            place = D[x * node + PLACE]
        elif roles[i] != ENDS_ALSO:
            waits = S[s + WAITING] < rest[i]
            if not waits:
                if S[s + MISSED_AT] == t:
                    S[s + MISSED] += 1
                else:
                    S[s + MISSED_AT] = t
                    S[s + MISSED] = 0
                o = out * width
                OUT[o + KNOWN] = t
                OUT[o + CODE] = codes[i]
                OUT[o + KIND] = UNPAIRED
                OUT[o + OF] = 0
                OUT[o + START] = t
                OUT[o + END] = t
                OUT[o + OCCURRENCE] = S[s + MISSED]
                for k in range(2 * folds):
                    OUT[o + ANSWER + k] = NOBODY
                out += 1
        if x != NOBODY:
            o, d = out * width, x * node
            OUT[o + KNOWN] = t
            OUT[o + CODE] = codes[i]
            OUT[o + KIND] = WHOLE
            OUT[o + OF] = 0
            OUT[o + START] = D[d + TIME]
            OUT[o + END] = t
            OUT[o + OCCURRENCE] = place
            for k in range(folds):
                f = F[k]
                h, v = D[d + NODE + 2 * k], D[d + NODE + 2 * k + 1]
                w = V[k, r]
                if f == COUNT:
                    v += w
                elif f == (FIRST if begins else LAST):
                    h, v = K[k, r], w
                elif (
                    f != FIRST
                    and f != LAST
                    and K[k, r] != 0
                    and (h == 0 or (f == MIN and w < v) or (f == MAX and w > v))
                ):
                    h, v = 1, w
                OUT[o + ANSWER + 2 * k] = h
                OUT[o + ANSWER + 2 * k + 1] = v
            D[d + BEHIND] = P[FREE]
            P[FREE] = x
            out += 1
        if waits:
            if begins and policy == RESTART and S[s + HEAD] != NOBODY:
                x = S[s + HEAD]
                D[x * node + BEHIND] = P[FREE]
                P[FREE] = x
                S[s + HEAD] = NOBODY
            x = P[FREE]
            if x == NOBODY:
                x = P[TOP]
                P[TOP] += 1
            else:
                P[FREE] = D[x * node + BEHIND]
            d = x * node
            D[d + BEHIND] = NOBODY
            D[d + TIME] = t
            D[d + PLACE] = place
            for k in range(folds):
                D[d + NODE + 2 * k] = K[k, r]
                D[d + NODE + 2 * k + 1] = V[k, r]
            if not begins:
                if S[s + WAITING] > 0:
                    D[S[s + LAST_ALONE] * node + BEHIND] = x
                else:
                    S[s + ALONE] = x
                S[s + LAST_ALONE] = x
                S[s + WAITING] += 1
            elif policy == QUEUED and S[s + HEAD] != NOBODY:
                D[S[s + TAIL] * node + BEHIND] = x
                S[s + TAIL] = x
            else:
                D[d + BEHIND] = S[s + HEAD]
                S[s + HEAD] = x
                S[s + TAIL] = x  # it matters to queues only, which grow here from nothing
        i += 1
    P[OUT_N] = out
    return i
