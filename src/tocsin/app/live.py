"""`tocsin run --input -`: push each line of JSONL as it comes, and write its matches at once.

With `--timers` the clock is read whenever the pipe is empty, and never before all that has come is pushed: a backlog is
not late because it was read late.
"""

from __future__ import annotations

import select
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any

from tocsin.encode.batch import HINTS
from tocsin.run.bad_rows import BadRows
from tocsin.run.files import parse_line
from tocsin.run.matches import Matches
from tocsin.run.session import Session

BYTES_PER_READ = 1 << 18
PLACE = "standard input"
SECONDS_BETWEEN_LOOKS = 1.0  # at the clock, while nothing comes
FEW = 16  # lines that are read one by one
SOME = 128  # lines that are read one by one if one of them is unlike those before
Piece = tuple[int, Sequence[bytes]]  # the number of the first line, and lines; no lines: nothing came
Emit = Callable[[Matches], bool]  # gets the matches of a push, and says whether to go on
Wait = Callable[[IO[bytes], float], bool]  # for input, at most so many seconds; False: there is none


def follow(
    session: Session,
    stdin: IO[bytes],
    bad: BadRows,
    emit: Emit,
    *,
    at_most: int | None = None,
    wait: Wait | None = None,
) -> None:
    """Push every line of `stdin`, `at_most` so many at once; `emit` gets the matches of each push and says to go on.

    `wait` is how to wait for input where the session has a clock, which is read whenever there is none.
    """
    with heeded() as check:
        for number, lines in cut(pieces(stdin, check, wait), at_most):
            going_on = push(session, number, lines, bad, emit) if lines else emit(session.heartbeat())
            if not going_on:
                return
        emit(session.close())


def push(session: Session, number: int, lines: Sequence[bytes], bad: BadRows, emit: Emit) -> bool:
    """Push lines, the first of which has a number: many alike as columns, others one by one. False: not to go on."""
    if len(lines) > FEW:
        matches = session.push_lines(lines)
        if matches is not None:
            return emit(matches)
        if len(lines) > SOME:  # a line that is unlike the others is looked for
            half = len(lines) // 2
            before = push(session, number, lines[:half], bad, emit)
            return before and push(session, number + half, lines[half:], bad, emit)
    for rows, numbers in parsed(number, lines, bad):
        matches, reasons = session.push_usable(rows, until_bad=bad.failing)
        going_on = emit(matches)
        for at, reason in reasons.items():
            bad.report(f"{PLACE}, line {numbers[at]}", reason, rows[at], hint=HINTS.get(reason))
        if not going_on:
            return False
    return True


def parsed(number: int, lines: Sequence[bytes], bad: BadRows) -> Iterator[tuple[list[dict[str, Any]], list[int]]]:
    """The objects in lines, and the numbers of their lines; those before a bad line apart, if that is to end it all."""
    rows: list[dict[str, Any]] = []
    numbers: list[int] = []
    for at, line in enumerate(lines, number):
        if not line.strip():
            continue
        row, reason = parse_line(line)
        if row is None:
            if bad.failing and rows:  # what came before it is answered first
                yield rows, numbers
            bad.report(f"{PLACE}, line {at}", str(reason), line.decode("utf-8", "replace").strip())
        else:
            rows.append(row)
            numbers.append(at)
    if rows:
        yield rows, numbers


def cut(pieces: Iterable[Piece], at_most: int | None) -> Iterator[Piece]:
    """Pieces of at most so many lines."""
    for number, lines in pieces:
        size = at_most or max(1, len(lines))
        if not lines:
            yield number, lines
        for first in range(0, len(lines), size):
            yield number + first, lines[first : first + size]


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


def pieces(stdin: IO[bytes], check: Callable[[], None], wait: Wait | None) -> Iterator[Piece]:
    """Whatever lines have arrived, together: one when they come slowly, many when they come fast.

    With `wait`, an empty piece when all that has come is read, and then after every second in which nothing comes.
    """
    rest, number, patience = b"", 1, 0.0
    read = getattr(stdin, "read1", stdin.read)
    while True:
        check()
        if wait is not None and not wait(stdin, patience):
            patience = SECONDS_BETWEEN_LOOKS
            yield number, []
            continue
        patience = 0.0
        data = read(BYTES_PER_READ)
        lines = (rest + data).split(b"\n")
        rest = lines.pop() if data else b""
        if lines and (len(lines) > 1 or lines[0].strip()):
            yield number, lines
        number += len(lines)
        if not data:
            return
