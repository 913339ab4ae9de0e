"""What constraints say about a query: the product of their automata with its language, and a verdict for each state.

    SAT        every word of the constraints that begins so holds a match
    UNSAT      none does; *exhausted*: in none does a match use an event that is still to come

The verdicts are read off the states by what can be reached from them, which is the encoding of Li 2010, 3.4 computed
in one sweep over the product instead of by comparing derivatives (`constraint/checkers` has that, too).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntFlag
from functools import cache
from typing import Any, TypeAlias

import numpy as np

from tocsin.constraint.automaton import Dfa, explored, minimal, reaching, trimmed
from tocsin.constraint.expressions import automaton_of
from tocsin.constraint.letters import Letters, TooManyError, as_own, letters_of
from tocsin.constraint.pattern_language import (
    Abstracted,
    LetterSetting,
    PatternMachine,
    Thread,
    awaited_letters,
    conditions_of,
    machines_of,
)
from tocsin.errors import Problem, QueryError
from tocsin.events import ANY
from tocsin.items import Codes, Ints
from tocsin.lang.constraint_syntax import is_start, start_of
from tocsin.plan.block import Plan
from tocsin.plan.facts import pattern_types
from tocsin.plan.rewrite import all_leaves
from tocsin.plan.under import BoundConstraint, UnderForm, events_of

MOST_STATES = 10_000  # of a product
MOST_MOVES = 500_000  # of a product: a move for each letter in each state; more take minutes to reason about
DEAD = -1
Path: TypeAlias = tuple[int, Thread]  # an alternative of the query, and a thread in it
Node: TypeAlias = tuple[tuple[int, ...], "frozenset[Path] | None"]
Step: TypeAlias = tuple[tuple[int, ...], Path]


class Flag(IntFlag):
    """What is known of a trace in a state."""

    SAT = 1
    UNSAT = 2
    EXHAUSTED = 4  # no match will use a later event
    CLOSABLE = 8  # nor will a later event undo one: the trace need not be looked at any more
    HELD = 16  # there is a match that no completion undoes
    DONE = 32  # there is a match that nothing undoes
    VIOLATED = 64
    COMPLETE = 128  # the trace may end here
    MATCHED = 256  # if it ends here, there is a match
    QUIET = 512  # no event will come that an answer waits for


@dataclass(frozen=True)
class Reasoning:
    """The encoding of a query under constraints: what a trace needs is the number of its state.

    moves    by state and letter the next state
    flags    by state
    dead     by state the constraints that are violated, as bits; `open`: those in whose words the trace may not end
    exact    nothing was left out of the language of the query, so that SAT can be said
    serial   the types of which no two events are open at once; of others any start may go with any end
    """

    under: UnderForm
    letters: Letters
    moves: Codes
    flags: Ints
    dead: Ints
    open: Ints
    exact: bool
    left_out: tuple[str, ...]
    silent: str | None = None  # why there are no verdicts at all
    names: tuple[tuple[int, ...], ...] = field(default=(), repr=False)  # of states: those of the constraints
    automata: tuple[Dfa, ...] = field(default=(), repr=False)
    awaited: frozenset[int] = frozenset()  # letters of events that answers wait for
    serial: frozenset[str] = frozenset()

    def __len__(self) -> int:
        return len(self.flags)

    @property
    def static(self) -> str:
        """The verdict before any event."""
        return verdict_of(int(self.flags[0]))


def verdict_of(flags: int) -> str:
    """The verdict in words."""
    if flags & Flag.VIOLATED:
        return "violated"
    return "SAT" if flags & Flag.SAT else "UNSAT" if flags & Flag.UNSAT else "undetermined"


class Maker:
    """Makes the encoding of one plan."""

    def __init__(self, plan: Plan, most: int = MOST_STATES) -> None:
        assert plan.under is not None
        self.plan, self.under = plan, plan.under
        self.left_out = Abstracted()
        self.silent = why_silent(plan)
        self.letters = self._letters()
        self.most = min(most, MOST_MOVES // max(len(self.letters), 1))
        self.automata = [self._automaton(constraint) for constraint in self.under.constraints]
        self.awaited: frozenset[int] = frozenset()  # letters of events that answers wait for
        self.serial = frozenset(type for type in self.under.starts if self._is_serial(type))
        self.automata += [paired(self.letters, type) for type in sorted(self.serial)]
        self.machines = [] if self.silent else self._machines()

    # --- letters and automata ---

    def _letters(self) -> Letters:
        asked: dict[str, list[Any]] = {} if self.silent else conditions_of(self.plan)
        types = dict.fromkeys([*pattern_types(self.plan), *self.under.mentioned] if not self.silent
                              else self.under.mentioned)  # fmt: skip
        others = self.under.types is None or (not self.silent and ANY in types)
        found: dict[str, list[Any]] = {type: list(asked.get(type, ())) for type in types if type != ANY}
        for constraint in self.under.constraints:
            for symbol in events_of(constraint.expression):
                found[symbol.type] += [as_own(test, symbol.type) for test in symbol.where]
        found |= {start_of(type): found[type] for type in self.under.starts}
        try:
            return letters_of(found, others=others)
        except TooManyError:
            if self.silent:
                raise QueryError([Problem("the conditions of these constraints tell too many kinds of events apart",
                                          None, None, "ask fewer attributes")]) from None  # fmt: skip
            self.silent = "its conditions tell too many kinds of events apart"
            return self._letters()

    def _automaton(self, constraint: BoundConstraint) -> Dfa:
        letters = self.letters
        everything = constraint.written.alphabet is None

        def blind(letter: int) -> bool:
            type = letters.all[letter].type
            return not constraint.sees(type) and (not everything or is_start(type))

        def takes(symbol: Any, letter: int) -> bool:
            return letters.takes(letter, symbol.letter, [as_own(test, symbol.type) for test in symbol.where])

        written = constraint.written
        for symbol in events_of(constraint.expression):
            if not any(takes(symbol, letter) for letter in range(len(letters))):
                self._refuse(written, f"a condition on {symbol.type} can never hold",
                             "its comparisons contradict each other", "correct the condition")  # fmt: skip
        found = automaton_of(constraint.expression, len(letters), takes, blind, self.most)
        if found is None:
            self._refuse(written, f"the constraint {written.name} has more than {self.most:,} states", None,
                         "fewer alternatives that begin alike, smaller numbers in {n,m}")  # fmt: skip
        assert found is not None
        if found.start is None:
            self._refuse(written, f"no trace can fulfil the constraint {written.name}", None, "check its ENDS and ON")
        return self._with_ends(constraint, found)

    def _is_serial(self, type: str) -> bool:
        """Whether no two events of a type are open at once in any trace that keeps to the constraints."""
        kinds = [letter.type for letter in self.letters.all]
        return any(
            never_overlaps(dfa, [(kind == start_of(type)) - (kind == type) for kind in kinds])
            for constraint, dfa in zip(self.under.constraints, self.automata, strict=True)
            if type in constraint.written.starts and constraint.sees(type)
        )

    def _with_ends(self, constraint: BoundConstraint, dfa: Dfa) -> Dfa:
        """Drop the words that go on after an event of an ENDS type: it is the last of its trace."""
        ends = set(constraint.written.ends)
        if not ends:
            return dfa
        last = [letter for letter in range(len(self.letters)) if self.letters.all[letter].type in ends]
        sink = len(dfa)
        moves = [dict(mine) for mine in dfa.moves] + [{}]
        for mine in moves:
            for letter in last:
                if letter in mine:
                    if mine[letter] in dfa.accepting:
                        mine[letter] = sink
                    else:
                        del mine[letter]
        found = minimal(trimmed(Dfa(dfa.letters, tuple(moves), dfa.accepting | {sink}, dfa.start)))[0]
        if found.start is None:
            self._refuse(constraint.written, f"no trace can fulfil the constraint {constraint.name}",
                         "none of its words ends with an event of an ENDS type, or before one", None)  # fmt: skip
        return found

    def _refuse(self, written: Any, message: str, detail: str | None, hint: str | None) -> None:
        raise QueryError([Problem(message, written.span, detail, hint)], written.text)

    def _machines(self) -> list[PatternMachine]:
        plan, under = self.plan, self.under
        seen = {type: all(each.sees(type) for each in under.constraints) for type in pattern_types(plan)}
        setting = LetterSetting(
            self.letters, frozenset(under.key), seen, plan.schema.intervals, plan.within is not None, under.ties,
            self.left_out, frozenset(under.starts), self.serial,
        )  # fmt: skip
        machines = machines_of(plan, setting)
        if not under.starts:
            self.awaited = awaited_letters(plan, setting)
        if under.ties:
            self.left_out.note("TIES ANY: events of one time may stand in any order")
        return machines

    @property
    def exact(self) -> bool:
        return not self.left_out.reasons

    # --- the product ---

    @cache  # noqa: B019 - lives as long as the maker
    def paths(self, path: Path, letter: int) -> tuple[tuple[Path, bool], ...]:
        """The paths that a letter leads to, and whether the match takes the event; first the one that leaves it out."""
        at, thread = path
        return tuple(((at, there), used) for there, used in self.machines[at].step(thread, letter))

    def past(self, path: Path, letter: int) -> tuple[Path, bool] | None:
        """The path where no leaf takes the letter; None if the letter breaks it."""
        found = self.paths(path, letter)
        straight = bool(found) and found[0][0][1].bound == path[1].bound and found[0][0][1].begun == path[1].begun
        return found[0] if straight else None

    def accepts(self, path: Path) -> bool:
        return self.machines[path[0]].accepts(path[1])

    def _stepped(self, cs: tuple[int, ...], letter: int) -> tuple[int, ...]:
        return tuple(
            DEAD if at == DEAD else dfa.moves[at].get(letter, DEAD) for at, dfa in zip(cs, self.automata, strict=True)
        )

    def _step(self, node: Any, letter: int) -> Node:
        cs, paths = node
        there = self._stepped(cs, letter)
        if paths is None or DEAD in there:
            return there, None
        return there, frozenset(each for path in paths for each, _ in self.paths(path, letter))

    def _complete(self, cs: tuple[int, ...]) -> bool:
        return all(at in dfa.accepting for at, dfa in zip(cs, self.automata, strict=True))

    def made(self) -> Reasoning:
        """The encoding; where it would be too large, that of the constraints alone."""
        first: frozenset[Path] | None = None
        if self.machines or not self.silent:
            first = frozenset((at, machine.begin()) for at, machine in enumerate(self.machines))
        start = tuple(dfa.start for dfa in self.automata)
        found = explored((start, first), len(self.letters), self._step, self.most)
        if found is None and first is not None:
            self.silent = f"together with its constraints it has more than {self.most:,} states"
            found = explored((start, None), len(self.letters), self._step, self.most)
        if found is None:
            names = " and ".join(each.name for each in self.under.constraints)
            self._refuse(self.under.constraints[0].written, f"{names} together have more than {self.most:,} states",
                         None, "put the query under one of them")  # fmt: skip
        assert found is not None
        return self._encoded(*found)

    def _encoded(self, nodes: list[Any], moves: list[dict[int, int]]) -> Reasoning:
        complete = [at for at, (cs, _) in enumerate(nodes) if DEAD not in cs and self._complete(cs)]
        live = reaching(moves, complete)
        if 0 not in live:
            names = " and ".join(each.name for each in self.under.constraints)
            self._refuse(self.under.constraints[0].written, f"no trace can fulfil {names} together", None,
                         "put the query under one of them")  # fmt: skip
        matched = {at for at in complete if nodes[at][1] is not None and any(map(self.accepts, nodes[at][1]))}
        good, bad = reaching(moves, matched), reaching(moves, set(complete) - matched)
        facts = _Paths(self, nodes, moves)
        flags = []
        for at, (cs, paths) in enumerate(nodes):
            mine = Flag(0)
            if DEAD in cs:
                mine |= Flag.VIOLATED
            elif at in complete:
                mine |= Flag.COMPLETE
            if paths is not None and at in live:
                if at not in good:
                    mine |= Flag.UNSAT
                elif at not in bad and self.exact:
                    mine |= Flag.SAT
                mine |= facts.flags(at, cs, paths)
            elif paths is not None:  # no trace goes on like this, but one may end so
                mine |= Flag.MATCHED if any(map(self.accepts, paths)) else Flag(0)
                if self.exact and any(self.machines[path[0]].is_done(path[1]) for path in paths):
                    mine |= Flag.DONE
            flags.append(int(mine))
        every = frozenset(range(len(nodes)))
        least, chosen = minimal(Dfa(len(self.letters), tuple(moves), every), lambda at: (nodes[at][0], flags[at]))
        table = np.array([[mine[letter] for letter in range(len(self.letters))] for mine in least.moves], np.int32)
        states = [nodes[at][0] for at in chosen]
        dead = [sum(1 << k for k, s in enumerate(cs) if s == DEAD) for cs in states]
        ends = [
            sum(1 << k for k, s in enumerate(cs) if s != DEAD and s not in self.automata[k].accepting) for cs in states
        ]
        return Reasoning(
            self.under, self.letters, table.reshape(len(chosen), len(self.letters)),
            np.array([flags[at] for at in chosen], np.int64), np.array(dead, np.int64), np.array(ends, np.int64),
            self.exact and not self.silent, tuple(self.left_out.reasons), self.silent, tuple(states),
            tuple(self.automata), self.awaited, self.serial,
        )  # fmt: skip


def never_overlaps(dfa: Dfa, steps: list[int]) -> bool:
    """Whether no word opens what is open; `steps`: by letter 1 where it opens it, -1 where it closes it."""
    seen, waiting = {(0, 0)}, [(0, 0)]
    while waiting:
        state, open = waiting.pop()
        for letter, there in dfa.moves[state].items():
            if open and steps[letter] > 0:
                return False
            if open or steps[letter] >= 0:  # nothing ends that has not begun
                pair = there, open + steps[letter]
                if pair not in seen:
                    seen.add(pair)
                    waiting.append(pair)
    return True


def paired(letters: Letters, type: str) -> Dfa:
    """The words in which every event of a type that begins ends, as what it is, before the next one of it begins."""
    kinds = sorted({letter.bits for letter in letters.all if letter.type == type})
    moves: list[dict[int, int]] = [{} for _ in range(len(kinds) + 1)]  # 0: none is open, else which kind of event is
    for at, letter in enumerate(letters.all):
        if letter.type == start_of(type):
            moves[0][at] = 1 + kinds.index(letter.bits)
        elif letter.type == type:
            moves[1 + kinds.index(letter.bits)][at] = 0
        else:
            for state, mine in enumerate(moves):
                mine[at] = state
    return Dfa(len(letters), tuple(moves), frozenset((0,)))


class _Paths:
    """What partial matches can still become, each beside the states of the constraints in which it occurs."""

    def __init__(self, maker: Maker, nodes: list[Any], moves: list[dict[int, int]]) -> None:
        self.maker = maker
        live = reaching(moves, [at for at, (cs, _) in enumerate(nodes) if DEAD not in cs and maker._complete(cs)])
        alive = {nodes[at][0] for at in live}
        self.reach = reachable_letters(moves, live) if maker.left_out.refuting or maker.awaited else {}
        numbers: dict[Step, int] = {}
        for at in sorted(live):
            cs, paths = nodes[at]
            for path in paths or ():
                numbers.setdefault((cs, path), len(numbers))
        steps: list[dict[int, int]] = [{} for _ in numbers]
        used: list[set[int]] = [set() for _ in numbers]  # where a later event was used
        past: list[dict[int, int]] = [{} for _ in numbers]
        unsteady: set[int] = set()
        for (cs, path), number in numbers.items():
            key = 0
            for letter in range(len(maker.letters)):
                there = maker._stepped(cs, letter)
                if there not in alive:
                    continue
                for target, is_used in maker.paths(path, letter):
                    other = numbers.get((there, target))
                    if other is not None:
                        steps[number][key] = other
                        key += 1
                        if is_used:
                            used[number].add(other)
                straight = maker.past(path, letter)
                if straight is None or straight[1] or (there, straight[0]) not in numbers:
                    unsteady.add(number)
                else:
                    past[number][letter] = numbers[there, straight[0]]
            if maker._complete(cs) and not maker.accepts(path):
                unsteady.add(number)
        won = [n for (cs, path), n in numbers.items() if maker._complete(cs) and maker.accepts(path)]
        self.numbers = numbers
        self.winning = reaching(steps, won)
        self.usable = reaching(steps, [n for n in range(len(numbers)) if used[n] & self.winning])
        self.unsteady = reaching(past, unsteady)

    def flags(self, at: int, cs: tuple[int, ...], paths: frozenset[Path]) -> Flag:
        maker = self.maker
        mine = [(self.numbers[cs, path], path) for path in paths]
        found = Flag(0)
        if not any(number in self.usable for number, _ in mine):
            found |= Flag.EXHAUSTED
        accepted = [number for number, path in mine if maker.accepts(path)]
        steady = [number for number in accepted if number not in self.unsteady]
        waiting = [number for number, path in mine if number in self.winning and number not in accepted]
        sure = len(steady) == len(accepted)
        if accepted and maker.left_out.negations:  # then no event may come that could refute
            sure = sure and not any(self.reach[at] >> letter & 1 for letter in maker.left_out.refuting)
        if found & Flag.EXHAUSTED and sure and not waiting and not maker.plan.has_timeouts:
            found |= Flag.CLOSABLE
        if accepted:
            found |= Flag.MATCHED
        if maker.awaited and not any(self.reach[at] >> letter & 1 for letter in maker.awaited):
            found |= Flag.QUIET
        if maker.exact:
            if steady:
                found |= Flag.HELD
            if any(maker.machines[path[0]].is_done(path[1]) for _, path in mine):
                found |= Flag.DONE
        return found


def reachable_letters(moves: list[dict[int, int]], live: set[int]) -> dict[int, int]:
    """From each live state the letters, as bits, that stand on some way to an end."""
    found = dict.fromkeys(live, 0)
    before: dict[int, list[int]] = {at: [] for at in live}
    for at in live:
        for letter, there in moves[at].items():
            if there in live:
                found[at] |= 1 << letter
                before[there].append(at)
    waiting = list(live)
    while waiting:
        there = waiting.pop()
        for at in before[there]:
            if found[there] & ~found[at]:
                found[at] |= found[there]
                waiting.append(at)
    return found


def bounded(plan: Plan) -> bool:
    """Whether starts that constraints name are settled before the stream ends, so that anything can be closed then."""
    return plan.under is not None and all(type in plan.schema.longest for type in plan.under.starts)


def why_silent(plan: Plan) -> str | None:
    """Why nothing can be said about a query: its key does not contain that of its constraints."""
    under = plan.under
    assert under is not None
    key = dict(plan.key)
    leaves = list(all_leaves(plan))
    for attr in under.key:
        places = [{at for at, name in enumerate(key.get(leaf.id, ())) if name == attr} for leaf in leaves]
        if not leaves or not set.intersection(*places):
            return f"its key does not have {attr}, so that a match may have events of several traces"
    return None


def reason_about(plan: Plan, most: int = MOST_STATES) -> Reasoning:
    """The encoding of a plan under constraints; a QueryError if they contradict themselves."""
    return Maker(plan, most).made()
