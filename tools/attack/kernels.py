"""Compiled kernels that check every access: a few queries, as many histories as there is time for."""

from __future__ import annotations

from functools import cache
from random import Random

from tocsin.lang.parser import parse
from tocsin.testing.agree import COMPILED, Bench
from tocsin.testing.strategies import SCHEMA, history
from tools.attack.core import Input, Surface, WrongAnswerError

QUERIES = (
    "EVENT SEQ(A a, !C c, B b) WHERE [id] AND a.v <= b.v WITHIN 6",
    "EVENT SEQ(A a, B+ b, D d) WHERE a.x = d.id AND b.w > 0.5 WITHIN 9",
    "EVENT AND(A a, !(B b : b.s = a.s), C c) WITHIN 5",
)


@cache
def bench(text: str) -> Bench:
    return Bench(parse(text), SCHEMA)


def make(random: Random) -> Input:
    """Draw a query and the seed of a history; the same few queries, since each is compiled once."""
    return {"query": random.choice(QUERIES), "history": random.randrange(2**32), "most": random.choice((4, 14, 30))}


def judge(given: Input) -> None:
    """Compare with the oracle in every compiled mode."""
    asked = bench(given["query"])
    random = Random(given["history"])  # noqa: S311 - not for secrets
    problem = asked.disagreement(history(random, asked.query, most=given["most"]), COMPILED[:3])
    if problem is not None:
        raise WrongAnswerError(f"unlike the oracle: {problem}")


SURFACE = Surface("kernels", make, judge, share=1, seconds=120)
