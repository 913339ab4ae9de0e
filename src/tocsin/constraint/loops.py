"""The loop that follows traces: one look into a table for each event, and one word of state for each trace.

The word of a trace, from its lowest bit: the number of its state (24 bits), marks, and from bit 32 on the number of the
trace among those of its key. Plain Python, or compiled by Numba.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

Array = Any

STATE = (1 << 24) - 1
BEGUN = 1 << 24  # it has had an event
SAT_SEEN = 1 << 25  # its first verdict SAT is behind it
EXPECTED = 1 << 26  # it was told, and no match settled yet
CLOSED = 1 << 27  # it is not looked at any more
TOUCHED, TIED = 1 << 28, 1 << 29  # it has one event at this time; it has several
NUMBER = 32

# what a record says: (kind, key code, row, word, its last link, when the trace began)
TELL_EXPECTED, TELL_UNEXPECTED, TELL_TIE, TELL_CLOSED, TELL_ENDED, TELL_PAUSED, TELL_SAT, TELL_UNSAT = range(1, 9)
# flags of states, as in `reasoning.Flag`
F_SAT, F_UNSAT, F_CLOSABLE, F_HELD = 1, 2, 8, 16


def follow(
    i: int, n: int, codes: Array, letters: Array, ends: Array, moves: Array, width: int, flags: Array, dead: Array,
    ender: Array, seen: Array, wanted: Array, words: Array, last: Array, head: Array, links: Array, used: int,
    first: int, timed: int, timeout: int, trusted: int, numbers: Array, skipped: Array, records: Array,
) -> tuple[int, int, int]:  # fmt: skip
    """Follow rows i to n, all of one end together; stops behind a time at which a trace has several events.

    numbers  of each row the number of its trace; skipped: whether the trace was closed before
    head     by key the last wanted event of the trace in `links` (pairs: the one before, number), where timed
    Returns the row where to go on, how many records there are, and how many links.
    """
    r = 0
    while i < n:
        j = i + 1
        while j < n and ends[j] == ends[i]:
            j += 1
        tied = 0
        if j > i + 1:
            for k in range(i, j):
                code = codes[k]
                word = words[code]
                if word & TOUCHED:
                    words[code] = word | TIED
                    tied = 1
                else:
                    words[code] = word | TOUCHED
        for k in range(i, j):
            code = codes[k]
            word = words[code]
            if word & TIED:
                if word & TOUCHED:  # told once, at its first event
                    words[code] = word & ~TOUCHED
                    records[6 * r] = TELL_TIE
                    records[6 * r + 1] = code
                    records[6 * r + 2] = i
                    records[6 * r + 3] = j
                    records[6 * r + 4] = head[2 * code + 1] if timed else -1
                    records[6 * r + 5] = head[2 * code] if timed else 0
                    r += 1
                continue
            word &= ~TOUCHED
            letter = letters[k]
            if timeout >= 0 and word & BEGUN and last[code] + timeout < ends[k]:
                records[6 * r] = TELL_PAUSED
                records[6 * r + 1] = code
                records[6 * r + 2] = last[code] + timeout
                records[6 * r + 3] = word
                records[6 * r + 4] = head[2 * code + 1] if timed else -1
                records[6 * r + 5] = head[2 * code] if timed else 0
                r += 1
                word = ((word >> NUMBER) + 1) << NUMBER
                if timed:
                    head[2 * code + 1] = -1
            numbers[k] = word >> NUMBER
            if letter < 0:
                skipped[k] = 1 if word & CLOSED else 0
                words[code] = word
                continue
            if not word & BEGUN and trusted and flags[word & STATE] & F_CLOSABLE and not word & CLOSED:
                word |= CLOSED
                records[6 * r] = TELL_CLOSED
                records[6 * r + 1] = code
                records[6 * r + 2] = k
                records[6 * r + 3] = -1
                records[6 * r + 4] = head[2 * code + 1] if timed else -1
                records[6 * r + 5] = head[2 * code] if timed else 0
                r += 1
            if seen[letter]:
                if timed and not word & BEGUN:
                    head[2 * code] = ends[k]
                if timeout >= 0:
                    last[code] = ends[k]
                word |= BEGUN
            if word & CLOSED:
                skipped[k] = 1
            else:
                s = word & STATE
                t = moves[s * width + letter]
                f = flags[t]
                if dead[t] != dead[s]:
                    records[6 * r] = TELL_UNEXPECTED
                    records[6 * r + 1] = code
                    records[6 * r + 2] = k
                    records[6 * r + 3] = word
                    records[6 * r + 4] = head[2 * code + 1] if timed else -1
                    records[6 * r + 5] = head[2 * code] if timed else 0
                    r += 1
                    word &= ~EXPECTED
                elif not f & F_CLOSABLE or not word & SAT_SEEN:
                    if timed and wanted[letter] and not word & SAT_SEEN:
                        links[2 * used] = head[2 * code + 1]
                        links[2 * used + 1] = first + k
                        head[2 * code + 1] = used
                        used += 1
                    if f & F_SAT and word & BEGUN and not word & SAT_SEEN:
                        word |= SAT_SEEN
                        if not f & F_HELD:
                            word |= EXPECTED
                        records[6 * r] = TELL_SAT if f & F_HELD else TELL_EXPECTED
                        records[6 * r + 1] = code
                        records[6 * r + 2] = k
                        records[6 * r + 3] = word
                        records[6 * r + 4] = head[2 * code + 1] if timed else -1
                        records[6 * r + 5] = head[2 * code] if timed else 0
                        r += 1
                if f & F_UNSAT and not flags[s] & F_UNSAT:
                    records[6 * r] = TELL_UNSAT
                    records[6 * r + 1] = code
                    records[6 * r + 2] = k
                    records[6 * r + 3] = word
                    records[6 * r + 4] = head[2 * code + 1] if timed else -1
                    records[6 * r + 5] = head[2 * code] if timed else 0
                    r += 1
                if trusted and f & F_CLOSABLE and dead[t] == 0:
                    word |= CLOSED
                    records[6 * r] = TELL_CLOSED
                    records[6 * r + 1] = code
                    records[6 * r + 2] = k
                    records[6 * r + 3] = word
                    records[6 * r + 4] = head[2 * code + 1] if timed else -1
                    records[6 * r + 5] = head[2 * code] if timed else 0
                    r += 1
                word = word & ~STATE | t
            if ender[letter]:
                records[6 * r] = TELL_ENDED
                records[6 * r + 1] = code
                records[6 * r + 2] = k
                records[6 * r + 3] = word
                records[6 * r + 4] = head[2 * code + 1] if timed else -1
                records[6 * r + 5] = head[2 * code] if timed else 0
                r += 1
                word = ((word >> NUMBER) + 1) << NUMBER
                if timed:
                    head[2 * code + 1] = -1
            words[code] = word
        i = j
        if tied or 6 * (r + 8) > len(records):
            return i, r, used
    return i, r, used


@cache
def loop(*, jit: bool) -> Callable[..., Any]:
    """The loop for arrays (compiled) or memoryviews (plain)."""
    return _compiled() if jit else follow


def _compiled() -> Callable[..., Any]:
    from numba import njit, types

    number, words, bits, small = types.int64, types.int64[::1], types.int8[::1], types.int32[::1]
    arguments = (
        number, number, words, words, words, small, number, words, words, bits, bits, bits, words, words, words, words,
        *[number] * 5, words, bits, words,
    )  # fmt: skip
    function: Callable[..., Any] = njit(arguments, cache=True, nogil=True, error_model="numpy")(follow)
    return function
