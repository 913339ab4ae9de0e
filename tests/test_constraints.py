"""Constraints as Gu 2011 writes them: the spellings, and windows and continuity beside every other construct."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

import tocsin
from tests.effort import examples
from tocsin import event, seq
from tocsin.lang.parser import parse
from tocsin.lang.printer import print_query
from tocsin.testing import strategies
from tocsin.testing.agree import PLAIN, Bench
from tocsin.testing.draw_constraints import with_constraints
from tocsin.testing.oracle import matches
from tocsin.testing.strategies import SCHEMA, history


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("CON(A a, DIS(B b, C c))", "AND(A a, OR(B b, C c))"),
        ("SEQ(A a, NEG(C c : c.v > 1), B b)", "SEQ(A a, !(C c : c.v > 1), B b)"),
        ("Within(Continuity(SEQ(A a, B b), ALL), 1 s, 5 s)", "SEQ(A a, B b) WITHIN (1 s, 5 s) CONTINUITY ALL"),
        ("Continuity(SEQ(A a, B b), X, Y)", "SEQ(A a, B b) CONTINUITY OF (X, Y)"),
        ("Partition(VCons(SEQ(A a, B b), a.v < 3), id)", "SEQ(A a, B b) WHERE a.v < 3 PARTITION BY id"),
        ("TCons(SEQ(A a, B b), Within(1, 5))", "SEQ(A a, B b) WITHIN (1, 5)"),
        ("SEQ(VCons(A a, a.v > 1, a.w > 2), B b)", "SEQ((A a : a.v > 1 AND a.w > 2), B b)"),
        ("SEQ(A a : a.v > 1, CON(B b, C c))", "SEQ((A a : a.v > 1), AND(B b, C c))"),
    ],
)
def test_the_spellings_of_the_paper_are_ours(theirs: str, ours: str) -> None:
    assert parse(theirs) == parse(ours)
    assert parse(print_query(parse(theirs))) == parse(ours)


def test_their_words_are_names_everywhere_else() -> None:
    query = parse("EVENT SEQ(Con neg, Dis continuity, Partition2 con) WHERE neg.within > con(continuity.neg, 1)")
    assert parse(print_query(query)) == query


def test_fluent_constraints_are_the_same_syntax() -> None:
    built = seq(event("A", "a"), event("B", "b")).longer_and_shorter(0, "5 s").continuity("X")
    assert tocsin.query(built).queries == tocsin.query("SEQ(A a, B b) WITHIN (0, 5 s) CONTINUITY OF (X)").queries
    assert str(seq(event("A", "a"), event("B", "b")).continuity()) == "EVENT SEQ(A a, B b)\nCONTINUITY ALL"


def test_drawn_constraints_agree_with_the_oracle() -> None:
    """Beside marks, negations, repetitions and intervals, in several ways of running."""
    seen: Counter[str] = Counter()
    for number in range(examples(600, least=60)):
        random = Random(f"constraints {number}")
        plain = strategies.query(random)
        query = with_constraints(random, plain)
        if query == plain:
            continue
        assert parse(print_query(query)) == query
        events = history(random, query, most=10)
        found = Bench(query, SCHEMA).disagreement(events, random.sample(PLAIN, 2))
        assert found is None, (number, str(query), events, found)
        seen["asked"] += 1
        seen["matches"] += len(matches(query, events))
    assert seen["asked"] > 30, seen
    assert seen["matches"] > 20, seen
