"""A branch: one alternative of a plan, its kernel and the arrays the kernel works in.

The host's side of a resumable kernel: it lends the arrays, drains the output, makes room where the kernel ran out of
it, and calls again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tocsin.engine import bounds, kernels
from tocsin.engine import runtime as rt
from tocsin.engine.codegen import WITHDRAWN, Program, Shape, generate
from tocsin.engine.derive import derived_column
from tocsin.engine.number_set import distinct
from tocsin.engine.purge import Purger
from tocsin.engine.runtime import CLOCK, DONE, HORIZON, MARKED, MEM_N, NULLS, OUT_N, RELEVANT, WAITING
from tocsin.engine.tiers import FEW_ROWS, Tiers
from tocsin.errors import InputError, LimitError
from tocsin.events import ANY, BEGINNING, END_OF_TIME
from tocsin.items import Bools, Column, Ints, ItemKind, Items
from tocsin.plan.block import Block, Leaf
from tocsin.plan.rewrite import blocks_below
from tocsin.schema import Kind

if TYPE_CHECKING:
    from tocsin.encode.row import OneRow
    from tocsin.engine.detector import Detector

FEW_KEYS = 8192
NOBODY: Ints = np.zeros(0, np.int64)
Marks: TypeAlias = npt.NDArray[np.int8]
NO_MARKS: Marks = np.zeros(1, np.int8)
WHOLE, REAL = np.dtype(np.int64), np.dtype(np.float64)
Answers: TypeAlias = tuple[Ints, Ints]  # the columns of OUT, and the members they refer to
NO_WINDOW = -(1 << 61)  # a window in which nothing fits
MANY_BUFFERS = 1 << 16
MANY_ANSWERS, MOST_ANSWERS = 1 << 14, 1 << 18  # rows of OUT: from so many on they are handed out; it never gets more
APART = 24  # rows by which columns of OUT are longer than a power of two: a cache has few places for equal low bits
CHUNK = 1 << 16  # rows per kernel call: long pushes stay interruptible and memory follows the clock


class Branch:
    """State and kernel of one alternative."""

    def __init__(self, detector: Detector, block: Block) -> None:
        self.detector, self.block = detector, block
        self.library = rt.library(False)
        self._kernel: kernels.Kernel | None = None
        self._tiers: Tiers | None = None  # None: there is one body only
        self._nullable: list[str] = []  # attributes that may be null
        # what the first items will ask for, most likely (`reads_eids`): then it need not be written again
        self.program = self._generate(eids=detector.plan.schema.eid is not None or self.needs_order)
        self.accepted = 0
        self._drained: list[Answers] = []  # on their way out
        self._ready = False
        self._ranked = -1
        self._assign([variable.name for variable in detector.plan.variables])
        self._lender: OneRow | None = None  # whose memory single events lie in
        self._lent: tuple[Any, ...] = ()  # that memory as arguments of the kernel
        self._args: tuple[Any, ...] | None = None  # the same with the state behind it
        self._marked: tuple[Any, ...] = ()  # the same with the marks of what is null
        self._marks: Marks = NO_MARKS
        self._valid: list[tuple[int, Any]] = []  # where those come from: a place in it, and who is not null
        self.purger = Purger(self)

    # --- what the kernel is ---------------------------------------------------------------------------------------

    @property
    def reads(self) -> set[str]:
        """Attributes the encoder must provide."""
        derived = {attr for each in self.program.derived for attr in each.attrs}
        return derived | {attr for attr, _, _ in self.program.columns if not attr.startswith("$")}

    @property
    def needs_order(self) -> bool:
        """Whether ties in time matter: a repetition with members or aggregates in canonical order."""
        return bool(self.repeated_types)

    @property
    def repeated_ids(self) -> set[int]:
        return {leaf.id for leaf in self._repeated()}

    @property
    def repeated_types(self) -> set[str]:
        return {alt.type for leaf in self._repeated() for alt in leaf.alts}

    def _repeated(self) -> Iterator[Leaf]:
        """The leaves that hold sets of events, those of groups included."""
        yield from (leaf for leaf in self.leaves() if leaf.repeat is not None)
        for each in blocks_below(self.block):
            yield from each.gathered

    @property
    def is_compiled(self) -> bool:
        return self.detector.jit and not self.program.plain_only

    @property
    def is_ready(self) -> bool:
        """Whether there is any state: the first event has come."""
        return self._ready

    @property
    def clock(self) -> int:
        return self.words[CLOCK] if self._ready else self.detector.time.clock

    @property
    def horizon(self) -> int:
        """Events that end before this are needed by nobody."""
        return self.words[HORIZON] if self._ready else BEGINNING

    @property
    def first_waiting(self) -> int:
        """The earliest end among waiting answers."""
        waiting = self.waiting_rows()
        return int(waiting[:, 1::2].max(axis=1).min()) if len(waiting) else rt.FAR

    def waiting_rows(self) -> Ints:
        """The (event, end) pairs of waiting answers."""
        return self.bound(self.waiting_answers())

    def waiting_answers(self) -> Ints:
        """Waiting answers as the kernel keeps them: first the heap, then those on its side."""
        if not self._ready or not self.program.waits:
            return np.zeros((0, self.program.head + 2 * len(self.program.nest)), np.int64)
        return np.concatenate([self.PD[: self.T[WAITING]], self.PD[len(self.PD) - self.T[rt.ASIDE] :]])

    def bound(self, answers: Ints) -> Ints:
        """The (event, end) pairs of some of them; what the judge needs stands before these."""
        return answers[:, self.program.head :]

    @property
    def waiting(self) -> int:
        """How many answers wait."""
        return self.count(WAITING) + self.count(rt.ASIDE)

    @property
    def live(self) -> int:
        return int((self.D[:, 2] - self.D[:, 1]).sum()) if self._ready else 0

    def count(self, word: int) -> int:
        return self.words[word] if self._ready else 0

    def _assign(self, names: list[str]) -> None:
        """Which column of OUT belongs to which variable of the plan; the events of a union are told apart by type."""
        self.order: list[int | None] = [None] * len(names)
        self.unions: list[tuple[int, list[tuple[int, int]]]] = []
        for at, leaf in enumerate(self.program.nest, start=2):
            alts = self.block.leaf(leaf).alts
            if len(alts) == 1:
                self.order[names.index(alts[0].var)] = at
            else:
                self.unions.append((at, [(self.detector.types.index(alt.type), names.index(alt.var)) for alt in alts]))
        first = 2 + len(self.program.nest)
        owners = [names.index(self.leaf(leaf).alts[0].var) for leaf in self.program.repeated]
        self.repeated = {index: first + 2 * number for number, index in enumerate(owners)}
        self.is_whole = None not in self.order

    def leaves(self) -> Iterator[Leaf]:
        for each in blocks_below(self.block):
            yield from each.leaves

    def leaf(self, id: int) -> Leaf:
        return next(leaf for leaf in self.leaves() if leaf.id == id)

    def _generate(self, *, eids: bool) -> Program:
        detector = self.detector
        shape = Shape(detector.plan.schema.intervals, eids, detector.time.holds)
        return generate(detector.plan, self.block, shape, detector.functions)

    def _compile(self, program: Program) -> kernels.Kernel:
        detector = self.detector
        if detector.jit and not program.plain_only:
            return kernels.compiled(program, detector.functions)
        return kernels.plain(program, detector.functions, detector.strings)

    @property
    def _is_tiered(self) -> bool:
        """Whether the plain body answers until the other is compiled; not where user functions are compiled in.

        Those can be compiled in this process only, and what is wrong with them is told at once.
        """
        return self.is_compiled and self.detector.soon and not self.program.asked

    def compile_ahead(self, *, eids: bool) -> list[str]:
        """Compile the kernel that input with or without eids needs; the modules that hold it on disk."""
        kernel = self._compile(self._generate(eids=eids))
        module = getattr(getattr(kernel.run, "py_func", None), "__module__", None) or ""
        return [module] if kernel.jit and module.startswith(kernels.PREFIX) else []

    # --- arrays ---------------------------------------------------------------------------------------------------

    def prepare(self) -> kernels.Kernel:
        """Compile and allocate on first use."""
        kernel = self._kernel
        if kernel is None:
            self.program = self._generate(eids=bool(self.detector.eids))
            self._nullable = [name for name in self.program.marks if name != WITHDRAWN]
            if self._is_tiered:
                about = self.detector
                rule = about.plan.title or "the query"
                self._tiers = Tiers(self.program, about.functions, about.strings, rule)
                kernel = self._kernel = self._tiers.plain
            else:
                kernel = self._kernel = self._compile(self.program)
        if not self._ready:
            self.library = rt.library(kernel.jit)
            self._allocate(self.program, roomy=self.is_compiled)
            self._lend(kernel.jit)
            self._lender = None
            self._ready = True
        return kernel

    def _allocate(self, program: Program, *, roomy: bool) -> None:
        places, rows, dense, keys = (16384, 16384, 16384, 1024) if roomy else (64, 64, 2, 8)
        leaves, types = len(program.leaf_ids), self.detector.types
        local = [self._local(program, type) for type in types]
        self.T = self._control(program, local)
        self.words: memoryview = self.T.data  # the same for the host, who reads single words
        self.T[rt.CLOCK] = self.detector.time.clock
        self.T[rt.ORDERED] = int(self.detector.ordered)
        self.T[rt.SLACK] = self.detector.time.slack
        self.T[rt.IMMEDIATE] = int(self.detector.time.immediate and self.block.missing is None)
        self.T[rt.CERTAIN] = int(self.detector.time.final)
        self.T[rt.HORIZON] = BEGINNING
        self.T[rt.TOP] = leaves
        self.T[rt.DENSE] = dense = dense if program.keyed else 0
        self.T[rt.KEYS] = dense + 1
        self.H = np.zeros((places + leaves, program.words), np.int64)
        self.D = np.zeros(((dense + keys) * leaves, 4), np.int32)
        self.N = np.full((dense + keys) * leaves, -rt.FAR, np.int64)
        self.KM = np.zeros((4 * keys if program.keyed else 1, 3), np.int64)
        waiting = max(16, rows // 16) if program.waits else 1
        self.PD = np.zeros((waiting, program.head + 2 * len(program.nest)), np.int64)
        self.OUT = np.empty((program.width, rows + APART), np.int64)
        self.MEM = np.zeros(4 * rows if program.repeated or program.has_tails else 1, np.int64)
        self.LF = np.array(program.floats or (0.0,), np.float64)
        self.RK = np.zeros(1, np.int64)

    def _local(self, program: Program, type: str) -> int:
        """The number of a type in the kernel: its own, that of ANY, or -1 if no leaf takes it."""
        if type not in program.types and not self.detector.plan.schema.takes(ANY, type):
            return -1
        own = type if type in program.types else ANY
        return program.types.index(own) if own in program.types else -1

    def _control(self, program: Program, local: list[int]) -> Ints:
        """The control words: all tables that the kernel looks up lie behind them."""
        lists: list[int] = []
        starts = []
        for leaves in program.leaf_lists:
            starts.append(len(lists))
            lists += [*leaves, -1]
        types_at = rt.PARAMS + len(program.ints)
        leaves_at = types_at + len(local)
        lists_at = leaves_at + len(starts)
        guarantees_at = lists_at + len(lists)
        T = np.full(guarantees_at + 2 * len(program.types), -1, np.int64)
        T[: rt.PINS] = 0
        for base, name in ((rt.LEVELS, "levels"), (rt.TERMINAL, "terminal"), (rt.COVERED, "covered")):
            T[base : base + len(program.leaf_ids)] = program.tables[name]
        code = self.detector.strings.code
        T[rt.PARAMS : types_at] = [code(value) if isinstance(value, str) else value for value in program.ints]
        T[rt.PARAMS] = self.detector.plan.within or 0
        T[rt.EAGER : rt.TRIES] = 1
        T[rt.TRIES : rt.PARAMS] = 0
        T[types_at:leaves_at] = local
        T[leaves_at:lists_at] = [lists_at + start for start in starts]
        T[lists_at:guarantees_at] = lists
        T[guarantees_at::2], T[guarantees_at + 1 :: 2] = self._guarantees(program)
        T[rt.TYPES_AT], T[rt.LEAVES_AT], T[rt.GUARANTEES] = types_at, leaves_at, guarantees_at
        T[rt.TYPES] = len(program.types)
        T[rt.START] = 2 if program.shape.intervals and self.detector.plan.within is not None else 0
        T[rt.SPAN] = program.span or 0
        return T

    def _guarantees(self, program: Program) -> tuple[list[int], list[int]]:
        """For each local type what answers may rely on: what was promised, and how far it lags behind the clock."""
        waits = self.block.missing is not None  # that a step is missing is said when it is certain
        released = [self.detector.time.released(type, waits=waits) for type in program.types]
        return [time for time, _ in released], [lag for _, lag in released]

    def _lend(self, jit: bool | None = None, *, moved: bool = True) -> None:
        """The arrays as the kernel takes them: as they are, or as memoryviews for the plain body.

        `moved`: events may have moved, or gone, so that what is known of their tails is not true any more.
        """
        self._jit = self._jit if jit is None else jit
        tables = (self.H, self.D, self.KM, self.OUT.T, self.MEM, self.PD)
        self.T[rt.H_SIZE : rt.PD_SIZE + 1] = [len(table) for table in tables]
        self.T[rt.WAIT_WIDTH] = self.PD.shape[1]
        if moved:
            self.T[rt.TAILS_FROM] = self.T[rt.TAILS]
        self._args = None
        arrays = (
            self.T,
            self.H,
            self.H.view(np.float64),
            self.D,
            self.N,
            self.KM,
            self.PD,
            self.OUT,
            self.MEM,
            self.LF,
            self.RK,
        )
        flat = self.views(*arrays)
        if not self._jit:
            self.state: Any = (*flat[:-1], self.detector.strings.texts)  # texts are their own rank
        elif bounds.ON:
            self.state = flat
        else:  # one argument costs less than eleven
            self._arrays = flat
            self.state = np.array([each.__array_interface__["data"][0] for each in flat], np.int64)

    def views(self, *arrays: npt.NDArray[Any]) -> tuple[Any, ...]:
        """Flat views of the memory; the plain body takes memoryviews, which give Python's own numbers."""
        flat = tuple(array if array.ndim == 1 else array.reshape(-1) for array in arrays)
        return flat if self._jit else tuple(array.data for array in flat)

    _jit = False
    _one: kernels.Kernel  # for single events

    # --- running --------------------------------------------------------------------------------------------------

    def push(self, items: Items, first: int) -> Answers | None:
        """Feed a batch; its answers, if there are any."""
        kernel, columns = self.prepare(), self._columns(items)
        tiered, judged = self._tiers is not None, kernel.settle is not None or not self.detector.ordered
        if not tiered:
            run, batch = self._run_with(kernel, items, columns)
            self._rank()
        words, count, begin = self.words, len(items.types), 0
        before = words[RELEVANT]
        while begin < count:
            if judged:  # else the kernel does it
                self._set_horizon()
            stop = count if count - begin <= CHUNK else begin + CHUNK
            if tiered:
                self._run_in_tiers(items, columns, first, begin, stop)
            else:
                self._run(run, begin, stop, first, batch)
            if words[WAITING] or words[rt.ASIDE]:
                self._settle(self.prepare())
            if stop < count and withdrawals(items) is None:
                self.tidy()
            begin = stop
        self.accepted = words[RELEVANT] - before
        return self._answers() if words[OUT_N] or self._drained else None

    def _run_in_tiers(self, items: Items, columns: dict[str, Column], first: int, begin: int, stop: int) -> None:
        """Feed rows of a batch to the best body that there is, few at once until that is compiled."""
        tiers, careful = self._tiers, withdrawals(items) is not None or self._has_nulls(columns)
        used: kernels.Kernel | None = None
        while begin < stop:
            kernel = self._kernel if tiers is None else self._choose(tiers, stop - begin, careful=careful)
            assert kernel is not None
            if kernel is not used:
                used = kernel
                run, batch = self._run_with(kernel, items, columns)
                self._rank()
            if kernel.jit:
                self._run(run, begin, stop, first, batch)
                return
            upto, began = min(begin + FEW_ROWS, stop), perf_counter()
            self._run(run, begin, upto, first, batch)
            if tiers is not None:
                tiers.worked(upto - begin, perf_counter() - began)
            begin = upto

    def _choose(self, tiers: Tiers, rows: int, *, careful: bool) -> kernels.Kernel:
        """The body for the next rows; the state is lent to it."""
        kernel = tiers.best(rows, careful=careful or bool(self.words[NULLS]))
        if kernel is not self._kernel:
            self._kernel, self._lender = kernel, None
        if kernel.jit != self._jit:
            self.library, self._ranked = rt.library(kernel.jit), -1
            self._lend(kernel.jit)
        if tiers.is_final:
            self._tiers = None
        return kernel

    def push_one(self, one: OneRow, number: int) -> Answers | None:
        """Feed one event that lies in the memory of the last one."""
        if self._tiers is None:
            return self._push_one(one, number)
        self.prepare()
        tiers, began = self._tiers, perf_counter()
        kernel = self._choose(tiers, 1, careful=bool(one.nulls))
        found = self._push_one(one, number)
        if not kernel.jit:
            tiers.worked(1, perf_counter() - began)
        return found

    def _push_one(self, one: OneRow, number: int) -> Answers | None:
        if self._lender is not one:
            self._borrow(one)
        program, words = self.program, self.words
        if program.ranks:
            self._rank()
        if program.waits:
            self._set_horizon()
        before = words[RELEVANT]
        run, lent = self._one.run, self._lent
        if one.nulls or words[NULLS]:
            run, lent = self._one.careful, self._mark_one()
            status = run(0, 1, number, *lent, self.state)
        else:
            if self._args is None:
                self._args = (*lent, self.state)
            status = run(0, 1, number, *self._args)
        if status != DONE:
            self._run(run, words[rt.ROW], 1, number, lent)
        if words[WAITING] or words[rt.ASIDE]:
            self._settle(self._one)
        self.accepted = words[RELEVANT] - before
        return self._answers() if words[OUT_N] or self._drained else None

    def asked(self) -> tuple[str, list[Any]] | None:
        """The user function that a compiled kernel was asking when it ended with an exception, and the arguments."""
        if not self._ready or not self.words[rt.ASKED]:
            return None
        number = self.words[rt.ASKED] - 1
        call, places = self.program.asked[number], self.program.asked_with[number]
        values = [self.LF[at].item() if is_float else self.words[rt.PARAMS + at] for is_float, at in places]
        return call.name, [
            bool(value) if arg.kind is Kind.BOOL else value for value, arg in zip(values, call.args, strict=True)
        ]

    def advance(self, clock: int, ended: bool) -> Answers | None:
        """Let time pass: waiting answers whose time has come are judged."""
        if not self._ready:  # nothing has come yet; the clock is the detector's
            return None
        kernel = self.prepare()
        now = max(self.words[CLOCK], clock)  # what is promised of all types is time that has passed
        self.words[CLOCK] = max(now, self.detector.time.open_from(self.detector.all_types, now))
        self.T[rt.ENDED] = int(ended)
        self._renew_guarantees()
        self._settle(kernel)
        self._set_horizon()
        return self._answers()

    def _renew_guarantees(self) -> None:
        at = self.words[rt.GUARANTEES]
        stop = at + 2 * len(self.program.types)
        self.T[at:stop:2], self.T[at + 1 : stop : 2] = self._guarantees(self.program)
        self.T[rt.MOVED], self.T[rt.CERTAIN] = 1, int(self.detector.time.final)

    def _answers(self) -> Answers | None:
        """All that was drained."""
        if self.words[OUT_N]:
            self._drain()
        drained, self._drained = self._drained, []
        if len(drained) <= 1:
            return drained[0] if drained else None
        shift = 0
        for columns, members in drained:
            columns[2 + len(self.program.nest) :: 2] += shift
            shift += len(members)
        return np.concatenate([each for each, _ in drained], axis=1), np.concatenate([each for _, each in drained])

    def mentioned(self, columns: Ints, members: Ints) -> list[Ints]:
        """The event numbers in answers."""
        return [*columns[2 : 2 + len(self.program.nest)], members]

    def _run(self, run: Callable[..., int], at: int, end: int, first: int, batch: tuple[Any, ...]) -> None:
        stuck = -1
        while True:
            status = run(at, end, first, *batch, self.state)
            if status == DONE:
                return
            at = self.words[rt.ROW]
            if status == rt.OUT_FULL:
                self._drain()
            elif status == rt.HEAP_FULL:
                self._make_room(grow=stuck == at)
                stuck = at
            else:
                self._sweep_keys()

    def _settle(self, kernel: kernels.Kernel) -> None:
        if kernel.settle is None or not (self.words[WAITING] or self.words[rt.ASIDE]):
            return
        while kernel.settle(self.state) == rt.OUT_FULL:
            self._drain()

    def _drain(self) -> None:
        """Take the output away; if one event alone fills it, make it larger."""
        words, columns = self.words, self.OUT
        count, members, rows = words[OUT_N], words[MEM_N], columns.shape[1]
        if count:
            full = MANY_ANSWERS <= rows <= 2 * count
            mine = columns[:, :count]
            self._drained.append((mine if full else mine.copy(), self.MEM[:members].copy() if members else NOBODY))
            words[OUT_N] = words[MEM_N] = 0
            if full:  # it is theirs now; where there are many answers, the next one is larger
                again = len(self._drained) > 1 and rows < MOST_ANSWERS
                self.OUT = np.empty((len(columns), 2 * rows if again else rows), np.int64)
                self._lend(moved=False)
            return
        self.OUT = np.empty((len(columns), 2 * rows), np.int64)
        self.MEM = np.zeros(2 * len(self.MEM), np.int64)
        half = len(self.PD) - self.words[rt.ASIDE]  # what stands aside stays at the end
        self.PD = np.concatenate([self.PD[:half], np.zeros_like(self.PD), self.PD[half:]])
        self._lend()

    def _set_horizon(self) -> None:
        """Events are needed for a span behind the first tick at which one may still come.

        Of any type of the query: answers of this alternative wait for the clock, which the types of others hold back.
        """
        span, first = self.program.span, self.detector.time.open_from(self.detector.all_types, self.words[CLOCK])
        if first > END_OF_TIME:
            self.words[HORIZON] = first
        elif span is not None:
            self.words[HORIZON] = max(BEGINNING, first - span)

    def prune(self) -> None:
        """Drop held answers that an event has refuted; without this that is found out when they become certain."""
        if self._ready and self.program.holds and self.waiting:
            self.T[rt.ASK] = 1
            self._settle(self.prepare())

    def hold_only(self, which: npt.NDArray[np.bool_]) -> None:
        """Forget all waiting answers but these, in the order of `waiting_rows`.

        After a restart: what is kept of the events need not show that a binding has failed, or was answered, long ago.
        """
        if len(which) and not which.all():
            self._let_wait(self.waiting_answers()[which])

    def judge_now(self, which: npt.NDArray[np.bool_], times: Ints) -> Answers | None:
        """Judge some of the waiting answers, in the order of `waiting_answers`, as if the stream had ended for them.

        times  when each of those was certain: what they show where events come in order
        """
        rows, time, kernel = self.waiting_answers(), self.detector.time, self.prepare()
        mine, others = rows[which], rows[~which]
        mine[:, 0] = times
        clock, before = self.words[CLOCK], (time.clock, time.ended)
        self._let_wait(mine)
        time.clock, time.ended = END_OF_TIME, True
        self.words[CLOCK] = max(END_OF_TIME, time.open_from(self.detector.all_types, END_OF_TIME))
        self.T[rt.ENDED] = 2
        self._renew_guarantees()
        try:
            self._settle(kernel)
        finally:  # a user function may raise: the stream has not ended, and the others wait on
            time.clock, time.ended = before
            self.words[CLOCK], self.T[rt.ENDED] = clock, 0
            self._renew_guarantees()
            self._let_wait(np.concatenate([self.waiting_answers(), others]))
        found = self._answers()
        if found is not None:
            found[0][1] = np.minimum(found[0][1], clock)
        return found

    def _let_wait(self, rows: Ints) -> None:
        """These answers wait, and no others."""
        self.PD[: len(rows)] = rows
        self.T[WAITING], self.T[rt.ASIDE], self.T[rt.FRESH] = 0, 0, len(rows)
        self.library.wait_entry(*self.views(self.T, self.PD))

    def tidy(self, *, now: bool = False, pushed: bool = True) -> bool:
        """Drop events that no answer can need, if enough has come since the last time. True: it was done."""
        if not self._ready or not (now or (not self.detector.ordered and self.purger.is_due(pushed=pushed))):
            return False
        self.purger.sweep(whole=now)
        return True

    # --- room -----------------------------------------------------------------------------------------------------

    def _make_room(self, *, grow: bool) -> None:
        """Move the live events together; into a larger array if they fill more than half."""
        size = len(self.H)
        need = self._compact(self.H, copy=False)
        scanned = min(self.buffers, MANY_BUFFERS)  # each time, so that as many events at least should fit in between
        while grow or 2 * need > size or need + scanned > size:
            size, grow = 2 * size, False
        if size >= 2**31:
            raise LimitError("more than two thousand million events would have to be kept", hint="use WITHIN or a key")
        larger = np.zeros((size, self.program.words), np.int64)
        self._compact(larger, copy=True)
        self.H = larger
        self._lend()

    def _compact(self, target: Ints, *, copy: bool) -> int:
        T, H, D, new = self.views(self.T, self.H, self.D, target)
        leaves = len(self.program.leaf_ids)
        return int(self.library.compact_entry(T, H, self.program.words, D, self.buffers, leaves, new, copy))

    @property
    def buffers(self) -> int:
        return int(self.T[rt.KEYS]) * len(self.program.leaf_ids)

    def _sweep_keys(self) -> None:
        """Recycle the codes of keys without events; enlarge the tables if most keys live."""
        self._make_room(grow=False)
        leaves = len(self.program.leaf_ids)
        self._rehash(len(self.KM))
        used = int(self.T[rt.KEYS_USED])
        room = len(self.D) // leaves - int(self.T[rt.DENSE])
        few = self._jit and room < FEW_KEYS  # small tables would be swept all the time
        if few or 4 * used >= len(self.KM) or 2 * (used + 1) >= room:
            more = room * leaves
            self.D = np.concatenate([self.D, np.zeros((more, 4), np.int32)])
            self.N = np.concatenate([self.N, np.full(more, -rt.FAR, np.int64)])
            self._rehash(2 * len(self.KM))
        self._lend()

    def _rehash(self, size: int) -> None:
        """Carry the keys that have events into a new table."""
        table = np.zeros((size, 3), np.int64)
        alive = np.zeros(int(self.T[rt.KEYS]) + 1, np.int64)
        T, KM, new, D, N, flags = self.views(self.T, self.KM, table, self.D, self.N, alive)
        self.library.sweep_entry(T, KM, new, size, D, N, len(self.program.leaf_ids), flags)
        self.KM = table
        self.T[rt.KM_SIZE] = size

    # --- parts of the state ---------------------------------------------------------------------------------------

    @property
    def stored_bytes(self) -> int:
        """Bytes of stored events and waiting answers; free room and tables for keys and output are not counted."""
        if not self._ready:
            return 0
        return 8 * int(self.T[rt.TOP]) * self.program.words + 8 * self.waiting * self.PD.shape[1]

    def stored_events(self) -> tuple[Ints, Ints]:
        """The numbers and ends of stored events; one that stands at several leaves is there several times."""
        if not self._ready:
            return NOBODY, NOBODY
        places = self._places(self.H, self.D[self.D[:, 2] > self.D[:, 1]])
        return self.H[places, 1], self.H[places, 0]

    def first_ends(self, answers: Ints) -> Ints:
        """The end of the first event of each waiting answer."""
        first: Ints = self.bound(answers)[:, 1::2].min(axis=1)
        return first

    def forget_answers(self, before: int) -> None:
        """Forget the waiting answers whose first event ends before a time."""
        if not self.program.waits or not self.waiting:
            return
        entries = self.waiting_answers()
        stay = self.first_ends(entries) >= before
        if stay.all():
            return
        count = int(self.T[WAITING])
        heap, aside = entries[:count][stay[:count]], entries[count:][stay[count:]]
        self.PD[: len(heap)] = heap[np.argsort(heap[:, 0], kind="stable")]  # what is sorted is a heap
        self.PD[len(self.PD) - len(aside) :] = aside
        self.T[WAITING], self.T[rt.ASIDE] = len(heap), len(aside)

    def forget_events(self, before: int) -> None:
        """Forget the events that end before a time; the others move into an array that is just large enough."""
        if not self._ready:
            return
        horizon = int(self.T[HORIZON])
        self.T[HORIZON] = max(horizon, before)
        size = max(64, 2 * self._compact(self.H, copy=False))
        smaller = np.zeros((size, self.program.words), np.int64)
        self._compact(smaller, copy=True)
        self.H = smaller
        self.T[HORIZON] = horizon
        self._lend()

    def reset(self) -> None:
        """Forget everything but the kernel; all arrays are made anew when the next event comes."""
        self._ready, self._ranked = False, -1
        self._drained, self._args, self.state = [], None, None
        self.H = np.zeros((0, 0), np.int64)  # the largest of the arrays
        self.purger = Purger(self)

    @contextmanager
    def silenced(self) -> Iterator[None]:
        """Store events meanwhile without looking for their answers, because nothing fits into the window.

        Not for ordered input: there an event is stored only if earlier ones fit into its window.
        """
        self.prepare()
        window = int(self.T[rt.PARAMS])
        self.T[rt.PARAMS] = NO_WINDOW
        try:
            yield
        finally:
            self.T[rt.PARAMS] = window

    # --- batches --------------------------------------------------------------------------------------------------

    def _columns(self, items: Items) -> dict[str, Column]:
        """The attributes of a batch, derived ones included."""
        if not self.program.derived:
            return items.columns
        columns = dict(items.columns)
        for derived in self.program.derived:
            columns[derived.name] = derived_column(derived, items, self.detector.strings, self.detector.functions)
        return columns

    def _batch(self, items: Items, columns: dict[str, Column]) -> tuple[Any, ...]:
        """The columns of a batch in the order of the kernel's arguments."""
        program = self.program
        arrays: list[npt.NDArray[Any]] = [items.types, items.end]
        if program.shape.intervals:
            arrays.append(items.start)
        if program.shape.eids:
            assert items.eid_high is not None and items.eid_low is not None
            arrays += [items.eid_high, items.eid_low]
        for attr, is_float, _ in program.columns:
            column, dtype = columns.get(attr), REAL if is_float else WHOLE
            if column is None:
                arrays.append(np.zeros(len(items.types), dtype))
            else:
                arrays.append(column.values if column.values.dtype == dtype else column.values.astype(dtype))
        flat = [array if array.flags.c_contiguous else np.ascontiguousarray(array) for array in arrays]
        return tuple(flat) if self._jit else self.views(*flat)

    def _run_with(
        self, kernel: kernels.Kernel, items: Items, columns: dict[str, Column]
    ) -> tuple[Callable[..., int], tuple[Any, ...]]:
        """The entry point that a batch needs, and its arguments."""
        batch, withdrawn = self._batch(items, columns), withdrawals(items)
        if withdrawn is None and not self._has_nulls(columns):
            if not self.words[NULLS]:
                return kernel.run, batch
            self.words[MARKED] = 0
            return kernel.careful, (*batch, *self.views(NO_MARKS))
        return kernel.careful, (*batch, *self.views(self._marks_of(withdrawn, columns, len(items))))

    def _marks_of(self, withdrawn: Bools | None, columns: dict[str, Column], count: int) -> Marks:
        """Which rows are withdrawals, and where each attribute is null: a block of bytes for each."""
        found = {}
        if withdrawn is not None:
            if WITHDRAWN not in self.program.marks:
                raise InputError("an event can be withdrawn only if events have eids", hint="name the column of eids")
            found[WITHDRAWN] = withdrawn
        for attr in self._nullable:
            column = columns.get(attr)
            if column is None:
                found[attr] = np.ones(count, np.bool_)
            elif column.valid is not None and not column.valid.all():
                found[attr] = ~column.valid
        self.words[MARKED] = count
        if len(found) > (WITHDRAWN in found):
            self.words[NULLS] = 1
        marks = np.zeros(count * len(self.program.marks), np.int8)
        for block, name in enumerate(self.program.marks):
            if name in found:
                marks[block * count : (block + 1) * count] = found[name]
        return marks

    def _has_nulls(self, columns: dict[str, Column]) -> bool:
        for attr in self._nullable:
            column = columns.get(attr)
            if column is None or (column.valid is not None and not column.valid.all()):
                return True
        return False

    def can_borrow(self, one: OneRow) -> bool:
        """Whether the kernel can read single events where they lie."""
        kinds = {attr: REAL if is_float else WHOLE for attr, is_float, _ in self.program.columns}
        known = {attr: column.values.dtype for attr, column in one.columns.items()}
        return not self.program.derived and all(known.get(attr, kind) == kind for attr, kind in kinds.items())

    def _borrow(self, one: OneRow) -> None:
        self._one = self.prepare()
        columns, marks = self._columns(one), self.program.marks
        self._lender, self._lent, self._args = one, self._batch(one, columns), None
        self._marks = np.zeros(len(marks), np.int8)
        self._marked = (*self._lent, *self.views(self._marks)) if marks else self._lent
        mine = [(block, columns[name].valid) for block, name in enumerate(marks) if name in columns]
        self._valid = [(block, valid.data) for block, valid in mine if valid is not None]
        for name in self._nullable:
            if name not in columns:  # null in every event
                self._marks[marks.index(name)] = self.words[NULLS] = 1

    def _mark_one(self) -> tuple[Any, ...]:
        """Note which attributes of the single event are null; the arguments for it."""
        for block, valid in self._valid:
            self._marks[block] = not valid[0]
        self.words[MARKED] = marked = int(self._marks.any())
        self.words[NULLS] |= marked
        return self._marked

    def _rank(self) -> None:
        """Texts in order of code points, as numbers by code; renewed when new texts came."""
        strings = self.detector.strings
        if not self.program.ranks or not self._jit or self._ranked == strings.added:
            return
        self._ranked = strings.added
        codes = sorted(range(len(strings.texts)), key=lambda code: strings.texts[code] or "")
        self.RK = np.zeros(max(1, len(codes)), np.int64)
        self.RK[codes] = np.arange(len(codes))
        self._lend()

    def live_places(self) -> Iterator[tuple[int, int, int]]:
        """(leaf number, begin, end) of every buffer that holds events, without those behind the horizon."""
        if not self._ready:
            return
        leaves = len(self.program.leaf_ids)
        for buffer in np.flatnonzero(self.D[:, 2] > self.D[:, 1]).tolist():
            begin, end = int(self.D[buffer, 1]), int(self.D[buffer, 2])
            begin += int(np.searchsorted(self.H[begin:end, 0], self.horizon))
            if begin < end:
                yield buffer % leaves, begin, end

    def live_numbers(self) -> Ints:
        """Numbers of all events in the state, ascending, each once."""
        return distinct([self.H[self._places(self.H, self.D), 1]]) if self._ready else NOBODY

    def stored(self) -> Iterator[tuple[Leaf, Ints]]:
        """Each leaf with the numbers of the events that an answer may still need there."""
        if not self._ready:
            return
        H, D, N = self.H.copy(), self.D.copy(), self.N.copy()
        self.purger.apply(H, D, N, remember=False)
        leaves = np.arange(len(D)) % len(self.program.leaf_ids)
        for number, id in enumerate(self.program.leaf_ids):
            yield self.leaf(id), H[self._places(H, D[leaves == number]), 1]

    def _places(self, H: Ints, D: npt.NDArray[np.int32]) -> Ints:
        """The places of all events in some buffers, without those behind the horizon."""
        counts = (D[:, 2] - D[:, 1]).astype(np.int64)
        shift = D[:, 1] - (np.cumsum(counts) - counts)
        places: Ints = np.arange(int(counts.sum())) + np.repeat(shift, counts)
        alive: Ints = places[H[places, 0] >= self.horizon]
        return alive


def reads_eids(branches: Iterable[Branch], items: Items) -> bool:
    """Whether kernels read eids, seen by the first items: those have them, or ties in time need computed ones."""
    return items.eid_high is not None or any(branch.needs_order for branch in branches)


def withdrawals(items: Items) -> Bools | None:
    """Which rows withdraw an earlier event, or None if none does."""
    if items.kinds is None:
        return None
    withdrawn: Bools = items.kinds == ItemKind.WITHDRAWAL
    return withdrawn if withdrawn.any() else None
