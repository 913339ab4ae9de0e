"""Verdicts of constraints: every one by enumeration of completions, and the automata of the paper state by state."""

from __future__ import annotations

from functools import cache
from random import Random

import pytest

from tests.effort import examples
from tocsin.constraint.automaton import Dfa, equivalent, intersection, minimal, same_up_to_names
from tocsin.constraint.checkers import Automata, basic, encoded, lightweight
from tocsin.constraint.reasoning import Flag, Reasoning, reason_about, verdict_of
from tocsin.events import Event
from tocsin.lang.constraint_syntax import symbols_of
from tocsin.lang.parser import parse
from tocsin.lang.syntax import Query
from tocsin.plan.bind import bind
from tocsin.plan.passes import optimize
from tocsin.schema import Field, Kind, Schema
from tocsin.testing.oracle_traces import kinds_of, never_undone, verdict

SCHEMA = Schema(
    open_types=True, open_fields=True, intervals=False,
    common={"id": Field("id", Kind.TEXT), "v": Field("v", Kind.INT)},
)  # fmt: skip
C1 = "CONSTRAINT c AS A+ K* B+ K C+; "
Q2 = "EVENT SEQ(A a, K k, K l, C c) UNDER c"


@cache
def reasoning(text: str) -> Reasoning:
    return reason_about(optimize(bind(parse(text), SCHEMA)))


def letter_of(known: Reasoning, event: Event) -> int:
    """The letter of an event, found by asking each condition of its letter in turn."""
    found = [at for at, letter in enumerate(known.letters.all) if letter.type == event.type]
    if len(found) == 1:
        return found[0]
    from tocsin.engine.evaluate import Row, evaluate

    class Own(Row):
        def column(self, col):
            return event.attrs.get(col.attr)

    tests = known.letters.conditions[event.type]
    bits = sum(1 << at for at, test in enumerate(tests) if evaluate(test, Own(), {}) is True)
    return next(at for at in found if known.letters.all[at].bits == bits)


def walked(text: str, word: str) -> list[str]:
    """The verdict before any event, and after each; `A=3` is an A whose id is 3."""
    known, state = reasoning(text), 0
    said = [known.static]
    for at, each in enumerate(word.split()):
        type, _, value = each.partition("=")
        state = int(known.moves[state, letter_of(known, Event(type, at, at, str(at), {"id": value} if value else {}))])
        said.append(verdict_of(int(known.flags[state])))
    return said


U, S, N, V = "undetermined", "SAT", "UNSAT", "violated"


@pytest.mark.parametrize(
    ("text", "word", "said"),
    [
        (C1 + Q2, "A K B B K C", [U, U, S, S, S, S, S]),  # spec 000 G3.3
        (C1 + Q2, "A B B K C", [U, U, N, N, N, N]),
        (C1 + Q2, "A A", [U, U, U]),
        (C1 + "EVENT SEQ(A a, K k, C c) UNDER c", "", [S]),  # G3.4
        (C1.replace("AS", "ON *  AS") + "EVENT SEQ(A a, K k, D d) UNDER c", "", [N]),
        (C1 + "EVENT SEQ(A a, K k, D d) UNDER c", "", [U]),  # a D may come anywhere: the constraint does not see it
        ("CONSTRAINT c AS P A B | Q A? B | R A; EVENT SEQ(OR(P, Q), A, B) UNDER c", "P", [U, S]),  # G3.6, corrected
        ("CONSTRAINT c AS P A B | Q A? B | R A; EVENT SEQ(OR(P, Q), A, B) UNDER c", "Q A", [U, U, S]),
        ("CONSTRAINT c AS P A B | Q A? B | R A; EVENT SEQ(OR(P, Q), A, B) UNDER c", "R", [U, N]),
        ("CONSTRAINT c AS P A B | Q* B | R* A; EVENT SEQ(OR(P, Q), A, B) UNDER c", "P", [U, S]),  # as printed
        ("CONSTRAINT c AS P A B | Q* B | R* A; EVENT SEQ(OR(P, Q), A, B) UNDER c", "Q A", [U, N, V]),
        ("CONSTRAINT c AS P A B | Q* B | R* A; EVENT SEQ(OR(P, Q), A, B) UNDER c", "R", [U, N]),
        ("CONSTRAINT c AS P A B | Q* B | R* A; EVENT SEQ(OR(P, Q), A, B) UNDER c", "A", [U, N]),
        ("CONSTRAINT c AS P A B | Q* B | R* A; EVENT SEQ(OR(P, Q), A, B) UNDER c", "B", [U, N]),
        ("CONSTRAINT c AS A+ B+ A+ C+; EVENT SEQ(A a, B b, C c) WHERE a.id = '3' UNDER c", "A=2 B", [U, U, N]),  # G3.8
        ("CONSTRAINT c AS A+ B+ A+ C+; EVENT SEQ(A a, B b, C c) WHERE a.id = '3' UNDER c", "A=3 B", [U, S, S]),
        ("CONSTRAINT c AS A+ B+ A+ C+; EVENT SEQ(A a, B b, C c) WHERE a.id = '3' UNDER c", "A=2 A=3", [U, U, S]),
        ("CONSTRAINT c AS A+ B+ A+ C+; EVENT SEQ(A a, B b, C c) WHERE a.id = '3' UNDER c", "A=2 B A=3", [U, U, N, N]),
        ("CONSTRAINT c AS SW (RW (LC SH | LG) | LG) ST; EVENT SEQ(SW, LC, SH) UNDER c", "SW RW LC", [U, U, U, S]),
        ("CONSTRAINT c AS SW (RW (LC SH | LG) | LG) ST; EVENT SEQ(SW, LC, SH) UNDER c", "SW LG", [U, U, N]),  # G3.10
        ("CONSTRAINT c AS SW (RW (LC SH | LG) | LG) ST; EVENT SEQ(SW, LC, SH) UNDER c", "SW RW LG", [U, U, U, N]),
        ("CONSTRAINT c AS A B; EVENT SEQ(A a, B b) WITHIN 5 UNDER c", "A", [U, U]),  # X7: windows have no SAT
    ],
)
def test_verdicts_of_the_paper(text: str, word: str, said: list[str]) -> None:
    assert walked(text, word) == said


def automata(text: str) -> Automata:
    return Automata.of(optimize(bind(parse(text), SCHEMA)))


def written(letters: str, edges: str, accepting: str) -> Dfa:
    """An automaton as papers draw it: `0A1` is an edge; letters are numbered in alphabetical order."""
    moves: dict[int, dict[int, int]] = {}
    for edge in edges.split():
        moves.setdefault(int(edge[0]), {})[letters.index(edge[1])] = int(edge[2])
        moves.setdefault(int(edge[2]), {})
    return Dfa(len(letters), tuple(moves[at] for at in sorted(moves)), frozenset(map(int, accepting.split())))


def test_the_automata_of_example_3_5() -> None:
    """G3.5: the constraint has 6 live states, the product has the same without the edge from 1 to 3."""
    known = automata(C1 + Q2)
    names = "".join(letter.type for letter in known.letters.all)
    edges = "0A1 1A1 1K2 1B3 2K2 2B3 3B3 3K4 4C5 5C5"
    assert same_up_to_names(known.constraint, written(names, edges, "5"))
    assert same_up_to_names(known.both, written(names, edges.replace("1B3 ", ""), "5"))
    after = {word: known.both.run([names.index(each) for each in word]) for word in ("A", "AK", "AB")}
    assert after["AB"] is None
    assert not equivalent(known.both, after["A"], known.constraint, known.states[after["A"]])
    assert equivalent(known.both, after["AK"], known.constraint, known.states[after["AK"]])
    assert sum(encoded(known)) == 4  # G3.7: 2, 3, 4 and 5 are flagged


@pytest.mark.parametrize(
    ("text", "constraint", "product", "accepting", "flagged"),
    [
        (  # G3.6, corrected: behind P and behind Q the same words are left, but not of the constraint
            "CONSTRAINT c AS P A B | Q A? B | R A; EVENT SEQ(OR(P, Q), A, B) UNDER c",
            "0P1 0Q2 0R5 1A3 2A3 2B4 3B4 5A4", "0P1 0Q2 1A3 2A3 3B4", "4", ["P", "PA", "PAB"],
        ),
        (  # G3.8: a is an A that the condition does not take
            "CONSTRAINT c AS A+ B+ A+ C+; EVENT SEQ(A a, B b, C c) WHERE a.id = '3' UNDER c",
            "0a1 0A1 1a1 1A1 1B2 2B2 2a3 2A3 3a3 3A3 3C4 4C4",
            "0a1 0A2 1a1 1A2 2a2 2A2 2B3 3B3 3a4 3A4 4a4 4A4 4C5 5C5", "4 5", ["A", "AB", "ABA", "ABAC"],
        ),
    ],
)  # fmt: skip
def test_the_automata_of_examples_3_6_and_3_8(
    text: str, constraint: str, product: str, accepting: str, flagged: list[str]
) -> None:
    known = automata(text)
    shown = [letter.type.lower() if letter.shown.endswith(":0") else letter.type for letter in known.letters.all]
    names = "".join(shown)
    ends = accepting.split()
    assert same_up_to_names(known.constraint, written(names, constraint, ends[0]))
    assert same_up_to_names(known.both, written(names, product, ends[-1]))
    states = {known.both.run([names.index(each) for each in word]) for word in flagged}
    assert {at for at, is_flagged in enumerate(encoded(known)) if is_flagged} == states


@pytest.mark.parametrize(
    ("text", "special", "ordinary"),
    [
        ("CONSTRAINT c AS P A B | Q A? B | R A; EVENT SEQ(OR(P, Q), A, B) UNDER c", 5, 4),  # example 3.6
        ("CONSTRAINT c AS A+ B+ A+ C+; EVENT SEQ(A a, B b, C c) WHERE a.id = '3' UNDER c", 6, 5),  # example 3.8
        (C1 + Q2, 6, 6),
    ],
)
def test_the_special_rule_keeps_states_apart(text: str, special: int, ordinary: int) -> None:
    from tocsin.constraint.automaton import minimal

    known = automata(text)
    assert (len(known.both), len(minimal(known.both)[0])) == (special, ordinary)
    assert len(intersection(known.constraint, known.query)[0]) == special


def test_an_intersection_may_be_one_state() -> None:
    every_word = Dfa(1, ({0: 0},), frozenset((0,)))
    assert intersection(every_word, every_word) == (every_word, [0])


# --- random ones, by enumeration -------------------------------------------------------------------------------------

EXPRESSIONS = ("A", "B", "C", "A[v = 1]", "A[v <> 1]", "N")
PATTERNS = (
    "A a", "SEQ(A a, B b)", "SEQ(A a, !N n, B b)", "SEQ(!N n, A a)", "SEQ(A a, B b, !N n)", "AND(A a, B b)",
    "AND(A a, !N n)", "SEQ(A a, OR(B b, C c))", "SEQ(A a, B+ b, C c)", "SEQ(A a, B{2} b)",
    "SEQ(A a, !SEQ(B x, N n), C c)",
    "SEQ(A a, AND(B b, C c))", "SEQ(A a, A b)", "SEQ(A a, MAYBE B b, C c)", "OR(SEQ(A a, B b), SEQ(C c, N n))",
    "SEQ(A a, NEXT B b)", "SEQ(A a, FIRST B b)", "SEQ(A a, !AND(B x, N n), C c)", "SEQ(A a, !SEQ(B x, !N n), C c)",
    "SEQ(A a, B{1,2} b, C c)", "SEQ(B+ b, C c)",
)  # fmt: skip
LENGTH, FAR = 3, 1000  # of completions
WHERE = ("", "", " WHERE a.v = 1", " WHERE a.v <> 1", " WHERE a.v IS NULL")


def drawn_regex(random: Random, depth: int = 3) -> str:
    kind = random.choice(("symbol", "symbol", "chain", "choice", "repeat")) if depth else "symbol"
    if kind == "symbol":
        return random.choice(EXPRESSIONS)
    if kind == "repeat":
        return f"({drawn_regex(random, depth - 1)}){random.choice(['*', '+', '?', '{2}', '{1,2}'])}"
    parts = [drawn_regex(random, depth - 1) for _ in range(random.randint(2, 3))]
    return "(" + (" " if kind == "chain" else " | ").join(parts) + ")"


def drawn(random: Random) -> Query:
    pattern = random.choice(PATTERNS)
    where = random.choice(WHERE) if "A a" in pattern and "OR(SEQ" not in pattern else ""
    within = random.choice(("", "", "", " WITHIN 3"))
    return parse(f"CONSTRAINT c ON A, B, C, N AS {drawn_regex(random)}; EVENT {pattern}{where}{within} UNDER c")


def shortest(known: Reasoning, asked: int, want: int) -> list[int]:
    """From each state how many letters lead to a state with some flags; FAR where none does."""
    found = [0 if known.flags[state] & asked == want else FAR for state in range(len(known))]
    for _ in range(len(known)):
        for state in range(len(known)):
            found[state] = min([found[state], *(1 + found[target] for target in known.moves[state].tolist())])
    return found


def check(query: Query, word: list[Event]) -> int:
    """Compare each prefix of a word with the definition; how many verdicts were decided."""
    known = reasoning(str(query))
    kinds = kinds_of(query)
    state, decided, last = 0, 0, U
    for at in range(len(word) + 1):
        if at:
            state = int(known.moves[state, letter_of(known, word[at - 1])])
        flags = Flag(int(known.flags[state]))
        mine = verdict_of(int(flags))
        said = verdict(query, word[:at], kinds, LENGTH)
        context = f"{query}\n{' '.join(map(str, word[:at]))}: {mine} {flags!r}, by definition {said}"
        if said.says == "violated" and mine != "violated":
            continue  # its completions are longer
        if mine in (S, N):
            assert said.says == mine, context
        elif mine == U and known.exact:
            both = Flag.COMPLETE | Flag.MATCHED
            far = [shortest(known, both, want)[state] for want in (both, Flag.COMPLETE)]
            assert max(far) < FAR, context
            assert said.says == U or max(far) > LENGTH, context
        else:
            assert mine != V or said.says == V, context
        assert not flags & Flag.CLOSABLE or said.closed, context
        assert not (flags & Flag.HELD) or said.held, context
        assert not (flags & Flag.QUIET) or never_undone(query, word[:at], kinds, LENGTH), context
        if last in (S, N) and mine != V:
            assert mine == last, context  # stable
        last, decided = mine, decided + (mine in (S, N))
    return decided


def drawn_word(random: Random, query: Query, length: int) -> list[Event]:
    kinds, known, state, word = kinds_of(query), reasoning(str(query)), 0, []
    for at in range(length):
        random.shuffle(kinds)
        for type, attrs in kinds:
            event = Event(type, at + 1, at + 1, f"{type}{at}", dict(attrs))
            there = int(known.moves[state, letter_of(known, event)])
            if not known.flags[there] & Flag.VIOLATED or random.random() < 0.05:
                word.append(event)
                state = there
                break
    return word


def test_random_verdicts_are_those_of_the_definition() -> None:
    decided = 0
    for seed in range(examples(1500)):
        random = Random(seed)
        query = drawn(random)
        assert list(symbols_of(query.under.constraints[0].regex))
        decided += check(query, drawn_word(random, query, random.randint(1, 4)))
    assert decided > 10


# --- both checkers of the paper --------------------------------------------------------------------------------------


@pytest.mark.parametrize("checker", [basic, lightweight])
def test_the_checkers_of_the_paper_say_the_same(checker) -> None:
    for seed in range(examples(2000)):
        random = Random(seed)
        query = drawn(random)
        known = reasoning(str(query))
        if not known.exact:
            continue
        made = Automata.of(optimize(bind(query, SCHEMA)))
        word = drawn_word(random, query, 6)
        state, letters, expected = 0, [], []
        for event in word:
            letters.append(letter_of(known, event))
            state = int(known.moves[state, letters[-1]])
            expected.append(verdict_of(int(known.flags[state])))
        said = checker(made, letters)
        for at, mine in enumerate(expected):  # a checker is silent behind its first verdict
            assert said[at] == mine or said[at] in [known.static, *expected[:at]], (str(query), word, said, expected)


def test_states_become_one_if_no_word_tells_them_apart() -> None:
    """Beside Moore's rounds, in which states of one block split by where each letter leads."""
    for seed in range(examples(2000)):
        random = Random(f"minimal {seed}")
        count, letters = random.randint(1, 9), random.randint(1, 3)
        moves = tuple(
            {letter: random.randrange(count) for letter in range(letters) if random.random() < 0.8}
            for _ in range(count)
        )
        accepting = frozenset(state for state in range(count) if random.random() < 0.4)
        keys = [random.randrange(2) if seed % 2 else 0 for _ in range(count)]
        block: list[object] = [(keys[state], state in accepting) for state in range(count)]
        for _ in range(count):
            told = [
                (block[state], tuple(sorted((a, block[t]) for a, t in mine.items())))
                for state, mine in enumerate(moves)
            ]
            numbers = {each: at for at, each in enumerate(dict.fromkeys(told))}
            block = [numbers[each] for each in told]
        reached, waiting = {0}, [0]
        while waiting:
            for target in moves[waiting.pop()].values():
                if target not in reached:
                    reached.add(target)
                    waiting.append(target)
        least, chosen = minimal(Dfa(letters, moves, accepting), keys.__getitem__)
        assert len(least) == len({block[state] for state in reached}), seed
        assert len({block[state] for state in chosen}) == len(chosen) == len(least)
        for _ in range(5):
            word = [random.randrange(letters) for _ in range(random.randint(0, 6))]
            assert least.accepts(word) == Dfa(letters, moves, accepting).accepts(word)
