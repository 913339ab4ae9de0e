"""An event as a staged statement sees it, and what an operand may be bound to beside one event."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias


class StagedEvent(NamedTuple):
    """An event; numbers ascend in canonical order, so they order the events of all lists.

    values  of the attributes that the statement reads; a missing one is Null
    """

    number: int
    type: str
    start: int
    end: int
    values: dict[str, Any]


class LeftOut:
    """What an operand is bound to that another branch of an Or has left out."""


class Tick:
    """What a timed operator is bound to in the stage in which it is due."""


ABSENT, TICK = LeftOut(), Tick()


@dataclass(frozen=True, slots=True)
class EveryOne:
    """The whole list of an operand with the quantifier `all`: what is asked must hold for each of them."""

    events: tuple[StagedEvent, ...]


@dataclass(frozen=True, slots=True)
class CountedEvents:
    """The events of a counted operand, as a set."""

    events: tuple[StagedEvent, ...]


@dataclass(frozen=True, slots=True, eq=False)
class BlockFrame:
    """One context instance of a block in one local partition, as a run sees it: what its spots are solved over.

    lists   by the number of a leaf, what it has collected
    fires   by the number of a timed operator, what it does in this stage
    frames  of the blocks inside
    """

    opened: int
    final: bool
    lists: Mapping[int, Any]
    fires: Mapping[int, Any]
    frames: Mapping[int, list[BlockFrame]]


def frames_in(frames: Mapping[int, list[BlockFrame]]) -> Iterator[BlockFrame]:
    """All frames, those inside others too."""
    for several in frames.values():
        for frame in several:
            yield frame
            yield from frames_in(frame.frames)


Bound: TypeAlias = "StagedEvent | EveryOne | CountedEvents | BlockFrame | LeftOut | Tick | None"
Binding: TypeAlias = "tuple[Bound, ...]"  # by the number of a spot


def events_in(bound: Any) -> tuple[StagedEvent, ...]:
    """The events that an operand is bound to."""
    if isinstance(bound, StagedEvent):
        return (bound,)
    return bound.events if isinstance(bound, EveryOne | CountedEvents) else ()


def distinct(events: Iterable[StagedEvent]) -> tuple[StagedEvent, ...]:
    """Each event once, in canonical order."""
    by_number = {event.number: event for event in events}
    return tuple(by_number[number] for number in sorted(by_number))
