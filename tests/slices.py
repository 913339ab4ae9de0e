"""A slice of all tests: `pytest --slice 3/8` runs the fourth of eight (they count from 0).

A test belongs to the slice that its name hashes to: each test to exactly one, a new test by itself. The slice of a test
changes only with its name or with the number of slices.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Slice:
    """One of several slices."""

    number: int
    of: int

    def has(self, name: str) -> bool:
        """Whether a test of this name belongs here."""
        return zlib.crc32(name.encode()) % self.of == self.number


def read_slice(text: str) -> Slice:
    """The slice that a text such as `3/8` names."""
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    if found is None or not int(found[1]) < int(found[2]):
        raise ValueError(f"--slice {text}: say NUMBER/OF, such as 0/8 to 7/8")
    return Slice(int(found[1]), int(found[2]))
