"""The query graphs of a shard in memory, which a worker keeps between micro-batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.codec import pack, reading, unpack
from tocsin.engine.changes import Changes
from tocsin.engine.replay import replay
from tocsin.errors import InputError
from tocsin.events import BEGINNING, END_OF_TIME
from tocsin.graph.carry_over import hold, names_held, only_waiting, waiting_in
from tocsin.graph.query_graph import QueryGraph
from tocsin.items import Items, advanced, end, tick
from tocsin.order.begins import Unended
from tocsin.plan.changed_rule import predecessors
from tocsin.shards.announced import ITEM, RowItem, apart, are, encoded
from tocsin.shards.job import Job, Shards
from tocsin.shards.routes import Unit
from tocsin.shards.timed_rows import TimedRows, released


@dataclass(slots=True)
class Cohort:
    """The units that began with the same block, as one query graph; `held` rows wait for the guarantee."""

    since: int
    units: list[Unit]
    graph: QueryGraph
    numbers: list[int]
    held: list[TimedRows] = field(default_factory=list)


class Live:
    """The query graphs of a shard, up to date with all blocks before `next`; `since` says where each unit began."""

    def __init__(self, job: Job, shards: Shards, since: Mapping[str, int], *, timed_ids: bool = True) -> None:
        self.job, self.next, self.token = job, 0, ""
        self.late: list[tuple[pa.RecordBatch, int]] = []  # what the last batch set aside: the rows, and its place there
        self.bad: list[tuple[pa.RecordBatch, str]] = []  # begins that cannot be, and why
        self.unended: list[Unended] = []  # what the last batch has shown never to end
        by_since: dict[int, list[Unit]] = {}
        for unit in shards.group.units:
            by_since.setdefault(since[unit.name], []).append(unit)
        self.cohorts = [
            Cohort(block, units, *job.graph(shards.group, units, timed_ids=timed_ids, live=True))
            for block, units in sorted(by_since.items())
        ]

    @property
    def graphs(self) -> list[QueryGraph]:
        return [cohort.graph for cohort in self.cohorts]

    def take(
        self,
        blocks: Sequence[tuple[int, TimedRows]],
        guarantee: int,
        clock: int,
        begun: Mapping[str | None, int] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Push numbered blocks of rows, then what is known of time; give the answers with the columns of the result.

        `begun` says by type until when all begins are there; `late` and `unended` tell what came of begins.
        """
        self.late, self.bad, self.unended = [], [], []
        for cohort in self.cohorts:
            graph = cohort.graph
            graph.last = max(graph.last, clock)
            for items, rows in self._items(cohort, blocks, guarantee, clock):
                yield from self.job.answers(cohort.numbers, self._pushed(graph, items, rows))
            for type, until in (begun or {}).items():
                yield from self.job.answers(cohort.numbers, self._pushed(graph, graph.begin_guarantee(type, until)))
            graph.begins.behind = guarantee

    def _pushed(self, graph: QueryGraph, items: Items, rows: pa.RecordBatch | None = None) -> Changes:
        """Push items, made from some rows, and note what that says beside answers."""
        try:
            found = graph.push(items)
        except InputError as error:
            if rows is None or not self.job.keep_bad or not self.job.announces:
                raise
            self.bad.append((rows, error.message))
            return Changes()
        if rows is not None:
            self.late += [(rows, at) for at in found.late]
        self.unended += graph.begins.unended
        return found

    def open_begins(self) -> Iterable[str]:
        """The eids of the intervals that have begun, as texts."""
        return {str(opened.eid) for graph in self.graphs for opened in graph.begins.open.values()}

    def replay(self, blocks: Sequence[tuple[int, TimedRows]], guarantee: int, clock: int) -> None:
        """Push blocks again whose answers were given when the rows came."""
        for cohort in self.cohorts:
            for items, _ in self._items(cohort, blocks, guarantee, clock):
                replay(cohort.graph, items)

    @property
    def states(self) -> list[bytes]:
        """The state of each graph, where that is what a shard stores."""
        return [pack(graph.snapshot()) for graph in self.graphs]

    def resume(self, states: Sequence[bytes], blocks: Sequence[tuple[int, TimedRows]], guarantee: int) -> None:
        """Go on from stored states; of the rows only those count that wait for the guarantee."""
        for graph, state in zip(self.graphs, states, strict=False):  # units that were added have none
            with reading("the state of a shard"):
                graph.restore(unpack(state))
        for cohort in self.cohorts if self.job.strategy.sorts else ():
            mine = [rows for number, rows in blocks if number >= cohort.since and len(rows)]
            _, cohort.held = released(mine, guarantee)
        for graph in self.graphs:
            graph.begins.behind = guarantee

    def take_over(
        self, blocks: Sequence[tuple[int, TimedRows]], guarantee: int, clock: int
    ) -> tuple[list[pa.RecordBatch], list[str]]:
        """Push blocks that were stored for queries which have been changed since (`graph/carry_over`).

        Gives the answers that the old queries still waited with and that are due by the changed ones; and the names of
        answers that only the changed ones would wait with: the old ones have decided them.
        """
        owed: list[pa.RecordBatch] = []
        decided: list[str] = []
        for cohort in self.cohorts:
            due = [c for items, _ in self._items(cohort, blocks, guarantee, clock) for c in cohort.graph.push(items)]
            if cohort.since:
                continue
            units = self.job.units_before(cohort.units)
            old = Cohort(0, units, *self.job.graph_before(units))
            for items, _ in self._items(old, blocks, guarantee, clock):
                replay(old.graph, items)
            for number, at in predecessors(old.graph.plans, cohort.graph.plans).items():
                stage, waiting = cohort.graph.stages[number], waiting_in(old.graph.stages[at])
                names = names_held(stage)
                decided += [f"{name:x}" for name in names[~np.isin(names, waiting)].tolist()]
                mine = [batch for batch in due if batch.stage == number]
                owed += self.job.answers(cohort.numbers, only_waiting(number, stage, mine, waiting))
        return owed, decided

    def forget(self, decided: Sequence[str]) -> None:
        """Wait no more with answers that were decided before queries were changed; replaying the log finds them."""
        names = np.array([int(name, 16) for name in decided], np.uint64)
        for cohort in self.cohorts if decided else ():
            for stage in cohort.graph.stages:
                hold(stage, lambda mine: ~np.isin(mine, names))

    def _items(
        self, cohort: Cohort, blocks: Sequence[tuple[int, TimedRows]], guarantee: int, clock: int
    ) -> Iterator[tuple[Items, pa.RecordBatch | None]]:
        """Give what a cohort is told, with the rows that say it.

        A strategy that sorts sees only rows before the guarantee, others see all.
        """
        mine = [rows for number, rows in blocks if number >= cohort.since and len(rows)]
        if self.job.strategy.sorts:
            ripe, cohort.held = released([*cohort.held, *mine], guarantee)
            if ripe is not None:
                yield cohort.graph.encode(ripe), ripe
        else:
            for block in mine:
                rows = self._arranged(block)
                for piece in apart(rows) if self.job.keep_bad and ITEM in rows.schema.names else [rows]:
                    yield encoded(cohort.graph, piece), piece
            yield tick(clock), None
        if guarantee > BEGINNING:
            yield end() if guarantee >= END_OF_TIME else advanced(guarantee - 1), None

    def _arranged(self, block: TimedRows) -> pa.RecordBatch:
        """Return the rows of a block by arrival, or by time where no column tells the arrival."""
        arrival = self.job.arrival
        if arrival is not None and arrival in block.rows.schema.names:  # a block may be older than the wish
            return block.rows.take(pc.sort_indices(block.rows, sort_keys=[(arrival, "ascending")]))
        if ITEM in block.rows.schema.names:  # at equal times begins come before ends
            places = np.lexsort((~are(block.rows, RowItem.BEGIN), block.ends))
            return block.rows.take(pa.array(places))
        return block.in_order

    @property
    def waiting(self) -> int:
        """Count the rows that wait for the guarantee, or the answers that are held."""
        if not self.job.strategy.sorts:
            return sum(cohort.graph.counters.waiting for cohort in self.cohorts)
        return max((sum(map(len, cohort.held)) for cohort in self.cohorts), default=0)
