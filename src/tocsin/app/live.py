"""`tocsin run --input -`: push each line of JSONL as it comes, and write its matches at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any

import pyarrow as pa

from tocsin.encode.arrow import BadRowError, Problems
from tocsin.encode.batch import frame
from tocsin.encode.columns import Columns
from tocsin.encode.objects import from_dicts
from tocsin.errors import InputError
from tocsin.run.bad_rows import BadRows
from tocsin.run.files import parse_line
from tocsin.run.matches import Matches
from tocsin.run.session import Session

BYTES_PER_READ = 1 << 16
PLACE = "standard input"


def follow(session: Session, stdin: IO[bytes], columns: Columns, bad: BadRows, emit: Callable[[Matches], bool]) -> None:
    """Push every line of `stdin`; `emit` gets the matches of each push and says whether to go on."""
    with heeded() as check:
        for rows, numbers in pieces(stdin, bad, check):
            for batch in usable(rows, numbers, columns, bad):
                if not emit(session.push(batch)):
                    return
        emit(session.close())


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


def pieces(
    stdin: IO[bytes], bad: BadRows, check: Callable[[], None]
) -> Iterator[tuple[list[dict[str, Any]], list[int]]]:
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
                bad.report(f"{PLACE}, line {number}", str(reason), line.decode("utf-8", "replace").strip())
            else:
                rows.append(row)
                numbers.append(number)
        if rows:
            yield rows, numbers
        if not data:
            return


def usable(rows: list[dict[str, Any]], numbers: list[int], columns: Columns, bad: BadRows) -> Iterator[pa.RecordBatch]:
    """The rows that can be pushed, as a batch; bad ones are reported with their lines."""
    try:
        problems: Problems = []
        batch = from_dicts(rows, problems)
        problems += frame(batch, columns.resolve(batch.schema.names)).problems
    except BadRowError as problem:
        bad.report(f"{PLACE}, line {numbers[problem.row]}", problem.reason, rows[problem.row])
        return
    except InputError as problem:
        if len(rows) > 1:  # find out which line it is
            for row, number in zip(rows, numbers, strict=True):
                yield from usable([row], [number], columns, bad)
            return
        bad.report(f"{PLACE}, line {numbers[0]}", problem.message, rows[0], hint=problem.hint)
        return
    reasons: dict[int, str] = {}
    for mask, reason in problems:
        for place in mask.nonzero()[0].tolist():
            reasons.setdefault(place, reason)
    for place, reason in sorted(reasons.items()):
        bad.report(f"{PLACE}, line {numbers[place]}", reason, rows[place])
    keep = [place for place in range(len(rows)) if place not in reasons]
    if keep:
        yield batch if len(keep) == len(rows) else batch.take(pa.array(keep))
