"""Choosing among matches in order of completion: what SKIP, DISTINCT and LIMIT make of the next match of a key.

The state of a key is two numbers: what of a match that was taken decides on later ones (EMPTY: none was), and where
that match ends, for those that count.
"""

from __future__ import annotations

from tocsin.select.loops.words import EMPTY, Array

PAST, TO, ONCE, APART, MOST = range(5)  # kinds of rules
FOR_EVER = -1  # a distance that nothing reaches


def stepped(kind: int, size: int, x: int, y: int, start: int, end: int, aim: int) -> tuple[int, int, bool]:
    """The state after a match of a key, and whether the match is kept.

    PAST   a match that starts after the end of the last one that was taken
    TO     one that starts at or after all events that taken ones skip to; `aim`: where that of this match starts
    ONCE   one match
    APART  one that ends `size` ticks or more after the last one that was taken
    MOST   the first `size`
    """
    if kind == PAST:
        return (end, end, True) if start > x else (x, y, False)
    if kind == TO:
        return (max(x, aim), end, True) if start >= x else (x, y, False)
    if kind == ONCE:
        return (start, end, True) if x == EMPTY else (x, y, False)
    if kind == APART:
        return (end, end, True) if x == EMPTY or (size != FOR_EVER and end - x >= size) else (x, y, False)
    if x == EMPTY:
        return 1, end, True
    return (x + 1, end, True) if x < size else (x, y, False)


def choose(
    count: int, kind: int, size: int, order: Array, codes: Array, start: Array, end: Array, aim: Array,
    X: Array, Y: Array, kept: Array, takes: int,
) -> None:  # fmt: skip
    """Which of some matches are kept, one after the other; without `takes` none is taken, and each is looked at alone.

    codes  the key of each match, whose state stands in X and Y
    """
    for i in range(count):
        at = order[i]
        code = codes[at]
        x, y, kept[at] = stepped(kind, size, X[code], Y[code], start[at], end[at], aim[at])
        if takes != 0:
            X[code], Y[code] = x, y
