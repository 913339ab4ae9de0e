"""Constraints by definition: what a trace is, which words a constraint has, and what completions say of a query.

A verdict is found by trying all completions up to some length; each is a history that the oracle is asked about. What
is written here is as direct as can be, and knows no automata: an expression is derived by one event after the other
(Brzozowski), and "every completion" is a loop.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import groupby, permutations, product
from typing import Any, TypeAlias

from tocsin.events import Event, Value
from tocsin.lang.constraint_syntax import (
    AnyOf,
    Concat,
    Constraint,
    Regex,
    Repeated,
    Symbol,
    start_of,
    symbols_of,
    whole_of,
)
from tocsin.lang.syntax import (
    Attr,
    Binary,
    Expr,
    IsNull,
    Leaf,
    Literal,
    Not,
    Or,
    Query,
    Repeat,
    Same,
    Seq,
    conjuncts,
    leaves_of,
    patterns_in,
    walk,
)
from tocsin.testing.oracle import Match, matches
from tocsin.testing.oracle_endpoints import completions, ended, endpoints, of_one_event, whole
from tocsin.testing.oracle_expr import OracleEvaluator, ticks

Key: TypeAlias = tuple[Value, ...]
Kind: TypeAlias = tuple[str, Mapping[str, Value]]  # of an event that may come: its type, and its attributes
TRACE = "#trace"
NOTHING = AnyOf(())  # no word at all


# --- words ---------------------------------------------------------------------------------------------------------


def takes(symbol: Symbol, event: Event) -> bool:
    """Whether an event is what a symbol says."""
    reader = OracleEvaluator({}, None, frozenset(event.attrs))
    letter = start_of(symbol.type) if symbol.at == "-" else symbol.type
    return event.type == letter and all(reader.true(test, {symbol.type: event}) for test in conjuncts(symbol.where))


def may_be_empty(regex: Regex) -> bool:
    match regex:
        case AnyOf(parts):
            return any(map(may_be_empty, parts))
        case Concat(parts):
            return all(map(may_be_empty, parts))
        case Repeated(part, repeat):
            return repeat.least == 0 or may_be_empty(part)
    return False


def has_words(regex: Regex) -> bool:
    """Whether there is any word; conditions are taken to be possible."""
    match regex:
        case AnyOf(parts):
            return any(map(has_words, parts))
        case Concat(parts):
            return all(map(has_words, parts))
        case Repeated(part, repeat):
            return repeat.least == 0 or has_words(part)
    return True


def behind(regex: Regex, event: Event) -> Regex:
    """What may follow on an event."""
    match regex:
        case Symbol():
            return Concat(()) if takes(regex, event) else NOTHING
        case AnyOf(parts):
            return either(behind(part, event) for part in parts)
        case Concat(()):
            return NOTHING
        case Concat((first, *rest)):
            tail = Concat(tuple(rest))
            here = in_turn(behind(first, event), tail)
            return either((here, behind(tail, event))) if may_be_empty(first) else here
        case Repeated(part, Repeat(least, most)):
            if most == 0:
                return NOTHING
            again = Repeated(part, Repeat(max(0, least - 1), None if most is None else most - 1))
            return in_turn(behind(part, event), again)
    raise TypeError(regex)


def in_turn(first: Regex, then: Regex) -> Regex:
    """One and then the other, written shortly: what may follow would get longer with every event."""
    if NOTHING in (first, then):
        return NOTHING
    parts = [part for each in (first, then) for part in (each.parts if isinstance(each, Concat) else (each,))]
    return parts[0] if len(parts) == 1 else Concat(tuple(parts))


def after(constraint: Constraint, word: Iterable[Event]) -> Regex:
    """What may follow on the events of a trace; the constraint is blind to types that it does not see.

    With TIES ANY events of one time may stand in any order.
    """
    left = with_ends(constraint.regex, constraint.ends)
    mine = [event for event in word if constraint.sees(event.type)]
    for _, several in groupby(mine, key=lambda event: event.end):
        group = list(several)
        orders = permutations(group) if constraint.ties else [tuple(group)]
        left = either(reduce(behind, order, left) for order in orders)
    return left


def either(several: Iterable[Regex]) -> Regex:
    found = tuple(dict.fromkeys(each for each in several if has_words(each)))
    return found[0] if len(found) == 1 else AnyOf(found)


def with_ends(regex: Regex, ends: Sequence[str]) -> Regex:
    """The words in which an event of an ENDS type comes last, or not at all."""
    return AnyOf((_without(regex, ends), _ending(regex, ends))) if ends else regex


def _without(regex: Regex, ends: Sequence[str]) -> Regex:
    match regex:
        case Symbol(type):
            return NOTHING if type in ends else regex
        case AnyOf(parts) | Concat(parts):
            return replace(regex, parts=tuple(_without(part, ends) for part in parts))
        case Repeated(part):
            return replace(regex, part=_without(part, ends))
    raise TypeError(regex)


def _ending(regex: Regex, ends: Sequence[str]) -> Regex:
    """The words whose last event is the only one of an ENDS type."""
    match regex:
        case Symbol(type):
            return regex if type in ends else NOTHING
        case AnyOf(parts):
            return AnyOf(tuple(_ending(part, ends) for part in parts))
        case Concat(()):
            return NOTHING
        case Concat((first, *rest)):
            tail = Concat(tuple(rest))
            whole = Concat((_without(first, ends), _ending(tail, ends)))
            return AnyOf((whole, _ending(first, ends))) if may_be_empty(tail) else whole
        case Repeated(part, Repeat(least, most)):
            before = Repeated(_without(part, ends), Repeat(max(0, least - 1), None if most is None else most - 1))
            return Concat((before, _ending(part, ends)))
    raise TypeError(regex)


def is_word(constraint: Constraint, word: Iterable[Event]) -> bool:
    return may_be_empty(after(constraint, word))


# --- traces ----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Trace:
    """The events of a trace in canonical order, those that no constraint sees included; `number`: among its key's."""

    key: Key
    number: int
    events: list[Event] = field(default_factory=list)
    closed_at: int | None = None  # an event has ended it, or a pause


def traces_of(query: Query, events: Iterable[Event], unit: str | None = None) -> list[Trace]:
    """The traces of the constraints of a query, and to which of them each event belongs."""
    assert query.under is not None
    first = query.under.constraints[0]
    seen = _seen(query)
    timeout = None if first.timeout is None else ticks(first.timeout, unit)
    by_key_of: dict[Key, list[Trace]] = {}
    last: dict[Key, int] = {}
    ordered = sorted(set_of(events), key=lambda event: (event.end, event.start, repr(event.eid)))
    for end, group in groupby(ordered, key=lambda event: event.end):
        by_key: dict[Key, list[Event]] = {}
        for event in group:
            key = trace_key(first, event)
            if None not in key:
                by_key.setdefault(key, []).append(event)
        for key, mine in by_key.items():
            traces = by_key_of.setdefault(key, [Trace(key, 0)])
            if timeout is not None and key in last and last[key] + timeout < end:
                traces[-1].closed_at = last.pop(key) + timeout
                traces.append(Trace(key, len(traces)))
            traces[-1].events += mine
            if any(seen is None or event.type in seen for event in mine):
                last[key] = end
            if any(event.type in first.ends for event in mine):
                traces[-1].closed_at = end
                last.pop(key, None)
                traces.append(Trace(key, len(traces)))
    return [trace for traces in by_key_of.values() for trace in traces if trace.events]


def set_of(events: Iterable[Event]) -> list[Event]:
    """Each event once: what has one eid, type and time is one."""
    return list({(event.eid, event.type, event.start, event.end): event for event in events}.values())


def _seen(query: Query) -> set[str] | None:
    assert query.under is not None
    alphabets = [constraint.alphabet for constraint in query.under.constraints]
    return None if None in alphabets else {type for alphabet in alphabets for type in alphabet or ()}


def numbered(query: Query, trace: Trace, event: Event) -> Event:
    """An event of a trace with its number, where traces are divided: it joins the key."""
    assert query.under is not None
    divides = query.under.constraints[0].divides
    return replace(event, attrs={**event.attrs, TRACE: trace.number}) if divides else event


# --- verdicts --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TraceVerdict:
    """What completions say of the beginning of a trace.

    says     "violated" (it has none), "SAT", "UNSAT" or "undetermined"
    closed   in every completion the matches are those of the beginning by itself
    held     a match of the beginning is one of every completion
    quiet    no completion undoes a match: neither one of the beginning, nor one that comes later
    """

    says: str
    closed: bool
    held: bool
    quiet: bool = False


def verdict(query: Query, word: Sequence[Event], kinds: Sequence[Kind], most: int) -> TraceVerdict:
    """The verdict on a word by all completions of up to `most` events of some kinds."""
    assert query.under is not None
    plain, constraints = replace(query, under=None), query.under.constraints
    word, letters = ended(word), word
    mine = _found(plain, word)
    all_match, none_match, same, held, any_completion = True, True, True, set(mine), False
    for more in _completions(constraints, letters, kinds, most):
        any_completion = True
        theirs = _found(plain, [*word, *more])
        all_match, none_match = all_match and bool(theirs), none_match and not theirs
        same, held = same and theirs == mine, held & theirs
        if not (all_match or none_match or same or held):
            break  # no other completion says more
    if not any_completion:
        return TraceVerdict("violated", closed=False, held=False)
    says = "SAT" if all_match else "UNSAT" if none_match else "undetermined"
    return TraceVerdict(says, same, bool(held))


def never_undone(query: Query, word: Sequence[Event], kinds: Sequence[Kind], most: int) -> bool:
    """Whether no completion of up to `most` events undoes a match of a word, or one that comes later."""
    assert query.under is not None
    plain = replace(query, under=None)
    return all(
        _found(plain, [*word, *more[:at]]) <= _found(plain, [*word, *more])
        for more in _completions(query.under.constraints, word, kinds, most)
        for at in range(len(more))
    )


def awaits(query: Query, event: Event) -> bool:
    """Whether an answer waits for events like this one: a negated part, or a repetition, at the end of the pattern."""
    return any(_takes(query, leaf, event) for leaf in _awaited(query.pattern))


def _awaited(pattern: Any) -> Iterator[Leaf]:
    match pattern:
        case Or(items=parts):
            for part in parts:
                yield from _awaited(part)
        case Seq(items=parts):
            for part in reversed(parts):
                if isinstance(part, Not):
                    yield from leaves_of(part)
                    continue
                yield from _awaited(part)
                return
        case Leaf() if pattern.repeat is not None:
            yield pattern


def _found(query: Query, word: Sequence[Event]) -> set[Any]:
    return {match.binding for match in matches(query, word, attributes=_attributes(query))}


def _attributes(query: Query) -> frozenset[str]:
    return frozenset((*query.partition, *(node.name for node in walk(query) if isinstance(node, Attr))))


def _completions(
    constraints: Sequence[Constraint], word: Sequence[Event], kinds: Sequence[Kind], most: int
) -> Iterator[list[Event]]:
    """Events that make a word of all constraints of some word, shorter ones first."""
    if any(each.starts for each in constraints):
        lefts = [after(constraint, word) for constraint in constraints]
        shared: dict[str, Any] = {attr: 1 for each in constraints for attr in each.key}
        shared |= {attr: event.attrs[attr] for event in word[:1] for attr in shared}
        yield from completions(constraints, word, lefts, _behind_one, may_be_empty, has_words, kinds, shared, most)
        return
    begins = max((event.end for event in word), default=0) + 1
    key: dict[str, Any] = {attr: 1 for each in constraints for attr in each.key}
    key |= {attr: event.attrs[attr] for event in word[:1] for attr in key}
    waiting: deque[tuple[list[Event], list[Regex]]] = deque()
    waiting.append(([], [after(constraint, word) for constraint in constraints]))  # with what may follow on each
    while waiting:
        more, left = waiting.popleft()
        if not all(map(has_words, left)):
            continue
        if all(map(may_be_empty, left)):
            yield more
        if len(more) < most:
            at = begins + len(more)
            for type, attrs in kinds:
                event = Event(type, at, at, f"more{at}", {**key, **attrs})
                there = [_behind_one(*each, event) for each in zip(constraints, left, strict=True)]
                waiting.append(([*more, event], there))


def _behind_one(constraint: Constraint, left: Regex, event: Event) -> Regex:
    """What may follow on one more event, whose time is its own."""
    return either((behind(left, event),)) if constraint.sees(event.type) else left


def kinds_of(query: Query) -> list[Kind]:
    """Events of every type and with every value that conditions can tell apart, where they compare with constants."""
    assert query.under is not None
    named = (type for each in query.under.constraints for type in each.alphabet or each.types)
    asked: dict[str, list[Expr]] = {type: [] for type in named}
    for constraint in query.under.constraints:
        for symbol in symbols_of(constraint.regex):
            if symbol.type in asked:  # else no event of it is ever seen
                asked[symbol.type] += [] if symbol.where is None else [symbol.where]
    where = [] if query.where is None else [query.where]
    for leaf in leaves_of(query.pattern):
        asked.setdefault(leaf.type, []).extend([*where, *([] if leaf.where is None else [leaf.where])])
    found: list[Kind] = []
    for type, conditions in asked.items():
        values: dict[str, set[Any]] = {}
        for node in (node for each in conditions for node in walk(each)):
            compared = [node.left, node.right] if isinstance(node, Binary) else []
            attrs = [side.name for side in compared if isinstance(side, Attr)]
            constants = [side.value for side in compared if isinstance(side, Literal)]
            if len(attrs) == 1 and len(constants) == 1:
                values.setdefault(attrs[0], {None}).update(_around(constants[0]))
            if isinstance(node, IsNull) and isinstance(node.operand, Attr):
                values.setdefault(node.operand.name, {None}).add(0)
        names = sorted(values)
        every = product(*(sorted(values[name], key=repr) for name in names))
        found += [(type, {n: v for n, v in zip(names, chosen, strict=True) if v is not None}) for chosen in every]
    return found


def _around(value: Any) -> list[Any]:
    return [value, f"{value}x"] if isinstance(value, str) else [value - 1, value, value + 1]


# --- rows ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ToldRow:
    """A row of kind `expected`, `unconfirmed` or `violated`, with the events that it names."""

    kind: str
    key: Key
    trace: int
    events: tuple[Event, ...] = ()
    constraint: str = ""
    reason: str = ""

    def __str__(self) -> str:
        """As a case file writes it, but for its events."""
        return f"{self.kind}:" + "".join(f" {word}" for word in (self.constraint, self.reason) if word)


Judge: TypeAlias = Callable[[Sequence[Event]], TraceVerdict]
Awaits: TypeAlias = Callable[[Query, Event], bool]


@dataclass(slots=True)
class Told:
    """What is told of traces, and the events that the query sees.

    Those of a closed trace end with its closing; in a quiet one those that answers wait for are not seen any more.
    """

    rows: list[ToldRow] = field(default_factory=list)
    seen: list[Event] = field(default_factory=list)


def told_of(
    query: Query, events: Iterable[Event], judge: Judge, unit: str | None = None, awaits: Awaits = awaits
) -> Told:
    """All rows that the constraints of a query give, trace by trace."""
    told = Told()
    for trace in traces_of(query, events, unit):
        _tell(query, trace, judge, awaits, told)
    told.seen += _outside(query, events)
    return told


def _outside(query: Query, events: Iterable[Event]) -> list[Event]:
    """The events of no trace, as they lack an attribute of its key; without a number they lack the query's, too."""
    assert query.under is not None
    first = query.under.constraints[0]
    return [] if first.divides else [event for event in set_of(events) if None in trace_key(first, event)]


def trace_key(constraint: Constraint, event: Event) -> Key:
    """The values that the events of a trace share; None stands also for a value that equals nothing."""
    values = (event.attrs.get(attr) for attr in constraint.key)
    return tuple(value if value == value else None for value in values)


def _tell(query: Query, trace: Trace, judge: Judge, awaits: Awaits, told: Told) -> None:
    assert query.under is not None
    constraints, checked = query.under.constraints, query.under.checked
    plain, kinds, seen = replace(query, under=None), kinds_of(query), _seen(query)
    broken: set[str] = set()
    expected: ToldRow | None = None
    sat = mute = False
    if not checked and judge([]).closed:
        return
    quiet = not checked and judge([]).quiet
    word: list[Event] = []
    for _, several in groupby(endpoints(constraints, trace.events), key=lambda event: event.end):
        group = list(several)
        word, before = [*word, *group], word
        told.seen += [numbered(query, trace, event) for event in ended(group) if not (quiet and awaits(query, event))]
        news = [row for each in constraints if each.name not in broken for row in _broken(each, trace, word, group)]
        told.rows += news
        before = ended(before)
        given = quiet and bool(_found(plain, before))
        if news and not broken and expected is not None and not given and not _settled(plain, before, kinds):
            told.rows.append(replace(expected, kind="unconfirmed", events=news[0].events))
        broken |= {row.constraint for row in news}
        mattering = [event for event in group if _matters(query, event)]
        mute = mute or (len(mattering) > 1 and not of_one_event(mattering))  # nobody knows their order
        if broken or mute:
            continue
        found, begun = judge(word), any(seen is None or whole_of(event.type) in seen for event in word)
        if found.says == "SAT" and begun and not sat:
            sat = True
            if not found.held:
                known = {event.eid: event for event in (_whole(each, trace) for each in word)}
                taken = tuple(event for event in known.values() if accepted(query, event))
                expected = ToldRow("expected", trace.key, trace.number, taken)
                told.rows.append(expected)
        if found.closed and not checked:
            return
        quiet = not checked and (quiet or found.quiet)
    if not any(seen is None or whole_of(event.type) in seen for event in word):
        return  # events that no constraint sees are no trace
    left = [each for each in constraints if each.name not in broken and not is_word(each, word)]
    for constraint in left:
        told.rows.append(ToldRow("violated", trace.key, trace.number, (), constraint.name, "incomplete"))
    if left and not broken and expected is not None and not matches(plain, ended(word), attributes=_attributes(plain)):
        told.rows.append(replace(expected, kind="unconfirmed", events=()))


def _broken(constraint: Constraint, trace: Trace, word: list[Event], group: list[Event]) -> Iterator[ToldRow]:
    """How the events of one time, the last of a word, violate a constraint."""
    mine = [event for event in group if constraint.sees(event.type)]
    if len(mine) > 1 and not constraint.ties and not of_one_event(mine):
        yield ToldRow("violated", trace.key, trace.number, (_whole(mine[1], trace),), constraint.name, "tie")
    elif mine and not has_words(after(constraint, word)):
        yield ToldRow("violated", trace.key, trace.number, (_whole(mine[0], trace),), constraint.name, "unexpected")


def _whole(letter: Event, trace: Trace) -> Event:
    """The event of a letter, known by its eid and times."""
    return whole(letter, trace.events)


def _matters(query: Query, event: Event) -> bool:
    seen = _seen(query)
    type = whole_of(event.type)
    return seen is None or type in seen or any(leaf.type in ("", type) for leaf in leaves_of(query.pattern))


def _settled(query: Query, word: Sequence[Event], kinds: Sequence[Kind]) -> bool:
    """Whether a match of a word stays one, whatever comes next: tried with one and two more events of its keys."""
    begins = max((event.end for event in word), default=0) + 1
    keys = {repr(sorted(event.attrs.items())): event.attrs for event in word}
    left = _found(query, word)
    for key, length in product(keys.values(), (1, 2)):
        for more in product(kinds, repeat=length):
            events = [
                Event(type, begins + at, begins + at, f"any{at}", {**key, **attrs})
                for at, (type, attrs) in enumerate(more)
            ]
            left &= _found(query, [*word, *events])
    return bool(left)


def accepted(query: Query, event: Event) -> bool:
    """Whether a positive leaf of a query takes an event, by its type and by conditions on it alone."""
    negated = {id(leaf) for part in patterns_in(query.pattern) if isinstance(part, Not) for leaf in leaves_of(part)}
    return any(_takes(query, leaf, event) for leaf in leaves_of(query.pattern) if id(leaf) not in negated)


def _takes(query: Query, leaf: Leaf, event: Event) -> bool:
    if leaf.type not in ("", event.type):
        return False
    reader = OracleEvaluator({}, None, frozenset(event.attrs))
    name = leaf.var or leaf.type
    alone = [
        test
        for test in (*conjuncts(query.where), *conjuncts(leaf.where))
        if {node.var for node in walk(test) if isinstance(node, Attr)} == {name}
    ]
    return all(reader.true(test, {name: event}) for test in alone)


def key_of(query: Query) -> set[str]:
    """The attributes of `[attr]` and PARTITION BY."""
    same = (test for test in conjuncts(query.where) if isinstance(test, Same))
    return {*query.partition, *(attr for test in same for attr in test.attrs)}


def by_completions(query: Query, most: int | None = None) -> Judge:
    """The verdict of a query, found by completions of up to so many events; asked once for each word.

    A query whose key lacks that of its constraints has none.
    """
    kinds, known = kinds_of(query), dict[Any, TraceVerdict]()
    assert query.under is not None
    seen = _seen(query)
    if most is None:
        most = 5 if seen is None or all(type in seen for type, _ in kinds) else 3
    waits = any(True for _ in _awaited(query.pattern)) and not any(each.starts for each in query.under.constraints)
    silent = not set(query.under.constraints[0].key) <= key_of(query)

    def judge(word: Sequence[Event]) -> TraceVerdict:
        if silent:
            return TraceVerdict("undetermined", closed=False, held=False)
        name = tuple((event.type, tuple(sorted(event.attrs.items(), key=repr)), event.eid) for event in word)
        if name not in known:
            found = verdict(query, word, kinds, most)
            if waits and found.says != "violated":
                found = replace(found, quiet=never_undone(query, word, kinds, most))
            known[name] = found if query.within is None else replace(found, says="undetermined")
        return known[name]

    return judge


def matches_by_traces(query: Query, seen: Sequence[Event], **readings: Any) -> list[Match]:
    """The matches of a query in what it sees of its traces (`Told.seen`)."""
    assert query.under is not None
    plain = replace(query, under=None)
    if query.under.constraints[0].divides:
        plain = replace(plain, partition=(*plain.partition, TRACE))
    return matches(plain, seen, **readings)
