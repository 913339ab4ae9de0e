"""Problems are collected, so that one run of the binder reports all that is wrong with a query."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from tocsin.errors import Problem, QueryError
from tocsin.lang.syntax import Span


class Problems:
    """What is wrong with one query so far; the same problem at the same place counts once."""

    def __init__(self, text: str = "") -> None:
        self.text = text
        self.found: list[Problem] = []

    def add(
        self, message: str, span: Span | None = None, *, detail: str | None = None, hint: str | None = None
    ) -> None:
        problem = Problem(message, span, detail, hint)
        if not any(known.message == message and known.span == span for known in self.found):
            self.found.append(problem)

    def raise_any(self) -> None:
        """Raise everything found, in the order of the text."""
        if self.found:
            self.found.sort(key=lambda problem: problem.span.start if problem.span else len(self.text))
            raise QueryError(self.found, self.text)


def suggestion(name: str, known: Iterable[str]) -> str | None:
    """The known name that was probably meant, ignoring case.

    >>> suggestion("Shlef", ["Shelf", "Exit"])
    'did you mean Shelf?'
    """
    by_lower = {word.lower(): word for word in sorted(known, reverse=True)}
    close = get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return f"did you mean {by_lower[close[0]]}?" if close else None


def listed(names: Iterable[str], most: int = 8) -> str:
    """Names for a hint: sorted, and cut when there are many."""
    ordered = sorted(names)
    return ", ".join(ordered[:most]) + (", ..." if len(ordered) > most else "")
