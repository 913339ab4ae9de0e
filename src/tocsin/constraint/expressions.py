"""Expressions of constraints as automata: the positions of Glushkov, whose sets are the states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tocsin.constraint.automaton import Dfa, explored, minimal, trimmed
from tocsin.plan.under import Expression, InTurn, Often, OneEvent, OneOf

Accepts = Callable[[OneEvent, int], bool]  # whether a symbol takes a letter
BEGIN = -1


@dataclass(slots=True)
class Positions:
    """The symbols of an expression, each time that they occur, and which can follow on which."""

    symbols: list[OneEvent] = field(default_factory=list)
    follow: dict[int, set[int]] = field(default_factory=dict)

    def of(self, expression: Expression) -> tuple[bool, set[int], set[int]]:
        """Whether a part can be empty; the positions that it can begin with, and end with."""
        match expression:
            case OneEvent():
                at = len(self.symbols)
                self.symbols.append(expression)
                self.follow[at] = set()
                return False, {at}, {at}
            case OneOf(parts):
                found = [self.of(part) for part in parts]
                return (
                    any(empty for empty, _, _ in found),
                    set().union(*(first for _, first, _ in found)),
                    set().union(*(last for _, _, last in found)),
                )
            case InTurn(parts):
                whole: tuple[bool, set[int], set[int]] = (True, set(), set())
                for part in parts:
                    whole = self._joined(whole, self.of(part))
                return whole
            case Often(part, repeat):
                least, most = repeat.least, repeat.most
                whole = (True, set(), set())
                for number in range(max(1, least, most or 0)):
                    one = self.of(part)
                    if most is None and number == max(1, least) - 1:  # the last one may come again
                        for at in one[2]:
                            self.follow[at] |= one[1]
                    if number >= least:
                        one = (True, one[1], one[2])
                    whole = self._joined(whole, one)
                return whole
        raise TypeError(f"not an expression: {expression!r}")

    def _joined(
        self, one: tuple[bool, set[int], set[int]], other: tuple[bool, set[int], set[int]]
    ) -> tuple[bool, set[int], set[int]]:
        for at in one[2]:
            self.follow[at] |= other[1]
        first = one[1] | other[1] if one[0] else one[1]
        last = one[2] | other[2] if other[0] else other[2]
        return one[0] and other[0], first, last


def automaton_of(
    expression: Expression, letters: int, accepts: Accepts, blind: Callable[[int], bool], most: int
) -> Dfa | None:
    """The least automaton of an expression, trimmed. Letters that it is blind to change nothing. None: too large."""
    positions = Positions()
    empty, first, last = positions.of(expression)
    follow = {**positions.follow, BEGIN: first}
    takes = [[accepts(symbol, letter) for letter in range(letters)] for symbol in positions.symbols]
    passes = [blind(letter) for letter in range(letters)]

    def step(here: frozenset[int], letter: int) -> frozenset[int] | None:
        if passes[letter]:
            return here
        return frozenset(at for one in here for at in follow[one] if takes[at][letter]) or None

    found = explored(frozenset((BEGIN,)), letters, step, most)
    if found is None:
        return None
    names, moves = found
    ends = last | ({BEGIN} if empty else set())
    accepting = frozenset(at for at, name in enumerate(names) if name & ends)  # type: ignore[operator]
    return minimal(trimmed(Dfa(letters, tuple(moves), accepting)))[0]
