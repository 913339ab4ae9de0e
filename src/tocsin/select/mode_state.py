"""The state of a mode as arrays, for all keys together: what the loops of `select/loops` work in.

Saved it looks as that of the rules in `select/consumption`: for each key the prefixes that wait, as plain values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tocsin.items import Bools, Ints
from tocsin.plan.consumption import Consumption, Shape
from tocsin.select.loops.continuous import DROPPED, EVENT, HEAD, LEVEL, LOW, NODE, OF_PARENT
from tocsin.select.loops.continuous import NEXT as BEHIND
from tocsin.select.loops.continuous import SINCE as SINCE_NODE
from tocsin.select.loops.cumulative import MEMBER, SETS
from tocsin.select.loops.gathering import LIST
from tocsin.select.loops.words import (
    CHRONICLE,
    CONTINUOUS,
    CUMULATIVE,
    EMPTY,
    EXCEEDS,
    FIRST,
    FREE,
    LATEST,
    MEM_N,
    MODE,
    NEEDS,
    NOBODY,
    OUT_N,
    RECENT,
    ROOM_MEMBERS,
    ROOM_NODES,
    SNOOP_RECENT,
    STEPS,
    TOP,
    WITHIN,
    WORDS,
)
from tocsin.select.mode_kernels import loop

LONG = 1 << 62  # as long as no match lasts
MODES = {
    "first": FIRST, "recent": RECENT, "snoop_recent": SNOOP_RECENT, "latest": LATEST,
    "chronicle": CHRONICLE, "cumulative": CUMULATIVE, "continuous": CONTINUOUS,
}  # fmt: skip
Plain = list[Any]


@dataclass(frozen=True, slots=True)
class ModeLayout:
    """How a mode keeps its state: the loop that works in it, the words of a key, and those of a node.

    lists       how many lists a key has, where the head of the first stands, and how far they are apart
    following   the word of a node that says which one is behind it; event: that of its (first) event
    """

    loop: str
    key: tuple[int, ...]
    lists: tuple[int, int, int] = (0, 0, 0)
    node: int = 1
    following: int = 0
    event: int = 0

    @classmethod
    def of(cls, mode: str, shape: Shape, steps: int) -> ModeLayout:
        waits = steps - 1
        if shape == "or" or not waits:
            return cls("single", (NOBODY,), (1, 0, 1))
        if shape == "and":
            return cls("gather", (NOBODY, NOBODY, 0) * steps, (steps, 0, LIST), MEMBER, 0, 1)
        match mode:
            case "chronicle":
                return cls("line_up", (NOBODY, NOBODY) * waits, (waits, 0, 2), steps + 3, 0, 4)
            case "continuous":
                return cls("combine", (NOBODY, NOBODY, 0, 0, 0) * waits, (waits, HEAD, LEVEL), NODE, BEHIND, EVENT)
            case "cumulative":
                words = (0,) * SETS + (NOBODY, NOBODY, 0) * waits
                return cls("accumulate", words, (waits, SETS, 3), MEMBER, 0, 1)
        return cls("extend_slots", (EMPTY,) * (waits * (steps + 2)))


class ModeState:
    """What waits under every key; a key is its code."""

    def __init__(self, consume: Consumption, within: int | None, *, jit: bool) -> None:
        steps, exceeds = len(consume.steps), consume.exceeds
        self.steps, self.jit = steps, jit
        self.layout = ModeLayout.of(consume.mode, consume.shape, steps)
        self._loop = loop(self.layout.loop, jit=jit)
        self.P = np.zeros(WORDS, np.int64)
        self.P[[STEPS, MODE, FREE]] = steps, MODES[consume.mode], NOBODY
        self.P[WITHIN], self.P[EXCEEDS] = (
            LONG if within is None else within,
            -LONG if exceeds is None else exceeds,
        )
        small = not jit
        self.S = np.tile(np.array(self.layout.key, np.int64), 8 if small else 1024)
        self.D = np.full((8 if small else 1 << 14) * self.layout.node, NOBODY, np.int64)
        self.W = np.zeros(3 * steps, np.int64)
        self.OUT = np.zeros((8 if small else 1 << 14) * (steps + 1), np.int64)
        self.MEM = np.zeros(8 if small else 1 << 14, np.int64)

    @property
    def stride(self) -> int:
        return len(self.layout.key)

    def room_for(self, keys: int) -> None:
        """Make room for so many keys."""
        have = len(self.S) // self.stride
        if keys > have:
            more = np.tile(np.array(self.layout.key, np.int64), max(keys, 2 * have) - have)
            self.S = np.concatenate((self.S, more))

    # --- running ---

    def run(self, rows: Ints, codes: Ints, bits: Ints, start: Ints, end: Ints, base: int) -> list[tuple[Ints, Ints]]:
        """Take events in order; the rows of OUT, and the members of sets that they mention."""
        at, found = 0, []
        while at < len(rows):
            at = self._loop(at, len(rows), *self._views(rows, codes, bits, start, end), base, *self._state())
            needs, self.P[NEEDS] = int(self.P[NEEDS]), 0
            if needs == ROOM_NODES:
                self.D = np.concatenate((self.D, np.full(len(self.D), NOBODY, np.int64)))
            elif needs == ROOM_MEMBERS and not self.P[OUT_N]:
                self.MEM = np.zeros(2 * len(self.MEM), np.int64)
            elif needs and not self.P[OUT_N]:
                self.OUT = np.zeros(2 * len(self.OUT), np.int64)
            elif needs:
                found.append(self._drained())
        if self.P[OUT_N]:
            found.append(self._drained())
        return found

    def _views(self, *arrays: Ints) -> tuple[Any, ...]:
        return arrays if self.jit else tuple(array.data for array in arrays)

    def _state(self) -> tuple[Any, ...]:
        arrays: tuple[Ints, ...]
        match self.layout.loop:
            case "extend_slots" | "single":
                arrays = (self.P, self.S, self.OUT)
            case "gather":
                arrays = (self.P, self.S, self.D, self.W, self.OUT, self.MEM)
            case "line_up":
                arrays = (self.P, self.S, self.D, self.OUT)
            case "combine":
                arrays = (self.P, self.S, self.D, self.W, self.OUT)
            case _:
                arrays = (self.P, self.S, self.D, self.OUT, self.MEM)
        return self._views(*arrays)

    def _drained(self) -> tuple[Ints, Ints]:
        width = self.steps + 1
        answers = self.OUT[: self.P[OUT_N] * width].reshape(-1, width).copy()
        members = self.MEM[: self.P[MEM_N]].copy()
        self.P[[OUT_N, MEM_N]] = 0
        return answers, members

    # --- what is kept ---

    @property
    def used(self) -> Ints:
        """The numbers of the events that wait, ascending."""
        if not self.layout.lists[0]:
            slots = self.S.reshape(-1, self.steps + 2)
            place = np.arange(len(slots)) % (self.steps - 1)
            there = slots[:, 0] != EMPTY
            found = [slots[there & (place >= at), 3 + at] for at in range(self.steps - 1)]
        else:
            nodes = self.D[: self.P[TOP] * self.layout.node].reshape(-1, self.layout.node)
            nodes = nodes[nodes[:, self.layout.event] >= 0]
            found = [nodes[:, self.layout.event]]
            if self.layout.loop == "line_up":
                found = [column[column >= 0] for column in nodes[:, 4:].T]
        return np.unique(np.concatenate(found))

    def waiting(self, count: int) -> Bools:
        """Under which of the first keys anything waits."""
        words = self.S[: count * self.stride].reshape(count, self.stride)
        lists, head, apart = self.layout.lists
        if not lists:
            return np.asarray((words[:, :: self.steps + 2] != EMPTY).any(axis=1))
        return np.asarray((words[:, head : head + apart * lists : apart] != NOBODY).any(axis=1))

    def keep(self, count: int, alive: Bools) -> None:
        """Of the first keys keep some; they get new codes, in the same order."""
        lists, head, apart = self.layout.lists
        gone = np.flatnonzero(~alive)
        if lists and len(gone):
            layout = self.layout
            arrays = self._views(gone, self.S, self.D, self.P)
            loop("release", jit=self.jit)(
                len(gone), *arrays, self.stride, head, apart, lists, layout.node, layout.following, layout.event
            )
        words = self.S[: count * self.stride].reshape(count, self.stride)[alive]
        self.S = np.concatenate((words.ravel(), np.tile(np.array(self.layout.key, np.int64), 1024)))

    # --- saved ---

    def plain(self, code: int) -> Plain:
        """The state of a key in plain values."""
        words = self.S[code * self.stride : (code + 1) * self.stride].tolist()
        match self.layout.loop:
            case "extend_slots":
                return [self._slot(words, at) for at in range(self.steps - 1)]
            case "line_up":
                return [[[w[1], w[2], w[4 : 5 + at], w[3]] for w in self._nodes(words[2 * at])] for at in self._waits]
            case "combine":
                levels = [words[at * LEVEL : (at + 1) * LEVEL] for at in self._waits]
                kept = [[_entry(w) for w in self._nodes(level[HEAD])] for level in levels]
                return [*kept, [[level[DROPPED], level[DROPPED + 2]] for level in levels]]
            case "single":
                return []
            case "gather":
                heads = words[::LIST]
            case _:
                heads = words[SETS::LIST]
        return [[[w[2], w[3], [w[1]], []] for w in self._nodes(head)] for head in heads]

    @property
    def _waits(self) -> range:
        return range(self.steps - 1)

    def _slot(self, words: list[int], at: int) -> Plain:
        slot = words[at * (self.steps + 2) : (at + 1) * (self.steps + 2)]
        return [] if slot[0] == EMPTY else [[slot[0], slot[1], slot[3 : 4 + at], slot[2]]]

    def _nodes(self, node: int) -> list[list[int]]:
        """The nodes of a list, as words."""
        found, width = [], self.layout.node
        while node != NOBODY:
            found.append(self.D[node * width : (node + 1) * width].tolist())
            node = found[-1][self.layout.following]
        return found

    def load(self, code: int, state: Plain) -> None:
        """Take up the state of a key that has none."""
        self.room_for(code + 1)
        words = list(self.layout.key)
        match self.layout.loop:
            case "extend_slots":
                for at, waiting in enumerate(state):
                    for start, end, numbers, first_end in waiting:
                        slot = [start, end, first_end, *numbers]
                        words[at * (self.steps + 2) : at * (self.steps + 2) + len(slot)] = slot
            case "line_up":
                for at, waiting in enumerate(state):
                    rest = [NOBODY] * (self.steps - 2 - at)
                    nodes = [[NOBODY, start, end, first, *numbers, *rest] for start, end, numbers, first in waiting]
                    words[2 * at : 2 * at + 2] = self._listed(nodes)
            case "combine":
                self._load_levels(state, words)
            case "accumulate":
                self._load_run(state, words)
                words[SETS:] = self._lists(state)
            case "gather":
                words = self._lists(state)
        self.S[code * self.stride : (code + 1) * self.stride] = words

    def _load_levels(self, state: Plain, words: list[int]) -> None:
        *levels, marks = state
        before: tuple[int, int] = (NOBODY, 0)  # the first node of the level before, and its index
        for at, (waiting, (dropped, alive)) in enumerate(zip(levels, marks, strict=True)):
            nodes = []
            for index, (since, end, (number,), _, low, high) in enumerate(waiting, dropped):
                parent = before[0] + high - 1 - before[1] if at and high - 1 >= before[1] else NOBODY
                nodes.append([NOBODY, NOBODY, index, since, end, number, parent, high - 1, low])
            first, last = self._listed(nodes)
            for node in range(first + 1, last + 1 if nodes else 0):
                self.D[node * NODE] = node - 1
            words[at * LEVEL : (at + 1) * LEVEL] = [first, last, dropped, dropped + len(waiting), alive]
            before = (first, dropped)

    def _load_run(self, state: Plain, words: list[int]) -> None:
        members = [each for waiting in state for each in waiting]
        run = sum(map(bool, state))
        if run:
            last = [max(each[1] for each in waiting) for waiting in state[:run]]
            since, first_end = min(each[0] for each in members), min(each[1] for each in members)
            words[:SETS] = [run, since, last[-2] if run > 1 else 0, last[-1], first_end]

    def _lists(self, state: Plain) -> list[int]:
        """For each list its first and its last node, and how many there are."""
        words: list[int] = []
        for waiting in state:
            nodes = [[NOBODY, number, start, end] for start, end, (number,), _ in waiting]
            words += [*self._listed(nodes), len(nodes)]
        return words

    def _listed(self, nodes: list[list[int]]) -> tuple[int, int]:
        """Put nodes one behind the other; the first and the last of them."""
        if not nodes:
            return NOBODY, NOBODY
        width, first = self.layout.node, int(self.P[TOP])
        while (first + len(nodes)) * width > len(self.D):
            self.D = np.concatenate((self.D, np.full(len(self.D), NOBODY, np.int64)))
        for at, words in enumerate(nodes, first):
            words[self.layout.following] = at + 1 if at + 1 < first + len(nodes) else NOBODY
            self.D[at * width : at * width + len(words)] = words
        self.P[TOP] = first + len(nodes)
        return first, first + len(nodes) - 1


def _entry(node: list[int]) -> Plain:
    since, end, number = node[SINCE_NODE], node[SINCE_NODE + 1], node[EVENT]
    return [since, end, [number], end, node[LOW], node[OF_PARENT] + 1]
