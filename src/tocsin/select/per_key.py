"""Choosing among matches: a rule looks at the matches of one key in order of completion and keeps some of them.

Two ways, one rule. Where answers are never retracted, a match is judged when it is settled, so nothing that comes later
can stand before it. Where answers are given at once and corrected, every change replays the rule over the unsettled
matches of its key, and the difference to what was given before is the answer. What is settled is folded into one state
for each key, in plain values: it does not depend on which events or keys a kernel still has.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any, Protocol, TypeAlias

import numpy as np

from tocsin.codec import Part, decode, encode, nested, only_part, within
from tocsin.engine.changes import ChangeBatch, Changes
from tocsin.engine.operator import Counters, Operator
from tocsin.engine.texts import of_operators
from tocsin.events import BEGINNING
from tocsin.functions import Function
from tocsin.items import Ints, Items
from tocsin.order.kept import packed, unpacked
from tocsin.plan.block import Plan

FEW = 64  # keys that are not worth a look
Canonical: TypeAlias = tuple[int, int, int, int]  # of an event: end, start, eid
Place: TypeAlias = tuple[Canonical, ...]  # of a match in order of completion
Entry: TypeAlias = tuple[Place, ChangeBatch, int]  # a match: its place, and where it stands


class Rule(Protocol):
    """What the matches of one key are subject to. States are plain JSON values, and are not changed in place."""

    def begin(self) -> Any:
        """The state of a key that has had no match."""

    def step(self, state: Any, start: int, end: int) -> tuple[Any, bool]:
        """The state after the next match in order of completion, and whether that match is kept."""

    def forget(self, state: Any, until: int) -> Any:
        """The state once every later match ends after `until`; equal to `begin()` where nothing is left of it."""


@dataclass(slots=True)
class KeyState:
    """One key: the state after its settled matches, the others in order of completion, and those that were given."""

    settled: Any
    open: list[Entry] = field(default_factory=list)
    given: set[Place] = field(default_factory=set)


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
        self._next, self._rule, self._key, self.at_once = inner, rule, key, at_once
        self._plan, self._functions = plan, functions
        self.keys: dict[Hashable, KeyState] = {}
        self.frontier = BEGINNING
        self.matches = self.retracted = 0
        self._enough = FEW
        self._turns: list[tuple[int, int, Hashable]] = []  # a heap: when the matches of a key may be settled
        self._numbers = count()

    @property
    def counters(self) -> Counters:
        total = self._next.counters
        waiting = 0 if self.at_once else sum(len(key.open) for key in self.keys.values())
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
        out: list[ChangeBatch] = []
        touched = dict.fromkeys(key for batch in found for key in self._take(batch, out))
        ripe = self._ripe()
        for key in {**touched, **ripe}:
            out += self._judge(self.keys[key])
        for key in ripe:
            self._settle(self.keys[key])
        self._forget()
        given = sum(int(batch.op[0] > 0) for batch in out)
        self.matches, self.retracted = self.matches + given, self.retracted + len(out) - given
        return Changes(out, self.frontier, found.late)

    def _take(self, batch: ChangeBatch, out: list[ChangeBatch]) -> Iterator[Hashable]:
        """Put matches into their places; take retracted ones out, and retract them if they were given."""
        for row, (key, place) in enumerate(zip(self._key(batch), _places(batch), strict=True)):
            mine = self.keys.setdefault(key, KeyState(self._rule.begin()))
            if batch.op[row] > 0:
                self._open(key, (place, batch, row))
            else:
                mine.open = [entry for entry in mine.open if entry[0] != place]
                if place in mine.given:
                    mine.given.discard(place)
                    out.append(batch.pick(np.array([row])))
            yield key

    def _open(self, key: Hashable, entry: Entry) -> None:
        insort(self.keys[key].open, entry, key=_place)
        heappush(self._turns, (entry[0][0][0], next(self._numbers), key))

    def _ripe(self) -> dict[Hashable, None]:
        """The keys with matches that are settled by now."""
        ripe: dict[Hashable, None] = {}
        while self._turns and self._turns[0][0] <= self.frontier:
            ripe[heappop(self._turns)[2]] = None
        return ripe

    def _judge(self, key: KeyState) -> Iterator[ChangeBatch]:
        """Replay the rule over the open matches of a key; the difference to what was given before."""
        state = key.settled
        for place, batch, row in key.open:
            if not self.at_once and place[0][0] > self.frontier:
                return
            state, kept = self._rule.step(state, place[1][1], place[0][0])
            if kept != (place in key.given):
                one = batch.pick(np.array([row]))
                yield one if kept else replace(one, op=-one.op)
                (key.given.add if kept else key.given.discard)(place)

    def _settle(self, key: KeyState) -> None:
        """Fold the settled matches of a key into its state."""
        while key.open and key.open[0][0][0][0] <= self.frontier:
            place, _, _ = key.open.pop(0)
            key.settled, _ = self._rule.step(key.settled, place[1][1], place[0][0])
            key.given.discard(place)

    def _forget(self) -> None:
        """Drop the keys of which nothing is left, whenever there are twice as many as the last time."""
        if len(self.keys) <= self._enough:
            return
        begin = self._rule.begin()
        for name in list(self.keys):
            key = self.keys[name]
            key.settled = self._rule.forget(key.settled, self.frontier)
            if not key.open and key.settled == begin:
                del self.keys[name]
        self._turns = [turn for turn in self._turns if turn[2] in self.keys]
        heapify(self._turns)
        self._enough = max(FEW, 2 * len(self.keys))

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
        entries = [(name, entry) for name, key in self.keys.items() for entry in key.open]
        words = {
            "frontier": self.frontier,
            "counts": [self.matches, self.retracted],
            "keys": [[name, key.settled] for name, key in self.keys.items()],
            "open": [[name, entry[0] in self.keys[name].given] for name, entry in entries],
        }
        return encode("per_key", words, blobs={"open": packed([(batch, row) for _, (_, batch, row) in entries])})

    def follow(self, memory: bytes) -> None:
        """Before events are replayed: nothing to do, as `resume` sets everything."""

    def resume(self, memory: bytes) -> None:
        """After events were replayed: go on from what was remembered."""
        stored = decode(memory, "per_key")
        words, batch = stored.words, unpacked(stored.blobs["open"], self._plan, self._functions)
        self.frontier, (self.matches, self.retracted) = words["frontier"], words["counts"]
        self.keys = {_key(name): KeyState(settled) for name, settled in words["keys"]}
        self._turns = []
        places = [] if batch is None else _places(batch)
        for row, ((name, given), place) in enumerate(zip(words["open"], places, strict=True)):
            assert batch is not None
            self._open(_key(name), (place, batch, row))
            if given:
                self.keys[_key(name)].given.add(place)


def _place(entry: Entry) -> Place:
    return entry[0]


def _places(batch: ChangeBatch) -> list[Place]:
    """Where each match stands in order of completion.

    That is the canonical order of the last visible events, then of the first ones, then of all in order of variables.
    """
    rows = batch.rows
    columns = (rows.end, rows.start, *rows.names)
    events: list[Canonical] = list(zip(*(column.tolist() for column in columns), strict=True))
    places = []
    for row in range(len(batch)):
        mine = [events[at] for at in _events(batch, row)]
        first = min(mine, key=lambda event: (event[1], event[0], *event[2:]))
        places.append((max(mine), first, *mine))
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
