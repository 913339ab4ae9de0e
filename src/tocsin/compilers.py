"""Compilers: other processes that compile for this one, side by side, while work here goes on without what they make.

Each compiler is a process that fills the cache on disk, and a thread of ours that waits for it and then loads what it
made. What is needed first is compiled first; what is asked for twice, once. A process that cannot be started, or ends
too early, costs time only: loading compiles what is not on disk. A compiler ends when it was idle for a while, or
when it has finished what it was at after this process ended: the next one finds that compiled.
"""

from __future__ import annotations

import itertools
import logging
import os
import pickle
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any, Generic, NamedTuple, TypeVar

T = TypeVar("T")
LOG = logging.getLogger("tocsin")
Work = tuple[Callable[..., None], tuple[Any, ...]]  # a function of a module and its arguments, which can be pickled

NEEDED, RARER = 0, 1  # how soon a job is wanted
IDLE = 20.0  # seconds after which a compiler without work ends
MOST = 8  # compilers
AT_ONCE = 1 << 18  # rows for which loops that are on disk are loaded at once
CHILD = "from tocsin.compiler_process import main; main()"


def compiles_first() -> bool:
    """Whether answers wait for the compiler: asked for by the environment, for measurements and tests."""
    return os.environ.get("TOCSIN_COMPILE_FIRST", "0") not in ("", "0")


class Compilation(Generic[T]):
    """Something to be compiled elsewhere (`work`; None: nothing) and then loaded here, by another thread (`load`).

    `rule`: the query that it is a body of, for those who watch.
    """

    def __init__(self, work: Work | None, load: Callable[[], T], rule: str | None = None) -> None:
        self.work, self.load, self.rule = work, load, rule
        self.is_taken = False
        self._done = threading.Event()
        self._found: T | None = None
        self._problem: Exception | None = None

    @property
    def is_done(self) -> bool:
        """Whether it is loaded, or has failed."""
        return self._done.is_set()

    def wait(self, seconds: float) -> None:
        """Wait until it is done, but not longer."""
        self._done.wait(seconds)

    @property
    def found(self) -> T:
        """What was loaded; raises what compiling raised."""
        if self._problem is not None:
            raise self._problem
        assert self._found is not None
        return self._found

    def finish(self) -> None:
        """Load; done by a compiler's thread."""
        try:
            with quick_turns():
                self._found = self.load()
        except Exception as problem:  # noqa: BLE001 - whoever asks for what was loaded gets it
            self._problem = problem
        self._done.set()


@contextmanager
def quick_turns() -> Iterator[None]:
    """Have threads take turns more often.

    An import reads hundreds of files, and behind each of them it waits for its turn: where another thread computes all
    the time, Numba came after three seconds.
    """
    global _hurried  # noqa: PLW0603 - Python has one interval for all threads
    with _turns:
        _hurried += 1
        if _hurried == 1:
            sys.setswitchinterval(OFTEN)
    try:
        yield
    finally:
        with _turns:
            _hurried -= 1
            if not _hurried:
                sys.setswitchinterval(SELDOM)


_turns, _hurried, SELDOM, OFTEN = threading.Lock(), 0, sys.getswitchinterval(), 0.0002


class Compiling(NamedTuple):
    """What compilers are at: the rule, which of those asked for it is, and of how many."""

    rule: str
    number: int
    rules: int

    def __str__(self) -> str:
        return f"compiling {self.rule} ({self.number} of {self.rules})"


class Compilers:
    """As many compilers as there is work for, and cores."""

    def __init__(self, most: int | None = None) -> None:
        self.most = min(os.cpu_count() or 1, MOST) if most is None else most
        self._waiting: queue.PriorityQueue[tuple[int, int, Compilation[Any]]] = queue.PriorityQueue()
        self._jobs: dict[Hashable, Compilation[Any]] = {}
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._threads = self._free = 0
        self.seconds = 0.0  # that compilers were at work
        self._watched: list[Compilation[Any]] = []

    def ask(
        self, key: Hashable, work: Work | None, load: Callable[[], T], rank: int = NEEDED, rule: str | None = None
    ) -> Compilation[T]:
        """Have something compiled; one job for each key. Asked again with a lower rank it is done sooner."""
        with self._lock:
            job = self._jobs.get(key)
            if job is None:
                job = self._jobs[key] = Compilation(work, load, rule)
                self._note(job)
            elif job.is_taken or rank != NEEDED:
                return job
            self._waiting.put((rank, next(self._numbers), job))
            if self._waiting.qsize() > self._free and self._threads < self.most:
                self._threads += 1
                threading.Thread(target=self._work, name="tocsin-compiler", daemon=True).start()
            return job

    def _note(self, job: Compilation[Any]) -> None:
        """Keep what is compiled for rules; the count begins anew when all of it is done."""
        if job.work is not None and job.rule is not None:
            self._watched = [*(() if all(each.is_done for each in self._watched) else self._watched), job]

    @property
    def at(self) -> Compiling | None:
        """What is being compiled for rules, the first that was asked for; None: nothing."""
        with self._lock:
            jobs = self._watched
        number = next((number for number, each in enumerate(jobs, 1) if not each.is_done), None)
        return None if number is None else Compiling(str(jobs[number - 1].rule), number, len(jobs))

    def _work(self) -> None:
        """The thread of one compiler."""
        process: subprocess.Popen[bytes] | None = None
        while (job := self._next()) is not None:
            began = perf_counter()
            if job.work is not None:
                process = compiled_by(process, job.work)
            job.finish()
            took = perf_counter() - began
            self.seconds += took
            if job.work is not None:
                LOG.info("compiled %s in %.1f s", job.rule or "loops that all queries share", took)
        if process is not None:
            end(process)

    def _next(self) -> Compilation[Any] | None:
        """The next job; None if none came for a while, and the thread is to end."""
        with self._lock:
            self._free += 1
        while True:
            try:
                _, _, job = self._waiting.get(timeout=IDLE)
            except queue.Empty:
                job = None
            with self._lock:
                if job is None and not self._waiting.empty():
                    continue
                if job is not None and job.is_taken:
                    continue
                self._free -= 1
                if job is None:
                    self._threads -= 1
                else:
                    job.is_taken = True
                return job


def compiled_by(process: subprocess.Popen[bytes] | None, work: Work) -> subprocess.Popen[bytes] | None:
    """Have a process do some work, a new one if need be, and wait for it; None: it failed, and was ended."""
    try:
        sent = pickle.dumps(work)
        process = process or started()
        if process is None:
            return None
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(sent)
        process.stdin.flush()
        if process.stdout.readline() == b"done\n":
            return process
    except (OSError, ValueError, TypeError, AttributeError, pickle.PicklingError):  # cannot be started, reached or sent
        pass
    if process is not None:
        end(process)
    return None


def started() -> subprocess.Popen[bytes] | None:
    """A process that compiles; None where Python cannot be started. An interrupt in a terminal does not reach it."""
    if not sys.executable or getattr(sys, "frozen", False):
        return None
    paths = os.pathsep.join(os.path.abspath(path) for path in sys.path)  # noqa: PTH100 - as they are, links included
    return subprocess.Popen(  # noqa: S603 - ourselves
        [sys.executable, "-P", "-c", CHILD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": paths},
        start_new_session=True,
    )


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process that has nothing to do, or has failed."""
    process.kill()
    process.communicate()


class Loops:
    """Compiled loops of ours that are the same for all queries: ready when they need not be compiled any more."""

    def __init__(self, rehearse: Callable[[], None], file: Path, last: str) -> None:
        """`rehearse`: a function of a module that runs all of them, for every kind of input; `last`: one in `file`."""
        self._rehearse, self._file, self._last = rehearse, file, last
        self._is_ready = False
        self._job: Compilation[bool] | None = None

    def are_worth(self, rows: int, least: int) -> bool:
        """Whether to use them for so many rows: fewer than `least` are no reason to compile or load anything."""
        if not self._is_ready and (rows >= least or compiles_first()):
            self._is_ready = self._come(rows)
        return self._is_ready

    def _come(self, rows: int) -> bool:
        """Whether they can be used now; if not, other ways must do until they are compiled, or loaded."""
        if compiles_first():
            return True
        if self._job is None:
            kept = is_kept(self._file, self._last)
            if kept and (rows >= AT_ONCE or "numba" in sys.modules):
                return True
            self._job = compilers().ask(self._rehearse, None if kept else (self._rehearse, ()), self._rehearsed)
        return self._job.is_done and self._job.found

    def _rehearsed(self) -> bool:
        self._rehearse()
        return True


def is_kept(source: Path, function: str) -> bool:
    """Whether Numba has an index of machine code for a function on disk that is not older than its file.

    Found out without Numba, because importing it takes long.
    """
    given, name = os.environ.get("NUMBA_CACHE_DIR"), f"{source.stem}.{function}-*.nbi"
    try:
        made = source.stat().st_mtime
        found = Path(given).glob(f"*/{name}") if given else (source.parent / "__pycache__").glob(name)
        return any(index.stat().st_mtime >= made for index in found)
    except OSError:
        return False


_ours: Compilers | None = None


def compilers() -> Compilers:
    """Those of this process; after a fork, the child has its own."""
    global _ours  # noqa: PLW0603 - one for the process
    if _ours is None:
        _ours = Compilers()
    return _ours


def _forget() -> None:
    global _ours  # noqa: PLW0603
    _ours = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
