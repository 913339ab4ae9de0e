"""A detector: push events in, get changes out; its state is the events it still needs and nothing else.

It accepts items in any order and corrects itself by signed changes. With `ordered=True` the input is promised in order
of `end`: late events are counted and set aside, and what lies behind the window is forgotten. Otherwise `late` says by
how much an event may come too late, and `promise` that no more events of a type end at or before a time; both let it
forget. Answers that depend on events of the types in `hold` wait until nothing that is promised can change them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tocsin.encode.content import content_hash, row_hash
from tocsin.encode.row import OneRow
from tocsin.engine import runtime as rt
from tocsin.engine import snapshot as saved
from tocsin.engine.branch import NOBODY, Answers, Branch
from tocsin.engine.changes import Changes, Members
from tocsin.engine.debt import Debt, debts
from tocsin.engine.ledger import Ledger
from tocsin.engine.payload import Payload, View, distinct
from tocsin.engine.shown import shown
from tocsin.engine.snapshot import Part
from tocsin.errors import InputError
from tocsin.events import BEGINNING, END_OF_TIME
from tocsin.functions import Function, registered
from tocsin.items import Ints, Items, Strings, clock_before
from tocsin.plan.block import Plan

PURGED = ("purged_a1", "purged_a2", "purged_p3", "purged_neg", "purged_old")


@dataclass(slots=True)
class Counters:
    """What every detector counts."""

    seen: int = 0
    relevant: int = 0
    late: int = 0
    duplicates: int = 0
    matches: int = 0
    retracted: int = 0
    waiting: int = 0
    live: int = 0
    most_live: int = 0  # as far as was looked: whenever events are dropped, and when counters are read
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

    @property
    def insertions(self) -> int:
        """Matches that were announced."""
        return self.matches

    @property
    def deletions(self) -> int:
        """Matches that were withdrawn."""
        return self.retracted


class Detector:
    """One query at work."""

    def __init__(
        self,
        plan: Plan,
        types: tuple[str, ...],
        strings: Strings,
        *,
        jit: bool = True,
        ordered: bool = True,
        late: int | None = None,
        hold: Collection[str] = (),
        immediate: bool = False,
        functions: Mapping[str, Function] | None = None,
    ) -> None:
        self.plan, self.types, self.strings, self.jit, self.ordered = plan, types, strings, jit, ordered
        self.slack = 0 if ordered else rt.UNLIMITED if late is None else late
        self.hold, self.immediate, self._final = frozenset(hold), immediate, False
        self.promises: dict[str, int] = {}
        self.functions = registered() if functions is None else functions
        self.payload = Payload(ordered=ordered)
        self.next = 0  # the number of the next event
        self.clock = BEGINNING
        self.ended = False
        self.withdrawn = 0  # the number of the next event when an event was last withdrawn
        self.by_type = True  # forget by the guarantees of each type; not where held types may change on the way
        self.eids: bool | None = None
        self._seen = self._matches = self._retracted = 0
        self.branches = [Branch(self, block) for block in plan.alternatives]
        self.ledger = Ledger.of(plan)
        self._nothing = _nothing(plan, self.functions)
        self._silence: list[Answers | None] = [None] * len(self.branches)
        self._lender: OneRow | None = None  # where the last single event lay
        self._short = False  # whether those can take the short way
        self._twin: OneRow | None = None  # the same with computed eids, where they are needed
        self.reads = tuple(sorted({attr for branch in self.branches for attr in branch.reads}))
        self.rehold(self.hold)

    # --- the one verb ---------------------------------------------------------------------------------------------

    def push(self, items: Items) -> Changes:
        """Take a batch in arrival order; answer with the changes it brings."""
        self._open(items)
        first, before, count = self.next, self.clock, len(items)
        self.next = first + count
        self._seen += count
        given = self._ranked(items, first) if self.eids and items.eid_high is None else items
        raw, accepted, late, clock = [], 0, 0, before
        for branch in self.branches:
            raw.append(branch.push(given, first))
            accepted, late, clock = max(accepted, branch.accepted), late + branch.late, max(clock, branch.clock)
        self.clock = clock if raw else max(clock, int(items.end.max(initial=BEGINNING)))
        if accepted:
            self._keep(items, first, accepted)
        if items.signs is not None and (items.signs < 0).any():
            self.withdrawn = self.next
        changes = self._changes(raw)
        if late:
            changes = replace(changes, late=self._late_rows(items, before))
        self._forget()
        return changes

    def push_one(self, one: OneRow) -> Changes | None:
        """The same for one event, by the shortest way; None if no answer changes."""
        if one is not self._lender:
            self._open(one)
            self._lender, self._short = one, all(branch.can_borrow(one) for branch in self.branches)
            self._twin = one.twin() if self.eids and one.eid_high is None else None
        late = one.time < self.clock
        if not self._short or self.ended or one.time < self.clock - self.slack:
            return self.push(one)
        number = self.next
        self.next = number + 1
        self._seen += 1
        accepted, raw = 0, []
        given = one if self._twin is None else self._ranked_one(one, self._twin, number)
        for branch in self.branches:
            raw.append(branch.push_one(given, number))
            accepted += branch.accepted
        if not late:
            self.clock = one.time
        if accepted:
            self.payload.add_row(number, one.time, one.row, one.source)
        changes = None if raw == self._silence else self._changes(raw)
        if not number & 15:
            self._forget()
        return changes

    def advance(self, time: int) -> Changes:
        """Let time pass without an event: none will end before it. END_OF_TIME ends the stream and settles all."""
        self.ended = self.ended or time >= END_OF_TIME
        self.clock = max(self.clock, time)
        return self.promise(None, END_OF_TIME if self.ended else time - 1)

    def tick(self, clock: int) -> Changes:
        """The clock of the stream stands here, though events that end before it may still come."""
        self.clock = max(self.clock, clock)
        return self._asked_again()

    def promise(self, type: str | None, time: int) -> Changes:
        """Every later event of a type (None: of all) ends after `time`."""
        for each in self.types if type is None else (type,):
            self.promises[each] = max(self.promises.get(each, BEGINNING), time)
        return self._asked_again()

    def know(self, clock: int, promises: Mapping[str, int], *, ended: bool) -> Changes:
        """Take over what another detector knows of the time and of what was promised."""
        self.clock, self.promises, self.ended = max(self.clock, clock), dict(promises), ended
        return self._asked_again()

    def _asked_again(self) -> Changes:
        """What is answered now that more is known, though no event came."""
        changes = self._changes([branch.advance(self.clock, self.ended) for branch in self.branches])
        self._forget(pushed=False)
        return changes

    # --- what may still come ----------------------------------------------------------------------------------------

    @cached_property
    def holds(self) -> bool:
        """Whether answers wait for guarantees."""
        return not self.ordered and bool(self.hold)

    @property
    def final(self) -> bool:
        """Whether what was answered is never taken back, while promises are kept."""
        return self._final and not self.ordered

    def rehold(self, hold: Collection[str]) -> None:
        """Hold the answers that depend on other types; a promise, even an empty one, puts it into effect."""
        self.hold = frozenset(hold)
        self._final = bool(self.hold) and self._my_types() <= self.hold
        self.by_type = self.by_type and not self.next

    def released(self, type: str) -> tuple[int, int]:
        """What answers may rely on about a type: all to come end after a time, or after the clock less a lag."""
        if self.ended:
            return rt.FAR, 1
        promised = self.promises.get(type, BEGINNING)
        if type in self.hold:
            return promised, min(self.slack + 1, rt.UNLIMITED)
        return (rt.FAR if self.immediate else promised), 1

    def open_from(self, types: Iterable[str], clock: int) -> int:
        """No event of these types will end before this."""
        behind = clock - self.slack
        if self.ordered or not self.promises:
            return behind
        return max(behind, min((self.promises.get(type, BEGINNING) for type in types), default=BEGINNING) + 1)

    def guaranteed(self, type: str, clock: int) -> int:
        """Every event of a type that is still to come ends after this."""
        promised = self.promises.get(type, BEGINNING)
        if self.ended or promised >= END_OF_TIME:
            return rt.BIGGEST
        return max(promised, clock - self.slack - 1 if self.slack < rt.UNLIMITED else BEGINNING)

    def _open(self, items: Items) -> None:
        if self.ended:
            raise InputError("the stream has ended", hint="start a new detector, or do not advance to the end of time")
        if self.eids is None:
            self.eids = items.eid_high is not None or any(branch.needs_order for branch in self.branches)

    @property
    def frontier(self) -> int:
        """No later change is of a match that ends at or before this."""
        if self.ended:
            return END_OF_TIME
        passed = min(
            min(self.open_from(branch.program.types, self.clock), branch.first_waiting) - 1 for branch in self.branches
        )
        if not (self.ordered or self.final):  # an event may still correct a match that ended a window before it
            passed = BEGINNING if self.plan.within is None else max(BEGINNING, passed - self.plan.within)
        if not any(variable.hidden for variable in self.plan.variables):
            return passed
        # a hidden event may still come for visible ones that lie up to a window back
        return BEGINNING if self.plan.within is None else passed - self.plan.within

    @property
    def counters(self) -> Counters:
        """What was seen, and how many events are kept."""
        total = self.count()
        total.live = sum(branch.live for branch in self.branches)
        total.most_live = max(total.most_live, total.live)
        return total

    def count(self) -> Counters:
        """The same without looking at what is kept."""
        total = Counters(self._seen, matches=self._matches, retracted=self._retracted)
        for branch in self.branches:
            total.relevant = max(total.relevant, branch.count(rt.RELEVANT))
            total.late = max(total.late, branch.count(rt.LATE))
            total.duplicates = max(total.duplicates, branch.count(rt.DUPLICATES))
            total.waiting += branch.waiting
            total.most_live += branch.purger.peak
            total.late_positive = max(total.late_positive, branch.count(rt.LATE_POSITIVE))
            total.late_negative = max(total.late_negative, branch.count(rt.LATE_NEGATIVE))
            total.held += branch.count(rt.HELD)
            total.released += branch.count(rt.RELEASED)
            total.held_pruned += branch.count(rt.PRUNED)
            for reason, dropped in zip(PURGED, branch.purger.dropped.tolist(), strict=True):
                setattr(total, reason, getattr(total, reason) + dropped)
        return total

    @property
    def late_refuting(self) -> int:
        """How many events came late that answers are judged by, over all branches."""
        return sum(branch.count(rt.LATE_NEGATIVE) for branch in self.branches)

    @property
    def compiled(self) -> bool:
        """Whether every part of the query runs as machine code."""
        return all(branch.is_compiled for branch in self.branches)

    def live_texts(self) -> set[int]:
        """Codes of texts that the state still uses."""
        return {code for branch in self.branches for code in branch.live_texts()}

    # --- from event numbers to changes -----------------------------------------------------------------------------

    def _changes(self, raw: list[Answers | None]) -> Changes:
        """What the branches say, together."""
        found = [(branch, *answers) for branch, answers in zip(self.branches, raw, strict=True) if answers is not None]
        if not found:
            return self._nothing
        asked = [branch.mentioned(*answers) for branch, *answers in found] if self.payload.has_singles else []
        view = self.payload.view([numbers for each in asked for numbers in each])
        changes = _joined([self._bound(view, *each) for each in found])
        if self.ledger is not None:
            changes = self.ledger.settle(changes)
        settled = (self.ordered or self.final) and not self.withdrawn  # then nothing is ever taken back
        gained = len(changes) if settled else int(np.count_nonzero(changes.op > 0))
        self._matches += gained
        self._retracted += len(changes) - gained
        return changes

    def _bound(self, view: View, branch: Branch, columns: Ints, members: Ints) -> Changes:
        """The columns of a kernel as one column per variable of the plan."""
        count = columns.shape[1]
        nobody = NOBODY if branch.is_whole else np.full(count, -1, np.int64)
        fixed = [nobody if at is None else columns[at] for at in branch.order]
        for at, alternatives in branch.unions:
            types = view.types(columns[at])
            for code, index in alternatives:
                fixed[index] = np.where(types == code, columns[at], -1)
        repeated = {}
        for index in self._nothing.repeated:
            repeated[index] = Members(np.zeros(count + 1, np.int64), NOBODY)
        for index, at in branch.repeated.items():
            repeated[index] = _ragged(columns[at], columns[at + 1], members)
        return Changes(self.plan, columns[0].astype(np.int8), columns[1], fixed, repeated, view, self.functions)

    # --- housekeeping ---------------------------------------------------------------------------------------------

    def _keep(self, items: Items, first: int, accepted: int) -> None:
        """Keep what an answer may show."""
        if isinstance(items, OneRow):
            self.payload.add_row(first, items.time, items.row, items.source)
        else:
            self.payload.add(first, items, self._wanted(items, accepted), self.clock)

    def _wanted(self, items: Items, accepted: int) -> npt.NDArray[np.bool_] | None:
        """Rows that may be shown later, or None for all: then the batch is kept as it is."""
        if 10 * accepted >= len(items):
            return None
        known = np.array([type in branch_types for type in self.types for branch_types in [self._my_types()]] + [False])
        return known[items.types]

    @cached_property
    def all_types(self) -> tuple[str, ...]:
        """The types that any branch takes."""
        return tuple(sorted(self._my_types()))

    def _my_types(self) -> set[str]:
        return {type for branch in self.branches for type in branch.program.types}

    def _ranked(self, items: Items, first: int) -> Items:
        """Without eids the canonical order of equal times is that of the contents; equal contents are interchangeable.

        Only events that may be members of a repetition are looked at, and in ordered input only ties among them.
        """
        types = {type for branch in self.branches for type in branch.repeated_types}
        rows = np.flatnonzero(np.array([type in types for type in self.types] + [False])[items.types])
        if self.ordered:
            rows = rows[_tied(items.end[rows], [items.columns[attr].values[rows] for attr in self._repeated_key])]
        high = np.zeros(len(items), np.int64)
        high[rows] = content_hash(items.payload.take(pa.array(rows))).view(np.int64)
        numbers = np.arange(first, first + len(items), dtype=np.int64)
        return Items(items.types, items.start, items.end, high, numbers, items.columns, items.payload, items.signs)

    def _ranked_one(self, one: OneRow, twin: OneRow, number: int) -> OneRow:
        """The same for one event."""
        assert twin.eid_high is not None and twin.eid_low is not None
        hashed = one.types[0] in self._repeated_codes
        twin.eid_high[0] = row_hash(one.source.content(one.row)) if hashed else 0
        twin.eid_low[0], twin.nulls = number, one.nulls
        return twin

    @cached_property
    def _repeated_codes(self) -> frozenset[int]:
        types = {type for branch in self.branches for type in branch.repeated_types}
        return frozenset(code for code, type in enumerate(self.types) if type in types)

    @cached_property
    def _repeated_key(self) -> tuple[str, ...]:
        """The attributes that keep repeated events apart, if they are the same for all repetitions."""
        keys = dict(self.plan.key)
        found = {keys.get(id, ()) for branch in self.branches for id in branch.repeated_ids}
        return found.pop() if len(found) == 1 else ()

    def _late_rows(self, items: Items, before: int) -> Ints:
        first_open = clock_before(before, items.end) - self.slack
        mine = np.isin(items.types, [self.types.index(type) for type in self._my_types() if type in self.types])
        return np.flatnonzero((items.end < first_open) & mine)

    def tidy(self) -> None:
        """Drop now what no answer can need any more; otherwise that waits until there is enough of it."""
        for branch in self.branches:
            branch.tidy(now=True)
        self._trim()

    def _trim(self) -> None:
        """Keep the rows of stored events only, where there are many others."""
        if self.payload.count > 2 * sum(branch.purger.left for branch in self.branches):
            numbers = [branch.live_numbers() for branch in self.branches]
            self.payload.keep(distinct(numbers))

    def _forget(self, *, pushed: bool = True) -> None:
        if not self.ordered and sum(branch.tidy(pushed=pushed) for branch in self.branches):
            self._trim()
        horizons = [branch.horizon for branch in self.branches]
        self.payload.tidy(min(horizons) if horizons else BEGINNING)
        if self.ledger is not None and horizons and min(horizons) > BEGINNING:
            self.ledger.forget(min(self.open_from(branch.program.types, self.clock) for branch in self.branches))

    # --- state ----------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, list[str]]:
        """What is stored, as people read it: the eids at each variable, held answers, and what is guaranteed."""
        self.tidy()
        return shown(self)

    def debts(self) -> list[Debt]:
        """The answers that wait, each with the promises that it still needs."""
        return debts(self)

    def parts(self, changed_since: int = 0) -> list[Part]:
        """The state as parts by key range and time frame: those that changed since a version, and the summary."""
        return saved.save(self, changed_since)

    def restore(self, parts: Iterable[Part]) -> None:
        """Take up the state that `parts` describes; the detector must be new."""
        saved.load(self, list(parts))


def compile_plan(
    plan: Plan,
    types: tuple[str, ...],
    strings: Strings,
    *,
    jit: bool = True,
    ordered: bool = True,
    late: int | None = None,
    hold: Collection[str] = (),
    immediate: bool = False,
    functions: Mapping[str, Function] | None = None,
) -> Detector:
    """A new detector for a bound plan. `types` and `strings` are those of the encoder that will feed it."""
    return Detector(
        plan, types, strings, jit=jit, ordered=ordered, late=late, hold=hold, immediate=immediate, functions=functions
    )


def _tied(end: Ints, keys: list[npt.NDArray[Any]]) -> npt.NDArray[np.bool_]:
    """Which events in order share time and keys with another one, or may with one of the batches around."""
    tied = (end == end[0]) | (end == end[-1]) if len(end) else np.zeros(0, np.bool_)
    for shift in range(1, len(end)):
        same = end[shift:] == end[:-shift]
        if not same.any():
            break
        for key in keys:
            same &= key[shift:] == key[:-shift]
        tied[shift:] |= same
        tied[:-shift] |= same
    return tied


def _ragged(first: Ints, counts: Ints, members: Ints) -> Members:
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    index = np.arange(offsets[-1]) - np.repeat(offsets[:-1], counts) + np.repeat(first, counts)
    return Members(offsets, members[index.astype(np.int64)])


def _nothing(plan: Plan, functions: Mapping[str, Function]) -> Changes:
    """No changes; shared, so nobody may write to it."""
    empty = np.zeros(0, np.int64)
    members = Members(np.zeros(1, np.int64), empty)
    repeated = {index: members for index, variable in enumerate(plan.variables) if variable.repeated}
    fixed = [empty for _ in plan.variables]
    return Changes(plan, empty.astype(np.int8), empty, fixed, repeated, View([]), functions)


def _joined(pieces: list[Changes]) -> Changes:
    """The changes of several branches, one after the other."""
    first = pieces[0]
    if len(pieces) == 1:
        return first
    fixed = [np.concatenate([piece.fixed[index] for piece in pieces]) for index in range(len(first.fixed))]
    repeated = {}
    for index in first.repeated:
        counts = np.concatenate([np.diff(piece.repeated[index].offsets) for piece in pieces])
        events = np.concatenate([piece.repeated[index].events for piece in pieces])
        repeated[index] = Members(np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]), events)
    op = np.concatenate([piece.op for piece in pieces])
    known = np.concatenate([piece.known_at for piece in pieces])
    return Changes(first.plan, op, known, fixed, repeated, first.payload, first.functions)
