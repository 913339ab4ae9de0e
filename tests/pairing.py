"""An operator over events for the tests: chronicle pairing, as a rule for one key and as a definition of what it means.

SEQ(A a, B b) in which each B takes the oldest A of its key that fits and that no B took before (spec of consumption
modes: chronicle). An A that no B took in time is told as a row of kind `timeout`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tocsin.engine.operator import Operator, Setting
from tocsin.events import END_OF_TIME, Event, eid_number
from tocsin.order.keyed_events import NumberedEvent
from tocsin.order.keyed_process import Answer, EventRule, keyed_process

PAIRS = "EVENT SEQ(A a, B b) WHERE [id] WITHIN 8"
State = list[list[int]]  # the events A that wait: number, start, end


@dataclass(frozen=True)
class Pairing(EventRule):
    """Each B takes the oldest A that fits; with `tells`, what no B took in time is told."""

    within: int = 8
    tells: bool = True
    key: tuple[str, ...] = ("id",)
    first: str = "A"

    def __call__(self, inner: Operator, setting: Setting) -> Operator:
        return keyed_process(self, self.key, setting)

    @property
    def delay(self) -> int:  # type: ignore[override]  # a timeout ends up to a window before it is told
        return self.within

    def begin(self) -> State:
        return []

    def step(self, state: State, event: NumberedEvent) -> tuple[State, Sequence[Answer]]:
        if event.type == self.first:
            return [*state, [event.number, event.start, event.end]], ()
        for at, (number, start, end) in enumerate(state):
            if end < event.start and event.end - start <= self.within:
                return state[:at] + state[at + 1 :], [Answer((number, event.number))]
        return state, ()

    def uses(self, state: State) -> Iterable[int]:
        return [number for number, _, _ in state]

    def due(self, state: State) -> int:
        return min((start + self.within for _, start, _ in state), default=END_OF_TIME)

    def wake(self, state: State, time: int) -> tuple[State, Sequence[Answer]]:
        over = [waiting for waiting in state if waiting[1] + self.within <= time or time == END_OF_TIME]
        told = [Answer((number, None), "timeout") for number, _, _ in over] if self.tells else []
        return [waiting for waiting in state if waiting not in over], told


# --- the definition ------------------------------------------------------------------------------------------------


def pairs(events: Iterable[Event], within: int = 8) -> set[tuple[Any, ...]]:
    """(match, A, B) and (timeout, A), by eid: what the words above say, without states, times or order of arrival."""
    seen = sorted({each.eid: each for each in events if each.attrs.get("id") is not None}.values(), key=canonical)
    found: set[tuple[Any, ...]] = set()
    free = [event for event in seen if event.type == "A"]
    for b in (event for event in seen if event.type == "B"):
        fits = [a for a in free if a.attrs["id"] == b.attrs["id"] and a.end < b.start and b.end - a.start <= within]
        if fits:
            free.remove(fits[0])
            found.add(("match", fits[0].eid, b.eid))
    return found | {("timeout", a.eid) for a in free}


def canonical(event: Event) -> tuple[Any, ...]:
    return event.end, event.start, *eid_number(event.eid)
