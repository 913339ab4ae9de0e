"""Queries that feed each other: the matches of one are events for those after it, held until its frontier passes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from tocsin.encode.auto_eids import Names
from tocsin.encode.batch import PAYLOAD, Encoder
from tocsin.encode.columns import RESERVED, Columns
from tocsin.encode.merge import in_time, join, parted, take, with_text_eids
from tocsin.encode.row import OneRow
from tocsin.engine.changes import Changes
from tocsin.engine.detector import Detector, compile_plan
from tocsin.engine.tables import HEAD
from tocsin.errors import TocsinError
from tocsin.events import BEGINNING, END_OF_TIME
from tocsin.functions import Function, registered
from tocsin.items import Items, Strings, is_sorted
from tocsin.order.auto import Auto
from tocsin.order.guarantees import Guarantees
from tocsin.order.lateness import Gate
from tocsin.order.release import InOrder
from tocsin.order.sort import Sorter
from tocsin.order.strategy import IN_ORDER, Strategy, check_limit
from tocsin.plan.block import Plan
from tocsin.plan.facts import can_wait, types_of
from tocsin.schema import Field, Schema
from tocsin.spill.detector import Spilling

AnyDetector: TypeAlias = Detector | Auto | Spilling
NOTHING: list[Changes] = []  # of a stage; shared
QUIET: list[list[Changes]] = [NOTHING]  # a single stage without changes; shared
COMPOSITE = replace(PAYLOAD, eid="eid")


@dataclass(slots=True)
class Stage:
    """One query: its detector, the earlier stages it listens to, and the rows it must not see yet."""

    plan: Plan
    detector: AnyDetector
    sources: tuple[int, ...]
    encoder: Encoder | None  # for the matches of its sources
    held: list[Items] = field(default_factory=list)
    told: dict[str, int] = field(default_factory=dict)  # what was promised of the types it reads
    turn: InOrder | None = None
    merges: bool = False  # whether answers of several alternatives are put in order of time

    def push(self, items: Items) -> list[Changes]:
        return self._given(self.detector.push(items))

    def push_one(self, one: OneRow) -> list[Changes]:
        changes = self.detector.push_one(one)
        return NOTHING if changes is None and self.turn is None else self._given(changes or [])

    def promise(self, type: str | None, time: int) -> list[Changes]:
        return self._given(self.detector.promise(type, time))

    def advance(self, time: int) -> list[Changes]:
        return self._given(self.detector.advance(time))

    def tick(self, clock: int) -> list[Changes]:
        return self._given(self.detector.tick(clock))

    def _given(self, changes: Changes | list[Changes]) -> list[Changes]:
        """What a detector answers; in turn, if answers leave in order."""
        several = changes if isinstance(changes, list) else [changes]
        if self.merges:
            several = [merged(each) for each in several]
        return several if self.turn is None else self.turn.take(several, self.detector.frontier)

    def release(self, frontier: int) -> list[Items]:
        """The held rows that end at or before the frontier, in order of time."""
        ripe, self.held = parted([in_time(items) for items in self.held], frontier + 1)
        return ripe


def merged(changes: Changes) -> Changes:
    """What several alternatives found in one batch, in the order in which one event after another would show it."""
    if len(changes) < 2 or is_sorted(changes.known_at):
        return changes
    return changes.pick(np.argsort(changes.known_at, kind="stable"))


class Pipeline:
    """The detectors of all queries of a text, fed as a strategy says.

    `push`, `promise` and `advance` give for each stage its changes. Rows that come too late are counted and left out;
    their places are in `late`.
    """

    def __init__(
        self,
        plans: Iterable[Plan],
        schema: Schema,
        columns: Columns,
        *,
        jit: bool = True,
        order: Strategy = IN_ORDER,
        sources: Iterable[str] = (),
        memory_limit: int | None = None,
        functions: Mapping[str, Function] | None = None,
    ) -> None:
        plans = tuple(plans)
        check_limit(order, memory_limit)
        self.memory_limit = None if memory_limit is None else memory_limit // max(1, len(plans))
        self.order, self.ordered = order, order.sorts
        self.strings = Strings()
        self.functions = registered() if functions is None else functions
        self.schema = schema
        self.names = Names(ordered=order.sorts)
        self.seen = self.relevant = 0
        types = tuple(sorted(set().union(*(types_of(plan) for plan in plans))))
        self.stages: list[Stage] = []
        wanted: set[str] = set()
        for number, plan in enumerate(plans):
            feeding = tuple(at for at, other in enumerate(plans[:number]) if other.name in types_of(plan))
            above = {str(plans[at].name) for at in feeding}
            detector = self._detector(plan, types, above, jit=jit, functions=functions)
            wanted.update(detector.reads)
            encoder = self._composites(plan, plans, feeding, types, detector) if feeding else None
            turn = InOrder() if order.ordered else None
            merges = order.sorts and len(plan.alternatives) > 1
            self.stages.append(Stage(plan, detector, feeding, encoder, turn=turn, merges=merges))
        self.chained = any(stage.sources for stage in self.stages)
        self.waits = any(can_wait(plan) for plan in plans)
        self.at_once = len(plans) == 1 and not self.waits
        windows = [plan.within for plan in plans]
        # how far back from the clock an event can matter to any stage; None: for ever
        self.reach = None if None in windows else 2 * sum(window for window in windows if window is not None)
        self.encoder = Encoder(schema, types, self.strings, columns, sorted(wanted))
        composite = {str(plan.name) for plan in plans}
        self.guarantees = Guarantees(tuple(type for type in types if type not in composite), set(sources))
        slack = 0 if order.kind == "in-order" else None if order.kind == "slack" else order.late
        self.gate = Gate(self.guarantees, slack, order.broken, columns.source is not None, codes=types)
        self.sorter = Sorter(order) if order.kind == "slack" else None

    def _detector(
        self,
        plan: Plan,
        types: tuple[str, ...],
        above: set[str],
        *,
        jit: bool,
        functions: Mapping[str, Function] | None,
    ) -> AnyDetector:
        """What a stage is made of. Matches of queries above come as late as they like, so a chain goes by promises."""
        order = self.order

        def make(hold: Collection[str]) -> Detector:
            return compile_plan(
                plan, types, self.strings, jit=jit, ordered=order.sorts, hold=hold, immediate=order.immediate,
                late=None if above or order.sorts else order.late, functions=functions,
            )  # fmt: skip

        if order.kind == "auto":
            return Auto(plan, types, lambda held: make(types_of(plan) if held else ()), order.expected)
        hold = order.held_types(types_of(plan))
        detector = make(hold | above if hold else hold)
        if self.memory_limit is None or order.sorts:  # in order, only a window is kept
            return detector
        return Spilling(detector, self.memory_limit)

    @property
    def forgotten(self) -> int | None:
        """No event that ended before this can matter any more; None: all may."""
        if self.reach is None or self.order.events is not None:
            return None
        late = self.sorter.late if self.sorter is not None else 0 if self.ordered else self.order.late
        promised = min(
            (self.guarantees.settled.get(type, BEGINNING) for type in self.guarantees.types), default=BEGINNING
        )
        behind = BEGINNING if late is None else self.clock - late
        return None if max(behind, promised) == BEGINNING else max(behind, promised) - self.reach

    @property
    def clock(self) -> int:
        return self.gate.clock

    @clock.setter
    def clock(self, time: int) -> None:
        self.gate.clock = time

    @property
    def late_count(self) -> int:
        return self.gate.late_count

    @late_count.setter
    def late_count(self, count: int) -> None:
        self.gate.late_count = count

    @property
    def late(self) -> list[int]:
        """The places of the rows of the last push that came too late."""
        return self.gate.late

    def _composites(
        self,
        plan: Plan,
        plans: tuple[Plan, ...],
        sources: tuple[int, ...],
        types: tuple[str, ...],
        detector: AnyDetector,
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
        return self._pushed(items)

    def _pushed(self, items: Items) -> list[list[Changes]]:
        admitted = self.gate.admit(items)
        if self.sorter is None:
            return self.push_items(admitted)
        leaving, missed = self.sorter.push(admitted)
        self.gate.missed(missed, len(items))
        return self._left(leaving, self.sorter)

    def _left(self, leaving: list[Items], sorter: Sorter) -> list[list[Changes]]:
        """Rows leave the sorter, and with them time passes: nothing before them will come."""
        said = [self.push_items(items) for items in leaving]
        if (self.waits or self.chained) and sorter.left > BEGINNING:
            said.append(self._pass(sorter.left))
        return self._together(said)

    def _together(self, said: list[list[list[Changes]]]) -> list[list[Changes]]:
        """What each stage said one time after the other."""
        return [[change for changes in mine for change in changes] for mine in zip(*said, strict=True)] or self._quiet()

    def push_one(self, one: OneRow) -> list[list[Changes]] | None:
        """The same for one row; None if it comes too late."""
        if self.guarantees.promised or self.sorter is not None:
            return self._slowly(one)
        self.seen += 1
        if one.is_known:
            self.relevant += 1
        if not self.gate.admits(one.time):
            return None
        if self.chained:
            return self.push_items(one.copy())
        if len(self.stages) == 1:
            changes = self.stages[0].push_one(one)
            return [changes] if changes else QUIET
        return [stage.push_one(one) for stage in self.stages]

    def _slowly(self, one: OneRow) -> list[list[Changes]] | None:
        """One row by the way of all rows."""
        self.seen += 1
        self.relevant += bool(one.is_known)
        changes = self._pushed(one.copy())
        return None if self.late else changes

    def _quiet(self) -> list[list[Changes]]:
        return [NOTHING for _ in self.stages]

    def passes(self, end: int) -> bool:
        """An event that nobody asked for, where no answer waits for time to pass; False if it comes too late."""
        self.seen += 1
        return self.gate.admits(end)

    def push_items(self, items: Items) -> list[list[Changes]]:
        out: list[list[Changes]] = []
        named: Items | None = None  # what stages beside the first ones see
        for stage in self.stages:
            if not stage.sources:
                out.append(stage.push(items))
                continue
            if named is None:
                named = with_text_eids(self.names.named(take(items, items.types >= 0)))
            stage.held.append(named)
            out.append(self._feed(stage, out, None))
        return out

    def promise(self, type: str | None, time: int, source: str | None = None) -> list[list[Changes]]:
        """Every later event of a type (None: of all) from a source (None: from any) ends after `time`."""
        grown = self.guarantees.promise(type, None if source is None else str(source), time)
        return self._promised(grown) if grown else self._quiet()

    def _promised(self, grown: list[tuple[str, int]]) -> list[list[Changes]]:
        """The stages are told what is guaranteed of the types they read."""
        if self.ordered:  # time passes only when it is promised of all types
            settled = self.guarantees.settled
            time = min(settled.get(each, BEGINNING) for each in self.guarantees.types)
            return self._quiet() if time == BEGINNING else self.advance(time)
        out: list[list[Changes]] = []
        for stage in self.stages:
            mine = [pair for pair in grown if pair[0] in types_of(stage.plan)]
            changes = [change for pair in mine for change in stage.promise(*pair)]
            out.append(changes + (self._feed(stage, out, None) if stage.sources else []))
        return out

    def advance(self, time: int) -> list[list[Changes]]:
        """Nothing that ends at or before `time` will come any more; END_OF_TIME ends the stream."""
        leaving = [] if self.sorter is None else self.sorter.advance(time)
        said = [self.push_items(items) for items in leaving]
        after = min(time + 1, END_OF_TIME)  # a detector is told what may still come
        self.clock = max(self.clock, after)
        if not self.ordered:
            self.guarantees.promise(None, None, time)
        return self._together([*said, self._pass(after)])

    def _pass(self, time: int) -> list[list[Changes]]:
        """Time passes without an event: none will end before `time`."""
        out: list[list[Changes]] = []
        for stage in self.stages:
            if not stage.sources:
                out.append(stage.advance(time))
            else:
                out.append(self._feed(stage, out, time if time >= END_OF_TIME else None))
        return out

    def tick(self, clock: int) -> list[list[Changes]]:
        """The clock stands here, by events that others saw; some that end before it may still come."""
        self.clock = max(self.clock, clock)
        out: list[list[Changes]] = []
        for stage in self.stages:
            changes = stage.tick(clock)
            out.append(changes + (self._feed(stage, out, None) if stage.sources else []))
        return out

    def continue_from(self, old: Pipeline, batches: Iterable[pa.RecordBatch]) -> None:
        """Be where another pipeline is, given the rows that still matter to it; what they answer was told by it."""
        choices = [
            (mine.detector, its.detector)
            for mine, its in zip(self.stages, old.stages, strict=True)
            if isinstance(mine.detector, Auto) and isinstance(its.detector, Auto)
        ]
        for mine, its in choices:
            mine.choose(its.saved()[0])
        for batch in batches:
            items = self.encoder.encode(batch)
            if self.sorter is None:
                self.push_items(items)
            else:
                self.sorter.hold(items)
        if self.sorter is not None and old.sorter is not None:
            self._left(self.sorter.continue_from(old.sorter), self.sorter)
        self.guarantees.continue_from(old.guarantees)
        self.gate.continue_from(old.gate)
        self.seen, self.relevant = old.seen, old.relevant
        self._promised(list(self.guarantees.settled.items()))
        for mine, its in choices:
            mine.resume(*its.saved(), its.plan)

    def _feed(self, stage: Stage, before: list[list[Changes]], frontier: int | None) -> list[Changes]:
        """Give a stage the matches of its sources and whatever rows are ripe."""
        for source in stage.sources:
            stage.held += [self._events(stage, source, changes) for changes in before[source] if len(changes)]
        if not self.ordered:
            return self._feed_all(stage, ended=frontier is not None)
        if frontier is None:
            frontier = min(self.stages[source].detector.frontier for source in stage.sources)
        out = [change for items in stage.release(frontier) for change in stage.push(items)]
        if frontier > BEGINNING:
            out += stage.advance(min(frontier + 1, END_OF_TIME))
        return out

    def _feed_all(self, stage: Stage, *, ended: bool) -> list[Changes]:
        """Without a promised order nothing is held back; what is promised of each type is passed on."""
        held, stage.held = stage.held, []
        out = stage.push(join(held)) if held else []
        if ended:
            return [*out, *stage.advance(END_OF_TIME)]
        known = {str(self.stages[at].plan.name): self.stages[at].detector.frontier for at in stage.sources}
        if self.order.late is not None:
            known |= {type: self.clock - self.order.late - 1 for type in types_of(stage.plan) if type not in known}
        for type, time in known.items():
            if time > stage.told.get(type, BEGINNING):
                stage.told[type] = time
                out += stage.promise(type, time)
        return out

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
        items.signs = changes.op.astype(np.int8) if (changes.op < 0).any() else None
        return items

    @property
    def strategy(self) -> str:
        """The strategy in words; where it chooses by itself, what it has chosen and why."""
        chosen = [str(stage.detector) for stage in self.stages if isinstance(stage.detector, Auto)]
        return "; ".join(chosen) or f"{self.order}: {self.order.level}"

    def counters(self) -> dict[str, int]:
        """What was seen, over all stages."""
        total = {"events": self.seen, "relevant": self.relevant, "late": self.late_count, "duplicates": 0, "matches": 0}
        total |= {"retracted": 0, "waiting": 0 if self.sorter is None else self.sorter.count}
        if self.order.kind == "auto":
            total["switches"] = sum(getattr(stage.detector, "switches", 0) for stage in self.stages)
        if self.gate.broken:
            total["broken"] = self.gate.broken.total()
        counted = [stage.detector.count() for stage in self.stages]
        total["duplicates"] = counted[0].duplicates
        for counters in counted:
            total["matches"] += counters.matches
            total["retracted"] += counters.retracted
            total["waiting"] += counters.waiting
        return total
