"""Choosing among settled matches, in columns: they wait for the frontier, and then a loop takes them in their order.

Nothing is ever taken back here, so a key is two numbers, and a match that these drop already is not even kept until its
turn comes. Where answers are given at once and corrected, `select/rolled_back` chooses.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Protocol, TypeAlias

import numpy as np

from tocsin.engine.changes import ChangeBatch
from tocsin.events import BEGINNING, END_OF_TIME
from tocsin.items import Bools, Ints
from tocsin.select.completion_order import in_order
from tocsin.select.loops.words import EMPTY
from tocsin.select.mode_kernels import loop

Key: TypeAlias = tuple[Hashable, ...]
KeyPart: TypeAlias = tuple[
    Ints, Sequence[Key]
]  # of a key: for each match a code, and the values that the codes stand for
KeyParts: TypeAlias = Callable[[ChangeBatch], Sequence[KeyPart]]
Aims: TypeAlias = Callable[[ChangeBatch], Ints]  # for each match where what it skips to starts; EMPTY: nowhere
ROOM = 256  # keys


class ColumnRule(Protocol):
    """A rule that the loop knows (`select/loops/choosing`)."""

    @property
    def kind(self) -> int: ...

    @property
    def size(self) -> int: ...

    def words(self, state: Any) -> tuple[int, int]:
        """The state of a key as the loop has it."""

    def plain(self, x: int, y: int) -> Any:
        """The state of a key in plain values, as it is saved."""

    def over(self, x: Any, y: Any, until: int) -> Any:
        """Whether nothing is left of a state once every later match ends after `until`; for numbers or arrays."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Matches that wait for the frontier: the code of the key of each, and where what it skips to starts."""

    batch: ChangeBatch
    codes: Ints
    aim: Ints

    def pick(self, which: Bools) -> Waiting:
        return Waiting(self.batch.pick(np.flatnonzero(which)), self.codes[which], self.aim[which])


def _last_event(batch: ChangeBatch) -> Ints:
    """The number of the last event of each match, as events came."""
    found: Ints = np.full(len(batch), -1, np.int64)
    for index in batch.visible:
        if index in batch.repeated:
            members = batch.repeated[index]
            np.maximum.at(found, np.repeat(np.arange(len(batch)), np.diff(members.offsets)), members.events)
        else:
            np.maximum(found, batch.fixed[index], out=found)
    return found


def _as_they_came(codes: Ints, end: Ints, last: Ints) -> Ints:
    """The places of matches by their ends; keys whose matches end together take turns as their events came.

    Those of one key at one time stay in their order. So the order of all does not depend on what was chosen at once.
    """
    if len(end) < 2:
        return np.arange(len(end))
    by_key = np.lexsort((codes, end))
    opens = np.ones(len(end), np.bool_)
    opens[1:] = (np.diff(codes[by_key]) != 0) | (np.diff(end[by_key]) != 0)
    firsts = np.flatnonzero(opens)
    turn = np.empty(len(end), np.int64)
    turn[by_key] = np.repeat(np.minimum.reduceat(last[by_key], firsts), np.diff(firsts, append=len(end)))
    order: Ints = np.lexsort((turn, end))
    return order


class SettledMatches:
    """The matches that wait, and the states of all keys."""

    def __init__(self, rule: ColumnRule, parts: KeyParts, aims: Aims | None, *, jit: bool):
        self._rule, self._parts, self._aims, self._jit = rule, parts, aims, jit
        self._choose = loop("choose", jit=jit)
        self._waiting: list[Waiting] = []
        self._first = END_OF_TIME  # the least end among them
        self._until = BEGINNING  # no other match ends at or before this
        self._forget_keys()

    def _forget_keys(self) -> None:
        self._codes: dict[Key, int] = {}
        self._x, self._y = np.full(ROOM, EMPTY, np.int64), np.full(ROOM, EMPTY, np.int64)
        self._enough = ROOM

    def __len__(self) -> int:
        return sum(len(each.codes) for each in self._waiting)

    def take(self, batch: ChangeBatch) -> None:
        """Keep the matches of a batch until their turn comes, without those that what is settled drops already."""
        codes = self._codes_of(batch)
        aim = np.full(len(batch), EMPTY) if self._aims is None else self._aims(batch)
        hopeful = self._kept(np.arange(len(batch)), codes, batch.span, aim, takes=False)
        if hopeful.any():
            each = Waiting(batch, codes, aim)
            self._keep(each if hopeful.all() else each.pick(hopeful))

    def _keep(self, waiting: Waiting) -> None:
        self._waiting.append(waiting)
        self._first = min(self._first, int(waiting.batch.span[1].min()))

    def advance(self, frontier: int) -> list[ChangeBatch]:
        """The matches that are kept, of those that end by the frontier, in order of completion."""
        self._until = max(self._until, frontier)
        if frontier < self._first:
            return []
        ripe, self._waiting, self._first, waiting = [], [], END_OF_TIME, self._waiting
        for each in waiting:
            done = each.batch.span[1] <= frontier
            if done.all():
                ripe.append(each)
                continue
            if done.any():
                ripe.append(each.pick(done))
                each = each.pick(~done)
            self._keep(each)
        found = self._chosen(ripe) if ripe else []
        self._forget()
        return found

    def _chosen(self, ripe: list[Waiting]) -> list[ChangeBatch]:
        order = in_order([each.batch for each in ripe], [each.codes for each in ripe])
        spans = [each.batch.span for each in ripe]
        codes, aim = np.concatenate([each.codes for each in ripe]), np.concatenate([each.aim for each in ripe])
        start, end = (np.concatenate(times) for times in zip(*spans, strict=True))
        kept = self._kept(order, codes, (start, end), aim, takes=True)
        rows = order[kept[order]]
        last = np.concatenate([_last_event(each.batch) for each in ripe])
        rows = rows[_as_they_came(codes[rows], end[rows], last[rows])]
        shifts = np.cumsum([0, *(len(each.codes) for each in ripe)])
        owner = np.searchsorted(shifts, rows, side="right") - 1
        cuts = [0, *(np.flatnonzero(np.diff(owner)) + 1).tolist(), len(rows)]
        return [
            ripe[at := int(owner[low])].batch.pick(rows[low:high] - shifts[at])
            for low, high in pairwise(cuts)
            if low < high
        ]

    def _kept(self, order: Ints, codes: Ints, span: tuple[Ints, Ints], aim: Ints, *, takes: bool) -> Bools:
        kept = np.zeros(len(codes), np.bool_)
        arrays: tuple[Any, ...] = (order, codes, *span, aim, self._x, self._y, kept)
        if not self._jit:
            arrays = tuple(array.data for array in arrays)
        self._choose(len(order), self._rule.kind, self._rule.size, *arrays, int(takes))
        return kept

    # --- keys ---

    def _codes_of(self, batch: ChangeBatch) -> Ints:
        """The code of the key of each match; a new key gets the next one."""
        parts = self._parts(batch)
        if len(parts) == 1:  # all its values occur
            (codes, values) = parts[0]
            return self._found(values)[codes]
        mixed = np.zeros(len(batch), np.int64)
        for number, (codes, values) in enumerate(parts):
            if number:  # few numbers, so that no product overflows
                mixed = np.unique(mixed, return_inverse=True)[1].reshape(-1)
            mixed = mixed * max(1, len(values)) + codes
        distinct, first, places = np.unique(mixed, return_index=True, return_inverse=True)
        columns = [[values[code] for code in codes[first].tolist()] for codes, values in parts]
        keys = [sum(key, ()) for key in zip(*columns, strict=True)] if columns else [()] * len(distinct)
        return self._found(keys)[places.reshape(-1)]

    def _found(self, keys: Sequence[Key]) -> Ints:
        """The code of each of some keys."""
        found = np.array([self._codes.setdefault(key, len(self._codes)) for key in keys], np.int64)
        self._room_for(len(self._codes))
        return found

    def _room_for(self, count: int) -> None:
        while count > len(self._x):
            more = np.full(len(self._x), EMPTY, np.int64)
            self._x, self._y = np.concatenate([self._x, more]), np.concatenate([self._y, more])

    def _forget(self) -> None:
        """Drop the keys of which nothing is left, whenever there are twice as many as the last time."""
        count = len(self._codes)
        if count <= self._enough:
            return
        x, y = self._x[:count], self._y[:count]
        stays = self._lasts()
        x[~stays] = EMPTY
        for each in self._waiting:
            stays[each.codes] = True
        keys, old = list(self._codes), np.flatnonzero(stays)
        numbers = np.cumsum(stays) - 1
        self._waiting = [replace(each, codes=numbers[each.codes]) for each in self._waiting]
        x, y = x[old], y[old]
        self._forget_keys()
        self._codes = {keys[code]: number for number, code in enumerate(old.tolist())}
        self._room_for(len(old))
        self._x[: len(old)], self._y[: len(old)] = x, y
        self._enough = max(ROOM, 2 * len(old))

    def _lasts(self) -> Bools:
        """Of which keys something is left."""
        count = len(self._codes)
        x, y = self._x[:count], self._y[:count]
        lasts: Bools = (x != EMPTY) & ~np.broadcast_to(self._rule.over(x, y, self._until), count)
        return lasts

    # --- state ---

    @property
    def states(self) -> list[tuple[Key, Any]]:
        """The state of every key of which something is left."""
        words = zip(self._codes, self._x.tolist(), self._y.tolist(), self._lasts().tolist(), strict=False)
        return [(key, self._rule.plain(x, y)) for key, x, y, lasts in words if lasts]

    @property
    def open(self) -> list[tuple[Key, ChangeBatch, int]]:
        """What waits: its key, and where it stands among changes."""
        keys = list(self._codes)
        return [(keys[code], each.batch, row) for each in self._waiting for row, code in enumerate(each.codes.tolist())]

    def load(self, states: Sequence[tuple[Key, Any]], open: ChangeBatch | None, keys: Sequence[Key]) -> None:
        """Take up states, and matches that wait, each with its key."""
        self._forget_keys()
        self._waiting, self._first = [], END_OF_TIME
        for code, (_, state) in zip(self._found([key for key, _ in states]).tolist(), states, strict=True):
            self._x[code], self._y[code] = self._rule.words(state)
        if open is not None:
            codes = self._found(keys)
            aim = np.full(len(open), EMPTY) if self._aims is None else self._aims(open)
            self._keep(Waiting(open, codes, aim))
