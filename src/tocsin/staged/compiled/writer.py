"""The text of a function while it is written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tocsin.staged.compiled.library import GROWING, ROOM

# The names of arrays, seen as numbers with fractions.
REALS = {"D": "R", "K": "KR", "O": "OR", "U": "UR", "V": "VR", "X": "XR"}


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

    def more(self, name: str, need: str) -> None:
        """Make an array longer."""
        at = GROWING.index(name)
        self(f"{name} = pointer(room(host, {at}, {need}))", f"{name}N = P[{ROOM + at}]")
        if name in REALS:
            self(f"{REALS[name]} = reals({name})")

    def refill(self, table: str, off: str, count: int) -> None:
        """Make a table longer."""
        self(f"old, size = {table}, {table}N")
        self.more(table, "0")
        self(f"refill(old, size, {table}, {table}N - 1, D, {off}, {count})")

    def fresh(self, name: str) -> str:
        self._count += 1
        return f"{name}_{self._count}"

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"
