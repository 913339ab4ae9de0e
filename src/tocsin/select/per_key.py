"""Choosing among matches: a rule looks at the matches of one key in order of completion and keeps some of them.

Two ways, one rule. Where answers are never retracted, a match is judged when it is settled, so nothing that comes later
can stand before it. Where answers are given at once and corrected, a match that comes late, or is retracted, rolls its
key back (`order/rollback`), and the difference to what was given before is the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias

import numpy as np

from tocsin.codec import Part, as_number, as_numbers, decode, encode, nested, only_part, within
from tocsin.engine.changes import ChangeBatch, Changes
from tocsin.engine.operator import Counters, Operator
from tocsin.engine.texts import of_operators
from tocsin.events import BEGINNING, END_OF_TIME
from tocsin.functions import Function
from tocsin.items import Ints, Items
from tocsin.order.kept import packed, unpacked
from tocsin.order.keyed_events import Canonical
from tocsin.order.rollback import Rollback
from tocsin.plan.block import Plan

CompletionPlace: TypeAlias = tuple[Any, ...]  # of a match in order of completion: its end, its events


class Rule(Protocol):
    """What the matches of one key are subject to. States are plain JSON values, and are not changed in place."""

    def begin(self) -> Any:
        """The state of a key that has had no match."""

    def step(self, state: Any, start: int, end: int) -> tuple[Any, bool]:
        """The state after the next match in order of completion, and whether that match is kept."""

    def forget(self, state: Any, until: int) -> Any:
        """The state once every later match ends after `until`; equal to `begin()` where nothing is left of it."""


@dataclass(frozen=True, slots=True)
class PlacedMatch:
    """A match: its place in order of completion, and where it stands among changes."""

    place: CompletionPlace
    batch: ChangeBatch = field(compare=False)
    row: int = field(compare=False)

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
        state, kept = self.rule.step(state, match.place[2][1], match.place[0])
        return state, (match,) if kept else ()

    def due(self, state: Any) -> int:
        del state
        return END_OF_TIME

    def wake(self, state: Any, time: int) -> tuple[Any, Sequence[PlacedMatch]]:
        del time
        return state, ()

    def forget(self, state: Any, until: int) -> Any:
        return self.rule.forget(state, until)


class PerKey:
    """Keeps the matches of `inner` that a rule keeps.

    key      the values that tell the keys of a batch of matches apart, one for each match
    at_once  answer before matches are settled, and correct that
    """

    def __init__(
        self,
        inner: Operator,
        rule: Rule,
        key: Callable[[ChangeBatch], Sequence[Hashable]],
        plan: Plan,
        functions: Mapping[str, Function],
        *,
        at_once: bool,
    ) -> None:
        self.inner: tuple[Operator, ...] = (inner,)
        self._next, self._rule, self._key, self.at_once = inner, _Keeping(rule), key, at_once
        self._plan, self._functions = plan, functions
        self.keys = Rollback(self._rule)
        self.frontier = BEGINNING
        self.matches = self.retracted = 0

    @property
    def counters(self) -> Counters:
        total = self._next.counters
        waiting = 0 if self.at_once else sum(1 for _ in self.keys.entries)
        return replace(total, matches=self.matches, retracted=self.retracted, waiting=total.waiting + waiting)

    @property
    def texts_in_use(self) -> Ints:
        return of_operators(self.inner)

    def push(self, items: Items) -> Changes:
        """Take in the matches of the inner operator; answer with what the rule makes of them."""
        if items.single:  # the short way does not say how far time has passed
            items = items.copy()  # type: ignore[attr-defined]
        found = self._next.push(items)
        self.frontier = max(self.frontier, found.frontier)
        for batch in found:
            self._take(batch)
        out = [match.change(op) for op, match in self._advance()]
        given = sum(int(batch.op[0] > 0) for batch in out)
        self.matches, self.retracted = self.matches + given, self.retracted + len(out) - given
        return Changes(out, self.frontier, found.late)

    def _take(self, batch: ChangeBatch) -> None:
        """Put matches into their places; take retracted ones out."""
        for row, (key, place) in enumerate(zip(self._key(batch), _places(batch), strict=True)):
            if batch.op[row] > 0:
                self.keys.insert(key, place, PlacedMatch(place, batch, row))
            else:
                self.keys.remove(key, place)

    def _advance(self) -> list[tuple[int, PlacedMatch]]:
        """What differs by now; settled matches are folded into the states of their keys."""
        counts = END_OF_TIME if self.at_once else self.frontier
        return list(self.keys.advance(counts, self.frontier, self.frontier))

    # --- state ---

    def snapshot(self, since: int = 0) -> list[Part]:
        return [Part("per_key", 0, self.memory), *nested("inner", self._next.snapshot(since))]

    def restore(self, parts: Iterable[Part]) -> None:
        parts = list(parts)
        memory = only_part("per_key", parts).data
        decode(memory, "per_key")
        self._next.restore(within("inner", parts))
        self.resume(memory)

    @property
    def memory(self) -> bytes:
        """All that a replay of the stored events would not bring back: the states of the keys, and what is open."""
        open = list(self.keys.entries)
        words = {
            "frontier": self.frontier,
            "counts": [self.matches, self.retracted],
            "keys": [[name, key.settled] for name, key in self.keys.keys.items()],
            "open": [name for name, _ in open],
        }
        kept = packed([(entry.what.batch, entry.what.row) for _, entry in open])
        return encode("per_key", words, blobs={"open": kept})

    def follow(self, memory: bytes) -> None:
        """Before events are replayed: nothing to do, as `resume` sets everything."""

    def resume(self, memory: bytes) -> None:
        """After events were replayed: go on from what was remembered."""
        stored = decode(memory, "per_key")
        words, batch = stored.words, unpacked(stored.blobs["open"], self._plan, self._functions)
        self.frontier, (self.matches, self.retracted) = as_number(words["frontier"]), as_numbers(words["counts"])
        self.keys = Rollback(self._rule)
        for name, settled in words["keys"]:
            self.keys.resume(_key(name), settled)
        places = [] if batch is None else _places(batch)
        for row, (name, place) in enumerate(zip(words["open"], places, strict=True)):
            assert batch is not None
            self.keys.insert(_key(name), place, PlacedMatch(place, batch, row))
        self._advance()  # what is open was answered before


def _places(batch: ChangeBatch) -> list[CompletionPlace]:
    """Where each match stands in order of completion.

    That is the canonical order of the last visible events, then of the first ones, then of all in order of variables.
    """
    rows = batch.rows
    columns = (rows.end, rows.start, *rows.names)
    events: list[Canonical] = list(zip(*(column.tolist() for column in columns), strict=True))
    places: list[CompletionPlace] = []
    for row in range(len(batch)):
        mine = [events[at] for at in _events(batch, row)]
        first = min(mine, key=lambda event: (event[1], event[0], *event[2:]))
        last = max(mine)
        places.append((last[0], last, first, *mine))
    return places


def _events(batch: ChangeBatch, row: int) -> list[int]:
    """The places of the visible events of a match among the rows of its batch, in order of variables."""
    numbers: list[int] = []
    for index in batch.visible:
        if index in batch.repeated:
            members = batch.repeated[index]
            numbers += members.events[members.offsets[row] : members.offsets[row + 1]].tolist()
        elif batch.fixed[index][row] >= 0:
            numbers.append(int(batch.fixed[index][row]))
    found: list[int] = batch.rows.at(np.array(numbers, np.int64)).tolist()
    return found


def _key(name: Any) -> Hashable:
    """A key as it was before it was stored as JSON."""
    return tuple(name) if isinstance(name, list) else name


def key_values(attrs: Sequence[str]) -> Callable[[ChangeBatch], Sequence[Hashable]]:
    """The key of each match: what the first of its events has for some attributes."""

    def values(batch: ChangeBatch) -> Sequence[Hashable]:
        first = np.full(len(batch), -1, np.int64)
        for column in batch.fixed:
            first = np.where((first < 0) & (column >= 0), column, first)
        at = batch.rows.at(first)
        columns = [batch.rows.table.column(attr).to_pylist() for attr in attrs]
        return [tuple(column[place] for column in columns) for place in at.tolist()]

    return values
