"""The text of constraints and of queries under them: drawn, garbled, and with large regular expressions."""

from __future__ import annotations

from random import Random

import tocsin
from tests.test_constraint_traces import SCHEMA, definition, drawn, drawn_history, found, shuffled
from tocsin.lang.syntax import Query
from tocsin.testing.harness import Harness
from tools.attack.both import is_large
from tools.attack.core import Input, Surface, WrongAnswerError
from tools.attack.mutate import garbled

ORDERS = ("in-order", "slack(3)", "conservative(3)", "aggressive(3)")
WORDS = (
    "CONSTRAINT c ON * A B C N X PARTITION BY id AS | * + ? {2} {2,} {1,3} ( ) [v = 1] [v > 0] [id] ENDS TIMEOUT TIES"
    " ANY ALL UNDER CHECKED TRUSTED d ; EVENT SEQ AND OR ! WHERE WITHIN 0 4 -1 a b n 5 min a.id = b.id SELECT"
).split()


def nested(random: Random) -> str:
    """Return a text that is deep, long or large in one place."""
    depth = random.choice((2, 9, 30, 60, 300, 3000))
    few, number = min(depth, 60), random.choice((0, 1, 2, 9, 100, 2**31, 2**63, 10**30))
    regex = random.choice(
        (
            f"{'(' * depth}A{')' * depth} B",
            f"A{'?' * 1} B{{{number}}}",
            f"A ({'A | B' + ' | C' * few})* B",
            f"(A | B)* A {'(A | B) ' * min(depth, 30)}",
            f"{'(' * few}A B{')*' * few}",
            f"{'(' * min(few, 12)}A{'){2}' * min(few, 12)} B",
            " ".join(f"T{at}" for at in range(depth)),
            f"A{{{number},{random.choice((number, 9))}}} B",
            f"A[{' AND '.join(f'v > {at}' for at in range(few))}] B",
            f"({' | '.join(f'A[v = {at}]' for at in range(min(few, 14)))})* B",
        )
    )
    return f"CONSTRAINT c PARTITION BY id AS {regex}; EVENT SEQ(A a, !N n, B b) WHERE [id] UNDER c"


def make(random: Random) -> Input:
    """Draw a text and the seed of a history."""
    text = nested(random) if random.random() < 0.1 else drawn(random)
    if random.random() < 0.5:
        text = garbled(random, text, WORDS)
    return {"text": text, "history": random.randrange(2**32), "order": random.choice(ORDERS)}


def judge(given: Input) -> None:
    """Parse, print, bind, explain; one query gives the matches and the rows of the definition, in pieces."""
    whole = tocsin.query(given["text"])
    if tocsin.query(str(whole)) != whole:
        raise WrongAnswerError(f"printed as another query: {whole}")
    whole.plans(SCHEMA)
    whole.explain(SCHEMA)
    (query, *others) = whole.queries
    if others or is_large(whole.queries) or not isinstance(query, Query) or query.under is None:
        return
    random = Random(given["history"])  # noqa: S311 - not for secrets
    try:
        events = drawn_history(random, given["text"], 9)
    except LookupError:  # no trace can be drawn along it
        return
    if "TIES" in given["text"].upper():  # the order of a tie with an event that no constraint sees is anybody's
        events = [event for event in events if event.type != "X"]
    expected = definition(given["text"], events)
    run = Harness(query, SCHEMA).start(given["order"])
    listed = events if given["order"] == "in-order" else shuffled(random, events, 2.5)
    size, restart = random.choice((1, 2, 5, 100)), random.random() < 0.3
    for at in range(0, len(listed), size):
        run.push(listed[at : at + size])
        if restart:
            run.restart()
    run.end()
    for what, one, other in zip(("rows", "matches"), found(run), expected, strict=True):
        if one != other:
            raise WrongAnswerError(f"{what} of engine and definition: {dict(one - other)} against {dict(other - one)}")


SURFACE = Surface("trace_text", make, judge, share=3)
