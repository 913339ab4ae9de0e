"""The text of a function while it is written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class TextWriter:
    """Lines with their depth; `fresh` names are used once."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._depth = 0
        self._count = 0

    def __call__(self, *lines: str) -> None:
        self.lines += ["    " * self._depth + line for line in lines]

    @contextmanager
    def block(self, header: str) -> Iterator[None]:
        """What stands below a header; nothing below it is `pass`."""
        self(header)
        self._depth += 1
        before = len(self.lines)
        yield
        if len(self.lines) == before:
            self("pass")
        self._depth -= 1

    def fresh(self, name: str) -> str:
        self._count += 1
        return f"{name}_{self._count}"

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"
