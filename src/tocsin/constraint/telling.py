"""What the loop has noted becomes rows: all records of a push together, as columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from tocsin.constraint.loops import EXPECTED, NUMBER, RECORD, STATE, TELL_ENDED, TELL_EXPECTED, TELL_UNEXPECTED
from tocsin.constraint.reasoning import Flag
from tocsin.constraint.rows import KINDS, NOBODY, REASONS, TraceColumns, joined
from tocsin.constraint.state_tables import StateTables
from tocsin.engine.changes import Members
from tocsin.engine.kinds import EXPECTED_MATCH, UNCONFIRMED, VIOLATED
from tocsin.events import BEGINNING
from tocsin.items import Bools, Ints

EXPECT, VIOLATE, UNCONFIRM = (KINDS.index(kind) for kind in (EXPECTED_MATCH, VIOLATED, UNCONFIRMED))
UNEXPECTED, TIE, INCOMPLETE = (REASONS.index(reason) for reason in ("unexpected", "tie", "incomplete"))


@dataclass(slots=True)
class TraceCounts:
    """What was counted, over all traces: for metrics and the summary of a run.

    traces    that have ended
    decided   that had a verdict; `latency`: the time from first event to verdict, summed where times are known
    skipped   events that the query was not given; `released`: events that were stored and forgotten early
    """

    traces: int = 0
    expected: int = 0
    unsat: int = 0
    closed: int = 0
    violated: int = 0
    unconfirmed: int = 0
    decided: int = 0
    latency: int = 0
    skipped: int = 0
    released: int = 0

    def __add__(self, more: TraceCounts) -> TraceCounts:
        return TraceCounts(*(getattr(self, name) + getattr(more, name) for name in self.__slots__))


@dataclass(slots=True)
class Moments:
    """Traces to which something happens: the word of each, when it happens, when the trace began (BEGINNING: nobody
    remembers), and the number of the event that does it (NOBODY: the trace ends without one)."""

    codes: Ints
    words: Ints
    when: Ints
    begun: Ints
    event: Ints

    def some(self, keep: Ints | Bools) -> Moments:
        return Moments(*(getattr(self, name)[keep] for name in self.__slots__))

    @property
    def start(self) -> Ints:
        """When each trace began; where that is not known, the time of what happens to it."""
        return np.where((self.begun == BEGINNING) & (self.event != NOBODY), self.when, self.begun)


@dataclass
class Telling:
    """Makes rows of what has been noted, and counts them."""

    tables: StateTables
    constraints: int
    counts: TraceCounts
    trusted: bool = True
    pieces: list[TraceColumns] = field(default_factory=list)

    def records(
        self, noted: Ints, members: Ints, first: int, letters: Ints, before: dict[tuple[int, int], tuple[str, ...]]
    ) -> None:
        """Make rows of the records of one run of the loop, in their order; ties are left to `ties.follow_tie`.

        first   the number of the first row; `letters`: of the rows
        before  eids of events before a restart, by key and number of the trace
        """
        kinds, codes, rows, words, begun, stop, when = np.ascontiguousarray(noted.reshape(-1, RECORD).T)
        moments = Moments(codes, words, when, begun, np.where(rows < 0, NOBODY, first + rows))
        told: list[tuple[Ints, TraceColumns]] = []
        if len(at := np.flatnonzero(kinds == TELL_EXPECTED)):
            told.append((at, self.expected(moments.some(at), stop[at], members, before)))
        if len(at := np.flatnonzero(kinds == TELL_UNEXPECTED)):
            state = self.tables.moves[(words[at] & STATE) * self.tables.width + letters[rows[at]]]
            told += ((at[of], each) for of, each in self.violated(moments.some(at), state, UNEXPECTED))
        if len(at := np.flatnonzero(kinds == TELL_ENDED)):
            told += ((at[of], each) for of, each in self.incomplete(moments.some(at)))
        self.in_turn(told)

    def expected(
        self, here: Moments, stop: Ints, members: Ints, before: dict[tuple[int, int], tuple[str, ...]]
    ) -> TraceColumns:
        """Rows for traces that must hold a match. Their members stand in one list, those of each up to its `stop`."""
        self.counts.expected += len(stop)
        offsets = np.concatenate([np.zeros(1, np.int64), stop])
        numbers = here.words >> NUMBER
        known: Mapping[int, tuple[str, ...]] = {}
        if before:
            traces = enumerate(zip(here.codes.tolist(), numbers.tolist(), strict=True))
            known = {at: before.pop(trace) for at, trace in traces if trace in before}
        return TraceColumns.of(
            len(stop), kinds=EXPECT, codes=here.codes, numbers=numbers, start=here.start, end=here.when,
            event=here.event, members=Members(offsets, members[: offsets[-1]].copy()), before=known,
        )  # fmt: skip

    def violated(self, here: Moments, after: Ints, reason: int) -> Iterator[tuple[Ints, TraceColumns]]:
        """Rows for events that violate a constraint, with their places in `here`; `after`: the states that follow."""
        dead = self.tables.dead
        return self._broken(here, dead[after] & ~dead[here.words & STATE], reason, Flag.DONE)

    def incomplete(self, here: Moments) -> Iterator[tuple[Ints, TraceColumns]]:
        """Rows for traces that have ended where a constraint asks for more events, each with its place in `here`."""
        return self._broken(here, self.tables.open[here.words & STATE], INCOMPLETE, Flag.MATCHED)

    def _broken(self, here: Moments, news: Ints, reason: int, sure: Flag) -> Iterator[tuple[Ints, TraceColumns]]:
        numbers, state = here.words >> NUMBER, here.words & STATE
        usual = {"codes": here.codes, "numbers": numbers, "start": here.start, "end": here.when, "event": here.event}
        for at in range(self.constraints):
            of = np.flatnonzero(news >> at & 1)
            self.counts.violated += len(of)
            mine = {name: column[of] for name, column in usual.items()}
            yield of, TraceColumns.of(len(of), kinds=VIOLATE, reasons=reason, constraints=at, **mine)
        flags = self.tables.flags[state]
        given = (flags & Flag.QUIET != 0) & (flags & Flag.MATCHED != 0) & self.trusted
        waits = (here.words & EXPECTED != 0) & (self.tables.dead[state] == 0) & (flags & sure == 0) & ~given
        of = np.flatnonzero(waits)
        self.counts.unconfirmed += len(of)
        mine = {name: column[of] for name, column in usual.items()}
        yield of, TraceColumns.of(len(of), kinds=UNCONFIRM, reasons=reason, **mine)

    def in_turn(self, told: list[tuple[Ints, TraceColumns]]) -> None:
        """Put rows of several kinds into the order of the records that they come from."""
        told = [(of, each) for of, each in told if len(of)]
        if not told:
            return
        whole = joined([each for _, each in told])
        if len(told) > 1:
            whole = whole.pick(np.argsort(np.concatenate([of for of, _ in told]), kind="stable"))
        self.pieces.append(whole)

    def batches(self) -> Iterator[TraceColumns]:
        """All rows, in runs of one kind; what is told of one time stands together by kind."""
        if not self.pieces:
            return
        whole, self.pieces = joined(self.pieces), []
        if (whole.kinds != whole.kinds[0]).any():
            times = np.cumsum(np.diff(whole.end, prepend=whole.end[:1]) != 0)
            whole = whole.pick(np.lexsort((whole.kinds, times)))
        cuts = np.flatnonzero(np.diff(whole.kinds)) + 1
        for low, high in zip([0, *cuts.tolist()], [*cuts.tolist(), len(whole)], strict=True):
            yield whole if not len(cuts) else whole.pick(np.arange(low, high))
