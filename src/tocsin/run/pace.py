"""The pace of a run: how many rows are fed at once, so that it can be stopped soon, and how far it came."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import Lock
from time import perf_counter
from types import TracebackType
from typing import Self, TypeAlias

Watcher: TypeAlias = Callable[[int, int], None]  # rows done, matches so far

ROWS_PER_CHUNK = 1 << 9  # of the first chunk: what a row takes is not known yet
MOST_ROWS = 1 << 18
MOST_OF_FEW = 1 << 16  # where few matches are wanted
FIRST_CHUNK = 16  # rows, there
QUICK, LONG = 0.05, 0.2  # seconds


class Pace:
    """Chunks that grow while they are quick and shrink while they are not, so that a run can be stopped soon."""

    def __init__(self, *, growing: bool = False) -> None:
        """`growing`: begin with few rows, because few matches are wanted."""
        self._size, self._most = (FIRST_CHUNK, MOST_OF_FEW) if growing else (ROWS_PER_CHUNK, MOST_ROWS)

    def chunks(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """Cut rows into chunks, each of which is done when the next one is asked for: where each begins and ends."""
        while first < last:
            upto, began = min(first + self._size, last), perf_counter()
            yield first, upto
            took = perf_counter() - began
            if took < QUICK:
                self._size = min(2 * self._size, self._most)
            elif took > LONG:
                self._size = max(1, int((upto - first) * QUICK / took))
            first = upto


class Done:
    """What was done so far, by all threads together: whoever watches is told, and so is whoever interrupts."""

    def __init__(self, rows: int, watch: Watcher | None) -> None:
        """`rows`: how many there are in all."""
        self.rows = self.matches = 0
        self._all, self._watch, self._lock = rows, watch, Lock()

    def more(self, rows: int, matches: int) -> None:
        """So many rows were fed, and brought so many matches."""
        with self._lock:
            self.rows, self.matches = self.rows + rows, self.matches + matches
            if self._watch is not None:
                self._watch(self.rows, self.matches)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(problem, KeyboardInterrupt):
            problem.add_note(f"stopped after {self.rows:,} of {self._all:,} rows, with {self.matches:,} matches")
