"""The parent's side: a child process that is asked for outcomes, and started again when an input has killed it."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Self

from tools.attack.core import DIED, HUNG, Input, Outcome, as_text
from tools.attack.surfaces import surface

ROOT = Path(__file__).parent.parent.parent
WAIT = 15  # times its CPU time is how long an input may take on a busy machine before it counts as stuck
TIDY = 10  # seconds
BOUNDS = {"TOCSIN_BOUNDS": "1", "NUMBA_OPT": "1"}  # kernels check every index, and are compiled quickly


class Child:
    """A process that tries inputs; `with` ends it."""

    def __init__(self, *, cache: Path | None = None) -> None:
        folder = cache or Path(tempfile.gettempdir())
        paths = [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]
        self.environment = {**os.environ, **BOUNDS, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        self.environment.setdefault("TOCSIN_CACHE", str(ROOT / ".cache" / "attack"))
        self.errors = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - closed with the child
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.end()
        self.errors.close()

    def end(self, *, stuck: bool = False) -> None:
        """End the process, if there is one; it tidies up if it can."""
        if self.process is not None:
            try:
                self.process.communicate(timeout=0 if stuck else TIDY)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.communicate()
            self.process = None

    def drawn(self, name: str, seed: int, number: int) -> Outcome:
        """Try the input with this number."""
        return self._ask({"surface": name, "seed": seed, "number": number})

    def given(self, name: str, given: Input) -> Outcome:
        """Try this input."""
        return self._ask({"surface": name, "input": given})

    def _ask(self, asked: dict[str, Any]) -> Outcome:
        process = self._running()
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(as_text(asked).encode() + b"\n")
            process.stdin.flush()
        except BrokenPipeError:
            return self._dead()
        patience = WAIT * surface(asked["surface"]).seconds
        if not select.select([process.stdout], [], [], patience)[0]:
            self.end(stuck=True)
            return Outcome(HUNG, f"it waits for ever, or for {patience} seconds", "waiting")
        line = process.stdout.readline()
        return Outcome(**json.loads(line)) if line else self._dead()

    def _running(self) -> subprocess.Popen[bytes]:
        if self.process is None:
            self.errors.truncate(0)
            command = [sys.executable, "-m", "tools.attack.child"]
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, cwd=ROOT,
                env=self.environment,
            )  # fmt: skip
        return self.process

    def _dead(self) -> Outcome:
        """Say how the process ended."""
        assert self.process is not None
        code = self.process.wait()
        self.end()
        if -code == signal.SIGXCPU:
            return Outcome(HUNG, "it used up its CPU time", "CPU time")
        name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return Outcome(DIED, f"the process ended with {name}: {self._last_words()}", f"{name} {self._place()}")

    def _words(self) -> list[str]:
        self.errors.seek(0)
        return self.errors.read().decode("utf-8", "replace").splitlines()

    def _last_words(self) -> str:
        return " | ".join(line.strip() for line in self._words()[:12])[:500]

    def _place(self) -> str:
        """Return the innermost function of Tocsin in the trace of a dead process."""
        found = [line for line in self._words() if f"{os.sep}tocsin{os.sep}" in line and " in " in line]
        return found[0].rpartition(" in ")[2].strip() if found else ""
