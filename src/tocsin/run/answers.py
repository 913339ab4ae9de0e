"""The answers of a run over a whole input: columns of event numbers until somebody asks for a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

import numpy as np
import pyarrow as pa

from tocsin.encode.thread_team import ThreadTeam
from tocsin.engine.changes import ChangeBatch, Changes, one_batch
from tocsin.engine.payload import View
from tocsin.engine.tables import joined, net, with_times
from tocsin.graph.query_graph import QueryGraph
from tocsin.items import Ints, is_sorted

WORTH_A_THREAD = 1 << 13  # matches


class Answers:
    """The changes of some queries of a graph; `view`: all events that it (and others like it) were given, if plain."""

    def __init__(self, graph: QueryGraph, shown: Sequence[int], view: View | None = None, threads: int = 1) -> None:
        self._graph, self._threads, self.view = graph, threads, view
        self._batches: dict[int, list[ChangeBatch]] = {stage: [] for stage in shown}

    def add(self, changes: Changes, share: Ints | None = None) -> None:
        """Take what a push has brought; `share`: which of all events the graph was given, in order."""
        for batch in changes:
            if batch.stage in self._batches:
                self._batches[batch.stage].append(batch if share is None else batch.renumbered(share))

    def take_over(self, others: Answers) -> None:
        """Take what others have taken, behind what is here."""
        for stage, batches in others._batches.items():
            self._batches[stage] += batches

    def counted(self, changes: Changes) -> int:
        """How many of some changes are of the shown queries."""
        return sum(len(batch) for batch in changes if batch.stage in self._batches)

    def __len__(self) -> int:
        """How many changes there are, withdrawals included."""
        return sum(len(batch) for batches in self._batches.values() for batch in batches)

    @property
    def is_final(self) -> bool:
        """Whether nothing was withdrawn, so that every change is a match."""
        return all((batch.op > 0).all() for batches in self._batches.values() for batch in batches)

    def tables(self, time: pa.DataType | None) -> list[pa.Table]:
        """The matches of each query, with times as the input had them."""
        return [self._table(stage, time) for stage in self._batches]

    def _table(self, stage: int, time: pa.DataType | None) -> pa.Table:
        batches = self._batches[stage]
        if not batches:
            return with_times(self._graph.nothing(stage).table(), time)
        if self.view is None or self._graph.copies.chose:
            table = joined([batch.table() for batch in batches])
            return with_times(net(_as_they_came(table, list(map(Place.of, batches)), self._graph)), time)
        kinds: dict[tuple[str, str | None], list[ChangeBatch]] = {}
        for batch in batches:
            kinds.setdefault((batch.kind, batch.step), []).append(batch)
        wholes = [replace(one_batch(each), payload=self.view) for each in kinds.values()]
        if len(wholes) > 1:
            return net(_side_by_side(wholes, time, waits=self._graph.waits))
        whole = in_order(wholes[0], waits=self._graph.waits)
        threads = max(1, min(self._threads, len(whole) // WORTH_A_THREAD))
        cuts = [len(whole) * at // threads for at in range(threads + 1)]
        with ThreadTeam(threads) as workers:
            parts = [whole] if threads == 1 else [whole.between(*cut) for cut in pairwise(cuts)]
            tables = workers.all([partial(_shown, part, time) for part in parts])
        return net(joined(tables))


def _side_by_side(wholes: Sequence[ChangeBatch], time: pa.DataType | None, *, waits: bool) -> pa.Table:
    """Changes of several kinds, such as matches and timeouts, in the order that those of one kind have."""
    table = joined([_shown(whole, time) for whole in wholes])
    order = _order(list(map(Place.of, wholes)), waits=waits)
    return table if order is None else table.take(pa.array(order))


def _as_they_came(table: pa.Table, places: list[Place], graph: QueryGraph) -> pa.Table:
    """Changes in that order where events came in theirs; else as they were given."""
    order = _order(places, waits=graph.waits) if graph.order.kind == "in-order" else None
    return table if order is None else table.take(pa.array(order))


def _shown(batch: ChangeBatch, time: pa.DataType | None) -> pa.Table:
    return with_times(batch.table(), time)


@dataclass(frozen=True, slots=True)
class Place:
    """What tells where changes stand among others: their kind, when they were known, and their events.

    events  the number of the event of each variable
    sets    of each repeated variable how many members there are, and which is the last
    """

    kind: tuple[str, str]
    known_at: Ints
    events: list[Ints]
    sets: list[Ints]

    @classmethod
    def of(cls, batch: ChangeBatch) -> Place:
        sets: list[Ints] = []
        for _, members in sorted(batch.repeated.items()):
            counts = np.diff(members.offsets)
            last: Ints = np.full(len(counts), -1, np.int64)
            last[counts > 0] = members.events[members.offsets[1:][counts > 0] - 1]
            sets += [counts, last]
        return cls((batch.kind, batch.step or ""), batch.known_at, batch.fixed, sets)


def in_order(batch: ChangeBatch, *, waits: bool) -> ChangeBatch:
    """The changes by when they were known, then by their last event: whatever pieces and threads they came from.

    Where answers wait, several may wait for one time; those of one last event are then told apart by their others, and
    by their kind.
    """
    order = _order([Place.of(batch)], waits=waits)
    return batch if order is None else batch.pick(order)


def _order(places: Sequence[Place], *, waits: bool) -> Ints | None:
    """The rows of changes in that order; None: they stand in it."""
    known_at, *events = map(np.concatenate, zip(*((each.known_at, *each.events) for each in places), strict=True))
    last: Ints = np.full(len(known_at), -1, np.int64)
    for each in events:
        np.maximum(last, each, out=last)
    if is_sorted(known_at) and is_sorted(last) and not waits:
        return None
    keys = [last, known_at]
    if waits:
        named = sorted({each.kind for each in places})
        kinds = np.repeat([named.index(each.kind) for each in places], [len(each.known_at) for each in places])
        sets = list(map(np.concatenate, zip(*(each.sets for each in places), strict=True)))
        keys = [kinds, *sets[::-1], *events[::-1], *keys]
    order = np.lexsort(keys)
    return None if is_sorted(order) else order


class GrowingTables:
    """The changes of some queries as tables, made at once, so that the graph may forget the events behind them."""

    def __init__(self, graph: QueryGraph, shown: Sequence[int]) -> None:
        self._graph, self.is_final, self._count = graph, True, 0
        self._tables: dict[int, list[pa.Table]] = {stage: [] for stage in shown}
        self._places: dict[int, list[Place]] = {stage: [] for stage in shown}

    def add(self, changes: Changes) -> None:
        """Take what a push has brought."""
        for batch in changes:
            if batch.stage in self._tables and len(batch):
                self._tables[batch.stage].append(batch.table())
                self._places[batch.stage].append(Place.of(batch))
                self._count += len(batch)
                self.is_final &= bool((batch.op > 0).all())

    def counted(self, changes: Changes) -> int:
        """How many of some changes are of the shown queries."""
        return sum(len(batch) for batch in changes if batch.stage in self._tables)

    def __len__(self) -> int:
        """How many changes there are, withdrawals included."""
        return self._count

    def tables(self, time: pa.DataType | None) -> list[pa.Table]:
        """The matches of each query, with times as the input had them."""
        return [self._table(stage, time) for stage in self._tables]

    def _table(self, stage: int, time: pa.DataType | None) -> pa.Table:
        tables = self._tables[stage]
        if not tables:
            return with_times(self._graph.nothing(stage).table(), time)
        table = joined(tables)
        return net(with_times(_as_they_came(table, self._places[stage], self._graph), time))
