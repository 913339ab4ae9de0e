"""The text of definitions of intervals: drawn, garbled and large ones, and queries that read what they derive."""

from __future__ import annotations

from random import Random

import tocsin
from tocsin.run.declared import declare
from tocsin.testing.draw_derived import drawn_intervals, drawn_readings
from tools.attack.both import agree, is_large
from tools.attack.core import Input, Surface, WrongAnswerError
from tools.attack.mutate import garbled

SCHEMA = declare({type: {"k": "int", "s": "text", "v": "int", "w": "float", "b": "bool"} for type in "ABC"})
WORDS = (
    "INTERVALS derived FROM A B C : TO BY k s v w b AS High Low Mid WHEN END LAST UNTIL NEXT MAX GAP SESSION OLDEST"
    " NEWEST LONGEST REPLACE REFUSE SELECT count(*) count(v) first(v) last(s) min(w) max(v) AS f0 , ; TRUE NULL NOT"
    " BETWEEN AND IN IS 0 1 2 7 -1 1.5 's' 1 h 5 min EVENT QUERY HIDDEN start end eid type"
).split()
TOPS = (
    "QUERY q EVENT SEQ(derived x, C c) WITHIN 9", "QUERY q EVENT SEQ(derived x, !A a, C c) WITHIN 6",
    "QUERY q EVENT SEQ(A a, High+ x) WITHIN 6", "QUERY q EVENT OVERLAPS(derived x, derived y)",
    "QUERY q EVENT derived x SELECT count(*) AS n", "QUERY q EVENT SEQ(derived x, High y) WITHIN 3 TIMEOUT",
    "INTERVALS longer FROM derived SESSION GAP 2 SELECT count(*) AS n", "EVENT SEQ(derived x, B b) CONSUME recent",
    "CreateCE Z Select Count(derived) as n Event AtLeast(2, derived)",
)  # fmt: skip


def nested(random: Random) -> str:
    """Return a text that is deep, long or large in one place."""
    depth = random.choice((2, 9, 60, 300, 3000))
    few, number = min(depth, 60), random.choice((0, 1, 2, 9, 2**31, 2**63 - 1, 2**63, 10**30))
    return "INTERVALS derived FROM A " + random.choice(
        (
            f": {'(' * depth}v > 1{')' * depth} AS High WHEN TRUE",
            f": {'NOT ' * depth}v > 1 AS High WHEN v = 1",
            f"AS {', '.join(f'L{at} WHEN v = {at}' for at in range(depth))}",
            f", {', '.join(f'T{at}' for at in range(depth))} SESSION GAP 2",
            f"SESSION GAP {number}",
            f"AS High WHEN v > {number} MAX GAP {number}",
            f"TO B SELECT {', '.join(f'last(v) AS f{at}' for at in range(few))}",
            f"BY {', '.join(['k'] * few)} SESSION GAP 1",
            f"BY {', '.join(f'k{at}' for at in range(few))} TO B",
            f"AS High WHEN {' OR '.join(f'v = {at}' for at in range(depth))}",
            f"AS High WHEN v IN ({', '.join(map(str, range(depth)))}) UNTIL NEXT",
            f"TO {', '.join('BC'[at % 2] for at in range(few))} LONGEST",
            f"AS High WHEN v + {number} > 1 END LAST",
        )
    )


def make(random: Random) -> Input:
    """Draw a text, often with a query over it, and the seed of a history."""
    kind = random.random()
    text = nested(random) if kind < 0.1 else str(drawn_intervals(random))
    if random.random() < 0.4:
        text = f"{text};\n{random.choice(TOPS)}"
    if random.random() < 0.5:
        text = garbled(random, text, WORDS)
    return {"text": text, "history": random.randrange(2**32)}


def judge(given: Input) -> None:
    """Parse, print, bind, explain; a small one gives the rows of the definition, in pieces and over restarts."""
    whole = tocsin.query(given["text"])
    if tocsin.query(str(whole)) != whole:
        raise WrongAnswerError(f"printed as another query: {whole}")
    whole.plans(SCHEMA)
    whole.explain(SCHEMA)
    if not is_large(whole.queries):
        random = Random(given["history"])  # noqa: S311 - not for secrets
        agree(whole.queries, drawn_readings(random), {})


SURFACE = Surface("derived_text", make, judge, share=3)
