"""The text of staged statements: drawn ones, garbled ones, and texts that are deep, long or large in one place."""

from __future__ import annotations

from random import Random

import tocsin
from tocsin.run.declared import declare
from tocsin.testing.draw_staged import drawn_history, drawn_statements
from tools.attack.both import agree, is_large
from tools.attack.core import Input, Surface, WrongAnswerError
from tools.attack.mutate import ODD, garbled

SCHEMA = declare({type: {"k": "int", "x": "int", "y": "int"} for type in "ABCIT"})
WORDS = (
    "CreateCE Select Init Event Where Term GKey LKey DETECT AS as IN AND OR NOT TRUE FALSE NULL UNION Start Rest"
    " stable-time start-ts end-ts And Sequence Or Concurrent Unless Not AtLeast Nth AtMost Every After At Tuple Group"
    " Bag Set Count Sum Avg Min Max Is-Null consume weight strict old new max all staged rows stages range add ignore"
    " <deferred> <delayed> <immediate> each-matching discard * *.k *.x A B C I T a b X Y K labels 0 1 2 7 .. {0,1} k x"
    ' y "x > 0" "A.x = 1" EVENT QUERY SEQ WHERE ; best-effort guaranteed'
).split()
TOPS = (
    "QUERY Q EVENT SEQ(X p, C c)", "QUERY Q EVENT SEQ(X p, !A a) WITHIN 4", "QUERY Q EVENT SEQ(A a, X+ p) WITHIN 6",
    "CreateCE Z Select Count(X) as n Event AtLeast(2, X)", "CreateCE Z Select X.at as at Event Unless(X, A)",
    "QUERY Q EVENT SEQ(X p, C c) WITHIN 3 TIMEOUT",
    "QUERY Q EVENT SEQ(A a, X p) CONSUME recent", "QUERY Q EVENT X p SELECT count(*) AS n",
)  # fmt: skip


def nested(random: Random) -> str:
    """Return a text that is deep, long or large in one place."""
    depth = random.choice((2, 9, 60, 300, 3000))
    few, number = min(depth, 60), random.choice((0, 1, 2, 9, 2**31, 2**63 - 1, 2**63, 10**30))
    every, wide = ", ".join(map(str, range(few))), ", ".join(f"A.x + {n} as c{n}" for n in range(few))
    event = random.choice(
        (
            f"{'And(' * depth}A{', B)' * depth}",
            f"{'Unless(A, ' * few}B{')' * few}",
            f"{'Not(' * few}A{')' * few}",
            f"{'(' * depth}A{')' * depth}",
            f"And({', '.join(f'A as a{at}' for at in range(depth))})",
            f"AtLeast({number}, A)",
            f"Nth({number}, A, B)",
            f"AtMost({number}, A) Term 5",
            f"And(A, Every({number}))",
            f"After(A, {number})",
            f"After(A[rows {number}], 2)",
            f"Sequence(A<rows {number}>, B<range {number}>)",
            f"And(A<old max {number}>, B<new max {number}>)",
            f"AtLeast(2, A<weight {number}>)",
            f"A Term {number}",
            f"A Init {', '.join(['I'] * few)} Term T",
            f"A GKey *.k (In {{{every}}})",
            f"A LKey *.k as K (In {number}..{number} as one, Rest as rest)",
            f"A Where {'(' * depth}A.x = 1{')' * depth}",
            f"A Where {'NOT(' * depth}A.x = 1{')' * depth}",
            f"A Where {' AND '.join(f'A.x != {n}' for n in range(few))}",
            f"A Where A.x + {number} > 1",
            f'A<"{"(" * depth}x > 0{")" * depth}">',
            "At('****/**/**/**:**:**.***')",
            "At('2024/02/30/25:00:00.000')",
        )
    )
    select = random.choice(("", "", "Select A.x as x ", f"Select {wide} "))
    return f"CreateCE X {select}Event {event}"


def make(random: Random) -> Input:
    """Draw a text, sometimes with another query over it, and the seed of a history."""
    kind = random.random()
    if kind < 0.1:
        text = nested(random)
    elif kind < 0.13:
        text = "CreateCE " + "".join(
            random.choice((*WORDS, *ODD, "(", ")", ",")) + " " for _ in range(random.randint(0, 30))
        )
    else:
        text = ";\n".join(map(str, drawn_statements(random)))
    if 0.13 < kind < 0.3:
        text = f"{text};\n{random.choice(TOPS)}"
    if random.random() < 0.55:
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
        agree(whole.queries, drawn_history(random, length=14), {})


SURFACE = Surface("staged_text", make, judge, share=5)
