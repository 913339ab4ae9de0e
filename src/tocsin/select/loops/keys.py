"""Keys: a code for each, which of their events end together, and what is freed with them."""

from __future__ import annotations

from tocsin.select.loops.words import FREE, NOBODY, Array


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


def arrange(
    count: int, rows: Array, codes: Array, bits: Array, start: Array, end: Array,
    steps: int, seen: Array, place: Array, before: Array, ties: Array,
) -> int:  # fmt: skip
    """Of one key and end, let events go first that can stand for later steps, then those that start earlier.

    The ends never fall; `seen` has the last end of each key. Those that are equal in both are marked; how many pairs.
    """
    for i in range(count):
        code = codes[i]
        e = end[rows[i]]
        before[i] = place[code] if seen[code] == e else NOBODY
        seen[code] = e
        place[code] = i
        j = i
        p = before[i]
        while p != NOBODY:
            mine, other = rows[j], rows[p]
            x, y = bits[mine] & steps, bits[other] & steps
            later = x & ~y > y  # the highest bit of x is above that of y
            if not later and (y & ~x > x or start[mine] >= start[other]):
                break
            rows[j], rows[p] = other, mine
            j = p
            p = before[p]
    pairs = 0
    for i in range(count):
        p = before[i]
        if p != NOBODY:
            x, y = bits[rows[i]] & steps, bits[rows[p]] & steps
            if not (x & ~y > y or y & ~x > x) and start[rows[i]] == start[rows[p]]:
                pairs += 1
                ties[i] = True
                ties[p] = True
    return pairs


def release(
    count: int, keys: Array, S: Array, D: Array, P: Array, stride: int, head: int,
    apart: int, lists: int, node: int, following: int, event: int,
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
