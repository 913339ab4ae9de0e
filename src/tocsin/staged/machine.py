"""The machine of one staged statement: stage by stage in canonical order, partition by partition, with its timers.

A stage touches the partitions of its events and those in which something is due; all others stay as they are. In each
the steps are those of the paper (O'Keeffe 2010, 3.6): terminate, collect and detect, initiate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from tocsin.codec import Scalar, as_number, as_shape
from tocsin.events import BEGINNING, END_OF_TIME
from tocsin.lang.staged_syntax import PartitionKey, Statement
from tocsin.order.rollback import Alarms
from tocsin.plan.staged_places import key_attribute, mode_of
from tocsin.staged.bindings import DetectionRun
from tocsin.staged.contexts import (
    Delayed,
    GlobalPartition,
    OpenContext,
    check_partitions,
    kept_in,
    loaded_key,
    loaded_partition,
    saved_partition,
)
from tocsin.staged.event import Binding, BlockFrame, StagedEvent, Tick, events_in, frames_in
from tocsin.staged.mapping import Chosen, Mapper, Row
from tocsin.staged.matcher import Matcher
from tocsin.staged.operand_list import OperandList
from tocsin.staged.options import written_out
from tocsin.staged.partition_keys import Key, KeyOf, key_of
from tocsin.staged.scope import ContextScope, Parts, RoleKey
from tocsin.staged.spots import PatternSpot, spots_of

NO_LENGTHS: Mapping[str, int] = {}
SOME = 1024  # partitions that may stay beside those that the last look at all of them has left


class Found(NamedTuple):
    """A complex event: its start, and the values of Select; it ends with its stage.

    place, key  which of those of its stage and global partition it is: they name it, wherever the partition runs
    """

    start: int
    values: tuple[Any, ...]
    place: int
    key: Key


SavedEvent: TypeAlias = tuple[int, str, int, int, dict[str, Scalar]]


class Machine:
    """What has happened to a statement, and what it finds at each stage.

    unit     the length of a tick; None: ticks are plain numbers
    longest  how long events of types may last of which `sst` is asked
    """

    def __init__(self, statement: Statement, unit: str | None, longest: Mapping[str, int] = NO_LENGTHS) -> None:
        statement = written_out(statement)
        self.statement, self.unit = statement, unit
        self._repeats = "repeat" in statement.options
        self._longest = longest
        self.root = spots_of(statement.pattern)
        self.matcher, self.mapper = Matcher(statement, self.root), Mapper(statement, self.root)
        self.scope = ContextScope(statement, self.root, 0, unit, statement.text, self.matcher.looked_up, longest)
        self._roles: dict[str, list[tuple[RoleKey, KeyOf]]] = {}
        for name, role in self.scope.roles:
            self._roles.setdefault(str(role.type), []).append((name, key_of(statement.gkeys, role)))
        self._leaves = [spot for spot in self.root.leaves() if spot.leaf is not None]
        self._consumes = [spot for spot in self._leaves if spot.leaf is not None and spot.leaf.consume]
        self._new_list = {number: each.new_list for each in self.scope.all() for number in each.leaves}
        self.mode = mode_of(statement.pattern)
        self.partitions: dict[Key, GlobalPartition] = {}
        self.created: int | None = None
        self.clock = BEGINNING
        self.next = 0
        self._left = 0  # how many partitions the last look at all of them has left
        self._alarms = Alarms()

    # --- time ---

    @property
    def due(self) -> int:
        """When something is to happen next; END_OF_TIME: only when events come."""
        return self._alarms.first

    def create(self, now: int) -> None:
        """The statement is defined: the universal partition is there from now on, keyed ones from their first event."""
        self.created = now
        if not self.statement.gkeys:
            self._partition((), now)
            self._set_alarm((), now - 1)

    def advance(self, until: int) -> list[tuple[int, list[Found]]]:
        """Let time pass: every event that ends by `until` was seen. What that brings, by the time of its stage."""
        found = []
        while (due := self.due) <= until and due < END_OF_TIME:
            found.append((due, self.stage(due, ())))
        self.clock = max(self.clock, until)
        return found

    # --- one stage ---

    def stage(self, now: int, events: Iterable[StagedEvent]) -> list[Found]:
        """What the statement finds at a stage, in an order that depends on nothing but what is found."""
        if self.created is None:
            self.create(now)
        self.clock = now
        touched = self.parts_of(events)
        for _, due in self._alarms.past(now):
            touched.setdefault(due, {})  # type: ignore[arg-type]
        rows = [found for key, mine in touched.items() for found in self.stage_in(key, now, mine)]
        if len(self.partitions) > SOME + 2 * self._left:
            self._sweep(now)
        return sorted(rows, key=_row_order)

    def parts_of(self, events: Iterable[StagedEvent]) -> dict[Key, Parts]:
        """The parts that the events of a stage play, by global partition."""
        touched: dict[Key, Parts] = {}
        for event in events:
            for role, key_in in self._roles.get(event.type, ()):
                key = key_in(event.values)
                if key is not None:
                    touched.setdefault(key, {}).setdefault(role, []).append(event)
        return touched

    def stage_in(self, key: Key, now: int, mine: Parts) -> list[Found]:
        """What the statement finds in one global partition at a stage; no other partition has a say in it."""
        part = self._partition(key, now)
        brought = sorted(self._in_partition(key, part, now, mine), key=_row_order)
        if self._is_as_new(part, now):
            del self.partitions[key]
            self._alarms.set(key, END_OF_TIME)
        else:
            self._set_alarm(key, now)
        return [Found(*row, place, key) for place, row in enumerate(brought)]

    def _partition(self, key: Key, now: int) -> GlobalPartition:
        part = self.partitions.get(key)
        if part is None:
            assert self.created is not None
            part = self.partitions[key] = self.scope.partition(self.created, now)
        return part

    def _is_as_new(self, part: GlobalPartition, now: int) -> bool:
        """Whether a partition can be forgotten: the next event would make the same one."""
        if not self.statement.gkeys or (part.seen and self.statement.lkeys):
            return False
        assert self.created is not None
        scope = self.scope
        if not scope.starts:
            return not part.contexts
        if scope.start_is_open(self.created, now + 1):
            if scope.ticking or len(part.contexts) != 1 or any(last is not None for last in scope.lasts):
                return False
            (context,) = part.contexts
            return context.opener is None and not context.locals and not context.delayed
        return not part.contexts

    def _sweep(self, now: int) -> None:
        """Forget partitions in which all that was collected has become too old; the next event would come too late."""
        for key, part in list(self.partitions.items()):
            for context in part.contexts:
                for local, state in list(context.locals.items()):
                    for each in state.lists.values():
                        each.expire(now)
                    if state.is_empty:
                        del context.locals[local]
            if self._is_as_new(part, now):
                del self.partitions[key]
                self._alarms.set(key, END_OF_TIME)
        self._left = len(self.partitions)

    def _in_partition(self, key: Key, part: GlobalPartition, now: int, mine: Parts) -> list[Row]:
        """The steps of one stage in one global partition: terminate, collect and detect, initiate."""
        scope = self.scope
        scope.see(part, mine)
        rows: list[Row] = []
        for context, at, closers in scope.terminated(part, now, mine):
            part.contexts.remove(context)
            scope.end_blocks(context, part, now, mine)
            if not self.statement.terms[at].discard:
                rows += self._finished(context, part, now, key, at, closers)
        for context in part.contexts:
            scope.end_blocks(context, part, now, mine)
            news = scope.collect(context, part, now, mine)
            for local in news if self.mode != "deferred" else ():
                rows += self._searched(context, now, key, local)
                if context.locals[local].is_empty:
                    del context.locals[local]
        scope.initiate(part, now, mine)
        return rows

    # --- detection ---

    def _run(self, context: OpenContext, local: Key, now: int, *, final: bool) -> DetectionRun:
        found = context.locals.get(local) if final else context.local(local)
        fires = {} if final else dict((context.fires or {}).get(local, {}))
        frames = self.scope.frames(found, now, final=final) if found is not None and self.scope.blocks else {}
        sst: Callable[[str], int] = lambda each: now - self._longest.get(each, 0)  # noqa: E731
        bound: list[Any] = [None] * self.matcher.size
        return DetectionRun(now, context.opened, final, self.scope.lists(found, now), fires, sst, bound, frames)

    def _searched(self, context: OpenContext, now: int, key: Key, local: Key) -> list[Row]:
        """Look for the pattern in a local partition; with `repeat` again, as long as events are consumed."""
        rows, used = self._detected(context, self._run(context, local, now, final=False), key, local)
        while used and self._repeats:
            more, used = self._detected(context, self._run(context, local, now, final=False), key, local)
            rows += more
        return rows

    def _detected(self, context: OpenContext, run: DetectionRun, key: Key, local: Key) -> tuple[list[Row], bool]:
        """Find all matches, then consume their events, then make complex events of them (delayed: when it ends).

        Also: whether a list has lost an event to a match.
        """
        matches, used = self.matcher.matches(run), False
        for leaf in self._consumes if matches else ():
            for match in matches:
                for home in _homes(leaf, match, run):
                    for event in events_in(match[leaf.number]):
                        used |= home.remove(event)
        if self.mode == "delayed":
            if matches:
                context.delayed.append(Delayed(run.now, local, matches))
            return [], used
        return self._selected(context, run, matches, key, local, None, ()), used

    def _finished(
        self, context: OpenContext, part: GlobalPartition, now: int, key: Key, at: int, closers: Sequence[StagedEvent]
    ) -> list[Row]:
        """What a context gives when it ends."""
        rows: list[Row] = []
        for each in context.delayed:
            run = DetectionRun(each.now, context.opened, False, {}, {}, self._no_sst, [])
            rows += self._selected(context, run, each.matches, key, each.local, at, closers)
        if self.scope.defers:
            for local in part.seen:
                run = self._run(context, local, now, final=True)
                rows += self._selected(context, run, self.matcher.matches(run), key, local, at, closers)
        return rows

    @staticmethod
    def _no_sst(_: str) -> int:
        return BEGINNING

    def _selected(
        self, context: OpenContext, run: DetectionRun, matches: Sequence[Binding], key: Key, local: Key,
        at: int | None, closers: Sequence[StagedEvent],
    ) -> list[Row]:  # fmt: skip
        if not matches:
            return []
        outside: dict[str, Sequence[StagedEvent]] = {}
        if at is not None:
            outside[self.statement.terms[at].called] = closers
        if context.opener is not None:
            outside[self.scope.inits[context.opener].called] = context.openers
        labels, keys = self._of_partition(key, local)
        return self.mapper.rows(Chosen(run, matches, outside, labels, keys))

    def _of_partition(self, key: Key, local: Key) -> tuple[dict[str, Any], dict[tuple[str, str], Any]]:
        """The labels of a partition by key, and the values of its keys by role and attribute."""
        labels: dict[str, Any] = {}
        keys: dict[tuple[str, str], Any] = {}
        statement = self.statement
        clauses = [*zip(statement.gkeys, key, strict=True), *zip(statement.lkeys, local, strict=True)]
        for clause, (value, label) in clauses:
            if clause.name is not None:
                labels[clause.name] = label
            for leaf in self._leaves if self.mapper.is_group and not clause.ranges else ():
                assert leaf.leaf is not None
                if (attr := key_attribute(clause, leaf.leaf)) is not None:
                    keys[leaf.leaf.called, attr] = value
        return labels, keys

    def _set_alarm(self, key: Key, now: int) -> None:
        """Look at a partition again when something is due in it after a time."""
        self._alarms.set(key, min(self.scope.due(self.partitions[key], now), default=END_OF_TIME))

    # --- state ---

    def kept(self) -> int:
        """How many places in lists are taken."""
        return sum(map(kept_in, self.partitions.values()))

    def save(self) -> dict[str, Any]:
        """All that has happened, as plain values."""
        events: dict[int, StagedEvent] = {}
        partitions = [[key, *saved_partition(part, events)] for key, part in self.partitions.items()]
        return {
            "created": self.created, "clock": self.clock, "next": self.next, "partitions": partitions,
            "events": [list(event) for event in events.values()],
        }  # fmt: skip

    def load(self, saved: Mapping[str, Any]) -> None:
        """Go on from what was stored, after a look at it."""
        as_shape(list[SavedEvent], saved["events"])
        check_partitions(saved["partitions"])
        as_shape(int | None, saved["created"])
        as_number(saved["clock"])
        as_number(saved["next"])
        self.go_on(saved)
        for part in self.partitions.values():
            for context in part.contexts:
                self._check(context)

    def go_on(self, saved: Mapping[str, Any]) -> None:
        """Go on from what this machine has saved, or another one of the statement."""
        events = {event[0]: StagedEvent(*event) for event in saved["events"]}
        self.created, self.clock, self.next = saved["created"], saved["clock"], saved["next"]
        self.partitions, self._alarms = {}, Alarms()
        for key, *part in saved["partitions"]:
            loaded = loaded_key(key)
            self.partitions[loaded] = loaded_partition(part, events, self._loaded_list)
            self._set_alarm(loaded, self.clock)

    def keys(self) -> Iterator[tuple[Sequence[PartitionKey], Key]]:
        """The keys of all partitions, with the clauses that they belong to."""
        for key, part in self.partitions.items():
            yield self.statement.gkeys, key
            delayed = (each.local for context in part.contexts for each in context.delayed)
            locals_ = (local for context in part.contexts for local in context.locals)
            yield from ((self.statement.lkeys, local) for local in (*part.seen, *locals_, *delayed))

    def _check(self, context: OpenContext) -> None:
        """Refuse a loaded context that speaks of what this statement has not."""
        places, sources = 1 + self.root.number, {spot.number for spot in self.scope.waiting}  # numbers begin with 1
        bindings = [match for delayed in context.delayed for match in delayed.matches]
        pending = {number for local in context.locals.values() for number in local.pending}
        opener = context.opener is None or 0 <= context.opener < len(self.scope.inits)
        if not opener or not pending <= sources or any(len(match) != places for match in bindings):
            raise ValueError("a context is not one of this statement")
        for match in bindings:
            for spot in self.root.all():
                bound = match[spot.number]
                if isinstance(bound, Tick | BlockFrame) if spot.leaf is not None else bool(events_in(bound)):
                    raise ValueError("a match has something at a place where it cannot be")

    def _loaded_list(self, number: int, events: Sequence[StagedEvent]) -> OperandList:
        found = self._new_list[number](number)
        found.collect(events, max((event.end for event in events), default=BEGINNING))
        return found


def _homes(leaf: PatternSpot, match: Binding, run: DetectionRun) -> Iterator[OperandList]:
    """The lists from which a match has an event at a leaf; of a count in a block, those of all its instances."""
    if not leaf.block:
        yield run.lists[leaf.number]
    elif isinstance(frame := match[leaf.block], BlockFrame):
        yield frame.lists[leaf.number]
    else:
        yield from (each.lists[leaf.number] for each in frames_in(run.frames) if leaf.number in each.lists)


def _row_order(row: Row | Found) -> Any:
    """Rows of one stage in an order that depends on nothing but them: equal ones cannot be told apart."""
    start, values = row[:2]
    return start, [(value is not None, isinstance(value, str), 0 if value is None else value) for value in values]
