"""The modes that must all agree: compiled or plain, in order or not, in batches, restarted, with little memory.

run(query, events, Mode(batch=1, off={"leaf_order"}))      the net answers of the engine in that mode
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from tocsin.encode import from_dicts
from tocsin.events import ANY, Event
from tocsin.functions import Function
from tocsin.lang.syntax import Query
from tocsin.order.strategy import Kind, Strategy
from tocsin.plan.facts import types_of
from tocsin.schema import Schema
from tocsin.testing.disorder import smallest_sufficient_slack
from tocsin.testing.harness import Harness, Limit, Running, schema_of
from tocsin.testing.oracle import Binding

EVERY = -1


@dataclass(frozen=True, slots=True)
class Mode:
    """One way to run.

    order      a kind of strategy. `in-order` gets the events sorted by end; the others get them as listed, after the
               delay that they need if it is `late` (slack and auto always know it)
    held       hybrid: the seed of the types whose guarantees answers wait for
    batch      the number of events a push (None: all at once)
    restart    save, and go on in a new graph, after that many pushes (None: never; EVERY: before every push and before
               the end of the stream)
    promises   the seed of guarantees between the pushes, all of them kept
    immediate  answers do not wait for their window to pass
    ordered    held answers leave in order of time
    tidy       everything that may be forgotten is forgotten after each step, and not only when it is worth the time
    limit      what does not fit into so much memory goes to disk
    eids       False: events come without names
    """

    order: Kind = "in-order"
    jit: bool = False
    batch: int | None = None
    off: frozenset[str] = frozenset()
    restart: int | None = None
    late: bool = False
    promises: int | None = None
    held: int | None = None
    immediate: bool = False
    ordered: bool = False
    tidy: bool = False
    limit: Limit | None = None
    eids: bool = True

    @property
    def corrects(self) -> bool:
        """Whether an answer may be withdrawn."""
        return Strategy(self.order).corrects

    def strategy(self, events: Sequence[Event], types: Sequence[str]) -> Strategy:
        """The strategy for events as they are listed, of a query that reads some types."""
        held, order = frozenset[str](), self.order
        if order == "hybrid":
            random = Random(self.held)  # noqa: S311 - not for secrets
            held = frozenset(type for type in types if random.random() < 0.6)
        if self.late or order in ("slack", "auto"):
            return Strategy(
                order, smallest_sufficient_slack(events), held=held, immediate=self.immediate, ordered=self.ordered
            )
        return Strategy(order, held=held, immediate=self.immediate, ordered=self.ordered)


def run(
    query: Query,
    events: Sequence[Event],
    mode: Mode,
    *,
    functions: Mapping[str, Function] | None = None,
    schema: Schema | None = None,
) -> Counter[Binding]:
    """The net answers after the end of the stream: each binding with its count (0 is left out)."""
    return driven(Harness(query, schema or schema_of(events), functions), events, mode).net


def driven(harness: Harness, events: Sequence[Event], mode: Mode) -> Running:
    """A run of all events in a mode, up to the end of the stream."""
    listed = sorted(events, key=lambda event: event.end) if mode.order == "in-order" else list(events)
    types = types_of(harness.plan)
    if ANY in types:
        types = tuple(sorted({*types, *harness.schema.types, *(event.type for event in listed)} - {ANY}))
    run = harness.start(
        mode.strategy(listed, types), jit=mode.jit, off=mode.off, eager=mode.tidy, limit=mode.limit
    )  # fmt: skip
    rows = from_dicts(listed)
    if listed and not mode.eids:
        rows = rows.drop_columns(["eid"])
    step = mode.batch or max(1, len(listed))
    for push, first in enumerate(range(0, len(listed), step)):
        if mode.restart in (push, EVERY):
            run.restart()
        late = run.push(rows.slice(first, step)).late
        if any(listed[first + place].type in types for place in late):
            raise AssertionError("an event is set aside though nothing comes too late")
        for type, time in promises(listed[first + step :], types, mode.promises, push):
            run.promise(type, time)
    if mode.restart == EVERY:
        run.restart()
    run.end()
    if run.left and not run.graph.order.sorts:
        raise AssertionError("the stream has ended, and something is still kept")
    return run


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
