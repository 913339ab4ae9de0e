"""A finite input through a graph: in order of time, on as many threads as it can be cut for, or as it comes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tocsin.encode.batch import one_batch
from tocsin.encode.columns import Columns
from tocsin.encode.merge import Rearranged, sliced
from tocsin.encode.thread_team import ThreadTeam
from tocsin.encode.whole import UsableRows
from tocsin.engine.payload import View
from tocsin.engine.replay import replay
from tocsin.graph.query_graph import QueryGraph
from tocsin.items import Ints
from tocsin.items import end as end_of_stream
from tocsin.run.answers import Answers
from tocsin.run.feeds import Feed, ItemFeed, feed_of, whole_chunk
from tocsin.run.inputs import with_dictionaries
from tocsin.run.pace import Done, Pace, Watcher
from tocsin.run.session import shown_counters
from tocsin.run.slices import OWN, Slice, slices_of
from tocsin.run.split import Counted, Split, why_not

NONE: Ints = np.zeros(0, np.int64)


def run_finite(
    split: Split, rows: UsableRows, shown: tuple[int, ...], watch: Watcher | None, enough: int | None,
    workers: ThreadTeam,
) -> tuple[Answers, dict[str, int]]:  # fmt: skip
    """Feed rows in order of time, then end the stream; the answers of the shown queries, and what was counted.

    Several threads take slices of time, or else the events of some keys. Once there are `enough` matches, no more is
    fed.
    """
    graph = split.first
    feed = feed_of(graph, rows, workers)
    if workers.count > 1 and enough is None:
        if (slices := slices_of(graph, feed.end, workers.count)) is not None:
            found = run_in_slices(split, feed, slices, shown, watch, workers)
            return found or _alone(split, rows, shown, watch, workers)
        if why_not(graph) is None:
            items = feed.items if isinstance(feed, ItemFeed) else graph.encode_whole(rows, workers)
            found = run_by_key(split, items, len(rows), shown, watch, workers)
            return found or _alone(split, rows, shown, watch, workers)
    return run_in_order(graph, feed, shown, watch, enough, workers), shown_counters(graph)


def _alone(
    split: Split, rows: UsableRows, shown: tuple[int, ...], watch: Watcher | None, workers: ThreadTeam
) -> tuple[Answers, dict[str, int]]:
    """Where copies of events differ, graphs have numbered events otherwise: once more with one graph."""
    graph = split.fresh()
    return run_in_order(graph, ItemFeed(graph, rows, workers), shown, watch, None, workers), shown_counters(graph)


def run_in_order(
    graph: QueryGraph, feed: Feed, shown: tuple[int, ...], watch: Watcher | None, enough: int | None,
    workers: ThreadTeam,
) -> Answers:  # fmt: skip
    """Feed one graph, then end the stream; once there are `enough` matches, no more is fed."""
    reader, found = feed.reader(graph), Answers(graph, shown, feed.view, workers.count)
    said, numbers, done = [], [], Done(len(feed.end), watch)
    if not len(feed.end):  # nobody reads any row
        graph.pass_over(feed.count)
    with done:
        for first, last in Pace(growing=enough is not None).chunks(0, len(feed.end)):
            stretch = reader.read(first, last)
            numbers.append(stretch.numbers)
            said.append(stretch.push_to(graph))
            done.more(stretch.seen, found.counted(said[-1]))
            if enough is not None and done.matches >= enough:
                break
        else:
            said.append(graph.push(end_of_stream()))
    share = None if feed.is_encoded else np.concatenate([NONE, *numbers])
    for changes in said:
        found.add(changes, share)
    return found


# --- slices of time ------------------------------------------------------------------------------------------------


def run_in_slices(
    split: Split, feed: Feed, slices: list[Slice], shown: tuple[int, ...], watch: Watcher | None, workers: ThreadTeam
) -> tuple[Answers, dict[str, int]] | None:
    """A graph for each slice of time, which reads its rows by itself; None: copies of events differ.

    A slice begins earlier and ends later than the matches that it owns, as far as others can decide them.
    """
    graphs = split.graphs(len(slices), shares_texts=feed.is_encoded)
    readers = [feed.reader(graph) for graph in graphs]
    for graph, reader in zip(graphs, readers, strict=True):  # kernels are made before threads begin
        replay(graph, reader.read(0, 0).items)
    found, done = Answers(split.first, shown, feed.view, workers.count), Done(len(feed.end), watch)

    def work(at: int) -> tuple[Answers, Counted]:
        graph, mine, pace = graphs[at], slices[at], Pace()
        said, numbers, counted = [], [], []
        for place, stretch in enumerate(mine.stretches):
            counted.append(split.counted(graph))
            for first, last in pace.chunks(*stretch):
                workers.check()
                read = readers[at].read(first, last)
                numbers.append(read.numbers)
                said.append(mine.owned(read.push_to(graph), place))
                done.more(last - first if place == OWN else 0, found.counted(said[-1]))
        said.append(mine.owned(graph.push(end_of_stream()), len(mine.stretches)))
        own, numbered = Answers(split.first, shown, feed.view), np.concatenate([NONE, *numbers])
        for changes in said:
            own.add(changes, numbered)
        return own, counted[OWN + 1].since(counted[OWN])

    with done:
        work_done = workers.all([lambda at=at: work(at) for at in range(len(slices))])  # type: ignore[misc]
    if any(graph.copies.chose for graph in graphs):
        return None
    for own, _ in work_done:
        found.take_over(own)
    return found, split.together([counted for _, counted in work_done])


# --- keys ----------------------------------------------------------------------------------------------------------


def run_by_key(
    split: Split, whole: Rearranged, rows: int, shown: tuple[int, ...], watch: Watcher | None, workers: ThreadTeam
) -> tuple[Answers, dict[str, int]] | None:
    """A graph for each thread, which sees all events of some keys; None: copies of events differ."""
    graphs, shares = split.graphs(workers.count, shares_texts=True), split.shares(whole, workers)
    split.first.pass_over(rows - len(whole))
    for graph in graphs:  # kernels are made, and texts of queries numbered, before threads begin
        replay(graph, sliced(whole, 0, 0))
    view = View([whole_chunk(whole)]) if split.first.is_plain else None
    found, done = Answers(split.first, shown, view, workers.count), Done(rows, watch)
    done.more(rows - len(whole), 0)

    def work(at: int) -> Answers:
        graph, mine, own = graphs[at], shares[at], Answers(split.first, shown, found.view)
        for first, last in Pace().chunks(0, len(mine)):
            workers.check()
            said = graph.push(Rearranged(whole, mine[first:last]))
            own.add(said, mine if view else None)
            done.more(last - first, found.counted(said))
        own.add(graph.push(end_of_stream()), mine if view else None)
        return own

    with done:
        work_done = workers.all([lambda at=at: work(at) for at in range(len(graphs))])  # type: ignore[misc]
    if any(graph.copies.chose for graph in graphs):
        return None
    for own in work_done:
        found.take_over(own)
    return found, split.together([split.counted(graph) for graph in graphs])


# --- other orders --------------------------------------------------------------------------------------------------


def run_as_it_comes(
    graph: QueryGraph,
    table: pa.Table,
    columns: Columns,
    shown: tuple[int, ...],
    watch: Watcher | None,
    enough: int | None = None,
) -> Answers:
    """Feed all rows as they come, in chunks, then end the stream; the answers of the shown queries.

    Once there are `enough` matches, no more is fed.
    """
    found = Answers(graph, shown)
    if table.num_rows:
        table = with_dictionaries(table, graph.wanted, columns)
        for first, last in Pace(growing=enough is not None).chunks(0, table.num_rows):
            if enough is not None and len(found) >= enough:
                break
            found.add(graph.push(graph.encode(one_batch(table.slice(first, last - first)))))
            if watch is not None:
                watch(last, len(found))
    if enough is None or len(found) < enough:
        found.add(graph.push(end_of_stream()))
    return found
