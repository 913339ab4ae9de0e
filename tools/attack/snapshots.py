"""Saved sessions: damaged ones are refused; those with right checksums are refused or work without any other error."""

from __future__ import annotations

from functools import cache
from random import Random
from typing import Any

import tocsin
from tools.attack.core import Input, Surface, WrongAnswerError
from tools.attack.stored import hurt

QUERIES = (
    "EVENT SEQ(A a, !C c, B b) WHERE [k] WITHIN 6",
    "EVENT SEQ(A a, B+ b, !C c) WHERE a.v <= b.v WITHIN 9 SELECT a.s AS x, count(b) AS n",
    "QUERY p EVENT SEQ(A a, B b) WHERE [s] WITHIN 5 SELECT a.s AS s; QUERY q EVENT SEQ(p x, !C c, p y) WITHIN 9",
    "EVENT OR(SEQ(A a, B b), AND(C c, B d)) WITHIN 4",
)
ORDERS = ("in-order", "slack(3)", "aggressive(6)", "conservative(6)", "auto(6)")


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
    order = random.choice(ORDERS)
    limit = random.choice((None, None, "20 KB")) if order in ("aggressive(6)", "conservative(6)") else None
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
