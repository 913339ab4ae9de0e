"""A large input through a graph, piece by piece: in memory are some pieces, what the window holds, and the matches."""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TypeVar

from tocsin.encode.batch import one_batch
from tocsin.encode.thread_team import ThreadTeam
from tocsin.encode.whole import UsableRows
from tocsin.engine.changes import Changes
from tocsin.graph.query_graph import QueryGraph
from tocsin.items import end as end_of_stream
from tocsin.run.answers import GrowingTables
from tocsin.run.feeds import feed_of
from tocsin.run.files import FilePiece
from tocsin.run.inputs import usable, usable_rows, with_dictionaries
from tocsin.run.large_input import LargeInput
from tocsin.run.pace import Done, Pace, Watcher
from tocsin.run.row_groups import Skip
from tocsin.run.time_sort import in_time_order

LOG = logging.getLogger("tocsin")
T = TypeVar("T")
Said = Generator[tuple[int, Changes], None, None]  # how many rows were read, and what was said to them


def run_large(
    graph: QueryGraph, given: LargeInput, shown: tuple[int, ...], watch: Watcher | None, enough: int | None,
    workers: ThreadTeam,
) -> GrowingTables:  # fmt: skip
    """Feed a large input, then end the stream; once there are `enough` matches, no more is fed."""
    LOG.info("the input is read piece by piece, since it may be larger than memory")
    found, done = GrowingTables(graph, shown), Done(len(given), watch)
    feed = _fed_in_order if graph.order.kind == "in-order" else _fed_as_it_comes
    pace = Pace(growing=enough is not None)
    with done, closing(feed(graph, given, pace, workers)) as said:
        for rows, changes in said:
            found.add(changes)
            done.more(rows, found.counted(changes))
            if enough is not None and done.matches >= enough:
                break
        else:
            found.add(graph.push(end_of_stream()))
    return found


def _fed_in_order(graph: QueryGraph, given: LargeInput, pace: Pace, workers: ThreadTeam) -> Said:
    """In order of time; pieces are read by one thread while others are fed."""
    skip = Skip.of(graph, given.columns)
    judged = (usable_rows(piece, graph.wanted) for piece in given.pieces(skip))
    for rows in _ahead(judged if given.in_order else _sorted(graph, given, judged), workers):
        feed = feed_of(graph, rows, workers)
        reader = feed.reader(graph)
        if not len(feed.end):
            graph.pass_over(feed.count)
        for first, last in pace.chunks(0, len(feed.end)):
            stretch = reader.read(first, last)
            yield stretch.seen, stretch.push_to(graph)
        graph.forget_texts()
    if skip is not None:
        graph.pass_over(skip.rows, skip.relevant)


def _sorted(graph: QueryGraph, given: LargeInput, judged: Iterator[UsableRows]) -> Iterator[UsableRows]:
    for table in in_time_order(judged, given.size):
        yield usable_rows(given.piece(FilePiece(table, lambda row: f"row {row + 1}", [])), graph.wanted)


def _fed_as_it_comes(graph: QueryGraph, given: LargeInput, pace: Pace, workers: ThreadTeam) -> Said:
    """In the order of the files: a strategy says what to do about events that come late."""
    pieces = (usable(piece, graph.wanted) for piece in given.pieces(None, whole=True))
    for piece in _ahead(pieces, workers):
        table = with_dictionaries(piece, graph.wanted, given.columns)
        for first, last in pace.chunks(0, table.num_rows):
            yield last - first, graph.push(graph.encode(one_batch(table.slice(first, last - first))))


def _ahead(pieces: Iterator[T], workers: ThreadTeam) -> Iterator[T]:
    """The pieces, each of which is read while the one before it is worked on, if there are several threads."""
    if workers.count == 1:
        yield from pieces
        return
    with ThreadPoolExecutor(1, "tocsin") as reader:
        coming = reader.submit(next, pieces, None)
        while (piece := coming.result()) is not None:
            coming = reader.submit(next, pieces, None)
            yield piece
