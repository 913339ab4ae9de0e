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


def tied(count: int, rows: Array, codes: Array, end: Array, seen: Array, place: Array, ties: Array) -> int:
    """Mark events that end with another one of their key; ends never fall. `seen` has the last end of each key."""
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
