"""The loop that follows traces: one look into a table for each event, and one word of state for each trace.

The word of a trace, from its lowest bit: the number of its state (24 bits), marks, and from bit 32 on the number of the
trace among those of its key. Plain Python, or compiled by Numba.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from tocsin.events import BEGINNING

Array = Any

STATE = (1 << 24) - 1
BEGUN = 1 << 24  # it has had an event
SAT_SEEN = 1 << 25  # its first verdict SAT is behind it
EXPECTED = 1 << 26  # it was told, and no match settled yet
CLOSED = 1 << 27  # it is not looked at any more
TOUCHED, TIED = 1 << 28, 1 << 29  # it has one event at this time; it has several
JUST = 1 << 30  # it was closed in this push: in place of its state is its place among those that were
NUMBER = 32
# a step is the next state, and above it what else happens: something in any trace, or only before its verdict SAT
ALWAYS, BEFORE_SAT = 1 << 24, 1 << 25

# what a record says: (kind, key code, row, word, when the trace began, where its events end in `members`, when)
TELL_EXPECTED, TELL_UNEXPECTED, TELL_TIE, TELL_ENDED = range(1, 5)
RECORD = 7
AT_ONCE = 4  # records of one event, at most
# flags of states, as in `reasoning.Flag`
F_SAT, F_UNSAT, F_CLOSABLE, F_HELD, F_MATCHED = 1, 2, 8, 16, 256
# sums: what is counted while traces are followed
UNSAT, SHUT, DECIDED, LATENCY, ENDED, SKIPPED, HOPELESS = range(7)
SUMS = 7
# pool: how many links were ever used at once, the first free one, and how many hold an event
USED, FREE, LIVE = range(3)


def note(
    records: Array, r: int, kind: int, code: int, row: int, word: int, begun: int, stop: int, when: int
) -> int:  # fmt: skip
    """Write a record; how many there are."""
    at = RECORD * r
    records[at] = kind
    records[at + 1] = code
    records[at + 2] = row
    records[at + 3] = word
    records[at + 4] = begun
    records[at + 5] = stop
    records[at + 6] = when
    return r + 1


def freed(head: Array, links: Array, pool: Array, code: int) -> None:
    """No match of a trace can be expected any more: the events that are linked may go."""
    at = head[code]
    while at >= 0:
        before = links[2 * at]
        links[2 * at] = pool[FREE]
        links[2 * at + 1] = -1
        pool[FREE] = at
        pool[LIVE] -= 1
        at = before
    head[code] = -1


def linked(head: Array, links: Array, pool: Array, code: int, number: int) -> None:
    """Note an event that an expected match may name."""
    at = pool[FREE]
    if at >= 0:
        pool[FREE] = links[2 * at]
    else:
        at = pool[USED]
        pool[USED] = at + 1
    links[2 * at] = head[code]
    links[2 * at + 1] = number
    head[code] = at
    pool[LIVE] += 1


def told(head: Array, links: Array, members: Array, m: int, code: int) -> int:
    """The events that are linked, in their order, behind those of others; where they end."""
    at, count = head[code], 0
    while at >= 0:
        count += 1
        at = links[2 * at]
    at, place = head[code], m + count
    while at >= 0:
        place -= 1
        members[place] = links[2 * at + 1]
        at = links[2 * at]
    return m + count


def freed_all(codes: Array, count: int, head: Array, links: Array, pool: Array) -> None:
    """Let go of the events that are linked for several traces."""
    for i in range(count):
        freed(head, links, pool, codes[i])


def follow(
    i: int, n: int, codes: Array, letters: Array, ends: Array, moves: Array, steps: Array, width: int, flags: Array,
    dead: Array, open: Array, ender: Array, seen: Array, wanted: Array, words: Array, last: Array, begun: Array,
    head: Array, links: Array, pool: Array, first: int, divides: int, timeout: int, trusted: int, numbers: Array,
    skipped: Array, marks: Array, records: Array, members: Array, shut: Array, c: int, fresh: int, sums: Array,
) -> tuple[int, int, int, int]:  # fmt: skip
    """Follow rows i to n, all of one end together; stops behind a time at which a trace has several events.

    steps    moves that say whether there is more to do than to go to the next state
    codes    the key of each row, -1 where it has none; letters: -1 where nobody asks
    numbers  of each row the number of its trace, where traces are divided; skipped: whether it was closed before
    marks    rows that are linked or told of; shut: traces that are closed (code, state, when), c of them before
    fresh    keys from this code on have no events in the query yet
    Returns the row where to go on, and how many records, members and shut traces there are.
    """
    r = m = 0
    timed = len(begun) > 1
    most, room, gates = len(records) // RECORD, len(links) // 2, len(shut) // 3
    safe = i  # up to this row there is room for all that may happen
    while i < n:
        j = i + 1
        while j < n and ends[j] == ends[i]:
            j += 1
        if j > safe:
            safe = i + min((most - r) // AT_ONCE, (gates - c) // 2)
            if timed:
                safe = min(safe, i + room - pool[USED])
            if j > safe:
                return i, r, m, c
        tied = 0
        if j > i + 1:
            for k in range(i, j):
                code = codes[k]
                if code < 0 or (letters[k] < 0 and not divides):
                    continue
                word = words[code]
                if word & TOUCHED:
                    words[code] = word | TIED
                    tied = 1
                else:
                    words[code] = word | TOUCHED
        for k in range(i, j):
            code = codes[k]
            letter = letters[k]
            if code < 0 or (letter < 0 and not divides):
                continue
            word = words[code]
            if word & TIED:
                if word & TOUCHED:  # told once, at its first event
                    words[code] = word & ~TOUCHED
                    r = note(records, r, TELL_TIE, code, i, j, 0, m, ends[k])
                continue
            if j > i + 1:
                word &= ~TOUCHED
            if word & (BEGUN | CLOSED) == BEGUN and not divides:
                step = steps[(word & STATE) * width + letter]
                if not step & ALWAYS and (word & SAT_SEEN or not step & BEFORE_SAT):
                    words[code] = word & ~STATE | step & STATE
                    continue
            if word & CLOSED and timeout < 0 and not divides:
                skipped[k] = 1
                sums[SKIPPED] += 1
                words[code] = word | BEGUN if seen[letter] else word
                continue
            if timeout >= 0 and word & BEGUN and last[code] + timeout < ends[k]:
                sums[ENDED] += 1
                if not word & CLOSED and open[word & STATE]:
                    since = begun[code] if timed else BEGINNING
                    r = note(records, r, TELL_ENDED, code, -1, word, since, m, last[code] + timeout)
                word = ((word >> NUMBER) + 1) << NUMBER
                if timed:
                    freed(head, links, pool, code)
            if divides:
                numbers[k] = word >> NUMBER
                if letter < 0:
                    skipped[k] = 1 if word & CLOSED else 0
                    sums[SKIPPED] += skipped[k]
                    words[code] = word
                    continue
            s = word & STATE
            if not word & BEGUN and trusted and flags[s] & F_CLOSABLE and not word & CLOSED:
                sums[SHUT] += 1
                sums[HOPELESS] += 1
                shut[3 * c] = code
                shut[3 * c + 1] = s
                shut[3 * c + 2] = BEGINNING
                word |= CLOSED
                if not divides:
                    word = word & ~STATE | c | JUST
                c += 1
            if seen[letter]:
                if timed and not word & BEGUN:
                    begun[code] = ends[k]
                if timeout >= 0:
                    last[code] = ends[k]
                word |= BEGUN
            if word & CLOSED:
                skipped[k] = 1
                sums[SKIPPED] += 1
            else:
                t = moves[s * width + letter]
                f = flags[t]
                if dead[t] != dead[s]:
                    marks[k] = 1
                    since = begun[code] if timed else BEGINNING
                    r = note(records, r, TELL_UNEXPECTED, code, k, word, since, m, ends[k])
                    word &= ~EXPECTED
                    if timed:
                        freed(head, links, pool, code)
                elif timed and not word & SAT_SEEN:
                    if wanted[letter]:
                        linked(head, links, pool, code, first + k)
                        marks[k] = 1
                    if f & F_SAT and word & BEGUN:
                        word |= SAT_SEEN
                        sums[DECIDED] += 1
                        sums[LATENCY] += ends[k] - begun[code]
                        if not f & F_HELD:
                            word |= EXPECTED
                            marks[k] = 1
                            m = told(head, links, members, m, code)
                            r = note(records, r, TELL_EXPECTED, code, k, word, begun[code], m, ends[k])
                        freed(head, links, pool, code)
                if f & F_UNSAT and not flags[s] & F_UNSAT:
                    sums[UNSAT] += 1
                    sums[DECIDED] += 1
                    if timed and word & BEGUN:
                        sums[LATENCY] += ends[k] - begun[code]
                word = word & ~STATE | t
                if trusted and f & F_CLOSABLE and dead[t] == 0:
                    sums[SHUT] += 1
                    if timed:
                        freed(head, links, pool, code)
                    shut[3 * c] = code
                    shut[3 * c + 1] = t
                    shut[3 * c + 2] = ends[k]
                    if f & F_UNSAT and not f & F_MATCHED and code >= fresh:  # no match will have any of its events
                        sums[HOPELESS] += 1
                        shut[3 * c + 2] = BEGINNING
                    word |= CLOSED
                    if not divides:
                        word = word & ~STATE | c | JUST
                    c += 1
            if ender[letter]:
                sums[ENDED] += 1
                if not word & CLOSED and open[word & STATE]:
                    since = begun[code] if timed else BEGINNING
                    r = note(records, r, TELL_ENDED, code, -1, word, since, m, ends[k])
                word = ((word >> NUMBER) + 1) << NUMBER
                if timed:
                    freed(head, links, pool, code)
            words[code] = word
        i = j
        if tied:
            return i, r, m, c
    return i, r, m, c


def sift(i: int, n: int, codes: Array, ends: Array, words: Array, shut: Array, gone: Array) -> int:
    """Mark the rows i to n that the query need not see, because their traces are closed; how many there are."""
    found = 0
    for k in range(i, n):
        code = codes[k]
        if code < 0:
            continue
        word = words[code]
        if word & CLOSED and not (word & JUST and ends[k] <= shut[3 * (word & STATE) + 2]):
            gone[k] = True
            found += 1
    return found


def settle(count: int, shut: Array, words: Array) -> None:
    """The push is over: closed traces get their states back."""
    for at in range(count):
        code = shut[3 * at]
        words[code] = words[code] & ~(STATE | JUST) | shut[3 * at + 1]


LOOPS: dict[str, Callable[..., Any]] = {"follow": follow, "sift": sift, "settle": settle, "freed_all": freed_all}


@cache
def loop(name: str, *, jit: bool) -> Callable[..., Any]:
    """A loop for arrays (compiled) or memoryviews (plain)."""
    return _compiled(name) if jit else LOOPS[name]


def _compiled(name: str) -> Callable[..., Any]:
    """Compiled for its one signature; times may be Arrow's memory, which nobody may write."""
    from numba import extending, njit, types

    for each in (note, freed, linked, told):
        extending.register_jitable(each)
    build: Any = types
    number, words, small = types.int64, types.int64[::1], types.int32[::1]
    marks, times = types.int8[::1], build.Array(types.int64, 1, "C", readonly=True)
    arguments = {
        "follow": (
            number, number, words, words, times, small, small, number, words, words, words, marks, marks, marks,
            *[words] * 6, *[number] * 4, words, marks, marks, words, words, words, number, number, words,
        ),
        "sift": (number, number, words, times, words, words, types.boolean[::1]),
        "settle": (number, words, words),
        "freed_all": (words, number, words, words, words),
    }[name]  # fmt: skip
    function: Callable[..., Any] = njit(arguments, cache=True, nogil=True, error_model="numpy")(LOOPS[name])
    return function
