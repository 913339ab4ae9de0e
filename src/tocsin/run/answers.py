"""The answers of a run over a whole input: columns of event numbers until somebody asks for a table."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

import numpy as np
import pyarrow as pa

from tocsin.encode.thread_team import ThreadTeam
from tocsin.engine.changes import ChangeBatch, Changes, one_batch
from tocsin.engine.kinds import EXPECTED_MATCH, UNCONFIRMED, VIOLATED
from tocsin.engine.payload import View
from tocsin.engine.tables import joined, net, with_times
from tocsin.graph.query_graph import QueryGraph
from tocsin.items import Ints, is_sorted

WORTH_A_THREAD = 1 << 13  # matches
AT_ONCE = 1 << 16  # matches of a part: their columns fit into a cache
KIND_ORDER = (EXPECTED_MATCH, VIOLATED, UNCONFIRMED)  # of rows of one time, before matches


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

    def tables(self, time: pa.DataType | None, names: Collection[str] | None = None) -> list[pa.Table]:
        """The matches of each query, with times as the input had them; of their columns perhaps only those named."""
        final = self.is_final
        return [self._table(stage, time, names if final else None, final=final) for stage in self._batches]

    @property
    def _beside_traces(self) -> bool:
        return self._graph.only_follows_traces and not self._graph.is_plain

    def _table(
        self, stage: int, time: pa.DataType | None, names: Collection[str] | None, *, final: bool
    ) -> pa.Table:  # fmt: skip
        batches = self._batches[stage]
        if not batches:
            return with_times(self._graph.nothing(stage).table(names), time)
        if self.view is None or self._graph.copies.chose:
            table = joined([batch.table() for batch in batches])
            if self._beside_traces:
                table = table.take(pa.array(order_beside_traces([standing_of(batch) for batch in batches])))
            elif self._graph.order.kind == "in-order":
                table = _taken(table, _order([AnswerPlaces.of(batch) for batch in batches], waits=self._graph.waits))
            return with_times(net(table), time)
        kinds: dict[tuple[str, str | None], list[ChangeBatch]] = {}
        for batch in batches:
            kinds.setdefault((batch.kind, batch.step), []).append(batch)
        if len(kinds) > 1:
            wholes = [replace(one_batch(each), payload=self.view) for each in kinds.values()]
            return net(_side_by_side(wholes, time, waits=self._graph.waits))
        if not stand_in_order(batches, waits=self._graph.waits):
            batches = [in_order(one_batch(batches), waits=self._graph.waits)]
        count = sum(map(len, batches))
        threads = max(1, min(self._threads, count // WORTH_A_THREAD))
        parts = in_parts(batches, max(1, min(AT_ONCE, -(-count // threads))))
        with ThreadTeam(threads) as workers:
            tables = workers.all([partial(_seen, part, self.view, time, names) for part in parts])
        table = joined(tables)
        return table if final else net(table)


def _side_by_side(wholes: Sequence[ChangeBatch], time: pa.DataType | None, *, waits: bool) -> pa.Table:
    """Changes of several kinds, such as matches and timeouts, in the order that those of one kind have."""
    table = joined([_shown(whole, time) for whole in wholes])
    return _taken(table, _order([AnswerPlaces.of(whole) for whole in wholes], waits=waits))


def _taken(table: pa.Table, order: Ints | None) -> pa.Table:
    return table if order is None else table.take(pa.array(order))


def _shown(batch: ChangeBatch, time: pa.DataType | None) -> pa.Table:
    return with_times(batch.table(), time)


def _seen(part: ChangeBatch, view: View, time: pa.DataType | None, names: Collection[str] | None) -> pa.Table:
    """A part of the table; what was found out on the way is forgotten, so that the next part has its memory."""
    return with_times(replace(part, payload=view).table(names), time)


def in_parts(batches: Sequence[ChangeBatch], most: int) -> Iterator[ChangeBatch]:
    """The changes in parts of so many: what is worked on together stays near, and becomes a piece of the table.

    Large batches are cut where they are, small ones become one; there is one part at least.
    """
    small: list[ChangeBatch] = []
    count = 0
    for batch in batches:
        if small and count + len(batch) > most:
            yield one_batch(small)
            small, count = [], 0
        pieces = max(1, round(len(batch) / most))
        if pieces == 1:
            small.append(batch)
            count += len(batch)
        else:
            if small:
                yield one_batch(small)
                small, count = [], 0
            cuts = [len(batch) * at // pieces for at in range(pieces + 1)]
            yield from (batch.between(*cut) for cut in pairwise(cuts))
    if small:
        yield one_batch(small)


def stand_in_order(batches: Sequence[ChangeBatch], *, waits: bool) -> bool:
    """Whether changes, batch after batch, stand as `in_order` would have them, as far as one look can tell."""
    known, last = -1 << 63, -1
    for batch in batches:
        if waits or not len(batch):
            continue
        mine = _last_events(batch.fixed, len(batch))
        if not (known <= batch.known_at[0] and last <= mine[0] and is_sorted(batch.known_at) and is_sorted(mine)):
            return False
        known, last = batch.known_at[-1], mine[-1]
    return not waits


@dataclass(frozen=True, slots=True)
class AnswerPlaces:
    """What tells where changes stand among others: their kind, when they were known, and their events.

    events  the number of the event of each variable
    sets    of each repeated variable how many members there are, and which is the last
    """

    kind: tuple[str, str]
    known_at: Ints
    events: list[Ints]
    sets: list[Ints]

    @classmethod
    def of(cls, batch: ChangeBatch) -> AnswerPlaces:
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
    order = _order([AnswerPlaces.of(batch)], waits=waits)
    return batch if order is None else batch.pick(order)


def _order(places: Sequence[AnswerPlaces], *, waits: bool) -> Ints | None:
    """The rows of changes in that order; None: they stand in it."""
    known_at, *events = map(np.concatenate, zip(*((each.known_at, *each.events) for each in places), strict=True))
    last = _last_events(events, len(known_at))
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


def _last_events(fixed: Sequence[Ints], count: int) -> Ints:
    """The last event of each change, of those that stand alone."""
    last: Ints = np.full(count, -1, np.int64)
    for each in fixed:
        np.maximum(last, each, out=last)
    return last


def standing_of(batch: ChangeBatch) -> tuple[Ints, ...]:
    """What tells where changes stand among those of a query under constraints: when known, of when, and which."""
    start, end = batch.span
    high, low = batch.identity
    kinds = np.full(len(batch), KIND_ORDER.index(batch.kind) if batch.kind in KIND_ORDER else len(KIND_ORDER))
    return batch.known_at, end, start, kinds, high.view(np.int64), low.view(np.int64)


def order_beside_traces(standing: Sequence[tuple[Ints, ...]]) -> Ints:
    """The order of matches and rows about traces, whatever pieces and threads they came from."""
    order: Ints = np.lexsort([np.concatenate(each) for each in zip(*standing, strict=True)][::-1])
    return order


class GrowingTables:
    """The changes of some queries as tables, made at once, so that the graph may forget the events behind them."""

    def __init__(self, graph: QueryGraph, shown: Sequence[int]) -> None:
        self._graph, self.is_final, self._count = graph, True, 0
        self._beside_traces = graph.only_follows_traces and not graph.is_plain
        self._tables: dict[int, list[pa.Table]] = {stage: [] for stage in shown}
        self._standing: dict[int, list[tuple[Ints, ...]]] = {stage: [] for stage in shown}  # beside rows about traces
        self._places: dict[int, list[AnswerPlaces]] = {stage: [] for stage in shown}  # elsewhere

    def add(self, changes: Changes) -> None:
        """Take what a push has brought."""
        for batch in changes:
            if batch.stage in self._tables and len(batch):
                self._tables[batch.stage].append(batch.table())
                if self._beside_traces:
                    self._standing[batch.stage].append(standing_of(batch))
                else:
                    self._places[batch.stage].append(AnswerPlaces.of(batch))
                self._count += len(batch)
                self.is_final &= bool((batch.op > 0).all())

    def counted(self, changes: Changes) -> int:
        """How many of some changes are of the shown queries."""
        return sum(len(batch) for batch in changes if batch.stage in self._tables)

    def __len__(self) -> int:
        """How many changes there are, withdrawals included."""
        return self._count

    def tables(self, time: pa.DataType | None, names: Collection[str] | None = None) -> list[pa.Table]:  # noqa: ARG002
        """The matches of each query, with times as the input had them; whoever names columns picks them."""
        return [self._table(stage, time) for stage in self._tables]

    def _table(self, stage: int, time: pa.DataType | None) -> pa.Table:
        tables = self._tables[stage]
        if not tables:
            return with_times(self._graph.nothing(stage).table(), time)
        table = joined(tables)
        if self._beside_traces:
            table = table.take(pa.array(order_beside_traces(self._standing[stage])))
        elif self._graph.order.kind == "in-order":
            table = _taken(table, _order(self._places[stage], waits=self._graph.waits))
        return net(with_times(table, time))
