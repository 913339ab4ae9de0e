"""Held answers come at the first moment when nothing that is still allowed to come could change them.

Judged by enumeration: on a small domain every set of unseen events that the guarantees allow is added to what was seen,
and an answer is certain if the oracle finds it in all of these histories.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from random import Random

import pytest

from tests.effort import examples, some
from tocsin.engine.changes import Changes
from tocsin.events import Event
from tocsin.lang.parser import parse
from tocsin.lang.syntax import Marked, Not, Query, leaves_of, walk
from tocsin.schema import Field, Kind, Schema
from tocsin.testing.harness import Harness
from tocsin.testing.oracle import Binding, matches

TIMES = range(1, 7)
LATER = range(1, 9)  # an unseen event may stand behind all of them, in a window that is still open
IDS = (1, 2)
POINTS = Schema(common={"id": Field("id", Kind.INT, nullable=False)}, open_types=True, intervals=False)

FLAT = [
    "EVENT SEQ(A a, !C c, B b) WITHIN 4",
    "EVENT SEQ(!C c, A a, B b) WITHIN 3",
    "EVENT SEQ(A a, B b, !C c) WITHIN 3",
    "EVENT SEQ(!C c, A a, !D d) WITHIN 2",
    "EVENT SEQ(A a, !C c, B b, !D d) WITHIN 4",
    "EVENT AND(A a, B b, !C c) WITHIN 3",
    "EVENT SEQ(A a, !(C c : c.id = a.id), B b) WITHIN 4",
    "EVENT SEQ(A a, B+ b, D d) WITHIN 5",
    "EVENT SEQ(A a, C{1,2} c) WITHIN 3",
    "EVENT SEQ(A a, !SEQ(C c, D d), B b) WITHIN 6",
    "EVENT SEQ(A a, !AND(C c, D d), B b)",
    "EVENT SEQ(A a, B b, !SEQ(C c, D d)) WITHIN 4",
    "EVENT SEQ(A a, FIRST B b) WITHIN 6",
    "EVENT SEQ(A a, LAST B b, D d)",
    "EVENT SEQ(A a, NEXT OF (C) B b)",
]
NESTED = [
    "EVENT SEQ(A a, !SEQ(C c, !D d, E e), B b) WITHIN 6",
    "EVENT SEQ(A a, !SEQ(!D d, C c), B b) WITHIN 6",
    "EVENT SEQ(A a, !SEQ(C c, !D d), B b) WITHIN 6",
    "EVENT SEQ(A a, !AND(C c, !D d), B b) WITHIN 6",
    "EVENT SEQ(A a, !SEQ(C c, !D d, C e), B b) WITHIN 6",
    "EVENT SEQ(A a, !SEQ(C c, !SEQ(D d, !E e), F f), B b)",
    "EVENT SEQ(!SEQ(C c, !D d), A a) WITHIN 3",
    "EVENT SEQ(A a, !SEQ(C c, !D d, E e)) WITHIN 3",
]


def negated_types(query: Query) -> set[str]:
    """The types that an unseen event must have to matter to a binding that is complete: negated or repeated ones."""
    every = list(leaves_of(query.pattern))
    outside = {leaf.var for item in getattr(query.pattern, "items", ()) if not isinstance(item, Not)
               for leaf in leaves_of(item) if leaf.repeat is None}  # fmt: skip
    marks = [node for node in walk(query.pattern) if isinstance(node, Marked)]
    looked = {type for mark in marks for type in mark.of or {leaf.type for leaf in leaves_of(mark)}}
    return looked | {leaf.type for leaf in every if leaf.var not in outside}


def futures(types: Sequence[str], promised: dict[str, int], most: int, ids: Sequence[int]) -> Iterator[list[Event]]:
    """Every small set of events that may still come."""
    slots = [(type, time, id) for type in types for time in LATER for id in ids if time > promised[type]]
    for count in range(most + 1):
        for chosen in combinations(slots, count):
            yield [Event(type, time, time, f"unseen {type}{time}.{id}", {"id": id}) for type, time, id in chosen]


def certain(query: Query, seen: list[Event], promised: dict[str, int], most: int, before: set[Binding]) -> set[Binding]:
    """The matches of what was seen that no future takes away; what was certain before stays so."""
    left = {match.binding for match in matches(query, seen)}
    assert before <= left
    left -= before
    ids = IDS if "id" in str(query) else IDS[:1]
    for unseen in futures(sorted(negated_types(query)), promised, most, ids):
        if not left:
            break
        left &= {match.binding for match in matches(query, seen + unseen)}
    return left | before


class Held:
    """A run that holds its answers, event by event."""

    def __init__(self, query: Query) -> None:
        self.run = Harness(query, POINTS).start("conservative")
        self.types = self.run.graph.types
        self.answered: set[Binding] = set()

    def push(self, event: Event) -> None:
        self._take(self.run.push([event]))

    def promise(self, type: str, time: int) -> None:
        self._take(self.run.promise(type, time))

    def _take(self, changes: Changes) -> None:
        for op, binding in changes.bindings():
            assert op > 0 and binding not in self.answered
            self.answered.add(binding)


def run(text: str, seed: int, most: int, length: int) -> tuple[int, int]:
    """A random history with random guarantees; how many answers came, and how many of those before the end."""
    query, random = parse(text), Random(f"{text} {seed}")
    held, seen, promised = Held(query), [], dict.fromkeys("ABCDEF", 0)
    expected: set[Binding] = set()
    for type in held.types:
        held.promise(type, 0)
    first = [type for type in "ABD" if type in held.types and type not in negated_types(query)]
    for number in range(length):
        type = first[number] if number < len(first) else random.choice(held.types)
        free = [time for time in TIMES if time > promised[type]]
        if number >= len(first) and (random.random() < 0.45 or not free):
            promised[type] = max(promised[type], random.choice(TIMES))
            held.promise(type, promised[type])
        else:
            time = 1 + 2 * number if number < len(first) else random.choice(free)
            seen.append(Event(type, time, time, f"{type}{time}.{number}", {"id": random.choice(IDS)}))
            held.push(seen[-1])
        expected = certain(query, seen, promised, most, expected)
        assert held.answered == expected, (text, seed, number, seen, promised)
    early = len(held.answered)
    for type in held.types:
        held.promise(type, 100)
    assert held.answered == {match.binding for match in matches(query, seen)}
    assert held.run.counters.waiting == 0
    return len(held.answered), early


def _most(text: str) -> int:
    return 1 if text.count("SEQ(") + text.count("AND(") == 1 else 3 if text.count("SEQ(") == 3 else 2


@pytest.mark.parametrize("text", some([text for text in FLAT + NESTED if _most(text) < 3], least=5))
def test_each_answer_comes_at_the_first_moment(text: str) -> None:
    found = [run(text, seed, _most(text), 10) for seed in range(14)]
    assert sum(early for _, early in found) > 0, "no answer was certain before the end: the test asks nothing"


@pytest.mark.slow
@pytest.mark.parametrize("text", FLAT + NESTED)
def test_each_answer_comes_at_the_first_moment_at_length(text: str) -> None:
    count = examples(4, least=2) if _most(text) == 3 else examples(24, least=6)
    assert sum(run(text, 100 + seed, _most(text), 12)[1] for seed in range(count)) > 0


WAITING = {
    "EVENT SEQ(A a, B b)": False,
    "EVENT SEQ(A a, !C c, B b) WITHIN 5": False,
    "EVENT SEQ(A a, B+ b, C c)": False,
    "EVENT SEQ(A a, !C c FOR 4, B b) WITHIN 9": False,
    "EVENT SEQ(A a, B+ b) WITHIN 5": True,
    "EVENT SEQ(A a, !B b) WITHIN 5": True,
    "EVENT AND(A a, !SEQ(B b, C c)) WITHIN 4": True,
    "EVENT SEQ(A a, !C c, B b, !D d) WITHIN 5": True,
}


@pytest.mark.parametrize("text", WAITING)
def test_in_order_only_answers_wait_that_something_later_could_change(text: str) -> None:
    run = Harness(text).start("in-order").feed("a1 b2 c3")
    (detector,) = run.graph.detectors
    assert [branch.program.waits for branch in detector.branches] == [WAITING[text]]
