"""The loop that follows traces: one look into a table for each event, and one word of state for each trace.

The word of a trace, from its lowest bit: the number of its state (23 bits), marks, and from bit 32 on the number of the
trace among those of its key. Plain Python, or compiled by Numba.

`follow` is longer than a screen because cutting it costs time: with the part that expects matches as a function of its
own, the compiled loop takes twice as long. Comments name its parts instead.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from tocsin.events import BEGINNING

Array = Any

STATE = (1 << 23) - 1
QUIET = 1 << 23  # a state that is left was quiet: what it has ruled out refutes nothing, though it comes
BEGUN = 1 << 24  # it has had an event
SAT_SEEN = 1 << 25  # its first verdict SAT is behind it
EXPECTED = 1 << 26  # it was told, and no match settled yet
CLOSED = 1 << 27  # it is not looked at any more
TOUCHED, TIED = 1 << 28, 1 << 29  # it has one event at this time; it has several
JUST = 1 << 30  # it was closed in this push: in place of its state is its place among those that were
CHAINED = 1 << 31  # events are linked that an expected match may name: in place of its beginning is the newest link
USUAL = CLOSED | BEGUN | TOUCHED | TIED | QUIET
NUMBER = 32
# a step is the next state, and above it what else happens: something in any trace, or only before its verdict SAT
ALWAYS, BEFORE_SAT = 1 << 24, 1 << 25

# what a record says: (kind, key code, row, word, when the trace began, where its events end in `members`, when)
TELL_EXPECTED, TELL_UNEXPECTED, TELL_TIE, TELL_ENDED, TELL_QUIET = range(1, 6)
RECORD = 7
AT_ONCE = 5  # records of one event, at most
# flags of states, as in `reasoning.Flag`
F_SAT, F_UNSAT, F_CLOSABLE, F_HELD, F_MATCHED, F_QUIET = 1, 2, 8, 16, 256, 512
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


def linked(since: Array, links: Array, pool: Array, code: int, word: int, number: int) -> int:
    """Note an event that an expected match may name; the word of the trace.

    A link is (the link before, the number of the event). The oldest one keeps, in place of a link before, when the
    trace began, and -2 minus its number: `since` has that time only while there is no link.
    """
    at = pool[FREE]
    if at >= 0:
        pool[FREE] = links[2 * at]
    else:
        at = pool[USED]
        pool[USED] = at + 1
    if word & CHAINED:
        links[2 * at] = since[code]
        links[2 * at + 1] = number
    else:
        links[2 * at] = since[code] if word & BEGUN else BEGINNING
        links[2 * at + 1] = -2 - number
    since[code] = at
    pool[LIVE] += 1
    return word | CHAINED


def freed(since: Array, links: Array, pool: Array, code: int, word: int) -> int:
    """No match of a trace can be expected any more: the events that are linked may go; the word of the trace."""
    if not word & CHAINED:
        return word
    at, more = since[code], True
    while more:
        before = links[2 * at]
        more = links[2 * at + 1] >= 0
        links[2 * at] = pool[FREE]
        links[2 * at + 1] = -1
        pool[FREE] = at
        pool[LIVE] -= 1
        at = before
    since[code] = at
    return word & ~CHAINED


def oldest(since: Array, links: Array, code: int) -> int:
    """The oldest link of a trace."""
    at = since[code]
    while links[2 * at + 1] >= 0:
        at = links[2 * at]
    return at  # type: ignore[no-any-return]


def begins(since: Array, links: Array, code: int, word: int, end: int) -> None:
    """The first event of a trace that its constraints see."""
    if word & CHAINED:
        links[2 * oldest(since, links, code)] = end
    else:
        since[code] = end


def begun_at(since: Array, links: Array, code: int, word: int) -> int:
    """When a trace began, where anybody remembers."""
    if len(since) == 1 or not word & BEGUN:
        return BEGINNING
    return links[2 * oldest(since, links, code)] if word & CHAINED else since[code]  # type: ignore[no-any-return]


def told(since: Array, links: Array, members: Array, m: int, code: int, word: int) -> int:
    """The events that are linked, in their order, behind those of others; where they end."""
    if not word & CHAINED:
        return m
    at, count = since[code], 1
    while links[2 * at + 1] >= 0:
        count += 1
        at = links[2 * at]
    at, place = since[code], m + count
    while place > m:
        place -= 1
        number = links[2 * at + 1]
        members[place] = number if number >= 0 else -2 - number
        at = links[2 * at]
    return m + count


def freed_all(codes: Array, count: int, since: Array, links: Array, pool: Array, words: Array) -> None:
    """Let go of the events that are linked for several traces."""
    for i in range(count):
        words[codes[i]] = freed(since, links, pool, codes[i], words[codes[i]])


def begun_all(codes: Array, count: int, since: Array, links: Array, words: Array, found: Array) -> None:
    """When several traces began."""
    for i in range(count):
        found[i] = begun_at(since, links, codes[i], words[codes[i]])


def shut_at(shut: Array, c: int, code: int, word: int, state: int, when: int, divides: int) -> int:
    """Close a trace, the next one after `c` others in this push; its word."""
    shut[3 * c] = code
    shut[3 * c + 1] = state
    shut[3 * c + 2] = when
    if divides:
        return word | CLOSED
    if when == BEGINNING:  # all of its events are behind its closing
        return word & ~STATE | CLOSED | state
    return word & ~STATE | CLOSED | c | JUST


def is_cut_short(word: int, open: Array) -> bool:
    """Whether a trace that ends here is looked at, and is no word of all its constraints."""
    return not word & CLOSED and open[word & STATE] != 0


def follow(
    i: int, n: int, codes: Array, types: Array, of_type: Array, of_bits: Array, bits: Array, ends: Array, moves: Array,
    steps: Array, width: int, flags: Array, dead: Array, open: Array, ender: Array, seen: Array, wanted: Array,
    words: Array, last: Array, since: Array, links: Array, pool: Array, first: int, divides: int, timeout: int,
    trusted: int, numbers: Array, skipped: Array, marks: Array, records: Array, members: Array, shut: Array, c: int,
    fresh: int, sums: Array, ruled: Array,
) -> tuple[int, int, int, int]:  # fmt: skip
    """Follow rows i to n, all of one end together; stops behind a time at which a trace has several events.

    of_type  by type its letter; -1 where nobody asks, and below that -2 minus a place in `of_bits`, to which the bits
             of the row are added
    steps    moves that say whether there is more to do than to go to the next state
    codes    the key of each row, -1 where it has none
    numbers  of each row the number of its trace, where traces are divided; skipped: whether it was closed before
    marks    rows that are linked or told of; shut: traces that are closed (code, state, when), c of them before
    fresh    keys from this code on have no events in the query yet
    ruled    letters that the query does not see once they are ruled out; all 0 where it sees every one
    Returns the row where to go on, and how many records, members and shut traces there are.
    """
    r = m = 0
    timed, simple = len(since) > 1, timeout < 0 and not divides
    most, room, gates = len(records) // RECORD, len(links) // 2, len(shut) // 3
    safe = i  # up to this row there is room for all that may happen
    passed = 0
    while i < n:
        code = codes[i]
        if simple and code >= 0:  # most events, in few instructions
            word = words[code]
            if word & USUAL == CLOSED | BEGUN:
                skipped[i] = 1
                passed += 1
                i += 1
                continue
            if word & USUAL == BEGUN and (i + 1 == n or ends[i + 1] != ends[i]):
                letter = of_type[types[i]]
                if letter < -1:
                    letter = of_bits[bits[i] - 2 - letter]
                if letter < 0:
                    i += 1
                    continue
                step = steps[(word & STATE) * width + letter]
                if step & ALWAYS == 0 and (word & SAT_SEEN or step & BEFORE_SAT == 0):
                    words[code] = word & ~STATE | step & STATE
                    i += 1
                    continue
        # the rows i to j end together: is there room for all that they may bring?
        j = i + 1
        while j < n and ends[j] == ends[i]:
            j += 1
        if j > safe:
            safe = i + min((most - r) // AT_ONCE, (gates - c) // 2)
            if timed:
                safe = min(safe, i + room - pool[USED])
            if j > safe:
                break
        # which traces have one event at this time, and which have several?
        tied = 0
        if j > i + 1:
            for k in range(i, j):
                code = codes[k]
                if code < 0 or (of_type[types[k]] == -1 and not divides):
                    continue
                word = words[code]
                if word & TOUCHED:
                    words[code] = word | TIED
                    tied = 1
                else:
                    words[code] = word | TOUCHED
        # each event of a trace that has no other at this time
        for k in range(i, j):
            code = codes[k]
            if code < 0:
                continue
            word = words[code]
            letter = of_type[types[k]]
            if letter < -1:
                letter = of_bits[bits[k] - 2 - letter]
            if letter < 0 and not divides:
                continue
            if word & TIED:
                if word & TOUCHED:  # told once, at its first event
                    words[code] = word & ~TOUCHED
                    r = note(records, r, TELL_TIE, code, i, j, 0, m, ends[k])
                continue
            if j > i + 1:
                word &= ~TOUCHED
            if word & CLOSED and simple:
                skipped[k] = 1
                passed += 1
                words[code] = word | BEGUN if seen[letter] else word
                continue
            # TIMEOUT: the trace has ended before this event, which begins the next one of its key
            if timeout >= 0 and word & BEGUN and last[code] + timeout < ends[k]:
                sums[ENDED] += 1
                if is_cut_short(word, open):
                    begun = begun_at(since, links, code, word)
                    r = note(records, r, TELL_ENDED, code, -1, word, begun, m, last[code] + timeout)
                word = ((freed(since, links, pool, code, word) >> NUMBER) + 1) << NUMBER
            if divides:
                numbers[k] = word >> NUMBER
                if letter < 0:
                    skipped[k] = 1 if word & CLOSED else 0
                    passed += skipped[k]
                    words[code] = word
                    continue
            # the first event of a trace
            s = word & STATE
            if not word & BEGUN and trusted and flags[s] & F_CLOSABLE and not word & CLOSED:
                sums[SHUT] += 1
                sums[HOPELESS] += 1
                word = shut_at(shut, c, code, word, s, BEGINNING, divides)
                c += 1
            if seen[letter]:
                if not word & BEGUN:
                    if timed:
                        begins(since, links, code, word, ends[k])
                    word |= BEGUN
                if timeout >= 0:
                    last[code] = ends[k]
            if word & CLOSED:
                skipped[k] = 1
                passed += 1
            else:  # the next state, and what its flags say that the one before did not
                t = moves[s * width + letter]
                f = flags[t]
                if trusted and (word & QUIET != 0 or flags[s] & F_QUIET != 0):
                    if ruled[letter]:
                        skipped[k] = 1
                        passed += 1
                    if not f & F_QUIET:
                        word |= QUIET
                if dead[t] != dead[s]:
                    marks[k] = 1
                    begun = begun_at(since, links, code, word)
                    r = note(records, r, TELL_UNEXPECTED, code, k, word, begun, m, ends[k])
                    word = freed(since, links, pool, code, word) & ~EXPECTED
                elif timed and not word & SAT_SEEN and dead[t] == 0:
                    sat = f & F_SAT != 0 and word & BEGUN != 0
                    if f & F_UNSAT:
                        word = freed(since, links, pool, code, word)
                    elif wanted[letter] and not (sat and f & F_HELD):
                        word = linked(since, links, pool, code, word, first + k)
                        marks[k] = 1
                    if sat:
                        word |= SAT_SEEN
                        begun = begun_at(since, links, code, word)
                        sums[DECIDED] += 1
                        sums[LATENCY] += ends[k] - begun
                        if not f & F_HELD:
                            word |= EXPECTED
                            marks[k] = 1
                            m = told(since, links, members, m, code, word)
                            r = note(records, r, TELL_EXPECTED, code, k, word, begun, m, ends[k])
                        word = freed(since, links, pool, code, word)
                if f & F_UNSAT and not flags[s] & F_UNSAT:
                    sums[UNSAT] += 1
                    sums[DECIDED] += 1
                    if timed and word & BEGUN:
                        sums[LATENCY] += ends[k] - begun_at(since, links, code, word)
                if trusted and f & F_QUIET and not flags[s] & F_QUIET:
                    r = note(records, r, TELL_QUIET, code, k, word, 0, m, ends[k])
                word = word & ~STATE | t
                # the trace is closed: nothing that its constraints allow changes what is known
                if trusted and f & F_CLOSABLE and dead[t] == 0:
                    sums[SHUT] += 1
                    word = freed(since, links, pool, code, word)
                    hopeless = f & F_UNSAT and not f & F_MATCHED and code >= fresh  # no match will have its events
                    sums[HOPELESS] += 1 if hopeless else 0
                    word = shut_at(shut, c, code, word, t, BEGINNING if hopeless else ends[k], divides)
                    c += 1
            # ENDS: the trace ends with this event
            if ender[letter]:
                sums[ENDED] += 1
                if is_cut_short(word, open):
                    begun = begun_at(since, links, code, word)
                    r = note(records, r, TELL_ENDED, code, -1, word, begun, m, ends[k])
                word = ((freed(since, links, pool, code, word) >> NUMBER) + 1) << NUMBER
            words[code] = word
        i = j
        if tied:
            break
    sums[SKIPPED] += passed
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


LOOPS: dict[str, Callable[..., Any]] = {
    "follow": follow, "sift": sift, "settle": settle, "freed_all": freed_all, "begun_all": begun_all,
}  # fmt: skip


@cache
def loop(name: str, *, jit: bool) -> Callable[..., Any]:
    """A loop for arrays (compiled) or memoryviews (plain)."""
    return _compiled(name) if jit else LOOPS[name]


def _compiled(name: str) -> Callable[..., Any]:
    """Compiled for its one signature; times may be Arrow's memory, which nobody may write."""
    from numba import extending, njit, types

    for each in (note, oldest, linked, freed, begins, begun_at, told, shut_at, is_cut_short):
        extending.register_jitable(each)
    build: Any = types
    number, words, small = types.int64, types.int64[::1], types.int32[::1]
    marks, times = types.int8[::1], build.Array(types.int64, 1, "C", readonly=True)
    kinds = build.Array(types.int32, 1, "C", readonly=True)
    arguments = {
        "follow": (
            number, number, words, kinds, words, words, words, times, small, small, number, words, words, words,
            marks, marks, marks, *[words] * 5, *[number] * 4, words, marks, marks, words, words, words, number, number,
            words, marks,
        ),
        "sift": (number, number, words, times, words, words, types.boolean[::1]),
        "settle": (number, words, words),
        "freed_all": (words, number, words, words, words, words),
        "begun_all": (words, number, words, words, words, words),
    }[name]  # fmt: skip
    function: Callable[..., Any] = njit(arguments, cache=True, nogil=True, error_model="numpy")(LOOPS[name])
    return function
