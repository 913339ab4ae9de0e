"""Counting without enumerating: the operator of a query that the recurrence carries (`plan/prefix_chain`).

It stands behind `order/settled`, so events come in order of time, whole ticks at once, and each once. A key keeps
sums for its prefixes, or with a window its events; a match is never made.

Events are collected and counted together: all sums of a window are made anew each time, so that it is worth while to
wait for as many new events as it holds, unless a row is due.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from tocsin.codec import Part, Scalar, as_number, as_numbers, as_shape, decode, encode, only_part, reading
from tocsin.engine.changes import Changes
from tocsin.engine.counts import CountRows
from tocsin.engine.operator import Counters, Nesting, Operator, RemembersAll, Setting
from tocsin.engine.texts import NONE
from tocsin.events import BEGINNING, END_OF_TIME
from tocsin.items import Ints, ItemKind, Items
from tocsin.order.keyed_events import KeyedEvents, has_key
from tocsin.order.settled import SettledOnce
from tocsin.plan.after_match import Total
from tocsin.plan.prefix_chain import PrefixChain
from tocsin.schema import Kind, fits
from tocsin.select.after_match import normal
from tocsin.select.count_table import CountTable, Key
from tocsin.select.keyed_batch import KeyedBatch, joined
from tocsin.select.prefix_sums import KeyedTimes, Numbers, bounded, chains, chains_within, wide
from tocsin.select.step_values import StepValues
from tocsin.select.totals import State, begin, exact, one_nan

SavedSums: TypeAlias = list[tuple[str, list[tuple[list[Scalar], list[Scalar]]]]]
SavedBest: TypeAlias = list[tuple[int, list[tuple[list[Scalar], list[Scalar]]]]]
Name: TypeAlias = tuple[Any, ...]  # the values of a key
MANY = 1 << 14  # events that are worth counting together


def prefix_counting(chain: PrefixChain, setting: Setting, *, live: bool) -> SettledOnce:
    """The operator of a query that counts, in place of its detector."""
    return SettledOnce(PrefixCounting(chain, setting, live=live), setting.time, setting.reader, chain.key)


class PrefixCounting(RemembersAll, Nesting):
    """Counts chains of settled events.

    Each aggregate needs some sums over chains. What is summed up is a *measure*: for each step the weights of events
    there, 1 or a value. The first measure is 1 everywhere: the number of matches.
    """

    def __init__(self, chain: PrefixChain, setting: Setting, *, live: bool) -> None:
        assert setting.plan.counts is not None
        self.inner: tuple[Operator, ...] = ()
        self._chain, self._setting = chain, setting
        self._counting = setting.plan.counts
        self._steps = StepValues(chain, setting)
        self.table = CountTable(self._counting, at_once=False, live=live)
        self.frontier = BEGINNING
        self.given = self.retracted = self.seen = 0
        # without a window: for each measure, the sums of each key over the chains of its steps; the least or greatest
        self._sums: dict[str, dict[Name, list[int]]] = {}
        self._best: dict[int, dict[Name, list[Any]]] = {}
        # with one: the events that are in it
        self._window = KeyedBatch.empty(chain)
        self._waiting: list[KeyedBatch] = []  # events that are not counted yet
        self._codes: dict[Name, int] = {}  # a number for each key
        self._counted = BEGINNING  # the frontier when events were counted the last time

    # --- the one verb ---

    def push(self, items: Items) -> Changes:
        """Count the chains that settled events end; answer with the rows that are known by then."""
        touched: dict[Key, None] = {}
        if items.kinds is None:
            self._collect(items)
            if sum(map(len, self._waiting)) >= max(MANY, len(self._window)):
                touched = self._count()
        else:
            for kind, time in zip(items.kinds.tolist(), items.end.tolist(), strict=True):
                self.frontier = END_OF_TIME if kind == ItemKind.END else max(self.frontier, time)
            if self._is_due():
                touched = self._count()
        rows = self.table.rows(touched, self.frontier)
        self.given += sum(row.op > 0 for row in rows)
        self.retracted += sum(row.op < 0 for row in rows)
        said = [CountRows.of(self._setting.plan, rows, self._setting.functions)] if rows else []
        return Changes(list(said), self.frontier)

    def _is_due(self) -> bool:
        """Whether a row may be said now, so that every event must be counted."""
        every = self._counting.every
        if self.frontier >= END_OF_TIME:
            return True
        return self.table.live if every is None else (self.frontier + 1) // every > (self._counted + 1) // every

    def _collect(self, items: Items) -> None:
        """Keep the events that some step can take, with what is asked of them."""
        key = self._chain.key
        bits = self._steps.bits(items)
        rows = np.flatnonzero((bits > 0) & has_key(items, key)) if key else np.flatnonzero(bits)
        if not len(rows):
            return
        self.seen += len(rows)
        codes = np.zeros(len(rows), np.int64)
        if key:
            keys = KeyedEvents(items, 0, key, self._setting.reader.strings)
            numbers = [self._codes.setdefault(name, len(self._codes)) for name in keys.keys]
            codes = np.array(numbers, np.int64)[keys.codes[rows]]
        else:
            self._codes.setdefault((), 0)
        asked = self._steps.values(items, rows)
        self._waiting.append(KeyedBatch(codes, items.end[rows], bits[rows], asked, np.ones(len(rows), np.bool_)))

    # --- counting ---------------------------------------------------------------------------------------------------

    def _count(self) -> dict[Key, None]:
        """Count the chains that end at the events that wait, keep what later ones need; return their groups."""
        waiting, self._waiting, self._counted = self._waiting, [], self.frontier
        if not waiting:
            self._forget()
            return {}
        names = list(self._codes)
        fresh = joined(waiting)
        batch = fresh
        if self._chain.within is not None:
            batch = joined([self._window.of_keys(fresh.codes), fresh])
            self._window = joined([self._window, replace(fresh, new=np.zeros(len(fresh), np.bool_))])
        batch = batch.by_key()
        last = 1 << (len(self._chain.steps) - 1)
        ends = np.flatnonzero((batch.bits & last > 0) & batch.new)
        ones = [(batch.bits >> step & 1).astype(np.int64) for step in range(len(self._chain.steps))]
        found = _Measured(self, batch, ends, ones, names)
        number = found.sum("number", None, None)
        states = [found.states(at, total, number) for at, total in enumerate(self._counting.totals)]
        counted = np.flatnonzero(number != 0)
        touched: dict[Key, None] = {}
        every = self._counting.every
        spans = np.zeros(len(ends), np.int64) if every is None else batch.times[ends] // every
        for at in _runs(batch.codes[ends][counted], spans[counted]):
            mine = counted[at]
            name = names[int(batch.codes[ends[mine[0]]])]
            shown = tuple(one_nan(name[place]) for place in self._chain.groups)
            key: Key = (tuple(map(normal, shown)), None if every is None else int(spans[mine[0]]))
            self.table.add(key, shown, int(number[mine].sum()), [state(mine) for state in states])
            touched[key] = None
        self._forget()
        return touched

    def _forget(self) -> None:
        """Drop events that no window reaches any more, and keys without events."""
        if self._chain.within is not None and self.frontier > BEGINNING:
            low = END_OF_TIME if self.frontier >= END_OF_TIME else self.frontier + 1 - self._chain.within
            self._window = self._window.pick(np.flatnonzero(self._window.times >= low))
        if len(self._codes) > max(MANY, 2 * len(self._window)):
            used, codes = np.unique(self._window.codes, return_inverse=True)
            names = list(self._codes)
            self._codes = {names[code]: number for number, code in enumerate(used.tolist())}
            self._window = replace(self._window, codes=codes.astype(np.int64))

    # --- what every operator says ---

    @property
    def counters(self) -> Counters:
        total = Counters(self.seen, self.seen, matches=self.given, retracted=self.retracted)
        total.look = lambda: len(self._window) + sum(map(len, self._waiting))
        return total

    @property
    def texts_in_use(self) -> Ints:
        """None: keys and values have the texts themselves."""
        return NONE

    def snapshot(self, since: int = 0) -> list[Part]:
        del since
        self._count()  # where rows are said after each push, nothing waits
        words = {
            "frontier": self.frontier,
            "counts": [self.given, self.retracted, self.seen],
            "groups": self.table.saved(),
            "sums": [[name, list(sums.items())] for name, sums in self._sums.items()],
            "best": [[name, list(best.items())] for name, best in self._best.items()],
            "window": self._window.saved(),
            "codes": list(self._codes),
            "counted": self._counted,
        }
        return [Part("prefixes", 0, encode("prefixes", words))]

    def restore(self, parts: Iterable[Part]) -> None:
        words = decode(only_part("prefixes", parts).data, "prefixes").words
        with reading("the saved counts"):
            self.frontier = as_number(words["frontier"])
            self.given, self.retracted, self.seen = as_numbers(words["counts"])
            self.table.restore(words["groups"])
            self._sums = {name: self._by_key(each, Kind.INT) for name, each in as_shape(SavedSums, words["sums"])}
            totals = self._counting.totals
            self._best = {at: self._by_key(each, totals[at].kind) for at, each in as_shape(SavedBest, words["best"])}
            self._codes = {self._name(name): at for at, name in enumerate(as_shape(list[list[Scalar]], words["codes"]))}
            self._window, self._waiting = KeyedBatch.restored(words["window"], len(self._codes)), []
            if [len(column) for column in self._window.asked] != self._asked_of(len(self._window)):
                raise ValueError("the window has not what is asked of its events")
            self._counted = as_number(words["counted"])

    def _name(self, key: Sequence[Any]) -> Name:
        if len(key) != len(self._chain.key):
            raise ValueError("a key has another number of attributes")
        return tuple(key)

    def _by_key(self, saved: Iterable[tuple[Any, Any]], kind: Kind) -> dict[Name, list[Any]]:
        """Stored sums, or least or greatest values, of each key: one for each step."""
        found = {self._name(key): values for key, values in saved}
        for values in found.values():
            if len(values) != len(self._chain.steps) or not all(fits(kind, value) for value in values):
                raise ValueError("a key has not one number for each step")
        return found

    def _asked_of(self, events: int) -> list[int]:
        return [0 if step is None else events for step in self._chain.asked]


class _Measured:
    """The sums over the chains of a batch that end at its new events of the last step (`ends`)."""

    def __init__(
        self, owner: PrefixCounting, batch: KeyedBatch, ends: Ints, ones: list[Numbers], names: list[Name]
    ) -> None:
        self.owner, self.batch, self.ends, self.ones = owner, batch, ends, ones
        self.events = KeyedTimes(batch.codes, batch.times)
        _, self.firsts, self.places = np.unique(batch.codes, return_index=True, return_inverse=True)
        self.names = [names[code] for code in batch.codes[self.firsts].tolist()]
        self.counts: list[Numbers] = []  # of the first measure, for each step

    def sum(self, measure: str, step: int | None, weight: Numbers | None) -> Numbers:
        """The sum of a measure over the chains that end at each of the ends: `weight` at a step, 1 at all others."""
        weights = [*self.ones]
        if step is not None:
            assert weight is not None
            weights[step] = weight
        width = self.owner._chain.within
        if width is not None:
            weights = weights if bounded(weights) else wide(weights)
            return chains_within(self.events, weights, width)[self.ends]
        known = self.owner._sums.setdefault(measure, {})
        nothing = [0] * len(weights)
        before = [known.get(name, nothing) for name in self.names]
        columns: list[Numbers] = [np.array(list(sums), object) for sums in zip(*before, strict=True)]
        if bounded(weights, columns):
            columns = [column.astype(np.int64) for column in columns]
        else:
            weights = wide(weights)
        found = chains(self.events, weights, [column[self.places] for column in columns])
        added = [np.add.reduceat(each, self.firsts) for each in found]
        for at, name in enumerate(self.names):
            known[name] = [int(column[at]) + int(more[at]) for column, more in zip(columns, added, strict=True)]
        if step is None:
            self.counts = [each != 0 for each in found]
        return found[-1][self.ends]

    def states(self, at: int, total: Total, number: Numbers) -> Callable[[Ints], State]:
        """What an aggregate comes to over the chains that end at some of the ends."""
        step = self.owner._chain.asked[at]
        if step is None:
            return lambda mine: int(number[mine].sum())
        values = list(self.batch.asked[at])
        there = np.array([value is not None for value in values], np.int64) * self.ones[step]
        if total.function in ("min", "max"):
            return self._extreme(at, total, step, values, there)
        known = self.sum(f"{at} known", step, there)
        if total.function == "count":
            return lambda mine: int(known[mine].sum())
        assert total.arg is not None
        kinds = _parts(values, there, real=total.arg.kind is Kind.FLOAT)
        parts = [self.sum(f"{at} {name}", step, weight) for name, weight in kinds]

        def state(mine: Ints) -> State:
            whole, *odd = (int(part[mine].sum()) for part in parts)
            return [whole, int(known[mine].sum()), *(odd or (0, 0, 0))]

        return state

    def _extreme(self, at: int, total: Total, step: int, values: list[Any], there: Numbers) -> Callable[[Ints], State]:
        """The least or greatest value over all chains, without a window: of the prefixes that can be continued."""
        better = min if total.function == "min" else max
        known = self.owner._best.setdefault(at, {})
        steps = len(self.ones)
        nothing: list[Any] = [None] * steps
        mine = [list(known.get(name, nothing)) for name in self.names]
        bits, places, times = self.batch.bits.tolist(), self.places.tolist(), self.batch.times.tolist()
        alive = [each.tolist() for each in self.counts]
        found: list[Any] = [None] * len(bits)
        waiting: list[tuple[int, int, Any]] = []  # what the events of the tick at hand add: key, step, value
        now = None
        for row, (own, place, time) in enumerate(zip(bits, places, times, strict=True)):
            if (place, time) != now:
                for key, reached, value in waiting:
                    mine[key][reached] = _better(better, mine[key][reached], value)
                waiting, now = [], (place, time)
            for reached in range(step, steps):
                if not own >> reached & 1 or not alive[reached][row]:
                    continue
                value = (values[row] if there[row] else None) if reached == step else mine[place][reached - 1]
                if value is not None:
                    waiting.append((place, reached, value))
                    if reached == steps - 1:
                        found[row] = value
        for key, reached, value in waiting:
            mine[key][reached] = _better(better, mine[key][reached], value)
        known.update(zip(self.names, mine, strict=True))
        of_ends = [found[end] for end in self.ends.tolist()]

        def state(some: Ints) -> State:
            best = None
            for place in some.tolist():
                if of_ends[place] is not None:
                    best = _better(better, best, of_ends[place])
            return begin(total) if best is None else {best: 1}

        return state


def _better(better: Callable[[Any, Any], Any], one: Any, other: Any) -> Any:
    """The better of two values; NaN before all, and anything before nothing."""
    if one is None:
        return other
    return math.nan if one != one or other != other else better(one, other)


def _parts(values: list[Any], there: Numbers, *, real: bool) -> list[tuple[str, Numbers]]:
    """What a sum is made of: whole numbers, or floats as whole numbers, and how many of them are NaN or infinite."""
    known = [value if at else 0 for value, at in zip(values, there.tolist(), strict=True)]
    if not real:
        return [("sum", _numbers(known))]
    finite = [exact(float(value)) if math.isfinite(value) else 0 for value in known]
    odd = [[int(value != value) for value in known]]
    odd += [[int(value == math.copysign(math.inf, sign)) for value in known] for sign in (1, -1)]
    named = zip(("sum", "nan", "up", "down"), [_numbers(finite), *map(_numbers, odd)], strict=True)
    return list(named)


def _numbers(values: list[Any]) -> Numbers:
    try:
        return np.array(values, np.int64)
    except OverflowError:
        return np.array(values, object)


def _runs(codes: Ints, spans: Ints) -> list[Ints]:
    """The places of each key and span."""
    if not len(codes):
        return []
    order = np.lexsort([spans, codes])
    new = (np.diff(codes[order]) != 0) | (np.diff(spans[order]) != 0)
    return np.split(order, np.flatnonzero(new) + 1)
