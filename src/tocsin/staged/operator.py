"""The operator of a staged statement, in place of a detector: settled events in, complex events out, as columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from tocsin.codec import Part, as_numbers, decode, encode, only_part, reading
from tocsin.encode.merge import runs
from tocsin.engine.changes import Changes
from tocsin.engine.operator import Counters, Operator, RemembersAll, Setting
from tocsin.engine.texts import NONE
from tocsin.errors import TocsinError
from tocsin.events import END_OF_TIME
from tocsin.items import Ints, ItemKind, Items
from tocsin.order.settled import Settled
from tocsin.order.strategy import Strategy
from tocsin.plan.block import Plan
from tocsin.plan.facts import types_of
from tocsin.staged.answers import batch_of
from tocsin.staged.correcting import CorrectingProcess
from tocsin.staged.event import StagedEvent
from tocsin.staged.event_columns import EventColumns
from tocsin.staged.machine import Found, Machine


def staged_operator(setting: Setting, order: Strategy) -> Settled | CorrectingProcess:
    """The operator of a staged statement: it walks along settled events, or answers at once and corrects."""
    if _corrects(setting.plan, order):
        return CorrectingProcess(setting)
    return Settled(StagedProcess(setting), setting.time, setting.reader)


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


def refuse_limit(plan: Plan, limit: int | None) -> None:
    """Refuse a limit of memory, which nothing would keep: what operands collect does not go to disk."""
    if limit is not None:
        raise TocsinError(
            f"the statement {plan.title} keeps in memory what its operands collect",
            hint="leave memory_limit out; windows (rows, range), consume and Term bound what is kept",
        )


class StagedProcess(RemembersAll):
    """Feeds settled events to the machine of a statement, stage by stage, and makes columns of what it finds."""

    def __init__(self, setting: Setting) -> None:
        form = setting.plan.staged
        assert form is not None
        self.inner: tuple[Operator, ...] = ()
        self._setting, self._form = setting, form
        self._columns = EventColumns(setting)
        self.machine = Machine(form.statement, setting.plan.schema.unit)
        self.ended = False
        self.seen = self.matches = 0

    # --- the one verb ---

    def push(self, items: Items) -> Changes:
        """Take settled events, and how far they are complete; answer with the complex events of their stages."""
        found: list[tuple[int, Found]] = []  # with the time of the stage
        for are_rows, run in runs(items.copy() if items.single else items):  # type: ignore[attr-defined]
            several = self._stages(run) if are_rows else self._hear(run)
            found += [(now, each) for now, stage in several for each in stage]
        self.matches += len(found)
        frontier = END_OF_TIME if self.ended else self.machine.clock
        return Changes([batch_of(self._setting, found)] if found else [], frontier)

    def _hear(self, items: Items) -> Iterator[tuple[int, list[Found]]]:
        """Let time pass as far as events are complete. At the end nothing fires any more."""
        assert items.kinds is not None
        for kind, time in zip(items.kinds.tolist(), items.end.tolist(), strict=True):
            if kind == ItemKind.END:
                self.ended = True
            elif kind == ItemKind.GUARANTEE and self.machine.created is not None and time > self.machine.clock:
                yield from self.machine.advance(time)

    def _stages(self, items: Items) -> Iterator[tuple[int, list[Found]]]:
        machine = self.machine
        for end, several in groupby(self._events(items), key=lambda event: event.end):
            yield from machine.advance(end - 1)
            yield end, machine.stage(end, list(several))

    def _events(self, items: Items) -> Iterator[StagedEvent]:
        """The events of a batch that the statement reads, numbered in their order."""
        at = self._columns.places(items)
        self.seen += len(at)
        for row in self._columns.rows(items, at):
            number, self.machine.next = self.machine.next, self.machine.next + 1
            yield StagedEvent(number, *row)

    # --- what hosts ask ---

    @property
    def counters(self) -> Counters:
        total = Counters(self.seen, self.seen)
        total.matches, total.look = self.matches, self.machine.kept
        return total

    @property
    def texts_in_use(self) -> Ints:
        """None: partitions and events have the texts themselves."""
        return NONE

    # --- state ---

    def snapshot(self, since: int = 0) -> list[Part]:
        del since
        words = {"machine": self.machine.save(), "counts": [self.seen, self.matches], "ended": self.ended}
        return [Part("staged", 0, encode("staged", words))]

    def restore(self, parts: Iterable[Part]) -> None:
        stored = decode(only_part("staged", parts).data, "staged")
        with reading():
            machine = Machine(self._form.statement, self._setting.plan.schema.unit)
            machine.load(stored.words["machine"])
            self._columns.check(values for *_, values in stored.words["machine"]["events"])
            seen, matches = as_numbers(stored.words["counts"])
        self.machine, self.seen, self.matches, self.ended = machine, seen, matches, bool(stored.words["ended"])
