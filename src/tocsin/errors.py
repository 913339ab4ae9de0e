"""One family of errors: each says the place, the reason and the next step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class Place(Protocol):
    """Anything with character offsets into a query text (see `lang.syntax.Span`)."""

    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong: what, where in the query text, why, and what to do about it."""

    message: str
    span: Place | None = None
    detail: str | None = None
    hint: str | None = None


class TocsinError(Exception):
    """Base of every error that Tocsin raises on purpose."""

    def __init__(self, message: str, *, detail: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.detail = detail
        self.hint = hint

    def __str__(self) -> str:
        return "\n".join(_lines(Problem(self.message, None, self.detail, self.hint)))


class QueryError(TocsinError):
    """The query text is wrong; carries every problem found, with its place underlined."""

    def __init__(self, problems: tuple[Problem, ...] | list[Problem], text: str = "") -> None:
        self.problems = tuple(problems)
        self.text = text
        super().__init__(self.problems[0].message, detail=self.problems[0].detail, hint=self.problems[0].hint)

    def __str__(self) -> str:
        return "\n\n".join("\n".join(_lines(problem, self.text)) for problem in self.problems)


class InputError(TocsinError):
    """The data is wrong: a missing column, a bad row, a null time, an unreadable file."""


class FunctionError(TocsinError):
    """A user function raised, or gave something else than it was registered for; says which, and with what values."""


class StateError(TocsinError):
    """A saved state cannot be restored here: another query, another version, damaged bytes."""


class LimitError(TocsinError):
    """The work would need more than the stated limit; nothing was dropped to make it fit."""


class TocsinWarning(UserWarning):
    """Something that is counted and goes on: an event behind a promise, say."""


def printable(text: str) -> str:
    """Spell out what a terminal would obey or could not write: control characters, halves of surrogate pairs.

    >>> printable("café \\x1b[31m")
    'café \\\\x1b[31m'
    """
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char in "\n\t" else char.encode("unicode_escape").decode() for char in text
    )


def _lines(problem: Problem, text: str = "") -> list[str]:
    lines = [f"error: {printable(problem.message)}"]
    if problem.span is not None and text:
        lines += _underlined(text, problem.span.start, problem.span.end)
    if problem.detail:
        lines.append(f"  reason: {printable(problem.detail)}")
    if problem.hint:
        lines.append(f"  hint: {printable(problem.hint)}")
    return lines


def _underlined(text: str, start: int, end: int) -> list[str]:
    """The line of text that holds `start`, with carets under start..end.

    >>> print("\\n".join(_underlined("EVENT SEQ(A, Z)", 13, 14)))
      line 1, column 14
      | EVENT SEQ(A, Z)
      |              ^
    """
    start = min(start, len(text))
    first = text.rfind("\n", 0, start) + 1
    last = text.find("\n", start)
    last = len(text) if last < 0 else last
    row = text.count("\n", 0, start) + 1
    before, under, after = (
        printable(part.expandtabs(1)) for part in (text[first:start], text[start : min(end, last)], text[end:last])
    )
    return [
        f"  line {row}, column {start - first + 1}",
        f"  | {before}{under}{after}",
        f"  | {' ' * len(before)}{'^' * max(1, len(under))}",
    ]
