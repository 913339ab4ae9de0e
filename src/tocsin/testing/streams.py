"""Streams in disorder: who sends what, how late it comes, what is delivered twice, and which promises are given.

    Arrivals(events=2_000, disorder=0.3)     what a stream is like; the same definition always gives the same stream
    history(arrivals)                        its events and promises as objects, in order of arrival
    table(arrivals), promises(arrivals)      the same as Arrow tables, for millions of rows

Events are made in order of time and sorted by the time at which they arrive: their own time plus a delay. So an event
is behind the clock by at most its longest possible delay, and a promise of `clock - longest delay - 1` always holds.

Paper: Liu et al. 2009, table I; there NumE is `events`, MD the longest delay, the lambdas are `disorder`,
`disorder_of` and `promises`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tocsin.errors import InputError
from tocsin.events import Event
from tocsin.items import Ints
from tocsin.testing.delays import Burst, Delay, Uniform
from tocsin.testing.notation import Item, Promise

Flags: TypeAlias = npt.NDArray[np.bool_]
Floats: TypeAlias = npt.NDArray[np.float64]

LATEST = 2**62  # no event is as late as this


# --- the definition of a stream ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Arrivals:
    """What a stream is like. Shares lie between 0 and 1; delays and skew are in time units of `unit` ticks.

    `disorder` is the share of events that are delayed, `disorder_of` the same for single types; `delay` says by how
    much, `delay_of` for single types. Each source has its own numbering `seq`; with `sources_by_type` the types are
    dealt to the sources, and with `in_order_sources` a source delivers in order, so that a delayed event holds up
    those behind it. Source k of n is behind by `skew * k / (n - 1)`.

    `promises`, `source_promises` and `heartbeats` are shares of events after which a promise follows: about one type,
    about one source (one type or all), about everything. `broken` is the share of promises that a later event breaks.
    """

    events: int = 20_000
    types: Mapping[str, float] = field(default_factory=lambda: dict.fromkeys("ABCDEFGHIJ", 1.0))
    unit: int = 5
    rate: int = 1  # events a tick; more than one makes ties
    disorder: float = 0.0
    disorder_of: Mapping[str, float] = field(default_factory=dict)
    delay: Delay = field(default_factory=Uniform)
    delay_of: Mapping[str, Delay] = field(default_factory=dict)
    sources: int = 1
    sources_by_type: bool = False
    in_order_sources: bool = False
    skew: int = 0
    duplicates: float = 0.0
    keys: int = 10
    values: int = 100
    promises: float = 0.0
    promise_types: tuple[str, ...] = ()  # none: all of them
    source_promises: float = 0.0
    heartbeats: float = 0.0
    broken: float = 0.0
    seed: int = 7

    def __post_init__(self) -> None:
        for name in ("disorder", "duplicates", "promises", "source_promises", "heartbeats", "broken"):
            _demand_share(name, getattr(self, name))
        for type, share in self.disorder_of.items():
            _demand_share(f"disorder_of[{type!r}]", share)
        for name in ("unit", "rate", "sources", "keys", "values"):
            _demand(getattr(self, name) >= 1, f"{name} must be at least 1", f"it is {getattr(self, name)}")
        for name in ("events", "skew"):
            _demand(getattr(self, name) >= 0, f"{name} cannot be negative", f"it is {getattr(self, name)}")
        good = bool(self.types) and min(self.types.values()) >= 0 and sum(self.types.values()) > 0
        _demand(good, "types need weights, none negative and one positive", f"they are {dict(self.types)}")
        for name in ("disorder_of", "delay_of", "promise_types"):
            unknown = [type for type in getattr(self, name) if type not in self.types]
            _demand(not unknown, f"{name} names a type that the stream does not have", f"{unknown} is not in types")
        for law in (self.delay, *self.delay_of.values()):
            _demand_law(law)
        _demand(
            not any(isinstance(law, Burst) for law in self.delay_of.values()),
            "a burst concerns a source and not a type",
            "delay_of has a Burst",
            hint="use delay=Burst(...), and sources_by_type=True for a source of its own",
        )

    def ticks(self, units: float) -> int:
        """Time units in ticks, for windows and slack: the paper's W = 20 is `WITHIN {arrivals.ticks(20)}`."""
        return int(units * self.unit)

    def most_late(self, type: str | None = None, source: str | None = None) -> int:
        """By how many ticks an event (of a type, from a source) can be behind the clock; MD in the paper."""
        bounds = _LongestDelays(self).by_type_and_source
        codes = slice(None) if type is None else list(self.types).index(type)
        at = slice(None) if source is None else self.source_names.index(source)
        return int(bounds[codes, at].max())

    @property
    def source_names(self) -> tuple[str, ...]:
        return tuple(f"s{number}" for number in range(1, self.sources + 1))


def _demand(good: bool, message: str, detail: str, *, hint: str | None = None) -> None:
    if not good:
        raise InputError(message, detail=detail, hint=hint)


def _demand_share(name: str, share: float) -> None:
    _demand(0 <= share <= 1, f"{name} is a share between 0 and 1", f"it is {share}", hint="write 0.3 for 30 %")


def _demand_law(law: Delay) -> None:
    for part in fields(law):
        value = getattr(law, part.name)
        least = 1 if part.type == "int" else 1e-9
        _demand(value >= least, f"{part.name} of {type(law).__name__} must be positive", f"it is {value}")
    if isinstance(law, Burst):
        _demand(law.every >= law.most, "a burst cannot be longer than the time between two", f"it is {law}")


@dataclass(frozen=True, slots=True)
class _LongestDelays:
    """The longest possible delay in ticks of every type from every source."""

    arrivals: Arrivals

    @property
    def by_type_and_source(self) -> Ints:
        given = self.arrivals
        own = np.array([self._own(type) for type in given.types], np.int64)
        bounds = np.repeat(own[:, None], given.sources, axis=1)
        if given.in_order_sources:  # held up by what stands before it
            bounds = np.where(self.sends, bounds, 0)
            bounds = np.repeat(bounds.max(axis=0, keepdims=True), len(own), axis=0)
        bounds = bounds + skews(given)[None, :]
        if given.duplicates:  # a second delivery may take as long as a first one
            bounds = np.maximum(bounds, given.ticks(given.delay.most))
        return np.where(self.sends, bounds, 0)

    def _own(self, type: str) -> int:
        given = self.arrivals
        laws: list[Delay] = [given.delay] if isinstance(given.delay, Burst) else []
        if given.disorder_of.get(type, given.disorder) > 0:
            laws.append(given.delay_of.get(type, given.delay))
        return max((given.ticks(law.most) for law in laws), default=0)

    @property
    def sends(self) -> Flags:
        """Which type comes from which source."""
        given = self.arrivals
        if not given.sources_by_type:
            return np.ones((len(given.types), given.sources), np.bool_)
        home = np.arange(len(given.types)) % given.sources
        return np.equal(home[:, None], np.arange(given.sources)[None, :])


def skews(given: Arrivals) -> Ints:
    """By how many ticks each source is always behind."""
    steps = np.arange(given.sources) / max(1, given.sources - 1)
    return (steps * given.ticks(given.skew)).astype(np.int64)


# --- making it -----------------------------------------------------------------------------------------------------


class Stream:
    """A stream as columns in order of arrival; `history`, `table` and `promises` show it.

    Every aspect draws its numbers from a generator of its own, so that two definitions that differ in one aspect only
    (say, in the share of late events) have everything else in common.
    """

    def __init__(self, given: Arrivals) -> None:
        self.given = given
        count = given.events
        weights = np.cumsum(list(given.types.values()))
        made_type = np.searchsorted(weights / weights[-1], self._draw("type", count), side="right")
        made_time = np.arange(count, dtype=np.int64) // given.rate
        made_source = self._sources(made_type)
        due = self._due(made_type, made_time, made_source)
        again = np.flatnonzero(self._draw("duplicate", count) < given.duplicates)
        order = np.argsort(np.concatenate([due, self._due_again(made_time, due, again)]), kind="stable")
        self.eid: Ints = np.concatenate([np.arange(count), again]).astype(np.int64)[order]
        self.first: Flags = order < count  # not a second delivery
        self.type: Ints = made_type[self.eid]
        self.time: Ints = made_time[self.eid]
        self.source: Ints = made_source[self.eid]
        self.seq: Ints = _numbered(made_source)[self.eid]
        self.key: Ints = (self._draw("key", count) * given.keys).astype(np.int64)[self.eid]
        self.value: Ints = (self._draw("value", count) * given.values).astype(np.int64)[self.eid]

    def __len__(self) -> int:
        return len(self.eid)

    def _draw(self, aspect: str, count: int) -> Floats:
        return np.random.default_rng([self.given.seed, *aspect.encode()]).random(count)

    def _sources(self, types: Ints) -> Ints:
        if self.given.sources_by_type:
            return types % self.given.sources
        return (self._draw("source", len(types)) * self.given.sources).astype(np.int64)

    def _due(self, types: Ints, times: Ints, sources: Ints) -> Ints:
        """When each event arrives."""
        given = self.given
        due = times + self._delays(types)
        if isinstance(given.delay, Burst):
            due = np.maximum(due, times + self._kept_back(given.delay, times, sources))
        due = due + skews(given)[sources]
        return _running_max(due, sources) if given.in_order_sources else due

    def _delays(self, types: Ints) -> Ints:
        given = self.given
        shares = np.array([given.disorder_of.get(type, given.disorder) for type in given.types])
        late = self._draw("late", len(types)) < shares[types]
        u = self._draw("delay", len(types))
        delays = np.zeros(len(types), np.int64)
        for code, type in enumerate(given.types):
            law = given.delay_of.get(type, given.delay)
            if not isinstance(law, Burst):
                rows = np.flatnonzero(late & (types == code))
                delays[rows] = law.delays(u[rows], given.ticks(law.most))
        return delays

    def _kept_back(self, law: Burst, times: Ints, sources: Ints) -> Ints:
        """For how long a silent source keeps its events."""
        length, every = self.given.ticks(law.most), self.given.ticks(law.every)
        period = times // every
        rounds = int(period[-1]) + 1 if len(period) else 0
        silent = (self._draw("silent", rounds) * self.given.sources).astype(np.int64)
        begin = np.arange(rounds) * every + (self._draw("begin", rounds) * (every - length + 1)).astype(np.int64)
        end = begin[period] + length
        held = (sources == silent[period]) & (begin[period] <= times) & (times < end)
        return np.where(held, end - times, 0)

    def _due_again(self, times: Ints, due: Ints, again: Ints) -> Ints:
        """When second deliveries arrive: after the first one, and no later than a late event could."""
        room = np.maximum(times[again] + self.given.ticks(self.given.delay.most) - due[again], 0)
        due_again: Ints = due[again] + np.ceil(self._draw("again", len(again)) * room).astype(np.int64)
        return due_again

    # --- promises ---

    @cached_property
    def promised(self) -> tuple[Ints, Ints, Ints, Ints]:
        """Row after which it comes, type (-1: all), source (-1: all) and time of every promise, in order."""
        given = self.given
        kinds = (
            self._about_types(self._rows("promises", given.promises)),
            self._about_sources(self._rows("source promises", given.source_promises)),
            self._about_all(self._rows("heartbeats", given.heartbeats)),
        )
        rows, types, sources = (np.concatenate(column).astype(np.int64) for column in zip(*kinds, strict=True))
        order = np.argsort(rows, kind="stable")
        rows, types, sources = rows[order], types[order], sources[order]
        times = self._kept(rows, types, sources)
        broken = np.flatnonzero(self._draw("broken", len(rows)) < given.broken)
        times[broken] = self._broken(rows[broken], types[broken], sources[broken], times[broken])
        return rows, types, sources, times

    def _rows(self, aspect: str, share: float) -> Ints:
        return np.flatnonzero(self._draw(aspect, len(self)) < share)

    def _about_types(self, rows: Ints) -> tuple[Ints, Ints, Ints]:
        known = list(self.given.types)
        codes = np.array([known.index(type) for type in self.given.promise_types or known], np.int64)
        drawn = (self._draw("promised type", len(rows)) * len(codes)).astype(np.int64)
        return rows, codes[drawn], np.full(len(rows), -1)

    def _about_sources(self, rows: Ints) -> tuple[Ints, Ints, Ints]:
        """Half of them about one type of the source, half about all."""
        _, types, _ = self._about_types(rows)
        types = np.where(self._draw("all types", len(rows)) < 0.5, -1, types)
        return rows, types, (self._draw("promised source", len(rows)) * self.given.sources).astype(np.int64)

    def _about_all(self, rows: Ints) -> tuple[Ints, Ints, Ints]:
        return rows, np.full(len(rows), -1), np.full(len(rows), -1)

    def _kept(self, rows: Ints, types: Ints, sources: Ints) -> Ints:
        """The times of promises that hold: the clock, minus the longest delay, minus one since that delay is allowed.

        A source that delivers in order knows better: nothing comes before the last event that it sent.
        """
        bounds = _LongestDelays(self.given).by_type_and_source
        bounds = np.pad(bounds, (0, 1))  # row and column -1: the largest of all types and of all sources
        bounds[-1, :], bounds[:, -1] = bounds[:-1].max(axis=0), bounds[:, :-1].max(axis=1)
        bounds[-1, -1] = bounds[:-1, :-1].max()
        times = np.maximum.accumulate(self.time)[rows] - bounds[types, sources] - 1
        if self.given.in_order_sources and not self.given.duplicates:
            spoken = np.flatnonzero(sources >= 0)
            times[spoken] = np.maximum(times[spoken], self._last_sent(rows[spoken], sources[spoken]) - 1)
        return times

    def _last_sent(self, rows: Ints, sources: Ints) -> Ints:
        """The time of the last event that each source has sent up to a row; long ago if there is none."""
        order = np.argsort(self.source, kind="stable")
        places = self.source[order] * len(self) + order  # sorted by source, then by row
        at = np.searchsorted(places, sources * len(self) + rows, side="right") - 1
        sent = order[np.maximum(at, 0)]
        return np.where((at >= 0) & (self.source[sent] == sources), self.time[sent], -LATEST)

    def _broken(self, rows: Ints, types: Ints, sources: Ints, kept: Ints) -> Ints:
        """Times that a later event of that type and source does not respect; those where none comes are left."""
        times = kept.copy()
        for type, source in {(int(type), int(source)) for type, source in zip(types, sources, strict=True)}:
            mine = self.first & ((type < 0) | (self.type == type)) & ((source < 0) | (self.source == source))
            later = np.minimum.accumulate(np.where(mine, self.time, LATEST)[::-1])[::-1]
            later = np.append(later, LATEST)
            at = np.flatnonzero((types == type) & (sources == source))
            first = later[rows[at] + 1]
            times[at] = np.where(first < LATEST, np.maximum(first, times[at]), times[at])
        return times


def _running_max(due: Ints, groups: Ints) -> Ints:
    """The largest value so far within each group."""
    order = np.argsort(groups, kind="stable")
    apart = groups[order] * (int(due.max(initial=0)) + 1)  # so far that one group never reaches into the next
    result = np.empty_like(due)
    result[order] = np.maximum.accumulate(due[order] + apart) - apart
    return result


def _numbered(groups: Ints) -> Ints:
    """The number of each element within its group, from 0."""
    order = np.argsort(groups, kind="stable")
    counts = np.bincount(groups)
    result = np.empty(len(groups), np.int64)
    result[order] = np.arange(len(groups)) - np.repeat(np.cumsum(counts) - counts, counts)
    return result


# --- showing it ----------------------------------------------------------------------------------------------------


def history(given: Arrivals) -> list[Item]:
    """Events and promises in order of arrival.

    >>> [item.eid for item in history(Arrivals(events=5))]
    [0, 1, 2, 3, 4]
    """
    stream = Stream(given)
    types, sources = list(given.types), given.source_names
    told: dict[int, list[Item]] = {}
    for row, type, source, time in zip(*(column.tolist() for column in stream.promised), strict=True):
        about = None if type < 0 else types[type], time, None if source < 0 else sources[source]
        told.setdefault(row, []).append(Promise(*about))
    items: list[Item] = []
    columns = (stream.type, stream.time, stream.eid, stream.source, stream.seq, stream.key, stream.value)
    for row, (type, time, eid, source, seq, id, v) in enumerate(zip(*(each.tolist() for each in columns), strict=True)):
        items.append(Event(types[type], time, time, eid, {"id": id, "v": v}, sources[source], seq, row))
        items += told.get(row, ())
    return items


def table(given: Arrivals) -> pa.Table:
    """The events as columns type, time, eid, source, seq, arrival, id, v; row number and `arrival` are the same.

    >>> table(Arrivals(events=3)).column_names
    ['type', 'time', 'eid', 'source', 'seq', 'arrival', 'id', 'v']
    """
    return _table(Stream(given))


def promises(given: Arrivals) -> pa.Table:
    """The promises: after which row, type (null: every), source (null: every), and the time before which nothing comes.

    >>> promises(Arrivals(events=3)).column_names
    ['after_row', 'type', 'source', 'time']
    """
    return _promises(Stream(given))


def tables(given: Arrivals) -> tuple[pa.Table, pa.Table]:
    """Both tables, for the price of one."""
    stream = Stream(given)
    return _table(stream), _promises(stream)


def _table(stream: Stream) -> pa.Table:
    return pa.table(
        {
            "type": _named(stream.type, list(stream.given.types)),
            "time": stream.time,
            "eid": stream.eid,
            "source": _named(stream.source, stream.given.source_names),
            "seq": stream.seq,
            "arrival": np.arange(len(stream), dtype=np.int64),
            "id": stream.key,
            "v": stream.value,
        }
    )


def _promises(stream: Stream) -> pa.Table:
    rows, types, sources, times = stream.promised
    return pa.table(
        {
            "after_row": rows,
            "type": _named(types, list(stream.given.types)),
            "source": _named(sources, stream.given.source_names),
            "time": times,
        }
    )


def _named(codes: Ints, names: Sequence[str]) -> pa.Array:
    """Codes as texts; -1 is null."""
    return pa.DictionaryArray.from_arrays(
        pa.array(codes.astype(np.int32), mask=codes < 0), pa.array(list(names), pa.string())
    )
