"""Finite automata over letters that are small numbers: products, trimming, minimising, equal languages.

Small and our own (decision 0036): a missing transition is a fall out of the automaton, which is what the verdict UNSAT
is read from, and states of a product must remember the constraint's state, which is what the special rule of
minimising is about. Paper: Li 2010, 3.3 (Theorems 3.1 to 3.3).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

State: TypeAlias = int


@dataclass(frozen=True, slots=True)
class Dfa:
    """A deterministic automaton: `moves[state][letter]`, where there is such a move. `start` is None if it is empty."""

    letters: int
    moves: tuple[dict[int, State], ...]
    accepting: frozenset[State]
    start: State | None = 0

    def __len__(self) -> int:
        return len(self.moves)

    def run(self, word: Iterable[int], state: State | None = None) -> State | None:
        """The state behind a word, None where it falls out."""
        at = self.start if state is None else state
        for letter in word:
            if at is None:
                return None
            at = self.moves[at].get(letter)
        return at

    def accepts(self, word: Iterable[int]) -> bool:
        return self.run(word) in self.accepting

    def alive(self) -> set[State]:
        """The states from which an accepting one can be reached."""
        return reaching(self.moves, self.accepting)


def reaching(moves: Sequence[dict[int, State]], goals: Iterable[State]) -> set[State]:
    """The states from which one of some states can be reached, these included."""
    before: list[list[State]] = [[] for _ in moves]
    for state, mine in enumerate(moves):
        for target in set(mine.values()):
            before[target].append(state)
    found, waiting = set(goals), list(goals)
    while waiting:
        for state in before[waiting.pop()]:
            if state not in found:
                found.add(state)
                waiting.append(state)
    return found


def explored(
    start: Hashable, letters: int, step: Callable[[Any, int], Hashable | None], most: int
) -> tuple[list[Hashable], list[dict[int, State]]] | None:
    """All that can be reached from a state by a function, numbered in order of discovery; None: more than `most`."""
    numbers: dict[Hashable, State] = {start: 0}
    names: list[Hashable] = [start]
    moves: list[dict[int, State]] = []
    while len(moves) < len(names):
        here, mine = names[len(moves)], dict[int, State]()
        for letter in range(letters):
            there = step(here, letter)
            if there is None:
                continue
            if there not in numbers:
                if len(names) >= most:
                    return None
                numbers[there] = len(names)
                names.append(there)
            mine[letter] = numbers[there]
        moves.append(mine)
    return names, moves


def trimmed(dfa: Dfa) -> Dfa:
    """Without states from which nothing is accepted: falling out of what is left means that nothing can be."""
    alive = dfa.alive()
    if dfa.start not in alive:
        return Dfa(dfa.letters, (), frozenset(), None)
    return _renumbered(dfa, {state: state for state in alive})


def minimal(dfa: Dfa, key: Callable[[State], Hashable] | None = None) -> tuple[Dfa, list[State]]:
    """States of one key and one language become one; also which state stands for each (by number in the result).

    `key` makes the first partition; by default it is whether a state accepts. The special rule of the paper gives the
    state of the constraint, too. States that the start does not reach are dropped.
    """
    if dfa.start is None:
        return dfa, []
    keys = [(key(state) if key else None, state in dfa.accepting) for state in range(len(dfa))]
    block, first = _blocks(dfa, keys), dict[int, State]()
    for state, mine_block in enumerate(block):
        first.setdefault(mine_block, state)
    chosen = {state: first[block[state]] for state in range(len(dfa))}
    return _renumbered(dfa, chosen), _order(dfa, chosen)


def _blocks(dfa: Dfa, keys: Sequence[Hashable]) -> list[int]:
    """The block of each state: states of one key that no word tells apart (Hopcroft 1971: n log n, also for chains)."""
    names: dict[Hashable, int] = {}  # states that lack different letters are told apart by one letter
    block = [names.setdefault((key, frozenset(mine)), len(names)) for key, mine in zip(keys, dfa.moves, strict=True)]
    members: list[set[State]] = [set() for _ in names]
    before: list[list[tuple[int, State]]] = [[] for _ in dfa.moves]
    for state, mine in enumerate(dfa.moves):
        members[block[state]].add(state)
        for letter, target in mine.items():
            before[target].append((letter, state))
    waiting = set(range(len(members)))
    while waiting:
        arriving: dict[int, list[State]] = {}
        for target in members[waiting.pop()]:
            for letter, state in before[target]:
                arriving.setdefault(letter, []).append(state)
        for sources in arriving.values():
            parts: dict[int, set[State]] = {}
            for state in sources:
                parts.setdefault(block[state], set()).add(state)
            for at, part in parts.items():
                rest = members[at]
                if len(part) == len(rest):
                    continue
                rest -= part
                for state in part:
                    block[state] = len(members)
                waiting.add(len(members) if at in waiting or len(part) <= len(rest) else at)
                members.append(part)
    return block


def _order(dfa: Dfa, chosen: dict[State, State]) -> list[State]:
    """The chosen states in the order in which the start reaches them."""
    assert dfa.start is not None
    order, seen = [chosen[dfa.start]], {chosen[dfa.start]}
    for state in order:  # which grows
        for _, target in sorted(dfa.moves[state].items()):
            if target in chosen and chosen[target] not in seen:
                order.append(chosen[target])
                seen.add(chosen[target])
    return order


def _renumbered(dfa: Dfa, chosen: dict[State, State]) -> Dfa:
    """The automaton with chosen states in place of others, numbered from the start; those not chosen are dropped."""
    order = _order(dfa, chosen)
    number = {state: at for at, state in enumerate(order)}
    moves = tuple(
        {letter: number[chosen[target]] for letter, target in sorted(dfa.moves[state].items()) if target in chosen}
        for state in order
    )
    return Dfa(dfa.letters, moves, frozenset(number[state] for state in order if state in dfa.accepting), 0)


def same_up_to_names(one: Dfa, other: Dfa) -> bool:
    """Whether two automata are one, state by state, but for the names of the states."""
    whole = [_renumbered(each, {s: s for s in range(len(each))}) if each.start is not None else each
             for each in (one, other)]  # fmt: skip
    return whole[0] == whole[1] and len(whole[0]) == len(one) and len(whole[1]) == len(other)


def equivalent(one: Dfa, p: State, other: Dfa, q: State) -> bool:
    """Whether the same words lead from two states to acceptance: equal derivatives (Theorem 3.2)."""
    seen: set[tuple[State | None, State | None]] = {(p, q)}
    waiting: list[tuple[State | None, State | None]] = [(p, q)]
    while waiting:
        a, b = waiting.pop()
        if (a in one.accepting) != (b in other.accepting):
            return False
        for letter in range(one.letters):
            pair = (None if a is None else one.moves[a].get(letter), None if b is None else other.moves[b].get(letter))
            if pair not in seen and pair != (None, None):
                seen.add(pair)
                waiting.append(pair)
    return True


def intersection(constraint: Dfa, query: Dfa) -> tuple[Dfa, list[State]]:
    """The trimmed product, minimised by the special rule, and for each state the constraint's state (Theorem 3.3)."""
    if constraint.start is None or query.start is None:
        return Dfa(constraint.letters, (), frozenset(), None), []

    def step(pair: Any, letter: int) -> Hashable | None:
        c, q = pair
        there = constraint.moves[c].get(letter), query.moves[q].get(letter)
        return None if None in there else there

    found = explored((constraint.start, query.start), constraint.letters, step, 1 << 30)
    assert found is not None
    pairs: list[Any] = found[0]
    moves = found[1]
    accepting = frozenset(at for at, (c, q) in enumerate(pairs) if c in constraint.accepting and q in query.accepting)
    product = Dfa(constraint.letters, tuple(moves), accepting)
    alive = product.alive()
    if 0 not in alive:
        return Dfa(constraint.letters, (), frozenset(), None), []
    live = {state: state for state in alive}
    order = _order(product, live)
    small = _renumbered(product, live)
    of = [pairs[state][0] for state in order]
    least, chosen = minimal(small, lambda state: of[state])
    return least, [of[state] for state in chosen]
