"""Queries that feed each other: the matches of one are events for those after it, held until its frontier passes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from tocsin.encode.batch import PAYLOAD, Encoder
from tocsin.encode.columns import RESERVED, Columns
from tocsin.encode.row import OneRow
from tocsin.engine.changes import Changes
from tocsin.engine.detector import Detector, compile_plan
from tocsin.errors import TocsinError
from tocsin.events import BEGINNING, END_OF_TIME
from tocsin.functions import Function
from tocsin.items import Items, Strings
from tocsin.plan.block import Block, LastEnd, Plan, WindowHigh
from tocsin.run.merge import join, take, with_text_eids
from tocsin.run.names import Names
from tocsin.run.tables import HEAD
from tocsin.schema import Field, Schema

NOTHING: list[Changes] = []  # of a stage; shared
QUIET: list[list[Changes]] = [NOTHING]  # a single stage without changes; shared
COMPOSITE = replace(PAYLOAD, eid="eid")


def types_of(plan: Plan) -> set[str]:
    """Every event type that a plan reads."""
    found: set[str] = set()
    blocks: list[Block] = list(plan.alternatives)
    while blocks:
        block = blocks.pop()
        found.update(alt.type for leaf in block.leaves for alt in leaf.alts)
        blocks += [forbidden.block for forbidden in block.forbidden]
    return found


def waits(plan: Plan) -> bool:
    """Whether an answer may have to wait until time has passed, or an event of the same tick can still undo it."""
    blocks: list[Block] = list(plan.alternatives)
    while blocks:
        block = blocks.pop()
        scopes = [forbidden.scope for forbidden in block.forbidden] + [scope for _, scope in block.scopes]
        if any(isinstance(scope.high, WindowHigh | LastEnd) for scope in scopes):
            return True
        blocks += [forbidden.block for forbidden in block.forbidden]
    return False


@dataclass(slots=True)
class Stage:
    """One query: its detector, the earlier stages it listens to, and the rows it must not see yet."""

    plan: Plan
    detector: Detector
    sources: tuple[int, ...]
    encoder: Encoder | None  # for the matches of its sources
    held: list[Items] = field(default_factory=list)

    def release(self, frontier: int) -> Items | None:
        """The held rows that end at or before the frontier, in order of time."""
        if not self.held:
            return None
        items = join(self.held)
        ripe = items.end <= frontier
        if not ripe.any():
            self.held = [items]
            return None
        self.held = [] if ripe.all() else [take(items, ~ripe)]
        places = np.flatnonzero(ripe)
        order = np.lexsort((items.start[places], items.end[places]))
        return take(items, places[order])


class Pipeline:
    """The detectors of all queries of a text, fed in order.

    `push` and `advance` give for each stage its changes. With `ordered`, rows that end before the clock are late:
    they are counted, left out, and their places are in `late`.
    """

    def __init__(
        self,
        plans: Iterable[Plan],
        schema: Schema,
        columns: Columns,
        *,
        jit: bool = True,
        ordered: bool = True,
        functions: Mapping[str, Function] | None = None,
    ) -> None:
        plans = tuple(plans)
        self.ordered = ordered
        self.strings = Strings()
        self.schema = schema
        self.names = Names(ordered=ordered)
        self.clock = BEGINNING
        self.seen = self.relevant = self.late_count = 0
        self.late: list[int] = []
        types = tuple(sorted(set().union(*(types_of(plan) for plan in plans))))
        self.stages: list[Stage] = []
        wanted: set[str] = set()
        for number, plan in enumerate(plans):
            sources = tuple(at for at, other in enumerate(plans[:number]) if other.name in types_of(plan))
            detector = compile_plan(plan, types, self.strings, jit=jit, ordered=ordered, functions=functions)
            wanted.update(detector.reads)
            encoder = self._composites(plan, plans, sources, types, detector) if sources else None
            self.stages.append(Stage(plan, detector, sources, encoder))
        self.chained = any(stage.sources for stage in self.stages)
        self.at_once = len(plans) == 1 and not waits(plans[0])
        windows = [plan.within for plan in plans]
        # how far back from the clock an event can matter to any stage; None: for ever
        self.reach = None if None in windows else 2 * sum(window for window in windows if window is not None)
        self.encoder = Encoder(schema, types, self.strings, columns, sorted(wanted))

    def _composites(
        self, plan: Plan, plans: tuple[Plan, ...], sources: tuple[int, ...], types: tuple[str, ...], detector: Detector
    ) -> Encoder:
        """The encoder for matches of earlier queries, once it is sure that their columns fit beside the events'."""
        for source in sources:
            name = str(plans[source].name)
            for attr, own in plan.schema.types.get(name, {}).items():
                other = self.schema.common.get(attr)
                if other is not None and attr in detector.reads and (other.kind, other.scale) != (own.kind, own.scale):
                    raise TocsinError(
                        f"{attr!r} is {own.kind} in query {name!r} and {other.kind} in the events",
                        hint=f"give the column another name: SELECT ... AS {name.lower()}_{attr}",
                    )
        return Encoder(plan.schema, types, self.strings, COMPOSITE, detector.reads)

    @property
    def wanted(self) -> Mapping[str, Field]:
        """The attributes of the events that any query reads."""
        return self.encoder.wanted

    def push(self, batch: pa.RecordBatch) -> list[list[Changes]]:
        """Rows in, changes of every stage out."""
        items = self.encoder.encode(batch)
        self.seen += len(items)
        self.relevant += int(np.count_nonzero(items.types >= 0))
        return self.push_items(self._in_order(items) if self.ordered else items)

    def push_one(self, one: OneRow) -> list[list[Changes]] | None:
        """The same for one row; None if it comes too late."""
        self.seen += 1
        if one.is_known:
            self.relevant += 1
        if self.ordered:
            if one.time < self.clock:
                self.late_count += 1
                return None
            self.clock = one.time
        if self.chained:
            return self.push_items(one.copy())
        if len(self.stages) == 1:
            changes = self.stages[0].detector.push_one(one)
            return QUIET if changes is None else [[changes]]
        out: list[list[Changes]] = []
        for stage in self.stages:
            changes = stage.detector.push_one(one)
            out.append(NOTHING if changes is None else [changes])
        return out

    def passes(self, end: int) -> bool:
        """An event that nobody asked for, where no answer waits for time to pass; False if it comes too late."""
        self.seen += 1
        if end < self.clock:
            self.late_count += 1
            return False
        self.clock = end
        return True

    def push_items(self, items: Items) -> list[list[Changes]]:
        out: list[list[Changes]] = []
        named: Items | None = None  # what stages beside the first ones see
        for stage in self.stages:
            if not stage.sources:
                out.append([stage.detector.push(items)])
                continue
            if named is None:
                named = with_text_eids(self.names.named(take(items, items.types >= 0)))
            stage.held.append(named)
            out.append(self._feed(stage, out, END_OF_TIME if not self.ordered else None))
        return out

    def advance(self, time: int) -> list[list[Changes]]:
        """Nothing that ends at or before `time` will come any more; END_OF_TIME ends the stream."""
        after = min(time + 1, END_OF_TIME)  # a detector is told what may still come
        self.clock = max(self.clock, after)
        out: list[list[Changes]] = []
        for stage in self.stages:
            if not stage.sources:
                out.append([stage.detector.advance(END_OF_TIME if time >= END_OF_TIME else after)])
            else:
                out.append(self._feed(stage, out, time if time >= END_OF_TIME else None))
        return out

    def _feed(self, stage: Stage, before: list[list[Changes]], frontier: int | None) -> list[Changes]:
        """Give a stage the matches of its sources and whatever rows are ripe."""
        for source in stage.sources:
            stage.held += [self._events(stage, source, changes) for changes in before[source] if len(changes)]
        if frontier is None:
            frontier = min(self.stages[source].detector.frontier for source in stage.sources)
        ripe = self._all(stage) if not self.ordered else stage.release(frontier)
        out = [] if ripe is None else [stage.detector.push(ripe)]
        if self.ordered and frontier > BEGINNING:
            out.append(stage.detector.advance(min(frontier + 1, END_OF_TIME)))
        return out

    @staticmethod
    def _all(stage: Stage) -> Items | None:
        """Without a promised order nothing is held back."""
        held, stage.held = stage.held, []
        return join(held) if held else None

    def _events(self, stage: Stage, source: int, changes: Changes) -> Items:
        """The matches of a query as events of the type that has its name."""
        assert stage.encoder is not None
        table = changes.table()
        name = str(self.stages[source].plan.name)
        columns = table.schema.names[len(HEAD) :] if self.stages[source].plan.outputs else []
        if clash := set(columns) & set(RESERVED):
            raise TocsinError(
                f"query {name!r} selects a column {min(clash)!r}, which every event has already",
                hint=f"give it another name: SELECT ... AS my_{min(clash)}",
            )
        arrays = [pa.repeat(name, table.num_rows), table["start"], table["end"], table["match_id"]]
        whole = pa.table([*arrays, *(table[each] for each in columns)], names=["type", "start", "end", "eid", *columns])
        items = stage.encoder.encode(whole)
        items.signs = None if self.ordered else changes.op.astype(np.int8)
        return items

    def _in_order(self, items: Items) -> Items:
        """The items without those that come too late."""
        self.late = []
        if not len(items):
            return items
        end = items.end
        if end[0] >= self.clock and bool((end[1:] >= end[:-1]).all()):
            self.clock = max(self.clock, int(end[-1]))
            return items
        before = np.maximum.accumulate(np.concatenate(([self.clock], end[:-1])))
        late = end < before
        self.clock = max(self.clock, int(end.max()))
        self.late = np.flatnonzero(late).tolist()
        self.late_count += len(self.late)
        return take(items, ~late)

    def counters(self) -> dict[str, int]:
        """What was seen, over all stages."""
        total = {"events": self.seen, "relevant": self.relevant, "late": self.late_count, "duplicates": 0, "matches": 0}
        total |= {"retracted": 0, "waiting": 0}
        first: Any = self.stages[0].detector.count()
        total["duplicates"] = getattr(first, "duplicates", 0)
        for stage in self.stages:
            counters: Any = stage.detector.count()
            for name in ("matches", "retracted", "waiting"):
                total[name] += getattr(counters, name, 0)
        return total
