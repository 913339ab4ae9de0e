"""Pass the JVM's stderr on to ours: without the usual noise, and held back until the start has succeeded.

The JVM inherits our stderr otherwise, and nobody could tell a user why it did not start.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress

NOISE = (
    b"WARNING: Using incubator modules: jdk.incubator.vector",  # Spark asks for it, on every start
    b"WARNING: package sun.security.action not in java.base",  # the same, on Java 24 and newer
    b"Starting Streaming TransformWithStateInPandas Python worker.",  # PySpark, when a stream starts
    b"Streaming TransformWithStateInPandas Python worker ",
)


class Filter:
    """Takes lines that begin like noise out of a stream of bytes, and the empty lines after them; delays no others."""

    def __init__(self) -> None:
        self._begun = b""  # the start of a line that may become noise
        self._inside = False  # the start of the line was passed on, so the rest follows
        self._after_noise = False

    def feed(self, data: bytes) -> bytes:
        """What of the bytes can be passed on now."""
        *lines, last = (self._begun + data).split(b"\n")
        passed = b"".join(line + b"\n" for line in lines if self._is_passed(line))
        maybe = last.startswith(NOISE) or any(noise.startswith(last) for noise in NOISE)
        self._begun = last if maybe and not self._inside else b""
        self._inside = self._inside or not maybe
        return passed + last if self._inside else passed

    def _is_passed(self, line: bytes) -> bool:
        """Asked once for each line, when it is complete."""
        noise = not self._inside and (line.startswith(NOISE) or (self._after_noise and not line))
        self._inside, self._after_noise = False, noise
        return not noise


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
        """The start went well: pass on what was held, and from now on everything as it comes."""
        os.close(self.target)  # the child has its own
        with self._lock:
            self._starting = False
            if self._hold:
                _write(bytes(self._said))
            self._said.clear()

    def finish(self) -> str:
        """The start failed: what the child said."""
        os.close(self.target)
        self._thread.join(timeout=5)
        with self._lock:
            return self._said.decode(errors="replace")

    def _read(self) -> None:
        noise = Filter()
        while data := os.read(self._source, 1 << 16):
            said = noise.feed(data)
            with self._lock:
                if self._starting:
                    self._said += said
                if not (self._starting and self._hold):
                    _write(said)
        os.close(self._source)


def _write(data: bytes) -> None:
    """To where the JVM would have written: the file descriptor, not what Python calls stderr."""
    with suppress(OSError):  # closed: there is nobody to tell
        while data:
            data = data[os.write(2, data) :]
