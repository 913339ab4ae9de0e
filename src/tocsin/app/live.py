"""`tocsin run --input -`: push each line of JSONL as it comes, and write its matches at once.

With `--timers` the clock is read whenever the pipe is empty, and never before all that has come is pushed: a backlog is
not late because it was read late.
"""

from __future__ import annotations

import select
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import IO, Any

from tocsin.encode.batch import HINTS
from tocsin.run.bad_rows import BadRows
from tocsin.run.files import parse_line
from tocsin.run.matches import Matches
from tocsin.run.session import Session

BYTES_PER_READ = 1 << 16
PLACE = "standard input"
SECONDS_BETWEEN_LOOKS = 1.0  # at the clock, while nothing comes
Piece = tuple[list[dict[str, Any]], list[int]]  # rows and the numbers of their lines; no rows: nothing came
Wait = Callable[[IO[bytes], float], bool]  # for input, at most so many seconds; False: there is none


def follow(
    session: Session,
    stdin: IO[bytes],
    bad: BadRows,
    emit: Callable[[Matches], bool],
    *,
    at_most: int | None = None,
    wait: Wait | None = None,
) -> None:
    """Push every line of `stdin`, `at_most` so many at once; `emit` gets the matches of each push and says to go on.

    `wait` is how to wait for input where the session has a clock, which is read whenever there is none.
    """
    with heeded() as check:
        for rows, numbers in cut(pieces(stdin, bad, check, wait), at_most):
            if not rows:
                if not emit(session.heartbeat()):
                    return
                continue
            matches, reasons = session.push_usable(rows, until_bad=bad.failing)
            going_on = emit(matches)
            for at, reason in reasons.items():
                bad.report(f"{PLACE}, line {numbers[at]}", reason, rows[at], hint=HINTS.get(reason))
            if not going_on:
                return
        emit(session.close())


def cut(pieces: Iterable[Piece], at_most: int | None) -> Iterator[Piece]:
    """Pieces of at most so many rows."""
    for rows, numbers in pieces:
        size = at_most or max(1, len(rows))
        if not rows:
            yield rows, numbers
        for first in range(0, len(rows), size):
            yield rows[first : first + size], numbers[first : first + size]


@contextmanager
def heeded() -> Iterator[Callable[[], None]]:
    """Notice an interrupt even if its exception was swallowed in a callback: check again before every wait."""
    noted: list[int] = []

    def note(number: int, frame: object) -> None:
        del frame
        noted.append(number)
        raise KeyboardInterrupt

    def check() -> None:
        if noted:
            raise KeyboardInterrupt

    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler or threading.current_thread() is not threading.main_thread():
        yield check
        return
    signal.signal(signal.SIGINT, note)
    try:
        yield check
    finally:
        signal.signal(signal.SIGINT, before)


def input_comes(stdin: IO[bytes], seconds: float) -> bool:
    """Wait for input, or for its end, at most so many seconds; False: there is none."""
    return bool(select.select([stdin], [], [], seconds)[0])


def pieces(stdin: IO[bytes], bad: BadRows, check: Callable[[], None], wait: Wait | None) -> Iterator[Piece]:
    """Whatever lines have arrived, together: one when they come slowly, many when they come fast.

    With `wait`, an empty piece when all that has come is read, and then after every second in which nothing comes.
    """
    rest, number, patience = b"", 0, 0.0
    read = getattr(stdin, "read1", stdin.read)
    while True:
        check()
        if wait is not None and not wait(stdin, patience):
            patience = SECONDS_BETWEEN_LOOKS
            yield [], []
            continue
        patience = 0.0
        data = read(BYTES_PER_READ)
        lines = (rest + data).split(b"\n")
        rest = lines.pop() if data else b""
        rows: list[dict[str, Any]] = []
        numbers: list[int] = []
        for line in lines:
            number += 1
            if not line.strip():
                continue
            row, reason = parse_line(line)
            if row is None:
                if bad.failing and rows:  # what came before it is answered first
                    yield rows, numbers
                bad.report(f"{PLACE}, line {number}", str(reason), line.decode("utf-8", "replace").strip())
            else:
                rows.append(row)
                numbers.append(number)
        if rows:
            yield rows, numbers
        if not data:
            return
