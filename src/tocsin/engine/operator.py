"""The one contract: items in, changes out, and a state that can be saved and taken up elsewhere.

Everything that stands in the way of an event is an operator: the compiled detector, sorting, setting late events aside,
holding answers, spilling, ordered release, and the graph that wires them. An operator reads no clock and no socket.
Those that work on another operator are given it; `docs/adding-an-operator.md` builds one step by step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from tocsin.codec import Part, pack, unpack
from tocsin.encode.stored import RowReader
from tocsin.engine.changes import Changes
from tocsin.engine.stream_time import StreamTime
from tocsin.functions import Function
from tocsin.items import Ints, Items
from tocsin.plan.block import Plan

if TYPE_CHECKING:
    from tocsin.engine.detector import Detector


@dataclass(slots=True)
class Counters:
    """What every operator counts."""

    seen: int = 0
    relevant: int = 0
    late: int = 0
    duplicates: int = 0
    conflicting: int = 0  # those of them that differ from the copy that counts
    keyless: int = 0  # events that a query does not see, because they lack an attribute of its key
    matches: int = 0
    retracted: int = 0
    waiting: int = 0
    peak: int = 0  # events kept at most, as far as was looked when events were dropped
    late_positive: int = 0  # events behind the clock that matches contain, and that they are judged by
    late_negative: int = 0
    held: int = 0  # answers that had to wait; those that came out of it, and those that failed meanwhile
    released: int = 0
    held_pruned: int = 0
    purged_a1: int = 0  # events dropped: no partner will come; none in the right order; nobody new will join; ...
    purged_a2: int = 0
    purged_p3: int = 0
    purged_neg: int = 0  # ... no new match will have it in a scope; all guarantees have passed it by a window
    purged_old: int = 0
    begins: int = 0  # intervals announced; of these the late ones, those that came again, and those not like theirs
    late_begins: int = 0
    repeated_begins: int = 0
    differing_begins: int = 0
    unended: int = 0  # intervals that were announced and never ended
    gaps: int = 0  # known losses: taken note of, not yet used
    look: Callable[[], int] = field(default=lambda: 0, repr=False, compare=False)

    @property
    def live(self) -> int:
        """How many events are kept now; looked up when asked, because that takes a while."""
        return self.look()

    @property
    def most_live(self) -> int:
        """How many events were kept at most, as far as anybody looked."""
        return max(self.peak, self.live)


class Remembering(Protocol):
    """An operator that knows more than the stored events tell: what it chose, what it has counted.

    A host that keeps a log of events instead of snapshots stores `memory` beside the log. It calls `follow` before the
    log is replayed and `resume` after that, both with the stored memory.
    """

    @property
    def memory(self) -> bytes: ...

    def follow(self, memory: bytes) -> None: ...

    def resume(self, memory: bytes) -> None: ...


class RemembersAll:
    """Remembering, for an operator that keeps events itself: all that its snapshot holds."""

    def snapshot(self, since: int = 0) -> list[Part]:
        raise NotImplementedError

    def restore(self, parts: Iterable[Part]) -> None:
        raise NotImplementedError

    @property
    def memory(self) -> bytes:
        return pack(self.snapshot())

    def follow(self, memory: bytes) -> None:
        """Before events are replayed: nothing to do, as `resume` sets everything."""

    def resume(self, memory: bytes) -> None:
        """After events were replayed: go on from what was remembered."""
        self.restore(unpack(memory))


@dataclass(frozen=True, slots=True)
class Setting:
    """What an operator that stands around a query is told of it.

    corrects  the strategy answers at once and retracts: the operator may, too; otherwise it never retracts
    time      how the strategy lets time pass; nobody else uses this one
    reader    reads stored events, and knows the codes of types and texts
    """

    plan: Plan
    functions: Mapping[str, Function]
    corrects: bool
    time: StreamTime
    reader: RowReader


class Operator(Protocol):
    """A pure state machine.

    `push` takes items in any order of arrival and answers with the changes that they bring. `snapshot` gives the state
    as parts: those that changed since a version, and always a summary. `restore` takes them up in a new operator of the
    same query; if they do not fit, it raises a StateError and nothing has changed.
    """

    def push(self, items: Items) -> Changes: ...

    def snapshot(self, since: int = 0) -> list[Part]: ...

    def restore(self, parts: Iterable[Part]) -> None: ...

    @property
    def counters(self) -> Counters: ...

    @property
    def inner(self) -> tuple[Operator, ...]:
        """The operators that this one works on; none for a detector."""

    @property
    def detectors(self) -> tuple[Detector, ...]:
        """The detectors at work in this operator and in those inside, see `Nesting`; of a detector itself."""

    @property
    def texts_in_use(self) -> Ints:
        """Codes of texts that this operator and those inside may still ask about; other numbers may be among them.

        Asked between two pushes. All other texts are forgotten, and their codes given to new ones.
        """


class HasInner(Protocol):
    """Whatever works on operators."""

    @property
    def inner(self) -> tuple[Operator, ...]: ...


class Nesting:
    """An operator whose detectors are those of the operators that it works on; none where it works on none."""

    @property
    def detectors(self: HasInner) -> tuple[Detector, ...]:
        return tuple(found for each in self.inner for found in each.detectors)


class Around(Protocol):
    """Makes an operator that stands around the operator of a query; must be picklable, to travel to Spark's workers."""

    def __call__(self, inner: Operator, setting: Setting) -> Operator: ...
