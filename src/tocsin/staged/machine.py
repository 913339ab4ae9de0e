"""The machine of one staged statement: stage by stage in canonical order, partition by partition, with its timers.

A stage touches the partitions of its events and those in which something is due; all others stay as they are. In each
the steps are those of the paper (O'Keeffe 2010, 3.6): terminate, collect and detect, initiate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from tocsin.codec import Scalar, as_number, as_shape
from tocsin.errors import Problem, QueryError
from tocsin.events import BEGINNING, END_OF_TIME
from tocsin.lang.staged_syntax import (
    AggregateOf,
    AttrOf,
    EventsOf,
    Initiator,
    OperatorCall,
    Statement,
    Terminator,
    parts,
)
from tocsin.lang.syntax import UNITS
from tocsin.lang.time_patterns import next_time
from tocsin.order.rollback import Alarms
from tocsin.plan.staged_places import mode_of
from tocsin.staged.bindings import DetectionRun
from tocsin.staged.contexts import (
    Delayed,
    GlobalPartition,
    LocalState,
    OpenContext,
    SavedPartition,
    loaded_key,
    loaded_partition,
    saved_partition,
)
from tocsin.staged.event import TICK, Binding, StagedEvent, events_in
from tocsin.staged.mapping import Chosen, Mapper, Row
from tocsin.staged.matcher import Matcher
from tocsin.staged.operand_list import OperandList
from tocsin.staged.partition_keys import Key, Role, key_attribute, key_of
from tocsin.staged.spots import PatternSpot, spots_of, ticks
from tocsin.staged.values import Asked, aggregated, threshold_of, truth_of

FEW = 1024  # partitions that are not worth a look


class Found(NamedTuple):
    """A complex event: its start, and the values of Select; it ends with its stage.

    place, key  which of those of its stage and global partition it is: they name it, wherever the partition runs
    """

    start: int
    values: tuple[Any, ...]
    place: int
    key: Key


class RoleOf(NamedTuple):
    """What an event can be: `what` is leaf, init or term; `number` its spot, or its place in the clause."""

    what: str
    number: int
    key: Callable[[Mapping[str, Any]], Key | None]


Parts: TypeAlias = dict[tuple[str, int], list[StagedEvent]]  # by what and number of a role
SavedEvent: TypeAlias = tuple[int, str, int, int, dict[str, Scalar]]


class TerminatorTest(NamedTuple):
    own: Callable[[StagedEvent, int], bool] | None
    cross: tuple[Asked, ...]  # asked of (context, events that would close it)


class Machine:
    """What has happened to a statement, and what it finds at each stage.

    unit  the length of a tick; None: ticks are plain numbers
    sst   a lower bound on the starts of later events of a type, at the time of a stage
    """

    def __init__(self, statement: Statement, unit: str | None, sst: Callable[[str, int], int] | None = None) -> None:
        self.statement, self.unit = statement, unit
        self.sst = sst or (lambda _, now: now)
        self.root = spots_of(statement.pattern, statement.text)
        self.matcher, self.mapper = Matcher(statement, self.root), Mapper(statement, self.root)
        self._inits = statement.inits or (Initiator(),)
        self._leaves = {spot.number: spot.leaf for spot in self.root.leaves() if spot.leaf is not None}
        self._local_of = {number: key_of(statement.lkeys, leaf) for number, leaf in self._leaves.items()}
        self._takes = {number: threshold_of(leaf.conditions) for number, leaf in self._leaves.items()}
        self._ranges = {number: self._range(number) for number in self._leaves}
        self._roles = self._roles_by_type()
        self._opens = [threshold_of(init.conditions) for init in self._inits]
        self._closes = [self._terminator_test(term) for term in statement.terms]
        self._lasts = [None if term.after is None else self._ticks(term.after) for term in statement.terms]
        spots = list(self.root.all())
        self._ticking = [spot for spot in spots if spot.operator in ("At", "Every")]
        self._waiting = [spot for spot in spots if spot.operator == "After"]
        self._sources = {spot.spots[0].number for spot in self._waiting}
        self._consumes = [number for number, leaf in self._leaves.items() if leaf.consume]
        self._starts = any(init.type is None for init in self._inits)
        self.mode = mode_of(statement.pattern)
        self._defers = any(spot.deferred for spot in spots)
        self._keeps_seen = self._defers or bool(self._ticking)
        self._empties = {number: OperandList(self._looked_up(number), None, None, None) for number in self._leaves}
        self.partitions: dict[Key, GlobalPartition] = {}
        self.created: int | None = None
        self.clock = BEGINNING
        self.next = 0
        self._alarms = Alarms()
        self._enough = FEW

    # --- made once ---

    def _ticks(self, duration: Any) -> int:
        return ticks(duration, self.unit, self.statement.text)

    def _range(self, number: int) -> int | None:
        length = self._leaves[number].range
        return None if length is None else self._ticks(length)

    def _looked_up(self, number: int) -> Iterable[str]:
        return sorted(self.matcher.looked_up[number])

    def _roles_by_type(self) -> dict[str, list[RoleOf]]:
        statement = self.statement
        found: dict[str, list[RoleOf]] = {}
        every: list[tuple[str, int, Role]] = [("leaf", number, leaf) for number, leaf in self._leaves.items()]
        every += [("init", at, init) for at, init in enumerate(self._inits)]
        every += [("term", at, term) for at, term in enumerate(statement.terms)]
        for what, number, role in every:
            if role.type is not None:
                found.setdefault(role.type, []).append(RoleOf(what, number, key_of(statement.gkeys, role)))
        return found

    def _terminator_test(self, term: Terminator) -> TerminatorTest:
        crossing = [each for each in term.conditions if any(isinstance(part, AggregateOf) for part in parts(each))]
        own = threshold_of([each for each in term.conditions if each not in crossing])
        return TerminatorTest(own, tuple(truth_of(each, self._of_context) for each in crossing))

    def _of_context(self, node: Any) -> Asked:
        """An aggregate over the events that opened a context, or would close it."""
        if not isinstance(node, AggregateOf):
            raise QueryError(
                [Problem("a comparison with initiators needs an aggregate", node.span)], self.statement.text
            )
        named = [part for part in parts(node.of) if isinstance(part, AttrOf | EventsOf) and part.name is not None]
        asked = [(str(part.name), part.attr if isinstance(part, AttrOf) else None) for part in named]
        names = [init.called if init.type is not None else None for init in self._inits]

        def value(frame: tuple[OpenContext, Sequence[StagedEvent]]) -> Any:
            context, acting = frame
            opened_by = None if context.opener is None else names[context.opener]
            values: list[Any] = []
            for name, attr in asked:
                if name != opened_by and name in names:
                    return None  # another initiator has opened it
                events = context.openers if name == opened_by else acting
                values += [True if attr is None else event.values.get(attr) for event in events]
            return aggregated(node.function, values)

        return value

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
        while (due := self.due) <= until:
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
        return sorted(rows, key=_row_order)

    def parts_of(self, events: Iterable[StagedEvent]) -> dict[Key, Parts]:
        """The parts that the events of a stage play, by global partition."""
        touched: dict[Key, Parts] = {}
        for event in events:
            for role in self._roles.get(event.type, ()):
                key = role.key(event.values)
                if key is not None:
                    touched.setdefault(key, {}).setdefault((role.what, role.number), []).append(event)
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
            part = self.partitions[key] = GlobalPartition()
            if not self.statement.lkeys:
                part.seen[()] = None
            if self._starts and self._start_is_open(now):
                assert self.created is not None
                part.contexts.append(OpenContext(self.created))
        return part

    def _start_is_open(self, now: int) -> bool:
        """Whether the context of Start would be there in a partition that is first seen now."""
        assert self.created is not None
        return all(last is None or self.created + last >= now for last in self._lasts)

    def _is_as_new(self, part: GlobalPartition, now: int) -> bool:
        """Whether a partition can be forgotten: the next event would make the same one."""
        if not self.statement.gkeys or (part.seen and self.statement.lkeys):
            return False
        if not self._starts:
            return not part.contexts
        if self._start_is_open(now + 1):
            if self._ticking or len(part.contexts) != 1 or any(last is not None for last in self._lasts):
                return False
            (context,) = part.contexts
            return context.opener is None and not context.locals and not context.delayed
        return not part.contexts

    def _in_partition(self, key: Key, part: GlobalPartition, now: int, mine: Parts) -> list[Row]:
        """The steps of one stage in one global partition."""
        if self._keeps_seen and self.statement.lkeys:
            for (what, number), events in mine.items():
                for event in events if what == "leaf" else ():
                    if (local := self._local_of[number](event.values)) is not None:
                        part.seen[local] = None
        rows: list[Row] = []
        for context, at, closers in self._terminated(part, now, mine):
            part.contexts.remove(context)
            if not self.statement.terms[at].discard:
                rows += self._finished(context, part, now, key, at, closers)
        for context in part.contexts:
            rows += self._collected(context, part, now, key, mine)
        self._initiate(part, now, mine)
        return rows

    # --- contexts ---

    def _terminated(
        self, part: GlobalPartition, now: int, mine: Parts
    ) -> list[tuple[OpenContext, int, list[StagedEvent]]]:
        """The contexts that end, each with the first terminator that closes it and its events."""
        closed: list[tuple[OpenContext, int, list[StagedEvent]]] = []
        still_open = list(part.contexts)
        for at, term in enumerate(self.statement.terms):
            last = self._lasts[at]
            acting: list[StagedEvent] = []
            if last is not None:
                chosen = [each for each in still_open if now >= each.opened + last]
            elif ("term", at) in mine:
                chosen, acting = self._closed_by(at, term, still_open, mine["term", at], now)
            else:
                continue
            if chosen:
                closed += [(context, at, acting) for context in chosen]
                still_open = [each for each in still_open if all(each is not one for one in chosen)]
        return closed

    def _closed_by(
        self, at: int, term: Terminator, still_open: list[OpenContext], events: list[StagedEvent], now: int
    ) -> tuple[list[OpenContext], list[StagedEvent]]:
        """The contexts that an event terminator closes, and the events that do."""
        own, cross = self._closes[at]
        acting = events if own is None else [event for event in events if own(event, now)]
        if not acting:
            return [], []
        matching = [each for each in still_open if all(one((each, acting)) is True for one in cross)]
        if not matching:
            return [], []
        chosen = {"new": matching[-1:], "old": matching[:1], "each-matching": matching}.get(term.which, still_open)
        return chosen, acting

    def _initiate(self, part: GlobalPartition, now: int, mine: Parts) -> None:
        for at, init in enumerate(self._inits):
            events = mine.get(("init", at))
            if not events:
                continue
            opens = self._opens[at]
            acting = events if opens is None else [event for event in events if opens(event, now)]
            if acting and (init.add or not part.contexts):
                part.contexts.append(OpenContext(now, at, acting))

    # --- collection ---

    def _collected(
        self, context: OpenContext, part: GlobalPartition, now: int, key: Key,
        mine: Parts,
    ) -> list[Row]:  # fmt: skip
        """Collect the events of a stage into a context that goes on, and detect where something new is there."""
        news: dict[Key, None] = {}
        fires: dict[Key, dict[int, Any]] = {}
        for spot in self._ticking:
            if self._next_tick(spot.call, context, now - 1) == now:
                for local in part.seen:
                    fires.setdefault(local, {})[spot.number] = TICK
        for spot in self._waiting:
            self._fire(spot, context, now, fires)
            self._pend(spot, context, now, mine)
        for (what, number), events in mine.items():
            if what == "leaf" and number not in self._sources:
                for local, several in self._by_local(number, events, now).items():
                    self._list(context.local(local), number).collect(several, now)
                    news[local] = None
        if self.mode == "deferred":
            return []
        rows: list[Row] = []
        for local in {**news, **fires}:
            run = self._run(context, local, now, fires.get(local, {}), final=False)
            rows += self._detected(context, run, key, local)
            if context.locals[local].is_empty:
                del context.locals[local]
        return rows

    def _by_local(self, number: int, events: Sequence[StagedEvent], now: int) -> dict[Key, list[StagedEvent]]:
        """The events that a leaf takes, by their local key."""
        takes, local_of = self._takes[number], self._local_of[number]
        found: dict[Key, list[StagedEvent]] = {}
        for event in events:
            if takes is None or takes(event, now):
                local = local_of(event.values)
                if local is not None:
                    found.setdefault(local, []).append(event)
        return found

    def _list(self, local: LocalState, number: int) -> OperandList:
        found = local.lists.get(number)
        if found is None:
            leaf = self._leaves[number]
            found = OperandList(self._looked_up(number), leaf.rows, leaf.stages, self._ranges[number])
            local.lists[number] = found
        return found

    def _fire(self, spot: PatternSpot, context: OpenContext, now: int, fires: dict[Key, dict[int, Any]]) -> None:
        """After: sources that are due leave."""
        wait = self._ticks(spot.call.interval)
        for key, local in context.locals.items():
            pending = local.pending.get(spot.number)
            if pending and (due := [event for event in pending if event.end + wait <= now]):
                fires.setdefault(key, {})[spot.number] = due
                local.pending[spot.number] = [event for event in pending if event.end + wait > now]

    def _pend(self, spot: PatternSpot, context: OpenContext, now: int, mine: Parts) -> None:
        """After: newcomers wait, one by one."""
        number = spot.spots[0].number
        for key, events in self._by_local(number, mine.get(("leaf", number), ()), now).items():
            local = context.local(key)
            for event in events:
                local.pending[spot.number] = _joined(local.pending.get(spot.number, []), event, spot.call)

    # --- detection ---

    def _run(
        self, context: OpenContext, local: Key, now: int, fires: Mapping[int, Any], *, final: bool
    ) -> DetectionRun:
        lists = dict(self._empties)
        found = context.locals.get(local) if final else context.local(local)
        for number, each in found.lists.items() if found is not None else ():
            each.expire(now)
            lists[number] = each
        return DetectionRun(
            now, context.opened, final, lists, fires, lambda each: self.sst(each, now), [None] * self.matcher.size
        )

    def _detected(self, context: OpenContext, run: DetectionRun, key: Key, local: Key) -> list[Row]:
        """Find all matches, then consume their events, then make complex events of them (delayed: when it ends)."""
        matches = self.matcher.matches(run)
        for number in self._consumes if matches else ():
            for match in matches:
                for event in events_in(match[number]):
                    run.lists[number].remove(event)
        if self.mode == "delayed":
            if matches:
                context.delayed.append(Delayed(run.now, local, matches))
            return []
        return self._selected(context, run, matches, key, local, None, ())

    def _finished(
        self, context: OpenContext, part: GlobalPartition, now: int, key: Key, at: int, closers: Sequence[StagedEvent]
    ) -> list[Row]:
        """What a context gives when it ends."""
        rows: list[Row] = []
        for each in context.delayed:
            run = DetectionRun(each.now, context.opened, False, self._empties, {}, self._no_sst, [])
            rows += self._selected(context, run, each.matches, key, each.local, at, closers)
        if self._defers:
            for local in part.seen:
                run = self._run(context, local, now, {}, final=True)
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
            outside[self._inits[context.opener].called] = context.openers
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
            for leaf in self._leaves.values() if self.mapper.is_group and not clause.ranges else ():
                if (attr := key_attribute(clause, leaf)) is not None:
                    keys[leaf.called, attr] = value
        return labels, keys

    # --- timers ---

    def _next_tick(self, call: OperatorCall, context: OpenContext, after: int) -> int | None:
        """The first time after another at which At or Every happens in a context: never when it opens."""
        after = max(after, context.opened)
        if call.interval is not None:
            period = self._ticks(call.interval)
            return context.opened + ((after - context.opened) // period + 1) * period
        if self.unit is None:
            problem = Problem("At needs times with a unit", call.span, hint='say what they are: time_unit="s"')
            raise QueryError([problem], self.statement.text)
        return next_time(str(call.pattern), after, UNITS[self.unit])

    def _set_alarm(self, key: Key, now: int) -> None:
        """Look at a partition again when something is due in it after a time."""
        times = [END_OF_TIME]
        for context in self.partitions[key].contexts:
            times += [context.opened + last for last in self._lasts if last is not None]
            times += [tick for spot in self._ticking if (tick := self._next_tick(spot.call, context, now)) is not None]
            for spot in self._waiting:
                wait = self._ticks(spot.call.interval)
                pending = (event for local in context.locals.values() for event in local.pending.get(spot.number, ()))
                times += [event.end + wait for event in pending]
        self._alarms.set(key, min(times))

    # --- state ---

    def kept(self) -> int:
        """How many places in lists are taken."""
        locals_ = (
            local for part in self.partitions.values() for each in part.contexts for local in each.locals.values()
        )
        return sum(each.all.count for local in locals_ for each in local.lists.values())

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
        as_shape(list[SavedPartition], saved["partitions"])
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

    def _check(self, context: OpenContext) -> None:
        """Refuse a loaded context that speaks of what this statement has not."""
        places, sources = 1 + self.root.number, {spot.number for spot in self._waiting}  # numbers begin with 1
        bindings = [match for delayed in context.delayed for match in delayed.matches]
        pending = {number for local in context.locals.values() for number in local.pending}
        opener = context.opener is None or 0 <= context.opener < len(self._inits)
        if not opener or not pending <= sources or any(len(match) != places for match in bindings):
            raise ValueError("a context is not one of this statement")

    def _loaded_list(self, number: int, events: Sequence[StagedEvent]) -> OperandList:
        leaf = self._leaves[number]
        found = OperandList(self._looked_up(number), leaf.rows, leaf.stages, self._ranges[number])
        found.collect(events, max((event.end for event in events), default=BEGINNING))
        return found


def _joined(pending: list[StagedEvent], event: StagedEvent, call: OperatorCall) -> list[StagedEvent]:
    """The pending sources of After with one more: `add` replaces the oldest, `ignore` drops the newcomer."""
    size = call.size
    if size is None:
        return [*pending, event]
    if size.unit == "rows":
        if len(pending) < size.most:
            return [*pending, event]
        return [*pending[1:], event] if size.add else pending
    ends = sorted({each.end for each in pending})
    if event.end in ends or len(ends) < size.most:
        return [*pending, event]
    return [*(each for each in pending if each.end != ends[0]), event] if size.add else pending


def _row_order(row: Row | Found) -> Any:
    """Rows of one stage in an order that depends on nothing but them: equal ones cannot be told apart."""
    start, values = row[:2]
    return start, [(value is not None, isinstance(value, str), 0 if value is None else value) for value in values]
