"""The graph of a text's queries: one intake for events, then a stage for each query; the core dataflow of every host.

The embedded runner, a shard on Spark and a site of a federation host the same graph: they give it items and show its
changes, nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa

from tocsin.codec import Part, as_number, decode, encode, nested, only_part, within
from tocsin.encode.batch import Encoder
from tocsin.encode.columns import Columns
from tocsin.encode.eids import prepare_hashing
from tocsin.encode.keyless import KeyCheck
from tocsin.encode.merge import Rearranged, replaced, take
from tocsin.encode.near_rows import Near
from tocsin.encode.row_pieces import RowPieces
from tocsin.encode.stored import RowReader
from tocsin.encode.thread_team import ALONE, ThreadTeam
from tocsin.encode.whole import UsableRows, encode_whole
from tocsin.engine.changes import QUIET, ChangeBatch, Changes, no_changes
from tocsin.engine.detector import Detector
from tocsin.engine.operator import Around, Counters, Nesting, Operator, Remembering, Setting
from tocsin.engine.replay import replay
from tocsin.engine.stream_time import StreamTime
from tocsin.engine.texts import of_operators
from tocsin.errors import InputError, StateError
from tocsin.events import ANY, BEGINNING, END_OF_TIME
from tocsin.functions import Function, registered
from tocsin.graph.carry_over import CarryOver, waiting_in
from tocsin.graph.composites import Composites, check_kinds
from tocsin.graph.copies import Copies
from tocsin.graph.stages import Stage, Stages
from tocsin.graph.tap import Tap
from tocsin.graph.texts import TextMemory
from tocsin.items import NO_SOURCE, ROWS, Ints, ItemKind, Items, Strings, control, guarantee
from tocsin.order.auto import Auto
from tocsin.order.begins import Begins
from tocsin.order.early import EarlyAnswers
from tocsin.order.guarantees import Guarantees
from tocsin.order.lateness import Lateness
from tocsin.order.release import Release
from tocsin.order.sort import Sort
from tocsin.order.strategy import IN_ORDER, Strategy, check_limit
from tocsin.plan.block import Alt, Block, Leaf, Plan, Variable
from tocsin.plan.expr import Col, walk
from tocsin.plan.facts import can_wait, key_needs, replay_reach, types_of
from tocsin.plan.limits import Limits, limits_of
from tocsin.plan.prefix_chain import PrefixChain, prefix_chain
from tocsin.plan.under import TRACE
from tocsin.schema import EID, TYPE, Field, Kind, Schema

if TYPE_CHECKING:
    from tocsin.constraint.monitor import Monitored
    from tocsin.constraint.telling import TraceCounts

MANY, BYTES_OF_A_ROW = 4096, 1000  # rows that are remembered to find copies, where memory is limited
NEVER = 1 << 62


class QueryGraph(Nesting):
    """All queries of a text as one operator, fed as a strategy says.

    `encode` makes items of rows. The changes of each query bear its number as `stage`; `late` of the changes are the
    places of items that came too late. `spill` is put around a detector that must keep a memory limit.
    `live`: nobody knows when the input ends, so what is counted without EVERY is said after each push.
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
        around: Sequence[Around] = (),
        spill: Callable[[Detector, int], Operator] | None = None,
        strings: Strings | None = None,
        soon: bool = False,
        live: bool = False,
    ) -> None:
        self.plans, self._around, self._spill = tuple(plans), tuple(around), spill
        self._live = live
        check_limit(order, memory_limit)
        self._limit = None if memory_limit is None else memory_limit // max(1, len(self.plans))
        self.order, self.schema, self._jit, self._soon = order, schema, jit, soon
        self.strings = Strings() if strings is None else strings
        self.functions = registered() if functions is None else functions
        self.seen = self.relevant = self.keyless = 0
        self.last = BEGINNING  # where the last event ends
        self._timed = any(plan.staged is not None for plan in self.plans)  # statements have timers
        self._settles = any(plan.has_rows_of_its_own for plan in self.plans)  # ... and intervals end as time passes
        self._taps: dict[int, Tap] = {}
        self._releases: dict[int, Release] = {}
        self.sort: Sort | None = None  # with `slack`: where events wait for their turn
        self.autos: list[Auto] = []  # strategies that choose by themselves
        self.monitors: list[Monitored] = []  # of queries under constraints
        self.remembering: list[Remembering] = []  # operators that know more than the events tell
        needs = key_needs(self.plans)
        self.types = tuple(sorted(set().union(*map(types_of, self.plans), *needs.values(), self._every_type())))
        self._keys = KeyCheck(needs, self.types) if needs else None
        kinds = {field.kind for attr, mine in needs.items() for type in mine if (field := schema.field(type, attr))}
        self._real_keys = Kind.FLOAT in kinds
        self.waits = any(can_wait(plan) for plan in self.plans)
        held = [() if order.kind == "auto" else order.held_types(types_of(plan)) for plan in self.plans]
        detectors = [self._detector(number, hold) for number, hold in enumerate(held)]
        reads = [reads_of(plan, detector) for plan, detector in zip(self.plans, detectors, strict=True)]
        counted = {attr for attr, mine in needs.items() if any(schema.field(type, attr) for type in mine)}
        wanted = sorted(counted.union(attr for each in reads for attr in each if attr != TRACE))
        self.encoder = Encoder(schema, self.types, self.strings, columns, wanted)
        stages = [self._stage(number, detector) for number, detector in enumerate(detectors)]
        self.queries = Stages(stages, ordered=order.sorts, late=order.late)
        self.intake = self._intake(frozenset(sources))
        needed = {type: frozenset(attr for attr, mine in needs.items() if type in mine) for type in self.types}
        self.begins = Begins(self.intake, self.intake.guarantees.types, schema.longest, needed)
        self.early: EarlyAnswers | None = None
        if any(plan.early for plan in self.plans):
            self.early = EarlyAnswers(self.begins, self.plans, order, self._reader, self.functions, schema.longest)
        self._front: Begins | EarlyAnswers = self.early or self.begins
        self._texts = TextMemory(self.strings, self.encoder)
        if strings is not None:  # others use them, too
            self._texts.enough = NEVER

    def _every_type(self) -> Collection[str]:
        """All known types, where a query reads ANY: each has guarantees of its own, and is judged by them."""
        return self.schema.types if any(ANY in types_of(plan) for plan in self.plans) else ()

    # --- wiring ---

    @cached_property
    def _links(self) -> list[list[int]]:
        """For each query the earlier ones whose matches it reads, in their order."""
        named: dict[str | None, list[int]] = {}
        links = []
        for number, plan in enumerate(self.plans):
            links.append(sorted(at for type in set(types_of(plan)) for at in named.get(type, ())))
            for type in plan.emits:
                named.setdefault(type, []).append(number)
        return links

    @cached_property
    def _read(self) -> frozenset[int]:
        """The queries whose matches others read."""
        return frozenset(at for sources in self._links for at in sources)

    def _sources(self, number: int) -> list[int]:
        return self._links[number]

    def new_detectors(self, number: int) -> list[Detector]:
        """New detectors for a query: the one that it begins with, then those that its strategy may turn to."""
        types = types_of(self.plans[number])
        if self.order.kind == "auto":
            return [self._detector(number, ()), self._detector(number, types)]
        return [self._detector(number, self.order.held_types(types))]

    def _detector(self, number: int, hold: Collection[str]) -> Detector:
        """A new detector for a query, whose answers wait for guarantees about the types in `hold`."""
        order, above = self.order, {type for at in self._sources(number) for type in self.plans[at].emits}
        return Detector(
            filter_of(self.plans[number]), self.types, self.strings, jit=self._jit, ordered=order.sorts,
            late=None if above or order.sorts else order.late,  # matches come as late as they like
            hold={*hold, *above} if hold else (), immediate=order.immediate, functions=self.functions,
            soon=self._soon, by_type=order.kind != "auto",  # what one strategy no longer needs, the other may
        )  # fmt: skip

    def _stage(self, number: int, detector: Detector) -> Stage:
        plan = self.plans[number]
        wanted = reads_of(plan, detector)
        composites = {}
        for at in self._sources(number):
            check_kinds(plan, self.plans[at], self.schema.common, wanted)
            composites[at] = Composites.of(self.plans[at], plan, self.types, self.strings, wanted)
        plain = tuple(attr for attr in wanted if attr != TRACE)
        reader = RowReader(plan.schema, self.types, self.strings, self.encoder.sources, plain)
        operator = self._operator(number, detector, reader)
        return Stage(
            plan, operator, composites, reader, tap=self._taps.get(number), release=self._releases.get(number),
            is_bare=operator is detector,
        )  # fmt: skip

    # Rooms that few queries need are imported where one does: a rule in a shell waits for all that is imported.

    def _operator(self, number: int, detector: Detector, reader: RowReader) -> Operator:
        """What a query is made of: its detector, what the strategy puts around it, and around that what users put."""
        plan, order = self.plans[number], self.order
        operator: Operator = detector
        if plan.has_rows_of_its_own:
            operator = self._process(plan, Setting(plan, self.functions, order.corrects, time_of(detector), reader))
            self.remembering.append(cast("Remembering", operator))
        elif plan.consume is not None:
            setting = Setting(plan, self.functions, order.corrects, time_of(detector), reader)
            from tocsin.select.consuming import consuming

            operator = consuming(setting, jit=self._jit)
            self.remembering.append(operator)
        elif (chain := counted_by(plan, order)) is not None:
            setting = Setting(plan, self.functions, False, time_of(detector), reader)
            from tocsin.select.prefix_counting import prefix_counting

            operator = prefix_counting(chain, setting, live=self._live)
            self.remembering.append(operator)
        elif order.kind == "auto":
            every = types_of(plan)
            auto = Auto(plan, self.types, lambda held: self._detector(number, every if held else ()), order.expected)
            self.autos.append(auto)
            self.remembering.append(auto)
            operator = auto
        elif self._limit is not None and not order.sorts:  # in order, only a window is kept
            operator = self._spilling(detector, self._limit)
        if order.ordered and counted_by(plan, order) is None:
            operator = self._releases[number] = Release(operator, plan, self.functions)
        is_read = number in self._read
        if plan.after is not None and counted_by(plan, order) is None:
            from tocsin.select.after_match import clause_operators

            back = replay_reach(self.plans)
            reach = 0 if not is_read else None if back is None else back + 1
            for clause in clause_operators(
                operator, plan, self.functions, corrects=order.corrects, reach=reach, jit=self._jit
            ):
                self.remembering.append(clause)
                operator = clause
        if plan.counts is not None and counted_by(plan, order) is None:
            from tocsin.select.counting import MatchCounting

            operator = MatchCounting(operator, plan, self.functions, at_once=order.corrects, live=self._live)
            self.remembering.append(operator)
        if plan.under is not None:
            operator = self._monitored(operator, plan, detector, reader)
        return operator if plan.hidden else self._reported(number, operator, detector, reader)

    def _spilling(self, detector: Detector, limit: int) -> Operator:
        """What keeps a memory limit."""
        from tocsin.spill.detector import Spilling

        return (self._spill or Spilling)(detector, limit)

    def _monitored(self, operator: Operator, plan: Plan, detector: Detector, reader: RowReader) -> Operator:
        """What follows the traces of a query under constraints."""
        from tocsin.constraint.monitor import monitored

        time = replace(detector.time, guarantees={})
        found = monitored(operator, Setting(plan, self.functions, self.order.corrects, time, reader), jit=self._jit)
        self.monitors.append(found)
        return found

    @property
    def trace_counts(self) -> TraceCounts | None:
        """What was counted of traces, over all queries under constraints; None: there are none."""
        return sum((each.counts for each in self.monitors[1:]), self.monitors[0].counts) if self.monitors else None

    def _reported(self, number: int, operator: Operator, detector: Detector, reader: RowReader) -> Operator:
        """What users put around a query that reports."""
        plan, order, is_read = self.plans[number], self.order, number in self._read
        if self._around and is_read:
            operator = self._taps[number] = Tap(operator)
        for each in self._around:
            operator = each(operator, Setting(plan, self.functions, order.corrects, time_of(detector), reader))
            if hasattr(operator, "memory"):
                self.remembering.append(cast("Remembering", operator))
        return operator

    def _process(self, plan: Plan, setting: Setting) -> Operator:
        """What stands in place of a detector where answers are rows of their own, made of settled events."""
        if plan.derived is not None:
            from tocsin.deriving.operator import deriving

            return deriving(setting, jit=self._jit)
        from tocsin.staged.operator import staged_operator

        return staged_operator(setting, self.order, jit=self._jit, limit=self._limit)

    @cached_property
    def _reader(self) -> RowReader:
        """Reads events that are held back before all queries."""
        wanted = tuple(self.encoder.wanted)
        return RowReader(self.schema, self.types, self.strings, self.encoder.sources, wanted)

    def _intake(self, sources: frozenset[str]) -> Lateness:
        """What stands before all queries: late events are set aside, copies found; slack sorts between."""
        order, operator = self.order, self.queries
        composite = {type for plan in self.plans for type in plan.emits}
        reader = self._reader
        self.copies = Copies(
            operator, reader, self.functions, ordered=order.sorts, late=order.late, jit=self._jit,
            plain=(code for code, type in enumerate(self.types) if type not in composite),
            most=None if self._limit is None else max(MANY, self._limit // BYTES_OF_A_ROW),
        )  # fmt: skip
        inner: Operator = self.copies
        if order.kind == "slack":
            inner = self.sort = Sort(inner, order, reader, tells=self.waits or operator.chained or self._settles)
        guarantees = Guarantees(tuple(type for type in self.types if type not in composite), set(sources))
        slack = 0 if order.kind == "in-order" else None if order.kind == "slack" else order.late
        return Lateness(
            inner, guarantees, slack, order.broken,
            codes=self.types, sources=self.encoder.sources, in_order=order.sorts,
        )  # fmt: skip

    # --- the one verb ---

    def encode(self, batch: pa.RecordBatch) -> Items:
        """Rows as items, to be pushed next: their texts may be forgotten when others are pushed."""
        return self.encoder.encode(batch)

    def encode_whole(self, rows: UsableRows, workers: ThreadTeam = ALONE) -> Rearranged:
        """All rows of a finite input in order of time, to be pushed in pieces; what nobody reads may be missing.

        No text is forgotten from now on.
        """
        self._texts.enough = NEVER
        return encode_whole(self.encoder, rows, drop=self.is_plain, workers=workers)

    def row_pieces(self, rows: UsableRows, base: pa.Table, near: Near | None) -> RowPieces:
        """The rows of a finite input in order of time, to be encoded and pushed piece by piece, without all others.

        Only for a plain graph, and input without eids. No text is forgotten from now on.
        """
        self._texts.enough = NEVER
        return RowPieces(self.encoder, rows, base, self.limits, self.key_attributes, near)

    @property
    def limits(self) -> Limits:
        """Between which bounds numbers of an event must lie, or no query takes it."""
        return limits_of(self.plans)

    @property
    def key_attributes(self) -> frozenset[str]:
        """The attributes of keys: events that lack one are counted."""
        return frozenset(key_needs(self.plans))

    def forget_texts(self) -> None:
        """Forget texts that no query uses any more: what was encoded has been pushed, and nothing else holds on."""
        self._texts.forget(self)
        self._texts.enough = NEVER

    def pass_over(self, count: int, relevant: int = 0) -> None:
        """Count events that were not pushed: nobody reads them, or not with these attributes (`relevant`)."""
        self.seen += count
        self.relevant += relevant

    @property
    def is_plain(self) -> bool:
        """Whether events come in order, and each query is one detector that reads no matches of others.

        Then an event that nobody reads changes nothing but the clock, and events are numbered as they are pushed.
        """
        return self._is_simple and all(stage.is_bare for stage in self.stages)

    @property
    def only_follows_traces(self) -> bool:
        """Whether it would be plain, did some of its queries not follow the traces of constraints."""
        alone = {id(each) for each in self.monitors if each.query.detectors[0] is each.query}
        return self._is_simple and all(stage.is_bare or id(stage.operator) in alone for stage in self.stages)

    @property
    def _is_simple(self) -> bool:
        return not self.queries.chained and self.order.kind == "in-order" and self.early is None

    def push(self, items: Items) -> Changes:
        """Feed all queries. Items that do not fit together are refused, and nothing has changed."""
        if items.single:
            self.seen += 1
            if self._timed:
                self.last = max(self.last, int(items.end[0]))
            if items.is_known:  # type: ignore[attr-defined]  # `single` says that it is a LentRow
                self.relevant += 1
                if self._keys is not None and (items.nulls or self._real_keys):  # type: ignore[attr-defined]
                    self.keyless += self._keys.count(items)
        else:
            items.check()
            if items.has_rows:
                self._see(items)
        before = self._last_timers(items) if self._timed else QUIET
        changes = self._front.push(items)
        if before.batches:
            changes = Changes([*before.batches, *changes.batches], changes.frontier, changes.late)
        if self.strings.added > self._texts.enough:
            self._texts.forget(self)
        return changes

    def _last_timers(self, items: Items) -> Changes:
        """Before the end: time has come as far as the last event, and the timers of statements fire until then."""
        ends = not items.single and items.kinds is not None and ItemKind.END in items.kinds
        return self.intake.push(guarantee(self.last)) if ends and self.last > BEGINNING else QUIET

    def _see(self, items: Items) -> None:
        if not self.seen:
            self._compile_ahead(eids=items.eid_high is not None)
        if items.kinds is not None and (items.kinds > ROWS).any():  # begins have attributes, too
            items = take(items, items.kinds <= ROWS)
        rows = slice(None) if items.kinds is None else items.kinds <= ItemKind.WITHDRAWAL
        self.seen += len(items.types[rows])
        self.last = max(self.last, int(items.end[rows].max(initial=BEGINNING)))
        self.relevant += int(np.count_nonzero(items.types[rows] >= 0))
        if self._keys is not None:
            self.keyless += self._keys.count(items)

    def _compile_ahead(self, *, eids: bool) -> None:
        """Make the kernels of operators that see events later than the first push, so that none is made in mid-stream.

        Those are queries that read matches, which have eids; all behind a sort; and a strategy that is not chosen yet.
        """
        if self._soon:  # nothing waits for a compiler
            return
        if self.queries.chained:
            prepare_hashing()
        for number, stage in enumerate(self.stages):
            if stage.plan.has_rows_of_its_own or (not stage.sources and self.order.kind not in ("slack", "auto")):
                continue
            for detector in self.new_detectors(number):
                ranked = eids or bool(stage.sources) or any(branch.needs_order for branch in detector.branches)
                for branch in detector.branches:
                    branch.compile_ahead(eids=ranked)

    def passes(self, end: int) -> bool:
        """Note an event that nobody reads, where no answer waits for time to pass; False if it comes too late."""
        self.seen += 1
        intake = self.intake
        if end < intake.clock:
            return intake.admits(end)
        intake.clock = end
        return True

    def announced(self, batch: pa.RecordBatch) -> Items:
        """Begins as items, to be pushed next, from rows whose end says nothing."""
        items = self.encode(batch)
        if items.eid_high is None:
            raise InputError("a begin needs an eid", hint="the interval that ends it comes with the same eid")
        kinds = np.full(len(items), ItemKind.BEGIN, np.int8)
        return replaced(items, kinds=kinds, end=np.full(len(items), END_OF_TIME, np.int64))

    def begin_guarantee(self, type: str | None, time: int, source: str | None = None) -> Items:
        """The item that says: every event of a type that starts at or before `time` was announced or delivered."""
        code = NO_SOURCE if source is None else self.encoder.sources.code(source)
        return control((ItemKind.BEGIN_GUARANTEE, self.encoder.type_code(type), code, time, time))

    def guarantee(self, type: str | None, time: int, source: str | None = None) -> Items:
        """The item that says: every later event of a type (None: all) from a source (None: any) ends after `time`."""
        code = NO_SOURCE if source is None else self.encoder.sources.code(source)
        return control((ItemKind.GUARANTEE, self.encoder.type_code(type), code, time, time))

    # --- what hosts ask ---

    @property
    def inner(self) -> tuple[Operator, ...]:
        return (self._front,)

    @property
    def texts_in_use(self) -> Ints:
        return of_operators(self.inner)

    @property
    def stages(self) -> list[Stage]:
        return self.queries.stages

    @property
    def at_once(self) -> bool:
        """Whether an event that nobody reads changes nothing but the clock."""
        first = self.plans[0]
        alone = len(self.plans) == 1 and not self._around and first.after is None and first.consume is None
        plain = not first.has_rows_of_its_own and first.under is None and not first.early
        return alone and plain and not self.waits and self.order.kind == "in-order"

    @property
    def wanted(self) -> Mapping[str, Field]:
        """The attributes of the events that any query reads; eids are none."""
        return {name: field for name, field in self.encoder.wanted.items() if name not in (EID, TYPE)}

    @property
    def clock(self) -> int:
        return self.intake.clock

    def nothing(self, number: int) -> ChangeBatch:
        """No changes of a query, for the columns of its result."""
        return no_changes(self.plans[number], self.functions)

    @property
    def strategy(self) -> str:
        """The strategy in words; where it chooses by itself, what it has chosen and why."""
        chosen = [str(auto) for auto in self.autos]
        return "; ".join(chosen) or f"{self.order}: {self.order.level}"

    @property
    def switches(self) -> int:
        """How often strategies that choose by themselves have changed their mind."""
        return sum(auto.switches for auto in self.autos)

    @property
    def counters(self) -> Counters:
        """What was seen, over all queries."""
        total = self.begins.counters
        total.seen, total.relevant, total.late = self.seen, self.relevant, self.intake.late_count
        total.keyless = self.keyless
        return total

    # --- state ---

    @property
    def _described(self) -> str:
        """The strategy and what stands around the queries: a state fits only where both are the same."""
        return " around ".join([str(self.order), *map(repr, self._around)])

    def snapshot(self, since: int = 0) -> list[Part]:
        words = {"order": self._described, "seen": self.seen, "relevant": self.relevant, "keyless": self.keyless}
        words["last"] = self.last
        words["copies"] = True  # a state of 0.2 does not say which events may still come again
        return [Part("graph", 0, encode("graph", words)), *nested("intake", self._front.snapshot(since))]

    def carry_over(self, parts: Iterable[Part], plans: Sequence[Plan], *, accept_loss: bool) -> CarryOver:
        """Restore a state that other queries have saved: what fits of it goes on, the rest is named, or refused."""
        order = self.order
        parts = list(parts)
        before = CarryOver(plans, self._around, order.corrects, order.sorts, accept_loss)
        before.match(self.stages)
        limit = None if self._limit is None else self._limit * len(plans)
        old = QueryGraph(
            plans, self.schema, self.encoder.columns, jit=self._jit, order=order, memory_limit=limit,
            functions=self.functions, around=self._around, spill=self._spill,
            soon=self._soon,
        )  # fmt: skip
        old.restore(parts)
        before.waiting = {
            stage.plan.identity: waiting_in(stage)
            for stage in old.stages
            if not stage.plan.has_rows_of_its_own  # they start afresh, or are restored as they are
        }
        self.queries.carry_over = before
        self.restore(parts)
        said = [
            (ItemKind.GUARANTEE, self.types.index(type), NO_SOURCE, time, time)
            for type, time in self.intake.guarantees.conclude()
        ]
        for number in before.added if said and not order.sorts else ():
            replay(self.stages[number], control(*said))
        return before

    def restore(self, parts: Iterable[Part]) -> None:
        parts = list(parts)
        words = decode(only_part("graph", parts).data, "graph").words
        if words["order"] != self._described:
            raise StateError(
                f"the state was saved under order={words['order']!r}",
                detail=f"this session has order={self._described!r}",
                hint="restore it with the order that saved it",
            )
        self.copies.saved = bool(words.get("copies"))
        self._restore_front(within("intake", parts))
        self.seen, self.relevant = as_number(words["seen"]), as_number(words["relevant"])
        self.keyless = as_number(words.get("keyless", 0))
        self.last = as_number(words.get("last", BEGINNING))

    def _restore_front(self, parts: Iterable[Part]) -> None:
        """Take up begins, and early answers where both the state and these queries have them."""
        parts = list(parts)
        if not any(part.id == "early" for part in parts):
            self.begins.restore(parts)
        elif self.early is None:
            self.begins.restore(within("begins", parts))
        else:
            self.early.restore(parts)


def time_of(detector: Detector) -> StreamTime:
    """A clock of its own for an operator that is not its detector."""
    return replace(detector.time, guarantees={})


def filter_of(plan: Plan) -> Plan:
    """The plan from which a detector is made; of a statement or definition, which has none, a filter of its types."""
    if not plan.has_rows_of_its_own:
        return plan
    variables = tuple(Variable(type, (type,), ()) for type in types_of(plan))
    every = Block((Leaf(0, tuple(Alt(type, type) for type in types_of(plan))),))
    return replace(plan, alternatives=(every,), key=(), variables=variables, outputs=())


def reads_of(plan: Plan, detector: Detector) -> tuple[str, ...]:
    """The attributes that the operator of a query reads: those of its detector, and those that a mode asks sets for."""
    if plan.staged is not None:
        return plan.staged.attrs
    if plan.derived is not None:
        return plan.derived.attrs
    if plan.consume is not None:
        return tuple(sorted({*detector.reads, *plan.consume.attrs}))
    constrained = set[str]() if plan.under is None else set().union(*map(plan.under.attrs, types_of(plan)))
    if plan.counts is None:
        return tuple(sorted({*detector.reads, *constrained})) if constrained else detector.reads
    asked = {node.attr for expr in plan.counts.asked for node in walk(expr) if isinstance(node, Col)}
    return tuple(sorted({*detector.reads, *asked, *constrained}))


def counted_by(plan: Plan, order: Strategy) -> PrefixChain | None:
    """The chain whose prefixes are counted instead of matches; None: there are matches, or answers are corrected."""
    if plan.counts is None or order.corrects:
        return None
    chain = prefix_chain(plan)
    return None if isinstance(chain, str) else chain
