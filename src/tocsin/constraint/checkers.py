"""The two checkers of the paper, as it prints them but for its slips: baselines of benchmarks, and second opinions.

*Basic* (Algorithm 1) runs the product and the constraint side by side, and compares derivatives whenever a state
changes. *Lightweight* (Algorithms 2 and 3) runs the product alone and reads a flag that was computed before. The print
tests the flag of the state that is left; here it is that of the state that is entered.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from tocsin.constraint.automaton import Dfa, equivalent, explored, intersection, minimal
from tocsin.constraint.letters import Letters
from tocsin.constraint.reasoning import Maker
from tocsin.plan.block import Plan

SAT, UNSAT, UNDETERMINED, VIOLATED = "SAT", "UNSAT", "undetermined", "violated"


@dataclass(frozen=True, slots=True)
class Automata:
    """The automata of a constraint and a query, their product, and of each of its states the constraint's (Th. 3.3)."""

    letters: Letters
    constraint: Dfa
    query: Dfa
    both: Dfa
    states: list[int]

    @staticmethod
    def of(plan: Plan) -> Automata:
        """The automata of a plan under one constraint."""
        maker = Maker(plan)
        letters, constraint = maker.letters, maker.automata[0]

        def step(paths: Hashable, letter: int) -> Hashable:
            return frozenset(each for path in paths for each, _ in maker.paths(path, letter))  # type: ignore[attr-defined]

        start = frozenset((at, machine.begin()) for at, machine in enumerate(maker.machines))
        found = explored(start, len(letters), step, maker.most)
        assert found is not None
        sets, moves = found
        accepting = frozenset(at for at, paths in enumerate(sets) if any(map(maker.accepts, paths)))  # type: ignore[call-overload]
        query = minimal(Dfa(len(letters), tuple(moves), accepting))[0]
        both, states = intersection(constraint, query)
        return Automata(letters, constraint, query, both, states)


def static(automata: Automata) -> str:
    """The verdict before any event."""
    both, constraint = automata.both, automata.constraint
    if both.start is None:
        return UNSAT
    assert constraint.start is not None
    return SAT if equivalent(both, both.start, constraint, constraint.start) else UNDETERMINED


def basic(automata: Automata, word: Sequence[int]) -> list[str]:
    """The verdict after each letter; once it is given, it stays."""
    both, constraint = automata.both, automata.constraint
    said, verdict = [], static(automata)
    p, q = both.start, constraint.start
    for letter in word:
        if verdict == UNDETERMINED:
            assert p is not None and q is not None
            p_next, q_next = both.moves[p].get(letter), constraint.moves[q].get(letter)
            if q_next is None:
                verdict = VIOLATED
            elif p_next is None:
                verdict = UNSAT
            elif (p_next, q_next) != (p, q) and equivalent(both, p_next, constraint, q_next):
                verdict = SAT
            p, q = p_next, q_next
        said.append(verdict)
    return said


def encoded(automata: Automata) -> list[bool]:
    """For each state of the product whether its derivative is that of the constraint's state (Algorithm 3)."""
    both, constraint = automata.both, automata.constraint
    return [equivalent(both, state, constraint, automata.states[state]) for state in range(len(both))]


def lightweight(automata: Automata, word: Sequence[int]) -> list[str]:
    """The verdicts on the prefixes of a word by one look into a table for each letter."""
    both, flags = automata.both, encoded(automata)
    said, verdict = [], static(automata)
    p = both.start
    for letter in word:
        if verdict == UNDETERMINED:
            assert p is not None
            after = both.moves[p].get(letter)
            if after is None:
                known = automata.constraint.moves[automata.states[p]]
                verdict = UNSAT if letter in known else VIOLATED
            elif after != p and flags[after]:
                verdict = SAT
            p = after
        said.append(verdict)
    return said
