"""Levels of correctness (Li 2010, 4.4; Liu et al. 2009, IV): find from the log of a run which properties it has.

    classify(query, items, log)     which properties the log has, and the named level that they make
    in_words(level)                 the same as one line

A log has one list of changes for every pushed item and one for the end of the stream. At each of these moments the
oracle says which matches the events received so far have; the properties compare that with what had been said.

    ordered             answers come in order: the ends of their events, last event first, never decrease
    ordered_by_end      the same for the last end only (Liu et al. 2009, O19)
    ordered_by_release  the same for the time at which ordered input would have shown the answer; differs from the end
                        where an absence reaches ahead (OA29)
    in_time             every answer comes with the last of its events (Li 2010, R56)
    immediate           at every moment all that no known event rejects has been answered (Liu et al. 2009, O20)
    permanently_valid   every answer is true when it comes and ever after; nothing is withdrawn
    eventually_valid    every answer is true of what was received by then, and is withdrawn if that changes, not else
    complete            at the end exactly the matches of all accepted events stand
    current             at every moment exactly the matches of the events received so far stand

A match whose absence reaches ahead is expected only when the clock has passed the scope (or the stream has ended). It
may come sooner, when promises close the scope or the query can say that nothing will break it, but not if an event
then does; with `trailing="immediate"` it is expected at once. The oracle tries everything at every moment: this is for
small histories.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from tocsin.errors import InputError
from tocsin.events import BEGINNING, END_OF_TIME, Eid, Event
from tocsin.lang.parser import parse
from tocsin.lang.syntax import Query, leaves_of
from tocsin.testing.notation import Begin, Item, Promise, events_of, write
from tocsin.testing.oracle import Binding, Bound, Judge, all_events, as_match
from tocsin.testing.oracle_copies import seen_by
from tocsin.testing.oracle_expr import OracleEvaluator, ticks
from tocsin.testing.oracle_marks import with_strategy
from tocsin.testing.oracle_parts import Alternative, key_attributes, take_apart, with_names, with_own

Change: TypeAlias = tuple[int, Binding]
Log: TypeAlias = Sequence[Sequence[Change]]

# A level holds if all its properties do; the first that holds is the strongest.
LEVELS: Mapping[str, tuple[str, ...]] = {
    "full": ("ordered", "immediate", "permanently_valid", "complete"),
    "delayed": ("ordered", "permanently_valid", "complete"),
    "delayed unsorted": ("permanently_valid", "complete"),
    "convergent": ("ordered", "immediate", "eventually_valid", "complete"),
    "convergent unsorted": ("immediate", "eventually_valid", "complete"),
}
ORDERS = ("ordered", "ordered_by_end", "ordered_by_release")


@dataclass(frozen=True, slots=True)
class Level:
    """The properties of a run; `why` holds the first counterexample of each that fails.

    `order` names the reading of "ordered" that the named levels use.
    """

    ordered: bool
    ordered_by_end: bool
    ordered_by_release: bool
    in_time: bool
    immediate: bool
    permanently_valid: bool
    eventually_valid: bool
    complete: bool
    current: bool
    why: Mapping[str, str] = field(default_factory=dict)
    order: str = "ordered"

    def lacks(self, level: str) -> tuple[str, ...]:
        """The properties that keep a run from a level."""
        if level not in LEVELS:
            raise InputError(f"{level!r} is not a level of correctness", hint=f"one of {', '.join(LEVELS)}")
        needed = (self.order if name == "ordered" else name for name in LEVELS[level])
        return tuple(name for name in needed if not getattr(self, name))

    def satisfies(self, level: str) -> bool:
        """Whether the run has all that a level asks for; a stronger run satisfies a weaker level."""
        return not self.lacks(level)

    @property
    def names(self) -> tuple[str, ...]:
        """Every named level that the run satisfies, the strongest first."""
        return tuple(level for level in LEVELS if self.satisfies(level))

    @property
    def name(self) -> str:
        """The strongest named level, or "none"."""
        return next(iter(self.names), "none")

    @property
    def reason(self) -> str | None:
        """Why there is no named level: the first counterexample; None if there is one."""
        if self.names:
            return None
        nearest = min(LEVELS, key=lambda level: len(self.lacks(level)))
        return "; ".join(f"not {_plain(name)}: {self.why[name]}" for name in self.lacks(nearest))

    def __str__(self) -> str:
        return in_words(self)


def in_words(level: Level) -> str:
    """A level as one line: its name, the properties that make it, and what it has not."""
    properties = (level.order, "immediate", "permanently_valid", "eventually_valid", "complete")
    has = [_plain(name) for name in properties if getattr(level, name)]
    if level.permanently_valid:
        has.remove("eventually valid")  # it goes without saying
    lacks = [f"not {_plain(name)}" for name in properties if not getattr(level, name)]
    if level.reason is not None:
        return f"none of the named levels: {level.reason}"
    return f"{level.name}: {', '.join(has)}" + (f"; {', '.join(lacks)}" if lacks else "")


def _plain(name: str) -> str:
    return name.replace("_", " ")


def pushes(items: int, batch: int) -> list[int]:
    """How many items have been pushed after each push of a batch, and at the end of the stream.

    >>> pushes(5, 2)
    [2, 4, 5, 5]
    """
    return [min(first + batch, items) for first in range(0, items, batch)] + [items]


def classify(
    query: Query | str,
    items: Sequence[Item],
    log: Log,
    *,
    pushed: Sequence[int] | None = None,
    set_aside: Collection[int] = (),
    trailing: str = "wait",
    order: str = "ordered",
    functions: Mapping[str, Callable[..., Any]] | None = None,
) -> Level:
    """The properties of a run over items in order of arrival.

    `pushed` says for each list of the log how many items had been pushed (by default one more each time, then the
    end). `set_aside` are the places of items that the run reported as too late and left out.
    """
    if order not in ORDERS:
        raise InputError(f"{order!r} is not a reading of ordered", hint=f"one of {', '.join(ORDERS)}")
    if trailing not in ("wait", "immediate"):
        raise InputError(f"trailing is wait or immediate, not {trailing!r}")
    pushed = [*range(1, len(items) + 1), len(items)] if pushed is None else list(pushed)
    if len(pushed) != len(log) or pushed != sorted(pushed) or pushed[-1:] != [len(items)]:
        raise InputError(
            "the log does not fit the items",
            detail=f"{len(items)} items, {len(log)} lists of changes",
            hint="a log has one list for each item and one for the end of the stream; otherwise say pushed=",
        )
    query = parse(query) if isinstance(query, str) else query
    run = _Run(query, items, log, pushed, frozenset(set_aside), trailing == "immediate", dict(functions or {}))
    found = {name: problem(run) for name, problem in PROPERTIES.items()}
    why = {name: problem for name, problem in found.items() if problem is not None}
    return Level(**{name: problem is None for name, problem in found.items()}, why=why, order=order)


# --- what was known when -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Support:
    """One way in which the events received so far make a match (a visible match may hide several).

    `arrived` is the place of the item that brought the last of its events. Its scopes end at `soon`, counting the
    members of its repetitions; at `late` without them, since members may still come and go.
    """

    arrived: int
    end: int  # the last end, that of hidden events included
    begin: int
    soon: int
    late: int
    ahead: frozenset[str]  # the types that could still come into these scopes


@dataclass(frozen=True, slots=True)
class Moment:
    """After one push: the matches of what was received, those that must stand by now, and those that may."""

    said: str
    valid: Mapping[Binding, tuple[Support, ...]]
    due: frozenset[Binding]
    allowed: frozenset[Binding]


class _Run:
    """A run: its log, and for every list of the log the moment at which it was given."""

    def __init__(
        self,
        query: Query,
        items: Sequence[Item],
        log: Log,
        pushed: list[int],
        set_aside: frozenset[int],
        immediate: bool,
        functions: dict[str, Callable[..., Any]],
    ) -> None:
        self.query, self.items, self.log, self.pushed, self.immediate = query, items, log, pushed, immediate
        shown = frozenset(name for item in items if isinstance(item, Event) for name in item.attrs)
        self.query = with_strategy(with_own(with_names(query), shown))
        self.reader = OracleEvaluator(functions, attributes=shown)
        self.blocks = take_apart(self.query)
        self.set_aside = set_aside
        self.events: dict[Eid, Event] = {}
        self.arrived: dict[Eid, int] = {}
        for place, item in enumerate(items):
            if isinstance(item, Event) and place not in set_aside:
                self.events.setdefault(item.eid, item)
                self.arrived.setdefault(item.eid, place)
        self.moments = list(self._moments())
        self.standing = list(self._standing())

    def changes(self, *, op: int | None = None) -> Iterator[tuple[int, int, Binding]]:
        """Every change with the number of its moment: all, or only answers (+1) or withdrawals (-1)."""
        for at, changes in enumerate(self.log):
            yield from ((at, sign, binding) for sign, binding in changes if op in (None, sign))

    def net_changes(self) -> Iterator[tuple[int, int, Binding]]:
        """List the net changes of every push: an answer that came and was retracted within one push is left out."""
        for at, changes in enumerate(self.log):
            several = self.pushed[at] - (self.pushed[at - 1] if at else 0) > 1
            net: Counter[Binding] = Counter()
            for op, binding in changes:
                net[binding] += op
            told = [(op, binding) for binding, op in net.items() if op] if several else changes
            yield from ((at, op, binding) for op, binding in told)

    def parts(self, binding: Binding) -> list[Event]:
        """The events of a binding, those left out that never came."""
        return [self.events[eid] for _, eids in binding for eid in eids if eid in self.events]

    def spelled(self, binding: Binding) -> str:
        known = list(self.events.values())
        return " ".join(
            write(self.events[eid], known) if eid in self.events else f"{eid}?" for _, eids in binding for eid in eids
        ) or "(no event)"  # fmt: skip

    def _standing(self) -> Iterator[Counter[Binding]]:
        """What stands after each list of the log."""
        net: Counter[Binding] = Counter()
        for changes in self.log:
            for op, binding in changes:
                net[binding] += op
            yield Counter({binding: count for binding, count in net.items() if count})

    def _moments(self) -> Iterator[Moment]:
        valid: dict[Binding, tuple[Support, ...]] = {}
        known: list[Event] = []
        for at, count in enumerate(self.pushed):
            received = [item for place, item in enumerate(self.items[:count]) if place not in self.set_aside]
            came = list(events_of(received))
            events = seen_by(self.query, self.blocks, came, self.reader, {})
            if events != known:
                known, valid = events, self._valid(events)
            ended = at == len(self.pushed) - 1
            clock = max((event.end for event in came), default=BEGINNING)
            if ended or self.immediate:
                due = allowed = frozenset(valid)
            else:
                promised = Promised(received, self.items)
                due = frozenset(_which(valid, lambda way: way.late < clock))  # noqa: B023 - used before it changes
                allowed = due | frozenset(_which(valid, lambda way: _closed(way, clock, promised)))  # noqa: B023
            yield Moment("the end of the stream" if ended else self._said(at), valid, due, allowed)

    def _said(self, at: int) -> str:
        if self.pushed[at] == 0:
            return "the beginning"
        last = self.items[self.pushed[at] - 1]
        return f"step {at + 1} ({spelled_item(last, list(self.events.values()))})"

    def _valid(self, events: list[Event]) -> dict[Binding, tuple[Support, ...]]:
        """The matches of these events, each with all that supports it."""
        width = None if self.query.within is None else ticks(self.query.within, self.reader.unit)
        judge = Judge(events, self.reader, width, "inclusive", "<", "any", key=key_attributes(self.query))
        found: dict[Binding, tuple[Support, ...]] = {}
        for block in self.blocks:
            for bound in judge.found(block, {}, None):
                binding = as_match(self.query, block, bound, self.reader).binding
                found[binding] = (*found.get(binding, ()), self._support(judge, block, bound))
        return found

    def _support(self, judge: Judge, block: Alternative, own: Bound) -> Support:
        """When the scopes end that no event of the match bounds, as the oracle measures them."""
        everything = all_events(own.values())
        full, plain = judge.root_bounds(everything), judge.root_bounds(all_events(own[var] for var in block.fixed))
        places = [part.place for part in block.repetitions] + [part.place for part in block.negations]
        places += [part.place for part in block.marks]
        ahead = [place for place in places if place.right is None]
        scopes = [tuple(judge.scope(place, own, bounds) for bounds in (full, plain)) for place in ahead]
        return Support(
            max(self.arrived[event.eid] for event in everything),
            max(event.end for event in everything),
            min((low for pair in scopes for low, _ in pair), default=END_OF_TIME),
            max((min(high for _, high in pair) for pair in scopes), default=BEGINNING),
            max((max(high for _, high in pair) for pair in scopes), default=BEGINNING),
            frozenset(leaf.type for place in ahead for leaf in leaves_of(place.item)),
        )


class Promised:
    """What the promises received so far guarantee for each type, from all sources together."""

    def __init__(self, received: Sequence[Item], items: Sequence[Item]) -> None:
        self.promises = [item for item in received if isinstance(item, Promise)]
        self.sources = {event.source for event in events_of(items)}

    def until(self, type: str) -> int:
        """No event of the type will end at or before this."""
        about = [promise for promise in self.promises if promise.type in (None, type)]
        of_all = max((promise.time for promise in about if promise.source is None), default=BEGINNING)
        single = [max((p.time for p in about if p.source == source), default=BEGINNING) for source in self.sources]
        return max(of_all, min(single, default=BEGINNING))


def _which(valid: Mapping[Binding, tuple[Support, ...]], test: Callable[[Support], bool]) -> list[Binding]:
    return [binding for binding, ways in valid.items() if any(map(test, ways))]


def _closed(way: Support, clock: int, promised: Promised) -> bool:
    return way.soon < clock or all(promised.until(type) >= way.soon for type in way.ahead)


def spelled_item(item: Item, known: Sequence[Event] = ()) -> str:
    """An item in the notation of histories.

    >>> spelled_item(Promise(None, 5, "s1"))
    '@s1:*>5'
    """
    match item:
        case Promise(type, time, source):
            return f"@{'' if source is None else f'{source}:'}{type or '*'}>{time}"
        case Begin(type, start):
            return f"{type.lower() if len(type) == 1 else f'{type}@'}[{start},"
        case Event():
            return write(item, known)


# --- the properties: each says its first counterexample, or None ---------------------------------------------------


def _in_order(run: _Run, key: Callable[[int, Binding], Any], what: str) -> str | None:
    last: tuple[Any, Binding] | None = None
    for at, _, binding in run.changes(op=1):
        mine = key(at, binding)
        if last is not None and mine < last[0]:
            return (
                f"{run.moments[at].said}: {run.spelled(binding)} ({what} {mine}) "
                f"comes after {run.spelled(last[1])} ({what} {last[0]})"
            )
        last = mine, binding
    return None


def _ordered(run: _Run) -> str | None:
    return _in_order(run, lambda _, binding: sorted((e.end for e in run.parts(binding)), reverse=True), "ends")


def _ordered_by_end(run: _Run) -> str | None:
    return _in_order(run, lambda _, binding: max((e.end for e in run.parts(binding)), default=BEGINNING), "end")


def _ordered_by_release(run: _Run) -> str | None:
    def released(at: int, binding: Binding) -> int:
        end = max((event.end for event in run.parts(binding)), default=BEGINNING)
        return min((max(way.end, way.late + 1) for way in run.moments[at].valid.get(binding, ())), default=end)

    return _in_order(run, released, "due at")


def _in_time(run: _Run) -> str | None:
    for at, _, binding in run.changes(op=1):
        ways = run.moments[at].valid.get(binding)
        visible = [run.arrived[event.eid] for event in run.parts(binding)]
        arrived = min(way.arrived for way in ways) if ways else max(visible, default=0)
        first = next((number for number, count in enumerate(run.pushed) if count > arrived), at)
        if first != at:
            return (
                f"the last event of {run.spelled(binding)} came at {run.moments[first].said}, "
                f"the answer at {run.moments[at].said}"
            )
    return None


def _immediate(run: _Run) -> str | None:
    for moment, standing in zip(run.moments, run.standing, strict=True):
        for binding in moment.valid:
            if binding in moment.due and standing[binding] < 1:
                return f"{moment.said}: {run.spelled(binding)} is known by now but not answered"
    return None


def _permanently_valid(run: _Run) -> str | None:
    for at, _, binding in run.changes(op=-1):
        return f"{run.moments[at].said}: {run.spelled(binding)} is withdrawn"
    for at, _, binding in run.changes(op=1):
        wrong = next((moment for moment in run.moments[at:] if binding not in moment.valid), None)
        if wrong is run.moments[at]:
            return f"{wrong.said}: {run.spelled(binding)} is answered, but no match of what was received"
        if wrong is not None:
            return f"{wrong.said}: {run.spelled(binding)}, answered at {run.moments[at].said}, is no match any more"
    return _counted_once(run)


def _counted_once(run: _Run) -> str | None:
    net: Counter[Binding] = Counter()
    for at, op, binding in run.changes():
        net[binding] += op
        if net[binding] not in (0, 1):
            said = "is answered a second time" if net[binding] > 1 else "is withdrawn, but was never answered"
            return f"{run.moments[at].said}: {run.spelled(binding)} {said}"
    return None


def _eventually_valid(run: _Run) -> str | None:
    if (twice := _counted_once(run)) is not None:
        return twice
    for at, op, binding in run.net_changes():
        valid = binding in run.moments[at].valid
        if op > 0 and not valid:
            return f"{run.moments[at].said}: {run.spelled(binding)} is answered, but no match of what was received"
        if op < 0 and valid:
            return f"{run.moments[at].said}: {run.spelled(binding)} is withdrawn, but still a match"
    for binding in run.standing[-1]:
        if binding not in run.moments[-1].valid:
            return f"{run.spelled(binding)} is no match at the end, but was never withdrawn"
    return None


def _complete(run: _Run) -> str | None:
    standing, valid = run.standing[-1], run.moments[-1].valid
    for binding in valid:
        if not standing[binding]:
            return f"{run.spelled(binding)} is missing at the end"
    for binding, count in standing.items():
        if count != 1:
            return f"{run.spelled(binding)} is counted {count} times at the end"
        if binding not in valid:
            return f"{run.spelled(binding)} stands at the end and is no match"
    return None


def _current(run: _Run) -> str | None:
    for at, (moment, standing) in enumerate(zip(run.moments, run.standing, strict=True)):
        for binding, count in standing.items():
            if count != 1:
                return f"{moment.said}: {run.spelled(binding)} is counted {count} times"
            if binding not in moment.valid:
                return f"{moment.said}: {run.spelled(binding)} stands and is no match"
            if binding not in moment.allowed and (broken := _broken_ahead(run, at, binding)) is not None:
                return f"{moment.said}: {run.spelled(binding)} stands too soon, {broken.said} refutes it"
    return _immediate(run)


def _broken_ahead(run: _Run, at: int, binding: Binding) -> Moment | None:
    """The moment at which an event broke a match in a scope that was still open."""
    ways = run.moments[at].valid[binding]
    for later in range(at + 1, len(run.moments)):
        moment = run.moments[later]
        if binding in moment.allowed:
            return None
        if binding not in moment.valid:
            came = events_of(run.items[run.pushed[later - 1] : run.pushed[later]])
            return moment if any(_falls_into(event, way) for event in came for way in ways) else None
    return None


def _falls_into(event: Event, way: Support) -> bool:
    return event.type in way.ahead and way.begin <= event.start and event.end <= way.late


PROPERTIES: Mapping[str, Callable[[_Run], str | None]] = {
    "ordered": _ordered,
    "ordered_by_end": _ordered_by_end,
    "ordered_by_release": _ordered_by_release,
    "in_time": _in_time,
    "immediate": _immediate,
    "permanently_valid": _permanently_valid,
    "eventually_valid": _eventually_valid,
    "complete": _complete,
    "current": _current,
}
