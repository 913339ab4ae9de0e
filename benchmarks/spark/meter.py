"""CPU time of a process and all its descendants, also of those that are gone again.

The kernel adds a child's time to its parent only when the parent waits for it, and Spark's Python daemon does not wait
for its workers. So a thread looks at the whole tree at short intervals and remembers the last time seen of every
process: what can be lost is one interval of a process that ended, never more, and the sum never falls. Linux only;
elsewhere `cpu` is None.
"""

from __future__ import annotations

import ctypes
import os
import threading
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

PROC = Path("/proc")
BECOME_SUBREAPER = 36  # prctl: descendants whose parent died come to this process, so the tree stays whole
INTERVAL_S = 0.1

Process = tuple[int, int]  # id and start time, since ids are used again


@dataclass(slots=True)
class Meter:
    """`with Meter() as meter:` ... `meter.cpu()` is the CPU time of this process and its descendants, in seconds.

    With `adopts` descendants whose parent died become children of this process; else they are lost from that moment on.
    """

    interval_s: float = INTERVAL_S
    adopts: bool = True
    _seen: dict[Process, int] = field(default_factory=dict)
    _stop: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        if PROC.joinpath("self", "stat").exists():
            if self.adopts:
                ctypes.CDLL(None).prctl(BECOME_SUBREAPER, 1, 0, 0, 0)
            self._thread = threading.Thread(target=self._watch, daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def cpu(self) -> float | None:
        """Seconds until now; None where it cannot be known."""
        if self._thread is None:
            return None
        self._look()
        return sum(self._seen.values()) / os.sysconf("SC_CLK_TCK")

    def _watch(self) -> None:
        while not self._stop.wait(self.interval_s):
            self._look()

    def _look(self) -> None:
        with self._lock:
            for process, ticks in descendants(os.getpid()).items():
                self._seen[process] = max(ticks, self._seen.get(process, 0))


def descendants(root: int) -> dict[Process, int]:
    """The process and everything below it, with the clock ticks that each has used itself."""
    found = {pid: numbers for pid in running() if (numbers := read(pid)) is not None}
    below: dict[int, list[int]] = {}
    for pid, (parent, _, _) in found.items():
        below.setdefault(parent, []).append(pid)
    tree, open_ends = {}, [root]
    while open_ends:
        pid = open_ends.pop()
        if pid in found:
            _, started, ticks = found[pid]
            tree[pid, started] = ticks
        open_ends += below.get(pid, [])
    return tree


def running() -> list[int]:
    return [int(entry.name) for entry in os.scandir(PROC) if entry.name.isdigit()]


def read(pid: int) -> tuple[int, int, int] | None:
    """Parent, start time and own CPU ticks of a process; None when it is gone."""
    try:
        text = PROC.joinpath(str(pid), "stat").read_bytes()
    except OSError:
        return None
    fields = text[text.rindex(b")") + 2 :].split()  # the name before it may hold anything
    return int(fields[1]), int(fields[19]), int(fields[11]) + int(fields[12])
