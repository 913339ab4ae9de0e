"""Route rows that a worker has read itself to the shards that `shuffle` would have Catalyst compute.

The shard of a row is part of the checkpoint, so both ways must agree on every row: the key in one exact form, one hash,
the same copies in the same order. `routing_rules` raises Unsayable where that is not sure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.encode.arrow import is_instant, marks
from tocsin.encode.times import micros
from tocsin.encode.values import as_dictionary
from tocsin.events import ANY
from tocsin.items import Bools
from tocsin.schema import Kind
from tocsin.shards.blocks import COPY, SHARD
from tocsin.shards.job import Job, Shards
from tocsin.shards.routes import Attrs, own_columns, way_of
from tocsin.spark.event_frame import EventFrame
from tocsin.spark.expressions import columns_of
from tocsin.spark.shuffle import exact_kind, is_many
from tocsin.spark.worker_reads.filters import Test, TimedBatch, Unsayable, row_tests
from tocsin.spark.worker_reads.xxhash64 import buckets, hashable

NOWHERE = -1
Places: TypeAlias = npt.NDArray[np.int32]


@dataclass(frozen=True)
class RoutingRules:
    """The routing rules: for each group the filters of each type (None: no filter), and the form of keys."""

    tests: tuple[Mapping[str, tuple[Test, ...] | None], ...]
    keys: Mapping[str, pa.DataType]
    times: Mapping[str, str]

    def routed(self, batch: pa.RecordBatch, job: Job, only: int | None = None) -> pa.RecordBatch:
        """Return the rows that some shard (`only`: this one) needs, once per shard, with the shard in a column."""
        look = _Look(self, batch, job)
        slots = [slot for at in range(len(job.shards)) for slot in look.slots(at)]
        if len(job.shards) == 1 and not is_many(job.shards[0]):
            (shard,) = slots
            rows = np.flatnonzero(shard >= 0 if only is None else shard == only)
            return look.with_own(_taken(batch, rows), rows, shard[rows])
        table = np.stack(slots, axis=1)
        there = table >= 0
        copies = np.cumsum(there, axis=1, dtype=np.int32) - np.int32(1)
        rows, places = np.nonzero(there if only is None else table == only)
        found = _taken(batch, rows).append_column(COPY, pa.array(copies[rows, places], pa.int32()))
        return look.with_own(found, rows, table[rows, places])


def routing_rules(frame: EventFrame, job: Job) -> RoutingRules:
    """Derive the routing rules of a frame; raises Unsayable if a worker cannot route exactly as Catalyst does."""
    names = times_of(frame)
    source, ends = columns_of(frame.df.schema), columns_of(frame.df.schema, names)
    tests: list[dict[str, tuple[Test, ...] | None]] = []
    for shards in job.shards:
        plans = [plan for unit in shards.group.units for plan in unit.plans]
        tests.append({type: row_tests(type, plans, source, ends) for type in sorted(shards.group.types)})
    return RoutingRules(tuple(tests), key_types(frame, job), names)


def unfiltered_rules(frame: EventFrame, job: Job) -> RoutingRules:
    """Routing rules without filters: every event of a type that is read goes to its shards."""
    tests = tuple(dict.fromkeys(sorted(shards.group.types)) for shards in job.shards)
    return RoutingRules(tests, key_types(frame, job), times_of(frame))


def times_of(frame: EventFrame) -> dict[str, str]:
    """The columns of start and end."""
    return {"start": frame.columns.time, "end": frame.columns.end or frame.columns.time}


def key_types(frame: EventFrame, job: Job) -> dict[str, pa.DataType]:
    """The type in which each attribute of a key is hashed."""
    groups = [shards.group for shards in job.shards]
    ways = [key for group in groups for way in group.ways.values() for key in way.keys]
    homes = [home for group in groups for home in group.homes]
    return {attr: _key_type(frame, attr) for key in (*ways, *homes) for attr in key}


def _key_type(frame: EventFrame, attr: str) -> pa.DataType:
    """The type in which a key attribute is hashed; as `shuffle.bucket` casts it."""
    kind, scale = exact_kind(frame, attr)
    type = frame.rows.field(attr).type
    if kind is Kind.INT or kind is Kind.TIME:
        type = pa.int64()
    elif kind is Kind.FLOAT:
        type = pa.float64()
    elif kind is Kind.DECIMAL:
        type = pa.decimal128(38, scale)
    if not hashable(type):
        raise Unsayable
    return type


# --- one batch -----------------------------------------------------------------------------------------------------


@dataclass
class _Look:
    """One batch while its rows are routed: hashes are computed once for each key."""

    rules: RoutingRules
    batch: pa.RecordBatch
    job: Job
    known: dict[tuple[Attrs, int], Places] = field(default_factory=dict)

    def slots(self, at: int) -> list[Places]:
        """The shards of one group for each row: one in each slot, NOWHERE where there is none (any more)."""
        shards = self.job.shards[at]
        ways = shards.group.ways if shards.group.keyed else {}
        wide = max((shards.count if way.everywhere else len(way.keys) for way in ways.values()), default=1)
        slots = [np.full(self.batch.num_rows, NOWHERE, np.int32) for _ in range(wide)]
        cases: dict[tuple[tuple[Attrs, ...], bool], list[str]] = {}
        for type in self.rules.tests[at]:
            way = way_of(ways, type)
            if way is None and ways:
                continue
            case = ((), False) if way is None else ((), True) if way.everywhere else (way.keys, False)
            cases.setdefault(case, []).append(type)
        for (keys, everywhere), types in cases.items():
            rows = self._wanted(at, types)
            for slot, target in zip(slots, self._targets(shards, keys, everywhere=everywhere), strict=False):
                np.copyto(slot, target, where=rows)
        return slots

    def _targets(self, shards: Shards, keys: tuple[Attrs, ...], *, everywhere: bool) -> list[Places]:
        if everywhere:
            return [np.asarray(shards.first + number, np.int32) for number in range(shards.count)]
        if not keys:
            return [np.asarray(shards.first, np.int32)]
        found: list[Places] = []
        for attrs in keys:
            mine = self.bucket(attrs, shards)
            for other in found:  # a shard gets a row once
                mine = np.where(mine == other, np.int32(NOWHERE), mine)
            found.append(mine)
        return found

    def bucket(self, attrs: Attrs, shards: Shards) -> Places:
        """The shard by these attributes, NOWHERE where one of them is null."""
        known = self.known.get((attrs, shards.first))
        if known is None:
            arrays = [self._exact(attr) for attr in attrs]
            known = (buckets(arrays, shards.count) + shards.first).astype(np.int32)
            for array in arrays:
                if array.null_count:
                    known = np.where(marks(pc.is_valid(array)), known, np.int32(NOWHERE))
            self.known[attrs, shards.first] = known
        return known

    def with_own(self, rows: pa.RecordBatch, taken: npt.NDArray[np.intp], shard: Places) -> pa.RecordBatch:
        """The rows with their shard, and whether each is at home there."""
        rows = rows.append_column(SHARD, pa.array(shard, pa.int32()))
        for shards in self.job.shards:
            for home, name in own_columns(shards.group).items():
                mine = self.bucket(home, shards)[taken]
                rows = rows.append_column(name, pa.array(mine == shard, pa.bool_(), mask=mine == NOWHERE))
        return rows

    def _exact(self, attr: str) -> pa.Array:
        array, type = self.batch.column(attr), self.rules.keys[attr]
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        if is_instant(array.type):
            return pa.array(micros(array)[0], pa.int64(), mask=marks(pc.is_null(array)) if array.null_count else None)
        return array if array.type == type else array.cast(type)

    def _wanted(self, at: int, types: list[str]) -> Bools:
        """The rows of these types that may be needed."""
        kinds = as_dictionary(self.batch.column(self.job.columns.type))
        names = kinds.dictionary.to_pylist()
        codes = kinds.indices.to_numpy(zero_copy_only=False)
        tests = self.rules.tests[at]
        called = [self._called(at, name) for name in names]
        free = np.array([name in types and tests[name] is None for name in called] or [False])
        rows: Bools = np.ones(len(codes), np.bool_) if free.all() else free[codes]
        for type in types:
            asked = tests[type]
            if asked is not None and type in called:
                mine = np.array([name == type for name in called])[codes]
                rows = rows | (mine & TimedBatch(self.batch, self.rules.times).passing(asked))
        return rows

    def _called(self, at: int, name: str) -> str | None:
        """The type under which a group takes events of a type: its own, or ANY; None if it does not."""
        if name in self.rules.tests[at]:
            return name
        units = self.job.shards[at].group.units
        return ANY if ANY in self.rules.tests[at] and name not in {p.name for u in units for p in u.plans} else None


def _taken(batch: pa.RecordBatch, rows: npt.NDArray[np.intp]) -> pa.RecordBatch:
    return batch if len(rows) == batch.num_rows and _in_line(rows) else batch.take(pa.array(rows))


def _in_line(rows: npt.NDArray[np.intp]) -> bool:
    """Tell whether the indexes are 0, 1, 2, ...: all rows, in order."""
    return not len(rows) or bool(rows[0] == 0 and (np.diff(rows) == 1).all())
