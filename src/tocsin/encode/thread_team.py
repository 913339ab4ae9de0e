"""Threads that share the work of one call: compiled loops and Arrow do not hold the interpreter's lock."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event
from types import TracebackType
from typing import Self, TypeVar

T = TypeVar("T")


class Stopped(Exception):  # noqa: N818 - nobody sees it
    """Others have failed or were interrupted, so the work is not needed any more."""


class ThreadTeam:
    """So many threads; with one, work is done where it is asked for."""

    def __init__(self, count: int = 1) -> None:
        self.count = count
        self._stop = Event()
        self._pool = ThreadPoolExecutor(count, "tocsin") if count > 1 else None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def check(self) -> None:
        """Asked by long work now and then: end it if nobody needs it any more."""
        if self._stop.is_set():
            raise Stopped

    def all(self, work: Iterable[Callable[[], T]]) -> list[T]:
        """Do all the work; what each piece gives, in order. The error of the first piece that fails is raised."""
        pieces = list(work)
        if self._pool is None or len(pieces) < 2:
            return [piece() for piece in pieces]
        waiting: Sequence[Future[T]] = [self._pool.submit(piece) for piece in pieces]
        try:
            return [each.result() for each in waiting]
        except BaseException:
            self._stop.set()
            for each in waiting:
                each.cancel()
            self._pool.shutdown(cancel_futures=True)
            raise


ALONE = ThreadTeam()
