"""Tails: what is kept of the inner part of a binding gives the matches that searching it again would give."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from tests.effort import examples
from tocsin.engine.branch import Branch
from tocsin.engine.runtime import TAILS
from tocsin.events import Event
from tocsin.testing.harness import Harness, Running
from tocsin.testing.strategies import SCHEMA

SIDES = ("start", "end")


def drawn_query(random: Random) -> str:
    """One or two inner events about one that others follow: in some relation with it, but in none with those."""
    inner = random.choice((("a", "b"), ("a", "b"), ("a",)))
    spans = {name: (start := random.randint(0, 5), start + random.choice((0, 1, 3))) for name in (*inner, "x", "z")}
    spans["y"] = (first := spans["x"][1] + 1, first + random.randint(0, 2))
    compared = [f"end(x) < {random.choice(SIDES)}(y)"]
    for each in inner:
        compared += _compared(random, spans, each, random.choice([*(name for name in inner if name != each), "x"]))
    outer = random.choice((("y",), ("y",), ("y", "z")))
    if "z" in outer:
        compared += _compared(random, spans, "z", "y")
    types = dict(zip((*inner, "x"), random.choice(("AAA", "ABB", "AAB", "ABA", "ABC")), strict=False))
    types |= dict.fromkeys(outer, "E")
    where = random.choice(("", "", "", " WHERE [id]", " WHERE a.id = x.id", " WHERE a.v < x.v", " WHERE y.id = x.id"))
    leaves = ", ".join(f"{type} {name}" for name, type in types.items())
    return f"EVENT ISEQ[{', '.join(compared)}]({leaves}){where} WITHIN {random.choice((6, 12, 12, 20))}"


def _compared(random: Random, spans: dict[str, tuple[int, int]], one: str, other: str) -> list[str]:
    """A comparison or two which some arrangement allows."""
    found = []
    for _ in range(random.choice((1, 1, 2))):
        mine, its = random.choice(SIDES), random.choice(SIDES)
        x, y = spans[one][mine == "end"], spans[other][its == "end"]
        op = random.choice(("<", "<=") if x < y else ("=", "<=", ">=") if x == y else (">", ">="))
        found.append(f"{mine}({one}) {op} {its}({other})")
    return found


def drawn_events(random: Random, count: int) -> list[Event]:
    made = []
    for number in range(count):
        start = random.randint(0, count // 2)
        attrs = {"id": random.choice((0, 0, 1)), "v": random.randint(0, 2)}
        made.append(Event(random.choice("ABCEE"), start, start + random.choice((0, 1, 2, 3, 5)), number, attrs))
    return sorted(made, key=lambda event: (event.end, random.random()))


def branches_of(run: Running) -> list[Branch]:
    return [branch for detector in run.graph.detectors for branch in detector.branches]


def pushed(run: Running, events: list[Event], random: Random) -> Running:
    at = 0
    while at < len(events):
        size = random.choice((1, 1, 2, 5, 20))
        run.feed(list(events[at : at + size]), batch=size)
        at += size
        if random.random() < 0.3:
            _shrink(run, random.choice((8, 16, 32)))
        if random.random() < 0.05:
            run.restart()
    run.end()
    return run


def _shrink(run: Running, words: int) -> None:
    """A ring that is soon full, or too small for some tails."""
    for branch in branches_of(run):
        if branch.is_ready:
            branch.MEM = np.zeros(words, np.int64)
            branch._lend()


def asked(random: Random) -> int:
    """One drawn query over a history; 1 if tails were found."""
    harness = Harness(drawn_query(random), SCHEMA)
    run = harness.start("in-order")
    if not all(branch.program.has_tails for branch in branches_of(run)):
        return 0
    events = drawn_events(random, random.choice((12, 20, 30)))
    pushed(run, events, random)
    assert run.net == harness.expected(events), f"{harness.query}\n" + "\n".join(map(str, events))
    return int(any(branch.T[TAILS] for branch in branches_of(run)))


@pytest.mark.parametrize("chunk", range(examples(100)))
def test_matches_are_those_of_the_definition(chunk: int) -> None:
    assert sum(asked(Random(f"tails {chunk} {number}")) for number in range(12)) > 2
