"""Saved sessions: damaged ones are refused; those with right checksums are refused or work without any other error."""

from __future__ import annotations

from functools import cache
from random import Random
from typing import Any

import tocsin
from tools.attack.core import Input, Surface, WrongAnswerError
from tools.attack.stored import hurt

STAGED = (
    "CreateCE X Select A.k as k, B.v as v Event And(A<consume>, B<old max 2>) Where A.v != B.v GKey *.k",
    "CreateCE X Select A.s as s Event Unless(Sequence(A<rows 2>, B), C) Init C Term 5 LKey *.s",
    "CreateCE X Select Count(A) as n Event AtLeast(2, A); CreateCE Y Event After(X, 2); EVENT SEQ(Y y, A a)",
)
DERIVED = (
    "INTERVALS High FROM A, B BY k AS Up WHEN v > 1, Down WHEN v <= 1 END LAST MAX GAP 3 SELECT count(*) AS n, last(s)",
    "INTERVALS Visit FROM A BY k SESSION GAP 3 SELECT first(v) AS f; EVENT SEQ(Visit x, C c) WHERE [k] WITHIN 9",
    "INTERVALS Pair FROM A TO B : v > 0 BY s OUTERMOST SELECT min(v) AS m",
)
TRACED = (
    "CONSTRAINT c PARTITION BY k AS (A | B | C)* ENDS C TIMEOUT 9; EVENT SEQ(A a, !C n, B b) WHERE [k] UNDER c",
    "CONSTRAINT c PARTITION BY s AS A (B | C)+ A?; EVENT SEQ(A a, B b) WHERE [s] UNDER c CHECKED",
)
SETTLED = (*STAGED, *DERIVED)  # those that take only what is settled
QUERIES = (
    "EVENT SEQ(A a, !C c, B b) WHERE [k] WITHIN 6",
    "EVENT SEQ(A a, B+ b, !C c) WHERE a.v <= b.v WITHIN 9 SELECT a.s AS x, count(b) AS n",
    "QUERY p EVENT SEQ(A a, B b) WHERE [s] WITHIN 5 SELECT a.s AS s; QUERY q EVENT SEQ(p x, !C c, p y) WITHIN 9",
    "EVENT OR(SEQ(A a, B b), AND(C c, B d)) WITHIN 4",
    "EVENT SEQ(A a, B b, C c) WHERE [k] CONSUME chronicle",
    "EVENT SEQ(A a, B b) WHERE [s] WITHIN 5 CONSUME cumulative",
    "EVENT AND(A a, B b) CONSUME recent",
    "EVENT SEQ(A a, B b) WHERE [k] AND a.v <= b.v WITHIN 9 AFTER MATCH SKIP PAST LAST EVENT DISTINCT BY b.s EVERY 4",
    "EVENT SEQ(A a, B b) LIMIT 2 PER a.s EVERY 5",
    "EVENT SEQ(A a, B b, C c) WITHIN 8 SELECT count(*) AS n, sum(b.v) AS s, min(c.v) AS m",
    "EVENT SEQ(A a, B b) WHERE a.v < b.v SELECT a.s AS s, count(*) AS n, avg(b.v) AS m GROUP BY a.s EVERY 6",
    "EVENT SEQ(A a, B b, C c) WHERE [k] WITHIN 6 TIMEOUT",
    "EVENT SEQ(A a, FIRST B b, NEXT C+ c) WHERE c.v >= prev(c.v) WITHIN 9",
    "EVENT SEQ(A a, B? b, MAYBE SEQ(B d, C e), C c) WITHIN 7",
    "EVENT SEQ(A a, (B+ b UNTIL b.v > 2), A d, (SEQ(B x, C y))+ g, A z) WITHIN 12",
    "EVENT SEQ(A a, !C c FOR 2, B b) WITHIN 9",
    "EVENT SEQ(A a, B b) CONTINUITY OF (C) WITHIN (1, 9)",
    "QUERY p EVENT SEQ(A a, B b) CONSUME recent; QUERY q EVENT SEQ(p x, C c) WITHIN 9 SELECT count(*) AS n",
    *STAGED,
    *DERIVED,
    *TRACED,
)
ORDERS = ("in-order", "slack(3)", "aggressive(6)", "conservative(6)", "auto(6)")
FINAL = ("in-order", "slack(3)", "conservative(6)")  # statements cannot correct themselves


def rows(first: int, count: int) -> list[dict[str, Any]]:
    """Return events that give every query something to keep."""
    return [
        {"type": "ABC"[at * 7 % 3], "time": at + (at * 5 % 3), "k": at % 2, "v": at % 4, "s": "xyz"[at % 3], "eid": at}
        for at in range(first, first + count)
    ]


@cache
def saved(text: str, order: str, count: int, limit: str | None) -> bytes:
    """Return the state of a session after so many events."""
    session = tocsin.query(text).stream(order=order, jit=False, memory_limit=limit, eid="eid", endless=False)
    for first in range(0, count, 5):
        session.push(rows(first, 5))
    return session.save()


def make(random: Random) -> Input:
    """Draw a session and the damage to its state."""
    text, count = random.choice(QUERIES), random.choice((0, 5, 20, 40))
    order = random.choice(FINAL if text in SETTLED else ORDERS)
    limit = (
        random.choice((None, None, "20 KB"))
        if order in ("aggressive(6)", "conservative(6)") and text not in (*SETTLED, *TRACED)
        else None
    )
    whole = saved(text, order, count, limit)
    state, right = hurt(random, whole)
    kept = {"query": text, "order": order, "limit": limit, "state": state, "next": count}
    return {**kept, "refuse": not right and state != whole}


def judge(given: Input) -> None:
    """Restore the state, go on, save again, and close."""
    query = tocsin.query(given["query"])
    options = {"order": given["order"], "memory_limit": given["limit"], "jit": False, "endless": False, "eid": "eid"}
    session = query.stream(state=given["state"], **options)
    if given["refuse"]:
        raise WrongAnswerError("a damaged state is taken: as if it were whole")
    for row in rows(given["next"], 4):
        session.push(row)
    session.push(rows(given["next"] + 4, 8))
    again = query.stream(state=session.save(), **options)
    list(again.close())


SURFACE = Surface("snapshots", make, judge, share=3)
