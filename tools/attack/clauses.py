"""Query text with what chooses among matches: marks, groups, clauses after a match, modes, constraints and counts."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import tocsin
from tocsin.lang.syntax import Query
from tocsin.testing.draw_clauses import with_clauses
from tocsin.testing.draw_constraints import with_constraints
from tocsin.testing.draw_consumption import consuming_query
from tocsin.testing.draw_counts import chain, with_counts
from tocsin.testing.draw_groups import grouped_pair
from tocsin.testing.strategies import SCHEMA, any_query, history
from tools.attack import query_text
from tools.attack.both import agree, is_large
from tools.attack.core import Input, Surface, WrongAnswerError
from tools.attack.mutate import garbled

WORDS = (
    *query_text.WORDS,
    *(
        "AFTER MATCH SKIP PAST LAST EVENT TO NEXT FIRST EACH DISTINCT BY LIMIT PER EVERY CONSUME recent latest"
        " chronicle cumulative continuous snoop_recent unrestricted CONTINUITY ALL OF STRATEGY strict next any TIMEOUT"
        " UNTIL FOR MAYBE GROUP HIDDEN prev ? * + {0,2} {2} {1,} [1] [-1] [id] ANY Within Continuity TCons VCons"
    ).split(),
)
TOPS = (
    "QUERY q EVENT SEQ(p x, p y) WITHIN 9", "QUERY q EVENT SEQ(A a, !p x, B b)", "QUERY q EVENT SEQ(p x, FIRST B b)",
    "QUERY q EVENT SEQ(p+ x, C c) AFTER MATCH SKIP PAST LAST EVENT", "QUERY q EVENT p x CONSUME recent",
    "QUERY q EVENT p x SELECT count(*) AS n", "QUERY q EVENT SEQ(p x, !A a) WITHIN 4 TIMEOUT",
)  # fmt: skip


def nested(random: Random) -> str:
    """Return a text that is deep, long or large in one place."""
    depth = random.choice((2, 9, 60, 300, 3000))
    few = min(depth, 60)
    number = random.choice((0, 1, 2, depth, 2**31, 2**63 - 1, 2**63, 10**30))
    steps = ", ".join(f"{'ABC'[at % 3]} x{at}" for at in range(few))
    return random.choice(
        (
            f"EVENT SEQ(A a, {'(SEQ(' * few}A b, B c{'))+' * few} g, C d)",
            f"EVENT SEQ(A a, (SEQ({steps}))+ g, C d)",
            f"EVENT SEQ(A a, (SEQ(A x, B y)){{{number},{random.choice((number, ''))}}} g, C d)",
            f"EVENT SEQ(A a, B{{{number}}} b, C c) WITHIN {number}",
            f"EVENT SEQ(A a, {', '.join(f'MAYBE(B b{at})' for at in range(few))}, C c)",
            f"EVENT SEQ(A a, {'MAYBE(' * few}B b{')' * few}, C c)",
            f"EVENT SEQ(A a, {', '.join(f'B b{at}?' for at in range(few))}, C c) WITHIN 3",
            f"EVENT SEQ({', '.join(f'NEXT A a{at}' for at in range(few))})",
            f"EVENT SEQ(A a, FIRST {'EACH ' * few}B+ b, C c)",
            f"EVENT SEQ(A a, B b) LIMIT {number}",
            f"EVENT SEQ(A a, B b) LIMIT 2 PER {', '.join(f'a.v + {at}' for at in range(few))} EVERY {number}",
            f"EVENT SEQ(A a, B b) SELECT count(*) AS n EVERY {number}",
            f"EVENT SEQ(A a, B b) SELECT {', '.join(f'sum(a.v + {at}) AS c{at}' for at in range(min(depth, 300)))}",
            f"EVENT SEQ(A a, B b) SELECT count(*) AS n GROUP BY {', '.join(f'a.v + {at}' for at in range(few))}",
            f"EVENT SEQ(A a, B b) CONTINUITY OF ({', '.join(f'T{at}' for at in range(depth))})",
            f"EVENT {'Within(' * few}SEQ(A a, B b){', 2, 9)' * few}",
            f"EVENT {'Continuity(' * few}SEQ(A a, B b){', ALL)' * few}",
            f"EVENT SEQ(A a, B b) WITHIN ({number}, {random.choice((number, 9, 0))})",
            f"EVENT SEQ(A a, !B b FOR {number}, C c)",
            f"EVENT SEQ(A a, !B b FOR {number}) TIMEOUT",
            f"EVENT SEQ(A a, B+ b UNTIL {'(' * few}b.v = 1{')' * few}, C c)",
            f"EVENT SEQ(A a, B+ b, C c) WHERE b[{number}].v = 1 AND b[-{number}].v < b[1].v",
            f"EVENT SEQ(A a, B+ b, C c) WHERE {'prev(' * few}b.v{')' * few} < 1",
            f"EVENT SEQ({steps}) CONSUME {random.choice(('recent', 'chronicle', 'cumulative'))} WITHIN 5",
            f"EVENT OR({steps}) CONSUME recent",
            f"EVENT SEQ(A a, B b) DISTINCT BY {'(' * few}a.v{')' * few} EVERY {number}",
        )
    )


def drawn(random: Random) -> Query:
    """Draw a query with one or more of them."""
    match random.randrange(7):
        case 0:
            return with_clauses(random, any_query(random, leaves=4))
        case 1:
            return consuming_query(random)
        case 2:
            return with_counts(random, any_query(random, leaves=3)) or chain(random)
        case 3:
            return with_counts(random, chain(random)) or consuming_query(random)
        case 4:
            return grouped_pair(random)[0]
        case 5:
            return with_constraints(random, any_query(random, leaves=4))
    return any_query(random, leaves=4, loose=True)


def make(random: Random) -> Input:
    """Draw a text, sometimes with a query that reads its matches, and the seed of a history."""
    kind = random.random()
    if kind < 0.08:
        text = nested(random)
    elif kind < 0.2:
        text = f"{replace(drawn(random), name='p', hidden=random.random() < 0.5)}; {random.choice(TOPS)}"
    else:
        text = str(drawn(random))
    if random.random() < 0.5:
        text = garbled(random, text, WORDS)
    return {"text": text, "history": random.randrange(2**32)}


def judge(given: Input) -> None:
    """A single query is judged like any other; of several, the engine answers the last as the definition does."""
    whole = tocsin.query(given["text"])
    if len(whole.queries) == 1:
        query_text.judge(given)
        return
    if tocsin.query(str(whole)) != whole:
        raise WrongAnswerError(f"printed as another query: {whole}")
    whole.plans(SCHEMA)
    whole.explain(SCHEMA)
    if not is_large(whole.queries) and all(isinstance(each, Query) for each in whole.queries):
        random = Random(given["history"])  # noqa: S311 - not for secrets
        events = history(random, whole.queries[0], most=9)  # type: ignore[arg-type]
        agree(whole.queries, [replace(event, eid=str(event.eid)) for event in events], {})


SURFACE = Surface("clauses", make, judge, share=5)
