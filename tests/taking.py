"""A receiver of a live run for tests: it takes matches, and notes which lines were late."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tocsin.run.matches import Matches


@dataclass
class Taking:
    take: Callable[[Matches], bool]
    lines: list[tuple[int, Any]] = field(default_factory=list)

    def late(self, line: int, row: bytes | dict[str, Any]) -> None:
        self.lines.append((line, row))

    def rest(self) -> None:
        pass
