"""A finite input in order of time, read stretch by stretch: rows that are encoded as they are read, or before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tocsin.encode.merge import Rearranged, sliced
from tocsin.encode.rehearsal import loops_are_worth
from tocsin.encode.row_pieces import RowPieces
from tocsin.encode.thread_team import ThreadTeam
from tocsin.encode.whole import UsableRows
from tocsin.engine.payload import Chunk, View, WholeTable
from tocsin.graph.query_graph import QueryGraph
from tocsin.items import Codes, Ints, Items, is_sorted
from tocsin.run.near import near_of

MANY = 1 << 16  # rows that are worth compiled loops, which may have to be compiled first


@dataclass(slots=True)
class Stretch:
    """Some rows for one graph.

    items     those that may matter
    numbers   what each of them is called in the view of the feed
    seen      how many rows were read, those included that matter to nobody
    relevant  how many of them are of a type that somebody reads
    """

    items: Items
    numbers: Ints
    seen: int
    relevant: int

    def push_to(self, graph: QueryGraph) -> Any:
        """Feed a graph, and let it count what it is not given."""
        given = len(self.items)
        said = graph.push(self.items)
        graph.pass_over(self.seen - given, self.relevant - given)
        return said


class Reader(Protocol):
    """Reads stretches of a feed for one graph, one after the other."""

    def read(self, first: int, last: int) -> Stretch: ...


class Feed(Protocol):
    """A finite input whose rows can be read by several graphs, each a part of them.

    end         when each row ends, in order
    count       how many rows there are, those included that matter to nobody and have no place in `end`
    view        the events behind the numbers of what was read; None: only the graphs know
    is_encoded  whether rows were encoded before: then all graphs must share the codes of texts
    """

    end: Ints
    count: int
    view: View | None
    is_encoded: bool

    def reader(self, graph: QueryGraph) -> Reader: ...


def feed_of(graph: QueryGraph, rows: UsableRows, workers: ThreadTeam) -> RowFeed | ItemFeed:
    """The quickest way to feed rows: straight from their table, if they are in order and have no eids or sources."""
    plain = graph.is_plain and rows.columns.eid is None and rows.columns.source is None
    if plain and rows.in_order and loops_are_worth(len(rows), MANY):
        return RowFeed(graph, rows)
    return ItemFeed(graph, rows, workers)


class RowFeed:
    """Rows of a table that is in order of time: a number is a row of the table."""

    is_encoded = False

    def __init__(self, graph: QueryGraph, rows: UsableRows) -> None:
        self.rows, self.end, self.count = rows, rows.end, len(rows)
        self._near = near_of(graph)
        self._base = graph.encoder.payload_table(rows.table, rows.start, rows.end)
        codes: Codes = np.append(graph.encoder.codes_of(rows.types.names), np.int32(-1))
        self.view: View | None = View(
            [WholeTable.of(self._base, rows.types.codes, rows.types.names, codes, rows.start, rows.end)]
        )

    def reader(self, graph: QueryGraph) -> Reader:
        return _RowReader(graph.row_pieces(self.rows, self._base, self._near))


@dataclass(slots=True)
class _RowReader:
    pieces: RowPieces

    def read(self, first: int, last: int) -> Stretch:
        items, read = self.pieces.items(first, last)
        return Stretch(items, items.order, last - first, read)


class ItemFeed:
    """Rows that were encoded, and sorted if need be, before any is read: a number is a place among them."""

    is_encoded = True

    def __init__(self, graph: QueryGraph, rows: UsableRows, workers: ThreadTeam) -> None:
        self.items = items = graph.encode_whole(rows, workers)
        self.end, self.count = items.end, len(rows)
        self._as_they_came = is_sorted(items.order)
        self.view = View([whole_chunk(items)]) if graph.is_plain else None

    def reader(self, graph: QueryGraph) -> Reader:  # noqa: ARG002 - all get the same
        return self

    def read(self, first: int, last: int) -> Stretch:
        seen = self._before(last) - self._before(first)
        count = last - first
        return Stretch(sliced(self.items, first, count), np.arange(first, last), seen, count)

    def _before(self, place: int) -> int:
        """How many rows come before an item; rows that no query reads count with the item after them."""
        if place == len(self.items):
            return self.count
        if not place:
            return 0
        return int(self.items.order[place - 1]) + 1 if self._as_they_came else place


def whole_chunk(events: Rearranged) -> Chunk:
    """All events of a run, by the numbers that a detector gives them."""
    return Chunk(
        0, events.base, events.types, events.start, events.end, events.eid_high, events.eid_low,
        last_end=int(events.end[-1]) if len(events) else 0, order=events.order,
    )  # fmt: skip
