"""Choosing among matches before they are settled: what was kept is taken back where a match comes late, or goes.

Such a match rolls its key back (`order/rollback`), and the difference to what was given before is the answer. Rules
that people write in Python work like this also where answers are final; then a match is judged when it is settled.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias

import numpy as np

from tocsin.engine.changes import ChangeBatch
from tocsin.events import END_OF_TIME
from tocsin.order.keyed_events import Canonical
from tocsin.order.rollback import Rollback

CompletionPlace: TypeAlias = tuple[Any, ...]  # of a match in order of completion: its end, its events
Key: TypeAlias = tuple[Hashable, ...]


class Rule(Protocol):
    """What the matches of one key are subject to. States are plain JSON values, and are not changed in place.

    A rule that looks at more than the span of a match (`value`) is given that as a fourth argument of step.
    """

    def begin(self) -> Any:
        """The state of a key that has had no match. What it is annotated to return is the shape of a stored state."""

    def step(self, state: Any, start: int, end: int, *value: Any) -> tuple[Any, bool]:
        """The state after the next match in order of completion, and whether that match is kept."""

    def forget(self, state: Any, until: int) -> Any:
        """The state once every later match ends after `until`; equal to `begin()` where nothing is left of it."""


@dataclass(frozen=True, slots=True)
class PlacedMatch:
    """A match: its place in order of completion, and where it stands among changes."""

    place: CompletionPlace
    batch: ChangeBatch = field(compare=False)
    row: int = field(compare=False)
    value: tuple[Any, ...] = field(default=(), compare=False)  # what a rule looks at beside the span

    def change(self, op: int) -> ChangeBatch:
        """The match, given or retracted."""
        one = self.batch.pick(np.array([self.row]))
        return replace(one, op=np.array([op], np.int8))


@dataclass(frozen=True, slots=True)
class _Keeping:
    """A rule about matches as a rule that answers: a match that is kept is the answer to itself."""

    rule: Rule

    def begin(self) -> Any:
        return self.rule.begin()

    def step(self, state: Any, match: PlacedMatch) -> tuple[Any, Sequence[PlacedMatch]]:
        state, kept = self.rule.step(state, match.place[2][1], match.place[0], *match.value)
        return state, (match,) if kept else ()

    def due(self, state: Any) -> int:
        del state
        return END_OF_TIME

    def wake(self, state: Any, time: int) -> tuple[Any, Sequence[PlacedMatch]]:
        del time
        return state, ()

    def forget(self, state: Any, until: int) -> Any:
        return self.rule.forget(state, until)


class RolledBack:
    """The matches of each key that are not settled, and what the rule has made of them.

    key      the values that tell the keys of a batch of matches apart, one for each match
    value    what the rule looks at beside the span of a match, one for each match
    at_once  answer before matches are settled
    """

    def __init__(
        self,
        rule: Rule,
        key: Callable[[ChangeBatch], Sequence[Key]],
        value: Callable[[ChangeBatch], Sequence[Any]] | None,
        *,
        at_once: bool,
    ) -> None:
        self._rule, self._key, self._value, self._at_once = _Keeping(rule), key, value, at_once
        # a rule may say that a match is `hopeless`: dropped by what is settled, whatever else comes
        self._prunes: Callable[[Any, int, int], bool] | None = None if at_once else getattr(rule, "hopeless", None)
        self._keys = Rollback(self._rule)

    def __len__(self) -> int:
        return 0 if self._at_once else sum(1 for _ in self._keys.entries)

    def take(self, batch: ChangeBatch) -> None:
        """Put matches into their places; take retracted ones out."""
        batch, keys = self._hopeful(batch)
        values = self._values(batch)
        for row, (key, place) in enumerate(zip(keys, _places(batch), strict=True)):
            if batch.op[row] > 0:
                self._keys.insert(key, place, PlacedMatch(place, batch, row, values[row]))
            else:
                self._keys.remove(key, place)

    def _hopeful(self, batch: ChangeBatch) -> tuple[ChangeBatch, Sequence[Key]]:
        """The changes without matches that what is settled drops, whatever else may come; and their keys."""
        keys = self._key(batch)
        if self._prunes is None:
            return batch, keys
        spans = zip(keys, *(times.tolist() for times in batch.span), strict=True)
        hopeful = [
            row for row, (key, start, end) in enumerate(spans) if not self._prunes(self._keys.settled(key), start, end)
        ]
        if len(hopeful) == len(batch):
            return batch, keys
        return batch.pick(np.array(hopeful, np.int64)), [keys[row] for row in hopeful]

    def _values(self, batch: ChangeBatch) -> Sequence[tuple[Any, ...]]:
        return [()] * len(batch) if self._value is None else [(each,) for each in self._value(batch)]

    def advance(self, frontier: int) -> list[ChangeBatch]:
        """What differs by now; settled matches are folded into the states of their keys."""
        counts = END_OF_TIME if self._at_once else frontier
        return [match.change(op) for op, match in self._keys.advance(counts, frontier, frontier)]

    @property
    def states(self) -> list[tuple[Key, Any]]:
        """The settled state of every key."""
        return [(name, key.settled) for name, key in self._keys.keys.items()]  # type: ignore[misc]

    @property
    def open(self) -> list[tuple[Key, ChangeBatch, int]]:
        """What is not settled: its key, and where it stands among changes."""
        entries = self._keys.entries
        return [(name, entry.what.batch, entry.what.row) for name, entry in entries]  # type: ignore[misc]

    def load(self, states: Sequence[tuple[Key, Any]], open: ChangeBatch | None, keys: Sequence[Key]) -> None:
        """Take up settled states, and matches that are not settled, each with its key."""
        self._keys = Rollback(self._rule)
        for name, settled in states:
            self._keys.resume(name, settled)
        if open is not None:
            values = self._values(open)
            for row, (name, place) in enumerate(zip(keys, _places(open), strict=True)):
                self._keys.insert(name, place, PlacedMatch(place, open, row, values[row]))


def _places(batch: ChangeBatch) -> list[CompletionPlace]:
    """Where each match stands in order of completion.

    That is the canonical order of the last visible events, then of the first ones, then of all, variable by variable;
    a variable that is not bound stands before one that is. Events of one eid and one time are told apart by type.
    """
    rows = batch.rows
    columns = (rows.end, rows.start, *rows.names, rows.types)
    events: list[Canonical] = list(zip(*(column.tolist() for column in columns), strict=True))
    by_variable = [batch.events_at(index) for index in batch.visible]
    places: list[CompletionPlace] = []
    for row in range(len(batch)):
        mine = [tuple(events[at] for at in each[row]) for each in by_variable]
        bound = [event for several in mine for event in several]
        first = min(bound, key=lambda event: (event[1], event[0], *event[2:]))
        last = max(bound)
        places.append((last[0], last, first, *mine))
    return places
