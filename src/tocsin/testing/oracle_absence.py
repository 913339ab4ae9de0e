"""Timed absence as the oracle reads it: where the gap behind `!q FOR d` begins, and which steps must wait for it.

`!q FOR d` behind a step is judged in the d ticks after that step, and the next step starts when they have passed;
before the first step it is judged in the d ticks before that (docs/semantics.md, 4).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tocsin.lang.syntax import And, Duration, Exists, Marked, Not, Pattern, Rel, Seq, items_of
from tocsin.testing.oracle_expr import UndefinedError


@dataclass(frozen=True, slots=True)
class Pause:
    """The events of `right` start at the end of those of `left` and each of these lengths, or later."""

    left: frozenset[str]
    right: frozenset[str]
    lengths: tuple[Duration, ...]


def lengths_before(
    items: Sequence[Pattern], index: int, inherited: tuple[Duration, ...], *, behind: bool
) -> tuple[Duration, ...]:
    """The FORs between an item of a SEQ and the positive one before it, with those at the end of that one.

    `behind`: a step comes behind the SEQ, or at the item or behind it.
    """
    found: tuple[Duration, ...] = ()
    for item in reversed(items[:index]):
        if not isinstance(item, Not):
            return found + trailing(item, behind=behind)
        if item.lasting is not None:
            found += (item.lasting,)
    return found + inherited


def trailing(pattern: Pattern, *, behind: bool) -> tuple[Duration, ...]:
    """The FORs at the end of a part, which its next step waits for."""
    match pattern:
        case Seq(items):
            return lengths_before(items, len(items), (), behind=behind)
        case Exists(_, inner) | Marked(_, inner):
            return trailing(inner, behind=behind)
        case And() | Rel():
            if behind and any(trailing(item, behind=True) for item in items_of(pattern) if not isinstance(item, Not)):
                raise UndefinedError("FOR at the end of a part of AND, with a step behind it")
    return ()


def check_lasting(pattern: Pattern, host: Pattern | None = None) -> None:
    """FOR stands in a SEQ only."""
    if isinstance(pattern, Not) and pattern.lasting is not None and not isinstance(host, Seq):
        raise UndefinedError("FOR stands behind a negation in SEQ only")
    for item in items_of(pattern):
        check_lasting(item, pattern)


def pauses(pattern: Pattern, ends: object, starts: object, left: frozenset[str] | None = None) -> Iterator[Pause]:
    """Every step of a block that must wait for a FOR; `ends` and `starts` say which variables bound a part."""
    if isinstance(pattern, Not):
        return
    if not isinstance(pattern, Seq):
        for item in items_of(pattern):
            yield from pauses(item, ends, starts, left)
        return
    before = left
    for index, item in enumerate(pattern.items):
        if isinstance(item, Not):
            continue
        lengths = lengths_before(pattern.items, index, (), behind=True) if before is not None else ()
        if lengths and before is not None:
            yield Pause(before, starts(item), lengths)  # type: ignore[operator]
        yield from pauses(item, ends, starts, before)
        before = ends(item)  # type: ignore[operator]
