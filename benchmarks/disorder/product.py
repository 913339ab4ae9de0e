"""The product as an arm: everything the disorder benchmark knows of Tocsin's own strategies is in this module.

ready(query, table)                 parsed, bound, encoded once
ready.fresh("aggressive(30)")       a detector behind a strategy, written as users write it, that has seen nothing
Strategy(...)                       the same behind the interface of the other arms, event by event
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from benchmarks.disorder.baselines.engine import Engine
from benchmarks.disorder.baselines.pattern import Change, Event, Given, Pattern, Pog
from tocsin.encode import Columns, Encoder, infer_schema
from tocsin.encode.stored import RowReader
from tocsin.engine.changes import Changes
from tocsin.engine.detector import Detector
from tocsin.engine.operator import Operator
from tocsin.errors import TocsinError
from tocsin.items import Items, Strings, end, guarantee
from tocsin.lang.parser import parse
from tocsin.lang.syntax import leaves_of
from tocsin.order.auto import Auto
from tocsin.order.sort import Sort
from tocsin.order.strategy import Strategy as Chosen
from tocsin.order.strategy import parse_strategy
from tocsin.plan.bind import bind
from tocsin.plan.block import Plan
from tocsin.plan.passes import optimize
from tocsin.schema import Schema
from tocsin.spill.detector import Spilling

TYPES = "ABCDEFGHIJ"
CHUNK = 1 << 16  # rows per push where throughput is measured
HERE = ("in-order", "slack", "conservative", "aggressive", "hybrid", "auto")  # what `fresh` can make


def known(order: str) -> bool:
    """Whether this strategy can be measured now."""
    try:
        return parse_strategy(order, Schema()).kind in HERE
    except TocsinError:
        return False


@dataclass(frozen=True, slots=True)
class Disk:
    """A memory limit in bytes, and when what was spilled is loaded: so many events wait, or one for so many events."""

    limit: int
    many: int | None = None
    patience: int | None = None


@dataclass(frozen=True)
class Ready:
    """A query and its input, ready to be measured."""

    plan: Plan
    types: tuple[str, ...]
    strings: Strings
    encoder: Encoder
    table: pa.Table

    @cached_property
    def chunks(self) -> list[Items]:
        return [self.encoder.encode(batch) for batch in self.batches]

    @cached_property
    def batches(self) -> list[pa.RecordBatch]:
        return list(self.table.to_batches(max_chunksize=CHUNK))

    @cached_property
    def rows(self) -> list[Items]:
        """Every event by itself."""
        return [self.encoder.encode(batch) for batch in self.table.to_batches(max_chunksize=1)]

    def fresh(self, order: str, disk: Disk | None = None) -> Operator:
        strategy = parse_strategy(order, self.plan.schema)
        if strategy.kind not in HERE:
            raise ValueError(f"{order!r} cannot be measured yet")
        if strategy.kind == "auto":
            every = frozenset(self.types)
            return Auto(
                self.plan,
                self.types,
                lambda held: self._detector(strategy, every if held else frozenset()),
                strategy.late,
            )
        detector = self._detector(strategy, strategy.held_types(self.types))
        if strategy.kind == "slack":
            reader = RowReader(self.plan.schema, self.types, self.strings, Strings(), detector.reads)
            return Sort(detector, strategy, reader, tells=False)
        return detector if disk is None else Spilling(detector, disk.limit, many=disk.many, patience=disk.patience)

    def _detector(self, how: Chosen, hold: frozenset[str]) -> Detector:
        return Detector(
            self.plan, self.types, self.strings, ordered=how.sorts, late=how.late, hold=hold,
            immediate=how.immediate, by_type=how.kind != "auto",
        )  # fmt: skip

    def work(self, order: str, *, encoded: bool = True) -> Callable[[], int]:
        """The detector is made now; pushing everything is left to the caller's clock. Gives the number of answers.

        `encoded` leaves out the way from Arrow to what a detector eats.
        """
        detector, chunks, encode = self.fresh(order), self.chunks if encoded else (), self.encoder.encode
        batches = () if encoded else self.batches

        def push_all() -> int:
            found = sum(net_count(detector.push(items)) for items in chunks)
            found += sum(net_count(detector.push(encode(batch))) for batch in batches)
            return found + net_count(detector.push(end()))

        return push_all


def net_count(said: Changes) -> int:
    return sum(int(np.sum(batch.op, dtype=np.int64)) for batch in said)


def ready(query: str, table: pa.Table) -> Ready:
    """Parse, bind and optimize; the events are encoded when they are first needed."""
    columns, strings, syntax = Columns(), Strings(), parse(query)
    types = tuple(dict.fromkeys(leaf.type for leaf in leaves_of(syntax.pattern)))
    schema = infer_schema(table.schema, columns, TYPES)
    plan = optimize(bind(syntax, schema))
    return Ready(plan, types, strings, Encoder(schema, types, strings, columns, ("id", "v")), table)


class Strategy(Engine):
    """A strategy of the product behind the interface of the arms: one event a push."""

    def __init__(
        self, pattern: Pattern, prepared: Ready, events: list[Event], order: str, disk: Disk | None = None
    ) -> None:
        super().__init__(pattern)
        self.detector = prepared.fresh(order, disk)
        self.types = prepared.types
        self.by_eid = {event.eid: event for event in events}
        self.row = {event.number: row for event, row in zip(events, prepared.rows, strict=True)}

    def work(self, given: Given) -> Changes | None:
        if isinstance(given, Event):
            return self.detector.push(self.row[given.number])
        if given.type not in self.types or isinstance(self.detector, Sort):  # a sorter goes by its delay
            return None
        return self.detector.push(guarantee(given.ts, self.types.index(given.type)))

    def on_event(self, event: Event) -> list[Change]:
        self.clock = max(self.clock, event.ts)
        self.counters.inserts += 1
        return self._translated(self.work(event))

    def on_pog(self, pog: Pog) -> list[Change]:
        return self._translated(self.work(pog))

    def flush(self) -> list[Change]:
        return self._translated(self.detector.push(end()))

    def size(self) -> int:
        counters = self.detector.counters
        return int(counters.live + counters.waiting)

    def _translated(self, said: Changes | None) -> list[Change]:
        changes: list[Change] = []
        for op, binding in said.bindings() if said is not None else ():
            sequence = tuple(self.by_eid[str(eid)] for _, eids in binding for eid in eids)
            changes += self.plus([sequence]) if op > 0 else self.minus([sequence])
        return changes
