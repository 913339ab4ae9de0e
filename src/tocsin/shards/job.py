"""A job: all that a worker must know to detect matches in its shard. Made by the driver, shipped, never changed."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import pyarrow as pa

from tocsin.encode.columns import Columns
from tocsin.engine.changes import ChangeBatch
from tocsin.engine.operator import Around
from tocsin.events import BEGINNING
from tocsin.functions import Function
from tocsin.graph.query_graph import QueryGraph
from tocsin.order.strategy import IN_ORDER, Strategy
from tocsin.plan.block import Plan
from tocsin.plan.expr import Agg, Bound, Col, User, walk
from tocsin.plan.facts import key_needs, reads
from tocsin.plan.rewrite import all_blocks
from tocsin.schema import Schema
from tocsin.shards.identity import Identity, Known
from tocsin.shards.kernel_shipment import Shipment, packed
from tocsin.shards.result import shaped
from tocsin.shards.routes import Group, Unit, at_home, own_columns, with_own
from tocsin.shards.time_slices import Slices


@dataclass(frozen=True)
class Shards:
    """The shards of one group of queries: `count` of them, numbered from `first` on."""

    group: Group
    first: int
    count: int
    slices: Slices | None = None


@dataclass(frozen=True)
class Job:
    """The plans by group, the schema of events, the schema of the result; `shown` numbers the plans that answer."""

    shards: tuple[Shards, ...]
    schema: Schema
    columns: Columns
    result: pa.Schema
    time: pa.DataType | None
    shown: frozenset[int]
    jit: bool = True
    functions: Mapping[str, Function] = field(default_factory=dict)
    kernels: Shipment = field(default_factory=Shipment)
    known: frozenset[str] | None = None  # the types that may come; others end the job where they are sent along
    keep_bad: bool = False  # rows that nobody can use become rows of the result
    columns_of: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # for each unit what it reads, with types
    strategy: Strategy = IN_ORDER  # what detectors do about events that come late
    arrival: str | None = None  # the column that says in which order rows arrived
    texts: tuple[str, ...] = ()  # of all queries, by the numbers of their plans
    before: Mapping[str, tuple[Unit, ...]] = field(default_factory=dict)  # the units that units go on from (carry_over)
    schema_before: Schema = field(default_factory=Schema)  # ... which may have read columns that nobody reads now
    around: tuple[Around, ...] = ()  # operators that stand around the queries that answer
    last: int = BEGINNING  # where the last event of a batch ends, where statements have timers
    clock: bool = False  # time passes also where no event comes
    memory_limit: int | None = None  # bytes for the events of a shard that are looked at as they come
    token: str = field(default_factory=lambda: uuid.uuid4().hex)  # of this very job: detectors of another are no use

    @property
    def count(self) -> int:
        return sum(each.count for each in self.shards)

    @property
    def units(self) -> list[Unit]:
        """All units, in the order of their shards."""
        return [unit for each in self.shards for unit in each.group.units]

    @property
    def announces(self) -> bool:
        """Whether intervals may be announced when they begin."""
        return any(unit.announced for unit in self.units)

    @property
    def layout(self) -> list[int]:
        """How many shards each group has."""
        return [each.count for each in self.shards]

    @cached_property
    def needs(self) -> dict[str, frozenset[str]]:
        """The attributes of keys that may be missing, each with the types of events that must have it."""
        return key_needs(plan for each in self.shards for unit in each.group.units for plan in unit.plans)

    @property
    def identity(self) -> Identity:
        return Identity({unit.name: self.known_unit(unit) for unit in self.units}, self.layout, self.clock)

    def known_unit(self, unit: Unit, since: int = 0) -> Known:
        """What a checkpoint keeps of a unit, to compare a later job with."""
        texts = [self.texts[number] for number in unit.numbers] if self.texts else []
        return Known(unit.fingerprints, since, dict(self.columns_of[unit.name]), texts)

    def units_before(self, units: Iterable[Unit]) -> list[Unit]:
        """The old units that some units go on from, each once; their matches are at home wherever they are found."""
        found = {old.numbers: old for unit in units for old in self.before.get(unit.name, ())}
        return [replace(old, homes=()) for old in found.values()]

    def of_shard(self, number: int) -> Shards:
        return next(each for each in self.shards if each.first <= number < each.first + each.count)

    def graph(
        self, group: Group, units: Iterable[Unit], *, timed_ids: bool = True, live: bool = False
    ) -> tuple[QueryGraph, list[int]]:
        """Build the query graph of some units of a group; also return the number of the plan behind each stage.

        `live`: of a stream, so that counts are said after each micro-batch.
        """
        self.kernels.unpack()
        own = own_columns(group)
        plans = [plan for unit in units for plan in at_home(unit, own)]
        if not timed_ids:
            plans = [replace(plan, timed_ids=False) for plan in plans]
        numbers = [number for unit in units for number in unit.numbers]
        schema = with_own(self.schema, own.values()) if own else self.schema
        graph = QueryGraph(
            plans,
            schema,
            self.columns,
            jit=self.jit,
            order=self.strategy,
            memory_limit=self.memory_limit,
            functions=self.functions,
            around=self.around,
            live=live,
        )
        graph.last = max(graph.last, self.last)
        return graph, numbers

    def graph_before(self, units: list[Unit]) -> tuple[QueryGraph, list[int]]:
        """Build the query graph of units that others go on from, to learn what they waited with."""
        return replace(self, schema=self.schema_before).graph(Group(tuple(units)), units)

    def answers(self, numbers: list[int], changes: Iterable[ChangeBatch]) -> Iterator[pa.RecordBatch]:
        """Give the changes of the plans that answer, as batches with the columns of the result."""
        for batch in changes:
            if numbers[batch.stage] in self.shown and len(batch):
                yield shaped(batch, self.result, self.time)

    def reports(self, kind: str, details: list[str]) -> Iterator[pa.RecordBatch]:
        """Make rows of the result that are no matches: late or unusable events, metrics."""
        if details:
            count = len(details)
            known = {"kind": pa.array([kind] * count, pa.string()), "details": pa.array(details, pa.string())}
            arrays = [known[f.name] if f.name in known else pa.nulls(count, f.type) for f in self.result]
            yield pa.RecordBatch.from_arrays(arrays, schema=self.result)

    def compiled(self) -> Job:
        """Compile every kernel that the job may need and return the job with the kernels on board."""
        if not self.jit:
            return self
        made = [self.graph(each.group, each.group.units)[0] for each in self.shards]
        old = [self.units_before(each.group.units) for each in self.shards]
        made += [self.graph_before(units)[0] for units in old if units]
        detectors = [
            each for graph in made for number in range(len(graph.plans)) for each in graph.new_detectors(number)
        ]
        chained = any(graph.queries.chained for graph in made)
        return replace(self, kernels=packed(detectors, eids=self.columns.eid is not None or chained))


# --- what must travel ----------------------------------------------------------------------------------------------


def carried(plans: Iterable[Plan], shown: frozenset[int], schema: Schema, columns: Columns) -> list[str] | None:
    """Return the attributes that must travel to the workers; None: all of them.

    An event without an eid is named by its whole content, and a result without SELECT shows it whole.
    """
    found: set[str] = set()
    if columns.eid is None:
        return None
    for number, plan in enumerate(plans):
        found.update(plan.needs, *reads(plan).values())
        if not plan.outputs and number in shown:
            return None
        for expr in shown_of(plan):
            found |= attributes(expr)
    known = {*schema.common, *(name for own in schema.types.values() for name in own)}
    return sorted(found & known)


def shown_of(plan: Plan) -> list[Bound]:
    """What is asked of the matches of a plan: SELECT, and by what clauses tell matches apart."""
    return [*(output.expr for output in plan.outputs), *(() if plan.after is None else plan.after.expressions)]


def attributes(expr: Bound) -> set[str]:
    """The attributes that an expression reads, inside aggregates too."""
    found: set[str] = set()
    for node in walk(expr):
        if isinstance(node, Col):
            found.add(node.attr)
        elif isinstance(node, Agg) and node.arg is not None:
            found |= attributes(node.arg)
    return found


def reduced(schema: Schema, keep: list[str] | None) -> Schema:
    """Return the schema with only the attributes in `keep`."""
    if keep is None:
        return schema
    types = {name: {a: f for a, f in own.items() if a in keep} for name, own in schema.types.items()}
    return replace(schema, types=types, common={a: f for a, f in schema.common.items() if a in keep})


def called(plans: Iterable[Plan]) -> set[str]:
    """The user functions that the plans call."""
    exprs: list[Bound] = []
    for plan in plans:
        exprs += shown_of(plan)
        for block in all_blocks(plan):
            exprs += [*block.predicates, *(where for leaf in block.leaves for alt in leaf.alts for where in alt.where)]
    return {node.name for expr in exprs for node in walk(expr) if isinstance(node, User)}
