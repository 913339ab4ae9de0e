"""Active instance stacks: a linked list for each positive item, with pointers to the neighbouring stacks.

RIP(e) is the most recent instance of the previous stack before e, RIN(e) the first of the next stack after e. They are
references, not places, because an instance that comes late moves the places of the others.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.disorder.baselines.pattern import Event


class Instance:
    """An event at one position. `gone` tells pointers to it that it was purged, and with it all that is older."""

    __slots__ = ("event", "gone", "newer", "older", "rin", "rip", "ts")

    def __init__(self, event: Event) -> None:
        self.event = event
        self.ts = event.ts
        self.older: Instance | None = None
        self.newer: Instance | None = None
        self.rip: Instance | None = None
        self.rin: Instance | None = None
        self.gone = False


class Stack:
    """Instances from the oldest (bottom) to the newest (top)."""

    __slots__ = ("bottom", "size", "top")

    def __init__(self) -> None:
        self.bottom: Instance | None = None
        self.top: Instance | None = None
        self.size = 0

    def __iter__(self) -> Iterator[Instance]:
        here = self.bottom
        while here is not None:
            yield here
            here = here.newer

    def append(self, new: Instance) -> None:
        """Append semantics: on top, whatever its time."""
        new.older = self.top
        if self.top is None:
            self.bottom = new
        else:
            self.top.newer = new
        self.top = new
        self.size += 1

    def insert(self, new: Instance) -> None:
        """Sort semantics: at its place in time, after its equals."""
        below = self.last_before(new.ts + 1)
        if below is self.top:
            self.append(new)
            return
        new.older = below
        new.newer = self.bottom if below is None else below.newer
        assert new.newer is not None
        new.newer.older = new
        if below is None:
            self.bottom = new
        else:
            below.newer = new
        self.size += 1

    def last_before(self, ts: int) -> Instance | None:
        """The newest instance with a smaller time: late events belong near the top, so the walk starts there."""
        here = self.top
        while here is not None and here.ts >= ts:
            here = here.older
        return here

    def drop_before(self, ts: int) -> int:
        """Purge from the bottom everything that is older than `ts`; how many there were."""
        count = 0
        while self.bottom is not None and self.bottom.ts < ts:
            self._drop_bottom()
            count += 1
        return count

    def drop_through(self, last: Instance) -> int:
        """Purge an instance and everything below it."""
        count = 0
        while not last.gone:
            self._drop_bottom()
            count += 1
        return count

    def _drop_bottom(self) -> None:
        old = self.bottom
        assert old is not None
        old.gone = True
        self.bottom = old.newer
        if self.bottom is None:
            self.top = None
        else:
            self.bottom.older = None
        old.newer = old.older = None
        self.size -= 1


def live(pointer: Instance | None) -> Instance | None:
    """A pointer to a purged instance points to nothing: all below it is purged too."""
    return None if pointer is None or pointer.gone else pointer
