"""Store what `auto` has chosen beside the log of a shard: replaying events alone would not tell it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tocsin.graph.query_graph import QueryGraph
from tocsin.order.auto import Auto


def choices(graphs: Iterable[QueryGraph]) -> list[bytes]:
    """Save for each graph the strategy chosen, the measurements behind it, and answers that are not yet certain."""
    return [auto.choice for auto in _autos(graphs)]


def follow(graphs: Iterable[QueryGraph], stored: Iterable[bytes]) -> None:
    """Switch to the strategies that were chosen, before the log is replayed."""
    for auto, choice in zip(_autos(graphs), stored, strict=False):
        auto.follow(choice)


def resume(graphs: Iterable[QueryGraph], stored: Iterable[bytes]) -> None:
    """Take up the measurements, after the log was replayed."""
    for auto, choice in zip(_autos(graphs), stored, strict=False):
        auto.resume(choice)


def _autos(graphs: Iterable[QueryGraph]) -> Iterator[Auto]:
    for graph in graphs:
        yield from graph.autos
