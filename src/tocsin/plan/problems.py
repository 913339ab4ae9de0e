"""Problems are collected, so that one run of the binder reports all that is wrong with a query."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

from tocsin.errors import Place, Problem, QueryError
from tocsin.lang.syntax import Span

NO_WORD = re.compile(r"[^a-z0-9]+")
PLAIN = re.compile(r"[\w.]+")


class Problems:
    """What is wrong with one query so far; the same problem at the same place counts once, at its narrowest."""

    def __init__(self, text: str = "") -> None:
        self.text = text
        self.found: list[Problem] = []
        self.notes: list[str] = []  # not wrong, but perhaps not meant

    def add(
        self, message: str, span: Span | None = None, *, detail: str | None = None, hint: str | None = None
    ) -> None:
        problem = Problem(message, span, detail, hint)
        alike = [known for known in self.found if known.message == message]
        if any(known.span == span or _inside(known.span, span) for known in alike):
            return
        wider = [known for known in alike if _inside(span, known.span)]
        self.found = [known for known in self.found if known not in wider] + [problem]

    def note(self, text: str, suggested: str | None) -> None:
        """Keep a note, once, with the name that was probably meant."""
        whole = f"{text}; {suggested}" if suggested else text
        if whole not in self.notes:
            self.notes.append(whole)

    def raise_any(self) -> None:
        """Raise everything found, in the order of the text."""
        if self.found:
            self.found.sort(key=lambda problem: problem.span.start if problem.span else len(self.text))
            raise QueryError(self.found, self.text)


def _inside(inner: Place | None, outer: Place | None) -> bool:
    return inner is not None and outer is not None and outer.start <= inner.start and inner.end <= outer.end


def suggestion(name: str, known: Iterable[str]) -> str | None:
    """The known name that was probably meant, ignoring case.

    >>> suggestion("Shlef", ["Shelf", "Exit"])
    'did you mean Shelf?'
    >>> suggestion("case", ["case:concept:name", "time"])
    'did you mean `case:concept:name`?'
    """
    by_lower = {word.lower(): word for word in sorted(known, reverse=True)}
    close = get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    close = close or sorted((word for word in by_lower if name.lower() in NO_WORD.split(word)), key=len)
    if not close:
        return None
    meant = by_lower[close[0]]
    return f"did you mean {meant if PLAIN.fullmatch(meant) or not meant.isprintable() else f'`{meant}`'}?"


def listed(names: Iterable[str], most: int = 8) -> str:
    """Names for a hint: sorted, and cut when there are many."""
    ordered = sorted(names)
    return ", ".join(ordered[:most]) + (", ..." if len(ordered) > most else "")
