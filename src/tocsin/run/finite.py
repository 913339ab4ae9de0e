"""A finite input through a graph: in order of time, on as many threads as its keys allow, or as it comes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from tocsin.encode.batch import one_batch
from tocsin.encode.columns import Columns
from tocsin.encode.merge import Rearranged, sliced
from tocsin.encode.thread_team import ThreadTeam
from tocsin.encode.whole import UsableRows
from tocsin.engine.changes import Changes
from tocsin.graph.query_graph import QueryGraph
from tocsin.items import end as end_of_stream
from tocsin.items import is_sorted
from tocsin.run.answers import Answers
from tocsin.run.inputs import with_dictionaries
from tocsin.run.session import shown_counters
from tocsin.run.split import Split

ROWS_PER_CHUNK = 1 << 16
MOST_ROWS = 1 << 18
FIRST_CHUNK = 16  # rows, if few matches are wanted
Watcher = Callable[[int, int], None]  # rows done, matches so far


def run_in_order(
    graph: QueryGraph, rows: UsableRows, shown: tuple[int, ...], watch: Watcher | None, enough: int | None,
    workers: ThreadTeam,
) -> Answers:  # fmt: skip
    """Feed the rows that queries read in order of time, then end the stream; the answers of the shown queries.

    Once there are `enough` matches, no more is fed.
    """
    items = graph.encode_whole(rows, workers)
    found, passed = Answers(graph, shown, items, workers.count), Passed(items, rows)
    for first, count in chunks(len(items), growing=enough is not None):
        if enough is not None and len(found) >= enough:
            break
        found.add(graph.push(sliced(items, first, count)))
        graph.pass_over(passed.until(first + count))
        if watch is not None:
            watch(graph.seen, len(found))
    if enough is None or len(found) < enough:
        graph.pass_over(passed.until(len(items)))
        found.add(graph.push(end_of_stream()))
    return found


class Passed:
    """Counts the rows that nobody reads, as one after the other would meet them."""

    def __init__(self, items: Rearranged, rows: UsableRows) -> None:
        self._order, self._rows, self._done = items.order, len(rows), 0
        self._sorted = is_sorted(items.order)

    def until(self, count: int) -> int:
        """How many lie before the first so many that are read, since the last time; of unsorted ones all at the end."""
        if count == len(self._order):
            upto = self._rows - count
        else:
            upto = int(self._order[count - 1]) + 1 - count if self._sorted else 0
        passed, self._done = upto - self._done, upto
        return passed


def run_split(
    split: Split, rows: UsableRows, shown: tuple[int, ...], watch: Watcher | None, workers: ThreadTeam
) -> tuple[Answers, dict[str, int]]:
    """The same with a graph for each thread: events are split by their key, so that no graph misses anything.

    Also returns what was counted.
    """
    whole = split.first.encode_whole(rows, workers)
    graphs, shares = split.graphs(workers.count), split.shares(whole, workers)
    split.first.pass_over(len(rows) - len(whole))
    for graph in graphs:  # kernels are made, and texts of queries numbered, before threads begin
        graph.push(sliced(whole, 0, 0))

    def work(at: int) -> list[Changes]:
        graph, mine = graphs[at], shares[at]
        said = []
        for first, count in chunks(len(mine), growing=False):
            workers.check()
            said.append(graph.push(Rearranged(whole, mine[first : first + count])))
        return [*said, graph.push(end_of_stream())]

    work_done = workers.all([lambda at=at: work(at) for at in range(len(graphs))])  # type: ignore[misc]
    if any(graph.copies.chose for graph in graphs):  # copies that differ: graphs have numbered events otherwise
        alone = split.fresh()
        return run_in_order(alone, rows, shown, watch, None, workers), shown_counters(alone)
    found = Answers(split.first, shown, whole, workers.count)
    for share, said in zip(shares, work_done, strict=True):
        for changes in said:
            found.add(changes, share)
    if watch is not None:
        watch(len(rows), len(found))
    return found, split.counters(graphs)


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
        for first, rows in chunks(table.num_rows, growing=enough is not None):
            if enough is not None and len(found) >= enough:
                break
            found.add(graph.push(graph.encode(one_batch(table.slice(first, rows)))))
            if watch is not None:
                watch(first + rows, len(found))
    if enough is None or len(found) < enough:
        found.add(graph.push(end_of_stream()))
    return found


def chunks(rows: int, *, growing: bool) -> Iterator[tuple[int, int]]:
    """Cut rows into chunks: where each begins, and its size. Growing ones are small first.

    >>> list(chunks(50, growing=True))
    [(0, 16), (16, 32), (48, 2)]
    """
    first, size = 0, FIRST_CHUNK if growing else ROWS_PER_CHUNK
    while first < rows:
        yield first, min(size, rows - first)
        first, size = first + size, min(2 * size, ROWS_PER_CHUNK if growing else MOST_ROWS)
