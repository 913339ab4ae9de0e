"""The ways to run a query that must all agree: jit or plain, ordered or not, in batches, each pass off, restarted.

run(query, events, Mode(batch=1, off={"leaf_order"}))      the net answers of the engine in that mode
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tocsin.encode import Columns, Encoder, from_dicts, infer_schema
from tocsin.engine.changes import Changes
from tocsin.engine.detector import Detector, compile_plan
from tocsin.events import END_OF_TIME, Event
from tocsin.functions import Function
from tocsin.items import Strings
from tocsin.lang.syntax import Query
from tocsin.plan.bind import bind
from tocsin.plan.block import Block, Plan
from tocsin.plan.passes import optimize
from tocsin.schema import Schema
from tocsin.testing.oracle import Binding

EVERY = -1


@dataclass(frozen=True, slots=True)
class Mode:
    """One way to run.

    `ordered` sorts the events by end and promises so; otherwise they come as listed. `batch` is the number of events a
    push (None: all at once). `restart` saves and restores in a new detector after that many pushes (None: never;
    EVERY: before every push and before the end of the stream).
    """

    jit: bool = False
    ordered: bool = True
    batch: int | None = None
    off: frozenset[str] = frozenset()
    restart: int | None = None


def schema_of(events: Sequence[Event]) -> Schema:
    """What the events show; types and attributes that occur nowhere are allowed and empty."""
    batch = from_dicts(events)
    if not events:
        return Schema(open_types=True, open_fields=True)
    columns = Columns().resolve(batch.schema.names)
    schema = infer_schema(batch.schema, columns, types={event.type for event in events})
    points = all(event.start == event.end for event in events)
    return replace(schema, open_types=True, open_fields=True, intervals=not points)


def types_of(plan: Plan) -> tuple[str, ...]:
    """The event types that a plan reads."""
    return tuple(dict.fromkeys(type for block in plan.alternatives for type in _types(block)))


def _types(block: Block) -> Iterator[str]:
    for leaf in block.leaves:
        yield from (alt.type for alt in leaf.alts)
    for part in block.forbidden:
        yield from _types(part.block)


def run(
    query: Query,
    events: Sequence[Event],
    mode: Mode,
    *,
    functions: Mapping[str, Function] | None = None,
    schema: Schema | None = None,
) -> Counter[Binding]:
    """The net answers after the end of the stream: each binding with its count (0 is left out)."""
    schema = schema or schema_of(events)
    return net(changes(optimize(bind(query, schema, functions), mode.off), events, mode, functions=functions))


def changes(
    plan: Plan, events: Sequence[Event], mode: Mode, *, functions: Mapping[str, Function] | None = None
) -> Iterator[Changes]:
    """The changes of every push and of the end of the stream."""
    listed = sorted(events, key=lambda event: event.end) if mode.ordered else list(events)
    rows, types, strings = from_dicts(listed), types_of(plan), Strings()

    def new() -> Detector:
        return compile_plan(plan, types, strings, jit=mode.jit, ordered=mode.ordered, functions=functions)

    detector = new()
    encoder = Encoder(plan.schema, types, strings, wanted=detector.reads)
    step = mode.batch or max(1, len(listed))
    for push, first in enumerate(range(0, len(listed), step)):
        if mode.restart in (push, EVERY):
            detector = restarted(detector, new())
        yield detector.push(encoder.encode(rows.slice(first, step)))
    if mode.restart == EVERY:
        detector = restarted(detector, new())
    yield detector.advance(END_OF_TIME)


def restarted(detector: Detector, new: Detector) -> Detector:
    """A new detector with the state of another."""
    new.restore(detector.parts())
    return new


def net(log: Iterable[Changes]) -> Counter[Binding]:
    """Add up signed changes."""
    total: Counter[Binding] = Counter()
    for piece in log:
        for op, binding in piece.bindings():
            total[binding] += op
    return Counter({binding: count for binding, count in total.items() if count})
