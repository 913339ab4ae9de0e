"""The arrays of a statement that become longer while its function runs, which asks for that by a call.

The function itself has addresses only. If it had the arrays, Numba would count how many times each is referred to, at
every branch of every stage: that took most of its time.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tocsin.items import Ints
from tocsin.staged.compiled.library import GROWING, NIL, ROOM, TABLES
from tocsin.staged.compiled.mapped import MappedWords

LASTING = ("D", *TABLES, "Q")  # what a statement remembers between runs
OFTEN = 64  # runs, or runs of 256 rows, after which pages are given back
LARGE = 1 << 16  # words from which on an array becomes longer by a quarter instead of twice as long
Host = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)


class Room:
    """The arrays by name. `P` is told how many words each has.

    calendars  by their number, what gives the first time after another
    limit      bytes that they may have in memory together: what becomes longer beyond that goes into a file
    """

    def __init__(self, P: Ints, calendars: Sequence[Callable[[int], int]] = (), limit: int | None = None) -> None:
        self._P, self._calendars, self._limit = P, calendars, limit
        self._mapped: dict[str, MappedWords] = {}
        self._work = 0  # since pages were let go of
        self._arrays: dict[str, Ints] = {}
        self._addresses: dict[str, int] = {}
        self._before: Ints | None = None
        for name in GROWING:
            self[name] = np.full(64, NIL if name in TABLES else 0, np.int64)

    def __getitem__(self, name: str) -> Ints:
        return self._arrays[name]

    def __setitem__(self, name: str, words: Ints) -> None:
        self._arrays[name], self._addresses[name] = words, words.ctypes.data
        self._P[ROOM + GROWING.index(name)] = len(words)

    def grow(self, which: int, need: int) -> Ints:
        """An array with more room, `need` words at least; a table comes empty, and the one before it stays as it is."""
        name = GROWING[which]
        words = self._arrays[name]
        size = len(words)
        if name in self._mapped or (name in LASTING and self._is_too_much(size)):
            self._grow_in_file(name, 2 * size if name in TABLES else max(size + size // 4, need))
        elif name in TABLES:
            self[name], self._before = np.full(2 * size, NIL, np.int64), words
        else:
            more: Ints = np.empty(max(size + size // 4 if size > LARGE else 2 * size, need), np.int64)
            more[:size] = words
            self[name] = more
        return self._arrays[name]

    def _is_too_much(self, more: int) -> bool:
        """Whether so many more words would not fit below the limit."""
        here = sum(len(words) for name, words in self._arrays.items() if name in LASTING and name not in self._mapped)
        return self._limit is not None and 8 * (here + more) > self._limit

    def _grow_in_file(self, name: str, size: int) -> None:
        words = self._arrays[name]
        if name in TABLES:
            self._mapped[name], self._before = MappedWords(np.zeros(0, np.int64), size), words
            self._mapped[name].words.fill(NIL)
        elif name in self._mapped:
            self._mapped[name].grow(size)
        else:
            self._mapped[name] = MappedWords(words, size)
        self[name] = self._mapped[name].words

    @property
    def in_memory(self) -> int:
        """Bytes of the arrays that outlive a run and are not in files."""
        return 8 * sum(
            len(words) for name, words in self._arrays.items() if name in LASTING and name not in self._mapped
        )

    @property
    def in_files(self) -> set[str]:
        """The names of the arrays that lie in files."""
        return {*self._mapped}

    def rest(self, rows: int) -> None:
        """Give pages of files back to the system, once enough rows have run; so memory stays near the limit."""
        self._work += 1 + rows // 256
        if self._mapped and self._work >= OFTEN:
            self._work = 0
            for each in self._mapped.values():
                each.let_go()

    def _asked(self, which: int, need: int) -> Any:
        """What a function is given that has the arrays themselves."""
        late = which - len(GROWING)
        return self.grow(which, need) if late < 0 else self._calendars[late](need)

    def run(self, body: Callable[..., Any], *given: Any, by_address: bool) -> None:
        """Call a function with these arrays."""
        if not by_address:
            body(*given, *self._arrays.values(), self._asked)
            return
        numbers = (each.ctypes.data if isinstance(each, np.ndarray) else each for each in given)
        host = Host(self._asked_by_address)
        address = ctypes.cast(host, ctypes.c_void_p).value
        body(*numbers, *self._addresses.values(), address)
        self._before = None

    def _asked_by_address(self, which: int, need: int) -> int:
        """What a function by addresses is given: 0 if there is no more memory, which it says by an error."""
        if which >= len(GROWING):
            return self._calendars[which - len(GROWING)](need)
        try:
            self.grow(which, need)
        except MemoryError:
            return 0
        return self._addresses[GROWING[which]]
