"""Partitions, context instances and what their operands have collected; saved and loaded as plain values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from tocsin.codec import Scalar
from tocsin.staged.event import ABSENT, TICK, Binding, CountedEvents, EveryOne, StagedEvent, events_in
from tocsin.staged.operand_list import OperandList
from tocsin.staged.partition_keys import Key

Events = Mapping[int, StagedEvent]


@dataclass(slots=True)
class LocalState:
    """What the operands of one local partition have collected, and the sources of After that are pending."""

    lists: dict[int, OperandList] = field(default_factory=dict)
    pending: dict[int, list[StagedEvent]] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        return not any(self.pending.values()) and not any(each.all.count for each in self.lists.values())


@dataclass(slots=True)
class Delayed:
    """The matches of a run that wait for the end of their context."""

    now: int
    local: Key
    matches: list[Binding]


@dataclass(slots=True, eq=False)
class OpenContext:
    """One context instance: when it was opened, by which initiator (None: Start) and events, and its lists."""

    opened: int
    opener: int | None = None
    openers: list[StagedEvent] = field(default_factory=list)
    locals: dict[Key, LocalState] = field(default_factory=dict)
    delayed: list[Delayed] = field(default_factory=list)

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


# What is stored: events by their numbers, and these by the operand that has collected them.
SavedKey: TypeAlias = list[tuple[Scalar, Scalar]]
SavedLists: TypeAlias = list[tuple[int, list[int]]]
SavedLocal: TypeAlias = tuple[SavedKey, SavedLists, SavedLists]
SavedDelayed: TypeAlias = tuple[int, SavedKey, list[list[list[Any]]]]
SavedContext: TypeAlias = tuple[int, int | None, list[int], list[SavedLocal], list[SavedDelayed]]
SavedPartition: TypeAlias = tuple[SavedKey, list[SavedKey], list[SavedContext]]


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
        ]
        for key, local in context.locals.items()
    ]
    delayed = [
        [each.now, each.local, [[_saved_bound(one, events) for one in match] for match in each.matches]]
        for each in context.delayed
    ]
    return [context.opened, context.opener, _numbers(context.openers, events), locals_, delayed]


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
    for key, lists, pending in locals_:
        local = context.local(loaded_key(key))
        local.lists = {number: make(number, [events[each] for each in several]) for number, several in lists}
        local.pending = {number: [events[each] for each in several] for number, several in pending}
    for now, key, matches in delayed:
        bindings = [tuple(_loaded_bound(one, events) for one in match) for match in matches]
        context.delayed.append(Delayed(now, loaded_key(key), bindings))
    return context


def _loaded_bound(saved: list[Any], events: Events) -> Any:
    kind, *numbers = saved
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
