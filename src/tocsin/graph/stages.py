"""Stages: queries that feed each other. The matches of one are events for those after it.

In order, a stage that reads matches sees rows only once the frontier of the queries that it listens to has passed them,
so it sees everything in order. Without order nothing is held back: a match that is retracted is an event that is
withdrawn, and the frontier of a query is a guarantee about the type that has its name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from tocsin.codec import Part, as_number, as_numbers_by_name, decode, encode, nested, only_part, within
from tocsin.encode.auto_eids import AutoEids
from tocsin.encode.merge import in_time, join, parted, runs, take, with_text_eids
from tocsin.encode.stored import RowReader, stored_rows
from tocsin.engine.changes import QUIET, ChangeBatch, Changes
from tocsin.engine.kinds import MATCH
from tocsin.engine.operator import Counters, Nesting, Operator
from tocsin.engine.texts import joined, of_operators, of_rows
from tocsin.engine.too_late import passed
from tocsin.errors import StateError
from tocsin.events import BEGINNING, END_OF_TIME
from tocsin.graph.carry_over import CarryOver
from tocsin.graph.composites import Composites
from tocsin.graph.tap import Tap
from tocsin.items import EVERY, NO_SOURCE, Ints, ItemKind, Items, control, end, guarantee
from tocsin.order.release import Release
from tocsin.plan.block import Plan
from tocsin.plan.facts import types_of

Chosen: TypeAlias = tuple[Items, Ints]  # rows, and the place where each stood before


@dataclass(slots=True)
class Stage:
    """One query of a graph: its operator, the earlier stages it listens to, and the rows it must not see yet.

    frontier  no later change is of a match that ends at or before this
    told      what the operator was told is guaranteed, by type
    tap       where operators stand around a query that others read: what the others read
    release   where answers wait for their turn, if the strategy gives them in order of time
    is_bare   the operator is a detector, and nothing stands around it
    """

    plan: Plan
    operator: Operator
    sources: dict[int, Composites]
    reader: RowReader
    held: list[Items] = field(default_factory=list)
    frontier: int = BEGINNING
    told: dict[str, int] = field(default_factory=dict)
    tap: Tap | None = None
    release: Release | None = None
    is_bare: bool = False

    @property
    def passed(self) -> int:
        """No later match that others read ends at or before this."""
        return self.frontier if self.tap is None else max(self.frontier, self.tap.frontier)

    def push(self, items: Items) -> Changes:
        found = self.operator.push(items)
        self.frontier = max(self.frontier, found.frontier)
        return found

    def ripe(self, frontier: int) -> list[Items]:
        """The held rows that end at or before the frontier, in order of time."""
        ripe, self.held = parted([in_time(items) for items in self.held], frontier + 1)
        return ripe

    def learn(self, known: dict[str, int]) -> Items | None:
        """What is guaranteed by type, as items; None if nothing of it is new."""
        grown = {type: time for type, time in known.items() if time > self.told.get(type, BEGINNING)}
        self.told |= grown
        codes = self.reader.types
        said = [(ItemKind.GUARANTEE, codes.index(type), NO_SOURCE, time, time) for type, time in grown.items()]
        return control(*said) if said else None


class Stages(Nesting):
    """All queries of a graph, as one operator: what is pushed goes to each that reads it.

    ordered  the items come in order of time
    late     otherwise, by how many ticks events may come behind the clock; None: nobody knows
    """

    def __init__(self, stages: Sequence[Stage], *, ordered: bool, late: int | None) -> None:
        self.stages, self.ordered, self.late = list(stages), ordered, late
        self.chained = any(stage.sources for stage in self.stages)
        self._alone = self.stages[0].operator if len(self.stages) == 1 else None
        self.names = AutoEids()
        self.clock = BEGINNING
        self.known: dict[str, int] = {}  # what is guaranteed of events, by type
        self.carry_over: CarryOver | None = None  # what `restore` takes over where queries were changed

    @property
    def inner(self) -> tuple[Operator, ...]:
        return tuple(stage.operator for stage in self.stages)

    @property
    def counters(self) -> Counters:
        """What all queries counted together; duplicates are those of the first."""
        if self._alone is not None:
            return self._alone.counters
        each = [stage.operator.counters for stage in self.stages]
        total = replace(each[0])
        for more in each[1:]:
            total.matches, total.retracted = total.matches + more.matches, total.retracted + more.retracted
            total.waiting += more.waiting
        total.look = lambda: sum(counters.live for counters in each)
        return total

    @property
    def texts_in_use(self) -> Ints:
        return joined([of_operators(self.inner), *(of_rows(stage.held) for stage in self.stages)])

    def push(self, items: Items, chosen: Sequence[Chosen] | None = None) -> Changes:
        """Feed every query; the changes of each bear its number as `stage`.

        Where copies of events differ, `chosen` has the rows of these items that count for each query.
        """
        if items.single and not self.chained:
            return self._push_one(items) if self._alone is None else self._alone.push(items)
        said, late, at = Changes(), set(), 0
        for are_rows, run in runs(items.copy() if items.single else items):  # type: ignore[attr-defined]
            self._hear(run, are_rows)
            before: list[Changes] = []
            for number, stage in enumerate(self.stages):
                mine, places = (run, None) if chosen is None else chosen[number]
                found = self._feed(stage, mine, are_rows, before)
                before.append(found if stage.tap is None else stage.tap.taken())
                for batch in found:
                    batch.stage = number
                said.batches += found.batches
                if found.late and not stage.sources:
                    late |= {at + (place if places is None else int(places[place])) for place in found.late}
            at += len(run)
        said.late = sorted(late)
        said.frontier = min(stage.frontier for stage in self.stages)
        return said

    def _push_one(self, one: Items) -> Changes:
        """Feed one event by the shortest way, where no query reads the matches of another."""
        said: Changes | None = None
        for number, stage in enumerate(self.stages):
            found = stage.operator.push(one)
            if found.batches:
                for batch in found:
                    batch.stage = number
                said = found if said is None else Changes([*said.batches, *found.batches])
        return QUIET if said is None else said

    def _feed(self, stage: Stage, items: Items, are_rows: bool, before: list[Changes]) -> Changes:
        """Give a stage its part of some items of one sort, and the matches that they brought before it."""
        if not stage.sources:
            return stage.push(items)
        ended = not are_rows and ItemKind.END in (items.kinds if items.kinds is not None else ())
        if are_rows:
            stage.held.append(self._named(items))
        for number, composites in stage.sources.items():
            stage.held += [composites.items(batch) for batch in before[number] if len(batch) and batch.kind == MATCH]
        return self._feed_in_order(stage, ended) if self.ordered else self._feed_all(stage, items, are_rows, ended)

    def _named(self, items: Items) -> Items:
        """Events as they stand beside matches: with eids, which are texts. The same for all stages."""
        if self._last is None or self._last[0] is not items:
            named = self.names.named(take(items, items.types >= 0))
            self._last = items, with_text_eids(named, self.stages[0].reader.strings)
            self.names.forget(self._passed())
        return self._last[1]

    def _passed(self) -> int:
        """No event that ends at or before this will come: by the clock, or because it is guaranteed of all types."""
        if self.ordered:
            return self.clock - 1
        plain = {type for stage in self.stages for type in self._plain(stage)}
        guaranteed = min((self.known.get(type, BEGINNING) for type in plain), default=BEGINNING)
        return max(guaranteed, passed(self.clock, self.late))

    _last: tuple[Items, Items] | None = None

    def _feed_in_order(self, stage: Stage, ended: bool) -> Changes:
        """Give a stage the rows that the frontier of its sources has passed, and tell it so."""
        frontier = END_OF_TIME if ended else min(self.stages[source].passed for source in stage.sources)
        said = Changes()
        for items in stage.ripe(frontier):
            said.add(stage.push(items))
        if ended:
            said.add(stage.push(end()))
        elif frontier > BEGINNING:
            said.add(stage.push(guarantee(frontier)))
        return said

    def _feed_all(self, stage: Stage, items: Items, are_rows: bool, ended: bool) -> Changes:
        """Give a stage all its rows, and what is guaranteed of each type that it reads."""
        held, stage.held = stage.held, []
        said = Changes()
        if held:
            said.add(stage.push(join(held)))
        if ended:
            said.add(stage.push(end()))
            return said
        behind = passed(self.clock, self.late)
        known = {type: max(behind, self.known.get(type, BEGINNING)) for type in self._plain(stage)}
        reads = types_of(stage.plan)
        for source in map(self.stages.__getitem__, stage.sources):
            known |= {type: source.passed for type in source.plan.emits if type in reads}
        ticks = None if are_rows else _ticks(items)
        told = [each for each in (ticks, stage.learn(known)) if each is not None]
        if told:
            said.add(stage.push(join(told)))
        return said

    def _plain(self, stage: Stage) -> set[str]:
        """The types that a stage reads and that are no matches."""
        return set(types_of(stage.plan)).difference(*(self.stages[source].plan.emits for source in stage.sources))

    def _hear(self, items: Items, are_rows: bool) -> None:
        """Take note of the clock, and of what is guaranteed of events."""
        if not self.chained:
            return
        if are_rows:
            self.clock = max(self.clock, int(items.end.max(initial=BEGINNING)))
            return
        assert items.kinds is not None
        types = self.stages[0].reader.types
        for kind, type, time in zip(items.kinds.tolist(), items.types.tolist(), items.end.tolist(), strict=True):
            if kind == ItemKind.GUARANTEE:
                for each in types if type == EVERY else types[type : type + 1]:
                    self.known[each] = max(time, self.known.get(each, BEGINNING))
            elif kind == ItemKind.TICK:
                self.clock = max(self.clock, time)

    # --- state ---

    def snapshot(self, since: int = 0) -> list[Part]:
        words = {"clock": self.clock, "known": self.known, "queries": [stage.plan.identity for stage in self.stages]}
        parts = [Part("stages", 0, encode("stages", words, arrays=self.names.saved()))]
        for number, stage in enumerate(self.stages):
            own = {"frontier": stage.frontier, "told": stage.told, "passed": stage.passed}
            rows = {str(at): stored_rows(items) for at, items in enumerate(stage.held)}
            parts.append(Part(f"{number}/stage", 0, encode("stage", own, rows)))
            parts += nested(f"{number}/operator", stage.operator.snapshot(since))
        return parts

    def restore(self, parts: Iterable[Part]) -> None:
        parts = list(parts)
        stored = decode(only_part("stages", parts).data, "stages")
        queries, before = stored.words["queries"], self.carry_over
        if before is None:
            check_queries(queries, [stage.plan.identity for stage in self.stages])
        found = dict(enumerate(range(len(queries)))) if before is None else before.found
        own = {at: decode(only_part(f"{at}/stage", parts).data, "stage") for at in found.values()}
        held = {number: self.stages[number].reader.all(own[at].tables.values()) for number, at in found.items()}
        for number, at in found.items():
            stage, words, inner = self.stages[number], own[at].words, within(f"{at}/operator", parts)
            if before is not None and before.plans[at].identity != stage.plan.identity:
                before.take_over(number, stage, before.plans[at], inner)
            else:
                stage.operator.restore(inner)
                stage.frontier = as_number(words["frontier"])
                if stage.tap is not None:
                    stage.tap.frontier = as_number(words.get("passed", stage.frontier))
            stage.held, stage.told = held[number], as_numbers_by_name(words["told"])
        self.clock, self.known = as_number(stored.words["clock"]), as_numbers_by_name(stored.words["known"])
        self.names.restore(stored.arrays)
        self._hand_on([] if before is None else before.owed)

    def _hand_on(self, owed: Sequence[ChangeBatch]) -> None:
        """Give answers that are owed to the queries that read them; they are pushed with what comes next."""
        for batch in owed:
            for stage in self.stages:
                if batch.stage in stage.sources and batch.kind == MATCH:
                    stage.held.append(stage.sources[batch.stage].items(batch))


def check_queries(saved: list[str], mine: list[str]) -> None:
    """Refuse a state that other queries have saved."""
    if saved != mine:
        raise StateError(
            "the state was saved by other queries",
            hint="restore it with the queries that saved it, or carry over what fits: carry_over=True",
        )


def _ticks(items: Items) -> Items | None:
    """The ticks among some items."""
    assert items.kinds is not None
    ticks = items.kinds == ItemKind.TICK
    return take(items, np.flatnonzero(ticks)) if ticks.any() else None
