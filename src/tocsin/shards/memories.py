"""What operators know beyond the events, stored beside the log of a shard: replaying the log does not bring it back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from tocsin.codec import reading
from tocsin.graph.query_graph import QueryGraph


def memories(graphs: Iterable[QueryGraph]) -> list[bytes]:
    """What each remembers: what was chosen and why, what was counted, answers that are not yet certain."""
    return [operator.memory for graph in graphs for operator in graph.remembering]


@contextmanager
def remembered(graphs: Iterable[QueryGraph], stored: Iterable[bytes]) -> Iterator[None]:
    """Replay the log meanwhile: operators are prepared for it before, and go on from what they remembered after it."""
    pairs = list(zip((each for graph in graphs for each in graph.remembering), stored, strict=False))
    with reading():
        for operator, memory in pairs:
            operator.follow(memory)
    yield
    with reading():
        for operator, memory in pairs:
            operator.resume(memory)
