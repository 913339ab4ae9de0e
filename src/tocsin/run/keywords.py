"""Misspelt options of Python calls get the name that was probably meant, as those of the command line do."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from functools import wraps
from inspect import unwrap
from types import CodeType
from typing import Any, ParamSpec, TypeVar

from tocsin.errors import TocsinError

P = ParamSpec("P")
T = TypeVar("T")
SHOWN = 8  # options in a hint


class KeywordError(TocsinError, TypeError):
    """A call has an option that there is not."""


def known_options(function: Callable[P, T]) -> Callable[P, T]:
    """Refuse options that a function does not have with a hint; it takes no others by `**`.

    >>> @known_options
    ... def ring(*, often: int = 1) -> int:
    ...     return often
    >>> ring(oftn=2)
    Traceback (most recent call last):
    ...
    tocsin.run.keywords.KeywordError: error: ring has no option 'oftn'
      hint: did you mean often?
    """
    names = names_of(function)

    @wraps(function)
    def asked(*args: P.args, **options: P.kwargs) -> T:
        if not names.issuperset(options):
            refuse_options(function.__name__, options, names)
        return function(*args, **options)

    return asked


def names_of(function: Callable[..., Any]) -> frozenset[str]:
    """The names of all that a function takes."""
    code: CodeType = unwrap(function).__code__
    return frozenset(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])


def refuse_options(called: str, options: Iterable[str], names: Iterable[str]) -> None:
    """Raise an error for the first of the options that is not among the names."""
    known = sorted(set(names) - {"self"})
    for option in options:
        if option not in known:
            close = get_close_matches(option, known, n=1)
            listed = ", ".join(known[:SHOWN]) + (", ..." if len(known) > SHOWN else "")
            hint = f"did you mean {close[0]}?" if close else f"there are: {listed}"
            raise KeywordError(f"{called} has no option {option!r}", hint=hint)
