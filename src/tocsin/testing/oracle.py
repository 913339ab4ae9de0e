"""The oracle: what a query means, by brute force. Whatever the engine answers is judged by this.

    matches(query, events)         every match of one query
    matches_of_all(queries, ...)   several queries, where a name is an event type for those after it

A block (the root, or one negated part) is judged in this order: arrange events at its plain leaves, let each
repetition take all that qualifies in its gap, measure the window, ask the predicates, look for violations in the gaps
of the negations. Which predicate and which gap belongs where is settled before, in `oracle_parts`.

Paper: Li 2010, 2.2 (SEQ, AND, OR, negation) and 5.3 (intervals); Zhang 2012, 2.2 (nested negation, predicates).

The keyword arguments are other readings that the source papers print: `window="exclusive"` (span < W), `order="<="`
(SEQ allows equal times, gaps are closed), `negation="all"` (a match falls only if all its negated parts occur
together, in the order of the text).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from tocsin.events import ANY, BEGINNING, END_OF_TIME, Eid, Event, Value
from tocsin.lang.syntax import (
    And,
    Attr,
    Binary,
    Call,
    Comparison,
    Endpoint,
    Exists,
    Iseq,
    Leaf,
    Marked,
    Name,
    Not,
    Pattern,
    Query,
    Rel,
    SelectItem,
    Seq,
    conjuncts,
    items_of,
    leaves_of,
    may_be_absent,
    patterns_in,
)
from tocsin.testing.oracle_absence import Pause
from tocsin.testing.oracle_after import CompletedMatch, chosen
from tocsin.testing.oracle_consume import consumed, one_by_one, uses_up
from tocsin.testing.oracle_copies import seen_by
from tocsin.testing.oracle_count import counted_rows, counts_matches
from tocsin.testing.oracle_expr import COMPARE, OracleEvaluator, UndefinedError, related, ticks
from tocsin.testing.oracle_groups import InnerQuery, apart, members_of, with_counts
from tocsin.testing.oracle_marks import with_strategy
from tocsin.testing.oracle_members import chosen_sets
from tocsin.testing.oracle_optional import NoEvent
from tocsin.testing.oracle_parts import (
    Alternative,
    MarkedGap,
    Negation,
    Repetition,
    Surroundings,
    key_attributes,
    take_apart,
    var_of,
    with_names,
    with_own,
)
from tocsin.testing.oracle_timeouts import beginnings

Binding: TypeAlias = tuple[tuple[str, tuple[Eid, ...]], ...]
Times: TypeAlias = tuple[tuple[int, int], ...]
Bound: TypeAlias = dict[str, Event | tuple[Event, ...]]


@dataclass(frozen=True, slots=True)
class Match:
    """The visible variables in the order of the text with their eids, and the span and the times of their events.

    `step`: it is no match but the beginning of one, which this step did not extend (TIMEOUT).
    `group`: it is no match but a row that counts matches: the values of its group, and the number of its span.
    """

    binding: Binding
    start: int
    end: int
    select: dict[str, Value] | None = None
    times: Times = field(default=(), compare=False)
    step: str | None = None
    group: tuple[tuple[Value, ...], int | None] | None = None


def matches(
    query: Query,
    events: Iterable[Event],
    *,
    functions: Mapping[str, Callable[..., Any]] = {},
    unit: str | None = None,
    attributes: frozenset[str] = frozenset(),
    queries: frozenset[str] = frozenset(),
    key: Mapping[str, Sequence[str]] = {},
    window: str = "inclusive",
    order: str = "<",
    negation: str = "any",
) -> list[Match]:
    """The set of matches, in a fixed order.

    `unit` is the length of a tick ("us" for timestamps), if it has one. `attributes` are those that the input has,
    beside those that these events show. Events of a type in `queries` are matches, which ANY does not take. `key` has,
    by type, the attributes of a key that equalities make (`explain` shows it): what differs there is another event. It
    matters only where one eid comes with several contents.
    """
    listed = list(events)
    shown = frozenset(name for event in listed for name in event.attrs) | attributes
    if query.consume is not None and query.strategy is not None:
        raise UndefinedError("CONSUME and STRATEGY do not go together", hint="leave one of them out")
    if query.continuity is not None and any(map(may_be_absent, patterns_in(query.pattern))):
        raise UndefinedError("CONTINUITY and steps that may be absent do not go together")
    query = with_strategy(with_own(with_everything(with_names(query), listed, queries), shown))
    readings = Readings(functions, unit, shown, queries, key, window, order, negation)
    if counts_matches(query):
        if query.timeout:
            raise UndefinedError(
                "TIMEOUT gives rows of its own, and this query counts matches", hint="write two queries"
            )
        return [
            Match(
                (),
                row.start,
                row.end,
                dict(zip(column_names(query.select), row.select, strict=True)),
                group=(row.group, row.span),
            )
            for row in counted_rows(query, completed(query, listed, readings), readings.reader)
        ]
    answer = [each.match for each in completed(query, listed, readings)]
    for step, beginning in beginnings(query) if query.timeout else ():
        bare = replace(beginning, skip=None, distinct=None, limit=None)
        answer += [as_timeout(query, step, each, readings.reader) for each in completed(bare, listed, readings)]
    return sorted(answer, key=lambda match: (match.end, match.start, repr(match.binding), match.times))


@dataclass(frozen=True, slots=True)
class Readings:
    """The keyword arguments of `matches`."""

    functions: Mapping[str, Callable[..., Any]]
    unit: str | None
    attributes: frozenset[str]
    queries: frozenset[str]
    key: Mapping[str, Sequence[str]]
    window: str
    order: str
    negation: str

    @property
    def reader(self) -> OracleEvaluator:
        return OracleEvaluator(self.functions, self.unit, self.attributes)


def completed(query: Query, events: list[Event], given: Readings) -> list[CompletedMatch]:
    """The matches of a query in which every name is resolved, with what they bind."""
    width = widest(query, given.unit)
    query = with_counts(query)
    bare, groups = apart(query)
    reader, blocks = given.reader, take_apart(one_by_one(bare))
    inner = [block for group in groups.values() for block in take_apart(replace(group.query, skip=None))]
    seen = seen_by(query, [*blocks, *inner], events, reader, given.key)
    judge = Judge(
        seen,
        reader,
        width,
        given.window,
        given.order,
        given.negation,
        key_attributes(query),
        given.queries,
        groups,
        lambda query, events: completed(query, list(events), given),
    )
    found: dict[tuple[Binding, Times], CompletedMatch] = {}
    for block in blocks:
        if not block.fixed:
            raise UndefinedError("a repetition is bounded on neither side", hint="it needs a plain event beside it")
        for bound in judge.found(block, {}, None) if not uses_up(query) else ():
            if not long_enough(query, bound, given.unit) or judge.interrupted(query, bound):
                continue
            match = as_match(query, block, bound, judge.reader)
            found.setdefault(
                (match.binding, match.times), CompletedMatch(shown_events(query, block, bound), bound, match)
            )
    if uses_up(query):
        exceeds = None if query.between is None else ticks(query.between.more, given.unit)
        for bound in consumed(query, key_attributes(query), seen, reader, width, judge.takes, exceeds):
            match = as_match(query, blocks[0], bound, reader)
            found[match.binding, match.times] = CompletedMatch(shown_events(query, blocks[0], bound), bound, match)
    kept = list(found.values())
    if query.skip or query.distinct or query.limit:
        kept = chosen(query, key_attributes(query), kept, judge.reader)
    return kept


def as_timeout(query: Query, step: str, beginning: CompletedMatch, reader: OracleEvaluator) -> Match:
    """A beginning that nothing extended; SELECT shows what is bound."""
    match: Match = beginning.match
    return replace(match, step=step, select=dict(columns(query.select, beginning.bound, reader)) or None)


def widest(query: Query, unit: str | None) -> int | None:
    """The longest that a match may last; a window with strict ends admits one tick less than its end says."""
    given = [] if query.within is None else [ticks(query.within, unit)]
    given += [] if query.between is None else [ticks(query.between.less, unit) - 1]
    return min(given, default=None)


def long_enough(query: Query, bound: Bound, unit: str | None) -> bool:
    """Whether a match is longer than the lower end of a window with strict ends."""
    start, end = span(all_events(bound.values()))
    return query.between is None or end - start > ticks(query.between.more, unit)


def matches_of_all(queries: Sequence[Query], events: Iterable[Event], **readings: Any) -> dict[str | int, list[Match]]:
    """The matches of each query by its name (or its index); a named query is an event type for the later ones."""
    history = list(events)
    answers: dict[str | int, list[Match]] = {}
    selected: set[str] = set()
    names: set[str] = set()
    for index, query in enumerate(queries):
        query = with_everything(query, history, names)
        answer = matches(query, history, attributes=frozenset(selected), queries=frozenset(names), **readings)
        answers[index if query.name is None else query.name] = answer
        if query.name is not None:
            names.add(query.name)
            selected |= set(column_names(query.select))
            history += composites(query.name, [match for match in answer if match.step is None])
    return answers


def with_everything(query: Query, history: Sequence[Event], queries: Container[str]) -> Query:
    """`s.*` written out: the attributes that the events show; of a match, those of its query."""
    types = {leaf.var or leaf.type: leaf.type for leaf in leaves_of(query.pattern)}
    items: list[SelectItem] = []
    for item in query.select:
        match item.expr:
            case Call("*", (Name(var),)) if var in types:
                own = types[var] if types[var] in queries else None
                events = [event for event in history if (event.type == own if own else event.type not in queries)]
                attrs = dict.fromkeys(attr for event in events for attr in event.attrs)
                items += [SelectItem(Attr(var, attr)) for attr in attrs]
            case _:
                items.append(item)
    return replace(query, select=tuple(items))


def composites(name: str, answer: list[Match]) -> list[Event]:
    """Matches as events; the eids of those that differ in nothing but the times of their events say these, too."""
    often = Counter(match.binding for match in answer)
    made = [(match, composite(name, match)) for match in answer]
    return [
        event if often[match.binding] == 1 else replace(event, eid=f"{event.eid} {match.times}")
        for match, event in made
    ]


def composite(name: str, match: Match) -> Event:
    """A match as an event: its span, its SELECT columns, and an eid that spells out its binding.

    >>> composite("Pair", Match((("a", ("a1",)), ("b", ("b2", "b3"))), 1, 3)).eid
    'Pair:a=a1,b=b2+b3'
    """
    spelled = ",".join(f"{var}={'+'.join(map(str, eids))}" for var, eids in match.binding)
    return Event(name, match.start, match.end, f"{name}:{spelled}", dict(match.select or {}))


def as_match(query: Query, block: Alternative, bound: Bound, reader: OracleEvaluator) -> Match:
    """The match as its user sees it: without hidden variables."""
    in_text = dict.fromkeys(var_of(leaf) for leaf in leaves_of(query.pattern))
    seen = {var: bound[var] for var in in_text if var in bound and var not in block.hidden}
    events = all_events(seen.values()) or all_events(bound.values())
    return Match(
        tuple((var, tuple(event.eid for event in all_events([value]))) for var, value in seen.items()),
        min(event.start for event in events),
        max(event.end for event in events),
        None if counts_matches(query) else dict(columns(query.select, bound, reader)) or None,
        tuple((event.start, event.end) for event in all_events(seen.values())),
    )


def shown_events(query: Query, block: Alternative, bound: Bound) -> dict[str, tuple[Event, ...]]:
    """The events of each variable that the result shows, in the order of the text; () where it is not bound."""
    in_text = dict.fromkeys(var_of(leaf) for leaf in leaves_of(query.pattern))
    return {var: tuple(all_events([bound[var]])) if var in bound and var not in block.hidden else () for var in in_text}


def columns(select: Sequence[SelectItem], bound: Bound, reader: OracleEvaluator) -> Iterator[tuple[str, Value]]:
    """The SELECT columns with their values."""
    for name, item in zip(column_names(select), select, strict=True):
        yield name, reader.plain(item.expr, bound)


def column_names(select: Sequence[SelectItem]) -> Iterator[str]:
    """What columns are called: as given, else by the attribute (with its variable if two share it), else by number."""
    attrs = [item.expr.name for item in select if isinstance(item.expr, Attr) and item.name is None]
    attrs += [item.name for item in select if item.name is not None]
    for number, item in enumerate(select, 1):
        name = item.name
        if name is None and isinstance(item.expr, Attr):
            name = item.expr.name if attrs.count(item.expr.name) == 1 else f"{item.expr.var}_{item.expr.name}"
        yield name or f"column{number}"


def all_events(values: Iterable[Event | tuple[Event, ...]]) -> list[Event]:
    return [event for value in values for event in (value if isinstance(value, tuple) else (value,))]


@dataclass(frozen=True, slots=True)
class Bounds:
    """The ends of a scope, as closed ticks, that hold where no neighbour bounds a part."""

    low: int
    high: int
    high_under_and: int


@dataclass(frozen=True, slots=True)
class Judge:
    """Finds the matches of blocks in one history."""

    events: list[Event]
    reader: OracleEvaluator
    width: int | None
    window: str
    order: str
    negation: str
    key: tuple[str, ...] = ()
    queries: frozenset[str] = frozenset()
    groups: Mapping[str, InnerQuery] = field(default_factory=dict)
    find: Callable[..., list[CompletedMatch]] | None = None  # the matches of a query over some events
    arranged: dict[Pattern, list[Bound]] = field(default_factory=dict)

    def found(self, block: Alternative, above: Bound, scope: Bounds | None) -> Iterator[Bound]:
        """Every match of a block, given what the blocks around it bind. Only the root has no scope of its own."""
        for plain in self.arrangements(block.pattern):
            events = all_events(plain.values())
            if not injective(events) or (scope and not inside(events, scope.low, scope.high)):
                continue
            if self.order == "<=" and any(event is other for event in events for other in all_events(above.values())):
                continue
            for own in self.with_members(block, above, plain, scope or self.root_bounds(events)):
                full = self.grouped(block, above, own, scope or self.root_bounds(all_events(own.values())))
                if full is not None and self.holds(block, above, full, scope):
                    yield full

    def grouped(self, block: Alternative, above: Bound, own: Bound, bounds: Bounds) -> Bound | None:
        """A match with the members of its groups, each a query over the events of its gap and of the match's key."""
        full = dict(own)
        for place in (negation.place for negation in block.negations):
            group = self.groups.get(place_name(place.item) or "")
            if group is None or self.find is None:
                continue
            low, high = self.scope(place, own, bounds)
            gap = [each for each in self.events if inside([each], low, high) and self.of_key(each, above | own)]
            more = members_of(group, own, gap, self.find)
            if more is None:
                return None
            full |= more
        return full

    def holds(self, block: Alternative, above: Bound, own: Bound, scope: Bounds | None) -> bool:
        """Whether a complete binding is short enough, satisfies the predicates, and nothing forbids it."""
        everything = all_events(own.values())
        if scope is None and not self.short_enough(everything):
            return False
        if not all(self.keeps(pause, own) for pause in block.pauses):
            return False
        bound = above | own
        if not all(self.reader.true(predicate, bound) for predicate in block.predicates):
            return False
        bounds = scope or self.root_bounds(everything)
        return not self.violated(block, bound, bounds) and not self.broken(block, bound, bounds)

    def takes(self, type: str, event: Event) -> bool:
        """Whether an event is of a type; ANY takes all events of the input, but no matches of queries."""
        return event.type not in self.queries if type == ANY else event.type == type

    # --- order -----------------------------------------------------------------------------------------------------

    def arrangements(self, pattern: Pattern) -> list[Bound]:
        """Events at the plain leaves, in the order that the pattern asks for."""
        if pattern not in self.arranged:
            self.arranged[pattern] = list(self.arrange(pattern))
        return self.arranged[pattern]

    def arrange(self, pattern: Pattern) -> Iterator[Bound]:
        match pattern:
            case Leaf(type, repeat=None):
                for event in self.events:
                    if self.takes(type, event):
                        yield {var_of(pattern): event}
            case Leaf() | Not():
                yield {}  # these wait until the others are bound
            case Seq(items):
                yield from self.in_sequence(items)
            case And() | Exists() | Marked():
                yield from self.together(items_of(pattern))
            case Iseq(comparisons, leaves, within):
                for bound in self.together(leaves):
                    near = within is None or self.short(all_events(bound.values()), ticks(within, self.reader.unit))
                    if near and all(holds(comparison, bound) for comparison in comparisons):
                        yield bound
            case Rel(relations, left, right):
                for bound in self.together((left, right)):
                    other = bound[var_of(right)]
                    rest = all_events(value for var, value in bound.items() if var != var_of(right))
                    if any(related(relation, span(rest), span(all_events([other]))) for relation in relations):
                        yield bound

    def in_sequence(self, items: Sequence[Pattern]) -> Iterator[Bound]:
        if not items:
            yield {}
            return
        for left in self.in_sequence(items[:-1]):
            for right in self.arrangements(items[-1]):
                if self.precedes(all_events(left.values()), all_events(right.values())):
                    yield left | right

    def precedes(self, left: list[Event], right: list[Event]) -> bool:
        if not left or not right:
            return True
        return COMPARE[self.order](span(left)[1], span(right)[0])

    def together(self, items: Sequence[Pattern]) -> Iterator[Bound]:
        """Any order, ties allowed."""
        if not items:
            yield {}
            return
        for left in self.together(items[:-1]):
            for right in self.arrangements(items[-1]):
                yield left | right

    # --- window and scopes -----------------------------------------------------------------------------------------

    def short_enough(self, events: list[Event]) -> bool:
        return self.width is None or self.short(events, self.width)

    def short(self, events: list[Event], width: int) -> bool:
        start, end = span(events)
        return end - start <= width if self.window == "inclusive" else end - start < width

    def root_bounds(self, events: list[Event]) -> Bounds:
        """How far the root reaches around the events of a match; to the ends of the stream without WITHIN."""
        start, end = span(events)
        if self.width is None:
            return Bounds(BEGINNING, END_OF_TIME, end)
        reach = self.width if self.window == "inclusive" else self.width - 1
        return Bounds(end - reach, start + reach, end)

    def scope(self, place: Surroundings, own: Bound, bounds: Bounds) -> tuple[int, int]:
        """The gap between the neighbours of a place as closed ticks, or as far as its block reaches."""
        step = 1 if self.order == "<" else 0
        low, high = bounds.low, bounds.high_under_and if place.under_and else bounds.high
        if place.left is not None:
            end = max(event.end for event in all_events(own[var] for var in place.left))
            low = end + max([step, *(ticks(length, self.reader.unit) for length in place.delays)])
        if place.right is not None:
            start = min(event.start for event in all_events(own[var] for var in place.right))
            high = start - step
        if isinstance(place.item, Not) and place.item.lasting is not None:
            length = ticks(place.item.lasting, self.reader.unit)
            return (end + 1, end + length - 1) if place.left is not None else (start - length, start - 1)
        return low, high

    def keeps(self, pause: Pause, own: Bound) -> bool:
        """Whether a step waits until what is absent before it has been so for long enough."""
        end = max(event.end for event in all_events(own[var] for var in pause.left))
        start = min(event.start for event in all_events(own[var] for var in pause.right))
        return all(end + ticks(length, self.reader.unit) <= start for length in pause.lengths)

    def interrupted(self, query: Query, bound: Bound) -> bool:
        """Whether an event that CONTINUITY forbids lies between the first end and the last start of a match."""
        clause, held = query.continuity, all_events(bound.values())
        if clause is None:
            return False
        named = {leaf.type for leaf in leaves_of(query.pattern)}
        low, high = min(event.end for event in held) + 1, max(event.start for event in held) - 1
        return any(
            inside([event], low, high) and self.of_key(event, bound) and not any(event is each for each in held)
            for event in self.events
            if (any(self.takes(type, event) for type in clause.types) if clause.types else
                self.takes(ANY, event) and event.type not in named)
        )  # fmt: skip

    # --- repetition ------------------------------------------------------------------------------------------------

    def with_members(self, block: Alternative, above: Bound, plain: Bound, bounds: Bounds) -> Iterator[Bound]:
        """The plain events and the members of every repetition; nothing if one has too few or too many."""
        found = [dict(plain)]
        for repetition in block.repetitions:
            found = [
                own | {repetition.var: members}
                for own in found
                for members in self.member_sets(repetition, above, own, all_events(plain.values()), bounds)
            ]
        yield from found

    def member_sets(
        self, repetition: Repetition, above: Bound, own: Bound, held: list[Event], bounds: Bounds
    ) -> Iterator[tuple[Event, ...]]:
        """The sets of members that a repetition can have beside what is bound: one, unless its mark makes several."""
        repeat, marked, bound = repetition.leaf.repeat, repetition.place.marked, above | own
        assert repeat is not None
        low, high = self.until(repetition.leaf, bound, self.scope(repetition.place, own, bounds))
        qualifying = sorted(self.members(repetition, bound, held, (low, high)), key=Event.order)
        if repetition.head is not None:
            head = own[repetition.head]
            assert isinstance(head, Event)
            if not self.qualifies(repetition, head, bound) or self.is_end(repetition.leaf, head, bound):
                return
            qualifying = [head, *qualifying]

        def apart(before: Event | None, event: Event) -> bool:
            if before is None and repetition.head is not None:
                return False
            return self.parted(marked, low if before is None else before.end + self.step, event, bound)

        yield from chosen_sets(None if marked is None else marked.mark, repeat, qualifying, apart)

    @property
    def step(self) -> int:
        """How far an event must lie behind another that it follows."""
        return 1 if self.order == "<" else 0

    def parted(self, marked: Marked | None, since: int, event: Event, bound: Bound) -> bool:
        """Whether something that NEXT forbids lies between a moment and an event."""
        return any(
            inside([other], since, event.start - self.step)
            and self.of_key(other, bound)
            and self.is_next(marked, other)
            for other in self.events
        )

    def qualifies(self, repetition: Repetition, event: Event, bound: Bound) -> bool:
        return all(self.reader.true(expr, bound | {repetition.var: event}) for expr in repetition.membership)

    def until(self, leaf: Leaf, bound: Bound, gap: tuple[int, int]) -> tuple[int, int]:
        """The gap of a repetition, up to the least start of an event in it that ends it."""
        low, high = gap
        ending = [event.start for event in self.events if inside([event], *gap) and self.is_end(leaf, event, bound)]
        return low, min([high, *(start - 1 for start in ending)])

    def is_end(self, leaf: Leaf, event: Event, bound: Bound) -> bool:
        """Whether an event ends a repetition, wherever it lies."""
        end = leaf.until
        return (
            end is not None
            and self.takes(end.type, event)
            and self.of_key(event, bound)
            and all(self.reader.true(expr, bound | {str(end.var): event}) for expr in conjuncts(end.where))
        )

    def members(self, repetition: Repetition, bound: Bound, held: list[Event], scope: tuple[int, int]) -> list[Event]:
        """All events of the type in the gap that nobody holds and for which, one by one, every conjunct is TRUE."""
        return [
            event
            for event in self.events
            if self.takes(repetition.leaf.type, event)
            and inside([event], *scope)
            and not any(event is other for other in held)
            and self.qualifies(repetition, event, bound)
        ]

    # --- negation --------------------------------------------------------------------------------------------------

    def violated(self, block: Alternative, bound: Bound, bounds: Bounds) -> bool:
        if self.negation == "all":
            return bool(block.negations) and self.all_occur(block.negations, bound, bounds, {})
        held = [bound[var] for var in block.fixed]
        return any(True for negation in block.negations for _ in self.breaches(negation, bound, bounds, held))

    def breaches(
        self, negation: Negation, bound: Bound, bounds: Bounds, held: list[Event | tuple[Event, ...]]
    ) -> Iterator[Bound]:
        """The matches of a negated part; of a set that is absent, only events that nobody holds are members."""
        item = negation.place.item
        for found in self.occurrences(negation, bound, bounds):
            if isinstance(item, NoEvent) and item.is_set:
                (event,) = all_events(found.values())
                low, _ = self.scope(negation.place, bound, bounds)
                if any(event is other for other in held) or self.parted(item.run, low, event, bound):
                    continue
            yield found

    # --- marks -----------------------------------------------------------------------------------------------------

    def broken(self, block: Alternative, bound: Bound, bounds: Bounds) -> bool:
        """Whether an event in the gap of a mark is what the mark forbids."""
        for mark in block.marks:
            low, high = self.scope(mark.place, bound, bounds)
            near = [event for event in self.events if inside([event], low, high) and self.of_key(event, bound)]
            if any(self.is_sought(mark, event, bound) for event in near):
                return True
        return False

    def of_key(self, event: Event, bound: Bound) -> bool:
        """Whether an event has the key of a match."""
        held = {var: value for var, value in bound.items() if isinstance(value, Event)}
        beside: Bound = {**held, " ": event}
        equal = [Binary("=", Attr(" ", attr), Attr(var, attr)) for attr in self.key for var in held]
        return all(self.reader.true(test, beside) for test in equal)

    def is_sought(self, mark: MarkedGap, event: Event, bound: Bound) -> bool:
        if mark.marked.mark == "NEXT":
            return self.is_next(mark.marked, event)
        rest = {var: value for var, value in bound.items() if var not in {var_of(look.leaf) for look in mark.looks}}
        return any(
            self.takes(look.leaf.type, event)
            and all(self.reader.true(expr, rest | {var_of(look.leaf): event}) for expr in look.conditions)
            for look in mark.looks
        )

    def is_next(self, marked: Marked | None, event: Event) -> bool:
        """Whether NEXT forbids an event between two that should follow on each other."""
        return marked is not None and any(self.takes(type, event) for type in marked.of or (ANY,))

    def occurrences(self, negation: Negation, bound: Bound, bounds: Bounds, after: int = BEGINNING) -> Iterator[Bound]:
        """The matches of a negated part in its gap."""
        low, high = self.scope(negation.place, bound, bounds)
        low = max(low, after)
        if isinstance(negation.place.item, NoEvent):
            low, high = self.until(negation.place.item.leaf, bound, (low, high))
        for alternative in negation.alternatives:
            yield from self.found(alternative, bound, Bounds(low, high, high))

    def all_occur(
        self, negations: Sequence[Negation], bound: Bound, bounds: Bounds, reached: dict[tuple[int, ...], int]
    ) -> bool:
        """Whether all negated parts occur together, those of one gap in the order of the text."""
        if not negations:
            return True
        first, gap = negations[0], negations[0].place.gap
        for occurrence in self.occurrences(first, bound, bounds, reached.get(gap, BEGINNING)):
            end = span(all_events(occurrence.values()))[1] + (1 if self.order == "<" else 0)
            if self.all_occur(negations[1:], bound, bounds, reached | {gap: end}):
                return True
        return False


def place_name(item: Pattern) -> str | None:
    """What the leaf is called that stands for what is negated, if one does."""
    return var_of(item.pattern) if isinstance(item, Not) and isinstance(item.pattern, Leaf) else None


def injective(events: list[Event]) -> bool:
    """No event stands at two variables of one block."""
    return len({id(event) for event in events}) == len(events)


def inside(events: list[Event], low: int, high: int) -> bool:
    return all(low <= event.start and event.end <= high for event in events)


def span(events: list[Event]) -> tuple[int, int]:
    return min(event.start for event in events), max(event.end for event in events)


def holds(comparison: Comparison, bound: Bound) -> bool:
    return COMPARE[comparison.op](moment(comparison.left, bound), moment(comparison.right, bound))


def moment(endpoint: Endpoint, bound: Bound) -> int:
    event = bound.get(endpoint.var)
    if not isinstance(event, Event):
        raise UndefinedError(f"{endpoint.var} is not one of the events of this ISEQ")
    return event.start if endpoint.which == "start" else event.end
