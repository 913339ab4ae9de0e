"""The stderr of Spark's JVM, passed on to ours; without what every start says, and held back until the start succeeded.

The JVM inherits our stderr otherwise, and nobody could tell a user why it did not start.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress

NOISE = (
    b"WARNING: Using incubator modules: jdk.incubator.vector",  # Spark asks for it, on every start
    b"WARNING: package sun.security.action not in java.base",  # the same, on Java 24 and newer
)


class Stderr:
    """A pipe for a child's stderr and a thread that reads it: kept at first if `hold`, passed on after `release`."""

    def __init__(self, *, hold: bool) -> None:
        self._source, self.target = os.pipe()
        self._said = bytearray()
        self._hold = hold
        self._starting = True
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._read, name="spark stderr", daemon=True)
        self._thread.start()

    def release(self) -> None:
        """The start went well: pass on what was held, except noise, and from now on everything as it comes."""
        os.close(self.target)  # the child has its own
        with self._lock:
            self._starting = False
            if self._hold:
                _write(without_noise(bytes(self._said)))
            self._said.clear()

    def finish(self) -> str:
        """The start failed: what the child said."""
        os.close(self.target)
        self._thread.join(timeout=5)
        with self._lock:
            return without_noise(bytes(self._said)).decode(errors="replace")

    def _read(self) -> None:
        while chunk := os.read(self._source, 1 << 16):
            with self._lock:
                if self._starting:
                    self._said += chunk
                if not (self._starting and self._hold):
                    _write(chunk)
        os.close(self._source)


def without_noise(said: bytes) -> bytes:
    return b"".join(line for line in said.splitlines(keepends=True) if line.rstrip() not in NOISE)


def _write(data: bytes) -> None:
    """To where the JVM would have written: the file descriptor, not what Python calls stderr."""
    with suppress(OSError):  # closed: there is nobody to tell
        while data:
            data = data[os.write(2, data) :]
