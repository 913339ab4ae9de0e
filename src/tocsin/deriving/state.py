"""The open intervals of all keys as arrays: what the loops work in, and how it is saved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tocsin.deriving.folds import FoldWords
from tocsin.deriving.kernels import run
from tocsin.deriving.words import (
    ANSWER,
    BEGAN,
    BEGIN,
    BEHIND,
    CAME,
    CODE,
    COME,
    DEPTH,
    END,
    FOLDS,
    FREE,
    GAP,
    HEAD,
    KIND,
    KNOWN,
    LABEL,
    MISSED_AT,
    NEEDS,
    NESTED,
    NOBODY,
    NODE,
    NONE,
    NUMBER,
    OCCURRENCE,
    OF,
    OUT_N,
    OUTERMOST,
    PAIRS,
    PARAMETERS,
    PLACE,
    POLICY,
    QUEUED,
    RESTART,
    ROOM_NODES,
    RUN,
    START,
    STATES,
    TAIL,
    TIME,
    TOP,
    UNENDED,
    UNTIL_NEXT,
    WHOLE,
)
from tocsin.items import Bools, Ints
from tocsin.plan.derived_form import DerivedForm

POLICIES = {"nested": NESTED, "queued": QUEUED, "outermost": OUTERMOST, "restart": RESTART}
SHORT = 1 << 12  # answers for which there is room at first, and open begins
NEVER = -NONE
Plain = list[Any]


@dataclass(slots=True)
class KeyedRows:
    """Readings in order of time, those of one key in canonical order, as the loops take them.

    rows    which rows of a batch; `codes` are their keys, `roles` what they are for pairs
    bits    of all rows of the batch: the roles of the definition that each can have; `time`: where each ends
    values  for each fold what it asks of each row of the batch; `known`: whether there is such a value
    """

    rows: Ints
    codes: Ints
    roles: Ints
    bits: Ints
    time: Ints
    values: Ints
    known: Ints


class OpenIntervals:
    """What is open under each key; a key is its code."""

    def __init__(self, form: DerivedForm, folds: FoldWords, stride: int, *, jit: bool) -> None:
        self.form, self.folds, self.stride, self._jit = form, folds, stride, jit
        self.P = np.zeros(PARAMETERS, np.int64)
        given = form.definition
        self.P[GAP] = NONE if form.gap is None else form.gap
        self.P[UNTIL_NEXT] = bool(given.states) and not given.end_last
        self.P[STATES], self.P[POLICY] = len(given.states), POLICIES[given.policy]
        self.P[FOLDS], self.P[FREE] = len(folds), NOBODY
        self.S = np.zeros(0, np.int64)
        self.OUT = np.zeros((SHORT if jit else 8) * self.width, np.int64)

    @property
    def width(self) -> int:
        """The words of an answer."""
        return ANSWER + 2 * len(self.folds)

    def key_words(self) -> Ints:
        """The words of a key that has nothing open."""
        raise NotImplementedError

    def room_for(self, keys: int) -> None:
        """Make room for so many keys."""
        have = len(self.S) // self.stride
        if keys > have:
            more = np.tile(self.key_words(), max(keys, 2 * have) - have)
            self.S = np.concatenate((self.S, more))

    def keep(self, count: int, alive: Bools) -> None:
        """Keep some of the keys, which get new codes in the same order."""
        self.S = self.S.reshape(-1, self.stride)[:count][alive].ravel().copy()

    def drained(self, found: list[Ints]) -> None:
        """Take the answers out; more room where there was too little for one."""
        count, needs = int(self.P[OUT_N]), int(self.P[NEEDS])
        if count:
            found.append(self.OUT[: count * self.width].reshape(count, self.width).copy())
        if needs and needs != ROOM_NODES:
            self.OUT = np.zeros(2 * len(self.OUT), np.int64)
        self.P[OUT_N] = self.P[NEEDS] = 0

    def answers(self, count: int) -> Ints:
        """Room for answers that a loop does not write; without values."""
        return np.full((count, self.width), NOBODY, np.int64)


class OpenRuns(OpenIntervals):
    """At most one run, or session, for each key."""

    def __init__(self, form: DerivedForm, folds: FoldWords, *, jit: bool) -> None:
        super().__init__(form, folds, RUN + 2 * len(folds), jit=jit)
        self.L = np.zeros(0, np.int64)  # the last reading of each open run; NONE where there is none
        self._not_before = NEVER  # none of them is earlier
        self._since = 0  # readings since that was looked up

    def key_words(self) -> Ints:
        words = np.zeros(self.stride, np.int64)
        words[BEGAN] = NEVER
        return words

    def room_for(self, keys: int) -> None:
        super().room_for(keys)
        more = len(self.S) // self.stride - len(self.L)
        if more:
            self.L = np.concatenate((self.L, np.full(more, NONE)))

    def follow(self, given: KeyedRows) -> list[Ints]:
        """Take readings; the answers."""
        found: list[Ints] = []
        at, count = 0, len(given.rows)
        self._since += count
        if count:
            self._not_before = min(self._not_before, int(given.time[given.rows[0]]))
        while at < count:
            at = run(
                "follow_runs", self._jit, at, count, given.rows, given.codes, given.bits, given.time, given.values,
                given.known, self.folds.functions, self.S, self.L, self.OUT, self.P,
            )  # fmt: skip
            self.drained(found)
        return found

    def due(self, until: int) -> list[Ints]:
        """End the runs behind which a gap has passed, as all readings up to a time were there."""
        gap = self.form.gap
        if gap is None or until - gap < self._not_before:
            return []
        ended = np.flatnonzero(until - gap >= self.L)
        found = [self._ended(ended)] if len(ended) else []
        self._look()
        return found

    def ends(self) -> list[Ints]:
        """The stream is over: an open run ends at its last reading."""
        return [self._ended(np.flatnonzero(self.L != NONE))]

    def _ended(self, codes: Ints) -> Ints:
        found, last = self.answers(len(codes)), self.L[codes]
        words = self.S.reshape(-1, self.stride)[codes]
        found[:, KNOWN], found[:, CODE], found[:, KIND] = last + (self.form.gap or 0), codes, WHOLE
        found[:, OF], found[:, START], found[:, END] = words[:, LABEL], words[:, BEGIN], last
        found[:, OCCURRENCE], found[:, ANSWER:] = words[:, NUMBER], words[:, RUN:]
        self.L[codes] = NONE
        return found

    def _look(self) -> None:
        self._not_before, self._since = int(self.L.min(initial=NONE)), 0

    def frontier(self, until: int) -> int:
        """No later answer ends at or before this, where all readings up to `until` were there."""
        if 256 * self._since >= len(self.L):
            self._look()
        behind = NEVER if self.form.gap is None else until - self.form.gap  # what is older has ended
        return min(until, max(self._not_before - 1, behind))

    @property
    def open_keys(self) -> Bools:
        open: Bools = self.L != NONE
        return open

    @property
    def count(self) -> int:
        return int(np.count_nonzero(self.open_keys))

    @property
    def texts(self) -> Ints:
        return self.folds.texts(self.S.reshape(-1, self.stride)[self.open_keys][:, RUN:])

    def keep(self, count: int, alive: Bools) -> None:
        super().keep(count, alive)
        self.L = self.L[:count][alive].copy()

    def plain(self, code: int) -> Plain:
        """The run of a key as plain values; nothing where there is none."""
        if self.L[code] == NONE:
            return []
        words = self.S[code * self.stride : (code + 1) * self.stride].tolist()
        return [int(self.L[code]), *words[:RUN], self.folds.plain(words[RUN:])]

    def load(self, code: int, saved: Plain) -> None:
        self.room_for(code + 1)
        last, *words, folds = saved
        self.S[code * self.stride : (code + 1) * self.stride] = [*words, *self.folds.words(folds)]
        self.L[code] = last
        self._not_before = min(self._not_before, last)


class OpenPairs(OpenIntervals):
    """The begins of each key that wait for their ends, in lists of nodes."""

    def __init__(self, form: DerivedForm, folds: FoldWords, *, jit: bool) -> None:
        super().__init__(form, folds, PAIRS, jit=jit)
        self.node = NODE + 2 * len(folds)
        self.D = np.zeros((SHORT if jit else 8) * self.node, np.int64)

    def key_words(self) -> Ints:
        words = np.zeros(PAIRS, np.int64)
        words[[HEAD, CAME, MISSED_AT]] = NOBODY, NEVER, NEVER
        return words

    def follow(self, given: KeyedRows) -> list[Ints]:
        """Take begins and ends; the answers."""
        found: list[Ints] = []
        at, count = 0, len(given.rows)
        rest = np.zeros(count, np.int64)
        if count and given.roles.any():
            seen = np.full(2 * (len(self.S) // PAIRS), NONE)
            run("begins_at", self._jit, count, given.rows, given.codes, given.roles, given.time, seen, rest)
        while at < count:
            at = run(
                "follow_pairs", self._jit, at, count, given.rows, given.codes, given.roles, rest, given.time,
                given.values, given.known, self.folds.functions, self.S, self.D, self.OUT, self.P,
            )  # fmt: skip
            if self.P[NEEDS] == ROOM_NODES:
                self.D = np.concatenate((self.D, np.zeros(len(self.D), np.int64)))
            self.drained(found)
        return found

    def due(self, until: int) -> list[Ints]:
        """None: an open begin waits for its end however long it takes."""
        del until
        return []

    def ends(self) -> list[Ints]:
        """The stream is over: what is open never ends."""
        codes = np.flatnonzero(self.open_keys)
        nodes = [(code, node) for code in codes.tolist() for node in self._nodes(code)]
        found = self.answers(len(nodes))
        for at, (code, node) in enumerate(nodes):
            time = node[TIME]
            found[at, :ANSWER] = time, code, UNENDED, 0, time, time, node[PLACE]
        self.S[HEAD::PAIRS] = NOBODY
        return [found]

    def frontier(self, until: int) -> int:
        return until

    def _nodes(self, code: int) -> list[list[int]]:
        """The open begins of a key, in the order in which ends take them."""
        found, at = [], int(self.S[code * PAIRS + HEAD])
        while at != NOBODY:
            found.append(self.D[at * self.node : (at + 1) * self.node].tolist())
            at = found[-1][BEHIND]
        return found

    @property
    def open_keys(self) -> Bools:
        open: Bools = self.S[HEAD::PAIRS] != NOBODY
        return open

    @property
    def count(self) -> int:
        return sum(len(self._nodes(code)) for code in np.flatnonzero(self.open_keys).tolist())

    @property
    def texts(self) -> Ints:
        return self.folds.texts(self.D.reshape(-1, self.node)[: self.P[TOP], NODE:])

    def plain(self, code: int) -> Plain:
        """The open begins of a key as plain values; nothing where there are none."""
        nodes = self._nodes(code)
        if not nodes:
            return []
        words = self.S[code * PAIRS : (code + 1) * PAIRS].tolist()
        kept = [[node[TIME], node[PLACE], self.folds.plain(node[NODE:])] for node in nodes]
        return [words[DEPTH], words[CAME], words[COME], kept]

    def load(self, code: int, saved: Plain) -> None:
        self.room_for(code + 1)
        depth, came, come, nodes = saved
        first = int(self.P[TOP])
        while (first + len(nodes)) * self.node > len(self.D):
            self.D = np.concatenate((self.D, np.zeros(len(self.D), np.int64)))
        for at, (time, place, folds) in enumerate(nodes, first):
            behind = at + 1 if at + 1 < first + len(nodes) else NOBODY
            self.D[at * self.node : (at + 1) * self.node] = [behind, time, place, *self.folds.words(folds)]
        self.P[TOP] = first + len(nodes)
        words = self.S[code * PAIRS : (code + 1) * PAIRS]
        words[[HEAD, TAIL, DEPTH, CAME, COME]] = first, first + len(nodes) - 1, depth, came, come


def open_intervals(form: DerivedForm, folds: FoldWords, *, jit: bool) -> OpenRuns | OpenPairs:
    """The state of a definition."""
    return OpenPairs(form, folds, jit=jit) if form.kind == "pairs" else OpenRuns(form, folds, jit=jit)
