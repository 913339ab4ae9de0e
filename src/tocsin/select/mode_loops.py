"""The modes as loops over columns: what `select/consumption` says of one event, for many, in order, without objects.

Each takes events i to count and stops early where there is no room. Plain Python here; `mode_kernels` compiles the same
text. A row of OUT is the end of a match and the events of its steps (for sets: how many; the members are in MEM).

Paper: Gu, Yu and Li 2011, 2.2; the nodes of chronicle and continuous are the two-dimensional list of l. 160-174.
"""

from __future__ import annotations

from typing import Any

NOBODY = -1
EMPTY = -(1 << 62)  # the first start of a slot in which no prefix waits; no time is so early
STEPS, MODE, WITHIN, EXCEEDS, OUT_N, MEM_N, FREE, TOP, NEEDS, WORDS = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9  # of P
ROOM_OUT, ROOM_NODES, ROOM_MEMBERS = 1, 2, 3  # what is needed
FIRST, RECENT, SNOOP_RECENT, LATEST = 0, 1, 2, 3  # modes of one slot for each length
Array = Any


def extend_slots(
    i: int, count: int, rows: Array, codes: Array, bits: Array, start: Array, end: Array, base: int, P: Array, S: Array, OUT: Array,
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
                    if mode == RECENT or mode == SNOOP_RECENT:
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
                if mode == FIRST or mode == LATEST:
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


def line_up(
    i: int, count: int, rows: Array, codes: Array, bits: Array, start: Array, end: Array, base: int, P: Array, S: Array, D: Array, OUT: Array,
) -> int:  # fmt: skip
    """chronicle. S has the head and the tail of each queue; a node in D: next, first start, last end, first end, events."""
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


# of a level of continuous: its first and last node, the index of its first, that of the next to come, and from which on
HEAD, TAIL, DROPPED, COMING, ALIVE, LEVEL = 0, 1, 2, 3, 4, 5
# of a node: the one before, the one behind, its index, latest first start, end, event, and those of the level before
PREV, NEXT, INDEX, SINCE, ENDS, EVENT, PARENT, OF_PARENT, LOW, NODE = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9


def combine(
    i: int, count: int, rows: Array, codes: Array, bits: Array, start: Array, end: Array, base: int, P: Array, S: Array, D: Array, W: Array, OUT: Array,
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


# of the run of a key: how many steps it has, its first start, the last ends of its last two sets, its first end
RUN, SINCE_RUN, BEFORE, LAST, FIRST_END, SETS = 0, 1, 2, 3, 4, 5
# behind these, for each set: its first and its last member, and how many there are. A member: next, event, start, end
MEMBER = 4


def accumulate(
    i: int, count: int, rows: Array, codes: Array, bits: Array, start: Array, end: Array, base: int, P: Array, S: Array, D: Array, OUT: Array, MEM: Array,
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


# --- keys --------------------------------------------------------------------------------------------------------


def codes_of(
    i: int, count: int, rows: Array, words: Array, known: Array, table: Array, total: int, codes: Array
) -> tuple[int, int]:
    """The code of the key of each row, a new one if needed; stops where there is no room for a new one.

    words[k] is the k-th part of the key of every row, known[code] has the parts of a key, table the codes by hash.
    """
    parts = len(words)
    mask = len(table) - 1
    while i < count:
        r = rows[i]
        h = 0
        for k in range(parts):
            h = (h ^ words[k, r]) * -7046029254386353131 & 9223372036854775807
            h ^= h >> 29
        slot = h & mask
        code = table[slot]
        while code != NOBODY:
            same = True
            for k in range(parts):
                same = same and known[code, k] == words[k, r]
            if same:
                break
            slot = (slot + 1) & mask
            code = table[slot]
        if code == NOBODY:
            if total >= len(known):
                break
            for k in range(parts):
                known[total, k] = words[k, r]
            table[slot] = total
            code = total
            total += 1
        codes[i] = code
        i += 1
    return i, total


def tied(count: int, rows: Array, codes: Array, end: Array, seen: Array, place: Array, ties: Array) -> int:
    """Mark the events that end with another one of their key; the ends never fall. `seen` has the last end of each key."""
    found = 0
    for i in range(count):
        code = codes[i]
        e = end[rows[i]]
        if seen[code] == e:
            found += 1
            ties[i] = True
            ties[place[code]] = True
        else:
            seen[code] = e
        place[code] = i
    return found


def release(
    count: int, keys: Array, S: Array, D: Array, P: Array, stride: int, head: int, apart: int, lists: int, node: int, following: int, event: int,
) -> None:  # fmt: skip
    """Free all nodes of some keys; `lists` heads stand `apart` words from each other, the first at `head`."""
    free = P[FREE]
    for i in range(count):
        for j in range(lists):
            x = S[keys[i] * stride + head + apart * j]
            while x != NOBODY:
                behind = D[x * node + following]
                D[x * node + following] = free
                D[x * node + event] = NOBODY
                free = x
                x = behind
    P[FREE] = free
