"""Drawn queries in chunks: each chunk is one test, and each seed one query with its history.

@in_chunks(8)
def test_something(chunk: int) -> None:
    for drawn in pairs_of(chunk, 25): ...      25 pairs, others than those of every other chunk
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest

from tests.effort import examples
from tocsin.events import Event
from tocsin.lang.syntax import Query
from tocsin.testing.strategies import pair


@dataclass(frozen=True, slots=True)
class Drawn:
    """A pair, and the source of all that a test still draws for it."""

    seed: int
    random: Random
    query: Query
    events: list[Event]

    def __str__(self) -> str:
        return f"seed {self.seed}: {self.query}"


def in_chunks(count: int) -> Any:
    """The test is asked `chunk` by `chunk`, of which shorter runs ask the first ones."""
    return pytest.mark.parametrize("chunk", range(examples(count)))


def pairs_of(chunk: int, each: int, **limits: Any) -> Iterator[Drawn]:
    """The pairs of a chunk; the limits are those of `strategies.pair`."""
    for seed in range(chunk * each, (chunk + 1) * each):
        random = Random(seed)
        query, events = pair(random, **limits)
        yield Drawn(seed, random, query, list(events))
