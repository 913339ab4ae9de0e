"""What has contexts and keys of its own, and operands that collect in them: a statement, or a block in its pattern.

The steps of a stage are those of the paper (O'Keeffe 2010, 3.6). A block lives in each context instance and local
partition of what is around it, with partitions of its own there; it ends when that context ends, at the latest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from tocsin.errors import Problem, QueryError
from tocsin.lang.staged_syntax import (
    AggregateOf,
    AttrOf,
    EventsOf,
    Initiator,
    NestedBlock,
    OperatorCall,
    Statement,
    Terminator,
    parts,
)
from tocsin.lang.syntax import UNITS
from tocsin.lang.time_patterns import next_time
from tocsin.plan.staged_places import Role
from tocsin.staged.contexts import GlobalPartition, LocalState, OpenContext
from tocsin.staged.event import TICK, BlockFrame, StagedEvent
from tocsin.staged.operand_list import OperandList
from tocsin.staged.options import Waking, giving_way, waking
from tocsin.staged.partition_keys import Key, key_of
from tocsin.staged.spots import PatternSpot, ticks
from tocsin.staged.values import Asked, aggregated, threshold_of, truth_of

RoleKey: TypeAlias = tuple[str, int, int]  # leaf, init or term; the scope that it belongs to; its spot, or its place
Parts: TypeAlias = dict[RoleKey, list[StagedEvent]]  # the events of a stage by what they are
Inner: TypeAlias = (
    "tuple[Key, ContextScope, GlobalPartition, Parts]"  # a partition of a block: where it is, and its events
)


class TerminatorTest(NamedTuple):
    own: Callable[[StagedEvent, int], bool] | None
    cross: tuple[Asked, ...]  # asked of (context, events that would close it)


class ContextScope:
    """A statement (number 0) or a block of its pattern.

    unit       the length of a tick; None: ticks are plain numbers
    text       of the statement, for errors
    looked_up  the attributes by whose values the events of a leaf are looked up
    longest    how long events of types may last of which `sst` is asked
    """

    def __init__(
        self, node: Statement | NestedBlock, root: PatternSpot, number: int, unit: str | None, text: str,
        looked_up: Mapping[int, Iterable[str]], longest: Mapping[str, int],
    ) -> None:  # fmt: skip
        self.node, self.root, self.number, self.unit, self.text = node, root, number, unit, text
        own = root.own()
        self.inits = node.inits or (Initiator(),)
        self.leaves = {spot.number: spot.leaf for spot in own if spot.leaf is not None}
        self.blocks = [
            ContextScope(spot.node, spot.spots[0], spot.number, unit, text, looked_up, longest)
            for spot in own if isinstance(spot.node, NestedBlock)
        ]  # fmt: skip
        self._looked_up = {each: sorted(looked_up[each]) for each in self.leaves}
        self._takes = {each: threshold_of(leaf.conditions) for each, leaf in self.leaves.items()}
        lengths = {each: leaf.range for each, leaf in self.leaves.items()}
        self._ranges = {each: None if length is None else self.ticks(length) for each, length in lengths.items()}
        self._opens = [threshold_of(init.conditions) for init in self.inits]
        self._closes = [self._terminator_test(term) for term in node.terms]
        self.lasts = [None if term.after is None else self.ticks(term.after) for term in node.terms]
        self.ticking = [spot for spot in own if spot.operator in ("At", "Every")]
        self.waiting = [spot for spot in own if spot.operator == "After"]
        active = isinstance(node, Statement) and "active" in node.options
        self._giving_way = giving_way(root) if active else []
        self._waking = waking(node, root, longest) if active and isinstance(node, Statement) else []
        self._sources = {spot.spots[0].number for spot in self.waiting}
        self.starts = any(init.type is None for init in self.inits)
        self.defers = any(spot.deferred for spot in root.all())
        asked = self.defers or bool(self.ticking) or bool(self.blocks) or number > 0  # of a run over all that were seen
        self._keeps_seen = bool(node.lkeys) and asked
        inner = [each for block in self.blocks for each in block.roles]
        self.roles: list[tuple[RoleKey, Role]] = [*self._own_roles(), *inner]
        self._local_of = {key: key_of(node.lkeys, role) for key, role in (*self._leaf_roles(), *inner)}
        self._inside = {key for key, _ in inner}
        self._global_of = {key: key_of(node.gkeys, role) for key, role in self.roles}
        self._nothing = {each: OperandList(self._looked_up[each], None, None, None) for each in self.leaves}

    def ticks(self, duration: Any) -> int:
        return ticks(duration, self.unit, self.text)

    def all(self) -> Iterator[ContextScope]:
        """This one and all blocks inside."""
        yield self
        for block in self.blocks:
            yield from block.all()

    def _leaf_roles(self) -> list[tuple[RoleKey, Role]]:
        return [(("leaf", self.number, number), leaf) for number, leaf in self.leaves.items()]

    def _own_roles(self) -> Iterator[tuple[RoleKey, Role]]:
        yield from self._leaf_roles()
        number, terms = self.number, self.node.terms
        yield from ((("init", number, at), init) for at, init in enumerate(self.inits) if init.type is not None)
        yield from ((("term", number, at), term) for at, term in enumerate(terms) if term.type is not None)

    def _terminator_test(self, term: Terminator) -> TerminatorTest:
        crossing = [each for each in term.conditions if any(isinstance(part, AggregateOf) for part in parts(each))]
        own = threshold_of([each for each in term.conditions if each not in crossing])
        return TerminatorTest(own, tuple(truth_of(each, self._of_context) for each in crossing))

    def _of_context(self, node: Any) -> Asked:
        """An aggregate over the events that opened a context, or would close it."""
        if not isinstance(node, AggregateOf):
            raise QueryError([Problem("a comparison with initiators needs an aggregate", node.span)], self.text)
        named = [part for part in parts(node.of) if isinstance(part, AttrOf | EventsOf) and part.name is not None]
        asked = [(str(part.name), part.attr if isinstance(part, AttrOf) else None) for part in named]
        names = [init.called if init.type is not None else None for init in self.inits]

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

    # --- partitions ---

    def partition(self, opened: int, now: int) -> GlobalPartition:
        """A partition that is seen for the first time now; Start has opened with what is around it."""
        part = GlobalPartition()
        if not self.node.lkeys:
            part.seen[()] = None
        if self.starts and self.start_is_open(opened, now):
            part.contexts.append(OpenContext(opened))
        return part

    def start_is_open(self, opened: int, now: int) -> bool:
        """Whether the context of Start would be there in a partition that is first seen now."""
        return all(last is None or opened + last >= now for last in self.lasts)

    def see(self, part: GlobalPartition, mine: Parts) -> None:
        """Note the local values of a stage: of operands, and of all roles inside of blocks."""
        for role, events in mine.items() if self._keeps_seen else ():
            local_of = self._local_of.get(role)
            for event in events if local_of is not None else ():
                if local_of is not None and (local := local_of(event.values)) is not None:
                    part.seen[local] = None

    # --- contexts ---

    def terminated(
        self, part: GlobalPartition, now: int, mine: Parts
    ) -> list[tuple[OpenContext, int, list[StagedEvent]]]:
        """The contexts that end, each with the first terminator that closes it and its events."""
        closed: list[tuple[OpenContext, int, list[StagedEvent]]] = []
        still_open = list(part.contexts)
        for at, term in enumerate(self.node.terms):
            last = self.lasts[at]
            acting: list[StagedEvent] = []
            if last is not None:
                chosen = [each for each in still_open if now >= each.opened + last]
            elif (events := mine.get(("term", self.number, at))) is not None:
                chosen, acting = self._closed_by(at, term, still_open, events, now)
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

    def initiate(self, part: GlobalPartition, now: int, mine: Parts) -> None:
        """Open contexts, then those of the blocks in all that are open."""
        for at in range(len(self.inits)):
            events = mine.get(("init", self.number, at))
            if not events:
                continue
            opens = self._opens[at]
            acting = events if opens is None else [event for event in events if opens(event, now)]
            if acting and (self.inits[at].add or not part.contexts):
                part.contexts.append(OpenContext(now, at, acting))
        for context in part.contexts if self.blocks else ():
            for _, block, inner, its in self._inner(context, part, now, mine):
                inner.contexts = [each for each in inner.contexts if not each.ended]
                block.initiate(inner, now, its)

    # --- blocks ---

    def _inner(self, context: OpenContext, part: GlobalPartition, now: int, mine: Parts) -> Iterator[Inner]:
        """The partitions of all blocks in a context, each with its local partition and the events that belong to it."""
        by_local = _divided({role: events for role, events in mine.items() if role in self._inside}, self._local_of)
        for local in dict.fromkeys([*part.seen, *context.locals, *by_local]):
            state, there = context.local(local), by_local.get(local, {})
            state.blocks = state.blocks or {}
            for block in self.blocks:
                known = state.blocks.setdefault(block.number, {})
                by_key = _divided(there, block._global_of)
                for key in by_key if block.node.gkeys else ((),):
                    if key not in known:
                        known[key] = block.partition(context.opened, now)
                for key, inner in known.items():
                    yield local, block, inner, by_key.get(key, {})

    def end_blocks(self, context: OpenContext, part: GlobalPartition, now: int, mine: Parts) -> None:
        """Close contexts of blocks by their own terminators; those with deferred operators stay for the stage."""
        for _, block, inner, its in self._inner(context, part, now, mine) if self.blocks else ():
            block.see(inner, its)
            for closed, at, _ in block.terminated(inner, now, its):
                closed.ended = block.defers and not block.node.terms[at].discard
                if not closed.ended:
                    inner.contexts.remove(closed)
            for each in inner.contexts:
                each.fires = None
                block.end_blocks(each, inner, now, its)

    def frames(self, local: LocalState, now: int, *, final: bool) -> dict[int, list[BlockFrame]]:
        """The context instances of all blocks, as a run sees them. The end of a context is that of its blocks."""
        known = local.blocks or {}
        return {
            block.number: [
                block._frame(each, at, now, final=final or each.ended)
                for inner in known.get(block.number, {}).values()
                for each in inner.contexts
                for at in dict.fromkeys([*inner.seen, *each.locals])
            ]
            for block in self.blocks
        }

    def _frame(self, context: OpenContext, at: Key, now: int, *, final: bool) -> BlockFrame:
        local = context.local(at)
        fires, inner = (context.fires or {}).get(at, {}), self.frames(local, now, final=final)
        return BlockFrame(context.opened, final, self.lists(local, now), fires, inner)

    # --- collection ---

    def collect(self, context: OpenContext, part: GlobalPartition, now: int, mine: Parts) -> dict[Key, None]:
        """Collect the events of a stage into a context that goes on; the local partitions in which something is new."""
        news = dict.fromkeys(self._woken(context, now))
        fires: dict[Key, dict[int, Any]] = {}
        context.fires = fires if self.ticking or self.waiting else None
        for spot in self.ticking:
            if self._next_tick(spot.call, context, now - 1) == now:
                for local in part.seen:
                    fires.setdefault(local, {})[spot.number] = TICK
        for spot in self.waiting:
            self._fire(spot, context, now, fires)
            self._pend(spot, context, now, mine)
        for (what, number, at), events in mine.items():
            if what == "leaf" and number == self.number and at not in self._sources:
                for local, several in self._by_local(at, events, now).items():
                    self._list(context.local(local), at).collect(several, now)
                    news[local] = None
        for local, block, inner, its in self._inner(context, part, now, mine) if self.blocks else ():
            some = False
            for each in inner.contexts:
                some |= each.ended or bool(block.collect(each, inner, now, its))
            if some:
                news[local] = None
        return {**news, **dict.fromkeys(fires)} if fires else news

    def _woken(self, context: OpenContext, now: int) -> Iterator[Key]:
        """For `active`: the local partitions that are looked at because time has passed."""
        for local, state in context.locals.items() if self._giving_way or self._waking else ():
            dues = [self._gives_way(state, at) for at in self._giving_way]
            if any(due is not None and due <= now for due in dues) or any(
                now in self._wakes(state, each, now - 1) for each in self._waking
            ):
                yield local

    def _by_local(self, number: int, events: Sequence[StagedEvent], now: int) -> dict[Key, list[StagedEvent]]:
        """The events that a leaf takes, by their local key."""
        takes, local_of = self._takes[number], self._local_of["leaf", self.number, number]
        found: dict[Key, list[StagedEvent]] = {}
        for event in events:
            if takes is None or takes(event, now):
                local = local_of(event.values)
                if local is not None:
                    found.setdefault(local, []).append(event)
        return found

    def new_list(self, number: int) -> OperandList:
        """The list of a leaf, with nothing in it."""
        leaf = self.leaves[number]
        return OperandList(self._looked_up[number], leaf.rows, leaf.stages, self._ranges[number])

    def _list(self, local: LocalState, number: int) -> OperandList:
        found = local.lists.get(number)
        if found is None:
            found = local.lists[number] = self.new_list(number)
        return found

    def lists(self, local: LocalState | None, now: int) -> dict[int, OperandList]:
        """All lists of a local partition, without what has expired."""
        found = dict(self._nothing)
        for number, each in local.lists.items() if local is not None else ():
            each.expire(now)
            found[number] = each
        return found

    def _fire(self, spot: PatternSpot, context: OpenContext, now: int, fires: dict[Key, dict[int, Any]]) -> None:
        """After: sources that are due leave."""
        wait = self.ticks(spot.call.interval)
        for key, local in context.locals.items():
            pending = local.pending.get(spot.number)
            if pending and (due := [event for event in pending if event.end + wait <= now]):
                fires.setdefault(key, {})[spot.number] = due
                local.pending[spot.number] = [event for event in pending if event.end + wait > now]

    def _pend(self, spot: PatternSpot, context: OpenContext, now: int, mine: Parts) -> None:
        """After: newcomers wait, one by one."""
        number = spot.spots[0].number
        for key, events in self._by_local(number, mine.get(("leaf", self.number, number), ()), now).items():
            local = context.local(key)
            for event in events:
                local.pending[spot.number] = _joined(local.pending.get(spot.number, []), event, spot.call)

    def _gives_way(self, local: LocalState, number: int) -> int | None:
        """When the oldest event of a leaf will be too old."""
        length, oldest = self._ranges[number], None if number not in local.lists else local.lists[number].all.oldest
        return None if oldest is None or length is None else oldest.end + length

    def _wakes(self, local: LocalState, each: Waking, after: int) -> Iterator[int]:
        """When sst passes a time of an event that is there then, after a time."""
        length = self._ranges[each.leaf]
        for event in local.lists[each.leaf].all if each.leaf in local.lists else ():
            due = (event.start if each.start else event.end) + each.behind
            if due > after and (length is None or due < event.end + length):
                yield due

    # --- timers ---

    def _next_tick(self, call: OperatorCall, context: OpenContext, after: int) -> int | None:
        """The first time after another at which At or Every happens in a context: never when it opens."""
        after = max(after, context.opened)
        if call.interval is not None:
            period = self.ticks(call.interval)
            return context.opened + ((after - context.opened) // period + 1) * period
        if self.unit is None:
            problem = Problem("At needs times with a unit", call.span, hint='say what they are: time_unit="s"')
            raise QueryError([problem], self.text)
        return next_time(str(call.pattern), after, UNITS[self.unit])

    def due(self, part: GlobalPartition, now: int) -> Iterator[int]:
        """When something is due in a partition after a time."""
        for context in part.contexts:
            yield from (context.opened + last for last in self.lasts if last is not None)
            yield from (tick for spot in self.ticking if (tick := self._next_tick(spot.call, context, now)) is not None)
            for spot in self.waiting:
                wait = self.ticks(spot.call.interval)
                pending = (event for local in context.locals.values() for event in local.pending.get(spot.number, ()))
                yield from (event.end + wait for event in pending)
            for at in self._giving_way:
                dues = (self._gives_way(local, at) for local in context.locals.values())
                yield from (due for due in dues if due is not None)
            for each in self._waking:
                yield from (due for local in context.locals.values() for due in self._wakes(local, each, now))
            for local in context.locals.values() if self.blocks else ():
                for block in self.blocks:
                    for inner in (local.blocks or {}).get(block.number, {}).values():
                        yield from block.due(inner, now)


def _divided(mine: Parts, by: Mapping[RoleKey, Callable[[Mapping[str, Any]], Key | None]]) -> dict[Key, Parts]:
    """Events of a stage by a key; those of roles that have none are left out."""
    found: dict[Key, Parts] = {}
    for role, events in mine.items():
        key_of_role = by.get(role)
        for event in events if key_of_role is not None else ():
            if key_of_role is not None and (key := key_of_role(event.values)) is not None:
                found.setdefault(key, {}).setdefault(role, []).append(event)
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
