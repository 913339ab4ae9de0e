"""Tiers: the plain body of a kernel answers until its machine code is there, which another process compiles.

Both bodies work in the same memory, so one can go on where the other stopped, between any two rows. Which of them runs
is decided by how much was done, on this machine, and shows in nothing but the time it takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from threading import Lock

from tocsin.compilers import NEEDED, RARER, Compilation, compilers
from tocsin.engine import kernels
from tocsin.engine.codegen import Program
from tocsin.engine.kernels import Kernel
from tocsin.functions import Function
from tocsin.items import Strings

FEW_ROWS = 64  # that the plain body takes at once: each may have a whole window to look through
WORTH_ROWS = 4096  # a kernel is compiled once its plain body has taken so many rows,
WORTH_SECONDS = 0.05  # or has worked so long
MANY_ROWS, MANY_SECONDS = 1 << 10, 0.1  # of so many, after so long, we wait for what need only be loaded
LOADING = 1.0  # seconds that this may take


@dataclass(slots=True)
class _Shape:
    """All kernels of one source: what their plain bodies have done in this process, and what is being compiled."""

    rows: int = 0
    seconds: float = 0.0
    first: Compilation[Kernel] | None = None  # without `careful`
    whole: Compilation[Kernel] | None = None


_shapes: dict[str, _Shape] = {}
_lock = Lock()


class Tiers:
    """The bodies of one kernel."""

    def __init__(
        self, program: Program, functions: Mapping[str, Function], strings: Strings, rule: str = "the query"
    ) -> None:
        self._program, self._rule = program, rule
        self._load = partial(kernels.compiled, program, functions)
        self._shape = _shapes.setdefault(program.source, _Shape())
        self.plain = kernels.plain(program, functions, strings)
        self._fast: Kernel | None = None

    @property
    def is_final(self) -> bool:
        """Whether everything is compiled and loaded, so that there is nothing more to choose."""
        return self._fast is not None and self._fast.whole

    def best(self, rows: int, *, careful: bool) -> Kernel:
        """The body for the next rows, of which there are so many; `careful`: with nulls or withdrawals."""
        if self._fast is None or (careful and not self._fast.whole):
            self._look(rows, careful=careful)
        fast = self._fast
        return self.plain if fast is None or (careful and not fast.whole) else fast

    def worked(self, rows: int, seconds: float) -> None:
        """The plain body has taken some rows, for so long."""
        self._shape.rows += rows
        self._shape.seconds += seconds

    def _look(self, rows: int, *, careful: bool) -> None:
        """Take what is compiled by now, and ask for what is not and would be worth it."""
        shape = self._shape
        if shape.first is None:
            if shape.rows + rows < WORTH_ROWS and shape.seconds < WORTH_SECONDS:
                return
            with _lock:
                shape.first = self._asked(careful=False, rank=NEEDED)
        if rows >= MANY_ROWS and shape.seconds >= MANY_SECONDS and self._is_on_disk:
            shape.first.wait(LOADING)
        if shape.first.is_done:
            self._fast = shape.first.found
        if self._fast is None or self._fast.whole:
            return
        if shape.whole is None or (careful and not shape.whole.is_taken):
            with _lock:
                shape.whole = self._asked(careful=True, rank=NEEDED if careful else RARER)
        if shape.whole.is_done:
            self._fast = shape.whole.found

    @cached_property
    def _is_on_disk(self) -> bool:
        return kernels.is_on_disk(self._program)

    def _asked(self, *, careful: bool, rank: int) -> Compilation[Kernel]:
        work = None if self._is_on_disk and not careful else (kernels.compile_to_disk, (self._program, careful))
        return compilers().ask(
            (self._program.source, careful), work, partial(self._load, careful=careful), rank, self._rule
        )
