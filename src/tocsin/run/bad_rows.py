"""Handle rows that cannot be used: end the run, count them, or keep them in a file; none is lost silently."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import Any

from tocsin.errors import InputError
from tocsin.run.atomic import whole_file

EXAMPLES = 3


@dataclass(slots=True)
class BadRows:
    """What happens to bad rows: policy "fail", "skip", or the path of the file that keeps them."""

    policy: str | os.PathLike[str] = "fail"
    count: int = 0
    examples: list[str] = field(default_factory=list)
    kept: list[dict[str, Any]] = field(default_factory=list)

    @property
    def failing(self) -> bool:
        return self.policy == "fail"

    @property
    def shows_rows(self) -> bool:
        """Whether the rows themselves are wanted, beside their places and reasons."""
        return self.policy != "skip"

    def report(self, place: str, reason: str, row: Any = None, *, hint: str | None = None) -> None:
        """Note one bad row; under "fail" raise it."""
        if self.failing:
            skip = 'leave bad rows out with bad_rows="skip" (--bad-rows skip), or keep them in a file'
            raise InputError(f"{place}: {reason}", detail=_shown(row), hint=f"{hint}; or {skip}" if hint else skip)
        self.count += 1
        if len(self.examples) < EXAMPLES:
            self.examples.append(f"{place}: {reason}")
        if self.policy != "skip":
            self.kept.append({"place": place, "reason": reason, "row": row})

    def told(self) -> list[str]:
        """What a command says of them: the first few, each on a line, and how many more there were."""
        lines = [f"skipped: {example}" for example in self.examples]
        more = self.count - len(self.examples)
        return [*lines, f"skipped: and {more:,} more"] if more else lines

    def write(self) -> None:
        """Write the kept rows, if a file was asked for: one JSON object per line."""
        if self.policy in ("fail", "skip"):
            return
        with whole_file(self.policy) as path, path.open("w", encoding="utf-8") as out:
            for row in self.kept:
                out.write(json.dumps(row, ensure_ascii=True, default=str) + "\n")


def _shown(row: Any) -> str | None:
    if row is None:
        return None
    try:
        text = row if isinstance(row, str) else json.dumps(row, default=str, ensure_ascii=False)
    except (ValueError, TypeError, RecursionError):  # keys that are no texts, circles, numbers of thousands of digits
        return None
    return f"the row is {text if len(text) <= 200 else text[:197] + '...'}"
