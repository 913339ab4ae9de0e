"""The states of traces as tables: what a letter leads to, and what is known in each.

They begin as the encoding of a query under its constraints (`constraint/reasoning`) and grow where events of one time
are met: with sets of states, one of which a trace is in, and with states in which the query is not looked at.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import permutations

import numpy as np

from tocsin.constraint.loops import ALWAYS, BEFORE_SAT
from tocsin.constraint.reasoning import DEAD, Flag, Reasoning
from tocsin.items import Bools, Codes

MOST_TIED = 6  # events of one time whose orders are all looked at


class StateTables:
    """By state: `moves` (flat, by letter), `flags`, `dead` and `open`, as in Reasoning."""

    def __init__(self, known: Reasoning) -> None:
        self._known, self.width = known, len(known.letters)
        self.moves = np.ascontiguousarray(known.moves.reshape(-1), np.int32)
        self.flags, self.dead, self.open = known.flags, known.dead, known.open
        self._steps: Codes = np.zeros(0, np.int32)
        self.sets: dict[tuple[int, ...], int] = {}  # states of which a trace may be in any
        self._members: dict[int, tuple[int, ...]] = {}
        self._plain: dict[int, tuple[int, ...]] = {}  # states in which the query is not looked at, and their names
        self.of_plain: dict[tuple[int, ...], int] = {}

    def steps(self, wanted: Bools, ends: Bools, *, trusted: bool) -> Codes:
        """The moves, marked (`loops.ALWAYS`, BEFORE_SAT) where more happens than going on to the next state."""
        if len(self._steps) < len(self.moves):
            there = self.moves.reshape(-1, self.width)
            flags, dead = self.flags[there], self.dead[there]
            always = (dead != self.dead[:, None]) | ends[None, :]
            always |= (flags & Flag.UNSAT != 0) & (self.flags[:, None] & Flag.UNSAT == 0)
            if trusted:
                always |= flags & Flag.CLOSABLE != 0
                always |= (flags & Flag.QUIET != 0) & (self.flags[:, None] & Flag.QUIET == 0)
            before = (flags & Flag.SAT != 0) | wanted[None, :] & (dead == 0) & (flags & Flag.UNSAT == 0)
            found = there | np.where(always, ALWAYS, 0) | np.where(before, BEFORE_SAT, 0)
            self._steps = np.ascontiguousarray(found.reshape(-1), np.int32)
        return self._steps

    def behind(self, state: int, letters: Iterable[int]) -> int:
        """The state that some letters lead to, one after the other."""
        for letter in letters:
            state = int(self.moves[state * self.width + letter])
        return state

    # --- any order ---

    def behind_tie(self, state: int, letters: list[int]) -> int:
        """The state after events of one time in any order (TIES ANY): the set of all states that they lead to."""
        orders = set(permutations(letters)) if len(letters) <= MOST_TIED else {tuple(letters)}
        return self.set_state(self._several(self.behind(state, order) for order in orders))

    def set_state(self, states: tuple[int, ...]) -> int:
        """The state of a trace that may be in any of several, because nobody knows how a tie was ordered."""
        if len(states) == 1:
            return states[0]
        known = self.sets.get(states)
        if known is None:
            chosen = list(states)
            known = self._new(
                self._joint_flags(chosen), int(np.bitwise_and.reduce(self.dead[chosen])),
                int(np.bitwise_and.reduce(self.open[chosen])),
            )  # fmt: skip
            self.sets[states], self._members[known] = known, states
            for letter in range(self.width):
                there = self._several(int(self.moves[state * self.width + letter]) for state in states)
                target = self.set_state(there)
                self.moves[known * self.width + letter] = target
        return known

    def _several(self, states: Iterable[int]) -> tuple[int, ...]:
        """The states with the fewest violated constraints: a tie violates one if every order of its events does."""
        found = sorted(set(states))
        least = int(np.bitwise_and.reduce(self.dead[found]))
        kept = [state for state in found if self.dead[state] == least]
        return tuple(kept or found[:1])

    def _joint_flags(self, states: list[int]) -> int:
        every = int(np.bitwise_and.reduce(self.flags[states]))
        some = int(np.bitwise_or.reduce(self.flags[states]))
        return every & ~int(Flag.SAT) | some & int(Flag.COMPLETE | Flag.MATCHED)

    # --- no order ---

    def mute(self, state: int, strict: int) -> int:
        """The state after a tie that violates the constraints `strict`: the query is not looked at any more."""
        while state in self._members:  # one of those in which the trace may be
            state = self._members[state][0]
        cs = self._known.names[state] if state < len(self._known.names) else self._plain[state]
        return self.silent(tuple(DEAD if strict >> at & 1 else s for at, s in enumerate(cs)))

    def silent(self, cs: tuple[int, ...]) -> int:
        """The state in which the constraints have these states, and nothing is said of the query."""
        known = self.of_plain.get(cs)
        if known is None:
            automata = self._known.automata
            complete = all(at in dfa.accepting for at, dfa in zip(cs, automata, strict=True))
            flags = Flag.VIOLATED if DEAD in cs else Flag.COMPLETE if complete else Flag(0)
            ends = ((k, s not in dfa.accepting) for k, (s, dfa) in enumerate(zip(cs, automata, strict=True)))
            known = self._new(
                int(flags), sum(1 << k for k, s in enumerate(cs) if s == DEAD),
                sum(1 << k for k, is_open in ends if is_open and cs[k] != DEAD),
            )  # fmt: skip
            self.of_plain[cs], self._plain[known] = known, cs
            for letter in range(self.width):
                there = tuple(
                    DEAD if s == DEAD else dfa.moves[s].get(letter, DEAD) for s, dfa in zip(cs, automata, strict=True)
                )
                target = self.silent(there)
                self.moves[known * self.width + letter] = target
        return known

    def _new(self, flags: int, dead: int, open: int) -> int:
        self.flags, self.dead = np.append(self.flags, flags), np.append(self.dead, dead)
        self.open = np.append(self.open, open)
        self.moves = np.append(self.moves, np.zeros(self.width, np.int32))
        return len(self.flags) - 1
