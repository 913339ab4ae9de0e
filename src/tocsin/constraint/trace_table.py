"""What is kept of each trace that is alive: a word, two times where they are needed, and links to events.

    words   by key: state, marks and number of the trace (`constraint/loops`)
    last    with TIMEOUT: when its last event ended
    since   where matches may be expected: when its first event ended, or the newest link to the events to be named

So a trace takes 8 bytes, 16 where matches may be expected or traces time out, 24 where both.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tocsin.constraint import loops
from tocsin.constraint.loops import CHAINED, loop
from tocsin.items import Ints


class TraceTable:
    """The traces by the codes of their keys. `timed`: matches may be expected; `pauses`: they end by TIMEOUT."""

    def __init__(self, *, timed: bool, pauses: bool, jit: bool) -> None:
        self.timed, self.pauses, self.jit = timed, pauses, jit
        self._allocate(1024 if jit else 8)
        self.links: Ints = np.zeros(2 * (1024 if jit and timed else 1), np.int64)
        self.pool: Ints = np.array([0, -1, 0], np.int64)

    def _allocate(self, room: int) -> None:
        """No time is read before it is written, so nothing has to be filled in."""
        self.words: Ints = np.zeros(room, np.int64)
        self.last: Ints = np.zeros(room if self.pauses else 1, np.int64)
        self.since: Ints = np.zeros(room if self.timed else 1, np.int64)

    @property
    def bytes_of_a_trace(self) -> int:
        """What a trace that is alive takes, beside its key and the events that may be named."""
        return 8 + (8 if self.timed else 0) + (8 if self.pauses else 0)

    @property
    def nbytes(self) -> int:
        """What the tables of traces take altogether."""
        return self.words.nbytes + sum(each.nbytes for each in (self.last, self.since) if len(each) > 1)

    def room_for(self, count: int) -> None:
        """Make room for keys."""
        if count <= len(self.words):
            return
        old = self.words, self.last, self.since
        self._allocate(max(count, 2 * len(self.words)))
        for mine, before in zip((self.words, self.last, self.since), old, strict=True):
            if len(mine) > 1:
                mine[: len(before)] = before

    def views(self, *arrays: Any) -> tuple[Any, ...]:
        """Arrays as a loop takes them."""
        return arrays if self.jit else tuple(each.data for each in arrays)

    # --- the first event ---

    def begun_of(self, codes: Ints) -> Ints:
        """When some traces began; BEGINNING where nobody remembers."""
        found: Ints = np.empty(len(codes), np.int64)
        begin = np.ascontiguousarray(codes)
        views = self.views(begin, self.since, self.links, self.words, found)
        loop("begun_all", jit=self.jit)(views[0], len(codes), *views[1:])
        return found

    def begun_at(self, code: int, word: int) -> int:
        """When a trace began whose word this is."""
        return int(loops.begun_at(self.since, self.links, code, word))

    def begins(self, code: int, word: int, end: int) -> None:
        """Its first event has come."""
        if self.timed:
            loops.begins(self.since, self.links, code, word, end)

    # --- events of expected matches ---

    @property
    def linked(self) -> int:
        """How many events are linked."""
        return int(self.pool[loops.LIVE])

    def room_to_link(self, count: int) -> None:
        """Make room for so many links more."""
        if self.timed and 2 * (int(self.pool[loops.USED]) + count) > len(self.links):
            self.links = np.concatenate([self.links, np.zeros(len(self.links) + 2 * count, np.int64)])

    def link(self, code: int, word: int, number: int) -> int:
        """Note an event that an expected match may name; the word of the trace."""
        self.room_to_link(1)
        return int(loops.linked(self.since, self.links, self.pool, code, word, number))

    def free(self, code: int, word: int) -> int:
        """Forget the events of a trace; its word."""
        return int(loops.freed(self.since, self.links, self.pool, code, word))

    def free_all(self, codes: Ints) -> None:
        """Forget the events of some traces: no match will be expected, or the next trace has other events."""
        if self.timed and len(codes):
            views = self.views(np.ascontiguousarray(codes), self.since, self.links, self.pool, self.words)
            loop("freed_all", jit=self.jit)(views[0], len(codes), *views[1:])

    def chained(self, code: int, word: int) -> Ints:
        """The numbers of the events that an expected match of a trace would name, in their order."""
        members: Ints = np.zeros(self.linked, np.int64)
        return members[: int(loops.told(self.since, self.links, members, 0, code, word))]

    def numbers(self) -> Ints:
        """The numbers of all events that are linked, ascending."""
        found = self.links[1 : 2 * int(self.pool[loops.USED]) : 2]
        found = found[found != -1]
        return np.sort(np.where(found < 0, -2 - found, found))

    # --- state ---

    def saved(self, count: int) -> dict[str, Ints]:
        """The traces of the first keys, without links."""
        codes = np.arange(count)
        arrays: dict[str, Ints] = {"words": self.words[:count] & ~CHAINED}
        if self.pauses:
            arrays["last"] = self.last[:count].copy()
        if self.timed:
            arrays["begun"] = self.begun_of(codes)
        return arrays

    def load(self, count: int, arrays: Any) -> None:
        """Take up what was saved."""
        self.room_for(max(count, 1))
        self.words[:count] = arrays["words"]
        if self.pauses:
            self.last[:count] = arrays["last"]
        if self.timed:
            self.since[:count] = arrays["begun"]
            self.pool[:] = 0, -1, 0
