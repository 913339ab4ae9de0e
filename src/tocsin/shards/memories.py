"""What operators know beyond the events, stored beside the log of a shard: replaying the log does not bring it back."""

from __future__ import annotations

from collections.abc import Iterable

from tocsin.graph.query_graph import QueryGraph


def memories(graphs: Iterable[QueryGraph]) -> list[bytes]:
    """What each remembers: what was chosen and why, what was counted, answers that are not yet certain."""
    return [operator.memory for graph in graphs for operator in graph.remembering]


def follow(graphs: Iterable[QueryGraph], stored: Iterable[bytes]) -> None:
    """Prepare operators for a replay of the log."""
    for operator, memory in zip((each for graph in graphs for each in graph.remembering), stored, strict=False):
        operator.follow(memory)


def resume(graphs: Iterable[QueryGraph], stored: Iterable[bytes]) -> None:
    """Let operators go on from what they remembered, after the log was replayed."""
    for operator, memory in zip((each for graph in graphs for each in graph.remembering), stored, strict=False):
        operator.resume(memory)
