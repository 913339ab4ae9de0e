"""Choosing among matches: a rule looks at the matches of one key in order of completion and keeps some of them.

Two ways, one rule. Where answers are never retracted, a match is judged when it is settled, so nothing that comes later
can stand before it. Where answers are given at once and corrected, a match that comes late, or is retracted, rolls its
key back (`order/rollback`), and the difference to what was given before is the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias, get_type_hints

import numpy as np

from tocsin.codec import (
    Decoded,
    Part,
    as_number,
    as_numbers,
    as_shape,
    decode,
    encode,
    nested,
    only_part,
    reading,
    within,
)
from tocsin.engine.changes import ChangeBatch, Changes
from tocsin.engine.kinds import MATCH
from tocsin.engine.operator import Counters, Operator
from tocsin.engine.texts import of_operators
from tocsin.events import BEGINNING, END_OF_TIME
from tocsin.functions import Function
from tocsin.items import Ints, Items
from tocsin.order.kept import packed, unpacked
from tocsin.order.keyed_events import Canonical
from tocsin.order.rollback import Rollback
from tocsin.plan.block import Plan
from tocsin.select.given import Given
from tocsin.select.pieces import Pieces

Prunes: TypeAlias = Callable[[Any, int, int], bool]
MANY = 4096  # matches of one push
FIRST_PIECE = 256  # rows of the first one
CompletionPlace: TypeAlias = tuple[Any, ...]  # of a match in order of completion: its end, its events


class Rule(Protocol):
    """What the matches of one key are subject to. States are plain JSON values, and are not changed in place.

    A rule that looks at more than the span of a match (`PerKey(value=...)`) is given that as a fourth argument of step.
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


class PerKey:
    """Keeps the matches of `inner` that a rule keeps.

    key      the values that tell the keys of a batch of matches apart, one for each match
    value    what the rule looks at beside the span of a match, one for each match
    at_once  answer before matches are settled, and correct that
    reach    for so many ticks it is remembered which matches were kept (None: for ever), because others read them and
             a host may replay the events of that time (`follow`); 0: nobody asks
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
        value: Callable[[ChangeBatch], Sequence[Any]] | None = None,
        reach: int | None = 0,
    ) -> None:
        self.inner: tuple[Operator, ...] = (inner,)
        self._next, self._rule, self._key, self.at_once = inner, _Keeping(rule), key, at_once
        self._plan, self._functions, self._value = plan, functions, value
        self._given = Given(reach)
        # a rule may say that a match is `hopeless`: dropped by what is settled, whatever else comes
        self._prunes: Prunes | None = None if at_once else getattr(rule, "hopeless", None)
        self._pieces = Pieces(MANY, FIRST_PIECE, whole=self._prunes is None)
        self._following = False
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
        return self._pieces.push(items, self._push)

    def _push(self, items: Items) -> Changes:
        found = self._next.push(items)
        self._pieces.resize(len(items), sum(map(len, found)))
        self.frontier = max(self.frontier, found.frontier)
        if self._following:  # what was decided about these is remembered
            known = [self._given.among(batch) for batch in found if batch.kind == MATCH]
            return Changes([batch for batch in known if len(batch)], found.frontier, found.late)
        out = [batch for batch in found if batch.kind != MATCH]
        for batch in found:
            if batch.kind == MATCH:
                self._take(batch)
        changed = [match.change(op) for op, match in self._advance()]
        given = sum(int(batch.op[0] > 0) for batch in changed)
        self.matches, self.retracted = self.matches + given, self.retracted + len(changed) - given
        self._given.note(changed, self.frontier)
        return Changes(out + changed, self.frontier, found.late)

    def _take(self, batch: ChangeBatch) -> None:
        """Put matches into their places; take retracted ones out."""
        batch, keys = self._hopeful(batch)
        values = self._values(batch)
        for row, (key, place) in enumerate(zip(keys, _places(batch), strict=True)):
            if batch.op[row] > 0:
                self.keys.insert(key, place, PlacedMatch(place, batch, row, values[row]))
            else:
                self.keys.remove(key, place)

    def _hopeful(self, batch: ChangeBatch) -> tuple[ChangeBatch, Sequence[Hashable]]:
        """The changes without matches that what is settled drops, whatever else may come; and their keys."""
        keys = self._key(batch)
        if self._prunes is None:
            return batch, keys
        spans = zip(keys, *(times.tolist() for times in batch.span), strict=True)
        hopeful = [
            row for row, (key, start, end) in enumerate(spans) if not self._prunes(self.keys.settled(key), start, end)
        ]
        if len(hopeful) == len(batch):
            return batch, keys
        return batch.pick(np.array(hopeful, np.int64)), [keys[row] for row in hopeful]

    def _values(self, batch: ChangeBatch) -> Sequence[tuple[Any, ...]]:
        return [()] * len(batch) if self._value is None else [(each,) for each in self._value(batch)]

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
        return encode("per_key", words, arrays={"given": self._given.saved()}, blobs={"open": kept})

    def follow(self, memory: bytes) -> None:
        """Before events are replayed: of the matches that they bring, those are handed on that were kept."""
        self._given.restore(decode(memory, "per_key").arrays.get("given"))
        self._following = True

    def resume(self, memory: bytes) -> None:
        """After events were replayed: go on from what was remembered."""
        stored = decode(memory, "per_key")
        with reading():
            self._resume(stored)
        self._advance()  # what is open was answered before

    def _resume(self, stored: Decoded) -> None:
        words, batch = stored.words, unpacked(stored.blobs["open"], self._plan, self._functions)
        self._given.restore(stored.arrays.get("given"))
        self._following = False
        self.frontier, (self.matches, self.retracted) = as_number(words["frontier"]), as_numbers(words["counts"])
        self.keys = Rollback(self._rule)
        shape = get_type_hints(self._rule.rule.begin).get("return", Any)
        for name, settled in as_shape(list[tuple[Any, shape]], words["keys"]):  # type: ignore[valid-type]
            self.keys.resume(_key(name), settled)
        places, values = ([], []) if batch is None else (_places(batch), self._values(batch))
        for row, (name, place) in enumerate(zip(words["open"], places, strict=True)):
            assert batch is not None
            self.keys.insert(_key(name), place, PlacedMatch(place, batch, row, values[row]))


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
