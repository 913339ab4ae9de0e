"""Partitions, context instances and what their operands have collected; saved and loaded as plain values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from tocsin.codec import Scalar, as_shape
from tocsin.staged.event import ABSENT, TICK, Binding, BlockFrame, CountedEvents, EveryOne, StagedEvent, events_in
from tocsin.staged.operand_list import OperandList
from tocsin.staged.partition_keys import Key

Events = Mapping[int, StagedEvent]


@dataclass(slots=True)
class LocalState:
    """What the operands of one local partition have collected, and the sources of After that are pending.

    blocks  by the number of a block in the pattern, its partitions
    """

    lists: dict[int, OperandList] = field(default_factory=dict)
    pending: dict[int, list[StagedEvent]] = field(default_factory=dict)
    blocks: dict[int, dict[Key, GlobalPartition]] | None = None

    @property
    def is_empty(self) -> bool:
        return (
            not self.blocks
            and not any(self.pending.values())
            and not any(each.all.count for each in self.lists.values())
        )


@dataclass(slots=True)
class Delayed:
    """The matches of a run that wait for the end of their context."""

    now: int
    local: Key
    matches: list[Binding]


@dataclass(slots=True, eq=False)
class OpenContext:
    """One context instance: when it was opened, by which initiator (None: Start) and events, and its lists.

    ended  of a block: its own terminator has closed it in this stage, in which its deferred operators take part
    fires  what its timers do in this stage, by local partition
    """

    opened: int
    opener: int | None = None
    openers: list[StagedEvent] = field(default_factory=list)
    locals: dict[Key, LocalState] = field(default_factory=dict)
    delayed: list[Delayed] = field(default_factory=list)
    ended: bool = False
    fires: dict[Key, dict[int, Any]] | None = None

    def local(self, key: Key) -> LocalState:
        found = self.locals.get(key)
        if found is None:
            found = self.locals[key] = LocalState()
        return found


@dataclass(slots=True)
class GlobalPartition:
    """A global partition: its open contexts in order of opening, and the local values that were seen."""

    contexts: list[OpenContext] = field(default_factory=list)
    seen: dict[Key, None] = field(default_factory=dict)


def kept_in(part: GlobalPartition) -> int:
    """How many places in lists are taken, in blocks too."""
    locals_ = [local for context in part.contexts for local in context.locals.values()]
    own = sum(each.all.count for local in locals_ for each in local.lists.values())
    inner = (each for local in locals_ for known in (local.blocks or {}).values() for each in known.values())
    return own + sum(map(kept_in, inner))


# What is stored: events by their numbers, and these by the operand that has collected them.
SavedKey: TypeAlias = list[tuple[Scalar, Scalar]]
SavedLists: TypeAlias = list[tuple[int, list[int]]]
SavedLocal: TypeAlias = tuple[SavedKey, SavedLists, SavedLists]
SavedBlocks: TypeAlias = list[tuple[int, list[Any]]]  # behind a local that has blocks: the partitions of each
SavedDelayed: TypeAlias = tuple[int, SavedKey, list[list[list[Any]]]]
SavedContext: TypeAlias = tuple[int, int | None, list[int], list[list[Any]], list[SavedDelayed]]
SavedPartition: TypeAlias = tuple[SavedKey, list[SavedKey], list[SavedContext]]


def check_partitions(saved: object) -> None:
    """Refuse what was stored as partitions and has not their shape."""
    for _, _, contexts in as_shape(list[SavedPartition], saved):
        for local in (local for context in contexts for local in context[3]):
            as_shape(SavedLocal, local[:3])
            for blocks in local[3:]:
                for _, known in as_shape(SavedBlocks, blocks):
                    check_partitions(known)


# --- as plain values -----------------------------------------------------------------------------------------------


def saved_partition(part: GlobalPartition, events: dict[int, StagedEvent]) -> list[Any]:
    """A partition as plain values; its events are put into `events` and stand there as numbers."""
    return [list(part.seen), [_saved_context(each, events) for each in part.contexts]]


def _saved_context(context: OpenContext, events: dict[int, StagedEvent]) -> list[Any]:
    locals_ = [
        [
            key,
            [[number, _numbers(each.all, events)] for number, each in local.lists.items()],
            [[number, _numbers(each, events)] for number, each in local.pending.items()],
            *_saved_blocks(local, events),
        ]
        for key, local in context.locals.items()
    ]
    delayed = [
        [each.now, each.local, [[_saved_bound(one, events) for one in match] for match in each.matches]]
        for each in context.delayed
    ]
    return [context.opened, context.opener, _numbers(context.openers, events), locals_, delayed]


def _saved_blocks(local: LocalState, events: dict[int, StagedEvent]) -> list[Any]:
    """The blocks of a local partition, where the pattern has some."""
    if not local.blocks:
        return []
    each = local.blocks.items()
    return [[[number, [[at, *saved_partition(part, events)] for at, part in known.items()]] for number, known in each]]


def _numbers(several: Iterable[StagedEvent], events: dict[int, StagedEvent]) -> list[int]:
    numbers = []
    for event in several:
        events[event.number] = event
        numbers.append(event.number)
    return numbers


MARKS = {id(ABSENT): "absent", id(TICK): "tick", id(None): "none"}


def _saved_bound(bound: Any, events: dict[int, StagedEvent]) -> list[Any]:
    if id(bound) in MARKS:
        return [MARKS[id(bound)]]
    if isinstance(bound, BlockFrame):
        return ["block", bound.opened]
    kind = "event" if isinstance(bound, StagedEvent) else "every" if isinstance(bound, EveryOne) else "counted"
    return [kind, *_numbers(events_in(bound), events)]


def loaded_partition(saved: Iterable[Any], events: Events, make: Any) -> GlobalPartition:
    """A partition from plain values; `make(number, events)` is the list of an operand."""
    seen, contexts = saved
    return GlobalPartition(
        [_loaded_context(each, events, make) for each in contexts], {loaded_key(key): None for key in seen}
    )


def _loaded_context(saved: Iterable[Any], events: Events, make: Any) -> OpenContext:
    opened, opener, openers, locals_, delayed = saved
    context = OpenContext(opened, opener, [events[number] for number in openers])
    for key, lists, pending, *more in locals_:
        local = context.local(loaded_key(key))
        local.lists = {number: make(number, [events[each] for each in several]) for number, several in lists}
        local.pending = {number: [events[each] for each in several] for number, several in pending}
        for number, known in (block for blocks in more for block in blocks):
            parts = {loaded_key(at): loaded_partition(part, events, make) for at, *part in known}
            local.blocks = {**(local.blocks or {}), number: parts}
    for now, key, matches in delayed:
        bindings = [tuple(_loaded_bound(one, events) for one in match) for match in matches]
        context.delayed.append(Delayed(now, loaded_key(key), bindings))
    return context


def _loaded_bound(saved: list[Any], events: Events) -> Any:
    kind, *numbers = saved
    if kind == "block":
        return BlockFrame(numbers[0], False, {}, {}, {})
    several = tuple(events[number] for number in numbers)
    match kind:
        case "event":
            return several[0]
        case "every":
            return EveryOne(several)
        case "counted":
            return CountedEvents(several)
    return {"absent": ABSENT, "tick": TICK}.get(kind)


def loaded_key(saved: Any) -> Key:
    return tuple((value, label) for value, label in saved)
