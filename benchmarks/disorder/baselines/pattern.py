"""What the arms share: events, flat patterns, and where a negation looks.

All gaps are closed integer intervals, because time is whole numbers: the open gap (6, 10) is [7, 9].
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from tocsin.events import Event as Occurrence
from tocsin.testing.notation import Item, Promise, history

NEVER = -(2**62)  # before any time
FOREVER = 2**62  # after any time


@dataclass(frozen=True, slots=True, eq=False)
class Event:
    """One event; `number` is its place in the order of arrival. Two events are equal only if they are the same."""

    type: str
    ts: int
    number: int
    key: object = None
    eid: str = ""

    def __repr__(self) -> str:
        return self.eid


@dataclass(frozen=True, slots=True)
class Pog:
    """A partial order guarantee: every later event of this type has a time > ts."""

    type: str
    ts: int


Sequence: TypeAlias = tuple[Event, ...]
Given: TypeAlias = Event | Pog


@dataclass(frozen=True, slots=True)
class Change:
    """An answer that is given (+1) or taken back (-1), and the clock at that moment."""

    op: int
    sequence: Sequence
    time: int


@dataclass(frozen=True, slots=True)
class Negation:
    """A type that must not occur after the first `gap` positive items: 0 is at the front, n at the end."""

    type: str
    gap: int


@dataclass(frozen=True)
class Pattern:
    """SEQ of positive types with negations between them, within an inclusive window, for events of one key if `keyed`.

    >>> Pattern.of("SEQ(A,B,!C,D)", 10)
    Pattern(positives=('A', 'B', 'D'), negations=(Negation(type='C', gap=2),), window=10, keyed=False)
    """

    positives: tuple[str, ...]
    negations: tuple[Negation, ...]
    window: int
    keyed: bool = False

    @staticmethod
    def of(text: str, window: int, *, keyed: bool = False) -> Pattern:
        positives: list[str] = []
        negations: list[Negation] = []
        for bang, type in re.findall(r"(!?)\s*([A-Z]\w*)", text.removeprefix("SEQ")):
            if bang:
                negations.append(Negation(type, len(positives)))
            else:
                positives.append(type)
        return Pattern(tuple(positives), tuple(negations), window, keyed)

    @cached_property
    def positions(self) -> dict[str, tuple[int, ...]]:
        """Where a type stands; a type may stand in several places."""
        every = dict.fromkeys(self.positives)
        return {type: tuple(i for i, other in enumerate(self.positives) if other == type) for type in every}

    @cached_property
    def forbidden(self) -> dict[str, tuple[int, ...]]:
        """Which negations a type belongs to."""
        every = dict.fromkeys(negation.type for negation in self.negations)
        return {type: tuple(j for j, other in enumerate(self.negations) if other.type == type) for type in every}

    @cached_property
    def types(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.positives, *self.forbidden)))

    @cached_property
    def trailing(self) -> bool:
        """Whether a negation stands at the end, so that an answer waits for the end of its window."""
        return any(negation.gap == len(self.positives) for negation in self.negations)

    @cached_property
    def both_ends(self) -> bool:
        return self.trailing and any(negation.gap == 0 for negation in self.negations)

    def gap(self, index: int, sequence: Sequence) -> tuple[int, int]:
        """The first and last time at which negation `index` would spoil the sequence."""
        gap = self.negations[index].gap
        if gap == 0:
            return sequence[-1].ts - self.window, sequence[0].ts - 1
        if gap == len(sequence):
            return sequence[-1].ts + 1, sequence[0].ts + self.window
        return sequence[gap - 1].ts + 1, sequence[gap].ts - 1

    def spoils(self, event: Event, sequence: Sequence) -> bool:
        """Whether a negative event violates a sequence, in any of its roles."""
        if self.keyed and event.key != sequence[0].key:
            return False
        for index in self.forbidden[event.type]:
            low, high = self.gap(index, sequence)
            if low <= event.ts <= high:
                return True
        return False

    def query(self) -> str:
        """The same in the language of Tocsin."""
        items = []
        for place in range(len(self.positives) + 1):
            items += [f"!({n.type} n{j})" for j, n in enumerate(self.negations) if n.gap == place]
            items += [f"{self.positives[place]} v{place}"] if place < len(self.positives) else []
        where = " WHERE [id]" if self.keyed else ""
        return f"EVENT SEQ({', '.join(items)}){where} WITHIN {self.window}"


def arrivals(given: str | Iterable[Item], types: Iterable[str] = ()) -> list[Given]:
    """Events and guarantees from the notation of the papers, numbered as they arrive.

    A guarantee for every type becomes one for each of `types`.
    """
    items = history(given) if isinstance(given, str) else given
    made: list[Given] = []
    for number, item in enumerate(items):
        if isinstance(item, Promise):
            about = types if item.type is None else (item.type,)
            made += [Pog(type, item.time) for type in about]
        elif isinstance(item, Occurrence):
            made.append(Event(item.type, item.end, number, item.attrs.get("id"), str(item.eid)))
    return made
