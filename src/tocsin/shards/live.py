"""The query graphs of a shard in memory, which a worker keeps between micro-batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.codec import pack, reading, unpack
from tocsin.engine.replay import replay
from tocsin.events import BEGINNING, END_OF_TIME
from tocsin.graph.carry_over import hold, names_held, only_waiting, waiting_in
from tocsin.graph.query_graph import QueryGraph
from tocsin.items import Items, advanced, end, tick
from tocsin.plan.changed_rule import predecessors
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

    def take(self, blocks: Sequence[tuple[int, TimedRows]], guarantee: int, clock: int) -> Iterator[pa.RecordBatch]:
        """Push numbered blocks of rows, then what is known of time; give the answers with the columns of the result."""
        for cohort in self.cohorts:
            cohort.graph.last = max(cohort.graph.last, clock)
            for items in self._items(cohort, blocks, guarantee, clock):
                yield from self.job.answers(cohort.numbers, cohort.graph.push(items))

    def replay(self, blocks: Sequence[tuple[int, TimedRows]], guarantee: int, clock: int) -> None:
        """Push blocks again whose answers were given when the rows came."""
        for cohort in self.cohorts:
            for items in self._items(cohort, blocks, guarantee, clock):
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
            due = [c for items in self._items(cohort, blocks, guarantee, clock) for c in cohort.graph.push(items)]
            if cohort.since:
                continue
            units = self.job.units_before(cohort.units)
            old = Cohort(0, units, *self.job.graph_before(units))
            for items in self._items(old, blocks, guarantee, clock):
                replay(old.graph, items)
            for number, at in predecessors(old.graph.plans, cohort.graph.plans).items():
                operator, waiting = cohort.graph.stages[number].operator, waiting_in(old.graph.stages[at].operator)
                names = names_held(operator)
                decided += [f"{name:x}" for name in names[~np.isin(names, waiting)].tolist()]
                mine = [batch for batch in due if batch.stage == number]
                owed += self.job.answers(cohort.numbers, only_waiting(number, operator, mine, waiting))
        return owed, decided

    def forget(self, decided: Sequence[str]) -> None:
        """Wait no more with answers that were decided before queries were changed; replaying the log finds them."""
        names = np.array([int(name, 16) for name in decided], np.uint64)
        for cohort in self.cohorts if decided else ():
            for stage in cohort.graph.stages:
                hold(stage.operator, lambda mine: ~np.isin(mine, names))

    def _items(
        self, cohort: Cohort, blocks: Sequence[tuple[int, TimedRows]], guarantee: int, clock: int
    ) -> Iterator[Items]:
        """Give what a cohort is told. A strategy that sorts sees only rows before the guarantee, others see all."""
        mine = [rows for number, rows in blocks if number >= cohort.since and len(rows)]
        if self.job.strategy.sorts:
            ripe, cohort.held = released([*cohort.held, *mine], guarantee)
            if ripe is not None:
                yield cohort.graph.encode(ripe)
        else:
            for rows in mine:
                yield cohort.graph.encode(self._arranged(rows))
            yield tick(clock)
        if guarantee > BEGINNING:
            yield end() if guarantee >= END_OF_TIME else advanced(guarantee - 1)

    def _arranged(self, block: TimedRows) -> pa.RecordBatch:
        """Return the rows of a block by arrival, or by time where no column tells the arrival."""
        arrival = self.job.arrival
        if arrival is not None and arrival in block.rows.schema.names:  # a block may be older than the wish
            return block.rows.take(pc.sort_indices(block.rows, sort_keys=[(arrival, "ascending")]))
        return block.in_order

    @property
    def waiting(self) -> int:
        """Count the rows that wait for the guarantee, or the answers that are held."""
        if not self.job.strategy.sorts:
            return sum(cohort.graph.counters.waiting for cohort in self.cohorts)
        return max((sum(map(len, cohort.held)) for cohort in self.cohorts), default=0)
