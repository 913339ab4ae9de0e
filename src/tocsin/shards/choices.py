"""What strategies have chosen by themselves, stored beside the log of a shard: events alone do not tell it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tocsin.graph.query_graph import QueryGraph
from tocsin.order.auto import Auto


def choices(graphs: Iterable[QueryGraph]) -> list[bytes]:
    """What each has chosen and why, and the answers that it gave and that are not yet certain."""
    return [auto.choice for auto in _autos(graphs)]


def follow(graphs: Iterable[QueryGraph], stored: Iterable[bytes]) -> None:
    """Before the log is replayed: take the strategies that were chosen."""
    for auto, choice in zip(_autos(graphs), stored, strict=False):
        auto.follow(choice)


def resume(graphs: Iterable[QueryGraph], stored: Iterable[bytes]) -> None:
    """After the log was replayed: go on choosing."""
    for auto, choice in zip(_autos(graphs), stored, strict=False):
        auto.resume(choice)


def _autos(graphs: Iterable[QueryGraph]) -> Iterator[Auto]:
    for graph in graphs:
        yield from graph.autos
