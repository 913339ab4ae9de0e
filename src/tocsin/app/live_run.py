"""`tocsin run --input -`: show what a pipe brings as it comes, keep the state, and say at the end what there was.

An interrupt is the usual end of a pipe, so it ends a run in good order: what was found is written, then summed up.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from tocsin.errors import InputError, StateError
from tocsin.run.atomic import whole_file
from tocsin.run.matches import Matches
from tocsin.run.session import Session
from tocsin.run.sinks import json_line

LOG = logging.getLogger("tocsin")
LINES_SHOWN = 10  # late rows on stderr; more are counted, so that a flood does not hide what matters
SECONDS_BETWEEN_SAVES = 60.0  # of the state, where events come


def show_line(text: str, out: IO[str]) -> None:
    """Write one line at once, whatever letters it has."""
    out.write(text.encode("utf-8", "replace").decode() + "\n")
    out.flush()


@dataclass(slots=True)
class LateRows:
    """Rows that came later than the order allows: the first ones are shown, or all are kept in a file."""

    keep: IO[str] | None
    quiet: bool
    count: int = 0

    def tell(self, line: int, row: bytes | dict[str, Any]) -> None:
        self.count += 1
        text = row.decode("utf-8", "replace").strip() if isinstance(row, bytes) else _as_json(row)
        if self.keep is not None:
            show_line(text, self.keep)
        elif not self.quiet and self.count <= LINES_SHOWN:
            more = "; later ones are only counted, --late PATH keeps them" if self.count == LINES_SHOWN else ""
            show_line(f"late: line {line}: {text}{more}", sys.stderr)


def _as_json(row: dict[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False, default=str)


BEGIN_ANEW = "name another file, and all rules begin anew; or give the changed rule another name, and only it does"


@dataclass(slots=True)
class KeptState:
    """The file in which a live run keeps its state, so that the next one goes on where it ended."""

    path: Path | None
    clock: Callable[[], float] = time.monotonic
    saved_at: float = field(init=False)

    def __post_init__(self) -> None:
        self.saved_at = self.clock()

    def read(self) -> bytes | None:
        """The saved state; None: there is none yet."""
        if self.path is None or not self.path.exists():
            return None
        if self.path.is_dir():
            raise InputError(f"--state: {self.path} is a directory", hint="give the name of a file")
        saved = self.path.read_bytes()
        LOG.info("goes on with the state in %s, %d bytes", self.path, len(saved))
        return saved

    @contextmanager
    def named(self) -> Iterator[None]:
        """Errors about the state name its file."""
        try:
            yield
        except StateError as problem:
            hint = BEGIN_ANEW if "accept_loss" in (problem.hint or "") else problem.hint
            raise StateError(f"{self.path}: {problem.message}", detail=problem.detail, hint=hint) from None

    def save(self, session: Session) -> None:
        """Write the state; a crash while it is written leaves the one before."""
        if self.path is not None:
            with whole_file(self.path) as path:
                size = path.write_bytes(session.save())
            LOG.info("the state is kept in %s, %d bytes", self.path, size)
            self.saved_at = self.clock()

    def save_if_due(self, session: Session) -> None:
        if self.path is not None and self.clock() - self.saved_at >= SECONDS_BETWEEN_SAVES:
            self.save(session)


@dataclass(slots=True)
class Screen:
    """What becomes of the matches of a live run: written at once as lines, or kept for its end."""

    session: Session
    late_rows: LateRows
    state: KeptState
    at_once: bool
    keeps: bool
    limit: int | None
    count: int = 0
    kept: list[Matches] = field(default_factory=list)

    def take(self, matches: Matches) -> bool:
        if self.at_once:
            for match in matches:
                if self.limit is not None and self.count >= self.limit:
                    return False
                sys.stdout.write(json_line(match).encode("utf-8", "replace").decode() + "\n")
                self.count += 1
            sys.stdout.flush()
        else:
            self.count += len(matches)
        if self.keeps:
            self.kept.append(matches)
        return self.limit is None or self.count < self.limit

    def late(self, line: int, row: bytes | dict[str, Any]) -> None:
        self.late_rows.tell(line, row)

    def rest(self) -> None:
        self.state.save_if_due(self.session)

    def whole(self) -> Matches:
        """All matches that were kept."""
        return Matches([table for matches in self.kept for table in matches.tables()])


def late_rows(path: Path | None, *, quiet: bool, until: ExitStack) -> LateRows:
    """Where late rows go: behind what is in the file, until the stack is closed; or to stderr."""
    keep = None if path is None else until.enter_context(path.open("a", encoding="utf-8"))
    return LateRows(keep, quiet)
