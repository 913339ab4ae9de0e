"""Follow a pipe of JSONL: push each line as it comes, and hand on what it brings.

With `--timers` the clock is read whenever the pipe is empty, and never before all that has come is pushed: a backlog is
not late because it was read late.
"""

from __future__ import annotations

import select
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from enum import Enum
from typing import IO, Any, Protocol

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
Waiting = Callable[[], AbstractContextManager[None]]  # inside, an interrupt ends the run at once
Wait = Callable[[IO[bytes], float], bool]  # for input, at most so many seconds; False: there is none


class InterruptedWait(KeyboardInterrupt):
    """An interrupt that came while nothing was being pushed."""


class Ending(Enum):
    """How following a pipe ended."""

    CLOSED = "the pipe was closed"
    ENOUGH = "the receiver wanted no more"
    INTERRUPTED = "somebody interrupted it between two pushes"


class Receiver(Protocol):
    """What becomes of what the lines bring."""

    def take(self, matches: Matches) -> bool:
        """Take the matches of a push, and say whether to go on."""
        ...

    def late(self, line: int, row: bytes | dict[str, Any]) -> None:
        """Hear of a line whose event came later than the order allows."""
        ...

    def rest(self) -> None:
        """Do what can wait: all that has come is pushed."""
        ...


def follow(
    session: Session,
    stdin: IO[bytes],
    bad: BadRows,
    receiver: Receiver,
    *,
    at_most: int | None = None,
    wait: Wait | None = None,
) -> Ending:
    """Push every line of `stdin`, `at_most` so many at once, until the pipe is closed or somebody ends it.

    `wait` is how to wait for input where the session has a clock, which is read whenever there is none.
    """
    with heeded() as waiting:
        try:
            for number, lines in cut(pieces(stdin, waiting, wait), at_most):
                going_on = push(session, number, lines, bad, receiver) if lines else receiver.take(session.heartbeat())
                if not going_on:
                    return Ending.ENOUGH
                receiver.rest()
        except InterruptedWait:
            return Ending.INTERRUPTED
    return Ending.CLOSED


def push(session: Session, number: int, lines: Sequence[bytes], bad: BadRows, receiver: Receiver) -> bool:
    """Push lines, the first of which has a number: many alike as columns, others one by one. False: not to go on."""
    if len(lines) > FEW:
        matches = session.push_lines(lines)
        if matches is not None:
            for at in session.late:
                receiver.late(number + at, lines[at])
            return receiver.take(matches)
        if len(lines) > SOME:  # a line that is unlike the others is looked for
            half = len(lines) // 2
            before = push(session, number, lines[:half], bad, receiver)
            return before and push(session, number + half, lines[half:], bad, receiver)
    for rows, numbers in parsed(number, lines, bad):
        matches, reasons = session.push_usable(rows, until_bad=bad.failing)
        usable = [at for at in range(len(rows)) if at not in reasons]
        for at in session.late:
            receiver.late(numbers[usable[at]], rows[usable[at]])
        going_on = receiver.take(matches)
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
def heeded() -> Iterator[Waiting]:
    """Let an interrupt (Ctrl-C, or the signal to terminate) end the run between pushes; a second one ends it at once.

    So what was read is pushed, and the state is whole. An interrupt is noted even if it comes during a callback that
    swallows exceptions.
    """
    interrupts, idle = 0, False

    def note(number: int, frame: object) -> None:
        nonlocal interrupts
        del number, frame
        interrupts += 1
        if idle:
            raise InterruptedWait
        if interrupts > 1:
            raise KeyboardInterrupt

    @contextmanager
    def waiting() -> Iterator[None]:
        nonlocal idle
        idle = True
        try:
            if interrupts:
                raise InterruptedWait
            yield
        finally:
            idle = False

    if threading.current_thread() is not threading.main_thread():
        yield nullcontext
        return
    usual: dict[signal.Signals, Any] = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    ours = [number for number, handler in usual.items() if signal.getsignal(number) is handler]
    for number in ours:
        signal.signal(number, note)
    try:
        yield waiting
    finally:
        for number in ours:
            signal.signal(number, usual[number])


def input_comes(stdin: IO[bytes], seconds: float) -> bool:
    """Wait for input, or for its end, at most so many seconds; False: there is none."""
    return bool(select.select([stdin], [], [], seconds)[0])


def pieces(stdin: IO[bytes], waiting: Waiting, wait: Wait | None) -> Iterator[Piece]:
    """Whatever lines have arrived, together: one when they come slowly, many when they come fast.

    With `wait`, an empty piece when all that has come is read, and then after every second in which nothing comes.
    """
    rest, number, patience = b"", 1, 0.0
    read = getattr(stdin, "read1", stdin.read)
    while True:
        with waiting():
            data = read(BYTES_PER_READ) if wait is None or wait(stdin, patience) else None
        if data is None:
            patience = SECONDS_BETWEEN_LOOKS
            yield number, []
            continue
        patience = 0.0
        lines = (rest + data).split(b"\n")
        rest = lines.pop() if data else b""
        if lines and (len(lines) > 1 or lines[0].strip()):
            yield number, lines
        number += len(lines)
        if not data:
            return
