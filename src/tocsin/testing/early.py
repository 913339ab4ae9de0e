"""What EARLY means (docs/semantics.md, 7): the definition, by trying every end that an open interval may still have.

A binding is decided if it is a match whatever the ends of its open intervals are: each end that the guarantees and the
window allow is tried, and beside it each event of a negated part that may still come. Told are decided bindings with
something open; what is told goes away where the match comes, and is withdrawn where it turns out otherwise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product

from tocsin.events import BEGINNING, Eid, Event
from tocsin.lang.syntax import Attr, Leaf, Not, Query, children, leaves_of, patterns_in
from tocsin.order.guarantees import Guarantees
from tocsin.testing.begins import agrees, heard
from tocsin.testing.notation import Begin, Item, Promise, spell, spell_begin
from tocsin.testing.oracle import Binding, matches

MOST_OPEN = 3


@dataclass(frozen=True, slots=True)
class ToldEarly:
    """One change of kind `early`: after which item, its sign, and what is bound."""

    at: int
    op: int
    binding: Binding
    text: str  # its events as histories write them: `a1 h[2,`


def early(
    query: Query,
    items: Sequence[Item],
    *,
    delay: int | None = None,
    held: Collection[str] | None = None,
    longest: Mapping[str, int] | None = None,
    ended: bool = True,
) -> list[ToldEarly]:
    """The early answers of a history, in order; those of one item have no order.

    delay  how late items may come, if that is known
    held   the types whose absence needs a guarantee; of the others the clock is enough. None: all
    """
    told: list[ToldEarly] = []
    standing: dict[Binding, str] = {}
    opened: frozenset[Eid] = frozenset()
    steps = [*range(1, len(items) + 1), *([len(items)] if ended else [])]
    for number, count in enumerate(steps):
        last = ended and number == len(steps) - 1
        state = _State.of(items[:count], delay, held, longest or {})
        decided = {} if last else {each: _spelt(each, state) for each in _decided(query, state)}
        wrong = state.differing & opened
        fulfilled = {each.binding for each in matches(query, state.events) if not _eids(each.binding) & wrong}
        broken = {each for each in standing if _eids(each) & wrong}
        gone = sorted((standing.keys() - decided.keys() - fulfilled) | broken, key=repr)
        told += [ToldEarly(number, -1, each, standing[each]) for each in gone]
        new = sorted(decided.keys() - (standing.keys() - broken), key=repr)
        told += [ToldEarly(number, 1, each, decided[each]) for each in new]
        standing, opened = decided, frozenset(begin.name for begin in state.open)
    return told


def _spelt(binding: Binding, state: _State) -> str:
    words = {event.eid: spell(event.type, event.start, event.end) for event in state.events}
    words |= {begin.name: spell_begin(begin) for begin in state.open}
    return " ".join(words[eid] for _, eids in binding for eid in eids)


@dataclass(frozen=True, slots=True)
class _State:
    """What is known after some items: events, open intervals, and by type what is guaranteed and relied upon."""

    events: list[Event]
    open: list[Begin]
    ending: Guarantees
    since: int
    clock: int
    held: Collection[str] | None
    longest: Mapping[str, int]
    differing: frozenset[Eid]  # intervals that are not what their begins said

    @staticmethod
    def of(
        items: Sequence[Item], delay: int | None, held: Collection[str] | None, longest: Mapping[str, int]
    ) -> _State:
        types = tuple({item.type for item in items if item.type is not None})
        told = heard(items, longest=longest, delay=delay, ended=False)
        begins, ends = Guarantees(types), Guarantees(types)
        for item in items:
            if isinstance(item, Promise):
                (begins if item.of_begins else ends).promise(item.type, item.source, item.time)
        events = [item for item in told.kept if isinstance(item, Event)]
        came = {event.eid: event for event in reversed(events)}
        differing = frozenset(
            item.name
            for item in items
            if isinstance(item, Begin) and item.name in came and not agrees(item, came[item.name])
        )
        clock = max((event.end for event in events), default=BEGINNING)
        for type, until in begins.settled.items():  # an interval to come ends after the first that is open began
            first = min((begin.start - 1 for begin in told.open if begin.type == type), default=until)
            ends.promise(type, None, min(until, first))
        since = BEGINNING if delay is None else clock - delay - 1
        opened = [begin for begin in told.open if begin.name not in came]
        return _State(events, opened, ends, since, clock, held, longest, differing)

    def guaranteed(self, type: str) -> int:
        """Every event of a type that is to come ends after this."""
        return max(self.ending.settled.get(type, self.ending.of(type)), self.since)

    def relied(self, type: str) -> int:
        """Up to when the absence of an event of a type may be relied upon."""
        known = self.guaranteed(type)
        return known if self.held is None or type in self.held else max(known, self.clock - 1)


def _decided(query: Query, state: _State) -> Iterator[Binding]:
    assert query.within is not None
    width = int(query.within.amount)
    negated = [leaf for part in patterns_in(query.pattern) if isinstance(part, Not) for leaf in leaves_of(part.pattern)]
    for count in range(1, MOST_OPEN + 1):
        for opened in combinations(state.open, count):
            yield from _with_open(query, state, opened, width, negated)


def _with_open(
    query: Query, state: _State, opened: Sequence[Begin], width: int, negated: Sequence[Leaf]
) -> Iterator[Binding]:
    """The decided bindings in which exactly these intervals are open."""
    names = {begin.name for begin in opened}
    lows = [max(begin.start, state.guaranteed(begin.type) + 1) for begin in opened]
    longest = [state.longest.get(begin.type) for begin in opened]
    last = max(begin.start for begin in opened) + width
    highs = [
        last if most is None else min(last, begin.start + most) for begin, most in zip(opened, longest, strict=True)
    ]
    holds: Counter[Binding] = Counter()
    tried: list[tuple[int, ...]] = []
    for ends in product(*(range(low, high + 1) for low, high in zip(lows, highs, strict=True))):
        tried.append(ends)
        whole = [
            Event(begin.type, begin.start, end, begin.name, dict(begin.attrs))
            for begin, end in zip(opened, ends, strict=True)
        ]
        found = {match.binding for match in matches(query, [*state.events, *whole])}
        mine = {binding for binding in found if names <= _eids(binding)}
        for more in _others(state, negated, opened, width) if mine else ():
            mine &= {match.binding for match in matches(query, [*state.events, *whole, more])}
        holds.update(mine)
    starts = {event.eid: event.start for event in state.events} | {begin.name: begin.start for begin in opened}
    for binding, count in holds.items():
        window = min(starts[eid] for eid in _eids(binding)) + width
        allowed = [ends for ends in tried if max(ends) <= window]
        if count == len(allowed) and _is_known(query, binding, opened):
            yield binding


def _others(state: _State, negated: Sequence[Leaf], opened: Sequence[Begin], width: int) -> Iterator[Event]:
    """Events of negated parts that may still come, around what is there."""
    first = min(begin.start for begin in opened) - width
    last = max(begin.start for begin in opened) + width
    ids = {event.attrs.get("id") for event in state.events} | {begin.attrs.get("id") for begin in opened}
    for type in sorted({leaf.type for leaf in negated if leaf.type is not None}):
        for end in range(max(first, state.relied(type) + 1), last + 1):
            for start in range(first, end + 1):
                for id in ids:
                    yield Event(type, start, end, "another", {"id": id, "v": 0})


def _is_known(query: Query, binding: Binding, opened: Sequence[Begin]) -> bool:
    """Whether everything is known of open intervals that a condition asks of them."""
    known = {begin.name: {name for name, value in begin.attrs.items() if value is not None} for begin in opened}
    for var, eids in binding:
        for eid in eids:
            if eid in known and not _asked(query, var) <= known[eid]:
                return False
    return True


def _asked(query: Query, var: str) -> set[str]:
    """The attributes that conditions ask of a variable by its name."""

    def inside(node: object) -> Iterator[Attr]:
        if isinstance(node, Attr):
            yield node
        for child in children(node):
            yield from inside(child)

    return {node.name for node in inside(replace(query, select=())) if node.var == var}


def _eids(binding: Binding) -> set[Eid]:
    return {eid for _, eids in binding for eid in eids}
