"""A detector: push items in, get changes out; its state is the events it still needs and nothing else.

It accepts items in any order and corrects itself by signed changes; items in order are its fast path. What may be
forgotten, and which answers are certain, follows from the guarantees among the items.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tocsin.codec import Part
from tocsin.encode.content import content_hash, row_hash
from tocsin.encode.merge import payload_at, runs
from tocsin.encode.row import LentRow
from tocsin.engine import runtime as rt
from tocsin.engine import snapshot as saved
from tocsin.engine import texts
from tocsin.engine.branch import NOBODY, Answers, Branch, reads_eids
from tocsin.engine.changes import QUIET, ChangeBatch, Changes, Members, no_changes, one_batch
from tocsin.engine.kinds import MATCH, TIMEOUT
from tocsin.engine.ledger import Ledger
from tocsin.engine.number_set import distinct
from tocsin.engine.operator import Counters, Operator
from tocsin.engine.payload import Payload, View
from tocsin.engine.stream_time import StreamTime
from tocsin.engine.too_late import earliest
from tocsin.errors import FunctionError, InputError
from tocsin.events import BEGINNING, END_OF_TIME
from tocsin.functions import Function, registered
from tocsin.items import NO_ROWS, Bools, Ints, ItemKind, Items, Strings, is_sorted
from tocsin.plan.block import Plan
from tocsin.plan.facts import corrected

PURGED = ("purged_a1", "purged_a2", "purged_p3", "purged_neg", "purged_old")


class Detector:
    """One query at work: the operator that all others stand around.

    ordered    items are promised in order of `end`: late events are counted and set aside, and what lies behind the
               window is forgotten
    late       otherwise, by how many ticks an event may come behind the clock; None: nobody knows
    hold       answers that depend on events of these types wait until nothing that is guaranteed can change them
    immediate  an absence at the end of a pattern is answered at once, and corrected
    by_type    forget by the guarantees of each type, and not only of all together
    eager      forget after every push, and not only when it is worth the time
    soon       kernels are compiled by another process, and their plain bodies answer until then
    """

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
        by_type: bool = True,
        eager: bool = False,
        soon: bool = False,
    ) -> None:
        self.plan, self.types, self.strings, self.jit, self.ordered = plan, types, strings, jit, ordered
        self.soon = soon
        slack = 0 if ordered else rt.UNLIMITED if late is None else late
        self.time = StreamTime(types, ordered, slack, frozenset(hold), immediate)
        self.by_type, self.eager = by_type, eager
        self.functions = registered() if functions is None else functions
        self.payload = Payload(ordered=ordered)
        self.next = 0  # the number of the next event
        self.withdrawn = 0  # the number of the next event when an event was last withdrawn
        self.eids: bool | None = None
        self.begins = self.gaps = 0
        self.seen = self.matches = self.retracted = 0
        self.branches = [Branch(self, block) for block in plan.alternatives]
        self.time.mine = self.all_types
        self.ledger = Ledger.of(plan)
        self._failure: FunctionError | None = None  # of a user function: then the state is not to be used any more
        self._nothing = no_changes(plan, self.functions)
        self._silence: list[Answers | None] = [None] * len(self.branches)
        self._merges = ordered and len(self.branches) > 1
        self._lender: LentRow | None = None  # where the last single event lay
        self._short = False  # whether those can take the short way
        self._twin: LentRow | None = None  # the same with computed eids, where they are needed
        self.reads = tuple(sorted({attr for branch in self.branches for attr in branch.reads}))

    # --- the one verb ---------------------------------------------------------------------------------------------

    def push(self, items: Items) -> Changes:
        """Take items in order of arrival; answer with the changes that they bring."""
        if self._failure is not None:
            raise self._failure
        try:
            return self._push(items)
        except Exception as problem:
            self._fail(problem)
            raise

    def _fail(self, problem: Exception) -> None:
        """Where a user function has ended a push, what is stored is half done: say which, and answer no more."""
        if isinstance(problem, FunctionError):
            self._failure = problem
            return
        for name, args in filter(None, (branch.asked() for branch in self.branches)):
            self._failure = self.functions[name].failed(args, problem)
            raise self._failure from problem

    def _push(self, items: Items) -> Changes:
        if items.single:
            return self._push_one(items)  # type: ignore[arg-type]  # `single` says that it is a LentRow
        items.check()
        if items.kinds is None:
            return self._said(self._push_rows(items))
        said = Changes()
        for are_rows, run in runs(items):
            said.add(self._said(self._push_rows(run) if are_rows else self._hear(run)))
        return said

    def _said(self, batches: list[ChangeBatch]) -> Changes:
        return Changes([batch for batch in batches if len(batch.op)], self.frontier)

    def _push_rows(self, items: Items) -> list[ChangeBatch]:
        """Feed events and withdrawals."""
        time = self.time
        if time.ended or self.eids is None:
            self._open(items)
        first, count = self.next, len(items.types)
        self.next = first + count
        self.seen += count
        given = self._ranked(items, first) if self.eids and items.eid_high is None else items
        raw, accepted, clock = [], 0, time.clock
        for branch in self.branches:
            raw.append(branch.push(given, first))
            accepted = max(accepted, branch.accepted)
            clock = max(clock, branch.clock)
        time.clock = clock if raw else max(clock, int(items.end.max(initial=BEGINNING)))
        if accepted:
            self._keep(items, first, accepted)
        if items.kinds is not None and items.kinds.any():
            self.withdrawn = self.next
        changes = [] if raw == self._silence else self._changes(raw)
        if self.eager or first >> 4 != self.next >> 4:  # not after each of many small pushes
            self._forget()
        return changes

    def _push_one(self, one: LentRow) -> Changes:
        """Feed one event that lies where the last one lay, by the shortest way."""
        if one is not self._lender:
            self._open(one)
            self._lender, self._short = one, all(branch.can_borrow(one) for branch in self.branches)
            self._twin = one.twin() if self.eids and one.eid_high is None else None
        time = self.time
        late = one.time < time.clock
        if not self._short or time.ended or (late and one.time < earliest(time.clock, time.slack)):
            return self._said(self._push_rows(one))
        number = self.next
        self.next = number + 1
        self.seen += 1
        accepted, raw = 0, []
        given = one if self._twin is None else self._ranked_one(one, self._twin, number)
        for branch in self.branches:
            raw.append(branch.push_one(given, number))
            accepted += branch.accepted
        if not late:
            time.clock = one.time
        if accepted:
            self.payload.add_row(number, one.time, one.row, one.source)
        changes = QUIET if raw == self._silence else self._said(self._changes(raw))
        if not number & 15:
            self._forget()
        return changes

    def _hear(self, items: Items) -> list[ChangeBatch]:
        """Take in what is said of time; answer with what is certain now, though no event came."""
        assert items.kinds is not None
        self.begins += int(np.count_nonzero(items.kinds == ItemKind.BEGIN))
        self.gaps += int(np.count_nonzero(items.kinds == ItemKind.GAP))
        self.time.hear(items)
        changes = self._changes([branch.advance(self.time.clock, self.time.ended) for branch in self.branches])
        self._forget(pushed=False)
        return changes

    def _open(self, items: Items) -> None:
        if self.time.ended:
            raise InputError("the stream has ended", hint="start a new detector, or do not push the end before")
        if self.eids is None:
            self.eids = reads_eids(self.branches, items)

    # --- what others ask ------------------------------------------------------------------------------------------

    @property
    def inner(self) -> tuple[Operator, ...]:
        """A detector works on no other operator."""
        return ()

    @property
    def detectors(self) -> tuple[Detector, ...]:
        return (self,)

    @property
    def frontier(self) -> int:
        """No later change is of a match that ends at or before this."""
        time = self.time
        if time.ended:
            return END_OF_TIME
        if self._prompt:
            return time.clock - 1
        passed = min(
            min(time.open_from(branch.program.types, time.clock), branch.first_waiting) - 1
            for branch in self.branches
            if branch.block.missing is None
        )
        within = self.plan.within
        if not (self.ordered or time.final):  # an event may still correct a match that ended a window before it
            behind = corrected(self.plan)
            passed = BEGINNING if behind is None else max(BEGINNING, passed - behind)
        if not self._hides:
            return passed
        # a hidden event may still come for visible ones that lie up to a window back
        return BEGINNING if within is None else passed - within

    @cached_property
    def _prompt(self) -> bool:
        """Whether every match is given as soon as its last event comes."""
        found = [branch for branch in self.branches if branch.block.missing is None]
        return self.ordered and not self._hides and not any(branch.program.waits for branch in found)

    @cached_property
    def _hides(self) -> bool:
        return any(variable.hidden and not variable.implied for variable in self.plan.variables)

    @property
    def counters(self) -> Counters:
        """What was seen, and how many events are kept."""
        total = Counters(self.seen, matches=self.matches, retracted=self.retracted)
        total.begins, total.gaps = self.begins, self.gaps
        total.look = lambda: sum(branch.live for branch in self.branches)
        for branch in self.branches:
            total.relevant = max(total.relevant, branch.count(rt.RELEVANT))
            total.late = max(total.late, branch.count(rt.LATE))
            total.duplicates = max(total.duplicates, branch.count(rt.DUPLICATES))
            total.waiting += branch.waiting
            total.peak += branch.purger.peak
            total.late_positive = max(total.late_positive, branch.count(rt.LATE_POSITIVE))
            total.late_negative = max(total.late_negative, branch.count(rt.LATE_NEGATIVE))
            total.held += branch.count(rt.HELD)
            total.released += branch.count(rt.RELEASED)
            total.held_pruned += branch.count(rt.PRUNED)
            for reason, dropped in zip(PURGED, branch.purger.dropped.tolist(), strict=True):
                setattr(total, reason, getattr(total, reason) + dropped)
        return total

    @property
    def refuted(self) -> tuple[int, int]:
        """How many events came late that answers are judged by, and how many held answers were refuted."""
        late = sum(branch.count(rt.LATE_NEGATIVE) for branch in self.branches)
        return late, sum(branch.count(rt.PRUNED) for branch in self.branches)

    @property
    def compiled(self) -> bool:
        """Whether every part of the query runs as machine code."""
        return all(branch.is_compiled for branch in self.branches)

    @property
    def texts_in_use(self) -> Ints:
        """Codes of texts that the state still uses."""
        return texts.joined(texts.of_branch(branch) for branch in self.branches)

    # --- from event numbers to changes -----------------------------------------------------------------------------

    def _changes(self, raw: list[Answers | None]) -> list[ChangeBatch]:
        """What the branches say: matches together, and for each step the beginnings that it did not extend."""
        found = [(branch, answers) for branch, answers in zip(self.branches, raw, strict=True) if answers is not None]
        if not found:
            return []
        asked: list[Ints] = []
        if self.payload.has_singles:
            asked = [numbers for branch, answers in found for numbers in branch.mentioned(*answers)]
        view = self.payload.view(asked)
        by_step: dict[str | None, list[ChangeBatch]] = {}
        for branch, answers in found:
            by_step.setdefault(branch.block.missing, []).append(self._bound(view, branch, *answers))
        return [self._together(pieces) for pieces in by_step.values()]

    def _together(self, pieces: list[ChangeBatch]) -> ChangeBatch:
        """What several branches say of one kind, each visible binding once."""
        changes = one_batch(pieces)
        if self.ledger is not None:
            changes = self.ledger.settle(changes)
        if self._merges and not is_sorted(changes.known_at):  # as one event after another would show them
            changes = changes.pick(np.argsort(changes.known_at, kind="stable"))
        if not self.ordered:
            changes.known = {type: self.time.guaranteed(type, self.time.clock) for type in self.all_types}
        settled = (self.ordered or self.time.final) and not self.withdrawn  # then nothing is ever taken back
        if changes.kind == MATCH:
            gained = len(changes) if settled else int(np.count_nonzero(changes.op > 0))
            self.matches += gained
            self.retracted += len(changes) - gained
        return changes

    def _bound(self, view: View, branch: Branch, columns: Ints, members: Ints) -> ChangeBatch:
        """The columns of a kernel as one column per variable of the plan."""
        count = columns.shape[1]
        if branch.is_whole:
            fixed = [columns[at] for at in branch.order]
        else:
            nobody = np.full(count, -1, np.int64)
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
        step = branch.block.missing
        kind = MATCH if step is None else TIMEOUT
        ops = columns[0].astype(np.int8)
        return ChangeBatch(self.plan, ops, columns[1], fixed, repeated, view, self.functions, kind, step=step)

    # --- housekeeping ---------------------------------------------------------------------------------------------

    def _keep(self, items: Items, first: int, accepted: int) -> None:
        """Keep what an answer may show."""
        if items.is_row:
            self.payload.add_row(first, items.time, items.row, items.source)  # type: ignore[attr-defined]
        else:
            self.payload.add(first, items, self._wanted(items, accepted), self.time.clock)

    def _wanted(self, items: Items, accepted: int) -> npt.NDArray[np.bool_] | None:
        """Rows that may be shown later, or None for all: then the batch is kept as it is."""
        if 10 * accepted >= len(items):
            return None
        return self.known_types[items.types]

    @cached_property
    def all_types(self) -> tuple[str, ...]:
        """The types that any branch takes."""
        return tuple(sorted({type for branch in self.branches for type in branch.program.types}))

    @cached_property
    def known_types(self) -> Bools:
        """By the code of a type, whether the query reads it; the last two are for EVERY and UNREAD."""
        return np.array([*(self._takes(self.all_types, type) for type in self.types), False, False])

    def _takes(self, wanted: Iterable[str], type: str) -> bool:
        return any(self.plan.schema.takes(each, type) for each in wanted)

    def _ranked(self, items: Items, first: int) -> Items:
        """Without eids the canonical order of equal times is that of the contents; equal contents are interchangeable.

        Only events that may be members of a repetition are looked at, and in ordered input only ties among them.
        """
        types = {type for branch in self.branches for type in branch.repeated_types}
        asked = np.array([self._takes(types, type) for type in self.types] + [False])
        places = _at_the_ends(items.end) if self.ordered else slice(None)
        rows = np.arange(len(items))[places][asked[items.types[places]]]
        if self.ordered and len(rows) > 2:
            rows = rows[_tied(items.end[rows], [items.columns[attr].values[rows] for attr in self._repeated_key])]
        high = np.zeros(len(items), np.int64)
        if len(rows):
            high[rows] = content_hash(payload_at(items, rows)).view(np.int64)
        numbers = np.arange(first, first + len(items), dtype=np.int64)
        return Items(items.types, items.start, items.end, high, numbers, items.columns, NO_ROWS, items.kinds)

    def _ranked_one(self, one: LentRow, twin: LentRow, number: int) -> LentRow:
        """Give one event without an eid its place among equal times: a hash of its content, and its number."""
        assert twin.eid_high is not None and twin.eid_low is not None
        hashed = one.types[0] in self._repeated_codes
        twin.eid_high[0] = row_hash(one.source.content(one.row)) if hashed else 0
        twin.eid_low[0], twin.nulls = number, one.nulls
        return twin

    @cached_property
    def _repeated_codes(self) -> frozenset[int]:
        types = {type for branch in self.branches for type in branch.repeated_types}
        return frozenset(code for code, type in enumerate(self.types) if self._takes(types, type))

    @cached_property
    def _repeated_key(self) -> tuple[str, ...]:
        """The attributes that keep repeated events apart, if they are the same for all repetitions."""
        keys = dict(self.plan.key)
        found = {keys.get(id, ()) for branch in self.branches for id in branch.repeated_ids}
        return found.pop() if len(found) == 1 else ()

    def _trim(self) -> None:
        """Keep the rows of stored events only, where there are many others."""
        if self.payload.count > 2 * sum(branch.purger.left for branch in self.branches):
            numbers = [branch.live_numbers() for branch in self.branches]
            self.payload.keep(distinct(numbers))

    def _forget(self, *, pushed: bool = True) -> None:
        """Drop what no answer can need any more, if there is enough of it to be worth the time, or always (`eager`)."""
        now = self.eager
        if now or not self.ordered:
            swept = sum(branch.tidy(pushed=pushed, now=now) for branch in self.branches)
            if swept or now:
                self._trim()
        horizon = min([branch.horizon for branch in self.branches], default=BEGINNING)
        self.payload.tidy(horizon)
        if self.ledger is not None and horizon > BEGINNING:
            behind = [self.time.open_from(branch.program.types, self.time.clock) for branch in self.branches]
            self.ledger.forget(min(behind))

    # --- state ----------------------------------------------------------------------------------------------------

    def snapshot(self, since: int = 0) -> list[Part]:
        """The state as parts by key range and time frame: those that changed since a version, and the summary."""
        return saved.save(self, since)

    def restore(self, parts: Iterable[Part]) -> None:
        """Take up the state that parts describe; the detector must be new."""
        saved.load(self, list(parts))


def judge_now(detector: Detector, chosen: Sequence[tuple[Bools, Ints] | None]) -> Changes:
    """Judge waiting answers that nothing can refute any more: by branch which of them, and when each was certain."""
    answers = [
        None if which is None else branch.judge_now(*which)
        for branch, which in zip(detector.branches, chosen, strict=True)
    ]
    return detector._said(detector._changes(answers))


def _at_the_ends(end: Ints) -> Ints | slice:
    """Where events in order may share their time with another one: the first and the last, unless two do here."""
    if len(end) < 2 or (end[1:] == end[:-1]).any():
        return slice(None)
    return np.array([0, len(end) - 1])


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
