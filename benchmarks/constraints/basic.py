"""The basic checker of the source (Algorithm 1), compiled: the baseline that the encoding is compared with.

The automaton of query and constraint runs side by side with that of the constraint alone; whenever a state changes,
their derivatives are compared. Its verdicts must be those of the tracker, which takes the actions.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from tocsin.constraint.automaton import Dfa
from tocsin.constraint.checkers import SAT, UNDETERMINED, UNSAT, Automata, static
from tocsin.constraint.tracker import Tracker

VERDICTS = {UNDETERMINED: 0, SAT: 1, UNSAT: 2}


def table(dfa: Dfa) -> np.ndarray:
    """Where each letter leads, -1 where it leads out."""
    moves = [[mine.get(letter, -1) for letter in range(dfa.letters)] for mine in dfa.moves]
    return np.array(moves, np.int32).reshape(len(moves), dfa.letters)


def accepting(dfa: Dfa) -> np.ndarray:
    return np.array([state in dfa.accepting for state in range(len(dfa))], np.bool_)


def follow(
    codes: Any, letters: Any, both: Any, both_ends: Any, alone: Any, alone_ends: Any,
    p: Any, q: Any, said: Any, stack: Any, met: Any, round: int,
) -> int:  # fmt: skip
    """Follow rows; the number of the next comparison."""
    width = both.shape[1]
    for k in range(len(codes)):
        code, letter = codes[k], letters[k]
        if code < 0 or letter < 0 or said[code] != 0:
            continue
        there, other = both[p[code], letter], alone[q[code], letter]
        if other < 0:
            said[code] = 3
            continue
        if there < 0:
            said[code] = 2
            continue
        if there != p[code] or other != q[code]:
            round += 1
            same, deep = True, 1
            stack[0, 0], stack[0, 1] = there, other
            met[there, other] = round
            while same and deep > 0:
                deep -= 1
                x, y = stack[deep, 0], stack[deep, 1]
                same = both_ends[x] == alone_ends[y]
                for each in range(width):
                    a, b = both[x, each], alone[y, each]
                    if (a < 0) != (b < 0):
                        same = False
                    elif a >= 0 and met[a, b] != round:
                        met[a, b] = round
                        stack[deep, 0], stack[deep, 1] = a, b
                        deep += 1
            if same:
                said[code] = 1
        p[code], q[code] = there, other
    return round


@cache
def compiled() -> Any:
    from numba import njit

    return njit(nogil=True)(follow)


class Basic:
    """Runs before the tracker on the rows that it is given."""

    def __init__(self, tracker: Tracker) -> None:
        automata = Automata.of(tracker.plan)
        both, alone = automata.both, automata.constraint
        assert alone.start is not None
        self.moves = table(both), accepting(both), table(alone), accepting(alone)
        self.begin = -1 if both.start is None else both.start, alone.start, VERDICTS[static(automata)]
        self.stack = np.zeros((len(both) * len(alone) + 1, 2), np.int64)
        self.met = np.zeros((len(both), len(alone)), np.int64)
        self.round = 0
        self.states = [np.zeros(0, kind) for kind in (np.int32, np.int32, np.int8)]
        self._tracker, self._follow = tracker, tracker._follow
        tracker._follow = self.follow  # type: ignore[method-assign]

    def follow(self, items: Any, codes: Any, bits: Any, said: Any) -> Any:
        room = len(self._tracker.table.words)
        letters = self._tracker._letters_of(items, bits)
        if len(self.states[0]) < room:
            grown = [np.full(room, begin, each.dtype) for each, begin in zip(self.states, self.begin, strict=True)]
            for mine, before in zip(grown, self.states, strict=True):
                mine[: len(before)] = before
            self.states = grown
        run = compiled() if self._tracker.jit else follow
        self.round = run(codes, letters, *self.moves, *self.states, self.stack, self.met, self.round)
        return self._follow(items, codes, bits, said)

    def count(self, verdict: str) -> int:
        """How many traces have a verdict."""
        return int(np.count_nonzero(self.states[2] == VERDICTS[verdict]))
