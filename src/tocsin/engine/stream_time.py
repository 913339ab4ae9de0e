"""The time of a stream as one detector knows it: its clock, what was guaranteed, and what answers may rely on."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from tocsin.engine import runtime as rt
from tocsin.engine.too_late import earliest, passed, too_late
from tocsin.events import BEGINNING, END_OF_TIME
from tocsin.items import EVERY, Bools, Ints, ItemKind, Items


@dataclass(slots=True)
class StreamTime:
    """What is known of time, and how it is used.

    types      by code, all types that items may have
    ordered    events come in order of their ends
    slack      by how many ticks an event may end before the clock and still count
    hold       the types whose guarantees answers wait for; the others are taken to be complete up to the clock
    immediate  an absence at the end of a pattern is answered at once, and corrected
    mine       the types that the query reads
    """

    types: tuple[str, ...]
    ordered: bool
    slack: int
    hold: frozenset[str]
    immediate: bool
    mine: Collection[str] = ()
    clock: int = BEGINNING
    guarantees: dict[str, int] = field(default_factory=dict)  # every later event of the type ends after this
    ended: bool = False

    @property
    def holds(self) -> bool:
        """Whether answers wait for guarantees."""
        return not self.ordered and bool(self.hold)

    @property
    def final(self) -> bool:
        """Whether what was answered is never retracted, as long as guarantees are kept."""
        return self.holds and self.hold.issuperset(self.mine)

    def hear(self, items: Items) -> None:
        """Take in ticks, guarantees and the end; a guarantee that says less than an earlier one changes nothing."""
        assert items.kinds is not None
        said = zip(items.kinds.tolist(), items.types.tolist(), items.end.tolist(), strict=True)
        for kind, type, time in said:
            if kind == ItemKind.GUARANTEE:
                self._guarantee(type, time)
            elif kind == ItemKind.TICK:
                self.clock = max(self.clock, time)
            elif kind == ItemKind.END:
                self.ended, self.clock = True, END_OF_TIME
                self._guarantee(EVERY, END_OF_TIME)

    def _guarantee(self, type: int, time: int) -> None:
        if type == EVERY:
            self.clock = max(self.clock, min(time + 1, END_OF_TIME))
        for each in self.types if type == EVERY else self.types[type : type + 1]:
            self.guarantees[each] = max(self.guarantees.get(each, BEGINNING), time)

    def too_late(self, ends: Ints) -> Bools:
        """Which events of a batch come too late, given their ends."""
        return too_late(self.clock, self.slack, ends)

    def released(self, type: str, *, waits: bool = False) -> tuple[int, int]:
        """What answers may rely on about a type: all to come end after a time, or after the clock less a lag.

        `waits`: of an answer that is never given before its time.
        """
        if self.ended:
            return rt.FAR, 1
        promised = self.guarantees.get(type, BEGINNING)
        if type in self.hold:
            return promised, min(self.slack + 1, rt.UNLIMITED)
        return (rt.FAR if self.immediate and not waits else promised), 1

    def relied_upon(self) -> dict[str, int]:
        """For each type up to when answers take its events to be complete."""
        return {type: max(time, self.clock - lag) for type in self.types for time, lag in [self.released(type)]}

    def guaranteed(self, type: str, clock: int) -> int:
        """Every event of a type that is still to come ends after this."""
        promised = self.guarantees.get(type, BEGINNING)
        if self.ended or promised >= END_OF_TIME:
            return rt.BIGGEST
        return max(promised, passed(clock, self.slack))

    def open_from(self, types: Iterable[str], clock: int) -> int:
        """No event of these types will end before this."""
        behind = earliest(clock, self.slack)
        if self.ordered or not self.guarantees:
            return behind
        return max(behind, min((self.guarantees.get(type, BEGINNING) for type in types), default=BEGINNING) + 1)
