"""The executable definition of staged statements: stages, strata, partitions, contexts. Slow, and meant to be read.

It reads events in canonical order and follows the text of docs/staged.md step by step. It knows nothing of engines:
whatever runs staged statements must give the same events.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, TypeAlias

from tocsin.errors import TocsinError
from tocsin.events import Event
from tocsin.lang.staged_printer import key_range
from tocsin.lang.staged_syntax import (
    Compared,
    Initiator,
    KeyRange,
    LeafOperand,
    NestedBlock,
    OperatorCall,
    PartitionKey,
    Statement,
    Terminator,
    TimeOf,
    parts,
)
from tocsin.lang.syntax import UNITS, Duration
from tocsin.lang.time_patterns import next_time
from tocsin.testing.staged_oracle_match import (
    TICK,
    Binding,
    MatchRun,
    OracleFrame,
    PatternNode,
    events_in,
    is_deferred,
    is_hidden,
    spots_of,
)
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
    longest: Mapping[str, int] | None = None,
) -> list[Event]:
    """All complex events of some statements, in order of time.

    items    events and advances, in order of time
    created  when the statements were defined; None: each with the first event that it reads
    unit     the length of a tick
    longest  how long the events of types may last; those that are not named are points
    """
    return Definition(statements, unit, created, longest).run(items)


class Definition:
    """Statements that were defined together, and what has happened to them."""

    def __init__(
        self, statements: Sequence[Statement], unit: str | None = None, created: int | None = None,
        longest: Mapping[str, int] | None = None,
    ) -> None:  # fmt: skip
        known = dict(longest or {})
        for each in statements:  # later ones may read those above
            known |= lasting([each], known, unit)
        self.detectors = [Detecting(statement, unit, known) for statement in statements]
        self.created = created
        self.clock: int | None = None if created is None else created - 1  # the time of the last stage
        self.found: list[Event] = []

    def run(self, items: Iterable[Event | Advance]) -> list[Event]:
        items = list(items)
        reads = {type for each in self.detectors for type in each.types}
        for each in self.detectors:
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
            due = min((time for each in self.detectors for time in each.times(self.clock)), default=None)
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


Sees: TypeAlias = Callable[[Role, Event], bool]  # whether an event plays a role in a partition, conditions disregarded


@dataclass
class LocalLists:
    """What the operands of one local partition have collected, the sources of After that are pending, and its blocks.

    blocks  by the number of a block in the pattern: its partitions
    """

    lists: dict[int, list[Event]] = field(default_factory=dict)
    pending: dict[int, list[Event]] = field(default_factory=dict)
    blocks: dict[int, dict[Key, Partition]] = field(default_factory=dict)


@dataclass(eq=False)
class OracleContext:
    """One context instance: when and by whom it was opened, and its lists.

    ended  its own terminator has closed it in this stage, in which its deferred operators still take part
    fires  what its timers do in this stage, by local partition
    """

    opened: int
    opener: Initiator | None = None
    openers: list[Event] = field(default_factory=list)
    locals: dict[Key, LocalLists] = field(default_factory=dict)
    delayed: list[tuple[MatchRun, list[Binding], Key]] = field(default_factory=list)
    ended: bool = False
    fires: dict[Key, dict[int, Any]] = field(default_factory=dict)

    def local(self, key: Key) -> LocalLists:
        return self.locals.setdefault(key, LocalLists())


@dataclass
class Partition:
    """A global partition: its open contexts, and the local values that were seen."""

    contexts: list[OracleContext] = field(default_factory=list)
    seen: dict[Key, None] = field(default_factory=dict)


class Bounded:
    """What has contexts and keys of its own, and operands that collect in them: a statement, or a block inside."""

    def __init__(self, node: Statement | NestedBlock, root: PatternNode, number: int, unit: str | None) -> None:
        self.node, self.root, self.number, self.unit = node, root, number, unit
        self.inits = node.inits or (Initiator(),)
        own = root.own()
        self.leaves: dict[int, LeafOperand] = {
            spot.number: spot.node for spot in own if isinstance(spot.node, LeafOperand)
        }
        self.blocks = [
            Bounded(spot.node, spot.spots[0], spot.number, unit) for spot in own if isinstance(spot.node, NestedBlock)
        ]
        self.ticking = [spot for spot in own if spot.operator in ("At", "Every")]
        self.waiting = [spot for spot in own if spot.operator == "After"]
        self.sources = {spot.spots[0].number for spot in self.waiting}
        self.giving_way = [
            spot.number for spot in own
            if "active" in getattr(node, "options", ()) and spot.number in self.leaves
            and self.leaves[spot.number].range is not None and is_hidden(root, spot)
        ]  # fmt: skip
        self.has_deferred = any(map(is_deferred, root.all()))
        self.waking: list[tuple[int, str, int]] = []  # operands whose times sst passes, which time, and how much later

    def ticks(self, duration: Duration) -> int:
        if duration.unit is None:
            return int(duration.amount)
        if self.unit is None:
            raise TocsinError("a length of time with a unit needs times with a unit")
        return int(duration.amount * UNITS[duration.unit] / UNITS[self.unit])

    # --- roles and partitions ---

    @property
    def inner_roles(self) -> list[Role]:
        return [role for block in self.blocks for role in block.roles]

    @property
    def roles(self) -> list[Role]:
        """All that events can be here and in the blocks inside."""
        outside: list[Role] = [*self.inits, *self.node.terms]
        return [*self.leaves.values(), *(each for each in outside if each.type is not None), *self.inner_roles]

    def partition(self, opened: int, now: int) -> Partition:
        """A partition that is seen for the first time now; Start has opened with what is around it."""
        part = Partition()
        if not self.node.lkeys:
            part.seen[()] = None
        lasts = [opened + self.ticks(term.after) for term in self.node.terms if term.after is not None]
        starts = any(init.type is None for init in self.inits)
        if starts and all(last >= now for last in lasts):
            part.contexts.append(OracleContext(opened))
        return part

    def see(self, part: Partition, events: list[Event], sees: Sees) -> None:
        """Note the local values of a stage: of operands, and of all roles inside of blocks."""
        for role in (*self.leaves.values(), *self.inner_roles):
            for event in events:
                if sees(role, event) and (local := values(self.node.lkeys, role, event)) is not None:
                    part.seen[local] = None

    # --- contexts ---

    def terminated(
        self, part: Partition, now: int, events: list[Event], sees: Sees
    ) -> list[tuple[OracleContext, Terminator, list[Event]]]:
        """The contexts that end, each with the first terminator that closes it and its events."""
        closed: list[tuple[OracleContext, Terminator, list[Event]]] = []
        for term in self.node.terms:
            still_open = [each for each in part.contexts if all(each is not one for one, _, _ in closed)]
            if term.after is not None:
                due = [each for each in still_open if now >= each.opened + self.ticks(term.after)]
                closed += [(context, term, []) for context in due]
                continue
            own = [each for each in term.conditions if not self._is_cross(each)]
            cross = [each for each in term.conditions if self._is_cross(each)]
            mine = [event for event in events if sees(term, event)]
            acting = [event for event in mine if all(threshold(each, event, now) for each in own)]
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
            found = []
            for part in parts(node.of):
                name = getattr(part, "name", None)
                if name is None or part.__class__.__name__ not in ("AttrOf", "EventsOf"):
                    continue
                opened_by = context.opener.called if context.opener else None
                is_opener = any(init.type is not None and init.called == name for init in self.inits)
                events = context.openers if name == opened_by else None if is_opener else acting
                if events is None:
                    return None
                found += [event.attrs.get(part.attr) if hasattr(part, "attr") else True for event in events]
            return aggregated(node.function, found)

        return truth(condition, lookup) is True

    def initiate(self, part: Partition, now: int, events: list[Event], sees: Sees) -> None:
        """Open contexts, then those of the blocks in all that are open."""
        for init in self.inits:
            mine = [event for event in events if init.type is not None and sees(init, event)]
            acting = [event for event in mine if all(threshold(each, event, now) for each in init.conditions)]
            if acting and (init.add or not part.contexts):
                part.contexts.append(OracleContext(now, init, acting))
        for context in part.contexts:
            for _, block, inner, here in self._inner(context, part, now, events, sees):
                inner.contexts = [each for each in inner.contexts if not each.ended]
                block.initiate(inner, now, events, here)

    # --- blocks ---

    def _inner(
        self, context: OracleContext, part: Partition, now: int, events: list[Event], sees: Sees
    ) -> Iterator[tuple[Key, Bounded, Partition, Sees]]:
        """The partitions of all blocks in a context, each with its local partition and the events that belong to it."""
        for local in list(dict.fromkeys([*part.seen, *context.locals])) if self.blocks else ():
            here: Sees = lambda role, event, local=local: (  # type: ignore[misc]  # noqa: E731
                sees(role, event) and values(self.node.lkeys, role, event) == local
            )
            for block in self.blocks:
                known = context.local(local).blocks.setdefault(block.number, {})
                mine = [(role, event) for role in block.roles for event in events if here(role, event)]
                found = [values(block.node.gkeys, *each) for each in mine] if block.node.gkeys else [()]
                for key in dict.fromkeys(each for each in found if each is not None):
                    known.setdefault(key, block.partition(context.opened, now))
                for key, inner in known.items():
                    inside: Sees = lambda role, event, here=here, block=block, key=key: (  # type: ignore[misc]  # noqa: E731
                        here(role, event) and values(block.node.gkeys, role, event) == key
                    )
                    yield local, block, inner, inside

    def end_blocks(self, context: OracleContext, part: Partition, now: int, events: list[Event], sees: Sees) -> None:
        """Close the contexts of blocks by their own terminators; those with deferred operators stay for the stage."""
        for _, block, inner, here in self._inner(context, part, now, events, sees):
            block.see(inner, events, here)
            for closed, term, _ in block.terminated(inner, now, events, here):
                closed.ended = block.has_deferred and not term.discard
                if not closed.ended:
                    inner.contexts.remove(closed)
            for each in inner.contexts:
                each.fires = {}
                block.end_blocks(each, inner, now, events, here)

    # --- collection ---

    def collect(
        self, context: OracleContext, part: Partition, now: int, events: list[Event], sees: Sees
    ) -> dict[Key, None]:
        """Collect the events of a stage into a context that goes on; the local partitions in which something is new."""
        news = dict.fromkeys(self._woken(context, now))
        context.fires = {}
        for spot in self.ticking:
            if self._next_tick(spot, context, now - 1) == now:
                for local in part.seen:
                    context.fires.setdefault(local, {})[spot.number] = TICK
        for spot in self.waiting:
            self._pend(spot, context, now, events, sees)
        for number, leaf in self.leaves.items():
            for local, several in () if number in self.sources else self._by_local(leaf, events, now, sees).items():
                kept = [*self.present(context, local, number, now), *several]
                context.local(local).lists[number] = windowed(leaf, kept)
                news[local] = None
        for local, block, inner, here in self._inner(context, part, now, events, sees):
            some = any(each.ended for each in inner.contexts)
            for each in inner.contexts:
                some |= not each.ended and bool(block.collect(each, inner, now, events, here))
            if some:
                news[local] = None
        return {**news, **dict.fromkeys(context.fires)}

    def _by_local(self, leaf: LeafOperand, events: list[Event], now: int, sees: Sees) -> dict[Key, list[Event]]:
        """The events that a leaf takes, by their local key."""
        found: dict[Key, list[Event]] = {}
        for event in events:
            local = values(self.node.lkeys, leaf, event) if sees(leaf, event) else None
            if local is not None and all(threshold(each, event, now) for each in leaf.conditions):
                found.setdefault(local, []).append(event)
        return found

    def present(self, context: OracleContext, local: Key, number: int, now: int) -> list[Event]:
        """The list of a leaf without what has expired."""
        leaf, events = self.leaves[number], context.local(local).lists.get(number, [])
        if leaf.range is None:
            return events
        return [event for event in events if now < event.end + self.ticks(leaf.range)]

    def _pend(self, spot: PatternNode, context: OracleContext, now: int, events: list[Event], sees: Sees) -> None:
        """After: sources that are due leave, then newcomers come one by one."""
        call, leaf = spot.node, spot.spots[0]
        assert isinstance(call, OperatorCall) and call.interval is not None and isinstance(leaf.node, LeafOperand)
        wait = self.ticks(call.interval)
        for local, lists in context.locals.items():
            pending = lists.pending.get(spot.number, [])
            if due := [event for event in pending if event.end + wait <= now]:
                context.fires.setdefault(local, {})[spot.number] = due
                lists.pending[spot.number] = [event for event in pending if event.end + wait > now]
        for local, several in self._by_local(leaf.node, events, now, sees).items():
            for event in several:
                pending = context.local(local).pending.setdefault(spot.number, [])
                context.local(local).pending[spot.number] = joined(pending, event, call)

    def _last(self, number: int, event: Event) -> int:
        """When an event leaves the list of a leaf by its range."""
        length = self.leaves[number].range
        assert length is not None
        return event.end + self.ticks(length)

    def _woken(self, context: OracleContext, now: int) -> Iterator[Key]:
        """`active`: what an event was in the way of may match from now on, or what sst has now passed."""
        for local, lists in context.locals.items():
            events = ((number, event) for number in self.giving_way for event in lists.lists.get(number, ()))
            if any(self._last(number, event) == now for number, event in events) or now in self._wakes(lists):
                yield local

    def _wakes(self, lists: LocalLists) -> Iterator[int]:
        """`active`: when sst passes a time of an event that is there then, so that a comparison changes."""
        for number, which, behind in self.waking:
            for event in lists.lists.get(number, ()):
                due = (event.start if which == "start-ts" else event.end) + behind
                if self.leaves[number].range is None or due < self._last(number, event):
                    yield due

    # --- what a run sees ---

    def lists(self, context: OracleContext, local: Key, now: int) -> dict[int, list[Event]]:
        return {number: self.present(context, local, number, now) for number in self.leaves}

    def frames(self, lists: LocalLists, now: int, *, final: bool) -> dict[int, list[OracleFrame]]:
        """The context instances of all blocks. The end of a context is that of its blocks."""
        return {
            block.number: [
                block._frame(each, local, now, final=final or each.ended)
                for inner in lists.blocks.get(block.number, {}).values()
                for each in inner.contexts
                for local in dict.fromkeys([*inner.seen, *each.locals])
            ]
            for block in self.blocks
        }

    def _frame(self, context: OracleContext, local: Key, now: int, *, final: bool) -> OracleFrame:
        here = context.local(local)
        fires, inner = context.fires.get(local, {}), self.frames(here, now, final=final)
        return OracleFrame(context.opened, final, self.lists(context, local, now), fires, inner, here.lists)

    # --- timers ---

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

    def due(self, part: Partition, after: int) -> Iterator[int]:
        """Times at which something is to happen in a partition, some of them perhaps over."""
        for context in part.contexts:
            yield from (context.opened + self.ticks(term.after) for term in self.node.terms if term.after is not None)
            for spot in self.ticking:
                tick = self._next_tick(spot, context, after)
                yield from () if tick is None else (tick,)
            for lists in context.locals.values():
                yield from self._wakes(lists)
                for number in self.giving_way:
                    yield from (self._last(number, event) for event in lists.lists.get(number, ()))
                for spot in self.waiting:
                    wait = self.ticks(spot.node.interval)  # type: ignore[union-attr,arg-type]
                    yield from (event.end + wait for event in lists.pending.get(spot.number, ()))
                for block in self.blocks:
                    for inner in lists.blocks.get(block.number, {}).values():
                        yield from block.due(inner, after)


class Detecting(Bounded):
    """One statement and its partitions."""

    def __init__(self, statement: Statement, unit: str | None, longest: Mapping[str, int]) -> None:
        super().__init__(statement, spots_of(statement.pattern), 0, unit)
        self.longest = longest
        self.statement = statement
        self.types = {str(role.type) for role in self.roles}
        pattern = statement.pattern
        self.mode = pattern.mode if isinstance(pattern, OperatorCall) and pattern.mode else "immediate"
        if is_deferred(self.root):
            self.mode = "deferred"
        self.partitions: dict[Key, Partition] = {}
        self.created, self.defined = 0, False
        if "active" in statement.options:
            asked = [part for part in parts(statement) if isinstance(part, Compared)]
            self.waking = [each for part in asked for each in self._passes(part)]

    def sst(self, type: str, now: int) -> int:
        """The earliest start of what may still come of a type: it ends later, and lasts as long as it may, at most."""
        return now - self.longest.get(type, 0)

    def _passes(self, asked: Compared) -> Iterator[tuple[int, str, int]]:
        """A comparison of sst with a time of an operand, by the moments behind that time at which it changes."""
        if not isinstance(asked.left, TimeOf) or not isinstance(asked.right, TimeOf):
            return
        sides = [asked.left, asked.right]
        whens = [each for each in sides if each.which != "sst"]
        names = {spot.node.called: spot for spot in self.root.leaves() if isinstance(spot.node, LeafOperand)}
        if len(whens) != 1 or any(each.name not in names for each in sides):
            return
        (when,) = whens
        (sst,) = (each for each in sides if each is not when)
        spot, other = names[when.name], names[sst.name]
        if spot.number not in self.leaves or spot.number in self.sources:
            return
        passing = self.longest.get(other.node.type, 0)  # type: ignore[union-attr]
        before, at, behind = (_holds(asked, when, each) for each in (-1, 0, 1))
        if before != at:
            yield spot.number, when.which, passing
        if at != behind:
            yield spot.number, when.which, passing + 1

    def create(self, now: int) -> None:
        """The statement is defined: the universal partition is there from now on, keyed ones from their first event."""
        self.created, self.defined = now, True
        if not self.statement.gkeys:
            self.partitions[()] = self.partition(now, now)

    # --- one stage ---

    def stage(self, now: int, events: list[Event]) -> list[Event]:
        """What the statement finds at a stage, as events in canonical order."""
        for role in self.roles:
            for event in events:
                key = values(self.statement.gkeys, role, event) if event.type == role.type else None
                if key is not None and key not in self.partitions:
                    self.partitions[key] = self.partition(self.created, now)
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
        sees: Sees = lambda role, event: (  # noqa: E731
            event.type == role.type and values(self.statement.gkeys, role, event) == key
        )
        self.see(part, events, sees)
        rows = []
        for context, term, closers in self.terminated(part, now, events, sees):
            part.contexts.remove(context)
            self.end_blocks(context, part, now, events, sees)
            if not term.discard:
                rows += self._finished(context, part, now, key, term, closers)
        for context in part.contexts:
            self.end_blocks(context, part, now, events, sees)
            news = self.collect(context, part, now, events, sees)
            for local in news if self.mode != "deferred" else ():
                rows += self._searched(context, now, key, local)
        self.initiate(part, now, events, sees)
        return rows

    # --- detection ---

    def _run(self, context: OracleContext, local: Key, now: int, *, final: bool) -> MatchRun:
        sst = lambda kind: self.sst(kind, now)  # noqa: E731
        fires = {} if final else context.fires.get(local, {})
        frames = self.frames(context.local(local), now, final=final)
        lists = self.lists(context, local, now)
        return MatchRun(self.root, self.statement.where, now, context.opened, final, lists, fires, sst, frames,
                        self.statement.options)  # fmt: skip

    def _searched(self, context: OracleContext, now: int, key: Key, local: Key) -> list[Row]:
        """Look for the pattern; with `repeat` again, until no list has become shorter."""
        rows, is_done = [], False
        while not is_done:
            before = self._sizes(context, local, now)
            rows += self._detected(context, self._run(context, local, now, final=False), key, local)
            is_done = "repeat" not in self.statement.options or self._sizes(context, local, now) == before
        return rows

    def _sizes(self, context: OracleContext, local: Key, now: int) -> list[int]:
        """How long the lists of a run are, those of blocks too."""
        frames = list(frames_in(self.frames(context.local(local), now, final=False)))
        lists = [self.lists(context, local, now), *(frame.kept for frame in frames)]
        return [len(events) for each in lists for events in each.values()]

    def _detected(self, context: OracleContext, run: MatchRun, key: Key, local: Key) -> list[Row]:
        """Find all matches, then consume their events, then make complex events of them (delayed: when it ends)."""
        matches = run.matches()
        for leaf in self.root.leaves():
            if isinstance(leaf.node, LeafOperand) and leaf.node.consume:
                for match in matches:
                    self._consume(leaf, match, run, context.local(local).lists)
        if self.mode == "delayed":
            context.delayed.append((run, matches, local))
            return []
        return self._selected(context, run, matches, key, local, None, [])

    def _consume(self, leaf: PatternNode, match: Binding, run: MatchRun, lists: dict[int, list[Event]]) -> None:
        """Take what a match has used out of the list that it is from; what a count has used, out of all of a block."""
        used = events_in(match.get(leaf.number))
        if leaf.block is None:
            homes = [lists]
        else:
            frame = match.get(leaf.block.number)
            homes = [frame.kept] if isinstance(frame, OracleFrame) else [each.kept for each in frames_in(run.blocks)]
        for home in homes:
            if leaf.number in home:
                home[leaf.number] = [event for event in home[leaf.number] if all(event is not one for one in used)]

    def _finished(
        self, context: OracleContext, part: Partition, now: int, key: Key, term: Terminator, closers: list[Event]
    ) -> list[Row]:
        """What a context gives when it ends."""
        rows = []
        for run, matches, local in context.delayed:
            rows += self._selected(context, run, matches, key, local, term, closers)
        if self.has_deferred:
            for local in part.seen:
                run = self._run(context, local, now, final=True)
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
        leaves = [spot.node for spot in self.root.leaves() if isinstance(spot.node, LeafOperand)]
        for clause, (value, label) in clauses:
            if clause.name is not None:
                labels[clause.name] = label
            for leaf in leaves if not clause.ranges else ():
                if (attr := key_attribute(clause, leaf)) is not None:
                    keys[leaf.called, attr] = value
        return labels, keys

    def times(self, after: int) -> Iterator[int]:
        """Times after another at which something is to happen."""
        for part in self.partitions.values():
            yield from (time for time in self.due(part, after) if time > after)


def lasting(statements: Sequence[Statement], longest: Mapping[str, int], unit: str | None) -> dict[str, int]:
    """How long the events of statements last at most: every operand has a range, and an event of it in each match."""
    found = {}
    for statement in statements:
        definition = Bounded(statement, spots_of(statement.pattern), 0, unit)
        operators = [spot for spot in definition.root.all() if not isinstance(spot.node, LeafOperand)]
        some = all(_has_some(spot) for spot in operators)
        leaves = [spot.node for spot in definition.root.leaves() if not is_hidden_in_match(definition.root, spot)]
        ranged = all(isinstance(leaf, LeafOperand) and leaf.range is not None for leaf in leaves)
        delayed = isinstance(statement.pattern, OperatorCall) and statement.pattern.mode == "delayed"
        if some and ranged and leaves and not delayed:
            found[statement.name] = max(
                definition.ticks(leaf.range) - 1 + longest.get(leaf.type, 0)  # type: ignore[union-attr,arg-type]
                for leaf in leaves
            )
    return found


def _has_some(spot: PatternNode) -> bool:
    """Whether every match of an operator has an event that was collected."""
    if spot.operator in ("AtLeast", "Nth"):
        return bool(spot.node.count)  # type: ignore[union-attr]
    return spot.operator in ("And", "Sequence", "Concurrent", "Or", "Unless", "")


def is_hidden_in_match(root: PatternNode, leaf: PatternNode) -> bool:
    """Whether a leaf is negated, so that no match has an event of it."""
    return any(
        leaf in spot.all()
        for above in root.all() if above.operator == "Unless" for spot in above.spots[1:]
    )  # fmt: skip


def _holds(asked: Compared, when: TimeOf, ahead: int) -> bool:
    """Whether a comparison holds while sst is so much ahead of the time that it is compared with."""
    left, right = (0, ahead) if asked.left is when else (ahead, 0)
    return {"=": left == right, "!=": left != right, "<": left < right, "<=": left <= right, ">": left > right,
            ">=": left >= right}[asked.op]  # fmt: skip


def frames_in(blocks: Mapping[int, list[OracleFrame]]) -> Iterator[OracleFrame]:
    """All frames, those inside others too."""
    for several in blocks.values():
        for frame in several:
            yield frame
            yield from frames_in(frame.blocks)


# --- small rules ---------------------------------------------------------------------------------------------------


def key_attribute(key: PartitionKey, role: Role) -> str | None:
    """The attribute of a key for a role: an entry of its label, else of its type, else `*`."""
    names = [name for name in (role.label, role.type) if name is not None]
    for name in (*names, None):
        for entry in key.entries:
            if entry.name == name:
                return entry.attr
    return None


def values(keys: Sequence[PartitionKey], role: Role, event: Event) -> Key | None:
    """The key of an event in a role; None: it has no such role."""
    found = [key_value(key, role, event) for key in keys]
    return None if any(each is None for each in found) else tuple(found)


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
