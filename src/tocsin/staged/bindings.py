"""What a run of detection works on, and what names mean there: attributes, times of operands, members of `all`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, TypeAlias

from tocsin.errors import TocsinError
from tocsin.lang.staged_syntax import AttrOf, StableTime, TimeOf
from tocsin.staged.event import ABSENT, TICK, Binding, BlockFrame, Bound, EveryOne, StagedEvent, events_in
from tocsin.staged.operand_list import OperandList
from tocsin.staged.spots import PatternSpot
from tocsin.staged.values import Asked

Times: TypeAlias = "list[tuple[int, int]]"


@dataclass(slots=True)
class DetectionRun:
    """One detection run over the lists of one context and local partition.

    now     the time of the stage; `opened`: of the context
    final   the context ends now, so deferred operators are asked
    lists   by the number of a leaf, what it has collected
    fires   by the number of a timed operator: TICK, or the sources of After that are due now
    bound   by the number of a spot, what it is bound to at the moment
    frames  by the number of a block, its context instances

    Spots have different numbers, so a block that is entered adds what its own spots are solved over.
    """

    now: int
    opened: int
    final: bool
    lists: dict[int, OperandList]
    fires: dict[int, Any]
    sst: Callable[[str], int]
    bound: list[Bound]
    frames: dict[int, list[BlockFrame]] = field(default_factory=dict)
    found: list[Binding] = field(default_factory=list)


def context_of(spot: PatternSpot) -> Callable[[DetectionRun], DetectionRun | BlockFrame]:
    """The context in which a spot stands: that of the innermost block around it."""
    if not spot.block:
        return lambda run: run
    number = spot.block
    return lambda run: frame if isinstance(frame := run.bound[number], BlockFrame) else run


def for_every(run: DetectionRun, numbers: Sequence[int], test: Callable[[DetectionRun], bool]) -> bool:
    """Whether a test holds for each choice of one member for every `all` among some leaves."""
    bound = run.bound
    sets = [(number, one) for number in numbers if isinstance(one := bound[number], EveryOne)]
    if not sets:
        return test(run)
    try:
        for choice in product(*(one.events for _, one in sets)):
            for (number, _), event in zip(sets, choice, strict=True):
                bound[number] = event
            if not test(run):
                return False
    finally:
        for number, one in sets:
            bound[number] = one
    return True


class PatternNames:
    """What names mean in Where: the spots of the pattern by name."""

    def __init__(self, root: PatternSpot) -> None:
        self.spots: dict[str, PatternSpot] = {}
        for spot in root.all():
            if spot.name is not None:
                self.spots.setdefault(spot.name, spot)

    def look_up(self, node: Any) -> Asked:
        """A function of a run for an attribute or a time in a condition."""
        if isinstance(node, StableTime):
            return lambda run: run.now
        if isinstance(node, TimeOf) and node.which == "sst":
            leaf = self.spots[node.name].leaf
            if leaf is None:
                raise TocsinError("sst is asked of an operand")
            type = leaf.type
            return lambda run: run.sst(type)
        if isinstance(node, AttrOf):
            return _attribute(self.spots[str(node.name)].number, node.attr)
        if isinstance(node, TimeOf):
            spot = self.spots[node.name]
            return _absent_or(spot.number, start_of(spot) if node.which == "start-ts" else end_of(spot))
        raise TocsinError("an aggregate cannot stand in Where")


def _attribute(number: int, attr: str) -> Asked:
    def attribute(run: DetectionRun) -> Any:
        event = run.bound[number]
        return event.values.get(attr) if isinstance(event, StagedEvent) else ABSENT if event is ABSENT else None

    return attribute


def _absent_or(number: int, time: Asked) -> Asked:
    return lambda run: ABSENT if run.bound[number] is ABSENT else time(run)


# --- times of what is bound --------------------------------------------------------------------------------------


def constituents(spot: PatternSpot) -> Callable[[DetectionRun], Times]:
    """Start and end of all that a match has at a spot; nothing of what is negated or absent."""
    number = spot.number
    if spot.operator is None:
        return lambda run: [(event.start, event.end) for event in events_in(run.bound[number])]
    if spot.operator in ("At", "Every"):
        return lambda run: [(run.now, run.now)] if run.bound[number] is TICK else []
    if spot.operator == "After":
        source = constituents(spot.spots[0])
        return lambda run: [(start, run.now) for start, _ in source(run)]
    if spot.operator == "Not":
        return lambda _: []
    below = [constituents(each) for each in (spot.spots[:1] if spot.operator == "Unless" else spot.spots)]
    return lambda run: [times for each in below for times in each(run)]


def start_of(spot: PatternSpot) -> Callable[[DetectionRun], int]:
    """The earliest start of the constituents; the opening of the context where there are none."""
    if spot.operator is None:
        return _time_of_leaf(spot.number, start=True)
    inner, context = constituents(spot), context_of(spot)
    return lambda run: min((start for start, _ in inner(run)), default=context(run).opened)


def end_of(spot: PatternSpot) -> Callable[[DetectionRun], int]:
    """The latest end of the constituents; the time of the stage where there are none."""
    if spot.operator is None:
        return _time_of_leaf(spot.number, start=False)
    inner = constituents(spot)
    return lambda run: max((end for _, end in inner(run)), default=run.now)


def _time_of_leaf(number: int, *, start: bool) -> Callable[[DetectionRun], int]:
    def time(run: DetectionRun) -> int:
        bound = run.bound[number]
        if isinstance(bound, StagedEvent):
            return bound.start if start else bound.end
        events = events_in(bound)
        if start:
            return min((event.start for event in events), default=run.opened)
        return max((event.end for event in events), default=run.now)

    return time
