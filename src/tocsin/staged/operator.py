"""The operator of a staged statement, in place of a detector: settled events in, complex events out, as columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

import numpy as np

from tocsin.codec import Part, as_numbers, as_shape, decode, encode, only_part, reading
from tocsin.encode.auto_eids import AutoEids
from tocsin.encode.merge import replaced, runs, sliced, take
from tocsin.engine.changes import ChangeBatch, Changes
from tocsin.engine.operator import Counters, Nesting, Operator, RemembersAll, Setting
from tocsin.engine.texts import NONE
from tocsin.errors import TocsinError
from tocsin.events import END_OF_TIME
from tocsin.items import NO_ROWS, Ints, ItemKind, Items
from tocsin.order.settled import Settled, SettledByEnd
from tocsin.order.strategy import Strategy
from tocsin.plan.block import Plan
from tocsin.plan.facts import types_of
from tocsin.staged.answers import batch_of, shown
from tocsin.staged.compiled.choice import AT_ONCE, BodyChoice
from tocsin.staged.compiled.machine import CompiledMachine
from tocsin.staged.correcting import CorrectingProcess
from tocsin.staged.event import StagedEvent
from tocsin.staged.event_columns import EventColumns
from tocsin.staged.machine import Found, Machine


def staged_operator(
    setting: Setting, order: Strategy, *, jit: bool, limit: int | None = None
) -> Settled | CorrectingProcess:
    """The operator of a staged statement: it walks along settled events, or answers at once and corrects."""
    if _corrects(setting.plan, order):
        if limit is not None:
            raise _no_limit(setting.plan, "it corrects its answers, so it keeps the states that it may go back to")
        return CorrectingProcess(setting)
    return SettledByEnd(StagedProcess(setting, jit=jit, limit=limit), setting.time, setting.reader)


def _corrects(plan: Plan, order: Strategy) -> bool:
    """Whether a statement answers before events are settled; refuses what makes no sense for it."""
    if order.immediate or order.kind == "auto" or order.broken == "accept":
        why = {
            "auto": "auto chooses by what is withdrawn, and a statement is not asked about that",
            "aggressive": "its timers fire when their time has come, and not before (trailing=immediate)",
        }.get(order.kind, "what it has used up cannot be settled and open at once (broken=accept)")
        raise TocsinError(
            f"the statement {plan.title} does not run with order={str(order)!r}",
            detail=why,
            hint='use order="aggressive(...)", which corrects, or "conservative(...)", which waits',
        )
    types = types_of(plan)
    held = order.held_types(types)
    if held and not held.issuperset(types):
        others = ", ".join(sorted(set(types) - held))
        raise TocsinError(
            f"the statement {plan.title} cannot wait for {', '.join(sorted(held))} and answer at once about {others}",
            detail="what a stage finds depends on all of its events",
            hint="let it wait for all of the types that it reads, or for none of them",
        )
    return order.corrects and not held


def _no_limit(plan: Plan, why: str) -> TocsinError:
    """A limit of memory that nothing would keep."""
    return TocsinError(
        f"the statement {plan.title} keeps in memory what its operands collect",
        detail=why,
        hint="leave memory_limit out; windows (rows, range), consume and Term bound what is kept",
    )


class StagedProcess(RemembersAll, Nesting):
    """Feeds settled events to the machine of a statement, stage by stage, and makes columns of what it finds.

    Those of one end come together. The machine is plain Python until the compiled one is there, which goes on from its
    state. With a limit of memory it is the function from the beginning, whose arrays may lie in files.
    """

    def __init__(self, setting: Setting, *, jit: bool, limit: int | None = None) -> None:
        form = setting.plan.staged
        assert form is not None
        self.inner: tuple[Operator, ...] = ()
        self._setting, self._form = setting, form
        self._columns = EventColumns(setting)
        kinds = [output.expr.kind for output in setting.plan.outputs]
        unit, longest = setting.plan.schema.unit, dict(form.longest)
        self._choice = BodyChoice(form.statement, self._columns.fields, unit, kinds, longest, jit=jit)
        self._limit = limit
        if limit is not None and not self._choice.at_once():
            raise _no_limit(setting.plan, f"it is not compiled, because {self._choice.reason}")
        self.machine: Machine | CompiledMachine = self._plain()
        self.ended = False
        self.seen = self.matches = 0

    def _plain(self) -> Machine:
        return Machine(self._form.statement, self._setting.plan.schema.unit, dict(self._form.longest))

    # --- the one verb ---

    def push(self, items: Items) -> Changes:
        """Take settled events, and how far they are complete; answer with the complex events of their stages."""
        batches: list[ChangeBatch] = []
        for are_rows, run in runs(items.copy() if items.single else items):  # type: ignore[attr-defined]
            batches += self._take(run) if are_rows else self._hear(run)
        batches = [batch for batch in batches if len(batch)]
        self.matches += sum(map(len, batches))
        frontier = END_OF_TIME if self.ended else self.machine.clock
        return Changes(batches, frontier)

    def _hear(self, items: Items) -> Iterator[ChangeBatch]:
        """Let time pass as far as events are complete. At the end nothing fires any more."""
        assert items.kinds is not None
        for kind, time in zip(items.kinds.tolist(), items.end.tolist(), strict=True):
            if kind == ItemKind.END:
                self.ended = True
            elif kind == ItemKind.GUARANTEE and self.machine.created is not None and time > self.machine.clock:
                if isinstance(self.machine, CompiledMachine):
                    yield shown(self._setting, *self.machine.advance(time))
                else:
                    yield self._batch(self.machine.advance(time))

    def _take(self, items: Items) -> Iterator[ChangeBatch]:
        """Take events whose stages are complete."""
        at = self._columns.places(items)
        items = in_canonical_order(items, at)
        self.seen += len(items)
        while len(items):
            machine = self._best(len(items))
            if isinstance(machine, CompiledMachine):
                found = machine.take(items)
                if found is not None:
                    yield shown(self._setting, *found)
                    return
                self._leave(machine)
                continue
            cut = int(np.searchsorted(items.end, items.end[min(AT_ONCE, len(items)) - 1], side="right"))
            piece, items = sliced(items, 0, cut), sliced(items, cut, len(items) - cut)
            yield self._batch(self._stages(machine, piece))

    # --- which body ---

    def _best(self, events: int) -> Machine | CompiledMachine:
        """The machine for so many events: the compiled one from when it is there."""
        if isinstance(self.machine, Machine) and (body := self._choice.body(events)) is not None:
            assert self._choice.program is not None
            reader = self._setting.reader
            compiled = CompiledMachine(
                self._choice.program, body, self._setting.plan, tuple(reader.types), reader.strings, self._limit
            )
            compiled.load(self.machine.save())
            self.machine = compiled
        return self.machine

    def _leave(self, machine: CompiledMachine) -> None:
        """Go on in plain Python, where numbers have no end."""
        self._choice.program = None
        self.machine = self._plain()
        self.machine.load(machine.save())

    # --- plain Python ---

    def _stages(self, machine: Machine, items: Items) -> Iterator[tuple[int, list[Found]]]:
        for end, several in groupby(self._events(machine, items), key=lambda event: event.end):
            yield from machine.advance(end - 1)
            yield end, machine.stage(end, list(several))

    def _events(self, machine: Machine, items: Items) -> Iterator[StagedEvent]:
        """The events of a batch, numbered in their order."""
        for row in self._columns.rows(items, np.arange(len(items))):
            number, machine.next = machine.next, machine.next + 1
            yield StagedEvent(number, *row)

    def _batch(self, stages: Iterable[tuple[int, list[Found]]]) -> ChangeBatch:
        return batch_of(self._setting, [(now, each) for now, stage in stages for each in stage])

    # --- what hosts ask ---

    @property
    def counters(self) -> Counters:
        total = Counters(self.seen, self.seen)
        total.matches, total.look = self.matches, self.machine.kept
        return total

    @property
    def texts_in_use(self) -> Ints:
        """None in plain Python: partitions and events have the texts themselves."""
        return self.machine.texts_in_use if isinstance(self.machine, CompiledMachine) else NONE

    # --- state ---

    def snapshot(self, since: int = 0) -> list[Part]:
        del since
        words = {"machine": self.machine.save(), "counts": [self.seen, self.matches], "ended": self.ended}
        return [Part("staged", 0, encode("staged", words))]

    def restore(self, parts: Iterable[Part]) -> None:
        stored = decode(only_part("staged", parts).data, "staged")
        with reading():
            machine = self._plain()
            machine.load(stored.words["machine"])
            self._columns.check(values for *_, values in stored.words["machine"]["events"])
            self._columns.check_keys(machine.keys())
            seen, matches = as_numbers(stored.words["counts"])
            ended = as_shape(bool, stored.words["ended"])
            if ended != self._setting.time.ended:
                raise ValueError("the statement has ended before its events, or goes on after them")
        self.machine, self.seen, self.matches, self.ended = machine, seen, matches, ended


def in_canonical_order(items: Items, at: Ints) -> Items:
    """Some events in order of their ends: those of one end by start and eid, each once. Nobody asks what they show."""
    end = items.end[at]
    tied = np.zeros(len(at), np.bool_)
    tied[1:] = end[1:] == end[:-1]
    if not tied.any():
        return items if len(at) == len(items) else take(replaced(items, payload=NO_ROWS), at)
    tied[:-1] |= tied[1:]
    places = np.flatnonzero(tied)
    named = AutoEids().named(take(items, at[places]))  # all that can be equal to them are among them
    assert named.eid_high is not None and named.eid_low is not None
    columns = (named.types, named.eid_low, named.eid_high, named.start, named.end)
    order = np.lexsort(columns)
    again = np.zeros(len(order), np.bool_)
    again[1:] = np.logical_and.reduce([column[order][1:] == column[order][:-1] for column in columns])
    rows, once = at.copy(), np.ones(len(at), np.bool_)
    rows[places] = at[places[order]]
    once[places[again]] = False
    return take(replaced(items, payload=NO_ROWS), rows[once])
