"""`tocsin run --input -`: push each line of JSONL as it comes, and write its matches at once."""

from __future__ import annotations

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
Piece = tuple[list[dict[str, Any]], list[int]]  # rows and the numbers of their lines


def follow(
    session: Session,
    stdin: IO[bytes],
    bad: BadRows,
    emit: Callable[[Matches], bool],
    *,
    at_most: int | None = None,
) -> None:
    """Push every line of `stdin`, `at_most` so many at once; `emit` gets the matches of each push and says to go on."""
    with heeded() as check:
        for rows, numbers in cut(pieces(stdin, bad, check), at_most):
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
        size = at_most or len(rows)
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


def pieces(stdin: IO[bytes], bad: BadRows, check: Callable[[], None]) -> Iterator[Piece]:
    """Whatever lines have arrived, together: one when they come slowly, many when they come fast."""
    rest, number = b"", 0
    read = getattr(stdin, "read1", stdin.read)
    while True:
        check()
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
