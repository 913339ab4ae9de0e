"""LIKE without backtracking: the pieces between `%` are looked for one after the other, each as early as it can be.

If a piece fits at several places the first is as good as any: it leaves most of the text to the pieces behind it.
So a text of n characters and a pattern of m take at most n times m steps.
"""

from __future__ import annotations

import re
from functools import lru_cache


def like(text: str, pattern: str) -> bool:
    """Whether a whole text is LIKE a pattern (docs/expressions.md)."""
    first, *others = _pieces(pattern)
    if not others:
        return first.fullmatch(text) is not None
    *middle, last = others
    found = first.match(text)
    for piece in middle:
        found = found and piece.search(text, found.end())
    return found is not None and last.search(text, found.end()) is not None


@lru_cache(maxsize=256)
def _pieces(pattern: str) -> tuple[re.Pattern[str], ...]:
    """What stands between the `%` of a pattern; no piece repeats anything, so none looks further than its length."""
    pieces, letters = [""], iter(pattern)
    for letter in letters:
        if letter == "%":
            pieces.append("")
        elif letter == "\\":
            pieces[-1] += re.escape(next(letters, "\\"))
        else:
            pieces[-1] += "." if letter == "_" else re.escape(letter)
    if len(pieces) > 1:
        pieces[-1] += r"\Z"
    return tuple(re.compile(piece, re.DOTALL) for piece in pieces)
