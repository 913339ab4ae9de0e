"""Choosing among matches: a rule looks at the matches of one key in order of completion and keeps some of them.

Two ways to hold the matches meanwhile. Where answers are never retracted, a match is judged when it is settled, so
nothing that comes later can stand before it (`select/settled_matches`). Where answers are given at once and corrected,
what was kept is taken back if it must be (`select/rolled_back`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, get_type_hints

import numpy as np

from tocsin.codec import as_number, as_numbers, as_shape, decode, encode, reading
from tocsin.engine.changes import ChangeBatch, Changes
from tocsin.engine.kinds import MATCH
from tocsin.engine.operator import Operator
from tocsin.functions import Function
from tocsin.items import Items
from tocsin.order.kept import packed, unpacked
from tocsin.plan.block import Plan
from tocsin.select.given import Given
from tocsin.select.over_matches import OverMatches
from tocsin.select.pieces import Pieces
from tocsin.select.rolled_back import Key, RolledBack, Rule

__all__ = ["Choice", "PerKey", "Rule", "key_values"]

MANY = 1 << 14  # matches of one push
FIRST_PIECE = 64  # rows of the first one


class Choice(Protocol):
    """The matches that are open, the states of all keys, and what follows from both."""

    def __len__(self) -> int:
        """How many matches wait."""

    def take(self, batch: ChangeBatch) -> None:
        """Take in matches, and retractions of matches."""

    def advance(self, frontier: int) -> list[ChangeBatch]:
        """What is given and retracted now that no other match ends at or before `frontier`."""

    @property
    def states(self) -> list[tuple[Key, Any]]: ...

    @property
    def open(self) -> list[tuple[Key, ChangeBatch, int]]: ...

    def load(self, states: Sequence[tuple[Key, Any]], open: ChangeBatch | None, keys: Sequence[Key]) -> None: ...


class PerKey(OverMatches):
    """Keeps the matches of `inner` that a rule keeps.

    key      the values that tell the keys of a batch of matches apart, one for each match
    at_once  answer before matches are settled, and correct that
    reach    for so many ticks it is remembered which matches were kept (None: for ever), because others read them and
             a host may replay the events of that time (`follow`); 0: nobody asks
    choice   how the rule is asked; without it as any rule in Python can be
    """

    kind = "per_key"

    def __init__(
        self,
        inner: Operator,
        rule: Rule,
        key: Callable[[ChangeBatch], Sequence[Key]],
        plan: Plan,
        functions: Mapping[str, Function],
        *,
        at_once: bool,
        reach: int | None = 0,
        choice: Choice | None = None,
    ) -> None:
        super().__init__(inner, Pieces(MANY, FIRST_PIECE, whole=at_once))
        self._plan, self._functions = plan, functions
        self._choice = RolledBack(rule, key, None, at_once=at_once) if choice is None else choice
        self._state = get_type_hints(rule.begin).get("return", Any)  # the shape of a stored state
        self._given = Given(reach)

    @property
    def _waiting(self) -> int:
        return len(self._choice)

    def _push(self, items: Items) -> Changes:
        found = self._next.push(items)
        self._pieces.resize(len(items), sum(map(len, found)))
        self.frontier = max(self.frontier, found.frontier)
        if self._following:  # what was decided about these is remembered
            known = [self._given.among(batch) for batch in found if batch.kind == MATCH]
            return Changes([batch for batch in known if len(batch)], found.frontier, found.late)
        out = [batch for batch in found if batch.kind != MATCH]
        for batch in found:
            if batch.kind == MATCH and len(batch):
                self._choice.take(batch)
        changed = self._choice.advance(self.frontier)
        given = sum(int(np.count_nonzero(batch.op > 0)) for batch in changed)
        self.given += given
        self.retracted += sum(map(len, changed)) - given
        self._given.note(changed, self.frontier)
        return Changes(out + changed, self.frontier, found.late)

    # --- state ---

    @property
    def memory(self) -> bytes:
        """All that a replay of the stored events would not bring back: the states of the keys, and what is open."""
        open = self._choice.open
        words = {
            "frontier": self.frontier,
            "counts": [self.given, self.retracted],
            "keys": [[key, state] for key, state in self._choice.states],
            "open": [key for key, _, _ in open],
        }
        kept = packed([(batch, row) for _, batch, row in open])
        return encode("per_key", words, arrays={"given": self._given.saved()}, blobs={"open": kept})

    def follow(self, memory: bytes) -> None:
        """Before events are replayed: of the matches that they bring, those are handed on that were kept."""
        self._given.restore(decode(memory, "per_key").arrays.get("given"))
        self._following = True

    def resume(self, memory: bytes) -> None:
        """After events were replayed: go on from what was remembered."""
        stored = decode(memory, "per_key")
        with reading():
            words, batch = stored.words, unpacked(stored.blobs["open"], self._plan, self._functions)
            self._given.restore(stored.arrays.get("given"))
            self._following = False
            self.frontier, (self.given, self.retracted) = as_number(words["frontier"]), as_numbers(words["counts"])
            states = as_shape(list[tuple[list[Any], self._state]], words["keys"])  # type: ignore[name-defined]
            open = [tuple(key) for key in as_shape(list[list[Any]], words["open"])]
            if len(open) != (0 if batch is None else len(batch)):
                raise ValueError("each open match has one key")
            self._choice.load([(tuple(key), state) for key, state in states], batch, open)
        self._choice.advance(self.frontier)  # what is open was answered before


def key_values(attrs: Sequence[str]) -> Callable[[ChangeBatch], Sequence[Key]]:
    """The key of each match: what the first of its events has for some attributes."""

    def values(batch: ChangeBatch) -> Sequence[Key]:
        first = np.full(len(batch), -1, np.int64)
        for column in batch.fixed:
            first = np.where((first < 0) & (column >= 0), column, first)
        at = batch.rows.at(first)
        columns = [batch.rows.table.column(attr).to_pylist() for attr in attrs]
        return [tuple(column[place] for column in columns) for place in at.tolist()]

    return values
