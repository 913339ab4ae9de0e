"""The harness: a query and a way to run it, as a graph that is driven item by item; what it says and what it keeps.

    run = Harness("EVENT SEQ(A a, !C c, B b) WITHIN 10").start("conservative").feed("a1 b5 @C>4")
    run.changes, run.net        every change so far, and what stands after them
    run.state, run.counters     what is stored, and what was counted
    run.restart()               go on in a new graph, from the saved state

Everything goes the way of a user's events: through lateness, sorting and the graph, by the one verb `push`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from tocsin.codec import pack, unpack
from tocsin.encode import Columns, from_dicts, infer_schema
from tocsin.encode.row import RowEncoder
from tocsin.engine.changes import ChangeBatch, Changes
from tocsin.engine.detector import Detector
from tocsin.engine.inspect import stored
from tocsin.engine.operator import Around, Counters, Operator
from tocsin.events import Event
from tocsin.functions import Function, registered
from tocsin.graph.query_graph import QueryGraph
from tocsin.items import ItemKind, Items, end
from tocsin.lang.parser import parse_all
from tocsin.lang.syntax import Query
from tocsin.order.begins import Unended
from tocsin.order.strategy import Strategy, parse_strategy
from tocsin.plan.bind import bind_all
from tocsin.plan.block import Plan
from tocsin.plan.passes import optimize
from tocsin.schema import Schema
from tocsin.spill.detector import Spilling
from tocsin.testing.levels import Change
from tocsin.testing.notation import Begin, Item, Promise, Withdrawal, history
from tocsin.testing.oracle import Binding, Match, matches

Rows: TypeAlias = Sequence[Event] | pa.RecordBatch | pa.Table

OF_EVENTS = Columns(time="start", end="end")  # an attribute may be called time
OPEN = Schema(open_types=True, open_fields=True)


@dataclass(frozen=True, slots=True)
class Limit:
    """A memory limit in bytes; when frames are worth loading (see `tocsin.spill.detector`), and where they lie."""

    memory: int
    many: int | None = None
    patience: int | None = None
    folder: Path | None = None


def schema_of(events: Sequence[Event]) -> Schema:
    """What the events show; types and attributes that occur nowhere are allowed and empty."""
    if not events:
        return OPEN
    rows = from_dicts(events)
    schema = infer_schema(rows.schema, OF_EVENTS.resolve(rows.schema.names), types={event.type for event in events})
    points = all(event.start == event.end for event in events)
    return replace(schema, open_types=True, open_fields=True, intervals=not points)


class Harness:
    """A query, or several that feed each other, made ready: plans are made once and used in every run."""

    def __init__(
        self,
        query: str | Query | Sequence[Query],
        schema: Schema = OPEN,
        functions: Mapping[str, Function] | None = None,
    ) -> None:
        given = parse_all(query) if isinstance(query, str) else [query] if isinstance(query, Query) else query
        self.queries, self.schema = tuple(given), schema
        self.query = self.queries[-1]  # the one whose answers are looked at
        self.functions = registered() if functions is None else functions
        self._plans: dict[frozenset[str], tuple[Plan, ...]] = {}

    def plans(self, off: Collection[str] = ()) -> tuple[Plan, ...]:
        """The plans, with some passes off."""
        key = frozenset(off)
        if key not in self._plans:
            bound = bind_all(self.queries, self.schema, self.functions)
            self._plans[key] = tuple(optimize(plan, key) for plan in bound)
        return self._plans[key]

    @property
    def plan(self) -> Plan:
        return self.plans()[-1]

    def oracle(self, events: Sequence[Event]) -> list[Match]:
        """What the oracle finds, where one query is asked."""
        return matches(self.query, events, functions=self.functions, key=dict(self.plan.known_by))  # type: ignore[arg-type]

    def expected(self, events: Sequence[Event]) -> Counter[Binding]:
        """The bindings that the oracle finds, each once."""
        return Counter({match.binding: 1 for match in self.oracle(events)})

    def start(
        self,
        order: str | Strategy = "in-order",
        *,
        jit: bool = False,
        off: Collection[str] = (),
        eager: bool = False,
        limit: Limit | None = None,
        source: str | None = None,
        sources: Iterable[str] = (),
        around: Sequence[Around] = (),
    ) -> Running:
        """A new graph.

        off      passes that are left out
        eager    forget after every push all that may be forgotten, and not only when it is worth the time
        source   the column that names sources, and those of them that are known in advance
        around   operators around the query
        """
        strategy = parse_strategy(order, self.schema)
        spill = Spilling if limit is None else partial(
            Spilling, folder=limit.folder, many=limit.many, patience=limit.patience
        )  # fmt: skip

        columns = replace(OF_EVENTS if "time" in self.schema.common else Columns(), source=source)

        def new() -> QueryGraph:
            graph = QueryGraph(
                self.plans(off), self.schema, columns, jit=jit, order=strategy, sources=sources,
                memory_limit=None if limit is None else limit.memory * len(self.queries), functions=self.functions,
                around=around, spill=spill,
            )  # fmt: skip
            for detector in graph.detectors:
                detector.eager = eager
            return graph

        return Running(new)


class Running:
    """A graph at work. Each push is a step; `log` has what each step said."""

    def __init__(self, new: Callable[[], QueryGraph]) -> None:
        self._new = new
        self.graph = new()
        self.log: list[Changes] = []
        self.unended: list[Unended] = []  # what never ends, as the begins say
        self._singles: RowEncoder | None = None

    # --- what is pushed ------------------------------------------------------------------------------------------

    def tell(self, items: Items) -> Changes:
        """One push of any items."""
        self.log.append(self.graph.push(items))
        self.unended += self.graph.begins.unended
        return self.log[-1]

    def push(self, rows: Rows) -> Changes:
        """One push of events."""
        return self.tell(self.encoded(rows))

    def encoded(self, rows: Rows) -> Items:
        """Events as items, to be pushed next."""
        batch = rows if isinstance(rows, pa.RecordBatch | pa.Table) else from_dicts(rows)
        return self.graph.encode(batch)

    def push_signed(self, rows: Rows, withdrawn: Sequence[bool]) -> Changes:
        """One push of events, some of which are taken back."""
        return self.tell(replace(self.encoded(rows), kinds=np.where(withdrawn, ItemKind.WITHDRAWAL, 0).astype(np.int8)))

    def withdraw(self, events: Sequence[Event]) -> Changes:
        """Take back events."""
        return self.push_signed(events, [True] * len(events))

    def push_one(self, row: dict[str, Any]) -> Changes:
        """One event as a dict, by the way of single events; a batch must have come before."""
        return self.tell(self.encoded_one(row))

    def encoded_one(self, row: dict[str, Any]) -> Items:
        """A dict as the item that single events are: it lies where the last one lay."""
        if self._singles is None:
            self._singles = RowEncoder(self.graph.encoder, self.graph.encoder.now)
        if not self._singles.read(row):
            raise AssertionError(f"{row} needs the long way")
        return self._singles.one

    def promise(self, type: str | None, time: int, source: str | None = None) -> Changes:
        """All later events of a type (None: of every type) and source (None: every source) end after `time`."""
        return self.tell(self.graph.guarantee(type, time, source))

    def promise_begins(self, type: str | None, time: int, source: str | None = None) -> Changes:
        """All events of a type (None: of every type) that start at or before `time` were announced or delivered."""
        return self.tell(self.graph.begin_guarantee(type, time, source))

    def begin(self, begin: Begin) -> Changes:
        """An interval has begun."""
        row = Event(begin.type, begin.start, begin.start, begin.name, dict(begin.attrs))
        batch = from_dicts([row])
        return self.tell(self.graph.announced(batch))

    def end(self) -> Changes:
        """Nothing comes any more."""
        return self.tell(end())

    def feed(self, items: str | Iterable[Item | Withdrawal], *, batch: int = 1) -> Running:
        """Events, withdrawals and promises in order of arrival; up to `batch` events and withdrawals are one push."""
        listed = history(items) if isinstance(items, str) else list(items)
        events = [each for each in map(_event, listed) if each is not None]
        rows, at, waiting = from_dicts(events), 0, list[bool]()

        def flush() -> None:
            nonlocal at, waiting
            if waiting:
                self._push_part(rows.slice(at, len(waiting)), waiting)
            at, waiting = at + len(waiting), []

        for item in listed:
            if isinstance(item, Event | Withdrawal):
                waiting.append(isinstance(item, Withdrawal))
            if len(waiting) == batch or isinstance(item, Promise | Begin):
                flush()
            if isinstance(item, Begin):
                self.begin(item)
            if isinstance(item, Promise):
                (self.promise_begins if item.of_begins else self.promise)(item.type, item.time, item.source)
        flush()
        return self

    def _push_part(self, rows: pa.RecordBatch, withdrawn: Sequence[bool]) -> None:
        if any(withdrawn):
            self.push_signed(rows, withdrawn)
        else:
            self.push(rows)

    # --- what it said --------------------------------------------------------------------------------------------

    @property
    def answers(self) -> list[list[ChangeBatch]]:
        """The changes of the last query, step by step."""
        last = len(self.graph.plans) - 1
        return [[batch for batch in step if batch.stage == last] for step in self.log]

    @property
    def steps(self) -> list[list[Change]]:
        """The changes of the last query as signs and bindings, step by step."""
        return [[change for batch in step for change in batch.bindings()] for step in self.answers]

    @property
    def changes(self) -> list[Change]:
        return [change for step in self.steps for change in step]

    @property
    def net(self) -> Counter[Binding]:
        """What stands: each binding with its count (0 is left out)."""
        return net(batch for step in self.answers for batch in step)

    # --- what it keeps -------------------------------------------------------------------------------------------

    def restart(self) -> Running:
        """Go on in a new graph, from the state that this one has saved."""
        saved = pack(self.graph.snapshot())
        self.close()
        self.graph, self._singles = self._new(), None
        self.graph.restore(unpack(saved))
        return self

    def close(self) -> None:
        """Remove what lies on disk."""
        for stage in self.graph.stages:
            if isinstance(stage.operator, Spilling):
                stage.operator.close()

    @property
    def operator(self) -> Operator:
        """What the last query is made of: its detector, and what stands around it."""
        return self.graph.stages[-1].operator

    @property
    def detector(self) -> Detector:
        """The detector of the last query, for tests about its inside."""
        return self.operator.detectors[0]

    @property
    def counters(self) -> Counters:
        return self.graph.counters

    @property
    def state(self) -> dict[str, str]:
        """What the last query stores: events by variable, held answers, guarantees; see `engine.inspect.stored`."""
        return {name: " ".join(entries) for name, entries in stored(self.detector).items()}

    @property
    def left(self) -> int:
        """How much is stored: events, waiting answers and rows."""
        counters = self.counters
        return counters.live + counters.waiting + sum(each.payload.count for each in self.graph.detectors)


def _event(item: Item | Withdrawal) -> Event | None:
    if isinstance(item, Withdrawal):
        return item.event
    return None if isinstance(item, Promise | Begin) else item


def net(log: Iterable[Changes | ChangeBatch]) -> Counter[Binding]:
    """Add up signed changes."""
    total: Counter[Binding] = Counter()
    for piece in log:
        for op, binding in piece.bindings():
            total[binding] += op
    return Counter({binding: count for binding, count in total.items() if count})
