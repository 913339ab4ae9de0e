"""Processes that a test starts: each is the head of a session of its own, so that all it brings forth can be ended.

A Spark worker starts executors, those start Python daemons, those fork Python workers into process groups of their own.
The session is what all of them keep, whoever their parent is by then; it is read from /proc (Linux).
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
PROC = Path("/proc")
LOOPBACK = "127.0.0.1"
SESSION = 3  # in /proc/PID/stat, after the name in parentheses: state, parent, group, session
TAIL = 60


@dataclass(frozen=True)
class Started:
    """One process that a test started, with everything in its session."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    def running(self) -> bool:
        """Whether the head of the session still runs."""
        return self.process.poll() is None

    def commands(self) -> dict[int, str]:
        """The command line of each living process of the session, by its id."""
        return {pid: command_line(pid) for pid in members(self.process.pid)}

    def kill(self) -> None:
        """End the whole session without warning (SIGKILL), and what it forks while it dies."""
        deadline = time.monotonic() + 20
        while (pids := members(self.process.pid)) and time.monotonic() < deadline:
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.process.poll()  # takes the head away, so that its id is free again only after we know
            time.sleep(0.02)
        self.process.wait(timeout=20)

    def stop(self, patience: float = 10.0) -> None:
        """Ask the head to end (SIGTERM); whatever of the session is left after that is killed."""
        if self.running():
            self.process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout=patience)
        self.kill()

    def tail(self) -> str:
        """The last lines of its log, for messages of failures."""
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return "\n".join([f"--- {self.name}: the last lines of its log ---", *lines[-TAIL:]])


@contextmanager
def started(name: str, command: Sequence[str], *, log: Path, env: Mapping[str, str], cwd: Path) -> Iterator[Started]:
    """Run a command until the block is left, however it is left."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        process = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(env),
            cwd=cwd,
            start_new_session=True,
        )
    one = Started(name, process, log)
    try:
        yield one
    finally:
        one.stop()


def wait_for(
    what: str, look: Callable[[], T | None], *, timeout: float, needs: Sequence[Started] = (), pause: float = 0.1
) -> T:
    """The first true answer of `look`; an error with the logs if it takes too long or a process it needs has ended."""
    deadline = time.monotonic() + timeout
    while not (answer := look()):
        ended = [one for one in needs if not one.running()]
        if ended or time.monotonic() > deadline:
            why = f"{ended[0].name} ended with {ended[0].process.returncode}" if ended else f"not within {timeout:g} s"
            raise TimeoutError("\n".join([f"waiting for {what}: {why}", *(one.tail() for one in ended or needs)]))
        time.sleep(pause)
    return answer


def members(session: int) -> list[int]:
    """The ids of the living processes of a session."""
    return [pid for pid in processes() if session_of(pid) == session]


def processes() -> Iterator[int]:
    """Every process id that /proc shows."""
    return (int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit())


def session_of(pid: int) -> int | None:
    """The session of a living process; None if it has ended meanwhile, or only waits to be taken away."""
    try:
        fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else int(fields[SESSION])


def command_line(pid: int) -> str:
    """What a process was started as; empty if it has ended."""
    try:
        return (PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""


def free_ports(count: int) -> list[int]:
    """Ports of the loopback interface that nobody uses now, all different."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind((LOOPBACK, 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()
