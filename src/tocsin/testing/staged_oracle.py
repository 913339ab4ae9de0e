"""The executable definition of staged statements: stages, strata, partitions, contexts. Slow, and meant to be read.

It reads events in canonical order and follows the text of docs/staged.md step by step. It knows nothing of engines:
whatever runs staged statements must give the same events.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, TypeAlias

from tocsin.errors import TocsinError
from tocsin.events import Event
from tocsin.lang.staged_printer import key_range
from tocsin.lang.staged_syntax import (
    Initiator,
    KeyRange,
    LeafOperand,
    OperatorCall,
    PartitionKey,
    Statement,
    Terminator,
    parts,
)
from tocsin.lang.syntax import UNITS, Duration
from tocsin.lang.time_patterns import next_time
from tocsin.testing.staged_oracle_match import TICK, Binding, MatchRun, PatternNode, events_in, is_deferred, spots_of
from tocsin.testing.staged_oracle_select import Selection
from tocsin.testing.staged_oracle_values import aggregated, threshold, truth

Key: TypeAlias = tuple[Any, ...]
Row: TypeAlias = tuple[int, dict[str, Any]]  # of a complex event: where it starts, and its attributes
Role: TypeAlias = LeafOperand | Initiator | Terminator


@dataclass(frozen=True)
class Advance:
    """Time has come to `time`, and no event came."""

    time: int


def staged_events(
    statements: Sequence[Statement],
    items: Iterable[Event | Advance],
    *,
    created: int | None = None,
    unit: str | None = None,
) -> list[Event]:
    """All complex events of some statements, in order of time.

    items    events and advances, in order of time
    created  when the statements were defined; None: each with the first event that it reads
    unit     the length of a tick
    """
    return Definition(statements, unit, created).run(items)


class Definition:
    """Statements that were defined together, and what has happened to them."""

    def __init__(self, statements: Sequence[Statement], unit: str | None = None, created: int | None = None) -> None:
        self.detectors = [Detecting(statement, unit) for statement in statements]
        self.created = created
        self.clock: int | None = None if created is None else created - 1  # the time of the last stage
        self.found: list[Event] = []
        self.input: list[Event] = []

    def run(self, items: Iterable[Event | Advance]) -> list[Event]:
        items = list(items)
        self.input = [item for item in items if isinstance(item, Event)]
        reads = {type for each in self.detectors for type in each.types}
        for each in self.detectors:
            each.sst = self.sst
            if self.created is not None:
                each.create(self.created)
        for time, group in groupby(items, key=lambda item: item.end if isinstance(item, Event) else item.time):
            mine = list(group)
            events = [item for item in mine if isinstance(item, Event) and item.type in reads]
            self._timers(time - 1 if events else time)
            if events:
                self.stage(time, sorted(events, key=Event.order))
        return self.found

    def _timers(self, until: int) -> None:
        """Run a stage for every time up to `until` at which something is due."""
        while self.clock is not None:
            due = min((time for each in self.detectors for time in each.due(self.clock)), default=None)
            if due is None or due > until:
                return
            self.stage(due, [])

    def stage(self, now: int, events: list[Event]) -> None:
        """One stage: statements from the lowest stratum up; what they find joins the stage."""
        self.clock = now
        there = list(events)
        waiting = list(self.detectors)
        while waiting:
            names = {each.statement.name for each in waiting}
            ready = [each for each in waiting if not each.types & names]
            if not ready:
                raise TocsinError("a statement reads its own events")
            for each in ready:
                if not each.defined and any(event.type in each.types for event in there):
                    each.create(now)
            found = [event for each in ready for event in each.stage(now, there)]
            there = sorted([*there, *found], key=Event.order)
            self.found += found
            waiting = [each for each in waiting if each not in ready]

    def sst(self, type: str, now: int) -> int:
        """The best lower bound on the starts of later events of a type that its publisher could have declared."""
        return min([now, *(event.start for event in self.input if event.type == type and event.end > now)])


@dataclass
class LocalLists:
    """What the operands of one local partition have collected, and the sources of After that are pending."""

    lists: dict[int, list[Event]] = field(default_factory=dict)
    pending: dict[int, list[Event]] = field(default_factory=dict)


@dataclass(eq=False)
class OracleContext:
    """One context instance: when and by whom it was opened, and its lists."""

    opened: int
    opener: Initiator | None = None
    openers: list[Event] = field(default_factory=list)
    locals: dict[Key, LocalLists] = field(default_factory=dict)
    delayed: list[tuple[MatchRun, list[Binding], Key]] = field(default_factory=list)

    def local(self, key: Key) -> LocalLists:
        return self.locals.setdefault(key, LocalLists())


@dataclass
class Partition:
    """A global partition: its open contexts, and the local values that were seen."""

    contexts: list[OracleContext] = field(default_factory=list)
    seen: dict[Key, None] = field(default_factory=dict)


class Detecting:
    """One statement and its partitions."""

    def __init__(self, statement: Statement, unit: str | None) -> None:
        self.statement, self.unit = statement, unit
        self.root = spots_of(statement.pattern)
        self.inits = statement.inits or (Initiator(),)
        self.leaves: dict[int, LeafOperand] = {
            spot.number: spot.node for spot in self.root.leaves() if isinstance(spot.node, LeafOperand)
        }
        self.sources = {spot.spots[0].number for spot in self.root.all() if spot.operator == "After"}
        others: list[Initiator | Terminator] = [*self.inits, *statement.terms]
        outside = [each for each in others if each.type is not None]
        self.types = {leaf.type for leaf in self.leaves.values()} | {str(each.type) for each in outside}
        pattern = statement.pattern
        self.mode = pattern.mode if isinstance(pattern, OperatorCall) and pattern.mode else "immediate"
        if is_deferred(self.root):
            self.mode = "deferred"
        self.has_deferred = any(map(is_deferred, self.root.all()))
        self.partitions: dict[Key, Partition] = {}
        self.created, self.defined = 0, False
        self.sst: Any = None

    def ticks(self, duration: Duration) -> int:
        if duration.unit is None:
            return int(duration.amount)
        if self.unit is None:
            raise TocsinError("a length of time with a unit needs times with a unit")
        return int(duration.amount * UNITS[duration.unit] / UNITS[self.unit])

    # --- partitions ---

    def create(self, now: int) -> None:
        """The statement is defined: the universal partition is there from now on, keyed ones from their first event."""
        self.created, self.defined = now, True
        if not self.statement.gkeys:
            self._partition((), now)

    def _partition(self, key: Key, now: int) -> Partition:
        if key not in self.partitions:
            part = self.partitions[key] = Partition()
            if not self.statement.lkeys:
                part.seen[()] = None
            lasts = [self.created + self.ticks(term.after) for term in self.statement.terms if term.after is not None]
            starts = any(init.type is None for init in self.inits)
            if starts and all(last >= now for last in lasts):
                part.contexts.append(OracleContext(self.created))
        return self.partitions[key]

    def _values(self, keys: Sequence[PartitionKey], role: Role, event: Event) -> Key | None:
        """The key of an event in a role; None: it has no such role."""
        found = [key_value(key, role, event) for key in keys]
        return None if any(each is None for each in found) else tuple(found)

    def _roles(self, role: Role, events: Iterable[Event], key: Key) -> list[Event]:
        """The events of a stage that play a role in a partition, conditions disregarded."""
        mine = (event for event in events if event.type == role.type)
        return [event for event in mine if self._values(self.statement.gkeys, role, event) == key]

    # --- one stage ---

    def stage(self, now: int, events: list[Event]) -> list[Event]:
        """What the statement finds at a stage, as events in canonical order."""
        outside: list[Initiator | Terminator] = [*self.inits, *self.statement.terms]
        everyone = [*self.leaves.values(), *(each for each in outside if each.type)]
        for role in everyone:
            for event in events:
                key = self._values(self.statement.gkeys, role, event) if event.type == role.type else None
                if key is not None:
                    self._partition(key, now)
        name = self.statement.name
        found: list[tuple[Row, Event]] = []
        for key, part in self.partitions.items():
            whose = json.dumps([value for value, _ in key]) if key else ""
            for at, row in enumerate(sorted(self._in_partition(key, part, now, events), key=row_order)):
                eid = f"{at:08d}@{now}:{name}" + (f":{whose}" if whose else "")
                found.append((row, Event(name, row[0], now, eid, row[1])))
        return [event for _, event in sorted(found, key=lambda each: row_order(each[0]))]

    def _in_partition(self, key: Key, part: Partition, now: int, events: list[Event]) -> list[Row]:
        """The steps of one stage in one global partition: terminate, collect and detect, initiate."""
        mine = {number: self._roles(leaf, events, key) for number, leaf in self.leaves.items()}
        for number, leaf in self.leaves.items():
            for event in mine[number]:
                if (local := self._values(self.statement.lkeys, leaf, event)) is not None:
                    part.seen[local] = None
        rows = []
        for context, term, closers in self._terminated(part, now, events, key):
            part.contexts.remove(context)
            if not term.discard:
                rows += self._finished(context, part, now, key, term, closers)
        for context in part.contexts:
            rows += self._collected(context, part, now, key, mine)
        self._initiate(part, now, events, key)
        return rows

    def _terminated(
        self, part: Partition, now: int, events: list[Event], key: Key
    ) -> list[tuple[OracleContext, Terminator, list[Event]]]:
        """The contexts that end, each with the first terminator that closes it and its events."""
        closed: list[tuple[OracleContext, Terminator, list[Event]]] = []
        for term in self.statement.terms:
            still_open = [each for each in part.contexts if all(each is not one for one, _, _ in closed)]
            if term.after is not None:
                due = [each for each in still_open if now >= each.opened + self.ticks(term.after)]
                closed += [(context, term, []) for context in due]
                continue
            own = [each for each in term.conditions if not self._is_cross(each)]
            cross = [each for each in term.conditions if self._is_cross(each)]
            acting = [
                event for event in self._roles(term, events, key) if all(threshold(each, event, now) for each in own)
            ]
            matching = [
                each for each in still_open if acting and all(self._crosses(one, each, acting) for one in cross)
            ]
            if matching:
                chosen = {"new": matching[-1:], "old": matching[:1], "each-matching": matching}.get(
                    term.which, still_open
                )
                closed += [(context, term, acting) for context in chosen]
        return closed

    def _is_cross(self, condition: Any) -> bool:
        return any(part.__class__.__name__ == "AggregateOf" for part in parts(condition))

    def _crosses(self, condition: Any, context: OracleContext, acting: list[Event]) -> bool:
        """A condition over the sets of events that opened a context and that would close it."""

        def lookup(node: Any) -> Any:
            values = []
            for part in parts(node.of):
                name = getattr(part, "name", None)
                if name is None or part.__class__.__name__ not in ("AttrOf", "EventsOf"):
                    continue
                opened_by = context.opener.called if context.opener else None
                is_opener = any(init.type is not None and init.called == name for init in self.inits)
                events = context.openers if name == opened_by else None if is_opener else acting
                if events is None:
                    return None
                values += [event.attrs.get(part.attr) if hasattr(part, "attr") else True for event in events]
            return aggregated(node.function, values)

        return truth(condition, lookup) is True

    def _initiate(self, part: Partition, now: int, events: list[Event], key: Key) -> None:
        for init in self.inits:
            acting = [
                event
                for event in (self._roles(init, events, key) if init.type is not None else ())
                if all(threshold(each, event, now) for each in init.conditions)
            ]
            if acting and (init.add or not part.contexts):
                part.contexts.append(OracleContext(now, init, acting))

    # --- collection ---

    def _collected(
        self, context: OracleContext, part: Partition, now: int, key: Key, mine: dict[int, list[Event]]
    ) -> list[Row]:
        """Collect the events of a stage into a context that goes on, and detect where something new is there."""
        news: dict[Key, None] = {}
        fires: dict[Key, dict[int, Any]] = {}
        for spot in (spot for spot in self.root.all() if spot.operator in ("At", "Every")):
            if self._ticks_at(spot, context, now):
                for local in part.seen:
                    fires.setdefault(local, {})[spot.number] = TICK
        for spot in (spot for spot in self.root.all() if spot.operator == "After"):
            self._pend(spot, context, now, mine, fires)
        for number, leaf in self.leaves.items():
            if number in self.sources:
                continue
            for local, events in self._by_local(leaf, mine[number], now).items():
                kept = [*self._present(context, local, number, now), *events]
                context.local(local).lists[number] = windowed(leaf, kept)
                news[local] = None
        rows = []
        for local in {**news, **fires} if self.mode != "deferred" else ():
            run = self._run(context, local, now, fires.get(local, {}), final=False)
            rows += self._detected(context, run, key, local)
        return rows

    def _by_local(self, leaf: LeafOperand, events: list[Event], now: int) -> dict[Key, list[Event]]:
        """The events that a leaf takes, by their local key."""
        found: dict[Key, list[Event]] = {}
        for event in events:
            local = self._values(self.statement.lkeys, leaf, event)
            if local is not None and all(threshold(each, event, now) for each in leaf.conditions):
                found.setdefault(local, []).append(event)
        return found

    def _present(self, context: OracleContext, local: Key, number: int, now: int) -> list[Event]:
        """The list of a leaf without what has expired."""
        leaf, events = self.leaves[number], context.local(local).lists.get(number, [])
        if leaf.range is None:
            return events
        return [event for event in events if now < event.end + self.ticks(leaf.range)]

    def _pend(
        self,
        spot: PatternNode,
        context: OracleContext,
        now: int,
        mine: dict[int, list[Event]],
        fires: dict[Key, dict[int, Any]],
    ) -> None:
        """After: sources that are due leave, then newcomers come one by one."""
        call, leaf = spot.node, spot.spots[0]
        assert isinstance(call, OperatorCall) and call.interval is not None and isinstance(leaf.node, LeafOperand)
        wait = self.ticks(call.interval)
        for local, lists in context.locals.items():
            pending = lists.pending.get(spot.number, [])
            if due := [event for event in pending if event.end + wait <= now]:
                fires.setdefault(local, {})[spot.number] = due
                lists.pending[spot.number] = [event for event in pending if event.end + wait > now]
        for local, events in self._by_local(leaf.node, mine[leaf.number], now).items():
            for event in events:
                pending = context.local(local).pending.setdefault(spot.number, [])
                context.local(local).pending[spot.number] = joined(pending, event, call)

    # --- detection ---

    def _run(self, context: OracleContext, local: Key, now: int, fires: dict[int, Any], *, final: bool) -> MatchRun:
        lists = {number: self._present(context, local, number, now) for number in self.leaves}
        sst = lambda kind: self.sst(kind, now)  # noqa: E731
        return MatchRun(self.root, self.statement.where, now, context.opened, final, lists, fires, sst)

    def _detected(self, context: OracleContext, run: MatchRun, key: Key, local: Key) -> list[Row]:
        """Find all matches, then consume their events, then make complex events of them (delayed: when it ends)."""
        matches = run.matches()
        for number, leaf in self.leaves.items():
            if leaf.consume:
                used = [event for match in matches for event in events_in(match.get(number))]
                kept = [event for event in run.lists[number] if all(event is not one for one in used)]
                context.local(local).lists[number] = kept
        if self.mode == "delayed":
            context.delayed.append((run, matches, local))
            return []
        return self._selected(context, run, matches, key, local, None, [])

    def _finished(
        self, context: OracleContext, part: Partition, now: int, key: Key, term: Terminator, closers: list[Event]
    ) -> list[Row]:
        """What a context gives when it ends."""
        rows = []
        for run, matches, local in context.delayed:
            rows += self._selected(context, run, matches, key, local, term, closers)
        if self.has_deferred:
            for local in part.seen:
                run = self._run(context, local, now, {}, final=True)
                rows += self._selected(context, run, run.matches(), key, local, term, closers)
        return rows

    def _selected(
        self, context: OracleContext, run: MatchRun, matches: list[Binding], key: Key, local: Key,
        term: Terminator | None, closers: list[Event],
    ) -> list[tuple[int, dict[str, Any]]]:  # fmt: skip
        outside = {} if term is None else {term.called: closers}
        if context.opener is not None:
            outside[context.opener.called] = context.openers
        labels, keys = self._of_partition(key, local)
        return Selection(self.statement, run, matches, outside, labels, keys).rows()

    def _of_partition(self, key: Key, local: Key) -> tuple[dict[str, Any], dict[tuple[str, str], Any]]:
        """The labels of a partition by key, and the values of its keys by role and attribute."""
        labels, keys = {}, {}
        clauses = [*zip(self.statement.gkeys, key, strict=True), *zip(self.statement.lkeys, local, strict=True)]
        for clause, (value, label) in clauses:
            if clause.name is not None:
                labels[clause.name] = label
            for leaf in self.leaves.values() if not clause.ranges else ():
                if (attr := key_attribute(clause, leaf)) is not None:
                    keys[leaf.called, attr] = value
        return labels, keys

    # --- timers ---

    def _ticks_at(self, spot: PatternNode, context: OracleContext, now: int) -> bool:
        return self._next_tick(spot, context, now - 1) == now

    def _next_tick(self, spot: PatternNode, context: OracleContext, after: int) -> int | None:
        """The first time after another at which At or Every happens in a context: never when it opens."""
        call = spot.node
        assert isinstance(call, OperatorCall)
        after = max(after, context.opened)
        if call.interval is not None:
            period = self.ticks(call.interval)
            return context.opened + ((after - context.opened) // period + 1) * period
        if self.unit is None:
            raise TocsinError("At needs times with a unit")
        return next_time(str(call.pattern), after, UNITS[self.unit])

    def due(self, after: int) -> Iterable[int]:
        """Times after another at which something is to happen."""
        for part in self.partitions.values():
            for context in part.contexts:
                yield from (
                    context.opened + self.ticks(term.after) for term in self.statement.terms if term.after is not None
                )
                for spot in self.root.all():
                    if spot.operator in ("At", "Every"):
                        tick = self._next_tick(spot, context, after)
                        yield from () if tick is None else (tick,)
                    elif spot.operator == "After":
                        wait = self.ticks(spot.node.interval)  # type: ignore[union-attr,arg-type]
                        for lists in context.locals.values():
                            yield from (event.end + wait for event in lists.pending.get(spot.number, ()))


# --- small rules ---------------------------------------------------------------------------------------------------


def key_attribute(key: PartitionKey, role: Role) -> str | None:
    """The attribute of a key for a role: an entry of its label, else of its type, else `*`."""
    names = [name for name in (role.label, role.type) if name is not None]
    for name in (*names, None):
        for entry in key.entries:
            if entry.name == name:
                return entry.attr
    return None


def key_value(key: PartitionKey, role: Role, event: Event) -> tuple[Any, Any] | None:
    """Value and label of the key for an event; None: it belongs to no partition."""
    attr = key_attribute(key, role)
    value = None if attr is None else event.attrs.get(attr)
    if value is None:
        return None
    if not key.ranges:
        return value, value
    for at, each in enumerate(key.ranges):
        if in_range(each, value, key):
            return at, each.label or key_range(each, labelled=False)
    return None


def in_range(each: KeyRange, value: Any, key: PartitionKey) -> bool:
    if each.is_rest:
        return not any(in_range(other, value, key) for other in key.ranges if not other.is_rest)
    if each.between is not None:
        low, high = (literal.value for literal in each.between)
        return bool(low <= value <= high)
    return value in [literal.value for literal in each.values]


def windowed(leaf: LeafOperand, events: list[Event]) -> list[Event]:
    """What rows or stages keep of a list: its newest end."""
    events = sorted(events, key=Event.order)
    if leaf.rows is not None:
        return events[-leaf.rows :]
    if leaf.stages is not None:
        ends = sorted({event.end for event in events})[-leaf.stages :]
        return [event for event in events if event.end in ends]
    return events


def joined(pending: list[Event], event: Event, call: OperatorCall) -> list[Event]:
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


def row_order(row: tuple[int, dict[str, Any]]) -> Any:
    """Rows of one stage in an order that depends on nothing but them: equal ones cannot be told apart."""
    start, attrs = row
    return start, [
        (value is not None, isinstance(value, str), value if value is not None else 0) for value in attrs.values()
    ]
