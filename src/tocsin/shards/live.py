"""The query graphs of a shard in memory, which a worker keeps between micro-batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from tocsin.engine.replay import replay
from tocsin.events import BEGINNING, END_OF_TIME
from tocsin.graph.query_graph import QueryGraph
from tocsin.items import Items, advanced, end, tick
from tocsin.shards.job import Job, Shards
from tocsin.shards.routes import Unit
from tocsin.shards.timed_rows import TimedRows, released


@dataclass(slots=True)
class Cohort:
    """The units that began with the same block, as one query graph; `held` rows wait for the guarantee."""

    since: int
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
            Cohort(block, *job.graph(shards.group, units, timed_ids=timed_ids))
            for block, units in sorted(by_since.items())
        ]

    @property
    def graphs(self) -> list[QueryGraph]:
        return [cohort.graph for cohort in self.cohorts]

    def take(self, blocks: Sequence[tuple[int, TimedRows]], guarantee: int, clock: int) -> Iterator[pa.RecordBatch]:
        """Push numbered blocks of rows, then what is known of time; give the answers with the columns of the result."""
        for cohort, items in self._items(blocks, guarantee, clock):
            yield from self.job.answers(cohort.numbers, cohort.graph.push(items))

    def replay(self, blocks: Sequence[tuple[int, TimedRows]], guarantee: int, clock: int) -> None:
        """Push blocks again whose answers were given when the rows came."""
        for cohort, items in self._items(blocks, guarantee, clock):
            replay(cohort.graph, items)

    def _items(
        self, blocks: Sequence[tuple[int, TimedRows]], guarantee: int, clock: int
    ) -> Iterator[tuple[Cohort, Items]]:
        """Give what each cohort is told. A strategy that sorts sees only rows before the guarantee, others see all."""
        for cohort in self.cohorts:
            mine = [rows for number, rows in blocks if number >= cohort.since and len(rows)]
            if self.job.strategy.sorts:
                ripe, cohort.held = released([*cohort.held, *mine], guarantee)
                if ripe is not None:
                    yield cohort, cohort.graph.encode(ripe)
            else:
                for rows in mine:
                    yield cohort, cohort.graph.encode(self._arranged(rows))
                yield cohort, tick(clock)
            if guarantee > BEGINNING:
                yield cohort, end() if guarantee >= END_OF_TIME else advanced(guarantee - 1)

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
