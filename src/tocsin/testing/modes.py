"""Run a query in one of the modes that must all agree: compiled or plain, ordered or not, in batches, restarted.

run(query, events, Mode(batch=1, off={"leaf_order"}))      the net answers of the engine in that mode
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

from tocsin.encode import Columns, Encoder, from_dicts, infer_schema
from tocsin.engine.changes import Changes
from tocsin.engine.detector import Detector
from tocsin.events import Event
from tocsin.functions import Function
from tocsin.items import Strings, end, guarantee
from tocsin.lang.syntax import Query
from tocsin.plan.bind import bind
from tocsin.plan.block import Plan
from tocsin.plan.facts import types_of
from tocsin.plan.passes import optimize
from tocsin.schema import Schema
from tocsin.testing.oracle import Binding

EVERY = -1
ALL = -1


@dataclass(frozen=True, slots=True)
class Mode:
    """One way to run.

    `ordered` sorts the events by end and promises so; otherwise they come as listed. `batch` is the number of events a
    push (None: all at once). `restart` saves and restores in a new detector after that many pushes (None: never;
    EVERY: before every push and before the end of the stream).
    Of events that come as listed: with `late` the detector is told how late they are; `promises` is the seed of
    guarantees between the pushes, all of them kept; `hold` is ALL or the seed of the types whose guarantees answers
    wait for; with `immediate` answers do not wait for their window to pass; with `tidy` everything that may be
    forgotten is forgotten after each step, and not only when it is worth the time.
    """

    jit: bool = False
    ordered: bool = True
    batch: int | None = None
    off: frozenset[str] = frozenset()
    restart: int | None = None
    late: bool = False
    promises: int | None = None
    hold: int | None = None
    immediate: bool = False
    tidy: bool = False


def schema_of(events: Sequence[Event]) -> Schema:
    """What the events show; types and attributes that occur nowhere are allowed and empty."""
    batch = from_dicts(events)
    if not events:
        return Schema(open_types=True, open_fields=True)
    columns = Columns().resolve(batch.schema.names)
    schema = infer_schema(batch.schema, columns, types={event.type for event in events})
    points = all(event.start == event.end for event in events)
    return replace(schema, open_types=True, open_fields=True, intervals=not points)


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
    """The changes of every push, of every promise and of the end of the stream."""
    listed = sorted(events, key=lambda event: event.end) if mode.ordered else list(events)
    rows, types, strings = from_dicts(listed), types_of(plan), Strings()

    def new() -> Detector:
        late = smallest_slack(listed) if mode.late else None
        hold = held_types(types, mode.hold)
        return Detector(
            plan, types, strings, jit=mode.jit, ordered=mode.ordered, late=late, hold=hold, immediate=mode.immediate,
            functions=functions, eager=mode.tidy,
        )  # fmt: skip

    detector = new()
    encoder = Encoder(plan.schema, types, strings, wanted=detector.reads)
    step = mode.batch or max(1, len(listed))
    for push, first in enumerate(range(0, len(listed), step)):
        if mode.restart in (push, EVERY):
            detector = restarted(detector, new())
        yield detector.push(encoder.encode(rows.slice(first, step)))
        for type, time in promises(listed[first + step :], types, mode.promises, push):
            yield detector.push(guarantee(time, encoder.type_code(type)))
    if mode.restart == EVERY:
        detector = restarted(detector, new())
    yield detector.push(end())
    if not mode.ordered and (detector.counters.live or detector.counters.waiting or detector.payload.count):
        raise AssertionError("the stream has ended, and something is still kept")


def held_types(types: Sequence[str], hold: int | None) -> frozenset[str]:
    """All types, none, or some of them by a seed."""
    if hold is None or hold == ALL:
        return frozenset(types if hold == ALL else ())
    random = Random(hold)  # noqa: S311 - not for secrets
    return frozenset(type for type in types if random.random() < 0.6)


def smallest_slack(events: Sequence[Event]) -> int:
    """By how much the latest event comes too late."""
    clock, late = None, 0
    for event in events:
        clock = event.end if clock is None else max(clock, event.end)
        late = max(late, clock - event.end)
    return late


def promises(
    later: Sequence[Event], types: Sequence[str], seed: int | None, push: int
) -> Iterator[tuple[str | None, int]]:
    """Guarantees that hold at a moment: everything that comes later ends after them."""
    if seed is None:
        return
    random = Random(1000 * seed + push)  # noqa: S311 - not for secrets
    for type in random.sample([None, *types], k=random.randint(0, min(3, len(types)))):
        ends = [event.end for event in later if type is None or event.type == type]
        time = (min(ends) if ends else 40) - 1 - max(0, random.randint(-2, 6))
        yield type, time


def restarted(detector: Detector, new: Detector) -> Detector:
    """A new detector with the state of another."""
    new.restore(detector.snapshot())
    return new


def net(log: Iterable[Changes]) -> Counter[Binding]:
    """Add up signed changes."""
    total: Counter[Binding] = Counter()
    for piece in log:
        for op, binding in piece.bindings():
            total[binding] += op
    return Counter({binding: count for binding, count in total.items() if count})
