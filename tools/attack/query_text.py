"""Query text: drawn queries, garbled ones, and texts that are deep, long or full of odd words."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import tocsin
from tocsin.errors import TocsinError
from tocsin.lang.syntax import leaves_of
from tocsin.testing.agree import PLAIN, Bench
from tocsin.testing.strategies import SCHEMA, any_query, history
from tools.attack.core import Input, Surface, WrongAnswerError
from tools.attack.mutate import ODD, garbled

WORDS = (
    "EVENT QUERY SEQ AND OR ISEQ REL EXISTS NOT WHERE WITHIN PARTITION BY SELECT AS IN BETWEEN LIKE IS NULL CASE WHEN"
    " THEN ELSE END A B C D E a b c id v w s ok x d op kind match_id start end settled_at query type eid time count"
    " sum avg min max first last sqrt abs length lower upper substr int float text round coalesce ms s min h d before"
).split()
SMALL = 5  # leaves that the oracle answers quickly


def nested(random: Random) -> str:
    """Return a text that is deep or long in one place."""
    depth = random.choice((2, 10, 70, 300, 3000))
    many, deep = range(min(depth, 1200)), min(depth, 55)
    return random.choice(
        (
            f"EVENT A a WHERE {'(' * depth}a.v = 1{')' * depth}",
            f"EVENT A a WHERE {'NOT ' * depth}a.v = 1",
            f"EVENT A a WHERE a.v = {'-' * depth}1",
            f"EVENT A a WHERE a.v = {'1 + ' * depth}1",
            f"EVENT A a WHERE {' AND '.join(f'a.v <> {n}' for n in many)}",
            f"EVENT A a WHERE {' OR '.join(f'a.v = {n}' for n in many)}",
            f"EVENT A a WHERE a.v IN ({', '.join(map(str, many))})",
            f"EVENT A a WHERE CASE {' '.join(f'WHEN a.v = {n} THEN {n}' for n in many)} ELSE 0 END = 1",
            f"EVENT A a WHERE a.s LIKE '{'%a' * min(depth, 300)}%b'",
            f"EVENT {'SEQ(A, ' * depth}B{')' * depth}",
            f"EVENT SEQ({', '.join(f'A a{n}' for n in range(min(depth, 90)))}) WITHIN 3",
            f"EVENT SEQ(A a, {'!SEQ(B, ' * min(depth, 40)}C{')' * min(depth, 40)}, D d)",
            f"EVENT OR({', '.join(f'SEQ(A a{n}, B b{n})' for n in range(min(depth, 70)))})",
            f"EVENT A a WHERE {'CASE WHEN a.v = 1 THEN ' * deep}1{' ELSE 2 END' * deep} = 1",
            f"EVENT A a WHERE {'CASE WHEN ' * deep}a.v{' IN (0, 1, 2) THEN 1 ELSE 2 END' * deep} = 1",
            f"EVENT A a WHERE {'(' * deep}a.v = 1{') = (a.v = 2)' * deep}",
            f"EVENT A a SELECT {'(' * deep}a.v = 1{') = (a.v = 2)' * deep} AS c",
            f"EVENT A a SELECT {'nullif(' * deep}a.v{', 5)' * deep} AS c",
            f"EVENT A a SELECT {', '.join(f'a.v + {n} AS c{n}' for n in many)}",
            ";".join(f"QUERY q{n} EVENT {f'q{n - 1}' if n else 'A'} x" for n in range(min(depth, 70))),
        )
    )


def make(random: Random) -> Input:
    """Draw a text and the seed of a history for it."""
    kind = random.random()
    if kind < 0.1:
        text = nested(random)
    elif kind < 0.15:
        text = "".join(random.choice((*WORDS, *ODD, " ", "(", ")", ",")) + " " for _ in range(random.randint(0, 30)))
    else:
        text = str(any_query(random))
    if kind > 0.45:
        text = garbled(random, text, WORDS)
    return {"text": text, "history": random.randrange(2**32)}


def judge(given: Input) -> None:
    """Parse, print, bind, explain; where the query is small, the answer of the plain body is the oracle's."""
    whole = tocsin.query(given["text"])
    if tocsin.query(str(whole)) != whole:
        raise WrongAnswerError(f"printed as another query: {whole}")
    whole.plans(SCHEMA)
    whole.explain(SCHEMA)
    whole.source(SCHEMA)
    if len(whole.queries) > 1 or len(leaves_of(whole.queries[0].pattern)) > SMALL:
        return
    query = replace(whole.queries[0], name=None)
    random = Random(given["history"])  # noqa: S311 - not for secrets
    events = history(random, query, most=9)
    bench = Bench(query, SCHEMA)
    try:
        bench.oracle(events)
    except TocsinError as refused:
        raise WrongAnswerError(f"the oracle refuses what the binder takes: {refused.message}") from None
    problem = bench.disagreement(events, random.sample(PLAIN, 2))
    if problem is not None:
        raise WrongAnswerError(f"unlike the oracle: {problem}")


SURFACE = Surface("query_text", make, judge, share=4)
