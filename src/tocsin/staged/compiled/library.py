"""What generated functions call: lists of events, tables of keys, timers and aggregates, all in arrays of words.

Everything that a statement remembers are records in one array `D`; an address is a place in it. A record that is freed
goes to a list of free ones of its kind, whose first is in `P`. The text of this module runs as it is, or compiled.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = Any
NIL, ABSENT, WHOLE = -1, -2, -3  # in a match: nothing, an operand that an Or leaves out, all that a list has
SETS = -16  # in a match, from here on down: the set of events at the place `SETS - word` of E, first how many they are
TICKS = 0  # in a match: an At or Every that happens
FREED = -1  # the stamp of a node that is in no list

# what P has: numbers that outlast a call
TOP, FREE_NODE, FREE_LOCAL, FREE_CONTEXT, FREE_PARTITION, FREE_SEEN = 0, 1, 2, 3, 4, 5
PARTITIONS, LOCALS, SEEN = 6, 7, 8  # entries of the tables
CREATED, IS_CREATED, CLOCK, TIMERS, STAGE, RUN, NUMBER, UNIVERSAL, KEPT = 9, 10, 11, 12, 13, 14, 15, 16, 17
OUT_N, UNSORTED, FREE_VALUE, VALUES = 18, 19, 20, 21
LEFT, SOME = 22, 1024  # partitions that the last look at all of them has left, and how many may be new since
FREE_RUN, FREE_MATCH, FREE_ONCE, ONCES = 23, 24, 25, 26
ROOM = 27  # from here on, how many words there are of each array that may become longer
GROWING = ("D", "TG", "TL", "TS", "TV", "TU", "Q", "M", "W", "H", "O", "V", "E", "U")
TABLES = ("TG", "TL", "TS", "TV", "TU")
PARAMETERS = ROOM + len(GROWING)

# a node: an event in the list of an operand
NEXT, PREV, STAMP, AT, START, END, NULLS, ATTRS = 0, 1, 2, 3, 4, 5, 6, 7
# a list
HEAD, TAIL, COUNT, ENDS = 0, 1, 2, 3  # the last only where a window counts stages: how many ends they have
# the events of a list with one value of an attribute: the first and the last, and the key: list, attribute, value
FIRST, LAST, OF_LIST, OF_ATTR, OF_VALUE, VALUE_SIZE = 0, 1, 2, 3, 4, 5
# what a node has for each attribute by which it is found: the record of its value, its neighbours there
HOME, BEFORE, BEHIND = 0, 1, 2
# a value that counts once in an aggregate: the next one of that aggregate, its address, the value
ONCE_KEY, ONCE_SIZE = 1, 3
# a row of input: the type, then what a node has from its start on
ROW = 4


def pointer(words: Array) -> Array:
    """How an array is reached: compiled it is a number, its address."""
    return words


def reals(words: Array) -> Array:
    """Words read as numbers with fractions."""
    return words.view(np.float64)


def called(host: Any, which: int, need: int) -> Any:
    """Call the host: it makes array `which` longer; numbers beyond the arrays ask a calendar."""
    return host(which, need)


def room(host: Any, which: int, need: int) -> Array:
    """An array with more room than before."""
    return called(host, which, need)


# --- tables of keys: T has addresses of records, whose key stands `off` words behind ------------------------------


def hash_of(words: Array, at: int, count: int) -> int:
    found = 0
    for k in range(count):
        found = (found ^ int(words[at + k])) * -7046029254386353131 & 9223372036854775807
        found ^= found >> 29
    return found


def slot_of(table: Array, mask: int, D: Array, off: int, words: Array, at: int, count: int) -> int:
    """The place of the record with a key, or where it would stand; `mask` is one less than the places."""
    slot = hash_of(words, at, count) & mask
    while table[slot] != NIL:
        key = table[slot] + off
        k = 0
        while k < count and D[key + k] == words[at + k]:
            k += 1
        if k == count:
            break
        slot = (slot + 1) & mask
    return slot


def refill(table: Array, size: int, more: Array, mask: int, D: Array, off: int, count: int) -> None:
    """Put the records of a table into an empty one that has more room."""
    for old in range(size):
        if table[old] != NIL:
            slot = hash_of(D, table[old] + off, count) & mask
            while more[slot] != NIL:
                slot = (slot + 1) & mask
            more[slot] = table[old]


def take_out(table: Array, mask: int, D: Array, off: int, count: int, slot: int) -> None:
    """Empty a slot of a table (open addressing), and move up the records behind it that were displaced by it."""
    table[slot] = NIL
    other = (slot + 1) & mask
    while table[other] != NIL:
        home = hash_of(D, table[other] + off, count) & mask
        if (other - home) & mask >= (other - slot) & mask:
            table[slot] = table[other]
            table[other] = NIL
            slot = other
        other = (other + 1) & mask


# --- lists ---------------------------------------------------------------------------------------------------------


def append(D: Array, P: Array, at: int, node: int, ends: bool) -> None:
    """Put a node at the end of the list at an address; `ends`: those are counted."""
    last = D[at + TAIL]
    D[node + NEXT] = NIL
    D[node + PREV] = last
    if last == NIL:
        D[at + HEAD] = node
    else:
        D[last + NEXT] = node
    if ends and (last == NIL or D[last + END] != D[node + END]):
        D[at + ENDS] += 1
    D[at + TAIL] = node
    D[at + COUNT] += 1
    P[KEPT] += 1


def remove(D: Array, P: Array, at: int, node: int, ends: bool) -> None:
    """Take a node out of its list, and free it."""
    after, before = D[node + NEXT], D[node + PREV]
    alone = True  # with its end, which equal ones beside it would share
    if before == NIL:
        D[at + HEAD] = after
    else:
        D[before + NEXT] = after
        alone = D[before + END] != D[node + END]
    if after == NIL:
        D[at + TAIL] = before
    else:
        D[after + PREV] = before
        alone = alone and D[after + END] != D[node + END]
    if ends and alone:
        D[at + ENDS] -= 1
    D[at + COUNT] -= 1
    D[node + NEXT] = P[FREE_NODE]
    D[node + STAMP] = FREED
    P[FREE_NODE] = node
    P[KEPT] -= 1


def expire(D: Array, P: Array, at: int, until: int, ends: bool) -> None:
    """Free the events of a list that end at `until` or before."""
    while D[at + HEAD] != NIL and D[D[at + HEAD] + END] <= until:
        remove(D, P, at, D[at + HEAD], ends)


def clear(D: Array, P: Array, at: int, ends: bool) -> None:
    """Free all events of a list."""
    if D[at + HEAD] != NIL:
        P[KEPT] -= D[at + COUNT]
        D[D[at + TAIL] + NEXT] = P[FREE_NODE]
        P[FREE_NODE] = D[at + HEAD]
        D[at + HEAD] = NIL
        D[at + TAIL] = NIL
        D[at + COUNT] = 0
        if ends:
            D[at + ENDS] = 0


def pass_on(D: Array, at: int, other: int, ends: bool) -> None:
    """Put the first node of a list at the end of another one."""
    node = D[at + HEAD]
    after = D[node + NEXT]
    D[at + HEAD] = after
    D[at + COUNT] -= 1
    if after == NIL:
        D[at + TAIL] = NIL
    else:
        D[after + PREV] = NIL
    if ends and (after == NIL or D[after + END] != D[node + END]):
        D[at + ENDS] -= 1
    last = D[other + TAIL]
    D[node + NEXT] = NIL
    D[node + PREV] = last
    if last == NIL:
        D[other + HEAD] = node
    else:
        D[last + NEXT] = node
    if ends and (last == NIL or D[last + END] != D[node + END]):
        D[other + ENDS] += 1
    D[other + TAIL] = node
    D[other + COUNT] += 1


# --- sets of events ------------------------------------------------------------------------------------------------


def gathered(E: Array, D: Array, first: int, rows: int, width: int, column: int, into: int) -> int:
    """Make a set of the nodes in a column of a table in E: each event once, in canonical order; how many they are."""
    nodes = np.empty(rows, np.int64)
    numbers = np.empty(rows, np.int64)
    count = 0
    for row in range(rows):
        node = E[first + row * width + column]
        if node >= 0:
            nodes[count], numbers[count] = node, D[node + AT]
            count += 1
    kept = 0
    for at in np.argsort(numbers[:count], kind="mergesort"):
        if kept == 0 or D[E[into + kept] + AT] != numbers[at]:
            kept += 1
            E[into + kept] = nodes[at]
    E[into] = kept
    return kept


# --- events by value -----------------------------------------------------------------------------------------------


def enter(D: Array, node: int, off: int, home: int) -> None:
    """Append a node to the chain of those with its value; `off` is where a node has its links for that."""
    last = D[home + LAST]
    D[node + off + HOME] = home
    D[node + off + BEFORE] = last
    D[node + off + BEHIND] = NIL
    if last == NIL:
        D[home + FIRST] = node
    else:
        D[last + off + BEHIND] = node
    D[home + LAST] = node


def leave(D: Array, P: Array, table: Array, mask: int, node: int, off: int) -> None:
    """Take a node out of the chain of those with its value; a chain that is empty is dropped."""
    home = D[node + off + HOME]
    if home == NIL:
        return
    before, behind = D[node + off + BEFORE], D[node + off + BEHIND]
    if before == NIL:
        D[home + FIRST] = behind
    else:
        D[before + off + BEHIND] = behind
    if behind == NIL:
        D[home + LAST] = before
    else:
        D[behind + off + BEFORE] = before
    if D[home + FIRST] == NIL:
        take_out(table, mask, D, OF_LIST, 3, slot_of(table, mask, D, OF_LIST, D, home + OF_LIST, 3))
        P[VALUES] -= 1
        D[home] = P[FREE_VALUE]
        P[FREE_VALUE] = home


# --- timers: a heap of times and partitions ------------------------------------------------------------------------


def set_timer(Q: Array, P: Array, due: int, partition: int) -> None:
    at = P[TIMERS]
    P[TIMERS] += 1
    while at > 0 and Q[2 * ((at - 1) // 2)] > due:
        Q[2 * at], Q[2 * at + 1] = Q[2 * ((at - 1) // 2)], Q[2 * ((at - 1) // 2) + 1]
        at = (at - 1) // 2
    Q[2 * at], Q[2 * at + 1] = due, partition


def drop_timer(Q: Array, P: Array) -> None:
    """Drop the earliest timer."""
    P[TIMERS] -= 1
    count = P[TIMERS]
    due, partition = Q[2 * count], Q[2 * count + 1]
    at = 0
    while 2 * at + 1 < count:
        child = 2 * at + 1
        if child + 1 < count and Q[2 * child + 2] < Q[2 * child]:
            child += 1
        if Q[2 * child] >= due:
            break
        Q[2 * at], Q[2 * at + 1] = Q[2 * child], Q[2 * child + 1]
        at = child
    Q[2 * at], Q[2 * at + 1] = due, partition


# --- aggregates over the first `count` words of V -----------------------------------------------------------------


def once(V: Array, F: Array, real: bool, count: int) -> int:
    """Keep the first of equal values, in order; how many there are then. F has the same words as numbers."""
    if real:
        for k in range(count):
            if F[k] == 0.0:
                F[k] = 0.0  # and not -0.0
    size = 16
    while size < 2 * count:
        size *= 2
    table = np.full(size, NIL, np.int64)
    kept = 0
    for k in range(count):
        word = int(V[k])
        slot = hash_of(V, k, 1) & (size - 1)
        while table[slot] != NIL and V[table[slot]] != word:
            slot = (slot + 1) & (size - 1)
        if table[slot] == NIL or (real and F[k] != F[k]):  # each NaN is another value
            if table[slot] == NIL:
                table[slot] = kept
            V[kept] = word
            kept += 1
    return kept


def total_of(V: Array, count: int) -> Any:
    found = V[0] + 0  # and not -0.0
    for k in range(1, count):
        found += V[k]
    return found


def greatest(V: Array, count: int) -> Any:
    found = V[0]
    for k in range(1, count):
        found = max(found, V[k])
    return found


def least(V: Array, count: int) -> Any:
    found = V[0]
    for k in range(1, count):
        found = min(found, V[k])
    return found


def middle(V: Array, count: int) -> float:
    """The median."""
    values = np.empty(count, np.float64)
    for k in range(count):
        values[k] = V[k]
    values.sort()
    half = count // 2
    return float(values[half]) if count % 2 else (values[half - 1] + values[half]) / 2


# --- rows of output -----------------------------------------------------------------------------------------------


def arranged(O: Array, R: Array, first: int, last: int, width: int, head: int, reals: int) -> bool:
    """Sort rows of one stage by start and values, Nulls first; False: there are too many, and the host must sort them.

    A row has its end, start, Nulls and place, the key of its partition, then its values from `head` on; `reals` has a
    bit for each that is a number with a fraction. Equal rows stay as they are.
    """
    if last - first > 48:
        return False
    for row in range(first + 1, last):
        other = row
        while other > first and comes_before(O, R, other * width, (other - 1) * width, width, head, reals):
            for k in range(width):
                O[other * width + k], O[(other - 1) * width + k] = O[(other - 1) * width + k], O[other * width + k]
            other -= 1
    return True


def comes_before(O: Array, R: Array, one: int, other: int, width: int, head: int, reals: int) -> bool:
    if O[one + 1] != O[other + 1]:
        return bool(O[one + 1] < O[other + 1])
    for k in range(width - head):
        mine, theirs = O[one + 2] >> k & 1, O[other + 2] >> k & 1
        if mine != theirs:
            return bool(mine > theirs)
        if not mine:
            if reals >> k & 1:
                if R[one + head + k] != R[other + head + k]:
                    return bool(R[one + head + k] < R[other + head + k])
            elif O[one + head + k] != O[other + head + k]:
                return bool(O[one + head + k] < O[other + head + k])
    return False
