"""Repetitions with a mark, as the oracle reads them: which of the qualifying events are members.

A repetition in the first place that begins at every event gets a plain leaf for its first member, as the definition
says: `FIRST A{n,m} a` stands for `A a1, FIRST A{n-1,m-1} a`, all members together being a.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tocsin.events import Event
from tocsin.lang.syntax import And, Leaf, Marked, Not, Pattern, Repeat, Seq, walk


@dataclass(frozen=True, slots=True)
class Headed(And):
    """A plain leaf for the first member, and the repetition."""

    @property
    def head(self) -> str:
        return str(self.items[0].var)  # type: ignore[union-attr]


def first_place(repetition: Pattern) -> Headed:
    """A repetition with nothing positive to its left, beside a leaf for its first member."""
    assert isinstance(repetition, Leaf)
    return Headed((Leaf(repetition.type, head_of(repetition)), repetition))


def head_of(repetition: Leaf) -> str:
    return f"{repetition.var}'s first"


def heads(pattern: Pattern) -> frozenset[str]:
    """The variables of all first members that may get a leaf of their own."""
    marked = (node.pattern for node in walk(pattern) if isinstance(node, Marked))
    return frozenset(head_of(leaf) for leaf in marked if isinstance(leaf, Leaf) and leaf.repeat is not None)


def repetition_in(pattern: Pattern) -> Leaf | None:
    """The repetition that a mark stands before, if it does."""
    if not isinstance(pattern, Marked):
        return None
    inner = pattern.pattern.items[1] if isinstance(pattern.pattern, Headed) else pattern.pattern
    return inner if isinstance(inner, Leaf) and inner.repeat is not None else None


def from_left(pattern: Pattern) -> bool:
    """A repetition that is found from its left neighbour alone."""
    return isinstance(pattern, Marked) and pattern.mark != "LAST" and repetition_in(pattern) is not None


def steps_of(pattern: Pattern) -> Iterator[Pattern]:
    """The positive steps of an item in their order: those of a SEQ one by one."""
    if isinstance(pattern, Seq):
        for item in pattern.items:
            yield from steps_of(item)
    elif not isinstance(pattern, Not):
        yield pattern


def chosen_sets(
    mark: str | None, repeat: Repeat, qualifying: list[Event], apart: Callable[[Event | None, Event], bool]
) -> Iterator[tuple[Event, ...]]:
    """The sets of members that a mark makes of the qualifying events, which come in canonical order.

    `apart`: whether something that breaks a run lies between two events; of the first one, between it and its left
    neighbour.
    """
    run = list(qualifying)
    if mark in ("NEXT", "EACH NEXT"):
        for at, event in enumerate(qualifying):
            if apart(qualifying[at - 1] if at else None, event):
                run = qualifying[:at]
                break
    most = len(run) if repeat.most is None else repeat.most
    if mark in ("EACH", "EACH NEXT"):
        yield from (tuple(run[:size]) for size in range(repeat.least, min(most, len(run)) + 1))
        return
    if mark == "LAST":
        run = run[max(0, len(run) - most) :]
    elif mark is not None:
        run = run[:most]
    if repeat.least <= len(run) <= most:
        yield tuple(run)
